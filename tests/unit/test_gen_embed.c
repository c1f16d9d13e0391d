/* The files a program carries are the files of the tree, byte for byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/embed.h"

/* Quotes, backslashes, trigraphs, bytes beyond ASCII: what a generator of string literals gets wrong. */
static void test_files_are_carried_byte_for_byte(void **state)
{
	(void)state;
	for (size_t i = 0; i < embedded_file_count; i++) {
		const struct embedded_file *e = &embedded_files[i];
		char *bytes = malloc(e->len + 2);
		FILE *f = fopen(e->name, "rb");

		assert_non_null(f);
		assert_non_null(bytes);
		assert_int_equal(fread(bytes, 1, e->len + 2, f), e->len);
		assert_memory_equal(bytes, e->data, e->len);
		assert_int_equal(e->data[e->len], '\0');
		fclose(f);
		free(bytes);
	}
}

/* In byte order, each once: whoever looks one up may search by halves. */
static void test_files_are_sorted(void **state)
{
	(void)state;
	for (size_t i = 1; i < embedded_file_count; i++)
		assert_true(strcmp(embedded_files[i - 1].name, embedded_files[i].name) < 0);
}

/* --version has something to say. */
static void test_version_is_there(void **state)
{
	(void)state;
	assert_true(strlen(embedded_version) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files_are_carried_byte_for_byte),
		cmocka_unit_test(test_files_are_sorted),
		cmocka_unit_test(test_version_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
