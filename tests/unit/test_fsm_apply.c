/* Applying: what is consumed, what stops a node, what a failed commit leaves, what a restart and an image find. */
#include "fsm_harness.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "model/mp.h"
#include "raft/raft.h"
#include "store/store.h"

#define ID1 "1111111111111111"

/* LMDB writes pages with writev or pwrite, and last the meta page with pwrite: each may be told to fail here. */
static int writes_to_fail, writes_error;
static bool only_meta;

static bool fails(size_t bytes)
{
	/* what is written of a meta page is far shorter than a page */
	if (writes_to_fail == 0 || (only_meta && bytes >= 4096))
		return false;
	writes_to_fail--;
	errno = writes_error;
	return true;
}

ssize_t writev(int fd, const struct iovec *iov, int n)
{
	return fails(4096) ? -1 : syscall(SYS_writev, fd, iov, n);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	return fails(n) ? -1 : syscall(SYS_pwrite64, fd, p, n, at);
}

/* An entry of raw bytes. */
static int apply_bytes(struct rig *r, const void *bytes, size_t len, struct fsm_result *result)
{
	struct slab *slab = slab_from(bytes, len);
	struct entry e = { .index = ++r->index,
		           .term = r->term,
		           .kind = ENTRY_COMMAND,
		           .len = (uint32_t)len,
		           .data = len ? slab->data : NULL,
		           .slab = slab };
	const int rc = rig_apply(r, &e, result);
	slab_unref(slab);
	if (rc)
		r->index--;
	return rc;
}

/* An envelope with one command of any type and payload. */
static int apply_raw(struct rig *r, unsigned type, const void *payload, size_t len, struct fsm_result *result)
{
	uint8_t b[512] = { ENTRY_VERSION, 0, 14, 0 };
	assert_true(len + 19 <= sizeof(b));
	b[14] = (uint8_t)type;
	put_le32(b + 15, (uint32_t)len);
	memcpy(b + 19, payload, len);
	return apply_bytes(r, b, 19 + len, result);
}

/* F15, narad 1: an empty payload of every known type is refused, consumed and recorded, and stops nothing. */
static void test_empty_payloads_are_consumed(void **state)
{
	struct rig *r = *state;
	struct fsm_result result;
	struct fsm_applied applied;
	for (unsigned type = 1; type <= COMMAND_MAX; type++) {
		if (!command_info(type))
			continue;
		assert_int_equal(apply_raw(r, type, "", 0, &result), 0);
		assert_int_equal(result.refusal, FSM_UNDECODABLE);
		assert_int_equal(apply_raw(r, type, "\x90", 1, &result), 0);
		assert_int_equal(result.refusal, FSM_UNDECODABLE);
		assert_int_equal(fsm_get_applied(rig_read(r), &applied), 0);
		assert_int_equal(applied.index, r->index);
		assert_int_equal(applied.max_entry_type, type);
	}
	assert_int_equal(rows(r, STORE_TOPICS) + rows(r, STORE_MEMBERS) + rows(r, STORE_ASSIGNMENTS), 0);
}

/* Bytes that are no envelope: consumed. */
static void test_undecodable_entries_are_consumed(void **state)
{
	struct rig *r = *state;
	struct fsm_result result;
	static const char *const odd[] = { "{\"o\":3}", "\x01",
		                           "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01" };
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		assert_int_equal(apply_bytes(r, odd[i], strlen(odd[i]), &result), 0);
		assert_int_equal(result.refusal, FSM_UNDECODABLE);
	}
	/* whole, but of a format to come */
	assert_int_equal(apply_bytes(r, "\x02\x00\x0e\x00\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0", 19, &result), ERR_VERSION);
	assert_int_equal(apply_bytes(r, "", 0, &result), 0);
	assert_int_equal(result.refusal, FSM_UNDECODABLE);
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_string_equal(fsm_refusal_word(FSM_UNSUPPORTED), "unsupported");
	assert_string_equal(fsm_refusal_word(0), "");
	assert_string_equal(fsm_refusal_word(9999), "?");
}

/* Unknown types, type 0 and newer envelopes stop the node: what stands before in the batch is applied, nothing behind,
 * and the message names index and type. */
