/* tests/unit/service_world.h - the service over a real state machine and a node that the test plays.
 *
 * The functions of node/node.h are defined here, so libnode stays out of the program. Proposals and read questions wait
 * in the world until the test says what becomes of them: applied, refused by what stands there by then, lost.
 * Everything runs on one thread. For one .c file each.
 */
#ifndef TESTS_UNIT_SERVICE_WORLD_H
#define TESTS_UNIT_SERVICE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "fsm/changes.h"
#include "fsm/fsm.h"
#include "model/entry.h"
#include "model/records.h"
#include "model/rules.h"
#include "service/codes.h"
#include "service/hooks.h"
#include "service/service.h"

#define UNUSED __attribute__((unused))
#define S(text) STR_LIT(text)
#define WORLD_QUEUE 64
#define WORLD_LOG 20000

/* What the tests look at in an answer, copied. */
struct answered {
	unsigned count;
	int status;
	char code[64];
	char body[65536];
	char etag[SVC_ETAG_SIZE];
	raft_index index;
	bool not_leader, not_applied;
	uint32_t retry_after_s;
};

struct node {
	char dir[64];
	struct fsm *fsm;
	struct svc_shared *shared;
	struct svc *svc[2]; /* two http threads' */
	struct wake wake[2];
	struct pool *pool;
	struct node_status status;
	uint64_t version;
	bool caught_up;
	int64_t contact_ms;
	raft_index index; /* of the last entry applied */
	struct node_proposal proposals[WORLD_QUEUE];
	size_t proposal_count;
	struct entry log[WORLD_LOG]; /* what was applied, by index; counts owned */
	raft_index log_first;        /* what is older is compacted away */
	struct node_history *history;
	bool snapshot_asked;
	struct node_reply_to snapshot;
	struct node_change *change; /* the one asked for; one hold */
	char heir[RAFT_NAME_MAX + 1];
	bool transfer_asked, transfer_dry;
	struct node_reply_to transfer;
	enum node_fault fault; /* of every learner */
	struct node_reply_to reads[WORLD_QUEUE];
	size_t read_count;
	bool queue_full; /* node_propose and node_ask_read answer false */
	struct svc_placement *placements[WORLD_QUEUE];
	size_t placement_count;
	bool placer_refuses;
	struct svc_schema_question *questions[WORLD_QUEUE]; /* about schemas */
	size_t question_count;
	bool judge_refuses;
	unsigned held_back_said;
};

static struct node world;

/* ---- node/node.h, played ---- */

struct fsm *node_fsm(struct node *n)
{
	return n->fsm;
}

void node_add_watcher(struct node *n, struct node_watcher *w)
{
	(void)n;
	(void)w;
}

uint64_t node_status_version(const struct node *n)
{
	return n->version;
}

void node_get_status(const struct node *n, struct node_status *out)
{
	*out = n->status;
}

bool node_is_leader(const struct node *n)
{
	return n->status.role == RAFT_LEADER;
}

raft_term node_term(const struct node *n)
{
	return n->status.term;
}

int64_t node_contact_age_ms(const struct node *n)
{
	return n->contact_ms;
}

bool node_is_caught_up(const struct node *n, char *why, size_t cap)
{
	if (why)
		snprintf(why, cap, "%s", n->caught_up ? "" : "behind");
	return n->caught_up;
}

void node_self_hello(const struct node *n, struct net_hello *out)
{
	*out = (struct net_hello){ .cluster_id = n->status.cluster_id, .incarnation = 7 };
	snprintf(out->name, sizeof(out->name), "%s", n->status.id);
	snprintf(out->addr, sizeof(out->addr), "127.0.0.1:1");
}

bool node_propose(struct node *n, const struct node_proposal *p)
{
	if (n->queue_full) {
		slab_unref(p->entry);
		return false;
	}
	assert_true(n->proposal_count < WORLD_QUEUE);
	n->proposals[n->proposal_count++] = *p;
	return true;
}

