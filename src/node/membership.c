/* Who belongs to the cluster: changes of the configuration, on the leader.
 *
 *   asked --new server, new address--> PROBING --it answers--> WAITING <--next step-- committed
 *         --anything else-----------------------------------> WAITING --appended--> CHANGING --committed--> answered
 *
 * A server that is not there changes nothing (F11): it is dialled first, and must say that it is the server asked for,
 * of this cluster or of none, and no older release than the members. It comes in as a learner, always; the wish for a
 * vote stands in the configuration ("staged"), and whoever leads grants it in time (promote.c). A known id with another
 * incarnation is a wiped disk: the vote of the old one ends with the entry that admits the new one as a learner (F12).
 * One change at a time: raft sees to it, the others wait here.
 *
 * Removal and demotion are judged by who would be left: not fewer than min_voters, and a majority of them answering
 * now, so that a cluster is not brought to where the next loss is fatal (F10). */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/rules.h"

#define PROBE_MS 3000  /* a server that has not answered by then is not there */
#define CHANGE_MS 5000 /* waiting for the change before, and again for the own one to commit */
#define LINGER_MS 2000 /* after an answer over a link made for it */
#define GONE_MS 3000   /* an incarnation silent for so long may be replaced by another of the same id */
#define REFUSED_QUIET_MS 60000

/* ---- changes as objects ---- */

struct node_change *node_change_new(void)
{
	struct node_change *c = mem_zalloc(sizeof(*c));
	atomic_init(&c->refs, 1);
	return c;
}

void node_change_unref(struct node_change *c)
{
	if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		mem_free(c);
}

bool node_ask_change(struct node *n, struct node_change *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	if (queue_put(n->changes, &c))
		return true;
	node_change_unref(c);
	return false;
}

/* Silence proves something only to who has listened so long. */
static bool may_be_alive(const struct node *n, node_id id)
{
	return n->now < n->office_since + GONE_MS || node_has_answered(n, id, GONE_MS);
}

/* ---- the end of an admission ---- */

static enum wire_join_code join_code(int code)
{
	switch (code) {
	case 0: return WIRE_JOIN_ADMITTED;
	case NODE_CHANGE_REMOVED: return WIRE_JOIN_REMOVED;
	case NODE_CHANGE_UNREACHABLE:
	case NODE_CHANGE_BEHIND:
	case NODE_CHANGE_TAKEN: return WIRE_JOIN_DEFERRED;
	default: return code < 0 ? WIRE_JOIN_DEFERRED : WIRE_JOIN_REFUSED;
	}
}

static void answer_joiner(struct node *n, struct node_admission *a, int code, const char *why)
{
	const struct wire_join_reply r = { .code = join_code(code), .text = str_of(why) };
	const bool heard =
	    a->link[0] != '\0' && node_send_record(n, a->link, WIRE_JOIN_REPLY, &wire_join_reply_type, &r);
	if (code == 0)
		log_info("member.admitted", "id=%s addr=%s incarnation=%016" PRIx64 " index=%" PRIu64, a->id, a->addr,
		         a->incarnation, a->index);
	else if (log_allow(&n->membership.refused_limit, REFUSED_QUIET_MS))
		log_warn("member.not_admitted", "id=%s addr=%s reason=\"%s\" told=%s", a->id, a->addr, why,
		         heard ? "yes" : "no");
}

static void answer_asker(const struct node *n, struct node_admission *a, int code, raft_index index, const char *why)
{
	struct node_change *c = a->change;
	c->added = a->added;
	c->changed = a->changed;
	const struct raft_server *s = raft_conf_find_name(&n->conf, a->id);
	c->server = s ? *s : (struct raft_server){ .id = 0 };
	snprintf(c->why, sizeof(c->why), "%s", why);
	const struct node_reply_to reply = c->reply;
	node_change_unref(c); /* the asker holds it until it has read the answer */
	a->change = NULL;
	node_answer(&reply, code, index, 0);
}

