/* service/service.h - every operation of the API, once: authorise, check, plan, propose, answer.
 *
 * Knows neither HTTP nor sockets. The http floor turns a request, its own or one forwarded from another server, into a
 * struct svc_request and gets a struct svc_answer; both paths run the same code here. A read is answered before
 * svc_run returns, unless it waits for an index. A write is a small state machine (authorise, check against the applied
 * state, plan, propose, wait applied, answer) that svc_turn carries on when completions and indexes arrive.
 *
 * Writes run on the leader only. Elsewhere svc_run answers at once with `not_leader` set, and the caller forwards.
 * Ownership: a request's bytes are borrowed until its answer; an answer is borrowed for the call of `done`.
 * Thread: a struct svc belongs to one http thread. svc_shared is made before and freed after all of them.
 */
#ifndef SERVICE_SERVICE_H
#define SERVICE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/wake.h"
#include "node/node.h"
#include "service/keyring.h"

struct svc;
struct svc_shared;

enum svc_op {
	SVC_TOPIC_CREATE = 1,
	SVC_TOPIC_LIST,
	SVC_TOPIC_GET,
	SVC_TOPIC_ALTER,
	SVC_TOPIC_DELETE,
	SVC_CHILD_LIST,
	SVC_CHILD_ATTACH,
	SVC_CHILD_DETACH,
	SVC_CHILD_PAUSE, /* of a child on another cluster, as the next two */
	SVC_CHILD_RESUME,
	SVC_CHILD_SKIP,
	SVC_SCHEMA_LIST,
	SVC_SCHEMA_GET,
	SVC_SCHEMA_PUT,
	SVC_TOPIC_ASSIGNMENTS,
	SVC_TOPIC_ASSIGNMENT, /* one partition */
	SVC_ASSIGNMENT_LIST,
	SVC_MOVE_LIST,
	SVC_MOVE_SET,
	SVC_MOVE_PROGRESS, /* how far the target is; the leader remembers it, nothing is replicated */
	SVC_MOVE_COMPLETE,
	SVC_MOVE_ABORT,
	SVC_MOVE_ABORT_ALL,
	SVC_LEADER_SET,        /* of a replicated partition */
	SVC_REPLICAS_SET,      /* its copies */
	SVC_CONFIRM_TOPIC,     /* does it still exist? Answered by the leader, or not at all */
	SVC_CONFIRM_PARTITION, /* likewise: does a member still hold it? */
	SVC_MEMBER_LIST,
	SVC_MEMBER_GET,
	SVC_MEMBER_REGISTER, /* this one and two of the next a broker does in its own name */
	SVC_MEMBER_HEARTBEAT,
	SVC_MEMBER_LEAVE,
	SVC_MEMBER_PATCH,
	SVC_MEMBER_LOST,
	SVC_MEMBER_DECOMMISSION,
	SVC_MEMBER_RECOMMISSION, /* takes a decommission back */
	SVC_MEMBER_FORGET,       /* a server without a member record leaves the Raft configuration */
	SVC_SERVER_LIST,
	SVC_SERVER_SET,
	SVC_SERVER_REMOVE,
	SVC_LEADER_TRANSFER,
	SVC_SNAPSHOT,
	SVC_LOG,
	SVC_WATCH,
	SVC_SETTINGS_GET,
	SVC_SETTINGS_SET,
	SVC_STATUS,
	SVC_BARRIER,
	SVC_HEALTHZ,
	SVC_READYZ,
	SVC_REMOTE_LIST,
	SVC_REMOTE_GET,
	SVC_REMOTE_CREATE,
	SVC_REMOTE_ALTER,
	SVC_REMOTE_DELETE,
	SVC_REMOTE_TEST,
	SVC_REMOTE_REENCRYPT,
	SVC_USER_LIST,
	SVC_USER_GET,
	SVC_USER_CREATE,
	SVC_USER_DELETE,
	SVC_USER_GRANTS,
	SVC_USER_PASSWORD,
	SVC_USER_SEED, /* the service's own: the root user, made by the leader of a cluster without users */
	SVC_METRICS,   /* the node's series only; the http floor adds its own */
	SVC_OP_END,
};

/* What a caller must hold to run an operation. */
enum svc_grant {
	SVC_GRANT_NONE,    /* health and metrics: nobody is asked who they are */
	SVC_GRANT_ANY,     /* any known user */
	SVC_GRANT_READ,    /* may read this topic */
	SVC_GRANT_CREATE,  /* may create a topic of this name */
	SVC_GRANT_MANAGE,  /* owner of the topic, or admin */
	SVC_GRANT_MEMBER,  /* acts as this member, or admin: looked at where its id is known */
	SVC_GRANT_OBSERVE, /* admin, or observe */
	SVC_GRANT_ADMIN,
};

