/* The first start on a directory that `veena import` made. It holds a snapshot that belongs to no cluster, and nothing
 * else; --bootstrap makes this node the only voter of a new cluster that begins with that state.
 *
 *   node       identity and a new cluster id
 *   wal        an empty log behind the snapshot's index, in its term; no vote
 *   fsm.mdb    the snapshot's image, with the configuration of this one voter
 *   snapshots  an image of that, with the same configuration and the cluster's id, in the place of the imported one
 *
 * The last step is the one that counts: until it is durable the directory still is an imported one, and the next start
 * does everything again; no node can have written to that log. After it, it is a directory like any other. */
#include "node/node_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rand.h"
#include "store/mark.h"

/* 0: *out describes it. ERR_NOTFOUND: this directory is not, or no longer, an imported one. */
static int find_import(const struct node *n, struct snapfile_info *out, struct err *e)
{
	struct snapfiles files = { 0 };
	int rc = snapfiles_list(n->o.data_dir, &files, e);
	if (rc == 0 && files.count != 1)
		rc = ERR_NOTFOUND;
	if (rc == 0)
		rc = snapfile_read_named(n->o.data_dir, files.v[0].index, files.v[0].term, out, e);
	snapfiles_fini(&files);
	if (rc == ERR_CORRUPT)
		return ERR_NOTFOUND; /* for whoever looks at all of the directory to say */
	return rc == 0 && out->cluster_id != SNAPFILE_NO_CLUSTER ? ERR_NOTFOUND : rc;
}

static int take_identity(struct node *n, struct err *e)
{
	struct node_identity *self = &n->self;
	int rc = node_dir_read_identity(&n->dir, self, e);
	if (rc != 0 && rc != ERR_NOTFOUND)
		return rc;
	snprintf(self->id, sizeof(self->id), "%s", n->o.id);
	while (self->incarnation == 0)
		rand_secure(&self->incarnation, sizeof(self->incarnation));
	while (self->cluster_id == 0)
		rand_secure(&self->cluster_id, sizeof(self->cluster_id));
	self->minted = true;
	self->admitted = true;
	return node_dir_write_identity(&n->dir, self, e);
}

static int begin_log(const struct node *n, const struct snapfile_info *from, struct err *e)
{
	char dir[NODE_DIR_PATH_MAX + 8];
	struct wal_recovered found = { 0 };
	struct wal *wal = NULL;
	snprintf(dir, sizeof(dir), "%s/wal", n->o.data_dir);
	const struct wal_options o = { .dir = dir,
		                       .cluster_id = n->self.cluster_id,
		                       .segment_bytes = n->o.segment_bytes };
	int rc = wal_open(&o, &wal, &found, e);
	if (rc == 0)
		rc = wal_put_hardstate(wal, from->term, 0, e);
	if (rc == 0)
		rc = wal_reset(wal, from->index, from->term, e);
	wal_recovered_fini(&found);
	wal_close(wal);
	return rc;
}

static void only_voter(const struct node *n, struct raft_conf *out)
{
	*out = (struct raft_conf){ .count = 1 };
	struct raft_server *s = &out->servers[0];
	s->id = n->self.incarnation;
	s->voter = true;
	snprintf(s->name, sizeof(s->name), "%s", n->o.id);
	snprintf(s->addr, sizeof(s->addr), "%s", n->o.cluster_addr);
}

/* fsm.mdb from the imported image. */
static int place_state(const struct node *n, const struct snapfile_info *from, struct err *e)
{
	char path[SNAPFILE_PATH_MAX];
	char temp[SNAPFILE_PATH_MAX];
	snapfile_path(n->o.data_dir, from->index, from->term, path);
	snprintf(temp, sizeof(temp), "%s/" STORE_RESTORE_FILE, n->o.data_dir);
	int rc = snapfile_copy(path, from, false, temp, e);
	if (rc == 0)
		rc = snapfile_check_image(path, from, n->o.max_entry_type, e);
	if (rc == 0)
		rc = snapfile_sync(temp, e);
	return rc ? rc : store_put_image(n->o.data_dir, temp, e);
}

static int copy_state(struct fsm *f, const char *temp, struct err *e)
{
	const int fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set_errno(e, errno == ENOSPC ? ERR_FULL : ERR_IO, errno, "could not create %s", temp);
	int rc = store_copy(fsm_store(f), fd, e);
	if (close(fd) != 0 && rc == 0)
		rc = err_set_errno(e, ERR_IO, errno, "could not close %s", temp);
	return rc;
}

/* Gives the state its configuration, and makes the image of it. */
static int configure(const struct node *n, const struct raft_conf *conf, const char *temp, struct err *e)
{
	const struct fsm_options o = { .store = { .dir = n->o.data_dir, .map_bytes = (uint64_t)n->o.map_gib << 30 },
		                       .max_entry_type = n->o.max_entry_type };
	struct buf bytes = { 0 };
	struct fsm *f = NULL;
	int rc = fsm_open(&o, &f, e);
	if (rc)
		return rc;
	raft_conf_encode(conf, &bytes);
	rc = fsm_set_conf(f, bytes.data, bytes.len, e);
	if (rc == 0)
		rc = copy_state(f, temp, e);
	buf_fini(&bytes);
	struct err ignored; /* an earlier failure is the one to report */
	const int closed = fsm_close(f, rc == 0, rc ? &ignored : e);
	return rc ? rc : closed;
}

static int adopt(struct node *n, struct snapfile_info *info, struct err *e)
{
	char temp[SNAPFILE_PATH_MAX];
	node_snapshot_temp(n, temp);
	int rc = take_identity(n, e);
	if (rc == 0)
		rc = begin_log(n, info, e);
	if (rc == 0)
		rc = place_state(n, info, e);
	if (rc)
		return rc;
	only_voter(n, &info->conf);
	info->cluster_id = n->self.cluster_id;
	rc = configure(n, &info->conf, temp, e);
	if (rc == 0)
		rc = snapfile_seal(temp, info, e);
	if (rc == 0)
		rc = snapfile_publish(n->o.data_dir, temp, info, e);
	if (rc)
		unlink(temp); /* what could not be removed is removed at the next start */
	return rc;
}

int node_take_import(struct node *n, struct err *e)
{
	struct snapfile_info *info = mem_zalloc(sizeof(*info));
	int rc = find_import(n, info, e);
	if (rc == ERR_NOTFOUND) {
		rc = 0;
	} else if (rc == 0 && !n->o.bootstrap) {
		rc = err_set(e, ERR_INVALID,
		             "%s was imported and belongs to no cluster yet: start it once with --bootstrap, and let "
		             "the others --join it with empty directories",
		             n->o.data_dir);
	} else if (rc == 0) {
		rc = adopt(n, info, e);
		if (rc == 0)
			log_info("node.import_begun",
			         "cluster=%016" PRIx64 " index=%" PRIu64 " term=%" PRIu64 " digest=%016" PRIx64,
			         n->self.cluster_id, info->index, info->term, info->digest);
	}
	mem_free(info);
	return rc;
}
