/* The servers of the cluster: what is shown of them, and changing them, with a node that the test plays. */
#include "service_world.h"

static struct answered a;

static void run(const struct svc_request *rq)
{
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], rq, on_done, &a);
}

static void set_server(const char *body, bool dry_run)
{
	struct svc_request rq = request_of(SVC_SERVER_SET, NULL, body);

	rq.dry_run = dry_run;
	run(&rq);
}

static void remove_server(const char *id, bool dry_run)
{
	struct svc_request rq = request_of(SVC_SERVER_REMOVE, NULL, NULL);

	rq.server = str_of(id);
	rq.dry_run = dry_run;
	run(&rq);
}

static void hand_over(const char *body, bool dry_run)
{
	struct svc_request rq = request_of(SVC_LEADER_TRANSFER, NULL, body);

	rq.dry_run = dry_run;
	run(&rq);
}

static void add_server(uint32_t at, const char *name, bool voter)
{
	struct raft_server *s = &world.status.conf.servers[at];

	*s = (struct raft_server){ .id = 100 + at, .voter = voter, .staged = !voter };
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->addr, sizeof(s->addr), "10.0.0.%u:7943", at + 1);
	world.status.conf.count = at + 1;
	world.version++;
}

/* ---- the list ---- */

/* Each server with its place, its member record and how far it is; a learner says what is missing. */
static void test_list_shows_progress(void **state)
{
	(void)state;
	add_member("n2", true);
	add_server(1, "n2", true);
	add_server(2, "n3", false);
	world.status.last_index = world.status.durable_index = 50;
	world.status.peers[0] = (struct raft_peer_view){ .id = 101, .match = 50, .contact_ms = clock_mono_ms() };
	world.status.peers[1] = (struct raft_peer_view){ .id = 102, .match = 41 };
	world.status.peer_count = 2;
	world.fault = NODE_FAULT_BEHIND;
	ask(SVC_SERVER_LIST, NULL, NULL, &a);
	assert_answer(&a, 200, "");
	assert_holds(&a, "[{\"id\":\"n1\",\"cluster_addr\":\"\",\"http_addr\":\"127.0.0.1:1\",\"voter\":true,"
	                 "\"leader\":true,\"match_index\":50,\"lag\":0,\"contact_ms\":0,\"build\":\"test\","
	                 "\"promotable\":false},");
	assert_holds(&a, "{\"id\":\"n2\",\"cluster_addr\":\"10.0.0.2:7943\",\"http_addr\":\"127.0.0.1:1\","
	                 "\"voter\":true,\"leader\":false,\"match_index\":50,\"lag\":0,");
	assert_holds(&a, "{\"id\":\"n3\",\"cluster_addr\":\"10.0.0.3:7943\",\"http_addr\":\"\",\"voter\":false,"
	                 "\"leader\":false,\"match_index\":41,\"lag\":9,\"contact_ms\":-1,\"build\":\"\","
	                 "\"promotable\":false,\"reason\":\"it is 9 entries behind\",\"staged\":true}]");
	world.fault = NODE_FAULT_NONE;
	ask(SVC_SERVER_LIST, NULL, NULL, &a);
	assert_holds(&a, "\"promotable\":true,\"staged\":true}]");
}

/* A follower knows how far it is itself, and nothing of others but how long ago the leader was heard. */
static void test_list_on_a_follower(void **state)
{
	(void)state;
	add_server(1, "n2", true);
	add_server(2, "n3", true);
	lead(false);
	snprintf(world.status.leader, sizeof(world.status.leader), "n2");
	world.status.durable_index = 40;
	world.status.leader_commit = 44;
	world.contact_ms = 17;
	ask(SVC_SERVER_LIST, NULL, NULL, &a);
	assert_holds(&a, "\"leader\":false,\"match_index\":40,\"lag\":4,\"contact_ms\":0,");
	world.status.durable_index = 50; /* entries that are not committed yet */
	world.version++;
	ask(SVC_SERVER_LIST, NULL, NULL, &a);
	assert_holds(&a, "\"match_index\":50,\"lag\":0,");
	assert_holds(&a, "\"leader\":true,\"match_index\":null,\"lag\":null,\"contact_ms\":17,");
	assert_holds(&a, "\"leader\":false,\"match_index\":null,\"lag\":null,\"contact_ms\":-1,");
}

