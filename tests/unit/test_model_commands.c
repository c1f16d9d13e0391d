/* Entry types: numbers, names and payload fields, which are frozen, and that every payload comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/commands.h"
#include "tests/unit/model_random.h"

#define TOPIC                                                                                                          \
	"name id? partitions retention_ms visibility_timeout_ms max_in_flight_per_partition "                          \
	"max_acked_ahead_per_partition created_at owner? role? children? parent? attach_epoch? fanout_delay_ms? "      \
	"attach_offsets? remote?" LINK
#define LINK "{name topic target_id? from? lanes? paused? pause_reason? paused_by? paused_at_ms? skip? created_by?}"
#define USER "username password_hash? grants?{action patterns?} root? created_at_ms? updated_at_ms?"
#define SEALED "{v kv ct}"
#define LIMITS "{max_in_flight request_timeout_ms idle_conn_timeout_ms conn_max_age_ms check_interval_ms compression}"
#define LIMITS_PATCH                                                                                                   \
	"{max_in_flight? request_timeout_ms? idle_conn_timeout_ms? conn_max_age_ms? check_interval_ms? compression?}"

/* What logs hold: a payload's fields in order, '?' where nil may stand, sub-records in braces. */
static const struct {
	unsigned type;
	const char *name, *fields;
} frozen[] = {
	{ 1, "create topic", TOPIC },
	{ 2, "update topic", TOPIC },
	{ 3, "delete topic", "name" },
	{ 4, "put schema", "t v s" },
	{ 5, "assign partition", "topic partition owner_id target_id?" },
	{ 6, "member join", "id addr cluster_addr? status last_heartbeat draining? build? entry_types?" },
	{ 7, "member heartbeat", "id at" },
	{ 8, "member dead", "id" },
	{ 9, "create user", USER },
	{ 10, "update user", USER },
	{ 11, "delete user", "username" },
	{ 12, "seed root user", USER },
	{ 13, "attach child", "p c e? d? o?" },
	{ 14, "detach child", "p c" },
	{ 15, "set move target", "t p g" },
	{ 16, "complete move", "t p e g" },
	{ 17, "abort move", "t p g" },
	{ 18, "set draining", "id draining" },
	{ 19, "remove member", "id at" },
	{ 20, "readmit member", "id at" },
	{ 21, "set user password", "u h t" },
	{ 22, "set user grants", "u g{action patterns?} t" },
	{ 23, "create topic with schema and link", "t{" TOPIC "} s? l?{p pi e? d? o?}" },
	{ 24, "compare-and-set topic update", "t{" TOPIC "} x" },
	{ 25, "compare-and-set topic delete", "n x" },
	{ 26, "compare-and-set schema version", "t v s x" },
	{ 27, "compare-and-set fan-out attach", "l{p c e? d? o?} pi ci" },
	{ 28, "compare-and-set fan-out detach", "p c pi ci" },
	{ 29, "insert-only partition placement", "t p o x" },
	{ 30, "orphan assignment prune", "t p" },
	{ 31, "dead mark from an observed heartbeat", "id h" },
	{ 32, "user delete that releases its topics", "u" },
	{ 33, "remote child attach",
	  "parent parent_id? stub stub_id epoch delay_ms? offsets? remote" LINK " created_at actor? request_id?" },
	{ 34, "remote child state change",
	  "parent stub epoch pause?{paused reason? by? at_ms?} target_id? lanes? skip?{partition offset} actor? "
	  "request_id?" },
	{ 35, "remote create",
	  "record{name id url username credential" SEALED " credential_version fingerprint password_set_at_ms "
	  "password_set_by ca_pem? limits" LIMITS " revision created_at_ms created_by} salt? sealed_at_ms actor "
	  "request_id" },
	{ 36, "remote change",
	  "name fields{url? username? ca_pem? limits?" LIMITS_PATCH "} credential?" SEALED " fingerprint? "
	  "sealed_against?{name id url username trust_anchor} read_revision expect_credential_version? reseal? "
	  "sealed_at_ms actor request_id" },
	{ 37, "remote delete", "name force actor request_id" },
	{ 64, "member extra", "id kind placeable tags?" },
	{ 65, "topic labels", "topic expect_id? labels" },
	{ 66, "member cordon", "id cordoned" },
	{ 67, "member registration", "id addr tags? store_id? session at fresh? accept_data_loss?" },
	{ 68, "member labels", "id labels" },
	{ 69, "member session", "id session" },
	{ 70, "member lost", "id at reason?" },
	{ 72, "compare-and-set move", "topic partition expect_id? expected_owner expected_target? target max_moves?" },
	{ 73, "compare-and-set move completion", "topic partition expect_id? move_id expected_owner target" },
	{ 74, "compare-and-set move abort", "topic partition expect_id? move_id" },
	{ 75, "partition pin", "topic partition expect_id? pinned" },
	{ 76, "setting", "name value?" },
	{ 80, "set replication", "topic expect_id? replicas? unclean? replica_lag?" },
	{ 81, "place replicas", "topic expect_id? partition replicas" },
	{ 82, "leader change", "topic expect_id? partition expect_epoch leader? unclean? reason?" },
	{ 83, "in-sync change", "topic expect_id? partition epoch replica in_sync" },
	{ 85, "drained member removal", "id at" },
	{ 84, "replica set change", "topic expect_id? partition expect_epoch add? remove? reason?" },
};

