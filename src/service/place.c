/* Asking the placer, and what is made of its answer. Its word is never taken for more than a wish: what it names is
 * checked here as far as it can be, and refused by the state machine where it is wrong. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "service/write.h"

static struct {
	svc_placer place;
	void *arg;
} placer; /* set before the http threads start */

void svc_set_placer(svc_placer place, void *arg)
{
	placer.place = place;
	placer.arg = arg;
}

void svc_placement_unref(struct svc_placement *p)
{
	if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
		return;
	arena_fini(&p->arena);
	mem_free(p);
}

static struct svc_placement *question(struct svc_task *t)
{
	struct svc_write *w = t->write;
	struct svc_placement *p = mem_zalloc(sizeof(*p));
	struct buf json = { 0 };
	uint32_t *partitions = arena_alloc(&p->arena, w->want_count * sizeof(*partitions));
	struct str *avoid = arena_alloc(&p->arena, (w->avoid_count + 1) * sizeof(*avoid));

	for (size_t i = 0; i < w->want_count; i++) {
		if (!w->left_out[w->wants[i].partition])
			partitions[p->partition_count++] = w->wants[i].partition;
	}
	for (size_t i = 0; i < w->avoid_count; i++)
		avoid[i] = arena_str(&p->arena, w->avoid[i]);
	svc_write_put_topic(w, &json);
	p->topic_json = (struct str){ arena_dup(&p->arena, json.data, json.len), json.len };
	buf_fini(&json);
	p->topic = arena_str(&p->arena, w->topic.name);
	p->topic_id = arena_str(&p->arena, w->topic.id);
	p->partitions = partitions;
	p->replicas = w->has_extra ? (uint32_t)w->extra.replicas : 1;
	p->avoid = avoid;
	p->avoid_count = w->avoid_count;
	p->term = w->term;
	atomic_init(&p->refs, 1);
	return p;
}

static void leave_unplaced(struct svc_write *w, const char *why)
{
	for (size_t i = 0; i < w->want_count; i++)
		w->wants[i].owners = (struct str_list){ 0 };
	snprintf(w->unplaced, sizeof(w->unplaced), "%s", why);
}

bool svc_place_ask(struct svc_task *t)
{
	struct svc *s = t->svc;
	struct svc_write *w = t->write;
	struct svc_placement *p;

	leave_unplaced(w, "nobody places partitions at the moment");
	/* A placer that answers nothing any more shall not be asked without end: its answers have their room in the
	 * queue. */
	if (!placer.place || s->asked_out >= s->slot_count)
		return false;
	p = question(t);
	if (p->partition_count == 0) {
		svc_placement_unref(p);
		return false;
	}
	t->asked_seq = ++s->asked_seq;
	p->reply = (struct node_reply_to){ .queue = s->asked, .slot = t->slot, .generation = t->asked_seq };
	atomic_store(&p->refs, 2);
	svc_placement_unref(w->placement);
	w->placement = p;
	if (placer.place(placer.arg, p)) {
		s->asked_out++;
		return true;
	}
	w->placement = NULL;
	svc_placement_unref(p);
	svc_placement_unref(p);
	return false;
}

static bool is_usable(const struct svc_write *w, const struct str_list *owners)
{
	for (size_t i = 0; i < owners->count; i++) {
		if (!rule_member_id(owners->items[i]) || str_is_among(owners->items[i], w->avoid, w->avoid_count))
			return false;
	}
	return owners->count > 0;
}

static struct str_list copy_list(struct arena *a, const struct str_list *l)
{
	struct str *items = arena_alloc(a, l->count * sizeof(*items));

	for (size_t i = 0; i < l->count; i++)
		items[i] = arena_str(a, l->items[i]);
	return (struct str_list){ items, l->count };
}

static void take_owners(struct svc_task *t, const struct svc_placement *p)
{
	struct svc_write *w = t->write;
	size_t placed = 0;

	for (size_t i = 0; i < p->partition_count && p->owners; i++) {
		for (size_t k = 0; k < w->want_count; k++) {
			if (w->wants[k].partition != p->partitions[i] || !is_usable(w, &p->owners[i]))
				continue;
			w->wants[k].owners = copy_list(&t->arena, &p->owners[i]);
			placed++;
		}
	}
	if (placed == w->want_count)
		w->unplaced[0] = '\0';
	else
		snprintf(w->unplaced, sizeof(w->unplaced), "%s",
		         p->reason[0] ? p->reason : "the policy left partitions out");
}

bool svc_place_take(struct svc_task *t, bool answered, struct svc_answer *a)
{
	struct svc_write *w = t->write;
	struct svc_placement *p = w->placement;
	bool go_on = true;

	w->placement = NULL;
	if (!answered) {
		leave_unplaced(w, "the placement policy did not answer in time");
		svc_placement_unref(p);
		return true;
	}
	switch (p->result) {
	case SVC_PLACE_DONE: take_owners(t, p); break;
	case SVC_PLACE_NO_MEMBER: leave_unplaced(w, "no alive member to own new partitions"); break;
	case SVC_PLACE_PAUSED: leave_unplaced(w, "placement is paused"); break;
	case SVC_PLACE_FAILED: leave_unplaced(w, p->reason[0] ? p->reason : "the placement policy failed"); break;
	case SVC_PLACE_ALL_DRAINING:
		svc_fail_write(a, 503, "no_receivers", "none", 0,
		               "every live member is draining; nothing was done, take one back into service");
		go_on = false;
		break;
	}
	svc_placement_unref(p);
	return go_on;
}
