/* tests/sim/disk.h - a disk that forgets: interposed system calls that know what was synced and what was not.
 *
 * Every write goes through to the real file at once, since LMDB reads it through a map; beside it the old bytes are
 * kept until a sync makes the write durable. A process that is killed loses nothing (the kernel holds the pages); a
 * power cut undoes all that was not synced and then does again what the seed keeps of it, whole or torn. Creations,
 * renames and removals are held the same way until their directory is synced, and are lost from some point on, in
 * order.
 *
 * A crash may strike at any effect: from then on the node is mute (disk_is_mute) until its turn unwinds. What it still
 * writes goes to the file, so that the code under test unwinds over a consistent picture, and is undone afterwards.
 * Interposed: open, close, write, writev, pwrite, pwritev, fdatasync, fsync, ftruncate, rename, unlink. A write on an
 * O_DSYNC descriptor is durable when it returns.   Thread: the simulator has one.
 */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rand.h"

#define DISK_NODES_MAX 8

/* Files below `root`/n1 .. n8 belong to nodes 0..7; all others pass untouched. */
void disk_init(const char *root);
void disk_fini(void);

/* The node dies at its `effects`-th disk effect from now (1 = the next); 0 = not at all. */
void disk_crash_after(int node, uint64_t effects);
bool disk_is_mute(int node);
void disk_make_mute(int node); /* dies now, between two effects */

enum disk_crash { DISK_KILLED, DISK_POWER_CUT };
/* After the dead node's objects are gone: makes its files what they are for the next start. */
void disk_crash(int node, enum disk_crash kind, struct rand *r);
/* The dead node's disk is replaced by an empty one. */
void disk_wipe(int node);
/* Effects seen so far, all nodes: part of the trace hash. */
uint64_t disk_effects(void);
/* Writes of the node not yet durable: bytes. */
uint64_t disk_unsynced(int node);

/* The next `count` calls of the kind on files of this node fail so (0: no longer, whatever was set before); "sync"
 * covers fdatasync and fsync. ENOSPC fails only what makes a file longer, at times after the half that fitted. After a
 * failed sync the writes before it may be lost in a power cut though later syncs succeed, as on Linux. */
enum disk_call { DISK_WRITE, DISK_SYNC };
void disk_fail(int node, enum disk_call call, int errnum, uint64_t count);
uint64_t disk_failures(int node); /* calls that failed so, since the beginning */

#endif /* SIM_DISK_H */
