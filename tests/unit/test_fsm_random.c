/* Random logs: the same entries give the same bytes whatever the batches, restarts and images in between, everything
 * derived fits the records at every look, and no version ever goes back. */
#include "fsm_harness.h"

#include "fsm/fsm_internal.h"

#define ENTRIES 1500
#define SEEDS 6

static const char *const topics[] = { "a", "A", "b", "ab", "orders", "Orders", "orders.eu", "x" };
static const char *const members[] = { "n1", "n2", "n3", "n10", "m" };
static const char *const users[] = { "", "ann", "bob" };
static const char *const ids[] = { "", "1111111111111111", "2222222222222222" };
static const char *const docs[] = { "", "{\"v\":1}", "{ \"v\":1 }", "{\"v\":2}" };

struct dice {
	struct rand r;
};

static uint64_t roll(struct dice *d, uint64_t n)
{
	return rand_below(&d->r, n);
}

#define PICK(d, list) str_of((list)[roll(d, ARRAY_LEN(list))])

static struct topic random_topic(struct dice *d)
{
	struct topic t = topic_of("", "", (int64_t)roll(d, 7));
	t.name = PICK(d, topics);
	t.id = PICK(d, ids);
	t.owner = PICK(d, users);
	t.retention_ms = (int64_t)roll(d, 3) * 50000000;
	if (roll(d, 200) == 0)
		t.partitions = -1;
	return t;
}

static struct member random_member(struct dice *d)
{
	struct member m = member_of("", (int64_t)roll(d, 50));
	m.id = PICK(d, members);
	m.draining = roll(d, 2);
	m.status = roll(d, 5) ? S("alive") : S("dead");
	m.addr = roll(d, 4) ? S("h:1") : S("h:2");
	return m;
}

static struct cmd_child_attach random_link(struct dice *d)
{
	return (struct cmd_child_attach){
		PICK(d, topics), PICK(d, topics), S("eeeeeeeeeeeeeeee"), (int64_t)roll(d, 2) * 1000, { 0 }
	};
}

static void add_topic_command(struct dice *d, struct entry_builder *b)
{
	const struct topic t = random_topic(d);
	const struct str_pair labels[] = { { S("a"), roll(d, 2) ? S("1") : NONE },
		                           { S("b"), roll(d, 2) ? S("2") : NONE } };
	switch (roll(d, 9)) {
	case 5:
		entry_builder_add(b, CMD_TOPIC_LABELS,
		                  &(struct cmd_topic_labels){ t.name, t.id, { labels, 1 + roll(d, 2) } });
		return;
	case 0: entry_builder_add(b, CMD_TOPIC_CREATE, &t); return;
	case 1: entry_builder_add(b, CMD_TOPIC_UPDATE, &t); return;
	case 2: entry_builder_add(b, CMD_TOPIC_DELETE, &(struct cmd_name){ t.name }); return;
	case 3: entry_builder_add(b, CMD_TOPIC_UPDATE_IF, &(struct cmd_topic_update_if){ t, t.id }); return;
	case 4: entry_builder_add(b, CMD_TOPIC_DELETE_IF, &(struct cmd_topic_delete_if){ t.name, t.id }); return;
	default: break;
	}
	const struct cmd_child_attach l = random_link(d);
	const struct cmd_create_link link = { l.parent, PICK(d, ids), l.epoch, l.delay_ms, { 0 } };
	const struct cmd_topic_create_with c = { t, PICK(d, docs), roll(d, 3) ? NULL : &link };
	entry_builder_add(b, CMD_TOPIC_CREATE_WITH, &c);
}

static void add_fanout_command(struct dice *d, struct entry_builder *b)
{
	const struct cmd_child_attach l = random_link(d);
	const int64_t version = (int64_t)roll(d, 4);
	switch (roll(d, 6)) {
	case 0: entry_builder_add(b, CMD_CHILD_ATTACH, &l); return;
	case 1: entry_builder_add(b, CMD_CHILD_DETACH, &(struct cmd_child_detach){ l.parent, l.child }); return;
	case 2:
		entry_builder_add(b, CMD_CHILD_ATTACH_IF,
		                  &(struct cmd_child_attach_if){ l, PICK(d, ids), PICK(d, ids) });
		return;
	case 3:
		entry_builder_add(b, CMD_CHILD_DETACH_IF,
		                  &(struct cmd_child_detach_if){ l.parent, l.child, PICK(d, ids), PICK(d, ids) });
		return;
	case 4:
		entry_builder_add(b, CMD_SCHEMA_PUT, &(struct cmd_schema_put){ l.parent, version, PICK(d, docs) });
		return;
	default:
		entry_builder_add(b, CMD_SCHEMA_PUT_IF,
		                  &(struct cmd_schema_put_if){ l.parent, version, PICK(d, docs), PICK(d, ids) });
	}
}

