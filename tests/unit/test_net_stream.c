/* Streams: the same bytes come out whatever the sockets do, and TLS believes nobody without a reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/link.h"
#include "net_harness.h"
#include "tls_files.h"

static struct tls_files files;

struct ends {
	struct net_tls *tls[2];
	struct net_stream s[2]; /* [0] is the client */
};

/* Two ends over one pair; names of certificates, NULL = plain. */
static void open_ends(struct ends *x, const char *client, const char *server, const char *ca)
{
	struct err e;
	int fds[2];
	const char *const names[] = { client, server };
	*x = (struct ends){ 0 };
	make_pair(fds);
	set_nonblocking(fds[1]);
	for (int i = 0; i < 2; i++) {
		if (names[i])
			assert_int_equal(tls_load(&files, names[i], ca, &x->tls[i], &e), 0);
		assert_int_equal(net_stream_open(x->tls[i], fds[i], i == 0, &x->s[i], &e), 0);
	}
}

static void close_ends(struct ends *x)
{
	for (int i = 0; i < 2; i++) {
		net_stream_close(&x->s[i]);
		net_tls_free(x->tls[i]);
	}
}

/* Lets both sides shake hands: the last results of their reads. */
static void shake(struct ends *x, ssize_t got[2])
{
	uint8_t c;
	for (int i = 0; i < 12; i++)
		got[i % 2] = net_stream_recv(&x->s[i % 2], &c, 1);
}

