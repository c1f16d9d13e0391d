/* Connections: how bytes become requests and answers bytes, over real sockets. */
#include "http_world.h"

/* Whatever the network's cuts, the same answers: a chunked create, a GET and a HEAD, cut at every byte. */
static void test_conn_takes_any_split(void **state)
{
	(void)state;
	char bytes[1024];
	struct reply r;
	size_t len = (size_t)snprintf(bytes, sizeof(bytes), "%s",
	                              JSON_POST "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"nam\r\n5;x\r\ne\":\"s"
	                                        "\r\n2\r\n\"}\r\n0\r\n\r\n" GET("/v1/topics/s") "HEAD /v1/topics/s "
	                                                                                        "HTTP/1.1\r\nHost: "
	                                                                                        "a\r\n\r\n");

	for (size_t cut = 1; cut < len; cut++) {
		struct client c;

		client_open(&c);
		client_send(&c, bytes, cut);
		pump_once();
		pump_once();
		client_send(&c, bytes + cut, len - cut);
		client_reply(&c, false, &r);
		assert_reply(&r, cut == 1 ? 201 : 409, cut == 1 ? NULL : "topic_exists");
		client_reply(&c, false, &r);
		assert_reply(&r, 200, NULL);
		client_reply(&c, true, &r);
		assert_reply(&r, 200, NULL);
		assert_int_equal(c.in.len, 0);
		client_close(&c);
	}
}

/* Byte by byte. */
static void test_conn_takes_single_bytes(void **state)
{
	(void)state;
	const char *bytes = create_request("slow");
	struct client c;
	struct reply r;

	client_open(&c);
	for (size_t i = 0; i < strlen(bytes); i++) {
		client_send(&c, bytes + i, 1);
		pump_once();
	}
	client_reply(&c, false, &r);
	assert_reply(&r, 201, NULL);
	client_close(&c);
}

/* Every answer says which node, which cluster and which index; reads say who leads. */
static void test_conn_answers_carry_headers(void **state)
{
	(void)state;
	static const char *const everywhere[] = { GET("/v1/status"), GET("/healthz"), GET("/nothing"),
		                                  GET("/v1/topics") };
	struct reply r;
	char index[32];

	snprintf(index, sizeof(index), "%d", (int)world.index);
	for (size_t i = 0; i < 4; i++) {
		ask_once(everywhere[i], &r);
		assert_string_equal(reply_field(&r, "X-Veena-Node"), "n1");
		assert_string_equal(reply_field(&r, "X-Veena-Cluster"), "0000000000001234");
		assert_string_equal(reply_field(&r, "X-Veena-Index"), index);
		assert_string_equal(reply_field(&r, "Content-Type"), "application/json");
		assert_int_equal(strlen(reply_field(&r, "Date")), 29);
	}
	assert_string_equal(reply_field(&r, "X-Veena-Leader"), "n1");
	assert_string_equal(reply_field(&r, "X-Veena-Contact-Ms"), "0");
	ask_once(create_request("t"), &r);
	snprintf(index, sizeof(index), "%d", (int)world.index);
	assert_string_equal(reply_field(&r, "X-Veena-Index"), index);
	assert_null(reply_field(&r, "X-Veena-Leader"));
	ask_once("DELETE /v1/topics/t HTTP/1.1\r\nHost: a\r\n\r\n", &r);
	assert_reply(&r, 204, NULL);
	assert_null(reply_field(&r, "Content-Length"));
	assert_null(reply_field(&r, "Content-Type"));
}

