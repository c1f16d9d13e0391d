#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "sim.h"

#define HEAL_BOUND_MS 30000 /* of virtual time: what a healed cluster may take to converge */
#define POOL_EVERY_US 3000
#define WATCH_EVERY 64 /* events between two looks at all logs */

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
	if (w.verbose)
		printf("%10.3f ms  log %s", (double)w.now_us / 1000.0, line);
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

/* ---- a node's life ---- */

enum { TURN_CONSENSUS, TURN_LOG, TURN_APPLY, TURN_COUNT };

bool world_is_up(int node)
{
	return w.nodes[node].node && !disk_is_mute(node);
}

static void start_node(uint64_t number, uint64_t b, void *p);
static void turn(uint64_t number, uint64_t b, void *p);
static void pool_tick(uint64_t number, uint64_t b, void *p);

static void schedule(struct sim_node *s, int which, uint64_t at_us)
{
	if (s->turn_at_us[which] && s->turn_at_us[which] <= at_us)
		return;
	s->turn_at_us[which] = at_us;
	world_at(at_us > w.now_us ? at_us - w.now_us : 0, turn, (uint64_t)s->number, (s->run << 2) | (uint64_t)which,
	         NULL);
}

static struct wake *wake_of(struct sim_node *s, int which)
{
	switch (which) {
	case TURN_CONSENSUS: return node_wake(s->node);
	case TURN_LOG: return node_log_wake(s->node);
	default: return node_apply_wake(s->node);
	}
}

static uint64_t latency_us(int which)
{
	switch (which) {
	case TURN_CONSENSUS: return 5 + world_draw(100);
	case TURN_LOG: return 50 + world_draw(w.healing ? 500 : w.plan.disk_max_us + 1);
	default: return 20 + world_draw(w.healing ? 500 : w.plan.apply_max_us + 1);
	}
}

/* Threads that were signalled since they went to sleep get their turn some time later. */
static void schedule_woken(void)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		struct sim_node *s = &w.nodes[i];
		for (int k = 0; s->node && k < TURN_COUNT; k++) {
			struct wake *wake = wake_of(s, k);
			if (atomic_load(&wake->asleep))
				continue;
			wake_clear(wake);
			wake_prepare(wake);
			schedule(s, k, w.now_us + latency_us(k));
		}
	}
}

/* The dead process' objects go, then the disk forgets what the seed takes; some time later it starts again. */
static void bury(struct sim_node *s)
{
	const bool power = world_draw(100) < w.plan.power_per_cent;
	world_trace("crash %s %s", s->name, power ? "power" : "kill");
	disk_make_mute(s->number);
	w.current = s->number;
	client_node_down(s->number);
	pool_close(s->pool);
	while (pool_turn(s->pool))
		; /* jobs end before what they work for; what they write is undone with the rest */
	node_close(s->node);
	net_peers_free(s->net);
	pool_free(s->pool);
	s->node = NULL;
	s->net = NULL;
	s->pool = NULL;
	w.current = -1;
	disk_crash(s->number, power ? DISK_POWER_CUT : DISK_KILLED, &w.rand);
	s->boots += power;
	s->run++;
	memset(s->turn_at_us, 0, sizeof(s->turn_at_us));
	net_node_down(s->number);
	world_at(50000 + world_draw(w.healing ? 100000 : 2000000), start_node, (uint64_t)s->number, s->run, NULL);
}

static void consensus_turn(struct sim_node *s)
{
	const uint64_t next_ms = node_turn(s->node, clock_mono_ms());
	if (disk_is_mute(s->number))
		return;
	check_node(s->number);
	if (next_ms == UINT64_MAX)
		return;
	const uint64_t now_ms = clock_mono_ms();
	const uint64_t wait_ms = next_ms > now_ms ? next_ms - now_ms : 0;
	schedule(s, TURN_CONSENSUS, w.now_us + (wait_ms > 60000 ? 60000 : wait_ms) * 1000 + world_draw(500));
}

