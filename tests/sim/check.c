/* The rules, checked outside the code that must keep them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "fsm/fsm.h"
#include "node/node_internal.h"
#include "sim.h"

#define LOG_MAX 65536 /* entries of one run */
#define TERMS_MAX 65536
#define CONFS_MAX 4096
#define ELECTION_MS 500

static struct {
	struct seen {
		raft_term term;
		uint32_t hash; /* 0 = nobody applied it yet */
		uint64_t digest;
		bool has_digest;
	} committed[LOG_MAX];
	int8_t leader_of[TERMS_MAX]; /* node number + 1 */
	struct conf_seen {
		raft_index index;
		raft_term term;
		uint32_t hash;
	} confs[CONFS_MAX]; /* those that leaders appended */
	size_t conf_count;
	raft_index elected_commit[SIM_NODES_MAX]; /* what the leader knew committed when it was elected */
	raft_index highest;
	struct holds {
		struct holds *next;
		raft_term term, before;
	} * holds[LOG_MAX]; /* by index: every entry that stood in a log, and the term of the one before it */
	struct own_log {
		raft_index first, last;
		raft_term terms[LOG_MAX];
	} logs[SIM_NODES_MAX]; /* as they were when last looked at */
} c;

/* The slot of an index; a run that outgrows the table ends. */
static struct seen *seen_at(raft_index index)
{
	if (index < LOG_MAX)
		return &c.committed[index];
	world_fail("log longer than the simulator holds");
}

static int8_t *leader_slot(raft_term term)
{
	if (term < TERMS_MAX)
		return &c.leader_of[term];
	world_fail("more terms than the simulator holds");
}

void check_started(int node)
{
	c.logs[node].last = 0; /* what it finds on its disk is looked at from the beginning */
}

raft_term check_term_of(raft_index index)
{
	return seen_at(index)->term;
}

raft_index check_committed(void)
{
	return c.highest;
}

/* Committed prefix: what one node applied at an index, every node applies there, whenever it does. */
void check_applied(int node, const struct entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = &entries[i];
		struct seen *seen = seen_at(e->index);
		uint32_t hash = crc32c(e->kind, e->data, e->len);
		hash = crc32c(hash, &e->term, sizeof(e->term)) | 1;
		if (!seen->hash) {
			seen->hash = hash;
			seen->term = e->term;
			if (e->index > c.highest)
				c.highest = e->index;
		} else if (seen->hash != hash) {
			world_fail("committed prefix changed: %s applies another entry at %" PRIu64 " (term %" PRIu64
			           ", was %" PRIu64 ")",
			           w.nodes[node].name, e->index, e->term, seen->term);
		}
	}
}

/* Linked by --wrap: every application passes here. */
int __real_fsm_apply(struct fsm *f, const struct entry *entries, size_t n, struct fsm_result *results, struct err *e);
int __wrap_fsm_apply(struct fsm *f, const struct entry *entries, size_t n, struct fsm_result *results, struct err *e);

int __wrap_fsm_apply(struct fsm *f, const struct entry *entries, size_t n, struct fsm_result *results, struct err *e)
{
	const raft_index before = fsm_applied_index(f);
	const int rc = __real_fsm_apply(f, entries, n, results, e);
	if (rc == 0 && w.current >= 0 && !disk_is_mute(w.current)) {
		size_t skip = 0;
		while (skip < n && entries[skip].index <= before)
			skip++;
		const raft_index known = c.highest;
		check_applied(w.current, entries + skip, n - skip);
		while (skip < n && entries[skip].index <= known)
			skip++;
		api_check_applied(w.current, entries + skip, results + skip, n - skip);
	}
	return rc;
}

/* ---- configurations ---- */

static uint32_t hash_conf(const struct raft_conf *conf)
{
	uint32_t hash = 0;
	for (uint32_t i = 0; i < conf->count; i++) {
		hash = crc32c(hash, &conf->servers[i].id, sizeof(conf->servers[i].id));
		hash = crc32c(hash, &conf->servers[i].voter, sizeof(conf->servers[i].voter));
	}
	return hash;
}

static const struct conf_seen *find_conf(raft_index index, raft_term term)
{
	for (size_t i = 0; i < c.conf_count; i++) {
		if (c.confs[i].index == index && c.confs[i].term == term)
			return &c.confs[i];
	}
	return NULL;
}

