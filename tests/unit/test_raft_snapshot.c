/* Snapshots (§7, D 5): compaction, sending an image, taking one in. */
#include "raft_solo.h"

/* n1 of n1..n3 with a log 1..20 of term 1, applied and snapshotted up to 15, compacted up to 10; leader of term 2. */
static struct solo *leader_with_snapshot(void)
{
	struct solo_log log;
	const struct raft_params p = solo_params();
	const struct raft_conf conf = text_make_conf(3, 0);
	struct raft_start start = { .term = 1, .conf = &conf, .conf_index = 1, .applied_index = 20 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, 20, 1);
	struct solo *s = solo_new(&p, &start);
	solo_log_fini(&log);
	solo_make_leader(s); /* no-op 21 */
	raft_snapshot_taken(s->raft, 15, 1, &conf, 10);
	assert_int_equal(solo_view(s).first_index, 11);
	assert_int_equal(solo_view(s).snapshot_index, 15);
	assert_int_equal(raft_term_at(s->raft, 10), 1);
	assert_int_equal(raft_term_at(s->raft, 9), 0);
	solo_ack(s, 3, 2, 21);
	solo_forget(s);
	return s;
}

static void refuse(struct solo *s, node_id from, raft_index prev, raft_index hint)
{
	STEP(s, .type = RAFT_MSG_APPEND_REPLY, .from = from, .term = 2, .index = prev, .commit = hint, .hint = hint,
	     .hint_term = hint ? 1 : 0);
}

static void want(struct solo *s, node_id from, raft_index index, uint64_t offset, bool ok)
{
	STEP(s, .type = RAFT_MSG_SNAPSHOT_REPLY, .from = from, .term = 2, .index = index, .offset = offset, .flag = ok);
}

/* A peer whose next entry is gone is sent the image, one chunk after the other, each when the one before is in; then
 * the log behind it. Meanwhile it hears heartbeats and counts as paused. */
static void test_image_is_sent_chunk_by_chunk(void **state)
{
	(void)state;
	struct solo *s = leader_with_snapshot();
	refuse(s, 2, 20, 3);
	solo_expect(s, "is refused by n2 at 20, hint 3\nsnapshot 15 with n2 begun\nimage for n2 15 from byte 0 conf\n");
	assert_true(solo_view(s).peers[0].paused);
	want(s, 2, 15, 100, true); /* nothing was sent yet */
	solo_expect(s, "");
	raft_snapshot_read_done(s->raft, 2, 0);
	solo_expect(s, "");
	want(s, 2, 15, 100, true);
	solo_expect(s, "image for n2 15 from byte 100\n");
	raft_snapshot_read_done(s->raft, 2, 0);
	want(s, 2, 15, 100, true); /* the answer to a chunk sent twice */
	want(s, 2, 14, 200, true); /* about another image */
	solo_expect(s, "");
	solo_tick(s, 100);
	assert_non_null(strstr(solo_look(s), "> n2 append t2 prev 0 t0 commit 21\n"));
	solo_ack(s, 2, 2, 3); /* its answer: how far it has committed */
	solo_expect(s, "");
	solo_ack(s, 2, 2, 15);
	solo_expect(s, "snapshot 15 with n2 done\n> n2 append t2 prev 15 t1 [16..20 t1 21 t2] commit 21\n");
	solo_free(s);
}

