#include "control/sandbox.h"

#include <assert.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#define HOOK_EVERY 100           /* VM instructions between looks at the budget */
#define BYTES_PER_INSTRUCTION 16 /* copying so much counts as one instruction */

const struct sandbox_budget sandbox_budget_request = {
	.instructions = 5000000,
	.memory = 32u << 20,
	.wall_ms = 250,
};

const struct sandbox_budget sandbox_budget_pass = {
	.instructions = 50000000,
	.memory = 64u << 20,
	.wall_ms = 2000,
};

enum spent { SPENT_NOTHING, SPENT_INSTRUCTIONS, SPENT_MEMORY, SPENT_TIME };

struct sandbox {
	lua_State *L;
	struct sandbox_budget budget;
	struct sandbox_modules modules;
	bool limited;          /* false while the host builds the environment */
	enum spent spent;      /* once set, every protected call inside the script raises again */
	uint64_t instructions; /* spent */
	uint64_t deadline_ns;  /* 0 = not yet started */
	size_t bytes;          /* held by the state */
	size_t peak;
};

/* Registry key of the message that is raised when a budget is spent: made beforehand, since raising must not allocate.
 */
static const char spent_key;

const char *sandbox_fault_name(enum sandbox_fault_kind kind)
{
	static const char *const names[] = { "ok", "load", "runtime", "budget" };
	return names[kind];
}

struct sandbox *sandbox_of(lua_State *L)
{
	struct sandbox *sb;
	memcpy(&sb, lua_getextraspace(L),
	       sizeof(sb)); /* NOLINT(bugprone-sizeof-expression): a pointer is stored there */
	return sb;
}

lua_State *sandbox_lua(struct sandbox *sb)
{
	return sb->L;
}

uint64_t sandbox_instructions(const struct sandbox *sb)
{
	return sb->instructions;
}

size_t sandbox_peak_bytes(const struct sandbox *sb)
{
	return sb->peak;
}

/* Refusing with NULL makes Lua collect garbage and ask once more, then raise LUA_ERRMEM. */
static void *allocate(void *ud, void *p, size_t old_size, size_t new_size)
{
	struct sandbox *sb = ud;
	if (!p)
		old_size = 0; /* Lua passes the kind of object here */
	if (new_size == 0) {
		mem_free(p);
		sb->bytes -= old_size;
		return NULL;
	}
	if (new_size > old_size && sb->limited) {
		if (sb->bytes - old_size > sb->budget.memory || new_size > sb->budget.memory - (sb->bytes - old_size))
			return NULL;
		sb->instructions += (new_size - old_size) / BYTES_PER_INSTRUCTION;
	}
	void *q = realloc(p, new_size);
	if (!q)
		return NULL;
	sb->bytes += new_size - old_size;
	if (sb->bytes > sb->peak)
		sb->peak = sb->bytes;
	return q;
}

static LUA_JUMPS int raise_spent(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &spent_key);
	return lua_error(L);
}

static void look_at_budget(struct sandbox *sb)
{
	if (sb->spent)
		return;
	if (sb->instructions > sb->budget.instructions)
		sb->spent = SPENT_INSTRUCTIONS;
	else if (clock_mono_ns() > sb->deadline_ns)
		sb->spent = SPENT_TIME;
}

static void on_count(lua_State *L, lua_Debug *ar)
{
	(void)ar;
	struct sandbox *sb = sandbox_of(L);
	if (!sb->limited)
		return;
	sb->instructions += HOOK_EVERY;
	look_at_budget(sb);
	if (sb->spent)
		raise_spent(L);
}

void sandbox_charge(lua_State *L, uint64_t work)
{
	struct sandbox *sb = sandbox_of(L);
	if (!sb->limited)
		return;
	sb->instructions += work;
	/* The clock is for the hook; here it is asked only about work that takes a while by itself. */
	if (work >= 1000)
		look_at_budget(sb);
	else if (!sb->spent && sb->instructions > sb->budget.instructions)
		sb->spent = SPENT_INSTRUCTIONS;
	if (sb->spent)
		raise_spent(L);
}

void sandbox_charge_bytes(lua_State *L, size_t bytes)
{
	sandbox_charge(L, 1 + bytes / BYTES_PER_INSTRUCTION);
}

/* ---- the two protected calls that scripts and hosts use ---- */

/* An error of the script's own is its own, a spent budget is not. */
static LUA_JUMPS int call_within(lua_State *L, int nargs, int nresults)
{
	const int status = lua_pcall(L, nargs, nresults, 0);
	struct sandbox *sb = sandbox_of(L);
	if (status == LUA_ERRMEM && !sb->spent)
		sb->spent = SPENT_MEMORY;
	if (sb->spent)
		raise_spent(L);
	return status;
}

