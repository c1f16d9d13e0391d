/* Users: what each entry type does, refuses and leaves alone. */
#include "fsm_harness.h"

#define ANN                                                                                                            \
	"\"username\":\"ann\",\"password_hash\":\"aGFzaA==\",\"grants\":[{\"action\":\"create\",\"patterns\":["        \
	"\"orders\",\"eu.*\"]}]"
#define STAMPS ",\"created_at_ms\":1700000000000,\"updated_at_ms\":1700000000000"

static int do_owned(struct rig *r, const char *name, const char *owner)
{
	struct topic t = topic_of(name, "1111111111111111", 3);
	t.owner = str_of(owner);
	return do_create_with(r, t, NULL, NULL);
}

static int do_name(struct rig *r, enum command_type type, const char *name)
{
	return rig_do(r, type, &(struct cmd_name){ str_of(name) });
}

/* Narad's record byte for byte, and root only by its own type, whatever the payload says. */
static void test_create_keeps_the_record_and_root_apart(void **state)
{
	struct rig *r = *state;
	struct user u = user_of("ann", "hash");
	u.root = true;
	assert_int_equal(rig_do(r, CMD_USER_CREATE, &u), 0);
	assert_string_equal(stored(r, STORE_USERS, "ann"), "{" ANN STAMPS "}");
	u = user_of("admin", "hash");
	u.grants = (struct record_list){ 0 };
	assert_int_equal(rig_do(r, CMD_USER_SEED_ROOT, &u), 0);
	assert_string_equal(stored(r, STORE_USERS, "admin"),
	                    "{\"username\":\"admin\",\"password_hash\":\"aGFzaA==\",\"root\":true" STAMPS "}");
}

/* A taken name is refused by create and seed alike, before anything is said about the name itself. */
static void test_create_refuses_what_is_there(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_user(r, "ann", false), 0);
	const struct fsm_digest before = digest(r);
	assert_int_equal(do_user(r, "ann", false), FSM_USER_EXISTS);
	assert_int_equal(do_user(r, "ann", true), FSM_USER_EXISTS);
	assert_int_equal(do_user(r, "", false), FSM_INVALID);
	assert_int_equal(do_user(r, "a/b", false), FSM_INVALID);
	assert_int_equal(do_user(r, "..", true), FSM_INVALID);
	assert_int_equal(digest(r).db[STORE_USERS], before.db[STORE_USERS]);
	assert_int_equal(rows(r, STORE_USERS), 1);
}

/* The whole record is replaced, but who is root stays, with root's grants. */
static void test_update_keeps_root_and_its_grants(void **state)
{
	struct rig *r = *state;
	struct user u = user_of("ann", "new");
	assert_int_equal(rig_do(r, CMD_USER_UPDATE, &u), FSM_USER_NOT_FOUND);
	assert_int_equal(do_user(r, "ann", false), 0);
	u.root = true;
	u.grants = (struct record_list){ 0 };
	u.created_at_ms = 5;
	assert_int_equal(rig_do(r, CMD_USER_UPDATE, &u), 0);
	assert_string_equal(stored(r, STORE_USERS, "ann"),
	                    "{\"username\":\"ann\",\"password_hash\":\"bmV3\",\"created_at_ms\":5,"
	                    "\"updated_at_ms\":1700000000000}");
	assert_int_equal(do_user(r, "admin", true), 0);
	u.username = S("admin");
	u.root = false;
	assert_int_equal(rig_do(r, CMD_USER_UPDATE, &u), 0);
	assert_non_null(strstr(stored(r, STORE_USERS, "admin"), "\"patterns\":[\"orders\",\"eu.*\"]"));
	assert_non_null(strstr(stored(r, STORE_USERS, "admin"), "\"root\":true"));
}

/* A password changes hash and time alone, of root too. */
static void test_password_changes_nothing_else(void **state)
{
	struct rig *r = *state;
	const struct cmd_user_password c = { S("ann"), S("new"), 1700000000001 };
	assert_int_equal(rig_do(r, CMD_USER_PASSWORD, &c), FSM_USER_NOT_FOUND);
	assert_int_equal(do_user(r, "ann", true), 0);
	assert_int_equal(rig_do(r, CMD_USER_PASSWORD, &c), 0);
	assert_string_equal(stored(r, STORE_USERS, "ann"),
	                    "{\"username\":\"ann\",\"password_hash\":\"bmV3\",\"grants\":[{\"action\":\"create\","
	                    "\"patterns\":[\"orders\",\"eu.*\"]}],\"root\":true,\"created_at_ms\":1700000000000,"
	                    "\"updated_at_ms\":1700000000001}");
}

