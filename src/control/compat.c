#include "control/compat.h"

#include <lauxlib.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "control/lua_value.h"
#include "model/json.h"
#include "model/json_equal.h"
#include "model/utf8.h"

#define NUMBER_SHOWN 40 /* bytes of a number in a reason */

static void refuse(struct compat_answer *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void refuse(struct compat_answer *out, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(out->reason, sizeof(out->reason), fmt, args);
	va_end(args);
	out->compatible = false;
}

/* ---- numbers ----
 *
 * Lua holds a number as a 64-bit integer or as the nearest double. Two numbers of a document may become the same there,
 * or change their order when one is an integer and the other is rounded past it. Neither happens in documents that
 * people write; where it would, the documents are refused, so that no policy compares what it cannot tell apart. */

struct number {
	struct str token;
	bool is_integer;
	int64_t integer;
	double real;
};

struct numbers {
	struct buf items;  /* of struct number */
	bool some_rounded; /* one may have lost digits */
	struct arena *a;
};

static struct number read_number(struct numbers *n, struct str token)
{
	struct number x = { .token = token };
	x.is_integer = json_number_i64(token, &x.integer);
	if (x.is_integer)
		return x;
	x.real = strtod(arena_strndup(n->a, token.p, token.len), NULL);
	/* A double keeps any 15 digits apart, but not from integers beyond 2^53, nor where its range ends. */
	if (token.len > 16 || fabs(x.real) >= 0x1p53 || fabs(x.real) < 1e-300)
		n->some_rounded = true;
	return x;
}

/* Mathematically, as Lua compares them. */
static int compare_mixed(int64_t i, double d)
{
	if (d >= 0x1p63)
		return -1;
	if (d < -0x1p63)
		return 1;
	const int64_t whole = (int64_t)d; /* towards zero */
	if (i != whole)
		return i < whole ? -1 : 1;
	const double rest = d - (double)whole; /* exact: whole came from d */
	return rest > 0 ? -1 : rest < 0;
}

static int compare_as_lua(const struct number *x, const struct number *y)
{
	if (x->is_integer && y->is_integer)
		return (x->integer > y->integer) - (x->integer < y->integer);
	if (x->is_integer)
		return compare_mixed(x->integer, y->real);
	if (y->is_integer)
		return -compare_mixed(y->integer, x->real);
	return (x->real > y->real) - (x->real < y->real);
}

static int by_value(const void *px, const void *py)
{
	const struct number *x = px;
	const struct number *y = py;
	int order = 0;
	(void)json_number_order(x->token, y->token, &order); /* exponents were looked at before */
	return order;
}

/* False with the reason when Lua would confuse two of the numbers. */
static bool numbers_stay_apart(struct numbers *n, struct compat_answer *out)
{
	struct number *x = (struct number *)(void *)n->items.data;
	const size_t count = n->items.len / sizeof(*x);
	if (!n->some_rounded)
		return true;
	qsort(x, count, sizeof(*x), by_value);
	for (size_t i = 1; i < count; i++) {
		const bool same = by_value(&x[i - 1], &x[i]) == 0;
		const int order = compare_as_lua(&x[i - 1], &x[i]);
		if (same ? order != 0 : order >= 0) {
			refuse(out, "the numbers %.*s and %.*s are too close to be told apart",
			       (int)(x[i - 1].token.len < NUMBER_SHOWN ? x[i - 1].token.len : NUMBER_SHOWN),
			       x[i - 1].token.p, (int)(x[i].token.len < NUMBER_SHOWN ? x[i].token.len : NUMBER_SHOWN),
			       x[i].token.p);
			return false;
		}
	}
	return true;
}

/* ---- documents ---- */

/* An exponent as it is written. */
static bool exponent_fits(struct str token, long most)
{
	const char *e = memchr(token.p, 'e', token.len);
	if (!e)
		e = memchr(token.p, 'E', token.len);
	if (!e)
		return true;
	long v = 0;
	for (const char *p = e + 1; p < token.p + token.len; p++) {
		if (*p >= '0' && *p <= '9')
			v = v * 10 + (*p - '0');
		if (v > most)
			return false;
	}
	return true;
}

/* False with the reason: a document that cannot be handed over. `what` names it. */
static bool gather_numbers(struct numbers *n, const char *what, struct str text, struct compat_answer *out)
{
	struct json_reader r;
	json_reader_init(&r, text, COMPAT_DEPTH_MAX);
	for (;;) {
		switch (json_next(&r)) {
		case JSON_ERROR: refuse(out, "%s: not JSON at byte %zu: %s", what, r.error_pos, r.error); return false;
		case JSON_END: return true;
		case JSON_NUMBER: {
			if (!exponent_fits(r.token, COMPAT_EXPONENT_MAX)) {
				refuse(out, "%s: the number %.*s at byte %zu has an exponent beyond %d", what,
				       (int)(r.token.len < NUMBER_SHOWN ? r.token.len : NUMBER_SHOWN), r.token.p,
				       r.token_pos, COMPAT_EXPONENT_MAX);
				return false;
			}
			const struct number x = read_number(n, r.token);
			buf_put(&n->items, &x, sizeof(x));
			break;
		}
		default: break;
		}
	}
}

static bool check_new(struct str text, struct arena *a, struct compat_answer *out)
{
	size_t pos;
	struct err e;
	if (text.len > COMPAT_BYTES_MAX)
		refuse(out, "the document has %zu bytes, allowed are %u", text.len, COMPAT_BYTES_MAX);
	else if (json_check(text, COMPAT_DEPTH_MAX, a, &pos, &e) != 0)
		refuse(out, "the document is not sound at byte %zu: %.180s", pos, e.msg);
	else
		return true;
	return false;
}

static bool check_documents(const struct compat_question *q, struct arena *a, struct compat_answer *out)
{
	struct numbers n = { .a = a };
	const bool ok = check_new(q->new_json, a, out) && gather_numbers(&n, "the document", q->new_json, out) &&
	                (!q->old_json.p || gather_numbers(&n, "the current version", q->old_json, out)) &&
	                numbers_stay_apart(&n, out);
	buf_fini(&n.items);
	return ok;
}

/* ---- asking ---- */

struct compat_run {
	const struct compat_question *q;
	struct compat_answer *out;
};

static LUA_JUMPS int run_compatible(lua_State *L)
{
	const struct compat_run *run = lua_touserdata(L, 1);
	policy_push_function(L, "compatible");
	if (run->q->old_json.p)
		lua_push_json(L, run->q->old_json);
	else
		lua_pushnil(L);
	lua_push_json(L, run->q->new_json);
	lua_push_json(L, run->q->topic_json);
	lua_call(L, 3, 2);
	/* A forgotten `return` must not count as consent, nor as a refusal that a client takes for its document's
	 * fault. */
	if (!lua_isboolean(L, -2))
		return luaL_error(L, "compatible: returns a %s, true or false is expected", luaL_typename(L, -2));
	if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING)
		return luaL_error(L, "compatible: the reason is a %s, a text is expected", luaL_typename(L, -1));
	struct str reason = STR_LIT("");
	if (lua_type(L, -1) == LUA_TSTRING)
		reason.p = lua_tolstring(L, -1, &reason.len);
	run->out->compatible = lua_toboolean(L, -2);
	run->out->unchanged = run->out->compatible && str_is(reason, "unchanged");
	(void)utf8_copy_clean(run->out->reason, sizeof(run->out->reason), reason);
	return 0;
}

static void begin_try(void *arg, struct sandbox *sb)
{
	(void)sb;
	const struct compat_run *run = arg;
	*run->out = (struct compat_answer){ 0 };
}

static void end_try(void *arg, struct sandbox *sb)
{
	const struct compat_run *run = arg;
	run->out->instructions = sandbox_instructions(sb);
	run->out->bytes = sandbox_peak_bytes(sb);
}

int compat_ask(struct policy_set *ps, const struct sandbox_budget *budget, const struct compat_question *q,
               struct arena *scratch, struct compat_answer *out, struct sandbox_fault *fault)
{
	*out = (struct compat_answer){ 0 };
	*fault = (struct sandbox_fault){ 0 };
	if (!check_documents(q, scratch, out))
		return 0;
	struct compat_run run = { .q = q, .out = out };
	const struct policy_call call = {
		.kind = POLICY_SCHEMA,
		.budget = budget,
		.run = run_compatible,
		.before = begin_try,
		.after = end_try,
		.arg = &run,
	};
	const int rc = policy_run(ps, &call, fault);
	if (rc == 0 && !out->compatible && !out->reason[0])
		snprintf(out->reason, sizeof(out->reason), "the schema policy refuses it and gives no reason");
	return rc;
}
