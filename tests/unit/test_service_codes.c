/* The table of error codes: in order, each once, in words of one form. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "service/codes.h"

/* Sorted by status and word, which also means that none stands twice; every line has something to say, in 65 columns,
 * so that it fits a terminal beside the longest word. */
static void test_codes_are_in_order(void **state)
{
	(void)state;
	for (size_t i = 0; i < svc_code_count; i++) {
		const struct svc_code *c = &svc_codes[i];

		assert_in_range(c->status, 400, 599);
		for (const char *p = c->word; *p; p++)
			assert_true(islower((unsigned char)*p) || *p == '_');
		assert_in_range(strlen(c->meaning), 10, 65);
		assert_ptr_equal(svc_code_find(c->status, c->word), c);
		if (i == 0)
			continue;
		if (c->status < c[-1].status || (c->status == c[-1].status && strcmp(c[-1].word, c->word) >= 0))
			fail_msg("%d %s stands behind %d %s", c->status, c->word, c[-1].status, c[-1].word);
	}
	assert_null(svc_code_find(409, "no_such_code"));
	assert_null(svc_code_find(404, "topic_exists"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_codes_are_in_order) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
