/* Handing leadership over (D 3.10): F07 and the orderly case. */
#include "raft_solo.h"

static struct solo *settled_leader(void)
{
	struct solo *s = solo_member(4, 1, 5); /* n4 is a learner */
	solo_make_leader(s);
	for (node_id id = 2; id <= 4; id++)
		solo_ack(s, id, 2, 6);
	solo_forget(s);
	return s;
}

static void assert_refused(struct solo *s, node_id to, int code, const char *says)
{
	struct err e = { 0 };
	assert_int_equal(raft_transfer(s->raft, to, &e), code);
	if (!strstr(e.msg, says))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
	solo_expect(s, "");
}

/* The target is brought up to date first, then told to campaign; meanwhile nothing is proposed. */
static void test_transfer_brings_the_target_up_to_date_first(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_forget(s);
	assert_int_equal(raft_transfer(s->raft, 3, NULL), 0);
	solo_expect(s, "transfer to n3 begun\n");
	assert_true(solo_view(s).transferring);
	assert_int_equal(solo_propose(s, 1, 8), ERR_NOT_LEADER);
	solo_ack(s, 3, 2, 7);
	solo_expect(s, "transfer to n3 sent\n> n3 timeout-now t2\n> n2 append t2 prev 7 t2 commit 7\n"
	               "> n3 append t2 prev 7 t2 commit 7\n> n4 append t2 prev 7 t2 commit 7\ncommit [7 t2]\n");
	solo_free(s);
}

/* F07: dead, unknown, a learner, this node itself, far behind: refused at once, and the leader goes on. */
static void test_F07_transfers_that_would_not_work_are_refused(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	assert_refused(s, 9, ERR_NOTFOUND, "no such server");
	assert_refused(s, 1, ERR_INVALID, "leads already");
	assert_refused(s, 4, ERR_INVALID, "n4 is a learner");
	s->quiet = true;
	for (int i = 0; i < 6; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 6);
	}
	solo_drain(s);
	s->quiet = false;
	assert_refused(s, 3, ERR_INVALID, "n3 does not answer");
	assert_int_equal(solo_propose(s, 1025, 0), 0);
	solo_ack(s, 3, 2, 6);
	solo_forget(s);
	assert_refused(s, 3, ERR_INVALID, "n3 is 1025 entries behind");
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_free(s);

	s = solo_member(3, 0, 5);
	struct err e = { 0 };
	assert_int_equal(raft_transfer(s->raft, 2, &e), ERR_NOT_LEADER);
	solo_free(s);
	s = solo_member(1, 0, 5);
	solo_time_out(s);
	solo_forget(s);
	assert_refused(s, 0, ERR_NOTFOUND, "no other voter");
	solo_free(s);
}

/* F07: a transfer that does not come about is given up after an election timeout, and proposals are taken again. */
static void test_F07_transfer_is_given_up(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	assert_int_equal(solo_propose(s, 1, 8), 0);
	assert_int_equal(raft_transfer(s->raft, 3, NULL), 0);
	struct err e = { 0 };
	assert_int_equal(raft_transfer(s->raft, 2, &e), ERR_BUSY);
	solo_forget(s);
	s->quiet = true;
	for (int i = 0; i < 4; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 7);
	}
	s->quiet = false;
	solo_tick(s, 99);
	assert_int_equal(solo_propose(s, 1, 8), ERR_NOT_LEADER);
	solo_forget(s);
	s->now_ms++;
	raft_tick(s->raft, s->now_ms);
	assert_non_null(strstr(solo_look(s), "transfer to n3 given up\n"));
	assert_int_equal(solo_propose(s, 1, 8), 0);
	assert_false(solo_view(s).transferring);
	solo_free(s);
}

/* Whoever is not named, the voter with the longest log is picked. */
static void test_transfer_picks_the_most_caught_up(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	assert_int_equal(solo_propose(s, 2, 8), 0);
	solo_drain(s);
	solo_ack(s, 3, 2, 7);
	solo_ack(s, 4, 2, 8);
	solo_forget(s);
	assert_int_equal(raft_transfer(s->raft, 0, NULL), 0);
	solo_expect(s, "transfer to n3 begun\n");
	solo_free(s);
}

/* The word may be lost: it is said again with each heartbeat, until the term has moved on. */
static void test_timeout_now_is_repeated(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	assert_int_equal(raft_transfer(s->raft, 2, NULL), 0);
	solo_expect(s, "transfer to n2 begun\ntransfer to n2 sent\n> n2 timeout-now t2\n");
	solo_tick(s, 100);
	assert_non_null(strstr(solo_look(s), "> n2 timeout-now t2\n"));
	/* Its candidacy is heard although this leader is alive. */
	STEP(s, .type = RAFT_MSG_VOTE, .from = 2, .term = 3, .index = 6, .log_term = 2, .flag = true);
	solo_expect(s, "steps down: higher term\nis follower in term 3\nfollows -\nvotes for n2 in term 3\n"
	               "persist term 3 vote n2\n> n2 vote-reply t3 yes\n");
	solo_free(s);
}

/* The chosen one campaigns at once and without pre-vote, but only on its leader's word. */
static void test_timeout_now_starts_a_candidacy(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	solo_append(s, 2, 2, 5, 1, 2, 0, 0);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_TIMEOUT_NOW, .from = 3, .term = 2);
	STEP(s, .type = RAFT_MSG_TIMEOUT_NOW, .from = 2, .term = 1);
	solo_expect(s, "");
	STEP(s, .type = RAFT_MSG_TIMEOUT_NOW, .from = 2, .term = 2);
	solo_expect(s, "is candidate in term 3\nfollows -\npersist term 3 vote n1\n> n2 vote t3 last 5 t1 handed-over\n"
	               "> n3 vote t3 last 5 t1 handed-over\n");
	STEP(s, .type = RAFT_MSG_TIMEOUT_NOW, .from = 2, .term = 2); /* again: of a term gone by */
	solo_expect(s, "");
	solo_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_transfer_brings_the_target_up_to_date_first),
		cmocka_unit_test(test_F07_transfers_that_would_not_work_are_refused),
		cmocka_unit_test(test_F07_transfer_is_given_up),
		cmocka_unit_test(test_transfer_picks_the_most_caught_up),
		cmocka_unit_test(test_timeout_now_is_repeated),
		cmocka_unit_test(test_timeout_now_starts_a_candidacy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
