/* Several cores with virtual time, links and disks, and the checks of a cluster from outside of it. Included, not
 * linked.
 *
 * Each node has what survives a crash (struct rc_disk) and what is on its way there; the network holds copies of
 * messages. One rc_step is a millisecond. Delays are drawn from c->dice between the bounds of the struct, so that with
 * equal bounds a run is a script and with different ones a search. A broken promise ends the run: c->violation says
 * which, and rc_free fails the test unless it was looked at.
 */
#ifndef TESTS_UNIT_RAFT_CLUSTER_H
#define TESTS_UNIT_RAFT_CLUSTER_H

#include "raft_promises.h"

static inline void rc_job_push(struct rc *c, size_t node, struct rc_job job)
{
	struct rc_node *nd = &c->nodes[node];
	job.due_ms = c->now_ms + rc_between(c, c->disk_min_ms, c->disk_max_ms);
	for (size_t i = 0; i < nd->job_count; i++) { /* one thread for each kind: in order */
		if (nd->jobs[i].kind == job.kind && nd->jobs[i].due_ms > job.due_ms)
			job.due_ms = nd->jobs[i].due_ms;
	}
	if (nd->job_count == nd->job_cap) {
		nd->job_cap = nd->job_cap ? nd->job_cap * 2 : 16;
		nd->jobs = mem_realloc(nd->jobs, nd->job_cap * sizeof(*nd->jobs));
	}
	nd->jobs[nd->job_count++] = job;
}

/* ---- network ---- */

static inline void rc_fly(struct rc *c, size_t node, const struct raft_msg *m)
{
	const size_t to = rc_node_of(m->to);
	if (to >= c->n)
		return;
	if (c->flight_count == c->flight_cap) {
		c->flight_cap = c->flight_cap ? c->flight_cap * 2 : 64;
		c->flights = mem_realloc(c->flights, c->flight_cap * sizeof(*c->flights));
	}
	struct rc_flight *f = &c->flights[c->flight_count++];
	*f = (struct rc_flight){ .m = *m, .from = node, .to = to };
	f->due_ms = c->now_ms + rc_between(c, c->delay_min_ms, c->delay_max_ms);
	f->entries = rc_copy_entries(m->entries, m->entry_count);
	f->conf = m->conf ? mem_dup(m->conf, sizeof(*m->conf)) : NULL;
	slab_ref(m->slab);
}

static inline void rc_flight_fini(struct rc_flight *f)
{
	rc_drop_entries(f->entries, f->m.entry_count);
	mem_free(f->conf);
	slab_unref(f->m.slab);
}

static inline bool rc_is_dull(const struct raft_msg *m)
{
	return (m->type == RAFT_MSG_APPEND && m->entry_count == 0) || (m->type == RAFT_MSG_APPEND_REPLY && m->flag);
}

static inline void rc_send(struct rc *c, size_t node, const struct raft_msg *m)
{
	rc_check_msg(c, node, m);
	const size_t to = rc_node_of(m->to);
	const bool lost = to >= c->n || c->cut[node][to] || rand_below(&c->dice, 100) < c->loss_percent ||
	                  (m->type == RAFT_MSG_PREVOTE && c->nodes[node].unheard);
	if ((c->trace & RC_TRACE_MSGS) && !rc_is_dull(m)) {
		struct buf *b = rc_say(c, node);
		buf_puts(b, "> ");
		text_id(b, m->to);
		buf_putc(b, ' ');
		text_msg(b, m);
		buf_puts(b, lost ? " (lost)\n" : "\n");
	}
	if (lost)
		return;
	rc_fly(c, node, m);
	if (rand_below(&c->dice, 100) < c->dup_percent)
		rc_fly(c, node, m);
}

/* ---- effects ---- */

static inline void rc_take_persist(struct rc *c, size_t node, const struct raft_persist *p)
{
	if (p->ticket == 0)
		return;
	rc_job_push(c, node,
	            (struct rc_job){ .kind = RC_PERSIST,
	                             .ticket = p->ticket,
	                             .hard_state = p->hard_state,
	                             .term = p->term,
	                             .vote = p->vote,
	                             .reset_to = p->reset_to,
	                             .reset_term = p->reset_term,
	                             .entries = rc_copy_entries(p->entries, p->entry_count),
	                             .count = p->entry_count });
}

