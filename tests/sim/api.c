/* The floors above the node, in every third seed: each node has the service and the control plane with the shipped
 * policies (placement, rebalance, liveness, drain), their threads are turns like the others', and clients create, grow
 * and delete topics through the service and hold its answers against the state. In the other seeds they would hide what
 * the core's own clients find.
 *
 * What must hold: a 201 has its owners unless the service said that it has not; nobody owns or is to own a partition
 * who is no member; what was answered with 2xx is there in the end, what was refused with "nothing happened" is not;
 * once all is healed the sweep leaves nothing unplaced. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "control/control.h"
#include "fsm/fsm.h"
#include "fsm/members.h"
#include "fsm/settings.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/entry.h"
#include "service/service.h"
#include "sim.h"

#define ONE_SEED_IN 3
#define CLIENTS 3
#define TOPICS_PER_CLIENT 200
#define SLOTS 16
#define MOVES_MAX 4
#define VOTERS_MIN 2
#define FIRST_TURN 3 /* of sim.h's turns */

enum { TURN_SERVICE, TURN_REQUESTS, TURN_PASSES };

struct upper {
	struct svc_shared *shared;
	struct svc *svc;
	struct wake wake;
	struct control *control;
	svc_placer place;
	void *place_arg;
};

enum told { TOLD_NOTHING, TOLD_DONE, TOLD_MAYBE, TOLD_NO };

struct asked_topic {
	enum told create, delete;
	uint32_t acked, tried; /* partitions */
	bool said_unplaced;    /* the log named it so, once */
};

struct client {
	int number;
	int node; /* where its request is; -1 = none */
	enum svc_op op;
	size_t topic;
	uint32_t partitions;
	char name[32], body[64];
	struct asked_topic topics[TOPICS_PER_CLIENT];
	size_t count;
};

static struct {
	bool on;
	struct rand rand;
	struct upper nodes[SIM_NODES_MAX];
	struct client clients[CLIENTS];
	uint64_t placed, unplaced, healed_creates;
} api;

static uint64_t draw(uint64_t n)
{
	return rand_below(&api.rand, n);
}

bool api_is_on(void)
{
	return api.on;
}

/* ---- a node's upper floors ---- */

/* Linked by --wrap: the hooks are the process', and here several control planes share one. */
void __real_svc_set_placer(svc_placer place, void *arg);
void __wrap_svc_set_placer(svc_placer place, void *arg);
void __wrap_svc_set_control(const struct svc_control_hooks *hooks);

void __wrap_svc_set_placer(svc_placer place, void *arg)
{
	assert(w.current >= 0);
	api.nodes[w.current].place = place;
	api.nodes[w.current].place_arg = arg;
}

void __wrap_svc_set_control(const struct svc_control_hooks *hooks)
{
	(void)hooks; /* only counts */
}

static bool place(void *arg, struct svc_placement *p)
{
	(void)arg;
	const struct upper *u = &api.nodes[w.current];
	return u->place && u->place(u->place_arg, p);
}

void api_node_up(int node)
{
	struct upper *u = &api.nodes[node];
	struct sim_node *s = &w.nodes[node];
	if (!api.on)
		return;
	wake_init(&u->wake);
	int64_t flags[FSM_SETTING_COUNT];
	for (size_t i = 0; i < FSM_SETTING_COUNT; i++)
		flags[i] = fsm_settings[i].value;
	flags[FSM_SETTING_MAX_MOVES] = MOVES_MAX;
	flags[FSM_SETTING_DEAD_AFTER_S] = SIM_DEAD_AFTER_S;
	flags[FSM_SETTING_MEMBER_HEARTBEAT_MS] = SIM_MEMBER_HEARTBEAT_MS;
	flags[FSM_SETTING_MIN_VOTERS] = VOTERS_MIN;
	u->shared = svc_shared_new(&(struct svc_shared_options){
	    .node = s->node,
	    .data_dir = s->dir,
	    .build = "sim",
	    .max_entry_type = COMMAND_MAX,
	    .flags = flags,
	    .pool = s->pool,
	});
	u->svc = svc_new(u->shared, SLOTS, &u->wake);
	u->control = control_new(&(struct control_options){
	    .node = s->node,
	    .max_moves = MOVES_MAX,
	    .dead_after_s = SIM_DEAD_AFTER_S,
	    .member_heartbeat_ms = SIM_MEMBER_HEARTBEAT_MS,
	    .min_voters = VOTERS_MIN,
	});
}

/* What was asked there has no answer: it may have happened. */
static void forget_asked(struct client *c)
{
	struct asked_topic *t = &c->topics[c->topic];
	if (c->op == SVC_TOPIC_CREATE)
		t->create = TOLD_MAYBE;
	else if (c->op == SVC_TOPIC_DELETE)
		t->delete = TOLD_MAYBE;
	c->node = -1;
}

