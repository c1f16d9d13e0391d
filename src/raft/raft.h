/* raft/raft.h - consensus as a pure state machine: events in, effects out.
 *
 * The core has no I/O, clock, thread, callback, log call or libc random. The driver (src/node) gives it time with
 * raft_tick, messages with raft_step, work with raft_propose and friends, and results of the work it asked for; after
 * each batch of inputs it calls raft_ready and carries the effects out in the order of struct raft_ready. What must be
 * durable before a message may leave is the core's affair: such messages stay inside until raft_persisted.
 *
 * Ownership: inputs are borrowed for the call (the core takes its own slab counts). All pointers in struct raft_ready
 * are borrowed until the next call that is given the same struct raft (the calls under "looking" excepted).
 * Thread: consensus.
 * Source: Ongaro, "Consensus: bridging theory and practice", chapters 3, 4, 6, 9.6.
 */
#ifndef RAFT_RAFT_H
#define RAFT_RAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/entry.h"
#include "base/err.h"

#define RAFT_SERVERS_MAX 16    /* voters and learners together */
#define RAFT_NAME_MAX 63       /* bytes of a server's name (--id) */
#define RAFT_ADDR_MAX 261      /* bytes of host:port */
#define RAFT_ENTRY_OVERHEAD 32 /* what an entry costs beside its payload, in every limit that is given in bytes */

/* ---- configuration: who counts. Identity is the incarnation, so a wiped directory is nobody we know. ---- */

struct raft_server {
	node_id id;                   /* incarnation of its data directory */
	bool voter;                   /* false: learner */
	bool staged;                  /* a learner that its driver means to promote; never set on a voter */
	char name[RAFT_NAME_MAX + 1]; /* --id */
	char addr[RAFT_ADDR_MAX + 1]; /* cluster address, host:port */
};

struct raft_conf {
	uint32_t count;
	struct raft_server servers[RAFT_SERVERS_MAX]; /* ordered by name */
};

void raft_conf_encode(const struct raft_conf *c, struct buf *out);
MUST_CHECK int raft_conf_decode(const void *bytes, size_t len, struct raft_conf *out, struct err *e);
const struct raft_server *raft_conf_find(const struct raft_conf *c, node_id id);            /* NULL: absent */
const struct raft_server *raft_conf_find_name(const struct raft_conf *c, const char *name); /* NULL: absent */

/* ---- messages between cores; net and node carry them, only the core reads them ---- */

enum raft_msg_type {
	RAFT_MSG_PREVOTE = 1,
	RAFT_MSG_PREVOTE_REPLY = 2,
	RAFT_MSG_VOTE = 3,
	RAFT_MSG_VOTE_REPLY = 4,
	RAFT_MSG_APPEND = 5, /* also the heartbeat */
	RAFT_MSG_APPEND_REPLY = 6,
	RAFT_MSG_TIMEOUT_NOW = 7, /* leadership transfer: campaign at once */
	RAFT_MSG_READ = 8,        /* a follower asks for a read index */
	RAFT_MSG_READ_REPLY = 9,
	RAFT_MSG_SNAPSHOT = 10, /* one chunk of an image */
	RAFT_MSG_SNAPSHOT_REPLY = 11,
};

/* One flat record; each type uses the fields its comment names, the rest are 0. */
struct raft_msg {
	enum raft_msg_type type;
	node_id from, to;
	raft_term term; /* sender's term (PREVOTE: the term it would take) */
	/* VOTE, PREVOTE: last log index. APPEND: previous index. APPEND_REPLY: match, or on a rejection the previous
	 * index it refused. READ_REPLY: read index. SNAPSHOT(_REPLY): its index. */
	raft_index index;
	raft_term log_term; /* VOTE, PREVOTE: last log term. APPEND: previous term. SNAPSHOT: its term */
	raft_index commit;  /* APPEND: leader's commit index. APPEND_REPLY: replier's last index */
	raft_index hint; /* APPEND_REPLY: agrees up to here, durable or not; rejected: highest index that may agree */
	raft_term hint_term; /* APPEND_REPLY rejected: term of the replier's entry there; 0 = before its log */
	uint64_t round;  /* APPEND: read round being confirmed; echoed in APPEND_REPLY. READ(_REPLY): asker's context */
	uint64_t offset; /* SNAPSHOT: of this chunk in bytes. SNAPSHOT_REPLY: next byte wanted */
	uint64_t size;   /* SNAPSHOT: of the whole image in bytes */
	bool flag;       /* replies: granted / accepted / ok. VOTE: leadership was handed over */
	const struct entry *entries; /* APPEND */
	size_t entry_count;          /* APPEND */
	const uint8_t *data;         /* SNAPSHOT: chunk; inside `slab` */
	size_t data_len;
	struct slab *slab;            /* SNAPSHOT: holds `data` */
	const struct raft_conf *conf; /* SNAPSHOT: configuration at its index (first chunk; NULL on the others) */
};

