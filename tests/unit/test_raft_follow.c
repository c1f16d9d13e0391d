/* A follower and its leader's appends (§5.3): what it takes, what it answers, and when. */
#include "raft_solo.h"

/* n1 of n1..n3: snapshot at 100 (term 2), log 101..105 of term 2. */
static struct solo *member_from_101(void)
{
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(3, 0);
	struct raft_start start = { .term = 2,
		                    .snapshot_index = 100,
		                    .snapshot_term = 2,
		                    .snapshot_conf = &conf,
		                    .conf = &conf,
		                    .applied_index = 100 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 101, 2 }, { 0, 0 } }, 105, 101);
	const struct raft_params p = solo_params();
	struct solo *s = solo_new(&p, &start);
	solo_log_fini(&log);
	/* Its leader of term 3 has been heard. */
	solo_append(s, 2, 3, 100, 2, 2, 0, 0);
	solo_expect(s, "follows n2\npersist term 3 vote -\n> n2 append-reply t3 match 100 last 105\n");
	return s;
}

/* F08: an append that begins below the compacted start agrees up to what is committed here; nothing is removed. */
static void test_F08_previous_index_below_the_log(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	solo_append(s, 2, 3, 40, 1, 2, 0, 0);
	solo_expect(s, "> n2 append-reply t3 match 100 last 105\n");
	solo_append(s, 2, 3, 100, 2, 2, 0, 0);
	solo_expect(s, "> n2 append-reply t3 match 100 last 105\n");
	solo_append(s, 2, 3, 40, 1, 2, 10, 0); /* all of it below */
	solo_expect(s, "> n2 append-reply t3 match 100 last 105\n");
	solo_free(s);
}

/* F08: refusals name a place that may agree, and its term. */
static void test_F08_refusals_carry_a_usable_hint(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	solo_append(s, 2, 3, 101, 3, 3, 1, 0); /* another term */
	solo_expect(s, "> n2 append-reply t3 no 101 hint 100 t2 last 105\n");
	solo_append(s, 2, 3, 103, 1, 3, 0, 0); /* a lower one: nothing of term 2 can agree */
	solo_expect(s, "> n2 append-reply t3 no 103 hint 100 t2 last 105\n");
	solo_append(s, 2, 3, 110, 2, 3, 2, 0); /* past the end */
	solo_expect(s, "> n2 append-reply t3 no 110 hint 105 t2 last 105\n");
	solo_free(s);
}

/* F08: the same twice, an empty one, and one that straddles the start of the log change nothing that agrees. */
static void test_F08_repeats_and_straddling(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	solo_append(s, 2, 3, 98, 2, 2, 5, 103);
	solo_expect(s, "> n2 append-reply t3 match 103 last 105\ncommit [101..103 t2]\n");
	solo_append(s, 2, 3, 105, 2, 3, 2, 103);
	solo_expect(s, "persist [106..107 t3]\n> n2 append-reply t3 match 105 agrees 107 last 107\n"
	               "> n2 append-reply t3 match 107 last 107\n");
	solo_append(s, 2, 3, 105, 2, 3, 2, 103);
	solo_expect(s, "> n2 append-reply t3 match 107 last 107\n");
	solo_append(s, 2, 3, 107, 3, 3, 0, 107);
	solo_expect(s, "> n2 append-reply t3 match 107 last 107\ncommit [104..105 t2 106..107 t3]\n");
	solo_free(s);
}

/* A conflict cuts from the first differing entry on, never what is committed, and the commit index is bounded by what
 * the message proved. */
static void test_conflict_cuts_from_the_first_difference(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	solo_append(s, 2, 3, 102, 2, 2, 0, 999);
	solo_expect(s, "> n2 append-reply t3 match 102 last 105\ncommit [101..102 t2]\n");
	struct entry *v = solo_entries(103, 2, 4, 8); /* 103 agrees; 104.. are of term 3 */
	v[1].term = v[2].term = v[3].term = 3;
	STEP(s, .type = RAFT_MSG_APPEND, .from = 2, .term = 3, .index = 102, .log_term = 2, .commit = 104, .entries = v,
	     .entry_count = 4);
	solo_drop(v, 4);
	solo_expect(s,
	            "cuts its log at 104\npersist [104..106 t3]\n> n2 append-reply t3 match 103 agrees 106 last 106\n"
	            "commit [103 t2]\n> n2 append-reply t3 match 106 last 106\ncommit [104 t3]\n");
	solo_free(s);
}

