/* Writes of a follower: what leaves for the leader, what comes of the answer, and what of its absence. And the leader's
 * side of the same link. The other server is played by the test, over the real link. */
#include "http_world.h"

#include "http/inbound.h"
#include "http/wire.h"
#include "net/accept.h"
#include "net/forward.h"

#define SEEN_MAX 64

/* A request as the other server got it. */
struct seen {
	uint64_t id;
	struct http_call call; /* its texts lie in the slab */
	struct slab *slab;
};

/* The server that the node under test forwards to. */
static struct leader {
	struct ev_loop *loop;
	int listen_fd;
	char addr[64];
	struct net_acceptor *acceptor;
	struct net_link *link;
	struct seen seen[SEEN_MAX];
	size_t count;
	unsigned links;
} other, second;

static void on_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct leader *l = arg;
	struct seen *s = &l->seen[l->count];
	const uint8_t *rest;
	size_t rest_len;
	struct err e = { 0 };

	assert_int_equal(type, NET_FORWARD_REQUEST);
	assert_true(l->count < SEEN_MAX);
	assert_true(net_forward_parse(body, len, &s->id, &rest, &rest_len));
	s->slab = slab_ref(slab);
	if (http_wire_get_request(rest, rest_len, &s->call, &e) != 0)
		fail_msg("%s", e.msg);
	l->count++;
}

static void drop_link(struct leader *l)
{
	net_link_free(l->link);
	l->link = NULL;
}

static void on_close(void *arg, const struct err *why)
{
	(void)why;
	drop_link(arg);
}

static void on_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	struct leader *l = arg;
	const struct net_link_hooks hooks = { .arg = l, .on_frame = on_frame, .on_close = on_close };

	assert_string_equal(from->name, "n1");
	drop_link(l);
	l->link = net_link_new(l->loop, stream, NET_FRAME_MAX, &hooks);
	l->links++;
}

static void no_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
                     size_t len)
{
	(void)arg, (void)from, (void)type, (void)slab, (void)body, (void)len;
}

static void no_misfit(void *arg, const char *who, const struct err *why)
{
	(void)arg;
	fail_msg("%s: %s", who, why->msg);
}

static void leader_open(struct leader *l, const char *name)
{
	struct net_identity id = { .self = { .cluster_id = 0x1234, .incarnation = 8 } };
	const struct net_accept_hooks hooks = {
		.arg = l, .on_frame = no_frame, .on_forward = on_forward, .on_misfit = no_misfit
	};

	memset(l, 0, sizeof(*l));
	snprintf(id.self.name, sizeof(id.self.name), "%s", name);
	snprintf(id.self.addr, sizeof(id.self.addr), "127.0.0.1:2");
	l->loop = ev_loop_new(EVBACKEND_POLL);
	l->listen_fd = listen_loopback();
	snprintf(l->addr, sizeof(l->addr), "127.0.0.1:%d", port_of(l->listen_fd));
	l->acceptor = net_acceptor_new(l->loop, l->listen_fd, &id, &hooks);
}

static void leader_close(struct leader *l)
{
	drop_link(l);
	net_acceptor_free(l->acceptor);
	ev_loop_destroy(l->loop);
	for (size_t i = 0; i < l->count; i++)
		slab_unref(l->seen[i].slab);
}

static void follow(const char *name, const char *addr)
{
	world.status.role = RAFT_FOLLOWER;
	world.status.term_start = 0;
	snprintf(world.status.leader, sizeof(world.status.leader), "%s", name);
	snprintf(world.status.leader_addr, sizeof(world.status.leader_addr), "%s", addr);
	world.version++;
}

static void pump_all(void)
{
	pump_once();
	ev_run(other.loop, EVRUN_NOWAIT);
	ev_run(second.loop, EVRUN_NOWAIT);
}