void node_note_held_back(struct node *n, unsigned type, const struct node_blocker *by, bool falls_back)
{
	n->held_back_said++;
	log_info("gate.held_back", "type=%u held_back_by=%s falls_back=%s", type, by->id, falls_back ? "yes" : "no");
}

/* From here on some member "old" knows types up to this only. */
static UNUSED void world_hold_back(uint32_t types)
{
	struct node_blocker *b = &world.status.blockers[0];

	*b = (struct node_blocker){ .id = "old", .build = "0.1", .entry_types = types };
	world.status.blocker_count = 1;
	world.status.cluster_min_type = types;
	world.version++;
}

struct node_change *node_change_new(void)
{
	struct node_change *c = mem_zalloc(sizeof(*c));

	c->refs = 1;
	return c;
}

void node_change_unref(struct node_change *c)
{
	if (c && --c->refs == 0)
		mem_free(c);
}

bool node_ask_change(struct node *n, struct node_change *c)
{
	if (n->queue_full)
		return false;
	assert_null(n->change);
	c->refs++;
	n->change = c;
	return true;
}

bool node_ask_transfer(struct node *n, const char *to, bool dry_run, struct node_reply_to reply)
{
	if (n->queue_full)
		return false;
	assert_false(n->transfer_asked);
	n->transfer_asked = true;
	n->transfer_dry = dry_run;
	n->transfer = reply;
	snprintf(n->heir, sizeof(n->heir), "%s", to);
	return true;
}

struct node_history *node_history_new(void)
{
	struct node_history *h = mem_zalloc(sizeof(*h));

	h->refs = 1;
	return h;
}

void node_history_unref(struct node_history *h)
{
	if (!h || --h->refs > 0)
		return;
	for (size_t i = 0; i < h->count; i++)
		entry_unref(&h->entries[i]);
	mem_free(h);
}

void node_ask_history(struct node *n, struct node_history *h)
{
	assert_null(n->history);
	h->refs++;
	n->history = h;
}

bool node_ask_snapshot(struct node *n, struct node_reply_to reply)
{
	if (n->queue_full)
		return false;
	assert_false(n->snapshot_asked);
	n->snapshot_asked = true;
	n->snapshot = reply;
	return true;
}

enum node_fault node_promotion_fault(const struct node_status *s, uint32_t at, uint64_t now_ms, char *why, size_t cap)
{
	(void)now_ms;
	snprintf(why, cap, "%s", world.fault == NODE_FAULT_NONE ? "" : "it is 9 entries behind");
	return s->conf.servers[at].voter ? NODE_FAULT_NONE : world.fault;
}

bool node_ask_read(struct node *n, struct node_reply_to reply)
{
	if (n->queue_full)
		return false;
	assert_true(n->read_count < WORLD_QUEUE);
	n->reads[n->read_count++] = reply;
	return true;
}

/* ---- what the test does in the node's place ---- */

static UNUSED void complete(const struct node_reply_to *to, int code, raft_index index, uint64_t detail)
{
	struct node_completion c = { to->slot, to->generation, code, index, detail };

	if (to->queue)
		assert_true(queue_put(to->queue, &c));
}

static UNUSED void turn(void)
{
	for (int i = 0; i < 2; i++) {
		if (world.svc[i])
			svc_turn(world.svc[i], clock_mono_ms());
	}
}

/* Applies an entry; its refusal, 0 if none. */
static UNUSED int apply_entry(struct slab *slab, uint64_t *command)
{
	struct fsm_result result;
	struct err e = { 0 };

	entry_stamp_time(slab, 1700000000000 + world.index * 1000);
	struct entry en = { .index = world.index + 1,
		            .term = world.status.term,
		            .kind = ENTRY_COMMAND,
		            .len = (uint32_t)slab->len,
		            .data = slab->data,
		            .slab = slab };

	if (fsm_apply(world.fsm, &en, 1, &result, &e) != 0)
		fail_msg("%s", e.msg);
	world.index++;
	assert_true(world.index < WORLD_LOG);
	entry_ref(&en);
	world.log[world.index] = en;
	world.status.commit_index = world.status.last_index = world.index;
	world.version++;
	if (command)
		*command = result.command;
	return result.refusal;
}