static inline uint8_t rc_image_byte(raft_index index, uint64_t offset)
{
	return (uint8_t)(index * 31 + offset * 7);
}

static inline void rc_send_chunk(struct rc *c, size_t node, const struct raft_snapshot_read *sr)
{
	struct rc_node *nd = &c->nodes[node];
	const bool found = nd->disk.images[0].index == sr->index || nd->disk.images[1].index == sr->index;
	if (!found || sr->offset >= RC_IMAGE_BYTES) {
		raft_snapshot_read_done(nd->raft, sr->peer, found ? ERR_INVALID : ERR_NOTFOUND);
		return;
	}
	struct raft_msg m = sr->msg;
	const uint64_t left = RC_IMAGE_BYTES - sr->offset;
	m.size = RC_IMAGE_BYTES;
	m.data_len = left < RC_CHUNK_BYTES ? (size_t)left : RC_CHUNK_BYTES;
	m.slab = slab_new(m.data_len);
	m.slab->len = m.data_len;
	for (size_t i = 0; i < m.data_len; i++)
		m.slab->data[i] = rc_image_byte(sr->index, sr->offset + i);
	m.data = m.slab->data;
	rc_send(c, node, &m);
	slab_unref(m.slab);
	raft_snapshot_read_done(nd->raft, sr->peer, 0);
}

static inline void rc_take_chunk(struct rc *c, size_t node, const struct raft_install *in)
{
	struct rc_node *nd = &c->nodes[node];
	if (in->offset == 0) {
		nd->incoming = (struct rc_image){ .index = in->index, .term = in->term, .conf = *in->conf };
		nd->incoming_bytes = 0;
	}
	if (nd->incoming.index != in->index || nd->incoming_bytes != in->offset || in->size != RC_IMAGE_BYTES)
		rc_violate(c, "n%zu was given a chunk that does not continue its image", node + 1);
	for (size_t i = 0; i < in->data_len; i++) {
		if (in->data[i] != rc_image_byte(in->index, in->offset + i))
			rc_violate(c, "n%zu was given a chunk of another image", node + 1);
	}
	nd->incoming_bytes += in->data_len;
	if (in->last != (nd->incoming_bytes == RC_IMAGE_BYTES))
		rc_violate(c, "n%zu was told a wrong end of its image", node + 1);
	rc_job_push(c, node, (struct rc_job){ .kind = RC_CHUNK, .index = in->index, .last = in->last });
}

static inline void rc_take_traces(struct rc *c, size_t node, const struct raft_ready *rd)
{
	for (size_t i = 0; i < rd->trace_count; i++) {
		const struct raft_trace *t = &rd->traces[i];
		if (c->trace & RC_TRACE_EVENTS) {
			text_trace(rc_say(c, node), t);
			buf_putc(&c->text, '\n');
		}
		if (t->kind == RAFT_TRACE_ROLE && t->a == RAFT_LEADER)
			rc_check_leader(c, node, t->b);
	}
}

static inline void rc_take_committed(struct rc *c, size_t node, const struct entry *v, size_t n)
{
	if (n == 0)
		return;
	for (size_t i = 0; i < n; i++)
		rc_check_committed(c, node, &v[i]);
	if (c->trace & RC_TRACE_COMMITS) {
		struct buf *b = rc_say(c, node);
		buf_puts(b, "commits");
		text_entries(b, v, n);
		buf_putc(b, '\n');
	}
	rc_job_push(c, node, (struct rc_job){ .kind = RC_APPLY, .index = v[n - 1].index });
}

/* Last, since the answers end the loan of `rd`: copies first. */
static inline void rc_take_image_reads(struct rc *c, size_t node, const struct raft_ready *rd)
{
	const size_t n = rd->snapshot_read_count;
	struct raft_snapshot_read *reads = mem_alloc((n + 1) * sizeof(*reads));
	struct raft_conf *confs = mem_zalloc((n + 1) * sizeof(*confs));
	for (size_t i = 0; i < n; i++) {
		reads[i] = rd->snapshot_reads[i];
		if (!reads[i].msg.conf)
			continue;
		confs[i] = *rd->snapshot_reads[i].msg.conf;
		reads[i].msg.conf = &confs[i];
	}
	for (size_t i = 0; i < n; i++)
		rc_send_chunk(c, node, &reads[i]);
	mem_free(confs);
	mem_free(reads);
}

