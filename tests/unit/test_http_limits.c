/* Slow, idle, many: what a bad client can hold, and for how long. Times are short here by the server's own settings. */
#include "http_world.h"

#include <sys/resource.h>

#define REQUEST_MS 150
#define WRITE_MS 200
#define IDLE_MS 700

static int short_setup(void **state)
{
	const struct http_options o = {
		.request_ms = REQUEST_MS, .write_ms = WRITE_MS, .idle_ms = IDLE_MS, .stop_ms = 300, .connections_max = 8
	};

	(void)state;
	rig_open(&o);
	return 0;
}

#define SHORT(f) cmocka_unit_test_setup_teardown(f, short_setup, rig_teardown)

/* Milliseconds until the server closes, with one byte sent every 10 ms. */
static uint64_t dribble(struct client *c, const char *bytes)
{
	uint64_t began = clock_mono_ms();
	size_t i = 0;

	while (!c->eof && clock_mono_ms() - began < PUMP_MS) {
		if (i < strlen(bytes))
			i += client_send_some(c, bytes + i, 1);
		pump_for(10);
		client_recv(c);
	}
	assert_true(c->eof);
	return clock_mono_ms() - began;
}

static void assert_timed_out(struct client *c)
{
	struct reply r;

	client_reply(c, false, &r);
	assert_reply(&r, 408, "timeout");
	assert_string_equal(reply_field(&r, "Connection"), "close");
}

/* A head that comes a byte at a time is cut after the whole time, not after a quiet one (F45). */
static void test_limits_cut_a_slow_head(void **state)
{
	(void)state;
	struct client c;
	char bytes[2000];

	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, "GET / HTTP/1.1\r\nX: ", 19);
	bytes[sizeof(bytes) - 1] = '\0';
	client_open(&c);
	uint64_t ms = dribble(&c, bytes);

	assert_in_range(ms, REQUEST_MS - 20, REQUEST_MS + 400);
	assert_timed_out(&c);
	client_close(&c);
}

/* The same for a body, framed either way; the time of the head counts. */
static void test_limits_cut_a_slow_body(void **state)
{
	(void)state;
	static const char *const heads[] = { JSON_POST "Content-Length: 1000\r\n\r\n",
		                             JSON_POST "Transfer-Encoding: chunked\r\n\r\n400\r\n" };

	for (int i = 0; i < 2; i++) {
		struct client c;
		char body[1000];

		memset(body, ' ', sizeof(body));
		body[999] = '\0';
		client_open(&c);
		client_sends(&c, heads[i]);
		uint64_t ms = dribble(&c, body);

		assert_in_range(ms, REQUEST_MS - 20, REQUEST_MS + 400);
		assert_timed_out(&c);
		client_close(&c);
	}
}

/* A connection that never says anything goes after the time of a request, one that has been served after the idle
 * time, without a word. */
static void test_limits_close_the_idle(void **state)
{
	(void)state;
	struct client silent, served;
	struct reply r;

	client_open(&silent);
	uint64_t ms = dribble(&silent, "");

	assert_in_range(ms, REQUEST_MS - 20, REQUEST_MS + 400);
	assert_int_equal(silent.in.len, 0);
	client_close(&silent);
	client_open(&served);
	client_ask(&served, GET("/healthz"), &r);
	ms = dribble(&served, "");
	assert_in_range(ms, IDLE_MS - 20, IDLE_MS + 400);
	assert_int_equal(served.in.len, 0);
	client_close(&served);
}

/* The idle time begins anew with each answer. */
static void test_limits_let_the_busy_stay(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	for (int i = 0; i < 10; i++) {
		client_ask(&c, GET("/healthz"), &r);
		assert_reply(&r, 200, NULL);
		pump_for(IDLE_MS / 8);
	}
	client_close(&c);
}

/* Many long names, so that a page of topics is large. */
static void fill_store(void)
{
	for (int i = 0; i < 600; i++) {
		struct topic t = { .id = S("00000000000000aa"), .partitions = 3 };
		char name[200];

		snprintf(name, sizeof(name), "%0190d", i);
		t.name = str_of(name);
		assert_int_equal(apply_command(CMD_TOPIC_CREATE, &t), 0);
	}
}

