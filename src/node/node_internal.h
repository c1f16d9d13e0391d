/* node/node_internal.h - what the files of node/ share. README.md draws who calls what on which thread.
 *
 * Everything in struct node belongs to the consensus thread unless it stands in struct node_log_side (log thread),
 * struct node_apply_side (apply thread) or is atomic. What crosses a thread crosses in a queue and changes its owner.
 */
#ifndef NODE_NODE_INTERNAL_H
#define NODE_NODE_INTERNAL_H

#include "base/arena.h"
#include "base/log.h"
#include "base/rand.h"
#include "fsm/fsm.h"
#include "fsm/reader.h"
#include "model/entry.h"
#include "node/cluster_internal.h"
#include "node/node.h"
#include "node/snapshots.h"
#include "node/wire.h"
#include "store/mark.h"
#include "wal/wal.h"

#define NODE_QUEUE_SLOTS 4096 /* proposals and reads waiting for the consensus thread; one more is refused */
#define NODE_ASK_SLOTS 64     /* transfers; changes of the configuration */
#define NODE_LOG_SLOTS 256    /* log writes handed to the log thread and not yet back */
#define NODE_APPLY_SLOTS 4096 /* = raft_params.apply_entries_max: a batch holds at least one entry */
#define NODE_FETCH_SLOTS 64   /* above one per server */
#define NODE_LINKS_MAX 64     /* peers this node dials */
#define NODE_WATCHERS_MAX 16
#define NODE_LISTENERS_MAX 4
#define NODE_CONTACT_MAX_MS 5000   /* older contact with the leader proves nothing */
#define NODE_REGISTER_RETRY_MS 250 /* until the first success */
#define NODE_NAG_MS 10000          /* between two log lines about a start that waits */
#define NODE_QUIET_MS 60000        /* between two log lines about one kind of bad frame */

/* ---- the data directory (dir.c) ---- */

#define NODE_DIR_PATH_MAX 4096

struct node_dir {
	char path[NODE_DIR_PATH_MAX];
	int fd;      /* of the directory; -1 = closed */
	int lock_fd; /* holds the flock; -1 = not held */
};

struct node_identity {
	char id[RAFT_NAME_MAX + 1];
	node_id incarnation;
	uint64_t cluster_id; /* 0 = not yet known */
	bool minted;         /* by this node: it began that cluster, or was about to when it died */
	bool admitted;       /* a committed configuration held this incarnation: it is no newcomer */
};

MUST_CHECK int node_dir_open(struct node_dir *d, const char *path, struct err *e); /* makes it if absent; locks it */
void node_dir_close(struct node_dir *d);
/* Writes the pid into LOCK, for the message of whoever finds it locked. */
MUST_CHECK int node_dir_sign_lock(struct node_dir *d, struct err *e);
/* ERR_NOTFOUND: no node file. ERR_CORRUPT, ERR_VERSION. */
MUST_CHECK int node_dir_read_identity(const struct node_dir *d, struct node_identity *out, struct err *e);
/* Whole and durable on return. Log thread once the threads run. */
MUST_CHECK int node_dir_write_identity(const struct node_dir *d, const struct node_identity *id, struct err *e);
void node_dir_remove_leftovers(const struct node_dir *d);

/* ---- imported.c ---- */

/* A directory that an import made becomes this node's, the only voter of a cluster of its own; any other is left as it
 * is. ERR_INVALID: --bootstrap is missing. */
MUST_CHECK int node_take_import(struct node *n, struct err *e);

/* ---- what a start finds, and makes of it (recover.c) ---- */

struct node_found {
	struct store_verdict fsm;
	raft_index applied; /* trusted, or of what was put in fsm.mdb's place */
	raft_term applied_term;
	raft_index conf_index;
	struct raft_conf conf; /* applied; count 0 = none */
	bool holds;            /* fsm.mdb holds anything */
	struct wal_recovered log;
	bool raft_state;
	struct snapfile_info base; /* what raft takes the log to stand on; index 0 = nothing */
	bool base_is_file;         /* false: fsm.mdb itself, and a file is to be made of it */
	uint64_t time_ms;          /* newest time of any entry that is known of */
};

/* Judges what the data directory holds, refuses or makes it ready: identity, fsm.mdb and log are open on return. */
MUST_CHECK int node_recover(struct node *n, struct node_found *f, struct err *e);

/* ---- log (log.c) ---- */

