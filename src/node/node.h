/* node/node.h - the one place that joins raft, wal, fsm and net.
 *
 * A node is a set of turn functions, one per thread; the loops around them stand in src/threads.c, and the simulator
 * calls the same functions in an order drawn from its seed. Other threads talk to it through bounded queues.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/err.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/wake.h"
#include "model/commands.h"
#include "net/peers.h"
#include "raft/raft.h"

struct fsm; /* fsm/fsm.h */
struct node;

struct node_peer_addr {
	char name[RAFT_NAME_MAX + 1];
	char addr[RAFT_ADDR_MAX + 1]; /* cluster address */
};

#define NODE_ROOM_RESERVE (9u << 20) /* a segment of the log and a commit */

/* All strings are borrowed for node_open. Times in milliseconds. */
struct node_options {
	const char *id;
	const char *data_dir;
	const char *http_addr;              /* advertised, host:port: goes into the member record */
	const char *cluster_addr;           /* advertised */
	const struct node_peer_addr *peers; /* --peers; may hold this node */
	size_t peer_count;
	const char *const *initial_members; /* names; count 0 = all of peers */
	size_t initial_member_count;
	const char *const *join; /* cluster addresses */
	size_t join_count;
	bool learner;            /* --learner */
	bool bootstrap;          /* --bootstrap or --dev: a cluster of this one node */
	bool own_partitions;     /* may partitions be placed here */
	const char *tags_json;   /* member tags, a JSON object; NULL = {} */
	const char *build;       /* version text for the member record */
	uint32_t max_entry_type; /* newest entry type this node claims to know */
	uint32_t heartbeat_ms, election_ms;
	uint32_t member_heartbeat_ms; /* own member record, default 5000; every 250 until the first success */
	uint64_t snapshot_entries;    /* take one after so many entries, default 8192 */
	uint32_t snapshot_interval_s; /* look every so often, default 120 */
	uint32_t snapshots_kept;      /* default 2 */
	uint32_t map_gib;             /* LMDB map, 0 = 1024 */
	bool sync_fsm;                /* --sync fsm */
	uint64_t room_reserve;        /* bytes of the disk that only deletes may use; 0 = the disk is not looked at */
	bool scrub;                   /* compare fsm.mdb with its digests in the background */
	size_t segment_bytes;         /* 0 = default */
	/* 0 = default; tests and the simulator use small ones: */
	size_t append_bytes; /* payload in one append to a peer */
	size_t log_slots;    /* writes with the log thread at a time, at most the default of 256 */
	size_t chunk_bytes;  /* of a snapshot in one message to a peer; 0 = default: likewise */
	uint64_t seed;       /* raft timeouts; 0 = from the kernel */
	struct pool *pool;
};

/* Where an answer goes: the completion queue (of struct node_completion) of the asking thread. It has a slot for each
 * request that may be outstanding, and lives until the node's threads have ended. */
struct node_reply_to {
	struct queue *queue; /* NULL: nobody waits */
	uint32_t slot;       /* the asker's own */
	uint32_t generation;
};

struct node_completion {
	uint32_t slot, generation;
	int code;         /* 0; a positive enum fsm_refusal of fsm/fsm.h; or ERR_*. Nothing happened: NOT_LEADER, FULL
	                   * (overloaded), VERSION (the entry-type gate holds it back), STOPPED, TIMEOUT (reads).
	                   * Outcome unknown: CLOSED */
	raft_index index; /* of the entry, applied here; or the read index */
	uint64_t detail;  /* of a refusal: position of the refused command in its entry */
};

/* Opens the directory (lock, identity, log, fsm.mdb) and decides how to start; nothing runs yet. The caller has bound
 * its ports already, since from here on files change. ERR_INVALID: exit 2. ERR_BUSY, ERR_IDENTITY, ERR_CORRUPT,
 * ERR_VERSION: exit 3, files untouched. Others: exit 1. */
MUST_CHECK int node_open(const struct node_options *o, struct node **out, struct err *e);
/* Before the first node_turn; dials the peers. `net` is borrowed until node_close. */
void node_attach_net(struct node *n, struct net_peers *net);
struct net_hooks node_net_hooks(struct node *n);                   /* on_forward is left NULL: the daemon fills it */
void node_self_hello(const struct node *n, struct net_hello *out); /* any thread: who it is, as last published */
void node_close(struct node *n); /* all threads ended; marks fsm.mdb clean when it is; accepts NULL */

