/* Nodes in one process: real raft, wal, fsm and node under a clock that moves by hand and a network made of a list.
 *
 * Included by the test programs of node/; it stands in for base/clock.c and net/peers.c, which the linker then leaves
 * out. A step moves time by 5 ms, delivers what was sent and gives every thread of every node its turns. */
#ifndef TESTS_UNIT_NODE_WORLD_H
#define TESTS_UNIT_NODE_WORLD_H

#include <dirent.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slab.h"
#include "fsm/fsm.h"
#include "fsm/members.h"
#include "model/entry.h"
#include "net/peers.h"
#include "node/node.h"

#define WORLD_NODES 5
#define WORLD_STEP_MS 5
#define WORLD_LINKS 16
#define WORLD_DONE 4096

/* ---- clock ---- */

static uint64_t world_mono_ms = 1000000;
static uint64_t world_wall_ms = 1700000000000;

uint64_t clock_mono_ms(void)
{
	return world_mono_ms;
}

uint64_t clock_mono_ns(void)
{
	return world_mono_ms * 1000000;
}

uint64_t clock_wall_ms(void)
{
	return world_wall_ms;
}

/* ---- network ---- */

struct world;

struct world_link {
	char name[NET_NAME_MAX + 1];
	char addr[NET_ADDR_MAX + 1];
	bool up;
	bool told_down;         /* the hook was called since it was last up */
	struct net_hello hello; /* ours, as of when the link came up */
};

struct net_peers {
	struct world *world;
	size_t at; /* which node this is */
	struct net_hello self;
	struct net_hooks hooks;
	struct world_link links[WORLD_LINKS];
	size_t link_count;
};

struct world_packet {
	struct world_packet *next;
	size_t to;
	struct net_hello from;
	uint16_t type;
	struct slab *slab;
};

struct world_node {
	char name[8];
	char addr[32];
	char dir[128];
	struct node *node; /* NULL: not running */
	struct net_peers net;
	bool frozen;           /* gets no turns */
	bool deaf;             /* its log and apply threads get no turns */
	bool slow;             /* its apply thread gets none */
	bool cut[WORLD_NODES]; /* frames from here to there are lost, and links go down */
	struct queue *done;
	struct node_options options;
	raft_term office; /* as the listener was told */
	size_t office_changes;
};

struct world {
	struct world_node nodes[WORLD_NODES];
	size_t count;
	struct node_peer_addr peers[WORLD_NODES];
	struct world_packet *first, *last;
	struct pool *pool;
	char root[64];
	size_t frames; /* delivered since the start */
};

static struct world_link *world_link_find(struct net_peers *n, const char *name)
{
	for (size_t i = 0; i < n->link_count; i++) {
		if (strcmp(n->links[i].name, name) == 0)
			return &n->links[i];
	}
	return NULL;
}

void net_peers_set_self(struct net_peers *n, const struct net_hello *self)
{
	n->self = *self;
}

void net_peers_set(struct net_peers *n, const char *name, const char *addr)
{
	struct world_link *l = world_link_find(n, name);
	if (!l) {
		assert_true(n->link_count < WORLD_LINKS);
		l = &n->links[n->link_count++];
	}
	memset(l, 0, sizeof(*l));
	snprintf(l->name, sizeof(l->name), "%s", name);
	snprintf(l->addr, sizeof(l->addr), "%s", addr);
}

void net_peers_drop(struct net_peers *n, const char *name)
{
	struct world_link *l = world_link_find(n, name);
	if (l)
		*l = n->links[--n->link_count];
}

bool net_peers_is_up(const struct net_peers *n, const char *name)
{
	for (size_t i = 0; i < n->link_count; i++) {
		if (strcmp(n->links[i].name, name) == 0)
			return n->links[i].up;
	}
	return false;
}

static struct world_node *world_at(struct world *w, const char *addr)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node && strcmp(w->nodes[i].addr, addr) == 0)
			return &w->nodes[i];
	}
	return NULL;
}

static void world_post(struct world *w, size_t to, const struct net_hello *from, uint16_t type, struct slab *slab)
{
	struct world_packet *p = mem_zalloc(sizeof(*p));
	p->to = to;
	p->from = *from;
	p->type = type;
	p->slab = slab;
	if (w->last)
		w->last->next = p;
	else
		w->first = p;
	w->last = p;
}

