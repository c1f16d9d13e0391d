/* Noise: random commands of all kinds on a few names that they fight over, in every fourth seed. Whether one is refused
 * is nobody's concern; that all nodes refuse the same, end with the same digests and have all that is derived in step
 * with the records is check.c's. Its choices come from a generator of its own, so that other seeds keep their traces.
 */
#include <inttypes.h>

#include "base/mem.h"
#include "base/queue.h"
#include "base/rand.h"
#include "fsm/fsm.h"
#include "model/commands.h"
#include "model/entry.h"
#include "model/records.h"
#include "node/node_internal.h"
#include "sim.h"

#define ONE_SEED_IN 4
#define GIVE_UP_US 5000000

static const char *const topics[] = { "xa", "XA", "xb", "xc", "xd", "xab" };
static const char *const members[] = { "m1", "m2", "m3" }; /* no servers */
static const char *const users[] = { "ann", "bob", "" };
static const char *const remotes[] = { "eu", "us" };
static const char *const ids[] = { "1111111111111111", "1111111111111111", "2222222222222222", "" };
static const char *const docs[] = { "{\"v\":1}", "{ \"v\": 1.0 }", "{\"v\":2}", "" };

static struct {
	struct rand rand;
	struct queue *done;
	bool busy;
	int node;
	uint32_t generation;
	uint64_t began_us;
	uint64_t applied, refused;
} noise;

static uint64_t draw(uint64_t n)
{
	return rand_below(&noise.rand, n);
}

#define PICK(list) str_of((list)[draw(ARRAY_LEN(list))])

static struct topic random_topic(void)
{
	return (struct topic){
		.name = PICK(topics),
		.id = PICK(ids),
		.partitions = (int64_t)draw(6),
		.retention_ms = (int64_t)draw(3) * 50000000,
		.visibility_timeout_ms = 30000,
		.max_in_flight_per_partition = 1,
		.max_acked_ahead_per_partition = 1,
		.created_at = 1,
		.owner = PICK(users),
	};
}

static struct cmd_child_attach random_link(void)
{
	return (struct cmd_child_attach){
		PICK(topics), PICK(topics), STR_LIT("eeeeeeeeeeeeeeee"), (int64_t)draw(2) * 1000, { 0 }
	};
}

static void add_topic(struct entry_builder *b)
{
	const struct topic t = random_topic();
	const struct cmd_child_attach l = random_link();
	const struct cmd_create_link link = { l.parent, PICK(ids), l.epoch, l.delay_ms, { 0 } };
	const struct cmd_topic_create_with create = { t, PICK(docs), draw(3) ? NULL : &link };
	const struct str_pair labels[] = { { STR_LIT("a"), draw(2) ? STR_LIT("1") : (struct str){ NULL, 0 } },
		                           { STR_LIT("b"), STR_LIT("2") } };
	switch (draw(8)) {
	case 0: entry_builder_add(b, CMD_TOPIC_CREATE, &t); return;
	case 1: entry_builder_add(b, CMD_TOPIC_UPDATE, &t); return;
	case 2: entry_builder_add(b, CMD_TOPIC_DELETE, &(struct cmd_name){ t.name }); return;
	case 3: entry_builder_add(b, CMD_TOPIC_UPDATE_IF, &(struct cmd_topic_update_if){ t, t.id }); return;
	case 4: entry_builder_add(b, CMD_TOPIC_DELETE_IF, &(struct cmd_topic_delete_if){ t.name, t.id }); return;
	case 5:
		entry_builder_add(b, CMD_TOPIC_LABELS,
		                  &(struct cmd_topic_labels){ t.name, t.id, { labels, 1 + draw(2) } });
		return;
	default: entry_builder_add(b, CMD_TOPIC_CREATE_WITH, &create);
	}
}

static void add_fanout(struct entry_builder *b)
{
	const struct cmd_child_attach l = random_link();
	const int64_t version = 1 + (int64_t)draw(4);
	switch (draw(6)) {
	case 0: entry_builder_add(b, CMD_CHILD_ATTACH, &l); return;
	case 1: entry_builder_add(b, CMD_CHILD_DETACH, &(struct cmd_child_detach){ l.parent, l.child }); return;
	case 2:
		entry_builder_add(b, CMD_CHILD_ATTACH_IF, &(struct cmd_child_attach_if){ l, PICK(ids), PICK(ids) });
		return;
	case 3:
		entry_builder_add(b, CMD_CHILD_DETACH_IF,
		                  &(struct cmd_child_detach_if){ l.parent, l.child, PICK(ids), PICK(ids) });
		return;
	case 4: entry_builder_add(b, CMD_SCHEMA_PUT, &(struct cmd_schema_put){ l.parent, version, PICK(docs) }); return;
	default:
		entry_builder_add(b, CMD_SCHEMA_PUT_IF,
		                  &(struct cmd_schema_put_if){ l.parent, version, PICK(docs), PICK(ids) });
	}
}

