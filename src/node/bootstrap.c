/* How a cluster begins. The smallest id of --initial-members asks all the others "are you empty?" and begins the
 * cluster only when every one of them said yes in one round; the others take the configuration from it. A node with
 * --bootstrap is the cluster by itself; a node that is not named in --initial-members never begins one, however empty
 * it is.
 *
 *   ASKING --all empty--> WRITING --cluster id durable--> DONE        NEVER: a configuration comes, or none does
 *   ALONE ----------------^                                           any --a configuration came--> DONE
 *
 * The cluster id is durable before the first message of the new cluster leaves: a crash at any step either leaves
 * everybody empty, and the round is simply held again under the same id, or leaves a configuration in the log here. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROUND_MS 500
#define FIRST_NAG_MS 2000 /* servers that start together need a moment to find each other */

static const char *initial_name(const struct node_options *o, size_t i)
{
	return o->initial_member_count > 0 ? o->initial_members[i] : o->peers[i].name;
}

static size_t initial_count(const struct node_options *o)
{
	return o->initial_member_count > 0 ? o->initial_member_count : o->peer_count;
}

static bool is_initial(const struct node_options *o)
{
	for (size_t i = 0; i < initial_count(o); i++) {
		if (strcmp(initial_name(o, i), o->id) == 0)
			return true;
	}
	return false;
}

bool node_may_bootstrap(const struct node_options *o)
{
	return o->bootstrap || (is_initial(o) && o->join_count == 0);
}

static bool is_smallest(const struct node_options *o)
{
	for (size_t i = 0; i < initial_count(o); i++) {
		if (strcmp(initial_name(o, i), o->id) < 0)
			return false;
	}
	return true;
}

static bool is_peer(const struct node_options *o, const char *name)
{
	for (size_t i = 0; i < o->peer_count; i++) {
		if (strcmp(o->peers[i].name, name) == 0)
			return true;
	}
	return false;
}

static int add_candidates(struct node *n, struct err *e)
{
	struct node_bootstrap *b = &n->boot;
	for (size_t i = 0; i < initial_count(&n->o); i++) {
		const char *name = initial_name(&n->o, i);
		if (strcmp(name, n->o.id) == 0)
			continue;
		if (!is_peer(&n->o, name))
			return err_set(e, ERR_INVALID, "--initial-members names %s, which --peers has no address for",
			               name);
		if (b->count == RAFT_SERVERS_MAX - 1)
			return err_set(e, ERR_INVALID, "--initial-members names more than %d servers",
			               RAFT_SERVERS_MAX);
		snprintf(b->candidates[b->count++].name, sizeof(b->candidates[0].name), "%s", name);
	}
	return 0;
}

/* A cluster that another node began has told this one of itself: nothing here may begin under its id. */
static bool may_begin(const struct node *n)
{
	return n->self.cluster_id == 0 || n->self.minted;
}

int node_bootstrap_init(struct node *n, struct err *e)
{
	struct node_bootstrap *b = &n->boot;
	b->state = NODE_BOOT_NEVER;
	if (node_is_configured(n)) {
		b->state = NODE_BOOT_DONE;
		return 0;
	}
	if (!may_begin(n))
		return 0;
	if (n->o.bootstrap) {
		b->state = NODE_BOOT_ALONE;
		return 0;
	}
	if (!node_may_bootstrap(&n->o) || !is_smallest(&n->o))
		return 0;
	b->state = NODE_BOOT_ASKING;
	return add_candidates(n, e);
}

/* ---- the round ---- */

static struct node_candidate *candidate_find(struct node *n, const char *name)
{
	for (size_t i = 0; i < n->boot.count; i++) {
		if (strcmp(n->boot.candidates[i].name, name) == 0)
			return &n->boot.candidates[i];
	}
	return NULL;
}

/* NULL: this one agrees. */
static const char *objection(const struct node *n, const struct node_candidate *c)
{
	if (!c->answered)
		return "no answer";
	if (!c->empty)
		return "holds a configuration";
	if (c->cluster_id != 0 && c->cluster_id != n->self.cluster_id)
		return "belongs to a cluster";
	return NULL;
}

static bool is_unanimous(const struct node *n)
{
	for (size_t i = 0; i < n->boot.count; i++) {
		if (objection(n, &n->boot.candidates[i]))
			return false;
	}
	return true;
}

static void nag(struct node *n)
{
	if (n->boot.next_nag_ms == 0)
		n->boot.next_nag_ms = n->now + FIRST_NAG_MS;
	if (n->now < n->boot.next_nag_ms)
		return;
	n->boot.next_nag_ms = n->now + NODE_NAG_MS;
	if (n->boot.state == NODE_BOOT_NEVER) {
		log_info("bootstrap.waiting", "for=\"a configuration from the cluster\" may_bootstrap=%s",
		         node_may_bootstrap(&n->o) ? "the smallest of --initial-members" : "no");
		return;
	}
	struct buf missing = { 0 };
	for (size_t i = 0; i < n->boot.count; i++) {
		const char *why = objection(n, &n->boot.candidates[i]);
		if (why)
			buf_printf(&missing, "%s%s: %s", missing.len ? ", " : "", n->boot.candidates[i].name, why);
	}
	log_info("bootstrap.waiting", "round=%" PRIu64 " lacks=\"%s\"", n->boot.round, buf_cstr(&missing));
	buf_fini(&missing);
}

