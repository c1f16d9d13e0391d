/* wal/read.c - entries back from the files, beside the thread that appends.
 *
 * A reader has descriptors of its own, copies what it needs of the index once (so all it returns was the log at one
 * moment), and from there on meets only bytes that never change: a record is written once, and segments are removed
 * whole, oldest first. An unlinked file it has open stays readable; one it can no longer open was compacted away.
 * Records lie in the answer as they were read: an entry points into the slab of its chunk.
 */
#include "wal/wal_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#define CHUNK_SMALL (32u << 10) /* bytes; both are sizes that base/slab.c pools */
#define CHUNK_LARGE (256u << 10)

struct reader {
	const struct wal *w;
	int fd; /* of `segment`; -1 = none */
	uint64_t segment;
	uint32_t seed;
	size_t chunk_bytes;
	struct slab *chunk; /* NULL = none */
	uint64_t chunk_at;  /* where its first byte stands in the file */
	struct wal_record record;
	const uint8_t *payload; /* of it; inside the chunk */

	/* the answer */
	struct entry *out;
	size_t cap;
	size_t count;
	size_t bytes; /* of payload in it */
	size_t bytes_max;
	bool is_full;
};

static int corrupt(const struct reader *r, uint64_t offset, raft_index index, const char *why, struct err *e)
{
	char name[WAL_NAME_BYTES];
	wal_segment_name(r->segment, name);
	return err_set(e, ERR_CORRUPT, "%s/%s: damaged at offset %" PRIu64 ", index %" PRIu64 ": %s" WAL_REMEDY,
	               r->w->dir, name, offset, index, why);
}

static void drop_chunk(struct reader *r)
{
	slab_unref(r->chunk);
	r->chunk = NULL;
}

static int open_segment(struct reader *r, uint64_t segment, raft_index index, struct err *e)
{
	if (r->fd >= 0 && r->segment == segment)
		return 0;
	drop_chunk(r);
	if (r->fd >= 0)
		close(r->fd);
	r->segment = segment;

	char name[WAL_NAME_BYTES];
	char path[WAL_PATH_BYTES];
	wal_segment_name(segment, name);
	wal_path(r->w, name, path);
	r->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (r->fd < 0) {
		if (errno == ENOENT)
			return err_set(e, ERR_NOTFOUND, "index %" PRIu64 " was compacted away with %s", index, name);
		return wal_errno(e, errno, r->w, "open", name);
	}
	uint8_t bytes[WAL_HEADER_BYTES];
	struct wal_header h;
	const ssize_t got = wal_read_all(r->fd, bytes, sizeof(bytes), 0);
	if (got < 0)
		return wal_errno(e, (int)-got, r->w, "read", name);
	if (!wal_header_decode(bytes, (size_t)got, &h) || h.version != WAL_VERSION || h.segment != segment)
		return corrupt(r, 0, index, "its header does not verify", e);
	r->seed = h.seed;
	return 0;
}

/* Makes at least `size` bytes at `offset` readable in the chunk, if the file has them. */
static int fetch(struct reader *r, uint64_t offset, size_t size, struct err *e)
{
	if (r->chunk && offset >= r->chunk_at && offset + size <= r->chunk_at + r->chunk->len)
		return 0;
	drop_chunk(r);
	const size_t want = size > r->chunk_bytes ? size : r->chunk_bytes;
	r->chunk = slab_try_new(want);
	if (!r->chunk)
		return err_set(e, ERR_NOMEM, "no memory for %zu bytes of the log", want);
	r->chunk_at = offset;
	const ssize_t got = wal_read_all(r->fd, r->chunk->data, want, offset);
	if (got < 0) {
		char name[WAL_NAME_BYTES];
		wal_segment_name(r->segment, name);
		return wal_errno(e, (int)-got, r->w, "read", name);
	}
	r->chunk->len = (size_t)got;
	return 0;
}

