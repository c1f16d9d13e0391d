/* cli/offline.h - work on files of a node that does not run: what `import` and `export` share.
 *
 * The work is C without Lua; what it found is a report, one JSON object, which lua/verbs_offline.lua prints. SIGINT and
 * SIGTERM end it between two records, as a failure that cleans up.   Thread: main.
 */
#ifndef CLI_OFFLINE_H
#define CLI_OFFLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/field.h"
#include "model/json.h"

#define OFFLINE_PATH_MAX 4096

struct import_options {
	const char *file, *data_dir;
	struct str_map renames;
	struct str_list drops;
	bool dry_run;
	bool skip_refused;
};

struct export_options {
	const char *data_dir, *file;
	bool drop;
};

/* The report is written whatever is answered, but for its end: members of an object that the caller opened and closes.
 * ERR_REFUSED: the report says why, and nothing was written. */
MUST_CHECK int cli_import(const struct import_options *o, struct json_writer *report, struct err *e);
MUST_CHECK int cli_export(const struct export_options *o, struct json_writer *report, struct err *e);

/* ---- progress on a terminal, and the wish to stop ---- */

void offline_begin(const char *what); /* takes SIGINT and SIGTERM */
void offline_end(void);               /* gives them back; wipes the line */
/* ERR_CLOSED: interrupted. */
MUST_CHECK int offline_tick(uint64_t done, uint64_t all, struct err *e);

/* ---- files ---- */

/* Removes a directory this command made, with what it holds; one that is not there is as good. */
void offline_remove_tree(const char *path);
MUST_CHECK int offline_sync_dir_of(const char *path, struct err *e); /* the directory that `path` stands in */
/* a/b; ERR_INVALID when it is too long. */
MUST_CHECK int offline_path(char out[OFFLINE_PATH_MAX], struct err *e, const char *fmt, ...) PRINTF_LIKE(3, 4);

#endif /* CLI_OFFLINE_H */
