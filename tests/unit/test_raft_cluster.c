/* Whole clusters by script: what happens, line by line, is compared with tests/raft/<name>.txt (REWRITE=1 writes it).
 */
#include "raft_cluster.h"

static void settle(struct rc *c, uint64_t ms)
{
	rc_run(c, ms);
	assert_string_equal(c->violation, "");
}

/* A cluster of `n` that has elected n1 and committed a little. */
static struct rc *settled(size_t n, uint64_t seed)
{
	struct rc *c = rc_new(n, seed);
	rc_bootstrap(c, (uint32_t)n);
	settle(c, 100);
	assert_int_equal(rc_leader(c), 0);
	assert_int_equal(rc_propose(c, 0, 2), 0);
	settle(c, 20);
	buf_clear(&c->text);
	return c;
}

static void finish(struct rc *c, const char *name)
{
	text_expect_file(&c->text, name);
	rc_free(c);
}

/* §5.2, bootstrap: one node is told who belongs, the others learn it from the log. */
static void test_bootstrap_and_first_entries(void **state)
{
	(void)state;
	struct rc *c = rc_new(3, 1);
	rc_bootstrap(c, 3);
	settle(c, 30);
	rc_note(c, "three proposals in one turn");
	assert_int_equal(rc_propose(c, 0, 3), 0);
	settle(c, 30);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(rc_view(c, i).applied_index, 5);
		assert_int_equal(rc_view(c, i).conf->count, 3);
		assert_int_equal(rc_view(c, i).leader_commit, 5);
	}
	finish(c, "bootstrap");
}

/* A dead leader whose address refuses is replaced in about a tenth of a second, not in an election timeout. */
static void test_early_prevote_replaces_a_dead_leader(void **state)
{
	(void)state;
	struct rc *c = settled(3, 2);
	rc_note(c, "n1 is killed; its links break and its address refuses");
	rc_crash(c, 0, true);
	for (size_t i = 1; i < 3; i++) {
		raft_peer_lost(c->nodes[i].raft, 1, false);
		raft_peer_lost(c->nodes[i].raft, 1, true);
		c->nodes[i].dirty = true;
	}
	settle(c, 115);
	assert_true(rc_leader(c) > 0);
	rc_note(c, "n1 comes back");
	rc_start(c, 0);
	settle(c, 150);
	assert_int_equal(rc_view(c, 0).applied_index, rc_view(c, (size_t)rc_leader(c)).commit_index);
	finish(c, "early-prevote");
}

/* F01, §5.4.2, figure 8: an entry of term 2 on three of five is not committed by that, and so a leader without it may
 * still replace it; once an entry of the leader's own term is on a majority, it may not. */
