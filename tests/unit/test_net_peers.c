/* Whole peers over loopback: who comes up, who is refused and how often that is said, what a broken link tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/slab.h"
#include "net/accept.h"
#include "net/link.h"
#include "net/peers.h"
#include "net_harness.h"
#include "tls_files.h"

/* One node: its peers and what it heard. */
struct side {
	struct ev_loop *loop;
	struct net_peers *peers;
	char addr[NET_ADDR_MAX + 1];
	int ups, downs, frames, forwards;
	bool refused; /* of the last on_down */
	int down_code;
	char why[512];
	char last_peer[NET_NAME_MAX + 1];
	uint16_t last_type;
	size_t last_len;
	struct net_hello hello; /* of the last on_up or frame */
};

static void on_up(void *arg, const char *peer, const struct net_hello *hello)
{
	struct side *s = arg;
	s->ups++;
	s->hello = *hello;
	(void)snprintf(s->last_peer, sizeof(s->last_peer), "%s", peer);
}

static void on_down(void *arg, const char *peer, bool refused, const struct err *why)
{
	struct side *s = arg;
	s->downs++;
	s->refused = refused;
	s->down_code = why->code;
	(void)snprintf(s->why, sizeof(s->why), "%s", why->msg);
	(void)snprintf(s->last_peer, sizeof(s->last_peer), "%s", peer);
}

static void on_frame(void *arg, const struct net_hello *from, uint16_t type, struct slab *slab, const uint8_t *body,
                     size_t len)
{
	struct side *s = arg;
	(void)slab;
	(void)body;
	s->frames++;
	s->hello = *from;
	s->last_type = type;
	s->last_len = len;
}

static void on_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	struct side *s = arg;
	(void)from;
	s->forwards++;
	net_stream_close(&stream);
}

/* Lines at warn and above, counted. */
static int warnings;
static char last_warning[1024];

static void count_warnings(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	if (level > LOG_LEVEL_WARN)
		return;
	warnings++;
	(void)snprintf(last_warning, sizeof(last_warning), "%s", line);
}

static int setup(void **state)
{
	(void)state;
	warnings = 0;
	log_set_sink(count_warnings, NULL);
	return 0;
}

static struct net_options options(struct side *s, const char *name, uint64_t cluster, const char *secret)
{
	struct net_options o = {
		.loop = s->loop,
		.secrets = { .current = (const uint8_t *)secret, .current_len = secret ? strlen(secret) : 0 },
		.hooks = { .arg = s,
		           .on_up = on_up,
		           .on_down = on_down,
		           .on_frame = on_frame,
		           .on_forward = on_forward,
		           .forward_arg = s },
	};
	o.self.cluster_id = cluster;
	o.self.incarnation = 1000 + (uint64_t)name[1];
	(void)snprintf(o.self.name, sizeof(o.self.name), "%s", name);
	(void)snprintf(o.self.addr, sizeof(o.self.addr), "%s", s->addr);
	return o;
}

static void start(struct side *s, struct ev_loop *loop, const char *name, uint64_t cluster, const char *secret)
{
	memset(s, 0, sizeof(*s));
	s->loop = loop;
	const int fd = listen_anywhere(s->addr);
	struct net_options o = options(s, name, cluster, secret);
	o.listen_fd = fd;
	s->peers = net_peers_new(&o);
}

static void send_text(struct side *s, const char *to, uint16_t type, const char *text)
{
	assert_true(net_peers_send(s->peers, to, type, &(struct net_piece){ .p = text, .len = strlen(text) }, 1));
}

/* Two nodes find each other, each over the link it dialled, and frames name their sender. */
static void test_peers_meet_and_talk(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side a, b;
	start(&a, loop, "n1", 7, "a secret that is long");
	start(&b, loop, "n2", 7, "a secret that is long");
	assert_false(net_peers_send(a.peers, "n2", 1, NULL, 0));
	net_peers_set(a.peers, "n2", b.addr);
	net_peers_set(b.peers, "n1", a.addr);
	assert_true(run_until(loop, NULL, &a.ups, 1, 2000));
	assert_true(run_until(loop, NULL, &b.ups, 1, 2000));
	assert_true(net_peers_is_up(a.peers, "n2"));
	assert_false(net_peers_is_up(a.peers, "n3"));
	assert_string_equal(a.last_peer, "n2");
	assert_string_equal(a.hello.addr, b.addr);
	send_text(&a, "n2", 5, "hello");
	assert_true(run_until(loop, NULL, &b.frames, 1, 1000));
	assert_string_equal(b.hello.name, "n1");
	assert_int_equal(b.hello.incarnation, 1000 + '1');
	assert_int_equal(b.last_type, 5);
	assert_int_equal(b.last_len, 5);
	assert_int_equal(a.downs + b.downs, 0);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	ev_loop_destroy(loop);
}