/* Several turns in a row, as a busy thread does. True: it was stopped with work left. */
static bool turns_of(struct sim_node *s, bool (*one)(struct node *n))
{
	while (one(s->node)) {
		if (world_draw(4) == 0)
			return true;
	}
	return false;
}

static void run_turn(struct sim_node *s, int which)
{
	struct wake *wake = wake_of(s, which);
	bool more = false;
	wake_clear(wake);
	switch (which) {
	case TURN_CONSENSUS: consensus_turn(s); break;
	case TURN_LOG: more = turns_of(s, node_log_turn); break;
	default:
		more = turns_of(s, node_apply_turn);
		if (!disk_is_mute(s->number))
			check_digest(s->number);
		break;
	}
	wake_prepare(wake);
	if (more)
		wake_signal(wake);
}

static void turn(uint64_t number, uint64_t b, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	const int which = (int)(b & 3);
	if (!s->node || s->run != b >> 2 || s->turn_at_us[which] != w.now_us)
		return;
	s->turn_at_us[which] = 0;
	if (w.now_us < s->paused_until_us) {
		schedule(s, which, s->paused_until_us + latency_us(which));
		return;
	}
	w.current = s->number;
	run_turn(s, which);
	if (!disk_is_mute(s->number))
		client_poll(s->number);
}

static void pool_tick(uint64_t number, uint64_t b, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	if (!s->node || s->run != b)
		return;
	world_at(POOL_EVERY_US + world_draw(POOL_EVERY_US), pool_tick, number, b, NULL);
	if (w.now_us < s->paused_until_us)
		return;
	w.current = s->number;
	pool_turn(s->pool);
}

static const struct node_peer_addr *peer_list(void)
{
	static struct node_peer_addr peers[SIM_NODES_MAX];
	for (int i = 0; i < w.plan.nodes; i++) {
		snprintf(peers[i].name, sizeof(peers[i].name), "%s", w.nodes[i].name);
		snprintf(peers[i].addr, sizeof(peers[i].addr), "%s", w.nodes[i].addr);
	}
	return peers;
}

static void start_node(uint64_t number, uint64_t run, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	if (s->node || s->run != run)
		return;
	w.current = s->number;
	world_trace("start %s", s->name);
	s->pool = pool_new();
	const struct node_options o = {
		.id = s->name,
		.data_dir = s->dir,
		.http_addr = s->addr,
		.cluster_addr = s->addr,
		.peers = peer_list(),
		.peer_count = (size_t)w.plan.nodes,
		.own_partitions = true,
		.build = "sim",
		.max_entry_type = 64,
		.heartbeat_ms = 100,
		.election_ms = 500,
		.member_heartbeat_ms = 5000,
		.snapshot_entries = 1000000,
		.snapshot_interval_s = 120,
		.snapshots_kept = 2,
		.map_gib = 1,
		.segment_bytes = 64 << 10,
		.append_bytes = w.plan.append_bytes,
		.seed = 1 + world_draw(UINT64_MAX - 1),
		.pool = s->pool,
	};
	struct err e;
	if (node_open(&o, &s->node, &e) != 0)
		world_fail("%s does not start: %s", s->name, e.msg);
	struct net_options net = { .pool = s->pool, .hooks = node_net_hooks(s->node) };
	node_self_hello(s->node, &net.self);
	s->net = net_peers_new(&net);
	node_attach_net(s->node, s->net);
	net_node_up(s->number);
	for (int k = 0; k < TURN_COUNT; k++) {
		wake_prepare(wake_of(s, k));
		schedule(s, k, w.now_us + latency_us(k));
	}
	world_at(POOL_EVERY_US, pool_tick, number, s->run, NULL);
}

/* ---- faults ---- */

