/* Remotes and children on other clusters: types 33 to 37. */
#include "fsm_harness.h"

#include "fsm/fsm_internal.h"
#include "fsm/remotes.h"
#include "model/remotes.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"
#define EPOCH "eeeeeeeeeeeeeeee"
#define KEY "00000000000000aa"
#define KEY2 "00000000000000bb"
#define URL "https://eu.example.com"
#define DAY_MS 86400000

static struct remote remote_of(const char *name)
{
	return (struct remote){ .name = str_of(name),
		                .id = S(ID1),
		                .url = S(URL),
		                .username = S("repl"),
		                .credential = { 1, S(KEY), S("sealed") },
		                .fingerprint = S("abcdefabcdef"),
		                .limits = remote_limits_default };
}

static struct cmd_remote_create create_of(const char *name, const char *salt)
{
	return (struct cmd_remote_create){ .record = remote_of(name),
		                           .salt = salt ? str_of(salt) : NONE,
		                           .sealed_at_ms = 5,
		                           .actor = S("ann"),
		                           .request_id = S("r") };
}

static int do_remote(struct rig *r, const char *name)
{
	const struct cmd_remote_create c = create_of(name, rows(r, STORE_REMOTES) ? NULL : "salt");
	return rig_do(r, CMD_REMOTE_CREATE, &c);
}

/* How many seals are counted under a key. */
static uint64_t seals(struct rig *r, const char *key)
{
	struct arena a = { 0 };
	struct remote_keys keys;
	uint64_t n = 0;
	assert_int_equal(fsm_get_remote_keys(rig_read(r), &a, &keys), 0);
	const struct key_version *v = keys.versions.items;
	for (size_t i = 0; i < keys.versions.count; i++)
		if (str_is(v[i].key, key))
			n = v[i].seals;
	arena_fini(&a);
	fsm_read_end(&r->reader);
	return n;
}

/* ---- 35 ---- */

/* The first one brings the salt; stamps and numbers are apply's. */
static void test_remote_create_stores_and_stamps(void **state)
{
	struct rig *r = *state;
	struct cmd_remote_create c = create_of("eu", "salt");
	c.record.revision = 9;
	c.record.credential_version = 9;
	c.record.created_by = S("someone");
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), 0);
	assert_string_equal(stored(r, STORE_REMOTES, "eu"),
	                    "{\"name\":\"eu\",\"id\":\"" ID1 "\",\"url\":\"" URL
	                    "\",\"username\":\"repl\",\"credential\":{\"v\":1,\"kv\":\"" KEY
	                    "\",\"ct\":\"c2VhbGVk\"},\"credential_version\":1,\"fingerprint\":\"abcdefabcdef\","
	                    "\"password_set_at_ms\":5,"
	                    "\"password_set_by\":\"ann\",\"limits\":{\"max_in_flight\":16,\"request_timeout_ms\":30000,"
	                    "\"idle_conn_timeout_ms\":30000,\"conn_max_age_ms\":300000,\"check_interval_ms\":60000,"
	                    "\"compression\":\"none\"},\"revision\":1,\"created_at_ms\":5,\"created_by\":\"ann\"}");
	assert_string_equal(stored(r, STORE_REMOTES, REMOTE_KEYS_KEY), "{\"salt\":\"c2FsdA==\",\"versions\":{\"" KEY
	                                                               "\":{\"seals\":1,\"first_sealed_at_ms\":5}}}");
	assert_string_equal(changes_since(r, r->index - 1), "remotes:eu+");
}

/* No salt anywhere, and two that differ: the first is refused; one that is there, or the same one, is fine. */
static void test_remote_create_salt(void **state)
{
	struct rig *r = *state;
	struct cmd_remote_create c = create_of("eu", NULL);
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), FSM_REMOTE_SALT_RACE);
	assert_int_equal(seals(r, KEY), 1);
	assert_string_equal(stored(r, STORE_REMOTES, REMOTE_KEYS_KEY),
	                    "{\"versions\":{\"" KEY "\":{\"seals\":1,\"first_sealed_at_ms\":5}}}");
	c = create_of("eu", "salt");
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), 0);
	c = create_of("us", "other");
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), FSM_REMOTE_SALT_RACE);
	c = create_of("us", NULL);
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), 0);
	c = create_of("ap", "salt");
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), 0);
	assert_int_equal(seals(r, KEY), 5);
}

