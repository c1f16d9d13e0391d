#include "http/watch_internal.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "model/json.h"

#define PUSH_BYTES (256u << 10) /* of records, given on before sockets are looked at */
#define FILL_BYTES (64u << 10)  /* what a stream that reads for itself gets at once */
#define STALE_LOOK_MS 1000

const char *const http_watch_end_words[HTTP_WATCH_ENDS] = {
#define END_WORD(id, word) word,
	HTTP_WATCH_END_MAP(END_WORD)
#undef END_WORD
};

static const char *const end_texts[HTTP_WATCH_ENDS] = {
	[HTTP_WATCH_END_CLIENT] = "",
	[HTTP_WATCH_END_COMPACTED] =
	    "the changes that come next are no longer kept here; list again, or use initial=true",
	[HTTP_WATCH_END_SLOW] = "more than 4 MiB were not read; go on from the last index, and read faster",
	[HTTP_WATCH_END_STALE] = "this node has had no contact with a leader for 5 s; go on at another node",
	[HTTP_WATCH_END_FORBIDDEN] = "the right to see this was taken away",
	[HTTP_WATCH_END_STOPPED] = "this node stopped applying; go on at another node",
	[HTTP_WATCH_END_NOT_READY] = "this node goes down, or cannot read its replica; go on at another node",
};

/* ---- ends ---- */

/* While lists are walked nobody leaves them: see bury. */
static void doom(struct http_watch *w, enum http_watch_end why)
{
	if (w->is_doomed)
		return;
	w->is_doomed = true;
	w->doom = why;
	watch_link(&watch_room(w)->dirty, w, LINK_DIRTY);
}

static void leave(struct http_watch *w, enum http_watch_end why)
{
	struct http_thread *t = w->conn->thread;

	if (w->state == ENDED)
		return;
	watch_part(w);
	if (w->state == STATE)
		t->watch.states--;
	w->state = ENDED;
	t->watch.count--;
	svc_state_free(w->given);
	w->given = NULL;
	fsm_changes_leave(&w->pos);
	prom_count(&t->stats.watch_ended[why], 1);
	atomic_store_explicit(&t->stats.watchers, t->watch.count, memory_order_relaxed);
	if (t->watch.count == 0) {
		fsm_changes_leave(&t->watch.pos);
		svc_follow(t->svc, 0);
	}
}

void http_watch_end(struct http_watch *w, enum http_watch_end why)
{
	struct http_conn *c = w->conn;
	struct buf *line = &c->thread->watch.line;
	struct json_writer j = { .out = line };
	size_t before;

	if (w->state == ENDED)
		return;
	buf_clear(line);
	json_begin_object(&j);
	json_field_cstr(&j, "op", "error");
	json_field_cstr(&j, "code", http_watch_end_words[why]);
	json_field_cstr(&j, "error", end_texts[why]);
	json_field_u64(&j, "index", watch_given_index(w));
	w->line_open = false;
	watch_put_line(w, watch_text(line), watch_given_index(w), false);
	before = c->out.len;
	if (w->is_chunked)
		buf_puts(&c->out, "0\r\n\r\n");
	http_conn_wrote(c, c->out.len - before);
	leave(w, why);
	http_conn_end_stream(c); /* frees w */
}

void http_watch_free(struct http_watch *w)
{
	if (!w)
		return;
	leave(w, HTTP_WATCH_END_CLIENT);
	mem_free(w);
}

void http_watch_room_fini(struct http_watch_room *r)
{
	assert(r->count == 0);
	fsm_changes_leave(&r->pos);
	buf_fini(&r->line);
}

/* ---- giving on to those that are live ---- */

static void offer(struct http_watch *w, struct str line, raft_index index)
{
	if (w->state == LIVE) {
		watch_put_line(w, line, index, false);
		return;
	}
	w->owed += line.len + LINE_OVERHEAD;
	if (w->owed + http_conn_unsent(w->conn) > HTTP_WATCH_SLOW)
		doom(w, HTTP_WATCH_END_SLOW);
}

static void offer_list(struct http_watch_room *r, struct http_watch *first, size_t which, const struct fsm_change *c)
{
	struct str line = { NULL, 0 };

	for (struct http_watch *w = first; w; w = w->links[which].next) {
		/* Two members may share a slot of the index: a stream gets the line once. */
		if (w->is_doomed || w->offered == r->change ||
		    !svc_watch_passes(&w->filter, c->domain, c->key, c->members))
			continue;
		w->offered = r->change;
		if (!line.p)
			line = watch_change_line(&r->line, c);
		offer(w, line, c->index);
	}
}

