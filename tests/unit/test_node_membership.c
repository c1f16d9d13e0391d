/* Changes of the configuration: who comes in and how, who goes and what it hears, and what is refused. */
#include "tests/unit/node_trio.h"

/* Three servers that know each other by --peers, and two more that know nobody. */
static int setup(void **state)
{
	const int rc = world_setup(state, 5);
	struct world *w = *state;
	for (size_t i = 0; i < 5; i++) {
		w->nodes[i].options.peer_count = i < 3 ? 3 : 0;
		w->nodes[i].options.bootstrap = false;
	}
	return rc;
}

static struct node_change *make_change(enum node_change_kind kind, const char *id, const char *addr, bool voter)
{
	struct node_change *c = node_change_new();
	c->kind = kind;
	c->voter = voter;
	c->min_voters = 1;
	snprintf(c->id, sizeof(c->id), "%s", id);
	snprintf(c->addr, sizeof(c->addr), "%s", addr);
	return c;
}

static void ask(struct world *w, size_t i, struct node_change *c)
{
	c->reply = (struct node_reply_to){ .queue = w->nodes[i].done, .slot = 9, .generation = 7 };
	assert_true(node_ask_change(w->nodes[i].node, c));
}

/* Asks node i and waits for the answer; the sentence of a refusal must hold `says`. */
static int change(struct world *w, size_t i, struct node_change *c, const char *says)
{
	ask(w, i, c);
	const int code = world_wait(w, i).code;
	if (!strstr(c->why, says))
		fail_msg("\"%s\" does not say \"%s\" (code %d)", c->why, says, code);
	node_change_unref(c);
	return code;
}

static int set_server(struct world *w, size_t i, size_t server, bool voter, const char *says)
{
	return change(w, i, make_change(NODE_CHANGE_SERVER, w->nodes[server].name, w->nodes[server].addr, voter), says);
}

static int remove_server(struct world *w, size_t i, size_t server, const char *says)
{
	return change(w, i, make_change(NODE_CHANGE_REMOVE, w->nodes[server].name, "", false), says);
}

/* The server's place in the configuration that node i goes by; NULL: none. */
static const struct raft_server *server(struct world *w, size_t i, size_t of)
{
	static struct node_status s;
	s = world_status(w, i);
	return raft_conf_find_name(&s.conf, w->nodes[of].name);
}

static bool is_voter(struct world *w, size_t i, size_t of)
{
	const struct raft_server *s = server(w, i, of);
	return s && s->voter;
}

static bool is_learner(struct world *w, size_t i, size_t of)
{
	const struct raft_server *s = server(w, i, of);
	return s && !s->voter;
}

static enum node_fault why_not(struct world *w, size_t leader, size_t of, char *why, size_t cap)
{
	const struct node_status s = world_status(w, leader);
	for (uint32_t i = 0; i < s.conf.count; i++) {
		if (strcmp(s.conf.servers[i].name, w->nodes[of].name) == 0)
			return node_promotion_fault(&s, i, world_mono_ms, why, cap);
	}
	fail_msg("%s is not in the configuration", w->nodes[of].name);
	return NODE_FAULT_UNKNOWN;
}

static bool is_promotable(struct world *w, size_t leader, size_t of)
{
	char why[256];
	return is_learner(w, leader, of) && why_not(w, leader, of, why, sizeof(why)) == NODE_FAULT_NONE;
}

static void wipe(struct world *w, size_t i)
{
	world_stop(w, i);
	world_remove_tree(w->nodes[i].dir);
}

static void fill(struct world *w, size_t leader, const char *prefix, int count)
{
	for (int i = 0; i < count; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s%d", prefix, i);
		world_create(w, leader, name);
	}
}

/* Creates without waiting for anybody but the log: more entries than a bound, quickly. */
static void flood(struct world *w, size_t leader, const char *prefix, int count)
{
	for (int i = 0; i < count; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s%d", prefix, i);
		world_propose(w, leader, name, 1);
	}
	for (int i = 0; i < count; i++)
		assert_int_equal(world_wait(w, leader).code, 0);
}

/* ---- coming in ---- */