static inline void rc_drain(struct rc *c, size_t node)
{
	struct rc_node *nd = &c->nodes[node];
	struct raft_ready rd;
	nd->dirty = false;
	for (;;) {
		raft_check(nd->raft);
		raft_ready(nd->raft, &rd);
		nd->deadline_ms = rd.deadline_ms;
		if (!rd.any)
			break;
		rc_take_traces(c, node, &rd);
		rc_take_persist(c, node, &rd.persist);
		for (size_t i = 0; i < rd.msg_count; i++)
			rc_send(c, node, &rd.msgs[i]);
		rc_take_committed(c, node, rd.committed, rd.committed_count);
		for (size_t i = 0; i < rd.fetch_count; i++)
			rc_job_push(c, node,
			            (struct rc_job){ .kind = RC_FETCH,
			                             .index = rd.fetches[i].lo,
			                             .hi = rd.fetches[i].hi,
			                             .peer = rd.fetches[i].peer });
		for (size_t i = 0; i < rd.read_count; i++)
			rc_check_read(c, &rd.reads[i]);
		if (rd.install.index)
			rc_take_chunk(c, node, &rd.install);
		rc_take_image_reads(c, node, &rd);
	}
	struct raft_view v;
	raft_view(nd->raft, &v);
	rc_check_majority(c, node, &v);
	if (v.commit_index > c->committed_max)
		c->committed_max = v.commit_index;
}

/* ---- completions ---- */

static inline void rc_disk_write(struct rc_disk *d, const struct rc_job *j, size_t entries)
{
	if (j->hard_state) {
		d->term = j->term;
		d->vote = j->vote;
	}
	if (j->reset_to)
		rc_disk_reset(d, j->reset_to, j->reset_term);
	rc_disk_append(d, j->entries, entries);
}

static inline void rc_keep_image(struct rc_disk *d, const struct rc_image *im)
{
	d->images[1] = d->images[0];
	d->images[0] = *im;
}

static inline void rc_finish(struct rc *c, size_t node, const struct rc_job *j)
{
	struct rc_node *nd = &c->nodes[node];
	struct rc_disk *d = &nd->disk;
	switch (j->kind) {
	case RC_PERSIST:
		rc_disk_write(d, j, j->count);
		raft_persisted(nd->raft, j->ticket, 0);
		break;
	case RC_APPLY:
		if (d->fsm_index < j->index)
			d->fsm_index = j->index;
		raft_applied(nd->raft, j->index);
		break;
	case RC_FETCH:
		if (!rc_disk_at(d, j->index)) {
			raft_fetched(nd->raft, j->peer, j->index, NULL, 0, ERR_NOTFOUND);
		} else {
			const raft_index have = rc_disk_last(d) < j->hi ? rc_disk_last(d) : j->hi;
			raft_fetched(nd->raft, j->peer, j->index, rc_disk_at(d, j->index),
			             (size_t)rc_between(c, 1, have - j->index + 1), 0);
		}
		break;
	case RC_CHUNK:
		if (j->last) {
			rc_keep_image(d, &nd->incoming);
			d->fsm_index = j->index;
		}
		raft_snapshot_installed(nd->raft, j->index, 0);
		break;
	}
}

static inline void rc_drop_job(struct rc_node *nd, size_t i)
{
	rc_drop_entries(nd->jobs[i].entries, nd->jobs[i].count);
	memmove(nd->jobs + i, nd->jobs + i + 1, (nd->job_count - i - 1) * sizeof(*nd->jobs));
	nd->job_count--;
}

static inline void rc_finish_due(struct rc *c, size_t node)
{
	struct rc_node *nd = &c->nodes[node];
	for (size_t i = 0; i < nd->job_count;) {
		if (nd->jobs[i].due_ms > c->now_ms || (nd->disk_held && nd->jobs[i].kind == RC_PERSIST)) {
			i++;
			continue;
		}
		rc_finish(c, node, &nd->jobs[i]);
		rc_drop_job(nd, i);
		nd->dirty = true;
	}
}

