/* Reads: what they show, how lists are cut into pages, and how they wait for an index. */
#include "service_world.h"

#include "base/buf.h"

#define TEXT(x) TEXT_OF(x)
#define TEXT_OF(x) #x
#define NEWEST TEXT(COMMAND_MAX)

static struct answered a, b;

static void place(const char *topic, int64_t p, const char *owner)
{
	struct assignment row = { .topic = str_of(topic), .partition = p, .owner_id = str_of(owner) };

	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &row), 0);
}

static void move(const char *topic, int64_t p, const char *target)
{
	struct cmd_move_target c = { .topic = str_of(topic), .partition = p, .target = str_of(target) };

	assert_int_equal(apply_command(CMD_MOVE_TARGET, &c), 0);
}

static void run(const struct svc_request *rq, struct answered *to)
{
	memset(to, 0, sizeof(*to));
	svc_run(world.svc[0], rq, on_done, to);
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = strstr(text, what); p; p = strstr(p + 1, what))
		n++;
	return n;
}

/* ---- topics ---- */

/* The stored record, what veena adds, and each partition with what is known of its owner. */
static void test_topic_get_joins_owners(void **state)
{
	(void)state;
	add_member("dead1", false);
	make_topic("t");
	place("t", 0, "n1");
	place("t", 1, "dead1");
	ask(SVC_TOPIC_GET, "t", NULL, &a);
	assert_answer(&a, 200, "");
	assert_int_equal(a.index, world.index);
	assert_holds(&a, "{\"name\":\"t\",\"id\":\"");
	assert_holds(&a, ",\"role\":\"standalone\",\"replicas\":1,\"unclean\":false,\"labels\":{},\"schema_version\":0,"
	                 "\"partition_stats\":[{\"index\":0,\"owner_node\":\"n1\",\"owner_liveness\":\"alive\"},"
	                 "{\"index\":1,\"owner_node\":\"dead1\",\"owner_liveness\":\"dead\"},"
	                 "{\"index\":2,\"owner_liveness\":\"unassigned\"}]}\n");
	remove_member("dead1");
	ask(SVC_TOPIC_GET, "t", NULL, &a);
	assert_holds(&a, "\"owner_node\":\"dead1\",\"owner_liveness\":\"unknown\"}");
}

/* One partition only, and none beyond the topic's. */
static void test_topic_get_one_partition(void **state)
{
	struct svc_request rq = request_of(SVC_TOPIC_GET, "t", NULL);

	(void)state;
	make_topic("t");
	rq.partition = 2;
	run(&rq, &a);
	assert_holds(&a, "\"partition_stats\":[{\"index\":2,\"owner_liveness\":\"unassigned\"}]}");
	rq.partition = 3;
	run(&rq, &a);
	assert_answer(&a, 400, "bad_parameter");
}

/* No name is a surprise: missing, empty, far too long. */
static void test_topic_get_missing(void **state)
{
	char longest[1024];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	ask(SVC_TOPIC_GET, "nothing", NULL, &a);
	assert_answer(&a, 404, "topic_not_found");
	assert_int_equal(a.index, world.index);
	ask(SVC_TOPIC_GET, "", NULL, &a);
	assert_answer(&a, 404, "topic_not_found");
	ask(SVC_TOPIC_GET, longest, NULL, &a);
	assert_answer(&a, 404, "topic_not_found");
	ask(SVC_TOPIC_ASSIGNMENTS, longest, NULL, &a);
	assert_answer(&a, 404, "topic_not_found");
}

/* Pages of every size show every topic once, in order, and the last one has no token. */
static void test_topic_list_pages(void **state)
{
	static const char *const names[] = { "a", "b", "b-1", "c", "d" };

	(void)state;
	for (size_t i = 0; i < 5; i++)
		make_topic(names[i]);
	for (uint32_t limit = 1; limit <= 6; limit++) {
		char token[256] = "";
		struct buf seen = { 0 };
		unsigned pages = 0;

		do {
			struct svc_request rq = request_of(SVC_TOPIC_LIST, NULL, NULL);

			rq.limit = limit;
			rq.page_token = str_of(token);
			run(&rq, &a);
			assert_answer(&a, 200, "");
			for (const char *p = strstr(a.body, "{\"name\":\""); p; p = strstr(p + 1, "{\"name\":\"")) {
				buf_printf(&seen, "%.*s ", (int)strcspn(p + 9, "\""), p + 9);
			}
			const char *t = strstr(a.body, "\"next_page_token\":\"");

			assert_non_null(t);
			snprintf(token, sizeof(token), "%.*s", (int)strcspn(t + 19, "\""), t + 19);
			assert_true(++pages < 10);
		} while (token[0] != '\0');
		assert_string_equal(buf_cstr(&seen), "a b b-1 c d ");
		buf_fini(&seen);
		assert_int_equal(pages, (5 + limit - 1) / limit);
	}
}

