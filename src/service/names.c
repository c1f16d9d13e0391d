#include "service/names.h"

#include <assert.h>

uint32_t svc_name_stripe(struct str name)
{
	uint32_t h = 2166136261u; /* FNV-1a: short keys, no adversary gains more than a wait */

	for (size_t i = 0; i < name.len; i++)
		h = (h ^ (uint8_t)name.p[i]) * 16777619u;
	return (h ^ h >> 16) & (SVC_NAME_STRIPES - 1);
}

static bool take(struct svc_name_stripe *s, uint64_t holder)
{
	uint64_t nobody = 0;

	return atomic_compare_exchange_strong(&s->holder, &nobody, holder);
}

/* Mark first, then look again: either this thread sees the stripe free, or who frees it sees the mark. */
bool svc_name_take(struct svc_names *n, uint32_t stripe, uint64_t holder, uint32_t number)
{
	struct svc_name_stripe *s = &n->stripes[stripe];

	assert(holder != 0 && number < 64);
	if (take(s, holder))
		return true;
	atomic_fetch_or(&s->waiting, (uint64_t)1 << number);
	return take(s, holder);
}

void svc_name_give(struct svc_names *n, uint32_t stripe, uint64_t holder, struct wake *const *wakes, uint32_t count)
{
	struct svc_name_stripe *s = &n->stripes[stripe];
	uint64_t held = atomic_exchange(&s->holder, 0);

	assert(held == holder);
	uint64_t waiting = atomic_exchange(&s->waiting, 0);

	for (uint32_t i = 0; i < count; i++) {
		if (waiting & (uint64_t)1 << i)
			wake_signal(wakes[i]);
	}
}

bool svc_name_is_free(const struct svc_names *n, uint32_t stripe)
{
	return atomic_load(&n->stripes[stripe].holder) == 0;
}
