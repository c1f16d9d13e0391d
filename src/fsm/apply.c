/* From committed entries to effects.
 *
 * Good path: begin a write transaction; for each entry a child transaction, its commands in order, commit the child;
 * write where the store now stands; commit; publish the changes, the domains' versions, the applied index, in that
 * order.
 *
 * Ways off it:
 *   refused      the child is dropped and with it every trace but the index, and the count of the seals that the entry
 *                carries (remotes.c); the batch goes on
 *   undecodable  the same, with no command run
 *   unknown type the batch ends before the entry and is committed; the caller hears ERR_VERSION
 *   failure      the whole batch is dropped, in memory too; the caller may give it again
 * Work in progress lives in f->work; f->state moves only when a commit has answered.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdalign.h>
#include <string.h>

#include "base/fault.h"
#include "base/mem.h"
#include "fsm/fsm_internal.h"

const char *fsm_refusal_word(int refusal)
{
	switch (refusal) { /* so that a number that is used twice does not compile */
	case FSM_OK: return "";
#define REFUSAL_WORD(id, number, word)                                                                                 \
	case number: return word;
		FSM_REFUSAL_MAP(REFUSAL_WORD)
#undef REFUSAL_WORD
	default: return "?";
	}
}

/* The sentence of a failure: a command's own, else the store's. */
static void failed(const struct apply *a, int rc, struct err *e)
{
	if (a->err.code != rc)
		fsm_txn_err(a->txn, rc, e);
	else if (e)
		*e = a->err;
}

/* ---- one command ---- */

/* Text with a NUL in it cannot be read back from a stored record. No proposer sends it; whoever does is refused. */
static void see_text(void *arg, struct str s)
{
	bool *clean = arg;
	if (s.len && memchr(s.p, '\0', s.len))
		*clean = false;
}

static void see_count(void *arg, size_t count)
{
	(void)arg;
	(void)count;
}

static void see_end(void *arg)
{
	(void)arg;
}

static void see_bool(void *arg, bool v)
{
	(void)arg;
	(void)v;
}

static void see_i64(void *arg, int64_t v)
{
	(void)arg;
	(void)v;
}

static void see_u64(void *arg, uint64_t v)
{
	(void)arg;
	(void)v;
}

static void see_bytes(void *arg, struct str s)
{
	(void)arg;
	(void)s;
}

static bool has_clean_text(const struct record_type *t, const void *command)
{
	static const struct record_visitor v = {
		.begin_object = see_count,
		.end_object = see_end,
		.begin_array = see_count,
		.end_array = see_end,
		.key = see_text,
		.put_str = see_text,
		.put_bytes = see_bytes,
		.put_json = see_text,
		.put_bool = see_bool,
		.put_i64 = see_i64,
		.put_u64 = see_u64,
		.put_null = see_end,
	};
	bool clean = true;
	record_visit(t, command, 0, &v, &clean);
	return clean;
}

int fsm_run_command(struct apply *a, unsigned type, const void *command)
{
	const struct command_info *info = command_info(type);
	fsm_command_fn *run = fsm_command_of(type);
	assert(info);
	if (!run)
		return FSM_UNSUPPORTED;
	return has_clean_text(info->payload, command) ? run(a, command) : FSM_INVALID;
}

int fsm_judge(struct store_txn *txn, unsigned type, const void *command, uint64_t time_ms, struct arena *a,
              struct fsm_hint *hint, struct err *e)
{
	struct fsm_hint unused;
	struct apply ctx = { .txn = txn, .arena = a, .time_ms = time_ms, .hint = hint ? hint : &unused };
	ctx.hint->name[0] = '\0';
	int rc = fsm_run_command(&ctx, type, command);
	if (rc < 0)
		failed(&ctx, rc, e);
	fsm_apply_fini(&ctx);
	return rc;
}

/* ---- one entry ---- */

static int unknown_type(const struct fsm *f, const struct entry *entry, unsigned type, struct err *e)
{
	return err_set(e, ERR_VERSION,
	               "entry %" PRIu64 " is of entry type %u, this build applies types up to %" PRIu32
	               ": install the cluster's release",
	               entry->index, type, f->max_entry_type);
}