static void add_place_command(struct dice *d, struct entry_builder *b)
{
	const struct str topic = PICK(d, topics), owner = PICK(d, members), target = PICK(d, members);
	const int64_t p = (int64_t)roll(d, 9) - 1;
	switch (roll(d, 8)) {
	case 0: entry_builder_add(b, CMD_PARTITION_ASSIGN, &(struct assignment){ topic, p, owner, NONE }); return;
	case 1: entry_builder_add(b, CMD_PARTITION_ASSIGN, &(struct assignment){ topic, p, owner, target }); return;
	case 2: entry_builder_add(b, CMD_MOVE_TARGET, &(struct cmd_move_target){ topic, p, target }); return;
	case 3: entry_builder_add(b, CMD_MOVE_TARGET, &(struct cmd_move_target){ topic, p, S("") }); return;
	case 4: entry_builder_add(b, CMD_MOVE_ABORT, &(struct cmd_move_target){ topic, p, target }); return;
	case 5: entry_builder_add(b, CMD_MOVE_COMPLETE, &(struct cmd_move_complete){ topic, p, owner, target }); return;
	case 6: entry_builder_add(b, CMD_PARTITION_PRUNE, &(struct cmd_partition_prune){ topic, p }); return;
	default:
		entry_builder_add(b, CMD_PARTITION_PLACE,
		                  &(struct cmd_partition_place){ topic, p, owner, PICK(d, ids) });
	}
}

static void add_replica_command(struct dice *d, struct entry_builder *b)
{
	const struct str topic = PICK(d, topics), id = PICK(d, ids), one = PICK(d, members), two = PICK(d, members);
	const struct str both[] = { one, two };
	const int64_t p = (int64_t)roll(d, 6);
	const uint64_t epoch = 1 + roll(d, 3);
	switch (roll(d, 6)) {
	case 0:
		entry_builder_add(
		    b, CMD_TOPIC_REPLICAS,
		    &(struct cmd_topic_replicas){ .topic = topic,
		                                  .expect_id = id,
		                                  .replicas = { .value = 1 + (int64_t)roll(d, 4), .set = true },
		                                  .unclean = { .value = roll(d, 2), .set = true } });
		return;
	case 1:
		entry_builder_add(
		    b, CMD_LEADER_CHANGE,
		    &(struct cmd_leader_change){ topic, id, p, epoch, roll(d, 3) ? one : S(""), roll(d, 2), S("") });
		return;
	case 2:
		entry_builder_add(b, CMD_IN_SYNC_CHANGE,
		                  &(struct cmd_in_sync_change){ topic, id, p, epoch, one, roll(d, 2) });
		return;
	case 3:
		entry_builder_add(b, CMD_REPLICAS_CHANGE,
		                  &(struct cmd_replicas_change){ topic, id, p, epoch, roll(d, 3) ? one : S(""),
		                                                 roll(d, 3) ? two : S(""), S("") });
		return;
	default:
		entry_builder_add(b, CMD_REPLICAS_PLACE,
		                  &(struct cmd_replicas_place){ topic, id, p, { both, 1 + roll(d, 2) } });
	}
}

static void add_member_command(struct dice *d, struct entry_builder *b)
{
	const struct member m = random_member(d);
	const struct str_pair tag = { S("rack"), S("r1") };
	const struct cmd_member_at at = { m.id, m.last_heartbeat };
	switch (roll(d, 9)) {
	case 0: entry_builder_add(b, CMD_MEMBER_HEARTBEAT, &at); return;
	case 1: entry_builder_add(b, CMD_MEMBER_DEAD, &(struct cmd_name){ m.id }); return;
	case 2:
		entry_builder_add(b, CMD_MEMBER_DEAD_IF, &(struct cmd_member_dead_if){ m.id, m.last_heartbeat });
		return;
	case 3: entry_builder_add(b, CMD_MEMBER_DRAINING, &(struct cmd_member_draining){ m.id, m.draining }); return;
	case 4: entry_builder_add(b, CMD_MEMBER_REMOVE, &at); return;
	case 5: entry_builder_add(b, CMD_MEMBER_READMIT, &at); return;
	case 6:
		entry_builder_add(b, CMD_MEMBER_EXTRA,
		                  &(struct member_extra){
				      m.id, roll(d, 2) ? S("server") : S("broker"), roll(d, 2), { &tag, roll(d, 2) } });
		return;
	default: entry_builder_add(b, CMD_MEMBER_JOIN, &m);
	}
}

