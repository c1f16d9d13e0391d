/* The entry-type gate: which types every server is known to apply.
 *
 * It counts every server of the newest configuration and every server's member row in whatever state. A server without
 * a row counts as what it said in its hello, and as knowing nothing before that; this node counts as what it is,
 * whatever its row says; brokers do not count. A report stands until the next one, however old: a server that is down
 * counts as it was.
 *
 * Whoever plans a write asks here which entries it may use (any thread, of the status it holds); the consensus thread
 * asks again at append. The first use of each type is said once: that is not the line behind which there is no way
 * back, which is passed when the last server reports. */
#include "node/node_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/entry.h"

#define HELD_BACK_QUIET_MS 60000 /* for each type */

const struct node_report *node_gate_report(const struct node *n, const char *name)
{
	for (size_t i = 0; n->reports && i < n->reports->count; i++) {
		if (strcmp(n->reports->rows[i].name, name) == 0)
			return &n->reports->rows[i];
	}
	return NULL;
}

bool node_gate_is_broker(const struct node *n, const char *name)
{
	const struct node_reports *r = n->reports;
	for (size_t i = 0; r && i < r->broker_count; i++) {
		if (strcmp(r->rows[r->room - 1 - i].name, name) == 0)
			return true;
	}
	return false;
}

/* ---- who knows what ---- */

static void see(const char *name, const char *after, const char **first)
{
	if (strcmp(name, after) > 0 && (!*first || strcmp(name, *first) < 0))
		*first = name;
}

/* The next id of all that count; NULL: there is no more. */
static const char *next_id(const struct node *n, const char *after)
{
	const char *first = NULL;
	see(n->o.id, after, &first);
	for (uint32_t i = 0; i < n->conf.count; i++)
		see(n->conf.servers[i].name, after, &first);
	for (size_t i = 0; n->reports && i < n->reports->count; i++)
		see(n->reports->rows[i].name, after, &first);
	return first;
}

static uint32_t types_of(const struct node *n, const char *id, const struct node_report *r)
{
	if (strcmp(id, n->o.id) == 0)
		return n->o.max_entry_type;
	if (r)
		return r->entry_types;
	const struct raft_server *s = raft_conf_find_name(&n->conf, id);
	const struct net_hello *h = s ? node_links_heard(n, s) : NULL;
	return h ? h->entry_types : 0;
}

/* Of more than fit the last place goes to the one that knows least: what it alone holds back stays held back. */
static void note_blocker(struct node *n, const char *id, const struct node_report *r, uint32_t types)
{
	if (n->blocker_count < NODE_BLOCKERS_MAX)
		n->blocker_count++;
	struct node_blocker *b = &n->blockers[n->blocker_count - 1];
	memset(b, 0, sizeof(*b)); /* boards are compared byte by byte */
	snprintf(b->id, sizeof(b->id), "%s", id);
	snprintf(b->build, sizeof(b->build), "%s", r ? r->build : "");
	b->entry_types = types;
}

void node_gate_recount(struct node *n)
{
	uint32_t min = UINT32_MAX;
	memset(n->blockers, 0, sizeof(n->blockers));
	n->blocker_count = 0;
	for (const char *id = next_id(n, ""); id; id = next_id(n, id)) {
		const struct node_report *r = node_gate_report(n, id);
		const uint32_t types = types_of(n, id, r);
		if (types >= min)
			continue;
		min = types;
		note_blocker(n, id, r, types);
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

/* ---- asking ---- */

bool node_gate_lets(const struct node *n, unsigned type)
{
	return type <= COMMAND_LEGACY_MAX || type <= n->cluster_min_type;
}

/* ---- what is said ---- */

static const char *type_name(unsigned type)
{
	const struct command_info *info = command_info(type);
	return info ? info->name : "unknown";
}

void node_note_held_back(struct node *n, unsigned type, const struct node_blocker *by, bool falls_back)
{
	const uint64_t now = clock_mono_ms();
	_Atomic uint64_t *said = &n->held_back_ms[type <= UINT8_MAX ? type : 0];
	uint64_t last = atomic_load_explicit(said, memory_order_relaxed);
	/* Of threads that come here together one writes. */
	if ((last != 0 && now < last + HELD_BACK_QUIET_MS) || !atomic_compare_exchange_strong(said, &last, now))
		return;
	log_info(falls_back
	             ? "metastore: not using a new raft entry type yet; proposing the entries every member applies"
	             : "metastore: not using a new raft entry type yet; refusing the write",
	         "type=%u name=\"%s\" held_back_by=%s build=\"%s\" its_types=%" PRIu32, type, type_name(type), by->id,
	         by->build, by->entry_types);
}

static void note_use(struct node *n, unsigned type)
{
	char event[160];
	uint64_t *word = &n->types_used[(type & UINT8_MAX) / 64];
	const uint64_t bit = 1ull << (type % 64);
	if (type <= COMMAND_LEGACY_MAX || type > UINT8_MAX || *word & bit)
		return;
	*word |= bit;
	snprintf(event, sizeof(event), "metastore: every member applies raft entry type %u; using %s", type,
	         type_name(type));
	log_info(event, "type=%u", type);
}

void node_gate_note_use(struct node *n, const struct entry *e)
{
	struct entry_view view;
	struct entry_command c;
	const uint8_t *at = NULL;
	if (entry_max_type(e->data, e->len) <= COMMAND_LEGACY_MAX || entry_decode(e->data, e->len, &view, NULL) != 0)
		return;
	while (entry_next(&view, &at, &c))
		note_use(n, c.type);
}