/* ---- turns ---- */

uint64_t node_turn(struct node *n, uint64_t now_ms); /* consensus; returns the next deadline (monotonic ms) */
bool node_log_turn(struct node *n);                  /* log; true: did something */
bool node_apply_turn(struct node *n);                /* apply; true: did something */
struct wake *node_wake(struct node *n);              /* consensus thread's sleep */
struct wake *node_log_wake(struct node *n);
struct wake *node_apply_wake(struct node *n);

/* Begins an orderly stop: hands leadership over if leader. node_is_drained says when that is done or was given up. */
void node_begin_stop(struct node *n); /* any thread */
bool node_is_drained(const struct node *n);

/* ---- asking, from any thread ---- */

struct node_proposal {
	struct slab
	    *entry; /* a whole envelope of model/entry.h; taken, also when refused. The time is stamped at append */
	struct node_reply_to reply;
	raft_term term;    /* refuse unless this is the term at append; 0 = any */
	uint32_t max_type; /* newest entry type inside: the gate looks at it again at append */
};

/* False: the queue is full, nothing happened, no completion comes. */
MUST_CHECK bool node_propose(struct node *n, const struct node_proposal *p);
/* A linearizable read index, batched; wait for applied >= index yourself. */
MUST_CHECK bool node_ask_read(struct node *n, struct node_reply_to reply);
/* Hands leadership over; to = "" picks one. Answered when that has come to its end: 0 (`detail` is the incarnation of
 * who leads now, 0 = not known yet); enum raft_heir, with the lag of RAFT_HEIR_BEHIND in `detail`; ERR_TIMEOUT: given
 * up after an election timeout, and this node leads on. ERR_STOPPED. `dry_run`: judged only; 0 with who would be asked.
 */
MUST_CHECK bool node_ask_transfer(struct node *n, const char *to, bool dry_run, struct node_reply_to reply);
/* A snapshot of this node's state, begun after this call. Code 0: it is durable, `index` is its, `detail` the bytes of
 * its file; if nothing was applied since the newest one, that one. ERR_FULL, ERR_IO: it failed, nothing else did, the
 * log says why. ERR_NOTFOUND: nothing was applied yet. ERR_STOPPED. */
MUST_CHECK bool node_ask_snapshot(struct node *n, struct node_reply_to reply);

enum node_change_kind {
	NODE_CHANGE_SERVER = 1, /* add this server, or make of it what is asked: voter or learner, and its address */
	NODE_CHANGE_REMOVE,
};

/* Why the configuration stays as it is: positive codes of a completion. */
enum node_change_refusal {
	NODE_CHANGE_UNKNOWN = 1,   /* no such server */
	NODE_CHANGE_UNREACHABLE,   /* it does not answer at that address, or who answers there is another */
	NODE_CHANGE_OTHER_CLUSTER, /* it belongs to another one */
	NODE_CHANGE_OLDER,         /* it applies fewer entry types than every member */
	NODE_CHANGE_TAKEN,         /* another server that lives has this id or address */
	NODE_CHANGE_BEHIND,        /* to be promoted it must keep up */
	NODE_CHANGE_NO_VOTE,       /* it was started with --learner */
	NODE_CHANGE_FEW_VOTERS,    /* fewer voters than min_voters would be left */
	NODE_CHANGE_NO_MAJORITY,   /* of the voters left too few answer */
	NODE_CHANGE_FULL,          /* RAFT_SERVERS_MAX */
	NODE_CHANGE_REMOVED,       /* joiners only: it was a member and is none any more */
};

/* One question and its answer, with two holders: the asker, and the node once it took it. */
struct node_change {
	_Atomic uint32_t refs;
	struct node_reply_to reply;
	enum node_change_kind kind;
	bool dry_run; /* judge, and contact a new server, but change nothing */
	char id[RAFT_NAME_MAX + 1];
	char addr[RAFT_ADDR_MAX + 1]; /* SERVER: cluster address; "" = the one it has */
	bool voter;                   /* SERVER: a new one is added as learner and promoted once it keeps up */
	uint32_t min_voters;          /* to be left by a removal or demotion */
	/* the answer, whole before its completion is put */
	bool added;                /* it was not in the configuration before */
	bool changed;              /* false: all was as asked */
	struct raft_server server; /* as the configuration has it now; name "" = it does not */
	char why[512];             /* of a refusal, for people */
};
struct node_change *node_change_new(void); /* the asker's hold */
void node_change_unref(struct node_change *c);
/* Answered once, within 10 s: 0 (committed at `index`; a new voter may still be a learner), enum node_change_refusal,
 * ERR_NOT_LEADER, ERR_BUSY (too many at once, or no change before this one came to an end), ERR_STOPPED: nothing
 * happened. ERR_CLOSED: the outcome is unknown. False: the queue is full, and no hold was taken. */
