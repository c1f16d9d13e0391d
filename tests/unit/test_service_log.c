/* GET /v1/log: what is decoded, what is left out, where a page ends, what is compacted away. */
#include "service_world.h"

static struct answered a;

static void read_log(const char *topic, bool has_since, raft_index since, uint32_t limit)
{
	struct svc_request rq = request_of(SVC_LOG, topic, NULL);

	rq.has_since = has_since;
	rq.since = since;
	rq.limit = limit;
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
}

static size_t count_of(const char *what)
{
	size_t n = 0;

	for (const char *p = a.body; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void assert_lacks(const char *text)
{
	if (strstr(a.body, text))
		fail_msg("%s in %s", text, a.body);
}

/* Who, when, through which server, and what: in words, not in the payload's short keys. */
static void test_entries_are_decoded(void **state)
{
	const struct cmd_partition_place place = { .topic = S("orders"), .partition = 2, .owner_id = S("n1") };

	(void)state;
	make_topic("orders");
	apply_command(CMD_PARTITION_PLACE, &place);
	read_log(NULL, false, 0, 100);
	assert_int_equal(a.count, 0);
	answer_history(0, 512);
	assert_answer(&a, 200, "");
	assert_holds(&a, "{\"entries\":[{\"index\":1,\"term\":");
	assert_holds(&a,
	             "\"kind\":\"command\",\"time_ms\":1700000000000,\"actor\":\"else\",\"node\":\"n2\",\"commands\":"
	             "[{\"type\":6,\"name\":\"member join\",\"args\":{\"id\":\"n1\",");
	assert_holds(&a, "\"actor\":\"anonymous\",\"node\":\"n1\",\"commands\":[{\"type\":23,");
	assert_holds(&a, "\"args\":{\"topic\":{\"name\":\"orders\",\"id\":\"");
	assert_holds(&a, "{\"type\":29,\"name\":\"insert-only partition placement\",\"args\":{\"topic\":\"orders\","
	                 "\"partition\":2,\"owner_id\":\"n1\",\"expect_id\":\"\"}}");
	assert_holds(&a, "],\"first_index\":1,\"last_index\":3}\n");
	assert_int_equal(a.index, 3);
}

/* No secret of any record is shown, nor the answer that an idempotency key keeps. */
static void test_secrets_are_left_out(void **state)
{
	const struct user u = { .username = S("ann"), .password_hash = S("$2b$hash"), .created_at_ms = 1 };
	const struct cmd_user_password p = { .username = S("ann"),
		                             .password_hash = S("$2b$other"),
		                             .updated_at_ms = 2 };
	const struct entry_header h = { .actor = S("admin"),
		                        .origin = S("n1"),
		                        .has_idem = true,
		                        .idem = { .key = S("key-1"), .status = 201, .body = S("kept answer") } };
	struct entry_builder b;
	struct slab *slab;

	(void)state;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_USER_CREATE, &u);
	entry_builder_add(&b, CMD_USER_PASSWORD, &p);
	assert_int_equal(entry_builder_finish(&b, &h, &slab, NULL), 0);
	entry_builder_fini(&b);
	apply_entry(slab, NULL);
	slab_unref(slab);
	read_log(NULL, false, 0, 100);
	answer_history(0, 512);
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"name\":\"create user\",\"args\":{\"username\":\"ann\"");
	assert_holds(&a, "\"name\":\"set user password\",\"args\":{\"username\":\"ann\",\"updated_at_ms\":2}");
	assert_lacks("2b$");
	assert_lacks("JDJi"); /* the same in base64 */
	assert_lacks("hash");
	assert_lacks("kept answer");
}

/* A schema's document is text, as it was put. */
static void test_documents_are_text(void **state)
{
	const struct cmd_schema_put s = { .topic = S("t"), .version = 1, .schema = S("{\"type\":\"object\"}") };

	(void)state;
	make_topic("t");
	apply_command(CMD_SCHEMA_PUT, &s);
	read_log("t", false, 0, 100);
	answer_history(0, 512);
	assert_holds(&a, "\"args\":{\"topic\":\"t\",\"version\":1,\"schema\":\"{\\\"type\\\":\\\"object\\\"}\"}");
}

/* A topic's entries: those that name it as topic, parent or child, anywhere in any of their commands. */
static void test_topic_filter(void **state)
{
	const struct cmd_child_attach link = { .parent = S("p"), .child = S("c") };
	const struct cmd_name gone = { .name = S("c") };
	static const struct {
		const char *topic;
		size_t entries;
	} rows[] = { { "p", 2 }, { "c", 3 }, { "pc", 1 }, { "nope", 0 }, { "n1", 0 } };

	(void)state;
	make_topic("p");
	make_topic("c");
	make_topic("pc");
	apply_command(CMD_CHILD_ATTACH, &link);
	apply_command(CMD_TOPIC_DELETE, &gone);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		read_log(rows[i].topic, false, 0, 100);
		answer_history(0, 512);
		assert_answer(&a, 200, "");
		if (count_of("\"index\"") != rows[i].entries)
			fail_msg("%s: %s", rows[i].topic, a.body);
	}
}

