/* Streams of changes: the lists they are in, and their lines as bytes. */
#include "http/watch_internal.h"

#include <string.h>

#include "base/mem.h"
#include "model/json.h"

/* ---- lists ---- */

void watch_link(struct http_watch_list *l, struct http_watch *w, size_t which)
{
	if (w->links[which].in)
		return;
	w->links[which].prev = l->last;
	w->links[which].next = NULL;
	w->links[which].in = true;
	*(l->last ? &l->last->links[which].next : &l->first) = w;
	l->last = w;
}

void watch_unlink(struct http_watch_list *l, struct http_watch *w, size_t which)
{
	struct http_watch *prev = w->links[which].prev, *next = w->links[which].next;

	if (!w->links[which].in)
		return;
	*(prev ? &prev->links[which].next : &l->first) = next;
	*(next ? &next->links[which].prev : &l->last) = prev;
	w->links[which].in = false;
}

struct http_watch_list *watch_member_list(struct http_watch_room *r, struct str member)
{
	return &r->members[fsm_hash(member) % HTTP_WATCH_MEMBERS];
}

static struct str member_of(const struct http_watch *w)
{
	return (struct str){ w->filter.member, w->filter.member_len };
}

/* From here on changes are offered to it. */
void watch_join(struct http_watch *w)
{
	struct http_watch_room *r = watch_room(w);

	for (size_t d = 0; d < FSM_DOMAIN_COUNT; d++) {
		if (!(w->filter.domains & 1u << d))
			continue;
		if (d == FSM_DOMAIN_ASSIGNMENTS && w->filter.member_len)
			watch_link(watch_member_list(r, member_of(w)), w, LINK_MEMBER);
		else
			watch_link(&r->domains[d], w, LINK_DOMAIN + d);
	}
}

/* All up to here was given to it: where its client may go on. */
raft_index watch_given_index(const struct http_watch *w)
{
	return w->state == LIVE ? watch_room(w)->index : w->at;
}

/* Out of all lists. */
void watch_part(struct http_watch *w)
{
	struct http_watch_room *r = watch_room(w);

	for (size_t d = 0; d < FSM_DOMAIN_COUNT; d++)
		watch_unlink(&r->domains[d], w, LINK_DOMAIN + d);
	watch_unlink(watch_member_list(r, member_of(w)), w, LINK_MEMBER);
	watch_unlink(w->state == QUEUED ? &r->queued : &r->reading, w, LINK_READING);
	watch_unlink(&r->progress, w, LINK_PROGRESS);
	watch_unlink(&r->dirty, w, LINK_DIRTY);
}

/* ---- lines ---- */

static void begin_line(struct http_watch *w)
{
	struct buf *out = &w->conn->out;

	if (out->cap == 0)
		http_thread_take_buf(w->conn->thread, out);
	w->line_at = out->len;
	if (w->is_chunked)
		buf_puts(out, "00000000\r\n");
	if (w->is_sse)
		buf_puts(out, "data: ");
	w->line_text = out->len;
}

/* Closes the text that begin_line opened: the last brace, the frame of the stream, the length of the chunk. */
static void end_line(struct http_watch *w, raft_index index, bool more)
{
	static const char digits[] = "0123456789abcdef";
	struct buf *out = &w->conn->out;
	size_t head = w->line_at + 10;

	w->line_end = out->len;
	buf_puts(out, more ? ",\"more\":true}\n" : "}\n");
	/* Where a browser goes on by itself: so not in the middle of an index. */
	if (w->is_sse && !more)
		buf_printf(out, "id: %llu\n", (unsigned long long)index);
	if (w->is_sse)
		buf_putc(out, '\n');
	if (!w->is_chunked)
		return;
	size_t n = out->len - head;

	for (size_t i = 0; i < 8; i++, n >>= 4)
		out->data[w->line_at + 7 - i] = (uint8_t)digits[n & 15];
	buf_puts(out, "\r\n");
}

/* The lines of one index come together: if the one before has the same, it gets its `more` now. */
void watch_put_line(struct http_watch *w, struct str text, raft_index index, bool more)
{
	struct http_conn *c = w->conn;
	const size_t before = c->out.len;

	if (w->line_open && w->line_index == index) {
		c->out.len = w->line_end;
		end_line(w, index, true);
	}
	begin_line(w);
	buf_put(&c->out, text.p, text.len);
	end_line(w, index, more);
	w->line_open = true;
	w->line_index = index;
	http_conn_wrote(c, c->out.len - before);
	watch_link(&watch_room(w)->dirty, w, LINK_DIRTY);
}

struct str watch_text(const struct buf *b)
{
	return (struct str){ (const char *)b->data, b->len };
}

/* Without its last brace. */
struct str watch_make_line(struct buf *out, const char *op, raft_index index, enum fsm_domain domain, struct str key,
                           struct str record)
{
	struct json_writer w = { .out = out };

	buf_clear(out);
	json_begin_object(&w);
	json_field_cstr(&w, "op", op);
	json_field_u64(&w, "index", index);
	json_field_cstr(&w, "domain", fsm_domain_word(domain));
	json_field_str(&w, "key", key);
	json_key(&w, "record");
	json_put_raw(&w, record);
	return watch_text(out);
}

struct str watch_change_line(struct buf *out, const struct fsm_change *c)
{
	return watch_make_line(out, c->op == FSM_OP_PUT ? "put" : "delete", c->index, c->domain, c->key, c->record);
}

void watch_put_synced(struct http_watch *w, raft_index index)
{
	struct buf *line = &watch_room(w)->line;
	struct json_writer j = { .out = line };

	buf_clear(line);
	json_begin_object(&j);
	json_field_cstr(&j, "op", "synced");
	json_field_u64(&j, "index", index);
	w->line_open = false;
	watch_put_line(w, watch_text(line), index, false);
	w->line_open = false;
}

void watch_put_progress(struct http_watch *w)
{
	struct http_thread *t = w->conn->thread;
	struct buf *line = &t->watch.line;
	struct json_writer j = { .out = line };

	buf_clear(line);
	json_begin_object(&j);
	json_field_cstr(&j, "op", "progress");
	json_field_u64(&j, "index", t->watch.index);
	json_field_cstr(&j, "node", t->server->o.node_id);
	json_field_cstr(&j, "leader", svc_node_status(t->svc, NULL)->leader);
	json_field_i64(&j, "contact_ms", node_contact_age_ms(t->server->node));
	w->line_open = false;
	watch_put_line(w, watch_text(line), t->watch.index, false);
	w->line_open = false;
}