static struct user random_user(struct dice *d)
{
	static const struct str patterns[] = { STR_LIT("a*"), STR_LIT("orders") };
	static const struct grant grants[] = { { STR_LIT("create"), { patterns, 2 } }, { STR_LIT("admin"), { 0 } } };
	return (struct user){
		.username = PICK(d, users),
		.password_hash = roll(d, 2) ? S("hash") : S("other"),
		.grants = { grants, roll(d, 3) },
		.root = roll(d, 2),
		.created_at_ms = (int64_t)roll(d, 3),
	};
}

static void add_user_command(struct dice *d, struct entry_builder *b)
{
	const struct user u = random_user(d);
	switch (roll(d, 7)) {
	case 0: entry_builder_add(b, CMD_USER_UPDATE, &u); return;
	case 1: entry_builder_add(b, CMD_USER_DELETE, &(struct cmd_name){ u.username }); return;
	case 2: entry_builder_add(b, CMD_USER_DELETE_RELEASE, &(struct cmd_name){ u.username }); return;
	case 3: entry_builder_add(b, roll(d, 10) ? CMD_USER_CREATE : CMD_USER_SEED_ROOT, &u); return;
	case 4:
		entry_builder_add(b, CMD_USER_PASSWORD, &(struct cmd_user_password){ u.username, u.password_hash, 9 });
		return;
	case 5: entry_builder_add(b, CMD_USER_GRANTS, &(struct cmd_user_grants){ u.username, u.grants, 9 }); return;
	default: entry_builder_add(b, CMD_USER_CREATE, &u);
	}
}

static void add_remote_command(struct dice *d, struct entry_builder *b)
{
	static const char *const remotes[] = { "eu", "us" };
	static const char *const keys[] = { "00000000000000aa", "00000000000000bb", "short" };
	const struct remote_limits_patch limits = { .max_in_flight = { .value = (int64_t)roll(d, 3), .set = true } };
	const struct sealed credential = { 1, PICK(d, keys), S("sealed") };
	const struct remote record = { .name = PICK(d, remotes), .id = PICK(d, ids), .credential = credential };
	const struct cmd_sealed_tuple tuple = { record.name, PICK(d, ids), S(""), S(""), S("system-roots") };
	const struct cmd_remote_create create = { .record = record, .salt = roll(d, 2) ? S("salt") : NONE };
	const struct cmd_remote_change change = { .name = record.name,
		                                  .fields = { .limits = roll(d, 2) ? &limits : NULL },
		                                  .credential = roll(d, 2) ? &credential : NULL,
		                                  .sealed_against = &tuple };
	const struct cmd_remote_child_attach attach = { .parent = PICK(d, topics),
		                                        .stub = PICK(d, topics),
		                                        .stub_id = PICK(d, ids),
		                                        .epoch = S("eeeeeeeeeeeeeeee"),
		                                        .remote = { .name = record.name, .topic = PICK(d, topics) } };
	const struct cmd_remote_skip skip = { (int64_t)roll(d, 12), (int64_t)roll(d, 5) };
	const struct cmd_remote_pause pause = { .paused = roll(d, 2), .reason = S("why") };
	const struct cmd_remote_child_state state = { .parent = attach.parent,
		                                      .stub = attach.stub,
		                                      .epoch = attach.epoch,
		                                      .pause = roll(d, 2) ? &pause : NULL,
		                                      .skip = &skip };
	switch (roll(d, 6)) {
	case 0: entry_builder_add(b, CMD_REMOTE_CREATE, &create); return;
	case 1: entry_builder_add(b, CMD_REMOTE_CHANGE, &change); return;
	case 2:
		entry_builder_add(b, CMD_REMOTE_DELETE,
		                  &(struct cmd_remote_delete){ record.name, roll(d, 2), NONE, NONE });
		return;
	case 3: entry_builder_add(b, CMD_REMOTE_CHILD_STATE, &state); return;
	default: entry_builder_add(b, CMD_REMOTE_CHILD_ATTACH, &attach);
	}
}

static struct entry random_entry(struct dice *d, struct rig *r)
{
	struct entry_builder b;
	if (roll(d, 20) == 0)
		return (struct entry){ .index = ++r->index, .term = r->term, .kind = ENTRY_NOOP };
	entry_builder_init(&b);
	for (uint64_t n = roll(d, 4) ? 1 : 1 + roll(d, 4); n > 0; n--) {
		switch (roll(d, 9)) {
		case 8: add_remote_command(d, &b); break;
		case 6:
		case 7: add_replica_command(d, &b); break;
		case 0: add_topic_command(d, &b); break;
		case 1: add_fanout_command(d, &b); break;
		case 2: add_member_command(d, &b); break;
		case 3: add_user_command(d, &b); break;
		default: add_place_command(d, &b); break;
		}
	}
	struct entry e = rig_entry_of(r, &b);
	entry_builder_fini(&b);
	r->term += roll(d, 50) == 0;
	return e;
}

