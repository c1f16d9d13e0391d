/* service/service_internal.h - what the files of this folder share: the instance of one thread, and its tasks.
 *
 * A task is an operation that cannot be answered at once. It has at most one completion outstanding from the node, and
 * its slot is not used again before that completion came: so the completion queue, which has a slot for each task,
 * never lacks room.   Thread: the http thread that owns the struct svc.
 */
#ifndef SERVICE_SERVICE_INTERNAL_H
#define SERVICE_SERVICE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/prom.h"
#include "base/queue.h"
#include "fsm/assignments.h"
#include "fsm/changes.h"
#include "fsm/fsm.h"
#include "fsm/members.h"
#include "fsm/reader.h"
#include "fsm/settings.h"
#include "fsm/topics.h"
#include "model/json.h"
#include "service/bcrypt.h"
#include "service/hooks.h"
#include "service/names.h"
#include "service/service.h"

#define SVC_MIN_INDEX_MS 3000 /* longest wait of a read for min_index */
#define SVC_CONFIRM_MS 5000   /* what a majority is to confirm (strong read, barrier, refusal) becomes 503 after this */
#define SVC_TERM_WAIT_MS 3000 /* a new leader applies what came before its term within this, or refuses */
#define SVC_NAME_WAIT_MS 5000 /* behind other writes to the same topic */
#define SVC_THREADS_MAX 64

struct svc_shared {
	struct node *node;
	struct fsm *fsm;
	const char *data_dir, *build;
	uint32_t max_entry_type;
	int64_t flags[FSM_SETTING_COUNT];
	uint64_t started_ms;
	struct svc_names names;
	struct svc_idem *idem;
	struct svc *threads[SVC_THREADS_MAX]; /* filled before the threads start */
	struct wake *wakes[SVC_THREADS_MAX];
	size_t thread_count;
	struct bcrypt_queue bcrypt;
	struct auth *auth; /* NULL: auth is off */
	const char *admin_password;
	struct keyring_secrets secrets;
	struct svc_progress *progress; /* moves.c */
	_Atomic bool caught_up_once;   /* readyz: since start, seen by any thread */
};

enum svc_task_state {
	SVC_TASK_FREE,
	SVC_TASK_RUNNING,   /* inside one of its steps */
	SVC_TASK_APPLIED,   /* until this node has applied `want` */
	SVC_TASK_READ,      /* until the node answers with a read index */
	SVC_TASK_NAME,      /* until the topic's name is free */
	SVC_TASK_ASKED,     /* until the control plane answers a question of hooks.h */
	SVC_TASK_EXPECTING, /* until the work pool answers */
	SVC_TASK_PROPOSED,  /* until the node says what became of the entry */
	SVC_TASK_ABANDONED, /* answered; only its completion is still to come */
};

/* What ended a wait. */
enum svc_wake {
	SVC_WAKE_REACHED,   /* applied, name taken, question answered */
	SVC_WAKE_COMPLETED, /* `completion` is filled */
	SVC_WAKE_TIMEOUT,
};

struct svc_write;
struct svc_idem;
struct svc_log;
struct svc_login;
struct auth;
struct auth_known;
struct rights;

struct svc_task {
	struct svc *svc;
	uint32_t slot, generation;
	enum svc_task_state state;
	bool owed;                    /* a completion of the node is outstanding */
	struct svc_task *prev, *next; /* in svc->waiting while its state has a deadline */
	raft_index want;              /* SVC_TASK_APPLIED */
	uint64_t deadline_ms;         /* monotonic */
	uint32_t stripe;              /* of the name; held while holds_name */
	bool holds_name;
	uint32_t asked_seq; /* of the question asked last */
	struct node_completion completion;
	void (*resume)(struct svc_task *t, enum svc_wake why);

	struct svc_request rq; /* a copy; its texts are the caller's */
	svc_done done;         /* one of these two is called, once */
	svc_reached reached;
	void *arg;
	uint64_t since_ns; /* of the stage being measured */
	struct arena arena;
	struct svc_write *write;      /* writes: in the arena */
	struct node_change *change;   /* changes of the configuration: one hold */
	struct node_history *history; /* reads of the log: one hold */
	struct svc_log *log;          /* the same: in the arena */
	char to[RAFT_NAME_MAX + 1];   /* hand-overs: the named heir, or "" */
	struct svc_login *login;      /* logins: in the arena */
	struct svc_task *login_next;  /* auth.c's own */
};

