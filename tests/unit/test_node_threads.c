/* One node with real threads: what crosses them is looked at by the thread sanitizer. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "fsm/fsm.h"
#include "fsm/reader.h"
#include "model/entry.h"
#include "node/node.h"

#define WRITERS 3
#define WRITES 150 /* per writer */

/* The network of a single node: nobody. */
struct net_peers {
	int unused;
};

void net_peers_set_self(struct net_peers *n, const struct net_hello *self)
{
	(void)n;
	(void)self;
}

void net_peers_set(struct net_peers *n, const char *name, const char *addr)
{
	(void)n;
	(void)name;
	(void)addr;
}

void net_peers_drop(struct net_peers *n, const char *name)
{
	(void)n;
	(void)name;
}

bool net_peers_is_up(const struct net_peers *n, const char *name)
{
	(void)n;
	(void)name;
	return false;
}

bool net_peers_send(struct net_peers *n, const char *name, uint16_t type, const struct net_piece *pieces, size_t count)
{
	(void)n;
	(void)name;
	(void)type;
	(void)pieces;
	(void)count;
	return false;
}

struct fixture {
	char dir[64];
	struct pool *pool;
	struct node *node;
	struct net_peers net;
	_Atomic bool end;  /* of the node's threads */
	_Atomic bool seen; /* of those that look */
	pthread_t consensus, log, apply, pooled;
};

/* ---- the loops ---- */

static void *run_consensus(void *arg)
{
	struct fixture *f = arg;
	struct wake *w = node_wake(f->node);
	while (!atomic_load(&f->end)) {
		wake_prepare(w);
		const uint64_t now = clock_mono_ms();
		const uint64_t next = node_turn(f->node, now);
		if (next > now)
			wake_wait(w, next - now < 50 ? (int64_t)(next - now) : 50);
		wake_clear(w);
	}
	return NULL;
}

static void run_turns(struct fixture *f, struct wake *w, bool (*turn)(struct node *n))
{
	while (!atomic_load(&f->end)) {
		wake_prepare(w);
		if (!turn(f->node))
			wake_wait(w, 50);
		wake_clear(w);
	}
}

static void *run_log(void *arg)
{
	struct fixture *f = arg;
	run_turns(f, node_log_wake(f->node), node_log_turn);
	return NULL;
}

static void *run_apply(void *arg)
{
	struct fixture *f = arg;
	run_turns(f, node_apply_wake(f->node), node_apply_turn);
	return NULL;
}

static void *run_pool(void *arg)
{
	struct fixture *f = arg;
	while (pool_wait(f->pool, 50) || !atomic_load(&f->end)) {
		while (pool_turn(f->pool))
			;
	}
	while (pool_turn(f->pool))
		;
	return NULL;
}

static void start(struct fixture *f)
{
	struct node_options o = { .id = "n1",
		                  .data_dir = f->dir,
		                  .http_addr = "127.0.0.1:7942",
		                  .cluster_addr = "127.0.0.1:7943",
		                  .bootstrap = true,
		                  .own_partitions = true,
		                  .build = "test",
		                  .heartbeat_ms = 50,
		                  .election_ms = 2000, /* the sanitizer makes everything slow */
		                  .member_heartbeat_ms = 50,
		                  .map_gib = 1,
		                  .pool = f->pool };
	struct err e = { 0 };
	if (node_open(&o, &f->node, &e) != 0)
		fail_msg("%s", e.msg);
	node_attach_net(f->node, &f->net);
}

static void start_threads(struct fixture *f)
{
	atomic_store(&f->end, false);
	assert_int_equal(pthread_create(&f->consensus, NULL, run_consensus, f), 0);
	assert_int_equal(pthread_create(&f->log, NULL, run_log, f), 0);
	assert_int_equal(pthread_create(&f->apply, NULL, run_apply, f), 0);
	assert_int_equal(pthread_create(&f->pooled, NULL, run_pool, f), 0);
}

static void stop(struct fixture *f)
{
	node_begin_stop(f->node);
	while (!node_is_drained(f->node))
		usleep(1000);
	atomic_store(&f->end, true);
	pthread_join(f->consensus, NULL);
	pthread_join(f->log, NULL);
	pthread_join(f->apply, NULL);
	pool_close(f->pool);
	pthread_join(f->pooled, NULL);
	node_close(f->node);
	pool_free(f->pool);
}

static void remove_tree(const char *path)
{
	DIR *d = opendir(path);
	if (!d) {
		unlink(path);
		return;
	}
	const struct dirent *e;
	while ((e = readdir(d)) != NULL) {
		char child[512];
		snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			remove_tree(child);
	}
	closedir(d);
	rmdir(path);
}

/* ---- what asks ---- */

struct writer {
	struct fixture *f;
	int number;
	int done;
	struct queue *completions; /* freed once the node's threads have ended: they may still be leaving queue_put */
	struct wake wake;
};

static struct slab *topic_entry(const char *name)
{
	const struct topic t = { .name = str_of(name),
		                 .partitions = 3,
		                 .retention_ms = 604800000,
		                 .visibility_timeout_ms = 30000,
		                 .max_in_flight_per_partition = 1024,
		                 .max_acked_ahead_per_partition = 1024,
		                 .created_at = 1700000000 };
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, CMD_TOPIC_CREATE, &t);
	const struct entry_header h = { .origin = STR_LIT("n1") };
	struct slab *out = NULL;
	struct err e;
	if (entry_builder_finish(&b, &h, &out, &e) != 0)
		abort();
	entry_builder_fini(&b);
	return out;
}

