/* net/lookup.h - name look-ups on the work pool.
 *
 * One look-up at a time in the whole process: a name server that does not answer may hold one pool thread, never all
 * of them. A look-up nobody waits for any more runs to its end and frees itself.
 * Thread: the asking loop's; the look-up itself runs on the pool.
 */
#ifndef NET_LOOKUP_H
#define NET_LOOKUP_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/pool.h"
#include "base/wake.h"
#include "net/addr.h"

/* Where finished look-ups ring: shared by the loop that asks and the jobs still running. */
struct net_bell {
	_Atomic unsigned refs;
	struct wake wake;
};

struct net_bell *net_bell_new(void); /* refs 1 */
void net_bell_unref(struct net_bell *b);

struct net_lookup;

/* NULL: another one is running, ask again later. */
struct net_lookup *net_lookup_start(struct pool *pool, struct net_bell *bell, const struct net_addr *addr);
/* False: not yet. Else the result of net_resolve; the bell rings when it is there. */
bool net_lookup_is_done(const struct net_lookup *l, int *rc, struct net_resolved *out, struct err *e);
void net_lookup_free(struct net_lookup *l); /* done or not; accepts NULL */

#endif /* NET_LOOKUP_H */
