/* Settings: patched, taken back, refused; what is published, kept over a restart, and told to watchers. */
#include "fsm_harness.h"

#include "fsm/settings.h"

static int do_set(struct rig *r, const char *name, int64_t value, bool set)
{
	const struct cmd_setting c = { str_of(name), { .value = value, .set = set } };
	return rig_do(r, CMD_SETTING, &c);
}

/* A patched value counts until it is taken back; a restart keeps it; nothing is told of what changes nothing. */
static void test_settings_are_patched_and_taken_back(void **state)
{
	struct rig *r = *state;
	int64_t v;
	assert_int_equal(fsm_setting_value(r->f, FSM_SETTING_MAX_MOVES, 5), 5);
	assert_int_equal(do_set(r, "max_moves", 0, true), 0);
	assert_int_equal(fsm_setting_value(r->f, FSM_SETTING_MAX_MOVES, 5), 0);
	assert_int_equal(fsm_get_setting(rig_read(r), FSM_SETTING_MAX_MOVES, &v), 0);
	assert_int_equal(v, 0);
	assert_string_equal(changes_since(r, 0), "settings:max_moves+");
	const raft_index before = r->index;
	assert_int_equal(do_set(r, "max_moves", 0, true), 0);
	assert_int_equal(do_set(r, "dead_after_s", 0, false), 0);
	assert_string_equal(changes_since(r, before), "");
	rig_close(r, true);
	rig_open(r);
	assert_int_equal(fsm_setting_value(r->f, FSM_SETTING_MAX_MOVES, 5), 0);
	assert_int_equal(do_set(r, "max_moves", 0, false), 0);
	assert_int_equal(fsm_setting_value(r->f, FSM_SETTING_MAX_MOVES, 5), 5);
	assert_int_equal(fsm_get_setting(rig_read(r), FSM_SETTING_MAX_MOVES, &v), ERR_NOTFOUND);
	assert_string_equal(changes_since(r, r->index - 1), "settings:max_moves-");
}

/* Unknown names and values out of bounds leave nothing, and neither does what stands before them in the entry. */
static void test_settings_are_bounded(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_set(r, "max_move", 1, true), FSM_INVALID);
	for (int s = 0; s < FSM_SETTING_COUNT; s++) {
		const struct fsm_setting_info *i = &fsm_settings[s];
		assert_int_equal(do_set(r, i->name, i->least - 1, true), FSM_INVALID);
		assert_int_equal(do_set(r, i->name, i->most + 1, true), FSM_INVALID);
		assert_in_range(i->value, i->least, i->most);
	}
	struct entry_builder b;
	const struct cmd_setting good = { S("max_moves"), { .value = 3, .set = true } };
	const struct cmd_setting bad = { S("min_voters"), { .value = 0, .set = true } };
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_SETTING, &good);
	entry_builder_add(&b, CMD_SETTING, &bad);
	assert_int_equal(rig_run(r, &b).refusal, FSM_INVALID);
	assert_int_equal(fsm_setting_value(r->f, FSM_SETTING_MAX_MOVES, 5), 5);
	assert_int_equal(rows(r, STORE_X_SETTINGS), 0);
	assert_string_equal(changes_since(r, 0), "");
}

/* What is published belongs to what is committed: a refused entry behind a good one in a batch takes nothing back. */
static void test_settings_survive_a_refusal_behind_them(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_set(r, "replica_lag", 7, true), 0);
	assert_int_equal(do_set(r, "replica_lag", -1, true), FSM_INVALID);
	assert_int_equal(fsm_setting_value(r->f, FSM_SETTING_REPLICA_LAG, 1), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_settings_are_patched_and_taken_back),
		CASE(test_settings_are_bounded),
		CASE(test_settings_survive_a_refusal_behind_them),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
