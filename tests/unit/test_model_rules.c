/* Names, bounds and addresses at their edges, and whole bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/rules.h"

static char many[600]; /* 'x' throughout */

static struct str xs(size_t n)
{
	return (struct str){ many, n };
}

/* Every single byte, and each length around the limit, for the names that share one alphabet. */
static void test_names_at_their_edges(void **state)
{
	(void)state;
	static const struct {
		bool (*rule)(struct str);
		size_t max;
	} names[] = {
		{ rule_topic_name, 200 },
		{ rule_stored_topic_name, 255 },
		{ rule_member_id, 63 },
		{ rule_user_name, 64 },
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		for (int c = 0; c < 256; c++) {
			const char byte[] = { 'a', (char)c };
			const bool want =
			    c && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", c);
			assert_true(names[i].rule((struct str){ byte, 2 }) == want);
		}
		assert_false(names[i].rule((struct str){ 0 }));
		assert_false(names[i].rule(STR_LIT(".")));
		assert_false(names[i].rule(STR_LIT("..")));
		assert_true(names[i].rule(STR_LIT("...")));
		assert_true(names[i].rule(xs(1)));
		assert_true(names[i].rule(xs(names[i].max)));
		assert_false(names[i].rule(xs(names[i].max + 1)));
	}
}

/* The bounds of numbers, from both sides. */
static void test_numbers_at_their_edges(void **state)
{
	(void)state;
	assert_true(rule_partitions(3, false) && rule_partitions(108, false));
	assert_false(rule_partitions(2, false) || rule_partitions(109, false) || rule_partitions(-3, false));
	assert_true(rule_partitions(1, true) && rule_partitions(108, true));
	assert_false(rule_partitions(0, true) || rule_partitions(109, true));
	assert_true(rule_retention_ms(0) && rule_retention_ms(3600000) && rule_retention_ms(INT64_MAX));
	assert_false(rule_retention_ms(3599999) || rule_retention_ms(1) || rule_retention_ms(-1));
	assert_true(rule_password(xs(1)) && rule_password(xs(72)));
	assert_false(rule_password(xs(0)) || rule_password(xs(73)));
}

/* Labels, grants, remotes, keys and the other small texts. */
static void test_small_texts(void **state)
{
	(void)state;
	assert_true(rule_label_key(STR_LIT("a.b_c/d-E9")) && rule_label_key(xs(63)));
	assert_false(rule_label_key(STR_LIT("")) || rule_label_key(xs(64)) || rule_label_key(STR_LIT("a b")));
	assert_true(rule_label_value((struct str){ 0 }) && rule_label_value(xs(256)) &&
	            rule_label_value(STR_LIT("é <&>")));
	assert_false(rule_label_value(xs(257)) || rule_label_value(STR_LIT("\xff")) ||
	             rule_label_value(STR_LIT("a\0b")));
	assert_true(rule_grant_action(STR_LIT("observe")) && rule_grant_action(STR_LIT("produce")));
	assert_false(rule_grant_action(STR_LIT("Produce")) || rule_grant_action(STR_LIT("")));
	assert_true(rule_grant_pattern(STR_LIT("*")) && rule_grant_pattern(STR_LIT("a.b-*")) &&
	            rule_grant_pattern(xs(255)));
	assert_false(rule_grant_pattern(STR_LIT("")) || rule_grant_pattern(STR_LIT("a*b")) ||
	             rule_grant_pattern(STR_LIT("**")) || rule_grant_pattern(xs(256)));
	assert_true(rule_remote_name(STR_LIT("a")) && rule_remote_name(STR_LIT("eu-1")) && rule_remote_name(xs(63)));
	assert_false(rule_remote_name(STR_LIT("")) || rule_remote_name(STR_LIT("1a")) ||
	             rule_remote_name(STR_LIT("A")) || rule_remote_name(STR_LIT("a_b")) || rule_remote_name(xs(64)) ||
	             rule_remote_name(STR_LIT("_keys")));
	assert_true(rule_remote_from(STR_LIT("")) && rule_remote_from(STR_LIT("earliest")));
	assert_false(rule_remote_from(STR_LIT("latest")));
	assert_true(rule_pause_reason((struct str){ 0 }) && rule_pause_reason(STR_LIT("disk full, café")));
	assert_false(rule_pause_reason(STR_LIT("a\nb")) || rule_pause_reason(STR_LIT("\x7f")) ||
	             rule_pause_reason(STR_LIT("\xc2\x85")) || rule_pause_reason(STR_LIT("\xe2\x80\xa8")) ||
	             rule_pause_reason(STR_LIT("\xff")) || rule_pause_reason(xs(257)));
	assert_true(rule_idem_key(STR_LIT("a b~")) && rule_idem_key(xs(64)));
	assert_false(rule_idem_key(STR_LIT("")) || rule_idem_key(xs(65)) || rule_idem_key(STR_LIT("\x7f")) ||
	             rule_idem_key(STR_LIT("é")) || rule_idem_key(STR_LIT("a\tb")));
	assert_true(rule_incarnation(STR_LIT("0123456789abcdef")));
	assert_false(rule_incarnation(STR_LIT("0123456789ABCDEF")) || rule_incarnation(STR_LIT("0123")));
}