void api_node_down(int node)
{
	struct upper *u = &api.nodes[node];
	if (!u->svc)
		return;
	svc_free(u->svc);
	svc_shared_free(u->shared);
	control_free(u->control);
	wake_fini(&u->wake);
	*u = (struct upper){ 0 };
	for (int i = 0; i < CLIENTS; i++) {
		if (api.clients[i].node == node)
			forget_asked(&api.clients[i]);
	}
}

struct wake *api_wake(int node, int which)
{
	const struct upper *u = &api.nodes[node];
	switch (which - FIRST_TURN) {
	case TURN_REQUESTS: return control_wake(u->control, CONTROL_REQUESTS);
	case TURN_PASSES: return control_wake(u->control, CONTROL_PASSES);
	default: return &api.nodes[node].wake;
	}
}

static uint64_t service_turn(struct upper *u)
{
	uint64_t next_ms = UINT64_MAX;
	svc_turn(u->svc, clock_mono_ms());
	wake_prepare(&u->wake);
	return svc_prepare_sleep(u->svc, &next_ms) ? next_ms : 0;
}

uint64_t api_turn(int node, int which)
{
	struct upper *u = &api.nodes[node];
	switch (which - FIRST_TURN) {
	case TURN_REQUESTS: return control_turn(u->control, CONTROL_REQUESTS, clock_mono_ms());
	case TURN_PASSES: return control_turn(u->control, CONTROL_PASSES, clock_mono_ms());
	default: return service_turn(u);
	}
}

/* ---- what is applied ---- */

/* client.c and noise.c write entries of their own; what they name is their affair, and so is whom noise removes. */
static bool is_foreign(struct str name, char mark)
{
	return name.len == 0 || name.p[0] == mark;
}

static void check_member(const struct sim_node *s, struct store_txn *txn, struct str topic, struct str id)
{
	struct str record;
	if (!is_foreign(id, 'm') && fsm_get_member_record(txn, id, &record) != 0)
		world_fail("%s gives a partition of " STR_FMT " to " STR_FMT ", who is no member", s->name,
		           STR_ARG(topic), STR_ARG(id));
}

static void check_command(const struct sim_node *s, struct store_txn *txn, const struct entry_command *c,
                          struct arena *a)
{
	union {
		struct cmd_partition_place place;
		struct cmd_move_target target;
		struct cmd_move_set_if move;
	} u;
	struct err e;
	if (c->type != CMD_PARTITION_PLACE && c->type != CMD_MOVE_TARGET && c->type != CMD_MOVE_SET_IF)
		return;
	const int rc = entry_command_read(c, a, &u, &e);
	assert(rc == 0);
	switch (c->type) {
	case CMD_PARTITION_PLACE: check_member(s, txn, u.place.topic, u.place.owner_id); break;
	case CMD_MOVE_TARGET: check_member(s, txn, u.target.topic, u.target.target); break;
	default: check_member(s, txn, u.move.topic, u.move.target); break;
	}
}

void api_check_applied(int node, const struct entry *entries, const struct fsm_result *results, size_t n)
{
	const struct sim_node *s = &w.nodes[node];
	struct store_txn *txn;
	struct arena a = { 0 };
	struct err e;
	if (!api.on || n == 0)
		return;
	if (store_begin_read(fsm_store(node_fsm(s->node)), &txn, &e) != 0)
		world_fail("%s: %s", s->name, e.msg);
	for (size_t i = 0; i < n; i++) {
		struct entry_view v;
		struct entry_command c;
		const uint8_t *at = NULL;
		if (entries[i].kind != ENTRY_COMMAND || results[i].refusal ||
		    entry_decode(entries[i].data, entries[i].len, &v, &e) != 0 || str_is(v.header.actor, "sim") ||
		    str_is(v.header.actor, "noise"))
			continue;
		while (entry_next(&v, &at, &c))
			check_command(s, txn, &c, &a);
	}
	arena_fini(&a);
	store_abort(txn);
}

/* ---- clients ---- */

void api_log(const char *line)
{
	if (!api.on || !strstr(line, "topic.unplaced"))
		return;
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &api.clients[i];
		char name[48];
		snprintf(name, sizeof(name), " topic=%s ", c->name);
		if (c->node >= 0 && strstr(line, name))
			c->topics[c->topic].said_unplaced = true;
	}
}

