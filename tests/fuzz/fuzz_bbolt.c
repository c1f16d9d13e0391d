/* Any bytes as a bbolt file: every walk ends, nothing is read outside of a page, and what is accepted is written anew
 * and reads the same. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bbolt/bbolt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int make_file(const uint8_t *data, size_t len)
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len)
		abort();
	return fd;
}

static uint64_t mix(uint64_t h, struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		h = (h ^ (uint8_t)s.p[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* A hash of all that a walk gives; 0: it was refused. `w` NULL: nothing is written. */
static uint64_t walk(int fd, struct bbolt_writer *w)
{
	struct bbolt_file *f;
	struct bbolt_item it;
	struct err e;
	uint64_t h = 1;
	if (bbolt_open_fd(fd, "fuzz", &f, &e) != 0)
		return 0;
	struct bbolt_walk *walk = bbolt_walk_new(f);
	int rc;
	while ((rc = bbolt_walk_next(walk, &it, &e)) == 0 && it.event != BBOLT_END) {
		h = mix(mix(h * 31 + it.event * 7 + it.depth + it.sequence, it.key), it.value);
		if (!w)
			continue;
		rc = it.event == BBOLT_RECORD   ? bbolt_writer_put(w, it.key, it.value, &e)
		     : it.event == BBOLT_BUCKET ? bbolt_writer_begin_bucket(w, it.key, it.sequence, &e)
		                                : bbolt_writer_end_bucket(w, &e);
		if (rc != 0 && rc != ERR_TOO_LARGE)
			abort();
		if (rc)
			break;
	}
	bbolt_walk_free(walk);
	bbolt_close(f);
	return rc ? 0 : h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err e;
	const int out = memfd_create("copy", MFD_CLOEXEC);
	if (out < 0)
		abort();
	struct bbolt_writer *w = bbolt_writer_new(out, "copy", 1024, 2);
	const uint64_t was = walk(make_file(data, len), w);
	if (was != 0) {
		if (bbolt_writer_finish(w, &e) != 0)
			abort();
		if (walk(dup(out), NULL) != was)
			abort();
	}
	bbolt_writer_free(w);
	close(out);
	return 0;
}