/* What was never a ciphertext is not counted; what was is, when it is refused too, and its first time stands. */
static void test_remote_create_counts_seals(void **state)
{
	struct rig *r = *state;
	struct cmd_remote_create malformed[5];
	assert_int_equal(do_remote(r, "eu"), 0);
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
		malformed[i] = create_of("us", NULL);
	malformed[0].record.name = S("_keys");
	malformed[1].record.id = S("");
	malformed[2].record.credential.v = 2;
	malformed[3].record.credential.kv = S("short");
	malformed[4].record.credential.ct = S("");
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
		assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &malformed[i]), FSM_INVALID);
	assert_int_equal(seals(r, KEY), 1);
	struct cmd_remote_create again = create_of("eu", NULL);
	again.sealed_at_ms = 77;
	const raft_index before = r->index;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &again), FSM_REMOTE_EXISTS);
	assert_int_equal(seals(r, KEY), 5);
	assert_string_equal(changes_since(r, before), "");
	assert_non_null(strstr(stored(r, STORE_REMOTES, REMOTE_KEYS_KEY), "\"first_sealed_at_ms\":5"));
}

/* An entry of several commands is refused as a whole; every ciphertext in it was written all the same. */
static void test_refused_entry_counts_all_its_seals(void **state)
{
	struct rig *r = *state;
	const struct cmd_remote_create first = create_of("eu", "salt"), second = create_of("us", NULL);
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_REMOTE_CREATE, &first);
	entry_builder_add(&b, CMD_REMOTE_CREATE, &second);
	entry_builder_add(&b, CMD_TOPIC_DELETE, &(struct cmd_name){ S("nowhere") });
	const struct fsm_result result = rig_run(r, &b);
	assert_int_equal(result.refusal, FSM_TOPIC_NOT_FOUND);
	assert_int_equal(result.command, 2);
	assert_int_equal(rows(r, STORE_REMOTES), 1); /* the keys' */
	assert_int_equal(seals(r, KEY), 2);
}

/* Puts a number of seals into the keys' row, as many writes would. */
static void set_seals(struct rig *r, uint64_t n)
{
	const struct key_version v = { S(KEY), n, 5 };
	const struct remote_keys keys = { S("salt"), { &v, 1 } };
	struct fsm_hint hint;
	struct store_txn *txn;
	struct apply a = { .arena = &r->f->arena, .index = r->index, .hint = &hint, .work = &r->f->work };
	assert_int_equal(store_begin_write(fsm_store(r->f), &txn, NULL), 0);
	a.txn = txn;
	r->f->work.state = r->f->state;
	assert_int_equal(fsm_put_record(&a, STORE_REMOTES, S(REMOTE_KEYS_KEY), &remote_keys_type, &keys, 0), 0);
	assert_int_equal(fsm_state_save(txn, &r->f->work.state), 0);
	assert_int_equal(store_commit(txn, NULL), 0);
	r->f->state = r->f->work.state;
	fsm_apply_fini(&a);
}

/* The last seal a key is good for passes, the next is refused, by 35 and 36; another key starts anew. */
static void test_seal_cap(void **state)
{
	struct rig *r = *state;
	struct cmd_remote_create c = create_of("us", NULL);
	assert_int_equal(do_remote(r, "eu"), 0);
	set_seals(r, SEALS_MAX - 1);
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), 0);
	c = create_of("ap", NULL);
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), FSM_REMOTE_KEY_EXHAUSTED);
	assert_int_equal(seals(r, KEY), SEALS_MAX + 1);
	struct sealed fresh = { 1, S(KEY), S("other") };
	const struct cmd_sealed_tuple tuple = { S("eu"), S(ID1), S(URL), S("repl"), S(REMOTE_ANCHOR_SYSTEM) };
	const struct cmd_remote_change change = { .name = S("eu"), .credential = &fresh, .sealed_against = &tuple };
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &change), FSM_REMOTE_KEY_EXHAUSTED);
	fresh.kv = S(KEY2);
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &change), 0);
	c.record.credential.kv = S(KEY2);
	assert_int_equal(rig_do(r, CMD_REMOTE_CREATE, &c), 0);
	assert_int_equal(seals(r, KEY2), 2);
}

