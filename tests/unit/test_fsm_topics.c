/* Topics: types 1, 2, 3, 23, 24, 25, with their refusals in order, leftovers, twins, and the second topic of a name. */
#include "fsm_harness.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"

static int do_old_create(struct rig *r, const char *name, int64_t partitions)
{
	const struct topic t = topic_of(name, "", partitions);
	return rig_do(r, CMD_TOPIC_CREATE, &t);
}

static int do_update_if(struct rig *r, struct topic t, const char *id)
{
	const struct cmd_topic_update_if c = { t, str_of(id) };
	return rig_do(r, CMD_TOPIC_UPDATE_IF, &c);
}

/* A created topic is stored as Go would write it, unplaced, with its version and a tail that says what the record does
 * not. */
static void test_create_stores_record_and_packed_owners(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_string_equal(stored(r, STORE_TOPICS, "orders"),
	                    "{\"name\":\"orders\",\"id\":\"" ID1 "\",\"partitions\":3,\"retention_ms\":604800000,"
	                    "\"visibility_timeout_ms\":30000,\"max_in_flight_per_partition\":1024,"
	                    "\"max_acked_ahead_per_partition\":1024,\"created_at\":1700000000}");
	assert_true(topic_there(r, "orders", &t));
	assert_int_equal(t.partition_count, 3);
	assert_int_equal(t.schema_version, 0);
	assert_int_equal(t.changed_index, r->index);
	assert_true(str_is(t.tail, ",\"role\":\"standalone\",\"replicas\":1,\"unclean\":false,\"labels\":{}"));
	const struct fsm_owner o = owner_at(r, "orders", 2);
	assert_int_equal(o.owner.len + o.target.len, 0);
	assert_int_equal(o.version, r->index);
	assert_int_equal(o.move_id, 0);
	struct str name;
	assert_int_equal(fsm_next_unplaced(rig_read(r), NONE, &name), 0);
	assert_true(str_is(name, "orders"));
	assert_int_equal(fsm_next_unplaced(rig_read(r), S("orders"), &name), ERR_NOTFOUND);
	assert_string_equal(changes_since(r, 0),
	                    "topics:orders+ assignments:orders/0+ assignments:orders/1+ assignments:orders/2+");
}

/* Type 23: empty name, taken, twin, in this order; what cannot be stored is invalid; refusals leave nothing. */
static void test_create_refuses_in_order(void **state)
{
	struct rig *r = *state;
	struct fsm_hint hint;
	struct arena a = { 0 };
	assert_int_equal(do_create(r, "Orders", ID1, 3), 0);
	const struct fsm_digest before = digest(r);
	assert_int_equal(do_create(r, "", ID2, 3), FSM_INVALID);
	assert_int_equal(do_create(r, "Orders", ID2, -1), FSM_TOPIC_EXISTS);
	assert_int_equal(do_create(r, "orders", ID2, 3), FSM_TOPIC_TWIN);
	assert_int_equal(do_create(r, "a:b", ID2, 3), FSM_INVALID);
	assert_int_equal(do_create(r, "a/b", ID2, 3), FSM_INVALID);
	assert_int_equal(do_create(r, "many", ID2, FSM_PARTITIONS_MAX + 1), FSM_INVALID);
	assert_int_equal(do_create(r, "few", ID2, -1), FSM_INVALID);
	const struct cmd_topic_create_with c = { .topic = topic_of("ORDERS", ID2, 3) };
	assert_int_equal(fsm_judge(rig_read(r), CMD_TOPIC_CREATE_WITH, &c, 0, &a, &hint, NULL), FSM_TOPIC_TWIN);
	assert_string_equal(hint.name, "Orders");
	arena_fini(&a);
	const struct fsm_digest after = digest(r);
	for (int db = 0; db < STORE_DB_COUNT; db++)
		if (db != STORE_FSM_META)
			assert_int_equal(before.db[db], after.db[db]);
	assert_int_equal(after.index, r->index);
	assert_string_equal(changes_since(r, 1), "");
}

