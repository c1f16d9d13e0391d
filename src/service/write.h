/* service/write.h - the state machine of a write, and what each kind of write adds to it.
 *
 *           judge: the schema policy, then check again
 *                       ^  |
 *                   ask |  v
 *   parse -> (name) -> check ----ok----> plan -> (place) -> propose -> applied -> answer
 *                       ^  | refused                           |
 *                       |  v                                   | refused at apply: changed meanwhile, once; a placement
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

#include "fsm/members.h"
#include "fsm/topics.h"
#include "model/entry.h"
#include "model/records.h"
#include "model/rules.h"
#include "service/bcrypt.h"
#include "service/rights.h"
#include "service/service_internal.h"

/* What check found. */
enum svc_verdict {
	SVC_VERDICT_OK,
	SVC_VERDICT_REFUSED, /* the answer is filled and depends on the state: a refusal, or that nothing is to be done
	                      */
	SVC_VERDICT_FAILED,  /* the answer is filled and does not */
	SVC_VERDICT_HASH,    /* bcrypt must compute what w->hash asks for */
	SVC_VERDICT_ASK,     /* the schema policy must be asked what w->schema.question holds */
};

struct svc_write_kind {
	bool takes_name; /* reads a record, changes it and puts it back */
	/* Passes while store or disk have nothing but their reserve left: it deletes, or writes over what is there. */
	bool uses_reserve;
	/* Reads the body; no state. False: `a` is filled. NULL: whatever the body says is no part of the request. */
	bool (*parse)(struct svc_task *t, struct svc_answer *a);
	/* Authorises and judges against `txn`, and plans: fills what propose needs, in the task's arena. ERR_* of the
	 * store go to *rc. */
	enum svc_verdict (*check)(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc);
	/* Adds the commands; the first is the one whose refusal is the write's. */
	void (*build)(struct svc_task *t, struct entry_builder *b);
	/* What a dry run shows of it, after a check that found nothing against it: elements of an array. NULL: nothing.
	 */
	void (*intents)(struct svc_task *t, struct json_writer *w);
	/* It is applied at `index`. */
	void (*answer)(struct svc_task *t, raft_index index, struct svc_answer *a);
};

extern const struct svc_write_kind svc_topic_create_kind, svc_topic_alter_kind, svc_topic_delete_kind;
extern const struct svc_write_kind svc_settings_kind;
extern const struct svc_write_kind svc_remote_create_kind, svc_remote_alter_kind, svc_remote_delete_kind;
extern const struct svc_write_kind svc_remote_reencrypt_kind, svc_remote_attach_kind;
extern const struct svc_write_kind svc_child_pause_kind, svc_child_resume_kind, svc_child_skip_kind;
extern const struct svc_write_kind svc_user_create_kind, svc_user_delete_kind, svc_user_grants_kind;
extern const struct svc_write_kind svc_user_password_kind, svc_user_seed_kind;
extern const struct svc_write_kind svc_move_set_kind, svc_move_progress_kind, svc_move_complete_kind;
extern const struct svc_write_kind svc_move_abort_kind, svc_move_abort_all_kind;
extern const struct svc_write_kind svc_member_register_kind, svc_member_heartbeat_kind, svc_member_leave_kind;
extern const struct svc_write_kind svc_member_patch_kind, svc_member_lost_kind;
extern const struct svc_write_kind svc_member_decommission_kind, svc_member_recommission_kind;
extern const struct svc_write_kind svc_child_attach_kind, svc_child_detach_kind, svc_schema_put_kind;

extern const struct svc_write_kind svc_leader_set_kind, svc_replicas_set_kind;

struct svc_copies;

/* One partition that wants an owner. */
struct svc_want {
	uint32_t partition;
	struct str_list owners; /* the owner, or the leader and then the other copies; none = left to the sweep */
};

/* A move as a check found it. Texts in the task's arena. */
struct svc_move {
	struct str topic, topic_id, owner, target;
	uint32_t partition;
	raft_index move_id;
	bool pinned;
};

/* A schema document on its way to become a topic's next version. */
struct svc_schema_wish {
	struct str document; /* without its white space; p NULL: the write has none */
	/* made by check */
	bool is_new;     /* it is to be stored; else the latest version says the same */
	int64_t version; /* then as this one */
	/* what the policy said, good for one version of one incarnation */
	struct svc_schema_question *question; /* being asked, or about to be */
	int64_t judged_after;                 /* the latest version it was compared with, 0 = none; -1: not judged */
	struct str judged_id;
	enum svc_schema_result result;
	char reason[SVC_SCHEMA_REASON_MAX + 1];
	unsigned asked; /* times */
};

/* What bcrypt is asked in the course of a write, and what it said. */
struct svc_hash {
	struct str password, against; /* against p NULL: make a hash, else compare with this one */
	struct svc_hash_job *job;     /* being computed */
	char made[BCRYPT_LEN + 1];    /* "" = not yet */
	uint64_t tried;               /* fsm_hash of the stored hash that was compared with; 0 = none */
	bool matched;
};