static void test_unknown_type_stops_before_its_entry(void **state)
{
	struct rig *r = *state;
	struct fsm_result results[3];
	struct entry entries[3];
	struct entry_builder b;
	struct fsm_topic t;
	static const unsigned types[] = { 0, 38, 63, COMMAND_MAX + 1, 255 };
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		char name[16], what[64];
		uint8_t unknown[20] = { ENTRY_VERSION, 0, 14, 0 };
		unknown[14] = (uint8_t)types[i];
		unknown[15] = 1;
		unknown[19] = 0x90;
		for (int k = 0; k < 3; k += 2) {
			snprintf(name, sizeof(name), "t%zu-%d", i, k);
			const struct topic c = topic_of(name, ID1, 3);
			entry_builder_init(&b);
			entry_builder_add(&b, CMD_TOPIC_CREATE, &c);
			entries[k] = rig_entry_of(r, &b);
			entry_builder_fini(&b);
			if (k == 0)
				r->index++; /* for the one in the middle */
		}
		entries[1] = (struct entry){ .index = entries[0].index + 1,
			                     .term = 1,
			                     .kind = ENTRY_COMMAND,
			                     .len = sizeof(unknown),
			                     .data = unknown };
		assert_int_equal(fsm_apply(r->f, entries, 3, results, &r->err), ERR_VERSION);
		snprintf(what, sizeof(what), "entry %" PRIu64 " is of entry type %u,", entries[1].index, types[i]);
		assert_non_null(strstr(r->err.msg, what));
		assert_int_equal(fsm_applied_index(r->f), entries[0].index);
		snprintf(name, sizeof(name), "t%zu-0", i);
		assert_true(topic_there(r, name, &t));
		/* the same again: nothing moves */
		assert_int_equal(fsm_apply(r->f, entries, 3, results, &r->err), ERR_VERSION);
		assert_int_equal(fsm_applied_index(r->f), entries[0].index);
		snprintf(name, sizeof(name), "t%zu-2", i);
		assert_false(topic_there(r, name, &t));
		r->index = entries[0].index;
		entry_unref(&entries[0]);
		entry_unref(&entries[2]);
	}
	const struct entry odd_kind = { .index = r->index + 1, .term = 1, .kind = 9 };
	assert_int_equal(fsm_apply(r->f, &odd_kind, 1, results, &r->err), ERR_VERSION);
}

/* An unknown command behind a refused one stops all the same: an entry is applied as a whole or not by this build. */
static void test_unknown_type_behind_a_refusal_stops(void **state)
{
	struct rig *r = *state;
	struct fsm_result result;
	uint8_t b[64] = { ENTRY_VERSION, 0, 14, 0 };
	b[14] = CMD_TOPIC_DELETE;
	b[15] = 1;
	b[19] = 0x90;
	b[20] = 99;
	b[21] = 1;
	b[25] = 0x90;
	assert_int_equal(apply_bytes(r, b, 26, &result), ERR_VERSION);
	assert_non_null(strstr(r->err.msg, "type 99"));
	assert_int_equal(fsm_applied_index(r->f), 0);
}

/* --max-entry-type: a known but newer type is as unknown as any. */
static void test_lower_limit_makes_types_unknown(void **state)
{
	struct rig *r = *state;
	struct fsm_result result;
	rig_close(r, true);
	r->max_type = 22;
	rig_open(r);
	assert_int_equal(apply_raw(r, CMD_TOPIC_CREATE_WITH, "\x90", 1, &result), ERR_VERSION);
	assert_int_equal(apply_raw(r, CMD_TOPIC_CREATE, "\x90", 1, &result), 0);
}

/* A database that consumed a newer type is refused before a byte of it is changed. */
static void test_newer_database_is_not_opened(void **state)
{
	struct rig *r = *state;
	struct fsm_options o = { .store = { .dir = r->dir, .map_bytes = 1u << 30 }, .max_entry_type = 22 };
	struct fsm *f = NULL;
	struct err e = { 0 };
	struct stat before, after;
	char path[128];
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	rig_close(r, true);
	snprintf(path, sizeof(path), "%s/%s", r->dir, STORE_FILE);
	assert_int_equal(stat(path, &before), 0);
	assert_int_equal(fsm_open(&o, &f, &e), ERR_VERSION);
	assert_null(f);
	assert_non_null(strstr(e.msg, "type 23"));
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
	rig_open(r);
	assert_int_equal(fsm_applied_index(r->f), 1);
}

