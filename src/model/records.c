/* The tables of stored records, in Narad's field order, and the keys of rows. */
#include "model/records.h"

#include <string.h>

#include "model/field_internal.h"

#define OMIT FIELD_OMITEMPTY
#define SECRET FIELD_SECRET

static const struct field remote_link_fields[] = {
	FIELD(STR, remote_link, name, "name", 0),
	FIELD(STR, remote_link, topic, "topic", 0),
	FIELD(STR, remote_link, target_id, "target_id", OMIT),
	FIELD(STR, remote_link, from, "from", OMIT),
	FIELD(I64, remote_link, lanes, "lanes", OMIT),
	FIELD(BOOL, remote_link, paused, "paused", OMIT),
	FIELD(STR, remote_link, pause_reason, "pause_reason", OMIT),
	FIELD(STR, remote_link, paused_by, "paused_by", OMIT),
	FIELD(I64, remote_link, paused_at_ms, "paused_at_ms", OMIT),
	FIELD(OFFSETS_MAP, remote_link, skip, "skip", OMIT),
	FIELD(STR, remote_link, created_by, "created_by", OMIT),
};
const struct record_type remote_link_type = RECORD_TYPE("remote link", remote_link, remote_link_fields);

static const struct field topic_fields[] = {
	FIELD(STR, topic, name, "name", 0),
	FIELD(STR, topic, id, "id", OMIT),
	FIELD(I64, topic, partitions, "partitions", 0),
	FIELD(I64, topic, retention_ms, "retention_ms", 0),
	FIELD(I64, topic, visibility_timeout_ms, "visibility_timeout_ms", 0),
	FIELD(I64, topic, max_in_flight_per_partition, "max_in_flight_per_partition", 0),
	FIELD(I64, topic, max_acked_ahead_per_partition, "max_acked_ahead_per_partition", 0),
	FIELD(I64, topic, created_at, "created_at", 0),
	FIELD(STR, topic, owner, "owner", OMIT),
	FIELD(STR, topic, role, "role", OMIT),
	FIELD(STR_LIST, topic, children, "children", OMIT),
	FIELD(STR, topic, parent, "parent", OMIT),
	FIELD(STR, topic, attach_epoch, "attach_epoch", OMIT),
	FIELD(I64, topic, fanout_delay_ms, "fanout_delay_ms", OMIT),
	FIELD(I64_LIST, topic, attach_offsets, "attach_offsets", OMIT),
	FIELD_SUB(RECORD_PTR, topic, remote, "remote", OMIT, remote_link),
};
const struct record_type topic_type = RECORD_TYPE("topic", topic, topic_fields);

static const struct field assignment_fields[] = {
	FIELD(STR, assignment, topic, "topic", 0),
	FIELD(I64, assignment, partition, "partition", 0),
	FIELD(STR, assignment, owner_id, "owner_id", 0),
	FIELD(STR, assignment, target_id, "target_id", OMIT),
};
const struct record_type assignment_type = RECORD_TYPE("assignment", assignment, assignment_fields);

static const struct field member_fields[] = {
	FIELD(STR, member, id, "id", 0),
	FIELD(STR, member, addr, "addr", 0),
	FIELD(STR, member, cluster_addr, "cluster_addr", OMIT),
	FIELD(STR, member, status, "status", 0),
	FIELD(I64, member, last_heartbeat, "last_heartbeat", 0),
	FIELD(BOOL, member, draining, "draining", OMIT),
	FIELD(STR, member, build, "build", OMIT),
	FIELD(U32, member, entry_types, "entry_types", OMIT),
};
const struct record_type member_type = RECORD_TYPE("member", member, member_fields);

static const struct field removed_member_fields[] = {
	FIELD(I64, removed_member, removed_at, "removed_at", 0),
};
const struct record_type removed_member_type = RECORD_TYPE("removed member", removed_member, removed_member_fields);

static const struct field grant_fields[] = {
	FIELD(STR, grant, action, "action", FIELD_REQUIRED),
	FIELD(STR_LIST, grant, patterns, "patterns", OMIT | FIELD_NULLABLE),
};
const struct record_type grant_type = RECORD_TYPE("grant", grant, grant_fields);

static const struct field user_fields[] = {
	FIELD(STR, user, username, "username", 0),
	FIELD(BYTES, user, password_hash, "password_hash", OMIT | SECRET),
	FIELD_SUB(RECORD_LIST, user, grants, "grants", OMIT, grant),
	FIELD(BOOL, user, root, "root", OMIT),
	FIELD(I64, user, created_at_ms, "created_at_ms", OMIT),
	FIELD(I64, user, updated_at_ms, "updated_at_ms", OMIT),
};
const struct record_type user_type = RECORD_TYPE("user", user, user_fields);

static const struct field sealed_fields[] = {
	FIELD(I64, sealed, v, "v", 0),
	FIELD(STR, sealed, kv, "kv", 0),
	FIELD(BYTES, sealed, ct, "ct", 0),
};
const struct record_type sealed_type = RECORD_TYPE("sealed password", sealed, sealed_fields);