static void pump_all_for(uint64_t ms)
{
	uint64_t end = clock_mono_ms() + ms;

	while (clock_mono_ms() < end) {
		pump_all();
		usleep(200);
	}
}

static void wait_seen(struct leader *l, size_t n)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;

	while (l->count < n) {
		if (clock_mono_ms() > end)
			fail_msg("nothing was forwarded");
		pump_all();
	}
}

static void answer_body(struct leader *l, size_t i, const struct svc_answer *wanted, const char *body)
{
	struct svc_answer a = *wanted;
	struct buf head = { 0 };

	if (!a.content_type)
		a.content_type = "application/json";
	http_wire_put_answer(&head, &a);
	struct net_piece pieces[] = { { .p = head.data, .len = head.len }, { .p = body, .len = strlen(body) } };

	assert_true(net_forward_answer(l->link, l->seen[i].id, pieces, 2));
	buf_fini(&head);
}

static bool has_reply(struct client *c)
{
	client_recv(c);
	return c->in.len > 0;
}

static void wait_reply(struct client *c, struct reply *r)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;

	while (!has_reply(c)) {
		if (clock_mono_ms() > end)
			fail_msg("no answer");
		pump_all();
	}
	client_reply(c, false, r);
}

static void swallow(void *arg, enum log_level level, const char *line)
{
	(void)arg, (void)level, (void)line;
}

static int forward_setup(void **state)
{
	const struct http_options o = { .leader_wait_ms = 300, .forward_ms = 500 };

	(void)state;
	rig_open(&o);
	leader_open(&other, "n2");
	leader_open(&second, "n3");
	follow("n2", other.addr);
	return 0;
}

static int forward_teardown(void **state)
{
	(void)state;
	leader_close(&other);
	leader_close(&second);
	rig_close();
	return 0;
}

#define FORWARD(f) cmocka_unit_test_setup_teardown(f, forward_setup, forward_teardown)

/* ---- the follower ---- */

/* The whole request travels: method, target, type, body, who asks and from where; the answer comes back as it is. */
static void test_forward_carries_the_request(void **state)
{
	(void)state;
	static const char request[] =
	    "PATCH /v1/topics/a%2Eb HTTP/1.1\r\nHost: x\r\nContent-Type: application/json; v=1"
	    "\r\nX-Veena-Client: y\r\nContent-Length: 9\r\n\r\n{\"a\": 1}\n";
	struct client c;
	struct reply r;

	client_open(&c);
	client_sends(&c, request);
	wait_seen(&other, 1);
	struct http_call *got = &other.seen[0].call;

	assert_int_equal(got->verb, HTTP_VERB_PATCH);
	assert_true(str_is(got->target, "/v1/topics/a%2Eb"));
	assert_true(str_is(got->fields[HTTP_FIELD_CONTENT_TYPE], "application/json; v=1"));
	assert_non_null(got->fields[HTTP_FIELD_CLIENT].p);
	assert_null(got->fields[HTTP_FIELD_IF_MATCH].p);
	assert_true(str_is(got->rq.body, "{\"a\": 1}\n"));
	assert_string_equal(got->rq.principal.name, "anonymous");
	assert_true(got->rq.principal.anonymous && got->rq.principal.root);
	assert_string_equal(got->rq.origin, "n1");
	assert_memory_equal(got->rq.peer, "127.0.0.1:", 10);

	answer_body(&other, 0, &(struct svc_answer){ .status = 418, .index = world.index, .retry_after_s = 7 },
	            "{\"any\":\"body\"}\n");
	wait_reply(&c, &r);
	assert_int_equal(r.status, 418);
	assert_string_equal(r.body, "{\"any\":\"body\"}\n");
	assert_string_equal(reply_field(&r, "Retry-After"), "7");
	assert_string_equal(reply_field(&r, "X-Veena-Node"), "n1");
	client_close(&c);
}

