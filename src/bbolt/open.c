/* Opening: which meta page counts, and what is free. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "bbolt/bbolt_internal.h"

/* ---- bytes ---- */

void page_header_get(const uint8_t *p, struct page_header *out)
{
	*out = (struct page_header){ get_le64(p), get_le16(p + 8), get_le16(p + 10), get_le32(p + 12) };
}

void page_header_put(uint8_t *p, const struct page_header *h)
{
	put_le64(p, h->id);
	put_le16(p + 8, h->flags);
	put_le16(p + 10, h->count);
	put_le32(p + 12, h->overflow);
}

uint64_t meta_checksum(const uint8_t *meta)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (unsigned i = 0; i < META_SUMMED; i++)
		sum = (sum ^ meta[i]) * UINT64_C(0x100000001b3);
	return sum;
}

int page_corrupt(const struct bbolt_file *f, uint64_t id, struct err *e, const char *fmt, ...)
{
	char why[200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return err_set(e, ERR_CORRUPT, "%s: page %" PRIu64 ": %s", f->name, id, why);
}

/* All of it, or *got bytes at the end of the file. */
static int read_at(const struct bbolt_file *f, void *out, size_t len, uint64_t at, size_t *got, struct err *e)
{
	uint8_t *p = out;
	*got = 0;
	while (*got < len) {
		const ssize_t n = pread(f->fd, p + *got, len - *got, (off_t)(at + *got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set_errno(e, ERR_IO, errno, "%s: could not read at byte %" PRIu64, f->name,
			                     at + *got);
		if (n == 0)
			break;
		*got += (size_t)n;
	}
	return 0;
}

/* ---- pages ---- */

static int check_header(const struct bbolt_file *f, uint64_t id, const struct page_header *h, struct err *e)
{
	if (h->id != id)
		return page_corrupt(f, id, e, "it says that it is page %" PRIu64, h->id);
	if (h->overflow >= f->meta.page_count - id)
		return page_corrupt(f, id, e, "with %" PRIu32 " overflow pages it ends behind the last page %" PRIu64,
		                    h->overflow, f->meta.page_count - 1);
	return 0;
}

int page_read(struct bbolt_file *f, uint64_t id, uint8_t **bytes, size_t *cap, struct page_header *h, size_t *len,
              struct err *e)
{
	const size_t page = f->meta.page_size;
	size_t got;
	assert(id < f->meta.page_count);
	if (*cap < page) {
		*bytes = mem_realloc(*bytes, page);
		*cap = page;
	}
	int rc = read_at(f, *bytes, page, id * page, &got, e);
	if (rc)
		return rc;
	if (got < page)
		return page_corrupt(f, id, e, "the file ends within it");
	page_header_get(*bytes, h);
	rc = check_header(f, id, h, e);
	if (rc)
		return rc;
	const uint64_t run = ((uint64_t)h->overflow + 1) * page;
	if (run > BBOLT_RUN_MAX)
		return err_set(e, ERR_TOO_LARGE,
		               "%s: page %" PRIu64 ": holds %" PRIu64 " bytes in one piece, %u MiB fit", f->name, id,
		               run, (unsigned)(BBOLT_RUN_MAX >> 20));
	*len = (size_t)run;
	if (h->overflow == 0)
		return 0;
	if (*cap < *len) {
		*bytes = mem_realloc(*bytes, *len);
		*cap = *len;
	}
	rc = read_at(f, *bytes + page, *len - page, id * page + page, &got, e);
	if (rc == 0 && got < *len - page)
		rc = page_corrupt(f, id, e, "the file ends within its overflow pages");
	return rc;
}

/* ---- meta pages ---- */

/* One that does not verify was being written when the machine stopped: bbolt goes on with the other, and so does this.
 * One that verifies and makes no sense is another matter: bbolt would use it, so there is no going back behind it. */
struct metas {
	struct meta meta[2];
	const char *why[2]; /* what is wrong; NULL: nothing */
	int refuse[2];      /* ERR_*: it verifies, but ...; 0: as `why` says */
};

static void judge_meta(const uint8_t *p, unsigned id, struct metas *out)
{
	struct page_header h;
	struct meta *meta = &out->meta[id];
	const uint8_t *m = p + PAGE_HEADER;
	page_header_get(p, &h);
	out->refuse[id] = 0;
	if (get_le32(m) != META_MAGIC) {
		out->why[id] = "no bbolt meta page";
		return;
	}
	if (get_le64(m + META_SUMMED) != meta_checksum(m)) {
		out->why[id] = "its checksum does not verify";
		return;
	}
	*meta = (struct meta){ .page_size = get_le32(m + 8),
		               .root = get_le64(m + 16),
		               .sequence = get_le64(m + 24),
		               .freelist = get_le64(m + 32),
		               .page_count = get_le64(m + 40),
		               .txn_id = get_le64(m + 48) };
	out->why[id] = NULL;
	if (get_le32(m + 4) != META_VERSION)
		out->why[id] = "a format version that this release does not read";
	else if (h.id != id || h.flags != PAGE_META)
		out->why[id] = "its header is not that of a meta page";
	else if (meta->page_size < PAGE_SIZE_MIN || meta->page_size > PAGE_SIZE_MAX)
		out->why[id] = "its page size makes no sense";
	else if (meta->page_count < 3 || meta->root < 2 || meta->root >= meta->page_count ||
	         (meta->freelist != NO_FREELIST && (meta->freelist < 2 || meta->freelist >= meta->page_count)))
		out->why[id] = "its page numbers make no sense";
	if (out->why[id])
		out->refuse[id] = get_le32(m + 4) != META_VERSION ? ERR_VERSION : ERR_CORRUPT;
}

static int read_meta(const struct bbolt_file *f, unsigned id, uint64_t at, struct metas *out, struct err *e)
{
	uint8_t p[PAGE_HEADER + META_BYTES];
	size_t got;
	int rc = read_at(f, p, sizeof(p), at, &got, e);
	if (rc)
		return rc;
	if (got < sizeof(p))
		out->why[id] = "the file ends within it";
	else
		judge_meta(p, id, out);
	return 0;
}

/* The second one stands where the first one's page ends. When the first is damaged it is looked for at every size that
 * bbolt itself would try; it must then name that size. */
static int read_metas(const struct bbolt_file *f, struct metas *m, struct err *e)
{
	int rc = read_meta(f, 0, 0, m, e);
	if (rc || m->refuse[0])
		return rc;
	if (!m->why[0])
		return read_meta(f, 1, m->meta[0].page_size, m, e);
	m->why[1] = "no bbolt meta page";
	for (uint32_t size = 512; size <= PAGE_SIZE_MAX; size *= 2) {
		struct metas other = *m;
		rc = read_meta(f, 1, size, &other, e);
		if (rc)
			return rc;
		if ((!other.why[1] || other.refuse[1]) && other.meta[1].page_size == size) {
			*m = other;
			return 0;
		}
	}
	return 0;
}

static int choose_meta(struct bbolt_file *f, struct err *e)
{
	struct metas m = { 0 };
	int rc = read_metas(f, &m, e);
	if (rc)
		return rc;
	for (unsigned i = 0; i < 2; i++) {
		if (m.refuse[i])
			return err_set(e, m.refuse[i], "%s: page %u: %s", f->name, i, m.why[i]);
	}
	if (m.why[0] && m.why[1])
		return err_set(e, ERR_CORRUPT, "%s: page 0: %s; page 1: %s", f->name, m.why[0], m.why[1]);
	if (!m.why[0] && !m.why[1] && m.meta[0].page_size != m.meta[1].page_size)
		return page_corrupt(f, 1, e, "it names another page size than page 0");
	unsigned use = m.why[0] ? 1 : 0;
	if (!m.why[0] && !m.why[1])
		use = m.meta[1].txn_id > m.meta[0].txn_id;
	f->meta = m.meta[use];
	f->info.meta = use;
	if (m.why[1 - use])
		snprintf(f->info.damaged_meta, sizeof(f->info.damaged_meta), "%s", m.why[1 - use]);
	return 0;
}

/* ---- the free list ---- */

static int take_free(struct bbolt_file *f, const uint8_t *ids, uint64_t n, uint32_t overflow, struct err *e)
{
	const uint64_t own = f->meta.freelist;
	uint64_t before = 1;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t id = get_le64(ids + 8 * i);
		if (id <= before || id >= f->meta.page_count)
			return page_corrupt(f, own, e, "free list: entry %" PRIu64 " names page %" PRIu64, i, id);
		if (id >= own && id - own <= overflow)
			return page_corrupt(f, own, e, "free list: it names its own page %" PRIu64, id);
		bit_set(f->is_free, id);
		before = id;
	}
	f->info.free_pages = n;
	return 0;
}

static int read_freelist(struct bbolt_file *f, struct err *e)
{
	struct page_header h;
	uint8_t *bytes = NULL;
	size_t cap = 0, len;
	f->info.keeps_freelist = f->meta.freelist != NO_FREELIST;
	if (!f->info.keeps_freelist)
		return 0;
	int rc = page_read(f, f->meta.freelist, &bytes, &cap, &h, &len, e);
	if (rc == 0 && h.flags != PAGE_FREELIST)
		rc = page_corrupt(f, h.id, e, "not a free list, as the meta page says (flags 0x%02x)", h.flags);
	if (rc == 0) {
		const bool is_long = h.count == 0xffff && len >= PAGE_HEADER + 8;
		const uint64_t n = is_long ? get_le64(bytes + PAGE_HEADER) : h.count;
		const size_t from = PAGE_HEADER + (is_long ? 8 : 0);
		rc = n > (len - from) / 8 ? page_corrupt(f, h.id, e, "free list: %" PRIu64 " entries do not fit", n)
		                          : take_free(f, bytes + from, n, h.overflow, e);
	}
	mem_free(bytes);
	return rc;
}

/* ---- the file ---- */

static int check_length(struct bbolt_file *f, struct err *e)
{
	const uint64_t pages = f->info.file_len / f->meta.page_size;
	if (f->meta.page_count <= pages)
		return 0;
	return page_corrupt(
	    f, pages, e, "the file is cut short: it has %" PRIu64 " bytes, %" PRIu64 " pages of %" PRIu32 " are in use",
	    f->info.file_len, f->meta.page_count, f->meta.page_size);
}

static int look(struct bbolt_file *f, struct err *e)
{
	struct stat st;
	if (fstat(f->fd, &st) != 0)
		return err_set_errno(e, ERR_IO, errno, "%s: could not look at it", f->name);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s: not a regular file", f->name);
	f->info.file_len = (uint64_t)st.st_size;
	int rc = choose_meta(f, e);
	if (rc == 0)
		rc = check_length(f, e);
	if (rc)
		return rc;
	f->info.page_size = f->meta.page_size;
	f->info.page_count = f->meta.page_count;
	f->info.txn_id = f->meta.txn_id;
	f->is_free = mem_zalloc((size_t)(f->meta.page_count / 8 + 1));
	return read_freelist(f, e);
}

int bbolt_open_fd(int fd, const char *name, struct bbolt_file **out, struct err *e)
{
	struct bbolt_file *f = mem_zalloc(sizeof(*f));
	f->fd = fd;
	f->name = mem_strdup(name);
	const int rc = look(f, e);
	if (rc) {
		bbolt_close(f);
		return rc;
	}
	*out = f;
	return 0;
}

int bbolt_open(const char *path, struct bbolt_file **out, struct err *e)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_set_errno(e, errno == ENOENT ? ERR_NOTFOUND : ERR_IO, errno, "could not open %s", path);
	/* bbolt holds it exclusively while it may write. */
	if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
		const int errnum = errno;
		close(fd);
		return errnum == EWOULDBLOCK
		           ? err_set(e, ERR_BUSY, "%s is in use by another process; stop it first", path)
		           : err_set_errno(e, ERR_IO, errnum, "could not lock %s", path);
	}
	return bbolt_open_fd(fd, path, out, e);
}

void bbolt_close(struct bbolt_file *f)
{
	if (!f)
		return;
	close(f->fd);
	mem_free(f->name);
	mem_free(f->is_free);
	mem_free(f);
}

const struct bbolt_info *bbolt_get_info(const struct bbolt_file *f)
{
	return &f->info;
}
