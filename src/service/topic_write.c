/* The writes of topics: create, alter, delete. Each is one entry, so all of it happens or nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "service/write.h"

static int64_t or_default(const struct opt_i64 *v, int64_t value)
{
	return v->set && v->value != 0 ? v->value : value;
}

static void want_partitions(struct svc_write *w, int64_t from, int64_t to)
{
	for (int64_t p = from; p < to && w->want_count < TOPIC_PARTITIONS_MAX; p++)
		w->wants[w->want_count++] = (struct svc_want){ .partition = (uint32_t)p };
}

static void add_placements(struct svc_task *t, struct entry_builder *b)
{
	const struct svc_write *w = t->write;
	const unsigned single = svc_write_may_use(t, CMD_PARTITION_PLACE) ? CMD_PARTITION_PLACE : CMD_PARTITION_ASSIGN;
	const unsigned type = w->has_extra && w->extra.replicas > 1 ? CMD_REPLICAS_PLACE : single;

	for (size_t i = 0; i < w->want_count; i++) {
		if (w->wants[i].owners.count > 0)
			svc_place_add(b, type, &w->topic, w->wants[i].partition, &w->wants[i].owners);
	}
}

static void warn_unplaced(const struct svc_write *w, const char *what)
{
	if (w->unplaced[0] != '\0')
		log_warn("topic.unplaced", "msg=\"%s\" topic=%.*s error=\"%s\"", what, STR_ARG(w->topic.name),
		         w->unplaced);
}

static void add_labels(const struct svc_write *w, const struct str_map *labels, struct entry_builder *b)
{
	const struct cmd_topic_labels cmd = { .topic = w->topic.name, .expect_id = w->topic.id, .labels = *labels };

	if (labels->count > 0)
		entry_builder_add(b, CMD_TOPIC_LABELS, &cmd);
}

/* Before the placements: those are judged by how many copies there shall be. */
static void add_replication(const struct svc_write *w, struct entry_builder *b)
{
	const struct cmd_topic_replicas cmd = {
		.topic = w->topic.name,
		.expect_id = w->topic.id,
		.replicas = { .value = w->extra.replicas, .set = true },
		.unclean = { .value = w->extra.unclean, .set = true },
		.replica_lag = { .value = w->extra.replica_lag, .set = true },
	};

	if (w->has_replication)
		entry_builder_add(b, CMD_TOPIC_REPLICAS, &cmd);
}

static void set_replication(struct svc_write *w, const struct opt_i64 *replicas, const struct opt_bool *unclean,
                            const struct opt_i64 *lag)
{
	const struct topic_extra old = w->extra;

	if (replicas->set)
		w->extra.replicas = replicas->value;
	if (unclean->set)
		w->extra.unclean = unclean->value;
	if (lag->set || lag->null)
		w->extra.replica_lag = lag->value;
	w->has_replication = w->extra.replicas != old.replicas || w->extra.unclean != old.unclean ||
	                     w->extra.replica_lag != old.replica_lag;
}

/* ---- create ---- */

static bool create_parse(struct svc_task *t, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	struct topic_create *b = &w->body.create;
	struct record_fault fault = { 0 };
	struct err e = { 0 };
	uint64_t ids[2];

	if (!svc_write_read_body(t, &topic_create_type, b, a))
		return false;
	if (!svc_write_check_rules(rules_check_topic_create(b, &fault, &e), &fault, &e, a))
		return false;
	svc_schema_wish(t, b->schema);
	rand_secure(ids, sizeof(ids));
	hex64(w->id, ids[0]);
	hex64(w->epoch, ids[1]);
	w->created_at = (int64_t)(clock_wall_ms() / 1000);
	return true;
}

static enum svc_verdict may_create(struct svc_task *t, struct svc_answer *a)
{
	if (rights_may(t->write->rights, "create", t->write->body.create.name))
		return SVC_VERDICT_OK;
	svc_fail_write(a, 403, "forbidden", "none", fsm_reader_index(&t->svc->reader),
	               "create not allowed on this topic");
	return SVC_VERDICT_REFUSED;
}

