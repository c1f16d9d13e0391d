/* Messages nobody honest sends: whatever comes in, the core neither breaks its invariant nor touches what is not there.
 */
#include "base/rand.h"
#include "raft_solo.h"

#define RUNS 150
#define STEPS 400

static raft_index some_index(struct rand *d, const struct raft_view *v)
{
	switch (rand_below(d, 8)) {
	case 0: return 0;
	case 1: return v->last_index;
	case 2: return v->commit_index;
	case 3: return v->first_index - rand_below(d, 2);
	case 4: return v->last_index + 1 + rand_below(d, 3);
	case 5: return rand_u64(d) >> rand_below(d, 64);
	case 6: return UINT64_MAX - rand_below(d, 3);
	default: return rand_below(d, v->last_index + 2);
	}
}

static raft_term some_term(struct rand *d, const struct raft_view *v)
{
	switch (rand_below(d, 12)) {
	case 0: return 0;
	case 1: return v->term + 1;
	case 2: return v->term - (v->term > 0);
	case 3: return rand_below(d, 200) == 0 ? rand_u64(d) >> rand_below(d, 64) : v->term;
	case 4: return rand_below(d, v->term + 2);
	default: return v->term;
	}
}

static node_id some_node(struct rand *d)
{
	return rand_below(d, 10) ? 1 + rand_below(d, 4) : rand_below(d, 2) ? 0 : rand_u64(d);
}

/* Entries that may be sound, and may be anything. Each payload stands in a block of its own, exactly as long. */
static size_t some_entries(struct rand *d, const struct raft_view *v, struct entry *out, size_t max,
                           const struct raft_msg *m)
{
	const size_t n = (size_t)rand_below(d, max + 1);
	const bool sound = rand_below(d, 4) > 0;
	raft_term term = m->log_term;
	for (size_t i = 0; i < n; i++) {
		struct entry *e = &out[i];
		term += sound && term < m->term ? rand_below(d, 2) : 0;
		*e = (struct entry){ .index = m->index + 1 + i, .term = term ? term : 1 };
		if (!sound && rand_below(d, 4) == 0) {
			e->index = some_index(d, v);
			e->term = some_term(d, v);
		}
		e->kind = (uint8_t)(rand_below(d, 6) ? ENTRY_COMMAND : rand_below(d, 5));
		struct buf b = { 0 };
		if (e->kind == ENTRY_CONFIG && rand_below(d, 3)) {
			const struct raft_conf c =
			    text_make_conf(1 + (uint32_t)rand_below(d, 5), (uint32_t)rand_below(d, 2));
			raft_conf_encode(&c, &b);
		} else {
			for (uint64_t k = rand_below(d, 20); k > 0; k--)
				buf_putc(&b, (char)rand_u64(d));
		}
		if (b.len > 0) {
			e->slab = slab_from(b.data, b.len);
			e->data = e->slab->data;
			e->len = (uint32_t)b.len;
		}
		buf_fini(&b);
		if (!sound && rand_below(d, 10) == 0)
			e->len = (uint32_t)rand_u64(d);
	}
	return n;
}

