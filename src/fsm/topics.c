/* Topics: types 1, 2, 3, 23, 24, 25. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

/* What no rule of the facts says because their proposers never send it, and what would not fit our keys and lists. */
static bool is_storable(const struct topic *t)
{
	return rule_stored_topic_name(t->name) && t->partitions >= 0 && t->partitions <= FSM_PARTITIONS_MAX &&
	       (t->owner.len == 0 || rule_user_name(t->owner)) &&
	       (!t->remote || (rule_remote_name(t->remote->name) && rule_stored_topic_name(t->remote->topic)));
}

static int load(struct apply *a, struct str name, struct topic_state *out)
{
	int rc = topic_state_load(a, name, out);
	return rc == ERR_NOTFOUND ? FSM_TOPIC_NOT_FOUND : rc;
}

/* ---- create ---- */

/* 0 when the name is free. */
static int judge_free(struct apply *a, struct str name)
{
	struct str v;
	int rc = store_get(a->txn, STORE_TOPICS, name, &v);
	return rc == ERR_NOTFOUND ? 0 : rc ? rc : FSM_TOPIC_EXISTS;
}

int fsm_topic_create(struct apply *a, const void *command)
{
	const struct topic *t = command;
	struct topic_state made;
	int rc = judge_free(a, t->name);
	if (rc == 0 && !is_storable(t))
		rc = FSM_INVALID;
	if (rc || is_judging(a))
		return rc;
	return topic_state_insert(a, t, &made);
}

static int judge_twin(struct apply *a, struct str name)
{
	struct str twin;
	int rc = fsm_find_twin(a->txn, name, &twin);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	fsm_set_hint(a, twin);
	return FSM_TOPIC_TWIN;
}

static int judge_parent(struct apply *a, const struct cmd_create_link *l)
{
	struct topic parent;
	int rc = fsm_get_record(a, STORE_TOPICS, l->parent, &topic_type, &parent);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_PARENT_NOT_FOUND : rc;
	return str_eq(parent.id, l->parent_id) ? 0 : FSM_PARENT_CHANGED;
}

int fsm_topic_create_with(struct apply *a, const void *command)
{
	const struct cmd_topic_create_with *c = command;
	const struct topic *t = &c->topic;
	struct fanout_link link = { .child = t->name, .by_value = true };
	struct topic_state made;
	int rc = t->name.len ? judge_free(a, t->name) : FSM_INVALID;
	if (rc == 0)
		rc = is_storable(t) ? judge_twin(a, t->name) : FSM_INVALID;
	if (rc == 0)
		rc = schema_judge_first(a, t->name, c->schema);
	if (rc == 0 && c->link) {
		link.parent = c->link->parent;
		link.epoch = c->link->epoch;
		link.delay_ms = c->link->delay_ms;
		link.offsets = c->link->offsets;
		rc = judge_parent(a, c->link);
		if (rc == 0)
			rc = fanout_judge(a, &link, t, c->schema);
	}
	if (rc || is_judging(a))
		return rc;

	/* Rows of a topic that once had this name would be taken for the new one's. */
	rc = topic_state_clear_rows(a, t->name);
	if (rc == 0)
		rc = topic_state_insert(a, t, &made);
	if (rc == 0 && c->schema.len)
		rc = schema_append(a, t->name, 1, c->schema);
	if (rc == 0 && c->link)
		rc = fanout_attach(a, &link);
	return rc;
}

/* ---- update ---- */

/* What no update changes: who the topic is and how it is linked. */
static void keep_identity(struct topic *now, const struct topic *old)
{
	now->id = old->id;
	now->role = old->role;
	now->children = old->children;
	now->parent = old->parent;
	now->attach_epoch = old->attach_epoch;
	now->fanout_delay_ms = old->fanout_delay_ms;
	now->attach_offsets = old->attach_offsets;
	now->remote = old->remote;
}

static int update(struct apply *a, struct topic_state *t, const struct topic *now)
{
	const struct topic old = t->rec;
	int rc = fanout_check_config(a, &old, now);
	if (rc == 0 && !is_storable(now))
		rc = FSM_INVALID;
	if (rc || is_judging(a))
		return rc;
	t->rec = *now;
	return topic_state_rewrite(a, &old, t);
}

int fsm_topic_update(struct apply *a, const void *command)
{
	struct topic now = *(const struct topic *)command;
	struct topic_state t;
	int rc = load(a, now.name, &t);
	if (rc)
		return rc;
	/* Old logs shrink topics this way; none of theirs has copies. */
	if (t.packed.replicated && now.partitions < t.rec.partitions)
		return FSM_REPLICATED;
	keep_identity(&now, &t.rec);
	return update(a, &t, &now);
}

int fsm_topic_update_if(struct apply *a, const void *command)
{
	const struct cmd_topic_update_if *c = command;
	struct topic now = c->topic;
	struct topic_state t;
	int rc = load(a, now.name, &t);
	if (rc)
		return rc;
	if (!str_eq(t.rec.id, c->expect_id) || now.partitions < t.rec.partitions)
		return FSM_TOPIC_CHANGED;
	keep_identity(&now, &t.rec);
	now.owner = t.rec.owner;
	now.created_at = t.rec.created_at;
	now.visibility_timeout_ms = t.rec.visibility_timeout_ms;
	return update(a, &t, &now);
}

/* ---- delete ---- */

static int erase(struct apply *a, const struct topic *t)
{
	if (is_judging(a))
		return 0;
	int rc = fanout_release(a, t);
	return rc ? rc : topic_state_erase(a, t);
}

int fsm_topic_delete(struct apply *a, const void *command)
{
	const struct cmd_name *c = command;
	struct topic_state t;
	int rc = load(a, c->name, &t);
	return rc ? rc : erase(a, &t.rec);
}

int fsm_topic_delete_if(struct apply *a, const void *command)
{
	const struct cmd_topic_delete_if *c = command;
	struct topic_state t;
	int rc = load(a, c->name, &t);
	if (rc)
		return rc;
	return str_eq(t.rec.id, c->expect_id) ? erase(a, &t.rec) : FSM_TOPIC_CHANGED;
}
