/* control/settings_file.h - the daemon's --config file: Lua text that returns a table of settings.
 *
 *   return { id = "n1", data = "/var/lib/veena", peers = { "n1@a:7943", "n2@b:7943" }, tag = { zone = "a" }, auth =
 * false }
 *
 * It runs in the sandbox of the policies, so it can compute and can reach nothing. What names and values mean is the
 * caller's affair: here each value becomes a list of texts. Numbers are integers; true and false become "on" and "off";
 * a list gives its texts in order, a table with names gives "name=value" in byte order.
 * Thread: any.
 */
#ifndef CONTROL_SETTINGS_FILE_H
#define CONTROL_SETTINGS_FILE_H

#include <stddef.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

struct settings_item {
	const char *name;
	const char *const *values; /* at least one */
	size_t count;
};

/* Items in byte order of their names, in the arena. `path` is for messages. ERR_INVALID: the file does not run, returns
 * no table, or holds a value that is none of the above; the sentence names the line or the setting. */
MUST_CHECK int settings_file_parse(const char *path, struct str source, struct arena *a, struct settings_item **items,
                                   size_t *count, struct err *e);

#endif /* CONTROL_SETTINGS_FILE_H */
