/* Are two schema documents the same JSON value? The answer decides whether an entry is refused, so it is frozen: key
 * order and white space do not count, of a repeated key the last one does, arrays are ordered, strings are compared
 * with their escapes undone, numbers by their exact decimal value (10 = 1e1, -0 = 0). Equal bytes are always equal;
 * where a side is not one JSON value of at most 64 levels, or a number's exponent does not fit 32 bits, only bytes
 * count.
 *
 * Each side is rewritten in a canonical form, and those are compared:
 *   t f z   literals      s<len>:<bytes>   string      n<digits>e<exponent>   number, digits without outer zeros
 *   [..]    elements      {..}             strings and values by turns, keys ascending
 */
#include <stdlib.h>
#include <string.h>

#include "fsm/fsm_internal.h"
#include "model/json.h"

struct canon {
	struct json_reader r;
	struct arena *a;
};

static bool write_value(struct canon *c, enum json_event first, struct buf *out);

/* Decimal digits of an exponent, at most int32's worth. */
static bool read_exponent(struct str s, int64_t *out)
{
	bool negative = false;
	int64_t v = 0;
	if (s.len && (s.p[0] == '-' || s.p[0] == '+')) {
		negative = s.p[0] == '-';
		s = (struct str){ s.p + 1, s.len - 1 };
	}
	for (size_t i = 0; i < s.len; i++) {
		v = v * 10 + (s.p[i] - '0');
		if (v > (int64_t)INT32_MAX + negative)
			return false;
	}
	*out = negative ? -v : v;
	return true;
}

/* The token is a number of JSON's grammar. */
static bool write_number(struct canon *c, struct str token, struct buf *out)
{
	const bool negative = token.p[0] == '-';
	char *digits = arena_alloc(c->a, token.len + 1);
	size_t n = 0, i = negative;
	int64_t exponent = 0;
	bool fraction = false;
	for (; i < token.len && token.p[i] != 'e' && token.p[i] != 'E'; i++) {
		if (token.p[i] == '.') {
			fraction = true;
			continue;
		}
		exponent -= fraction;
		if (n > 0 || token.p[i] != '0')
			digits[n++] = token.p[i];
	}
	int64_t written = 0;
	if (i < token.len && !read_exponent((struct str){ token.p + i + 1, token.len - i - 1 }, &written))
		return false;
	exponent += written;
	while (n > 0 && digits[n - 1] == '0') {
		n--;
		exponent++;
	}
	buf_putc(out, 'n');
	if (n == 0) {
		buf_putc(out, '0');
		return true;
	}
	if (negative)
		buf_putc(out, '-');
	buf_put(out, digits, n);
	buf_putc(out, 'e');
	buf_put_i64(out, exponent);
	return true;
}

static void write_string(struct str s, struct buf *out)
{
	buf_putc(out, 's');
	buf_put_u64(out, s.len);
	buf_putc(out, ':');
	buf_put(out, s.p, s.len);
}

struct member_value {
	struct str key;
	struct str value; /* canonical */
	size_t order;
};

static int by_key_then_order(const void *x, const void *y)
{
	const struct member_value *a = x, *b = y;
	const int c = str_cmp(a->key, b->key);
	return c ? c : (a->order > b->order) - (a->order < b->order);
}

static bool read_members(struct canon *c, struct buf *members)
{
	enum json_event ev;
	while ((ev = json_next(&c->r)) == JSON_KEY) {
		struct member_value m = { .key = json_token_str(&c->r, c->a), .order = members->len };
		struct buf value = { 0 };
		const bool ok = write_value(c, json_next(&c->r), &value);
		if (ok)
			m.value = (struct str){ arena_dup(c->a, value.data, value.len), value.len };
		buf_fini(&value);
		if (!ok)
			return false;
		buf_put(members, &m, sizeof(m));
	}
	return ev == JSON_OBJECT_END;
}

static bool write_object(struct canon *c, struct buf *out)
{
	struct buf members = { 0 };
	const bool ok = read_members(c, &members);
	struct member_value *m = (struct member_value *)(void *)members.data;
	const size_t n = members.len / sizeof(*m);
	if (ok && n > 1)
		qsort(m, n, sizeof(*m), by_key_then_order);
	buf_putc(out, '{');
	for (size_t i = 0; ok && i < n; i++) {
		if (i + 1 < n && str_eq(m[i].key, m[i + 1].key))
			continue; /* the last one counts */
		write_string(m[i].key, out);
		buf_put(out, m[i].value.p, m[i].value.len);
	}
	buf_putc(out, '}');
	buf_fini(&members);
	return ok;
}

static bool write_array(struct canon *c, struct buf *out)
{
	enum json_event ev;
	buf_putc(out, '[');
	while ((ev = json_next(&c->r)) != JSON_ARRAY_END)
		if (!write_value(c, ev, out))
			return false;
	buf_putc(out, ']');
	return true;
}

/* Recursion ends with the reader's limit on depth. */
static bool write_value(struct canon *c, enum json_event first, struct buf *out)
{
	switch (first) {
	case JSON_OBJECT: return write_object(c, out);
	case JSON_ARRAY: return write_array(c, out);
	case JSON_STRING: write_string(json_token_str(&c->r, c->a), out); return true;
	case JSON_NUMBER: return write_number(c, c->r.token, out);
	case JSON_TRUE: buf_putc(out, 't'); return true;
	case JSON_FALSE: buf_putc(out, 'f'); return true;
	case JSON_NULL: buf_putc(out, 'z'); return true;
	default: return false;
	}
}

static bool canonical(struct str doc, struct arena *a, struct buf *out)
{
	struct canon c = { .a = a };
	json_reader_init(&c.r, doc, JSON_DEPTH_DEFAULT);
	return write_value(&c, json_next(&c.r), out) && json_next(&c.r) == JSON_END;
}

bool json_value_equal(struct str x, struct str y, struct arena *a)
{
	if (str_eq(x, y))
		return true;
	struct buf left = { 0 }, right = { 0 };
	const bool equal = canonical(x, a, &left) && canonical(y, a, &right) && left.len == right.len &&
	                   memcmp(left.data, right.data, left.len) == 0;
	buf_fini(&left);
	buf_fini(&right);
	return equal;
}
