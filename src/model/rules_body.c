/* Whole request bodies, judged without any state. The sentence says what is allowed. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/rules.h"
#include "model/utf8.h"

#define NAME_RULE "letters, digits, '.', '_' and '-', not '.' or '..'"

int rules_refuse(struct record_fault *f, struct err *e, const char *field, const char *fmt, ...)
{
	if (f) {
		f->code = "bad_field";
		f->pos = 0;
		(void)utf8_copy_clean(f->field, sizeof(f->field), str_of(field)); /* the header allows a cut */
	}
	char what[256];
	va_list ap;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap); /* a cut sentence is still a sentence */
	va_end(ap);
	return err_set(e, ERR_INVALID, "%s%s%s", field, *field ? ": " : "", what);
}

static int check_topic_name(struct str name, const char *field, struct record_fault *f, struct err *e)
{
	if (rule_topic_name(name))
		return 0;
	return rules_refuse(f, e, field, "a topic's name is 1 to %d bytes of " NAME_RULE, TOPIC_NAME_MAX);
}

/* Of a topic that is there, maybe from an old release. */
static int check_stored_name(struct str name, const char *field, struct record_fault *f, struct err *e)
{
	if (rule_stored_topic_name(name))
		return 0;
	return rules_refuse(f, e, field, "a topic's name is 1 to %d bytes of " NAME_RULE, TOPIC_STORED_NAME_MAX);
}

/* 0 asks for the default, as in Narad. */
static int check_partitions(const struct opt_i64 *n, bool replicas_given, struct record_fault *f, struct err *e)
{
	if (!n->set || n->value == 0 || rule_partitions(n->value, replicas_given))
		return 0;
	return rules_refuse(f, e, "partitions", "must be %d to %d",
	                    replicas_given ? TOPIC_PARTITIONS_MIN_REPLICATED : TOPIC_PARTITIONS_MIN,
	                    TOPIC_PARTITIONS_MAX);
}

static int check_replication(const struct opt_i64 *replicas, const struct opt_i64 *lag, struct record_fault *f,
                             struct err *e)
{
	if (replicas->set && (replicas->value < 1 || replicas->value > TOPIC_REPLICAS_MAX))
		return rules_refuse(f, e, "replicas", "must be 1 to %d", TOPIC_REPLICAS_MAX);
	if (lag->set && lag->value < 0)
		return rules_refuse(
		    f, e, "replica_lag",
		    "must be the number of entries a copy may lack and be in sync, or 0 for the setting");
	return 0;
}

static int check_retention(const struct opt_i64 *ms, struct record_fault *f, struct err *e)
{
	if (!ms->set || rule_retention_ms(ms->value))
		return 0;
	return rules_refuse(f, e, "retention_ms", "must be 0 (keep for ever) or at least %d", TOPIC_RETENTION_MIN_MS);
}

static int check_not_negative(const struct opt_i64 *n, const char *field, struct record_fault *f, struct err *e)
{
	if (!n->set || n->value >= 0)
		return 0;
	return rules_refuse(f, e, field, "must not be negative");
}

/* The shape alone; whether it is a JSON Schema is not a matter of the model. */
int rules_check_schema(struct str schema, struct record_fault *f, struct err *e)
{
	if (schema.len == 0)
		return 0;
	if (schema.len > SCHEMA_MAX)
		return rules_refuse(f, e, "schema", "%zu bytes, at most %d are allowed", schema.len, SCHEMA_MAX);
	if (schema.p[0] != '{' && !str_is(schema, "true"))
		return rules_refuse(f, e, "schema", "must be an object or true");
	return 0;
}

static int check_delay(const struct opt_i64 *ms, const char *field, struct record_fault *f, struct err *e)
{
	if (!ms->set || (ms->value >= 0 && ms->value <= TOPIC_DELAY_MAX_MS))
		return 0;
	return rules_refuse(f, e, field, "must be 0 to %" PRId64 " (one year)", (int64_t)TOPIC_DELAY_MAX_MS);
}