/* ---- servers ---- */

/* Asked of the node only once a majority confirmed that it leads and what was committed is applied; answered when the
 * change is applied here. */
static void test_server_is_added(void **state)
{
	(void)state;
	set_server("{\"id\":\"n4\",\"cluster_addr\":\"Node4.example:7943\"}", false);
	assert_null(world.change);
	answer_read(0, world.index + 1);
	assert_null(world.change);
	add_member("n2", true);
	turn();
	assert_non_null(world.change);
	assert_string_equal(world.change->id, "n4");
	assert_string_equal(world.change->addr, "node4.example:7943");
	assert_true(world.change->kind == NODE_CHANGE_SERVER && world.change->voter && !world.change->dry_run);
	assert_int_equal(world.change->min_voters, 3);
	world.change->added = world.change->changed = true;
	world.change->server =
	    (struct raft_server){ .id = 9, .staged = true, .name = "n4", .addr = "node4.example:7943" };
	answer_change(0, world.index + 1, "");
	assert_int_equal(a.count, 0);
	add_member("n3", true);
	turn();
	assert_answer(&a, 201, "");
	assert_int_equal(a.index, world.index);
	assert_string_equal(
	    a.body, "{\"id\":\"n4\",\"cluster_addr\":\"node4.example:7943\",\"voter\":false,\"staged\":true}\n");
}

/* One that was there already is changed: 200. An address that is left out stays. */
static void test_server_is_changed(void **state)
{
	(void)state;
	set_server("{\"id\":\"n4\",\"voter\":false}", false);
	answer_read(0, world.index);
	assert_string_equal(world.change->addr, "");
	assert_false(world.change->voter);
	world.change->server = (struct raft_server){ .id = 9, .name = "n4", .addr = "b:1" };
	answer_change(0, 0, "");
	assert_answer(&a, 200, "");
	assert_string_equal(a.body, "{\"id\":\"n4\",\"cluster_addr\":\"b:1\",\"voter\":false,\"staged\":false}\n");
}

/* A removal is 204 with its index; a change that this node does not apply in time is answered all the same. */
static void test_server_is_removed(void **state)
{
	(void)state;
	remove_server("n4", false);
	answer_read(0, world.index);
	assert_true(world.change->kind == NODE_CHANGE_REMOVE);
	answer_change(0, world.index + 7, "");
	svc_turn(world.svc[0], clock_mono_ms() + 3100);
	assert_answer(&a, 204, "");
	assert_true(a.not_applied);
	assert_int_equal(a.index, world.index + 7);
}

/* Each refusal of the node has its status and word, the node's sentence, and the index it was judged at. */
static void test_refusals_have_their_words(void **state)
{
	static const struct {
		int code, status;
		const char *word;
	} rows[] = {
		{ NODE_CHANGE_UNKNOWN, 404, "member_not_found" },
		{ NODE_CHANGE_UNREACHABLE, 409, "target_not_alive" },
		{ NODE_CHANGE_OTHER_CLUSTER, 409, "other_cluster" },
		{ NODE_CHANGE_OLDER, 409, "older_release" },
		{ NODE_CHANGE_TAKEN, 409, "member_exists" },
		{ NODE_CHANGE_BEHIND, 409, "target_behind" },
		{ NODE_CHANGE_NO_VOTE, 409, "learner_only" },
		{ NODE_CHANGE_FEW_VOTERS, 409, "below_min_voters" },
		{ NODE_CHANGE_NO_MAJORITY, 409, "no_healthy_majority" },
		{ NODE_CHANGE_FULL, 409, "server_limit" },
	};
	char want[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		remove_server("n4", false);
		answer_read(0, world.index);
		answer_change(rows[i].code, 0, "because so");
		assert_answer(&a, rows[i].status, rows[i].word);
		assert_holds(&a, "\"error\":\"because so\"");
		snprintf(want, sizeof(want), "\"index\":%d}", (int)world.index);
		assert_holds(&a, want);
		/* A dry run says the same, and it is no error of its own. */
		remove_server("n4", true);
		answer_read(0, world.index);
		assert_true(world.change->dry_run);
		answer_change(rows[i].code, 0, "because so");
		assert_answer(&a, 200, "");
		assert_holds(&a, "{\"dry_run\":true,\"would\":false,\"intents\":[],\"reasons\":[{\"code\":\"");
		assert_holds(&a, rows[i].word);
		assert_holds(&a, "\"message\":\"because so\"}]}");
	}
}

