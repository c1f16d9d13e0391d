/* Stored records against the bytes Narad stores, request bodies, and the keys of rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/records.h"
#include "tests/unit/model_random.h"

static const struct record_type *const stored_types[] = {
	&topic_type, &assignment_type, &member_type,      &removed_member_type,
	&user_type,  &remote_type,     &remote_keys_type, &member_extra_type,
};
static const struct record_type *const body_types[] = {
	&topic_create_type,  &topic_alter_type,   &child_attach_type,    &child_pause_type,
	&child_resume_type,  &child_skip_type,    &user_create_type,     &user_grants_type,
	&user_password_type, &remote_create_type, &remote_patch_type,    &member_register_type,
	&move_set_type,      &move_complete_type, &leader_transfer_type, &server_set_type,
};

/* Stored texts as Narad's Go structs are written: read and written again, they keep every byte. */
static void test_stored_records_keep_their_bytes(void **state)
{
	(void)state;
	static const struct {
		const struct record_type *type;
		const char *text;
	} cases[] = {
		{ &topic_type,
		  "{\"name\":\"orders\",\"partitions\":3,\"retention_ms\":604800000,\"visibility_timeout_ms\":30000,"
		  "\"max_in_flight_per_partition\":1024,\"max_acked_ahead_per_partition\":1024,"
		  "\"created_at\":1767000000}" },
		{ &topic_type,
		  "{\"name\":\"orders\",\"id\":\"00112233aabbccdd\",\"partitions\":3,\"retention_ms\":0,"
		  "\"visibility_timeout_ms\":30000,\"max_in_flight_per_partition\":1,\"max_acked_ahead_per_partition\":"
		  "2,"
		  "\"created_at\":1767000000,\"owner\":\"ann\",\"role\":\"parent\",\"children\":[\"b\",\"a\"]}" },
		{ &topic_type,
		  "{\"name\":\"stub\",\"id\":\"00112233aabbccdd\",\"partitions\":0,\"retention_ms\":0,\"visibility_"
		  "timeout_ms\":0,"
		  "\"max_in_flight_per_partition\":0,\"max_acked_ahead_per_partition\":0,\"created_at\":1767000000,"
		  "\"role\":\"child\",\"parent\":\"orders\",\"attach_epoch\":\"0123456789abcdef\",\"fanout_delay_ms\":"
		  "1000,"
		  "\"attach_offsets\":[5,0,9],\"remote\":{\"name\":\"eu\",\"topic\":\"orders\",\"target_id\":\"ff\","
		  "\"from\":\"attach\","
		  "\"lanes\":1,\"paused\":true,\"pause_reason\":\"a \\u003c b \\u0026 c\",\"paused_by\":\"ann\","
		  "\"paused_at_ms\":1767000000123,\"skip\":{\"0\":[1,2],\"10\":[7],\"2\":[3]},\"created_by\":\"ann\"}"
		  "}" },
		{ &assignment_type, "{\"topic\":\"orders\",\"partition\":0,\"owner_id\":\"n1\"}" },
		{ &assignment_type,
		  "{\"topic\":\"orders\",\"partition\":10,\"owner_id\":\"n1\",\"target_id\":\"n2\"}" },
		{ &member_type,
		  "{\"id\":\"n1\",\"addr\":\"10.0.0.1:7942\",\"status\":\"alive\",\"last_heartbeat\":1767000000}" },
		{ &member_type,
		  "{\"id\":\"n1\",\"addr\":\"10.0.0.1:7942\",\"cluster_addr\":\"10.0.0.1:7943\",\"status\":\"dead\","
		  "\"last_heartbeat\":1767000000,\"draining\":true,\"build\":\"v3.2.0\",\"entry_types\":37}" },
		{ &removed_member_type, "{\"removed_at\":1767000000}" },
		{ &user_type, "{\"username\":\"ann\"}" },
		{ &user_type,
		  "{\"username\":\"ann\",\"password_hash\":\"JDJhJDEw\",\"grants\":[{\"action\":\"produce\","
		  "\"patterns\":"
		  "[\"a*\",\"*\"]},{\"action\":\"admin\"}],\"root\":true,\"created_at_ms\":1,\"updated_at_ms\":2}" },
		{ &remote_type,
		  "{\"name\":\"eu\",\"id\":\"00112233aabbccdd\",\"url\":\"https://eu.example\",\"username\":\"repl\","
		  "\"credential\":{\"v\":1,\"kv\":\"0011223344556677\",\"ct\":\"AAEC\"},\"credential_version\":1,"
		  "\"fingerprint\":\"aabbccddeeff\",\"password_set_at_ms\":5,\"password_set_by\":\"ann\",\"ca_pem\":"
		  "\"x\\ny\","
		  "\"limits\":{\"max_in_flight\":16,\"request_timeout_ms\":30000,\"idle_conn_timeout_ms\":30000,"
		  "\"conn_max_age_ms\":300000,\"check_interval_ms\":60000,\"compression\":\"none\"},\"revision\":1,"
		  "\"created_at_ms\":5,\"created_by\":\"ann\"}" },
		{ &remote_keys_type, "{}" },
		{ &remote_keys_type, "{\"salt\":\"AAEC\",\"versions\":{\"00ff\":{\"seals\":2,\"first_sealed_at_ms\":5},"
		                     "\"ff00\":{\"seals\":18446744073709551615,\"first_sealed_at_ms\":6}}}" },
		{ &member_extra_type,
		  "{\"id\":\"b1\",\"kind\":\"broker\",\"placeable\":true,\"tags\":{\"rack\":\"r1\",\"zone\":\"z\"}}" },
		{ &member_extra_type, "{\"id\":\"n1\",\"kind\":\"server\",\"placeable\":false}" },
		{ &topic_extra_type, "{\"replicas\":1,\"unclean\":false,\"labels\":{\"env\":\"prod\"}}" },
		{ &topic_extra_type,
		  "{\"replicas\":3,\"unclean\":true,\"replica_lag\":10,\"labels\":{\"env\":\"prod\"}}" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena a = { 0 };
		struct err e = { 0 };
		void *rec = arena_zalloc(&a, cases[i].type->size);
		if (record_read_json(cases[i].type, str_of(cases[i].text), &a, rec, NULL, &e))
			fail_msg("%s: %s", cases[i].text, e.msg);
		struct buf out = { 0 };
		record_put_json(cases[i].type, rec, &out);
		assert_string_equal(buf_cstr(&out), cases[i].text);
		buf_fini(&out);
		arena_fini(&a);
	}
}

/* A map of partitions is stored in the order of its keys' text however it was written. */
static void test_stored_maps_are_sorted(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct remote_link link;
	assert_int_equal(
	    record_read_json(&remote_link_type,
	                     STR_LIT("{\"skip\":{\"2\":[3],\"10\":[7],\"0\":[1]},\"topic\":\"t\",\"name\":\"n\"}"), &a,
	                     &link, NULL, NULL),
	    0);
	struct buf out = { 0 };
	record_put_json(&remote_link_type, &link, &out);
	assert_string_equal(buf_cstr(&out),
	                    "{\"name\":\"n\",\"topic\":\"t\",\"skip\":{\"0\":[1],\"10\":[7],\"2\":[3]}}");
	buf_fini(&out);
	arena_fini(&a);
}

static void check_table(const struct record_type *t, int nesting)
{
	assert_true(nesting <= 8); /* what the readers allow for */
	assert_true(t->count >= 1 && t->count <= RECORD_FIELDS_MAX);
	for (size_t i = 0; i < t->count; i++) {
		const struct field *f = &t->fields[i];
		assert_true(record_field(t, str_of(f->name)) == f); /* names are unique */
		assert_true(f->offset < t->size);
		const bool has_sub = f->kind == FIELD_RECORD || f->kind == FIELD_RECORD_PTR ||
		                     f->kind == FIELD_RECORD_LIST || f->kind == FIELD_RECORD_MAP;
		assert_true(has_sub == (f->sub != NULL));
		if (f->kind == FIELD_RECORD)
			assert_true(f->offset + f->sub->size <= t->size);
		if (has_sub)
			check_table(f->sub, nesting + 1);
	}
	assert_null(record_field(t, STR_LIT("no such field")));
}

/* Tables are sound: unique names, members inside their structs, sub-tables where they belong. */
static void test_tables_are_sound(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(stored_types); i++)
		check_table(stored_types[i], 1);
	for (size_t i = 0; i < ARRAY_LEN(body_types); i++)
		check_table(body_types[i], 1);
}