/* The longest name fits every key, and names in byte order of a prefix list as asked. */
static void test_names_of_any_length_are_listed(void **state)
{
	struct rig *r = *state;
	char longest[256];
	struct fsm_topic_iter it;
	struct fsm_topic t;
	uint64_t n;
	memset(longest, 'L', 255);
	longest[255] = '\0';
	assert_int_equal(do_create(r, longest, ID1, 1), 0);
	for (int i = 0; longest[i]; i++)
		longest[i] = 'l';
	assert_int_equal(do_create(r, longest, ID1, 1), FSM_TOPIC_TWIN);
	assert_int_equal(do_create(r, "a.1", ID1, 1), 0);
	assert_int_equal(do_create(r, "a.2", ID1, 1), 0);
	assert_int_equal(do_create(r, "b", ID1, 1), 0);
	struct store_txn *txn = rig_read(r);
	assert_int_equal(fsm_topic_iter_open(&it, txn, S("a."), S("a.1")), 0);
	assert_int_equal(fsm_topic_iter_next(&it, &t), 0);
	assert_true(str_is(t.name, "a.2"));
	assert_int_equal(fsm_topic_iter_next(&it, &t), ERR_NOTFOUND);
	fsm_topic_iter_close(&it);
	assert_int_equal(fsm_topic_iter_open(&it, txn, NONE, S("a.0")), 0);
	const char *const expect[] = { "a.1", "a.2", "b" };
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fsm_topic_iter_next(&it, &t), 0);
		assert_true(str_is(t.name, expect[i]));
	}
	assert_int_equal(fsm_topic_iter_next(&it, &t), ERR_NOTFOUND);
	fsm_topic_iter_close(&it);
	assert_int_equal(fsm_count_topics(txn, &n), 0);
	assert_int_equal(n, 4);
}

/* Types 1: only "exists" is looked at, so twins come about; each is found, and a delete of one keeps the other. */
static void test_old_create_allows_twins(void **state)
{
	struct rig *r = *state;
	struct str twin;
	assert_int_equal(do_old_create(r, "Orders", 3), 0);
	assert_int_equal(do_old_create(r, "Orders", 3), FSM_TOPIC_EXISTS);
	assert_int_equal(do_old_create(r, "orders", 3), 0);
	assert_int_equal(fsm_find_twin(rig_read(r), S("orders"), &twin), 0);
	assert_true(str_is(twin, "Orders"));
	assert_int_equal(fsm_find_twin(rig_read(r), S("Orders"), &twin), 0);
	assert_true(str_is(twin, "orders"));
	assert_int_equal(do_delete(r, "Orders", ""), 0);
	assert_int_equal(fsm_find_twin(rig_read(r), S("orders"), &twin), ERR_NOTFOUND);
	assert_int_equal(fsm_find_twin(rig_read(r), S("ORDERS"), &twin), 0);
}

/* Type 23 deletes what a former topic of the name left behind; type 1 takes the rows over. */
static void test_create_meets_leftovers(void **state)
{
	struct rig *r = *state;
	for (int p = 0; p < 12; p++)
		assert_int_equal(do_assign(r, "orders", p, "n1"), 0);
	assert_int_equal(rows(r, STORE_X_ORPHAN), 12);
	const raft_index before = r->index;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 0);
	assert_int_equal(rows(r, STORE_X_ORPHAN), 0);
	assert_int_equal(counts(r, "n1").owned, 0);
	assert_non_null(strstr(changes_since(r, before), "assignments:orders/11- "));

	assert_int_equal(do_assign(r, "old", 1, "n2"), 0);
	assert_int_equal(do_assign(r, "old", 7, "n2"), 0);
	assert_int_equal(do_old_create(r, "old", 3), 0);
	assert_true(str_is(owner_at(r, "old", 1).owner, "n2"));
	assert_int_equal(owner_at(r, "old", 1).version, r->index);
	assert_int_equal(owner_at(r, "old", 0).owner.len, 0);
	assert_int_equal(rows(r, STORE_X_ORPHAN), 1);
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 2);
}

