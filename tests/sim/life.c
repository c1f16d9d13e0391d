/* A node's life: it starts, its threads take turns, it rests in good order or dies, and it starts again. */
#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "model/commands.h"
#include "node/node_internal.h"
#include "sim.h"

#define POOL_EVERY_US 3000
#define WAITS_MAX 4 /* log threads that wait for their disks at the same time */
#define SEGMENT_HEADER 64
#define ROT_BYTES 16            /* more than what may be unused between two records */
#define STOPPED_GRACE_US 500000 /* a node that cannot go on says so for a while before it ends */
#define START_AGAIN_US 300000   /* after a start that a broken disk prevented */

enum { TURN_CONSENSUS, TURN_LOG, TURN_APPLY, TURN_UPPER };

bool world_is_up(int node)
{
	return w.nodes[node].node && !disk_is_mute(node);
}

static void start_node(uint64_t number, uint64_t run, void *p);
static void turn(uint64_t number, uint64_t b, void *p);
static void pool_tick(uint64_t number, uint64_t b, void *p);

static int turn_count(void)
{
	return api_is_on() ? SIM_TURNS : TURN_UPPER;
}

static void schedule(struct sim_node *s, int which, uint64_t at_us)
{
	if (s->turn_at_us[which] && s->turn_at_us[which] <= at_us)
		return;
	s->turn_at_us[which] = at_us;
	world_at(at_us > w.now_us ? at_us - w.now_us : 0, turn, (uint64_t)s->number, (s->run << 3) | (uint64_t)which,
	         NULL);
}

static struct wake *wake_of(struct sim_node *s, int which)
{
	switch (which) {
	case TURN_CONSENSUS: return node_wake(s->node);
	case TURN_LOG: return node_log_wake(s->node);
	case TURN_APPLY: return node_apply_wake(s->node);
	default: return api_wake(s->number, which);
	}
}

static uint64_t latency_us(const struct sim_node *s, int which)
{
	const uint64_t slow = !w.healing && s->number == w.plan.slow_node ? 10 : 1;
	switch (which) {
	case TURN_CONSENSUS: return slow * (5 + world_draw(100));
	case TURN_LOG: return slow * (50 + world_draw(w.healing ? 500 : w.plan.disk_max_us + 1));
	default: return slow * (20 + world_draw(w.healing ? 500 : w.plan.apply_max_us + 1));
	}
}

/* Threads that were signalled since they went to sleep get their turn some time later. */
void life_schedule_woken(void)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		struct sim_node *s = &w.nodes[i];
		for (int k = 0; s->node && k < turn_count(); k++) {
			struct wake *wake = wake_of(s, k);
			if (atomic_load(&wake->asleep))
				continue;
			wake_clear(wake);
			wake_prepare(wake);
			schedule(s, k, w.now_us + latency_us(s, k));
		}
	}
}

/* ---- the end of a process ---- */

static void free_objects(struct sim_node *s)
{
	client_node_down(s->number);
	noise_node_down(s->number);
	pool_close(s->pool);
	while (pool_turn(s->pool))
		; /* jobs end before what they work for; what a dead node writes is undone with the rest */
	api_node_down(s->number);
	node_close(s->node);
	net_peers_free(s->net);
	pool_free(s->pool);
	s->node = NULL;
	s->net = NULL;
	s->pool = NULL;
	s->leaving = false;
	s->run++;
	memset(s->turn_at_us, 0, sizeof(s->turn_at_us));
	net_node_down(s->number);
}

