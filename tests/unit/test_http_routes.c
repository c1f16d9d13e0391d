/* Paths, methods, parameters, and what is refused before anything is asked of the state. */
#include "http_world.h"

#include "http/answer.h"
#include "http/query.h"
#include "http/routes.h"
#include "http/stats.h"

/* ---- the table ---- */

static const struct http_route *find(enum http_verb verb, const char *path, struct http_match *m)
{
	http_route_find(verb, str_of(path), m);
	return m->route;
}

/* Every route of the table finds itself, and no other. */
static void test_routes_find_themselves(void **state)
{
	(void)state;
	for (size_t i = 0; i < http_route_count; i++) {
		struct http_match m;

		assert_ptr_equal(find(http_routes[i].verb, http_routes[i].path, &m), &http_routes[i]);
		const unsigned flags = http_routes[i].flags & ~(unsigned)HTTP_IF_MATCH;
		assert_true(flags == HTTP_READ || flags == HTTP_WRITE || flags == HTTP_LEADER || flags == HTTP_PLAIN);
		/* What changes something goes to the leader; a GET never does, and takes no condition for changes. */
		if (http_routes[i].verb == HTTP_VERB_GET) {
			assert_int_not_equal(flags, HTTP_WRITE);
			assert_int_equal(flags, http_routes[i].flags);
		}
	}
}

/* Braces take one whole segment; nothing is found by half. */
static void test_routes_match_segments(void **state)
{
	(void)state;
	static const char *const nothing[] = {
		"",
		"/",
		"/v1",
		"/v1/topics/",
		"/v1//topics",
		"/v1/topic",
		"/v1/topicss",
		"/V1/topics",
		"v1/topics",
		"/v1/topics//partitions/0",
		"/healthz/",
		"//healthz",
		"/v1/topics/a/b",
		"/v1/topics/a/partitions",
		"/v1/topics/a/partitions/",
		"/v1/topics/a/assignments/",
		"/v1/topics/a/assignments/x",
	};
	struct http_match m;

	for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++) {
		if (find(HTTP_VERB_GET, nothing[i], &m) || m.path_known)
			fail_msg("%s was found", nothing[i]);
	}
	assert_non_null(find(HTTP_VERB_GET, "/v1/topics/a%2Fb/partitions/7", &m));
	assert_int_equal(m.arg_count, 2);
	assert_true(str_is(m.args[0], "a%2Fb"));
	assert_true(str_is(m.args[1], "7"));
}

/* A known path with another method says which ones it takes. */
static void test_routes_know_other_methods(void **state)
{
	(void)state;
	struct http_match m;
	char text[64], tiny[8];

	assert_null(find(HTTP_VERB_PUT, "/v1/topics", &m));
	assert_true(m.path_known);
	assert_string_equal(http_allow_text(m.allowed, text, sizeof(text)), "GET, HEAD, POST");
	assert_null(find(HTTP_VERB_POST, "/v1/topics/t", &m));
	assert_string_equal(http_allow_text(m.allowed, text, sizeof(text)), "GET, HEAD, PATCH, DELETE");
	assert_null(find(HTTP_VERB_GET, "/v1/barrier", &m));
	assert_string_equal(http_allow_text(m.allowed, text, sizeof(text)), "POST");
	assert_true(strlen(http_allow_text(~0u, tiny, sizeof(tiny))) < sizeof(tiny));
}

/* ---- decoding ---- */

static bool decode(const char *in, size_t len, bool plus, struct arena *a, char *out)
{
	struct str s;

	if (!http_decode((struct str){ in, len }, plus, a, &s))
		return false;
	memcpy(out, s.p, s.len);
	out[s.len] = '\0';
	return true;
}

