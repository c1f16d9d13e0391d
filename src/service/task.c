/* Tasks and what they wait for: an applied index, the node's answer, a name, the placer. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "service/service_internal.h"

#define ARENA_KEEP (16u << 10) /* a task that used more gives its memory back */

struct svc_task *svc_task_new(struct svc *s)
{
	if (s->free_count == 0)
		return NULL;
	uint32_t slot = s->free_slots[--s->free_count];
	struct svc_task *t = s->slots[slot];

	if (!t) {
		t = mem_zalloc(sizeof(*t));
		t->svc = s;
		t->slot = slot;
		s->slots[slot] = t;
	}
	t->generation++;
	t->state = SVC_TASK_RUNNING;
	t->done = NULL;
	t->reached = NULL;
	t->resume = NULL;
	t->write = NULL;
	t->change = NULL;
	t->history = NULL;
	t->log = NULL;
	t->login = NULL;
	s->outstanding++;
	return t;
}

static void unlink_waiting(struct svc_task *t)
{
	struct svc *s = t->svc;

	if (!t->prev && !t->next && s->waiting != t)
		return;
	*(t->prev ? &t->prev->next : &s->waiting) = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->prev = t->next = NULL;
}

static void link_waiting(struct svc_task *t, enum svc_task_state state, uint64_t timeout_ms)
{
	struct svc *s = t->svc;

	assert(t->state == SVC_TASK_RUNNING);
	t->state = state;
	t->deadline_ms = clock_mono_ms() + timeout_ms;
	t->prev = NULL;
	t->next = s->waiting;
	if (t->next)
		t->next->prev = t;
	s->waiting = t;
}

static void resume(struct svc_task *t, enum svc_wake why)
{
	unlink_waiting(t);
	t->state = SVC_TASK_RUNNING;
	t->resume(t, why);
}

/* The slot stays taken while a completion is owed to it. */
void svc_task_release(struct svc_task *t)
{
	struct svc *s = t->svc;

	unlink_waiting(t);
	t->write = NULL;
	t->login = NULL;
	if (t->arena.used > ARENA_KEEP)
		arena_fini(&t->arena);
	else
		arena_reset(&t->arena);
	s->outstanding--;
	if (t->owed) {
		t->state = SVC_TASK_ABANDONED;
		return;
	}
	t->state = SVC_TASK_FREE;
	s->free_slots[s->free_count++] = t->slot;
}

void svc_task_answer(struct svc_task *t, struct svc_answer *a)
{
	svc_done done = t->done;
	void *arg = t->arg;

	svc_task_release(t);
	done(arg, a);
	buf_fini(&a->body);
}

struct node_reply_to svc_task_reply_to(const struct svc_task *t)
{
	return (struct node_reply_to){ .queue = t->svc->completions, .slot = t->slot, .generation = t->generation };
}

/* ---- beginning to wait ---- */

void svc_task_wait_applied(struct svc_task *t, raft_index index, uint64_t timeout_ms)
{
	t->want = index;
	if (svc_applied_index(t->svc) >= index) {
		t->resume(t, SVC_WAKE_REACHED);
		return;
	}
	link_waiting(t, SVC_TASK_APPLIED, timeout_ms);
}

void svc_task_wait_read(struct svc_task *t, uint64_t timeout_ms)
{
	if (!node_ask_read(t->svc->shared->node, svc_task_reply_to(t))) {
		t->completion = (struct node_completion){ .code = ERR_FULL };
		t->resume(t, SVC_WAKE_COMPLETED);
		return;
	}
	t->owed = true;
	link_waiting(t, SVC_TASK_READ, timeout_ms);
}

static uint64_t name_holder(const struct svc_task *t)
{
	return ((uint64_t)t->svc->number << 32 | t->slot) + 1;
}

static bool take_name(struct svc_task *t)
{
	return svc_name_take(&t->svc->shared->names, t->stripe, name_holder(t), t->svc->number);
}

void svc_task_wait_name(struct svc_task *t, struct str name, uint64_t timeout_ms)
{
	t->stripe = svc_name_stripe(name);
	t->holds_name = take_name(t);
	if (t->holds_name) {
		t->resume(t, SVC_WAKE_REACHED);
		return;
	}
	link_waiting(t, SVC_TASK_NAME, timeout_ms);
}