struct svc_write {
	const struct svc_write_kind *kind;
	union {
		struct topic_create create;
		struct topic_alter alter;
		struct child_attach attach;
		struct move_set move;
		struct move_progress progress;
		struct move_complete complete;
		struct leader_set leader_set;
		struct replicas_set replicas_set;
		struct settings_patch settings;
		struct user_create user_create;
		struct user_grants user_grants;
		struct user_password user_password;
		struct member_register member_register;
		struct member_patch member_patch;
		struct member_leave member_leave;
		struct member_lost member_lost;
		struct remote_create remote_create;
		struct remote_patch remote_patch;
		struct child_pause pause;
		struct child_resume resume;
		struct child_skip skip;
	} body;
	const struct rights *rights; /* of who asks; for the length of a check */

	/* made by check */
	struct topic topic;        /* the record as it will be */
	struct str expect_id;      /* incarnation it is based on */
	struct svc_copies *copies; /* of the path's partition: replica_write.c's */
	struct topic_extra extra;  /* what veena adds to it, as it will be; when `has_extra` */
	bool has_extra;
	bool has_replication; /* it changes */
	struct str tail;      /* what veena shows beside the record, as `,"field":value...` */
	bool has_config;      /* alter: the record changes */
	struct svc_schema_wish schema;
	struct topic partner;   /* attach, detach: the child; create with parent: the parent */
	char id[HEX64_SIZE];    /* create: minted once, the same in every attempt */
	char epoch[HEX64_SIZE]; /* of a link; the same */
	int64_t created_at;     /* create: Unix seconds */
	size_t lead;            /* commands of the entry before the first placement */
	struct svc_want wants[TOPIC_PARTITIONS_MAX];
	size_t want_count;

	struct svc_move *moves; /* moves: the one, or those to be aborted */
	size_t move_count;
	bool sets_target, sets_pin; /* what a move changes */
	bool more_moves;            /* than one entry takes */

	struct svc_remote_write *remote;      /* remotes: remote_write.c's own */
	struct svc_remote_attach *attach;     /* children on other clusters: remote_children.c's own */
	struct cmd_remote_child_state *state; /* the same */

	struct user user;                /* users: the record as it is, then as it will be */
	unsigned delete_type;            /* users: the entry type that deletes */
	struct member member;            /* members: the record as it is */
	struct fsm_member_counts counts; /* lost: of the partitions that name it */
	struct svc_hash hash;

	raft_term term;       /* of the check */
	unsigned max_type;    /* newest entry type proposed last */
	raft_index confirmed; /* read index begun after the request came; 0: none yet */
	bool is_confirmed;
	unsigned changed_tries, place_tries;
	struct str avoid[TOPIC_PARTITIONS_MAX]; /* owners refused at apply */
	size_t avoid_count;
	bool left_out[TOPIC_PARTITIONS_MAX]; /* by partition: refused twice, left to the sweep */
	char unplaced[256];                  /* why partitions are left to the sweep; "" = they are not */
	struct svc_placement *placement;
	uint64_t began_ns; /* of the stage at hand */
	bool idem_entered; /* it runs under an Idempotency-Key */
	struct svc_task *idem_next;
};

/* ---- remote_children.c ---- */

/* The body of an attach names a remote: from here on the write is of another kind. */
bool svc_remote_attach_parse(struct svc_task *t, struct svc_answer *a);

/* ---- place.c ---- */

/* Asks the placer for owners of w->wants. False: there is nobody to ask, all stay unplaced. */
bool svc_place_ask(struct svc_task *t);
/* Takes the answer (or what stands for one that did not come). False: `a` is filled. */
bool svc_place_take(struct svc_task *t, bool answered, struct svc_answer *a);

/* ---- schema_write.c ---- */

/* Takes the body's document, if there is one. */
void svc_schema_wish(struct svc_task *t, struct str document);
/* May the topic have it, whose latest version is `latest`? Fills is_new and version; the policy is asked at most once
 * for each state. The caller has judged everything that needs no policy. */
enum svc_verdict svc_schema_check(struct svc_task *t, struct store_txn *txn, const struct topic *topic, int64_t latest,
                                  struct svc_answer *a, int *rc);
/* The same for the next version of a stored topic: a child's is its parent's, and `base` must be the latest if given.
 */
enum svc_verdict svc_schema_check_next(struct svc_task *t, struct store_txn *txn, const struct fsm_topic *stored,
                                       const struct opt_i64 *base, struct svc_answer *a, int *rc);
void svc_schema_build(struct svc_task *t, struct entry_builder *b); /* the version, if there is to be one */
/* Asks the judge. False: there is nobody to ask, or not now. */
bool svc_schema_ask(struct svc_task *t);
/* Takes the answer (or what stands for one that did not come). False: `a` is filled. */
bool svc_schema_take(struct svc_task *t, bool answered, struct svc_answer *a);
void svc_schema_drop(struct svc_task *t); /* what an unfinished write holds */

/* ---- entries.c: the newer entry, or while a server does not know it the older ones ---- */