static UNUSED void drop_proposal(size_t i)
{
	memmove(&world.proposals[i], &world.proposals[i + 1],
	        (world.proposal_count - i - 1) * sizeof(world.proposals[0]));
	world.proposal_count--;
}

/* Commits and applies the oldest proposal, and lets the service see it. */
static UNUSED void commit_one(void)
{
	assert_true(world.proposal_count > 0);
	struct node_proposal p = world.proposals[0];
	uint64_t command = 0;
	int refusal = apply_entry(p.entry, &command);

	drop_proposal(0);
	complete(&p.reply, refusal, world.index, command);
	slab_unref(p.entry);
	turn();
}

/* The oldest proposal comes to nothing. */
static UNUSED void fail_one(int code)
{
	assert_true(world.proposal_count > 0);
	struct node_proposal p = world.proposals[0];

	drop_proposal(0);
	complete(&p.reply, code, 0, 0);
	slab_unref(p.entry);
	turn();
}

static UNUSED void answer_read(int code, raft_index index)
{
	assert_true(world.read_count > 0);
	struct node_reply_to to = world.reads[0];

	memmove(&world.reads[0], &world.reads[1], (world.read_count - 1) * sizeof(world.reads[0]));
	world.read_count--;
	complete(&to, code, index, 0);
	turn();
}

/* The change asked for comes to its end. */
static UNUSED void answer_change(int code, raft_index index, const char *why)
{
	struct node_change *c = world.change;

	assert_non_null(c);
	world.change = NULL;
	snprintf(c->why, sizeof(c->why), "%s", why);
	complete(&c->reply, code, index, 0);
	node_change_unref(c);
	turn();
}

static UNUSED void answer_transfer(int code, uint64_t detail)
{
	assert_true(world.transfer_asked);
	world.transfer_asked = false;
	complete(&world.transfer, code, 0, detail);
	turn();
}

/* The piece of the log that was asked for is read, at most `most` entries of it. */
static UNUSED void answer_history(int code, size_t most)
{
	struct node_history *h = world.history;

	assert_non_null(h);
	world.history = NULL;
	h->first = world.log_first;
	h->lo = h->lo ? h->lo : h->first;
	if (code == 0 && h->lo < h->first && h->lo <= h->hi)
		code = ERR_NOTFOUND;
	for (raft_index i = h->lo; code == 0 && i != 0 && i <= h->hi && h->count < most; i++) {
		entry_ref(&world.log[i]);
		h->entries[h->count++] = world.log[i];
	}
	complete(&h->reply, code, 0, 0);
	node_history_unref(h);
	turn();
}

/* Something that somebody else put into the log. */
static UNUSED int apply_command(enum command_type type, const void *payload)
{
	const struct entry_header h = { .actor = S("else"), .origin = S("n2") };
	struct entry_builder b;
	struct slab *slab;

	entry_builder_init(&b);
	entry_builder_add(&b, type, payload);
	assert_int_equal(entry_builder_finish(&b, &h, &slab, NULL), 0);
	entry_builder_fini(&b);
	int refusal = apply_entry(slab, NULL);

	slab_unref(slab);
	return refusal;
}

static UNUSED void add_member(const char *id, bool alive)
{
	struct member m = { .id = str_of(id),
		            .addr = S("127.0.0.1:1"),
		            .cluster_addr = S("127.0.0.1:2"),
		            .status = S(MEMBER_ALIVE),
		            .last_heartbeat = 1700000000,
		            .build = S("test"),
		            .entry_types = COMMAND_MAX };
	struct cmd_name dead = { .name = m.id };

	assert_int_equal(apply_command(CMD_MEMBER_JOIN, &m), 0);
	if (!alive)
		assert_int_equal(apply_command(CMD_MEMBER_DEAD, &dead), 0);
}

