/* `veena export`: the state of a stopped node as Narad's bbolt file, and as a Raft file snapshot of the same image.
 *
 * What Narad has no place for is counted first; with --drop it is left out. FILE is written as FILE.veena-part, the
 * snapshot as FILE.snapshots.veena-part/; when both are whole and synced they get their names, the snapshot first. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bbolt/bbolt.h"
#include "bbolt/snapshot.h"
#include "cli/offline.h"
#include "fsm/fsm.h"
#include "fsm/members.h"
#include "fsm/topics.h"
#include "model/commands.h"
#include "node/snapshots.h"
#include "raft/raft.h"
#include "store/mark.h"

#define NARAD_MAX_TYPE 37
#define PAGE_BYTES 4096u
#define TXN_ID 2u
#define DROP_PAGES_EVERY 2000u /* records */

/* In the order of their names, as bbolt keeps them. */
static const enum store_db buckets[] = { STORE_ASSIGNMENTS,     STORE_FSM_META, STORE_MEMBERS, STORE_REMOTES,
	                                 STORE_REMOVED_MEMBERS, STORE_SCHEMAS,  STORE_TOPICS,  STORE_USERS };

struct losses {
	uint64_t replicas, labels, tags, cordons, settings, grants;
};

struct export
{
	const struct export_options *o;
	int lock_fd;
	struct store *store;
	struct store_txn *txn;
	struct fsm_image *image;
	struct raft_conf conf;
	char source[OFFLINE_PATH_MAX], part[OFFLINE_PATH_MAX];
	char snapshots[OFFLINE_PATH_MAX], snapshots_part[OFFLINE_PATH_MAX];
	struct arena arena; /* of one record */
	struct losses losses;
	uint64_t records, all; /* walked, of so many */
	uint64_t counts[STORE_DB_COUNT];
	uint64_t clamped; /* members whose report named a type that Narad does not have */
};

/* ---- the node's directory ---- */

