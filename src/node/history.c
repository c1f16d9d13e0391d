/* Old entries for people: a piece of the log, read from its files on the work pool. No thread of the node takes part.
 */
#include "node/node_internal.h"

#include <inttypes.h>

#include "base/mem.h"

struct node_history *node_history_new(void)
{
	struct node_history *h = mem_zalloc(sizeof(*h));
	atomic_init(&h->refs, 1);
	return h;
}

void node_history_unref(struct node_history *h)
{
	if (!h || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < h->count; i++)
		entry_unref(&h->entries[i]);
	mem_free(h);
}

static int read_piece(struct node_history *h)
{
	struct err e = { 0 };
	h->first = wal_first_index(h->node->wal);
	if (h->lo == 0)
		h->lo = h->first;
	if (h->lo == 0 || h->lo > h->hi)
		return 0;
	if (h->first == 0 || h->lo < h->first)
		return ERR_NOTFOUND;
	const int rc =
	    wal_read(h->node->wal, h->lo, h->hi, h->bytes_max, h->entries, NODE_HISTORY_ENTRIES, &h->count, &e);
	if (rc == 0)
		return 0;
	h->count = 0;
	if (rc != ERR_NOTFOUND)
		log_warn("log.unread", "first=%" PRIu64 " last=%" PRIu64 " error=\"%s\"", h->lo, h->hi, e.msg);
	return rc;
}

static void run_history_job(struct job *j)
{
	struct node_history *h = CONTAINER_OF(j, struct node_history, job);
	const int code = read_piece(h);
	const struct node_reply_to reply = h->reply;
	node_history_unref(h); /* the asker holds it until it has read the answer */
	node_answer(&reply, code, 0, 0);
}

void node_ask_history(struct node *n, struct node_history *h)
{
	atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
	h->node = n;
	h->job.run = run_history_job;
	pool_submit(n->pool, &h->job);
}