static void test_F01_figure_8(void **state)
{
	(void)state;
	struct rc *c = rc_new(5, 3);
	c->params.append_bytes_max = 1; /* entry by entry */
	rc_bootstrap(c, 5);
	settle(c, 100);
	assert_int_equal(rc_leader(c), 0);
	buf_clear(&c->text);
	c->trace = RC_TRACE_EVENTS | RC_TRACE_COMMITS;
	const raft_index before = rc_view(c, 0).commit_index;

	rc_note(c, "n1 reaches only n2 with a new entry, then dies");
	for (size_t i = 2; i < 5; i++)
		c->cut[0][i] = true;
	assert_int_equal(rc_propose(c, 0, 1), 0);
	settle(c, 3);
	rc_crash(c, 0, true);
	rc_heal(c);

	rc_note(c, "n5 is elected by n3 and n4, appends locally, and dies");
	rc_cut_off(c, 1, true);
	rc_let_win(c, 4);
	for (size_t i = 0; i < 4; i++)
		c->cut[4][i] = true;
	assert_int_equal(rc_propose(c, 4, 1), 0);
	settle(c, 3);
	rc_crash(c, 4, true);
	rc_heal(c);

	rc_note(c, "n1 is elected by n2 and n3; its old entry reaches n3, its no-op only n2");
	rc_start(c, 0);
	rc_cut_off(c, 3, true);
	rc_let_win(c, 0);
	c->trace |= RC_TRACE_MSGS;
	for (int i = 0; i < 50 && rc_disk_last(&c->nodes[2].disk) <= before; i++)
		rc_step(c);
	for (size_t i = 1; i < 5; i++)
		c->cut[0][i] = true;
	for (size_t i = 0; i < 3; i++)
		assert_true(rc_disk_holds(&c->nodes[i].disk, before + 1, 2));
	settle(c, 20);
	assert_int_equal(rc_view(c, 0).commit_index, before);
	rc_crash(c, 0, true);
	rc_heal(c);

	rc_note(c, "n5 is elected and replaces it everywhere");
	c->trace = RC_TRACE_EVENTS | RC_TRACE_COMMITS;
	rc_start(c, 4);
	rc_let_win(c, 4);
	settle(c, 100);
	rc_start(c, 0);
	settle(c, 300);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(rc_view(c, i).applied_index, rc_view(c, 4).commit_index);
		assert_int_equal(raft_term_at(c->nodes[i].raft, before + 1), 3);
	}
	finish(c, "figure-8");
}

/* F05: one follower lost only the leader. The term rises by at most one, writes go on, the follower knows it is cut
 * off. */
static void test_F05_one_link_cut(void **state)
{
	(void)state;
	for (int one_way = 0; one_way < 2; one_way++) {
		struct rc *c = settled(3, 4);
		const raft_term term = rc_view(c, 0).term;
		c->trace = RC_TRACE_EVENTS;
		rc_note(c, one_way ? "n1 no longer reaches n2" : "n1 and n2 no longer reach each other");
		c->cut[0][1] = true;
		c->cut[1][0] = !one_way;
		for (int i = 0; i < 60; i++) {
			settle(c, 1000);
			const int leader = rc_leader(c);
			assert_true(leader >= 0);
			assert_int_equal(rc_propose(c, (size_t)leader, 1), 0);
			const raft_index last = rc_view(c, (size_t)leader).last_index;
			settle(c, 10);
			assert_true(rc_view(c, (size_t)leader).commit_index >= last);
		}
		assert_in_range(rc_view(c, (size_t)rc_leader(c)).term, term, term + 1);
		assert_true(c->now_ms - rc_view(c, 1).contact_ms > 59000);
		rc_note(c, "the link is back");
		rc_heal(c);
		settle(c, 2000);
		assert_int_equal(rc_view(c, 1).applied_index, rc_view(c, 2).applied_index);
		assert_in_range(rc_view(c, (size_t)rc_leader(c)).term, term, term + 1);
		finish(c, one_way ? "link-cut-one-way" : "link-cut");
	}
}

/* F06: a leader that was stopped finds itself deposed: it proposes nothing, and acknowledges nothing, on waking. */
static void test_F06_frozen_leader(void **state)
{
	(void)state;
	struct rc *c = settled(3, 5);
	c->trace = RC_TRACE_EVENTS;
	rc_note(c, "n1 is stopped for 10 s");
	assert_int_equal(rc_propose(c, 0, 1), 0); /* queued, not yet sent */
	c->nodes[0].frozen_until_ms = c->now_ms + 10000;
	settle(c, 9999);
	assert_true(rc_leader(c) >= 0);
	assert_int_equal(rc_propose(c, (size_t)(rc_view(c, 1).role == RAFT_LEADER ? 1 : 2), 2), 0);
	rc_note(c, "and goes on");
	settle(c, 1);
	assert_int_equal(rc_view(c, 0).role, RAFT_FOLLOWER);
	settle(c, 500);
	assert_int_equal(rc_view(c, 0).applied_index, rc_view(c, 1).applied_index);
	finish(c, "frozen-leader");
}