static void throw_message(struct solo *s, struct rand *d)
{
	const struct raft_view v = solo_view(s);
	struct entry entries[5];
	struct raft_conf conf;
	struct raft_msg m = {
		.type = (enum raft_msg_type)rand_below(d, 13),
		.from = some_node(d),
		.to = rand_below(d, 20) ? 1 : some_node(d),
		.term = some_term(d, &v),
		.index = some_index(d, &v),
		.commit = some_index(d, &v),
		.hint = some_index(d, &v),
		.round = rand_below(d, 2) ? rand_below(d, 5) : rand_u64(d),
		.flag = rand_below(d, 2),
	};
	/* Often what agrees: else nothing gets past the first check. */
	const raft_term own = raft_term_at(s->raft, m.index);
	m.log_term = rand_below(d, 3) ? own : some_term(d, &v);
	m.hint_term = rand_below(d, 2) ? raft_term_at(s->raft, m.hint) : some_term(d, &v);
	if (m.type == RAFT_MSG_APPEND || rand_below(d, 20) == 0) {
		m.entry_count = some_entries(d, &v, entries, 5, &m);
		m.entries = rand_below(d, 40) ? entries : NULL;
	}
	const size_t owned = m.entry_count;
	if (m.type == RAFT_MSG_SNAPSHOT || rand_below(d, 20) == 0) {
		m.size = rand_below(d, 10) ? 60 : some_index(d, &v);
		m.offset = rand_below(d, 3) * 20 + (rand_below(d, 10) ? 0 : some_index(d, &v));
		m.data_len = rand_below(d, 10) ? 20 : (size_t)rand_below(d, 70);
		m.slab = slab_new(m.data_len);
		m.data = m.slab->data;
		memset(m.slab->data, 0, m.data_len);
		conf = text_make_conf(1 + (uint32_t)rand_below(d, 4), 0);
		if (rand_below(d, 10) == 0)
			memset(&conf.servers[0], (int)rand_below(d, 256), sizeof(conf.servers[0]));
		if (rand_below(d, 20) == 0)
			conf.count = (uint32_t)rand_u64(d);
		m.conf = rand_below(d, 5) ? &conf : NULL;
	}
	raft_step(s->raft, &m);
	raft_check(s->raft);
	for (size_t i = 0; i < owned; i++)
		entry_unref(&entries[i]);
	slab_unref(m.slab);
}

/* The driver's side, as a well-behaved driver has it: only the messages are hostile. */
struct driver {
	raft_index installing; /* 0 = none */
	struct raft_fetch fetches[RAFT_SERVERS_MAX + 1];
	size_t fetch_count;
	node_id reading[RAFT_SERVERS_MAX];
	size_t reading_count;
	raft_index handed;
};

static void drain(struct solo *s, struct driver *dr)
{
	struct raft_ready rd;
	for (;;) {
		raft_ready(s->raft, &rd);
		raft_check(s->raft);
		if (!rd.any)
			return;
		if (rd.persist.ticket) {
			assert_true(s->ticket_count < SOLO_TICKETS_MAX);
			s->tickets[s->ticket_count++] = rd.persist.ticket;
		}
		for (size_t i = 0; i < rd.msg_count; i++) {
			assert_int_equal(rd.msgs[i].from, 1);
			for (size_t k = 0; k < rd.msgs[i].entry_count; k++)
				assert_int_equal(rd.msgs[i].entries[k].index, rd.msgs[i].index + 1 + k);
		}
		for (size_t i = 0; i < rd.committed_count; i++) {
			assert_true(rd.committed[i].index > dr->handed);
			dr->handed = rd.committed[i].index;
		}
		for (size_t i = 0; i < rd.fetch_count; i++)
			dr->fetches[dr->fetch_count++] = rd.fetches[i];
		for (size_t i = 0; i < rd.snapshot_read_count; i++)
			dr->reading[dr->reading_count++] = rd.snapshot_reads[i].peer;
		if (rd.install.index) {
			assert_int_equal(dr->installing, 0);
			dr->installing = rd.install.index;
		}
	}
}

static void answer_fetch(struct solo *s, struct driver *dr)
{
	const struct raft_fetch f = dr->fetches[--dr->fetch_count];
	const raft_term term = raft_term_at(s->raft, f.lo);
	struct entry *v = solo_entries(f.lo, term, 1, 4);
	raft_fetched(s->raft, f.peer, f.lo, v, 1, 0);
	solo_drop(v, 1);
}

