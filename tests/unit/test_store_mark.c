/* fsm.mark: which file is believed, which is not, and that looking changes nothing. The boot id and the syncs are this
 * program's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "store/mark.h"
#include "store/store.h"

static const char *boot_now = "11111111-2222-3333-4444-555555555555";
static int syncs_to_fail; /* so many fdatasync calls from now on fail */
static unsigned dir_syncs;

bool store_read_boot_id(char out[STORE_BOOT_ID_SIZE])
{
	if (!boot_now)
		return false;
	memcpy(out, boot_now, STORE_BOOT_ID_SIZE);
	return true;
}

int fdatasync(int fd)
{
	if (syncs_to_fail > 0) {
		syncs_to_fail--;
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	struct stat st;
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		dir_syncs++;
	return (int)syscall(SYS_fsync, fd);
}

struct place {
	char dir[64];
	char file[96], mark[96];
};

static int place_setup(void **state)
{
	struct place *p = test_calloc(1, sizeof(*p));
	snprintf(p->dir, sizeof(p->dir), "/tmp/veena-mark-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->file, sizeof(p->file), "%s/%s", p->dir, STORE_FILE);
	snprintf(p->mark, sizeof(p->mark), "%s/%s", p->dir, STORE_MARK_FILE);
	boot_now = "11111111-2222-3333-4444-555555555555";
	syncs_to_fail = 0;
	*state = p;
	return 0;
}

static int place_teardown(void **state)
{
	struct place *p = *state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
	test_free(p);
	return 0;
}

static struct store *open_store(const struct place *p)
{
	struct store_options o = { .dir = p->dir, .map_bytes = 1u << 30 };
	struct store *s = NULL;
	struct err e = { 0 };
	if (store_open(&o, &s, &e) != 0)
		fail_msg("%s", e.msg);
	return s;
}

static void put(struct store *s, const char *key, const char *value)
{
	struct store_txn *t;
	assert_int_equal(store_begin_write(s, &t, NULL), 0);
	if (!store_is_complete(s))
		assert_int_equal(store_create_missing(t), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, str_of(key), str_of(value)), 0);
	assert_int_equal(store_commit(t, NULL), 0);
}

static void write_one(const struct place *p, bool clean)
{
	struct store *s = open_store(p);
	put(s, "orders", "{}");
	assert_int_equal(store_close(s, clean, NULL), 0);
}

static enum store_trust judge(const struct place *p)
{
	struct store_verdict v;
	struct err e = { 0 };
	if (store_judge(p->dir, &v, &e) != 0)
		fail_msg("%s", e.msg);
	return v.trust;
}

static void read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	buf_clear(out);
	size_t n;
	do {
		n = fread(buf_reserve(out, 65536), 1, 65536, f);
		buf_advance(out, n);
	} while (n > 0);
	fclose(f);
}

