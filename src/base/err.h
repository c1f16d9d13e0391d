/* base/err.h - result codes and the sentence that goes with them.
 *
 * Fallible functions return 0 or a negative ERR_*. The sentence for a person is built once, by whoever knows the
 * request or the file, in a caller-given struct err. errno, MDB_* and Lua statuses never cross a folder's edge.
 * Thread: any; a struct err belongs to its caller.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

/* One list: enum, name, and what the code means in general. */
#define ERR_MAP(X)                                                                                                     \
	X(OK, 0, "no error")                                                                                           \
	X(NOMEM, -1, "a size that came from outside could not be allocated")                                           \
	X(INVALID, -2, "an argument or input breaks a rule")                                                           \
	X(NOTFOUND, -3, "the thing asked for is not there")                                                            \
	X(EXISTS, -4, "a thing of this name is already there")                                                         \
	X(CORRUPT, -5, "bytes on disk or wire do not verify")                                                          \
	X(IO, -6, "the operating system failed a read or write")                                                       \
	X(FULL, -7, "a disk, map or bounded queue has no room")                                                        \
	X(BUSY, -8, "held by another process or operation")                                                            \
	X(TIMEOUT, -9, "time ran out")                                                                                 \
	X(CLOSED, -10, "the other side or this object is closed")                                                      \
	X(NOT_LEADER, -11, "this node is not the Raft leader")                                                         \
	X(STOPPED, -12, "this node stopped applying")                                                                  \
	X(REFUSED, -13, "refused by a rule of the state machine")                                                      \
	X(TOO_LARGE, -14, "larger than the limit")                                                                     \
	X(VERSION, -15, "written by a newer release or of an unknown format")                                          \
	X(IDENTITY, -16, "belongs to another node or cluster")                                                         \
	X(SYSTEM, -17, "a system call failed that is not file I/O")

enum err_code {
#define ERR_ENUM(name, value, text) ERR_##name = (value),
	ERR_MAP(ERR_ENUM)
#undef ERR_ENUM
};

struct err {
	int code;      /* ERR_*; 0 while nothing went wrong */
	char msg[512]; /* one line, no final stop; what was wrong, where, what to do */
};

/* Fills `e` (may be NULL) and returns `code`, so that a failing function can `return err_set(...)`. */
int err_set(struct err *e, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* Same, with ": <text of errnum>" appended. */
int err_set_errno(struct err *e, int code, int errnum, const char *fmt, ...) PRINTF_LIKE(4, 5);

const char *err_name(int code); /* "IO"; "?" for an unknown code */
const char *err_text(int code);

#endif /* BASE_ERR_H */