/* Added as a voter, a server is a learner first, and votes when it has caught up; the wish stands in the configuration
 * meanwhile, and nothing that others write is held back for it. */
static void test_new_voter_is_a_learner_first(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	fill(w, leader, "before", 20);
	world_start(w, 3);
	assert_int_equal(set_server(w, leader, 3, true, ""), 0);
	assert_true(is_learner(w, leader, 3) && server(w, leader, 3)->staged);
	assert_true(world_status(w, leader).cluster_min_type == fsm_max_known_type());
	world_until(w, is_voter(w, leader, 3));
	assert_false(server(w, leader, 3)->staged);
	world_until(w, is_voter(w, 3, 3) && world_status(w, 3).registered);
	expect_equal_states(w);
	assert_int_equal(set_server(w, leader, 3, true, ""), 0); /* once more: all is as asked */
	assert_int_equal(world_status(w, leader).conf.count, 4);
}

/* Added as a learner it stays one, and says what stands in the way of more: nothing, once it keeps up. */
static void test_learner_stays_one_until_promoted(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	world_start(w, 3);
	assert_int_equal(set_server(w, leader, 3, false, ""), 0);
	assert_true(is_learner(w, leader, 3) && !server(w, leader, 3)->staged);
	world_until(w, is_promotable(w, leader, 3));
	world_run(w, 3000);
	assert_true(is_learner(w, leader, 3));
	assert_int_equal(set_server(w, leader, 3, true, ""), 0);
	assert_true(is_voter(w, leader, 3));
	assert_int_equal(set_server(w, leader, 3, false, ""), 0); /* and back */
	assert_true(is_learner(w, leader, 3) && !server(w, leader, 3)->staged);
	world_run(w, 3000);
	assert_true(is_learner(w, leader, 3));
}

/* F11: promoting a learner that lags is refused with how far it is behind, and one that is silent with that. */
static void test_F11_lagging_learner_is_not_promoted(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	world_start(w, 3);
	assert_int_equal(set_server(w, leader, 3, false, ""), 0);
	world_until(w, is_promotable(w, leader, 3));
	w->nodes[3].deaf = true; /* it answers, and its disk takes nothing */
	flood(w, leader, "more", 300);
	world_run(w, 500);
	assert_int_equal(set_server(w, leader, 3, true, "entries behind"), NODE_CHANGE_BEHIND);
	w->nodes[3].frozen = true;
	world_run(w, 1000);
	w->nodes[3].deaf = false;
	assert_int_equal(set_server(w, leader, 3, true, "n4 cannot be promoted"), NODE_CHANGE_BEHIND);
	assert_true(is_learner(w, leader, 3));
	w->nodes[3].frozen = false;
	world_until(w, is_promotable(w, leader, 3));
}

/* F11: a server that is not there changes nothing, and the one voter goes on. */
static void test_F11_absent_server_changes_nothing(void **state)
{
	struct world *w = *state;
	w->nodes[0].options.peer_count = 0;
	w->nodes[0].options.bootstrap = true;
	world_start(w, 0);
	world_until(w, world_leader(w) == 0);
	const uint64_t asked = world_mono_ms;
	assert_int_equal(set_server(w, 0, 3, true, "no veenad answers at 127.0.0.1:7004"), NODE_CHANGE_UNREACHABLE);
	assert_in_range(world_mono_ms - asked, 1, 5000);
	assert_int_equal(world_status(w, 0).conf.count, 1);
	world_create(w, 0, "goes-on");
}