/* A chunk that got no answer is sent again, at once after its link broke; a receiver that restarted begins at 0. */
static void test_lost_chunks_are_sent_again(void **state)
{
	(void)state;
	struct solo *s = leader_with_snapshot();
	refuse(s, 2, 20, 3);
	solo_drain(s);
	raft_snapshot_read_done(s->raft, 2, 0);
	want(s, 2, 15, 100, true);
	solo_forget(s);
	raft_snapshot_read_done(s->raft, 2, ERR_CLOSED); /* no link: it did not leave */
	s->quiet = true;
	solo_tick(s, 50);
	s->quiet = false;
	solo_expect(s, "");
	solo_ack(s, 3, 2, 21);
	solo_ack(s, 2, 2, 3);
	solo_tick(s, 50);
	assert_non_null(strstr(solo_look(s), "image for n2 15 from byte 100\n"));
	raft_snapshot_read_done(s->raft, 2, 0);
	s->quiet = true;
	for (int i = 0; i < 19; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 3);
		solo_ack(s, 3, 2, 21);
	}
	solo_drain(s);
	s->quiet = false;
	solo_tick(s, 100);
	assert_non_null(strstr(solo_look(s), "image for n2 15 from byte 100\n"));
	raft_snapshot_read_done(s->raft, 2, 0);
	raft_peer_lost(s->raft, 2, false);
	solo_ack(s, 2, 2, 3);
	solo_ack(s, 3, 2, 21);
	solo_tick(s, 100);
	assert_non_null(strstr(solo_look(s), "image for n2 15 from byte 100\n"));
	raft_snapshot_read_done(s->raft, 2, 0);
	want(s, 2, 15, 0, true);
	solo_expect(s, "image for n2 15 from byte 0 conf\n");
	solo_free(s);
}

/* A silent peer is not sent an image; its first word starts it. */
static void test_silent_peer_is_not_sent_an_image(void **state)
{
	(void)state;
	struct solo *s = leader_with_snapshot();
	raft_snapshot_taken(s->raft, 20, 1, solo_view(s).conf, 20);
	raft_applied(s->raft, 21);
	raft_snapshot_taken(s->raft, 21, 2, solo_view(s).conf, 21);
	assert_int_equal(solo_view(s).first_index, 22); /* n2's place, behind 20, is gone as well */
	solo_tick(s, 100);
	solo_expect(s, "> n2 append t2 prev 0 t0 commit 21\n> n3 append t2 prev 21 t2 commit 21\n");
	solo_ack(s, 2, 2, 0);
	solo_expect(s, "snapshot 21 with n2 begun\nimage for n2 21 from byte 0 conf\n");
	solo_free(s);
}

/* What the receiver refuses, and a file that is gone, are begun anew later, with the newest image there is. */
static void test_failed_image_is_begun_anew(void **state)
{
	(void)state;
	struct solo *s = leader_with_snapshot();
	refuse(s, 2, 20, 3);
	solo_drain(s);
	raft_snapshot_read_done(s->raft, 2, 0);
	want(s, 2, 15, 100, true);
	solo_drain(s);
	raft_snapshot_read_done(s->raft, 2, 0);
	solo_forget(s);
	want(s, 2, 15, 0, false);
	solo_expect(s, "snapshot 15 with n2 failed\n");
	raft_snapshot_taken(s->raft, 20, 1, solo_view(s).conf, 10);
	s->quiet = true;
	for (int i = 0; i < 4; i++) {
		solo_tick(s, 100);
		solo_ack(s, 2, 2, 3);
		solo_ack(s, 3, 2, 21);
	}
	solo_drain(s);
	s->quiet = false;
	solo_tick(s, 100);
	const char *said = solo_look(s);
	assert_non_null(strstr(said, "snapshot 20 with n2 begun\n"));
	assert_non_null(strstr(said, "image for n2 20 from byte 0 conf\n"));
	raft_snapshot_read_done(s->raft, 2, ERR_NOTFOUND);
	solo_expect(s, "snapshot 20 with n2 failed\n");
	solo_free(s);
}

