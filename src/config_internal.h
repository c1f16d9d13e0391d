/* config_internal.h - what config.c (layers) and config_value.c (the table and its values) share. */
#ifndef CONFIG_INTERNAL_H
#define CONFIG_INTERNAL_H

#include "config.h"

enum setting_kind {
	KIND_SWITCH,  /* bool; the flag alone says on */
	KIND_ON_OFF,  /* bool with a value */
	KIND_NUMBER,  /* uint64_t from min to max */
	KIND_WORD,    /* uint64_t: index into words */
	KIND_ID,      /* const char *: a name of rule_member_id */
	KIND_ADDRESS, /* const char *: host:port */
	KIND_PATH,    /* const char *: not empty */
	KIND_IDS,     /* struct config_list */
	KIND_PEERS,
	KIND_ADDRESSES,
	KIND_TAGS,
};

struct setting {
	const char *name;
	enum setting_kind kind;
	size_t offset; /* in struct config */
	uint64_t min, max;
	const char *const *words; /* NULL at the end */
	const char *value;        /* for --help */
	const char *help;
	bool flag_only;
};

/* One value as somebody wrote it. */
struct config_value {
	const struct setting *s;
	enum config_layer layer;
	const char *name; /* as it was written: "--id", "VEENA_ID", "id in veena.lua" */
	const char *value;
};

const struct setting *config_find(struct str name);   /* NULL: there is none */
bool config_is_file_setting(const struct setting *s); /* --config itself */
bool config_takes_many(const struct setting *s);
void config_describe(const struct setting *s, char *out, size_t cap); /* what is allowed, in words */
MUST_CHECK int config_assign(struct config *c, const struct config_value *v, struct err *e);

#endif /* CONFIG_INTERNAL_H */