/* F11: neither does one of another name, of another cluster, or of an older release. */
static void test_F11_unfit_server_is_refused(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	world_start(w, 3);
	assert_int_equal(change(w, leader, make_change(NODE_CHANGE_SERVER, "n9", w->nodes[3].addr, true),
	                        "the server at 127.0.0.1:7004 is n4, not n9"),
	                 NODE_CHANGE_UNREACHABLE);
	world_stop(w, 3);
	w->nodes[3].options.max_entry_type = 22;
	world_start(w, 3);
	assert_int_equal(set_server(w, leader, 3, true, "entry types up to 22"), NODE_CHANGE_OLDER);
	w->nodes[4].options.bootstrap = true;
	world_start(w, 4);
	world_until(w, node_is_leader(w->nodes[4].node));
	assert_int_equal(set_server(w, leader, 4, true, "another cluster"), NODE_CHANGE_OTHER_CLUSTER);
	assert_int_equal(
	    change(w, leader, make_change(NODE_CHANGE_SERVER, "n9", w->nodes[1].addr, true), "n2 has the address"),
	    NODE_CHANGE_TAKEN);
	assert_int_equal(change(w, leader, make_change(NODE_CHANGE_SERVER, "n9", "", true), "no server n9"),
	                 NODE_CHANGE_UNKNOWN);
	assert_int_equal(world_status(w, leader).conf.count, 3);
}

/* A server with --join asks whoever it knows, a follower too, until it is in; with --learner it is never promoted. */
static void test_joiner_asks_until_it_is_in(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t follower = other_than(w, leader, leader);
	const char *const join[] = { w->nodes[follower].addr };
	for (size_t i = 3; i < 5; i++) {
		w->nodes[i].options.join = join;
		w->nodes[i].options.join_count = 1;
	}
	w->nodes[4].options.learner = true;
	world_start(w, 3);
	world_start(w, 4);
	world_until(w, is_voter(w, leader, 3) && is_learner(w, leader, 4));
	world_until(w, world_status(w, 4).registered);
	world_run(w, 5000);
	assert_true(is_learner(w, leader, 4));
	assert_int_equal(set_server(w, leader, 4, true, "--learner"), NODE_CHANGE_NO_VOTE);
	char why[256];
	assert_int_equal(why_not(w, leader, 4, why, sizeof(why)), NODE_FAULT_LEARNER);
	assert_string_equal(why, "it was started with --learner");
	expect_equal_states(w);
}

/* A joiner waits for a leader: what nobody could answer is asked again. */
static void test_joiner_waits_for_a_leader(void **state)
{
	struct world *w = *state;
	size_t leader = start_three(w);
	const char *const join[] = { w->nodes[0].addr, w->nodes[1].addr, w->nodes[2].addr };
	w->nodes[3].options.join = join;
	w->nodes[3].options.join_count = 3;
	for (size_t i = 0; i < 3; i++)
		isolate(w, i, true);
	world_until(w, world_leader(w) == WORLD_NODES);
	for (size_t i = 0; i < 3; i++)
		cut(w, i, 3, false);
	world_start(w, 3);
	world_run(w, 5000);
	assert_false(world_status(w, 3).configured);
	for (size_t i = 0; i < 3; i++)
		isolate(w, i, false);
	world_until(w, world_leader(w) < WORLD_NODES);
	leader = world_leader(w);
	world_until(w, is_voter(w, leader, 3));
}

/* The log a joiner reads begins with configurations that know neither it nor its leader: both the leader and the first
 * server have other directories since. It comes in all the same. */
static void test_joiner_reads_configurations_of_before(void **state)
{
	struct world *w = *state;
	size_t leader = start_three(w);
	for (size_t i = 0; i < 3; i++) {
		wipe(w, i);
		world_until(w, world_leader(w) < WORLD_NODES);
		world_start(w, i);
		world_until(w, world_leader(w) < WORLD_NODES && is_voter(w, world_leader(w), i) &&
		                   world_status(w, i).registered);
	}
	leader = world_leader(w);
	const char *const join[] = { w->nodes[leader].addr };
	w->nodes[3].options.join = join;
	w->nodes[3].options.join_count = 1;
	world_start(w, 3);
	world_until(w, is_voter(w, leader, 3));
	expect_equal_states(w);
}

/* The wish for a vote outlives the leader that was told of it. */
static void test_next_leader_promotes(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	fill(w, leader, "before", 5);
	world_start(w, 3);
	w->nodes[3].deaf = true; /* it cannot catch up yet */
	assert_int_equal(set_server(w, leader, 3, true, ""), 0);
	world_run(w, 3000);
	assert_true(is_learner(w, leader, 3));
	world_stop(w, leader);
	w->nodes[3].deaf = false;
	const size_t next = await_leader_but(w, leader);
	world_until(w, is_voter(w, next, 3));
}

