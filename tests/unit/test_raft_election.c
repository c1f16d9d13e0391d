/* Elections (§5.2), pre-vote (D 9.6), stickiness and check-quorum (D 4.2.3, 6.4), early pre-vote, the disk as an input.
 */
#include "raft_solo.h"

#define VOTE(s, who, t, i, lt, ...)                                                                                    \
	STEP(s, .type = RAFT_MSG_VOTE, .from = (who), .term = (t), .index = (i), .log_term = (lt), __VA_ARGS__)
#define PREVOTE(s, who, t, i, lt)                                                                                      \
	STEP(s, .type = RAFT_MSG_PREVOTE, .from = (who), .term = (t), .index = (i), .log_term = (lt))

/* Follower of n2 in term 2, log 1..5 of term 1. */
static struct solo *follower_of_n2(void)
{
	struct solo *s = solo_member(3, 0, 5);
	solo_append(s, 2, 2, 5, 1, 2, 0, 0);
	solo_forget(s);
	return s;
}

/* F03: voted for n2 in term 7; its own pre-vote does not touch that, and n3 is refused. */
static void test_F03_prevote_keeps_the_vote(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	VOTE(s, 2, 7, 5, 1, .flag = false);
	solo_expect(s, "votes for n2 in term 7\npersist term 7 vote n2\n> n2 vote-reply t7 yes\n");
	solo_time_out(s);
	solo_expect(s, "is precandidate in term 7\n> n2 prevote t8 last 5 t1\n> n3 prevote t8 last 5 t1\n");
	VOTE(s, 3, 7, 5, 1, .flag = false);
	solo_expect(s, "refuses n3 in term 7\n> n3 vote-reply t7 no\n");
	VOTE(s, 2, 7, 5, 1, .flag = false); /* the same one may ask again */
	solo_expect(s, "votes for n2 in term 7\n> n2 vote-reply t7 yes\n");
	solo_free(s);
}

/* F03: a pre-vote granted late, for the very term of the candidacy, is no vote. */
static void test_F03_late_prevotes_are_not_votes(void **state)
{
	(void)state;
	struct solo *s = solo_member(5, 0, 5);
	solo_time_out(s);
	for (node_id from = 2; from <= 3; from++)
		STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = from, .term = 2, .flag = true);
	solo_forget(s);
	assert_int_equal(solo_view(s).role, RAFT_CANDIDATE);
	for (node_id from = 2; from <= 5; from++)
		STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = from, .term = 2, .flag = true);
	solo_expect(s, "");
	assert_int_equal(solo_view(s).role, RAFT_CANDIDATE);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 2, .term = 2, .flag = true);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 2, .term = 2, .flag = true); /* one voter, one vote */
	assert_int_equal(solo_view(s).role, RAFT_CANDIDATE);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 4, .term = 2, .flag = true);
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	solo_free(s);
}

/* A pre-vote changes nothing at the one who is asked either. */
static void test_prevote_leaves_no_trace(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	PREVOTE(s, 2, 2, 5, 1);
	solo_expect(s, "> n2 prevote-reply t2 yes\n");
	PREVOTE(s, 3, 9, 5, 1);
	solo_expect(s, "> n3 prevote-reply t9 yes\n");
	assert_int_equal(solo_view(s).term, 1);
	PREVOTE(s, 2, 1, 5, 1); /* behind: is told the term */
	solo_expect(s, "> n2 prevote-reply t1 no\n");
	PREVOTE(s, 2, 2, 4, 1); /* shorter log */
	solo_expect(s, "> n2 prevote-reply t1 no\n");
	solo_free(s);
}

/* Who hears a leader refuses candidates without a change of term; who misses it for an election timeout does not. */
static void test_leader_stickiness(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	PREVOTE(s, 3, 3, 9, 2);
	VOTE(s, 3, 3, 9, 2, .flag = false);
	solo_expect(s, "refuses n3 in term 3\n> n3 prevote-reply t2 no\n> n3 vote-reply t2 no\n");
	assert_int_equal(solo_view(s).term, 2);
	solo_tick(s, 499);
	PREVOTE(s, 3, 3, 9, 2);
	solo_expect(s, "> n3 prevote-reply t2 no\n");
	solo_tick(s, 1);
	PREVOTE(s, 3, 3, 9, 2);
	solo_expect(s, "> n3 prevote-reply t3 yes\n");
	VOTE(s, 3, 3, 9, 2, .flag = false);
	solo_expect(s, "follows -\nvotes for n3 in term 3\npersist term 3 vote n3\n> n3 vote-reply t3 yes\n");
	solo_free(s);
}

