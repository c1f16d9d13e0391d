/* The walk over a tree of buckets: an explicit stack of pages, and one of buckets. Nothing a page says is used before
 * it was checked, and no page is entered twice, so a walk ends on every file there can be. */
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bbolt/bbolt_internal.h"

#define FRAMES_MAX 128 /* pages between the root and a leaf, over all nested buckets */
#define BUCKETS_MAX 64

/* A page under way. An inline page lies in the page of its bucket's element, which stays where it is. */
struct frame {
	uint8_t *own; /* memory of a page that was read; kept for the next one at this height */
	size_t own_cap;
	const uint8_t *page;
	size_t len;      /* of the page with its overflow pages, or of an inline page */
	uint64_t id;     /* as messages name it: of an inline page that of the page it lies in */
	uint16_t flags;  /* PAGE_BRANCH or PAGE_LEAF */
	uint16_t count;  /* elements */
	uint16_t next;   /* element to look at */
	size_t data_end; /* where the last element's bytes ended: the next one's must begin there */
};

struct bucket {
	unsigned base;   /* frames below its root page */
	struct buf last; /* key that the next one must be above, or (a branch's) not below */
	bool has_last, inclusive;
};

struct bbolt_walk {
	struct bbolt_file *file;
	struct frame frames[FRAMES_MAX];
	struct bucket buckets[BUCKETS_MAX];
	unsigned frame_count, bucket_count;
	unsigned floor; /* buckets below which the walk does not go on: 1 after bbolt_walk_bucket */
	uint8_t *seen;  /* one bit a page */
	uint64_t pages, lost;
	bool started, over;
	bool entered; /* the last item was a bucket */
	bool skipped; /* not everything is walked */
};

struct bbolt_walk *bbolt_walk_new(struct bbolt_file *f)
{
	struct bbolt_walk *w = mem_zalloc(sizeof(*w));
	w->file = f;
	w->seen = mem_zalloc((size_t)(f->meta.page_count / 8 + 1));
	return w;
}

void bbolt_walk_free(struct bbolt_walk *w)
{
	if (!w)
		return;
	for (unsigned i = 0; i < FRAMES_MAX; i++)
		mem_free(w->frames[i].own);
	for (unsigned i = 0; i < BUCKETS_MAX; i++)
		buf_fini(&w->buckets[i].last);
	mem_free(w->seen);
	mem_free(w);
}

uint64_t bbolt_walk_pages(const struct bbolt_walk *w)
{
	return w->pages;
}

uint64_t bbolt_walk_lost_pages(const struct bbolt_walk *w)
{
	return w->lost;
}

/* ---- pages ---- */

static int see(struct bbolt_walk *w, uint64_t id, uint64_t count, struct err *e)
{
	struct bbolt_file *f = w->file;
	for (uint64_t i = id; i < id + count; i++) {
		if (bit_get(w->seen, i))
			return page_corrupt(f, i, e, "the tree reaches it twice");
		if (bit_get(f->is_free, i))
			return page_corrupt(f, i, e, "it is in the tree and in the free list");
		bit_set(w->seen, i);
	}
	w->pages += count;
	return 0;
}

static int check_page(const struct bbolt_walk *w, const struct frame *fr, bool is_root, struct err *e)
{
	if (fr->flags != PAGE_BRANCH && fr->flags != PAGE_LEAF)
		return page_corrupt(w->file, fr->id, e, "neither branch nor leaf (flags 0x%02x)", fr->flags);
	if (fr->count == 0 && (!is_root || fr->flags == PAGE_BRANCH))
		return page_corrupt(w->file, fr->id, e, "it holds nothing");
	if (PAGE_HEADER + (size_t)fr->count * ELEMENT > fr->len)
		return page_corrupt(w->file, fr->id, e, "%u elements do not fit", fr->count);
	return 0;
}

static int next_frame(struct bbolt_walk *w, uint64_t id, struct frame **out, struct err *e)
{
	if (w->frame_count == FRAMES_MAX)
		return page_corrupt(w->file, id, e, "more than %d pages above it: no tree is that deep", FRAMES_MAX);
	*out = &w->frames[w->frame_count];
	return 0;
}

static void begin(struct bbolt_walk *w, struct frame *fr, const struct page_header *h)
{
	fr->flags = h->flags;
	fr->count = h->count;
	fr->next = 0;
	fr->data_end = PAGE_HEADER + (size_t)h->count * ELEMENT;
	w->frame_count++;
}

