/* Moves as veena makes them: types 72 to 75. */
#include "fsm_harness.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"

static int do_set(struct rig *r, const char *id, const char *owner, const char *from, const char *to, int64_t max)
{
	const struct cmd_move_set_if c = { S("orders"), 0, str_of(id), str_of(owner), str_of(from), str_of(to), max };
	return rig_do(r, CMD_MOVE_SET_IF, &c);
}

static int do_flip(struct rig *r, const char *id, uint64_t move_id, const char *owner, const char *to)
{
	const struct cmd_move_complete_if c = { S("orders"), 0, str_of(id), move_id, str_of(owner), str_of(to) };
	return rig_do(r, CMD_MOVE_COMPLETE_IF, &c);
}

static int do_stop(struct rig *r, const char *id, uint64_t move_id)
{
	const struct cmd_move_abort_if c = { S("orders"), 0, str_of(id), move_id };
	return rig_do(r, CMD_MOVE_ABORT_IF, &c);
}

static int do_pin(struct rig *r, int64_t p, bool pinned)
{
	const struct cmd_partition_pin c = { S("orders"), p, S(ID1), pinned };
	return rig_do(r, CMD_PARTITION_PIN, &c);
}

static void world(struct rig *r)
{
	static const char *const ids[] = { "a", "b", "c" };
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(do_join(r, ids[i], 100), 0);
	assert_int_equal(do_place(r, "orders", ID1, 0, "a"), 0);
	assert_int_equal(do_place(r, "orders", ID1, 1, "a"), 0);
}

/* A move is refused when topic, owner or target is not what was read, and to a member that may be given nothing. */
static void test_set_compares_and_judges_the_target(void **state)
{
	struct rig *r = *state;
	world(r);
	assert_int_equal(do_set(r, ID2, "a", "", "b", 0), FSM_TOPIC_CHANGED);
	assert_int_equal(do_set(r, ID1, "b", "", "c", 0), FSM_MOVE_CHANGED);
	assert_int_equal(do_set(r, ID1, "a", "c", "b", 0), FSM_MOVE_CHANGED);
	assert_int_equal(do_set(r, ID1, "a", "", "a", 0), FSM_ALREADY_OWNER);
	assert_int_equal(do_set(r, ID1, "a", "", "x", 0), FSM_MEMBER_NOT_FOUND);
	assert_int_equal(do_set(r, ID1, "a", "", "", 0), FSM_INVALID);
	const struct cmd_member_draining drain = { S("b"), true };
	assert_int_equal(rig_do(r, CMD_MEMBER_DRAINING, &drain), 0);
	assert_int_equal(do_set(r, ID1, "a", "", "b", 0), FSM_TARGET_DRAINING);
	const struct cmd_member_cordon cordon = { S("c"), true };
	assert_int_equal(rig_do(r, CMD_MEMBER_CORDON, &cordon), 0);
	assert_int_equal(do_set(r, ID1, "a", "", "c", 0), FSM_TARGET_NOT_PLACEABLE);
	const struct cmd_member_dead_if dead = { S("c"), 100 };
	assert_int_equal(rig_do(r, CMD_MEMBER_DEAD_IF, &dead), 0);
	assert_int_equal(do_set(r, ID1, "a", "", "c", 0), FSM_TARGET_NOT_ALIVE);
	assert_int_equal(rows(r, STORE_X_MOVE), 0);
}

/* The bound counts moves under way and not the one that is sent elsewhere. */
static void test_set_keeps_to_the_bound(void **state)
{
	struct rig *r = *state;
	world(r);
	assert_int_equal(do_target(r, "orders", 1, "b"), 0);
	assert_int_equal(do_set(r, ID1, "a", "", "b", 1), FSM_MOVE_LIMIT);
	assert_int_equal(do_set(r, ID1, "a", "", "b", 2), 0);
	const raft_index set_at = r->index;
	assert_int_equal(do_set(r, ID1, "a", "", "c", 0), FSM_MOVE_IN_FLIGHT);
	assert_int_equal(do_set(r, ID1, "a", "b", "b", 2), 0);
	assert_int_equal(owner_at(r, "orders", 0).move_id, set_at);
	assert_int_equal(do_set(r, ID1, "a", "b", "c", 2), 0);
	assert_int_equal(owner_at(r, "orders", 0).move_id, r->index);
}

/* F36: the flip names its move, may be asked for twice, and not for the move before. */
static void test_F36_complete_names_its_move(void **state)
{
	struct rig *r = *state;
	world(r);
	assert_int_equal(do_set(r, ID1, "a", "", "b", 0), 0);
	const uint64_t first = r->index;
	assert_int_equal(do_stop(r, ID1, first + 1), FSM_MOVE_CHANGED);
	assert_int_equal(do_stop(r, ID1, first), 0);
	assert_int_equal(do_stop(r, ID1, first), FSM_NO_MOVE);
	assert_int_equal(do_flip(r, ID1, first, "a", "b"), FSM_MOVE_CHANGED);
	assert_int_equal(do_set(r, ID1, "a", "", "b", 0), 0);
	const uint64_t second = r->index;
	assert_int_equal(do_flip(r, ID1, first, "a", "b"), FSM_MOVE_CHANGED);
	assert_int_equal(do_flip(r, ID2, second, "a", "b"), FSM_TOPIC_CHANGED);
	assert_int_equal(do_flip(r, ID1, second, "a", "b"), 0);
	assert_true(str_is(owner_at(r, "orders", 0).owner, "b"));
	const raft_index flipped = r->index;
	assert_int_equal(do_flip(r, ID1, second, "a", "b"), 0);
	assert_string_equal(changes_since(r, flipped), "");
}

/* A pin stays through moves, goes with the row, and is a change that is seen. */
static void test_pin_stays_with_the_partition(void **state)
{
	struct rig *r = *state;
	world(r);
	assert_int_equal(do_pin(r, 2, true), FSM_ASSIGNMENT_NOT_FOUND);
	raft_index before = r->index;
	assert_int_equal(do_pin(r, 0, true), 0);
	assert_string_equal(changes_since(r, before), "assignments:orders/0+");
	assert_true(owner_at(r, "orders", 0).pinned);
	assert_int_equal(owner_at(r, "orders", 0).version, r->index);
	before = r->index;
	assert_int_equal(do_pin(r, 0, true), 0);
	assert_string_equal(changes_since(r, before), "");
	assert_int_equal(do_set(r, ID1, "a", "", "b", 0), 0);
	assert_int_equal(do_flip(r, ID1, r->index, "a", "b"), 0);
	assert_true(owner_at(r, "orders", 0).pinned);
	assert_false(owner_at(r, "orders", 1).pinned);
	assert_int_equal(do_pin(r, 0, false), 0);
	assert_false(owner_at(r, "orders", 0).pinned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_set_compares_and_judges_the_target),
		CASE(test_set_keeps_to_the_bound),
		CASE(test_F36_complete_names_its_move),
		CASE(test_pin_stays_with_the_partition),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
