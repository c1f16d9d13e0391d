/* Operations of the node that are no entries of the state machine: changing the Raft configuration, handing leadership
 * over, taking a snapshot. The first two:
 *
 *   parse -> confirm that this node leads (read index, applied) -> ask the node -> (applied here) -> answer
 *
 * What is refused is refused from a state at or above an index confirmed after the request came, as any refusal; the
 * node judges and carries out in one turn. A dry run takes the same way up to where something would change. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/records.h"
#include "model/rules.h"
#include "net/addr.h"
#include "service/settings.h"
#include "service/write.h"

#define APPLY_WAIT_MS 3000 /* then the answer says X-Veena-Applied: no */

/* ---- ends ---- */

static void end(struct svc_task *t, struct svc_answer *a)
{
	svc_audit(t, a);
	node_change_unref(t->change);
	t->change = NULL;
	svc_task_answer(t, a);
}

static PRINTF_LIKE(4, 5) void fail_503(struct svc_task *t, const char *code, const char *outcome, const char *fmt, ...)
{
	struct svc_answer a = { 0 };
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	svc_fail_write(&a, 503, code, outcome, 0, "%s", text);
	end(t, &a);
}

static void fail_not_leader(struct svc_task *t)
{
	struct svc_answer a = { 0 };

	svc_fail_not_leader(&a);
	end(t, &a);
}

/* What the node answers to anybody, below zero. */
static void fail_asked(struct svc_task *t, int code)
{
	switch (code) {
	case ERR_NOT_LEADER: fail_not_leader(t); return;
	case ERR_FULL:
	case ERR_BUSY:
		fail_503(t, "overloaded", "none",
		         "other changes of the configuration are under way; nothing was done, try again");
		return;
	case ERR_STOPPED:
		fail_503(t, "stopped", "none", "this node stopped applying; nothing was done, ask another node");
		return;
	case ERR_TIMEOUT:
		fail_503(t, "no_leader", "none",
		         "no majority confirmed that this node leads; nothing was done, try again");
		return;
	default:
		fail_503(
		    t, "outcome_unknown", "unknown",
		    "leadership was lost while the change was under way; look at the servers before you repeat it");
		return;
	}
}

/* ---- what is said of a refusal ---- */

static void answer_refusal(struct svc_task *t, const struct svc_refusal *r)
{
	struct svc_answer a = { 0 };
	struct json_writer w = { .out = &a.body };

	if (!t->rq.dry_run) {
		svc_fail_write(&a, r->status, r->code, "none", t->want, "%s", r->text); /* the confirmed index */
		end(t, &a);
		return;
	}
	svc_dry_run_begin(&w, false);
	svc_dry_run_end(&w, r->code, r->text);
	svc_answer_json(&a, 200);
	end(t, &a);
}

/* ---- servers: the answer ---- */

static const struct {
	int status;
	const char *code;
} change_refusals[] = {
	[NODE_CHANGE_UNKNOWN] = { 404, "member_not_found" },
	[NODE_CHANGE_UNREACHABLE] = { 409, "target_not_alive" },
	[NODE_CHANGE_OTHER_CLUSTER] = { 409, "other_cluster" },
	[NODE_CHANGE_OLDER] = { 409, "older_release" },
	[NODE_CHANGE_TAKEN] = { 409, "member_exists" },
	[NODE_CHANGE_BEHIND] = { 409, "target_behind" },
	[NODE_CHANGE_NO_VOTE] = { 409, "learner_only" },
	[NODE_CHANGE_FEW_VOTERS] = { 409, "below_min_voters" },
	[NODE_CHANGE_NO_MAJORITY] = { 409, "no_healthy_majority" },
	[NODE_CHANGE_FULL] = { 409, "server_limit" },
	[NODE_CHANGE_REMOVED] = { 409, "member_removed" },
};

static void refuse_change(struct svc_task *t, int code)
{
	struct svc_refusal r = { .status = 409, .code = "refused" };

	if ((size_t)code < ARRAY_LEN(change_refusals) && change_refusals[code].code) {
		r.status = change_refusals[code].status;
		r.code = change_refusals[code].code;
	}
	snprintf(r.text, sizeof(r.text), "%s", t->change->why);
	answer_refusal(t, &r);
}

static void put_server(struct json_writer *w, const struct raft_server *s)
{
	json_field_cstr(w, "id", s->name);
	json_field_cstr(w, "cluster_addr", s->addr);
	json_field_bool(w, "voter", s->voter);
	if (!s->voter)
		json_field_bool(w, "staged", s->staged);
}