/* Of a parent that is not there the state machine speaks, after what comes before it in its order. */
static enum svc_verdict load_parent(struct svc_task *t, struct store_txn *txn, bool *there, struct svc_answer *a,
                                    int *rc)
{
	struct svc_answer missing = { 0 };
	enum svc_verdict v;

	*there = false;
	if (t->write->body.create.parent.len == 0)
		return SVC_VERDICT_OK;
	v = svc_write_load_partner(t, txn, t->write->body.create.parent, FSM_PARENT_NOT_FOUND, &missing, rc);
	buf_fini(&missing.body);
	if (v == SVC_VERDICT_FAILED)
		return v;
	*there = v == SVC_VERDICT_OK;
	return *there ? svc_write_may_manage(t, &t->write->partner, a) : SVC_VERDICT_OK;
}

static void plan_create(struct svc_task *t, bool has_parent)
{
	struct svc_write *w = t->write;
	const struct topic_create *b = &w->body.create;
	const int64_t partitions = has_parent ? w->partner.partitions : TOPIC_DEFAULT_PARTITIONS;

	w->extra = TOPIC_EXTRA_DEFAULT;
	w->extra.labels = b->labels;
	w->has_extra = true;
	set_replication(w, &b->replicas, &b->unclean, &b->replica_lag);
	w->topic = (struct topic){
		.name = b->name,
		.id = str_of(w->id),
		.partitions = or_default(&b->partitions, partitions),
		.retention_ms = b->retention_ms.set ? b->retention_ms.value : TOPIC_DEFAULT_RETENTION_MS,
		.visibility_timeout_ms = or_default(&b->visibility_timeout_ms, TOPIC_DEFAULT_VISIBILITY_MS),
		.max_in_flight_per_partition = or_default(&b->max_in_flight_per_partition, TOPIC_DEFAULT_MAX_IN_FLIGHT),
		.max_acked_ahead_per_partition =
		    or_default(&b->max_acked_ahead_per_partition, TOPIC_DEFAULT_MAX_ACKED_AHEAD),
		.created_at = w->created_at,
	};
	if (!t->rq.principal.anonymous)
		w->topic.owner = str_of(t->rq.principal.name);
	if (b->parent.len > 0) {
		w->topic.role = STR_LIT(TOPIC_ROLE_CHILD);
		w->topic.parent = b->parent;
		w->topic.attach_epoch = str_of(w->epoch);
		w->topic.fanout_delay_ms = b->fanout_delay_ms.value;
	}
	svc_write_plan_tail(t, &w->extra);
}

/* The topic comes into the world alone; the link beside it in the entry makes it a child. `link` is the caller's. */
static struct cmd_topic_create_with create_command(const struct svc_write *w, struct cmd_create_link *link)
{
	struct cmd_topic_create_with cmd = { .topic = w->topic, .schema = w->schema.document };

	if (w->topic.parent.len == 0)
		return cmd;
	*link = (struct cmd_create_link){
		.parent = w->topic.parent,
		.parent_id = w->partner.id,
		.epoch = w->topic.attach_epoch,
		.delay_ms = w->topic.fanout_delay_ms,
	};
	cmd.link = link;
	cmd.topic.role = cmd.topic.parent = cmd.topic.attach_epoch = (struct str){ "", 0 };
	cmd.topic.fanout_delay_ms = 0;
	return cmd;
}

static enum svc_verdict create_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct cmd_create_link link;
	struct cmd_topic_create_with cmd;
	bool has_parent = false;
	enum svc_verdict v = may_create(t, a);

	if (v == SVC_VERDICT_OK && w->body.create.labels.count > 0)
		v = svc_write_needs(t, CMD_TOPIC_LABELS, a);
	if (v == SVC_VERDICT_OK)
		v = load_parent(t, txn, &has_parent, a, rc);
	if (v != SVC_VERDICT_OK)
		return v;
	plan_create(t, has_parent);
	cmd = create_command(w, &link);
	v = svc_write_judge(t, txn, CMD_TOPIC_CREATE_WITH, &cmd, a, rc);
	if (v == SVC_VERDICT_OK && w->schema.document.p)
		v = svc_schema_check(t, txn, &w->topic, 0, a, rc);
	if (v == SVC_VERDICT_OK)
		want_partitions(w, 0, w->topic.partitions);
	return v;
}

