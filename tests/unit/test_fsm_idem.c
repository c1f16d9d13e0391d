/* Idempotency records: kept with their entry, refused a second time, forgotten by the log's time alone. */
#include "fsm_harness.h"

#include "fsm/idem.h"

#define ID1 "1111111111111111"

/* An entry that creates a topic under a key, at a time of the log; its refusal. */
static int do_keyed(struct rig *r, const char *topic, const char *actor, const char *key, uint64_t time_ms)
{
	const struct topic t = topic_of(topic, ID1, 3);
	const struct entry_header h = {
		.actor = str_of(actor),
		.origin = S("n1"),
		.has_idem = true,
		.idem = { .key = str_of(key), .request_hash = 7, .status = 201, .body = S("{\"index\":\x01}") },
	};
	struct entry_builder b;
	struct slab *slab;
	struct fsm_result result;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_TOPIC_CREATE, &t);
	assert_int_equal(entry_builder_finish(&b, &h, &slab, NULL), 0);
	entry_builder_fini(&b);
	entry_stamp_time(slab, time_ms);
	struct entry e = { .index = ++r->index,
		           .term = r->term,
		           .kind = ENTRY_COMMAND,
		           .len = (uint32_t)slab->len,
		           .data = slab->data,
		           .slab = slab };
	assert_int_equal(rig_apply(r, &e, &result), 0);
	entry_unref(&e);
	return result.refusal;
}

/* The answer is there with the effects, under its actor alone, and a second entry under the key leaves nothing. */
static void test_record_is_kept_with_its_entry(void **state)
{
	struct rig *r = *state;
	struct fsm_idem kept;
	struct fsm_topic t;
	struct buf body = { 0 };
	assert_int_equal(do_keyed(r, "a", "ann", "k", 1000), 0);
	assert_int_equal(fsm_get_idem(rig_read(r), S("ann"), S("k"), 1000, &kept), 0);
	assert_int_equal(kept.request_hash, 7);
	assert_int_equal(kept.status, 201);
	assert_int_equal(kept.index, 1);
	entry_put_body(&body, kept.body, kept.index);
	assert_string_equal(buf_cstr(&body), "{\"index\":1}");
	buf_fini(&body);
	assert_int_equal(fsm_get_idem(rig_read(r), S("bob"), S("k"), 1000, &kept), ERR_NOTFOUND);
	assert_int_equal(do_keyed(r, "b", "ann", "k", 2000), FSM_IDEMPOTENT);
	assert_false(topic_there(r, "b", &t));
	assert_int_equal(do_keyed(r, "c", "bob", "k", 2000), 0);
	rig_close(r, true);
	rig_open(r);
	assert_int_equal(fsm_get_idem(rig_read(r), S("ann"), S("k"), 1000, &kept), 0);
}

/* A refused entry keeps no answer: its key is free for the next attempt. */
static void test_refused_entry_keeps_nothing(void **state)
{
	struct rig *r = *state;
	struct fsm_idem kept;
	assert_int_equal(do_keyed(r, "a", "ann", "k1", 1000), 0);
	assert_int_equal(do_keyed(r, "a", "ann", "k2", 1000), FSM_TOPIC_EXISTS);
	assert_int_equal(fsm_get_idem(rig_read(r), S("ann"), S("k2"), 1000, &kept), ERR_NOTFOUND);
	assert_int_equal(rows(r, STORE_X_IDEM), 1);
	assert_int_equal(do_keyed(r, "b", "ann", "k2", 1000), 0);
}

/* Ten minutes by the entries' times, to the millisecond; then the key is free and old records go, a few at a time. */
static void test_records_expire_by_the_log(void **state)
{
	struct rig *r = *state;
	struct fsm_idem kept;
	char name[16];
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		assert_int_equal(do_keyed(r, name, "ann", name, 1000), 0);
	}
	const uint64_t end = 1000 + FSM_IDEM_KEPT_MS;
	assert_int_equal(fsm_get_idem(rig_read(r), S("ann"), S("t0"), end - 1, &kept), 0);
	assert_int_equal(fsm_get_idem(rig_read(r), S("ann"), S("t0"), end, &kept), ERR_NOTFOUND);
	assert_int_equal(do_keyed(r, "u", "ann", "t39", end - 1), FSM_IDEMPOTENT);
	assert_int_equal(rows(r, STORE_X_IDEM), 40);
	assert_int_equal(do_keyed(r, "u", "ann", "t39", end), 0);
	assert_in_range(rows(r, STORE_X_IDEM), 24, 25);
	assert_int_equal(rows(r, STORE_X_IDEM), rows(r, STORE_X_IDEM_AT));
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		assert_int_equal(do_keyed(r, name, "ann", name, end + 1), 0);
	}
	assert_int_equal(rows(r, STORE_X_IDEM), 4);
	assert_int_equal(rows(r, STORE_X_IDEM_AT), 4);
}

/* What the list of changes carries: a put as its entry left it, a delete with the last record and all who held it. */
static void test_changes_carry_records(void **state)
{
	struct rig *r = *state;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), 0);
	const raft_index placed = r->index;
	assert_int_equal(do_target(r, "orders", 0, "n2"), 0);
	assert_int_equal(do_delete(r, "orders", ID1), 0);
	assert_int_equal(fsm_changes_seek(r->f, placed - 1, &pos), 0);
	assert_int_equal(fsm_changes_next(r->f, &pos, &c), 0);
	assert_non_null(memmem(c.record.p, c.record.len, "\"state\":\"placed\",\"owner_id\":\"n1\"", 32));
	assert_int_equal(c.members.len, 3);
	assert_memory_equal(c.members.p, "n1", 3);
	assert_int_equal(fsm_changes_next(r->f, &pos, &c), 0);
	assert_non_null(memmem(c.record.p, c.record.len, "\"target_id\":\"n2\"", 16));
	assert_memory_equal(c.members.p, "n1\0n2", 6);
	assert_int_equal(fsm_changes_next(r->f, &pos, &c), 0);
	assert_int_equal(c.op, FSM_OP_DELETE);
	assert_string_equal(c.key.p, "orders/0");
	assert_true(c.more);
	assert_non_null(memmem(c.record.p, c.record.len, "\"target_id\":\"n2\"", 16));
	assert_int_equal(c.members.len, 6);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fsm_changes_next(r->f, &pos, &c), 0);
	assert_string_equal(c.key.p, "orders");
	assert_false(c.more);
	assert_non_null(memmem(c.record.p, c.record.len, "\"labels\":{}", 11));
	fsm_changes_leave(&pos);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_record_is_kept_with_its_entry),
		CASE(test_refused_entry_keeps_nothing),
		CASE(test_records_expire_by_the_log),
		CASE(test_changes_carry_records),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
