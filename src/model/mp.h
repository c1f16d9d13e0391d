/* model/mp.h - msgpack in and out: one check for bytes from a peer or a disk, and small wrappers.
 *
 * node/ and net/ write frames with struct mp_writer and read them with struct mp_reader, without msgpack.h. Bytes that
 * came from outside pass mp_check first: one walk, each count at most the bytes left (a five-byte header can claim four
 * billion elements), depth at most MP_DEPTH_MAX, nothing behind the value. The reader checks its bounds again, never
 * allocates, and keeps the first failure: read everything, then ask mp_read_end once.
 *
 * Ownership: input is borrowed; strings that a reader gives point into it.   Thread: any; each object is its owner's.
 * Source: the msgpack specification.
 */
#ifndef MODEL_MP_H
#define MODEL_MP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define MP_DEPTH_MAX 16 /* nested arrays and maps */

/* ERR_CORRUPT with the reason and the offset. */
MUST_CHECK int mp_check(const void *bytes, size_t len, struct err *e);

/* ---- writing: appends to a buffer; cannot fail ---- */

struct mp_writer {
	struct buf *out; /* borrowed */
};

void mp_put_nil(struct mp_writer *w);
void mp_put_bool(struct mp_writer *w, bool v);
void mp_put_i64(struct mp_writer *w, int64_t v); /* the shortest form */
void mp_put_u64(struct mp_writer *w, uint64_t v);
void mp_put_str(struct mp_writer *w, struct str s); /* at most 4 GiB - 1 */
void mp_put_bin(struct mp_writer *w, const void *bytes, size_t len);
void mp_put_array(struct mp_writer *w, size_t count); /* `count` values follow */
void mp_put_map(struct mp_writer *w, size_t count);   /* `count` keys, each with its value, follow */

/* ---- reading ---- */

enum mp_type {
	MP_NONE, /* no bytes left, or the reader failed */
	MP_NIL,
	MP_BOOL,
	MP_INT, /* signed or unsigned; mp_read_i64 and mp_read_u64 check the range */
	MP_FLOAT,
	MP_STR,
	MP_BIN,
	MP_ARRAY,
	MP_MAP,
	MP_EXT,
};

struct mp_reader {
	const uint8_t *p; /* next byte */
	const uint8_t *end;
	const char *error; /* first failure; NULL while all is well. Later reads give zero values */
};

void mp_reader_init(struct mp_reader *r, const void *bytes, size_t len);
enum mp_type mp_peek(const struct mp_reader *r); /* type of the next value */
bool mp_read_nil(struct mp_reader *r);           /* takes a nil if one is next; false, and takes nothing, if not */
bool mp_read_bool(struct mp_reader *r);
int64_t mp_read_i64(struct mp_reader *r);
uint64_t mp_read_u64(struct mp_reader *r);
uint32_t mp_read_u32(struct mp_reader *r);
struct str mp_read_str(struct mp_reader *r); /* valid UTF-8, else a failure */
struct str mp_read_bin(struct mp_reader *r);
size_t mp_read_array(struct mp_reader *r);                /* element count, at most the bytes left */
size_t mp_read_map(struct mp_reader *r);                  /* pair count, at most half the bytes left */
void mp_read_array_of(struct mp_reader *r, size_t count); /* an array of exactly `count` elements, else a failure */
void mp_read_skip(struct mp_reader *r);                   /* passes over one value of any type */
void mp_read_fail(struct mp_reader *r, const char *why);  /* notes a failure of the caller's own; `why` is static */
bool mp_read_ok(const struct mp_reader *r);
MUST_CHECK bool mp_read_end(const struct mp_reader *r); /* no failure and no bytes left */

#endif /* MODEL_MP_H */