/* Answers come in the order of the requests, those that wait for the log among them, in as few writes as turns. */
static void test_conn_pipelines(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	struct client c;
	struct reply r;
	char want[64];

	client_open(&c);
	for (int i = 0; i < 200; i++)
		buf_puts(&bytes, GET("/healthz"));
	client_send(&c, bytes.data, bytes.len);
	for (int i = 0; i < 200; i++) {
		client_reply(&c, false, &r);
		assert_reply(&r, 200, NULL);
	}
	buf_clear(&bytes);
	for (int i = 0; i < 50; i++) {
		char name[16];

		snprintf(name, sizeof(name), "t%d", i);
		buf_puts(&bytes, create_request(name));
		buf_printf(&bytes, "GET /v1/topics/%s HTTP/1.1\r\nHost: a\r\n\r\n", name);
		buf_puts(&bytes, GET("/v1/topics/none"));
	}
	client_send(&c, bytes.data, bytes.len);
	for (int i = 0; i < 50; i++) {
		client_reply(&c, false, &r);
		assert_reply(&r, 201, NULL);
		client_reply(&c, false, &r);
		assert_reply(&r, 200, NULL);
		snprintf(want, sizeof(want), "{\"name\":\"t%d\",", i);
		assert_memory_equal(r.body, want, strlen(want));
		client_reply(&c, false, &r);
		assert_reply(&r, 404, "topic_not_found");
	}
	buf_fini(&bytes);
	client_close(&c);
}

/* A turn's answers leave together: twenty small requests in one segment come back before the loop turns again. */
static void test_conn_answers_a_turn_in_one_write(void **state)
{
	(void)state;
	struct buf bytes = { 0 };
	struct client c;
	struct reply r;

	client_open(&c);
	client_ask(&c, GET("/healthz"), &r);
	for (int i = 0; i < 20; i++)
		buf_puts(&bytes, GET("/healthz"));
	client_send(&c, bytes.data, bytes.len);
	uint64_t sent_before = atomic_load(&rig.thread->stats.bytes_out);

	for (int i = 0; i < 100 && atomic_load(&rig.thread->stats.bytes_out) == sent_before; i++)
		pump_once();
	client_recv(&c);
	for (int i = 0; i < 20; i++) {
		assert_true(c.in.len > 0);
		client_reply(&c, false, &r);
	}
	assert_int_equal(c.in.len, 0);
	buf_fini(&bytes);
	client_close(&c);
}

/* ---- what is refused (F44) ---- */

static const struct {
	const char *what, *bytes;
	int status;
} refused[] = {
	{ "length beside chunked", JSON_POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400 },
	{ "blank before the colon", JSON_POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400 },
	{ "xchunked", JSON_POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501 },
	{ "chunked, identity", JSON_POST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 501 },
	{ "gzip, chunked", JSON_POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501 },
	{ "chunk size 0x10", JSON_POST "Transfer-Encoding: chunked\r\n\r\n0x10\r\n0123456789abcdef\r\n0\r\n\r\n", 400 },
	{ "chunk size -1", JSON_POST "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n", 400 },
	{ "17 hex digits", JSON_POST "Transfer-Encoding: chunked\r\n\r\n00000000000000001\r\nx\r\n0\r\n\r\n", 400 },
	{ "trailer", JSON_POST "Transfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n\r\n", 400 },
	{ "bare LF", "GET /v1/topics HTTP/1.1\nHost: a\n\n", 400 },
	{ "no Host", "GET /v1/topics HTTP/1.1\r\n\r\n", 400 },
	{ "odd version", "GET /v1/topics HTTP/1.9\r\nHost: a\r\n\r\n", 505 },
	{ "CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501 },
	{ "unknown method", "BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501 },
	{ "asterisk", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400 },
	{ "body over 1 MiB", JSON_POST "Content-Length: 1048577\r\n\r\n", 413 },
	{ "two types", JSON_POST "Content-Type: text/plain\r\nContent-Length: 0\r\n\r\n", 400 },
};

/* One answer, a closed connection, and nothing behind it was ever taken for a request. */
static void test_conn_refuses_and_closes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		struct client c;
		struct reply r;

		client_open(&c);
		client_sends(&c, refused[i].bytes);
		client_sends(&c, create_request("smuggled"));
		client_reply(&c, false, &r);
		if (r.status != refused[i].status)
			fail_msg("%s: %s%s", refused[i].what, r.head, r.body);
		assert_string_equal(reply_field(&r, "Connection"), "close");
		client_wait_eof(&c);
		assert_int_equal(c.in.len, 0);
		client_close(&c);
	}
	struct reply r;

	ask_once(GET("/v1/topics/smuggled"), &r);
	assert_reply(&r, 404, "topic_not_found");
	assert_int_equal(atomic_load(&rig.thread->stats.refused), sizeof(refused) / sizeof(refused[0]));
}

