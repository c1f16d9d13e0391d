/* wal/wal.c - the log as a whole: open, append, sync, reset, compact.
 *
 * Good path of an append: records are gathered as (fixed part, payload) pairs straight from the entries' slabs, one
 * pwritev for each segment touched (and each 511 records), then published to readers; wal_sync makes them durable and
 * moves the durable position, which later records carry.
 * At the end of a segment: it is synced, the next one gets its header, is synced, gets its name, the directory is
 * synced. So a segment that has a successor is whole, and an append into the successor never depends on an unsynced
 * name. How it fails: see wal_fail. After it nothing is written, so no record ever stands behind a hole.
 */
#include "wal/wal_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/mem.h"

/* ---- open ---- */

static struct wal *new_handle(const struct wal_options *o)
{
	struct wal *w = mem_zalloc(sizeof(*w));
	w->dir = mem_strdup(o->dir);
	w->dir_fd = -1;
	w->read_only = o->read_only;
	w->segment_bytes = o->segment_bytes ? o->segment_bytes : WAL_SEGMENT_BYTES;
	w->cluster_id = o->cluster_id;
	w->fd = -1;
	w->slot_fd = -1;
	w->spare_fd = -1;
	wal_live_init(&w->live);
	assert(w->segment_bytes >= WAL_SEGMENT_BYTES_MIN && w->segment_bytes <= WAL_SEGMENT_BYTES_MAX / 2);
	return w;
}

static int open_directory(struct wal *w, bool is_new, struct err *e)
{
	if (mkdir(w->dir, 0700) && errno != EEXIST)
		return err_set_errno(e, ERR_IO, errno, "cannot create %s", w->dir);
	w->dir_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->dir_fd < 0)
		return err_set_errno(e, ERR_IO, errno, "cannot open %s", w->dir);
	/* Also when an earlier start made the directory and was cut short before this. */
	const int errnum = is_new ? wal_sync_parent(w->dir) : 0;
	return errnum ? wal_errno(e, errnum, w, "sync", "..") : 0;
}

static int remove_file(struct wal *w, const char *name, struct err *e)
{
	char path[WAL_PATH_BYTES];
	wal_path(w, name, path);
	if (unlink(path) && errno != ENOENT)
		return wal_fail(w, e, errno, "remove", name);
	return 0;
}

static int remove_segment(struct wal *w, uint64_t segment, struct err *e)
{
	char name[WAL_NAME_BYTES];
	wal_segment_name(segment, name);
	return remove_file(w, name, e);
}

static int sync_directory(struct wal *w, struct err *e)
{
	return fsync(w->dir_fd) ? wal_fail(w, e, errno, "sync", ".") : 0;
}

static int remove_leftovers(struct wal *w, const struct wal_found *f, struct err *e)
{
	static const char *const names[] = { WAL_SPARE_NAME, WAL_NEW_NAME, WAL_SLOTS_NEW_NAME };
	int rc = 0;
	for (size_t i = 0; f->leftovers && !rc && i < ARRAY_LEN(names); i++)
		rc = remove_file(w, names[i], e);
	for (size_t i = 0; !rc && i < f->void_count; i++)
		rc = remove_segment(w, f->segments[i], e);
	if (!rc && (f->leftovers || f->void_count))
		rc = sync_directory(w, e);
	return rc;
}

/* What was read may never have reached the disk, after a killed process or a failed sync: before anybody builds on it,
 * it is all written anew. From here on the directory changes. */
static int settle(struct wal *w, const struct wal_found *f, struct err *e)
{
	int rc = open_directory(w, !f->has_slots, e);
	if (!rc && !f->has_slots)
		rc = wal_slots_create(w, e);
	if (!rc)
		rc = wal_slots_open(w, e);
	if (rc)
		return rc;
	if (f->segment_count) {
		struct wal_header h = f->tail;
		rc = wal_segment_rewrite(w, &h, f->bytes, e);
	} else {
		rc = wal_make_spare(w, false, e);
		if (!rc)
			rc = wal_segment_begin(w, true, 0, 0, e);
		w->first_segment = w->end.segment;
	}
	if (!rc)
		rc = remove_leftovers(w, f, e);
	if (!rc && f->has_slots)
		rc = wal_slot_write(w, w->slot.term, w->slot.vote, e);
	if (!rc && f->slots_damaged) {
		log_warn("wal.slot_mended", "dir=%s term=%" PRIu64, w->dir, w->slot.term);
		rc = wal_slot_write(w, w->slot.term, w->slot.vote, e);
	}
	return rc;
}

