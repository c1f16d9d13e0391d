#include "disk.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/mem.h"

#define FDS_MAX 4096
#define SECTOR 512 /* what a torn write is torn into */

/* ---- the real calls ---- */

static struct {
	int (*open)(const char *, int, ...);
	int (*close)(int);
	ssize_t (*pwrite)(int, const void *, size_t, off_t);
	ssize_t (*write)(int, const void *, size_t);
	ssize_t (*writev)(int, const struct iovec *, int);
	int (*fdatasync)(int);
	int (*fsync)(int);
	int (*ftruncate)(int, off_t);
	int (*rename)(const char *, const char *);
	int (*unlink)(const char *);
} real;

#define REAL(name) (*(void **)(void *)&real.name = dlsym(RTLD_NEXT, #name), assert(real.name))

static void find_real(void)
{
	if (real.unlink)
		return;
	REAL(open);
	REAL(close);
	REAL(pwrite);
	REAL(write);
	REAL(writev);
	REAL(fdatasync);
	REAL(fsync);
	REAL(ftruncate);
	REAL(rename);
	REAL(unlink);
}

/* ---- what is not yet durable ---- */

/* A change of a file's bytes or length; old_* is what undoing it brings back. */
struct change {
	struct change *next;
	bool durable;
	bool after_crash; /* done by a mute node: undone whatever the seed says */
	bool dropped;     /* a sync failed: the kernel calls it clean, and no later sync writes it */
	bool is_truncate;
	off_t offset;
	size_t len;
	off_t old_size;
	off_t new_size;
	uint8_t
	    *new_bytes; /* read back when the change is undone: until then the file holds them. NULL: a truncation */
	size_t old_len; /* bytes that stood in the range before */
	uint8_t old_bytes[];
};

/* By inode: content does not care what the file is called. */
struct file {
	struct file *next;
	dev_t dev;
	ino_t ino;
	int node;
	off_t size; /* as long as it is open: nothing but what passes here changes it */
	struct change *first;
	struct change **last_next;
	bool has_undurable;
};

/* A change of a directory: `a` came to be, was renamed to `b`, or went. `backup` names what stood there before. */
struct dir_change {
	struct dir_change *next;
	enum { DIR_CREATE, DIR_RENAME, DIR_UNLINK } kind;
	bool after_crash;
	char *dir;
	char *a;
	char *b;
	char *backup; /* NULL: nothing stood there */
};

struct node_disk {
	bool mute;
	uint64_t crash_after; /* effects left; 0 = none planned */
	uint64_t fail_left[2];
	int fail_errnum[2];
	uint64_t failures;
	struct dir_change *dirs;
	struct dir_change **dirs_last;
};

static struct {
	char root[256];
	size_t root_len;
	struct node_disk nodes[DISK_NODES_MAX];
	struct file *files;
	struct file *by_fd[FDS_MAX];
	char *dir_by_fd[FDS_MAX]; /* directories that are open, to be synced */
	int flags_by_fd[FDS_MAX];
	int reader_by_fd[FDS_MAX]; /* the descriptor itself, or its twin that reads where it only writes */
	uint64_t effects;
	uint64_t backups;
} d;

static int node_of_path(const char *path)
{
	if (!d.root_len || strncmp(path, d.root, d.root_len) != 0 || strncmp(path + d.root_len, "/n", 2) != 0)
		return -1;
	const int n = path[d.root_len + 2] - '1';
	return n >= 0 && n < DISK_NODES_MAX ? n : -1;
}

static struct file *file_of_fd(int fd)
{
	return fd >= 0 && fd < FDS_MAX ? d.by_fd[fd] : NULL;
}

static struct file *find_file(const struct stat *st, int node)
{
	for (struct file *f = d.files; f; f = f->next) {
		if (f->dev == st->st_dev && f->ino == st->st_ino)
			return f;
	}
	struct file *f = mem_zalloc(sizeof(*f));
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->node = node;
	f->last_next = &f->first;
	f->next = d.files;
	d.files = f;
	return f;
}