static void add_place(struct entry_builder *b)
{
	const struct str topic = PICK(topics), owner = PICK(members), target = PICK(members);
	const int64_t p = (int64_t)draw(7) - 1;
	switch (draw(7)) {
	case 0: entry_builder_add(b, CMD_PARTITION_ASSIGN, &(struct assignment){ topic, p, owner, target }); return;
	case 1: entry_builder_add(b, CMD_MOVE_TARGET, &(struct cmd_move_target){ topic, p, target }); return;
	case 2: entry_builder_add(b, CMD_MOVE_ABORT, &(struct cmd_move_target){ topic, p, target }); return;
	case 3: entry_builder_add(b, CMD_MOVE_COMPLETE, &(struct cmd_move_complete){ topic, p, owner, target }); return;
	case 4: entry_builder_add(b, CMD_PARTITION_PRUNE, &(struct cmd_partition_prune){ topic, p }); return;
	default: entry_builder_add(b, CMD_PARTITION_PLACE, &(struct cmd_partition_place){ topic, p, owner, PICK(ids) });
	}
}

static void add_replicas(struct entry_builder *b)
{
	const struct str topic = PICK(topics), id = PICK(ids), one = PICK(members), two = PICK(members);
	const struct str both[] = { one, two };
	const int64_t p = (int64_t)draw(5);
	const uint64_t epoch = 1 + draw(3);
	switch (draw(6)) {
	case 0:
		entry_builder_add(b, CMD_TOPIC_REPLICAS,
		                  &(struct cmd_topic_replicas){
				      .topic = topic,
				      .expect_id = id,
				      .replicas = { .value = 1 + (int64_t)draw(4), .set = true },
				  });
		return;
	case 1:
		entry_builder_add(b, CMD_LEADER_CHANGE,
		                  &(struct cmd_leader_change){ topic, id, p, epoch, draw(3) ? one : STR_LIT(""),
		                                               draw(2), STR_LIT("") });
		return;
	case 2:
		entry_builder_add(b, CMD_IN_SYNC_CHANGE,
		                  &(struct cmd_in_sync_change){ topic, id, p, epoch, one, draw(2) });
		return;
	case 3:
		entry_builder_add(b, CMD_REPLICAS_CHANGE,
		                  &(struct cmd_replicas_change){ topic, id, p, epoch, draw(3) ? one : STR_LIT(""),
		                                                 draw(3) ? two : STR_LIT(""), STR_LIT("") });
		return;
	default:
		entry_builder_add(b, CMD_REPLICAS_PLACE,
		                  &(struct cmd_replicas_place){ topic, id, p, { both, 1 + draw(2) } });
	}
}

static void add_member(struct entry_builder *b)
{
	const struct str id = PICK(members);
	const struct cmd_member_at at = { id, 100 + (int64_t)draw(5) };
	const struct member m = { .id = id,
		                  .addr = draw(2) ? STR_LIT("h:1") : STR_LIT("h:2"),
		                  .status = STR_LIT(MEMBER_ALIVE),
		                  .last_heartbeat = at.at,
		                  .entry_types = COMMAND_MAX };
	switch (draw(7)) {
	case 0: entry_builder_add(b, CMD_MEMBER_HEARTBEAT, &at); return;
	case 1: entry_builder_add(b, CMD_MEMBER_DEAD, &(struct cmd_name){ id }); return;
	case 2: entry_builder_add(b, CMD_MEMBER_DEAD_IF, &(struct cmd_member_dead_if){ id, at.at }); return;
	case 3: entry_builder_add(b, CMD_MEMBER_DRAINING, &(struct cmd_member_draining){ id, draw(2) }); return;
	case 4: entry_builder_add(b, CMD_MEMBER_REMOVE, &at); return;
	case 5: entry_builder_add(b, CMD_MEMBER_READMIT, &at); return;
	default: entry_builder_add(b, CMD_MEMBER_JOIN, &m);
	}
}

static void add_user(struct entry_builder *b)
{
	const struct user u = { .username = PICK(users), .password_hash = STR_LIT("hash"), .created_at_ms = 1 };
	switch (draw(4)) {
	case 0: entry_builder_add(b, CMD_USER_DELETE, &(struct cmd_name){ u.username }); return;
	case 1: entry_builder_add(b, CMD_USER_DELETE_RELEASE, &(struct cmd_name){ u.username }); return;
	case 2:
		entry_builder_add(b, CMD_USER_GRANTS,
		                  &(struct cmd_user_grants){ u.username, { 0 }, 1 + (int64_t)draw(9) });
		return;
	default: entry_builder_add(b, CMD_USER_CREATE, &u);
	}
}

