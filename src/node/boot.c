/* How a node starts and ends: what the directory holds decides.
 *
 *   fsm.mdb                     Raft state         may bootstrap  others
 *   ----------------------------------------------------------------------------------------------------------
 *   holds nothing               none               start empty    start empty
 *   holds anything              none               refuse         set aside as fsm.stale, start empty
 *   any                         gap before its log refuse         refuse: nothing can fill the gap
 *   trusted, past the log       some               refuse         set aside, as a new incarnation
 *   trusted, within the log     some               keep it; what it already holds is not applied again
 *   not trusted, or absent      some               set aside, rebuild it from the log
 *
 * Raft state is a log that was made, whatever it holds. Where it was lost, or is an older one, this node no longer
 * knows what it acknowledged and whom it voted for: it goes on as another incarnation, which counts for nothing until
 * the cluster took it in. Identity is written before the log is made: a log that nobody owns is refused. Not trusted
 * (store/mark.h) is never opened, not even to look, and counts as "holds anything". Whatever refuses does so before it
 * has changed a file. */
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

/* ---- what the directory holds ---- */

struct found {
	struct store_verdict fsm;
	raft_index applied; /* trusted */
	bool holds;         /* fsm.mdb holds anything */
	struct wal_recovered log;
	bool raft_state;
};

static int open_fsm(struct node *n, struct err *e)
{
	const struct fsm_options o = { .store = { .dir = n->o.data_dir,
		                                  .map_bytes = (uint64_t)n->o.map_gib << 30,
		                                  .sync_commits = n->o.sync_fsm },
		                       .max_entry_type = n->o.max_entry_type };
	return fsm_open(&o, &n->fsm, e);
}

static int look_into_fsm(struct node *n, struct found *f, struct err *e)
{
	struct store_txn *txn = NULL;
	struct fsm_applied applied;
	int rc = store_begin_read(fsm_store(n->fsm), &txn, e);
	if (rc == 0)
		rc = fsm_get_applied(txn, &applied);
	if (rc == 0)
		rc = fsm_holds_data(txn, &f->holds);
	if (rc == 0) {
		f->applied = applied.index;
		f->holds = f->holds || applied.index > 0;
	} else if (txn) {
		rc = err_set(e, rc, "%s/" STORE_FILE ": %.300s", n->o.data_dir, store_txn_error(txn)->msg);
	}
	store_abort(txn);
	return rc;
}

static int find_fsm(struct node *n, struct found *f, struct err *e)
{
	int rc = store_judge(n->o.data_dir, &f->fsm, e);
	if (rc != 0 || f->fsm.trust == STORE_ABSENT)
		return rc;
	if (f->fsm.trust == STORE_TRUSTED) {
		rc = open_fsm(n, e);
		if (rc == 0)
			return look_into_fsm(n, f, e);
		if (rc != ERR_CORRUPT)
			return rc;
		/* Trusted by its mark and yet not what we write: somebody else's file under our name. */
		f->fsm.trust = STORE_UNTRUSTED;
		snprintf(f->fsm.why, sizeof(f->fsm.why), "%.*s", (int)sizeof(f->fsm.why) - 1, e->msg);
	}
	f->holds = true;
	return 0;
}

