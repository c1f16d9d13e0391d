/*
 *   SIZE --;--> EXT --CR--> SIZE_LF --size > 0--> DATA --all in--> DATA_CR -> DATA_LF -> SIZE
 *     \---------CR----------^      \--size = 0--> LAST_CR -> LAST_LF -> END
 */
#include "http/chunk.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum chunk_state {
	CHUNK_SIZE = 0,
	CHUNK_EXT,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_LAST_CR,
	CHUNK_LAST_LF,
	CHUNK_END,
};

static bool refuse(struct http_chunk *c, const char *text)
{
	c->refusal = (struct http_refusal){ 400, "bad_request", text };
	return false;
}

static bool take_size(struct http_chunk *c, uint8_t byte)
{
	int d = hex_digit((char)byte);

	if (d >= 0) {
		if (++c->digits > 16)
			return refuse(c, "a chunk's size has more than 16 digits");
		c->left = c->left << 4 | (uint64_t)d;
		return true;
	}
	if (c->digits == 0 || (byte != '\r' && byte != ';'))
		return refuse(c, "a chunk's size is not a hex number");
	if (c->left > HTTP_BODY_MAX - c->total) {
		c->refusal = (struct http_refusal){ 413, "too_large", "the body is longer than 1 MiB" };
		return false;
	}
	c->state = byte == ';' ? CHUNK_EXT : CHUNK_SIZE_LF;
	return true;
}

static bool take_ext(struct http_chunk *c, uint8_t byte)
{
	if (byte == '\r') {
		c->state = CHUNK_SIZE_LF;
		return true;
	}
	if (++c->ext > HTTP_CHUNK_EXT_MAX)
		return refuse(c, "a chunk's extension is longer than 128 bytes");
	if ((byte < 0x20 && byte != '\t') || byte == 0x7f)
		return refuse(c, "a chunk's extension holds a control byte");
	return true;
}

static bool expect(struct http_chunk *c, uint8_t byte, uint8_t want, enum chunk_state next)
{
	if (byte != want)
		return refuse(c, want == '\r' && c->state == CHUNK_LAST_CR
		                     ? "trailers behind a chunked body are not taken"
		                     : "a chunk does not end in CR LF");
	c->state = (int)next;
	return true;
}

/* One byte outside of a chunk's data. */
static bool take_byte(struct http_chunk *c, uint8_t byte)
{
	switch ((enum chunk_state)c->state) {
	case CHUNK_SIZE: return take_size(c, byte);
	case CHUNK_EXT: return take_ext(c, byte);
	case CHUNK_SIZE_LF: return expect(c, byte, '\n', c->left > 0 ? CHUNK_DATA : CHUNK_LAST_CR);
	case CHUNK_DATA_CR: return expect(c, byte, '\r', CHUNK_DATA_LF);
	case CHUNK_DATA_LF: c->digits = c->ext = 0; return expect(c, byte, '\n', CHUNK_SIZE);
	case CHUNK_LAST_CR: return expect(c, byte, '\r', CHUNK_LAST_LF);
	case CHUNK_LAST_LF: return expect(c, byte, '\n', CHUNK_END);
	case CHUNK_DATA:
	case CHUNK_END: break;
	}
	return refuse(c, "the body has ended");
}

enum http_chunk_result http_chunk_read(struct http_chunk *c, const uint8_t *raw, size_t len, size_t *used, uint8_t *out,
                                       size_t *put)
{
	size_t i = 0;

	*put = 0;
	while (i < len && c->state != CHUNK_END) {
		if (c->state == CHUNK_DATA) {
			size_t n = c->left < len - i ? (size_t)c->left : len - i;

			memmove(out + *put, raw + i, n);
			*put += n;
			i += n;
			c->total += n;
			c->left -= n;
			if (c->left == 0)
				c->state = CHUNK_DATA_CR;
			continue;
		}
		if (!take_byte(c, raw[i])) {
			*used = i;
			return HTTP_CHUNK_REFUSED;
		}
		i++;
	}
	*used = i;
	return c->state == CHUNK_END ? HTTP_CHUNK_DONE : HTTP_CHUNK_MORE;
}
