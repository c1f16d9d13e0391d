/* Members: who may act as which, what stands against leaving, and when a server may be forgotten. */
#include "service_world.h"

static struct answered a;

static struct svc_request member_op(enum svc_op op, enum svc_grant grant, const char *id, const char *body)
{
	struct svc_request rq = request_of(op, NULL, body);

	rq.grant = grant;
	rq.member_id = str_of(id ? id : "");
	return rq;
}

static void run_as(const char *who, struct svc_request rq)
{
	act_as(&rq, who);
	run_to_end(&rq, &a);
}

/* ---- rights ---- */

/* The grant `member` is for the ids that match: register, heartbeat and leave as those, and read all but users; the
 * rest is an admin's. `observe` only reads. */
static void test_grants_of_members(void **state)
{
	static const char *const body = "{\"id\":\"b1\",\"addr\":\"h:1\"}", *const other =
										"{\"id\":\"c1\",\"addr\":\"h:1\"}";
	char session[64] = "b1:";

	(void)state;
	add_user(CMD_USER_CREATE, "broker", "member", "b*");
	add_user(CMD_USER_CREATE, "eyes", "observe", NULL);
	add_user(CMD_USER_CREATE, "nobody", "produce", "b*");
	for (size_t i = 0; i < 3; i++) {
		static const char *const who[] = { "broker", "eyes", "nobody" };

		run_as(who[i], member_op(SVC_MEMBER_REGISTER, SVC_GRANT_MEMBER, NULL, other));
		assert_answer(&a, 403, "forbidden");
		run_as(who[i], member_op(SVC_MEMBER_LIST, SVC_GRANT_OBSERVE, NULL, NULL));
		assert_int_equal(a.status, i < 2 ? 200 : 403);
		run_as(who[i], member_op(SVC_MEMBER_GET, SVC_GRANT_OBSERVE, "n1", NULL));
		assert_int_equal(a.status, i < 2 ? 200 : 403);
	}
	run_as("broker", member_op(SVC_MEMBER_REGISTER, SVC_GRANT_MEMBER, NULL, body));
	assert_answer(&a, 201, "");
	snprintf(session + 3, sizeof(session) - 3, "%.16s", strstr(a.body, "\"session\":\"") + 11);
	struct svc_request beat = member_op(SVC_MEMBER_HEARTBEAT, SVC_GRANT_MEMBER, "b1", NULL);

	beat.session = str_of(session);
	run_as("broker", beat);
	assert_answer(&a, 200, "");
	run_as("eyes", beat);
	assert_answer(&a, 403, "forbidden");
	beat.member_id = S("c1");
	run_as("broker", beat);
	assert_answer(&a, 403, "forbidden"); /* whether there is one is not said */
	static const struct {
		enum svc_op op;
		const char *body;
	} admins[] = { { SVC_MEMBER_PATCH, "{\"placeable\":false}" },
		       { SVC_MEMBER_DECOMMISSION, NULL },
		       { SVC_MEMBER_RECOMMISSION, NULL },
		       { SVC_MEMBER_LOST, "{\"accept_data_loss\":true}" } };

	for (size_t i = 0; i < sizeof(admins) / sizeof(admins[0]); i++) {
		run_as("broker", member_op(admins[i].op, SVC_GRANT_ADMIN, "b1", admins[i].body));
		assert_answer(&a, 403, "forbidden");
	}
	run_as(ROOT_USER, member_op(SVC_MEMBER_PATCH, SVC_GRANT_ADMIN, "b1", admins[0].body));
	assert_answer(&a, 200, "");
}

/* A heartbeat that was checked before a newer process registered is refused by the log itself. */
static void test_session_that_is_replaced_meanwhile(void **state)
{
	struct svc_request beat = member_op(SVC_MEMBER_HEARTBEAT, SVC_GRANT_ANY, "b1", NULL);
	const struct cmd_member_register newer = {
		.id = S("b1"), .addr = S("h:2"), .session = S("2222222222222222"), .at = 1
	};
	char session[64] = "b1:";

	(void)state;
	ask(SVC_MEMBER_REGISTER, NULL, "{\"id\":\"b1\",\"addr\":\"h:1\"}", &a);
	commit_one();
	snprintf(session + 3, sizeof(session) - 3, "%.16s", strstr(a.body, "\"session\":\"") + 11);
	beat.session = str_of(session);
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &beat, on_done, &a);
	assert_int_equal(world.proposal_count, 1);
	assert_int_equal(apply_command(CMD_MEMBER_REGISTER, &newer), 0);
	commit_one();
	assert_answer(&a, 409, "session_replaced");
}

/* ---- leaving ---- */

