/* The list of changes: a chain of pieces, one writer, any number of readers.
 *
 *   first -> piece -> piece -> last        published = bytes ever published, over all pieces
 *
 *   note = [struct head] [key \0] [members] [record] [zeros up to a multiple of 8]
 *
 * What is published is never changed again, so a reader that holds a count of its piece reads without a lock, and gets
 * borrowed bytes instead of copies. Only the step from one piece to the next takes the lock: the writer may be letting
 * go of pieces meanwhile. A piece that is let go is marked, and who stands in it is told that it was too slow; its
 * memory goes when the last of them has left.
 *
 * The writer fills pieces under the lock and moves `published` last: nobody sees half a batch, and so never half the
 * changes of an index. What is let go are whole indexes too: the floor is the last index of the piece that went, and
 * the rest of that index, should the next piece begin with it, lies below every place that seek gives out.
 */
#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/fsm_internal.h"

#define CHUNK_BYTES (64u << 10)
#define CHANGES_BYTES_DEFAULT (16u << 20)

struct head {
	uint64_t index;
	uint32_t size; /* of the whole note */
	uint32_t record_len;
	uint16_t key_len;
	uint16_t members_len;
	uint8_t domain, op, more, unused;
};

struct change_chunk {
	_Atomic uint32_t refs; /* the list's, and one for each place in it */
	_Atomic bool dropped;
	uint64_t base;             /* bytes published before its first */
	struct change_chunk *next; /* under the lock */
	raft_index last_index;     /* under the lock; 0 = empty */
	size_t cap;
	_Atomic size_t len;
	alignas(8) uint8_t data[];
};

struct changes {
	pthread_mutex_t lock;
	struct change_chunk *first, *last;
	size_t bytes, bytes_wanted; /* memory of all pieces; what is kept without need */
	_Atomic uint64_t published;
	_Atomic raft_index floor; /* all above it are here */
};

static const char *const domain_words[FSM_DOMAIN_COUNT] = {
#define DOMAIN_WORD(id, word) word,
	FSM_DOMAIN_MAP(DOMAIN_WORD)
#undef DOMAIN_WORD
};

const char *fsm_domain_word(enum fsm_domain d)
{
	assert((unsigned)d < FSM_DOMAIN_COUNT);
	return domain_words[d];
}

/* ---- one note ---- */

void changes_encode(struct buf *notes, const struct change_note *n)
{
	static const char zeros[8];
	const size_t len = sizeof(struct head) + n->key.len + 1 + n->members.len + n->record.len;
	const size_t size = (len + 7) / 8 * 8;
	const struct head h = {
		.index = n->index,
		.size = (uint32_t)size,
		.record_len = (uint32_t)n->record.len,
		.key_len = (uint16_t)n->key.len,
		.members_len = (uint16_t)n->members.len,
		.domain = (uint8_t)n->domain,
		.op = (uint8_t)n->op,
	};
	assert(n->key.len <= FSM_CHANGE_KEY_MAX && n->members.len <= UINT16_MAX && size <= UINT32_MAX);
	buf_reserve(notes, size);
	buf_put(notes, &h, sizeof(h));
	buf_put(notes, n->key.p, n->key.len);
	buf_putc(notes, '\0');
	buf_put(notes, n->members.p, n->members.len);
	buf_put(notes, n->record.p, n->record.len);
	buf_put(notes, zeros, size - len);
}

static void read_note(const uint8_t *at, struct head *h, struct fsm_change *out)
{
	const char *text = (const char *)at + sizeof(*h);
	memcpy(h, at, sizeof(*h));
	*out = (struct fsm_change){
		.index = h->index,
		.domain = (enum fsm_domain)h->domain,
		.op = (enum fsm_op)h->op,
		.more = h->more != 0,
		.key = { text, h->key_len },
		.members = { text + h->key_len + 1, h->members_len },
		.record = { text + h->key_len + 1 + h->members_len, h->record_len },
	};
}

