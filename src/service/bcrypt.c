#include "service/bcrypt.h"

#include <assert.h>
#include <crypt.h>
#include <openssl/crypto.h>
#include <string.h>

#include "base/mem.h"
#include "base/rand.h"

#define SALT_BYTES 16

static bool is_hashable(struct str password)
{
	return rule_password(password) && !memchr(password.p, '\0', password.len);
}

/* NULL: crypt refused. The result is in `data`, which the caller wipes. */
static const char *compute(struct str password, const char *setting, struct crypt_data *data)
{
	char text[PASSWORD_MAX + 1];

	memcpy(text, password.p, password.len);
	text[password.len] = '\0';
	memset(data, 0, sizeof(*data));
	const char *hash = crypt_rn(text, setting, data, (int)sizeof(*data));

	explicit_bzero(text, sizeof(text));
	return hash && strlen(hash) == BCRYPT_LEN ? hash : NULL;
}

bool bcrypt_make(struct str password, char out[BCRYPT_LEN + 1])
{
	char seed[SALT_BYTES], setting[CRYPT_GENSALT_OUTPUT_SIZE];
	struct crypt_data *data;
	bool ok = false;

	if (!is_hashable(password))
		return false;
	rand_secure(seed, sizeof(seed));
	/* Of the spellings of one algorithm $2y$ is the one that Go, htpasswd and libxcrypt all take. */
	if (!crypt_gensalt_rn("$2y$", BCRYPT_COST, seed, sizeof(seed), setting, (int)sizeof(setting)))
		return false;
	data = mem_alloc(sizeof(*data)); /* 32 KiB: not for a thread's stack */
	const char *hash = compute(password, setting, data);

	if (hash) {
		memcpy(out, hash, BCRYPT_LEN + 1);
		ok = true;
	}
	explicit_bzero(data, sizeof(*data));
	mem_free(data);
	return ok;
}

/* "$2a$10$" and 53 characters; the cost is what decides how long it takes. */
static bool is_affordable(struct str hash)
{
	if (hash.len != BCRYPT_LEN || memcmp(hash.p, "$2", 2) != 0 || !memchr("aby", hash.p[2], 3) ||
	    hash.p[3] != '$' || hash.p[6] != '$')
		return false;
	const int cost = (hash.p[4] - '0') * 10 + (hash.p[5] - '0');

	return hash.p[4] >= '0' && hash.p[4] <= '9' && hash.p[5] >= '0' && hash.p[5] <= '9' && cost <= BCRYPT_COST_MAX;
}

bool bcrypt_matches(struct str password, struct str hash)
{
	struct crypt_data *data;
	char setting[BCRYPT_LEN + 1];
	bool same;

	if (!is_hashable(password) || !is_affordable(hash))
		return false;
	memcpy(setting, hash.p, BCRYPT_LEN);
	setting[BCRYPT_LEN] = '\0';
	/* Go computes plain bcrypt and calls it $2a$; libxcrypt's $2a$ has a countermeasure against another program's
	 * old bug, which changes the result for some passwords. */
	setting[2] = 'b';
	data = mem_alloc(sizeof(*data));
	const char *got = compute(password, setting, data);

	same = got && CRYPTO_memcmp(got + 3, hash.p + 3, BCRYPT_LEN - 3) == 0;
	explicit_bzero(data, sizeof(*data));
	mem_free(data);
	return same;
}

/* ---- jobs ---- */

void bcrypt_queue_init(struct bcrypt_queue *q, struct pool *pool)
{
	*q = (struct bcrypt_queue){ .pool = pool };
	q->last_next = &q->first;
	pthread_mutex_init(&q->lock, NULL);
}

void bcrypt_queue_fini(struct bcrypt_queue *q)
{
	assert(!q->first && !q->busy);
	pthread_mutex_destroy(&q->lock);
}

bool bcrypt_job_init(struct bcrypt_job *j, struct str password, struct str hash)
{
	*j = (struct bcrypt_job){ .is_make = !hash.p };
	if (!is_hashable(password) || (hash.p && !is_affordable(hash)))
		return false;
	memcpy(j->password, password.p, password.len);
	j->password_len = password.len;
	if (hash.p)
		memcpy(j->hash, hash.p, hash.len);
	return true;
}

void bcrypt_job_wipe(struct bcrypt_job *j)
{
	explicit_bzero(j->password, sizeof(j->password));
	explicit_bzero(j->hash, sizeof(j->hash));
}

/* The next one is handed on before this one is done with: `done` may free the job. */
static void hand_on(struct bcrypt_queue *q)
{
	pthread_mutex_lock(&q->lock);
	struct bcrypt_job *next = q->first;

	if (next) {
		q->first = next->next;
		if (!q->first)
			q->last_next = &q->first;
		q->count--;
	}
	q->busy = next != NULL;
	pthread_mutex_unlock(&q->lock);
	if (next)
		pool_submit(q->pool, &next->job);
}

static void run(struct job *job)
{
	struct bcrypt_job *j = CONTAINER_OF(job, struct bcrypt_job, job);
	const struct str password = { j->password, j->password_len };

	if (j->is_make)
		j->ok = bcrypt_make(password, j->hash);
	else
		j->ok = bcrypt_matches(password, (struct str){ j->hash, BCRYPT_LEN });
	hand_on(j->queue);
	j->done(j);
}

bool bcrypt_submit(struct bcrypt_queue *q, struct bcrypt_job *j)
{
	bool taken = true, is_first = false;

	j->queue = q;
	j->next = NULL;
	j->job.run = run;
	pthread_mutex_lock(&q->lock);
	if (!q->busy) {
		q->busy = is_first = true;
	} else if (q->count == BCRYPT_QUEUE_MAX) {
		taken = false;
	} else {
		*q->last_next = j;
		q->last_next = &j->next;
		q->count++;
	}
	pthread_mutex_unlock(&q->lock);
	if (is_first)
		pool_submit(q->pool, &j->job);
	return taken;
}

size_t bcrypt_waiting(struct bcrypt_queue *q)
{
	pthread_mutex_lock(&q->lock);
	const size_t n = q->count + q->busy;

	pthread_mutex_unlock(&q->lock);
	return n;
}
