/* wal/wal_internal.h - what the files of wal/ share. Formats and the reasons for them: README.md. */
#ifndef WAL_WAL_INTERNAL_H
#define WAL_WAL_INTERNAL_H

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "wal/wal.h"

#define WAL_VERSION 1u

#define WAL_SEGMENT_BYTES (8u << 20)     /* default size of a segment file */
#define WAL_SEGMENT_BYTES_MIN 512u       /* a header and a few records: what tests and the simulator use */
#define WAL_SEGMENT_BYTES_MAX (1u << 30) /* a file above it is not ours: offsets stay far from 32 bits */
#define WAL_TAIL_BYTES (4u << 20)        /* default of wal_options.tail_bytes_max */
#define WAL_HEADER_BYTES 64u             /* of a segment; the first record stands right behind it */
#define WAL_RECORD_BYTES 64u             /* of a record, without payload and padding */
#define WAL_FILL_BYTES (128u << 10)      /* zeros are written in pieces of this size */
#define WAL_BATCH_RECORDS 511u           /* in one pwritev: two parts each and a last padding, within IOV_MAX */
#define WAL_NAME_BYTES 24                /* "0123456789abcdef.seg", "hardstate.tmp" */

static_assert(2 * WAL_BATCH_RECORDS + 1 <= IOV_MAX, "a batch is one pwritev");

/* ---- record.c: one record ---- */

/* A place in the log: everything before `offset` of this segment, and all of the segments before it. */
struct wal_pos {
	uint64_t segment; /* sequence of the segment; 0 = before the first */
	uint32_t offset;  /* bytes */
};

static inline bool wal_pos_is_above(struct wal_pos a, struct wal_pos b)
{
	return a.segment != b.segment ? a.segment > b.segment : a.offset > b.offset;
}

struct wal_record {
	uint32_t len;           /* bytes of payload */
	uint32_t crc;           /* its own, seeded with the segment's random word */
	uint32_t prev_crc;      /* of the record before it in the log, over segments */
	uint8_t kind;           /* enum entry_kind, not judged here */
	raft_index index;       /* above 0 */
	raft_term term;         /* of the entry */
	raft_term prev_term;    /* of the entry before it: what a log that begins here starts behind */
	struct wal_pos durable; /* known to be on disk when this record was written */
	uint64_t slot_seq;      /* newest sequence of the term and vote slots, on disk when this record was written */
};

/* Bytes of a record with this much payload, padded to a multiple of 8. */
static inline uint64_t wal_record_size(uint32_t len)
{
	return WAL_RECORD_BYTES + (((uint64_t)len + 7) & ~(uint64_t)7);
}

/* Writes the fixed part; returns the CRC. r->crc is not looked at. */
uint32_t wal_record_encode(const struct wal_record *r, const void *payload, uint32_t seed, uint8_t *out);
/* Fields of the WAL_RECORD_BYTES at `p`; false when no record can look like this. Nothing is verified. */
bool wal_record_peek(const uint8_t *p, struct wal_record *out);
/* Is a whole record here, within `avail` bytes, that verifies? */
bool wal_record_decode(const uint8_t *p, size_t avail, uint32_t seed, struct wal_record *out);
/* Gives the whole record at `p` another predecessor and another seed; returns its new CRC. */
uint32_t wal_record_reseal(uint8_t *p, uint32_t prev_crc, uint32_t seed);

/* ---- segment.c: one file ---- */

struct wal_header {
	uint32_t version;
	uint64_t cluster_id;   /* 0 = not known when it was made */
	uint64_t segment;      /* its sequence, as in its name */
	uint32_t seed;         /* random; every CRC in the file starts from it */
	uint32_t start_crc;    /* what the first record has as prev_crc */
	bool anew;             /* the log starts here: segments of lower sequence are void */
	raft_index base_index; /* last index of the log when this segment was begun */
	raft_term base_term;
};

void wal_header_encode(const struct wal_header *h, uint8_t out[WAL_HEADER_BYTES]);
/* False: not a header. A header of another version is read as far as `version`. */
bool wal_header_decode(const uint8_t *p, size_t avail, struct wal_header *out);

/* ---- index.c: where entries are, for readers that take no lock ---- */

struct wal_points;

struct wal_index {
	_Atomic uint64_t version; /* odd while the log thread changes what is below */
	_Atomic(struct wal_points *) points;
	_Atomic uint64_t count;   /* of points in use */
	_Atomic raft_index first; /* 0 = empty */
	_Atomic raft_index last;  /* the base index while empty */
};

