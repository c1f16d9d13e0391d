/* Apart from rand.c, so that the simulator can link its own. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/rand.h"

void rand_secure(void *out, size_t n)
{
	uint8_t *p = out;
	while (n) {
		const ssize_t got = getrandom(p, n, 0);
		if (got < 0) {
			if (errno == EINTR)
				continue;
			perror("veena: the kernel gives no random numbers");
			abort();
		}
		p += got;
		n -= (size_t)got;
	}
}