/* A candidate the leader named is heard although the leader is alive. */
static void test_handed_over_candidate_is_heard(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	VOTE(s, 3, 3, 9, 2, .flag = true);
	solo_expect(s, "follows -\nvotes for n3 in term 3\npersist term 3 vote n3\n> n3 vote-reply t3 yes\n");
	solo_free(s);
}

/* §5.4.1: a candidate whose log lacks something is refused, though its term is taken. */
static void test_candidate_with_an_old_log_is_refused(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	VOTE(s, 2, 4, 4, 1, .flag = false);
	solo_expect(s, "refuses n2 in term 4\npersist term 4 vote -\n> n2 vote-reply t4 no\n");
	VOTE(s, 3, 4, 5, 1, .flag = false);
	solo_expect(s, "votes for n3 in term 4\npersist term 4 vote n3\n> n3 vote-reply t4 yes\n");
	solo_free(s);
}

/* F09: who is not in the configuration is refused, and its term is not taken; a learner is known, and judged. */
static void test_F09_unknown_candidates_change_no_term(void **state)
{
	(void)state;
	struct solo *s = solo_member(4, 1, 5);
	VOTE(s, 9, 70, 99, 60, .flag = true);
	PREVOTE(s, 9, 70, 99, 60);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 9, .term = 70);
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 9, .term = 70);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 9, .term = 70);
	STEP(s, .type = RAFT_MSG_READ, .from = 9, .term = 70);
	STEP(s, .type = RAFT_MSG_TIMEOUT_NOW, .from = 9, .term = 70);
	solo_expect(s, "refuses n9 in term 70\n> n9 vote-reply t1 no\n> n9 prevote-reply t1 no\n");
	assert_int_equal(solo_view(s).term, 1);
	VOTE(s, 4, 2, 5, 1, .flag = false);
	solo_expect(s, "votes for n4 in term 2\npersist term 2 vote n4\n> n4 vote-reply t2 yes\n");
	solo_free(s);
}

/* Votes of unknown ids, of learners and of other terms do not elect. */
static void test_only_voters_elect(void **state)
{
	(void)state;
	struct solo *s = solo_member(4, 1, 5); /* n4 is a learner */
	solo_time_out(s);
	solo_expect(s, "is precandidate in term 1\n> n2 prevote t2 last 5 t1\n> n3 prevote t2 last 5 t1\n");
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 4, .term = 2, .flag = true);
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 102, .term = 2, .flag = true); /* n2, wiped */
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 2, .term = 3, .flag = true);
	solo_expect(s, "");
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 3, .term = 2, .flag = true);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 4, .term = 2, .flag = true);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 103, .term = 2, .flag = true);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 3, .term = 1, .flag = true);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 3, .term = 2, .flag = false);
	solo_expect(s, "");
	assert_int_equal(solo_view(s).role, RAFT_CANDIDATE);
	solo_free(s);
}

/* What is meant for the directory that was wiped is not taken by the one in its place. */
static void test_messages_to_another_incarnation_are_dropped(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	VOTE(s, 2, 4, 9, 3, .to = 101);
	solo_expect(s, "");
	assert_int_equal(solo_view(s).term, 1);
	solo_free(s);
}

/* A learner never campaigns, and forgets a leader it no longer hears. */
static void test_learner_does_not_campaign(void **state)
{
	(void)state;
	struct solo_log log;
	struct raft_params p = solo_params();
	p.self = 3;
	const struct raft_conf conf = text_make_conf(3, 1);
	struct raft_start start = { .term = 1, .conf = &conf, .conf_index = 1 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, 5, 1);
	struct solo *s = solo_new(&p, &start);
	solo_step(
	    s, (struct raft_msg){ .type = RAFT_MSG_APPEND, .from = 1, .to = 3, .term = 1, .index = 5, .log_term = 1 });
	solo_forget(s);
	solo_tick(s, 20000);
	solo_expect(s, "follows -\n");
	solo_free(s);
	solo_log_fini(&log);
}

