/* Assignments and moves: types 5, 15, 16, 17, 29, 30, and the lists that are found by index. */
#include "fsm_harness.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"

static void two_topics(struct rig *r)
{
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_create(r, "mail", ID2, 3), 0);
}

/* "topic/partition:roles" of a walk, blank-separated. */
static const char *walk(struct fsm_place_iter *it)
{
	static char text[2048];
	struct fsm_place p;
	size_t at = 0;
	int rc;
	text[0] = '\0';
	while ((rc = fsm_place_next(it, &p)) == 0)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s" STR_FMT "/%u:%u", at ? " " : "",
		                       STR_ARG(p.topic), p.partition, p.roles);
	assert_int_equal(rc, ERR_NOTFOUND);
	fsm_place_close(it);
	return text;
}

static const char *held(struct rig *r, const char *member, const struct fsm_place *after)
{
	struct fsm_place_iter it;
	assert_int_equal(fsm_held_open(&it, rig_read(r), str_of(member), after), 0);
	return walk(&it);
}

static const char *moves(struct rig *r, const struct fsm_place *after)
{
	struct fsm_place_iter it;
	assert_int_equal(fsm_moves_open(&it, rig_read(r), after), 0);
	return walk(&it);
}

static const char *orphans(struct rig *r)
{
	struct fsm_place_iter it;
	assert_int_equal(fsm_orphans_open(&it, rig_read(r), NULL), 0);
	return walk(&it);
}

/* Type 29: each refusal in its order leaves no row; an unknown member is accepted, a removed one is not. */
static void test_place_refuses_in_order(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_remove(r, "gone"), 0);
	assert_int_equal(do_place(r, "none", ID1, 9, ""), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_place(r, "orders", ID2, 9, ""), FSM_TOPIC_CHANGED);
	assert_int_equal(do_place(r, "orders", ID1, 3, ""), FSM_PARTITION_RANGE);
	assert_int_equal(do_place(r, "orders", ID1, -1, ""), FSM_PARTITION_RANGE);
	assert_int_equal(do_place(r, "orders", ID1, 0, ""), FSM_INVALID);
	assert_int_equal(do_place(r, "orders", ID1, 0, "gone"), FSM_INVALID);
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 0);
	assert_int_equal(do_place(r, "orders", ID1, 0, "unknown"), 0);
	assert_int_equal(do_place(r, "orders", ID1, 0, "other"), FSM_PARTITION_ASSIGNED);
	assert_string_equal(stored(r, STORE_ASSIGNMENTS, "orders:0"),
	                    "{\"topic\":\"orders\",\"partition\":0,\"owner_id\":\"unknown\"}");
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 1);
}

/* Type 5 is blind: any topic, any index, replaces the owner and drops the target. What no key can hold is invalid. */
static void test_assign_is_blind(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_assign(r, "orders", 0, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 0, "n2"), 0);
	assert_int_equal(do_assign(r, "orders", 0, "n3"), 0);
	const struct fsm_owner o = owner_at(r, "orders", 0);
	assert_true(str_is(o.owner, "n3"));
	assert_int_equal(o.target.len, 0);
	assert_int_equal(o.move_id, 0);
	assert_int_equal(o.version, r->index);
	assert_int_equal(rows(r, STORE_X_MOVE), 0);
	assert_int_equal(counts(r, "n1").owned + counts(r, "n2").coming, 0);
	const struct assignment with_target = { S("orders"), 0, S("n1"), S("n2") };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_do(r, CMD_PARTITION_ASSIGN, &with_target), 0);
		assert_int_equal(owner_at(r, "orders", 0).move_id, r->index);
		assert_int_equal(counts(r, "n1").leaving, 1);
	}
	assert_int_equal(do_assign(r, "orders", 0, "n3"), 0);
	assert_int_equal(do_assign(r, "ghost", 70, "n1"), 0);
	assert_int_equal(do_assign(r, "orders", 65535, "n1"), 0);
	assert_string_equal(orphans(r), "ghost/70:0 orders/65535:0");
	assert_int_equal(do_assign(r, "orders", 65536, "n1"), FSM_INVALID);
	assert_int_equal(do_assign(r, "orders", -1, "n1"), FSM_INVALID);
	assert_int_equal(do_assign(r, "or:ders", 1, "n1"), FSM_INVALID);
	assert_int_equal(do_assign(r, "", 1, "n1"), FSM_INVALID);
	assert_int_equal(do_assign(r, "orders", 1, ""), FSM_INVALID);
}

