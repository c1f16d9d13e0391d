/* The path of every request: route, authenticate, content type, parameters, then the service - here or on the leader.
 *
 * What can be refused without the leader is refused on the node the client spoke to, in this order: 401, 404/405, 415,
 * 400 for headers and parameters. Bodies are read by the service, on the leader.
 */
#include "http/call.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "fsm/changes.h"
#include "http/forward.h"
#include "http/thread.h"
#include "model/rules.h"

/* ---- the ends ---- */

static void log_access(const struct http_call *c, const struct svc_answer *a, uint64_t ns)
{
	char target[256];

	if (!log_enabled(LOG_LEVEL_DEBUG))
		return;
	log_quote(target, sizeof(target), c->target.p, c->target.len);
	log_debug("http.access",
	          "peer=%s method=%s target=%s status=%d bytes=%zu us=%" PRIu64 " index=%" PRIu64 " forwarded=%s",
	          c->rq.peer, c->is_head ? "HEAD" : http_verb_names[c->verb], target, a->status, a->body.len, ns / 1000,
	          a->index, c->forwarded ? "yes" : "no");
}

void http_call_finish(struct http_call *c, struct svc_answer *a)
{
	uint64_t ns = clock_mono_ns() - c->started_ns;

	http_stats_answer(&c->thread->stats, c->match.route, a->status, ns);
	if (c->match.route && c->match.route->flags & HTTP_WRITE)
		svc_note_stage(c->thread->svc, SVC_STAGE_TOTAL, ns);
	log_access(c, a, ns);
	c->finish(c, a);
}

void http_call_clear(struct http_call *c)
{
	if (c->arena.used > 0 || c->arena.first)
		arena_fini(&c->arena);
	c->param_count = 0;
}

static void finish_failed(struct http_call *c, struct svc_answer *a)
{
	http_call_finish(c, a);
	buf_fini(&a->body);
}

/* ---- what is refused before the service ---- */

/* application/json, with or without parameters; application/octet-stream for Narad's clients. */
static bool is_json_type(struct str v)
{
	static const char *const types[] = { "application/json", "application/octet-stream" };
	const char *semi = v.len ? memchr(v.p, ';', v.len) : NULL;

	if (semi)
		v.len = (size_t)(semi - v.p);
	while (v.len > 0 && (v.p[v.len - 1] == ' ' || v.p[v.len - 1] == '\t'))
		v.len--;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (v.len == strlen(types[i]) && strncasecmp(v.p, types[i], v.len) == 0)
			return true;
	}
	return false;
}

/* A browser can be made to send a form or text across sites, but neither this type nor this header without asking. */
static bool check_content_type(const struct http_call *c, struct svc_answer *a)
{
	if (c->verb == HTTP_VERB_GET || c->verb == HTTP_VERB_DELETE || c->fields[HTTP_FIELD_CLIENT].p ||
	    is_json_type(c->fields[HTTP_FIELD_CONTENT_TYPE]))
		return true;
	svc_fail(a, 415, "content_type", NULL,
	         "this request needs Content-Type: application/json or an X-Veena-Client header");
	return false;
}

/* What a client asks for and this release does not do is refused: to ignore a precondition would be to break it. */
static bool check_fields(const struct http_call *c, struct svc_answer *a)
{
	const struct {
		enum http_field field;
		const char *name;
		bool taken;
	} some[] = {
		{ HTTP_FIELD_IF_MATCH, "If-Match", c->match.route->flags & HTTP_IF_MATCH },
		{ HTTP_FIELD_IF_NONE_MATCH, "If-None-Match", c->match.route->flags & HTTP_READ },
		{ HTTP_FIELD_IDEMPOTENCY_KEY, "Idempotency-Key", svc_write_takes_key(c->match.route->op) },
	};

	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		if (c->fields[some[i].field].p && !some[i].taken) {
			svc_fail(a, 400, "bad_parameter", some[i].name, "this path does not take the header %s",
			         some[i].name);
			return false;
		}
	}
	return true;
}

static bool names_param(const char *list, struct str key)
{
	for (const char *p = list; *p;) {
		size_t n = strcspn(p, " ");

		if (n == key.len && memcmp(p, key.p, n) == 0)
			return true;
		p += n;
		p += strspn(p, " ");
	}
	return false;
}

