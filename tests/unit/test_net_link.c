/* Links: frames arrive whole or not at all, in order, within bounds, and hooks may free the link. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/slab.h"
#include "net/link.h"
#include "net_harness.h"

struct seen {
	struct net_link *link;
	int frames, closes;
	int code;         /* of the close */
	struct buf bytes; /* {type, len, body} of each frame */
	bool free_on_frame, free_on_close, release_on_frame, pause_on_frame;
	int released;
};

static void on_frame(void *arg, uint16_t type, struct slab *slab, const uint8_t *body, size_t len)
{
	struct seen *s = arg;
	s->frames++;
	assert_int_equal(slab == NULL, len == 0);
	assert_int_equal(body == NULL, len == 0);
	buf_put(&s->bytes, &type, sizeof(type));
	buf_put(&s->bytes, &len, sizeof(len));
	if (len)
		buf_put(&s->bytes, body, len);
	if (s->free_on_frame)
		net_link_free(s->link);
	if (s->release_on_frame)
		s->released = net_link_release(s->link).fd;
	if (s->pause_on_frame)
		net_link_pause(s->link, true);
}

static void on_close(void *arg, const struct err *why)
{
	struct seen *s = arg;
	s->closes++;
	s->code = why->code;
	assert_true(why->msg[0] != '\0');
	if (s->free_on_close)
		net_link_free(s->link);
}

static struct net_link *open_link(struct ev_loop *loop, struct seen *s, int fd, size_t frame_max)
{
	const struct net_link_hooks hooks = { .arg = s, .on_frame = on_frame, .on_close = on_close };
	s->link = net_link_new(loop, net_stream_plain(fd), frame_max, &hooks);
	return s->link;
}

static void put_frame(struct buf *b, uint16_t type, const void *body, size_t len)
{
	uint8_t head[NET_LINK_HEADER] = { 0 };
	put_le32(head, (uint32_t)len);
	put_le16(head + 4, type);
	buf_put(b, head, sizeof(head));
	if (len)
		buf_put(b, body, len);
}

/* However the stream is cut in two, the same frames come out, and none before its last byte. */
static void test_frames_survive_any_cut(void **state)
{
	(void)state;
	uint8_t body[100];
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7);
	struct buf stream = { 0 };
	put_frame(&stream, 1, NULL, 0);
	put_frame(&stream, 2, body, 1);
	put_frame(&stream, 3, body, sizeof(body));
	put_frame(&stream, 4, NULL, 0);
	const size_t ends[] = { 8, 8 + 9, 8 + 9 + 108, 8 + 9 + 108 + 8 };
	struct ev_loop *loop = ev_loop_new(0);
	struct buf first = { 0 };
	for (size_t cut = 0; cut <= stream.len; cut++) {
		int fds[2];
		make_pair(fds);
		struct seen s = { 0 };
		open_link(loop, &s, fds[0], 1000);
		if (cut > 0)
			write_bytes(fds[1], stream.data, cut);
		ev_run(loop, EVRUN_NOWAIT);
		int want = 0;
		for (size_t i = 0; i < 4; i++)
			want += ends[i] <= cut;
		assert_int_equal(s.frames, want);
		if (cut < stream.len)
			write_bytes(fds[1], stream.data + cut, stream.len - cut);
		ev_run(loop, EVRUN_NOWAIT);
		assert_int_equal(s.frames, 4);
		if (cut == 0)
			buf_put(&first, s.bytes.data, s.bytes.len);
		assert_int_equal(s.bytes.len, first.len);
		assert_memory_equal(s.bytes.data, first.data, first.len);
		buf_fini(&s.bytes);
		net_link_free(s.link);
		close(fds[1]);
	}
	buf_fini(&first);
	buf_fini(&stream);
	ev_loop_destroy(loop);
}

/* A large body, read partly from the buffer and partly in place, is the one that was sent. */
static void test_large_body_arrives_unchanged(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0);
	int fds[2];
	make_pair(fds);
	set_nonblocking(fds[1]);
	struct seen from = { 0 }, to = { 0 };
	open_link(loop, &to, fds[0], NET_FRAME_MAX);
	open_link(loop, &from, fds[1], NET_FRAME_MAX);
	struct slab *big = slab_new(3000001);
	big->len = 3000001;
	for (size_t i = 0; i < big->len; i++)
		big->data[i] = (uint8_t)(i * 31 >> 3);
	const struct net_piece pieces[] = { { .p = big->data, .len = big->len, .slab = big } };
	assert_true(net_link_send(from.link, 9, pieces, 1));
	assert_true(net_link_send(from.link, 10, NULL, 0));
	assert_true(run_until(loop, NULL, &to.frames, 2, 5000));
	assert_memory_equal(to.bytes.data + 2 + sizeof(size_t), big->data, big->len);
	assert_int_equal(net_link_unsent(from.link), 0);
	assert_int_equal(atomic_load(&big->refs), 1); /* the link gave its count back */
	slab_unref(big);
	buf_fini(&to.bytes);
	net_link_free(from.link);
	net_link_free(to.link);
	ev_loop_destroy(loop);
}

