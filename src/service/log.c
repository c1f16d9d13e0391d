/* GET /v1/log: the committed entries that this node keeps, decoded, oldest first.
 *
 * An entry says who asked for what, when, and through which server; whether the state machine then refused it stands
 * nowhere in the log. Payload tables are frozen with the short names that Narad gave them; people read the long ones.
 * Secrets are left out by their tables (FIELD_SECRET), and so is the answer kept for an Idempotency-Key.
 *
 * The log is read in pieces on the work pool. A page ends at its limit, or earlier, after so many bytes of answer or so
 * many entries passed over, so that no request holds its thread: next_since says where to go on. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "model/entry.h"
#include "service/service_internal.h"

#define PIECE_BYTES (1u << 20)
#define PAGE_BYTES (1u << 20) /* of answer, plus one entry */
#define PAGE_SCANNED 16384    /* entries looked at */

struct svc_log {
	struct buf body;
	struct json_writer w;
	raft_index at; /* next to look at; 0 = the first that is kept */
	raft_index hi; /* applied here when it was asked */
	raft_index first;
	size_t shown, scanned;
	struct arena scratch; /* of one entry */
};

/* ---- decoding a payload ---- */

/* "short=long" of each key, by table; other keys are what they say. */
static const struct {
	const struct record_type *type;
	const char *names;
} long_names[] = {
	{ &cmd_user_release_type, "u=username" },
	{ &cmd_schema_put_type, "t=topic v=version s=schema" },
	{ &cmd_create_link_type, "p=parent pi=parent_id e=epoch d=delay_ms o=offsets" },
	{ &cmd_topic_create_with_type, "t=topic s=schema l=link" },
	{ &cmd_topic_update_if_type, "t=topic x=expect_id" },
	{ &cmd_topic_delete_if_type, "n=topic x=expect_id" },
	{ &cmd_topic_name_type, "name=topic" },
	{ &cmd_schema_put_if_type, "t=topic v=version s=schema x=expect_id" },
	{ &cmd_child_attach_type, "p=parent c=child e=epoch d=delay_ms o=offsets" },
	{ &cmd_child_detach_type, "p=parent c=child" },
	{ &cmd_child_attach_if_type, "l=link pi=parent_id ci=child_id" },
	{ &cmd_child_detach_if_type, "p=parent c=child pi=parent_id ci=child_id" },
	{ &cmd_move_target_type, "t=topic p=partition g=target" },
	{ &cmd_move_complete_type, "t=topic p=partition e=expected_owner g=target" },
	{ &cmd_partition_place_type, "t=topic p=partition o=owner_id x=expect_id" },
	{ &cmd_partition_prune_type, "t=topic p=partition" },
	{ &cmd_member_dead_if_type, "h=observed" },
	{ &cmd_user_password_type, "u=username t=updated_at_ms" },
	{ &cmd_user_grants_type, "u=username g=grants t=updated_at_ms" },
};

static struct str long_name(const struct record_type *type, struct str key)
{
	const char *p = "";

	for (size_t i = 0; type && i < ARRAY_LEN(long_names); i++) {
		if (long_names[i].type == type)
			p = long_names[i].names;
	}
	while (*p) {
		const char *eq = strchr(p, '=');
		size_t len = strcspn(eq + 1, " ");

		if ((size_t)(eq - p) == key.len && memcmp(p, key.p, key.len) == 0)
			return (struct str){ eq + 1, len };
		p = eq + 1 + len;
		p += strspn(p, " ");
	}
	return key;
}

#define DEPTH_MAX 16 /* deeper than any table */

/* A walk over a payload: writes it (w set), or looks for a topic's name. */
struct walk {
	struct json_writer *w;
	struct str topic; /* p NULL: none is looked for */
	bool found;
	bool names_topic; /* the key at hand does */
	size_t depth;
	struct {
		const struct record_type *type; /* of the object at this depth; NULL: a map */
		const struct record_type *sub;  /* of the objects below the key at hand */
	} stack[DEPTH_MAX];
};

static void on_begin_object(void *arg, size_t count)
{
	struct walk *k = arg;
	const struct record_type *type = k->stack[k->depth].sub;

	(void)count;
	assert(k->depth + 1 < DEPTH_MAX);
	k->depth++;
	k->stack[k->depth].type = type;
	k->stack[k->depth].sub = NULL;
	if (k->w)
		json_begin_object(k->w);
}

static void on_end_object(void *arg)
{
	struct walk *k = arg;

	k->depth--;
	if (k->w)
		json_end_object(k->w);
}

static void on_begin_array(void *arg, size_t count)
{
	(void)count;
	if (((struct walk *)arg)->w)
		json_begin_array(((struct walk *)arg)->w);
}

static void on_end_array(void *arg)
{
	if (((struct walk *)arg)->w)
		json_end_array(((struct walk *)arg)->w);
}