static void offer_change(struct http_watch_room *r, const struct fsm_change *c)
{
	if (c->record.len == 0)
		return;
	r->change++;
	offer_list(r, r->domains[c->domain].first, LINK_DOMAIN + c->domain, c);
	for (size_t at = 0; at < c->members.len; at += strlen(c->members.p + at) + 1)
		offer_list(r, watch_member_list(r, str_of(c->members.p + at))->first, LINK_MEMBER, c);
}

static void doom_list(struct http_watch_list *l, size_t which, enum http_watch_end why)
{
	for (struct http_watch *w = l->first; w; w = w->links[which].next)
		doom(w, why);
}

/* Every stream is in exactly one of these lists. */
static void doom_all(struct http_watch_room *r, enum http_watch_end why)
{
	doom_list(&r->queued, LINK_READING, why);
	doom_list(&r->reading, LINK_READING, why);
	doom_list(&r->progress, LINK_PROGRESS, why);
}

/* Whole indexes, until so many bytes were looked at. False: that was not all. */
static bool push(struct http_thread *t)
{
	struct http_watch_room *r = &t->watch;
	/* Whoever sees this index finds its changes in the list: so at the list's end all up to it were given. */
	const raft_index applied = svc_applied_index(t->svc);
	struct fsm_change c;
	size_t bytes = 0;
	int rc;

	while ((rc = fsm_changes_next(node_fsm(t->server->node), &r->pos, &c)) == 0) {
		offer_change(r, &c);
		bytes += c.record.len;
		if (c.more)
			continue;
		r->index = c.index;
		if (bytes > PUSH_BYTES)
			return false;
	}
	if (rc == ERR_TIMEOUT) {
		if (applied > r->index)
			r->index = applied;
		return true;
	}
	doom_all(r, HTTP_WATCH_END_COMPACTED);
	fsm_changes_end(node_fsm(t->server->node), &r->pos);
	return true;
}

/* ---- streams that read for themselves ---- */

static void become_live(struct http_watch *w)
{
	struct http_watch_room *r = watch_room(w);

	fsm_changes_leave(&w->pos);
	watch_unlink(&r->reading, w, LINK_READING);
	w->state = LIVE;
	w->owed = 0;
	w->line_open = false;
	watch_join(w);
	watch_put_progress(w);
	w->progress_ms = clock_mono_ms() + HTTP_WATCH_PROGRESS_MS;
	watch_link(&r->progress, w, LINK_PROGRESS);
}

static void become_behind(struct http_watch *w)
{
	struct http_watch_room *r = watch_room(w);

	if (w->state == LIVE) {
		w->at = r->index;
		fsm_changes_copy(&r->pos, &w->pos);
		watch_unlink(&r->progress, w, LINK_PROGRESS);
	}
	w->state = BEHIND;
	w->owed = 0;
	watch_join(w);
	watch_link(&r->reading, w, LINK_READING);
}

/* The list is read no further here than it was given to those that are live: there the stream is one of them. */
static void read_on(struct http_watch *w)
{
	struct http_watch_room *r = watch_room(w);
	struct fsm *f = node_fsm(w->conn->thread->server->node);
	struct fsm_change_pos before = { 0 };
	const size_t from = w->conn->out.len;
	struct fsm_change c = { 0 };
	size_t looked = 0;
	int rc;

	for (;;) {
		fsm_changes_copy(&w->pos, &before);
		rc = fsm_changes_next(f, &w->pos, &c);
		if (rc != 0 || c.index > r->index)
			break;
		looked += 64;
		if (c.record.len && svc_watch_passes(&w->filter, c.domain, c.key, c.members)) {
			const struct str line = watch_change_line(&r->line, &c);
			const uint64_t cost = line.len + LINE_OVERHEAD;

			watch_put_line(w, line, c.index, false);
			w->owed = w->owed > cost ? w->owed - cost : 0;
		}
		if (!c.more)
			w->at = c.index;
		if (!c.more && (w->conn->out.len - from > FILL_BYTES || looked > FILL_BYTES)) {
			r->fresh = true;
			break;
		}
	}
	if (rc == ERR_NOTFOUND)
		doom(w, HTTP_WATCH_END_COMPACTED);
	else if ((rc == ERR_TIMEOUT || c.index > r->index) && w->at > r->index)
		r->fresh =
		    true; /* it has more than those that are live were given yet, and would be given that again */
	else if (rc == ERR_TIMEOUT || c.index > r->index)
		become_live(w);
	fsm_changes_leave(&before);
}

