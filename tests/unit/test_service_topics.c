/* Children, labels and conditions of topics: what a request may ask, what one entry holds, what is refused and in which
 * words, and which entity tag names which state. */
#include "service_world.h"

#include "model/rules.h"

static struct answered a, b;

static void run(const struct svc_request *rq, struct answered *to)
{
	memset(to, 0, sizeof(*to));
	svc_run(world.svc[0], rq, on_done, to);
}

static struct svc_request detach_of(const char *parent, const char *child)
{
	struct svc_request rq = request_of(SVC_CHILD_DETACH, parent, NULL);

	rq.child = str_of(child);
	return rq;
}

/* Of the answer's first field of that name. */
static const char *field_of(const struct answered *from, const char *name, char out[32])
{
	char mark[32];

	snprintf(mark, sizeof(mark), "\"%s\":\"", name);
	const char *at = strstr(from->body, mark);

	assert_non_null(at);
	snprintf(out, 32, "%.16s", at + strlen(mark));
	return out;
}

static const char *tag_of(const char *topic, char out[SVC_ETAG_SIZE])
{
	ask(SVC_TOPIC_GET, topic, NULL, &b);
	assert_answer(&b, 200, "");
	snprintf(out, SVC_ETAG_SIZE, "%s", b.etag);
	return out;
}

/* ---- children ---- */

/* Attaching answers the parent; the child has an epoch of its own, a new one each time. */
static void test_attach_answers_the_parent(void **state)
{
	char first[32], second[32];
	struct svc_request rq;

	(void)state;
	make_topic("p");
	make_topic("c");
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\",\"delay_ms\":5000}", &a);
	commit_one();
	assert_answer(&a, 200, "");
	assert_holds(&a, "{\"name\":\"p\",");
	assert_holds(&a, "\"role\":\"parent\",\"children\":[\"c\"]");
	ask(SVC_TOPIC_GET, "c", NULL, &b);
	assert_holds(&b, "\"role\":\"child\",\"parent\":\"p\"");
	assert_holds(&b, "\"fanout_delay_ms\":5000");
	field_of(&b, "attach_epoch", first);
	rq = detach_of("p", "c");
	run(&rq, &a);
	commit_one();
	assert_answer(&a, 204, "");
	assert_string_equal(a.body, "");
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\"}", &a);
	commit_one();
	ask(SVC_TOPIC_GET, "c", NULL, &b);
	field_of(&b, "attach_epoch", second);
	assert_string_not_equal(first, second);
}

/* An answer that comes when something newer has been applied says what this write left, each field once. */
static void test_attach_answers_what_it_left(void **state)
{
	struct topic stored = { .name = S("p"), .partitions = 3 };
	struct node_proposal p;

	(void)state;
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &stored), 0);
	make_topic("c");
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\"}", &a);
	p = world.proposals[0];
	assert_int_equal(apply_entry(p.entry, NULL), 0);
	drop_proposal(0);
	raft_index at = world.index;

	stored.retention_ms = 3600000;
	assert_int_equal(apply_command(CMD_TOPIC_UPDATE, &stored), 0);
	complete(&p.reply, 0, at, 0);
	slab_unref(p.entry);
	turn();
	assert_answer(&a, 200, "");
	assert_int_equal(a.index, at);
	assert_holds(&a, "\"retention_ms\":0,");
	assert_holds(&a, "\"role\":\"parent\",\"children\":[\"c\"],\"replicas\":1,\"unclean\":false,\"labels\":{}}\n");
	assert_string_equal(a.etag, "");
}