/* ---- making one ---- */

struct raft_params {
	node_id self;
	uint64_t seed;         /* of the election timeouts' generator */
	uint32_t heartbeat_ms; /* default 100 */
	uint32_t election_ms;  /* timeouts are drawn from election_ms .. 2 x election_ms; default 500 */
	/* Bytes of entries are counted as payload plus RAFT_ENTRY_OVERHEAD each, so that empty ones are bounded too. */
	size_t append_bytes_max;      /* in one APPEND; default 256 KiB, one entry always fits */
	size_t inflight_bytes_max;    /* un-acknowledged, per peer; default 2 MiB */
	size_t cache_bytes_max;       /* entries kept in memory behind the durable end; default 4 MiB */
	size_t uncommitted_bytes_max; /* raft_propose answers ERR_FULL past it; default 16 MiB */
	size_t apply_entries_max;     /* handed out and not yet applied; default 4096 */
};
void raft_params_default(struct raft_params *p);

/* A range of consecutive entries of one term; the whole log as such ranges is the in-memory term table. */
struct raft_term_range {
	raft_index first; /* the range ends before the next range's first, the last one at last_index */
	raft_term term;
};

/* What the node found on disk. Zeroed: a fresh directory. The caller has checked that there is no gap: first_index is
 * at most snapshot_index + 1, and applied_index lies at or above snapshot_index and first_index - 1. A log that ends
 * before the snapshot, or disagrees with it, is legal (a crash in the middle of an install): it is dropped by the first
 * raft_persist. */
struct raft_start {
	raft_term term; /* stored hard state */
	node_id vote;
	raft_index snapshot_index; /* 0 = none */
	raft_term snapshot_term;
	const struct raft_conf *snapshot_conf; /* at snapshot_index; sent along with the image. NULL only without one */
	raft_index first_index;                /* of the log; 0 = empty log */
	raft_index last_index;                 /* all durable */
	raft_term base_term;                   /* of the entry before first_index; 0 = not known */
	const struct raft_term_range *terms;   /* ascending, covering first_index..last_index */
	size_t term_count;
	const struct entry *tail; /* the last entries, at most cache_bytes_max; may be empty */
	size_t tail_count;
	raft_index applied_index;     /* what fsm.mdb holds; nothing at or below it is handed out */
	const struct raft_conf *conf; /* newest in the log, else the snapshot's; NULL = none: it waits to be told */
	raft_index conf_index;        /* where it stands; 0 = in the snapshot */
	const struct raft_conf *conf_prev; /* the one before it (a truncation may roll back to it); NULL = none */
	raft_index conf_prev_index;
};

struct raft *raft_new(const struct raft_params *p, const struct raft_start *s, uint64_t now_ms);
void raft_free(struct raft *r); /* accepts NULL */

/* ---- inputs ---- */

void raft_tick(struct raft *r, uint64_t now_ms); /* monotonic; at the start of each turn, before other inputs */
void raft_step(struct raft *r, const struct raft_msg *m);

/* Appends on the leader. Fills index and term of each entry (the caller keeps its slab counts). ERR_NOT_LEADER, or
 * ERR_FULL while too much is uncommitted; then nothing was appended. During a transfer: ERR_NOT_LEADER. */
MUST_CHECK int raft_propose(struct raft *r, struct entry *entries, size_t n);

/* First configuration of a new cluster: on a core without any. Appends it at index 1, term 1, as if committed by an
 * operator; the node then campaigns by itself. */
MUST_CHECK int raft_bootstrap(struct raft *r, const struct raft_conf *c, struct err *e);

enum raft_change { RAFT_ADD_LEARNER, RAFT_PROMOTE, RAFT_DEMOTE, RAFT_REMOVE, RAFT_SET_ADDR };
/* One change at a time, only after the term's no-op committed. ERR_NOT_LEADER, ERR_BUSY (one is under way), ERR_EXISTS,
 * ERR_NOTFOUND, ERR_INVALID with a sentence. `index_out` is where it stands in the log.
 * `s->id` names the server. RAFT_ADD_LEARNER takes name and address too. RAFT_DEMOTE of an unknown id finds the server
 * by name and takes over the id (and the address, unless ""): how a wiped directory is admitted again, as a learner.
 * Both take `staged`; demoting a learner changes that alone.
 * RAFT_PROMOTE refuses a learner that is silent or lags. RAFT_SET_ADDR takes the address. */
