/* What a start finds in the data directory, and makes of it. A is what fsm.mdb has applied, if it is trusted; S the
 * newest snapshot that is whole; the log holds B+1..L. Raft state is a log that was made, whatever it holds, and
 * snapshots.
 *
 *   fsm.mdb                        Raft state           may bootstrap   others
 *   ------------------------------------------------------------------------------------------------------------
 *   holds nothing                  none                 start empty     start empty
 *   holds anything                 none                 refuse          set aside as fsm.stale, start empty
 *   any                            snapshots, no log    refuse: term and vote are lost
 *   A > L and A > S                some                 refuse          as a new incarnation: S over it, else
 *                                                                       set aside
 *   A >= S, A >= B                 some                 keep it; what it already holds is not applied again
 *   A < S, or A < B                some                 S over it, then the log behind it
 *   not trusted, or absent         S >= B               S over it, then the log behind it
 *   not trusted, or absent         no S, B = 0          set aside, rebuild it from the log
 *   nothing reaches B              some                 refuse: a gap before the log
 *
 * Where S is put over fsm.mdb, every byte of it is verified first; a damaged one is passed over for the one before it,
 * which the log still reaches back to. Where it is not, what the end of the file says is enough: a snapshot is verified
 * before it is used. Without a good one, fsm.mdb itself is what the log stands on, and one is made of it at once.
 *
 * Where the log was lost, or is an older one, this node no longer knows what it acknowledged and whom it voted for: it
 * goes on as another incarnation, which counts for nothing until the cluster took it in. Identity is written before the
 * log is made: a log that nobody owns is refused.
 *
 * Not trusted (store/mark.h) is never opened, not even to look, and counts as "holds anything". Whatever refuses does
 * so before it has changed a file: the log is looked at before it is opened, since opening writes its tail anew. */
#include "node/node_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/mark.h"

/* ---- what the directory holds: fsm.mdb ---- */

static int open_fsm(struct node *n, struct err *e)
{
	const struct fsm_options o = { .store = { .dir = n->o.data_dir,
		                                  .map_bytes = (uint64_t)n->o.map_gib << 30,
		                                  .sync_commits = n->o.sync_fsm },
		                       .max_entry_type = n->o.max_entry_type };
	return fsm_open(&o, &n->fsm, e);
}

/* Read-only and without the lock file, so that a start that is refused has changed nothing. */
static int look_into_fsm(const struct node *n, struct node_found *f, struct err *e)
{
	char path[NODE_DIR_PATH_MAX + sizeof("/" STORE_FILE)];
	struct fsm_image *image = mem_alloc(sizeof(*image));
	snprintf(path, sizeof(path), "%s/" STORE_FILE, n->o.data_dir);
	int rc = fsm_look(path, n->o.max_entry_type, image, &f->holds, e);
	if (rc == 0) {
		f->applied = image->index;
		f->applied_term = image->term;
		f->holds = f->holds || image->index > 0;
	}
	if (rc == 0 && image->conf_len > 0)
		rc = raft_conf_decode(image->conf, image->conf_len, &f->conf, e);
	mem_free(image);
	return rc;
}

static int find_fsm(struct node *n, struct node_found *f, struct err *e)
{
	int rc = store_judge(n->o.data_dir, &f->fsm, e);
	if (rc != 0 || f->fsm.trust == STORE_ABSENT)
		return rc;
	if (f->fsm.trust == STORE_TRUSTED) {
		rc = look_into_fsm(n, f, e);
		if (rc != ERR_CORRUPT)
			return rc;
		/* Trusted by its mark and yet not what we write: somebody else's file under our name. */
		f->fsm.trust = STORE_UNTRUSTED;
		snprintf(f->fsm.why, sizeof(f->fsm.why), "%.*s", (int)sizeof(f->fsm.why) - 1, e->msg);
	}
	f->holds = true;
	return 0;
}

/* ---- what the directory holds: the log ---- */