bool net_peers_send(struct net_peers *n, const char *name, uint16_t type, const struct net_piece *pieces, size_t count)
{
	const struct world_link *l = world_link_find(n, name);
	if (!l || !l->up)
		return false;
	const struct world_node *to = world_at(n->world, l->addr);
	if (!to)
		return false;
	size_t len = 0;
	for (size_t i = 0; i < count; i++)
		len += pieces[i].len;
	struct slab *s = slab_new(len);
	for (size_t i = 0; i < count; i++) {
		memcpy(s->data + s->len, pieces[i].p, pieces[i].len);
		s->len += pieces[i].len;
	}
	world_post(n->world, (size_t)(to - n->world->nodes), &l->hello, type, s);
	return true;
}

static void world_pump_links(struct world *w, size_t i)
{
	struct world_node *from = &w->nodes[i];
	for (size_t k = 0; k < from->net.link_count; k++) {
		struct world_link *l = &from->net.links[k];
		struct world_node *to = world_at(w, l->addr);
		const bool cut = to && (from->cut[to - w->nodes] || to->cut[i]);
		const bool stranger = to && to->net.self.cluster_id != 0 && from->net.self.cluster_id != 0 &&
		                      to->net.self.cluster_id != from->net.self.cluster_id;
		const bool up = to && !cut && !stranger;
		if (up && !l->up) {
			l->up = true;
			l->told_down = false;
			l->hello = from->net.self;
			from->net.hooks.on_up(from->net.hooks.arg, l->name, &to->net.self);
		} else if (!up && (l->up || !l->told_down)) {
			l->up = false;
			l->told_down = true;
			struct err why;
			err_set(&why, stranger ? ERR_IDENTITY : ERR_CLOSED, stranger ? "another cluster" : "cut");
			from->net.hooks.on_down(from->net.hooks.arg, l->name, !to, &why);
		}
	}
}

static void world_deliver(struct world *w)
{
	struct world_packet *p = w->first;
	w->first = NULL;
	w->last = NULL;
	while (p) {
		struct world_packet *next = p->next;
		struct world_node *to = &w->nodes[p->to];
		if (to->node) {
			w->frames++;
			to->net.hooks.on_frame(to->net.hooks.arg, &p->from, p->type, p->slab, p->slab->data,
			                       p->slab->len);
		}
		slab_unref(p->slab);
		mem_free(p);
		p = next;
	}
}

/* ---- log lines ---- */

static char world_log[1 << 18];
static size_t world_log_len;

static void world_sink(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	const size_t len = strlen(line);
	if (world_log_len + len + 2 > sizeof(world_log))
		world_log_len = 0;
	memcpy(world_log + world_log_len, line, len);
	world_log_len += len;
	world_log[world_log_len++] = '\n';
	world_log[world_log_len] = '\0';
	if (getenv("SHOW"))
		fprintf(stderr, "[%" PRIu64 "] %s\n", world_mono_ms, line);
}

static inline bool world_logged(const char *text)
{
	return strstr(world_log, text) != NULL;
}

static inline void world_log_clear(void)
{
	world_log_len = 0;
	world_log[0] = '\0';
}

/* ---- directories ---- */

static void world_remove_tree(const char *path)
{
	DIR *d = opendir(path);
	if (d) {
		const struct dirent *e;
		while ((e = readdir(d)) != NULL) {
			if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
				continue;
			char child[512];
			snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
			world_remove_tree(child);
		}
		closedir(d);
		rmdir(path);
	} else {
		unlink(path);
	}
}

/* ---- nodes ---- */

static void world_init(struct world *w, size_t count)
{
	memset(w, 0, sizeof(*w));
	log_set_sink(world_sink, NULL);
	world_log_clear();
	snprintf(w->root, sizeof(w->root), "/tmp/veena-node-XXXXXX");
	assert_non_null(mkdtemp(w->root));
	w->pool = pool_new();
	w->count = count;
	for (size_t i = 0; i < count; i++) {
		struct world_node *x = &w->nodes[i];
		snprintf(x->name, sizeof(x->name), "n%c", (int)('1' + i));
		snprintf(x->addr, sizeof(x->addr), "127.0.0.1:%zu", 7001 + i);
		snprintf(x->dir, sizeof(x->dir), "%s/%s", w->root, x->name);
		snprintf(w->peers[i].name, sizeof(w->peers[i].name), "%s", x->name);
		snprintf(w->peers[i].addr, sizeof(w->peers[i].addr), "%s", x->addr);
		x->options = (struct node_options){ .id = x->name,
			                            .data_dir = x->dir,
			                            .http_addr = "127.0.0.1:7942",
			                            .cluster_addr = x->addr,
			                            .peers = w->peers,
			                            .peer_count = count,
			                            .bootstrap = count == 1,
			                            .own_partitions = true,
			                            .build = "test",
			                            .heartbeat_ms = 50,
			                            .election_ms = 250,
			                            .map_gib = 1,
			                            .seed = 100 + i,
			                            .pool = w->pool };
		x->done = queue_new(WORLD_DONE, sizeof(struct node_completion), NULL);
	}
}

