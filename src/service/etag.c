/* Entity tags. A record's is "R-T": R hashes what is stored of the topic itself, T what a GET joins from others
 * (schema, owners, their liveness). If-None-Match compares all of it, since either changes the answer; If-Match only R,
 * since a moved partition is no reason to refuse a change of the record. A list's tag is the index at which one of its
 * domains changed last. Neither depends on a clock or on the node, so all nodes give the same one at the same index. */
#include <stdio.h>
#include <string.h>

#include "service/service_internal.h"

#define HALF 16 /* hex digits of R and of T */

static uint64_t hash(const uint8_t *p, size_t len)
{
	return fsm_hash((struct str){ (const char *)p, len });
}

static void put_tag(char out[SVC_ETAG_SIZE], uint64_t r, uint64_t t)
{
	char record[HEX64_SIZE], joined[HEX64_SIZE];

	hex64(record, r);
	hex64(joined, t);
	snprintf(out, SVC_ETAG_SIZE, "\"%s-%s\"", record, joined);
}

void svc_etag_record(struct svc_answer *a, size_t own)
{
	put_tag(a->etag, hash(a->body.data, own), hash(a->body.data + own, a->body.len - own));
}

uint64_t svc_etag_fold(uint64_t so_far, const struct svc_answer *a, size_t from)
{
	return so_far * 31 + hash(a->body.data + from, a->body.len - from);
}

void svc_etag_hash(struct svc_answer *a, uint64_t whole)
{
	put_tag(a->etag, whole, 0);
}

/* ---- lists of tags in header fields ---- */

/* Cuts the next tag off `*rest`, without W/ and quotes; false at the end. A field that is no list of tags sets *bad. */
static bool next_tag(struct str *rest, struct str *tag, bool *bad)
{
	const char *p = rest->p, *end = rest->p + rest->len;

	while (p < end && (*p == ' ' || *p == '\t' || *p == ','))
		p++;
	if (p == end)
		return false;
	if (end - p > 2 && p[0] == 'W' && p[1] == '/')
		p += 2;
	const char *close = *p == '"' ? memchr(p + 1, '"', (size_t)(end - p - 1)) : NULL;

	if (!close || (close + 1 < end && close[1] != ',' && close[1] != ' ' && close[1] != '\t')) {
		*bad = true;
		return false;
	}
	*tag = (struct str){ p + 1, (size_t)(close - p - 1) };
	*rest = (struct str){ close + 1, (size_t)(end - close - 1) };
	return true;
}

/* Does `field` name `tag`, of which only the first `count` bytes matter? */
static enum svc_precondition names_tag(struct str field, const char *tag, size_t count)
{
	enum svc_precondition found = SVC_PRECONDITION_FAILED;
	bool bad = false, any = false;
	struct str one;

	if (str_is(field, "*"))
		return SVC_PRECONDITION_MET;
	while (next_tag(&field, &one, &bad)) {
		any = true;
		if (one.len >= count && memcmp(one.p, tag, count) == 0 && (one.len == count || one.p[count] == '-'))
			found = SVC_PRECONDITION_MET;
	}
	return bad || !any ? SVC_PRECONDITION_UNREADABLE : found;
}

static bool fail_unreadable(struct svc_answer *a, const char *field)
{
	svc_fail(a, 400, "bad_parameter", field, "%s is * or a list of entity tags in quotes", field);
	return false;
}

static void become_not_modified(struct svc_answer *a)
{
	buf_clear(&a->body);
	a->status = 304;
	a->code = NULL;
	a->content_type = NULL;
}

/* ---- the face ---- */

void svc_etag_none_match(const struct svc_request *rq, struct svc_answer *a)
{
	if (!rq->if_none_match.p || a->status != 200 || !a->etag[0])
		return;
	switch (names_tag(rq->if_none_match, a->etag + 1, strlen(a->etag) - 2)) {
	case SVC_PRECONDITION_MET: become_not_modified(a); return;
	case SVC_PRECONDITION_FAILED: return;
	case SVC_PRECONDITION_UNREADABLE: a->etag[0] = '\0'; fail_unreadable(a, "If-None-Match");
	}
}

bool svc_etag_list(struct store_txn *txn, const struct svc_request *rq, const enum fsm_domain *domains, size_t count,
                   struct svc_answer *a, int *rc)
{
	raft_index newest = 0, one;

	for (size_t i = 0; i < count; i++) {
		*rc = fsm_get_domain_version(txn, domains[i], &one);
		if (*rc != 0)
			return false;
		newest = one > newest ? one : newest;
	}
	snprintf(a->etag, sizeof(a->etag), "\"%llu\"", (unsigned long long)newest);
	if (!rq->if_none_match.p ||
	    names_tag(rq->if_none_match, a->etag + 1, strlen(a->etag) - 2) != SVC_PRECONDITION_MET)
		return false;
	become_not_modified(a);
	return true;
}

enum svc_precondition svc_etag_if_match(struct str field, const struct fsm_topic *t)
{
	struct buf own = { 0 };
	char tag[SVC_ETAG_SIZE];

	svc_put_topic_open(&own, t);
	put_tag(tag, hash(own.data, own.len), 0);
	buf_fini(&own);
	return names_tag(field, tag + 1, HALF);
}
