/* tests/bench/plan.c - what the control plane's decisions cost on a large cluster.
 *
 *   plan PARTITIONS MEMBERS
 *
 * Fills a scratch store with that many partitions, evenly owned, by real entries; then measures
 *   idle   a rebalance pass that finds nothing to move
 *   plan   the pass after one more member came: eight moves
 *   place  owners for a new topic of 108 partitions
 * each as the daemon does it - a fresh sandbox, the shipped policy, the core's judgement - and the most memory that the
 * sandbox held. One line each: name, median and worst in microseconds, KiB.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/place.h"
#include "control/plan.h"
#include "fsm/fsm.h"
#include "fsm/reader.h"
#include "model/commands.h"
#include "model/entry.h"

#define TOPIC_PARTITIONS 108
#define ROUNDS 21
#define BATCH 64 /* entries applied together */

struct bench {
	struct fsm *fsm;
	struct fsm_reader reader;
	raft_index index;
	struct slab *slabs[BATCH];
	struct entry entries[BATCH];
	size_t pending;
};

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "plan: %s: %s\n", what, e ? e->msg : "");
	exit(1);
}

static void flush(struct bench *b)
{
	struct fsm_result results[BATCH];
	struct err e;
	if (b->pending == 0)
		return;
	if (fsm_apply(b->fsm, b->entries, b->pending, results, &e) != 0)
		die("apply", &e);
	for (size_t i = 0; i < b->pending; i++) {
		if (results[i].refusal)
			die(fsm_refusal_word(results[i].refusal), NULL);
		slab_unref(b->slabs[i]);
	}
	b->pending = 0;
}

static void add(struct bench *b, struct entry_builder *eb)
{
	const struct entry_header h = { .actor = STR_LIT("bench"), .origin = STR_LIT("bench") };
	struct slab *s;
	struct err e;
	if (entry_builder_finish(eb, &h, &s, &e) != 0)
		die("entry", &e);
	entry_builder_clear(eb);
	entry_stamp_time(s, 1);
	b->slabs[b->pending] = s;
	b->entries[b->pending++] = (struct entry){
		.index = ++b->index,
		.term = 1,
		.kind = ENTRY_COMMAND,
		.len = (uint32_t)s->len,
		.data = s->data,
		.slab = s,
	};
	if (b->pending == BATCH)
		flush(b);
}

static void join(struct bench *b, struct entry_builder *eb, unsigned number)
{
	char id[16];
	snprintf(id, sizeof(id), "b%03u", number);
	const struct member m = {
		.id = str_of(id),
		.addr = STR_LIT("10.0.0.1:7942"),
		.status = STR_LIT("alive"),
		.last_heartbeat = 1,
	};
	entry_builder_add(eb, CMD_MEMBER_JOIN, &m);
	add(b, eb);
}

/* Every member owns as many as the others, spread over all topics. */
static void fill(struct bench *b, unsigned partitions, unsigned members)
{
	struct entry_builder eb;
	unsigned placed = 0;
	entry_builder_init(&eb);
	for (unsigned i = 0; i < members; i++)
		join(b, &eb, i);
	for (unsigned t = 0; placed < partitions; t++) {
		char name[32], id[32], owner[16];
		snprintf(name, sizeof(name), "topic-%06u", t);
		snprintf(id, sizeof(id), "%016x", t + 1);
		const struct cmd_topic_create_with c = { .topic = {
							     .name = str_of(name),
							     .id = str_of(id),
							     .partitions = TOPIC_PARTITIONS,
							     .retention_ms = 604800000,
							     .visibility_timeout_ms = 30000,
							     .created_at = 1,
							     .max_in_flight_per_partition = 1024,
							     .max_acked_ahead_per_partition = 1024,
							 } };
		entry_builder_add(&eb, CMD_TOPIC_CREATE_WITH, &c);
		for (int64_t p = 0; p < TOPIC_PARTITIONS && placed < partitions; p++, placed++) {
			snprintf(owner, sizeof(owner), "b%03u", placed % members);
			const struct cmd_partition_place place = { str_of(name), p, str_of(owner), str_of(id) };
			entry_builder_add(&eb, CMD_PARTITION_PLACE, &place);
		}
		add(b, &eb);
	}
	flush(b);
	entry_builder_fini(&eb);
}

/* ---- measuring ---- */

