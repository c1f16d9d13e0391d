/* service/names.h - writes that read a topic's record, change it and put it back take turns, over all http threads.
 *
 * The log applies such an entry whole: of two alters planned on the same record the second would undo the first. Within
 * one term, on a leader that has applied everything from before it, holding the name from the read until the entry was
 * applied is enough; the term is checked again at append.
 * Names share stripes by hash: two names on one stripe only wait for each other. Lock-free; a thread that finds a
 * stripe taken leaves its mark there and is woken when it is let go. Thread: any.
 */
#ifndef SERVICE_NAMES_H
#define SERVICE_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/wake.h"

#define SVC_NAME_STRIPES 4096 /* a power of two */

struct svc_name_stripe {
	_Atomic uint64_t holder;  /* thread number and slot, plus 1; 0 = free */
	_Atomic uint64_t waiting; /* bit per thread */
};

struct svc_names {
	struct svc_name_stripe stripes[SVC_NAME_STRIPES];
};

uint32_t svc_name_stripe(struct str name);
/* True: `holder` (not 0) has it now. False: taken; thread `number` (0..63) will be woken when it is free. */
bool svc_name_take(struct svc_names *n, uint32_t stripe, uint64_t holder, uint32_t number);
/* Ends the hold and wakes those who wait: wakes[i] is thread i's. */
void svc_name_give(struct svc_names *n, uint32_t stripe, uint64_t holder, struct wake *const *wakes, uint32_t count);
bool svc_name_is_free(const struct svc_names *n, uint32_t stripe);

#endif /* SERVICE_NAMES_H */
