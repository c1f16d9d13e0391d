/* The state machine of a write, against a real state machine and a node that the test plays. */
#include "service_world.h"

static const char *const n1_only[] = { "n1" };
static struct answered a, b, c;

/* ---- create ---- */

/* A create is one entry: the topic and its placements. It is answered once that is applied. */
static void test_create_is_one_entry(void **state)
{
	struct entry_view v;
	struct err e;

	(void)state;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"orders\",\"partitions\":3}", &a);
	assert_int_equal(world.placement_count, 1);
	assert_int_equal(world.placements[0]->partition_count, 3);
	assert_true(str_is(world.placements[0]->topic, "orders"));
	assert_int_equal(world.proposal_count, 0);
	place_with(SVC_PLACE_DONE, n1_only, 1);
	assert_int_equal(world.proposal_count, 1);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, &e), 0);
	assert_int_equal(v.count, 4);
	assert_true(str_is(v.header.actor, "anonymous"));
	assert_true(str_is(v.header.origin, "n1"));
	assert_int_equal(world.proposals[0].max_type, CMD_PARTITION_PLACE);
	assert_int_equal(world.proposals[0].term, world.status.term);
	assert_int_equal(a.count, 0);
	commit_one();
	assert_answer(&a, 201, "");
	assert_int_equal(a.index, world.index);
	assert_holds(&a, "{\"name\":\"orders\",\"id\":\"");
	assert_holds(&a, "\"partitions\":3,\"retention_ms\":604800000,\"visibility_timeout_ms\":30000");
	assert_holds(&a, "\"replicas\":1,\"unclean\":false,\"labels\":{}}\n");
	ask(SVC_TOPIC_GET, "orders", NULL, &b);
	assert_answer(&b, 200, "");
	assert_holds(&b, "{\"index\":2,\"owner_node\":\"n1\",\"owner_liveness\":\"alive\"}]}");
}

/* An explicit 0 keeps for ever; the other zeros ask for the default. */
static void test_create_tells_zero_from_absent(void **state)
{
	(void)state;
	world.placer_refuses = true;
	ask(SVC_TOPIC_CREATE, NULL,
	    "{\"name\":\"t\",\"partitions\":0,\"retention_ms\":0,\"max_in_flight_per_partition\":0}", &a);
	commit_one();
	assert_answer(&a, 201, "");
	assert_holds(&a, "\"partitions\":3,\"retention_ms\":0,");
	assert_holds(&a, "\"max_in_flight_per_partition\":1024");
}

static size_t placed_counts[SVC_INTENT_OUTCOME_COUNT];

static void count_placed(void *arg, enum svc_intent_outcome outcome, size_t count)
{
	(void)arg;
	placed_counts[outcome] += count;
}

/* The control plane hears what became of the owners it named; of those it did not name, nothing. */
static void test_create_tells_what_became_of_owners(void **state)
{
	static const char *const owners[] = { "n1", "", "n1" };

	(void)state;
	memset(placed_counts, 0, sizeof(placed_counts));
	svc_set_control(&(struct svc_control_hooks){ .placed = count_placed });
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	place_with(SVC_PLACE_DONE, owners, 3);
	commit_one();
	assert_answer(&a, 201, "");
	assert_int_equal(placed_counts[SVC_INTENT_APPLIED], 2);
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"u\"}", &a);
	place_with(SVC_PLACE_DONE, owners, 3);
	fail_one(ERR_CLOSED);
	assert_answer(&a, 503, "outcome_unknown");
	assert_int_equal(placed_counts[SVC_INTENT_DROPPED], 2);
	assert_int_equal(placed_counts[SVC_INTENT_APPLIED], 2);
	assert_int_equal(placed_counts[SVC_INTENT_REFUSED], 0);
	svc_set_control(NULL);
}

/* Whoever cannot place leaves the topic unplaced, and the create succeeds. */
static void test_create_without_owners_succeeds(void **state)
{
	static const enum svc_place_result results[] = { SVC_PLACE_NO_MEMBER, SVC_PLACE_PAUSED, SVC_PLACE_FAILED };
	char bodies[3][32];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		snprintf(bodies[i], sizeof(bodies[i]), "{\"name\":\"t%zu\"}", i);
		ask(SVC_TOPIC_CREATE, NULL, bodies[i], &a);
		place_with(results[i], NULL, 0);
		commit_one();
		assert_answer(&a, 201, "");
	}
	svc_set_placer(NULL, NULL);
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t9\"}", &a);
	commit_one();
	assert_answer(&a, 201, "");
	ask(SVC_TOPIC_GET, "t9", NULL, &b);
	assert_holds(&b, "{\"index\":0,\"owner_liveness\":\"unassigned\"}");
}