/* 300 KB through buffers of 4 KB, in pieces of all sizes, with reads that take little: every byte arrives, in order. */
static void test_bytes_survive_short_writes(void **state)
{
	(void)state;
	static uint8_t data[300000], got[300000];
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + i / 251);
	for (int tls = 0; tls < 2; tls++) {
		struct ends x;
		open_ends(&x, tls ? "n1" : NULL, tls ? "n2" : NULL, "ca");
		const int small = 4096;
		for (int i = 0; i < 2; i++) {
			assert_int_equal(setsockopt(x.s[i].fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		}
		size_t sent = 0, read = 0, refused = 0, turn = 0;
		memset(got, 0, sizeof(got));
		while (read < sizeof(data)) {
			assert_true(turn++ < 1000000);
			struct iovec iov[40];
			size_t count = 0, at = sent;
			while (count < 40 && at < sizeof(data)) {
				/* Cut at the same places each time, as queued pieces are. */
				const size_t piece = 1 + (at * 7919) % 900, left = sizeof(data) - at;
				iov[count++] = (struct iovec){ data + at, piece < left ? piece : left };
				at += iov[count - 1].iov_len;
			}
			const ssize_t n = count ? net_stream_sendv(&x.s[0], iov, count) : 0;
			assert_true(n >= 0);
			sent += (size_t)n;
			refused += n == 0;
			const size_t want = 1 + (turn * 131) % 5000, room = sizeof(got) - read;
			const ssize_t m = net_stream_recv(&x.s[1], got + read, want < room ? want : room);
			assert_true(m >= 0);
			read += (size_t)m;
		}
		assert_memory_equal(got, data, sizeof(data));
		assert_true(refused > 0); /* else nothing was short */
		close_ends(&x);
	}
}

/* What TLS has decrypted and nobody has read is not seen on the socket: has_more says it, and only then. */
static void test_has_more_tells_of_hidden_bytes(void **state)
{
	(void)state;
	struct ends x;
	ssize_t r[2];
	char got[8];
	open_ends(&x, "n1", "n2", "ca");
	shake(&x, r);
	assert_int_equal(net_stream_send(&x.s[0], "abcdef", 6), 6);
	assert_int_equal(net_stream_recv(&x.s[1], got, 2), 2);
	struct pollfd p = { .fd = x.s[1].fd, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_true(net_stream_has_more(&x.s[1]));
	assert_int_equal(net_stream_recv(&x.s[1], got, 8), 4);
	assert_int_equal(net_stream_recv(&x.s[1], got, 8), 0);
	assert_false(net_stream_has_more(&x.s[1]));
	close_ends(&x);
}

/* A goodbye and a bare end both end the reading; the half that is still open goes on. */
static void test_half_closed_streams_still_send(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct ends x;
		ssize_t r[2];
		char got[8];
		open_ends(&x, how < 2 ? "n1" : NULL, how < 2 ? "n2" : NULL, "ca");
		if (how < 2)
			shake(&x, r);
		assert_int_equal(net_stream_send(&x.s[0], "q", 1), 1);
		if (how == 1)
			assert_int_equal(shutdown(x.s[0].fd, SHUT_WR), 0); /* without a goodbye */
		else
			assert_true(net_stream_shutdown(&x.s[0]));
		assert_int_equal(net_stream_recv(&x.s[1], got, 8), 1);
		assert_int_equal(net_stream_recv(&x.s[1], got, 8), -ENODATA);
		assert_int_equal(net_stream_send(&x.s[1], "answer", 6), 6);
		assert_int_equal(net_stream_recv(&x.s[0], got, 8), 6);
		close_ends(&x);
	}
}

/* Another authority's certificate, none at all, plain bytes: refused by the side that was lied to, with a sentence. */
static void test_strangers_are_refused(void **state)
{
	(void)state;
	struct ends x;
	ssize_t r[2];
	struct err e;
	char c;

	open_ends(&x, "stranger", "n2", "ca");
	shake(&x, r);
	assert_int_equal(r[1], -EPROTO);
	assert_non_null(strstr(net_stream_why(&x.s[1]), "certificate is refused"));
	assert_false(net_tls_session_names(x.s[1].tls, "n1", "127.0.0.1"));
	assert_int_equal(net_stream_send(&x.s[1], "a", 1), -EPROTO); /* and stays refused */
	close_ends(&x);

	open_ends(&x, "n1", "stranger", "ca");
	shake(&x, r);
	assert_int_equal(r[0], -EPROTO);
	assert_non_null(strstr(net_stream_why(&x.s[0]), "certificate is refused"));
	close_ends(&x);

	/* A client without a certificate: of its own accord it asks for nothing. */
	open_ends(&x, "n1", "n2", "ca");
	net_tls_session_free(x.s[0].tls);
	struct net_tls *bare;
	assert_int_equal(tls_load(&files, "n1", NULL, &bare, &e), 0);
	x.s[0].tls = net_tls_session_new(bare, x.s[0].fd, false); /* two servers: neither speaks first */
	shake(&x, r);
	assert_int_equal(r[0], 0);
	assert_int_equal(r[1], 0);
	net_tls_free(bare);
	close_ends(&x);

	open_ends(&x, NULL, "n2", "ca");
	assert_int_equal(net_stream_send(&x.s[0], "GET / HTTP/1.1\r\n\r\n", 18), 18);
	assert_int_equal(net_stream_recv(&x.s[1], &c, 1), -EPROTO);
	assert_true(net_stream_fall_back(&x.s[1])); /* an answer in plain can be sent */
	assert_int_equal(net_stream_send(&x.s[1], "no", 2), 2);
	assert_int_equal(net_stream_recv(&x.s[0], &c, 1), 1);
	assert_int_equal(c, 'n');
	close_ends(&x);

	open_ends(&x, NULL, "n2", "ca");
	assert_int_equal(net_stream_send(&x.s[0], "\0\1\2\3\4\5\6\7\10\11\12", 11), 11);
	assert_int_equal(net_stream_recv(&x.s[1], &c, 1), -EPROTO);
	assert_non_null(strstr(net_stream_why(&x.s[1]), "does not speak TLS"));
	assert_false(net_stream_fall_back(&x.s[1]));
	close_ends(&x);
}

/* The openssl command against a server here: whether a client of these flags gets through. */
static bool does_connect(const char *flags)
{
	struct net_tls *tls;
	struct err e;
	char addr[NET_ADDR_MAX + 1], command[512];
	assert_int_equal(tls_load(&files, "n2", NULL, &tls, &e), 0);
	const int listener = listen_anywhere(addr);
	(void)snprintf(
	    command, sizeof(command),
	    "openssl s_client -connect %s -CAfile %s/ca.pem -verify_return_error %s </dev/null >/dev/null 2>&1", addr,
	    files.dir, flags);
	FILE *client = popen(command, "r"); /* NOLINT(cert-env33-c): constants of the test */
	assert_non_null(client);
	struct pollfd p = { .fd = listener, .events = POLLIN };
	assert_int_equal(poll(&p, 1, 10000), 1);
	const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(fd >= 0);
	struct net_stream s;
	assert_int_equal(net_stream_open(tls, fd, false, &s, &e), 0);
	ssize_t n;
	char c;
	while ((n = net_stream_recv(&s, &c, 1)) == 0) {
		p = (struct pollfd){ .fd = fd,
			             .events =
			                 (short)(net_stream_waits(&s, true, false) & NET_WRITE ? POLLOUT : POLLIN) };
		assert_int_equal(poll(&p, 1, 10000), 1);
	}
	net_stream_close(&s);
	close(listener);
	net_tls_free(tls);
	return pclose(client) == 0;
}

/* Older versions and ciphers without forward secrecy or authentication of the data: no agreement. */
static void test_no_downgrade(void **state)
{
	(void)state;
	assert_true(does_connect("-tls1_3"));
	assert_true(does_connect("-tls1_2"));
	assert_false(does_connect("-tls1_1 -cipher DEFAULT@SECLEVEL=0"));
	assert_false(does_connect("-tls1_2 -cipher AES128-SHA:AES256-GCM-SHA384"));
	assert_false(does_connect("-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA"));
}

/* A certificate stands for the id or the host it names, and for no other. */
static void test_names_are_those_of_the_certificate(void **state)
{
	(void)state;
	struct ends x;
	ssize_t r[2];
	open_ends(&x, "n1", "n2", "ca");
	assert_false(net_tls_session_names(x.s[0].tls, "n2", NULL)); /* before the handshake nothing is known */
	shake(&x, r);
	assert_true(net_tls_session_names(x.s[1].tls, "n1", NULL));
	assert_true(net_tls_session_names(x.s[1].tls, "n7", "127.0.0.1"));
	assert_false(net_tls_session_names(x.s[1].tls, "n2", "127.0.0.2"));
	assert_true(net_tls_session_names(x.s[0].tls, "n2", NULL));
	assert_false(net_tls_session_names(x.s[0].tls, "n1", "10.0.0.1"));
	assert_true(net_tls_session_names(x.s[0].tls, NULL, "a.nodes.example"));
	assert_false(net_tls_session_names(x.s[0].tls, NULL, "a.b.nodes.example"));
	assert_false(net_tls_session_names(x.s[0].tls, "a.nodes.example", NULL)); /* no wildcard covers an id */
	assert_true(net_tls_session_is_mutual(x.s[1].tls));
	close_ends(&x);
}

/* Each file that cannot be used is named, with what is wrong. */
static void test_files_that_cannot_be_used(void **state)
{
	(void)state;
	const struct {
		const char *cert, *key, *ca, *says, *why;
	} cases[] = {
		{ "none.pem", "n1.key", NULL, "none.pem", "No such file" },
		{ "n1.pem", "none.key", NULL, "none.key", "No such file" },
		{ "n1.key", "n1.key", NULL, "n1.key", "no start line" },
		{ "n1.pem", "n2.key", NULL, "n2.key", "not the key of" },
		{ "n1.pem", "locked.key", NULL, "locked.key", "" },
		{ "n1.pem", "n1.key", "none.pem", "none.pem", "No such file" },
		{ "n1.pem", "n1.key", "n1.key", "n1.key", "no start line" },
	};
	tls_run("openssl ec -in %s/n1.key -aes128 -passout pass:x -out %s/locked.key 2>/dev/null", files.dir,
	        files.dir);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char paths[3][128];
		struct net_tls *tls = NULL;
		struct err e;
		const char *const names[] = { cases[i].cert, cases[i].key, cases[i].ca ? cases[i].ca : "" };
		for (int k = 0; k < 3; k++)
			(void)snprintf(paths[k], sizeof(paths[k]), "%s/%s", files.dir, names[k]);
		const struct net_tls_files f = { .cert = paths[0],
			                         .key = paths[1],
			                         .ca = cases[i].ca ? paths[2] : NULL };
		assert_int_equal(net_tls_new(&f, &tls, &e), ERR_INVALID);
		if (!strstr(e.msg, cases[i].says) || !strstr(e.msg, cases[i].why))
			fail_msg("case %zu: %s", i, e.msg);
	}
}

