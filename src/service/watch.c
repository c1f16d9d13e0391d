#include "service/watch.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "service/auth.h"

/* ---- who may ---- */

static uint32_t domains_of(const struct rights *r, uint32_t asked)
{
	const uint32_t all = SVC_WATCH_DOMAINS & (r->is_admin ? ~0u : ~SVC_WATCH_SECRET);

	return asked ? asked & all : all;
}

static bool is_this_cluster(struct svc *s, struct str asked)
{
	uint64_t id;

	return hex64_parse(asked, &id) && id == svc_node_status(s, NULL)->cluster_id;
}

static bool is_fresh(struct svc *s, struct svc_answer *a)
{
	int64_t age_ms = node_contact_age_ms(s->shared->node);

	if (age_ms >= 0 && age_ms <= SVC_WATCH_STALE_MS)
		return true;
	svc_fail(a, 503, "stale", NULL, "this node has had no contact with a leader for %d s; go on at another node",
	         SVC_WATCH_STALE_MS / 1000);
	return false;
}

/* Answered 200 without a body: the stream is to begin. */
int svc_watch_get(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	(void)txn;
	if (rq->cluster.p && !is_this_cluster(s, rq->cluster)) {
		svc_fail(a, 409, "other_cluster", "cluster",
		         "this node is of another cluster: its indexes mean nothing to you, list again");
		return 0;
	}
	if (rq->domains & SVC_WATCH_SECRET && !s->rights->is_admin) {
		svc_fail(a, 403, "forbidden", "domains", "users are shown to admins only");
		return 0;
	}
	if (!is_fresh(s, a))
		return 0;
	if (rq->has_since && rq->since < fsm_changes_floor(s->shared->fsm)) {
		svc_fail(a, 410, "compacted", "since",
		         "changes up to index %llu are no longer kept here; list again, or use initial=true",
		         (unsigned long long)fsm_changes_floor(s->shared->fsm));
		return 0;
	}
	a->status = 200;
	return 0;
}

void svc_watch_read(struct svc *s, const struct svc_request *rq, struct svc_watch *out)
{
	memset(out, 0, sizeof(*out));
	out->domains = domains_of(s->rights, rq->domains);
	out->prefix_len = (uint16_t)rq->prefix.len;
	out->member_len = (uint16_t)rq->member.len;
	if (rq->prefix.len)
		memcpy(out->prefix, rq->prefix.p, rq->prefix.len);
	if (rq->member.len)
		memcpy(out->member, rq->member.p, rq->member.len);
}

bool svc_watch_may_go_on(struct svc *s, const struct svc_principal *p, const struct svc_watch *w)
{
	const struct rights *r;
	struct store_txn *txn;
	struct err e = { 0 };

	/* While the replica cannot be read the stream has nothing to send either. */
	if (!s->shared->auth || fsm_read(&s->reader, &txn, &e) != 0)
		return true;
	return auth_rights_of(s, txn, p, &r) == 0 && r->reads_all && (r->is_admin || !(w->domains & SVC_WATCH_SECRET));
}

bool svc_watch_passes(const struct svc_watch *w, enum fsm_domain domain, struct str key, struct str members)
{
	if (!(w->domains & 1u << domain) || !str_starts(key, (struct str){ w->prefix, w->prefix_len }))
		return false;
	if (domain != FSM_DOMAIN_ASSIGNMENTS || w->member_len == 0)
		return true;
	for (size_t at = 0; at < members.len; at += strlen(members.p + at) + 1) {
		if (strcmp(members.p + at, w->member) == 0)
			return true;
	}
	return false;
}

/* ---- the state ---- */

struct svc_state {
	struct svc_watch filter;
	struct fsm_reader reader;
	raft_index index;
	uint64_t deadline_ms;
	unsigned domain; /* being given */
	struct fsm_watched_key key;
	struct arena arena;
	struct buf record;
};

struct svc_state *svc_state_new(struct svc *s, const struct svc_watch *w)
{
	struct svc_state *st = mem_zalloc(sizeof(*st));
	struct store_txn *txn;
	struct err e = { 0 };

	st->filter = *w;
	st->deadline_ms = clock_mono_ms() + SVC_STATE_MS;
	fsm_reader_init(&st->reader, s->shared->fsm);
	if (fsm_read(&st->reader, &txn, &e) != 0) {
		svc_state_free(st);
		return NULL;
	}
	st->index = fsm_reader_index(&st->reader);
	fsm_read_pause(&st->reader);
	return st;
}

void svc_state_free(struct svc_state *st)
{
	if (!st)
		return;
	fsm_reader_fini(&st->reader);
	arena_fini(&st->arena);
	buf_fini(&st->record);
	mem_free(st);
}

bool svc_state_is_over(const struct svc_state *st)
{
	return clock_mono_ms() >= st->deadline_ms;
}

raft_index svc_state_index(const struct svc_state *st)
{
	return st->index;
}

/* The next key of the domain at hand, or the first of the next one. */
static int next_key(struct svc_state *st, struct store_txn *txn)
{
	const struct svc_watch *w = &st->filter;

	for (; st->domain < FSM_DOMAIN_COUNT; st->domain++) {
		int rc = ERR_NOTFOUND;

		if (w->domains & 1u << st->domain)
			rc =
			    fsm_watched_next(txn, (enum fsm_domain)st->domain, (struct str){ w->prefix, w->prefix_len },
			                     (struct str){ w->member, w->member_len }, &st->key);
		if (rc != ERR_NOTFOUND)
			return rc;
		st->key.len = 0;
	}
	return ERR_NOTFOUND;
}

static int give(struct svc_state *st, struct store_txn *txn, size_t bytes, svc_state_line line, void *arg)
{
	size_t given = 0;

	while (given < bytes) {
		int rc = next_key(st, txn);

		if (rc != 0)
			return rc;
		const struct str key = { st->key.text, st->key.len };
		const enum fsm_domain domain = (enum fsm_domain)st->domain;

		buf_clear(&st->record);
		arena_reset(&st->arena);
		rc = fsm_watched_record(txn, &st->arena, domain, key, &st->record);
		given += 64 + st->record.len;
		if (rc == ERR_NOTFOUND)
			continue;
		if (rc != 0)
			return rc;
		line(arg, domain, key, (struct str){ (const char *)st->record.data, st->record.len });
	}
	return 0;
}

int svc_state_next(struct svc_state *st, size_t bytes, svc_state_line line, void *arg)
{
	struct store_txn *txn;

	if (svc_state_is_over(st))
		return ERR_TIMEOUT;
	int rc = fsm_read_resume(&st->reader, &txn);

	if (rc != 0)
		return rc;
	rc = give(st, txn, bytes, line, arg);
	fsm_read_pause(&st->reader);
	return rc;
}
