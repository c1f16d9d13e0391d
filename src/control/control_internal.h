/* control/control_internal.h - what the two lanes share. */
#ifndef CONTROL_CONTROL_INTERNAL_H
#define CONTROL_CONTROL_INTERNAL_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/queue.h"
#include "control/control.h"
#include "control/policy.h"
#include "control/view.h"
#include "fsm/reader.h"

#define SETTING_COUNT 4

/* One decision's surroundings: the state at one index and who leads. */
struct lane_view {
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

/* ---- requests.c ---- */

#define REQUESTS_MAX 256 /* questions waiting at once; more are answered "not now" and created unplaced */
#define PLANNED_MAX 256  /* plans remembered until their entries are applied */

/* Where a placement that was just answered put partitions; its entry is proposed but not yet applied. */
struct planned {
	char *topic;                  /* NULL: the slot is free */
	raft_index index;             /* the state it was decided on */
	uint64_t until_ms;            /* forgotten then: its entry was refused or lost */
	struct view_pending *members; /* ids owned */
	size_t count;
};

struct requests {
	struct lane lane;
	struct queue *queue;                         /* of struct svc_placement * */
	struct svc_placement *waiting[REQUESTS_MAX]; /* in order of arrival */
	size_t waiting_count;
	uint64_t forming_since_ms; /* 0: not forming when last looked */
	struct planned planned[PLANNED_MAX];
	size_t planned_next;   /* ring */
	struct queue *schemas; /* of struct svc_schema_question * */
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

struct passes {
	struct lane lane;
	struct queue *completions; /* of struct node_completion */
	raft_term term;            /* the one this lane acts in; 0 = none */
	uint64_t next_tick_ms;
	raft_index members_seen;  /* version of the members looked at last */
	struct buf receivers;     /* those that could be given partitions then */
	uint64_t settle_until_ms; /* 0: no arrival is waiting for its pass */
	uint32_t outstanding;
	uint32_t generation; /* of the pass whose completions count */
	bool sweep_wanted;
	struct buf resume; /* topic after which the sweep goes on; empty: from the start */
};

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
	struct requests requests;
	struct passes passes;
};

/* Opens the lane's view of now. False: not the leader, its first entry not applied yet, or no state to read; `status`
 * is filled in any case. Ends with lane_close_view. */
bool lane_open_view(struct lane *l, uint64_t now_ms);
void lane_close_view(struct lane *l);
/* The lane wants to be woken once the applied index passes what it is now. */
void lane_watch_applied(struct lane *l);
/* Has every voter an alive member row? And does one have a row while another has none (a cluster that forms)? */
bool lane_voters_alive(const struct lane *l);
bool lane_is_forming(const struct lane *l);

void lane_init(struct lane *l, struct control *c, const char *policy_dir);
void lane_fini(struct lane *l);

#endif /* CONTROL_CONTROL_INTERNAL_H */
