/* Settings: type 76. A row of x_settings is a name and a decimal number; what is not patched has none. */
#include "fsm/settings.h"

#include <inttypes.h>
#include <stdio.h>

#include "fsm/fsm_internal.h"

const struct fsm_setting_info fsm_settings[FSM_SETTING_COUNT] = {
#define SETTING_ROW(id, word, least, most, value) { word, least, most, value },
	FSM_SETTING_MAP(SETTING_ROW)
#undef SETTING_ROW
};

bool fsm_setting_find(struct str name, enum fsm_setting *out)
{
	for (int s = 0; s < FSM_SETTING_COUNT; s++) {
		if (str_is(name, fsm_settings[s].name)) {
			*out = (enum fsm_setting)s;
			return true;
		}
	}
	return false;
}

int64_t fsm_setting_value(const struct fsm *f, enum fsm_setting s, int64_t otherwise)
{
	const int64_t v = atomic_load(&f->settings[s]);
	return v == SETTING_UNSET ? otherwise : v;
}

int fsm_get_setting(struct store_txn *txn, enum fsm_setting s, int64_t *out)
{
	struct str v;
	int rc = store_get(txn, STORE_X_SETTINGS, str_of(fsm_settings[s].name), &v);
	if (rc)
		return rc;
	return i64_parse(v, out) ? 0 : ERR_CORRUPT;
}

int settings_load(struct store_txn *txn, int64_t *out)
{
	for (int s = 0; s < FSM_SETTING_COUNT; s++) {
		int rc = fsm_get_setting(txn, (enum fsm_setting)s, &out[s]);
		if (rc == ERR_NOTFOUND)
			out[s] = SETTING_UNSET;
		else if (rc)
			return rc;
	}
	return 0;
}

void settings_write(struct json_writer *w, struct str name, int64_t value)
{
	json_begin_object(w);
	json_field_str(w, "name", name);
	json_field_i64(w, "value", value);
	json_end_object(w);
}

static int unset(struct apply *a, enum fsm_setting s, struct str name)
{
	struct buf record = { 0 };
	struct json_writer w = { .out = &record };
	int64_t last;
	int rc = fsm_get_setting(a->txn, s, &last);
	if (rc)
		return rc == ERR_NOTFOUND ? 0 : rc;
	settings_write(&w, name, last);
	notes_gone(a, FSM_DOMAIN_SETTINGS, name, (struct str){ (const char *)record.data, record.len },
	           (struct str){ "", 0 });
	fsm_touch(a, FSM_DOMAIN_SETTINGS);
	buf_fini(&record);
	a->work->state.settings[s] = SETTING_UNSET;
	return fsm_del(a, STORE_X_SETTINGS, name);
}

int fsm_setting_set(struct apply *a, const void *command)
{
	const struct cmd_setting *c = command;
	enum fsm_setting s;
	char text[24];
	if (!fsm_setting_find(c->name, &s) ||
	    (c->value.set && (c->value.value < fsm_settings[s].least || c->value.value > fsm_settings[s].most)))
		return FSM_INVALID;
	if (is_judging(a))
		return 0;
	if (!c->value.set)
		return unset(a, s, c->name);
	if (a->work->state.settings[s] == c->value.value)
		return 0;
	a->work->state.settings[s] = c->value.value;
	fsm_note(a, FSM_DOMAIN_SETTINGS, c->name, FSM_OP_PUT);
	const int len = snprintf(text, sizeof(text), "%" PRId64, c->value.value);
	return fsm_put(a, STORE_X_SETTINGS, c->name, (struct str){ text, (size_t)len }, 0);
}
