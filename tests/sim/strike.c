/* What befalls the cluster while it must stay safe: crashes, pauses, cuts, broken and hanging disks, and operators that
 * change its members. Each kind comes at random times around its mean, and ends when healing begins. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "node/node_internal.h"
#include "sim.h"

static struct sim_node *any_node(void)
{
	return &w.nodes[world_draw((uint64_t)w.plan.nodes)];
}

static struct sim_node *leader(void)
{
	for (int i = 0; i < w.plan.nodes; i++) {
		if (world_is_up(i) && node_is_leader(w.nodes[i].node))
			return &w.nodes[i];
	}
	return NULL;
}

/* ---- processes ---- */

static void crash_someone(void)
{
	disk_crash_after(any_node()->number, 1 + world_draw(40)); /* one that is down dies while it starts */
}

static void pause_someone(void)
{
	struct sim_node *s = any_node();
	s->paused_until_us = w.now_us + world_draw(3000000);
	s->wall_skew_ms += (int64_t)world_draw(20001) - 10000;
	world_trace("pause %s until %" PRIu64, s->name, s->paused_until_us);
}

static void restart_someone(void)
{
	const struct sim_node *s = any_node();
	if (!world_is_up(s->number) || s->leaving)
		return;
	world_trace("stop %s", s->name);
	life_end(s->number);
}

/* ---- disks ---- */

static void mend_disk(uint64_t node, uint64_t b, void *p)
{
	(void)b;
	(void)p;
	world_trace("disk of %s is mended", w.nodes[node].name);
	disk_fail((int)node, DISK_WRITE, 0, 0);
	disk_fail((int)node, DISK_SYNC, 0, 0);
}

static void break_disk(void)
{
	const struct sim_node *s = any_node();
	const uint64_t kind = world_draw(3);
	world_trace("disk of %s breaks: %s", s->name, kind == 0 ? "full" : kind == 1 ? "write" : "sync");
	if (kind == 0)
		disk_fail(s->number, DISK_WRITE, ENOSPC, UINT64_MAX);
	else if (kind == 1)
		disk_fail(s->number, DISK_WRITE, EIO, 1 + world_draw(3));
	else
		disk_fail(s->number, DISK_SYNC, EIO, 1 + world_draw(2));
	world_at(world_draw(4000000), mend_disk, (uint64_t)s->number, 0, NULL);
}

static void crash_soon(uint64_t number, uint64_t run, void *p)
{
	(void)p;
	if (!w.healing && world_is_up((int)number) && w.nodes[number].run == run)
		disk_crash_after((int)number, 1 + world_draw(6));
}

/* A call does not come back for seconds; at times the power goes when it does. */
static void hang_disk(void)
{
	struct sim_node *s = any_node();
	const uint64_t us = world_draw(5000000);
	s->hung_until_us = w.now_us + us;
	world_trace("disk of %s hangs until %" PRIu64, s->name, s->hung_until_us);
	if (world_draw(2))
		world_at(us, crash_soon, (uint64_t)s->number, s->run, NULL);
}

/* ---- network ---- */

