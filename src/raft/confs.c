/* §4.1: a server uses the newest configuration in its log, committed or not.
 *
 * So one that is cut off again must give way to the one before it, and that one may long be compacted out of the log.
 * Kept here, decoded: everything appended and not yet committed, and the newest committed one below.
 */
#include "raft/raft_internal.h"

const struct conf_at *conf_in_force(const struct raft *r)
{
	size_t n = r->confs.count;
	if (SIM_FAULT("conf-only-from-commit")) {
		while (n > 0 && r->confs.v[n - 1].index > r->log.commit)
			n--;
	}
	return n > 0 ? &r->confs.v[n - 1] : NULL;
}

const struct raft_server *conf_ever_has(const struct raft *r, node_id id, bool as_voter)
{
	for (size_t i = 0; i < r->confs.count; i++) {
		const struct raft_server *s = raft_conf_find(&r->confs.v[i].conf, id);
		if (s && (s->voter || !as_voter))
			return s;
	}
	return NULL;
}

void confs_fini(struct confs *c)
{
	mem_free(c->v);
	*c = (struct confs){ 0 };
}

void confs_push(struct confs *c, raft_index index, const struct raft_conf *conf)
{
	if (SIM_FAULT("truncated-conf-kept")) {
		while (c->count > 0 && c->v[c->count - 1].index >= index)
			c->count--;
	}
	assert(c->count == 0 || index > c->v[c->count - 1].index);
	if (c->count == c->cap) {
		c->cap = c->cap ? c->cap * 2 : 2;
		c->v = mem_realloc(c->v, c->cap * sizeof(*c->v));
	}
	c->v[c->count++] = (struct conf_at){ .index = index, .conf = *conf };
}

bool confs_truncate(struct confs *c, raft_index first)
{
	if (SIM_FAULT("truncated-conf-kept"))
		return false;
	const size_t before = c->count;
	while (c->count > 0 && c->v[c->count - 1].index >= first)
		c->count--;
	return c->count < before;
}

raft_index confs_settle(struct confs *c, raft_index before, raft_index commit)
{
	size_t committed = 0;
	while (committed < c->count && c->v[committed].index <= commit)
		committed++;
	if (committed == 0)
		return 0;
	memmove(c->v, c->v + committed - 1, (c->count - committed + 1) * sizeof(*c->v));
	c->count -= committed - 1;
	return c->v[0].index > before ? c->v[0].index : 0;
}

void confs_reset(struct confs *c, const struct raft_conf *conf)
{
	c->count = 0;
	confs_push(c, 0, conf);
}
