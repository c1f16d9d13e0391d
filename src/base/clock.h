/* base/clock.h - the only place that asks what time it is. The simulator links its own clock.c.
 *
 * Thread: any.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_mono_ms(void); /* monotonic milliseconds, from an arbitrary start above 0 */
uint64_t clock_mono_ns(void); /* monotonic nanoseconds: durations for metrics */
uint64_t clock_wall_ms(void); /* Unix time in milliseconds */

#endif /* BASE_CLOCK_H */
