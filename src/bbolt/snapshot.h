/* bbolt/snapshot.h - a file snapshot of hashicorp/raft, as Narad keeps them: a directory that holds the image of its
 * bbolt file and what it is.
 *
 *   <term>-<index>-<ms>/meta.json   Version 1, ID, Index, Term, Configuration, ConfigurationIndex, Size, CRC
 *   <term>-<index>-<ms>/state.bin   the image
 *
 * CRC is the CRC-64 (ECMA) of the image, big-endian, in base64.   Thread: one at a time.   Source: hashicorp/raft 1.7,
 * file_snapshot.go.
 */
#ifndef BBOLT_SNAPSHOT_H
#define BBOLT_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bbolt_snapshot {
	uint64_t index, term;
	uint64_t size; /* bytes of the image */
	uint64_t crc;
};

#define BBOLT_SNAPSHOT_META "meta.json"
#define BBOLT_SNAPSHOT_STATE "state.bin"

/* Reads meta.json in `dir` and all of state.bin. ERR_CORRUPT: the image is not the one it describes. ERR_NOTFOUND,
 * ERR_VERSION, ERR_IO. */
MUST_CHECK int bbolt_snapshot_verify(const char *dir, struct bbolt_snapshot *out, struct err *e);

struct bbolt_snapshot_server {
	const char *id, *addr;
	int is_voter;
};

/* Copies the image at `from` into the directory `dir`, which is made, and describes it under the name `id`. Synced, the
 * directory too. ERR_FULL, ERR_IO; what was made by then stays for the caller to remove. */
MUST_CHECK int bbolt_snapshot_write(const char *dir, const char *id, const char *from, uint64_t index, uint64_t term,
                                    const struct bbolt_snapshot_server *servers, size_t count, struct err *e);

#endif /* BBOLT_SNAPSHOT_H */