/* Bytes that the log knows to be durable are others now: a start must refuse, whatever stands behind them. */
static void rot(struct sim_node *s)
{
	char path[sizeof(s->dir) + 64];
	uint8_t bytes[ROT_BYTES];
	snprintf(path, sizeof(path), "%s/wal/%s", s->dir, s->declared_file);
	FILE *f = s->declared_bytes > SEGMENT_HEADER + ROT_BYTES ? fopen(path, "r+") : NULL;
	s->rot = false;
	if (!f)
		return; /* nothing was written, or the segment is gone */
	const size_t at = SEGMENT_HEADER + (size_t)world_draw(s->declared_bytes - SEGMENT_HEADER - ROT_BYTES);
	bool done = fseek(f, (long)at, SEEK_SET) == 0 && fread(bytes, 1, ROT_BYTES, f) == ROT_BYTES;
	for (size_t i = 0; i < ROT_BYTES; i++)
		bytes[i] ^= 0x5a;
	done = done && fseek(f, (long)at, SEEK_SET) == 0 && fwrite(bytes, 1, ROT_BYTES, f) == ROT_BYTES;
	done = fclose(f) == 0 && done;
	assert(done);
	s->rot = true;
	world_trace("rot %s %s at %zu", s->name, s->declared_file, at);
}

/* The disk of a node that is down becomes what the next start finds. */
static void settle_disk(struct sim_node *s, enum disk_crash kind)
{
	if (s->wipe)
		disk_wipe(s->number);
	else
		disk_crash(s->number, kind, &w.rand);
	s->wipe = false;
	if (s->rot)
		rot(s);
	s->boots += kind == DISK_POWER_CUT;
}

static enum disk_crash draw_crash(struct sim_node *s)
{
	const bool power = world_draw(100) < w.plan.power_per_cent;
	world_trace("crash %s %s", s->name, power ? "power" : "kill");
	return power ? DISK_POWER_CUT : DISK_KILLED;
}

/* The dead process' objects go, then the disk forgets what the seed takes; some time later it starts again. */
static void bury(struct sim_node *s)
{
	const enum disk_crash kind = draw_crash(s);
	disk_make_mute(s->number);
	w.current = s->number;
	free_objects(s);
	w.current = -1;
	settle_disk(s, kind);
	life_start_later(s->number, 50000 + world_draw(w.healing ? 100000 : 2000000));
}

/* As the daemon ends: log and apply work their queues off, the database is marked clean. The power may go afterwards.
 */
static void rest(struct sim_node *s)
{
	world_trace("rest %s", s->name);
	w.current = s->number;
	while (node_log_turn(s->node) && !disk_is_mute(s->number))
		;
	while (node_apply_turn(s->node) && !disk_is_mute(s->number))
		;
	if (disk_is_mute(s->number))
		return; /* died on the way: it is buried instead */
	free_objects(s);
	w.current = -1;
	if (disk_is_mute(s->number) || world_draw(4) == 0)
		settle_disk(s, draw_crash(s));
	life_start_later(s->number, 50000 + world_draw(w.healing ? 100000 : 1000000));
}

void life_bury_dead(void)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		struct sim_node *s = &w.nodes[i];
		if (s->node && disk_is_mute(i) && !s->in_sync)
			bury(s);
	}
}

static void rest_later(uint64_t number, uint64_t run, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	if (!s->node || s->run != run || disk_is_mute((int)number))
		return;
	if (s->in_sync)
		world_at(1000, rest_later, number, run, NULL);
	else
		rest(s);
}

/* The daemon's main thread: looks whether the node was drained, or can no longer go on. */
static void look_for_end(struct sim_node *s)
{
	const bool stopped = s->node->stopped[0] != '\0';
	if (s->ending || (!stopped && !(s->leaving && node_is_drained(s->node))))
		return;
	if (stopped)
		world_trace("stopped %s", s->name); /* its log line says why, naming files of this run alone */
	s->ending = true;
	world_at(stopped ? STOPPED_GRACE_US : 1, rest_later, (uint64_t)s->number, s->run, NULL);
}

/* ---- a log thread waits for its disk ---- */

int __real_wal_sync(struct wal *wal, struct err *e);
int __wrap_wal_sync(struct wal *wal, struct err *e);

static int waits; /* calls that did not come back yet */

static uint64_t draw_wait_us(const struct sim_node *s)
{
	if (w.now_us < s->hung_until_us)
		return s->hung_until_us - w.now_us;
	return world_draw(8) ? 0 : world_draw(w.healing ? 1000 : 2 * w.plan.disk_max_us + 1);
}

