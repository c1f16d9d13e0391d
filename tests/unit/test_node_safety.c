/* What stops a node, and what only makes it careful: damage that the scrub finds, entries it cannot apply, a disk that
 * fills. */
#include "tests/unit/node_snap.h"

#include <sys/statvfs.h>

#include "node/snapshots.h"

/* ---- a file system of the test's own size ---- */

#define MIB (1ull << 20)

static struct {
	char below[600]; /* directories below it have so much free; "" = none */
	uint64_t free_bytes;
	unsigned looks;
} room;

int statvfs(const char *path, struct statvfs *out)
{
	memset(out, 0, sizeof(*out));
	out->f_frsize = 1;
	out->f_blocks = 1ull << 40;
	out->f_bavail = 1ull << 40;
	if (room.below[0] != '\0' && strncmp(path, room.below, strlen(room.below)) == 0) {
		out->f_bavail = room.free_bytes;
		room.looks++;
	}
	return 0;
}

static void set_room(const char *below, uint64_t free_bytes)
{
	snprintf(room.below, sizeof(room.below), "%s", below);
	room.free_bytes = free_bytes;
}

static int setup(void **state, size_t count)
{
	const int rc = world_setup(state, count);
	struct world *w = *state;
	set_room("", 0);
	for (size_t i = 0; i < count; i++) {
		w->nodes[i].options.room_reserve = NODE_ROOM_RESERVE;
		w->nodes[i].options.scrub = true;
		w->nodes[i].options.snapshot_entries = 1u << 30;
	}
	return rc;
}

static int setup_one(void **state)
{
	return setup(state, 1);
}

static int setup_three(void **state)
{
	return setup(state, 3);
}

/* ---- the scrub ---- */

/* Flips a bit of the record that holds `needle`, in every page of the file that has it: the old ones as well. */
static void flip_record(struct world *w, const char *needle)
{
	const char *path = snap_path(w, 0, "fsm.mdb");
	const off_t size = snap_size(path);
	char *bytes = mem_alloc((size_t)size);
	const int fd = open(path, O_RDWR);
	size_t found = 0;
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, (size_t)size, 0), size);
	for (size_t at = 0; at + strlen(needle) < (size_t)size; at++) {
		if (memcmp(bytes + at, needle, strlen(needle)) != 0)
			continue;
		const char flipped = (char)(bytes[at] ^ 1);
		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
		found++;
	}
	assert_true(found > 0);
	close(fd);
	mem_free(bytes);
}

/* F16: one bit of one record flips in the file of a running node. Within 20 s of a small state the node has stopped,
 * names the bucket, and the next start does not believe the file: it makes it anew and has the record right. */
static void test_F16_flipped_bit_is_found(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	snap_create(w, 0, "a", 5);
	(void)snap_take(w, 0);
	world_create(w, 0, "needle");
	const struct fsm_digest right = world_digest(w, 0);
	world_until(w, world_status(w, 0).scrub_rounds > 0); /* nothing is wrong: nothing is found */
	assert_int_equal(world_status(w, 0).stopped[0], '\0');
	flip_record(w, "\"name\":\"needle\"");
	world_until(w, world_status(w, 0).stopped[0] != '\0');
	assert_non_null(strstr(world_status(w, 0).stopped, "bucket topics is damaged"));
	assert_true(world_logged("stopped, fsm.mdb is damaged"));
	assert_false(node_is_leader(w->nodes[0].node));
	assert_false(snap_exists(snap_path(w, 0, "fsm.mark")));
	world_stop(w, 0);
	world_log_clear();
	world_start_leader(w);
	assert_true(world_logged("restored fsm.mdb from a snapshot"));
	assert_true(world_has_topic(w, 0, "needle"));
	assert_true(world_digest(w, 0).db[STORE_TOPICS] == right.db[STORE_TOPICS]);
	snap_expect_sound(w, 0);
}

