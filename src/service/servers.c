/* GET /v1/cluster/servers: the Raft configuration, and how far each server is.
 *
 * Answered from this node as any read. Only the leader hears from everybody: elsewhere the figures of others are null,
 * and no learner is called promotable. */
#include <string.h>

#include "base/clock.h"
#include "fsm/members.h"
#include "service/service_internal.h"

struct progress {
	bool known;
	raft_index match;
	int64_t contact_ms; /* -1: none */
};

static int64_t age_ms(uint64_t at_ms)
{
	uint64_t now_ms = clock_mono_ms();

	return at_ms == 0 ? -1 : now_ms > at_ms ? (int64_t)(now_ms - at_ms) : 0;
}

static struct progress progress_of(const struct svc *s, const struct node_status *st, const struct raft_server *srv)
{
	struct progress p = { .contact_ms = -1 };

	if (strcmp(srv->name, st->id) == 0)
		return (struct progress){ .known = true, .match = st->durable_index, .contact_ms = 0 };
	if (st->role != RAFT_LEADER) {
		if (strcmp(srv->name, st->leader) == 0)
			p.contact_ms = node_contact_age_ms(s->shared->node);
		return p;
	}
	for (size_t i = 0; i < st->peer_count; i++) {
		if (st->peers[i].id != srv->id)
			continue;
		p = (struct progress){ .known = true,
			               .match = st->peers[i].match,
			               .contact_ms = age_ms(st->peers[i].contact_ms) };
	}
	return p;
}

static void put_count(struct json_writer *w, const char *key, bool known, uint64_t v)
{
	json_key(w, key);
	if (known)
		json_put_u64(w, v);
	else
		json_put_null(w);
}

static void put_server(struct json_writer *w, struct svc *s, const struct node_status *st, uint32_t at,
                       const struct fsm_members *members)
{
	const struct raft_server *srv = &st->conf.servers[at];
	const struct fsm_member *row = fsm_members_find(members, str_of(srv->name));
	const struct progress p = progress_of(s, st, srv);
	const raft_index end = st->role == RAFT_LEADER ? st->last_index : st->leader_commit;
	char why[256] = "";
	const enum node_fault fault = node_promotion_fault(st, at, clock_mono_ms(), why, sizeof(why));

	json_begin_object(w);
	json_field_cstr(w, "id", srv->name);
	json_field_cstr(w, "cluster_addr", srv->addr);
	json_field_str(w, "http_addr", row ? row->addr : STR_LIT(""));
	json_field_bool(w, "voter", srv->voter);
	json_field_bool(w, "leader", strcmp(srv->name, st->leader) == 0);
	put_count(w, "match_index", p.known, p.match);
	put_count(w, "lag", p.known, end > p.match ? end - p.match : 0);
	json_field_i64(w, "contact_ms", p.contact_ms);
	json_field_str(w, "build", row ? row->build : STR_LIT(""));
	json_field_bool(w, "promotable", !srv->voter && fault == NODE_FAULT_NONE);
	if (!srv->voter && fault != NODE_FAULT_NONE)
		json_field_cstr(w, "reason", why);
	if (!srv->voter)
		json_field_bool(w, "staged", srv->staged); /* it becomes a voter by itself */
	json_end_object(w);
}

int svc_server_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct node_status *st = svc_node_status(s, NULL);
	const struct fsm_members *members;
	struct json_writer w = { .out = &a->body };
	struct err e;
	int rc = fsm_reader_members(&s->reader, &members, &e);

	(void)txn;
	(void)rq;
	if (rc != 0)
		return rc;
	json_begin_array(&w);
	for (uint32_t i = 0; i < st->conf.count; i++)
		put_server(&w, s, st, i, members);
	json_end_array(&w);
	svc_answer_json(a, 200);
	return 0;
}