/* Five servers of which `alive` answer; each has a member record. */
static void five_servers(uint32_t alive)
{
	world.status.conf.count = 5;
	for (uint32_t i = 0; i < 5; i++) {
		struct raft_server *s = &world.status.conf.servers[i];

		*s = (struct raft_server){ .id = 7 + i, .voter = true };
		snprintf(s->name, sizeof(s->name), "n%u", i + 1);
		world.status.servers[i] =
		    (struct node_server_view){ .row = NODE_ROW_ALIVE, .heard = true, .answers = i < alive };
		if (i > 0)
			add_member(s->name, true);
	}
	world.version++;
}

static void decommission(const char *id, int status, const char *code)
{
	run_as("anonymous", member_op(SVC_MEMBER_DECOMMISSION, SVC_GRANT_ANY, id, NULL));
	assert_answer(&a, status, code);
}

/* F10: a voter leaves only when enough voters are left, and a majority of those is alive; each reason is named. */
static void test_F10_decommission_keeps_a_majority(void **state)
{
	(void)state;
	five_servers(5);
	decommission("n2", 204, "");
	five_servers(3);
	decommission("n3", 409, "no_healthy_majority");
	assert_holds(&a, "decommission of n3 refused: of the 4 voters left only 2 are alive");
	decommission("n5", 204, ""); /* of those left three answer */
	five_servers(1);
	world.status.conf.count = 3;
	world.version++;
	decommission("n2", 409, "below_min_voters");
	assert_holds(&a, "\"reasons\":[{\"code\":\"below_min_voters\",\"message\":");
	assert_holds(&a, "{\"code\":\"no_healthy_majority\",\"message\":");
}

/* Partitions need somebody to go to, and somebody to be copied from. A learner is bound by no voters. */
static void test_decommission_needs_receivers(void **state)
{
	(void)state;
	make_topic("t");
	add_member("b1", true);
	const struct assignment at = { S("t"), 0, S("b1"), { "", 0 } };
	const struct cmd_member_cordon cordon = { S("n1"), true };

	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &at), 0);
	assert_int_equal(apply_command(CMD_MEMBER_CORDON, &cordon), 0);
	decommission("b1", 409, "no_receivers");
	add_member("b2", true);
	decommission("b1", 204, "");
	run_as("anonymous", member_op(SVC_MEMBER_GET, SVC_GRANT_ANY, "b1", NULL));
	assert_null(strstr(a.body, "decommission_blocked"));
	add_member("b1", false);
	decommission("b1", 409, "owner_dead");
	run_as("anonymous", member_op(SVC_MEMBER_GET, SVC_GRANT_ANY, "b1", NULL));
	assert_holds(&a, "\"decommission_blocked\":[{\"code\":\"owner_dead\"");
}

/* ---- forgetting ---- */

static void forget(const char *id, int status, const char *code)
{
	struct svc_request rq = member_op(SVC_MEMBER_FORGET, SVC_GRANT_ANY, id, NULL);

	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	if (a.count == 0)
		answer_read(0, world.index);
	if (a.count == 0 && status == 200) {
		assert_int_equal(world.change->kind, NODE_CHANGE_REMOVE);
		assert_int_equal(world.change->min_voters, 0);
		answer_change(0, world.index, "");
	}
	assert_answer(&a, status, code);
}

/* In the order of the facts: the leader, who is no server, who has a record in whatever state, who is named by a
 * partition; then, for a voter, whether the leader has been in office long enough to know who fails. */
static void test_forget(void **state)
{
	const struct assignment at = { S("gone"), 0, S("n4"), S("n5") };

	(void)state;
	five_servers(5);
	const struct cmd_member_at gone[] = { { S("n4"), 1 }, { S("n5"), 1 } };

	forget("n1", 400, "bad_parameter");
	forget("zz", 404, "member_not_found");
	forget("n4", 409, "member_exists");
	add_member("n4", false);
	forget("n4", 409, "member_exists");
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(apply_command(CMD_MEMBER_REMOVE, &gone[i]), 0);
	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &at), 0);
	forget("n4", 409, "member_assigned");
	forget("n5", 409, "member_assigned");
	assert_int_equal(apply_command(CMD_PARTITION_PRUNE, &(struct cmd_partition_prune){ S("gone"), 0 }), 0);
	world.status.leader_since_ms = clock_mono_ms();
	world.version++;
	forget("n4", 409, "no_healthy_majority");
	world.status.conf.servers[3].voter = false;
	world.version++;
	forget("n4", 200, "");
	assert_holds(&a, "{\"id\":\"n4\",\"voter\":false}");
	world.status.leader_since_ms = clock_mono_ms() - 13000;
	world.version++;
	forget("n5", 200, "");
	assert_holds(&a, "{\"id\":\"n5\",\"voter\":true}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE_AUTH(test_grants_of_members),
		CASE(test_session_that_is_replaced_meanwhile),
		CASE(test_F10_decommission_keeps_a_majority),
		CASE(test_decommission_needs_receivers),
		CASE(test_forget),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
