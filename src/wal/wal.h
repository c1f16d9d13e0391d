/* wal/wal.h - the durable Raft log: segments of records, and the slots for term and vote.
 *
 * Good path: wal_append writes records with one pwritev per segment touched, wal_sync makes them durable; everything
 * that queued meanwhile shares the next sync. A conflict is overridden by a later record of lower index, never erased.
 * How it fails: any failed write or sync is final - every later call answers ERR_IO and the node stops; a restart
 * re-reads the log. A full disk is ERR_FULL from the call that met it, and as final. Formats and recovery are drawn in
 * wal/README.md.
 * Thread: log, except wal_read and wal_prepare_segment (work pool; they take no lock the log thread waits for) and what
 * says "any thread". wal_open and wal_close: nobody else uses the handle.
 */
#ifndef WAL_WAL_H
#define WAL_WAL_H

#include "base/entry.h"
#include "base/err.h"

struct wal;

struct wal_options {
	const char *dir;       /* "<data>/wal"; created 0700 if absent */
	uint64_t cluster_id;   /* stamped into segment headers; a segment of another: ERR_IDENTITY. 0 = not known yet */
	size_t segment_bytes;  /* 0 = 8 MiB; tests and the simulator use small ones, 512 bytes at least */
	size_t tail_bytes_max; /* payload of the last entries to load; 0 = 4 MiB */
	bool read_only;        /* look, change nothing (tools) */
};

struct wal_term_range {
	raft_index first;
	raft_term term;
};

/* What recovery found. Owned by the caller: wal_recovered_fini. */
struct wal_recovered {
	bool fresh;     /* nothing was there: no segment and no slot */
	raft_term term; /* hard state */
	node_id vote;
	raft_index first_index; /* 0 = empty log */
	raft_index last_index;  /* base_index in an empty log */
	raft_index base_index; /* the log starts behind this index (first_index - 1 unless empty); 0 = from the start */
	raft_term base_term;
	struct wal_term_range *terms;
	size_t term_count;
	struct entry *tail; /* last entries, ascending; slab counts owned */
	size_t tail_count;
	struct entry confs[2]; /* newest ENTRY_CONFIG [0] and the one before [1]; index 0 = none; slab counts owned */
	raft_index dropped_index; /* a torn last record was dropped: the index it would have had; 0 = none */
};

/* Opens and recovers. The valid part of the tail segment is rewritten to a new file and synced before this returns, and
 * so are term and vote. ERR_CORRUPT: damage before a record declared durable, a slot without one good copy, or slots
 * older than the log; nothing is changed and the message names file, offset and index. ERR_VERSION, ERR_IDENTITY,
 * ERR_IO, ERR_FULL. `rec` is valid (zeroed) on failure too. */
MUST_CHECK int wal_open(const struct wal_options *o, struct wal **out, struct wal_recovered *rec, struct err *e);
void wal_recovered_fini(struct wal_recovered *rec);
/* Was a log ever made here? True from the first wal_open on, whatever the log holds, also when term and vote were lost
 * since (wal_open then says so); looks, opens nothing. */
bool wal_is_there(const char *dir);
void wal_close(struct wal *w); /* no sync; accepts NULL */

/* Cluster id for segments made from here on, once it is known. */
void wal_set_cluster_id(struct wal *w, uint64_t cluster_id);

/* Writes term and vote to the slot whose turn it is, durable on return. */
MUST_CHECK int wal_put_hardstate(struct wal *w, raft_term term, node_id vote, struct err *e);
/* Writes records; not durable before wal_sync. Indexes are consecutive; the first may be at or below the last index
 * (override) but above base_index. Their terms never fall and are at most that of the hard state: put that first. */
MUST_CHECK int wal_append(struct wal *w, const struct entry *entries, size_t n, struct err *e);
MUST_CHECK int wal_sync(struct wal *w, struct err *e);
/* Drops everything; the log starts anew behind (index, term): after a snapshot was installed. Durable on return. */
MUST_CHECK int wal_reset(struct wal *w, raft_index index, raft_term term, struct err *e);
/* Removes whole segments that hold nothing above `upto`. */
MUST_CHECK int wal_compact(struct wal *w, raft_index upto, struct err *e);

raft_index wal_first_index(const struct wal *w); /* 0 = empty; any thread */
raft_index wal_last_index(const struct wal *w);  /* the base index while empty; any thread */

/* Reads lo..hi, stopping after bytes_max of payload (one entry at least), after `cap` entries, or earlier: ask again
 * from the next index for more. Entries point into slabs; the caller owns a count each. How many: *n, 0 when lo is
 * above the last index. All come from one moment of the log, but an override may have replaced them since: compare
 * terms. ERR_NOTFOUND: lo is compacted away. ERR_CORRUPT: bytes do not verify. Neither is final for the handle. Work
 * pool. */
MUST_CHECK int wal_read(struct wal *w, raft_index lo, raft_index hi, size_t bytes_max, struct entry *out, size_t cap,
                        size_t *n, struct err *e);

/* Is a zero-filled next segment missing? Then somebody of the work pool should call wal_prepare_segment. False while
 * one is being made, and for a second after making one failed. Any thread. */
bool wal_wants_segment(const struct wal *w);
/* Without one the log thread makes its next segment itself, unfilled. ERR_FULL: no room; not final, the log goes on in
 * the segment it has. ERR_IO: final unless the file could not even be opened. One call at a time does something. */
MUST_CHECK int wal_prepare_segment(struct wal *w, struct err *e);

#endif /* WAL_WAL_H */