/* First index of the last entries whose records take at most bytes_max; last + 1 when there is none. */
static raft_index tail_start(const struct wal *w, const struct wal_found *f, size_t bytes_max)
{
	raft_index i = w->live.last_index + 1;
	size_t left = bytes_max;
	while (i > w->live.base_index + 1) {
		const uint64_t size = wal_record_size(f->lens[i - 1 - w->live.base_index - 1]);
		if (size > left)
			break;
		left -= (size_t)size;
		i--;
	}
	return i;
}

static int read_tail(struct wal *w, const struct wal_found *f, size_t bytes_max, struct wal_recovered *rec,
                     struct err *e)
{
	const raft_index lo = tail_start(w, f, bytes_max);
	const raft_index last = w->live.last_index;
	if (lo > last)
		return 0;
	const size_t count = (size_t)(last - lo + 1);
	rec->tail = mem_zalloc(count * sizeof(rec->tail[0]));
	while (rec->tail_count < count) {
		size_t n = 0;
		const int rc = wal_read(w, lo + rec->tail_count, last, bytes_max, rec->tail + rec->tail_count,
		                        count - rec->tail_count, &n, e);
		if (rc)
			return rc;
		assert(n > 0);
		rec->tail_count += n;
	}
	return 0;
}

static int read_confs(struct wal *w, const struct wal_found *f, struct wal_recovered *rec, struct err *e)
{
	for (size_t i = 0; i < 2 && i < f->conf_count; i++) {
		const raft_index index = f->confs[f->conf_count - 1 - i];
		size_t n = 0;
		const int rc = wal_read(w, index, index, 0, &rec->confs[i], 1, &n, e);
		if (rc)
			return rc;
		assert(n == 1);
		/* A copy of its own size: these live for long and would hold the chunk they were read in. */
		struct entry *c = &rec->confs[i];
		struct slab *own = c->len ? slab_from(c->data, c->len) : NULL;
		slab_unref(c->slab);
		c->slab = own;
		c->data = own ? own->data : NULL;
	}
	return 0;
}

static int report(struct wal *w, const struct wal_found *f, size_t tail_bytes_max, struct wal_recovered *rec,
                  struct err *e)
{
	const struct wal_live *l = &w->live;
	*rec = (struct wal_recovered){
		.fresh = f->segment_count == 0,
		.term = w->slot.term,
		.vote = w->slot.vote,
		.first_index = wal_first_index(w),
		.last_index = l->last_index,
		.base_index = l->base_index,
		.base_term = l->base_term,
		.terms = l->term_count ? mem_dup(l->terms, l->term_count * sizeof(l->terms[0])) : NULL,
		.term_count = l->term_count,
		.dropped_index = f->dropped_index,
	};
	int rc = read_tail(w, f, tail_bytes_max ? tail_bytes_max : WAL_TAIL_BYTES, rec, e);
	if (!rc)
		rc = read_confs(w, f, rec, e);
	if (rc) {
		wal_recovered_fini(rec);
		*rec = (struct wal_recovered){ 0 };
	}
	return rc;
}

int wal_open(const struct wal_options *o, struct wal **out, struct wal_recovered *rec, struct err *e)
{
	*rec = (struct wal_recovered){ 0 };
	if (strlen(o->dir) + 1 + WAL_NAME_BYTES > WAL_PATH_BYTES)
		return err_set(e, ERR_INVALID, "the name of the log's directory is too long");
	struct wal *w = new_handle(o);
	struct wal_found found = { 0 };
	int rc = wal_examine(w, &found, e);
	if (!rc && !w->read_only)
		rc = settle(w, &found, e);
	if (!rc)
		rc = report(w, &found, o->tail_bytes_max, rec, e);
	wal_found_fini(&found);
	if (rc) {
		wal_close(w);
		return rc;
	}
	*out = w;
	return 0;
}

