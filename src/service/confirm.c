/* What a broker asks before it deletes: is this gone for good?
 *
 * A copy that is deleted is lost, so the answer is a definite one, from the leader after a barrier, or a 503: never
 * this replica's guess, and never one that is missing somewhere. The leader asks a majority for a read index begun
 * after the question came, applies up to it, and reads its state anew. A follower passes the question on. Whatever is
 * doubtful on the way ends as not_confirmed, upon which the data is kept. */
#include <string.h>

#include "fsm/assignments.h"
#include "fsm/members.h"
#include "model/records.h"
#include "service/service_internal.h"

bool svc_is_confirm(enum svc_op op)
{
	return op == SVC_CONFIRM_TOPIC || op == SVC_CONFIRM_PARTITION;
}

void svc_fail_not_confirmed(struct svc_answer *a, const char *why)
{
	buf_clear(&a->body);
	a->index = 0;
	a->etag[0] = '\0';
	svc_fail(a, 503, "not_confirmed", NULL, "%s: this is neither yes nor no, keep the data and ask again", why);
}

void svc_confirm_run(struct svc *s, const struct svc_request *rq, svc_done done, void *arg)
{
	struct svc_answer a = { 0 };

	if (node_is_leader(s->shared->node)) {
		svc_confirm(s, rq, done, arg);
		return;
	}
	svc_fail_not_confirmed(&a, "this node is not the leader and no other one is known");
	a.not_leader = true;
	done(arg, &a);
	buf_fini(&a.body);
}

/* ---- the state, re-read ---- */

static void end_answer(struct json_writer *w, struct svc_answer *a)
{
	json_field_bool(w, "confirmed", true);
	json_field_u64(w, "index", a->index);
	json_end_object(w);
	svc_answer_json(a, 200);
}

/* The topic, if it is the incarnation that is meant. Non-zero: the store failed. */
static int find_topic(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct fsm_topic *stored,
                      struct topic *rec, bool *exists)
{
	int rc = fsm_get_topic(txn, rq->topic, stored);

	*exists = false;
	if (rc == ERR_NOTFOUND)
		return 0;
	if (rc == 0)
		rc = record_read_json(&topic_type, stored->record, &s->arena, rec, NULL, NULL);
	if (rc == 0)
		*exists = !rq->id.p || str_eq(rec->id, rq->id);
	return rc;
}

int svc_confirm_topic(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	struct fsm_topic stored;
	struct topic rec = { 0 };
	bool exists;
	int rc = find_topic(s, txn, rq, &stored, &rec, &exists);

	if (rc != 0)
		return rc;
	exists = exists && (!rq->attach_epoch.p || str_eq(rec.attach_epoch, rq->attach_epoch));
	json_begin_object(&w);
	json_field_bool(&w, "exists", exists);
	end_answer(&w, a);
	return 0;
}

/* What the member is to the partition, as the answer says it; NULL: nothing. */
static const char *role_of(const struct fsm_owner *o, const struct fsm_replicas *set, struct str member)
{
	if (o->owner.len > 0 && str_eq(o->owner, member))
		return "owner";
	if (fsm_replicas_find(set, member))
		return "replica";
	/* Of a partition without an owner any copy may be the last one. */
	if (o->owner.len == 0)
		return "unplaced";
	return o->target.len > 0 && str_eq(o->target, member) ? "target" : NULL;
}

static int put_partition(struct store_txn *txn, struct svc_answer *a, const struct svc_request *rq,
                         const struct fsm_topic *t, struct str id, const struct fsm_members *members)
{
	struct json_writer w = { .out = &a->body };
	uint32_t p = (uint32_t)rq->partition;
	struct fsm_replicas set;
	struct fsm_owner o;
	int rc = svc_get_copies(txn, t, p, &set);

	if (rc != 0)
		return rc;
	fsm_topic_owner(t, p, &o);

	/* Asked for no member in particular, somebody holds it: a partition that exists is never nobody's. */
	const char *as = rq->member.p || o.owner.len == 0 ? role_of(&o, &set, rq->member) : NULL;

	json_begin_object(&w);
	json_field_bool(&w, "exists", true);
	json_field_bool(&w, "holds", as != NULL || !rq->member.p);
	json_key(&w, "as");
	if (as)
		json_put_cstr(&w, as);
	else
		json_put_null(&w);
	json_key(&w, "assignment");
	fsm_write_assignment(&w, t->name, id, p, &o, svc_assignment_state(&o, members), &set);
	if (o.owner.len > 0)
		json_field_cstr(&w, "owner_status", svc_owner_liveness(members, o.owner));
	end_answer(&w, a);
	return 0;
}

int svc_confirm_partition(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	struct json_writer w = { .out = &a->body };
	const struct fsm_members *members;
	struct fsm_topic stored;
	struct topic rec = { 0 };
	struct err e;
	bool exists;
	int rc = find_topic(s, txn, rq, &stored, &rec, &exists);

	if (rc == 0)
		rc = fsm_reader_members(&s->reader, &members, &e);
	if (rc != 0)
		return rc;
	if (exists && rq->partition < (int64_t)stored.partition_count)
		return put_partition(txn, a, rq, &stored, rec.id, members);
	json_begin_object(&w);
	json_field_bool(&w, "exists", false);
	json_field_bool(&w, "holds", false);
	json_key(&w, "as");
	json_put_null(&w);
	end_answer(&w, a);
	return 0;
}
