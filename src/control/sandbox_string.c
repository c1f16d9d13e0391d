/* string for scripts: no patterns, plain find and our glob, each charged for the bytes it touches. */
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

#include "control/sandbox_internal.h"

static LUA_JUMPS int lib_string_rep(lua_State *L)
{
	const struct str s = sandbox_check_string(L, 1);
	const lua_Integer n = luaL_checkinteger(L, 2);
	const struct str sep = lua_isnoneornil(L, 3) ? STR_LIT("") : sandbox_check_string(L, 3);
	if (n <= 0 || s.len + sep.len == 0) {
		lua_pushliteral(L, "");
		return 1;
	}
	if ((uint64_t)n > SANDBOX_STRING_MAX)
		return luaL_error(L, "result is too long, allowed are %d bytes", (int)SANDBOX_STRING_MAX);
	const size_t len = (size_t)n * s.len + (size_t)(n - 1) * sep.len;
	sandbox_check_result(L, len);
	luaL_Buffer b;
	luaL_buffinitsize(L, &b, len);
	for (lua_Integer i = 0; i < n; i++) {
		if (i)
			luaL_addlstring(&b, sep.p, sep.len);
		luaL_addlstring(&b, s.p, s.len);
	}
	luaL_pushresult(&b);
	return 1;
}

/* find(s, text [, init]): plain only. Returns first and last position. */
static LUA_JUMPS int lib_string_find(lua_State *L)
{
	const struct str s = sandbox_check_string(L, 1);
	const struct str text = sandbox_check_string(L, 2);
	lua_Integer init = luaL_optinteger(L, 3, 1);
	if (init < 0)
		init = init + (lua_Integer)s.len + 1 > 0 ? init + (lua_Integer)s.len + 1 : 1;
	else if (init == 0)
		init = 1;
	if (init > (lua_Integer)s.len + 1) {
		lua_pushnil(L);
		return 1;
	}
	const char *from = s.p + init - 1;
	const char *at = memmem(from, s.len - (size_t)(init - 1), text.p, text.len);
	if (!at) {
		lua_pushnil(L);
		return 1;
	}
	lua_pushinteger(L, at - s.p + 1);
	lua_pushinteger(L, at - s.p + (lua_Integer)text.len);
	return 2;
}

/* match(s, glob): does the whole of s fit? `*` is any run of bytes, `?` any one byte. Going back only to the latest
 * star is enough; the steps are charged as they are taken, since there may be |s| x |glob| of them. */
static LUA_JUMPS int lib_string_match(lua_State *L)
{
	const struct str s = sandbox_check_string(L, 1);
	const struct str glob = sandbox_check_string(L, 2);
	size_t i = 0;
	size_t g = 0;
	size_t star = SIZE_MAX;
	size_t star_i = 0;
	uint64_t steps = 0;
	bool fits = true;
	while (i < s.len) {
		if (++steps % 4096 == 0)
			sandbox_charge(L, 4096);
		if (g < glob.len && glob.p[g] == '*') {
			star = g++;
			star_i = i;
		} else if (g < glob.len && (glob.p[g] == '?' || glob.p[g] == s.p[i])) {
			g++;
			i++;
		} else if (star != SIZE_MAX) {
			g = star + 1;
			i = ++star_i;
		} else {
			fits = false;
			break;
		}
	}
	while (fits && g < glob.len && glob.p[g] == '*')
		g++;
	lua_pushboolean(L, fits && g == glob.len);
	return 1;
}

/* One conversion of a format, without '%': flags, width and precision of at most two digits, as Lua allows. */
static size_t conversion_length(const char *p, const char *end)
{
	const char *q = p;
	while (q < end && strchr("-+ #0", *q))
		q++;
	for (int k = 0; k < 2 && q < end && *q >= '0' && *q <= '9'; k++)
		q++;
	if (q < end && *q == '.') {
		q++;
		for (int k = 0; k < 2 && q < end && *q >= '0' && *q <= '9'; k++)
			q++;
	}
	return q < end && strchr("diuoxXcsqaAeEfFgG", *q) ? (size_t)(q - p) + 1 : 0;
}

/* Values that Lua's format would show with an address become their text first; then Lua's own does the work. */
static LUA_JUMPS int lib_string_format(lua_State *L)
{
	const struct str f = sandbox_check_string(L, 1);
	const char *end = f.p + f.len;
	const int top = lua_gettop(L);
	int arg = 1;
	size_t len = 0;
	for (const char *p = f.p; p < end; p++) {
		if (*p != '%')
			continue;
		if (++p < end && *p == '%')
			continue;
		const size_t n = conversion_length(p, end);
		if (n == 0)
			return luaL_error(L, "invalid conversion in format: allowed are %%d %%i %%u %%o %%x %%X %%c "
			                     "%%s %%q %%a %%e %%f %%g");
		p += n - 1;
		if (++arg > top)
			return luaL_error(L, "bad argument #%d to 'format' (no value)", arg);
		if (*p == 's') {
			sandbox_push_text(L, arg);
			lua_replace(L, arg);
			len += lua_rawlen(L, arg);
		} else if (*p == 'q' && lua_type(L, arg) == LUA_TSTRING) {
			len += 4 * lua_rawlen(L, arg);
		}
		len += 128; /* the longest number of width 99 */
		if (len > 4u * SANDBOX_STRING_MAX)
			return luaL_error(L, "result is too long, allowed are %d bytes", (int)SANDBOX_STRING_MAX);
	}
	sandbox_charge_bytes(L, len);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, top, 1);
	sandbox_check_result(L, lua_rawlen(L, -1));
	return 1;
}

void sandbox_push_strings(lua_State *L)
{
	luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
	lua_newtable(L);
	static const char *const same[] = { "byte", "char", "len", "sub", NULL };
	static const luaL_Reg ours[] = {
		{ "find", lib_string_find },
		{ "match", lib_string_match },
		{ "rep", lib_string_rep },
		{ NULL, NULL },
	};
	sandbox_take_over(L, -2, same);
	sandbox_wrap(L, -2, "lower", sandbox_charged_call);
	sandbox_wrap(L, -2, "upper", sandbox_charged_call);
	sandbox_wrap(L, -2, "format", lib_string_format);
	luaL_setfuncs(L, ours, 0);
	lua_remove(L, -2);

	/* Methods of string values reach the same functions and no others; Lua's arithmetic on texts goes with them. */
	lua_pushliteral(L, "");
	lua_newtable(L);
	lua_pushvalue(L, -3);
	lua_setfield(L, -2, "__index");
	lua_setmetatable(L, -2);
	lua_pop(L, 1);
}