/* Addresses: what is one, what it means, what is none. */
static void test_host_port(void **state)
{
	(void)state;
	static const struct {
		const char *text, *host;
		uint16_t port;
		bool v6, loopback;
	} good[] = {
		{ "localhost:7942", "localhost", 7942, false, true },
		{ "127.0.0.1:1", "127.0.0.1", 1, false, true },
		{ "127.9.8.7:65535", "127.9.8.7", 65535, false, true },
		{ "10.0.0.1:7942", "10.0.0.1", 7942, false, false },
		{ "n1.cluster_a.example:7943", "n1.cluster_a.example", 7943, false, false },
		{ "0.0.0.0:80", "0.0.0.0", 80, false, false },
		{ "[::1]:7942", "::1", 7942, true, true },
		{ "[::]:7942", "::", 7942, true, false },
		{ "[2001:db8::17]:443", "2001:db8::17", 443, true, false },
		{ "[::ffff:127.0.0.1]:443", "::ffff:127.0.0.1", 443, true, true },
		{ "[::ffff:10.0.0.1]:443", "::ffff:10.0.0.1", 443, true, false },
	};
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct host_port hp;
		if (!host_port_parse(str_of(good[i].text), &hp))
			fail_msg("%s was refused", good[i].text);
		assert_true(str_is(hp.host, good[i].host));
		assert_true(hp.port == good[i].port && hp.is_v6 == good[i].v6);
		assert_true(host_port_is_loopback(&hp) == good[i].loopback);
	}
	static const char *const bad[] = {
		"",
		"localhost",
		":7942",
		"localhost:",
		"localhost:0",
		"localhost:65536",
		"localhost:080",
		"localhost:x",
		"::1:7942",
		"[::1]",
		"[]:1",
		"[::g]:1",
		"[::1:1",
		"::1]:1",
		"[1.2.3.4]:1",
		"1.2.3:1",
		"256.0.0.1:1",
		"a b:1",
		"a..b:1",
		".a:1",
		"a.:1",
		"a/b:1",
		"http://a:1",
		"[fe80::1%eth0]:1",
		"é:1",
		"localhost:-1",
		"localhost:+1",
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		if (rule_host_port(str_of(bad[i])))
			fail_msg("%s was accepted", bad[i]);
	}
	char longest[300];
	struct host_port hp;
	memset(longest, 'x', sizeof(longest));
	memcpy(longest + 253, ":65535", 6);
	assert_true(host_port_parse((struct str){ longest, 259 }, &hp));
	assert_true(259 <= HOST_PORT_MAX);
	memcpy(longest + 254, ":65535", 6);
	assert_false(host_port_parse((struct str){ longest, 260 }, &hp));
}

/* ---- bodies ---- */

/* Reads `text` as the type says and judges it; the field refused, "" for none, or NULL when it passes. */
typedef int (*check_fn)(const void *body, struct record_fault *f, struct err *e);

static int check_create(const void *b, struct record_fault *f, struct err *e)
{
	return rules_check_topic_create(b, f, e);
}
static int check_alter(const void *b, struct record_fault *f, struct err *e)
{
	return rules_check_topic_alter(b, f, e);
}
static int check_attach(const void *b, struct record_fault *f, struct err *e)
{
	return rules_check_child_attach(b, f, e);
}
static int check_user(const void *b, struct record_fault *f, struct err *e)
{
	return rules_check_user_create(b, f, e);
}
static int check_register(const void *b, struct record_fault *f, struct err *e)
{
	return rules_check_member_register(b, f, e);
}

static void assert_verdict(const struct record_type *t, check_fn check, const char *text, const char *field)
{
	struct arena a = { 0 };
	struct record_fault f = { 0 };
	struct err e = { 0 };
	void *body = arena_alloc(&a, t->size);
	if (record_read_json(t, str_of(text), &a, body, &f, &e))
		fail_msg("%s: %s", text, e.msg);
	const int rc = check(body, &f, &e);
	assert_int_equal(rc, field ? ERR_INVALID : 0);
	if (field) {
		assert_string_equal(f.code, "bad_field");
		if (strcmp(f.field, field) != 0)
			fail_msg("%s: '%s' instead of '%s' (%s)", text, f.field, field, e.msg);
		assert_true(strncmp(e.msg, field, strlen(field)) == 0 && strlen(e.msg) > strlen(field) + 5);
		assert_int_equal(check(body, NULL, NULL), ERR_INVALID);
	}
	arena_fini(&a);
}

