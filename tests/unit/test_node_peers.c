/* Three nodes and what they owe each other: old entries, identity, addresses, entry types - and a storm of faults. */
#include "tests/unit/node_trio.h"

#include "base/rand.h"
#include "node/wire.h"

/* ---- catching up ---- */

/* Half a MiB that is no envelope but for its first byte: refused the same way everywhere, and in the log all the same.
 */
static struct slab *large_entry(uint32_t number)
{
	struct slab *s = slab_new(512 * 1024);
	s->len = 512 * 1024;
	memset(s->data, 0, s->len);
	s->data[0] = ENTRY_VERSION;
	put_le64(s->data + 64, number);
	return s;
}

/* A follower that missed more than raft keeps in memory gets it from the log's files, by ranges. */
static void test_follower_catches_up_from_files(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t away = other_than(w, leader, leader);
	world_stop(w, away);
	for (uint32_t i = 0; i < 24; i++) {
		struct slab *s = large_entry(i);
		world_propose_entry(w, leader, s, i, 0, 0);
		assert_int_equal(world_wait(w, leader).code, FSM_UNDECODABLE);
	}
	const raft_index last = world_create(w, leader, "end");
	world_start(w, away);
	world_until(w, world_applied(w, away) >= last);
	assert_true(world_has_topic(w, away, "end"));
	expect_equal_states(w);
}

/* An untrusted fsm.mdb is rebuilt from a log longer than what a start loads: its own apply fetches the rest. */
static void test_own_apply_fetches_old_entries(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t victim = other_than(w, leader, leader);
	world_create(w, leader, "begin");
	for (uint32_t i = 0; i < 16; i++) {
		struct slab *s = large_entry(i);
		world_propose_entry(w, leader, s, i, 0, 0);
		world_wait(w, leader);
	}
	const raft_index last = world_create(w, leader, "end");
	world_until(w, all_applied(w, last));
	world_stop(w, victim);
	char mark[200];
	snprintf(mark, sizeof(mark), "%s/fsm.mark", w->nodes[victim].dir);
	assert_int_equal(unlink(mark), 0);
	world_start(w, victim);
	assert_true(world_applied(w, victim) < last);
	world_until(w, world_applied(w, victim) >= last);
	assert_true(world_has_topic(w, victim, "begin") && world_has_topic(w, victim, "end"));
	expect_equal_states(w);
}

/* ---- identity and addresses ---- */

/* A server that comes back on another port with its disk: peers find it, the configuration and its row follow (F12). */
static void test_moved_server_is_followed(void **state)
{
	struct world *w = *state;
	for (size_t i = 0; i < 3; i++)
		w->nodes[i].options.member_heartbeat_ms = 1000;
	const size_t leader = start_three(w);
	const size_t mover = other_than(w, leader, leader);
	world_stop(w, mover);
	snprintf(w->nodes[mover].addr, sizeof(w->nodes[mover].addr), "127.0.0.1:7777");
	world_start(w, mover);
	const uint64_t begin = world_mono_ms;
	for (size_t i = 0; i < 3; i++) {
		const struct raft_server *s;
		struct node_status st;
		world_until(w, (st = world_status(w, i), s = raft_conf_find_name(&st.conf, w->nodes[mover].name), s) &&
		                   strcmp(s->addr, "127.0.0.1:7777") == 0);
	}
	assert_true(world_mono_ms - begin < 10000);
	world_until(w, node_is_caught_up(w->nodes[mover].node, NULL, 0));
	world_create(w, world_leader(w), "a");
	expect_equal_states(w);
}

/* All servers come back elsewhere at once, and only the flags know: the addresses of the configuration lead nowhere, so
 * those of --peers are tried too. The other way round, after the configuration followed, old flags do no harm (F12). */