/* Text from outside inside a message: what is not printable is escaped, what is long is cut. */
static const char *shown(char *out, size_t cap, struct str s)
{
	return log_quote(out, cap, s.p, s.len < 64 ? s.len : 64);
}

/* Which freshness a read of the replica asks for is the same for all of them. */
#define READ_PARAMS "min_index consistency max_age_ms"

static bool is_taken(const struct http_route *r, struct str key)
{
	return names_param(r->params, key) || (r->flags & HTTP_READ && names_param(READ_PARAMS, key));
}

static bool fail_query(struct svc_answer *a, enum http_query_fault fault, struct str bad)
{
	char name[96];

	shown(name, sizeof(name), bad);
	switch (fault) {
	case HTTP_QUERY_NAMELESS: return http_call_bad_param(a, name, "a query parameter has a value and no name");
	case HTTP_QUERY_TWICE: return http_call_bad_param(a, name, "the query parameter '%s' stands twice", name);
	case HTTP_QUERY_TOO_MANY:
		return http_call_bad_param(a, name, "the query has more than %d parameters; '%s' is one too many",
		                           HTTP_PARAMS_MAX, name);
	case HTTP_QUERY_ENCODING:
	case HTTP_QUERY_FINE: break;
	}
	return http_call_bad_param(a, name, "the query parameter '%s' is not percent-encoded UTF-8", name);
}

static bool check_params(struct http_call *c, struct str query, struct svc_answer *a)
{
	struct str bad = { "", 0 };
	char name[96];

	enum http_query_fault fault = http_query_parse(query, &c->arena, c->params, &c->param_count, &bad);

	if (fault != HTTP_QUERY_FINE)
		return fail_query(a, fault, bad);
	for (size_t i = 0; i < c->param_count; i++) {
		if (!is_taken(c->match.route, c->params[i].key)) {
			shown(name, sizeof(name), c->params[i].key);
			return http_call_bad_param(a, name, "this path does not take the query parameter '%s'", name);
		}
	}
	return true;
}

static bool read_freshness(struct http_call *c, struct svc_answer *a)
{
	struct str index = http_call_param(c, "min_index");
	struct str consistency = http_call_param(c, "consistency");
	struct str age = http_call_param(c, "max_age_ms");

	if (index.p && !u64_parse(index, &c->rq.min_index))
		return http_call_bad_param(a, "min_index", "min_index is a log index, a number without sign");
	if (consistency.p && !str_is(consistency, "strong") && !str_is(consistency, "local"))
		return http_call_bad_param(a, "consistency", "consistency is strong or local");
	if (age.p && !u64_parse(age, &c->rq.max_age_ms))
		return http_call_bad_param(a, "max_age_ms", "max_age_ms is a number of milliseconds without sign");
	c->rq.strong = consistency.p && str_is(consistency, "strong");
	c->rq.has_max_age = age.p != NULL;
	return true;
}

/* Whatever the client says of what it wants, so that a key is never answered with another request's outcome. */
static uint64_t hash_request(const struct http_call *c)
{
	const struct str parts[] = { c->target, c->fields[HTTP_FIELD_IF_MATCH], c->rq.body };
	uint64_t h = (uint64_t)c->verb;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		h = h * 0x9e3779b97f4a7c15u + fsm_hash(parts[i].p ? parts[i] : (struct str){ "", 0 });
	return h;
}

static bool read_key(struct http_call *c, struct svc_answer *a)
{
	const struct str key = c->fields[HTTP_FIELD_IDEMPOTENCY_KEY];

	c->rq.idem_key = (struct str){ "", 0 };
	if (!key.p)
		return true;
	if (!rule_idem_key(key))
		return http_call_bad_param(a, "Idempotency-Key", "Idempotency-Key is 1 to 64 printable ASCII bytes");
	c->rq.idem_key = key;
	c->rq.request_hash = hash_request(c);
	return true;
}