/* F17: what lies behind an image on its way is kept until it is in, unless its receiver fell silent. */
static void test_F17_image_on_its_way_holds_the_log(void **state)
{
	(void)state;
	struct solo *s = leader_with_snapshot();
	refuse(s, 2, 20, 3);
	solo_drain(s);
	raft_snapshot_read_done(s->raft, 2, 0);
	assert_int_equal(solo_propose(s, 10, 8), 0);
	solo_drain(s);
	solo_ack(s, 3, 2, 31);
	solo_drain(s);
	const struct raft_conf conf = *solo_view(s).conf;
	raft_snapshot_taken(s->raft, 31, 2, &conf, 31);
	assert_int_equal(solo_view(s).first_index, 16);
	assert_int_equal(solo_view(s).snapshot_index, 31);
	assert_int_equal(solo_view(s).peers[0].holds, 15);
	assert_true(solo_view(s).peers[0].holds_since_ms > 0);
	solo_forget(s);
	solo_ack(s, 2, 2, 15);
	solo_expect(s, "snapshot 15 with n2 done\n> n2 append t2 prev 15 t1 [16..20 t1 21..31 t2] commit 31\n");
	solo_ack(s, 2, 2, 31);
	assert_int_equal(solo_view(s).first_index, 32);
	assert_int_equal(solo_view(s).peers[0].holds, 0);
	assert_int_equal(solo_view(s).peers[0].holds_since_ms, 0);
	solo_free(s);

	s = leader_with_snapshot();
	refuse(s, 2, 20, 3);
	solo_forget(s);
	raft_snapshot_taken(s->raft, 20, 1, &conf, 20);
	assert_int_equal(solo_view(s).first_index, 16);
	s->quiet = true;
	for (int i = 0; i < 102; i++) { /* twenty election timeouts */
		solo_tick(s, 100);
		solo_ack(s, 3, 2, 21);
	}
	assert_int_equal(solo_view(s).first_index, 21);
	solo_free(s);
}

/* Fetches and streams that meet compaction turn to the image. */
static void test_compaction_under_a_fetch(void **state)
{
	(void)state;
	struct solo_log log;
	const struct raft_params p = solo_params();
	const struct raft_conf conf = text_make_conf(3, 0);
	struct raft_start start = { .term = 1, .conf = &conf, .conf_index = 1, .applied_index = 20 };
	solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, 20, 18);
	struct solo *s = solo_new(&p, &start);
	solo_make_leader(s);
	solo_ack(s, 3, 2, 21);
	refuse(s, 2, 20, 3);
	solo_forget(s);
	solo_ack(s, 2, 2, 3);
	solo_expect(s, "fetch for n2 4..17\n");
	raft_snapshot_taken(s->raft, 15, 1, &conf, 15);
	raft_fetched(s->raft, 2, 4, NULL, 0, ERR_NOTFOUND);
	solo_expect(s, "snapshot 15 with n2 begun\nimage for n2 15 from byte 0 conf\n");
	solo_free(s);
	solo_log_fini(&log);
}

/* ---- taking one in ---- */

static const struct raft_conf *conf_of_three(void)
{
	static struct raft_conf c;
	c = text_make_conf(3, 0);
	return &c;
}

static void chunk(struct solo *s, node_id from, raft_term term, raft_index index, uint64_t offset, size_t len)
{
	struct slab *slab = slab_new(len);
	memset(slab->data, (int)offset, len);
	slab->len = len;
	STEP(s, .type = RAFT_MSG_SNAPSHOT, .from = from, .term = term, .index = index, .log_term = 2, .offset = offset,
	     .size = 250, .data = slab->data, .data_len = len, .slab = slab, .conf = offset ? NULL : conf_of_three());
	slab_unref(slab);
}