/* ---- wiped disks ---- */

/* F12: a wiped server under its old id is nobody until it was taken in as a learner; then it catches up and votes. */
static void test_F12_wiped_voter_comes_back_as_a_learner(void **state)
{
	struct world *w = *state;
	size_t leader = start_three(w);
	fill(w, leader, "before", 20);
	const size_t victim = other_than(w, leader, leader);
	const node_id before = server(w, leader, victim)->id;
	wipe(w, victim);
	world_start(w, victim);
	world_run(w, 1000);
	assert_true(server(w, leader, victim)->id == before); /* who was heard a moment ago is not replaced yet */
	world_until(w, server(w, leader, victim)->id != before);
	assert_true(is_learner(w, leader, victim) && server(w, leader, victim)->staged);
	world_until(w, is_voter(w, leader, victim) && world_status(w, victim).registered);
	expect_equal_states(w);
}

/* F12: a wiped server and a stale one are no majority, whatever the stale one remembers of the name. */
static void test_F12_wiped_and_stale_elect_nobody(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t wiped = other_than(w, leader, leader);
	const size_t stale = other_than(w, leader, wiped);
	world_stop(w, stale);
	fill(w, leader, "acknowledged", 10);
	world_stop(w, leader);
	wipe(w, wiped);
	world_start(w, stale);
	world_start(w, wiped);
	world_run(w, 20000);
	assert_int_equal(world_leader(w), WORLD_NODES);
	assert_false(world_status(w, wiped).configured);
	world_start(w, leader);
	world_until(w, world_leader(w) == leader); /* the other lacks what was acknowledged */
	assert_true(world_has_topic(w, leader, "acknowledged9"));
	world_until(w, is_voter(w, leader, wiped));
	expect_equal_states(w);
}

/* Another server under the id of one that lives gets nothing: two machines were given one name. */
static void test_id_in_use_is_not_given_away(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t owner = other_than(w, leader, leader);
	const node_id before = server(w, leader, owner)->id;
	const char *const join[] = { w->nodes[leader].addr };
	struct world_node *twin = &w->nodes[3];
	snprintf(twin->name, sizeof(twin->name), "%s", w->nodes[owner].name);
	twin->options.join = join;
	twin->options.join_count = 1;
	world_start(w, 3);
	world_run(w, 10000);
	assert_false(world_status(w, 3).configured);
	assert_true(server(w, leader, owner)->id == before && is_voter(w, leader, owner));
	assert_true(world_logged("another server with the id"));
	assert_int_equal(set_server(w, leader, 3, true, "another server with the id"), NODE_CHANGE_TAKEN);
}

/* ---- going ---- */

/* A removed server hears it, disturbs nobody, does not come back by itself, and does when it is added anew. */
static void test_removed_server_stays_out(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const char *const join[] = { w->nodes[leader].addr };
	w->nodes[3].options.join = join;
	w->nodes[3].options.join_count = 1;
	world_start(w, 3);
	world_until(w, is_voter(w, leader, 3) && is_voter(w, 3, 3));
	const raft_term term = world_status(w, leader).term;
	assert_int_equal(remove_server(w, leader, 3, ""), 0);
	assert_int_equal(world_status(w, leader).conf.count, 3);
	world_until(w, world_status(w, 3).removed);
	world_run(w, 5000);
	world_stop(w, 3);
	world_start(w, 3); /* it has forgotten that it was told */
	world_run(w, 30000);
	assert_true(world_status(w, 3).removed);
	assert_int_equal(world_status(w, leader).conf.count, 3);
	assert_true(world_leader(w) == leader && world_status(w, leader).term == term);
	assert_int_equal(set_server(w, leader, 3, true, ""), 0);
	world_until(w, is_voter(w, leader, 3) && is_voter(w, 3, 3) && !world_status(w, 3).removed);
	assert_int_equal(world_status(w, leader).term, term);
	expect_equal_states(w);
}