static void crash_someone(uint64_t a, uint64_t b, void *p)
{
	(void)a;
	(void)b;
	(void)p;
	if (w.healing)
		return;
	world_at(1 + world_draw(2 * w.plan.crash_every_ms * 1000), crash_someone, 0, 0, NULL);
	const int victim = (int)world_draw((uint64_t)w.plan.nodes);
	if (world_is_up(victim))
		disk_crash_after(victim, 1 + world_draw(40));
}

static void pause_someone(uint64_t a, uint64_t b, void *p)
{
	(void)a;
	(void)b;
	(void)p;
	if (w.healing)
		return;
	world_at(1 + world_draw(2 * w.plan.pause_every_ms * 1000), pause_someone, 0, 0, NULL);
	struct sim_node *s = &w.nodes[world_draw((uint64_t)w.plan.nodes)];
	s->paused_until_us = w.now_us + world_draw(3000000);
	s->wall_skew_ms += (int64_t)world_draw(20001) - 10000;
	world_trace("pause %s until %" PRIu64, s->name, s->paused_until_us);
}

static void cut_links(uint64_t a, uint64_t b, void *p)
{
	(void)a;
	(void)b;
	(void)p;
	if (w.healing)
		return;
	world_at(1 + world_draw(2 * w.plan.split_every_ms * 1000), cut_links, 0, 0, NULL);
	memset(w.cut, 0, sizeof(w.cut));
	const uint64_t kind = world_draw(4);
	if (kind == 0) {
		world_trace("net healed");
	} else if (kind == 1) {
		/* One link, one way or both. */
		const int x = (int)world_draw((uint64_t)w.plan.nodes);
		const int y = (int)world_draw((uint64_t)w.plan.nodes);
		w.cut[x][y] = x != y;
		w.cut[y][x] = x != y && world_draw(2);
		world_trace("cut n%d n%d", x + 1, y + 1);
	} else {
		const uint64_t side = world_draw((uint64_t)1 << w.plan.nodes);
		for (int x = 0; x < w.plan.nodes; x++) {
			for (int y = 0; y < w.plan.nodes; y++)
				w.cut[x][y] = (side >> x & 1) != (side >> y & 1);
		}
		world_trace("split %" PRIu64, side);
	}
	net_breathe();
}

static void kill_leader(uint64_t number, uint64_t run, void *p)
{
	(void)p;
	if (!w.healing && world_is_up((int)number) && w.nodes[number].run == run)
		disk_crash_after((int)number, 1 + world_draw(6));
}

static void release_leader(uint64_t number, uint64_t b, void *p)
{
	(void)b;
	(void)p;
	for (int i = 0; i < w.plan.nodes; i++) {
		w.cut[number][i] = false;
		w.cut[i][number] = false;
	}
}

/* Figure 8 of the paper needs leaders that reach a few, then die: chance alone makes such runs too rare. */
void world_on_leader(int node)
{
	if (w.healing || !w.plan.hunt_leaders)
		return;
	for (int i = 0; i < w.plan.nodes; i++) {
		w.cut[node][i] = i != node && world_draw(2);
		w.cut[i][node] = w.cut[node][i];
	}
	world_trace("hunt %s", w.nodes[node].name);
	if (world_draw(3))
		world_at(1000 + world_draw(150000), kill_leader, (uint64_t)node, w.nodes[node].run, NULL);
	world_at(world_draw(400000), release_leader, (uint64_t)node, 0, NULL);
}

/* ---- the run ---- */