bool changes_decode(const struct buf *notes, size_t *at, struct change_note *out)
{
	struct fsm_change c;
	struct head h;
	if (*at >= notes->len)
		return false;
	read_note(notes->data + *at, &h, &c);
	*out = (struct change_note){ c.index, c.domain, c.op, c.key, c.record, c.members };
	*at += h.size;
	return true;
}

/* ---- pieces ---- */

static struct change_chunk *chunk_new(uint64_t base, size_t cap)
{
	struct change_chunk *k = mem_alloc(sizeof(*k) + cap);
	memset(k, 0, sizeof(*k));
	atomic_init(&k->refs, 1);
	k->base = base;
	k->cap = cap;
	return k;
}

static void chunk_unref(struct change_chunk *k)
{
	if (k && atomic_fetch_sub(&k->refs, 1) == 1)
		mem_free(k);
}

static struct change_chunk *chunk_ref(struct change_chunk *k)
{
	atomic_fetch_add(&k->refs, 1);
	return k;
}

/* ---- the writer ---- */

struct changes *changes_new(size_t bytes, raft_index floor)
{
	struct changes *c = mem_zalloc(sizeof(*c));
	const int rc = pthread_mutex_init(&c->lock, NULL);
	assert(rc == 0);
	(void)rc;
	c->bytes_wanted = bytes ? bytes : CHANGES_BYTES_DEFAULT;
	c->first = c->last = chunk_new(0, CHUNK_BYTES);
	c->bytes = CHUNK_BYTES;
	atomic_store(&c->floor, floor);
	return c;
}

static void drop_first(struct changes *c)
{
	struct change_chunk *k = c->first;
	c->first = k->next;
	c->bytes -= k->cap;
	atomic_store(&k->dropped, true);
	chunk_unref(k);
}

void changes_free(struct changes *c)
{
	if (!c)
		return;
	while (c->first) {
		assert(atomic_load(&c->first->refs) == 1);
		drop_first(c);
	}
	pthread_mutex_destroy(&c->lock);
	mem_free(c);
}

/* Lets the oldest pieces go as far as they are not owed to anybody. */
static void let_go(struct changes *c, raft_index newest)
{
	while (c->first != c->last && c->bytes > c->bytes_wanted) {
		const raft_index last = c->first->last_index;
		if (c->bytes <= FSM_CHANGES_BYTES_MAX && last + FSM_CHANGES_ENTRIES > newest)
			break;
		if (last > atomic_load(&c->floor))
			atomic_store(&c->floor, last);
		drop_first(c);
	}
}

static uint8_t *make_room(struct changes *c, size_t size)
{
	struct change_chunk *k = c->last;
	size_t len = atomic_load_explicit(&k->len, memory_order_relaxed);
	if (size > k->cap - len) {
		k = chunk_new(k->base + len, size > CHUNK_BYTES ? size : CHUNK_BYTES);
		c->bytes += k->cap;
		c->last->next = k;
		c->last = k;
		len = 0;
	}
	atomic_store_explicit(&k->len, len + size, memory_order_relaxed);
	return k->data + len;
}

void changes_publish(struct changes *c, const struct buf *notes)
{
	raft_index newest = 0;
	if (notes->len == 0)
		return;
	pthread_mutex_lock(&c->lock);
	for (size_t at = 0; at < notes->len;) {
		struct head h;
		raft_index next_index;
		memcpy(&h, notes->data + at, sizeof(h));
		uint8_t *to = make_room(c, h.size);
		memcpy(to, notes->data + at, h.size);
		at += h.size;
		if (at < notes->len) {
			memcpy(&next_index, notes->data + at, sizeof(next_index));
			h.more = next_index == h.index;
			memcpy(to, &h, sizeof(h));
		}
		newest = c->last->last_index = h.index;
	}
	let_go(c, newest);
	atomic_store(&c->published, c->last->base + atomic_load_explicit(&c->last->len, memory_order_relaxed));
	pthread_mutex_unlock(&c->lock);
}

