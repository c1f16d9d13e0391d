/* Assignments and moves: types 5, 15, 16, 17, 29, 30. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

static int load(struct apply *a, struct str topic, int64_t partition, struct place *out)
{
	int rc = place_load(a, topic, partition, out);
	return rc == ERR_NOTFOUND ? FSM_ASSIGNMENT_NOT_FOUND : rc;
}

static struct place empty_place(struct str topic, int64_t partition)
{
	return (struct place){ .topic = topic, .partition = (uint32_t)partition };
}

/* Blind by design (an old release's only way to place): no look at topic, range or member. What could not be a key of
 * the indexes is refused; no proposer sends it. */
int fsm_partition_assign(struct apply *a, const void *command)
{
	const struct assignment *c = command;
	if (!rule_stored_topic_name(c->topic) || c->partition < 0 || c->partition > PARTITION_MAX ||
	    !rule_member_id(c->owner_id) || (c->target_id.len && !rule_member_id(c->target_id)))
		return FSM_INVALID;
	struct place before;
	int rc = load(a, c->topic, c->partition, &before);
	if (rc == FSM_ASSIGNMENT_NOT_FOUND) {
		before = empty_place(c->topic, c->partition);
		rc = 0;
	}
	if (rc == 0 && before.set.count > 0)
		rc = FSM_REPLICATED;
	if (rc || is_judging(a))
		return rc;
	struct place now = before;
	now.owner = c->owner_id;
	now.target = c->target_id;
	return place_store(a, &before, &now);
}

/* One owner alone is no placement for a topic whose partitions have copies. */
static int judge_single(struct apply *a, struct str topic)
{
	struct topic_extra extra;
	int rc = topic_extra_load(a, topic, &extra);
	return rc ? rc : extra.replicas > 1 ? FSM_REPLICATED : 0;
}

int judge_placeable_owner(struct apply *a, struct str owner)
{
	if (!rule_member_id(owner))
		return FSM_INVALID;
	int rc = fsm_get_tombstone(a->txn, owner, NULL);
	if (rc == 0) {
		fsm_set_hint(a, owner);
		return FSM_INVALID; /* removed; an id that is simply unknown is accepted */
	}
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int fsm_partition_place(struct apply *a, const void *command)
{
	const struct cmd_partition_place *c = command;
	struct place row;
	struct topic t;
	int rc = topic_record_load(a, c->topic, c->expect_id, &t);
	if (rc)
		return rc;
	if (c->partition < 0 || c->partition >= t.partitions)
		return FSM_PARTITION_RANGE;
	rc = judge_placeable_owner(a, c->owner_id);
	if (rc == 0) {
		rc = place_load(a, c->topic, c->partition, &row);
		rc = rc == 0 ? FSM_PARTITION_ASSIGNED : rc == ERR_NOTFOUND ? 0 : rc;
	}
	if (rc == 0)
		rc = judge_single(a, c->topic);
	if (rc || is_judging(a))
		return rc;
	const struct place before = empty_place(c->topic, c->partition);
	struct place now = before;
	now.owner = c->owner_id;
	return place_store(a, &before, &now);
}

int fsm_partition_prune(struct apply *a, const void *command)
{
	const struct cmd_partition_prune *c = command;
	struct place row;
	struct topic t;
	int rc = load(a, c->topic, c->partition, &row);
	if (rc)
		return rc;
	rc = fsm_get_record(a, STORE_TOPICS, c->topic, &topic_type, &t);
	if (rc == 0 && c->partition < t.partitions)
		return FSM_ASSIGNMENT_LIVE;
	if ((rc && rc != ERR_NOTFOUND) || is_judging(a))
		return rc == ERR_NOTFOUND ? 0 : rc;
	const struct place now = empty_place(c->topic, c->partition);
	return place_store(a, &row, &now);
}

/* ---- moves ---- */

static int set_target(struct apply *a, const struct place *row, struct str target)
{
	struct place now = *row;
	if (row->set.count > 0)
		return FSM_REPLICATED;
	if (is_judging(a) || str_eq(row->target, target))
		return 0;
	now.target = target;
	return place_store(a, row, &now);
}

int fsm_move_target(struct apply *a, const void *command)
{
	const struct cmd_move_target *c = command;
	struct place row;
	int rc = load(a, c->topic, c->partition, &row);
	if (rc)
		return rc;
	if (c->target.len && !rule_member_id(c->target))
		return FSM_INVALID;
	return set_target(a, &row, c->target);
}

int fsm_move_abort(struct apply *a, const void *command)
{
	const struct cmd_move_target *c = command;
	struct place row;
	int rc = load(a, c->topic, c->partition, &row);
	if (rc || row.target.len == 0 || !str_eq(row.target, c->target))
		return rc; /* nothing to abort is no refusal */
	return set_target(a, &row, (struct str){ "", 0 });
}

int fsm_move_complete(struct apply *a, const void *command)
{
	const struct cmd_move_complete *c = command;
	struct place row;
	int rc = load(a, c->topic, c->partition, &row);
	if (rc)
		return rc;
	if (c->target.len == 0)
		return FSM_INVALID;
	if (str_eq(row.owner, c->target) && row.target.len == 0)
		return 0; /* a retry of a flip that was done */
	if (!str_eq(row.owner, c->expected_owner) || !str_eq(row.target, c->target))
		return FSM_MOVE_CHANGED;
	if (is_judging(a))
		return 0;
	struct place now = row;
	now.owner = row.target;
	now.target = (struct str){ "", 0 };
	return place_store(a, &row, &now);
}
