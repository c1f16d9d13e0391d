/* Linearizable reads (D 6.4): rounds, batches, the no-op first, questions of followers. */
#include "raft_solo.h"

static void echo(struct solo *s, node_id from, raft_term term, raft_index match, uint64_t round)
{
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = from, .term = term, .index = match, .commit = match,
	     .round = round, .flag = true);
}

static struct solo *settled_leader(void)
{
	struct solo *s = solo_member(3, 0, 5);
	solo_make_leader(s);
	solo_ack(s, 2, 2, 6);
	solo_ack(s, 3, 2, 6);
	solo_forget(s);
	return s;
}

/* A round asks everybody at once, and a majority's echo answers all who asked before it began; later ones share the
 * next. */
static void test_reads_are_batched_by_rounds(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	raft_read(s->raft, 71);
	raft_read(s->raft, 72);
	solo_expect(s, "> n2 append t2 prev 6 t2 commit 6 round 1\n> n3 append t2 prev 6 t2 commit 6 round 1\n");
	raft_read(s->raft, 73);
	solo_expect(s, "");
	solo_ack(s, 2, 2, 6); /* an answer of before the round */
	solo_expect(s, "");
	echo(s, 3, 2, 6, 1);
	solo_expect(s, "> n2 append t2 prev 6 t2 commit 6 round 2\n> n3 append t2 prev 6 t2 commit 6 round 2\n"
	               "read 71: OK 6\nread 72: OK 6\n");
	echo(s, 2, 2, 6, 99); /* no such round yet: counts as the newest there is */
	solo_expect(s, "read 73: OK 6\n");
	solo_free(s);
}

/* A round rides on appends that carry entries, and on heartbeats if its first messages were lost. */
static void test_round_rides_on_what_is_sent_anyway(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	raft_read(s->raft, 71);
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_expect(s, "persist [7 t2]\n> n2 append t2 prev 6 t2 [7 t2] commit 6 round 1\n"
	               "> n3 append t2 prev 6 t2 [7 t2] commit 6 round 1\n");
	solo_tick(s, 100);
	solo_expect(s, "> n2 append t2 prev 7 t2 commit 6 round 1\n> n3 append t2 prev 7 t2 commit 6 round 1\n");
	echo(s, 2, 2, 6, 1);
	solo_expect(s, "read 71: OK 6\n");
	solo_free(s);
}

/* Until its no-op committed, a leader does not know what is committed, and lets readers wait. */
static void test_no_read_before_the_noop(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	solo_make_leader(s);
	raft_read(s->raft, 71);
	solo_expect(s, "");
	echo(s, 2, 2, 5, 0);
	solo_forget(s);
	echo(s, 2, 2, 6, 0);
	solo_expect(s, "configuration 1 committed\n> n2 append t2 prev 6 t2 commit 6 round 1\n"
	               "> n3 append t2 prev 5 t1 commit 6 round 1\ncommit [1..5 t1 6 t2]\n");
	echo(s, 2, 2, 6, 1);
	solo_expect(s, "read 71: OK 6\n");
	solo_free(s);
}

/* Refusals of appends confirm the leader as well as agreements do. */
static void test_refusals_confirm_too(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	raft_read(s->raft, 71);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 6, .round = 1, .hint = 5, .hint_term = 1);
	assert_non_null(strstr(solo_look(s), "read 71: OK 6\n"));
	solo_free(s);
}

/* Nobody answers: the reader is told, once, and learns that it was the time. */
static void test_unanswered_reads_time_out(void **state)
{
	(void)state;
	struct raft_params p = solo_params();
	struct solo *s = solo_member_with(&p, 5, 0, 5);
	solo_make_leader(s);
	raft_read(s->raft, 71);
	s->quiet = true;
	for (int i = 0; i < 9; i++) { /* in office, but the no-op does not commit */
		solo_tick(s, 100);
		echo(s, 2, 2, 5, 0);
		echo(s, 3, 2, 5, 0);
	}
	solo_drain(s);
	s->quiet = false;
	s->now_ms += 100;
	raft_tick(s->raft, s->now_ms);
	assert_non_null(strstr(solo_look(s), "read 71: TIMEOUT 0\n"));
	solo_free(s);
}