static void test_remote_limit(void **state)
{
	struct rig *r = *state;
	char name[16];
	for (int i = 0; i < REMOTES_MAX; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		assert_int_equal(do_remote(r, name), 0);
	}
	assert_int_equal(do_remote(r, "more"), FSM_REMOTE_LIMIT);
	assert_int_equal(do_remote(r, "r1"), FSM_REMOTE_EXISTS);
	const struct cmd_remote_delete gone = { .name = S("r1") };
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &gone), 0);
	assert_int_equal(do_remote(r, "more"), 0);
}

/* ---- 36 ---- */

/* Limits alone: merged, one revision more, the credential as it was. */
static void test_remote_change_limits(void **state)
{
	struct rig *r = *state;
	struct remote_limits_patch p = { .max_in_flight = { .value = 32, .set = true }, .compression = S("zstd") };
	const struct cmd_remote_change c = { .name = S("eu"), .fields = { .limits = &p } };
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), FSM_REMOTE_NOT_FOUND);
	assert_int_equal(do_remote(r, "eu"), 0);
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), 0);
	assert_non_null(strstr(stored(r, STORE_REMOTES, "eu"), "\"credential_version\":1,"));
	assert_non_null(strstr(stored(r, STORE_REMOTES, "eu"), "\"max_in_flight\":32,\"request_timeout_ms\":30000,"));
	assert_non_null(strstr(stored(r, STORE_REMOTES, "eu"), "\"compression\":\"zstd\"},\"revision\":2,"));
	p.max_in_flight.value = 257;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), FSM_INVALID);
	assert_int_equal(seals(r, KEY), 1);
	const struct cmd_remote_change nothing_at_all = { .name = S("eu") };
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &nothing_at_all), FSM_INVALID);
}

/* Without the password nothing of what it is bound to changes; the refusal tells the revision. */
static void test_remote_change_needs_credential(void **state)
{
	struct rig *r = *state;
	const struct cmd_remote_fields fields[] = { { .url = S("https://us.example.com") },
		                                    { .username = S("other") },
		                                    { .ca_pem = S("x") } };
	struct arena a = { 0 };
	struct fsm_hint hint;
	assert_int_equal(do_remote(r, "eu"), 0);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const struct cmd_remote_change c = { .name = S("eu"), .fields = fields[i] };
		assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), FSM_REMOTE_CHANGED);
		assert_int_equal(fsm_judge(rig_read(r), CMD_REMOTE_CHANGE, &c, 0, &a, &hint, NULL), FSM_REMOTE_CHANGED);
		assert_string_equal(hint.name, "1");
	}
	arena_fini(&a);
}

#define CA "-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGUgb25l\n-----END CERTIFICATE-----\n"

