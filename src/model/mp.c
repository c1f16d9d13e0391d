/* msgpack. One function takes a header apart, for the check and for the reader alike; it is the only place that looks
 * at a length from outside. Writing goes through msgpack-c's packer. Reading does not go through its unpacker: that
 * builds a tree and allocates what a header claims, while records are read straight into their structs. */
#include "model/mp.h"

#include <assert.h>
#include <string.h>

#include <msgpack/pack.h>

/* ---- headers ---- */

struct head {
	enum mp_type type;
	size_t size;        /* bytes of the header itself; a scalar's value is part of it */
	size_t payload;     /* bytes that follow: STR, BIN, EXT (its type byte is in the header) */
	uint64_t count;     /* values that follow: ARRAY, MAP (keys and values) */
	uint64_t magnitude; /* INT: the value, or as two's complement when negative */
	bool negative;
	bool truth; /* BOOL */
};

static uint64_t get_be(const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

/* Sign-extends an n-byte integer. */
static uint64_t extend(uint64_t v, size_t n)
{
	const unsigned unused = (unsigned)(64 - 8 * n);
	return (uint64_t)((int64_t)(v << unused) >> unused);
}

/* The type byte alone: type, and how many bytes of length or value follow it. False: 0xc1, which means nothing. */
static bool type_of(uint8_t c, enum mp_type *type, size_t *width)
{
	static const struct {
		uint8_t type, width;
	} table[32] = {
		[0x00] = { MP_NIL, 0 },                                                     /* c0 */
		[0x01] = { MP_NONE, 0 },                                                    /* c1 */
		[0x02] = { MP_BOOL, 0 },                                                    /* c2, c3 */
		[0x03] = { MP_BOOL, 0 },  [0x04] = { MP_BIN, 1 },                           /* c4..c6 */
		[0x05] = { MP_BIN, 2 },   [0x06] = { MP_BIN, 4 }, [0x07] = { MP_EXT, 1 },   /* c7..c9 */
		[0x08] = { MP_EXT, 2 },   [0x09] = { MP_EXT, 4 }, [0x0a] = { MP_FLOAT, 4 }, /* ca, cb */
		[0x0b] = { MP_FLOAT, 8 }, [0x0c] = { MP_INT, 1 }, /* cc..cf unsigned, d0..d3 signed */
		[0x0d] = { MP_INT, 2 },   [0x0e] = { MP_INT, 4 }, [0x0f] = { MP_INT, 8 },
		[0x10] = { MP_INT, 1 },   [0x11] = { MP_INT, 2 }, [0x12] = { MP_INT, 4 },
		[0x13] = { MP_INT, 8 },   [0x14] = { MP_EXT, 0 }, /* d4..d8: 1, 2, 4, 8, 16 bytes */
		[0x15] = { MP_EXT, 0 },   [0x16] = { MP_EXT, 0 }, [0x17] = { MP_EXT, 0 },
		[0x18] = { MP_EXT, 0 },   [0x19] = { MP_STR, 1 },                           /* d9..db */
		[0x1a] = { MP_STR, 2 },   [0x1b] = { MP_STR, 4 }, [0x1c] = { MP_ARRAY, 2 }, /* dc, dd */
		[0x1d] = { MP_ARRAY, 4 }, [0x1e] = { MP_MAP, 2 },                           /* de, df */
		[0x1f] = { MP_MAP, 4 },
	};
	*width = 0;
	if (c < 0x80 || c >= 0xe0) {
		*type = MP_INT;
	} else if (c < 0x90) {
		*type = MP_MAP;
	} else if (c < 0xa0) {
		*type = MP_ARRAY;
	} else if (c < 0xc0) {
		*type = MP_STR;
	} else {
		*type = (enum mp_type)table[c - 0xc0].type;
		*width = table[c - 0xc0].width;
	}
	return *type != MP_NONE;
}

/* What the length or value is when it stands in the type byte itself. */
static uint64_t inline_value(uint8_t c)
{
	if (c < 0x80)
		return c;
	if (c < 0xa0)
		return c & 0x0f;
	if (c < 0xc0)
		return c & 0x1f;
	if (c >= 0xd4 && c <= 0xd8)
		return 1u << (c - 0xd4);
	return 0;
}

/* Takes apart the header at `p`. NULL: `h` is filled and everything it claims is there (payload) or may be there (one
 * byte for each value). Else why not. */
static const char *read_head(const uint8_t *p, size_t left, struct head *h)
{
	size_t width;
	if (left == 0)
		return "the bytes end too early";
	const uint8_t c = p[0];
	*h = (struct head){ 0 };
	if (!type_of(c, &h->type, &width))
		return "a type byte that means nothing";
	h->size = 1 + width + (h->type == MP_EXT);
	if (left < h->size)
		return "the bytes end too early";
	left -= h->size;
	const uint64_t v = width ? get_be(p + 1, width) : inline_value(c);
	switch (h->type) {
	case MP_BOOL: h->truth = c == 0xc3; break;
	case MP_INT:
		h->magnitude = v;
		if (c >= 0xe0)
			h->magnitude = extend(c, 1);
		else if (c >= 0xd0 && c <= 0xd3)
			h->magnitude = extend(v, width);
		h->negative = c >= 0xd0 && h->magnitude >> 63;
		break;
	case MP_STR:
	case MP_BIN:
	case MP_EXT:
		if (v > left)
			return "a length goes beyond the bytes";
		h->payload = (size_t)v;
		break;
	case MP_ARRAY:
	case MP_MAP:
		h->count = h->type == MP_MAP ? v * 2 : v;
		if (h->count > left)
			return "a count goes beyond the bytes";
		break;
	case MP_NIL:
	case MP_FLOAT:
	case MP_NONE: break;
	}
	return NULL;
}

int mp_check(const void *bytes, size_t len, struct err *e)
{
	const uint8_t *p = bytes;
	size_t pos = 0;
	uint64_t open[MP_DEPTH_MAX]; /* values still to come in each open container */
	size_t depth = 0;
	do {
		struct head h;
		const char *why = read_head(p + pos, len - pos, &h);
		const bool container = !why && (h.type == MP_ARRAY || h.type == MP_MAP);
		if (container && depth == MP_DEPTH_MAX)
			why = "nested too deeply";
		if (why)
			return err_set(e, ERR_CORRUPT, "msgpack: %s, at byte %zu", why, pos);
		pos += h.size + h.payload;
		if (depth)
			open[depth - 1]--;
		if (container)
			open[depth++] = h.count;
		while (depth && open[depth - 1] == 0)
			depth--;
	} while (depth);
	if (pos != len)
		return err_set(e, ERR_CORRUPT, "msgpack: something follows the value, at byte %zu", pos);
	return 0;
}

/* ---- writing ---- */

static int append_cb(void *data, const char *bytes, size_t len)
{
	buf_put(data, bytes, len);
	return 0;
}

static msgpack_packer packer(struct mp_writer *w)
{
	return (msgpack_packer){ .data = w->out, .callback = append_cb };
}

void mp_put_nil(struct mp_writer *w)
{
	msgpack_packer p = packer(w);
	(void)msgpack_pack_nil(&p); /* append_cb cannot fail, here and below */
}

void mp_put_bool(struct mp_writer *w, bool v)
{
	msgpack_packer p = packer(w);
	(void)(v ? msgpack_pack_true(&p) : msgpack_pack_false(&p));
}

void mp_put_i64(struct mp_writer *w, int64_t v)
{
	msgpack_packer p = packer(w);
	(void)msgpack_pack_int64(&p, v);
}

void mp_put_u64(struct mp_writer *w, uint64_t v)
{
	msgpack_packer p = packer(w);
	(void)msgpack_pack_uint64(&p, v);
}

void mp_put_str(struct mp_writer *w, struct str s)
{
	assert(s.len <= UINT32_MAX);
	msgpack_packer p = packer(w);
	(void)msgpack_pack_str(&p, s.len);
	buf_put(w->out, s.p, s.len);
}

void mp_put_bin(struct mp_writer *w, const void *bytes, size_t len)
{
	assert(len <= UINT32_MAX);
	msgpack_packer p = packer(w);
	(void)msgpack_pack_bin(&p, len);
	buf_put(w->out, bytes, len);
}

void mp_put_array(struct mp_writer *w, size_t count)
{
	assert(count <= UINT32_MAX);
	msgpack_packer p = packer(w);
	(void)msgpack_pack_array(&p, count);
}

void mp_put_map(struct mp_writer *w, size_t count)
{
	assert(count <= UINT32_MAX);
	msgpack_packer p = packer(w);
	(void)msgpack_pack_map(&p, count);
}

/* ---- reading ---- */

void mp_reader_init(struct mp_reader *r, const void *bytes, size_t len)
{
	*r = (struct mp_reader){ .p = bytes, .end = len ? (const uint8_t *)bytes + len : bytes };
}

static size_t left_of(const struct mp_reader *r)
{
	return (size_t)(r->end - r->p);
}

enum mp_type mp_peek(const struct mp_reader *r)
{
	struct head h;
	if (r->error || read_head(r->p, left_of(r), &h))
		return MP_NONE;
	return h.type;
}

void mp_read_fail(struct mp_reader *r, const char *why)
{
	if (!r->error)
		r->error = why;
}

bool mp_read_ok(const struct mp_reader *r)
{
	return !r->error;
}

bool mp_read_end(const struct mp_reader *r)
{
	return !r->error && r->p == r->end;
}

/* Takes the header of a value that must be of this type; `h` is zeroed when it is not. */
static bool take(struct mp_reader *r, enum mp_type type, const char *expected, struct head *h)
{
	const char *why = r->error ? r->error : read_head(r->p, left_of(r), h);
	if (!why && h->type != type)
		why = expected;
	if (why) {
		mp_read_fail(r, why);
		*h = (struct head){ 0 };
		return false;
	}
	r->p += h->size;
	return true;
}

bool mp_read_nil(struct mp_reader *r)
{
	if (mp_peek(r) != MP_NIL)
		return false;
	r->p++;
	return true;
}

bool mp_read_bool(struct mp_reader *r)
{
	struct head h;
	(void)take(r, MP_BOOL, "expected a flag", &h);
	return h.truth;
}

int64_t mp_read_i64(struct mp_reader *r)
{
	struct head h;
	(void)take(r, MP_INT, "expected an integer", &h);
	if (!h.negative && h.magnitude > INT64_MAX) {
		mp_read_fail(r, "an integer is too large");
		return 0;
	}
	return (int64_t)h.magnitude;
}

uint64_t mp_read_u64(struct mp_reader *r)
{
	struct head h;
	(void)take(r, MP_INT, "expected an integer", &h);
	if (h.negative) {
		mp_read_fail(r, "an integer is negative");
		return 0;
	}
	return h.magnitude;
}

uint32_t mp_read_u32(struct mp_reader *r)
{
	const uint64_t v = mp_read_u64(r);
	if (v > UINT32_MAX) {
		mp_read_fail(r, "an integer is too large");
		return 0;
	}
	return (uint32_t)v;
}

/* The payload behind a taken header; never a NULL pointer unless the reader failed. */
static struct str take_payload(struct mp_reader *r, enum mp_type type, const char *expected)
{
	struct head h;
	if (!take(r, type, expected, &h))
		return (struct str){ 0 };
	const struct str s = { (const char *)r->p, h.payload };
	r->p += h.payload;
	return s;
}

struct str mp_read_str(struct mp_reader *r)
{
	const struct str s = take_payload(r, MP_STR, "expected a string");
	if (s.len && !utf8_valid(s.p, s.len)) {
		mp_read_fail(r, "a string is not valid UTF-8");
		return (struct str){ 0 };
	}
	return s;
}

struct str mp_read_bin(struct mp_reader *r)
{
	return take_payload(r, MP_BIN, "expected bytes");
}

size_t mp_read_array(struct mp_reader *r)
{
	struct head h;
	(void)take(r, MP_ARRAY, "expected an array", &h);
	return (size_t)h.count;
}

size_t mp_read_map(struct mp_reader *r)
{
	struct head h;
	(void)take(r, MP_MAP, "expected a map", &h);
	return (size_t)(h.count / 2);
}

void mp_read_array_of(struct mp_reader *r, size_t count)
{
	if (mp_read_array(r) != count)
		mp_read_fail(r, "an array of another length");
}

/* Counts values still to pass; each container adds at most as many as bytes are left, so this ends and cannot wrap. */
void mp_read_skip(struct mp_reader *r)
{
	uint64_t todo = 1;
	while (todo && !r->error) {
		struct head h;
		const char *why = read_head(r->p, left_of(r), &h);
		if (why) {
			mp_read_fail(r, why);
			return;
		}
		r->p += h.size + h.payload;
		todo += h.count;
		todo--;
	}
}
