/* Labels of topics: type 65. A row of x_labels holds what a topic has beyond Narad's record, as JSON; a topic that has
 * only the defaults has none. What readers see of it is the tail in x_topic. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

static int get_extra(struct store_txn *txn, struct str name, struct arena *arena, struct topic_extra *out)
{
	struct str row;
	*out = TOPIC_EXTRA_DEFAULT;
	int rc = store_get(txn, STORE_X_LABELS, name, &row);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	const struct str copy = arena_str(arena, row);
	rc = record_read_json(&topic_extra_type, copy, arena, out, NULL, NULL);
	return rc == 0 && out->replicas > 0 ? 0 : ERR_CORRUPT;
}

int fsm_get_topic_extra(struct store_txn *txn, struct str name, struct arena *arena, struct topic_extra *out)
{
	return get_extra(txn, name, arena, out);
}

int topic_extra_load(struct apply *a, struct str name, struct topic_extra *out)
{
	int rc = get_extra(a->txn, name, a->arena, out);
	return rc == ERR_CORRUPT ? fsm_corrupt(a, STORE_X_LABELS, name, "not a row of this release") : rc;
}

bool topic_extra_is_default(const struct topic_extra *x)
{
	const struct topic_extra d = TOPIC_EXTRA_DEFAULT;
	return x->replicas == d.replicas && x->unclean == d.unclean && x->replica_lag == d.replica_lag &&
	       x->labels.count == 0;
}

static int topic_extra_store(struct apply *a, struct str name, const struct topic_extra *x)
{
	return topic_extra_is_default(x) ? fsm_del(a, STORE_X_LABELS, name)
	                                 : fsm_put_record(a, STORE_X_LABELS, name, &topic_extra_type, x, 0);
}

struct str_map fsm_merge_labels(const struct str_map *old, const struct str_map *change, struct arena *arena)
{
	struct str_pair *items = arena_alloc(arena, (old->count + change->count + 1) * sizeof(*items));
	size_t n = 0, i = 0, k = 0;
	while (i < old->count || k < change->count) {
		const int order = i == old->count      ? 1
		                  : k == change->count ? -1
		                                       : str_cmp(old->items[i].key, change->items[k].key);
		const struct str_pair *from = order < 0 ? &old->items[i] : &change->items[k];
		if (from->value.p)
			items[n++] = *from;
		i += order <= 0;
		k += order >= 0;
	}
	return (struct str_map){ items, n };
}

static bool is_same_map(const struct str_map *x, const struct str_map *y)
{
	if (x->count != y->count)
		return false;
	for (size_t i = 0; i < x->count; i++)
		if (!str_eq(x->items[i].key, y->items[i].key) || !str_eq(x->items[i].value, y->items[i].value))
			return false;
	return true;
}

int topic_extra_begin(struct apply *a, struct str name, struct str expect_id, struct topic_state *t,
                      struct topic_extra *x)
{
	int rc = topic_state_load(a, name, t);
	if (rc)
		return rc == ERR_NOTFOUND ? FSM_TOPIC_NOT_FOUND : rc;
	if (!str_eq(t->rec.id, expect_id))
		return FSM_TOPIC_CHANGED;
	return topic_extra_load(a, name, x);
}

int topic_extra_end(struct apply *a, struct topic_state *t, const struct topic_extra *x)
{
	int rc = topic_extra_store(a, t->rec.name, x);
	if (rc)
		return rc;
	fsm_note(a, FSM_DOMAIN_TOPICS, t->rec.name, FSM_OP_PUT);
	return topic_state_retail(a, t);
}

int fsm_topic_labels(struct apply *a, const void *command)
{
	const struct cmd_topic_labels *c = command;
	struct topic_extra old, now;
	struct topic_state t;
	int rc = topic_extra_begin(a, c->topic, c->expect_id, &t, &old);
	if (rc)
		return rc;
	if (rules_check_labels(&c->labels, "labels", NULL, NULL) != 0)
		return FSM_INVALID;
	now = old;
	now.labels = fsm_merge_labels(&old.labels, &c->labels, a->arena);
	if (now.labels.count > LABELS_MAX)
		return FSM_INVALID;
	if (is_judging(a) || is_same_map(&old.labels, &now.labels))
		return 0;
	return topic_extra_end(a, &t, &now);
}
