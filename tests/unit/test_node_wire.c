#include "node/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/slab.h"

/* The body as the other side gets it: all pieces behind each other, in one slab. */
static struct slab *body_of(struct wire_out *o)
{
	size_t count;
	const struct net_piece *pieces = wire_pieces(o, &count);
	size_t len = 0;
	for (size_t i = 0; i < count; i++)
		len += pieces[i].len;
	struct slab *s = slab_new(len);
	for (size_t i = 0; i < count; i++) {
		memcpy(s->data + s->len, pieces[i].p, pieces[i].len);
		s->len += pieces[i].len;
	}
	return s;
}

static struct raft_conf some_conf(void)
{
	struct raft_conf c = { .count = 2 };
	c.servers[0] = (struct raft_server){ .id = 11, .voter = true, .name = "a", .addr = "h:1" };
	c.servers[1] = (struct raft_server){ .id = 22, .voter = false, .name = "b", .addr = "h:2" };
	return c;
}

struct sample {
	struct slab *small, *large, *conf;
	struct entry entries[4];
	struct raft_msg msg;
};

/* An append with one entry of each kind, one of them large enough to travel as a piece of its own. */
static void sample_init(struct sample *s)
{
	memset(s, 0, sizeof(*s));
	struct buf b = { 0 };
	const struct raft_conf c = some_conf();
	raft_conf_encode(&c, &b);
	s->conf = slab_from(b.data, b.len);
	buf_fini(&b);
	s->small = slab_from("small", 5);
	s->large = slab_new(100000);
	memset(s->large->data, 'x', 100000);
	s->large->len = 100000;
	s->entries[0] = (struct entry){ .index = 8, .term = 3, .kind = ENTRY_NOOP };
	s->entries[1] = (struct entry){ .index = 9,
		                        .term = 3,
		                        .kind = ENTRY_CONFIG,
		                        .len = (uint32_t)s->conf->len,
		                        .data = s->conf->data,
		                        .slab = s->conf };
	s->entries[2] = (struct entry){
		.index = 10, .term = 4, .kind = ENTRY_COMMAND, .len = 5, .data = s->small->data, .slab = s->small
	};
	s->entries[3] = (struct entry){
		.index = 11, .term = 4, .kind = ENTRY_COMMAND, .len = 100000, .data = s->large->data, .slab = s->large
	};
	s->msg = (struct raft_msg){ .type = RAFT_MSG_APPEND,
		                    .from = UINT64_MAX,
		                    .to = 22,
		                    .term = 5,
		                    .index = 7,
		                    .log_term = 2,
		                    .commit = 6,
		                    .hint = 1,
		                    .hint_term = 1,
		                    .round = UINT64_MAX,
		                    .offset = 3,
		                    .size = 4,
		                    .flag = true,
		                    .entries = s->entries,
		                    .entry_count = 4 };
}

static void sample_fini(struct sample *s)
{
	slab_unref(s->small);
	slab_unref(s->large);
	slab_unref(s->conf);
}

static int decode(struct slab *s, size_t len, struct arena *a, struct raft_msg *m)
{
	uint64_t cluster;
	struct err e;
	return wire_get_msg(s, s->data, len, a, &cluster, m, &e);
}

/* Every field and every kind of entry comes out as it went in, inside the frame's own slab. */
static void test_msg_comes_back_whole(void **state)
{
	(void)state;
	struct sample s;
	sample_init(&s);
	struct wire_out o = { 0 };
	wire_put_msg(&o, 0xfeed, &s.msg);
	struct slab *body = body_of(&o);
	struct arena a = { 0 };
	struct raft_msg m;
	uint64_t cluster = 0;
	struct err e = { 0 };
	assert_int_equal(wire_get_msg(body, body->data, body->len, &a, &cluster, &m, &e), 0);
	assert_int_equal(cluster, 0xfeed);
	assert_int_equal(m.type, RAFT_MSG_APPEND);
	assert_true(m.from == UINT64_MAX && m.to == 22 && m.term == 5 && m.index == 7 && m.log_term == 2);
	assert_true(m.commit == 6 && m.hint == 1 && m.hint_term == 1 && m.round == UINT64_MAX && m.offset == 3);
	assert_true(m.size == 4 && m.flag && !m.conf && !m.data);
	assert_int_equal(m.entry_count, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct entry *want = &s.entries[i];
		const struct entry *got = &m.entries[i];
		assert_true(got->index == want->index && got->term == want->term && got->kind == want->kind);
		assert_int_equal(got->len, want->len);
		if (want->len > 0) {
			assert_memory_equal(got->data, want->data, want->len);
			assert_ptr_equal(got->slab, body);
			assert_true(got->data >= body->data && got->data + got->len <= body->data + body->len);
		} else {
			assert_null(got->slab);
		}
	}
	arena_fini(&a);
	slab_unref(body);
	wire_out_fini(&o);
	sample_fini(&s);
}