static inline void rc_deliver_due(struct rc *c)
{
	for (size_t i = 0; i < c->flight_count;) {
		struct rc_flight *f = &c->flights[i];
		struct rc_node *nd = &c->nodes[f->to];
		if (f->due_ms > c->now_ms || nd->frozen_until_ms > c->now_ms) {
			i++;
			continue;
		}
		if (nd->raft && !c->cut[f->from][f->to]) {
			f->m.entries = f->entries;
			f->m.conf = f->conf;
			raft_step(nd->raft, &f->m);
			raft_check(nd->raft);
			nd->dirty = true;
		}
		rc_flight_fini(f);
		memmove(f, f + 1, (c->flight_count - i - 1) * sizeof(*f));
		c->flight_count--;
	}
}

/* One millisecond. */
static inline void rc_step(struct rc *c)
{
	c->now_ms++;
	for (size_t i = 0; i < c->n; i++) {
		struct rc_node *nd = &c->nodes[i];
		if (!nd->raft || nd->frozen_until_ms > c->now_ms)
			continue;
		/* A turn begins with the tick, and comes when something is to be done. */
		bool turn = nd->dirty || c->now_ms >= nd->deadline_ms;
		for (size_t k = 0; k < nd->job_count; k++)
			turn |= nd->jobs[k].due_ms <= c->now_ms;
		for (size_t k = 0; k < c->flight_count; k++)
			turn |= c->flights[k].to == i && c->flights[k].due_ms <= c->now_ms;
		if (turn) {
			raft_tick(nd->raft, c->now_ms);
			nd->dirty = true;
		}
	}
	rc_deliver_due(c);
	for (size_t i = 0; i < c->n; i++) {
		struct rc_node *nd = &c->nodes[i];
		if (!nd->raft || nd->frozen_until_ms > c->now_ms)
			continue;
		rc_finish_due(c, i);
		if (nd->dirty)
			rc_drain(c, i);
	}
}

static inline void rc_run(struct rc *c, uint64_t ms)
{
	for (uint64_t i = 0; i < ms && !c->violation[0]; i++)
		rc_step(c);
	rc_check_logs(c);
}

/* ---- nodes come and go ---- */

static inline const struct rc_image *rc_newest_image(const struct rc_disk *d)
{
	return d->images[0].index ? &d->images[0] : NULL;
}

/* The two newest configurations of the log. */
static inline size_t rc_find_confs(const struct rc_disk *d, struct raft_conf confs[2], raft_index at[2])
{
	size_t found = 0;
	for (size_t i = d->count; i > 0 && found < 2; i--) {
		const struct entry *e = &d->log[i - 1];
		if (e->kind != ENTRY_CONFIG)
			continue;
		assert_int_equal(raft_conf_decode(e->data, e->len, &confs[found], NULL), 0);
		at[found++] = e->index;
	}
	return found;
}

static inline void rc_start(struct rc *c, size_t node)
{
	struct rc_node *nd = &c->nodes[node];
	struct rc_disk *d = &nd->disk;
	const struct rc_image *im = rc_newest_image(d);
	struct raft_conf confs[2];
	raft_index at[2] = { 0, 0 };
	const size_t found = rc_find_confs(d, confs, at);
	if (im && d->fsm_index < im->index)
		d->fsm_index = im->index;
	if (d->fsm_index > rc_disk_last(d) && d->fsm_index > (im ? im->index : 0)) {
		rc_violate(c, "n%zu: its state holds %" PRIu64 ", its log ends at %" PRIu64, node + 1, d->fsm_index,
		           rc_disk_last(d));
		return;
	}
	struct raft_start s = {
		.term = d->term,
		.vote = d->vote,
		.snapshot_index = im ? im->index : 0,
		.snapshot_term = im ? im->term : 0,
		.snapshot_conf = im ? &im->conf : NULL,
		.base_term = d->base_term,
		.applied_index = d->fsm_index,
		.conf = found > 0 ? &confs[0]
		        : im      ? &im->conf
		                  : NULL,
		.conf_index = at[0],
		.conf_prev = found > 1 ? &confs[1] : NULL,
		.conf_prev_index = at[1],
	};
	struct raft_term_range *ranges = mem_alloc((d->count + 1) * sizeof(*ranges));
	for (size_t i = 0; i < d->count; i++) {
		if (s.term_count == 0 || ranges[s.term_count - 1].term != d->log[i].term)
			ranges[s.term_count++] =
			    (struct raft_term_range){ .first = d->log[i].index, .term = d->log[i].term };
	}
	if (d->count > 0) {
		s.first_index = d->base + 1;
		s.last_index = rc_disk_last(d);
		s.terms = ranges;
		/* Memory holds only the end of a long log. */
		s.tail_count = (size_t)rc_between(c, 0, d->count < 20 ? d->count : 20);
		s.tail = d->log + d->count - s.tail_count;
	}
	struct raft_params p = c->params;
	p.self = nd->id;
	p.seed = rand_u64(&c->dice);
	nd->raft = raft_new(&p, &s, c->now_ms);
	nd->dirty = true;
	mem_free(ranges);
}

