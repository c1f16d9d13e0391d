/* control/sandbox_internal.h - what the files of the sandbox's library share. Thread: that of the lua_State. */
#ifndef CONTROL_SANDBOX_INTERNAL_H
#define CONTROL_SANDBOX_INTERNAL_H

#include "control/sandbox.h"

/* ---- sandbox_lib.c ---- */

LUA_JUMPS struct str sandbox_check_string(lua_State *L, int arg); /* charged */
LUA_JUMPS void sandbox_check_result(lua_State *L, size_t len);
LUA_JUMPS int sandbox_charged_call(lua_State *L);        /* Lua's own function (upvalue 1), its first text charged */
LUA_JUMPS void sandbox_push_text(lua_State *L, int arg); /* of any value, without addresses */
LUA_JUMPS void sandbox_charge_sort(lua_State *L, lua_Integer n, size_t text_bytes);
/* Copies the named functions of the library table at `from` into the table on top. */
LUA_JUMPS void sandbox_take_over(lua_State *L, int from, const char *const *names);
/* Sets field `name` of the table on top to `fn` with Lua's own function of that name as upvalue. */
LUA_JUMPS void sandbox_wrap(lua_State *L, int from, const char *name, lua_CFunction fn);

/* ---- sandbox_string.c, sandbox_table.c: the library as a table, pushed ---- */

LUA_JUMPS void sandbox_push_strings(lua_State *L);
LUA_JUMPS void sandbox_push_tables(lua_State *L);

#endif /* CONTROL_SANDBOX_INTERNAL_H */