static void write_file(const char *path, const void *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* Nothing there, or a file of no bytes, is "absent": nothing was ever committed, whatever a mark says. */
static void test_judge_calls_nothing_absent(void **state)
{
	struct place *p = *state;
	assert_int_equal(judge(p), STORE_ABSENT);
	write_file(p->file, "", 0);
	assert_int_equal(judge(p), STORE_ABSENT);
	write_one(p, true);
	assert_int_equal(judge(p), STORE_TRUSTED);
}

/* A clean close is believed in every later boot and from any inode: a copied directory is as good. */
static void test_judge_believes_a_clean_close(void **state)
{
	struct place *p = *state;
	struct buf bytes = { 0 };
	write_one(p, true);
	boot_now = "99999999-2222-3333-4444-555555555555";
	assert_int_equal(judge(p), STORE_TRUSTED);
	boot_now = NULL;
	assert_int_equal(judge(p), STORE_TRUSTED);
	read_file(p->file, &bytes);
	assert_int_equal(unlink(p->file), 0);
	write_file(p->file, bytes.data, bytes.len);
	assert_int_equal(judge(p), STORE_TRUSTED);
	buf_fini(&bytes);
}

/* A killed process leaves a dirty mark: believed in this boot only, and for this very file only. */
static void test_judge_believes_a_dirty_file_in_its_boot(void **state)
{
	struct place *p = *state;
	struct buf bytes = { 0 };
	write_one(p, false);
	assert_int_equal(judge(p), STORE_TRUSTED);
	boot_now = "99999999-2222-3333-4444-555555555555";
	assert_int_equal(judge(p), STORE_UNTRUSTED);
	boot_now = NULL;
	assert_int_equal(judge(p), STORE_UNTRUSTED);
	boot_now = "11111111-2222-3333-4444-555555555555";
	read_file(p->file, &bytes);
	char copy[128];
	snprintf(copy, sizeof(copy), "%s.copy", p->file);
	write_file(copy, bytes.data, bytes.len);
	assert_int_equal(rename(copy, p->file), 0);
	assert_int_equal(judge(p), STORE_UNTRUSTED);
	buf_fini(&bytes);
}

/* A commit by anybody who does not keep the mark moves the transaction id past it. */
static void test_judge_sees_a_foreign_commit(void **state)
{
	struct place *p = *state;
	struct buf mark = { 0 };
	write_one(p, true);
	read_file(p->mark, &mark);
	write_one(p, true);
	write_file(p->mark, mark.data, mark.len);
	assert_int_equal(judge(p), STORE_UNTRUSTED);
	buf_fini(&mark);
}

/* Each single damaged byte of a mark, a mark cut anywhere, and no mark: untrusted. */
static void test_judge_refuses_a_damaged_mark(void **state)
{
	struct place *p = *state;
	struct buf mark = { 0 };
	for (int clean = 0; clean < 2; clean++) {
		write_one(p, clean);
		read_file(p->mark, &mark);
		for (size_t i = 0; i < mark.len; i++) {
			mark.data[i] ^= 0x04;
			write_file(p->mark, mark.data, mark.len);
			assert_int_equal(judge(p), STORE_UNTRUSTED);
			mark.data[i] ^= 0x04;
			write_file(p->mark, mark.data, i);
			assert_int_equal(judge(p), STORE_UNTRUSTED);
		}
		assert_int_equal(unlink(p->mark), 0);
		assert_int_equal(judge(p), STORE_UNTRUSTED);
		write_file(p->mark, mark.data, mark.len);
		assert_int_equal(judge(p), STORE_TRUSTED);
	}
	buf_fini(&mark);
}

/* A file shorter than its pages, one that is no database, a directory in its place: untrusted, and never opened. */
static void test_judge_measures_the_file(void **state)
{
	struct place *p = *state;
	struct buf bytes = { 0 };
	struct store_file_info info;
	write_one(p, true);
	assert_int_equal(store_read_file_info(p->file, &info, NULL), 0);
	read_file(p->file, &bytes);
	const size_t need = (size_t)(info.last_page + 1) * info.page_size;
	assert_true(need <= bytes.len);
	const size_t cuts[] = { 1, 15, 200, info.page_size, info.page_size + 100, 2 * info.page_size, need - 1 };
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		assert_int_equal(truncate(p->file, (off_t)cuts[i]), 0);
		assert_int_equal(judge(p), STORE_UNTRUSTED);
		write_file(p->file, bytes.data, bytes.len);
	}
	assert_int_equal(judge(p), STORE_TRUSTED);
	memset(bytes.data, 'x', bytes.len);
	write_file(p->file, bytes.data, bytes.len);
	assert_int_equal(judge(p), STORE_UNTRUSTED);
	assert_int_equal(unlink(p->file), 0);
	assert_int_equal(mkdir(p->file, 0700), 0);
	assert_int_equal(judge(p), STORE_UNTRUSTED);
	buf_fini(&bytes);
}

/* An untrusted file is refused without a byte of it, its mark or its directory being changed. */
static void test_open_leaves_an_untrusted_file_alone(void **state)
{
	struct place *p = *state;
	struct buf before = { 0 }, after = { 0 };
	struct store *s = NULL;
	struct err e = { 0 };
	write_one(p, false);
	char lock[128];
	snprintf(lock, sizeof(lock), "%s/%s", p->dir, STORE_LOCK_FILE);
	assert_int_equal(unlink(lock), 0);
	boot_now = "99999999-2222-3333-4444-555555555555";
	read_file(p->file, &before);
	struct store_options o = { .dir = p->dir, .map_bytes = 1u << 30 };
	assert_int_equal(store_open(&o, &s, &e), ERR_CORRUPT);
	assert_null(s);
	assert_non_null(strstr(e.msg, "earlier boot"));
	read_file(p->file, &after);
	assert_int_equal(before.len, after.len);
	assert_memory_equal(before.data, after.data, before.len);
	assert_int_equal(access(lock, F_OK), -1);
	buf_fini(&before);
	buf_fini(&after);
}