static void answer_would_change(struct svc_task *t)
{
	const struct node_change *c = t->change;
	struct svc_answer a = { 0 };
	struct json_writer w = { .out = &a.body };

	svc_dry_run_begin(&w, true);
	if (c->changed) {
		json_begin_object(&w);
		json_field_cstr(&w, "op", c->kind == NODE_CHANGE_REMOVE ? "remove" : "set");
		json_field_cstr(&w, "id", c->id);
		if (c->kind == NODE_CHANGE_SERVER) {
			json_field_cstr(&w, "cluster_addr", c->addr[0] ? c->addr : c->server.addr);
			json_field_bool(&w, "voter", c->voter);
		}
		json_end_object(&w);
	}
	svc_dry_run_end(&w, NULL, NULL);
	svc_answer_json(&a, 200);
	end(t, &a);
}

static void on_change_applied(struct svc_task *t, enum svc_wake why)
{
	const struct node_change *c = t->change;
	struct svc_answer a = { .index = t->completion.index, .not_applied = why != SVC_WAKE_REACHED };
	struct json_writer w = { .out = &a.body };

	if (t->rq.op == SVC_SERVER_REMOVE) {
		a.status = 204;
		end(t, &a);
		return;
	}
	json_begin_object(&w);
	if (t->rq.op == SVC_MEMBER_FORGET) {
		json_field_cstr(&w, "id", c->id);
		json_field_bool(&w, "voter", c->voter);
	} else {
		put_server(&w, &c->server);
	}
	json_end_object(&w);
	svc_answer_json(&a, c->added ? 201 : 200);
	end(t, &a);
}

static void on_changed(struct svc_task *t, enum svc_wake why)
{
	const int code = t->completion.code;

	(void)why; /* nothing but the completion ends this wait */
	if (code < 0)
		fail_asked(t, code);
	else if (code > 0)
		refuse_change(t, code);
	else if (t->rq.dry_run)
		answer_would_change(t);
	else {
		t->resume = on_change_applied;
		svc_task_wait_applied(t, t->completion.index, APPLY_WAIT_MS);
	}
}

static void ask_change(struct svc_task *t)
{
	struct node_change *c = t->change;

	c->reply = svc_task_reply_to(t);
	t->resume = on_changed;
	if (!node_ask_change(t->svc->shared->node, c)) {
		fail_asked(t, ERR_FULL);
		return;
	}
	svc_task_wait_proposal(t);
}

/* ---- leadership: the answer ---- */

static const char *server_name(struct svc *s, uint64_t incarnation)
{
	const struct node_status *st = svc_node_status(s, NULL);
	const struct raft_server *srv = raft_conf_find(&st->conf, incarnation);

	return srv ? srv->name : "";
}

static void refuse_transfer(struct svc_task *t, enum raft_heir why)
{
	const char *to = t->to;
	struct svc_refusal r = { .status = 409, .code = "refused" };

	switch (why) {
	case RAFT_HEIR_FIT:
	case RAFT_HEIR_NOT_LEADER: break;
	case RAFT_HEIR_BUSY:
		r.code = "transfer_in_progress";
		snprintf(r.text, sizeof(r.text), "leadership is being handed over already; look who leads, then ask");
		break;
	case RAFT_HEIR_SELF:
		r.code = "already_leader";
		snprintf(r.text, sizeof(r.text), "%s leads already", to);
		break;
	case RAFT_HEIR_UNKNOWN:
		r.status = 404;
		r.code = "member_not_found";
		snprintf(r.text, sizeof(r.text), "no server %s in the configuration", to);
		break;
	case RAFT_HEIR_LEARNER:
		r.code = "not_a_voter";
		snprintf(r.text, sizeof(r.text), "%s is a learner and cannot lead; make it a voter first", to);
		break;
	case RAFT_HEIR_SILENT:
		r.code = "target_not_alive";
		snprintf(r.text, sizeof(r.text), "%s does not answer; start it, or hand over to another", to);
		break;
	case RAFT_HEIR_BEHIND:
		r.code = "target_behind";
		snprintf(r.text, sizeof(r.text), "%s is %" PRIu64 " entries behind; wait until it has caught up", to,
		         t->completion.detail);
		break;
	case RAFT_HEIR_NO_OTHER:
		r.code = "no_healthy_majority";
		snprintf(r.text, sizeof(r.text), "there is no other voter to hand over to; add a server first");
		break;
	case RAFT_HEIR_NONE_FIT:
		r.code = "no_healthy_majority";
		snprintf(r.text, sizeof(r.text), "no other voter answers and is caught up; look at the servers");
		break;
	}
	answer_refusal(t, &r);
}

