/* Parents and children: what a change of one asks of the other, attaching, detaching. Types 13, 14, 27, 28, and the
 * parts of 2, 3, 23, 24, 25 that concern partners. */
#include <string.h>

#include "fsm/fsm_internal.h"
#include "model/json_equal.h"
#include "model/rules.h"

/* ---- rules of a record that has partners (types 2 and 24) ---- */

bool fanout_delay_fits(int64_t retention_ms, int64_t delay_ms)
{
	/* Subtracted, not added: both come from outside and a sum could overflow. */
	return delay_ms <= 0 || retention_ms == 0 ||
	       (retention_ms >= TOPIC_DELAY_HEADROOM_MS && retention_ms - TOPIC_DELAY_HEADROOM_MS >= delay_ms);
}

static bool retention_shrinks(int64_t from, int64_t to)
{
	return to != 0 && (from == 0 || to < from);
}

static bool is_same_record(const struct topic *x, const struct topic *y)
{
	struct buf left = { 0 }, right = { 0 };
	record_put_json(&topic_type, x, &left);
	record_put_json(&topic_type, y, &right);
	const bool same = left.len == right.len && memcmp(left.data, right.data, left.len) == 0;
	buf_fini(&left);
	buf_fini(&right);
	return same;
}

static int check_children(struct apply *a, const struct topic *old, const struct topic *now)
{
	bool has_remote = false;
	for (size_t i = 0; i < old->children.count; i++) {
		struct topic child;
		int rc = fsm_get_record(a, STORE_TOPICS, old->children.items[i], &topic_type, &child);
		if (rc == ERR_NOTFOUND)
			continue;
		if (rc)
			return rc;
		if (!fanout_delay_fits(now->retention_ms, child.fanout_delay_ms)) {
			fsm_set_hint(a, child.name);
			return FSM_DELAY_TOO_LONG;
		}
		has_remote = has_remote || child.remote;
	}
	if (has_remote && retention_shrinks(old->retention_ms, now->retention_ms) &&
	    now->retention_ms < TOPIC_REMOTE_RETENTION_MIN_MS)
		return FSM_RETENTION_FLOOR;
	return 0;
}

int fanout_check_config(struct apply *a, const struct topic *old, const struct topic *now)
{
	if (topic_is_stub(old))
		return is_same_record(old, now) ? 0 : FSM_STUB_IMMUTABLE;
	return topic_is_parent(old) ? check_children(a, old, now) : 0;
}

/* ---- changing partners ---- */

static void make_standalone(struct topic *t)
{
	t->role = STR_LIT(TOPIC_ROLE_STANDALONE);
	t->parent = t->attach_epoch = (struct str){ "", 0 };
	t->fanout_delay_ms = 0;
	t->attach_offsets = (struct i64_list){ 0 };
}

static void remove_child(struct apply *a, struct topic *parent, struct str child)
{
	struct str *kept = arena_alloc(a->arena, (parent->children.count + 1) * sizeof(*kept));
	size_t n = 0;
	for (size_t i = 0; i < parent->children.count; i++)
		if (!str_eq(parent->children.items[i], child))
			kept[n++] = parent->children.items[i];
	parent->children = n ? (struct str_list){ kept, n } : (struct str_list){ 0 };
	if (n == 0)
		parent->role = STR_LIT(TOPIC_ROLE_STANDALONE);
}

/* A local child goes on by itself with its data and schemas; a stub is nothing without its parent. */
static int release_child(struct apply *a, struct str name)
{
	struct topic_state child;
	int rc = topic_state_load(a, name, &child);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	if (child.rec.remote)
		return topic_state_erase(a, &child.rec);
	const struct topic old = child.rec;
	make_standalone(&child.rec);
	return topic_state_rewrite(a, &old, &child);
}

static int drop_from_parent(struct apply *a, struct str parent_name, struct str child)
{
	struct topic_state parent;
	int rc = topic_state_load(a, parent_name, &parent);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	const struct topic old = parent.rec;
	remove_child(a, &parent.rec, child);
	return topic_state_rewrite(a, &old, &parent);
}