/* One proposal, and now and then a read index, with a name of its own; false: no room. */
static bool ask(struct writer *wr, struct queue *done, int attempt, int *outstanding)
{
	char name[32];
	snprintf(name, sizeof(name), "w%d-%d", wr->number, attempt);
	const struct node_proposal p = { .entry = topic_entry(name),
		                         .reply = { .queue = done, .slot = 1, .generation = 1 },
		                         .max_type = CMD_TOPIC_CREATE };
	if (!node_propose(wr->f->node, &p))
		return false;
	++*outstanding;
	const struct node_reply_to r = { .queue = done, .slot = 2, .generation = 1 };
	if (attempt % 10 == 0 && node_ask_read(wr->f->node, r))
		++*outstanding;
	return true;
}

/* Keeps a few proposals outstanding until enough of them were applied. */
static void *run_writer(void *arg)
{
	struct writer *wr = arg;
	struct queue *done = wr->completions;
	int attempt = 0;
	int outstanding = 0;
	while (wr->done < WRITES || outstanding > 0) {
		while (wr->done + outstanding < WRITES && outstanding < 8 && ask(wr, done, attempt, &outstanding))
			attempt++;
		wake_prepare(&wr->wake);
		if (queue_is_empty(done))
			wake_wait(&wr->wake, 50);
		wake_clear(&wr->wake);
		struct node_completion c;
		while (queue_take(done, &c)) {
			outstanding--;
			if (c.slot == 1 && c.code == 0)
				wr->done++;
		}
	}
	return NULL;
}

/* Looks at everything that may be looked at, as the http threads do. */
static void *run_looker(void *arg)
{
	struct fixture *f = arg;
	struct fsm_reader reader;
	fsm_reader_init(&reader, node_fsm(f->node));
	uint64_t seen = 0;
	raft_index applied = 0;
	raft_term term = 0;
	bool joined = false;
	while (!atomic_load(&f->seen)) {
		struct node_status s;
		node_get_status(f->node, &s);
		/* One publication, whole: its parts agree with each other. */
		if (s.term < term || s.handed_index > s.commit_index || s.commit_index > s.last_index ||
		    (s.role == RAFT_LEADER && strcmp(s.leader, "n1") != 0))
			abort();
		term = s.term;
		if (node_status_version(f->node) < seen)
			abort();
		seen = node_status_version(f->node);
		/* Made of one publication too: the cluster's id is there before its configuration, and both stay. */
		struct net_hello h;
		node_self_hello(f->node, &h);
		if (h.incarnation == 0 || (!h.empty && h.cluster_id == 0) || (joined && h.empty))
			abort();
		joined = !h.empty;
		(void)node_is_caught_up(f->node, NULL, 0);
		(void)node_contact_age_ms(f->node);
		struct store_txn *txn;
		struct err e;
		if (fsm_read(&reader, &txn, &e) == 0) {
			if (fsm_reader_index(&reader) < applied)
				abort();
			applied = fsm_reader_index(&reader);
		}
		fsm_read_end(&reader);
		usleep(500);
	}
	fsm_reader_fini(&reader);
	return NULL;
}

static void quiet(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

/* Writers, readers and lookers against a running node; all is there after a restart. */
static void test_threads_share_a_node(void **state)
{
	(void)state;
	struct fixture f = { .pool = pool_new() };
	snprintf(f.dir, sizeof(f.dir), "/tmp/veena-node-XXXXXX");
	assert_non_null(mkdtemp(f.dir));
	log_set_sink(quiet, NULL);
	start(&f);
	/* Before the node takes its first turn: they see it become a cluster. */
	pthread_t lookers[2];
	for (size_t i = 0; i < ARRAY_LEN(lookers); i++)
		assert_int_equal(pthread_create(&lookers[i], NULL, run_looker, &f), 0);
	start_threads(&f);
	while (!node_is_leader(f.node))
		usleep(1000);
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .f = &f, .number = i };
		wake_init(&writers[i].wake);
		writers[i].completions = queue_new(64, sizeof(struct node_completion), &writers[i].wake);
		assert_int_equal(pthread_create(&threads[i], NULL, run_writer, &writers[i]), 0);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(writers[i].done >= WRITES);
	}
	atomic_store(&f.seen, true);
	for (size_t i = 0; i < ARRAY_LEN(lookers); i++)
		pthread_join(lookers[i], NULL);
	stop(&f);
	for (int i = 0; i < WRITERS; i++) {
		queue_free(writers[i].completions);
		wake_fini(&writers[i].wake);
	}

	f.pool = pool_new();
	start(&f);
	struct store_txn *txn = NULL;
	struct err e = { 0 };
	uint64_t topics = 0;
	assert_int_equal(store_begin_read(fsm_store(node_fsm(f.node)), &txn, &e), 0);
	assert_int_equal(store_count(txn, STORE_TOPICS, &topics), 0);
	store_abort(txn);
	assert_true(topics >= WRITERS * WRITES);
	while (pool_turn(f.pool))
		;
	node_close(f.node);
	pool_free(f.pool);
	log_set_sink(NULL, NULL);
	remove_tree(f.dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_share_a_node),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