/* In the order in which they came; lag is what metadata does not know. A topic without children has an empty list. */
static void test_children_are_listed(void **state)
{
	char id[32], want[512];

	(void)state;
	make_topic("p");
	make_topic("c2");
	make_topic("c1");
	ask(SVC_CHILD_LIST, "p", NULL, &a);
	assert_answer(&a, 200, "");
	field_of(&a, "parent_id", id);
	snprintf(want, sizeof(want), "{\"parent\":\"p\",\"parent_id\":\"%s\",\"children\":[]}\n", id);
	assert_string_equal(a.body, want);
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c2\",\"delay_ms\":7}", &b);
	commit_one();
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c1\"}", &b);
	commit_one();
	ask(SVC_CHILD_LIST, "p", NULL, &b);
	assert_string_not_equal(a.etag, b.etag);
	assert_true(strstr(b.body, "\"name\":\"c2\"") < strstr(b.body, "\"name\":\"c1\""));
	assert_holds(&b, "\"delay_ms\":7,\"lag_messages\":0,\"lag_complete\":false}");
	assert_holds(&b, "\"delay_ms\":0,\"lag_messages\":0,\"lag_complete\":false}");
	ask(SVC_CHILD_LIST, "none", NULL, &b);
	assert_answer(&b, 404, "topic_not_found");
}

/* A create with parent is one entry: the child has the parent's partitions, its schema, and the placer hears whose
 * child it is. */
static void test_create_as_child_is_one_entry(void **state)
{
	const struct cmd_schema_put schema = { S("p"), 1, S("{}") };
	static const char *const n1[] = { "n1" };
	struct entry_view v;

	(void)state;
	world.placer_refuses = true;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"p\",\"partitions\":5}", &a);
	commit_one();
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &schema), 0);
	world.placer_refuses = false;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"c\",\"parent\":\"p\",\"fanout_delay_ms\":9,\"labels\":{\"a\":\"b\"}}",
	    &a);
	assert_int_equal(world.placements[0]->partition_count, 5);
	assert_text_holds(world.placements[0]->topic_json, "\"parent\":\"p\"");
	place_with(SVC_PLACE_DONE, n1, 1);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, NULL), 0);
	assert_int_equal(v.count, 7);
	commit_one();
	assert_answer(&a, 201, "");
	assert_holds(&a, "\"partitions\":5");
	assert_holds(&a, "\"role\":\"child\",\"parent\":\"p\",\"attach_epoch\":\"");
	assert_holds(&a, "\"fanout_delay_ms\":9,\"replicas\":1,\"unclean\":false,\"labels\":{\"a\":\"b\"}");
	ask(SVC_SCHEMA_LIST, "c", NULL, &b);
	assert_holds(&b, "\"version\":1,\"versions\":[{\"version\":1,\"schema\":{}}]");
}

/* Each refusal of a link by its status and code, before anything is written. */
static void test_links_are_refused(void **state)
{
	static const struct {
		enum svc_op op;
		const char *topic, *body;
		int status;
		const char *code;
	} cases[] = {
		{ SVC_CHILD_ATTACH, "none", "{\"child\":\"lone\"}", 404, "topic_not_found" },
		{ SVC_CHILD_ATTACH, "p", "{\"child\":\"none\"}", 404, "child_not_found" },
		{ SVC_CHILD_ATTACH, "p", "{\"child\":\"c\"}", 409, "already_attached" },
		{ SVC_CHILD_ATTACH, "lone", "{\"child\":\"c\"}", 409, "role_conflict" },
		{ SVC_CHILD_ATTACH, "c", "{\"child\":\"lone\"}", 409, "role_conflict" },
		{ SVC_CHILD_ATTACH, "lone", "{\"child\":\"p\"}", 409, "role_conflict" },
		{ SVC_CHILD_ATTACH, "p", "{\"child\":\"lone\",\"delay_ms\":601200001}", 409, "delay_too_long" },
		{ SVC_CHILD_ATTACH, "lone", "{\"child\":\"schema\"}", 409, "schema_mismatch" },
		{ SVC_TOPIC_CREATE, NULL, "{\"name\":\"n\",\"parent\":\"none\"}", 404, "topic_not_found" },
		{ SVC_TOPIC_CREATE, NULL, "{\"name\":\"n\",\"parent\":\"c\"}", 409, "role_conflict" },
		{ SVC_TOPIC_CREATE, NULL, "{\"name\":\"lone\",\"parent\":\"none\"}", 409, "topic_exists" },
		{ SVC_TOPIC_CREATE, NULL, "{\"name\":\"n\",\"parent\":\"p\",\"fanout_delay_ms\":601200001}", 409,
		  "delay_too_long" },
		{ SVC_TOPIC_CREATE, NULL, "{\"name\":\"n\",\"parent\":\"p\",\"schema\":true}", 409, "schema_mismatch" },
		{ SVC_TOPIC_ALTER, "p", "{\"retention_ms\":3600000}", 409, "delay_too_long" },
	};
	const struct cmd_schema_put schema = { S("schema"), 1, S("{}") };

	(void)state;
	make_topic("p");
	make_topic("c");
	make_topic("lone");
	make_topic("schema");
	assert_int_equal(apply_command(CMD_SCHEMA_PUT, &schema), 0);
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\",\"delay_ms\":1}", &a);
	commit_one();
	assert_answer(&a, 200, "");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask(cases[i].op, cases[i].topic, cases[i].body, &a);
		assert_int_equal(a.count, 0);
		answer_read(0, world.index);
		if (a.status != cases[i].status || strcmp(a.code, cases[i].code) != 0)
			fail_msg("%s: %d %s", cases[i].body, a.status, a.body);
	}
	assert_int_equal(world.proposal_count + world.question_count + world.placement_count, 0);
}

