#include "store/mark.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "store/store_internal.h"

#define MARK_MAX 160 /* bytes of the longest line */
#define MARK_HEAD "veena-mark 1 "
#define MARK_TEMP "fsm.mark.new"

enum mark_kind { MARK_NONE, MARK_BAD, MARK_DIRTY, MARK_CLEAN };

struct mark {
	enum mark_kind kind;
	char boot[STORE_BOOT_ID_SIZE];
	uint64_t dev, ino; /* MARK_DIRTY */
	uint64_t txn_id;   /* MARK_CLEAN */
};

/* ---- small file calls ---- */

static int join_path(char out[PATH_MAX], const char *dir, const char *name, struct err *e)
{
	int n = snprintf(out, PATH_MAX, "%s/%s", dir, name);
	return n > 0 && n < PATH_MAX ? 0 : err_set(e, ERR_INVALID, "%s: the path is too long", dir);
}

int store_sync_dir(const char *dir, struct err *e)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set_errno(e, ERR_IO, errno, "%s: cannot open", dir);
	int rc = fsync(fd) == 0 ? 0 : err_set_errno(e, ERR_IO, errno, "%s: cannot sync the directory", dir);
	close(fd);
	return rc;
}

static int remove_file(const char *dir, const char *name, struct err *e)
{
	char path[PATH_MAX];
	int rc = join_path(path, dir, name, e);
	if (rc)
		return rc;
	if (unlink(path) != 0 && errno != ENOENT)
		return err_set_errno(e, ERR_IO, errno, "%s: cannot remove", path);
	return 0;
}

/* ---- the line ---- */

static size_t finish_line(char line[MARK_MAX], int len)
{
	assert(len > 0 && len + 15 < MARK_MAX);
	int n = snprintf(line + len, MARK_MAX - (size_t)len, " crc=%08" PRIx32 "\n", crc32c(0, line, (size_t)len));
	return (size_t)(len + n);
}

/* Reads a field "name=" of the line at *p up to a blank or the end; moves behind it. */
static bool take_field(struct str *rest, const char *name, struct str *value)
{
	struct str key = str_of(name);
	if (!str_starts(*rest, key))
		return false;
	const char *from = rest->p + key.len;
	const char *end = rest->p + rest->len;
	const char *to = memchr(from, ' ', (size_t)(end - from));
	if (!to)
		to = end;
	*value = (struct str){ from, (size_t)(to - from) };
	const char *next = to < end ? to + 1 : end;
	*rest = (struct str){ next, (size_t)(end - next) };
	return true;
}

static bool parse_crc(struct str *line)
{
	char hex[9];
	const size_t tail = sizeof(" crc=") - 1 + 8 + 1;
	if (line->len <= tail || line->p[line->len - 1] != '\n')
		return false;
	size_t body = line->len - tail;
	snprintf(hex, sizeof(hex), "%08" PRIx32, crc32c(0, line->p, body));
	if (memcmp(line->p + body, " crc=", 5) != 0 || memcmp(line->p + body + 5, hex, 8) != 0)
		return false;
	line->len = body;
	return true;
}

static bool parse_line(struct str line, struct mark *out)
{
	struct str value, rest, head = STR_LIT(MARK_HEAD);
	if (!parse_crc(&line) || !str_starts(line, head))
		return false;
	rest = (struct str){ line.p + head.len, line.len - head.len };
	if (str_starts(rest, STR_LIT("clean "))) {
		rest = (struct str){ rest.p + 6, rest.len - 6 };
		out->kind = MARK_CLEAN;
		return take_field(&rest, "txn=", &value) && u64_parse(value, &out->txn_id) && rest.len == 0;
	}
	if (!str_starts(rest, STR_LIT("dirty ")))
		return false;
	rest = (struct str){ rest.p + 6, rest.len - 6 };
	out->kind = MARK_DIRTY;
	if (!take_field(&rest, "boot=", &value) || value.len != STORE_BOOT_ID_SIZE - 1)
		return false;
	memcpy(out->boot, value.p, value.len);
	out->boot[value.len] = '\0';
	return take_field(&rest, "dev=", &value) && u64_parse(value, &out->dev) && take_field(&rest, "ino=", &value) &&
	       u64_parse(value, &out->ino) && rest.len == 0;
}

static int read_mark(const char *dir, struct mark *out, struct err *e)
{
	char path[PATH_MAX], line[MARK_MAX];
	int rc = join_path(path, dir, STORE_MARK_FILE, e);
	if (rc)
		return rc;
	*out = (struct mark){ .kind = MARK_NONE };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_set_errno(e, ERR_IO, errno, "%s: cannot open", path);
	ssize_t n = read(fd, line, sizeof(line));
	if (n < 0)
		rc = err_set_errno(e, ERR_IO, errno, "%s: cannot read", path);
	else if (!parse_line((struct str){ line, (size_t)n }, out))
		out->kind = MARK_BAD;
	close(fd);
	return rc;
}

/* Replaces the mark: whole or not at all, whenever the power fails. */
static int write_mark(const char *dir, const char *line, size_t len, struct err *e)
{
	char path[PATH_MAX], temp[PATH_MAX];
	int rc = join_path(path, dir, STORE_MARK_FILE, e);
	if (rc == 0)
		rc = join_path(temp, dir, MARK_TEMP, e);
	if (rc)
		return rc;
	int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set_errno(e, store_code(errno), errno, "%s: cannot create", temp);
	ssize_t n = pwrite(fd, line, len, 0);
	if (n != (ssize_t)len)
		rc = err_set_errno(e, n < 0 ? store_code(errno) : ERR_FULL, n < 0 ? errno : ENOSPC, "%s: cannot write",
		                   temp);
	else if (fsync(fd) != 0)
		rc = err_set_errno(e, ERR_IO, errno, "%s: cannot sync", temp);
	close(fd);
	if (rc == 0 && rename(temp, path) != 0)
		rc = err_set_errno(e, store_code(errno), errno, "%s: cannot rename to %s", temp, STORE_MARK_FILE);
	return rc ? rc : store_sync_dir(dir, e);
}

