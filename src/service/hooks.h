/* service/hooks.h - what the service asks of the floor above it, registered at boot.
 *
 * A create or a partition increase asks for owners here and goes on when they come. The control plane registers the
 * placer; without one, topics are created unplaced and its sweep (when it exists) places them later. A write with a
 * schema document asks whether the topic may have it; without a judge no schema is taken.
 * Thread: the setters before the http threads start; what they set is called on http threads.
 */
#ifndef SERVICE_HOOKS_H
#define SERVICE_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "model/entry.h"
#include "model/records.h"
#include "node/node.h"

enum svc_place_result {
	SVC_PLACE_DONE = 0,     /* owners[] is filled; an empty owner waits for the sweep */
	SVC_PLACE_NO_MEMBER,    /* no alive member: the topic is created unplaced */
	SVC_PLACE_ALL_DRAINING, /* every alive member drains: the write is refused with 503 */
	SVC_PLACE_PAUSED,       /* an operator paused placement: created unplaced */
	SVC_PLACE_FAILED,       /* the policy failed and so did what stands behind it: created unplaced */
};

/* One question and its answer. Made by the service with two holders, itself and the placer; each ends its hold with
 * svc_placement_unref. The placer reads the question, fills in the answer, and then puts one struct node_completion
 * {slot, generation of `reply`, code 0} into reply.queue, which never lacks room for it; from there on it touches
 * nothing but its own unref. The service may have stopped waiting by then (after SVC_PLACE_WAIT_MS). */
struct svc_placement {
	_Atomic uint32_t refs;
	struct node_reply_to reply;
	raft_term term; /* the leader's, when it asked */

	/* the question */
	struct str topic_json;      /* the topic as it will be, with what veena adds to the record; in `arena` */
	struct str topic;           /* its name */
	struct str topic_id;        /* its incarnation, 16 hex */
	const uint32_t *partitions; /* indexes that want an owner, ascending */
	size_t partition_count;     /* 1..108 */
	uint32_t replicas;          /* copies that each shall have */
	const struct str *avoid;    /* member ids refused at apply a moment ago: not to be named again */
	size_t avoid_count;

	/* the answer */
	enum svc_place_result result;
	struct str_list *owners; /* one per partition: its owner, or the leader and then the other copies; none = not
	                          * placed. Bytes in `arena` */
	char reason[256];        /* text for the log, "" = none */

	struct arena arena; /* whoever is at work (service, then placer) allocates from it */
};

/* A placer that has not answered after this long is given up and the topic is created unplaced: the wait of a forming
 * cluster (2 s) fits in. */
#define SVC_PLACE_WAIT_MS 4000

/* The command that carries a placement out: CMD_REPLICAS_PLACE where partitions have copies, the leader first; else
 * CMD_PARTITION_PLACE, or CMD_PARTITION_ASSIGN while a server does not know that one. */
void svc_place_add(struct entry_builder *b, unsigned type, const struct topic *t, uint32_t partition,
                   const struct str_list *owners);

void svc_placement_unref(struct svc_placement *p); /* the last holder frees it; accepts NULL */

/* `place` takes over one hold of `p` when it answers true. False: not now (queue full, control plane not running);
 * nothing was taken and the topic is created unplaced. */
typedef bool (*svc_placer)(void *arg, struct svc_placement *p);
void svc_set_placer(svc_placer place, void *arg);

/* ---- schemas ---- */

enum svc_schema_result {
	SVC_SCHEMA_COMPATIBLE = 0, /* it may become the next version */
	SVC_SCHEMA_UNCHANGED,      /* only annotations differ: it is taken, and no version made */
	SVC_SCHEMA_REFUSED,        /* `reason` says why */
	SVC_SCHEMA_FAILED,         /* no policy in force answered: the write is refused with 503 */
};

#define SVC_SCHEMA_REASON_MAX 256 /* bytes */

/* One question and its answer; held, answered and let go as a struct svc_placement is. */
struct svc_schema_question {
	_Atomic uint32_t refs;
	struct node_reply_to reply;

	/* the question; texts in `arena` */
	struct str topic_json; /* the topic as it is or will be, with what veena adds to the record */
	struct str current;    /* the latest version's document; p NULL: there is none */
	struct str document;   /* what is to come after it */

	/* the answer */
	enum svc_schema_result result;
	char reason[SVC_SCHEMA_REASON_MAX + 1]; /* "" = none; UTF-8 */

	struct arena arena; /* whoever is at work (service, then judge) allocates from it */
};

#define SVC_SCHEMA_WAIT_MS 5000 /* a judge that has not answered by then is given up: 503 */

void svc_schema_question_unref(struct svc_schema_question *q); /* the last holder frees it; accepts NULL */

/* As svc_placer. False: not now; the write is refused with 503, nothing happened. */
typedef bool (*svc_schema_judge)(void *arg, struct svc_schema_question *q);
void svc_set_schema_judge(svc_schema_judge judge, void *arg);

/* ---- what the control plane says of itself ---- */

/* A policy in force that failed, and how often since its text changed. */
struct svc_policy_fault {
	const char *kind, *source; /* "placement", "file" */
	char message[512];         /* UTF-8 */
	int line;                  /* 0 = unknown */
	uint64_t since_ms, at_ms;  /* Unix: its first fault, the latest */
	uint64_t count;
	bool benched; /* not tried again until its text changes */
};
#define SVC_POLICY_FAULTS_MAX 32

enum svc_intent_outcome { SVC_INTENT_APPLIED, SVC_INTENT_REFUSED, SVC_INTENT_DROPPED, SVC_INTENT_OUTCOME_COUNT };

/* Each is called on http threads. */
struct svc_control_hooks {
	void *arg;
	size_t (*faults)(void *arg, struct svc_policy_fault out[SVC_POLICY_FAULTS_MAX]); /* how many */
	void (*put_metrics)(void *arg, struct buf *out);                                 /* appends its series */
	/* What became of owners that the placer named: in an entry that was applied, refused, or lost. */
	void (*placed)(void *arg, enum svc_intent_outcome outcome, size_t count);
};
void svc_set_control(const struct svc_control_hooks *hooks); /* copied; NULL: there is no control plane */

/* Without a control plane: nothing. */
size_t svc_control_faults(struct svc_policy_fault out[SVC_POLICY_FAULTS_MAX]);
void svc_control_put_metrics(struct buf *out);
void svc_control_placed(enum svc_intent_outcome outcome, size_t count);

#endif /* SERVICE_HOOKS_H */