/* A create is refused at its first bad field; zeros that mean "default" pass. */
static void test_topic_create(void **state)
{
	(void)state;
	static const struct {
		const char *text, *field;
	} cases[] = {
		{ "{\"name\":\"t\"}", NULL },
		{ "{\"name\":\"t\",\"partitions\":0,\"visibility_timeout_ms\":0,\"max_in_flight_per_partition\":0}",
		  NULL },
		{ "{\"name\":\"t\",\"partitions\":108,\"retention_ms\":3600000,\"schema\":true}", NULL },
		{ "{\"name\":\"t\",\"schema\":{}}", NULL },
		{ "{\"name\":\"t\",\"parent\":\"p\",\"fanout_delay_ms\":31536000000}", NULL },
		{ "{\"name\":\"t\",\"fanout_delay_ms\":0}", NULL },
		{ "{\"name\":\"\"}", "name" },
		{ "{\"name\":\"a/b\"}", "name" },
		{ "{\"name\":\"t\",\"partitions\":2}", "partitions" },
		{ "{\"name\":\"t\",\"partitions\":109}", "partitions" },
		{ "{\"name\":\"t\",\"partitions\":-3}", "partitions" },
		{ "{\"name\":\"t\",\"retention_ms\":1}", "retention_ms" },
		{ "{\"name\":\"t\",\"visibility_timeout_ms\":-1}", "visibility_timeout_ms" },
		{ "{\"name\":\"t\",\"max_in_flight_per_partition\":-1}", "max_in_flight_per_partition" },
		{ "{\"name\":\"t\",\"max_acked_ahead_per_partition\":-1}", "max_acked_ahead_per_partition" },
		{ "{\"name\":\"t\",\"schema\":null}", "schema" },
		{ "{\"name\":\"t\",\"schema\":false}", "schema" },
		{ "{\"name\":\"t\",\"schema\":[]}", "schema" },
		{ "{\"name\":\"t\",\"fanout_delay_ms\":5}", "fanout_delay_ms" },
		{ "{\"name\":\"t\",\"parent\":\"p\",\"fanout_delay_ms\":31536000001}", "fanout_delay_ms" },
		{ "{\"name\":\"t\",\"parent\":\"p\",\"fanout_delay_ms\":-1}", "fanout_delay_ms" },
		{ "{\"name\":\"t\",\"parent\":\"t\"}", "parent" },
		{ "{\"name\":\"t\",\"parent\":\"a b\"}", "parent" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_verdict(&topic_create_type, check_create, cases[i].text, cases[i].field);
}

/* An alter must change something. */
static void test_topic_alter(void **state)
{
	(void)state;
	static const struct {
		const char *text, *field;
	} cases[] = {
		{ "{\"retention_ms\":0}", NULL },
		{ "{\"partitions\":4}", NULL },
		{ "{\"max_in_flight_per_partition\":0}", NULL },
		{ "{\"schema\":{},\"schema_base_version\":3}", NULL },
		{ "{}", "" },
		{ "{\"partitions\":0}", "" },
		{ "{\"retention_ms\":null}", "" },
		{ "{\"partitions\":-1}", "partitions" },
		{ "{\"partitions\":109}", "partitions" },
		{ "{\"retention_ms\":3599999}", "retention_ms" },
		{ "{\"max_acked_ahead_per_partition\":-1}", "max_acked_ahead_per_partition" },
		{ "{\"schema\":7}", "schema" },
		{ "{\"retention_ms\":0,\"schema_base_version\":3}", "schema_base_version" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_verdict(&topic_alter_type, check_alter, cases[i].text, cases[i].field);
}

/* Attach, users and registrations. */
static void test_other_bodies(void **state)
{
	(void)state;
	static const struct {
		const struct record_type *type;
		check_fn check;
		const char *text, *field;
	} cases[] = {
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"delay_ms\":5}", NULL },
		{ &child_attach_type, check_attach,
		  "{\"child\":\"c\",\"remote\":\"eu\",\"remote_topic\":\"t\",\"from\":\"earliest\",\"lanes\":8,\"dry_"
		  "run\":true}",
		  NULL },
		{ &child_attach_type, check_attach, "{\"child\":\"..\"}", "child" },
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"delay_ms\":-1}", "delay_ms" },
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"lanes\":2}", "remote" },
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"remote\":\"EU\"}", "remote" },
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"remote\":\"eu\",\"lanes\":9}", "lanes" },
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"remote\":\"eu\",\"from\":\"now\"}", "from" },
		{ &child_attach_type, check_attach, "{\"child\":\"c\",\"remote\":\"eu\",\"remote_topic\":\"/\"}",
		  "remote_topic" },
		{ &user_create_type, check_user, "{\"username\":\"ann\",\"password\":\"x\"}", NULL },
		{ &user_create_type, check_user,
		  "{\"username\":\"ann\",\"password\":\"x\",\"grants\":[{\"action\":\"admin\"},{\"action\":\"member\","
		  "\"patterns\":[\"b*\"]},{\"action\":\"observe\",\"patterns\":[]}]}",
		  NULL },
		{ &user_create_type, check_user, "{\"username\":\"a b\",\"password\":\"x\"}", "username" },
		{ &user_create_type, check_user, "{\"username\":\"ann\",\"password\":\"\"}", "password" },
		{ &user_create_type, check_user,
		  "{\"username\":\"ann\",\"password\":\"x\",\"grants\":[{\"action\":\"admin\"},{\"action\":\"fly\"}]}",
		  "grants[1].action" },
		{ &user_create_type, check_user,
		  "{\"username\":\"ann\",\"password\":\"x\",\"grants\":[{\"action\":\"produce\"}]}",
		  "grants[0].patterns" },
		{ &user_create_type, check_user,
		  "{\"username\":\"ann\",\"password\":\"x\",\"grants\":[{\"action\":\"admin\",\"patterns\":[\"a\"]}]}",
		  "grants[0].patterns" },
		{ &user_create_type, check_user,
		  "{\"username\":\"ann\",\"password\":\"x\",\"grants\":[{\"action\":\"create\",\"patterns\":[\"a\",\"a "
		  "b\"]}]}",
		  "grants[0].patterns" },
		{ &member_register_type, check_register, "{\"id\":\"b1\",\"addr\":\"10.0.0.1:9092\"}", NULL },
		{ &member_register_type, check_register,
		  "{\"id\":\"b1\",\"addr\":\"[::1]:9\",\"store_id\":\"s 1\",\"tags\":{\"rack/a\":\"\"}}", NULL },
		{ &member_register_type, check_register, "{\"id\":\"b/1\",\"addr\":\"10.0.0.1:9092\"}", "id" },
		{ &member_register_type, check_register, "{\"id\":\"b1\",\"addr\":\"10.0.0.1\"}", "addr" },
		{ &member_register_type, check_register, "{\"id\":\"b1\",\"addr\":\"h:1\",\"store_id\":\"\"}",
		  "store_id" },
		{ &member_register_type, check_register, "{\"id\":\"b1\",\"addr\":\"h:1\",\"tags\":{\"a b\":\"\"}}",
		  "tags" },
		{ &member_register_type, check_register, "{\"id\":\"b1\",\"addr\":\"h:1\",\"tags\":{\"\":\"\"}}",
		  "tags" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_verdict(cases[i].type, cases[i].check, cases[i].text, cases[i].field);
}

