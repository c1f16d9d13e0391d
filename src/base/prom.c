#include "base/prom.h"

#include <inttypes.h>

/* Upper bounds in microseconds. */
static const uint64_t bounds_us[PROM_BUCKETS] = { 50,   100,   250,   500,    1000,    2500,
	                                          5000, 10000, 50000, 250000, 1000000, 5000000 };

static uint64_t load(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

void prom_observe(struct prom_histogram *h, uint64_t ns)
{
	size_t b = 0;

	while (b < PROM_BUCKETS && ns > bounds_us[b] * 1000)
		b++;
	prom_count(&h->buckets[b], 1);
	prom_count(&h->total_ns, ns);
}

void prom_sum(struct prom_histogram *sum, const struct prom_histogram *h)
{
	for (size_t i = 0; i <= PROM_BUCKETS; i++)
		prom_count(&sum->buckets[i], load(&h->buckets[i]));
	prom_count(&sum->total_ns, load(&h->total_ns));
}

void prom_put_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void prom_put_histogram(struct buf *out, const char *name, const char *labels, const struct prom_histogram *h)
{
	uint64_t n = 0;

	for (size_t b = 0; b < PROM_BUCKETS; b++) {
		n += load(&h->buckets[b]);
		buf_printf(out, "%s_bucket{%s,le=\"%g\"} %" PRIu64 "\n", name, labels, (double)bounds_us[b] / 1e6, n);
	}
	n += load(&h->buckets[PROM_BUCKETS]);
	buf_printf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", name, labels, n);
	buf_printf(out, "%s_sum{%s} %.9f\n", name, labels, (double)load(&h->total_ns) / 1e9);
	buf_printf(out, "%s_count{%s} %" PRIu64 "\n", name, labels, n);
}

void prom_put_gauge(struct buf *out, const char *name, const char *help, double v)
{
	prom_put_head(out, name, "gauge", help);
	buf_printf(out, "%s %.17g\n", name, v);
}

void prom_put_label(struct buf *out, struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] == '\\' || s.p[i] == '"')
			buf_putc(out, '\\');
		if (s.p[i] == '\n')
			buf_puts(out, "\\n");
		else
			buf_putc(out, s.p[i]);
	}
}