/* Counts one effect; the planned one kills. */
static bool effect(int node)
{
	struct node_disk *n = &d.nodes[node];
	d.effects++;
	if (n->crash_after && --n->crash_after == 0)
		n->mute = true;
	return n->mute;
}

/* A full disk refuses what makes a file longer, other failures whatever comes. */
static bool fails(int node, enum disk_call call, bool grows)
{
	struct node_disk *n = &d.nodes[node];
	if (n->mute || !n->fail_left[call] || (n->fail_errnum[call] == ENOSPC && !grows))
		return false;
	n->fail_left[call]--;
	n->failures++;
	errno = n->fail_errnum[call];
	return true;
}

/* What stands in a range now. */
static size_t read_old(int fd, void *out, size_t len, off_t offset)
{
	if (d.reader_by_fd[fd] < 0) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		d.reader_by_fd[fd] = real.open(path, O_RDONLY | O_CLOEXEC);
	}
	const ssize_t got = pread(d.reader_by_fd[fd], out, len, offset);
	assert(got >= 0);
	return (size_t)got;
}

/* Of the range, before it is written or cut off. */
static struct change *new_change(int fd, off_t offset, size_t len)
{
	const struct file *f = d.by_fd[fd];
	const size_t stood = offset >= f->size ? 0 : (size_t)(f->size - offset);
	const size_t old_len = stood < len ? stood : len;
	struct change *c = mem_alloc(sizeof(*c) + old_len);
	*c = (struct change){ .offset = offset, .len = len, .old_size = f->size, .new_size = f->size };
	c->after_crash = d.nodes[f->node].mute;
	c->old_len = old_len ? read_old(fd, c->old_bytes, old_len, offset) : 0;
	return c;
}

static void free_change(struct change *c)
{
	mem_free(c->new_bytes);
	mem_free(c);
}

static void forget_changes(struct file *f)
{
	while (f->first) {
		struct change *next = f->first->next;
		free_change(f->first);
		f->first = next;
	}
	f->last_next = &f->first;
	f->has_undurable = false;
}

/* What a sync makes durable: all but what an earlier one failed to write, and what lies on top of that: undoing goes
 * through the list from its end, so nothing may be taken out of its middle. */
static void sync_changes(struct file *f)
{
	const struct change *c = f->first;
	while (c && !c->dropped)
		c = c->next;
	if (!c) {
		forget_changes(f);
		return;
	}
	for (struct change *at = f->first; at; at = at->next)
		at->durable = at->durable || !at->dropped;
}

static void drop_changes(struct file *f)
{
	for (struct change *c = f->first; c; c = c->next)
		c->dropped = c->dropped || !c->durable;
}

static void note_change(struct file *f, struct change *c)
{
	if (c->durable && !f->has_undurable) { /* everything up to here is durable: nothing to remember */
		free_change(c);
		return;
	}
	*f->last_next = c;
	f->last_next = &c->next;
	f->has_undurable = true;
}

/* ---- writes ---- */

