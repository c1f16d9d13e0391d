/* Who asks, and what for: logins, what is remembered of them, and the grants that operations ask for. */
#include "service_world.h"

#include "model/base64.h"
#include "service/service_internal.h"

static struct answered a;

/* ---- logins ---- */

struct login {
	unsigned count;
	bool ok;
	struct svc_principal principal;
	struct answered answer;
};

static void on_login(void *arg, const struct svc_principal *p, struct svc_answer *answer)
{
	struct login *l = arg;

	l->count++;
	l->ok = p != NULL;
	if (p)
		l->principal = *p;
	else
		on_done(&l->answer, answer);
}

static const char *basic(const char *credentials)
{
	static char header[512];
	const struct str text = str_of(credentials);

	memset(header, 0, sizeof(header));
	memcpy(header, "Basic ", 6);
	base64_encode(header + 6, text);
	return header;
}

static void begin_login(int thread, const char *header, const char *peer, struct login *l)
{
	memset(l, 0, sizeof(*l));
	svc_authenticate(world.svc[thread], str_of(header), peer, on_login, l);
}

/* With the pool's work done. */
static struct login log_in_from(int thread, const char *credentials, const char *peer)
{
	struct login l;

	begin_login(thread, basic(credentials), peer, &l);
	while (pool_turn(world.pool))
		;
	turn();
	assert_int_equal(l.count, 1);
	return l;
}

static struct login log_in(const char *credentials)
{
	return log_in_from(0, credentials, "10.0.0.1:5000");
}

static void assert_refused(const struct login *l, int status, const char *code)
{
	assert_int_equal(l->count, 1);
	assert_false(l->ok);
	assert_answer(&l->answer, status, code);
}

static void set_password(const char *name, const char *hash)
{
	const struct cmd_user_password c = { str_of(name), str_of(hash), 1700000009000 };

	assert_int_equal(apply_command(CMD_USER_PASSWORD, &c), 0);
}

static void set_grant(const char *name, const char *action, const char *pattern)
{
	const struct str patterns[] = { str_of(pattern) };
	const struct grant grants[] = { { str_of(action), { pattern ? patterns : NULL, pattern ? 1 : 0 } } };
	const struct cmd_user_grants c = { str_of(name), { grants, action ? 1 : 0 }, 1700000009000 };

	assert_int_equal(apply_command(CMD_USER_GRANTS, &c), 0);
}

static void delete_user(const char *name)
{
	assert_int_equal(apply_command(CMD_USER_DELETE, &(struct cmd_name){ str_of(name) }), 0);
}

/* What is no Basic header, or holds nothing that could be right, is refused without any work. */
static void test_bad_headers_cost_nothing(void **state)
{
	static const char *const headers[] = {
		NULL, "", "Basic", "Basic ", "Bearer YWRtaW46cHc=", "Basic YWRtaW46cHc", "Basic ****", "Basic YWRtaW4=",
	};
	static const char *const credentials[] = { ":pw", "admin:", "nobody:pw", "a/b:pw", "ADMIN:pw" };
	char too_long[80] = "admin:";
	struct login l;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
		begin_login(0, headers[i], "10.0.0.1:1", &l);
		assert_refused(&l, 401, "unauthenticated");
	}
	memset(too_long + 6, 'x', PASSWORD_MAX + 1);
	for (size_t i = 0; i <= ARRAY_LEN(credentials); i++) {
		begin_login(0, basic(i < ARRAY_LEN(credentials) ? credentials[i] : too_long), "10.0.0.1:1", &l);
		assert_refused(&l, 401, "unauthenticated");
	}
	assert_false(pool_turn(world.pool));
	l = log_in("admin:pw");
	assert_true(l.ok);
	begin_login(0, "bAsIc   YWRtaW46cHc=", "10.0.0.1:1", &l);
	assert_true(l.ok);
}