/* What is in force stands in the node's own log, where a leader put it. */
static void check_conf(const struct sim_node *s, const struct raft_view *view)
{
	const raft_term term = raft_term_at(s->node->raft, view->conf_index);
	if (!view->conf || view->conf_index <= 1 || view->conf_index <= view->snapshot_index)
		return;
	const struct conf_seen *seen = find_conf(view->conf_index, term);
	if (!seen && view->role == RAFT_LEADER && term == view->term) {
		if (c.conf_count == CONFS_MAX)
			world_fail("more configurations than the simulator holds");
		c.confs[c.conf_count++] = (struct conf_seen){ view->conf_index, term, hash_conf(view->conf) };
	} else if (!seen || seen->hash != hash_conf(view->conf)) {
		world_fail("%s goes by a configuration at %" PRIu64 " that is not in its log", s->name,
		           view->conf_index);
	}
}

/* ---- leaders ---- */

/* Leader completeness: it holds every entry that anybody applied. */
static void check_completeness(const struct sim_node *s, const struct raft_view *view)
{
	for (raft_index i = view->first_index; i && i <= c.highest; i++) {
		if (c.committed[i].hash && raft_term_at(s->node->raft, i) != c.committed[i].term)
			world_fail("%s leads term %" PRIu64 " without the committed entry %" PRIu64, s->name,
			           view->term, i);
	}
}

static void check_new_leader(struct sim_node *s, const struct raft_view *view)
{
	s->leads_since_us = w.now_us;
	c.elected_commit[s->number] = view->commit_index;
	promise_check_leader(s->number, view->term, view->conf);
	check_completeness(s, view);
	strike_on_leader(s->number);
}

static void check_leader(struct sim_node *s, const struct raft_view *view)
{
	int8_t *leader = leader_slot(view->term);
	if (*leader && *leader != s->number + 1)
		world_fail("two leaders in term %" PRIu64 ": %s and %s", view->term, w.nodes[*leader - 1].name,
		           s->name);
	if (!*leader) {
		*leader = (int8_t)(s->number + 1);
		check_new_leader(s, view);
	}
	if (view->commit_index < view->applied_index)
		world_fail("%s applied %" PRIu64 " beyond its commit index %" PRIu64, s->name, view->applied_index,
		           view->commit_index);
	if (view->commit_index > c.elected_commit[s->number] &&
	    raft_term_at(s->node->raft, view->commit_index) != view->term)
		world_fail("%s leads term %" PRIu64 " and committed %" PRIu64 " of an older one by counting", s->name,
		           view->term, view->commit_index);
	const uint64_t now_ms = clock_mono_ms();
	const uint64_t heard_us = view->contact_ms < now_ms ? (now_ms - view->contact_ms) * 1000 : 0;
	const uint64_t leads_us = w.now_us - s->leads_since_us;
	if (heard_us > 4 * ELECTION_MS * 1000 && leads_us > 4 * ELECTION_MS * 1000)
		world_fail("%s leads on, unheard by a majority for %" PRIu64 " ms", s->name, heard_us / 1000);
}

/* ---- logs ---- */

/* What stands before an entry, wherever somebody holds that entry. */
static void check_predecessor(const struct sim_node *s, raft_index index, raft_term term, raft_term before)
{
	struct holds **at = &c.holds[index];
	while (*at && (*at)->term != term)
		at = &(*at)->next;
	if (!*at) {
		*at = mem_alloc(sizeof(**at));
		**at = (struct holds){ .term = term, .before = before };
	} else if ((*at)->before != before) {
		world_fail("log matching: %s has an entry of term %" PRIu64 " before the one of term %" PRIu64
		           " at %" PRIu64 ", another has one of term %" PRIu64,
		           s->name, before, term, index, (*at)->before);
	}
}

/* Log matching: an entry of one index and term has one predecessor, hence one whole log below it. Looks from the top
 * down to where this node's log is what it was. */