/* Detaching what is not linked, or not there. */
static void test_detach_is_refused(void **state)
{
	static const struct {
		const char *parent, *child, *code;
	} cases[] = {
		{ "none", "c", "topic_not_found" },
		{ "p", "none", "child_not_found" },
		{ "p", "c", "child_not_found" },
		{ "c", "p", "child_not_found" },
	};

	(void)state;
	make_topic("p");
	make_topic("c");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct svc_request rq = detach_of(cases[i].parent, cases[i].child);

		run(&rq, &a);
		answer_read(0, world.index);
		assert_answer(&a, 404, cases[i].code);
	}
}

/* F38: one of the two was made again meanwhile. With the id the client saw it is refused; refused at apply it is
 * planned anew on what is there now, once. */
static void test_links_name_incarnations(void **state)
{
	struct topic again = { .name = S("c"), .id = S("2222222222222222"), .partitions = 3 };
	struct cmd_name gone = { .name = S("c") };
	struct svc_request rq;

	(void)state;
	make_topic("p");
	make_topic("c");
	rq = request_of(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\"}");
	rq.child_id = S("1111111111111111");
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_changed");
	rq.child_id = (struct str){ NULL, 0 };
	rq.id = S("1111111111111111");
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_changed");
	ask(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\"}", &a);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &again), 0);
	commit_one();
	assert_int_equal(a.count, 0);
	commit_one();
	assert_answer(&a, 200, "");
	again.id = S("3333333333333333");
	rq = detach_of("p", "c");
	run(&rq, &a);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &again), 0);
	commit_one();
	answer_read(0, world.index);
	assert_answer(&a, 404, "child_not_found");
}

/* Linking needs both topics, letting go either; a child is made by who holds its parent and may create it. */
static void test_links_need_rights(void **state)
{
	struct topic parent = { .name = S("p"), .id = S("1111111111111111"), .partitions = 3, .owner = S("ann") };
	struct topic child = { .name = S("c"), .id = S("2222222222222222"), .partitions = 3, .owner = S("bob") };
	struct topic own = { .name = S("own"), .id = S("3333333333333333"), .partitions = 3, .owner = S("ann") };
	struct svc_request rq = request_of(SVC_CHILD_ATTACH, "p", "{\"child\":\"c\"}");
	static const char *const nobody[] = { "ann", "bob", "eve" };

	(void)state;
	add_user(CMD_USER_CREATE, "ann", "create", "a*");
	add_user(CMD_USER_CREATE, "bob", "create", "*");
	add_user(CMD_USER_CREATE, "eve", NULL, NULL);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &parent), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &child), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &own), 0);
	for (size_t i = 0; i < 3; i++) {
		act_as(&rq, nobody[i]);
		run(&rq, &a);
		answer_read(0, world.index);
		assert_answer(&a, 403, "forbidden");
	}
	rq.body = S("{\"child\":\"own\"}");
	act_as(&rq, "ann");
	run(&rq, &a);
	commit_one();
	assert_answer(&a, 200, "");
	act_as(&rq, ROOT_USER);
	rq.body = S("{\"child\":\"c\"}");
	run(&rq, &a);
	commit_one();
	assert_answer(&a, 200, "");
	rq = detach_of("p", "c");
	act_as(&rq, "eve");
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 403, "forbidden");
	act_as(&rq, "bob");
	run(&rq, &a);
	commit_one();
	assert_answer(&a, 204, "");
	rq = request_of(SVC_TOPIC_CREATE, NULL, "{\"name\":\"b\",\"parent\":\"p\"}");
	act_as(&rq, "bob");
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 403, "forbidden");
	assert_int_equal(world.proposal_count + world.placement_count, 0);
}

