/* Records of another state machine into a new store: what is derived, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fsm/fsm.h"
#include "fsm/load.h"
#include "fsm/members.h"
#include "fsm/topics.h"
#include "model/commands.h"

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/veena-load-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const files[] = { "fsm.mdb", "fsm.mdb-lock", "fsm.mark", "fsm.mark.tmp" };
	char path[128];
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		unlink(path);
	}
	return rmdir(dir);
}

static int put(struct fsm_load *l, enum store_db db, const char *key, const char *value, struct fsm_loaded *out)
{
	struct err e = { 0 };
	struct fsm_loaded unused;
	return fsm_load_put(l, db, str_of(key), str_of(value), out ? out : &unused, &e);
}

#define TOPIC(name, partitions)                                                                                        \
	"{\"name\":\"" name "\",\"partitions\":" partitions ",\"retention_ms\":0,\"visibility_timeout_ms\":1,"         \
	"\"max_in_flight_per_partition\":1,\"max_acked_ahead_per_partition\":1,\"created_at\":1,\"owner\":\"ann\"}"

static void check_all(struct fsm_load *l, void (*look)(struct store_txn *txn))
{
	struct err e = { 0 };
	struct fsm *f;
	struct store_txn *txn;
	assert_int_equal(fsm_load_finish(l, 37, &e), 0);
	const struct fsm_options o = { .store = { .dir = dir } };
	assert_int_equal(fsm_open(&o, &f, &e), 0);
	assert_int_equal(fsm_applied_index(f), 77);
	assert_int_equal(store_begin_read(fsm_store(f), &txn, &e), 0);
	if (fsm_check(txn, &e) != 0)
		fail_msg("%s", e.msg);
	look(txn);
	store_abort(txn);
	assert_int_equal(fsm_close(f, true, &e), 0);
}

static struct fsm_load *begin(struct str_map renames, struct str_list drops)
{
	struct err e = { 0 };
	struct fsm_load *l;
	const struct fsm_load_options o = {
		.dir = dir, .index = 77, .term = 3, .conf = { "", 0 }, .renames = renames, .drops = drops
	};
	assert_int_equal(fsm_load_begin(&o, &l, &e), 0);
	return l;
}

static void look_at_owners(struct store_txn *txn)
{
	struct fsm_topic t;
	struct fsm_owner o;
	struct fsm_member_extra x;
	struct fsm_applied applied;
	assert_int_equal(fsm_get_topic(txn, STR_LIT("a"), &t), 0);
	assert_int_equal(t.schema_version, 10);
	fsm_topic_owner(&t, 2, &o);
	assert_true(str_is(o.owner, "m1") && str_is(o.target, "new"));
	assert_int_equal(o.version, 77);
	fsm_topic_owner(&t, 1, &o);
	assert_int_equal(o.owner.len, 0);
	assert_int_equal(fsm_get_member_extra(txn, STR_LIT("m1"), &x), 0);
	assert_int_equal(x.kind, FSM_KIND_BROKER);
	assert_int_equal(x.counts.owned, 4);
	assert_int_equal(x.counts.leaving, 1);
	assert_int_equal(fsm_get_member_extra(txn, STR_LIT("new"), &x), 0);
	assert_int_equal(x.counts.coming, 1);
	assert_int_equal(fsm_get_applied(txn, &applied), 0);
	assert_int_equal(applied.max_entry_type, CMD_MEMBER_EXTRA); /* members that are brokers are newer than Narad */
}