/* Index, term, newest type and the transaction that wrote them: after success and after a refusal, also after a
 * restart. */
static void test_every_entry_records_where_it_stands(void **state)
{
	struct rig *r = *state;
	struct fsm_applied a;
	r->term = 3;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(do_create(r, "orders", ID1, 3), FSM_TOPIC_EXISTS);
	rig_noop(r);
	for (int restart = 0; restart < 2; restart++) {
		struct store_txn *txn = rig_read(r);
		assert_int_equal(fsm_get_applied(txn, &a), 0);
		assert_int_equal(a.index, 3);
		assert_int_equal(a.term, 3);
		assert_int_equal(a.max_entry_type, CMD_TOPIC_CREATE_WITH);
		assert_int_equal(a.txn_id, store_txn_id(txn));
		assert_int_equal(fsm_applied_index(r->f), 3);
		assert_int_equal(fsm_applied_term(r->f), 3);
		assert_int_equal(fsm_domain_version(r->f, FSM_DOMAIN_TOPICS), 1);
		assert_int_equal(fsm_changes_floor(r->f), restart ? 3 : 0);
		rig_close(r, restart == 0);
		rig_open(r);
	}
}

/* Entries at or below the index are passed over; a gap is damage. */
static void test_replay_skips_and_gaps_stop(void **state)
{
	struct rig *r = *state;
	struct fsm_result results[2];
	struct entry_builder b;
	struct entry entries[2];
	for (int i = 0; i < 2; i++) {
		const struct topic t = topic_of(i ? "b" : "a", ID1, 3);
		entry_builder_init(&b);
		entry_builder_add(&b, CMD_TOPIC_CREATE, &t);
		entries[i] = rig_entry_of(r, &b);
		entry_builder_fini(&b);
	}
	assert_int_equal(fsm_apply(r->f, &entries[1], 1, results, &r->err), ERR_CORRUPT);
	assert_non_null(strstr(r->err.msg, "entry 2 was handed over, entry 1 is the next"));
	assert_int_equal(fsm_apply(r->f, &entries[0], 1, results, &r->err), 0);
	const struct fsm_digest before = digest(r);
	assert_int_equal(fsm_apply(r->f, entries, 2, results, &r->err), 0);
	assert_int_equal(results[0].refusal, 0);
	assert_int_equal(results[1].refusal, 0);
	assert_int_equal(fsm_apply(r->f, entries, 2, results, &r->err), 0);
	assert_int_equal(digest(r).index, 2);
	assert_true(digest(r).total != before.total);
	entry_unref(&entries[0]);
	entry_unref(&entries[1]);
}

/* A configuration is kept as it is, with its index; it is a change of servers. */
static void test_configuration_is_kept(void **state)
{
	struct rig *r = *state;
	struct raft_conf conf = { .count = 1 }, back;
	struct fsm_result result;
	struct fsm_applied a;
	struct buf bytes = { 0 };
	conf.servers[0].id = 7;
	conf.servers[0].voter = true;
	snprintf(conf.servers[0].name, sizeof(conf.servers[0].name), "n1");
	snprintf(conf.servers[0].addr, sizeof(conf.servers[0].addr), "127.0.0.1:7943");
	raft_conf_encode(&conf, &bytes);
	const struct entry e = {
		.index = ++r->index, .term = 1, .kind = ENTRY_CONFIG, .len = (uint32_t)bytes.len, .data = bytes.data
	};
	assert_int_equal(rig_apply(r, &e, &result), 0);
	rig_noop(r);
	assert_int_equal(fsm_get_applied(rig_read(r), &a), 0);
	assert_int_equal(a.index, 2);
	assert_int_equal(a.conf_index, 1);
	assert_int_equal(raft_conf_decode(a.conf.p, a.conf.len, &back, NULL), 0);
	assert_string_equal(back.servers[0].name, "n1");
	assert_string_equal(changes_since(r, 0), "servers:n1+");
	buf_fini(&bytes);
}