static int open_log(struct node *n, struct node_found *f, bool read_only, struct err *e)
{
	char dir[NODE_DIR_PATH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/wal", n->o.data_dir);
	const struct wal_options o = { .dir = dir,
		                       .cluster_id = n->self.cluster_id,
		                       .segment_bytes = n->o.segment_bytes,
		                       .tail_bytes_max = read_only ? 1 : 0,
		                       .read_only = read_only };
	return wal_open(&o, &n->wal, &f->log, e);
}

static void close_log(struct node *n, struct node_found *f)
{
	wal_recovered_fini(&f->log);
	wal_close(n->wal);
	n->wal = NULL;
}

static bool is_log_there(const struct node *n)
{
	char dir[NODE_DIR_PATH_MAX + 8];
	snprintf(dir, sizeof(dir), "%s/wal", n->o.data_dir);
	return wal_is_there(dir);
}

/* ---- what the directory holds: snapshots ---- */

/* What their ends say; which of them is used, and so read whole, is decided later. */
static int find_snapshots(struct node *n, struct err *e)
{
	struct snapfiles *files = &n->snap.files;
	int rc = snapfiles_list(n->o.data_dir, files, e);
	for (size_t i = 0; rc == 0 && i < files->count; i++) {
		struct snapfile_info info;
		struct err why = { 0 };
		rc = snapfile_read_named(n->o.data_dir, files->v[i].index, files->v[i].term, &info, &why);
		if (rc == ERR_CORRUPT) {
			log_error("snapshot.damaged", "reason=\"%s\"", why.msg);
			files->v[i].damaged = true;
			rc = 0;
		} else if (rc != 0) {
			rc = err_set(e, rc, "%s", why.msg);
		} else if (n->self.cluster_id != 0 && info.cluster_id != n->self.cluster_id) {
			rc = err_set(e, ERR_IDENTITY,
			             "%s/" SNAPFILE_DIR "/%" PRIu64 "-%" PRIu64 ".mdb belongs to cluster %016" PRIx64
			             ", this node to %016" PRIx64 "; move it away, it is not of this cluster",
			             n->o.data_dir, info.index, info.term, info.cluster_id, n->self.cluster_id);
		}
	}
	return rc;
}

/* ---- whose directory it is ---- */

/* Raft state without the file `node` belongs to a node whose name and incarnation nobody knows. A log that was made
 * and holds nothing may be left of a very first start that was cut short. */
static int refuse_orphan(struct node *n, struct node_found *f, struct err *e)
{
	bool orphan = n->snap.files.count > 0;
	if (!orphan) {
		const int rc = open_log(n, f, true, e);
		if (rc != 0)
			return rc;
		orphan = !f->log.fresh;
		close_log(n, f);
	}
	if (!orphan)
		return 0;
	return err_set(e, ERR_CORRUPT,
	               "%s holds a Raft log but no file `node` that says whose it is; restore that file from a backup, "
	               "or start with an empty directory and join anew",
	               n->o.data_dir);
}

static void draw_incarnation(struct node *n)
{
	n->self.admitted = false;
	do
		rand_secure(&n->self.incarnation, sizeof(n->self.incarnation));
	while (n->self.incarnation == 0);
}

static int find_identity(struct node *n, bool *is_new, struct err *e)
{
	*is_new = false;
	const int rc = node_dir_read_identity(&n->dir, &n->self, e);
	if (rc == 0 && strcmp(n->self.id, n->o.id) != 0)
		return err_set(
		    e, ERR_IDENTITY,
		    "%s belongs to node \"%s\", but --id says \"%s\"; correct --id, or use another directory",
		    n->o.data_dir, n->self.id, n->o.id);
	if (rc != ERR_NOTFOUND)
		return rc;
	*is_new = true;
	snprintf(n->self.id, sizeof(n->self.id), "%s", n->o.id);
	draw_incarnation(n);
	return 0;
}

/* ---- the decision ---- */

struct plan {
	enum { KEEP, SET_ASIDE, RESTORE } what;
	struct snapfile_info restore;
	bool is_new;      /* nobody's directory so far */
	bool older_log;   /* fsm.mdb has applied more than log and snapshots hold */
	char damage[512]; /* of the newest snapshot that was to be used and could not; "" = none */
};

static int refuse_data_without_state(const struct node *n, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT,
	    "%s/" STORE_FILE " holds data, but there is no Raft state (wal/, snapshots/) beside it, and this node "
	    "may begin a new cluster, which would have none of its topics; put the Raft state back, or move " STORE_FILE
	    " away, or start with --join to take the data from a running cluster",
	    n->o.data_dir);
}