/* Reads stay here, and so does what is wrong with the request as such. */
static void test_forward_only_writes(void **state)
{
	(void)state;
	struct reply r;

	ask_once(GET("/v1/topics"), &r);
	assert_reply(&r, 200, NULL);
	ask_once("POST /v1/topics HTTP/1.1\r\nHost: a\r\n\r\n", &r);
	assert_reply(&r, 415, NULL);
	ask_once("POST /v1/topics?x=1 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\r\n", &r);
	assert_reply(&r, 400, "bad_parameter");
	pump_all_for(20);
	assert_int_equal(other.count, 0);
}

/* The client hears of its write when its next read here will show it. */
static void test_forward_waits_for_the_own_replica(void **state)
{
	(void)state;
	struct client c;
	struct reply r;
	char index[32];

	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_seen(&other, 1);
	answer_body(&other, 0, &(struct svc_answer){ .status = 201, .index = world.index + 1 }, "{}\n");
	pump_all_for(50);
	assert_false(has_reply(&c));
	snprintf(index, sizeof(index), "%d", (int)world.index + 1);
	add_member("n9", true);
	wait_reply(&c, &r);
	assert_reply(&r, 201, NULL);
	assert_string_equal(reply_field(&r, "X-Veena-Index"), index);
	assert_null(reply_field(&r, "X-Veena-Applied"));
	client_close(&c);
}

/* Not for ever: after 3 s the committed write is answered all the same, and says so. */
static void test_forward_answers_without_the_own_replica(void **state)
{
	(void)state;
	struct client c;
	struct reply r;
	uint64_t began;

	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_seen(&other, 1);
	answer_body(&other, 0, &(struct svc_answer){ .status = 201, .index = world.index + 1 }, "{}\n");
	began = clock_mono_ms();
	wait_reply(&c, &r);
	assert_in_range(clock_mono_ms() - began, 2900, 3500);
	assert_reply(&r, 201, NULL);
	assert_string_equal(reply_field(&r, "X-Veena-Applied"), "no");
	client_close(&c);
}

/* Many at once, answered in any order, each to its own client. */
static void test_forward_matches_answers(void **state)
{
	(void)state;
	enum { N = 20 };
	struct client c[N];
	struct reply r;
	char name[16], body[64];

	for (int i = 0; i < N; i++) {
		client_open(&c[i]);
		snprintf(name, sizeof(name), "t%d", i);
		client_sends(&c[i], create_request(name));
	}
	wait_seen(&other, N);
	for (size_t i = N; i-- > 0;) {
		snprintf(body, sizeof(body), "%.*s\n", STR_ARG(other.seen[i].call.rq.body));
		answer_body(&other, i, &(struct svc_answer){ .status = 201, .index = world.index }, body);
	}
	for (int i = 0; i < N; i++) {
		wait_reply(&c[i], &r);
		snprintf(body, sizeof(body), "{\"name\":\"t%d\"}\n", i);
		assert_string_equal(r.body, body);
		client_close(&c[i]);
	}
}

/* A link that breaks behind a frame: nobody knows, and the frame is not sent again over the next link. */
static void test_forward_never_sends_twice(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_seen(&other, 1);
	uint64_t began = clock_mono_ms();

	drop_link(&other);
	wait_reply(&c, &r);
	assert_in_range(clock_mono_ms() - began, 0, 300); /* the broken link says so, not the time that ran out */
	assert_reply(&r, 503, "outcome_unknown");
	assert_non_null(strstr(r.body, "\"outcome\":\"unknown\""));
	assert_null(reply_field(&r, "Retry-After"));
	/* The next one goes over a new link, alone. */
	client_sends(&c, create_request("u"));
	wait_seen(&other, 2);
	assert_true(str_is(other.seen[1].call.rq.body, "{\"name\":\"u\"}"));
	answer_body(&other, 1, &(struct svc_answer){ .status = 201, .index = world.index }, "{}\n");
	wait_reply(&c, &r);
	assert_reply(&r, 201, NULL);
	pump_all_for(50);
	assert_int_equal(other.count, 2);
	assert_int_equal(other.links, 2);
	client_close(&c);
}

