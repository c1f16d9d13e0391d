/* `veena import`: a bbolt file of Narad's becomes a data directory.
 *
 * Everything is built beside the directory, as <data>.veena-import, and renamed when it is whole: a snapshot of the
 * imported index that belongs to no cluster (node/imported.c makes it one at the first start), and, if there were
 * buckets that nobody here knows, narad-other.db with those. The file is walked twice: whole, which is what checks it,
 * and bucket by bucket in the order in which fsm/load.h wants them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "bbolt/bbolt.h"
#include "bbolt/snapshot.h"
#include "cli/offline.h"
#include "fsm/fsm.h"
#include "fsm/load.h"
#include "model/commands.h"
#include "node/snapshots.h"
#include "raft/raft.h"
#include "store/mark.h"

#define NARAD_MAX_TYPE 37
#define ASIDE_FILE "narad-other.db"
#define TOLD_MAX 20 /* refusals, members and buckets that are told one by one */

static const enum store_db order[] = { STORE_TOPICS, STORE_SCHEMAS, STORE_ASSIGNMENTS,    STORE_MEMBERS,
	                               STORE_USERS,  STORE_REMOTES, STORE_REMOVED_MEMBERS };

struct tally {
	uint64_t records, rewritten, refused, dropped, renamed, names_dropped;
};

struct import {
	const struct import_options *o;
	struct bbolt_file *file;
	char temp[OFFLINE_PATH_MAX];
	uint64_t index, term;
	uint64_t applied, txid, max_type; /* of fsm_meta; 0 = not there */
	struct bbolt_snapshot snapshot;   /* index 0: a bare file */
	uint64_t aside, refused, done;    /* done: pages, of twice what the file has */
	struct tally tallies[STORE_DB_COUNT];
	struct buf refusals, members; /* JSON, the inside of an array */
	unsigned told, members_told;
};

static const enum store_db *known(struct str name)
{
	static const enum store_db meta = STORE_FSM_META;
	if (str_is(name, store_db_name(meta)))
		return &meta;
	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		if (str_is(name, store_db_name(order[i])))
			return &order[i];
	}
	return NULL;
}

/* ---- the whole file: is it whole, and what is in it that is nobody's? ---- */

static int put_aside(struct bbolt_writer *w, const struct bbolt_item *it, struct err *e)
{
	if (!w)
		return 0;
	switch (it->event) {
	case BBOLT_RECORD: return bbolt_writer_put(w, it->key, it->value, e);
	case BBOLT_BUCKET: return bbolt_writer_begin_bucket(w, it->key, it->sequence, e);
	case BBOLT_BUCKET_END: return bbolt_writer_end_bucket(w, e);
	default: return 0;
	}
}

static void take_meta(struct import *m, const struct bbolt_item *it)
{
	const uint64_t n = it->value.len == 8 ? get_be64(it->value.p) : 0; /* Narad reads another length as 0 */
	if (str_is(it->key, "applied"))
		m->applied = n;
	else if (str_is(it->key, "txid"))
		m->txid = n;
	else if (str_is(it->key, "max_entry_type"))
		m->max_type = n;
}

static int walk_whole(struct import *m, struct bbolt_walk *walk, struct bbolt_writer *w, struct json_writer *report,
                      struct err *e)
{
	const enum store_db *db = NULL;
	struct bbolt_item it;
	uint64_t records = 0;
	json_key(report, "aside");
	json_begin_array(report);
	int rc;
	while ((rc = bbolt_walk_next(walk, &it, e)) == 0 && it.event != BBOLT_END) {
		rc = offline_tick(bbolt_walk_pages(walk), 2 * bbolt_get_info(m->file)->page_count, e);
		if (rc)
			break;
		if (it.event == BBOLT_BUCKET && it.depth == 0) {
			db = known(it.key);
			records = 0;
			if (!db) {
				m->aside++;
				json_begin_object(report);
				json_field_str(report, "bucket", it.key);
			}
		}
		if (db) {
			if (*db == STORE_FSM_META && it.event == BBOLT_RECORD)
				take_meta(m, &it);
			continue;
		}
		records += it.event == BBOLT_RECORD;
		rc = put_aside(w, &it, e);
		if (rc)
			break;
		if (it.event == BBOLT_BUCKET_END && it.depth == 0) {
			json_field_u64(report, "records", records);
			json_end_object(report);
		}
	}
	if (rc && !db && m->aside)
		json_end_object(report); /* the one that was under way */
	json_end_array(report);
	return rc;
}

