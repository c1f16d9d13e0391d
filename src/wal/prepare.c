/* wal/prepare.c - one segment ahead: a file of synced zeros, so that the log thread writes into blocks the file system
 * has already given (a synced append is twice as fast there) and never waits for their allocation.
 *
 * The pool owns the name and the descriptor while the state is BUSY; with READY both go to the log thread, which
 * answers with NONE once the file has its final name. A full disk is found here first, while the current segment still
 * has room: it costs only the spare, and the caller may warn. Any other failed write or sync is as final as in the log
 * thread, since the disk is the same.
 */
#include "wal/wal_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"

#define RETRY_MS 1000u

bool wal_wants_segment(const struct wal *w)
{
	return !w->read_only && atomic_load_explicit(&w->failed, memory_order_relaxed) == 0 &&
	       atomic_load_explicit(&w->spare, memory_order_relaxed) == WAL_SPARE_NONE &&
	       clock_mono_ms() >= atomic_load_explicit(&w->spare_retry_ms, memory_order_relaxed);
}

static int fill(struct wal *w, bool paced, int *out, struct err *e)
{
	char path[WAL_PATH_BYTES];
	wal_path(w, WAL_SPARE_NAME, path);
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return wal_errno(e, errno, w, "create", WAL_SPARE_NAME);
	const int errnum = wal_write_zeros(fd, 0, w->segment_bytes, paced);
	if (!errnum) {
		*out = fd;
		return 0;
	}
	close(fd);
	unlink(path); /* best effort: gives a full disk its room back; wal_open removes what stays */
	if (errnum == ENOSPC || errnum == EDQUOT)
		return wal_errno(e, errnum, w, "fill", WAL_SPARE_NAME);
	return wal_fail(w, e, errnum, "fill", WAL_SPARE_NAME);
}

int wal_make_spare(struct wal *w, bool paced, struct err *e)
{
	assert(!w->read_only);
	int rc = wal_check(w, e);
	int none = WAL_SPARE_NONE;
	if (rc || !atomic_compare_exchange_strong(&w->spare, &none, WAL_SPARE_BUSY))
		return rc;
	rc = fill(w, paced, &w->spare_fd, e);
	if (rc)
		atomic_store_explicit(&w->spare_retry_ms, clock_mono_ms() + RETRY_MS, memory_order_relaxed);
	atomic_store_explicit(&w->spare, rc ? WAL_SPARE_NONE : WAL_SPARE_READY, memory_order_release);
	return rc;
}

int wal_prepare_segment(struct wal *w, struct err *e)
{
	return wal_make_spare(w, true, e);
}