/* Linked by --wrap. While the call is in the kernel everybody else goes on, this node's consensus thread too. */
int __wrap_wal_sync(struct wal *wal, struct err *e)
{
	const int node = w.current;
	struct sim_node *s = node < 0 ? NULL : &w.nodes[node];
	if (s && s->node && !disk_is_mute(node) && waits < WAITS_MAX) {
		waits++;
		s->in_sync = true;
		world_pass(draw_wait_us(s));
		s->in_sync = false;
		waits--;
		w.current = node;
	}
	return __real_wal_sync(wal, e);
}

/* ---- turns ---- */

static void schedule_at_ms(struct sim_node *s, int which, uint64_t next_ms)
{
	if (next_ms == UINT64_MAX)
		return;
	const uint64_t now_ms = clock_mono_ms();
	const uint64_t wait_ms = next_ms > now_ms ? next_ms - now_ms : 0;
	schedule(s, which, w.now_us + (wait_ms > 60000 ? 60000 : wait_ms) * 1000 + world_draw(500));
}

static void consensus_turn(struct sim_node *s)
{
	const uint64_t next_ms = node_turn(s->node, clock_mono_ms());
	if (disk_is_mute(s->number))
		return;
	check_node(s->number);
	look_for_end(s);
	schedule_at_ms(s, TURN_CONSENSUS, next_ms);
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
	case TURN_APPLY:
		more = turns_of(s, node_apply_turn);
		if (!disk_is_mute(s->number))
			check_digest(s->number);
		break;
	default: schedule_at_ms(s, which, api_turn(s->number, which)); break;
	}
	wake_prepare(wake);
	if (more)
		wake_signal(wake);
}

static void turn(uint64_t number, uint64_t b, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	const int which = (int)(b & 7);
	if (!s->node || s->run != b >> 3 || s->turn_at_us[which] != w.now_us)
		return;
	s->turn_at_us[which] = 0;
	if (w.now_us < s->paused_until_us || (which == TURN_LOG && s->in_sync)) {
		const uint64_t from_us = w.now_us < s->paused_until_us ? s->paused_until_us : w.now_us;
		schedule(s, which, from_us + latency_us(s, which));
		return;
	}
	if (disk_is_mute(s->number))
		return; /* its log thread has yet to come back from the kernel */
	w.current = s->number;
	run_turn(s, which);
	if (disk_is_mute(s->number))
		return;
	client_poll(s->number);
	noise_poll(s->number);
}

static void pool_tick(uint64_t number, uint64_t b, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	if (!s->node || s->run != b)
		return;
	world_at(POOL_EVERY_US + world_draw(POOL_EVERY_US), pool_tick, number, b, NULL);
	if (w.now_us < s->paused_until_us || disk_is_mute(s->number))
		return;
	w.current = s->number;
	pool_turn(s->pool);
}

/* ---- starting ---- */

static const struct node_peer_addr *peer_list(void)
{
	static struct node_peer_addr peers[SIM_NODES_MAX];
	for (int i = 0; i < w.plan.initial; i++) {
		snprintf(peers[i].name, sizeof(peers[i].name), "%s", w.nodes[i].name);
		snprintf(peers[i].addr, sizeof(peers[i].addr), "%s", w.nodes[i].addr);
	}
	return peers;
}

static int open_node(struct sim_node *s, struct err *e)
{
	const char *join[SIM_NODES_MAX];
	const bool joins = s->number >= w.plan.initial;
	for (int i = 0; i < w.plan.initial; i++)
		join[i] = w.nodes[i].addr;
	const struct node_options o = {
		.id = s->name,
		.data_dir = s->dir,
		.http_addr = s->addr,
		.cluster_addr = s->addr,
		.peers = peer_list(),
		.peer_count = joins ? 0 : (size_t)w.plan.initial,
		.join = join,
		.join_count = joins ? (size_t)w.plan.initial : 0,
		.own_partitions = true,
		.build = "sim",
		.max_entry_type = COMMAND_MAX,
		.heartbeat_ms = 100,
		.election_ms = 500,
		.member_heartbeat_ms = api_is_on() ? SIM_MEMBER_HEARTBEAT_MS : 5000,
		.snapshot_entries = w.plan.snapshot_entries ? w.plan.snapshot_entries : UINT64_MAX / 2,
		.snapshot_interval_s = 1,
		.snapshots_kept = 2,
		.map_gib = 1,
		.segment_bytes = w.plan.segment_bytes,
		.chunk_bytes = w.plan.chunk_bytes,
		.append_bytes = w.plan.append_bytes,
		.log_slots = w.plan.log_slots,
		.seed = 1 + world_draw(UINT64_MAX - 1),
		.pool = s->pool,
	};
	return node_open(&o, &s->node, e);
}

