/* Opening, closing, replacing, syncing and copying the environment.
 *
 * One process has the file open once: two environments on one path would share the lock file's counters. The data
 * directory's LOCK (node/) keeps other processes out; within this one there is one struct store per directory.
 */
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/store_internal.h"

static const char *const db_names[STORE_DB_COUNT] = {
#define DB_NAME(id, name) name,
	STORE_DB_MAP(DB_NAME)
#undef DB_NAME
};

static_assert((int)STORE_DB_COUNT <= STORE_MAXDBS, "more databases than the environment has room for");
static_assert(STORE_FSM_META == STORE_NARAD_DB_COUNT - 1, "Narad's buckets come first");

const char *store_db_name(enum store_db db)
{
	assert((unsigned)db < STORE_DB_COUNT);
	return db_names[db];
}

/* ---- errors ---- */

int store_code(int rc)
{
	switch (rc) {
	case 0: return 0;
	case MDB_NOTFOUND: return ERR_NOTFOUND;
	case MDB_MAP_FULL:
	case MDB_TXN_FULL:
	case MDB_CURSOR_FULL:
	case ENOSPC:
	case EDQUOT:
	case EFBIG: return ERR_FULL;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_INVALID: return ERR_CORRUPT;
	case MDB_VERSION_MISMATCH: return ERR_VERSION;
	case MDB_READERS_FULL:
	case EAGAIN:
	case EBUSY: return ERR_BUSY;
	case MDB_BAD_VALSIZE: return ERR_INVALID;
	case ENOMEM: return ERR_SYSTEM;
	default: return ERR_IO;
	}
}

int store_fail(struct err *e, int rc, const char *fmt, ...)
{
	char what[400];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(e, store_code(rc), "%s: %s", what, mdb_strerror(rc));
}

/* ---- the environment ---- */

static bool is_file_backed(const struct store *s)
{
	return s->dir != NULL;
}

/* Pages above the limit that deletes and copy-on-write may take: a sixteenth, between 16 MiB and 1 GiB. */
static void set_limits(struct store *s, uint64_t map_bytes)
{
	const uint64_t mib = UINT64_C(1) << 20;
	const uint64_t limit = s->limit_asked && s->limit_asked < map_bytes ? s->limit_asked : map_bytes;
	uint64_t reserve = limit / 16;
	if (reserve < 16 * mib)
		reserve = 16 * mib;
	if (reserve > 1024 * mib)
		reserve = 1024 * mib;
	if (reserve > map_bytes / 4)
		reserve = map_bytes / 4;
	atomic_store(&s->reserve_bytes, reserve);
	atomic_store(&s->limit_bytes, limit + reserve <= map_bytes ? limit : map_bytes - reserve);
}

/* Databases that are there are opened in a read transaction: looking changes nothing. */
static int open_dbs(struct store *s, struct err *e)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);
	if (rc)
		return store_fail(e, rc, "%s: cannot begin reading", s->path);
	for (int db = 0; db < STORE_DB_COUNT; db++) {
		rc = mdb_dbi_open(txn, db_names[db], 0, &s->dbi[db]);
		s->has_db[db] = rc == 0;
		if (rc && rc != MDB_NOTFOUND) {
			mdb_txn_abort(txn);
			return store_fail(e, rc, "%s: cannot open database %s", s->path, db_names[db]);
		}
	}
	struct store_txn t = { .store = s, .txn = txn };
	struct store_usage usage = { 0 };
	rc = store_measure(&t, &usage);
	if (rc) {
		mdb_txn_abort(txn);
		if (e)
			*e = t.error;
		return rc;
	}
	rc = mdb_txn_commit(txn); /* abort would close the handles again */
	if (rc)
		return store_fail(e, rc, "%s: cannot end reading", s->path);
	store_show_usage(s, &usage);
	return 0;
}

static int try_env(struct store *s, uint64_t map_bytes, unsigned flags)
{
	int rc = mdb_env_create(&s->env);
	if (rc == 0)
		rc = mdb_env_set_maxdbs(s->env, STORE_MAXDBS);
	if (rc == 0)
		rc = mdb_env_set_maxreaders(s->env, STORE_MAXREADERS);
	if (rc == 0)
		rc = mdb_env_set_mapsize(s->env, map_bytes);
	if (rc == 0)
		rc = mdb_env_open(s->env, s->path, flags, 0600);
	if (rc) {
		mdb_env_close(s->env);
		s->env = NULL;
	}
	return rc;
}