/* A damaged state is not copied over what is there to mend it: the snapshot fails and the node stops. */
static void test_F16_damaged_copy_is_no_snapshot(void **state)
{
	struct world *w = *state;
	w->nodes[0].options.scrub = false;
	world_start_leader(w);
	const raft_index good = world_create(w, 0, "a");
	(void)snap_take(w, 0);
	world_create(w, 0, "needle");
	flip_record(w, "\"name\":\"needle\"");
	assert_int_equal(snap_ask(w, 0).code, ERR_CORRUPT);
	world_until(w, world_status(w, 0).stopped[0] != '\0');
	assert_non_null(strstr(world_status(w, 0).stopped, "copy of fsm.mdb: bucket topics"));
	assert_int_equal(snap_count(snap_path(w, 0, "snapshots"), ""), 1);
	world_stop(w, 0);
	world_start_leader(w);
	assert_true(world_status(w, 0).snapshot_index >= good);
	assert_true(world_has_topic(w, 0, "needle"));
	snap_expect_sound(w, 0);
}

/* ---- entries that cannot be applied ---- */

/* Bytes that do not decode stop nobody: consumed on every node, counted, said at error level, and they leave nothing.
 */
static void test_undecodable_entry_is_consumed(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	struct slab *s = world_topic_entry("x");
	struct entry_view v;
	struct err e = { 0 };
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), 0);
	s->data[v.commands - s->data + 5] = 0xc1; /* a byte that msgpack does not have */
	world_propose_entry(w, leader, s, 2, 0, 0);
	const struct node_completion c = world_wait(w, leader);
	assert_int_equal(c.code, FSM_UNDECODABLE);
	assert_true(world_logged("raft entry does not decode"));
	world_create(w, leader, "y");
	world_until(w, all_applied(w, c.index + 1));
	world_run(w, 20);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(world_status(w, i).undecodable, 1);
		assert_int_equal(world_status(w, i).stopped[0], '\0');
		assert_false(world_has_topic(w, i, "x"));
		assert_true(world_has_topic(w, i, "y"));
	}
	expect_equal_states(w);
}

/* F26: an entry of a type that this release does not know is in the log. A node that meets it stops there: it proposes,
 * acknowledges and votes for nothing from then on, its applied index stays where it was, no snapshot is written. */
static void test_F26_stopped_node_counts_for_nothing(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	struct slab *s = world_topic_entry("unknown");
	struct entry_view v;
	struct err e = { 0 };
	assert_int_equal(entry_decode(s->data, s->len, &v, &e), 0);
	s->data[v.commands - s->data] = 250;
	const raft_index before = world_create(w, leader, "a");
	world_until(w, all_applied(w, before));
	world_propose_entry(w, leader, s, 3, 0, 0);
	assert_int_equal(world_wait(w, leader).code, ERR_CLOSED);
	world_until(w, world_status(w, 0).stopped[0] != '\0' && world_status(w, 1).stopped[0] != '\0' &&
	                   world_status(w, 2).stopped[0] != '\0');
	assert_true(world_logged("type=250"));
	world_run(w, 50);
	const size_t frames = w->frames;
	world_propose(w, leader, "never", 4);
	assert_int_equal(world_wait(w, leader).code, ERR_STOPPED);
	world_run(w, 5000);
	assert_int_equal(w->frames, frames); /* no vote, no answer, no heartbeat */
	for (size_t i = 0; i < 3; i++) {
		assert_true(world_applied(w, i) >= before && !world_has_topic(w, i, "unknown"));
		assert_int_equal(world_status(w, i).role, RAFT_FOLLOWER);
		assert_false(node_is_caught_up(w->nodes[i].node, NULL, 0));
		assert_int_equal(snap_ask(w, i).code, ERR_STOPPED);
	}
	assert_int_equal(world_applied(w, 0), world_applied(w, 1));
	assert_int_equal(world_applied(w, 0), world_applied(w, 2));
}