/* A client that asks for much and reads nothing is cut after the time of a write, however much the kernel holds for it;
 * and it is not read from meanwhile, so it cannot make the server hold more. */
static void test_limits_cut_a_client_that_does_not_read(void **state)
{
	(void)state;
	static const char ask[] = GET("/v1/topics?limit=1000");
	struct client c;
	size_t sent = 0, most = 0;
	uint64_t began = clock_mono_ms();
	int small = 4096;

	fill_store();
	client_open(&c);
	assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	while (rig.thread->connection_count == 0)
		pump_once();
	while (rig.thread->connection_count > 0 && clock_mono_ms() - began < PUMP_MS) {
		sent += client_send_some(&c, ask, sizeof(ask) - 1);
		pump_once();
		most = rig.thread->unsent > most ? rig.thread->unsent : most;
		usleep(100);
	}
	assert_int_equal(rig.thread->connection_count, 0);
	assert_int_equal(rig.thread->unsent, 0);
	assert_true(sent > 0);
	assert_in_range(most, 1, HTTP_UNSENT_HIGH + 1024 * 1024);
	assert_in_range(clock_mono_ms() - began, WRITE_MS - 20, WRITE_MS + 2000);
	client_close(&c);
}

/* A client that reads slowly but keeps reading is served as long as each answer gets through in its time. */
static void test_limits_let_a_slow_reader_finish(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	for (int i = 0; i < 5; i++) {
		client_sends(&c, GET("/v1/status"));
		pump_for(WRITE_MS / 2);
	}
	for (int i = 0; i < 5; i++) {
		client_reply(&c, false, &r);
		assert_reply(&r, 200, NULL);
	}
	client_close(&c);
}

/* ---- many ---- */

/* At the limit the longest idle one gives way; those at work stay. */
static void test_limits_evict_the_idle(void **state)
{
	(void)state;
	struct client idle[7], busy, late;
	struct reply r;

	rig.hold = true;
	client_open(&busy);
	client_sends(&busy, create_request("busy"));
	for (int i = 0; i < 1000 && world.proposal_count == 0; i++)
		pump_once();
	for (int i = 0; i < 7; i++) {
		client_open(&idle[i]);
		client_ask(&idle[i], GET("/healthz"), &r);
	}
	assert_int_equal(rig.thread->connection_count, 8);
	/* One that was busy a moment ago is not taken for idle: the new client waits a little. */
	client_open(&late);
	client_sends(&late, GET("/healthz"));
	pump_for(30);
	client_recv(&idle[0]);
	assert_false(idle[0].eof);
	client_reply(&late, false, &r);
	assert_reply(&r, 200, NULL);
	assert_int_equal(rig.thread->connection_count, 8);
	client_recv(&idle[0]);
	assert_true(idle[0].eof);
	client_recv(&idle[1]);
	assert_false(idle[1].eof);
	rig.hold = false;
	client_reply(&busy, false, &r);
	assert_reply(&r, 201, NULL);
	for (int i = 0; i < 7; i++)
		client_close(&idle[i]);
	client_close(&busy);
	client_close(&late);
}

/* When nobody can give way the listener rests, and new clients are served once somebody leaves. */
static void test_limits_rest_when_all_are_busy(void **state)
{
	(void)state;
	struct client busy[8], late;
	struct reply r;
	char name[16];

	rig.hold = true;
	for (int i = 0; i < 8; i++) {
		client_open(&busy[i]);
		snprintf(name, sizeof(name), "t%d", i);
		client_sends(&busy[i], create_request(name));
	}
	for (int i = 0; i < 2000 && world.proposal_count < 8; i++)
		pump_once();
	assert_int_equal(world.proposal_count, 8);
	client_open(&late);
	client_sends(&late, GET("/healthz"));
	pump_for(50);
	assert_int_equal(rig.thread->connection_count, 8);
	assert_false(ev_is_active(&rig.thread->listen_io));
	rig.hold = false;
	client_reply(&late, false, &r);
	assert_reply(&r, 200, NULL);
	for (int i = 0; i < 8; i++) {
		client_reply(&busy[i], false, &r);
		assert_reply(&r, 201, NULL);
		client_close(&busy[i]);
	}
	client_close(&late);
}