static void drive(struct solo *s, struct driver *dr, struct rand *d)
{
	const uint64_t what = rand_below(d, 12);
	const struct raft_view v = solo_view(s);
	if (what < 4 && s->ticket_count > 0) {
		solo_disk(s, 1 + (size_t)rand_below(d, s->ticket_count), 0);
	} else if (what == 4) {
		s->now_ms += rand_below(d, 300);
		raft_tick(s->raft, s->now_ms);
	} else if (what == 5 && dr->installing) {
		const raft_index index = dr->installing;
		dr->installing = 0;
		raft_snapshot_installed(s->raft, index, rand_below(d, 4) ? 0 : ERR_CORRUPT);
		if (solo_view(s).handed_index > dr->handed)
			dr->handed = solo_view(s).handed_index;
	} else if (what == 6 && dr->fetch_count > 0) {
		answer_fetch(s, dr);
	} else if (what == 7 && dr->reading_count > 0) {
		raft_snapshot_read_done(s->raft, dr->reading[--dr->reading_count], rand_below(d, 3) ? 0 : ERR_NOTFOUND);
	} else if (what == 8 && dr->handed > v.applied_index) {
		raft_applied(s->raft, dr->handed);
	} else if (what == 9 && v.applied_index > v.snapshot_index && v.conf && v.conf_index <= v.applied_index) {
		const raft_term term = raft_term_at(s->raft, v.applied_index);
		raft_snapshot_taken(s->raft, v.applied_index, term, v.conf, v.snapshot_index);
	} else if (what == 10) {
		(void)!solo_propose(s, 1 + (size_t)rand_below(d, 3), 10);
		raft_read(s->raft, 1);
		(void)!raft_transfer(s->raft, 0, NULL);
	} else if (what == 11) {
		raft_peer_lost(s->raft, some_node(d), rand_below(d, 2));
	}
	raft_check(s->raft);
	drain(s, dr);
}

static struct solo *start(struct rand *d)
{
	struct raft_params p = solo_params();
	p.seed = rand_u64(d);
	p.cache_bytes_max = 300;
	p.append_bytes_max = 100;
	p.inflight_bytes_max = 300;
	struct solo_log log;
	const struct raft_conf conf = text_make_conf(3, (uint32_t)rand_below(d, 2));
	struct raft_start st = { 0 };
	if (rand_below(d, 4) == 0)
		return solo_new(&p, &st);
	st = (struct raft_start){ .term = 4, .conf = &conf, .conf_index = 1, .applied_index = 5 };
	const struct raft_term_range whole[] = { { 1, 1 }, { 6, 2 }, { 9, 4 }, { 0, 0 } };
	const struct raft_term_range late[] = { { 5, 1 }, { 6, 2 }, { 9, 4 }, { 0, 0 } };
	const bool compacted = rand_below(d, 2);
	if (compacted) {
		st.snapshot_index = 5;
		st.snapshot_term = 1;
		st.snapshot_conf = &conf;
		st.conf_index = 0;
	}
	solo_log_init(&log, &st, compacted ? late : whole, 12, 7 + rand_below(d, 6));
	struct solo *s = solo_new(&p, &st);
	solo_log_fini(&log);
	return s;
}

/* Random messages, half of them close to what the core expects, in every role and with a disk that takes its time. */
static void test_hostile_messages_break_nothing(void **state)
{
	(void)state;
	size_t led = 0, grew = 0;
	for (uint64_t seed = 1; seed <= RUNS; seed++) {
		struct rand d;
		rand_seed(&d, seed);
		struct solo *s = start(&d);
		struct driver dr = { .handed = solo_view(s).handed_index };
		const raft_index before = solo_view(s).last_index;
		if (seed % 3 == 0 && solo_view(s).conf) {
			s->disk_held = false;
			solo_make_leader(s);
			dr.handed = solo_view(s).handed_index;
			led++;
		}
		s->disk_held = true;
		for (int i = 0; i < STEPS; i++) {
			throw_message(s, &d);
			drain(s, &dr);
			while (s->ticket_count > SOLO_TICKETS_MAX / 2)
				solo_disk(s, 1, 0);
			drive(s, &dr, &d);
			while (dr.fetch_count > 8)
				answer_fetch(s, &dr);
			dr.reading_count = dr.reading_count > 8 ? 0 : dr.reading_count;
		}
		grew += solo_view(s).last_index > before;
		solo_free(s);
	}
	/* Enough got through to have been worth the while. */
	assert_true(led > RUNS / 6);
	assert_true(grew > RUNS / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile_messages_break_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