static int refuse_lost_log(const struct node *n, struct err *e)
{
	return err_set(e, ERR_CORRUPT,
	               "%s holds snapshots/, but no wal/: this node's term and vote are lost; put wal/ back, or start "
	               "with an empty directory and join anew",
	               n->o.data_dir);
}

static int refuse_older_state(const struct node *n, const struct node_found *f, raft_index newest, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT,
	    "%s/" STORE_FILE " has applied entry %" PRIu64 ", but the Raft log ends at %" PRIu64
	    ": the log is of an older backup, and a rebuild from it would drop what came since; put the newer "
	    "log back, or start with --join to take everything from the cluster",
	    n->o.data_dir, f->applied, newest);
}

static int refuse_gap(const struct node *n, const struct node_found *f, raft_index reached, const struct plan *p,
                      struct err *e)
{
	return err_set(e, ERR_CORRUPT,
	               "%s: entries %" PRIu64 " to %" PRIu64
	               " are missing: the Raft log begins behind them, and neither fsm.mdb (%s) nor a snapshot reaches "
	               "them%s%s; restore snapshots/ from a backup, or start with an empty directory and join anew",
	               n->o.data_dir, reached + 1, f->log.base_index, f->fsm.why, p->damage[0] ? "; " : "", p->damage);
}

static raft_index trusted_index(const struct node_found *f)
{
	return f->fsm.trust == STORE_TRUSTED ? f->applied : 0;
}

static void note_damage(struct plan *p, struct snapfile *file, const char *why)
{
	log_error("snapshot.damaged", "reason=\"%s\"", why);
	file->damaged = true;
	if (p->damage[0] == '\0')
		snprintf(p->damage, sizeof(p->damage), "%s", why);
}

/* May this one be put over fsm.mdb? All of it is read. ERR_CORRUPT: it is damaged. */
static int verify(const struct node *n, const struct snapfile *file, struct snapfile_info *out, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	snapfile_path(n->o.data_dir, file->index, file->term, path);
	int rc = snapfile_read_named(n->o.data_dir, file->index, file->term, out, e);
	if (rc == 0)
		rc = snapfile_verify(path, out, e);
	if (rc == 0)
		rc = snapfile_check_image(path, out, n->o.max_entry_type, e);
	return rc;
}

/* The newest snapshot that is whole and that the log reaches back to; else fsm.mdb as it is, if it may be kept. */
static int rebuild(struct node *n, const struct node_found *f, bool may_keep, struct plan *p, struct err *e)
{
	const raft_index base = f->log.base_index;
	raft_index reached = may_keep ? trusted_index(f) : 0;
	for (size_t i = 0; i < n->snap.files.count; i++) {
		struct snapfile *file = &n->snap.files.v[i];
		struct err why = { 0 };
		if (file->damaged)
			continue;
		if (may_keep && trusted_index(f) >= file->index && trusted_index(f) >= base)
			return 0; /* newer ones are damaged, and it is no older than this one */
		const int rc = verify(n, file, &p->restore, &why);
		if (rc == ERR_CORRUPT) {
			note_damage(p, file, why.msg);
			continue;
		}
		if (rc != 0)
			return err_set(e, rc, "%s", why.msg);
		file->verified = true;
		if (file->index >= base) {
			p->what = RESTORE;
			return 0;
		}
		if (file->index > reached)
			reached = file->index;
	}
	if (may_keep && trusted_index(f) >= base && f->fsm.trust == STORE_TRUSTED)
		return 0;
	if (base > 0)
		return refuse_gap(n, f, reached, p, e);
	p->what = f->fsm.trust == STORE_ABSENT ? KEEP : SET_ASIDE;
	return 0;
}