/* An entry as it might stand in the log, whatever the state machine would say of it. */
static void log_only(enum command_type type, const void *payload)
{
	const struct entry_header h = { .actor = S("else"), .origin = S("n2") };
	struct entry_builder b;
	struct slab *slab;

	add_member("n2", true);
	entry_builder_init(&b);
	entry_builder_add(&b, type, payload);
	assert_int_equal(entry_builder_finish(&b, &h, &slab, NULL), 0);
	entry_builder_fini(&b);
	struct entry *e = &world.log[world.index];

	entry_unref(e);
	e->data = slab->data;
	e->len = (uint32_t)slab->len;
	e->slab = slab;
}

/* A child on another cluster: its stub here is meant, not the topic there. */
static void test_topic_filter_of_remote_children(void **state)
{
	const struct cmd_remote_child_attach attach = { .parent = S("p"),
		                                        .stub = S("s"),
		                                        .stub_id = S("1"),
		                                        .epoch = S("2"),
		                                        .remote = { .name = S("eu"), .topic = S("far") } };
	static const struct {
		const char *topic;
		size_t entries;
	} rows[] = { { "p", 1 }, { "s", 1 }, { "far", 0 }, { "eu", 0 } };

	(void)state;
	log_only(CMD_REMOTE_CHILD_ATTACH, &attach);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		read_log(rows[i].topic, false, 0, 100);
		answer_history(0, 512);
		if (count_of("\"index\"") != rows[i].entries)
			fail_msg("%s: %s", rows[i].topic, a.body);
	}
}

/* Bytes that are no text are base64. */
static void test_bytes_that_are_no_text(void **state)
{
	const struct cmd_schema_put s = { .topic = S("t"), .version = 1, .schema = S("\xff\xfe") };

	(void)state;
	log_only(CMD_SCHEMA_PUT, &s);
	read_log("t", false, 0, 100);
	answer_history(0, 512);
	assert_holds(&a, "\"schema\":\"//4=\"}");
}

static char page_end[64];

static void on_long_page(void *arg, struct svc_answer *an)
{
	const size_t n = an->body.len < sizeof(page_end) ? an->body.len : sizeof(page_end) - 1;

	(void)arg;
	snprintf(page_end, sizeof(page_end), "%.*s", (int)n, (const char *)an->body.data + an->body.len - n);
}

static void assert_page_ends(const char *topic, raft_index next_since)
{
	struct svc_request rq = request_of(SVC_LOG, topic, NULL);
	char want[64];

	rq.limit = SVC_LIMIT_MAX;
	page_end[0] = '\0';
	svc_run(world.svc[0], &rq, on_long_page, NULL);
	while (world.history)
		answer_history(0, 512);
	snprintf(want, sizeof(want), "\"next_since\":%llu}\n", (unsigned long long)next_since);
	if (!strstr(page_end, want))
		fail_msg("no %s in %s", want, page_end);
}

/* A page ends early when it has grown long, or when much was passed over: no request holds its thread. */
static void test_pages_are_bounded(void **state)
{
	static char doc[200000];
	struct cmd_schema_put s = { .topic = S("t"), .version = 1, .schema = { doc, sizeof(doc) } };
	struct entry noops[500];
	struct fsm_result results[500];
	struct err e = { 0 };

	(void)state;
	memset(doc, 'x', sizeof(doc));
	for (int i = 0; i < 9; i++)
		log_only(CMD_SCHEMA_PUT, &s);
	assert_page_ends("t", 1 + 6);
	for (size_t n = 0; n < 16500; n += 500) {
		for (size_t i = 0; i < 500; i++) {
			noops[i] = (struct entry){ .index = ++world.index, .term = 2, .kind = ENTRY_NOOP };
			world.log[world.index] = noops[i];
		}
		assert_int_equal(fsm_apply(world.fsm, noops, 500, results, &e), 0);
	}
	assert_page_ends("nope", 16384);
}