/* Opening and closing a trusted file without a commit leaves file and mark as they were. */
static void test_open_changes_nothing_before_a_commit(void **state)
{
	struct place *p = *state;
	struct buf file = { 0 }, mark = { 0 }, now = { 0 };
	write_one(p, true);
	read_file(p->file, &file);
	read_file(p->mark, &mark);
	for (int clean = 0; clean < 2; clean++) {
		struct store *s = open_store(p);
		struct store_txn *t;
		struct str v;
		assert_int_equal(store_begin_read(s, &t, NULL), 0);
		assert_int_equal(store_get(t, STORE_TOPICS, STR_LIT("orders"), &v), 0);
		store_abort(t);
		assert_int_equal(store_close(s, clean, NULL), 0);
		read_file(p->file, &now);
		assert_int_equal(now.len, file.len);
		assert_memory_equal(now.data, file.data, file.len);
		read_file(p->mark, &now);
		assert_int_equal(now.len, mark.len);
		assert_memory_equal(now.data, mark.data, mark.len);
	}
	buf_fini(&file);
	buf_fini(&mark);
	buf_fini(&now);
}

/* What a killed process left is marked clean by the next orderly close, also when that one wrote nothing. */
static void test_close_after_a_kill_is_clean(void **state)
{
	struct place *p = *state;
	write_one(p, false);
	assert_int_equal(store_close(open_store(p), false, NULL), 0);
	assert_int_equal(store_close(open_store(p), true, NULL), 0);
	boot_now = "99999999-2222-3333-4444-555555555555";
	assert_int_equal(judge(p), STORE_TRUSTED);
}

/* The dirty mark stands, durable, before the first write transaction of a run is given out. */
static void test_mark_is_dirty_before_the_first_commit(void **state)
{
	struct place *p = *state;
	struct buf mark = { 0 };
	struct store_txn *t;
	write_one(p, true);
	struct store *s = open_store(p);
	const unsigned before = dir_syncs;
	assert_int_equal(store_begin_write(s, &t, NULL), 0);
	assert_int_equal(dir_syncs, before + 1);
	read_file(p->mark, &mark);
	assert_non_null(strstr(buf_cstr(&mark), " dirty boot=11111111-"));
	store_abort(t);
	assert_int_equal(store_close(s, true, NULL), 0);
	read_file(p->mark, &mark);
	assert_non_null(strstr(buf_cstr(&mark), " clean txn="));
	buf_fini(&mark);
}

/* A failed sync is final: no mark, no more writes, and no later start believes the file. */
static void test_sync_failure_removes_the_mark(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct err e = { 0 };
	struct store *s = open_store(p);
	put(s, "orders", "{}");
	assert_int_equal(store_sync(s, NULL), 0);
	syncs_to_fail = 1;
	assert_int_equal(store_sync(s, &e), ERR_IO);
	assert_int_equal(access(p->mark, F_OK), -1);
	assert_int_equal(store_begin_write(s, &t, &e), ERR_IO);
	assert_int_equal(store_sync(s, &e), ERR_IO);
	assert_int_equal(store_close(s, true, &e), ERR_IO);
	assert_int_equal(access(p->mark, F_OK), -1);
	assert_int_equal(judge(p), STORE_UNTRUSTED);
}

/* A close whose sync fails leaves the file unmarked. */
static void test_close_failure_is_not_clean(void **state)
{
	struct place *p = *state;
	struct err e = { 0 };
	struct store *s = open_store(p);
	put(s, "orders", "{}");
	syncs_to_fail = 1;
	assert_int_equal(store_close(s, true, &e), ERR_IO);
	assert_int_equal(judge(p), STORE_UNTRUSTED);
}

/* With --sync fsm the commit itself is synced, and its failure is the commit's. */
static void test_synced_commits_report_their_failure(void **state)
{
	struct place *p = *state;
	struct store_options o = { .dir = p->dir, .map_bytes = 1u << 30, .sync_commits = true };
	struct store *s;
	struct store_txn *t;
	struct err e = { 0 };
	assert_int_equal(store_open(&o, &s, NULL), 0);
	put(s, "orders", "{}");
	assert_int_equal(store_begin_write(s, &t, NULL), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("orders"), STR_LIT("{1}")), 0);
	syncs_to_fail = 1;
	assert_int_equal(store_commit(t, &e), ERR_IO);
	assert_int_equal(store_close(s, false, NULL), 0);
}