static void restart_or_restore(struct rig *r, struct dice *d)
{
	char path[128];
	if (roll(d, 2)) {
		rig_close(r, roll(d, 2));
		rig_open(r);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s", r->dir, STORE_RESTORE_FILE);
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(store_copy(fsm_store(r->f), fd, NULL), 0);
	close(fd);
	if (fsm_replace(r->f, path, &r->err) != 0)
		fail_msg("%s", r->err.msg);
}

/* Of each name and domain, as of the last look. */
struct versions {
	struct fsm_topic_versions topic[ARRAY_LEN(topics)];
	raft_index domain[FSM_DOMAIN_COUNT];
};

/* No version goes back, and where an entry was refused none has moved. */
static void watch_versions(struct rig *r, struct versions *v, bool refused)
{
	struct store_txn *txn = rig_read(r);
	struct versions now;
	for (size_t i = 0; i < ARRAY_LEN(topics); i++) {
		assert_int_equal(fsm_get_topic_versions(txn, str_of(topics[i]), &now.topic[i]), 0);
		assert_true(now.topic[i].topic >= v->topic[i].topic);
		assert_true(now.topic[i].assignments >= v->topic[i].assignments);
	}
	for (int d = 0; d < FSM_DOMAIN_COUNT; d++) {
		assert_int_equal(fsm_get_domain_version(txn, (enum fsm_domain)d, &now.domain[d]), 0);
		assert_true(now.domain[d] >= v->domain[d]);
	}
	if (refused)
		assert_memory_equal(&now, v, sizeof(now));
	*v = now;
	fsm_read_end(&r->reader);
}

/* Gives `log` in batches of at most `most` entries, looking at the whole state now and then. */
static void play(struct rig *r, struct dice *d, const struct entry *log, size_t n, size_t most, bool disturbed,
                 struct fsm_result *results)
{
	struct versions seen = { 0 };
	for (size_t i = 0; i < n;) {
		size_t take = 1 + roll(d, most);
		if (take > n - i)
			take = n - i;
		if (fsm_apply(r->f, log + i, take, results + i, &r->err) != 0)
			fail_msg("%s", r->err.msg);
		i += take;
		r->index = log[i - 1].index;
		watch_versions(r, &seen, take == 1 && results[i - 1].refusal != 0);
		if (disturbed && roll(d, 40) == 0)
			restart_or_restore(r, d);
		if (roll(d, 100) == 0)
			rig_check(r);
	}
	rig_check(r);
}

/* Every record of both, byte by byte; only the transaction id may differ. */
static void assert_same_bytes(struct rig *x, struct rig *y)
{
	struct store_txn *left = rig_read(x), *right = rig_read(y);
	for (int db = 0; db < STORE_DB_COUNT; db++) {
		struct store_cursor *l, *r;
		struct str lk, lv, rk, rv;
		assert_int_equal(store_cursor_open(left, (enum store_db)db, &l), 0);
		assert_int_equal(store_cursor_open(right, (enum store_db)db, &r), 0);
		int lrc = store_cursor_seek(l, NONE, &lk, &lv), rrc = store_cursor_seek(r, NONE, &rk, &rv);
		while (lrc == 0 && rrc == 0) {
			if (!str_eq(lk, rk) || (!str_is(lk, "txid") && !str_eq(lv, rv)))
				fail_msg("%s: " STR_FMT " and " STR_FMT, store_db_name((enum store_db)db), STR_ARG(lk),
				         STR_ARG(rk));
			lrc = store_cursor_next(l, &lk, &lv);
			rrc = store_cursor_next(r, &rk, &rv);
		}
		assert_int_equal(lrc, ERR_NOTFOUND);
		assert_int_equal(rrc, ERR_NOTFOUND);
		store_cursor_close(l);
		store_cursor_close(r);
	}
	fsm_read_end(&x->reader);
	fsm_read_end(&y->reader);
}

static void one_seed(uint64_t seed)
{
	struct entry *log = mem_alloc(ENTRIES * sizeof(*log));
	struct fsm_result *first = mem_alloc(ENTRIES * sizeof(*first)), *again = mem_alloc(ENTRIES * sizeof(*again));
	struct rig one, other;
	struct dice d;
	size_t applied = 0;
	rand_seed(&d.r, seed);
	rig_make(&one);
	rig_make(&other);
	for (size_t i = 0; i < ENTRIES; i++)
		log[i] = random_entry(&d, &one);
	play(&one, &d, log, ENTRIES, 1, false, first);
	play(&other, &d, log, ENTRIES, roll(&d, 2) ? 40 : 512, true, again);
	for (size_t i = 0; i < ENTRIES; i++) {
		applied += first[i].refusal == 0;
		/* an entry before a restart was passed over by no one: results are of the entry, not of the run */
		assert_int_equal(first[i].refusal, again[i].refusal);
		assert_int_equal(first[i].command, again[i].command);
	}
	/* a log that is all refusals would prove little */
	assert_in_range(applied, ENTRIES / 6, ENTRIES - ENTRIES / 6);
	assert_int_equal(digest(&one).total, digest(&other).total);
	assert_same_bytes(&one, &other);
	for (size_t i = 0; i < ENTRIES; i++)
		entry_unref(&log[i]);
	rig_drop(&one);
	rig_drop(&other);
	mem_free(log);
	mem_free(first);
	mem_free(again);
	slab_drain_pool();
}

static void test_equal_logs_give_equal_bytes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		print_message("seed %" PRIu64 "\n", seed);
		one_seed(seed);
	}
}