/* The first login costs a bcrypt, none after it: on the same thread nor on the others. */
static void test_a_right_password_is_remembered(void **state)
{
	struct login l;

	(void)state;
	begin_login(0, basic("admin:pw"), "10.0.0.1:1", &l);
	assert_int_equal(l.count, 0);
	assert_true(pool_turn(world.pool));
	turn();
	assert_true(l.ok);
	assert_string_equal(l.principal.name, "admin");
	assert_true(l.principal.root);
	assert_false(l.principal.anonymous);
	assert_int_equal(l.principal.credential, fsm_hash(S(HASH_PW)));
	for (int thread = 0; thread < 2; thread++) {
		begin_login(thread, basic("admin:pw"), "10.0.0.2:1", &l);
		assert_true(l.ok);
	}
	assert_false(pool_turn(world.pool));
	/* and no other password is taken for it */
	begin_login(0, basic("admin:pw2"), "10.0.0.1:1", &l);
	assert_int_equal(l.count, 0);
	assert_true(pool_turn(world.pool));
	turn();
	assert_refused(&l, 401, "unauthenticated");
}

/* Many that come with the same password wait for one bcrypt, and take one attempt. */
static void test_same_passwords_wait_for_one_bcrypt(void **state)
{
	struct login right[10], wrong[10];
	size_t turns = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(right); i++)
		begin_login((int)(i % 2), basic("admin:pw"), "10.0.0.1:1", &right[i]);
	for (size_t i = 0; i < 5; i++)
		begin_login((int)(i % 2), basic("admin:wrong"), "10.0.0.1:1", &wrong[i]);
	while (pool_turn(world.pool))
		turns++;
	turn();
	assert_int_equal(turns, 2);
	for (size_t i = 0; i < ARRAY_LEN(right); i++)
		assert_true(right[i].ok);
	for (size_t i = 0; i < 5; i++)
		assert_refused(&wrong[i], 401, "unauthenticated");
}

/* Five wrong passwords are five 401; the sixth is 429 and says when. Others go on, and so does who is known. */
static void test_six_wrong_passwords_are_too_many(void **state)
{
	struct login l;
	char text[32];

	(void)state;
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	add_user(CMD_USER_CREATE, "bob", NULL, NULL);
	l = log_in_from(1, "ann:pw", "10.0.0.1:1");
	assert_true(l.ok);
	for (int i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "bob:wrong%d", i);
		l = log_in_from(i % 2, text, "10.0.0.1:1");
		assert_refused(&l, 401, "unauthenticated");
		snprintf(text, sizeof(text), "ann:wrong%d", i);
		l = log_in_from(i % 2, text, "10.0.0.1:1");
		assert_refused(&l, 401, "unauthenticated");
	}
	l = log_in("bob:wrong");
	assert_refused(&l, 429, "throttled");
	assert_int_equal(l.answer.retry_after_s, 12);
	assert_false(pool_turn(world.pool));
	l = log_in("bob:pw"); /* the right one too: who guesses shall not learn of it */
	assert_refused(&l, 429, "throttled");
	l = log_in("ann:pw");
	assert_true(l.ok);
	l = log_in_from(0, "bob:pw", "10.0.0.2:1");
	assert_true(l.ok);
	l = log_in("admin:pw");
	assert_true(l.ok);
}

/* A changed password counts at once, on every thread, and so does a deleted user; other changes forget nothing. */
static void test_changes_count_at_once(void **state)
{
	struct login l;
	char hash[BCRYPT_LEN + 1];

	(void)state;
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	for (int thread = 0; thread < 2; thread++) {
		l = log_in_from(thread, "ann:pw", "10.0.0.1:1");
		assert_true(l.ok);
	}
	set_grant("ann", "create", "*");
	add_user(CMD_USER_CREATE, "bob", NULL, NULL);
	begin_login(0, basic("ann:pw"), "10.0.0.1:1", &l);
	assert_true(l.ok);
	assert_true(bcrypt_make(S("new"), hash));
	set_password("ann", hash);
	for (int thread = 0; thread < 2; thread++) {
		l = log_in_from(thread, "ann:pw", "10.0.0.1:1");
		assert_refused(&l, 401, "unauthenticated");
		l = log_in_from(thread, "ann:new", "10.0.0.1:1");
		assert_true(l.ok);
	}
	/* the old hash again is the old password again, no more */
	set_password("ann", HASH_PW);
	l = log_in("ann:new");
	assert_refused(&l, 401, "unauthenticated");
	delete_user("ann");
	for (int thread = 0; thread < 2; thread++) {
		l = log_in_from(thread, "ann:pw", "10.0.0.1:1");
		assert_refused(&l, 401, "unauthenticated");
	}
}

