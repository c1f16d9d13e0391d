/* tests/fuzz/fuzz_wal.c - a log driven and damaged by a script.
 *
 * Input: bytes of a script (see run_script): appends, overrides, restarts, and every kind of damage to the files, also
 * records and copies of term and vote with fields of the input's choice under right checksums. What must hold:
 *
 *  - without damage a restart finds exactly what was written;
 *  - after damage it either refuses, and then no file has changed, or gives a log that can be read from end to end,
 *    without a gap and with terms that never fall, and the next restart gives the same one.
 */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/mem.h"
#include "wal/wal.h"
#include "wal/wal_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SEGMENT_BYTES 1024u
#define FILE_BYTES_MAX 65536u
#define ENTRIES_MAX 2000u
#define STEPS_MAX 60

/* Nobody cuts the power here; syncing would be all the time there is. */
int fsync(int fd)
{
	(void)fd;
	return 0;
}

int fdatasync(int fd)
{
	(void)fd;
	return 0;
}

static char wal_dir[64];

struct input {
	const uint8_t *p;
	size_t left;
};

static uint64_t take(struct input *in, size_t n)
{
	uint64_t v = 0;
	for (; n && in->left; n--, in->left--)
		v = v << 8 | *in->p++;
	return v;
}

/* What the log must hold, unless it was damaged. */
static struct {
	raft_index base, last;
	raft_term terms[ENTRIES_MAX];
	raft_term term;
	bool damaged;
} model;

/* ---- files ---- */

static void for_each_file(void (*fn)(const char *name, void *arg), void *arg)
{
	DIR *d = opendir(wal_dir);
	if (!d)
		return;
	const struct dirent *entry;
	while ((entry = readdir(d)) != NULL) {
		if (entry->d_name[0] != '.')
			fn(entry->d_name, arg);
	}
	closedir(d);
}

static int open_file(const char *name, int flags)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", wal_dir, name);
	return open(path, flags);
}

static size_t load(const char *name, uint8_t *out)
{
	const int fd = open_file(name, O_RDONLY);
	assert(fd >= 0);
	const ssize_t n = read(fd, out, FILE_BYTES_MAX);
	assert(n >= 0);
	close(fd);
	return (size_t)n;
}

static void store_at(const char *name, const void *bytes, size_t len, uint64_t offset)
{
	const int fd = open_file(name, O_WRONLY);
	assert(fd >= 0);
	const ssize_t n = pwrite(fd, bytes, len, (off_t)offset);
	assert(n == (ssize_t)len);
	close(fd);
}

static void remove_one(const char *name, void *arg)
{
	(void)arg;
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", wal_dir, name);
	remove(path);
}

static void hash_one(const char *name, void *arg)
{
	static uint8_t bytes[FILE_BYTES_MAX];
	const size_t n = load(name, bytes);
	*(uint64_t *)arg += (uint64_t)crc32c(crc32c(0, name, strlen(name)), bytes, n) * 0x9e3779b97f4a7c15u + n;
}

static uint64_t hash_files(void)
{
	uint64_t sum = 0;
	for_each_file(hash_one, &sum);
	return sum;
}

struct choice {
	uint64_t left;
	char name[64];
	char last[64]; /* the last segment */
};

static void choose_one(const char *name, void *arg)
{
	struct choice *c = arg;
	if (strstr(name, ".seg") && strcmp(name, c->last) > 0)
		snprintf(c->last, sizeof(c->last), "%s", name);
	if (c->left-- == 0)
		snprintf(c->name, sizeof(c->name), "%s", name);
}

/* Some file, or the last segment. */
static struct choice choose(uint64_t n)
{
	struct choice c = { .left = n % 8 };
	for_each_file(choose_one, &c);
	if (!c.name[0])
		memcpy(c.name, c.last, sizeof(c.name));
	return c;
}

/* ---- damage ---- */

/* A record with fields of the input's choice that verifies where it stands: behind the last good one, or over one. */
static void craft_record(struct input *in)
{
	static uint8_t bytes[FILE_BYTES_MAX + WAL_RECORD_BYTES + 256];
	const struct choice c = choose(9);
	struct wal_header h;
	if (!c.name[0])
		return;
	const size_t n = load(c.name, bytes);
	if (!wal_header_decode(bytes, n, &h))
		return;
	const uint64_t skip = take(in, 1);
	size_t at = WAL_HEADER_BYTES;
	uint32_t crc = h.start_crc;
	raft_index index = h.base_index;
	struct wal_record r;
	for (uint64_t i = 0; i < skip && at < n && wal_record_decode(bytes + at, n - at, h.seed, &r); i++) {
		at += (size_t)wal_record_size(r.len);
		crc = r.crc;
		index = r.index;
	}
	const raft_term term = index < ENTRIES_MAX ? model.terms[index] : 0;
	r = (struct wal_record){
		.len = (uint32_t)take(in, 1) % 128,
		.prev_crc = crc,
		.kind = (uint8_t)take(in, 1),
		.index = index + 1 + (uint64_t)(int64_t)(int8_t)take(in, 1),
		.prev_term = term + (uint64_t)(int64_t)(int8_t)take(in, 1),
		.durable = { h.segment + (uint64_t)(int64_t)(int8_t)take(in, 1), (uint32_t)take(in, 2) },
		.slot_seq = take(in, 1),
	};
	r.term = r.prev_term + (uint64_t)(int64_t)(int8_t)take(in, 1);
	if (take(in, 1) == 0)
		r.index = UINT64_MAX - take(in, 1);
	static const uint8_t payload[128];
	(void)wal_record_encode(&r, payload, h.seed, bytes + at);
	memset(bytes + at + WAL_RECORD_BYTES, 0, (size_t)wal_record_size(r.len) - WAL_RECORD_BYTES);
	store_at(c.name, bytes + at, (size_t)wal_record_size(r.len), at);
}

