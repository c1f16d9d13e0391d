/* The envelope. Only put_header and entry_decode know the layout; they stand side by side on purpose. */
#include "model/entry.h"

#include <assert.h>
#include <string.h>

#include "model/rules.h"

#define HEADER_MIN (12 + 1 + 1) /* fixed part and two empty names */
#define TIME_OFFSET 4

/* ---- building ---- */

void entry_builder_init(struct entry_builder *b)
{
	*b = (struct entry_builder){ 0 };
}

void entry_builder_fini(struct entry_builder *b)
{
	buf_fini(&b->commands);
	*b = (struct entry_builder){ 0 };
}

void entry_builder_clear(struct entry_builder *b)
{
	buf_clear(&b->commands);
	b->count = 0;
	b->max_type = 0;
}

void entry_builder_add(struct entry_builder *b, enum command_type type, const void *payload)
{
	const struct command_info *info = command_info(type);
	assert(info);
	(void)buf_reserve(&b->commands, ENTRY_COMMAND_OVERHEAD);
	const size_t start = b->commands.len;
	buf_advance(&b->commands, ENTRY_COMMAND_OVERHEAD);
	struct mp_writer w = { .out = &b->commands };
	record_write_mp(info->payload, payload, &w);
	const size_t len = b->commands.len - start - ENTRY_COMMAND_OVERHEAD;
	assert(len <= UINT32_MAX);
	b->commands.data[start] = (uint8_t)type;
	put_le32(b->commands.data + start + 1, (uint32_t)len);
	b->count++;
	if (type > b->max_type)
		b->max_type = type;
}

size_t entry_builder_size(const struct entry_builder *b)
{
	return b->commands.len;
}

static int check_header(const struct entry_builder *b, const struct entry_header *h, struct err *e)
{
	if (b->count == 0)
		return err_set(e, ERR_INVALID, "an entry needs a command");
	if (h->actor.len > ENTRY_NAME_MAX || h->origin.len > ENTRY_NAME_MAX)
		return err_set(e, ERR_INVALID, "the name of an entry's actor or origin is longer than %d bytes",
		               ENTRY_NAME_MAX);
	if (!h->has_idem)
		return 0;
	if (!rule_idem_key(h->idem.key))
		return err_set(e, ERR_INVALID, "an idempotency key is 1 to %d printable ASCII characters",
		               IDEM_KEY_MAX);
	if (h->idem.status < 200 || h->idem.status > 299)
		return err_set(e, ERR_INVALID, "status %u of a planned answer is not 2xx", (unsigned)h->idem.status);
	return 0;
}

static size_t header_len(const struct entry_header *h)
{
	return HEADER_MIN + h->actor.len + h->origin.len;
}

static size_t idem_len(const struct entry_header *h)
{
	return h->has_idem ? 1 + h->idem.key.len + 8 + 2 + 4 + h->idem.body.len : 0;
}

static uint8_t *put_bytes(uint8_t *p, struct str s)
{
	if (s.len)
		memcpy(p, s.p, s.len);
	return p + s.len;
}

static uint8_t *put_name(uint8_t *p, struct str s)
{
	*p = (uint8_t)s.len;
	return put_bytes(p + 1, s);
}

static uint8_t *put_header(uint8_t *p, const struct entry_header *h)
{
	p[0] = ENTRY_VERSION;
	p[1] = h->has_idem ? ENTRY_FLAG_IDEM : 0;
	put_le16(p + 2, (uint16_t)header_len(h));
	put_le64(p + TIME_OFFSET, 0);
	p = put_name(p + 12, h->actor);
	p = put_name(p, h->origin);
	if (!h->has_idem)
		return p;
	p = put_name(p, h->idem.key);
	put_le64(p, h->idem.request_hash);
	put_le16(p + 8, h->idem.status);
	put_le32(p + 10, (uint32_t)h->idem.body.len);
	return put_bytes(p + 14, h->idem.body);
}

int entry_builder_finish(const struct entry_builder *b, const struct entry_header *h, struct slab **out, struct err *e)
{
	const int rc = check_header(b, h, e);
	if (rc)
		return rc;
	const size_t head = header_len(h) + idem_len(h);
	const size_t len = head + b->commands.len;
	if (len > ENTRY_PAYLOAD_MAX)
		return err_set(e, ERR_TOO_LARGE, "an entry of %zu bytes is larger than %u; ask for less at once", len,
		               ENTRY_PAYLOAD_MAX);
	struct slab *s = slab_new(len);
	uint8_t *p = put_header(s->data, h);
	assert(p == s->data + head);
	memcpy(p, b->commands.data, b->commands.len);
	s->len = len;
	*out = s;
	return 0;
}

void entry_stamp_time(struct slab *s, uint64_t time_ms)
{
	entry_stamp_time_at(s->data, s->len, time_ms);
}

void entry_stamp_time_at(uint8_t *bytes, size_t len, uint64_t time_ms)
{
	assert(len >= HEADER_MIN && bytes[0] == ENTRY_VERSION);
	put_le64(bytes + TIME_OFFSET, time_ms);
}

/* ---- reading ---- */

struct cursor {
	const uint8_t *p;
	const uint8_t *end;
	bool failed; /* asked for more than there is; what was given then is empty */
};