static ssize_t tracked_pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	struct file *f = d.by_fd[fd];
	if (fails(f->node, DISK_WRITE, offset + (off_t)len > f->size)) {
		if (errno != ENOSPC || len < 2 || d.effects % 2)
			return -1;
		len /= 2; /* what fitted */
	}
	struct change *c = new_change(fd, offset, len);
	/* The effect at which the node dies is lost or kept like any other that was not synced. */
	effect(f->node);
	c->durable = (d.flags_by_fd[fd] & O_DSYNC) && !c->after_crash;
	if (offset + (off_t)len > c->new_size)
		c->new_size = offset + (off_t)len;
	const ssize_t n = real.pwrite(fd, bytes, len, offset);
	assert(n == (ssize_t)len); /* the machine's own disk is not what is tested */
	f->size = c->new_size;
	note_change(f, c);
	return n;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
	find_real();
	return file_of_fd(fd) ? tracked_pwrite(fd, bytes, len, offset) : real.pwrite(fd, bytes, len, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t offset)
{
	return pwrite(fd, bytes, len, offset);
}

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t offset)
{
	find_real();
	size_t len = 0;
	for (int i = 0; i < count; i++)
		len += iov[i].iov_len;
	if (count == 1)
		return pwrite(fd, iov->iov_base, len, offset);
	/* One write as far as crashes go: gathered first. */
	uint8_t *bytes = mem_alloc(len + 1);
	size_t at = 0;
	for (int i = 0; i < count; i++) {
		memcpy(bytes + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	const ssize_t n = pwrite(fd, bytes, len, offset);
	mem_free(bytes);
	return n;
}

ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t offset)
{
	return pwritev(fd, iov, count, offset);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	find_real();
	if (!file_of_fd(fd))
		return real.write(fd, bytes, len);
	const off_t at = d.flags_by_fd[fd] & O_APPEND ? d.by_fd[fd]->size : lseek(fd, 0, SEEK_CUR);
	const ssize_t n = tracked_pwrite(fd, bytes, len, at);
	if (n > 0)
		lseek(fd, at + n, SEEK_SET);
	return n;
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	find_real();
	if (!file_of_fd(fd))
		return real.writev(fd, iov, count);
	const off_t at = lseek(fd, 0, SEEK_CUR);
	const ssize_t n = pwritev(fd, iov, count, at);
	if (n > 0)
		lseek(fd, at + n, SEEK_SET);
	return n;
}

int ftruncate(int fd, off_t size)
{
	find_real();
	struct file *f = file_of_fd(fd);
	if (!f)
		return real.ftruncate(fd, size);
	if (fails(f->node, DISK_WRITE, size > f->size))
		return -1;
	struct change *c = new_change(fd, size, size < f->size ? (size_t)(f->size - size) : 0);
	effect(f->node);
	c->is_truncate = true;
	c->new_size = size;
	const int rc = real.ftruncate(fd, size);
	assert(rc == 0);
	f->size = size;
	note_change(f, c);
	return rc;
}

int ftruncate64(int fd, off64_t size)
{
	return ftruncate(fd, size);
}

/* ---- syncs ---- */

static void free_dir_change(struct dir_change *c)
{
	mem_free(c->dir);
	mem_free(c->a);
	mem_free(c->b);
	mem_free(c->backup);
	mem_free(c);
}

/* What stood there is gone for good; its inode may come back as another file. */
static void drop_backup(const struct dir_change *c)
{
	struct stat st;
	if (!c->backup)
		return;
	if (stat(c->backup, &st) == 0 && st.st_nlink == 1) {
		for (struct file *f = d.files; f; f = f->next) {
			if (f->dev == st.st_dev && f->ino == st.st_ino)
				forget_changes(f);
		}
	}
	real.unlink(c->backup);
}

static void sync_directory(int node, const char *dir)
{
	struct node_disk *n = &d.nodes[node];
	struct dir_change **at = &n->dirs;
	while (*at) {
		struct dir_change *c = *at;
		if (strcmp(c->dir, dir) != 0 || c->after_crash) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		drop_backup(c);
		free_dir_change(c);
	}
	n->dirs_last = at;
}

static int tracked_sync(int fd, int (*sync)(int))
{
	const char *dir = fd >= 0 && fd < FDS_MAX ? d.dir_by_fd[fd] : NULL;
	struct file *f = file_of_fd(fd);
	if (!f && !dir)
		return sync(fd);
	const int node = f ? f->node : node_of_path(dir);
	if (fails(node, DISK_SYNC, false)) {
		if (f)
			drop_changes(f);
		return -1;
	}
	/* The sync at which the node dies did not happen: nobody heard that it had. */
	if (effect(node))
		return 0;
	if (dir)
		sync_directory(node, dir);
	else
		sync_changes(f);
	return 0; /* the real sync is left out: nothing here outlives the machine */
}

int fdatasync(int fd)
{
	find_real();
	return tracked_sync(fd, real.fdatasync);
}

int fsync(int fd)
{
	find_real();
	return tracked_sync(fd, real.fsync);
}

/* ---- directories ---- */

static char *dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return mem_strndup(path, (size_t)(slash - path));
}