int store_mark_dirty(const char *dir, struct err *e)
{
	char path[PATH_MAX], line[MARK_MAX], boot[STORE_BOOT_ID_SIZE];
	struct stat st;
	int rc = join_path(path, dir, STORE_FILE, e);
	if (rc)
		return rc;
	if (stat(path, &st) != 0)
		return err_set_errno(e, ERR_IO, errno, "%s: cannot stat", path);
	/* Without a boot id the file can be written but never believed again: an empty id matches none. */
	if (!store_read_boot_id(boot))
		boot[0] = '\0';
	int n = snprintf(line, sizeof(line), MARK_HEAD "dirty boot=%s dev=%ju ino=%ju", boot, (uintmax_t)st.st_dev,
	                 (uintmax_t)st.st_ino);
	return write_mark(dir, line, finish_line(line, n), e);
}

int store_mark_clean(const char *dir, uint64_t txn_id, struct err *e)
{
	char line[MARK_MAX];
	int n = snprintf(line, sizeof(line), MARK_HEAD "clean txn=%" PRIu64, txn_id);
	return write_mark(dir, line, finish_line(line, n), e);
}

int store_mark_remove(const char *dir, struct err *e)
{
	int rc = remove_file(dir, STORE_MARK_FILE, e);
	return rc ? rc : store_sync_dir(dir, e);
}

/* ---- judging ---- */

static void decide(struct store_verdict *v, enum store_trust trust, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void decide(struct store_verdict *v, enum store_trust trust, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(v->why, sizeof(v->why), fmt, ap);
	va_end(ap);
	v->trust = trust;
	v->clean = false;
}

static void judge_mark(const struct mark *m, const struct stat *st, const struct store_file_info *info,
                       struct store_verdict *v)
{
	char boot[STORE_BOOT_ID_SIZE];
	switch (m->kind) {
	case MARK_NONE: decide(v, STORE_UNTRUSTED, "no %s beside it", STORE_MARK_FILE); return;
	case MARK_BAD: decide(v, STORE_UNTRUSTED, "%s is damaged", STORE_MARK_FILE); return;
	case MARK_CLEAN:
		if (m->txn_id == info->txn_id)
			decide(v, STORE_TRUSTED, "closed clean at transaction %" PRIu64, m->txn_id);
		else
			decide(v, STORE_UNTRUSTED, "closed clean at transaction %" PRIu64 ", stands at %" PRIu64,
			       m->txn_id, info->txn_id);
		v->clean = v->trust == STORE_TRUSTED;
		return;
	case MARK_DIRTY: break;
	}
	if (!store_read_boot_id(boot))
		decide(v, STORE_UNTRUSTED, "the kernel's boot id cannot be read");
	else if (strcmp(boot, m->boot) != 0)
		decide(v, STORE_UNTRUSTED, "written in an earlier boot and not closed");
	else if (m->dev != (uint64_t)st->st_dev || m->ino != (uint64_t)st->st_ino)
		decide(v, STORE_UNTRUSTED, "not the file that was written in this boot");
	else
		decide(v, STORE_TRUSTED, "written in this boot");
}

int store_judge(const char *dir, struct store_verdict *out, struct err *e)
{
	char path[PATH_MAX];
	struct store_file_info info;
	struct err why = { 0 };
	struct mark mark;
	struct stat st;
	int rc = join_path(path, dir, STORE_FILE, e);
	if (rc)
		return rc;
	if (stat(path, &st) != 0) {
		if (errno != ENOENT)
			return err_set_errno(e, ERR_IO, errno, "%s: cannot stat", path);
		decide(out, STORE_ABSENT, "no file");
		return 0;
	}
	if (S_ISREG(st.st_mode) && st.st_size == 0) {
		decide(out, STORE_ABSENT, "an empty file");
		return 0;
	}
	rc = store_read_file_info(path, &info, &why);
	if (rc == ERR_IO || rc == ERR_VERSION) {
		if (e)
			*e = why;
		return rc;
	}
	if (rc) {
		decide(out, STORE_UNTRUSTED, "%.150s", why.msg);
		return 0;
	}
	rc = read_mark(dir, &mark, e);
	if (rc == 0)
		judge_mark(&mark, &st, &info, out);
	return rc;
}

int store_set_aside(const char *dir, struct err *e)
{
	char from[PATH_MAX], to[PATH_MAX];
	int rc = join_path(from, dir, STORE_FILE, e);
	if (rc == 0)
		rc = join_path(to, dir, STORE_STALE_FILE, e);
	/* The mark first: a crash in between leaves a file that is judged, and set aside, the same way again. */
	if (rc == 0)
		rc = store_mark_remove(dir, e);
	if (rc == 0)
		rc = remove_file(dir, STORE_LOCK_FILE, e);
	if (rc == 0 && rename(from, to) != 0)
		rc = err_set_errno(e, ERR_IO, errno, "%s: cannot rename to %s", from, STORE_STALE_FILE);
	return rc ? rc : store_sync_dir(dir, e);
}