static void add_remote(struct entry_builder *b)
{
	const struct sealed credential = { 1, draw(2) ? STR_LIT("00000000000000aa") : STR_LIT("00000000000000bb"),
		                           STR_LIT("sealed") };
	const struct remote record = { .name = PICK(remotes), .id = PICK(ids), .credential = credential };
	const struct cmd_sealed_tuple tuple = { record.name, PICK(ids), STR_LIT(""), STR_LIT(""),
		                                STR_LIT("system-roots") };
	const struct cmd_remote_create create = { .record = record, .salt = STR_LIT("salt") };
	const struct cmd_remote_change change = { .name = record.name,
		                                  .credential = &credential,
		                                  .sealed_against = &tuple };
	const struct cmd_remote_child_attach attach = { .parent = PICK(topics),
		                                        .stub = PICK(topics),
		                                        .stub_id = PICK(ids),
		                                        .epoch = STR_LIT("eeeeeeeeeeeeeeee"),
		                                        .remote = { .name = record.name, .topic = PICK(topics) } };
	const struct cmd_remote_skip skip = { (int64_t)draw(12), (int64_t)draw(5) };
	const struct cmd_remote_child_state state = {
		.parent = attach.parent, .stub = attach.stub, .epoch = attach.epoch, .skip = &skip
	};
	switch (draw(6)) {
	case 0: entry_builder_add(b, CMD_REMOTE_CREATE, &create); return;
	case 1: entry_builder_add(b, CMD_REMOTE_CHANGE, &change); return;
	case 2:
		entry_builder_add(b, CMD_REMOTE_DELETE,
		                  &(struct cmd_remote_delete){ .name = record.name, .force = draw(2) });
		return;
	case 3: entry_builder_add(b, CMD_REMOTE_CHILD_STATE, &state); return;
	default: entry_builder_add(b, CMD_REMOTE_CHILD_ATTACH, &attach);
	}
}

/* One command mostly; several are applied together or not at all. */
static struct slab *random_entry(unsigned *max_type)
{
	static void (*const add[])(struct entry_builder *) = { add_topic, add_topic,    add_fanout,   add_fanout,
		                                               add_place, add_replicas, add_replicas, add_member,
		                                               add_user,  add_remote };
	const struct entry_header h = { .actor = STR_LIT("noise"), .origin = STR_LIT("sim") };
	struct entry_builder b;
	struct slab *slab = NULL;
	entry_builder_init(&b);
	for (uint64_t n = draw(3) ? 1 : 1 + draw(4); n > 0; n--)
		add[draw(ARRAY_LEN(add))](&b);
	*max_type = b.max_type;
	if (entry_builder_finish(&b, &h, &slab, NULL) != 0)
		world_fail("a random entry does not encode");
	entry_builder_fini(&b);
	return slab;
}

static void act(uint64_t a, uint64_t b, void *p)
{
	(void)a;
	(void)b;
	(void)p;
	if (w.resting)
		return;
	world_at(1 + draw(2 * w.plan.write_every_us), act, 0, 0, NULL);
	if (noise.busy && w.now_us - noise.began_us < GIVE_UP_US)
		return;
	const int from = (int)draw((uint64_t)w.plan.nodes);
	for (int k = 0; k < w.plan.nodes; k++) {
		noise.node = (from + k) % w.plan.nodes;
		if (world_is_up(noise.node) && node_is_leader(w.nodes[noise.node].node))
			break;
	}
	noise.busy = false;
	if (!world_is_up(noise.node))
		return;
	noise.generation++;
	noise.began_us = w.now_us;
	w.current = noise.node;
	struct node_proposal proposal = { .reply = { .queue = noise.done, .generation = noise.generation } };
	proposal.entry = random_entry(&proposal.max_type);
	noise.busy = node_propose(w.nodes[noise.node].node, &proposal);
	wake_signal(node_wake(w.nodes[noise.node].node));
}

static void drain(void)
{
	struct node_completion d;
	while (queue_take(noise.done, &d)) {
		if (d.generation != noise.generation)
			continue;
		world_trace("noise code=%d index=%" PRIu64, d.code, d.index);
		noise.busy = false;
		noise.applied += d.code == 0;
		noise.refused += d.code > 0;
	}
}

void noise_poll(int node)
{
	if (noise.done && noise.node == node)
		drain();
}

void noise_node_down(int node)
{
	if (!noise.done || noise.node != node)
		return;
	noise.generation++;
	drain();
	noise.busy = false;
}

/* Records and all that is derived from them, on every node. */
void noise_check_end(void)
{
	if (!noise.done)
		return;
	world_trace("noise applied=%" PRIu64 " refused=%" PRIu64, noise.applied, noise.refused);
	for (int i = 0; i < w.plan.nodes; i++) {
		struct store_txn *txn;
		struct err e = { 0 };
		if (!world_is_up(i) || !check_is_member(i))
			continue;
		if (store_begin_read(fsm_store(w.nodes[i].node->fsm), &txn, &e) != 0 || fsm_check(txn, &e) != 0)
			world_fail("%s: %s", w.nodes[i].name, e.msg);
		store_abort(txn);
	}
}

void noise_start(uint64_t seed)
{
	if (seed % ONE_SEED_IN != ONE_SEED_IN - 1)
		return;
	rand_seed(&noise.rand, seed ^ 0x6e6f697365); /* not the world's row of numbers */
	noise.done = queue_new(64, sizeof(struct node_completion), NULL);
	world_at(draw(100000), act, 0, 0, NULL);
}