/* A new password lands on the very record it was sealed for; on any other it is refused, and counted. */
static void test_remote_change_tuple(void **state)
{
	struct rig *r = *state;
	const struct sealed fresh = { 1, S(KEY2), S("other") };
	char anchor[REMOTE_ANCHOR_SIZE];
	assert_true(remote_trust_anchor(S(CA), anchor));
	const struct cmd_sealed_tuple good = { S("eu"), S(ID1), S("https://us.example.com"), S("other"),
		                               str_of(anchor) };
	struct cmd_sealed_tuple bad[5] = { good, good, good, good, good };
	struct cmd_remote_change c = { .name = S("eu"),
		                       .fields = { .url = good.url, .username = good.username, .ca_pem = S(CA) },
		                       .credential = &fresh,
		                       .fingerprint = S("newnewnewnew"),
		                       .sealed_at_ms = 9,
		                       .actor = S("bob") };
	assert_int_equal(do_remote(r, "eu"), 0);
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), FSM_INVALID); /* sealed against nothing */
	assert_int_equal(seals(r, KEY2), 0);
	bad[0].name = S("us");
	bad[1].id = S(ID2);
	bad[2].url = S(URL);
	bad[3].username = S("repl");
	bad[4].trust_anchor = S(REMOTE_ANCHOR_SYSTEM);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		c.sealed_against = &bad[i];
		assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), FSM_REMOTE_CHANGED);
	}
	assert_int_equal(seals(r, KEY2), 5);
	c.sealed_against = &good;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), 0);
	assert_int_equal(seals(r, KEY2), 6);
	const char *now = stored(r, STORE_REMOTES, "eu");
	assert_non_null(strstr(now, "\"url\":\"https://us.example.com\",\"username\":\"other\",\"credential\":{\"v\":1,"
	                            "\"kv\":\"" KEY2 "\""));
	assert_non_null(strstr(now,
	                       "\"credential_version\":2,\"fingerprint\":\"newnewnewnew\",\"password_set_at_ms\":9,"
	                       "\"password_set_by\":\"bob\","));
	assert_non_null(strstr(now, "\"revision\":2,\"created_at_ms\":5,\"created_by\":\"ann\""));
}

/* Sealing anew under another key keeps who set the password and when, and loses to a newer password. */
static void test_remote_reseal(void **state)
{
	struct rig *r = *state;
	const struct sealed fresh = { 1, S(KEY2), S("other") };
	const struct cmd_sealed_tuple tuple = { S("eu"), S(ID1), S(URL), S("repl"), S(REMOTE_ANCHOR_SYSTEM) };
	struct cmd_remote_change c = { .name = S("eu"),
		                       .credential = &fresh,
		                       .fingerprint = S("newnewnewnew"),
		                       .sealed_against = &tuple,
		                       .expect_credential_version = { .value = 2, .set = true },
		                       .reseal = true,
		                       .sealed_at_ms = 9,
		                       .actor = S("bob") };
	assert_int_equal(do_remote(r, "eu"), 0);
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), FSM_REMOTE_CHANGED);
	c.expect_credential_version.value = 1;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHANGE, &c), 0);
	assert_non_null(strstr(stored(r, STORE_REMOTES, "eu"), "\"password_set_at_ms\":5,\"password_set_by\":\"ann\""));
	assert_non_null(strstr(stored(r, STORE_REMOTES, "eu"), "\"credential_version\":2,"));
}

/* ---- 33 ---- */

static struct cmd_remote_child_attach attach_of(const char *parent, const char *stub, const char *topic)
{
	return (struct cmd_remote_child_attach){ .parent = str_of(parent),
		                                 .parent_id = S(ID1),
		                                 .stub = str_of(stub),
		                                 .stub_id = S(ID2),
		                                 .epoch = S(EPOCH),
		                                 .remote = { .name = S("eu"), .topic = str_of(topic) },
		                                 .created_at = 7 };
}

static int do_remote_attach(struct rig *r, const char *parent, const char *stub, const char *topic)
{
	const struct cmd_remote_child_attach c = attach_of(parent, stub, topic);
	return rig_do(r, CMD_REMOTE_CHILD_ATTACH, &c);
}

static void make_link(struct rig *r)
{
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_remote(r, "eu"), 0);
	assert_int_equal(do_remote_attach(r, "orders", "stub", "orders"), 0);
}

