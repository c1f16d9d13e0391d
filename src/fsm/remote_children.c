/* Children on other clusters: types 33 and 34. Such a child is a stub here: a topic without partitions, whose record
 * says where its parent's records go. It is made by the attach and is gone with the detach. */
#include <string.h>

#include "fsm/fsm_internal.h"
#include "fsm/remotes.h"
#include "model/rules.h"

/* ---- 33: attach ---- */

/* What can be said of the entry alone, in the facts' order; what no key could hold comes last. */
static int judge_fields(struct apply *a, const struct cmd_remote_child_attach *c)
{
	if (c->parent.len == 0 || c->stub.len == 0 || c->remote.name.len == 0 || c->remote.topic.len == 0)
		return FSM_INVALID;
	if (str_eq(c->parent, c->stub))
		return FSM_ROLE_CONFLICT;
	if (c->epoch.len == 0 || c->delay_ms < 0)
		return FSM_INVALID;
	if (c->delay_ms > TOPIC_DELAY_MAX_MS) {
		fsm_set_hint(a, c->stub);
		return FSM_DELAY_TOO_LONG;
	}
	if (c->remote.lanes < 0 || c->remote.lanes > REMOTE_LANES_MAX || !rule_remote_from(c->remote.from))
		return FSM_INVALID;
	return rule_stored_topic_name(c->stub) && rule_stored_topic_name(c->remote.topic) ? 0 : FSM_INVALID;
}

/* A name that is listed and leads nowhere is no remote child. */
static int count_remote_children(struct apply *a, const struct topic *parent, size_t *out)
{
	*out = 0;
	for (size_t i = 0; i < parent->children.count; i++) {
		struct topic child;
		int rc = fsm_get_record(a, STORE_TOPICS, parent->children.items[i], &topic_type, &child);
		if (rc && rc != ERR_NOTFOUND)
			return rc;
		*out += rc == 0 && topic_is_stub(&child);
	}
	return 0;
}

static int judge_room(struct apply *a, const struct topic *parent)
{
	size_t remote;
	if (parent->children.count >= TOPIC_CHILDREN_MAX)
		return FSM_CHILD_LIMIT;
	int rc = count_remote_children(a, parent, &remote);
	if (rc)
		return rc;
	return remote >= TOPIC_REMOTE_CHILDREN_MAX ? FSM_REMOTE_CHILD_LIMIT : 0;
}

static int judge_retention(struct apply *a, const struct cmd_remote_child_attach *c, const struct topic *parent)
{
	if (parent->retention_ms != 0 && parent->retention_ms < TOPIC_REMOTE_RETENTION_MIN_MS)
		return FSM_RETENTION_FLOOR;
	if (fanout_delay_fits(parent->retention_ms, c->delay_ms))
		return 0;
	fsm_set_hint(a, c->stub);
	return FSM_DELAY_TOO_LONG;
}

/* One way to each topic of each remote, in the whole cluster: two would send everything twice. */
static int judge_target(struct apply *a, const struct cmd_remote_child_attach *c)
{
	struct str child;
	int rc = fsm_find_linked(a->txn, c->remote.name, c->remote.topic, &child);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	fsm_set_hint(a, child);
	return FSM_REMOTE_TARGET_LINKED;
}

static int judge_attach(struct apply *a, const struct cmd_remote_child_attach *c)
{
	struct topic parent;
	struct str v;
	int rc = judge_fields(a, c);
	if (rc)
		return rc;
	rc = fsm_get_record(a, STORE_TOPICS, c->parent, &topic_type, &parent);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_PARENT_NOT_FOUND : rc;
	if (c->parent_id.len && !str_eq(parent.id, c->parent_id))
		return FSM_PARENT_CHANGED;
	if (topic_is_child(&parent))
		return FSM_ROLE_CONFLICT;
	rc = fsm_get_remote(a->txn, c->remote.name, &v);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_REMOTE_GONE : rc;
	rc = store_get(a->txn, STORE_TOPICS, c->stub, &v);
	if (rc != ERR_NOTFOUND)
		return rc ? rc : FSM_TOPIC_EXISTS;
	rc = judge_room(a, &parent);
	if (rc == 0)
		rc = judge_retention(a, c, &parent);
	return rc ? rc : judge_target(a, c);
}

