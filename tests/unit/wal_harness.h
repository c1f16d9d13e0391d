/* tests/unit/wal_harness.h - what the tests of wal/ share: directories, entries whose bytes can be told from their
 * index and term, and a model of the log to compare with. For one .c file each; the functions are static.
 */
#ifndef TESTS_UNIT_WAL_HARNESS_H
#define TESTS_UNIT_WAL_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "wal/wal.h"
#include "wal/wal_internal.h"

#define UNUSED __attribute__((unused))

/* Keeps the warnings that a test provokes out of its output. */
static UNUSED void no_lines(void *arg, enum log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

/* ---- directories and files ---- */

/* A fresh directory, in memory where there is such a place; the log goes to "<it>/wal". Borrowed until the next call.
 */
static UNUSED const char *make_dir(void)
{
	static char path[64];
	snprintf(path, sizeof(path), "%s/veena-wal-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(path));
	return path;
}

static UNUSED void clear_dir(const char *dir)
{
	DIR *d = opendir(dir);
	if (!d)
		return;
	const struct dirent *entry;
	while ((entry = readdir(d)) != NULL) {
		char path[512];
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		remove(path);
	}
	closedir(d);
}

static UNUSED void remove_dir(const char *dir)
{
	char wal[128];
	snprintf(wal, sizeof(wal), "%s/wal", dir);
	clear_dir(wal);
	rmdir(wal);
	clear_dir(dir);
	rmdir(dir);
}

struct file {
	uint8_t *bytes;
	size_t len;
};

static UNUSED struct file load_file(const char *dir, const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	const int fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	struct stat st;
	assert_int_equal(fstat(fd, &st), 0);
	struct file f = { mem_alloc((size_t)st.st_size + 1), (size_t)st.st_size };
	assert_int_equal(read(fd, f.bytes, f.len), (ssize_t)f.len);
	close(fd);
	return f;
}

static UNUSED void store_file(const char *dir, const char *name, const uint8_t *bytes, size_t len)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

static UNUSED bool has_file(const char *dir, const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/* Of all names and contents of a directory, whatever their order. */
static UNUSED uint64_t hash_dir(const char *dir)
{
	DIR *d = opendir(dir);
	assert_non_null(d);
	uint64_t sum = 0;
	const struct dirent *entry;
	while ((entry = readdir(d)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		struct file f = load_file(dir, entry->d_name);
		uint64_t h = 14695981039346656037u;
		for (const char *p = entry->d_name; *p; p++)
			h = (h ^ (uint8_t)*p) * 1099511628211u;
		for (size_t i = 0; i < f.len; i++)
			h = (h ^ f.bytes[i]) * 1099511628211u;
		sum += h;
		mem_free(f.bytes);
	}
	closedir(d);
	return sum;
}

static UNUSED unsigned count_segments(const char *dir)
{
	DIR *d = opendir(dir);
	assert_non_null(d);
	unsigned count = 0;
	const struct dirent *entry;
	while ((entry = readdir(d)) != NULL)
		count += strstr(entry->d_name, ".seg") != NULL;
	closedir(d);
	return count;
}

/* ---- entries ---- */

static UNUSED uint8_t payload_byte(raft_index index, raft_term term, uint32_t at)
{
	return (uint8_t)(index * 31 + term * 7 + at * 13 + (at >> 8));
}

static UNUSED struct entry make_entry(raft_index index, raft_term term, uint8_t kind, uint32_t len)
{
	struct entry entry = { .index = index, .term = term, .kind = kind, .len = len };
	if (len) {
		entry.slab = slab_new(len);
		for (uint32_t i = 0; i < len; i++)
			entry.slab->data[i] = payload_byte(index, term, i);
		entry.slab->len = len;
		entry.data = entry.slab->data;
	}
	return entry;
}

static UNUSED bool is_payload(const struct entry *entry)
{
	for (uint32_t i = 0; i < entry->len; i++) {
		if (entry->data[i] != payload_byte(entry->index, entry->term, i))
			return false;
	}
	return true;
}

/* ---- the model ---- */

#define MODEL_MAX 8192

struct model_entry {
	raft_term term;
	uint32_t len;
	uint8_t kind;
};

struct model {
	raft_index base; /* the log starts behind it */
	raft_term base_term;
	raft_index last;
	raft_term term; /* hard state */
	node_id vote;
	struct model_entry at[MODEL_MAX]; /* by index */
};

static UNUSED void model_put(struct model *m, raft_index index, raft_term term, uint8_t kind, uint32_t len)
{
	assert_true(index > m->base && index <= m->last + 1 && index < MODEL_MAX);
	m->at[index] = (struct model_entry){ term, len, kind };
	m->last = index;
}

static UNUSED raft_term model_term(const struct model *m, raft_index index)
{
	return index == m->base ? m->base_term : m->at[index].term;
}

/* Appends n entries of equal size to the log, and to the model unless it is NULL. Returns wal_append's answer. */
static UNUSED int append(struct wal *w, struct model *m, raft_index first, size_t n, raft_term term, uint8_t kind,
                         uint32_t len)
{
	struct entry *entries = mem_zalloc((n + 1) * sizeof(*entries));
	for (size_t i = 0; i < n; i++)
		entries[i] = make_entry(first + i, term, kind, len);
	struct err e;
	const int rc = wal_append(w, entries, n, &e);
	for (size_t i = 0; i < n; i++) {
		if (!rc && m)
			model_put(m, first + i, term, kind, len);
		entry_unref(&entries[i]);
	}
	mem_free(entries);
	return rc;
}

static UNUSED void must_append(struct wal *w, struct model *m, raft_index first, size_t n, raft_term term, uint32_t len)
{
	assert_int_equal(append(w, m, first, n, term, ENTRY_COMMAND, len), 0);
}

static UNUSED void must_sync(struct wal *w)
{
	struct err e;
	assert_int_equal(wal_sync(w, &e), 0);
}

static UNUSED void must_put(struct wal *w, struct model *m, raft_term term, node_id vote)
{
	struct err e;
	assert_int_equal(wal_put_hardstate(w, term, vote, &e), 0);
	if (m) {
		m->term = term;
		m->vote = vote;
	}
}

static UNUSED struct wal_options options_for(const char *dir, size_t segment_bytes)
{
	static char path[128];
	snprintf(path, sizeof(path), "%s/wal", dir);
	return (struct wal_options){ .dir = path, .segment_bytes = segment_bytes };
}

static UNUSED struct wal *must_open(const struct wal_options *o, struct wal_recovered *rec)
{
	struct wal *w = NULL;
	struct err e = { 0 };
	const int rc = wal_open(o, &w, rec, &e);
	if (rc)
		print_error("wal_open: %s: %s\n", err_name(rc), e.msg);
	assert_int_equal(rc, 0);
	return w;
}

static UNUSED void check_entry(const struct model *m, const struct entry *entry)
{
	const struct model_entry *want = &m->at[entry->index];
	assert_int_equal(entry->term, want->term);
	assert_int_equal(entry->kind, want->kind);
	assert_int_equal(entry->len, want->len);
	assert_true(is_payload(entry));
}

/* Reads lo..hi in as many calls as it takes and compares. */
static UNUSED void check_range(struct wal *w, const struct model *m, raft_index lo, raft_index hi, size_t bytes_max)
{
	while (lo <= hi) {
		struct entry out[64];
		struct err e = { 0 };
		size_t n = 0;
		const int rc = wal_read(w, lo, hi, bytes_max, out, 64, &n, &e);
		if (rc)
			print_error("wal_read: %s: %s\n", err_name(rc), e.msg);
		assert_int_equal(rc, 0);
		assert_true(n > 0);
		size_t bytes = 0;
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(out[i].index, lo + i);
			check_entry(m, &out[i]);
			bytes += out[i].len;
			entry_unref(&out[i]);
		}
		assert_true(n == 1 || bytes <= bytes_max);
		lo += n;
	}
}

static UNUSED void check_log(struct wal *w, const struct model *m)
{
	assert_int_equal(wal_last_index(w), m->last);
	const raft_index first = wal_first_index(w);
	if (first)
		check_range(w, m, first, m->last, 100000);
}

/* What wal_open reported against the model, whose base it takes over: what was compacted goes by whole segments. */
static UNUSED void check_recovered(const struct wal_recovered *rec, struct model *m)
{
	assert_int_equal(rec->term, m->term);
	assert_int_equal(rec->vote, m->vote);
	assert_int_equal(rec->last_index, m->last);
	assert_true(rec->base_index <= m->last);
	assert_int_equal(rec->first_index, rec->base_index < rec->last_index ? rec->base_index + 1 : 0);
	assert_int_equal(rec->base_term, rec->base_index ? model_term(m, rec->base_index) : 0);

	size_t t = 0;
	for (raft_index i = rec->base_index + 1; i <= rec->last_index; i++) {
		if (t < rec->term_count && rec->terms[t].first == i)
			t++;
		assert_true(t > 0);
		assert_int_equal(rec->terms[t - 1].term, m->at[i].term);
	}
	assert_int_equal(t, rec->term_count);

	for (size_t i = 0; i < rec->tail_count; i++) {
		assert_int_equal(rec->tail[i].index, rec->last_index - rec->tail_count + 1 + i);
		check_entry(m, &rec->tail[i]);
	}
	raft_index below = rec->last_index + 1;
	for (size_t c = 0; c < 2; c++) {
		raft_index want = below;
		while (want > rec->base_index && (want == below || m->at[want].kind != ENTRY_CONFIG))
			want--;
		if (want <= rec->base_index) {
			assert_int_equal(rec->confs[c].index, 0);
			break;
		}
		assert_int_equal(rec->confs[c].index, want);
		check_entry(m, &rec->confs[c]);
		below = want;
	}
}

/* Closes, opens and compares everything. */
static UNUSED struct wal *reopen(struct wal *w, const struct wal_options *o, struct model *m)
{
	wal_close(w);
	struct wal_recovered rec;
	w = must_open(o, &rec);
	check_recovered(&rec, m);
	wal_recovered_fini(&rec);
	check_log(w, m);
	return w;
}

#endif /* TESTS_UNIT_WAL_HARNESS_H */