/* Chunks go to the driver one at a time; each is answered when it is written; with the last the log begins anew. */
static void test_image_is_taken_in_chunk_by_chunk(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	chunk(s, 2, 2, 40, 0, 100);
	solo_expect(s, "follows n2\nsnapshot 40 with n2 begun\npersist term 2 vote -\ninstall 40 t2 bytes 0+100/250\n");
	chunk(s, 2, 2, 40, 0, 100); /* again, while the driver is busy with it */
	chunk(s, 2, 2, 40, 100, 100);
	solo_expect(s, "");
	raft_snapshot_installed(s->raft, 40, 0);
	solo_expect(s, "> n2 snapshot-reply t2 index 40 wants 100\n");
	chunk(s, 2, 2, 40, 200, 50); /* not the next */
	solo_expect(s, "> n2 snapshot-reply t2 index 40 wants 100\n");
	chunk(s, 2, 2, 40, 0, 100); /* a sender that begins again is told how far it is */
	solo_expect(s, "> n2 snapshot-reply t2 index 40 wants 100\n");
	chunk(s, 2, 2, 40, 100, 150);
	solo_expect(s, "install 40 t2 bytes 100+150/250 last\n");
	solo_append(s, 2, 2, 0, 0, 2, 0, 50); /* heartbeats go on */
	solo_expect(s, "> n2 append-reply t2 match 0 last 5\n");
	raft_snapshot_installed(s->raft, 40, 0);
	solo_expect(s, "snapshot 40 with n2 done\npersist reset to 40 t2\n> n2 append-reply t2 match 40 last 40\n");
	const struct raft_view v = solo_view(s);
	assert_int_equal(v.applied_index, 40);
	assert_int_equal(v.commit_index, 40);
	assert_int_equal(v.first_index, 41);
	assert_int_equal(v.durable_index, 40);
	assert_int_equal(v.conf_index, 0);
	solo_append(s, 2, 2, 40, 2, 2, 2, 42);
	solo_expect(s, "persist [41..42 t2]\n> n2 append-reply t2 match 42 last 42\ncommit [41..42 t2]\n");
	solo_free(s);
}

/* F18: an image at or below the commit index is answered with what is committed; nothing changes. */
static void test_F18_old_image_is_not_taken(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 50);
	solo_append(s, 2, 2, 50, 1, 2, 0, 45);
	solo_forget(s);
	chunk(s, 2, 2, 40, 0, 100);
	solo_expect(s, "> n2 append-reply t2 match 50 last 50\n");
	assert_int_equal(solo_view(s).snapshot_index, 0);
	solo_free(s);
}

/* F18: while one image is being switched in, another is refused, nothing is handed to apply, and no candidacy begins.
 */
static void test_F18_one_image_at_a_time(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	chunk(s, 2, 2, 40, 0, 250);
	solo_expect(
	    s, "follows n2\nsnapshot 40 with n2 begun\npersist term 2 vote -\ninstall 40 t2 bytes 0+250/250 last\n");
	chunk(s, 2, 2, 60, 0, 100);
	solo_expect(s, "> n2 snapshot-reply t2 index 60 no\n");
	solo_append(s, 2, 2, 5, 1, 2, 2, 7); /* entries may come; they wait */
	solo_expect(s, "configuration 1 committed\npersist [6..7 t2]\n> n2 append-reply t2 match 5 agrees 7 last 7\n"
	               "> n2 append-reply t2 match 7 last 7\n");
	s->quiet = true;
	solo_tick(s, 5000);
	s->quiet = false;
	assert_int_equal(solo_view(s).role, RAFT_FOLLOWER);
	assert_int_equal(solo_view(s).handed_index, 0);
	raft_snapshot_installed(s->raft, 40, 0);
	solo_expect(s, "snapshot 40 with n2 done\npersist reset to 40 t2\n");
	assert_int_equal(solo_view(s).last_index, 40);
	solo_free(s);
}

/* A log that agrees with the image keeps what lies behind it; what of it was not durable is still written. */
static void test_agreeing_log_survives_the_image(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	s->disk_held = true;
	solo_append(s, 2, 2, 5, 1, 2, 5, 5);
	solo_forget(s);
	chunk(s, 2, 2, 8, 0, 250);
	solo_forget(s);
	raft_snapshot_installed(s->raft, 8, 0);
	solo_expect(s, "snapshot 8 with n2 done\n");
	assert_int_equal(solo_view(s).applied_index, 8);
	assert_int_equal(solo_view(s).last_index, 10);
	assert_int_equal(solo_view(s).durable_index, 8); /* in the image, whatever becomes of the log */
	solo_disk(s, 1, 0);
	solo_expect(s, "> n2 append-reply t2 match 10 last 10\n");
	assert_int_equal(solo_view(s).durable_index, 10);
	solo_free(s);
}

