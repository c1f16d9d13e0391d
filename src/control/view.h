/* control/view.h - the `cluster` of policies: a lazy, read-only view of one state at one index.
 *
 * The same object in the daemon, in `try` and in specs. Each record or list it gives is a fresh plain table. A method
 * costs what it returns: members come from the shared table, everything else from index walks. It counts what was
 * planned and is not yet applied, so that a burst of creates does not land on one member.
 *
 * Methods gather what they need into the arena first and close their cursors before they touch Lua, since making a Lua
 * value may longjmp.
 * Ownership: everything in the struct is borrowed while the object can be reached.   Thread: that of the lua_State.
 */
#ifndef CONTROL_VIEW_H
#define CONTROL_VIEW_H

#include <lua.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/rand.h"
#include "control/sandbox.h"
#include "fsm/members.h"
#include "store/store.h"

#define VIEW_LOG_MAX (16u << 10) /* bytes that one run may log */

struct view_server {
	struct str id;
	bool voter;
	bool leader;
	bool alive; /* its member record says so */
};

/* Partitions planned for a member whose entries are not applied yet. */
struct view_pending {
	struct str member;
	uint32_t partitions; /* that it will own, or lead */
	uint32_t copies;     /* of partitions that others will lead */
};

/* How long the leader itself has heard nothing of a member. */
struct view_silence {
	struct str member;
	double silent_s;
};

/* The placement policy in force, for cluster:allowed; text p NULL: there is none. */
struct view_placement {
	const char *chunk;
	struct str text;
};

struct view_setting {
	const char *name; /* of GET /v1/settings */
	int64_t value;
};

struct cluster_view {
	struct store_txn *txn;
	const struct fsm_members *members;
	raft_index index;
	double now_s; /* Unix seconds: of the decision */
	struct str leader;
	raft_term term;
	double leader_for_s;
	const struct view_server *servers; /* by id */
	size_t server_count;
	const struct view_pending *pending;
	size_t pending_count;
	const struct view_silence *silences; /* by member; NULL: told from heartbeats and leader_for_s */
	size_t silence_count;
	struct view_placement placement;
	const struct view_setting *settings;
	size_t setting_count;
	struct arena *scratch; /* of one method call: reset when the next begins */
	struct buf *log;       /* what cluster:log wrote, a line each; NULL = thrown away */
	struct sandbox *sb;    /* charged for what methods do; NULL in specs that call the view themselves */
	struct rand rand;      /* cluster_view_open seeds it from the index */
};

/* Pushes the object and ties it to `v`, which outlives the object; seeds the dice from the index. The object has one
 * user value free for its maker. */
/* For how long the leader has heard nothing of it, in seconds; -1: it has not watched it. */
double cluster_view_watched_silence(const struct cluster_view *v, struct str id);
LUA_JUMPS void cluster_view_push(lua_State *L, struct cluster_view *v);
/* ---- for the files of the view ---- */

#define VIEW_TYPE "veena.cluster"

LUA_JUMPS void cluster_view_push_metatable(lua_State *L);        /* its __index has a table of methods as upvalue 1 */
LUA_JUMPS struct cluster_view *cluster_view_check(lua_State *L); /* argument 1 of a method; its scratch is reset */
LUA_JUMPS void cluster_view_push_member(lua_State *L, const struct cluster_view *v, struct str id); /* or nil */
/* As cluster:assignment gives it; nil when there is none. */
LUA_JUMPS void cluster_view_push_assignment(lua_State *L, const struct cluster_view *v, struct str topic, uint32_t p);
LUA_JUMPS void cluster_view_push_topic(lua_State *L, const struct cluster_view *v, struct str name); /* or nil */
/* view_allowed.c: what `allowed` of the placement policy says of a member that is to get a partition; true without one.
 * cluster:allowed(topic, partition, member) */
LUA_JUMPS int cluster_view_allowed(lua_State *L);

struct cluster_view *cluster_view_at(lua_State *L, int index); /* NULL: no such object at this index */

#endif /* CONTROL_VIEW_H */