/* One write for the log thread: consensus makes it, the log thread carries it out, consensus frees it. */
struct node_log_batch {
	struct node_log_batch *next;
	uint64_t ticket;     /* raft's; 0 = the node's own (identity) */
	int status;          /* filled by the log thread */
	uint64_t cluster_id; /* above 0: write it down before anything else */
	bool minted;         /* of cluster_id */
	bool admitted;
	bool hard_state;
	raft_term term;
	node_id vote;
	raft_index reset_to; /* above 0: the log begins anew behind it, before the entries */
	raft_term reset_term;
	size_t count;
	struct entry entries[]; /* counts owned */
};

/* Consensus' side: what waits for a slot, in order. Raft's own limits bound it. */
struct node_log_feed {
	struct node_log_batch *first, *last;
	size_t in_flight; /* with the log thread: at most NODE_LOG_SLOTS, so no put ever fails */
};

struct node_log_side {
	int failed;                /* ERR_* of the first failure; final */
	struct node_identity self; /* as on disk */
	struct log_limit segment_limit;
	raft_index compacted; /* as far as was asked for */
};

struct node_segment_job {
	struct job job;
	struct node *node;
	_Atomic bool busy;
	_Atomic uint64_t retry_ms; /* after a failure: not before this time */
};

void node_log_put(struct node *n, struct node_log_batch *b); /* takes b */
void node_log_put_persist(struct node *n, const struct raft_persist *p);
void node_log_put_identity(struct node *n); /* the cluster id, before whatever is put after it */
void node_log_flush(struct node *n);
void node_log_drain(struct node *n); /* completions */
void node_log_discard(struct node *n);

/* ---- apply (apply.c) ---- */

struct node_apply_item {
	struct entry entry; /* count owned */
	struct node_reply_to reply;
};

struct node_apply_batch {
	struct node_apply_batch *next;
	size_t count;
	struct node_apply_item items[];
};

/* What the servers report, made by the apply thread whenever a member changed; the newest replaces an unread one. */
struct node_report {
	char name[RAFT_NAME_MAX + 1];
	char build[NODE_BUILD_MAX + 1];
	uint32_t entry_types;
	enum node_row row;
};
struct node_reports {
	bool own_row;       /* this node has a member row */
	bool own_extra_set; /* and it says what the options say */
	size_t count;
	size_t room;               /* of rows */
	size_t broker_count;       /* the last rows, of which only the names count */
	struct node_report rows[]; /* servers, ordered by name; then room; then brokers */
};

struct node_apply_side {
	struct node_apply_batch *first, *last; /* taken from the queue and not yet finished */
	size_t done;                           /* items of `first` that are applied */
	uint64_t failing_since_ms;
	uint64_t retry_delay_ms; /* 0 = nothing fails */
	uint64_t last_commit_ms;
	struct fsm_reader reader;
	raft_index members_seen; /* version of the reports sent last */
	bool stopped;
	struct entry entries[FSM_BATCH_ENTRIES_MAX]; /* the batch being applied; no counts of its own */
	struct fsm_result results[FSM_BATCH_ENTRIES_MAX];
};

struct node_sync_job {
	struct job job;
	struct node *node;
	_Atomic bool busy;
	raft_index last_applied; /* consensus': what the last sync covers */
	uint64_t next_ms;
};

void node_apply_hand_out(struct node *n, const struct entry *committed, size_t count);
void node_apply_drain(struct node *n);
uint64_t node_apply_timers(struct node *n); /* retries and the sync of fsm.mdb; returns the next deadline */
int node_apply_open(struct node *n, struct err *e);
void node_apply_discard(struct node *n);

/* ---- proposals (propose.c) ---- */

struct node_pending {
	raft_index index;
	struct node_reply_to reply;
};

/* Proposals in the log and not yet handed to apply, by ascending index. */
struct node_pending_ring {
	struct node_pending *slots;
	size_t cap; /* power of two */
	size_t head, count;
};

void node_answer(const struct node_reply_to *to, int code, raft_index index, uint64_t detail); /* any thread */
void node_propose_drain(struct node *n);
struct node_reply_to node_pending_take(struct node *n, raft_index index);
void node_pending_fail(struct node *n);             /* all: outcome unknown */
void node_propose_refuse(struct node *n, int code); /* all that queued */

/* ---- reads (certain.c) ---- */

#define NODE_READ_ROUNDS_MAX 4 /* read rounds under way; later readers gather for the next */

struct node_read_round {
	uint64_t ctx; /* 0 = free */
	struct node_reply_to *readers;
	size_t count, cap;
};