static void change(struct rc *c, enum raft_change what, node_id id)
{
	struct raft_server s = { .id = id };
	snprintf(s.name, sizeof(s.name), "n%u", (unsigned)(id % 100));
	snprintf(s.addr, sizeof(s.addr), "10.0.0.%u:7943", (unsigned)(id % 100));
	raft_index index;
	struct err e = { 0 };
	const size_t leader = (size_t)rc_leader(c);
	if (raft_change_conf(c->nodes[leader].raft, what, &s, &index, &e) != 0)
		fail_msg("%s", e.msg);
	c->nodes[leader].dirty = true;
}

/* F09: a server removed while it was cut off disturbs nobody when it is back, and is admitted anew as a learner. */
static void test_F09_removed_server_comes_back(void **state)
{
	(void)state;
	struct rc *c = settled(3, 6);
	c->trace = RC_TRACE_EVENTS;
	const raft_term term = rc_view(c, 0).term;
	rc_note(c, "n3 is cut off for 30 s, and removed");
	rc_cut_off(c, 2, true);
	settle(c, 1000);
	change(c, RAFT_REMOVE, 3);
	settle(c, 29000);
	rc_note(c, "n3 is back");
	rc_heal(c);
	settle(c, 5000);
	assert_int_equal(rc_leader(c), 0);
	assert_int_equal(rc_view(c, 0).term, term);
	rc_note(c, "n3 is added as a learner, then promoted");
	change(c, RAFT_ADD_LEARNER, 3);
	settle(c, 500);
	assert_int_equal(rc_view(c, 2).applied_index, rc_view(c, 0).commit_index);
	change(c, RAFT_PROMOTE, 3);
	settle(c, 500);
	assert_int_equal(rc_leader(c), 0);
	assert_int_equal(rc_view(c, 0).term, term);
	finish(c, "removed-server");
}

/* F12 (a): a wiped voter elects nobody; with a stale one it makes no majority. Admitted as a learner it catches up. */
static void test_F12_wiped_voter(void **state)
{
	(void)state;
	struct rc *c = settled(3, 7);
	c->trace = RC_TRACE_EVENTS;
	rc_note(c, "n2 is cut off and misses entries; n3 loses its disk; n1 dies");
	rc_cut_off(c, 1, true);
	assert_int_equal(rc_propose(c, 0, 3), 0);
	settle(c, 50);
	rc_crash(c, 2, true);
	rc_wipe(c, 2);
	rc_start(c, 2);
	rc_crash(c, 0, true);
	rc_heal(c);
	settle(c, 20000);
	assert_int_equal(rc_leader(c), -1);
	rc_note(c, "n1 is back");
	rc_start(c, 0);
	settle(c, 3000);
	assert_int_equal(rc_leader(c), 0);
	change(c, RAFT_DEMOTE, 103);
	settle(c, 1000);
	change(c, RAFT_PROMOTE, 103);
	settle(c, 1000);
	assert_int_equal(rc_view(c, 2).applied_index, rc_view(c, 0).commit_index);
	finish(c, "wiped-voter");
}

/* F13: a server added on an isolated leader, a snapshot just before; the new leader cuts the entry off. */
static void test_F13_cut_off_change(void **state)
{
	(void)state;
	struct rc *c = settled(3, 8);
	c->trace = RC_TRACE_EVENTS;
	rc_snapshot(c, 0);
	rc_cut_off(c, 0, true);
	rc_note(c, "n1, cut off, adds n4");
	change(c, RAFT_ADD_LEARNER, 4);
	settle(c, 3000);
	assert_true(rc_leader(c) > 0);
	rc_note(c, "n1 is back");
	rc_heal(c);
	settle(c, 500);
	rc_note(c, "n1 restarts from its snapshot");
	rc_crash(c, 0, true);
	rc_start(c, 0);
	settle(c, 500);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(rc_view(c, i).conf->count, 3);
	finish(c, "cut-off-change");
}