bool wal_is_there(const char *dir)
{
	bool found = false;
	DIR *d = opendir(dir);
	if (!d)
		return false;
	for (const struct dirent *entry; !found && (entry = readdir(d)) != NULL;) {
		const struct str name = str_of(entry->d_name);
		found = str_is(name, WAL_SLOTS_NAME) || (name.len == 20 && memcmp(name.p + 16, ".seg", 4) == 0);
	}
	closedir(d);
	return found;
}

void wal_recovered_fini(struct wal_recovered *rec)
{
	for (size_t i = 0; i < rec->tail_count; i++)
		entry_unref(&rec->tail[i]);
	for (size_t i = 0; i < ARRAY_LEN(rec->confs); i++)
		entry_unref(&rec->confs[i]);
	mem_free(rec->tail);
	mem_free(rec->terms);
	*rec = (struct wal_recovered){ 0 };
}

void wal_close(struct wal *w)
{
	if (!w)
		return;
	const int fds[] = { w->fd, w->dir_fd, w->slot_fd, w->spare_fd };
	for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
		if (fds[i] >= 0)
			close(fds[i]); /* nothing hangs on its answer: what had to be on disk was synced */
	}
	wal_live_fini(&w->live);
	mem_free(w->dir);
	mem_free(w);
}

void wal_set_cluster_id(struct wal *w, uint64_t cluster_id)
{
	w->cluster_id = cluster_id;
}

/* ---- append and sync ---- */

/* Syncs the current segment, if it holds anything unsynced. */
static int sync_current(struct wal *w, struct err *e)
{
	if (!wal_pos_is_above(w->end, w->durable))
		return 0;
	if (!SIM_FAULT("ack-before-sync") && fdatasync(w->fd)) {
		const int errnum = errno;
		char name[WAL_NAME_BYTES];
		wal_segment_name(w->end.segment, name);
		return wal_fail(w, e, errnum, "sync", name);
	}
	w->durable = w->end;
	return 0;
}

int wal_sync(struct wal *w, struct err *e)
{
	assert(!w->read_only);
	const int rc = wal_check(w, e);
	return rc ? rc : sync_current(w, e);
}

static void check_batch(const struct wal *w, const struct entry *entries, size_t n)
{
	assert(!w->read_only);
	assert(entries[0].index > w->live.base_index);
	assert(entries[0].index <= w->live.last_index + 1);
	assert(entries[0].term >= wal_live_term(&w->live, entries[0].index - 1));
	for (size_t i = 0; i < n; i++) {
		assert(entries[i].len <= ENTRY_PAYLOAD_MAX);
		assert(entries[i].kind != 0);
		assert(i == 0 || entries[i].index == entries[i - 1].index + 1);
		assert(i == 0 || entries[i].term >= entries[i - 1].term);
	}
	assert(entries[n - 1].term <= w->slot.term); /* else a restart would miss a vote */
}

/* Does a record of this size go into the current segment? An empty one takes any and grows if it must. */
static bool fits(const struct wal *w, uint64_t offset, uint64_t size)
{
	return offset == WAL_HEADER_BYTES || offset + size <= w->segment_bytes;
}

/* What one pwritev will write. */
struct batch {
	size_t count; /* records */
	int parts;    /* used in w->parts */
	size_t bytes;
	uint32_t crc; /* of the last record */
};

static struct batch gather(struct wal *w, const struct entry *entries, size_t n, raft_term prev_term)
{
	struct batch b = { .crc = w->last_crc };
	size_t padding = 0; /* of the record before */
	while (b.count < n && b.count < WAL_BATCH_RECORDS) {
		const struct entry *entry = &entries[b.count];
		const uint64_t size = wal_record_size(entry->len);
		if (!fits(w, w->end.offset + b.bytes, size))
			break;
		const struct wal_record r = {
			.len = entry->len,
			.prev_crc = b.crc,
			.kind = entry->kind,
			.index = entry->index,
			.term = entry->term,
			.prev_term = prev_term,
			.durable = w->durable,
			.slot_seq = w->slot.seq,
		};
		struct wal_head *head = &w->heads[b.count];
		b.crc = wal_record_encode(&r, entry->data, w->seed, head->bytes + WAL_PAD_BYTES);
		w->parts[b.parts++] =
		    (struct iovec){ head->bytes + WAL_PAD_BYTES - padding, padding + WAL_RECORD_BYTES };
		if (entry->len)
			w->parts[b.parts++] = (struct iovec){ (void *)entry->data, entry->len };
		padding = (size_t)(size - WAL_RECORD_BYTES - entry->len);
		b.bytes += (size_t)size;
		b.count++;
		prev_term = entry->term;
	}
	if (padding)
		w->parts[b.parts++] = (struct iovec){ w->heads[0].bytes, padding };
	return b;
}