void svc_add_topic_create(struct svc_task *t, struct entry_builder *b, const struct cmd_topic_create_with *c);
void svc_add_topic_update(struct svc_task *t, struct entry_builder *b, const struct cmd_topic_update_if *c);
void svc_add_topic_delete(struct svc_task *t, struct entry_builder *b, const struct cmd_topic_delete_if *c);
void svc_add_schema(struct svc_task *t, struct entry_builder *b, const struct cmd_schema_put_if *c);
void svc_add_attach(struct svc_task *t, struct entry_builder *b, const struct cmd_child_attach_if *c);
void svc_add_detach(struct svc_task *t, struct entry_builder *b, const struct cmd_child_detach_if *c);

/* ---- user_write.c ---- */

bool svc_hash_begin(struct svc_task *t); /* the task expects a completion; false: too many wait */
void svc_hash_take(struct svc_task *t);  /* it came */
void svc_hash_drop(struct svc_task *t);  /* what an unfinished write holds */

/* ---- member_write.c ---- */

/* The path's member: its record into w->member, what veena keeps beside it into `x`. */
enum svc_verdict svc_write_load_member(struct svc_task *t, struct store_txn *txn, struct fsm_member_extra *x,
                                       struct svc_answer *a, int *rc);
bool svc_write_is_configured(struct svc_task *t, struct str id); /* a server of the Raft configuration */

/* ---- broker_write.c ---- */

/* A broker does it as itself, by a grant on its id. */
enum svc_verdict svc_write_may_act_as(struct svc_task *t, struct str id, struct svc_answer *a);
/* The same of a request in a member's name that is not about the member itself: whoever sends a session must have the
 * newest, and a broker must send it. */
enum svc_verdict svc_write_check_sender(struct svc_task *t, struct store_txn *txn, struct str id, struct svc_answer *a,
                                        int *rc);
/* The session as a command of its own, first in the entry; of a request that has one. */
void svc_write_build_session(struct svc_task *t, struct str id, struct entry_builder *b);

/* ---- write_kinds.c ---- */

/* 412: who knows no entry of this type. */
void svc_write_fail_held_back(struct svc_task *t, unsigned type, struct svc_answer *a);

/* May an entry of this type be proposed, which every server and server's member has to know? False: the log says who
 * does not, and the kind plans older entries in its place. */
bool svc_write_may_use(struct svc_task *t, unsigned type);
/* The same for a write that has no older entries to fall back to: FAILED fills `a` with 412 held_back and who it is. */
enum svc_verdict svc_write_needs(struct svc_task *t, unsigned type, struct svc_answer *a);
/* Asks fsm_judge; a refusal fills `a`. */
enum svc_verdict svc_write_judge(struct svc_task *t, struct store_txn *txn, unsigned type, const void *command,
                                 struct svc_answer *a, int *rc);
/* Reads the stored topic into w->topic (its texts in the arena) and sets expect_id. Refuses another incarnation than
 * the request's and a record that its If-Match does not name. `stored` (may be NULL): borrowed from the transaction. */
enum svc_verdict svc_write_load_topic(struct svc_task *t, struct store_txn *txn, struct fsm_topic *stored,
                                      struct svc_answer *a, int *rc);
/* The same of the path's partition; refuses another incarnation than `expect_id` (p NULL: any). */
enum svc_verdict svc_write_load_partition(struct svc_task *t, struct store_txn *txn, struct str expect_id,
                                          struct fsm_topic *stored, struct svc_answer *a, int *rc);
/* Reads the topic `name` into w->partner; `missing` is the refusal when there is none. */
enum svc_verdict svc_write_load_partner(struct svc_task *t, struct store_txn *txn, struct str name, int missing,
                                        struct svc_answer *a, int *rc);
/* Refuses with what the state says, as svc_write_judge does. */
enum svc_verdict svc_write_refuse(struct svc_task *t, int refusal, const char *hint, struct svc_answer *a);
/* May who asks change this topic? */
enum svc_verdict svc_write_may_manage(struct svc_task *t, const struct topic *topic, struct svc_answer *a);
/* What a reader or a rule of the model said of the body: false, and `a` is filled, when it refused. */
bool svc_write_check_rules(int rc, const struct record_fault *fault, const struct err *e, struct svc_answer *a);
/* Reads a body by its table. */
bool svc_write_read_body(struct svc_task *t, const struct record_type *type, void *out, struct svc_answer *a);
/* Makes w->tail anew, for w->topic and what it will have beyond the record. */
void svc_write_plan_tail(struct svc_task *t, const struct topic_extra *extra);
/* The topic as it is planned, whole. */
void svc_write_put_topic(const struct svc_write *w, struct buf *out);
/* The topic as it now stands if this write's entry changed it last, else as it was planned. */
void svc_write_answer_topic(struct svc_task *t, int status, raft_index index, struct svc_answer *a);
/* The path's partition as it now stands; as this write left it, if its topic is gone already. */
void svc_write_answer_row(struct svc_task *t, int status, raft_index index, const struct fsm_owner *left,
                          const struct fsm_replicas *copies, struct svc_answer *a);
void svc_write_answer_nothing(struct svc_task *t, raft_index index, struct svc_answer *a); /* 204 */

#endif /* SERVICE_WRITE_H */
