/* What was planned and is not yet applied, of both lanes, and the one lock under which owners are chosen.
 *
 * Whoever chooses owners - for a create, an increase, the sweep - holds it from looking at the plans until its own is
 * among them: so a burst of creates does not land on one member, and a sweep beside it neither. It is held for one
 * topic, under the budget of a request. */
#include <string.h>

#include "base/mem.h"
#include "control/control_internal.h"
#include "fsm/topics.h"

#define PLANNED_FOR_MS 5000 /* an entry that is not applied by then was refused or lost */

static void forget(struct planned *p)
{
	for (size_t i = 0; i < p->count; i++)
		mem_free((char *)(uintptr_t)p->members[i].member.p);
	mem_free(p->members);
	mem_free(p->topic);
	*p = (struct planned){ 0 };
}

void plans_init(struct plans *plans)
{
	pthread_mutex_init(&plans->lock, NULL);
}

void plans_fini(struct plans *plans)
{
	for (size_t i = 0; i < PLANNED_MAX; i++)
		forget(&plans->planned[i]);
	pthread_mutex_destroy(&plans->lock);
}

static bool is_applied(const struct planned *p, struct store_txn *txn)
{
	struct fsm_topic t;
	return fsm_get_topic(txn, str_of(p->topic), &t) == 0 && t.owners_index > p->index;
}

static void add_count(struct view_pending *sums, size_t *n, size_t cap, const struct view_pending *add)
{
	for (size_t i = 0; i < *n; i++) {
		if (str_eq(sums[i].member, add->member)) {
			sums[i].partitions += add->partitions;
			sums[i].copies += add->copies;
			return;
		}
	}
	if (*n < cap)
		sums[(*n)++] = *add;
}

void plans_begin(struct plans *plans, struct lane *l, uint64_t now_ms)
{
	struct cluster_view *v = &l->lv.view;
	const size_t cap = v->members->count;
	struct view_pending *sums = arena_alloc(&l->lv.arena, (cap + 1) * sizeof(*sums));
	size_t n = 0;
	pthread_mutex_lock(&plans->lock);
	for (size_t i = 0; i < PLANNED_MAX; i++) {
		struct planned *p = &plans->planned[i];
		if (!p->topic)
			continue;
		if (now_ms >= p->until_ms || is_applied(p, v->txn)) {
			forget(p);
			continue;
		}
		for (size_t k = 0; k < p->count; k++)
			add_count(sums, &n, cap, &p->members[k]);
	}
	v->pending = sums;
	v->pending_count = n;
}

static void plan_copy(struct planned *slot, size_t cap, struct str member, bool leads)
{
	const struct view_pending one = { member, leads, !leads };
	const size_t before = slot->count;
	add_count(slot->members, &slot->count, cap, &one);
	if (slot->count > before)
		slot->members[before].member.p = mem_strndup(member.p, member.len);
}

static void remember(struct planned *slot, size_t asked, const struct place_answer *a)
{
	size_t cap = 0;
	for (size_t i = 0; i < asked; i++)
		cap += a->owners[i].count;
	slot->members = mem_alloc(cap * sizeof(*slot->members));
	for (size_t i = 0; i < asked; i++) {
		for (size_t k = 0; k < a->owners[i].count; k++)
			plan_copy(slot, cap, a->owners[i].items[k], k == 0);
	}
}

void plans_end(struct plans *plans, const struct lane *l, struct str topic, size_t asked, const struct place_answer *a,
               uint64_t now_ms)
{
	if (a && a->placed > 0) {
		struct planned *slot = &plans->planned[plans->next++ % PLANNED_MAX];
		forget(slot);
		slot->topic = mem_strndup(topic.p, topic.len);
		slot->index = l->lv.view.index;
		slot->until_ms = now_ms + PLANNED_FOR_MS;
		remember(slot, asked, a);
	}
	pthread_mutex_unlock(&plans->lock);
}