static void test_all_moved_at_once(void **state)
{
	struct world *w = *state;
	struct node_peer_addr old[WORLD_NODES];
	memcpy(old, w->peers, sizeof(old));
	for (size_t i = 0; i < 3; i++)
		w->nodes[i].options.member_heartbeat_ms = 1000;
	world_create(w, start_three(w), "a");
	for (size_t i = 0; i < 3; i++)
		world_stop(w, i);
	for (size_t i = 0; i < 3; i++) {
		snprintf(w->nodes[i].addr, sizeof(w->nodes[i].addr), "127.0.0.1:%zu", 8001 + i);
		snprintf(w->peers[i].addr, sizeof(w->peers[i].addr), "127.0.0.1:%zu", 8001 + i);
	}
	for (size_t i = 0; i < 3; i++)
		world_start(w, i);
	for (size_t i = 0; i < 3; i++) {
		struct node_status s;
		world_until(w, (s = world_status(w, i), strcmp(s.conf.servers[0].addr, "127.0.0.1:8001") == 0 &&
		                                            strcmp(s.conf.servers[1].addr, "127.0.0.1:8002") == 0 &&
		                                            strcmp(s.conf.servers[2].addr, "127.0.0.1:8003") == 0));
	}
	memcpy(w->peers, old, sizeof(old));
	for (size_t i = 0; i < 3; i++)
		world_stop(w, i);
	for (size_t i = 0; i < 3; i++)
		world_start(w, i);
	world_until(w, world_leader(w) < WORLD_NODES && all_registered(w));
	world_create(w, world_leader(w), "b");
	expect_equal_states(w);
}

/* Frames that are damaged, of an unknown type, in another's name or of another cluster change nothing. */
static void test_hostile_frames_change_nothing(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t victim = other_than(w, leader, leader);
	const struct node_status s = world_status(w, victim);
	struct wire_out o = { 0 };
	/* What a new leader of a far term would say: believed, it changes the term at once. */
	struct raft_msg m = { .type = RAFT_MSG_APPEND,
		              .from = s.conf.servers[leader].id,
		              .to = s.conf.servers[victim].id,
		              .term = s.term + 100 };
	const struct net_hello real = w->nodes[leader].net.self;
	struct net_hello liar = real;
	liar.incarnation = 4242;
	size_t count;
	wire_put_msg(&o, s.cluster_id + 1, &m); /* another cluster */
	world_post(w, victim, &real, WIRE_RAFT, slab_from(wire_pieces(&o, &count)->p, o.head.len));
	wire_put_msg(&o, 0, &m); /* no cluster */
	world_post(w, victim, &real, WIRE_RAFT, slab_from(wire_pieces(&o, &count)->p, o.head.len));
	wire_put_msg(&o, s.cluster_id, &m); /* in another's name */
	world_post(w, victim, &liar, WIRE_RAFT, slab_from(wire_pieces(&o, &count)->p, o.head.len));
	m.to = 4242; /* for another */
	wire_put_msg(&o, s.cluster_id, &m);
	world_post(w, victim, &real, WIRE_RAFT, slab_from(wire_pieces(&o, &count)->p, o.head.len));
	struct rand r;
	rand_seed(&r, 7);
	for (int i = 0; i < 3000; i++) {
		struct slab *junk = slab_new(64);
		junk->len = rand_below(&r, 64);
		for (size_t k = 0; k < junk->len; k++)
			junk->data[k] = (uint8_t)rand_u64(&r);
		world_post(w, victim, &real, (uint16_t)rand_below(&r, 8), junk);
	}
	wire_out_fini(&o);
	world_run(w, 1000);
	assert_int_equal(world_status(w, victim).term, s.term);
	assert_true(world_logged("peer.other_cluster"));
	assert_true(world_logged("peer.bad_frame"));
	world_create(w, world_leader(w), "a");
	expect_equal_states(w);
}

/* Nobody registers for another, and a wiped directory is not alive by having a familiar name. */
static void test_registration_is_for_oneself(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t other = other_than(w, leader, leader);
	const raft_index last = world_status(w, leader).last_index;
	struct wire_register rec = { .request = 0, /* so that the answer is nobody's */
		                     .id = str_of(w->nodes[leader].name),
		                     .addr = STR_LIT("evil:1"),
		                     .cluster_addr = STR_LIT("evil:2"),
		                     .build = STR_LIT("b"),
		                     .entry_types = 1 };
	struct wire_out o = { 0 };
	size_t count;
	wire_put_record(&o, &wire_register_type, &rec);
	world_post(w, leader, &w->nodes[other].net.self, WIRE_REGISTER,
	           slab_from(wire_pieces(&o, &count)->p, o.head.len));
	struct net_hello wiped = w->nodes[other].net.self;
	wiped.incarnation ^= 1;
	rec.id = str_of(w->nodes[other].name);
	wire_put_record(&o, &wire_register_type, &rec);
	world_post(w, leader, &wiped, WIRE_REGISTER, slab_from(wire_pieces(&o, &count)->p, o.head.len));
	wire_out_fini(&o);
	world_run(w, 500);
	assert_int_equal(world_status(w, leader).last_index, last);
	assert_int_equal(world_status(w, leader).cluster_min_type, fsm_max_known_type());
}