/* ---- a disk that fills ---- */

/* F23: below the reserve the node says so, above it it says so too; nobody has to clear anything. What fsm.mdb can use
 * again counts as room. */
static void test_F23_low_disk_recovers_by_itself(void **state)
{
	struct world *w = *state;
	world_start_leader(w);
	world_until(w, world_status(w, 0).room.reserve_bytes == NODE_ROOM_RESERVE);
	assert_false(world_status(w, 0).room.low);
	set_room(w->root, 8 * MIB);
	world_until(w, world_status(w, 0).room.low);
	assert_int_equal(world_status(w, 0).room.free_bytes, 8 * MIB);
	assert_true(world_logged("disk.low") && world_logged("remedy=\"make room"));
	assert_true(node_is_leader(w->nodes[0].node)); /* nobody to hand over to */
	world_create(w, 0, "a");                       /* what is refused is the service's; the log goes on */
	set_room(w->root, NODE_ROOM_RESERVE - 1024);   /* less than a page of fsm.mdb is missing */
	world_run(w, 2500);
	const struct node_room r = world_status(w, 0).room;
	assert_true(r.low == (r.reusable_bytes < 1024));
	set_room(w->root, NODE_ROOM_RESERVE);
	world_until(w, !world_status(w, 0).room.low);
	assert_true(world_logged("disk.room"));
}

/* F23: only the leader's disk fills: the office moves, once, and writes go on there. */
static void test_F23_leader_with_a_full_disk_hands_over(void **state)
{
	struct world *w = *state;
	const size_t old = start_three(w);
	world_create(w, old, "a");
	set_room(w->nodes[old].dir, 2 * MIB);
	world_until(w, world_leader(w) < WORLD_NODES && world_leader(w) != old && !node_is_leader(w->nodes[old].node));
	assert_true(world_logged("disk.hand_over"));
	const raft_index index = world_create(w, world_leader(w), "b");
	world_until(w, all_applied(w, index)); /* it still follows: the reserve is there for that */
	expect_equal_states(w);
}

/* F23: only a follower's disk fills, to the last: writes go on, it takes nothing more and does not stop; with room
 * again it has everything. */
static void test_F23_follower_with_a_full_disk_waits(void **state)
{
	struct world *w = *state;
	const size_t leader = start_three(w);
	const size_t full = (leader + 1) % 3;
	set_room(w->nodes[full].dir, MIB / 2);
	world_until(w, world_status(w, full).room.out);
	const raft_term term = world_status(w, leader).term;
	const raft_index had = world_status(w, full).last_index;
	raft_index last = 0;
	for (int i = 0; i < 20; i++) {
		char name[16];
		snprintf(name, sizeof(name), "t%d", i);
		last = world_create(w, leader, name);
	}
	world_run(w, 3000);
	assert_int_equal(world_status(w, full).last_index, had);
	assert_int_equal(world_status(w, full).stopped[0], '\0');
	assert_int_equal(world_status(w, leader).term, term);
	set_room("", 0);
	world_until(w, world_applied(w, full) >= last);
	expect_equal_states(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_F16_flipped_bit_is_found, setup_one, world_teardown),
		cmocka_unit_test_setup_teardown(test_F16_damaged_copy_is_no_snapshot, setup_one, world_teardown),
		cmocka_unit_test_setup_teardown(test_undecodable_entry_is_consumed, setup_three, world_teardown),
		cmocka_unit_test_setup_teardown(test_F26_stopped_node_counts_for_nothing, setup_three, world_teardown),
		cmocka_unit_test_setup_teardown(test_F23_low_disk_recovers_by_itself, setup_one, world_teardown),
		cmocka_unit_test_setup_teardown(test_F23_leader_with_a_full_disk_hands_over, setup_three,
		                                world_teardown),
		cmocka_unit_test_setup_teardown(test_F23_follower_with_a_full_disk_waits, setup_three, world_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