/* Reads the record at `offset` into r->record and r->payload; it must be the one of `index`. */
static int read_record(struct reader *r, uint64_t offset, raft_index index, struct err *e)
{
	int rc = fetch(r, offset, WAL_RECORD_BYTES, e);
	if (rc)
		return rc;
	size_t avail = (size_t)(r->chunk_at + r->chunk->len - offset);
	if (avail < WAL_RECORD_BYTES || !wal_record_peek(r->chunk->data + (offset - r->chunk_at), &r->record))
		return corrupt(r, offset, index, "no record stands here", e);
	rc = fetch(r, offset, (size_t)wal_record_size(r->record.len), e);
	if (rc)
		return rc;
	avail = (size_t)(r->chunk_at + r->chunk->len - offset);
	const uint8_t *p = r->chunk->data + (offset - r->chunk_at);
	if (!wal_record_decode(p, avail, r->seed, &r->record) || r->record.index != index)
		return corrupt(r, offset, index, "its record does not verify", e);
	r->payload = p + WAL_RECORD_BYTES;
	return 0;
}

/* Adds the record read last to the answer, if it goes in. */
static void give(struct reader *r)
{
	const struct wal_record *rec = &r->record;
	if (r->count == r->cap || (r->count && rec->len > r->bytes_max - r->bytes)) {
		r->is_full = true;
		return;
	}
	r->out[r->count++] = (struct entry){
		.index = rec->index,
		.term = rec->term,
		.kind = rec->kind,
		.len = rec->len,
		.data = rec->len ? r->payload : NULL,
		.slab = rec->len ? slab_ref(r->chunk) : NULL,
	};
	r->bytes += rec->len;
	if (r->bytes >= r->bytes_max)
		r->is_full = true;
}

/* Entries up to `hi` of one span, without those below `lo`. */
static int read_span(struct reader *r, struct wal_span span, raft_index lo, raft_index hi, struct err *e)
{
	int rc = open_segment(r, span.at.segment, span.index, e);
	uint64_t offset = span.at.offset;
	for (raft_index i = span.index; !rc && i <= hi && !r->is_full; i++) {
		rc = read_record(r, offset, i, e);
		if (rc)
			break;
		offset += wal_record_size(r->record.len);
		if (i >= lo)
			give(r);
	}
	return rc;
}

int wal_read(struct wal *w, raft_index lo, raft_index hi, size_t bytes_max, struct entry *out, size_t cap, size_t *n,
             struct err *e)
{
	assert(lo > 0 && lo <= hi && cap > 0);
	*n = 0;
	int rc = wal_check(w, e);
	if (rc)
		return rc;
	struct wal_look look;
	wal_index_look(&w->live.index, lo, &look);
	if (lo > look.last)
		return 0;
	if (look.count == 0)
		return err_set(e, ERR_NOTFOUND, "index %" PRIu64 " was compacted away, the log begins at %" PRIu64, lo,
		               look.first ? look.first : look.last + 1);
	if (hi > look.covered)
		hi = look.covered;

	struct reader r = {
		.w = w,
		.fd = -1,
		.chunk_bytes = bytes_max <= CHUNK_SMALL / 2 ? CHUNK_SMALL : CHUNK_LARGE,
		.out = out,
		.cap = cap,
		.bytes_max = bytes_max,
	};
	for (size_t i = 0; !rc && !r.is_full && i < look.count && look.spans[i].index <= hi; i++) {
		const raft_index end = i + 1 < look.count ? look.spans[i + 1].index - 1 : hi;
		rc = read_span(&r, look.spans[i], lo, end < hi ? end : hi, e);
	}
	if (r.fd >= 0)
		close(r.fd);
	slab_unref(r.chunk);
	if (rc) {
		for (size_t i = 0; i < r.count; i++)
			entry_unref(&out[i]);
		return rc;
	}
	*n = r.count;
	return 0;
}