int rules_check_topic_create(const struct topic_create *b, struct record_fault *f, struct err *e)
{
	int rc;
	if ((rc = check_topic_name(b->name, "name", f, e)) ||
	    (rc = check_partitions(&b->partitions, b->replicas.set, f, e)) ||
	    (rc = check_retention(&b->retention_ms, f, e)) ||
	    (rc = check_not_negative(&b->visibility_timeout_ms, "visibility_timeout_ms", f, e)) ||
	    (rc = check_not_negative(&b->max_in_flight_per_partition, "max_in_flight_per_partition", f, e)) ||
	    (rc = check_not_negative(&b->max_acked_ahead_per_partition, "max_acked_ahead_per_partition", f, e)) ||
	    (rc = rules_check_schema(b->schema, f, e)) ||
	    (rc = check_delay(&b->fanout_delay_ms, "fanout_delay_ms", f, e)) ||
	    (rc = check_replication(&b->replicas, &b->replica_lag, f, e)) ||
	    (rc = rules_check_labels(&b->labels, "labels", f, e)))
		return rc;
	if (b->parent.len == 0) {
		if (b->fanout_delay_ms.value)
			return rules_refuse(f, e, "fanout_delay_ms", "needs a parent");
		return 0;
	}
	if ((rc = check_stored_name(b->parent, "parent", f, e)))
		return rc;
	if (str_eq(b->parent, b->name))
		return rules_refuse(f, e, "parent", "a topic cannot be its own parent");
	return 0;
}

int rules_check_topic_alter(const struct topic_alter *b, struct record_fault *f, struct err *e)
{
	const bool more_partitions = b->partitions.set && b->partitions.value != 0;
	if (!more_partitions && !b->retention_ms.set && !b->max_in_flight_per_partition.set &&
	    !b->max_acked_ahead_per_partition.set && b->schema.len == 0 && !b->labels.items && !b->replicas.set &&
	    !b->unclean.set && !b->replica_lag.set && !b->replica_lag.null)
		return rules_refuse(f, e, "",
		                    "nothing to change: give retention_ms, max_in_flight_per_partition, "
		                    "max_acked_ahead_per_partition, partitions, schema, replicas, unclean, replica_lag "
		                    "or labels");
	int rc;
	if (b->partitions.value < 0 || b->partitions.value > TOPIC_PARTITIONS_MAX)
		return rules_refuse(f, e, "partitions", "must be more than now and at most %d", TOPIC_PARTITIONS_MAX);
	if ((rc = check_retention(&b->retention_ms, f, e)) ||
	    (rc = check_not_negative(&b->max_in_flight_per_partition, "max_in_flight_per_partition", f, e)) ||
	    (rc = check_not_negative(&b->max_acked_ahead_per_partition, "max_acked_ahead_per_partition", f, e)) ||
	    (rc = rules_check_schema(b->schema, f, e)) ||
	    (rc = check_not_negative(&b->schema_base_version, "schema_base_version", f, e)) ||
	    (rc = check_replication(&b->replicas, &b->replica_lag, f, e)) ||
	    (rc = rules_check_labels(&b->labels, "labels", f, e)))
		return rc;
	if (b->schema_base_version.set && b->schema.len == 0)
		return rules_refuse(f, e, "schema_base_version", "needs a schema");
	return 0;
}

static int check_remote_form(const struct child_attach *b, struct record_fault *f, struct err *e)
{
	if (!rule_remote_name(b->remote))
		return rules_refuse(f, e, "remote", "a remote's name is a to z, then up to %d of a-z, 0-9 and '-'",
		                    REMOTE_NAME_MAX - 1);
	if (b->remote_topic.len) {
		const int rc = check_topic_name(b->remote_topic, "remote_topic", f, e);
		if (rc)
			return rc;
	}
	if (!rule_remote_from(b->from))
		return rules_refuse(f, e, "from", "must be attach, unconsumed or earliest");
	if (b->lanes.set && (b->lanes.value < REMOTE_LANES_MIN || b->lanes.value > REMOTE_LANES_MAX))
		return rules_refuse(f, e, "lanes", "must be %d to %d", REMOTE_LANES_MIN, REMOTE_LANES_MAX);
	return 0;
}

int rules_check_child_attach(const struct child_attach *b, struct record_fault *f, struct err *e)
{
	int rc;
	if ((rc = b->remote.len ? check_topic_name(b->child, "child", f, e)
	                        : check_stored_name(b->child, "child", f, e)) ||
	    (rc = check_delay(&b->delay_ms, "delay_ms", f, e)))
		return rc;
	if (b->remote.len)
		return check_remote_form(b, f, e);
	if (b->remote_topic.len || b->from.len || b->lanes.set || b->dry_run.value)
		return rules_refuse(f, e, "remote", "remote_topic, from, lanes and dry_run need a remote");
	return 0;
}

