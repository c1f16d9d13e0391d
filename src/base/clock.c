#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
	/* BOOTTIME goes on while the machine is suspended: a node that slept must notice. */
	return read_ns(CLOCK_BOOTTIME) + 1000000u;
}

uint64_t clock_mono_ms(void)
{
	return clock_mono_ns() / 1000000u;
}

uint64_t clock_wall_ms(void)
{
	return read_ns(CLOCK_REALTIME) / 1000000u;
}
