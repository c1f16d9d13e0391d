#include "http/stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "http/thread.h"

static const int statuses[HTTP_STATUS_KINDS - 1] = { 200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410,
	                                             412, 413, 414, 415, 417, 422, 429, 431, 500, 501, 503, 505 };

static size_t status_row(int status)
{
	for (size_t i = 0; i < HTTP_STATUS_KINDS - 1; i++) {
		if (statuses[i] == status)
			return i;
	}
	return HTTP_STATUS_KINDS - 1;
}

void http_stats_answer(struct http_stats *s, const struct http_route *route, int status, uint64_t ns)
{
	struct http_route_stats *r = &s->routes[route ? (size_t)(route - http_routes) : HTTP_ROUTES_MAX];

	prom_count(&r->by_status[status_row(status)], 1);
	prom_observe(&r->latency, ns);
}

static uint64_t load(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

/* ---- per route ---- */

static void sum_route(const struct http_server *s, size_t row, struct http_route_stats *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (size_t t = 0; t < s->thread_count; t++) {
		const struct http_route_stats *r = &s->threads[t]->stats.routes[row];

		for (size_t i = 0; i < HTTP_STATUS_KINDS; i++)
			prom_count(&sum->by_status[i], load(&r->by_status[i]));
		prom_sum(&sum->latency, &r->latency);
	}
}

static void route_labels(size_t row, char *out, size_t cap)
{
	if (row < http_route_count)
		snprintf(out, cap, "method=\"%s\",route=\"%s\"", http_verb_names[http_routes[row].verb],
		         http_routes[row].path);
	else
		snprintf(out, cap, "method=\"\",route=\"unmatched\"");
}

static void put_requests(struct buf *out, const struct http_route_stats *r, const char *labels)
{
	for (size_t i = 0; i < HTTP_STATUS_KINDS; i++) {
		uint64_t n = load(&r->by_status[i]);

		if (n == 0)
			continue;
		if (i < HTTP_STATUS_KINDS - 1)
			buf_printf(out, "veena_http_requests_total{%s,status=\"%d\"} %" PRIu64 "\n", labels,
			           statuses[i], n);
		else
			buf_printf(out, "veena_http_requests_total{%s,status=\"other\"} %" PRIu64 "\n", labels, n);
	}
}

static void put_routes(const struct http_server *s, struct buf *out)
{
	struct http_route_stats sum;
	char labels[160];

	prom_put_head(out, "veena_http_requests_total", "counter", "Requests answered.");
	for (size_t row = 0; row <= http_route_count; row++) {
		size_t at = row < http_route_count ? row : HTTP_ROUTES_MAX;

		sum_route(s, at, &sum);
		route_labels(at, labels, sizeof(labels));
		put_requests(out, &sum, labels);
	}
	prom_put_head(out, "veena_http_request_duration_seconds", "histogram",
	              "Time from a whole request to its answer.");
	for (size_t row = 0; row < http_route_count; row++) {
		sum_route(s, row, &sum);
		route_labels(row, labels, sizeof(labels));
		prom_put_histogram(out, "veena_http_request_duration_seconds", labels, &sum.latency);
	}
}

/* ---- the rest ---- */

static const struct {
	const char *name, *type, *help;
	size_t offset;
} plain[] = {
	{ "veena_http_connections", "gauge", "Open client connections.", offsetof(struct http_stats, connections) },
	{ "veena_watchers", "gauge", "Streams of changes open now.", offsetof(struct http_stats, watchers) },
	{ "veena_http_connections_accepted_total", "counter", "Client connections accepted.",
	  offsetof(struct http_stats, accepted) },
	{ "veena_http_accept_failures_total", "counter", "Times accept failed for want of descriptors or memory.",
	  offsetof(struct http_stats, accept_failed) },
	{ "veena_http_refused_total", "counter", "Connections closed because a request broke a rule of HTTP.",
	  offsetof(struct http_stats, refused) },
	{ "veena_http_timeouts_total", "counter", "Connections cut by a time limit.",
	  offsetof(struct http_stats, timed_out) },
	{ "veena_http_evicted_total", "counter", "Connections closed to make room for others.",
	  offsetof(struct http_stats, evicted) },
	{ "veena_http_received_bytes_total", "counter", "Bytes received from clients.",
	  offsetof(struct http_stats, bytes_in) },
	{ "veena_http_sent_bytes_total", "counter", "Bytes sent to clients.", offsetof(struct http_stats, bytes_out) },
	{ "veena_forwarded_requests_total", "counter", "Requests sent on to the leader.",
	  offsetof(struct http_stats, forwarded_out) },
	{ "veena_forwarded_requests_received_total", "counter", "Requests that other servers sent on to this one.",
	  offsetof(struct http_stats, forwarded_in) },
};

static void put_watch_ends(const struct http_server *s, struct buf *out)
{
	prom_put_head(out, "veena_watch_closed_total", "counter", "Streams of changes that ended, by reason.");
	for (size_t why = 0; why < HTTP_WATCH_ENDS; why++) {
		uint64_t n = 0;

		for (size_t t = 0; t < s->thread_count; t++)
			n += load(&s->threads[t]->stats.watch_ended[why]);
		buf_printf(out, "veena_watch_closed_total{reason=\"%s\"} %" PRIu64 "\n", http_watch_end_words[why], n);
	}
}

void http_stats_write(const struct http_server *s, struct buf *out)
{
	put_routes(s, out);
	prom_put_gauge(out, "veena_http_request_bytes", "Memory that requests in hand hold of what they may.",
	               (double)atomic_load_explicit(&s->request_bytes, memory_order_relaxed));
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		uint64_t n = 0;

		for (size_t t = 0; t < s->thread_count; t++)
			n += load((const _Atomic uint64_t *)(const void *)((const char *)&s->threads[t]->stats +
			                                                   plain[i].offset));
		prom_put_head(out, plain[i].name, plain[i].type, plain[i].help);
		buf_printf(out, "%s %" PRIu64 "\n", plain[i].name, n);
	}
	put_watch_ends(s, out);
}
