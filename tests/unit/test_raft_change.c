/* Changing the configuration (D 4): one server at a time, in force when appended, rolled back when cut off. */
#include "raft_solo.h"

static struct raft_server server(node_id id)
{
	struct raft_server s = { .id = id };
	snprintf(s.name, sizeof(s.name), "n%u", (unsigned)(id % 100));
	snprintf(s.addr, sizeof(s.addr), "10.0.0.%u:7943", (unsigned)id);
	return s;
}

static int change(struct solo *s, enum raft_change what, node_id id, struct err *e)
{
	const struct raft_server sv = server(id);
	raft_index index = 0;
	const int rc = raft_change_conf(s->raft, what, &sv, &index, e);
	if (rc == 0)
		assert_int_equal(index, solo_view(s).last_index);
	return rc;
}

static void assert_refused(struct solo *s, enum raft_change what, node_id id, int code, const char *says)
{
	struct err e = { 0 };
	assert_int_equal(change(s, what, id, &e), code);
	if (!strstr(e.msg, says))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, says);
	solo_expect(s, "");
}

static void assert_conf(struct solo *s, const char *want, raft_index index, bool pending)
{
	const struct raft_view v = solo_view(s);
	struct buf b = { 0 };
	text_conf(&b, v.conf);
	assert_string_equal(buf_cstr(&b), want);
	buf_fini(&b);
	assert_int_equal(v.conf_index, index);
	assert_int_equal(v.conf_pending, pending);
}

static struct solo *settled_leader(uint32_t count)
{
	struct solo *s = solo_member(count, 0, 5);
	solo_make_leader(s);
	for (node_id id = 2; id <= count; id++)
		solo_ack(s, id, 2, 6);
	solo_forget(s);
	return s;
}

/* A new server comes in as a learner, is sent the log, counts for nothing, and is promoted when it has it. */
static void test_learner_is_added_caught_up_and_promoted(void **state)
{
	(void)state;
	struct solo *s = settled_leader(1);
	assert_int_equal(change(s, RAFT_ADD_LEARNER, 2, NULL), 0);
	solo_expect(s, "configuration 7 appended\npersist [7 t2]\n> n2 append t2 prev 7 t2 commit 6\n"
	               "configuration 7 committed\ncommit [7 t2]\n"); /* the one voter decides */
	assert_conf(s, "n1 n2(learner)", 7, false);
	assert_refused(s, RAFT_ADD_LEARNER, 2, ERR_EXISTS, "n2 is in the configuration");
	assert_refused(s, RAFT_PROMOTE, 2, ERR_INVALID, "n2 does not answer"); /* F11 */
	assert_int_equal(solo_propose(s, 1100, 0), 0);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 2, .term = 2, .index = 7);
	assert_non_null(strstr(solo_look(s), "> n2 append t2 prev 0 t0 [1..5 t1 6..1107 t2] commit 1107\n"));
	assert_refused(s, RAFT_PROMOTE, 2, ERR_INVALID, "n2 is 1107 entries behind");
	solo_ack(s, 2, 2, 1107);
	assert_int_equal(change(s, RAFT_PROMOTE, 2, NULL), 0);
	assert_conf(s, "n1 n2", 1108, true);
	solo_forget(s);
	assert_conf(s, "n1 n2", 1108, true); /* in force, and needs both */
	solo_ack(s, 2, 2, 1108);
	assert_conf(s, "n1 n2", 1108, false);
	solo_forget(s);
	assert_refused(s, RAFT_PROMOTE, 2, ERR_EXISTS, "n2 is a voter already");
	solo_free(s);
}

