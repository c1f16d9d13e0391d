/* The writes of users, the root user's rules, and how the first user comes to be. */
#include "service_world.h"

#include "fsm/users.h"
#include "service/rights.h"
#include "service/service_internal.h"

static struct answered a;

static void run_as(const char *user, enum svc_op op, const char *target, const char *body)
{
	struct svc_request rq = request_of(op, NULL, body);

	rq.grant = op == SVC_USER_PASSWORD ? SVC_GRANT_ANY : SVC_GRANT_ADMIN;
	if (user)
		act_as(&rq, user);
	if (target)
		rq.user = str_of(target);
	run_to_end(&rq, &a);
}

static const char *stored(const char *name)
{
	static char text[1024];
	struct store_txn *txn;
	struct str record;
	struct err e;

	assert_int_equal(fsm_read(&world.svc[0]->reader, &txn, &e), 0);
	if (fsm_get_user(txn, str_of(name), &record) != 0)
		return "";
	snprintf(text, sizeof(text), "%.*s", STR_ARG(record));
	return text;
}

static void assert_stored(const char *name, const char *text)
{
	if (!strstr(stored(name), text))
		fail_msg("no %s in %s", text, stored(name));
}

static struct str hash_of(const char *name)
{
	static struct rights r;
	struct err e = { 0 };

	rights_fini(&r);
	assert_int_equal(rights_read(&r, str_of(stored(name)), &e), 0);
	return r.user.password_hash;
}

static int setup(void **state)
{
	world_setup_auth(state);
	add_user(CMD_USER_CREATE, "boss", "admin", NULL);
	add_user(CMD_USER_CREATE, "ann", "create", "a*");
	return 0;
}

#define USERS(f) cmocka_unit_test_setup_teardown(f, setup, world_teardown)

/* 201 with Narad's fields, and never the hash; the stored hash is of the password. */
static void test_create_answers_without_the_hash(void **state)
{
	(void)state;
	run_as("boss", SVC_USER_CREATE, NULL,
	       "{\"username\":\"eve\",\"password\":\"s\",\"grants\":[{\"action\":\"create\",\"patterns\":[\"e*\"]}]}");
	assert_answer(&a, 201, "");
	assert_holds(&a, "{\"username\":\"eve\",\"grants\":[{\"action\":\"create\",\"patterns\":[\"e*\"]}],"
	                 "\"created_at_ms\":1");
	assert_null(strstr(a.body, "hash"));
	assert_null(strstr(a.body, "$2"));
	assert_true(bcrypt_matches(S("s"), hash_of("eve")));
	run_as("boss", SVC_USER_GET, "eve", NULL);
	assert_answer(&a, 200, "");
	assert_null(strstr(a.body, "hash"));
	run_as("boss", SVC_USER_LIST, NULL, NULL);
	assert_answer(&a, 200, "");
	assert_true(a.body[0] == '[');
	assert_null(strstr(a.body, "hash"));
	assert_true(strstr(a.body, "\"admin\"") < strstr(a.body, "\"ann\""));
	assert_true(strstr(a.body, "\"ann\"") < strstr(a.body, "\"boss\""));
	run_as("boss", SVC_USER_GET, "nobody", NULL);
	assert_answer(&a, 404, "user_not_found");
}