/* The stub holds what the proposer made, with the defaults; what only an operator sets later is dropped. */
static void test_remote_attach_makes_a_stub(void **state)
{
	struct rig *r = *state;
	static const int64_t offsets[] = { 5, 6, 7 };
	const struct offsets_item skip = { 0, { offsets, 1 } };
	struct cmd_remote_child_attach c = attach_of("orders", "stub", "there");
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_remote(r, "eu"), 0);
	c.delay_ms = 1000;
	c.offsets = (struct i64_list){ offsets, 3 };
	c.remote.paused = true;
	c.remote.pause_reason = c.remote.paused_by = S("x");
	c.remote.paused_at_ms = 1;
	c.remote.skip = (struct offsets_map){ &skip, 1 };
	c.remote.created_by = S("ann");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_ATTACH, &c), 0);
	assert_string_equal(
	    stored(r, STORE_TOPICS, "stub"),
	    "{\"name\":\"stub\",\"id\":\"" ID2 "\",\"partitions\":0,\"retention_ms\":0,"
	    "\"visibility_timeout_ms\":0,\"max_in_flight_per_partition\":0,"
	    "\"max_acked_ahead_per_partition\":0,\"created_at\":7,\"role\":\"child\",\"parent\":\"orders\","
	    "\"attach_epoch\":\"" EPOCH "\",\"fanout_delay_ms\":1000,\"attach_offsets\":[5,6,7],"
	    "\"remote\":{\"name\":\"eu\",\"topic\":\"there\",\"from\":\"attach\",\"lanes\":1,"
	    "\"created_by\":\"ann\"}}");
	assert_non_null(strstr(stored(r, STORE_TOPICS, "orders"), "\"role\":\"parent\",\"children\":[\"stub\"]"));
	assert_int_equal(rows(r, STORE_X_BY_REMOTE), 1);
	assert_string_equal(changes_since(r, r->index - 1), "topics:orders+ topics:stub+");
}

/* Every way an attach is refused; none of them leaves anything. */
static void test_remote_attach_refusals(void **state)
{
	struct rig *r = *state;
	struct topic brief = topic_of("brief", ID1, 3);
	struct topic tight = topic_of("tight", ID1, 3);
	brief.retention_ms = DAY_MS - 1;
	tight.retention_ms = DAY_MS;
	make_link(r);
	assert_int_equal(do_create_with(r, brief, NULL, NULL), 0);
	assert_int_equal(do_create_with(r, tight, NULL, NULL), 0);
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	struct {
		int refusal;
		struct cmd_remote_child_attach c;
	} t[] = {
		{ FSM_INVALID, attach_of("", "s", "t") },
		{ FSM_INVALID, attach_of("p", "", "t") },
		{ FSM_INVALID, attach_of("p", "s", "") },
		{ FSM_INVALID, attach_of("p", "s", "t") }, /* 3: no remote named */
		{ FSM_ROLE_CONFLICT, attach_of("p", "p", "t") },
		{ FSM_INVALID, attach_of("p", "s", "t") },        /* 5: no epoch */
		{ FSM_INVALID, attach_of("p", "s", "t") },        /* 6: delay below 0 */
		{ FSM_DELAY_TOO_LONG, attach_of("p", "s", "t") }, /* 7: over a year */
		{ FSM_INVALID, attach_of("p", "s", "t") },        /* 8: lanes */
		{ FSM_INVALID, attach_of("p", "s", "t") },        /* 9: from */
		{ FSM_INVALID, attach_of("p", "no/name", "t") },
		{ FSM_PARENT_NOT_FOUND, attach_of("nowhere", "s", "t") },
		{ FSM_PARENT_CHANGED, attach_of("p", "s", "t") },   /* 12: another incarnation */
		{ FSM_ROLE_CONFLICT, attach_of("stub", "s", "t") }, /* 13: of a child */
		{ FSM_REMOTE_GONE, attach_of("p", "s", "t") },      /* 14 */
		{ FSM_REMOTE_GONE, attach_of("p", "s", "t") },      /* 15: the reserved key is none */
		{ FSM_TOPIC_EXISTS, attach_of("p", "tight", "t") },
		{ FSM_RETENTION_FLOOR, attach_of("brief", "s", "t") },
		{ FSM_DELAY_TOO_LONG, attach_of("tight", "s", "t") }, /* 18 */
		{ FSM_REMOTE_TARGET_LINKED, attach_of("p", "s", "orders") },
	};
	t[3].c.remote.name = S("");
	t[5].c.epoch = S("");
	t[6].c.delay_ms = -1;
	t[7].c.delay_ms = TOPIC_DELAY_MAX_MS + 1;
	t[8].c.remote.lanes = REMOTE_LANES_MAX + 1;
	t[9].c.remote.from = S("latest");
	t[12].c.parent_id = S(ID2);
	t[13].c.parent_id = S(ID2);
	t[14].c.remote.name = S("us");
	t[15].c.remote.name = S(REMOTE_KEYS_KEY);
	t[18].c.delay_ms = DAY_MS - TOPIC_DELAY_HEADROOM_MS + 1;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		const int refusal = rig_do(r, CMD_REMOTE_CHILD_ATTACH, &t[i].c);
		if (refusal != t[i].refusal)
			fail_msg("row %zu: %s", i, fsm_refusal_word(refusal));
	}
	assert_int_equal(rows(r, STORE_TOPICS), 5);
	assert_int_equal(rows(r, STORE_X_BY_REMOTE), 1);
	t[18].c.delay_ms--;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_ATTACH, &t[18].c), 0);
}

