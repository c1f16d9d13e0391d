/* Vyukov's bounded queue: each slot carries a sequence number that says whose turn it is. A producer claims a position
 * by compare-and-swap, writes, and publishes by advancing the slot's sequence; the only consumer takes in order. */
#include "base/queue.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"

#define CACHE_LINE 64

struct queue {
	_Alignas(CACHE_LINE) _Atomic uint64_t tail; /* next position to claim: producers */
	_Alignas(CACHE_LINE) _Atomic uint64_t head; /* next position to take: consumer; read by queue_len */
	_Alignas(CACHE_LINE) uint64_t mask;
	size_t item_size;
	size_t stride;
	struct wake *wake;
	uint8_t *slots; /* each: _Atomic uint64_t sequence, then the item */
};

static _Atomic uint64_t *slot_seq(const struct queue *q, uint64_t pos)
{
	return (_Atomic uint64_t *)(void *)(q->slots + (pos & q->mask) * q->stride);
}

static void *slot_item(const struct queue *q, uint64_t pos)
{
	return q->slots + (pos & q->mask) * q->stride + sizeof(uint64_t);
}

struct queue *queue_new(size_t slots, size_t item_size, struct wake *wake)
{
	assert(slots > 0 && item_size > 0);
	uint64_t n = 2;
	while (n < slots)
		n *= 2;
	struct queue *q = mem_zalloc_aligned(CACHE_LINE, sizeof(*q));
	q->mask = n - 1;
	q->item_size = item_size;
	q->stride = sizeof(uint64_t) + ((item_size + 7) & ~(size_t)7);
	q->wake = wake;
	q->slots = mem_zalloc(n * q->stride);
	for (uint64_t i = 0; i < n; i++)
		atomic_init(slot_seq(q, i), i);
	return q;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	mem_free(q->slots);
	mem_free(q);
}

bool queue_put(struct queue *q, const void *item)
{
	uint64_t pos = atomic_load_explicit(&q->tail, memory_order_relaxed);
	for (;;) {
		const uint64_t seq = atomic_load_explicit(slot_seq(q, pos), memory_order_acquire);
		if (seq == pos) {
			if (atomic_compare_exchange_weak_explicit(&q->tail, &pos, pos + 1, memory_order_relaxed,
			                                          memory_order_relaxed))
				break;
		} else if (seq < pos) {
			return false; /* the slot still holds the item of one lap ago */
		} else {
			pos = atomic_load_explicit(&q->tail, memory_order_relaxed);
		}
	}
	memcpy(slot_item(q, pos), item, q->item_size);
	atomic_store_explicit(slot_seq(q, pos), pos + 1, memory_order_release);
	wake_signal(q->wake);
	return true;
}

bool queue_take(struct queue *q, void *item)
{
	const uint64_t pos = atomic_load_explicit(&q->head, memory_order_relaxed);
	if (atomic_load_explicit(slot_seq(q, pos), memory_order_acquire) != pos + 1)
		return false;
	memcpy(item, slot_item(q, pos), q->item_size);
	atomic_store_explicit(slot_seq(q, pos), pos + q->mask + 1, memory_order_release);
	atomic_store_explicit(&q->head, pos + 1, memory_order_relaxed);
	return true;
}

bool queue_is_empty(const struct queue *q)
{
	const uint64_t pos = atomic_load_explicit(&q->head, memory_order_relaxed);
	return atomic_load_explicit(slot_seq(q, pos), memory_order_acquire) != pos + 1;
}

size_t queue_len(const struct queue *q)
{
	const uint64_t head = atomic_load_explicit(&q->head, memory_order_relaxed);
	const uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
	return tail > head ? (size_t)(tail - head) : 0;
}
