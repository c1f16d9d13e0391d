/* Writing a file in one pass. Each open bucket is a tree under construction: level 0 collects records for a leaf, level
 * n the first keys and numbers of the pages of level n-1. A full level becomes a page, which is laid down at once and
 * named to the level above; pages therefore stand in the file in the order in which they were filled, the metas are
 * written last.
 *
 *   page 0, 1: metas   2: a free list of nothing   3 and on: leaves and branches as they come
 *
 * A page is full at nine tenths, as bbolt's own compaction leaves it, so that what is put in later does not split every
 * page. A level is cut where at least two elements stay behind the cut: a branch of one page would be none. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bbolt/bbolt_internal.h"

#define LEVELS_MAX 32
#define NESTED_MAX 64
#define FREELIST_PAGE 2u
#define FIRST_PAGE 3u
#define OUT_BYTES (256u << 10)
#define KEEP_BEHIND 2u /* elements that stay behind a cut */

struct element {
	size_t at; /* of its key among the level's bytes, the value behind it */
	uint32_t key_len, value_len;
	uint32_t flags; /* leaves */
	uint64_t page;  /* branches */
};

struct level {
	struct element *el;
	size_t count, cap;
	size_t len; /* of all as elements of a page */
	struct buf bytes;
};

struct tree {
	struct buf name; /* of its bucket; the root has none */
	uint64_t sequence;
	struct level levels[LEVELS_MAX];
	unsigned height; /* levels in use */
	struct buf last; /* newest key */
	bool has_last;
};

struct bbolt_writer {
	int fd;
	char *name;
	uint32_t page_size;
	uint64_t txn_id;
	uint64_t next_page;
	struct buf out; /* pages that are not written yet, up to next_page */
	uint64_t out_page;
	struct tree *trees[NESTED_MAX]; /* trees[0]: the root bucket */
	unsigned depth;
};

/* ---- construction ---- */

static struct tree *tree_new(struct str name, uint64_t sequence)
{
	struct tree *t = mem_zalloc(sizeof(*t));
	buf_put(&t->name, name.p, name.len);
	t->sequence = sequence;
	t->height = 1;
	return t;
}

static void tree_free(struct tree *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < LEVELS_MAX; i++) {
		mem_free(t->levels[i].el);
		buf_fini(&t->levels[i].bytes);
	}
	buf_fini(&t->name);
	buf_fini(&t->last);
	mem_free(t);
}

struct bbolt_writer *bbolt_writer_new(int fd, const char *name, uint32_t page_size, uint64_t txn_id)
{
	assert(page_size >= 1024 && page_size <= 65536 && (page_size & (page_size - 1)) == 0 && txn_id >= 2);
	struct bbolt_writer *w = mem_zalloc(sizeof(*w));
	w->fd = fd;
	w->name = mem_strdup(name);
	w->page_size = page_size;
	w->txn_id = txn_id;
	w->next_page = w->out_page = FIRST_PAGE;
	w->trees[0] = tree_new((struct str){ "", 0 }, 0);
	w->depth = 1;
	return w;
}

void bbolt_writer_free(struct bbolt_writer *w)
{
	if (!w)
		return;
	for (unsigned i = 0; i < w->depth; i++)
		tree_free(w->trees[i]);
	buf_fini(&w->out);
	mem_free(w->name);
	mem_free(w);
}

uint64_t bbolt_writer_bytes(const struct bbolt_writer *w)
{
	return w->next_page * w->page_size;
}

/* ---- the file ---- */

