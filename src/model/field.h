/* model/field.h - one table per record, from which every conversion is made.
 *
 * A struct record_type lists the fields of a C struct in the order they are written. From it come JSON in (strict),
 * JSON out (as Go's encoding/json writes the same struct), msgpack in and out (one array in table order, nil for
 * absent), deep copies, and a walk with callbacks from which control/ makes Lua values without Lua being known here.
 *
 * Absent and empty. A string, list or map is absent when its pointer is NULL and empty when only its length is 0;
 * readers keep that distinction. Numbers and flags that must tell absent from zero are struct opt_*.
 *
 * Ownership: strings and raw documents read from JSON or msgpack point into the input where they stand there without
 * escapes, else into the arena; lists, maps and sub-records live in the arena. So a record is good while both its input
 * and the arena are; record_copy makes one that needs only an arena.
 * Thread: any; tables are constant.
 */
#ifndef MODEL_FIELD_H
#define MODEL_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"
#include "model/json.h"
#include "model/mp.h"

/* ---- member types ---- */

struct opt_i64 {
	int64_t value; /* 0 unless set */
	bool set;
	bool null; /* JSON said null (FIELD_NULLABLE); then not set */
};

struct opt_u64 {
	uint64_t value;
	bool set;
	bool null;
};

struct opt_bool {
	bool value;
	bool set;
	bool null;
};

struct str_list {
	const struct str *items; /* NULL = absent */
	size_t count;
};

struct i64_list {
	const int64_t *items;
	size_t count;
};

/* Sub-records of the table's `sub` type: assign `items` to a pointer of their struct. */
struct record_list {
	const void *items;
	size_t count;
};

struct str_pair {
	struct str key;
	struct str value; /* p NULL: JSON said null (FIELD_NULL_VALUES) */
};

/* Sorted by key bytes, each key once, as Go writes a map. Labels and tags. */
struct str_map {
	const struct str_pair *items;
	size_t count;
};

struct offsets_item {
	int64_t key; /* partition, >= 0 */
	struct i64_list offsets;
};

/* Partition to offsets; sorted by the key's decimal text ("10" before "2"), as Go writes a map of integers. */
struct offsets_map {
	const struct offsets_item *items;
	size_t count;
};

/* ---- tables ---- */

enum field_kind {
	FIELD_STR,         /* struct str */
	FIELD_BYTES,       /* struct str; base64 in JSON, bin in msgpack */
	FIELD_JSON,        /* struct str: one JSON document as text, "null" included; str in msgpack */
	FIELD_BOOL,        /* bool */
	FIELD_I64,         /* int64_t */
	FIELD_U64,         /* uint64_t */
	FIELD_U32,         /* uint32_t */
	FIELD_OPT_BOOL,    /* struct opt_bool */
	FIELD_OPT_I64,     /* struct opt_i64 */
	FIELD_OPT_U64,     /* struct opt_u64 */
	FIELD_STR_LIST,    /* struct str_list */
	FIELD_I64_LIST,    /* struct i64_list */
	FIELD_STR_MAP,     /* struct str_map */
	FIELD_OFFSETS_MAP, /* struct offsets_map */
	FIELD_RECORD,      /* a struct of type `sub`, embedded */
	FIELD_RECORD_PTR,  /* const struct of type `sub` *; NULL = absent */
	FIELD_RECORD_LIST, /* struct record_list */
	FIELD_RECORD_MAP,  /* struct record_list whose structs begin with `struct str key`, sorted by it; an object in
	                      JSON */
};

enum field_flag {
	FIELD_REQUIRED = 1 << 0,    /* JSON in: must be there */
	FIELD_OMITEMPTY = 1 << 1,   /* out: left out when zero or empty (Go's omitempty) */
	FIELD_OPTIONAL = 1 << 2,    /* out: left out when absent; opt_* and RECORD_PTR always behave so */
	FIELD_NULLABLE = 1 << 3,    /* JSON in: null is allowed and reads as absent (opt_*: noted) */
	FIELD_NULL_VALUES = 1 << 4, /* STR_MAP, JSON in: null values are allowed */
	FIELD_SECRET = 1 << 5,      /* left out of what is written with RECORD_PUBLIC */
};

struct record_type;

struct field {
	const char *name; /* in JSON */
	uint8_t kind;     /* enum field_kind */
	uint8_t flags;    /* enum field_flag */
	uint16_t offset;  /* of the member in the struct */
	const struct record_type *sub;
};

struct record_type {
	const char *name; /* for messages: "topic" */
	const struct field *fields;
	size_t count; /* at most RECORD_FIELDS_MAX */
	size_t size;  /* of the struct */
};

#define RECORD_FIELDS_MAX 32

/* A table is an array of FIELD(kind, tag, member, "name", flags), and FIELD_SUB(..., sub) for sub-records of struct
 * sub, whose table is sub_type. The member's C type is checked against the kind when the table is compiled. */