/* At most 32 labels; a value that is too long is named by its key; null passes where the reader let it. */
static void test_labels(void **state)
{
	(void)state;
	struct str_pair pairs[LABELS_MAX + 1];
	char keys[LABELS_MAX + 1][8];
	for (size_t i = 0; i <= LABELS_MAX; i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "k%02zu", i);
		pairs[i] = (struct str_pair){ str_of(keys[i]), STR_LIT("v") };
	}
	struct record_fault f;
	struct err e;
	struct str_map m = { pairs, LABELS_MAX };
	assert_int_equal(rules_check_labels(&m, "labels", &f, &e), 0);
	m.count++;
	assert_int_equal(rules_check_labels(&m, "labels", &f, &e), ERR_INVALID);
	assert_string_equal(f.field, "labels");
	m.count = 2;
	pairs[0].value = (struct str){ 0 };
	assert_int_equal(rules_check_labels(&m, "labels", &f, &e), 0);
	pairs[1].value = xs(LABEL_VALUE_MAX + 1);
	assert_int_equal(rules_check_labels(&m, "labels", &f, &e), ERR_INVALID);
	assert_string_equal(f.field, "labels.k01");
}

int main(void)
{
	memset(many, 'x', sizeof(many));
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_at_their_edges), cmocka_unit_test(test_numbers_at_their_edges),
		cmocka_unit_test(test_small_texts),          cmocka_unit_test(test_host_port),
		cmocka_unit_test(test_topic_create),         cmocka_unit_test(test_topic_alter),
		cmocka_unit_test(test_other_bodies),         cmocka_unit_test(test_labels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