/* One change at a time, none before the no-op committed, none on a follower or during a transfer. */
static void test_changes_come_one_at_a_time(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	assert_refused(s, RAFT_REMOVE, 3, ERR_NOT_LEADER, "does not lead");
	solo_make_leader(s);
	assert_refused(s, RAFT_REMOVE, 3, ERR_BUSY, "has not yet committed");
	solo_ack(s, 2, 2, 6);
	solo_ack(s, 3, 2, 6);
	assert_int_equal(change(s, RAFT_ADD_LEARNER, 4, NULL), 0);
	solo_forget(s);
	assert_refused(s, RAFT_REMOVE, 3, ERR_BUSY, "another change");
	solo_ack(s, 3, 2, 7);
	solo_forget(s);
	assert_int_equal(raft_transfer(s->raft, 2, NULL), 0);
	solo_forget(s);
	assert_refused(s, RAFT_REMOVE, 3, ERR_BUSY, "handed over");
	solo_free(s);
}

/* What breaks the rules of a configuration is refused and appends nothing. */
static void test_senseless_changes_are_refused(void **state)
{
	(void)state;
	struct solo *s = settled_leader(1);
	assert_refused(s, RAFT_REMOVE, 2, ERR_NOTFOUND, "no such server");
	assert_refused(s, RAFT_REMOVE, 1, ERR_INVALID, "0 servers");
	assert_refused(s, RAFT_DEMOTE, 1, ERR_INVALID, "needs a voter");
	assert_refused(s, RAFT_PROMOTE, 1, ERR_EXISTS, "voter already");
	struct raft_server bad = server(2);
	bad.addr[0] = '\0';
	raft_index index = 99;
	struct err e = { 0 };
	assert_int_equal(raft_change_conf(s->raft, RAFT_ADD_LEARNER, &bad, &index, &e), ERR_INVALID);
	assert_int_equal(index, 99);
	assert_int_equal(solo_view(s).last_index, 6);
	solo_free(s);
}

/* The configuration holds so many servers and no more. */
static void test_configuration_is_bounded(void **state)
{
	(void)state;
	struct solo *s = settled_leader(1);
	for (node_id id = 2; id <= RAFT_SERVERS_MAX; id++) {
		assert_int_equal(change(s, RAFT_ADD_LEARNER, id, NULL), 0);
		solo_forget(s);
	}
	assert_int_equal(solo_view(s).conf->count, RAFT_SERVERS_MAX);
	assert_refused(s, RAFT_ADD_LEARNER, 20, ERR_INVALID, "more are not allowed");
	solo_free(s);
}

/* A removed voter counts no more from the moment the entry is appended, and is sent nothing. */
static void test_removal_counts_when_appended(void **state)
{
	(void)state;
	struct solo *s = settled_leader(3);
	assert_int_equal(change(s, RAFT_REMOVE, 3, NULL), 0);
	solo_expect(s, "configuration 7 appended\npersist [7 t2]\n> n2 append t2 prev 6 t2 [7 t2] commit 6\n");
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 3, .term = 2, .index = 7, .flag = true);
	solo_expect(s, "");
	solo_ack(s, 2, 2, 7); /* two of two */
	solo_expect(s, "configuration 7 committed\n> n2 append t2 prev 7 t2 commit 7\ncommit [7 t2]\n");
	assert_conf(s, "n1 n2", 7, false);
	solo_free(s);
}

/* A smaller majority can commit what waited for the larger one. */
static void test_removal_may_commit_at_once(void **state)
{
	(void)state;
	struct solo *s = settled_leader(2);
	assert_int_equal(change(s, RAFT_REMOVE, 2, NULL), 0);
	solo_expect(s, "configuration 7 appended\npersist [7 t2]\nconfiguration 7 committed\ncommit [7 t2]\n");
	solo_free(s);
}

/* D 4.2.2: a leader that removes itself leads without counting itself until that is committed, then names an heir. */
static void test_leader_removes_itself(void **state)
{
	(void)state;
	struct solo *s = settled_leader(3);
	assert_int_equal(change(s, RAFT_REMOVE, 1, NULL), 0);
	solo_forget(s);
	assert_conf(s, "n2 n3", 7, true);
	solo_ack(s, 2, 2, 7);
	solo_expect(s, ""); /* n2 alone is no majority of n2 and n3, this node's own disk does not count */
	solo_ack(s, 3, 2, 7);
	solo_expect(s, "configuration 7 committed\nsteps down: no longer a voter\nis follower in term 2\nfollows -\n"
	               "> n2 timeout-now t2\ncommit [7 t2]\n");
	solo_tick(s, 20000);
	solo_expect(s, ""); /* it does not come back by itself */
	solo_free(s);
}

