/* http/answer.h - an answer as bytes: status line, the headers every answer has, body.
 *
 * What does not change from answer to answer (this node, the cluster, the date of this second) is formatted once and
 * copied.   Thread: its http thread.
 */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "node/node.h"
#include "service/service.h"

/* Formatted pieces, good for one thread. Zero-initialised is empty. */
struct http_fixed {
	struct buf identity; /* "X-Veena-Node: n1\r\nX-Veena-Cluster: ...\r\n" */
	struct buf leader;   /* "X-Veena-Leader: n1\r\n" */
	uint64_t version;    /* of the node status they were made from, plus 1 */
	uint64_t date_s;     /* Unix second of `date` */
	char date[40];       /* "Date: ... GMT\r\n" */
};

void http_fixed_refresh(struct http_fixed *f, const struct node_status *st, uint64_t version);
void http_fixed_fini(struct http_fixed *f);

struct http_answer_style {
	bool is_head;      /* headers only */
	bool close;        /* the connection ends with this answer */
	bool is_stream;    /* lines follow, their number unknown: in chunks, or until the connection closes */
	bool http10;       /* the client speaks 1.0 and asked to keep the connection */
	bool shows_leader; /* reads: X-Veena-Leader and X-Veena-Contact-Ms */
	int64_t contact_ms;
	raft_index applied; /* X-Veena-Index of an answer that has none of its own */
};

/* Appends head and body. */
void http_answer_put(struct buf *out, struct http_fixed *f, const struct svc_answer *a,
                     const struct http_answer_style *style);

const char *http_status_reason(int status);

#endif /* HTTP_ANSWER_H */