/* F38: a change that was under way when its topic was made again by somebody else is no longer the former owner's to
 * make: 403, not 409, and nothing changes. */
static void test_rights_are_checked_again(void **state)
{
	static const struct {
		enum svc_op op;
		const char *body;
	} cases[] = { { SVC_TOPIC_DELETE, NULL },
		      { SVC_TOPIC_ALTER, "{\"retention_ms\":0}" },
		      { SVC_TOPIC_ALTER, "{\"labels\":{\"a\":\"b\"}}" },
		      { SVC_TOPIC_ALTER, "{\"schema\":{}}" } };
	struct topic t = { .name = S("t"), .partitions = 3 };
	struct cmd_name gone = { .name = S("t") };

	(void)state;
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct svc_request rq = request_of(cases[i].op, "t", cases[i].body);

		t.id = S("1111111111111111");
		t.owner = S("ann");
		assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
		act_as(&rq, "ann");
		run(&rq, &a);
		if (world.question_count > 0)
			judge_with(SVC_SCHEMA_COMPATIBLE, "");
		t.id = S("2222222222222222");
		t.owner = S("bob");
		assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
		assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
		commit_one();
		answer_read(0, world.index);
		assert_answer(&a, 403, "forbidden");
		assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	}
}

/* ---- labels ---- */

/* At create, then changed one by one; the answer and every read show them; too many together are refused by name. */
static void test_labels_are_written(void **state)
{
	char body[2048];
	size_t n = (size_t)snprintf(body, sizeof(body), "{\"labels\":{");
	struct entry_view v;

	(void)state;
	world.placer_refuses = true;
	ask(SVC_TOPIC_CREATE, NULL, "{\"name\":\"t\",\"labels\":{\"team\":\"a\",\"env\":\"prod\"}}", &a);
	commit_one();
	assert_answer(&a, 201, "");
	assert_holds(&a, "\"labels\":{\"env\":\"prod\",\"team\":\"a\"}}\n");
	ask(SVC_TOPIC_ALTER, "t", "{\"labels\":{\"env\":null,\"x\":\"1\"}}", &a);
	assert_int_equal(entry_decode(world.proposals[0].entry->data, world.proposals[0].entry->len, &v, NULL), 0);
	assert_int_equal(v.count, 1);
	commit_one();
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"labels\":{\"team\":\"a\",\"x\":\"1\"}}\n");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	assert_holds(&b, "\"labels\":{\"team\":\"a\",\"x\":\"1\"},");
	for (int i = 0; i < LABELS_MAX - 1; i++)
		n += (size_t)snprintf(body + n, sizeof(body) - n, "%s\"k%d\":\"v\"", i ? "," : "", i);
	snprintf(body + n, sizeof(body) - n, "}}");
	ask(SVC_TOPIC_ALTER, "t", body, &a);
	answer_read(0, world.index);
	assert_answer(&a, 400, "bad_field");
	assert_holds(&a, "\"field\":\"labels\"");
	ask(SVC_TOPIC_ALTER, "t", "{\"labels\":{}}", &a);
	answer_read(0, world.index);
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"labels\":{\"team\":\"a\",\"x\":\"1\"}}\n");
}

