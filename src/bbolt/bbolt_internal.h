/* bbolt/bbolt_internal.h - the format, and what the files of bbolt/ share.
 *
 *   page: header of 16 bytes, then what its flag says; overflow pages go on where it ends, without headers
 *      0 u64 id   8 u16 flags   10 u16 count   12 u32 overflow: so many pages more
 *   meta (pages 0 and 1), behind the header
 *      0 u32 magic   4 u32 version   8 u32 page size   12 u32 flags   16 u64 root page   24 u64 root's sequence
 *     32 u64 free list's page, all ones = not kept   40 u64 high-water mark   48 u64 transaction   56 u64 FNV-64a of
 * 0..55 branch element, 16 bytes: u32 position, u32 key bytes, u64 page leaf element, 16 bytes:   u32 flags (1 = a
 * bucket), u32 position, u32 key bytes, u32 value bytes positions count from the element; keys and values stand behind
 * the elements, in their order, without a gap a bucket's value: u64 root page, u64 sequence; root 0: a leaf page of its
 * own follows, headed by page 0 ("inline") free list: u64 each, rising; from 65,535 on the count is 0xffff and the
 * first u64 says how many Numbers are little-endian: bbolt writes the machine's own order, and all that Debian 12's
 * veena runs on is that.
 */
#ifndef BBOLT_BBOLT_INTERNAL_H
#define BBOLT_BBOLT_INTERNAL_H

#include "bbolt/bbolt.h"

#define PAGE_HEADER 16u
#define PAGE_BRANCH 0x01u
#define PAGE_LEAF 0x02u
#define PAGE_META 0x04u
#define PAGE_FREELIST 0x10u
#define ELEMENT 16u
#define LEAF_BUCKET 1u
#define BUCKET_HEADER 16u

#define META_BYTES 64u
#define META_SUMMED 56u
#define META_MAGIC 0xED0CDAEDu
#define META_VERSION 2u
#define NO_FREELIST UINT64_MAX

#define PAGE_SIZE_MIN 128u
#define PAGE_SIZE_MAX (1u << 20)

struct page_header {
	uint64_t id;
	uint16_t flags;
	uint16_t count;
	uint32_t overflow;
};

struct meta {
	uint32_t page_size;
	uint64_t root, sequence;
	uint64_t freelist;
	uint64_t page_count;
	uint64_t txn_id;
};

struct bbolt_file {
	int fd;
	char *name;
	struct bbolt_info info;
	struct meta meta;
	uint8_t *is_free; /* one bit a page */
};

static inline bool bit_get(const uint8_t *bits, uint64_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}
static inline void bit_set(uint8_t *bits, uint64_t i)
{
	bits[i / 8] = (uint8_t)(bits[i / 8] | 1u << (i % 8));
}

void page_header_get(const uint8_t *p, struct page_header *out);
void page_header_put(uint8_t *p, const struct page_header *h);
uint64_t meta_checksum(const uint8_t *meta); /* FNV-64a */

/* "<name>: page <id>: <why>" */
int page_corrupt(const struct bbolt_file *f, uint64_t id, struct err *e, const char *fmt, ...) PRINTF_LIKE(4, 5);
/* A page with its overflow pages; `*bytes` is grown to hold them (mem_free). ERR_CORRUPT when the page is not what its
 * header must say, or reaches past the high-water mark. */
MUST_CHECK int page_read(struct bbolt_file *f, uint64_t id, uint8_t **bytes, size_t *cap, struct page_header *h,
                         size_t *len, struct err *e);

#endif /* BBOLT_BBOLT_INTERNAL_H */