static int decide(struct node *n, const struct node_found *f, struct plan *p, struct err *e)
{
	const struct snapfile *s = snapfiles_good(&n->snap.files, 0);
	const raft_index applied = trusted_index(f);
	raft_index newest = f->log.last_index;
	if (!f->raft_state) {
		p->what = f->holds ? SET_ASIDE : KEEP;
		return 0;
	}
	if (s && s->index > newest)
		newest = s->index;
	if (applied > newest) {
		if (node_may_bootstrap(&n->o))
			return refuse_older_state(n, f, newest, e);
		p->older_log = true;
		return rebuild(n, f, false, p, e);
	}
	if (f->fsm.trust == STORE_TRUSTED && applied >= f->log.base_index && (!s || applied >= s->index))
		return 0;
	return rebuild(n, f, true, p, e);
}

/* ---- carrying it out: from here on files change ---- */

static void forget_fsm(struct node_found *f)
{
	f->applied = 0;
	f->applied_term = 0;
	f->conf.count = 0;
}

static int set_aside(struct node *n, struct node_found *f, struct err *e)
{
	log_warn("metastore: set fsm.mdb aside as fsm.stale", "reason=\"%s\" applied=%" PRIu64 " log_last=%" PRIu64,
	         f->fsm.why, f->applied, f->log.last_index);
	forget_fsm(f);
	return store_set_aside(n->o.data_dir, e);
}

static int restore(struct node *n, struct node_found *f, const struct snapfile_info *from, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	char temp[SNAPFILE_PATH_MAX];
	log_warn("metastore: restored fsm.mdb from a snapshot",
	         "index=%" PRIu64 " term=%" PRIu64 " reason=\"%s\" applied=%" PRIu64 " log_first=%" PRIu64
	         " log_last=%" PRIu64,
	         from->index, from->term, f->fsm.why, f->applied, f->log.first_index, f->log.last_index);
	snapfile_path(n->o.data_dir, from->index, from->term, path);
	snprintf(temp, sizeof(temp), "%s/" STORE_RESTORE_FILE, n->o.data_dir);
	forget_fsm(f);
	int rc = snapfile_copy(path, from, false, temp, e);
	if (rc == 0)
		rc = snapfile_sync(temp, e);
	return rc ? rc : store_put_image(n->o.data_dir, temp, e);
}

/* A snapshot proves a term that the slots may not hold: a follower can make one of what a leader sent before its own
 * note of that leader's term is durable. Nobody was told of a vote in it, so there is none. */
static int raise_term(struct node *n, struct node_found *f, struct err *e)
{
	if (f->base.term <= f->log.term)
		return 0;
	f->log.term = f->base.term;
	f->log.vote = 0;
	return wal_put_hardstate(n->wal, f->log.term, 0, e);
}

/* What raft is to take the log to stand on: the newest snapshot that the state reaches and that reaches the log. */
static int find_base(struct node *n, struct node_found *f, struct err *e)
{
	for (size_t i = 0; i < n->snap.files.count; i++) {
		const struct snapfile *file = &n->snap.files.v[i];
		if (file->damaged || file->index > f->applied || file->index < f->log.base_index)
			continue;
		f->base_is_file = true;
		const int rc = snapfile_read_named(n->o.data_dir, file->index, file->term, &f->base, e);
		f->time_ms = rc == 0 ? f->base.time_ms : 0;
		return rc;
	}
	if (f->log.base_index == 0)
		return 0;
	if (f->conf.count == 0)
		return err_set(e, ERR_CORRUPT,
		               "%s/" STORE_FILE
		               ": holds no Raft configuration, and the log begins behind it; move " STORE_FILE
		               " away to have it rebuilt, or start with an empty directory and join anew",
		               n->o.data_dir);
	f->base.index = f->applied;
	f->base.term = f->applied_term;
	f->base.conf = f->conf;
	return 0;
}

