/* node/snapshots.h - snapshot files: what stands in one, and which there are.
 *
 *   <data>/snapshots/<index>-<term>.mdb          both decimal: the last entry whose effects the image holds
 *
 *   | image: a file as store_copy writes it | configuration | footer, 88 bytes |
 *
 *   footer, little-endian
 *    0  8  "veenaSNP"
 *    8  4  format version, 1            these two and the last 8 bytes are the same in every version
 *   12  4  bytes of the configuration (raft_conf_encode)
 *   16  8  bytes of the image
 *   24  8  index
 *   32  8  term
 *   40  8  cluster id
 *   48  8  digest of the state (struct fsm_digest, total)
 *   56  8  newest time of any entry up to the index, ms
 *   64  4  newest entry type whose effects are in it
 *   68  4  CRC32C of the image
 *   72  4  CRC32C of the configuration
 *   76  4  0
 *   80  4  CRC32C of the 80 bytes before this
 *   84  4  0
 *
 * The end of the file alone says what it is; what it says was read back from the image, never from the live state. It
 * is compared with the image again before that is put in fsm.mdb's place. A file travels between nodes as it is.
 * Nothing is believed of a file but what its CRCs cover; one whose name says something else is damaged.
 * Thread: any, no function keeps anything; those that read or write whole images are for the work pool and for starts.
 */
#ifndef NODE_SNAPSHOTS_H
#define NODE_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/err.h"
#include "raft/raft.h"

#define SNAPFILE_DIR "snapshots"
#define SNAPFILE_TEMP_PREFIX "fsm.snapshot-" /* of files being made, in the data directory */
#define SNAPFILE_FOOTER_BYTES 88u
#define SNAPFILE_PATH_MAX 4224
#define SNAPFILE_NO_CLUSTER 0 /* cluster id of a state that was brought from elsewhere and is nobody's yet */

struct snapfile_info {
	raft_index index;
	raft_term term;
	uint64_t cluster_id;
	uint64_t image_len; /* bytes */
	uint64_t file_len;
	uint64_t digest;
	uint64_t time_ms; /* 0 = not known */
	uint32_t max_entry_type;
	uint32_t image_crc;
	struct raft_conf conf; /* in force at index */
};

void snapfile_path(const char *data_dir, raft_index index, raft_term term, char out[SNAPFILE_PATH_MAX]);

/* What the end of the file says. ERR_NOTFOUND: no such file; ERR_CORRUPT; ERR_VERSION: a newer format; ERR_IO. */
MUST_CHECK int snapfile_read_info(const char *path, struct snapfile_info *out, struct err *e);
/* The same, and that it is the file its name says. */
MUST_CHECK int snapfile_read_named(const char *data_dir, raft_index index, raft_term term, struct snapfile_info *out,
                                   struct err *e);
/* Reads the whole image: is it what `info` says? ERR_CORRUPT, ERR_IO. */
MUST_CHECK int snapfile_verify(const char *path, const struct snapfile_info *info, struct err *e);

/* Copies the file's image, all of the file with `whole`, to a new file, and compares the CRC of what it read. Not
 * synced. ERR_CORRUPT, ERR_IO, ERR_FULL; then the new file is removed. */
MUST_CHECK int snapfile_copy(const char *from, const struct snapfile_info *info, bool whole, const char *to,
                             struct err *e);

/* Reads back from the image at the beginning of `path` what it holds, and compares. ERR_CORRUPT: something else;
 * ERR_VERSION: newer entry types than max_entry_type. */
MUST_CHECK int snapfile_check_image(const char *path, const struct snapfile_info *info, uint32_t max_entry_type,
                                    struct err *e);

/* Lays configuration and footer behind the image in `path`, which is all of the file so far. Fills image_len, image_crc
 * and file_len of `info`; the rest is the caller's. Not synced. */
MUST_CHECK int snapfile_seal(const char *path, struct snapfile_info *info, struct err *e);

/* A finished file at `temp`, in the data directory, becomes a snapshot: synced, renamed, both directories synced. Then
 * it counts, also for a start after any crash. */
MUST_CHECK int snapfile_publish(const char *data_dir, const char *temp, const struct snapfile_info *info,
                                struct err *e);

MUST_CHECK int snapfile_sync(const char *path, struct err *e);
/* Makes the directory if it is not there; durable. */
MUST_CHECK int snapfile_make_dir(const char *data_dir, struct err *e);
/* Is there room for so many bytes, with what the log and a commit may want left over? ERR_FULL. */
MUST_CHECK int snapfile_check_room(const char *data_dir, uint64_t bytes, uint64_t reserve, struct err *e);

/* ---- which there are ---- */

struct snapfile {
	raft_index index;
	raft_term term;
	uint64_t bytes;
	bool damaged;  /* known to be; kept for people to look at until newer ones take its place */
	bool verified; /* every byte was read since it was written, or since the start */
};

/* Newest first. Zeroed is empty. */
struct snapfiles {
	struct snapfile *v;
	size_t count, cap;
};

void snapfiles_fini(struct snapfiles *s);
/* By their names alone. No directory: none. */
MUST_CHECK int snapfiles_list(const char *data_dir, struct snapfiles *out, struct err *e);
struct snapfile *snapfiles_find(const struct snapfiles *s, raft_index index, raft_term term); /* NULL: none */
struct snapfile *snapfiles_put(struct snapfiles *s, const struct snapfile *f); /* in order; replaces one of its name */
void snapfiles_drop(struct snapfiles *s, size_t i);
/* The n-th newest that is not damaged, from 0; NULL: there are not so many. */
const struct snapfile *snapfiles_good(const struct snapfiles *s, size_t n);

#endif /* NODE_SNAPSHOTS_H */
