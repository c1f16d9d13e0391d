#include "bbolt/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "model/base64.h"
#include "model/json.h"

#define COPY_BYTES (64u << 10)
#define META_MAX (1u << 20)
#define PATH_BYTES 4200
#define ECMA UINT64_C(0xC96C5795D7870F42) /* reversed, as Go's hash/crc64 has it */

static const uint64_t *crc_table(void)
{
	static uint64_t table[256]; /* filled alike by whoever comes first */
	if (table[1])
		return table;
	for (unsigned i = 256; i-- > 0;) {
		uint64_t v = i;
		for (int bit = 0; bit < 8; bit++)
			v = v & 1 ? v >> 1 ^ ECMA : v >> 1;
		table[i] = v;
	}
	return table;
}

static uint64_t crc_add(uint64_t crc, const uint8_t *p, size_t n)
{
	const uint64_t *t = crc_table();
	crc = ~crc;
	for (size_t i = 0; i < n; i++)
		crc = t[(crc ^ p[i]) & 0xff] ^ crc >> 8;
	return ~crc;
}

static int fail(struct err *e, const char *what, const char *path)
{
	const int errnum = errno;
	const bool is_full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
	return err_set_errno(e,
	                     errnum == ENOENT ? ERR_NOTFOUND
	                     : is_full        ? ERR_FULL
	                                      : ERR_IO,
	                     errnum, "could not %s %s", what, path);
}

