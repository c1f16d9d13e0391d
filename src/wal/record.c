/* wal/record.c - one record as bytes. Layout: README.md.
 *
 * A record is only ever believed whole: the CRC covers all of it, length and padding included, and starts from the
 * random word of its segment, so that bytes left from another file or another life of this one cannot verify.
 */
#include "wal/wal_internal.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"

/* Offsets in the fixed part. */
enum {
	AT_LEN = 0,
	AT_CRC = 4,
	AT_PREV_CRC = 8,
	AT_KIND = 12,
	AT_INDEX = 16,
	AT_TERM = 24,
	AT_PREV_TERM = 32,
	AT_DURABLE_SEGMENT = 40,
	AT_SLOT_SEQ = 48,
	AT_DURABLE_OFFSET = 56,
	AT_ZERO = 60,
};
static_assert(AT_ZERO + 4 == WAL_RECORD_BYTES, "the fixed part has no hole");

static uint32_t crc_fixed(const uint8_t *p, uint32_t seed)
{
	const uint32_t crc = crc32c(seed, p + AT_LEN, AT_CRC - AT_LEN);
	return crc32c(crc, p + AT_PREV_CRC, WAL_RECORD_BYTES - AT_PREV_CRC);
}

uint32_t wal_record_encode(const struct wal_record *r, const void *payload, uint32_t seed, uint8_t *out)
{
	static const uint8_t zeros[8];
	memset(out, 0, WAL_RECORD_BYTES);
	put_le32(out + AT_LEN, r->len);
	put_le32(out + AT_PREV_CRC, r->prev_crc);
	out[AT_KIND] = r->kind;
	put_le64(out + AT_INDEX, r->index);
	put_le64(out + AT_TERM, r->term);
	put_le64(out + AT_PREV_TERM, r->prev_term);
	put_le64(out + AT_DURABLE_SEGMENT, r->durable.segment);
	put_le64(out + AT_SLOT_SEQ, r->slot_seq);
	put_le32(out + AT_DURABLE_OFFSET, r->durable.offset);

	uint32_t crc = crc_fixed(out, seed);
	crc = crc32c(crc, payload, r->len);
	crc = crc32c(crc, zeros, (size_t)(wal_record_size(r->len) - WAL_RECORD_BYTES - r->len));
	put_le32(out + AT_CRC, crc);
	return crc;
}

bool wal_record_peek(const uint8_t *p, struct wal_record *out)
{
	const struct wal_record r = {
		.len = get_le32(p + AT_LEN),
		.crc = get_le32(p + AT_CRC),
		.prev_crc = get_le32(p + AT_PREV_CRC),
		.kind = p[AT_KIND],
		.index = get_le64(p + AT_INDEX),
		.term = get_le64(p + AT_TERM),
		.prev_term = get_le64(p + AT_PREV_TERM),
		.durable = { get_le64(p + AT_DURABLE_SEGMENT), get_le32(p + AT_DURABLE_OFFSET) },
		.slot_seq = get_le64(p + AT_SLOT_SEQ),
	};
	/* A kind nobody knows yet is for the upper floors to refuse: taking it for damage would cut it off. */
	if (r.kind == 0 || r.len > ENTRY_PAYLOAD_MAX || r.index == 0)
		return false;
	if (p[AT_KIND + 1] || p[AT_KIND + 2] || p[AT_KIND + 3] || get_le32(p + AT_ZERO))
		return false;
	*out = r;
	return true;
}

bool wal_record_decode(const uint8_t *p, size_t avail, uint32_t seed, struct wal_record *out)
{
	struct wal_record r;
	if (avail < WAL_RECORD_BYTES || !wal_record_peek(p, &r))
		return false;
	const uint64_t size = wal_record_size(r.len);
	if (size > avail)
		return false;
	const uint32_t crc = crc32c(crc_fixed(p, seed), p + WAL_RECORD_BYTES, (size_t)size - WAL_RECORD_BYTES);
	if (crc != r.crc)
		return false;
	*out = r;
	return true;
}

uint32_t wal_record_reseal(uint8_t *p, uint32_t prev_crc, uint32_t seed)
{
	put_le32(p + AT_PREV_CRC, prev_crc);
	const size_t size = (size_t)wal_record_size(get_le32(p + AT_LEN));
	const uint32_t crc = crc32c(crc_fixed(p, seed), p + WAL_RECORD_BYTES, size - WAL_RECORD_BYTES);
	put_le32(p + AT_CRC, crc);
	return crc;
}