static UNUSED void remove_member(const char *id)
{
	struct cmd_member_at c = { .id = str_of(id), .at = 1700000001 };

	assert_int_equal(apply_command(CMD_MEMBER_REMOVE, &c), 0);
}

static UNUSED void lead(bool yes)
{
	world.status.role = yes ? RAFT_LEADER : RAFT_FOLLOWER;
	world.status.term++;
	world.status.term_start = yes ? world.index : 0;
	snprintf(world.status.leader, sizeof(world.status.leader), "%s", yes ? "n1" : "");
	world.version++;
}

/* ---- the placer, played ---- */

static UNUSED bool take_placement(void *arg, struct svc_placement *p)
{
	(void)arg;
	if (world.placer_refuses)
		return false;
	assert_true(world.placement_count < WORLD_QUEUE);
	world.placements[world.placement_count++] = p;
	return true;
}

/* Answers the oldest question: partition i goes to names[i % n]. */
static UNUSED void place_with(enum svc_place_result result, const char *const *names, size_t n)
{
	assert_true(world.placement_count > 0);
	struct svc_placement *p = world.placements[0];

	memmove(&world.placements[0], &world.placements[1], (world.placement_count - 1) * sizeof(world.placements[0]));
	world.placement_count--;
	p->result = result;
	if (n > 0) {
		p->owners = arena_zalloc(&p->arena, p->partition_count * sizeof(*p->owners));
		for (size_t i = 0; i < p->partition_count; i++) {
			const char *name = names[i % n];

			struct str *one = arena_alloc(&p->arena, sizeof(*one));

			*one = (struct str){ arena_strdup(&p->arena, name), strlen(name) };
			p->owners[i] = (struct str_list){ one, one->len > 0 };
		}
	}
	complete(&p->reply, 0, 0, 0);
	svc_placement_unref(p);
	turn();
}

/* ---- users ---- */

/* bcrypt of "pw", cheap to compare. */
#define HASH_PW "$2a$04$KBCwKxOzLha2MUDgW0PjXeHeA6RFjwuQook1qJZxSCCFGf7mJ9Nk."

/* With the password "pw", and at most one grant; a pattern of NULL is none. */
static UNUSED void add_user(enum command_type type, const char *name, const char *action, const char *pattern)
{
	const struct str patterns[] = { str_of(pattern) };
	const struct grant grants[] = { { str_of(action), { pattern ? patterns : NULL, pattern ? 1 : 0 } } };
	const struct user u = { .username = str_of(name),
		                .password_hash = S(HASH_PW),
		                .grants = { grants, action ? 1 : 0 },
		                .created_at_ms = 1700000000000,
		                .updated_at_ms = 1700000000000 };

	assert_int_equal(apply_command(type, &u), 0);
}

/* As if the user had said "pw" a moment ago, here or on another server. */
static UNUSED void act_as(struct svc_request *rq, const char *name)
{
	rq->principal = (struct svc_principal){ .credential = fsm_hash(S(HASH_PW)) };
	snprintf(rq->principal.name, sizeof(rq->principal.name), "%s", name);
}

/* ---- the judge of schemas, played ---- */

static UNUSED bool take_question(void *arg, struct svc_schema_question *q)
{
	(void)arg;
	if (world.judge_refuses)
		return false;
	assert_true(world.question_count < WORLD_QUEUE);
	world.questions[world.question_count++] = q;
	return true;
}

