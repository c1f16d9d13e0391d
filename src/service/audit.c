/* One line for each change of metadata that somebody asked for: who, what, from where, what came of it. Written where
 * the write ran, which is the leader; by the node that forwarded it only when it cannot know what came of it. */
#include <string.h>

#include "service/write.h"

static const char *const names[SVC_OP_END] = {
	[SVC_TOPIC_CREATE] = "topic.create",
	[SVC_TOPIC_ALTER] = "topic.alter",
	[SVC_TOPIC_DELETE] = "topic.delete",
	[SVC_CHILD_ATTACH] = "child.attach",
	[SVC_CHILD_DETACH] = "child.detach",
	[SVC_CHILD_PAUSE] = "child.pause",
	[SVC_CHILD_RESUME] = "child.resume",
	[SVC_CHILD_SKIP] = "child.skip",
	[SVC_REMOTE_CREATE] = "remote.create",
	[SVC_REMOTE_ALTER] = "remote.alter",
	[SVC_REMOTE_DELETE] = "remote.delete",
	[SVC_REMOTE_REENCRYPT] = "remote.reencrypt",
	[SVC_SCHEMA_PUT] = "schema.put",
	[SVC_USER_CREATE] = "user.create",
	[SVC_USER_DELETE] = "user.delete",
	[SVC_USER_GRANTS] = "user.grants",
	[SVC_USER_PASSWORD] = "user.password",
	[SVC_USER_SEED] = "user.seed_root",
	[SVC_SERVER_SET] = "server.set",
	[SVC_SERVER_REMOVE] = "server.remove",
	[SVC_LEADER_TRANSFER] = "leader.transfer",
	[SVC_SETTINGS_SET] = "settings.set",
	[SVC_MOVE_SET] = "move.set",
	[SVC_MOVE_COMPLETE] = "move.complete",
	[SVC_MOVE_ABORT] = "move.abort",
	[SVC_MOVE_ABORT_ALL] = "moves.abort",
	[SVC_LEADER_SET] = "leader.set",
	[SVC_REPLICAS_SET] = "replicas.set",
	[SVC_SNAPSHOT] = "snapshot.take",
	[SVC_MEMBER_REGISTER] = "member.register",
	[SVC_MEMBER_LEAVE] = "member.leave",
	[SVC_MEMBER_PATCH] = "member.patch",
	[SVC_MEMBER_LOST] = "member.lost",
	[SVC_MEMBER_DECOMMISSION] = "cluster.decommission",
	[SVC_MEMBER_FORGET] = "cluster.forget",
	[SVC_MEMBER_RECOMMISSION] = "cluster.decommission.cancel",
};

static const char *outcome_of(const struct svc_answer *a)
{
	if (a->status < 300)
		return "ok";
	if (a->status == 401 || a->status == 403)
		return "denied";
	if (a->status < 500)
		return "rejected";
	return a->code && strcmp(a->code, "outcome_unknown") == 0 ? "unknown" : "failed";
}

/* `t` NULL: what the path says must do. */
static struct str target_of(const struct svc_request *rq, const struct svc_task *t)
{
	const struct svc_write *w = t ? t->write : NULL;

	if (t && rq->op == SVC_LEADER_TRANSFER)
		return str_of(t->to);
	if (t && t->change)
		return str_of(t->change->id);
	if (rq->server.len > 0)
		return rq->server;
	if (rq->member_id.len > 0)
		return rq->member_id;
	if (w && rq->op == SVC_MEMBER_REGISTER)
		return w->body.member_register.id;
	if (rq->user.len > 0)
		return rq->user;
	if (rq->remote.len > 0)
		return rq->remote;
	if (rq->topic.len > 0)
		return rq->topic;
	if (w && w->user.username.len > 0)
		return w->user.username;
	if (w && rq->op == SVC_REMOTE_CREATE)
		return w->body.remote_create.name;
	return w && rq->op == SVC_TOPIC_CREATE ? w->body.create.name : (struct str){ "", 0 };
}

static void put_line(enum log_level level, const struct svc_request *rq, struct str target, const char *outcome,
                     const struct svc_answer *a)
{
	char shown[2 * SVC_USER_MAX + 300], actor[2 * SVC_USER_MAX + 8];

	log_quote(shown, sizeof(shown), target.p, target.len);
	log_quote(actor, sizeof(actor), rq->principal.name, strlen(rq->principal.name));
	log_write(level, "audit",
	          "op=%s actor=\"%s\" target=\"%s\" peer=%s origin=%s outcome=%s status=%d code=%s index=%llu",
	          names[rq->op], actor, shown, rq->peer[0] ? rq->peer : "-", rq->origin, outcome, a->status,
	          a->code ? a->code : "-", (unsigned long long)a->index);
}

void svc_audit(const struct svc_task *t, const struct svc_answer *a)
{
	/* What goes on elsewhere is said there. */
	if (!names[t->rq.op] || a->not_leader || t->rq.dry_run)
		return;
	const char *outcome = outcome_of(a);

	put_line(strcmp(outcome, "denied") == 0 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, &t->rq, target_of(&t->rq, t),
	         outcome, a);
}

void svc_audit_lost(const struct svc_request *rq, const struct svc_answer *a)
{
	if (names[rq->op] && !rq->dry_run)
		put_line(LOG_LEVEL_WARN, rq, target_of(rq, NULL), "unknown", a);
}