struct node_reads {
	struct node_read_round rounds[NODE_READ_ROUNDS_MAX];
	struct node_read_round gathering; /* ctx unused */
	uint64_t last_ctx;
};

void node_read_drain(struct node *n);
void node_read_begin(struct node *n); /* the gathered readers become a round, if one is free */
void node_read_done(struct node *n, const struct raft_read_done *d);
void node_read_refuse(struct node *n, int code);
void node_read_fini(struct node *n);

/* ---- links and the inbox (links.c, inbox.c) ---- */

struct node_link {
	char name[RAFT_NAME_MAX + 1];
	char addr[RAFT_ADDR_MAX + 1];        /* dialled */
	char conf_addr[RAFT_ADDR_MAX + 1];   /* as the configuration last said; "" = it did not */
	char option_addr[RAFT_ADDR_MAX + 1]; /* as --peers says; "" = not named there: dialled only while configured */
	uint64_t dialled_ms;                 /* at this address, or since when it is down */
	uint64_t keep_until_ms;              /* whatever else names it or does not; 0 = not kept for itself */
	node_id incarnation;                 /* as its last hello said; 0 = never heard */
	struct net_hello heard;              /* on this link when it came up last; name "" = never */
	int down_why;                        /* ERR_* of the last failure; 0 = it is up, or was not tried yet */
	char down_text[192];
};

enum node_event_kind { NODE_EVENT_FRAME, NODE_EVENT_UP, NODE_EVENT_DOWN };

/* What net told us since the last turn. Kept until raft was ticked: raft must know how late it is first. */
struct node_event {
	enum node_event_kind kind;
	struct net_hello hello;      /* FRAME, UP: of the peer */
	char peer[NET_NAME_MAX + 1]; /* UP, DOWN: dialled under this name */
	bool refused;                /* DOWN */
	int why;                     /* DOWN: ERR_* */
	char why_text[192];          /* DOWN */
	uint16_t type;               /* FRAME */
	struct slab *slab;           /* FRAME; one count */
	const uint8_t *body;
	size_t len;
};

struct node_inbox {
	struct node_event *events;
	size_t count, cap;
	struct log_limit bad_frame, other_cluster;
};

void node_inbox_drain(struct node *n);
void node_inbox_discard(struct node *n);
void node_links_start(struct node *n);    /* dials --peers and --join */
void node_links_refresh(struct node *n);  /* the configuration changed */
uint64_t node_links_turn(struct node *n); /* tries other addresses; returns the next deadline */
/* Somebody said who and where it is; `leads`: as the leader of this node, which may not be in its configuration yet. */
void node_links_note(struct node *n, const struct net_hello *h, bool leads);
void node_links_on_up(struct node *n, const struct node_event *ev);
void node_links_on_down(struct node *n, const struct node_event *ev);
/* Dials `addr` under a name that need not be a server's, until then at least. NULL: too many links. */
struct node_link *node_links_hold(struct node *n, const char *name, const char *addr, uint64_t until_ms);
struct node_link *node_links_find(struct node *n, const char *name);                         /* NULL: none */
const struct net_hello *node_links_heard(const struct node *n, const struct raft_server *s); /* NULL: not yet */
/* Dialled by its address to learn who is there: no server's name has a slash. */
bool node_links_is_probe(const char *name);
const char *node_links_name(const struct node *n, node_id id);                     /* NULL: never heard of */
node_id node_links_id(const struct node *n, const char *name);                     /* 0: not in the configuration */
bool node_send_msg(struct node *n, const struct raft_msg *m);                      /* false: it did not leave */
void node_bad_frame(struct node *n, const struct node_event *ev, const char *why); /* one log line a minute */
bool node_send_record(struct node *n, const char *to, uint16_t type, const struct record_type *t, const void *rec);

/* ---- bootstrap (bootstrap.c) ---- */

struct node_candidate { /* an initial member that the round asks */
	char name[RAFT_NAME_MAX + 1];
	char addr[RAFT_ADDR_MAX + 1];
	node_id incarnation;
	bool answered, empty;
	uint64_t cluster_id;
};

struct node_bootstrap {
	enum {
		NODE_BOOT_NEVER,   /* somebody else does, or nobody need: waits for a configuration */
		NODE_BOOT_ASKING,  /* the smallest of --initial-members: asks the others */
		NODE_BOOT_ALONE,   /* --bootstrap, --dev */
		NODE_BOOT_WRITING, /* all said empty; the cluster id is on its way to the disk */
		NODE_BOOT_DONE,
	} state;
	struct node_candidate candidates[RAFT_SERVERS_MAX]; /* without this node */
	size_t count;
	uint64_t round;
	uint64_t next_ms; /* of the next round */
	uint64_t next_nag_ms;
};