static void commit(struct world *w, size_t i, enum command_type type, const void *command)
{
	const struct entry_header h = { .origin = STR_LIT("n1") };
	struct slab *entry = NULL;
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, type, command);
	assert_int_equal(entry_builder_finish(&b, &h, &entry, NULL), 0);
	entry_builder_fini(&b);
	world_propose_entry(w, i, entry, 1, 0, type);
	assert_int_equal(world_wait(w, i).code, 0);
}

/* A server that was decommissioned left a tombstone. Added anew by an operator it is a member again, by itself. */
static void test_tombstone_goes_with_an_admission(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const char *const join[] = { w->nodes[leader].addr };
	const struct cmd_member_at gone = { str_of(w->nodes[3].name), 5 };
	w->nodes[3].options.join = join;
	w->nodes[3].options.join_count = 1;
	world_start(w, 3);
	world_until(w, is_voter(w, leader, 3) && is_voter(w, 3, 3));
	assert_int_equal(remove_server(w, leader, 3, ""), 0);
	commit(w, leader, CMD_MEMBER_REMOVE, &gone);
	world_until(w, world_status(w, 3).removed);
	assert_int_equal(set_server(w, leader, 3, true, ""), 0);
	world_until(w, is_voter(w, leader, 3)); /* only who is registered is promoted */
	assert_true(world_logged("member.readmitted"));
	expect_equal_states(w);
}

/* An id that a broker registered is not given to a server: the gate would count neither. */
static void test_brokers_id_is_no_servers(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const struct cmd_member_register broker = {
		.id = str_of(w->nodes[3].name), .addr = STR_LIT("h:1"), .session = STR_LIT("0123456789abcdef"), .at = 5
	};
	commit(w, leader, CMD_MEMBER_REGISTER, &broker);
	world_start(w, 3);
	assert_int_equal(set_server(w, leader, 3, true, "a broker is registered"), NODE_CHANGE_TAKEN);
	assert_int_equal(world_status(w, leader).conf.count, 3);
	/* It reports no entry types, and holds nothing back (F26). */
	assert_int_equal(world_status(w, leader).cluster_min_type, fsm_max_known_type());
	const struct node_status st = world_status(w, leader);
	assert_null(node_held_back_by(&st, fsm_max_known_type()));
}

/* A leader may remove itself: it is answered, knows that it is no member any more, and another leads. */
static void test_leader_removes_itself(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	assert_int_equal(remove_server(w, leader, leader, ""), 0);
	world_until(w, world_status(w, leader).removed);
	const size_t next = await_leader_but(w, leader);
	assert_int_equal(world_status(w, next).conf.count, 2);
	world_create(w, next, "goes-on");
	world_run(w, 20000);
	assert_int_equal(world_leader(w), next);
	assert_null(server(w, next, leader));
}

/* F09: removed while it was cut off, back with its old configuration, then added as a learner: the leader stays. */
static void test_F09_cut_off_server_is_removed(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t gone = other_than(w, leader, leader);
	isolate(w, gone, true);
	world_run(w, 30000);
	const raft_term term = world_status(w, leader).term;
	assert_int_equal(remove_server(w, leader, gone, ""), 0);
	fill(w, leader, "without", 10);
	isolate(w, gone, false);
	world_until(w, world_status(w, gone).removed);
	world_run(w, 5000);
	assert_true(world_leader(w) == leader && world_status(w, leader).term == term);
	assert_int_equal(set_server(w, leader, gone, false, ""), 0);
	world_until(w, is_promotable(w, leader, gone));
	expect_equal_states(w);
	assert_true(world_leader(w) == leader && world_status(w, leader).term == term);
	assert_false(world_status(w, gone).removed);
}

