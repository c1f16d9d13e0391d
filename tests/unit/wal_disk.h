/* tests/unit/wal_disk.h - a disk that forgets what was not synced, fails on demand, and remembers what it was told.
 *
 * The system calls of wal/ are caught by their names. Files live in a real directory, which is what a process sees (the
 * page cache); beside it this keeps what would survive a power cut: for each file the bytes of its last sync, and the
 * names as of the last sync of the directory. A cut keeps, loses or tears what came after, by a seed. A sync that
 * failed leaves its bytes readable and never durable, whatever later syncs say: that is how Linux behaves. For one .c
 * file; everything is on one thread.
 */
#ifndef TESTS_UNIT_WAL_DISK_H
#define TESTS_UNIT_WAL_DISK_H

#include "wal_harness.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/rand.h"

#define DISK_INODES 2048
#define DISK_FDS 1024
#define DISK_NAMES 64
#define DISK_CHANGES 64

enum disk_call {
	CALL_CREATE,
	CALL_WRITE,
	CALL_SYNC,
	CALL_SYNC_DIR,
	CALL_RENAME,
	CALL_UNLINK,
	CALL_KINDS,
};

enum disk_fault { FAULT_NONE, FAULT_CRASH, FAULT_EIO, FAULT_ENOSPC, FAULT_SHORT, FAULT_COUNT };

struct disk_write {
	struct disk_write *next;
	uint64_t offset;
	size_t len;
	bool doomed; /* its sync failed */
	uint8_t bytes[];
};

struct disk_inode {
	uint8_t *bytes; /* durable */
	size_t len;
	struct disk_write *writes; /* since, in order */
};

struct disk_name {
	char name[WAL_NAME_BYTES];
	int inode;
};

struct disk_names {
	struct disk_name at[DISK_NAMES];
	size_t count;
};

/* A change of the directory that is not synced yet: `from` goes (if any), `to` comes to be (if any). */
struct disk_change {
	char from[WAL_NAME_BYTES];
	char to[WAL_NAME_BYTES];
	int inode;
};

static struct {
	bool on;
	char dir[128];
	struct disk_inode inodes[DISK_INODES];
	int inode_count;
	int fd_inode[DISK_FDS]; /* 0 = not ours, -1 = the directory, -2 = its parent; else inode + 1 */
	bool fd_dsync[DISK_FDS];
	struct disk_names now, durable;
	struct disk_change changes[DISK_CHANGES];
	size_t change_count;
	bool parent_synced; /* the directory's own entry is durable */

	unsigned calls;    /* made so far */
	unsigned fault_at; /* number of the call that fails; 0 = none */
	enum disk_fault fault;
	bool always; /* every write from fault_at on fails */
	bool crashed;
	unsigned faults; /* delivered */
	enum disk_call faulty_call;
	unsigned count_of[CALL_KINDS];
} disk;

/* ---- names ---- */

static const char *disk_base_name(const char *path)
{
	const size_t len = strlen(disk.dir);
	return strncmp(path, disk.dir, len) == 0 && path[len] == '/' && !strchr(path + len + 1, '/') ? path + len + 1
	                                                                                             : NULL;
}

static struct disk_name *names_find(struct disk_names *n, const char *name)
{
	for (size_t i = 0; i < n->count; i++) {
		if (strcmp(n->at[i].name, name) == 0)
			return &n->at[i];
	}
	return NULL;
}

static void names_change(struct disk_names *n, const struct disk_change *c)
{
	struct disk_name *old = c->from[0] ? names_find(n, c->from) : NULL;
	if (old)
		*old = n->at[--n->count];
	if (!c->to[0])
		return;
	struct disk_name *have = names_find(n, c->to);
	if (!have) {
		assert_true(n->count < DISK_NAMES);
		have = &n->at[n->count++];
		memcpy(have->name, c->to, sizeof(have->name));
	}
	have->inode = c->inode;
}