/* since is exclusive; a page says where the next begins, the last one does not. Pieces end anywhere. */
static void test_pages_follow_each_other(void **state)
{
	char want[64];

	(void)state;
	for (int i = 0; i < 9; i++)
		add_member("n2", true);
	assert_int_equal(world.index, 10);
	for (size_t piece = 1; piece <= 4; piece++) {
		read_log(NULL, true, 2, 4);
		while (world.history)
			answer_history(0, piece);
		assert_answer(&a, 200, "");
		assert_int_equal(count_of("\"index\""), 4);
		assert_holds(&a, "[{\"index\":3,");
		assert_holds(&a, "\"next_since\":6}");
	}
	read_log(NULL, true, 6, 4);
	answer_history(0, 512);
	assert_holds(&a, "{\"index\":10,");
	assert_lacks("next_since");
	read_log(NULL, true, 10, 4);
	answer_history(0, 512);
	assert_string_equal(a.body, "{\"entries\":[],\"first_index\":1,\"last_index\":10}\n");
	read_log(NULL, true, UINT64_MAX, 4);
	answer_history(0, 512);
	assert_string_equal(a.body, "{\"entries\":[],\"first_index\":1,\"last_index\":10}\n");
	/* What matches nothing still ends, and what is applied meanwhile is not of this page. */
	read_log("nope", false, 0, 100);
	add_member("n2", true);
	answer_history(0, 512);
	snprintf(want, sizeof(want), "{\"entries\":[],\"first_index\":1,\"last_index\":10}\n");
	assert_string_equal(a.body, want);
}

/* What is older than the log is 410 with where it begins; without since the page begins there. */
static void test_compacted_entries(void **state)
{
	(void)state;
	for (int i = 0; i < 9; i++)
		add_member("n2", true);
	world.log_first = 5;
	read_log(NULL, true, 3, 100);
	answer_history(0, 512);
	assert_answer(&a, 410, "compacted");
	assert_holds(&a, "\"index\":4}");
	assert_int_equal(a.index, 0); /* the header says where this node is */
	read_log(NULL, true, 4, 100);
	answer_history(0, 512);
	assert_answer(&a, 200, "");
	assert_int_equal(count_of("\"index\""), 6);
	read_log(NULL, false, 0, 100);
	answer_history(0, 512);
	assert_holds(&a, "[{\"index\":5,");
	world.log_first = 0; /* right after an image was taken in */
	read_log(NULL, false, 0, 100);
	answer_history(0, 512);
	assert_string_equal(a.body, "{\"entries\":[],\"first_index\":0,\"last_index\":10}\n");
	read_log(NULL, true, 3, 100);
	answer_history(ERR_NOTFOUND, 512);
	assert_answer(&a, 410, "compacted");
	read_log(NULL, true, 3, 100);
	answer_history(ERR_CORRUPT, 512);
	assert_answer(&a, 503, "not_ready");
}

/* No-ops, configurations and entries of a newer release are shown as what they are. */
static void test_other_kinds(void **state)
{
	struct raft_conf conf = { .count = 1, .servers = { { .id = 7, .voter = true, .name = "n1", .addr = "a:1" } } };
	struct buf bytes = { 0 };
	struct entry *e = world.log;

	(void)state;
	for (int i = 0; i < 3; i++)
		add_member("n2", true);
	raft_conf_encode(&conf, &bytes);
	e[2].kind = ENTRY_NOOP;
	e[2].len = 0;
	e[3].kind = ENTRY_CONFIG;
	e[3].data = bytes.data;
	e[3].len = (uint32_t)bytes.len;
	e[4].data = (const uint8_t *)"\x09 of a newer format";
	e[4].len = 20;
	read_log(NULL, true, 1, 100);
	answer_history(0, 512);
	assert_holds(&a, "{\"index\":2,\"term\":2,\"kind\":\"noop\"},");
	assert_holds(&a, "\"kind\":\"config\",\"servers\":[{\"id\":\"n1\",\"cluster_addr\":\"a:1\",\"voter\":true}]},");
	assert_holds(&a, "{\"index\":4,\"term\":2,\"kind\":\"command\"}]");
	buf_fini(&bytes);
}

/* Only an admin reads the log, not who may read everything else. */
static void test_log_is_the_admins(void **state)
{
	struct svc_request rq = request_of(SVC_LOG, NULL, NULL);

	(void)state;
	add_user(CMD_USER_CREATE, "ann", "observe", NULL);
	act_as(&rq, "ann");
	rq.grant = SVC_GRANT_ADMIN;
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	assert_answer(&a, 403, "forbidden");
	assert_null(world.history);
}

/* A node without a configuration has none to show. */
static void test_log_needs_a_replica(void **state)
{
	(void)state;
	world.status.configured = false;
	world.version++;
	read_log(NULL, false, 0, 1);
	assert_answer(&a, 503, "not_ready");
	assert_null(world.history);
	world.status.configured = true;
	world.version++;
	read_log(NULL, false, 0, 1); /* dropped at the end: nothing leaks */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_entries_are_decoded),
		CASE(test_secrets_are_left_out),
		CASE(test_documents_are_text),
		CASE(test_topic_filter),
		CASE(test_topic_filter_of_remote_children),
		CASE(test_bytes_that_are_no_text),
		CASE(test_pages_are_bounded),
		CASE(test_pages_follow_each_other),
		CASE(test_compacted_entries),
		CASE(test_other_kinds),
		CASE_AUTH(test_log_is_the_admins),
		CASE(test_log_needs_a_replica),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
