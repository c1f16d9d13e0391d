/* control/control_internal.h - what the two lanes share. */
#ifndef CONTROL_CONTROL_INTERNAL_H
#define CONTROL_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/queue.h"
#include "control/control.h"
#include "control/place.h"
#include "control/plan.h"
#include "control/policy.h"
#include "control/view.h"
#include "fsm/reader.h"
#include "model/entry.h"

#define SETTING_COUNT 6

/* One decision's surroundings: the state at one index and who leads. */
struct lane_view {
	struct view_setting settings[SETTING_COUNT]; /* as they count now */
	struct cluster_view view;
	struct arena scratch; /* the view's, of one method call */
	struct arena arena;   /* of one decision: servers, answers, commands */
	struct buf log;
	struct node_status status;
};

struct lane {
	struct control *control;
	struct wake wake;
	struct node_watcher watcher;
	struct fsm_reader reader;
	struct policy_set *policies;
	struct lane_view lv;
};

/* ---- plans.c ---- */

#define PLANNED_MAX 256 /* plans remembered until their entries are applied */

/* Where a placement that was just decided put partitions; its entry is proposed but not yet applied. */
struct planned {
	char *topic;                  /* NULL: the slot is free */
	raft_index index;             /* the state it was decided on */
	uint64_t until_ms;            /* forgotten then: its entry was refused or lost */
	struct view_pending *members; /* ids owned */
	size_t count;
};

struct plans {
	pthread_mutex_t lock;
	struct planned planned[PLANNED_MAX];
	size_t next; /* ring */
};

void plans_init(struct plans *plans);
void plans_fini(struct plans *plans);
/* Takes the lock and shows the lane's view what is pending. */
void plans_begin(struct plans *plans, struct lane *l, uint64_t now_ms);
/* Remembers where `a` (NULL: nothing came of it) puts the partitions asked for, and lets the lock go. */
void plans_end(struct plans *plans, const struct lane *l, struct str topic, size_t asked, const struct place_answer *a,
               uint64_t now_ms);

/* ---- requests.c ---- */

#define REQUESTS_MAX 256 /* questions waiting at once; more are answered "not now" and created unplaced */
struct requests {
	struct lane lane;
	struct queue *queue;                         /* of struct svc_placement * */
	struct svc_placement *waiting[REQUESTS_MAX]; /* in order of arrival */
	size_t waiting_count;
	uint64_t forming_since_ms; /* 0: not forming when last looked */
	struct queue *schemas;     /* of struct svc_schema_question * */
};

void requests_init(struct requests *r, struct control *c, const char *policy_dir);
void requests_fini(struct requests *r);
uint64_t requests_turn(struct requests *r, uint64_t now_ms);
bool requests_place(void *arg, struct svc_placement *p); /* the svc_placer; arg = struct requests */

/* ---- judge.c: the same lane ---- */

void judge_init(struct requests *r);
void judge_fini(struct requests *r);
/* Answers one question. True: more are waiting. */
bool judge_turn(struct requests *r);
bool judge_schema(void *arg, struct svc_schema_question *q); /* the svc_schema_judge; arg = struct requests */

/* ---- passes.c ---- */

#define PASS_PROPOSALS_MAX 64 /* outstanding at once */

#define BLOCKED_SAID_MAX 64

/* Since when the leader itself has heard nothing of a member. */
struct heard {
	char id[RAFT_NAME_MAX + 1];
	int64_t heartbeat; /* the stamp it had then, Unix seconds */
	uint64_t since_ms; /* monotonic */
};

struct passes {
	struct lane lane;
	struct queue *completions; /* of struct node_completion */
	raft_term term;            /* the one this lane acts in; 0 = none */
	uint64_t next_tick_ms, next_look_ms, next_prune_ms, next_sweep_ms;
	raft_index members_seen;     /* version of the members looked at last */
	raft_index assignments_seen; /* of the assignments */
	struct buf receivers;        /* those that could be given partitions then */
	uint64_t settle_until_ms;    /* 0: no arrival is waiting for its pass */
	uint32_t outstanding;        /* proposals and changes of the configuration */
	uint32_t generation;         /* of the pass whose completions count */
	bool prune_wanted, sweep_wanted, plan_wanted, drain_wanted, failover_wanted;
	struct buf resume; /* topic after which the sweep goes on; empty: from the start */