static void disk_change(const char *from, const char *to, int inode)
{
	struct disk_change *c = &disk.changes[disk.change_count++];
	assert_true(disk.change_count <= DISK_CHANGES);
	*c = (struct disk_change){ .inode = inode };
	snprintf(c->from, sizeof(c->from), "%s", from);
	snprintf(c->to, sizeof(c->to), "%s", to);
	names_change(&disk.now, c);
}

static bool is_tmp(const char *name)
{
	return strstr(name, ".tmp") != NULL;
}

/* F19: has every name that counts been made durable? A name that is only for now (*.tmp) does not. */
static UNUSED bool disk_names_are_durable(void)
{
	for (size_t i = 0; i < disk.change_count; i++) {
		if (disk.changes[i].to[0] && !is_tmp(disk.changes[i].to))
			return false;
	}
	return disk.parent_synced;
}

/* ---- content ---- */

static void inode_apply(struct disk_inode *f, uint64_t offset, const uint8_t *bytes, size_t len)
{
	if (offset + len > f->len) {
		f->bytes = mem_realloc(f->bytes, (size_t)offset + len);
		memset(f->bytes + f->len, 0, (size_t)offset + len - f->len);
		f->len = (size_t)offset + len;
	}
	memcpy(f->bytes + offset, bytes, len);
}

static void inode_add(struct disk_inode *f, uint64_t offset, const uint8_t *bytes, size_t len)
{
	struct disk_write *w = mem_alloc(sizeof(*w) + len);
	*w = (struct disk_write){ .offset = offset, .len = len };
	memcpy(w->bytes, bytes, len);
	struct disk_write **end = &f->writes;
	while (*end)
		end = &(*end)->next;
	*end = w;
}

/* A later write over a doomed one settles what lies there. */
static void drop_doomed_below(struct disk_inode *f, const struct disk_write *over)
{
	for (struct disk_write **p = &f->writes; *p && *p != over;) {
		struct disk_write *w = *p;
		if (w->offset < over->offset || w->offset + w->len > over->offset + over->len) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		mem_free(w);
	}
}

static void inode_sync(struct disk_inode *f, bool fails)
{
	for (struct disk_write *w = f->writes; fails && w; w = w->next)
		w->doomed = true;
	for (struct disk_write *w = f->writes, *next; w; w = next) {
		next = w->next;
		if (w->doomed)
			continue;
		drop_doomed_below(f, w);
		inode_apply(f, w->offset, w->bytes, w->len);
		struct disk_write **p = &f->writes;
		while (*p != w)
			p = &(*p)->next;
		*p = next;
		mem_free(w);
	}
}

/* ---- faults ---- */

/* Counts the call; what shall happen to it? */
static enum disk_fault disk_next(enum disk_call call)
{
	if (disk.crashed)
		return FAULT_CRASH;
	disk.calls++;
	disk.count_of[call]++;
	const bool hit = disk.always ? disk.calls >= disk.fault_at && call <= CALL_WRITE : disk.calls == disk.fault_at;
	if (disk.fault == FAULT_NONE || !hit)
		return FAULT_NONE;
	disk.faults++;
	disk.faulty_call = call;
	if (disk.fault == FAULT_CRASH)
		disk.crashed = true;
	return disk.fault;
}

static int disk_fail(enum disk_fault fault)
{
	errno = fault == FAULT_ENOSPC ? ENOSPC : EIO;
	return -1;
}

/* ---- the calls ---- */

static int *inode_of(int fd)
{
	return disk.on && fd >= 0 && fd < DISK_FDS && disk.fd_inode[fd] ? &disk.fd_inode[fd] : NULL;
}