/* Type 24: not found, another id, fewer partitions; identity, owner, creation and visibility stay. */
static void test_update_if_keeps_who_the_topic_is(void **state)
{
	struct rig *r = *state;
	struct topic t = topic_of("orders", ID1, 3);
	t.owner = S("ann");
	assert_int_equal(do_create_with(r, t, NULL, NULL), 0);
	struct topic now = topic_of("orders", ID2, 5);
	now.retention_ms = 0;
	now.owner = S("eve");
	now.created_at = 1;
	now.visibility_timeout_ms = 1;
	now.max_in_flight_per_partition = 7;
	assert_int_equal(do_update_if(r, topic_of("none", ID1, 3), ID1), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_update_if(r, now, ID2), FSM_TOPIC_CHANGED);
	assert_int_equal(do_update_if(r, now, ""), FSM_TOPIC_CHANGED);
	now.partitions = 2;
	assert_int_equal(do_update_if(r, now, ID1), FSM_TOPIC_CHANGED);
	now.partitions = 5;
	assert_int_equal(do_update_if(r, now, ID1), 0);
	assert_string_equal(stored(r, STORE_TOPICS, "orders"),
	                    "{\"name\":\"orders\",\"id\":\"" ID1 "\",\"partitions\":5,\"retention_ms\":0,"
	                    "\"visibility_timeout_ms\":30000,\"max_in_flight_per_partition\":7,"
	                    "\"max_acked_ahead_per_partition\":1024,\"created_at\":1700000000,\"owner\":\"ann\"}");
	assert_int_equal(owner_at(r, "orders", 4).version, r->index);
	assert_int_equal(owner_at(r, "orders", 0).version, 1);
}

/* Type 2 overwrites owner and creation time and may shrink: rows past the end become orphans, and come back by growing.
 */
static void test_old_update_shrinks_and_grows(void **state)
{
	struct rig *r = *state;
	struct topic t = topic_of("orders", ID1, 4);
	struct str name;
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE, &t), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_create(r, "orders", ID1, 4), 0);
	for (int p = 0; p < 4; p++)
		assert_int_equal(do_place(r, "orders", ID1, p, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 3, "n2"), 0);
	t.id = S(ID2);
	t.owner = S("bob");
	t.partitions = 2;
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE, &t), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "orders"), "\"id\":\"" ID1 "\",\"partitions\":2"));
	assert_int_equal(fsm_next_of_user(rig_read(r), S("bob"), NONE, &name), 0);
	assert_true(str_is(name, "orders"));
	assert_int_equal(fsm_next_of_user(rig_read(r), S("bob"), S("orders"), &name), ERR_NOTFOUND);
	assert_int_equal(rows(r, STORE_X_ORPHAN), 2);
	assert_int_equal(counts(r, "n1").owned, 4);
	rig_check(r);
	t.partitions = 4;
	t.owner = NONE;
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE, &t), 0);
	assert_int_equal(rows(r, STORE_X_ORPHAN), 0);
	assert_int_equal(rows(r, STORE_X_BY_USER), 0);
	const struct fsm_owner o = owner_at(r, "orders", 3);
	assert_true(str_is(o.owner, "n1") && str_is(o.target, "n2"));
	assert_int_equal(o.version, r->index);
	assert_int_equal(o.move_id, r->index);
	t.partitions = -1;
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE, &t), FSM_INVALID);
}

/* A delete clears the rows of the topic and of no other whose name begins alike, and everything derived from them. */
static void test_delete_clears_its_rows(void **state)
{
	struct rig *r = *state;
	struct topic t = topic_of("orders", ID1, 3);
	struct fsm_topic gone;
	t.owner = S("ann");
	assert_int_equal(do_create_with(r, t, "{\"type\":\"object\"}", NULL), 0);
	assert_int_equal(do_create(r, "orders.eu", ID2, 3), 0);
	for (int p = 0; p < 3; p++) {
		assert_int_equal(do_place(r, "orders", ID1, p, "n1"), 0);
		assert_int_equal(do_place(r, "orders.eu", ID2, p, "n1"), 0);
	}
	assert_int_equal(do_target(r, "orders", 1, "n2"), 0);
	const raft_index before = r->index;
	assert_int_equal(do_delete(r, "none", ID1), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_delete(r, "orders", ID2), FSM_TOPIC_CHANGED);
	assert_int_equal(do_delete(r, "orders", ID1), 0);
	assert_false(topic_there(r, "orders", &gone));
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 3);
	assert_int_equal(rows(r, STORE_SCHEMAS), 0);
	assert_int_equal(rows(r, STORE_X_MOVE), 0);
	assert_int_equal(rows(r, STORE_X_BY_USER), 0);
	assert_int_equal(counts(r, "n1").owned, 3);
	assert_int_equal(counts(r, "n2").coming, 0);
	assert_string_equal(changes_since(r, before),
	                    "assignments:orders/0- assignments:orders/1- assignments:orders/2- "
	                    "schemas:orders/1- topics:orders-");
	assert_int_equal(do_delete(r, "orders", ID1), FSM_TOPIC_NOT_FOUND);
	const struct cmd_name old = { S("orders.eu") };
	assert_int_equal(rig_do(r, CMD_TOPIC_DELETE, &old), 0);
	assert_int_equal(rig_do(r, CMD_TOPIC_DELETE, &old), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(rows(r, STORE_X_TOPIC), 0);
}