static int look_at_all(struct import *m, struct json_writer *report, struct err *e)
{
	char path[OFFLINE_PATH_MAX];
	struct bbolt_writer *w = NULL;
	int fd = -1;
	int rc = offline_path(path, e, "%s/" ASIDE_FILE, m->temp);
	if (rc == 0 && !m->o->dry_run) {
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return err_set_errno(e, ERR_IO, errno, "could not create %s", path);
		w = bbolt_writer_new(fd, path, 4096, 2);
	}
	struct bbolt_walk *walk = bbolt_walk_new(m->file);
	if (rc == 0)
		rc = walk_whole(m, walk, w, report, e);
	json_field_u64(report, "lost_pages", bbolt_walk_lost_pages(walk));
	if (rc == 0 && w && m->aside)
		rc = bbolt_writer_finish(w, e);
	bbolt_walk_free(walk);
	bbolt_writer_free(w);
	if (fd >= 0 && close(fd) != 0 && rc == 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not close %s", path);
	if (fd >= 0 && m->aside == 0 && unlink(path) != 0 && rc == 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not remove %s", path);
	return rc;
}

/* ---- bucket by bucket ---- */

static void separate(struct buf *list)
{
	if (list->len)
		buf_putc(list, ',');
}

static void tell_refusal(struct import *m, enum store_db db, struct str key, const char *why)
{
	struct json_writer w = { .out = &m->refusals };
	m->refused++;
	if (m->told++ >= TOLD_MAX)
		return;
	separate(&m->refusals);
	json_begin_object(&w);
	json_field_cstr(&w, "bucket", store_db_name(db));
	json_field_str(&w, "key", key);
	json_field_cstr(&w, "why", why);
	json_end_object(&w);
}

/* One that comes back as a server with the same report would hold every newer type back. */
static void tell_member(struct import *m, struct str id, uint32_t types)
{
	struct json_writer w = { .out = &m->members };
	if (types >= COMMAND_MAX || m->members_told++ >= TOLD_MAX)
		return;
	separate(&m->members);
	json_begin_object(&w);
	json_field_str(&w, "id", id);
	json_field_u64(&w, "entry_types", types ? types : COMMAND_LEGACY_MAX);
	json_end_object(&w);
}

static int load_record(struct import *m, struct fsm_load *l, enum store_db db, const struct bbolt_item *it,
                       struct err *e)
{
	struct tally *t = &m->tallies[db];
	struct fsm_loaded what;
	struct err why = { 0 };
	const int rc = fsm_load_put(l, db, it->key, it->value, &what, &why);
	if (rc == ERR_INVALID) {
		t->refused++;
		tell_refusal(m, db, it->key, why.msg);
		return 0;
	}
	if (rc)
		return err_set(e, rc, "%s", why.msg);
	t->records += !what.dropped;
	t->dropped += what.dropped;
	t->rewritten += what.rewritten && !what.dropped;
	t->renamed += what.renamed;
	t->names_dropped += what.names_dropped;
	if (db == STORE_MEMBERS && !what.dropped)
		tell_member(m, it->key, what.entry_types);
	return 0;
}

static int load_bucket(struct import *m, struct fsm_load *l, enum store_db db, struct err *e)
{
	const uint64_t all = bbolt_get_info(m->file)->page_count;
	struct bbolt_walk *walk = bbolt_walk_new(m->file);
	struct bbolt_item it;
	int rc = bbolt_walk_bucket(walk, str_of(store_db_name(db)), e);
	const bool is_there = rc == 0;
	if (rc == ERR_NOTFOUND)
		rc = 0;
	while (is_there && rc == 0 && (rc = bbolt_walk_next(walk, &it, e)) == 0 && it.event != BBOLT_END) {
		rc = offline_tick(all + m->done + bbolt_walk_pages(walk), 2 * all, e);
		if (rc == 0 && it.event == BBOLT_BUCKET) {
			m->tallies[db].refused++;
			tell_refusal(m, db, it.key, "a bucket where a record is expected");
			bbolt_walk_skip(walk);
		} else if (rc == 0) {
			rc = load_record(m, l, db, &it, e);
		}
	}
	m->done += bbolt_walk_pages(walk);
	bbolt_walk_free(walk);
	return rc;
}

/* A configuration must name somebody; node/imported.c replaces it before anybody acts on it. */
static void nobody(struct raft_conf *out)
{
	*out = (struct raft_conf){ .count = 1 };
	out->servers[0].id = 1;
	out->servers[0].voter = true;
	snprintf(out->servers[0].name, sizeof(out->servers[0].name), "imported");
	snprintf(out->servers[0].addr, sizeof(out->servers[0].addr), "imported:1");
}

static int load_all(struct import *m, struct err *e)
{
	struct raft_conf conf;
	struct buf bytes = { 0 };
	struct fsm_load *l = NULL;
	nobody(&conf);
	raft_conf_encode(&conf, &bytes);
	const struct fsm_load_options o = { .dir = m->o->dry_run ? NULL : m->temp,
		                            .index = m->index,
		                            .term = m->term,
		                            .conf = { (const char *)bytes.data, bytes.len },
		                            .renames = m->o->renames,
		                            .drops = m->o->drops };
	int rc = fsm_load_begin(&o, &l, e);
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(order); i++)
		rc = load_bucket(m, l, order[i], e);
	if (rc == 0 && m->refused && !m->o->skip_refused)
		rc = err_set(e, ERR_REFUSED,
		             "%" PRIu64 " records are refused, so nothing was imported; --skip-refused leaves them out",
		             m->refused);
	if (rc == 0)
		rc = fsm_load_finish(l, (uint32_t)m->max_type, e);
	else
		fsm_load_abort(l);
	buf_fini(&bytes);
	return rc;
}

/* ---- the directory ---- */

static int seal(struct import *m, struct err *e)
{
	char path[OFFLINE_PATH_MAX];
	struct fsm_image *image = mem_alloc(sizeof(*image));
	struct snapfile_info *info = mem_zalloc(sizeof(*info));
	int rc = offline_path(path, e, "%s/" STORE_FILE, m->temp);
	if (rc == 0)
		rc = fsm_read_image(path, 0, image, e);
	if (rc == 0) {
		info->index = image->index;
		info->term = image->term;
		info->cluster_id = SNAPFILE_NO_CLUSTER;
		info->digest = image->digest;
		info->max_entry_type = image->max_entry_type;
		nobody(&info->conf);
		rc = snapfile_make_dir(m->temp, e);
	}
	if (rc == 0)
		rc = snapfile_seal(path, info, e);
	if (rc == 0)
		rc = snapfile_publish(m->temp, path, info, e);
	mem_free(image);
	mem_free(info);
	if (rc)
		return rc;
	static const char *const leftovers[] = { STORE_MARK_FILE, STORE_LOCK_FILE };
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(leftovers); i++) {
		rc = offline_path(path, e, "%s/%s", m->temp, leftovers[i]);
		if (rc == 0 && unlink(path) != 0)
			rc = err_set_errno(e, ERR_IO, errno, "could not remove %s", path);
	}
	return rc;
}

