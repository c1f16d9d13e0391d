/* Assignments: those of one topic, one partition, or all that pass the filters, a page at a time.
 *
 * A list walks the narrowest index its filters name - the partitions of a member, the moves under way, the topics with
 * an unplaced partition, else the topics in order of name - always in the order of topic and partition, so that a token
 * means the same place in each. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/assignments.h"
#include "model/records.h"
#include "model/rules.h"
#include "service/service_internal.h"

#define SCAN_MAX 50000 /* partitions looked at for one page when the filters let few through */

const char *svc_assignment_state(const struct fsm_owner *o, const struct fsm_members *members)
{
	const struct fsm_member *m = o->owner.len > 0 ? fsm_members_find(members, o->owner) : NULL;

	return fsm_assignment_state(o, m && m->alive);
}

int svc_get_copies(struct store_txn *txn, const struct fsm_topic *t, uint32_t p, struct fsm_replicas *out)
{
	out->count = 0;
	return t->replicated ? fsm_get_replicas(txn, t->name, p, out) : 0;
}

static int put_row(struct buf *out, struct store_txn *txn, const struct fsm_topic *t, struct str id, uint32_t p,
                   const struct fsm_members *members)
{
	struct json_writer w = { .out = out };
	struct fsm_replicas set;
	struct fsm_owner o;
	int rc = svc_get_copies(txn, t, p, &set);

	if (rc != 0)
		return rc;
	fsm_topic_owner(t, p, &o);
	fsm_write_assignment(&w, t->name, id, p, &o, svc_assignment_state(&o, members), &set);
	return 0;
}

int svc_topic_assignments(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct fsm_members *members;
	struct fsm_topic t;
	struct err e;
	int rc = fsm_get_topic(txn, rq->topic, &t);

	if (rc == ERR_NOTFOUND) {
		svc_fail_topic_missing(a);
		return 0;
	}
	if (rc != 0 || (rc = fsm_reader_members(&s->reader, &members, &e)) != 0)
		return rc;
	struct str id = fsm_topic_id(t.record);

	buf_puts(&a->body, "{\"assignments\":[");
	for (uint32_t p = 0; p < t.partition_count; p++) {
		if (p > 0)
			buf_putc(&a->body, ',');
		rc = put_row(&a->body, txn, &t, id, p, members);
		if (rc != 0)
			return rc;
	}
	buf_puts(&a->body, "]}");
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
	return 0;
}

int svc_topic_assignment(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct fsm_members *members;
	struct fsm_topic t;
	struct err e;
	int rc = fsm_get_topic(txn, rq->topic, &t);

	if (rc == ERR_NOTFOUND) {
		svc_fail_topic_missing(a);
		return 0;
	}
	if (rc != 0 || (rc = fsm_reader_members(&s->reader, &members, &e)) != 0)
		return rc;
	if (rq->partition >= (int64_t)t.partition_count) {
		svc_fail(a, 404, "partition_not_found", NULL, "the topic has no partition %lld",
		         (long long)rq->partition);
		return 0;
	}
	rc = put_row(&a->body, txn, &t, fsm_topic_id(t.record), (uint32_t)rq->partition, members);
	if (rc != 0)
		return rc;
	svc_etag_record(a, a->body.len);
	svc_answer_json(a, 200);
	return 0;
}

/* ---- where a list's partitions come from ---- */

enum source_kind { SOURCE_PLACES, SOURCE_UNPLACED, SOURCE_TOPICS };

struct source {
	enum source_kind kind;
	struct store_txn *txn;
	struct str prefix;
	struct fsm_place_iter places;
	struct fsm_topic_iter topics;
	bool topics_open;
	/* the topic at hand */
	bool has_topic;
	struct fsm_topic topic;
	struct str id;
	uint32_t next; /* its next partition */
	char last_unplaced[TOPIC_STORED_NAME_MAX + 1];
	size_t last_unplaced_len;
};