/* What is wrong with a body is said by its field, before the pool has any work. */
static void test_bad_bodies_are_named(void **state)
{
	static const struct {
		enum svc_op op;
		const char *target, *body, *code, *field;
	} rows[] = {
		{ SVC_USER_CREATE, NULL, "", "bad_json", NULL },
		{ SVC_USER_CREATE, NULL, "{\"username\":\"e\"}", "bad_field", "password" },
		{ SVC_USER_CREATE, NULL, "{\"username\":\"..\",\"password\":\"x\"}", "bad_field", "username" },
		{ SVC_USER_CREATE, NULL, "{\"username\":\"e\",\"password\":\"\"}", "bad_field", "password" },
		{ SVC_USER_CREATE, NULL, "{\"username\":\"e\",\"password\":\"x\",\"root\":true}", "unknown_field",
		  "root" },
		{ SVC_USER_CREATE, NULL, "{\"username\":\"e\",\"password\":\"x\",\"grants\":[{\"action\":\"fly\"}]}",
		  "bad_field", "grants[0].action" },
		{ SVC_USER_CREATE, NULL, "{\"username\":\"e\",\"password\":\"x\",\"grants\":[{\"action\":\"create\"}]}",
		  "bad_field", "grants[0].patterns" },
		{ SVC_USER_GRANTS, "ann", "{}", "bad_field", "grants" },
		{ SVC_USER_GRANTS, "ann", "{\"grants\":[{\"action\":\"admin\",\"patterns\":[\"*\"]}]}", "bad_field",
		  "grants[0].patterns" },
		{ SVC_USER_PASSWORD, "ann", "{\"current_password\":\"pw\"}", "bad_field", "new_password" },
		{ SVC_USER_PASSWORD, "ann", "{\"new_password\":\"\"}", "bad_field", "new_password" },
		{ SVC_USER_PASSWORD, "ann",
		  "{\"new_password\":\"1234567890123456789012345678901234567890123456789012345678901234567890123\"}",
		  "bad_field", "new_password" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char field[64];

		run_as("admin", rows[i].op, rows[i].target, rows[i].body);
		if (a.status != 400 || strcmp(a.code, rows[i].code) != 0)
			fail_msg("row %zu: %d %s", i, a.status, a.body);
		if (!rows[i].field)
			continue;
		snprintf(field, sizeof(field), "\"field\":\"%s\"", rows[i].field);
		assert_holds(&a, field);
	}
	assert_false(pool_turn(world.pool));
}

/* Who may not, or asks for what is there, gets no bcrypt for it. */
static void test_refusals_cost_no_bcrypt(void **state)
{
	const char *eve = "{\"username\":\"eve\",\"password\":\"x\"}";
	struct svc_request rq = request_of(SVC_USER_CREATE, NULL, eve);

	(void)state;
	rq.grant = SVC_GRANT_ADMIN;
	act_as(&rq, "ann");
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	answer_read(0, world.index);
	assert_answer(&a, 403, "forbidden");
	assert_holds(&a, "admin privileges required");
	act_as(&rq, "boss");
	rq.body = S("{\"username\":\"ann\",\"password\":\"x\"}");
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	answer_read(0, world.index);
	assert_answer(&a, 409, "user_exists");
	assert_false(pool_turn(world.pool));
}

/* While the hash is computed the asker may lose its right; the name may be taken. Both are seen. */
static void test_checked_again_behind_the_hash(void **state)
{
	struct svc_request rq = request_of(SVC_USER_CREATE, NULL, "{\"username\":\"eve\",\"password\":\"x\"}");

	(void)state;
	rq.grant = SVC_GRANT_ADMIN;
	act_as(&rq, "boss");
	for (int i = 0; i < 2; i++) {
		memset(&a, 0, sizeof(a));
		svc_run(world.svc[0], &rq, on_done, &a);
		assert_true(pool_turn(world.pool));
		if (i == 0)
			add_user(CMD_USER_CREATE, "eve", NULL, NULL);
		else
			assert_int_equal(apply_command(CMD_USER_DELETE, &(struct cmd_name){ S("boss") }), 0);
		turn();
		assert_int_equal(a.count, 0);
		answer_read(0, world.index);
		assert_answer(&a, i == 0 ? 409 : 401, i == 0 ? "user_exists" : "unauthenticated");
		rq.body = S("{\"username\":\"eva\",\"password\":\"x\"}");
	}
	assert_int_equal(world.proposal_count, 0);
}

/* Only root gives the grant to give; an admin gives the rest. */
static void test_only_root_grants_admin(void **state)
{
	const char *make = "{\"username\":\"eve\",\"password\":\"x\",\"grants\":[{\"action\":\"admin\"}]}";
	const char *give = "{\"grants\":[{\"action\":\"observe\"},{\"action\":\"admin\"}]}";

	(void)state;
	run_as("boss", SVC_USER_CREATE, NULL, make);
	assert_answer(&a, 403, "forbidden");
	run_as("boss", SVC_USER_GRANTS, "ann", give);
	assert_answer(&a, 403, "forbidden");
	run_as("admin", SVC_USER_CREATE, NULL, make);
	assert_answer(&a, 201, "");
	run_as("admin", SVC_USER_GRANTS, "ann", give);
	assert_answer(&a, 200, "");
	assert_holds(&a, "\"grants\":[{\"action\":\"observe\"},{\"action\":\"admin\"}]");
	assert_null(strstr(a.body, "hash"));
	run_as("boss", SVC_USER_GRANTS, "ann", "{\"grants\":[]}");
	assert_answer(&a, 200, "");
	assert_null(strstr(stored("ann"), "grants"));
	run_as("boss", SVC_USER_GRANTS, "nobody", "{\"grants\":[]}");
	assert_answer(&a, 404, "user_not_found");
}

/* Nobody changes its own grants or deletes itself; nobody touches root but root its password. */
static void test_self_and_root_are_spared(void **state)
{
	(void)state;
	run_as("boss", SVC_USER_GRANTS, "boss", "{\"grants\":[]}");
	assert_answer(&a, 403, "forbidden");
	run_as("boss", SVC_USER_DELETE, "boss", NULL);
	assert_answer(&a, 403, "forbidden");
	run_as("boss", SVC_USER_GRANTS, "admin", "{\"grants\":[]}");
	assert_answer(&a, 403, "root_protected");
	run_as("admin", SVC_USER_GRANTS, "admin", "{\"grants\":[]}");
	assert_answer(&a, 403, "root_protected");
	run_as("boss", SVC_USER_DELETE, "admin", NULL);
	assert_answer(&a, 403, "root_protected");
	run_as("admin", SVC_USER_DELETE, "admin", NULL);
	assert_answer(&a, 403, "root_protected");
	run_as("boss", SVC_USER_PASSWORD, "admin", "{\"new_password\":\"n\"}");
	assert_answer(&a, 403, "root_protected");
	run_as("admin", SVC_USER_PASSWORD, "admin", "{\"new_password\":\"n\"}");
	assert_answer(&a, 204, "");
	assert_true(bcrypt_matches(S("n"), hash_of("admin")));
}

/* Oneself by the old password, an admin without; nobody else's otherwise. */
static void test_password_needs_the_old_one_or_an_admin(void **state)
{
	(void)state;
	add_user(CMD_USER_CREATE, "bob", NULL, NULL);
	run_as("bob", SVC_USER_PASSWORD, "ann", "{\"new_password\":\"n\",\"current_password\":\"pw\"}");
	assert_answer(&a, 403, "forbidden");
	run_as("bob", SVC_USER_PASSWORD, "nobody", "{\"new_password\":\"n\"}");
	assert_answer(&a, 403, "forbidden"); /* who may not ask is not told who there is */
	run_as("ann", SVC_USER_PASSWORD, "ann", "{\"new_password\":\"n\"}");
	assert_answer(&a, 403, "forbidden");
	run_as("ann", SVC_USER_PASSWORD, "ann", "{\"new_password\":\"n\",\"current_password\":\"wrong\"}");
	assert_answer(&a, 403, "forbidden");
	assert_stored("ann", "\"grants\":[{\"action\":\"create\"");
	assert_true(str_is(hash_of("ann"), HASH_PW));
	run_as("ann", SVC_USER_PASSWORD, "ann", "{\"new_password\":\"n\",\"current_password\":\"pw\"}");
	assert_answer(&a, 204, "");
	assert_true(bcrypt_matches(S("n"), hash_of("ann")));
	run_as("ann", SVC_USER_PASSWORD, "ann", "{\"new_password\":\"m\",\"current_password\":\"n\"}");
	assert_answer(&a, 401, "unauthenticated"); /* what it said to get in is the old one */
	run_as("boss", SVC_USER_PASSWORD, "bob", "{\"new_password\":\"n\"}");
	assert_answer(&a, 204, "");
	run_as("boss", SVC_USER_PASSWORD, "nobody", "{\"new_password\":\"n\"}");
	assert_answer(&a, 404, "user_not_found");
}

/* A delete takes the user's name off its topics; while a member does not know how, it is the old one, and that is said.
 */
static void test_delete_releases_topics(void **state)
{
	struct topic t = { .name = S("a"), .id = S("1111111111111111"), .partitions = 3, .owner = S("ann") };
	struct answered topic;

	(void)state;
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	run_as("boss", SVC_USER_DELETE, "ann", NULL);
	assert_answer(&a, 204, "");
	assert_string_equal(stored("ann"), "");
	struct svc_request rq = request_of(SVC_TOPIC_GET, "a", NULL);

	act_as(&rq, "admin");
	memset(&topic, 0, sizeof(topic));
	svc_run(world.svc[0], &rq, on_done, &topic);
	assert_null(strstr(topic.body, "owner\""));
	run_as("boss", SVC_USER_DELETE, "ann", NULL);
	assert_answer(&a, 404, "user_not_found");

	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	t.name = S("b");
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	world_hold_back(CMD_USER_DELETE_RELEASE - 1);
	run_as("boss", SVC_USER_DELETE, "ann", NULL);
	assert_answer(&a, 204, "");
	assert_true(world.held_back_said > 0);
	rq.topic = S("b");
	memset(&topic, 0, sizeof(topic));
	svc_run(world.svc[0], &rq, on_done, &topic);
	assert_holds(&topic, "\"owner\":\"ann\"");
}

/* ---- audit ---- */

static char lines[4096];

static void keep_line(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "audit "))
		snprintf(lines + strlen(lines), sizeof(lines) - strlen(lines), "%s\n", line);
}