/* Lists let through what has the label with that value; filters are ANDed, and pages go on behind what was left out. */
static void test_labels_filter_lists(void **state)
{
	struct svc_request rq = request_of(SVC_TOPIC_LIST, NULL, NULL);
	static const struct {
		const char *name, *labels;
	} topics[] = { { "a1", "{\"env\":\"prod\"}" },
		       { "a2", "{\"env\":\"dev\"}" },
		       { "a3", "{\"env\":\"prod\"}" },
		       { "b1", "{\"env\":\"prod\",\"x\":\"\"}" },
		       { "b2", "{}" } };

	(void)state;
	world.placer_refuses = true;
	for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++) {
		char body[128];

		snprintf(body, sizeof(body), "{\"name\":\"%s\",\"labels\":%s}", topics[i].name, topics[i].labels);
		ask(SVC_TOPIC_CREATE, NULL, body, &a);
		commit_one();
	}
	rq.label_key = S("env");
	rq.label_value = S("prod");
	rq.limit = 2;
	run(&rq, &b);
	assert_holds(&b, "\"name\":\"a1\"");
	assert_holds(&b, "\"name\":\"a3\"");
	assert_null(strstr(b.body, "\"name\":\"a2\""));
	assert_holds(&b, "\"next_page_token\":\"a3\"");
	rq.page_token = S("a3");
	run(&rq, &b);
	assert_holds(&b, "{\"topics\":[{\"name\":\"b1\"");
	assert_holds(&b, "\"next_page_token\":\"\"");
	rq.page_token = (struct str){ NULL, 0 };
	rq.prefix = S("b");
	run(&rq, &b);
	assert_holds(&b, "{\"topics\":[{\"name\":\"b1\"");
	rq.label_key = S("x");
	rq.label_value = S("");
	run(&rq, &b);
	assert_holds(&b, "{\"topics\":[{\"name\":\"b1\"");
	rq.label_value = S("1");
	run(&rq, &b);
	assert_holds(&b, "{\"topics\":[],");
}

/* ---- entity tags ---- */

/* A record's tag is the same until something of the answer changes; the first half moves with the record alone. */
static void test_tags_of_records(void **state)
{
	char one[SVC_ETAG_SIZE], two[SVC_ETAG_SIZE], three[SVC_ETAG_SIZE];
	struct assignment row = { S("t"), 0, S("n1"), { "", 0 } };

	(void)state;
	make_topic("t");
	tag_of("t", one);
	assert_int_equal(strlen(one), SVC_ETAG_SIZE - 1);
	assert_string_equal(tag_of("t", two), one);
	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &row), 0);
	tag_of("t", two);
	assert_string_not_equal(one, two);
	assert_int_equal(strncmp(one, two, 17), 0);
	ask(SVC_TOPIC_ALTER, "t", "{\"retention_ms\":0}", &a);
	commit_one();
	tag_of("t", three);
	assert_int_not_equal(strncmp(two, three, 17), 0);
	assert_string_equal(two + 17, three + 17);
	/* The answer of a change has the tag that a GET has then. */
	assert_string_equal(a.etag, three);
	ask(SVC_TOPIC_ALTER, "t", "{\"labels\":{\"a\":\"b\"}}", &a);
	commit_one();
	assert_int_not_equal(strncmp(a.etag, three, 17), 0);
}

/* If-None-Match: the whole tag, one of several, weak, or a star; what is no list of tags is refused. */
static void test_none_match(void **state)
{
	static const struct {
		const char *form;
		int status;
	} cases[] = { { "%s", 304 },   { "W/%s", 304 },  { "\"x\", %s", 304 },  { "%s,\"y\"", 304 },
		      { "*", 304 },    { "\"x\"", 200 }, { "W/\"%.0s\"", 200 }, { "x", 400 },
		      { "%.5s", 400 }, { "", 400 },      { "%sx", 400 } };
	struct svc_request rq = request_of(SVC_TOPIC_GET, "t", NULL);
	char tag[SVC_ETAG_SIZE], field[128];

	(void)state;
	make_topic("t");
	tag_of("t", tag);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(field, sizeof(field), cases[i].form, tag);
#pragma GCC diagnostic pop
		rq.if_none_match = str_of(field);
		run(&rq, &b);
		if (b.status != cases[i].status)
			fail_msg("%s: %d %s", field, b.status, b.body);
		assert_int_equal(b.status == 304, b.body[0] == '\0');
		assert_string_equal(b.etag, b.status == 400 ? "" : tag);
		if (b.status != 400)
			assert_int_equal(b.index, world.index);
	}
	/* The first half alone is not the answer's tag. */
	snprintf(field, sizeof(field), "%.17s\"", tag);
	rq.if_none_match = str_of(field);
	run(&rq, &b);
	assert_int_equal(b.status, 200);
}

