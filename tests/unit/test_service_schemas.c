/* Writes with a schema document: who judges, what is checked before and after, and what is never asked. */
#include "service_world.h"

#include "model/rules.h"

#define OLD "{\"type\":\"integer\"}"
#define WIDER "{\"type\":\"number\"}"
#define OTHER "{\"type\":\"string\"}"
#define WITH(document) "{\"schema\":" document "}"

static struct answered a, b;

static void run(const struct svc_request *rq, struct answered *to)
{
	memset(to, 0, sizeof(*to));
	svc_run(world.svc[0], rq, on_done, to);
}

static void put(const char *topic, int64_t version, const char *document, struct answered *to)
{
	struct svc_request rq = request_of(SVC_SCHEMA_PUT, topic, document);

	rq.version = version;
	run(&rq, to);
}

static void assert_schemas(const char *topic, const char *want)
{
	ask(SVC_SCHEMA_LIST, topic, NULL, &b);
	assert_answer(&b, 200, "");
	assert_holds(&b, want);
}

/* A topic whose schema has one version. */
static void make_with_schema(const char *name)
{
	char body[128];

	snprintf(body, sizeof(body), "{\"name\":\"%s\",\"schema\":" OLD "}", name);
	svc_set_placer(NULL, NULL);
	ask(SVC_TOPIC_CREATE, NULL, body, &a);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	commit_one();
	assert_answer(&a, 201, "");
	svc_set_placer(take_placement, NULL);
}

/* A create asks once, about a first version, and stores the document without its white space. */
static void test_create_with_schema(void **state)
{
	(void)state;
	world.placer_refuses = true;
	ask(SVC_TOPIC_CREATE, NULL,
	    "{\"name\":\"t\",\"labels\":{\"a\":\"b\"},\"schema\": { \"const\" : 1.50e1 , \"x\":\"<\" } }", &a);
	assert_int_equal(world.question_count, 1);
	assert_null(world.questions[0]->current.p);
	assert_true(str_is(world.questions[0]->document, "{\"const\":1.50e1,\"x\":\"<\"}"));
	assert_text_holds(world.questions[0]->topic_json, "\"name\":\"t\"");
	assert_text_holds(world.questions[0]->topic_json, "\"labels\":{\"a\":\"b\"}}");
	assert_int_equal(world.proposal_count, 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	commit_one();
	assert_answer(&a, 201, "");
	assert_schemas("t", "{\"topic\":\"t\",\"version\":1,\"versions\":[{\"version\":1,\"schema\":"
	                    "{\"const\":1.50e1,\"x\":\"\\u003c\"}}]}");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	assert_holds(&b, ",\"schema_version\":1,\"schema\":{\"const\":1.50e1,");
}

/* What the policy refuses is 400 with its reason, and nothing happened: of a first version and of a later one. */
static void test_refused_document_is_400(void **state)
{
	(void)state;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\",\"schema\":{}}", &a);
	judge_with(SVC_SCHEMA_REFUSED, "type: at /a");
	answer_read(0, world.index);
	assert_answer(&a, 400, "bad_field");
	assert_holds(&a, "\"error\":\"schema: type: at /a\"");
	assert_holds(&a, "\"field\":\"schema\"");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	assert_answer(&b, 404, "topic_not_found");
	make_with_schema("u");
	ask(SVC_TOPIC_ALTER, "u", "{\"retention_ms\":0,\"schema\":" OTHER "}", &a);
	assert_true(str_is(world.questions[0]->current, OLD));
	judge_with(SVC_SCHEMA_REFUSED, "no");
	answer_read(0, world.index);
	assert_answer(&a, 400, "bad_field");
	assert_int_equal(world.proposal_count + world.question_count, 0);
	ask(SVC_TOPIC_GET, "u", NULL, &b);
	assert_holds(&b, "\"retention_ms\":604800000");
}

