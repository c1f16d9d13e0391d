/* What the tests of snapshots share: a disk that fails or ends the process at one of its calls, and handling of files.
 *
 * The calls that change files are caught by their names, also LMDB's; only those below one directory count. A crash
 * ends the process at once, before the call: what a killed process wrote stays, as in the page cache. What a power cut
 * may take is tried by the simulator. For one .c file. */
#ifndef TESTS_UNIT_NODE_SNAP_H
#define TESTS_UNIT_NODE_SNAP_H

#include "tests/unit/node_trio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SNAP_CRASHED 77 /* exit status of a process that ended at the call it was to end at */

static struct {
	char below[600];  /* calls on files below it count; "" = none */
	unsigned calls;   /* so far */
	unsigned fail_at; /* 0 = none */
	int errnum;       /* 0 = the process ends */
} snap_disk;

static inline void snap_arm(const char *below, unsigned fail_at, int errnum)
{
	snprintf(snap_disk.below, sizeof(snap_disk.below), "%s", below);
	snap_disk.calls = 0;
	snap_disk.fail_at = fail_at;
	snap_disk.errnum = errnum;
}

/* True: the call fails, with errno set. */
static bool snap_strikes(const char *path)
{
	const size_t len = strlen(snap_disk.below);
	if (len == 0 || strncmp(path, snap_disk.below, len) != 0 || ++snap_disk.calls != snap_disk.fail_at)
		return false;
	if (snap_disk.errnum == 0)
		_exit(SNAP_CRASHED);
	errno = snap_disk.errnum;
	return true;
}

static bool snap_strikes_fd(int fd)
{
	if (snap_disk.below[0] == '\0')
		return false;
	char name[64];
	char path[512];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	const ssize_t n = readlink(name, path, sizeof(path) - 1);
	if (n <= 0)
		return false;
	path[n] = '\0';
	return snap_strikes(path);
}

int open(const char *path, int flags, ...)
{
	unsigned mode = 0;
	if (flags & O_CREAT) {
		va_list ap;
		va_start(ap, flags);
		mode = va_arg(ap, unsigned);
		va_end(ap);
		if (snap_strikes(path))
			return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	return snap_strikes_fd(fd) ? -1 : syscall(SYS_write, fd, bytes, len);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	return snap_strikes_fd(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, len, offset);
}

int fsync(int fd)
{
	return snap_strikes_fd(fd) ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return snap_strikes_fd(fd) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int ftruncate(int fd, off_t len)
{
	return snap_strikes_fd(fd) ? -1 : (int)syscall(SYS_ftruncate, fd, len);
}

int rename(const char *from, const char *to)
{
	return snap_strikes(from) ? -1 : (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
	return snap_strikes(path) ? -1 : (int)syscall(SYS_unlink, path);
}

/* ---- files ---- */

static const char *snap_path(const struct world *w, size_t i, const char *name)
{
	static char path[8][600];
	static size_t next;
	char *out = path[next++ % 8];
	snprintf(out, sizeof(path[0]), "%s/%s", w->nodes[i].dir, name);
	return out;
}

static inline void snap_copy_tree(const char *from, const char *to)
{
	char command[1300];
	world_remove_tree(to);
	snprintf(command, sizeof(command), "cp -a %s %s", from, to);
	assert_int_equal(system(command), 0);
}

static inline off_t snap_size(const char *path)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static inline void snap_flip(const char *path, off_t at)
{
	uint8_t byte;
	const int fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 0x10;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static inline bool snap_exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Number of files in a directory whose names begin so. */
static size_t snap_count(const char *dir, const char *prefix)
{
	size_t count = 0;
	DIR *d = opendir(dir);
	assert_non_null(d);
	const struct dirent *e;
	while ((e = readdir(d)) != NULL)
		count += e->d_name[0] != '.' && strncmp(e->d_name, prefix, strlen(prefix)) == 0;
	closedir(d);
	return count;
}

/* ---- nodes ---- */

static inline void snap_expect_sound(struct world *w, size_t i)
{
	struct store_txn *t = NULL;
	struct err e = { 0 };
	assert_int_equal(store_begin_read(fsm_store(node_fsm(w->nodes[i].node)), &t, &e), 0);
	if (fsm_check(t, &e) != 0)
		fail_msg("%s: %s", w->nodes[i].name, e.msg);
	store_abort(t);
}

static inline struct node_completion snap_ask(struct world *w, size_t i)
{
	const struct node_reply_to reply = { .queue = w->nodes[i].done, .slot = 9, .generation = 7 };
	assert_true(node_ask_snapshot(w->nodes[i].node, reply));
	return world_wait(w, i);
}

/* Takes one and expects it to be good; returns its index. */
static inline raft_index snap_take(struct world *w, size_t i)
{
	const struct node_completion c = snap_ask(w, i);
	assert_int_equal(c.code, 0);
	world_run(w, 50); /* the log and older files go */
	return c.index;
}

/* Creates topics <word>0, <word>1 and so on. */
static inline void snap_create(struct world *w, size_t i, const char *word, int count)
{
	for (int k = 0; k < count; k++) {
		char name[32];
		snprintf(name, sizeof(name), "%s%d", word, k);
		world_create(w, i, name);
	}
}

static inline void snap_expect_topics(struct world *w, size_t i, const char *word, int count)
{
	for (int k = 0; k < count; k++) {
		char name[32];
		snprintf(name, sizeof(name), "%s%d", word, k);
		if (!world_has_topic(w, i, name))
			fail_msg("%s lacks topic %s", w->nodes[i].name, name);
	}
}

#endif /* TESTS_UNIT_NODE_SNAP_H */