/* A client still sending a body that was refused gets the answer, not a reset. */
static void test_conn_lets_a_refusal_be_read(void **state)
{
	(void)state;
	static char big[600000];
	struct client c;
	struct reply r;

	memset(big, 'x', sizeof(big));
	client_open(&c);
	client_sends(&c, JSON_POST "Content-Length: 2000000\r\n\r\n");
	client_send(&c, big, sizeof(big));
	client_reply(&c, false, &r);
	assert_reply(&r, 413, "too_large");
	assert_false(c.reset);
	client_close(&c);
}

/* The largest body that is taken, with and without chunks. */
static void test_conn_takes_the_largest_body(void **state)
{
	(void)state;
	static char body[HTTP_BODY_MAX + 1];
	struct client c;
	struct reply r;
	char head[256];

	memset(body, ' ', HTTP_BODY_MAX);
	memcpy(body, "{\"name\":\"big\"}", 14);
	client_open(&c);
	snprintf(head, sizeof(head), JSON_POST "Content-Length: %u\r\n\r\n", HTTP_BODY_MAX);
	client_sends(&c, head);
	client_send(&c, body, HTTP_BODY_MAX);
	client_reply(&c, false, &r);
	assert_reply(&r, 201, NULL);
	snprintf(head, sizeof(head), JSON_POST "Transfer-Encoding: chunked\r\n\r\n%x\r\n", HTTP_BODY_MAX);
	client_sends(&c, head);
	client_send(&c, body, HTTP_BODY_MAX);
	client_sends(&c, "\r\n0\r\n\r\n");
	client_reply(&c, false, &r);
	assert_reply(&r, 409, "topic_exists");
	client_sends(&c, JSON_POST "Transfer-Encoding: chunked\r\n\r\n80000\r\n");
	client_send(&c, body, 0x80000);
	client_sends(&c, "\r\n80001\r\n");
	client_reply(&c, false, &r);
	assert_reply(&r, 413, "too_large");
	client_close(&c);
}

/* ---- keeping and ending ---- */

static void assert_closes(const char *request, bool closes)
{
	struct client c;
	struct reply r;

	client_open(&c);
	client_ask(&c, request, &r);
	assert_reply(&r, 200, NULL);
	if (closes) {
		client_wait_eof(&c);
	} else {
		client_ask(&c, GET("/healthz"), &r);
		assert_reply(&r, 200, NULL);
	}
	client_close(&c);
}

