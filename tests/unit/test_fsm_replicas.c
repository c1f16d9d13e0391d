/* Types 80 to 84: copies of partitions, their leaders and who of them has everything that was acknowledged. */
#include "fsm_harness.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"
#define KEEP ((struct opt_i64){ 0 })

static struct str_list ids_of(const char *words, struct str out[8])
{
	static char text[4][128];
	static unsigned turn;
	char *copy = text[turn++ % 4];
	size_t n = 0;
	char *rest;
	snprintf(copy, sizeof(text[0]), "%s", words);
	for (char *w = strtok_r(copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		out[n++] = str_of(w);
	return (struct str_list){ out, n };
}

static int do_replicas(struct rig *r, const char *topic, const char *id, int64_t n)
{
	const struct cmd_topic_replicas c = { str_of(topic), str_of(id), { .value = n, .set = true }, { 0 }, KEEP };
	return rig_do(r, CMD_TOPIC_REPLICAS, &c);
}

static int do_place_all(struct rig *r, const char *topic, const char *id, int64_t p, const char *members)
{
	struct str out[8];
	const struct cmd_replicas_place c = { str_of(topic), str_of(id), p, ids_of(members, out) };
	return rig_do(r, CMD_REPLICAS_PLACE, &c);
}

static int do_lead(struct rig *r, int64_t p, uint64_t epoch, const char *leader, bool unclean)
{
	const struct cmd_leader_change c = { S("orders"), S(ID1), p, epoch, str_of(leader), unclean, S("") };
	return rig_do(r, CMD_LEADER_CHANGE, &c);
}

static int do_sync(struct rig *r, int64_t p, uint64_t epoch, const char *replica, bool in_sync)
{
	const struct cmd_in_sync_change c = { S("orders"), S(ID1), p, epoch, str_of(replica), in_sync };
	return rig_do(r, CMD_IN_SYNC_CHANGE, &c);
}

static int do_change(struct rig *r, int64_t p, uint64_t epoch, const char *add, const char *remove)
{
	const struct cmd_replicas_change c = { S("orders"), S(ID1), p, epoch, str_of(add), str_of(remove), S("") };
	return rig_do(r, CMD_REPLICAS_CHANGE, &c);
}

/* "2 n1* n2* n3>n4": epoch, then copies, * in sync, > whom it replaces; "" when the partition has none. */
static const char *set_of(struct rig *r, const char *topic, uint32_t p)
{
	static char text[512];
	struct fsm_replicas set;
	assert_int_equal(fsm_get_replicas(rig_read(r), str_of(topic), p, &set), 0);
	size_t at = 0;
	text[0] = '\0';
	if (set.count > 0)
		at = (size_t)snprintf(text, sizeof(text), "%" PRIu64, set.epoch);
	for (size_t i = 0; i < set.count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, " " STR_FMT "%s%s" STR_FMT,
		                       STR_ARG(set.items[i].id), set.items[i].in_sync ? "*" : "",
		                       set.items[i].replaces.len ? ">" : "", STR_ARG(set.items[i].replaces));
	return text;
}

static void assert_owner(struct rig *r, uint32_t p, const char *owner, bool leaderless)
{
	const struct fsm_owner o = owner_at(r, "orders", p);
	assert_true(str_is(o.owner, owner));
	assert_int_equal(o.leaderless, leaderless);
	assert_int_equal(o.version, r->index);
}

/* A topic of three copies, one partition of which is placed. */
static void make_orders(struct rig *r)
{
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_replicas(r, "orders", ID1, 3), 0);
	assert_int_equal(do_place_all(r, "orders", ID1, 1, "n1 n2 n3"), 0);
}

/* Placed as a whole: a leader at epoch 1, all in sync; Narad's row names the leader, each member finds its copy. */
static void test_copies_are_placed_together(void **state)
{
	struct rig *r = *state;
	make_orders(r);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2* n3*");
	assert_owner(r, 1, "n1", false);
	assert_string_equal(stored(r, STORE_ASSIGNMENTS, "orders:1"),
	                    "{\"topic\":\"orders\",\"partition\":1,\"owner_id\":\"n1\"}");
	assert_int_equal(counts(r, "n1").owned, 1);
	assert_int_equal(counts(r, "n1").leads, 1);
	assert_int_equal(counts(r, "n1").follows, 0);
	assert_int_equal(counts(r, "n2").owned, 0);
	assert_int_equal(counts(r, "n2").follows, 1);
	assert_string_equal(changes_since(r, r->index - 1), "assignments:orders/1+");
	struct fsm_place_iter it;
	struct fsm_place p;
	assert_int_equal(fsm_held_open(&it, rig_read(r), S("n3"), NULL), 0);
	assert_int_equal(fsm_place_next(&it, &p), 0);
	assert_int_equal(p.roles, FSM_ROLE_REPLICA);
	fsm_place_close(&it);
}

/* Refused in order, and nothing changes. */
static void test_placing_copies_is_refused_in_order(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_place_all(r, "orders", "", 9, ""), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_place_all(r, "orders", ID2, 9, ""), FSM_TOPIC_CHANGED);
	assert_int_equal(do_place_all(r, "orders", ID1, 9, ""), FSM_NOT_REPLICATED);
	assert_int_equal(do_replicas(r, "orders", ID1, 3), 0);
	assert_int_equal(do_place_all(r, "orders", ID1, 3, ""), FSM_PARTITION_RANGE);
	assert_int_equal(do_place_all(r, "orders", ID1, -1, "n1"), FSM_PARTITION_RANGE);
	assert_int_equal(do_place_all(r, "orders", ID1, 0, ""), FSM_INVALID);
	assert_int_equal(do_place_all(r, "orders", ID1, 0, "n1 n2 n1"), FSM_INVALID);
	assert_int_equal(do_join(r, "gone", 5), 0);
	assert_int_equal(do_remove(r, "gone"), 0);
	assert_int_equal(do_place_all(r, "orders", ID1, 0, "n1 gone"), FSM_INVALID);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), FSM_REPLICATED);
	assert_int_equal(do_place_all(r, "orders", ID1, 0, "n1 n2"), 0);
	assert_int_equal(do_place_all(r, "orders", ID1, 0, "n3 n4"), FSM_PARTITION_ASSIGNED);
	assert_string_equal(set_of(r, "orders", 0), "1 n1* n2*");
}

