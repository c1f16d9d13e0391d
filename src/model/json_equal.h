/* model/json_equal.h - are two JSON documents the same value?
 *
 * The answer decides whether an entry is refused, on every node alike and again whenever a log is replayed, so what
 * "same" means is frozen:
 *
 *   - equal bytes are always the same, whatever they are;
 *   - where a side is not one JSON value (what json.h reads, at most JSON_DEPTH_DEFAULT containers deep), nothing but
 *     equal bytes is the same;
 *   - white space and the order of an object's keys do not count; of a key that comes twice the last one counts;
 *   - arrays are ordered; strings and keys are compared with their escapes undone, byte by byte;
 *   - numbers are compared by their exact decimal value: 10 is 1e1 and 1.0e1, -0 is 0. A number whose exponent, as
 *     written, does not fit an int32 is the same only as one of the same spelling.
 *
 * Ownership: arguments are borrowed for the call.   Thread: any.   Source: Narad's jsonValueEqual.
 */
#ifndef MODEL_JSON_EQUAL_H
#define MODEL_JSON_EQUAL_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/bytes.h"

/* Takes n log n steps and at most ten bytes of `scratch` for each byte of x and y; whoever compares many documents
 * resets it between them. */
bool json_equal(struct str x, struct str y, struct arena *scratch);

/* The exact order of two number tokens of a JSON reader: *order is below, at or above 0. False when an exponent does
 * not fit an int32. */
bool json_number_order(struct str x, struct str y, int *order);

#endif /* MODEL_JSON_EQUAL_H */
