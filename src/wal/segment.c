/* wal/segment.c - one segment file: its header, its beginning, its second life after a restart.
 *
 * A segment gets its name only when its header is on disk. So a file NNN.seg whose header does not verify is damage,
 * never a torn write, and its mere existence says that the segments before it are whole.
 * How it fails: every failure here is final for the handle; a file without its name is removed at the next start.
 */
#include "wal/wal_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/rand.h"

enum {
	AT_MAGIC = 0, /* these three stand at the same place in every version */
	AT_VERSION = 8,
	AT_CRC = 12,
	AT_CLUSTER = 16,
	AT_SEGMENT = 24,
	AT_SEED = 32,
	AT_START_CRC = 36,
	AT_FLAGS = 40,
	AT_ZERO = 44,
	AT_BASE_INDEX = 48,
	AT_BASE_TERM = 56,
};
static_assert(AT_BASE_TERM + 8 == WAL_HEADER_BYTES, "the header has no hole");

#define FLAG_ANEW 1u

static const uint8_t magic[8] = { 'v', 'e', 'e', 'n', 'a', 'W', 'A', 'L' };

static uint32_t header_crc(const uint8_t *p)
{
	return crc32c(crc32c(0, p, AT_CRC), p + AT_CLUSTER, WAL_HEADER_BYTES - AT_CLUSTER);
}

void wal_header_encode(const struct wal_header *h, uint8_t out[WAL_HEADER_BYTES])
{
	memset(out, 0, WAL_HEADER_BYTES);
	memcpy(out + AT_MAGIC, magic, sizeof(magic));
	put_le32(out + AT_VERSION, h->version);
	put_le64(out + AT_CLUSTER, h->cluster_id);
	put_le64(out + AT_SEGMENT, h->segment);
	put_le32(out + AT_SEED, h->seed);
	put_le32(out + AT_START_CRC, h->start_crc);
	put_le32(out + AT_FLAGS, h->anew ? FLAG_ANEW : 0);
	put_le64(out + AT_BASE_INDEX, h->base_index);
	put_le64(out + AT_BASE_TERM, h->base_term);
	put_le32(out + AT_CRC, header_crc(out));
}

bool wal_header_decode(const uint8_t *p, size_t avail, struct wal_header *out)
{
	if (avail < WAL_HEADER_BYTES || memcmp(p + AT_MAGIC, magic, sizeof(magic)) != 0)
		return false;
	if (get_le32(p + AT_CRC) != header_crc(p))
		return false;
	*out = (struct wal_header){
		.version = get_le32(p + AT_VERSION),
		.cluster_id = get_le64(p + AT_CLUSTER),
		.segment = get_le64(p + AT_SEGMENT),
		.seed = get_le32(p + AT_SEED),
		.start_crc = get_le32(p + AT_START_CRC),
		.anew = get_le32(p + AT_FLAGS) & FLAG_ANEW,
		.base_index = get_le64(p + AT_BASE_INDEX),
		.base_term = get_le64(p + AT_BASE_TERM),
	};
	return true;
}

static uint32_t fresh_seed(void)
{
	uint32_t seed;
	rand_secure(&seed, sizeof(seed));
	return seed;
}

/* Gives the finished, synced file `from` the name of `segment` and makes it the current one. Takes fd. */
static int adopt(struct wal *w, int fd, const char *from, const struct wal_header *h, struct err *e)
{
	char name[WAL_NAME_BYTES];
	char from_path[WAL_PATH_BYTES];
	char to_path[WAL_PATH_BYTES];
	wal_segment_name(h->segment, name);
	wal_path(w, from, from_path);
	wal_path(w, name, to_path);
	if (rename(from_path, to_path)) {
		const int errnum = errno;
		close(fd);
		return wal_fail(w, e, errnum, "rename a new file to", name);
	}
	if (fsync(w->dir_fd)) {
		const int errnum = errno;
		close(fd);
		return wal_fail(w, e, errnum, "sync", ".");
	}
	if (w->fd >= 0)
		close(w->fd);
	w->fd = fd;
	w->seed = h->seed;
	return 0;
}

int wal_segment_begin(struct wal *w, bool anew, raft_index base_index, raft_term base_term, struct err *e)
{
	const bool spare = atomic_load_explicit(&w->spare, memory_order_acquire) == WAL_SPARE_READY;
	const char *from = spare ? WAL_SPARE_NAME : WAL_NEW_NAME;
	int fd = w->spare_fd;
	if (!spare) {
		char path[WAL_PATH_BYTES];
		wal_path(w, from, path);
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		if (fd < 0)
			return wal_fail(w, e, errno, "create", from);
	}

	const struct wal_header h = {
		.version = WAL_VERSION,
		.cluster_id = w->cluster_id,
		.segment = w->end.segment + 1,
		.seed = fresh_seed(),
		.start_crc = anew ? 0 : w->last_crc,
		.anew = anew,
		.base_index = base_index,
		.base_term = base_term,
	};
	uint8_t bytes[WAL_HEADER_BYTES];
	wal_header_encode(&h, bytes);
	int errnum = wal_write_all(fd, bytes, sizeof(bytes), 0);
	if (!errnum && fdatasync(fd))
		errnum = errno;
	if (spare)
		w->spare_fd = -1;
	if (errnum) {
		close(fd);
		return wal_fail(w, e, errnum, "write", from);
	}
	const int rc = adopt(w, fd, from, &h, e);
	if (rc)
		return rc;
	if (spare) /* not before the rename: from here on the name is the pool's again */
		atomic_store_explicit(&w->spare, WAL_SPARE_NONE, memory_order_release);
	w->last_crc = h.start_crc;
	w->end = (struct wal_pos){ h.segment, WAL_HEADER_BYTES };
	w->durable = w->end;
	return 0;
}

/* Why a new file: the old one may hold bytes that were read back from memory and never reached the disk, after a failed
 * sync or a killed process, and syncing it again would prove nothing. It also ends the life of whatever stands behind
 * the valid part: with the new seed it never verifies again. */
int wal_segment_rewrite(struct wal *w, struct wal_header *h, uint8_t *bytes, struct err *e)
{
	h->seed = fresh_seed();
	if (h->cluster_id == 0)
		h->cluster_id = w->cluster_id;
	wal_header_encode(h, bytes);
	uint32_t crc = h->start_crc;
	for (uint32_t at = WAL_HEADER_BYTES; at < w->end.offset;) {
		crc = wal_record_reseal(bytes + at, crc, h->seed);
		at += (uint32_t)wal_record_size(get_le32(bytes + at));
	}

	char path[WAL_PATH_BYTES];
	wal_path(w, WAL_NEW_NAME, path);
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return wal_fail(w, e, errno, "create", WAL_NEW_NAME);
	int errnum = wal_write_all(fd, bytes, w->end.offset, 0);
	if (!errnum)
		errnum = wal_write_zeros(fd, w->end.offset, w->segment_bytes, false);
	if (errnum) {
		close(fd);
		unlink(path); /* best effort: the old file stays the log, and the next start removes leftovers */
		return wal_fail(w, e, errnum, "write", WAL_NEW_NAME);
	}
	const int rc = adopt(w, fd, WAL_NEW_NAME, h, e);
	if (rc)
		return rc;
	w->last_crc = crc;
	w->durable = w->end;
	return 0;
}
