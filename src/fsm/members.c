/* Members: types 6, 7, 8, 18, 19, 20, 31, and veena's 64, 66 and 68. What only brokers do is in brokers.c. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

int member_load(struct apply *a, struct str id, struct member *out)
{
	int rc = fsm_get_record(a, STORE_MEMBERS, id, &member_type, out);
	return rc == ERR_NOTFOUND ? FSM_MEMBER_NOT_FOUND : rc;
}

int member_load_whole(struct apply *a, struct str id, struct member *m, struct member_row *row)
{
	int rc = member_load(a, id, m);
	return rc ? rc : member_row_load(a, id, row);
}

/* What requests are routed by. It must not move with heartbeats or draining: the controller's watch follows it. */
static bool routes_alike(const struct member *x, const struct member *y)
{
	return str_eq(x->addr, y->addr) && str_eq(x->cluster_addr, y->cluster_addr) && str_eq(x->status, y->status);
}

/* Every field but the time. */
static bool differs_in_time_only(const struct member *x, const struct member *y)
{
	return routes_alike(x, y) && x->draining == y->draining && str_eq(x->build, y->build) &&
	       x->entry_types == y->entry_types;
}

int member_store(struct apply *a, const struct member *old, const struct member *now)
{
	const bool quiet = old && differs_in_time_only(old, now);
	if (is_judging(a) || (quiet && old->last_heartbeat == now->last_heartbeat))
		return 0;
	if (!old || !routes_alike(old, now))
		fsm_touch(a, FSM_DOMAIN_ROUTING);
	return fsm_put_record(a, STORE_MEMBERS, now->id, &member_type, now, quiet ? PUT_QUIET : 0);
}

/* Each heartbeat of a server is a whole registration: all but `draining` is replaced. */
int fsm_member_join(struct apply *a, const void *command)
{
	struct member now = *(const struct member *)command;
	struct member old;
	if (!rule_member_id(now.id) || (!str_is(now.status, MEMBER_ALIVE) && !str_is(now.status, MEMBER_DEAD)))
		return FSM_INVALID;
	int rc = fsm_get_tombstone(a->txn, now.id, NULL);
	if (rc != ERR_NOTFOUND)
		return rc ? rc : FSM_MEMBER_REMOVED;
	rc = member_load(a, now.id, &old);
	if (rc == FSM_MEMBER_NOT_FOUND)
		return member_store(a, NULL, &now);
	if (rc)
		return rc;
	now.draining = old.draining;
	return member_store(a, &old, &now);
}

int fsm_member_heartbeat(struct apply *a, const void *command)
{
	const struct cmd_member_at *c = command;
	struct member old, now;
	int rc = member_load(a, c->id, &old);
	if (rc)
		return rc;
	now = old;
	now.last_heartbeat = c->at;
	return member_store(a, &old, &now);
}

static int mark_dead(struct apply *a, const struct member *old)
{
	struct member now = *old;
	now.status = STR_LIT(MEMBER_DEAD);
	return member_store(a, old, &now);
}

int fsm_member_dead(struct apply *a, const void *command)
{
	const struct cmd_name *c = command;
	struct member old;
	int rc = member_load(a, c->name, &old);
	return rc ? rc : mark_dead(a, &old);
}

int fsm_member_dead_if(struct apply *a, const void *command)
{
	const struct cmd_member_dead_if *c = command;
	struct member old;
	int rc = member_load(a, c->id, &old);
	if (rc)
		return rc;
	return old.last_heartbeat > c->observed ? FSM_HEARTBEAT_NEWER : mark_dead(a, &old);
}

int fsm_member_draining(struct apply *a, const void *command)
{
	const struct cmd_member_draining *c = command;
	struct member old, now;
	int rc = member_load(a, c->id, &old);
	if (rc)
		return rc;
	now = old;
	now.draining = c->draining;
	return member_store(a, &old, &now);
}

/* Its partitions go on counting: they name it whether it is a member or not. */
static int forget_extra(struct apply *a, struct str id)
{
	struct member_row row;
	int rc = member_row_load(a, id, &row);
	if (rc)
		return rc;
	struct member_row bare = member_row_default;
	bare.counts = row.counts;
	return member_row_store(a, id, &bare);
}

int member_erase(struct apply *a, struct str id, int64_t at)
{
	const struct removed_member tombstone = { at };
	struct member old;
	int rc = member_load(a, id, &old);
	if (rc == 0) {
		fsm_touch(a, FSM_DOMAIN_ROUTING);
		rc = fsm_del(a, STORE_MEMBERS, id);
		if (rc == 0)
			rc = forget_extra(a, id);
	}
	if (rc && rc != FSM_MEMBER_NOT_FOUND)
		return rc;
	return fsm_put_record(a, STORE_REMOVED_MEMBERS, id, &removed_member_type, &tombstone, 0);
}

int fsm_member_remove(struct apply *a, const void *command)
{
	const struct cmd_member_at *c = command;
	if (!rule_member_id(c->id))
		return FSM_INVALID;
	return is_judging(a) ? 0 : member_erase(a, c->id, c->at);
}

