/* http/watch_internal.h - what watch.c and watch_line.c share: one stream, its places in lists, its lines.
 *
 * Thread: its http thread.
 */
#ifndef HTTP_WATCH_INTERNAL_H
#define HTTP_WATCH_INTERNAL_H

#include "http/conn.h"
#include "http/watch.h"

enum link { LINK_MEMBER, LINK_READING, LINK_PROGRESS, LINK_DIRTY, LINK_DOMAIN };
#define LINKS (LINK_DOMAIN + FSM_DOMAIN_COUNT)

enum state { QUEUED, STATE, BEHIND, LIVE, ENDED };

struct http_watch {
	struct http_conn *conn;
	struct svc_watch filter;
	enum state state;
	bool is_sse, is_chunked;
	bool is_doomed; /* to be ended with `doom` when the room is not being walked */
	enum http_watch_end doom;
	struct svc_state *given;   /* STATE */
	struct fsm_change_pos pos; /* BEHIND; STATE and QUEUED: where it will go on */
	raft_index at;             /* not LIVE: all up to it was given; 0: nothing to go on from */
	uint64_t owed;             /* BEHIND: bytes of lines that passed while it read elsewhere */
	uint64_t offered;          /* number of the change that it was offered last */
	uint64_t progress_ms;      /* LIVE: next one due */
	/* the line added last: `more` may still have to be put into it */
	raft_index line_index;
	size_t line_at, line_text, line_end; /* in conn->out: its chunk, its text, behind its text */
	bool line_open;
	struct {
		struct http_watch *prev, *next;
		bool in;
	} links[LINKS];
};

/* What a line costs a client that has not read it, beside its text. */
#define LINE_OVERHEAD 16

static inline struct http_watch_room *watch_room(const struct http_watch *w)
{
	return &w->conn->thread->watch;
}

/* ---- lists: a stream is in each at most once ---- */

void watch_link(struct http_watch_list *l, struct http_watch *w, size_t which);
void watch_unlink(struct http_watch_list *l, struct http_watch *w, size_t which);
/* Of streams with this member=; others may share it. */
struct http_watch_list *watch_member_list(struct http_watch_room *r, struct str member);
/* From here on changes are offered to it. */
void watch_join(struct http_watch *w);
/* Out of all lists. */
void watch_part(struct http_watch *w);
/* All up to here was given to it: where its client may go on. */
raft_index watch_given_index(const struct http_watch *w);

/* ---- lines ---- */

struct str watch_text(const struct buf *b);
/* A line's text without its last brace, in `out`. */
struct str watch_make_line(struct buf *out, const char *op, raft_index index, enum fsm_domain domain, struct str key,
                           struct str record);
struct str watch_change_line(struct buf *out, const struct fsm_change *c);
/* Adds a line to what its connection sends. The lines of one index come together: if the one before has the same, that
 * one gets its `more` now. */
void watch_put_line(struct http_watch *w, struct str text, raft_index index, bool more);
void watch_put_synced(struct http_watch *w, raft_index index);
void watch_put_progress(struct http_watch *w);

#endif /* HTTP_WATCH_INTERNAL_H */
