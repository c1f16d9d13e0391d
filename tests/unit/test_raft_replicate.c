/* A leader and its peers (§5.3, §10.2): probing, pipelining, flow control, back-off, what is read back from files. */
#include "raft_solo.h"

static struct solo *leader_of_three(void)
{
	struct solo *s = solo_member(3, 0, 5);
	solo_make_leader(s); /* term 2; its no-op is 6 */
	return s;
}

/* A new leader's first appends carry its no-op hopefully; the answers turn probing into streaming. */
static void test_new_leader_sends_its_noop_at_once(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	solo_time_out(s);
	solo_expect(s, "is precandidate in term 1\n> n2 prevote t2 last 5 t1\n> n3 prevote t2 last 5 t1\n");
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 3, .term = 2, .flag = true);
	solo_expect(s,
	            "is candidate in term 2\npersist term 2 vote n1\n> n2 vote t2 last 5 t1\n> n3 vote t2 last 5 t1\n");
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 2, .term = 2, .flag = true);
	solo_expect(s, "is leader in term 2\nfollows n1\npersist [6 t2]\n> n2 append t2 prev 5 t1 [6 t2] commit 0\n"
	               "> n3 append t2 prev 5 t1 [6 t2] commit 0\n");
	solo_ack(s, 2, 2, 6);
	solo_expect(s, "configuration 1 committed\n> n2 append t2 prev 6 t2 commit 6\ncommit [1..5 t1 6 t2]\n");
	solo_free(s);
}

/* Appends to a peer that streams follow each other without waiting for answers. */
static void test_appends_are_pipelined(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	solo_forget(s);
	s->disk_held = true;
	assert_int_equal(solo_propose(s, 1, 10), 0);
	solo_expect(s, "persist [7 t2]\n> n2 append t2 prev 6 t2 [7 t2] commit 6\n");
	assert_int_equal(solo_propose(s, 2, 10), 0);
	assert_int_equal(solo_propose(s, 1, 10), 0);
	solo_expect(s, "persist [8..10 t2]\n> n2 append t2 prev 7 t2 [8..10 t2] commit 6\n");
	solo_ack(s, 2, 2, 8);
	solo_expect(s, ""); /* 8 is on one of three disks: the leader counts itself when it is durable */
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 append t2 prev 10 t2 commit 7\ncommit [7 t2]\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 append t2 prev 10 t2 commit 8\ncommit [8 t2]\n");
	solo_free(s);
}

/* The commit index is told at once when nothing else is queued, and rides along when something is. */
static void test_commit_index_is_told_at_once(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	solo_ack(s, 3, 2, 6);
	solo_expect(s,
	            "configuration 1 committed\n> n2 append t2 prev 6 t2 commit 6\n> n3 append t2 prev 6 t2 commit 6\n"
	            "commit [1..5 t1 6 t2]\n");
	assert_int_equal(solo_propose(s, 1, 10), 0);
	solo_forget(s);
	solo_ack(s, 2, 2, 7);
	assert_int_equal(solo_propose(s, 1, 10), 0);
	solo_expect(
	    s, "persist [8 t2]\n> n2 append t2 prev 7 t2 [8 t2] commit 7\n> n3 append t2 prev 7 t2 [8 t2] commit 7\n"
	       "commit [7 t2]\n");
	solo_ack(s, 3, 2, 7);
	solo_expect(s, ""); /* nothing new to tell */
	solo_free(s);
}