static void finish(struct node *n, struct node_admission *a, int code, const char *why)
{
	const bool joiner = a->change == NULL;
	if (joiner)
		answer_joiner(n, a, code, why);
	else
		answer_asker(n, a, code, code == 0 ? a->index : 0, why);
	a->state = NODE_ADMISSION_FREE;
	struct node_link *l = a->link[0] != '\0' ? node_links_find(n, a->link) : NULL;
	if (!l || !a->probes)
		return;
	if (joiner) {
		a->state = NODE_ADMISSION_LINGERING; /* the answer is still on its way */
		a->deadline_ms = n->now + LINGER_MS;
	}
	l->keep_until_ms = joiner ? n->now + LINGER_MS : n->now;
}

static PRINTF_LIKE(4, 5) void refuse(struct node *n, struct node_admission *a, int code, const char *fmt, ...)
{
	char why[sizeof(a->change->why)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	finish(n, a, code, why);
}

/* ---- probing ---- */

/* Finds or makes the link that leads to the address. */
static bool open_link(struct node *n, struct node_admission *a)
{
	const struct node_link *l = node_links_find(n, a->id);
	a->probes = false;
	if (l && strcmp(l->addr, a->addr) == 0) {
		snprintf(a->link, sizeof(a->link), "%s", l->name);
		return node_links_hold(n, a->link, a->addr, a->deadline_ms + LINGER_MS) != NULL;
	}
	if (l) /* the link to where it is now, if it is, must not be cut for a mere question */
		snprintf(a->link, sizeof(a->link), "probe/%zu", (size_t)(a - n->membership.slots));
	else
		snprintf(a->link, sizeof(a->link), "%s", a->id);
	a->probes = true;
	return node_links_hold(n, a->link, a->addr, a->deadline_ms + LINGER_MS) != NULL;
}

static uint32_t fewest_types(const struct node *n, const char *but)
{
	uint32_t min = n->o.max_entry_type;
	for (size_t i = 0; n->reports && i < n->reports->count; i++) {
		const struct node_report *r = &n->reports->rows[i];
		if (strcmp(r->name, but) != 0 && strcmp(r->name, n->o.id) != 0 && r->entry_types < min)
			min = r->entry_types;
	}
	return min;
}

/* A release that cannot read what is in the log already, or holds everybody back, does not come in. */
static bool is_older(const struct node *n, const struct node_admission *a, uint32_t types, uint32_t *needs)
{
	const uint32_t applied = atomic_load_explicit(&n->applied_type, memory_order_relaxed);
	*needs = fewest_types(n, a->id);
	if (applied > *needs)
		*needs = applied;
	return types < *needs;
}

static void wait_turn(struct node *n, struct node_admission *a)
{
	a->state = NODE_ADMISSION_WAITING;
	a->deadline_ms = n->now + CHANGE_MS;
}

static const struct raft_server *holder_of_addr(const struct node *n, const struct node_admission *a)
{
	for (uint32_t i = 0; i < n->conf.count; i++) {
		const struct raft_server *s = &n->conf.servers[i];
		if (strcmp(s->addr, a->addr) == 0 && strcmp(s->name, a->id) != 0)
			return s;
	}
	return NULL;
}

/* May this incarnation come in? 0, or a refusal with its sentence. One that is in the configuration already needs no
 * admission, only what was asked about it. */
static int judge_newcomer(const struct node *n, const struct node_admission *a, const struct net_hello *h, char *why,
                          size_t cap)
{
	const struct raft_server *known = raft_conf_find(&n->conf, a->incarnation);
	const struct raft_server *name = raft_conf_find_name(&n->conf, a->id);
	uint32_t needs;
	if (known && strcmp(known->name, a->id) != 0) {
		snprintf(why, cap, "its data directory belongs to %s", known->name);
		return NODE_CHANGE_TAKEN;
	}
	if (known)
		return 0;
	if (!a->change && !a->fresh) {
		snprintf(why, cap, "it was removed from the cluster");
		return NODE_CHANGE_REMOVED;
	}
	if (!name && node_gate_is_broker(n, a->id)) {
		snprintf(why, cap, "a broker is registered under the id %s", a->id);
		return NODE_CHANGE_TAKEN;
	}
	if (name && may_be_alive(n, name->id)) {
		snprintf(why, cap, "another server with the id %s answers at %s", name->name, name->addr);
		return NODE_CHANGE_TAKEN;
	}
	if (is_older(n, a, h->entry_types, &needs)) {
		snprintf(why, cap,
		         "it applies entry types up to %" PRIu32 ", the cluster needs %" PRIu32
		         "; start the release the cluster runs",
		         h->entry_types, needs);
		return NODE_CHANGE_OLDER;
	}
	if (a->voter && h->learner) {
		snprintf(why, cap, "it was started with --learner and is never promoted");
		return NODE_CHANGE_NO_VOTE;
	}
	if (!name && n->conf.count == RAFT_SERVERS_MAX) {
		snprintf(why, cap, "the configuration has %d servers, more are not allowed", RAFT_SERVERS_MAX);
		return NODE_CHANGE_FULL;
	}
	return 0;
}

/* It answers. Is it who it should be? */
static void judge_answer(struct node *n, struct node_admission *a, const struct net_hello *h)
{
	char why[sizeof(a->change->why)];
	if (strcmp(h->name, a->id) != 0) {
		refuse(n, a, NODE_CHANGE_UNREACHABLE, "the server at %s is %s, not %s", a->addr, h->name, a->id);
		return;
	}
	if (a->incarnation != 0 && h->incarnation != a->incarnation) {
		refuse(n, a, NODE_CHANGE_UNREACHABLE,
		       "the server at %s has another data directory than the one that asked", a->addr);
		return;
	}
	a->incarnation = h->incarnation;
	const int refused = judge_newcomer(n, a, h, why, sizeof(why));
	if (refused)
		refuse(n, a, refused, "%s", why);
	else
		wait_turn(n, a);
}

static void probe(struct node *n, struct node_admission *a)
{
	const struct node_link *l = node_links_find(n, a->link);
	if (l && net_peers_is_up(n->net, l->name) && l->heard.name[0] != '\0') {
		judge_answer(n, a, &l->heard);
		return;
	}
	if (l && l->down_why == ERR_IDENTITY)
		refuse(n, a, NODE_CHANGE_OTHER_CLUSTER, "the server at %s: %s", a->addr, l->down_text);
	else if (n->now >= a->deadline_ms || !l)
		refuse(n, a, NODE_CHANGE_UNREACHABLE, "no veenad answers at %s%s%s", a->addr,
		       l && l->down_why ? ": " : "", l && l->down_why ? l->down_text : "");
}

/* ---- changing ---- */

/* May this voter go? */
static bool may_lose(struct node *n, struct node_admission *a, const struct raft_server *s)
{
	uint32_t left = 0;
	uint32_t healthy = 0;
	char silent[128] = "";
	for (uint32_t i = 0; i < n->conf.count; i++) {
		const struct raft_server *o = &n->conf.servers[i];
		if (!o->voter || o->id == s->id)
			continue;
		left++;
		if (node_has_answered(n, o->id, 2ull * n->o.election_ms))
			healthy++;
		else
			snprintf(silent + strlen(silent), sizeof(silent) - strlen(silent), "%s%s",
			         silent[0] ? ", " : "", o->name);
	}
	if (left < a->change->min_voters) {
		refuse(n, a, NODE_CHANGE_FEW_VOTERS,
		       "%" PRIu32 " voters would be left, and the cluster is to keep %" PRIu32
		       "; add a server first, or lower min_voters",
		       left, a->change->min_voters);
		return false;
	}
	if (healthy <= left / 2) {
		refuse(n, a, NODE_CHANGE_NO_MAJORITY,
		       "of the %" PRIu32 " voters left only %" PRIu32 " answer (not: %s); bring those back first", left,
		       healthy, silent);
		return false;
	}
	return true;
}

struct step {
	bool none; /* all is as asked */
	enum raft_change change;
	struct raft_server server;
};

/* What is to be done next about a server that is in the configuration. False: refused. */
static bool plan_known(struct node *n, struct node_admission *a, const struct raft_server *s, struct step *out)
{
	char why[128];
	out->server = *s;
	if (a->addr[0] != '\0' && strcmp(a->addr, s->addr) != 0) {
		out->change = RAFT_SET_ADDR;
		snprintf(out->server.addr, sizeof(out->server.addr), "%s", a->addr);
		return true;
	}
	/* Joiners ask for nothing but to be in, and a new voter's promotion comes by itself. */
	out->none = !a->change || a->added || (a->voter == s->voter && (a->voter || !s->staged));
	if (out->none)
		return true;
	const enum node_fault f = a->voter ? node_promotion_blocked(n, s, why, sizeof(why)) : NODE_FAULT_NONE;
	if (f != NODE_FAULT_NONE) {
		refuse(n, a, f == NODE_FAULT_LEARNER ? NODE_CHANGE_NO_VOTE : NODE_CHANGE_BEHIND,
		       "%s cannot be promoted: %s", s->name, why);
		return false;
	}
	out->change = a->voter ? RAFT_PROMOTE : RAFT_DEMOTE;
	out->server.staged = false;
	return !s->voter || may_lose(n, a, s);
}

static bool plan(struct node *n, struct node_admission *a, struct step *out)
{
	const struct raft_server *name = raft_conf_find_name(&n->conf, a->id);
	*out = (struct step){ .none = false };
	if (a->change && a->change->kind == NODE_CHANGE_REMOVE) {
		out->change = RAFT_REMOVE;
		out->none = !name; /* committed: it is gone */
		if (name)
			out->server = *name;
		return !name || !name->voter || may_lose(n, a, name);
	}
	if (name && (a->incarnation == 0 || a->incarnation == name->id))
		return plan_known(n, a, name, out);
	out->change = name ? RAFT_DEMOTE : RAFT_ADD_LEARNER;
	if (a->incarnation == 0) {
		refuse(n, a, NODE_CHANGE_UNKNOWN, "no server %s in the configuration", a->id);
		return false;
	}
	out->server.id = a->incarnation;
	out->server.staged = a->voter;
	snprintf(out->server.name, sizeof(out->server.name), "%s", a->id);
	snprintf(out->server.addr, sizeof(out->server.addr), "%s", a->addr);
	return true;
}

static const char *change_name(enum raft_change c)
{
	switch (c) {
	case RAFT_ADD_LEARNER: return "add";
	case RAFT_PROMOTE: return "promote";
	case RAFT_DEMOTE: return "demote";
	case RAFT_REMOVE: return "remove";
	case RAFT_SET_ADDR: return "move";
	}
	return "?";
}

static void change(struct node *n, struct node_admission *a)
{
	struct step s;
	if (!plan(n, a, &s))
		return;
	if (s.none || (a->change && a->change->dry_run)) {
		a->changed |= !s.none;
		finish(n, a, 0, "");
		return;
	}
	struct err e = { 0 };
	raft_index index = 0;
	const int rc = raft_change_conf(n->raft, s.change, &s.server, &index, &e);
	if (rc == 0) {
		log_info("member.changed", "id=%s change=%s addr=%s incarnation=%016" PRIx64 " index=%" PRIu64,
		         s.server.name, change_name(s.change), s.server.addr, s.server.id, index);
		a->state = NODE_ADMISSION_CHANGING;
		a->deadline_ms = n->now + CHANGE_MS;
		a->term = n->view.term;
		a->index = index;
		a->changed = true;
		a->added |= s.change == RAFT_ADD_LEARNER || (s.change == RAFT_DEMOTE && s.server.id == a->incarnation &&
		                                             !raft_conf_find(&n->conf, a->incarnation));
	} else if (rc != ERR_BUSY) {
		refuse(n, a, rc == ERR_NOT_LEADER ? rc : NODE_CHANGE_BEHIND, "%s", e.msg);
	} else if (n->now >= a->deadline_ms) {
		refuse(n, a, ERR_BUSY, "%s", e.msg);
	}
}

/* Whoever was removed hears it from the leader, if it hears anything. */
static void tell_removed(struct node *n, const struct node_admission *a)
{
	if (strcmp(a->id, n->o.id) == 0) {
		node_join_note_removed(n, n->o.id);
		return;
	}
	const struct wire_join_reply r = { .code = WIRE_JOIN_REMOVED,
		                           .text = STR_LIT("it was removed from the cluster") };
	(void)node_send_record(n, a->id, WIRE_JOIN_REPLY, &wire_join_reply_type,
	                       &r); /* else it asks, and hears it then */
}

static void watch_commit(struct node *n, struct node_admission *a)
{
	const bool removes = a->change && a->change->kind == NODE_CHANGE_REMOVE;
	const bool leads = n->view.role == RAFT_LEADER && n->office == a->term;
	const raft_term term = raft_term_at(n->raft, a->index); /* 0: compacted */
	const bool ours = term == a->term || (term == 0 && leads);
	if (ours && n->view.commit_index >= a->index) {
		if (removes)
			tell_removed(n, a);
		if (leads)
			wait_turn(n, a); /* what was asked may take another step */
		else if (removes || a->added)
			finish(n, a, 0, "");
		else
			refuse(n, a, ERR_CLOSED, "leadership was lost between two steps of the change");
	} else if (!ours || !leads || n->now >= a->deadline_ms) {
		refuse(n, a, ERR_CLOSED, "leadership was lost while the change was under way");
	}
}

static void carry_on(struct node *n, struct node_admission *a)
{
	const bool leads = n->office != 0;
	if (a->state == NODE_ADMISSION_LINGERING) {
		if (n->now >= a->deadline_ms)
			a->state = NODE_ADMISSION_FREE;
		return;
	}
	if (a->state == NODE_ADMISSION_CHANGING)
		watch_commit(n, a);
	else if (!leads)
		refuse(n, a, ERR_NOT_LEADER, "this node does not lead");
	if (a->state == NODE_ADMISSION_PROBING && leads)
		probe(n, a);
	if (a->state == NODE_ADMISSION_WAITING && leads)
		change(n, a);
}

/* ---- the beginning ---- */

static struct node_admission *free_slot(struct node *n)
{
	for (size_t i = 0; i < NODE_ADMISSIONS_MAX; i++) {
		struct node_admission *a = &n->membership.slots[i];
		if (a->state == NODE_ADMISSION_FREE) {
			memset(a, 0, sizeof(*a));
			return a;
		}
	}
	return NULL;
}

static void begin_probe(struct node *n, struct node_admission *a)
{
	const struct raft_server *holder = holder_of_addr(n, a);
	a->state = NODE_ADMISSION_PROBING;
	a->deadline_ms = n->now + PROBE_MS;
	if (holder)
		refuse(n, a, NODE_CHANGE_TAKEN, "%s has the address %s already", holder->name, a->addr);
	else if (!open_link(n, a))
		refuse(n, a, ERR_BUSY, "this node dials as many addresses as it can");
	else
		probe(n, a);
}

/* Is whoever answers under this name the one in the configuration, as far as is known? */
static bool is_same_disk(struct node *n, const struct raft_server *s)
{
	const struct node_link *l = node_links_find(n, s->name);
	return s->id == n->self.incarnation || !l || !net_peers_is_up(n->net, s->name) || l->heard.name[0] == '\0' ||
	       l->heard.incarnation == s->id;
}

static void begin_change(struct node *n, struct node_change *c)
{
	struct node_admission *a = n->office != 0 ? free_slot(n) : NULL;
	if (!a) {
		const struct node_reply_to reply = c->reply;
		const int code = n->stopped[0] != '\0' ? ERR_STOPPED : n->office == 0 ? ERR_NOT_LEADER : ERR_BUSY;
		node_change_unref(c);
		node_answer(&reply, code, 0, 0);
		return;
	}
	const struct raft_server *s = raft_conf_find_name(&n->conf, c->id);
	a->change = c;
	a->voter = c->voter;
	snprintf(a->id, sizeof(a->id), "%s", c->id);
	snprintf(a->addr, sizeof(a->addr), "%s", c->addr);
	if (c->kind == NODE_CHANGE_REMOVE || (s && (a->addr[0] == '\0' || strcmp(a->addr, s->addr) == 0))) {
		if (!s) {
			refuse(n, a, NODE_CHANGE_UNKNOWN, "no server %s in the configuration", c->id);
			return;
		}
		if (c->kind == NODE_CHANGE_REMOVE || is_same_disk(n, s)) {
			wait_turn(n, a);
			change(n, a);
			return;
		}
		snprintf(a->addr, sizeof(a->addr), "%s", s->addr);
	}
	if (a->addr[0] == '\0') {
		refuse(n, a, NODE_CHANGE_UNKNOWN, "no server %s in the configuration, and no address to find it at",
		       c->id);
		return;
	}
	begin_probe(n, a);
}

static bool is_under_way(const struct node *n, const char *id)
{
	for (size_t i = 0; i < NODE_ADMISSIONS_MAX; i++) {
		const struct node_admission *a = &n->membership.slots[i];
		if (a->state != NODE_ADMISSION_FREE && strcmp(a->id, id) == 0)
			return true;
	}
	return false;
}

void node_membership_admit(struct node *n, const struct wire_join *j)
{
	char id[RAFT_NAME_MAX + 1];
	snprintf(id, sizeof(id), STR_FMT, STR_ARG(j->id));
	const struct raft_server *s = raft_conf_find(&n->conf, j->incarnation);
	if (n->office == 0 || is_under_way(n, id) || (s && str_is(j->addr, s->addr)))
		return;
	struct node_admission *a = free_slot(n);
	if (!a)
		return; /* it asks again */
	a->voter = j->voter;
	a->fresh = j->fresh;
	a->incarnation = j->incarnation;
	snprintf(a->id, sizeof(a->id), "%s", id);
	snprintf(a->addr, sizeof(a->addr), STR_FMT, STR_ARG(j->addr));
	begin_probe(n, a);
}

/* ---- the turn ---- */

static void take_changes(struct node *n)
{
	struct node_change *c;
	while (queue_take(n->changes, &c))
		begin_change(n, c);
}

uint64_t node_membership_turn(struct node *n)
{
	take_changes(n);
	uint64_t next = UINT64_MAX;
	for (size_t i = 0; i < NODE_ADMISSIONS_MAX; i++) {
		struct node_admission *a = &n->membership.slots[i];
		if (a->state == NODE_ADMISSION_FREE)
			continue;
		carry_on(n, a);
		if (a->state == NODE_ADMISSION_WAITING)
			next = node_sooner(next, n->now + n->o.heartbeat_ms); /* the change before it may end unseen */
		else if (a->state != NODE_ADMISSION_FREE)
			next = node_sooner(next, a->deadline_ms);
	}
	return next;
}

void node_membership_refuse(struct node *n, int code)
{
	take_changes(n);
	for (size_t i = 0; i < NODE_ADMISSIONS_MAX; i++) {
		struct node_admission *a = &n->membership.slots[i];
		if (a->change)
			answer_asker(n, a, a->state == NODE_ADMISSION_CHANGING ? ERR_CLOSED : code, 0,
			             "this node stopped");
		a->state = NODE_ADMISSION_FREE;
	}
}

void node_membership_discard(struct node *n)
{
	struct node_change *c;
	while (n->changes && queue_take(n->changes, &c))
		node_change_unref(c);
	for (size_t i = 0; i < NODE_ADMISSIONS_MAX; i++)
		node_change_unref(n->membership.slots[i].change);
}
