#include "service/service.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "service/auth.h"
#include "service/idem.h"

#define SCRATCH_KEEP (256u << 10) /* an answer's buffer that grew beyond this is given back */

struct svc_shared *svc_shared_new(const struct svc_shared_options *o)
{
	struct svc_shared *sh = mem_zalloc(sizeof(*sh));

	sh->node = o->node;
	sh->fsm = node_fsm(o->node);
	sh->data_dir = o->data_dir;
	sh->build = o->build ? o->build : "unknown";
	sh->max_entry_type = o->max_entry_type;
	for (int i = 0; i < FSM_SETTING_COUNT; i++)
		sh->flags[i] = o->flags ? o->flags[i] : fsm_settings[i].value;
	sh->started_ms = clock_mono_ms();
	sh->admin_password = o->admin_password;
	sh->secrets = o->secrets;
	sh->progress = svc_progress_new();
	sh->idem = svc_idem_new();
	bcrypt_queue_init(&sh->bcrypt, o->pool);
	if (o->auth)
		sh->auth = auth_new(&sh->bcrypt);
	return sh;
}

void svc_shared_free(struct svc_shared *sh)
{
	if (!sh)
		return;
	auth_free(sh->auth);
	svc_idem_free(sh->idem);
	svc_progress_free(sh->progress);
	bcrypt_queue_fini(&sh->bcrypt);
	mem_free(sh);
}

struct svc *svc_new(struct svc_shared *sh, size_t slots, struct wake *wake)
{
	struct svc *s = mem_zalloc(sizeof(*s));

	assert(slots > 0 && slots < UINT32_MAX && sh->thread_count < SVC_THREADS_MAX);
	s->shared = sh;
	s->wake = wake;
	s->number = (uint32_t)sh->thread_count;
	s->slot_count = slots;
	s->slots = mem_zalloc(slots * sizeof(*s->slots));
	s->free_slots = mem_alloc(slots * sizeof(*s->free_slots));
	for (size_t i = 0; i < slots; i++)
		s->free_slots[s->free_count++] = (uint32_t)(slots - 1 - i);
	s->completions = queue_new(slots, sizeof(struct node_completion), wake);
	s->asked = queue_new(slots, sizeof(struct node_completion), wake);
	fsm_reader_init(&s->reader, sh->fsm);
	if (sh->auth)
		s->known = auth_known_new(sh->auth);
	s->watcher.wake = wake;
	node_add_watcher(sh->node, &s->watcher);
	sh->wakes[sh->thread_count] = wake;
	sh->threads[sh->thread_count++] = s;
	return s;
}

void svc_free(struct svc *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->slot_count; i++) {
		struct svc_task *t = s->slots[i];

		if (!t)
			continue;
		svc_write_drop(t);
		node_change_unref(t->change);
		svc_log_drop(t);
		arena_fini(&t->arena);
		mem_free(t);
	}
	/* Whoever lets a name go from here on finds nobody to wake. */
	s->shared->wakes[s->number] = NULL;
	fsm_reader_fini(&s->reader);
	auth_known_free(s->known);
	explicit_bzero(s->seed.password, sizeof(s->seed.password));
	queue_free(s->completions);
	queue_free(s->asked);
	buf_fini(&s->scratch);
	arena_fini(&s->arena);
	mem_free(s->slots);
	mem_free(s->free_slots);
	mem_free(s);
}

/* ---- looking ---- */

const struct node_status *svc_node_status(struct svc *s, uint64_t *version)
{
	uint64_t now = node_status_version(s->shared->node);

	if (s->status_version != now + 1) {
		node_get_status(s->shared->node, &s->status);
		s->status_version = now + 1;
	}
	if (version)
		*version = s->status_version - 1;
	return &s->status;
}

raft_index svc_applied_index(const struct svc *s)
{
	return fsm_applied_index(s->shared->fsm);
}

void svc_follow(struct svc *s, raft_index index)
{
	s->follow = index;
}

size_t svc_outstanding(const struct svc *s)
{
	return s->outstanding;
}

/* ---- what is answered at once ---- */

/* The scratch buffer is taken out while its answer is in use: what `done` starts next may answer at once too. */
static struct svc_answer begin_answer(struct svc *s)
{
	struct svc_answer a = { .body = s->scratch };

	s->scratch = (struct buf){ 0 };
	buf_clear(&a.body);
	return a;
}

static void end_answer(struct svc *s, struct svc_answer *a)
{
	if (s->scratch.cap == 0 && a->body.cap <= SCRATCH_KEEP)
		s->scratch = a->body;
	else
		buf_fini(&a->body);
}

