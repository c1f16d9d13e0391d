/* Members that drain, and their end.
 *
 *   draining, names nothing -> (leads: hands over, and the next leader goes on) -> out of the Raft configuration -> its
 *   record goes, a tombstone stays
 *
 * One step of one member at a time. Whether enough voters are left is judged here, for the log, and again by the node
 * when the configuration changes. A drain that is taken back meanwhile refuses the last step. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/control_internal.h"
#include "fsm/members.h"
#include "model/commands.h"
#include "model/entry.h"

/* Logged when it changes: a drain may wait for days. */
static void say(struct passes *p, struct str member, const char *code, struct str reason)
{
	char text[sizeof(p->drain_said)];
	snprintf(text, sizeof(text), "member=" STR_FMT " code=%s reason=\"" STR_FMT "\"", STR_ARG(member), code,
	         STR_ARG(reason));
	if (strcmp(text, p->drain_said) == 0)
		return;
	memcpy(p->drain_said, text, sizeof(text));
	log_info("drain.waits", "%s", text);
}

static void refuse(struct passes *p, struct str member, const char *code, const char *reason)
{
	report_intents(p->lane.control, POLICY_DRAIN, SVC_INTENT_REFUSED, 1);
	say(p, member, code, str_of(reason));
}

static bool holds_nothing(const struct passes *p, struct str id)
{
	struct fsm_member_extra x;
	return fsm_get_member_extra(p->lane.lv.view.txn, id, &x) == 0 && x.counts.owned == 0 && x.counts.coming == 0 &&
	       x.counts.follows == 0;
}

static const struct view_server *server_of(const struct passes *p, struct str id)
{
	const struct cluster_view *v = &p->lane.lv.view;
	for (size_t i = 0; i < v->server_count; i++) {
		if (str_eq(v->servers[i].id, id))
			return &v->servers[i];
	}
	return NULL;
}

/* Why a voter may not go; NULL: it may. */
static const char *judge_voters(const struct passes *p, const struct view_server *going, const char **code)
{
	const struct cluster_view *v = &p->lane.lv.view;
	size_t left = 0, alive = 0;
	for (size_t i = 0; i < v->server_count; i++) {
		const struct view_server *s = &v->servers[i];
		if (!s->voter || s == going)
			continue;
		left++;
		alive += s->leader || s->alive;
	}
	*code = left < (size_t)control_setting(p->lane.control, "min_voters") ? "below_min_voters"
	        : alive * 2 <= left                                           ? "no_healthy_majority"
	                                                                      : NULL;
	if (!*code)
		return NULL;
	return strcmp(*code, "below_min_voters") == 0 ? "fewer voters than min_voters would be left; add a server first"
	                                              : "too few of the voters that would be left are alive";
}

static void hand_over(struct passes *p, struct str id)
{
	log_info("drain.hands_over", "member=" STR_FMT, STR_ARG(id));
	if (node_ask_transfer(p->lane.control->node, "", false, pass_reply(p, PASS_TRANSFER)))
		p->outstanding++;
}

static void leave_configuration(struct passes *p, struct str id)
{
	struct node_change *c = node_change_new();
	c->kind = NODE_CHANGE_REMOVE;
	c->min_voters = (uint32_t)control_setting(p->lane.control, "min_voters");
	snprintf(c->id, sizeof(c->id), STR_FMT, STR_ARG(id));
	c->reply = pass_reply(p, PASS_CHANGE);
	log_info("drain.leaves", "member=" STR_FMT, STR_ARG(id));
	if (node_ask_change(p->lane.control->node, c))
		p->outstanding++;
	node_change_unref(c);
}

static void remove_record(struct passes *p, const struct verdict *v)
{
	const struct cmd_member_at c = { v->member, (int64_t)(clock_wall_ms() / 1000) };
	struct entry_builder b;
	entry_builder_init(&b);
	entry_builder_add(&b, pass_held_back(p, CMD_MEMBER_REMOVE_IF, true) ? CMD_MEMBER_REMOVE : CMD_MEMBER_REMOVE_IF,
	                  &c);
	log_info("drain.removed", "member=" STR_FMT " reason=\"" STR_FMT "\"", STR_ARG(v->member), STR_ARG(v->reason));
	(void)pass_propose(p, POLICY_DRAIN, &b, 1); /* if not now, the next pass asks again */
}

/* The next step of a member that the policy lets go. True: something is under way. */
static bool step(struct passes *p, const struct verdict *v)
{
	const struct view_server *s = server_of(p, v->member);
	const char *code, *why;
	if (!holds_nothing(p, v->member)) {
		refuse(p, v->member, "member_holds", "partitions still name it");
		return false;
	}
	if (!s) {
		remove_record(p, v);
	} else if (s->voter && (why = judge_voters(p, s, &code)) != NULL) {
		refuse(p, v->member, code, why);
		return false;
	} else if (s->leader) {
		hand_over(p, v->member);
	} else {
		leave_configuration(p, v->member);
	}
	return p->outstanding > 0;
}

void drain_turn(struct passes *p)
{
	struct lane_view *lv = &p->lane.lv;
	const struct fsm_members *m = lv->view.members;
	struct verdict *all = arena_zalloc(&lv->arena, (m->count + 1) * sizeof(*all));
	struct sandbox_fault fault;
	size_t n = 0;
	p->drain_wanted = false;
	for (size_t i = 0; i < m->count; i++) {
		if (m->rows[i].draining)
			all[n++].member = m->rows[i].id;
	}
	if (n == 0 || verdict_ask(p->lane.policies, POLICY_DRAIN, &sandbox_budget_pass, &lv->view, &lv->arena, all, n,
	                          &fault) != 0)
		return;
	for (size_t i = 0; i < n; i++) {
		if (!all[i].yes)
			say(p, all[i].member, "waits", all[i].reason);
		else if (step(p, &all[i]))
			return;
	}
}