/* A cluster of one elects itself at once, on disk before in office. */
static void test_single_voter_leads_at_once(void **state)
{
	(void)state;
	struct solo *s = solo_member(1, 0, 5);
	s->disk_held = true;
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "is precandidate in term 1\nis candidate in term 2\npersist term 2 vote n1\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "is leader in term 2\nfollows n1\npersist [6 t2]\n");
	assert_int_equal(solo_view(s).commit_index, 0);
	solo_disk(s, 1, 0);
	solo_expect(s, "configuration 1 committed\ncommit [1..5 t1 6 t2]\n");
	solo_free(s);
}

/* Two of the first configuration: the one who bootstraps campaigns by itself, and the fresh one votes and follows. */
static void test_bootstrap(void **state)
{
	(void)state;
	const struct raft_params p = solo_params();
	struct solo *s = solo_new(&p, &(struct raft_start){ 0 });
	struct raft_conf conf = text_make_conf(2, 0);
	struct err e = { 0 };
	conf.servers[0].voter = false;
	assert_int_equal(raft_bootstrap(s->raft, &conf, &e), ERR_INVALID);
	conf = text_make_conf(0, 0);
	assert_int_equal(raft_bootstrap(s->raft, &conf, &e), ERR_INVALID);
	const struct raft_conf tidy = text_make_conf(2, 0);
	conf = tidy;
	conf.servers[0] = tidy.servers[1]; /* in whatever order they come */
	conf.servers[1] = tidy.servers[0];
	assert_int_equal(raft_bootstrap(s->raft, &conf, &e), 0);
	assert_int_equal(raft_bootstrap(s->raft, &conf, &e), ERR_EXISTS);
	solo_expect(s, "configuration 1 appended\npersist term 1 vote - [1 t1]\n");
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "is precandidate in term 1\n> n2 prevote t2 last 1 t1\n");
	solo_free(s);

	struct raft_params p2 = p;
	p2.self = 2;
	s = solo_new(&p2, &(struct raft_start){ 0 });
	solo_step(
	    s, (struct raft_msg){ .type = RAFT_MSG_PREVOTE, .from = 1, .to = 2, .term = 2, .index = 1, .log_term = 1 });
	solo_step(s,
	          (struct raft_msg){ .type = RAFT_MSG_VOTE, .from = 1, .to = 2, .term = 2, .index = 1, .log_term = 1 });
	solo_expect(
	    s, "votes for n1 in term 2\npersist term 2 vote n1\n> n1 prevote-reply t2 yes\n> n1 vote-reply t2 yes\n");
	solo_free(s);
}

/* F02: a vote leaves after it is durable; a candidate asks after its own is. */
static void test_F02_votes_wait_for_the_disk(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	s->disk_held = true;
	VOTE(s, 2, 4, 5, 1, .flag = false);
	solo_expect(s, "votes for n2 in term 4\npersist term 4 vote n2\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 vote-reply t4 yes\n");
	solo_time_out(s);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 3, .term = 5, .flag = true);
	solo_expect(s, "is candidate in term 5\npersist term 5 vote n1\n");
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 3, .term = 5, .flag = true); /* forged: it was not asked */
	solo_expect(s, "");
	assert_int_equal(solo_view(s).role, RAFT_CANDIDATE);
	solo_disk(s, 1, 0);
	assert_int_equal(solo_view(s).role, RAFT_LEADER); /* two of three, once its own vote counts */
	solo_free(s);
}

