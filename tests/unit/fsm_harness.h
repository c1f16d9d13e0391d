/* tests/unit/fsm_harness.h - what the tests of fsm/ share: a state machine in a directory of its own, entries made of
 * commands, and looks at what came of them. Every teardown walks the whole state with fsm_check. For one .c file each.
 */
#ifndef TESTS_UNIT_FSM_HARNESS_H
#define TESTS_UNIT_FSM_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rand.h"
#include "fsm/assignments.h"
#include "fsm/changes.h"
#include "fsm/fsm.h"
#include "fsm/members.h"
#include "fsm/reader.h"
#include "fsm/topics.h"
#include "fsm/users.h"
#include "model/commands.h"
#include "model/entry.h"
#include "store/mark.h"

#define UNUSED __attribute__((unused))
#define NONE ((struct str){ NULL, 0 })
#define S(text) STR_LIT(text)

struct rig {
	char dir[64];
	struct fsm *f;
	raft_index index; /* of the last entry given */
	raft_term term;
	uint64_t time_ms;
	uint32_t max_type; /* 0 = all */
	struct fsm_reader reader;
	struct err err; /* of the last fsm_apply */
};

static UNUSED void rig_open(struct rig *r)
{
	struct fsm_options o = { .store = { .dir = r->dir, .map_bytes = 1u << 30 }, .max_entry_type = r->max_type };
	struct err e = { 0 };
	if (fsm_open(&o, &r->f, &e) != 0)
		fail_msg("%s", e.msg);
	fsm_reader_init(&r->reader, r->f);
}

static UNUSED void rig_close(struct rig *r, bool clean)
{
	fsm_reader_fini(&r->reader);
	assert_int_equal(fsm_close(r->f, clean, NULL), 0);
	r->f = NULL;
}