MUST_CHECK int raft_change_conf(struct raft *r, enum raft_change change, const struct raft_server *s,
                                raft_index *index_out, struct err *e);

/* Why a server is not handed the leadership. */
enum raft_heir {
	RAFT_HEIR_FIT = 0,
	RAFT_HEIR_NOT_LEADER, /* this node has none to give */
	RAFT_HEIR_BUSY,       /* it is being handed to another already */
	RAFT_HEIR_SELF,
	RAFT_HEIR_UNKNOWN, /* no such server in the configuration */
	RAFT_HEIR_LEARNER,
	RAFT_HEIR_SILENT,
	RAFT_HEIR_BEHIND,
	RAFT_HEIR_NO_OTHER, /* `to` 0: there is no other voter */
	RAFT_HEIR_NONE_FIT, /* `to` 0: no other voter answers and is caught up */
};
/* What raft_transfer would do now. 0 in *to is replaced by the choice; *lag: how many entries it is behind. */
enum raft_heir raft_judge_heir(const struct raft *r, node_id *to, uint64_t *lag);
/* Hands leadership over; `to` 0 picks the most caught-up voter. ERR_NOT_LEADER, ERR_NOTFOUND (unknown id, or nobody
 * else), ERR_INVALID (self, learner, or too far behind), ERR_BUSY. Given up after one election timeout. */
MUST_CHECK int raft_transfer(struct raft *r, node_id to, struct err *e);

/* Asks for a linearizable read index; answered in raft_ready.reads, once, with this ctx. */
void raft_read(struct raft *r, uint64_t ctx);

/* The connection to `peer` is gone; `refused`: its address refused the reconnect (early pre-vote). */
void raft_peer_lost(struct raft *r, node_id peer, bool refused);

/* The disk finished (status 0) or failed (ERR_*) the persist of that ticket. Tickets complete in order. */
void raft_persisted(struct raft *r, uint64_t ticket, int status);
/* fsm.mdb now holds everything up to index. */
void raft_applied(struct raft *r, raft_index index);
/* Answer to raft_ready.fetches: entries lo.. in order (count 0 with status ERR_NOTFOUND: compacted away). */
void raft_fetched(struct raft *r, node_id peer, raft_index lo, const struct entry *entries, size_t n, int status);

/* A finished local snapshot; the log may then be forgotten up to `compact_to` (0 = keep all). Entries behind an image
 * that is being sent to a peer are kept until it has them: files may be removed up to raft_view.first_index - 1. */
void raft_snapshot_taken(struct raft *r, raft_index index, raft_term term, const struct raft_conf *c,
                         raft_index compact_to);
/* The chunk asked for in raft_ready.snapshot_reads was sent (0) or could not be read (ERR_*). */
void raft_snapshot_read_done(struct raft *r, node_id peer, int status);
/* Answer to each raft_ready.install: the chunk is written (0), with the last one the image is in place and serves (0),
 * or it was refused (ERR_*: the sender begins anew). The next chunk is asked for only then. */
void raft_snapshot_installed(struct raft *r, raft_index index, int status);

/* ---- effects ---- */

struct raft_persist {
	uint64_t ticket; /* 0: nothing to persist this time */
	bool hard_state; /* term and vote changed: durable in one write, with or before the entries */
	raft_term term;
	node_id vote;
	const struct entry *entries; /* a first index at or below the log's end overrides from there */
	size_t entry_count;
	raft_index reset_to;  /* above 0: drop the whole log first; it starts anew behind this snapshot index */
	raft_term reset_term; /* its term */
};

struct raft_fetch {
	node_id peer;      /* 0: for this node's own apply */
	raft_index lo, hi; /* inclusive */
	size_t bytes_max;  /* stop after this much payload, but after one entry at least */
};

struct raft_read_done {
	uint64_t ctx;
	int status;       /* 0, ERR_NOT_LEADER (leader unknown or lost), ERR_TIMEOUT */
	raft_index index; /* wait until applied reaches it */
};

struct raft_snapshot_read {
	node_id peer; /* who needs the image `index`; answer with a RAFT_MSG_SNAPSHOT built from `offset` */
	raft_index index;
	uint64_t offset;
	struct raft_msg msg; /* filled but for data, data_len, slab and size */
};

struct raft_install {
	raft_index index; /* 0: none. A chunk of a snapshot to take in */
	raft_term term;
	uint64_t offset, size;
	const uint8_t *data;
	size_t data_len;
	struct slab *slab;
	const struct raft_conf *conf;
	bool last; /* with it the image is complete: check, sync, switch, then raft_snapshot_installed */
};