static void draw_plan(uint64_t seed)
{
	struct sim_plan *p = &w.plan;
	p->seed = seed;
	p->nodes = world_draw(3) ? 3 : 5;
	p->safety_ms = 6000 + world_draw(8000);
	p->loss_per_mille = world_draw(3) ? (uint32_t)world_draw(100) : 0;
	p->dup_per_mille = world_draw(3) ? (uint32_t)world_draw(50) : 0;
	p->delay_max_us = 500 + world_draw(world_draw(3) ? 10000 : 150000);
	p->disk_max_us = 200 + world_draw(world_draw(3) ? 2000 : 60000);
	p->apply_max_us = 200 + world_draw(world_draw(3) ? 2000 : 60000);
	p->crash_every_ms = world_draw(5) ? 400 + world_draw(2500) : 0;
	p->split_every_ms = world_draw(4) ? 500 + world_draw(3000) : 0;
	p->pause_every_ms = world_draw(3) ? 0 : 1000 + world_draw(4000);
	p->power_per_cent = (uint32_t)world_draw(101);
	p->write_every_us = 2000 + world_draw(30000);
	p->append_bytes = world_draw(2) ? 0 : 64 + (uint32_t)world_draw(1000);
	p->hunt_leaders = world_draw(4) == 0;
	if (p->hunt_leaders) {
		p->nodes = 5;
		p->split_every_ms = 0;
		p->power_per_cent = (uint32_t)world_draw(20);
	}
}

static void step(void)
{
	const struct event e = take_event();
	w.now_us = e.at_us;
	w.current = -1;
	e.run(e.a, e.b, e.p);
	w.current = -1;
	for (int i = 0; i < w.plan.nodes; i++) {
		if (w.nodes[i].node && disk_is_mute(i))
			bury(&w.nodes[i]);
	}
	schedule_woken();
	if (heap.seq % WATCH_EVERY == 0)
		check_logs();
}

static void heal(void)
{
	world_trace("healing");
	w.healing = true;
	memset(w.cut, 0, sizeof(w.cut));
	for (int i = 0; i < w.plan.nodes; i++) {
		w.nodes[i].paused_until_us = 0;
		w.nodes[i].wall_skew_ms = 0;
		disk_crash_after(i, 0);
	}
}

static void converge(void)
{
	const uint64_t until_us = w.now_us + HEAL_BOUND_MS * 1000;
	char why[200] = "";
	/* Clients go on for a while: a healed cluster must take writes again. */
	const uint64_t quiet_us = w.now_us + 5000000;
	while (w.now_us < until_us) {
		step();
		if (w.now_us > quiet_us && heap.seq % 16 == 0 && check_converged(why, sizeof(why)))
			return;
	}
	world_fail("not converged %d s after healing: %s", HEAL_BOUND_MS / 1000, why);
}

static void build(uint64_t seed)
{
	char root[256];
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(root, sizeof(root), "%s/veena-sim-%d", tmp, (int)getpid());
	if (mkdir(root, 0700) != 0 && errno != EEXIST)
		world_fail("cannot make %s: %s", root, strerror(errno));
	disk_init(root);
	rand_seed(&w.rand, seed);
	draw_plan(seed);
	net_reset();
	check_reset();
	world_trace("seed %" PRIu64 " nodes %d", seed, w.plan.nodes);
	for (int i = 0; i < w.plan.nodes; i++) {
		struct sim_node *s = &w.nodes[i];
		s->number = i;
		snprintf(s->name, sizeof(s->name), "n%d", i + 1);
		snprintf(s->addr, sizeof(s->addr), "127.0.0.1:%d", 7000 + i);
		snprintf(s->dir, sizeof(s->dir), "%s/%s", root, s->name);
		if (mkdir(s->dir, 0700) != 0)
			world_fail("cannot make %s: %s", s->dir, strerror(errno));
		world_at(world_draw(300000), start_node, (uint64_t)i, 0, NULL);
	}
	client_start();
	if (w.plan.crash_every_ms)
		world_at(1000000, crash_someone, 0, 0, NULL);
	if (w.plan.split_every_ms)
		world_at(1000000, cut_links, 0, 0, NULL);
	if (w.plan.pause_every_ms)
		world_at(1000000, pause_someone, 0, 0, NULL);
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
	check_logs();
	client_check_end();
	world_trace("end");
}
