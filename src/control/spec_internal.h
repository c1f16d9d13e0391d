/* control/spec_internal.h - what the files of veena.spec share. Thread: that of the lua_State. */
#ifndef CONTROL_SPEC_INTERNAL_H
#define CONTROL_SPEC_INTERNAL_H

#include <lua.h>

#include "base/buf.h"
#include "control/sandbox.h"
#include "control/view.h"
#include "fsm/fsm.h"
#include "fsm/reader.h"
#include "model/entry.h"

#define SPEC_SERVERS_MAX 16
#define SPEC_SETTINGS 6

struct spec_topic {
	struct str name, id;
};

/* Everything behind one `c`. Freed by the userdata's __gc, which the view object keeps alive as its user value. */
struct spec_cluster {
	char *path; /* of the scratch store while it has a name */
	struct fsm *fsm;
	struct fsm_reader reader;
	struct arena arena;   /* what the view borrows */
	struct arena scratch; /* the view's, of one method call */
	struct buf log;
	struct buf json; /* one record on its way in */
	struct entry_builder builder;
	struct buf entries; /* of struct slab * */
	size_t entry_count;
	struct spec_topic *topics; /* while it is described */
	size_t topic_count;
	struct view_server servers[SPEC_SERVERS_MAX];
	struct view_setting settings[SPEC_SETTINGS];
	struct cluster_view view;
};

/* ---- spec.c ---- */

extern const struct view_setting spec_default_settings[SPEC_SETTINGS];

/* Every field of the table at `index` must be in `names`, which end with NULL. */
LUA_JUMPS void spec_check_fields(lua_State *L, int index, const char *what, const char *const *names);
LUA_JUMPS struct spec_cluster *spec_check_cluster(lua_State *L, int arg);

/* A cluster is made in steps: pushed, given commands, a store (a fresh one where everything up to `applied` counts as
 * applied, or a copy of another's), the commands applied up to `index`, the view opened. */
LUA_JUMPS struct spec_cluster *spec_push_cluster(lua_State *L);
LUA_JUMPS void spec_add_command(lua_State *L, struct spec_cluster *c, enum command_type type, const void *payload);
LUA_JUMPS void spec_open_store(lua_State *L, struct spec_cluster *c, struct spec_cluster *from, raft_index applied);
LUA_JUMPS void spec_apply_entries(lua_State *L, struct spec_cluster *c, raft_index index);
void spec_drop_entries(struct spec_cluster *c);
LUA_JUMPS void spec_open_view(lua_State *L, struct spec_cluster *c);
LUA_JUMPS void spec_push_view(lua_State *L, struct spec_cluster *c, int box); /* box: where spec_push_cluster left it */

/* ---- spec_policy.c: veena.policy; a policy's functions as C calls them ---- */

#define SPEC_POLICY_TYPE "veena.spec.policy"

struct spec_policy {
	struct buf text;
	char chunk[64];
	uint64_t instructions; /* of the last call */
	size_t bytes;          /* its peak */
};

LUA_JUMPS int spec_policy_new(lua_State *L);
/* What the daemon calls a fault of the answer: raises {kind="runtime", message=, line=0} with the text on top. */
LUA_JUMPS void spec_raise_answer(lua_State *L);
/* Which of `names` (NULL at the end) are functions of the policy: a bit each. Raises what loading it raises. */
LUA_JUMPS unsigned spec_policy_has(lua_State *L, const struct spec_policy *p, const char *const *names);
LUA_JUMPS void spec_name_to_topic(lua_State *L, int view_at, int arg); /* a name at `arg` becomes the topic's record */

/* ---- spec_try.c: veena.try ---- */

LUA_JUMPS int spec_try(lua_State *L);

/* ---- spec_step.c: what follows from a cluster: apply, after, settle ---- */

LUA_JUMPS void spec_add_methods(lua_State *L);
LUA_JUMPS int spec_settle(lua_State *L);

#endif /* CONTROL_SPEC_INTERNAL_H */
