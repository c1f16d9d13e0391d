/* Policies in specs: called in the daemon's sandbox under the daemon's budgets, their answers validated as the core
 * does. */
#include "control/spec_internal.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "control/lua_value.h"
#include "control/place.h"
#include "control/policy.h"
#include "control/view.h"
#include "fsm/topics.h"

static int policy_gc(lua_State *L)
{
	struct spec_policy *p = luaL_checkudata(L, 1, SPEC_POLICY_TYPE);
	buf_fini(&p->text);
	return 0;
}

static LUA_JUMPS void read_source_file(lua_State *L, const char *path, struct spec_policy *p)
{
	FILE *f = fopen(path, "rb");
	if (!f)
		luaL_error(L, "cannot read %s", path);
	char bytes[8192];
	size_t n;
	while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
		buf_put(&p->text, bytes, n);
	const bool failed = ferror(f) != 0;
	fclose(f);
	if (failed)
		luaL_error(L, "cannot read %s", path);
	const char *base = strrchr(path, '/');
	snprintf(p->chunk, sizeof(p->chunk), "%.63s", base ? base + 1 : path);
}

/* One call of a policy's function: in the sandbox's state, with arguments taken from the spec's. */
struct spec_call {
	lua_State *from;
	int first, count; /* arguments in `from`, the view among them */
	struct spec_policy *policy;
	const char *function;
	struct cluster_view *view;
	struct cluster_view inner; /* the same state, charged to this call's sandbox */
	bool loading;
	int results;
};

static LUA_JUMPS int call_in_sandbox(lua_State *L)
{
	struct spec_call *call = lua_touserdata(L, 1);
	call->loading = true;
	sandbox_push_chunk(L, call->policy->chunk,
	                   (struct str){ (const char *)call->policy->text.data, call->policy->text.len });
	if (!lua_istable(L, -1))
		luaL_error(L, "%s: returns a %s, a policy returns a table of functions", call->policy->chunk,
		           luaL_typename(L, -1));
	lua_pushstring(L, call->function);
	if (lua_rawget(L, -2) != LUA_TFUNCTION)
		luaL_error(L, "%s: the table it returns has no function '%s'", call->policy->chunk, call->function);
	call->loading = false;
	for (int i = 0; i < call->count; i++) {
		if (cluster_view_at(call->from, call->first + i)) {
			call->inner = *call->view;
			call->inner.sb = sandbox_of(L);
			cluster_view_push(L, &call->inner);
		} else {
			lua_copy_value(call->from, call->first + i, L);
		}
	}
	lua_call(L, call->count, 2);
	return 2;
}

static LUA_JUMPS int copy_results(lua_State *L)
{
	struct sandbox *sb = lua_touserdata(L, 1);
	lua_State *S = sandbox_lua(sb);
	lua_copy_value(S, -2, L);
	lua_copy_value(S, -1, L);
	return 2;
}

static LUA_JUMPS void raise_fault(lua_State *L, const struct sandbox_fault *f)
{
	lua_createtable(L, 0, 3);
	lua_set_str(L, "kind", str_of(sandbox_fault_name(f->kind)));
	lua_set_str(L, "message", str_of(f->message));
	lua_set_integer(L, "line", f->line);
	lua_error(L);
}

/* A topic given by name becomes its record, as the core hands it over. */
void spec_name_to_topic(lua_State *L, int view_at, int arg)
{
	if (lua_type(L, arg) != LUA_TSTRING)
		return;
	lua_getfield(L, view_at, "topic");
	lua_pushvalue(L, view_at);
	lua_pushvalue(L, arg);
	lua_call(L, 2, 1);
	if (lua_isnil(L, -1))
		luaL_error(L, "the cluster has no topic '%s'", lua_tostring(L, arg));
	lua_replace(L, arg);
}

/* While a client waits, or in a pass: as in the daemon, but for the wall clock, since specs also run on loaded machines
 * and under sanitizers. */
static struct sandbox_budget budget_of(const char *function)
{
	static const char *const waited_for[] = { "place", "compatible", "admit" };
	for (size_t i = 0; i < ARRAY_LEN(waited_for); i++) {
		if (strcmp(function, waited_for[i]) == 0) {
			struct sandbox_budget b = sandbox_budget_request;
			b.wall_ms = sandbox_budget_pass.wall_ms;
			return b;
		}
	}
	return sandbox_budget_pass;
}

