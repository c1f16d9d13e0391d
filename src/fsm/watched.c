#include "fsm/watched.h"

#include <stdio.h>
#include <string.h>

#include "fsm/fsm_internal.h"

static const struct str nothing = { "", 0 };

static struct str key_str(const struct fsm_watched_key *key)
{
	return (struct str){ key->text, key->len };
}

static int set_key(struct fsm_watched_key *key, struct str text)
{
	if (text.len > FSM_CHANGE_KEY_MAX)
		return ERR_CORRUPT;
	memcpy(key->text, text.p, text.len);
	key->len = text.len;
	return 0;
}

static int set_row(struct fsm_watched_key *key, struct str topic, uint32_t number)
{
	char text[FSM_CHANGE_KEY_MAX + 16];
	const int n = snprintf(text, sizeof(text), STR_FMT "/%u", STR_ARG(topic), number);
	return n < 0 || (size_t)n >= sizeof(text) ? ERR_CORRUPT : set_key(key, (struct str){ text, (size_t)n });
}

static struct str cut_at_slash(struct str prefix)
{
	const char *slash = prefix.len ? memchr(prefix.p, '/', prefix.len) : NULL;
	return slash ? (struct str){ prefix.p, (size_t)(slash - prefix.p) } : prefix;
}

/* The first key of `db` behind `after`, or at the prefix. */
static int next_of(struct store_txn *txn, enum store_db db, struct str prefix, struct str after, struct str *key)
{
	struct store_cursor *c;
	const bool behind = after.len > 0 && str_cmp(after, prefix) >= 0;
	int rc = store_cursor_open(txn, db, &c);
	if (rc)
		return rc;
	rc = store_cursor_seek(c, behind ? after : prefix, key, NULL);
	if (rc == 0 && behind && str_eq(*key, after))
		rc = store_cursor_next(c, key, NULL);
	store_cursor_close(c);
	return rc == 0 && !str_starts(*key, prefix) ? ERR_NOTFOUND : rc;
}

static int next_plain(struct store_txn *txn, enum store_db db, struct str prefix, struct fsm_watched_key *key)
{
	struct str found;
	int rc = next_of(txn, db, prefix, key_str(key), &found);
	if (rc == 0 && db == STORE_REMOTES && str_is(found, REMOTE_KEYS_KEY))
		rc = next_of(txn, db, prefix, found, &found);
	return rc ? rc : set_key(key, found);
}

/* Rows are stored under "orders:1". */
static int next_schema(struct store_txn *txn, struct str prefix, struct fsm_watched_key *key)
{
	char stored[FSM_CHANGE_KEY_MAX];
	struct str after = nothing, found, topic;
	uint32_t version;
	if (key->len) {
		if (!notes_split_row(key_str(key), &topic, &version))
			return ERR_CORRUPT;
		memcpy(stored, key->text, key->len);
		stored[topic.len] = ':';
		after = (struct str){ stored, key->len };
	}
	do {
		int64_t number;
		int rc = next_of(txn, STORE_SCHEMAS, cut_at_slash(prefix), after, &found);
		if (rc)
			return rc;
		if (!row_key_parse(found, &topic, &number) || found.len > sizeof(stored))
			return ERR_CORRUPT;
		rc = set_row(key, topic, (uint32_t)number);
		if (rc)
			return rc;
		memcpy(stored, found.p, found.len);
		after = (struct str){ stored, found.len };
	} while (!str_starts(key_str(key), prefix));
	return 0;
}

/* The partition behind `key`, of its topic or of the next that has one. */
static int next_partition(struct store_txn *txn, struct str prefix, struct fsm_watched_key *key)
{
	char name[FSM_CHANGE_KEY_MAX];
	struct str topic = nothing, found;
	struct fsm_topic t;
	uint32_t p = 0;
	int rc = 0;
	if (key->len) {
		if (!notes_split_row(key_str(key), &found, &p))
			return ERR_CORRUPT;
		memcpy(name, found.p, found.len);
		topic = (struct str){ name, found.len };
		p++;
		rc = fsm_get_topic(txn, topic, &t);
	}
	while (rc == 0 && (topic.len == 0 || p >= t.partition_count)) {
		rc = next_of(txn, STORE_TOPICS, cut_at_slash(prefix), topic, &found);
		if (rc)
			return rc;
		memcpy(name, found.p, found.len);
		topic = (struct str){ name, found.len };
		p = 0;
		rc = fsm_get_topic(txn, topic, &t);
	}
	return rc ? rc : set_row(key, topic, p);
}