/* An acknowledgement waits for the disk; one sync answers for everything it covered. */
static void test_acknowledges_only_what_is_durable(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	s->disk_held = true;
	solo_append(s, 2, 3, 105, 2, 3, 1, 100);
	solo_append(s, 2, 3, 106, 3, 3, 1, 106);
	solo_expect(s, "persist [106..107 t3]\n> n2 append-reply t3 match 105 agrees 107 last 107\n"
	               "commit [101..105 t2]\n"); /* 106 is committed elsewhere, not durable here */
	solo_append(s, 2, 3, 107, 3, 3, 1, 107);
	solo_expect(s, "persist [108 t3]\n");
	solo_append(s, 2, 3, 108, 3, 3, 0, 107); /* a heartbeat is answered, with what is durable */
	solo_expect(s, "> n2 append-reply t3 match 105 agrees 108 last 108\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 append-reply t3 match 107 agrees 108 last 108\ncommit [106..107 t3]\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 append-reply t3 match 108 last 108\n");
	solo_free(s);
}

/* F08, ABA: entries 106..107 are with the disk when the leader of term 4 replaces them, and a third leader brings the
 * very same ones back before the override is durable. The first write's return proves nothing about them. */
static void test_F08_late_completion_of_replaced_entries(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	s->disk_held = true;
	solo_append(s, 2, 3, 105, 2, 3, 2, 100);
	solo_expect(s, "persist [106..107 t3]\n> n2 append-reply t3 match 105 agrees 107 last 107\n");
	solo_append(s, 3, 4, 105, 2, 4, 1, 100);
	solo_expect(s, "follows n3\ncuts its log at 106\npersist term 4 vote - [106 t4]\n");
	struct entry *v = solo_entries(106, 3, 3, 8);
	v[2].term = 5;
	STEP(s, .type = RAFT_MSG_APPEND, .from = 2, .term = 5, .index = 105, .log_term = 2, .commit = 100, .entries = v,
	     .entry_count = 3);
	solo_drop(v, 3);
	solo_expect(s, "follows n2\ncuts its log at 106\npersist term 5 vote - [106..107 t3 108 t5]\n");
	assert_int_equal(solo_view(s).durable_index, 105);
	solo_disk(s, 1, 0); /* 106..107 of term 3, as they stand in the log now */
	solo_expect(s, "");
	assert_int_equal(solo_view(s).durable_index, 105);
	solo_disk(s, 1, 0);
	solo_expect(s, "");
	assert_int_equal(solo_view(s).durable_index, 105);
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 append-reply t5 match 108 last 108\n");
	assert_int_equal(solo_view(s).durable_index, 108);
	solo_free(s);
}

/* What was to be acknowledged in one term is not acknowledged in the next: the entries may be others by then. */
static void test_answers_do_not_cross_terms(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	s->disk_held = true;
	solo_append(s, 2, 3, 105, 2, 3, 2, 100);
	solo_forget(s);
	solo_append(s, 3, 4, 200, 4, 4, 0, 100); /* refused: n3's log is longer; the refusal waits for the term */
	solo_expect(s, "follows n3\npersist term 4 vote -\n");
	solo_disk(s, 1, 0);
	solo_expect(s, "");
	solo_disk(s, 1, 0);
	solo_expect(s, "> n3 append-reply t4 no 200 hint 107 t3 last 107\n");
	solo_free(s);
}

/* A deposed leader is told the present term; it may be the only one who does not know. */
static void test_stale_append_is_answered_with_the_term(void **state)
{
	(void)state;
	struct solo *s = member_from_101();
	solo_append(s, 3, 2, 105, 2, 2, 1, 100);
	solo_expect(s, "> n3 append-reply t3 no 105 hint 0 t0 last 105\n");
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = 3, .term = 2, .index = 105, .flag = true);
	solo_expect(s, "");
	solo_free(s);
}

/* A learner or fresh server follows a leader its configuration does not know, and takes the configuration from the log.
 */
