/* base/pool.h - the work pool: jobs that may wait for anything (bcrypt, file copies, name look-ups, disk syncs).
 *
 * A job is embedded in its maker's struct and belongs to the pool from pool_submit until its run function returns;
 * run reports its result itself (usually a queue_put) as its last act. The thread loops stand in src/threads.c; the
 * simulator calls pool_turn itself. Thread: submit any, turn a pool thread.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct pool;

struct job {
	void (*run)(struct job *j); /* on a pool thread */
	struct job *next;           /* the pool's own */
};

struct pool *pool_new(void);
void pool_free(struct pool *p); /* no job may be left; accepts NULL */
void pool_submit(struct pool *p, struct job *j);
bool pool_turn(struct pool *p);                     /* runs one job; false: there was none */
bool pool_wait(struct pool *p, int64_t timeout_ms); /* blocks until a job is there or pool_close; false: closed */
void pool_close(struct pool *p);                    /* wakes all waiters; jobs already queued are still run by turns */

#endif /* BASE_POOL_H */