/* A password that was compared with a hash which is gone by then lets nobody in. */
static void test_hash_that_changes_meanwhile(void **state)
{
	struct login l;
	char hash[BCRYPT_LEN + 1];

	(void)state;
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	assert_true(bcrypt_make(S("new"), hash));
	begin_login(0, basic("ann:pw"), "10.0.0.1:1", &l);
	assert_true(pool_turn(world.pool));
	set_password("ann", hash);
	turn();
	assert_refused(&l, 401, "unauthenticated");
	set_password("ann", HASH_PW);
	begin_login(0, basic("ann:pw"), "10.0.0.1:1", &l);
	assert_true(pool_turn(world.pool) || l.count == 1);
	delete_user("ann");
	turn();
	assert_int_equal(l.count, 1);
}

/* A node that can know nobody says so; a login that waits too long ends, and its slot comes back with the answer. */
static void test_logins_that_cannot_be_answered(void **state)
{
	struct login l;
	struct login many[20];
	size_t busy = 0;

	(void)state;
	world.status.configured = false;
	world.version++;
	begin_login(0, basic("admin:pw"), "10.0.0.1:1", &l);
	assert_refused(&l, 503, "not_ready");
	assert_holds(&l.answer, "\"outcome\":\"none\"");
	world.status.configured = true;
	world.version++;

	begin_login(0, basic("admin:pw"), "10.0.0.1:1", &l);
	assert_int_equal(l.count, 0);
	svc_turn(world.svc[0], clock_mono_ms() + BCRYPT_WAIT_MS + 1);
	assert_refused(&l, 503, "overloaded");
	assert_int_equal(svc_outstanding(world.svc[0]), 0);
	while (pool_turn(world.pool))
		;
	turn();
	l = log_in("admin:pw");
	assert_true(l.ok);

	/* more at once than the thread has slots */
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		begin_login(0, basic("ann:pw"), "10.0.0.1:1", &many[i]);
		busy += many[i].count;
	}
	assert_int_equal(busy, 4);
	while (pool_turn(world.pool))
		;
	turn();
	assert_true(many[0].ok && many[15].ok);
	assert_refused(&many[19], 503, "overloaded");
}

/* ---- what operations ask for ---- */

static struct svc_request request_as(const char *user, enum svc_op op, enum svc_grant grant, const char *topic,
                                     const char *body)
{
	struct svc_request rq = request_of(op, topic, body);

	rq.grant = grant;
	if (user)
		act_as(&rq, user);
	return rq;
}

