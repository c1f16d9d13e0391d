/* Any two texts, split at the first NUL: equality of JSON documents as values. It is symmetric and reflexive, agrees
 * with a canonical form made here by plain recursion, and a text equals what the canonical form says when written anew.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/json.h"
#include "model/json_equal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct str text_of(const struct buf *b)
{
	return (struct str){ (const char *)b->data, b->len };
}

/* digits x 10^exponent, written so that the exponent fits an int32: with zeros behind, or with a decimal point. */
static void put_decimal(struct buf *out, struct str digits, long long exponent)
{
	const size_t zeros = exponent > INT32_MAX ? (size_t)(exponent - INT32_MAX) : 0;
	const size_t places = exponent < INT32_MIN ? (size_t)(INT32_MIN - exponent) : 0;
	if (places) {
		const size_t before = digits.len > places ? digits.len - places : 0;
		buf_put(out, digits.p, before);
		buf_puts(out, before ? "." : "0.");
		for (size_t i = digits.len; i < places; i++)
			buf_putc(out, '0');
		buf_put(out, digits.p + before, digits.len - before);
	} else {
		buf_put(out, digits.p, digits.len);
	}
	for (size_t i = 0; i < zeros; i++)
		buf_putc(out, '0');
	if (exponent)
		buf_printf(out, "e%lld", exponent - (long long)zeros + (long long)places);
}

/* One spelling for each value. A number whose exponent does not fit an int32 keeps its own. */
static void put_number(struct buf *out, struct str token)
{
	struct buf digits = { 0 };
	size_t i = token.p[0] == '-';
	long long exponent = 0;
	bool fraction = false;
	for (; i < token.len && token.p[i] != 'e' && token.p[i] != 'E'; i++) {
		if (token.p[i] == '.') {
			fraction = true;
			continue;
		}
		exponent -= fraction;
		buf_putc(&digits, token.p[i]);
	}
	char written[24] = "0";
	size_t n = 0;
	const bool minus = i < token.len && token.p[i + 1] == '-';
	for (i += 1; i < token.len; i++) {
		const char c = token.p[i];
		if (c == '-' || c == '+' || (n == 0 && c == '0'))
			continue;
		if (n == 20)
			break;
		written[n++] = c;
		written[n] = '\0';
	}
	const long long value = (minus ? -1 : 1) * strtoll(written, NULL, 10);
	if (n > 10 || value > INT32_MAX || value < INT32_MIN) {
		buf_put(out, token.p, token.len);
		buf_fini(&digits);
		return;
	}
	exponent += value;
	size_t from = 0;
	size_t to = digits.len;
	while (from < to && digits.data[from] == '0')
		from++;
	while (to > from && digits.data[to - 1] == '0') {
		to--;
		exponent++;
	}
	if (from == to) {
		buf_putc(out, '0');
	} else {
		if (token.p[0] == '-')
			buf_putc(out, '-');
		put_decimal(out, (struct str){ (const char *)digits.data + from, to - from }, exponent);
	}
	buf_fini(&digits);
}

/* Between quotes, every byte that is not a plain ASCII letter or digit as an escape or as it is: one spelling a text.
 */
static void put_text(struct buf *out, struct str token)
{
	char *bytes = mem_alloc(token.len + 1);
	const size_t n = json_unescape(bytes, token);
	buf_putc(out, '"');
	for (size_t i = 0; i < n; i++) {
		const uint8_t c = (uint8_t)bytes[i];
		if (c < 0x20 || c == '"' || c == '\\')
			buf_printf(out, "\\u%04x", c);
		else
			buf_putc(out, (char)c);
	}
	buf_putc(out, '"');
	mem_free(bytes);
}

static bool put_value(struct json_reader *r, enum json_event ev, struct buf *out);

static struct buf *find_key(struct buf *keys, size_t n, const struct buf *key)
{
	for (size_t i = 0; i < n; i++) {
		if (str_eq(text_of(&keys[i]), text_of(key)))
			return &keys[i];
	}
	return NULL;
}

#define KEYS_MAX 64