struct svc {
	struct svc_shared *shared;
	uint32_t number; /* in shared->threads */
	struct wake *wake;
	struct node_watcher watcher;
	raft_index follow;         /* 0, or wake the thread behind this index */
	struct queue *completions; /* of struct node_completion: the node's answers */
	struct queue *asked;       /* the same: the control plane's */
	size_t asked_out;          /* questions that are not answered yet */
	uint32_t asked_seq;
	size_t slot_count;
	struct svc_task **slots; /* made when first used */
	uint32_t *free_slots;    /* stack */
	size_t free_count;
	size_t outstanding;
	struct svc_task *waiting; /* those with a deadline */
	struct fsm_reader reader;
	struct buf scratch; /* body of an answer given at once */
	struct arena arena; /* of one read */
	struct node_status status;
	uint64_t status_version; /* of `status`, plus 1 */
	struct prom_histogram stages[SVC_STAGE_END];
	struct log_limit login_log;
	const struct rights *rights; /* of the read at hand */
	struct auth_known *known;    /* auth on: the users this thread knows */
	struct {                     /* auth on, the first thread: the root user of a cluster without users */
		uint64_t again_ms;   /* monotonic time of the next look */
		bool busy;
		char password[40]; /* made here; "" = none */
	} seed;
};

/* ---- task.c ---- */

struct svc_task *svc_task_new(struct svc *s); /* NULL: all slots are in use */
void svc_task_release(struct svc_task *t);    /* ends it without an answer */
/* Answers and ends the task; `a`'s body is freed. */
void svc_task_answer(struct svc_task *t, struct svc_answer *a);
/* Each sets the state; `resume` goes on, maybe before these return. timeout_ms counts from now. */
void svc_task_wait_applied(struct svc_task *t, raft_index index, uint64_t timeout_ms);
void svc_task_wait_read(struct svc_task *t,
                        uint64_t timeout_ms); /* false completion: SVC_WAKE_COMPLETED with ERR_FULL */
void svc_task_wait_name(struct svc_task *t, struct str name, uint64_t timeout_ms);
void svc_task_give_name(struct svc_task *t); /* if it holds one */
void svc_task_wait_asked(struct svc_task *t, uint64_t timeout_ms);
void svc_task_wait_proposal(struct svc_task *t); /* node_propose took it: no time limit */
/* A completion from another thread than the node's: expect it before it can come, wait for it, and put it there. What
 * is expected and not waited for yet is not missed. */
void svc_task_expect(struct svc_task *t);
void svc_task_wait_expected(struct svc_task *t, uint64_t timeout_ms);
void svc_task_complete(const struct svc_task *t, int code); /* any thread; from then on the task may be another's */
struct node_reply_to svc_task_reply_to(const struct svc_task *t);
void svc_tasks_turn(struct svc *s, uint64_t now_ms);
bool svc_tasks_prepare_sleep(struct svc *s, uint64_t *next_ms);

/* ---- service.c ---- */

/* A task for this request; NULL: no slot is free, and `done` has heard it. */
struct svc_task *svc_task_begin(struct svc *s, const struct svc_request *rq, svc_done done, void *arg);

/* ---- reads.c ---- */

void svc_read_answer(struct svc *s, const struct svc_request *rq, struct svc_answer *a);
/* A read of the replica: is there one, and is it as fresh as asked? False: `a` is filled. */
bool svc_may_read_replica(struct svc *s, const struct svc_request *rq, struct svc_answer *a);

/* ---- fresh.c: what waits for an index ---- */

void svc_read_at(struct svc *s, const struct svc_request *rq, svc_done done, void *arg); /* for min_index */
void svc_confirm(struct svc *s, const struct svc_request *rq, svc_done done, void *arg); /* strong reads, the barrier */

/* ---- confirm.c: questions only the leader answers ---- */

