/* How fresh an answer is: strong reads, bounded age, the barrier. */
#include "service_world.h"

static struct answered a;

static void run(const struct svc_request *rq, struct answered *to)
{
	memset(to, 0, sizeof(*to));
	svc_run(world.svc[0], rq, on_done, to);
}

static struct svc_request strong_read(const char *topic)
{
	struct svc_request rq = request_of(topic ? SVC_TOPIC_GET : SVC_TOPIC_LIST, topic, NULL);

	rq.strong = true;
	return rq;
}

/* A strong read is answered at the index a majority confirmed, never before this replica has applied it. */
static void test_strong_read_waits_for_its_index(void **state)
{
	struct svc_request rq = strong_read("t");

	(void)state;
	run(&rq, &a);
	turn();
	assert_int_equal(a.count, 0);
	assert_int_equal(world.read_count, 1);
	answer_read(0, world.index + 1);
	assert_int_equal(a.count, 0);
	make_topic("t");
	turn();
	assert_answer(&a, 200, "");
	assert_int_equal(a.index, world.index);
}

/* With min_index too: the higher of both. */
static void test_strong_read_takes_the_higher_index(void **state)
{
	struct svc_request rq = strong_read(NULL);

	(void)state;
	rq.min_index = world.index + 1;
	run(&rq, &a);
	answer_read(0, world.index);
	assert_int_equal(a.count, 0);
	add_member("n2", true);
	turn();
	assert_answer(&a, 200, "");
	assert_int_equal(a.index, world.index);
}

/* What cannot be confirmed is 503, whatever is missing; nothing local stands in for it. */
static void test_unconfirmed_strong_read_is_refused(void **state)
{
	static const struct {
		int code;
		const char *word;
	} rows[] = { { ERR_NOT_LEADER, "no_leader" },
		     { ERR_TIMEOUT, "no_leader" },
		     { ERR_STOPPED, "stopped" },
		     { ERR_FULL, "overloaded" } };
	struct svc_request rq = strong_read(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		run(&rq, &a);
		answer_read(rows[i].code, 0);
		assert_answer(&a, 503, rows[i].word);
		assert_int_equal(a.retry_after_s, 1);
		assert_null(strstr(a.body, "outcome")); /* it was no write */
	}
	world.queue_full = true;
	run(&rq, &a);
	assert_answer(&a, 503, "overloaded");
	world.queue_full = false;
	run(&rq, &a);
	svc_turn(world.svc[0], clock_mono_ms() + 5100);
	assert_answer(&a, 503, "no_leader");
	answer_read(0, world.index); /* late: nobody is answered twice */
	assert_int_equal(a.count, 1);
	run(&rq, &a);
	answer_read(0, world.index + 1);
	svc_turn(world.svc[0], clock_mono_ms() + 5100);
	assert_answer(&a, 503, "behind");
}

/* A node without a configuration costs the cluster no round. */
static void test_hopeless_strong_read_asks_nobody(void **state)
{
	struct svc_request rq = strong_read(NULL);

	(void)state;
	world.status.configured = false;
	world.version++;
	run(&rq, &a);
	assert_answer(&a, 503, "not_ready");
	assert_int_equal(world.read_count, 0);
}

/* max_age_ms: by the last contact with the leader; a node that never caught up does not know how old it is. */
static void test_max_age_bounds_the_contact(void **state)
{
	struct svc_request rq = request_of(SVC_TOPIC_LIST, NULL, NULL);

	(void)state;
	rq.has_max_age = true;
	rq.max_age_ms = 100;
	world.contact_ms = 100;
	world.caught_up = false;
	run(&rq, &a);
	assert_answer(&a, 503, "stale");
	assert_holds(&a, "not caught up since its start");
	world.caught_up = true;
	run(&rq, &a);
	assert_answer(&a, 200, "");
	world.contact_ms = 101;
	run(&rq, &a);
	assert_answer(&a, 503, "stale");
	assert_holds(&a, "101 ms ago, more than the 100 ms");
	assert_int_equal(a.retry_after_s, 1);
	world.contact_ms = -1;
	rq.max_age_ms = UINT64_MAX;
	run(&rq, &a);
	assert_answer(&a, 503, "stale");
	/* A strong read is judged when it is answered, too. */
	rq.strong = true;
	rq.max_age_ms = 0;
	world.contact_ms = 0;
	run(&rq, &a);
	world.contact_ms = 1;
	answer_read(0, world.index);
	assert_answer(&a, 503, "stale");
}

/* A barrier is the read index, once it is applied here. */
static void test_barrier(void **state)
{
	char want[64];

	(void)state;
	ask(SVC_BARRIER, NULL, NULL, &a);
	answer_read(0, world.index + 1);
	assert_int_equal(a.count, 0);
	add_member("n2", true);
	turn();
	assert_answer(&a, 200, "");
	snprintf(want, sizeof(want), "{\"index\":%d}\n", (int)world.index);
	assert_string_equal(a.body, want);

	ask(SVC_BARRIER, NULL, NULL, &a);
	answer_read(ERR_NOT_LEADER, 0);
	assert_answer(&a, 503, "no_leader");
	/* Given up; the late answer finds nobody, and its slot comes back. */
	ask(SVC_BARRIER, NULL, NULL, &a);
	svc_turn(world.svc[0], clock_mono_ms() + 5100);
	assert_answer(&a, 503, "no_leader");
	answer_read(0, world.index);
	assert_int_equal(a.count, 1);
	for (int i = 0; i < 40; i++) {
		ask(SVC_BARRIER, NULL, NULL, &a);
		answer_read(0, world.index);
		assert_answer(&a, 200, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_strong_read_waits_for_its_index),    CASE(test_strong_read_takes_the_higher_index),
		CASE(test_unconfirmed_strong_read_is_refused), CASE(test_hopeless_strong_read_asks_nobody),
		CASE(test_max_age_bounds_the_contact),         CASE(test_barrier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