/* F02: a vote that was not durable when the term moved on never leaves. */
static void test_F02_overtaken_votes_never_leave(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	s->disk_held = true;
	VOTE(s, 2, 4, 5, 1, .flag = false);
	solo_forget(s);
	VOTE(s, 3, 5, 5, 1, .flag = false);
	solo_expect(s, "votes for n3 in term 5\npersist term 5 vote n3\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "");
	solo_disk(s, 1, 0);
	solo_expect(s, "> n3 vote-reply t5 yes\n");
	solo_free(s);
}

/* Early pre-vote: link lost and address refusing, a follower asks within 100 ms; merely lost, it waits as always. */
static void test_early_prevote_when_the_leader_is_gone(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	raft_peer_lost(s->raft, 3, true); /* not the leader */
	raft_peer_lost(s->raft, 2, false);
	solo_tick(s, 101);
	solo_expect(s, "");
	raft_peer_lost(s->raft, 2, true);
	struct raft_ready rd;
	raft_ready(s->raft, &rd);
	assert_in_range(rd.deadline_ms, s->now_ms, s->now_ms + 100);
	solo_tick(s, 100);
	solo_expect(s, "is precandidate in term 2\nfollows -\n> n2 prevote t3 last 5 t1\n> n3 prevote t3 last 5 t1\n");
	solo_free(s);
}

/* Who saw the same loss does not stick to that leader; who did not, does. A sign of life restores it. */
static void test_stickiness_ends_with_the_link(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	raft_peer_lost(s->raft, 2, false);
	PREVOTE(s, 3, 3, 5, 1);
	solo_expect(s, "> n3 prevote-reply t3 yes\n");
	solo_append(s, 2, 2, 5, 1, 2, 0, 0); /* sent before it died: of the same millisecond */
	PREVOTE(s, 3, 3, 5, 1);
	solo_expect(s, "> n3 prevote-reply t3 yes\n> n2 append-reply t2 match 5 last 5\n");
	solo_tick(s, 1);
	solo_append(s, 2, 2, 5, 1, 2, 0, 0);
	PREVOTE(s, 3, 3, 5, 1);
	solo_expect(s, "> n3 prevote-reply t2 no\n> n2 append-reply t2 match 5 last 5\n");
	solo_free(s);
}

/* A leader whose address refuses but who is heard all the same is not campaigned against. */
static void test_early_prevote_is_called_off(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	raft_peer_lost(s->raft, 2, true);
	s->now_ms++; /* the shortest wait there is */
	raft_tick(s->raft, s->now_ms);
	solo_append(s, 2, 2, 5, 1, 2, 0, 0);
	solo_expect(s, "> n2 append-reply t2 match 5 last 5\n");
	solo_tick(s, 300);
	solo_expect(s, "");
	solo_free(s);
}

/* Check-quorum: a leader that no majority answers for an election timeout steps down. */
static void test_leader_without_a_quorum_steps_down(void **state)
{
	(void)state;
	struct solo *s = solo_member(5, 0, 5);
	solo_make_leader(s);
	s->quiet = true;
	for (int i = 0; i < 20; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 6);
		solo_ack(s, 3, 2, 6);
	}
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	assert_int_equal(solo_view(s).contact_ms, s->now_ms);
	for (int i = 0; i < 5; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 6);
	}
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	assert_int_equal(solo_view(s).contact_ms, s->now_ms - 500);
	raft_read(s->raft, 77);
	solo_drain(s);
	s->quiet = false;
	s->now_ms += 50;
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "steps down: no quorum\nis follower in term 2\nfollows -\nread 77: NOT_LEADER 0\n");
	assert_int_equal(solo_propose(s, 1, 1), ERR_NOT_LEADER);
	solo_free(s);
}

/* F06: a leader that was not running for an election timeout steps down before it does anything else. */
static void test_F06_late_tick_ends_the_leadership(void **state)
{
	(void)state;
	struct solo *s = solo_member(1, 0, 5); /* even where nobody else could have been elected */
	solo_time_out(s);
	solo_drain(s);
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	solo_forget(s);
	s->now_ms += 500;
	raft_tick(s->raft, s->now_ms);
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	s->now_ms += 501;
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "steps down: late tick\nis follower in term 2\nfollows -\n");
	solo_free(s);
}

/* A follower that was not running reads what came meanwhile before it campaigns. */
static void test_late_tick_gives_a_follower_a_fresh_timeout(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	s->now_ms += 30000;
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "");
	solo_append(s, 2, 2, 5, 1, 2, 0, 0);
	solo_tick(s, 450);
	solo_expect(s, "> n2 append-reply t2 match 5 last 5\n");
	solo_free(s);
}

/* A driver that sleeps until each deadline, and wakes a little late, is never taken for one that did not run: with
 * nothing else going on, the longest election timeout still ends in a campaign. */