/* One entry holds the change of the record, the version and the labels: all or nothing. */
static void test_alter_is_one_entry(void **state)
{
	struct entry_view v;

	(void)state;
	make_with_schema("t");
	ask(SVC_TOPIC_ALTER, "t", "{\"partitions\":4,\"schema\":" WIDER ",\"labels\":{\"a\":\"1\"}}", &a);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	static const char *const n1[] = { "n1" };
	place_with(SVC_PLACE_DONE, n1, 1);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, NULL), 0);
	assert_int_equal(v.count, 4);
	assert_int_equal(v.max_type, CMD_TOPIC_LABELS);
	commit_one();
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"partitions\":4");
	assert_holds(&a, "\"labels\":{\"a\":\"1\"}");
	assert_schemas("t", "{\"version\":2,\"schema\":" WIDER "}");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	assert_holds(&b, "{\"index\":3,\"owner_node\":\"n1\"");
}

/* A placement refused at apply is found behind the commands that come before it, and tried elsewhere. */
static void test_refused_placement_behind_a_schema(void **state)
{
	static const char *const n2[] = { "n2" }, *const n1[] = { "n1" };

	(void)state;
	make_with_schema("t");
	add_member("n2", true);
	ask(SVC_TOPIC_ALTER, "t", "{\"partitions\":4,\"schema\":" WIDER "}", &a);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	place_with(SVC_PLACE_DONE, n2, 1);
	remove_member("n2");
	commit_one();
	assert_int_equal(a.count, 0);
	assert_int_equal(world.placements[0]->avoid_count, 1);
	assert_int_equal(world.question_count, 0);
	place_with(SVC_PLACE_DONE, n1, 1);
	commit_one();
	assert_answer(&a, 200, "");
}

/* The same JSON value, and what the policy calls unchanged, make no version: 200, confirmed, nothing proposed. */
static void test_unchanged_makes_no_version(void **state)
{
	(void)state;
	make_with_schema("t");
	ask(SVC_TOPIC_ALTER, "t", "{\"schema\": {\"type\" : \"int\\u0065ger\"} }", &a);
	assert_int_equal(world.question_count + world.proposal_count, 0);
	answer_read(0, world.index);
	assert_answer(&a, 200, "");
	assert_holds(&a, "{\"name\":\"t\",");
	ask(SVC_TOPIC_ALTER, "t", "{\"schema\":{\"type\":\"integer\",\"title\":\"x\"}}", &a);
	judge_with(SVC_SCHEMA_UNCHANGED, "unchanged");
	answer_read(0, world.index);
	assert_answer(&a, 200, "");
	assert_schemas("t", "\"version\":1,\"versions\":[{\"version\":1,");
	/* Beside another change only that is proposed. */
	ask(SVC_TOPIC_ALTER, "t", "{\"retention_ms\":0,\"schema\":" OLD "}", &a);
	commit_one();
	assert_answer(&a, 200, "");
	assert_schemas("t", "\"version\":1,");
}

/* What was judged holds for one version: another one that came meanwhile is judged against anew, and no more than three
 * times. */
static void test_judgement_is_of_one_version(void **state)
{
	struct cmd_schema_put c = { S("t"), 2, S("{}") };

	(void)state;
	make_with_schema("t");
	ask(SVC_TOPIC_ALTER, "t", WITH(WIDER), &a);
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &c), 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	assert_int_equal(world.proposal_count, 0);
	assert_true(str_is(world.questions[0]->current, "{}"));
	c.version = 3;
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &c), 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	c.version = 4;
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &c), 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	answer_read(0, world.index);
	assert_answer(&a, 409, "schema_conflict");
	/* At apply: once more from the start. */
	ask(SVC_TOPIC_ALTER, "t", WITH(WIDER), &a);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	c.version = 5;
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &c), 0);
	commit_one();
	assert_int_equal(a.count, 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	commit_one();
	assert_answer(&a, 200, "");
	assert_schemas("t", "{\"version\":6,\"schema\":" WIDER "}");
}

