/* Members: types 6, 7, 8, 18, 19, 20, 31, 64, 66, what moves which version, and the table that readers share. */
#include "fsm_harness.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define NEWEST TEXT(COMMAND_MAX)

static int do_heartbeat(struct rig *r, const char *id, int64_t at)
{
	const struct cmd_member_at c = { str_of(id), at };
	return rig_do(r, CMD_MEMBER_HEARTBEAT, &c);
}

static int do_dead(struct rig *r, const char *id)
{
	const struct cmd_name c = { str_of(id) };
	return rig_do(r, CMD_MEMBER_DEAD, &c);
}

static int do_dead_if(struct rig *r, const char *id, int64_t observed)
{
	const struct cmd_member_dead_if c = { str_of(id), observed };
	return rig_do(r, CMD_MEMBER_DEAD_IF, &c);
}

static int do_draining(struct rig *r, const char *id, bool draining)
{
	const struct cmd_member_draining c = { str_of(id), draining };
	return rig_do(r, CMD_MEMBER_DRAINING, &c);
}

static int do_extra(struct rig *r, const char *id, const char *kind, bool placeable, const struct str_map *tags)
{
	struct member_extra c = { str_of(id), str_of(kind), placeable, { 0 } };
	if (tags)
		c.tags = *tags;
	return rig_do(r, CMD_MEMBER_EXTRA, &c);
}

static int do_cordon(struct rig *r, const char *id, bool cordoned)
{
	const struct cmd_member_cordon c = { str_of(id), cordoned };
	return rig_do(r, CMD_MEMBER_CORDON, &c);
}

static const struct fsm_member *member_at(struct rig *r, const char *id)
{
	const struct fsm_members *m;
	(void)rig_read(r);
	assert_int_equal(fsm_reader_members(&r->reader, &m, NULL), 0);
	return fsm_members_find(m, str_of(id));
}

static raft_index version(struct rig *r, enum fsm_domain d)
{
	raft_index stored_version;
	assert_int_equal(fsm_get_domain_version(rig_read(r), d, &stored_version), 0);
	assert_int_equal(stored_version, fsm_domain_version(r->f, d));
	return stored_version;
}

/* A registration stores the record; a second one replaces everything but `draining`. */
static void test_join_keeps_draining(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_string_equal(stored(r, STORE_MEMBERS, "n1"),
	                    "{\"id\":\"n1\",\"addr\":\"10.0.0.1:7942\",\"cluster_addr\":\"10.0.0.1:7943\","
	                    "\"status\":\"alive\",\"last_heartbeat\":100,\"build\":\"1.0\",\"entry_types\":" NEWEST
	                    "}");
	assert_int_equal(do_draining(r, "n1", true), 0);
	struct member m = member_of("n1", 105);
	m.build = S("1.1");
	m.entry_types = 37;
	assert_int_equal(rig_do(r, CMD_MEMBER_JOIN, &m), 0);
	assert_string_equal(
	    stored(r, STORE_MEMBERS, "n1"),
	    "{\"id\":\"n1\",\"addr\":\"10.0.0.1:7942\",\"cluster_addr\":\"10.0.0.1:7943\","
	    "\"status\":\"alive\",\"last_heartbeat\":105,\"draining\":true,\"build\":\"1.1\",\"entry_types\":37}");
	assert_int_equal(do_draining(r, "n1", false), 0);
	assert_false(member_at(r, "n1")->draining);
	assert_int_equal(do_draining(r, "none", true), FSM_MEMBER_NOT_FOUND);
	m.id = S("bad id");
	assert_int_equal(rig_do(r, CMD_MEMBER_JOIN, &m), FSM_INVALID);
	m = member_of("n1", 100);
	m.status = S("maybe");
	assert_int_equal(rig_do(r, CMD_MEMBER_JOIN, &m), FSM_INVALID);
}