/* A commit that fails leaves index, records and memory where they were; given again it is applied once. */
static void test_failed_commit_leaves_nothing(void **state)
{
	struct rig *r = *state;
	static const struct {
		int error, code;
	} faults[] = { { ENOSPC, ERR_FULL }, { EIO, ERR_IO } };
	struct fsm_topic t;
	assert_int_equal(do_create(r, "before", ID1, 3), 0);
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		struct entry_builder b;
		struct fsm_result result;
		char name[16];
		snprintf(name, sizeof(name), "t%zu", i);
		const struct topic c = topic_of(name, ID1, 3);
		entry_builder_init(&b);
		entry_builder_add(&b, CMD_TOPIC_CREATE, &c);
		struct entry e = rig_entry_of(r, &b);
		entry_builder_fini(&b);
		const struct fsm_digest before = digest(r);
		for (int k = 0; k < 2; k++) {
			writes_to_fail = 1;
			writes_error = faults[i].error;
			assert_int_equal(rig_apply(r, &e, &result), faults[i].code);
			assert_int_equal(writes_to_fail, 0);
			assert_string_not_equal(r->err.msg, "");
			assert_int_equal(fsm_applied_index(r->f), e.index - 1);
			assert_false(topic_there(r, name, &t));
			assert_int_equal(digest(r).total, before.total);
			assert_string_equal(changes_since(r, e.index - 1), "");
		}
		assert_int_equal(rig_apply(r, &e, &result), 0);
		assert_int_equal(result.refusal, 0);
		assert_true(topic_there(r, name, &t));
		entry_unref(&e);
	}
}

/* When not even the meta page can be written the database refuses everything until it is opened anew, and then stands
 * where it stood before. */
static void test_failed_meta_page_needs_a_restart(void **state)
{
	struct rig *r = *state;
	struct entry_builder b;
	struct fsm_result result;
	struct fsm_topic t;
	const struct topic c = topic_of("orders", ID1, 3);
	rig_noop(r);
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_TOPIC_CREATE, &c);
	struct entry e = rig_entry_of(r, &b);
	entry_builder_fini(&b);
	only_meta = true;
	writes_to_fail = 1;
	writes_error = EIO;
	assert_int_equal(rig_apply(r, &e, &result), ERR_IO);
	only_meta = false;
	assert_int_equal(writes_to_fail, 0);
	assert_int_equal(rig_apply(r, &e, &result), ERR_IO);
	assert_int_equal(fsm_applied_index(r->f), 1);
	rig_close(r, false);
	rig_open(r);
	assert_int_equal(fsm_applied_index(r->f), 1);
	assert_false(topic_there(r, "orders", &t));
	assert_int_equal(rig_apply(r, &e, &result), 0);
	assert_true(topic_there(r, "orders", &t));
	entry_unref(&e);
}

/* A write by something that does not keep the index is found at the next open. */
static void test_foreign_write_is_found(void **state)
{
	struct rig *r = *state;
	struct store_options o = { .dir = r->dir, .map_bytes = 1u << 30 };
	struct fsm_options fo = { .store = o };
	struct fsm *f = NULL;
	struct store *s;
	struct store_txn *txn;
	struct err e = { 0 };
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	rig_close(r, true);
	assert_int_equal(store_open(&o, &s, NULL), 0);
	assert_int_equal(store_begin_write(s, &txn, NULL), 0);
	assert_int_equal(store_put(txn, STORE_TOPICS, S("foreign"), S("{}")), 0);
	assert_int_equal(store_commit(txn, NULL), 0);
	assert_int_equal(store_close(s, true, NULL), 0);
	assert_int_equal(fsm_open(&fo, &f, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.msg, "something else wrote to it"));
	assert_int_equal(store_set_aside(r->dir, NULL), 0);
	rig_open(r);
	assert_int_equal(fsm_applied_index(r->f), 0);
}