/* A wiped directory comes back under its name as a learner; the old incarnation is gone from the votes. */
static void test_wiped_server_is_admitted_as_a_learner(void **state)
{
	(void)state;
	struct solo *s = settled_leader(3);
	assert_refused(s, RAFT_ADD_LEARNER, 103, ERR_EXISTS, "n3 is in the configuration");
	assert_refused(s, RAFT_PROMOTE, 103, ERR_NOTFOUND, "no such server");
	assert_int_equal(change(s, RAFT_DEMOTE, 103, NULL), 0);
	assert_conf(s, "n1 n2 n3'(learner)", 7, true);
	assert_string_equal(solo_view(s).conf->servers[2].addr, "10.0.0.103:7943");
	solo_expect(s, "configuration 7 appended\npersist [7 t2]\n> n2 append t2 prev 6 t2 [7 t2] commit 6\n"
	               "> n3' append t2 prev 7 t2 commit 6\n");
	solo_ack(s, 2, 2, 7);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 103, .term = 2, .index = 7);
	solo_expect(s, "is refused by n3' at 7, hint 0\n> n3' append t2 prev 0 t0 [1..5 t1 6..7 t2] commit 7\n");
	solo_ack(s, 103, 2, 7);
	assert_int_equal(change(s, RAFT_PROMOTE, 103, NULL), 0);
	solo_forget(s);
	assert_conf(s, "n1 n2 n3'", 8, true);
	assert_refused(s, RAFT_DEMOTE, 9, ERR_BUSY, "another change");
	solo_free(s);
}

/* That a learner is to be promoted stands in the configuration, so that the next leader knows it too; it ends with the
 * promotion, and can be taken back and given. */
static void test_staging_is_part_of_the_configuration(void **state)
{
	(void)state;
	struct solo *s = settled_leader(1);
	struct raft_server joiner = server(2);
	joiner.staged = true;
	raft_index index;
	assert_int_equal(raft_change_conf(s->raft, RAFT_ADD_LEARNER, &joiner, &index, NULL), 0);
	solo_forget(s);
	assert_conf(s, "n1 n2(staged)", 7, false);
	assert_int_equal(raft_change_conf(s->raft, RAFT_DEMOTE, &joiner, &index, NULL), ERR_EXISTS);
	joiner.staged = false;
	assert_int_equal(raft_change_conf(s->raft, RAFT_DEMOTE, &joiner, &index, NULL), 0);
	solo_forget(s);
	assert_conf(s, "n1 n2(learner)", 8, false);
	joiner.staged = true;
	assert_int_equal(raft_change_conf(s->raft, RAFT_DEMOTE, &joiner, &index, NULL), 0);
	solo_forget(s);
	solo_ack(s, 2, 2, 9);
	assert_int_equal(raft_change_conf(s->raft, RAFT_PROMOTE, &joiner, &index, NULL), 0);
	assert_conf(s, "n1 n2", 10, true);
	solo_free(s);
}

/* A server that moved is found under its new address, with its progress kept. */
static void test_address_is_changed(void **state)
{
	(void)state;
	struct solo *s = settled_leader(3);
	struct raft_server moved = server(3);
	snprintf(moved.addr, sizeof(moved.addr), "elsewhere:1");
	raft_index index;
	assert_int_equal(raft_change_conf(s->raft, RAFT_SET_ADDR, &moved, &index, NULL), 0);
	solo_expect(s, "configuration 7 appended\npersist [7 t2]\n> n2 append t2 prev 6 t2 [7 t2] commit 6\n"
	               "> n3 append t2 prev 6 t2 [7 t2] commit 6\n");
	assert_string_equal(solo_view(s).conf->servers[2].addr, "elsewhere:1");
	assert_true(solo_view(s).conf->servers[2].voter);
	assert_int_equal(solo_view(s).peers[1].match, 6);
	solo_free(s);
}