bool svc_is_confirm(enum svc_op op);
void svc_confirm_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg);
int svc_confirm_topic(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_confirm_partition(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);

/* Each fills `a` from what `txn` sees. Non-zero: ERR_* of the store. */
int svc_topic_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_topic_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_child_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_schema_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_schema_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_topic_assignments(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_topic_assignment(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_assignment_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_move_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_member_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_member_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_server_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_status_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
bool svc_holds_log(const struct node_status *st, const struct raft_peer_view *p); /* the leader's log, for this peer */
int svc_watch_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_settings_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_remote_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_remote_test(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_remote_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_user_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_user_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
int svc_metrics_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a);
void svc_healthz(struct svc *s, struct svc_answer *a);
void svc_readyz(struct svc *s, struct svc_answer *a);
bool svc_is_ready(struct svc *s, char *why, size_t cap); /* why: text of facts, "" when ready */
bool svc_was_caught_up(struct svc *s);                   /* once since the start of this process */

bool svc_bad_field(struct svc_answer *a, const char *field, const char *text); /* 400; false */
/* Marks an answer as finished JSON: type, final newline, status. */
void svc_answer_json(struct svc_answer *a, int status);
void svc_fail_topic_missing(struct svc_answer *a);
/* The answer of a dry run: opened up to its intents, then closed with what would refuse it (`code` NULL: nothing). */
void svc_dry_run_begin(struct json_writer *w, bool would);
void svc_dry_run_end(struct json_writer *w, const char *code, const char *text);
/* Makes the answer of a dry run out of the refusal `a`. */
void svc_dry_run_refused(struct svc_answer *a, struct arena *arena);
/* Record and what veena adds to it, without the last brace. */
void svc_put_topic_open(struct buf *out, const struct fsm_topic *t);
/* One word of api.md for how a partition is. */
const char *svc_owner_liveness(const struct fsm_members *members,
                               struct str owner); /* unassigned, unknown, alive, dead */
const char *svc_assignment_state(const struct fsm_owner *o, const struct fsm_members *members);
/* The copies of a partition; none of a topic that is not replicated. */
int svc_get_copies(struct store_txn *txn, const struct fsm_topic *t, uint32_t p, struct fsm_replicas *out);
/* The whole answer of a GET, and its tag. Non-zero: ERR_* of the store. */
int svc_put_topic(struct svc *s, struct store_txn *txn, const struct fsm_topic *t, int64_t partition,
                  struct svc_answer *a);

/* One version of a schema as an answer of status 200. */
void svc_put_schema(struct svc_answer *a, struct str topic, uint32_t version, struct str document);

/* ---- etag.c ---- */

/* Tag of a record: `own` bytes of the answer are the record with what veena adds to it, the rest is joined from others.
 */
void svc_etag_record(struct svc_answer *a, size_t own);
/* Tag of an answer that holds what is no part of its state, ages for example: folds the part of the body from `from` to
 * its end into `hash`, piece by piece; then makes the tag of it. */
uint64_t svc_etag_fold(uint64_t so_far, const struct svc_answer *a, size_t from);
void svc_etag_hash(struct svc_answer *a, uint64_t whole);
/* Tag of a list whose lines come from these domains. True: the client has it, `a` is the 304. */
bool svc_etag_list(struct store_txn *txn, const struct svc_request *rq, const enum fsm_domain *domains, size_t count,
                   struct svc_answer *a, int *rc);
/* A finished answer becomes a 304 when the client has it, or a 400 when its If-None-Match cannot be read. */
void svc_etag_none_match(const struct svc_request *rq, struct svc_answer *a);

enum svc_precondition { SVC_PRECONDITION_MET, SVC_PRECONDITION_FAILED, SVC_PRECONDITION_UNREADABLE };
/* If-Match against a stored topic: only what the record itself holds counts. */
enum svc_precondition svc_etag_if_match(struct str field, const struct fsm_topic *t);

/* ---- moves.c ---- */

struct svc_progress *svc_progress_new(void);
void svc_progress_free(struct svc_progress *p); /* accepts NULL */

/* ---- write.c and the files of the writes ---- */

bool svc_write_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg); /* false: no slot is free */
void svc_write_drop(struct svc_task *t); /* lets go of what an unfinished write holds; accepts a task that is none */

/* ---- members.c ---- */

/* The member as it is shown, appended to the body; what counts for an entity tag is folded into `tag`. ERR_NOTFOUND. */
int svc_put_member(struct svc *s, struct store_txn *txn, struct str id, struct svc_answer *a, uint64_t *tag);

/* Why a member cannot leave. */
struct svc_fault {
	const char *code;
	char text[200];
};
#define SVC_FAULTS_MAX 4
/* What stands against draining and removing this member, as this node sees it; the leader's word counts. How many;
 * below 0: ERR_* of the store. `out` has room for SVC_FAULTS_MAX. */
int svc_decommission_faults(struct svc *s, struct store_txn *txn, const struct fsm_member *m, struct svc_fault *out);
void svc_put_faults(struct json_writer *w, const struct svc_fault *faults, size_t count); /* an array */

/* ---- log.c ---- */

void svc_log_begin(struct svc_task *t);
void svc_log_drop(struct svc_task *t); /* lets go of what an unfinished one holds; accepts a task that is none */

/* ---- cluster.c ---- */

void svc_cluster_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg);
void svc_snapshot_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg);

struct svc_refusal {
	int status;
	const char *code;
	char text[600];
};
/* ---- forget.c ---- */

/* May the server of t->change be forgotten? Notes in t->change->voter whether it votes. */
bool svc_forget_judge(struct svc_task *t, struct svc_refusal *why_not);

/* ---- auth.c ---- */

/* For what is neither a write of write.c nor a read of reads.c: does who asks hold the grant of the route, as of now?
 * False: `a` says why not. */
bool svc_task_may(struct svc_task *t, struct svc_answer *a);

/* ---- seed.c ---- */

void svc_seed_turn(struct svc *s, uint64_t now_ms);
void svc_seed_deadline(const struct svc *s, uint64_t *next_ms);

/* ---- audit.c ---- */

void svc_audit(const struct svc_task *t, const struct svc_answer *a); /* of a write, before it is answered */

/* Opens the body of an error for fields beside those that every error has, and closes it again. */
void svc_fail_open(struct svc_answer *a, struct json_writer *w);
void svc_fail_close(struct svc_answer *a, struct json_writer *w);
void svc_fail_not_leader(struct svc_answer *a); /* nothing happened: it may go where the leader is */
/* Status, code and sentence of an enum fsm_refusal. */
void svc_fail_refusal(struct svc_answer *a, int refusal, const char *hint, raft_index index);

#endif /* SERVICE_SERVICE_INTERNAL_H */
