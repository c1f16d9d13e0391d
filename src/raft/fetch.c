/* Entries that are no longer in memory: asked of the driver, who reads them from the log's files, for a peer or for
 * this node's own apply. One question at a time for each; whoever needs them waits.
 *
 * Good path: fetch_ask, raft_ready.fetches, raft_fetched, fetch_run. An answer to a question nobody asks any more is
 * dropped; so is an entry the log no longer holds with that term. A failed read is tried again a heartbeat later.
 */
#include "raft/raft_internal.h"

void fetch_drop(struct fetch *f)
{
	for (size_t i = 0; i < f->count; i++)
		entry_unref(&f->v[i]);
	f->count = 0;
	f->lent = 0;
	f->asked = false;
	f->retry_ms = 0;
}

void fetch_fini(struct fetch *f)
{
	fetch_drop(f);
	mem_free(f->v);
	*f = (struct fetch){ 0 };
}

void fetch_recycle(struct fetch *f)
{
	if (f->lent == 0)
		return;
	for (size_t i = 0; i < f->lent; i++)
		entry_unref(&f->v[i]);
	memmove(f->v, f->v + f->lent, (f->count - f->lent) * sizeof(*f->v));
	f->count -= f->lent;
	f->lent = 0;
}

void fetch_ask(struct raft *r, struct fetch *f, node_id peer, raft_index lo, raft_index hi, size_t bytes_max)
{
	assert(lo <= hi && lo >= r->log.first && hi <= r->log.last);
	if (f->asked || r->now_ms < f->retry_ms)
		return;
	f->asked = true;
	f->lo = lo;
	assert(r->out.fetch_count < ARRAY_LEN(r->out.fetches));
	r->out.fetches[r->out.fetch_count++] =
	    (struct raft_fetch){ .peer = peer, .lo = lo, .hi = hi, .bytes_max = bytes_max };
}

const struct entry *fetch_at(const struct fetch *f, raft_index index)
{
	return f->lent < f->count && f->v[f->lent].index == index ? &f->v[f->lent] : NULL;
}

const struct entry *fetch_run(struct fetch *f, raft_index lo, raft_index hi, size_t bytes_max, size_t *n)
{
	const struct entry *e = fetch_at(f, lo);
	if (!e || hi < lo)
		return NULL;
	const size_t held = f->count - f->lent;
	*n = cache_fit(e, hi - lo < held ? (size_t)(hi - lo) + 1 : held, bytes_max, NULL);
	f->lent += *n;
	return e;
}

/* What came is the driver's word about a file; it is taken only where the term table says the same. */
static void keep(struct raft *r, struct fetch *f, const struct entry *entries, size_t n)
{
	fetch_drop(f);
	if (f->cap < n) {
		f->cap = n;
		f->v = mem_realloc(f->v, f->cap * sizeof(*f->v));
	}
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = &entries[i];
		if (e->index != f->lo + i || e->index < r->log.first || rlog_term_at(&r->log, e->index) != e->term)
			break;
		entry_ref(e);
		f->v[f->count++] = *e;
	}
}

void raft_fetched(struct raft *r, node_id peer, raft_index lo, const struct entry *entries, size_t n, int status)
{
	ready_recycle(r);
	struct peer *p = peer ? peer_find(r, peer) : NULL;
	if (peer && !p)
		return;
	struct fetch *f = p ? &p->fetch : &r->own;
	if (!f->asked || f->lo != lo)
		return;
	f->asked = false;
	if (status == 0)
		keep(r, f, entries, n);
	if (f->count > 0 || (p && !rlog_reaches(&r->log, p->next)))
		return; /* compacted away meanwhile: replicate.c turns to the snapshot */
	f->retry_ms = r->now_ms + r->p.heartbeat_ms;
}
