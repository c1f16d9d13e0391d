/* Clients: each makes topics of its own names and alters them one after the other, on whatever node leads, and asks for
 * read indexes. What they were told is held against what the nodes hold in the end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/queue.h"
#include "fsm/fsm.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "model/entry.h"
#include "model/records.h"
#include "node/node_internal.h"
#include "sim.h"

#define CLIENTS 4
#define TOPICS_PER_CLIENT 5000
#define GIVE_UP_US 5000000       /* no answer by then: unknown */
#define HEALED_GIVE_UP_US 500000 /* likewise, once nothing is lost any more */

enum told { TOLD_NOTHING, TOLD_DONE, TOLD_MAYBE, TOLD_NO };

struct made_topic {
	enum told create;
	int64_t acked; /* retention_ms of the newest acknowledged alter */
	int64_t tried; /* of the newest alter that may have happened */
};

enum op { OP_IDLE, OP_CREATE, OP_ALTER, OP_READ, OP_HALF };

struct client {
	int number;
	struct queue *done;
	enum op op;
	int node;            /* where it went */
	uint32_t generation; /* of the operation: late answers are for nobody */
	uint64_t began_us;
	raft_term term;     /* asked for with a write; 0 = any */
	raft_term old_term; /* what it saw when it last acted: control loops act on what they saw some time ago */
	size_t topic;       /* of a create or an alter */
	int64_t value;      /* of an alter */
	raft_index floor;   /* of a read: every write acknowledged before it began is at or below its index */
	struct made_topic topics[TOPICS_PER_CLIENT];
	size_t topic_count;
	size_t half_count; /* entries whose second command is refused: nothing of them may ever be seen */
};

static struct client clients[CLIENTS];
static raft_index acked_index; /* highest index of an acknowledged write */
static uint64_t acked_count;

static void topic_name(char out[32], const struct client *c, size_t topic)
{
	snprintf(out, 32, "c%d-%zu", c->number, topic);
}

static void settle(struct client *c, enum told told, raft_index index)
{
	struct made_topic *t = &c->topics[c->topic];
	if (c->op == OP_CREATE) {
		t->create = told;
	} else if (c->op == OP_ALTER) {
		if (told != TOLD_NO)
			t->tried = c->value;
		if (told == TOLD_DONE)
			t->acked = c->value;
	}
	if (told == TOLD_DONE && c->op != OP_READ) {
		acked_count++;
		if (index > acked_index)
			acked_index = index;
	}
	c->op = OP_IDLE;
}

static void on_done(struct client *c, const struct node_completion *d)
{
	if (d->generation != c->generation || c->op == OP_IDLE)
		return;
	world_trace("client %d op=%d code=%d index=%" PRIu64, c->number, c->op, d->code, d->index);
	if (c->op == OP_READ) {
		if (d->code == 0 && d->index < c->floor)
			world_fail("client %d: read index %" PRIu64 " is below %" PRIu64
			           ", acknowledged before the read began",
			           c->number, d->index, c->floor);
		c->op = OP_IDLE;
	} else if (c->op == OP_HALF) {
		if (d->code == 0)
			world_fail("client %d: an entry was applied whose second command must be refused", c->number);
		c->op = OP_IDLE;
	} else if (d->code == 0) {
		if (c->term && check_term_of(d->index) != c->term)
			world_fail("client %d: asked for term %" PRIu64 " and was appended in another", c->number,
			           c->term);
		settle(c, TOLD_DONE, d->index);
	} else if (d->code > 0) {
		/* These names and values are this client's alone: a refusal means that something happened twice. */
		world_fail("client %d: refused with %s what only it does", c->number, fsm_refusal_word(d->code));
	} else {
		settle(c, d->code == ERR_CLOSED ? TOLD_MAYBE : TOLD_NO, 0);
	}
}

void client_poll(int node)
{
	for (int i = 0; i < CLIENTS; i++) {
		struct node_completion d;
		while (clients[i].node == node && queue_take(clients[i].done, &d))
			on_done(&clients[i], &d);
	}
}

void client_node_down(int node)
{
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];
		if (c->op != OP_IDLE && c->node == node)
			settle(c, TOLD_MAYBE, 0);
		c->generation++;
		struct node_completion d;
		while (queue_take(c->done, &d))
			;
	}
}