/* Onto nothing, or onto an empty directory: rename refuses anything else. */
static int publish(struct import *m, struct err *e)
{
	const char *dir = m->o->data_dir;
	int rc = seal(m, e);
	if (rc)
		return rc;
	if (rename(m->temp, dir) != 0)
		return err_set_errno(e, errno == ENOTEMPTY || errno == EEXIST ? ERR_EXISTS : ERR_IO, errno,
		                     "could not rename %s to %s", m->temp, dir);
	return offline_sync_dir_of(dir, e);
}

static int check_target(const struct import *m, struct err *e)
{
	if (m->o->data_dir[0] == '\0' || m->o->data_dir[strlen(m->o->data_dir) - 1] == '/')
		return err_set(e, ERR_INVALID, "--data is \"%s\"; write the directory's name, without a final /",
		               m->o->data_dir);
	DIR *dir = opendir(m->o->data_dir);
	if (!dir && errno == ENOENT)
		return 0;
	unsigned entries = 0;
	while (dir && readdir(dir))
		entries++;
	if (dir)
		closedir(dir);
	if (dir && entries == 2) /* . and .. */
		return 0;
	return err_set(e, ERR_EXISTS, "%s is there already, and not an empty directory: an import makes a new one",
	               m->o->data_dir);
}

static int make_temp(struct import *m, struct err *e)
{
	int rc = check_target(m, e);
	if (rc)
		return rc;
	offline_remove_tree(m->temp); /* of a run that was killed */
	return mkdir(m->temp, 0700) == 0 ? 0 : err_set_errno(e, ERR_IO, errno, "could not create %s", m->temp);
}

/* ---- the file, and where it stands ---- */

static int open_file(struct import *m, struct err *e)
{
	char path[OFFLINE_PATH_MAX];
	struct stat st;
	if (stat(m->o->file, &st) != 0)
		return err_set_errno(e, ERR_NOTFOUND, errno, "could not open %s", m->o->file);
	if (!S_ISDIR(st.st_mode))
		return bbolt_open(m->o->file, &m->file, e);
	int rc = bbolt_snapshot_verify(m->o->file, &m->snapshot, e);
	if (rc == 0)
		rc = offline_path(path, e, "%s/" BBOLT_SNAPSHOT_STATE, m->o->file);
	return rc ? rc : bbolt_open(path, &m->file, e);
}

