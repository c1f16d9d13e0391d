/* service/bcrypt.h - password hashes, made and compared on the work pool.
 *
 * One hash takes some 50 ms of a core. So never on a thread that serves or decides, one at a time for the whole
 * process, and with a bounded queue: what the pool's other jobs and the other cores do is not delayed by logins.
 * Source: Provos and Mazieres, "A Future-Adaptable Password Scheme"; libxcrypt's crypt(5).
 */
#ifndef SERVICE_BCRYPT_H
#define SERVICE_BCRYPT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/pool.h"
#include "model/rules.h"

#define BCRYPT_LEN 60        /* of a hash's text */
#define BCRYPT_COST 10       /* of those made here, as Narad's */
#define BCRYPT_COST_MAX 14   /* of those compared: an imported one of more would hold the pool for seconds */
#define BCRYPT_QUEUE_MAX 128 /* waiting jobs; beyond it 503 overloaded */
#define BCRYPT_WAIT_MS 10000 /* longest wait for a job, its turn included */

/* Both wait for the computation: any thread that may. */
bool bcrypt_make(struct str password, char out[BCRYPT_LEN + 1]); /* false: 0 or more than 72 bytes, or a NUL inside */
/* Accepts what Go ($2a$), htpasswd ($2y$) and libxcrypt ($2b$) make. False: another password, no such hash, or one that
 * costs more than BCRYPT_COST_MAX. */
bool bcrypt_matches(struct str password, struct str hash);

/* One computation; embedded in its maker's struct. */
struct bcrypt_job {
	struct job job; /* the pool's */
	struct bcrypt_queue *queue;
	struct bcrypt_job *next;
	char password[PASSWORD_MAX];
	size_t password_len;
	char hash[BCRYPT_LEN + 1]; /* to compare with, or what was made */
	bool is_make;
	bool ok;
	void (*done)(struct bcrypt_job *j); /* the last that touches the job; pool thread */
};

struct bcrypt_queue {
	struct pool *pool;
	pthread_mutex_t lock;
	struct bcrypt_job *first, **last_next; /* waiting for their turn */
	size_t count;                          /* of them */
	bool busy;                             /* one is with the pool */
};

void bcrypt_queue_init(struct bcrypt_queue *q, struct pool *pool);
void bcrypt_queue_fini(struct bcrypt_queue *q); /* no job may be left */

/* Copies the password (1..72 bytes). `hash`: what it is compared with; p NULL: one is made. False: it is none of which
 * anything can be computed. Any thread. */
bool bcrypt_job_init(struct bcrypt_job *j, struct str password, struct str hash);
/* False: too many wait, `done` is not called. Any thread. */
bool bcrypt_submit(struct bcrypt_queue *q, struct bcrypt_job *j);
void bcrypt_job_wipe(struct bcrypt_job *j);    /* the password, before the memory is given back */
size_t bcrypt_waiting(struct bcrypt_queue *q); /* for the metrics */

#endif /* SERVICE_BCRYPT_H */