static void create_build(struct svc_task *t, struct entry_builder *b)
{
	struct svc_write *w = t->write;
	struct cmd_create_link link;
	struct cmd_topic_create_with cmd = create_command(w, &link);

	svc_add_topic_create(t, b, &cmd);
	add_replication(w, b);
	w->lead = b->count;
	add_placements(t, b);
	add_labels(w, &w->body.create.labels, b);
}

static void create_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	warn_unplaced(t->write, "topic created without immediate partition assignment");
	svc_write_answer_topic(t, 201, index, a);
}

const struct svc_write_kind svc_topic_create_kind = {
	.parse = create_parse,
	.check = create_check,
	.build = create_build,
	.answer = create_answer,
};

/* ---- alter ---- */

static bool alter_parse(struct svc_task *t, struct svc_answer *a)
{
	struct topic_alter *b = &t->write->body.alter;
	struct record_fault fault = { 0 };
	struct err e = { 0 };

	if (!svc_write_read_body(t, &topic_alter_type, b, a) ||
	    !svc_write_check_rules(rules_check_topic_alter(b, &fault, &e), &fault, &e, a))
		return false;
	svc_schema_wish(t, b->schema);
	t->write->has_config = b->partitions.value != 0 || b->retention_ms.set || b->max_in_flight_per_partition.set ||
	                       b->max_acked_ahead_per_partition.set;
	return true;
}

static enum svc_verdict alter_config(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const struct topic_alter *b = &w->body.alter;
	struct cmd_topic_update_if cmd = { 0 };
	int64_t before = w->topic.partitions;
	enum svc_verdict v;

	if (b->partitions.value != 0 && b->partitions.value <= before) {
		a->index = fsm_reader_index(&t->svc->reader);
		svc_fail(a, 400, "bad_field", "partitions",
		         "partitions: the topic has %" PRId64 " and can only get more, at most %d", before,
		         TOPIC_PARTITIONS_MAX);
		return SVC_VERDICT_REFUSED;
	}
	if (b->partitions.value != 0)
		w->topic.partitions = b->partitions.value;
	if (b->retention_ms.set)
		w->topic.retention_ms = b->retention_ms.value;
	if (b->max_in_flight_per_partition.set)
		w->topic.max_in_flight_per_partition =
		    or_default(&b->max_in_flight_per_partition, TOPIC_DEFAULT_MAX_IN_FLIGHT);
	if (b->max_acked_ahead_per_partition.set)
		w->topic.max_acked_ahead_per_partition =
		    or_default(&b->max_acked_ahead_per_partition, TOPIC_DEFAULT_MAX_ACKED_AHEAD);
	cmd.topic = w->topic;
	cmd.expect_id = w->expect_id;
	v = svc_write_judge(t, txn, CMD_TOPIC_UPDATE_IF, &cmd, a, rc);
	if (v == SVC_VERDICT_OK)
		want_partitions(w, before, w->topic.partitions);
	return v;
}

static enum svc_verdict alter_replication(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const struct topic_alter *b = &w->body.alter;
	struct cmd_topic_replicas cmd = { w->topic.name, w->expect_id, { 0 }, { 0 }, { 0 } };

	set_replication(w, &b->replicas, &b->unclean, &b->replica_lag);
	if (!w->has_replication)
		return SVC_VERDICT_OK;
	enum svc_verdict v = svc_write_needs(t, CMD_TOPIC_REPLICAS, a);

	if (v != SVC_VERDICT_OK)
		return v;
	cmd.replicas = (struct opt_i64){ .value = w->extra.replicas, .set = true };
	return svc_write_judge(t, txn, CMD_TOPIC_REPLICAS, &cmd, a, rc);
}

static enum svc_verdict alter_labels(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	const struct cmd_topic_labels cmd = { w->topic.name, w->expect_id, w->body.alter.labels };

	if (w->body.alter.labels.count == 0)
		return SVC_VERDICT_OK;
	w->extra.labels = fsm_merge_labels(&w->extra.labels, &w->body.alter.labels, &t->arena);
	if (w->extra.labels.count > LABELS_MAX) {
		a->index = fsm_reader_index(&t->svc->reader);
		svc_fail(a, 400, "bad_field", "labels", "labels: the topic would have %zu, at most %d are allowed",
		         w->extra.labels.count, LABELS_MAX);
		return SVC_VERDICT_REFUSED;
	}
	enum svc_verdict v = svc_write_needs(t, CMD_TOPIC_LABELS, a);

	return v == SVC_VERDICT_OK ? svc_write_judge(t, txn, CMD_TOPIC_LABELS, &cmd, a, rc) : v;
}