/* n1 has the new secret and the previous one, n2 as much as `theirs` says: both dial, and both get through or none. */
static bool do_meet(const struct net_secrets *theirs)
{
	static const uint8_t new_one[] = "the new secret of all", old_one[] = "the old secret of all";
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side s[2];
	for (int i = 0; i < 2; i++) {
		memset(&s[i], 0, sizeof(s[i]));
		s[i].loop = loop;
		const int fd = listen_anywhere(s[i].addr);
		struct net_options o = options(&s[i], i == 0 ? "n1" : "n2", 7, NULL);
		o.listen_fd = fd;
		o.secrets =
		    i == 0 ? (struct net_secrets){ new_one, old_one, sizeof(new_one), sizeof(old_one) } : *theirs;
		s[i].peers = net_peers_new(&o);
	}
	net_peers_set(s[0].peers, "n2", s[1].addr);
	net_peers_set(s[1].peers, "n1", s[0].addr);
	run_for(loop, NULL, 600); /* several attempts; the first may be by the wrong secret */
	const int up = net_peers_is_up(s[0].peers, "n2") + net_peers_is_up(s[1].peers, "n1");
	assert_true(up == 0 || up == 2);
	for (int i = 0; i < 2; i++)
		net_peers_free(s[i].peers);
	ev_loop_destroy(loop);
	return up == 2;
}

/* Nodes get a new secret one by one: those that have both talk to those that have one of them, in both directions. */
static void test_secret_is_replaced_node_by_node(void **state)
{
	(void)state;
	static const uint8_t new_one[] = "the new secret of all", old_one[] = "the old secret of all";
	static const uint8_t other[] = "a secret of nobody";
	assert_true(do_meet(&(struct net_secrets){ .current = new_one, .current_len = sizeof(new_one) }));
	assert_true(do_meet(&(struct net_secrets){ .current = old_one, .current_len = sizeof(old_one) }));
	assert_true(do_meet(&(struct net_secrets){ new_one, old_one, sizeof(new_one), sizeof(old_one) }));
	assert_false(do_meet(&(struct net_secrets){ .current = other, .current_len = sizeof(other) }));
	assert_false(do_meet(&(struct net_secrets){ other, other, sizeof(other), sizeof(other) }));
}