static const struct field remote_limits_fields[] = {
	FIELD(I64, remote_limits, max_in_flight, "max_in_flight", 0),
	FIELD(I64, remote_limits, request_timeout_ms, "request_timeout_ms", 0),
	FIELD(I64, remote_limits, idle_conn_timeout_ms, "idle_conn_timeout_ms", 0),
	FIELD(I64, remote_limits, conn_max_age_ms, "conn_max_age_ms", 0),
	FIELD(I64, remote_limits, check_interval_ms, "check_interval_ms", 0),
	FIELD(STR, remote_limits, compression, "compression", 0),
};
const struct record_type remote_limits_type = RECORD_TYPE("remote limits", remote_limits, remote_limits_fields);

static const struct field remote_limits_patch_fields[] = {
	FIELD(OPT_I64, remote_limits_patch, max_in_flight, "max_in_flight", FIELD_NULLABLE),
	FIELD(OPT_I64, remote_limits_patch, request_timeout_ms, "request_timeout_ms", FIELD_NULLABLE),
	FIELD(OPT_I64, remote_limits_patch, idle_conn_timeout_ms, "idle_conn_timeout_ms", FIELD_NULLABLE),
	FIELD(OPT_I64, remote_limits_patch, conn_max_age_ms, "conn_max_age_ms", FIELD_NULLABLE),
	FIELD(OPT_I64, remote_limits_patch, check_interval_ms, "check_interval_ms", FIELD_NULLABLE),
	FIELD(STR, remote_limits_patch, compression, "compression", FIELD_OPTIONAL | FIELD_NULLABLE),
};
const struct record_type remote_limits_patch_type =
    RECORD_TYPE("change of remote limits", remote_limits_patch, remote_limits_patch_fields);

static const struct field remote_fields[] = {
	FIELD(STR, remote, name, "name", 0),
	FIELD(STR, remote, id, "id", 0),
	FIELD(STR, remote, url, "url", 0),
	FIELD(STR, remote, username, "username", 0),
	FIELD_SUB(RECORD, remote, credential, "credential", SECRET, sealed),
	FIELD(U64, remote, credential_version, "credential_version", 0),
	FIELD(STR, remote, fingerprint, "fingerprint", 0),
	FIELD(I64, remote, password_set_at_ms, "password_set_at_ms", 0),
	FIELD(STR, remote, password_set_by, "password_set_by", 0),
	FIELD(STR, remote, ca_pem, "ca_pem", OMIT),
	FIELD_SUB(RECORD, remote, limits, "limits", 0, remote_limits),
	FIELD(U64, remote, revision, "revision", 0),
	FIELD(I64, remote, created_at_ms, "created_at_ms", 0),
	FIELD(STR, remote, created_by, "created_by", 0),
};
const struct record_type remote_type = RECORD_TYPE("remote", remote, remote_fields);

/* `key` is the key of the JSON object, not a field. */
static const struct field key_version_fields[] = {
	FIELD(U64, key_version, seals, "seals", 0),
	FIELD(I64, key_version, first_sealed_at_ms, "first_sealed_at_ms", 0),
};
const struct record_type key_version_type = RECORD_TYPE("key version", key_version, key_version_fields);

static const struct field remote_keys_fields[] = {
	FIELD(BYTES, remote_keys, salt, "salt", OMIT | SECRET),
	FIELD_SUB(RECORD_MAP, remote_keys, versions, "versions", OMIT, key_version),
};
const struct record_type remote_keys_type = RECORD_TYPE("remote keys", remote_keys, remote_keys_fields);

static const struct field member_extra_fields[] = {
	FIELD(STR, member_extra, id, "id", 0),
	FIELD(STR, member_extra, kind, "kind", 0),
	FIELD(BOOL, member_extra, placeable, "placeable", 0),
	FIELD(STR_MAP, member_extra, tags, "tags", OMIT),
};
const struct record_type member_extra_type = RECORD_TYPE("member extra", member_extra, member_extra_fields);

static const struct field topic_extra_fields[] = {
	FIELD(I64, topic_extra, replicas, "replicas", 0),
	FIELD(BOOL, topic_extra, unclean, "unclean", 0),
	FIELD(I64, topic_extra, replica_lag, "replica_lag", OMIT),
	FIELD(STR_MAP, topic_extra, labels, "labels", 0),
};
const struct record_type topic_extra_type = RECORD_TYPE("topic extra", topic_extra, topic_extra_fields);

/* ---- keys of rows ---- */

size_t row_key(char out[ROW_KEY_MAX], struct str topic, int64_t number)
{
	if (topic.len > 255 || number < 0)
		return 0;
	memcpy(out, topic.p, topic.len);
	out[topic.len] = ':';
	return topic.len + 1 + decimal_text(out + topic.len + 1, number);
}

bool row_key_parse(struct str key, struct str *topic, int64_t *number)
{
	const char *colon = key.len ? memrchr(key.p, ':', key.len) : NULL;
	if (!colon)
		return false;
	const size_t before = (size_t)(colon - key.p);
	int64_t n;
	if (!i64_parse((struct str){ colon + 1, key.len - before - 1 }, &n) || n < 0)
		return false;
	*topic = (struct str){ key.p, before };
	*number = n;
	return true;
}