	struct heard *heard; /* by id */
	size_t heard_count;
	uint64_t looked_ms;                        /* at heartbeats, monotonic; 0: not in this term */
	raft_index blocked_said[BLOCKED_SAID_MAX]; /* moves of which the log said that they are blocked; ring */
	size_t blocked_next;
	bool dead_refused;    /* the last verdict of who is dead would have broken the quorum, and that was said */
	char drain_said[512]; /* what the log said last of what drains wait for */
};

/* What came of a proposal is told by its completion's slot: whose it was, and how many intents it carried. */
enum pass_kind { PASS_POLICY = 0, PASS_PRUNE = POLICY_KIND_COUNT, PASS_CHANGE, PASS_TRANSFER };

/* Proposes the builder's entry under this term and ends the builder. False: not now. */
bool pass_propose(struct passes *p, enum policy_kind kind, struct entry_builder *b, size_t intents);
bool pass_propose_as(struct passes *p, const char *actor, unsigned slot_kind, struct entry_builder *b, size_t intents);
struct node_reply_to pass_reply(struct passes *p, unsigned slot_kind);
/* Is a type held back by a member? Says so in the log; `falls_back`: an older one takes its place. */
bool pass_held_back(struct passes *p, unsigned type, bool falls_back);

/* ---- sweep.c: owners for what has none, and rows that are nobody's ---- */

void sweep_turn(struct passes *p, uint64_t now_ms);
void prune_turn(struct passes *p);

/* ---- moves.c: the rebalance ---- */

void rebalance_turn(struct passes *p);
/* Counts the moves that stand still, and says so once of each. */
void moves_look(struct passes *p);

/* ---- watch.c: who is dead ---- */

/* Looks at heartbeats; marks who is dead. */
void liveness_turn(struct passes *p, uint64_t now_ms);
/* Shows the lane's view how long each member has been silent. */
void watch_show(struct passes *p, uint64_t now_ms);
void watch_forget(struct passes *p);

/* ---- failover.c: new leaders for those that are gone ---- */

void failover_turn(struct passes *p);

/* ---- drain.c: who may go ---- */

void drain_turn(struct passes *p);

void passes_init(struct passes *p, struct control *c, const char *policy_dir);
void passes_fini(struct passes *p);
uint64_t passes_turn(struct passes *p, uint64_t now_ms);

/* ---- report.c: what it says of itself ---- */

void report_register(struct control *c);
void report_intents(struct control *c, enum policy_kind k, enum svc_intent_outcome outcome, size_t count);

/* ---- control.c ---- */

struct control {
	struct node *node;
	struct view_setting settings[SETTING_COUNT];
	_Atomic raft_term leading;                                             /* 0 = not the leader */
	_Atomic uint64_t leading_since_ms;                                     /* monotonic */
	_Atomic uint64_t intents[POLICY_KIND_COUNT][SVC_INTENT_OUTCOME_COUNT]; /* what became of what policies said */
	_Atomic uint32_t moves_source_dead, moves_target_dead;                 /* when last looked */
	_Atomic bool dead_refused; /* a verdict of who is dead would break the quorum */
	struct plans plans;
	struct requests requests;
	struct passes passes;
};

/* Opens the lane's view of now. False: not the leader, its first entry not applied yet, or no state to read; `status`
 * is filled in any case. Ends with lane_close_view. */
bool lane_open_view(struct lane *l, uint64_t now_ms);
void lane_close_view(struct lane *l);
int64_t control_setting(const struct control *c, const char *name);
/* The lane wants to be woken once the applied index passes what it is now. */
void lane_watch_applied(struct lane *l);
/* Has every voter an alive member row? And does one have a row while another has none (a cluster that forms)? */
bool lane_voters_alive(const struct lane *l);
bool lane_is_forming(const struct lane *l);

void lane_init(struct lane *l, struct control *c, const char *policy_dir);
void lane_fini(struct lane *l);

#endif /* CONTROL_CONTROL_INTERNAL_H */