/* Under TLS: who belongs is up; another authority's certificate, another's name, a plain node are refused and said. */
static void test_peers_under_tls(void **state)
{
	(void)state;
	struct tls_files files;
	tls_files_init(&files);
	tls_make_cert(&files, "ca", "n1", "DNS:n1");
	tls_make_cert(&files, "ca", "n2", "DNS:n2");
	tls_make_cert(&files, "ca", "addr", "IP:127.0.0.1");
	tls_make_cert(&files, "ca", "n3", "DNS:n3,IP:10.0.0.1");
	tls_make_ca(&files, "other");
	tls_make_cert(&files, "other", "stranger", "DNS:n2,IP:127.0.0.1");
	const struct {
		const char *cert; /* of n2; NULL = plain */
		bool is_up;
		const char *says; /* to n1, which dials */
	} cases[] = {
		{ "n2", true, "" },
		{ "addr", true, "" },
		{ "n3", false, "names neither its id nor its address" },
		{ "stranger", false, "certificate is refused" },
		{ NULL, false, "" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
		struct side s[2];
		struct net_tls *tls[2] = { NULL };
		for (int k = 0; k < 2; k++) {
			struct err e;
			const char *cert = k == 0 ? "n1" : cases[i].cert;
			memset(&s[k], 0, sizeof(s[k]));
			s[k].loop = loop;
			const int fd = listen_anywhere(s[k].addr);
			struct net_options o = options(&s[k], k == 0 ? "n1" : "n2", 7, NULL);
			o.listen_fd = fd;
			if (cert)
				assert_int_equal(tls_load(&files, cert, "ca", &tls[k], &e), 0);
			o.tls = tls[k];
			s[k].peers = net_peers_new(&o);
		}
		net_peers_set(s[0].peers, "n2", s[1].addr);
		net_peers_set(s[1].peers, "n1", s[0].addr);
		if (cases[i].is_up) {
			assert_true(run_until(loop, NULL, &s[0].ups, 1, 3000));
			assert_true(run_until(loop, NULL, &s[1].ups, 1, 3000));
			send_text(&s[0], "n2", 5, "hello");
			assert_true(run_until(loop, NULL, &s[1].frames, 1, 1000));
			assert_int_equal(s[0].downs + s[1].downs, 0);
		} else {
			run_for(loop, NULL, 700);
			assert_int_equal(s[0].ups + s[1].ups, 0);
			assert_int_equal(s[0].downs, 1);
			assert_int_equal(s[1].downs, 1);
			if (!strstr(s[0].why, cases[i].says))
				fail_msg("case %zu: %s", i, s[0].why);
		}
		for (int k = 0; k < 2; k++) {
			net_peers_free(s[k].peers);
			net_tls_free(tls[k]);
		}
		ev_loop_destroy(loop);
	}
	tls_files_fini(&files);
}

/* Another secret, another cluster, the own id: never up, down once, and one line each though it dials on (F28). */
static void test_misfits_are_refused_and_said_once(void **state)
{
	(void)state;
	const struct {
		const char *name, *secret, *says;
		uint64_t cluster;
	} cases[] = {
		{ "n2", "another secret", "secret", 7 },
		{ "n2", NULL, "secret", 7 },
		{ "n2", "a secret", "cluster 0000000000000008", 8 },
		{ "n1", "a secret", "own id", 7 },
	};
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct side a, b;
		warnings = 0;
		start(&a, loop, "n1", 7, "a secret");
		start(&b, loop, cases[i].name, cases[i].cluster, cases[i].secret);
		net_peers_set(a.peers, "n2", b.addr);
		assert_true(run_until(loop, NULL, &a.downs, 1, 2000));
		assert_int_equal(warnings, 2); /* one at each end */
		assert_non_null(strstr(last_warning, cases[i].says));
		run_for(loop, NULL, 700);
		assert_int_equal(a.downs, 1);
		assert_false(a.refused);
		assert_int_equal(a.down_code, ERR_IDENTITY);
		assert_int_equal(a.ups + b.ups, 0);
		assert_int_equal(warnings, 2);
		net_peers_free(a.peers);
		net_peers_free(b.peers);
	}
	ev_loop_destroy(loop);
}

/* A peer that goes is reported at once, its refused port next, and it is back soon after it came back. */
static void test_lost_peer_is_refused_then_found_again(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side a, b;
	start(&a, loop, "n1", 7, NULL);
	start(&b, loop, "n2", 7, NULL);
	net_peers_set(a.peers, "n2", b.addr);
	assert_true(run_until(loop, NULL, &a.ups, 1, 2000));
	net_peers_free(b.peers);
	assert_true(run_until(loop, NULL, &a.downs, 1, 1000));
	assert_false(a.refused);
	assert_false(net_peers_is_up(a.peers, "n2"));
	assert_false(net_peers_send(a.peers, "n2", 1, NULL, 0));
	const uint64_t lost = clock_mono_ms();
	assert_true(run_until(loop, NULL, &a.downs, 2, 2000));
	assert_true(a.refused);
	assert_in_range(clock_mono_ms() - lost, 40, 1500);
	run_for(loop, NULL, 500);
	assert_int_equal(a.downs, 2); /* once per change, not per attempt */

	struct net_options o = options(&b, "n2", 7, NULL);
	assert_int_equal(net_listen(b.addr, &o.listen_fd, NULL), 0);
	b.peers = net_peers_new(&o);
	assert_true(run_until(loop, NULL, &a.ups, 2, 2500));
	send_text(&a, "n2", 1, "again");
	assert_true(run_until(loop, NULL, &b.frames, 1, 1000));
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	ev_loop_destroy(loop);
}

