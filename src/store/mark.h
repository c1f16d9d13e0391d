/* store/mark.h - fsm.mark: may the state machine's file be believed?
 *
 * Commits are not synced, so after a power cut the file may be any mix of old and new pages, and even a plausible
 * transaction id proves nothing. The mark is a line of its own file, replaced whole (temporary file, sync, rename, sync
 * of the directory):
 *
 *   veena-mark 1 dirty boot=<boot id> dev=<device> ino=<inode> crc=<8 hex>
 *   veena-mark 1 clean txn=<LMDB transaction id> crc=<8 hex>
 *
 * dirty is durable before the first commit of a run: from then on the file is good exactly as long as the kernel that
 * took its pages lives, and only this very file. clean is written after a sync at close.
 * Trusted = (clean with the file's own transaction id, or dirty with this boot id, device and inode), and the file is
 * at least (last page + 1) x page size long. No mark, an unreadable one, an unreadable boot id: untrusted.
 *
 * The file's transaction id and last page are taken from its two meta pages with pread, never through LMDB: opening an
 * environment maps the file, and a map over a file that is cut short or torn ends in SIGBUS or in a commit on top of
 * it. Bytes read with pread can lie, but they cannot hurt; a torn meta page that happens to carry the expected id
 * cannot come about after "clean", since the whole file was synced before the mark was.
 *
 * Thread: the one that opens or closes the store (store_sync may remove the mark).
 */
#ifndef STORE_MARK_H
#define STORE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define STORE_FILE "fsm.mdb"
#define STORE_LOCK_FILE "fsm.mdb-lock"
#define STORE_MARK_FILE "fsm.mark"
#define STORE_STALE_FILE "fsm.stale"
#define STORE_RESTORE_FILE "fsm.restore"

enum store_trust {
	STORE_ABSENT, /* no file, or an empty one: nothing was ever committed */
	STORE_TRUSTED,
	STORE_UNTRUSTED, /* holds something that must not be looked at */
};

struct store_verdict {
	enum store_trust trust;
	bool clean;    /* STORE_TRUSTED: by a clean mark; false: by a dirty one of this boot */
	char why[160]; /* what decided it, for the log line */
};

/* Judges <dir>/fsm.mdb without opening it as a database and without changing anything. ERR_IO: it could not be read at
 * all; ERR_VERSION: a database of a format this build does not read. */
MUST_CHECK int store_judge(const char *dir, struct store_verdict *out, struct err *e);

/* fsm.mdb becomes fsm.stale (one slot, overwritten); its lock file and mark go. Durable on return. Not while open. */
MUST_CHECK int store_set_aside(const char *dir, struct err *e);

/* The synced image at `path`, in the same directory, becomes fsm.mdb, marked clean; whatever stood there is gone.
 * Wholly before or wholly after, whenever the power fails. Not while open. Errors of store_read_file_info; ERR_IO. */
MUST_CHECK int store_put_image(const char *dir, const char *path, struct err *e);

/* What the meta pages of a file at `path` say. ERR_NOTFOUND: no file or an empty one; ERR_CORRUPT: no valid meta page,
 * or shorter than they say; ERR_VERSION: another LMDB format; ERR_IO. */
struct store_file_info {
	uint64_t txn_id;
	uint64_t last_page;
	uint32_t page_size;
	uint64_t length; /* of the file */
};
MUST_CHECK int store_read_file_info(const char *path, struct store_file_info *out, struct err *e);

/* The kernel's boot id as text; false when it cannot be read. Stands in a file of its own: the simulator, whose nodes
 * lose power without the machine's doing so, links its own. */
#define STORE_BOOT_ID_SIZE 37
bool store_read_boot_id(char out[STORE_BOOT_ID_SIZE]);

#endif /* STORE_MARK_H */