/* A leader that is silent: outcome unknown after a while, and its late answer finds nobody. */
static void test_forward_gives_up_waiting(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_seen(&other, 1);
	uint64_t began = clock_mono_ms();

	wait_reply(&c, &r);
	assert_in_range(clock_mono_ms() - began, 400, 1500);
	assert_reply(&r, 503, "outcome_unknown");
	answer_body(&other, 0, &(struct svc_answer){ .status = 201, .index = world.index }, "{}\n");
	pump_all_for(20);
	assert_false(has_reply(&c));
	client_close(&c);
}

/* Without a leader a write waits, and then nothing has happened. */
static void test_forward_waits_for_a_leader(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	follow("", "");
	client_open(&c);
	client_sends(&c, create_request("t"));
	uint64_t began = clock_mono_ms();

	wait_reply(&c, &r);
	assert_in_range(clock_mono_ms() - began, 280, 800);
	assert_reply(&r, 503, "no_leader");
	assert_non_null(strstr(r.body, "\"outcome\":\"none\""));
	assert_string_equal(reply_field(&r, "Retry-After"), "1");
	/* One that appears in time gets it. */
	client_sends(&c, create_request("u"));
	pump_all_for(100);
	follow("n2", other.addr);
	wait_seen(&other, 1);
	answer_body(&other, 0, &(struct svc_answer){ .status = 201, .index = world.index }, "{}\n");
	wait_reply(&c, &r);
	assert_reply(&r, 201, NULL);
	/* So does this node, when it is the one that leads. */
	follow("", "");
	client_sends(&c, create_request("v"));
	pump_all_for(50);
	lead(true);
	wait_reply(&c, &r);
	assert_reply(&r, 201, NULL);
	client_close(&c);
}

/* A leader that nobody answers for is as good as none. */
static void test_forward_to_nobody(void **state)
{
	(void)state;
	struct client c;
	struct reply r;
	char addr[64];
	int fd = listen_loopback();

	snprintf(addr, sizeof(addr), "127.0.0.1:%d", port_of(fd));
	close(fd);
	follow("n4", addr);
	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_reply(&c, &r);
	assert_reply(&r, 503, "no_leader");
	client_close(&c);
}

/* Whoever was asked says it is no leader: nothing happened there, so the request may go where the leader is now. */
static void test_forward_follows_the_leader(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_seen(&other, 1);
	answer_body(&other, 0, &(struct svc_answer){ .status = 503, .not_leader = true }, "{\"code\":\"no_leader\"}\n");
	follow("n3", second.addr);
	wait_seen(&second, 1);
	assert_true(str_is(second.seen[0].call.rq.body, "{\"name\":\"t\"}"));
	answer_body(&second, 0, &(struct svc_answer){ .status = 201, .index = world.index }, "{}\n");
	wait_reply(&c, &r);
	assert_reply(&r, 201, NULL);
	client_close(&c);
}

/* A node that keeps saying so is not asked in a loop, and in the end its word is passed on. */
static void test_forward_does_not_spin(void **state)
{
	(void)state;
	struct client c;
	struct reply r;
	size_t answered = 0;
	uint64_t end = clock_mono_ms() + 2000;

	client_open(&c);
	client_sends(&c, create_request("t"));
	while (!has_reply(&c) && clock_mono_ms() < end) {
		pump_all();
		for (; answered < other.count; answered++)
			answer_body(&other, answered, &(struct svc_answer){ .status = 503, .not_leader = true },
			            "{\"code\":\"no_leader\",\"outcome\":\"none\"}\n");
	}
	client_reply(&c, false, &r);
	assert_reply(&r, 503, "no_leader");
	assert_in_range(other.count, 2, 16);
	client_close(&c);
}

