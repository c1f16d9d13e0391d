/* control/sandbox.h - one run of untrusted Lua: a fresh state under a budget of instructions, memory and time.
 *
 * What a policy can reach is an allow-list. A fresh state per run makes a policy pure by construction: nothing it does
 * to its tables, libraries or modules is seen by the next run, and all its memory goes at once. An instruction hook
 * does not see time spent inside one C call, so each library function charges for the bytes it touches and the
 * allocator charges for what it hands out. Once a budget is spent every protected call inside raises again.
 *
 * Every entry from C into Lua passes sandbox_call or sandbox_load. Functions marked LUA_JUMPS may leave by longjmp:
 * their callers hold no C memory, lock or transaction that only they would free.
 * Thread: one at a time; a sandbox belongs to its maker.
 */
#ifndef CONTROL_SANDBOX_H
#define CONTROL_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lua.h>

#include "base/bytes.h"
#include "base/err.h"

#define LUA_JUMPS /* may longjmp out, through the caller, to the nearest protected call */

#define SANDBOX_SOURCE_MAX (1u << 20)  /* bytes of one chunk */
#define SANDBOX_STRING_MAX (64u << 10) /* bytes a library function takes or gives as one string */

struct sandbox_budget {
	uint64_t instructions; /* VM instructions and charged work together */
	size_t memory;         /* bytes the state may hold at once */
	uint32_t wall_ms;      /* from the first call */
};

extern const struct sandbox_budget sandbox_budget_request; /* place, compatible, admit: a client waits */
extern const struct sandbox_budget sandbox_budget_pass;    /* plan, judge, finished, elect, try */

enum sandbox_fault_kind { SANDBOX_OK, SANDBOX_FAULT_LOAD, SANDBOX_FAULT_RUNTIME, SANDBOX_FAULT_BUDGET };

struct sandbox_fault {
	enum sandbox_fault_kind kind;
	int line;          /* in the chunk that failed; 0 = unknown */
	char message[512]; /* one line, UTF-8 not guaranteed */
};

const char *sandbox_fault_name(enum sandbox_fault_kind kind); /* "load", "runtime", "budget" */

/* A module's source by name ("lib.racks"); false: there is none. Borrowed while the sandbox lives. */
struct sandbox_modules {
	bool (*find)(void *arg, struct str name, struct str *source);
	void *arg;
};

struct sandbox;

/* NULL modules: `require` finds nothing. The budget is copied. Aborts on exhaustion like mem_alloc. */
struct sandbox *sandbox_new(const struct sandbox_budget *budget, const struct sandbox_modules *modules);
void sandbox_free(struct sandbox *sb); /* accepts NULL */

lua_State *sandbox_lua(struct sandbox *sb);
struct sandbox *sandbox_of(lua_State *L);

/* Compiles and runs a text chunk; its one result stays on the stack. ERR_INVALID with the fault filled. */
MUST_CHECK int sandbox_load(struct sandbox *sb, const char *chunk_name, struct str source, struct sandbox_fault *fault);
/* Calls the function below `nargs` arguments on the stack; leaves `nresults`. ERR_INVALID with the fault filled and the
 * stack as it was below the function. */
MUST_CHECK int sandbox_call(struct sandbox *sb, int nargs, int nresults, struct sandbox_fault *fault);
/* Runs a C function of the host in protected mode, to build arguments or read results; same rules. */
MUST_CHECK int sandbox_host_call(struct sandbox *sb, lua_CFunction fn, void *arg, int nresults,
                                 struct sandbox_fault *fault);

/* For host functions: compiles and runs a text chunk and leaves its one result on the stack. */
LUA_JUMPS void sandbox_push_chunk(lua_State *L, const char *chunk_name, struct str source);
/* For host functions inside a run: a protected call, as pcall is for scripts. False: it raised, and left nothing. A
 * spent budget goes on up. */
LUA_JUMPS bool sandbox_pcall(lua_State *L, int nargs, int nresults);
/* Turns a fault that happened during sandbox_push_chunk into one of loading. */
void sandbox_fault_in_load(struct sandbox_fault *fault);

/* Charges work done in C for the script. Raises once the budget is spent. */
LUA_JUMPS void sandbox_charge(lua_State *L, uint64_t work);
LUA_JUMPS void sandbox_charge_bytes(lua_State *L, size_t bytes);

uint64_t sandbox_instructions(const struct sandbox *sb); /* spent so far, charges included */
size_t sandbox_peak_bytes(const struct sandbox *sb);

/* sandbox_lib.c: pushes the environment table of scripts; sealing the table on top makes unknown names an error. Both
 * run protected, outside the budget. */
LUA_JUMPS void sandbox_push_environment(lua_State *L);
LUA_JUMPS void sandbox_seal_environment(lua_State *L);
extern const char *const sandbox_globals[]; /* names for people, NULL at the end: "table.sort" */

/* sandbox_lib.c: veena.null and the marks that tell a list from a record. */
LUA_JUMPS void sandbox_mark_array(lua_State *L, int index);
bool sandbox_is_array(lua_State *L, int index);
LUA_JUMPS void sandbox_push_null(lua_State *L);
bool sandbox_is_null(lua_State *L, int index);

#endif /* CONTROL_SANDBOX_H */
