/* Brokers and lost members: types 67 to 70. */
#include "fsm_harness.h"
#include "model/rules.h"

#define SESSION_1 "1111111111111111"
#define SESSION_2 "2222222222222222"

static struct cmd_member_register registration(const char *id, const char *session, const char *store)
{
	return (struct cmd_member_register){
		.id = str_of(id),
		.addr = S("10.0.0.7:9000"),
		.store_id = str_of(store),
		.session = str_of(session),
		.at = 100,
	};
}

static int do_register(struct rig *r, const char *id, const char *session, const char *store)
{
	const struct cmd_member_register c = registration(id, session, store);
	return rig_do(r, CMD_MEMBER_REGISTER, &c);
}

static int do_session(struct rig *r, const char *id, const char *session)
{
	const struct cmd_member_session c = { str_of(id), str_of(session) };
	return rig_do(r, CMD_MEMBER_SESSION, &c);
}

static int do_lost(struct rig *r, const char *id)
{
	const struct cmd_member_lost c = { str_of(id), 300, S("burnt") };
	return rig_do(r, CMD_MEMBER_LOST, &c);
}

static int do_dead(struct rig *r, const char *id)
{
	const struct cmd_name c = { str_of(id) };
	return rig_do(r, CMD_MEMBER_DEAD, &c);
}

static struct fsm_member_extra extra_of(struct rig *r, const char *id)
{
	struct fsm_member_extra x;
	assert_int_equal(fsm_get_member_extra(rig_read(r), str_of(id), &x), 0);
	return x;
}

/* A registration makes a broker: Narad's record without a cluster address, its kind, tags, session and store. The next
 * one keeps what operators said, and ends the session. */
static void test_newest_registration_wins(void **state)
{
	struct rig *r = *state;
	const struct str_pair tag = { S("rack"), S("a") };
	struct cmd_member_register c = registration("b1", SESSION_1, "disk-1");
	c.tags = (struct str_map){ &tag, 1 };
	assert_int_equal(rig_do(r, CMD_MEMBER_REGISTER, &c), 0);
	assert_string_equal(stored(r, STORE_MEMBERS, "b1"),
	                    "{\"id\":\"b1\",\"addr\":\"10.0.0.7:9000\",\"status\":\"alive\",\"last_heartbeat\":100}");
	struct fsm_member_extra x = extra_of(r, "b1");
	assert_int_equal(x.kind, FSM_KIND_BROKER);
	assert_true(x.placeable && str_is(x.tags, "{\"rack\":\"a\"}") && str_is(x.labels, "{}"));
	assert_true(str_is(x.session, SESSION_1) && str_is(x.store_id, "disk-1"));
	assert_int_equal(do_session(r, "b1", SESSION_1), 0);

	const struct str_pair label = { S("zone"), S("x") };
	const struct cmd_member_labels labels = { S("b1"), { &label, 1 } };
	const struct cmd_member_cordon cordon = { S("b1"), true };
	const struct cmd_member_draining drain = { S("b1"), true };
	assert_int_equal(rig_do(r, CMD_MEMBER_LABELS, &labels), 0);
	assert_int_equal(rig_do(r, CMD_MEMBER_CORDON, &cordon), 0);
	assert_int_equal(rig_do(r, CMD_MEMBER_DRAINING, &drain), 0);
	assert_int_equal(do_dead(r, "b1"), 0);
	assert_int_equal(do_register(r, "b1", SESSION_2, ""), 0);
	x = extra_of(r, "b1");
	assert_true(x.cordoned && !x.placeable && str_is(x.labels, "{\"zone\":\"x\"}") && str_is(x.tags, "{}"));
	assert_true(str_is(x.store_id, "disk-1")); /* not said: as it was */
	assert_string_equal(stored(r, STORE_MEMBERS, "b1"),
	                    "{\"id\":\"b1\",\"addr\":\"10.0.0.7:9000\",\"status\":\"alive\",\"last_heartbeat\":100,"
	                    "\"draining\":true}");
	assert_int_equal(do_session(r, "b1", SESSION_1), FSM_SESSION_REPLACED);
	assert_int_equal(do_session(r, "b1", SESSION_2), 0);
	assert_int_equal(do_session(r, "b1", ""), FSM_SESSION_REPLACED);
	assert_int_equal(do_session(r, "b2", SESSION_2), FSM_MEMBER_NOT_FOUND);
}

/* Refusals in their order: what no record could hold, a tombstone, a server's id, another store. None leaves a trace.
 */
