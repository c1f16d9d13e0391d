/* wal/hardstate.c - term and vote, in two slots written in turn.
 *
 * One write is one pwrite of 512 bytes on an O_DSYNC descriptor, to the slot that does not hold the newest value. A
 * slot is eight equal copies of 64 bytes, each with its own CRC, and the two slots lie in different 4 KiB sectors. So:
 *
 *  - A torn write leaves at most one copy that is neither old nor new. The value before it stands in the other slot;
 *    nobody was told of the new one, and taking it is as right as not taking it.
 *  - Flipped bits cost single copies, and the value survives in the others.
 *  - A slot without one good copy is therefore never a torn write but damage. What stood in it may have been the newest
 *    vote, and no other place is sure to tell: the node does not start.
 *  - Each log record names the newest sequence on disk when it was written, and its term: slots older than the log (an
 *    old copy put back, a write the disk never did) are found by that. See recover.c.
 *
 * What cannot be found: a newest write that vanished without a trace, when no record was written after it.
 */
#include "wal/wal_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fault.h"

#define SLOT_BYTES 512u
#define FILE_BYTES (2 * WAL_SLOT_STRIDE)
#define COPY_BYTES 64u
#define COPIES (SLOT_BYTES / COPY_BYTES)

enum {
	AT_MAGIC = 0,
	AT_CRC = 4,
	AT_SEQ = 8,
	AT_TERM = 16,
	AT_VOTE = 24,
	AT_DURABLE_SEGMENT = 32,
	AT_DURABLE_OFFSET = 40,
	AT_VERSION = 44,
	AT_ZEROS = 48,
};

static const uint8_t magic[4] = { 'v', 'o', 't', 'e' };

static uint32_t copy_crc(const uint8_t *p)
{
	return crc32c(crc32c(0, p, AT_CRC), p + AT_SEQ, COPY_BYTES - AT_SEQ);
}

static void encode_slot(const struct wal_slot *s, uint8_t out[SLOT_BYTES])
{
	memset(out, 0, SLOT_BYTES);
	memcpy(out + AT_MAGIC, magic, sizeof(magic));
	put_le64(out + AT_SEQ, s->seq);
	put_le64(out + AT_TERM, s->term);
	put_le64(out + AT_VOTE, s->vote);
	put_le64(out + AT_DURABLE_SEGMENT, s->durable.segment);
	put_le32(out + AT_DURABLE_OFFSET, s->durable.offset);
	put_le32(out + AT_VERSION, WAL_VERSION);
	put_le32(out + AT_CRC, copy_crc(out));
	for (size_t i = 1; i < COPIES; i++)
		memcpy(out + i * COPY_BYTES, out, COPY_BYTES);
}

/* Good in itself, and at its place: a write that went to the other slot's place does not count. */
static bool decode_copy(const uint8_t *p, unsigned place, struct wal_slot *out, uint32_t *version)
{
	if (memcmp(p + AT_MAGIC, magic, sizeof(magic)) != 0 || get_le32(p + AT_CRC) != copy_crc(p))
		return false;
	*version = get_le32(p + AT_VERSION);
	*out = (struct wal_slot){
		.seq = get_le64(p + AT_SEQ),
		.term = get_le64(p + AT_TERM),
		.vote = get_le64(p + AT_VOTE),
		.durable = { get_le64(p + AT_DURABLE_SEGMENT), get_le32(p + AT_DURABLE_OFFSET) },
	};
	return out->seq % 2 == place;
}

/* Newest good copy of one slot. False: there is none. */
static bool read_slot(const uint8_t *p, unsigned place, struct wal_slots *all, struct wal_slot *out, uint32_t *version)
{
	size_t good = 0; /* copies of the newest write */
	for (size_t i = 0; i < COPIES; i++) {
		struct wal_slot s;
		uint32_t v = 0;
		if (!decode_copy(p + i * COPY_BYTES, place, &s, &v))
			continue;
		if (v > *version)
			*version = v;
		if (wal_pos_is_above(s.durable, all->durable))
			all->durable = s.durable;
		if (good == 0 || s.seq > out->seq) {
			*out = s;
			good = 0;
		}
		if (s.seq == out->seq)
			good++;
	}
	if (good < COPIES)
		all->is_damaged = true;
	return good > 0;
}

static int judge(const struct wal *w, const uint8_t *bytes, struct wal_slots *out, struct err *e)
{
	struct wal_slot slots[2] = { { 0 } };
	bool good[2];
	uint32_t version = 0;
	for (unsigned i = 0; i < 2; i++)
		good[i] = read_slot(bytes + (size_t)i * WAL_SLOT_STRIDE, i, out, &slots[i], &version);
	if (version > WAL_VERSION)
		return err_set(e, ERR_VERSION,
		               "%s/" WAL_SLOTS_NAME " has format %u, this release reads up to %u" WAL_REMEDY_VERSION,
		               w->dir, version, WAL_VERSION);
	if (!good[0] && !good[1])
		return err_set(e, ERR_CORRUPT,
		               "%s/" WAL_SLOTS_NAME
		               ": both slots are damaged (offsets 0 and %u): term and vote are lost" WAL_REMEDY,
		               w->dir, WAL_SLOT_STRIDE);
	if (!good[0] || !good[1]) {
		const unsigned bad = good[0] ? 1 : 0;
		return err_set(e, ERR_CORRUPT,
		               "%s/" WAL_SLOTS_NAME
		               ": slot %u at offset %u is damaged and may have held the newest vote "
		               "(the other has write %llu, term %llu)" WAL_REMEDY,
		               w->dir, bad, bad * WAL_SLOT_STRIDE, (unsigned long long)slots[!bad].seq,
		               (unsigned long long)slots[!bad].term);
	}
	out->newest = slots[0].seq > slots[1].seq ? slots[0] : slots[1];
	out->is_initial = out->newest.seq <= 1;
	return 0;
}