/* 16 remote children, 108 children in all; a local one still fits between them. */
static void test_remote_attach_limits(void **state)
{
	struct rig *r = *state;
	char name[16];
	make_link(r);
	for (int i = 1; i < TOPIC_REMOTE_CHILDREN_MAX; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		assert_int_equal(do_remote_attach(r, "orders", name, name), 0);
	}
	assert_int_equal(do_remote_attach(r, "orders", "more", "more"), FSM_REMOTE_CHILD_LIMIT);
	for (int i = TOPIC_REMOTE_CHILDREN_MAX; i < TOPIC_CHILDREN_MAX; i++) {
		snprintf(name, sizeof(name), "l%d", i);
		const struct cmd_child_attach l = { S("orders"), str_of(name), S(EPOCH), 0, { 0 } };
		assert_int_equal(do_create(r, name, ID1, 3), 0);
		assert_int_equal(rig_do(r, CMD_CHILD_ATTACH, &l), 0);
	}
	assert_int_equal(do_remote_attach(r, "orders", "more", "more"), FSM_CHILD_LIMIT);
}

/* The parent keeps a day of records, or all of them; below it may only grow. */
static void test_retention_of_a_parent_with_remote_children(void **state)
{
	struct rig *r = *state;
	static const struct {
		int64_t retention_ms;
		int refusal;
	} steps[] = {
		{ DAY_MS - 1, FSM_RETENTION_FLOOR }, { DAY_MS, 0 }, { 0, 0 }, { DAY_MS - 1, FSM_RETENTION_FLOOR }
	};
	make_link(r);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct cmd_topic_update_if c = { topic_of("orders", ID1, 3), S(ID1) };
		c.topic.retention_ms = steps[i].retention_ms;
		assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE_IF, &c), steps[i].refusal);
	}
}

/* Detached, deleted, or its parent deleted: the stub is gone, its index with it, and the target is free again. */
static void test_stub_goes_with_its_link(void **state)
{
	struct rig *r = *state;
	const struct cmd_child_detach detach = { S("orders"), S("stub") };
	make_link(r);
	assert_int_equal(rig_do(r, CMD_CHILD_DETACH, &detach), 0);
	assert_int_equal(rows(r, STORE_TOPICS) + rows(r, STORE_X_BY_REMOTE), 1);
	assert_int_equal(do_remote_attach(r, "orders", "stub", "orders"), 0);
	assert_int_equal(do_delete(r, "stub", ID2), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "orders"), "\"role\":\"standalone\"}"));
	assert_int_equal(do_remote_attach(r, "orders", "stub", "orders"), 0);
	assert_int_equal(do_delete(r, "orders", ID1), 0);
	assert_int_equal(rows(r, STORE_TOPICS) + rows(r, STORE_X_BY_REMOTE), 0);
}