static int open_log(struct node *n, struct found *f, bool read_only, struct err *e)
{
	char dir[NODE_DIR_PATH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/wal", n->o.data_dir);
	const struct wal_options o = { .dir = dir,
		                       .cluster_id = n->self.cluster_id,
		                       .segment_bytes = n->o.segment_bytes,
		                       .read_only = read_only };
	return wal_open(&o, &n->wal, &f->log, e);
}

/* A log without the file `node` belongs to a node whose name and incarnation nobody knows. */
static int refuse_orphan_log(struct node *n, struct found *f, struct err *e)
{
	const int rc = open_log(n, f, true, e);
	if (rc != 0)
		return rc;
	const bool fresh = f->log.fresh;
	wal_recovered_fini(&f->log);
	memset(&f->log, 0, sizeof(f->log));
	wal_close(n->wal);
	n->wal = NULL;
	if (fresh)
		return 0;
	return err_set(e, ERR_CORRUPT,
	               "%s holds a Raft log but no file `node` that says whose it is; restore that file from a backup, "
	               "or start with an empty directory and join anew",
	               n->o.data_dir);
}

static void draw_incarnation(struct node *n)
{
	n->self.admitted = false;
	do
		rand_secure(&n->self.incarnation, sizeof(n->self.incarnation));
	while (n->self.incarnation == 0);
}

static int find_identity(struct node *n, struct found *f, bool *is_new, struct err *e)
{
	*is_new = false;
	const int rc = node_dir_read_identity(&n->dir, &n->self, e);
	if (rc == 0 && strcmp(n->self.id, n->o.id) != 0)
		return err_set(e, ERR_IDENTITY, "%s belongs to node \"%s\", but --id says \"%s\"", n->o.data_dir,
		               n->self.id, n->o.id);
	if (rc != ERR_NOTFOUND)
		return rc;
	*is_new = true;
	snprintf(n->self.id, sizeof(n->self.id), "%s", n->o.id);
	draw_incarnation(n);
	return refuse_orphan_log(n, f, e);
}

/* ---- the decision ---- */

enum decision { KEEP, SET_ASIDE };

static int refuse_data_without_log(const struct node *n, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT,
	    "%s/" STORE_FILE " holds data, but there is no Raft state (wal/, snapshots/) beside it, and this node "
	    "may begin a new cluster, which would have none of its topics; put the Raft state back, or move " STORE_FILE
	    " away, or start with --join to take the data from a running cluster",
	    n->o.data_dir);
}

static int refuse_older_log(const struct node *n, const struct found *f, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT,
	    "%s/" STORE_FILE " has applied entry %" PRIu64 ", but the Raft log ends at %" PRIu64
	    ": the log is of an older backup, and a rebuild from it would drop what came since; put the newer "
	    "log back, or start with --join to take everything from the cluster",
	    n->o.data_dir, f->applied, f->log.last_index);
}

/* Before the log is opened, since opening makes one. A log that was made and holds nothing yet is Raft state too: a
 * node that lost its power before its first entry is not one whose log was taken away. */
