/* What the offline verbs share, and their door to Lua. */
#include "cli/offline.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "cli/cli.h"

#define SHOWN_EVERY_MS 200

/* ---- progress ---- */

static volatile sig_atomic_t interrupted;
static struct sigaction before_int, before_term;
static const char *shown_what;
static bool is_shown, has_line;
static uint64_t next_ms;

static void on_signal(int number)
{
	(void)number;
	interrupted = 1;
}

void offline_begin(const char *what)
{
	struct sigaction sa = { .sa_handler = on_signal };
	interrupted = 0;
	sigaction(SIGINT, &sa, &before_int);
	sigaction(SIGTERM, &sa, &before_term);
	shown_what = what;
	is_shown = isatty(STDERR_FILENO);
	has_line = false;
	next_ms = 0;
}

void offline_end(void)
{
	sigaction(SIGINT, &before_int, NULL);
	sigaction(SIGTERM, &before_term, NULL);
	if (has_line)
		fputs("\r\033[K", stderr);
	has_line = false;
}

int offline_tick(uint64_t done, uint64_t all, struct err *e)
{
	if (interrupted)
		return err_set(e, ERR_CLOSED, "interrupted; nothing was written");
	if (!is_shown || clock_mono_ms() < next_ms)
		return 0;
	next_ms = clock_mono_ms() + SHOWN_EVERY_MS;
	has_line = true;
	fprintf(stderr, "\r%s: %3d %%", shown_what, all ? (int)(done * 100 / all) : 100);
	return 0;
}

/* ---- files ---- */

int offline_path(char out[OFFLINE_PATH_MAX], struct err *e, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	const int n = vsnprintf(out, OFFLINE_PATH_MAX, fmt, ap);
	va_end(ap);
	return n < OFFLINE_PATH_MAX ? 0 : err_set(e, ERR_INVALID, "the path %.80s... is too long", out);
}

/* Two levels are all that is ever made. What can not be removed is in the way of nothing but the next run of the same
 * command, which says so. */