/* A drain that was taken back meanwhile, or a partition that came in, keeps the member. */
int fsm_member_remove_if(struct apply *a, const void *command)
{
	const struct cmd_member_at *c = command;
	struct member_row row;
	struct member m;
	int rc = member_load_whole(a, c->id, &m, &row);
	if (rc)
		return rc;
	if (!m.draining)
		return FSM_NOT_DRAINING;
	if (row.counts.owned || row.counts.coming || row.counts.follows)
		return FSM_MEMBER_HOLDS;
	return fsm_member_remove(a, command);
}

int fsm_member_readmit(struct apply *a, const void *command)
{
	const struct cmd_member_at *c = command;
	return is_judging(a) ? 0 : fsm_del(a, STORE_REMOVED_MEMBERS, c->id);
}

/* ---- 64 ---- */

struct str tags_json(struct apply *a, const struct str_map *tags)
{
	struct buf out = { 0 };
	struct json_writer w = { .out = &out };
	if (tags->count == 0)
		return (struct str){ "", 0 };
	json_begin_object(&w);
	for (size_t i = 0; i < tags->count; i++) {
		json_key_str(&w, tags->items[i].key);
		json_put_str(&w, tags->items[i].value);
	}
	json_end_object(&w);
	const struct str s = { arena_dup(a->arena, out.data, out.len), out.len };
	buf_fini(&out);
	return s;
}

static bool read_kind(struct str s, enum fsm_member_kind *out)
{
	if (str_is(s, MEMBER_KIND_SERVER))
		*out = FSM_KIND_SERVER;
	else if (str_is(s, MEMBER_KIND_BROKER))
		*out = FSM_KIND_BROKER;
	else
		return false;
	return true;
}

bool are_tags(const struct str_map *tags)
{
	for (size_t i = 0; i < tags->count; i++)
		if (!tags->items[i].value.p)
			return false;
	return rules_check_labels(tags, "tags", NULL, NULL) == 0;
}

int fsm_member_set_extra(struct apply *a, const void *command)
{
	const struct member_extra *c = command;
	struct member_row row, now;
	struct member m;
	int rc = member_load(a, c->id, &m);
	if (rc)
		return rc;
	enum fsm_member_kind kind;
	if (!read_kind(c->kind, &kind) || !are_tags(&c->tags))
		return FSM_INVALID;
	rc = member_row_load(a, c->id, &row);
	if (rc || is_judging(a))
		return rc;
	now = row;
	now.kind = kind;
	now.offers = c->placeable;
	now.tags = tags_json(a, &c->tags);
	if (row.kind == now.kind && row.offers == now.offers && str_eq(row.tags, now.tags))
		return 0;
	fsm_note(a, FSM_DOMAIN_MEMBERS, c->id, FSM_OP_PUT);
	return member_row_store(a, c->id, &now);
}

int fsm_member_cordon(struct apply *a, const void *command)
{
	const struct cmd_member_cordon *c = command;
	struct member_row row;
	struct member m;
	int rc = member_load_whole(a, c->id, &m, &row);
	if (rc || is_judging(a) || row.cordoned == c->cordoned)
		return rc;
	row.cordoned = c->cordoned;
	fsm_note(a, FSM_DOMAIN_MEMBERS, c->id, FSM_OP_PUT);
	return member_row_store(a, c->id, &row);
}

static int parse_labels(struct apply *a, struct str id, struct str object, struct topic_extra *out)
{
	*out = (struct topic_extra){ 0 };
	if (object.len == 0)
		return 0;
	const struct str doc = { arena_printf(a->arena, "{\"labels\":" STR_FMT "}", STR_ARG(object)),
		                 sizeof("{\"labels\":}") - 1 + object.len };
	return record_read_json(&topic_extra_type, doc, a->arena, out, NULL, NULL) == 0
	           ? 0
	           : fsm_corrupt(a, STORE_X_MEMBER, id, "its labels are not those of this release");
}

int fsm_member_labels(struct apply *a, const void *command)
{
	const struct cmd_member_labels *c = command;
	struct member_row row;
	struct topic_extra old;
	struct member m;
	int rc = member_load_whole(a, c->id, &m, &row);
	if (rc == 0)
		rc = parse_labels(a, c->id, row.labels, &old);
	if (rc)
		return rc;
	if (rules_check_labels(&c->labels, "labels", NULL, NULL) != 0)
		return FSM_INVALID;
	const struct str_map merged = fsm_merge_labels(&old.labels, &c->labels, a->arena);
	if (merged.count > LABELS_MAX)
		return FSM_INVALID;
	const struct str now = tags_json(a, &merged);
	if (is_judging(a) || str_eq(now, row.labels))
		return 0;
	row.labels = now;
	fsm_note(a, FSM_DOMAIN_MEMBERS, c->id, FSM_OP_PUT);
	return member_row_store(a, c->id, &row);
}