/* Exactly two hex digits, no NUL, UTF-8; a '+' is a blank in a query only. */
static void test_query_decodes_strictly(void **state)
{
	(void)state;
	static const char *const bad[] = { "%",   "%4",  "a%",  "a%4",    "%zz",       "%4g", "%g4",
		                           "%00", "%ff", "%c3", "%c0%af", "%ed%a0%80", "% 4", "%+4" };
	struct arena a = { 0 };
	char out[64];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		/* In a buffer of its own size: a read behind it is found. */
		char *exact = mem_dup(bad[i], strlen(bad[i]));

		if (decode(exact, strlen(bad[i]), true, &a, out))
			fail_msg("%s was decoded", bad[i]);
		mem_free(exact);
	}
	assert_true(decode("%41%6a+%2B", 10, true, &a, out));
	assert_string_equal(out, "Aj +");
	assert_true(decode("a+b", 3, false, &a, out));
	assert_string_equal(out, "a+b");
	assert_true(decode("%c3%a4", 6, false, &a, out));
	assert_string_equal(out, "\xc3\xa4");
	assert_true(decode("", 0, false, &a, out));
	arena_fini(&a);
}

/* Parameters: empty parts are passed over; each fault is told from the others and names the key to blame. */
static void test_query_splits_parameters(void **state)
{
	(void)state;
	static const struct {
		const char *query;
		enum http_query_fault fault;
		const char *blame;
	} bad[] = {
		{ "=1", HTTP_QUERY_NAMELESS, "" },
		{ "a&a", HTTP_QUERY_TWICE, "a" },
		{ "a=1&%61=2", HTTP_QUERY_TWICE, "a" },
		{ "a=%zz", HTTP_QUERY_ENCODING, "a" },
		{ "%zz=1", HTTP_QUERY_ENCODING, "%zz" },
		{ "1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17", HTTP_QUERY_TOO_MANY, "17" },
	};
	struct http_param p[HTTP_PARAMS_MAX];
	struct arena a = { 0 };
	struct str blame;
	size_t n;

	assert_int_equal(http_query_parse(STR_LIT("&a=1&&b=x%3Dy&c&d=&"), &a, p, &n, &blame), HTTP_QUERY_FINE);
	assert_int_equal(n, 4);
	assert_true(str_is(p[0].key, "a") && str_is(p[0].value, "1"));
	assert_true(str_is(p[1].key, "b") && str_is(p[1].value, "x=y"));
	assert_true(str_is(p[2].key, "c") && p[2].value.len == 0 && p[2].value.p);
	assert_true(str_is(p[3].key, "d") && p[3].value.len == 0 && p[3].value.p);
	assert_int_equal(http_query_parse(STR_LIT(""), &a, p, &n, &blame), HTTP_QUERY_FINE);
	assert_int_equal(n, 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (http_query_parse(str_of(bad[i].query), &a, p, &n, &blame) != bad[i].fault || n != 0 ||
		    !str_is(blame, bad[i].blame))
			fail_msg("%s", bad[i].query);
	}
	arena_fini(&a);
}

/* ---- whole requests ---- */

