/* raft/raft_internal.h - what the files of the core share. Nothing outside src/raft includes it.
 *
 * struct raft is the whole state of one node; each file owns the part that carries its name and is the only one to
 * write there. Time is r->now_ms, the dice are r->dice, everything that leaves goes through r->out.
 */
#ifndef RAFT_RAFT_INTERNAL_H
#define RAFT_RAFT_INTERNAL_H

#include <assert.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/rand.h"
#include "raft/raft.h"

/* No honest term, index or size comes near it; past it sums could wrap. */
#define RAFT_NUMBER_MAX (1ull << 62)
/* A follower this many entries behind is no target of a transfer, a learner this far behind is not promoted. */
#define RAFT_LAG_MAX 1024
/* Un-acknowledged appends per peer, beside the limit in bytes. */
#define RAFT_WINDOW_MAX 128
/* What raft_ready hands out of committed entries at a time: one transaction of the state machine. */
#define RAFT_COMMITTED_MAX 512
#define RAFT_COMMITTED_BYTES_MAX (2u << 20)
/* Reads other nodes wait for here; more are refused. */
#define RAFT_READS_MAX 4096
/* Early pre-vote: campaign after a random time up to this. */
#define RAFT_EARLY_MS_MAX 100

/* ---- terms.c: which term wrote which indexes ---- */

struct terms {
	struct raft_term_range *v; /* ascending in both fields */
	size_t count, cap;
};

void terms_fini(struct terms *t);
void terms_append(struct terms *t, raft_index index, raft_term term);
void terms_truncate(struct terms *t, raft_index first); /* forgets first and everything above */
void terms_compact(struct terms *t, raft_index first);  /* forgets everything below first */
raft_term terms_at(const struct terms *t, raft_index index);
/* Largest index in lo..hi whose term is at most `term`; lo - 1 when there is none. */
raft_index terms_last_not_above(const struct terms *t, raft_index lo, raft_index hi, raft_term term);

/* ---- cache.c: the newest entries, one behind the other in memory ---- */

struct cache {
	struct entry *v;
	size_t head, count, cap; /* entries are v[head .. head + count) */
	size_t bytes;
};

static inline size_t entry_cost(const struct entry *e)
{
	return (size_t)e->len + RAFT_ENTRY_OVERHEAD;
}

void cache_clear(struct cache *c); /* memory kept */
void cache_fini(struct cache *c);
void cache_push(struct cache *c, const struct entry *e); /* takes a slab count of its own */
void cache_truncate(struct cache *c, raft_index first);  /* drops first and everything above */
/* Drops the oldest ones at or below `upto`, as long as more than bytes_max are held. */
void cache_trim(struct cache *c, raft_index upto, size_t bytes_max);
/* Entries from lo on, up to hi and bytes_max, one at least; NULL when lo is not held. Borrowed until the next push. */
const struct entry *cache_run(const struct cache *c, raft_index lo, raft_index hi, size_t bytes_max, size_t *n);
const struct entry *cache_at(const struct cache *c, raft_index index);
/* How many of v[0..n) fit into bytes_max; one at least. */
size_t cache_fit(const struct entry *v, size_t n, size_t bytes_max, size_t *bytes);

/* ---- rlog.c: the log as this node knows it ---- */

struct rlog {
	struct terms terms;
	struct cache cache; /* a suffix of first..last */
	raft_index first;   /* last + 1: empty */
	raft_index last;
	raft_term base_term;   /* of first - 1; 0 = not known */
	raft_index snap_index; /* newest local snapshot; 0 = none */
	raft_term snap_term;
	raft_index commit;
	raft_index handed;    /* given to apply */
	raft_index applied;   /* back from apply */
	raft_index durable;   /* everything up to here survives a crash, in the log or in the snapshot */
	raft_index unwritten; /* first entry the disk was not yet given */
};

void rlog_init(struct rlog *l, const struct raft_start *s);
void rlog_fini(struct rlog *l);
raft_term rlog_term_at(const struct rlog *l, raft_index index); /* 0 = not known */
bool rlog_knows_term(const struct rlog *l, raft_index index);   /* index 0 too: it precedes every log */
bool rlog_reaches(const struct rlog *l, raft_index next);       /* can an append begin with this entry? */
raft_term rlog_last_term(const struct rlog *l);
/* §5.4.1: is a log that ends at (index, term) at least as up to date as this one? */
bool rlog_is_up_to_date(const struct rlog *l, raft_index index, raft_term term);
/* Largest index up to `index` that may agree with a log whose entry there has `term`; not below floor. */
raft_index rlog_agree(const struct rlog *l, raft_index floor, raft_index index, raft_term term);
void rlog_append(struct rlog *l, const struct entry *e);
void rlog_truncate(struct rlog *l, raft_index first);              /* above commit */
void rlog_reset(struct rlog *l, raft_index index, raft_term term); /* empty, behind a durable snapshot */
void rlog_compact(struct rlog *l, raft_index upto);                /* forgets upto and everything below */
void rlog_trim(struct rlog *l, size_t bytes_max);                  /* keeps memory within its limit */

