/* wal/recover.c - what does the directory hold? Looks at everything and changes nothing.
 *
 * The one hard question is a record that does not verify: a write that never finished, which is dropped, or damage to
 * something that was acknowledged, which must stop the node. It is damage if anything that does verify says that the
 * log was on disk beyond this place when it was written:
 *
 *  - a later record of the same segment (each names the position known durable; it is looked for at every 8 bytes),
 *  - the mere existence of a next segment (it is begun only after this one is synced, and names its last CRC),
 *  - a copy of term and vote (each names the position too).
 *
 * Otherwise nobody was told of the record: it is the torn tail.
 */
#include "wal/wal_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fault.h"
#include "base/mem.h"

/* The state of one examination. */
struct walk {
	struct wal *w;
	struct wal_found *f;
	struct wal_slots slots;
	struct wal_header *heads; /* of the segments from f->void_count on; segment 0 = does not verify */
	size_t size;              /* bytes of the file in f->bytes */
	uint32_t at;              /* where the valid part of it ends */
	bool may_lower;    /* the log's beginning was compacted away: an override may reach below the first record */
	uint64_t slot_seq; /* newest slot write any record knows of */
	struct wal_record newest; /* of the highest term */
	bool torn_accepted;       /* deliberate fault */
};

static int damaged(const struct walk *k, uint64_t segment, uint32_t offset, raft_index index, const char *why,
                   struct err *e)
{
	char name[WAL_NAME_BYTES];
	wal_segment_name(segment, name);
	return err_set(e, ERR_CORRUPT, "%s/%s: damaged at offset %" PRIu32 ", index %" PRIu64 ": %s" WAL_REMEDY,
	               k->w->dir, name, offset, index, why);
}

/* ---- the directory ---- */