/* Random records of every stored type come back from JSON and msgpack. */
static void test_random_records_round_trip(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 21);
	for (size_t i = 0; i < ARRAY_LEN(stored_types) * 200; i++) {
		const struct record_type *t = stored_types[i % ARRAY_LEN(stored_types)];
		struct arena a = { 0 };
		void *rec = arena_alloc(&a, t->size);
		void *back = arena_alloc(&a, t->size);
		fill_record(t, rec, &rng, &a);
		struct buf json = { 0 };
		struct buf mp = { 0 };
		struct buf again = { 0 };
		struct err e = { 0 };
		record_put_json(t, rec, &json);
		if (record_read_json(t, (struct str){ (const char *)json.data, json.len }, &a, back, NULL, &e))
			fail_msg("%s: %s", buf_cstr(&json), e.msg);
		struct mp_writer w = { .out = &mp };
		record_write_mp(t, back, &w);
		if (record_read_mp(t, mp.data, mp.len, &a, rec, &e))
			fail_msg("%s", e.msg);
		record_put_json(t, rec, &again);
		assert_string_equal(buf_cstr(&again), buf_cstr(&json));
		buf_fini(&json);
		buf_fini(&mp);
		buf_fini(&again);
		arena_fini(&a);
	}
}

/* The hash of a user and the sealed password of a remote are stored, and not shown. */
static void test_secrets_are_not_public(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct user u = { .username = STR_LIT("ann"), .password_hash = STR_LIT("$2a$"), .created_at_ms = 1 };
	struct buf out = { 0 };
	struct json_writer w = { .out = &out };
	record_write_json(&user_type, &u, RECORD_PUBLIC, &w);
	assert_string_equal(buf_cstr(&out), "{\"username\":\"ann\",\"created_at_ms\":1}");
	const struct remote r = { .name = STR_LIT("eu"), .credential = { .v = 1, .ct = STR_LIT("hush") } };
	buf_clear(&out);
	w = (struct json_writer){ .out = &out };
	record_write_json(&remote_type, &r, RECORD_PUBLIC, &w);
	assert_null(strstr(buf_cstr(&out), "credential\""));
	buf_fini(&out);
	arena_fini(&a);
}