/* 1.1 stays unless told otherwise, 1.0 goes unless told otherwise. */
static void test_conn_keeps_alive_as_asked(void **state)
{
	(void)state;
	assert_closes(GET("/healthz"), false);
	assert_closes("GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true);
	assert_closes("GET /healthz HTTP/1.0\r\n\r\n", true);
	assert_closes("GET /healthz HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", false);
	assert_closes("\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", false);
}

/* A client that ends its side still gets what it asked for. */
static void test_conn_answers_a_half_closed_client(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	client_open(&c);
	client_sends(&c, create_request("half"));
	client_sends(&c, GET("/v1/topics/half"));
	assert_int_equal(shutdown(c.fd, SHUT_WR), 0);
	client_reply(&c, false, &r);
	assert_reply(&r, 201, NULL);
	client_reply(&c, false, &r);
	assert_reply(&r, 200, NULL);
	client_wait_eof(&c);
	client_close(&c);
}

/* The go-ahead for a body comes when asked for, and not for one that will not be taken. */
static void test_conn_says_continue(void **state)
{
	(void)state;
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct client c;
	struct reply r;

	client_open(&c);
	client_sends(&c, JSON_POST "Content-Length: 14\r\nExpect: 100-continue\r\n\r\n");
	client_wait(&c, sizeof(go_on) - 1);
	assert_string_equal(buf_cstr(&c.in), go_on);
	buf_clear(&c.in);
	client_sends(&c, "{\"name\":\"exp\"}");
	client_reply(&c, false, &r);
	assert_reply(&r, 201, NULL);
	client_sends(&c, JSON_POST "Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n");
	client_reply(&c, false, &r);
	assert_reply(&r, 413, "too_large");
	client_close(&c);
}

/* A client that goes away while its write is under way harms nobody; the write is done. */
static void test_conn_survives_a_client_that_left(void **state)
{
	(void)state;
	struct client c;
	struct reply r;

	rig.hold = true;
	client_open(&c);
	client_sends(&c, create_request("left"));
	for (int i = 0; i < 1000 && world.proposal_count == 0; i++)
		pump_once();
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	assert_int_equal(setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	client_close(&c);
	pump_for(20);
	rig.hold = false;
	pump_for(20);
	ask_once(GET("/v1/topics/left"), &r);
	assert_reply(&r, 200, NULL);
	for (int i = 0; i < 1000 && rig.thread->connection_count > 0; i++)
		pump_once();
	assert_int_equal(rig.thread->connection_count, 0);
}

/* A connection without traffic holds no buffers. */
static void test_conn_without_traffic_holds_nothing(void **state)
{
	(void)state;
	struct client c[20];
	struct reply r;

	for (int i = 0; i < 20; i++) {
		client_open(&c[i]);
		client_ask(&c[i], GET("/v1/topics"), &r);
	}
	pump_for(10);
	assert_int_equal(rig.thread->unsent, 0);
	/* All of them shared the few that are spare now. */
	assert_in_range(rig.thread->pool_count, 1, 3);
	for (int i = 0; i < 20; i++)
		client_close(&c[i]);
}

/* ---- stopping ---- */

/* A stop lets what is under way finish, closes what is idle, takes nobody new, and ends the loop. */
static void test_thread_stops_when_answers_are_out(void **state)
{
	(void)state;
	struct client idle, busy;
	struct reply r;

	client_open(&idle);
	client_ask(&idle, GET("/healthz"), &r);
	client_open(&busy);
	rig.hold = true;
	client_sends(&busy, create_request("last"));
	for (int i = 0; i < 1000 && world.proposal_count == 0; i++)
		pump_once();
	http_thread_begin_stop(rig.thread);
	client_wait_eof(&idle);
	assert_int_equal(idle.in.len, 0);
	assert_false(rig.ended);
	rig.hold = false;
	client_reply(&busy, false, &r);
	assert_reply(&r, 201, NULL);
	assert_string_equal(reply_field(&r, "Connection"), "close");
	client_wait_eof(&busy);
	client_close(&idle);
	client_close(&busy);
	pump_for(20);
	assert_true(rig.thread->drained);
	assert_int_equal(rig.thread->connection_count, 0);
}

/* A request that was on its way when the stop began is answered, on a connection that was open or still in the backlog;
 * then the connection goes, and nobody new can connect. */
static void test_thread_serves_who_was_there_before_the_stop(void **state)
{
	(void)state;
	struct client open, queued;
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		                  .sin_port = htons(rig.port) };
	struct reply r;

	client_open(&open);
	client_ask(&open, GET("/healthz"), &r);
	client_open(&queued);
	http_thread_begin_stop(rig.thread);
	pump_for(50);
	client_ask(&open, GET("/healthz"), &r);
	assert_reply(&r, 200, NULL);
	assert_string_equal(reply_field(&r, "Connection"), "close");
	client_wait_eof(&open);
	client_ask(&queued, GET("/healthz"), &r);
	assert_reply(&r, 200, NULL);
	client_wait_eof(&queued);
	int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_not_equal(connect(late, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(errno, ECONNREFUSED);
	close(late);
	client_close(&open);
	client_close(&queued);
	pump_for(20);
	assert_true(rig.thread->drained);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG(test_conn_takes_any_split),
		RIG(test_conn_takes_single_bytes),
		RIG(test_conn_answers_carry_headers),
		RIG(test_conn_pipelines),
		RIG(test_conn_answers_a_turn_in_one_write),
		RIG(test_conn_refuses_and_closes),
		RIG(test_conn_lets_a_refusal_be_read),
		RIG(test_conn_takes_the_largest_body),
		RIG(test_conn_keeps_alive_as_asked),
		RIG(test_conn_answers_a_half_closed_client),
		RIG(test_conn_says_continue),
		RIG(test_conn_survives_a_client_that_left),
		RIG(test_conn_without_traffic_holds_nothing),
		RIG(test_thread_stops_when_answers_are_out),
		RIG(test_thread_serves_who_was_there_before_the_stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