int node_bootstrap_init(struct node *n, struct err *e);
uint64_t node_bootstrap_turn(struct node *n); /* returns the next deadline */
void node_bootstrap_written(struct node *n);  /* the cluster id is durable */
void node_bootstrap_on_up(struct node *n);
void node_bootstrap_on_probe(struct node *n, const struct node_event *ev);
void node_bootstrap_on_reply(struct node *n, const struct node_event *ev);
bool node_may_bootstrap(const struct node_options *o);

/* ---- fetch (fetch.c) ---- */

struct node_fetch {
	struct job job;
	struct node *node;
	node_id peer;
	raft_index lo, hi;
	size_t bytes_max;
	int status;
	size_t count, cap;
	struct entry entries[]; /* counts owned */
};

void node_fetch_start(struct node *n, const struct raft_fetch *ask);
void node_fetch_drain(struct node *n);
void node_fetch_discard(struct node *n);

/* ---- snapshots (snapshot_take.c, snapshot_send.c, snapshot_install.c) ---- */

#define NODE_CHUNK_BYTES (128u << 10) /* of an image on its way: a few heartbeats behind it must not wait for long */
#define NODE_SEND_SLOTS 64            /* above one per server */
#define NODE_PRUNE_MAX 16             /* files removed by one job */

struct node_reply_list {
	struct node_reply_to v[NODE_ASK_SLOTS];
	size_t count;
};

/* Consensus' while not `busy`, the job's while it is. */
struct node_take {
	struct job job;
	struct node *node;
	bool running; /* consensus': begun, and its end not yet taken note of */
	_Atomic bool busy;
	uint64_t begun_ms, ended_ms;
	int status;
	struct err why;
	struct snapfile_info info;
};

struct node_prune {
	struct job job;
	struct node *node;
	_Atomic bool busy;
	size_t count;
	struct snapfile victims[NODE_PRUNE_MAX];
};

/* Consensus thread. */
struct node_snapshot_side {
	struct snapfiles files;
	raft_index counted_from; /* entries behind it make the next one due */
	uint64_t next_look_ms;
	bool look_due;
	bool wanted; /* however few entries there are: no good file is there */
	struct node_take take;
	struct node_prune prune;
	struct node_reply_list asking;  /* for the next one */
	struct node_reply_list waiting; /* for the one being taken */
	struct node_snapshots shown;
	size_t sends; /* chunks being read */
};

/* A chunk on its way to a peer: consensus makes it, the pool reads it, consensus sends and frees it. */
struct node_send {
	struct job job;
	struct node *node;
	node_id peer;
	bool verified; /* every byte of the file was read */
	int status;
	struct slab *slab;
	struct raft_msg msg;
	struct raft_conf conf; /* what msg.conf points to */
};

enum node_install_phase { NODE_INSTALL_IDLE, NODE_INSTALL_WRITING, NODE_INSTALL_SWITCHING, NODE_INSTALL_DONE };

/* Whose it is says the phase: consensus', the pool's, apply's, consensus'. */
struct node_install {
	struct job job;
	struct node *node;
	_Atomic int phase;        /* enum node_install_phase */
	bool incoming;            /* consensus': an image is coming in */
	uint64_t touched_ms;      /* consensus': of the last chunk */
	struct raft_install held; /* consensus': a chunk that waits until an older image is thrown away; owns a count */
	raft_index index;
	raft_term term;
	uint64_t cluster_id;
	uint64_t offset, size; /* bytes */
	const uint8_t *data;
	size_t data_len;
	struct slab *slab; /* one count */
	bool last;
	int fd; /* of fsm.restore; -1 = none */
	int status;
	struct err why;
	bool published; /* it counts as a snapshot, whatever becomes of the switch */
	unsigned tries;
	uint64_t next_try_ms;
	struct snapfile_info info; /* once all of it is there */
};

void node_snapshot_defaults(struct node_options *o);
void node_snapshot_open(struct node *n, const struct node_found *f);
void node_snapshot_drain(struct node *n);
uint64_t node_snapshot_turn(struct node *n); /* after raft's effects: looks at its view; returns the next deadline */
void node_snapshot_want(struct node *n);     /* one now */
void node_snapshot_note(struct node *n, const struct snapfile_info *info); /* a file is there */
void node_snapshot_show(struct node *n);
void node_snapshot_refuse(struct node *n, int code);                        /* all that ask */
void node_snapshot_temp(const struct node *n, char out[SNAPFILE_PATH_MAX]); /* a new name; any thread */