/* Answers the oldest question. */
static UNUSED void judge_with(enum svc_schema_result result, const char *reason)
{
	assert_true(world.question_count > 0);
	struct svc_schema_question *q = world.questions[0];

	memmove(&world.questions[0], &world.questions[1], (world.question_count - 1) * sizeof(world.questions[0]));
	world.question_count--;
	q->result = result;
	snprintf(q->reason, sizeof(q->reason), "%s", reason);
	complete(&q->reply, 0, 0, 0);
	svc_schema_question_unref(q);
	turn();
}

/* ---- asking ---- */

static UNUSED void on_done(void *arg, struct svc_answer *a)
{
	struct answered *to = arg;

	to->count++;
	to->status = a->status;
	snprintf(to->code, sizeof(to->code), "%s", a->code ? a->code : "");
	if (a->code && !svc_code_find(a->status, a->code))
		fail_msg("%d %s is no code of the table", a->status, a->code);
	snprintf(to->body, sizeof(to->body), "%.*s", (int)a->body.len, a->body.data ? (const char *)a->body.data : "");
	snprintf(to->etag, sizeof(to->etag), "%s", a->etag);
	to->index = a->index;
	to->not_leader = a->not_leader;
	to->not_applied = a->not_applied;
	to->retry_after_s = a->retry_after_s;
}

static UNUSED struct svc_request request_of(enum svc_op op, const char *topic, const char *body)
{
	struct svc_request rq = {
		.op = op, .grant = SVC_GRANT_ANY, .partition = -1, .version = -1, .limit = SVC_LIMIT_DEFAULT
	};

	rq.principal.anonymous = rq.principal.root = true;
	snprintf(rq.principal.name, sizeof(rq.principal.name), "anonymous");
	snprintf(rq.origin, sizeof(rq.origin), "n1");
	if (topic)
		rq.topic = str_of(topic);
	if (body)
		rq.body = str_of(body);
	return rq;
}

/* `body` and `topic` must live until the answer. */
/* To its end, whatever it waits for. */
static UNUSED void run_to_end(const struct svc_request *rq, struct answered *a)
{
	memset(a, 0, sizeof(*a));
	svc_run(world.svc[0], rq, on_done, a);
	while (a->count == 0) {
		if (world.read_count > 0)
			answer_read(0, world.index);
		else if (world.proposal_count > 0)
			commit_one();
		else if (pool_turn(world.pool))
			turn();
		else
			fail_msg("it waits for nothing");
	}
	assert_int_equal(a->count, 1);
}

static UNUSED void ask_on(int thread, enum svc_op op, const char *topic, const char *body, struct answered *to)
{
	struct svc_request rq = request_of(op, topic, body);

	memset(to, 0, sizeof(*to));
	svc_run(world.svc[thread], &rq, on_done, to);
}

static UNUSED void ask(enum svc_op op, const char *topic, const char *body, struct answered *to)
{
	ask_on(0, op, topic, body, to);
}

static UNUSED void assert_answer(const struct answered *a, int status, const char *code)
{
	assert_int_equal(a->count, 1);
	if (a->status != status || strcmp(a->code, code) != 0)
		fail_msg("answered %d %s: %s", a->status, a->code, a->body);
	/* Whoever is told to try again is told when; of an unknown outcome nobody is told to. */
	if (status == 503 && (a->retry_after_s > 0) == (strstr(a->body, "\"outcome\":\"unknown\"") != NULL))
		fail_msg("Retry-After %u with %s", a->retry_after_s, a->body);
}

static UNUSED void assert_holds(const struct answered *a, const char *text)
{
	if (!strstr(a->body, text))
		fail_msg("no %s in %s", text, a->body);
}

static UNUSED void assert_text_holds(struct str text, const char *part)
{
	if (!memmem(text.p, text.len, part, strlen(part)))
		fail_msg("no %s in " STR_FMT, part, STR_ARG(text));
}