/* Does it ask for what veena adds to the record? New partitions too need to know how many copies they shall have. */
static bool needs_extra(const struct svc_write *w)
{
	const struct topic_alter *b = &w->body.alter;

	return b->labels.count > 0 || b->replicas.set || b->unclean.set || b->replica_lag.set || b->replica_lag.null ||
	       w->want_count > 0;
}

static enum svc_verdict alter_extra(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	enum svc_verdict v;

	*rc = fsm_get_topic_extra(txn, w->topic.name, &t->arena, &w->extra);
	if (*rc != 0)
		return SVC_VERDICT_FAILED;
	w->has_extra = true;
	v = alter_replication(t, txn, a, rc);
	if (v == SVC_VERDICT_OK)
		v = alter_labels(t, txn, a, rc);
	svc_write_plan_tail(t, &w->extra);
	return v;
}

/* Whoever asks for what is there already gets the topic as it is. */
static enum svc_verdict answer_unchanged(struct svc_task *t, const struct fsm_topic *stored, struct svc_answer *a)
{
	svc_put_topic_open(&a->body, stored);
	buf_putc(&a->body, '}');
	a->index = fsm_reader_index(&t->svc->reader);
	svc_answer_json(a, 200);
	return SVC_VERDICT_REFUSED;
}

static enum svc_verdict alter_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct fsm_topic stored;
	enum svc_verdict v = svc_write_load_topic(t, txn, &stored, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_write_may_manage(t, &w->topic, a);
	if (v == SVC_VERDICT_OK && w->has_config)
		v = alter_config(t, txn, a, rc);
	if (v == SVC_VERDICT_OK && needs_extra(w))
		v = alter_extra(t, txn, a, rc);
	if (v == SVC_VERDICT_OK && w->schema.document.p)
		v = svc_schema_check_next(t, txn, &stored, &w->body.alter.schema_base_version, a, rc);
	if (v == SVC_VERDICT_OK && !w->has_config && !w->schema.is_new && !w->has_replication &&
	    w->body.alter.labels.count == 0)
		return answer_unchanged(t, &stored, a);
	return v;
}

static void alter_build(struct svc_task *t, struct entry_builder *b)
{
	struct svc_write *w = t->write;
	const struct cmd_topic_update_if update = { .topic = w->topic, .expect_id = w->expect_id };

	if (w->has_config)
		svc_add_topic_update(t, b, &update);
	svc_schema_build(t, b);
	add_replication(w, b);
	w->lead = b->count;
	add_placements(t, b);
	add_labels(w, &w->body.alter.labels, b);
}

static void alter_answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	warn_unplaced(t->write, "partitions added without immediate assignment");
	svc_write_answer_topic(t, 200, index, a);
}

const struct svc_write_kind svc_topic_alter_kind = {
	.takes_name = true,
	.parse = alter_parse,
	.check = alter_check,
	.build = alter_build,
	.answer = alter_answer,
};

/* ---- delete ---- */

static enum svc_verdict delete_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct svc_write *w = t->write;
	struct cmd_topic_delete_if cmd;
	enum svc_verdict v = svc_write_load_topic(t, txn, NULL, a, rc);

	if (v == SVC_VERDICT_OK)
		v = svc_write_may_manage(t, &w->topic, a);
	if (v != SVC_VERDICT_OK)
		return v;
	cmd = (struct cmd_topic_delete_if){ .name = w->topic.name, .expect_id = w->expect_id };
	return svc_write_judge(t, txn, CMD_TOPIC_DELETE_IF, &cmd, a, rc);
}

static void delete_build(struct svc_task *t, struct entry_builder *b)
{
	struct cmd_topic_delete_if cmd = { .name = t->write->topic.name, .expect_id = t->write->expect_id };

	svc_add_topic_delete(t, b, &cmd);
}

const struct svc_write_kind svc_topic_delete_kind = {
	.uses_reserve = true,
	.check = delete_check,
	.build = delete_build,
	.answer = svc_write_answer_nothing,
};