void svc_task_give_name(struct svc_task *t)
{
	struct svc_shared *sh = t->svc->shared;

	if (!t->holds_name)
		return;
	t->holds_name = false;
	svc_name_give(&sh->names, t->stripe, name_holder(t), sh->wakes, (uint32_t)sh->thread_count);
}

void svc_task_wait_asked(struct svc_task *t, uint64_t timeout_ms)
{
	link_waiting(t, SVC_TASK_ASKED, timeout_ms);
}

void svc_task_expect(struct svc_task *t)
{
	t->owed = true;
}

void svc_task_wait_expected(struct svc_task *t, uint64_t timeout_ms)
{
	assert(t->owed);
	link_waiting(t, SVC_TASK_EXPECTING, timeout_ms);
}

void svc_task_complete(const struct svc_task *t, int code)
{
	const struct node_reply_to to = svc_task_reply_to(t);
	const struct node_completion c = { .slot = to.slot, .generation = to.generation, .code = code };
	const bool put = queue_put(to.queue, &c);

	assert(put); /* a slot for each task */
}

void svc_task_wait_proposal(struct svc_task *t)
{
	assert(t->state == SVC_TASK_RUNNING);
	t->owed = true;
	t->state = SVC_TASK_PROPOSED;
}

/* ---- ending to wait ---- */

static void take_completions(struct svc *s)
{
	struct node_completion c;

	while (queue_take(s->completions, &c)) {
		assert(c.slot < s->slot_count && s->slots[c.slot]);
		struct svc_task *t = s->slots[c.slot];

		assert(t->owed && t->generation == c.generation);
		t->owed = false;
		if (t->state == SVC_TASK_ABANDONED) {
			t->state = SVC_TASK_FREE;
			s->free_slots[s->free_count++] = t->slot;
		} else if (t->state == SVC_TASK_READ || t->state == SVC_TASK_EXPECTING ||
		           t->state == SVC_TASK_PROPOSED) {
			t->completion = c;
			resume(t, SVC_WAKE_COMPLETED);
		}
	}
}

static void take_asked(struct svc *s)
{
	struct node_completion c;

	while (queue_take(s->asked, &c)) {
		assert(c.slot < s->slot_count && s->slots[c.slot] && s->asked_out > 0);
		struct svc_task *t = s->slots[c.slot];

		s->asked_out--;
		/* An older question's answer, for which nobody waited so long, is passed over. */
		if (t->state == SVC_TASK_ASKED && t->asked_seq == c.generation)
			resume(t, SVC_WAKE_REACHED);
	}
}

/* Newest first in the list, oldest first in what is done: a name goes to who waited longest. */
static void take_waiting(struct svc *s, uint64_t now_ms)
{
	raft_index applied = svc_applied_index(s);
	struct svc_task *t = s->waiting;

	while (t && t->next)
		t = t->next;
	while (t) {
		struct svc_task *prev = t->prev;

		if (t->state == SVC_TASK_APPLIED && applied >= t->want) {
			resume(t, SVC_WAKE_REACHED);
		} else if (t->state == SVC_TASK_NAME && take_name(t)) {
			t->holds_name = true;
			resume(t, SVC_WAKE_REACHED);
		} else if (now_ms >= t->deadline_ms) {
			resume(t, SVC_WAKE_TIMEOUT);
		}
		t = prev;
	}
}

void svc_tasks_turn(struct svc *s, uint64_t now_ms)
{
	take_completions(s);
	take_asked(s);
	take_waiting(s, now_ms);
}

/* What changed between the turn and now is seen once more before the thread sleeps, after its wish to be woken stands.
 */
bool svc_tasks_prepare_sleep(struct svc *s, uint64_t *next_ms)
{
	raft_index want = s->follow ? s->follow + 1 : 0;
	bool work = !queue_is_empty(s->completions) || !queue_is_empty(s->asked);

	for (const struct svc_task *t = s->waiting; t; t = t->next) {
		if (t->state == SVC_TASK_NAME && svc_name_is_free(&s->shared->names, t->stripe))
			work = true;
		if (t->state == SVC_TASK_APPLIED && (want == 0 || t->want < want))
			want = t->want;
		if (t->deadline_ms < *next_ms)
			*next_ms = t->deadline_ms;
	}
	atomic_store(&s->watcher.want, want);
	return !work && (want == 0 || svc_applied_index(s) < want);
}
