/* Each side is read into two flat arrays whose sizes a first reading counts: nodes in the order of the text, and the
 * members of objects, an object's own together and sorted by key. Then both are walked side by side. Nothing recurses,
 * and no value is copied but strings with escapes.
 *
 * While a side is read, members of objects that are still open stand at the low end of the member array, those of
 * complete ones at its high end; together they are never more than were counted. */
#include "model/json_equal.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"

struct node {
	uint8_t kind;   /* enum json_event of its first event */
	bool escaped;   /* of a string: its token holds escapes */
	uint32_t end;   /* index behind its last descendant */
	uint32_t first; /* strings and numbers: offset of the token; objects: first member */
	uint32_t count; /* strings and numbers: bytes of the token; objects: members */
};

struct member {
	struct str key;
	uint32_t value; /* node; later in the text = larger */
};

struct side {
	struct str text;
	struct node *nodes;
	struct member *members;
};

/* ---- numbers ---- */

/* digits x 10^exponent; the digits have no zeros at either end. */
struct decimal {
	bool negative;
	const char *p;    /* first digit; a decimal point may stand between the digits */
	size_t count;     /* digits; 0 = the number is zero */
	int64_t exponent; /* of the last digit */
};

static bool read_exponent(const char *p, const char *end, int64_t *out)
{
	const bool negative = *p == '-';
	if (*p == '-' || *p == '+')
		p++;
	int64_t v = 0;
	for (; p < end; p++) {
		v = v * 10 + (*p - '0');
		if (v > (int64_t)INT32_MAX + negative)
			return false;
	}
	*out = negative ? -v : v;
	return true;
}

static bool read_decimal(struct str token, struct decimal *d)
{
	const char *p = token.p;
	const char *end = p + token.len;
	*d = (struct decimal){ .negative = *p == '-' };
	int64_t fraction = 0; /* digits behind the point */
	size_t zeros = 0;     /* at the end of the digits so far */
	bool behind_point = false;
	for (p += d->negative; p < end && *p != 'e' && *p != 'E'; p++) {
		if (*p == '.') {
			behind_point = true;
			continue;
		}
		fraction += behind_point;
		if (d->count == 0 && *p == '0')
			continue;
		if (d->count == 0)
			d->p = p;
		d->count++;
		zeros = *p == '0' ? zeros + 1 : 0;
	}
	int64_t written = 0;
	if (p < end && !read_exponent(p + 1, end, &written))
		return false;
	d->count -= zeros;
	d->exponent = written - fraction + (int64_t)zeros;
	if (d->count == 0)
		*d = (struct decimal){ 0 };
	return true;
}

static int sign_of(const struct decimal *d)
{
	return d->count == 0 ? 0 : d->negative ? -1 : 1;
}

static int compare_magnitudes(const struct decimal *x, const struct decimal *y)
{
	/* Neither begins with a zero, so the place of the first digit decides. */
	const int64_t x_place = x->exponent + (int64_t)x->count;
	const int64_t y_place = y->exponent + (int64_t)y->count;
	if (x_place != y_place)
		return x_place < y_place ? -1 : 1;
	const char *p = x->p;
	const char *q = y->p;
	for (size_t n = x->count < y->count ? x->count : y->count; n; n--, p++, q++) {
		p += *p == '.';
		q += *q == '.';
		if (*p != *q)
			return *p < *q ? -1 : 1;
	}
	/* Neither ends with a zero, so digits that are left over are worth something. */
	return (x->count > y->count) - (x->count < y->count);
}

bool json_number_order(struct str x, struct str y, int *order)
{
	struct decimal a;
	struct decimal b;
	if (!read_decimal(x, &a) || !read_decimal(y, &b))
		return false;
	if (sign_of(&a) != sign_of(&b))
		*order = sign_of(&a) - sign_of(&b);
	else
		*order = sign_of(&a) * compare_magnitudes(&a, &b);
	return true;
}

static bool numbers_equal(struct str x, struct str y)
{
	int order;
	return str_eq(x, y) || (json_number_order(x, y, &order) && order == 0);
}

/* ---- reading a side ---- */

/* False: not one JSON value. */
static bool count_parts(struct str text, size_t *nodes, size_t *members)
{
	struct json_reader r;
	json_reader_init(&r, text, JSON_DEPTH_DEFAULT);
	*nodes = 0;
	*members = 0;
	for (;;) {
		switch (json_next(&r)) {
		case JSON_ERROR: return false;
		case JSON_END: return true;
		case JSON_KEY: ++*members; break;
		case JSON_OBJECT_END:
		case JSON_ARRAY_END: break;
		default: ++*nodes; break;
		}
	}
}

static int compare_members(const void *pa, const void *pb)
{
	const struct member *a = pa;
	const struct member *b = pb;
	const int c = str_cmp(a->key, b->key);
	return c ? c : (a->value > b->value) - (a->value < b->value);
}

/* Sorts n members and keeps the last one of each key. Returns how many are left. */
static size_t sort_members(struct member *m, size_t n)
{
	if (n < 2)
		return n;
	qsort(m, n, sizeof(*m), compare_members);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (i + 1 == n || !str_eq(m[i].key, m[i + 1].key))
			m[kept++] = m[i];
	}
	return kept;
}