/* §7: a follower that missed more than the log holds gets image and rest, and the log is not cut under it. */
static void test_snapshot_to_a_late_follower(void **state)
{
	(void)state;
	struct rc *c = settled(3, 9);
	rc_cut_off(c, 2, true);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(rc_propose(c, 0, 8), 0);
		settle(c, 20);
		rc_snapshot(c, 0);
	}
	assert_true(rc_view(c, 0).first_index > 10);
	buf_clear(&c->text);
	rc_note(c, "n3 is back, and restarts in the middle of the image");
	rc_heal(c);
	for (int i = 0; i < 3000 && c->nodes[2].incoming_bytes == 0; i++)
		rc_step(c);
	rc_crash(c, 2, true);
	raft_peer_lost(c->nodes[0].raft, 3, false);
	rc_start(c, 2);
	settle(c, 500);
	assert_int_equal(rc_view(c, 2).applied_index, rc_view(c, 0).commit_index);
	assert_int_equal(rc_view(c, 2).snapshot_index, rc_view(c, 0).snapshot_index);
	finish(c, "snapshot");
}

/* §3.10: leadership moves and comes back, with nothing lost and hardly a gap. */
static void test_transfer_there_and_back(void **state)
{
	(void)state;
	struct rc *c = settled(3, 10);
	assert_int_equal(raft_transfer(c->nodes[0].raft, 3, NULL), 0);
	c->nodes[0].dirty = true;
	settle(c, 12);
	assert_int_equal(rc_leader(c), 2);
	assert_int_equal(rc_propose(c, 2, 1), 0);
	settle(c, 20);
	assert_int_equal(raft_transfer(c->nodes[2].raft, 0, NULL), 0);
	c->nodes[2].dirty = true;
	settle(c, 20);
	assert_int_not_equal(rc_leader(c), 2);
	finish(c, "transfer");
}

/* Driven by nothing but the deadlines raft_ready names, a cluster elects, notices a death, and elects again. */
static void test_deadlines_suffice(void **state)
{
	(void)state;
	struct rc *c = settled(3, 11);
	rc_crash(c, 0, true);
	settle(c, 3000);
	assert_true(rc_leader(c) > 0);
	rc_free(c);
}

/* The same seed gives the same trace. */
static void test_same_seed_same_trace(void **state)
{
	(void)state;
	struct buf traces[2] = { { 0 }, { 0 } };
	for (int i = 0; i < 2; i++) {
		struct rc *c = settled(5, 12);
		c->delay_max_ms = 20;
		c->disk_max_ms = 10;
		c->loss_percent = c->dup_percent = 10;
		for (int k = 0; k < 50; k++) {
			settle(c, 20);
			if (rc_leader(c) >= 0)
				(void)rc_propose(c, (size_t)rc_leader(c),
				                 2); /* refused is as good, twice the same way */
		}
		buf_put(&traces[i], c->text.data, c->text.len);
		rc_free(c);
	}
	assert_true(traces[0].len > 1000);
	assert_string_equal(buf_cstr(&traces[0]), buf_cstr(&traces[1]));
	buf_fini(&traces[0]);
	buf_fini(&traces[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bootstrap_and_first_entries),
		cmocka_unit_test(test_early_prevote_replaces_a_dead_leader),
		cmocka_unit_test(test_F01_figure_8),
		cmocka_unit_test(test_F05_one_link_cut),
		cmocka_unit_test(test_F06_frozen_leader),
		cmocka_unit_test(test_F09_removed_server_comes_back),
		cmocka_unit_test(test_F12_wiped_voter),
		cmocka_unit_test(test_F13_cut_off_change),
		cmocka_unit_test(test_snapshot_to_a_late_follower),
		cmocka_unit_test(test_transfer_there_and_back),
		cmocka_unit_test(test_deadlines_suffice),
		cmocka_unit_test(test_same_seed_same_trace),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