MUST_CHECK bool node_ask_change(struct node *n, struct node_change *c);

#define NODE_HISTORY_ENTRIES 512

/* A piece of this node's log, read on the work pool. Two holders, as struct node_change. */
struct node_history {
	_Atomic uint32_t refs;
	struct node_reply_to reply;
	raft_index lo;    /* 0 = from the first that is kept; the answer says which that is */
	raft_index hi;    /* inclusive; ask for nothing that is not committed: it may be replaced */
	size_t bytes_max; /* stop after so much payload, one entry at least */
	/* the answer: entries lo.., maybe fewer than asked for */
	raft_index first; /* of the log; 0 = it is empty */
	size_t count;
	struct entry entries[NODE_HISTORY_ENTRIES]; /* counts owned */
	/* the node's own */
	struct job job;
	struct node *node;
};
struct node_history *node_history_new(void);
void node_history_unref(struct node_history *h); /* accepts NULL */
/* Answered with 0, ERR_NOTFOUND (lo is compacted away) or ERR_CORRUPT, ERR_IO. */
void node_ask_history(struct node *n, struct node_history *h);

/* ---- looking, from any thread ---- */

enum node_row { NODE_ROW_NONE, NODE_ROW_ALIVE, NODE_ROW_DEAD, NODE_ROW_DRAINING };

/* What this node knows of a server beside its place in the configuration. */
struct node_server_view {
	uint64_t keeps_up_ms; /* leader: monotonic time since which it answers and lags little; 0 = it does not */
	uint32_t row;         /* enum node_row: its member record */
	bool heard;           /* its hello was, from the incarnation in the configuration */
	bool answers;         /* leader: it did within two election timeouts */
	bool never_votes;     /* it was started with --learner */
};

#define NODE_BUILD_MAX 64 /* bytes of a build text taken from a peer */
#define NODE_BLOCKERS_MAX 8

/* A server, or the member row of one, as the entry-type gate sees it. */
struct node_blocker {
	char id[RAFT_NAME_MAX + 1];
	char build[NODE_BUILD_MAX + 1]; /* "" = not known */
	uint32_t entry_types;           /* newest it is known to apply */
};

/* Snapshots, and images taken from a leader. */
struct node_snapshots {
	raft_index index;      /* of the newest whole file here; 0 = none */
	raft_term term;        /* its: the file is snapshots/<index>-<term>.mdb */
	uint64_t bytes;        /* of that file */
	uint64_t taken;        /* since start */
	uint64_t failures;     /* since start: attempts to take one that failed */
	uint64_t last_ms;      /* how long the last one took; 0 = none since start */
	uint64_t last_at_ms;   /* monotonic time at which it was durable; 0 = none since start */
	bool running;          /* one is being taken */
	uint64_t installed;    /* since start: images from a leader that were put in place */
	uint64_t refused;      /* since start: images from a leader that were not */
	raft_index receiving;  /* image coming in; 0 = none */
	uint64_t received;     /* bytes of it */
	uint64_t receive_size; /* bytes of all of it */
};

/* Room on the disk of the data directory, as of the last look; all 0 while nobody looks. */
struct node_room {
	uint64_t free_bytes;     /* of the file system */
	uint64_t reusable_bytes; /* pages of fsm.mdb that hold nothing */
	uint64_t reserve_bytes;
	bool low; /* nothing is to be added; deletes pass */
	bool out; /* this node takes no entries from its leader */
};