static int take_lock(struct export *x, struct err *e)
{
	char path[OFFLINE_PATH_MAX];
	int rc = offline_path(path, e, "%s/LOCK", x->o->data_dir);
	if (rc)
		return rc;
	x->lock_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (x->lock_fd < 0 && errno == ENOENT)
		return 0; /* no node was ever started on it; an import is told by its snapshot */
	if (x->lock_fd < 0)
		return err_set_errno(e, ERR_IO, errno, "could not open %s", path);
	if (flock(x->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return err_set(e, ERR_BUSY, "data directory %s is in use by a veenad; stop it first", x->o->data_dir);
}

/* A directory that holds no fsm.mdb: its newest snapshot, every byte of which is verified. */
static int find_snapshot(struct export *x, struct err *e)
{
	struct snapfiles files = { 0 };
	struct snapfile_info *info = mem_alloc(sizeof(*info));
	int rc = snapfiles_list(x->o->data_dir, &files, e);
	if (rc == 0 && files.count == 0)
		rc = err_set(e, ERR_NOTFOUND, "%s holds no state: neither " STORE_FILE " nor a snapshot",
		             x->o->data_dir);
	if (rc == 0)
		rc = snapfile_read_named(x->o->data_dir, files.v[0].index, files.v[0].term, info, e);
	if (rc == 0) {
		char path[SNAPFILE_PATH_MAX];
		snapfile_path(x->o->data_dir, files.v[0].index, files.v[0].term, path);
		rc = snapfile_verify(path, info, e);
		if (rc == 0)
			rc = offline_path(x->source, e, "%s", path);
	}
	snapfiles_fini(&files);
	mem_free(info);
	return rc;
}

static int find_state(struct export *x, struct err *e)
{
	struct store_verdict verdict;
	int rc = store_judge(x->o->data_dir, &verdict, e);
	if (rc)
		return rc;
	if (verdict.trust == STORE_UNTRUSTED)
		return err_set(e, ERR_CORRUPT,
		               "%s/" STORE_FILE
		               " is not to be trusted (%s); start veenad on it and stop it again, so that "
		               "it is rebuilt",
		               x->o->data_dir, verdict.why);
	return verdict.trust == STORE_ABSENT ? find_snapshot(x, e)
	                                     : offline_path(x->source, e, "%s/" STORE_FILE, x->o->data_dir);
}

static int open_state(struct export *x, struct err *e)
{
	bool holds;
	int rc = take_lock(x, e);
	if (rc == 0)
		rc = find_state(x, e);
	if (rc == 0)
		rc = fsm_look(x->source, 0, x->image, &holds, e);
	if (rc == 0 && x->image->index == 0)
		rc = err_set(e, ERR_NOTFOUND, "%s: nothing was applied yet", x->source);
	if (rc == 0 && x->image->conf_len > 0)
		rc = raft_conf_decode(x->image->conf, x->image->conf_len, &x->conf, e);
	if (rc == 0)
		rc = store_open_image(x->source, &x->store, e);
	return rc ? rc : store_begin_read(x->store, &x->txn, e);
}

/* ---- walking ---- */

typedef int record_fn(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e);

static int store_failed(struct export *x, int rc, struct err *e)
{
	return err_set(e, rc, "%s", store_txn_error(x->txn)->msg);
}

static int walk(struct export *x, enum store_db db, record_fn *fn, void *arg, struct err *e)
{
	struct store_cursor *c;
	struct str key, value;
	int rc = store_cursor_open(x->txn, db, &c);
	if (rc)
		return store_failed(x, rc, e);
	rc = store_cursor_seek(c, (struct str){ NULL, 0 }, &key, &value);
	while (rc == 0) {
		arena_reset(&x->arena);
		rc = fn(x, db, key, value, arg, e);
		if (rc == 0)
			rc = offline_tick(++x->records, x->all, e);
		if (rc)
			break;
		if (x->records % DROP_PAGES_EVERY == 0)
			store_drop_pages(x->store);
		rc = store_cursor_next(c, &key, &value);
		if (rc && rc != ERR_NOTFOUND)
			rc = store_failed(x, rc, e);
	}
	store_cursor_close(c);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

static int corrupt(struct export *x, enum store_db db, struct str key, const char *why, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "%s: %s \"" STR_FMT "\": %s", x->source, store_db_name(db), STR_ARG(key), why);
}

/* ---- what Narad has no place for ---- */

static int lose_topic(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e)
{
	struct topic_extra extra;
	(void)arg;
	(void)value;
	(void)db;
	if (fsm_get_topic_extra(x->txn, key, &x->arena, &extra) != 0)
		return corrupt(x, db, key, "not a row of this release", e);
	x->losses.labels += extra.labels.count > 0;
	x->losses.settings += extra.unclean || extra.replica_lag != 0;
	x->losses.replicas += extra.replicas > 1;
	return 0;
}

static int lose_member(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e)
{
	struct fsm_member_extra extra;
	(void)arg;
	(void)value;
	if (fsm_get_member_extra(x->txn, key, &extra) != 0)
		return corrupt(x, db, key, "not a row of this release", e);
	x->losses.tags += !str_is(extra.tags, "{}");
	x->losses.cordons += extra.cordoned;
	return 0;
}

static int lose_replica(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e)
{
	(void)db, (void)key, (void)value, (void)arg, (void)e;
	x->losses.replicas++;
	return 0;
}

static int lose_setting(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e)
{
	(void)db, (void)key, (void)value, (void)arg, (void)e;
	x->losses.settings++;
	return 0;
}

static bool is_narads(const struct grant *g)
{
	static const struct str actions[] = { { "produce", 7 }, { "consume", 7 }, { "create", 6 }, { "admin", 5 } };
	return str_is_among(g->action, actions, ARRAY_LEN(actions));
}

static int read_user(struct export *x, struct str key, struct str value, struct user *out, struct err *e)
{
	struct err why;
	return record_read_json(&user_type, value, &x->arena, out, NULL, &why) == 0
	           ? 0
	           : corrupt(x, STORE_USERS, key, why.msg, e);
}

static int lose_grants(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e)
{
	struct user u;
	(void)db;
	(void)arg;
	int rc = read_user(x, key, value, &u, e);
	const struct grant *g = rc == 0 ? u.grants.items : NULL;
	for (size_t i = 0; rc == 0 && i < u.grants.count; i++)
		x->losses.grants += !is_narads(&g[i]);
	return rc;
}

/* Every database has its line: whoever adds one says here what becomes of it. */
static int count_losses_of(struct export *x, enum store_db db, struct err *e)
{
	switch (db) {
	case STORE_USERS: return walk(x, db, lose_grants, NULL, e);
	case STORE_X_LABELS: return walk(x, db, lose_topic, NULL, e);
	case STORE_X_MEMBER: return walk(x, db, lose_member, NULL, e);
	case STORE_X_REPLICAS: return walk(x, db, lose_replica, NULL, e);
	case STORE_X_SETTINGS: return walk(x, db, lose_setting, NULL, e);
	/* Narad's. */
	case STORE_TOPICS:
	case STORE_SCHEMAS:
	case STORE_ASSIGNMENTS:
	case STORE_MEMBERS:
	case STORE_REMOVED_MEMBERS:
	case STORE_REMOTES:
	case STORE_FSM_META:
	/* Answers kept for a repeated request: gone in minutes anyway. */
	case STORE_X_IDEM:
	case STORE_X_IDEM_AT:
	/* Derived. */
	case STORE_X_META:
	case STORE_X_TOPIC:
	case STORE_X_FOLD:
	case STORE_X_BY_MEMBER:
	case STORE_X_BY_USER:
	case STORE_X_MOVE:
	case STORE_X_UNPLACED:
	case STORE_X_ORPHAN:
	case STORE_X_LEADERLESS:
	case STORE_X_BY_REMOTE: return 0;
	case STORE_DB_COUNT: break;
	}
	return err_set(e, ERR_VERSION, "database %d is none that an export knows", (int)db);
}

static int count_losses(struct export *x, struct json_writer *report, struct err *e)
{
	struct losses *l = &x->losses;
	int rc = 0;
	for (int db = 0; rc == 0 && db < STORE_DB_COUNT; db++)
		rc = count_losses_of(x, (enum store_db)db, e);
	if (rc)
		return rc;
	json_key(report, "losses");
	json_begin_object(report);
	json_field_u64(report, "replicas", l->replicas);
	json_field_u64(report, "labels", l->labels);
	json_field_u64(report, "tags", l->tags);
	json_field_u64(report, "cordons", l->cordons);
	json_field_u64(report, "settings", l->settings);
	json_field_u64(report, "grants", l->grants);
	json_end_object(report);
	if (x->o->drop || !(l->replicas | l->labels | l->tags | l->cordons | l->settings | l->grants))
		return 0;
	return err_set(e, ERR_REFUSED,
	               "Narad has no place for some of it, so nothing was written; --drop leaves it out");
}

/* ---- the file ---- */

static int put_user(struct export *x, struct bbolt_writer *w, struct str key, struct str value, struct err *e)
{
	struct user u;
	struct buf out = { 0 };
	int rc = read_user(x, key, value, &u, e);
	if (rc)
		return rc;
	const struct grant *from = u.grants.items;
	struct grant *kept = arena_alloc(&x->arena, (u.grants.count + 1) * sizeof(*kept));
	size_t n = 0;
	for (size_t i = 0; i < u.grants.count; i++) {
		if (is_narads(&from[i]))
			kept[n++] = from[i];
	}
	if (n == u.grants.count)
		return bbolt_writer_put(w, key, value, e);
	u.grants = (struct record_list){ kept, n };
	record_put_json(&user_type, &u, &out);
	rc = bbolt_writer_put(w, key, (struct str){ (const char *)out.data, out.len }, e);
	buf_fini(&out);
	return rc;
}

/* No member claims to know types that Narad does not have. */
static int put_member(struct export *x, struct bbolt_writer *w, struct str key, struct str value, struct err *e)
{
	struct member m;
	struct err why;
	struct buf out = { 0 };
	if (record_read_json(&member_type, value, &x->arena, &m, NULL, &why) != 0)
		return corrupt(x, STORE_MEMBERS, key, why.msg, e);
	if (m.entry_types <= NARAD_MAX_TYPE)
		return bbolt_writer_put(w, key, value, e);
	x->clamped++;
	m.entry_types = NARAD_MAX_TYPE;
	record_put_json(&member_type, &m, &out);
	const int rc = bbolt_writer_put(w, key, (struct str){ (const char *)out.data, out.len }, e);
	buf_fini(&out);
	return rc;
}

static int put_record(struct export *x, enum store_db db, struct str key, struct str value, void *arg, struct err *e)
{
	x->counts[db]++;
	if (db == STORE_USERS)
		return put_user(x, arg, key, value, e);
	if (db == STORE_MEMBERS)
		return put_member(x, arg, key, value, e);
	return bbolt_writer_put(arg, key, value, e);
}

/* Narad believes its index when `txid` is the transaction that the file stands at, as it is here. */
static int put_meta(struct export *x, struct bbolt_writer *w, struct err *e)
{
	const uint32_t max = x->image->max_entry_type < NARAD_MAX_TYPE ? x->image->max_entry_type : NARAD_MAX_TYPE;
	const struct {
		struct str key;
		uint64_t value;
	} all[] = { { STR_LIT("applied"), x->image->index },
		    { STR_LIT("max_entry_type"), max },
		    { STR_LIT("txid"), TXN_ID } };
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		uint8_t b[8];
		put_be64(b, all[i].value);
		const int rc = bbolt_writer_put(w, all[i].key, (struct str){ (const char *)b, sizeof(b) }, e);
		if (rc)
			return rc;
	}
	return 0;
}

static int write_buckets(struct export *x, struct bbolt_writer *w, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(buckets); i++) {
		rc = bbolt_writer_begin_bucket(w, str_of(store_db_name(buckets[i])), 0, e);
		if (rc == 0)
			rc = buckets[i] == STORE_FSM_META ? put_meta(x, w, e) : walk(x, buckets[i], put_record, w, e);
		if (rc == 0)
			rc = bbolt_writer_end_bucket(w, e);
	}
	return rc ? rc : bbolt_writer_finish(w, e);
}