void node_send_start(struct node *n, const struct raft_snapshot_read *ask);
void node_send_drain(struct node *n);
void node_send_discard(struct node *n);

void node_install_chunk(struct node *n, const struct raft_install *chunk);
void node_install_drain(struct node *n);
uint64_t node_install_turn(struct node *n); /* returns the next deadline */
void node_install_discard(struct node *n);
bool node_install_is_busy(const struct node *n);
bool node_install_is_switching(const struct node *n); /* the last chunk is in hand */
bool node_install_may_switch(const struct node *n);   /* apply thread, and the next two */
uint64_t node_install_switch(struct node *n, uint64_t now_ms);
void node_install_refuse(struct node *n);

/* ---- room on the disk (room.c) ---- */

#define NODE_ROOM_LAST 9 /* the last ninth of the reserve is not taken for what a leader sends */

/* Consensus' while not `busy`; `status` and `found` are the job's while it is. */
struct node_room_side {
	struct job job;
	struct node *node;
	_Atomic bool busy;
	bool pending; /* the job's end was not yet taken note of */
	int status;   /* errno */
	struct node_room found, shown;
	uint64_t next_ms;
	uint64_t handed_over_ms; /* 0 = never */
	struct log_limit unread;
};

uint64_t node_room_turn(struct node *n); /* returns the next deadline */
bool node_room_drops(const struct node *n, const struct raft_msg *m);

/* ---- scrub (scrub.c) ---- */

/* Consensus' while not `busy`; `reader`, `took_ms` and `advance` are the job's while it is. */
struct node_scrub {
	struct job job;
	struct node *node;
	_Atomic bool busy;
	bool pending;     /* the job's end was not yet taken note of */
	enum store_db db; /* next, or being read */
	struct fsm_reader reader;
	uint64_t took_ms;
	bool advance;
	uint64_t next_ms; /* 0 = not begun */
	uint64_t rounds;
	_Atomic bool taken;  /* somebody writes `reason` */
	_Atomic bool failed; /* it is written and stays */
	char reason[256];
};

uint64_t node_scrub_turn(struct node *n);                                    /* returns the next deadline */
void node_found_damage(struct node *n, const char *where, const char *what); /* pool: fsm.mdb is not to be believed */

/* ---- status (status.c) ---- */

#define NODE_STATUS_WORDS ((sizeof(struct node_status) + 7) / 8)

/* Two copies; the writer fills the one that is not shown. A reader keeps its copy if the writer has not begun the
 * publication after next meanwhile. Words are atomic, so the race is a defined one. */
struct node_status_board {
	_Atomic uint64_t begun;   /* publication being written */
	_Atomic uint64_t version; /* newest that is whole; its copy is cells[version % 2] */
	_Atomic uint64_t cells[2][NODE_STATUS_WORDS];
	_Atomic bool leader;
	_Atomic raft_term term;
	_Atomic uint64_t contact_ms;
};

void node_status_publish(struct node *n);
/* As node_self_hello, of now: consensus thread. */
void node_fill_hello(const struct node *n, struct net_hello *out);

/* ---- stop (stop.c) ---- */

struct node_stop {
	_Atomic bool asked;
	_Atomic bool drained;
	uint64_t begun_ms;
	uint64_t give_up_ms; /* 0 = not begun */
	uint64_t next_try_ms;
};

uint64_t node_stop_turn(struct node *n); /* returns the next deadline */

/* ---- handing over (transfer.c) ---- */

struct node_ask {
	char to[RAFT_NAME_MAX + 1];
	bool dry_run;
	struct node_reply_to reply;
};

struct node_transfer {
	bool open; /* one is under way, and `reply` waits for its end */
	struct node_reply_to reply;
	raft_term term;
	uint64_t deadline_ms;
};

uint64_t node_transfer_turn(struct node *n); /* returns the next deadline */

/* ---- the node ---- */

struct node_listener {
	void (*fn)(void *arg, raft_term term);
	void *arg;
};

struct node {
	struct node_options o; /* strings in `memory` */
	struct arena memory;
	struct str_map tags; /* of the options */
	struct node_dir dir;
	struct node_identity self;
	bool opened; /* node_open succeeded */
	struct pool *pool;
	struct net_peers *net; /* NULL before node_attach_net */
	struct wal *wal;
	struct fsm *fsm;
	struct wake wake, log_wake, apply_wake;

