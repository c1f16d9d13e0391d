/* Copies of partitions, as an operator changes them: handing a leader over, adding and removing copies. Each is one
 * entry that names the incarnation and the epoch it was planned on. */
#include <string.h>

#include "service/write.h"

struct svc_copies {
	struct fsm_replicas set;
	struct fsm_owner owner;
	uint32_t partition;
};

static bool check_id(struct str id, const char *field, struct svc_answer *a)
{
	return rule_member_id(id) || svc_bad_field(a, field, "a member's id is 1 to 63 of A-Z a-z 0-9 . _ -");
}

/* The copies of the path's partition, their texts in the arena. Refuses another incarnation, and a partition without
 * copies. */
static enum svc_verdict load(struct svc_task *t, struct store_txn *txn, struct str topic_id, struct svc_answer *a,
                             int *rc)
{
	struct svc_write *w = t->write;
	struct fsm_topic stored;
	struct svc_copies *c = arena_zalloc(&t->arena, sizeof(*c));
	enum svc_verdict v = svc_write_load_partition(t, txn, topic_id, &stored, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;
	c->partition = (uint32_t)t->rq.partition;
	*rc = svc_get_copies(txn, &stored, c->partition, &c->set);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	if (!stored.replicated)
		return svc_write_refuse(t, FSM_NOT_REPLICATED, "", a);
	if (c->set.count == 0)
		return svc_write_refuse(t, FSM_ASSIGNMENT_NOT_FOUND, "", a);
	for (size_t i = 0; i < c->set.count; i++) {
		c->set.items[i].id = arena_str(&t->arena, c->set.items[i].id);
		c->set.items[i].replaces = arena_str(&t->arena, c->set.items[i].replaces);
	}
	fsm_topic_owner(&stored, c->partition, &c->owner);
	c->owner.owner = arena_str(&t->arena, c->owner.owner);
	c->owner.target = arena_str(&t->arena, c->owner.target);
	w->copies = c;
	return SVC_VERDICT_OK;
}

/* Whoever shall lead or hold a copy must be there; for a new copy it must also take partitions. */
static enum svc_verdict judge_member(struct svc_task *t, struct str id, bool new_copy, struct svc_answer *a)
{
	const struct fsm_members *members;
	struct err e;
	char name[MEMBER_ID_MAX + 1];

	if (fsm_reader_members(&t->svc->reader, &members, &e) != 0) {
		svc_fail_write(a, 503, "not_ready", "none", 0, "this node cannot read its replica; ask another node");
		return SVC_VERDICT_FAILED;
	}
	memcpy(name, id.p, id.len);
	name[id.len] = '\0';

	const int refusal = fsm_members_receiver(members, id);
	const bool counts = new_copy || refusal == FSM_MEMBER_NOT_FOUND || refusal == FSM_TARGET_NOT_ALIVE;

	return refusal && counts ? svc_write_refuse(t, refusal, name, a) : SVC_VERDICT_OK;
}

static void answer_row(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	svc_write_answer_row(t, 200, index, &t->write->copies->owner, &t->write->copies->set, a);
}

/* ---- the leader ---- */

static bool leader_parse(struct svc_task *t, struct svc_answer *a)
{
	struct leader_set *b = &t->write->body.leader_set;

	return svc_write_read_body(t, &leader_set_type, b, a) && check_id(b->leader, "leader", a);
}

static struct cmd_leader_change leader_command(const struct svc_write *w)
{
	return (struct cmd_leader_change){
		.topic = w->topic.name,
		.expect_id = w->topic.id,
		.partition = w->copies->partition,
		.expect_epoch = w->body.leader_set.expected_epoch.value,
		.leader = w->body.leader_set.leader,
		.unclean = w->body.leader_set.unclean.value,
	};
}

static enum svc_verdict leader_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v = load(t, txn, w->body.leader_set.topic_id, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;

	const struct cmd_leader_change cmd = leader_command(w);

	v = svc_write_needs(t, CMD_LEADER_CHANGE, a);
	if (v == SVC_VERDICT_OK)
		v = svc_write_judge(t, txn, CMD_LEADER_CHANGE, &cmd, a, rc);
	return v == SVC_VERDICT_OK ? judge_member(t, cmd.leader, false, a) : v;
}

static void leader_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_leader_change cmd = leader_command(t->write);

	entry_builder_add(b, CMD_LEADER_CHANGE, &cmd);
}