/* A large payload is sent from where it lies: one piece that names its slab. */
static void test_msg_refers_to_large_payloads(void **state)
{
	(void)state;
	struct sample s;
	sample_init(&s);
	struct wire_out o = { 0 };
	wire_put_msg(&o, 1, &s.msg);
	size_t count;
	const struct net_piece *pieces = wire_pieces(&o, &count);
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].slab) {
			assert_ptr_equal(pieces[i].slab, s.large);
			assert_ptr_equal(pieces[i].p, s.large->data);
			found++;
		}
	}
	assert_int_equal(found, 1);
	wire_out_fini(&o);
	sample_fini(&s);
}

/* A chunk of an image carries its configuration and its bytes. */
static void test_msg_carries_an_image(void **state)
{
	(void)state;
	struct sample s;
	sample_init(&s);
	const struct raft_conf c = some_conf();
	const struct raft_msg chunk = { .type = RAFT_MSG_SNAPSHOT,
		                        .from = 11,
		                        .to = 22,
		                        .term = 5,
		                        .index = 100,
		                        .log_term = 4,
		                        .size = 100000,
		                        .conf = &c,
		                        .data = s.large->data,
		                        .data_len = 100000,
		                        .slab = s.large };
	struct wire_out o = { 0 };
	wire_put_msg(&o, 1, &chunk);
	struct slab *body = body_of(&o);
	struct arena a = { 0 };
	struct raft_msg m;
	assert_int_equal(decode(body, body->len, &a, &m), 0);
	assert_int_equal(m.data_len, 100000);
	assert_memory_equal(m.data, s.large->data, 100000);
	assert_ptr_equal(m.slab, body);
	assert_non_null(m.conf);
	assert_int_equal(m.conf->count, 2);
	assert_string_equal(m.conf->servers[1].addr, "h:2");
	arena_fini(&a);
	slab_unref(body);
	wire_out_fini(&o);
	sample_fini(&s);
}

/* No prefix of a message passes for one, and no byte behind it is overlooked. */
static void test_msg_refuses_every_cut(void **state)
{
	(void)state;
	struct sample s;
	sample_init(&s);
	s.msg.entry_count = 3; /* short enough to try every length */
	struct wire_out o = { 0 };
	wire_put_msg(&o, 1, &s.msg);
	struct slab *body = body_of(&o);
	struct slab *longer = slab_new(body->len + 1);
	memcpy(longer->data, body->data, body->len);
	longer->data[body->len] = 0xc0;
	struct arena a = { 0 };
	struct raft_msg m;
	for (size_t len = 0; len < body->len; len++) {
		/* A copy of exactly that length, so that a read behind it is seen. */
		struct slab *cut = slab_from(body->data, len);
		assert_int_equal(decode(cut, len, &a, &m), ERR_CORRUPT);
		slab_unref(cut);
	}
	assert_int_equal(decode(longer, body->len + 1, &a, &m), ERR_CORRUPT);
	assert_int_equal(decode(longer, body->len, &a, &m), 0);
	arena_fini(&a);
	slab_unref(longer);
	slab_unref(body);
	wire_out_fini(&o);
	sample_fini(&s);
}

/* Bytes flipped at random are refused or decode to something within bounds; nothing else happens. */
static void test_msg_survives_flipped_bytes(void **state)
{
	(void)state;
	struct sample s;
	sample_init(&s);
	s.msg.entry_count = 3;
	struct wire_out o = { 0 };
	wire_put_msg(&o, 1, &s.msg);
	struct slab *body = body_of(&o);
	struct rand r;
	rand_seed(&r, 4711);
	struct arena a = { 0 };
	size_t refused = 0;
	for (int i = 0; i < 20000; i++) {
		struct slab *bad = slab_from(body->data, body->len);
		for (uint64_t k = 0; k <= rand_below(&r, 3); k++)
			bad->data[rand_below(&r, bad->len)] = (uint8_t)rand_u64(&r);
		struct raft_msg m;
		arena_reset(&a);
		if (decode(bad, bad->len, &a, &m) != 0) {
			refused++;
		} else {
			for (size_t k = 0; k < m.entry_count; k++) {
				const struct entry *e = &m.entries[k];
				assert_true(e->term <= m.term && e->index == m.index + 1 + k);
				assert_true(e->len == 0 || e->data + e->len <= bad->data + bad->len);
			}
		}
		slab_unref(bad);
	}
	assert_true(refused > 1000);
	arena_fini(&a);
	slab_unref(body);
	wire_out_fini(&o);
	sample_fini(&s);
}