int fanout_release(struct apply *a, const struct topic *gone)
{
	int rc = 0;
	/* Type 1 stores what it is given, even a topic that is its own partner. */
	if (topic_is_parent(gone))
		for (size_t i = 0; rc == 0 && i < gone->children.count; i++)
			if (!str_eq(gone->children.items[i], gone->name))
				rc = release_child(a, gone->children.items[i]);
	if (rc == 0 && topic_is_child(gone) && !str_eq(gone->parent, gone->name))
		rc = drop_from_parent(a, gone->parent, gone->name);
	return rc;
}

/* ---- attach ---- */

static int judge_roles(const struct fanout_link *l, const struct topic *parent, const struct topic *child)
{
	if (topic_is_child(parent) || topic_is_parent(child))
		return FSM_ROLE_CONFLICT;
	if (topic_is_child(child))
		return str_eq(child->parent, l->parent) ? FSM_ALREADY_ATTACHED : FSM_ROLE_CONFLICT;
	if (parent->children.count >= TOPIC_CHILDREN_MAX)
		return FSM_CHILD_LIMIT;
	if (l->delay_ms < 0)
		return FSM_ROLE_CONFLICT;
	if (l->delay_ms > TOPIC_DELAY_MAX_MS || !fanout_delay_fits(parent->retention_ms, l->delay_ms))
		return FSM_DELAY_TOO_LONG;
	return 0;
}

static int compare_histories(const struct fanout_link *l, const struct schema_history *parent,
                             const struct schema_history *child)
{
	struct arena scratch = { 0 }; /* of one pair of documents: a history may have 4 MiB */
	int rc = 0;
	if (parent->count != child->count)
		return FSM_SCHEMA_MISMATCH;
	for (size_t i = 0; i < parent->count; i++) {
		const struct fsm_schema *p = &parent->items[i], *c = &child->items[i];
		if (p->version != c->version) {
			rc = FSM_SCHEMA_MISMATCH;
			break;
		}
		if (!str_eq(p->document, c->document) &&
		    (!l->by_value || !json_equal(p->document, c->document, &scratch))) {
			rc = FSM_SCHEMA_MISMATCH;
			break;
		}
		arena_reset(&scratch);
	}
	arena_fini(&scratch);
	return rc;
}

static int judge_schemas(struct apply *a, const struct fanout_link *l, const struct schema_history *parent,
                         const struct schema_history *child)
{
	uint64_t cluster;
	if (child->count)
		return compare_histories(l, parent, child);
	if (parent->count == 0 || !l->by_value)
		return 0;
	if (parent->bytes > SCHEMA_TOPIC_BYTES_MAX)
		return FSM_SCHEMA_FULL;
	int rc = schema_cluster_bytes(a, &cluster);
	if (rc)
		return rc;
	return cluster + parent->bytes > SCHEMA_CLUSTER_BYTES_MAX ? FSM_SCHEMA_FULL : 0;
}

int fanout_judge(struct apply *a, const struct fanout_link *l, const struct topic *new_child, struct str new_schema)
{
	struct topic parent, child;
	struct schema_history of_parent, of_child = { 0 };
	struct fsm_schema first = { 1, new_schema };
	if (str_eq(l->parent, l->child))
		return FSM_ROLE_CONFLICT;
	int rc = fsm_get_record(a, STORE_TOPICS, l->parent, &topic_type, &parent);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_PARENT_NOT_FOUND : rc;
	if (new_child)
		child = *new_child;
	else
		rc = fsm_get_record(a, STORE_TOPICS, l->child, &topic_type, &child);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_CHILD_NOT_FOUND : rc;
	rc = judge_roles(l, &parent, &child);
	if (rc == 0)
		rc = schema_load(a, l->parent, true, &of_parent);
	if (rc == 0 && !new_child)
		rc = schema_load(a, l->child, true, &of_child);
	if (new_child && new_schema.len)
		of_child = (struct schema_history){ &first, 1, new_schema.len };
	return rc ? rc : judge_schemas(a, l, &of_parent, &of_child);
}

