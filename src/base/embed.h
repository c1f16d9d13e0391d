/* base/embed.h - the files a program carries inside itself: the Lua of lua/ and policies/, and its version.
 *
 * Written by the build (base/embed.lua). Names are paths in the tree, "policies/placement.lua", in byte order.
 * Ownership: constants. Thread: any.
 */
#ifndef BASE_EMBED_H
#define BASE_EMBED_H

#include <stddef.h>

struct embedded_file {
	const char *name;
	const char *data; /* NUL-terminated beyond len */
	size_t len;       /* bytes */
};

extern const struct embedded_file embedded_files[];
extern const size_t embedded_file_count;

/* What --version says: the nearest tag and commit, "-dirty" when the tree had changes, "unknown" outside git. */
extern const char embedded_version[];

#endif /* BASE_EMBED_H */