/* What was on its way to the disk is kept up to a random point, or whole with `keep`. */
static inline void rc_crash(struct rc *c, size_t node, bool keep)
{
	struct rc_node *nd = &c->nodes[node];
	bool torn = false;
	for (size_t i = 0; i < nd->job_count; i++) {
		const struct rc_job *j = &nd->jobs[i];
		if (j->kind != RC_PERSIST || torn)
			continue;
		const size_t n = keep ? j->count : (size_t)rc_between(c, 0, j->count);
		torn = n < j->count || (!keep && rand_below(&c->dice, 2) == 0);
		if (n > 0 || !torn)
			rc_disk_write(&nd->disk, j, n);
	}
	while (nd->job_count > 0)
		rc_drop_job(nd, 0);
	raft_free(nd->raft);
	nd->raft = NULL;
	nd->incoming = (struct rc_image){ 0 };
	nd->disk_held = false;
	/* Reads of a process that is gone are answered to nobody. */
	for (size_t i = 0; i < c->read_count;) {
		if (c->reads[i].ctx % RC_NODES_MAX == node)
			c->reads[i] = c->reads[--c->read_count];
		else
			i++;
	}
}

/* The directory is empty now, and another incarnation. */
static inline void rc_wipe(struct rc *c, size_t node)
{
	struct rc_node *nd = &c->nodes[node];
	assert_null(nd->raft);
	rc_disk_fini(&nd->disk);
	nd->id += 100;
	for (size_t t = 0; t < RC_TERMS_MAX; t++)
		c->vote_of[t][node] = 0;
}

static inline struct rc *rc_new(size_t n, uint64_t seed)
{
	struct rc *c = mem_zalloc(sizeof(*c));
	assert_in_range(n, 1, RC_NODES_MAX);
	c->n = n;
	c->now_ms = 1000;
	rand_seed(&c->dice, seed);
	raft_params_default(&c->params);
	c->delay_min_ms = c->delay_max_ms = 1;
	c->disk_min_ms = c->disk_max_ms = 1;
	c->trace = RC_TRACE_EVENTS | RC_TRACE_MSGS | RC_TRACE_COMMITS;
	for (size_t i = 0; i < n; i++)
		c->nodes[i].id = i + 1;
	return c;
}

/* Starts all; n1 bootstraps with the first `voters` of them. */
static inline void rc_bootstrap(struct rc *c, uint32_t voters)
{
	const struct raft_conf conf = text_make_conf(voters, 0);
	for (size_t i = 0; i < c->n; i++)
		rc_start(c, i);
	assert_int_equal(raft_bootstrap(c->nodes[0].raft, &conf, NULL), 0);
}

static inline void rc_free(struct rc *c)
{
	if (c->violation[0] && !c->violation_seen)
		fail_msg("%s", c->violation);
	for (size_t i = 0; i < c->n; i++) {
		struct rc_node *nd = &c->nodes[i];
		while (nd->job_count > 0)
			rc_drop_job(nd, 0);
		mem_free(nd->jobs);
		raft_free(nd->raft);
		rc_disk_fini(&nd->disk);
	}
	for (size_t i = 0; i < c->flight_count; i++)
		rc_flight_fini(&c->flights[i]);
	mem_free(c->flights);
	mem_free(c->committed);
	buf_fini(&c->text);
	mem_free(c);
}