/* Flow control: no more than inflight_bytes_max is out un-acknowledged, one append always, and an answer opens it. */
static void test_flow_control_counts_bytes(void **state)
{
	(void)state;
	struct raft_params p = solo_params();
	p.append_bytes_max = 2 * (100 + RAFT_ENTRY_OVERHEAD);
	p.inflight_bytes_max = 5 * (100 + RAFT_ENTRY_OVERHEAD);
	struct solo *s = solo_member_with(&p, 3, 0, 5);
	solo_make_leader(s);
	solo_ack(s, 2, 2, 6);
	solo_forget(s);
	assert_int_equal(solo_propose(s, 10, 100), 0);
	solo_expect(s, "persist [7..16 t2]\n> n2 append t2 prev 6 t2 [7..8 t2] commit 6\n"
	               "> n2 append t2 prev 8 t2 [9..10 t2] commit 6\n> n2 append t2 prev 10 t2 [11 t2] commit 6\n");
	solo_ack(s, 2, 2, 8);
	solo_expect(s, "> n2 append t2 prev 11 t2 [12..13 t2] commit 8\ncommit [7..8 t2]\n");
	solo_ack(s, 2, 2, 8);
	solo_expect(s, "");
	solo_ack(s, 2, 2, 13);
	solo_expect(s, "> n2 append t2 prev 13 t2 [14..15 t2] commit 13\n> n2 append t2 prev 15 t2 [16 t2] commit 13\n"
	               "commit [9..13 t2]\n");
	/* One larger than the whole window goes alone. */
	solo_ack(s, 2, 2, 16);
	solo_forget(s);
	assert_int_equal(solo_propose(s, 1, 2000), 0);
	assert_int_equal(solo_propose(s, 1, 1), 0);
	solo_expect(s, "persist [17..18 t2]\n> n2 append t2 prev 16 t2 [17 t2] commit 16\n");
	solo_ack(s, 2, 2, 17);
	solo_expect(s, "> n2 append t2 prev 17 t2 [18 t2] commit 17\ncommit [17 t2]\n");
	solo_free(s);
}

/* Many small appends are bounded in number too. */
static void test_flow_control_counts_messages(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	solo_forget(s);
	s->disk_held = true;
	s->quiet = true;
	for (int i = 0; i < 128; i++) {
		assert_int_equal(solo_propose(s, 1, 1), 0);
		solo_drain(s);
		solo_disk(s, 1, 0);
	}
	s->quiet = false;
	assert_int_equal(solo_propose(s, 1, 1), 0);
	solo_expect(s, "persist [135 t2]\n");
	solo_ack(s, 2, 2, 10);
	solo_expect(s, "> n2 append t2 prev 134 t2 [135 t2] commit 10\ncommit [7..10 t2]\n");
	solo_free(s);
}

/* Proposals past uncommitted_bytes_max are refused whole; one batch always fits; commitment makes room. */
static void test_uncommitted_work_is_bounded(void **state)
{
	(void)state;
	struct raft_params p = solo_params();
	p.uncommitted_bytes_max = 1000;
	struct solo *s = solo_member_with(&p, 3, 0, 5);
	solo_make_leader(s);
	assert_int_equal(solo_propose(s, 1, 5000), ERR_FULL); /* the log's tail of before and the no-op count */
	solo_ack(s, 2, 2, 6);
	assert_int_equal(solo_propose(s, 1, 5000), 0);
	assert_int_equal(solo_propose(s, 1, 1), ERR_FULL);
	assert_int_equal(solo_view(s).last_index, 7);
	solo_drain(s);
	solo_ack(s, 2, 2, 7);
	assert_int_equal(solo_propose(s, 5, 168), 0);
	assert_int_equal(solo_propose(s, 1, 0), ERR_FULL);
	solo_free(s);
}

/* A lost append shows when the heartbeat behind it is refused; the leader goes back to what is known and sends anew. */
static void test_loss_is_found_by_a_heartbeat(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	solo_forget(s);
	assert_int_equal(solo_propose(s, 3, 10), 0);
	solo_forget(s); /* lost */
	solo_tick(s, 100);
	assert_non_null(strstr(solo_look(s), "> n2 append t2 prev 9 t2 commit 6\n"));
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 9, .commit = 6, .hint = 6,
	     .hint_term = 2);
	solo_expect(s, "is refused by n2 at 9, hint 6\n> n2 append t2 prev 6 t2 [7..9 t2] commit 6\n");
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 9, .commit = 6, .hint = 6,
	     .hint_term = 2);
	solo_expect(s, ""); /* the same refusal, late: not the place asked about */
	solo_ack(s, 2, 2, 9);
	solo_expect(s, "> n2 append t2 prev 9 t2 commit 9\ncommit [7..9 t2]\n");
	solo_free(s);
}

/* A peer that streams whose link broke is probed from what it acknowledged. */
static void test_lost_link_goes_back_to_what_is_acknowledged(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	assert_int_equal(solo_propose(s, 3, 10), 0);
	solo_forget(s);
	raft_peer_lost(s->raft, 2, false);
	solo_expect(s, "> n2 append t2 prev 6 t2 [7..9 t2] commit 6\n");
	assert_true(solo_view(s).peers[0].paused);
	solo_free(s);
}