/* A follower asks its leader once for all that came in a turn, and believes only the answer to that question. */
static void test_follower_asks_the_leader(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	raft_read(s->raft, 70);
	solo_expect(s, "read 70: NOT_LEADER 0\n"); /* whom should it ask? */
	solo_append(s, 2, 2, 5, 1, 2, 0, 0);
	solo_forget(s);
	raft_read(s->raft, 71);
	raft_read(s->raft, 72);
	struct raft_ready rd;
	raft_ready(s->raft, &rd);
	assert_int_equal(rd.msg_count, 1);
	assert_int_equal(rd.msgs[0].type, RAFT_MSG_READ);
	assert_int_equal(rd.msgs[0].to, 2);
	const uint64_t question = rd.msgs[0].round;
	raft_read(s->raft, 73);
	raft_ready(s->raft, &rd);
	assert_int_equal(rd.msgs[0].round, question + 1);
#define REPLY(who, t, q, i, ok)                                                                                        \
	STEP(s, .type = RAFT_MSG_READ_REPLY, .from = (who), .term = (t), .round = (q), .index = (i), .flag = (ok))
	REPLY(3, 2, question, 9, true);
	REPLY(2, 1, question, 9, true);
	REPLY(2, 2, question - 1, 9, true);
	solo_expect(s, "");
	REPLY(2, 2, question, 9, true);
	solo_expect(s, "read 71: OK 9\nread 72: OK 9\n");
	REPLY(2, 2, question, 9, true);
	solo_expect(s, "");
	REPLY(2, 2, question + 1, 0, false);
	solo_expect(s, "read 73: NOT_LEADER 0\n");
	raft_read(s->raft, 74);
	raft_ready(s->raft, &rd);
	assert_true(rd.deadline_ms <= s->now_ms + 1000);
	solo_append(s, 3, 3, 5, 1, 3, 0, 0); /* another leader: nobody will answer for the old one */
	assert_non_null(strstr(solo_look(s), "read 74: NOT_LEADER 0\n"));
#undef REPLY
	solo_free(s);
}

/* The leader answers a follower as it answers itself; strangers and questions without end get a refusal. */
static void test_leader_answers_followers(void **state)
{
	(void)state;
	struct solo *s = settled_leader();
	STEP(s, .type = RAFT_MSG_READ, .from = 2, .term = 2, .round = 500);
	STEP(s, .type = RAFT_MSG_READ, .from = 9, .term = 2, .round = 501);
	solo_expect(s, "> n2 append t2 prev 6 t2 commit 6 round 1\n> n3 append t2 prev 6 t2 commit 6 round 1\n");
	echo(s, 3, 2, 6, 1);
	solo_expect(s, "> n2 read-reply t2 index 6\n");
	for (int i = 0; i < 4100; i++)
		STEP(s, .type = RAFT_MSG_READ, .from = 2, .term = 2, .round = 600 + (uint64_t)i);
	assert_non_null(strstr(solo_look(s), "> n2 read-reply t2 no\n"));
	/* Losing office, it says so. */
	solo_append(s, 3, 3, 6, 2, 3, 0, 6);
	assert_non_null(strstr(solo_look(s), "> n2 read-reply t2 no\n"));
	STEP(s, .type = RAFT_MSG_READ, .from = 2, .term = 3, .round = 700);
	solo_expect(s, "> n2 read-reply t3 no\n");
	solo_free(s);
}

/* A cluster of one confirms itself. */
static void test_single_voter_reads_at_once(void **state)
{
	(void)state;
	struct solo *s = solo_member(1, 0, 5);
	solo_time_out(s);
	solo_forget(s);
	raft_read(s->raft, 71);
	solo_expect(s, "read 71: OK 6\n");
	solo_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_are_batched_by_rounds),
		cmocka_unit_test(test_round_rides_on_what_is_sent_anyway),
		cmocka_unit_test(test_no_read_before_the_noop),
		cmocka_unit_test(test_refusals_confirm_too),
		cmocka_unit_test(test_unanswered_reads_time_out),
		cmocka_unit_test(test_follower_asks_the_leader),
		cmocka_unit_test(test_leader_answers_followers),
		cmocka_unit_test(test_single_voter_reads_at_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