static void describe(const struct record_type *t, struct buf *out)
{
	for (size_t i = 0; i < t->count; i++) {
		const struct field *f = &t->fields[i];
		const bool nil = f->flags & (FIELD_OMITEMPTY | FIELD_OPTIONAL) || f->kind == FIELD_OPT_I64 ||
		                 f->kind == FIELD_OPT_U64 || f->kind == FIELD_OPT_BOOL || f->kind == FIELD_RECORD_PTR;
		buf_printf(out, "%s%s%s", i ? " " : "", f->name, nil ? "?" : "");
		if (f->sub) {
			buf_putc(out, '{');
			describe(f->sub, out);
			buf_putc(out, '}');
		}
	}
}

/* No number, name or payload changes: logs are full of them. */
static void test_types_are_frozen(void **state)
{
	(void)state;
	size_t known = 0;
	for (unsigned type = 0; type < 300; type++)
		known += command_info(type) != NULL;
	assert_int_equal(known, ARRAY_LEN(frozen));
	for (size_t i = 0; i < ARRAY_LEN(frozen); i++) {
		const struct command_info *info = command_info(frozen[i].type);
		assert_non_null(info);
		assert_int_equal(info->type, frozen[i].type);
		assert_string_equal(info->name, frozen[i].name);
		struct buf out = { 0 };
		describe(info->payload, &out);
		assert_string_equal(buf_cstr(&out), frozen[i].fields);
		buf_fini(&out);
	}
	assert_int_equal(CMD_TOPIC_CREATE, 1);
	assert_int_equal(CMD_REMOTE_DELETE, COMMAND_NARAD_MAX);
	assert_int_equal(CMD_MEMBER_REMOVE_IF, COMMAND_MAX);
	assert_null(command_info(0));
	assert_null(command_info(COMMAND_NARAD_MAX + 1));
	assert_null(command_info(UINT32_MAX));
}

/* A payload of no bytes fits no type, as in Narad. */
static void test_empty_payload_fits_nothing(void **state)
{
	(void)state;
	struct arena a = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(frozen); i++) {
		const struct record_type *t = command_info(frozen[i].type)->payload;
		assert_true(t->size <= COMMAND_PAYLOAD_SIZE);
		void *rec = arena_alloc(&a, COMMAND_PAYLOAD_SIZE);
		assert_int_equal(record_read_mp(t, "", 0, &a, rec, NULL), ERR_CORRUPT);
		assert_int_equal(record_read_mp(t, "\x90", 1, &a, rec, NULL), ERR_CORRUPT);
	}
	arena_fini(&a);
}