static struct dir_change *note_dir_change(int node, int kind, const char *a, const char *b)
{
	struct node_disk *n = &d.nodes[node];
	struct dir_change *c = mem_zalloc(sizeof(*c));
	c->after_crash = n->mute;
	effect(node);
	c->kind = kind;
	c->dir = dir_of(a);
	c->a = mem_strdup(a);
	c->b = b ? mem_strdup(b) : NULL;
	*n->dirs_last = c;
	n->dirs_last = &c->next;
	return c;
}

/* Keeps what stands at `path` under a hidden name; NULL when nothing does. */
static char *back_up(const char *path)
{
	char name[PATH_MAX];
	snprintf(name, sizeof(name), "%s/.lost-%llu", d.root, (unsigned long long)++d.backups);
	return link(path, name) == 0 ? mem_strdup(name) : NULL;
}

int rename(const char *from, const char *to)
{
	find_real();
	const int node = node_of_path(from);
	if (node < 0)
		return real.rename(from, to);
	char *backup = back_up(to);
	const int rc = real.rename(from, to);
	if (rc == 0) {
		note_dir_change(node, DIR_RENAME, from, to)->backup = backup;
	} else if (backup) {
		real.unlink(backup);
		mem_free(backup);
	}
	return rc;
}

int unlink(const char *path)
{
	find_real();
	const int node = node_of_path(path);
	if (node < 0)
		return real.unlink(path);
	char *backup = back_up(path);
	const int rc = real.unlink(path);
	if (rc == 0) {
		note_dir_change(node, DIR_UNLINK, path, NULL)->backup = backup;
	} else if (backup) {
		real.unlink(backup);
		mem_free(backup);
	}
	return rc;
}

/* ---- descriptors ---- */

static void track(int fd, const char *path, int flags, bool existed)
{
	const int node = node_of_path(path);
	if (fd < 0 || node < 0)
		return;
	assert(fd < FDS_MAX);
	struct stat st;
	const int rc = fstat(fd, &st);
	assert(rc == 0);
	d.flags_by_fd[fd] = flags;
	if (S_ISDIR(st.st_mode)) {
		d.dir_by_fd[fd] = mem_strdup(path);
		return;
	}
	if (!S_ISREG(st.st_mode))
		return;
	/* LMDB's lock file is shared memory, not data. */
	const size_t len = strlen(path);
	if (len > 5 && strcmp(path + len - 5, "-lock") == 0)
		return;
	d.by_fd[fd] = find_file(&st, node);
	d.by_fd[fd]->size = st.st_size;
	d.reader_by_fd[fd] = (flags & O_ACCMODE) == O_WRONLY ? -1 : fd;
	if (!existed) {
		forget_changes(d.by_fd[fd]); /* the inode may have been another file's */
		note_dir_change(node, DIR_CREATE, path, NULL);
	}
}

