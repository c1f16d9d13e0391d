/* Forgetting a server: one that was taken into the Raft configuration and never registered, or whose record is gone. It
 * holds back entry types and, if it votes, the majority; nothing removes it by itself.
 *
 * In order: not the leader itself; in the configuration; without a member record, whatever it says; named by no
 * partition; and for a voter a leader that has had the time to see who answers, and a majority of those left answering
 * it. The last is asked of the node, which judges and removes in one turn. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "fsm/assignments.h"
#include "service/service_internal.h"

#define SETTLE_MS 12000 /* in office, before a leader knows who fails */

static PRINTF_LIKE(4, 5) bool refuse(struct svc_refusal *r, int status, const char *code, const char *fmt, ...)
{
	va_list args;

	r->status = status;
	r->code = code;
	va_start(args, fmt);
	vsnprintf(r->text, sizeof(r->text), fmt, args);
	va_end(args);
	return false;
}

static bool is_named(struct store_txn *txn, const char *id, struct svc_refusal *r)
{
	struct fsm_place_iter it = { 0 };
	struct fsm_place at;
	int rc = fsm_held_open(&it, txn, str_of(id), NULL);

	if (rc == 0)
		rc = fsm_place_next(&it, &at);
	if (rc == 0)
		refuse(r, 409, "member_assigned",
		       "%s is named by partition " STR_FMT "/%" PRIu32 "; move or abort first", id, STR_ARG(at.topic),
		       at.partition);
	else if (rc != ERR_NOTFOUND)
		refuse(r, 503, "not_ready", "this node cannot read its replica; nothing was done, ask another node");
	fsm_place_close(&it);
	return rc != ERR_NOTFOUND;
}

static bool judge_record(struct svc_task *t, struct svc_refusal *r)
{
	const char *id = t->change->id;
	struct store_txn *txn;
	struct str record;
	struct err e;

	if (fsm_read(&t->svc->reader, &txn, &e) != 0)
		return refuse(r, 503, "not_ready", "the replica is being replaced; nothing was done, try again");
	int rc = fsm_get_member_record(txn, str_of(id), &record);

	if (rc == 0)
		return refuse(r, 409, "member_exists", "%s has a member record; decommission it, or remove the server",
		              id);
	if (rc != ERR_NOTFOUND)
		return refuse(r, 503, "not_ready",
		              "this node cannot read its replica; nothing was done, ask another node");
	return !is_named(txn, id, r);
}

bool svc_forget_judge(struct svc_task *t, struct svc_refusal *why_not)
{
	const struct node_status *st = svc_node_status(t->svc, NULL);
	const struct raft_server *server = raft_conf_find_name(&st->conf, t->change->id);

	if (server && strcmp(server->name, st->id) == 0)
		return refuse(why_not, 400, "bad_parameter", "%s leads; a leader does not forget itself", server->name);
	if (!server)
		return refuse(why_not, 404, "member_not_found", "no server %s in the Raft configuration",
		              t->change->id);
	t->change->voter = server->voter;
	if (!judge_record(t, why_not))
		return false;
	if (server->voter && clock_mono_ms() < st->leader_since_ms + SETTLE_MS)
		return refuse(why_not, 409, "no_healthy_majority",
		              "the leader took office a moment ago and does not know yet who answers; try again");
	return true;
}
