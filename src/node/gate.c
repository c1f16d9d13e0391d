/* The entry-type gate: the newest type that every server is known to apply.
 *
 * It counts every server of the newest configuration and every server's member row in whatever state. A server without
 * a row counts as what it said in its hello, and as knowing nothing before that; this node counts as what it is,
 * whatever its row says; brokers do not count. A report stands until the next one, however old: a server that is down
 * counts as it was. */
#include "node/node_internal.h"

#include <string.h>

#include "base/mem.h"

const struct node_report *node_gate_report(const struct node *n, const char *name)
{
	for (size_t i = 0; n->reports && i < n->reports->count; i++) {
		if (strcmp(n->reports->rows[i].name, name) == 0)
			return &n->reports->rows[i];
	}
	return NULL;
}

void node_gate_recount(struct node *n)
{
	uint32_t min = n->o.max_entry_type;
	for (uint32_t i = 0; i < n->conf.count; i++) {
		const struct raft_server *s = &n->conf.servers[i];
		if (s->id == n->self.incarnation)
			continue;
		const struct node_report *r = node_gate_report(n, s->name);
		const struct net_hello *h = r ? NULL : node_links_heard(n, s);
		const uint32_t types = r ? r->entry_types : h ? h->entry_types : 0;
		min = types < min ? types : min;
	}
	for (size_t i = 0; n->reports && i < n->reports->count; i++) {
		const struct node_report *r = &n->reports->rows[i];
		if (strcmp(r->name, n->o.id) != 0 && r->entry_types < min)
			min = r->entry_types;
	}
	n->cluster_min_type = min;
}

void node_gate_take_reports(struct node *n)
{
	struct node_reports *r = atomic_exchange_explicit(&n->new_reports, NULL, memory_order_acq_rel);
	if (!r)
		return;
	mem_free(n->reports);
	n->reports = r;
	node_gate_recount(n);
}