/* Filters; a page token of a name that is gone goes on behind it. */
static void test_topic_list_filters(void **state)
{
	struct svc_request rq = request_of(SVC_TOPIC_LIST, NULL, NULL);

	(void)state;
	make_topic("a");
	make_topic("b");
	make_topic("b-1");
	rq.prefix = S("b");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"name\""), 2);
	rq.prefix = (struct str){ NULL, 0 };
	rq.page_token = S("az");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"name\""), 2);
	rq.page_token = (struct str){ NULL, 0 };
	rq.owner = S("nobody");
	run(&rq, &a);
	assert_string_equal(a.body, "{\"topics\":[],\"next_page_token\":\"\"}\n");
	rq.owner = (struct str){ NULL, 0 };
	rq.role = S("standalone");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"name\""), 3);
	rq.role = S("parent");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"name\""), 0);
}

/* ---- assignments ---- */

/* A row for each partition, placed or not, and each with its state. */
static void test_assignments_of_a_topic(void **state)
{
	(void)state;
	add_member("n2", true);
	add_member("dead1", false);
	make_topic("t");
	place("t", 0, "n1");
	raft_index placed = world.index;
	move("t", 0, "n2");
	place("t", 1, "dead1");
	ask(SVC_TOPIC_ASSIGNMENTS, "t", NULL, &a);
	assert_answer(&a, 200, "");
	assert_int_equal(count_of(a.body, "\"topic\":\"t\""), 3);
	char want[256];

	snprintf(want, sizeof(want),
	         "\"partition\":0,\"state\":\"moving\",\"owner_id\":\"n1\",\"target_id\":\"n2\","
	         "\"move_id\":%d,\"version\":%d}",
	         (int)placed + 1, (int)placed + 1);
	assert_holds(&a, want);
	assert_holds(&a, "\"partition\":1,\"state\":\"owner_dead\",\"owner_id\":\"dead1\"");
	assert_holds(&a, "\"partition\":2,\"state\":\"unplaced\",\"owner_id\":\"\",\"version\":");

	struct svc_request rq = request_of(SVC_TOPIC_ASSIGNMENT, "t", NULL);

	rq.partition = 1;
	run(&rq, &b);
	assert_answer(&b, 200, "");
	assert_holds(&b, "{\"topic\":\"t\",\"topic_id\":\"");
	assert_holds(&b, "\"partition\":1,\"state\":\"owner_dead\"");
	rq.partition = 3;
	run(&rq, &b);
	assert_answer(&b, 404, "partition_not_found");
}

struct filter {
	const char *owner, *target, *member, *replica, *state, *prefix;
};

static struct str filter_text(const char *s)
{
	return s ? str_of(s) : (struct str){ NULL, 0 };
}

/* All pages of a filter as "a/0 b/1 ". */
static void list(const struct filter *f, uint32_t limit, struct buf *out)
{
	char token[300] = "";
	unsigned pages = 0;

	buf_clear(out);
	do {
		struct svc_request rq = request_of(SVC_ASSIGNMENT_LIST, NULL, NULL);

		rq.owner = filter_text(f->owner);
		rq.target = filter_text(f->target);
		rq.member = filter_text(f->member);
		rq.replica = filter_text(f->replica);
		rq.state = filter_text(f->state);
		rq.prefix = filter_text(f->prefix);
		rq.limit = limit;
		rq.page_token = str_of(token);
		run(&rq, &a);
		assert_answer(&a, 200, "");
		for (const char *p = strstr(a.body, "{\"topic\":\""); p; p = strstr(p + 1, "{\"topic\":\"")) {
			buf_printf(out, "%.*s/%c ", (int)strcspn(p + 10, "\""), p + 10,
			           strstr(p, "\"partition\":")[12]);
		}
		const char *t = strstr(a.body, "\"next_page_token\":\"");

		assert_non_null(t);
		snprintf(token, sizeof(token), "%.*s", (int)strcspn(t + 19, "\""), t + 19);
		assert_true(++pages < 50);
	} while (token[0] != '\0');
}

