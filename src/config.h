/* config.h - the daemon's settings: defaults, --config file, environment, flags; the later layer wins.
 *
 * One table (config.c) holds name, kind, bounds and help of each setting, and everything else is made from it: parsing
 * of all three layers, --help, --check-config. Whatever is unknown or wrong is refused with the name as it was written,
 * the value, and what is allowed. What depends on several settings at once is in config_check.c.
 * Ownership: all strings live in the config's arena until config_fini.   Thread: main, before the others start.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/log.h"
#include "model/rules.h"
#include "net/peers.h"
#include "net/tls.h"
#include "node/node.h"

#define CONFIG_SECRET_MIN 16   /* bytes of a cluster secret */
#define CONFIG_SECRET_MAX 1024 /* likewise */
#define CONFIG_SETTINGS_MAX 64

enum config_layer { CONFIG_DEFAULT, CONFIG_FILE, CONFIG_ENVIRONMENT, CONFIG_FLAG };

struct config_list {
	const char **items;
	size_t count;
};

struct config {
	struct arena arena;
	uint8_t layer[CONFIG_SETTINGS_MAX]; /* enum config_layer each setting comes from, in the table's order */

	/* questions instead of a start */
	bool help, version, check_only;
	const char *config_file; /* NULL = none */

	/* as set */
	bool dev, bootstrap, learner, own_partitions, auth, allow_insecure;
	const char *id, *data, *http, *cluster;         /* never NULL after config_load */
	const char *advertise_http, *advertise_cluster; /* never NULL after config_load: what others are told */
	struct config_list peer_texts, initial_members, join, tags;
	const char *cluster_secret_file;          /* NULL = none */
	const char *cluster_secret_previous_file; /* likewise, as are the files below */
	const char *tls_cert, *tls_key;
	const char *cluster_tls_cert, *cluster_tls_key, *cluster_tls_ca;
	const char *admin_password_file; /* NULL = none */
	const char *policy_dir;          /* NULL = none */
	uint64_t sync;                   /* index into "log", "fsm" */
	uint64_t log_level;              /* enum log_level */
	uint64_t log_format;             /* enum log_format */
	uint64_t max_entry_type, http_threads, map_gib;
	uint64_t http_connections; /* 0 = what the limit of open files leaves */
	uint64_t http_request_mib, http_request_ms, http_answer_ms, http_idle_ms;
	uint64_t heartbeat_ms, election_ms;
	uint64_t snapshot_entries, snapshot_interval_s, snapshots_kept;
	uint64_t member_heartbeat_ms, dead_after_s, max_moves, min_voters;

	/* made by config_check */
	struct node_peer_addr *peers;
	size_t peer_count;
	const char *tags_json; /* an object */
	uint8_t secret[CONFIG_SECRET_MAX];
	size_t secret_len; /* 0 = none */
	uint8_t secret_previous[CONFIG_SECRET_MAX];
	size_t secret_previous_len;            /* likewise */
	struct net_tls *tls, *cluster_tls;     /* NULL = plain */
	char admin_password[PASSWORD_MAX + 2]; /* "" = none; room for the line end of its file */
};

/* Fills `c` (zeroed by the caller; config_fini also after a failure) from all layers and checks it. With help or
 * version asked for, nothing is checked. ERR_INVALID: one sentence about the first thing that is wrong. Log level and
 * format are set as far as they were read, so that the refusal itself is logged as asked. */
MUST_CHECK int config_load(struct config *c, int argc, char *const *argv, char *const *env, struct err *e);
void config_fini(struct config *c);

void config_print(const struct config *c, FILE *out); /* each setting, its value and where it comes from */
void config_print_help(FILE *out);

/* config_check.c: rules over several settings; fills what is "made by config_check". Called by config_load. */
MUST_CHECK int config_check(struct config *c, struct err *e);
/* Was this field set by file, environment or flag? `name` is the flag's, without dashes. */
bool config_is_set(const struct config *c, const char *name);

struct net_secrets config_secrets(const struct config *c); /* borrowed from `c` */
bool config_is_exposed(const char *addr);                  /* not loopback; of an address that was checked */

/* Reads a small file whole. ERR_IO, ERR_TOO_LARGE (more than `max` bytes) with the path. */
MUST_CHECK int config_read_file(const char *path, void *out, size_t max, size_t *len, struct err *e);

#endif /* CONFIG_H */