static void craft_header(struct input *in)
{
	uint8_t bytes[WAL_HEADER_BYTES];
	const struct choice c = choose(take(in, 1));
	struct wal_header h;
	static uint8_t file[FILE_BYTES_MAX];
	if (!strstr(c.name, ".seg") || !wal_header_decode(file, load(c.name, file), &h))
		return;
	const uint64_t what = take(in, 1);
	if (what & 1)
		h.anew = !h.anew;
	if (what & 2)
		h.base_index = take(in, what & 64 ? 8 : 1);
	if (what & 4)
		h.base_term = take(in, what & 64 ? 8 : 1);
	if (what & 8)
		h.start_crc = (uint32_t)take(in, 4);
	if (what & 16)
		h.segment = take(in, 1);
	if (what & 32)
		h.version = (uint32_t)take(in, 1);
	wal_header_encode(&h, bytes);
	store_at(c.name, bytes, sizeof(bytes), 0);
}

/* One copy in a slot: as hardstate.c writes it, with fields of the input's choice. */
static void craft_slot(struct input *in)
{
	uint8_t copy[64] = "vote";
	const uint64_t place = take(in, 1);
	put_le64(copy + 8, take(in, 1));
	put_le64(copy + 16, take(in, place & 64 ? 8 : 1));
	put_le64(copy + 24, take(in, 1));
	put_le64(copy + 32, take(in, 1) % 8);
	put_le32(copy + 40, (uint32_t)take(in, 2));
	put_le32(copy + 44, place & 128 ? (uint32_t)take(in, 1) : WAL_VERSION);
	put_le32(copy + 4, crc32c(crc32c(0, copy, 4), copy + 8, sizeof(copy) - 8));
	const uint64_t first = place >> 1 & 7;
	for (uint64_t i = first; i < 8; i++)
		store_at("hardstate", copy, sizeof(copy), (place & 1) * WAL_SLOT_STRIDE + i * sizeof(copy));
}

static void damage(struct input *in)
{
	model.damaged = true;
	const uint64_t kind = take(in, 1) % 7;
	const struct choice c = choose(take(in, 1));
	static uint8_t bytes[FILE_BYTES_MAX];
	const size_t n = c.name[0] ? load(c.name, bytes) : 0;
	if (n == 0)
		return;
	const uint64_t at = take(in, 2) % n;
	switch (kind) {
	case 0: {
		const uint8_t flipped = bytes[at] ^ (uint8_t)take(in, 1);
		store_at(c.name, &flipped, 1, at);
		break;
	}
	case 1: {
		const int fd = open_file(c.name, O_WRONLY);
		assert(fd >= 0 && ftruncate(fd, (off_t)at) == 0);
		close(fd);
		break;
	}
	case 2: {
		const size_t len = in->left < 200 ? in->left : 200;
		store_at(c.name, in->p, len, at);
		in->p += len;
		in->left -= len;
		break;
	}
	case 3: remove_one(c.name, NULL); break;
	case 4: craft_record(in); break;
	case 5: craft_header(in); break;
	default:
		if (access(wal_dir, F_OK) == 0 && strcmp(c.name, "hardstate") == 0)
			craft_slot(in);
		break;
	}
}

/* ---- the log ---- */

/* Reads everything; returns a hash of it. */
static uint64_t read_all(struct wal *w, const struct wal_recovered *rec)
{
	uint64_t sum = rec->base_index * 31 + rec->base_term * 37 + rec->term * 41 + rec->vote;
	raft_term term = rec->base_term;
	size_t range = 0;
	for (raft_index i = rec->first_index; i && i <= rec->last_index;) {
		struct entry out[32];
		struct err e = { 0 };
		size_t n = 0;
		const int rc = wal_read(w, i, rec->last_index, 4000, out, 32, &n, &e);
		assert(rc == 0 && n > 0);
		for (size_t k = 0; k < n; k++, i++) {
			assert(out[k].index == i && out[k].term >= term && out[k].term <= rec->term);
			assert(model.damaged || out[k].term == model.terms[i]);
			if (range < rec->term_count && rec->terms[range].first == i)
				range++;
			assert(range > 0 && rec->terms[range - 1].term == out[k].term);
			term = out[k].term;
			sum = sum * 1099511628211u + i * 7 + term * 3 + out[k].kind + out[k].len;
			if (out[k].len)
				sum += crc32c(0, out[k].data, out[k].len);
			entry_unref(&out[k]);
		}
	}
	assert(range == rec->term_count);
	return sum;
}

