/* How a node starts and ends: its options, and the parts put together. What its directory holds, and what is made of
 * that, is recover.c's. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/rules.h"
#include "store/mark.h"

#define DEFAULT_HEARTBEAT_MS 100
#define DEFAULT_ELECTION_MS 500
#define DEFAULT_MEMBER_HEARTBEAT_MS 5000
#define BUILD_TEXT_MAX 64

/* ---- options ---- */

struct tags_only {
	struct str_map tags;
};

static const struct field tags_fields[] = { FIELD(STR_MAP, tags_only, tags, "tags", 0) };
static const struct record_type tags_type = RECORD_TYPE("tags", tags_only, tags_fields);

int node_tags_parse(struct str text, struct arena *a, struct str_map *out, struct err *e)
{
	const char *whole = arena_printf(a, "{\"tags\":" STR_FMT "}", STR_ARG(text));
	struct tags_only t;
	const int rc = record_read_json(&tags_type, str_of(whole), a, &t, NULL, e);
	if (rc == 0)
		*out = t.tags;
	return rc;
}

static const char **copy_names(struct arena *a, const char *const *names, size_t count)
{
	const char **out = arena_alloc(a, (count + 1) * sizeof(*out));
	for (size_t i = 0; i < count; i++)
		out[i] = arena_strdup(a, names[i]);
	return out;
}

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static void copy_options(struct node *n, const struct node_options *o)
{
	struct arena *a = &n->memory;
	n->o = *o;
	n->o.id = arena_strdup(a, o->id);
	n->o.data_dir = arena_strdup(a, o->data_dir);
	n->o.http_addr = arena_strdup(a, o->http_addr);
	n->o.cluster_addr = arena_strdup(a, o->cluster_addr);
	n->o.peers = arena_dup(a, o->peers, o->peer_count * sizeof(o->peers[0]));
	n->o.initial_members = copy_names(a, o->initial_members, o->initial_member_count);
	n->o.join = copy_names(a, o->join, o->join_count);
	n->o.tags_json = arena_strdup(a, o->tags_json ? o->tags_json : "{}");
	n->o.build = arena_printf(a, "%.*s", BUILD_TEXT_MAX, o->build ? o->build : "unknown");
	n->o.heartbeat_ms = or_default(o->heartbeat_ms, DEFAULT_HEARTBEAT_MS);
	n->o.election_ms = or_default(o->election_ms, DEFAULT_ELECTION_MS);
	n->o.member_heartbeat_ms = or_default(o->member_heartbeat_ms, DEFAULT_MEMBER_HEARTBEAT_MS);
	n->o.max_entry_type = or_default(o->max_entry_type, fsm_max_known_type());
	if (o->log_slots == 0 || o->log_slots > NODE_LOG_SLOTS)
		n->o.log_slots = NODE_LOG_SLOTS;
	node_snapshot_defaults(&n->o);
	n->pool = o->pool;
}

static int check_options(struct node *n, struct err *e)
{
	const struct node_options *o = &n->o;
	if (!rule_member_id(str_of(o->id)))
		return err_set(e, ERR_INVALID, "--id \"%s\" is not allowed: 1 to %d of A-Za-z0-9._-", o->id,
		               MEMBER_ID_MAX);
	if (!rule_host_port(str_of(o->http_addr)))
		return err_set(e, ERR_INVALID, "the HTTP address to announce, \"%s\", is not host:port", o->http_addr);
	if (!rule_host_port(str_of(o->cluster_addr)))
		return err_set(e, ERR_INVALID, "the cluster address to announce, \"%s\", is not host:port",
		               o->cluster_addr);
	if (o->peer_count > RAFT_SERVERS_MAX)
		return err_set(e, ERR_INVALID, "--peers names %zu servers, allowed are %d", o->peer_count,
		               RAFT_SERVERS_MAX);
	for (size_t i = 0; i < o->peer_count; i++) {
		if (!rule_member_id(str_of(o->peers[i].name)) || !rule_host_port(str_of(o->peers[i].addr)))
			return err_set(e, ERR_INVALID, "--peers: \"%s@%s\" is not id@host:port", o->peers[i].name,
			               o->peers[i].addr);
	}
	if (o->max_entry_type > fsm_max_known_type())
		return err_set(e, ERR_INVALID,
		               "--max-entry-type %" PRIu32 " is more than this release knows (%" PRIu32 ")",
		               o->max_entry_type, fsm_max_known_type());
	struct err why = { 0 };
	if (node_tags_parse(str_of(o->tags_json), &n->memory, &n->tags, &why) != 0 ||
	    rules_check_labels(&n->tags, "tags", NULL, &why) != 0)
		return err_set(e, ERR_INVALID, "--tag: %.300s", why.msg);
	return 0;
}