/* One older server holds new entry types back for all; once it runs the new release they pass (F26). */
static void test_gate_follows_the_oldest_server(void **state)
{
	struct world *w = *state;
	for (size_t i = 0; i < 3; i++)
		w->nodes[i].options.member_heartbeat_ms = 500;
	w->nodes[2].options.max_entry_type = 32;
	size_t leader = start_three(w);
	world_until(w, world_status(w, leader).cluster_min_type == 32);
	world_propose_entry(w, leader, world_topic_entry("a"), 1, 0, 33);
	assert_int_equal(world_wait(w, leader).code, ERR_VERSION);
	world_stop(w, 2); /* down, it still counts as it was */
	world_until(w, world_leader(w) < 2);
	leader = world_leader(w);
	world_run(w, 2000);
	assert_int_equal(world_status(w, leader).cluster_min_type, 32);
	w->nodes[2].options.max_entry_type = 0;
	world_start(w, 2);
	world_until(w,
	            world_leader(w) < 3 && world_status(w, world_leader(w)).cluster_min_type == fsm_max_known_type());
}

/* ---- everything at once ---- */

/* Kills, cuts and freezes drawn from a seed, writes all along: what was acknowledged is everywhere, states are equal.
 */
static void test_storm_keeps_what_was_acknowledged(void **state)
{
	struct world *w = *state;
	(void)start_three(w);
	struct rand r;
	rand_seed(&r, 2024);
	char acked[400][32];
	size_t count = 0;
	int made = 0;
	for (int round = 0; round < 60; round++) {
		const size_t i = rand_below(&r, 3);
		switch (rand_below(&r, 4)) {
		case 0:
			if (w->nodes[i].node) {
				world_stop(w, i);
			} else {
				w->nodes[i].frozen = false;
				world_start(w, i);
			}
			break;
		case 1: isolate(w, i, rand_below(&r, 2) == 0); break;
		case 2: cut(w, i, (i + 1) % 3, rand_below(&r, 2) == 0); break;
		case 3: w->nodes[i].frozen = w->nodes[i].node && !w->nodes[i].frozen; break;
		}
		for (int k = 0; k < 6; k++) {
			const size_t leader = world_leader(w);
			char name[32];
			snprintf(name, sizeof(name), "s%d", made++);
			if (leader < WORLD_NODES && !w->nodes[leader].frozen)
				world_propose(w, leader, name, (uint32_t)made - 1);
			world_run(w, 5 * rand_below(&r, 20));
			for (size_t n = 0; n < 3; n++) {
				struct node_completion c;
				while (queue_take(w->nodes[n].done, &c)) {
					if (c.code == 0 && count < ARRAY_LEN(acked))
						snprintf(acked[count++], sizeof(acked[0]), "s%" PRIu32, c.slot);
				}
			}
		}
	}
	memset(w->nodes[0].cut, 0, sizeof(w->nodes[0].cut));
	memset(w->nodes[1].cut, 0, sizeof(w->nodes[1].cut));
	memset(w->nodes[2].cut, 0, sizeof(w->nodes[2].cut));
	for (size_t i = 0; i < 3; i++) {
		w->nodes[i].frozen = false;
		if (!w->nodes[i].node)
			world_start(w, i);
	}
	world_until(w, world_leader(w) < WORLD_NODES && all_registered(w));
	world_run(w, 3000);
	expect_equal_states(w);
	assert_true(count > 20);
	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < count; k++) {
			if (!world_has_topic(w, i, acked[k]))
				fail_msg("n%zu lost %s", i + 1, acked[k]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, trio_setup, world_teardown)
		TEST(test_follower_catches_up_from_files), TEST(test_own_apply_fetches_old_entries),
		TEST(test_moved_server_is_followed),       TEST(test_all_moved_at_once),
		TEST(test_hostile_frames_change_nothing),  TEST(test_registration_is_for_oneself),
		TEST(test_gate_follows_the_oldest_server), TEST(test_storm_keeps_what_was_acknowledged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