#define SVC_USER_MAX 64
#define SVC_PEER_MAX 64 /* an address and port as text */

/* Who asks. With auth off everybody is "anonymous" and may do everything; topics they create have no owner. */
struct svc_principal {
	char name[SVC_USER_MAX + 1];
	bool anonymous;
	bool root;
	uint64_t credential; /* hash of the stored password hash that was checked; the leader compares it with its own
	                      * record's. Not the record's time: that moves with grants too, and the request of a node
	                      * that is a moment behind would be refused for nothing */
	raft_index version;  /* of the users, at which this was found out; here only */
};

#define SVC_LIMIT_DEFAULT 100
#define SVC_LIMIT_MAX 1000

struct svc_request {
	enum svc_op op;
	enum svc_grant grant;
	struct svc_principal principal;
	char peer[SVC_PEER_MAX];        /* the client's address, for the audit log */
	char origin[RAFT_NAME_MAX + 1]; /* server the client spoke to */

	/* path */
	struct str topic;     /* decoded, unchecked; empty: the path has none */
	struct str child;     /* the same, of a parent's child */
	struct str server;    /* its id; likewise */
	struct str remote;    /* likewise, its name */
	struct str member_id; /* the same, of a member */
	struct str user;      /* the same, a user's name */
	int64_t partition;    /* of the path or the query; -1: none given */
	int64_t version;      /* of the path: a schema's; -1: none given */

	/* query; an absent text has p == NULL */
	uint32_t limit; /* 1..SVC_LIMIT_MAX */
	struct str page_token, prefix, owner, role, target, replica, member, state;
	struct str tag_key, tag_value;     /* tag=k=v */
	struct str label_key, label_value; /* label=k=v */
	struct str id, child_id;           /* incarnations that the topic and the child must have */
	struct str attach_epoch;           /* of its link to a parent: that it must still have */
	raft_index min_index;              /* 0: none */
	bool strong;                       /* a read: not before a read index begun after the request came */
	bool has_max_age;
	uint64_t max_age_ms; /* a read: 503 when the last contact with the leader is older */
	bool detail;
	bool force;   /* delete it though it is in use */
	bool dry_run; /* a write: judge, change nothing */
	bool has_since;
	raft_index since;   /* entries of the log, or changes, behind this one */
	uint32_t domains;   /* of a watch: bit per enum fsm_domain; 0: none named */
	bool initial;       /* of a watch: the state first */
	struct str cluster; /* id that this cluster must have */

	struct str if_match, if_none_match; /* header fields as received; p NULL: none */
	struct str session;                 /* the same: ID:SESSION of a broker */
	struct str body;                    /* as received */
	struct str idem_key;                /* a write: Idempotency-Key; empty: none */
	uint64_t request_hash;              /* of what makes the request the same one under its key */
};

#define SVC_ETAG_SIZE 36 /* two numbers of 16 hex digits, '-', quotes, NUL */

struct svc_answer {
	int status;               /* HTTP's number */
	const char *code;         /* stable word of an error, static; NULL on success */
	const char *content_type; /* static; NULL: no body (204) */
	struct buf body;          /* whole, with its final newline */
	char etag[SVC_ETAG_SIZE]; /* with its quotes; "" = none */
	raft_index index;       /* a read: where it was read; a write: of its last entry; 0: the applied index of now */
	uint32_t retry_after_s; /* 0: none */
	bool replayed;          /* the first answer to a request under its key, once more */
	bool not_applied;       /* a write that is committed and not yet applied on this node */
	bool not_leader;        /* nothing happened; another node may be asked */
	unsigned allowed;       /* of a 405, the http floor's: methods that the path takes */
};

/* Called once per svc_run, on the same thread, maybe before svc_run returns. */
typedef void (*svc_done)(void *arg, struct svc_answer *a);

struct svc_shared_options {
	struct node *node;
	const char *data_dir;    /* for the disk's figures; borrowed */
	const char *build;       /* borrowed */
	uint32_t max_entry_type; /* newest entry type this node claims */
	const int64_t *flags;    /* of enum fsm_setting, as this server was started; NULL: the defaults; borrowed for
	                          * the call */
	bool auth;               /* clients must say who they are */
	struct pool *pool;       /* auth: bcrypt; borrowed */
	struct keyring_secrets secrets; /* of the cluster, for sealing; borrowed until freed */
	const char *admin_password; /* auth: of the root user, should this node make it; NULL: a random one. Borrowed */
};
struct svc_shared *svc_shared_new(const struct svc_shared_options *o);
void svc_shared_free(struct svc_shared *sh); /* after all svc_free; accepts NULL */

