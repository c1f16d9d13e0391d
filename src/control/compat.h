/* control/compat.h - asks the schema policy whether a document may become a topic's next version.
 *
 * What the policy cannot see is judged here first: that the new document is JSON with each key once, at most
 * COMPAT_DEPTH_MAX levels and COMPAT_BYTES_MAX bytes, that its numbers have exponents within COMPAT_EXPONENT_MAX, and
 * that Lua keeps the numbers of both documents apart and in order. With that the policy's comparisons of numbers are
 * exact.
 *
 * Thread: that of the caller's policy set.
 */
#ifndef CONTROL_COMPAT_H
#define CONTROL_COMPAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "control/policy.h"

#define COMPAT_REASON_MAX 256 /* bytes */
#define COMPAT_BYTES_MAX (256u << 10)
#define COMPAT_DEPTH_MAX 64
#define COMPAT_EXPONENT_MAX 1000

struct compat_question {
	struct str topic_json; /* the topic's record, stored or to be stored */
	struct str old_json;   /* the current version; p NULL: there is none */
	struct str new_json;   /* as it came from outside */
};

struct compat_answer {
	bool compatible;
	bool unchanged; /* compatible, and the policy says that no new version is needed */
	char reason[COMPAT_REASON_MAX +
	            1];        /* why not: keyword and JSON pointer; else "" or what the policy remarks. UTF-8 */
	uint64_t instructions; /* spent by the policy that answered */
	size_t bytes;          /* it held at its peak */
};

/* ERR_INVALID when no policy in force answered: nothing is known of the documents, and the fault says why. `scratch`
 * takes what it likes until its owner resets it. */
MUST_CHECK int compat_ask(struct policy_set *ps, const struct sandbox_budget *budget, const struct compat_question *q,
                          struct arena *scratch, struct compat_answer *out, struct sandbox_fault *fault);

#endif /* CONTROL_COMPAT_H */