/* A topic as if created long ago. */
static UNUSED void make_topic(const char *name)
{
	struct answered a;
	char body[128];

	snprintf(body, sizeof(body), "{\"name\":\"%s\"}", name);
	svc_set_placer(NULL, NULL);
	ask(SVC_TOPIC_CREATE, NULL, body, &a);
	commit_one();
	assert_answer(&a, 201, "");
	svc_set_placer(take_placement, NULL);
}

/* ---- beginning and end ---- */

/* The node alone: a one-server cluster that this node leads, in a directory of its own. */
static UNUSED void world_open(void)
{
	struct fsm_options fo = { .store = { .map_bytes = 1u << 28 } };
	struct err e = { 0 };

	log_configure(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	memset(&world, 0, sizeof(world));
	snprintf(world.dir, sizeof(world.dir), "%s/veena-svc-XXXXXX",
	         access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(world.dir));
	fo.store.dir = world.dir;
	if (fsm_open(&fo, &world.fsm, &e) != 0)
		fail_msg("%s", e.msg);
	snprintf(world.status.id, sizeof(world.status.id), "n1");
	world.status.cluster_id = 0x1234;
	world.status.configured = true;
	world.status.cluster_min_type = COMMAND_MAX;
	world.status.conf.count = 1;
	world.status.conf.servers[0] = (struct raft_server){ .id = 7, .voter = true, .name = "n1" };
	world.caught_up = true;
	world.version = 1;
	world.log_first = 1;
	lead(true);
	add_member("n1", true);
	lead(true);
}

/* After whatever uses it has ended. */
static UNUSED void world_close(void)
{
	char command[96];

	node_change_unref(world.change);
	node_history_unref(world.history);
	for (size_t i = 0; i < WORLD_LOG; i++)
		entry_unref(&world.log[i]);
	for (size_t i = 0; i < world.placement_count; i++)
		svc_placement_unref(world.placements[i]);
	for (size_t i = 0; i < world.question_count; i++)
		svc_schema_question_unref(world.questions[i]);
	for (size_t i = 0; i < world.proposal_count; i++)
		slab_unref(world.proposals[i].entry);
	assert_int_equal(fsm_close(world.fsm, true, NULL), 0);
	slab_drain_pool();
	snprintf(command, sizeof(command), "rm -rf %s", world.dir);
	assert_int_equal(system(command), 0);
}

static UNUSED void world_begin(const struct svc_shared_options *wanted)
{
	struct svc_shared_options o = *wanted;

	world.pool = pool_new();
	o.node = &world;
	o.data_dir = world.dir;
	o.build = "test";
	o.max_entry_type = COMMAND_MAX;
	o.pool = world.pool;
	world.shared = svc_shared_new(&o);
	for (int i = 0; i < 2; i++) {
		wake_init(&world.wake[i]);
		world.svc[i] = svc_new(world.shared, 16, &world.wake[i]);
	}
	svc_set_placer(take_placement, NULL);
	svc_set_schema_judge(take_question, NULL);
}

static UNUSED int world_setup(void **state)
{
	(void)state;
	world_open();
	world_begin(&(struct svc_shared_options){ .auth = false });
	return 0;
}

/* Clients must say who they are; the root user is there. */
static UNUSED int world_setup_auth(void **state)
{
	(void)state;
	world_open();
	add_user(CMD_USER_SEED_ROOT, ROOT_USER, NULL, NULL);
	world_begin(&(struct svc_shared_options){ .auth = true });
	return 0;
}

static UNUSED int world_teardown(void **state)
{
	(void)state;
	while (pool_turn(world.pool))
		;
	for (int i = 0; i < 2; i++)
		svc_free(world.svc[i]);
	svc_shared_free(world.shared);
	for (int i = 0; i < 2; i++)
		wake_fini(&world.wake[i]);
	pool_free(world.pool);
	world_close();
	return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
#define CASE_AUTH(f) cmocka_unit_test_setup_teardown(f, world_setup_auth, world_teardown)

#endif /* TESTS_UNIT_SERVICE_WORLD_H */
