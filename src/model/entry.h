/* model/entry.h - the envelope of one log entry: who, when, and commands applied together.
 *
 *   0        1       2          4         12
 *   +--------+-------+----------+---------+---------------+----------------+
 *   | u8     | u8    | u16      | u64     | u8 len, actor | u8 len, origin |   header length = up to here
 *   | version| flags | header   | time_ms |               | node           |
 *   +--------+-------+----------+---------+---------------+----------------+
 *   with ENTRY_FLAG_IDEM:
 *   | u8 len, key | u64 request hash | u16 status | u32 len, body |
 *   then one or more commands:
 *   | u8 type | u32 len | payload: one msgpack array in table order |
 *
 * Little-endian; at most ENTRY_PAYLOAD_MAX bytes. The commands of an entry are applied together or not at all.
 * The body is the planned 2xx answer; ENTRY_INDEX_MARK in it stands for the entry's index.
 *
 * The bytes are immutable once the slab is shared, with one exception: the consensus thread stamps the leader's time
 * with entry_stamp_time just before it hands the entry on, while it is the only holder that looks.
 *
 * Every decoder takes its bytes as hostile.   Thread: any; a builder is its owner's.
 */
#ifndef MODEL_ENTRY_H
#define MODEL_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "base/slab.h"
#include "model/commands.h"

#define ENTRY_VERSION 1
#define ENTRY_FLAG_IDEM 1u       /* carries an idempotency record */
#define ENTRY_NAME_MAX 255       /* bytes of actor, origin and key: their length is one byte */
#define ENTRY_INDEX_MARK 0x01    /* byte in the planned body that stands for the entry's index in decimal */
#define ENTRY_COMMAND_OVERHEAD 5 /* bytes before each payload */

/* A retry of the request under this key gets this answer. */
struct entry_idem {
	struct str key; /* 1..64 printable ASCII; scoped to the actor */
	uint64_t request_hash;
	uint16_t status; /* 200..299 */
	struct str body;
};

struct entry_header {
	uint64_t time_ms;  /* Unix ms of the leader; 0 until stamped. Builders ignore it */
	struct str actor;  /* user, policy or node that asked; may be "" */
	struct str origin; /* node the request came in at */
	bool has_idem;
	struct entry_idem idem;
};

/* ---- building ---- */

struct entry_builder {
	struct buf commands; /* encoded so far */
	size_t count;
	unsigned max_type;
};

void entry_builder_init(struct entry_builder *b);
void entry_builder_fini(struct entry_builder *b);  /* accepts a zeroed struct; may run twice */
void entry_builder_clear(struct entry_builder *b); /* for the next entry; memory kept */
/* Adds one command; `payload` is the struct that COMMAND_MAP names for `type`, borrowed for the call. */
void entry_builder_add(struct entry_builder *b, enum command_type type, const void *payload);
size_t entry_builder_size(const struct entry_builder *b); /* bytes of the commands added: for keeping entries small */
/* Makes the envelope; the builder keeps its commands. *out has one reference, the caller's. ERR_TOO_LARGE over
 * ENTRY_PAYLOAD_MAX; ERR_INVALID for no command, a name over ENTRY_NAME_MAX or an idempotency record out of bounds. */
MUST_CHECK int entry_builder_finish(const struct entry_builder *b, const struct entry_header *h, struct slab **out,
                                    struct err *e);

/* Sets the time of an entry that entry_builder_finish made. Before it is shared, and once. */
void entry_stamp_time(struct slab *s, uint64_t time_ms);
/* Same, for an envelope of `len` bytes inside a larger block (a proposal copied into a batch). */
void entry_stamp_time_at(uint8_t *bytes, size_t len, uint64_t time_ms);

/* ---- reading ---- */

struct entry_view {
	struct entry_header header; /* strings point into the bytes */
	size_t count;               /* commands, at least 1 */
	unsigned max_type;          /* largest command type inside */
	const uint8_t *commands;    /* first command */
	const uint8_t *end;
};

struct entry_command {
	unsigned type;      /* may be unknown to this release: command_info says */
	struct str payload; /* not yet checked: entry_command_read does */
};

/* Checks the whole frame. ERR_CORRUPT: not an envelope; ERR_VERSION: of a newer format (version or flags unknown).
 * `out` is good as long as the bytes are, untouched on failure. */
MUST_CHECK int entry_decode(const void *bytes, size_t len, struct entry_view *out, struct err *e);

/* Walks the commands of a decoded entry: *at starts as NULL. False: no more. */
bool entry_next(const struct entry_view *v, const uint8_t **at, struct entry_command *out);

/* Decodes the payload into `out`, a struct of command_info(c->type)->payload->size bytes. ERR_VERSION: unknown type;
 * ERR_CORRUPT: the payload does not fit the type. */
MUST_CHECK int entry_command_read(const struct entry_command *c, struct arena *a, void *out, struct err *e);

/* Largest command type inside, 0 when the bytes are no envelope. */
unsigned entry_max_type(const void *bytes, size_t len);
/* The stamped time, 0 when the bytes are too short or of another version. */
uint64_t entry_time_ms(const void *bytes, size_t len);

/* Appends the planned body with the index in place of each mark. */
void entry_put_body(struct buf *out, struct str body, raft_index index);

#endif /* MODEL_ENTRY_H */