/* While everybody drains nothing is written. */
static void test_create_is_refused_while_all_drain(void **state)
{
	(void)state;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	place_with(SVC_PLACE_ALL_DRAINING, NULL, 0);
	assert_answer(&a, 503, "no_receivers");
	assert_holds(&a, "\"outcome\":\"none\"");
	assert_int_equal(world.proposal_count, 0);
}

/* What the placer names is checked: names that are none, and owners it was told to avoid, are left out. */
static void test_create_distrusts_the_placer(void **state)
{
	static const char *const bad[] = { "n1", "not a name", "" };
	struct entry_view v;
	struct err e;

	(void)state;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	place_with(SVC_PLACE_DONE, bad, 3);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, &e), 0);
	assert_int_equal(v.count, 2);
	commit_one();
	assert_answer(&a, 201, "");
}

/* An owner removed meanwhile: the placer is asked once more and told whom to avoid; then the partition waits. */
static void test_create_retries_a_refused_placement_once(void **state)
{
	static const char *const both[] = { "n1", "n2" };
	static const char *const n2_only[] = { "n2" };

	(void)state;
	add_member("n2", true);
	add_member("n3", true);
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	place_with(SVC_PLACE_DONE, both, 2);
	remove_member("n2");
	commit_one();
	assert_int_equal(a.count, 0);
	assert_int_equal(world.placement_count, 1);
	assert_int_equal(world.placements[0]->avoid_count, 1);
	assert_true(str_is(world.placements[0]->avoid[0], "n2"));
	/* The placer insists, and names another removed one too. */
	remove_member("n3");
	static const char *const again[] = { "n1", "n2", "n3" };
	place_with(SVC_PLACE_DONE, again, 3);
	commit_one();
	assert_int_equal(a.count, 0);
	/* Partition 2 is left out now; the placer is asked for the rest. */
	assert_int_equal(world.placements[0]->partition_count, 2);
	place_with(SVC_PLACE_DONE, n1_only, 1);
	commit_one();
	assert_answer(&a, 201, "");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	assert_holds(&b, "{\"index\":1,\"owner_node\":\"n1\"");
	assert_holds(&b, "{\"index\":2,\"owner_liveness\":\"unassigned\"}");
	(void)n2_only;
}

/* ---- refusals ---- */

/* A refusal that depends on the state waits for a read index begun after the request, and for the state to reach it. */
static void test_refusal_is_confirmed(void **state)
{
	(void)state;
	make_topic("orders");
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"orders\"}", &a);
	assert_int_equal(a.count, 0);
	assert_int_equal(world.read_count, 1);
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_exists");
	assert_int_equal(a.index, world.index);
	assert_holds(&a, "\"index\":");
}

/* If what stood in the way is gone at the confirmed index, the request goes on. */
static void test_refusal_is_judged_again(void **state)
{
	struct cmd_name gone = { .name = S("orders") };

	(void)state;
	make_topic("orders");
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"orders\"}", &a);
	answer_read(0, world.index + 1);
	assert_int_equal(a.count, 0);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	turn();
	place_with(SVC_PLACE_DONE, n1_only, 1);
	commit_one();
	assert_answer(&a, 201, "");
}

/* Without a majority nobody knows: 503, nothing happened. */
static void test_refusal_without_quorum_is_503(void **state)
{
	(void)state;
	ask(SVC_TOPIC_DELETE, "nothing", NULL, &a);
	answer_read(ERR_TIMEOUT, 0);
	assert_answer(&a, 503, "no_leader");
	assert_holds(&a, "\"outcome\":\"none\"");
	assert_int_equal(a.retry_after_s, 1);
}