static void check_log(const struct sim_node *s, const struct raft_view *view)
{
	struct own_log *own = &c.logs[s->number];
	const struct raft *raft = s->node->raft;
	const raft_index first = view->first_index;
	for (raft_index i = first ? view->last_index : 0; i && i >= first; i--) {
		const raft_term term = raft_term_at(raft, i);
		if (i >= own->first && i <= own->last && own->terms[i] == term)
			break;
		(void)seen_at(i); /* within the tables */
		own->terms[i] = term;
		const raft_term before = i > 1 ? raft_term_at(raft, i - 1) : 0;
		if (before || i == 1)
			check_predecessor(s, i, term, before);
	}
	own->first = first;
	own->last = first ? view->last_index : 0;
}

/* The core's own invariants, and what an observer sees. */
void check_node(int node)
{
	struct sim_node *s = &w.nodes[node];
	raft_check(s->node->raft);
	struct raft_view view;
	raft_view(s->node->raft, &view);
	promise_look(node);
	check_conf(s, &view);
	check_log(s, &view);
	if (view.role == RAFT_LEADER && s->node->stopped[0] == '\0')
		check_leader(s, &view);
}

/* Applied is never ahead of the node's own durable log, and equal index means equal digest. */
void check_digest(int node)
{
	struct sim_node *s = &w.nodes[node];
	if (disk_is_mute(node))
		return;
	struct store_txn *txn;
	struct err e;
	if (store_begin_read(fsm_store(s->node->fsm), &txn, &e) != 0)
		world_fail("%s: %s", s->name, e.msg);
	struct fsm_digest d;
	if (fsm_get_digest(txn, &d) != 0)
		world_fail("%s: the digest does not read", s->name);
	store_abort(txn);
	struct seen *seen = seen_at(d.index);
	if (!seen->has_digest) {
		seen->has_digest = true;
		seen->digest = d.total;
	} else if (seen->digest != d.total) {
		world_fail("digests differ at index %" PRIu64 ": %s has %016" PRIx64 ", another %016" PRIx64, d.index,
		           s->name, d.total, seen->digest);
	}
}

/* The server of a configuration, running as the one it names and having applied all; NULL with the reason. */
static struct sim_node *converged_server(const struct raft_server *srv, raft_index commit, char *why, size_t cap)
{
	struct sim_node *s = world_find(srv->name);
	if (!s || !world_is_up(s->number)) {
		snprintf(why, cap, "%s is down", srv->name);
		return NULL;
	}
	if (s->node->stopped[0] != '\0' || s->node->self.incarnation != srv->id) {
		snprintf(why, cap, "%s is not the one in the configuration, or stopped", srv->name);
		return NULL;
	}
	const raft_index applied = fsm_applied_index(s->node->fsm);
	if (applied < commit) {
		snprintf(why, cap, "%s applied %" PRIu64 " of %" PRIu64, srv->name, applied, commit);
		return NULL;
	}
	return s;
}

static struct sim_node *find_leader(void)
{
	struct sim_node *leader = NULL;
	for (int i = 0; i < w.plan.nodes; i++) {
		if (world_is_up(i) && node_is_leader(w.nodes[i].node) && w.nodes[i].node->stopped[0] == '\0' &&
		    (!leader || node_term(w.nodes[i].node) > node_term(leader->node)))
			leader = &w.nodes[i];
	}
	return leader;
}

bool check_converged(char *why, size_t cap)
{
	const struct sim_node *leader = find_leader();
	if (!leader) {
		snprintf(why, cap, "nobody leads");
		return false;
	}
	struct raft_view lead;
	raft_view(leader->node->raft, &lead);
	if (lead.commit_index < lead.last_index || lead.conf_pending) {
		snprintf(why, cap, "%s committed %" PRIu64 " of %" PRIu64, leader->name, lead.commit_index,
		         lead.last_index);
		return false;
	}
	for (uint32_t i = 0; i < lead.conf->count; i++) {
		if (!converged_server(&lead.conf->servers[i], lead.commit_index, why, cap))
			return false;
		if (lead.conf->servers[i].staged) {
			snprintf(why, cap, "%s was not promoted", lead.conf->servers[i].name);
			return false;
		}
	}
	return true;
}

bool check_is_member(int node)
{
	const struct sim_node *leader = find_leader();
	return leader && raft_conf_find(&leader->node->conf, w.nodes[node].node->self.incarnation) != NULL;
}
