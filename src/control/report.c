/* What the control plane says of itself, to status and metrics. */
#include <inttypes.h>
#include <stdio.h>

#include "base/prom.h"
#include "control/control_internal.h"
#include "model/utf8.h"

_Static_assert(POLICY_FAULTS_MAX <= SVC_POLICY_FAULTS_MAX, "every fault is shown");

/* Any thread. */
void report_intents(struct control *c, enum policy_kind k, enum svc_intent_outcome outcome, size_t count)
{
	atomic_fetch_add_explicit(&c->intents[k][outcome], count, memory_order_relaxed);
}

static void on_placed(void *arg, enum svc_intent_outcome outcome, size_t count)
{
	report_intents(arg, POLICY_PLACEMENT, outcome, count);
}

static size_t list_faults(void *arg, struct svc_policy_fault out[SVC_POLICY_FAULTS_MAX])
{
	(void)arg;
	struct policy_fault_record all[POLICY_FAULTS_MAX];
	const size_t n = policy_faults_copy(all);
	for (size_t i = 0; i < n; i++) {
		out[i] = (struct svc_policy_fault){
			.kind = policy_kind_name(all[i].kind),
			.source = policy_source_name(all[i].source),
			.line = all[i].fault.line,
			.since_ms = all[i].since_ms,
			.at_ms = all[i].at_ms,
			.count = all[i].count,
			.benched = all[i].benched,
		};
		(void)utf8_copy_clean(out[i].message, sizeof(out[i].message), str_of(all[i].fault.message));
	}
	return n;
}

static void put_kind(struct buf *out, const char *name, enum policy_kind k, uint64_t v)
{
	buf_printf(out, "%s{kind=\"%s\"} %" PRIu64 "\n", name, policy_kind_name(k), v);
}

/* Both lanes together. */
static void put_runs(struct buf *out, const struct control *c)
{
	uint64_t faults[POLICY_KIND_COUNT] = { 0 };
	char labels[64];
	prom_put_head(out, "veena_policy_run_seconds", "histogram",
	              "Time that runs of policies took, failed ones too.");
	for (int k = 0; k < POLICY_KIND_COUNT; k++) {
		const struct policy_set *sets[] = { c->requests.lane.policies, c->passes.lane.policies };
		struct prom_histogram sum = { 0 };
		for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
			const struct policy_stats *s = policy_set_stats(sets[i], (enum policy_kind)k);
			prom_sum(&sum, &s->runs);
			faults[k] += atomic_load_explicit(&s->faults, memory_order_relaxed);
		}
		snprintf(labels, sizeof(labels), "kind=\"%s\"", policy_kind_name((enum policy_kind)k));
		prom_put_histogram(out, "veena_policy_run_seconds", labels, &sum);
	}
	prom_put_head(out, "veena_policy_faults_total", "counter", "Runs of policies that failed.");
	for (int k = 0; k < POLICY_KIND_COUNT; k++)
		put_kind(out, "veena_policy_faults_total", (enum policy_kind)k, faults[k]);
}

static void put_metrics(void *arg, struct buf *out)
{
	static const char *const outcomes[SVC_INTENT_OUTCOME_COUNT] = { "applied", "refused", "dropped" };
	const struct control *c = arg;
	put_runs(out, c);
	prom_put_head(out, "veena_intents_total", "counter", "What became of what policies decided.");
	for (int k = 0; k < POLICY_KIND_COUNT; k++) {
		/* A schema's judge decides nothing that is proposed. */
		for (int o = 0; o < SVC_INTENT_OUTCOME_COUNT && k != POLICY_SCHEMA; o++)
			buf_printf(out, "veena_intents_total{kind=\"%s\",outcome=\"%s\"} %" PRIu64 "\n",
			           policy_kind_name((enum policy_kind)k), outcomes[o],
			           atomic_load_explicit(&c->intents[k][o], memory_order_relaxed));
	}
	prom_put_head(out, "veena_dead_marking_refused", "gauge",
	              "1 while marking the silent voters dead would break the quorum.");
	buf_printf(out, "veena_dead_marking_refused %d\n", (int)atomic_load(&c->dead_refused));
	prom_put_head(out, "veena_moves_blocked", "gauge", "Moves under way that stand still, on the leader.");
	buf_printf(out, "veena_moves_blocked{reason=\"source_dead\"} %" PRIu32 "\n",
	           atomic_load(&c->moves_source_dead));
	buf_printf(out, "veena_moves_blocked{reason=\"target_dead\"} %" PRIu32 "\n",
	           atomic_load(&c->moves_target_dead));
	prom_put_head(out, "veena_control_paused", "gauge", "1 while an operator has paused the kind.");
	for (int k = 0; k < POLICY_KIND_COUNT; k++)
		put_kind(out, "veena_control_paused", (enum policy_kind)k, 0); /* nothing can be paused yet */
}

void report_register(struct control *c)
{
	svc_set_control(&(struct svc_control_hooks){
	    .arg = c, .faults = list_faults, .put_metrics = put_metrics, .placed = on_placed });
}