/* The leader changes while an answer is owed: the old link stays until it is in. */
static void test_forward_keeps_the_old_link_for_its_answers(void **state)
{
	(void)state;
	struct client c, d;
	struct reply r;

	client_open(&c);
	client_open(&d);
	client_sends(&c, create_request("old"));
	wait_seen(&other, 1);
	follow("n3", second.addr);
	client_sends(&d, create_request("new"));
	wait_seen(&second, 1);
	answer_body(&other, 0, &(struct svc_answer){ .status = 201, .index = world.index }, "{\"from\":\"n2\"}\n");
	answer_body(&second, 0, &(struct svc_answer){ .status = 201, .index = world.index }, "{\"from\":\"n3\"}\n");
	wait_reply(&c, &r);
	assert_string_equal(r.body, "{\"from\":\"n2\"}\n");
	wait_reply(&d, &r);
	assert_string_equal(r.body, "{\"from\":\"n3\"}\n");
	pump_all_for(50);
	assert_null(other.link);
	client_close(&c);
	client_close(&d);
}

/* Answers that do not decode are no answers. */
static void test_forward_distrusts_answers(void **state)
{
	(void)state;
	struct client c;
	struct reply r;
	const struct net_piece junk = { .p = "\xff\xff\xff\x7f", .len = 4 };

	client_open(&c);
	client_sends(&c, create_request("t"));
	wait_seen(&other, 1);
	log_set_sink(swallow, NULL);
	assert_true(net_forward_answer(other.link, other.seen[0].id, &junk, 1));
	wait_reply(&c, &r);
	log_set_sink(NULL, NULL);
	assert_reply(&r, 503, "outcome_unknown");
	client_close(&c);
}

/* ---- the leader ---- */

struct answer_seen {
	unsigned count;
	uint64_t id;
	struct svc_answer a;
	char body[2048];
	unsigned downs;
};

static void on_up(void *arg)
{
	(void)arg;
}

static void on_down(void *arg, bool refused)
{
	struct answer_seen *s = arg;

	(void)refused;
	s->downs++;
}

static void on_answer(void *arg, uint64_t id, struct slab *slab, const uint8_t *body, size_t len)
{
	struct answer_seen *s = arg;
	struct str text;
	struct err e = { 0 };

	(void)slab;
	s->count++;
	s->id = id;
	if (http_wire_get_answer(body, len, &s->a, &text, &e) != 0)
		fail_msg("%s", e.msg);
	snprintf(s->body, sizeof(s->body), "%.*s", STR_ARG(text));
}

static void give_link(void *arg, const struct net_hello *from, struct net_stream stream)
{
	http_server_give_link(arg, from, stream);
}

/* A follower's link to the node under test, through a port that gives its links to it. */
struct follower {
	struct net_forward *f;
	struct net_acceptor *door;
	struct ev_loop *loop;
	int fd;
	struct answer_seen seen;
};

static void follower_open(struct follower *w)
{
	struct net_identity id = { .self = { .cluster_id = 0x1234, .incarnation = 7 } };
	const struct net_accept_hooks hooks = {
		.arg = rig.server, .on_frame = no_frame, .on_forward = give_link, .on_misfit = no_misfit
	};
	struct net_forward_options o = {
		.pool = rig.pool,
		.self = { .cluster_id = 0x1234, .incarnation = 9, .name = "n5", .addr = "127.0.0.1:3" },
		.hooks = { .arg = &w->seen, .on_up = on_up, .on_answer = on_answer, .on_down = on_down },
	};
	char addr[64];

	memset(w, 0, sizeof(*w));
	snprintf(id.self.name, sizeof(id.self.name), "n1");
	snprintf(id.self.addr, sizeof(id.self.addr), "127.0.0.1:1");
	w->loop = o.loop = ev_loop_new(EVBACKEND_POLL);
	w->fd = listen_loopback();
	w->door = net_acceptor_new(w->loop, w->fd, &id, &hooks);
	w->f = net_forward_new(&o);
	snprintf(addr, sizeof(addr), "127.0.0.1:%d", port_of(w->fd));
	net_forward_target(w->f, addr);
	for (int i = 0; i < 5000 && !net_forward_is_up(w->f); i++) {
		ev_run(w->loop, EVRUN_NOWAIT);
		pump_once();
	}
	assert_true(net_forward_is_up(w->f));
}

