/* The writer, and compaction. The escaping is that of Go's encoding/json, so that a record brought over from Narad and
 * written again keeps its bytes. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base64.h"
#include "model/json.h"
#include "model/utf8.h"

static void before_value(struct json_writer *w)
{
	if (w->comma)
		buf_putc(w->out, ',');
	w->comma = true;
}

void json_begin_object(struct json_writer *w)
{
	before_value(w);
	buf_putc(w->out, '{');
	w->comma = false;
}

void json_end_object(struct json_writer *w)
{
	buf_putc(w->out, '}');
	w->comma = true;
}

void json_begin_array(struct json_writer *w)
{
	before_value(w);
	buf_putc(w->out, '[');
	w->comma = false;
}

void json_end_array(struct json_writer *w)
{
	buf_putc(w->out, ']');
	w->comma = true;
}

/* What replaces an ASCII byte inside a string; NULL: it stands for itself. `tmp` holds 7 bytes. */
static const char *ascii_escape(uint8_t c, char tmp[7])
{
	static const char hex[] = "0123456789abcdef";
	switch (c) {
	case '"': return "\\\"";
	case '\\': return "\\\\";
	case '\b': return "\\b";
	case '\f': return "\\f";
	case '\n': return "\\n";
	case '\r': return "\\r";
	case '\t': return "\\t";
	case '<':
	case '>':
	case '&': break;
	default:
		if (c >= 0x20)
			return NULL;
		break;
	}
	memcpy(tmp, "\\u00", 4);
	tmp[4] = hex[c >> 4];
	tmp[5] = hex[c & 15];
	tmp[6] = '\0';
	return tmp;
}

/* The string's bytes without quotes. Bytes that stand for themselves are copied in runs. */
static void put_escaped(struct buf *out, struct str s)
{
	const uint8_t *p = (const uint8_t *)s.p;
	size_t run = 0;
	size_t i = 0;
	while (i < s.len) {
		char tmp[7];
		const char *instead;
		size_t n = 1;
		if (p[i] < 0x80) {
			instead = ascii_escape(p[i], tmp);
		} else {
			n = utf8_sequence(p + i, s.len - i);
			if (n == 0) {
				instead = "\\ufffd";
				n = 1;
			} else {
				instead = NULL;
				if (utf8_is_line_separator(p + i, n))
					instead = p[i + 2] == 0xa8 ? "\\u2028" : "\\u2029";
			}
		}
		if (instead) {
			buf_put(out, p + run, i - run);
			buf_puts(out, instead);
			run = i + n;
		}
		i += n;
	}
	buf_put(out, p + run, s.len - run);
}

static void put_quoted(struct buf *out, struct str s)
{
	buf_putc(out, '"');
	if (s.len)
		put_escaped(out, s);
	buf_putc(out, '"');
}

void json_key_str(struct json_writer *w, struct str key)
{
	before_value(w);
	put_quoted(w->out, key);
	buf_putc(w->out, ':');
	w->comma = false;
}

void json_key(struct json_writer *w, const char *key)
{
	json_key_str(w, str_of(key));
}

void json_put_str(struct json_writer *w, struct str s)
{
	before_value(w);
	put_quoted(w->out, s);
}

void json_put_cstr(struct json_writer *w, const char *s)
{
	json_put_str(w, str_of(s));
}

void json_put_i64(struct json_writer *w, int64_t v)
{
	before_value(w);
	buf_put_i64(w->out, v);
}

void json_put_u64(struct json_writer *w, uint64_t v)
{
	before_value(w);
	buf_put_u64(w->out, v);
}

void json_put_double(struct json_writer *w, double v)
{
	assert(isfinite(v));
	char text[40];
	for (int digits = 1; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, v); /* 17 digits and an exponent always fit */
		if (strtod(text, NULL) == v)
			break;
	}
	before_value(w);
	buf_puts(w->out, text);
}

void json_put_bool(struct json_writer *w, bool v)
{
	before_value(w);
	buf_puts(w->out, v ? "true" : "false");
}

void json_put_null(struct json_writer *w)
{
	before_value(w);
	buf_puts(w->out, "null");
}

void json_put_base64(struct json_writer *w, struct str bytes)
{
	before_value(w);
	buf_putc(w->out, '"');
	const size_t n = base64_size(bytes.len);
	base64_encode((char *)buf_reserve(w->out, n), bytes);
	buf_advance(w->out, n);
	buf_putc(w->out, '"');
}

void json_put_raw(struct json_writer *w, struct str json)
{
	before_value(w);
	buf_put(w->out, json.p, json.len);
}

void json_put_doc(struct json_writer *w, struct str doc)
{
	before_value(w);
	json_compact(w->out, doc, true);
}

/* Copies runs; inside strings only what Go escapes is touched, outside them only white space. */
void json_compact(struct buf *out, struct str doc, bool escape_html)
{
	assert(doc.len); /* no document is empty */
	const uint8_t *p = (const uint8_t *)doc.p;
	size_t run = 0;
	bool in_string = false;
	for (size_t i = 0; i < doc.len;) {
		const char *instead = NULL;
		size_t n = 1;
		if (!in_string) {
			if (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r')
				instead = "";
			in_string = p[i] == '"';
		} else if (p[i] == '"') {
			in_string = false;
		} else if (p[i] == '\\') {
			n = doc.len - i >= 2 ? 2 : 1;
		} else if (escape_html && (p[i] == '<' || p[i] == '>' || p[i] == '&')) {
			instead = p[i] == '<' ? "\\u003c" : p[i] == '>' ? "\\u003e" : "\\u0026";
		} else if (escape_html && p[i] == 0xe2 && doc.len - i >= 3 && utf8_is_line_separator(p + i, 3)) {
			instead = p[i + 2] == 0xa8 ? "\\u2028" : "\\u2029";
			n = 3;
		}
		if (instead) {
			buf_put(out, p + run, i - run);
			buf_puts(out, instead);
			run = i + n;
		}
		i += n;
	}
	buf_put(out, p + run, doc.len - run);
}
