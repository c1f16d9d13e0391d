/* What only brokers do, and what is done to a member that is lost: types 67, 69, 70.
 *
 * A broker's newest registration ends the session of the one before: whatever the older process still asks is refused,
 * because its commands stand behind type 69 in their entry. A member that came back with another disk, or does not come
 * back, no longer holds what rows say it holds; then, and only by an operator's word, its single copies lose their
 * owner and are placed anew, empty. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

/* ---- giving up what a member held ---- */

/* Rows are written while they are walked, so they are gathered first. */
static int gather_held(struct apply *a, struct str id, struct fsm_place **out, size_t *count)
{
	struct member_row row;
	struct fsm_place_iter it = { 0 };
	struct fsm_place at;
	size_t n = 0;
	int rc = member_row_load(a, id, &row);
	if (rc)
		return rc;
	const size_t room = (size_t)row.counts.owned + row.counts.coming + row.counts.follows;
	*out = arena_alloc(a->arena, (room + 1) * sizeof(**out));
	rc = fsm_held_open(&it, a->txn, id, NULL);
	while (rc == 0 && (rc = fsm_place_next(&it, &at)) == 0) {
		if (n == room) {
			rc = fsm_corrupt(a, STORE_X_MEMBER, id, "it counts fewer partitions than name the member");
			break;
		}
		at.topic = arena_str(a->arena, at.topic);
		(*out)[n++] = at;
	}
	fsm_place_close(&it);
	*count = n;
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/* What `p` is without the member's copy. `stays`: it goes on as a replica that lacks everything. */
static struct place without(const struct place *p, struct str id, bool stays)
{
	struct place now = *p;
	now.target = (struct str){ "", 0 };
	if (str_eq(p->owner, id))
		now.owner = now.target;
	for (size_t i = 0; i < now.set.count; i++)
		if (str_eq(now.set.items[i].id, id))
			now.set.items[i].in_sync = false;
	if (!stays || now.set.count == 1)
		replicas_drop(&now.set, id);
	if (now.set.count == 0)
		now.set = (struct fsm_replicas){ 0 }; /* nobody has a copy: it is placed anew */
	return now;
}

/* A partition that it alone held has no owner any more, one with other copies waits for a leader among them, and a move
 * to it ends. */
static int release(struct apply *a, struct str id, bool stays)
{
	struct fsm_place *held;
	size_t count;
	int rc = gather_held(a, id, &held, &count);
	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct place row;
		rc = place_load(a, held[i].topic, held[i].partition, &row);
		if (rc == ERR_NOTFOUND)
			return fsm_corrupt(a, STORE_X_BY_MEMBER, id, "it names a partition without a row");
		if (rc)
			return rc;
		const struct place now = without(&row, id, stays);
		rc = place_store(a, &row, &now);
	}
	return rc;
}

/* ---- 67 ---- */

static bool is_registration(const struct cmd_member_register *c)
{
	return rule_member_id(c->id) && rule_host_port(c->addr) && are_tags(&c->tags) && rule_incarnation(c->session) &&
	       (c->store_id.len == 0 || rule_idem_key(c->store_id));
}

/* Another disk than the one that partitions were placed on. */
static bool is_other_store(const struct cmd_member_register *c, const struct member_row *row)
{
	return c->store_id.len && row->store_id.len && !str_eq(c->store_id, row->store_id) &&
	       row->counts.owned + row->counts.coming + row->counts.follows > 0;
}

static int store_row(struct apply *a, const struct cmd_member_register *c, bool is_new)
{
	struct member_row row, now;
	int rc = member_row_load(a, c->id, &row); /* after release: its counts moved */
	if (rc)
		return rc;
	now = row;
	now.kind = FSM_KIND_BROKER;
	now.offers = true;
	now.tags = tags_json(a, &c->tags);
	now.session = c->session;
	if (c->store_id.len)
		now.store_id = c->store_id;
	if (!is_new && (row.kind != now.kind || row.offers != now.offers || !str_eq(row.tags, now.tags)))
		fsm_note(a, FSM_DOMAIN_MEMBERS, c->id, FSM_OP_PUT);
	return member_row_store(a, c->id, &now);
}

int fsm_member_register(struct apply *a, const void *command)
{
	const struct cmd_member_register *c = command;
	struct member_row row;
	struct member old;
	if (!is_registration(c))
		return FSM_INVALID;
	int rc = fsm_get_tombstone(a->txn, c->id, NULL);
	if (rc == 0 && !c->fresh)
		return FSM_MEMBER_REMOVED;
	if (rc && rc != ERR_NOTFOUND)
		return rc;
	rc = member_row_load(a, c->id, &row);
	if (rc)
		return rc;
	rc = member_load(a, c->id, &old);
	const bool is_new = rc == FSM_MEMBER_NOT_FOUND;
	if (rc && !is_new)
		return rc;
	if (!is_new && row.kind == FSM_KIND_SERVER)
		return FSM_MEMBER_IS_SERVER;
	const bool other_store = is_other_store(c, &row);
	if (other_store && !c->accept_data_loss)
		return FSM_STORE_CHANGED;
	if (is_judging(a))
		return 0;
	const struct member now = {
		.id = c->id,
		.addr = c->addr,
		.status = STR_LIT(MEMBER_ALIVE),
		.last_heartbeat = c->at,
		.draining = !is_new && old.draining,
	};
	rc = fsm_del(a, STORE_REMOVED_MEMBERS, c->id);
	if (rc == 0 && other_store)
		rc = release(a, c->id, true);
	if (rc == 0)
		rc = member_store(a, is_new ? NULL : &old, &now);
	return rc ? rc : store_row(a, c, is_new);
}

/* ---- 69 ---- */

int fsm_member_session(struct apply *a, const void *command)
{
	const struct cmd_member_session *c = command;
	struct member_row row;
	struct member m;
	int rc = member_load_whole(a, c->id, &m, &row);
	if (rc)
		return rc;
	if (row.kind == FSM_KIND_SERVER)
		return FSM_MEMBER_IS_SERVER;
	return c->session.len && str_eq(c->session, row.session) ? 0 : FSM_SESSION_REPLACED;
}

/* ---- 70 ---- */

int fsm_member_lost(struct apply *a, const void *command)
{
	const struct cmd_member_lost *c = command;
	struct member m;
	int rc = member_load(a, c->id, &m);
	if (rc)
		return rc;
	if (str_is(m.status, MEMBER_ALIVE))
		return FSM_MEMBER_ALIVE;
	if (is_judging(a))
		return 0;
	rc = release(a, c->id, false);
	return rc ? rc : member_erase(a, c->id, c->at);
}