/* Opens the environment. A map of a size once and for all: growing it under a reader kills the reader. Where the
 * address space is limited (ulimit -v, a sanitizer) half as much is tried until it fits. */
static int open_env(struct store *s, struct err *e)
{
	unsigned flags = MDB_NOSUBDIR | MDB_NOTLS;
	if (s->read_only)
		flags |= MDB_RDONLY | MDB_NOLOCK;
	else if (!s->sync_commits)
		flags |= MDB_NOSYNC;
	uint64_t map = s->map_asked;
	int rc = try_env(s, map, flags);
	while ((rc == ENOMEM || rc == EINVAL) && map / 2 >= STORE_MAP_MIN) {
		map /= 2;
		rc = try_env(s, map, flags);
	}
	if (rc)
		return store_fail(e, rc, "%s: cannot open", s->path);
	if (!s->read_only) {
		int dead = 0;
		rc = mdb_reader_check(s->env, &dead); /* slots of killed processes */
		if (rc)
			rc = store_fail(e, rc, "%s: cannot check its reader table", s->path);
	}
	if (rc == 0)
		rc = open_dbs(s, e);
	if (rc) {
		mdb_env_close(s->env);
		s->env = NULL;
		return rc;
	}
	set_limits(s, map);
	return 0;
}

static struct store *store_new(const char *dir, const char *path)
{
	struct store *s = mem_zalloc(sizeof(*s));
	s->dir = dir ? mem_strdup(dir) : NULL;
	s->path = mem_strdup(path);
	int rc = pthread_rwlock_init(&s->in_use, NULL);
	assert(rc == 0);
	(void)rc;
	return s;
}

static void store_free(struct store *s)
{
	if (s->env)
		mdb_env_close(s->env);
	pthread_rwlock_destroy(&s->in_use);
	mem_free(s->dir);
	mem_free(s->path);
	mem_free(s);
}

/* The new file is there, empty and in its directory before a mark can name it. */
static int create_file(const char *path, const char *dir, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_set_errno(e, store_code(errno), errno, "%s: cannot create", path);
	close(fd);
	return store_sync_dir(dir, e);
}

static void unlink_scratch(const char *path)
{
	char lock[4096];
	unlink(path);
	if ((size_t)snprintf(lock, sizeof(lock), "%s-lock", path) < sizeof(lock))
		unlink(lock);
}

static int open_scratch(const struct store_options *o, struct store **out, struct err *e)
{
	struct store *s = store_new(NULL, o->scratch);
	s->map_asked = o->map_bytes ? o->map_bytes : STORE_MAP_DEFAULT;
	s->limit_asked = o->limit_bytes;
	int rc = open_env(s, e);
	if (rc) {
		store_free(s);
		return rc;
	}
	unlink_scratch(s->path);
	*out = s;
	return 0;
}