static int by_number(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a;
	const uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void take_name(struct wal_found *f, size_t *cap, const char *name)
{
	const struct str s = str_of(name);
	uint64_t segment;
	if (str_is(s, WAL_SPARE_NAME) || str_is(s, WAL_NEW_NAME) || str_is(s, WAL_SLOTS_NEW_NAME))
		f->leftovers = true;
	if (s.len != 20 || memcmp(name + 16, ".seg", 4) != 0 || !hex64_parse((struct str){ name, 16 }, &segment))
		return;
	if (f->segment_count == *cap) {
		*cap = *cap ? 2 * *cap : 64;
		f->segments = mem_realloc(f->segments, *cap * sizeof(f->segments[0]));
	}
	f->segments[f->segment_count++] = segment;
}

static int list_directory(struct wal *w, struct wal_found *f, struct err *e)
{
	DIR *d = opendir(w->dir);
	if (!d) /* wal_open makes it */
		return errno == ENOENT ? 0 : err_set_errno(e, ERR_IO, errno, "cannot open %s", w->dir);
	size_t cap = 0;
	errno = 0;
	for (const struct dirent *entry; (entry = readdir(d)) != NULL;)
		take_name(f, &cap, entry->d_name);
	const int errnum = errno;
	closedir(d);
	if (errnum)
		return err_set_errno(e, ERR_IO, errnum, "cannot list %s", w->dir);
	if (f->segment_count)
		qsort(f->segments, f->segment_count, sizeof(f->segments[0]), by_number);
	return 0;
}

/* ---- headers ---- */

static int read_header(const struct walk *k, uint64_t segment, struct wal_header *out, struct err *e)
{
	char name[WAL_NAME_BYTES];
	char path[WAL_PATH_BYTES];
	wal_segment_name(segment, name);
	wal_path(k->w, name, path);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return wal_errno(e, errno, k->w, "open", name);
	uint8_t bytes[WAL_HEADER_BYTES];
	const ssize_t got = wal_read_all(fd, bytes, sizeof(bytes), 0);
	close(fd);
	if (got < 0)
		return wal_errno(e, (int)-got, k->w, "read", name);
	if (!wal_header_decode(bytes, (size_t)got, out) || out->segment != segment)
		out->segment = 0;
	return 0;
}

/* A segment begun anew makes all before it void: they are what a reset had no time to remove. */
static int read_headers(struct walk *k, struct err *e)
{
	struct wal_found *f = k->f;
	struct wal_header *all = mem_zalloc(f->segment_count * sizeof(*all));
	int rc = 0;
	size_t first = f->segment_count;
	while (!rc && first > 0) {
		first--;
		rc = read_header(k, f->segments[first], &all[first], e);
		if (all[first].segment && all[first].version == WAL_VERSION && all[first].anew)
			break;
	}
	f->void_count = first;
	k->heads = mem_dup(all + first, (f->segment_count - first) * sizeof(*all));
	mem_free(all);
	return rc;
}

static int check_header(struct walk *k, size_t i, struct err *e)
{
	const uint64_t segment = k->f->segments[k->f->void_count + i];
	const struct wal_header *h = &k->heads[i];
	char name[WAL_NAME_BYTES];
	wal_segment_name(segment, name);
	if (h->segment == 0)
		return damaged(k, segment, 0, k->w->live.last_index + 1, "its header does not verify", e);
	if (h->version != WAL_VERSION)
		return err_set(e, ERR_VERSION,
		               "%s/%s has format %" PRIu32 ", this release reads format %u" WAL_REMEDY_VERSION,
		               k->w->dir, name, h->version, WAL_VERSION);
	if (h->cluster_id && k->w->cluster_id && h->cluster_id != k->w->cluster_id)
		return err_set(e, ERR_IDENTITY,
		               "%s/%s belongs to cluster %016" PRIx64 ", not to %016" PRIx64
		               "; start with this node's own data directory",
		               k->w->dir, name, h->cluster_id, k->w->cluster_id);
	return 0;
}

/* ---- records ---- */

static int load(struct walk *k, uint64_t segment, struct err *e)
{
	struct wal_found *f = k->f;
	char name[WAL_NAME_BYTES];
	char path[WAL_PATH_BYTES];
	wal_segment_name(segment, name);
	wal_path(k->w, name, path);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return wal_errno(e, errno, k->w, "open", name);

	int rc = 0;
	struct stat st;
	if (fstat(fd, &st)) {
		rc = wal_errno(e, errno, k->w, "look at", name);
		goto out;
	}
	if (st.st_size > (off_t)WAL_SEGMENT_BYTES_MAX) {
		rc = err_set(e, ERR_CORRUPT, "%s: larger than any segment, which has at most %llu bytes" WAL_REMEDY,
		             path, (unsigned long long)WAL_SEGMENT_BYTES_MAX);
		goto out;
	}
	k->size = (size_t)st.st_size;
	if (k->size > f->bytes_cap) {
		mem_free(f->bytes);
		f->bytes_cap = 0;
		f->bytes = mem_try_alloc(k->size);
		if (!f->bytes) {
			rc = err_set(e, ERR_NOMEM, "no memory for the %zu bytes of %s", k->size, path);
			goto out;
		}
		f->bytes_cap = k->size;
	}
	const ssize_t got = wal_read_all(fd, f->bytes, k->size, 0);
	if (got < 0)
		rc = wal_errno(e, (int)-got, k->w, "read", name);
	else
		k->size = (size_t)got;
out:
	close(fd);
	return rc;
}

static void note_len(struct wal_found *f, size_t at, uint32_t len)
{
	assert(at <= f->len_count);
	if (at == f->len_cap) {
		f->len_cap = f->len_cap ? 2 * f->len_cap : 1024;
		f->lens = mem_realloc(f->lens, f->len_cap * sizeof(f->lens[0]));
	}
	f->lens[at] = len;
	f->len_count = at + 1;
}

static void note_conf(struct wal_found *f, const struct wal_record *r)
{
	while (f->conf_count && f->confs[f->conf_count - 1] >= r->index)
		f->conf_count--;
	if (r->kind != ENTRY_CONFIG)
		return;
	if (f->conf_count == f->conf_cap) {
		f->conf_cap = f->conf_cap ? 2 * f->conf_cap : 16;
		f->confs = mem_realloc(f->confs, f->conf_cap * sizeof(f->confs[0]));
	}
	f->confs[f->conf_count++] = r->index;
}

/* A record that verifies must also make sense behind the ones before it. */
static int take_record(struct walk *k, const struct wal_record *r, struct err *e)
{
	struct wal_live *l = &k->w->live;
	const struct wal_pos at = { k->w->end.segment, k->at };
	if (r->index > l->last_index + 1)
		return damaged(k, at.segment, at.offset, l->last_index + 1,
		               "entries are missing before the one that stands here", e);
	if (r->index <= l->base_index) {
		if (!k->may_lower)
			return damaged(k, at.segment, at.offset, r->index, "it lies before the beginning of the log",
			               e);
		wal_live_restart(l, r->index - 1, r->prev_term);
		k->f->conf_count = 0;
	} else if (r->prev_term != wal_live_term(l, r->index - 1)) {
		return damaged(k, at.segment, at.offset, r->index, "the entry before it has another term than it says",
		               e);
	}
	if (r->term < r->prev_term)
		return damaged(k, at.segment, at.offset, r->index, "its term is lower than that of the entry before it",
		               e);

	wal_index_begin(&l->index);
	wal_live_note(l, r->index, r->term, at);
	wal_index_end(&l->index);
	note_len(k->f, (size_t)(r->index - l->base_index - 1), r->len);
	note_conf(k->f, r);
	if (r->slot_seq > k->slot_seq)
		k->slot_seq = r->slot_seq;
	if (r->term > k->newest.term)
		k->newest = *r;
	return 0;
}

/* The deliberate fault "torn-tail-accepted": what looks like the next record is believed without its CRC. */
static bool accept_torn(struct walk *k, const struct wal_header *h, struct wal_record *r)
{
	if (!SIM_FAULT("torn-tail-accepted") || k->torn_accepted || k->size - k->at < WAL_RECORD_BYTES)
		return false;
	uint8_t *p = k->f->bytes + k->at;
	if (!wal_record_peek(p, r) || r->index != k->w->live.last_index + 1 ||
	    wal_record_size(r->len) > k->size - k->at)
		return false;
	k->torn_accepted = true;
	r->crc = wal_record_reseal(p, k->w->last_crc, h->seed);
	r->prev_crc = k->w->last_crc;
	return true;
}

static int walk_segment(struct walk *k, size_t i, struct err *e)
{
	const struct wal_header *h = &k->heads[i];
	struct wal *w = k->w;
	int rc = check_header(k, i, e);
	if (!rc)
		rc = load(k, h->segment, e);
	if (rc)
		return rc;
	if (i == 0) {
		wal_live_restart(&w->live, h->base_index, h->base_term);
		w->last_crc = h->start_crc;
		k->may_lower = !h->anew;
	}
	w->end.segment = h->segment;
	k->at = WAL_HEADER_BYTES;
	while (k->at < k->size) {
		struct wal_record r;
		const bool good = wal_record_decode(k->f->bytes + k->at, k->size - k->at, h->seed, &r);
		if (!(good && r.prev_crc == w->last_crc) && !accept_torn(k, h, &r))
			break;
		rc = take_record(k, &r, e);
		if (rc)
			return rc;
		w->last_crc = r.crc;
		k->at += (uint32_t)wal_record_size(r.len);
	}
	w->end.offset = k->at;
	return 0;
}

/* ---- the end of the valid part ---- */

/* The index of a torn record: what it says, if that is possible, else the next one. */
static raft_index torn_index(const struct walk *k)
{
	const struct wal_live *l = &k->w->live;
	struct wal_record r;
	if (k->size - k->at >= WAL_RECORD_BYTES && wal_record_peek(k->f->bytes + k->at, &r) &&
	    r.index > l->base_index && r.index <= l->last_index)
		return r.index;
	return l->last_index + 1;
}

/* Does a later record of this segment say that the log was durable beyond k->at? Only those are looked at twice, so
 * that the CRC is computed for next to nothing. */
static bool declared_by_record(const struct walk *k, uint32_t seed)
{
	for (size_t at = (size_t)k->at + 8; at < k->size && k->size - at >= WAL_RECORD_BYTES; at += 8) {
		struct wal_record r;
		const uint8_t *p = k->f->bytes + at;
		if (!wal_record_peek(p, &r) || r.durable.offset > at || !wal_pos_is_above(r.durable, k->w->end))
			continue;
		if (r.durable.segment == k->w->end.segment && wal_record_decode(p, k->size - at, seed, &r))
			return true;
	}
	return false;
}

static bool has_bytes_behind(const struct walk *k)
{
	for (size_t at = k->at; at < k->size; at++) {
		if (k->f->bytes[at])
			return true;
	}
	return false;
}

static int judge_end(struct walk *k, const struct wal_header *h, struct err *e)
{
	const char *witness = NULL;
	if (declared_by_record(k, h->seed))
		witness = "a later record shows that it was durable";
	else if (wal_pos_is_above(k->slots.durable, k->w->end))
		witness = "the slots of term and vote show that it was durable";
	if (witness && !SIM_FAULT("damage-cut-off"))
		return damaged(k, k->w->end.segment, k->at, k->w->live.last_index + 1, witness, e);
	if (has_bytes_behind(k))
		k->f->dropped_index = torn_index(k);
	return 0;
}

/* Are term and vote as new as the log? */
static int check_slots(const struct walk *k, struct err *e)
{
	const struct wal_slot *s = &k->slots.newest;
	if (k->slot_seq > s->seq)
		return err_set(e, ERR_CORRUPT,
		               "%s/" WAL_SLOTS_NAME " is too old: its newest write is number %" PRIu64
		               " (offset %u), the log up to index "
		               "%" PRIu64 " knows of number %" PRIu64 ": a vote is lost" WAL_REMEDY,
		               k->w->dir, s->seq, s->seq % 2 ? WAL_SLOT_STRIDE : 0u, k->w->live.last_index,
		               k->slot_seq);
	if (k->newest.term > s->term)
		return err_set(e, ERR_CORRUPT,
		               "%s/" WAL_SLOTS_NAME " is too old: it says term %" PRIu64
		               " (offset %u), but the entry of index %" PRIu64 " has term %" PRIu64
		               ": a vote is lost" WAL_REMEDY,
		               k->w->dir, s->term, s->seq % 2 ? WAL_SLOT_STRIDE : 0u, k->newest.index, k->newest.term);
	return 0;
}

/* Is segment i + 1 the one that continues segment i, which was just walked? */
static int check_successor(const struct walk *k, size_t i, struct err *e)
{
	const struct wal_pos end = k->w->end;
	const struct wal_header *next = &k->heads[i + 1];
	if (k->f->segments[k->f->void_count + i + 1] != end.segment + 1) {
		char name[WAL_NAME_BYTES];
		wal_segment_name(end.segment + 1, name);
		return err_set(e, ERR_CORRUPT, "%s/%s is missing: offset 0, index %" PRIu64 WAL_REMEDY, k->w->dir, name,
		               k->w->live.last_index + 1);
	}
	if (next->segment && next->start_crc != k->w->last_crc)
		return damaged(k, end.segment, end.offset, k->w->live.last_index + 1,
		               "the next segment shows that it was durable", e);
	return 0;
}

static int walk_all(struct walk *k, struct err *e)
{
	const size_t count = k->f->segment_count - k->f->void_count;
	for (size_t i = 0; i < count; i++) {
		int rc = walk_segment(k, i, e);
		if (!rc && i + 1 < count)
			rc = check_successor(k, i, e);
		if (rc)
			return rc;
	}
	return judge_end(k, &k->heads[count - 1], e);
}

int wal_examine(struct wal *w, struct wal_found *f, struct err *e)
{
	struct walk k = { .w = w, .f = f };
	int rc = list_directory(w, f, e);
	if (!rc)
		rc = wal_slots_load(w, &k.slots, e);
	if (rc)
		return rc;
	f->has_slots = k.slots.found;
	f->slots_damaged = k.slots.is_damaged;
	w->slot = k.slots.newest;
	if (f->segment_count == 0) {
		/* A start that was cut short leaves untouched slots alone; anything put into them came after a segment.
		 */
		if (k.slots.found && !k.slots.is_initial)
			return err_set(
			    e, ERR_CORRUPT,
			    "%s: no segment beside term and vote: offset 0, index 1: the log is lost" WAL_REMEDY,
			    w->dir);
		return 0;
	}
	if (!k.slots.found)
		return err_set(e, ERR_CORRUPT,
		               "%s/" WAL_SLOTS_NAME " is missing beside a log: term and vote are lost" WAL_REMEDY,
		               w->dir);

	rc = read_headers(&k, e);
	if (!rc)
		rc = walk_all(&k, e);
	if (!rc)
		rc = check_slots(&k, e);
	if (!rc) {
		w->first_segment = f->segments[f->void_count];
		w->seed = k.heads[f->segment_count - f->void_count - 1].seed;
		f->tail = k.heads[f->segment_count - f->void_count - 1];
	}
	mem_free(k.heads);
	return rc;
}

void wal_found_fini(struct wal_found *f)
{
	mem_free(f->segments);
	mem_free(f->bytes);
	mem_free(f->lens);
	mem_free(f->confs);
	*f = (struct wal_found){ 0 };
}