/* ---- confs.c: configurations that may still be rolled back to, the newest in force ---- */

struct conf_at {
	raft_index index; /* 0 = from a snapshot */
	struct raft_conf conf;
};

struct confs {
	struct conf_at *v; /* ascending; at most the first one is committed */
	size_t count, cap;
};

MUST_CHECK int conf_check(const struct raft_conf *c, struct err *e); /* the rules raft_conf_decode enforces */
void conf_sort(struct raft_conf *c);
void confs_fini(struct confs *c);
void confs_push(struct confs *c, raft_index index, const struct raft_conf *conf);
bool confs_truncate(struct confs *c, raft_index first); /* true: one was rolled back */
/* The commit index moved: forgets what can no longer be rolled back to. Index of one that became committed; 0 = none.
 */
raft_index confs_settle(struct confs *c, raft_index before, raft_index commit);
void confs_reset(struct confs *c, const struct raft_conf *conf);

/* ---- fetch.c: entries that are no longer in memory ---- */

struct fetch {
	bool asked; /* the driver reads from lo on */
	raft_index lo;
	uint64_t retry_ms; /* after a failed read: not before */
	struct entry *v;
	size_t count, cap;
	size_t lent; /* of v: in the hands of raft_ready's caller */
};

void fetch_fini(struct fetch *f);
void fetch_drop(struct fetch *f);    /* forgets what it holds and what it asked for */
void fetch_recycle(struct fetch *f); /* what was lent is free again */
void fetch_ask(struct raft *r, struct fetch *f, node_id peer, raft_index lo, raft_index hi, size_t bytes_max);
const struct entry *fetch_at(const struct fetch *f, raft_index index); /* only the next one to be lent */
/* As cache_run, from what was fetched; lends it. */
const struct entry *fetch_run(struct fetch *f, raft_index lo, raft_index hi, size_t bytes_max, size_t *n);

/* ---- peer.c: one other server of the configuration in force ---- */

/*            success                     compacted away
 *   PROBE  ----------->  STREAM  -------------------------->  SNAPSHOT
 *     ^                    |          (also from PROBE)          |
 *     |  reject, link lost |                                     |
 *     +--------------------+<------------------------------------+  image in place
 */
enum peer_state {
	PEER_PROBE,    /* where the logs agree is not known: one append at a time */
	PEER_STREAM,   /* appends are pipelined */
	PEER_SNAPSHOT, /* takes in an image */
};

struct inflight {
	raft_index last;
	size_t bytes;
};

enum image_state {
	IMAGE_ASK,     /* the chunk at `offset` is wanted from the driver */
	IMAGE_READING, /* the driver has it */
	IMAGE_SENT,    /* waiting for the answer */
	IMAGE_WAIT,    /* something went wrong: again at due_ms */
};

/* An image on its way to a peer. */
struct image {
	raft_index index; /* 0 = none */
	raft_term term;
	struct raft_conf *conf; /* at index; owned */
	uint64_t offset;
	enum image_state state;
	uint64_t due_ms;
};

struct peer {
	node_id id;
	bool voter;
	bool granted; /* its vote or pre-vote, while this node campaigns */

	/* The rest belongs to a leader. */
	enum peer_state state;
	raft_index match;
	raft_index next;
	uint64_t contact_ms; /* of its last answer; 0 = none in this term */
	uint64_t since_ms;   /* counted from here on: check-quorum's grace for a new one */
	uint64_t round;      /* newest read round it confirmed */
	bool beat;           /* owes it a message, even an empty one */
	bool awaiting;       /* PROBE: one is out */
	raft_index commit_sent;
	struct inflight window[RAFT_WINDOW_MAX]; /* STREAM: a ring */
	size_t window_head, window_count, window_bytes;
	struct fetch fetch;
	struct image image;
	raft_index hold; /* was sent an image: the log behind this index is kept for it; 0 = not */
	uint64_t hold_since_ms;
};

struct peer *peer_find(const struct raft *r, node_id id); /* NULL: not in the configuration in force */
void peer_rebuild(struct raft *r);                        /* after the configuration in force changed */
void peer_free_all(struct raft *r);
void peer_begin(struct raft *r, struct peer *p); /* leader: starts with it */
void peer_end(struct peer *p);                   /* no longer leader: stops with it */
void peer_probe(struct peer *p, raft_index next);
void peer_window_push(struct peer *p, raft_index last, size_t bytes);
void peer_window_ack(struct peer *p, raft_index match);
bool peer_is_active(const struct raft *r, const struct peer *p); /* answered within an election timeout */