/* From here on the entries `index`, index + 1, ... stand one behind the other, up to the next span's. */
struct wal_span {
	raft_index index;
	struct wal_pos at;
};

#define WAL_SPANS 80 /* copied by one reader at a time: 64 KiB of log each, so about 5 MiB */

void wal_index_init(struct wal_index *ix);
void wal_index_fini(struct wal_index *ix);
/* Changes, by the log thread alone, between begin and end. */
void wal_index_begin(struct wal_index *ix);
void wal_index_end(struct wal_index *ix);
void wal_index_cut(struct wal_index *ix, raft_index from); /* forgets from.. */
void wal_index_note(struct wal_index *ix, raft_index index, struct wal_pos at, bool jump);
void wal_index_drop(struct wal_index *ix, uint64_t before_segment); /* forgets what stands in older segments */
void wal_index_bound(struct wal_index *ix, raft_index first, raft_index last);
/* First index that stands in a segment above `segment`; 0 = none. Log thread. */
raft_index wal_index_first_above(const struct wal_index *ix, uint64_t segment);

struct wal_look {
	raft_index first, last;
	struct wal_span spans[WAL_SPANS];
	size_t count;       /* 0: `lo` is not in the log */
	raft_index covered; /* the spans lead up to this index, at most `last` */
};
/* Where lo.. stands, all of one moment. Any thread. */
void wal_index_look(const struct wal_index *ix, raft_index lo, struct wal_look *out);

/* ---- live.c: which entries the log holds, overrides done; log thread ---- */

struct wal_live {
	raft_index base_index; /* the log starts behind it */
	raft_term base_term;
	raft_index last_index;        /* base_index while empty */
	struct wal_term_range *terms; /* of base_index + 1 .. last_index, ascending */
	size_t term_count;
	size_t term_cap;
	struct wal_index index;
};

void wal_live_init(struct wal_live *l);
void wal_live_fini(struct wal_live *l);
void wal_live_restart(struct wal_live *l, raft_index base_index, raft_term base_term); /* empty, behind base */
/* One more record was written. Its index is base_index + 1 .. last_index + 1. Between wal_index_begin and _end. */
void wal_live_note(struct wal_live *l, raft_index index, raft_term term, struct wal_pos at);
raft_term wal_live_term(const struct wal_live *l, raft_index index); /* base_index .. last_index */
/* Segments before this one are gone. */
void wal_live_drop(struct wal_live *l, uint64_t before_segment);

/* ---- the handle ---- */

/* One copy of term and vote in a slot of the file `hardstate`. */
struct wal_slot {
	uint64_t seq; /* counts writes; its lowest bit is the slot's number */
	raft_term term;
	node_id vote;
	struct wal_pos durable; /* of the log, known when this was written */
};

/* Names of files that are not yet part of the log; wal_open removes them. */
#define WAL_SPARE_NAME "next.tmp" /* the pool's: zeros, waiting to become a segment */
#define WAL_NEW_NAME "roll.tmp"   /* the log thread's: a segment being made */
#define WAL_SLOTS_NEW_NAME "hardstate.tmp"

#define WAL_SLOTS_NAME "hardstate"

/* What an operator can do when the log or the vote is not what was written: nothing else is safe, since what is lost
 * may have been acknowledged. Stands at the end of every such refusal. */
#define WAL_REMEDY                                                                                                     \
	"; put the files of wal/ back as they were, or move the data directory away and join anew with an empty one"
#define WAL_REMEDY_VERSION "; start the release that wrote it"
#define WAL_SLOT_STRIDE 4096u /* from one slot of term and vote to the other */

enum wal_spare { WAL_SPARE_NONE, WAL_SPARE_BUSY, WAL_SPARE_READY };

#define WAL_PAD_BYTES 8u /* room for the padding of the record before, which goes out with the head */

struct wal_head {
	uint8_t bytes[WAL_PAD_BYTES + WAL_RECORD_BYTES]; /* the first WAL_PAD_BYTES stay zero */
};

struct wal {
	/* fixed after wal_open */
	char *dir;
	int dir_fd;
	bool read_only;
	size_t segment_bytes;

	/* log thread */
	uint64_t cluster_id;
	int fd;                 /* the current segment; -1 in a read-only handle */
	uint64_t first_segment; /* oldest kept; sequences are contiguous up to `end.segment` */
	struct wal_pos end;     /* where the next record goes */
	struct wal_pos durable; /* everything before it is on disk */
	uint32_t seed;          /* of the current segment */
	uint32_t last_crc;      /* of the newest record */
	int slot_fd;            /* opened with O_DSYNC */
	struct wal_slot slot;   /* newest, on disk */
	struct iovec parts[2 * WAL_BATCH_RECORDS + 1];
	struct wal_head heads[WAL_BATCH_RECORDS];
	struct wal_live live;

