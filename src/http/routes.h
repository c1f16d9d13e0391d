/* http/routes.h - the one routing table: method, path, who may, what runs.
 *
 * Direct and forwarded requests go through the same table. A path segment in braces matches one segment, decoded.
 * HEAD is answered where GET is. A path without the method is 405 with Allow; no path at all is 404 no_such_path; a
 * query parameter that the route does not name is 400 bad_parameter.
 * Thread: any; the table is constant.
 */
#ifndef HTTP_ROUTES_H
#define HTTP_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "service/service.h"

struct http_call; /* http/call.h: one request on its way through a handler */

enum http_verb {
	HTTP_VERB_GET,
	HTTP_VERB_POST,
	HTTP_VERB_PUT,
	HTTP_VERB_PATCH,
	HTTP_VERB_DELETE,
	HTTP_VERB_OTHER, /* a method of HTTP that no path here takes: 405 or 404, as the path is known or not */
	HTTP_VERB_END
};

#define HTTP_ROUTES_MAX 96 /* bound of the statistics' table */

extern const char *const http_verb_names[HTTP_VERB_END];

enum http_route_flag {
	HTTP_READ = 1,  /* answered from this replica: 503 not_ready without one, the reads' parameters and headers */
	HTTP_WRITE = 2, /* runs on the leader: forwarded from elsewhere; every 5xx has an outcome */
	HTTP_IF_MATCH = 8, /* takes If-Match */
	HTTP_LEADER = 16,  /* a read that only the leader answers: forwarded from elsewhere, else 503 not_confirmed */
	HTTP_PLAIN = 4,    /* neither: status, health, metrics, barrier */
};

#define HTTP_ARGS_MAX 3 /* braces in one path */

struct http_route {
	enum http_verb verb;
	const char *path; /* "/v1/topics/{topic}" */
	enum svc_op op;
	enum svc_grant grant;
	unsigned flags;     /* enum http_route_flag */
	const char *params; /* query parameters it takes, blank-separated; "" none */
	/* Reads path and query into c->rq; false: `a` says why not. NULL: there is nothing to read. */
	bool (*read)(struct http_call *c, struct svc_answer *a);
};

extern const struct http_route http_routes[];
extern const size_t http_route_count;

struct http_match {
	const struct http_route *route; /* NULL: see `path_known` */
	bool path_known;                /* the path exists with other methods */
	unsigned allowed;               /* bit per enum http_verb that the path takes */
	struct str args[HTTP_ARGS_MAX]; /* still percent-encoded, borrowed from the path */
	size_t arg_count;
};

/* `path` without its query, as received. */
void http_route_find(enum http_verb verb, struct str path, struct http_match *out);
/* "GET, HEAD, POST" of an `allowed` mask. */
const char *http_allow_text(unsigned allowed, char *out, size_t cap);

#endif /* HTTP_ROUTES_H */