/* ---- bodies ---- */

static int read_body(const struct record_type *t, const char *text, struct arena *a, void *out, struct record_fault *f)
{
	return record_read_json(t, str_of(text), a, out, f, NULL);
}

/* A create says what was given and what was not; fields that nothing acts upon are refused, not ignored. */
static void test_topic_create_body(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct topic_create b;
	struct record_fault f;
	assert_int_equal(
	    read_body(
		&topic_create_type,
		"{\"name\":\"t\",\"partitions\":6,\"retention_ms\":0,\"schema\":{\"type\":\"object\"},\"owner\":\"x\"}",
		&a, &b, &f),
	    0);
	assert_true(b.partitions.set && b.partitions.value == 6);
	assert_true(b.retention_ms.set && b.retention_ms.value == 0);
	assert_false(b.visibility_timeout_ms.set);
	assert_null(b.parent.p);
	assert_int_equal(read_body(&topic_create_type, "{\"name\":\"t\",\"retention_ms\":null}", &a, &b, &f), 0);
	assert_false(b.retention_ms.set);
	assert_int_equal(read_body(&topic_create_type, "{\"partitions\":6}", &a, &b, &f), ERR_INVALID);
	assert_string_equal(f.field, "name");
	assert_int_equal(read_body(&topic_create_type, "{\"name\":\"t\",\"partitions\":null}", &a, &b, &f),
	                 ERR_INVALID);
	assert_int_equal(read_body(&topic_create_type, "{\"name\":\"t\",\"role\":\"child\"}", &a, &b, &f), ERR_INVALID);
	assert_string_equal(f.code, "unknown_field");
	arena_fini(&a);
}

