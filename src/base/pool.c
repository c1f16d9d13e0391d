#include "base/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/mem.h"

struct pool {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct job *first;
	struct job **last_next; /* where the next job is linked */
	bool closed;
};

struct pool *pool_new(void)
{
	struct pool *p = mem_zalloc(sizeof(*p));
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->more, &attr);
	pthread_condattr_destroy(&attr);
	p->last_next = &p->first;
	return p;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	assert(!p->first);
	pthread_cond_destroy(&p->more);
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

void pool_submit(struct pool *p, struct job *j)
{
	j->next = NULL;
	pthread_mutex_lock(&p->lock);
	*p->last_next = j;
	p->last_next = &j->next;
	pthread_cond_signal(&p->more);
	pthread_mutex_unlock(&p->lock);
}

bool pool_turn(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	struct job *j = p->first;
	if (j) {
		p->first = j->next;
		if (!p->first)
			p->last_next = &p->first;
	}
	pthread_mutex_unlock(&p->lock);
	if (!j)
		return false;
	j->run(j);
	return true;
}

bool pool_wait(struct pool *p, int64_t timeout_ms)
{
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	if (timeout_ms >= 0) {
		until.tv_sec += timeout_ms / 1000;
		until.tv_nsec += timeout_ms % 1000 * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
	}
	int rc = 0;
	pthread_mutex_lock(&p->lock);
	while (!p->first && !p->closed && rc != ETIMEDOUT)
		rc = timeout_ms < 0 ? pthread_cond_wait(&p->more, &p->lock)
		                    : pthread_cond_timedwait(&p->more, &p->lock, &until);
	const bool open = p->first || !p->closed;
	pthread_mutex_unlock(&p->lock);
	return open;
}

void pool_close(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->closed = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
}