/* Heartbeats that change only the time are stored and counted in digests, but are no change that anyone is told. */
static void test_heartbeats_are_no_changes(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_join(r, "n1", 100), 0);
	const raft_index at = r->index;
	const struct fsm_digest before = digest(r);
	assert_int_equal(do_join(r, "n1", 105), 0);
	assert_int_equal(do_heartbeat(r, "n1", 110), 0);
	assert_non_null(strstr(stored(r, STORE_MEMBERS, "n1"), "\"last_heartbeat\":110"));
	assert_true(before.db[STORE_MEMBERS] != digest(r).db[STORE_MEMBERS]);
	assert_string_equal(changes_since(r, at), "");
	assert_int_equal(version(r, FSM_DOMAIN_MEMBERS), at);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), at);
	assert_int_equal(do_heartbeat(r, "none", 110), FSM_MEMBER_NOT_FOUND);
}

/* The routing version moves when a member is new, removed, or changes address or status, and with nothing else. */
static void test_routing_moves_with_routes_only(void **state)
{
	struct rig *r = *state;
	struct member m = member_of("n1", 100);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), 0);
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), r->index);
	raft_index moved = r->index;
	assert_int_equal(do_draining(r, "n1", true), 0);
	assert_int_equal(version(r, FSM_DOMAIN_MEMBERS), r->index);
	m.build = S("2.0");
	assert_int_equal(rig_do(r, CMD_MEMBER_JOIN, &m), 0);
	assert_int_equal(version(r, FSM_DOMAIN_MEMBERS), r->index);
	assert_int_equal(do_extra(r, "n1", "server", false, NULL), 0);
	assert_int_equal(version(r, FSM_DOMAIN_MEMBERS), r->index);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), moved);
	m.addr = S("10.0.0.9:7942");
	assert_int_equal(rig_do(r, CMD_MEMBER_JOIN, &m), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), r->index);
	assert_int_equal(do_dead(r, "n1"), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), r->index);
	moved = r->index;
	assert_int_equal(do_dead(r, "n1"), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), moved);
	assert_int_equal(rig_do(r, CMD_MEMBER_JOIN, &m), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), r->index);
	assert_int_equal(do_remove(r, "n1"), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), r->index);
	moved = r->index;
	assert_int_equal(do_remove(r, "n1"), 0);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), moved);
}

/* Type 31 judges by the heartbeat it saw: an equal one still counts, a newer one keeps the member alive. */
static void test_dead_mark_yields_to_a_newer_heartbeat(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_join(r, "n1", 100), 0);
	const raft_index at = version(r, FSM_DOMAIN_ROUTING);
	assert_int_equal(do_dead_if(r, "none", 100), FSM_MEMBER_NOT_FOUND);
	assert_int_equal(do_dead_if(r, "n1", 99), FSM_HEARTBEAT_NEWER);
	assert_true(member_at(r, "n1")->alive);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), at);
	assert_int_equal(do_dead_if(r, "n1", 100), 0);
	assert_false(member_at(r, "n1")->alive);
	assert_int_equal(version(r, FSM_DOMAIN_ROUTING), r->index);
	assert_int_equal(do_dead(r, "none"), FSM_MEMBER_NOT_FOUND);
}

/* Removal writes a tombstone that keeps the id out until it is readmitted; both may be repeated. */
static void test_tombstone_keeps_the_id_out(void **state)
{
	struct rig *r = *state;
	int64_t at;
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_int_equal(do_assign(r, "orders", 0, "n1"), 0);
	assert_int_equal(do_extra(r, "n1", "broker", false, NULL), 0);
	assert_int_equal(do_remove(r, "n1"), 0);
	assert_string_equal(stored(r, STORE_REMOVED_MEMBERS, "n1"), "{\"removed_at\":1700000000}");
	assert_int_equal(fsm_get_tombstone(rig_read(r), S("n1"), &at), 0);
	assert_int_equal(at, 1700000000);
	assert_null(member_at(r, "n1"));
	assert_int_equal(counts(r, "n1").owned, 1);
	assert_int_equal(do_join(r, "n1", 200), FSM_MEMBER_REMOVED);
	assert_int_equal(do_heartbeat(r, "n1", 200), FSM_MEMBER_NOT_FOUND);
	const struct cmd_member_at readmit = { S("n1"), 0 };
	assert_int_equal(rig_do(r, CMD_MEMBER_READMIT, &readmit), 0);
	assert_int_equal(rig_do(r, CMD_MEMBER_READMIT, &readmit), 0);
	assert_int_equal(fsm_get_tombstone(rig_read(r), S("n1"), NULL), ERR_NOTFOUND);
	assert_int_equal(do_join(r, "n1", 200), 0);
	const struct fsm_member *m = member_at(r, "n1");
	assert_int_equal(m->kind, FSM_KIND_SERVER);
	assert_true(m->placeable);
	assert_int_equal(do_remove(r, "never-seen"), 0);
	assert_int_equal(do_remove(r, "bad id"), FSM_INVALID);
}