static void world_on_office(void *arg, raft_term term)
{
	struct world_node *x = arg;
	x->office = term;
	x->office_changes++;
}

static int world_try_start(struct world *w, size_t i, struct err *e)
{
	struct world_node *x = &w->nodes[i];
	const int rc = node_open(&x->options, &x->node, e);
	if (rc != 0) {
		x->node = NULL;
		return rc;
	}
	memset(&x->net, 0, sizeof(x->net));
	x->net.world = w;
	x->net.at = i;
	x->net.hooks = node_net_hooks(x->node);
	node_self_hello(x->node, &x->net.self);
	node_on_leadership(x->node, world_on_office, x);
	node_attach_net(x->node, &x->net);
	x->office = 0;
	return 0;
}

static void world_start(struct world *w, size_t i)
{
	struct err e = { 0 };
	if (world_try_start(w, i, &e) != 0)
		fail_msg("%s: %s", w->nodes[i].name, e.msg);
}

static void world_run_pool(struct world *w)
{
	while (pool_turn(w->pool))
		;
}

/* The kernel of a dead process closes its connections. */
static void world_break_links(struct world *w, size_t to)
{
	for (size_t i = 0; i < w->count; i++) {
		struct net_peers *n = &w->nodes[i].net;
		for (size_t k = 0; w->nodes[i].node && k < n->link_count; k++) {
			struct world_link *l = &n->links[k];
			if (!l->up || strcmp(l->addr, w->nodes[to].addr) != 0)
				continue;
			struct err why;
			err_set(&why, ERR_CLOSED, "closed");
			l->up = false;
			n->hooks.on_down(n->hooks.arg, l->name, false, &why);
		}
	}
}

static void world_stop(struct world *w, size_t i)
{
	world_run_pool(w);
	node_close(w->nodes[i].node);
	w->nodes[i].node = NULL;
	world_break_links(w, i);
	for (size_t k = 0; k < w->count; k++) { /* what was on its way to it is lost */
		struct node_completion c;
		while (k == i && queue_take(w->nodes[k].done, &c))
			;
	}
}

static void world_fini(struct world *w)
{
	world_run_pool(w);
	for (size_t i = 0; i < w->count; i++) {
		node_close(w->nodes[i].node);
		w->nodes[i].node = NULL;
	}
	world_deliver(w); /* to nobody */
	for (size_t i = 0; i < w->count; i++)
		queue_free(w->nodes[i].done);
	pool_free(w->pool);
	world_remove_tree(w->root);
	log_set_sink(NULL, NULL);
	slab_drain_pool();
}

static void world_turn_threads(struct world *w, size_t i)
{
	struct world_node *x = &w->nodes[i];
	if (!x->node || x->deaf)
		return;
	while (node_log_turn(x->node))
		;
	world_run_pool(w);
	while (!x->slow && node_apply_turn(x->node))
		;
}

/* One delivery and one turn for everybody, without moving time. */
static void world_round(struct world *w)
{
	world_deliver(w);
	for (size_t i = 0; i < w->count; i++) {
		if (!w->nodes[i].node || w->nodes[i].frozen)
			continue;
		(void)node_turn(w->nodes[i].node, world_mono_ms);
		world_turn_threads(w, i);
	}
}

static void world_advance(struct world *w)
{
	world_mono_ms += WORLD_STEP_MS;
	world_wall_ms += WORLD_STEP_MS;
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node)
			world_pump_links(w, i);
	}
}

static void world_step(struct world *w)
{
	world_advance(w);
	for (int round = 0; round < 4; round++)
		world_round(w);
}

static void world_run(struct world *w, uint64_t ms)
{
	for (const uint64_t end = world_mono_ms + ms; world_mono_ms < end;)
		world_step(w);
}