/* Filters are ANDed, pages of every size give the same list, and each comes from another index. */
static void test_assignment_list_filters(void **state)
{
	static const struct {
		struct filter f;
		const char *want;
	} cases[] = {
		{ { 0 }, "a/0 a/1 a/2 b/0 b/1 b/2 bb/0 bb/1 bb/2 " },
		{ { .prefix = "b" }, "b/0 b/1 b/2 bb/0 bb/1 bb/2 " },
		{ { .prefix = "bb" }, "bb/0 bb/1 bb/2 " },
		{ { .prefix = "x" }, "" },
		{ { .owner = "n1" }, "a/0 b/1 bb/2 " },
		{ { .owner = "n1", .prefix = "b" }, "b/1 bb/2 " },
		{ { .target = "n2" }, "b/1 " },
		{ { .member = "n2" }, "a/1 b/1 " },
		{ { .member = "n2", .owner = "n2" }, "a/1 " },
		{ { .owner = "n1", .target = "n2" }, "b/1 " },
		{ { .owner = "n2", .target = "n1" }, "" },
		{ { .owner = "nobody" }, "" },
		{ { .owner = "" }, "a/2 b/0 b/2 bb/0 bb/1 " },
		{ { .replica = "n1" }, "" },
		{ { .state = "moving" }, "b/1 " },
		{ { .state = "unplaced" }, "a/2 b/0 b/2 bb/0 bb/1 " },
		{ { .state = "unplaced", .prefix = "bb" }, "bb/0 bb/1 " },
		{ { .state = "placed" }, "a/0 a/1 bb/2 " },
		{ { .state = "leaderless" }, "" },
		{ { .state = "owner_dead" }, "" },
	};

	struct buf seen = { 0 };

	(void)state;
	add_member("n2", true);
	make_topic("a");
	make_topic("b");
	make_topic("bb");
	place("a", 0, "n1");
	place("a", 1, "n2");
	place("b", 1, "n1");
	place("bb", 2, "n1");
	move("b", 1, "n2");
	/* Rows without a topic or a partition are no assignments. */
	place("gone", 0, "n1");
	place("a", 7, "n1");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (uint32_t limit = 1; limit <= 10; limit++) {
			list(&cases[i].f, limit, &seen);
			if (strcmp(buf_cstr(&seen), cases[i].want) != 0)
				fail_msg("case %zu, limit %u: %s", i, limit, buf_cstr(&seen));
		}
	}
	buf_fini(&seen);
}

/* Tokens come from outside. */
static void test_assignment_list_refuses_tokens(void **state)
{
	static const char *const bad[] = { "a", "a:", "a:-1", "a:x", "a:99999999999", ":" };
	struct svc_request rq = request_of(SVC_ASSIGNMENT_LIST, NULL, NULL);

	(void)state;
	make_topic("a");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		rq.page_token = str_of(bad[i]);
		run(&rq, &a);
		assert_answer(&a, 400, "bad_parameter");
	}
	/* One that points behind everything is no error. */
	rq.page_token = S("zzz:4294967295");
	run(&rq, &a);
	assert_string_equal(a.body, "{\"assignments\":[],\"next_page_token\":\"\"}\n");
	rq.page_token = S("a:4294967295");
	run(&rq, &a);
	assert_string_equal(a.body, "{\"assignments\":[],\"next_page_token\":\"\"}\n");
}

/* ---- members, status, health ---- */