/* One line for each change: who, what, from where, what came of it. Names are escaped, secrets are not in it. */
static void test_each_change_is_audited(void **state)
{
	(void)state;
	lines[0] = '\0';
	log_configure(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_set_sink(keep_line, NULL);
	run_as("boss", SVC_USER_CREATE, NULL, "{\"username\":\"eve\",\"password\":\"secret1\"}");
	run_as("ann", SVC_USER_CREATE, NULL, "{\"username\":\"ewe\",\"password\":\"secret1\"}");
	run_as("boss", SVC_USER_DELETE, "no\n\"one", NULL);
	run_as("boss", SVC_USER_GET, "eve", NULL);
	log_set_sink(NULL, NULL);
	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	assert_non_null(
	    strstr(lines, "op=user.create actor=\"boss\" target=\"eve\" peer=- origin=n1 outcome=ok status=201"));
	assert_non_null(strstr(lines, "actor=\"ann\" target=\"ewe\" peer=- origin=n1 outcome=denied status=403"));
	assert_non_null(strstr(lines, "op=user.delete actor=\"boss\" target=\"no\\u000a\\\"one\" peer=- origin=n1 "
	                              "outcome=rejected status=404 code=user_not_found"));
	assert_null(strstr(lines, "secret1"));
	assert_null(strstr(lines, "user.get"));
	size_t count = 0;

	for (const char *p = lines; (p = strstr(p, " op=")); p++)
		count++;
	assert_int_equal(count, 3);
}

/* ---- the first user ---- */

static const char *admin_password;

static int setup_empty(void **state)
{
	(void)state;
	world_open();
	world_begin(&(struct svc_shared_options){ .auth = true, .admin_password = admin_password });
	return 0;
}

static int setup_with_password(void **state)
{
	admin_password = "given";
	return setup_empty(state);
}

static int setup_without_password(void **state)
{
	admin_password = NULL;
	return setup_empty(state);
}

static void seed(void)
{
	lines[0] = '\0';
	log_configure(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_set_sink(keep_line, NULL);
	turn();
	assert_true(pool_turn(world.pool));
	turn();
	assert_int_equal(world.proposal_count, 1);
	commit_one();
	log_set_sink(NULL, NULL);
	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
}

/* The leader of a cluster without users makes root with the password of the file, once. */
static void test_root_gets_the_given_password(void **state)
{
	uint64_t next = UINT64_MAX;

	(void)state;
	seed();
	assert_true(bcrypt_matches(S("given"), hash_of("admin")));
	assert_stored("admin", "\"root\":true");
	turn();
	assert_int_equal(world.proposal_count, 0);
	assert_false(pool_turn(world.pool));
	svc_prepare_sleep(world.svc[0], &next);
	assert_true(next == UINT64_MAX); /* nobody wakes up for it any more */
}

static char said[512];

static void keep_password(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "auth.admin_made"))
		snprintf(said, sizeof(said), "%s", strstr(line, "password=") + 9);
}