static void leader_intents(struct svc_task *t, struct json_writer *w)
{
	const struct svc_write *wr = t->write;

	json_begin_object(w);
	json_field_cstr(w, "op", "leader");
	json_field_str(w, "topic", wr->topic.name);
	json_field_u64(w, "partition", wr->copies->partition);
	json_field_str(w, "from", wr->copies->owner.owner);
	json_field_str(w, "to", wr->body.leader_set.leader);
	json_field_bool(w, "unclean", wr->body.leader_set.unclean.value);
	json_end_object(w);
}

const struct svc_write_kind svc_leader_set_kind = {
	.parse = leader_parse,
	.check = leader_check,
	.build = leader_build,
	.intents = leader_intents,
	.answer = answer_row,
};

/* ---- the set ---- */

static bool replicas_parse(struct svc_task *t, struct svc_answer *a)
{
	struct replicas_set *b = &t->write->body.replicas_set;

	if (!svc_write_read_body(t, &replicas_set_type, b, a))
		return false;
	if (b->add.len == 0 && b->remove.len == 0)
		return svc_bad_field(a, "add", "name a member to add, one to remove, or both to replace a copy");
	return (b->add.len == 0 || check_id(b->add, "add", a)) &&
	       (b->remove.len == 0 || check_id(b->remove, "remove", a));
}

static struct cmd_replicas_change replicas_command(const struct svc_write *w)
{
	return (struct cmd_replicas_change){
		.topic = w->topic.name,
		.expect_id = w->topic.id,
		.partition = w->copies->partition,
		.expect_epoch = w->copies->set.epoch,
		.add = w->body.replicas_set.add,
		.remove = w->body.replicas_set.remove,
	};
}

static enum svc_verdict replicas_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v = load(t, txn, w->body.replicas_set.topic_id, a, rc);

	if (v != SVC_VERDICT_OK)
		return v;

	const struct cmd_replicas_change cmd = replicas_command(w);

	v = svc_write_needs(t, CMD_REPLICAS_CHANGE, a);
	if (v == SVC_VERDICT_OK)
		v = svc_write_judge(t, txn, CMD_REPLICAS_CHANGE, &cmd, a, rc);
	return v == SVC_VERDICT_OK && cmd.add.len > 0 ? judge_member(t, cmd.add, true, a) : v;
}

static void replicas_build(struct svc_task *t, struct entry_builder *b)
{
	const struct cmd_replicas_change cmd = replicas_command(t->write);

	entry_builder_add(b, CMD_REPLICAS_CHANGE, &cmd);
}

static void replicas_intents(struct svc_task *t, struct json_writer *w)
{
	const struct svc_write *wr = t->write;

	json_begin_object(w);
	json_field_cstr(w, "op", "replicas");
	json_field_str(w, "topic", wr->topic.name);
	json_field_u64(w, "partition", wr->copies->partition);
	if (wr->body.replicas_set.add.len > 0)
		json_field_str(w, "add", wr->body.replicas_set.add);
	if (wr->body.replicas_set.remove.len > 0)
		json_field_str(w, "remove", wr->body.replicas_set.remove);
	json_end_object(w);
}

const struct svc_write_kind svc_replicas_set_kind = {
	.parse = replicas_parse,
	.check = replicas_check,
	.build = replicas_build,
	.intents = replicas_intents,
	.answer = answer_row,
};
