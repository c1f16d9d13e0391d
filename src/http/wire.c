#include "http/wire.h"

#include <stdio.h>
#include <string.h>

#include "model/mp.h"

#define WIRE_VERSION 1
#define REQUEST_ITEMS 16
#define REQUEST_ITEMS_MIN 15 /* of a release that does not know the session yet */
#define ANSWER_ITEMS 9

/* Content types an answer may have: a number on the wire, so that a peer cannot put text into our headers. */
static const char *const content_types[] = { NULL, "application/json", "text/plain; charset=utf-8" };
#define CONTENT_TYPES (sizeof(content_types) / sizeof(content_types[0]))

/* The head's length is filled in when the head stands. */
static size_t begin_head(struct buf *out)
{
	buf_put(out, "\0\0\0\0", 4);
	return out->len;
}

static void end_head(struct buf *out, size_t from)
{
	put_le32(out->data + from - 4, (uint32_t)(out->len - from));
}

static int open_head(const uint8_t *bytes, size_t len, struct mp_reader *r, size_t items, size_t *count,
                     struct str *body, struct err *e)
{
	if (len < 4 || get_le32(bytes) > len - 4)
		return err_set(e, ERR_CORRUPT, "a forwarded frame is cut short");
	size_t head = get_le32(bytes);
	int rc = mp_check(bytes + 4, head, e);

	if (rc != 0)
		return rc;
	mp_reader_init(r, bytes + 4, head);
	*count = mp_read_array(r);
	if (!mp_read_ok(r) || *count < items)
		return err_set(e, ERR_CORRUPT, "a forwarded frame has too few elements");
	if (mp_read_u64(r) != WIRE_VERSION)
		return err_set(e, ERR_CORRUPT, "a forwarded frame is of another version");
	*body = (struct str){ (const char *)bytes + 4 + head, len - 4 - head };
	return 0;
}

static int close_head(struct mp_reader *r, size_t items, size_t count, struct err *e)
{
	for (size_t i = items; i < count; i++)
		mp_read_skip(r);
	if (!mp_read_end(r))
		return err_set(e, ERR_CORRUPT, "a forwarded frame does not decode: %s",
		               r->error ? r->error : "extra bytes");
	return 0;
}

static void put_optional(struct mp_writer *w, struct str s)
{
	if (s.p)
		mp_put_bin(w, s.p, s.len);
	else
		mp_put_nil(w);
}

static struct str get_optional(struct mp_reader *r)
{
	if (mp_read_nil(r))
		return (struct str){ NULL, 0 };
	struct str s = mp_read_bin(r);

	return s.p ? s : (struct str){ "", 0 };
}

static void get_text(struct mp_reader *r, char *out, size_t cap)
{
	struct str s = mp_read_str(r);

	snprintf(out, cap, "%.*s", (int)(s.len < cap ? s.len : cap - 1), s.p ? s.p : "");
}

void http_wire_put_request(struct buf *out, const struct http_call *c)
{
	size_t from = begin_head(out);
	struct mp_writer w = { .out = out };

	mp_put_array(&w, REQUEST_ITEMS);
	mp_put_u64(&w, WIRE_VERSION);
	mp_put_u64(&w, (uint64_t)c->verb);
	mp_put_bool(&w, c->is_head);
	mp_put_bin(&w, c->target.p, c->target.len);
	put_optional(&w, c->fields[HTTP_FIELD_CONTENT_TYPE]);
	mp_put_bool(&w, c->fields[HTTP_FIELD_CLIENT].p != NULL);
	put_optional(&w, c->fields[HTTP_FIELD_IF_MATCH]);
	put_optional(&w, c->fields[HTTP_FIELD_IF_NONE_MATCH]);
	put_optional(&w, c->fields[HTTP_FIELD_IDEMPOTENCY_KEY]);
	mp_put_str(&w, str_of(c->rq.principal.name));
	mp_put_bool(&w, c->rq.principal.anonymous);
	mp_put_bool(&w, c->rq.principal.root);
	mp_put_u64(&w, c->rq.principal.credential);
	mp_put_str(&w, str_of(c->rq.peer));
	mp_put_str(&w, str_of(c->rq.origin));
	put_optional(&w, c->fields[HTTP_FIELD_SESSION]);
	end_head(out, from);
}