/* The image an outstanding write is older than does not let that write speak for entries of the new log. */
static void test_reset_caps_outstanding_writes(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	s->disk_held = true;
	solo_append(s, 3, 2, 5, 1, 1, 60, 0); /* 6..65, of a term that lost */
	solo_forget(s);
	chunk(s, 2, 3, 40, 0, 250);
	solo_forget(s);
	raft_snapshot_installed(s->raft, 40, 0);
	solo_append(s, 2, 3, 40, 2, 3, 3, 40);
	solo_forget(s);
	assert_int_equal(solo_view(s).last_index, 43);
	while (s->ticket_count > 1) {
		solo_disk(s, 1, 0);
		assert_int_equal(solo_view(s).durable_index, 40);
	}
	solo_disk(s, 1, 0);
	assert_int_equal(solo_view(s).durable_index, 43);
	solo_expect(s, "> n2 append-reply t3 match 43 last 43\n");
	solo_free(s);
}

/* An image the driver refuses is forgotten and its sender told; the next attempt begins at byte 0. */
static void test_refused_image_is_forgotten(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	chunk(s, 2, 2, 40, 0, 250);
	solo_forget(s);
	raft_snapshot_installed(s->raft, 40, ERR_CORRUPT);
	solo_expect(s, "snapshot 40 with n2 failed\n> n2 snapshot-reply t2 index 40 no\n");
	assert_int_equal(solo_view(s).snapshot_index, 0);
	chunk(s, 2, 2, 40, 100, 100);
	solo_expect(s, "> n2 snapshot-reply t2 index 40 wants 0\n");
	raft_snapshot_installed(s->raft, 40, 0); /* nobody asked */
	solo_expect(s, "");
	solo_free(s);
}

/* Another leader's file differs byte by byte even at one index: it begins anew, when the driver's hands are free. */
static void test_other_leaders_image_begins_anew(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	chunk(s, 2, 2, 40, 0, 100);
	solo_forget(s);
	chunk(s, 3, 3, 40, 0, 100);
	solo_expect(s, "follows n3\npersist term 3 vote -\n> n3 snapshot-reply t3 index 40 no\n");
	raft_snapshot_installed(s->raft, 40, 0); /* n2 no longer leads: no answer */
	solo_expect(s, "");
	chunk(s, 3, 3, 40, 100, 100);
	solo_expect(s, "> n3 snapshot-reply t3 index 40 wants 0\n");
	chunk(s, 3, 3, 40, 0, 100);
	solo_expect(s, "snapshot 40 with n3 begun\ninstall 40 t2 bytes 0+100/250\n");
	solo_free(s);
}

/* A chunk still with the driver when this node comes to lead is not mistaken for one of a later image. */
static void test_new_leader_abandons_an_image(void **state)
{
	(void)state;
	struct solo *s = solo_member(3, 0, 5);
	chunk(s, 2, 2, 40, 0, 100);
	solo_forget(s);
	solo_make_leader(s); /* term 3 */
	solo_append(s, 2, 4, 5, 1, 4, 0, 0);
	solo_forget(s);
	chunk(s, 2, 4, 40, 0, 100);
	solo_expect(s, "> n2 snapshot-reply t4 index 40 no\n");
	raft_snapshot_installed(s->raft, 40, 0);
	solo_forget(s);
	chunk(s, 2, 4, 40, 0, 100);
	solo_expect(s, "snapshot 40 with n2 begun\ninstall 40 t2 bytes 0+100/250\n");
	solo_free(s);
}