static struct wal *open_log(uint64_t *hash)
{
	const struct wal_options o = { .dir = wal_dir, .segment_bytes = SEGMENT_BYTES, .tail_bytes_max = 1000 };
	struct wal_recovered rec;
	struct wal *w = NULL;
	struct err e = { 0 };
	const uint64_t before = hash_files();
	const int rc = wal_open(&o, &w, &rec, &e);
	if (rc) {
		assert(model.damaged && e.code == rc && e.msg[0]);
		assert(rc == ERR_CORRUPT || rc == ERR_VERSION || rc == ERR_IDENTITY);
		assert(hash_files() == before);
		wal_recovered_fini(&rec);
		return NULL;
	}
	assert(rec.base_index <= rec.last_index);
	assert(rec.first_index == (rec.base_index < rec.last_index ? rec.base_index + 1 : 0));
	assert(wal_last_index(w) == rec.last_index);
	assert(model.damaged || (rec.last_index == model.last && rec.term == model.term && rec.dropped_index == 0));
	if (rec.last_index - rec.base_index < ENTRIES_MAX)
		*hash = read_all(w, &rec);
	wal_recovered_fini(&rec);
	return w;
}

static struct wal *reopen(struct wal *w)
{
	uint64_t first = 0;
	uint64_t second = 0;
	wal_close(w);
	w = open_log(&first);
	if (!w)
		return NULL;
	wal_close(w);
	w = open_log(&second);
	assert(w && first == second);
	return w;
}

static void append(struct wal *w, struct input *in)
{
	const uint64_t back = take(in, 1) % 8;
	const size_t n = 1 + take(in, 1) % 12;
	const uint32_t len = (uint32_t)take(in, 2) % 1500;
	raft_index first = model.last + 1;
	struct err e = { 0 };
	if (back > 3 && model.last - model.base >= back) {
		first -= back - 3;
		model.term++;
		assert(wal_put_hardstate(w, model.term, 0, &e) == 0);
	}
	if (first + n >= ENTRIES_MAX)
		return;
	struct entry entries[12];
	struct slab *slab = slab_new(len + 1);
	memset(slab->data, (int)len, len + 1);
	for (size_t i = 0; i < n; i++) {
		entries[i] =
		    (struct entry){ .index = first + i, .term = model.term, .kind = (uint8_t)(1 + i % 3), .len = len };
		entries[i].data = len ? slab->data : NULL;
		model.terms[first + i] = model.term;
	}
	assert(wal_append(w, entries, n, &e) == 0);
	model.last = first + n - 1;
	slab_unref(slab);
}

static void reset(struct wal *w, struct input *in)
{
	struct err e = { 0 };
	const raft_index to = model.last + take(in, 1) % 4;
	if (to == 0 || to >= ENTRIES_MAX)
		return;
	assert(wal_reset(w, to, model.term, &e) == 0);
	model.base = model.last = to;
	model.terms[to] = model.term;
}

static void run_script(struct wal *w, struct input *in)
{
	for (int step = 0; w && in->left && step < STEPS_MAX; step++) {
		struct err e = { 0 };
		switch (take(in, 1) % 10) {
		case 0: assert(wal_sync(w, &e) == 0); break;
		case 1: assert(wal_prepare_segment(w, &e) == 0); break;
		case 2: {
			model.term += 1 + take(in, 1) % 3;
			const node_id vote = take(in, 1);
			assert(wal_put_hardstate(w, model.term, vote, &e) == 0);
			break;
		}
		case 3:
			if (model.last > model.base + 10) {
				assert(wal_compact(w, model.last - 10, &e) == 0);
				const raft_index first = wal_first_index(w);
				model.base = first ? first - 1 : model.last;
			}
			break;
		case 4: reset(w, in); break;
		case 5: w = reopen(w); break;
		case 6:
		case 7:
			wal_close(w);
			damage(in);
			while (in->left && take(in, 1) % 4 == 0)
				damage(in);
			w = reopen(NULL);
			wal_close(w);
			return;
		default: append(w, in); break;
		}
	}
	wal_close(reopen(w));
}

static void no_lines(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void remove_wal_dir(void)
{
	for_each_file(remove_one, NULL);
	rmdir(wal_dir);
}

static void set_up(void)
{
	snprintf(wal_dir, sizeof(wal_dir), "%s/veena-fuzz-wal-%ld", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
	         (long)getpid());
	log_set_sink(no_lines, NULL);
	atexit(remove_wal_dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!wal_dir[0])
		set_up();
	remove_wal_dir();
	memset(&model, 0, sizeof(model));
	struct input in = { data, size };
	uint64_t hash;
	struct wal *w = open_log(&hash);
	assert(w);
	struct err e = { 0 };
	model.term = 1;
	const int rc = wal_put_hardstate(w, 1, 7, &e);
	assert(rc == 0);
	run_script(w, &in);
	return 0;
}
