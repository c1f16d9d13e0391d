/* http/conn.h - one client connection: bytes to requests, answers to bytes.
 *
 *        first byte         head whole          body whole            answered
 *  IDLE -----------> HEAD -----------> BODY ---------------> BUSY ---------------> IDLE
 *                      \________________/  refused: answer, then LINGER, then closed
 *
 * A watch goes from BUSY to STREAM, and from there to LINGER.
 *
 * Requests of one connection are answered in order; the next one is looked at when the one before is answered. What is
 * answered within one turn leaves in one write. No time limit is reset by one more byte.
 * Ownership: the thread's; a connection frees itself at the end of the turn in which it closed (a busy one: once its
 * call finished).   Thread: its http thread.
 */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "http/call.h"
#include "http/chunk.h"
#include "http/head.h"
#include "http/scan.h"
#include "http/thread.h"
#include "net/stream.h"

enum http_conn_state {
	HTTP_CONN_IDLE,
	HTTP_CONN_HEAD,
	HTTP_CONN_BODY,
	HTTP_CONN_BUSY,
	HTTP_CONN_STREAM, /* answered; lines go on coming: see watch.h */
	HTTP_CONN_LINGER,
	HTTP_CONN_CLOSED,
};

struct http_conn {
	struct http_thread *thread;
	struct net_stream stream;
	ev_io io;
	enum http_conn_state state;
	bool first;     /* no request was begun yet: the REQUEST time runs from accept */
	bool advancing; /* inside advance(): an answer only adds to `out` */
	bool closing;   /* no further request */
	bool shut;      /* our side was shut down */
	bool peer_done; /* the client's side was */
	bool in_resume, in_dead;

	struct buf in; /* head, decoded body, and what came behind */
	size_t held;   /* bytes of `in` that are counted against the server's bound */
	size_t in_off; /* where the current request begins in `in` */
	struct buf out;
	size_t out_sent;                    /* of `out` */
	uint64_t written, sent, write_mark; /* bytes ever; the WRITE time ends when `sent` reaches the mark */

	struct http_scan scan;
	struct http_head head;
	struct http_chunk chunk;
	size_t body_len; /* decoded bytes so far; they stand behind the head */
	bool body_done;

	enum http_deadline deadline;
	uint64_t deadline_ms;                /* monotonic */
	uint64_t since_ms;                   /* when this deadline was set */
	bool fresh;                          /* a new request began: its time starts anew */
	struct http_conn *dl_prev, *dl_next; /* in the thread's list of its deadline */
	struct http_conn *prev, *next;       /* all of the thread, until freed */
	struct http_conn *resume_next, *dead_next;

	struct http_call call;
	struct http_watch *watch; /* STREAM */
};

void http_conn_new(struct http_thread *t, struct net_stream stream); /* takes it */
/* Who gives way when connections run out: one that is leaving, one that has been sending its request for much longer
 * than a good client does, the longest idle one, or one that does not take its answer. NULL: nobody for now. */
struct http_conn *http_conn_victim(const struct http_thread *t, uint64_t now_ms);
void http_conn_evict(struct http_conn *c);
void http_conn_go_on(struct http_conn *c);  /* it stopped at a bound earlier */
void http_conn_expire(struct http_conn *c); /* its deadline has come */
void http_conn_stop(struct http_conn *c);   /* the thread stops: idle ones close, others after their answer */
void http_conn_close(struct http_conn *c);
void http_conn_free(struct http_conn *c); /* closed, and its call has finished or will never */

/* ---- for watch.c: what it adds to `out` ---- */

void http_conn_wrote(struct http_conn *c, size_t n); /* so many more bytes stand there */
void http_conn_push(struct http_conn *c);            /* sends; may close */
void http_conn_end_stream(struct http_conn *c);      /* its last line stands there; sends; may close */

/* ---- between conn.c and conn_time.c ---- */

static inline size_t http_conn_unsent(const struct http_conn *c)
{
	return c->out.len - c->out_sent;
}
void http_conn_deadline_clear(struct http_conn *c);
void http_conn_deadline_update(struct http_conn *c); /* to what its state asks for; a running time goes on */

#endif /* HTTP_CONN_H */