static void on_transferred(struct svc_task *t, enum svc_wake why)
{
	const int code = t->completion.code;
	struct svc_answer a = { 0 };
	struct json_writer w = { .out = &a.body };
	const char *heir = server_name(t->svc, t->completion.detail);

	(void)why;
	if (code == ERR_TIMEOUT) {
		fail_503(t, "transfer_failed", "none",
		         "%s did not take over in time; this node leads on, look at the servers and try again",
		         t->to[0] ? t->to : "the chosen server");
		return;
	}
	if (code < 0 || code == RAFT_HEIR_NOT_LEADER) {
		fail_asked(t, code < 0 ? code : ERR_NOT_LEADER);
		return;
	}
	if (code > 0) {
		refuse_transfer(t, (enum raft_heir)code);
		return;
	}
	if (t->rq.dry_run) {
		svc_dry_run_begin(&w, true);
		json_begin_object(&w);
		json_field_cstr(&w, "op", "transfer");
		json_field_cstr(&w, "to", heir);
		json_end_object(&w);
		svc_dry_run_end(&w, NULL, NULL);
	} else {
		json_begin_object(&w);
		json_field_cstr(&w, "leader", heir);
		json_end_object(&w);
	}
	svc_answer_json(&a, 200);
	end(t, &a);
}

static void ask_transfer(struct svc_task *t)
{
	t->resume = on_transferred;
	if (!node_ask_transfer(t->svc->shared->node, t->to, t->rq.dry_run, svc_task_reply_to(t))) {
		fail_asked(t, ERR_FULL);
		return;
	}
	svc_task_wait_proposal(t);
}

/* ---- the beginning ---- */

static void on_applied(struct svc_task *t, enum svc_wake why)
{
	struct svc_answer a = { 0 };
	struct svc_refusal why_not;

	if (why != SVC_WAKE_REACHED) {
		fail_503(t, "not_ready", "none",
		         "this node did not apply what is committed in time; nothing was done, try again");
		return;
	}
	/* Of the state that was confirmed. */
	if (!svc_task_may(t, &a))
		end(t, &a);
	else if (t->rq.op == SVC_MEMBER_FORGET && !svc_forget_judge(t, &why_not))
		answer_refusal(t, &why_not);
	else if (t->change)
		ask_change(t);
	else
		ask_transfer(t);
}

static void on_confirmed(struct svc_task *t, enum svc_wake why)
{
	const int code = why == SVC_WAKE_COMPLETED ? t->completion.code : ERR_TIMEOUT;

	if (code != 0) {
		fail_asked(t, code);
		return;
	}
	t->resume = on_applied;
	svc_task_wait_applied(t, t->completion.index, SVC_CONFIRM_MS);
}

/* In the spelling that addresses are compared in. */
static bool read_addr(struct str text, char out[RAFT_ADDR_MAX + 1], struct svc_answer *a)
{
	char copy[RAFT_ADDR_MAX + 1], said[600];
	struct net_addr addr;
	struct err e = { 0 };

	out[0] = '\0';
	if (!text.p)
		return true;
	snprintf(copy, sizeof(copy), "%.*s", (int)(text.len <= RAFT_ADDR_MAX ? text.len : 0), text.p);
	if (text.len > RAFT_ADDR_MAX || net_addr_parse(copy, &addr, &e) != 0) {
		snprintf(said, sizeof(said), "cluster_addr is HOST:PORT: %s",
		         text.len > RAFT_ADDR_MAX ? "it is too long" : e.msg);
		return svc_bad_field(a, "cluster_addr", said);
	}
	if (net_addr_is_wildcard(&addr))
		return svc_bad_field(
		    a, "cluster_addr",
		    "cluster_addr is the address of every machine and of none; write the one where the "
		    "others reach it");
	net_addr_format(&addr, out);
	return true;
}