static int real_open(const char *path, int flags, unsigned mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int open_ours(const char *path, const char *name, int flags, unsigned mode)
{
	const struct disk_name *have = names_find(&disk.now, name);
	if (flags & O_CREAT) {
		const enum disk_fault fault = disk_next(CALL_CREATE);
		if (fault != FAULT_NONE)
			return disk_fail(fault);
		assert_true(disk.inode_count < DISK_INODES);
		/* Truncation of a leftover is told as a new file: old bytes may come back or not, nobody may care. */
		disk_change("", name, disk.inode_count++);
		have = names_find(&disk.now, name);
	}
	const int fd = real_open(path, flags, mode);
	if (fd >= 0 && have && (flags & O_ACCMODE) != O_RDONLY) {
		assert_true(fd < DISK_FDS);
		disk.fd_inode[fd] = have->inode + 1;
		disk.fd_dsync[fd] = (flags & O_DSYNC) != 0;
	}
	return fd;
}

int open(const char *path, int flags, ...)
{
	unsigned mode = 0;
	if (flags & O_CREAT) {
		va_list ap;
		va_start(ap, flags);
		mode = va_arg(ap, unsigned);
		va_end(ap);
	}
	const char *name = disk.on ? disk_base_name(path) : NULL;
	if (name && strcmp(name, "..") != 0)
		return open_ours(path, name, flags, mode);
	const int fd = real_open(path, flags, mode);
	if (disk.on && fd >= 0 && (flags & O_DIRECTORY)) {
		assert_true(fd < DISK_FDS);
		disk.fd_inode[fd] = name ? -2 : -1;
	}
	return fd;
}

int close(int fd)
{
	if (inode_of(fd))
		disk.fd_inode[fd] = 0;
	return (int)syscall(SYS_close, fd);
}

/* A write that fails may have left any part of itself, and that part is not to be relied on. */
static ssize_t write_ours(int fd, const uint8_t *bytes, size_t len, off_t offset)
{
	struct disk_inode *f = &disk.inodes[disk.fd_inode[fd] - 1];
	if (disk.crashed)
		return disk_fail(FAULT_CRASH);
	const enum disk_fault fault = disk_next(CALL_WRITE);
	if (fault == FAULT_ENOSPC)
		return disk_fail(fault);
	const bool half = fault == FAULT_SHORT || (fault == FAULT_EIO && disk.calls % 2);
	const size_t n = half ? len / 2 : len;
	assert_int_equal(syscall(SYS_pwrite64, fd, bytes, n, offset), (ssize_t)n);
	inode_add(f, (uint64_t)offset, bytes, n);
	if (fault == FAULT_EIO)
		inode_sync(f, true);
	if (fault == FAULT_EIO || fault == FAULT_CRASH)
		return disk_fail(fault);
	if (disk.fd_dsync[fd])
		inode_sync(f, false);
	return (ssize_t)n;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	if (inode_of(fd))
		return write_ours(fd, bytes, len, offset);
	return syscall(SYS_pwrite64, fd, bytes, len, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
	size_t len = 0;
	for (int i = 0; i < count; i++)
		len += parts[i].iov_len;
	uint8_t *all = mem_alloc(len + 1);
	size_t at = 0;
	for (int i = 0; i < count; i++) {
		memcpy(all + at, parts[i].iov_base, parts[i].iov_len);
		at += parts[i].iov_len;
	}
	const ssize_t n = pwrite(fd, all, len, offset);
	const int errnum = errno;
	mem_free(all);
	errno = errnum;
	return n;
}

static int sync_ours(int fd)
{
	const int inode = disk.fd_inode[fd];
	const enum disk_fault fault = disk_next(inode < 0 ? CALL_SYNC_DIR : CALL_SYNC);
	if (fault != FAULT_NONE) {
		if (inode > 0 && fault != FAULT_CRASH)
			inode_sync(&disk.inodes[inode - 1], true);
		return disk_fail(fault);
	}
	if (inode == -2) {
		disk.parent_synced = true;
	} else if (inode == -1) {
		disk.durable = disk.now;
		disk.change_count = 0;
	} else {
		inode_sync(&disk.inodes[inode - 1], false);
	}
	return 0;
}

int fdatasync(int fd)
{
	return inode_of(fd) ? sync_ours(fd) : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	return inode_of(fd) ? sync_ours(fd) : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
	const char *from_name = disk.on ? disk_base_name(from) : NULL;
	if (from_name) {
		const bool was_crashed = disk.crashed;
		const enum disk_fault fault = disk_next(CALL_RENAME);
		if (was_crashed || (fault != FAULT_NONE && fault != FAULT_CRASH))
			return disk_fail(fault);
		const struct disk_name *have = names_find(&disk.now, from_name);
		assert_non_null(have);
		disk_change(from_name, disk_base_name(to), have->inode);
		if (fault == FAULT_CRASH)
			return disk_fail(fault);
	}
	return (int)syscall(SYS_rename, from, to);
}

int unlink(const char *path)
{
	const char *name = disk.on ? disk_base_name(path) : NULL;
	if (name) {
		const bool was_crashed = disk.crashed;
		const enum disk_fault fault = disk_next(CALL_UNLINK);
		if (was_crashed || (fault != FAULT_NONE && fault != FAULT_CRASH))
			return disk_fail(fault);
		if (names_find(&disk.now, name))
			disk_change(name, "", 0);
		if (fault == FAULT_CRASH)
			return disk_fail(fault);
	}
	return (int)syscall(SYS_unlink, path);
}

/* ---- for the tests ---- */

static UNUSED void disk_start(const char *wal_dir)
{
	memset(&disk, 0, sizeof(disk));
	snprintf(disk.dir, sizeof(disk.dir), "%s", wal_dir);
	disk.on = true;
}

static UNUSED void disk_stop(void)
{
	for (int i = 0; i < disk.inode_count; i++) {
		struct disk_inode *f = &disk.inodes[i];
		inode_sync(f, false);
		while (f->writes) {
			struct disk_write *w = f->writes;
			f->writes = w->next;
			mem_free(w);
		}
		mem_free(f->bytes);
	}
	memset(&disk, 0, sizeof(disk));
}

/* The n-th call from now on gets this fault. */
static UNUSED void disk_plan(unsigned n, enum disk_fault fault)
{
	disk.fault_at = disk.calls + n;
	disk.fault = fault;
	disk.faults = 0;
	disk.always = false;
}

/* What the power cut leaves of one file. */
static void survive(struct disk_inode *f, struct rand *r, unsigned mode)
{
	while (f->writes) {
		struct disk_write *w = f->writes;
		size_t kept = 0; /* mode 0: everything unsynced is lost */
		if (mode == 1)
			kept = w->len;
		else if (mode >= 2)
			kept = rand_below(r, 3) == 0 ? rand_below(r, w->len + 1) : rand_below(r, 2) ? w->len : 0;
		if (kept) {
			/* Torn at the front or at the back: sectors reach the disk in any order. */
			const size_t from = rand_below(r, 2) ? 0 : w->len - kept;
			inode_apply(f, w->offset + from, w->bytes + from, kept);
		}
		f->writes = w->next;
		mem_free(w);
	}
}

/* Cuts the power: the directory becomes what survived, and the disk works again. `mode`: 0 nothing unsynced survives,
 * 1 all of it, 2 a part of the writes and the first so many changes of the directory, 3 any of both. */
static UNUSED void disk_cut(uint64_t seed, unsigned mode)
{
	struct rand r;
	rand_seed(&r, seed);
	const size_t first = rand_below(&r, disk.change_count + 1);
	for (size_t i = 0; i < disk.change_count; i++) {
		const bool kept = mode == 1 || (mode == 2 && i < first) || (mode == 3 && rand_below(&r, 2));
		if (kept)
			names_change(&disk.durable, &disk.changes[i]);
	}
	if (!disk.parent_synced && (mode == 0 || (mode >= 2 && rand_below(&r, 2))))
		disk.durable.count = 0;
	for (int i = 0; i < disk.inode_count; i++)
		survive(&disk.inodes[i], &r, mode);

	disk.on = false;
	clear_dir(disk.dir);
	for (size_t i = 0; i < disk.durable.count; i++) {
		const struct disk_inode *f = &disk.inodes[disk.durable.at[i].inode];
		store_file(disk.dir, disk.durable.at[i].name, f->bytes ? f->bytes : (const uint8_t *)"", f->len);
	}
	disk.on = true;
	disk.now = disk.durable;
	disk.change_count = 0;
	disk.crashed = false;
	disk.fault = FAULT_NONE;
	memset(disk.fd_inode, 0, sizeof(disk.fd_inode));
}

#endif /* TESTS_UNIT_WAL_DISK_H */
