/* http/watch.h - streams of changes: GET /v1/watch once it is answered.
 *
 *                     .-- since ----------.
 *   QUEUED -> STATE --+--> BEHIND --------+-> LIVE      (from now: LIVE at once)
 *    waits for   |            ^  caught up |  |
 *    its turn    |            `------------+--'  the client does not take what it is sent
 *                `--> ended: error line      any state: error line, then the connection closes
 *
 * A thread reads the list of changes once, for all its LIVE streams; which of them want a change is looked up by domain
 * and, of assignments, by the members it names, so that a change costs nothing for those whom it does not concern. A
 * stream whose client is slow stops being written to and reads the list for itself later, from a place of its own: what
 * it holds in memory is at most HTTP_WATCH_UNSENT and the lines of one index. What it is owed is counted, and over
 * HTTP_WATCH_SLOW it is closed.
 *
 * Lines of one index are always given together, all but the last with `more`. Progress says that all up to its index
 * was given, so only LIVE streams say it.
 * Ownership: a stream belongs to its connection.   Thread: its http thread.
 */
#ifndef HTTP_WATCH_H
#define HTTP_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "fsm/changes.h"
#include "service/watch.h"

struct http_conn;
struct http_thread;
struct http_watch;
struct svc_answer;

#define HTTP_WATCH_UNSENT (16u << 10) /* a stream that has more unsent is BEHIND */
#define HTTP_WATCH_SLOW (4u << 20)    /* unread bytes beyond which it is closed */
#define HTTP_WATCH_PROGRESS_MS 10000
#define HTTP_WATCH_STATES 8     /* per thread, at once: each holds a read transaction */
#define HTTP_WATCH_MEMBERS 1024 /* slots of the index by member */

/* Why streams ended: the label of a counter, and the code of the last line where there is one. */
#define HTTP_WATCH_END_MAP(X)                                                                                          \
	X(CLIENT, "client") /* it went away */                                                                         \
	X(COMPACTED, "compacted")                                                                                      \
	X(SLOW, "slow")                                                                                                \
	X(STALE, "stale")                                                                                              \
	X(FORBIDDEN, "forbidden")                                                                                      \
	X(STOPPED, "stopped")                                                                                          \
	X(NOT_READY, "not_ready")

enum http_watch_end {
#define HTTP_WATCH_END_ENUM(id, word) HTTP_WATCH_END_##id,
	HTTP_WATCH_END_MAP(HTTP_WATCH_END_ENUM)
#undef HTTP_WATCH_END_ENUM
	    HTTP_WATCH_ENDS
};
extern const char *const http_watch_end_words[HTTP_WATCH_ENDS];

struct http_watch_list {
	struct http_watch *first, *last;
};

/* The streams of a thread. Zeroed is none. */
struct http_watch_room {
	struct http_watch_list domains[FSM_DOMAIN_COUNT];   /* LIVE and BEHIND, without those in `members` */
	struct http_watch_list members[HTTP_WATCH_MEMBERS]; /* the same, of assignments, with member= */
	struct http_watch_list queued, reading;             /* reading: STATE and BEHIND */
	struct http_watch_list progress;                    /* LIVE, the next one due first */
	struct http_watch_list dirty;                       /* given something in this turn */
	struct fsm_change_pos pos;                          /* of the LIVE ones */
	raft_index index;                                   /* all changes up to it were given to them */
	raft_index users;                                   /* version of the users at which all were allowed */
	size_t count, states;
	uint64_t change; /* number of the one being offered */
	struct buf line; /* scratch */
	bool fresh;      /* something is left to do: the turn goes round once more */
};

/* Is this answer the beginning of a stream? Then of this type. */
const char *http_watch_content_type(const struct http_conn *c);
bool http_watch_is_begun(const struct http_conn *c, const struct svc_answer *a);
/* No room for another one: `a` becomes the refusal. */
bool http_watch_has_room(const struct http_thread *t, struct svc_answer *a);
/* Its head is in the connection's `out`. */
void http_watch_begin(struct http_conn *c);
/* Everything was sent: gives it more, if there is more. True: something was added. */
bool http_watch_fill(struct http_watch *w);
/* Ends with an error line; the connection closes when that is sent. */
void http_watch_end(struct http_watch *w, enum http_watch_end why);
void http_watch_free(struct http_watch *w); /* its connection is closed; accepts NULL */

/* Gives on what has changed; returns the next monotonic deadline in ms (UINT64_MAX: none). */
uint64_t http_watch_turn(struct http_thread *t, uint64_t now_ms);
void http_watch_room_fini(struct http_watch_room *r); /* no stream is left */

#endif /* HTTP_WATCH_H */
