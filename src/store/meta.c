/* The two meta pages of an LMDB file, read with pread and without LMDB.
 *
 * Page 0 and page 1 each hold a page header of 16 bytes and, in the byte order of the machine:
 *
 *   +0  u32 magic   +4  u32 version   +8  map address   +16 map size
 *   +24 free list's database, 48 bytes; its first u32 is the page size
 *   +72 main database, 48 bytes
 *   +120 u64 last page used   +128 u64 transaction id
 *
 * The one with the higher transaction id is the newest commit. A unit test holds these offsets to what LMDB itself
 * says.
 */
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_internal.h"

#define PAGE_HEADER 16
#define META_SIZE 136
#define META_MAGIC 0xBEEFC0DEu
#define META_VERSION 1u
#define PAGE_SIZE_MIN 512u
#define PAGE_SIZE_MAX 65536u

struct meta {
	uint32_t magic, version, page_size;
	uint64_t last_page, txn_id;
};

/* False: fewer bytes than a meta page needs, or a read error (then errno is not 0). */
static bool read_meta(int fd, off_t at, struct meta *out)
{
	uint8_t b[META_SIZE];
	errno = 0;
	if (pread(fd, b, sizeof(b), at + PAGE_HEADER) != (ssize_t)sizeof(b))
		return false;
	memcpy(&out->magic, b, 4);
	memcpy(&out->version, b + 4, 4);
	memcpy(&out->page_size, b + 24, 4);
	memcpy(&out->last_page, b + 120, 8);
	memcpy(&out->txn_id, b + 128, 8);
	return true;
}

static bool is_page_size(uint32_t n)
{
	return n >= PAGE_SIZE_MIN && n <= PAGE_SIZE_MAX && (n & (n - 1)) == 0;
}

static int read_metas(int fd, const char *path, uint64_t length, struct store_file_info *out, struct err *e)
{
	struct meta m[2];
	if (!read_meta(fd, 0, &m[0]))
		return errno ? err_set_errno(e, ERR_IO, errno, "%s: cannot read", path)
		             : err_set(e, ERR_CORRUPT, "%s: too short for a database", path);
	if (m[0].magic != META_MAGIC || !is_page_size(m[0].page_size))
		return err_set(e, ERR_CORRUPT, "%s: not a database", path);
	if (m[0].version != META_VERSION)
		return err_set(e, ERR_VERSION, "%s: database format %u, this build reads %u", path, m[0].version,
		               META_VERSION);
	if (!read_meta(fd, (off_t)m[0].page_size, &m[1]))
		return errno ? err_set_errno(e, ERR_IO, errno, "%s: cannot read", path)
		             : err_set(e, ERR_CORRUPT, "%s: cut short inside its second page", path);
	if (m[1].magic != META_MAGIC || m[1].version != META_VERSION || m[1].page_size != m[0].page_size)
		return err_set(e, ERR_CORRUPT, "%s: its second page is no meta page", path);

	const struct meta *newest = m[1].txn_id > m[0].txn_id ? &m[1] : &m[0];
	out->txn_id = newest->txn_id;
	out->last_page = newest->last_page;
	out->page_size = newest->page_size;
	out->length = length;
	if (newest->last_page >= length / newest->page_size)
		return err_set(e, ERR_CORRUPT, "%s: cut short: %llu bytes, but page %llu of %u bytes is in use", path,
		               (unsigned long long)length, (unsigned long long)newest->last_page, newest->page_size);
	return 0;
}

int store_pad_image(int fd, off_t from, struct err *e)
{
	struct meta m[2];
	struct stat st;
	const off_t end = lseek(fd, 0, SEEK_CUR);
	if (from < 0 || end < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return 0;
	if (!read_meta(fd, from, &m[0]) || !is_page_size(m[0].page_size) ||
	    !read_meta(fd, from + (off_t)m[0].page_size, &m[1]))
		return err_set(e, ERR_IO, "the copy of a database cannot be read back");
	const struct meta *newest = m[1].txn_id > m[0].txn_id ? &m[1] : &m[0];
	const off_t want = from + (off_t)((newest->last_page + 1) * m[0].page_size);
	if (end >= want)
		return 0;
	if (ftruncate(fd, want) != 0 || lseek(fd, want, SEEK_SET) != want)
		return err_set_errno(e, store_code(errno), errno, "cannot make room behind the copy of a database");
	return 0;
}

int store_read_file_info(const char *path, struct store_file_info *out, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? err_set(e, ERR_NOTFOUND, "%s: no such file", path)
		                       : err_set_errno(e, ERR_IO, errno, "%s: cannot open", path);
	struct store_file_info info = { 0 };
	struct stat st;
	int rc;
	if (fstat(fd, &st) != 0)
		rc = err_set_errno(e, ERR_IO, errno, "%s: cannot stat", path);
	else if (!S_ISREG(st.st_mode))
		rc = err_set(e, ERR_CORRUPT, "%s: not a regular file", path);
	else if (st.st_size == 0)
		rc = err_set(e, ERR_NOTFOUND, "%s: empty", path);
	else
		rc = read_metas(fd, path, (uint64_t)st.st_size, &info, e);
	close(fd);
	if (rc == 0)
		*out = info;
	return rc;
}