bool sandbox_pcall(lua_State *L, int nargs, int nresults)
{
	if (call_within(L, nargs, nresults) == LUA_OK)
		return true;
	lua_pop(L, 1);
	return false;
}

/* pcall for scripts. */
static LUA_JUMPS int script_pcall(lua_State *L)
{
	luaL_checkany(L, 1);
	lua_pushboolean(L, 1);
	lua_insert(L, 1);
	if (call_within(L, lua_gettop(L) - 2, LUA_MULTRET) != LUA_OK) {
		lua_pushboolean(L, 0);
		lua_insert(L, -2);
		return 2;
	}
	return lua_gettop(L);
}

/* Message handler: notes the running line in the fault (its upvalue) and makes any error object a text, since an object
 * of the script's must not be looked at after its budget ended. */
static LUA_JUMPS int on_error(lua_State *L)
{
	struct sandbox_fault *fault = lua_touserdata(L, lua_upvalueindex(1));
	lua_Debug ar;
	for (int level = 1; lua_getstack(L, level, &ar); level++) {
		lua_getinfo(L, "Sl", &ar);
		if (ar.currentline > 0) {
			fault->line = ar.currentline;
			break;
		}
	}
	if (lua_type(L, 1) == LUA_TNUMBER || lua_type(L, 1) == LUA_TSTRING)
		return 1;
	lua_pushfstring(L, "error object that is a %s, not a text", luaL_typename(L, 1));
	return 1;
}

static void copy_message(struct sandbox_fault *fault, const char *text)
{
	size_t n = 0;
	for (; text[n] && n < sizeof(fault->message) - 1; n++)
		fault->message[n] = (unsigned char)text[n] < 0x20 ? ' ' : text[n];
	fault->message[n] = '\0';
}

static void describe_spent(const struct sandbox *sb, struct sandbox_fault *fault)
{
	fault->kind = SANDBOX_FAULT_BUDGET;
	switch (sb->spent) {
	case SPENT_INSTRUCTIONS:
		snprintf(fault->message, sizeof(fault->message), "budget of %" PRIu64 " instructions spent",
		         sb->budget.instructions);
		break;
	case SPENT_MEMORY:
		snprintf(fault->message, sizeof(fault->message), "budget of %zu KiB of memory spent",
		         sb->budget.memory >> 10);
		break;
	default:
		snprintf(fault->message, sizeof(fault->message), "budget of %" PRIu32 " ms spent", sb->budget.wall_ms);
		break;
	}
}

static int protected_call(struct sandbox *sb, int nargs, int nresults, struct sandbox_fault *fault)
{
	lua_State *L = sb->L;
	const int base = lua_gettop(L) - nargs;
	*fault = (struct sandbox_fault){ 0 };
	if (!sb->deadline_ns)
		sb->deadline_ns = clock_mono_ns() + (uint64_t)sb->budget.wall_ms * 1000000u;
	/* The handler is made before the limits hold, so that making it cannot fail. */
	sb->limited = false;
	lua_pushlightuserdata(L, fault);
	lua_pushcclosure(L, on_error, 1);
	lua_insert(L, base);
	sb->limited = true;
	const int status = lua_pcall(L, nargs, nresults, base);
	sb->limited = false;
	lua_remove(L, base);
	if (status == LUA_OK && !sb->spent) {
		assert(nresults == LUA_MULTRET || lua_gettop(L) == base - 1 + nresults);
		return 0;
	}
	if (status == LUA_ERRMEM && !sb->spent)
		sb->spent = SPENT_MEMORY;
	if (sb->spent) {
		describe_spent(sb, fault);
	} else {
		fault->kind = SANDBOX_FAULT_RUNTIME;
		const char *text = lua_tostring(L, -1);
		copy_message(fault, text ? text : "an error without a message");
	}
	lua_settop(L, base - 1);
	return ERR_INVALID;
}

int sandbox_call(struct sandbox *sb, int nargs, int nresults, struct sandbox_fault *fault)
{
	return protected_call(sb, nargs, nresults, fault);
}

int sandbox_host_call(struct sandbox *sb, lua_CFunction fn, void *arg, int nresults, struct sandbox_fault *fault)
{
	lua_pushcfunction(sb->L, fn);
	lua_pushlightuserdata(sb->L, arg);
	return protected_call(sb, 1, nresults, fault);
}

/* ---- loading ---- */

/* Leaves the compiled chunk with the script environment as its only upvalue. */
static LUA_JUMPS void push_compiled(lua_State *L, const char *chunk_name, struct str source)
{
	if (source.len > SANDBOX_SOURCE_MAX)
		luaL_error(L, "%s: source of %d bytes is too long, allowed are %d", chunk_name, (int)source.len,
		           (int)SANDBOX_SOURCE_MAX);
	lua_pushfstring(L, "=%s", chunk_name);
	/* "t": text only, since bytecode can lead out of the VM. */
	if (luaL_loadbufferx(L, source.p, source.len, lua_tostring(L, -1), "t") != LUA_OK)
		lua_error(L);
	lua_remove(L, -2);
	lua_getfield(L, LUA_REGISTRYINDEX, "veena.env");
	lua_setupvalue(L, -2, 1);
}