#define FIELD_CTYPE_STR struct str
#define FIELD_CTYPE_BYTES struct str
#define FIELD_CTYPE_JSON struct str
#define FIELD_CTYPE_BOOL bool
#define FIELD_CTYPE_I64 int64_t
#define FIELD_CTYPE_U64 uint64_t
#define FIELD_CTYPE_U32 uint32_t
#define FIELD_CTYPE_OPT_BOOL struct opt_bool
#define FIELD_CTYPE_OPT_I64 struct opt_i64
#define FIELD_CTYPE_OPT_U64 struct opt_u64
#define FIELD_CTYPE_STR_LIST struct str_list
#define FIELD_CTYPE_I64_LIST struct i64_list
#define FIELD_CTYPE_STR_MAP struct str_map
#define FIELD_CTYPE_OFFSETS_MAP struct offsets_map
#define FIELD_CTYPE_RECORD(sub) struct sub
#define FIELD_CTYPE_RECORD_PTR(sub) const struct sub *
#define FIELD_CTYPE_RECORD_LIST(sub) struct record_list
#define FIELD_CTYPE_RECORD_MAP(sub) struct record_list

#define FIELD(kind_, tag, member, name_, flags_)                                                                       \
	{                                                                                                              \
		.name = (name_), .kind = FIELD_##kind_, .flags = (flags_),                                             \
		.offset = offsetof(struct tag, member) + _Generic(((struct tag *)0)->member, FIELD_CTYPE_##kind_ : 0)  \
	}
#define FIELD_SUB(kind_, tag, member, name_, flags_, sub_)                                                             \
	{                                                                                                              \
		.name = (name_), .kind = FIELD_##kind_, .flags = (flags_),                                             \
		.offset =                                                                                              \
		    offsetof(struct tag, member) + _Generic(((struct tag *)0)->member, FIELD_CTYPE_##kind_(sub_) : 0), \
		.sub = &sub_##_type                                                                                    \
	}
#define RECORD_TYPE(name_, tag, table)                                                                                 \
	{                                                                                                              \
		.name = (name_), .fields = (table), .count = sizeof(table) / sizeof((table)[0]),                       \
		.size = sizeof(struct tag)                                                                             \
	}

/* ---- what was wrong with a record from outside ---- */

#define RECORD_FIELD_MAX 160

/* For the API's `code` and `field`. Also filled by the rules of rules.h. */
struct record_fault {
	const char *code;             /* "bad_json", "unknown_field" or "bad_field"; static */
	char field[RECORD_FIELD_MAX]; /* path, "grants[1].action"; "" = no field is to blame; UTF-8, cut if long */
	size_t pos;                   /* offset in the text */
};

/* ---- conversions ---- */

/* Reads one JSON object into `out` (a struct of t->size bytes, zero where nothing was said). Refuses what json.h
 * refuses, \u0000, unknown and repeated keys (inside raw documents too), wrong types, integers with fraction or
 * exponent or out of range, null where it is not allowed, missing required fields. ERR_INVALID fills `e` and `fault`
 * (each may be NULL) and leaves `out` untouched. */
MUST_CHECK int record_read_json(const struct record_type *t, struct str json, struct arena *a, void *out,
                                struct record_fault *fault, struct err *e);

enum record_write_flag {
	RECORD_PUBLIC = 1 << 0, /* without FIELD_SECRET fields */
};

void record_write_json(const struct record_type *t, const void *rec, unsigned flags, struct json_writer *w);
/* Only the members, inside an object the caller opened and will go on with. */
void record_write_json_fields(const struct record_type *t, const void *rec, unsigned flags, struct json_writer *w);
/* The whole object, appended to a buffer: the stored form of a record. */
void record_put_json(const struct record_type *t, const void *rec, struct buf *out);

void record_write_mp(const struct record_type *t, const void *rec, struct mp_writer *w);
/* Reads one msgpack array of exactly t->count elements; checks the bytes with mp_check first. ERR_CORRUPT names the
 * field and leaves `out` untouched. */
MUST_CHECK int record_read_mp(const struct record_type *t, const void *bytes, size_t len, struct arena *a, void *out,
                              struct err *e);

/* Deep copy: everything `dst` points to lives in the arena. */
void record_copy(const struct record_type *t, const void *src, void *dst, struct arena *a);

/* The field of that name, or NULL. */
const struct field *record_field(const struct record_type *t, struct str name);

/* Orders of struct str_map, RECORD_MAP (by key bytes) and struct offsets_map (by decimal text), for makers of maps. */
int offsets_key_cmp(int64_t a, int64_t b);

/* ---- the walk ----
 *
 * Calls back in the order of the table, as a JSON writer would be called; what JSON would leave out is left out. Bytes
 * come undecorated (put_bytes), raw documents as text (put_json). The walk holds no memory and no lock, so a callback
 * may longjmp out of it. All members must be set. */
struct record_visitor {
	void (*begin_object)(void *arg, size_t count); /* at most so many members */
	void (*end_object)(void *arg);
	void (*begin_array)(void *arg, size_t count);
	void (*end_array)(void *arg);
	void (*key)(void *arg, struct str key);
	void (*put_str)(void *arg, struct str s);
	void (*put_bytes)(void *arg, struct str bytes);
	void (*put_json)(void *arg, struct str doc);
	void (*put_bool)(void *arg, bool v);
	void (*put_i64)(void *arg, int64_t v);
	void (*put_u64)(void *arg, uint64_t v);
	void (*put_null)(void *arg);
};

void record_visit(const struct record_type *t, const void *rec, unsigned flags, const struct record_visitor *v,
                  void *arg);
void record_visit_fields(const struct record_type *t, const void *rec, unsigned flags, const struct record_visitor *v,
                         void *arg); /* without the outer begin_object and end_object */

#endif /* MODEL_FIELD_H */