/* "topic:partition"; a name holds no colon. */
static bool parse_token(struct str token, struct fsm_place *out)
{
	int64_t p;

	if (!row_key_parse(token, &out->topic, &p) || p > UINT32_MAX || out->topic.len > TOPIC_STORED_NAME_MAX)
		return false;
	out->partition = (uint32_t)p;
	return true;
}

static int load_topic(struct source *src, struct str name)
{
	int rc = fsm_get_topic(src->txn, name, &src->topic);

	src->has_topic = rc == 0;
	if (rc == 0)
		src->id = fsm_topic_id(src->topic.record);
	src->next = 0;
	return rc;
}

static int source_open(struct source *src, struct store_txn *txn, const struct svc_request *rq,
                       const struct fsm_place *after)
{
	const struct str *members[] = { &rq->member, &rq->owner, &rq->target, &rq->replica };
	struct str from = after ? after->topic : (struct str){ "", 0 };
	int rc;

	memset(src, 0, sizeof(*src));
	src->txn = txn;
	src->prefix = rq->prefix.p ? rq->prefix : (struct str){ "", 0 };
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		if (members[i]->len > 0) {
			src->kind = SOURCE_PLACES;
			return fsm_held_open(&src->places, txn, *members[i], after);
		}
	}
	if (rq->state.p && str_is(rq->state, "moving")) {
		src->kind = SOURCE_PLACES;
		return fsm_moves_open(&src->places, txn, after);
	}
	src->kind = rq->state.p && str_is(rq->state, "unplaced") ? SOURCE_UNPLACED : SOURCE_TOPICS;
	memcpy(src->last_unplaced, from.p, from.len);
	src->last_unplaced_len = from.len;
	if (src->kind == SOURCE_TOPICS) {
		src->topics_open = true;
		rc = fsm_topic_iter_open(&src->topics, txn, src->prefix, from);
		if (rc != 0)
			return rc;
	}
	/* The page before may have ended inside a topic. */
	if (after) {
		rc = load_topic(src, from);
		if (rc != 0 && rc != ERR_NOTFOUND)
			return rc;
		src->next = after->partition < UINT32_MAX ? after->partition + 1 : UINT32_MAX;
	}
	return 0;
}

static void source_close(struct source *src)
{
	fsm_place_close(&src->places);
	if (src->topics_open)
		fsm_topic_iter_close(&src->topics);
}

static int next_place(struct source *src, uint32_t *p)
{
	struct fsm_place at;
	int rc;

	while ((rc = fsm_place_next(&src->places, &at)) == 0) {
		if (!src->has_topic || !str_eq(src->topic.name, at.topic)) {
			rc = load_topic(src, at.topic);
			if (rc != 0 && rc != ERR_NOTFOUND)
				return rc;
		}
		/* A row whose topic is gone, or past its partitions, is an orphan: no assignment of a topic. */
		if (src->has_topic && at.partition < src->topic.partition_count) {
			*p = at.partition;
			return 0;
		}
	}
	return rc;
}

static int next_topic(struct source *src)
{
	struct str name;
	int rc;

	if (src->kind == SOURCE_TOPICS) {
		rc = fsm_topic_iter_next(&src->topics, &src->topic);
		src->has_topic = rc == 0;
		src->next = 0;
		if (rc == 0)
			src->id = fsm_topic_id(src->topic.record);
		return rc;
	}
	rc = fsm_next_unplaced(src->txn, (struct str){ src->last_unplaced, src->last_unplaced_len }, &name);
	if (rc != 0)
		return rc;
	if (name.len > TOPIC_STORED_NAME_MAX)
		return ERR_CORRUPT;
	memcpy(src->last_unplaced, name.p, name.len);
	src->last_unplaced_len = name.len;
	rc = load_topic(src, name);
	return rc == ERR_NOTFOUND ? ERR_CORRUPT : rc;
}