/* Copied and counted pieces, empty ones between them, make one body in the given order. */
static void test_pieces_keep_their_order(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0);
	int fds[2];
	make_pair(fds);
	set_nonblocking(fds[1]);
	struct seen from = { 0 }, to = { 0 };
	open_link(loop, &to, fds[0], NET_FRAME_MAX);
	open_link(loop, &from, fds[1], NET_FRAME_MAX);
	char text[5000];
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)('a' + i % 26);
	struct slab *s = slab_from(text, sizeof(text));
	const struct net_piece pieces[] = {
		{ .p = "one", .len = 3 },
		{ .p = s->data, .len = 2000, .slab = s },
		{ .p = s->data + 2000, .len = 600, .slab = s },
		{ .p = "two", .len = 3 },
		{ .p = NULL, .len = 0 },
		{ .p = s->data + 2600, .len = 5, .slab = s },
		{ .p = s->data + 2605, .len = 2395, .slab = s },
	};
	assert_true(net_link_send(from.link, 7, pieces, 7));
	assert_int_equal(to.frames, 0);
	assert_true(run_until(loop, NULL, &to.frames, 1, 1000));
	char want[5006];
	memcpy(want, "one", 3);
	memcpy(want + 3, text, 2600);
	memcpy(want + 2603, "two", 3);
	memcpy(want + 2606, text + 2600, 2400);
	assert_int_equal(to.bytes.len, 2 + sizeof(size_t) + sizeof(want));
	assert_memory_equal(to.bytes.data + 2 + sizeof(size_t), want, sizeof(want));
	slab_unref(s);
	buf_fini(&to.bytes);
	net_link_free(from.link);
	net_link_free(to.link);
	ev_loop_destroy(loop);
}

/* A length above the limit ends the link at its header: nothing of such a body is waited for. */
static void test_oversized_frame_ends_the_link(void **state)
{
	(void)state;
	static const uint32_t lengths[] = { 101, 0x7fffffff, 0xffffffff };
	struct ev_loop *loop = ev_loop_new(0);
	for (size_t i = 0; i < 3; i++) {
		int fds[2];
		make_pair(fds);
		struct seen s = { 0 };
		open_link(loop, &s, fds[0], 100);
		uint8_t head[NET_LINK_HEADER] = { 0 };
		put_le32(head, lengths[i]);
		write_bytes(fds[1], head, sizeof(head));
		ev_run(loop, EVRUN_NOWAIT);
		assert_int_equal(s.closes, 1);
		assert_int_equal(s.code, ERR_TOO_LARGE);
		assert_true(is_closed(fds[1]));
		assert_false(net_link_send(s.link, 1, NULL, 0));
		net_link_free(s.link);
		close(fds[1]);
	}
	ev_loop_destroy(loop);
}

/* Bytes that are no frame, an end in the middle of one, an end between two: each its reason, never a frame. */
static void test_ends_are_told_apart(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0);
	const struct {
		const char *bytes;
		size_t len;
		bool end;
		int code;
	} cases[] = {
		{ "\5\0\0\0\1\0\1\0", 8, false, ERR_CORRUPT },
		{ "GET / HTTP/1.1\r\n", 16, false, ERR_CORRUPT },
		{ "\5\0\0\0\1\0\0\0abcd", 12, true, ERR_CLOSED },
		{ "\5\0\0", 3, true, ERR_CLOSED },
		{ "", 0, true, ERR_CLOSED },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fds[2];
		make_pair(fds);
		struct seen s = { .free_on_close = true };
		open_link(loop, &s, fds[0], 100);
		if (cases[i].len)
			write_bytes(fds[1], cases[i].bytes, cases[i].len);
		if (cases[i].end)
			shutdown(fds[1], SHUT_WR);
		run_for(loop, NULL, 5);
		assert_int_equal(s.frames, 0);
		assert_int_equal(s.closes, 1);
		assert_int_equal(s.code, cases[i].code);
		close(fds[1]);
	}
	ev_loop_destroy(loop);
}

/* A reader that stops costs at most the bound; what was taken still arrives once it reads, and sending works again. */
static void test_unsent_bytes_are_bounded(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0), *other = ev_loop_new(0);
	int fds[2];
	make_pair(fds);
	set_nonblocking(fds[1]);
	struct seen from = { 0 }, to = { 0 };
	open_link(loop, &from, fds[1], NET_FRAME_MAX);
	open_link(other, &to, fds[0], NET_FRAME_MAX);
	struct slab *s = slab_new(1 << 20);
	s->len = 1 << 20;
	memset(s->data, 'x', s->len);
	const struct net_piece piece = { .p = s->data, .len = s->len, .slab = s };
	int taken = 0;
	while (net_link_send(from.link, 1, &piece, 1)) {
		taken++;
		ev_run(loop, EVRUN_NOWAIT);
		assert_true(net_link_unsent(from.link) <= NET_LINK_UNSENT_MAX);
	}
	assert_in_range(taken, 14, 20);
	assert_true(run_until(loop, other, &to.frames, taken, 10000));
	assert_int_equal(net_link_unsent(from.link), 0);
	assert_true(net_link_send(from.link, 1, &piece, 1));
	assert_true(run_until(loop, other, &to.frames, taken + 1, 1000));

	/* Tiny frames count for what they cost, not only for their bytes. */
	int tiny = 0;
	while (net_link_send(from.link, 2, NULL, 0))
		tiny++;
	assert_in_range(tiny, 100000, 300000);
	slab_unref(s);
	buf_fini(&to.bytes);
	net_link_free(from.link);
	net_link_free(to.link);
	ev_loop_destroy(loop);
	ev_loop_destroy(other);
}

