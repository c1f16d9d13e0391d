/* cli/cli.h - the `veena` command: a C host with a few small modules for the Lua of lua/.
 *
 *   veena.http  one HTTP exchange by libcurl          http.c
 *   veena.json  JSON text and Lua values              json.c, on control/lua_value.h
 *   veena.term  what the terminal is and can          term.c
 *   veena.edit  lines typed there, Ctrl-C             edit.c
 *   veena.offline  work on the files of a node that does not run   offline.c, import.c, export.c
 *   veena.codes, veena.version                        main.c
 *
 * Everything else (options, verbs, tables, messages) is Lua, embedded in the binary. This Lua is the operator's own and
 * has the whole standard library.   Thread: main.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <lua.h>
#include <stdbool.h>

int cli_open_http(lua_State *L); /* pushes the module */
int cli_open_json(lua_State *L);
int cli_open_term(lua_State *L);
int cli_open_edit(lua_State *L);
int cli_open_offline(lua_State *L);

/* Ctrl-C came while edit.call runs something: whoever waits stops waiting and raises. Any thread; raise: main. */
bool cli_is_interrupted(void);
int cli_raise_if_interrupted(lua_State *L);

#endif /* CLI_CLI_H */