static int write_all(int fd, const void *bytes, size_t len, const char *path, struct err *e)
{
	const uint8_t *p = bytes;
	while (len > 0) {
		errno = ENOSPC; /* of a write that writes nothing */
		const ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail(e, "write", path);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* All of `in`, to `out` unless that is -1. */
static int pump(int in, const char *in_path, int out, const char *out_path, struct bbolt_snapshot *s, struct err *e)
{
	uint8_t *bytes = mem_alloc(COPY_BYTES);
	int rc = 0;
	s->size = s->crc = 0;
	while (rc == 0) {
		const ssize_t n = read(in, bytes, COPY_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			rc = fail(e, "read", in_path);
		if (n <= 0)
			break;
		s->crc = crc_add(s->crc, bytes, (size_t)n);
		s->size += (uint64_t)n;
		if (out >= 0)
			rc = write_all(out, bytes, (size_t)n, out_path, e);
	}
	mem_free(bytes);
	return rc;
}

/* ---- reading ---- */

static int read_meta(const char *path, struct buf *out, struct err *e)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(e, "open", path);
	ssize_t n = 1;
	while (n > 0 && out->len <= META_MAX) {
		n = read(fd, buf_reserve(out, 4096), 4096);
		if (n > 0)
			buf_advance(out, (size_t)n);
	}
	const int rc = n < 0 ? fail(e, "read", path) : n > 0 ? err_set(e, ERR_CORRUPT, "%s: too large", path) : 0;
	close(fd);
	return rc;
}

static bool take_number(struct json_reader *r, uint64_t *out)
{
	return json_next(r) == JSON_NUMBER && json_number_u64(r->token, out);
}

static bool take_crc(struct json_reader *r, struct arena *a, uint64_t *out)
{
	uint8_t bytes[16];
	size_t len;
	if (json_next(r) != JSON_STRING)
		return false;
	const struct str s = json_token_str(r, a);
	if (s.len != 12 || !base64_decode(bytes, &len, s) || len != 8)
		return false;
	*out = get_be64(bytes);
	return true;
}

static bool parse_meta(struct str text, struct arena *a, struct bbolt_snapshot *out, uint64_t *version)
{
	struct json_reader r;
	enum json_event ev = JSON_ERROR;
	bool ok = true, has_crc = false;
	json_reader_init(&r, text, 0);
	if (json_next(&r) != JSON_OBJECT)
		return false;
	while (ok && (ev = json_next(&r)) == JSON_KEY) {
		const struct str key = json_token_str(&r, a);
		if (str_is(key, "Version"))
			ok = take_number(&r, version);
		else if (str_is(key, "Index"))
			ok = take_number(&r, &out->index);
		else if (str_is(key, "Term"))
			ok = take_number(&r, &out->term);
		else if (str_is(key, "Size"))
			ok = take_number(&r, &out->size);
		else if (str_is(key, "CRC"))
			ok = has_crc = take_crc(&r, a, &out->crc);
		else
			ok = json_skip(&r, json_next(&r));
	}
	return ok && ev == JSON_OBJECT_END && has_crc && json_next(&r) == JSON_END && out->index > 0 && out->term > 0;
}

static int verify_state(const char *path, const struct bbolt_snapshot *meta, struct err *e)
{
	struct bbolt_snapshot is;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return fail(e, "open", path);
	const int rc = pump(fd, path, -1, NULL, &is, e);
	close(fd);
	if (rc)
		return rc;
	if (is.size != meta->size)
		return err_set(e, ERR_CORRUPT, "%s: %" PRIu64 " bytes, " BBOLT_SNAPSHOT_META " says %" PRIu64, path,
		               is.size, meta->size);
	if (is.crc != meta->crc)
		return err_set(e, ERR_CORRUPT,
		               "%s: its CRC is %016" PRIx64 ", " BBOLT_SNAPSHOT_META " says %016" PRIx64, path, is.crc,
		               meta->crc);
	return 0;
}

int bbolt_snapshot_verify(const char *dir, struct bbolt_snapshot *out, struct err *e)
{
	char path[PATH_BYTES];
	struct buf text = { 0 };
	struct arena a = { 0 };
	uint64_t version = 0;
	*out = (struct bbolt_snapshot){ 0 };
	snprintf(path, sizeof(path), "%s/" BBOLT_SNAPSHOT_META, dir);
	int rc = read_meta(path, &text, e);
	if (rc == 0 && !parse_meta((struct str){ (const char *)text.data, text.len }, &a, out, &version))
		rc = err_set(e, ERR_CORRUPT, "%s: not the description of a Raft snapshot", path);
	if (rc == 0 && version > 1)
		rc = err_set(e, ERR_VERSION, "%s: snapshot version %" PRIu64 ", this release reads 1", path, version);
	buf_fini(&text);
	arena_fini(&a);
	if (rc)
		return rc;
	snprintf(path, sizeof(path), "%s/" BBOLT_SNAPSHOT_STATE, dir);
	return verify_state(path, out, e);
}

/* ---- writing ---- */

static void put_meta(struct buf *out, const char *id, const struct bbolt_snapshot *s,
                     const struct bbolt_snapshot_server *servers, size_t count)
{
	struct json_writer w = { .out = out };
	uint8_t crc[8];
	json_begin_object(&w);
	json_field_u64(&w, "Version", 1);
	json_field_cstr(&w, "ID", id);
	json_field_u64(&w, "Index", s->index);
	json_field_u64(&w, "Term", s->term);
	json_key(&w, "Peers"); /* of version 0 */
	json_put_null(&w);
	json_key(&w, "Configuration");
	json_begin_object(&w);
	json_key(&w, "Servers");
	json_begin_array(&w);
	for (size_t i = 0; i < count; i++) {
		json_begin_object(&w);
		json_field_u64(&w, "Suffrage", servers[i].is_voter ? 0 : 1);
		json_field_cstr(&w, "ID", servers[i].id);
		json_field_cstr(&w, "Address", servers[i].addr);
		json_end_object(&w);
	}
	json_end_array(&w);
	json_end_object(&w);
	json_field_u64(&w, "ConfigurationIndex", s->index);
	json_field_u64(&w, "Size", s->size);
	json_key(&w, "CRC");
	put_be64(crc, s->crc);
	json_put_base64(&w, (struct str){ (const char *)crc, sizeof(crc) });
	json_end_object(&w);
	buf_putc(out, '\n');
}

static int sync_and_close(int fd, const char *path, int rc, struct err *e)
{
	if (rc == 0 && fsync(fd) != 0)
		rc = fail(e, "sync", path);
	if (close(fd) != 0 && rc == 0)
		rc = fail(e, "close", path);
	return rc;
}

static int copy_state(const char *from, const char *to, struct bbolt_snapshot *s, struct err *e)
{
	const int in = open(from, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return fail(e, "open", from);
	const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int rc = out < 0 ? fail(e, "create", to) : pump(in, from, out, to, s, e);
	close(in);
	return out < 0 ? rc : sync_and_close(out, to, rc, e);
}

int bbolt_snapshot_write(const char *dir, const char *id, const char *from, uint64_t index, uint64_t term,
                         const struct bbolt_snapshot_server *servers, size_t count, struct err *e)
{
	char path[PATH_BYTES];
	struct bbolt_snapshot s;
	struct buf meta = { 0 };
	if (mkdir(dir, 0700) != 0)
		return fail(e, "create", dir);
	snprintf(path, sizeof(path), "%s/" BBOLT_SNAPSHOT_STATE, dir);
	int rc = copy_state(from, path, &s, e);
	if (rc)
		return rc;
	s.index = index;
	s.term = term;
	put_meta(&meta, id, &s, servers, count);
	snprintf(path, sizeof(path), "%s/" BBOLT_SNAPSHOT_META, dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rc =
	    fd < 0 ? fail(e, "create", path) : sync_and_close(fd, path, write_all(fd, meta.data, meta.len, path, e), e);
	buf_fini(&meta);
	if (rc)
		return rc;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? fail(e, "open", dir) : sync_and_close(fd, dir, 0, e);
}
