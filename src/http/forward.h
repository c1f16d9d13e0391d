/* http/forward.h - a follower's writes, sent whole to the leader.
 *
 *   WAITING --link up--> SENT --answer--> CATCHUP --own replica has the index, or 3 s--> answered
 *     |  time over         |  link gone, no answer in time
 *     503 no_leader        503 outcome_unknown
 *
 * A call whose frame was handed to the link is never sent again. A link to a former leader stays until its answers are
 * in. Thread: its http thread.
 */
#ifndef HTTP_FORWARD_H
#define HTTP_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

struct http_call;
struct http_thread;

#define HTTP_CATCHUP_MS 3000 /* longest wait for the own replica */

void http_forward_init(struct http_thread *t);
void http_forward_fini(struct http_thread *t); /* drops what waits */

void http_forward_start(struct http_call *c);
void http_forward_again(struct http_call *c); /* whoever was asked is not the leader (any more), and did nothing */
/* Is there time left to wait for a leader, counted from the request's arrival? */
bool http_forward_may_wait(const struct http_call *c);

/* Follows the leader and carries on what waits; returns the next monotonic deadline in ms (UINT64_MAX: none). */
uint64_t http_forward_turn(struct http_thread *t, uint64_t now_ms);

#endif /* HTTP_FORWARD_H */
