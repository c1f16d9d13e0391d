/* Opening, closing and replacing the state machine. */
#include "fsm/fsm.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/fsm_internal.h"

/* A database made by a newer release holds the effects of types this build could not have applied. */
static int check_max_type(const char *what, uint32_t stored, uint32_t known, struct err *e)
{
	if (stored <= known)
		return 0;
	return err_set(e, ERR_VERSION,
	               "%s holds entries of type %" PRIu32 ", this build applies types up to %" PRIu32
	               "; install the cluster's release",
	               what, stored, known);
}

/* Each commit writes the transaction id it has; a file that stands at another was written by something that does not
 * keep the index, so the index says nothing. A file nobody applied to yet has none. */
static int check_last_writer(struct store_txn *txn, const struct fsm_applied *applied, struct err *e)
{
	bool holds = false;
	if (applied->txn_id == store_txn_id(txn))
		return 0;
	int rc = fsm_holds_data(txn, &holds);
	if (rc)
		return fsm_txn_err(txn, rc, e);
	if (!holds && applied->index == 0 && applied->txn_id == 0)
		return 0;
	return err_set(e, ERR_CORRUPT,
	               "the database stands at transaction %" PRIu64 ", its applied index was written by %" PRIu64
	               ": something else wrote to it",
	               store_txn_id(txn), applied->txn_id);
}

static int check_store(struct fsm *f, struct err *e)
{
	struct fsm_applied applied;
	struct store_txn *txn;
	int rc = store_begin_read(f->store, &txn, e);
	if (rc)
		return rc;
	rc = fsm_txn_err(txn, fsm_get_applied(txn, &applied), e);
	if (rc == 0)
		rc = check_max_type("the database", applied.max_entry_type, f->max_entry_type, e);
	if (rc == 0)
		rc = check_last_writer(txn, &applied, e);
	if (rc == 0)
		rc = fsm_txn_err(txn, fsm_state_load(txn, &f->state), e);
	store_abort(txn);
	return rc;
}

/* The end of a write outside of a batch, whose last step said `rc`: the stamp must go on naming the last commit. */
static int end_write(struct fsm *f, struct store_txn *txn, int rc, struct err *e)
{
	if (rc == 0)
		rc = fsm_state_save(txn, &f->state);
	if (rc) {
		fsm_txn_err(txn, rc, e);
		store_abort(txn);
		return rc;
	}
	return store_commit(txn, e);
}

/* Databases that are missing are made. */
static int make_complete(struct fsm *f, struct err *e)
{
	struct store_txn *txn;
	if (store_is_complete(f->store))
		return 0;
	int rc = store_begin_write(f->store, &txn, e);
	if (rc)
		return rc;
	rc = store_create_missing(txn);
	return end_write(f, txn, rc, e);
}

static void show_state(struct fsm *f)
{
	for (int d = 0; d < FSM_DOMAIN_COUNT; d++)
		atomic_store(&f->domain[d], f->state.domain[d]);
	for (int s = 0; s < FSM_SETTING_COUNT; s++)
		atomic_store(&f->settings[s], f->state.settings[s]);
	atomic_store(&f->term, f->state.term);
	atomic_store(&f->applied, f->state.applied);
}

static int load(struct fsm *f, struct err *e)
{
	int rc = check_store(f, e);
	return rc ? rc : make_complete(f, e);
}

static struct fsm *fsm_new(const struct fsm_options *o)
{
	struct fsm *f = mem_zalloc(sizeof(*f));
	f->max_entry_type = o->max_entry_type && o->max_entry_type < COMMAND_MAX ? o->max_entry_type : COMMAND_MAX;
	int rc = pthread_mutex_init(&f->readers_lock, NULL);
	assert(rc == 0);
	rc = pthread_mutex_init(&f->members_lock, NULL);
	assert(rc == 0);
	(void)rc;
	return f;
}

int fsm_close(struct fsm *f, bool clean, struct err *e)
{
	if (!f)
		return 0;
	assert(!f->readers);
	int rc = store_close(f->store, clean, e);
	members_cache_clear(f);
	changes_free(f->changes);
	buf_fini(&f->work.notes);
	buf_fini(&f->work.sealed);
	arena_fini(&f->arena);
	pthread_mutex_destroy(&f->readers_lock);
	pthread_mutex_destroy(&f->members_lock);
	mem_free(f);
	return rc;
}

int fsm_open(const struct fsm_options *o, struct fsm **out, struct err *e)
{
	struct fsm *f = fsm_new(o);
	int rc = store_open(&o->store, &f->store, e);
	if (rc == 0)
		rc = load(f, e);
	if (rc) {
		(void)fsm_close(f, false, NULL); /* nothing was committed that a mark would speak of */
		return rc;
	}
	assert(o->start_index == 0 || o->store.scratch);
	if (f->state.applied < o->start_index)
		f->state.applied = o->start_index;
	f->changes = changes_new(o->changes_bytes, f->state.applied);
	show_state(f);
	*out = f;
	return 0;
}