	/* pool thread while BUSY, else log thread */
	int spare_fd;

	/* any thread */
	_Atomic int spare;               /* enum wal_spare */
	_Atomic uint64_t spare_retry_ms; /* monotonic: no new attempt before */
	_Atomic int failed;              /* 0 no, 1 its message is being written, 2 yes */
	char failed_msg[256];            /* readable while `failed` is 2 */
};

/* ---- file.c: system calls with their errors said ---- */

#define WAL_PATH_BYTES PATH_MAX
void wal_path(const struct wal *w, const char *name, char out[WAL_PATH_BYTES]);
void wal_segment_name(uint64_t segment, char out[WAL_NAME_BYTES]);

/* A failed call of errno `errnum`: ERR_FULL or ERR_IO with a sentence. `what` completes "cannot ...". */
int wal_errno(struct err *e, int errnum, const struct wal *w, const char *what, const char *name);
/* The same, and nothing is written through this handle any more. errnum 0: a short write. */
int wal_fail(struct wal *w, struct err *e, int errnum, const char *what, const char *name);
/* ERR_IO once the handle has failed. */
int wal_check(const struct wal *w, struct err *e);

/* For new files only: continues after a short write, since nothing depends on the file yet. Returns an errno or 0. */
int wal_write_all(int fd, const void *bytes, size_t len, uint64_t offset);
int wal_write_zeros(int fd, uint64_t from, uint64_t to, bool paced); /* and syncs; an errno or 0 */
/* Bytes read (fewer only at the end of the file), or -errno. */
ssize_t wal_read_all(int fd, void *out, size_t len, uint64_t offset);
int wal_sync_parent(const char *dir); /* of the directory's own entry; an errno or 0 */

/* ---- the other files ---- */

/* segment.c: begins a segment behind the current one, with its header on disk and its name in the directory. On failure
 * the handle is dead. Without a current segment this makes the first one. */
MUST_CHECK int wal_segment_begin(struct wal *w, bool anew, raft_index base_index, raft_term base_term, struct err *e);
/* segment.c: puts a new file in the place of segment w->end.segment, holding header `h` with a fresh seed and the first
 * w->end.offset bytes of `bytes` resealed (in place), synced; it becomes the current one. */
MUST_CHECK int wal_segment_rewrite(struct wal *w, struct wal_header *h, uint8_t *bytes, struct err *e);

/* prepare.c: a spare segment. Paced when others use the disk meanwhile. */
MUST_CHECK int wal_make_spare(struct wal *w, bool paced, struct err *e);

/* What examining the directory found; nothing was changed. */
struct wal_found {
	uint64_t *segments; /* sequences of all segment files, ascending */
	size_t segment_count;
	size_t void_count; /* the first so many are void */
	bool leftovers;    /* a *.tmp is there */
	bool has_slots;
	bool slots_damaged;     /* at least one copy is bad or of another write than its neighbours */
	struct wal_header tail; /* header of the last segment */
	uint8_t *bytes;         /* its content; w->end.offset of them are valid */
	size_t bytes_cap;
	raft_index dropped_index;
	uint32_t *lens; /* payload bytes of the live entries, from live.base_index + 1 on */
	size_t len_count, len_cap;
	raft_index *confs; /* live entries of kind ENTRY_CONFIG, ascending */
	size_t conf_count, conf_cap;
};
/* recover.c. Fills what the log thread knows of `w`. */
MUST_CHECK int wal_examine(struct wal *w, struct wal_found *f, struct err *e);
void wal_found_fini(struct wal_found *f);

/* hardstate.c */
struct wal_slots {
	bool found;      /* the file is there */
	bool is_initial; /* nothing was ever put */
	bool is_damaged;
	struct wal_slot newest;
	struct wal_pos durable; /* highest any copy declares */
};
MUST_CHECK int wal_slots_load(const struct wal *w, struct wal_slots *out, struct err *e);
MUST_CHECK int wal_slots_create(struct wal *w, struct err *e);
MUST_CHECK int wal_slots_open(struct wal *w, struct err *e);
MUST_CHECK int wal_slot_write(struct wal *w, raft_term term, node_id vote, struct err *e);

#endif /* WAL_WAL_INTERNAL_H */
