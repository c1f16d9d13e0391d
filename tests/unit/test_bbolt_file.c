/* A written file reads back; a damaged one is refused with its page. Against the real bbolt: tests/interop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "bbolt/bbolt.h"

#define RECORDS 2000
#define PAGE 1024

static int write_file(void)
{
	struct err e = { 0 };
	const int fd = memfd_create("bbolt", MFD_CLOEXEC);
	struct bbolt_writer *w = bbolt_writer_new(fd, "test", PAGE, 7);
	char key[32], value[64];
	assert_int_equal(bbolt_writer_begin_bucket(w, STR_LIT("top"), 9, &e), 0);
	for (int i = 0; i < RECORDS; i++) {
		snprintf(key, sizeof(key), "key-%06d", i);
		snprintf(value, sizeof(value), "value of %d", i);
		assert_int_equal(bbolt_writer_put(w, str_of(key), str_of(value), &e), 0);
	}
	assert_int_equal(bbolt_writer_put(w, STR_LIT("key"), STR_LIT("late"), &e), ERR_INVALID);
	bbolt_writer_free(w);
	close(fd);

	const int again = memfd_create("bbolt", MFD_CLOEXEC);
	w = bbolt_writer_new(again, "test", PAGE, 7);
	assert_int_equal(bbolt_writer_begin_bucket(w, STR_LIT("top"), 9, &e), 0);
	for (int i = 0; i < RECORDS; i++) {
		snprintf(key, sizeof(key), "key-%06d", i);
		snprintf(value, sizeof(value), "value of %d", i);
		assert_int_equal(bbolt_writer_put(w, str_of(key), str_of(value), &e), 0);
	}
	assert_int_equal(bbolt_writer_end_bucket(w, &e), 0);
	assert_int_equal(bbolt_writer_finish(w, &e), 0);
	bbolt_writer_free(w);
	return again;
}

/* How many records a walk gives, or the refusal. */
static int walk(int fd, unsigned *records, struct err *e)
{
	struct bbolt_file *f;
	struct bbolt_item it;
	*records = 0;
	int rc = bbolt_open_fd(dup(fd), "test", &f, e);
	if (rc)
		return rc;
	struct bbolt_walk *w = bbolt_walk_new(f);
	while ((rc = bbolt_walk_next(w, &it, e)) == 0 && it.event != BBOLT_END)
		*records += it.event == BBOLT_RECORD;
	if (rc == 0)
		assert_int_equal(bbolt_walk_lost_pages(w), 0);
	bbolt_walk_free(w);
	bbolt_close(f);
	return rc;
}

static void test_file_reads_back(void **state)
{
	struct err e = { 0 };
	unsigned records;
	(void)state;
	const int fd = write_file();
	assert_int_equal(walk(fd, &records, &e), 0);
	assert_int_equal(records, RECORDS);
	close(fd);
}

/* Any one bit of any page's header, of its first elements, and of the metas' sums: refused, or (one meta) the other
 * page counts and everything is still there. */
static void test_file_damage_is_refused(void **state)
{
	struct err e = { 0 };
	unsigned records;
	(void)state;
	const int fd = write_file();
	const off_t len = lseek(fd, 0, SEEK_END);
	for (off_t page = 0; page < len; page += PAGE) {
		for (off_t at = page; at < page + 32; at++) {
			uint8_t was, is;
			assert_int_equal(pread(fd, &was, 1, at), 1);
			is = was ^ 0x10;
			/* behind the free list's count there is nothing */
			const bool unused = page == 2 * PAGE && at >= page + 16;
			assert_int_equal(pwrite(fd, &is, 1, at), 1);
			const int rc = walk(fd, &records, &e);
			if (rc == 0 && !unused && !(page < 2 * PAGE && records == RECORDS))
				fail_msg("page %d, byte %d: not noticed", (int)(page / PAGE), (int)(at - page));
			if (rc != 0)
				assert_non_null(strstr(e.msg, "page "));
			assert_int_equal(pwrite(fd, &was, 1, at), 1);
		}
	}
	close(fd);
}

/* Cut short anywhere: refused. */
static void test_file_cut_short_is_refused(void **state)
{
	struct err e = { 0 };
	unsigned records;
	(void)state;
	const int fd = write_file();
	for (off_t len = lseek(fd, 0, SEEK_END) - 1; len > 0; len -= 777) {
		assert_int_equal(ftruncate(fd, len), 0);
		assert_int_equal(walk(fd, &records, &e), ERR_CORRUPT);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file_reads_back),
		cmocka_unit_test(test_file_damage_is_refused),
		cmocka_unit_test(test_file_cut_short_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