enum raft_trace_kind {
	RAFT_TRACE_ROLE = 1,  /* a = enum raft_role, b = term */
	RAFT_TRACE_LEADER,    /* peer = leader, b = term */
	RAFT_TRACE_VOTE,      /* peer = candidate, a = granted, b = term */
	RAFT_TRACE_TRUNCATE,  /* a = first index cut off */
	RAFT_TRACE_CONF,      /* a = index, b = 0 appended, 1 committed, 2 rolled back */
	RAFT_TRACE_STEP_DOWN, /* a = enum raft_reason */
	RAFT_TRACE_TRANSFER,  /* peer = target, a = 0 begun, 1 sent, 2 given up */
	RAFT_TRACE_REJECT,    /* peer, a = index refused, b = hint */
	RAFT_TRACE_SNAPSHOT,  /* peer, a = index, b = 0 begun, 1 done, 2 failed */
};

enum raft_reason {
	RAFT_REASON_TERM = 1,   /* a higher term was seen */
	RAFT_REASON_QUORUM,     /* no majority answered for an election timeout */
	RAFT_REASON_DISK_SLOW,  /* a log write outstanding for two election timeouts */
	RAFT_REASON_DISK_ERROR, /* a log write failed; this node never campaigns again */
	RAFT_REASON_LATE_TICK,  /* this process was not running for an election timeout */
	RAFT_REASON_REMOVED,    /* no longer a voter */
};

struct raft_trace {
	enum raft_trace_kind kind;
	node_id peer;
	uint64_t a, b;
};

struct raft_ready {
	bool any;                    /* false: nothing below */
	struct raft_persist persist; /* 1. give to the log, answer with raft_persisted */
	const struct raft_msg *msgs; /* 2. send now; each may be lost */
	size_t msg_count;
	const struct entry *committed;    /* 3. hand to apply, in order; never beyond this node's durable index */
	size_t committed_count;           /*    at most 512 entries or 2 MiB a time */
	const struct raft_fetch *fetches; /* 4. read from the log's files, answer with raft_fetched */
	size_t fetch_count;
	const struct raft_read_done *reads; /* 5. answer readers */
	size_t read_count;
	const struct raft_snapshot_read *snapshot_reads; /* 6. */
	size_t snapshot_read_count;
	struct raft_install install;     /* 7. */
	const struct raft_trace *traces; /* 8. format for people */
	size_t trace_count;
	uint64_t deadline_ms; /* call raft_tick again no later than this */
};

/* Yields what there is to do. Call until `any` is false. */
void raft_ready(struct raft *r, struct raft_ready *out);

/* ---- looking ---- */

enum raft_role { RAFT_FOLLOWER, RAFT_PRECANDIDATE, RAFT_CANDIDATE, RAFT_LEADER };

struct raft_peer_view {
	node_id id;
	bool voter;
	raft_index match;        /* known replicated there; leader only */
	uint64_t contact_ms;     /* monotonic time of its last answer; 0 = none; leader only */
	bool paused;             /* waiting for a fetch, a snapshot or a probe */
	raft_index holds;        /* the log is kept behind this index for it; 0 = it holds nothing back */
	uint64_t holds_since_ms; /* monotonic; 0 = it holds nothing back */
	raft_index image;        /* it is being sent the image of this index: the driver keeps it; 0 = none */
};

struct raft_view {
	enum raft_role role;
	raft_term term;
	node_id leader; /* 0 = unknown */
	raft_index commit_index;
	/* Highest commit index a leader reported since start (its own on a leader); 0 = none. */
	raft_index leader_commit;
	raft_index last_index;
	raft_index durable_index;
	raft_index first_index;
	raft_index handed_index; /* given out in `committed` */
	raft_index applied_index;
	raft_index snapshot_index;
	raft_index term_start; /* leader: index of its no-op; 0 otherwise */
	uint64_t contact_ms;   /* monotonic: last valid message from the leader; on a leader: when a majority last
	                        * answered; 0 = none */
	bool transferring;
	bool disk_failed;
	const struct raft_conf *conf; /* in force (newest appended); NULL = none */
	raft_index conf_index;
	bool conf_pending;                             /* not yet committed */
	struct raft_peer_view peers[RAFT_SERVERS_MAX]; /* leader only; without this node */
	size_t peer_count;
};

void raft_view(const struct raft *r, struct raft_view *out);
/* Term of the entry at index, from the term table; 0 when unknown (compacted or past the end). */
raft_term raft_term_at(const struct raft *r, raft_index index);
/* The whole invariant of one node, asserted: for tests and the simulator. */
void raft_check(const struct raft *r);

#endif /* RAFT_RAFT_H */
