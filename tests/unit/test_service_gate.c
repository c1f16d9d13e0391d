/* Writes while an older server is in the cluster (F26): what falls back to older entries, what is refused and names who
 * holds it back, and that the answers are those of the newer entries. */
#include "service_world.h"

static struct answered a;

/* Carries a write out, whatever it waits for. The newest entry type that it proposed. */
static unsigned carry_out(struct svc_request rq)
{
	static const char *const owners[] = { "n1" };
	unsigned newest = 0;

	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	while (a.count == 0) {
		if (world.read_count > 0) {
			answer_read(0, world.index);
		} else if (world.question_count > 0) {
			judge_with(SVC_SCHEMA_COMPATIBLE, "");
		} else if (world.placement_count > 0) {
			place_with(SVC_PLACE_DONE, owners, 1);
		} else {
			assert_true(world.proposal_count > 0);
			const unsigned type = world.proposals[0].max_type;

			newest = type > newest ? type : newest;
			commit_one();
		}
	}
	return newest;
}

static unsigned run_op(enum svc_op op, const char *topic, const char *body)
{
	return carry_out(request_of(op, topic, body));
}

static struct svc_request detach_of(const char *parent, const char *child)
{
	struct svc_request rq = request_of(SVC_CHILD_DETACH, parent, NULL);

	rq.child = str_of(child);
	return rq;
}

/* The newest type of each step's entry. */
struct steps {
	unsigned create, create_child, grow, schema, attach, detach, drop;
};
static const struct steps newest_steps = { CMD_PARTITION_PLACE, CMD_PARTITION_PLACE, CMD_PARTITION_PLACE,
	                                   CMD_SCHEMA_PUT_IF,   CMD_CHILD_ATTACH_IF, CMD_CHILD_DETACH_IF,
	                                   CMD_TOPIC_DELETE_IF };

/* One life of topics. */
static void live(const struct steps *s)
{
	assert_int_equal(run_op(SVC_TOPIC_CREATE, NULL, "{\"name\":\"p\",\"schema\":{\"type\":\"object\"}}"),
	                 s->create);
	assert_answer(&a, 201, "");
	assert_int_equal(run_op(SVC_TOPIC_CREATE, NULL, "{\"name\":\"c\",\"parent\":\"p\"}"), s->create_child);
	assert_answer(&a, 201, "");
	assert_holds(&a, "\"role\":\"child\",\"parent\":\"p\",\"attach_epoch\":");
	run_op(SVC_SCHEMA_LIST, "c", NULL);
	assert_holds(&a, "\"version\":1,\"versions\":[{\"version\":1,\"schema\":{\"type\":\"object\"}}]");
	run_op(SVC_TOPIC_GET, "c", NULL);
	assert_holds(&a, "\"owner_node\":\"n1\"");
	assert_int_equal(run_op(SVC_TOPIC_ALTER, "p", "{\"partitions\":5}"), s->grow);
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"partitions\":5");
	assert_int_equal(run_op(SVC_TOPIC_ALTER, "p", "{\"schema\":true}"), s->schema);
	assert_answer(&a, 200, "");
	run_op(SVC_SCHEMA_LIST, "c", NULL);
	assert_holds(&a, "\"version\":2");
	assert_int_equal(run_op(SVC_TOPIC_CREATE, NULL, "{\"name\":\"d\"}"), s->create);
	assert_int_equal(run_op(SVC_CHILD_ATTACH, "p", "{\"child\":\"d\"}"), s->attach);
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"children\":[\"c\",\"d\"]");
	assert_int_equal(carry_out(detach_of("p", "d")), s->detach);
	assert_answer(&a, 204, "");
	static const char *const all[] = { "p", "c", "d" };

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(run_op(SVC_TOPIC_DELETE, all[i], NULL), s->drop);
		assert_answer(&a, 204, "");
	}
}

/* With everybody new, with one server of the oldest release, and when that one has gone: the same answers. */
static void test_F26_writes_fall_back(void **state)
{
	static const struct steps oldest = { CMD_PARTITION_ASSIGN, CMD_CHILD_ATTACH, CMD_PARTITION_ASSIGN,
		                             CMD_SCHEMA_PUT,       CMD_CHILD_ATTACH, CMD_CHILD_DETACH,
		                             CMD_TOPIC_DELETE };

	(void)state;
	live(&newest_steps);
	assert_int_equal(world.held_back_said, 0);
	world_hold_back(COMMAND_LEGACY_MAX);
	live(&oldest);
	assert_true(world.held_back_said > 0);
	world.status.blocker_count = 0;
	world.version++;
	live(&newest_steps);
}

/* Of the newer types those are used that the older server knows. */
static void test_F26_types_are_judged_one_by_one(void **state)
{
	static const struct steps middle = { CMD_TOPIC_CREATE_WITH, CMD_TOPIC_CREATE_WITH, CMD_TOPIC_UPDATE_IF,
		                             CMD_SCHEMA_PUT_IF,     CMD_CHILD_ATTACH,      CMD_CHILD_DETACH,
		                             CMD_TOPIC_DELETE_IF };

	(void)state;
	world_hold_back(CMD_SCHEMA_PUT_IF);
	live(&middle);
}

/* What older entries cannot say is refused at once, naming the member, and nothing is proposed. */
static void test_F26_what_cannot_fall_back_is_refused(void **state)
{
	struct svc_request patch = request_of(SVC_MEMBER_PATCH, NULL, "{\"placeable\":false}");
	struct svc_request beat = request_of(SVC_MEMBER_HEARTBEAT, NULL, NULL);

	(void)state;
	make_topic("t");
	ask(SVC_MEMBER_REGISTER, NULL, "{\"id\":\"b1\",\"addr\":\"h:1\"}", &a);
	commit_one();
	assert_answer(&a, 201, "");
	world_hold_back(37);
	patch.member_id = beat.member_id = S("b1");
	beat.session = S("b1:0123456789abcdef");
	const struct svc_request all[] = {
		request_of(SVC_TOPIC_CREATE, NULL, "{\"name\":\"u\",\"labels\":{\"k\":\"v\"}}"),
		request_of(SVC_TOPIC_ALTER, "t", "{\"labels\":{\"k\":\"v\"}}"),
		request_of(SVC_MEMBER_REGISTER, NULL, "{\"id\":\"b2\",\"addr\":\"h:1\"}"),
		patch,
		beat,
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		memset(&a, 0, sizeof(a));
		svc_run(world.svc[0], &all[i], on_done, &a);
		assert_answer(&a, 412, "held_back");
		assert_holds(&a, "old (build 0.1) knows types up to 37");
		assert_holds(&a, "\"members\":[\"old\"]");
		assert_int_equal(world.proposal_count, 0);
	}
}

/* The status names each type that is not used yet, with the first who holds it back; types nobody knows are no types.
 */
static void test_status_names_who_holds_back(void **state)
{
	(void)state;
	world_hold_back(36);
	run_op(SVC_STATUS, NULL, NULL);
	assert_holds(&a, "\"held_back\":[{\"type\":37,\"by\":\"old\",\"build\":\"0.1\"},{\"type\":64,\"by\":\"old\"");
	assert_null(strstr(a.body, "\"type\":38"));
	assert_null(strstr(a.body, "\"type\":36"));
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_F26_writes_fall_back),
		CASE(test_F26_types_are_judged_one_by_one),
		CASE(test_F26_what_cannot_fall_back_is_refused),
		CASE(test_status_names_who_holds_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
