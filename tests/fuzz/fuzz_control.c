/* Any bytes as the source of a policy: it is compiled and run under a small budget. What must hold beside memory
 * safety: it ends, within its budget of instructions, memory and time; a fault has a kind and a line of words; bytecode
 * is never loaded; and nothing of a run reaches the next one. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "control/sandbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sandbox_budget budget = { .instructions = 50000, .memory = 4u << 20, .wall_ms = 200 };

#define LONGEST_MS 3000 /* the budget's time, and what a sanitized build on a loaded machine may need beside */

/* Says "whole" where the libraries are what they are. */
static const char probe[] = "local t = { 3, 1, 2 } table.sort(t)\n"
			    "return ('%d'):format(t[1]) == '1' and #('x'):rep(3) == 3 and tostring(1) == '1'\n"
			    "  and not pcall(error) and math.max(1, 2) == 2 and next({}) == nil and 'whole'\n";

static void is_untouched(void)
{
	struct sandbox *sb = sandbox_new(&budget, NULL);
	struct sandbox_fault fault = { 0 };
	const int rc = sandbox_load(sb, "probe", str_of(probe), &fault);
	assert(rc == 0);
	assert(strcmp(lua_tostring(sandbox_lua(sb), -1), "whole") == 0);
	sandbox_free(sb);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t begun = clock_mono_ms();
	struct sandbox *sb = sandbox_new(&budget, NULL);
	struct sandbox_fault fault = { 0 };
	const int rc = sandbox_load(sb, "policy", (struct str){ (const char *)data, size }, &fault);
	assert((rc == 0) == (fault.kind == SANDBOX_OK));
	assert(rc == 0 || (rc == ERR_INVALID && fault.message[0] && !strchr(fault.message, '\n')));
	assert(size == 0 || data[0] != 0x1b || rc != 0); /* bytecode */
	assert(sandbox_peak_bytes(sb) <= budget.memory);
	sandbox_free(sb);
	assert(clock_mono_ms() - begun < LONGEST_MS);
	is_untouched();
	return 0;
}
