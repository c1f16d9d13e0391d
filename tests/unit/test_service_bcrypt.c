/* Password hashes: those of other programs, those made here, the queue of computations, and the throttle. */
#include "service_world.h"

#include "service/bcrypt.h"
#include "service/rights.h"
#include "service/throttle.h"

/* Hashes of Go's package, of htpasswd, of crypt_blowfish's own tests: each fits its password and no other. */
static void test_hashes_of_others_are_understood(void **state)
{
	static const struct {
		const char *password, *hash;
	} cases[] = {
		{ "allmine", "$2a$10$XajjQvNhvvRt5GSeFk1xFeyqRrsxkhBkUiQeg0dt.wU1qD4aFDcga" },
		{ "U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW" },
		{ "\xff\xff\xa3", "$2y$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e" },
		{ "\xff\xff\xa3", "$2b$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e" },
		/* Go's $2a$ of a password for which libxcrypt's $2a$ takes a countermeasure */
		{ "\xff\xa3"
		  "34"
		  "\xff\xff\xff\xa3"
		  "345",
		  "$2a$05$/OK.fbVrR/bpIqNJ5ianF.o./n25XVfn6oAPaUvHe.Csk4zRfsYPi" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		if (!bcrypt_matches(str_of(cases[i].password), str_of(cases[i].hash)))
			fail_msg("not understood: %s", cases[i].hash);
		assert_false(bcrypt_matches(S("allmine "), str_of(cases[i].hash)));
	}
}

/* What is made here is as Narad's and htpasswd's: $2y$, cost 10, 60 characters, another salt each time. */
static void test_made_hashes_fit_their_password(void **state)
{
	char one[BCRYPT_LEN + 1], other[BCRYPT_LEN + 1], long_one[PASSWORD_MAX + 1];

	(void)state;
	assert_true(bcrypt_make(S("geheim"), one));
	assert_true(bcrypt_make(S("geheim"), other));
	assert_int_equal(strlen(one), BCRYPT_LEN);
	assert_memory_equal(one, "$2y$10$", 7);
	assert_string_not_equal(one, other);
	assert_true(bcrypt_matches(S("geheim"), str_of(one)));
	assert_false(bcrypt_matches(S("geheiM"), str_of(one)));
	/* bcrypt reads 72 bytes: what is longer would be cut without a word, so it is none */
	memset(long_one, 'x', sizeof(long_one));
	assert_true(bcrypt_make((struct str){ long_one, PASSWORD_MAX }, one));
	assert_true(bcrypt_matches((struct str){ long_one, PASSWORD_MAX }, str_of(one)));
	assert_false(bcrypt_matches((struct str){ long_one, PASSWORD_MAX + 1 }, str_of(one)));
	assert_false(bcrypt_make((struct str){ long_one, PASSWORD_MAX + 1 }, one));
	assert_false(bcrypt_make(S(""), one));
	assert_false(bcrypt_make((struct str){ "a\0b", 3 }, one));
}

/* A stored hash that is none, or that would hold the pool for long, fits nothing and is not computed. */
static void test_bad_hashes_fit_nothing(void **state)
{
	static const char *const bad[] = {
		"",
		"pw",
		"$2a$04$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk",
		"$2a$04$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk..",
		"$2x$04$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk.",
		"$2a$0:$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk.",
		"$2a$00$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk.",
		"$2a$15$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk.",
		"$2a$31$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk.",
	};
	const uint64_t began_ms = clock_mono_ms();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(bcrypt_matches(S("pw"), str_of(bad[i])));
	assert_true(clock_mono_ms() - began_ms < 1000);
}

/* ---- the queue ---- */

static size_t done_count;
static struct bcrypt_job *done_order[BCRYPT_QUEUE_MAX + 1];

static void on_job(struct bcrypt_job *j)
{
	done_order[done_count++] = j;
}

/* One at a time is with the pool, in order of coming; more than the queue holds are refused. */
static void test_queue_is_bounded_and_in_order(void **state)
{
	static struct bcrypt_job jobs[BCRYPT_QUEUE_MAX + 2];
	struct pool *pool = pool_new();
	struct bcrypt_queue q;

	(void)state;
	done_count = 0;
	bcrypt_queue_init(&q, pool);
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
		assert_true(bcrypt_job_init(&jobs[i], i % 2 ? S("pw") : S("other"), S(HASH_PW)));
		jobs[i].done = on_job;
		assert_int_equal(bcrypt_submit(&q, &jobs[i]), i <= BCRYPT_QUEUE_MAX);
	}
	assert_int_equal(bcrypt_waiting(&q), BCRYPT_QUEUE_MAX + 1);
	while (pool_turn(pool))
		;
	assert_int_equal(done_count, BCRYPT_QUEUE_MAX + 1);
	for (size_t i = 0; i < done_count; i++) {
		assert_ptr_equal(done_order[i], &jobs[i]);
		assert_int_equal(jobs[i].ok, i % 2);
		bcrypt_job_wipe(&jobs[i]);
	}
	assert_int_equal(bcrypt_waiting(&q), 0);
	bcrypt_queue_fini(&q);
	pool_free(pool);
}

/* ---- the throttle ---- */

static uint32_t try(struct throttle *t, const char *peer, const char *name, uint64_t now_ms, bool fails)
{
	struct throttle_claim c;

	throttle_claim_init(&c, peer, str_of(name));
	const uint32_t wait = throttle_take(t, &c, now_ms);

	if (wait > 0)
		return wait;
	if (fails)
		throttle_failed(t, &c, now_ms);
	else
		throttle_give_back(t, &c, now_ms);
	return 0;
}

