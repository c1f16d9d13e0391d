/* Settings of the cluster: what was patched counts, else the leader's flags; so the leader answers. */
#include "service/settings.h"

#include "service/write.h"

int64_t svc_setting(const struct svc_shared *sh, enum fsm_setting s)
{
	return fsm_setting_value(sh->fsm, s, sh->flags[s]);
}

static void put_settings(const struct svc *s, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	json_begin_object(&w);
	for (int i = 0; i < FSM_SETTING_COUNT; i++)
		json_field_i64(&w, fsm_settings[i].name, svc_setting(s->shared, (enum fsm_setting)i));
	json_end_object(&w);
	svc_answer_json(a, 200);
}

int svc_settings_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	(void)txn;
	(void)rq;
	put_settings(s, a);
	return 0;
}

/* ---- PATCH ---- */

/* In the order of enum fsm_setting. */
static const struct opt_i64 *value_of(const struct svc_write *w, int i)
{
	const struct settings_patch *p = &w->body.settings;
	const struct opt_i64 *all[FSM_SETTING_COUNT] = {
		[FSM_SETTING_MAX_MOVES] = &p->max_moves,
		[FSM_SETTING_DEAD_AFTER_S] = &p->dead_after_s,
		[FSM_SETTING_FAILOVER_AFTER_S] = &p->failover_after_s,
		[FSM_SETTING_MEMBER_HEARTBEAT_MS] = &p->member_heartbeat_ms,
		[FSM_SETTING_MIN_VOTERS] = &p->min_voters,
		[FSM_SETTING_REPLICA_LAG] = &p->replica_lag,
	};

	return all[i];
}

static bool parse(struct svc_task *t, struct svc_answer *a)
{
	if (!svc_write_read_body(t, &settings_patch_type, &t->write->body.settings, a))
		return false;
	for (int i = 0; i < FSM_SETTING_COUNT; i++) {
		const struct opt_i64 *v = value_of(t->write, i);
		const struct fsm_setting_info *s = &fsm_settings[i];

		if (v->set && (v->value < s->least || v->value > s->most)) {
			svc_fail(a, 400, "bad_field", s->name, "%s: must be %lld to %lld, or null", s->name,
			         (long long)s->least, (long long)s->most);
			return false;
		}
	}
	return true;
}

/* What it would be: patched by this request, by an earlier one, or the flag. */
static int64_t planned(const struct svc_task *t, enum fsm_setting s)
{
	const struct opt_i64 *v = value_of(t->write, (int)s);

	if (v->set)
		return v->value;
	return v->null ? t->svc->shared->flags[s] : svc_setting(t->svc->shared, s);
}

static enum svc_verdict check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	bool any = false;

	(void)txn;
	(void)rc;
	for (int i = 0; i < FSM_SETTING_COUNT; i++)
		any = any || value_of(t->write, i)->set || value_of(t->write, i)->null;
	if (!any) {
		a->index = fsm_reader_index(&t->svc->reader);
		put_settings(t->svc, a);
		return SVC_VERDICT_REFUSED; /* nothing is to be done */
	}
	/* One lost heartbeat must not make a member dead. */
	if (planned(t, FSM_SETTING_DEAD_AFTER_S) * 1000 < 2 * planned(t, FSM_SETTING_MEMBER_HEARTBEAT_MS)) {
		svc_fail(a, 400, "bad_field", "dead_after_s",
		         "dead_after_s: must be at least twice member_heartbeat_ms, or one lost heartbeat makes a "
		         "member dead");
		a->index = fsm_reader_index(&t->svc->reader);
		return SVC_VERDICT_REFUSED;
	}
	return svc_write_needs(t, CMD_SETTING, a);
}

static void build(struct svc_task *t, struct entry_builder *b)
{
	for (int i = 0; i < FSM_SETTING_COUNT; i++) {
		const struct opt_i64 *v = value_of(t->write, i);
		const struct cmd_setting c = { str_of(fsm_settings[i].name), { .value = v->value, .set = v->set } };

		if (v->set || v->null)
			entry_builder_add(b, CMD_SETTING, &c);
	}
}

static void answer(struct svc_task *t, raft_index index, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };

	json_begin_object(&w);
	for (int i = 0; i < FSM_SETTING_COUNT; i++)
		json_field_i64(&w, fsm_settings[i].name, planned(t, (enum fsm_setting)i));
	json_end_object(&w);
	svc_answer_json(a, 200);
	a->index = index;
}

const struct svc_write_kind svc_settings_kind = {
	.parse = parse,
	.check = check,
	.build = build,
	.answer = answer,
};