int http_wire_get_request(const uint8_t *bytes, size_t len, struct http_call *c, struct err *e)
{
	struct mp_reader r;
	size_t count;
	int rc = open_head(bytes, len, &r, REQUEST_ITEMS_MIN, &count, &c->rq.body, e);

	if (rc != 0)
		return rc;
	uint64_t verb = mp_read_u64(&r);

	if (verb >= HTTP_VERB_OTHER) /* it has no path, so it is not forwarded */
		return err_set(e, ERR_CORRUPT, "a forwarded frame has an unknown method");
	memset(c->fields, 0, sizeof(c->fields));
	c->verb = (enum http_verb)verb;
	c->is_head = mp_read_bool(&r);
	c->target = mp_read_bin(&r);
	c->fields[HTTP_FIELD_CONTENT_TYPE] = get_optional(&r);
	if (mp_read_bool(&r))
		c->fields[HTTP_FIELD_CLIENT] = (struct str){ "", 0 };
	c->fields[HTTP_FIELD_IF_MATCH] = get_optional(&r);
	c->fields[HTTP_FIELD_IF_NONE_MATCH] = get_optional(&r);
	c->fields[HTTP_FIELD_IDEMPOTENCY_KEY] = get_optional(&r);
	get_text(&r, c->rq.principal.name, sizeof(c->rq.principal.name));
	c->rq.principal.anonymous = mp_read_bool(&r);
	c->rq.principal.root = mp_read_bool(&r);
	c->rq.principal.credential = mp_read_u64(&r);
	get_text(&r, c->rq.peer, sizeof(c->rq.peer));
	get_text(&r, c->rq.origin, sizeof(c->rq.origin));
	if (count >= REQUEST_ITEMS)
		c->fields[HTTP_FIELD_SESSION] = get_optional(&r);
	if (c->rq.body.len > HTTP_BODY_MAX || c->target.len > HTTP_TARGET_MAX)
		return err_set(e, ERR_CORRUPT, "a forwarded request is larger than any request may be");
	return close_head(&r, count < REQUEST_ITEMS ? count : REQUEST_ITEMS, count, e);
}

void http_wire_put_answer(struct buf *out, const struct svc_answer *a)
{
	size_t from = begin_head(out);
	struct mp_writer w = { .out = out };
	uint64_t type = 0;

	for (size_t i = 1; i < CONTENT_TYPES; i++) {
		if (a->content_type && strcmp(a->content_type, content_types[i]) == 0)
			type = i;
	}
	mp_put_array(&w, ANSWER_ITEMS + 1);
	mp_put_u64(&w, WIRE_VERSION);
	mp_put_u64(&w, (uint64_t)a->status);
	mp_put_u64(&w, type);
	mp_put_u64(&w, a->index);
	mp_put_u64(&w, a->retry_after_s);
	mp_put_bool(&w, a->not_applied);
	mp_put_bool(&w, a->not_leader);
	mp_put_u64(&w, a->allowed);
	mp_put_str(&w, str_of(a->etag));
	mp_put_bool(&w, a->replayed);
	end_head(out, from);
}

int http_wire_get_answer(const uint8_t *bytes, size_t len, struct svc_answer *a, struct str *body, struct err *e)
{
	struct mp_reader r;
	size_t count;
	int rc = open_head(bytes, len, &r, ANSWER_ITEMS, &count, body, e);

	if (rc != 0)
		return rc;
	uint64_t status = mp_read_u64(&r);
	uint64_t type = mp_read_u64(&r);

	memset(a, 0, sizeof(*a));
	if (status < 200 || status > 599 || type >= CONTENT_TYPES)
		return err_set(e, ERR_CORRUPT, "a forwarded answer has an impossible status or content type");
	a->status = (int)status;
	a->content_type = content_types[type];
	a->index = mp_read_u64(&r);
	a->retry_after_s = mp_read_u32(&r);
	a->not_applied = mp_read_bool(&r);
	a->not_leader = mp_read_bool(&r);
	a->allowed = (unsigned)mp_read_u32(&r);
	get_text(&r, a->etag, sizeof(a->etag));
	/* Servers of before do not say. */
	size_t items = ANSWER_ITEMS;

	if (count > items) {
		a->replayed = mp_read_bool(&r);
		items++;
	}
	/* As with content types: nothing of a peer's choice gets into our headers. */
	if (strspn(a->etag, "\"0123456789abcdef-") != strlen(a->etag))
		return err_set(e, ERR_CORRUPT, "a forwarded answer has an impossible entity tag");
	return close_head(&r, items, count, e);
}
