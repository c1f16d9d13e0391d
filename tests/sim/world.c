#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim.h"

#define HEAL_BOUND_MS 30000 /* of virtual time: what a healed cluster may take to converge */

struct sim_world w;

/* ---- trace ---- */

static jmp_buf failed;

void world_trace(const char *fmt, ...)
{
	char line[512];
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(line))
		n = (int)sizeof(line) - 1;
	/* FNV-1a over time and text: any difference in order or content shows. */
	uint64_t h = w.trace_hash ^ w.now_us;
	for (int i = 0; i < n; i++)
		h = (h ^ (uint8_t)line[i]) * 1099511628211u;
	w.trace_hash = h;
	if (w.verbose)
		printf("%10.3f ms  %s\n", (double)w.now_us / 1000.0, line);
}

void world_fail(const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(w.failure, sizeof(w.failure), fmt, ap);
	va_end(ap);
	w.failed = true;
	longjmp(failed, 1);
}

static void on_log(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	api_log(line);
	if (w.verbose)
		printf("%10.3f ms  log %s", (double)w.now_us / 1000.0, line);
}

struct sim_node *world_find(const char *name)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		if (strcmp(w.nodes[i].name, name) == 0)
			return &w.nodes[i];
	}
	return NULL;
}

uint64_t world_draw(uint64_t n)
{
	return rand_below(&w.rand, n);
}

/* ---- events: a heap by time, then by order of making ---- */

struct event {
	uint64_t at_us;
	uint64_t seq;
	world_event run;
	uint64_t a, b;
	void *p;
};

static struct {
	struct event *items;
	size_t count, cap;
	uint64_t seq;
} heap;

static bool before(const struct event *x, const struct event *y)
{
	return x->at_us != y->at_us ? x->at_us < y->at_us : x->seq < y->seq;
}

void world_at(uint64_t delay_us, world_event run, uint64_t a, uint64_t b, void *p)
{
	if (heap.count == heap.cap) {
		heap.cap = heap.cap ? heap.cap * 2 : 1024;
		heap.items = mem_realloc(heap.items, heap.cap * sizeof(*heap.items));
	}
	size_t i = heap.count++;
	heap.items[i] = (struct event){ w.now_us + delay_us, ++heap.seq, run, a, b, p };
	while (i && before(&heap.items[i], &heap.items[(i - 1) / 2])) {
		const struct event tmp = heap.items[i];
		heap.items[i] = heap.items[(i - 1) / 2];
		heap.items[(i - 1) / 2] = tmp;
		i = (i - 1) / 2;
	}
}

static struct event take_event(void)
{
	const struct event first = heap.items[0];
	heap.items[0] = heap.items[--heap.count];
	for (size_t i = 0;;) {
		size_t least = i;
		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < heap.count; k++) {
			if (before(&heap.items[k], &heap.items[least]))
				least = k;
		}
		if (least == i)
			return first;
		const struct event tmp = heap.items[i];
		heap.items[i] = heap.items[least];
		heap.items[least] = tmp;
		i = least;
	}
}

/* ---- the run ---- */

/* Zero, that is never, in most runs: strikes that always come together hide what each would find. */
static uint64_t draw_every(uint64_t one_in, uint64_t least_ms, uint64_t more_ms)
{
	return world_draw(one_in) == 0 ? least_ms + world_draw(more_ms) : 0;
}

static void draw_network(struct sim_plan *p)
{
	p->loss_per_mille = world_draw(3) ? (uint32_t)world_draw(100) : 0;
	p->dup_per_mille = world_draw(3) ? (uint32_t)world_draw(50) : 0;
	p->delay_max_us = 500 + world_draw(world_draw(3) ? 10000 : 150000);
	p->append_bytes = world_draw(2) ? 0 : 64 + (uint32_t)world_draw(1000);
	p->log_slots = world_draw(2) ? 0 : 1 + (size_t)world_draw(4);
}

static void draw_speeds(struct sim_plan *p)
{
	p->disk_max_us = 200 + world_draw(world_draw(3) ? 2000 : 60000);
	p->apply_max_us = 200 + world_draw(world_draw(3) ? 2000 : 60000);
	p->write_every_us = 4000 + world_draw(40000);
	p->slow_node = world_draw(3) ? -1 : (int)world_draw((uint64_t)p->nodes);
}