/* All of them are looked at before any is run: an entry is applied as a whole, or not by this build. */
static int check_types(const struct fsm *f, const struct entry *entry, const struct entry_view *view, struct err *e)
{
	const uint8_t *at = NULL;
	struct entry_command c;
	while (entry_next(view, &at, &c))
		if (!command_info(c.type) || c.type > f->max_entry_type)
			return unknown_type(f, entry, c.type, e);
	return 0;
}

static int run_commands(struct apply *a, const struct entry_view *view, uint32_t *position)
{
	alignas(16) uint8_t payload[COMMAND_PAYLOAD_SIZE];
	const uint8_t *at = NULL;
	struct entry_command c;
	for (uint32_t i = 0; entry_next(view, &at, &c); i++) {
		*position = i;
		struct err why;
		int rc = entry_command_read(&c, a->arena, payload, &why);
		rc = rc ? FSM_UNDECODABLE : fsm_run_command(a, c.type, payload);
		if (rc)
			return rc;
	}
	return 0;
}

static int apply_command(struct fsm *f, struct apply *a, const struct entry *entry, struct fsm_result *result,
                         struct err *e)
{
	struct entry_view view;
	int rc = entry_decode(entry->data, entry->len, &view, e);
	if (rc == ERR_VERSION)
		return err_set(e, ERR_VERSION,
		               "entry %" PRIu64
		               " is in an envelope that this build does not read: install the cluster's release",
		               entry->index);
	if (rc) {
		result->refusal = FSM_UNDECODABLE;
		return 0;
	}
	rc = check_types(f, entry, &view, e);
	if (rc)
		return rc;
	struct fsm_work *w = &f->work;
	if (view.max_type > w->state.max_entry_type)
		w->state.max_entry_type = view.max_type;
	a->time_ms = view.header.time_ms;

	const struct fsm_state before = w->state;
	const size_t noted = w->notes.len;
	rc = store_begin_child(a->txn);
	if (rc)
		return rc;
	rc = view.header.has_idem ? idem_judge(a, &view.header) : 0;
	if (rc == 0)
		rc = run_commands(a, &view, &result->command);
	if (rc == 0 && view.header.has_idem)
		rc = idem_keep(a, &view.header);
	if (rc == 0)
		rc = notes_seal(a, noted);
	if (rc < 0)
		return rc; /* the whole transaction goes, the child with it */
	if (rc > 0 && !SIM_FAULT("refusal-leaves-effects")) {
		store_abort_child(a->txn);
		w->state = before;
		w->notes.len = noted;
		result->refusal = rc;
		return remote_count_refused(a);
	}
	result->refusal = rc;
	result->command = rc ? result->command : 0;
	return store_commit_child(a->txn);
}

static int apply_conf(struct apply *a, const struct entry *entry)
{
	struct raft_conf before = { 0 }, now = { 0 };
	struct fsm_applied at;
	int rc = fsm_get_applied(a->txn, &at);
	if (rc)
		return rc;
	if (at.conf.len == 0 || raft_conf_decode(at.conf.p, at.conf.len, &before, NULL) != 0)
		before.count = 0;
	rc = fsm_save_conf(a->txn, entry->index, entry->data, entry->len);
	if (rc == 0) {
		fsm_touch(a, FSM_DOMAIN_SERVERS);
		if (raft_conf_decode(entry->data, entry->len, &now, NULL) == 0)
			notes_servers(a, &before, &now);
	}
	if (rc == ERR_CORRUPT)
		return err_set(&a->err, rc, "entry %" PRIu64 ": a configuration of %" PRIu32 " bytes", entry->index,
		               entry->len);
	return rc;
}