static const struct {
	const char *request;
	int status;
	const char *code, *text; /* text: NULL, or something the body holds */
} cases[] = {
	{ GET("/"), 404, "no_such_path", NULL },
	{ GET("/v1/policies"), 404, "no_such_path", NULL },
	{ GET("/v1/topics/t/produce"), 404, "no_such_path", NULL },
	{ GET("/v1/topics?nosuch=1"), 400, "bad_parameter", "\"field\":\"nosuch\"" },
	{ GET("/v1/topics?prefix=a&prefix=b"), 400, "bad_parameter", "'prefix' stands twice" },
	{ GET("/v1/topics?prefix=%ff"), 400, "bad_parameter", "'prefix' is not percent-encoded UTF-8" },
	{ GET("/v1/topics?=x"), 400, "bad_parameter", "a value and no name" },
	{ GET("/v1/topics?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17"), 400, "bad_parameter",
	  "more than 16 parameters" },
	{ GET("/v1/topics?consistency=strong"), 200, NULL, NULL },
	{ GET("/v1/topics?consistency=local"), 200, NULL, NULL },
	{ GET("/v1/topics?consistency=weak"), 400, "bad_parameter", "\"field\":\"consistency\"" },
	{ GET("/v1/topics?consistency="), 400, "bad_parameter", "\"field\":\"consistency\"" },
	{ GET("/v1/topics?max_age_ms=1"), 200, NULL, NULL },
	{ GET("/v1/topics?max_age_ms=-1"), 400, "bad_parameter", "\"field\":\"max_age_ms\"" },
	{ GET("/v1/topics?max_age_ms=1s"), 400, "bad_parameter", "\"field\":\"max_age_ms\"" },
	{ GET("/v1/topics/t?consistency=strong&min_index=1&max_age_ms=1000"), 404, "topic_not_found", NULL },
	{ GET("/v1/status?consistency=strong"), 400, "bad_parameter", "\"field\":\"consistency\"" },
	{ GET("/v1/topics?label=a"), 400, "bad_parameter", "\"field\":\"label\"" },
	{ GET("/v1/topics?label=a=b=c"), 200, NULL, "{\"topics\":[]" },
	{ GET("/v1/topics/t/children"), 404, "topic_not_found", NULL },
	{ GET("/v1/topics/t/children?partitions=yes"), 400, "bad_parameter", "\"field\":\"partitions\"" },
	{ GET("/v1/topics/t/children/c"), 405, "method_not_allowed", NULL },
	{ GET("/v1/topics/t/schema"), 404, "topic_not_found", NULL },
	{ GET("/v1/topics/t/schema/1"), 404, "topic_not_found", NULL },
	{ GET("/v1/topics/t/schema/0"), 400, "bad_parameter", "\"field\":\"version\"" },
	{ GET("/v1/topics/t/schema/-1"), 400, "bad_parameter", "\"field\":\"version\"" },
	{ GET("/v1/topics/t/schema/4294967297"), 400, "bad_parameter", "\"field\":\"version\"" },
	{ GET("/v1/topics/t?id=x"), 400, "bad_parameter", "\"field\":\"id\"" },
	{ "DELETE /v1/topics/t?force=1 HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_parameter", "\"field\":\"force\"" },
	{ "PUT /v1/topics/t/schema HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed", NULL },
	{ "PUT /v1/topics/t/schema/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 415, "content_type", NULL },
	{ "PUT /v1/topics/t/schema/1 HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400, "bad_json", NULL },
	{ "POST /v1/topics/t/children HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400, "bad_json", NULL },
	{ GET("/v1/topics?limit=0"), 400, "bad_parameter", "positive integer" },
	{ GET("/v1/topics?limit=-1"), 400, "bad_parameter", "positive integer" },
	{ GET("/v1/topics?limit=x"), 400, "bad_parameter", "positive integer" },
	{ GET("/v1/topics?limit="), 400, "bad_parameter", "positive integer" },
	{ GET("/v1/topics?limit=1&limit=2"), 400, "bad_parameter", "\"field\":\"limit\"" },
	{ GET("/v1/topics?limit=99999"), 200, NULL, NULL },
	{ GET("/v1/topics?min_index=x"), 400, "bad_parameter", "\"field\":\"min_index\"" },
	{ GET("/v1/topics?min_index=1"), 200, NULL, NULL },
	{ GET("/v1/topics?role=boss"), 400, "bad_parameter", "\"field\":\"role\"" },
	{ GET("/v1/topics?prefix=%zz"), 400, "bad_parameter", "\"field\":\"prefix\"" },
	{ GET("/v1/topics/%zz"), 400, "bad_request", NULL },
	{ GET("/v1/topics/a%00b"), 400, "bad_request", NULL },
	{ GET("/v1/topics/t?partition=x"), 400, "bad_parameter", "invalid partition" },
	{ GET("/v1/topics/t?partition=-1"), 400, "bad_parameter", "invalid partition" },
	{ GET("/v1/topics/t?partition=1"), 404, "topic_not_found", NULL },
	{ GET("/v1/topics/t/partitions/x"), 400, "bad_parameter", "invalid partition" },
	{ GET("/v1/topics/t/partitions/99999999999"), 400, "bad_parameter", "invalid partition" },
	{ GET("/v1/assignments?state=asleep"), 400, "bad_parameter", "\"field\":\"state\"" },
	{ GET("/v1/assignments?state=placed&owner=n1&prefix=a"), 200, NULL, NULL },
	{ GET("/v1/cluster/members?tag=x"), 400, "bad_parameter", "KEY=VALUE" },
	{ GET("/v1/cluster/members?tag==x"), 400, "bad_parameter", "KEY=VALUE" },
	{ GET("/v1/cluster/members?tag=a=b=c"), 200, NULL, "{\"members\":[]}" },
	{ GET("/v1/cluster/servers"), 200, NULL, "[{\"id\":\"n1\"," },
	{ GET("/v1/cluster/servers?consistency=strong"), 200, NULL, NULL },
	{ GET("/v1/cluster/servers/n1"), 405, "method_not_allowed", NULL },
	{ "POST /v1/cluster/servers HTTP/1.1\r\nHost: a\r\n\r\n", 415, "content_type", NULL },
	{ "POST /v1/cluster/servers?dry_run=maybe HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400,
	  "bad_parameter", "\"field\":\"dry_run\"" },
	{ "POST /v1/cluster/servers?dry_run=true HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400, "bad_json",
	  NULL },
	{ "POST /v1/cluster/servers?force=true HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400, "bad_parameter",
	  "\"field\":\"force\"" },
	{ "DELETE /v1/cluster/servers/a%20b HTTP/1.1\r\nHost: a\r\n\r\n", 404, "member_not_found", NULL },
	{ "DELETE /v1/cluster/servers/%ff HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_request", NULL },
	{ "POST /v1/cluster/leader?to=n2 HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400, "bad_parameter",
	  "\"field\":\"to\"" },
	{ "POST /v1/cluster/snapshot HTTP/1.1\r\nHost: a\r\n\r\n", 415, "content_type", NULL },
	{ GET("/v1/cluster/snapshot"), 405, "method_not_allowed", NULL },
	{ GET("/v1/log"), 200, NULL, "{\"entries\":[{\"index\":1," },
	{ GET("/v1/log?topic=t&since=0&limit=1&consistency=strong"), 200, NULL, "{\"entries\":[]," },
	{ GET("/v1/log?since=-1"), 400, "bad_parameter", "\"field\":\"since\"" },
	{ GET("/v1/log?since="), 400, "bad_parameter", "\"field\":\"since\"" },
	{ GET("/v1/log?limit=0"), 400, "bad_parameter", "\"field\":\"limit\"" },
	{ GET("/v1/log?topic="), 400, "bad_parameter", "\"field\":\"topic\"" },
	{ GET("/v1/log?topic=a%2Fb"), 400, "bad_parameter", "\"field\":\"topic\"" },
	{ GET("/v1/log?page_token=1"), 400, "bad_parameter", "\"field\":\"page_token\"" },
	{ GET("/v1/status?verbose=1"), 400, "bad_parameter", NULL },
	{ GET("/healthz"), 200, NULL, "{\"status\":\"ok\"}" },
	{ GET("/readyz"), 200, NULL, "{\"status\":\"ready\"}" },
	{ "GET http://elsewhere:1/healthz HTTP/1.1\r\nHost: a\r\n\r\n", 200, NULL, NULL },
	{ "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", 200, NULL, NULL },
	{ "PUT /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed", NULL },
	{ "OPTIONS /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed", "allowed: GET, HEAD, POST" },
	{ "TRACE /v1/topics/t HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_not_allowed", "PATCH, DELETE" },
	{ "PROPFIND /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", 405, "method_not_allowed", NULL },
	{ "OPTIONS /v1/nosuch HTTP/1.1\r\nHost: a\r\n\r\n", 404, "no_such_path", NULL },
	{ "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 404, "no_such_path", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 415, "content_type", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n", 415,
	  "content_type", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: application/jsonx\r\n\r\n", 415, "content_type", NULL },
	{ "POST /v1/barrier HTTP/1.1\r\nHost: a\r\n\r\n", 415, "content_type", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nX-Veena-Client: 1\r\n\r\n", 400, "bad_json", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nX-Narad-Client: 1\r\n\r\n", 400, "bad_json", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: Application/JSON ; charset=utf-8\r\n\r\n", 400,
	  "bad_json", NULL },
	{ "POST /v1/topics HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\n\r\n", 400, "bad_json",
	  NULL },
	{ JSON_POST "Idempotency-Key: "
	            "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
	            "\r\n\r\n",
	  400, "bad_parameter", "\"field\":\"Idempotency-Key\"" },
	{ "GET /v1/topics/t HTTP/1.1\r\nHost: a\r\nIf-Match: \"x\"\r\n\r\n", 400, "bad_parameter",
	  "\"field\":\"If-Match\"" },
	{ JSON_POST "If-Match: \"x\"\r\n\r\n", 400, "bad_parameter", "\"field\":\"If-Match\"" },
	{ JSON_POST "If-None-Match: *\r\n\r\n", 400, "bad_parameter", "\"field\":\"If-None-Match\"" },
	{ "DELETE /v1/topics/t HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 400, "bad_parameter",
	  "\"field\":\"If-None-Match\"" },
	{ "GET /v1/topics/t HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\n\r\n", 404, "topic_not_found", NULL },
	{ "GET /v1/topics HTTP/1.1\r\nHost: a\r\nIf-None-Match: x\r\n\r\n", 400, "bad_parameter",
	  "\"field\":\"If-None-Match\"" },
	{ "DELETE /v1/topics/t?dry_run=true HTTP/1.1\r\nHost: a\r\n\r\n", 400, "bad_parameter",
	  "\"field\":\"dry_run\"" },
};

/* Each well-framed request gets its answer, and the connection goes on. */
static void test_requests_are_answered(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		client_ask(&c, cases[i].request, &r);
		if (r.status != cases[i].status || (cases[i].text && !strstr(r.body, cases[i].text)))
			fail_msg("%s%s%s", cases[i].request, r.head, r.body);
		assert_reply(&r, cases[i].status, cases[i].code);
		assert_int_equal(r.body[r.body_len - 1], '\n');
	}
	static const char *const others[] = { "PATCH", "OPTIONS", "TRACE", "SEARCH" };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char ask[80];

		snprintf(ask, sizeof(ask), "%s /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n", others[i]);
		client_ask(&c, ask, &r);
		assert_reply(&r, 405, "method_not_allowed");
		assert_string_equal(reply_field(&r, "Allow"), "GET, HEAD, POST");
	}
	client_close(&c);
}

/* HEAD is a GET without its body, length included; where there is no GET there is no HEAD. */
static void test_head_is_get_without_body(void **state)
{
	(void)state;
	struct client c;
	struct reply get, head;

	client_open(&c);
	client_ask(&c, GET("/v1/topics"), &get);
	client_ask(&c, "HEAD /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n", &head);
	assert_int_equal(head.status, 200);
	assert_int_equal(atol(reply_field(&head, "Content-Length")), get.body_len);
	client_ask(&c, "HEAD /v1/topics/none HTTP/1.1\r\nHost: a\r\n\r\n", &head);
	assert_int_equal(head.status, 404);
	client_ask(&c, "HEAD /v1/barrier HTTP/1.1\r\nHost: a\r\n\r\n", &head);
	assert_int_equal(head.status, 405);
	client_ask(&c, GET("/healthz"), &get);
	assert_reply(&get, 200, NULL);
	client_close(&c);
}

/* Names that need encoding reach the service decoded. */
static void test_requests_decode_their_path(void **state)
{
	(void)state;
	struct reply r;

	ask_once(create_request("a.b-c_d"), &r);
	assert_reply(&r, 201, NULL);
	ask_once(GET("/v1/topics/%61%2Eb-c%5fd"), &r);
	assert_reply(&r, 200, NULL);
	ask_once(GET("/v1/topics?prefix=%61.b"), &r);
	assert_non_null(strstr(r.body, "\"name\":\"a.b-c_d\""));
	ask_once(GET("/v1/topics?prefix=a+b"), &r);
	assert_string_equal(r.body, "{\"topics\":[],\"next_page_token\":\"\"}\n");
}

/* The whole text of /metrics: each series is typed before its first sample, named once, and every line is one. */
static void test_metrics_are_well_formed(void **state)
{
	(void)state;
	static char text[200000];
	struct client c;
	char typed[128] = "";

	client_open(&c);
	struct reply r;

	client_ask(&c, create_request("t"), &r);
	client_ask(&c, GET("/nothing"), &r);
	client_sends(&c, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
	client_wait_eof(&c);
	snprintf(text, sizeof(text), "%s", strstr(buf_cstr(&c.in), "\r\n\r\n") + 4);
	assert_non_null(strstr(buf_cstr(&c.in), "Content-Type: text/plain; version=0.0.4"));
	for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char name[128];

		if (sscanf(line, "# TYPE %127s", name) == 1) {
			snprintf(typed, sizeof(typed), "%s", name);
			continue;
		}
		if (line[0] == '#')
			continue;
		size_t n = strlen(typed);

		if (strncmp(line, typed, n) != 0 || !strchr("{ _", line[n]) || !strrchr(line, ' '))
			fail_msg("'%s' behind the type of %s", line, typed);
	}
	assert_non_null(strstr(buf_cstr(&c.in), "\nveena_topics 1\n"));
	assert_non_null(strstr(buf_cstr(&c.in), "\nveena_build_info{build=\"test\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&c.in), "\nveena_raft_state{state=\"leader\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&c.in), "veena_http_requests_total{method=\"POST\",route=\"/v1/topics\","
	                                        "status=\"201\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&c.in), "veena_http_requests_total{method=\"\",route=\"unmatched\","
	                                        "status=\"404\"} 1\n"));
	assert_non_null(strstr(buf_cstr(&c.in), "veena_write_stage_seconds_count{stage=\"commit\"} 1\n"));
	client_close(&c);
}

/* A status this server can say is counted as itself: an alert on status=~"5.." must not miss one named "other". */
static void test_every_status_has_its_row(void **state)
{
	(void)state;
	size_t named = 0;

	for (int status = 200; status < 600; status++) {
		struct http_stats stats = { 0 };

		if (strcmp(http_status_reason(status), "Unknown") == 0)
			continue;
		named++;
		http_stats_answer(&stats, NULL, status, 0);
		if (stats.routes[HTTP_ROUTES_MAX].by_status[HTTP_STATUS_KINDS - 1] != 0)
			fail_msg("%d is counted as \"other\"", status);
	}
	assert_int_equal(named, HTTP_STATUS_KINDS - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_status_has_its_row),
		cmocka_unit_test(test_routes_find_themselves),
		cmocka_unit_test(test_routes_match_segments),
		cmocka_unit_test(test_routes_know_other_methods),
		cmocka_unit_test(test_query_decodes_strictly),
		cmocka_unit_test(test_query_splits_parameters),
		RIG(test_requests_are_answered),
		RIG(test_head_is_get_without_body),
		RIG(test_requests_decode_their_path),
		RIG(test_metrics_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
