/* service/watch.h - what a watch needs of the service: who may see what, and the state it may begin with.
 *
 * The stream itself is http/'s. A begin of `initial` is a list of one index, given in pieces from one read transaction
 * that stays open over the turns between them, for a bounded time: see SVC_STATE_MS.
 * Thread: the http thread that owns the struct svc.
 */
#ifndef SERVICE_WATCH_H
#define SERVICE_WATCH_H

#include "fsm/changes.h"
#include "fsm/watched.h"
#include "service/service.h"

#define SVC_WATCH_STALE_MS 5000 /* without contact for longer, a replica does not feed watches */
#define SVC_STATE_MS 30000      /* longest time that the state of one watch may hold its transaction */

/* The domains that a watcher may name, and those it gets when it names none and is no admin. */
#define SVC_WATCH_DOMAINS                                                                                              \
	(1u << FSM_DOMAIN_TOPICS | 1u << FSM_DOMAIN_SCHEMAS | 1u << FSM_DOMAIN_ASSIGNMENTS |                           \
	 1u << FSM_DOMAIN_MEMBERS | 1u << FSM_DOMAIN_SERVERS | 1u << FSM_DOMAIN_REMOTES | 1u << FSM_DOMAIN_POLICIES |  \
	 1u << FSM_DOMAIN_CONTROL | 1u << FSM_DOMAIN_SETTINGS | 1u << FSM_DOMAIN_USERS)
#define SVC_WATCH_SECRET (1u << FSM_DOMAIN_USERS) /* for admins */

/* What passes. */
struct svc_watch {
	uint32_t domains; /* bit per enum fsm_domain */
	uint16_t prefix_len, member_len;
	char prefix[FSM_CHANGE_KEY_MAX + 1]; /* of keys */
	char member[RAFT_NAME_MAX + 1];      /* of assignments; "" = all */
};

/* Takes the filter out of a request that was answered 200. The domains are those its caller may see. */
void svc_watch_read(struct svc *s, const struct svc_request *rq, struct svc_watch *out);
/* May whoever began it go on? False when a change of the users has taken the right from it. */
bool svc_watch_may_go_on(struct svc *s, const struct svc_principal *p, const struct svc_watch *w);
/* Does the change pass? Of assignments `members` are all that it names. */
bool svc_watch_passes(const struct svc_watch *w, enum fsm_domain domain, struct str key, struct str members);

struct svc_state;

/* NULL: the replica cannot be read now. */
struct svc_state *svc_state_new(struct svc *s, const struct svc_watch *w);
void svc_state_free(struct svc_state *st);          /* accepts NULL */
bool svc_state_is_over(const struct svc_state *st); /* its time is */
raft_index svc_state_index(const struct svc_state *st);

typedef void (*svc_state_line)(void *arg, enum fsm_domain domain, struct str key, struct str record);
/* The next records, about `bytes` of them. 0: there may be more; ERR_NOTFOUND: that was all; ERR_BUSY: another file is
 * in place, the state is void; ERR_TIMEOUT: its time is over; else the store's. */
MUST_CHECK int svc_state_next(struct svc_state *st, size_t bytes, svc_state_line line, void *arg);

#endif /* SERVICE_WATCH_H */