int wal_slots_load(const struct wal *w, struct wal_slots *out, struct err *e)
{
	*out = (struct wal_slots){ 0 };
	char path[WAL_PATH_BYTES];
	wal_path(w, WAL_SLOTS_NAME, path);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : wal_errno(e, errno, w, "open", WAL_SLOTS_NAME);
	uint8_t bytes[FILE_BYTES] = { 0 }; /* a file cut short reads as a damaged slot */
	const ssize_t got = wal_read_all(fd, bytes, sizeof(bytes), 0);
	close(fd);
	if (got < 0)
		return wal_errno(e, (int)-got, w, "read", WAL_SLOTS_NAME);
	out->found = true;
	return judge(w, bytes, out, e);
}

int wal_slots_create(struct wal *w, struct err *e)
{
	uint8_t bytes[FILE_BYTES] = { 0 };
	for (unsigned i = 0; i < 2; i++)
		encode_slot(&(struct wal_slot){ .seq = i }, bytes + (size_t)i * WAL_SLOT_STRIDE);

	char from[WAL_PATH_BYTES];
	char to[WAL_PATH_BYTES];
	wal_path(w, WAL_SLOTS_NEW_NAME, from);
	wal_path(w, WAL_SLOTS_NAME, to);
	const int fd = open(from, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return wal_errno(e, errno, w, "create", WAL_SLOTS_NEW_NAME);
	int errnum = wal_write_all(fd, bytes, sizeof(bytes), 0);
	if (!errnum && fdatasync(fd))
		errnum = errno;
	close(fd);
	if (!errnum && rename(from, to))
		errnum = errno;
	if (errnum) {
		unlink(from); /* best effort: the next start removes it */
		return wal_errno(e, errnum, w, "write", WAL_SLOTS_NEW_NAME);
	}
	if (fsync(w->dir_fd))
		return wal_errno(e, errno, w, "sync", ".");
	w->slot = (struct wal_slot){ .seq = 1 };
	return 0;
}

int wal_slots_open(struct wal *w, struct err *e)
{
	char path[WAL_PATH_BYTES];
	wal_path(w, WAL_SLOTS_NAME, path);
	w->slot_fd = open(path, O_WRONLY | O_DSYNC | O_CLOEXEC);
	return w->slot_fd < 0 ? wal_errno(e, errno, w, "open", WAL_SLOTS_NAME) : 0;
}

int wal_slot_write(struct wal *w, raft_term term, node_id vote, struct err *e)
{
	const struct wal_slot next = { w->slot.seq + 1, term, vote, w->durable };
	uint8_t bytes[SLOT_BYTES];
	encode_slot(&next, bytes);
	const ssize_t n = pwrite(w->slot_fd, bytes, sizeof(bytes), (off_t)(next.seq % 2 * WAL_SLOT_STRIDE));
	if (n != (ssize_t)sizeof(bytes))
		return wal_fail(w, e, n < 0 ? errno : 0, "write", WAL_SLOTS_NAME);
	w->slot = next;
	return 0;
}

/* The deliberate fault "term-and-vote-in-two-writes": the vote follows in a write of its own, which nobody syncs before
 * the answer leaves. */
static int write_in_two(struct wal *w, raft_term term, node_id vote, struct err *e)
{
	int rc = wal_slot_write(w, term, 0, e);
	if (rc || vote == 0)
		return rc;
	char path[WAL_PATH_BYTES];
	wal_path(w, WAL_SLOTS_NAME, path);
	const int synced_fd = w->slot_fd;
	w->slot_fd = open(path, O_WRONLY | O_CLOEXEC);
	if (w->slot_fd < 0)
		rc = wal_fail(w, e, errno, "open", WAL_SLOTS_NAME);
	else
		rc = wal_slot_write(w, term, vote, e);
	if (w->slot_fd >= 0)
		close(w->slot_fd);
	w->slot_fd = synced_fd;
	return rc;
}

int wal_put_hardstate(struct wal *w, raft_term term, node_id vote, struct err *e)
{
	assert(!w->read_only);
	const int rc = wal_check(w, e);
	if (rc)
		return rc;
	assert(term >= w->slot.term);
	assert(term > w->slot.term || w->slot.vote == 0 || w->slot.vote == vote); /* one vote a term */
	if (SIM_FAULT("vote-not-persisted")) {
		w->slot.term = term;
		w->slot.vote = vote;
		return 0;
	}
	if (SIM_FAULT("term-and-vote-in-two-writes"))
		return write_in_two(w, term, vote, e);
	return wal_slot_write(w, term, vote, e);
}