static int write_at(struct bbolt_writer *w, const void *bytes, size_t len, uint64_t at, struct err *e)
{
	const uint8_t *p = bytes;
	while (len > 0) {
		const ssize_t n = pwrite(w->fd, p, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			const int errnum = n < 0 ? errno : ENOSPC;
			const bool is_full = errnum == ENOSPC || errnum == EDQUOT || errnum == EFBIG;
			return err_set_errno(e, is_full ? ERR_FULL : ERR_IO, errnum, "could not write %s", w->name);
		}
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int flush(struct bbolt_writer *w, struct err *e)
{
	const int rc = write_at(w, w->out.data, w->out.len, w->out_page * w->page_size, e);
	buf_clear(&w->out);
	w->out_page = w->next_page;
	return rc;
}

/* ---- pages ---- */

static size_t element_len(const struct element *el)
{
	return ELEMENT + el->key_len + el->value_len;
}

static void put_element(uint8_t *to, const struct element *el, bool is_leaf, size_t data_at)
{
	if (is_leaf) {
		put_le32(to, el->flags);
		put_le32(to + 4, (uint32_t)data_at);
		put_le32(to + 8, el->key_len);
		put_le32(to + 12, el->value_len);
	} else {
		put_le32(to, (uint32_t)data_at);
		put_le32(to + 4, el->key_len);
		put_le64(to + 8, el->page);
	}
}

/* The first n elements of a level as one page; *id is its number. */
static int lay_page(struct bbolt_writer *w, const struct level *l, size_t n, bool is_leaf, uint64_t *id, struct err *e)
{
	size_t len = PAGE_HEADER;
	for (size_t i = 0; i < n; i++)
		len += element_len(&l->el[i]);
	const uint64_t pages = (len + w->page_size - 1) / w->page_size;
	assert(n <= UINT16_MAX);
	uint8_t *p = buf_reserve(&w->out, (size_t)pages * w->page_size);
	memset(p, 0, (size_t)pages * w->page_size);
	*id = w->next_page;
	const struct page_header h = { *id, is_leaf ? PAGE_LEAF : PAGE_BRANCH, (uint16_t)n, (uint32_t)(pages - 1) };
	page_header_put(p, &h);
	size_t data = PAGE_HEADER + n * ELEMENT;
	for (size_t i = 0; i < n; i++) {
		const struct element *el = &l->el[i];
		const size_t at = PAGE_HEADER + i * ELEMENT;
		put_element(p + at, el, is_leaf, data - at);
		memcpy(p + data, l->bytes.data + el->at, el->key_len + el->value_len);
		data += el->key_len + el->value_len;
	}
	buf_advance(&w->out, (size_t)pages * w->page_size);
	w->next_page += pages;
	return w->out.len >= OUT_BYTES ? flush(w, e) : 0;
}

static void drop_first(struct level *l, size_t n)
{
	const size_t bytes = n < l->count ? l->el[n].at : l->bytes.len;
	l->len -= bytes + n * ELEMENT;
	buf_consume(&l->bytes, bytes);
	memmove(l->el, l->el + n, (l->count - n) * sizeof(*l->el));
	l->count -= n;
	for (size_t i = 0; i < l->count; i++)
		l->el[i].at -= bytes;
}

static void add_element(struct level *l, struct element el, struct str key, struct str value)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 32;
		l->el = mem_realloc(l->el, l->cap * sizeof(*l->el));
	}
	el.at = l->bytes.len;
	el.key_len = (uint32_t)key.len;
	el.value_len = (uint32_t)value.len;
	buf_put(&l->bytes, key.p, key.len);
	buf_put(&l->bytes, value.p, value.len);
	l->el[l->count++] = el;
	l->len += element_len(&el);
}

/* How many of a level's elements make a page, two at least; 0: it is not full yet. */
static size_t full_page(const struct bbolt_writer *w, const struct level *l)
{
	const size_t limit = (size_t)w->page_size * 9 / 10;
	size_t len = PAGE_HEADER, n = 0;
	if (l->count < 2 * KEEP_BEHIND || l->len + PAGE_HEADER <= limit)
		return 0;
	while (n < l->count && (n < KEEP_BEHIND || len + element_len(&l->el[n]) <= limit) && n < UINT16_MAX - 1)
		len += element_len(&l->el[n++]);
	return l->count - n >= KEEP_BEHIND ? n : 0;
}

static int cut(struct bbolt_writer *w, struct tree *t, unsigned at, size_t n, struct err *e)
{
	struct level *l = &t->levels[at];
	struct element el = { 0 };
	if (at + 1 == LEVELS_MAX)
		return err_set(e, ERR_TOO_LARGE, "%s: a tree of more than %u levels", w->name, LEVELS_MAX);
	int rc = lay_page(w, l, n, at == 0, &el.page, e);
	if (rc)
		return rc;
	if (t->height == at + 1)
		t->height++;
	const struct str key = { (const char *)l->bytes.data + l->el[0].at, l->el[0].key_len };
	add_element(&t->levels[at + 1], el, key, (struct str){ "", 0 });
	drop_first(l, n);
	return 0;
}