int store_open(const struct store_options *o, struct store **out, struct err *e)
{
	if (o->scratch)
		return open_scratch(o, out, e);
	struct store_verdict verdict;
	int rc = store_judge(o->dir, &verdict, e);
	if (rc)
		return rc;
	char path[4096];
	if ((size_t)snprintf(path, sizeof(path), "%s/%s", o->dir, STORE_FILE) >= sizeof(path))
		return err_set(e, ERR_INVALID, "%s: the path is too long", o->dir);
	if (verdict.trust == STORE_UNTRUSTED)
		return err_set(e, ERR_CORRUPT, "%s: not trusted: %s", path, verdict.why);
	if (verdict.trust == STORE_ABSENT) {
		rc = create_file(path, o->dir, e);
		if (rc)
			return rc;
	}
	struct store *s = store_new(o->dir, path);
	s->map_asked = o->map_bytes ? o->map_bytes : STORE_MAP_DEFAULT;
	s->limit_asked = o->limit_bytes;
	s->sync_commits = o->sync_commits;
	/* What a killed process of this boot left is ours to sync, and to mark clean at the end. */
	atomic_store(&s->dirty, verdict.trust == STORE_TRUSTED && !verdict.clean);
	/* LMDB writes the meta pages of an empty file when it opens it. */
	if (verdict.trust == STORE_ABSENT) {
		rc = store_mark_dirty(o->dir, e);
		atomic_store(&s->dirty, rc == 0);
	}
	if (rc == 0)
		rc = open_env(s, e);
	if (rc) {
		store_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

int store_open_image(const char *path, struct store **out, struct err *e)
{
	struct store_file_info info;
	int rc = store_read_file_info(path, &info, e);
	if (rc)
		return rc == ERR_NOTFOUND ? err_set(e, ERR_CORRUPT, "%s: no file, or an empty one", path) : rc;
	struct store *s = store_new(NULL, path);
	s->read_only = true;
	s->map_asked = info.length;
	rc = open_env(s, e);
	if (rc) {
		store_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

static uint64_t newest_txn_id(struct store *s)
{
	MDB_envinfo info;
	int rc = mdb_env_info(s->env, &info);
	assert(rc == 0);
	(void)rc;
	return info.me_last_txnid;
}

int store_close(struct store *s, bool clean, struct err *e)
{
	int rc = 0;
	if (!s)
		return 0;
	if (clean && s->env && is_file_backed(s) && atomic_load(&s->dirty)) {
		rc = store_sync(s, e);
		if (rc == 0)
			rc = store_mark_clean(s->dir, newest_txn_id(s), e);
	}
	store_free(s);
	return rc;
}

int store_distrust(struct store *s, struct err *e)
{
	if (!is_file_backed(s))
		return 0;
	atomic_store(&s->sync_failed, true);
	return store_mark_remove(s->dir, e);
}

int store_sync(struct store *s, struct err *e)
{
	int rc = 0;
	if (!is_file_backed(s) || !atomic_load(&s->dirty))
		return 0;
	pthread_rwlock_rdlock(&s->in_use);
	if (atomic_load(&s->sync_failed)) {
		rc = err_set(e, ERR_IO, "%s: an earlier sync failed", s->path);
	} else if (s->env) {
		rc = mdb_env_sync(s->env, 1);
		if (rc) {
			/* Pages may be gone that the kernel now calls clean: nothing may believe this file any more. */
			atomic_store(&s->sync_failed, true);
			struct err ignored; /* the sync's failure is the one to report */
			(void)store_mark_remove(s->dir, &ignored);
			rc = err_set(e, ERR_IO, "%s: cannot sync: %s", s->path, mdb_strerror(rc));
		}
	}
	pthread_rwlock_unlock(&s->in_use);
	return rc;
}

int store_copy(struct store *s, int fd, struct err *e)
{
	int rc;
	pthread_rwlock_rdlock(&s->in_use);
	if (!s->env) {
		rc = err_set(e, ERR_CLOSED, "%s: not open", s->path);
	} else {
		atomic_store(&s->copy_since_ms, clock_mono_ms());
		const off_t from = lseek(fd, 0, SEEK_CUR);
		rc = mdb_env_copyfd2(s->env, fd, 0);
		atomic_store(&s->copy_since_ms, 0);
		rc = rc ? store_fail(e, rc, "%s: cannot copy", s->path) : store_pad_image(fd, from, e);
	}
	pthread_rwlock_unlock(&s->in_use);
	return rc;
}

/* LMDB does not say where its map lies. The kernel does, by the file's device and inode. */
static bool find_map(struct store *s, unsigned long long *from, unsigned long long *to)
{
	char line[512];
	struct stat st;
	mdb_filehandle_t fd;
	bool found = false;
	if (mdb_env_get_fd(s->env, &fd) != 0 || fstat(fd, &st) != 0)
		return false;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		unsigned dev_major, dev_minor;
		unsigned long long inode;
		/* NOLINTNEXTLINE(cert-err34-c): the kernel wrote the line, no number of it is too large */
		found = sscanf(line, "%llx-%llx %*s %*s %x:%x %llu", from, to, &dev_major, &dev_minor, &inode) == 5 &&
		        inode == st.st_ino && dev_major == major(st.st_dev) && dev_minor == minor(st.st_dev);
	}
	if (maps)
		fclose(maps);
	return found;
}

void store_drop_pages(struct store *s)
{
	unsigned long long from, to;
	if (find_map(s, &from, &to))
		(void)madvise((void *)(uintptr_t)from, (size_t)(to - from), MADV_DONTNEED); /* else they stay */
}

uint64_t store_copy_since_ms(const struct store *s)
{
	return atomic_load(&s->copy_since_ms);
}

/* ---- putting another file in place ---- */

/* From the rename to the new mark the mark is of another file (other inode, other transaction): a start in between
 * rebuilds from the snapshot that this image is. */
static int swap_files(const char *dir, const char *file, const char *path, bool *swapped, struct err *e)
{
	struct store_file_info info;
	int rc = store_read_file_info(path, &info, e);
	if (rc)
		return rc;
	if (rename(path, file) != 0)
		return err_set_errno(e, store_code(errno), errno, "%s: cannot rename to %s", path, file);
	*swapped = true;
	rc = store_sync_dir(dir, e);
	return rc ? rc : store_mark_clean(dir, info.txn_id, e);
}

int store_put_image(const char *dir, const char *path, struct err *e)
{
	char file[4096];
	bool swapped;
	if ((size_t)snprintf(file, sizeof(file), "%s/%s", dir, STORE_FILE) >= sizeof(file))
		return err_set(e, ERR_INVALID, "%s: the path is too long", dir);
	return swap_files(dir, file, path, &swapped, e);
}

int store_replace(struct store *s, const char *path, struct err *e)
{
	bool swapped = false;
	int rc;
	assert(is_file_backed(s) && !s->read_only);
	pthread_rwlock_wrlock(&s->in_use);
	if (s->env) {
		mdb_env_close(s->env);
		s->env = NULL;
		rc = swap_files(s->dir, s->path, path, &swapped, e);
		if (rc == 0)
			atomic_store(&s->dirty, false);
		if (rc == 0 || !swapped) {
			/* Whatever went wrong first is what the caller hears. */
			struct err again;
			int reopened = open_env(s, rc ? &again : e);
			rc = rc ? rc : reopened;
		}
	} else {
		rc = err_set(e, ERR_CLOSED, "%s: not open", s->path);
	}
	pthread_rwlock_unlock(&s->in_use);
	return rc;
}

bool store_is_broken(const struct store *s)
{
	return atomic_load(&s->broken);
}

int store_reopen(struct store *s, struct err *e)
{
	int rc;
	assert(is_file_backed(s) && !s->read_only);
	pthread_rwlock_wrlock(&s->in_use);
	if (s->env)
		mdb_env_close(s->env);
	s->env = NULL;
	rc = open_env(s, e);
	if (rc == 0)
		atomic_store(&s->broken, false);
	pthread_rwlock_unlock(&s->in_use);
	return rc;
}

bool store_is_open(const struct store *s)
{
	return s->env != NULL;
}

/* ---- room ---- */

/* LMDB does not write a page that a transaction took at the end of the file and gave up again, so the file may end
 * before its last page. It is made as long as its meta page says: a shorter one is taken for cut short at the next
 * start. Failing that only costs a rebuild. */
void store_fit_file(struct store *s)
{
	MDB_envinfo info;
	MDB_stat st;
	struct stat file;
	mdb_filehandle_t fd;
	int rc = mdb_env_info(s->env, &info);
	if (rc == 0)
		rc = mdb_env_stat(s->env, &st);
	if (rc == 0)
		rc = mdb_env_get_fd(s->env, &fd);
	assert(rc == 0);
	const off_t want = (off_t)((info.me_last_pgno + 1) * st.ms_psize);
	if (fstat(fd, &file) == 0 && file.st_size < want)
		(void)!ftruncate(fd, want);
}

void store_show_usage(struct store *s, const struct store_usage *u)
{
	MDB_envinfo info;
	MDB_stat st;
	int rc = mdb_env_info(s->env, &info);
	if (rc == 0)
		rc = mdb_env_stat(s->env, &st);
	assert(rc == 0);
	(void)rc;
	atomic_store(&s->used_bytes, u->used_pages * st.ms_psize);
	atomic_store(&s->file_bytes, ((uint64_t)info.me_last_pgno + 1) * st.ms_psize);
}

void store_get_space(const struct store *s, struct store_space *out)
{
	out->used_bytes = atomic_load(&s->used_bytes);
	out->limit_bytes = atomic_load(&s->limit_bytes);
	out->reserve_bytes = atomic_load(&s->reserve_bytes);
	out->file_bytes = atomic_load(&s->file_bytes);
}
