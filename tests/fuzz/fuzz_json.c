/* Any bytes as a JSON text: for the parser, the whole-document check, compaction, and every record and body. What is
 * accepted must come back the same from what we write. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "model/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct record_type *const types[] = {
	&topic_type,        &assignment_type,    &member_type,          &removed_member_type, &user_type,
	&remote_type,       &remote_keys_type,   &member_extra_type,    &topic_create_type,   &topic_alter_type,
	&child_attach_type, &child_pause_type,   &child_resume_type,    &child_skip_type,     &user_create_type,
	&user_grants_type,  &user_password_type, &remote_create_type,   &remote_patch_type,   &member_register_type,
	&move_set_type,     &move_complete_type, &leader_transfer_type, &server_set_type,
};

static struct str text_of(const struct buf *b)
{
	return (struct str){ (const char *)b->data, b->len };
}

static bool is_json(struct str text)
{
	struct json_reader r;
	json_reader_init(&r, text, 0);
	for (;;) {
		const size_t before = r.pos;
		const enum json_event ev = json_next(&r);
		assert(r.pos >= before && r.pos <= text.len && r.depth <= JSON_DEPTH_DEFAULT);
		if (ev == JSON_END)
			return true;
		if (ev == JSON_ERROR) {
			assert(r.error && r.error_pos <= text.len);
			return false;
		}
		assert(r.token_pos < r.pos);
	}
}

/* A document that passed is still one when it is compacted, and then does not change any more. */
static void try_document(struct str text, struct arena *a)
{
	size_t pos = 0;
	struct err e = { 0 };
	const bool json = is_json(text);
	if (json_check(text, 0, a, &pos, &e)) {
		assert(e.code == ERR_INVALID && e.msg[0] && pos <= text.len);
		return;
	}
	assert(json);
	for (int escape = 0; escape < 2; escape++) {
		struct buf once = { 0 };
		struct buf twice = { 0 };
		json_compact(&once, text, escape);
		const int rc = json_check(text_of(&once), 0, a, NULL, &e);
		assert(rc == 0);
		json_compact(&twice, text_of(&once), escape);
		assert(str_eq(text_of(&once), text_of(&twice)));
		buf_fini(&once);
		buf_fini(&twice);
	}
}

static void try_record(const struct record_type *t, struct str text, struct arena *a)
{
	struct record_fault f = { 0 };
	struct err e = { 0 };
	void *rec = arena_alloc(a, t->size);
	void *back = arena_alloc(a, t->size);
	if (record_read_json(t, text, a, rec, &f, &e)) {
		assert(e.code == ERR_INVALID && f.code && f.pos <= text.len);
		assert(strlen(f.field) < RECORD_FIELD_MAX && utf8_valid(f.field, strlen(f.field)));
		return;
	}
	struct buf once = { 0 };
	struct buf twice = { 0 };
	record_put_json(t, rec, &once);
	record_copy(t, rec, back, a);
	record_put_json(t, back, &twice);
	assert(str_eq(text_of(&once), text_of(&twice)));
	const int rc = record_read_json(t, text_of(&once), a, back, NULL, &e);
	assert(rc == 0);
	buf_clear(&twice);
	record_put_json(t, back, &twice);
	assert(str_eq(text_of(&once), text_of(&twice)));
	buf_fini(&once);
	buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct str text = { (const char *)data, size };
	struct arena a = { 0 };
	try_document(text, &a);
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		try_record(types[i], text, &a);
	arena_fini(&a);
	return 0;
}