/* Of what was just answered, on the node that answered. */
static void check_placed(const struct client *c)
{
	const struct asked_topic *t = &c->topics[c->topic];
	const struct sim_node *s = &w.nodes[c->node];
	struct store_txn *txn;
	struct fsm_topic found;
	struct err e;
	if (store_begin_read(fsm_store(node_fsm(s->node)), &txn, &e) != 0)
		world_fail("%s: %s", s->name, e.msg);
	if (fsm_get_topic(txn, str_of(c->name), &found) != 0 || found.partition_count < c->partitions)
		world_fail("%s answered 2xx for %s and does not hold it", s->name, c->name);
	for (uint32_t p = 0; p < found.partition_count; p++) {
		struct fsm_owner o;
		fsm_topic_owner(&found, p, &o);
		api.placed += o.owner.len > 0;
		api.unplaced += o.owner.len == 0;
		if (o.owner.len == 0 && !t->said_unplaced)
			world_fail("%s answered 2xx for %s, partition %u has no owner and nobody said why", s->name,
			           c->name, p);
	}
	store_abort(txn);
}

static enum told told_by(const struct svc_answer *a)
{
	if (a->status < 300)
		return TOLD_DONE;
	const struct str unknown = STR_LIT("\"outcome\":\"unknown\"");
	return a->body.len && memmem(a->body.data, a->body.len, unknown.p, unknown.len) ? TOLD_MAYBE : TOLD_NO;
}

/* Each topic is one client's alone: a refusal means that something happened twice, or that it happened after all. */
static void check_refusal(const struct client *c, const struct svc_answer *a)
{
	const struct asked_topic *t = &c->topics[c->topic];
	const bool may_be = t->create == TOLD_MAYBE || t->delete == TOLD_MAYBE;
	const bool over = a->status == 503 || a->status == 504;
	if (!over && !a->not_leader && !(may_be && (a->status == 404 || a->status == 409)))
		world_fail("api client %d: %d %s for %s: %.*s", c->number, a->status, a->code ? a->code : "", c->name,
		           (int)a->body.len, (const char *)a->body.data);
}

static void on_done(void *arg, struct svc_answer *a)
{
	struct client *c = arg;
	struct asked_topic *t = &c->topics[c->topic];
	const enum told told = a->not_leader ? TOLD_NO : told_by(a);
	world_trace("api %d %s op=%d status=%d index=%" PRIu64, c->number, c->name, c->op, a->status, a->index);
	if (told == TOLD_NO)
		check_refusal(c, a);
	if (c->op == SVC_TOPIC_CREATE) {
		t->create = told;
		t->tried = c->partitions;
		api.healed_creates += told == TOLD_DONE && w.healing;
		/* The name is free for another try, and if that was untrue the try will be told so. */
		c->count -= told == TOLD_NO;
	} else if (c->op == SVC_TOPIC_DELETE && (told != TOLD_NO || t->delete != TOLD_MAYBE)) {
		t->delete = told;
	}
	if (told == TOLD_DONE && c->op != SVC_TOPIC_DELETE) {
		t->acked = c->partitions;
		check_placed(c);
	}
	c->node = -1;
}

/* What to do next: mostly a new topic. */
static void choose(struct client *c)
{
	c->topic = c->count ? (size_t)draw(c->count) : 0;
	const struct asked_topic *t = &c->topics[c->topic];
	const bool stands = c->count && t->create == TOLD_DONE && t->delete != TOLD_DONE && t->delete != TOLD_MAYBE;
	const uint64_t what = stands ? draw(4) : 2;
	if (what == 0) {
		c->op = SVC_TOPIC_DELETE;
		c->body[0] = '\0';
	} else if (what == 1 && t->tried < 100) {
		c->op = SVC_TOPIC_ALTER;
		c->partitions = t->tried + 1 + (uint32_t)draw(3);
		snprintf(c->body, sizeof(c->body), "{\"partitions\":%u}", c->partitions);
	} else {
		c->op = SVC_TOPIC_CREATE;
		c->topic = c->count;
		c->partitions = 3 + (uint32_t)draw(6);
	}
	snprintf(c->name, sizeof(c->name), "a%d-%zu", c->number, c->topic);
	if (c->op == SVC_TOPIC_CREATE)
		snprintf(c->body, sizeof(c->body), "{\"name\":\"%s\",\"partitions\":%u}", c->name, c->partitions);
}

static int choose_node(void)
{
	const int any = (int)draw((uint64_t)w.plan.nodes);
	for (int k = 0; k < w.plan.nodes; k++) {
		const int i = (any + k) % w.plan.nodes;
		if (world_is_up(i) && node_is_leader(w.nodes[i].node))
			return i;
	}
	return any;
}

