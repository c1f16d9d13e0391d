/* The data directory: its lock, and the file `node` that says whose it is.
 *
 *   veena-node 1 id=n1 incarnation=<16 hex> cluster=<16 hex> minted=<0|1> admitted=<0|1> crc=<8 hex>
 *
 * One line, replaced whole: temporary file, sync, rename, sync of the directory. An all-zero cluster is one that is not
 * yet known; minted: it was this node that began it; admitted: it was a member of it. What does not verify is never
 * guessed at: a node that is wrong about its incarnation votes twice. */
#include "node/node_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include "base/crc32c.h"
#include "store/mark.h"

#define LOCK_NAME "LOCK"
#define NODE_NAME "node"
#define NODE_TEMP_NAME "node.tmp"
#define NODE_LINE_MAX 256
#define NODE_WORD "veena-node "
#define NODE_FORMAT 1u

/* Whole paths instead of openat and its kin: the simulator's disk knows files by the calls that name them so. */
struct file_path {
	char text[NODE_DIR_PATH_MAX + 64];
};

static struct file_path path_of(const struct node_dir *d, const char *name)
{
	struct file_path p;
	snprintf(p.text, sizeof(p.text), "%s/%s", d->path, name);
	return p;
}

static int sync_parent(const struct node_dir *d, struct err *e)
{
	const int fd = open(path_of(d, "..").text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_set_errno(e, ERR_IO, errno, "could not open the directory that holds %s", d->path);
	const int rc =
	    fsync(fd) == 0 ? 0 : err_set_errno(e, ERR_IO, errno, "could not sync the directory that holds %s", d->path);
	close(fd);
	return rc;
}

static int report_holder(const struct node_dir *d, struct err *e)
{
	char text[32] = "";
	const ssize_t n = pread(d->lock_fd, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	uint64_t pid;
	if (!u64_parse(str_of(text), &pid))
		return err_set(
		    e, ERR_BUSY,
		    "data directory %s is in use by a veenad that is just starting; stop it, or use another directory",
		    d->path);
	return err_set(e, ERR_BUSY,
	               "data directory %s is in use by process %" PRIu64 "; stop it, or use another directory", d->path,
	               pid);
}

static int take_lock(struct node_dir *d, struct err *e)
{
	d->lock_fd = open(path_of(d, LOCK_NAME).text, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0)
		return err_set_errno(e, ERR_IO, errno, "could not open %s/" LOCK_NAME, d->path);
	if (flock(d->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return report_holder(d, e);
	return err_set_errno(e, ERR_IO, errno, "could not lock %s/" LOCK_NAME, d->path);
}

int node_dir_open(struct node_dir *d, const char *path, struct err *e)
{
	*d = (struct node_dir){ .fd = -1, .lock_fd = -1 };
	if (strlen(path) >= sizeof(d->path))
		return err_set(e, ERR_INVALID, "the data directory's path is longer than %zu bytes",
		               sizeof(d->path) - 1);
	memcpy(d->path, path, strlen(path) + 1);
	const bool made = mkdir(path, 0700) == 0;
	if (!made && errno != EEXIST)
		return err_set_errno(e, ERR_IO, errno, "could not create the data directory %s", path);
	d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = 0;
	if (d->fd < 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not open the data directory %s", path);
	if (rc == 0 && made)
		rc = sync_parent(d, e);
	if (rc == 0)
		rc = take_lock(d, e);
	if (rc != 0)
		node_dir_close(d);
	return rc;
}

void node_dir_close(struct node_dir *d)
{
	if (d->lock_fd >= 0)
		close(d->lock_fd); /* and with it the lock */
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	d->lock_fd = -1;
}

int node_dir_sign_lock(struct node_dir *d, struct err *e)
{
	char text[32];
	const int n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(d->lock_fd, 0) != 0 || pwrite(d->lock_fd, text, (size_t)n, 0) != n)
		return err_set_errno(e, errno == ENOSPC ? ERR_FULL : ERR_IO, errno, "could not write %s/" LOCK_NAME,
		                     d->path);
	return 0;
}

/* ---- the file `node` ---- */

static size_t render(const struct node_identity *id, char out[NODE_LINE_MAX])
{
	char incarnation[HEX64_SIZE];
	char cluster[HEX64_SIZE];
	hex64(incarnation, id->incarnation);
	hex64(cluster, id->cluster_id);
	const int n = snprintf(out, NODE_LINE_MAX, NODE_WORD "%u id=%s incarnation=%s cluster=%s minted=%d admitted=%d",
	                       NODE_FORMAT, id->id, incarnation, cluster, id->minted, id->admitted);
	const uint32_t crc = crc32c(0, out, (size_t)n);
	return (size_t)n + (size_t)snprintf(out + n, NODE_LINE_MAX - (size_t)n, " crc=%08" PRIx32 "\n", crc);
}

/* Reads the fields loosely; that rendering them gives the same bytes again is what proves the line. */
static bool parse(const char *line, size_t len, struct node_identity *out)
{
	char incarnation[HEX64_SIZE];
	char cluster[HEX64_SIZE];
	char minted;
	char admitted;
	struct node_identity id = { 0 };
	if (sscanf(line, NODE_WORD "1 id=%63s incarnation=%16s cluster=%16s minted=%c admitted=%c", id.id, incarnation,
	           cluster, &minted, &admitted) != 5)
		return false;
	id.minted = minted == '1';
	id.admitted = admitted == '1';
	if (!hex64_parse(str_of(incarnation), &id.incarnation) || !hex64_parse(str_of(cluster), &id.cluster_id))
		return false;
	char again[NODE_LINE_MAX];
	if (id.incarnation == 0 || render(&id, again) != len || memcmp(line, again, len) != 0)
		return false;
	*out = id;
	return true;
}

int node_dir_read_identity(const struct node_dir *d, struct node_identity *out, struct err *e)
{
	const int fd = open(path_of(d, NODE_NAME).text, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOTFOUND, "%s holds no file " NODE_NAME, d->path);
	if (fd < 0)
		return err_set_errno(e, ERR_IO, errno, "could not open %s/" NODE_NAME, d->path);
	char line[NODE_LINE_MAX];
	const ssize_t n = read(fd, line, sizeof(line) - 1);
	const int errnum = errno;
	close(fd);
	if (n < 0)
		return err_set_errno(e, ERR_IO, errnum, "could not read %s/" NODE_NAME, d->path);
	line[n] = '\0';
	uint64_t format;
	const char *const digits = line + strlen(NODE_WORD);
	if (strncmp(line, NODE_WORD, strlen(NODE_WORD)) == 0 &&
	    u64_parse((struct str){ digits, strcspn(digits, " ") }, &format) && format > NODE_FORMAT)
		return err_set(e, ERR_VERSION,
		               "%s was written by a newer veenad (format %" PRIu64
		               ", this one knows %u); start that release",
		               d->path, format, NODE_FORMAT);
	if (!parse(line, (size_t)n, out))
		return err_set(e, ERR_CORRUPT,
		               "%s/" NODE_NAME
		               " is damaged, so this node's identity is unknown; restore the file from a "
		               "backup, or start with an empty directory and join anew",
		               d->path);
	return 0;
}

static int write_temp(const struct node_dir *d, const char *line, size_t len, struct err *e)
{
	const int fd =
	    open(path_of(d, NODE_TEMP_NAME).text, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set_errno(e, errno == ENOSPC ? ERR_FULL : ERR_IO, errno,
		                     "could not create %s/" NODE_TEMP_NAME, d->path);
	int rc = 0;
	errno = 0;
	if (write(fd, line, len) != (ssize_t)len || fsync(fd) != 0) {
		const int errnum = errno ? errno : ENOSPC; /* a short write sets none */
		rc = err_set_errno(e, errnum == ENOSPC ? ERR_FULL : ERR_IO, errnum,
		                   "could not write %s/" NODE_TEMP_NAME, d->path);
	}
	if (close(fd) != 0 && rc == 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not close %s/" NODE_TEMP_NAME, d->path);
	return rc;
}

int node_dir_write_identity(const struct node_dir *d, const struct node_identity *id, struct err *e)
{
	char line[NODE_LINE_MAX];
	const size_t len = render(id, line);
	int rc = write_temp(d, line, len, e);
	if (rc != 0) {
		unlink(path_of(d, NODE_TEMP_NAME)
		           .text); /* a leftover would only be in the way of space; the next start looks again */
		return rc;
	}
	if (rename(path_of(d, NODE_TEMP_NAME).text, path_of(d, NODE_NAME).text) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not rename %s/" NODE_TEMP_NAME, d->path);
	if (fsync(d->fd) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not sync the directory %s", d->path);
	return 0;
}

static void remove_leftover(const struct node_dir *d, const char *name)
{
	if (unlink(path_of(d, name).text) == 0)
		log_info("node.leftover_removed", "file=%s", name);
	else if (errno != ENOENT)
		log_warn("node.leftover_kept", "file=%s error=\"%s\"", name, strerror(errno));
}

void node_dir_remove_leftovers(const struct node_dir *d)
{
	remove_leftover(d, NODE_TEMP_NAME);
	remove_leftover(d, STORE_RESTORE_FILE);
	DIR *dir = opendir(d->path);
	if (!dir) {
		log_warn("node.leftovers_unknown", "dir=%s error=\"%s\"", d->path, strerror(errno));
		return;
	}
	const struct dirent *entry;
	while ((entry = readdir(dir)) != NULL) {
		if (strncmp(entry->d_name, SNAPFILE_TEMP_PREFIX, strlen(SNAPFILE_TEMP_PREFIX)) == 0)
			remove_leftover(d, entry->d_name);
	}
	closedir(dir);
}