/* Without descriptors accept is not tried in a loop: a few times in half a second, and again when there are some. */
static void test_limits_pause_accept_without_descriptors(void **state)
{
	(void)state;
	struct rlimit old, low;
	struct client c;
	struct reply r;

	client_open(&c);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	int next = dup(rig.listen_fd);

	assert_true(next >= 0);
	close(next);
	low = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	client_sends(&c, GET("/healthz"));
	pump_for(500);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_in_range(atomic_load(&rig.thread->stats.accept_failed), 1, 6);
	client_reply(&c, false, &r);
	assert_reply(&r, 200, NULL);
	client_close(&c);
}

/* When too much waits to be taken, what is asked is refused in a few bytes. */
static void test_limits_refuse_when_too_much_waits(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	client_ask(&c, GET("/v1/topics"), &r);
	assert_reply(&r, 200, NULL);
	rig.thread->unsent += HTTP_UNSENT_TOTAL + 1;
	client_ask(&c, GET("/v1/topics"), &r);
	assert_reply(&r, 503, "overloaded");
	assert_string_equal(reply_field(&r, "Retry-After"), "1");
	rig.thread->unsent -= HTTP_UNSENT_TOTAL + 1;
	client_ask(&c, GET("/v1/topics"), &r);
	assert_reply(&r, 200, NULL);
	client_close(&c);
}

#define REQUEST_BYTES (512u << 10)

static int tight_setup(void **state)
{
	const struct http_options o = { .request_bytes_max = REQUEST_BYTES };

	(void)state;
	rig_open(&o);
	return 0;
}

#define TIGHT(f) cmocka_unit_test_setup_teardown(f, tight_setup, rig_teardown)

static char blanks[300 << 10];

static size_t held(void)
{
	return atomic_load(&rig.server->request_bytes);
}

/* Sends it all, or until the server has answered. */
static void send_unless_answered(struct client *c, const char *bytes, size_t len)
{
	uint64_t end = clock_mono_ms() + PUMP_MS;
	size_t sent = 0;

	while (sent < len && c->in.len == 0 && clock_mono_ms() < end) {
		sent += client_send_some(c, bytes + sent, len - sent);
		pump_once();
		client_recv(c);
	}
	pump_for(20);
}

static void assert_overloaded(struct client *c)
{
	struct reply r;

	client_reply(c, false, &r);
	assert_reply(&r, 503, "overloaded");
	assert_non_null(strstr(r.body, "\"outcome\":\"none\""));
	assert_string_equal(reply_field(&r, "Retry-After"), "1");
	client_wait_eof(c);
}

/* One bound for what all requests hold, however they are framed and while their operation waits too. Past it 503, and
 * nothing happened; small requests go on; what one lets go of the next one gets. */
