#include "net/lookup.h"

#include <assert.h>

#include "base/mem.h"

struct net_lookup {
	struct job job;
	_Atomic unsigned refs; /* the asker and the job */
	_Atomic bool done;     /* what follows is written before it and not after */
	int rc;
	struct err err;
	struct net_resolved found;
	struct net_addr addr;
	struct net_bell *bell;
};

static _Atomic bool is_running; /* the process' one look-up */

struct net_bell *net_bell_new(void)
{
	struct net_bell *b = mem_zalloc(sizeof(*b));
	atomic_init(&b->refs, 1);
	wake_init(&b->wake);
	return b;
}

void net_bell_unref(struct net_bell *b)
{
	const unsigned before = atomic_fetch_sub(&b->refs, 1);
	assert(before > 0);
	if (before > 1)
		return;
	wake_fini(&b->wake);
	mem_free(b);
}

static void unref(struct net_lookup *l)
{
	const unsigned before = atomic_fetch_sub(&l->refs, 1);
	assert(before > 0);
	if (before > 1)
		return;
	net_bell_unref(l->bell);
	mem_free(l);
}

static void run_lookup(struct job *j)
{
	struct net_lookup *l = CONTAINER_OF(j, struct net_lookup, job);
	l->rc = net_resolve(&l->addr, &l->found, &l->err);
	atomic_store(&is_running, false);
	atomic_store(&l->done, true);
	wake_signal(&l->bell->wake);
	unref(l);
}

struct net_lookup *net_lookup_start(struct pool *pool, struct net_bell *bell, const struct net_addr *addr)
{
	if (atomic_exchange(&is_running, true))
		return NULL;
	struct net_lookup *l = mem_zalloc(sizeof(*l));
	atomic_init(&l->refs, 2);
	atomic_fetch_add(&bell->refs, 1);
	l->bell = bell;
	l->addr = *addr;
	l->job.run = run_lookup;
	pool_submit(pool, &l->job);
	return l;
}

bool net_lookup_is_done(const struct net_lookup *l, int *rc, struct net_resolved *out, struct err *e)
{
	if (!atomic_load(&l->done))
		return false;
	*rc = l->rc;
	if (l->rc)
		*e = l->err;
	else
		*out = l->found;
	return true;
}

void net_lookup_free(struct net_lookup *l)
{
	if (l)
		unref(l);
}
