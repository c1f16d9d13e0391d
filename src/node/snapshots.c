#include "node/snapshots.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/mem.h"
#include "fsm/fsm.h"

#define MAGIC "veenaSNP"
#define VERSION 1u
#define CRC_AT 80
#define COPY_BYTES (64u << 10) /* the only memory a file of any size needs */

/* ---- small file calls ---- */

static int code_of(int errnum)
{
	return errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG ? ERR_FULL : ERR_IO;
}

static int fail_errno(struct err *e, int errnum, const char *what, const char *path)
{
	return err_set_errno(e, code_of(errnum), errnum, "could not %s %s", what, path);
}

static int open_to_read(const char *path, int *fd, struct err *e)
{
	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (*fd >= 0)
		return 0;
	return errno == ENOENT ? err_set(e, ERR_NOTFOUND, "%s: no such file", path)
	                       : fail_errno(e, errno, "open", path);
}

static int read_all(int fd, void *out, size_t len, uint64_t at, const char *path, struct err *e)
{
	uint8_t *p = out;
	while (len > 0) {
		const ssize_t n = pread(fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_errno(e, errno, "read", path);
		if (n == 0)
			return err_set(e, ERR_CORRUPT, "%s: ends at byte %" PRIu64, path, at);
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *bytes, size_t len, uint64_t at, const char *path, struct err *e)
{
	const uint8_t *p = bytes;
	while (len > 0) {
		const ssize_t n = pwrite(fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return fail_errno(e, n < 0 ? errno : ENOSPC, "write", path);
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int size_of(int fd, const char *path, uint64_t *out, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return fail_errno(e, errno, "look at", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, "%s: not a regular file", path);
	*out = (uint64_t)st.st_size;
	return 0;
}

static int sync_path(const char *path, int flags, struct err *e)
{
	const int fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		return fail_errno(e, errno, "open", path);
	const int rc = fsync(fd) == 0 ? 0 : fail_errno(e, errno, "sync", path);
	close(fd);
	return rc;
}

int snapfile_sync(const char *path, struct err *e)
{
	return sync_path(path, O_RDWR, e);
}

static void dir_path(const char *data_dir, char out[SNAPFILE_PATH_MAX])
{
	snprintf(out, SNAPFILE_PATH_MAX, "%s/" SNAPFILE_DIR, data_dir);
}

void snapfile_path(const char *data_dir, raft_index index, raft_term term, char out[SNAPFILE_PATH_MAX])
{
	const int n =
	    snprintf(out, SNAPFILE_PATH_MAX, "%s/" SNAPFILE_DIR "/%" PRIu64 "-%" PRIu64 ".mdb", data_dir, index, term);
	assert(n > 0 && n < SNAPFILE_PATH_MAX); /* node_dir_open measured the directory's name */
}

int snapfile_make_dir(const char *data_dir, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	dir_path(data_dir, path);
	if (mkdir(path, 0700) != 0)
		return errno == EEXIST ? 0 : fail_errno(e, errno, "create", path);
	return sync_path(data_dir, O_RDONLY | O_DIRECTORY, e);
}

int snapfile_check_room(const char *data_dir, uint64_t bytes, uint64_t reserve, struct err *e)
{
	struct statvfs st;
	if (statvfs(data_dir, &st) != 0)
		return fail_errno(e, errno, "look at the room in", data_dir);
	const uint64_t free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
	if (free_bytes >= bytes && free_bytes - bytes >= reserve)
		return 0;
	return err_set(e, ERR_FULL,
	               "%s: no space left: %" PRIu64 " bytes are free, needed are %" PRIu64 " and %" PRIu64
	               " more for the log",
	               data_dir, free_bytes, bytes, reserve);
}

/* ---- the footer ---- */

static void encode_footer(const struct snapfile_info *i, const struct buf *conf, uint8_t out[SNAPFILE_FOOTER_BYTES])
{
	memset(out, 0, SNAPFILE_FOOTER_BYTES);
	memcpy(out, MAGIC, 8);
	put_le32(out + 8, VERSION);
	put_le32(out + 12, (uint32_t)conf->len);
	put_le64(out + 16, i->image_len);
	put_le64(out + 24, i->index);
	put_le64(out + 32, i->term);
	put_le64(out + 40, i->cluster_id);
	put_le64(out + 48, i->digest);
	put_le64(out + 56, i->time_ms);
	put_le32(out + 64, i->max_entry_type);
	put_le32(out + 68, i->image_crc);
	put_le32(out + 72, crc32c(0, conf->data, conf->len));
	put_le32(out + CRC_AT, crc32c(0, out, CRC_AT));
}

/* What every version has. A flipped bit must not pass for a newer one. */
static int check_footer(const uint8_t *f, const char *path, struct err *e)
{
	if (memcmp(f, MAGIC, 8) != 0)
		return err_set(e, ERR_CORRUPT, "%s: damaged: not a snapshot, or cut short", path);
	if (get_le32(f + CRC_AT) != crc32c(0, f, CRC_AT) || get_le32(f + 84) != 0)
		return err_set(e, ERR_CORRUPT, "%s: damaged: its last bytes do not verify", path);
	if (get_le32(f + 8) > VERSION)
		return err_set(e, ERR_VERSION,
		               "%s: snapshot format %" PRIu32 ", this build reads %u: install the cluster's release",
		               path, get_le32(f + 8), VERSION);
	return 0;
}

static int decode_footer(const uint8_t *f, const uint8_t *conf, size_t conf_len, const char *path,
                         struct snapfile_info *out, struct err *e)
{
	struct err why = { 0 };
	if (get_le32(f + 72) != crc32c(0, conf, conf_len) || get_le32(f + 76) != 0 || get_le64(f + 24) == 0 ||
	    get_le64(f + 32) == 0)
		return err_set(e, ERR_CORRUPT, "%s: damaged: its last bytes make no sense", path);
	if (raft_conf_decode(conf, conf_len, &out->conf, &why) != 0)
		return err_set(e, ERR_CORRUPT, "%s: damaged: %.200s", path, why.msg);
	out->image_len = get_le64(f + 16);
	out->index = get_le64(f + 24);
	out->term = get_le64(f + 32);
	out->cluster_id = get_le64(f + 40);
	out->digest = get_le64(f + 48);
	out->time_ms = get_le64(f + 56);
	out->max_entry_type = get_le32(f + 64);
	out->image_crc = get_le32(f + 68);
	return 0;
}

static int read_info(int fd, const char *path, struct snapfile_info *out, struct err *e)
{
	uint8_t f[SNAPFILE_FOOTER_BYTES];
	uint8_t conf[FSM_CONF_MAX];
	int rc = size_of(fd, path, &out->file_len, e);
	if (rc)
		return rc;
	if (out->file_len < sizeof(f))
		return err_set(e, ERR_CORRUPT, "%s: damaged: cut short to %" PRIu64 " bytes", path, out->file_len);
	rc = read_all(fd, f, sizeof(f), out->file_len - sizeof(f), path, e);
	if (rc == 0)
		rc = check_footer(f, path, e);
	if (rc)
		return rc;
	const uint32_t conf_len = get_le32(f + 12);
	const uint64_t image_len = get_le64(f + 16);
	if (conf_len > sizeof(conf) || image_len > out->file_len || out->file_len - image_len != conf_len + sizeof(f))
		return err_set(e, ERR_CORRUPT, "%s: damaged: its parts do not add up to its length", path);
	rc = read_all(fd, conf, conf_len, image_len, path, e);
	return rc ? rc : decode_footer(f, conf, conf_len, path, out, e);
}

int snapfile_read_info(const char *path, struct snapfile_info *out, struct err *e)
{
	int fd;
	int rc = open_to_read(path, &fd, e);
	if (rc)
		return rc;
	rc = read_info(fd, path, out, e);
	close(fd);
	return rc;
}

int snapfile_read_named(const char *data_dir, raft_index index, raft_term term, struct snapfile_info *out,
                        struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	snapfile_path(data_dir, index, term, path);
	const int rc = snapfile_read_info(path, out, e);
	if (rc == 0 && (out->index != index || out->term != term))
		return err_set(e, ERR_CORRUPT, "%s: damaged: it says that it is of index %" PRIu64 ", term %" PRIu64,
		               path, out->index, out->term);
	return rc;
}

/* ---- the image ---- */

/* Reads [0, len) of `from`; writes it to `to` unless that is -1. The first `crc_len` bytes count for the CRC. */
static int pump(int from, const char *from_path, int to, const char *to_path, uint64_t len, uint64_t crc_len,
                uint32_t *crc, struct err *e)
{
	uint8_t *bytes = mem_alloc(COPY_BYTES);
	int rc = 0;
	*crc = 0;
	for (uint64_t at = 0; rc == 0 && at < len;) {
		size_t n = len - at < COPY_BYTES ? (size_t)(len - at) : COPY_BYTES;
		if (at < crc_len && crc_len - at < n)
			n = (size_t)(crc_len - at);
		rc = read_all(from, bytes, n, at, from_path, e);
		if (rc == 0 && at < crc_len)
			*crc = crc32c(*crc, bytes, n);
		if (rc == 0 && to >= 0)
			rc = write_all(to, bytes, n, at, to_path, e);
		at += n;
	}
	mem_free(bytes);
	return rc;
}

static int compare_crc(const char *path, uint32_t crc, const struct snapfile_info *info, struct err *e)
{
	if (crc == info->image_crc)
		return 0;
	return err_set(e, ERR_CORRUPT, "%s: damaged: its CRC is %08" PRIx32 ", when it was written it was %08" PRIx32,
	               path, crc, info->image_crc);
}

int snapfile_verify(const char *path, const struct snapfile_info *info, struct err *e)
{
	int fd;
	uint32_t crc;
	int rc = open_to_read(path, &fd, e);
	if (rc)
		return rc;
	rc = pump(fd, path, -1, NULL, info->image_len, info->image_len, &crc, e);
	close(fd);
	return rc ? rc : compare_crc(path, crc, info, e);
}

int snapfile_copy(const char *from, const struct snapfile_info *info, bool whole, const char *to, struct err *e)
{
	int in;
	int rc = open_to_read(from, &in, e);
	if (rc)
		return rc;
	const int out = open(to, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out < 0) {
		rc = fail_errno(e, errno, "create", to);
		close(in);
		return rc;
	}
	uint32_t crc;
	rc = pump(in, from, out, to, whole ? info->file_len : info->image_len, info->image_len, &crc, e);
	if (rc == 0)
		rc = compare_crc(from, crc, info, e);
	close(in);
	if (close(out) != 0 && rc == 0)
		rc = fail_errno(e, errno, "close", to);
	if (rc)
		unlink(to);
	return rc;
}

int snapfile_check_image(const char *path, const struct snapfile_info *info, uint32_t max_entry_type, struct err *e)
{
	struct fsm_image image;
	struct buf conf = { 0 };
	int rc = fsm_read_image(path, max_entry_type, &image, e);
	if (rc || SIM_FAULT("snapshot-wrong-index"))
		return rc;
	if (image.index != info->index || image.term != info->term || image.digest != info->digest ||
	    image.max_entry_type != info->max_entry_type)
		return err_set(e, ERR_CORRUPT,
		               "%s: holds the state of index %" PRIu64 ", term %" PRIu64 ", digest %016" PRIx64
		               ", but is said to be of %" PRIu64 ", %" PRIu64 ", %016" PRIx64,
		               path, image.index, image.term, image.digest, info->index, info->term, info->digest);
	raft_conf_encode(&info->conf, &conf);
	if (conf.len != image.conf_len || memcmp(conf.data, image.conf, conf.len) != 0)
		rc = err_set(e, ERR_CORRUPT, "%s: holds another configuration than it is said to", path);
	buf_fini(&conf);
	return rc;
}

static int seal(int fd, const char *path, struct snapfile_info *info, struct err *e)
{
	struct buf conf = { 0 };
	uint8_t f[SNAPFILE_FOOTER_BYTES];
	int rc = size_of(fd, path, &info->image_len, e);
	if (rc == 0)
		rc = pump(fd, path, -1, NULL, info->image_len, info->image_len, &info->image_crc, e);
	if (rc)
		return rc;
	raft_conf_encode(&info->conf, &conf);
	assert(conf.len <= FSM_CONF_MAX);
	encode_footer(info, &conf, f);
	info->file_len = info->image_len + conf.len + sizeof(f);
	buf_put(&conf, f, sizeof(f));
	rc = write_all(fd, conf.data, conf.len, info->image_len, path, e);
	buf_fini(&conf);
	return rc;
}

int snapfile_seal(const char *path, struct snapfile_info *info, struct err *e)
{
	const int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return fail_errno(e, errno, "open", path);
	int rc = seal(fd, path, info, e);
	if (close(fd) != 0 && rc == 0)
		rc = fail_errno(e, errno, "close", path);
	return rc;
}

int snapfile_publish(const char *data_dir, const char *temp, const struct snapfile_info *info, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	char dir[SNAPFILE_PATH_MAX];
	snapfile_path(data_dir, info->index, info->term, path);
	dir_path(data_dir, dir);
	int rc = SIM_FAULT("snapshot-renamed-before-sync") ? 0 : snapfile_sync(temp, e);
	if (rc)
		return rc;
	if (rename(temp, path) != 0)
		return err_set_errno(e, code_of(errno), errno, "could not rename %s to %s", temp, path);
	rc = sync_path(dir, O_RDONLY | O_DIRECTORY, e);
	return rc ? rc : sync_path(data_dir, O_RDONLY | O_DIRECTORY, e);
}

/* ---- which there are ---- */

void snapfiles_fini(struct snapfiles *s)
{
	mem_free(s->v);
	*s = (struct snapfiles){ 0 };
}

struct snapfile *snapfiles_find(const struct snapfiles *s, raft_index index, raft_term term)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->v[i].index == index && s->v[i].term == term)
			return &s->v[i];
	}
	return NULL;
}

struct snapfile *snapfiles_put(struct snapfiles *s, const struct snapfile *f)
{
	struct snapfile *known = snapfiles_find(s, f->index, f->term);
	if (known) {
		*known = *f;
		return known;
	}
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 8;
		s->v = mem_realloc(s->v, s->cap * sizeof(*s->v));
	}
	size_t at = s->count++;
	while (at > 0 &&
	       (s->v[at - 1].index < f->index || (s->v[at - 1].index == f->index && s->v[at - 1].term < f->term))) {
		s->v[at] = s->v[at - 1];
		at--;
	}
	s->v[at] = *f;
	return &s->v[at];
}

void snapfiles_drop(struct snapfiles *s, size_t i)
{
	assert(i < s->count);
	s->count--;
	memmove(s->v + i, s->v + i + 1, (s->count - i) * sizeof(*s->v));
}

const struct snapfile *snapfiles_good(const struct snapfiles *s, size_t n)
{
	for (size_t i = 0; i < s->count; i++) {
		if (!s->v[i].damaged && n-- == 0)
			return &s->v[i];
	}
	return NULL;
}

static bool parse_name(const char *name, struct snapfile *out)
{
	const char *dash = strchr(name, '-');
	const char *dot = dash ? strchr(dash, '.') : NULL;
	if (!dot || strcmp(dot, ".mdb") != 0)
		return false;
	*out = (struct snapfile){ 0 };
	return u64_parse((struct str){ name, (size_t)(dash - name) }, &out->index) &&
	       u64_parse((struct str){ dash + 1, (size_t)(dot - dash - 1) }, &out->term) && out->index > 0 &&
	       out->term > 0;
}

int snapfiles_list(const char *data_dir, struct snapfiles *out, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	dir_path(data_dir, path);
	DIR *dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? 0 : fail_errno(e, errno, "open", path);
	int rc = 0;
	for (;;) {
		errno = 0;
		const struct dirent *entry = readdir(dir);
		if (!entry) {
			if (errno != 0)
				rc = fail_errno(e, errno, "read", path);
			break;
		}
		struct snapfile f;
		char file[SNAPFILE_PATH_MAX];
		struct stat st;
		if (!parse_name(entry->d_name, &f))
			continue;
		snapfile_path(data_dir, f.index, f.term, file);
		f.bytes = stat(file, &st) == 0 ? (uint64_t)st.st_size : 0;
		snapfiles_put(out, &f);
	}
	closedir(dir);
	return rc;
}