static int write_file(struct export *x, struct json_writer *report, struct err *e)
{
	const int fd = open(x->part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set_errno(e, ERR_IO, errno, "could not create %s", x->part);
	struct bbolt_writer *w = bbolt_writer_new(fd, x->part, PAGE_BYTES, TXN_ID);
	int rc = write_buckets(x, w, e);
	json_field_u64(report, "bytes", bbolt_writer_bytes(w));
	bbolt_writer_free(w);
	if (close(fd) != 0 && rc == 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not close %s", x->part);
	return rc;
}

/* ---- the Raft snapshot ---- */

static int write_snapshot(struct export *x, struct err *e)
{
	struct bbolt_snapshot_server servers[RAFT_SERVERS_MAX];
	char id[80], dir[OFFLINE_PATH_MAX];
	for (uint32_t i = 0; i < x->conf.count; i++) {
		const struct raft_server *s = &x->conf.servers[i];
		servers[i] = (struct bbolt_snapshot_server){ s->name, s->addr, s->voter };
	}
	snprintf(id, sizeof(id), "%" PRIu64 "-%" PRIu64 "-%" PRIu64, x->image->term, x->image->index, clock_wall_ms());
	int rc = offline_path(dir, e, "%s/%s", x->snapshots_part, id);
	if (rc)
		return rc;
	offline_remove_tree(x->snapshots_part); /* of a run that was killed */
	if (mkdir(x->snapshots_part, 0700) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not create %s", x->snapshots_part);
	rc = bbolt_snapshot_write(dir, id, x->part, x->image->index, x->image->term, servers, x->conf.count, e);
	return rc ? rc : offline_sync_dir_of(dir, e);
}

static int publish(struct export *x, struct err *e)
{
	if (rename(x->snapshots_part, x->snapshots) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not rename %s to %s", x->snapshots_part, x->snapshots);
	if (rename(x->part, x->o->file) != 0)
		return err_set_errno(e, ERR_IO, errno, "could not rename %s to %s", x->part, x->o->file);
	return offline_sync_dir_of(x->o->file, e);
}

/* ---- the whole ---- */

static int name_files(struct export *x, struct err *e)
{
	const char *file = x->o->file;
	int rc = offline_path(x->part, e, "%s.veena-part", file);
	if (rc == 0)
		rc = offline_path(x->snapshots, e, "%s.snapshots", file);
	if (rc == 0)
		rc = offline_path(x->snapshots_part, e, "%s.snapshots.veena-part", file);
	if (rc)
		return rc;
	const char *const taken[] = { file, x->snapshots };
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		if (access(taken[i], F_OK) == 0)
			return err_set(e, ERR_EXISTS, "%s is there already; an export writes a new file", taken[i]);
	}
	return 0;
}

static void count_all(struct export *x)
{
	static const enum store_db looked_at[] = { STORE_USERS, STORE_X_LABELS, STORE_X_MEMBER, STORE_X_REPLICAS,
		                                   STORE_X_SETTINGS };
	uint64_t n;
	for (size_t i = 0; i < ARRAY_LEN(buckets); i++)
		x->all += store_count(x->txn, buckets[i], &n) == 0 ? n : 0;
	for (size_t i = 0; i < ARRAY_LEN(looked_at); i++)
		x->all += store_count(x->txn, looked_at[i], &n) == 0 ? n : 0;
}

static void report_all(const struct export *x, struct json_writer *w)
{
	json_field_cstr(w, "file", x->o->file);
	json_field_cstr(w, "snapshots", x->snapshots);
	json_key(w, "buckets");
	json_begin_array(w);
	for (size_t i = 0; i < ARRAY_LEN(buckets); i++) {
		if (buckets[i] == STORE_FSM_META)
			continue;
		json_begin_object(w);
		json_field_cstr(w, "bucket", store_db_name(buckets[i]));
		json_field_u64(w, "records", x->counts[buckets[i]]);
		json_end_object(w);
	}
	json_end_array(w);
	json_field_u64(w, "clamped_reports", x->clamped);
}

static int export(struct export *x, struct json_writer *report, struct err *e)
{
	int rc = open_state(x, e);
	if (rc)
		return rc;
	json_field_cstr(report, "source", x->source);
	json_field_u64(report, "index", x->image->index);
	json_field_u64(report, "term", x->image->term);
	count_all(x);
	rc = count_losses(x, report, e);
	if (rc)
		return rc;
	rc = write_file(x, report, e);
	if (rc == 0)
		rc = write_snapshot(x, e);
	if (rc == 0)
		rc = publish(x, e);
	if (rc == 0) {
		report_all(x, report);
		return 0;
	}
	unlink(x->part);
	offline_remove_tree(x->snapshots_part);
	return rc;
}

int cli_export(const struct export_options *o, struct json_writer *report, struct err *e)
{
	struct export *x = mem_zalloc(sizeof(*x));
	x->o = o;
	x->lock_fd = -1;
	x->image = mem_zalloc(sizeof(*x->image));
	int rc = name_files(x, e);
	if (rc == 0)
		rc = export(x, report, e);
	store_abort(x->txn);
	(void)store_close(x->store, false, NULL); /* read-only: nothing to lose */
	if (x->lock_fd >= 0)
		close(x->lock_fd);
	arena_fini(&x->arena);
	mem_free(x->image);
	mem_free(x);
	return rc;
}