/* A move: target, flip, and the flip asked for again. Versions and the move's id are log indexes. */
static void test_move_flips_once(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_place(r, "orders", ID1, 1, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 1, "n2"), 0);
	const raft_index set_at = r->index;
	struct fsm_owner o = owner_at(r, "orders", 1);
	assert_true(str_is(o.owner, "n1") && str_is(o.target, "n2"));
	assert_int_equal(o.move_id, set_at);
	assert_int_equal(counts(r, "n1").owned, 1);
	assert_int_equal(counts(r, "n1").leaving, 1);
	assert_int_equal(counts(r, "n2").coming, 1);
	assert_string_equal(moves(r, NULL), "orders/1:2");

	/* the same target again is no change */
	const raft_index before = r->index;
	assert_int_equal(do_target(r, "orders", 1, "n2"), 0);
	assert_string_equal(changes_since(r, before), "");
	assert_int_equal(owner_at(r, "orders", 1).move_id, set_at);

	assert_int_equal(do_complete(r, "orders", 1, "n3", "n2"), FSM_MOVE_CHANGED);
	assert_int_equal(do_complete(r, "orders", 1, "n1", "n3"), FSM_MOVE_CHANGED);
	assert_int_equal(do_complete(r, "orders", 1, "n1", ""), FSM_INVALID);
	assert_int_equal(do_complete(r, "orders", 1, "n1", "n2"), 0);
	o = owner_at(r, "orders", 1);
	assert_true(str_is(o.owner, "n2"));
	assert_int_equal(o.target.len, 0);
	assert_int_equal(o.version, r->index);
	const raft_index flipped = r->index;
	assert_int_equal(do_complete(r, "orders", 1, "n1", "n2"), 0);
	assert_string_equal(changes_since(r, flipped), "");
	assert_int_equal(do_complete(r, "orders", 2, "n1", "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_complete(r, "none", 0, "n1", "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_complete(r, "orders", -1, "n1", "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(counts(r, "n2").owned, 1);
	assert_int_equal(counts(r, "n1").owned + counts(r, "n1").leaving + counts(r, "n2").coming, 0);
}

/* Without an empty target there is no way to flip an owner away. */
static void test_complete_never_unplaces(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), 0);
	assert_int_equal(do_complete(r, "orders", 0, "n1", ""), FSM_INVALID);
	assert_true(str_is(owner_at(r, "orders", 0).owner, "n1"));
}

/* A target may be changed and cleared; an abort clears only the target it names, and nothing else is no refusal. */
static void test_targets_clear_and_abort(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_target(r, "orders", 0, "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_abort(r, "orders", 0, "n2"), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 0, "bad name"), FSM_INVALID);
	assert_int_equal(do_target(r, "orders", 0, "n2"), 0);
	const raft_index first = r->index;
	assert_int_equal(do_target(r, "orders", 0, "n3"), 0);
	assert_int_equal(owner_at(r, "orders", 0).move_id, first + 1);
	assert_int_equal(counts(r, "n2").coming, 0);
	assert_int_equal(counts(r, "n3").coming, 1);
	const raft_index before = r->index;
	assert_int_equal(do_abort(r, "orders", 0, "n2"), 0);
	assert_int_equal(do_abort(r, "orders", 0, ""), 0);
	assert_string_equal(changes_since(r, before), "");
	assert_int_equal(do_abort(r, "orders", 0, "n3"), 0);
	assert_int_equal(owner_at(r, "orders", 0).target.len, 0);
	assert_int_equal(do_abort(r, "orders", 0, "n3"), 0);
	assert_int_equal(do_target(r, "orders", 0, "n2"), 0);
	assert_int_equal(do_target(r, "orders", 0, ""), 0);
	assert_int_equal(counts(r, "n1").leaving + counts(r, "n2").coming, 0);
	assert_string_equal(moves(r, NULL), "");
}

/* A member that is owner and target of one partition holds it once, in both roles. */
static void test_owner_may_be_its_own_target(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 0, "n1"), 0);
	assert_string_equal(held(r, "n1", NULL), "orders/0:3");
	const struct fsm_member_counts n = counts(r, "n1");
	assert_int_equal(n.owned, 1);
	assert_int_equal(n.coming, 1);
	assert_int_equal(n.leaving, 1);
	assert_int_equal(fsm_member_load(&n), 1);
	rig_check(r);
	assert_int_equal(do_complete(r, "orders", 0, "n1", "n1"), 0);
	assert_string_equal(held(r, "n1", NULL), "orders/0:1");
}