/* Processes killed between and inside commits: the next start stands at a whole index and every derived row fits. */
static void test_killed_apply_stands_at_a_whole_index(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_create(r, "orders", ID1, 16), 0);
	rig_close(r, false);
	raft_index at = 1;
	for (int round = 0; round < 15; round++) {
		int pipes[2];
		uint64_t seen = 0;
		assert_int_equal(pipe(pipes), 0);
		const pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			rig_open(r);
			r->index = fsm_applied_index(r->f);
			for (int i = 0;; i++) {
				char owner[16];
				snprintf(owner, sizeof(owner), "m%d", i % 5);
				(void)do_assign(r, "orders", i % 16, owner);
				(void)do_target(r, "orders", (i * 7) % 16, owner);
				const uint64_t done = r->index;
				if (write(pipes[1], &done, sizeof(done)) != sizeof(done))
					_exit(1);
			}
		}
		close(pipes[1]);
		for (int i = 0; i < 3 + round * 5; i++)
			assert_int_equal(read(pipes[0], &seen, sizeof(seen)), sizeof(seen));
		assert_int_equal(kill(pid, SIGKILL), 0);
		while (read(pipes[0], &seen, sizeof(seen)) == sizeof(seen))
			;
		close(pipes[0]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		rig_open(r);
		assert_true(fsm_applied_index(r->f) >= seen && seen > at);
		at = fsm_applied_index(r->f);
		rig_check(r);
		rig_close(r, false);
	}
	rig_open(r);
}

static void copy_to(struct rig *r, const char *path)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(store_copy(fsm_store(r->f), fd, NULL), 0);
	close(fd);
}

/* An image says of itself where it stands, and its digest is the live one at that index. */
static void test_image_tells_where_it_stands(void **state)
{
	struct rig *r = *state;
	struct fsm_image image;
	char path[128];
	snprintf(path, sizeof(path), "%s/image", r->dir);
	r->term = 2;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	copy_to(r, path);
	const struct fsm_digest d = digest(r);
	assert_int_equal(do_create(r, "later", ID1, 3), 0);
	assert_int_equal(fsm_read_image(path, 0, &image, NULL), 0);
	assert_int_equal(image.index, 1);
	assert_int_equal(image.term, 2);
	assert_int_equal(image.digest, d.total);
	assert_int_equal(image.max_entry_type, CMD_TOPIC_CREATE_WITH);
	assert_int_equal(image.conf_len, 0);
	assert_int_equal(fsm_read_image(path, 22, &image, NULL), ERR_VERSION);
	struct fsm_digest counted;
	assert_int_equal(fsm_count_digest(rig_read(r), &counted), 0);
	assert_int_equal(counted.total, digest(r).total);
}

/* A restored image takes the place of what was there; the list of changes starts anew and readers see the image. */
static void test_replace_puts_an_image_in_place(void **state)
{
	struct rig *r = *state;
	struct fsm_change_pos pos = { 0 };
	struct fsm_change c;
	struct fsm_topic t;
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", r->dir, STORE_RESTORE_FILE);
	assert_int_equal(do_create(r, "old", ID1, 3), 0);
	assert_int_equal(do_join(r, "n1", 100), 0);
	copy_to(r, path);
	assert_int_equal(do_delete(r, "old", ID1), 0);
	assert_int_equal(do_remove(r, "n1"), 0);
	fsm_changes_end(r->f, &pos);
	const struct fsm_members *m;
	(void)rig_read(r);
	assert_int_equal(fsm_reader_members(&r->reader, &m, NULL), 0);
	assert_int_equal(m->count, 0);
	assert_int_equal(fsm_generation(r->f), 0);
	fsm_read_end(&r->reader);
	assert_int_equal(fsm_replace(r->f, path, &r->err), 0);
	assert_int_equal(fsm_generation(r->f), 1);
	assert_int_equal(fsm_applied_index(r->f), 2);
	r->index = 2;
	assert_true(topic_there(r, "old", &t));
	assert_int_equal(fsm_reader_members(&r->reader, &m, NULL), 0);
	assert_int_equal(m->count, 1);
	assert_int_equal(fsm_changes_next(r->f, &pos, &c), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(r->f, 1, &pos), ERR_NOTFOUND);
	assert_int_equal(fsm_changes_seek(r->f, 2, &pos), 0);
	assert_int_equal(do_create(r, "new", ID1, 3), 0);
	assert_int_equal(fsm_changes_next(r->f, &pos, &c), 0);
	assert_string_equal(c.key.p, "new");
	fsm_changes_leave(&pos);
	/* what is no image, or a newer one, changes nothing */
	copy_to(r, path);
	assert_int_equal(truncate(path, 9000), 0);
	assert_int_equal(fsm_replace(r->f, path, &r->err), ERR_CORRUPT);
	fsm_read_end(&r->reader);
	assert_true(topic_there(r, "new", &t));
	assert_int_equal(fsm_generation(r->f), 1);
}