/* If-Match: the record's half decides; a changed record is 412, confirmed; it is looked at again when the entry is
 * planned anew. */
static void test_if_match(void **state)
{
	struct assignment row = { S("t"), 0, S("n1"), { "", 0 } };
	struct svc_request rq;
	char tag[SVC_ETAG_SIZE], half[32];

	(void)state;
	make_topic("t");
	rq = request_of(SVC_TOPIC_ALTER, "t", "{\"retention_ms\":0}");
	rq.if_match = S("\"0000000000000000-0000000000000000\"");
	run(&rq, &a);
	assert_int_equal(a.count, 0);
	answer_read(0, world.index);
	assert_answer(&a, 412, "changed");
	assert_int_equal(a.index, world.index);
	rq.if_match = S("no tag");
	run(&rq, &a);
	assert_answer(&a, 400, "bad_parameter");
	tag_of("t", tag);
	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &row), 0);
	rq.if_match = str_of(tag);
	run(&rq, &a);
	commit_one();
	assert_answer(&a, 200, "");
	/* The tag is spent: the record is another one now. */
	rq = request_of(SVC_TOPIC_DELETE, "t", NULL);
	rq.if_match = str_of(tag);
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 412, "changed");
	tag_of("t", tag);
	snprintf(half, sizeof(half), "%.17s\"", tag);
	rq.if_match = str_of(half);
	run(&rq, &a);
	commit_one();
	assert_answer(&a, 204, "");
	rq.if_match = S("*");
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 404, "topic_not_found");
}

/* ?id=: another incarnation is refused, at once and when it came while the entry was under way. */
static void test_id_names_the_incarnation(void **state)
{
	struct topic again = { .name = S("t"), .id = S("2222222222222222"), .partitions = 3 };
	struct cmd_name gone = { .name = S("t") };
	struct svc_request rq = request_of(SVC_TOPIC_DELETE, "t", NULL);
	char id[32];

	(void)state;
	make_topic("t");
	rq.id = S("2222222222222222");
	run(&rq, &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_changed");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	rq.id = str_of(field_of(&b, "id", id));
	run(&rq, &a);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &gone), 0);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &again), 0);
	commit_one();
	answer_read(0, world.index);
	assert_answer(&a, 409, "topic_changed");
	ask(SVC_TOPIC_GET, "t", NULL, &b);
	assert_answer(&b, 200, "");
}

/* A list's tag moves with its domain and nothing else: heartbeats and owners leave the topics' alone. */
static void test_tags_of_lists(void **state)
{
	struct svc_request rq = request_of(SVC_TOPIC_LIST, NULL, NULL);
	struct assignment row = { S("t"), 0, S("n1"), { "", 0 } };
	char tag[SVC_ETAG_SIZE];

	(void)state;
	make_topic("t");
	run(&rq, &b);
	snprintf(tag, sizeof(tag), "%s", b.etag);
	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &row), 0);
	rq.if_none_match = str_of(tag);
	run(&rq, &b);
	assert_answer(&b, 304, "");
	assert_int_equal(b.index, world.index);
	ask(SVC_TOPIC_ALTER, "t", "{\"labels\":{\"a\":\"b\"}}", &a);
	commit_one();
	run(&rq, &b);
	assert_answer(&b, 200, "");
	assert_string_not_equal(b.etag, tag);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_attach_answers_the_parent),
		CASE(test_attach_answers_what_it_left),
		CASE(test_children_are_listed),
		CASE(test_create_as_child_is_one_entry),
		CASE(test_links_are_refused),
		CASE(test_detach_is_refused),
		CASE(test_links_name_incarnations),
		CASE_AUTH(test_links_need_rights),
		CASE_AUTH(test_rights_are_checked_again),
		CASE(test_labels_are_written),
		CASE(test_labels_filter_lists),
		CASE(test_tags_of_records),
		CASE(test_none_match),
		CASE(test_if_match),
		CASE(test_id_names_the_incarnation),
		CASE(test_tags_of_lists),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