static int next_held(struct store_txn *txn, struct str member, struct fsm_watched_key *key)
{
	struct fsm_place at, *after = NULL;
	struct fsm_place_iter it = { 0 };
	struct fsm_topic t;
	int rc;
	if (key->len) {
		after = &at;
		if (!notes_split_row(key_str(key), &at.topic, &at.partition))
			return ERR_CORRUPT;
	}
	rc = fsm_held_open(&it, txn, member, after);
	while (rc == 0 && (rc = fsm_place_next(&it, &at)) == 0) {
		rc = fsm_get_topic(txn, at.topic, &t);
		if (rc == 0 && at.partition < t.partition_count)
			break;
		rc = rc == ERR_NOTFOUND ? 0 : rc; /* a row of no partition */
	}
	if (rc == 0)
		rc = set_row(key, at.topic, at.partition);
	fsm_place_close(&it);
	return rc;
}

static int next_assignment(struct store_txn *txn, struct str prefix, struct str member, struct fsm_watched_key *key)
{
	int rc;
	do
		rc = member.len ? next_held(txn, member, key) : next_partition(txn, prefix, key);
	while (rc == 0 && !str_starts(key_str(key), prefix));
	return rc;
}

static int load_conf(struct store_txn *txn, struct raft_conf *out)
{
	struct fsm_applied at;
	int rc = fsm_get_applied(txn, &at);
	out->count = 0;
	if (rc == 0 && at.conf.len > 0)
		rc = raft_conf_decode(at.conf.p, at.conf.len, out, NULL);
	return rc;
}

/* Ordered by name, as the configuration is. */
static int next_server(struct store_txn *txn, struct str prefix, struct fsm_watched_key *key)
{
	struct raft_conf conf;
	int rc = load_conf(txn, &conf);
	for (uint32_t i = 0; rc == 0 && i < conf.count; i++) {
		const struct str name = str_of(conf.servers[i].name);
		if ((key->len == 0 || str_cmp(name, key_str(key)) > 0) && str_starts(name, prefix))
			return set_key(key, name);
	}
	return rc ? rc : ERR_NOTFOUND;
}

static int render_server(struct store_txn *txn, struct str key, struct buf *out)
{
	struct raft_conf conf;
	int rc = load_conf(txn, &conf);
	for (uint32_t i = 0; rc == 0 && i < conf.count; i++) {
		if (str_is(key, conf.servers[i].name)) {
			notes_put_server(&conf.servers[i], out);
			return 0;
		}
	}
	return rc ? rc : ERR_NOTFOUND;
}

int fsm_watched_next(struct store_txn *txn, enum fsm_domain domain, struct str prefix, struct str member,
                     struct fsm_watched_key *key)
{
	switch (domain) {
	case FSM_DOMAIN_TOPICS: return next_plain(txn, STORE_TOPICS, prefix, key);
	case FSM_DOMAIN_SCHEMAS: return next_schema(txn, prefix, key);
	case FSM_DOMAIN_ASSIGNMENTS: return next_assignment(txn, prefix, member, key);
	case FSM_DOMAIN_MEMBERS: return next_plain(txn, STORE_MEMBERS, prefix, key);
	case FSM_DOMAIN_USERS: return next_plain(txn, STORE_USERS, prefix, key);
	case FSM_DOMAIN_REMOTES: return next_plain(txn, STORE_REMOTES, prefix, key);
	case FSM_DOMAIN_SETTINGS: return next_plain(txn, STORE_X_SETTINGS, prefix, key);
	case FSM_DOMAIN_SERVERS: return next_server(txn, prefix, key);
	default: return ERR_NOTFOUND;
	}
}

int fsm_watched_record(struct store_txn *txn, struct arena *arena, enum fsm_domain domain, struct str key,
                       struct buf *out)
{
	if (domain == FSM_DOMAIN_SERVERS)
		return render_server(txn, key, out);
	return notes_render(txn, arena, domain, key, out);
}
