/* veena.edit: lines typed at a terminal, by libedit; and Ctrl-C, which stops a call and not the session.
 *
 *   edit.open(history_file)           before the first read
 *   edit.read(prompt, complete)       -> line | nil, "interrupted" | nil, "end"
 *       complete(text before the cursor) -> text to insert, list of candidates
 *   edit.remember(text)               one entry of the history, lines and all
 *   edit.call(f, ...)                 pcall(f, ...) that Ctrl-C ends with an error {interrupted = true}
 *
 * Between calls Ctrl-C drops the line at hand. The signal only sets a flag: a hook looks at it while Lua runs,
 * libcurl's progress and the sleeps look while they wait. */
#include <errno.h>
#include <histedit.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

#define HISTORY_ENTRIES 1000
#define HOOK_INSTRUCTIONS 1000
#define PROMPT_MAX 64
#define PATH_MAX_LEN 4096

/* One session for the process. */
static struct {
	EditLine *el;
	History *history;
	lua_State *L; /* while reading: complete stands at stack index `complete` */
	int complete;
	char prompt[PROMPT_MAX];
	char path[PATH_MAX_LEN];
} edit;

static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t is_calling;

bool cli_is_interrupted(void)
{
	return is_calling && interrupted;
}

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* Without SA_RESTART: a read, a poll or a sleep ends. */
static void catch_interrupt(void)
{
	struct sigaction act = { .sa_handler = on_interrupt };

	sigemptyset(&act.sa_mask);
	(void)sigaction(SIGINT, &act, NULL); /* fails only on a wrong number */
}

/* ---- completion ---- */

static char *prompt_of(EditLine *el)
{
	(void)el;
	return edit.prompt;
}

static void show_candidates(lua_State *L, int list)
{
	const lua_Integer n = (lua_Integer)lua_rawlen(L, list);

	fputc('\n', stdout);
	for (lua_Integer i = 1; i <= n; i++) {
		if (lua_rawgeti(L, list, i) == LUA_TSTRING)
			printf("%s%s", i > 1 ? "  " : "", lua_tostring(L, -1));
		lua_pop(L, 1);
	}
	fputc('\n', stdout);
	fflush(stdout);
}

static unsigned char on_tab(EditLine *el, int ch)
{
	const LineInfo *li = el_line(el);
	lua_State *L = edit.L;
	unsigned char result = CC_ERROR;

	(void)ch;
	lua_pushvalue(L, edit.complete);
	lua_pushlstring(L, li->buffer, (size_t)(li->cursor - li->buffer));
	/* It asks the cluster, and may wait. A Ctrl-C meanwhile drops the line, as one at the prompt does. */
	is_calling = 1;
	const int status = lua_pcall(L, 1, 2, 0);

	is_calling = 0;
	if (status != LUA_OK || interrupted) {
		lua_pop(L, status == LUA_OK ? 2 : 1);
		return interrupted ? CC_EOF : CC_ERROR;
	}
	const char *insert = lua_tostring(L, -2);

	if (insert && *insert) {
		result = el_insertstr(el, insert) == 0 ? CC_REFRESH : CC_ERROR;
	} else if (lua_istable(L, -1) && lua_rawlen(L, -1) > 1) {
		show_candidates(L, lua_gettop(L));
		result = CC_REDISPLAY;
	}
	lua_pop(L, 2);
	return result;
}

/* ---- the session ---- */

static int edit_gc(lua_State *L)
{
	(void)L;
	if (edit.history) {
		HistEvent ev;

		/* A history that cannot be kept is no reason to complain at the end of a session. */
		if (edit.path[0])
			(void)history(edit.history, &ev, H_SAVE, edit.path);
		history_end(edit.history);
	}
	if (edit.el)
		el_end(edit.el);
	edit.history = NULL;
	edit.el = NULL;
	return 0;
}

static int edit_open(lua_State *L)
{
	const char *path = luaL_optstring(L, 1, "");
	HistEvent ev;

	if (edit.el)
		return 0;
	edit.el = el_init("veena", stdin, stdout, stderr);
	edit.history = history_init();
	if (!edit.el || !edit.history)
		return luaL_error(L, "the line editor does not start");
	snprintf(edit.path, sizeof(edit.path), "%s", path);
	(void)history(edit.history, &ev, H_SETSIZE, HISTORY_ENTRIES);
	(void)history(edit.history, &ev, H_SETUNIQUE, 1);
	if (edit.path[0])
		(void)history(edit.history, &ev, H_LOAD, edit.path); /* the first session has none */
	el_set(edit.el, EL_PROMPT, prompt_of);
	el_set(edit.el, EL_EDITOR, "emacs");
	el_set(edit.el, EL_HIST, history, edit.history);
	el_set(edit.el, EL_ADDFN, "veena-complete", "completes a name", on_tab);
	el_set(edit.el, EL_BIND, "^I", "veena-complete", NULL);
	el_set(edit.el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	el_set(edit.el, EL_SIGNAL, 0);
	catch_interrupt();
	lua_newuserdatauv(L, 0, 0); /* its end is the session's */
	lua_createtable(L, 0, 1);
	lua_pushcfunction(L, edit_gc);
	lua_setfield(L, -2, "__gc");
	lua_setmetatable(L, -2);
	lua_setfield(L, LUA_REGISTRYINDEX, "veena.edit.session");
	return 0;
}

static int edit_read(lua_State *L)
{
	int count = 0;

	snprintf(edit.prompt, sizeof(edit.prompt), "%s", luaL_checkstring(L, 1));
	luaL_checktype(L, 2, LUA_TFUNCTION);
	if (!edit.el)
		return luaL_error(L, "edit.open comes first");
	edit.L = L;
	edit.complete = 2;
	interrupted = 0;
	errno = 0;
	const char *line = el_gets(edit.el, &count);

	if (line && count > 0 && !interrupted) {
		lua_pushlstring(L, line, strcspn(line, "\n"));
		return 1;
	}
	lua_pushnil(L);
	if (interrupted) {
		fputc('\n', stdout);
		el_reset(edit.el);
		lua_pushliteral(L, "interrupted");
	} else {
		lua_pushliteral(L, "end");
	}
	interrupted = 0;
	return 2;
}

static int edit_remember(lua_State *L)
{
	HistEvent ev;

	if (edit.history)
		(void)history(edit.history, &ev, H_ENTER, luaL_checkstring(L, 1));
	return 0;
}

/* ---- calls that Ctrl-C ends ---- */

static int raise_interrupted(lua_State *L)
{
	lua_createtable(L, 0, 1);
	lua_pushboolean(L, 1);
	lua_setfield(L, -2, "interrupted");
	return lua_error(L);
}

int cli_raise_if_interrupted(lua_State *L)
{
	return cli_is_interrupted() ? raise_interrupted(L) : 0;
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
	(void)ar;
	(void)cli_raise_if_interrupted(L);
}

static int edit_call(lua_State *L)
{
	const int before = is_calling;

	luaL_checkany(L, 1);
	interrupted = 0;
	is_calling = 1;
	lua_sethook(L, on_hook, LUA_MASKCOUNT, HOOK_INSTRUCTIONS);
	const int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);

	is_calling = before;
	interrupted = 0;
	if (!is_calling)
		lua_sethook(L, NULL, 0, 0);
	lua_pushboolean(L, status == LUA_OK);
	lua_insert(L, 1);
	return lua_gettop(L);
}

int cli_open_edit(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "open", edit_open }, { "read", edit_read }, { "remember", edit_remember },
		{ "call", edit_call }, { NULL, NULL },
	};

	luaL_newlib(L, functions);
	return 1;
}