/* §5.3: conflict back-off takes one round trip for each term that differs, not for each entry. */
static void test_back_off_skips_whole_terms(void **state)
{
	(void)state;
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(3, 0);
	const struct raft_params p = solo_params();
	struct raft_start start = { .term = 7, .conf = &conf, .conf_index = 1 };
	/* leader: 1..10 t1, 11..20 t4, 21..60 t6; follower: 1..10 t1, 11..40 t2, 41..90 t3 */
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 11, 4 }, { 21, 6 }, { 0, 0 } }, 60, 1);
	struct solo *s = solo_new(&p, &start);
	solo_make_leader(s);

	struct solo_log flog;
	struct raft_params fp = p;
	fp.self = 2;
	struct raft_start fstart = { .term = 7, .conf = &conf, .conf_index = 1 };
	solo_log_init(&flog, &fstart, (struct raft_term_range[]){ { 1, 1 }, { 11, 2 }, { 41, 3 }, { 0, 0 } }, 90, 1);
	struct solo *f = solo_new(&fp, &fstart);

	/* The two talk: each refusal is handed over by hand. */
	int refusals = 0;
	raft_index prev = 60;
	raft_term prev_term = 6;
	for (;;) {
		solo_step(
		    f,
		    (struct raft_msg){
			.type = RAFT_MSG_APPEND, .from = 1, .to = 2, .term = 8, .index = prev, .log_term = prev_term });
		const char *said = solo_look(f);
		raft_index hint;
		raft_term hint_term;
		const char *no = strstr(said, " no ");
		if (!no)
			break;
		assert_int_equal(sscanf(no, " no %*u hint %" SCNu64 " t%" SCNu64, &hint, &hint_term), 2);
		refusals++;
		STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 8, .index = prev, .commit = 90, .hint = hint,
		     .hint_term = hint_term);
		const char *out = strstr(solo_look(s), "> n2 append t8 prev ");
		assert_non_null(out);
		assert_int_equal(sscanf(out, "> n2 append t8 prev %" SCNu64 " t%" SCNu64, &prev, &prev_term), 2);
	}
	assert_int_equal(prev, 10);
	assert_in_range(refusals, 1, 2);
	solo_free(s);
	solo_free(f);
	solo_log_fini(&log);
	solo_log_fini(&flog);
}

/* A refusal of what was acknowledged is not believed, and does not make the leader run in circles. */
static void test_refusal_of_acknowledged_entries_is_ignored(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 6, .hint = 0, .hint_term = 0);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 3, .hint = 0, .hint_term = 0);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 99, .hint = 0, .hint_term = 0);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 99, .flag = true);
	solo_expect(s, "");
	assert_int_equal(solo_view(s).peers[0].match, 6);
	solo_free(s);
}

/* §5.4.2, F01: entries of earlier terms do not commit by counting, only along with one of the leader's own. */
static void test_F01_older_terms_commit_only_with_the_noop(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 5);
	solo_ack(s, 3, 2, 5);
	solo_drain(s);
	assert_int_equal(solo_view(s).commit_index, 0);
	solo_ack(s, 3, 2, 6);
	solo_drain(s);
	assert_int_equal(solo_view(s).commit_index, 6);
	solo_free(s);
}