static UNUSED void rig_make(struct rig *r)
{
	*r = (struct rig){ .term = 1, .time_ms = 1700000000000 };
	snprintf(r->dir, sizeof(r->dir), "%s/veena-fsm-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(r->dir));
	rig_open(r);
}

static UNUSED struct store_txn *rig_read(struct rig *r)
{
	struct store_txn *t;
	struct err e = { 0 };
	if (fsm_read(&r->reader, &t, &e) != 0)
		fail_msg("%s", e.msg);
	return t;
}

static UNUSED void rig_check(struct rig *r)
{
	struct err e = { 0 };
	if (fsm_check(rig_read(r), &e) != 0)
		fail_msg("at index %" PRIu64 ": %s", r->index, e.msg);
	fsm_read_end(&r->reader);
}

static UNUSED void rig_drop(struct rig *r)
{
	char command[96];
	if (r->f) {
		rig_check(r);
		rig_close(r, true);
	}
	snprintf(command, sizeof(command), "rm -rf %s", r->dir);
	assert_int_equal(system(command), 0);
}

static UNUSED int rig_setup(void **state)
{
	struct rig *r = test_malloc(sizeof(*r));
	rig_make(r);
	*state = r;
	return 0;
}

static UNUSED int rig_teardown(void **state)
{
	rig_drop(*state);
	test_free(*state);
	slab_drain_pool();
	return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)

/* ---- entries ---- */

/* The next entry from a builder's commands; one slab count is the caller's. */
static UNUSED struct entry rig_entry_of(struct rig *r, const struct entry_builder *b)
{
	const struct entry_header h = { .actor = S("tester"), .origin = S("n1") };
	struct slab *slab;
	assert_int_equal(entry_builder_finish(b, &h, &slab, NULL), 0);
	r->time_ms += 1000;
	entry_stamp_time(slab, r->time_ms);
	return (struct entry){ .index = ++r->index,
		               .term = r->term,
		               .kind = ENTRY_COMMAND,
		               .len = (uint32_t)slab->len,
		               .data = slab->data,
		               .slab = slab };
}

static UNUSED int rig_apply(struct rig *r, const struct entry *e, struct fsm_result *result)
{
	return fsm_apply(r->f, e, 1, result, &r->err);
}

/* Applies one entry of the builder's commands; its refusal. Clears the builder. */
static UNUSED struct fsm_result rig_run(struct rig *r, struct entry_builder *b)
{
	struct fsm_result result;
	struct entry e = rig_entry_of(r, b);
	if (rig_apply(r, &e, &result) != 0)
		fail_msg("entry %" PRIu64 ": %s", e.index, r->err.msg);
	assert_int_equal(fsm_applied_index(r->f), e.index);
	entry_unref(&e);
	entry_builder_fini(b);
	return result;
}

/* Applies one command; its refusal. Judged first: both must say the same, and judging must change nothing. */
static UNUSED int rig_do(struct rig *r, enum command_type type, const void *command)
{
	struct entry_builder b;
	struct arena a = { 0 };
	struct fsm_hint hint;
	const int judged = fsm_judge(rig_read(r), type, command, r->time_ms, &a, &hint, NULL);
	fsm_read_end(&r->reader);
	arena_fini(&a);
	entry_builder_init(&b);
	entry_builder_add(&b, type, command);
	const struct fsm_result result = rig_run(r, &b);
	assert_int_equal(judged, result.refusal);
	return result.refusal;
}

static UNUSED void rig_noop(struct rig *r)
{
	struct fsm_result result;
	const struct entry e = { .index = ++r->index, .term = r->term, .kind = ENTRY_NOOP };
	assert_int_equal(rig_apply(r, &e, &result), 0);
}

/* ---- short commands ---- */

static UNUSED struct topic topic_of(const char *name, const char *id, int64_t partitions)
{
	return (struct topic){ .name = str_of(name),
		               .id = str_of(id),
		               .partitions = partitions,
		               .retention_ms = 604800000,
		               .visibility_timeout_ms = 30000,
		               .max_in_flight_per_partition = 1024,
		               .max_acked_ahead_per_partition = 1024,
		               .created_at = 1700000000 };
}

static UNUSED int do_create(struct rig *r, const char *name, const char *id, int64_t partitions)
{
	const struct cmd_topic_create_with c = { .topic = topic_of(name, id, partitions) };
	return rig_do(r, CMD_TOPIC_CREATE_WITH, &c);
}

static UNUSED int do_create_with(struct rig *r, struct topic t, const char *schema, const struct cmd_create_link *link)
{
	const struct cmd_topic_create_with c = { t, schema ? str_of(schema) : NONE, link };
	return rig_do(r, CMD_TOPIC_CREATE_WITH, &c);
}

static UNUSED int do_delete(struct rig *r, const char *name, const char *id)
{
	const struct cmd_topic_delete_if c = { str_of(name), str_of(id) };
	return rig_do(r, CMD_TOPIC_DELETE_IF, &c);
}

static UNUSED int do_place(struct rig *r, const char *topic, const char *id, int64_t p, const char *owner)
{
	const struct cmd_partition_place c = { str_of(topic), p, str_of(owner), str_of(id) };
	return rig_do(r, CMD_PARTITION_PLACE, &c);
}

static UNUSED int do_assign(struct rig *r, const char *topic, int64_t p, const char *owner)
{
	const struct assignment c = { str_of(topic), p, str_of(owner), NONE };
	return rig_do(r, CMD_PARTITION_ASSIGN, &c);
}

static UNUSED int do_target(struct rig *r, const char *topic, int64_t p, const char *target)
{
	const struct cmd_move_target c = { str_of(topic), p, str_of(target) };
	return rig_do(r, CMD_MOVE_TARGET, &c);
}

static UNUSED int do_abort(struct rig *r, const char *topic, int64_t p, const char *target)
{
	const struct cmd_move_target c = { str_of(topic), p, str_of(target) };
	return rig_do(r, CMD_MOVE_ABORT, &c);
}

static UNUSED int do_complete(struct rig *r, const char *topic, int64_t p, const char *owner, const char *target)
{
	const struct cmd_move_complete c = { str_of(topic), p, str_of(owner), str_of(target) };
	return rig_do(r, CMD_MOVE_COMPLETE, &c);
}

static UNUSED int do_prune(struct rig *r, const char *topic, int64_t p)
{
	const struct cmd_partition_prune c = { str_of(topic), p };
	return rig_do(r, CMD_PARTITION_PRUNE, &c);
}

static UNUSED struct member member_of(const char *id, int64_t heartbeat)
{
	return (struct member){ .id = str_of(id),
		                .addr = S("10.0.0.1:7942"),
		                .cluster_addr = S("10.0.0.1:7943"),
		                .status = S("alive"),
		                .last_heartbeat = heartbeat,
		                .build = S("1.0"),
		                .entry_types = COMMAND_MAX };
}

static UNUSED int do_join(struct rig *r, const char *id, int64_t heartbeat)
{
	const struct member m = member_of(id, heartbeat);
	return rig_do(r, CMD_MEMBER_JOIN, &m);
}

static UNUSED int do_remove(struct rig *r, const char *id)
{
	const struct cmd_member_at c = { str_of(id), 1700000000 };
	return rig_do(r, CMD_MEMBER_REMOVE, &c);
}

static UNUSED struct user user_of(const char *name, const char *hash)
{
	static const struct str patterns[] = { STR_LIT("orders"), STR_LIT("eu.*") };
	static const struct grant grants[] = { { STR_LIT("create"), { patterns, 2 } } };
	return (struct user){ .username = str_of(name),
		              .password_hash = str_of(hash),
		              .grants = { grants, 1 },
		              .created_at_ms = 1700000000000,
		              .updated_at_ms = 1700000000000 };
}

static UNUSED int do_user(struct rig *r, const char *name, bool root)
{
	const struct user u = user_of(name, "hash");
	return rig_do(r, root ? CMD_USER_SEED_ROOT : CMD_USER_CREATE, &u);
}

/* ---- looks; each opens a fresh read, so strings live until the next look ---- */

static UNUSED bool topic_there(struct rig *r, const char *name, struct fsm_topic *out)
{
	int rc = fsm_get_topic(rig_read(r), str_of(name), out);
	assert_true(rc == 0 || rc == ERR_NOTFOUND);
	return rc == 0;
}

static UNUSED struct fsm_owner owner_at(struct rig *r, const char *name, uint32_t p)
{
	struct fsm_topic t;
	struct fsm_owner o;
	assert_true(topic_there(r, name, &t));
	fsm_topic_owner(&t, p, &o);
	return o;
}

/* Stored bytes of one record as text, in a buffer of this function's own; "" when there is none. */
static UNUSED const char *stored(struct rig *r, enum store_db db, const char *key)
{
	static char text[8192];
	struct str v;
	int rc = store_get(rig_read(r), db, str_of(key), &v);
	assert_true(rc == 0 || rc == ERR_NOTFOUND);
	assert_true(rc != 0 || v.len < sizeof(text));
	snprintf(text, sizeof(text), STR_FMT, rc == 0 ? (int)v.len : 0, rc == 0 ? v.p : "");
	return text;
}

static UNUSED uint64_t rows(struct rig *r, enum store_db db)
{
	uint64_t n;
	assert_int_equal(store_count(rig_read(r), db, &n), 0);
	return n;
}

static UNUSED struct fsm_digest digest(struct rig *r)
{
	struct fsm_digest d;
	assert_int_equal(fsm_get_digest(rig_read(r), &d), 0);
	return d;
}

static UNUSED struct fsm_member_counts counts(struct rig *r, const char *member)
{
	struct fsm_member_extra x;
	assert_int_equal(fsm_get_member_extra(rig_read(r), str_of(member), &x), 0);
	return x.counts;
}

/* "domain:key+" and "domain:key-" for each change above `since`, blank-separated. */
static UNUSED const char *changes_since(struct rig *r, raft_index since)
{
	static char text[8192];
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	size_t at = 0;
	int rc;
	text[0] = '\0';
	assert_int_equal(fsm_changes_seek(r->f, since, &pos), 0);
	while ((rc = fsm_changes_next(r->f, &pos, &c)) == 0)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s:%s%c", at ? " " : "",
		                       fsm_domain_word(c.domain), c.key.p, c.op == FSM_OP_PUT ? '+' : '-');
	assert_int_equal(rc, ERR_TIMEOUT);
	fsm_changes_leave(&pos);
	return text;
}

#endif /* TESTS_UNIT_FSM_HARNESS_H */