/* F38: what was meant for the first topic of a name is refused by the second, and changes nothing of it. */
static void test_recreated_topic_is_another(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_create_with(r, topic_of("orders", ID1, 3), "{\"v\":1}", NULL), 0);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 0, "n2"), 0);
	assert_int_equal(do_create(r, "parent", ID1, 3), 0);
	assert_int_equal(do_delete(r, "orders", ID1), 0);
	assert_int_equal(do_create(r, "orders", ID2, 5), 0);
	const struct fsm_digest before = digest(r);

	assert_int_equal(do_update_if(r, topic_of("orders", ID1, 12), ID1), FSM_TOPIC_CHANGED);
	assert_int_equal(do_delete(r, "orders", ID1), FSM_TOPIC_CHANGED);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), FSM_TOPIC_CHANGED);
	const struct cmd_schema_put_if schema = { S("orders"), 1, S("{\"v\":2}"), S(ID1) };
	assert_int_equal(rig_do(r, CMD_SCHEMA_PUT_IF, &schema), FSM_TOPIC_CHANGED);
	const struct cmd_child_attach_if attach = { { S("parent"), S("orders"), S("aaaaaaaaaaaaaaaa"), 0, { 0 } },
		                                    S(ID1),
		                                    S(ID1) };
	assert_int_equal(rig_do(r, CMD_CHILD_ATTACH_IF, &attach), FSM_CHILD_CHANGED);
	assert_int_equal(do_complete(r, "orders", 0, "n1", "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_abort(r, "orders", 0, "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_target(r, "orders", 0, "n2"), FSM_ASSIGNMENT_NOT_FOUND);

	const struct fsm_digest after = digest(r);
	for (int db = 0; db < STORE_DB_COUNT; db++)
		if (db != STORE_FSM_META)
			assert_int_equal(before.db[db], after.db[db]);
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 0);
	assert_int_equal(rows(r, STORE_SCHEMAS), 0);
	assert_int_equal(rows(r, STORE_X_MOVE), 0);
}

/* A topic of the most partitions keeps every owner, target and version apart. */
static void test_packed_owners_of_many_partitions(void **state)
{
	struct rig *r = *state;
	char name[64];
	assert_int_equal(do_create(r, "wide", ID1, 108), 0);
	raft_index first = r->index + 1;
	for (int p = 0; p < 108; p++) {
		snprintf(name, sizeof(name), "member-%d", p % 7);
		assert_int_equal(do_place(r, "wide", ID1, p, name), 0);
	}
	assert_int_equal(rows(r, STORE_X_UNPLACED), 0);
	assert_int_equal(do_target(r, "wide", 50, "member-new"), 0);
	for (uint32_t p = 0; p < 108; p++) {
		const struct fsm_owner o = owner_at(r, "wide", p);
		snprintf(name, sizeof(name), "member-%u", p % 7);
		assert_true(str_is(o.owner, name));
		assert_int_equal(o.version, p == 50 ? r->index : first + p);
		assert_int_equal(o.move_id, p == 50 ? r->index : 0);
		assert_true(str_is(o.target, p == 50 ? "member-new" : ""));
	}
}

/* Text that could not be read back from a record is refused, not stored. */
static void test_text_with_nul_is_refused(void **state)
{
	struct rig *r = *state;
	struct topic t = topic_of("orders", "ab", 3);
	t.id = (struct str){ "a\0b", 3 };
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), FSM_INVALID);
	assert_int_equal(rows(r, STORE_TOPICS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_create_stores_record_and_packed_owners),
		CASE(test_create_refuses_in_order),
		CASE(test_names_of_any_length_are_listed),
		CASE(test_old_create_allows_twins),
		CASE(test_create_meets_leftovers),
		CASE(test_update_if_keeps_who_the_topic_is),
		CASE(test_old_update_shrinks_and_grows),
		CASE(test_delete_clears_its_rows),
		CASE(test_recreated_topic_is_another),
		CASE(test_packed_owners_of_many_partitions),
		CASE(test_text_with_nul_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