int open(const char *path, int flags, ...)
{
	find_real();
	mode_t mode = 0;
	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list ap;
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	struct stat st;
	const bool existed = stat(path, &st) == 0;
	const bool cuts = existed && (flags & O_TRUNC) && node_of_path(path) >= 0;
	const int fd = real.open(path, cuts ? flags & ~O_TRUNC : flags, mode);
	track(fd, path, flags, existed);
	if (cuts && file_of_fd(fd) && ftruncate(fd, 0) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	if (flags & (O_CREAT | O_TMPFILE)) {
		va_list ap;
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return open(path, flags, mode);
}

int close(int fd)
{
	find_real();
	if (fd >= 0 && fd < FDS_MAX) {
		if (d.by_fd[fd] && d.reader_by_fd[fd] >= 0 && d.reader_by_fd[fd] != fd)
			real.close(d.reader_by_fd[fd]);
		d.by_fd[fd] = NULL;
		mem_free(d.dir_by_fd[fd]);
		d.dir_by_fd[fd] = NULL;
	}
	return real.close(fd);
}

/* ---- crashes ---- */

/* Opens the file by inode: content outlives names, so the path is looked for among the node's files. */
static void write_at(int fd, const uint8_t *bytes, size_t len, off_t at)
{
	if (len) {
		const ssize_t n = real.pwrite(fd, bytes, len, at);
		assert(n == (ssize_t)len);
	}
}

static void undo(int fd, struct change *c)
{
	if (!c->is_truncate && !c->after_crash && !c->new_bytes) {
		c->new_bytes = mem_alloc(c->len);
		const ssize_t n = pread(fd, c->new_bytes, c->len, c->offset);
		assert(n == (ssize_t)c->len);
	}
	write_at(fd, c->old_bytes, c->old_len, c->offset);
	const int rc = real.ftruncate(fd, c->old_size);
	assert(rc == 0);
}

static void redo(int fd, const struct change *c, size_t from, size_t to)
{
	if (c->is_truncate) {
		const int rc = real.ftruncate(fd, c->new_size);
		assert(rc == 0);
	} else {
		write_at(fd, c->new_bytes + from, to - from, c->offset + (off_t)from);
	}
}

/* Of one write that was not synced: all, nothing, or some of its sectors. */
static void redo_by_chance(int fd, const struct change *c, struct rand *r)
{
	const uint64_t fate = rand_below(r, 4);
	if (fate == 0)
		return;
	if (fate == 1 || c->is_truncate) {
		redo(fd, c, 0, c->len);
		return;
	}
	for (size_t from = 0; from < c->len;) {
		size_t to = from + SECTOR - (size_t)((c->offset + (off_t)from) % SECTOR);
		if (to > c->len)
			to = c->len;
		if (rand_below(r, 2))
			redo(fd, c, from, to);
		from = to;
	}
}

static void undo_all(int fd, struct change *first)
{
	struct change *reversed = NULL;
	while (first) {
		struct change *next = first->next;
		first->next = reversed;
		reversed = first;
		first = next;
	}
	struct change *back = NULL;
	for (struct change *c = reversed; c;) {
		struct change *next = c->next;
		undo(fd, c);
		c->next = back;
		back = c;
		c = next;
	}
}

static void crash_file(struct file *f, int fd, enum disk_crash kind, struct rand *r)
{
	undo_all(fd, f->first);
	for (const struct change *c = f->first; c; c = c->next) {
		if (c->after_crash)
			continue;
		if (kind == DISK_KILLED || c->durable)
			redo(fd, c, 0, c->len);
		else
			redo_by_chance(fd, c, r);
	}
}

/* A file of which no name is known any more went with its last descriptor. Every changed file is open or named, so it
 * is reached through the node's directory tree, and through the hidden names of what was removed. */
struct walk {
	int node;
	enum disk_crash kind;
	struct rand *r;
};

static void crash_path(const struct walk *w, const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
		return;
	for (struct file *f = d.files; f; f = f->next) {
		if (f->node != w->node || f->dev != st.st_dev || f->ino != st.st_ino || !f->first)
			continue;
		const int fd = real.open(path, O_RDWR | O_CLOEXEC);
		assert(fd >= 0);
		crash_file(f, fd, w->kind, w->r);
		real.close(fd);
		forget_changes(f);
	}
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* In order of name: what a directory lists first must not depend on the file system. */
static void walk_tree(const struct walk *w, const char *dir)
{
	char *names[1024];
	size_t n = 0;
	DIR *h = opendir(dir);
	if (!h)
		return;
	for (struct dirent *e = readdir(h); e; e = readdir(h)) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		assert(n < 1024);
		names[n++] = mem_strdup(e->d_name);
	}
	closedir(h);
	qsort(names, n, sizeof(names[0]), compare_names);
	for (size_t i = 0; i < n; i++) {
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		struct stat st;
		if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
			walk_tree(w, path);
		else
			crash_path(w, path);
		mem_free(names[i]);
	}
}

static void undo_dir_change(const struct dir_change *c)
{
	switch (c->kind) {
	case DIR_CREATE: real.unlink(c->a); break;
	case DIR_RENAME:
		real.rename(c->b, c->a);
		if (c->backup)
			real.rename(c->backup, c->b);
		break;
	case DIR_UNLINK:
		if (c->backup)
			real.rename(c->backup, c->a);
		break;
	}
}

/* Names are kept in order up to some point, as a journal keeps them; everything a mute node did is behind that point.
 */
static void crash_names(int node, enum disk_crash kind, struct rand *r)
{
	struct node_disk *n = &d.nodes[node];
	size_t alive = 0;
	for (struct dir_change *c = n->dirs; c; c = c->next)
		alive += !c->after_crash;
	const size_t keep = kind == DISK_KILLED ? alive : (size_t)rand_below(r, alive + 1);
	struct dir_change *lost = NULL;
	size_t i = 0;
	while (n->dirs) {
		struct dir_change *c = n->dirs;
		n->dirs = c->next;
		if (i++ < keep) {
			drop_backup(c);
			free_dir_change(c);
		} else {
			c->next = lost;
			lost = c;
		}
	}
	while (lost) {
		struct dir_change *next = lost->next;
		undo_dir_change(lost);
		free_dir_change(lost);
		lost = next;
	}
	n->dirs_last = &n->dirs;
}

static void come_alive(int node)
{
	d.nodes[node].mute = false;
	d.nodes[node].crash_after = 0;
}

void disk_crash(int node, enum disk_crash kind, struct rand *r)
{
	char dir[PATH_MAX];
	snprintf(dir, sizeof(dir), "%s/n%c", d.root, '1' + node);
	const struct walk w = { node, kind, r };
	/* Contents first: removed files are still reached by their hidden names. */
	walk_tree(&w, dir);
	for (const struct dir_change *c = d.nodes[node].dirs; c; c = c->next) {
		if (c->backup)
			crash_path(&w, c->backup);
	}
	for (struct file *f = d.files; f; f = f->next) {
		if (f->node == node)
			forget_changes(f);
	}
	crash_names(node, kind, r);
	come_alive(node);
}

void disk_wipe(int node)
{
	char command[PATH_MAX + 32];
	for (struct file *f = d.files; f; f = f->next) {
		if (f->node == node)
			forget_changes(f);
	}
	crash_names(node, DISK_KILLED, NULL);
	snprintf(command, sizeof(command), "find %s/n%c -mindepth 1 -delete", d.root, '1' + node);
	const int rc = system(command);
	assert(rc == 0);
	come_alive(node);
}

/* ---- control ---- */

void disk_init(const char *root)
{
	find_real();
	snprintf(d.root, sizeof(d.root), "%s", root);
	d.root_len = strlen(root);
	d.effects = 0;
	d.backups = 0;
	for (int i = 0; i < DISK_NODES_MAX; i++) {
		d.nodes[i] = (struct node_disk){ 0 };
		d.nodes[i].dirs_last = &d.nodes[i].dirs;
	}
}

void disk_fini(void)
{
	while (d.files) {
		struct file *next = d.files->next;
		forget_changes(d.files);
		mem_free(d.files);
		d.files = next;
	}
	for (int i = 0; i < DISK_NODES_MAX; i++) {
		while (d.nodes[i].dirs) {
			struct dir_change *next = d.nodes[i].dirs->next;
			drop_backup(d.nodes[i].dirs);
			free_dir_change(d.nodes[i].dirs);
			d.nodes[i].dirs = next;
		}
	}
	d.root_len = 0;
	memset(d.by_fd, 0, sizeof(d.by_fd));
}

void disk_crash_after(int node, uint64_t effects)
{
	d.nodes[node].crash_after = effects;
}

bool disk_is_mute(int node)
{
	return d.nodes[node].mute;
}

void disk_make_mute(int node)
{
	d.nodes[node].mute = true;
}

uint64_t disk_effects(void)
{
	return d.effects;
}

uint64_t disk_unsynced(int node)
{
	uint64_t bytes = 0;
	for (const struct file *f = d.files; f; f = f->next) {
		for (const struct change *c = f->node == node ? f->first : NULL; c; c = c->next)
			bytes += c->durable ? 0 : c->len;
	}
	return bytes;
}

void disk_fail(int node, enum disk_call call, int errnum, uint64_t count)
{
	d.nodes[node].fail_errnum[call] = errnum;
	d.nodes[node].fail_left[call] = count;
}

uint64_t disk_failures(int node)
{
	return d.nodes[node].failures;
}