/* What is wrong in itself is refused without asking anybody. */
static void test_refusal_of_bad_bodies_is_immediate(void **state)
{
	static const struct {
		enum svc_op op;
		const char *body, *code, *field;
	} cases[] = {
		{ SVC_TOPIC_CREATE, "", "bad_json", NULL },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\"", "bad_json", NULL },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\"} x", "bad_json", NULL },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"colour\":1}", "unknown_field", "colour" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"name\":\"u\"}", NULL, "name" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"a b\"}", "bad_field", "name" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"partitions\":2}", "bad_field", "partitions" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"partitions\":\"3\"}", "bad_field", "partitions" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"retention_ms\":1}", "bad_field", "retention_ms" },
		{ SVC_TOPIC_CREATE, "{\"partitions\":3}", "bad_field", "name" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"replicas\":17}", "bad_field", "replicas" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"replicas\":0}", "bad_field", "replicas" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"replicas\":2,\"partitions\":-1}", "bad_field", "partitions" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"replica_lag\":-1}", "bad_field", "replica_lag" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"unclean\":1}", "bad_field", "unclean" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"fanout_delay_ms\":1}", "bad_field", "fanout_delay_ms" },
		{ SVC_TOPIC_ALTER, "{}", "bad_field", NULL },
		{ SVC_TOPIC_ALTER, "{\"visibility_timeout_ms\":1}", "unknown_field", "visibility_timeout_ms" },
		{ SVC_TOPIC_ALTER, "{\"partitions\":109}", "bad_field", "partitions" },
		{ SVC_TOPIC_ALTER, "{\"labels\":{\"a b\":\"1\"}}", "bad_field", "labels" },
		{ SVC_TOPIC_ALTER, "{\"labels\":{\"a\":1}}", "bad_field", "labels.a" },
		{ SVC_TOPIC_ALTER, "{\"schema\":null}", "bad_field", "schema" },
		{ SVC_TOPIC_ALTER, "{\"schema_base_version\":1}", "bad_field", NULL },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"labels\":{\"a\":null}}", "bad_field", "labels.a" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"schema\":false}", "bad_field", "schema" },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"schema\":{\"a\":1,\"a\":2}}", NULL, NULL },
		{ SVC_TOPIC_CREATE, "{\"name\":\"t\",\"parent\":\"t\"}", "bad_field", "parent" },
		{ SVC_CHILD_ATTACH, "{\"child\":\"t\"}", "bad_field", "child" },
		{ SVC_CHILD_ATTACH, "{\"child\":\"c\",\"delay_ms\":-1}", "bad_field", "delay_ms" },
		{ SVC_CHILD_ATTACH, "{\"child\":\"c\",\"delay_ms\":31536000001}", "bad_field", "delay_ms" },
		{ SVC_CHILD_ATTACH, "{\"child\":\"c\",\"lanes\":1}", "bad_field", "remote" },
		{ SVC_SCHEMA_PUT, "", "bad_json", NULL },
		{ SVC_SCHEMA_PUT, "[1]", "bad_field", "schema" },
		{ SVC_SCHEMA_PUT, "{\"a\":1,\"a\":2}", "bad_json", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char field[64];

		ask(cases[i].op, "t", cases[i].body, &a);
		if (a.count != 1 || a.status != 400 || (cases[i].code && strcmp(a.code, cases[i].code) != 0))
			fail_msg("%s: %d %s", cases[i].body, a.status, a.body);
		if (cases[i].field) {
			snprintf(field, sizeof(field), "\"field\":\"%s\"", cases[i].field);
			assert_holds(&a, field);
		}
	}
	assert_int_equal(world.read_count, 0);
	assert_int_equal(world.proposal_count, 0);
}

/* Two creates of one name under way: the second is refused by the log itself, with the index that says so. */
static void test_refusal_at_apply_needs_no_confirmation(void **state)
{
	(void)state;
	world.placer_refuses = true;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &b);
	assert_int_equal(world.proposal_count, 2);
	commit_one();
	commit_one();
	assert_answer(&a, 201, "");
	assert_answer(&b, 409, "topic_exists");
	assert_int_equal(b.index, world.index);
	assert_int_equal(world.read_count, 0);
}

/* A name that differs only in case is taken, and the answer says by whom. */
static void test_refusal_names_the_twin(void **state)
{
	(void)state;
	make_topic("Orders");
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"orders\"}", &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_exists");
	assert_holds(&a, "Orders");
}

/* ---- alter ---- */

/* All groups together, one entry; what is not named keeps its value. */
static void test_alter_is_one_entry(void **state)
{
	struct entry_view v;
	struct err e;

	(void)state;
	make_topic("t");
	ask(SVC_TOPIC_ALTER, "t", "{\"retention_ms\":7200000,\"partitions\":5,\"max_in_flight_per_partition\":9}", &a);
	assert_int_equal(world.placements[0]->partition_count, 2);
	assert_int_equal(world.placements[0]->partitions[0], 3);
	place_with(SVC_PLACE_DONE, n1_only, 1);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, &e), 0);
	assert_int_equal(v.count, 3);
	commit_one();
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"partitions\":5,\"retention_ms\":7200000,\"visibility_timeout_ms\":30000,"
	                 "\"max_in_flight_per_partition\":9,\"max_acked_ahead_per_partition\":1024");
}

