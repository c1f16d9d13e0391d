/* http/call.h - one request on its way: found in the table, read, run here or forwarded, answered.
 *
 * A call does not know where its bytes came from: a connection (conn.h) or another server's link (inbound.h) fills it
 * in, starts it, and gets the answer through `finish`, once, maybe before http_call_start returns.
 * Ownership: target, fields and body are borrowed from the maker until `finish`.   Thread: its http thread.
 */
#ifndef HTTP_CALL_H
#define HTTP_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "http/head.h"
#include "http/query.h"
#include "http/routes.h"
#include "service/service.h"

struct http_thread;
struct http_uplink;

enum http_forward_state {
	HTTP_FORWARD_NONE = 0,
	HTTP_FORWARD_WAITING, /* for a leader, or for a link to it: nothing has left */
	HTTP_FORWARD_SENT,    /* its bytes may have left: never sent again */
	HTTP_FORWARD_CATCHUP, /* answered; the own replica follows */
};

struct http_call {
	struct http_thread *thread;
	void (*finish)(struct http_call *c, struct svc_answer *a); /* the answer is borrowed for the call */

	/* from the maker */
	enum http_verb verb;
	bool is_head;
	bool forwarded;                    /* came from another server: never forwarded again */
	bool overloaded;                   /* requests or answers hold too much memory already: refused */
	struct str target;                 /* origin form, as received */
	struct str fields[HTTP_FIELD_END]; /* p NULL: absent */

	/* call.c's own */
	struct http_match match;
	struct svc_request rq; /* body, peer, origin and principal are the maker's */
	struct http_param params[HTTP_PARAMS_MAX];
	size_t param_count;
	struct arena arena;         /* decoded text; empty for most requests */
	struct svc_session session; /* of the connection's requests so far */
	uint64_t started_ns;

	/* forward.c's own */
	struct {
		enum http_forward_state state;
		struct http_call *prev, *next; /* in the list of those that wait, or of a link */
		struct http_uplink *link;      /* SENT */
		uint64_t id;                   /* SENT: on the link */
		uint64_t deadline_ms;          /* monotonic; WAITING, SENT */
		uint64_t not_before_ms;        /* WAITING: the next attempt */
		uint64_t since_ns;             /* of the state */
		struct svc_answer answer;      /* CATCHUP */
	} fwd;
};

void http_call_start(struct http_call *c);
void http_call_run(struct http_call *c); /* on this node: after start, once it turns out to lead */
/* Frees what the call holds, and makes it ready for the next request; the maker's fields stay. After finish. */
void http_call_clear(struct http_call *c);
/* Counts and logs the answer, then hands it to the maker: every path ends here. */
void http_call_finish(struct http_call *c, struct svc_answer *a);

/* ---- for the files of the resources ---- */

/* The parameter's value; p NULL: not given. */
struct str http_call_param(const struct http_call *c, const char *key);
/* Path argument i, decoded. False: it does not decode, `a` is filled. */
bool http_call_arg(struct http_call *c, size_t i, struct str *out, struct svc_answer *a);
bool http_call_bad_param(struct svc_answer *a, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4); /* false */
/* A parameter that is true or false, if given. */
bool http_call_flag(struct http_call *c, const char *key, struct svc_answer *a);
/* A parameter KEY=VALUE, if given. */
bool http_call_pair(struct http_call *c, const char *key, struct str *name, struct str *value, struct svc_answer *a);
/* limit and page_token, as all lists take them. */
bool http_call_paging(struct http_call *c, struct svc_answer *a);

bool http_read_topic(struct http_call *c, struct svc_answer *a);
bool http_read_child(struct http_call *c, struct svc_answer *a);
bool http_read_schema_version(struct http_call *c, struct svc_answer *a);
bool http_read_confirm(struct http_call *c, struct svc_answer *a);
bool http_read_confirm_partition(struct http_call *c, struct svc_answer *a);
bool http_read_topic_list(struct http_call *c, struct svc_answer *a);
bool http_read_topic_partition(struct http_call *c, struct svc_answer *a);
bool http_read_moves(struct http_call *c, struct svc_answer *a);
bool http_read_move_abort(struct http_call *c, struct svc_answer *a);
bool http_read_assignment_list(struct http_call *c, struct svc_answer *a);
bool http_read_log(struct http_call *c, struct svc_answer *a);
bool http_read_watch(struct http_call *c, struct svc_answer *a);
bool http_read_server(struct http_call *c, struct svc_answer *a);
bool http_read_member_list(struct http_call *c, struct svc_answer *a);
bool http_read_member(struct http_call *c, struct svc_answer *a);
bool http_read_remotes(struct http_call *c, struct svc_answer *a);
bool http_read_remote(struct http_call *c, struct svc_answer *a);
bool http_read_user(struct http_call *c, struct svc_answer *a);

#endif /* HTTP_CALL_H */