/* A dry run that would succeed says what would be done; nothing, when all is as asked. */
static void test_dry_run_tells_what_would_be_done(void **state)
{
	(void)state;
	set_server("{\"id\":\"n4\",\"cluster_addr\":\"b:1\",\"voter\":false}", true);
	answer_read(0, world.index);
	world.change->changed = true;
	answer_change(0, 0, "");
	assert_answer(&a, 200, "");
	assert_string_equal(a.body, "{\"dry_run\":true,\"would\":true,\"intents\":[{\"op\":\"set\",\"id\":\"n4\","
	                            "\"cluster_addr\":\"b:1\",\"voter\":false}],\"reasons\":[]}\n");
	set_server("{\"id\":\"n4\",\"voter\":false}", true);
	answer_read(0, world.index);
	answer_change(0, 0, "");
	assert_string_equal(a.body, "{\"dry_run\":true,\"would\":true,\"intents\":[],\"reasons\":[]}\n");
	remove_server("n4", true);
	answer_read(0, world.index);
	world.change->changed = true;
	answer_change(0, 0, "");
	assert_holds(&a, "\"intents\":[{\"op\":\"remove\",\"id\":\"n4\"}]");
}

/* Nothing is done without a majority, and what is not known to have failed is not said to have. */
static void test_failures_have_an_outcome(void **state)
{
	static const struct {
		int code;
		const char *word, *outcome;
	} rows[] = {
		{ ERR_BUSY, "overloaded", "none" },           { ERR_FULL, "overloaded", "none" },
		{ ERR_STOPPED, "stopped", "none" },           { ERR_NOT_LEADER, "no_leader", "none" },
		{ ERR_CLOSED, "outcome_unknown", "unknown" },
	};
	char want[64];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		remove_server("n4", false);
		answer_read(0, world.index);
		answer_change(rows[i].code, 0, "");
		assert_answer(&a, 503, rows[i].word);
		snprintf(want, sizeof(want), "\"outcome\":\"%s\"", rows[i].outcome);
		assert_holds(&a, want);
		assert_int_equal(a.not_leader, rows[i].code == ERR_NOT_LEADER);
		assert_int_equal(a.retry_after_s, rows[i].code != ERR_CLOSED);
	}
	remove_server("n4", false);
	answer_read(ERR_TIMEOUT, 0);
	assert_answer(&a, 503, "no_leader");
	remove_server("n4", false);
	svc_turn(world.svc[0], clock_mono_ms() + 5100);
	assert_answer(&a, 503, "no_leader");
	answer_read(0, world.index); /* too late to ask anybody */
	assert_null(world.change);
	remove_server("n4", false);
	answer_read(0, world.index);
	answer_change(0, 0, "");
	assert_answer(&a, 204, "");
	remove_server("n4", false);
	world.queue_full = true;
	answer_read(0, world.index);
	assert_answer(&a, 503, "overloaded");
	world.queue_full = false;
	lead(false);
	remove_server("n4", false);
	assert_true(a.count == 1 && a.not_leader);
}