/* Who would be left decides: not fewer voters than asked for, and a majority of them that answers now. */
static void test_removal_leaves_a_healthy_majority(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t dead = other_than(w, leader, leader);
	const size_t alive = other_than(w, leader, dead);
	struct node_change *c = make_change(NODE_CHANGE_REMOVE, w->nodes[dead].name, "", false);
	c->min_voters = 3;
	assert_int_equal(change(w, leader, c, "2 voters would be left"), NODE_CHANGE_FEW_VOTERS);
	c = make_change(NODE_CHANGE_SERVER, w->nodes[dead].name, "", false);
	c->min_voters = 3;
	assert_int_equal(change(w, leader, c, "2 voters would be left"), NODE_CHANGE_FEW_VOTERS);
	world_stop(w, dead);
	world_run(w, 1000);
	assert_int_equal(remove_server(w, leader, alive, w->nodes[dead].name), NODE_CHANGE_NO_MAJORITY);
	assert_int_equal(change(w, leader, make_change(NODE_CHANGE_REMOVE, "n9", "", false), "no server n9"),
	                 NODE_CHANGE_UNKNOWN);
	assert_int_equal(world_status(w, leader).conf.count, 3);
	assert_int_equal(remove_server(w, leader, dead, ""), 0);
	assert_int_equal(remove_server(w, leader, alive, ""), 0);
	world_create(w, leader, "alone");
	assert_int_equal(remove_server(w, leader, leader, "0 voters"), NODE_CHANGE_FEW_VOTERS);
}

/* The leader itself can be removed: the answer comes, and another one leads. */
static void test_leader_is_removed(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	assert_int_equal(remove_server(w, leader, leader, ""), 0);
	const size_t next = await_leader_but(w, leader);
	world_create(w, next, "goes-on");
	assert_int_equal(world_status(w, next).conf.count, 2);
	world_until(w, world_status(w, leader).removed);
}

/* ---- what goes wrong ---- */

/* F13: a change that a cut-off leader appended and the others never had is undone everywhere, also over a restart, and
 * whoever asked hears that its outcome is unknown. */
static void test_F13_undone_change(void **state)
{
	struct world *w = *state;
	const size_t old = start_three(w);
	world_create(w, old, "a");
	world_start(w, 3);
	assert_int_equal(set_server(w, old, 3, false, ""), 0);
	world_until(w, is_promotable(w, old, 3));
	assert_int_equal(remove_server(w, old, 3, ""), 0);
	isolate(w, old, true);
	cut(w, old, 3, false);
	struct node_change *c = make_change(NODE_CHANGE_SERVER, "n4", w->nodes[3].addr, true);
	ask(w, old, c);
	world_run(w, 100);
	assert_int_equal(world_status(w, old).conf.count, 4);
	assert_int_equal(world_wait(w, old).code, ERR_CLOSED);
	node_change_unref(c);
	const size_t next = await_leader_but(w, old);
	world_create(w, next, "b");
	isolate(w, old, false);
	world_until(w, world_status(w, old).conf.count == 3 && world_has_topic(w, old, "b"));
	world_stop(w, old);
	world_start(w, old);
	assert_int_equal(world_status(w, old).conf.count, 3);
	world_stop(w, 3); /* its log holds what the others undid */
	expect_equal_states(w);
}

/* One change at a time: what comes meanwhile waits its turn, and each has its own answer. */
static void test_changes_wait_for_each_other(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	world_start(w, 3);
	world_start(w, 4);
	struct node_change *a = make_change(NODE_CHANGE_SERVER, "n4", w->nodes[3].addr, true);
	struct node_change *b = make_change(NODE_CHANGE_SERVER, "n5", w->nodes[4].addr, true);
	ask(w, leader, a);
	ask(w, leader, b);
	for (int i = 0; i < 2; i++)
		assert_int_equal(world_wait(w, leader).code, 0);
	assert_true(a->added && a->changed && b->added && b->changed);
	node_change_unref(a);
	node_change_unref(b);
	world_until(w, is_voter(w, leader, 3) && is_voter(w, leader, 4));
	expect_equal_states(w);
}

/* A change that cannot commit is not said to be undone: nobody knows. One that had to wait behind it did not happen. */
static void test_change_without_a_majority(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	world_start(w, 3);
	assert_int_equal(set_server(w, leader, 3, false, ""), 0);
	world_until(w, is_promotable(w, leader, 3));
	for (size_t i = 0; i < 3; i++)
		w->nodes[i].deaf = i != leader; /* they answer, and their disks take nothing */
	struct node_change *a = make_change(NODE_CHANGE_REMOVE, "n4", "", false);
	struct node_change *b = make_change(NODE_CHANGE_SERVER, "n4", "", true);
	ask(w, leader, a);
	world_run(w, 50);
	ask(w, leader, b);
	int unknown = 0;
	for (int i = 0; i < 2; i++)
		unknown += world_wait(w, leader).code == ERR_CLOSED;
	assert_int_equal(unknown, 1);
	node_change_unref(a);
	node_change_unref(b);
}