/* F38: a topic deleted and made again while its document was judged is another topic. */
static void test_judgement_is_of_one_topic(void **state)
{
	struct cmd_name gone = { .name = S("t") };
	struct topic again = { .name = S("t"), .id = S("2222222222222222"), .partitions = 3 };
	struct svc_request rq;
	char id[32];

	(void)state;
	make_with_schema("t");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	snprintf(id, sizeof(id), "%.16s", strstr(b.body, "\"id\":\"") + 6);
	rq = request_of(SVC_TOPIC_ALTER, "t", WITH(WIDER));
	rq.id = str_of(id);
	run(&rq, &a);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &again), 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_changed");
	/* Without the id the client meant whatever has the name: judged anew, as the first version. */
	ask(SVC_TOPIC_ALTER, "t", WITH(WIDER), &a);
	assert_null(world.questions[0]->current.p);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	commit_one();
	assert_answer(&a, 200, "");
	assert_schemas("t", "\"version\":1,");
}

/* F38: the same, when the new topic of the name has as many versions: what was said of the old one's counts for
 * nothing. */
static void test_judgement_is_of_one_incarnation(void **state)
{
	struct cmd_name gone = { .name = S("t") };
	struct topic again = { .name = S("t"), .id = S("2222222222222222"), .partitions = 3 };
	struct cmd_schema_put other = { .topic = S("t"), .version = 1, .schema = S("{\"type\":\"string\"}") };

	(void)state;
	make_with_schema("t");
	ask(SVC_TOPIC_ALTER, "t", WITH(WIDER), &a);
	assert_int_equal(world.question_count, 1);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &again), 0);
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &other), 0);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	assert_int_equal(a.count, 0);
	assert_int_equal(world.question_count, 1);
	assert_true(str_is(world.questions[0]->current, "{\"type\":\"string\"}"));
	judge_with(SVC_SCHEMA_REFUSED, "strings are no numbers");
	answer_read(0, world.index);
	assert_answer(&a, 400, "bad_field");
	assert_schemas("t", "{\"version\":1,\"schema\":{\"type\":\"string\"}}");
}

/* Nobody there, no answer in time, no policy that works: 503, nothing happened. */
static void test_no_judge_is_503(void **state)
{
	(void)state;
	make_topic("t");
	world.judge_refuses = true;
	ask(SVC_TOPIC_ALTER, "t", WITH(OLD), &a);
	assert_answer(&a, 503, "policy_failed");
	assert_holds(&a, "\"outcome\":\"none\"");
	world.judge_refuses = false;
	ask(SVC_TOPIC_ALTER, "t", WITH(OLD), &a);
	judge_with(SVC_SCHEMA_FAILED, "schema.lua:7: no");
	assert_answer(&a, 503, "policy_failed");
	assert_holds(&a, "schema.lua:7: no");
	assert_int_equal(a.retry_after_s, 1);
	ask(SVC_TOPIC_ALTER, "t", WITH(OLD), &a);
	svc_turn(world.svc[0], clock_mono_ms() + SVC_SCHEMA_WAIT_MS);
	assert_answer(&a, 503, "policy_failed");
	/* The late answer meets nobody. */
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	assert_int_equal(a.count, 1);
	assert_int_equal(world.proposal_count, 0);
}

