/* A search: a cluster under everything that may happen, drawn from the seed, then healed and expected to converge. */
#ifndef TESTS_UNIT_RAFT_CHAOS_H
#define TESTS_UNIT_RAFT_CHAOS_H

#include "raft_cluster.h"

/* Small limits, so that every one of them is met in a short run. */
static inline struct rc *chaos_new(uint64_t seed)
{
	struct rand dice;
	rand_seed(&dice, seed);
	const size_t n = 3 + (size_t)rand_below(&dice, 3);
	struct rc *c = rc_new(n, seed);
	c->trace = 0;
	c->params.append_bytes_max = 150;
	c->params.inflight_bytes_max = 600;
	c->params.cache_bytes_max = 500;
	c->params.uncommitted_bytes_max = 3000;
	c->params.apply_entries_max = 12;
	c->delay_max_ms = 1 + rand_below(&dice, 40);
	c->disk_max_ms = 1 + rand_below(&dice, 30);
	c->loss_percent = (unsigned)rand_below(&dice, 15);
	c->dup_percent = (unsigned)rand_below(&dice, 15);
	rc_bootstrap(c, (uint32_t)(n > 3 && rand_below(&dice, 2) ? n - 1 : n));
	rc_run(c, 40); /* the first configuration is on a disk */
	return c;
}

static inline void chaos_crash(struct rc *c, size_t i)
{
	rc_crash(c, i, rand_below(&c->dice, 3) == 0);
	for (size_t k = 0; k < c->n; k++) {
		if (!c->nodes[k].raft || c->nodes[k].frozen_until_ms > c->now_ms || rand_below(&c->dice, 2))
			continue;
		raft_peer_lost(c->nodes[k].raft, c->nodes[i].id, rand_below(&c->dice, 2));
		c->nodes[k].dirty = true;
	}
}

static inline void chaos_change(struct rc *c, size_t leader)
{
	const struct raft_view v = rc_view(c, leader);
	const size_t i = (size_t)rand_below(&c->dice, c->n);
	struct raft_server s = { .id = c->nodes[i].id };
	snprintf(s.name, sizeof(s.name), "n%zu", i + 1);
	snprintf(s.addr, sizeof(s.addr), "10.0.0.%zu:7943", i + 1);
	const struct raft_server *at = raft_conf_find(v.conf, s.id);
	enum raft_change what = RAFT_ADD_LEARNER;
	size_t voters = 0;
	for (uint32_t k = 0; k < v.conf->count; k++)
		voters += v.conf->servers[k].voter;
	if (at && !at->voter)
		what = RAFT_PROMOTE;
	else if (at && voters <= 2)
		what = RAFT_SET_ADDR;
	else if (at)
		what = rand_below(&c->dice, 2) ? RAFT_REMOVE : RAFT_DEMOTE;
	else if (raft_conf_find_name(v.conf, s.name))
		what = RAFT_DEMOTE; /* wiped */
	raft_index index;
	/* A refusal is as good: what counts is that the cluster keeps its promises. */
	(void)!raft_change_conf(c->nodes[leader].raft, what, &s, &index, NULL);
	c->nodes[leader].dirty = true;
}

static inline void chaos_cut(struct rc *c)
{
	const size_t a = (size_t)rand_below(&c->dice, c->n), b = (size_t)rand_below(&c->dice, c->n);
	switch (rand_below(&c->dice, 8)) {
	case 0: rc_cut_off(c, a, true); break;
	case 1: c->cut[a][b] = a != b; break;
	case 2: c->cut[a][b] = c->cut[b][a] = a != b; break;
	default: rc_heal(c); break;
	}
}

/* Half of the voters stay whole, so that committed entries are somewhere: a wiped directory counts as lost. */
static inline bool chaos_may_wipe(const struct rc *c, size_t i)
{
	size_t whole = 0, voters = 0;
	const int leader = rc_leader(c);
	if (leader < 0 || (size_t)leader == i)
		return false;
	const struct raft_view v = rc_view(c, (size_t)leader);
	for (uint32_t k = 0; k < v.conf->count; k++) {
		const struct raft_server *s = &v.conf->servers[k];
		if (!s->voter)
			continue;
		voters++;
		whole += c->nodes[rc_node_of(s->id)].id == s->id && rc_node_of(s->id) != i;
	}
	/* Only learners and strangers lose their disk: a voter's loss may lose what was acknowledged, by design. */
	const struct raft_server *at = raft_conf_find(v.conf, c->nodes[i].id);
	return 2 * whole > voters && !v.conf_pending && !(at && at->voter) && c->nodes[i].id < 400;
}