static bool read_dry_run(struct http_call *c, struct svc_answer *a)
{
	struct str v = http_call_param(c, "dry_run");

	if (v.p && !str_is(v, "true") && !str_is(v, "false"))
		return http_call_bad_param(a, "dry_run", "dry_run is true or false");
	c->rq.dry_run = v.p && str_is(v, "true");
	return true;
}

static bool fail_no_route(const struct http_call *c, struct str path, struct svc_answer *a)
{
	char name[96];

	shown(name, sizeof(name), path);
	if (c->match.path_known) {
		char allow[64];

		svc_fail(a, 405, "method_not_allowed", NULL, "%s is not served at %s; allowed: %s",
		         c->verb == HTTP_VERB_OTHER ? "this method" : http_verb_names[c->verb], name,
		         http_allow_text(c->match.allowed, allow, sizeof(allow)));
		a->allowed = c->match.allowed;
		return false;
	}
	svc_fail(a, 404, "no_such_path", NULL, "nothing is served at %s", name);
	return false;
}

static void cut_target(const struct http_call *c, struct str *path, struct str *query)
{
	const char *mark = c->target.len ? memchr(c->target.p, '?', c->target.len) : NULL;

	*path = (struct str){ c->target.p, mark ? (size_t)(mark - c->target.p) : c->target.len };
	*query = mark ? (struct str){ mark + 1, c->target.len - path->len - 1 } : (struct str){ "", 0 };
}

/* Everything up to the service; false: `a` is the answer. */
static bool prepare(struct http_call *c, struct svc_answer *a)
{
	struct str path, query;

	cut_target(c, &path, &query);

	if (!c->match.route)
		return fail_no_route(c, path, a);
	c->rq.op = c->match.route->op;
	c->rq.grant = c->match.route->grant;
	if (c->overloaded) {
		svc_fail_write(
		    a, 503, "overloaded", "none", 0,
		    "this node holds as much of requests and answers as it may; nothing was done, try again");
		return false;
	}
	return check_content_type(c, a) && check_fields(c, a) && check_params(c, query, a) && read_freshness(c, a) &&
	       read_dry_run(c, a) && read_key(c, a) && (!c->match.route->read || c->match.route->read(c, a));
}

/* ---- running ---- */

static void on_answer(void *arg, struct svc_answer *a)
{
	struct http_call *c = arg;

	/* Leadership moved on while it waited, and nothing has happened: it may still go where the leader is now. */
	if (a->not_leader && !c->forwarded && http_forward_may_wait(c)) {
		http_forward_again(c);
		return;
	}
	if (c->rq.op == SVC_METRICS && a->status == 200)
		http_stats_write(c->thread->server, &a->body);
	http_call_finish(c, a);
}

void http_call_run(struct http_call *c)
{
	svc_run(c->thread->svc, &c->rq, on_answer, c);
}

static void go_on(struct http_call *c)
{
	struct svc_answer a = { 0 };

	if (!prepare(c, &a)) {
		finish_failed(c, &a);
		return;
	}
	/* A node that stopped knows no leader and waits for none: it says itself what is wrong. */
	const bool stopped =
	    c->match.route->flags & HTTP_WRITE && svc_node_status(c->thread->svc, NULL)->stopped[0] != '\0';

	if (c->match.route->flags & (HTTP_WRITE | HTTP_LEADER) && !c->forwarded && !stopped &&
	    !node_is_leader(c->thread->server->node)) {
		http_forward_start(c);
		return;
	}
	http_call_run(c);
}

static void on_authenticated(void *arg, const struct svc_principal *p, struct svc_answer *a)
{
	struct http_call *c = arg;

	if (!p) {
		http_call_finish(c, a);
		return;
	}
	svc_session_keep(&c->session, c->fields[HTTP_FIELD_AUTHORIZATION], p);
	c->rq.principal = *p;
	go_on(c);
}

/* What comes from another server was authenticated there, and is authorised here. */
static bool needs_login(const struct http_call *c)
{
	return c->thread->server->o.auth && !c->forwarded &&
	       !(c->match.route && c->match.route->grant == SVC_GRANT_NONE);
}