/* What knows of one owner only does nothing to a partition with copies. */
static void test_single_owner_commands_keep_off(void **state)
{
	struct rig *r = *state;
	make_orders(r);
	assert_int_equal(do_assign(r, "orders", 1, "n9"), FSM_REPLICATED);
	assert_int_equal(do_target(r, "orders", 1, "n9"), FSM_REPLICATED);
	assert_int_equal(do_prune(r, "orders", 1), FSM_ASSIGNMENT_LIVE);
	struct topic fewer = topic_of("orders", ID1, 1);
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE, &fewer), FSM_REPLICATED);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2* n3*");
}

/* The next epoch: the old leader stays, and is out of sync until it followed. An epoch never comes again. */
static void test_a_leader_follows_another(void **state)
{
	struct rig *r = *state;
	make_orders(r);
	assert_int_equal(do_lead(r, 1, 1, "n2", false), 0);
	assert_string_equal(set_of(r, "orders", 1), "2 n2* n1 n3*");
	assert_owner(r, 1, "n2", false);
	assert_int_equal(counts(r, "n1").owned, 0);
	assert_int_equal(counts(r, "n1").follows, 1);
	assert_int_equal(counts(r, "n2").leads, 1);
	assert_int_equal(do_lead(r, 1, 1, "n3", false), FSM_STALE_EPOCH);
	assert_int_equal(do_lead(r, 1, 2, "n1", false), FSM_NOT_IN_SYNC);
	assert_int_equal(do_lead(r, 1, 2, "n9", true), FSM_NOT_IN_SYNC);
	assert_int_equal(do_lead(r, 1, 2, "n2", false), FSM_PARTITION_ASSIGNED);
	assert_string_equal(set_of(r, "orders", 1), "2 n2* n1 n3*");
	/* Unclean: what only the others have is given up, so none of them is in sync any more. */
	assert_int_equal(do_lead(r, 1, 2, "n1", true), 0);
	assert_string_equal(set_of(r, "orders", 1), "3 n1* n2 n3");
}