/* Members in the order of their keys, found by looking for the smallest again and again. */
static bool put_object(struct json_reader *r, struct buf *out)
{
	struct buf keys[KEYS_MAX] = { { 0 } };
	struct buf values[KEYS_MAX] = { { 0 } };
	size_t n = 0;
	enum json_event ev;
	bool ok = true;
	while (ok && (ev = json_next(r)) != JSON_OBJECT_END) {
		ok = ev == JSON_KEY && n < KEYS_MAX;
		if (!ok)
			break;
		struct buf key = { 0 };
		put_text(&key, r->token);
		struct buf *known = find_key(keys, n, &key);
		const size_t at = known ? (size_t)(known - keys) : n;
		buf_fini(&keys[at]);
		keys[at] = key;
		n += at == n;
		buf_clear(&values[at]);
		ok = put_value(r, json_next(r), &values[at]);
	}
	buf_putc(out, '{');
	for (size_t written = 0; ok && written < n; written++) {
		size_t least = KEYS_MAX;
		for (size_t i = 0; i < n; i++) {
			if (keys[i].len && (least == KEYS_MAX || str_cmp(text_of(&keys[i]), text_of(&keys[least])) < 0))
				least = i;
		}
		if (written)
			buf_putc(out, ',');
		buf_put(out, keys[least].data, keys[least].len);
		buf_putc(out, ':');
		buf_put(out, values[least].data, values[least].len);
		keys[least].len = 0;
	}
	buf_putc(out, '}');
	for (size_t i = 0; i < KEYS_MAX; i++) {
		buf_fini(&keys[i]);
		buf_fini(&values[i]);
	}
	return ok;
}

static bool put_array(struct json_reader *r, struct buf *out)
{
	buf_putc(out, '[');
	bool first = true;
	enum json_event ev;
	while ((ev = json_next(r)) != JSON_ARRAY_END) {
		if (!first)
			buf_putc(out, ',');
		first = false;
		if (!put_value(r, ev, out))
			return false;
	}
	buf_putc(out, ']');
	return true;
}

static bool put_value(struct json_reader *r, enum json_event ev, struct buf *out)
{
	switch (ev) {
	case JSON_OBJECT: return put_object(r, out);
	case JSON_ARRAY: return put_array(r, out);
	case JSON_STRING: put_text(out, r->token); return true;
	case JSON_NUMBER: put_number(out, r->token); return true;
	case JSON_TRUE: buf_puts(out, "true"); return true;
	case JSON_FALSE: buf_puts(out, "false"); return true;
	case JSON_NULL: buf_puts(out, "null"); return true;
	default: return false;
	}
}

static bool is_json(struct str text)
{
	struct json_reader r;
	json_reader_init(&r, text, JSON_DEPTH_DEFAULT);
	enum json_event ev;
	while ((ev = json_next(&r)) != JSON_END) {
		if (ev == JSON_ERROR)
			return false;
	}
	return true;
}

/* False when the text is JSON with more keys in one object than this one is patient with. */
static bool canonical(struct str text, struct buf *out)
{
	struct json_reader r;
	json_reader_init(&r, text, JSON_DEPTH_DEFAULT);
	return put_value(&r, json_next(&r), out);
}

static void try_one(struct str x, struct arena *a)
{
	assert(json_equal(x, x, a));
	struct buf again = { 0 };
	if (is_json(x) && canonical(x, &again))
		assert(json_equal(x, text_of(&again), a));
	buf_fini(&again);
}

static void try_two(struct str x, struct str y, struct arena *a)
{
	const bool equal = json_equal(x, y, a);
	assert(json_equal(y, x, a) == equal);
	if (!is_json(x) || !is_json(y)) {
		assert(equal == str_eq(x, y));
		return;
	}
	struct buf left = { 0 };
	struct buf right = { 0 };
	if (canonical(x, &left) && canonical(y, &right))
		assert(equal == str_eq(text_of(&left), text_of(&right)));
	buf_fini(&left);
	buf_fini(&right);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *split = size ? memchr(data, 0, size) : NULL;
	const struct str x = { (const char *)data, split ? (size_t)(split - data) : size };
	const struct str y = split ? (struct str){ (const char *)split + 1, size - x.len - 1 } : STR_LIT("");
	struct arena a = { 0 };
	try_one(x, &a);
	try_one(y, &a);
	try_two(x, y, &a);
	assert(a.used <= 60 * (size + 64));
	arena_fini(&a);
	return 0;
}