/* Each field wrong: 400 that names it, and nobody is asked. */
static void test_bad_bodies_are_named(void **state)
{
	static const struct {
		const char *body, *code, *field;
	} rows[] = {
		{ "", "bad_json", "" },
		{ "{", "bad_json", "" },
		{ "{}", "bad_field", "\"field\":\"id\"" },
		{ "{\"id\":7}", "bad_field", "\"field\":\"id\"" },
		{ "{\"id\":\"\"}", "bad_field", "\"field\":\"id\"" },
		{ "{\"id\":\"a/b\"}", "bad_field", "\"field\":\"id\"" },
		{ "{\"id\":\"a\",\"id\":\"b\"}", "bad_field", "\"field\":\"id\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":1}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":\"\"}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":\"b\"}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":\"b:0\"}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":\"b:65536\"}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":\"0.0.0.0:1\"}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"cluster_addr\":\"[::]:1\"}", "bad_field", "\"field\":\"cluster_addr\"" },
		{ "{\"id\":\"a\",\"voter\":\"yes\"}", "bad_field", "\"field\":\"voter\"" },
		{ "{\"id\":\"a\",\"votes\":true}", "unknown_field", "\"field\":\"votes\"" },
	};
	char longest[400];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		set_server(rows[i].body, false);
		assert_int_equal(a.count, 1);
		if (a.status != 400 || strcmp(a.code, rows[i].code) != 0 || !strstr(a.body, rows[i].field))
			fail_msg("%s: %d %s", rows[i].body, a.status, a.body);
	}
	snprintf(longest, sizeof(longest), "{\"id\":\"a\",\"cluster_addr\":\"%0300d:1\"}", 0);
	set_server(longest, false);
	assert_answer(&a, 400, "bad_field");
	hand_over("{\"to\":5}", false);
	assert_answer(&a, 400, "bad_field");
	hand_over("{\"to\":\"a b\"}", false);
	assert_answer(&a, 400, "bad_field");
	hand_over("{\"heir\":\"a\"}", false);
	assert_answer(&a, 400, "unknown_field");
	remove_server("a b", false);
	assert_answer(&a, 404, "member_not_found");
	assert_int_equal(world.read_count, 0);
}

/* Whoever is no admin changes nothing. */
static void test_only_admins_change_servers(void **state)
{
	struct svc_request rq = request_of(SVC_SERVER_REMOVE, NULL, NULL);

	(void)state;
	add_user(CMD_USER_CREATE, "ann", "observe", NULL);
	act_as(&rq, "ann");
	rq.grant = SVC_GRANT_ADMIN;
	rq.server = S("n4");
	run(&rq);
	answer_read(0, world.index);
	assert_answer(&a, 403, "forbidden");
	assert_null(world.change);
}

/* ---- leadership ---- */

/* Answered with who leads now, by any way of asking for it. */
static void test_leadership_is_handed_over(void **state)
{
	static const char *const bodies[] = { NULL, "{}", "{\"to\":\"n2\"}" };

	(void)state;
	add_server(1, "n2", true);
	for (size_t i = 0; i < 3; i++) {
		hand_over(bodies[i], false);
		assert_false(world.transfer_asked);
		answer_read(0, world.index);
		assert_string_equal(world.heir, i == 2 ? "n2" : "");
		assert_int_equal(a.count, 0);
		answer_transfer(0, 101);
		assert_answer(&a, 200, "");
		assert_string_equal(a.body, "{\"leader\":\"n2\"}\n");
	}
	hand_over(NULL, false);
	answer_read(0, world.index);
	answer_transfer(0, 0); /* gone, and nobody is known yet */
	assert_string_equal(a.body, "{\"leader\":\"\"}\n");
	hand_over("{\"to\":\"n2\"}", true);
	answer_read(0, world.index);
	assert_true(world.transfer_dry);
	answer_transfer(0, 101);
	assert_string_equal(a.body,
	                    "{\"dry_run\":true,\"would\":true,\"intents\":[{\"op\":\"transfer\",\"to\":\"n2\"}],"
	                    "\"reasons\":[]}\n");
}

