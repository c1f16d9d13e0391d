/* The store's transactions, records, cursors, images and room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rand.h"
#include "store/mark.h"
#include "store/store.h"
#include "store/store_internal.h"

struct place {
	char dir[64];
	struct store *s;
};

static struct store *open_with(const char *dir, uint64_t map_bytes, uint64_t limit_bytes)
{
	struct store_options o = { .dir = dir, .map_bytes = map_bytes, .limit_bytes = limit_bytes };
	struct store_txn *t;
	struct store *s = NULL;
	struct err e = { 0 };
	if (store_open(&o, &s, &e) != 0)
		fail_msg("%s", e.msg);
	if (!store_is_complete(s)) {
		assert_int_equal(store_begin_write(s, &t, NULL), 0);
		assert_int_equal(store_create_missing(t), 0);
		assert_int_equal(store_commit(t, NULL), 0);
	}
	assert_true(store_is_complete(s));
	return s;
}

static int place_setup(void **state)
{
	struct place *p = test_calloc(1, sizeof(*p));
	snprintf(p->dir, sizeof(p->dir), "/tmp/veena-store-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->s = open_with(p->dir, 0, 0);
	*state = p;
	return 0;
}

static int place_teardown(void **state)
{
	struct place *p = *state;
	char command[128];
	assert_int_equal(store_close(p->s, true, NULL), 0);
	snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
	test_free(p);
	return 0;
}

static void put(struct store *s, const char *key, const char *value)
{
	struct store_txn *t;
	assert_int_equal(store_begin_write(s, &t, NULL), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, str_of(key), str_of(value)), 0);
	assert_int_equal(store_commit(t, NULL), 0);
}

static bool has(struct store_txn *t, const char *key, const char *value)
{
	struct str v;
	int rc = store_get(t, STORE_TOPICS, str_of(key), &v);
	assert_true(rc == 0 || rc == ERR_NOTFOUND);
	return rc == 0 && str_is(v, value);
}

/* Keys of no bytes or too many are nowhere, and writing them is refused without harm to what else the caller has. */
static void test_keys_have_bounds(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct str v;
	char longest[STORE_KEY_MAX + 1];
	memset(longest, 'k', sizeof(longest));
	const struct str max = { longest, STORE_KEY_MAX }, over = { longest, STORE_KEY_MAX + 1 }, none = { "", 0 };
	assert_int_equal(store_begin_write(p->s, &t, NULL), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, max, STR_LIT("x")), 0);
	assert_int_equal(store_get(t, STORE_TOPICS, max, &v), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, over, STR_LIT("x")), ERR_INVALID);
	assert_int_equal(store_put(t, STORE_TOPICS, none, STR_LIT("x")), ERR_INVALID);
	assert_string_not_equal(store_txn_error(t)->msg, "");
	assert_int_equal(store_get(t, STORE_TOPICS, over, &v), ERR_NOTFOUND);
	assert_int_equal(store_get(t, STORE_TOPICS, none, &v), ERR_NOTFOUND);
	assert_int_equal(store_del(t, STORE_TOPICS, over), ERR_NOTFOUND);
	assert_int_equal(store_del(t, STORE_TOPICS, none), ERR_NOTFOUND);
	assert_int_equal(store_del(t, STORE_TOPICS, max), 0);
	assert_int_equal(store_del(t, STORE_TOPICS, max), ERR_NOTFOUND);
	assert_int_equal(store_put(t, STORE_X_FOLD, STR_LIT("a"), none), 0);
	assert_int_equal(store_get(t, STORE_X_FOLD, STR_LIT("a"), &v), 0);
	assert_int_equal(v.len, 0);
	assert_int_equal(store_commit(t, NULL), 0);
}

/* A child that is aborted leaves nothing, one that is committed leaves what it wrote, and the parent goes on. */
static void test_child_leaves_all_or_nothing(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	put(p->s, "kept", "before");
	assert_int_equal(store_begin_write(p->s, &t, NULL), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("a"), STR_LIT("1")), 0);
	assert_int_equal(store_begin_child(t), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("b"), STR_LIT("2")), 0);
	assert_int_equal(store_del(t, STORE_TOPICS, STR_LIT("a")), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("kept"), STR_LIT("after")), 0);
	store_abort_child(t);
	assert_true(has(t, "a", "1") && !has(t, "b", "2") && has(t, "kept", "before"));
	assert_int_equal(store_begin_child(t), 0);
	assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("c"), STR_LIT("3")), 0);
	assert_int_equal(store_commit_child(t), 0);
	assert_int_equal(store_commit(t, NULL), 0);
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	assert_true(has(t, "a", "1") && !has(t, "b", "2") && has(t, "c", "3") && has(t, "kept", "before"));
	store_abort(t);
}