	/* consensus thread */
	struct raft *raft;
	struct raft_conf conf; /* in force; count 0 = none */
	struct raft_view view; /* as of the last node_look */
	uint64_t now;          /* of this turn, monotonic ms */
	uint64_t raft_deadline;
	raft_term office; /* term in which this node leads, as the listeners were told; 0 = does not */
	uint64_t office_since;
	raft_index applied_told;       /* to raft */
	_Atomic uint64_t last_time_ms; /* newest time of any entry seen: time in the log never goes back */
	bool links_stale;              /* the configuration changed */
	bool announced_conf;           /* net's hello says what is so */
	uint64_t announced_cluster;
	struct node_log_feed log_feed;
	struct node_pending_ring pending;
	struct node_reads reads;
	struct node_transfer transfer;
	struct node_link links[NODE_LINKS_MAX];
	size_t link_count;
	struct node_inbox inbox;
	struct node_bootstrap boot;
	struct node_registration registration;
	struct node_membership membership;
	struct node_join join;
	struct node_reports *reports; /* NULL = none yet */
	uint32_t cluster_min_type;
	struct node_blocker blockers[NODE_BLOCKERS_MAX];
	size_t blocker_count;
	uint64_t types_used[4]; /* since start, a bit for each entry type: their first use was said */
	_Atomic uint64_t held_back_ms[UINT8_MAX + 1]; /* by entry type: when it was last said; any thread */
	struct wire_out wire;
	struct arena scratch; /* of one frame */
	struct entry_builder builder;
	struct node_sync_job sync;
	char stopped[256];                 /* why; "" = it did not */
	struct node_status status;         /* the next publication */
	uint64_t shown[NODE_STATUS_WORDS]; /* the last one */
	struct log_limit image_limit;
	struct node_listener listeners[NODE_LISTENERS_MAX];
	size_t listener_count;
	size_t fetches; /* jobs under way */
	struct node_snapshot_side snap;
	struct node_install install;
	struct node_room_side room;
	struct node_scrub scrub;

	/* between threads */
	struct queue *proposals;                    /* struct node_proposal -> consensus */
	struct queue *readers;                      /* struct node_reply_to -> consensus */
	struct queue *asks;                         /* struct node_ask -> consensus */
	struct queue *changes;                      /* struct node_change * -> consensus */
	struct queue *log_in;                       /* struct node_log_batch * -> log */
	struct queue *log_out;                      /* the same -> consensus */
	struct queue *apply_in;                     /* struct node_apply_batch * -> apply */
	struct queue *fetched;                      /* struct node_fetch * -> consensus */
	struct queue *own_done;                     /* struct node_completion of registrations -> consensus */
	struct queue *snapshot_asks;                /* struct node_reply_to -> consensus */
	struct queue *chunks;                       /* struct node_send * -> consensus */
	_Atomic raft_index compact_upto;            /* the log thread may remove what is at or below */
	_Atomic(struct node_reports *) new_reports; /* apply -> consensus; taken by exchange */
	_Atomic uint64_t apply_due_ms;              /* apply wants a turn at this time; 0 = when something comes */
	_Atomic uint32_t applied_type;              /* newest entry type applied */
	_Atomic uint64_t undecodable;               /* entries consumed that do not decode */
	_Atomic bool apply_failed;                  /* apply_reason is written and stays */
	char apply_reason[256];
	_Atomic bool log_failed; /* likewise */
	char log_reason[256];
	_Atomic bool sync_failed;
	char sync_reason[256];
	struct node_stop stop;
	struct node_status_board board;
	struct node_watcher *watchers[NODE_WATCHERS_MAX];
	size_t watcher_count; /* fixed before the threads start */
	struct node_segment_job segment;

	struct node_log_side log;     /* log thread */
	struct node_apply_side apply; /* apply thread */
};

/* A JSON object of strings; what it gives points into `text` and `a`. */
MUST_CHECK int node_tags_parse(struct str text, struct arena *a, struct str_map *out, struct err *e);

void node_look(struct node *n);      /* refreshes n->view and reacts to what changed in it */
void node_announce(struct node *n);  /* tells net what the hello says from now on */
void node_carry_out(struct node *n); /* ready.c: runs raft_ready dry */
void node_mark_stopped(struct node *n, const char *why);
static inline bool node_is_configured(const struct node *n)
{
	return n->conf.count > 0;
}
static inline uint64_t node_sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif /* NODE_NODE_INTERNAL_H */
