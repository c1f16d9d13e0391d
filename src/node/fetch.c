/* Old log entries, read from the log's files on the work pool: for a peer that is behind what raft keeps in memory, and
 * for this node's own apply after a start. Raft asks for one range per server at a time. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"

#define FETCH_ENTRIES_MAX 1024 /* of one answer; raft asks again for the rest */

static void run_fetch_job(struct job *j)
{
	struct node_fetch *f = CONTAINER_OF(j, struct node_fetch, job);
	struct node *n = f->node;
	struct err e = { 0 };
	f->status = wal_read(n->wal, f->lo, f->hi, f->bytes_max, f->entries, f->cap, &f->count, &e);
	if (f->status != 0) {
		f->count = 0;
		log_warn("log.unread", "first=%" PRIu64 " last=%" PRIu64 " error=\"%s\"", f->lo, f->hi, e.msg);
	}
	const bool put = queue_put(n->fetched, &f);
	assert(put); /* one range per server, and there are more slots than servers */
}

void node_fetch_start(struct node *n, const struct raft_fetch *ask)
{
	assert(ask->lo <= ask->hi && n->fetches < NODE_FETCH_SLOTS);
	const raft_index range = ask->hi - ask->lo + 1;
	const size_t cap = range < FETCH_ENTRIES_MAX ? (size_t)range : FETCH_ENTRIES_MAX;
	struct node_fetch *f = mem_zalloc(sizeof(*f) + cap * sizeof(f->entries[0]));
	f->node = n;
	f->peer = ask->peer;
	f->lo = ask->lo;
	f->hi = ask->hi;
	f->bytes_max = ask->bytes_max;
	f->cap = cap;
	f->job.run = run_fetch_job;
	n->fetches++;
	pool_submit(n->pool, &f->job);
}

static void free_fetch(struct node *n, struct node_fetch *f)
{
	for (size_t i = 0; i < f->count; i++)
		entry_unref(&f->entries[i]);
	mem_free(f);
	n->fetches--;
}

void node_fetch_drain(struct node *n)
{
	struct node_fetch *f;
	while (queue_take(n->fetched, &f)) {
		raft_fetched(n->raft, f->peer, f->lo, f->entries, f->count, f->status);
		free_fetch(n, f);
	}
}

void node_fetch_discard(struct node *n)
{
	struct node_fetch *f;
	while (queue_take(n->fetched, &f))
		free_fetch(n, f);
	assert(n->fetches == 0); /* the pool has run dry before the node ends */
}