static void follower_close(struct follower *w)
{
	net_forward_free(w->f);
	net_acceptor_free(w->door);
	ev_loop_destroy(w->loop);
}

static void follower_pump(struct follower *w)
{
	ev_run(w->loop, EVRUN_NOWAIT);
	pump_once();
}

/* What a follower's thread would send for this request. */
static void follower_send(struct follower *w, uint64_t id, enum http_verb verb, const char *target, const char *body)
{
	struct http_call call = { .verb = verb, .target = str_of(target) };
	struct buf head = { 0 };

	call.fields[HTTP_FIELD_CONTENT_TYPE] = STR_LIT("application/json");
	call.rq.principal.anonymous = call.rq.principal.root = true;
	snprintf(call.rq.principal.name, sizeof(call.rq.principal.name), "anonymous");
	snprintf(call.rq.origin, sizeof(call.rq.origin), "liar");
	http_wire_put_request(&head, &call);
	struct net_piece pieces[] = { { .p = head.data, .len = head.len }, { .p = body, .len = strlen(body) } };

	assert_true(net_forward_send(w->f, id, pieces, 2));
	buf_fini(&head);
}

static void follower_wait(struct follower *w, unsigned n)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;

	while (w->seen.count < n && clock_mono_ms() < end)
		follower_pump(w);
	assert_int_equal(w->seen.count, n);
}

/* A forwarded write runs through the same table: same status, same body but for what is minted. */
static void test_inbound_answers_as_directly(void **state)
{
	(void)state;
	static const struct {
		enum http_verb verb;
		const char *name, *target, *body;
	} cases[] = {
		{ HTTP_VERB_POST, "POST", "/v1/topics", "{\"name\":\"there\"}" },
		{ HTTP_VERB_POST, "POST", "/v1/topics", "{\"name\":\"there\",\"x\":1}" },
		{ HTTP_VERB_POST, "POST", "/v1/topics", "{" },
		{ HTTP_VERB_POST, "POST", "/v1/topics?x=1", "{}" },
		{ HTTP_VERB_POST, "POST", "/v1/nothing", "{}" },
		{ HTTP_VERB_PATCH, "PATCH", "/v1/topics/there", "{\"partitions\":1}" },
		{ HTTP_VERB_PATCH, "PATCH", "/v1/topics/none", "{\"retention_ms\":0}" },
		{ HTTP_VERB_PATCH, "PATCH", "/v1/topics/there", "{\"retention_ms\":0}" },
		{ HTTP_VERB_DELETE, "DELETE", "/v1/topics/none", "" },
		{ HTTP_VERB_PUT, "PUT", "/v1/topics/there", "{}" },
	};
	struct follower w;
	struct reply r;
	char request[512];

	ask_once(create_request("there"), &r);
	follower_open(&w);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(request, sizeof(request),
		         "%s %s HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
		         cases[i].name, cases[i].target, strlen(cases[i].body), cases[i].body);
		ask_once(request, &r);
		follower_send(&w, 100 + i, cases[i].verb, cases[i].target, cases[i].body);
		follower_wait(&w, (unsigned)i + 1);
		assert_int_equal(w.seen.id, 100 + i);
		assert_int_equal(w.seen.a.status, r.status);
		/* Only the index they were judged at may differ. */
		char *mine = strstr(r.body, "\"index\""), *theirs = strstr(w.seen.body, "\"index\"");

		assert_int_equal(mine != NULL, theirs != NULL);
		if (mine)
			*mine = *theirs = '\0';
		assert_string_equal(w.seen.body, r.body);
	}
	follower_close(&w);
}