/* A broken disk, or a crash on the way. */
static void start_failed(struct sim_node *s, const char *why)
{
	world_trace("no start %s", s->name);
	log_info("sim.no_start", "reason=\"%s\"", why); /* names files of this run alone: not for the trace */
	while (pool_turn(s->pool))
		;
	pool_free(s->pool);
	s->pool = NULL;
	if (disk_is_mute(s->number))
		settle_disk(s, draw_crash(s));
	life_start_later(s->number, START_AGAIN_US);
}

/* Refused, as it must be; the operator replaces the disk. */
static void start_damaged(struct sim_node *s)
{
	s->rot = false;
	s->wipe = true;
	disk_make_mute(s->number);
	start_failed(s, "damaged");
}

/* Up to the last byte that is not zero. */
static size_t used_bytes(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t used = 0;
	size_t at = 0;
	for (int byte = f ? getc(f) : EOF; byte != EOF; byte = getc(f)) {
		at++;
		if (byte)
			used = at;
	}
	if (f)
		fclose(f);
	return used;
}

/* What a start found or wrote is declared durable by it. */
static void note_declared(struct sim_node *s)
{
	char path[sizeof(s->dir) + 64];
	struct dirent **names;
	snprintf(path, sizeof(path), "%s/wal", s->dir);
	const int count = scandir(path, &names, NULL, alphasort);
	assert(count >= 0);
	for (int i = 0; i < count; i++) {
		if (strlen(names[i]->d_name) == 20) /* the newest comes last */
			snprintf(s->declared_file, sizeof(s->declared_file), "%s", names[i]->d_name);
		free(names[i]);
	}
	free(names);
	snprintf(path, sizeof(path), "%s/wal/%s", s->dir, s->declared_file);
	s->declared_bytes = used_bytes(path);
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
	s->ending = false;
	const uint64_t failures = disk_failures(s->number);
	struct err e;
	const int rc = open_node(s, &e);
	if (s->rot && !disk_is_mute(s->number) && disk_failures(s->number) == failures) {
		if (rc != ERR_CORRUPT)
			world_fail("%s starts on a damaged log", s->name);
		start_damaged(s);
		return;
	}
	if (rc != 0) {
		if (disk_failures(s->number) == failures && !disk_is_mute(s->number))
			world_fail("%s does not start: %s", s->name, e.msg);
		start_failed(s, e.msg);
		return;
	}
	struct net_options net = { .pool = s->pool, .hooks = node_net_hooks(s->node) };
	node_self_hello(s->node, &net.self);
	s->net = net_peers_new(&net);
	node_attach_net(s->node, s->net);
	api_node_up(s->number);
	net_node_up(s->number);
	promise_started(s->number);
	check_started(s->number);
	if (w.plan.rot_every_ms)
		note_declared(s);
	for (int k = 0; k < turn_count(); k++) {
		wake_prepare(wake_of(s, k));
		schedule(s, k, w.now_us + latency_us(s, k));
	}
	world_at(POOL_EVERY_US, pool_tick, number, s->run, NULL);
}

void life_start_later(int node, uint64_t delay_us)
{
	world_at(delay_us, start_node, (uint64_t)node, w.nodes[node].run, NULL);
}

void life_end(int node)
{
	struct sim_node *s = &w.nodes[node];
	s->leaving = true;
	node_begin_stop(s->node);
}