static void test_registration_is_refused(void **state)
{
	struct rig *r = *state;
	struct cmd_member_register c = registration("b1", "short", "");
	assert_int_equal(rig_do(r, CMD_MEMBER_REGISTER, &c), FSM_INVALID);
	c = registration("b1", SESSION_1, "");
	c.addr = S("nowhere");
	assert_int_equal(rig_do(r, CMD_MEMBER_REGISTER, &c), FSM_INVALID);
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_int_equal(do_register(r, "n1", SESSION_1, ""), FSM_MEMBER_IS_SERVER);
	assert_int_equal(do_session(r, "n1", SESSION_1), FSM_MEMBER_IS_SERVER);

	assert_int_equal(do_register(r, "b1", SESSION_1, ""), 0);
	assert_int_equal(do_remove(r, "b1"), 0);
	assert_int_equal(do_register(r, "b1", SESSION_2, ""), FSM_MEMBER_REMOVED);
	assert_string_equal(stored(r, STORE_MEMBERS, "b1"), "");
	c = registration("b1", SESSION_2, "");
	c.fresh = true;
	assert_int_equal(rig_do(r, CMD_MEMBER_REGISTER, &c), 0);
	assert_string_equal(stored(r, STORE_REMOVED_MEMBERS, "b1"), "");
	assert_int_equal(do_register(r, "b1", SESSION_1, ""), 0);
}

/* A member that comes back with another disk does not own by it what the old disk held. */
static void test_another_store(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_register(r, "b1", SESSION_1, "disk-1"), 0);
	assert_int_equal(do_register(r, "b2", SESSION_1, "disk-9"), 0);
	assert_int_equal(do_register(r, "b1", SESSION_2, "disk-2"), 0); /* nothing names it */
	assert_int_equal(do_create(r, "orders", "0123456789abcdef", 3), 0);
	assert_int_equal(do_place(r, "orders", "0123456789abcdef", 0, "b1"), 0);
	assert_int_equal(do_place(r, "orders", "0123456789abcdef", 1, "b2"), 0);
	assert_int_equal(do_target(r, "orders", 1, "b1"), 0);
	assert_int_equal(do_register(r, "b1", SESSION_1, "disk-3"), FSM_STORE_CHANGED);
	assert_int_equal(do_session(r, "b1", SESSION_2), 0);
	assert_int_equal(do_register(r, "b1", SESSION_1, "disk-2"), 0);
	assert_int_equal(counts(r, "b1").owned, 1);

	struct cmd_member_register c = registration("b1", SESSION_2, "disk-3");
	c.accept_data_loss = true;
	assert_int_equal(rig_do(r, CMD_MEMBER_REGISTER, &c), 0);
	assert_true(owner_at(r, "orders", 0).owner.len == 0);
	assert_true(str_is(owner_at(r, "orders", 1).owner, "b2") && owner_at(r, "orders", 1).target.len == 0);
	assert_int_equal(counts(r, "b1").owned + counts(r, "b1").coming, 0);
	assert_true(str_is(extra_of(r, "b1").store_id, "disk-3"));
}

/* A dead member that will not come back: what it alone held is unplaced, moves to it end, its id is a tombstone's. */
static void test_lost(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_lost(r, "b1"), FSM_MEMBER_NOT_FOUND);
	assert_int_equal(do_register(r, "b1", SESSION_1, "disk-1"), 0);
	assert_int_equal(do_register(r, "b2", SESSION_1, ""), 0);
	assert_int_equal(do_create(r, "orders", "0123456789abcdef", 3), 0);
	for (int64_t p = 0; p < 3; p++)
		assert_int_equal(do_place(r, "orders", "0123456789abcdef", p, p < 2 ? "b1" : "b2"), 0);
	assert_int_equal(do_target(r, "orders", 1, "b2"), 0);
	assert_int_equal(do_target(r, "orders", 2, "b1"), 0);
	assert_int_equal(do_assign(r, "gone", 0, "b1"), 0); /* an orphan */
	assert_int_equal(do_lost(r, "b1"), FSM_MEMBER_ALIVE);
	assert_int_equal(do_dead(r, "b1"), 0);
	const raft_index at = r->index;
	assert_int_equal(do_lost(r, "b1"), 0);
	for (uint32_t p = 0; p < 3; p++) {
		const struct fsm_owner o = owner_at(r, "orders", p);
		assert_true(str_is(o.owner, p < 2 ? "" : "b2") && o.target.len == 0);
	}
	assert_int_equal(rows(r, STORE_X_BY_MEMBER), 1);
	assert_int_equal(rows(r, STORE_X_ORPHAN), 0);
	assert_string_equal(stored(r, STORE_MEMBERS, "b1"), "");
	assert_string_equal(stored(r, STORE_REMOVED_MEMBERS, "b1"), "{\"removed_at\":300}");
	assert_non_null(strstr(changes_since(r, at), "assignments:orders/0+"));
	assert_non_null(strstr(changes_since(r, at), "members:b1-"));
	assert_int_equal(do_lost(r, "b1"), FSM_MEMBER_NOT_FOUND);
}

