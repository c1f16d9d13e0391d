/* §4.1, §4.2: changing the configuration, one server at a time.
 *
 * One step changes the set of voters by one at most, so any two majorities of before and after share a voter and no
 * joint configuration is needed. That holds only between committed configurations of one history: hence one change at
 * a time, and none before the leader's no-op committed (the flaw found after the dissertation was written).
 */
#include <inttypes.h>
#include <stdio.h>

#include "raft/raft_internal.h"

static struct raft_server *find(struct raft_conf *c, const struct raft_server *s, bool by_name)
{
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->servers[i].id == s->id)
			return &c->servers[i];
	}
	for (uint32_t i = 0; by_name && i < c->count; i++) {
		if (strcmp(c->servers[i].name, s->name) == 0)
			return &c->servers[i];
	}
	return NULL;
}

static int add_learner(struct raft_conf *c, const struct raft_server *s, struct err *e)
{
	if (raft_conf_find(c, s->id) || raft_conf_find_name(c, s->name))
		return err_set(e, ERR_EXISTS, "%s is in the configuration already", s->name);
	if (c->count == RAFT_SERVERS_MAX)
		return err_set(e, ERR_INVALID, "the configuration has %d servers, more are not allowed",
		               RAFT_SERVERS_MAX);
	c->servers[c->count] = *s;
	c->servers[c->count++].voter = false;
	conf_sort(c);
	return 0;
}

/* A voter that cannot keep up would take part in every majority and help none (§4.2.1). */
static int promote(struct raft *r, struct raft_server *at, struct err *e)
{
	const struct peer *p = peer_find(r, at->id);
	if (at->voter || !p)
		return err_set(e, ERR_EXISTS, "%s is a voter already", at->name);
	if (!peer_is_active(r, p))
		return err_set(e, ERR_INVALID, "%s does not answer", at->name);
	const uint64_t lag = r->log.last - p->match;
	if (p->state == PEER_SNAPSHOT || lag > RAFT_LAG_MAX)
		return err_set(e, ERR_INVALID, "%s is %" PRIu64 " entries behind", at->name, lag);
	at->voter = true;
	at->staged = false;
	return 0;
}

static int demote(struct raft_server *at, const struct raft_server *s, struct err *e)
{
	if (!at->voter && at->id == s->id && at->staged == s->staged)
		return err_set(e, ERR_EXISTS, "%s is a learner already", at->name);
	at->voter = false;
	at->staged = s->staged;
	if (at->id == s->id)
		return 0;
	at->id = s->id;
	if (s->addr[0] != '\0')
		memcpy(at->addr, s->addr, sizeof(at->addr));
	return 0;
}

static int edit(struct raft *r, struct raft_conf *c, enum raft_change change, const struct raft_server *s,
                struct err *e)
{
	if (change == RAFT_ADD_LEARNER)
		return add_learner(c, s, e);
	struct raft_server *at = find(c, s, change == RAFT_DEMOTE);
	if (!at)
		return err_set(e, ERR_NOTFOUND, "no such server in the configuration");
	switch (change) {
	case RAFT_PROMOTE: return promote(r, at, e);
	case RAFT_DEMOTE: return demote(at, s, e);
	case RAFT_REMOVE:
		c->count--;
		memmove(at, at + 1, (size_t)(&c->servers[c->count] - at) * sizeof(*at));
		memset(&c->servers[c->count], 0, sizeof(*at));
		return 0;
	case RAFT_SET_ADDR: memcpy(at->addr, s->addr, sizeof(at->addr)); return 0;
	case RAFT_ADD_LEARNER: break;
	}
	return err_set(e, ERR_INVALID, "no such change of the configuration");
}

static void make_entry(const struct raft_conf *c, struct entry *entry)
{
	struct buf b = { 0 };
	raft_conf_encode(c, &b);
	struct slab *slab = slab_from(b.data, b.len);
	*entry = (struct entry){ .kind = ENTRY_CONFIG, .len = (uint32_t)b.len, .data = slab->data, .slab = slab };
	buf_fini(&b);
}

int raft_change_conf(struct raft *r, enum raft_change change, const struct raft_server *s, raft_index *index_out,
                     struct err *e)
{
	ready_recycle(r);
	if (r->role != RAFT_LEADER)
		return err_set(e, ERR_NOT_LEADER, "this node does not lead");
	const struct conf_at *now = conf_in_force(r);
	if (!lead_has_committed(r))
		return err_set(e, ERR_BUSY, "this leader has not yet committed an entry of its term");
	if (now->index > r->log.commit)
		return err_set(e, ERR_BUSY, "another change of the configuration is under way");
	if (r->transfer.to != 0)
		return err_set(e, ERR_BUSY, "leadership is being handed over");
	struct raft_conf next = now->conf;
	int rc = edit(r, &next, change, s, e);
	if (rc)
		return rc;
	rc = conf_check(&next, e);
	if (rc)
		return rc;
	struct entry entry;
	make_entry(&next, &entry);
	lead_append(r, &entry, &next);
	*index_out = entry.index;
	entry_unref(&entry);
	lead_try_commit(r); /* the majority may be smaller now */
	return 0;
}

int raft_bootstrap(struct raft *r, const struct raft_conf *c, struct err *e)
{
	ready_recycle(r);
	if (conf_in_force(r) || r->log.last > 0)
		return err_set(e, ERR_EXISTS, "this node belongs to a cluster already");
	if (c->count > RAFT_SERVERS_MAX)
		return err_set(e, ERR_INVALID, "%u servers, allowed are 1 to %d", c->count, RAFT_SERVERS_MAX);
	struct raft_conf conf = *c;
	conf_sort(&conf);
	const int rc = conf_check(&conf, e);
	if (rc)
		return rc;
	const struct raft_server *self = raft_conf_find(&conf, r->p.self);
	if (!self || !self->voter)
		return err_set(e, ERR_INVALID, "the first configuration lacks this node as a voter");
	struct entry entry;
	make_entry(&conf, &entry);
	entry.index = 1;
	entry.term = 1;
	if (r->term < 1)
		disk_set_hard_state(r, 1, 0);
	advance_appended(r, &entry, &conf);
	entry_unref(&entry);
	r->election.due_ms = r->now_ms;
	return 0;
}