/* ---- 37 ---- */

/* A remote in use stays unless forced, its salt stays always; attach and delete shut each other out. */
static void test_remote_delete(void **state)
{
	struct rig *r = *state;
	struct cmd_remote_delete c = { .name = S("eu") };
	struct arena a = { 0 };
	struct fsm_hint hint;
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &c), FSM_REMOTE_NOT_FOUND);
	make_link(r);
	const raft_index before = r->index;
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &c), FSM_REMOTE_IN_USE);
	assert_int_equal(fsm_judge(rig_read(r), CMD_REMOTE_DELETE, &c, 0, &a, &hint, NULL), FSM_REMOTE_IN_USE);
	assert_string_equal(hint.name, "stub");
	assert_string_equal(changes_since(r, before), "");
	c.force = true;
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &c), 0);
	assert_string_equal(changes_since(r, before), "remotes:eu-");
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &c), FSM_REMOTE_NOT_FOUND);
	assert_int_equal(do_remote_attach(r, "orders", "s2", "t2"), FSM_REMOTE_GONE);
	assert_non_null(strstr(stored(r, STORE_REMOTES, REMOTE_KEYS_KEY), "c2FsdA=="));
	c.name = S(REMOTE_KEYS_KEY);
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &c), FSM_REMOTE_NOT_FOUND);
	/* under the name again: the stub that was left holds it */
	assert_int_equal(do_remote(r, "eu"), 0);
	c = (struct cmd_remote_delete){ .name = S("eu") };
	assert_int_equal(rig_do(r, CMD_REMOTE_DELETE, &c), FSM_REMOTE_IN_USE);
	arena_fini(&a);
}

/* ---- 34 ---- */

static struct cmd_remote_child_state state_of(void)
{
	return (struct cmd_remote_child_state){ .parent = S("orders"), .stub = S("stub"), .epoch = S(EPOCH) };
}

/* Only what is named changes; a resume forgets why it was paused. */
static void test_remote_state_changes_what_it_names(void **state)
{
	struct rig *r = *state;
	const struct cmd_remote_pause pause = { true, S("maintenance"), S("ann"), 8 },
				      resume = { false, S("x"), S("y"), 9 };
	struct cmd_remote_child_state c = state_of();
	make_link(r);
	c.pause = &pause;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "stub"),
	                       "\"lanes\":1,\"paused\":true,\"pause_reason\":\"maintenance\",\"paused_by\":\"ann\","
	                       "\"paused_at_ms\":8}"));
	assert_string_equal(changes_since(r, r->index - 1), "topics:stub+");
	c = state_of();
	c.lanes = (struct opt_i64){ .value = 8, .set = true };
	c.target_id = S(ID1);
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "stub"),
	                       "\"target_id\":\"" ID1 "\",\"from\":\"attach\",\"lanes\":8,"
	                       "\"paused\":true"));
	c = state_of();
	c.pause = &resume;
	c.target_id = S("");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "stub"),
	                       "\"remote\":{\"name\":\"eu\",\"topic\":\"orders\",\"from\":\"attach\",\"lanes\":8}"));
}

static void test_remote_state_refusals(void **state)
{
	struct rig *r = *state;
	char reason[REMOTE_REASON_MAX + 1];
	memset(reason, 'r', sizeof(reason));
	struct cmd_remote_pause pause = { .paused = true, .reason = { reason, REMOTE_REASON_MAX + 1 } };
	struct cmd_remote_skip skip = { -1, 0 };
	struct cmd_remote_child_state c = state_of();
	make_link(r);
	assert_int_equal(do_create(r, "local", ID1, 3), 0);
	c.stub = S("nowhere");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_CHILD_NOT_FOUND);
	c.stub = S("local");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_NOT_LINKED);
	c = state_of();
	c.parent = S("local");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_NOT_LINKED);
	c = state_of();
	c.epoch = S("ffffffffffffffff");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_REMOTE_CHILD_STALE);
	c = state_of();
	c.pause = &pause;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_INVALID);
	pause.reason.len--;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), 0);
	pause.reason = S("two\nlines");
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_INVALID);
	for (int64_t lanes = 0; lanes <= REMOTE_LANES_MAX + 1; lanes++) {
		c = state_of();
		c.lanes = (struct opt_i64){ .value = lanes, .set = true };
		assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c),
		                 lanes >= 1 && lanes <= REMOTE_LANES_MAX ? 0 : FSM_INVALID);
	}
	c = state_of();
	c.skip = &skip;
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_INVALID);
	skip = (struct cmd_remote_skip){ 0, -1 };
	assert_int_equal(rig_do(r, CMD_REMOTE_CHILD_STATE, &c), FSM_INVALID);
}