/* Loaded anew, new sessions show the new certificate; an open one goes on; a file that broke leaves the old one. */
static void test_reload_keeps_what_is_open(void **state)
{
	(void)state;
	struct ends x;
	struct err e;
	ssize_t r[2];
	char c;
	tls_make_cert(&files, "ca", "r", "DNS:old");
	open_ends(&x, "n1", "r", "ca");
	shake(&x, r);
	assert_true(net_tls_session_names(x.s[0].tls, "old", NULL));
	tls_make_cert(&files, "ca", "r", "DNS:new");
	assert_int_equal(net_tls_reload(x.tls[1], &e), 0);
	assert_true(net_tls_names_self(x.tls[1], "new", NULL));
	assert_int_equal(net_stream_send(&x.s[0], "a", 1), 1);
	assert_int_equal(net_stream_recv(&x.s[1], &c, 1), 1);

	tls_run(": >%s/r.pem", files.dir);
	assert_int_equal(net_tls_reload(x.tls[1], &e), ERR_INVALID);
	assert_true(net_tls_names_self(x.tls[1], "new", NULL));
	assert_false(net_tls_names_self(x.tls[1], "old", NULL));
	close_ends(&x);
}

/* ---- links over it ---- */

struct seen {
	struct net_link *link;
	int frames, closes;
	size_t bytes;
	bool pause;
};