void changes_restart(struct changes *c, raft_index floor)
{
	pthread_mutex_lock(&c->lock);
	struct change_chunk *k = chunk_new(atomic_load(&c->published), CHUNK_BYTES);
	c->bytes += k->cap;
	c->last->next = k;
	c->last = k;
	while (c->first != k)
		drop_first(c);
	atomic_store(&c->floor, floor);
	pthread_mutex_unlock(&c->lock);
}

/* ---- readers ---- */

void fsm_changes_leave(struct fsm_change_pos *pos)
{
	chunk_unref(pos->chunk);
	*pos = (struct fsm_change_pos){ 0 };
}

/* A count of `k` is given. */
static void stand(struct fsm_change_pos *pos, struct change_chunk *k, size_t offset)
{
	struct change_chunk *old = pos->chunk;
	*pos = (struct fsm_change_pos){ k, (uint32_t)offset };
	chunk_unref(old);
}

void fsm_changes_copy(const struct fsm_change_pos *from, struct fsm_change_pos *to)
{
	stand(to, chunk_ref(from->chunk), from->offset);
}

void fsm_changes_end(const struct fsm *f, struct fsm_change_pos *pos)
{
	struct changes *c = f->changes;
	pthread_mutex_lock(&c->lock);
	struct change_chunk *k = chunk_ref(c->last);
	const size_t len = atomic_load_explicit(&k->len, memory_order_relaxed);
	pthread_mutex_unlock(&c->lock);
	stand(pos, k, len);
}

raft_index fsm_changes_floor(const struct fsm *f)
{
	return atomic_load(&f->changes->floor);
}

static bool step_over(struct changes *c, struct fsm_change_pos *pos)
{
	struct change_chunk *next = NULL;
	pthread_mutex_lock(&c->lock);
	if (!atomic_load(&pos->chunk->dropped) && pos->chunk->next)
		next = chunk_ref(pos->chunk->next);
	pthread_mutex_unlock(&c->lock);
	if (next)
		stand(pos, next, 0);
	return next != NULL;
}

int fsm_changes_next(const struct fsm *f, struct fsm_change_pos *pos, struct fsm_change *out)
{
	struct changes *c = f->changes;
	struct head h;
	assert(pos->chunk);
	const uint64_t published = atomic_load(&c->published);
	if (atomic_load(&pos->chunk->dropped))
		return ERR_NOTFOUND;
	if (pos->chunk->base + pos->offset >= published)
		return ERR_TIMEOUT;
	/* More is published than this piece holds before us: so it is full, and the next one is there. */
	if (pos->offset == atomic_load_explicit(&pos->chunk->len, memory_order_relaxed) && !step_over(c, pos))
		return ERR_NOTFOUND;
	read_note(pos->chunk->data + pos->offset, &h, out);
	pos->offset += h.size;
	return 0;
}

int fsm_changes_seek(const struct fsm *f, raft_index since, struct fsm_change_pos *pos)
{
	struct changes *c = f->changes;
	struct fsm_change_pos at = { 0 };
	struct fsm_change change;
	pthread_mutex_lock(&c->lock);
	struct change_chunk *k = c->first;
	const bool is_there = since >= atomic_load(&c->floor);
	while (is_there && k != c->last && k->last_index <= since)
		k = k->next;
	if (is_there)
		at.chunk = chunk_ref(k);
	pthread_mutex_unlock(&c->lock);
	if (!is_there)
		return ERR_NOTFOUND;
	for (;;) {
		struct fsm_change_pos before = { 0 };
		fsm_changes_copy(&at, &before);
		const int rc = fsm_changes_next(f, &at, &change);
		if (rc == ERR_NOTFOUND) {
			fsm_changes_leave(&before);
			fsm_changes_leave(&at);
			return rc;
		}
		if (rc == ERR_TIMEOUT || change.index > since) {
			fsm_changes_leave(&at);
			fsm_changes_leave(pos);
			*pos = before;
			return 0;
		}
		fsm_changes_leave(&before);
	}
}

raft_index fsm_domain_version(const struct fsm *f, enum fsm_domain d)
{
	return atomic_load(&f->domain[d]);
}