struct node_status {
	char id[RAFT_NAME_MAX + 1];
	node_id incarnation;
	uint64_t cluster_id; /* 0 = not yet known */
	enum raft_role role;
	raft_term term;
	char leader[RAFT_NAME_MAX + 1];      /* "" = unknown */
	char leader_addr[RAFT_ADDR_MAX + 1]; /* cluster address */
	raft_index commit_index, leader_commit, last_index, first_index, durable_index, handed_index, snapshot_index;
	raft_index term_start;     /* leader: index of its no-op */
	uint64_t contact_ms;       /* monotonic time of raft_view.contact_ms */
	uint64_t leader_since_ms;  /* monotonic; 0 unless leader */
	bool configured;           /* holds a Raft configuration */
	bool stopping;             /* node_begin_stop was called */
	char stopped[256];         /* why it stopped applying or lost its disk; "" = it did not */
	uint32_t cluster_min_type; /* newest entry type all servers and members report */
	/* The servers and members that report fewer types than everybody before them by id: whoever holds a type back
	 * first is among them. Cut at the end, the fewest types stay. */
	struct node_blocker blockers[NODE_BLOCKERS_MAX];
	size_t blocker_count;
	struct raft_conf conf;
	struct node_server_view servers[RAFT_SERVERS_MAX]; /* of conf.servers, in their order */
	struct raft_peer_view peers[RAFT_SERVERS_MAX];
	size_t peer_count;
	bool registered; /* own member record was accepted since start */
	bool removed;    /* the cluster says that this node is no member any more */
	struct node_snapshots snapshots;
	struct node_room room;
	uint64_t scrub_rounds; /* all of fsm.mdb compared with its digests, so often since the start */
	uint64_t undecodable;  /* entries consumed since the start whose bytes do not decode */
};

/* What stands in the way of promoting the learner conf.servers[at] now, with a sentence; NONE for a voter too. */
enum node_fault {
	NODE_FAULT_NONE = 0,
	NODE_FAULT_LEARNER, /* it was started with --learner */
	NODE_FAULT_UNKNOWN, /* this node does not lead */
	NODE_FAULT_SILENT,
	NODE_FAULT_BEHIND,
	NODE_FAULT_RECENT, /* it caught up a moment ago */
	NODE_FAULT_ROW,    /* its member record is missing, dead or draining */
};
enum node_fault node_promotion_fault(const struct node_status *s, uint32_t at, uint64_t now_ms, char *why, size_t cap);

/* Who holds an entry type back: the first by id that is not known to apply it. NULL: nobody, it may be proposed. */
static inline const struct node_blocker *node_held_back_by(const struct node_status *s, unsigned type)
{
	for (size_t i = 0; type > COMMAND_LEGACY_MAX && i < s->blocker_count; i++) {
		if (s->blockers[i].entry_types < type)
			return &s->blockers[i];
	}
	return NULL;
}
/* Says so in the log, once a minute for each type; `falls_back`: an older entry is proposed in its place. Any thread.
 */
void node_note_held_back(struct node *n, unsigned type, const struct node_blocker *by, bool falls_back);

/* Moves on each publication; a reader keeps its copy while this does not move. */
uint64_t node_status_version(const struct node *n);
void node_get_status(const struct node *n, struct node_status *out);
bool node_is_leader(const struct node *n); /* one atomic load */
raft_term node_term(const struct node *n);
int64_t node_contact_age_ms(const struct node *n); /* -1 = none; what X-Veena-Contact-Ms shows */
/* The one test of "my replica is provably current": leader known, contact within 5 s, a commit index reported by a
 * leader, everything handed over applied. `why` (may be NULL, cap bytes) names the first failing condition. */
bool node_is_caught_up(const struct node *n, char *why, size_t cap);
/* Does the status say that its node leads in `term`, and does `applied` cover that term's first entry? Before that the
 * log is complete and the state is not. */
bool node_holds_office(const struct node_status *s, raft_index applied, raft_term term);
struct fsm *node_fsm(struct node *n);

/* A thread that sleeps until the applied index moves registers once, then sets `want`; apply signals `wake` when
 * applied reaches it (and clears it to 0). */
struct node_watcher {
	_Atomic raft_index want; /* 0 = not waiting */
	struct wake *wake;
};
void node_add_watcher(struct node *n, struct node_watcher *w); /* before the threads start */

/* Called on the consensus thread when leadership is gained (term > 0) or lost (0): the control plane's start and stop.
 */
void node_on_leadership(struct node *n, void (*fn)(void *arg, raft_term term), void *arg);

#endif /* NODE_NODE_H */