/* Everything derived is as apply would have derived it: fsm_check finds no difference, orphans and moves included. */
static void test_load_derives_all(void **state)
{
	static const struct str_pair map[] = { { { "old", 3 }, { "new", 3 } } };
	(void)state;
	struct fsm_load *l = begin((struct str_map){ map, 1 }, (struct str_list){ 0 });
	struct fsm_loaded what;
	assert_int_equal(put(l, STORE_TOPICS, "a", TOPIC("a", "12"), &what), 0);
	assert_false(what.rewritten);
	assert_int_equal(put(l, STORE_TOPICS, "a-b", "{ \"name\": \"a-b\", \"partitions\": 3 }", &what), 0);
	assert_true(what.rewritten);
	assert_int_equal(put(l, STORE_SCHEMAS, "a:1", "true", NULL), 0);
	assert_int_equal(put(l, STORE_SCHEMAS, "a:10", "{}", NULL), 0);
	assert_int_equal(put(l, STORE_SCHEMAS, "a:2", "{}", NULL), 0);
	assert_int_equal(put(l, STORE_SCHEMAS, "gone:1", "{}", NULL), 0);
	assert_int_equal(
	    put(l, STORE_ASSIGNMENTS, "a-b:0", "{\"topic\":\"a-b\",\"partition\":0,\"owner_id\":\"m1\"}", NULL), 0);
	assert_int_equal(
	    put(l, STORE_ASSIGNMENTS, "a:11", "{\"topic\":\"a\",\"partition\":11,\"owner_id\":\"m2\"}", NULL), 0);
	assert_int_equal(
	    put(l, STORE_ASSIGNMENTS, "a:12", "{\"topic\":\"a\",\"partition\":12,\"owner_id\":\"m1\"}", NULL), 0);
	assert_int_equal(put(l, STORE_ASSIGNMENTS, "a:2",
	                     "{\"topic\":\"a\",\"partition\":2,\"owner_id\":\"m1\",\"target_id\":\"old\"}", &what),
	                 0);
	assert_true(what.renamed);
	assert_int_equal(
	    put(l, STORE_ASSIGNMENTS, "gone:0", "{\"topic\":\"gone\",\"partition\":0,\"owner_id\":\"m1\"}", NULL), 0);
	assert_int_equal(put(l, STORE_MEMBERS, "m1",
	                     "{\"id\":\"m1\",\"addr\":\"h:1\",\"status\":\"alive\",\"last_heartbeat\":5}", NULL),
	                 0);
	assert_int_equal(put(l, STORE_MEMBERS, "old",
	                     "{\"id\":\"old\",\"addr\":\"h:2\",\"status\":\"dead\",\"last_heartbeat\":5}", NULL),
	                 0);
	assert_int_equal(put(l, STORE_USERS, "ann", "{\"username\":\"ann\"}", NULL), 0);
	check_all(l, look_at_owners);
}

static void look_at_nothing(struct store_txn *txn)
{
	struct fsm_topic t;
	struct str record;
	assert_int_equal(fsm_get_topic(txn, STR_LIT("b"), &t), ERR_NOTFOUND);
	assert_int_equal(fsm_get_member_record(txn, STR_LIT("m2"), &record), ERR_NOTFOUND);
}

/* A refused record leaves nothing, and what comes after it is loaded. */
static void test_load_refuses(void **state)
{
	static const struct str drop[] = { { "m2", 2 } };
	(void)state;
	struct fsm_load *l = begin((struct str_map){ 0 }, (struct str_list){ drop, 1 });
	struct fsm_loaded what;
	assert_int_equal(put(l, STORE_TOPICS, "b", TOPIC("other", "3"), NULL), ERR_INVALID);
	assert_int_equal(put(l, STORE_TOPICS, "b", TOPIC("b", "5000"), NULL), ERR_INVALID);
	assert_int_equal(put(l, STORE_TOPICS, "b", "{\"name\":\"b\",\"name\":\"b\"}", NULL), ERR_INVALID);
	assert_int_equal(put(l, STORE_TOPICS, "b", "{\"name\":\"b\",\"colour\":1}", NULL), ERR_INVALID);
	assert_int_equal(put(l, STORE_TOPICS, "b/c", TOPIC("b/c", "3"), NULL), ERR_INVALID);
	assert_int_equal(put(l, STORE_TOPICS, "a", TOPIC("a", "3"), NULL), 0);
	assert_int_equal(put(l, STORE_SCHEMAS, "a:x", "{}", NULL), ERR_INVALID);
	assert_int_equal(put(l, STORE_SCHEMAS, "a:1", "{", NULL), ERR_INVALID);
	assert_int_equal(
	    put(l, STORE_ASSIGNMENTS, "a:1", "{\"topic\":\"a\",\"partition\":2,\"owner_id\":\"m2\"}", NULL),
	    ERR_INVALID);
	assert_int_equal(put(l, STORE_ASSIGNMENTS, "a:1", "{\"topic\":\"a\",\"partition\":1,\"owner_id\":\"\"}", NULL),
	                 ERR_INVALID);
	assert_int_equal(
	    put(l, STORE_ASSIGNMENTS, "a:2", "{\"topic\":\"a\",\"partition\":2,\"owner_id\":\"m2\"}", &what), 0);
	assert_true(what.names_dropped);
	assert_int_equal(put(l, STORE_MEMBERS, "m2",
	                     "{\"id\":\"m2\",\"addr\":\"h:1\",\"status\":\"alive\",\"last_heartbeat\":5}", &what),
	                 0);
	assert_true(what.dropped);
	check_all(l, look_at_nothing);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_load_derives_all, make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(test_load_refuses, make_dir, remove_dir),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