/* Half a hello is given up on both sides after the limit, and silence is no refusal. */
static void test_half_hello_times_out(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side a;
	start(&a, loop, "n1", 7, NULL);
	char addr[NET_ADDR_MAX + 1];
	const int mute = listen_anywhere(addr); /* the kernel connects, nobody answers */
	net_peers_set(a.peers, "n2", addr);
	const int half = connect_to(a.addr);
	write_bytes(half, "\x60\0\0\0\x01\xff\0\0venc\1\0", 14);
	const uint64_t begun = clock_mono_ms();
	assert_true(run_until(loop, NULL, &a.downs, 1, NET_ACCEPT_HELLO_MS + 1000));
	assert_false(a.refused);
	run_for(loop, NULL, 100);
	assert_true(is_closed(half));
	assert_in_range(clock_mono_ms() - begun, NET_ACCEPT_HELLO_MS, NET_ACCEPT_HELLO_MS + 1000);
	close(half);
	close(mute);
	net_peers_free(a.peers);
	ev_loop_destroy(loop);
}

/* Strangers in the middle of a hello are bounded; the oldest goes, and a real peer still gets in. */
static void test_unfinished_hellos_are_bounded(void **state)
{
	(void)state;
	enum { EXTRA = 8, ALL = NET_ACCEPT_UNFINISHED_MAX + EXTRA };
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side a, b;
	start(&a, loop, "n1", 7, NULL);
	start(&b, loop, "n2", 7, NULL);
	int fds[ALL];
	for (int i = 0; i < ALL; i++) {
		fds[i] = connect_to(a.addr);
		run_for(loop, NULL, 2);
	}
	for (int i = 0; i < ALL; i++)
		assert_int_equal(is_closed(fds[i]), i < EXTRA);
	net_peers_set(b.peers, "n1", a.addr);
	assert_true(run_until(loop, NULL, &b.ups, 1, 2000));
	for (int i = 0; i < ALL; i++)
		close(fds[i]);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	ev_loop_destroy(loop);
}

/* A peer that takes nothing in costs at most the bound; the rest is refused, and the link itself stays. */
static void test_send_queue_is_bounded(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL), *other = ev_loop_new(EVBACKEND_POLL);
	struct side a, b;
	start(&a, loop, "n1", 7, NULL);
	start(&b, other, "n2", 7, NULL);
	net_peers_set(a.peers, "n2", b.addr);
	assert_true(run_until(loop, other, &a.ups, 1, 2000));
	struct slab *s = slab_new(1 << 20);
	s->len = 1 << 20;
	memset(s->data, 0, s->len);
	const struct net_piece piece = { .p = s->data, .len = s->len, .slab = s };
	int taken = 0;
	for (int i = 0; i < 100; i++) {
		taken += net_peers_send(a.peers, "n2", 1, &piece, 1);
		ev_run(loop, EVRUN_NOWAIT);
	}
	assert_in_range(taken, 15, 40); /* 16 MiB and what the kernel holds */
	assert_false(net_peers_send(a.peers, "n2", 1, &piece, 1));
	assert_true(net_peers_is_up(a.peers, "n2"));
	assert_true(run_until(loop, other, &b.frames, taken, 10000));
	assert_int_equal(b.last_len, s->len);
	slab_unref(s);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	ev_loop_destroy(loop);
	ev_loop_destroy(other);
}

/* A new address replaces the link; the same address leaves it alone; a dropped peer is not dialled. */
static void test_address_change_moves_the_link(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side a, b, c;
	start(&a, loop, "n1", 7, NULL);
	start(&b, loop, "n2", 7, NULL);
	start(&c, loop, "n2", 7, NULL);
	net_peers_set(a.peers, "n2", b.addr);
	assert_true(run_until(loop, NULL, &a.ups, 1, 2000));
	net_peers_set(a.peers, "n2", b.addr);
	run_for(loop, NULL, 50);
	assert_int_equal(a.ups, 1);
	net_peers_set(a.peers, "n2", c.addr);
	assert_false(net_peers_is_up(a.peers, "n2"));
	assert_true(run_until(loop, NULL, &a.ups, 2, 2000));
	assert_string_equal(a.hello.addr, c.addr);
	send_text(&a, "n2", 1, "x");
	assert_true(run_until(loop, NULL, &c.frames, 1, 1000));
	assert_int_equal(b.frames, 0);
	net_peers_drop(a.peers, "n2");
	net_peers_drop(a.peers, "n2");
	assert_false(net_peers_is_up(a.peers, "n2"));
	run_for(loop, NULL, 300);
	assert_int_equal(a.ups, 2);
	assert_int_equal(a.downs, 0);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	net_peers_free(c.peers);
	ev_loop_destroy(loop);
}