static void ask_all(struct node *n)
{
	struct node_bootstrap *b = &n->boot;
	if (b->round > 0)
		nag(n); /* the round that ends now lacked somebody */
	b->next_ms = n->now + ROUND_MS;
	const struct wire_probe ask = { .round = ++b->round };
	for (size_t i = 0; i < b->count; i++) {
		b->candidates[i].answered = false;
		(void)node_send_record(n, b->candidates[i].name, WIRE_PROBE, &wire_probe_type,
		                       &ask); /* unheard: no answer */
	}
}

static void write_cluster_id(struct node *n)
{
	n->boot.state = NODE_BOOT_WRITING;
	n->self.minted = true;
	while (n->self.cluster_id == 0) /* after a crash half-way the one already written is used */
		rand_secure(&n->self.cluster_id, sizeof(n->self.cluster_id));
	node_log_put_identity(n);
}

static void add_server(struct raft_conf *c, node_id id, const char *name, const char *addr)
{
	uint32_t at = c->count++;
	while (at > 0 && strcmp(c->servers[at - 1].name, name) > 0) {
		c->servers[at] = c->servers[at - 1];
		at--;
	}
	struct raft_server *s = &c->servers[at];
	memset(s, 0, sizeof(*s));
	s->id = id;
	s->voter = true;
	snprintf(s->name, sizeof(s->name), "%s", name);
	snprintf(s->addr, sizeof(s->addr), "%s", addr);
}

void node_bootstrap_written(struct node *n)
{
	struct node_bootstrap *b = &n->boot;
	if (b->state != NODE_BOOT_WRITING)
		return; /* the id of a cluster that told us of itself */
	b->state = NODE_BOOT_DONE;
	struct raft_conf c = { 0 };
	add_server(&c, n->self.incarnation, n->o.id, n->o.cluster_addr);
	for (size_t i = 0; i < b->count; i++)
		add_server(&c, b->candidates[i].incarnation, b->candidates[i].name, b->candidates[i].addr);
	struct err e = { 0 };
	const int rc = raft_bootstrap(n->raft, &c, &e);
	if (rc != 0) {
		log_error("bootstrap.failed", "reason=\"%s\"", e.msg);
		node_mark_stopped(n, e.msg);
		return;
	}
	log_info("bootstrap.begun", "cluster=%016" PRIx64 " servers=%u", n->self.cluster_id, c.count);
	node_look(n);
}

uint64_t node_bootstrap_turn(struct node *n)
{
	struct node_bootstrap *b = &n->boot;
	if (b->state == NODE_BOOT_DONE || b->state == NODE_BOOT_WRITING)
		return UINT64_MAX;
	if (node_is_configured(n)) {
		b->state = NODE_BOOT_DONE;
		return UINT64_MAX;
	}
	if (!may_begin(n))
		b->state = NODE_BOOT_NEVER;
	if (b->state == NODE_BOOT_NEVER) {
		nag(n);
		return b->next_nag_ms;
	}
	if (b->state == NODE_BOOT_ALONE) {
		write_cluster_id(n);
		return UINT64_MAX;
	}
	if (b->round > 0 && is_unanimous(n)) {
		write_cluster_id(n);
		return UINT64_MAX;
	}
	if (n->now >= b->next_ms)
		ask_all(n);
	return b->next_ms;
}

/* Somebody came who was missing, so the round under way will lack it: the next begins at once. */
void node_bootstrap_on_up(struct node *n)
{
	if (n->boot.state == NODE_BOOT_ASKING)
		n->boot.next_ms = n->now;
}

/* ---- frames ---- */

void node_bootstrap_on_probe(struct node *n, const struct node_event *ev)
{
	struct wire_probe ask;
	struct err e = { 0 };
	arena_reset(&n->scratch);
	if (record_read_mp(&wire_probe_type, ev->body, ev->len, &n->scratch, &ask, &e) != 0) {
		node_bad_frame(n, ev, e.msg);
		return;
	}
	const struct wire_probe_reply r = { .round = ask.round,
		                            .cluster_id = n->self.cluster_id,
		                            .empty = !node_is_configured(n),
		                            .addr = str_of(n->o.cluster_addr) };
	(void)node_send_record(n, ev->hello.name, WIRE_PROBE_REPLY, &wire_probe_reply_type, &r); /* else asked again */
}

void node_bootstrap_on_reply(struct node *n, const struct node_event *ev)
{
	struct node_candidate *c = candidate_find(n, ev->hello.name);
	if (n->boot.state != NODE_BOOT_ASKING || !c)
		return;
	struct wire_probe_reply r;
	struct err e = { 0 };
	arena_reset(&n->scratch);
	if (record_read_mp(&wire_probe_reply_type, ev->body, ev->len, &n->scratch, &r, &e) != 0 ||
	    r.addr.len > RAFT_ADDR_MAX || r.addr.len == 0) {
		node_bad_frame(n, ev, e.code ? e.msg : "no address");
		return;
	}
	if (r.round != n->boot.round)
		return; /* an answer of an earlier round proves nothing about this one */
	c->answered = true;
	c->empty = r.empty;
	c->cluster_id = r.cluster_id;
	c->incarnation = ev->hello.incarnation;
	snprintf(c->addr, sizeof(c->addr), STR_FMT, STR_ARG(r.addr));
}
