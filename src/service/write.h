/* service/write.h - the state machine of a write, and what each kind of write adds to it.
 *
 *   parse -> (name) -> check ----ok----> plan -> (place) -> propose -> applied -> answer
 *                       ^  | refused                           |
 *                       |  v                                   | refused at apply: topic_changed, once; a placement
 *                     confirm: a read index begun after        | refused: once with others, then without it
 *                     the request came, then applied           |
 *                       ^                                      |
 *                       `--------------------------------------'
 *
 * check runs against the applied state of a leader that has applied everything from before its term, and judges by the
 * very code that applies. A refusal that depends on the state goes out only when that state is at or above a confirmed
 * index: until then a later write that this node has not seen might have made the request good. A refusal at apply
 * needs no confirmation: it is the log's own. The entry carries the term of the check, so nothing is appended under
 * another. Thread: its http thread.
 */
#ifndef SERVICE_WRITE_H
#define SERVICE_WRITE_H

#include "fsm/topics.h"
#include "model/entry.h"
#include "model/records.h"
#include "model/rules.h"
#include "service/service_internal.h"

/* What check found. */
enum svc_verdict {
	SVC_VERDICT_OK,
	SVC_VERDICT_REFUSED, /* the answer is filled and depends on the state */
	SVC_VERDICT_FAILED,  /* the answer is filled and does not */
};

struct svc_write_kind {
	bool takes_name;   /* reads a record, changes it and puts it back */
	bool only_deletes; /* passes while the store has nothing but its reserve left */
	/* Reads the body; no state. False: `a` is filled. */
	bool (*parse)(struct svc_task *t, struct svc_answer *a);
	/* Authorises and judges against `txn`, and plans: fills what propose needs, in the task's arena. ERR_* of the
	 * store go to *rc. */
	enum svc_verdict (*check)(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc);
	/* Adds the commands; the first is the one whose refusal is the write's. */
	void (*build)(struct svc_task *t, struct entry_builder *b);
	/* It is applied at `index`. */
	void (*answer)(struct svc_task *t, raft_index index, struct svc_answer *a);
};

extern const struct svc_write_kind svc_topic_create_kind, svc_topic_alter_kind, svc_topic_delete_kind;

/* One partition that wants an owner. */
struct svc_want {
	uint32_t partition;
	struct str owner; /* "" = left to the sweep */
};

struct svc_write {
	const struct svc_write_kind *kind;
	union {
		struct topic_create create;
		struct topic_alter alter;
	} body;

	/* made by check */
	struct topic topic;   /* the record as it will be */
	struct str expect_id; /* incarnation it is based on */
	struct str tail;      /* what veena shows beside the record, as `,"field":value...` */
	char id[HEX64_SIZE];  /* create: minted once, the same in every attempt */
	int64_t created_at;   /* create: Unix seconds */
	struct svc_want wants[TOPIC_PARTITIONS_MAX];
	size_t want_count;

	raft_term term;       /* of the check */
	raft_index confirmed; /* read index begun after the request came; 0: none yet */
	bool is_confirmed;
	unsigned changed_tries, place_tries;
	struct str avoid[TOPIC_PARTITIONS_MAX]; /* owners refused at apply */
	size_t avoid_count;
	bool left_out[TOPIC_PARTITIONS_MAX]; /* by partition: refused twice, left to the sweep */
	char unplaced[256];                  /* why partitions are left to the sweep; "" = they are not */
	struct svc_placement *placement;
	uint64_t began_ns; /* of the stage at hand */
};

/* ---- place.c ---- */

/* Asks the placer for owners of w->wants. False: there is nobody to ask, all stay unplaced. */
bool svc_place_ask(struct svc_task *t);
/* Takes the answer (or what stands for one that did not come). False: `a` is filled. */
bool svc_place_take(struct svc_task *t, bool answered, struct svc_answer *a);

/* ---- write.c, for the kinds ---- */

/* Asks fsm_judge; a refusal fills `a`. */
enum svc_verdict svc_write_judge(struct svc_task *t, struct store_txn *txn, unsigned type, const void *command,
                                 struct svc_answer *a, int *rc);
/* Reads the stored topic into w->topic (its texts in the arena) and sets expect_id. */
enum svc_verdict svc_write_load_topic(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc);
/* May the principal change this topic? */
enum svc_verdict svc_write_may_manage(struct svc_task *t, const struct topic *topic, struct svc_answer *a);
/* Reads a body by its table; fields of later capabilities are named as such. */
bool svc_write_read_body(struct svc_task *t, const struct record_type *type, void *out, struct svc_answer *a);
bool svc_write_fail_later(struct svc_answer *a, const char *field); /* false: this release does not take it yet */
/* The topic as it now stands if this write's entry changed it last, else as it was planned. */
void svc_write_answer_topic(struct svc_task *t, int status, raft_index index, struct svc_answer *a);

#endif /* SERVICE_WRITE_H */