static int write_batch(struct wal *w, const struct batch *b, const struct entry *entries, struct err *e)
{
	const ssize_t n = pwritev(w->fd, w->parts, b->parts, (off_t)w->end.offset);
	if (n != (ssize_t)b->bytes) {
		const int errnum = n < 0 ? errno : 0;
		char name[WAL_NAME_BYTES];
		wal_segment_name(w->end.segment, name);
		return wal_fail(w, e, errnum, "write", name);
	}
	wal_index_begin(&w->live.index);
	for (size_t i = 0; i < b->count; i++) {
		wal_live_note(&w->live, entries[i].index, entries[i].term, w->end);
		w->end.offset += (uint32_t)wal_record_size(entries[i].len);
	}
	wal_index_end(&w->live.index);
	w->last_crc = b->crc;
	return 0;
}

static int begin_next(struct wal *w, struct err *e)
{
	const int rc = sync_current(w, e);
	if (rc)
		return rc;
	return wal_segment_begin(w, false, w->live.last_index, wal_live_term(&w->live, w->live.last_index), e);
}

int wal_append(struct wal *w, const struct entry *entries, size_t n, struct err *e)
{
	int rc = wal_check(w, e);
	if (rc || n == 0)
		return rc;
	check_batch(w, entries, n);
	raft_term prev_term = wal_live_term(&w->live, entries[0].index - 1);
	for (size_t done = 0; !rc && done < n;) {
		if (!fits(w, w->end.offset, wal_record_size(entries[done].len))) {
			rc = begin_next(w, e);
			continue;
		}
		const struct batch b = gather(w, entries + done, n - done, prev_term);
		rc = write_batch(w, &b, entries + done, e);
		done += b.count;
		prev_term = entries[done - 1].term;
	}
	return rc;
}

/* ---- reset and compaction ---- */

/* The new segment says that the log starts with it, and everything before is void once it has its name: wholly before
 * or wholly after. Removing the old ones is only tidying, which the next start would finish. */
int wal_reset(struct wal *w, raft_index index, raft_term term, struct err *e)
{
	assert(!w->read_only);
	int rc = wal_check(w, e);
	if (!rc)
		rc = wal_segment_begin(w, true, index, term, e);
	if (rc)
		return rc;
	wal_live_restart(&w->live, index, term);
	const uint64_t first = w->first_segment;
	w->first_segment = w->end.segment;
	for (uint64_t s = first; !rc && s < w->end.segment; s++)
		rc = remove_segment(w, s, e);
	return rc ? rc : sync_directory(w, e);
}

/* The first segment that must stay. */
static uint64_t keep_from(const struct wal *w, raft_index upto)
{
	uint64_t s = w->first_segment;
	for (; s < w->end.segment; s++) {
		const raft_index next = wal_index_first_above(&w->live.index, s);
		if ((next ? next - 1 : w->live.last_index) > upto)
			break;
	}
	return s;
}

int wal_compact(struct wal *w, raft_index upto, struct err *e)
{
	assert(!w->read_only);
	int rc = wal_check(w, e);
	const uint64_t keep = keep_from(w, upto);
	if (rc || keep == w->first_segment)
		return rc;
	/* An override that is not on disk yet must not be the reason to remove what it overrides. */
	rc = sync_current(w, e);
	if (rc)
		return rc;
	wal_live_drop(&w->live, keep);
	while (!rc && w->first_segment < keep) {
		rc = remove_segment(w, w->first_segment, e);
		/* One at a time: a power cut must not leave a hole between two segments. */
		if (!rc)
			rc = sync_directory(w, e);
		if (!rc)
			w->first_segment++;
	}
	return rc;
}

raft_index wal_first_index(const struct wal *w)
{
	return atomic_load_explicit(&w->live.index.first, memory_order_acquire);
}

raft_index wal_last_index(const struct wal *w)
{
	return atomic_load_explicit(&w->live.index.last, memory_order_acquire);
}