/* Type 64: kind, placeable and tags beside the record; defaults leave no row, and counts stay. */
static void test_extra_stands_beside_the_record(void **state)
{
	struct rig *r = *state;
	const struct str_pair pairs[] = { { S("rack"), S("a\"1") }, { S("zone"), S("eu") } };
	const struct str_map tags = { pairs, 2 };
	const struct str_pair bad_pair = { S("no blank"), S("x") };
	const struct str_map bad = { &bad_pair, 1 };
	assert_int_equal(do_extra(r, "n1", "server", true, NULL), FSM_MEMBER_NOT_FOUND);
	assert_int_equal(do_join(r, "n1", 100), 0);
	assert_int_equal(do_extra(r, "n1", "robot", true, NULL), FSM_INVALID);
	assert_int_equal(do_extra(r, "n1", "broker", true, &bad), FSM_INVALID);
	assert_int_equal(do_extra(r, "n1", "server", true, NULL), 0);
	assert_int_equal(rows(r, STORE_X_MEMBER), 0);
	assert_int_equal(do_assign(r, "orders", 0, "n1"), 0);
	const raft_index before = r->index;
	assert_int_equal(do_extra(r, "n1", "broker", false, &tags), 0);
	assert_string_equal(changes_since(r, before), "members:n1+");
	const struct fsm_member *m = member_at(r, "n1");
	assert_int_equal(m->kind, FSM_KIND_BROKER);
	assert_string_equal(fsm_member_kind_name(m->kind), "broker");
	assert_false(m->placeable);
	assert_true(str_is(m->tags, "{\"rack\":\"a\\\"1\",\"zone\":\"eu\"}"));
	assert_int_equal(counts(r, "n1").owned, 1);
	const raft_index set = r->index;
	assert_int_equal(do_extra(r, "n1", "broker", false, &tags), 0);
	assert_string_equal(changes_since(r, set), "");
	assert_int_equal(do_extra(r, "n1", "server", true, NULL), 0);
	assert_true(str_is(member_at(r, "n1")->tags, "{}"));
	assert_int_equal(counts(r, "n1").owned, 1);
}

/* Type 66: an operator's cordon and the member's own report are two things. Either keeps partitions away, neither
 * undoes the other, and only a removal forgets them. */
static void test_cordon_outlives_reports(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_cordon(r, "n1", true), FSM_MEMBER_NOT_FOUND);
	assert_int_equal(do_join(r, "n1", 100), 0);
	const raft_index before = r->index;
	assert_int_equal(do_cordon(r, "n1", true), 0);
	assert_string_equal(changes_since(r, before), "members:n1+");
	assert_false(member_at(r, "n1")->placeable);
	assert_true(member_at(r, "n1")->offers);
	const raft_index set = r->index;
	assert_int_equal(do_cordon(r, "n1", true), 0);
	assert_string_equal(changes_since(r, set), "");
	assert_int_equal(do_join(r, "n1", 200), 0); /* it registers again, with all it reports */
	assert_int_equal(do_extra(r, "n1", "server", true, NULL), 0);
	assert_false(member_at(r, "n1")->placeable);
	assert_int_equal(do_extra(r, "n1", "server", false, NULL), 0);
	assert_int_equal(do_cordon(r, "n1", false), 0);
	assert_false(member_at(r, "n1")->placeable); /* its own report stands */
	assert_int_equal(do_extra(r, "n1", "server", true, NULL), 0);
	assert_true(member_at(r, "n1")->placeable);
	assert_int_equal(rows(r, STORE_X_MEMBER), 0);
	assert_int_equal(do_cordon(r, "n1", true), 0);
	assert_int_equal(do_assign(r, "orders", 0, "n1"), 0); /* a row with counts keeps it too */
	assert_false(member_at(r, "n1")->placeable);
	assert_int_equal(counts(r, "n1").owned, 1);
	const struct cmd_member_at readmit = { S("n1"), 0 };
	assert_int_equal(do_remove(r, "n1"), 0);
	assert_int_equal(rig_do(r, CMD_MEMBER_READMIT, &readmit), 0);
	assert_int_equal(do_join(r, "n1", 300), 0);
	assert_true(member_at(r, "n1")->placeable);
}