struct store *fsm_store(struct fsm *f)
{
	return f->store;
}

raft_index fsm_applied_index(const struct fsm *f)
{
	return atomic_load(&f->applied);
}

raft_term fsm_applied_term(const struct fsm *f)
{
	return atomic_load(&f->term);
}

/* ---- images ---- */

static int fill_image(struct store_txn *txn, const char *path, const struct fsm_applied *applied, struct fsm_image *out,
                      struct err *e)
{
	struct fsm_digest digest;
	if (applied->conf.len > sizeof(out->conf))
		return err_set(e, ERR_CORRUPT, "%s: a configuration of %zu bytes", path, applied->conf.len);
	int rc = fsm_txn_err(txn, fsm_get_digest(txn, &digest), e);
	if (rc)
		return rc;
	*out = (struct fsm_image){
		.index = applied->index,
		.term = applied->term,
		.max_entry_type = applied->max_entry_type,
		.conf_index = applied->conf_index,
		.conf_len = applied->conf.len,
		.digest = digest.total,
	};
	if (applied->conf.len)
		memcpy(out->conf, applied->conf.p, applied->conf.len);
	return 0;
}

/* `holds` NULL: a finished image, which somebody has applied to. */
static int read_image(struct store *image, const char *path, uint32_t max_entry_type, struct fsm_image *out,
                      bool *holds, struct err *e)
{
	struct fsm_applied applied;
	struct store_txn *txn;
	int rc = store_begin_read(image, &txn, e);
	if (rc)
		return rc;
	rc = fsm_txn_err(txn, fsm_get_applied(txn, &applied), e);
	if (rc == 0)
		rc = check_max_type(path, applied.max_entry_type, max_entry_type ? max_entry_type : COMMAND_MAX, e);
	if (rc == 0 && !holds && applied.txn_id != store_txn_id(txn))
		rc = err_set(e, ERR_CORRUPT, "%s: not an image of a state machine, or written to by something else",
		             path);
	if (rc == 0 && holds)
		rc = check_last_writer(txn, &applied, e);
	if (rc == 0 && holds)
		rc = fsm_txn_err(txn, fsm_holds_data(txn, holds), e);
	if (rc == 0)
		rc = fill_image(txn, path, &applied, out, e);
	store_abort(txn);
	return rc;
}

static int look(const char *path, uint32_t max_entry_type, struct fsm_image *out, bool *holds, struct err *e)
{
	struct store *image;
	int rc = store_open_image(path, &image, e);
	if (rc)
		return rc;
	rc = read_image(image, path, max_entry_type, out, holds, e);
	(void)store_close(image, false, NULL); /* read-only: nothing to lose */
	return rc;
}

int fsm_read_image(const char *path, uint32_t max_entry_type, struct fsm_image *out, struct err *e)
{
	return look(path, max_entry_type, out, NULL, e);
}

int fsm_look(const char *path, uint32_t max_entry_type, struct fsm_image *out, bool *holds, struct err *e)
{
	return look(path, max_entry_type, out, holds, e);
}

int fsm_set_conf(struct fsm *f, const void *bytes, size_t len, struct err *e)
{
	struct store_txn *txn;
	int rc = store_begin_write(f->store, &txn, e);
	if (rc)
		return rc;
	rc = fsm_save_conf(txn, f->state.applied, bytes, len);
	return end_write(f, txn, rc, e);
}

int fsm_mend(struct fsm *f, struct err *e)
{
	const raft_index before = f->state.applied;
	if (!store_is_broken(f->store))
		return 0;
	int rc = readers_take_all(f, e);
	if (rc)
		return rc;
	rc = store_reopen(f->store, e);
	if (rc == 0)
		rc = load(f, e);
	if (rc == 0) {
		members_cache_clear(f);
		if (f->state.applied != before) /* the commit had come through, and nobody noted its changes */
			changes_restart(f->changes, f->state.applied);
		atomic_fetch_add(&f->generation, 1);
		show_state(f);
	}
	readers_give_back(f);
	return rc;
}

int fsm_replace(struct fsm *f, const char *path, struct err *e)
{
	struct fsm_image image;
	int rc = fsm_read_image(path, f->max_entry_type, &image, e);
	if (rc)
		return rc;
	rc = readers_take_all(f, e);
	if (rc)
		return rc;
	rc = store_replace(f->store, path, e);
	const bool is_other = rc == 0;
	if (rc == 0)
		rc = load(f, e);
	if (rc == 0) {
		members_cache_clear(f);
		changes_restart(f->changes, f->state.applied);
		atomic_fetch_add(&f->generation, 1);
		show_state(f);
	} else if (is_other || !store_is_open(f->store)) {
		atomic_store(&f->closed, ERR_CLOSED);
	}
	readers_give_back(f);
	return rc;
}
