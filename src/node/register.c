/* The member record of each server, kept true by the server itself.
 *
 * A server says what it is to the leader, by frame or, when it leads, to itself: every 250 ms until the first success,
 * then as a heartbeat. The leader turns that into one entry, a whole member record stamped with its own clock (and with
 * it the tags, when the stored ones differ), and answers once the entry was applied there. A registration names the
 * peer's own id and comes from the incarnation the configuration holds: nobody registers for another, and a wiped
 * directory is not alive by having a familiar name. */
#include "node/node_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "model/rules.h"

/* ---- this server's own record ---- */

static struct wire_register own_record(const struct node *n)
{
	return (struct wire_register){
		.request = n->registration.request,
		.id = str_of(n->o.id),
		.addr = str_of(n->o.http_addr),
		.cluster_addr = str_of(n->o.cluster_addr),
		.build = str_of(n->o.build),
		.entry_types = n->o.max_entry_type,
		/* Without a row, or while it says what the options say, Narad's record is all there is to write. */
		.extra = (n->reports && n->reports->own_row && !n->reports->own_extra_set) ||
		         (!(n->reports && n->reports->own_row) && (!n->o.own_partitions || n->tags.count > 0)),
		.placeable = n->o.own_partitions,
		.tags = n->tags,
	};
}

static uint64_t pace(const struct node *n)
{
	return n->registration.accepted ? n->o.member_heartbeat_ms : NODE_REGISTER_RETRY_MS;
}

/* What the leader said of attempt `request`. */
static void on_outcome(struct node *n, uint64_t request, int code)
{
	struct node_registration *r = &n->registration;
	if (request > r->request || (code != 0 && request != r->request))
		return; /* a success of an earlier attempt counts: later ones wait behind it on a slow leader */
	if (code == 0) {
		if (!r->accepted) {
			log_info("member.registered", "types=%" PRIu32, n->o.max_entry_type);
			r->next_ms = n->now + n->o.member_heartbeat_ms;
		}
		r->accepted = true;
		r->last_refusal = 0;
		return;
	}
	if (code > 0 && code != r->last_refusal)
		log_error("member.refused", "reason=%s remedy=\"an operator must admit this server again\"",
		          fsm_refusal_word(code));
	r->last_refusal = code;
	/* What failed for want of a leader is tried again soon; what was judged will be judged the same. */
	r->next_ms = n->now + (code < 0 ? NODE_REGISTER_RETRY_MS : n->o.member_heartbeat_ms);
}

static int accept(struct node *n, const struct wire_register *rec, const struct raft_server *s);

uint64_t node_register_turn(struct node *n)
{
	struct node_registration *r = &n->registration;
	if (!node_is_configured(n) || !raft_conf_find(&n->conf, n->self.incarnation))
		return UINT64_MAX;
	if (n->view.leader != r->told_leader) /* a new leader may have missed the last one */
		r->next_ms = n->now;
	if (n->view.leader == 0)
		return UINT64_MAX;
	if (n->now < r->next_ms)
		return r->next_ms;
	r->told_leader = n->view.leader;
	r->request++;
	r->next_ms = n->now + pace(n);
	const struct wire_register rec = own_record(n);
	if (n->view.leader == n->self.incarnation) {
		const int rc = accept(n, &rec, raft_conf_find(&n->conf, n->self.incarnation));
		if (rc != 0)
			on_outcome(n, rec.request, rc);
	} else {
		const char *leader = node_links_name(n, n->view.leader);
		if (!leader || !node_send_record(n, leader, WIRE_REGISTER, &wire_register_type, &rec))
			r->next_ms = n->now + NODE_REGISTER_RETRY_MS;
	}
	return r->next_ms;
}

void node_register_on_reply(struct node *n, const struct node_event *ev)
{
	struct wire_register_reply reply;
	struct err e = { 0 };
	arena_reset(&n->scratch);
	if (record_read_mp(&wire_register_reply_type, ev->body, ev->len, &n->scratch, &reply, &e) != 0 ||
	    reply.code < INT16_MIN || reply.code > INT16_MAX) {
		node_bad_frame(n, ev, e.code ? e.msg : "a code out of range");
		return;
	}
	on_outcome(n, reply.request, (int)reply.code);
}

/* ---- the leader's side ---- */

static const char *record_fault(const struct wire_register *r, struct err *e)
{
	if (!rule_member_id(r->id))
		return "id";
	if (!rule_host_port(r->addr))
		return "addr";
	if (!rule_host_port(r->cluster_addr))
		return "cluster_addr";
	if (r->build.len > NODE_BUILD_MAX)
		return "build";
	return rules_check_labels(&r->tags, "tags", NULL, e) == 0 ? NULL : "tags";
}

static struct node_register_slot *free_slot(struct node *n, const char *name, bool *running)
{
	struct node_register_slot *found = NULL;
	*running = false;
	for (size_t i = 0; i < NODE_REGISTER_SLOTS; i++) {
		struct node_register_slot *s = &n->registration.slots[i];
		if (!s->used && !found)
			found = s;
		else if (s->used && strcmp(s->name, name) == 0)
			*running = true;
	}
	return found;
}