static void cut_links(void)
{
	memset(w.cut, 0, sizeof(w.cut));
	const uint64_t kind = world_draw(4);
	if (kind == 0) {
		world_trace("net healed");
	} else if (kind == 1) {
		/* One link, one way or both. */
		const int x = any_node()->number;
		const int y = any_node()->number;
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

static void release_leader(uint64_t number, uint64_t b, void *p)
{
	(void)b;
	(void)p;
	for (int i = 0; i < w.plan.nodes; i++) {
		w.cut[number][i] = false;
		w.cut[i][number] = false;
	}
}

/* A leader that is alone with a write that does not end: when others reach it again under their new leader, they
 * override what is still on its way to the disk. */
static void stall_leader(uint64_t number, uint64_t run, void *p)
{
	(void)p;
	struct sim_node *s = &w.nodes[number];
	if (w.healing || !world_is_up(s->number) || s->run != run || !node_is_leader(s->node))
		return;
	const uint64_t us = 1800000 + world_draw(1500000);
	s->hung_until_us = w.now_us + us;
	for (int i = 0; i < w.plan.nodes; i++) {
		w.cut[s->number][i] = i != s->number;
		w.cut[i][s->number] = i != s->number;
	}
	world_trace("stall %s until %" PRIu64, s->name, s->hung_until_us);
	world_at(us - 50000 - world_draw(400000), release_leader, (uint64_t)s->number, 0, NULL);
	world_at(us + world_draw(20000), crash_soon, (uint64_t)s->number, s->run, NULL);
}

/* Figure 8 of the paper needs leaders that reach a few, then die: chance alone makes such runs too rare. */
void strike_on_leader(int node)
{
	if (w.plan.stall_leaders)
		world_at(200000 + world_draw(1000000), stall_leader, (uint64_t)node, w.nodes[node].run, NULL);
	if (w.healing || !w.plan.hunt_leaders)
		return;
	for (int i = 0; i < w.plan.nodes; i++) {
		w.cut[node][i] = i != node && world_draw(2);
		w.cut[i][node] = w.cut[node][i];
	}
	world_trace("hunt %s", w.nodes[node].name);
	if (world_draw(3))
		world_at(1000 + world_draw(150000), crash_soon, (uint64_t)node, w.nodes[node].run, NULL);
	world_at(world_draw(400000), release_leader, (uint64_t)node, 0, NULL);
}

/* ---- operators ---- */

static void hand_over(void)
{
	const struct sim_node *s = leader();
	if (!s)
		return;
	const char *to = world_draw(2) ? "" : any_node()->name;
	world_trace("transfer %s to %s", s->name, to);
	if (!node_ask_transfer(s->node, to, world_draw(8) == 0, (struct node_reply_to){ 0 }))
		world_trace("transfer not taken");
}

/* All voters are who the configuration says, and nothing is about to change: one of them may go without a majority
 * going. What operators must look after, the simulator's look after too. */
static bool can_spare_a_voter(const struct sim_node *lead)
{
	const struct raft_conf *conf = &lead->node->conf;
	uint32_t voters = 0;
	for (uint32_t i = 0; i < conf->count; i++) {
		const struct sim_node *s = world_find(conf->servers[i].name);
		if (!s || !world_is_up(s->number) || s->node->self.incarnation != conf->servers[i].id)
			return false;
		voters += conf->servers[i].voter;
	}
	return voters >= 3 && !lead->node->view.conf_pending && node_term(lead->node) != w.removal_term;
}

/* n1 stays: the clients' entries name it as an owner. */
static void change_servers(void)
{
	const struct sim_node *s = leader();
	const struct sim_node *who = &w.nodes[1 + world_draw((uint64_t)w.plan.nodes - 1)];
	const bool add = world_draw(2);
	const bool voter = world_draw(4) != 0;
	if (!s || ((!add || !voter) && !can_spare_a_voter(s)))
		return;
	struct node_change *c = node_change_new();
	c->kind = add ? NODE_CHANGE_SERVER : NODE_CHANGE_REMOVE;
	c->voter = voter;
	c->min_voters = 2;
	snprintf(c->id, sizeof(c->id), "%s", who->name);
	if (add)
		snprintf(c->addr, sizeof(c->addr), "%s", who->addr);
	if (!add || !voter)
		w.removal_term = node_term(s->node); /* a new leader refuses what waited at the old one */
	world_trace("%s %s voter=%d", add ? "server" : "remove", c->id, voter);
	if (!node_ask_change(s->node, c))
		world_trace("change not taken");
	node_change_unref(c);
}

static void crash_leader(uint64_t a, uint64_t b, void *p)
{
	(void)a;
	(void)b;
	(void)p;
	const struct sim_node *s = w.healing ? NULL : leader();
	if (s)
		disk_crash_after(s->number, 1 + world_draw(6));
}

/* Its disk is replaced: it comes back empty, under its old name. Often the leader goes before it was taken in anew. */
static void wipe_someone(void)
{
	const struct sim_node *lead = leader();
	struct sim_node *s = any_node();
	if (!lead || s == lead || !world_is_up(s->number) || !can_spare_a_voter(lead))
		return;
	world_trace("wipe %s", s->name);
	s->wipe = true;
	disk_make_mute(s->number);
	if (world_draw(2))
		world_at(500000 + world_draw(2000000), crash_leader, 0, 0, NULL);
}

/* Bytes of its disk change while it is down. */
static void rot_someone(void)
{
	const struct sim_node *lead = leader();
	struct sim_node *s = any_node();
	if (!lead || s == lead || !world_is_up(s->number) || !can_spare_a_voter(lead))
		return;
	s->rot = true;
	disk_make_mute(s->number);
}

/* ---- their times ---- */

static const struct strike {
	void (*run)(void);
	size_t every_ms; /* offset in struct sim_plan */
} strikes[] = {
	{ crash_someone, offsetof(struct sim_plan, crash_every_ms) },
	{ pause_someone, offsetof(struct sim_plan, pause_every_ms) },
	{ restart_someone, offsetof(struct sim_plan, restart_every_ms) },
	{ break_disk, offsetof(struct sim_plan, break_every_ms) },
	{ hang_disk, offsetof(struct sim_plan, hang_every_ms) },
	{ cut_links, offsetof(struct sim_plan, split_every_ms) },
	{ hand_over, offsetof(struct sim_plan, transfer_every_ms) },
	{ change_servers, offsetof(struct sim_plan, change_every_ms) },
	{ wipe_someone, offsetof(struct sim_plan, wipe_every_ms) },
	{ rot_someone, offsetof(struct sim_plan, rot_every_ms) },
};

static uint64_t mean_ms(size_t i)
{
	uint64_t ms;
	memcpy(&ms, (const char *)&w.plan + strikes[i].every_ms, sizeof(ms));
	return ms;
}

static void strike(uint64_t i, uint64_t b, void *p)
{
	(void)b;
	(void)p;
	if (w.healing)
		return;
	world_at(1 + world_draw(2 * mean_ms(i) * 1000), strike, i, 0, NULL);
	strikes[i].run();
}

void strike_start(void)
{
	for (size_t i = 0; i < sizeof(strikes) / sizeof(strikes[0]); i++) {
		if (mean_ms(i))
			world_at(1000000, strike, i, 0, NULL);
	}
}

void strike_heal(void)
{
	memset(w.cut, 0, sizeof(w.cut));
	for (int i = 0; i < w.plan.nodes; i++) {
		w.nodes[i].paused_until_us = 0;
		w.nodes[i].hung_until_us = 0;
		w.nodes[i].wall_skew_ms = 0;
		disk_crash_after(i, 0);
		disk_fail(i, DISK_WRITE, 0, 0);
		disk_fail(i, DISK_SYNC, 0, 0);
	}
}