/* Upvalues: policy, name of the function. Arguments: the function's, which begin with a cluster for all but one. */
static LUA_JUMPS int policy_function(lua_State *L)
{
	struct spec_call call = {
		.from = L,
		.first = 1,
		.count = lua_gettop(L),
		.policy = luaL_checkudata(L, lua_upvalueindex(1), SPEC_POLICY_TYPE),
		.function = lua_tostring(L, lua_upvalueindex(2)),
	};
	call.view = call.count ? cluster_view_at(L, 1) : NULL;
	if (!call.view && strcmp(call.function, "compatible") != 0)
		return luaL_error(L, "the first argument is a cluster made by veena.cluster{...}");
	if (strcmp(call.function, "place") == 0 && call.count >= 2)
		spec_name_to_topic(L, 1, 2);
	const struct sandbox_budget budget = budget_of(call.function);
	struct sandbox *sb = sandbox_new(&budget, &policy_modules);
	struct sandbox_fault fault;
	const int rc = sandbox_host_call(sb, call_in_sandbox, &call, 2, &fault);
	if (rc != 0 && call.loading)
		sandbox_fault_in_load(&fault);
	int copied = LUA_OK;
	if (rc == 0) {
		lua_pushcfunction(L, copy_results);
		lua_pushlightuserdata(L, sb);
		copied = lua_pcall(L, 1, 2, 0);
	}
	call.policy->instructions = sandbox_instructions(sb);
	call.policy->bytes = sandbox_peak_bytes(sb);
	sandbox_free(sb);
	if (rc != 0)
		raise_fault(L, &fault);
	return copied == LUA_OK ? 2 : lua_error(L);
}

/* p.place and the like are made on demand, so that a policy may have any of the contract's functions. */
static LUA_JUMPS int policy_index(lua_State *L)
{
	luaL_checkudata(L, 1, SPEC_POLICY_TYPE);
	luaL_checkstring(L, 2);
	lua_pushvalue(L, 1);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, policy_function, 2);
	return 1;
}

int spec_policy_new(lua_State *L)
{
	lua_settop(L, 1);
	struct spec_policy *p = lua_newuserdatauv(L, sizeof(*p), 0);
	*p = (struct spec_policy){ .chunk = "policy" };
	if (luaL_newmetatable(L, SPEC_POLICY_TYPE)) {
		lua_pushcfunction(L, policy_gc);
		lua_setfield(L, -2, "__gc");
		lua_pushcfunction(L, policy_index);
		lua_setfield(L, -2, "__index");
	}
	lua_setmetatable(L, -2);
	if (lua_type(L, 1) == LUA_TSTRING) {
		read_source_file(L, lua_tostring(L, 1), p);
		return 1;
	}
	luaL_checktype(L, 1, LUA_TTABLE);
	static const char *const fields[] = { "source", "name", NULL };
	spec_check_fields(L, 1, "a policy", fields);
	lua_getfield(L, 1, "name");
	snprintf(p->chunk, sizeof(p->chunk), "%.63s", luaL_optstring(L, -1, "policy"));
	lua_getfield(L, 1, "source");
	size_t len;
	const char *text = luaL_checklstring(L, -1, &len);
	buf_put(&p->text, text, len);
	lua_pop(L, 2);
	return 1;
}

void spec_raise_answer(lua_State *L)
{
	struct sandbox_fault f = { .kind = SANDBOX_FAULT_RUNTIME };
	const char *text = lua_tostring(L, -1);
	snprintf(f.message, sizeof(f.message), "%.500s", text ? text : "");
	raise_fault(L, &f);
}

/* ---- which functions it has ---- */

struct spec_look {
	const struct spec_policy *policy;
	const char *const *names;
	unsigned found;
};

static LUA_JUMPS int look(lua_State *L)
{
	struct spec_look *look = lua_touserdata(L, 1);
	sandbox_push_chunk(L, look->policy->chunk,
	                   (struct str){ (const char *)look->policy->text.data, look->policy->text.len });
	if (!lua_istable(L, -1))
		luaL_error(L, "%s: returns a %s, a policy returns a table of functions", look->policy->chunk,
		           luaL_typename(L, -1));
	for (unsigned i = 0; look->names[i]; i++) {
		lua_pushstring(L, look->names[i]);
		if (lua_rawget(L, -2) == LUA_TFUNCTION)
			look->found |= 1u << i;
		lua_pop(L, 1);
	}
	return 0;
}

unsigned spec_policy_has(lua_State *L, const struct spec_policy *p, const char *const *names)
{
	struct spec_look what = { .policy = p, .names = names };
	struct sandbox *sb = sandbox_new(&sandbox_budget_pass, &policy_modules);
	struct sandbox_fault fault;
	const int rc = sandbox_host_call(sb, look, &what, 0, &fault);
	sandbox_free(sb);
	if (rc != 0) {
		sandbox_fault_in_load(&fault);
		raise_fault(L, &fault);
	}
	return what.found;
}
