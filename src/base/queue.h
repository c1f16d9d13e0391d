/* base/queue.h - bounded queues between threads: many producers, one consumer, slots of one size.
 *
 * Putting copies `item_size` bytes in; nothing is allocated. The consumer is woken only when it might be asleep: it
 * says so with queue_prepare_wait. A full queue answers false and the producer decides (its header says how).
 * Crossing a queue is always a transfer of ownership. Lock-free; a producer that was preempted half-way only delays
 * the items behind its own.
 * Thread: put any, take one.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/wake.h"

struct queue;

/* `slots` is rounded up to a power of two. `wake` is borrowed and may be NULL (then the consumer polls); several
 * queues may share one. */
struct queue *queue_new(size_t slots, size_t item_size, struct wake *wake);
void queue_free(struct queue *q); /* items still inside are dropped: the owner drains first; accepts NULL */

MUST_CHECK bool queue_put(struct queue *q, const void *item); /* false: full */
bool queue_take(struct queue *q, void *item);                 /* false: empty */
bool queue_is_empty(const struct queue *q);                   /* consumer's view */
size_t queue_len(const struct queue *q);                      /* approximate: metrics and shedding */

#endif /* BASE_QUEUE_H */