/* Fewer partitions than there are is refused, but only once that is certain. */
static void test_alter_never_shrinks(void **state)
{
	(void)state;
	make_topic("t");
	ask(SVC_TOPIC_ALTER, "t", "{\"partitions\":3}", &a);
	assert_int_equal(a.count, 0);
	answer_read(0, world.index);
	assert_answer(&a, 400, "bad_field");
	assert_holds(&a, "\"field\":\"partitions\"");
}

/* Two alters of one topic, on two threads: each sees what the other did, whatever the order of their answers. */
static void test_alters_of_one_topic_take_turns(void **state)
{
	(void)state;
	make_topic("t");
	ask_on(0, SVC_TOPIC_ALTER, "t", "{\"retention_ms\":7200000}", &a);
	ask_on(1, SVC_TOPIC_ALTER, "t", "{\"max_in_flight_per_partition\":9}", &b);
	ask_on(1, SVC_TOPIC_ALTER, "t", "{\"max_acked_ahead_per_partition\":8}", &c);
	assert_int_equal(world.proposal_count, 1);
	commit_one();
	assert_answer(&a, 200, "");
	turn();
	assert_int_equal(world.proposal_count, 1);
	commit_one();
	assert_answer(&b, 200, "");
	turn();
	commit_one();
	assert_answer(&c, 200, "");
	assert_holds(&c, "\"retention_ms\":7200000");
	assert_holds(&c, "\"max_in_flight_per_partition\":9,\"max_acked_ahead_per_partition\":8");
}

/* The topic was made anew while the alter was under way: started again once, then it is the new one that is altered. */
static void test_alter_starts_again_when_the_topic_changed(void **state)
{
	struct cmd_name gone = { .name = S("t") };
	struct topic anew = { .name = S("t"),
		              .id = S("00000000000000aa"),
		              .partitions = 4,
		              .retention_ms = 9000000,
		              .visibility_timeout_ms = 1,
		              .max_in_flight_per_partition = 1,
		              .max_acked_ahead_per_partition = 1 };

	(void)state;
	make_topic("t");
	ask(SVC_TOPIC_ALTER, "t", "{\"max_in_flight_per_partition\":9}", &a);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &anew), 0);
	commit_one();
	assert_int_equal(a.count, 0);
	assert_int_equal(world.proposal_count, 1);
	/* And again: this time it is told. */
	anew.id = S("00000000000000bb");
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &anew), 0);
	commit_one();
	assert_answer(&a, 409, "topic_changed");
	/* The name is free again. */
	ask(SVC_TOPIC_ALTER, "t", "{\"max_in_flight_per_partition\":9}", &a);
	commit_one();
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"retention_ms\":9000000");
}

/* ---- delete ---- */

/* Gone is gone, and a second time it is 404 for certain. */
static void test_delete(void **state)
{
	(void)state;
	make_topic("t");
	ask(SVC_TOPIC_DELETE, "t", NULL, &a);
	commit_one();
	assert_answer(&a, 204, "");
	assert_int_equal(a.index, world.index);
	assert_string_equal(a.body, "");
	ask(SVC_TOPIC_DELETE, "t", NULL, &b);
	answer_read(0, world.index);
	assert_answer(&b, 404, "topic_not_found");
}

/* ---- what the node says ---- */

