/* node/wire.h - the bodies of frames between nodes: raft messages, the bootstrap round, registration, joining.
 *
 * Every body is one msgpack value. A raft message refers to the payloads of its entries where they lie (pieces with a
 * slab), so nothing large is copied on the way out; what comes in points into the frame's slab. Bytes that came in are
 * hostile: each reader walks them with mp_check first and answers ERR_CORRUPT with the reason.
 * Thread: consensus.
 */
#ifndef NODE_WIRE_H
#define NODE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "model/field.h"
#include "net/peers.h"
#include "raft/raft.h"

enum wire_frame {
	WIRE_RAFT = 1,  /* struct raft_msg */
	WIRE_PROBE = 2, /* "are you empty?", from the node that is to bootstrap */
	WIRE_PROBE_REPLY = 3,
	WIRE_REGISTER = 4, /* a member record, to the leader */
	WIRE_REGISTER_REPLY = 5,
	WIRE_JOIN = 6, /* "take me in", to anybody; whoever does not lead passes it on, once */
	WIRE_JOIN_REPLY = 7,
};

#define WIRE_ENTRIES_MAX (1u << 18) /* of one message: bounds what a small hostile body can make us allocate */
#define WIRE_COPY_MAX 512 /* payloads up to this many bytes are copied beside the header: cheaper than a piece */

/* A body under construction. Zeroed is empty; reused from frame to frame. */
struct wire_out {
	struct buf head;       /* everything but the large payloads */
	struct wire_cut *cuts; /* where a payload stands between two runs of head */
	size_t cut_count, cut_cap;
	struct net_piece *pieces; /* made by wire_pieces */
	size_t piece_cap;
};

void wire_out_fini(struct wire_out *o);
/* The pieces of the body built last, borrowed until the next call with `o`. Head pieces carry no slab: net copies. */
const struct net_piece *wire_pieces(struct wire_out *o, size_t *count);

/* `m->entries` and their slabs must live until the pieces were sent. */
void wire_put_msg(struct wire_out *o, uint64_t cluster_id, const struct raft_msg *m);
/* Entries point into `slab`, which holds `body`; no counts are taken. Arrays and the configuration come from `a`. */
MUST_CHECK int wire_get_msg(struct slab *slab, const uint8_t *body, size_t len, struct arena *a, uint64_t *cluster_id,
                            struct raft_msg *out, struct err *e);

/* ---- small bodies: one record each, converted by their tables ---- */

struct wire_probe {
	uint64_t round;
};

struct wire_probe_reply {
	uint64_t round;      /* of the question */
	uint64_t cluster_id; /* 0 = none yet */
	bool empty;          /* holds no Raft configuration */
	struct str addr;     /* advertised cluster address */
};

/* What a server says of itself. The leader adds the time. */
struct wire_register {
	uint64_t request; /* echoed in the answer */
	struct str id;
	struct str addr; /* HTTP */
	struct str cluster_addr;
	struct str build;
	uint32_t entry_types;
	bool extra; /* placeable and tags are to be written too (command MEMBER_EXTRA) */
	bool placeable;
	struct str_map tags;
};

struct wire_register_reply {
	uint64_t request;
	int64_t code; /* as struct node_completion */
	raft_index index;
};

struct wire_join {
	struct str id;
	node_id incarnation;
	struct str addr; /* advertised cluster address */
	bool voter;      /* false: --learner */
	bool fresh;      /* it never was a member of the cluster */
	bool passed_on;
};

enum wire_join_code {
	WIRE_JOIN_ADMITTED = 0,
	WIRE_JOIN_DEFERRED = 1, /* not now */
	WIRE_JOIN_REFUSED = 2,
	WIRE_JOIN_REMOVED = 3, /* it was a member and is none any more: it must not ask again by itself */
};

struct wire_join_reply {
	uint32_t code; /* enum wire_join_code */
	struct str text;
};

extern const struct record_type wire_probe_type, wire_probe_reply_type, wire_register_type, wire_register_reply_type;
extern const struct record_type wire_join_type, wire_join_reply_type;

/* Replaces what `o` held by the record; it is then one piece. */
void wire_put_record(struct wire_out *o, const struct record_type *t, const void *rec);
/* Reading is record_read_mp: it checks the bytes first. Strings point into the body. */

#endif /* NODE_WIRE_H */