void sandbox_push_chunk(lua_State *L, const char *chunk_name, struct str source)
{
	push_compiled(L, chunk_name, source);
	lua_call(L, 0, 1);
}

struct load_request {
	const char *chunk_name;
	struct str source;
};

static LUA_JUMPS int load(lua_State *L)
{
	const struct load_request *rq = lua_touserdata(L, 1);
	sandbox_push_chunk(L, rq->chunk_name, rq->source);
	return 1;
}

/* A compiler's message begins "name:line:"; the handler saw no running line to report. */
static int line_in_message(const char *message)
{
	for (const char *p = strchr(message, ':'); p; p = strchr(p + 1, ':')) {
		char *end;
		const long line = strtol(p + 1, &end, 10);
		if (end != p + 1 && *end == ':' && line > 0 && line < 1000000)
			return (int)line;
	}
	return 0;
}

void sandbox_fault_in_load(struct sandbox_fault *fault)
{
	if (fault->kind == SANDBOX_FAULT_RUNTIME)
		fault->kind = SANDBOX_FAULT_LOAD;
	if (fault->line == 0)
		fault->line = line_in_message(fault->message);
}

int sandbox_load(struct sandbox *sb, const char *chunk_name, struct str source, struct sandbox_fault *fault)
{
	struct load_request rq = { chunk_name, source };
	const int rc = sandbox_host_call(sb, load, &rq, 1, fault);
	if (rc != 0)
		sandbox_fault_in_load(fault);
	return rc;
}

/* require: each module is loaded once per run; a module that requires itself, directly or not, is refused. */
static LUA_JUMPS int script_require(lua_State *L)
{
	struct sandbox *sb = sandbox_of(L);
	size_t len;
	const char *name = luaL_checklstring(L, 1, &len);
	lua_getfield(L, LUA_REGISTRYINDEX, "veena.loaded");
	lua_pushvalue(L, 1);
	const int found = lua_rawget(L, -2);
	if (found == LUA_TBOOLEAN)
		return luaL_error(L, "module '%s' requires itself", name);
	if (found != LUA_TNIL)
		return 1;
	lua_pop(L, 1);
	struct str source;
	if (!sb->modules.find || !sb->modules.find(sb->modules.arg, (struct str){ name, len }, &source))
		return luaL_error(L, "no module '%s': only modules pushed as lib.NAME can be required", name);
	lua_pushvalue(L, 1);
	lua_pushboolean(L, 1);
	lua_rawset(L, -3);
	sandbox_push_chunk(L, name, source);
	if (lua_isnil(L, -1))
		return luaL_error(L, "module '%s' returned nothing", name);
	lua_pushvalue(L, 1);
	lua_pushvalue(L, -2);
	lua_rawset(L, -4);
	return 1;
}

/* ---- making one ---- */

static LUA_JUMPS int build(lua_State *L)
{
	sandbox_push_environment(L);
	lua_pushcfunction(L, script_pcall);
	lua_setfield(L, -2, "pcall");
	lua_pushcfunction(L, script_require);
	lua_setfield(L, -2, "require");
	sandbox_seal_environment(L);
	lua_setfield(L, LUA_REGISTRYINDEX, "veena.env");
	lua_newtable(L);
	lua_setfield(L, LUA_REGISTRYINDEX, "veena.loaded");
	lua_pushliteral(L, "budget spent");
	lua_rawsetp(L, LUA_REGISTRYINDEX, &spent_key);
	return 0;
}

struct sandbox *sandbox_new(const struct sandbox_budget *budget, const struct sandbox_modules *modules)
{
	struct sandbox *sb = mem_zalloc(sizeof(*sb));
	sb->budget = *budget;
	if (modules)
		sb->modules = *modules;
	sb->L = lua_newstate(allocate, sb);
	if (!sb->L)
		mem_exhausted(sizeof(*sb));
	memcpy(lua_getextraspace(sb->L), &sb, sizeof(sb)); /* NOLINT(bugprone-sizeof-expression) */
	lua_pushcfunction(sb->L, build);
	const int status = lua_pcall(sb->L, 0, 0, 0);
	assert(status == LUA_OK); /* nothing here depends on input, and memory is not limited yet */
	lua_sethook(sb->L, on_count, LUA_MASKCOUNT, HOOK_EVERY);
	return sb;
}

void sandbox_free(struct sandbox *sb)
{
	if (!sb)
		return;
	lua_close(sb->L);
	assert(sb->bytes == 0);
	mem_free(sb);
}