static void on_state_line(void *arg, enum fsm_domain domain, struct str key, struct str record)
{
	struct http_watch *w = arg;
	const raft_index index = svc_state_index(w->given);

	w->line_open = false; /* they all have their `more`: the synced line is the last of the index */
	watch_put_line(w, watch_make_line(&watch_room(w)->line, "put", index, domain, key, record), index, true);
}

static void give_state(struct http_watch *w)
{
	struct http_watch_room *r = watch_room(w);
	const int rc = svc_state_next(w->given, FILL_BYTES, on_state_line, w);

	r->fresh = true;
	if (rc == 0)
		return;
	if (rc != ERR_NOTFOUND) {
		doom(w, rc == ERR_BUSY      ? HTTP_WATCH_END_COMPACTED
		        : rc == ERR_TIMEOUT ? HTTP_WATCH_END_SLOW
		                            : HTTP_WATCH_END_NOT_READY);
		return;
	}
	w->at = svc_state_index(w->given);
	watch_put_synced(w, w->at);
	svc_state_free(w->given);
	w->given = NULL;
	r->states--;
	become_behind(w);
}

static void begin_state(struct http_watch *w)
{
	struct http_thread *t = w->conn->thread;

	w->given = svc_state_new(t->svc, &w->filter);
	if (!w->given || fsm_changes_seek(node_fsm(t->server->node), svc_state_index(w->given), &w->pos) != 0) {
		doom(w, HTTP_WATCH_END_NOT_READY);
		return;
	}
	watch_unlink(&t->watch.queued, w, LINK_READING);
	watch_link(&t->watch.reading, w, LINK_READING);
	w->state = STATE;
	t->watch.states++;
	give_state(w);
}

bool http_watch_fill(struct http_watch *w)
{
	const uint64_t before = w->conn->written;

	if (w->is_doomed || (w->state != STATE && w->state != BEHIND))
		return false;
	if (w->state == STATE)
		give_state(w);
	else
		read_on(w);
	return w->conn->written > before;
}

/* ---- beginning ---- */

static bool has_word(struct str field, const char *word)
{
	const size_t n = strlen(word);

	for (size_t i = 0; i + n <= field.len; i++) {
		if (strncasecmp(field.p + i, word, n) == 0)
			return true;
	}
	return false;
}

static bool wants_sse(const struct http_conn *c)
{
	return has_word(c->call.fields[HTTP_FIELD_ACCEPT], "text/event-stream");
}

bool http_watch_is_begun(const struct http_conn *c, const struct svc_answer *a)
{
	return c->call.rq.op == SVC_WATCH && a->status == 200 && !c->call.is_head && c->call.match.route;
}

const char *http_watch_content_type(const struct http_conn *c)
{
	return wants_sse(c) ? "text/event-stream" : "application/x-ndjson";
}

/* An eighth of the connections is for those who ask and go. */
bool http_watch_has_room(const struct http_thread *t, struct svc_answer *a)
{
	const size_t max = t->server->connections_per_thread;

	if (t->watch.count < max - max / 8)
		return true;
	svc_fail(a, 503, "overloaded", NULL, "this node has as many watchers as it takes; go to another node");
	return false;
}

static void open_room(struct http_thread *t)
{
	struct http_watch_room *r = &t->watch;

	if (r->pos.chunk)
		return;
	r->users = fsm_domain_version(node_fsm(t->server->node), FSM_DOMAIN_USERS);
	fsm_changes_end(node_fsm(t->server->node), &r->pos);
	r->index = svc_applied_index(t->svc);
	/* What was applied between the two stands behind the place and is not above the index: given once more to
	 * nobody, since nobody is live yet. */
	(void)push(t);
}