static int adopt_schemas(struct apply *a, const struct fanout_link *l)
{
	struct schema_history of_parent, of_child;
	int rc = schema_load(a, l->child, false, &of_child);
	if (rc == 0)
		rc = schema_load(a, l->parent, true, &of_parent);
	if (rc || of_child.count)
		return rc;
	for (size_t i = 0; rc == 0 && i < of_parent.count; i++)
		rc = schema_append(a, l->child, of_parent.items[i].version, of_parent.items[i].document);
	return rc;
}

int fanout_list_child(struct apply *a, struct str parent_name, struct str child)
{
	struct topic_state parent;
	int rc = topic_state_load(a, parent_name, &parent);
	if (rc)
		return rc;
	const struct topic old = parent.rec;
	struct str *all = arena_alloc(a->arena, (old.children.count + 1) * sizeof(*all));
	for (size_t i = 0; i < old.children.count; i++)
		all[i] = old.children.items[i];
	all[old.children.count] = child;
	parent.rec.children = (struct str_list){ all, old.children.count + 1 };
	parent.rec.role = STR_LIT(TOPIC_ROLE_PARENT);
	return topic_state_rewrite(a, &old, &parent);
}

int fanout_attach(struct apply *a, const struct fanout_link *l)
{
	struct topic_state child;
	int rc = fanout_list_child(a, l->parent, l->child);
	if (rc == 0)
		rc = topic_state_load(a, l->child, &child);
	if (rc == 0) {
		const struct topic old = child.rec;
		child.rec.role = STR_LIT(TOPIC_ROLE_CHILD);
		child.rec.parent = l->parent;
		child.rec.attach_epoch = l->epoch;
		child.rec.fanout_delay_ms = l->delay_ms;
		child.rec.attach_offsets = l->offsets;
		rc = topic_state_rewrite(a, &old, &child);
	}
	return rc ? rc : adopt_schemas(a, l);
}

static int attach(struct apply *a, const struct cmd_child_attach *c, bool by_value)
{
	const struct fanout_link l = { c->parent, c->child, c->epoch, c->delay_ms, c->offsets, by_value };
	int rc = fanout_judge(a, &l, NULL, (struct str){ "", 0 });
	return rc || is_judging(a) ? rc : fanout_attach(a, &l);
}

int fsm_child_attach(struct apply *a, const void *command)
{
	return attach(a, command, false);
}

/* Are these still the two topics the caller saw? */
static int judge_identities(struct apply *a, struct str parent, struct str parent_id, struct str child,
                            struct str child_id)
{
	struct topic t;
	int rc = fsm_get_record(a, STORE_TOPICS, parent, &topic_type, &t);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_PARENT_NOT_FOUND : rc;
	if (!str_eq(t.id, parent_id))
		return FSM_PARENT_CHANGED;
	rc = fsm_get_record(a, STORE_TOPICS, child, &topic_type, &t);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_CHILD_NOT_FOUND : rc;
	return str_eq(t.id, child_id) ? 0 : FSM_CHILD_CHANGED;
}

int fsm_child_attach_if(struct apply *a, const void *command)
{
	const struct cmd_child_attach_if *c = command;
	int rc = judge_identities(a, c->link.parent, c->parent_id, c->link.child, c->child_id);
	return rc ? rc : attach(a, &c->link, true);
}

/* ---- detach ---- */

static int detach(struct apply *a, struct str parent, struct str child)
{
	struct topic p, c;
	int rc = fsm_get_record(a, STORE_TOPICS, parent, &topic_type, &p);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_PARENT_NOT_FOUND : rc;
	rc = fsm_get_record(a, STORE_TOPICS, child, &topic_type, &c);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_CHILD_NOT_FOUND : rc;
	if (!topic_is_child(&c) || !str_eq(c.parent, parent))
		return FSM_NOT_LINKED;
	if (is_judging(a))
		return 0;
	rc = drop_from_parent(a, parent, child);
	return rc ? rc : release_child(a, child);
}

int fsm_child_detach(struct apply *a, const void *command)
{
	const struct cmd_child_detach *c = command;
	return detach(a, c->parent, c->child);
}

int fsm_child_detach_if(struct apply *a, const void *command)
{
	const struct cmd_child_detach_if *c = command;
	int rc = judge_identities(a, c->parent, c->parent_id, c->child, c->child_id);
	return rc ? rc : detach(a, c->parent, c->child);
}