static const uint8_t *take(struct cursor *c, size_t n)
{
	static const uint8_t zeroes[8];
	if (c->failed || (size_t)(c->end - c->p) < n) {
		c->failed = true;
		return zeroes;
	}
	const uint8_t *p = c->p;
	c->p += n;
	return p;
}

static struct str take_str(struct cursor *c, size_t n)
{
	const uint8_t *p = take(c, n);
	return (struct str){ (const char *)p, c->failed ? 0 : n };
}

static struct str take_name(struct cursor *c)
{
	return take_str(c, *take(c, 1));
}

/* Of actor and origin, which reach logs and answers. */
static bool is_text(struct str s)
{
	return s.len == 0 || (utf8_valid(s.p, s.len) && !memchr(s.p, 0, s.len));
}

/* The frame of each command, without looking into its payload. */
static void take_commands(struct cursor *c, struct entry_view *v)
{
	v->commands = c->p;
	v->end = c->end;
	do {
		const unsigned type = *take(c, 1);
		(void)take(c, get_le32(take(c, 4))); /* cursor.failed says whether it is there */
		v->count++;
		if (type > v->max_type)
			v->max_type = type;
	} while (!c->failed && c->p < c->end);
}

int entry_decode(const void *bytes, size_t len, struct entry_view *out, struct err *e)
{
	struct cursor c = { .p = bytes, .end = len ? (const uint8_t *)bytes + len : bytes };
	struct entry_view v = { 0 };
	if (len > ENTRY_PAYLOAD_MAX)
		return err_set(e, ERR_CORRUPT, "an entry of %zu bytes is larger than %u", len, ENTRY_PAYLOAD_MAX);
	const uint8_t *fixed = take(&c, 12);
	if (c.failed)
		return err_set(e, ERR_CORRUPT, "an entry of %zu bytes is too short for its header", len);
	if (fixed[0] != ENTRY_VERSION || fixed[1] & ~ENTRY_FLAG_IDEM)
		return err_set(e, ERR_VERSION, "an entry of version %u with flags 0x%02x is of a newer format than %d",
		               fixed[0], fixed[1], ENTRY_VERSION);
	v.header.time_ms = get_le64(fixed + TIME_OFFSET);
	v.header.actor = take_name(&c);
	v.header.origin = take_name(&c);
	if (c.failed || get_le16(fixed + 2) != header_len(&v.header))
		return err_set(e, ERR_CORRUPT, "an entry's header does not have the length it claims");
	if (!is_text(v.header.actor) || !is_text(v.header.origin))
		return err_set(e, ERR_CORRUPT, "an entry's actor or origin is not text");
	if (fixed[1] & ENTRY_FLAG_IDEM) {
		v.header.has_idem = true;
		v.header.idem.key = take_name(&c);
		v.header.idem.request_hash = get_le64(take(&c, 8));
		v.header.idem.status = get_le16(take(&c, 2));
		v.header.idem.body = take_str(&c, get_le32(take(&c, 4)));
		if (c.failed || !rule_idem_key(v.header.idem.key) || v.header.idem.status < 200 ||
		    v.header.idem.status > 299)
			return err_set(e, ERR_CORRUPT, "an entry's idempotency record is damaged");
	}
	take_commands(&c, &v);
	if (c.failed)
		return err_set(e, ERR_CORRUPT, "command %zu of an entry is damaged or cut off", v.count);
	*out = v;
	return 0;
}

bool entry_next(const struct entry_view *v, const uint8_t **at, struct entry_command *out)
{
	const uint8_t *p = *at ? *at : v->commands;
	if (p == v->end)
		return false;
	const size_t len = get_le32(p + 1);
	out->type = p[0];
	out->payload = (struct str){ (const char *)p + ENTRY_COMMAND_OVERHEAD, len };
	*at = p + ENTRY_COMMAND_OVERHEAD + len;
	return true;
}

int entry_command_read(const struct entry_command *c, struct arena *a, void *out, struct err *e)
{
	const struct command_info *info = command_info(c->type);
	if (!info)
		return err_set(e, ERR_VERSION, "entry type %u is unknown to this release, which applies types up to %d",
		               c->type, COMMAND_MAX);
	return record_read_mp(info->payload, c->payload.p, c->payload.len, a, out, e);
}

unsigned entry_max_type(const void *bytes, size_t len)
{
	struct entry_view v;
	return entry_decode(bytes, len, &v, NULL) ? 0 : v.max_type;
}

uint64_t entry_time_ms(const void *bytes, size_t len)
{
	const uint8_t *p = bytes;
	return len >= HEADER_MIN && p[0] == ENTRY_VERSION ? get_le64(p + TIME_OFFSET) : 0;
}

void entry_put_body(struct buf *out, struct str body, raft_index index)
{
	const char *p = body.p;
	size_t left = body.len;
	while (left) {
		const char *mark = memchr(p, ENTRY_INDEX_MARK, left);
		const size_t n = mark ? (size_t)(mark - p) : left;
		buf_put(out, p, n);
		if (mark)
			buf_put_u64(out, index);
		const size_t used = n + (mark != NULL);
		p += used;
		left -= used;
	}
}