void http_watch_begin(struct http_conn *c)
{
	struct http_thread *t = c->thread;
	const struct svc_request *rq = &c->call.rq;
	struct http_watch *w = mem_zalloc(sizeof(*w));

	w->conn = c;
	w->is_sse = wants_sse(c);
	w->is_chunked = c->scan.minor > 0;
	w->state = QUEUED;
	svc_watch_read(t->svc, rq, &w->filter);
	c->watch = w;
	open_room(t);
	t->watch.count++;
	atomic_store_explicit(&t->stats.watchers, t->watch.count, memory_order_relaxed);
	/* Everybody is where the list ends, so "from now" is now, and no `since` lies ahead. */
	while (!push(t))
		;
	t->watch.fresh = true;
	if (rq->initial) {
		watch_link(&t->watch.queued, w, LINK_READING);
	} else if (!rq->has_since) {
		become_live(w);
	} else if (fsm_changes_seek(node_fsm(t->server->node), rq->since, &w->pos) == 0) {
		w->at = rq->since;
		become_behind(w);
	} else {
		watch_link(&t->watch.queued, w, LINK_READING);
		doom(w, HTTP_WATCH_END_COMPACTED);
	}
}

/* ---- the turn ---- */

static void look_at_users(struct http_thread *t, struct http_watch_list *l, size_t which)
{
	for (struct http_watch *w = l->first; w; w = w->links[which].next) {
		if (!svc_watch_may_go_on(t->svc, &w->conn->call.rq.principal, &w->filter))
			doom(w, HTTP_WATCH_END_FORBIDDEN);
	}
}

static void check_all(struct http_thread *t)
{
	struct http_watch_room *r = &t->watch;
	const raft_index users = fsm_domain_version(node_fsm(t->server->node), FSM_DOMAIN_USERS);
	const int64_t age_ms = node_contact_age_ms(t->server->node);

	if (svc_node_status(t->svc, NULL)->stopped[0] != '\0')
		doom_all(r, HTTP_WATCH_END_STOPPED);
	if (age_ms < 0 || age_ms > SVC_WATCH_STALE_MS)
		doom_all(r, HTTP_WATCH_END_STALE);
	if (users == r->users)
		return;
	r->users = users;
	look_at_users(t, &r->queued, LINK_READING);
	look_at_users(t, &r->reading, LINK_READING);
	look_at_users(t, &r->progress, LINK_PROGRESS);
}

static void flush_dirty(struct http_watch_room *r)
{
	struct http_watch *w;

	while ((w = r->dirty.first) != NULL) {
		watch_unlink(&r->dirty, w, LINK_DIRTY);
		if (w->is_doomed) {
			http_watch_end(w, w->doom);
			continue;
		}
		struct http_conn *c = w->conn;

		http_conn_push(c);
		/* It may be gone by now, and its memory with it only at the turn's end. */
		if (c->state == HTTP_CONN_STREAM && w->state == LIVE && http_conn_unsent(c) > HTTP_WATCH_UNSENT)
			become_behind(w);
	}
}

static void say_progress(struct http_watch_room *r, uint64_t now_ms)
{
	struct http_watch *w;

	while ((w = r->progress.first) != NULL && now_ms >= w->progress_ms) {
		watch_unlink(&r->progress, w, LINK_PROGRESS);
		watch_put_progress(w);
		w->progress_ms = now_ms + HTTP_WATCH_PROGRESS_MS;
		watch_link(&r->progress, w, LINK_PROGRESS);
	}
}

/* Those whose clients have taken everything; the others go on when their socket says so. */
static void fill_readers(struct http_watch_room *r)
{
	struct http_watch *next;

	for (struct http_watch *w = r->queued.first; w && r->states < HTTP_WATCH_STATES; w = next) {
		next = w->links[LINK_READING].next;
		if (!w->is_doomed)
			begin_state(w);
	}
	for (struct http_watch *w = r->reading.first; w; w = next) {
		next = w->links[LINK_READING].next;
		if (http_conn_unsent(w->conn) == 0)
			(void)http_watch_fill(w);
		/* The time of a state is over for those too that do not read. */
		else if (w->state == STATE && svc_state_is_over(w->given))
			doom(w, HTTP_WATCH_END_SLOW);
	}
}

uint64_t http_watch_turn(struct http_thread *t, uint64_t now_ms)
{
	struct http_watch_room *r = &t->watch;

	r->fresh = false;
	if (r->count == 0)
		return UINT64_MAX;
	check_all(t);
	if (!push(t))
		r->fresh = true;
	flush_dirty(r);
	fill_readers(r);
	say_progress(r, now_ms);
	flush_dirty(r);
	if (r->count == 0)
		return UINT64_MAX;
	svc_follow(t->svc, r->index);
	return now_ms + STALE_LOOK_MS;
}