/* A write transaction that is dropped half-way, child and all, never happened. */
static void test_abandoned_transaction_never_happened(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	put(p->s, "a", "1");
	for (int with_child = 0; with_child < 2; with_child++) {
		assert_int_equal(store_begin_write(p->s, &t, NULL), 0);
		assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("a"), STR_LIT("2")), 0);
		if (with_child) {
			assert_int_equal(store_begin_child(t), 0);
			assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("b"), STR_LIT("2")), 0);
		}
		store_abort(t);
		assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
		assert_true(has(t, "a", "1") && !has(t, "b", "2"));
		store_abort(t);
	}
}

/* A reader sees the state of its begin until it is renewed. */
static void test_reader_sees_one_state(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	put(p->s, "a", "1");
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	const uint64_t id = store_txn_id(t);
	put(p->s, "a", "2");
	assert_true(has(t, "a", "1"));
	assert_int_equal(store_txn_id(t), id);
	store_reset_read(t);
	assert_int_equal(store_renew_read(t, NULL), 0);
	assert_true(has(t, "a", "2"));
	assert_int_equal(store_txn_id(t), id + 1);
	store_abort(t);
	store_abort(NULL);
}

/* Cursors walk in byte order from any key, and end with ERR_NOTFOUND. */
static void test_cursor_walks_in_byte_order(void **state)
{
	struct place *p = *state;
	struct store_cursor *c;
	struct store_txn *t;
	struct str k, v;
	put(p->s, "b:10", "x");
	put(p->s, "b:2", "y");
	put(p->s, "a", "z");
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	assert_int_equal(store_cursor_open(t, STORE_TOPICS, &c), 0);
	assert_int_equal(store_cursor_seek(c, (struct str){ NULL, 0 }, &k, NULL), 0);
	assert_true(str_is(k, "a"));
	assert_int_equal(store_cursor_seek(c, STR_LIT("b:"), &k, &v), 0);
	assert_true(str_is(k, "b:10") && str_is(v, "x"));
	assert_int_equal(store_cursor_next(c, &k, NULL), 0);
	assert_true(str_is(k, "b:2"));
	assert_int_equal(store_cursor_next(c, &k, NULL), ERR_NOTFOUND);
	assert_int_equal(store_cursor_seek(c, STR_LIT("c"), &k, NULL), ERR_NOTFOUND);
	store_cursor_close(c);
	store_cursor_close(NULL);
	uint64_t n;
	assert_int_equal(store_count(t, STORE_TOPICS, &n), 0);
	assert_int_equal(n, 3);
	store_abort(t);
}

static void copy_to(struct store *s, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(store_copy(s, fd, NULL), 0);
	assert_int_equal(fsync(fd), 0);
	close(fd);
}

/* An image carries the transaction id and all that stood at the copy, opens read-only, and leaves no lock file. */
static void test_copy_is_an_image_of_one_commit(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *image;
	struct stat st;
	char path[128];
	snprintf(path, sizeof(path), "%s/fsm.snapshot-1", p->dir);
	put(p->s, "a", "1");
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	const uint64_t id = store_txn_id(t);
	store_abort(t);
	copy_to(p->s, path);
	put(p->s, "a", "2");
	assert_int_equal(store_open_image(path, &image, NULL), 0);
	assert_int_equal(store_begin_read(image, &t, NULL), 0);
	assert_int_equal(store_txn_id(t), id);
	assert_true(has(t, "a", "1"));
	store_abort(t);
	assert_int_equal(store_close(image, false, NULL), 0);
	assert_int_equal(store_copy_since_ms(p->s), 0);
	char lock[160];
	snprintf(lock, sizeof(lock), "%s-lock", path);
	assert_int_equal(stat(lock, &st), -1);
}

/* An image that is cut short anywhere, empty, absent or something else is refused, not mapped. */
static void test_image_is_measured_before_it_is_mapped(void **state)
{
	struct place *p = *state;
	struct store *image = NULL;
	struct stat st;
	char path[128];
	snprintf(path, sizeof(path), "%s/image", p->dir);
	assert_int_equal(store_open_image(path, &image, NULL), ERR_CORRUPT);
	for (int i = 0; i < 50; i++) {
		char key[32];
		snprintf(key, sizeof(key), "topic-%d", i);
		put(p->s, key, "value");
	}
	copy_to(p->s, path);
	assert_int_equal(stat(path, &st), 0);
	for (off_t cut = st.st_size - 1; cut > 0; cut = cut * 2 / 3) {
		struct err e = { 0 };
		assert_int_equal(truncate(path, cut), 0);
		assert_int_equal(store_open_image(path, &image, &e), ERR_CORRUPT);
		assert_non_null(strstr(e.msg, path));
	}
	assert_null(image);
}