/* A peer whose next entry left memory waits for the files and gets nothing else meanwhile but heartbeats. */
static void test_peer_waits_for_a_fetch(void **state)
{
	(void)state;
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(3, 0);
	struct raft_params p = solo_params();
	p.append_bytes_max = 3 * (8 + RAFT_ENTRY_OVERHEAD);
	struct raft_start start = { .term = 1, .conf = &conf, .conf_index = 1 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, 12, 10);
	struct solo *s = solo_new(&p, &start);
	solo_make_leader(s); /* no-op 13 */
	solo_ack(s, 3, 2, 13);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 12, .commit = 4, .hint = 4,
	     .hint_term = 1);
	solo_expect(
	    s, "is refused by n2 at 12, hint 4\n> n2 append t2 prev 4 t1 commit 13\n"); /* a probe needs no entries */
	solo_ack(s, 2, 2, 4);
	solo_expect(s, "fetch for n2 5..9\n");
	assert_true(solo_view(s).peers[0].paused);
	solo_tick(s, 50);
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_expect(s, "persist [14 t2]\n> n3 append t2 prev 13 t2 [14 t2] commit 13\n");
	struct entry *v = solo_entries(5, 1, 3, 8);
	raft_fetched(s->raft, 2, 5, v, 3, 0);
	solo_drop(v, 3);
	solo_expect(s, "> n2 append t2 prev 4 t1 [5..7 t1] commit 13\nfetch for n2 8..9\n");
	v = solo_entries(8, 1, 2, 8);
	raft_fetched(s->raft, 2, 8, v, 2, 0);
	solo_drop(v, 2);
	solo_expect(s, "> n2 append t2 prev 7 t1 [8..9 t1] commit 13\n> n2 append t2 prev 9 t1 [10..12 t1] commit 13\n"
	               "> n2 append t2 prev 12 t1 [13..14 t2] commit 13\n");
	assert_false(solo_view(s).peers[0].paused);
	solo_free(s);
	solo_log_fini(&log);
}

/* An answer to a fetch of a leadership that ended is dropped; a failed one is tried again a heartbeat later. */
static void test_fetch_survives_failure_and_change(void **state)
{
	(void)state;
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(3, 0);
	const struct raft_params p = solo_params();
	struct raft_start start = { .term = 1, .conf = &conf, .conf_index = 1 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, 12, 10);
	struct solo *s = solo_new(&p, &start);
	solo_make_leader(s);
	solo_ack(s, 3, 2, 13);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 12, .commit = 4, .hint = 4,
	     .hint_term = 1);
	solo_drain(s);
	solo_ack(s, 2, 2, 4);
	assert_non_null(strstr(solo_look(s), "fetch for n2 5..9\n"));
	raft_fetched(s->raft, 2, 5, NULL, 0, ERR_IO);
	solo_expect(s, "");
	solo_tick(s, 100);
	assert_non_null(strstr(solo_look(s), "fetch for n2 5..9\n"));
	solo_append(s, 3, 3, 12, 1, 3, 1, 0); /* n3 leads now */
	struct entry *v = solo_entries(5, 1, 3, 8);
	raft_fetched(s->raft, 2, 5, v, 3, 0);
	raft_fetched(s->raft, 9, 5, v, 3, 0); /* nobody */
	solo_drop(v, 3);
	solo_forget(s);
	solo_free(s);
	solo_log_fini(&log);
}

/* Heartbeats go to everybody, at their time, and say when they are wanted next. */
static void test_heartbeats_keep_their_time(void **state)
{
	(void)state;
	struct solo *s = leader_of_three();
	solo_ack(s, 2, 2, 6);
	solo_ack(s, 3, 2, 6);
	solo_forget(s);
	struct raft_ready rd;
	raft_ready(s->raft, &rd);
	assert_false(rd.any);
	assert_in_range(rd.deadline_ms, s->now_ms + 1, s->now_ms + 100);
	s->now_ms = rd.deadline_ms;
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "> n2 append t2 prev 6 t2 commit 6\n> n3 append t2 prev 6 t2 commit 6\n");
	solo_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_leader_sends_its_noop_at_once),
		cmocka_unit_test(test_appends_are_pipelined),
		cmocka_unit_test(test_commit_index_is_told_at_once),
		cmocka_unit_test(test_flow_control_counts_bytes),
		cmocka_unit_test(test_flow_control_counts_messages),
		cmocka_unit_test(test_uncommitted_work_is_bounded),
		cmocka_unit_test(test_loss_is_found_by_a_heartbeat),
		cmocka_unit_test(test_lost_link_goes_back_to_what_is_acknowledged),
		cmocka_unit_test(test_back_off_skips_whole_terms),
		cmocka_unit_test(test_refusal_of_acknowledged_entries_is_ignored),
		cmocka_unit_test(test_F01_older_terms_commit_only_with_the_noop),
		cmocka_unit_test(test_peer_waits_for_a_fetch),
		cmocka_unit_test(test_fetch_survives_failure_and_change),
		cmocka_unit_test(test_heartbeats_keep_their_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