static void test_fresh_node_takes_the_configuration_from_the_log(void **state)
{
	(void)state;
	const struct raft_params p = solo_params();
	const struct raft_conf conf = text_make_conf(3, 1);
	struct solo *s = solo_new(&p, &(struct raft_start){ 0 });
	assert_null(solo_view(s).conf);
	struct buf b = { 0 };
	raft_conf_encode(&conf, &b);
	struct entry e = { .index = 1, .term = 1, .kind = ENTRY_CONFIG, .len = (uint32_t)b.len };
	e.slab = slab_from(b.data, b.len);
	e.data = e.slab->data;
	STEP(s, .type = RAFT_MSG_APPEND, .from = 2, .term = 2, .entries = &e, .entry_count = 1);
	solo_expect(s, "follows n2\nconfiguration 1 appended\npersist term 2 vote - [1 t1]\n"
	               "> n2 append-reply t2 match 1 last 1\n");
	assert_int_equal(solo_view(s).conf->count, 3);
	assert_true(solo_view(s).conf_pending);
	/* A damaged one is not taken, whoever sends it. */
	e.index = 2;
	e.len--;
	STEP(s, .type = RAFT_MSG_APPEND, .from = 2, .term = 2, .index = 1, .log_term = 1, .entries = &e,
	     .entry_count = 1);
	solo_expect(s, "");
	entry_unref(&e);
	buf_fini(&b);
	solo_free(s);
}

/* A fresh node never campaigns by itself, however long it waits. */
static void test_fresh_node_waits(void **state)
{
	(void)state;
	const struct raft_params p = solo_params();
	struct solo *s = solo_new(&p, &(struct raft_start){ 0 });
	solo_tick(s, 60000);
	solo_expect(s, "");
	solo_free(s);
}

/* Committed entries that left memory are read back for apply, within its window. */
static void test_own_apply_fetches_what_left_memory(void **state)
{
	(void)state;
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(3, 0);
	struct raft_params p = solo_params();
	p.apply_entries_max = 6;
	struct raft_start start = { .term = 2, .conf = &conf, .conf_index = 1, .applied_index = 2 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 5, 2 }, { 0, 0 } }, 12, 10);
	struct solo *s = solo_new(&p, &start);
	s->apply_held = true;
	solo_append(s, 2, 2, 12, 2, 2, 0, 12);
	solo_expect(s, "follows n2\n> n2 append-reply t2 match 12 last 12\nfetch for - 3..8\n");
	solo_tick(s, 50);
	solo_expect(s, "");

	struct entry *v = solo_entries(3, 1, 3, 8); /* 5 is of term 2: a file that says 1 is not believed */
	raft_fetched(s->raft, 0, 3, v, 3, 0);
	solo_expect(s, "commit [3..4 t1]\nfetch for - 5..8\n");
	raft_fetched(s->raft, 0, 3, v, 3, 0); /* nobody asks that any more */
	solo_expect(s, "");
	raft_fetched(s->raft, 0, 5, NULL, 0, ERR_IO); /* again, a heartbeat later */
	solo_expect(s, "");
	solo_tick(s, 100);
	solo_expect(s, "fetch for - 5..8\n");
	solo_drop(v, 3);

	v = solo_entries(5, 2, 4, 8);
	raft_fetched(s->raft, 0, 5, v, 4, 0);
	solo_drop(v, 4);
	solo_expect(s, "commit [5..8 t2]\n"); /* six are with apply: the window is full */
	raft_applied(s->raft, 4);
	solo_expect(s, "fetch for - 9..9\n");
	v = solo_entries(9, 2, 1, 8);
	raft_fetched(s->raft, 0, 9, v, 1, 0);
	solo_drop(v, 1);
	solo_expect(s, "commit [9 t2]\ncommit [10 t2]\n");
	raft_applied(s->raft, 10);
	solo_expect(s, "commit [11..12 t2]\n");
	solo_free(s);
	solo_log_fini(&log);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_F08_previous_index_below_the_log),
		cmocka_unit_test(test_F08_refusals_carry_a_usable_hint),
		cmocka_unit_test(test_F08_repeats_and_straddling),
		cmocka_unit_test(test_conflict_cuts_from_the_first_difference),
		cmocka_unit_test(test_acknowledges_only_what_is_durable),
		cmocka_unit_test(test_F08_late_completion_of_replaced_entries),
		cmocka_unit_test(test_answers_do_not_cross_terms),
		cmocka_unit_test(test_stale_append_is_answered_with_the_term),
		cmocka_unit_test(test_fresh_node_takes_the_configuration_from_the_log),
		cmocka_unit_test(test_fresh_node_waits),
		cmocka_unit_test(test_own_apply_fetches_what_left_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