static bool parse_server_set(struct svc_task *t, struct svc_answer *a)
{
	struct node_change *c = t->change;
	struct server_set body;

	if (!svc_write_read_body(t, &server_set_type, &body, a))
		return false;
	if (!rule_member_id(body.id))
		return svc_bad_field(a, "id", "id is 1 to 63 of A-Z a-z 0-9 . _ - and neither . nor ..");
	if (!read_addr(body.cluster_addr, c->addr, a))
		return false;
	c->kind = NODE_CHANGE_SERVER;
	c->voter = !body.voter.set || body.voter.value;
	snprintf(c->id, sizeof(c->id), "%.*s", (int)body.id.len, body.id.p);
	return true;
}

static bool parse_server_remove(struct svc_task *t, struct svc_answer *a)
{
	struct node_change *c = t->change;

	const bool forgets = t->rq.op == SVC_MEMBER_FORGET;
	const struct str id = forgets ? t->rq.member_id : t->rq.server;

	if (!rule_member_id(id)) {
		svc_fail_write(a, 404, "member_not_found", "none", 0, "no server can have this id");
		return false;
	}
	c->kind = NODE_CHANGE_REMOVE;
	if (forgets)
		c->min_voters = 0; /* nobody counts on a server that never registered: see forget.c */
	snprintf(c->id, sizeof(c->id), "%.*s", (int)id.len, id.p);
	return true;
}

static bool parse_transfer(struct svc_task *t, struct svc_answer *a)
{
	struct leader_transfer body = { .to = { NULL, 0 } };

	t->to[0] = '\0';
	if (t->rq.body.len > 0 && !svc_write_read_body(t, &leader_transfer_type, &body, a))
		return false;
	if (!body.to.p)
		return true;
	if (!rule_member_id(body.to))
		return svc_bad_field(a, "to", "to is the id of a server: 1 to 63 of A-Z a-z 0-9 . _ -");
	snprintf(t->to, sizeof(t->to), "%.*s", (int)body.to.len, body.to.p);
	return true;
}

static bool parse(struct svc_task *t, struct svc_answer *a)
{
	if (t->rq.op == SVC_LEADER_TRANSFER)
		return parse_transfer(t, a);
	t->change = node_change_new();
	t->change->dry_run = t->rq.dry_run;
	t->change->min_voters = (uint32_t)svc_setting(t->svc->shared, FSM_SETTING_MIN_VOTERS);
	return t->rq.op == SVC_SERVER_SET ? parse_server_set(t, a) : parse_server_remove(t, a);
}

void svc_cluster_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_task *t = svc_task_begin(s, rq, done, arg);
	struct svc_answer a = { 0 };

	if (!t)
		return;
	/* Elsewhere the body would be judged by another release than the leader's. */
	if (!node_is_leader(s->shared->node)) {
		fail_not_leader(t);
	} else if (!parse(t, &a)) {
		end(t, &a);
	} else {
		t->resume = on_confirmed;
		svc_task_wait_read(t, SVC_CONFIRM_MS);
	}
}

/* ---- a snapshot of the node that was asked ---- */

static void fail_snapshot(struct svc_task *t, int code)
{
	if (code == ERR_FULL)
		fail_503(t, "storage_full", "none", "there is no room for a snapshot on this node's disk; make some");
	else if (code == ERR_NOTFOUND)
		fail_503(t, "not_ready", "none", "this node holds nothing yet that a snapshot could be taken of");
	else if (code == ERR_STOPPED)
		fail_asked(t, code);
	else
		fail_503(t, "snapshot_failed", "none",
		         "the snapshot could not be written; the log of this node says why");
}

static void on_snapshot(struct svc_task *t, enum svc_wake why)
{
	struct svc_answer a = { 0 };
	struct json_writer w = { .out = &a.body };

	(void)why;
	if (t->completion.code != 0) {
		fail_snapshot(t, t->completion.code);
		return;
	}
	json_begin_object(&w);
	json_field_cstr(&w, "node", svc_node_status(t->svc, NULL)->id);
	json_field_u64(&w, "index", t->completion.index);
	json_field_u64(&w, "bytes", t->completion.detail);
	json_end_object(&w);
	svc_answer_json(&a, 200);
	end(t, &a);
}

void svc_snapshot_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_task *t = svc_task_begin(s, rq, done, arg);
	struct svc_answer a = { 0 };

	if (!t)
		return;
	if (!svc_task_may(t, &a)) {
		end(t, &a);
		return;
	}
	t->resume = on_snapshot;
	if (!node_ask_snapshot(s->shared->node, svc_task_reply_to(t)))
		fail_503(t, "overloaded", "none", "too many requests wait on this node; try again");
	else
		svc_task_wait_proposal(t);
}