static int push_page(struct bbolt_walk *w, uint64_t id, uint64_t from, bool is_root, struct err *e)
{
	struct page_header h;
	struct frame *fr = NULL;
	if (id < 2 || id >= w->file->meta.page_count)
		return page_corrupt(w->file, from, e, "it leads to page %" PRIu64 ", the pages are 2 to %" PRIu64, id,
		                    w->file->meta.page_count - 1);
	int rc = next_frame(w, id, &fr, e);
	if (rc == 0)
		rc = see(w, id, 1, e);
	if (rc == 0)
		rc = page_read(w->file, id, &fr->own, &fr->own_cap, &h, &fr->len, e);
	if (rc == 0)
		rc = see(w, id + 1, h.overflow, e);
	if (rc)
		return rc;
	fr->page = fr->own;
	fr->id = id;
	begin(w, fr, &h);
	return check_page(w, fr, is_root, e);
}

static int push_inline(struct bbolt_walk *w, uint64_t from, struct str page, struct err *e)
{
	struct page_header h;
	struct frame *fr = NULL;
	if (page.len < PAGE_HEADER)
		return page_corrupt(w->file, from, e, "an inline bucket of %zu bytes", page.len);
	int rc = next_frame(w, from, &fr, e);
	if (rc)
		return rc;
	page_header_get((const uint8_t *)page.p, &h);
	if (h.id != 0 || h.overflow != 0 || h.flags != PAGE_LEAF)
		return page_corrupt(w->file, from, e, "an inline bucket that is no leaf");
	fr->page = (const uint8_t *)page.p;
	fr->len = page.len;
	fr->id = from;
	begin(w, fr, &h);
	return check_page(w, fr, true, e);
}

/* ---- elements ---- */

/* The bytes an element names, which must follow those of the one before it: so bbolt lays them down, and so a flipped
 * bit in a position or a length shows. */
static int element_bytes(struct bbolt_walk *w, struct frame *fr, size_t element, uint32_t pos, uint64_t len,
                         const char **out, struct err *e)
{
	if (element + pos != fr->data_end || len > fr->len - fr->data_end)
		return page_corrupt(w->file, fr->id, e, "element %u of %u: its bytes are not where they belong",
		                    fr->next - 1u, fr->count);
	*out = (const char *)fr->page + fr->data_end;
	fr->data_end += (size_t)len;
	return 0;
}

static int check_key(struct bbolt_walk *w, const struct frame *fr, struct str key, bool is_branch, struct err *e)
{
	struct bucket *b = &w->buckets[w->bucket_count - 1];
	if (key.len == 0 || key.len > BBOLT_KEY_MAX)
		return page_corrupt(w->file, fr->id, e, "element %u of %u: a key of %zu bytes", fr->next - 1u,
		                    fr->count, key.len);
	if (b->has_last) {
		const int order = str_cmp(key, (struct str){ (const char *)b->last.data, b->last.len });
		if (order < 0 || (order == 0 && !b->inclusive))
			return page_corrupt(w->file, fr->id, e, "element %u of %u: its key is out of order",
			                    fr->next - 1u, fr->count);
	}
	buf_clear(&b->last);
	buf_put(&b->last, key.p, key.len);
	b->has_last = true;
	b->inclusive = is_branch;
	return 0;
}

static int descend(struct bbolt_walk *w, struct frame *fr, struct err *e)
{
	const size_t at = PAGE_HEADER + (size_t)fr->next++ * ELEMENT;
	const uint8_t *el = fr->page + at;
	struct str key = { NULL, get_le32(el + 4) };
	int rc = element_bytes(w, fr, at, get_le32(el), key.len, &key.p, e);
	if (rc == 0)
		rc = check_key(w, fr, key, true, e);
	return rc ? rc : push_page(w, get_le64(el + 8), fr->id, false, e);
}

static int enter_bucket(struct bbolt_walk *w, const struct frame *fr, struct bbolt_item *item, struct err *e)
{
	const struct str value = item->value;
	if (value.len < BUCKET_HEADER)
		return page_corrupt(w->file, fr->id, e, "element %u of %u: a bucket of %zu bytes", fr->next - 1u,
		                    fr->count, value.len);
	if (w->bucket_count == BUCKETS_MAX)
		return page_corrupt(w->file, fr->id, e, "buckets nested %d deep", BUCKETS_MAX);
	const uint64_t root = get_le64(value.p);
	if (root != 0 && value.len != BUCKET_HEADER)
		return page_corrupt(w->file, fr->id, e, "element %u of %u: a bucket's header of %zu bytes",
		                    fr->next - 1u, fr->count, value.len);
	struct bucket *b = &w->buckets[w->bucket_count++];
	b->base = w->frame_count;
	b->has_last = false;
	item->event = BBOLT_BUCKET;
	item->sequence = get_le64(value.p + 8);
	item->value = (struct str){ NULL, 0 };
	w->entered = true;
	return root ? push_page(w, root, fr->id, true, e)
	            : push_inline(w, fr->id, (struct str){ value.p + BUCKET_HEADER, value.len - BUCKET_HEADER }, e);
}