/* `slots`: operations that may be outstanding on this thread; one more is answered 503 overloaded. `wake` (borrowed) is
 * signalled when svc_turn has something to do. Registers a watcher of the applied index: before the threads start. */
struct svc *svc_new(struct svc_shared *sh, size_t slots, struct wake *wake);
void svc_free(struct svc *s); /* outstanding operations are dropped without `done`; the node's threads have ended;
                               * accepts NULL */

/* Who sends this request? `header` is its Authorization field (p NULL: none), `peer` the client's address. `done` once,
 * maybe before this returns: `p` NULL means no, and `a` says why (401, 429, 503); both borrowed for the call. With auth
 * on, before svc_run; header and peer are borrowed for the call only. */
typedef void (*svc_auth_done)(void *arg, const struct svc_principal *p, struct svc_answer *a);
void svc_authenticate(struct svc *s, struct str header, const char *peer, svc_auth_done done, void *arg);

/* What a connection remembers of its last login: the requests behind it say the same, and a comparison of the header's
 * bytes is a tenth of what looking at them costs. Zeroed is nothing. */
#define SVC_AUTH_HEADER_MAX 264
struct svc_session {
	char header[SVC_AUTH_HEADER_MAX]; /* secret */
	size_t len;                       /* 0: nothing */
	struct svc_principal principal;
};
/* Is it the same login, and is what was found out about it still so? Constant time in the bytes. */
bool svc_session_is(const struct svc *s, const struct svc_session *session, struct str header);
void svc_session_keep(struct svc_session *session, struct str header, const struct svc_principal *p);

/* Does the operation take an Idempotency-Key? What is one entry of the log does. */
bool svc_write_takes_key(enum svc_op op);

void svc_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg);

/* Carries on what waited. */
void svc_turn(struct svc *s, uint64_t now_ms);
/* Last thing before the thread blocks, after wake_prepare: ends the read transaction and arms the watcher. Lowers
 * *next_ms to the next monotonic deadline. False: there is work, do not block but call svc_turn. */
bool svc_prepare_sleep(struct svc *s, uint64_t *next_ms);
size_t svc_outstanding(const struct svc *s); /* operations not yet answered */

/* The node's status, copied when it moved; borrowed until the next call. `version` (may be NULL) moves when it does. */
const struct node_status *svc_node_status(struct svc *s, uint64_t *version);
raft_index svc_applied_index(const struct svc *s);
/* Wakes the thread when more than `index` is applied; 0: no more. Until told otherwise. */
void svc_follow(struct svc *s, raft_index index);

/* `done` once this node has applied `index` (maybe before this returns) or the time is over. */
typedef void (*svc_reached)(void *arg, bool reached);
void svc_wait_index(struct svc *s, raft_index index, uint32_t timeout_ms, svc_reached done, void *arg);

/* Fills `a` with {"error", "code", "field"?}: the one place that writes an error's body. `field` may be NULL. */
void svc_fail(struct svc_answer *a, int status, const char *code, const char *field, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* The same for a failed write: every 5xx has an outcome ("none" or "unknown"), and a 503 with "none" a Retry-After;
 * index 0: left out. */
void svc_fail_write(struct svc_answer *a, int status, const char *code, const char *outcome, raft_index index,
                    const char *fmt, ...) PRINTF_LIKE(6, 7);

/* 503 to a question that only the leader answers: whoever asked keeps what it has. */
void svc_fail_not_confirmed(struct svc_answer *a, const char *why);

/* Time that one stage of a write took: what the http floor measures itself (forwarding, waiting for the own replica).
 */
enum svc_stage {
	SVC_STAGE_CHECK,   /* parse, authorise, judge */
	SVC_STAGE_PLACE,   /* waiting for the placement policy */
	SVC_STAGE_JUDGE,   /* waiting for the schema policy */
	SVC_STAGE_HASH,    /* waiting for bcrypt */
	SVC_STAGE_COMMIT,  /* proposed until applied here */
	SVC_STAGE_CONFIRM, /* read index of a refusal */
	SVC_STAGE_FORWARD, /* follower: frame out until answer in */
	SVC_STAGE_CATCHUP, /* follower: until the own replica applied the answer's index */
	SVC_STAGE_TOTAL,
	SVC_STAGE_END,
};
/* The audit line of a write that was forwarded and whose outcome is not known here. */
void svc_audit_lost(const struct svc_request *rq, const struct svc_answer *a);
void svc_note_stage(struct svc *s, enum svc_stage stage, uint64_t ns);

#endif /* SERVICE_SERVICE_H */