/* A hook may free the link: nothing further is delivered, read or written, though more frames came with the read. */
static void test_hooks_may_free_the_link(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0);
	struct buf three = { 0 };
	for (uint16_t i = 0; i < 3; i++)
		put_frame(&three, i, "abc", 3);
	int fds[2];
	make_pair(fds);
	struct seen s = { .free_on_frame = true };
	open_link(loop, &s, fds[0], 100);
	write_bytes(fds[1], three.data, three.len);
	run_for(loop, NULL, 5);
	assert_int_equal(s.frames, 1);
	assert_int_equal(s.closes, 0);
	assert_true(is_closed(fds[1]));
	close(fds[1]);
	buf_fini(&s.bytes);
	buf_fini(&three);
	ev_loop_destroy(loop);
}

/* A descriptor goes over to another owner only when no byte is left on this side of it. */
static void test_release_hands_over_a_clean_descriptor(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0);
	struct buf b = { 0 };
	put_frame(&b, 1, "abc", 3);
	for (int extra = 0; extra < 2; extra++) {
		int fds[2];
		make_pair(fds);
		struct seen s = { .release_on_frame = true };
		open_link(loop, &s, fds[0], 100);
		if (extra)
			buf_putc(&b, 'x');
		write_bytes(fds[1], b.data, b.len);
		ev_run(loop, EVRUN_NOWAIT);
		assert_int_equal(s.frames, 1);
		assert_int_equal(s.released >= 0, !extra);
		if (!extra) {
			char c = 0;
			write_bytes(fds[1], "y", 1);
			assert_int_equal(read(s.released, &c, 1), 1);
			assert_int_equal(c, 'y');
			close(s.released);
		}
		buf_fini(&s.bytes);
		close(fds[1]);
	}
	int fds[2];
	make_pair(fds);
	struct seen s = { 0 };
	open_link(loop, &s, fds[0], 100);
	assert_true(net_link_send(s.link, 1, NULL, 0));
	assert_int_equal(net_link_release(s.link).fd, -1);
	close(fds[1]);
	buf_fini(&b);
	ev_loop_destroy(loop);
}

/* While paused nothing is read from the socket; flush sends without waiting for the turn's end. */
static void test_pause_and_flush(void **state)
{
	(void)state;
	struct ev_loop *loop = ev_loop_new(0);
	int fds[2];
	make_pair(fds);
	struct seen s = { .pause_on_frame = true };
	open_link(loop, &s, fds[0], 100);
	struct buf b = { 0 };
	put_frame(&b, 1, "abc", 3);
	write_bytes(fds[1], b.data, b.len);
	assert_true(run_until(loop, NULL, &s.frames, 1, 1000));
	write_bytes(fds[1], b.data, b.len);
	run_for(loop, NULL, 20);
	assert_int_equal(s.frames, 1);
	net_link_pause(s.link, false);
	assert_true(run_until(loop, NULL, &s.frames, 2, 1000));

	assert_true(net_link_send(s.link, 1, &(struct net_piece){ .p = "abc", .len = 3 }, 1));
	assert_true(net_link_unsent(s.link) > 0);
	assert_true(net_link_flush(s.link));
	uint8_t got[11];
	assert_int_equal(recv(fds[1], got, sizeof(got), MSG_DONTWAIT), 11);
	assert_memory_equal(got, b.data, 11);
	net_link_free(s.link);
	close(fds[1]);
	buf_fini(&b);
	buf_fini(&s.bytes);
	ev_loop_destroy(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames_survive_any_cut),
		cmocka_unit_test(test_large_body_arrives_unchanged),
		cmocka_unit_test(test_pieces_keep_their_order),
		cmocka_unit_test(test_oversized_frame_ends_the_link),
		cmocka_unit_test(test_ends_are_told_apart),
		cmocka_unit_test(test_unsent_bytes_are_bounded),
		cmocka_unit_test(test_hooks_may_free_the_link),
		cmocka_unit_test(test_release_hands_over_a_clean_descriptor),
		cmocka_unit_test(test_pause_and_flush),
	};
	return cmocka_run_group_tests_name("net_link", tests, NULL, NULL);
}