static struct slab *make_entry(struct node *n, const struct wire_register *r, unsigned *max_type, struct err *e)
{
	const struct member m = { .id = r->id,
		                  .addr = r->addr,
		                  .cluster_addr = r->cluster_addr,
		                  .status = STR_LIT(MEMBER_ALIVE),
		                  .last_heartbeat = (int64_t)(clock_wall_ms() / 1000),
		                  .build = r->build,
		                  .entry_types = r->entry_types };
	const struct cmd_member_at readmit = { .id = r->id };
	entry_builder_clear(&n->builder);
	if (str_is(r->id, n->registration.readmit)) {
		log_info("member.readmitted", "id=%s", n->registration.readmit);
		entry_builder_add(&n->builder, CMD_MEMBER_READMIT, &readmit);
	}
	entry_builder_add(&n->builder, CMD_MEMBER_JOIN, &m);
	if (r->extra && node_gate_lets(n, CMD_MEMBER_EXTRA)) {
		const struct member_extra x = {
			.id = r->id, .kind = STR_LIT(MEMBER_KIND_SERVER), .placeable = r->placeable, .tags = r->tags
		};
		entry_builder_add(&n->builder, CMD_MEMBER_EXTRA, &x);
	}
	*max_type = n->builder.max_type;
	const struct entry_header h = { .origin = r->id };
	struct slab *entry = NULL;
	return entry_builder_finish(&n->builder, &h, &entry, e) == 0 ? entry : NULL;
}

/* A server that moved: what the configuration says of it follows. */
static void follow_address(struct node *n, const struct wire_register *rec, const struct raft_server *s)
{
	if (str_is(rec->cluster_addr, s->addr))
		return;
	struct raft_server moved = *s;
	snprintf(moved.addr, sizeof(moved.addr), STR_FMT, STR_ARG(rec->cluster_addr));
	raft_index index;
	struct err e = { 0 };
	const int rc = raft_change_conf(n->raft, RAFT_SET_ADDR, &moved, &index, &e);
	if (rc == 0)
		log_info("member.moved", "id=%s addr=%s index=%" PRIu64, s->name, moved.addr, index);
	else if (rc != ERR_BUSY && rc != ERR_NOT_LEADER) /* those: with its next heartbeat */
		log_warn("member.not_moved", "id=%s addr=%s reason=\"%s\"", s->name, moved.addr, e.msg);
}

/* Proposes the record of server `s`. 0: the outcome comes through node_register_drain, or an attempt before it is still
 * on its way and will do. */
static int accept(struct node *n, const struct wire_register *rec, const struct raft_server *s)
{
	if (n->view.role != RAFT_LEADER)
		return ERR_NOT_LEADER;
	bool running;
	struct node_register_slot *slot = free_slot(n, s->name, &running);
	if (running)
		return 0;
	struct err e = { 0 };
	unsigned max_type = 0;
	struct slab *entry = slot ? make_entry(n, rec, &max_type, &e) : NULL;
	if (!entry)
		return slot ? ERR_INVALID : ERR_FULL;
	slot->used = true;
	slot->generation++;
	slot->request = rec->request;
	snprintf(slot->name, sizeof(slot->name), "%s", s->name);
	const struct node_proposal p = { .entry = entry,
		                         .reply = { .queue = n->own_done,
		                                    .slot = (uint32_t)(slot - n->registration.slots),
		                                    .generation = slot->generation },
		                         .max_type = max_type };
	if (!node_propose(n, &p)) {
		slot->used = false;
		return ERR_FULL;
	}
	follow_address(n, rec, s);
	return 0;
}

static void reply_to(struct node *n, const char *name, uint64_t request, int code, raft_index index)
{
	const struct wire_register_reply r = { .request = request, .code = code, .index = index };
	(void)node_send_record(n, name, WIRE_REGISTER_REPLY, &wire_register_reply_type, &r); /* lost: asked again */
}

void node_register_on_frame(struct node *n, const struct node_event *ev)
{
	struct wire_register rec;
	struct err e = { 0 };
	arena_reset(&n->scratch);
	if (record_read_mp(&wire_register_type, ev->body, ev->len, &n->scratch, &rec, &e) != 0) {
		node_bad_frame(n, ev, e.msg);
		return;
	}
	const char *fault = record_fault(&rec, &e);
	if (fault || !str_is(rec.id, ev->hello.name)) {
		node_bad_frame(n, ev, fault ? fault : "registers for another");
		return;
	}
	const struct raft_server *s = raft_conf_find(&n->conf, ev->hello.incarnation);
	const int rc = s && strcmp(s->name, ev->hello.name) == 0 ? accept(n, &rec, s) : ERR_IDENTITY;
	if (rc != 0)
		reply_to(n, ev->hello.name, rec.request, rc, 0);
}

/* A tombstone stands for an id that was removed; whoever is in the configuration under it came in since, as a newcomer
 * or by an operator's word. Its next attempt takes the tombstone away. */
static int judge_outcome(struct node *n, const char *name, int code)
{
	struct node_registration *r = &n->registration;
	if (strcmp(r->readmit, name) == 0)
		r->readmit[0] = '\0';
	if (code != FSM_MEMBER_REMOVED || n->view.role != RAFT_LEADER || !raft_conf_find_name(&n->conf, name))
		return code;
	snprintf(r->readmit, sizeof(r->readmit), "%s", name);
	return ERR_BUSY; /* it is asked again at once */
}

void node_register_drain(struct node *n)
{
	struct node_completion c;
	while (queue_take(n->own_done, &c)) {
		assert(c.slot < NODE_REGISTER_SLOTS);
		struct node_register_slot *s = &n->registration.slots[c.slot];
		if (!s->used || s->generation != c.generation)
			continue;
		s->used = false;
		const int code = judge_outcome(n, s->name, c.code);
		if (strcmp(s->name, n->o.id) == 0)
			on_outcome(n, s->request, code);
		else
			reply_to(n, s->name, s->request, code, c.index);
	}
}