/* F13: a configuration cut off by a new leader gives way to the one before, though that is only in the snapshot; and
 * what is in force then survives a restart. */
static void test_F13_cut_off_configuration_is_rolled_back(void **state)
{
	(void)state;
	struct solo *s = settled_leader(3);
	const struct raft_conf before = *solo_view(s).conf;
	raft_snapshot_taken(s->raft, 6, 2, &before, 6); /* the log that held it is gone */
	assert_int_equal(change(s, RAFT_ADD_LEARNER, 4, NULL), 0);
	assert_int_equal(solo_propose(s, 1, 8), 0);
	solo_forget(s);
	assert_conf(s, "n1 n2 n3 n4(learner)", 7, true);
	solo_append(s, 2, 3, 6, 2, 3, 1, 6);
	solo_expect(s,
	            "steps down: higher term\nis follower in term 3\nfollows n2\ncuts its log at 7\n"
	            "configuration 7 rolled back\npersist term 3 vote - [7 t3]\n> n2 append-reply t3 match 7 last 7\n");
	assert_conf(s, "n1 n2 n3", 1, false);
	assert_int_equal(solo_view(s).conf->count, 3);
	solo_free(s);
}

/* F13 after a restart between: the configuration before the uncommitted one comes from disk, log or snapshot. */
static void test_F13_rolls_back_after_a_restart(void **state)
{
	(void)state;
	for (int in_log = 0; in_log < 2; in_log++) {
		struct solo_log log;
		const struct raft_params p = solo_params();
		const struct raft_conf before = text_make_conf(3, 0), after = text_make_conf(4, 1);
		struct raft_start start = { .term = 2,
			                    .snapshot_index = in_log ? 0 : 6,
			                    .snapshot_term = in_log ? 0 : 2,
			                    .snapshot_conf = in_log ? NULL : &before,
			                    .applied_index = 6,
			                    .conf = &after,
			                    .conf_index = 7,
			                    .conf_prev = in_log ? &before : NULL,
			                    .conf_prev_index = in_log ? 1 : 0 };
		const struct raft_term_range whole[] = { { 1, 1 }, { 6, 2 }, { 0, 0 } },
					     rest[] = { { 7, 2 }, { 0, 0 } };
		solo_log_init(&log, &start, in_log ? whole : rest, 8, 7);
		struct solo *s = solo_new(&p, &start);
		assert_conf(s, "n1 n2 n3 n4(learner)", 7, true);
		solo_append(s, 2, 3, 6, 2, 3, 1, 6);
		assert_non_null(strstr(solo_look(s), "configuration 7 rolled back\n"));
		assert_conf(s, "n1 n2 n3", in_log ? 1 : 0, false);
		solo_free(s);
		solo_log_fini(&log);
	}
}

/* D 4.2.2: a removal only this node has may be what keeps everybody else from being elected: while it is not committed,
 * who was removed may still campaign, without counting itself. */
static void test_uncommitted_removal_does_not_silence(void **state)
{
	(void)state;
	struct solo_log log;
	const struct raft_params p = solo_params();
	const struct raft_conf before = text_make_conf(2, 0);
	struct raft_conf after = { .count = 1, .servers = { before.servers[1] } };
	struct raft_start start = { .term = 2,
		                    .applied_index = 6,
		                    .conf = &after,
		                    .conf_index = 7,
		                    .conf_prev = &before,
		                    .conf_prev_index = 1 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 6, 2 }, { 0, 0 } }, 7, 1);
	struct solo *s = solo_new(&p, &start);
	solo_time_out(s);
	solo_expect(s, "is precandidate in term 2\n> n2 prevote t3 last 7 t2\n");
	STEP(s, .type = RAFT_MSG_PREVOTE_REPLY, .from = 2, .term = 3, .flag = true);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_VOTE_REPLY, .from = 2, .term = 3, .flag = true);
	solo_forget(s);
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	solo_ack(s, 2, 3, 8); /* the one voter has it all: the removal is committed, and so the leader goes */
	assert_non_null(strstr(solo_look(s), "steps down: no longer a voter\n"));
	solo_tick(s, 20000);
	solo_expect(s, "");
	solo_free(s);
	solo_log_fini(&log);
}