/* A rehearsal asks the new server too, says what would be, and changes nothing. */
static void test_dry_run_changes_nothing(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const raft_index last = world_status(w, leader).last_index;
	world_start(w, 3);
	struct node_change *c = make_change(NODE_CHANGE_SERVER, "n4", w->nodes[3].addr, true);
	c->dry_run = true;
	ask(w, leader, c);
	assert_int_equal(world_wait(w, leader).code, 0);
	assert_true(c->changed);
	node_change_unref(c);
	c = make_change(NODE_CHANGE_REMOVE, w->nodes[1].name, "", false);
	c->dry_run = true;
	assert_int_equal(change(w, leader, c, ""), 0);
	c = make_change(NODE_CHANGE_SERVER, "n9", "127.0.0.1:9", true);
	c->dry_run = true;
	assert_int_equal(change(w, leader, c, "no veenad answers"), NODE_CHANGE_UNREACHABLE);
	assert_int_equal(world_status(w, leader).conf.count, 3);
	assert_int_equal(world_status(w, leader).last_index, last);
}

/* Only the leader changes anything, and a stopped node says that it is. */
static void test_followers_refuse(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t follower = other_than(w, leader, leader);
	assert_int_equal(remove_server(w, follower, leader, ""), ERR_NOT_LEADER);
	assert_int_equal(world_status(w, leader).conf.count, 3);
}

/* A server that moved with its disk: an operator says where it is now, and it is looked for there first. */
static void test_address_is_changed(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t moved = other_than(w, leader, leader);
	assert_int_equal(change(w, leader, make_change(NODE_CHANGE_SERVER, w->nodes[moved].name, "127.0.0.1:9", true),
	                        "no veenad answers at 127.0.0.1:9"),
	                 NODE_CHANGE_UNREACHABLE);
	assert_string_equal(server(w, leader, moved)->addr, w->nodes[moved].addr);
	world_stop(w, moved);
	snprintf(w->nodes[moved].addr, sizeof(w->nodes[moved].addr), "127.0.0.1:7777");
	world_start(w, moved);
	assert_int_equal(set_server(w, leader, moved, true, ""), 0);
	world_until(w, strcmp(server(w, leader, moved)->addr, "127.0.0.1:7777") == 0);
	assert_true(is_voter(w, leader, moved));
	world_create(w, leader, "after");
	expect_equal_states(w);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_new_voter_is_a_learner_first),
		TEST(test_learner_stays_one_until_promoted),
		TEST(test_F11_lagging_learner_is_not_promoted),
		TEST(test_F11_absent_server_changes_nothing),
		TEST(test_F11_unfit_server_is_refused),
		TEST(test_joiner_asks_until_it_is_in),
		TEST(test_joiner_waits_for_a_leader),
		TEST(test_joiner_reads_configurations_of_before),
		TEST(test_next_leader_promotes),
		TEST(test_F12_wiped_voter_comes_back_as_a_learner),
		TEST(test_F12_wiped_and_stale_elect_nobody),
		TEST(test_id_in_use_is_not_given_away),
		TEST(test_removed_server_stays_out),
		TEST(test_tombstone_goes_with_an_admission),
		TEST(test_brokers_id_is_no_servers),
		TEST(test_leader_removes_itself),
		TEST(test_F09_cut_off_server_is_removed),
		TEST(test_removal_leaves_a_healthy_majority),
		TEST(test_leader_is_removed),
		TEST(test_F13_undone_change),
		TEST(test_changes_wait_for_each_other),
		TEST(test_change_without_a_majority),
		TEST(test_dry_run_changes_nothing),
		TEST(test_followers_refuse),
		TEST(test_address_is_changed),
	};
	return cmocka_run_group_tests_name("node_membership", tests, NULL, NULL);
}