/* Without a leader the partition is not unplaced, its epoch stays, and who was in sync may lead when back. */
static void test_nobody_leads(void **state)
{
	struct rig *r = *state;
	uint64_t topics, partitions;
	make_orders(r);
	assert_int_equal(do_sync(r, 1, 1, "n2", false), 0);
	assert_int_equal(do_sync(r, 1, 1, "n3", false), 0);
	assert_int_equal(do_lead(r, 1, 1, "", false), 0);
	assert_owner(r, 1, "", true);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2 n3");
	assert_string_equal(stored(r, STORE_ASSIGNMENTS, "orders:1"), "");
	assert_string_equal(changes_since(r, r->index - 1), "assignments:orders/1+");
	assert_int_equal(counts(r, "n1").owned, 0);
	assert_int_equal(counts(r, "n1").follows, 1);
	assert_int_equal(fsm_count_unplaced(rig_read(r), &topics, &partitions), 0);
	assert_int_equal(partitions, 2); /* the two that were never placed */
	assert_int_equal(do_place_all(r, "orders", ID1, 1, "n7"), FSM_PARTITION_ASSIGNED);
	assert_int_equal(do_sync(r, 1, 1, "n2", true), FSM_STALE_EPOCH);
	assert_int_equal(do_lead(r, 1, 1, "", false), 0);
	assert_int_equal(do_lead(r, 1, 1, "n2", false), FSM_NOT_IN_SYNC);
	assert_int_equal(do_change(r, 1, 1, "", "n1"), FSM_LAST_IN_SYNC);
	rig_check(r);
	assert_int_equal(do_lead(r, 1, 1, "n1", false), 0);
	assert_string_equal(set_of(r, "orders", 1), "2 n1* n2 n3");
	assert_owner(r, 1, "n1", false);
}

/* Only the leader of the epoch says who is in sync; itself always is; a stranger becomes a copy. */
static void test_the_in_sync_set_changes(void **state)
{
	struct rig *r = *state;
	make_orders(r);
	assert_int_equal(do_sync(r, 1, 2, "n2", false), FSM_STALE_EPOCH);
	assert_int_equal(do_sync(r, 1, 1, "n1", false), FSM_LAST_IN_SYNC);
	assert_int_equal(do_sync(r, 1, 1, "n2", false), 0);
	const raft_index before = r->index;
	assert_int_equal(do_sync(r, 1, 1, "n2", false), 0);
	assert_int_equal(do_sync(r, 1, 1, "n1", true), 0);
	assert_string_equal(changes_since(r, before), "");
	assert_int_equal(do_sync(r, 1, 1, "n4", false), 0);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2 n3* n4");
	assert_int_equal(counts(r, "n4").follows, 1);
	assert_int_equal(do_sync(r, 0, 1, "n2", true), FSM_ASSIGNMENT_NOT_FOUND);
	assert_int_equal(do_sync(r, 3, 1, "n2", true), FSM_PARTITION_RANGE);
	assert_int_equal(do_create(r, "single", ID2, 3), 0);
	assert_int_equal(do_place(r, "single", ID2, 0, "n1"), 0);
	const struct cmd_in_sync_change other = { S("single"), S(ID2), 0, 1, S("n2"), true };
	assert_int_equal(rig_do(r, CMD_IN_SYNC_CHANGE, &other), FSM_NOT_REPLICATED);
}

/* One copy more, one less; one in place of another only once it is in sync, a leader's once it no longer leads. */
static void test_copies_come_and_go(void **state)
{
	struct rig *r = *state;
	make_orders(r);
	assert_int_equal(do_change(r, 1, 1, "", ""), FSM_INVALID);
	assert_int_equal(do_change(r, 1, 1, "n2", ""), FSM_PARTITION_ASSIGNED);
	assert_int_equal(do_change(r, 1, 1, "", "n9"), FSM_NOT_IN_SYNC);
	assert_int_equal(do_change(r, 1, 1, "", "n1"), FSM_LAST_IN_SYNC);
	assert_int_equal(do_change(r, 1, 1, "n4", "n3"), 0);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2* n3* n4>n3");
	assert_int_equal(do_sync(r, 1, 1, "n4", true), 0);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2* n4*");
	assert_int_equal(counts(r, "n3").follows, 0);
	assert_int_equal(do_change(r, 1, 1, "n5", "n1"), 0);
	assert_int_equal(do_sync(r, 1, 1, "n5", true), 0);
	assert_string_equal(set_of(r, "orders", 1), "1 n1* n2* n4* n5*>n1");
	assert_int_equal(do_lead(r, 1, 1, "n5", false), 0);
	assert_string_equal(set_of(r, "orders", 1), "2 n5* n2* n4*");
	/* Whoever was to go and is taken out by another way leaves nobody waiting for it. */
	assert_int_equal(do_change(r, 1, 2, "n6", "n2"), 0);
	assert_int_equal(do_change(r, 1, 2, "", "n2"), 0);
	assert_string_equal(set_of(r, "orders", 1), "2 n5* n4* n6");
	assert_int_equal(do_change(r, 1, 1, "n7", ""), FSM_STALE_EPOCH);
}

