/* The list of changes: a ring of 64-bit words, one writer, any number of readers, no locks.
 *
 *   note = [index] [domain:8 op:8 more:8 0:8 key_len:16 words:16] [key, padded with zeros to a multiple of 8]
 *
 * Offsets count words since the start and never wrap; a word lives at offset mod size. Everything in [tail, head) is
 * whole. The writer moves the tail past what it is about to overwrite, writes, then moves the head. A reader copies a
 * note out and then looks at the tail: if the tail has passed the note's beginning, what it copied may be mixed, and it
 * was too slow.
 *
 * Why that is enough without fences: each word is stored with release and loaded with acquire. A reader that got a word
 * of a later note synchronised with the store of that word, which came after the tail's move, so its look at the tail
 * sees the move. Words are atomic, so there is no data race for a sanitizer to find.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/fsm_internal.h"

#define NOTE_WORDS_MAX (2 + (FSM_CHANGE_KEY_MAX + 7) / 8)
#define CHANGES_KEPT_MIN 10000u /* whatever their length */
#define CHANGES_BYTES_DEFAULT (16u << 20)

struct changes {
	size_t mask; /* words - 1 */
	_Atomic uint64_t *words;
	_Atomic uint64_t head;       /* offset behind the newest note */
	_Atomic uint64_t tail;       /* offset of the oldest */
	_Atomic uint64_t floor;      /* index of the last note that is gone: all above it are here */
	_Atomic uint64_t generation; /* moves at a restart: offsets from before it are void */
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

struct head_word {
	uint8_t domain, op, more;
	uint16_t key_len, words;
};

static uint64_t pack_head(struct head_word h)
{
	return (uint64_t)h.domain | (uint64_t)h.op << 8 | (uint64_t)h.more << 16 | (uint64_t)h.key_len << 32 |
	       (uint64_t)h.words << 48;
}

static struct head_word unpack_head(uint64_t w)
{
	return (struct head_word){ .domain = (uint8_t)w,
		                   .op = (uint8_t)(w >> 8),
		                   .more = (uint8_t)(w >> 16),
		                   .key_len = (uint16_t)(w >> 32),
		                   .words = (uint16_t)(w >> 48) };
}

void changes_encode(struct buf *notes, raft_index index, enum fsm_domain domain, enum fsm_op op, struct str key)
{
	uint64_t words[NOTE_WORDS_MAX] = { 0 };
	assert(key.len <= FSM_CHANGE_KEY_MAX);
	const size_t count = 2 + (key.len + 7) / 8;
	words[0] = index;
	words[1] = pack_head((struct head_word){ (uint8_t)domain, (uint8_t)op, 0, (uint16_t)key.len, (uint16_t)count });
	if (key.len)
		memcpy(&words[2], key.p, key.len);
	buf_put(notes, words, count * sizeof(words[0]));
}

/* ---- the writer ---- */

size_t changes_size(size_t asked)
{
	const size_t least = (size_t)CHANGES_KEPT_MIN * NOTE_WORDS_MAX * sizeof(uint64_t);
	const size_t bytes = asked ? asked : CHANGES_BYTES_DEFAULT;
	return bytes > least ? bytes : least;
}

struct changes *changes_new(size_t bytes, raft_index floor)
{
	size_t words = 1;
	while (words < bytes / sizeof(uint64_t) || words < NOTE_WORDS_MAX)
		words *= 2;
	struct changes *c = mem_zalloc(sizeof(*c));
	c->words = mem_zalloc(words * sizeof(c->words[0]));
	c->mask = words - 1;
	atomic_store(&c->floor, floor);
	return c;
}

void changes_free(struct changes *c)
{
	if (!c)
		return;
	mem_free((void *)c->words);
	mem_free(c);
}

static uint64_t load_word(const struct changes *c, uint64_t offset)
{
	return atomic_load_explicit(&c->words[offset & c->mask], memory_order_acquire);
}

/* Lets the oldest notes go until `need` more words fit behind `head`. */
static void make_room(struct changes *c, uint64_t head, size_t need)
{
	uint64_t tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
	while (head + need - tail > c->mask + 1) {
		const raft_index index = load_word(c, tail);
		tail += unpack_head(load_word(c, tail + 1)).words;
		/* The floor first: a seek that still finds the note behind the tail has lost nothing by being told to
		 * go further on. */
		atomic_store(&c->floor, index);
		atomic_store(&c->tail, tail);
	}
}

void changes_publish(struct changes *c, const struct buf *notes)
{
	uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
	for (size_t at = 0; at < notes->len;) {
		uint64_t words[NOTE_WORDS_MAX], next_index;
		memcpy(words, notes->data + at, 16);
		struct head_word h = unpack_head(words[1]);
		assert(h.words <= NOTE_WORDS_MAX);
		memcpy(words, notes->data + at, h.words * sizeof(words[0]));
		at += h.words * sizeof(words[0]);
		if (at < notes->len) {
			memcpy(&next_index, notes->data + at, sizeof(next_index));
			h.more = next_index == words[0];
			words[1] = pack_head(h);
		}
		make_room(c, head, h.words);
		for (size_t i = 0; i < h.words; i++)
			atomic_store_explicit(&c->words[(head + i) & c->mask], words[i], memory_order_release);
		head += h.words;
	}
	/* Once for the whole batch: nobody sees half the changes of an index. */
	atomic_store(&c->head, head);
}

void changes_restart(struct changes *c, raft_index floor)
{
	const uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
	atomic_fetch_add(&c->generation, 1);
	atomic_store(&c->floor, floor);
	atomic_store(&c->tail, head);
}

/* ---- readers ---- */

void fsm_changes_end(const struct fsm *f, struct fsm_change_pos *pos)
{
	pos->generation = atomic_load(&f->changes->generation);
	pos->offset = atomic_load(&f->changes->head);
}

raft_index fsm_changes_floor(const struct fsm *f)
{
	return atomic_load(&f->changes->floor);
}

static bool is_lost(const struct changes *c, const struct fsm_change_pos *pos)
{
	return atomic_load(&c->tail) > pos->offset || atomic_load(&c->generation) != pos->generation;
}

int fsm_changes_next(const struct fsm *f, struct fsm_change_pos *pos, struct fsm_change *out)
{
	const struct changes *c = f->changes;
	uint64_t key[NOTE_WORDS_MAX - 2];
	if (is_lost(c, pos))
		return ERR_NOTFOUND;
	if (pos->offset >= atomic_load(&c->head))
		return ERR_TIMEOUT;
	const raft_index index = load_word(c, pos->offset);
	const struct head_word h = unpack_head(load_word(c, pos->offset + 1));
	/* Of a note that was overwritten meanwhile even the length may be nonsense. */
	const size_t words = h.words >= 2 && h.words <= NOTE_WORDS_MAX ? h.words : 2;
	for (size_t i = 2; i < words; i++)
		key[i - 2] = load_word(c, pos->offset + i);
	if (is_lost(c, pos))
		return ERR_NOTFOUND;
	out->index = index;
	out->domain = (enum fsm_domain)h.domain;
	out->op = (enum fsm_op)h.op;
	out->more = h.more != 0;
	out->key_len = h.key_len;
	memcpy(out->key, key, h.key_len);
	out->key[h.key_len] = '\0';
	pos->offset += h.words;
	return 0;
}

int fsm_changes_seek(const struct fsm *f, raft_index since, struct fsm_change_pos *pos)
{
	const struct changes *c = f->changes;
	struct fsm_change change;
	struct fsm_change_pos at, before;
	at.generation = atomic_load(&c->generation);
	at.offset = atomic_load(&c->tail);
	if (since < atomic_load(&c->floor))
		return ERR_NOTFOUND;
	int rc;
	do {
		before = at;
		rc = fsm_changes_next(f, &at, &change);
		/* The oldest notes are let go while we walk: those in front of `since` are not missed. */
		if (rc == ERR_NOTFOUND && at.generation == atomic_load(&c->generation) &&
		    since >= atomic_load(&c->floor)) {
			at.offset = atomic_load(&c->tail);
			rc = 0;
			change.index = 0;
		}
	} while (rc == 0 && change.index <= since);
	if (rc == ERR_NOTFOUND)
		return rc;
	*pos = before;
	return 0;
}

raft_index fsm_domain_version(const struct fsm *f, enum fsm_domain d)
{
	return atomic_load(&f->domain[d]);
}