/* Narad's fields, veena's fields, and counts of partitions. */
static void test_member_list(void **state)
{
	(void)state;
	add_member("n2", false);
	make_topic("t");
	place("t", 0, "n1");
	place("t", 1, "n1");
	move("t", 0, "n2");
	ask(SVC_MEMBER_LIST, NULL, NULL, &a);
	assert_answer(&a, 200, "");
	assert_holds(&a,
	             "{\"members\":[{\"id\":\"n1\",\"addr\":\"127.0.0.1:1\",\"status\":\"alive\",\"draining\":false,"
	             "\"owned_partitions\":2,\"outbound_moves\":1,\"voter\":true,\"leader\":true,"
	             "\"heartbeat_age_seconds\":");
	assert_holds(&a, "\"kind\":\"server\",\"placeable\":true,\"tags\":{},\"labels\":{}},{\"id\":\"n2\"");
	assert_holds(&a, "\"status\":\"dead\"");
}

/* A tag matches as a whole. */
static void test_member_list_filters_by_tag(void **state)
{
	static const struct str_pair pairs[] = { { S("rack"), S("a\"1") }, { S("zone"), S("z") } };
	struct member_extra x = {
		.id = S("n2"), .kind = S(MEMBER_KIND_SERVER), .placeable = false, .tags = { pairs, 2 }
	};
	struct svc_request rq = request_of(SVC_MEMBER_LIST, NULL, NULL);

	(void)state;
	add_member("n2", true);
	assert_int_equal(apply_command(CMD_MEMBER_EXTRA, &x), 0);
	rq.tag_key = S("rack");
	rq.tag_value = S("a\"1");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"id\""), 1);
	assert_holds(&a, "\"id\":\"n2\"");
	assert_holds(&a, "\"placeable\":false,\"tags\":{\"rack\":\"a\\\"1\",\"zone\":\"z\"}");
	rq.tag_value = S("a");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"id\""), 0);
	rq.tag_key = S("z");
	run(&rq, &a);
	assert_int_equal(count_of(a.body, "\"id\""), 0);
}

/* Every field of the contract is there. */
static void test_status_has_every_field(void **state)
{
	static const char *const fields[] = {
		"\"id\":\"n1\"",
		"\"cluster_id\":\"0000000000001234\"",
		"\"build\":\"test\"",
		"\"role\":\"leader\"",
		"\"term\":",
		"\"leader\":\"n1\"",
		"\"leader_addr\":",
		"\"commit_index\":",
		"\"applied_index\":",
		"\"log_first\":",
		"\"log_last\":",
		"\"snapshot_index\":",
		"\"contact_ms\":",
		"\"caught_up\":true",
		"\"ready\":true",
		"\"entry_types\":{\"max\":" NEWEST ",\"cluster_min\":" NEWEST "}",
		"\"held_back\":[]",
		"\"voters\":[\"n1\"]",
		"\"learners\":[]",
		"\"paused\":[]",
		"\"policy_faults\":[]",
		"\"alarms\":[]",
		"\"digest\":{\"index\":",
		"\"disk\":{\"free\":",
		"\"members\":{\"alive\":1,\"dead\":0,\"draining\":0}",
		"\"uptime_s\":",
	};

	(void)state;
	ask(SVC_STATUS, NULL, NULL, &a);
	assert_answer(&a, 200, "");
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		assert_holds(&a, fields[i]);
	assert_null(strstr(a.body, "\"stopped\""));
	snprintf(world.status.stopped, sizeof(world.status.stopped), "disk gone");
	world.version++;
	ask(SVC_STATUS, NULL, NULL, &a);
	assert_holds(&a, "\"stopped\":\"disk gone\"");
}

/* F17: the follower for which the leader keeps its log has a name. */
static void test_F17_status_names_who_holds_the_log(void **state)
{
	(void)state;
	world.status.conf.servers[world.status.conf.count++] =
	    (struct raft_server){ .id = 9, .voter = true, .name = "n3" };
	world.status.peers[0] = (struct raft_peer_view){ .id = 9, .voter = true };
	world.status.peer_count = 1;
	world.version++;
	ask(SVC_STATUS, NULL, NULL, &a);
	assert_holds(&a, "\"alarms\":[]");
	world.status.peers[0].holds = 120;
	world.status.peers[0].holds_since_ms = clock_mono_ms();
	world.version++;
	ask(SVC_STATUS, NULL, NULL, &a);
	assert_holds(&a,
	             "\"alarms\":[{\"code\":\"log_held\",\"message\":\"n3 is behind: the log is kept from entry 121 on "
	             "until it caught up\",\"since\":1");
	ask(SVC_METRICS, NULL, NULL, &a);
	assert_holds(&a, "veena_alarm{code=\"log_held\"} 1\n");
}