static int cut_full(struct bbolt_writer *w, struct tree *t, struct err *e)
{
	for (unsigned at = 0; at < t->height; at++) {
		size_t n;
		while ((n = full_page(w, &t->levels[at])) > 0) {
			const int rc = cut(w, t, at, n, e);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* What is left of each level, from the leaves up; the topmost page is the root. */
static int finish_tree(struct bbolt_writer *w, struct tree *t, uint64_t *root, struct err *e)
{
	for (unsigned at = 0;; at++) {
		struct level *l = &t->levels[at];
		if (at + 1 == t->height)
			return lay_page(w, l, l->count, at == 0, root, e);
		const int rc = cut(w, t, at, l->count, e);
		if (rc)
			return rc;
	}
}

/* ---- records and buckets ---- */

static int check_key(struct bbolt_writer *w, struct tree *t, struct str key, struct err *e)
{
	if (key.len == 0 || key.len > BBOLT_KEY_MAX)
		return err_set(e, ERR_INVALID, "%s: a key of %zu bytes; 1 to %d fit", w->name, key.len, BBOLT_KEY_MAX);
	if (t->has_last && str_cmp(key, (struct str){ (const char *)t->last.data, t->last.len }) <= 0)
		return err_set(e, ERR_INVALID, "%s: key \"" STR_FMT "\" does not follow the one before it", w->name,
		               STR_ARG(key));
	buf_clear(&t->last);
	buf_put(&t->last, key.p, key.len);
	t->has_last = true;
	return 0;
}

int bbolt_writer_put(struct bbolt_writer *w, struct str key, struct str value, struct err *e)
{
	struct tree *t = w->trees[w->depth - 1];
	if (w->depth == 1)
		return err_set(e, ERR_INVALID, "%s: a record outside of any bucket", w->name);
	if (value.len > BBOLT_RUN_MAX / 2)
		return err_set(e, ERR_TOO_LARGE, "%s: a value of %zu bytes", w->name, value.len);
	const int rc = check_key(w, t, key, e);
	if (rc)
		return rc;
	add_element(&t->levels[0], (struct element){ 0 }, key, value);
	return cut_full(w, t, e);
}

int bbolt_writer_begin_bucket(struct bbolt_writer *w, struct str name, uint64_t sequence, struct err *e)
{
	if (w->depth == NESTED_MAX)
		return err_set(e, ERR_TOO_LARGE, "%s: buckets nested more than %d deep", w->name, NESTED_MAX);
	const int rc = check_key(w, w->trees[w->depth - 1], name, e);
	if (rc == 0)
		w->trees[w->depth++] = tree_new(name, sequence);
	return rc;
}

int bbolt_writer_end_bucket(struct bbolt_writer *w, struct err *e)
{
	uint8_t header[BUCKET_HEADER];
	uint64_t root;
	assert(w->depth > 1);
	struct tree *t = w->trees[w->depth - 1];
	struct tree *parent = w->trees[w->depth - 2];
	int rc = finish_tree(w, t, &root, e);
	if (rc == 0) {
		put_le64(header, root);
		put_le64(header + 8, t->sequence);
		add_element(&parent->levels[0], (struct element){ .flags = LEAF_BUCKET },
		            (struct str){ (const char *)t->name.data, t->name.len },
		            (struct str){ (const char *)header, sizeof(header) });
		rc = cut_full(w, parent, e);
	}
	w->depth--;
	tree_free(t);
	return rc;
}

/* ---- the end ---- */

static void put_meta(const struct bbolt_writer *w, uint8_t *page, unsigned id, uint64_t root)
{
	uint8_t *m = page + PAGE_HEADER;
	memset(page, 0, w->page_size);
	page_header_put(page, &(struct page_header){ id, PAGE_META, 0, 0 });
	put_le32(m, META_MAGIC);
	put_le32(m + 4, META_VERSION);
	put_le32(m + 8, w->page_size);
	put_le64(m + 16, root);
	put_le64(m + 32, FREELIST_PAGE);
	put_le64(m + 40, w->next_page);
	put_le64(m + 48, w->txn_id % 2 == id ? w->txn_id : w->txn_id - 1);
	put_le64(m + META_SUMMED, meta_checksum(m));
}

static int sync_file(struct bbolt_writer *w, struct err *e)
{
	return fsync(w->fd) == 0 ? 0 : err_set_errno(e, ERR_IO, errno, "could not sync %s", w->name);
}

int bbolt_writer_finish(struct bbolt_writer *w, struct err *e)
{
	uint64_t root;
	assert(w->depth == 1);
	int rc = finish_tree(w, w->trees[0], &root, e);
	if (rc == 0)
		rc = flush(w, e);
	if (rc == 0)
		rc = sync_file(w, e);
	if (rc)
		return rc;
	uint8_t *pages = mem_alloc((size_t)FIRST_PAGE * w->page_size);
	put_meta(w, pages, 0, root);
	put_meta(w, pages + w->page_size, 1, root);
	uint8_t *freelist = pages + (size_t)FREELIST_PAGE * w->page_size;
	memset(freelist, 0, w->page_size);
	page_header_put(freelist, &(struct page_header){ FREELIST_PAGE, PAGE_FREELIST, 0, 0 });
	rc = write_at(w, pages, (size_t)FIRST_PAGE * w->page_size, 0, e);
	mem_free(pages);
	return rc ? rc : sync_file(w, e);
}