/* ---- asking ---- */

static inline struct raft_view rc_view(const struct rc *c, size_t node)
{
	struct raft_view v = { 0 };
	if (c->nodes[node].raft)
		raft_view(c->nodes[node].raft, &v);
	return v;
}

/* The leader of the highest term; -1 = none. */
static inline int rc_leader(const struct rc *c)
{
	int best = -1;
	raft_term term = 0;
	for (size_t i = 0; i < c->n; i++) {
		const struct raft_view v = rc_view(c, i);
		if (c->nodes[i].raft && v.role == RAFT_LEADER && v.term >= term) {
			best = (int)i;
			term = v.term;
		}
	}
	return best;
}

static inline int rc_propose(struct rc *c, size_t node, size_t count)
{
	struct entry v[8] = { 0 };
	assert_true(count <= 8);
	for (size_t i = 0; i < count; i++) {
		char text[32];
		const int len = snprintf(text, sizeof(text), "payload %" PRIu64, ++c->payloads);
		v[i].kind = ENTRY_COMMAND;
		v[i].len = (uint32_t)len;
		v[i].slab = slab_from(text, (size_t)len);
		v[i].data = v[i].slab->data;
	}
	const int rc = raft_propose(c->nodes[node].raft, v, count);
	for (size_t i = 0; i < count; i++)
		entry_unref(&v[i]);
	c->nodes[node].dirty = true;
	return rc;
}

static inline void rc_read(struct rc *c, size_t node)
{
	if (c->read_count == sizeof(c->reads) / sizeof(c->reads[0]))
		return;
	const uint64_t ctx = ++c->payloads * RC_NODES_MAX + node;
	c->reads[c->read_count++] = (struct rc_read){ .ctx = ctx, .at_least = c->committed_max };
	raft_read(c->nodes[node].raft, ctx);
	c->nodes[node].dirty = true;
}

/* Takes a snapshot of what is applied; the log is forgotten up to the image before it. */
static inline void rc_snapshot(struct rc *c, size_t node)
{
	struct rc_node *nd = &c->nodes[node];
	const struct raft_view v = rc_view(c, node);
	const raft_term term = raft_term_at(nd->raft, v.applied_index);
	if (v.applied_index <= v.snapshot_index || term == 0 || !v.conf || v.conf_index > v.applied_index)
		return;
	const struct rc_image im = { .index = v.applied_index, .term = term, .conf = *v.conf };
	const raft_index before = nd->disk.images[0].index;
	rc_keep_image(&nd->disk, &im);
	raft_snapshot_taken(nd->raft, im.index, im.term, &im.conf, before);
	rc_disk_compact(&nd->disk, rc_view(c, node).first_index - 1);
	nd->dirty = true;
}

static inline void rc_cut_off(struct rc *c, size_t node, bool cut)
{
	for (size_t i = 0; i < c->n; i++)
		c->cut[node][i] = c->cut[i][node] = cut && i != node;
}

static inline void rc_heal(struct rc *c)
{
	memset(c->cut, 0, sizeof(c->cut));
}

/* Time passes until node `who` leads; nobody hears the others campaign. */
static inline void rc_let_win(struct rc *c, size_t who)
{
	for (size_t k = 0; k < c->n; k++)
		c->nodes[k].unheard = k != who;
	for (int i = 0; i < 10000 && !c->violation[0] && rc_leader(c) != (int)who; i++)
		rc_step(c);
	if (rc_leader(c) != (int)who)
		rc_violate(c, "n%zu does not come to lead", who + 1);
}

/* The disk returns the n oldest writes, though it is held. */
static inline void rc_return_writes(struct rc *c, size_t node, size_t n)
{
	struct rc_node *nd = &c->nodes[node];
	for (size_t i = 0; i < nd->job_count && n > 0;) {
		if (nd->jobs[i].kind != RC_PERSIST) {
			i++;
			continue;
		}
		rc_finish(c, node, &nd->jobs[i]);
		rc_drop_job(nd, i);
		n--;
	}
	nd->dirty = true;
}

#endif
