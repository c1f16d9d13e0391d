/* Forwarding: requests and answers under their ids, over a descriptor that the accepting side gave away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "net/forward.h"
#include "net_harness.h"

/* The leader: accepts, takes over forwarded links on another loop, answers each request with its text doubled. */
struct leader {
	struct ev_loop *loop, *http_loop;
	struct net_peers *peers;
	char addr[NET_ADDR_MAX + 1];
	struct net_link *link;
	int given, requests, closes;
	bool mute; /* takes requests in, answers none */
};

static void on_request(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct leader *l = arg;
	uint64_t id;
	const uint8_t *rest;
	size_t rest_len;
	(void)slab;
	assert_int_equal(type, NET_FORWARD_REQUEST);
	assert_true(net_forward_parse(body, len, &id, &rest, &rest_len));
	l->requests++;
	const struct net_piece twice[] = { { .p = rest, .len = rest_len }, { .p = rest, .len = rest_len } };
	if (!l->mute)
		assert_true(net_forward_answer(l->link, id, twice, 2));
}

static void on_link_close(void *arg, const struct err *why)
{
	struct leader *l = arg;
	(void)why;
	l->closes++;
	net_link_free(l->link);
	l->link = NULL;
}

static void on_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	struct leader *l = arg;
	assert_string_equal(from->name, "n2");
	l->given++;
	net_link_free(l->link);
	const struct net_link_hooks hooks = { .arg = l, .on_frame = on_request, .on_close = on_link_close };
	l->link = net_link_new(l->http_loop, stream, NET_FRAME_MAX, &hooks);
}

static void no_up(void *arg, const char *peer, const struct net_hello *hello)
{
	(void)arg;
	(void)peer;
	(void)hello;
	fail();
}

static void no_down(void *arg, const char *peer, bool refused, const struct err *why)
{
	(void)arg;
	(void)why;
	(void)peer;
	(void)refused;
	fail();
}

/* A forwarded request must never reach the consensus thread's frames. */
static void no_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
                     size_t len)
{
	(void)arg;
	(void)from;
	(void)type;
	(void)slab;
	(void)body;
	(void)len;
	fail();
}

static struct net_hello hello_of(const char *name)
{
	struct net_hello h = { .cluster_id = 7, .incarnation = 1000 + (uint64_t)name[1] };
	(void)snprintf(h.name, sizeof(h.name), "%s", name);
	(void)snprintf(h.addr, sizeof(h.addr), "127.0.0.1:1");
	return h;
}

static void start_leader(struct leader *l, struct ev_loop *loop, struct ev_loop *http_loop, const char *name)
{
	memset(l, 0, sizeof(*l));
	l->loop = loop;
	l->http_loop = http_loop;
	struct net_options o = {
		.loop = loop,
		.listen_fd = listen_anywhere(l->addr),
		.secrets = { .current = (const uint8_t *)"a secret", .current_len = 8 },
		.self = hello_of(name),
		.hooks = { .arg = l,
		           .on_up = no_up,
		           .on_down = no_down,
		           .on_frame = no_frame,
		           .on_forward = on_forward,
		           .forward_arg = l },
	};
	l->peers = net_peers_new(&o);
}

static void stop_leader(struct leader *l)
{
	net_peers_free(l->peers);
	net_link_free(l->link);
	l->link = NULL;
}

struct follower {
	struct net_forward *forward;
	int ups, downs, answers;
	bool refused;
	uint64_t last_id, id_sum;
	char last_text[64];
};

static void on_up(void *arg)
{
	((struct follower *)arg)->ups++;
}

static void on_down(void *arg, bool refused)
{
	struct follower *f = arg;
	f->downs++;
	f->refused = refused;
}

static void on_answer(void *arg, uint64_t id, struct slab *slab, const uint8_t *body, size_t len)
{
	struct follower *f = arg;
	(void)slab;
	f->answers++;
	f->last_id = id;
	f->id_sum += id;
	(void)snprintf(f->last_text, sizeof(f->last_text), "%.*s", (int)len, (const char *)body);
}

static void start_follower(struct follower *f, struct ev_loop *loop)
{
	memset(f, 0, sizeof(*f));
	const struct net_forward_options o = {
		.loop = loop,
		.self = hello_of("n2"),
		.secrets = { .current = (const uint8_t *)"a secret", .current_len = 8 },
		.hooks = { .arg = f, .on_up = on_up, .on_answer = on_answer, .on_down = on_down },
	};
	f->forward = net_forward_new(&o);
}

static bool ask(struct follower *f, uint64_t id, const char *text)
{
	const struct net_piece piece = { .p = text, .len = strlen(text) };
	return net_forward_send(f->forward, id, &piece, 1);
}

static int setup(void **state)
{
	(void)state;
	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return 0;
}