/* Work of the kind that makes LMDB take pages at the end of the file and give them up again, unwritten. */
static void churn(struct store *s, struct rand *r)
{
	static char value[20000];
	struct store_txn *t;
	assert_int_equal(store_begin_write(s, &t, NULL), 0);
	for (uint64_t n = 1 + rand_below(r, 20); n > 0; n--) {
		const bool child = rand_below(r, 3) > 0;
		if (child)
			assert_int_equal(store_begin_child(t), 0);
		for (uint64_t k = 1 + rand_below(r, 5); k > 0; k--) {
			char key[32];
			snprintf(key, sizeof(key), "k%d", (int)rand_below(r, 400));
			const size_t len = rand_below(r, rand_below(r, 4) ? 300 : 12000);
			const int rc = rand_below(r, 2)
			                   ? store_put(t, STORE_TOPICS, str_of(key), (struct str){ value, len })
			                   : store_del(t, STORE_TOPICS, str_of(key));
			assert_true(rc == 0 || rc == ERR_NOTFOUND);
		}
		if (child && rand_below(r, 4))
			assert_int_equal(store_commit_child(t), 0);
		else if (child)
			store_abort_child(t);
	}
	assert_int_equal(store_commit(t, NULL), 0);
}

/* Neither the file nor an image of it ever ends before its last page: both would be taken for cut short. */
static void test_file_reaches_to_its_last_page(void **state)
{
	struct place *p = *state;
	struct store_file_info info;
	struct err e = { 0 };
	char image[128];
	char file[128];
	snprintf(image, sizeof(image), "%s/image", p->dir);
	snprintf(file, sizeof(file), "%s/%s", p->dir, STORE_FILE);
	/* New files, since it happens while a file grows; without the remedy seeds 8, 12 and 28 show it. */
	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct rand r;
		rand_seed(&r, seed);
		assert_int_equal(store_close(p->s, false, NULL), 0);
		assert_int_equal(unlink(file), 0);
		p->s = open_with(p->dir, 0, 0);
		for (int i = 0; i < 20; i++) {
			churn(p->s, &r);
			if (store_read_file_info(file, &info, &e) != 0)
				fail_msg("seed %d, commit %d: %s", (int)seed, i, e.msg);
		}
	}
	/* A copy of a file that was not yet made long enough. */
	copy_to(p->s, image);
	assert_int_equal(store_read_file_info(image, &info, &e), 0);
	const int fd = open(image, O_RDWR);
	assert_int_equal(ftruncate(fd, (off_t)info.length - 2 * (off_t)info.page_size), 0);
	assert_int_equal(store_read_file_info(image, &info, &e), ERR_CORRUPT);
	assert_true(lseek(fd, 0, SEEK_END) > 0);
	assert_int_equal(store_pad_image(fd, 0, &e), 0);
	assert_int_equal(store_read_file_info(image, &info, &e), 0);
	assert_int_equal(store_pad_image(fd, 0, &e), 0);
	close(fd);
}