static size_t some_faults(void *arg, struct svc_policy_fault out[SVC_POLICY_FAULTS_MAX])
{
	assert_ptr_equal(arg, &world);
	out[0] = (struct svc_policy_fault){ .kind = "placement",
		                            .source = "file",
		                            .message = "placement.lua:3: \"x\"",
		                            .line = 3,
		                            .since_ms = 1700000000123,
		                            .at_ms = 1700000009999,
		                            .count = 7,
		                            .benched = true };
	out[1] = (struct svc_policy_fault){ .kind = "schema", .source = "shipped", .count = 1 };
	return 2;
}

static void some_metrics(void *arg, struct buf *out)
{
	assert_ptr_equal(arg, &world);
	buf_puts(out, "from_control 1\n");
}

/* What the control plane says of itself is shown: its faults, an alarm for each, its series. */
static void test_status_shows_what_control_says(void **state)
{
	const struct svc_control_hooks hooks = { .arg = &world, .faults = some_faults, .put_metrics = some_metrics };

	(void)state;
	svc_set_control(&hooks);
	ask(SVC_STATUS, NULL, NULL, &a);
	assert_holds(&a, "\"policy_faults\":[{\"kind\":\"placement\",\"source\":\"file\","
	                 "\"message\":\"placement.lua:3: \\\"x\\\"\",\"line\":3,\"at\":1700000009,\"count\":7,"
	                 "\"benched\":true},{\"kind\":\"schema\"");
	assert_holds(
	    &a, "\"alarms\":[{\"code\":\"policy_fault\",\"message\":\"the placement policy (file) fails and is not "
		"tried again until its text changes: placement.lua:3: \\\"x\\\"\",\"since\":1700000000},{");
	ask(SVC_METRICS, NULL, NULL, &a);
	assert_holds(&a, "from_control 1\n");
	assert_holds(&a, "veena_alarm{code=\"policy_fault\"} 2\n");
	svc_set_control(NULL);
	ask(SVC_METRICS, NULL, NULL, &a);
	assert_holds(&a, "veena_alarm{code=\"policy_fault\"} 0\n");
	assert_null(strstr(a.body, "from_control"));
}

/* Partitions are counted by what their rows say, and rows that no partition has yet by nobody. */
static void test_metrics_count_partitions(void **state)
{
	struct topic t = { .name = S("t"), .id = S("00000000000000aa"), .partitions = 5 };
	struct assignment row = { .topic = S("t"), .owner_id = S("n1") };
	const struct cmd_move_target move = { .topic = S("t"), .partition = 1, .target = S("n2") };

	(void)state;
	add_member("n2", true);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	for (row.partition = 0; row.partition < 2; row.partition++)
		assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &row), 0);
	assert_int_equal(apply_command(CMD_MOVE_TARGET, &move), 0);
	row.topic = S("ghost");
	assert_int_equal(apply_command(CMD_PARTITION_ASSIGN, &row), 0);
	ask(SVC_METRICS, NULL, NULL, &a);
	assert_holds(&a, "veena_topics_unplaced 1\n");
	assert_holds(&a, "veena_partitions{state=\"unplaced\"} 3\n");
	assert_holds(&a, "veena_partitions{state=\"placed\"} 1\n");
	assert_holds(&a, "veena_partitions{state=\"moving\"} 1\n");
}

/* The reasons in their order; what was caught up once stays so, everything else is judged anew. */
static void test_readyz_names_the_first_reason(void **state)
{
	(void)state;
	world.caught_up = false;
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_answer(&a, 503, "not_ready");
	assert_holds(&a, "metastore: node is not ready: not caught up since start");
	world.caught_up = true;
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_answer(&a, 200, "");
	assert_string_equal(a.body, "{\"status\":\"ready\"}\n");
	world.caught_up = false;
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_answer(&a, 200, "");
	world.contact_ms = 5001;
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_holds(&a, "not ready: last contact 5.001s ago");
	world.contact_ms = -1;
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_holds(&a, "not ready: no contact yet");
	lead(false);
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_holds(&a, "not ready: no leader known");
	snprintf(world.status.stopped, sizeof(world.status.stopped), "disk gone");
	world.version++;
	ask(SVC_READYZ, NULL, NULL, &a);
	assert_holds(&a, "not ready: disk gone");
	ask(SVC_HEALTHZ, NULL, NULL, &a);
	assert_answer(&a, 200, "");
	world.status.stopping = true;
	world.version++;
	ask(SVC_HEALTHZ, NULL, NULL, &a);
	assert_int_equal(a.status, 503);
	assert_holds(&a, "{\"status\":\"shutting down\"}");
}