/* ---- acting ---- */

/* `placed_id`: the incarnation that the placement in the same entry expects. */
static struct slab *create_entry(const struct client *c, const char *name, size_t topic, const char *placed_id)
{
	char id[HEX64_SIZE];
	hex64(id, ((uint64_t)c->number << 32) + topic + 1);
	const struct cmd_topic_create_with create = {
		.topic = {
			.name = str_of(name),
			.id = str_of(id),
			.partitions = 3,
			.retention_ms = 3600000,
			.visibility_timeout_ms = 30000,
			.max_in_flight_per_partition = 1,
			.max_acked_ahead_per_partition = 1,
			.created_at = 1,
		},
	};
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_TOPIC_CREATE_WITH, &create);
	/* A second command in the same entry: together or not at all. */
	const struct cmd_partition_place place = { .topic = str_of(name),
		                                   .partition = 0,
		                                   .owner_id = STR_LIT("n1"),
		                                   .expect_id = str_of(placed_id ? placed_id : id) };
	entry_builder_add(&b, CMD_PARTITION_PLACE, &place);
	const struct entry_header h = { .actor = STR_LIT("sim"), .origin = STR_LIT("sim") };
	struct slab *slab = NULL;
	if (entry_builder_finish(&b, &h, &slab, NULL) != 0)
		world_fail("the create does not encode");
	entry_builder_fini(&b);
	return slab;
}

static struct slab *alter_entry(const struct client *c, size_t topic, int64_t value)
{
	char name[32];
	char id[HEX64_SIZE];
	topic_name(name, c, topic);
	hex64(id, ((uint64_t)c->number << 32) + topic + 1);
	const struct cmd_topic_update_if alter = {
		.topic = {
			.name = str_of(name),
			.id = str_of(id),
			.partitions = 3,
			.retention_ms = value,
			.visibility_timeout_ms = 30000,
			.max_in_flight_per_partition = 1,
			.max_acked_ahead_per_partition = 1,
			.created_at = 1,
		},
		.expect_id = str_of(id),
	};
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_TOPIC_UPDATE_IF, &alter);
	const struct entry_header h = { .actor = STR_LIT("sim"), .origin = STR_LIT("sim") };
	struct slab *slab = NULL;
	if (entry_builder_finish(&b, &h, &slab, NULL) != 0)
		world_fail("the alter does not encode");
	entry_builder_fini(&b);
	return slab;
}

/* The node that says it leads, mostly; sometimes any, since a client's knowledge is old. */
static int choose_node(void)
{
	const int any = (int)world_draw((uint64_t)w.plan.nodes);
	if (world_draw(10) == 0)
		return any;
	for (int k = 0; k < w.plan.nodes; k++) {
		const int i = (any + k) % w.plan.nodes;
		if (world_is_up(i) && node_is_leader(w.nodes[i].node))
			return i;
	}
	return any;
}

static void write_something(struct client *c)
{
	struct node *n = w.nodes[c->node].node;
	struct node_proposal p = {
		.reply = { .queue = c->done, .slot = 0, .generation = c->generation },
		.term = world_draw(3) == 0 ? c->old_term
		        : world_draw(2)    ? node_term(n)
		                           : 0,
	};
	c->term = p.term;
	c->old_term = node_term(n);
	if (world_draw(12) == 0) {
		char name[32];
		c->op = OP_HALF;
		snprintf(name, sizeof(name), "half%d-%zu", c->number, c->half_count++);
		p.entry = create_entry(c, name, 0, "0000000000000000");
		p.max_type = CMD_PARTITION_PLACE;
		if (!node_propose(n, &p))
			c->op = OP_IDLE;
		return;
	}
	const size_t alterable = c->topic_count ? (size_t)world_draw(c->topic_count) : 0;
	if (c->topic_count && world_draw(3) && c->topics[alterable].create == TOLD_DONE) {
		c->op = OP_ALTER;
		c->topic = alterable;
		const struct made_topic *t = &c->topics[alterable];
		c->value = (t->tried ? t->tried : 3600000) + 1;
		p.entry = alter_entry(c, c->topic, c->value);
		p.max_type = CMD_TOPIC_UPDATE_IF;
	} else if (c->topic_count < TOPICS_PER_CLIENT) {
		c->op = OP_CREATE;
		c->topic = c->topic_count++;
		char name[32];
		topic_name(name, c, c->topic);
		p.entry = create_entry(c, name, c->topic, NULL);
		p.max_type = CMD_PARTITION_PLACE;
	} else {
		return;
	}
	if (!node_propose(n, &p))
		settle(c, TOLD_NO, 0);
}

