#include "base/err.h"

#include <stdio.h>
#include <string.h>

static void format_msg(struct err *e, int code, const char *fmt, va_list ap)
{
	e->code = code;
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	if (e) {
		va_list ap;
		va_start(ap, fmt);
		format_msg(e, code, fmt, ap);
		va_end(ap);
	}
	return code;
}

int err_set_errno(struct err *e, int code, int errnum, const char *fmt, ...)
{
	if (e) {
		va_list ap;
		va_start(ap, fmt);
		format_msg(e, code, fmt, ap);
		va_end(ap);

		char text[128];
		const size_t len = strlen(e->msg);
		/* The GNU strerror_r: it may or may not use the buffer. */
		snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", strerror_r(errnum, text, sizeof(text)));
	}
	return code;
}

const char *err_name(int code)
{
	switch (code) {
#define ERR_CASE(name, value, text)                                                                                    \
	case (value): return #name;
		ERR_MAP(ERR_CASE)
#undef ERR_CASE
	default: return "?";
	}
}

const char *err_text(int code)
{
	switch (code) {
#define ERR_CASE(name, value, text)                                                                                    \
	case (value): return text;
		ERR_MAP(ERR_CASE)
#undef ERR_CASE
	default: return "an unknown error";
	}
}