static inline void chaos_restart_all(struct rc *c)
{
	for (size_t i = 0; i < c->n; i++) {
		if (!c->nodes[i].raft)
			rc_start(c, i);
	}
}

static inline void chaos_act(struct rc *c)
{
	const int leader = rc_leader(c);
	const bool at_leader = leader >= 0 && rand_below(&c->dice, 3) == 0;
	const size_t i = at_leader ? (size_t)leader : (size_t)rand_below(&c->dice, c->n);
	struct rc_node *nd = &c->nodes[i];
	const bool runs = nd->raft && nd->frozen_until_ms <= c->now_ms;
	const bool leads = runs && rc_view(c, i).role == RAFT_LEADER;
	const uint64_t what = rand_below(&c->dice, 100);
	if (what < 40) {
		if (leads)
			(void)!rc_propose(c, i, 1 + (size_t)rand_below(&c->dice, 6));
	} else if (what < 55) {
		if (runs)
			rc_read(c, i);
	} else if (what < 62) {
		if (runs)
			rc_snapshot(c, i);
	} else if (what < 67) {
		if (leads)
			chaos_change(c, i);
	} else if (what < 70) {
		if (leads && raft_transfer(nd->raft, 0, NULL) == 0)
			nd->dirty = true;
	} else if (what < 78) {
		chaos_cut(c);
	} else if (what < 81) {
		if (nd->raft)
			chaos_crash(c, i);
	} else if (what < 92) {
		if (!nd->raft)
			rc_start(c, i);
	} else if (what < 94) {
		nd->frozen_until_ms = c->now_ms + rand_below(&c->dice, 1500);
	} else if (what < 97) {
		nd->disk_held = !nd->disk_held && rand_below(&c->dice, 3) == 0;
	} else if (what < 98) {
		if (!nd->raft && chaos_may_wipe(c, i)) {
			rc_wipe(c, i);
			rc_start(c, i);
		}
	} else if (runs) {
		raft_peer_lost(nd->raft, c->nodes[(i + 1) % c->n].id, rand_below(&c->dice, 2));
		nd->dirty = true;
	}
}

/* Acts `actions` times, with up to 50 ms between. */
static inline void chaos_run(struct rc *c, int actions)
{
	for (int k = 0; k < actions && !c->violation[0]; k++) {
		chaos_act(c);
		rc_run(c, rand_below(&c->dice, 50));
	}
}

static inline bool chaos_same_conf(const struct raft_conf *a, const struct raft_conf *b)
{
	struct buf x = { 0 }, y = { 0 };
	raft_conf_encode(a, &x);
	raft_conf_encode(b, &y);
	const bool same = x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
	buf_fini(&x);
	buf_fini(&y);
	return same;
}

/* Everything is whole again: a leader comes, what it commits reaches everybody, every read is answered. */
static inline void chaos_converge(struct rc *c)
{
	rc_heal(c);
	c->loss_percent = c->dup_percent = 0;
	chaos_restart_all(c);
	for (size_t i = 0; i < c->n; i++) {
		c->nodes[i].disk_held = false;
		c->nodes[i].frozen_until_ms = 0;
	}
	rc_run(c, 15000);
	const int leader = rc_leader(c);
	if (c->violation[0])
		return;
	if (leader < 0 || rc_propose(c, (size_t)leader, 1) != 0) {
		rc_violate(c, "no leader in a healed cluster");
		return;
	}
	rc_run(c, 3000);
	const struct raft_view v = rc_view(c, (size_t)leader);
	if (v.commit_index != v.last_index || v.applied_index != v.last_index)
		rc_violate(c, "the leader of a healed cluster does not commit");
	for (uint32_t k = 0; k < v.conf->count; k++) {
		const size_t i = rc_node_of(v.conf->servers[k].id);
		const struct raft_view f = rc_view(c, i);
		if (c->nodes[i].id != v.conf->servers[k].id)
			continue;
		if (f.applied_index != v.applied_index)
			rc_violate(c, "n%zu does not catch up in a healed cluster", i + 1);
		else if (!chaos_same_conf(f.conf, v.conf))
			rc_violate(c, "n%zu has another configuration than its leader", i + 1);
	}
	if (c->read_count > 0)
		rc_violate(c, "%zu reads were never answered", c->read_count);
}

#endif