/* ---- quorum.c: what a majority of voters has ---- */

size_t quorum_voters(const struct raft *r);
raft_index quorum_match(const struct raft *r);
uint64_t quorum_contact(const struct raft *r, bool grace); /* time since which a majority is silent; 0 = never heard */
uint64_t quorum_round(const struct raft *r);
bool quorum_granted(const struct raft *r, bool self);

/* ---- disk.c: term and vote, tickets, and when the disk fails us ---- */

struct ticket {
	uint64_t id;
	raft_term term;         /* of the node when it was issued */
	raft_index first, last; /* entries; first > last: none */
	bool hard_state;
	bool reset;
	uint64_t issued_ms;
};

struct disk {
	struct ticket *v; /* outstanding, oldest at v[head] */
	size_t head, count, cap;
	uint64_t next_id;
	bool hard_state_dirty;      /* changed since the last ticket */
	uint64_t hard_state_ticket; /* newest outstanding one that carries it; 0 = none */
	bool reset;                 /* the next ticket drops the log first */
	bool failed;
};

void disk_set_hard_state(struct raft *r, raft_term term, node_id vote);
bool disk_has_hard_state(const struct raft *r); /* the present term and vote are durable */
bool disk_is_slow(const struct raft *r);
void disk_issue(struct raft *r, struct raft_persist *out);

/* ---- out.c: what leaves with the next raft_ready ---- */

struct msgs {
	struct raft_msg *v;
	size_t count, cap;
};

struct out {
	struct msgs msgs;
	struct msgs held; /* wait until term and vote are durable */
	struct raft_trace *traces;
	size_t trace_count, trace_cap;
	struct raft_read_done *reads;
	size_t read_count, read_cap;
	struct raft_fetch fetches[RAFT_SERVERS_MAX + 1];
	size_t fetch_count;
	struct raft_snapshot_read snapshot_reads[RAFT_SERVERS_MAX];
	size_t snapshot_read_count;
	bool lent; /* the caller of raft_ready holds pointers into it */
};

void out_fini(struct out *o);
void out_post(struct raft *r, const struct raft_msg *m);         /* may leave at once */
void out_post_durable(struct raft *r, const struct raft_msg *m); /* once term and vote are durable */
void out_release_held(struct raft *r);
void out_drop_held(struct raft *r);
void out_trace(struct raft *r, enum raft_trace_kind kind, node_id peer, uint64_t a, uint64_t b);
void out_read_done(struct raft *r, uint64_t ctx, int status, raft_index index);

/* ---- role.c: moving between roles ---- */

void role_follow(struct raft *r, raft_term term, node_id leader, enum raft_reason why);
void role_set(struct raft *r, enum raft_role role);
void role_set_leader(struct raft *r, node_id leader);
void role_lead(struct raft *r);

/* ---- election.c ---- */

struct election {
	uint64_t due_ms; /* campaign then, unless a leader is heard */
	bool lost;       /* the link to the leader is gone, seen at lost_ms */
	uint64_t lost_ms;
	bool early; /* and its address refuses: campaign at early_ms */
	uint64_t early_ms;
	uint64_t stray; /* deliberate fault: grants of nobody we know */
};

void election_reset_timer(struct raft *r);
void election_heard_leader(struct raft *r);
void election_tick(struct raft *r);
void election_campaign(struct raft *r, bool handed_over);
void election_count(struct raft *r);
void election_on_prevote(struct raft *r, const struct raft_msg *m);
void election_on_prevote_reply(struct raft *r, const struct raft_msg *m);
void election_on_vote(struct raft *r, const struct raft_msg *m);
void election_on_vote_reply(struct raft *r, const struct raft_msg *m);
bool election_may_campaign(const struct raft *r);
void election_peer_lost(struct raft *r, node_id peer, bool refused);

/* ---- follow.c: taking entries from a leader ---- */

struct follow {
	raft_index match;  /* agrees with the leader's log up to here */
	raft_index sent;   /* acknowledged up to here */
	uint64_t round;    /* newest read round seen */
	bool due;          /* owes an answer even if match did not grow */
	raft_index commit; /* highest commit index any leader reported */
	uint64_t contact_ms;
};

void follow_reset(struct raft *r);
void follow_on_append(struct raft *r, const struct raft_msg *m);
void follow_refuse_stale(struct raft *r, const struct raft_msg *m);
void follow_acknowledge(struct raft *r);

/* ---- advance.c: what follows when the log grows, is cut or commits, in whatever role ---- */

void advance_appended(struct raft *r, const struct entry *e, const struct raft_conf *conf); /* conf: ENTRY_CONFIG */
void advance_cut(struct raft *r, raft_index first);
void advance_committed(struct raft *r, raft_index index); /* lower than now: nothing happens */

/* ---- lead.c: the leader's own log; replicate.c: bringing it to the others ---- */