/* ---- raft ---- */

static const struct raft_conf *decode_conf(struct node *n, const struct entry *e, struct err *err, int *rc)
{
	if (e->index == 0 || *rc != 0)
		return NULL;
	struct raft_conf *c = arena_alloc(&n->memory, sizeof(*c));
	*rc = raft_conf_decode(e->data, e->len, c, err);
	return *rc == 0 ? c : NULL;
}

static int start_raft(struct node *n, const struct node_found *f, struct err *e)
{
	const struct wal_recovered *l = &f->log;
	struct raft_params p;
	raft_params_default(&p);
	p.self = n->self.incarnation;
	p.heartbeat_ms = n->o.heartbeat_ms;
	p.election_ms = n->o.election_ms;
	p.apply_entries_max = NODE_APPLY_SLOTS;
	if (n->o.append_bytes)
		p.append_bytes_max = n->o.append_bytes;
	p.seed = n->o.seed;
	while (p.seed == 0)
		rand_secure(&p.seed, sizeof(p.seed));
	struct raft_term_range *terms = mem_alloc((l->term_count + 1) * sizeof(*terms));
	for (size_t i = 0; i < l->term_count; i++)
		terms[i] = (struct raft_term_range){ .first = l->terms[i].first, .term = l->terms[i].term };
	int rc = 0;
	const struct raft_start s = {
		.term = l->term,
		.vote = l->vote,
		.snapshot_index = f->base.index,
		.snapshot_term = f->base.term,
		.snapshot_conf = f->base.index > 0 ? &f->base.conf : NULL,
		.first_index = l->first_index,
		.last_index = l->last_index,
		.base_term = l->base_term,
		.terms = terms,
		.term_count = l->term_count,
		.tail = l->tail,
		.tail_count = l->tail_count,
		.applied_index = f->applied,
		.conf = decode_conf(n, &l->confs[0], e, &rc),
		.conf_index = l->confs[0].index,
		.conf_prev = decode_conf(n, &l->confs[1], e, &rc),
		.conf_prev_index = l->confs[1].index,
	};
	if (rc == 0)
		n->raft = raft_new(&p, &s, n->now);
	mem_free(terms);
	return rc;
}

/* The newest time in the log, or in the snapshot it stands on; a cluster whose last 4 MiB of entries hold no command
 * has hardly any time to go back. */
static uint64_t newest_time(const struct node_found *f)
{
	uint64_t newest = f->time_ms;
	for (size_t i = 0; i < f->log.tail_count; i++) {
		const struct entry *e = &f->log.tail[i];
		const uint64_t ms = e->kind == ENTRY_COMMAND ? entry_time_ms(e->data, e->len) : 0;
		newest = ms > newest ? ms : newest;
	}
	return newest;
}

/* ---- assembly ---- */

static void make_queues(struct node *n)
{
	wake_init(&n->wake);
	wake_init(&n->log_wake);
	wake_init(&n->apply_wake);
	n->proposals = queue_new(NODE_QUEUE_SLOTS, sizeof(struct node_proposal), &n->wake);
	n->readers = queue_new(NODE_QUEUE_SLOTS, sizeof(struct node_reply_to), &n->wake);
	n->asks = queue_new(NODE_ASK_SLOTS, sizeof(struct node_ask), &n->wake);
	n->changes = queue_new(NODE_ASK_SLOTS, sizeof(struct node_change *), &n->wake);
	n->log_in = queue_new(NODE_LOG_SLOTS, sizeof(struct node_log_batch *), &n->log_wake);
	n->log_out = queue_new(NODE_LOG_SLOTS, sizeof(struct node_log_batch *), &n->wake);
	n->apply_in = queue_new(NODE_APPLY_SLOTS, sizeof(struct node_apply_batch *), &n->apply_wake);
	n->fetched = queue_new(NODE_FETCH_SLOTS, sizeof(struct node_fetch *), &n->wake);
	n->own_done = queue_new(NODE_REGISTER_SLOTS, sizeof(struct node_completion), &n->wake);
	n->snapshot_asks = queue_new(NODE_ASK_SLOTS, sizeof(struct node_reply_to), &n->wake);
	n->chunks = queue_new(NODE_SEND_SLOTS, sizeof(struct node_send *), &n->wake);
}