static int apply_entry(struct fsm *f, struct store_txn *txn, const struct entry *entry, struct fsm_result *result,
                       struct err *e)
{
	struct fsm_hint hint;
	struct apply a = { .txn = txn, .arena = &f->arena, .index = entry->index, .hint = &hint, .work = &f->work };
	struct fsm_state *s = &f->work.state;
	int rc = 0;
	*result = (struct fsm_result){ 0 };
	arena_reset(&f->arena);
	e->code = 0;
	if (entry->index != s->applied + 1)
		return err_set(e, ERR_CORRUPT, "entry %" PRIu64 " was handed over, entry %" PRIu64 " is the next",
		               entry->index, s->applied + 1);
	switch (entry->kind) {
	case ENTRY_NOOP: break;
	case ENTRY_CONFIG: rc = apply_conf(&a, entry); break;
	case ENTRY_COMMAND: rc = apply_command(f, &a, entry, result, e); break;
	default:
		rc = err_set(e, ERR_VERSION, "entry %" PRIu64 " is of kind %u, which this build does not know",
		             entry->index, entry->kind);
	}
	if (rc && e->code != rc)
		failed(&a, rc, e);
	fsm_apply_fini(&a);
	if (rc)
		return rc;
	s->applied = entry->index;
	s->term = entry->term;
	return 0;
}

/* ---- one batch ---- */

static void publish(struct fsm *f)
{
	f->state = f->work.state;
	changes_publish(f->changes, &f->work.notes);
	for (int d = 0; d < FSM_DOMAIN_COUNT; d++)
		atomic_store(&f->domain[d], f->state.domain[d]);
	for (int s = 0; s < FSM_SETTING_COUNT; s++)
		atomic_store(&f->settings[s], f->state.settings[s]);
	atomic_store(&f->term, f->state.term);
	atomic_store(&f->applied, f->state.applied);
}

/* The fault that index and effects in one transaction are there to prevent: the index goes ahead in its own. */
static int commit_index_ahead(struct fsm *f, raft_index index, struct err *e)
{
	struct fsm_state ahead = f->state;
	struct store_txn *txn;
	ahead.applied = index;
	int rc = store_begin_write(f->store, &txn, e);
	if (rc)
		return rc;
	rc = fsm_state_save(txn, &ahead);
	if (rc) {
		store_abort(txn);
		return rc;
	}
	return store_commit(txn, e);
}

static int apply_batch(struct fsm *f, const struct entry *entries, size_t n, struct fsm_result *results, struct err *e)
{
	struct store_txn *txn;
	int stopped = 0, rc;
	size_t done = 0;
	if (SIM_FAULT("applied-ahead-of-effects")) {
		rc = commit_index_ahead(f, entries[n - 1].index, e);
		if (rc)
			return rc;
	}
	rc = store_begin_write(f->store, &txn, e);
	if (rc)
		return rc;
	f->work.state = f->state;
	buf_clear(&f->work.notes);
	for (; done < n; done++) {
		rc = apply_entry(f, txn, &entries[done], &results[done], e);
		if (rc)
			break;
	}
	if (rc == ERR_VERSION && done > 0) {
		stopped = rc; /* what stands before the entry is committed all the same */
		rc = 0;
	}
	if (rc) {
		store_abort(txn);
		return rc;
	}
	rc = fsm_state_save(txn, &f->work.state);
	if (rc) {
		fsm_txn_err(txn, rc, e);
		store_abort(txn);
		return rc;
	}
	struct err why;
	rc = store_commit(txn, &why);
	if (rc) {
		*e = why;
		return rc;
	}
	publish(f);
	return stopped;
}

static size_t batch_of(const struct entry *entries, size_t n)
{
	size_t bytes = 0, i = 0;
	while (i < n && i < FSM_BATCH_ENTRIES_MAX && (i == 0 || bytes + entries[i].len <= FSM_BATCH_BYTES_MAX))
		bytes += entries[i++].len;
	return i;
}

int fsm_apply(struct fsm *f, const struct entry *entries, size_t n, struct fsm_result *results, struct err *e)
{
	struct err unused;
	size_t i = 0;
	int closed = atomic_load(&f->closed);
	e = e ? e : &unused;
	if (closed)
		return err_set(e, closed, "no database is open");
	for (; i < n && entries[i].index <= f->state.applied; i++)
		results[i] = (struct fsm_result){ 0 };
	while (i < n) {
		const size_t take = batch_of(entries + i, n - i);
		int rc = apply_batch(f, entries + i, take, results + i, e);
		if (rc)
			return rc;
		i += take;
	}
	return 0;
}