static void act(uint64_t number, uint64_t b, void *p)
{
	(void)b;
	(void)p;
	struct client *c = &api.clients[number];
	if (w.resting)
		return;
	world_at(1 + draw(16 * w.plan.write_every_us), act, number, 0, NULL);
	if (c->node >= 0 || c->count == TOPICS_PER_CLIENT)
		return;
	const int node = choose_node();
	if (!world_is_up(node) || w.now_us < w.nodes[node].paused_until_us)
		return;
	choose(c);
	c->count += c->op == SVC_TOPIC_CREATE;
	struct asked_topic *t = &c->topics[c->topic];
	if (c->op == SVC_TOPIC_ALTER)
		t->tried = c->partitions;
	c->node = node;
	w.current = node;
	struct svc_request rq = { .op = c->op,
		                  .grant = SVC_GRANT_ANY,
		                  .principal = { .name = "anonymous", .anonymous = true, .root = true },
		                  .peer = "client:1",
		                  .partition = -1,
		                  .version = -1,
		                  .limit = SVC_LIMIT_DEFAULT,
		                  .body = str_of(c->body) };
	snprintf(rq.origin, sizeof(rq.origin), "%s", w.nodes[node].name);
	if (c->op != SVC_TOPIC_CREATE)
		rq.topic = str_of(c->name);
	svc_run(api.nodes[node].svc, &rq, on_done, c);
	wake_signal(&api.nodes[node].wake);
}

/* ---- the end ---- */

static bool is_unplaced(struct store_txn *txn, char *why, size_t cap)
{
	struct str name = { "", 0 };
	struct str after = name;
	while (fsm_next_unplaced(txn, after, &name) == 0) {
		if (!is_foreign(name, 'x') &&
		    !is_foreign(name, 'X')) { /* what noise makes of its topics may be nothing that can be placed */
			snprintf(why, cap, STR_FMT " is not wholly placed", STR_ARG(name));
			return true;
		}
		after = name;
	}
	return false;
}

uint64_t api_healed_creates(void)
{
	return api.healed_creates;
}

bool api_check_converged(char *why, size_t cap)
{
	struct store_txn *txn;
	struct err e;
	if (!api.on)
		return true;
	const int node = choose_node();
	if (!world_is_up(node) || store_begin_read(fsm_store(node_fsm(w.nodes[node].node)), &txn, &e) != 0)
		return false;
	const bool found = is_unplaced(txn, why, cap);
	store_abort(txn);
	return !found;
}

static void check_end(const struct client *c, size_t topic, const struct sim_node *s, struct store_txn *txn)
{
	const struct asked_topic *t = &c->topics[topic];
	const bool open = c->node >= 0 && c->topic == topic; /* still being asked for */
	char name[32];
	struct fsm_topic found;
	snprintf(name, sizeof(name), "a%d-%zu", c->number, topic);
	const bool there = fsm_get_topic(txn, str_of(name), &found) == 0;
	if (open)
		return;
	if (t->delete == TOLD_DONE && there)
		world_fail("%s was deleted and is on %s", name, s->name);
	if (t->create == TOLD_NO && there)
		world_fail("%s was refused as \"nothing happened\" and is on %s", name, s->name);
	if (t->create == TOLD_DONE && t->delete <= TOLD_NOTHING && !there)
		world_fail("acknowledged write lost: %s was created and is not on %s", name, s->name);
	if (there && found.partition_count < t->acked)
		world_fail("acknowledged write lost: %s has %u partitions on %s, %u were answered", name,
		           found.partition_count, s->name, t->acked);
}

void api_check_end(void)
{
	if (!api.on)
		return;
	world_trace("api placed=%" PRIu64 " unplaced=%" PRIu64, api.placed, api.unplaced);
	for (int node = 0; node < w.plan.nodes; node++) {
		struct store_txn *txn;
		struct err e;
		if (!world_is_up(node) || !check_is_member(node))
			continue;
		if (store_begin_read(fsm_store(node_fsm(w.nodes[node].node)), &txn, &e) != 0)
			world_fail("%s: %s", w.nodes[node].name, e.msg);
		for (int i = 0; i < CLIENTS; i++) {
			for (size_t k = 0; k < api.clients[i].count; k++)
				check_end(&api.clients[i], k, &w.nodes[node], txn);
		}
		store_abort(txn);
	}
}

void api_start(uint64_t seed)
{
	api.on = seed % ONE_SEED_IN == 0;
	if (!api.on)
		return;
	__real_svc_set_placer(place, NULL);
	rand_seed(&api.rand, seed ^ 0x617069); /* not the world's row of numbers */
	for (int i = 0; i < CLIENTS; i++) {
		api.clients[i] = (struct client){ .number = i, .node = -1 };
		world_at(draw(100000), act, (uint64_t)i, 0, NULL);
	}
}
