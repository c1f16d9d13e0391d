#include "http/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "http/routes.h"

const char *http_status_reason(int status)
{
	switch (status) {
	case 200: return "OK";
	case 201: return "Created";
	case 202: return "Accepted";
	case 204: return "No Content";
	case 304: return "Not Modified";
	case 400: return "Bad Request";
	case 401: return "Unauthorized";
	case 403: return "Forbidden";
	case 404: return "Not Found";
	case 405: return "Method Not Allowed";
	case 408: return "Request Timeout";
	case 409: return "Conflict";
	case 410: return "Gone";
	case 412: return "Precondition Failed";
	case 413: return "Payload Too Large";
	case 414: return "URI Too Long";
	case 415: return "Unsupported Media Type";
	case 417: return "Expectation Failed";
	case 422: return "Unprocessable Entity";
	case 429: return "Too Many Requests";
	case 431: return "Request Header Fields Too Large";
	case 500: return "Internal Server Error";
	case 501: return "Not Implemented";
	case 503: return "Service Unavailable";
	case 505: return "HTTP Version Not Supported";
	default: return "Unknown";
	}
}

void http_fixed_refresh(struct http_fixed *f, const struct node_status *st, uint64_t version)
{
	if (f->version == version + 1)
		return;
	buf_clear(&f->identity);
	buf_puts(&f->identity, "X-Veena-Node: ");
	buf_puts(&f->identity, st->id);
	buf_puts(&f->identity, "\r\nX-Veena-Cluster: ");
	if (st->cluster_id != 0) {
		char hex[HEX64_SIZE];

		hex64(hex, st->cluster_id);
		buf_puts(&f->identity, hex);
	}
	buf_puts(&f->identity, "\r\n");
	buf_clear(&f->leader);
	buf_puts(&f->leader, "X-Veena-Leader: ");
	buf_puts(&f->leader, st->leader);
	buf_puts(&f->leader, "\r\n");
	f->version = version + 1;
}

void http_fixed_fini(struct http_fixed *f)
{
	buf_fini(&f->identity);
	buf_fini(&f->leader);
	f->version = 0;
}

/* RFC 9110, 5.6.7; not strftime, whose names follow the locale. */
static void refresh_date(struct http_fixed *f)
{
	static const char days[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
	static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
		                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	uint64_t now_s = clock_wall_ms() / 1000;
	time_t t = (time_t)now_s;
	struct tm tm;

	if (f->date_s == now_s)
		return;
	f->date[0] = '\0';
	if (gmtime_r(&t, &tm))
		snprintf(f->date, sizeof(f->date), "Date: %s, %02u %s %04u %02u:%02u:%02u GMT\r\n",
		         days[(unsigned)tm.tm_wday % 7], (unsigned)tm.tm_mday % 100, months[(unsigned)tm.tm_mon % 12],
		         (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
		         (unsigned)tm.tm_sec % 100);
	f->date_s = now_s;
}

static void put_buf(struct buf *out, const struct buf *b)
{
	buf_put(out, b->data, b->len);
}

static void put_number_field(struct buf *out, const char *name, uint64_t v)
{
	buf_puts(out, name);
	buf_put_u64(out, v);
	buf_puts(out, "\r\n");
}

static void put_text_field(struct buf *out, const char *name, const char *text)
{
	buf_puts(out, name);
	buf_puts(out, text);
	buf_puts(out, "\r\n");
}

static void put_status_line(struct buf *out, int status)
{
	if (status == 200) {
		buf_puts(out, "HTTP/1.1 200 OK\r\n");
		return;
	}
	buf_printf(out, "HTTP/1.1 %d %s\r\n", status, http_status_reason(status));
}

static void put_rare_fields(struct buf *out, const struct svc_answer *a, const struct http_answer_style *style)
{
	char allow[64];

	if (a->etag[0])
		put_text_field(out, "ETag: ", a->etag);
	if (a->status == 401)
		buf_puts(out, "WWW-Authenticate: Basic realm=\"veena\"\r\n");
	if (a->retry_after_s)
		put_number_field(out, "Retry-After: ", a->retry_after_s);
	if (a->replayed)
		buf_puts(out, "Idempotency-Replayed: true\r\n");
	if (a->not_applied)
		buf_puts(out, "X-Veena-Applied: no\r\n");
	if (a->allowed)
		buf_printf(out, "Allow: %s\r\n", http_allow_text(a->allowed, allow, sizeof(allow)));
	if (style->close)
		buf_puts(out, "Connection: close\r\n");
	else if (style->http10 && !style->is_stream)
		buf_puts(out, "Connection: keep-alive\r\n");
}

void http_answer_put(struct buf *out, struct http_fixed *f, const struct svc_answer *a,
                     const struct http_answer_style *style)
{
	refresh_date(f);
	put_status_line(out, a->status);
	buf_puts(out, f->date);
	/* RFC 9110, 8.6: no length where there can be no content. */
	if (a->status != 204 && a->status != 304) {
		if (a->content_type) {
			buf_puts(out, "Content-Type: ");
			buf_puts(out, a->content_type);
			buf_puts(out, "\r\n");
		}
		if (!style->is_stream)
			put_number_field(out, "Content-Length: ", a->body.len);
		else
			buf_puts(out, style->http10 ? "Cache-Control: no-store\r\n"
			                            : "Cache-Control: no-store\r\nTransfer-Encoding: chunked\r\n");
	}
	put_buf(out, &f->identity);
	put_number_field(out, "X-Veena-Index: ", a->index ? a->index : style->applied);
	if (style->shows_leader) {
		put_buf(out, &f->leader);
		buf_puts(out, "X-Veena-Contact-Ms: ");
		buf_put_i64(out, style->contact_ms);
		buf_puts(out, "\r\n");
	}
	put_rare_fields(out, a, style);
	buf_puts(out, "\r\n");
	if (!style->is_head && a->status != 204 && a->status != 304)
		put_buf(out, &a->body);
}