/* The next partition, of src->topic. ERR_NOTFOUND: the end. */
static int source_next(struct source *src, uint32_t *p)
{
	if (src->kind == SOURCE_PLACES)
		return next_place(src, p);
	while (!src->has_topic || src->next >= src->topic.partition_count) {
		int rc = next_topic(src);

		if (rc != 0)
			return rc;
	}
	*p = src->next++;
	return 0;
}

/* ---- the list ---- */

static bool matches(const struct svc_request *rq, const struct source *src, const struct fsm_owner *o,
                    const char *state, const struct fsm_replicas *set)
{
	return (!rq->owner.p || str_eq(o->owner, rq->owner)) && (!rq->target.p || str_eq(o->target, rq->target)) &&
	       (!rq->replica.p || fsm_replicas_find(set, rq->replica)) &&
	       (!rq->member.p || str_eq(o->owner, rq->member) || str_eq(o->target, rq->member) ||
	        fsm_replicas_find(set, rq->member)) &&
	       (!rq->state.p || str_is(rq->state, state)) && str_starts(src->topic.name, src->prefix);
}

static void end_list(struct svc_answer *a, const char *token)
{
	struct json_writer w = { .out = &a->body };

	buf_puts(&a->body, "],\"next_page_token\":");
	json_put_cstr(&w, token);
	buf_putc(&a->body, '}');
	svc_answer_json(a, 200);
}

static int put_page(struct source *src, const struct svc_request *rq, const struct fsm_members *members,
                    struct svc_answer *a)
{
	char token[ROW_KEY_MAX + 1] = "";
	uint32_t shown = 0, seen = 0, p;
	bool more = false;
	int rc;

	while ((rc = source_next(src, &p)) == 0) {
		struct json_writer w = { .out = &a->body };
		struct fsm_replicas set;
		struct fsm_owner o;
		const char *state;

		if (shown == rq->limit || seen == SCAN_MAX) {
			more = true;
			break;
		}
		seen++;
		token[row_key(token, src->topic.name, p)] = '\0';
		fsm_topic_owner(&src->topic, p, &o);
		state = svc_assignment_state(&o, members);
		rc = svc_get_copies(src->txn, &src->topic, p, &set);
		if (rc != 0)
			return rc;
		if (!matches(rq, src, &o, state, &set))
			continue;
		if (shown++ > 0)
			buf_putc(&a->body, ',');
		fsm_write_assignment(&w, src->topic.name, src->id, p, &o, state, &set);
	}
	if (rc != 0 && rc != ERR_NOTFOUND)
		return rc;
	end_list(a, more ? token : "");
	return 0;
}

int svc_assignment_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct fsm_members *members;
	struct fsm_place after;
	struct source src;
	struct err e;
	bool resumes = rq->page_token.len > 0;
	/* A row's state depends on the members, and how many rows there are on the topics. */
	static const enum fsm_domain domains[] = { FSM_DOMAIN_ASSIGNMENTS, FSM_DOMAIN_TOPICS, FSM_DOMAIN_MEMBERS };
	int rc = 0;

	if (resumes && !parse_token(rq->page_token, &after)) {
		svc_fail(a, 400, "bad_parameter", "page_token", "this is no page_token of this list");
		return 0;
	}
	if (rq->prefix.len > TOPIC_STORED_NAME_MAX) {
		svc_fail(a, 400, "bad_parameter", "prefix", "longer than any topic's name");
		return 0;
	}
	if (svc_etag_list(txn, rq, domains, ARRAY_LEN(domains), a, &rc) || rc != 0)
		return rc;
	rc = fsm_reader_members(&s->reader, &members, &e);
	if (rc != 0)
		return rc;
	buf_puts(&a->body, "{\"assignments\":[");
	rc = source_open(&src, txn, rq, resumes ? &after : NULL);
	if (rc == 0)
		rc = put_page(&src, rq, members, a);
	source_close(&src);
	return rc;
}