/* The table is ordered, complete, and of the very state that its transaction sees; an old reader keeps its own. */
static void test_table_is_of_the_transaction(void **state)
{
	struct rig *r = *state;
	const struct fsm_members *old, *now, *loaded;
	struct fsm_reader other;
	struct store_txn *txn;
	char id[16];
	for (int i = 20; i > 0; i--) {
		snprintf(id, sizeof(id), "m%d", i);
		assert_int_equal(do_join(r, id, 100), 0);
	}
	fsm_reader_init(&other, r->f);
	assert_int_equal(fsm_read(&other, &txn, NULL), 0);
	assert_int_equal(fsm_reader_members(&other, &old, NULL), 0);
	assert_int_equal(old->count, 20);
	for (size_t i = 1; i < old->count; i++)
		assert_true(str_cmp(old->rows[i - 1].id, old->rows[i].id) < 0);
	assert_ptr_equal(member_at(r, "m7"), fsm_members_find(old, S("m7")));
	assert_null(fsm_members_find(old, S("m")));
	assert_int_equal(do_dead(r, "m7"), 0);
	assert_false(member_at(r, "m7")->alive);
	assert_true(fsm_members_find(old, S("m7"))->alive);
	assert_int_equal(fsm_read(&other, &txn, NULL), 0);
	assert_int_equal(fsm_reader_members(&other, &now, NULL), 0);
	assert_false(fsm_members_find(now, S("m7"))->alive);
	assert_int_equal(fsm_members_load(txn, &loaded), 0);
	assert_int_equal(loaded->count, 20);
	assert_int_equal(loaded->version, now->version);
	fsm_members_unref(loaded);
	fsm_reader_fini(&other);
}

/* Records in order of id, from any one on. */
static void test_records_are_listed_in_order(void **state)
{
	struct rig *r = *state;
	struct fsm_member_iter it;
	struct str id, record;
	assert_int_equal(do_join(r, "b", 1), 0);
	assert_int_equal(do_join(r, "a", 1), 0);
	assert_int_equal(do_join(r, "c", 1), 0);
	assert_int_equal(fsm_member_iter_open(&it, rig_read(r), S("a")), 0);
	assert_int_equal(fsm_member_iter_next(&it, &id, &record), 0);
	assert_true(str_is(id, "b"));
	assert_int_equal(fsm_member_iter_next(&it, &id, &record), 0);
	assert_true(str_is(id, "c"));
	assert_int_equal(fsm_member_iter_next(&it, &id, &record), ERR_NOTFOUND);
	fsm_member_iter_close(&it);
	assert_int_equal(fsm_get_member_record(rig_read(r), S("b"), &record), 0);
	assert_int_equal(fsm_get_member_record(rig_read(r), S("d"), &record), ERR_NOTFOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_join_keeps_draining),
		CASE(test_heartbeats_are_no_changes),
		CASE(test_routing_moves_with_routes_only),
		CASE(test_dead_mark_yields_to_a_newer_heartbeat),
		CASE(test_tombstone_keeps_the_id_out),
		CASE(test_extra_stands_beside_the_record),
		CASE(test_cordon_outlives_reports),
		CASE(test_table_is_of_the_transaction),
		CASE(test_records_are_listed_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