static int begin_anew(struct node *n, const char *why, struct err *e)
{
	const uint64_t before = n->self.incarnation;
	draw_incarnation(n);
	log_warn("node.new_incarnation", "before=%016" PRIx64 " incarnation=%016" PRIx64 " reason=\"%s\"", before,
	         n->self.incarnation, why);
	return node_dir_write_identity(&n->dir, &n->self, e);
}

/* Whose log this will be, before it is made. */
static int settle_identity(struct node *n, const struct node_found *f, const struct plan *p, struct err *e)
{
	if (p->is_new)
		return node_dir_write_identity(&n->dir, &n->self, e);
	if (p->older_log)
		return begin_anew(n, "the Raft log is older than fsm.mdb", e);
	if (f->raft_state || (n->self.cluster_id == 0 && !n->self.admitted))
		return 0;
	n->self.cluster_id = 0;
	n->self.minted = false;
	return begin_anew(n, "the Raft log is gone", e);
}

static int carry_out(struct node *n, struct node_found *f, const struct plan *p, struct err *e)
{
	int rc = 0;
	if (p->what == SET_ASIDE)
		rc = set_aside(n, f, e);
	else if (p->what == RESTORE)
		rc = restore(n, f, &p->restore, e);
	if (rc == 0)
		rc = open_fsm(n, e);
	if (rc == 0 && p->what == RESTORE)
		rc = look_into_fsm(n, f, e);
	return rc;
}

static int look(struct node *n, struct node_found *f, struct plan *p, struct err *e)
{
	int rc = find_identity(n, &p->is_new, e);
	if (rc == 0)
		rc = find_snapshots(n, e);
	if (rc == 0 && p->is_new)
		rc = refuse_orphan(n, f, e);
	if (rc == 0)
		rc = find_fsm(n, f, e);
	if (rc != 0)
		return rc;
	const bool has_log = is_log_there(n);
	f->raft_state = has_log || n->snap.files.count > 0;
	if (!f->raft_state && f->holds && node_may_bootstrap(&n->o))
		return refuse_data_without_state(n, e);
	if (f->raft_state && !has_log)
		return refuse_lost_log(n, e);
	rc = open_log(n, f, true, e);
	if (rc != 0)
		return rc;
	rc = decide(n, f, p, e);
	close_log(n, f);
	return rc;
}

int node_recover(struct node *n, struct node_found *f, struct err *e)
{
	struct plan *p = mem_zalloc(sizeof(*p));
	int rc = node_take_import(n, e);
	if (rc == 0)
		rc = look(n, f, p, e);
	if (rc == 0)
		rc = settle_identity(n, f, p, e);
	if (rc == 0)
		rc = open_log(n, f, false, e);
	if (rc == 0)
		rc = carry_out(n, f, p, e);
	mem_free(p);
	if (rc == 0)
		rc = find_base(n, f, e);
	if (rc == 0)
		rc = raise_term(n, f, e);
	if (rc == 0)
		rc = snapfile_make_dir(n->o.data_dir, e);
	if (rc == 0)
		rc = node_dir_sign_lock(&n->dir, e);
	if (rc != 0)
		return rc;
	node_dir_remove_leftovers(&n->dir);
	if (f->log.dropped_index > 0)
		log_warn("log.torn_tail", "index=%" PRIu64 " note=\"half-written, never acknowledged\"",
		         f->log.dropped_index);
	return 0;
}
