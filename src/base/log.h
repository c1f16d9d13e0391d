/* base/log.h - one line per event: a stable name, then key=value pairs.
 *
 *   log_info("peer.up", "peer=%s term=%" PRIu64, name, term);
 *
 * Levels: error (act), warn (look), info (state changed), debug. The same keys everywhere: node, term, index, peer,
 * req. Values that came from outside go through log_quote. Lines go to a bounded ring that one writer thread empties
 * to stderr; a full ring drops the line and counts it, so that no thread ever waits for stderr. Before log_start and
 * after log_stop lines are written directly. Not for raft/, model/, fsm/ or a parser: they return codes.
 * Thread: any.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

void log_configure(enum log_level level, enum log_format format);
void log_set_node(const char *node); /* shown on every line; copied */
void log_start(void);                /* starts the writer thread */
void log_stop(void);                 /* writes what is queued, ends the thread */
uint64_t log_dropped(void);          /* lines lost to a full ring since start */
/* Redirects lines to `fn` (simulator, tests); NULL returns to stderr. Called on the logging thread. */
void log_set_sink(void (*fn)(void *arg, enum log_level level, const char *line), void *arg);

bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_write(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)                                                                                                 \
	do {                                                                                                           \
		if (log_enabled(LOG_LEVEL_DEBUG))                                                                      \
			log_write(LOG_LEVEL_DEBUG, __VA_ARGS__);                                                       \
	} while (0)

/* Copies `len` bytes into `out` (size `cap`, always NUL-terminated) with control bytes, quotes and backslashes
 * escaped; too long is cut with "...". Returns out. */
const char *log_quote(char *out, size_t cap, const void *bytes, size_t len);

/* At most one line per `every_ms` through one limiter; says true when the line may be written. */
struct log_limit {
	uint64_t last_ms; /* monotonic; 0 = never */
	uint64_t skipped; /* lines held back since then */
};
bool log_allow(struct log_limit *l, uint64_t every_ms);

#endif /* BASE_LOG_H */