/* The entry says which server the client spoke to: known from the link, not from what the frame claims. */
static void test_inbound_names_the_origin(void **state)
{
	(void)state;
	struct follower w;
	struct entry_view v;
	struct err e;

	rig.hold = true;
	follower_open(&w);
	follower_send(&w, 1, HTTP_VERB_POST, "/v1/topics", "{\"name\":\"t\"}");
	for (int i = 0; i < 5000 && world.proposal_count == 0; i++)
		follower_pump(&w);
	assert_int_equal(world.proposal_count, 1);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, &e), 0);
	assert_true(str_is(v.header.origin, "n5"));
	rig.hold = false;
	follower_wait(&w, 1);
	assert_int_equal(w.seen.a.status, 201);
	assert_int_equal(w.seen.a.index, world.index);
	follower_close(&w);
}

/* A node that does not lead says so, and never sends the request on. */
static void test_inbound_is_never_forwarded(void **state)
{
	(void)state;
	struct follower w;

	follower_open(&w);
	follow("n2", "127.0.0.1:9");
	follower_send(&w, 1, HTTP_VERB_POST, "/v1/topics", "{\"name\":\"t\"}");
	follower_wait(&w, 1);
	assert_int_equal(w.seen.a.status, 503);
	assert_true(w.seen.a.not_leader);
	assert_int_equal(atomic_load(&rig.thread->stats.forwarded_out), 0);
	follower_close(&w);
}

static int tight_setup(void **state)
{
	const struct http_options o = { .request_bytes_max = 4096 };

	(void)state;
	rig_open(&o);
	return 0;
}

/* What other servers send counts against the same bound: past it nothing is done, and the answer travels back with a
 * word to try again. What is answered is given back. */
static void test_inbound_counts_what_it_holds(void **state)
{
	(void)state;
	struct follower w;
	static char body[5000];

	memset(body, ' ', sizeof(body) - 1);
	memcpy(body, "{\"name\":\"large\"}", 16);
	follower_open(&w);
	follower_send(&w, 1, HTTP_VERB_POST, "/v1/topics", body);
	follower_wait(&w, 1);
	assert_int_equal(w.seen.a.status, 503);
	assert_non_null(strstr(w.seen.body, "\"code\":\"overloaded\""));
	assert_non_null(strstr(w.seen.body, "\"outcome\":\"none\""));
	assert_int_equal(w.seen.a.retry_after_s, 1);
	rig.hold = true;
	body[3000] = '\0';
	follower_send(&w, 2, HTTP_VERB_POST, "/v1/topics", body);
	for (int i = 0; i < 5000 && world.proposal_count == 0; i++)
		follower_pump(&w);
	assert_int_equal(world.proposal_count, 1);
	follower_send(&w, 3, HTTP_VERB_POST, "/v1/topics", body);
	follower_wait(&w, 2);
	assert_int_equal(w.seen.id, 3);
	assert_int_equal(w.seen.a.status, 503);
	rig.hold = false;
	follower_wait(&w, 3);
	assert_int_equal(w.seen.a.status, 201);
	assert_int_equal(atomic_load(&rig.server->request_bytes), 0);
	follower_close(&w);
}

/* Frames that are none end the link; nothing is run. */
static void test_inbound_refuses_junk(void **state)
{
	(void)state;
	static const struct {
		const char *bytes;
		size_t len;
	} junk[] = {
		{ "", 0 }, { "\0\0\0\0", 4 }, { "\xff\xff\xff\xff", 4 }, { "\1\0\0\0\x90", 5 }, { "\1\0\0\0\xc0", 5 }
	};

	for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
		struct follower w;
		struct net_piece piece = { .p = junk[i].bytes, .len = junk[i].len };

		follower_open(&w);
		assert_true(net_forward_send(w.f, 1, &piece, 1));
		for (int k = 0; k < 5000 && w.seen.downs == 0; k++)
			follower_pump(&w);
		assert_int_equal(w.seen.downs, 1);
		assert_int_equal(w.seen.count, 0);
		follower_close(&w);
	}
	assert_int_equal(world.proposal_count, 0);
}