/* Before any policy: a child's schema is its parent's, the base version must be the latest, and there must be room. */
static void test_what_no_policy_is_asked(void **state)
{
	struct cmd_child_attach link = { .parent = S("p"), .child = S("c"), .epoch = S("1111111111111111") };
	struct cmd_schema_put full = { .topic = S("full"), .schema = S("{}") };

	(void)state;
	make_with_schema("p");
	make_topic("c");
	make_topic("full");
	assert_int_equal(apply_command(CMD_CHILD_ATTACH, &link), 0);
	ask(SVC_TOPIC_ALTER, "c", WITH(OLD), &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "schema_managed");
	put("c", 1, OLD, &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "schema_managed");
	ask(SVC_TOPIC_ALTER, "p", "{\"schema\":" OLD ",\"schema_base_version\":0}", &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "schema_conflict");
	assert_holds(&a, "schema version conflict");
	for (full.version = 1; full.version <= SCHEMA_VERSIONS_MAX; full.version++)
		assert_int_equal(apply_command(CMD_SCHEMA_PUT, &full), 0);
	ask(SVC_TOPIC_ALTER, "full", WITH(OLD), &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "schema_full");
	/* No new version is needed for what is there. */
	ask(SVC_TOPIC_ALTER, "full", "{\"schema\":{},\"schema_base_version\":1000}", &a);
	answer_read(0, world.index);
	assert_answer(&a, 200, "");
	assert_int_equal(world.question_count, 0);
	/* The parent's next version is the child's too. */
	ask(SVC_TOPIC_ALTER, "p", "{\"schema\":" WIDER ",\"schema_base_version\":1}", &a);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	commit_one();
	assert_answer(&a, 200, "");
	assert_schemas("c", "\"version\":2,\"versions\":[{\"version\":1,\"schema\":" OLD
	                    "},{\"version\":2,\"schema\":" WIDER "}]}");
}

/* PUT of a version: exactly the next one; one that is there is answered again if it is the same document. */
static void test_put_takes_the_next_version(void **state)
{
	struct svc_request rq;

	(void)state;
	make_topic("t");
	put("none", 1, OLD, &a);
	answer_read(0, world.index);
	assert_answer(&a, 404, "topic_not_found");
	put("t", 2, OLD, &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "schema_conflict");
	put("t", 1, " { \"type\" : \"integer\" } ", &a);
	judge_with(SVC_SCHEMA_COMPATIBLE, "");
	commit_one();
	assert_answer(&a, 200, "");
	assert_string_equal(a.body, "{\"topic\":\"t\",\"version\":1,\"schema\":" OLD "}\n");
	put("t", 1, OLD, &b);
	answer_read(0, world.index);
	assert_answer(&b, 200, "");
	assert_string_equal(a.body, b.body);
	put("t", 1, WIDER, &b);
	answer_read(0, world.index);
	assert_answer(&b, 409, "schema_conflict");
	put("t", 2, OLD, &b);
	answer_read(0, world.index);
	assert_answer(&b, 409, "schema_conflict");
	rq = request_of(SVC_SCHEMA_GET, "t", NULL);
	rq.version = 1;
	run(&rq, &b);
	assert_answer(&b, 200, "");
	assert_string_equal(a.body, b.body);
	assert_string_equal(a.etag, b.etag);
	rq.version = 2;
	run(&rq, &b);
	assert_answer(&b, 404, "schema_not_found");
}

/* The history is in order of versions, ten behind nine; a topic without a schema has an empty one. */
static void test_history_is_in_order(void **state)
{
	struct cmd_schema_put c = { .topic = S("t"), .schema = S("true") };

	(void)state;
	make_topic("t");
	assert_schemas("t", "{\"topic\":\"t\",\"version\":0,\"versions\":[]}\n");
	for (c.version = 1; c.version <= 11; c.version++)
		assert_int_equal(apply_command(CMD_SCHEMA_PUT, &c), 0);
	assert_schemas("t", "\"version\":11,\"versions\":[{\"version\":1,");
	assert_holds(&b, "{\"version\":9,\"schema\":true},{\"version\":10,\"schema\":true},{\"version\":11,");
	ask(SVC_SCHEMA_LIST, "none", NULL, &b);
	assert_answer(&b, 404, "topic_not_found");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_create_with_schema),
		CASE(test_refused_document_is_400),
		CASE(test_alter_is_one_entry),
		CASE(test_refused_placement_behind_a_schema),
		CASE(test_unchanged_makes_no_version),
		CASE(test_judgement_is_of_one_version),
		CASE(test_judgement_is_of_one_topic),
		CASE(test_no_judge_is_503),
		CASE(test_judgement_is_of_one_incarnation),
		CASE(test_what_no_policy_is_asked),
		CASE(test_put_takes_the_next_version),
		CASE(test_history_is_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
