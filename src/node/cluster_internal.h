/* node/cluster_internal.h - the part of node_internal.h about who is in the cluster: registration, the entry-type gate,
 * changes of the configuration, promotion, joining. All of it is the consensus thread's.
 */
#ifndef NODE_CLUSTER_INTERNAL_H
#define NODE_CLUSTER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/log.h"
#include "node/node.h"
#include "node/wire.h"
#include "raft/raft.h"

struct node_event; /* node_internal.h, as the next */
struct node_report;

/* ---- registration (register.c) ---- */

#define NODE_REGISTER_SLOTS 64 /* registrations being committed */

/* A registration whose entry is on its way through the log of this leader. */
struct node_register_slot {
	bool used;
	uint32_t generation;
	char name[RAFT_NAME_MAX + 1];
	uint64_t request;
};

struct node_registration {
	bool accepted;    /* since start */
	uint64_t request; /* of the attempt made last */
	uint64_t next_ms;
	node_id told_leader;             /* leader the attempt went to */
	int last_refusal;                /* logged once per kind */
	char readmit[RAFT_NAME_MAX + 1]; /* leader: a server of the configuration that a tombstone refused; "" = none */
	struct node_register_slot slots[NODE_REGISTER_SLOTS];
};

uint64_t node_register_turn(struct node *n); /* returns the next deadline */
void node_register_on_frame(struct node *n, const struct node_event *ev);
void node_register_on_reply(struct node *n, const struct node_event *ev);
void node_register_drain(struct node *n); /* applied registrations */

/* ---- the entry-type gate (gate.c) ---- */

void node_gate_take_reports(struct node *n);
void node_gate_recount(struct node *n);
bool node_gate_lets(const struct node *n, unsigned type);       /* may an entry of this type be appended? */
void node_gate_note_use(struct node *n, const struct entry *e); /* an entry that is in the log now */

const struct node_report *node_gate_report(const struct node *n, const char *name); /* NULL: no row */
bool node_gate_is_broker(const struct node *n, const char *name); /* is this id one that a broker registered? */

/* ---- who belongs to the cluster (membership.c) ---- */

#define NODE_ADMISSIONS_MAX 8

/* A change of the configuration on its way, on the leader: asked for by an operator or by a joiner. */
struct node_admission {
	enum {
		NODE_ADMISSION_FREE,
		NODE_ADMISSION_PROBING,   /* is it there, and who is it? */
		NODE_ADMISSION_WAITING,   /* until no other change is under way */
		NODE_ADMISSION_CHANGING,  /* in the log */
		NODE_ADMISSION_LINGERING, /* answered; the link is kept until the answer has left */
	} state;
	struct node_change *change; /* NULL: a joiner's */
	char id[RAFT_NAME_MAX + 1];
	char addr[RAFT_ADDR_MAX + 1];
	char link[RAFT_NAME_MAX + 1]; /* name of the link that leads to it; "" = none */
	bool probes;                  /* the link is for this alone */
	bool voter;
	/* joiners */
	node_id incarnation; /* 0 = whoever answers */
	bool fresh;          /* never was a member */
	uint64_t deadline_ms;
	raft_term term;
	raft_index index; /* CHANGING: where it stands */
	bool added, changed;
};

struct node_membership {
	struct node_admission slots[NODE_ADMISSIONS_MAX];
	struct {
		node_id id; /* 0 = free */
		uint64_t since_ms;
	} keeping_up[RAFT_SERVERS_MAX];
	char last_fault[RAFT_NAME_MAX + 256]; /* of the promotion tried last: logged once */
	uint64_t next_promotion_ms;
	struct log_limit refused_limit;
};

uint64_t node_membership_turn(struct node *n); /* returns the next deadline */
void node_membership_discard(struct node *n);  /* at the end: nobody is answered */
void node_membership_refuse(struct node *n, int code);
/* A joiner asks: by its own frame or one that a follower passed on. */
void node_membership_admit(struct node *n, const struct wire_join *j);

/* ---- promotion (promote.c) ---- */

uint64_t node_promote_turn(struct node *n);                            /* returns the next deadline */
bool node_has_answered(const struct node *n, node_id id, uint64_t ms); /* leader: within the last `ms` */
/* node_promotion_fault, by what was published last. */
enum node_fault node_promotion_blocked(const struct node *n, const struct raft_server *s, char *why, size_t cap);
void node_membership_fill(const struct node *n, struct node_status *s);

/* ---- joining a cluster (join.c) ---- */

struct node_join {
	uint64_t next_ms;
	uint64_t next_nag_ms;
	uint64_t leaderless_ms; /* since when; 0 = a leader is known */
	size_t dialled;         /* of --join: links by address, "join/0" and so on */
	bool removed;           /* the leader said so */
	bool asked;             /* since the start */
	char last_text[512];    /* of the cluster's answer: logged when it changes */
};

uint64_t node_join_turn(struct node *n); /* returns the next deadline */
void node_join_on_up(struct node *n, const struct node_event *ev);
void node_join_on_frame(struct node *n, const struct node_event *ev);
void node_join_on_reply(struct node *n, const struct node_event *ev);
void node_join_note_removed(struct node *n, const char *told_by);

#endif /* NODE_CLUSTER_INTERNAL_H */
