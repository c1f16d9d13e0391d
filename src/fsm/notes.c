/* What watchers are told of an entry. Commands note under the way what they touch; when the last one has run, each key
 * that was noted gets one note with its record as the entry leaves it, so that a stream is the state's history and not
 * the commands'. Of what is deleted the record is taken before it goes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "fsm/fsm_internal.h"
#include "raft/raft.h"

static struct str str_of_buf(const struct buf *b)
{
	return (struct str){ (const char *)b->data, b->len };
}

static void note(struct apply *a, enum fsm_domain domain, enum fsm_op op, struct str key, struct str record,
                 struct str members)
{
	changes_encode(&a->work->notes, &(struct change_note){ a->index, domain, op, key, record, members });
}

void notes_gone(struct apply *a, enum fsm_domain domain, struct str key, struct str record, struct str members)
{
	note(a, domain, FSM_OP_DELETE, key, record, members);
}

/* ---- partitions ---- */

static int is_alive(struct store_txn *txn, struct str member, struct arena *arena, bool *out)
{
	struct str record;
	struct member m;
	*out = false;
	int rc = member.len ? store_get(txn, STORE_MEMBERS, member, &record) : ERR_NOTFOUND;
	if (rc == 0 && record_read_json(&member_type, record, arena, &m, NULL, NULL) != 0)
		return ERR_CORRUPT;
	if (rc == 0)
		*out = str_is(m.status, MEMBER_ALIVE);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static int put_partition(struct store_txn *txn, struct arena *arena, struct str topic, struct str id, uint32_t p,
                         const struct fsm_owner *o, struct buf *out)
{
	struct json_writer w = { .out = out };
	struct fsm_replicas set;
	bool alive;
	int rc = is_alive(txn, o->owner, arena, &alive);
	if (rc == 0)
		rc = fsm_get_replicas(txn, topic, p, &set);
	if (rc == 0)
		fsm_write_assignment(&w, topic, id, p, o, fsm_assignment_state(o, alive), &set);
	return rc;
}

static void add_member(struct buf *out, struct str name)
{
	if (name.len == 0)
		return;
	for (size_t at = 0; at < out->len; at += strlen((const char *)out->data + at) + 1)
		if (str_is(name, (const char *)out->data + at))
			return;
	buf_put(out, name.p, name.len);
	buf_putc(out, '\0');
}

static void add_slot_members(struct buf *out, const struct slot *s)
{
	add_member(out, s->owner);
	add_member(out, s->target);
}

static void add_place_members(struct buf *out, const struct place *p)
{
	add_member(out, p->owner);
	add_member(out, p->target);
	for (size_t i = 0; i < p->set.count; i++)
		add_member(out, p->set.items[i].id);
}

/* Only a name per partition is added to what its slot's note says, or its row's. */
void notes_holders(struct apply *a, const struct place *before, const struct place *now)
{
	struct buf members = { 0 };
	char key[FSM_CHANGE_KEY_MAX];
	const int len = snprintf(key, sizeof(key), STR_FMT "/%u", STR_ARG(now->topic), now->partition);
	const bool is_held = now->owner.len > 0 || now->set.count > 0;
	assert(len > 0 && (size_t)len < sizeof(key));
	add_place_members(&members, before);
	add_place_members(&members, now);
	note(a, FSM_DOMAIN_ASSIGNMENTS, is_held ? FSM_OP_PUT : FSM_OP_DELETE, (struct str){ key, (size_t)len },
	     (struct str){ "", 0 }, str_of_buf(&members));
	buf_fini(&members);
}

static bool is_same_slot(const struct slot *x, const struct slot *y)
{
	return str_eq(x->owner, y->owner) && str_eq(x->target, y->target) && x->version == y->version &&
	       x->move_id == y->move_id && x->leaderless == y->leaderless && x->pinned == y->pinned;
}

static int note_slot(struct apply *a, struct str topic, struct str id, uint32_t p, const struct slot *before,
                     const struct slot *now)
{
	static const struct slot none;
	struct buf members = { 0 }, record = { 0 };
	char key[FSM_CHANGE_KEY_MAX];
	const int len = snprintf(key, sizeof(key), STR_FMT "/%u", STR_ARG(topic), p);
	int rc = 0;
	assert(len > 0 && (size_t)len < sizeof(key));
	const struct slot *was = before ? before : &none;
	add_slot_members(&members, was);
	add_slot_members(&members, now ? now : &none);
	if (!now) {
		const struct fsm_owner last = { was->owner,   was->target,     was->version,
			                        was->move_id, was->leaderless, was->pinned };
		rc = put_partition(a->txn, a->arena, topic, id, p, &last, &record);
	}
	if (rc == 0)
		note(a, FSM_DOMAIN_ASSIGNMENTS, now ? FSM_OP_PUT : FSM_OP_DELETE, (struct str){ key, (size_t)len },
		     str_of_buf(&record), str_of_buf(&members));
	buf_fini(&members);
	buf_fini(&record);
	return rc;
}

int notes_partitions(struct apply *a, struct str topic, struct str id, const struct packed *before,
                     const struct packed *now)
{
	const uint32_t count = before->count > now->count ? before->count : now->count;
	for (uint32_t p = 0; p < count; p++) {
		const struct slot *was = p < before->count ? &before->slots[p] : NULL;
		const struct slot *is = p < now->count ? &now->slots[p] : NULL;
		int rc = was && is && is_same_slot(was, is) ? 0 : note_slot(a, topic, id, p, was, is);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- servers ---- */

void notes_put_server(const struct raft_server *s, struct buf *out)
{
	struct json_writer w = { .out = out };
	json_begin_object(&w);
	json_field_cstr(&w, "id", s->name);
	json_field_cstr(&w, "cluster_addr", s->addr);
	json_field_bool(&w, "voter", s->voter);
	json_end_object(&w);
}

static void note_server(struct apply *a, enum fsm_op op, const struct raft_server *s)
{
	struct buf record = { 0 };
	notes_put_server(s, &record);
	note(a, FSM_DOMAIN_SERVERS, op, str_of(s->name), str_of_buf(&record), (struct str){ "", 0 });
	buf_fini(&record);
}

void notes_servers(struct apply *a, const struct raft_conf *before, const struct raft_conf *now)
{
	for (uint32_t i = 0; i < before->count; i++)
		if (!raft_conf_find_name(now, before->servers[i].name))
			note_server(a, FSM_OP_DELETE, &before->servers[i]);
	for (uint32_t i = 0; i < now->count; i++) {
		const struct raft_server *s = &now->servers[i], *old = raft_conf_find_name(before, s->name);
		/* Another incarnation of the name is another server. */
		if (!old || old->id != s->id || old->voter != s->voter || strcmp(old->addr, s->addr) != 0)
			note_server(a, FSM_OP_PUT, s);
	}
}

/* ---- records as watchers are shown them ---- */

bool notes_split_row(struct str key, struct str *topic, uint32_t *number)
{
	const char *slash = key.len ? memrchr(key.p, '/', key.len) : NULL;
	uint64_t n;
	if (!slash || !u64_parse((struct str){ slash + 1, key.len - (size_t)(slash + 1 - key.p) }, &n) ||
	    n > UINT32_MAX)
		return false;
	*topic = (struct str){ key.p, (size_t)(slash - key.p) };
	*number = (uint32_t)n;
	return true;
}

static int render_topic(struct store_txn *txn, struct arena *arena, struct str key, struct buf *out)
{
	struct fsm_topic t;
	int rc = fsm_get_topic(txn, key, &t);
	if (rc)
		return rc;
	const struct str json = fsm_topic_json(&t, arena);
	buf_put(out, json.p, json.len);
	return 0;
}

static int render_partition(struct store_txn *txn, struct arena *arena, struct str key, struct buf *out)
{
	struct fsm_topic t;
	struct fsm_owner o;
	struct str topic;
	uint32_t p;
	int rc = notes_split_row(key, &topic, &p) ? fsm_get_topic(txn, topic, &t) : ERR_NOTFOUND;
	if (rc == 0 && p >= t.partition_count)
		return ERR_NOTFOUND; /* a row that no partition has: no assignment of a topic */
	if (rc)
		return rc;
	fsm_topic_owner(&t, p, &o);
	return put_partition(txn, arena, topic, fsm_topic_id(t.record), p, &o, out);
}

/* The log may hold any bytes as a document; what is no JSON would break the line it stands in. */
static int render_schema(struct store_txn *txn, struct arena *arena, struct str key, struct buf *out)
{
	struct json_writer w = { .out = out };
	struct str topic, document;
	uint32_t version;
	int rc = notes_split_row(key, &topic, &version) ? fsm_get_schema(txn, topic, version, &document) : ERR_NOTFOUND;
	if (rc == 0 && json_check(document, 0, arena, NULL, NULL) != 0)
		rc = ERR_NOTFOUND;
	if (rc == 0)
		fsm_write_schema(&w, topic, version, document);
	return rc;
}

static int render_member(struct store_txn *txn, struct arena *arena, struct str key, struct buf *out)
{
	struct json_writer w = { .out = out };
	struct fsm_member_extra x;
	struct str record;
	struct member m;
	int rc = fsm_get_member_record(txn, key, &record);
	if (rc == 0)
		rc = fsm_get_member_extra(txn, key, &x);
	if (rc)
		return rc;
	if (record_read_json(&member_type, record, arena, &m, NULL, NULL))
		return ERR_CORRUPT;
	/* No time of a heartbeat and no count: they move without a change. */
	json_begin_object(&w);
	json_field_str(&w, "id", m.id);
	json_field_str(&w, "addr", m.addr);
	json_field_str(&w, "status", m.status);
	json_field_bool(&w, "draining", m.draining);
	fsm_write_member_extra(&w, &x);
	json_end_object(&w);
	return 0;
}

static int render_setting(struct store_txn *txn, struct str key, struct buf *out)
{
	struct json_writer w = { .out = out };
	enum fsm_setting s;
	int64_t value;
	int rc = fsm_setting_find(key, &s) ? fsm_get_setting(txn, s, &value) : ERR_NOTFOUND;
	if (rc == 0)
		settings_write(&w, key, value);
	return rc;
}

/* What is stored, without its secrets. */
static int render_public(struct store_txn *txn, struct arena *arena, enum store_db db, const struct record_type *type,
                         struct str key, struct buf *out)
{
	union {
		struct user user;
		struct remote remote;
	} rec;
	struct json_writer w = { .out = out };
	struct str record;
	int rc = store_get(txn, db, key, &record);
	if (rc)
		return rc;
	if (record_read_json(type, record, arena, &rec, NULL, NULL))
		return ERR_CORRUPT;
	record_write_json(type, &rec, RECORD_PUBLIC, &w);
	return 0;
}

int notes_render(struct store_txn *txn, struct arena *arena, enum fsm_domain domain, struct str key, struct buf *out)
{
	switch (domain) {
	case FSM_DOMAIN_TOPICS: return render_topic(txn, arena, key, out);
	case FSM_DOMAIN_SCHEMAS: return render_schema(txn, arena, key, out);
	case FSM_DOMAIN_ASSIGNMENTS: return render_partition(txn, arena, key, out);
	case FSM_DOMAIN_MEMBERS: return render_member(txn, arena, key, out);
	case FSM_DOMAIN_USERS: return render_public(txn, arena, STORE_USERS, &user_type, key, out);
	case FSM_DOMAIN_REMOTES: return render_public(txn, arena, STORE_REMOTES, &remote_type, key, out);
	case FSM_DOMAIN_SETTINGS: return render_setting(txn, key, out);
	default: return ERR_NOTFOUND;
	}
}

/* ---- the end of an entry ---- */

struct noted {
	struct change_note note;
	struct noted *next; /* with the same hash */
};

struct table {
	struct noted **heads;
	size_t mask;
};

static struct noted *find(const struct table *t, const struct change_note *n, struct noted ***head)
{
	*head = &t->heads[(fsm_hash(n->key) ^ n->domain) & t->mask];
	for (struct noted *at = **head; at; at = at->next)
		if (at->note.domain == n->domain && str_eq(at->note.key, n->key))
			return at;
	return NULL;
}

/* What was noted later counts; what it does not say itself it has from before. */
static void merge(struct apply *a, struct change_note *old, const struct change_note *now)
{
	struct buf members = { 0 };
	const struct str lists[] = { old->members, now->members };
	for (size_t i = 0; i < 2; i++)
		for (size_t at = 0; at < lists[i].len; at += strlen(lists[i].p + at) + 1)
			add_member(&members, str_of(lists[i].p + at));
	old->members = (struct str){ arena_dup(a->arena, members.data, members.len), members.len };
	buf_fini(&members);
	if (now->record.len || now->op != old->op)
		old->record = now->record;
	old->op = now->op;
}

/* Of a row that was deleted while its partition lives on: a put, of a partition without an owner. */
static bool is_still_there(struct apply *a, const struct change_note *n)
{
	struct fsm_topic t;
	struct str topic;
	uint32_t p;
	return n->domain == FSM_DOMAIN_ASSIGNMENTS && n->record.len == 0 && notes_split_row(n->key, &topic, &p) &&
	       fsm_get_topic(a->txn, topic, &t) == 0 && p < t.partition_count;
}

static int seal_one(struct apply *a, struct change_note *n, struct buf *out)
{
	struct buf record = { 0 };
	int rc = 0;
	if (n->op == FSM_OP_DELETE && is_still_there(a, n))
		n->op = FSM_OP_PUT;
	if (n->op == FSM_OP_PUT && n->record.len == 0) {
		rc = notes_render(a->txn, a->arena, n->domain, n->key, &record);
		n->record = str_of_buf(&record);
	}
	if (rc == 0 || rc == ERR_NOTFOUND)
		changes_encode(out, n);
	buf_fini(&record);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int notes_seal(struct apply *a, size_t from)
{
	struct buf *notes = &a->work->notes, *sealed = &a->work->sealed;
	struct table table = { .mask = 7 };
	struct change_note n;
	size_t count = 0, kept = 0;
	int rc = 0;
	for (size_t at = from; changes_decode(notes, &at, &n);)
		count++;
	while (table.mask + 1 < 2 * count)
		table.mask = table.mask * 2 + 1;
	table.heads = arena_zalloc(a->arena, (table.mask + 1) * sizeof(*table.heads));
	struct noted *all = arena_alloc(a->arena, (count + 1) * sizeof(*all));
	for (size_t at = from; changes_decode(notes, &at, &n);) {
		struct noted **head, *old = find(&table, &n, &head);
		if (old) {
			merge(a, &old->note, &n);
			continue;
		}
		all[kept] = (struct noted){ n, *head };
		*head = &all[kept++];
	}
	buf_clear(sealed);
	for (size_t i = 0; i < kept && rc == 0; i++)
		rc = seal_one(a, &all[i].note, sealed);
	if (rc)
		return rc;
	notes->len = from;
	buf_put(notes, sealed->data, sealed->len);
	return 0;
}