static void test_deadlines_alone_lead_to_a_campaign(void **state)
{
	(void)state;
	struct solo *s = follower_of_n2();
	const uint64_t begun = s->now_ms;
	while (solo_view(s).role != RAFT_PRECANDIDATE) {
		struct raft_ready rd;
		raft_ready(s->raft, &rd);
		assert_true(rd.deadline_ms > s->now_ms);
		s->now_ms = rd.deadline_ms + 20;
		raft_tick(s->raft, s->now_ms);
		assert_in_range(s->now_ms - begun, 0, 1000 + 20);
	}
	solo_free(s);
}

/* F04: a leader whose disk does not return for two election timeouts steps down, and does not campaign until it does.
 */
static void test_F04_slow_disk_ends_the_leadership(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	solo_make_leader(s);
	solo_ack(s, 2, 2, 6);
	s->disk_held = true;
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_forget(s);
	s->quiet = true;
	for (int i = 0; i < 10; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 7);
		solo_ack(s, 3, 2, 7);
	}
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	solo_drain(s);
	s->quiet = false;
	s->now_ms += 50;
	raft_tick(s->raft, s->now_ms);
	solo_expect(s, "steps down: disk slow\nis follower in term 2\nfollows -\n");
	solo_tick(s, 5000);
	solo_expect(s, ""); /* no candidacy while the disk hangs */
	assert_int_equal(solo_view(s).commit_index, 7);
	assert_int_equal(solo_view(s).handed_index, 6); /* committed elsewhere, not durable here */
	solo_disk(s, 1, 0);
	solo_expect(s, "commit [7 t2]\n");
	solo_time_out(s);
	assert_non_null(strstr(solo_look(s), "is precandidate in term 2"));
	solo_free(s);
}

/* F04: a failed write is final: the leader goes at once, never campaigns again, and acknowledges nothing. */
static void test_F04_disk_error_is_final(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	solo_make_leader(s);
	s->disk_held = true;
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_forget(s);
	solo_disk(s, 1, ERR_IO);
	solo_expect(s, "steps down: disk error\nis follower in term 2\nfollows -\n");
	assert_true(solo_view(s).disk_failed);
	solo_tick(s, 5000);
	VOTE(s, 2, 9, 99, 8, .flag = true);
	PREVOTE(s, 2, 9, 99, 8);
	solo_append(s, 3, 9, 7, 2, 9, 1, 8);
	STEP(s, .type = RAFT_MSG_TIMEOUT_NOW, .from = 3, .term = 9);
	solo_tick(s, 5000);
	solo_expect(s, "refuses n2 in term 9\nfollows n3\n> n2 prevote-reply t2 no\nfollows -\n");
	solo_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_F03_prevote_keeps_the_vote),
		cmocka_unit_test(test_F03_late_prevotes_are_not_votes),
		cmocka_unit_test(test_prevote_leaves_no_trace),
		cmocka_unit_test(test_leader_stickiness),
		cmocka_unit_test(test_handed_over_candidate_is_heard),
		cmocka_unit_test(test_candidate_with_an_old_log_is_refused),
		cmocka_unit_test(test_F09_unknown_candidates_change_no_term),
		cmocka_unit_test(test_only_voters_elect),
		cmocka_unit_test(test_messages_to_another_incarnation_are_dropped),
		cmocka_unit_test(test_learner_does_not_campaign),
		cmocka_unit_test(test_single_voter_leads_at_once),
		cmocka_unit_test(test_bootstrap),
		cmocka_unit_test(test_F02_votes_wait_for_the_disk),
		cmocka_unit_test(test_F02_overtaken_votes_never_leave),
		cmocka_unit_test(test_early_prevote_when_the_leader_is_gone),
		cmocka_unit_test(test_stickiness_ends_with_the_link),
		cmocka_unit_test(test_early_prevote_is_called_off),
		cmocka_unit_test(test_leader_without_a_quorum_steps_down),
		cmocka_unit_test(test_F06_late_tick_ends_the_leadership),
		cmocka_unit_test(test_late_tick_gives_a_follower_a_fresh_timeout),
		cmocka_unit_test(test_deadlines_alone_lead_to_a_campaign),
		cmocka_unit_test(test_F04_slow_disk_ends_the_leadership),
		cmocka_unit_test(test_F04_disk_error_is_final),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
