/* Readers, and how the apply thread takes their transactions away.
 *
 *   IDLE --fsm_read--> IN_USE --fsm_read_end--> IDLE
 *   IDLE --readers_take_all--> TAKEN --readers_give_back--> IDLE
 *
 * A transaction that is reset still holds a slot of the file's reader table, so the file cannot be closed under it.
 * Since transactions are not tied to a thread, the apply thread ends them itself whenever their readers are between two
 * turns; nobody sleeping need be woken. The state is the hand-over: acquire when taking, release when giving.
 */
#include "fsm/reader.h"

#include <assert.h>
#include <time.h>

#include "base/clock.h"
#include "fsm/fsm_internal.h"

enum { IDLE, IN_USE, TAKEN };

void fsm_reader_init(struct fsm_reader *r, struct fsm *f)
{
	*r = (struct fsm_reader){ .fsm = f };
	pthread_mutex_lock(&f->readers_lock);
	r->next = f->readers;
	f->readers = r;
	pthread_mutex_unlock(&f->readers_lock);
}

void fsm_reader_fini(struct fsm_reader *r)
{
	struct fsm *f = r->fsm;
	if (!f)
		return;
	fsm_read_end(r);
	pthread_mutex_lock(&f->readers_lock); /* not while another file is put in place */
	struct fsm_reader **at = &f->readers;
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	pthread_mutex_unlock(&f->readers_lock);
	store_abort(r->txn);
	fsm_members_unref(r->members);
	*r = (struct fsm_reader){ 0 };
}

/* Drops what belongs to the file that was there before; only r's thread or the one that has taken it. */
static void let_go(struct fsm_reader *r)
{
	store_abort(r->txn);
	r->txn = NULL;
	fsm_members_unref(r->members);
	r->members = NULL;
}

static int renew(struct fsm_reader *r, struct err *e)
{
	int rc;
	if (r->txn)
		rc = store_renew_read(r->txn, e);
	else
		rc = store_begin_read(r->fsm->store, &r->txn, e);
	if (rc)
		return rc;
	rc = fsm_get_index(r->txn, &r->index);
	if (rc)
		return fsm_txn_err(r->txn, rc, e);
	r->generation = atomic_load(&r->fsm->generation);
	atomic_store(&r->since_ms, clock_mono_ms());
	return 0;
}

int fsm_read(struct fsm_reader *r, struct store_txn **txn, struct err *e)
{
	int rc = 0;
	if (atomic_load_explicit(&r->state, memory_order_relaxed) == IN_USE) {
		if (atomic_load(&r->fsm->applied) > r->index) {
			store_reset_read(r->txn);
			rc = renew(r, e);
		}
	} else {
		uint32_t idle = IDLE;
		if (!atomic_compare_exchange_strong(&r->state, &idle, IN_USE))
			return err_set(e, ERR_BUSY, "another database is being put in place");
		if (atomic_load(&r->fsm->closed))
			rc = err_set(e, ERR_CLOSED, "no database is open");
		else
			rc = renew(r, e);
	}
	if (rc) {
		let_go(r);
		fsm_read_end(r);
		return rc;
	}
	*txn = r->txn;
	return 0;
}

void fsm_read_end(struct fsm_reader *r)
{
	if (atomic_load_explicit(&r->state, memory_order_relaxed) != IN_USE)
		return;
	if (r->txn)
		store_reset_read(r->txn);
	atomic_store(&r->since_ms, 0);
	atomic_store(&r->state, IDLE);
}

void fsm_read_pause(struct fsm_reader *r)
{
	assert(atomic_load_explicit(&r->state, memory_order_relaxed) == IN_USE);
	atomic_store(&r->state, IDLE);
}

int fsm_read_resume(struct fsm_reader *r, struct store_txn **txn)
{
	uint32_t idle = IDLE;
	if (!atomic_compare_exchange_strong(&r->state, &idle, IN_USE))
		return ERR_BUSY;
	if (!r->txn) {
		fsm_read_end(r);
		return ERR_BUSY;
	}
	*txn = r->txn;
	return 0;
}

uint64_t fsm_generation(const struct fsm *f)
{
	return atomic_load(&f->generation);
}

uint64_t fsm_oldest_read_ms(struct fsm *f, uint64_t now_ms)
{
	uint64_t since = store_copy_since_ms(f->store);
	pthread_mutex_lock(&f->readers_lock);
	for (struct fsm_reader *r = f->readers; r; r = r->next) {
		const uint64_t s = atomic_load(&r->since_ms);
		if (s && (!since || s < since))
			since = s;
	}
	pthread_mutex_unlock(&f->readers_lock);
	return since && now_ms > since ? now_ms - since : 0;
}

/* ---- the apply thread's side ---- */

#define TAKE_TRIES 2000 /* of a millisecond each; a turn is far shorter */

static bool take(struct fsm_reader *r)
{
	for (int i = 0; i < TAKE_TRIES; i++) {
		uint32_t idle = IDLE;
		if (atomic_compare_exchange_strong(&r->state, &idle, TAKEN))
			return true;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return false;
}

/* Leaves readers_lock held until readers_give_back, so that no reader comes or goes meanwhile. */
int readers_take_all(struct fsm *f, struct err *e)
{
	pthread_mutex_lock(&f->readers_lock);
	for (struct fsm_reader *r = f->readers; r; r = r->next) {
		if (!take(r)) {
			readers_give_back(f);
			return err_set(e, ERR_BUSY, "a reader did not end its turn within 2 s");
		}
		let_go(r);
	}
	return 0;
}

void readers_give_back(struct fsm *f)
{
	for (struct fsm_reader *r = f->readers; r; r = r->next) {
		uint32_t taken = TAKEN;
		(void)atomic_compare_exchange_strong(&r->state, &taken, IDLE); /* others were never taken */
	}
	pthread_mutex_unlock(&f->readers_lock);
}