static int assemble(struct node *n, const struct node_found *f, struct err *e)
{
	n->now = clock_mono_ms();
	n->last_time_ms = newest_time(f);
	n->applied_told = f->applied;
	n->log.self = n->self;
	snprintf(n->status.id, sizeof(n->status.id), "%s", n->o.id);
	fsm_reader_init(&n->scrub.reader, n->fsm);
	int rc = start_raft(n, f, e);
	if (rc == 0)
		rc = node_apply_open(n, e);
	if (rc != 0)
		return rc;
	node_gate_take_reports(n);
	node_look(n);
	node_snapshot_open(n, f);
	rc = node_bootstrap_init(n, e);
	if (rc != 0)
		return rc;
	node_status_publish(n);
	log_info("node.opened",
	         "incarnation=%016" PRIx64 " cluster=%016" PRIx64 " term=%" PRIu64 " log=%" PRIu64 "..%" PRIu64
	         " applied=%" PRIu64 " fsm=\"%s\"",
	         n->self.incarnation, n->self.cluster_id, f->log.term, f->log.first_index, f->log.last_index,
	         f->applied, f->fsm.why);
	n->opened = true;
	return 0;
}

int node_open(const struct node_options *o, struct node **out, struct err *e)
{
	struct node *n = mem_zalloc(sizeof(*n));
	struct node_found f = { 0 };
	n->dir.fd = -1;
	n->dir.lock_fd = -1;
	n->install.fd = -1;
	copy_options(n, o);
	make_queues(n);
	entry_builder_init(&n->builder);
	int rc = check_options(n, e);
	if (rc == 0)
		rc = node_dir_open(&n->dir, n->o.data_dir, e);
	if (rc == 0)
		rc = node_recover(n, &f, e);
	if (rc == 0)
		rc = assemble(n, &f, e);
	wal_recovered_fini(&f.log);
	if (rc != 0) {
		node_close(n);
		return rc;
	}
	*out = n;
	return 0;
}

void node_attach_net(struct node *n, struct net_peers *net)
{
	n->net = net;
	node_links_start(n);
}

void node_add_watcher(struct node *n, struct node_watcher *w)
{
	assert(n->watcher_count < NODE_WATCHERS_MAX);
	n->watchers[n->watcher_count++] = w;
}

void node_on_leadership(struct node *n, void (*fn)(void *arg, raft_term term), void *arg)
{
	assert(n->listener_count < NODE_LISTENERS_MAX);
	n->listeners[n->listener_count++] = (struct node_listener){ .fn = fn, .arg = arg };
}

struct wake *node_wake(struct node *n)
{
	return &n->wake;
}

struct wake *node_log_wake(struct node *n)
{
	return &n->log_wake;
}

struct wake *node_apply_wake(struct node *n)
{
	return &n->apply_wake;
}

/* ---- the end ---- */

static void discard_queued(struct node *n)
{
	struct node_proposal p;
	while (queue_take(n->proposals, &p))
		slab_unref(p.entry);
	node_log_discard(n);
	node_apply_discard(n);
	node_fetch_discard(n);
	node_send_discard(n);
	node_install_discard(n);
	snapfiles_fini(&n->snap.files);
	node_inbox_discard(n);
	node_membership_discard(n);
	node_read_fini(n);
	mem_free(n->inbox.events);
	mem_free(n->pending.slots);
	mem_free(n->reports);
}

static void free_queues(struct node *n)
{
	queue_free(n->proposals);
	queue_free(n->readers);
	queue_free(n->asks);
	queue_free(n->changes);
	queue_free(n->log_in);
	queue_free(n->log_out);
	queue_free(n->apply_in);
	queue_free(n->fetched);
	queue_free(n->own_done);
	queue_free(n->snapshot_asks);
	queue_free(n->chunks);
	wake_fini(&n->wake);
	wake_fini(&n->log_wake);
	wake_fini(&n->apply_wake);
}

void node_close(struct node *n)
{
	if (!n)
		return;
	assert(!atomic_load(&n->segment.busy) && !atomic_load(&n->sync.busy)); /* the pool has run dry */
	assert(!atomic_load(&n->room.busy) && !atomic_load(&n->scrub.busy));
	fsm_reader_fini(&n->scrub.reader);
	assert(!atomic_load(&n->snap.take.busy) && !atomic_load(&n->snap.prune.busy));
	discard_queued(n);
	raft_free(n->raft);
	wal_close(n->wal);
	struct err e = { 0 };
	const bool clean = n->opened && !atomic_load(&n->apply_failed) && !atomic_load(&n->sync_failed) &&
	                   !atomic_load(&n->scrub.failed);
	if (fsm_close(n->fsm, clean, &e) != 0)
		log_warn("metastore: fsm.mdb was not marked clean; the next start rebuilds it", "reason=\"%s\"", e.msg);
	node_dir_close(&n->dir);
	wire_out_fini(&n->wire);
	entry_builder_fini(&n->builder);
	arena_fini(&n->scratch);
	free_queues(n);
	arena_fini(&n->memory);
	mem_free(n);
}