/* A fresh server with no configuration takes both image and configuration from a leader it does not know. */
static void test_fresh_node_takes_an_image(void **state)
{
	(void)state;
	const struct raft_params p = solo_params();
	struct solo *s = solo_new(&p, &(struct raft_start){ 0 });
	chunk(s, 9, 2, 40, 0, 250);
	solo_forget(s);
	raft_snapshot_installed(s->raft, 40, 0);
	solo_expect(s, "snapshot 40 with n9 done\npersist reset to 40 t2\n> n9 append-reply t2 match 40 last 40\n");
	assert_int_equal(solo_view(s).conf->count, 3);
	solo_free(s);
}

/* A crash between switch and reset leaves a snapshot ahead of the log, or a log that disagrees: it is dropped. */
static void test_start_with_a_log_behind_the_snapshot(void **state)
{
	(void)state;
	for (int disagrees = 0; disagrees < 2; disagrees++) {
		struct solo_log log;
		const struct raft_params p = solo_params();
		const struct raft_conf old = text_make_conf(1, 0), conf = text_make_conf(3, 0);
		struct raft_start start = { .term = 2,
			                    .snapshot_index = 40,
			                    .snapshot_term = 2,
			                    .snapshot_conf = &conf,
			                    .applied_index = 40,
			                    .conf = &old,
			                    .conf_index = 1 };
		solo_log_init(&log, &start, (struct raft_term_range[]){ { 1, 1 }, { 0, 0 } }, disagrees ? 60 : 30, 20);
		struct solo *s = solo_new(&p, &start);
		solo_expect(s, "persist reset to 40 t2\n");
		assert_int_equal(solo_view(s).last_index, 40);
		assert_int_equal(solo_view(s).conf->count, 3);
		solo_append(s, 2, 2, 40, 2, 2, 1, 41);
		solo_expect(s, "follows n2\npersist [41 t2]\n> n2 append-reply t2 match 40 agrees 41 last 41\n"
		               "> n2 append-reply t2 match 41 last 41\ncommit [41 t2]\n");
		solo_free(s);
		solo_log_fini(&log);
	}
}

/* An empty log beside a snapshot may have begun anywhere before it: it is begun anew behind it. */
static void test_start_with_an_empty_log_beside_a_snapshot(void **state)
{
	(void)state;
	const struct raft_params p = solo_params();
	const struct raft_conf conf = text_make_conf(3, 0);
	const struct raft_start start = {
		.term = 2, .snapshot_index = 40, .snapshot_term = 2, .snapshot_conf = &conf, .applied_index = 40
	};
	struct solo *s = solo_new(&p, &start);
	solo_expect(s, "persist reset to 40 t2\n");
	assert_int_equal(solo_view(s).first_index, 41);
	assert_int_equal(solo_view(s).conf->count, 3);
	solo_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_image_is_sent_chunk_by_chunk),
		cmocka_unit_test(test_lost_chunks_are_sent_again),
		cmocka_unit_test(test_silent_peer_is_not_sent_an_image),
		cmocka_unit_test(test_failed_image_is_begun_anew),
		cmocka_unit_test(test_F17_image_on_its_way_holds_the_log),
		cmocka_unit_test(test_compaction_under_a_fetch),
		cmocka_unit_test(test_image_is_taken_in_chunk_by_chunk),
		cmocka_unit_test(test_F18_old_image_is_not_taken),
		cmocka_unit_test(test_F18_one_image_at_a_time),
		cmocka_unit_test(test_agreeing_log_survives_the_image),
		cmocka_unit_test(test_reset_caps_outstanding_writes),
		cmocka_unit_test(test_refused_image_is_forgotten),
		cmocka_unit_test(test_other_leaders_image_begins_anew),
		cmocka_unit_test(test_new_leader_abandons_an_image),
		cmocka_unit_test(test_fresh_node_takes_an_image),
		cmocka_unit_test(test_start_with_a_log_behind_the_snapshot),
		cmocka_unit_test(test_start_with_an_empty_log_beside_a_snapshot),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