/* Random payloads of every type come back from msgpack as they were. */
static void test_payloads_round_trip(void **state)
{
	(void)state;
	struct rand rng;
	rand_seed(&rng, 5);
	for (size_t i = 0; i < ARRAY_LEN(frozen) * 100; i++) {
		const struct record_type *t = command_info(frozen[i % ARRAY_LEN(frozen)].type)->payload;
		struct arena a = { 0 };
		void *rec = arena_alloc(&a, t->size);
		void *back = arena_alloc(&a, t->size);
		fill_record(t, rec, &rng, &a);
		struct buf mp = { 0 };
		struct buf again = { 0 };
		struct mp_writer w = { .out = &mp };
		record_write_mp(t, rec, &w);
		struct err e = { 0 };
		if (record_read_mp(t, mp.data, mp.len, &a, back, &e))
			fail_msg("%s", e.msg);
		w.out = &again;
		record_write_mp(t, back, &w);
		assert_int_equal(again.len, mp.len);
		assert_memory_equal(again.data, mp.data, mp.len);
		struct buf json = { 0 };
		struct buf json_back = { 0 };
		record_put_json(t, rec, &json);
		record_put_json(t, back, &json_back);
		assert_string_equal(buf_cstr(&json_back), buf_cstr(&json));
		buf_fini(&mp);
		buf_fini(&again);
		buf_fini(&json);
		buf_fini(&json_back);
		arena_fini(&a);
	}
}

static void assert_payload(enum command_type type, const void *payload, const char *hex)
{
	struct buf mp = { 0 };
	struct buf text = { 0 };
	struct mp_writer w = { .out = &mp };
	record_write_mp(command_info(type)->payload, payload, &w);
	for (size_t i = 0; i < mp.len; i++)
		buf_printf(&text, "%02x", mp.data[i]);
	assert_string_equal(buf_cstr(&text), hex);
	buf_fini(&mp);
	buf_fini(&text);
}

/* The bytes themselves, for a few: array in table order, shortest integers, nil for absent, bin for bytes. */
static void test_payload_bytes_are_frozen(void **state)
{
	(void)state;
	assert_payload(CMD_TOPIC_DELETE, &(struct cmd_name){ STR_LIT("ab") }, "91a26162");
	assert_payload(CMD_PARTITION_PLACE,
	               &(struct cmd_partition_place){ STR_LIT("t"), 300, STR_LIT("n1"), STR_LIT("") },
	               "94a174cd012ca26e31a0");
	assert_payload(CMD_SCHEMA_PUT, &(struct cmd_schema_put){ STR_LIT("t"), -1, STR_LIT("{}") }, "93a174ffc4027b7d");
	assert_payload(CMD_MEMBER_DRAINING, &(struct cmd_member_draining){ STR_LIT("n"), true }, "92a16ec3");
	assert_payload(CMD_CHILD_ATTACH, &(struct cmd_child_attach){ .parent = STR_LIT("p"), .child = STR_LIT("c") },
	               "95a170a163c0c0c0");
	const struct str_pair tags[] = { { STR_LIT("a"), STR_LIT("1") } };
	assert_payload(CMD_MEMBER_EXTRA, &(struct member_extra){ STR_LIT("b"), STR_LIT("broker"), true, { tags, 1 } },
	               "94a162a662726f6b6572c381a161a131");
	const struct str_pair labels[] = { { STR_LIT("a"), STR_LIT("1") }, { STR_LIT("b"), { NULL, 0 } } };
	assert_payload(CMD_TOPIC_LABELS, &(struct cmd_topic_labels){ STR_LIT("t"), STR_LIT("i"), { labels, 2 } },
	               "93a174a16982a161a131a162c0");
	assert_payload(CMD_REMOTE_CHILD_STATE,
	               &(struct cmd_remote_child_state){ .parent = STR_LIT("p"),
	                                                 .stub = STR_LIT("s"),
	                                                 .epoch = STR_LIT("e"),
	                                                 .target_id = STR_LIT(""),
	                                                 .lanes = { .value = 8, .set = true } },
	               "99a170a173a165c0a008c0c0c0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types_are_frozen),
		cmocka_unit_test(test_empty_payload_fits_nothing),
		cmocka_unit_test(test_payloads_round_trip),
		cmocka_unit_test(test_payload_bytes_are_frozen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
