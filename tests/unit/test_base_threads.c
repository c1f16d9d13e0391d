/* Queues, wake-ups, the work pool and the log under real threads: nothing lost, nothing doubled, nobody sleeps for
 * ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/queue.h"
#include "base/wake.h"

#define PRODUCERS 3u
#define PER_PRODUCER 20000u

struct producer {
	struct queue *queue;
	uint32_t id;
};

static void *produce(void *arg)
{
	const struct producer *p = arg;
	for (uint32_t i = 0; i < PER_PRODUCER; i++) {
		const uint32_t item[2] = { p->id, i };
		while (!queue_put(p->queue, item))
			sched_yield();
	}
	return NULL;
}

/* Three producers and a sleeping consumer over a small ring: each producer's items arrive once and in order. */
static void test_queue_loses_and_doubles_nothing(void **state)
{
	(void)state;
	struct wake wake;
	wake_init(&wake);
	struct queue *q = queue_new(64, sizeof(uint32_t[2]), &wake);
	pthread_t threads[PRODUCERS];
	struct producer producers[PRODUCERS];
	for (uint32_t i = 0; i < PRODUCERS; i++) {
		producers[i] = (struct producer){ q, i };
		assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
	}
	uint32_t next[PRODUCERS] = { 0 };
	uint64_t taken = 0;
	while (taken < (uint64_t)PRODUCERS * PER_PRODUCER) {
		uint32_t item[2];
		while (queue_take(q, item)) {
			assert_true(item[0] < PRODUCERS);
			assert_int_equal(item[1], next[item[0]]);
			next[item[0]]++;
			taken++;
		}
		wake_prepare(&wake);
		if (queue_is_empty(q) && taken < (uint64_t)PRODUCERS * PER_PRODUCER)
			wake_wait(&wake, 10000);
		wake_clear(&wake);
	}
	for (uint32_t i = 0; i < PRODUCERS; i++)
		pthread_join(threads[i], NULL);
	assert_true(queue_is_empty(q));
	queue_free(q);
	wake_fini(&wake);
}

/* A full queue says so and takes the next item only after one was taken. */
static void test_queue_is_bounded(void **state)
{
	(void)state;
	struct queue *q = queue_new(4, sizeof(int), NULL);
	int v;
	for (int lap = 0; lap < 3; lap++) {
		for (int i = 0; i < 4; i++)
			assert_true(queue_put(q, &i));
		assert_int_equal(queue_len(q), 4);
		assert_false(queue_put(q, &(int){ 9 }));
		for (int i = 0; i < 4; i++) {
			assert_true(queue_take(q, &v));
			assert_int_equal(v, i);
		}
		assert_false(queue_take(q, &v));
	}
	queue_free(q);
	queue_free(NULL);
}

/* Nobody is told while awake: the signal costs a write only after wake_prepare, and then it is never lost. */
static void test_wake_is_kept_until_looked_at(void **state)
{
	(void)state;
	struct wake w;
	wake_init(&w);
	wake_signal(&w);
	wake_prepare(&w);
	wake_signal(&w);
	wake_wait(&w, -1); /* would block for ever if the signal were lost */
	wake_clear(&w);
	wake_prepare(&w);
	wake_clear(&w);
	wake_signal(NULL);
	wake_fini(&w);
}

struct counting_job {
	struct job job;
	_Atomic unsigned *count;
};

static void count_run(struct job *j)
{
	struct counting_job *c = CONTAINER_OF(j, struct counting_job, job);
	atomic_fetch_add(c->count, 1);
}

static void *pool_main(void *arg)
{
	struct pool *p = arg;
	while (pool_wait(p, -1)) {
		while (pool_turn(p))
			;
	}
	return NULL;
}

/* Every job runs once, those queued before the close included. */
static void test_pool_runs_every_job_once(void **state)
{
	(void)state;
	struct pool *p = pool_new();
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, pool_main, p), 0);
	static struct counting_job jobs[5000];
	_Atomic unsigned count = 0;
	for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
		jobs[i] = (struct counting_job){ .job = { .run = count_run }, .count = &count };
		pool_submit(p, &jobs[i].job);
	}
	pool_close(p);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(count, ARRAY_LEN(jobs));
	assert_false(pool_turn(p));
	pool_free(p);
}

/* Without jobs a wait ends by its time. */
static void test_pool_wait_times_out(void **state)
{
	(void)state;
	struct pool *p = pool_new();
	assert_true(pool_wait(p, 1));
	pool_close(p);
	assert_false(pool_wait(p, -1));
	pool_free(p);
}

static char last_line[2048];

static void keep_line(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	strncpy(last_line, line, sizeof(last_line) - 1);
}

/* A line has its level, event and pairs; JSON lines stay one line; a long one is cut and ended. */
static void test_log_lines_have_their_form(void **state)
{
	(void)state;
	log_set_sink(keep_line, NULL);
	log_configure(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_set_node("n1");
	log_info("peer.up", "peer=%s", "n2");
	assert_non_null(strstr(last_line, "info  peer.up node=n1 peer=n2\n"));
	log_debug("not.shown", "x=1");
	assert_null(strstr(last_line, "not.shown"));
	log_configure(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON);
	log_debug("quoted", "v=%s", "\"a\nb\"");
	assert_non_null(strstr(last_line, "\"event\":\"quoted\""));
	assert_non_null(strstr(last_line, "v=\\\"a\\u000ab\\\""));
	char big[3000];
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	log_configure(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_warn("big", "%s", big);
	assert_string_equal(last_line + strlen(last_line) - 4, "...\n");
	log_set_sink(NULL, NULL);
	log_set_node("");
}

/* A limiter lets the first line through and counts what it holds back. */
static void test_log_limit_counts(void **state)
{
	(void)state;
	struct log_limit l = { 0 };
	assert_true(log_allow(&l, 60000));
	assert_false(log_allow(&l, 60000));
	assert_false(log_allow(&l, 60000));
	assert_int_equal(l.skipped, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queue_loses_and_doubles_nothing),
		cmocka_unit_test(test_queue_is_bounded),
		cmocka_unit_test(test_wake_is_kept_until_looked_at),
		cmocka_unit_test(test_pool_runs_every_job_once),
		cmocka_unit_test(test_pool_wait_times_out),
		cmocka_unit_test(test_log_lines_have_their_form),
		cmocka_unit_test(test_log_limit_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