/* Large batches are cut at 512 entries and at 2 MiB; each piece is one transaction. */
static void test_batches_are_cut(void **state)
{
	struct rig *r = *state;
	enum { N = 1100 };
	struct fsm_result *results = mem_alloc(N * sizeof(*results));
	struct entry *entries = mem_zalloc(N * sizeof(*entries));
	struct fsm_applied a;
	for (int i = 0; i < N; i++)
		entries[i] = (struct entry){ .index = ++r->index, .term = 1, .kind = ENTRY_NOOP };
	assert_int_equal(fsm_get_applied(rig_read(r), &a), 0);
	const uint64_t first = a.txn_id;
	assert_int_equal(fsm_apply(r->f, entries, N, results, &r->err), 0);
	assert_int_equal(fsm_get_applied(rig_read(r), &a), 0);
	assert_int_equal(a.index, N);
	assert_int_equal(a.txn_id, first + 3);

	struct slab *slab = slab_new(1u << 20);
	memset(slab->data, 0, 1u << 20);
	for (int i = 0; i < 5; i++)
		entries[i] = (struct entry){ .index = ++r->index,
			                     .term = 1,
			                     .kind = ENTRY_COMMAND,
			                     .len = 1u << 20,
			                     .data = slab->data,
			                     .slab = slab };
	slab->data[0] = ENTRY_VERSION;
	assert_int_equal(fsm_apply(r->f, entries, 5, results, &r->err), 0);
	for (int i = 0; i < 5; i++)
		assert_int_equal(results[i].refusal, FSM_UNDECODABLE);
	assert_int_equal(fsm_get_applied(rig_read(r), &a), 0);
	assert_int_equal(a.txn_id, first + 6);
	slab_unref(slab);
	mem_free(entries);
	mem_free(results);
}

/* A store for one sitting: begins at the index it is told, and leaves nothing behind. */
static void test_scratch_begins_anywhere(void **state)
{
	struct rig *r = *state;
	char path[128];
	struct fsm *f;
	struct fsm_result result;
	snprintf(path, sizeof(path), "%s/scratch", r->dir);
	struct fsm_options o = { .store = { .scratch = path, .map_bytes = 1u << 30 }, .start_index = 41 };
	assert_int_equal(fsm_open(&o, &f, NULL), 0);
	const struct entry e = { .index = 42, .term = 1, .kind = ENTRY_NOOP };
	assert_int_equal(fsm_apply(f, &e, 1, &result, NULL), 0);
	assert_int_equal(fsm_applied_index(f), 42);
	assert_int_equal(fsm_close(f, true, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_empty_payloads_are_consumed),
		CASE(test_undecodable_entries_are_consumed),
		CASE(test_unknown_type_stops_before_its_entry),
		CASE(test_unknown_type_behind_a_refusal_stops),
		CASE(test_lower_limit_makes_types_unknown),
		CASE(test_newer_database_is_not_opened),
		CASE(test_every_entry_records_where_it_stands),
		CASE(test_replay_skips_and_gaps_stop),
		CASE(test_configuration_is_kept),
		CASE(test_failed_commit_leaves_nothing),
		CASE(test_failed_meta_page_needs_a_restart),
		CASE(test_foreign_write_is_found),
		CASE(test_killed_apply_stands_at_a_whole_index),
		CASE(test_image_tells_where_it_stands),
		CASE(test_replace_puts_an_image_in_place),
		CASE(test_batches_are_cut),
		CASE(test_scratch_begins_anywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
