/* The hello, without sockets: who may talk to whom, and that nothing but the right words gets through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/hello.h"

#define SECRET ((const uint8_t *)"correct horse battery staple")
#define OTHER ((const uint8_t *)"correct horse battery stable")
#define SECRET_LEN 28

static struct net_identity who(const char *name, uint64_t cluster, const uint8_t *secret)
{
	struct net_identity id = { .secrets = { .current = secret, .current_len = secret ? SECRET_LEN : 0 } };
	id.self.cluster_id = cluster;
	id.self.incarnation = 0x1111 + (uint64_t)name[1];
	(void)snprintf(id.self.name, sizeof(id.self.name), "%s", name);
	(void)snprintf(id.self.addr, sizeof(id.self.addr), "127.0.0.1:7943");
	return id;
}

/* What happens to a frame on its way: NULL = nothing. */
typedef void (*meddle)(void *arg, int step, struct net_hello_out *frame);

struct outcome {
	struct net_exchange dialler, acceptor;
	int dialler_rc, acceptor_rc;
	struct err dialler_err, acceptor_err;
	int steps;
};

/* Carries frames to and fro until both are done or one refuses. */
static void talk(const struct net_identity *a, const struct net_identity *b, enum net_purpose purpose, meddle fn,
                 void *arg, struct outcome *o)
{
	memset(o, 0, sizeof(*o));
	struct net_hello_out frame, none;
	net_exchange_start(&o->dialler, true, purpose, a, &frame);
	net_exchange_start(&o->acceptor, false, NET_PURPOSE_PEER, b, &none);
	assert_int_equal(none.type, 0);
	bool to_acceptor = true;
	while (frame.type) {
		if (fn)
			fn(arg, o->steps, &frame);
		o->steps++;
		struct net_hello_out answer = { 0 };
		struct net_exchange *x = to_acceptor ? &o->acceptor : &o->dialler;
		if (x->expected == 0)
			break;
		if (to_acceptor)
			o->acceptor_rc =
			    net_exchange_step(x, frame.type, frame.body, frame.len, &answer, &o->acceptor_err);
		else
			o->dialler_rc =
			    net_exchange_step(x, frame.type, frame.body, frame.len, &answer, &o->dialler_err);
		frame = answer;
		to_acceptor = !to_acceptor;
	}
}

static bool both_done(const struct outcome *o)
{
	return net_exchange_is_done(&o->dialler) && net_exchange_is_done(&o->acceptor);
}

/* With one secret or none on both sides the hello succeeds, and each knows all of the other. */
static void test_hello_introduces_both(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		const uint8_t *secret = i & 1 ? SECRET : NULL;
		const enum net_purpose purpose = i & 2 ? NET_PURPOSE_FORWARD : NET_PURPOSE_PEER;
		struct net_identity a = who("n1", 7, secret), b = who("n2", 7, secret);
		a.self.empty = true;
		b.self.learner = true;
		b.self.entry_types = 0x01020304;
		struct outcome o;
		talk(&a, &b, purpose, NULL, NULL, &o);
		assert_true(both_done(&o));
		assert_int_equal(o.acceptor.purpose, purpose);
		assert_string_equal(o.acceptor.peer.name, "n1");
		assert_true(o.acceptor.peer.empty);
		assert_string_equal(o.dialler.peer.name, "n2");
		assert_string_equal(o.dialler.peer.addr, "127.0.0.1:7943");
		assert_false(o.dialler.peer.empty);
		assert_true(o.dialler.peer.learner);
		assert_false(o.acceptor.peer.learner);
		assert_int_equal(o.dialler.peer.entry_types, 0x01020304);
		assert_int_equal(o.dialler.peer.incarnation, b.self.incarnation);
		assert_int_equal(o.dialler.peer.cluster_id, 7);
	}
}