/* Setting aside keeps one slot, overwritten, and leaves nothing that a new file could be mistaken by. */
static void test_set_aside_overwrites_its_slot(void **state)
{
	struct place *p = *state;
	char stale[128];
	struct buf first = { 0 }, second = { 0 };
	snprintf(stale, sizeof(stale), "%s/%s", p->dir, STORE_STALE_FILE);
	write_one(p, false);
	read_file(p->file, &first);
	assert_int_equal(store_set_aside(p->dir, NULL), 0);
	assert_int_equal(judge(p), STORE_ABSENT);
	assert_int_equal(access(p->mark, F_OK), -1);
	read_file(stale, &second);
	assert_int_equal(first.len, second.len);
	write_one(p, true);
	assert_int_equal(store_set_aside(p->dir, NULL), 0);
	assert_int_equal(judge(p), STORE_ABSENT);
	write_one(p, true);
	assert_int_equal(judge(p), STORE_TRUSTED);
	buf_fini(&first);
	buf_fini(&second);
}

/* The offsets read with pread are LMDB's: the id and the last page follow its own over many commits. */
static void test_file_info_agrees_with_the_library(void **state)
{
	struct place *p = *state;
	struct store *s = open_store(p);
	for (int i = 0; i < 40; i++) {
		char key[32];
		struct store_file_info info;
		struct store_space space;
		struct store_txn *t;
		snprintf(key, sizeof(key), "topic-%d", i);
		put(s, key, "0123456789012345678901234567890123456789012345678901234567890123456789");
		assert_int_equal(store_begin_read(s, &t, NULL), 0);
		assert_int_equal(store_read_file_info(p->file, &info, NULL), 0);
		assert_int_equal(info.txn_id, store_txn_id(t));
		store_get_space(s, &space);
		assert_int_equal((info.last_page + 1) * info.page_size, space.file_bytes);
		store_abort(t);
	}
	assert_int_equal(store_close(s, false, NULL), 0);
}

/* Twenty processes die at a random point between commits: each next start finds the file trusted and whole. */
static void test_killed_process_loses_nothing(void **state)
{
	struct place *p = *state;
	write_one(p, false);
	for (int round = 0; round < 20; round++) {
		int pipes[2];
		uint32_t acknowledged = 0;
		assert_int_equal(pipe(pipes), 0);
		pid_t pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct store *s = open_store(p);
			for (uint32_t i = 1;; i++) {
				char value[16];
				snprintf(value, sizeof(value), "%u", i);
				put(s, "counter", value);
				if (write(pipes[1], &i, sizeof(i)) != sizeof(i))
					_exit(1);
			}
		}
		close(pipes[1]);
		for (int i = 0; i <= round; i++)
			assert_int_equal(read(pipes[0], &acknowledged, sizeof(acknowledged)), sizeof(acknowledged));
		assert_int_equal(kill(pid, SIGKILL), 0);
		while (read(pipes[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged))
			;
		close(pipes[0]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		assert_int_equal(judge(p), STORE_TRUSTED);
		struct store *s = open_store(p);
		struct store_txn *t;
		struct str v;
		assert_int_equal(store_begin_read(s, &t, NULL), 0);
		assert_int_equal(store_get(t, STORE_TOPICS, STR_LIT("counter"), &v), 0);
		assert_true(v.len < 16);
		char text[16] = { 0 };
		memcpy(text, v.p, v.len);
		assert_true(strtoul(text, NULL, 10) >= acknowledged);
		store_abort(t);
		assert_int_equal(store_close(s, false, NULL), 0);
	}
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_judge_calls_nothing_absent),
		CASE(test_judge_believes_a_clean_close),
		CASE(test_judge_believes_a_dirty_file_in_its_boot),
		CASE(test_judge_sees_a_foreign_commit),
		CASE(test_judge_refuses_a_damaged_mark),
		CASE(test_judge_measures_the_file),
		CASE(test_open_leaves_an_untrusted_file_alone),
		CASE(test_open_changes_nothing_before_a_commit),
		CASE(test_close_after_a_kill_is_clean),
		CASE(test_mark_is_dirty_before_the_first_commit),
		CASE(test_sync_failure_removes_the_mark),
		CASE(test_close_failure_is_not_clean),
		CASE(test_synced_commits_report_their_failure),
		CASE(test_set_aside_overwrites_its_slot),
		CASE(test_file_info_agrees_with_the_library),
		CASE(test_killed_process_loses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