void http_call_start(struct http_call *c)
{
	struct str path, query;

	c->started_ns = clock_mono_ns();
	memset(&c->match, 0, sizeof(c->match));
	memset(&c->fwd, 0, sizeof(c->fwd));
	c->param_count = 0;
	c->rq.grant = SVC_GRANT_ANY;
	c->rq.topic = c->rq.user = c->rq.server = c->rq.remote = c->rq.member_id = (struct str){ NULL, 0 };
	c->rq.partition = -1;
	c->rq.limit = SVC_LIMIT_DEFAULT;
	c->rq.min_index = 0;
	c->rq.max_age_ms = 0;
	c->rq.has_since = c->rq.initial = false;
	c->rq.domains = 0;
	c->rq.cluster = (struct str){ NULL, 0 };
	c->rq.strong = c->rq.has_max_age = c->rq.dry_run = c->rq.force = c->rq.detail = false;
	c->rq.page_token = c->rq.prefix = c->rq.owner = c->rq.target = c->rq.replica = c->rq.member = c->rq.state =
	    c->rq.role = c->rq.tag_key = c->rq.tag_value = c->rq.label_key = c->rq.label_value = c->rq.child =
		c->rq.id = c->rq.child_id = c->rq.attach_epoch = (struct str){ NULL, 0 };
	c->rq.version = -1;
	c->rq.if_match = c->fields[HTTP_FIELD_IF_MATCH];
	c->rq.if_none_match = c->fields[HTTP_FIELD_IF_NONE_MATCH];
	c->rq.session = c->fields[HTTP_FIELD_SESSION];
	cut_target(c, &path, &query);
	http_route_find(c->verb, path, &c->match);
	/* Before anything is said about the path: strangers learn nothing. */
	struct str login = c->fields[HTTP_FIELD_AUTHORIZATION];

	if (!needs_login(c)) {
		go_on(c);
	} else if (svc_session_is(c->thread->svc, &c->session, login)) {
		c->rq.principal = c->session.principal;
		go_on(c);
	} else {
		svc_authenticate(c->thread->svc, login, c->rq.peer, on_authenticated, c);
	}
}

/* ---- for the files of the resources ---- */

struct str http_call_param(const struct http_call *c, const char *key)
{
	for (size_t i = 0; i < c->param_count; i++) {
		if (str_is(c->params[i].key, key))
			return c->params[i].value;
	}
	return (struct str){ NULL, 0 };
}

bool http_call_bad_param(struct svc_answer *a, const char *key, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	svc_fail(a, 400, "bad_parameter", key, "%s", text);
	return false;
}

bool http_call_arg(struct http_call *c, size_t i, struct str *out, struct svc_answer *a)
{
	if (i < c->match.arg_count && http_decode(c->match.args[i], false, &c->arena, out))
		return true;
	svc_fail(a, 400, "bad_request", NULL, "a segment of the path is not percent-encoded UTF-8");
	return false;
}

bool http_call_flag(struct http_call *c, const char *key, struct svc_answer *a)
{
	struct str v = http_call_param(c, key);

	if (!v.p || str_is(v, "true") || str_is(v, "false"))
		return true;
	return http_call_bad_param(a, key, "%s is true or false", key);
}

bool http_call_pair(struct http_call *c, const char *key, struct str *name, struct str *value, struct svc_answer *a)
{
	struct str v = http_call_param(c, key);
	const char *eq = v.len ? memchr(v.p, '=', v.len) : NULL;

	if (!v.p)
		return true;
	if (!eq || eq == v.p)
		return http_call_bad_param(a, key, "%s is KEY=VALUE", key);
	*name = (struct str){ v.p, (size_t)(eq - v.p) };
	*value = (struct str){ eq + 1, v.len - name->len - 1 };
	return true;
}

bool http_call_paging(struct http_call *c, struct svc_answer *a)
{
	struct str limit = http_call_param(c, "limit");
	uint64_t n;

	c->rq.page_token = http_call_param(c, "page_token");
	if (!limit.p)
		return true;
	if (!u64_parse(limit, &n) || n == 0)
		return http_call_bad_param(a, "limit", "limit must be a positive integer");
	c->rq.limit = n > SVC_LIMIT_MAX ? SVC_LIMIT_MAX : (uint32_t)n;
	return true;
}
