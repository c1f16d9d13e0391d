#include "service/idem.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fsm/idem.h"

/* Stands for the entry's index while the answer is planned: no index ever is this. */
#define INDEX_UNKNOWN INT64_MAX
#define INDEX_UNKNOWN_TEXT "9223372036854775807"

#define BUCKETS 256

struct svc_idem {
	pthread_mutex_t lock; /* held for a look-up */
	struct svc_task *running[BUCKETS];
};

struct svc_idem *svc_idem_new(void)
{
	struct svc_idem *m = mem_zalloc(sizeof(*m));
	const int rc = pthread_mutex_init(&m->lock, NULL);

	assert(rc == 0);
	(void)rc;
	return m;
}

void svc_idem_free(struct svc_idem *m)
{
	if (!m)
		return;
	pthread_mutex_destroy(&m->lock);
	mem_free(m);
}

static struct str actor_of(const struct svc_task *t)
{
	return t->rq.principal.anonymous ? STR_LIT("anonymous") : str_of(t->rq.principal.name);
}

static bool is_same(const struct svc_task *x, const struct svc_task *y)
{
	return str_eq(x->rq.idem_key, y->rq.idem_key) && str_eq(actor_of(x), actor_of(y));
}

static struct svc_task **bucket_of(const struct svc_task *t)
{
	return &t->svc->shared->idem->running[fsm_hash(t->rq.idem_key) % BUCKETS];
}

bool svc_idem_enter(struct svc_task *t, struct svc_answer *a)
{
	struct svc_idem *m = t->svc->shared->idem;
	struct svc_task **head = bucket_of(t), *other;

	if (t->rq.idem_key.len == 0 || t->rq.dry_run)
		return true;
	pthread_mutex_lock(&m->lock);
	for (other = *head; other && !is_same(other, t); other = other->write->idem_next)
		;
	if (!other) {
		t->write->idem_next = *head;
		t->write->idem_entered = true;
		*head = t;
	}
	pthread_mutex_unlock(&m->lock);
	if (other)
		svc_fail_write(
		    a, 409, "idempotency_in_progress", "none", 0,
		    "the first request under this Idempotency-Key is still running; wait, then send it again");
	return !other;
}

void svc_idem_leave(struct svc_task *t)
{
	struct svc_idem *m = t->svc->shared->idem;
	struct svc_task **at;

	if (!t->write || !t->write->idem_entered)
		return;
	t->write->idem_entered = false;
	pthread_mutex_lock(&m->lock);
	for (at = bucket_of(t); *at != t; at = &(*at)->write->idem_next)
		;
	*at = t->write->idem_next;
	pthread_mutex_unlock(&m->lock);
}

enum svc_verdict svc_idem_check(struct svc_task *t, struct store_txn *txn, struct svc_answer *a, int *rc)
{
	struct fsm_idem kept;
	int r;

	if (!t->write->idem_entered)
		return SVC_VERDICT_OK;
	r = fsm_get_idem(txn, actor_of(t), t->rq.idem_key, clock_wall_ms(), &kept);
	if (r == ERR_NOTFOUND)
		return svc_write_needs(t, FSM_IDEM_TYPE, a);
	if (r != 0) {
		*rc = r;
		return SVC_VERDICT_FAILED;
	}
	if (kept.request_hash != t->rq.request_hash) {
		svc_fail_write(a, 422, "idempotency_mismatch", "none", kept.index,
		               "another request was sent under this Idempotency-Key; take a new key");
		return SVC_VERDICT_FAILED;
	}
	entry_put_body(&a->body, kept.body, kept.index);
	a->status = kept.status;
	a->content_type = kept.body.len ? "application/json" : NULL;
	a->index = kept.index;
	a->replayed = true;
	return SVC_VERDICT_FAILED;
}

/* The index is the one thing that is not known before: its decimal text becomes a mark. */
static struct str mark_index(struct svc_task *t, const struct buf *body)
{
	const size_t n = sizeof(INDEX_UNKNOWN_TEXT) - 1;
	char *out = arena_alloc(&t->arena, body->len + 1);
	size_t len = 0;

	for (size_t i = 0; i < body->len;) {
		if (body->len - i >= n && memcmp(body->data + i, INDEX_UNKNOWN_TEXT, n) == 0) {
			out[len++] = ENTRY_INDEX_MARK;
			i += n;
		} else {
			out[len++] = (char)body->data[i++];
		}
	}
	return (struct str){ out, len };
}

void svc_idem_plan(struct svc_task *t, struct entry_header *h)
{
	struct svc_answer a = { 0 };

	if (!t->write->idem_entered)
		return;
	t->write->kind->answer(t, INDEX_UNKNOWN, &a);
	h->has_idem = true;
	h->idem = (struct entry_idem){
		.key = t->rq.idem_key,
		.request_hash = t->rq.request_hash,
		.status = (uint16_t)a.status,
		.body = mark_index(t, &a.body),
	};
	buf_fini(&a.body);
}