/* PATCH tells absent from zero; what cannot be altered is unknown there. */
static void test_topic_alter_body(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct topic_alter b;
	struct record_fault f;
	assert_int_equal(
	    read_body(&topic_alter_type, "{\"retention_ms\":0,\"max_in_flight_per_partition\":null}", &a, &b, &f), 0);
	assert_true(b.retention_ms.set && !b.max_in_flight_per_partition.set && b.max_in_flight_per_partition.null);
	assert_int_equal(read_body(&topic_alter_type, "{\"visibility_timeout_ms\":1}", &a, &b, &f), ERR_INVALID);
	assert_string_equal(f.field, "visibility_timeout_ms");
	arena_fini(&a);
}

/* Grants must be given, and may be empty or null: both clear. A skip needs both its numbers. */
static void test_required_fields_of_bodies(void **state)
{
	(void)state;
	struct arena a = { 0 };
	struct record_fault f;
	struct user_grants g;
	assert_int_equal(read_body(&user_grants_type, "{\"grants\":[]}", &a, &g, &f), 0);
	assert_int_equal(read_body(&user_grants_type, "{\"grants\":null}", &a, &g, &f), 0);
	assert_int_equal(g.grants.count, 0);
	assert_int_equal(read_body(&user_grants_type, "{}", &a, &g, &f), ERR_INVALID);
	assert_int_equal(read_body(&user_grants_type, "{\"grants\":[{\"patterns\":[\"a\"]}]}", &a, &g, &f),
	                 ERR_INVALID);
	assert_string_equal(f.field, "grants[0].action");
	struct child_skip s;
	assert_int_equal(read_body(&child_skip_type, "{\"partition\":0,\"offset\":0}", &a, &s, &f), 0);
	assert_int_equal(read_body(&child_skip_type, "{\"partition\":0}", &a, &s, &f), ERR_INVALID);
	assert_string_equal(f.field, "offset");
	arena_fini(&a);
}

/* ---- keys of rows ---- */

/* Keys are made and taken apart the same way; what is no key is refused. */
static void test_row_keys(void **state)
{
	(void)state;
	char key[ROW_KEY_MAX];
	struct str topic;
	int64_t n;
	static const int64_t numbers[] = { 0, 1, 9, 10, 107, 1000000, INT64_MAX };
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const size_t len = row_key(key, STR_LIT("orders.eu"), numbers[i]);
		char want[64];
		assert_int_equal(len, snprintf(want, sizeof(want), "orders.eu:%lld", (long long)numbers[i]));
		assert_memory_equal(key, want, len);
		assert_true(row_key_parse((struct str){ key, len }, &topic, &n));
		assert_true(str_is(topic, "orders.eu") && n == numbers[i]);
	}
	char longest[256];
	memset(longest, 'x', sizeof(longest));
	assert_int_equal(row_key(key, (struct str){ longest, 255 }, INT64_MAX), 255 + 1 + 19);
	assert_int_equal(row_key(key, (struct str){ longest, 256 }, 0), 0);
	assert_int_equal(row_key(key, STR_LIT("t"), -1), 0);
	static const char *const no_keys[] = { "",          "orders",   "orders:",  "orders:01",
		                               "orders:-1", "orders:x", "orders:1 " };
	for (size_t i = 0; i < ARRAY_LEN(no_keys); i++)
		assert_false(row_key_parse(str_of(no_keys[i]), &topic, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stored_records_keep_their_bytes),
		cmocka_unit_test(test_stored_maps_are_sorted),
		cmocka_unit_test(test_tables_are_sound),
		cmocka_unit_test(test_random_records_round_trip),
		cmocka_unit_test(test_secrets_are_not_public),
		cmocka_unit_test(test_topic_create_body),
		cmocka_unit_test(test_topic_alter_body),
		cmocka_unit_test(test_required_fields_of_bodies),
		cmocka_unit_test(test_row_keys),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