/* F07: whom it would leave without writes is refused with a reason; one that did not come about says that too. */
static void test_F07_hand_overs_are_refused(void **state)
{
	static const struct {
		int code, status;
		const char *word, *text;
	} rows[] = {
		{ RAFT_HEIR_BUSY, 409, "transfer_in_progress", "already" },
		{ RAFT_HEIR_SELF, 409, "already_leader", "n2 leads already" },
		{ RAFT_HEIR_UNKNOWN, 404, "member_not_found", "no server n2" },
		{ RAFT_HEIR_LEARNER, 409, "not_a_voter", "n2 is a learner" },
		{ RAFT_HEIR_SILENT, 409, "target_not_alive", "n2 does not answer" },
		{ RAFT_HEIR_BEHIND, 409, "target_behind", "n2 is 1234 entries behind" },
		{ RAFT_HEIR_NO_OTHER, 409, "no_healthy_majority", "no other voter" },
		{ RAFT_HEIR_NONE_FIT, 409, "no_healthy_majority", "no other voter answers" },
		{ RAFT_HEIR_NOT_LEADER, 503, "no_leader", "not the leader" },
		{ ERR_TIMEOUT, 503, "transfer_failed", "n2 did not take over" },
		{ ERR_STOPPED, 503, "stopped", "stopped" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hand_over("{\"to\":\"n2\"}", false);
		answer_read(0, world.index);
		answer_transfer(rows[i].code, 1234);
		assert_answer(&a, rows[i].status, rows[i].word);
		assert_holds(&a, rows[i].text);
		if (rows[i].status == 503)
			assert_holds(&a, "\"outcome\":\"none\"");
		if (rows[i].status != 503) {
			hand_over("{\"to\":\"n2\"}", true);
			answer_read(0, world.index);
			answer_transfer(rows[i].code, 1234);
			assert_answer(&a, 200, "");
			assert_holds(&a, "\"would\":false");
			assert_holds(&a, rows[i].word);
		}
	}
}

/* ---- snapshots ---- */

static void take_snapshot(int code, raft_index index, uint64_t bytes)
{
	ask(SVC_SNAPSHOT, NULL, NULL, &a);
	assert_true(world.snapshot_asked);
	assert_int_equal(a.count, 0);
	world.snapshot_asked = false;
	complete(&world.snapshot, code, index, bytes);
	turn();
}

/* Taken on the node that was asked, leader or not; what went wrong is said, and that nothing else did. */
static void test_snapshot_is_this_nodes(void **state)
{
	static const struct {
		int code;
		const char *word;
	} rows[] = { { ERR_FULL, "storage_full" },
		     { ERR_IO, "snapshot_failed" },
		     { ERR_NOTFOUND, "not_ready" },
		     { ERR_STOPPED, "stopped" } };
	struct svc_request rq = request_of(SVC_SNAPSHOT, NULL, NULL);

	(void)state;
	lead(false);
	take_snapshot(0, 7, 4096);
	assert_answer(&a, 200, "");
	assert_string_equal(a.body, "{\"node\":\"n1\",\"index\":7,\"bytes\":4096}\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		take_snapshot(rows[i].code, 0, 0);
		assert_answer(&a, 503, rows[i].word);
		assert_holds(&a, "\"outcome\":\"none\"");
	}
	world.queue_full = true;
	run(&rq);
	assert_answer(&a, 503, "overloaded");
}

static void test_only_admins_take_snapshots(void **state)
{
	struct svc_request rq = request_of(SVC_SNAPSHOT, NULL, NULL);

	(void)state;
	add_user(CMD_USER_CREATE, "ann", "observe", NULL);
	act_as(&rq, "ann");
	rq.grant = SVC_GRANT_ADMIN;
	run(&rq);
	assert_answer(&a, 403, "forbidden");
	assert_false(world.snapshot_asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_list_shows_progress),
		CASE(test_list_on_a_follower),
		CASE(test_server_is_added),
		CASE(test_server_is_changed),
		CASE(test_server_is_removed),
		CASE(test_refusals_have_their_words),
		CASE(test_dry_run_tells_what_would_be_done),
		CASE(test_failures_have_an_outcome),
		CASE(test_bad_bodies_are_named),
		CASE_AUTH(test_only_admins_change_servers),
		CASE(test_leadership_is_handed_over),
		CASE(test_F07_hand_overs_are_refused),
		CASE(test_snapshot_is_this_nodes),
		CASE_AUTH(test_only_admins_take_snapshots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