static int look_for_raft_state(const struct node *n, struct found *f, struct err *e)
{
	char dir[NODE_DIR_PATH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/wal", n->o.data_dir);
	f->raft_state = wal_is_there(dir);
	if (!f->raft_state && f->holds && node_may_bootstrap(&n->o))
		return refuse_data_without_log(n, e);
	return 0;
}

static int decide(const struct node *n, const struct found *f, enum decision *out, struct err *e)
{
	*out = KEEP;
	const bool may_bootstrap = node_may_bootstrap(&n->o);
	if (!f->raft_state) {
		*out = f->holds ? SET_ASIDE : KEEP;
		return 0;
	}
	if (f->log.base_index > 0)
		return err_set(
		    e, ERR_CORRUPT,
		    "%s: entries 1 to %" PRIu64 " are missing: the Raft log begins behind them and there is no "
		    "snapshot of them; restore snapshots/ from a backup, or start with an empty directory and "
		    "join anew",
		    n->o.data_dir, f->log.base_index);
	if (f->applied > f->log.last_index) {
		if (may_bootstrap)
			return refuse_older_log(n, f, e);
		*out = SET_ASIDE;
		return 0;
	}
	*out = f->fsm.trust == STORE_UNTRUSTED ? SET_ASIDE : KEEP;
	return 0;
}

static int set_aside(struct node *n, struct found *f, struct err *e)
{
	log_warn("metastore: set fsm.mdb aside as fsm.stale", "reason=\"%s\" applied=%" PRIu64 " log_last=%" PRIu64,
	         f->fsm.why, f->applied, f->log.last_index);
	int rc = fsm_close(n->fsm, false, e);
	n->fsm = NULL;
	if (rc == 0)
		rc = store_set_aside(n->o.data_dir, e);
	f->applied = 0;
	return rc;
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

static int start_raft(struct node *n, const struct found *f, struct err *e)
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

/* The newest time in the log; a cluster whose last 4 MiB of entries hold no command has hardly any time to go back. */
static uint64_t newest_time(const struct wal_recovered *l)
{
	uint64_t newest = 0;
	for (size_t i = 0; i < l->tail_count; i++) {
		const struct entry *e = &l->tail[i];
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
}

static int begin_anew(struct node *n, const char *why, struct err *e)
{
	const uint64_t before = n->self.incarnation;
	draw_incarnation(n);
	log_warn("node.new_incarnation", "before=%016" PRIx64 " incarnation=%016" PRIx64 " reason=\"%s\"", before,
	         n->self.incarnation, why);
	return node_dir_write_identity(&n->dir, &n->self, e);
}

/* Whose log this will be, before it is made. */
static int settle_identity(struct node *n, const struct found *f, bool is_new, struct err *e)
{
	if (is_new)
		return node_dir_write_identity(&n->dir, &n->self, e);
	if (f->raft_state || (n->self.cluster_id == 0 && !n->self.admitted))
		return 0;
	n->self.cluster_id = 0;
	n->self.minted = false;
	return begin_anew(n, "the Raft log is gone", e);
}

static int recover(struct node *n, struct found *f, struct err *e)
{
	bool is_new;
	enum decision d;
	int rc = find_identity(n, f, &is_new, e);
	if (rc == 0)
		rc = find_fsm(n, f, e);
	if (rc == 0)
		rc = look_for_raft_state(n, f, e);
	if (rc == 0)
		rc = settle_identity(n, f, is_new, e);
	if (rc == 0)
		rc = open_log(n, f, false, e);
	if (rc == 0)
		rc = decide(n, f, &d, e);
	if (rc == 0 && f->raft_state && f->applied > f->log.last_index)
		rc = begin_anew(n, "the Raft log is older than fsm.mdb", e);
	if (rc == 0 && d == SET_ASIDE)
		rc = set_aside(n, f, e);
	if (rc == 0 && !n->fsm)
		rc = open_fsm(n, e);
	if (rc == 0)
		rc = node_dir_sign_lock(&n->dir, e);
	if (rc == 0)
		node_dir_remove_leftovers(&n->dir);
	if (rc == 0 && f->log.dropped_index > 0)
		log_warn("log.torn_tail", "index=%" PRIu64 " note=\"half-written, never acknowledged\"",
		         f->log.dropped_index);
	return rc;
}

static int assemble(struct node *n, const struct found *f, struct err *e)
{
	n->now = clock_mono_ms();
	n->last_time_ms = newest_time(&f->log);
	n->applied_told = f->applied;
	n->log.self = n->self;
	snprintf(n->status.id, sizeof(n->status.id), "%s", n->o.id);
	int rc = start_raft(n, f, e);
	if (rc == 0)
		rc = node_apply_open(n, e);
	if (rc != 0)
		return rc;
	node_gate_take_reports(n);
	node_look(n);
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
	struct found f = { 0 };
	n->dir.fd = -1;
	n->dir.lock_fd = -1;
	copy_options(n, o);
	make_queues(n);
	entry_builder_init(&n->builder);
	int rc = check_options(n, e);
	if (rc == 0)
		rc = node_dir_open(&n->dir, n->o.data_dir, e);
	if (rc == 0)
		rc = recover(n, &f, e);
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

void node_self_hello(const struct node *n, struct net_hello *out)
{
	memset(out, 0, sizeof(*out));
	out->cluster_id = n->self.cluster_id;
	out->incarnation = n->self.incarnation;
	snprintf(out->name, sizeof(out->name), "%s", n->o.id);
	snprintf(out->addr, sizeof(out->addr), "%s", n->o.cluster_addr);
	out->empty = !node_is_configured(n);
	out->learner = n->o.learner;
	out->entry_types = n->o.max_entry_type;
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
	wake_fini(&n->wake);
	wake_fini(&n->log_wake);
	wake_fini(&n->apply_wake);
}

void node_close(struct node *n)
{
	if (!n)
		return;
	assert(!atomic_load(&n->segment.busy) && !atomic_load(&n->sync.busy)); /* the pool has run dry */
	discard_queued(n);
	raft_free(n->raft);
	wal_close(n->wal);
	struct err e = { 0 };
	const bool clean = n->opened && !atomic_load(&n->apply_failed) && !atomic_load(&n->sync_failed);
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