/* A remote link's topic is one of another cluster. */
static bool is_topic_key(const struct record_type *type, struct str key)
{
	if (type == &remote_link_type)
		return false;
	return str_is(key, "topic") || str_is(key, "parent") || str_is(key, "child") || str_is(key, "stub") ||
	       (type == &topic_type && str_is(key, "name"));
}

static void on_key(void *arg, struct str key)
{
	struct walk *k = arg;
	const struct record_type *type = k->stack[k->depth].type;
	const struct field *f = type ? record_field(type, key) : NULL;
	const struct str name = long_name(type, key);

	k->stack[k->depth].sub = f ? f->sub : NULL;
	k->names_topic = is_topic_key(type, name);
	if (k->w)
		json_key_str(k->w, name);
}

static void on_str(void *arg, struct str s)
{
	struct walk *k = arg;

	if (k->names_topic && k->topic.p && str_eq(s, k->topic))
		k->found = true;
	if (k->w)
		json_put_str(k->w, s);
}

/* What is no secret and kept as bytes is a schema's document. */
static void on_bytes(void *arg, struct str bytes)
{
	struct walk *k = arg;

	if (!k->w)
		return;
	if (utf8_valid(bytes.p, bytes.len))
		json_put_str(k->w, bytes);
	else
		json_put_base64(k->w, bytes);
}

static void on_json(void *arg, struct str doc)
{
	if (((struct walk *)arg)->w)
		json_put_doc(((struct walk *)arg)->w, doc);
}

static void on_bool(void *arg, bool v)
{
	if (((struct walk *)arg)->w)
		json_put_bool(((struct walk *)arg)->w, v);
}

static void on_i64(void *arg, int64_t v)
{
	if (((struct walk *)arg)->w)
		json_put_i64(((struct walk *)arg)->w, v);
}

static void on_u64(void *arg, uint64_t v)
{
	if (((struct walk *)arg)->w)
		json_put_u64(((struct walk *)arg)->w, v);
}

static void on_null(void *arg)
{
	if (((struct walk *)arg)->w)
		json_put_null(((struct walk *)arg)->w);
}

static void walk_payload(struct walk *k, const struct record_type *type, const void *rec)
{
	static const struct record_visitor visitor = {
		.begin_object = on_begin_object,
		.end_object = on_end_object,
		.begin_array = on_begin_array,
		.end_array = on_end_array,
		.key = on_key,
		.put_str = on_str,
		.put_bytes = on_bytes,
		.put_json = on_json,
		.put_bool = on_bool,
		.put_i64 = on_i64,
		.put_u64 = on_u64,
		.put_null = on_null,
	};

	k->stack[0].sub = type;
	record_visit(type, rec, RECORD_PUBLIC, &visitor, k);
}

/* ---- entries ---- */

union payload {
	uint64_t align;
	unsigned char bytes[COMMAND_PAYLOAD_SIZE];
};

/* Does any command of the entry name the topic? */
static bool names_topic(struct svc_log *l, const struct entry_view *v, struct str topic)
{
	struct walk k = { .topic = topic };
	const uint8_t *at = NULL;
	struct entry_command c;
	union payload payload;

	while (!k.found && entry_next(v, &at, &c)) {
		const struct command_info *info = command_info(c.type);

		arena_reset(&l->scratch);
		if (info && entry_command_read(&c, &l->scratch, &payload, NULL) == 0)
			walk_payload(&k, info->payload, &payload);
	}
	return k.found;
}

static void put_command(struct svc_log *l, const struct entry_command *c)
{
	const struct command_info *info = command_info(c->type);
	struct walk k = { .w = &l->w };
	union payload payload;

	json_begin_object(&l->w);
	json_field_u64(&l->w, "type", c->type);
	json_field_cstr(&l->w, "name", info ? info->name : "unknown to this release");
	arena_reset(&l->scratch);
	if (info && entry_command_read(c, &l->scratch, &payload, NULL) == 0) {
		json_key(&l->w, "args");
		walk_payload(&k, info->payload, &payload);
	}
	json_end_object(&l->w);
}

static void put_commands(struct svc_log *l, const struct entry_view *v)
{
	const uint8_t *at = NULL;
	struct entry_command c;

	json_field_u64(&l->w, "time_ms", v->header.time_ms);
	json_field_str(&l->w, "actor", v->header.actor);
	json_field_str(&l->w, "node", v->header.origin);
	json_key(&l->w, "commands");
	json_begin_array(&l->w);
	while (entry_next(v, &at, &c))
		put_command(l, &c);
	json_end_array(&l->w);
}

static void put_servers(struct svc_log *l, const struct raft_conf *conf)
{
	json_key(&l->w, "servers");
	json_begin_array(&l->w);
	for (uint32_t i = 0; i < conf->count; i++) {
		json_begin_object(&l->w);
		json_field_cstr(&l->w, "id", conf->servers[i].name);
		json_field_cstr(&l->w, "cluster_addr", conf->servers[i].addr);
		json_field_bool(&l->w, "voter", conf->servers[i].voter);
		json_end_object(&l->w);
	}
	json_end_array(&l->w);
}