static int do_skip(struct rig *r, int64_t partition, int64_t offset)
{
	const struct cmd_remote_skip skip = { partition, offset };
	struct cmd_remote_child_state c = state_of();
	c.skip = &skip;
	return rig_do(r, CMD_REMOTE_CHILD_STATE, &c);
}

/* Ascending, each once, partitions in the order of their text. */
static void test_skips_are_sorted_sets(void **state)
{
	struct rig *r = *state;
	static const int64_t skips[][2] = { { 2, 7 }, { 10, 1 }, { 2, 3 }, { 2, 7 }, { 2, 5 }, { 0, 0 } };
	make_link(r);
	for (size_t i = 0; i < ARRAY_LEN(skips); i++)
		assert_int_equal(do_skip(r, skips[i][0], skips[i][1]), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "stub"), "\"skip\":{\"0\":[0],\"10\":[1],\"2\":[3,5,7]}"));
}

/* A full set gives up its lowest, but never the one that is being added. */
static void test_skips_are_bounded(void **state)
{
	struct rig *r = *state;
	static int64_t all[REMOTE_SKIPS_MAX];
	struct arena a = { 0 };
	struct topic stub;
	struct str record;
	for (int64_t i = 0; i < REMOTE_SKIPS_MAX; i++)
		all[i] = 10 + i;
	const struct offsets_item skip = { 0, { all, REMOTE_SKIPS_MAX } };
	const struct remote_link link = { .name = S("eu"), .topic = S("t"), .lanes = 1, .skip = { &skip, 1 } };
	struct topic t = topic_of("stub", ID2, 0);
	t.role = S("child");
	t.parent = S("orders");
	t.attach_epoch = S(EPOCH);
	t.remote = &link;
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), 0);
	assert_int_equal(do_skip(r, 0, 5), 0);
	assert_int_equal(do_skip(r, 0, 9000), 0);
	assert_int_equal(store_get(rig_read(r), STORE_TOPICS, S("stub"), &record), 0);
	assert_int_equal(record_read_json(&topic_type, record, &a, &stub, NULL, NULL), 0);
	const struct i64_list *now = &stub.remote->skip.items[0].offsets;
	assert_int_equal(now->count, REMOTE_SKIPS_MAX);
	/* 10 went for 5, then 5 for 9000 */
	assert_int_equal(now->items[0], 11);
	assert_int_equal(now->items[REMOTE_SKIPS_MAX - 1], 9000);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_remote_create_stores_and_stamps),
		CASE(test_remote_create_salt),
		CASE(test_remote_create_counts_seals),
		CASE(test_refused_entry_counts_all_its_seals),
		CASE(test_seal_cap),
		CASE(test_remote_limit),
		CASE(test_remote_change_limits),
		CASE(test_remote_change_needs_credential),
		CASE(test_remote_change_tuple),
		CASE(test_remote_reseal),
		CASE(test_remote_attach_makes_a_stub),
		CASE(test_remote_attach_refusals),
		CASE(test_remote_attach_limits),
		CASE(test_retention_of_a_parent_with_remote_children),
		CASE(test_stub_goes_with_its_link),
		CASE(test_remote_delete),
		CASE(test_remote_state_changes_what_it_names),
		CASE(test_remote_state_refusals),
		CASE(test_skips_are_sorted_sets),
		CASE(test_skips_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