/* Each operation, and who may: nobody in between sees or does more than its grants say. */
static void test_operations_ask_for_their_grants(void **state)
{
	static const char *const users[] = { "admin",    "boss",    "owner",  "creator",
		                             "consumer", "watcher", "broker", "none" };
	static const struct {
		enum svc_op op;
		enum svc_grant grant;
		const char *topic, *body;
		int status[8]; /* of each user */
	} rows[] = {
		{ SVC_TOPIC_GET, SVC_GRANT_READ, "a", NULL, { 200, 200, 200, 200, 200, 200, 200, 403 } },
		{ SVC_TOPIC_GET, SVC_GRANT_READ, "zz", NULL, { 404, 404, 404, 404, 404, 404, 404, 404 } },
		{ SVC_TOPIC_ASSIGNMENTS, SVC_GRANT_READ, "a", NULL, { 200, 200, 200, 200, 200, 200, 200, 403 } },
		{ SVC_TOPIC_ASSIGNMENT, SVC_GRANT_READ, "a", NULL, { 200, 200, 200, 200, 200, 200, 200, 403 } },
		{ SVC_CHILD_LIST, SVC_GRANT_READ, "a", NULL, { 200, 200, 200, 200, 200, 200, 200, 403 } },
		{ SVC_SCHEMA_LIST, SVC_GRANT_READ, "a", NULL, { 200, 200, 200, 200, 200, 200, 200, 403 } },
		{ SVC_TOPIC_LIST, SVC_GRANT_ANY, NULL, NULL, { 200, 200, 200, 200, 200, 200, 200, 200 } },
		{ SVC_ASSIGNMENT_LIST, SVC_GRANT_OBSERVE, NULL, NULL, { 200, 200, 403, 403, 403, 200, 200, 403 } },
		{ SVC_MEMBER_LIST, SVC_GRANT_OBSERVE, NULL, NULL, { 200, 200, 403, 403, 403, 200, 200, 403 } },
		{ SVC_SERVER_LIST, SVC_GRANT_OBSERVE, NULL, NULL, { 200, 200, 403, 403, 403, 200, 200, 403 } },
		{ SVC_STATUS, SVC_GRANT_OBSERVE, NULL, NULL, { 200, 200, 403, 403, 403, 200, 200, 403 } },
		{ SVC_USER_LIST, SVC_GRANT_ADMIN, NULL, NULL, { 200, 200, 403, 403, 403, 403, 403, 403 } },
		{ SVC_USER_GET, SVC_GRANT_ADMIN, NULL, NULL, { 200, 200, 403, 403, 403, 403, 403, 403 } },
		{ SVC_BARRIER, SVC_GRANT_ANY, NULL, NULL, { 200, 200, 200, 200, 200, 200, 200, 200 } },
		{ SVC_TOPIC_CREATE,
		  SVC_GRANT_CREATE,
		  NULL,
		  "{\"name\":\"a\"}",
		  { 409, 409, 403, 409, 403, 403, 403, 403 } },
		{ SVC_TOPIC_CREATE,
		  SVC_GRANT_CREATE,
		  NULL,
		  "{\"name\":\"c\",\"parent\":\"b\"}",
		  { 404, 404, 403, 403, 403, 403, 403, 403 } },
		{ SVC_TOPIC_ALTER,
		  SVC_GRANT_MANAGE,
		  "a",
		  "{\"retention_ms\":0}",
		  { 200, 200, 200, 403, 403, 403, 403, 403 } },
		{ SVC_TOPIC_DELETE, SVC_GRANT_MANAGE, "zz", NULL, { 404, 404, 404, 404, 404, 404, 404, 404 } },
		{ SVC_CHILD_ATTACH,
		  SVC_GRANT_MANAGE,
		  "a",
		  "{\"child\":\"zz\"}",
		  { 404, 404, 404, 403, 403, 403, 403, 403 } },
		{ SVC_USER_CREATE,
		  SVC_GRANT_ADMIN,
		  NULL,
		  "{\"username\":\"boss\",\"password\":\"x\"}",
		  { 409, 409, 403, 403, 403, 403, 403, 403 } },
	};
	struct topic t = { .name = S("a"), .id = S("1111111111111111"), .partitions = 3, .owner = S("owner") };

	(void)state;
	add_user(CMD_USER_CREATE, "boss", "admin", NULL);
	add_user(CMD_USER_CREATE, "owner", NULL, NULL);
	add_user(CMD_USER_CREATE, "creator", "create", "a*");
	add_user(CMD_USER_CREATE, "consumer", "consume", "a");
	add_user(CMD_USER_CREATE, "watcher", "observe", NULL);
	add_user(CMD_USER_CREATE, "broker", "member", "m*");
	add_user(CMD_USER_CREATE, "none", "create", "x*");
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (size_t u = 0; u < ARRAY_LEN(users); u++) {
			struct svc_request rq =
			    request_as(users[u], rows[i].op, rows[i].grant, rows[i].topic, rows[i].body);

			rq.partition = rows[i].op == SVC_TOPIC_ASSIGNMENT ? 0 : -1;
			rq.user = rows[i].op == SVC_USER_GET ? S("boss") : rq.user;
			run_to_end(&rq, &a);
			if (a.status != rows[i].status[u])
				fail_msg("row %zu, %s: %d %s", i, users[u], a.status, a.body);
			if (a.status == 403)
				assert_string_equal(a.code, "forbidden");
		}
	}
}

/* A list shows what its reader may read, and nothing else. */
static void test_lists_show_what_may_be_read(void **state)
{
	static const char *const names[] = { "a1", "a2", "b1" };
	struct svc_request rq;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct topic t = { .name = str_of(names[i]), .id = S("1111111111111111"), .partitions = 3 };

		t.owner = i == 2 ? S("ann") : S("");
		assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	}
	add_user(CMD_USER_CREATE, "ann", "produce", "a2");
	add_user(CMD_USER_CREATE, "eve", NULL, NULL);
	rq = request_as("ann", SVC_TOPIC_LIST, SVC_GRANT_ANY, NULL, NULL);
	run_to_end(&rq, &a);
	assert_null(strstr(a.body, "\"name\":\"a1\""));
	assert_holds(&a, "\"name\":\"a2\"");
	assert_holds(&a, "\"name\":\"b1\"");
	rq = request_as("eve", SVC_TOPIC_LIST, SVC_GRANT_ANY, NULL, NULL);
	run_to_end(&rq, &a);
	assert_string_equal(a.body, "{\"topics\":[],\"next_page_token\":\"\"}\n");
}

