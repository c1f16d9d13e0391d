/* model/json.h - strict JSON: a pull parser over bytes, and a writer with the habits of Go's encoding/json.
 *
 * The only JSON code of the tree. The parser builds no tree and allocates nothing; it hands out one event at a time and
 * keeps numbers and strings as the text they were, so that no spelling is lost. Refused besides what RFC 8259 refuses:
 * invalid UTF-8, unpaired surrogate escapes, a byte order mark, nesting deeper than the caller's limit, and (where the
 * caller asks) \u0000. Duplicate keys are the business of whoever keeps the keys: json_check here, records in field.h.
 *
 * Ownership: the text is borrowed while the reader is used; tokens point into it.   Thread: any; a reader or writer is
 * its owner's.   Source: RFC 8259; the public JSONTestSuite in tests/data/json.
 */
#ifndef MODEL_JSON_H
#define MODEL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define JSON_DEPTH_DEFAULT 64 /* open containers; what a record, a body and a schema may nest */
#define JSON_DEPTH_MAX 512    /* largest limit a caller may ask for: one bit per level inside the reader */

enum json_event {
	JSON_ERROR,      /* reader->error and error_pos say what and where; every later call says so again */
	JSON_OBJECT,     /* '{' */
	JSON_OBJECT_END, /* '}' */
	JSON_ARRAY,      /* '[' */
	JSON_ARRAY_END,  /* ']' */
	JSON_KEY,        /* token = the key's text between its quotes; its value follows */
	JSON_STRING,     /* token = the text between the quotes */
	JSON_NUMBER,     /* token = the number as spelled */
	JSON_TRUE,
	JSON_FALSE,
	JSON_NULL,
	JSON_END, /* the value is complete and nothing but white space follows it */
};

struct json_reader {
	struct str token;   /* of the last KEY, STRING or NUMBER; points into the text */
	bool escaped;       /* the token holds backslash escapes: json_unescape gives its bytes */
	size_t token_pos;   /* offset at which the last event's text begins */
	size_t pos;         /* offset behind the last event's text */
	const char *error;  /* what is wrong, no final stop; NULL while all is well */
	size_t error_pos;   /* offset of the offending byte */
	bool refuse_nul;    /* the caller may set it after init: \u0000 is an error */
	uint8_t expect;     /* json.c's own: what may come next */
	uint16_t depth;     /* containers open now */
	uint16_t depth_max; /* more than this many open is an error */
	const uint8_t *bytes;
	size_t len;
	uint64_t is_object[JSON_DEPTH_MAX / 64]; /* bit d: the container opened at depth d is an object */
};

/* `depth_max` 0 = JSON_DEPTH_DEFAULT; at most JSON_DEPTH_MAX. */
void json_reader_init(struct json_reader *r, struct str text, size_t depth_max);
enum json_event json_next(struct json_reader *r);

/* Passes over the rest of the value whose first event `first` was just returned (a scalar is already passed). Its text
 * runs from the token_pos of that event to r->pos. False: JSON_ERROR. */
MUST_CHECK bool json_skip(struct json_reader *r, enum json_event first);

/* Writes the token's bytes with escapes undone; `out` holds at least token.len bytes. Returns how many it wrote. The
 * token must come from a reader. */
size_t json_unescape(char *out, struct str token);
/* The token itself if it holds no escapes, else its bytes in the arena. */
struct str json_token_str(const struct json_reader *r, struct arena *a);

/* A number token as an integer. False when it has a fraction or an exponent, or does not fit. "-0" is 0. */
bool json_number_i64(struct str token, int64_t *out);
bool json_number_u64(struct str token, uint64_t *out);

/* One walk over a whole document: everything the parser refuses, \u0000, and keys that occur twice in one object
 * (compared with escapes undone). ERR_INVALID with the reason; *pos (may be NULL) gets the offset. The arena takes keys
 * with escapes. */
MUST_CHECK int json_check(struct str text, size_t depth_max, struct arena *a, size_t *pos, struct err *e);

/* Appends a document that passed json_check or a reader, without its white space. With `escape_html`, strings are
 * treated as Go treats a json.RawMessage it embeds: <, >, &, U+2028 and U+2029 as \u escapes; without, they keep their
 * bytes. */
void json_compact(struct buf *out, struct str doc, bool escape_html);

/* ---- writing ----
 *
 * Hand-built answers are written by begin, key, value and end calls in order; commas come by themselves:
 *
 *   struct json_writer w = { .out = &body };
 *   json_begin_object(&w);
 *   json_key(&w, "index");
 *   json_put_u64(&w, index);
 *   json_end_object(&w);
 */
struct json_writer {
	struct buf *out; /* borrowed; bytes are appended */
	bool comma;      /* a value stands before: the next one at this level needs a comma */
};

void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_key(struct json_writer *w, const char *key);
void json_key_str(struct json_writer *w, struct str key);
/* Strings are escaped as Go does: ", \, control bytes, <, >, &, U+2028, U+2029; each byte that is not valid UTF-8
 * becomes \ufffd, so that the output is always JSON. */
void json_put_str(struct json_writer *w, struct str s);
void json_put_cstr(struct json_writer *w, const char *s); /* NULL is written as "" */
void json_put_i64(struct json_writer *w, int64_t v);
void json_put_u64(struct json_writer *w, uint64_t v);
void json_put_double(struct json_writer *w, double v); /* shortest text that reads back the same; v must be finite */
void json_put_bool(struct json_writer *w, bool v);
void json_put_null(struct json_writer *w);
void json_put_base64(struct json_writer *w, struct str bytes); /* standard alphabet, padded */
void json_put_raw(struct json_writer *w, struct str json);     /* one complete value, copied as it is */
void json_put_doc(struct json_writer *w, struct str doc); /* one complete value, as json_compact with escape_html */

/* Key and value in one line, for the many fields of hand-built answers. */
static inline void json_field_str(struct json_writer *w, const char *key, struct str s)
{
	json_key(w, key);
	json_put_str(w, s);
}
static inline void json_field_cstr(struct json_writer *w, const char *key, const char *s)
{
	json_key(w, key);
	json_put_cstr(w, s);
}
static inline void json_field_i64(struct json_writer *w, const char *key, int64_t v)
{
	json_key(w, key);
	json_put_i64(w, v);
}
static inline void json_field_u64(struct json_writer *w, const char *key, uint64_t v)
{
	json_key(w, key);
	json_put_u64(w, v);
}
static inline void json_field_bool(struct json_writer *w, const char *key, bool v)
{
	json_key(w, key);
	json_put_bool(w, v);
}

#endif /* MODEL_JSON_H */
