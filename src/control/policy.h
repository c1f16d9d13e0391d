/* control/policy.h - which policy is in force, and what happens when it fails.
 *
 * In force: the file KIND.lua in --policy-dir, else the one shipped in this binary. A policy that faults is passed over
 * for this call and the next one in that order answers; one that overran its budget or did not load is benched: not
 * tried again until its text changes. The shipped one has nothing behind it and is not benched for an overrun, which
 * one client's documents may have caused. The fault is kept for status and logged once per version and line.
 *
 * Every policy can require the shipped modules, lib.NAME.
 * Thread: a struct policy_set belongs to one lane; policy_faults_copy any.
 */
#ifndef CONTROL_POLICY_H
#define CONTROL_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/prom.h"
#include "control/sandbox.h"
#include "control/view.h"

enum policy_kind {
	POLICY_PLACEMENT,
	POLICY_REBALANCE,
	POLICY_LIVENESS,
	POLICY_DRAIN,
	POLICY_FAILOVER,
	POLICY_SCHEMA,
	POLICY_KIND_COUNT
};

enum policy_source { POLICY_FILE, POLICY_SHIPPED, POLICY_SOURCE_COUNT }; /* in the order they are asked */

const char *policy_kind_name(enum policy_kind k);     /* "placement" */
const char *policy_source_name(enum policy_source s); /* "file", "shipped" */

extern const struct sandbox_modules policy_modules; /* policies/lib/NAME.lua as lib.NAME */

struct policy_set;

/* `dir` NULL: only what is shipped. A file that cannot be read counts as absent and is logged. */
struct policy_set *policy_set_new(const char *dir);
void policy_set_free(struct policy_set *ps); /* accepts NULL */
/* Looks for changed files, at most once a second. */
void policy_set_refresh(struct policy_set *ps, uint64_t now_ms);

/* One call: `run` is a host function for sandbox_host_call that finds the struct behind `arg`, pushes the policy with
 * policy_push_function and reads the results. It is called with each policy in force in turn until one does not fault.
 * ERR_INVALID when all did; `fault` is the last one's. `before` (may be NULL) resets the caller's results before a try.
 */
struct policy_call {
	enum policy_kind kind;
	const struct sandbox_budget *budget;
	lua_CFunction run;
	void (*before)(void *arg, struct sandbox *sb);
	void (*after)(void *arg, struct sandbox *sb); /* the sandbox is about to go; may be NULL */
	void *arg;
};
MUST_CHECK int policy_run(struct policy_set *ps, const struct policy_call *call, struct sandbox_fault *fault);

/* `before` and `after` of calls whose struct behind `arg` begins with its struct cluster_view *: the view is charged to
 * the sandbox of the try. */
void policy_view_begin(void *arg, struct sandbox *sb);
void policy_view_end(void *arg, struct sandbox *sb);

/* For run functions: pushes the named function of the policy that is being tried; raises (a fault of loading) when the
 * policy does not return a table with it. */
LUA_JUMPS void policy_push_function(lua_State *L, const char *function);
/* The same of a function that a policy may leave out: false, and nothing is pushed. */
LUA_JUMPS bool policy_push_optional(lua_State *L, const char *function);

/* The placement policy that would be tried first, for views. Good until the set is refreshed or freed. */
struct view_placement policy_placement(const struct policy_set *ps);

/* Attempts, failed ones too. Any thread. */
struct policy_stats {
	struct prom_histogram runs;
	_Atomic uint64_t faults;
};
const struct policy_stats *policy_set_stats(const struct policy_set *ps, enum policy_kind k);

/* Most memory that a run of this set held so far. Thread: that of the set. */
size_t policy_set_peak(const struct policy_set *ps);

/* ---- faults, for status ---- */

struct policy_fault_record {
	enum policy_kind kind;
	enum policy_source source;
	struct sandbox_fault fault;
	uint64_t since_ms; /* Unix, of the first of this version */
	uint64_t at_ms;    /* of the latest */
	uint64_t count;    /* of this version */
	bool benched;
};
#define POLICY_FAULTS_MAX (POLICY_KIND_COUNT * POLICY_SOURCE_COUNT)
/* Faults of the versions now in force, at most one a source. Returns how many. Any thread. */
size_t policy_faults_copy(struct policy_fault_record out[POLICY_FAULTS_MAX]);

#endif /* CONTROL_POLICY_H */