/* A peer that dials anew replaces its older link at the other end; another node of that name does not. */
static void test_newer_link_of_a_peer_replaces_the_older(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct side a, b, same, impostor;
	start(&a, loop, "n1", 7, NULL);
	start(&b, loop, "n2", 7, NULL);
	net_peers_set(b.peers, "n1", a.addr);
	assert_true(run_until(loop, NULL, &b.ups, 1, 2000));

	start(&impostor, loop, "n2", 7, NULL);
	struct net_hello other = options(&impostor, "n2", 7, NULL).self;
	other.incarnation = 99;
	net_peers_set_self(impostor.peers, &other);
	net_peers_set(impostor.peers, "n1", a.addr);
	assert_true(run_until(loop, NULL, &impostor.ups, 1, 2000));
	run_for(loop, NULL, 100);
	assert_int_equal(b.downs, 0);

	start(&same, loop, "n2", 7, NULL);
	net_peers_set(same.peers, "n1", a.addr);
	assert_true(run_until(loop, NULL, &b.downs, 1, 2000));
	assert_int_equal(impostor.downs, 0);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	net_peers_free(same.peers);
	net_peers_free(impostor.peers);
	ev_loop_destroy(loop);
}

static void *pool_main(void *arg)
{
	while (pool_wait(arg, -1))
		(void)pool_turn(arg);
	return NULL;
}

/* Names are looked up on the pool, while the loop turns; ending in the middle of a look-up is allowed. */
static void test_names_are_looked_up_on_the_pool(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct pool *pool = pool_new();
	struct side a, b;
	start(&b, loop, "n2", 7, NULL);
	char by_name[NET_ADDR_MAX + 1];
	(void)snprintf(by_name, sizeof(by_name), "localhost:%s", strchr(b.addr, ':') + 1);

	memset(&a, 0, sizeof(a));
	a.loop = loop;
	const int fd = listen_anywhere(a.addr);
	struct net_options o = options(&a, "n1", 7, NULL);
	o.listen_fd = fd;
	o.pool = pool;
	a.peers = net_peers_new(&o);
	net_peers_set(a.peers, "n2", by_name);
	net_peers_set(a.peers, "n3", by_name); /* waits for the process' one look-up */
	run_for(loop, NULL, 100);
	assert_int_equal(a.ups, 0); /* nobody runs the pool yet */
	pthread_t t;
	assert_int_equal(pthread_create(&t, NULL, pool_main, pool), 0);
	assert_true(run_until(loop, NULL, &a.ups, 2, 2000));
	net_peers_set(a.peers, "n4", by_name);
	run_for(loop, NULL, 2);
	net_peers_free(a.peers);
	net_peers_free(b.peers);
	pool_close(pool);
	assert_int_equal(pthread_join(t, NULL), 0);
	pool_free(pool);
	ev_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_peers_meet_and_talk, setup),
		cmocka_unit_test_setup(test_secret_is_replaced_node_by_node, setup),
		cmocka_unit_test_setup(test_peers_under_tls, setup),
		cmocka_unit_test_setup(test_misfits_are_refused_and_said_once, setup),
		cmocka_unit_test_setup(test_lost_peer_is_refused_then_found_again, setup),
		cmocka_unit_test_setup(test_half_hello_times_out, setup),
		cmocka_unit_test_setup(test_unfinished_hellos_are_bounded, setup),
		cmocka_unit_test_setup(test_send_queue_is_bounded, setup),
		cmocka_unit_test_setup(test_address_change_moves_the_link, setup),
		cmocka_unit_test_setup(test_newer_link_of_a_peer_replaces_the_older, setup),
		cmocka_unit_test_setup(test_names_are_looked_up_on_the_pool, setup),
	};
	return cmocka_run_group_tests_name("net_peers", tests, NULL, NULL);
}
