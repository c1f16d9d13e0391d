/* Who may be given partitions, and when a new one is among them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/place.h"
#include "fsm/members.h"

#define S(x) STR_LIT(x)

static struct fsm_members members_of(const struct fsm_member *rows, size_t count)
{
	return (struct fsm_members){ .version = 1, .count = count, .rows = rows };
}

/* Each way in which a member comes to be one that may receive is an arrival: registering, turning alive, losing its
 * cordon or its draining, also while another leaves. Everything else is none. */
static void test_every_way_to_become_a_receiver_is_seen(void **state)
{
	(void)state;
	struct fsm_member rows[] = {
		{ .id = S("a"), .alive = true, .placeable = true },
		{ .id = S("ab"), .alive = true },
		{ .id = S("b"), .placeable = true },
		{ .id = S("c"), .alive = true, .placeable = true, .draining = true },
	};
	struct fsm_members m = members_of(rows, 4);
	struct buf seen = { 0 };

	assert_true(place_receivers_grew(&seen, &m)); /* a, where nobody was known */
	assert_false(place_receivers_grew(&seen, &m));
	rows[1].placeable = true;
	assert_true(place_receivers_grew(&seen, &m));
	rows[2].alive = true;
	assert_true(place_receivers_grew(&seen, &m));
	rows[3].draining = false;
	assert_true(place_receivers_grew(&seen, &m));
	assert_false(place_receivers_grew(&seen, &m));
	rows[0].placeable = false;
	assert_false(place_receivers_grew(&seen, &m));
	rows[0].placeable = true; /* one comes, one goes: as many as before */
	rows[3].alive = false;
	assert_true(place_receivers_grew(&seen, &m));
	rows[1].draining = true;
	rows[3].alive = true;
	assert_true(place_receivers_grew(&seen, &m));
	m = members_of(rows, 0);
	assert_false(place_receivers_grew(&seen, &m));
	m = members_of(rows, 1);
	assert_true(place_receivers_grew(&seen, &m));
	buf_fini(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_way_to_become_a_receiver_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