/* Steps until the condition holds; fails the test after 20 s of the world's time. */
#define world_until(w, condition)                                                                                      \
	do {                                                                                                           \
		const uint64_t end_ = world_mono_ms + 20000;                                                           \
		while (!(condition)) {                                                                                 \
			if (world_mono_ms >= end_)                                                                     \
				fail_msg("%s:%d: never: %s", __FILE__, __LINE__, #condition);                          \
			world_step(w);                                                                                 \
		}                                                                                                      \
	} while (0)

static inline struct node_status world_status(struct world *w, size_t i)
{
	struct node_status s;
	node_get_status(w->nodes[i].node, &s);
	return s;
}

/* Index of the leader with the highest term, or WORLD_NODES. */
static inline size_t world_leader(struct world *w)
{
	size_t found = WORLD_NODES;
	raft_term term = 0;
	for (size_t i = 0; i < w->count; i++) {
		if (w->nodes[i].node && node_is_leader(w->nodes[i].node) && node_term(w->nodes[i].node) > term) {
			term = node_term(w->nodes[i].node);
			found = i;
		}
	}
	return found;
}

static inline raft_index world_applied(struct world *w, size_t i)
{
	return fsm_applied_index(node_fsm(w->nodes[i].node));
}

/* ---- work ---- */

static inline struct slab *world_topic_entry(const char *name)
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
	const struct entry_header h = { .actor = STR_LIT("tester"), .origin = STR_LIT("n1") };
	struct slab *out = NULL;
	struct err e = { 0 };
	if (entry_builder_finish(&b, &h, &out, &e) != 0)
		fail_msg("%s", e.msg);
	entry_builder_fini(&b);
	return out;
}

static inline void world_propose_entry(struct world *w, size_t i, struct slab *entry, uint32_t slot, raft_term term,
                                       uint32_t max_type)
{
	const struct node_proposal p = { .entry = entry,
		                         .reply = { .queue = w->nodes[i].done, .slot = slot, .generation = 7 },
		                         .term = term,
		                         .max_type = max_type };
	assert_true(node_propose(w->nodes[i].node, &p));
}

static inline void world_propose(struct world *w, size_t i, const char *topic, uint32_t slot)
{
	world_propose_entry(w, i, world_topic_entry(topic), slot, 0, CMD_TOPIC_CREATE);
}

static inline struct node_completion world_wait(struct world *w, size_t i)
{
	struct node_completion c;
	world_until(w, queue_take(w->nodes[i].done, &c));
	assert_int_equal(c.generation, 7);
	return c;
}

/* Creates a topic through node i, which must lead; returns its index. */
static inline raft_index world_create(struct world *w, size_t i, const char *topic)
{
	world_propose(w, i, topic, 1);
	const struct node_completion c = world_wait(w, i);
	if (c.code != 0)
		fail_msg("%s: code %d", topic, c.code);
	return c.index;
}

static inline bool world_has_topic(struct world *w, size_t i, const char *name)
{
	struct store_txn *t = NULL;
	struct err e = { 0 };
	struct str value;
	if (store_begin_read(fsm_store(node_fsm(w->nodes[i].node)), &t, &e) != 0)
		fail_msg("%s", e.msg);
	const int rc = store_get(t, STORE_TOPICS, str_of(name), &value);
	store_abort(t);
	return rc == 0;
}

static inline struct fsm_digest world_digest(struct world *w, size_t i)
{
	struct store_txn *t = NULL;
	struct err e = { 0 };
	struct fsm_digest d = { 0 };
	if (store_begin_read(fsm_store(node_fsm(w->nodes[i].node)), &t, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(fsm_get_digest(t, &d), 0);
	store_abort(t);
	return d;
}

/* Copy of a member's row; false: none. `alive` and so on of the whole table. */
static inline bool world_member(struct world *w, size_t i, const char *id, struct fsm_member *out)
{
	struct store_txn *t = NULL;
	struct err e = { 0 };
	const struct fsm_members *m = NULL;
	if (store_begin_read(fsm_store(node_fsm(w->nodes[i].node)), &t, &e) != 0)
		fail_msg("%s", e.msg);
	assert_int_equal(fsm_members_load(t, &m), 0);
	const struct fsm_member *row = fsm_members_find(m, str_of(id));
	static char tags[512];
	if (row && out) {
		*out = *row;
		snprintf(tags, sizeof(tags), STR_FMT, STR_ARG(row->tags));
		out->tags = str_of(tags);
		out->id = out->addr = out->cluster_addr = out->build = (struct str){ NULL, 0 };
	}
	fsm_members_unref(m);
	store_abort(t);
	return row != NULL;
}

/* Setups of cmocka: a world of `count` nodes that the test starts. */
static inline int world_setup(void **state, size_t count)
{
	struct world *w = mem_zalloc(sizeof(*w));
	world_init(w, count);
	*state = w;
	return 0;
}

static inline int world_setup_one(void **state)
{
	return world_setup(state, 1);
}

static inline int world_teardown(void **state)
{
	world_fini(*state);
	mem_free(*state);
	return 0;
}

/* The only node, until it leads. */
static inline void world_start_leader(struct world *w)
{
	world_start(w, 0);
	world_until(w, node_is_leader(w->nodes[0].node));
}

#endif /* TESTS_UNIT_NODE_WORLD_H */