int fsm_remote_child_attach(struct apply *a, const void *command)
{
	const struct cmd_remote_child_attach *c = command;
	/* What an operator does later (pauses, skips) is no part of an attach, whatever it says. */
	const struct remote_link link = {
		.name = c->remote.name,
		.topic = c->remote.topic,
		.target_id = c->remote.target_id,
		.from = c->remote.from.len ? c->remote.from : STR_LIT("attach"),
		.lanes = c->remote.lanes ? c->remote.lanes : REMOTE_LANES_MIN,
		.created_by = c->remote.created_by,
	};
	const struct topic stub = {
		.name = c->stub,
		.id = c->stub_id,
		.created_at = c->created_at,
		.role = STR_LIT(TOPIC_ROLE_CHILD),
		.parent = c->parent,
		.attach_epoch = c->epoch,
		.fanout_delay_ms = c->delay_ms,
		.attach_offsets = c->offsets,
		.remote = &link,
	};
	struct topic_state made;
	int rc = judge_attach(a, c);
	if (rc || is_judging(a))
		return rc;
	/* As with any new topic: rows of one that once had this name are not this one's. */
	rc = topic_state_clear_rows(a, c->stub);
	if (rc == 0)
		rc = fanout_list_child(a, c->parent, c->stub);
	return rc ? rc : topic_state_insert(a, &stub, &made);
}

/* ---- 34: state ---- */

static struct i64_list with_offset(struct arena *arena, const struct i64_list *old, int64_t offset)
{
	int64_t *all = arena_alloc(arena, (old->count + 1) * sizeof(*all));
	size_t at = 0, n = old->count;
	while (at < n && old->items[at] < offset)
		at++;
	if (at < n && old->items[at] == offset)
		return *old;
	if (at)
		memcpy(all, old->items, at * sizeof(*all));
	all[at] = offset;
	if (n > at)
		memcpy(all + at + 1, old->items + at, (n - at) * sizeof(*all));
	if (++n <= REMOTE_SKIPS_MAX)
		return (struct i64_list){ all, n };
	/* The lowest goes, but never the one that was asked for. */
	const size_t drop = at == 0;
	memmove(all + drop, all + drop + 1, (n - drop - 1) * sizeof(*all));
	return (struct i64_list){ all, n - 1 };
}

static struct offsets_map with_skip(struct arena *arena, const struct offsets_map *old, const struct cmd_remote_skip *s)
{
	struct offsets_item *all = arena_alloc(arena, (old->count + 1) * sizeof(*all));
	const struct i64_list none = { 0 };
	const size_t n = old->count;
	size_t at = 0;
	while (at < n && offsets_key_cmp(old->items[at].key, s->partition) < 0)
		at++;
	const bool known = at < n && old->items[at].key == s->partition;
	if (at)
		memcpy(all, old->items, at * sizeof(*all));
	all[at].key = s->partition;
	all[at].offsets = with_offset(arena, known ? &old->items[at].offsets : &none, s->offset);
	if (n > at + known)
		memcpy(all + at + 1, old->items + at + known, (n - at - known) * sizeof(*all));
	return (struct offsets_map){ all, n + !known };
}

static int judge_state(const struct cmd_remote_child_state *c)
{
	if (c->pause && c->pause->paused && !rule_pause_reason(c->pause->reason))
		return FSM_INVALID;
	if (c->lanes.set && (c->lanes.value < REMOTE_LANES_MIN || c->lanes.value > REMOTE_LANES_MAX))
		return FSM_INVALID;
	return c->skip && (c->skip->partition < 0 || c->skip->offset < 0) ? FSM_INVALID : 0;
}

static void set_state(struct apply *a, const struct cmd_remote_child_state *c, struct remote_link *link)
{
	if (c->pause) {
		const bool on = c->pause->paused;
		const struct str none = { "", 0 };
		link->paused = on;
		link->pause_reason = on ? c->pause->reason : none;
		link->paused_by = on ? c->pause->by : none;
		link->paused_at_ms = on ? c->pause->at_ms : 0;
	}
	if (c->target_id.p)
		link->target_id = c->target_id;
	if (c->lanes.set)
		link->lanes = c->lanes.value;
	if (c->skip)
		link->skip = with_skip(a->arena, &link->skip, c->skip);
}

int fsm_remote_child_state(struct apply *a, const void *command)
{
	const struct cmd_remote_child_state *c = command;
	struct topic_state stub;
	int rc = topic_state_load(a, c->stub, &stub);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_CHILD_NOT_FOUND : rc;
	if (!topic_is_stub(&stub.rec) || !str_eq(stub.rec.parent, c->parent))
		return FSM_NOT_LINKED;
	if (!str_eq(stub.rec.attach_epoch, c->epoch))
		return FSM_REMOTE_CHILD_STALE;
	rc = judge_state(c);
	if (rc || is_judging(a))
		return rc;
	const struct topic old = stub.rec;
	struct remote_link link = *old.remote;
	set_state(a, c, &link);
	stub.rec.remote = &link;
	return topic_state_rewrite(a, &old, &stub);
}
