/* A whole document at once, duplicate keys included. The keys of every open object stand on one stack; when an object
 * ends, its part of the stack is sorted and neighbours are compared, so a hostile object costs n log n. */
#include <stdlib.h>

#include "model/json.h"
#include "model/utf8.h"

struct seen_key {
	struct str key; /* escapes undone */
	size_t pos;
};

static int seen_key_cmp(const void *pa, const void *pb)
{
	const struct seen_key *a = pa;
	const struct seen_key *b = pb;
	const int c = str_cmp(a->key, b->key);
	return c ? c : a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* The second of two equal keys among the stack's keys from `first` on; NULL: all differ. */
static const struct seen_key *find_repeated(struct buf *keys, size_t first)
{
	struct seen_key *k = (struct seen_key *)(void *)keys->data;
	const size_t n = keys->len / sizeof(*k);
	if (n - first < 2)
		return NULL;
	qsort(k + first, n - first, sizeof(*k), seen_key_cmp);
	for (size_t i = first + 1; i < n; i++) {
		if (str_eq(k[i - 1].key, k[i].key))
			return &k[i];
	}
	return NULL;
}

static int refuse_repeated(struct str key, struct err *e)
{
	char name[64];
	(void)utf8_copy_clean(name, sizeof(name), key); /* a cut name will do in a message */
	return err_set(e, ERR_INVALID, "the key \"%s\" occurs twice in one object", name);
}

int json_check(struct str text, size_t depth_max, struct arena *a, size_t *pos, struct err *e)
{
	struct json_reader r;
	json_reader_init(&r, text, depth_max);
	r.refuse_nul = true;
	struct buf keys = { 0 };
	size_t first[JSON_DEPTH_MAX]; /* per open container: how many keys stood on the stack when it was opened */
	size_t where = 0;
	int rc = 0;
	enum json_event ev;
	while (rc == 0 && (ev = json_next(&r)) != JSON_END) {
		if (ev == JSON_ERROR) {
			where = r.error_pos;
			rc = err_set(e, ERR_INVALID, "%s", r.error);
		} else if (ev == JSON_OBJECT) {
			first[r.depth - 1] = keys.len / sizeof(struct seen_key);
		} else if (ev == JSON_KEY) {
			const struct seen_key k = { json_token_str(&r, a), r.token_pos };
			buf_put(&keys, &k, sizeof(k));
		} else if (ev == JSON_OBJECT_END) {
			const struct seen_key *again = find_repeated(&keys, first[r.depth]);
			if (again) {
				where = again->pos;
				rc = refuse_repeated(again->key, e);
			}
			keys.len = first[r.depth] * sizeof(struct seen_key);
		}
	}
	buf_fini(&keys);
	if (rc && pos)
		*pos = where;
	return rc;
}
