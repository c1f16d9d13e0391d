/* base/prom.h - series in the text exposition format of Prometheus, and a histogram of times.
 *
 * A histogram is written by one thread and read by any: relaxed atomics, no lock. One set of bounds serves all, from a
 * local read's tens of microseconds to seconds, so that times of different stages can be laid over each other.
 * Thread: prom_observe its owner; prom_sum and the writers any.
 */
#ifndef BASE_PROM_H
#define BASE_PROM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"

#define PROM_BUCKETS 12

struct prom_histogram {
	_Atomic uint64_t buckets[PROM_BUCKETS + 1]; /* not cumulative; the last one holds what is over every bound */
	_Atomic uint64_t total_ns;
};

/* One writer, so load and store need not be one step. */
static inline void prom_count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

void prom_observe(struct prom_histogram *h, uint64_t ns);
void prom_sum(struct prom_histogram *sum, const struct prom_histogram *h); /* adds `h` to the caller's own `sum` */

void prom_put_head(struct buf *out, const char *name, const char *type, const char *help);
/* `labels` stand between the braces: a="b",c="d". Head lines are the caller's: they stand once over all label sets. */
void prom_put_histogram(struct buf *out, const char *name, const char *labels, const struct prom_histogram *h);
void prom_put_gauge(struct buf *out, const char *name, const char *help, double v); /* with its head, no labels */
void prom_put_label(struct buf *out, struct str s); /* a label's value, escaped; the quotes are the caller's */

#endif /* BASE_PROM_H */
