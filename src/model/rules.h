/* model/rules.h - names, bounds and defaults, one place for service/, fsm/, control/ and the daemon's flags.
 *
 * Predicates answer about one value. rules_check_* look at a whole request body, say which field breaks which rule
 * (ERR_INVALID, fault->code "bad_field") and need no state: what depends on stored records is fsm's.
 * Thread: any.   Source: Narad 3.2 for topics, users and remotes; the rest is veena's contract.
 */
#ifndef MODEL_RULES_H
#define MODEL_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "model/field.h"
#include "model/records.h"

/* ---- topics ---- */

#define TOPIC_NAME_MAX 200        /* bytes of a new topic's name */
#define TOPIC_STORED_NAME_MAX 255 /* names of old releases, still valid in stored records */
#define TOPIC_PARTITIONS_MIN 3    /* single-owner topics, as Narad */
#define TOPIC_PARTITIONS_MAX 108
#define TOPIC_REPLICAS_MAX 16             /* copies of one partition */
#define TOPIC_PARTITIONS_MIN_REPLICATED 1 /* when `replicas` was given */
#define TOPIC_RETENTION_MIN_MS 3600000    /* or 0 = for ever */
#define TOPIC_DEFAULT_PARTITIONS 3
#define TOPIC_DEFAULT_RETENTION_MS 604800000
#define TOPIC_DEFAULT_VISIBILITY_MS 30000
#define TOPIC_DEFAULT_MAX_IN_FLIGHT 1024
#define TOPIC_DEFAULT_MAX_ACKED_AHEAD 1024
#define TOPIC_CHILDREN_MAX 108
#define TOPIC_REMOTE_CHILDREN_MAX 16
#define TOPIC_DELAY_MAX_MS 31536000000         /* of a delayed child: one year */
#define TOPIC_DELAY_HEADROOM_MS 3600000        /* parent's retention beyond the delay */
#define TOPIC_REMOTE_RETENTION_MIN_MS 86400000 /* of a parent with remote children, or 0 */
#define INCARNATION_LEN 16                     /* hex digits of topic ids and attach epochs */

bool rule_topic_name(struct str s);        /* 1..200 of A-Za-z0-9._- and not "." or ".." */
bool rule_stored_topic_name(struct str s); /* the same up to 255 bytes: names that already exist */
bool rule_partitions(int64_t n, bool replicas_given);
bool rule_retention_ms(int64_t ms);
bool rule_incarnation(struct str s); /* 16 lower-case hex digits */

/* ---- schemas ---- */

#define SCHEMA_MAX 262144                  /* bytes of one document */
#define SCHEMA_VERSIONS_MAX 1000           /* of one topic */
#define SCHEMA_TOPIC_BYTES_MAX 4194304     /* all versions of one topic */
#define SCHEMA_CLUSTER_BYTES_MAX 268435456 /* all versions of all topics */

/* ---- members, users ---- */

#define MEMBER_ID_MAX 63
#define MEMBER_REASON_MAX 256 /* bytes of why a member is given up */
#define USER_NAME_MAX 64
#define PASSWORD_MAX 72 /* bytes: bcrypt's limit */
#define GRANT_STEM_MAX 255
#define ROOT_USER "admin"

bool rule_member_id(struct str s);     /* 1..63 of A-Za-z0-9._- and not "." or "..": server names and broker ids */
bool rule_user_name(struct str s);     /* 1..64 of the same */
bool rule_password(struct str s);      /* 1..72 bytes */
bool rule_grant_action(struct str s);  /* produce, consume, create, admin, member, observe */
bool rule_grant_pattern(struct str s); /* 0..255 of A-Za-z0-9._- and an optional final '*', not empty */

/* ---- labels and tags ---- */

#define LABEL_KEY_MAX 63
#define LABEL_VALUE_MAX 256
#define LABELS_MAX 32

bool rule_label_key(struct str s);   /* 1..63 of A-Za-z0-9._/- */
bool rule_label_value(struct str s); /* at most 256 bytes of valid UTF-8 without NUL */
/* `field` is the map's name for the fault, "labels" or "tags". Null values pass where the reader let them. */
MUST_CHECK int rules_check_labels(const struct str_map *m, const char *field, struct record_fault *f, struct err *e);

/* ---- remotes ---- */

#define REMOTE_NAME_MAX 63
#define REMOTES_MAX 64
#define REMOTE_LANES_MIN 1
#define REMOTE_LANES_MAX 8
#define REMOTE_REASON_MAX 256 /* bytes of a pause reason */
#define REMOTE_SKIPS_MAX 4000 /* kept per partition; frozen: part of what type 34 means */
#define REMOTE_URL_MAX 2048
#define REMOTE_CA_MAX 65536
#define REMOTE_PASSWORD_MIN 24

bool rule_remote_name(struct str s);  /* a-z, then up to 62 of a-z0-9- */
bool rule_remote_from(struct str s);  /* "", attach, unconsumed, earliest */
bool rule_pause_reason(struct str s); /* at most 256 bytes of UTF-8 without control characters */

/* ---- addresses ---- */

struct host_port {
	struct str host; /* name, IPv4, or IPv6 without its brackets; points into the input */
	uint16_t port;   /* 1..65535 */
	bool is_v6;
};

#define HOST_PORT_MAX 261 /* host name of 253 bytes, or a bracketed IPv6, ':' and five digits, rounded up */

/* "host:port" or "[v6]:port". False: anything else, an empty host, or a port that is not 1..65535. */
bool host_port_parse(struct str s, struct host_port *out);
bool rule_host_port(struct str s);
bool host_port_is_loopback(const struct host_port *hp); /* localhost, 127.0.0.0/8, ::1 */

/* ---- keys of idempotency ---- */

#define IDEM_KEY_MAX 64

bool rule_idem_key(struct str s); /* 1..64 printable ASCII */

/* ---- whole bodies ---- */

MUST_CHECK int rules_check_topic_create(const struct topic_create *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_topic_alter(const struct topic_alter *b, struct record_fault *f, struct err *e);
/* The shape alone; whether it is a JSON Schema is not a matter of the model. Absent or empty passes. */
MUST_CHECK int rules_check_schema(struct str schema, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_child_attach(const struct child_attach *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_grants(const struct record_list *grants, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_user_create(const struct user_create *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_member_patch(const struct member_patch *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_member_leave(const struct member_leave *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_member_lost(const struct member_lost *b, struct record_fault *f, struct err *e);
MUST_CHECK int rules_check_member_register(const struct member_register *b, struct record_fault *f, struct err *e);

/* Fills fault and error for a refusal of the caller's own; returns ERR_INVALID. */
int rules_refuse(struct record_fault *f, struct err *e, const char *field, const char *fmt, ...) PRINTF_LIKE(4, 5);

#endif /* MODEL_RULES_H */
