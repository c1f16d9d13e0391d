/* The parser against the public suite of tests/data/json. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/json.h"

#define SUITE "tests/data/json"
#define SUITE_FILES 318

static void read_file(const char *name, struct buf *out)
{
	char path[512];
	(void)snprintf(path, sizeof(path), SUITE "/%s", name);
	FILE *f = fopen(path, "rb");
	assert_non_null(f);
	size_t n;
	do {
		n = fread(buf_reserve(out, 65536), 1, 65536, f);
		buf_advance(out, n);
	} while (n);
	assert_int_equal(ferror(f), 0);
	(void)fclose(f);
}

/* Parses a whole text; a hash of all that was reported goes to *seen. */
static bool accepts(struct str text, size_t depth, uint64_t *seen)
{
	struct json_reader r;
	json_reader_init(&r, text, depth);
	*seen = 1469598103934665603u;
	for (;;) {
		const enum json_event ev = json_next(&r);
		*seen = (*seen ^ (uint64_t)ev) * 1099511628211u;
		*seen = (*seen ^ r.pos) * 1099511628211u;
		if (ev == JSON_ERROR) {
			assert_non_null(r.error);
			assert_true(r.error_pos <= text.len);
			assert_int_equal(json_next(&r), JSON_ERROR); /* it stays failed */
			return false;
		}
		if (ev == JSON_END)
			return true;
	}
}

/* What the suite leaves open, we refuse, except that the range of numbers is not the parser's matter. */
static bool open_case_is_accepted(const char *name)
{
	return strncmp(name, "i_number_", 9) == 0;
}

/* Every y_ is accepted, every n_ refused, every i_ decided as documented, and each the same every time. */
static void test_suite_is_kept(void **state)
{
	(void)state;
	DIR *dir = opendir(SUITE);
	if (!dir)
		fail_msg("run this from the top of the tree: no " SUITE);
	int files = 0;
	struct buf text = { 0 };
	for (struct dirent *d = readdir(dir); d; d = readdir(dir)) {
		if (!strstr(d->d_name, ".json"))
			continue;
		files++;
		buf_clear(&text);
		read_file(d->d_name, &text);
		const struct str s = { (const char *)text.data, text.len };
		uint64_t first;
		uint64_t again;
		const bool ok = accepts(s, JSON_DEPTH_DEFAULT, &first);
		assert_true(accepts(s, JSON_DEPTH_DEFAULT, &again) == ok);
		assert_true(first == again);
		bool expected = d->d_name[0] == 'y';
		if (d->d_name[0] == 'i')
			expected = open_case_is_accepted(d->d_name);
		if (ok != expected)
			fail_msg("%s: %s", d->d_name, ok ? "accepted" : "refused");
	}
	buf_fini(&text);
	(void)closedir(dir);
	assert_int_equal(files, SUITE_FILES);
}

/* The 500 nested arrays of the suite pass under a limit that allows them, and fail one below. */
static void test_depth_is_the_callers(void **state)
{
	(void)state;
	struct buf text = { 0 };
	read_file("i_structure_500_nested_arrays.json", &text);
	const struct str s = { (const char *)text.data, text.len };
	uint64_t seen;
	assert_true(accepts(s, 500, &seen));
	assert_false(accepts(s, 499, &seen));
	buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_suite_is_kept),
		cmocka_unit_test(test_depth_is_the_callers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