static void on_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct seen *s = arg;
	(void)type;
	(void)slab;
	s->frames++;
	s->bytes += len;
	for (size_t i = 0; i < len; i++)
		assert_int_equal(body[i], (uint8_t)(i * 13));
	if (s->pause)
		net_link_pause(s->link, true);
}

static void on_close(void *arg, const struct err *why)
{
	struct seen *s = arg;
	(void)why;
	s->closes++;
}

/* Frames of all sizes in both directions, more than the socket holds, with a reader that pauses: all arrive. */
static void test_links_work_over_tls(void **state)
{
	(void)state;
	static uint8_t body[3 << 20];
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 13);
	struct ev_loop *loop = ev_loop_new(EVBACKEND_POLL);
	struct ends x;
	open_ends(&x, "n1", "n2", "ca");
	struct seen seen[2] = { 0 };
	const size_t sizes[] = { 0, 1, 500, 16384, 70000, sizeof(body), 3 };
	for (int i = 0; i < 2; i++) {
		const struct net_link_hooks hooks = { .arg = &seen[i], .on_frame = on_frame, .on_close = on_close };
		seen[i].link = net_link_new(loop, x.s[i], NET_FRAME_MAX, &hooks);
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			assert_true(
			    net_link_send(seen[i].link, 1, &(struct net_piece){ .p = body, .len = sizes[k] }, 1));
	}
	seen[1].pause = true;
	assert_true(run_until(loop, NULL, &seen[0].frames, 7, 5000));
	for (int frame = 1; frame <= 7; frame++) {
		assert_true(run_until(loop, NULL, &seen[1].frames, frame, 5000));
		net_link_pause(seen[1].link, false);
	}
	assert_int_equal(seen[0].bytes, seen[1].bytes);
	assert_int_equal(seen[0].closes + seen[1].closes, 0);
	net_link_free(seen[0].link);
	assert_true(run_until(loop, NULL, &seen[1].closes, 1, 5000));
	net_link_free(seen[1].link);
	for (int i = 0; i < 2; i++)
		net_tls_free(x.tls[i]);
	ev_loop_destroy(loop);
}

static int setup(void **state)
{
	(void)state;
	tls_files_init(&files);
	tls_make_cert(&files, "ca", "n1", "DNS:n1,IP:127.0.0.1");
	tls_make_cert(&files, "ca", "n2", "DNS:n2,DNS:*.nodes.example");
	tls_make_ca(&files, "other");
	tls_make_cert(&files, "other", "stranger", "DNS:n1,DNS:n2,IP:127.0.0.1");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	tls_files_fini(&files);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_survive_short_writes),
		cmocka_unit_test(test_has_more_tells_of_hidden_bytes),
		cmocka_unit_test(test_half_closed_streams_still_send),
		cmocka_unit_test(test_strangers_are_refused),
		cmocka_unit_test(test_no_downgrade),
		cmocka_unit_test(test_names_are_those_of_the_certificate),
		cmocka_unit_test(test_files_that_cannot_be_used),
		cmocka_unit_test(test_reload_keeps_what_is_open),
		cmocka_unit_test(test_links_work_over_tls),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
