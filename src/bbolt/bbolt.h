/* bbolt/bbolt.h - reading and writing bbolt files (format version 2), in a bounded amount of memory.
 *
 * Reading: bbolt_open judges both meta pages and the free list; a walk then yields buckets and records in key order,
 * one at a time. Nothing is believed: every page must say its own number, lie below the high-water mark, be reached
 * once and not be free; keys must rise; an element's bytes must stand where bbolt puts them. What does not fit is
 * ERR_CORRUPT with the page and the reason, never a guess. Pages are read with pread, so a file that is cut short under
 * the reader is an error and not a signal. Memory: the pages from the root down to the one being read.
 *
 * Writing: buckets and records are given in key order and laid down once, from the leaves up; memory is one page and
 * the branches above it for each open bucket. The file is whole when bbolt_writer_finish has returned, and nothing
 * before.
 *
 * Thread: any; each object belongs to one at a time.   Source: go.etcd.io/bbolt 1.3.6, the files page.go, node.go,
 * bucket.go, freelist.go, db.go.
 */
#ifndef BBOLT_BBOLT_H
#define BBOLT_BBOLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define BBOLT_KEY_MAX 32768                /* bytes of a key or a bucket's name */
#define BBOLT_RUN_MAX (UINT64_C(32) << 20) /* bytes of one page with its overflow pages: what a reader must hold */

/* ---- reading ---- */

struct bbolt_file;

struct bbolt_info {
	uint32_t page_size;    /* bytes */
	uint64_t file_len;     /* bytes */
	uint64_t page_count;   /* the high-water mark: pages below it are in use or free */
	uint64_t txn_id;       /* of the last commit */
	uint64_t free_pages;   /* 0 when the free list is not kept in the file */
	bool keeps_freelist;   /* false: written with NoFreelistSync */
	unsigned meta;         /* which meta page counts, 0 or 1 */
	char damaged_meta[96]; /* why the other one does not; "" = it verifies. bbolt, too, goes on with one */
};

/* ERR_BUSY: a process has it open for writing. ERR_CORRUPT, ERR_VERSION (another format), ERR_NOTFOUND, ERR_IO. */
MUST_CHECK int bbolt_open(const char *path, struct bbolt_file **out, struct err *e);
/* Of a descriptor, which is taken, whatever is answered; `name` is for messages. Takes no lock. */
MUST_CHECK int bbolt_open_fd(int fd, const char *name, struct bbolt_file **out, struct err *e);
void bbolt_close(struct bbolt_file *f); /* accepts NULL */
const struct bbolt_info *bbolt_get_info(const struct bbolt_file *f);

enum bbolt_event {
	BBOLT_END, /* the whole tree, or the bucket that was opened, has been walked */
	BBOLT_RECORD,
	BBOLT_BUCKET, /* what follows stands in it */
	BBOLT_BUCKET_END,
};

/* Strings are borrowed until the next call on the walk. */
struct bbolt_item {
	enum bbolt_event event;
	struct str key;    /* of RECORD and BUCKET */
	struct str value;  /* of RECORD */
	uint64_t sequence; /* of BUCKET */
	unsigned depth;    /* buckets around it; 0 = it stands in the root */
};

struct bbolt_walk;

/* The file must outlive the walk. */
struct bbolt_walk *bbolt_walk_new(struct bbolt_file *f);
void bbolt_walk_free(struct bbolt_walk *w); /* accepts NULL */
/* ERR_CORRUPT, ERR_TOO_LARGE (one value over BBOLT_RUN_MAX), ERR_IO; then the walk is over. */
MUST_CHECK int bbolt_walk_next(struct bbolt_walk *w, struct bbolt_item *out, struct err *e);
/* After BBOLT_BUCKET: passes over what is in it, unread; no BUCKET_END comes. */
void bbolt_walk_skip(struct bbolt_walk *w);
/* On a new walk: goes to the bucket of the root with this name; BBOLT_END comes where it ends. ERR_NOTFOUND. */
MUST_CHECK int bbolt_walk_bucket(struct bbolt_walk *w, struct str name, struct err *e);
/* Pages read so far, overflow pages too, and of a walk over everything that reached BBOLT_END: pages that are neither
 * in the tree nor free (bbolt loses some; nothing is wrong with the rest). */
uint64_t bbolt_walk_pages(const struct bbolt_walk *w);
uint64_t bbolt_walk_lost_pages(const struct bbolt_walk *w);

/* ---- writing ---- */

struct bbolt_writer;

/* Writes from offset 0 of an empty file; the descriptor is borrowed. `page_size` a power of two from 1,024 to 65,536;
 * of the two meta pages one names `txn_id` (at least 2), the other the one before. */
struct bbolt_writer *bbolt_writer_new(int fd, const char *name, uint32_t page_size, uint64_t txn_id);
void bbolt_writer_free(struct bbolt_writer *w); /* accepts NULL; what was written is no file of any kind yet */
/* Keys of one bucket, records and buckets alike, in rising byte order. ERR_INVALID: out of order, empty or too long (or
 * a record outside of any bucket); ERR_FULL, ERR_IO. After a failure the writer is only good for bbolt_writer_free. */
MUST_CHECK int bbolt_writer_put(struct bbolt_writer *w, struct str key, struct str value, struct err *e);
MUST_CHECK int bbolt_writer_begin_bucket(struct bbolt_writer *w, struct str name, uint64_t sequence, struct err *e);
MUST_CHECK int bbolt_writer_end_bucket(struct bbolt_writer *w, struct err *e);
/* Every bucket has been ended: root and meta pages; synced on return. */
MUST_CHECK int bbolt_writer_finish(struct bbolt_writer *w, struct err *e);
uint64_t bbolt_writer_bytes(const struct bbolt_writer *w); /* length of the file so far */

#endif /* BBOLT_BBOLT_H */
