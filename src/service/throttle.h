/* service/throttle.h - how many wrong passwords are tried, by address and name.
 *
 * Each limit is a bucket of attempts that fills up again with time; only failures take from it for good. One bucket per
 * pair of address and name, so that nobody locks others out under a name; one per address; and one for the node, asked
 * for names with a recent failure only, which bounds what many addresses can try together.
 * All in a table of fixed size: of those that share a place the one nearest to full gives way.
 * Thread: under the owner's lock.
 */
#ifndef SERVICE_THROTTLE_H
#define SERVICE_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define THROTTLE_PAIR_BURST 5  /* attempts: the sixth wrong password is refused */
#define THROTTLE_PAIR_MS 12000 /* until one more is allowed */
#define THROTTLE_ADDRESS_BURST 64
#define THROTTLE_ADDRESS_MS 1000
#define THROTTLE_NODE_BURST 32
#define THROTTLE_NODE_MS 250
#define THROTTLE_RECENT_MS 60000 /* a failure is recent for so long */

#define THROTTLE_SETS 1024 /* a power of two */
#define THROTTLE_WAYS 4

struct throttle_bucket {
	uint64_t key;     /* 0: unused */
	uint64_t full_ms; /* monotonic time at which it is full again */
};

struct throttle {
	struct throttle_bucket table[THROTTLE_SETS][THROTTLE_WAYS];
	struct throttle_bucket node;
};

/* Who tries. */
struct throttle_claim {
	uint64_t pair, address, name; /* keys */
	bool took_node;
};

/* `peer` is an address with its port. */
void throttle_claim_init(struct throttle_claim *c, const char *peer, struct str name);
/* 0: the attempt may be made, and counts until it is given back. Else the seconds until one may. */
uint32_t throttle_take(struct throttle *t, struct throttle_claim *c, uint64_t now_ms);
void throttle_give_back(struct throttle *t, const struct throttle_claim *c, uint64_t now_ms); /* it did not fail */
void throttle_failed(struct throttle *t, const struct throttle_claim *c, uint64_t now_ms);

#endif /* SERVICE_THROTTLE_H */
