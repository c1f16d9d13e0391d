/* Any bytes as msgpack: for the check, the reader, and the payload of every entry type. What is accepted must come back
 * the same from what we write. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "model/commands.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_anything(struct mp_reader *r)
{
	switch (mp_peek(r)) {
	case MP_NIL: (void)mp_read_nil(r); break;
	case MP_BOOL: (void)mp_read_bool(r); break;
	case MP_INT: (void)mp_read_i64(r); break; /* values are not looked at here, only that reading ends */
	case MP_STR: (void)mp_read_str(r); break;
	case MP_BIN: (void)mp_read_bin(r); break;
	case MP_ARRAY: (void)mp_read_array(r); break;
	case MP_MAP: (void)mp_read_map(r); break;
	case MP_FLOAT:
	case MP_EXT: mp_read_skip(r); break;
	case MP_NONE: mp_read_fail(r, "the end"); break;
	}
}

/* The reader looks after itself, with or without mp_check before it. */
static void try_reader(const uint8_t *data, size_t size)
{
	struct mp_reader r;
	mp_reader_init(&r, data, size);
	while (mp_read_ok(&r) && r.p < r.end) {
		const uint8_t *before = r.p;
		read_anything(&r);
		assert(r.p <= r.end && (r.p > before || !mp_read_ok(&r)));
	}
	mp_reader_init(&r, data, size);
	mp_read_skip(&r);
	if (mp_check(data, size, NULL) == 0)
		assert(mp_read_end(&r));
}

static void try_payload(const struct record_type *t, const uint8_t *data, size_t size, struct arena *a)
{
	struct err e = { 0 };
	void *rec = arena_alloc(a, t->size);
	if (record_read_mp(t, data, size, a, rec, &e)) {
		assert(e.code == ERR_CORRUPT && e.msg[0]);
		return;
	}
	struct buf once = { 0 };
	struct buf twice = { 0 };
	struct buf json = { 0 };
	struct mp_writer w = { .out = &once };
	record_write_mp(t, rec, &w);
	record_put_json(t, rec, &json);
	const int rc = record_read_mp(t, once.data, once.len, a, rec, &e);
	assert(rc == 0);
	w.out = &twice;
	record_write_mp(t, rec, &w);
	assert(str_eq((struct str){ (const char *)once.data, once.len },
	              (struct str){ (const char *)twice.data, twice.len }));
	buf_fini(&once);
	buf_fini(&twice);
	buf_fini(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena a = { 0 };
	try_reader(data, size);
	for (unsigned type = 0; type <= COMMAND_MAX; type++) {
		const struct command_info *info = command_info(type);
		if (info)
			try_payload(info->payload, data, size, &a);
	}
	arena_fini(&a);
	return 0;
}