/* Each failure of the node has its status, code and outcome; only a lost leadership leaves the outcome open. */
static void test_failures_have_an_outcome(void **state)
{
	static const struct {
		int code, status;
		const char *word, *outcome;
		bool not_leader;
	} cases[] = {
		{ ERR_NOT_LEADER, 503, "no_leader", "\"outcome\":\"none\"", true },
		{ ERR_FULL, 503, "overloaded", "\"outcome\":\"none\"", false },
		{ ERR_STOPPED, 503, "stopped", "\"outcome\":\"none\"", false },
		{ ERR_CLOSED, 503, "outcome_unknown", "\"outcome\":\"unknown\"", false },
	};

	(void)state;
	world.placer_refuses = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
		fail_one(cases[i].code);
		assert_answer(&a, cases[i].status, cases[i].word);
		assert_holds(&a, cases[i].outcome);
		assert_int_equal(a.not_leader, cases[i].not_leader);
	}
	/* An older server registered between check and append: planned anew once, then it is named. */
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\",\"labels\":{\"k\":\"v\"}}", &a);
	fail_one(ERR_VERSION);
	assert_int_equal(a.count, 0);
	world.status.blockers[0] = (struct node_blocker){ .id = "old", .build = "0.1", .entry_types = 30 };
	world.status.blocker_count = 1;
	world.version++;
	fail_one(ERR_VERSION);
	assert_answer(&a, 412, "held_back");
	assert_holds(&a, "old (build 0.1) knows types up to 30");
	assert_holds(&a, "\"members\":[\"old\"]");
	world.queue_full = true;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	assert_answer(&a, 503, "overloaded");
}

/* Off the leader nothing is judged, and the caller may ask elsewhere. */
static void test_write_elsewhere_is_not_leader(void **state)
{
	(void)state;
	lead(false);
	ask(SVC_TOPIC_CREATE, NULL, "{\"bad", &a);
	assert_answer(&a, 503, "no_leader");
	assert_true(a.not_leader);
}

/* A new leader judges nothing before it has applied its term's first entry. */
static void test_write_waits_for_the_term(void **state)
{
	struct cmd_name gone = { .name = S("t") };

	(void)state;
	make_topic("t");
	lead(true);
	world.status.term_start = world.index + 1;
	ask(SVC_TOPIC_DELETE, "t", NULL, &a);
	assert_int_equal(world.proposal_count, 0);
	/* What the old leader still got through. */
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	turn();
	assert_int_equal(world.proposal_count, 0);
	answer_read(0, world.index);
	assert_answer(&a, 404, "topic_not_found");
}

/* Leadership lost between the check and the proposal: the entry carries the old term. */
static void test_write_carries_the_term_of_its_check(void **state)
{
	raft_term term = world.status.term;

	(void)state;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\"}", &a);
	lead(true);
	place_with(SVC_PLACE_DONE, n1_only, 1);
	assert_int_equal(world.proposals[0].term, term);
	fail_one(ERR_NOT_LEADER);
	assert_answer(&a, 503, "no_leader");
}

/* More operations than slots are refused, and the slots come back. */
static void test_write_slots_are_bounded(void **state)
{
	static struct answered many[17];
	static char bodies[17][32];

	(void)state;
	world.placer_refuses = true;
	for (size_t i = 0; i < 17; i++) {
		snprintf(bodies[i], sizeof(bodies[i]), "{\"name\":\"t%zu\"}", i);
		ask(SVC_TOPIC_CREATE, NULL, bodies[i], &many[i]);
	}
	assert_answer(&many[16], 503, "overloaded");
	assert_int_equal(svc_outstanding(world.svc[0]), 16);
	for (size_t i = 0; i < 16; i++)
		commit_one();
	for (size_t i = 0; i < 16; i++)
		assert_answer(&many[i], 201, "");
	assert_int_equal(svc_outstanding(world.svc[0]), 0);
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"late\"}", &a);
	commit_one();
	assert_answer(&a, 201, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_create_is_one_entry),
		CASE(test_create_tells_zero_from_absent),
		CASE(test_create_without_owners_succeeds),
		CASE(test_create_tells_what_became_of_owners),
		CASE(test_create_is_refused_while_all_drain),
		CASE(test_create_distrusts_the_placer),
		CASE(test_create_retries_a_refused_placement_once),
		CASE(test_refusal_is_confirmed),
		CASE(test_refusal_is_judged_again),
		CASE(test_refusal_without_quorum_is_503),
		CASE(test_refusal_of_bad_bodies_is_immediate),
		CASE(test_refusal_at_apply_needs_no_confirmation),
		CASE(test_refusal_names_the_twin),
		CASE(test_alter_is_one_entry),
		CASE(test_alter_never_shrinks),
		CASE(test_alters_of_one_topic_take_turns),
		CASE(test_alter_starts_again_when_the_topic_changed),
		CASE(test_delete),
		CASE(test_failures_have_an_outcome),
		CASE(test_write_elsewhere_is_not_leader),
		CASE(test_write_waits_for_the_term),
		CASE(test_write_carries_the_term_of_its_check),
		CASE(test_write_slots_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