static const struct view_setting settings[] = { { "max_moves", 8 }, { "dead_after_s", 30 }, { "min_voters", 3 } };

struct round {
	struct bench *b;
	struct policy_set *policies;
	struct arena arena, scratch;
	struct cluster_view view;
};

static void open_view(struct round *r)
{
	struct store_txn *txn;
	struct err e;
	if (fsm_read(&r->b->reader, &txn, &e) != 0)
		die("read", &e);
	arena_reset(&r->arena);
	r->view = (struct cluster_view){
		.txn = txn,
		.index = r->b->index,
		.now_s = 2,
		.leader = STR_LIT("n1"),
		.term = 1,
		.leader_for_s = 60,
		.settings = settings,
		.setting_count = 3,
		.scratch = &r->scratch,
	};
	if (fsm_reader_members(&r->b->reader, &r->view.members, &e) != 0)
		die("members", &e);
}

static void decide_plan(struct round *r, size_t want)
{
	struct plan_answer plan;
	struct sandbox_fault fault;
	open_view(r);
	if (plan_ask(r->policies, &sandbox_budget_pass, &r->view, &r->arena, &plan, &fault) != 0)
		die(fault.message, NULL);
	plan_ask_allowed(r->policies, &sandbox_budget_pass, &r->view, &r->arena, &plan);
	if (plan.count != want)
		die("another number of moves than expected", NULL);
	fsm_read_end(&r->b->reader);
}

static void decide_idle(struct round *r)
{
	decide_plan(r, 0);
}

static void decide_moves(struct round *r)
{
	decide_plan(r, 8);
}

static void decide_place(struct round *r)
{
	uint32_t partitions[TOPIC_PARTITIONS];
	for (uint32_t i = 0; i < TOPIC_PARTITIONS; i++)
		partitions[i] = i;
	const struct place_question q = {
		.topic_json = STR_LIT("{\"name\":\"new\",\"partitions\":108}"),
		.partitions = partitions,
		.count = TOPIC_PARTITIONS,
	};
	struct place_answer a;
	struct sandbox_fault fault;
	open_view(r);
	if (place_ask(r->policies, &sandbox_budget_request, &r->view, &q, &r->arena, &a, &fault) != 0)
		die(fault.message, NULL);
	if (a.placed != TOPIC_PARTITIONS)
		die("partitions were left out", NULL);
	fsm_read_end(&r->b->reader);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void measure(struct bench *b, const char *name, void (*decide)(struct round *r))
{
	struct round r = { .b = b, .policies = policy_set_new(NULL) };
	uint64_t took[ROUNDS];
	for (size_t i = 0; i < ROUNDS; i++) {
		const uint64_t began = clock_mono_ns();
		decide(&r);
		took[i] = clock_mono_ns() - began;
	}
	qsort(took, ROUNDS, sizeof(took[0]), by_size);
	printf("%s %" PRIu64 " %" PRIu64 " %zu\n", name, took[ROUNDS / 2] / 1000, took[ROUNDS - 1] / 1000,
	       policy_set_peak(r.policies) >> 10);
	policy_set_free(r.policies);
	arena_fini(&r.arena);
	arena_fini(&r.scratch);
}

int main(int argc, char **argv)
{
	const unsigned partitions = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
	const unsigned members = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 100;
	char path[] = "/tmp/veena-plan-XXXXXX";
	const int fd = mkstemp(path);
	struct bench b = { 0 };
	struct err e;
	if (fd < 0 || members == 0 || members > 999 || partitions == 0)
		die("usage: plan PARTITIONS MEMBERS", NULL);
	close(fd);
	const struct fsm_options o = { .store = { .scratch = path, .map_bytes = 8ull << 30 },
		                       .changes_bytes = 1u << 20 };
	if (fsm_open(&o, &b.fsm, &e) != 0)
		die("open", &e);
	fsm_reader_init(&b.reader, b.fsm);
	fill(&b, partitions, members);
	measure(&b, "idle", decide_idle);
	measure(&b, "place", decide_place);
	struct entry_builder eb;
	entry_builder_init(&eb);
	join(&b, &eb, members);
	flush(&b);
	entry_builder_fini(&eb);
	measure(&b, "plan", decide_moves);
	fsm_reader_fini(&b.reader);
	(void)fsm_close(b.fsm, false, NULL); /* a scratch file: there is nothing to keep */
	return 0;
}
