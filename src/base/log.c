/* Lines are formatted on the calling thread into a slot of a bounded ring and written by one thread, so that a full
 * pipe behind stderr delays nobody. Errors are the exception only in one way: log_stop and abnormal exits write what is
 * queued. */
#include "base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/queue.h"

#define LINE_MAX_BYTES 1024u /* longer lines are cut */
#define RING_LINES 1024u

struct line {
	char text[LINE_MAX_BYTES]; /* NUL-terminated, with newline */
};

static struct {
	_Atomic int level;
	_Atomic int format;
	char node[128];
	struct queue *ring; /* NULL while no writer runs */
	struct wake wake;
	pthread_t thread;
	_Atomic bool running;
	_Atomic uint64_t dropped;
	void (*sink)(void *arg, enum log_level level, const char *line);
	void *sink_arg;
} g = { .level = LOG_LEVEL_INFO };

void log_configure(enum log_level level, enum log_format format)
{
	atomic_store(&g.level, (int)level);
	atomic_store(&g.format, (int)format);
}

void log_set_node(const char *node)
{
	log_quote(g.node, sizeof(g.node), node, strlen(node));
}

void log_set_sink(void (*fn)(void *arg, enum log_level level, const char *line), void *arg)
{
	g.sink = fn;
	g.sink_arg = arg;
}

uint64_t log_dropped(void)
{
	return atomic_load(&g.dropped);
}

bool log_enabled(enum log_level level)
{
	return (int)level <= atomic_load_explicit(&g.level, memory_order_relaxed);
}

static void write_all(const char *text)
{
	size_t left = strlen(text);
	while (left) {
		const ssize_t n = write(STDERR_FILENO, text, left);
		if (n <= 0)
			return; /* nobody reads stderr: there is nowhere left to say so */
		text += n;
		left -= (size_t)n;
	}
}

static void *writer_main(void *arg)
{
	(void)arg;
	struct line line;
	uint64_t told = 0;
	for (;;) {
		const bool last_round = !atomic_load(&g.running);
		while (queue_take(g.ring, &line))
			write_all(line.text);
		const uint64_t dropped = atomic_load(&g.dropped);
		if (dropped != told) {
			char text[96];
			snprintf(text, sizeof(text), "warn log.dropped lines=%" PRIu64 "\n", dropped - told);
			write_all(text);
			told = dropped;
		}
		if (last_round)
			return NULL;
		wake_prepare(&g.wake);
		if (queue_is_empty(g.ring) && atomic_load(&g.running))
			wake_wait(&g.wake, -1);
		wake_clear(&g.wake);
	}
}

void log_start(void)
{
	if (g.ring)
		return;
	wake_init(&g.wake);
	g.ring = queue_new(RING_LINES, sizeof(struct line), &g.wake);
	atomic_store(&g.running, true);
	if (pthread_create(&g.thread, NULL, writer_main, NULL) != 0) {
		/* Lines are then written directly, as before log_start. */
		queue_free(g.ring);
		g.ring = NULL;
		wake_fini(&g.wake);
	}
}

void log_stop(void)
{
	if (!g.ring)
		return;
	atomic_store(&g.running, false);
	wake_signal(&g.wake);
	pthread_join(g.thread, NULL);
	queue_free(g.ring);
	g.ring = NULL;
	wake_fini(&g.wake);
}

static const char *level_name(enum log_level level)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	return names[level];
}

static void stamp(char *out, size_t cap)
{
	const uint64_t ms = clock_wall_ms();
	const time_t s = (time_t)(ms / 1000);
	struct tm tm;
	gmtime_r(&s, &tm);
	const size_t n = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, cap - n, ".%03dZ", (int)(ms % 1000));
}

/* Cuts a line that did not fit and ends every line with a newline. */
static void end_line(struct line *line, size_t len)
{
	if (len >= LINE_MAX_BYTES - 1) {
		len = LINE_MAX_BYTES - 5;
		memcpy(line->text + len, "...", 3);
		len += 3;
	}
	line->text[len] = '\n';
	line->text[len + 1] = '\0';
}

static void format_text(struct line *line, const char *when, enum log_level level, const char *event, const char *msg)
{
	const int n = snprintf(line->text, LINE_MAX_BYTES, "%s %-5s %s%s%s%s%s", when, level_name(level), event,
	                       g.node[0] ? " node=" : "", g.node, msg[0] ? " " : "", msg);
	end_line(line, n < 0 ? 0 : (size_t)n);
}

/* The message stays one string: its pairs are for people and for grep, the envelope is for machines. */
static void format_json(struct line *line, const char *when, enum log_level level, const char *event, const char *msg)
{
	char quoted[LINE_MAX_BYTES];
	log_quote(quoted, sizeof(quoted) - 256, msg, strlen(msg));
	const int n = snprintf(line->text, LINE_MAX_BYTES,
	                       "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"node\":\"%s\",\"msg\":\"%s\"}",
	                       when, level_name(level), event, g.node, quoted);
	end_line(line, n < 0 ? 0 : (size_t)n);
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
	if (!log_enabled(level))
		return;
	char msg[LINE_MAX_BYTES];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);

	char when[40];
	stamp(when, sizeof(when));
	struct line line;
	if (atomic_load_explicit(&g.format, memory_order_relaxed) == LOG_FORMAT_JSON)
		format_json(&line, when, level, event, msg);
	else
		format_text(&line, when, level, event, msg);

	if (g.sink)
		g.sink(g.sink_arg, level, line.text);
	else if (!g.ring)
		write_all(line.text);
	else if (!queue_put(g.ring, &line))
		atomic_fetch_add(&g.dropped, 1);
}

const char *log_quote(char *out, size_t cap, const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = bytes;
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		const uint8_t c = p[i];
		const bool plain = c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
		if (n + (plain ? 1 : 6) + 4 > cap) {
			memcpy(out + n, "...", 3);
			n += 3;
			break;
		}
		if (plain) {
			out[n++] = (char)c;
		} else if (c == '"' || c == '\\') {
			out[n++] = '\\';
			out[n++] = (char)c;
		} else {
			memcpy(out + n, "\\u00", 4);
			out[n + 4] = digits[c >> 4];
			out[n + 5] = digits[c & 15];
			n += 6;
		}
	}
	out[n] = '\0';
	return out;
}

bool log_allow(struct log_limit *l, uint64_t every_ms)
{
	const uint64_t now = clock_mono_ms();
	if (l->last_ms && now - l->last_ms < every_ms) {
		l->skipped++;
		return false;
	}
	l->last_ms = now;
	l->skipped = 0;
	return true;
}
