/* Any bytes as an entry envelope. What decodes whole is built again from its parts, and must decode to the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "model/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Adds the commands of `v` to the builder; false: one of them is unknown or damaged. */
static bool add_all(const struct entry_view *v, struct entry_builder *b, struct arena *a)
{
	const uint8_t *at = NULL;
	struct entry_command c;
	size_t count = 0;
	bool whole = true;
	while (entry_next(v, &at, &c)) {
		void *payload = arena_alloc(a, COMMAND_PAYLOAD_SIZE);
		struct err e = { 0 };
		const int rc = entry_command_read(&c, a, payload, &e);
		assert(rc == e.code && (rc == 0 || rc == ERR_CORRUPT || rc == ERR_VERSION));
		assert(c.type <= v->max_type);
		count++;
		if (rc == 0)
			entry_builder_add(b, (enum command_type)c.type, payload);
		else
			whole = false;
	}
	assert(count == v->count && at == v->end);
	return whole;
}

static void build_again(const struct entry_view *v, const struct entry_builder *b)
{
	struct slab *s;
	struct entry_view w;
	int rc = entry_builder_finish(b, &v->header, &s, NULL);
	assert(rc == 0); /* shortest forms only shrink it */
	entry_stamp_time(s, v->header.time_ms);
	rc = entry_decode(s->data, s->len, &w, NULL);
	assert(rc == 0);
	assert(w.header.time_ms == v->header.time_ms && w.count == v->count && w.max_type == v->max_type);
	assert(str_eq(w.header.actor, v->header.actor) && str_eq(w.header.origin, v->header.origin));
	assert(w.header.has_idem == v->header.has_idem);
	assert(str_eq(w.header.idem.key, v->header.idem.key) && str_eq(w.header.idem.body, v->header.idem.body));
	assert(w.header.idem.request_hash == v->header.idem.request_hash &&
	       w.header.idem.status == v->header.idem.status);
	slab_unref(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct entry_view v;
	struct err e = { 0 };
	const int rc = entry_decode(data, size, &v, &e);
	assert(rc == e.code);
	if (rc) {
		assert(rc == ERR_CORRUPT || rc == ERR_VERSION);
		assert(entry_max_type(data, size) == 0);
		return 0;
	}
	assert(entry_max_type(data, size) == v.max_type && entry_time_ms(data, size) == v.header.time_ms);
	struct arena a = { 0 };
	struct entry_builder b;
	entry_builder_init(&b);
	if (add_all(&v, &b, &a))
		build_again(&v, &b);
	struct buf body = { 0 };
	entry_put_body(&body, v.header.idem.body, UINT64_MAX);
	assert(body.len >= v.header.idem.body.len);
	buf_fini(&body);
	entry_builder_fini(&b);
	arena_fini(&a);
	slab_drain_pool();
	return 0;
}