/* Copies: a lost leader's partition waits for one of those in sync, a lost follower leaves the set, and a set of one is
 * placed anew. With another store a member stays in its sets, out of sync. */
static void test_copies_of_lost_members(void **state)
{
	struct rig *r = *state;
	static const struct str both[] = { STR_LIT("b1"), STR_LIT("b2") }, alone[] = { STR_LIT("b1") };
	static const struct str turned[] = { STR_LIT("b2"), STR_LIT("b1") };
	const struct str id = S("0123456789abcdef");
	const struct cmd_topic_replicas two = { .topic = S("orders"),
		                                .expect_id = id,
		                                .replicas = { .value = 2, .set = true } };
	const struct cmd_replicas_place place[] = { { S("orders"), id, 0, { both, 2 } },
		                                    { S("orders"), id, 1, { turned, 2 } },
		                                    { S("orders"), id, 2, { alone, 1 } } };
	struct fsm_replicas set;
	assert_int_equal(do_register(r, "b1", SESSION_1, "disk-1"), 0);
	assert_int_equal(do_register(r, "b2", SESSION_1, ""), 0);
	assert_int_equal(do_create(r, "orders", "0123456789abcdef", 3), 0);
	assert_int_equal(rig_do(r, CMD_TOPIC_REPLICAS, &two), 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(rig_do(r, CMD_REPLICAS_PLACE, &place[i]), 0);

	struct cmd_member_register c = registration("b1", SESSION_2, "disk-2");
	c.accept_data_loss = true;
	assert_int_equal(rig_do(r, CMD_MEMBER_REGISTER, &c), 0);
	assert_int_equal(fsm_get_replicas(rig_read(r), S("orders"), 0, &set), 0);
	assert_true(set.count == 2 && !fsm_replicas_find(&set, S("b1"))->in_sync);
	assert_true(owner_at(r, "orders", 0).owner.len == 0 && owner_at(r, "orders", 0).leaderless);
	assert_true(str_is(owner_at(r, "orders", 1).owner, "b2"));
	assert_true(owner_at(r, "orders", 2).owner.len == 0 && !owner_at(r, "orders", 2).leaderless);

	assert_int_equal(do_dead(r, "b1"), 0);
	assert_int_equal(do_lost(r, "b1"), 0);
	assert_int_equal(fsm_get_replicas(rig_read(r), S("orders"), 0, &set), 0);
	assert_true(set.count == 1 && set.items[0].in_sync && str_is(set.items[0].id, "b2"));
	assert_int_equal(counts(r, "b1").follows, 0);
}

/* Labels are merged key by key, bounded, and no change when they say what is there. */
static void test_member_labels(void **state)
{
	struct rig *r = *state;
	const struct str_pair set[] = { { S("a"), S("1") }, { S("b"), S("<2>") } };
	const struct str_pair change[] = { { S("a"), { NULL, 0 } }, { S("c"), S("3") } };
	struct cmd_member_labels c = { S("n1"), { set, 2 } };
	assert_int_equal(rig_do(r, CMD_MEMBER_LABELS, &c), FSM_MEMBER_NOT_FOUND);
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_int_equal(rig_do(r, CMD_MEMBER_LABELS, &c), 0);
	raft_index at = r->index;
	assert_int_equal(rig_do(r, CMD_MEMBER_LABELS, &c), 0);
	assert_string_equal(changes_since(r, at), "");
	c.labels = (struct str_map){ change, 2 };
	assert_int_equal(rig_do(r, CMD_MEMBER_LABELS, &c), 0);
	assert_true(str_is(extra_of(r, "n1").labels, "{\"b\":\"\\u003c2\\u003e\",\"c\":\"3\"}"));
	assert_string_equal(changes_since(r, at), "members:n1+");

	struct str_pair many[LABELS_MAX];
	char keys[LABELS_MAX][8];
	for (size_t i = 0; i < LABELS_MAX; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%02zu", i);
		many[i] = (struct str_pair){ str_of(keys[i]), S("v") };
	}
	c.labels = (struct str_map){ many, LABELS_MAX };
	assert_int_equal(rig_do(r, CMD_MEMBER_LABELS, &c), FSM_INVALID);
	assert_int_equal(do_remove(r, "n1"), 0);
	assert_int_equal(do_join(r, "n1", 100), FSM_MEMBER_REMOVED);
	assert_int_equal(rows(r, STORE_X_MEMBER), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_newest_registration_wins, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_registration_is_refused, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_another_store, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_lost, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_copies_of_lost_members, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_member_labels, rig_setup, rig_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