static void draw_strikes(struct sim_plan *p)
{
	p->crash_every_ms = world_draw(5) ? 400 + world_draw(2500) : 0;
	p->split_every_ms = world_draw(4) ? 500 + world_draw(3000) : 0;
	p->pause_every_ms = draw_every(3, 1000, 4000);
	p->restart_every_ms = draw_every(3, 1000, 3000);
	p->break_every_ms = draw_every(4, 1000, 3000);
	p->hang_every_ms = draw_every(4, 1000, 4000);
	p->transfer_every_ms = draw_every(3, 300, 3000);
	p->change_every_ms = p->nodes > p->initial || world_draw(4) == 0 ? 500 + world_draw(2500) : 0;
	p->wipe_every_ms = draw_every(4, 1000, 3000);
	p->rot_every_ms = draw_every(6, 1000, 3000);
	p->power_per_cent = (uint32_t)world_draw(101);
	p->hunt_leaders = world_draw(4) == 0;
	if (p->hunt_leaders) {
		p->split_every_ms = 0;
		p->power_per_cent = (uint32_t)world_draw(20);
	}
}

/* Small ones: who is down or cut off for a moment finds the log gone behind it, and images are on their way often. */
static void draw_snapshots(struct sim_plan *p)
{
	p->segment_bytes = 64u << 10;
	if (world_draw(2))
		return;
	p->segment_bytes = 2048 + (uint32_t)world_draw(16384);
	p->snapshot_entries = world_draw(2) ? 16 : 64;
	p->chunk_bytes = world_draw(3) ? 4096 + (uint32_t)world_draw(65536) : 0;
}

/* Instead of all strikes: to override a write that is still on its way takes a rest that is well. */
static void draw_stalls(struct sim_plan *p)
{
	p->stall_leaders = true;
	p->loss_per_mille = 0;
	p->power_per_cent = 100;
}

static void draw_plan(uint64_t seed)
{
	struct sim_plan *p = &w.plan;
	p->seed = seed;
	p->initial = world_draw(3) ? 3 : 5;
	p->nodes = p->initial + (world_draw(3) ? 0 : 1 + (int)world_draw(2));
	p->safety_ms = 5000 + world_draw(6000);
	draw_network(p);
	draw_speeds(p);
	if (world_draw(8) == 0)
		draw_stalls(p);
	else
		draw_strikes(p);
	draw_snapshots(p);
}

static void step(void)
{
	const struct event e = take_event();
	w.now_us = e.at_us;
	w.current = -1;
	e.run(e.a, e.b, e.p);
	w.current = -1;
	life_bury_dead();
	life_schedule_woken();
}

void world_pass(uint64_t us)
{
	const uint64_t until_us = w.now_us + us;
	while (us && heap.count && heap.items[0].at_us <= until_us)
		step();
	if (w.now_us < until_us) /* another wait inside this one may have ended later */
		w.now_us = until_us;
}

static void heal(void)
{
	world_trace("healing");
	w.healing = true;
	strike_heal();
}

static void converge(void)
{
	const uint64_t until_us = w.now_us + HEAL_BOUND_MS * 1000;
	char why[200] = "";
	/* Clients go on for a while: a healed cluster must take writes again. Then they rest, and what is left settles.
	 */
	const uint64_t quiet_us = w.now_us + 2500000;
	const uint64_t acked = client_acked();
	while (w.now_us < until_us) {
		step();
		if (w.now_us <= quiet_us || heap.seq % 16)
			continue;
		w.resting = client_acked() > acked && (!api_is_on() || api_healed_creates());
		if (!w.resting)
			snprintf(why, sizeof(why), "no write was acknowledged");
		else if (check_converged(why, sizeof(why)) && api_check_converged(why, sizeof(why)))
			return;
	}
	world_fail("not converged %d s after healing: %s", HEAL_BOUND_MS / 1000, why);
}

static void build(uint64_t seed)
{
	char root[256];
	sim_root(seed, root, sizeof(root));
	if (mkdir(root, 0700) != 0 && errno != EEXIST)
		world_fail("cannot make %s: %s", root, strerror(errno));
	disk_init(root);
	rand_seed(&w.rand, seed);
	draw_plan(seed);
	net_reset();
	world_trace("seed %" PRIu64 " nodes %d", seed, w.plan.nodes);
	for (int i = 0; i < w.plan.nodes; i++) {
		struct sim_node *s = &w.nodes[i];
		s->number = i;
		snprintf(s->name, sizeof(s->name), "n%d", i + 1);
		snprintf(s->addr, sizeof(s->addr), "127.0.0.1:%d", 7000 + i);
		snprintf(s->dir, sizeof(s->dir), "%s/%s", root, s->name);
		if (mkdir(s->dir, 0700) != 0)
			world_fail("cannot make %s: %s", s->dir, strerror(errno));
		life_start_later(i, world_draw(300000));
	}
	client_start();
	noise_start(seed);
	api_start(seed);
	strike_start();
}

void world_run(uint64_t seed, bool verbose)
{
	memset(&w, 0, sizeof(w));
	w.current = -1;
	w.verbose = verbose;
	log_configure(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_set_sink(on_log, NULL);
	if (setjmp(failed))
		return;
	build(seed);
	while (w.now_us < w.plan.safety_ms * 1000)
		step();
	heal();
	converge();
	client_check_end();
	noise_check_end();
	api_check_end();
	world_trace("end");
}
