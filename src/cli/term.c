#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define WIDTH_DEFAULT 100
#define SECRET_MAX 1024

static int descriptor(lua_State *L, int arg)
{
	static const char *const names[] = { "stdin", "stdout", "stderr", NULL };
	return luaL_checkoption(L, arg, "stdout", names);
}

/* is_terminal("stdin" | "stdout" | "stderr") */
static int term_is_terminal(lua_State *L)
{
	lua_pushboolean(L, isatty(descriptor(L, 1)));
	return 1;
}

/* width() -> columns of the terminal behind stdout, or nil when there is none. */
static int term_width(lua_State *L)
{
	struct winsize ws;
	if (!isatty(STDOUT_FILENO))
		return 0;
	const char *columns = getenv("COLUMNS");
	long width = columns ? strtol(columns, NULL, 10) : 0;
	if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0)
		width = ws.ws_col;
	lua_pushinteger(L, width > 0 ? width : WIDTH_DEFAULT);
	return 1;
}

/* height() -> lines of the terminal behind stdout, or nil when there is none. */
static int term_height(lua_State *L)
{
	struct winsize ws;
	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) != 0 || ws.ws_row == 0)
		return 0;
	lua_pushinteger(L, ws.ws_row);
	return 1;
}

/* secret(prompt) -> one line from the terminal without echo, or nil and why not. */
static int term_secret(lua_State *L)
{
	const char *prompt = luaL_checkstring(L, 1);
	struct termios before;
	if (tcgetattr(STDIN_FILENO, &before) != 0) {
		lua_pushnil(L);
		lua_pushliteral(L, "standard input is no terminal");
		return 2;
	}
	fputs(prompt, stderr);
	fflush(stderr);
	struct termios quiet = before;
	quiet.c_lflag &= (tcflag_t)~ECHO;
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
	char line[SECRET_MAX];
	const char *got = fgets(line, sizeof(line), stdin);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	fputc('\n', stderr);
	if (!got)
		return 0;
	line[strcspn(line, "\r\n")] = '\0';
	lua_pushstring(L, line);
	explicit_bzero(line, sizeof(line));
	return 1;
}

/* sleep(seconds); Ctrl-C ends it, and the command with it. */
static int term_sleep(lua_State *L)
{
	const lua_Number seconds = luaL_checknumber(L, 1);
	luaL_argcheck(L, seconds >= 0 && seconds <= 3600, 1, "must be 0 to 3600 seconds");
	struct timespec left = { .tv_sec = (time_t)seconds,
		                 .tv_nsec = (long)((seconds - (lua_Number)(time_t)seconds) * 1e9) };
	while (nanosleep(&left, &left) != 0 && errno == EINTR && !cli_is_interrupted())
		;
	return cli_raise_if_interrupted(L);
}

/* now(): Unix seconds, with a fraction. */
static int term_now(lua_State *L)
{
	lua_pushnumber(L, (lua_Number)clock_wall_ms() / 1000);
	return 1;
}

int cli_open_term(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "is_terminal", term_is_terminal },
		{ "width", term_width },
		{ "height", term_height },
		{ "secret", term_secret },
		{ "sleep", term_sleep },
		{ "now", term_now },
		{ NULL, NULL },
	};
	luaL_newlib(L, functions);
	return 1;
}