/* Without a Raft configuration nothing is known, so nothing is said to be absent. */
static void test_reads_need_a_configuration(void **state)
{
	static const enum svc_op ops[] = { SVC_TOPIC_GET,   SVC_TOPIC_LIST,      SVC_TOPIC_ASSIGNMENTS,
		                           SVC_MEMBER_LIST, SVC_ASSIGNMENT_LIST, SVC_TOPIC_ASSIGNMENT };

	(void)state;
	world.status.configured = false;
	world.version++;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		ask(ops[i], "t", NULL, &a);
		assert_answer(&a, 503, "not_ready");
		assert_int_equal(a.retry_after_s, 1);
	}
	ask(SVC_STATUS, NULL, NULL, &a);
	assert_answer(&a, 200, "");
}

/* ---- waiting ---- */

/* min_index: answered once it is applied, 503 behind when the time is over. */
static void test_min_index_waits(void **state)
{
	struct svc_request rq = request_of(SVC_TOPIC_LIST, NULL, NULL);

	(void)state;
	rq.min_index = world.index + 1;
	run(&rq, &a);
	run(&rq, &b);
	turn();
	assert_int_equal(a.count, 0);
	add_member("n2", true);
	turn();
	assert_answer(&a, 200, "");
	assert_answer(&b, 200, "");
	assert_int_equal(a.index, world.index);
	rq.min_index = world.index + 100;
	run(&rq, &a);
	svc_turn(world.svc[0], clock_mono_ms() + 2900);
	assert_int_equal(a.count, 0);
	svc_turn(world.svc[0], clock_mono_ms() + 3100);
	assert_answer(&a, 503, "behind");
	assert_int_equal(a.retry_after_s, 1);
}

struct waited {
	unsigned count;
	bool reached;
};

static void on_reached(void *arg, bool reached)
{
	struct waited *w = arg;

	w->count++;
	w->reached = reached;
}

/* Following an index: at once, when it comes, or not in time. The thread is told when to look again. */
static void test_wait_index(void **state)
{
	struct waited w = { 0 };
	uint64_t next = UINT64_MAX;

	(void)state;
	svc_wait_index(world.svc[0], world.index, 1000, on_reached, &w);
	assert_true(w.count == 1 && w.reached);
	svc_wait_index(world.svc[0], world.index + 1, 1000, on_reached, &w);
	assert_true(svc_prepare_sleep(world.svc[0], &next));
	assert_in_range(next, clock_mono_ms() + 500, clock_mono_ms() + 1000);
	add_member("n2", true);
	assert_false(svc_prepare_sleep(world.svc[0], &next));
	turn();
	assert_true(w.count == 2 && w.reached);
	svc_wait_index(world.svc[0], world.index + 1, 1000, on_reached, &w);
	svc_turn(world.svc[0], clock_mono_ms() + 1100);
	assert_true(w.count == 3 && !w.reached);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_topic_get_joins_owners),
		CASE(test_topic_get_one_partition),
		CASE(test_topic_get_missing),
		CASE(test_topic_list_pages),
		CASE(test_topic_list_filters),
		CASE(test_assignments_of_a_topic),
		CASE(test_assignment_list_filters),
		CASE(test_assignment_list_refuses_tokens),
		CASE(test_member_list),
		CASE(test_member_list_filters_by_tag),
		CASE(test_status_has_every_field),
		CASE(test_status_shows_what_control_says),
		CASE(test_F17_status_names_who_holds_the_log),
		CASE(test_metrics_count_partitions),
		CASE(test_readyz_names_the_first_reason),
		CASE(test_reads_need_a_configuration),
		CASE(test_min_index_waits),
		CASE(test_wait_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