/* What a server forwards is judged by this one's own users: strangers, anonymous ones, and credentials that are no more
 * in force are refused, whatever the frame claims; a change of grants alone refuses nobody. */
static void test_forwarded_principals_are_judged_here(void **state)
{
	struct svc_request rq = request_as(NULL, SVC_TOPIC_CREATE, SVC_GRANT_CREATE, NULL, "{\"name\":\"a\"}");
	char hash[BCRYPT_LEN + 1];

	(void)state;
	svc_set_placer(NULL, NULL);
	run_to_end(&rq, &a);
	assert_answer(&a, 401, "unauthenticated");
	act_as(&rq, "nobody");
	rq.principal.root = true;
	run_to_end(&rq, &a);
	assert_answer(&a, 401, "unauthenticated");
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	act_as(&rq, "ann");
	rq.principal.root = true;
	run_to_end(&rq, &a);
	assert_answer(&a, 403, "forbidden");
	set_grant("ann", "create", "*");
	act_as(&rq, "ann");
	run_to_end(&rq, &a);
	assert_answer(&a, 201, "");
	assert_holds(&a, "\"owner\":\"ann\"");
	assert_true(bcrypt_make(S("new"), hash));
	set_password("ann", hash);
	run_to_end(&rq, &a);
	assert_answer(&a, 401, "unauthenticated");
	/* and a refusal that hangs on the state was confirmed */
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	assert_int_equal(a.count, 0);
	assert_int_equal(world.read_count, 1);
	answer_read(0, world.index);
	assert_answer(&a, 401, "unauthenticated");
}

/* Between the check and its entry the topic became somebody else's: 403, not 409, and nothing happened. */
static void test_changed_topic_is_authorised_anew(void **state)
{
	struct svc_request rq = request_as("ann", SVC_TOPIC_DELETE, SVC_GRANT_MANAGE, "a", NULL);
	struct topic t = { .name = S("a"), .id = S("1111111111111111"), .partitions = 3, .owner = S("ann") };
	const struct cmd_name name = { S("a") };

	(void)state;
	add_user(CMD_USER_CREATE, "ann", NULL, NULL);
	add_user(CMD_USER_CREATE, "bob", NULL, NULL);
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	memset(&a, 0, sizeof(a));
	svc_run(world.svc[0], &rq, on_done, &a);
	assert_int_equal(world.proposal_count, 1);
	assert_int_equal(apply_command(CMD_TOPIC_DELETE, &name), 0);
	t.id = S("2222222222222222");
	t.owner = S("bob");
	assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	commit_one();
	assert_int_equal(a.count, 0);
	answer_read(0, world.index);
	assert_answer(&a, 403, "forbidden");
	rq = request_as("bob", SVC_TOPIC_GET, SVC_GRANT_READ, "a", NULL);
	run_to_end(&rq, &a);
	assert_answer(&a, 200, "");
}

/* With auth off everybody is everything, and there is no user to be. */
static void test_auth_off_asks_nobody(void **state)
{
	struct svc_request rq = request_of(SVC_USER_LIST, NULL, NULL);

	(void)state;
	rq.grant = SVC_GRANT_ADMIN;
	run_to_end(&rq, &a);
	assert_answer(&a, 200, "");
	assert_string_equal(a.body, "[]\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE_AUTH(test_bad_headers_cost_nothing),
		CASE_AUTH(test_a_right_password_is_remembered),
		CASE_AUTH(test_same_passwords_wait_for_one_bcrypt),
		CASE_AUTH(test_six_wrong_passwords_are_too_many),
		CASE_AUTH(test_changes_count_at_once),
		CASE_AUTH(test_hash_that_changes_meanwhile),
		CASE_AUTH(test_logins_that_cannot_be_answered),
		CASE_AUTH(test_operations_ask_for_their_grants),
		CASE_AUTH(test_lists_show_what_may_be_read),
		CASE_AUTH(test_forwarded_principals_are_judged_here),
		CASE_AUTH(test_changed_topic_is_authorised_anew),
		CASE(test_auth_off_asks_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