struct lead {
	raft_index term_start; /* the no-op */
	uint64_t heartbeat_ms; /* next one */
	uint64_t round;        /* newest read round begun */
	raft_index counted_from;
	size_t uncommitted_bytes; /* of entries counted_from.. that are not committed */
};

void lead_begin(struct raft *r);
void lead_end(struct raft *r);
void lead_append(struct raft *r, struct entry *e, const struct raft_conf *conf); /* fills index and term */
void lead_count_committed(struct raft *r, raft_index before, raft_index now);
void lead_tick(struct raft *r);
void lead_try_commit(struct raft *r);
bool lead_has_committed(const struct raft *r); /* its no-op, and so everything before it */
void replicate_all(struct raft *r);
void replicate_on_reply(struct raft *r, const struct raft_msg *m);
void replicate_link_lost(struct raft *r, struct peer *p);

/* ---- read.c ---- */

struct read_ask {
	node_id from; /* own id, or the follower that asks */
	uint64_t ctx;
	uint64_t batch; /* follower: the question it went out with */
	uint64_t due_ms;
};

struct read_list {
	struct read_ask *v;
	size_t count, cap;
};

struct reads {
	struct read_list waiting; /* for the next round (leader) or question (follower) */
	struct read_list open;    /* for the answer of the present one */
	raft_index index;         /* leader: what the open round confirms */
	uint64_t round;           /* leader: the open round */
	uint64_t batch;           /* follower: of its last question */
};

void read_fini(struct raft *r);
void read_poll(struct raft *r);
void read_confirm(struct raft *r);
void read_fail_all(struct raft *r, int status);
void read_tick(struct raft *r);
uint64_t read_deadline(const struct raft *r); /* UINT64_MAX = none */
void read_on_read(struct raft *r, const struct raft_msg *m);
void read_on_read_reply(struct raft *r, const struct raft_msg *m);

/* ---- transfer.c ---- */

struct transfer {
	node_id to; /* 0 = none under way */
	uint64_t due_ms;
	bool sent;
};

void transfer_poll(struct raft *r);
void transfer_beat(struct raft *r);
void transfer_tick(struct raft *r);
void transfer_on_timeout_now(struct raft *r, const struct raft_msg *m);
void transfer_part(struct raft *r); /* a leader that leaves for good names its heir */

/* ---- snapshot_send.c, snapshot_install.c, compact.c ---- */

struct install {
	node_id from; /* who sends it; 0 = nothing is coming in */
	raft_index index;
	raft_term term;
	uint64_t size;
	uint64_t offset;        /* next byte wanted */
	struct raft_conf *conf; /* owned */
	bool has_chunk;         /* one is with the driver, or about to be */
	bool handed;            /* raft_ready yielded it */
	bool last;              /* it completes the image */
	const uint8_t *data;
	size_t data_len;
	struct slab *slab;
};

bool snapshot_begin(struct raft *r, struct peer *p); /* false: not now */
void snapshot_end(struct raft *r, struct peer *p, bool done);
void snapshot_poll(struct raft *r, struct peer *p);
void snapshot_link_lost(struct raft *r, struct peer *p);
void snapshot_on_reply(struct raft *r, const struct raft_msg *m);
void snapshot_on_chunk(struct raft *r, const struct raft_msg *m);
bool snapshot_is_switching(const struct raft *r); /* the last chunk is with the driver */
void snapshot_offer(struct raft *r, struct raft_install *out);
void snapshot_drop_install(struct raft *r);
void compact_try(struct raft *r);

/* ---- ready.c ---- */

void ready_recycle(struct raft *r); /* first thing in every call that changes the core: takes back what was lent */

/* ---- the whole ---- */

struct raft {
	struct raft_params p;
	struct rand dice;
	uint64_t now_ms;
	raft_term term;
	node_id vote;
	enum raft_role role;
	node_id leader;
	bool self_voter; /* in the configuration in force */
	struct peer *peers[RAFT_SERVERS_MAX];
	size_t peer_count;
	struct raft_conf *snap_conf; /* at log.snap_index; NULL without a snapshot */
	raft_index compact_to;       /* as the driver wished; what holds it back may go away later */
	struct rlog log;
	struct confs confs;
	struct disk disk;
	struct election election;
	struct follow follow;
	struct lead lead;
	struct reads reads;
	struct transfer transfer;
	struct install install;
	struct fetch own; /* for this node's own apply */
	struct out out;
};

/* The configuration in force: the newest appended one. NULL = none. */
const struct conf_at *conf_in_force(const struct raft *r);
/* Is the server in it, or in one it may still be rolled back to? NULL = in none. */
const struct raft_server *conf_ever_has(const struct raft *r, node_id id, bool as_voter);

#endif /* RAFT_RAFT_INTERNAL_H */
