/* Moves as veena makes them: types 72 to 75. Narad's 15 to 17 stand in assignments.c.
 *
 * Each says what was read when it was decided, and is refused when that is past: the incarnation of the topic, the
 * owner, the move. Whoever proposes one twice, late, or from a stale state changes nothing. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

struct live {
	struct place row;
	raft_index move_id;
};

/* The row of a partition that has an owner, of this incarnation of its topic. */
static int load(struct apply *a, struct str topic, struct str expect_id, int64_t partition, struct live *out)
{
	struct topic t;
	struct packed packed;
	int rc = topic_record_load(a, topic, expect_id, &t);
	if (rc)
		return rc;
	if (partition < 0 || partition >= t.partitions)
		return FSM_PARTITION_RANGE;
	rc = place_load(a, topic, partition, &out->row);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_ASSIGNMENT_NOT_FOUND : rc;
	if (out->row.set.count > 0)
		return FSM_REPLICATED;
	rc = packed_load(a, topic, &packed);
	if (rc == 0)
		out->move_id = packed.slots[partition].move_id;
	return rc;
}

/* A member that may be given partitions: in the state at this index, whatever the proposer saw. */
static int judge_target(struct apply *a, struct str id)
{
	struct member_row row;
	struct member m;
	if (!rule_member_id(id))
		return FSM_INVALID;
	fsm_set_hint(a, id);
	int rc = fsm_get_record(a, STORE_MEMBERS, id, &member_type, &m);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_MEMBER_NOT_FOUND : rc;
	rc = member_row_load(a, id, &row);
	if (rc)
		return rc;
	return fsm_receiver_refusal(str_is(m.status, MEMBER_ALIVE), m.draining, row.offers && !row.cordoned);
}

/* A move that changes its target is one already counted. */
static int judge_limit(struct apply *a, const struct place *row, int64_t max_moves)
{
	uint64_t under_way;
	if (max_moves <= 0 || row->target.len > 0)
		return 0;
	int rc = fsm_count_moves(a->txn, &under_way);
	if (rc)
		return rc;
	return under_way < (uint64_t)max_moves ? 0 : FSM_MOVE_LIMIT;
}

int fsm_move_set_if(struct apply *a, const void *command)
{
	const struct cmd_move_set_if *c = command;
	struct live at;
	int rc = load(a, c->topic, c->expect_id, c->partition, &at);
	if (rc)
		return rc;
	if (!str_eq(at.row.owner, c->expected_owner))
		return FSM_MOVE_CHANGED;
	if (!str_eq(at.row.target, c->expected_target))
		return c->expected_target.len ? FSM_MOVE_CHANGED : FSM_MOVE_IN_FLIGHT;
	if (str_eq(at.row.owner, c->target))
		return FSM_ALREADY_OWNER;
	rc = judge_target(a, c->target);
	if (rc == 0)
		rc = judge_limit(a, &at.row, c->max_moves);
	if (rc || is_judging(a) || str_eq(at.row.target, c->target))
		return rc;
	struct place now = at.row;
	now.target = c->target;
	return place_store(a, &at.row, &now);
}

int fsm_move_complete_if(struct apply *a, const void *command)
{
	const struct cmd_move_complete_if *c = command;
	struct live at;
	int rc = load(a, c->topic, c->expect_id, c->partition, &at);
	if (rc)
		return rc;
	if (str_eq(at.row.owner, c->target))
		return 0; /* the flip is done; this is a retry */
	if (!str_eq(at.row.owner, c->expected_owner) || !str_eq(at.row.target, c->target) || at.move_id != c->move_id)
		return FSM_MOVE_CHANGED;
	if (is_judging(a))
		return 0;
	struct place now = at.row;
	now.owner = at.row.target;
	now.target = (struct str){ "", 0 };
	return place_store(a, &at.row, &now);
}

int fsm_move_abort_if(struct apply *a, const void *command)
{
	const struct cmd_move_abort_if *c = command;
	struct live at;
	int rc = load(a, c->topic, c->expect_id, c->partition, &at);
	if (rc)
		return rc;
	if (at.row.target.len == 0)
		return FSM_NO_MOVE;
	if (at.move_id != c->move_id)
		return FSM_MOVE_CHANGED;
	if (is_judging(a))
		return 0;
	struct place now = at.row;
	now.target = (struct str){ "", 0 };
	return place_store(a, &at.row, &now);
}

int fsm_partition_pin(struct apply *a, const void *command)
{
	const struct cmd_partition_pin *c = command;
	struct live at;
	int rc = load(a, c->topic, c->expect_id, c->partition, &at);
	if (rc || is_judging(a))
		return rc;
	return place_pin(a, c->topic, (uint32_t)c->partition, c->pinned);
}
