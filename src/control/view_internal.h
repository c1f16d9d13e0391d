/* control/view_internal.h - what the methods of a view share. */
#ifndef CONTROL_VIEW_INTERNAL_H
#define CONTROL_VIEW_INTERNAL_H

#include <lauxlib.h>

#include "control/view.h"

/* Each look-up in the store counts as so much work: a page or two of the map, a record to parse. */
#define VIEW_LOOKUP_WORK 20

LUA_JUMPS void view_charge(const struct cluster_view *v, lua_State *L, uint64_t work);
LUA_JUMPS struct str view_check_name(lua_State *L, int arg);
/* A failed read of the store ends the run: a policy must not decide on half a view. */
LUA_JUMPS void view_check_read(lua_State *L, int rc);

extern const luaL_Reg view_member_methods[], view_topic_methods[]; /* each ends with a NULL */

#endif /* CONTROL_VIEW_INTERNAL_H */