static void act(uint64_t number, uint64_t b, void *p)
{
	(void)b;
	(void)p;
	struct client *c = &clients[number];
	if (w.resting)
		return;
	world_at(1 + world_draw(2 * w.plan.write_every_us), act, number, 0, NULL);
	if (c->op != OP_IDLE) {
		if (w.now_us - c->began_us < (w.healing ? HEALED_GIVE_UP_US : GIVE_UP_US))
			return;
		/* Its answer, if it ever comes, is for nobody. */
		settle(c, TOLD_MAYBE, 0);
	}
	c->node = choose_node();
	c->generation++;
	c->began_us = w.now_us;
	if (!world_is_up(c->node))
		return;
	w.current = c->node;
	if (world_draw(6) == 0) {
		c->op = OP_READ;
		c->floor = acked_index;
		const struct node_reply_to reply = { .queue = c->done, .generation = c->generation };
		if (!node_ask_read(w.nodes[c->node].node, reply))
			c->op = OP_IDLE;
	} else {
		write_something(c);
	}
	wake_signal(node_wake(w.nodes[c->node].node));
}

void client_start(void)
{
	acked_index = 0;
	acked_count = 0;
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] =
		    (struct client){ .number = i, .done = queue_new(64, sizeof(struct node_completion), NULL) };
		world_at(world_draw(100000), act, (uint64_t)i, 0, NULL);
	}
}

/* ---- the end ---- */

static void check_topic(const struct client *c, size_t topic, int node, struct store_txn *txn, struct arena *a)
{
	const struct made_topic *t = &c->topics[topic];
	char name[32];
	topic_name(name, c, topic);
	struct fsm_topic found;
	const bool there = fsm_get_topic(txn, str_of(name), &found) == 0;
	if (t->create == TOLD_DONE && !there)
		world_fail("acknowledged write lost: %s was created and is not on %s", name, w.nodes[node].name);
	if (t->create == TOLD_NO && there)
		world_fail("%s was refused as \"nothing happened\" and is on %s", name, w.nodes[node].name);
	if (!there)
		return;
	struct topic record;
	if (record_read_json(&topic_type, found.record, a, &record, NULL, NULL) != 0)
		world_fail("%s on %s does not read", name, w.nodes[node].name);
	if (t->acked && record.retention_ms < t->acked)
		world_fail("acknowledged write lost: %s was altered to %" PRId64 " and is %" PRId64 " on %s", name,
		           t->acked, record.retention_ms, w.nodes[node].name);
	struct fsm_owner o;
	fsm_topic_owner(&found, 0, &o);
	if (!str_is(o.owner, "n1"))
		world_fail("%s on %s has half of its entry", name, w.nodes[node].name);
}

static void check_halves(const struct client *c, int node, struct store_txn *txn)
{
	for (size_t i = 0; i < c->half_count; i++) {
		char name[32];
		struct fsm_topic found;
		snprintf(name, sizeof(name), "half%d-%zu", c->number, i);
		if (fsm_get_topic(txn, str_of(name), &found) == 0)
			world_fail("%s is on %s: a refused entry left half of itself", name, w.nodes[node].name);
	}
}

void client_check_end(void)
{
	struct arena a = { 0 };
	for (int node = 0; node < w.plan.nodes; node++) {
		if (!world_is_up(node) || !check_is_member(node))
			continue;
		struct store_txn *txn;
		struct err e;
		if (store_begin_read(fsm_store(w.nodes[node].node->fsm), &txn, &e) != 0)
			world_fail("%s: %s", w.nodes[node].name, e.msg);
		for (int i = 0; i < CLIENTS; i++) {
			for (size_t k = 0; k < clients[i].topic_count; k++) {
				check_topic(&clients[i], k, node, txn, &a);
				arena_reset(&a);
			}
			check_halves(&clients[i], node, txn);
		}
		store_abort(txn);
	}
	arena_fini(&a);
}

uint64_t client_acked(void)
{
	return acked_count;
}