/* Five wrong passwords of one address for one name, then one each twelve seconds; what was right costs nothing. */
static void test_sixth_wrong_password_waits(void **state)
{
	struct throttle *t = mem_zalloc(sizeof(*t));
	uint64_t now = 1000000;

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(try(t, "10.0.0.1:1", "ann", now, false), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(try(t, "10.0.0.1:1", "ann", now, true), 0);
	assert_int_equal(try(t, "10.0.0.1:2", "ann", now, true), 12); /* another port is no other address */
	assert_int_equal(try(t, "10.0.0.1:1", "ann", now + 11001, true), 1);
	assert_int_equal(try(t, "10.0.0.1:1", "ann", now + 12000, true), 0);
	assert_int_equal(try(t, "10.0.0.1:1", "ann", now + 12000, true), 12);
	/* nobody else is locked out: neither the name elsewhere nor others here */
	assert_int_equal(try(t, "10.0.0.2:1", "ann", now + 12000, true), 0);
	assert_int_equal(try(t, "10.0.0.1:1", "bob", now + 12000, true), 0);
	assert_int_equal(try(t, "[::1]:1", "ann", now + 12000, true), 0);
	assert_int_equal(try(t, "10.0.0.1:1", "ann", now + 200000, true), 0);
	mem_free(t);
}

/* One address tries many names: bounded, as are many addresses that try one name. */
static void test_many_attempts_are_bounded(void **state)
{
	struct throttle *t = mem_zalloc(sizeof(*t));
	const uint64_t now = 1000000;
	size_t names = 0, addresses = 0;
	char text[64];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "user%d", i);
		names += try(t, "10.0.0.1:1", text, now, true) == 0;
	}
	assert_int_equal(names, THROTTLE_ADDRESS_BURST);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "10.1.%d.%d:1", i / 250, i % 250);
		addresses += try(t, text, "ann", now, true) == 0;
	}
	/* the first one made the failure recent */
	assert_int_equal(addresses, THROTTLE_NODE_BURST + 1);
	/* a name without failures is not held back by that */
	assert_int_equal(try(t, "10.9.9.9:1", "bob", now, false), 0);
	mem_free(t);
}

/* ---- grants ---- */

/* A final star is any rest, the empty one too; everything else is the very name. */
static void test_patterns(void **state)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} cases[] = {
		{ "orders", "orders", true },
		{ "orders", "orders.eu", false },
		{ "orders", "Orders", false },
		{ "orders*", "orders", true },
		{ "orders*", "orders.eu", true },
		{ "orders*", "order", false },
		{ "*", "x", true },
		{ "*", "", true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(grant_pattern_matches(str_of(cases[i].pattern), str_of(cases[i].name)),
		                 cases[i].matches);
}

/* What each grant opens, and what it leaves shut. */
static void test_rights_of_grants(void **state)
{
	static const struct {
		const char *record;
		bool admin, reads_all, create_a, member_m, reads_a, manages;
	} cases[] = {
		{ "{\"username\":\"u\"}", false, false, false, false, false, false },
		{ "{\"username\":\"u\",\"root\":true}", true, true, true, true, true, true },
		{ "{\"username\":\"u\",\"grants\":[{\"action\":\"admin\"}]}", true, true, true, true, true, true },
		{ "{\"username\":\"u\",\"grants\":[{\"action\":\"observe\"}]}", false, true, false, false, true,
		  false },
		{ "{\"username\":\"u\",\"grants\":[{\"action\":\"member\",\"patterns\":[\"m*\"]}]}", false, true, false,
		  true, true, false },
		{ "{\"username\":\"u\",\"grants\":[{\"action\":\"create\",\"patterns\":[\"x\",\"a*\"]}]}", false, false,
		  true, false, true, false },
		{ "{\"username\":\"u\",\"grants\":[{\"action\":\"consume\",\"patterns\":[\"a\"]}]}", false, false,
		  false, false, true, false },
		{ "{\"username\":\"u\",\"grants\":[{\"action\":\"create\",\"patterns\":[\"b*\"]}]}", false, false,
		  false, false, false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct rights r;
		struct err e = { 0 };

		if (rights_read(&r, str_of(cases[i].record), &e) != 0)
			fail_msg("%s", e.msg);
		assert_int_equal(r.is_admin, cases[i].admin);
		assert_int_equal(r.reads_all, cases[i].reads_all);
		assert_int_equal(rights_may(&r, "create", S("a")), cases[i].create_a);
		assert_int_equal(rights_may(&r, "member", S("m1")), cases[i].member_m);
		assert_int_equal(rights_may_any(&r, S("a")), cases[i].reads_a);
		assert_int_equal(rights_may_manage(&r, S("other")), cases[i].manages);
		assert_true(rights_may_manage(&r, S("u")));
		assert_int_equal(rights_may_manage(&r, S("")), cases[i].admin); /* nobody's is the admins' */
		rights_fini(&r);
	}
	struct rights r;

	assert_int_equal(rights_read(&r, S("{\"username\":"), NULL), ERR_CORRUPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hashes_of_others_are_understood),
		cmocka_unit_test(test_made_hashes_fit_their_password),
		cmocka_unit_test(test_bad_hashes_fit_nothing),
		cmocka_unit_test(test_queue_is_bounded_and_in_order),
		cmocka_unit_test(test_sixth_wrong_password_waits),
		cmocka_unit_test(test_many_attempts_are_bounded),
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_rights_of_grants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
