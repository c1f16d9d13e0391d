/* The `veena` command: makes a Lua state, lets `require "veena.x"` find the embedded lua/x.lua, runs lua/main.lua with
 * the arguments, and exits with what it returns. */
#include <lauxlib.h>
#include <lualib.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/embed.h"
#include "cli/cli.h"
#include "service/codes.h"

#define EXIT_FAILED 1

static const struct embedded_file *find_embedded(const char *name)
{
	for (size_t i = 0; i < embedded_file_count; i++) {
		if (strcmp(embedded_files[i].name, name) == 0)
			return &embedded_files[i];
	}
	return NULL;
}

static int load_embedded(lua_State *L, const struct embedded_file *f)
{
	lua_pushfstring(L, "@%s", f->name);
	const int status = luaL_loadbufferx(L, f->data, f->len, lua_tostring(L, -1), "t");
	lua_remove(L, -2);
	return status;
}

/* package.searchers: veena.a.b is the embedded lua/a/b.lua. */
static int search_embedded(lua_State *L)
{
	const char *name = luaL_checkstring(L, 1);
	if (strncmp(name, "veena.", 6) != 0) {
		lua_pushnil(L);
		return 1;
	}
	luaL_gsub(L, name + 6, ".", "/");
	lua_pushfstring(L, "lua/%s.lua", lua_tostring(L, -1));
	const struct embedded_file *f = find_embedded(lua_tostring(L, -1));
	if (!f) {
		lua_pushfstring(L, "no embedded file '%s'", lua_tostring(L, -1));
		return 1;
	}
	if (load_embedded(L, f) != LUA_OK)
		return lua_error(L);
	lua_pushstring(L, f->name);
	return 2;
}

static void add_searcher(lua_State *L)
{
	lua_getglobal(L, "package");
	lua_getfield(L, -1, "searchers");
	/* Second, behind package.preload: what the binary carries wins over files of the same name. */
	for (lua_Integer i = (lua_Integer)lua_rawlen(L, -1); i >= 2; i--) {
		lua_rawgeti(L, -1, i);
		lua_rawseti(L, -2, i + 1);
	}
	lua_pushcfunction(L, search_embedded);
	lua_rawseti(L, -2, 2);
	lua_pop(L, 2);
}

static void preload(lua_State *L, const char *name, lua_CFunction open)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
	lua_pushcfunction(L, open);
	lua_setfield(L, -2, name);
	lua_pop(L, 1);
}

/* require "veena.version" is a text. */
static int open_version(lua_State *L)
{
	lua_pushstring(L, embedded_version);
	return 1;
}

/* require "veena.codes" is the daemon's own table of error codes: a list of {status, code, meaning}. */
static int open_codes(lua_State *L)
{
	lua_createtable(L, (int)svc_code_count, 0);
	for (size_t i = 0; i < svc_code_count; i++) {
		lua_createtable(L, 0, 3);
		lua_pushinteger(L, svc_codes[i].status);
		lua_setfield(L, -2, "status");
		lua_pushstring(L, svc_codes[i].word);
		lua_setfield(L, -2, "code");
		lua_pushstring(L, svc_codes[i].meaning);
		lua_setfield(L, -2, "meaning");
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

struct arguments {
	int argc;
	char **argv;
};

static int run_main(lua_State *L)
{
	const struct arguments *a = lua_touserdata(L, 1);
	luaL_openlibs(L);
	add_searcher(L);
	preload(L, "veena.http", cli_open_http);
	preload(L, "veena.json", cli_open_json);
	preload(L, "veena.term", cli_open_term);
	preload(L, "veena.edit", cli_open_edit);
	preload(L, "veena.offline", cli_open_offline);
	preload(L, "veena.version", open_version);
	preload(L, "veena.codes", open_codes);

	const struct embedded_file *f = find_embedded("lua/main.lua");
	if (!f)
		return luaL_error(L, "this binary was built without its Lua");
	if (load_embedded(L, f) != LUA_OK)
		return lua_error(L);
	lua_createtable(L, a->argc, 0);
	for (int i = 1; i < a->argc; i++) {
		lua_pushstring(L, a->argv[i]);
		lua_rawseti(L, -2, i);
	}
	lua_call(L, 1, 1);
	return 1;
}

static int with_traceback(lua_State *L)
{
	luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
	return 1;
}

/* `veena topics | head` has what it wanted: that is no failure. */
static bool has_reader_left(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, 0) == 1 && out.revents & POLLERR;
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of the write, not a death */
	lua_State *L = luaL_newstate();
	if (!L) {
		fputs("veena: out of memory\n", stderr);
		return EXIT_FAILED;
	}
	struct arguments a = { argc, argv };
	lua_pushcfunction(L, with_traceback);
	lua_pushcfunction(L, run_main);
	lua_pushlightuserdata(L, &a);
	int code = EXIT_FAILED;
	if (lua_pcall(L, 1, 1, 1) == LUA_OK)
		code = (int)lua_tointeger(L, -1);
	else
		fprintf(stderr, "veena: this is a fault of the command itself, please report it: %s\n",
		        lua_tostring(L, -1));
	lua_close(L);
	/* ferror: print flushes each line, and the last flush knows nothing of a line that failed. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0 && !has_reader_left()) {
		fputs("veena: not all of the output could be written\n", stderr);
		code = EXIT_FAILED;
	}
	return code;
}