static int check_grant(const struct grant *g, size_t i, struct record_fault *f, struct err *e)
{
	char field[64];
	if (!rule_grant_action(g->action)) {
		(void)snprintf(field, sizeof(field), "grants[%zu].action", i); /* both always fit */
		return rules_refuse(f, e, field, "must be produce, consume, create, admin, member or observe");
	}
	(void)snprintf(field, sizeof(field), "grants[%zu].patterns", i);
	if (str_is(g->action, "admin") || str_is(g->action, "observe")) {
		if (g->patterns.count)
			return rules_refuse(f, e, field, STR_FMT " takes no patterns", STR_ARG(g->action));
		return 0;
	}
	if (g->patterns.count == 0)
		return rules_refuse(f, e, field, STR_FMT " needs at least one pattern", STR_ARG(g->action));
	for (size_t k = 0; k < g->patterns.count; k++) {
		if (!rule_grant_pattern(g->patterns.items[k]))
			return rules_refuse(f, e, field,
			                    "pattern %zu: up to %d letters, digits, '.', '_', '-', and a final '*'", k,
			                    GRANT_STEM_MAX);
	}
	return 0;
}

int rules_check_grants(const struct record_list *grants, struct record_fault *f, struct err *e)
{
	const struct grant *g = grants->items;
	for (size_t i = 0; i < grants->count; i++) {
		const int rc = check_grant(&g[i], i, f, e);
		if (rc)
			return rc;
	}
	return 0;
}

int rules_check_user_create(const struct user_create *b, struct record_fault *f, struct err *e)
{
	if (!rule_user_name(b->username))
		return rules_refuse(f, e, "username", "a user's name is 1 to %d bytes of " NAME_RULE, USER_NAME_MAX);
	if (!rule_password(b->password))
		return rules_refuse(f, e, "password", "must be 1 to %d bytes", PASSWORD_MAX);
	return rules_check_grants(&b->grants, f, e);
}

int rules_check_labels(const struct str_map *m, const char *field, struct record_fault *f, struct err *e)
{
	if (m->count > LABELS_MAX)
		return rules_refuse(f, e, field, "%zu are too many, at most %d are allowed", m->count, LABELS_MAX);
	for (size_t i = 0; i < m->count; i++) {
		if (!rule_label_key(m->items[i].key))
			return rules_refuse(f, e, field, "a key is 1 to %d of letters, digits, '.', '_', '/' and '-'",
			                    LABEL_KEY_MAX);
		if (m->items[i].value.p && !rule_label_value(m->items[i].value)) {
			char path[64 + LABEL_KEY_MAX];
			(void)snprintf(path, sizeof(path), "%.40s." STR_FMT, field,
			               STR_ARG(m->items[i].key)); /* fits */
			return rules_refuse(f, e, path, "a value is at most %d bytes of text", LABEL_VALUE_MAX);
		}
	}
	return 0;
}

int rules_check_member_register(const struct member_register *b, struct record_fault *f, struct err *e)
{
	if (!rule_member_id(b->id))
		return rules_refuse(f, e, "id", "a member's id is 1 to %d bytes of " NAME_RULE, MEMBER_ID_MAX);
	if (!rule_host_port(b->addr))
		return rules_refuse(f, e, "addr", "must be host:port or [ipv6]:port with a port from 1 to 65535");
	if (b->store_id.p && !rule_idem_key(b->store_id))
		return rules_refuse(f, e, "store_id", "must be 1 to %d printable ASCII characters", IDEM_KEY_MAX);
	return rules_check_labels(&b->tags, "tags", f, e);
}

int rules_check_member_patch(const struct member_patch *b, struct record_fault *f, struct err *e)
{
	if (!b->placeable.set && !b->labels.items)
		return rules_refuse(f, e, "", "nothing to change: give placeable or labels");
	return rules_check_labels(&b->labels, "labels", f, e);
}

int rules_check_member_leave(const struct member_leave *b, struct record_fault *f, struct err *e)
{
	if (!str_is(b->mode, MEMBER_LEAVE_RESTART) && !str_is(b->mode, MEMBER_LEAVE_REMOVE))
		return rules_refuse(f, e, "mode", "must be " MEMBER_LEAVE_RESTART " or " MEMBER_LEAVE_REMOVE);
	return 0;
}

int rules_check_member_lost(const struct member_lost *b, struct record_fault *f, struct err *e)
{
	if (!rule_pause_reason(b->reason))
		return rules_refuse(f, e, "reason", "is at most %d bytes of text", MEMBER_REASON_MAX);
	return 0;
}