/* Without a file one is made: long, said once in the log, and it is the one. */
static void test_root_gets_a_random_password(void **state)
{
	(void)state;
	said[0] = '\0';
	log_configure(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	turn();
	assert_true(pool_turn(world.pool));
	turn();
	log_set_sink(keep_password, NULL);
	commit_one();
	log_set_sink(NULL, NULL);
	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	assert_int_equal(strcspn(said, " "), 32);
	assert_true(bcrypt_matches((struct str){ said, 32 }, hash_of("admin")));
	assert_string_equal(world.svc[0]->seed.password, "");
}

/* A follower makes nobody, and clients are told that there is nobody yet; an attempt that came to nothing is repeated.
 */
static void test_root_is_made_by_the_leader_alone(void **state)
{
	(void)state;
	lead(false);
	turn();
	assert_false(pool_turn(world.pool));
	assert_int_equal(world.proposal_count, 0);
	lead(true);
	world.status.term_start = world.index;
	world.version++;
	world.svc[0]->seed.again_ms = 0;
	turn();
	assert_true(pool_turn(world.pool));
	turn();
	fail_one(ERR_CLOSED);
	assert_string_equal(stored("admin"), "");
	world.svc[0]->seed.again_ms = 0;
	seed();
	assert_stored("admin", "\"root\":true");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		USERS(test_create_answers_without_the_hash),
		USERS(test_bad_bodies_are_named),
		USERS(test_refusals_cost_no_bcrypt),
		USERS(test_checked_again_behind_the_hash),
		USERS(test_only_root_grants_admin),
		USERS(test_self_and_root_are_spared),
		USERS(test_password_needs_the_old_one_or_an_admin),
		USERS(test_delete_releases_topics),
		USERS(test_each_change_is_audited),
		cmocka_unit_test_setup_teardown(test_root_gets_the_given_password, setup_with_password, world_teardown),
		cmocka_unit_test_setup_teardown(test_root_gets_a_random_password, setup_without_password,
		                                world_teardown),
		cmocka_unit_test_setup_teardown(test_root_is_made_by_the_leader_alone, setup_with_password,
		                                world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