/* A topic that gets copies keeps its owners as leaders; one that loses them keeps the leaders as owners. */
static void test_a_topic_gets_and_loses_copies(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_place(r, "orders", ID1, 0, "n1"), 0);
	assert_int_equal(do_place(r, "orders", ID1, 1, "n2"), 0);
	assert_int_equal(do_target(r, "orders", 1, "n3"), 0);
	assert_int_equal(do_replicas(r, "orders", ID2, 2), FSM_TOPIC_CHANGED);
	assert_int_equal(do_replicas(r, "orders", ID1, 0), FSM_INVALID);
	assert_int_equal(do_replicas(r, "orders", ID1, FSM_REPLICAS_MAX + 1), FSM_INVALID);
	assert_int_equal(do_replicas(r, "orders", ID1, 2), FSM_MOVE_CHANGED);
	assert_int_equal(do_abort(r, "orders", 1, "n3"), 0);
	assert_int_equal(do_replicas(r, "orders", ID1, 2), 0);
	assert_true(topic_there(r, "orders", &t));
	assert_true(t.replicated);
	assert_true(str_is(t.tail, ",\"role\":\"standalone\",\"replicas\":2,\"unclean\":false,\"labels\":{}"));
	assert_string_equal(set_of(r, "orders", 0), "1 n1*");
	assert_string_equal(set_of(r, "orders", 2), "");
	assert_int_equal(do_lead(r, 0, 1, "", false), 0);
	assert_int_equal(do_replicas(r, "orders", ID1, 1), FSM_NOT_IN_SYNC);
	assert_int_equal(do_lead(r, 0, 1, "n1", false), 0);
	assert_int_equal(do_replicas(r, "orders", ID1, 1), 0);
	assert_string_equal(set_of(r, "orders", 0), "");
	assert_owner(r, 0, "n1", false);
	assert_true(topic_there(r, "orders", &t));
	assert_false(t.replicated);
	assert_int_equal(rows(r, STORE_X_LABELS), 0);
	assert_int_equal(rows(r, STORE_X_REPLICAS), 0);
}

/* The topic takes all along, copies that nobody leads too, and a new one of the name has none of them. */
static void test_copies_go_with_their_topic(void **state)
{
	struct rig *r = *state;
	make_orders(r);
	assert_int_equal(do_place_all(r, "orders", ID1, 2, "n2 n1"), 0);
	assert_int_equal(do_lead(r, 2, 1, "", false), 0);
	assert_int_equal(do_delete(r, "orders", ID1), 0);
	assert_int_equal(rows(r, STORE_X_REPLICAS), 0);
	assert_int_equal(rows(r, STORE_X_BY_MEMBER), 0);
	assert_int_equal(counts(r, "n1").follows + counts(r, "n2").follows + counts(r, "n3").follows, 0);
	assert_int_equal(do_create(r, "orders", ID2, 3), 0);
	assert_int_equal(do_lead(r, 1, 1, "n2", false), FSM_TOPIC_CHANGED);
	assert_string_equal(set_of(r, "orders", 1), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_copies_are_placed_together),
		CASE(test_placing_copies_is_refused_in_order),
		CASE(test_single_owner_commands_keep_off),
		CASE(test_a_leader_follows_another),
		CASE(test_nobody_leads),
		CASE(test_the_in_sync_set_changes),
		CASE(test_copies_come_and_go),
		CASE(test_a_topic_gets_and_loses_copies),
		CASE(test_copies_go_with_their_topic),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