/* A follower that goes away while its request runs: the write is done, the answer goes nowhere, nothing is left. */
static void test_inbound_survives_a_follower_that_left(void **state)
{
	(void)state;
	struct follower w;
	struct reply r;

	rig.hold = true;
	follower_open(&w);
	follower_send(&w, 1, HTTP_VERB_POST, "/v1/topics", "{\"name\":\"t\"}");
	for (int i = 0; i < 5000 && world.proposal_count == 0; i++)
		follower_pump(&w);
	follower_close(&w);
	pump_for(20);
	rig.hold = false;
	pump_for(20);
	assert_true(http_inbound_is_idle(rig.thread));
	assert_null(rig.thread->inbound);
	ask_once(GET("/v1/topics/t"), &r);
	assert_reply(&r, 200, NULL);
}

/* ---- the bytes ---- */

/* Every prefix of a request and of an answer is refused, none is read beyond its end. */
static void test_wire_refuses_every_prefix(void **state)
{
	(void)state;
	struct http_call call = { .verb = HTTP_VERB_POST, .target = STR_LIT("/v1/topics") }, out;
	struct svc_answer a = { .status = 201, .index = 1u << 20, .content_type = "application/json" }, b;
	struct buf bytes = { 0 };
	struct str body;

	http_wire_put_request(&bytes, &call);
	for (size_t n = 0; n < bytes.len; n++) {
		uint8_t *cut = mem_dup(bytes.data, n ? n : 1);

		assert_int_not_equal(http_wire_get_request(cut, n, &out, NULL), 0);
		mem_free(cut);
	}
	assert_int_equal(http_wire_get_request(bytes.data, bytes.len, &out, NULL), 0);
	buf_clear(&bytes);
	http_wire_put_answer(&bytes, &a);
	for (size_t n = 0; n < bytes.len; n++) {
		uint8_t *cut = mem_dup(bytes.data, n ? n : 1);

		assert_int_not_equal(http_wire_get_answer(cut, n, &b, &body, NULL), 0);
		mem_free(cut);
	}
	assert_int_equal(http_wire_get_answer(bytes.data, bytes.len, &b, &body, NULL), 0);
	assert_int_equal(b.index, a.index);
	assert_string_equal(b.content_type, a.content_type);
	buf_fini(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FORWARD(test_forward_carries_the_request),
		FORWARD(test_forward_only_writes),
		FORWARD(test_forward_waits_for_the_own_replica),
		FORWARD(test_forward_answers_without_the_own_replica),
		FORWARD(test_forward_matches_answers),
		FORWARD(test_forward_never_sends_twice),
		FORWARD(test_forward_gives_up_waiting),
		FORWARD(test_forward_waits_for_a_leader),
		FORWARD(test_forward_to_nobody),
		FORWARD(test_forward_follows_the_leader),
		FORWARD(test_forward_does_not_spin),
		FORWARD(test_forward_keeps_the_old_link_for_its_answers),
		FORWARD(test_forward_distrusts_answers),
		RIG(test_inbound_answers_as_directly),
		RIG(test_inbound_names_the_origin),
		RIG(test_inbound_is_never_forwarded),
		cmocka_unit_test_setup_teardown(test_inbound_counts_what_it_holds, tight_setup, rig_teardown),
		RIG(test_inbound_refuses_junk),
		RIG(test_inbound_survives_a_follower_that_left),
		cmocka_unit_test(test_wire_refuses_every_prefix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