/* The slow check sees each kind of damage: proof that its silence means something. */
static void test_check_sees_damage(void **state)
{
	struct rig *r = *state;
	static const struct {
		enum store_db db;
		const char *key;
		size_t key_len;
	} targets[] = {
		{ STORE_TOPICS, "orders", 6 },
		{ STORE_ASSIGNMENTS, "orders:0", 8 },
		{ STORE_X_TOPIC, "orders", 6 },
		{ STORE_X_FOLD, "orders\0orders", 13 },
		{ STORE_X_BY_USER, "ann\0orders", 10 },
		{ STORE_X_BY_MEMBER, "n1\0orders\0\0\0", 12 },
		{ STORE_X_MEMBER, "n1", 2 },
		{ STORE_X_MOVE, "orders\0\0\0", 9 },
		{ STORE_X_UNPLACED, "orders", 6 },
		{ STORE_X_ORPHAN, "ghost\0\0\7", 8 },
		{ STORE_SCHEMAS, "orders:1", 8 },
		{ STORE_MEMBERS, "n1", 2 },
		{ STORE_REMOVED_MEMBERS, "gone", 4 },
		{ STORE_USERS, "ann", 3 },
		{ STORE_X_BY_REMOTE, "eu\0stub", 7 },
	};
	struct topic t = topic_of("orders", "1111111111111111", 3);
	t.owner = S("ann");
	assert_int_equal(do_create_with(r, t, "{}", NULL), 0);
	assert_int_equal(do_join(r, "n1", 1), 0);
	assert_int_equal(do_place(r, "orders", "1111111111111111", 0, "n1"), 0);
	assert_int_equal(do_target(r, "orders", 0, "n2"), 0);
	assert_int_equal(do_assign(r, "ghost", 7, "n1"), 0);
	assert_int_equal(do_remove(r, "gone"), 0);
	assert_int_equal(do_user(r, "ann", false), 0);
	const struct remote_link link = { .name = S("eu"), .topic = S("t"), .lanes = 1 };
	struct topic stub = topic_of("stub", "2222222222222222", 0);
	stub.role = S("child");
	stub.parent = S("p");
	stub.remote = &link;
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &stub), 0);
	rig_check(r);
	for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
		const struct str key = { targets[i].key, targets[i].key_len };
		struct store_txn *txn;
		struct err e = { 0 };
		assert_int_equal(store_begin_write(fsm_store(r->f), &txn, NULL), 0);
		assert_int_equal(fsm_check(txn, &e), 0);
		assert_int_equal(store_del(txn, targets[i].db, key), 0);
		if (fsm_check(txn, &e) != ERR_CORRUPT)
			fail_msg("%s: a missing row was not seen", store_db_name(targets[i].db));
		assert_string_not_equal(e.msg, "");
		store_abort(txn);
		/* and one too many */
		assert_int_equal(store_begin_write(fsm_store(r->f), &txn, NULL), 0);
		assert_int_equal(store_put(txn, targets[i].db, S("x\0y\0\0"), S("{}")), 0);
		if (fsm_check(txn, &e) != ERR_CORRUPT)
			fail_msg("%s: a row too many was not seen", store_db_name(targets[i].db));
		store_abort(txn);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_logs_give_equal_bytes),
		CASE(test_check_sees_damage),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