/* Lists by member and of moves, from any place on. */
static void test_lists_begin_behind_a_place(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	for (int p = 0; p < 3; p++) {
		assert_int_equal(do_place(r, "orders", ID1, p, "n1"), 0);
		assert_int_equal(do_place(r, "mail", ID2, p, p == 1 ? "n10" : "n1"), 0);
	}
	assert_int_equal(do_target(r, "mail", 1, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 2, "n10"), 0);
	assert_string_equal(held(r, "n1", NULL), "mail/0:1 mail/1:2 mail/2:1 orders/0:1 orders/1:1 orders/2:1");
	assert_string_equal(held(r, "n10", NULL), "mail/1:1 orders/2:2");
	assert_string_equal(held(r, "n1", &(struct fsm_place){ S("mail"), 2, 0 }), "orders/0:1 orders/1:1 orders/2:1");
	assert_string_equal(held(r, "n1", &(struct fsm_place){ S("orders"), 2, 0 }), "");
	assert_string_equal(held(r, "n", NULL), "");
	assert_string_equal(held(r, "", NULL), "");
	assert_string_equal(moves(r, NULL), "mail/1:2 orders/2:2");
	assert_string_equal(moves(r, &(struct fsm_place){ S("mail"), 1, 0 }), "orders/2:2");
	uint64_t n;
	assert_int_equal(fsm_count_moves(rig_read(r), &n), 0);
	assert_int_equal(n, 2);
	assert_int_equal(fsm_count_assignments(rig_read(r), &n), 0);
	assert_int_equal(n, 6);
	struct str record;
	assert_int_equal(fsm_get_assignment_record(rig_read(r), S("mail"), 1, &record), 0);
	assert_true(str_is(record, "{\"topic\":\"mail\",\"partition\":1,\"owner_id\":\"n10\",\"target_id\":\"n1\"}"));
	assert_int_equal(fsm_get_assignment_record(rig_read(r), S("mail"), 3, &record), ERR_NOTFOUND);
}

/* Type 30 takes rows of gone topics and past the count, never a live one, and each only once. */
static void test_prune_takes_orphans_only(void **state)
{
	struct rig *r = *state;
	two_topics(r);
	assert_int_equal(do_place(r, "orders", ID1, 2, "n1"), 0);
	assert_int_equal(do_assign(r, "orders", 3, "n1"), 0);
	assert_int_equal(do_assign(r, "ghost", 0, "n1"), 0);
	assert_string_equal(orphans(r), "ghost/0:0 orders/3:0");
	assert_int_equal(do_prune(r, "orders", 2), FSM_ASSIGNMENT_LIVE);
	assert_int_equal(do_prune(r, "orders", 1), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_prune(r, "orders", 3), 0);
	assert_int_equal(do_prune(r, "orders", 3), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_prune(r, "ghost", 0), 0);
	assert_string_equal(orphans(r), "");
	assert_int_equal(counts(r, "n1").owned, 1);
	assert_int_equal(rows(r, STORE_ASSIGNMENTS), 1);
}

/* A create and its placements are one entry: all of it, or nothing when one placement is refused. */
static void test_create_with_placements_is_one_entry(void **state)
{
	struct rig *r = *state;
	struct entry_builder b;
	struct fsm_topic t;
	for (int bad = 1; bad >= 0; bad--) {
		const struct cmd_topic_create_with create = { .topic = topic_of("orders", ID1, 3) };
		entry_builder_init(&b);
		entry_builder_add(&b, CMD_TOPIC_CREATE_WITH, &create);
		for (int p = 0; p < 3; p++) {
			const struct cmd_partition_place place = { S("orders"), p, p == 1 && bad ? NONE : S("n1"),
				                                   S(ID1) };
			entry_builder_add(&b, CMD_PARTITION_PLACE, &place);
		}
		const struct fsm_result result = rig_run(r, &b);
		assert_int_equal(result.refusal, bad ? FSM_INVALID : 0);
		assert_int_equal(result.command, bad ? 2 : 0);
		assert_int_equal(topic_there(r, "orders", &t), !bad);
		assert_int_equal(counts(r, "n1").owned, bad ? 0 : 3);
		assert_int_equal(rows(r, STORE_X_UNPLACED), 0);
	}
	assert_string_equal(changes_since(r, 0),
	                    "topics:orders+ assignments:orders/0+ assignments:orders/1+ assignments:orders/2+");
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	assert_int_equal(fsm_changes_seek(r->f, 1, &pos), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(fsm_changes_next(r->f, &pos, &c), 0);
		assert_int_equal(c.index, 2);
		assert_int_equal(c.more, i < 3);
	}
	fsm_changes_leave(&pos);
}

/* The one place that says a partition's state: without an owner it waits, with a dead one that counts before a move. */
static void test_state_of_a_partition(void **state)
{
	(void)state;
	struct fsm_owner o = { .owner = { "", 0 } };
	assert_string_equal(fsm_assignment_state(&o, false), "unplaced");
	o.leaderless = true;
	assert_string_equal(fsm_assignment_state(&o, false), "leaderless");
	o = (struct fsm_owner){ .owner = S("a") };
	assert_string_equal(fsm_assignment_state(&o, true), "placed");
	assert_string_equal(fsm_assignment_state(&o, false), "owner_dead");
	o.target = S("b");
	assert_string_equal(fsm_assignment_state(&o, true), "moving");
	assert_string_equal(fsm_assignment_state(&o, false), "owner_dead");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_place_refuses_in_order),
		CASE(test_assign_is_blind),
		CASE(test_move_flips_once),
		CASE(test_complete_never_unplaces),
		CASE(test_targets_clear_and_abort),
		CASE(test_owner_may_be_its_own_target),
		CASE(test_lists_begin_behind_a_place),
		CASE(test_prune_takes_orphans_only),
		cmocka_unit_test(test_state_of_a_partition),
		CASE(test_create_with_placements_is_one_entry),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