static int decode_changed(const struct raft_msg *m, struct raft_msg *out)
{
	struct wire_out o = { 0 };
	wire_put_msg(&o, 1, m);
	struct slab *body = body_of(&o);
	struct arena a = { 0 };
	const int rc = decode(body, body->len, &a, out);
	arena_fini(&a);
	slab_unref(body);
	wire_out_fini(&o);
	return rc;
}

/* What no core would send is refused before the core sees it: it may assert what its peers owe it. */
static void test_msg_refuses_impossible_entries(void **state)
{
	(void)state;
	struct sample s;
	struct raft_msg out;
	sample_init(&s);
	assert_int_equal(decode_changed(&s.msg, &out), 0);
	s.entries[2].term = 2; /* goes back */
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	s.entries[2].term = 6; /* above the message's */
	s.entries[3].term = 6;
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	s.entries[2].term = 4;
	s.entries[3].term = 4;
	s.entries[0].kind = 9;
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	s.entries[0].kind = ENTRY_COMMAND; /* without a payload */
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	s.entries[0].kind = ENTRY_NOOP;
	s.entries[2].kind = ENTRY_CONFIG; /* "small" is no configuration */
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	s.entries[2].kind = ENTRY_COMMAND;
	s.msg.type = RAFT_MSG_VOTE; /* carries none */
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	s.msg.type = RAFT_MSG_APPEND;
	s.msg.term = UINT64_MAX;
	assert_int_equal(decode_changed(&s.msg, &out), ERR_CORRUPT);
	sample_fini(&s);
}

/* A five-byte claim of four billion entries costs nothing. */
static void test_msg_refuses_claimed_counts(void **state)
{
	(void)state;
	static const uint8_t claim[] = { 0xdc, 0x00, 0x11, 1, 5,    1,    1,    1,    1,    1,    1,   1,
		                         1,    1,    1,    1, 0xc2, 0xc0, 0xdd, 0xff, 0xff, 0xff, 0xff };
	struct slab *s = slab_from(claim, sizeof(claim));
	struct arena a = { 0 };
	struct raft_msg m;
	assert_int_equal(decode(s, s->len, &a, &m), ERR_CORRUPT);
	arena_fini(&a);
	slab_unref(s);
}

/* The small bodies keep their fields, tags included. */
static void test_register_comes_back_whole(void **state)
{
	(void)state;
	const struct str_pair tags[] = { { STR_LIT("rack"), STR_LIT("r1") }, { STR_LIT("zone"), STR_LIT("z") } };
	const struct wire_register in = { .request = 9,
		                          .id = STR_LIT("n1"),
		                          .addr = STR_LIT("h:1"),
		                          .cluster_addr = STR_LIT("h:2"),
		                          .build = STR_LIT("b"),
		                          .entry_types = 64,
		                          .extra = true,
		                          .placeable = true,
		                          .tags = { tags, 2 } };
	struct wire_out o = { 0 };
	wire_put_record(&o, &wire_register_type, &in);
	struct slab *body = body_of(&o);
	struct arena a = { 0 };
	struct wire_register out;
	struct err e = { 0 };
	assert_int_equal(record_read_mp(&wire_register_type, body->data, body->len, &a, &out, &e), 0);
	assert_true(out.request == 9 && out.entry_types == 64 && out.extra && out.placeable);
	assert_true(str_is(out.id, "n1") && str_is(out.cluster_addr, "h:2") && str_is(out.build, "b"));
	assert_int_equal(out.tags.count, 2);
	assert_true(str_is(out.tags.items[1].key, "zone") && str_is(out.tags.items[1].value, "z"));
	assert_int_equal(record_read_mp(&wire_probe_type, body->data, body->len, &a, &out, &e), ERR_CORRUPT);
	arena_fini(&a);
	slab_unref(body);
	wire_out_fini(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_msg_comes_back_whole),
		cmocka_unit_test(test_msg_refers_to_large_payloads),
		cmocka_unit_test(test_msg_carries_an_image),
		cmocka_unit_test(test_msg_refuses_every_cut),
		cmocka_unit_test(test_msg_survives_flipped_bytes),
		cmocka_unit_test(test_msg_refuses_impossible_entries),
		cmocka_unit_test(test_msg_refuses_claimed_counts),
		cmocka_unit_test(test_register_comes_back_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