/* Whose removal is not yet committed still gets votes: the removal may be undone by just that election. */
static void test_uncommitted_removal_does_not_make_unknown(void **state)
{
	(void)state;
	struct solo *s = settled_leader(3);
	assert_int_equal(change(s, RAFT_REMOVE, 3, NULL), 0);
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_VOTE, .from = 2, .term = 3, .index = 7, .log_term = 2, .flag = true);
	STEP(s, .type = RAFT_MSG_VOTE, .from = 3, .term = 4, .index = 7, .log_term = 2, .flag = true);
	assert_non_null(strstr(solo_look(s), "votes for n3 in term 4\n"));
	solo_append(s, 2, 5, 7, 2, 5, 1, 8); /* now it is */
	solo_forget(s);
	STEP(s, .type = RAFT_MSG_VOTE, .from = 3, .term = 6, .index = 9, .log_term = 5, .flag = true);
	solo_expect(s, "refuses n3 in term 6\n> n3 vote-reply t5 no\n");
	solo_free(s);
}

/* A configuration that committed cannot be rolled back to before it: only the newest committed one is kept. */
static void test_committed_configurations_are_forgotten(void **state)
{
	(void)state;
	struct solo *s = settled_leader(1);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(change(s, RAFT_ADD_LEARNER, 2, NULL), 0);
		solo_forget(s);
		assert_int_equal(change(s, RAFT_REMOVE, 2, NULL), 0);
		solo_forget(s);
	}
	assert_conf(s, "n1", 206, false);
	solo_free(s);
}

/* Check-quorum counts a new voter's silence from its promotion, and learners never. */
static void test_learners_count_for_no_quorum(void **state)
{
	(void)state;
	struct solo *s = settled_leader(1);
	assert_int_equal(change(s, RAFT_ADD_LEARNER, 2, NULL), 0);
	solo_tick(s, 10000);
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	solo_ack(s, 2, 2, 7);
	solo_tick(s, 450);
	assert_int_equal(change(s, RAFT_PROMOTE, 2, NULL), 0);
	solo_tick(s, 500);
	assert_int_equal(solo_view(s).role, RAFT_LEADER);
	solo_tick(s, 50);
	assert_int_equal(solo_view(s).role, RAFT_FOLLOWER);
	solo_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learner_is_added_caught_up_and_promoted),
		cmocka_unit_test(test_changes_come_one_at_a_time),
		cmocka_unit_test(test_senseless_changes_are_refused),
		cmocka_unit_test(test_configuration_is_bounded),
		cmocka_unit_test(test_removal_counts_when_appended),
		cmocka_unit_test(test_removal_may_commit_at_once),
		cmocka_unit_test(test_leader_removes_itself),
		cmocka_unit_test(test_wiped_server_is_admitted_as_a_learner),
		cmocka_unit_test(test_staging_is_part_of_the_configuration),
		cmocka_unit_test(test_address_is_changed),
		cmocka_unit_test(test_F13_cut_off_configuration_is_rolled_back),
		cmocka_unit_test(test_F13_rolls_back_after_a_restart),
		cmocka_unit_test(test_uncommitted_removal_does_not_silence),
		cmocka_unit_test(test_uncommitted_removal_does_not_make_unknown),
		cmocka_unit_test(test_committed_configurations_are_forgotten),
		cmocka_unit_test(test_learners_count_for_no_quorum),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