/* An image put in place while nothing is open is believed; what is no image takes nobody's place. */
static void test_put_image_while_closed(void **state)
{
	struct place *p = *state;
	struct store_verdict v;
	struct store_txn *t;
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", p->dir, STORE_RESTORE_FILE);
	put(p->s, "a", "1");
	copy_to(p->s, path);
	put(p->s, "a", "2");
	assert_int_equal(store_close(p->s, false, NULL), 0);
	assert_int_equal(store_mark_remove(p->dir, NULL), 0);
	assert_int_equal(store_put_image(p->dir, path, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(store_judge(p->dir, &v, NULL), 0);
	assert_int_equal(v.trust, STORE_TRUSTED);
	p->s = open_with(p->dir, 0, 0);
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	assert_true(has(t, "a", "1"));
	store_abort(t);
	copy_to(p->s, path);
	assert_int_equal(store_close(p->s, true, NULL), 0);
	assert_int_equal(truncate(path, 5000), 0);
	assert_int_equal(store_put_image(p->dir, path, NULL), ERR_CORRUPT);
	p->s = open_with(p->dir, 0, 0);
}

/* Another image takes the store's place under the open handle, is marked clean, and takes writes. */
static void test_replace_puts_an_image_in_place(void **state)
{
	struct place *p = *state;
	struct store_verdict v;
	struct store_txn *t;
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", p->dir, STORE_RESTORE_FILE);
	put(p->s, "a", "1");
	copy_to(p->s, path);
	put(p->s, "a", "2");
	assert_int_equal(store_replace(p->s, path, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(store_judge(p->dir, &v, NULL), 0);
	assert_int_equal(v.trust, STORE_TRUSTED);
	assert_non_null(strstr(v.why, "clean"));
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	assert_true(has(t, "a", "1"));
	store_abort(t);
	put(p->s, "a", "3");
	assert_int_equal(store_judge(p->dir, &v, NULL), 0);
	assert_non_null(strstr(v.why, "this boot"));
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	assert_true(has(t, "a", "3"));
	store_abort(t);
}

/* What is not an image never takes the store's place. */
static void test_replace_refuses_what_is_no_image(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	char path[128];
	snprintf(path, sizeof(path), "%s/%s", p->dir, STORE_RESTORE_FILE);
	put(p->s, "a", "1");
	copy_to(p->s, path);
	assert_int_equal(truncate(path, 5000), 0);
	assert_int_equal(store_replace(p->s, path, NULL), ERR_CORRUPT);
	assert_int_equal(store_begin_read(p->s, &t, NULL), 0);
	assert_true(has(t, "a", "1"));
	store_abort(t);
}

/* Used bytes follow what is stored: they fall again after deletes although the file stays as long as it was. */
static void test_space_follows_what_is_stored(void **state)
{
	struct place *p = *state;
	struct store_space empty, full, after;
	struct store_txn *t;
	char key[32], value[2000];
	memset(value, 'v', sizeof(value));
	store_get_space(p->s, &empty);
	for (int i = 0; i < 2000; i++) {
		if (i % 100 == 0)
			assert_int_equal(store_begin_write(p->s, &t, NULL), 0);
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(store_put(t, STORE_TOPICS, str_of(key), (struct str){ value, sizeof(value) }), 0);
		if (i % 100 == 99)
			assert_int_equal(store_commit(t, NULL), 0);
	}
	store_get_space(p->s, &full);
	assert_true(full.used_bytes > empty.used_bytes + 2000 * sizeof(value));
	assert_true(full.file_bytes >= full.used_bytes);
	for (int i = 0; i < 2000; i++) {
		if (i % 100 == 0)
			assert_int_equal(store_begin_write(p->s, &t, NULL), 0);
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(store_del(t, STORE_TOPICS, str_of(key)), 0);
		if (i % 100 == 99)
			assert_int_equal(store_commit(t, NULL), 0);
	}
	store_get_space(p->s, &after);
	assert_true(after.used_bytes < empty.used_bytes + 64 * 4096);
	assert_true(after.file_bytes >= full.file_bytes);
	assert_true(after.limit_bytes + after.reserve_bytes <= UINT64_C(1) << 40);
}

/* A full map is ERR_FULL; the transaction is dropped, deletes within the reserve pass, and room comes back. */
static void test_full_map_recovers_by_deletes(void **state)
{
	struct place *p = *state;
	struct store_space space;
	struct store_txn *t;
	char dir[96], key[32], value[3000];
	memset(value, 'v', sizeof(value));
	snprintf(dir, sizeof(dir), "%s/small", p->dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	struct store *s = open_with(dir, 16 << 20, 0);
	int n = 0, rc = 0;
	for (store_get_space(s, &space); space.used_bytes < space.limit_bytes; store_get_space(s, &space)) {
		assert_int_equal(store_begin_write(s, &t, NULL), 0);
		snprintf(key, sizeof(key), "%d", n++);
		assert_int_equal(store_put(t, STORE_TOPICS, str_of(key), (struct str){ value, sizeof(value) }), 0);
		assert_int_equal(store_commit(t, NULL), 0);
	}
	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "%d", i);
		assert_int_equal(store_begin_write(s, &t, NULL), 0);
		assert_int_equal(store_del(t, STORE_TOPICS, str_of(key)), 0);
		assert_int_equal(store_commit(t, NULL), 0);
	}
	store_get_space(s, &space);
	assert_true(space.used_bytes < space.limit_bytes / 4);
	assert_int_equal(store_begin_write(s, &t, NULL), 0);
	for (int i = 0; rc == 0 && i < 100000; i++) {
		snprintf(key, sizeof(key), "%d", i);
		rc = store_put(t, STORE_TOPICS, str_of(key), (struct str){ value, sizeof(value) });
	}
	assert_int_equal(rc, ERR_FULL);
	store_abort(t);
	put(s, "again", "1");
	assert_int_equal(store_close(s, true, NULL), 0);
}

/* Where the address space is limited the map is halved until it fits. (A sanitizer's shadow does not fit the limit.) */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void test_map_is_halved_until_it_opens(void **state)
{
	struct place *p = *state;
	struct store_space space;
	struct rlimit old, limit;
	char dir[96];
	snprintf(dir, sizeof(dir), "%s/narrow", p->dir);
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(store_close(p->s, true, NULL), 0);
	assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
	limit = (struct rlimit){ 2ull << 30, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	struct store *s = open_with(dir, 0, 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
	store_get_space(s, &space);
	assert_in_range(space.limit_bytes + space.reserve_bytes, 512ull << 20, 2ull << 30);
	put(s, "a", "1");
	assert_int_equal(store_close(s, true, NULL), 0);
	p->s = open_with(p->dir, 0, 0);
}
#endif

/* A throw-away store leaves nothing behind and may begin as a copy of another. */
static void test_scratch_leaves_no_file(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s;
	char path[128];
	snprintf(path, sizeof(path), "%s/scratch", p->dir);
	put(p->s, "a", "1");
	copy_to(p->s, path);
	struct store_options o = { .scratch = path };
	assert_int_equal(store_open(&o, &s, NULL), 0);
	assert_int_equal(access(path, F_OK), -1);
	put(s, "b", "2");
	assert_int_equal(store_begin_read(s, &t, NULL), 0);
	assert_true(has(t, "a", "1") && has(t, "b", "2"));
	store_abort(t);
	assert_int_equal(store_close(s, true, NULL), 0);
}

struct racer {
	struct store *s;
	_Atomic bool stop;
	_Atomic unsigned rounds;
};

/* "a" and "b" are always written together: a reader that sees them differ saw half a commit. */
static void *read_pairs(void *arg)
{
	struct racer *r = arg;
	struct store_txn *t;
	struct str a, b;
	if (store_begin_read(r->s, &t, NULL) != 0)
		abort();
	while (!atomic_load(&r->stop)) {
		if (store_get(t, STORE_TOPICS, STR_LIT("a"), &a) != 0 ||
		    store_get(t, STORE_TOPICS, STR_LIT("b"), &b) != 0 || !str_eq(a, b))
			abort();
		store_reset_read(t);
		if (store_renew_read(t, NULL) != 0)
			abort();
		atomic_fetch_add(&r->rounds, 1);
	}
	store_abort(t);
	return NULL;
}

static void *sync_and_copy(void *arg)
{
	struct racer *r = arg;
	while (!atomic_load(&r->stop)) {
		int fd = open("/dev/null", O_WRONLY);
		if (store_sync(r->s, NULL) != 0 || fd < 0 || store_copy(r->s, fd, NULL) != 0)
			abort();
		close(fd);
	}
	return NULL;
}

/* Readers, syncs and copies beside a writer: whole commits only. */
static void test_readers_see_whole_commits(void **state)
{
	struct place *p = *state;
	struct racer r = { .s = p->s };
	struct store_txn *t;
	pthread_t threads[4];
	put(p->s, "a", "0");
	put(p->s, "b", "0");
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i < 3 ? read_pairs : sync_and_copy, &r), 0);
	for (int i = 0; i < 2000 || atomic_load(&r.rounds) < 2000; i++) {
		char text[300];
		memset(text, 'a' + i % 26, sizeof(text));
		const struct str v = { text, (size_t)(i % 300) };
		assert_int_equal(store_begin_write(p->s, &t, NULL), 0);
		assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("a"), v), 0);
		assert_int_equal(store_put(t, STORE_TOPICS, STR_LIT("b"), v), 0);
		assert_int_equal(store_commit(t, NULL), 0);
	}
	atomic_store(&r.stop, true);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_keys_have_bounds),
		CASE(test_child_leaves_all_or_nothing),
		CASE(test_abandoned_transaction_never_happened),
		CASE(test_reader_sees_one_state),
		CASE(test_cursor_walks_in_byte_order),
		CASE(test_copy_is_an_image_of_one_commit),
		CASE(test_image_is_measured_before_it_is_mapped),
		CASE(test_file_reaches_to_its_last_page),
		CASE(test_put_image_while_closed),
		CASE(test_replace_puts_an_image_in_place),
		CASE(test_replace_refuses_what_is_no_image),
		CASE(test_space_follows_what_is_stored),
		CASE(test_full_map_recovers_by_deletes),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		CASE(test_map_is_halved_until_it_opens),
#endif
		CASE(test_scratch_leaves_no_file),
		CASE(test_readers_see_whole_commits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