/* Passed over, or written. An entry of a newer release shows that it is one. */
static void take_entry(struct svc_log *l, const struct entry *e, struct str topic)
{
	struct entry_view v;
	struct raft_conf conf;
	const bool reads = e->kind == ENTRY_COMMAND && entry_decode(e->data, e->len, &v, NULL) == 0;

	if (topic.p && !(reads && names_topic(l, &v, topic)))
		return;
	json_begin_object(&l->w);
	json_field_u64(&l->w, "index", e->index);
	json_field_u64(&l->w, "term", e->term);
	json_field_cstr(&l->w, "kind",
	                e->kind == ENTRY_COMMAND  ? "command"
	                : e->kind == ENTRY_CONFIG ? "config"
	                                          : "noop");
	if (reads)
		put_commands(l, &v);
	else if (e->kind == ENTRY_CONFIG && raft_conf_decode(e->data, e->len, &conf, NULL) == 0)
		put_servers(l, &conf);
	json_end_object(&l->w);
	l->shown++;
}

/* ---- the page ---- */

void svc_log_drop(struct svc_task *t)
{
	node_history_unref(t->history);
	t->history = NULL;
	if (!t->log)
		return;
	buf_fini(&t->log->body);
	arena_fini(&t->log->scratch);
	t->log = NULL;
}

static void end(struct svc_task *t, struct svc_answer *a)
{
	svc_log_drop(t);
	svc_task_answer(t, a);
}

static void answer_page(struct svc_task *t)
{
	struct svc_log *l = t->log;
	struct svc_answer a = { .index = l->hi };

	json_end_array(&l->w);
	json_field_u64(&l->w, "first_index", l->first);
	json_field_u64(&l->w, "last_index", l->hi);
	if (l->at != 0 && l->at <= l->hi)
		json_field_u64(&l->w, "next_since", l->at - 1);
	json_end_object(&l->w);
	a.body = l->body;
	l->body = (struct buf){ 0 };
	svc_answer_json(&a, 200);
	end(t, &a);
}

static void fail(struct svc_task *t, int code)
{
	struct svc_log *l = t->log;
	struct svc_answer a = { 0 };

	if (code == ERR_NOTFOUND)
		svc_fail_write(&a, 410, "compacted", "none", l->first ? l->first - 1 : l->hi,
		               "the log of this node begins at %" PRIu64
		               "; what is older is compacted away, ask without since for all that is kept",
		               l->first ? l->first : l->hi + 1);
	else
		svc_fail(&a, 503, "not_ready", NULL, "this node cannot read its log; ask another node");
	a.index = 0;
	end(t, &a);
}

static void ask_piece(struct svc_task *t);

static bool is_full(const struct svc_task *t)
{
	const struct svc_log *l = t->log;

	return l->shown >= t->rq.limit || l->body.len >= PAGE_BYTES || l->scanned >= PAGE_SCANNED;
}

static void on_piece(struct svc_task *t, enum svc_wake why)
{
	struct svc_log *l = t->log;
	const struct node_history *h = t->history;

	(void)why; /* nothing but the completion ends this wait */
	l->first = h->first;
	if (t->completion.code != 0) {
		fail(t, t->completion.code);
		return;
	}
	l->at = h->lo;
	for (size_t i = 0; i < h->count && !is_full(t); i++) {
		take_entry(l, &h->entries[i], t->rq.topic);
		l->scanned++;
		l->at = h->entries[i].index + 1;
	}
	if (h->count == 0 || l->at > l->hi || is_full(t))
		answer_page(t);
	else
		ask_piece(t);
}

static void ask_piece(struct svc_task *t)
{
	struct node_history *h = node_history_new();

	node_history_unref(t->history);
	t->history = h;
	h->reply = svc_task_reply_to(t);
	h->lo = t->log->at;
	h->hi = t->log->hi;
	h->bytes_max = PIECE_BYTES;
	t->resume = on_piece;
	node_ask_history(t->svc->shared->node, h);
	svc_task_wait_proposal(t);
}

void svc_log_begin(struct svc_task *t)
{
	struct svc_log *l = arena_zalloc(&t->arena, sizeof(*l));
	struct svc_answer a = { 0 };

	t->log = l;
	l->hi = svc_applied_index(t->svc);
	if (t->rq.has_since)
		l->at = t->rq.since < l->hi ? t->rq.since + 1 : l->hi + 1;
	if (!svc_task_may(t, &a)) {
		end(t, &a);
		return;
	}
	if (!svc_may_read_replica(t->svc, &t->rq, &a)) {
		end(t, &a);
		return;
	}
	l->w.out = &l->body;
	json_begin_object(&l->w);
	json_key(&l->w, "entries");
	json_begin_array(&l->w);
	ask_piece(t);
}
