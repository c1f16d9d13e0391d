/* Dialling by name, against a resolver of our own: names move, name servers fail, and some addresses are dead (F12c).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <netdb.h>

#include <cmocka.h>

#include "base/log.h"
#include "net/peers.h"
#include "net_harness.h"

/* What the resolver answers next: addresses as text, none = the name server is down. Takes libc's place by linking. */
static const char *answer[3];
static int asked;

static struct addrinfo *make_info(const char *text, const char *service, struct addrinfo *next)
{
	struct addrinfo *i = calloc(1, sizeof(*i) + sizeof(struct sockaddr_in));
	assert_non_null(i);
	struct sockaddr_in in = { .sin_family = AF_INET };
	in.sin_port = htons((uint16_t)(service ? atoi(service) : 0)); /* NOLINT(cert-err34-c): our own digits */
	assert_int_equal(inet_pton(AF_INET, text, &in.sin_addr), 1);
	memcpy(i + 1, &in, sizeof(in));
	i->ai_family = AF_INET;
	i->ai_addr = (struct sockaddr *)(i + 1);
	i->ai_addrlen = sizeof(in);
	i->ai_next = next;
	return i;
}

int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict res)
{
	struct in_addr in;
	if (inet_pton(AF_INET, node, &in) == 1) {
		*res = make_info(node, service, NULL);
		return 0;
	}
	if (hints->ai_flags & AI_NUMERICHOST)
		return EAI_NONAME;
	asked++;
	if (!answer[0])
		return EAI_AGAIN;
	*res = NULL;
	for (int i = 2; i >= 0; i--) {
		if (answer[i])
			*res = make_info(answer[i], service, *res);
	}
	return 0;
}

void freeaddrinfo(struct addrinfo *res)
{
	while (res) {
		struct addrinfo *next = res->ai_next;
		free(res);
		res = next;
	}
}

struct side {
	struct ev_loop *loop;
	struct pool *pool;
	struct net_peers *peers;
	int ups, downs;
	bool refused;
};

static void on_up(void *arg, const char *peer, const struct net_hello *hello)
{
	(void)peer;
	(void)hello;
	((struct side *)arg)->ups++;
}

static void on_down(void *arg, const char *peer, bool refused, const struct err *why)
{
	(void)why;
	(void)peer;
	struct side *s = arg;
	s->downs++;
	s->refused = refused;
}

static void on_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
                     size_t len)
{
	(void)arg;
	(void)from;
	(void)type;
	(void)slab;
	(void)body;
	(void)len;
}

static void on_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	(void)arg;
	(void)from;
	net_stream_close(&stream);
}

static void start(struct side *s, struct ev_loop *loop, struct pool *pool, const char *name, const char *addr)
{
	memset(s, 0, sizeof(*s));
	s->loop = loop;
	s->pool = pool;
	struct net_options o = {
		.loop = loop,
		.pool = pool,
		.hooks = { .arg = s,
		           .on_up = on_up,
		           .on_down = on_down,
		           .on_frame = on_frame,
		           .on_forward = on_forward },
	};
	o.self.cluster_id = 7;
	o.self.incarnation = (uint64_t)name[1];
	(void)snprintf(o.self.name, sizeof(o.self.name), "%s", name);
	(void)snprintf(o.self.addr, sizeof(o.self.addr), "%s", addr);
	assert_int_equal(net_listen(addr, &o.listen_fd, NULL), 0);
	s->peers = net_peers_new(&o);
}

/* As run_until, with the pool's jobs run between two turns. */
static bool run_pooled(struct side *s, const int *done, int want)
{
	const uint64_t end = clock_mono_ms() + 4000;
	while (*done < want && clock_mono_ms() < end) {
		run_for(s->loop, NULL, 5);
		while (pool_turn(s->pool))
			;
	}
	return *done >= want;
}

static char port_text[8];

static const char *at(const char *host)
{
	static char text[2][NET_ADDR_MAX + 1];
	static int turn;
	turn ^= 1;
	(void)snprintf(text[turn], sizeof(text[turn]), "%s:%s", host, port_text);
	return text[turn];
}

/* A port that is free on every loopback address, or was a moment ago. */
static int setup(void **state)
{
	(void)state;
	char addr[NET_ADDR_MAX + 1];
	close(listen_anywhere(addr));
	(void)snprintf(port_text, sizeof(port_text), "%s", strchr(addr, ':') + 1);
	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	memset(answer, 0, sizeof(answer));
	asked = 0;
	return 0;
}

/* A peer that came back at another address is found there, since the name is looked up anew each time. */
static void test_moved_name_is_looked_up_again(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct pool *pool = pool_new();
	struct side a, b;
	start(&b, loop, pool, "n2", at("127.0.0.2"));
	start(&a, loop, pool, "n1", at("127.0.0.1"));
	answer[0] = "127.0.0.2";
	net_peers_set(a.peers, "n2", at("peer.test"));
	assert_true(run_pooled(&a, &a.ups, 1));
	assert_int_equal(asked, 1);
	net_peers_free(b.peers);
	start(&b, loop, pool, "n2", at("127.0.0.3"));
	answer[0] = "127.0.0.3";
	assert_true(run_pooled(&a, &a.ups, 2));
	assert_true(asked > 1);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	pool_free(pool);
	ev_loop_destroy(loop);
}

/* A name server that fails does not cut off a peer that is where it was; before the first answer it is no refusal. */
static void test_dead_name_server_cuts_nobody_off(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct pool *pool = pool_new();
	struct side a, b;
	start(&b, loop, pool, "n2", at("127.0.0.2"));
	start(&a, loop, pool, "n1", at("127.0.0.1"));
	net_peers_set(a.peers, "n2", at("peer.test"));
	assert_true(run_pooled(&a, &a.downs, 1));
	assert_false(a.refused);
	answer[0] = "127.0.0.2";
	assert_true(run_pooled(&a, &a.ups, 1));
	answer[0] = NULL;
	net_peers_free(b.peers);
	assert_true(run_pooled(&a, &a.downs, 2));
	start(&b, loop, pool, "n2", at("127.0.0.2"));
	assert_true(run_pooled(&a, &a.ups, 2));
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	pool_free(pool);
	ev_loop_destroy(loop);
}

/* Each address of a name is tried; "refused" is said only when all of them refuse. */
static void test_all_addresses_are_tried(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct pool *pool = pool_new();
	struct side a, b;
	start(&a, loop, pool, "n1", at("127.0.0.1"));
	answer[0] = "127.0.0.4";
	answer[1] = "127.0.0.5";
	answer[2] = "127.0.0.2";
	net_peers_set(a.peers, "n2", at("peer.test"));
	assert_true(run_pooled(&a, &a.downs, 1));
	assert_true(a.refused);
	start(&b, loop, pool, "n2", at("127.0.0.2"));
	assert_true(run_pooled(&a, &a.ups, 1));
	assert_int_equal(a.downs, 1);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	pool_free(pool);
	ev_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_moved_name_is_looked_up_again, setup),
		cmocka_unit_test_setup(test_dead_name_server_cuts_nobody_off, setup),
		cmocka_unit_test_setup(test_all_addresses_are_tried, setup),
	};
	return cmocka_run_group_tests_name("net_dial", tests, NULL, NULL);
}
