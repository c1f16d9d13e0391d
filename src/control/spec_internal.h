/* control/spec_internal.h - what the files of veena.spec share. Thread: that of the lua_State. */
#ifndef CONTROL_SPEC_INTERNAL_H
#define CONTROL_SPEC_INTERNAL_H

#include <lua.h>

#include "control/sandbox.h"

/* Every field of the table at `index` must be in `names`, which end with NULL. */
LUA_JUMPS void spec_check_fields(lua_State *L, int index, const char *what, const char *const *names);

/* spec_policy.c: veena.policy and veena.try. */
LUA_JUMPS int spec_policy_new(lua_State *L);
LUA_JUMPS int spec_try(lua_State *L);

#endif /* CONTROL_SPEC_INTERNAL_H */
