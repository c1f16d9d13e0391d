/* What a configuration is, and its bytes in the log and in a snapshot.
 *
 * u8 version 1, u8 count, then for each server, ordered by name: u64 id, u8 standing (0 learner, 1 voter, 2 staged
 * learner), u8 length + name, u16 length + addr.
 * Little-endian. Reading is strict: what these rules do not allow is nobody's configuration.
 */
#include "base/bytes.h"
#include "raft/raft_internal.h"

#define CONF_VERSION 1

enum { LEARNER, VOTER, STAGED, STANDING_END };

static bool is_text(const char *s, size_t max)
{
	const size_t len = strnlen(s, max + 1);
	if (len == 0 || len > max)
		return false;
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)s[i] <= ' ' || s[i] == 0x7f)
			return false;
	}
	return true;
}

int conf_check(const struct raft_conf *c, struct err *e)
{
	if (c->count == 0 || c->count > RAFT_SERVERS_MAX)
		return err_set(e, ERR_INVALID, "configuration of %u servers, allowed are 1 to %d", c->count,
		               RAFT_SERVERS_MAX);
	bool voter = false;
	for (uint32_t i = 0; i < c->count; i++) {
		const struct raft_server *s = &c->servers[i];
		if (s->id == 0 || !is_text(s->name, RAFT_NAME_MAX) || !is_text(s->addr, RAFT_ADDR_MAX))
			return err_set(e, ERR_INVALID, "server %u of the configuration lacks id, name or address", i);
		if (s->voter && s->staged)
			return err_set(e, ERR_INVALID, "\"%s\" is a voter and cannot be staged to become one", s->name);
		if (i > 0 && strcmp(c->servers[i - 1].name, s->name) >= 0)
			return err_set(e, ERR_INVALID, "servers of the configuration are not ordered at \"%s\"",
			               s->name);
		for (uint32_t j = 0; j < i; j++) {
			if (c->servers[j].id == s->id)
				return err_set(e, ERR_INVALID, "\"%s\" and \"%s\" have the same id", c->servers[j].name,
				               s->name);
		}
		voter |= s->voter;
	}
	return voter ? 0 : err_set(e, ERR_INVALID, "a configuration needs a voter");
}

void conf_sort(struct raft_conf *c)
{
	assert(c->count <= RAFT_SERVERS_MAX);
	for (uint32_t i = 1; i < c->count; i++) {
		const struct raft_server s = c->servers[i];
		uint32_t j = i;
		for (; j > 0 && strcmp(c->servers[j - 1].name, s.name) > 0; j--)
			c->servers[j] = c->servers[j - 1];
		c->servers[j] = s;
	}
}

const struct raft_server *raft_conf_find(const struct raft_conf *c, node_id id)
{
	for (uint32_t i = 0; i < c->count; i++) {
		if (c->servers[i].id == id)
			return &c->servers[i];
	}
	return NULL;
}

const struct raft_server *raft_conf_find_name(const struct raft_conf *c, const char *name)
{
	for (uint32_t i = 0; i < c->count; i++) {
		if (strcmp(c->servers[i].name, name) == 0)
			return &c->servers[i];
	}
	return NULL;
}

void raft_conf_encode(const struct raft_conf *c, struct buf *out)
{
	assert(c->count <= RAFT_SERVERS_MAX);
	const uint8_t head[2] = { CONF_VERSION, (uint8_t)c->count };
	buf_put(out, head, sizeof(head));
	for (uint32_t i = 0; i < c->count; i++) {
		const struct raft_server *s = &c->servers[i];
		const size_t name_len = strnlen(s->name, RAFT_NAME_MAX), addr_len = strnlen(s->addr, RAFT_ADDR_MAX);
		uint8_t fixed[10], addr_head[2];
		put_le64(fixed, s->id);
		fixed[8] = s->voter ? VOTER : s->staged ? STAGED : LEARNER;
		fixed[9] = (uint8_t)name_len;
		put_le16(addr_head, (uint16_t)addr_len);
		buf_put(out, fixed, sizeof(fixed));
		buf_put(out, s->name, name_len);
		buf_put(out, addr_head, sizeof(addr_head));
		buf_put(out, s->addr, addr_len);
	}
}

/* Bytes not yet read. */
struct rest {
	const uint8_t *p;
	size_t len;
};

static const uint8_t *take(struct rest *r, size_t n)
{
	if (r->len < n)
		return NULL;
	const uint8_t *p = r->p;
	r->p += n;
	r->len -= n;
	return p;
}

static bool take_text(struct rest *r, size_t len, size_t max, char *out)
{
	const uint8_t *p = len <= max ? take(r, len) : NULL;
	if (!p || memchr(p, 0, len))
		return false;
	memcpy(out, p, len);
	out[len] = '\0';
	return true;
}

static bool take_server(struct rest *r, struct raft_server *s)
{
	const uint8_t *fixed = take(r, 10);
	if (!fixed || fixed[8] >= STANDING_END || !take_text(r, fixed[9], RAFT_NAME_MAX, s->name))
		return false;
	s->id = get_le64(fixed);
	s->voter = fixed[8] == VOTER;
	s->staged = fixed[8] == STAGED;
	const uint8_t *len = take(r, 2);
	return len && take_text(r, get_le16(len), RAFT_ADDR_MAX, s->addr);
}

int raft_conf_decode(const void *bytes, size_t len, struct raft_conf *out, struct err *e)
{
	struct rest r = { .p = bytes, .len = len };
	const uint8_t *head = take(&r, 2);
	if (!head)
		return err_set(e, ERR_CORRUPT, "configuration is cut off");
	if (head[0] != CONF_VERSION)
		return err_set(e, ERR_VERSION, "configuration has format %u, this release reads %d", head[0],
		               CONF_VERSION);
	if (head[1] > RAFT_SERVERS_MAX)
		return err_set(e, ERR_CORRUPT, "configuration of %u servers, allowed are 1 to %d", head[1],
		               RAFT_SERVERS_MAX);
	struct raft_conf c = { .count = head[1] };
	for (uint32_t i = 0; i < c.count; i++) {
		if (!take_server(&r, &c.servers[i]))
			return err_set(e, ERR_CORRUPT, "server %u of the configuration is damaged", i);
	}
	if (r.len > 0)
		return err_set(e, ERR_CORRUPT, "%zu bytes behind the configuration", r.len);
	struct err why = { 0 };
	if (conf_check(&c, &why))
		return err_set(e, ERR_CORRUPT, "%s", why.msg);
	*out = c;
	return 0;
}