void offline_remove_tree(const char *path)
{
	char inner[OFFLINE_PATH_MAX];
	DIR *dir = opendir(path);
	const struct dirent *entry;
	while (dir && (entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    offline_path(inner, NULL, "%s/%s", path, entry->d_name) != 0)
			continue;
		if (unlink(inner) == 0 || rmdir(inner) == 0)
			continue;
		DIR *deeper = opendir(inner);
		const struct dirent *file;
		while (deeper && (file = readdir(deeper)) != NULL)
			unlinkat(dirfd(deeper), file->d_name, 0);
		if (deeper)
			closedir(deeper);
		rmdir(inner);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

int offline_sync_dir_of(const char *path, struct err *e)
{
	char dir[OFFLINE_PATH_MAX];
	const char *slash = strrchr(path, '/');
	int rc = slash ? offline_path(dir, e, "%.*s/.", (int)(slash - path), path) : offline_path(dir, e, ".");
	if (rc)
		return rc;
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set_errno(e, ERR_IO, errno, "could not open %s", dir);
	rc = fsync(fd) == 0 ? 0 : err_set_errno(e, ERR_IO, errno, "could not sync %s", dir);
	close(fd);
	return rc;
}

/* ---- Lua ---- */

/* The words of the call live in Lua; what is made of them lives in an arena until the work is done. */
static struct str text_of(lua_State *L, int at, struct arena *a)
{
	size_t len;
	const char *p = lua_tolstring(L, at, &len);
	return (struct str){ arena_strndup(a, p ? p : "", len), len };
}

static struct str_list list_of(lua_State *L, int table, const char *field, struct arena *a)
{
	struct str_list list = { 0 };
	if (lua_getfield(L, table, field) == LUA_TTABLE) {
		const size_t n = lua_rawlen(L, -1);
		struct str *items = arena_alloc(a, (n + 1) * sizeof(*items));
		for (size_t i = 0; i < n; i++) {
			lua_rawgeti(L, -1, (lua_Integer)i + 1);
			items[i] = text_of(L, -1, a);
			lua_pop(L, 1);
		}
		list = (struct str_list){ items, n };
	}
	lua_pop(L, 1);
	return list;
}

static const char *word_of(lua_State *L, int table, const char *field, struct arena *a)
{
	lua_getfield(L, table, field);
	const struct str s = text_of(L, -1, a);
	lua_pop(L, 1);
	return s.p;
}

static bool flag_of(lua_State *L, int table, const char *field)
{
	lua_getfield(L, table, field);
	const bool is = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return is;
}

/* What lives in C while Lua may raise: freed by whoever made it, behind a protected call. */
struct work {
	struct arena arena;
	struct buf report;
	struct err err;
	int rc;
};

static int run_import(lua_State *L)
{
	struct work *w = lua_touserdata(L, 2);
	struct arena *a = &w->arena;
	const struct str_list from = list_of(L, 1, "map_from", a), to = list_of(L, 1, "map_to", a);
	struct str_pair *pairs = arena_alloc(a, (from.count + 1) * sizeof(*pairs));
	for (size_t i = 0; i < from.count && i < to.count; i++)
		pairs[i] = (struct str_pair){ from.items[i], to.items[i] };
	const struct import_options o = { .file = word_of(L, 1, "file", a),
		                          .data_dir = word_of(L, 1, "data", a),
		                          .renames = { pairs, from.count < to.count ? from.count : to.count },
		                          .drops = list_of(L, 1, "drop_member", a),
		                          .dry_run = flag_of(L, 1, "dry_run"),
		                          .skip_refused = flag_of(L, 1, "skip_refused") };
	struct json_writer out = { .out = &w->report };
	json_begin_object(&out);
	offline_begin("reading");
	w->rc = cli_import(&o, &out, &w->err);
	offline_end();
	json_end_object(&out);
	return 0;
}

static int run_export(lua_State *L)
{
	struct work *w = lua_touserdata(L, 2);
	const struct export_options o = { .data_dir = word_of(L, 1, "data", &w->arena),
		                          .file = word_of(L, 1, "file", &w->arena),
		                          .drop = flag_of(L, 1, "drop") };
	struct json_writer out = { .out = &w->report };
	json_begin_object(&out);
	offline_begin("writing");
	w->rc = cli_export(&o, &out, &w->err);
	offline_end();
	json_end_object(&out);
	return 0;
}

static int push_result(lua_State *L)
{
	const struct work *w = lua_touserdata(L, 1);
	lua_pushlstring(L, (const char *)w->report.data, w->report.len);
	if (w->rc)
		lua_pushstring(L, w->err.msg);
	else
		lua_pushnil(L);
	lua_pushboolean(L, w->rc == ERR_REFUSED);
	return 3;
}

/* -> report (JSON), and when it failed: why, and whether the report says more */
static int protected(lua_State *L, lua_CFunction run)
{
	struct work w = { 0 };
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	lua_pushcfunction(L, run);
	lua_pushvalue(L, 1);
	lua_pushlightuserdata(L, &w);
	int status = lua_pcall(L, 2, 0, 0);
	if (status == LUA_OK) {
		lua_pushcfunction(L, push_result);
		lua_pushlightuserdata(L, &w);
		status = lua_pcall(L, 1, 3, 0);
	}
	arena_fini(&w.arena);
	buf_fini(&w.report);
	return status == LUA_OK ? 3 : lua_error(L);
}

static int offline_import(lua_State *L)
{
	return protected(L, run_import);
}

static int offline_export(lua_State *L)
{
	return protected(L, run_export);
}

int cli_open_offline(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "import", offline_import },
		{ "export", offline_export },
		{ NULL, NULL },
	};
	luaL_newlib(L, functions);
	return 1;
}