static void test_limits_bound_all_requests_together(void **state)
{
	(void)state;
	static const char *const heads[] = {
		JSON_POST "Content-Length: 307200\r\n\r\n",
		JSON_POST "Transfer-Encoding: chunked\r\n\r\n4b000\r\n",
	};
	struct client first, small;
	struct reply r;

	memset(blanks, ' ', sizeof(blanks));
	memcpy(blanks, "{\"name\":\"big\"}", 14);
	rig.hold = true;
	client_open(&first);
	client_sends(&first, heads[0]);
	client_send(&first, blanks, sizeof(blanks));
	for (int i = 0; i < 1000 && world.proposal_count == 0; i++)
		pump_once();
	assert_int_equal(world.proposal_count, 1); /* whole, and its operation waits */
	assert_in_range(held(), sizeof(blanks), REQUEST_BYTES);
	for (int i = 0; i < 2; i++) {
		struct client second;

		client_open(&second);
		client_sends(&second, heads[i]);
		send_unless_answered(&second, blanks, sizeof(blanks));
		assert_overloaded(&second);
		client_close(&second);
	}
	client_open(&small);
	client_ask(&small, GET("/healthz"), &r);
	assert_reply(&r, 200, NULL);
	client_close(&small);
	assert_int_equal(world.proposal_count, 1);
	rig.hold = false;
	client_reply(&first, false, &r);
	assert_reply(&r, 201, NULL);
	assert_int_equal(held(), 0);
	client_sends(&first, heads[1]);
	client_send(&first, blanks, sizeof(blanks));
	client_sends(&first, "\r\n0\r\n\r\n" GET("/healthz"));
	client_reply(&first, false, &r);
	assert_reply(&r, 409, "topic_exists");
	client_reply(&first, false, &r); /* what stood behind the large one was kept */
	assert_reply(&r, 200, NULL);
	assert_int_equal(held(), 0);
	client_close(&first);
}

/* Who announces much and sends little holds little, and who leaves half-way holds nothing. */
static void test_limits_count_what_has_come(void **state)
{
	(void)state;
	struct client many[20];

	for (size_t i = 0; i < sizeof(many) / sizeof(many[0]); i++) {
		client_open(&many[i]);
		client_sends(&many[i], JSON_POST "Content-Length: 1048576\r\n\r\n{");
	}
	pump_for(20);
	assert_in_range(held(), 0, 20 * 2 * HTTP_REQUEST_FREE);
	assert_int_equal(rig.thread->connection_count, 20);
	for (size_t i = 1; i < sizeof(many) / sizeof(many[0]); i++)
		client_close(&many[i]);
	send_unless_answered(&many[0], blanks, sizeof(blanks));
	assert_in_range(held(), sizeof(blanks), REQUEST_BYTES);
	client_close(&many[0]);
	pump_for(20);
	assert_int_equal(rig.thread->connection_count, 0);
	assert_int_equal(held(), 0);
}

/* A stop does not wait for ever: what is not done when the time is over is closed. */
static void test_limits_bound_a_stop(void **state)
{
	(void)state;
	struct client busy;
	uint64_t began;

	rig.hold = true;
	client_open(&busy);
	client_sends(&busy, create_request("never"));
	for (int i = 0; i < 1000 && world.proposal_count == 0; i++)
		pump_once();
	http_thread_begin_stop(rig.thread);
	began = clock_mono_ms();
	while (!rig.thread->drained && clock_mono_ms() - began < PUMP_MS)
		pump_for(5);
	assert_true(rig.thread->drained);
	assert_in_range(clock_mono_ms() - began, 280, 1000);
	client_wait_eof(&busy);
	client_close(&busy);
}

/* The default leaves descriptors to the rest of the process. */
static void test_limits_reserve_descriptors(void **state)
{
	(void)state;
	struct rlimit old, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = (struct rlimit){ .rlim_cur = 1024, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(http_default_connections(), 1024 - HTTP_RESERVED_FDS);
	low.rlim_cur = 200;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	assert_int_equal(http_default_connections(), 100);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_in_range(http_default_connections(), 1, 16384);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SHORT(test_limits_cut_a_slow_head),
		SHORT(test_limits_cut_a_slow_body),
		SHORT(test_limits_close_the_idle),
		SHORT(test_limits_let_the_busy_stay),
		SHORT(test_limits_cut_a_client_that_does_not_read),
		SHORT(test_limits_let_a_slow_reader_finish),
		SHORT(test_limits_evict_the_idle),
		SHORT(test_limits_rest_when_all_are_busy),
		SHORT(test_limits_pause_accept_without_descriptors),
		SHORT(test_limits_refuse_when_too_much_waits),
		TIGHT(test_limits_bound_all_requests_together),
		TIGHT(test_limits_count_what_has_come),
		SHORT(test_limits_bound_a_stop),
		cmocka_unit_test(test_limits_reserve_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