/* Requests go out once the link is up and answers come back under their ids, on the loop the link was given to. */
static void test_forward_carries_requests_and_answers(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL), *http_loop = ev_loop_new(EVBACKEND_POLL);
	struct leader l;
	struct follower f;
	start_leader(&l, loop, http_loop, "n1");
	start_follower(&f, http_loop);
	assert_false(ask(&f, 1, "early"));
	net_forward_target(f.forward, l.addr);
	assert_false(ask(&f, 1, "early"));
	assert_true(run_until(loop, http_loop, &f.ups, 1, 2000));
	assert_int_equal(l.given, 1);
	assert_true(net_forward_is_up(f.forward));
	assert_true(ask(&f, UINT64_MAX, "ab"));
	assert_true(run_until(loop, http_loop, &f.answers, 1, 1000));
	assert_true(f.last_id == UINT64_MAX);
	assert_string_equal(f.last_text, "abab");
	for (uint64_t i = 1; i <= 1000; i++)
		assert_true(ask(&f, i, "x"));
	assert_true(run_until(loop, http_loop, &f.answers, 1001, 5000));
	assert_true(f.id_sum + 1 == 1000 * 1001 / 2); /* UINT64_MAX counts as -1 */
	assert_int_equal(f.downs, 0);
	net_forward_free(f.forward);
	stop_leader(&l);
	ev_loop_destroy(loop);
	ev_loop_destroy(http_loop);
}

/* A link that breaks says so once, answers nothing by itself, sends nothing again, and is dialled anew. */
static void test_forward_breaks_and_comes_back(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL), *http_loop = ev_loop_new(EVBACKEND_POLL);
	struct leader l;
	struct follower f;
	start_leader(&l, loop, http_loop, "n1");
	l.mute = true;
	start_follower(&f, http_loop);
	net_forward_target(f.forward, l.addr);
	assert_true(run_until(loop, http_loop, &f.ups, 1, 2000));
	assert_true(ask(&f, 1, "lost"));
	assert_true(run_until(loop, http_loop, &l.requests, 1, 1000));
	net_link_free(l.link);
	l.link = NULL;
	assert_true(run_until(loop, http_loop, &f.downs, 1, 1000));
	assert_false(net_forward_is_up(f.forward));
	assert_false(ask(&f, 2, "down"));
	assert_true(run_until(loop, http_loop, &f.ups, 2, 2000));
	run_for(loop, http_loop, 50);
	assert_int_equal(l.requests, 1);
	assert_int_equal(f.answers, 0);
	net_forward_free(f.forward);
	stop_leader(&l);
	ev_loop_destroy(loop);
	ev_loop_destroy(http_loop);
}

/* A new target takes over silently; nobody as target hangs up; an address that refuses is reported once. */
static void test_forward_follows_its_target(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL), *http_loop = ev_loop_new(EVBACKEND_POLL);
	struct leader l1, l3;
	struct follower f;
	start_leader(&l1, loop, http_loop, "n1");
	start_leader(&l3, loop, http_loop, "n3");
	start_follower(&f, http_loop);
	net_forward_target(f.forward, l1.addr);
	assert_true(run_until(loop, http_loop, &f.ups, 1, 2000));
	net_forward_target(f.forward, l1.addr);
	assert_true(net_forward_is_up(f.forward));
	net_forward_target(f.forward, l3.addr);
	assert_false(net_forward_is_up(f.forward));
	assert_true(run_until(loop, http_loop, &f.ups, 2, 2000));
	assert_true(run_until(loop, http_loop, &l1.closes, 1, 1000));
	assert_int_equal(f.downs, 0);
	assert_true(ask(&f, 5, "to three"));
	assert_true(run_until(loop, http_loop, &l3.requests, 1, 1000));
	assert_int_equal(l1.requests, 0);

	net_forward_target(f.forward, "");
	assert_true(run_until(loop, http_loop, &l3.closes, 1, 1000));
	char nobody[NET_ADDR_MAX + 1];
	close(listen_anywhere(nobody));
	net_forward_target(f.forward, nobody);
	assert_true(run_until(loop, http_loop, &f.downs, 1, 1000));
	assert_true(f.refused);
	run_for(loop, http_loop, 400);
	assert_int_equal(f.downs, 1);
	net_forward_free(f.forward);
	stop_leader(&l1);
	stop_leader(&l3);
	ev_loop_destroy(loop);
	ev_loop_destroy(http_loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_forward_carries_requests_and_answers, setup),
		cmocka_unit_test_setup(test_forward_breaks_and_comes_back, setup),
		cmocka_unit_test_setup(test_forward_follows_its_target, setup),
	};
	return cmocka_run_group_tests_name("net_forward", tests, NULL, NULL);
}