/* Another secret, a missing one, another cluster, the own id: both sides hear why, and neither goes on (F28). */
static void test_hello_refuses_who_does_not_fit(void **state)
{
	(void)state;
	const struct {
		struct net_identity a, b;
		const char *dialler_says, *acceptor_says;
	} cases[] = {
		{ who("n1", 7, SECRET), who("n2", 7, OTHER), "secret is another", "secret is another" },
		{ who("n1", 7, SECRET), who("n2", 7, NULL), "no cluster secret",
		  "a cluster secret and this node has none" },
		{ who("n1", 7, NULL), who("n2", 7, SECRET), "a cluster secret and this node has none",
		  "no cluster secret" },
		{ who("n1", 7, NULL), who("n2", 8, NULL), "0000000000000008", "0000000000000007" },
		{ who("n1", 7, SECRET), who("n1", 7, SECRET), "own id", "own id" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct outcome o;
		talk(&cases[i].a, &cases[i].b, NET_PURPOSE_PEER, NULL, NULL, &o);
		assert_false(net_exchange_is_done(&o.dialler));
		assert_false(net_exchange_is_done(&o.acceptor));
		assert_int_equal(o.acceptor_rc, ERR_IDENTITY);
		assert_int_equal(o.dialler_rc, ERR_IDENTITY);
		assert_non_null(strstr(o.acceptor_err.msg, cases[i].acceptor_says));
		assert_non_null(strstr(o.dialler_err.msg, cases[i].dialler_says));
	}
	/* A node without a cluster talks to one that has one: that is how it joins. */
	const struct net_identity fresh = who("n1", 0, SECRET), member = who("n2", 8, SECRET);
	struct outcome o;
	talk(&fresh, &member, NET_PURPOSE_PEER, NULL, NULL, &o);
	assert_true(both_done(&o));
}

static void raise_version(void *arg, int step, struct net_hello_out *frame)
{
	if (step == *(int *)arg)
		frame->body[4]++;
}

static void change_purpose(void *arg, int step, struct net_hello_out *frame)
{
	if (step == *(int *)arg)
		frame->body[6] = 77;
}

/* A version or purpose that is not known is refused by whichever side hears it, before the rest is read. */
static void test_hello_refuses_other_versions(void **state)
{
	(void)state;
	const struct net_identity a = who("n1", 7, NULL), b = who("n2", 7, NULL);
	for (int step = 0; step < 2; step++) {
		struct outcome o;
		talk(&a, &b, NET_PURPOSE_PEER, raise_version, &step, &o);
		assert_int_equal(step == 0 ? o.acceptor_rc : o.dialler_rc, ERR_VERSION);
		assert_int_equal(step == 0 ? o.acceptor.refusal : o.dialler.refusal, NET_REFUSED_VERSION);
		assert_non_null(strstr(o.dialler_err.msg, "version"));
		talk(&a, &b, NET_PURPOSE_PEER, change_purpose, &step, &o);
		assert_int_equal(step == 0 ? o.acceptor.refusal : o.dialler.refusal, NET_REFUSED_PURPOSE);
		assert_false(net_exchange_is_done(&o.dialler));
	}
}

struct flip {
	int step;
	size_t at;
	uint8_t bit;
	bool hit;
};

static void flip_bit(void *arg, int step, struct net_hello_out *frame)
{
	struct flip *f = arg;
	if (step != f->step || f->at >= frame->len)
		return;
	frame->body[f->at] ^= f->bit;
	f->hit = true;
}

/* With a secret, one changed bit anywhere in any frame keeps the two from both being done. */
static void test_hello_notices_any_changed_bit(void **state)
{
	(void)state;
	const struct net_identity a = who("n1", 7, SECRET), b = who("n2", 7, SECRET);
	for (int step = 0; step < 4; step++) {
		for (size_t at = 0;; at++) {
			struct flip f = { .step = step, .at = at };
			for (unsigned bit = 0; bit < 8; bit++) {
				f.bit = (uint8_t)(1u << bit);
				f.hit = false;
				struct outcome o;
				talk(&a, &b, NET_PURPOSE_PEER, flip_bit, &f, &o);
				assert_int_equal(both_done(&o), !f.hit);
			}
			if (!f.hit)
				break;
		}
	}
}

static void cut_short(void *arg, int step, struct net_hello_out *frame)
{
	const struct flip *f = arg;
	if (step == f->step && frame->len > f->at)
		frame->len = f->at;
}

static void make_longer(void *arg, int step, struct net_hello_out *frame)
{
	const struct flip *f = arg;
	if (step == f->step)
		frame->body[frame->len++] = (uint8_t)f->at;
}

/* A frame of any other length is refused, without a secret too. */
static void test_hello_refuses_other_lengths(void **state)
{
	(void)state;
	for (int with_secret = 0; with_secret < 2; with_secret++) {
		const uint8_t *secret = with_secret ? SECRET : NULL;
		const struct net_identity a = who("n1", 7, secret), b = who("n2", 7, secret);
		struct outcome whole;
		talk(&a, &b, NET_PURPOSE_PEER, NULL, NULL, &whole);
		const size_t lengths[] = { whole.dialler.hello_len[0], whole.dialler.hello_len[1],
			                   with_secret ? NET_HELLO_PROOF : 0, with_secret ? NET_HELLO_PROOF : 0 };
		for (int step = 0; step < 4; step++) {
			for (size_t at = 0; at < lengths[step]; at++) {
				struct flip f = { .step = step, .at = at };
				struct outcome o;
				talk(&a, &b, NET_PURPOSE_PEER, cut_short, &f, &o);
				assert_false(both_done(&o));
			}
			struct flip f = { .step = step, .at = 0 };
			struct outcome o;
			talk(&a, &b, NET_PURPOSE_PEER, make_longer, &f, &o);
			assert_false(both_done(&o));
		}
	}
}

/* A recorded hello is worth nothing in another session, and an acceptor's own proof nothing as a dialler's. */
static void test_hello_cannot_be_replayed_or_reflected(void **state)
{
	(void)state;
	const struct net_identity a = who("n1", 7, SECRET), b = who("n2", 7, SECRET);
	struct net_exchange dialler, acceptor, victim;
	struct net_hello_out hello, reply, proof, welcome, out;
	struct err e;
	net_exchange_start(&dialler, true, NET_PURPOSE_PEER, &a, &hello);
	net_exchange_start(&acceptor, false, NET_PURPOSE_PEER, &b, &out);
	assert_int_equal(net_exchange_step(&acceptor, hello.type, hello.body, hello.len, &reply, &e), 0);
	assert_int_equal(net_exchange_step(&dialler, reply.type, reply.body, reply.len, &proof, &e), 0);
	assert_int_equal(net_exchange_step(&acceptor, proof.type, proof.body, proof.len, &welcome, &e), 0);
	assert_true(net_exchange_is_done(&acceptor));

	net_exchange_start(&victim, false, NET_PURPOSE_PEER, &b, &out);
	assert_int_equal(net_exchange_step(&victim, hello.type, hello.body, hello.len, &out, &e), 0);
	assert_int_equal(net_exchange_step(&victim, proof.type, proof.body, proof.len, &out, &e), ERR_IDENTITY);
	assert_int_equal(victim.refusal, NET_REFUSED_PROOF);

	/* The same hellos, but the proof of the other side. */
	net_exchange_start(&victim, false, NET_PURPOSE_PEER, &b, &out);
	assert_int_equal(net_exchange_step(&victim, hello.type, hello.body, hello.len, &reply, &e), 0);
	assert_int_equal(net_exchange_step(&victim, NET_FRAME_HELLO_PROOF, welcome.body, welcome.len, &out, &e),
	                 ERR_IDENTITY);

	/* A dialler connected to itself. */
	net_exchange_start(&dialler, true, NET_PURPOSE_PEER, &a, &hello);
	assert_int_equal(net_exchange_step(&dialler, hello.type, hello.body, hello.len, &out, &e), ERR_IDENTITY);
	assert_int_equal(dialler.refusal, NET_REFUSED_SELF);
}

/* Names and addresses go into lines of the log: nothing but printable ASCII is taken for one. */
static void test_hello_refuses_odd_names(void **state)
{
	(void)state;
	static const char *const names[] = { "", "a b", "a\n", "\x7f", "caf\xc3\xa9", "\x1b[2J" };
	const struct net_identity b = who("n2", 7, NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct net_identity a = who("n1", 7, NULL);
		struct net_exchange acceptor;
		struct net_hello_out hello, out;
		struct err e;
		const struct net_identity good = a;
		struct net_exchange dialler;
		net_exchange_start(&dialler, true, NET_PURPOSE_PEER, &good, &hello);
		/* name "n1" -> names[i], lengths adjusted by hand */
		uint8_t body[NET_HELLO_FRAME_MAX];
		const size_t len = strlen(names[i]), tail = hello.len - 60 - 3;
		memcpy(body, hello.body, 60);
		body[60] = (uint8_t)len;
		memcpy(body + 61, names[i], len);
		memcpy(body + 61 + len, hello.body + 63, tail);
		net_exchange_start(&acceptor, false, NET_PURPOSE_PEER, &b, &out);
		assert_int_equal(net_exchange_step(&acceptor, hello.type, body, 61 + len + tail, &out, &e),
		                 ERR_CORRUPT);
		assert_int_equal(out.type, NET_FRAME_HELLO_REFUSED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_introduces_both),
		cmocka_unit_test(test_hello_refuses_who_does_not_fit),
		cmocka_unit_test(test_hello_refuses_other_versions),
		cmocka_unit_test(test_hello_notices_any_changed_bit),
		cmocka_unit_test(test_hello_refuses_other_lengths),
		cmocka_unit_test(test_hello_cannot_be_replayed_or_reflected),
		cmocka_unit_test(test_hello_refuses_odd_names),
	};
	return cmocka_run_group_tests_name("net_hello", tests, NULL, NULL);
}