/* A bare file does not say in which term it was written; the new cluster is another one, so any will do. */
static int settle(struct import *m, struct err *e)
{
	if (m->max_type > NARAD_MAX_TYPE)
		return err_set(e, ERR_VERSION,
		               "%s holds the effects of entry type %" PRIu64 ", of Narad's this release knows %d",
		               m->o->file, m->max_type, NARAD_MAX_TYPE);
	m->index = m->snapshot.index > m->applied ? m->snapshot.index : m->applied;
	m->index = m->index ? m->index : 1;
	m->term = m->snapshot.term ? m->snapshot.term : 1;
	if (m->index >= INT64_MAX || m->term >= INT64_MAX)
		return err_set(e, ERR_CORRUPT, "%s: its applied index makes no sense", m->o->file);
	return 0;
}

/* ---- the report ---- */

static void report_file(const struct import *m, struct json_writer *w)
{
	const struct bbolt_info *i = bbolt_get_info(m->file);
	json_field_cstr(w, "file", m->o->file);
	json_field_u64(w, "bytes", i->file_len);
	json_field_u64(w, "page_size", i->page_size);
	json_field_u64(w, "pages", i->page_count);
	json_field_u64(w, "transaction", i->txn_id);
	if (i->damaged_meta[0]) {
		json_field_u64(w, "damaged_meta", 1 - i->meta);
		json_field_cstr(w, "damaged_meta_why", i->damaged_meta);
	}
}

static void report_tally(const struct import *m, enum store_db db, struct json_writer *w)
{
	const struct tally *t = &m->tallies[db];
	json_begin_object(w);
	json_field_cstr(w, "bucket", store_db_name(db));
	json_field_u64(w, "records", t->records);
	json_field_u64(w, "refused", t->refused);
	json_field_u64(w, "rewritten", t->rewritten);
	json_field_u64(w, "dropped", t->dropped);
	json_field_u64(w, "renamed", t->renamed);
	json_field_u64(w, "names_dropped", t->names_dropped);
	json_end_object(w);
}

static void report_list(struct json_writer *w, const char *key, const struct buf *inside)
{
	struct buf all = { 0 };
	buf_putc(&all, '[');
	buf_put(&all, inside->data, inside->len);
	buf_putc(&all, ']');
	json_key(w, key);
	json_put_raw(w, (struct str){ (const char *)all.data, all.len });
	buf_fini(&all);
}

static void report_all(const struct import *m, struct json_writer *w)
{
	json_field_u64(w, "index", m->index);
	json_field_u64(w, "term", m->term);
	json_field_bool(w, "index_trusted", m->applied > 0 && m->txid == bbolt_get_info(m->file)->txn_id);
	json_field_u64(w, "max_entry_type", m->max_type);
	json_key(w, "buckets");
	json_begin_array(w);
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		report_tally(m, order[i], w);
	json_end_array(w);
	json_field_u64(w, "refused", m->refused);
	report_list(w, "refusals", &m->refusals);
	report_list(w, "old_reports", &m->members);
	json_field_u64(w, "old_report_count", m->members_told);
}

static int import(struct import *m, struct json_writer *report, struct err *e)
{
	int rc = open_file(m, e);
	if (rc)
		return rc;
	report_file(m, report);
	if (!m->o->dry_run)
		rc = make_temp(m, e);
	if (rc == 0)
		rc = look_at_all(m, report, e);
	if (rc == 0)
		rc = settle(m, e);
	if (rc)
		return rc;
	rc = load_all(m, e);
	report_all(m, report);
	if (rc == 0 && !m->o->dry_run)
		rc = publish(m, e);
	json_field_bool(report, "written", rc == 0 && !m->o->dry_run);
	return rc;
}

int cli_import(const struct import_options *o, struct json_writer *report, struct err *e)
{
	struct import *m = mem_zalloc(sizeof(*m));
	m->o = o;
	int rc = offline_path(m->temp, e, "%s.veena-import", o->data_dir);
	if (rc == 0)
		rc = import(m, report, e);
	if (rc && !o->dry_run && m->file)
		offline_remove_tree(m->temp);
	bbolt_close(m->file);
	buf_fini(&m->refusals);
	buf_fini(&m->members);
	mem_free(m);
	return rc;
}