static void fail_overloaded(struct svc *s, svc_done done, void *arg)
{
	struct svc_answer a = begin_answer(s);

	svc_fail_write(&a, 503, "overloaded", "none", 0, "too many requests wait on this node; try again");
	done(arg, &a);
	end_answer(s, &a);
}

struct svc_task *svc_task_begin(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_task *t = svc_task_new(s);

	if (!t) {
		fail_overloaded(s, done, arg);
		return NULL;
	}
	t->rq = *rq;
	t->done = done;
	t->arg = arg;
	t->since_ns = clock_mono_ns();
	return t;
}

static void read_now(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_answer a = begin_answer(s);

	svc_read_answer(s, rq, &a);
	done(arg, &a);
	end_answer(s, &a);
}

/* ---- waiting for an index ---- */

static void on_reached(struct svc_task *t, enum svc_wake why)
{
	svc_reached reached = t->reached;
	void *arg = t->arg;

	svc_task_release(t);
	reached(arg, why == SVC_WAKE_REACHED);
}

void svc_wait_index(struct svc *s, raft_index index, uint32_t timeout_ms, svc_reached done, void *arg)
{
	struct svc_task *t;

	if (svc_applied_index(s) >= index) {
		done(arg, true);
		return;
	}
	t = svc_task_new(s);
	if (!t) {
		done(arg, false);
		return;
	}
	t->reached = done;
	t->arg = arg;
	t->resume = on_reached;
	svc_task_wait_applied(t, index, timeout_ms);
}

/* ---- the face ---- */

void svc_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	switch (rq->op) {
	case SVC_TOPIC_CREATE:
	case SVC_TOPIC_ALTER:
	case SVC_TOPIC_DELETE:
	case SVC_USER_CREATE:
	case SVC_USER_DELETE:
	case SVC_USER_GRANTS:
	case SVC_USER_PASSWORD:
	case SVC_CHILD_ATTACH:
	case SVC_CHILD_DETACH:
	case SVC_CHILD_PAUSE:
	case SVC_CHILD_RESUME:
	case SVC_CHILD_SKIP:
	case SVC_REMOTE_CREATE:
	case SVC_REMOTE_ALTER:
	case SVC_REMOTE_DELETE:
	case SVC_REMOTE_REENCRYPT:
	case SVC_SCHEMA_PUT:
	case SVC_SETTINGS_SET:
	case SVC_MOVE_SET:
	case SVC_MOVE_PROGRESS:
	case SVC_MOVE_COMPLETE:
	case SVC_MOVE_ABORT:
	case SVC_MOVE_ABORT_ALL:
	case SVC_LEADER_SET:
	case SVC_REPLICAS_SET:
	case SVC_MEMBER_REGISTER:
	case SVC_MEMBER_HEARTBEAT:
	case SVC_MEMBER_LEAVE:
	case SVC_MEMBER_PATCH:
	case SVC_MEMBER_LOST:
	case SVC_MEMBER_DECOMMISSION:
	case SVC_MEMBER_RECOMMISSION:
		if (!svc_write_run(s, rq, done, arg))
			fail_overloaded(s, done, arg);
		return;
	case SVC_SERVER_SET:
	case SVC_SERVER_REMOVE:
	case SVC_MEMBER_FORGET:
	case SVC_LEADER_TRANSFER: svc_cluster_run(s, rq, done, arg); return;
	case SVC_SNAPSHOT: svc_snapshot_run(s, rq, done, arg); return;
	case SVC_BARRIER: svc_confirm(s, rq, done, arg); return;
	case SVC_CONFIRM_TOPIC:
	case SVC_CONFIRM_PARTITION: svc_confirm_run(s, rq, done, arg); return;
	default: break;
	}
	/* Where nothing can be read, no majority is asked. */
	if (rq->strong && svc_node_status(s, NULL)->configured)
		svc_confirm(s, rq, done, arg);
	else if (rq->min_index > svc_applied_index(s) ||
	         rq->op == SVC_LOG) /* the log waits for its files in any case */
		svc_read_at(s, rq, done, arg);
	else
		read_now(s, rq, done, arg);
}

void svc_turn(struct svc *s, uint64_t now_ms)
{
	svc_tasks_turn(s, now_ms);
	svc_seed_turn(s, now_ms);
}

bool svc_prepare_sleep(struct svc *s, uint64_t *next_ms)
{
	fsm_read_end(&s->reader);
	svc_seed_deadline(s, next_ms);
	return svc_tasks_prepare_sleep(s, next_ms);
}

void svc_note_stage(struct svc *s, enum svc_stage stage, uint64_t ns)
{
	prom_observe(&s->stages[stage], ns);
}