static bool read_side(struct side *s, struct str text, struct arena *a)
{
	size_t node_count;
	size_t member_count;
	if (text.len > UINT32_MAX || !count_parts(text, &node_count, &member_count))
		return false;
	*s = (struct side){
		.text = text,
		.nodes = arena_alloc(a, node_count * sizeof(struct node)),
		.members = arena_alloc(a, member_count * sizeof(struct member)),
	};
	uint32_t open[JSON_DEPTH_DEFAULT]; /* node of each open container */
	size_t low[JSON_DEPTH_DEFAULT];    /* where its members begin at the low end */
	size_t pending = 0;                /* members at the low end */
	size_t high = member_count;        /* where the high end begins */
	uint32_t n = 0;
	struct json_reader r;
	json_reader_init(&r, text, JSON_DEPTH_DEFAULT);
	enum json_event ev;
	while ((ev = json_next(&r)) != JSON_END) {
		if (ev == JSON_KEY) {
			s->members[pending++] = (struct member){ json_token_str(&r, a), n };
		} else if (ev == JSON_OBJECT_END) {
			const size_t from = low[r.depth];
			const size_t kept = sort_members(s->members + from, pending - from);
			high -= kept;
			memmove(s->members + high, s->members + from, kept * sizeof(*s->members));
			pending = from;
			struct node *object = &s->nodes[open[r.depth]];
			object->first = (uint32_t)high;
			object->count = (uint32_t)kept;
			object->end = n;
		} else if (ev == JSON_ARRAY_END) {
			s->nodes[open[r.depth]].end = n;
		} else {
			struct node *v = &s->nodes[n];
			*v = (struct node){ .kind = (uint8_t)ev, .end = n + 1 };
			if (ev == JSON_OBJECT || ev == JSON_ARRAY) {
				open[r.depth - 1] = n;
				low[r.depth - 1] = pending;
			} else if (ev == JSON_STRING || ev == JSON_NUMBER) {
				v->escaped = r.escaped;
				v->first = (uint32_t)(r.token.p - text.p);
				v->count = (uint32_t)r.token.len;
			}
			n++;
		}
	}
	assert(n == node_count && pending == 0);
	return true;
}

/* ---- comparing ---- */

static struct str token_of(const struct side *s, const struct node *v)
{
	return (struct str){ s->text.p + v->first, v->count };
}

static struct str text_of(const struct side *s, const struct node *v, struct arena *a)
{
	const struct str token = token_of(s, v);
	if (!v->escaped)
		return token;
	char *bytes = arena_alloc(a, token.len);
	return (struct str){ bytes, json_unescape(bytes, token) };
}

/* What can be said of two values without looking into them. */
static bool alike(const struct side *x, const struct node *v, const struct side *y, const struct node *w,
                  struct arena *a)
{
	if (v->kind != w->kind)
		return false;
	switch (v->kind) {
	case JSON_STRING: return str_eq(text_of(x, v, a), text_of(y, w, a));
	case JSON_NUMBER: return numbers_equal(token_of(x, v), token_of(y, w));
	case JSON_OBJECT: return v->count == w->count;
	default: return true;
	}
}

/* Two containers that are being compared: what of each is left. */
struct frame {
	bool object;
	uint32_t x, x_end; /* members of an object, nodes of an array */
	uint32_t y, y_end;
};

static struct frame frame_of(const struct side *x, uint32_t xi, const struct side *y, uint32_t yi)
{
	const struct node *v = &x->nodes[xi];
	const struct node *w = &y->nodes[yi];
	if (v->kind == JSON_OBJECT)
		return (struct frame){ true, v->first, v->first + v->count, w->first, w->first + w->count };
	return (struct frame){ false, xi + 1, v->end, yi + 1, w->end };
}

/* Gives the next pair of values below the frame and steps over it. False: two keys differ. */
static bool next_pair(struct frame *f, const struct side *x, const struct side *y, uint32_t *xi, uint32_t *yi)
{
	if (f->object) {
		const struct member *a = &x->members[f->x++];
		const struct member *b = &y->members[f->y++];
		*xi = a->value;
		*yi = b->value;
		return str_eq(a->key, b->key);
	}
	*xi = f->x;
	*yi = f->y;
	f->x = x->nodes[f->x].end;
	f->y = y->nodes[f->y].end;
	return true;
}

static bool sides_equal(const struct side *x, const struct side *y, struct arena *a)
{
	struct frame stack[JSON_DEPTH_DEFAULT];
	size_t depth = 0;
	uint32_t xi = 0;
	uint32_t yi = 0;
	for (;;) {
		if (!alike(x, &x->nodes[xi], y, &y->nodes[yi], a))
			return false;
		const uint8_t kind = x->nodes[xi].kind;
		if (kind == JSON_OBJECT || kind == JSON_ARRAY)
			stack[depth++] = frame_of(x, xi, y, yi);
		while (depth && stack[depth - 1].x == stack[depth - 1].x_end &&
		       stack[depth - 1].y == stack[depth - 1].y_end)
			depth--;
		if (depth == 0)
			return true;
		struct frame *f = &stack[depth - 1];
		if (f->x == f->x_end || f->y == f->y_end || !next_pair(f, x, y, &xi, &yi))
			return false;
	}
}

bool json_equal(struct str x, struct str y, struct arena *scratch)
{
	if (str_eq(x, y))
		return true;
	struct side a;
	struct side b;
	return read_side(&a, x, scratch) && read_side(&b, y, scratch) && sides_equal(&a, &b, scratch);
}