static int take(struct bbolt_walk *w, struct frame *fr, struct bbolt_item *item, struct err *e)
{
	const size_t at = PAGE_HEADER + (size_t)fr->next++ * ELEMENT;
	const uint8_t *el = fr->page + at;
	const uint32_t flags = get_le32(el), key_len = get_le32(el + 8), value_len = get_le32(el + 12);
	const char *bytes = NULL;
	if (flags > LEAF_BUCKET)
		return page_corrupt(w->file, fr->id, e, "element %u of %u: flags 0x%" PRIx32, fr->next - 1u, fr->count,
		                    flags);
	int rc = element_bytes(w, fr, at, get_le32(el + 4), (uint64_t)key_len + value_len, &bytes, e);
	if (rc)
		return rc;
	item->key = (struct str){ bytes, key_len };
	item->value = (struct str){ bytes + key_len, value_len };
	item->depth = w->bucket_count - 1;
	rc = check_key(w, fr, item->key, false, e);
	if (rc)
		return rc;
	if (flags == LEAF_BUCKET)
		return enter_bucket(w, fr, item, e);
	if (w->bucket_count == 1)
		return page_corrupt(w->file, fr->id, e, "a record outside of any bucket");
	item->event = BBOLT_RECORD;
	return 0;
}

/* ---- the walk ---- */

static int start(struct bbolt_walk *w, struct err *e)
{
	w->started = true;
	bit_set(w->seen, 0);
	bit_set(w->seen, 1);
	w->bucket_count = 1;
	return push_page(w, w->file->meta.root, w->file->info.meta, true, e);
}

/* Everything was walked: what was neither seen nor free? The pages of the free list are in use too. */
static int count_lost(struct bbolt_walk *w, struct err *e)
{
	struct bbolt_file *f = w->file;
	if (w->floor || w->skipped || !f->info.keeps_freelist)
		return 0;
	struct page_header h;
	uint8_t *bytes = NULL;
	size_t cap = 0, len;
	int rc = page_read(f, f->meta.freelist, &bytes, &cap, &h, &len, e);
	mem_free(bytes);
	if (rc == 0)
		rc = see(w, h.id, (uint64_t)h.overflow + 1, e);
	for (uint64_t i = 0; rc == 0 && i < f->meta.page_count; i++)
		w->lost += !bit_get(w->seen, i) && !bit_get(f->is_free, i);
	return rc;
}

static int leave_bucket(struct bbolt_walk *w, struct bbolt_item *item, struct err *e)
{
	w->bucket_count--;
	item->event = BBOLT_BUCKET_END;
	item->depth = w->bucket_count - 1;
	if (w->bucket_count > w->floor)
		return 0;
	w->over = true;
	item->event = BBOLT_END;
	item->depth = 0;
	return count_lost(w, e);
}

int bbolt_walk_next(struct bbolt_walk *w, struct bbolt_item *item, struct err *e)
{
	int rc = 0;
	*item = (struct bbolt_item){ .event = BBOLT_END };
	w->entered = false;
	if (w->over)
		return 0;
	if (!w->started)
		rc = start(w, e);
	while (rc == 0) {
		struct frame *fr = &w->frames[w->frame_count - 1];
		const bool is_done = fr->next == fr->count;
		if (is_done && --w->frame_count > w->buckets[w->bucket_count - 1].base)
			continue;
		if (is_done) {
			rc = leave_bucket(w, item, e);
			break;
		}
		if (fr->flags == PAGE_LEAF) {
			rc = take(w, fr, item, e);
			break;
		}
		rc = descend(w, fr, e);
	}
	w->over = w->over || rc != 0;
	return rc;
}

void bbolt_walk_skip(struct bbolt_walk *w)
{
	if (!w->entered)
		return;
	w->entered = false;
	w->skipped = true;
	w->frame_count = w->buckets[--w->bucket_count].base;
}

int bbolt_walk_bucket(struct bbolt_walk *w, struct str name, struct err *e)
{
	struct bbolt_item item;
	int rc;
	while ((rc = bbolt_walk_next(w, &item, e)) == 0 && item.event == BBOLT_BUCKET) {
		if (str_eq(item.key, name)) {
			w->floor = 1;
			w->entered = false;
			return 0;
		}
		bbolt_walk_skip(w);
	}
	w->over = true;
	return rc ? rc : err_set(e, ERR_NOTFOUND, "%s: no bucket \"" STR_FMT "\"", w->file->name, STR_ARG(name));
}