/* Grants are replaced whole, never root's. */
static void test_grants_spare_root(void **state)
{
	struct rig *r = *state;
	static const struct grant grants[] = { { STR_LIT("admin"), { 0 } } };
	struct cmd_user_grants c = { S("ann"), { grants, 1 }, 1700000000001 };
	assert_int_equal(rig_do(r, CMD_USER_GRANTS, &c), FSM_USER_NOT_FOUND);
	assert_int_equal(do_user(r, "ann", false), 0);
	assert_int_equal(rig_do(r, CMD_USER_GRANTS, &c), 0);
	assert_string_equal(stored(r, STORE_USERS, "ann"),
	                    "{\"username\":\"ann\",\"password_hash\":\"aGFzaA==\",\"grants\":[{\"action\":\"admin\"}],"
	                    "\"created_at_ms\":1700000000000,\"updated_at_ms\":1700000000001}");
	c.grants = (struct record_list){ 0 };
	assert_int_equal(rig_do(r, CMD_USER_GRANTS, &c), 0);
	assert_null(strstr(stored(r, STORE_USERS, "ann"), "grants"));
	assert_int_equal(do_user(r, "admin", true), 0);
	c.username = S("admin");
	assert_int_equal(rig_do(r, CMD_USER_GRANTS, &c), FSM_ROOT_PROTECTED);
}

/* The old delete leaves the owner's name on the topics; the new one clears it, of this user's topics alone. */
static void test_delete_releases_only_by_its_own_type(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_user(r, "ann", false), 0);
	assert_int_equal(do_user(r, "anna", false), 0);
	assert_int_equal(do_owned(r, "b", "ann"), 0);
	assert_int_equal(do_owned(r, "a", "ann"), 0);
	assert_int_equal(do_owned(r, "c", "anna"), 0);
	assert_int_equal(do_name(r, CMD_USER_DELETE, "ann"), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "a"), "\"owner\":\"ann\""));
	assert_int_equal(do_name(r, CMD_USER_DELETE, "ann"), FSM_USER_NOT_FOUND);
	assert_int_equal(do_name(r, CMD_USER_DELETE_RELEASE, "ann"), FSM_USER_NOT_FOUND);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "a"), "\"owner\":\"ann\""));

	assert_int_equal(do_user(r, "ann", false), 0);
	const raft_index since = r->index;
	assert_int_equal(do_name(r, CMD_USER_DELETE_RELEASE, "ann"), 0);
	assert_string_equal(changes_since(r, since), "users:ann- topics:a+ topics:b+");
	assert_null(strstr(stored(r, STORE_TOPICS, "a"), "owner"));
	assert_null(strstr(stored(r, STORE_TOPICS, "b"), "owner"));
	assert_non_null(strstr(stored(r, STORE_TOPICS, "c"), "\"owner\":\"anna\""));
	struct str name;
	assert_int_equal(fsm_next_of_user(rig_read(r), S("ann"), S(""), &name), ERR_NOTFOUND);
	assert_int_equal(fsm_next_of_user(rig_read(r), S("anna"), S(""), &name), 0);
}

/* Root cannot be deleted, its topics stay its own, and no version moves. */
static void test_delete_spares_root(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_user(r, "admin", true), 0);
	assert_int_equal(do_owned(r, "a", "admin"), 0);
	const raft_index version = fsm_domain_version(r->f, FSM_DOMAIN_USERS);
	assert_int_equal(do_name(r, CMD_USER_DELETE, "admin"), FSM_ROOT_PROTECTED);
	assert_int_equal(do_name(r, CMD_USER_DELETE_RELEASE, "admin"), FSM_ROOT_PROTECTED);
	assert_int_equal(do_name(r, CMD_USER_DELETE_RELEASE, "nobody"), FSM_USER_NOT_FOUND);
	assert_int_equal(fsm_domain_version(r->f, FSM_DOMAIN_USERS), version);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "a"), "\"owner\":\"admin\""));
	assert_int_equal(rows(r, STORE_USERS), 1);
}

/* Readers find one user, and all in order of name. */
static void test_readers_find_users_in_order(void **state)
{
	struct rig *r = *state;
	struct fsm_user_iter it;
	struct str name, record;
	assert_int_equal(do_user(r, "bob", false), 0);
	assert_int_equal(do_user(r, "Zoe", false), 0);
	assert_int_equal(do_user(r, "ann", false), 0);
	struct store_txn *txn = rig_read(r);
	assert_int_equal(fsm_get_user(txn, S("ann"), &record), 0);
	assert_true(str_is(record, "{" ANN STAMPS "}"));
	assert_int_equal(fsm_get_user(txn, S("an"), &record), ERR_NOTFOUND);
	assert_int_equal(fsm_get_user(txn, S(""), &record), ERR_NOTFOUND);
	static const char *const order[] = { "Zoe", "ann", "bob" };
	assert_int_equal(fsm_user_iter_open(&it, txn), 0);
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		assert_int_equal(fsm_user_iter_next(&it, &name, &record), 0);
		assert_true(str_is(name, order[i]));
	}
	assert_int_equal(fsm_user_iter_next(&it, &name, &record), ERR_NOTFOUND);
	fsm_user_iter_close(&it);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_create_keeps_the_record_and_root_apart),
		CASE(test_create_refuses_what_is_there),
		CASE(test_update_keeps_root_and_its_grants),
		CASE(test_password_changes_nothing_else),
		CASE(test_grants_spare_root),
		CASE(test_delete_releases_only_by_its_own_type),
		CASE(test_delete_spares_root),
		CASE(test_readers_find_users_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
