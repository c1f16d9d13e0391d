/* The tables of request bodies. Where Narad's type is a pointer, a slice or a map, a Go client sends null for "not
 * given", so null is allowed there; everywhere else it is a wrong type. */
#include "model/records.h"

#define REQUIRED FIELD_REQUIRED
#define OPTIONAL FIELD_OPTIONAL
#define NULLABLE FIELD_NULLABLE
#define SECRET FIELD_SECRET

static const struct field topic_create_fields[] = {
	FIELD(STR, topic_create, name, "name", REQUIRED),
	FIELD(OPT_I64, topic_create, partitions, "partitions", 0),
	FIELD(OPT_I64, topic_create, retention_ms, "retention_ms", NULLABLE),
	FIELD(OPT_I64, topic_create, visibility_timeout_ms, "visibility_timeout_ms", 0),
	FIELD(OPT_I64, topic_create, max_in_flight_per_partition, "max_in_flight_per_partition", 0),
	FIELD(OPT_I64, topic_create, max_acked_ahead_per_partition, "max_acked_ahead_per_partition", 0),
	FIELD(JSON, topic_create, schema, "schema", 0),
	FIELD(STR, topic_create, parent, "parent", OPTIONAL),
	FIELD(OPT_I64, topic_create, fanout_delay_ms, "fanout_delay_ms", 0),
	FIELD(STR, topic_create, owner, "owner", OPTIONAL),
	FIELD(OPT_I64, topic_create, replicas, "replicas", 0),
	FIELD(OPT_BOOL, topic_create, unclean, "unclean", 0),
	FIELD(OPT_I64, topic_create, replica_lag, "replica_lag", 0),
	FIELD(STR_MAP, topic_create, labels, "labels", OPTIONAL),
};
const struct record_type topic_create_type = RECORD_TYPE("topic create", topic_create, topic_create_fields);

static const struct field topic_alter_fields[] = {
	FIELD(OPT_I64, topic_alter, partitions, "partitions", 0),
	FIELD(OPT_I64, topic_alter, retention_ms, "retention_ms", NULLABLE),
	FIELD(OPT_I64, topic_alter, max_in_flight_per_partition, "max_in_flight_per_partition", NULLABLE),
	FIELD(OPT_I64, topic_alter, max_acked_ahead_per_partition, "max_acked_ahead_per_partition", NULLABLE),
	FIELD(JSON, topic_alter, schema, "schema", 0),
	FIELD(OPT_I64, topic_alter, schema_base_version, "schema_base_version", NULLABLE),
	FIELD(OPT_I64, topic_alter, replicas, "replicas", 0),
	FIELD(OPT_BOOL, topic_alter, unclean, "unclean", 0),
	FIELD(OPT_I64, topic_alter, replica_lag, "replica_lag", NULLABLE),
	FIELD(STR_MAP, topic_alter, labels, "labels", OPTIONAL | FIELD_NULL_VALUES),
};
const struct record_type topic_alter_type = RECORD_TYPE("topic alter", topic_alter, topic_alter_fields);

static const struct field child_attach_fields[] = {
	FIELD(STR, child_attach, child, "child", REQUIRED),
	FIELD(OPT_I64, child_attach, delay_ms, "delay_ms", 0),
	FIELD(STR, child_attach, remote, "remote", OPTIONAL),
	FIELD(STR, child_attach, remote_topic, "remote_topic", OPTIONAL),
	FIELD(STR, child_attach, from, "from", OPTIONAL),
	FIELD(OPT_I64, child_attach, lanes, "lanes", NULLABLE),
	FIELD(OPT_BOOL, child_attach, dry_run, "dry_run", 0),
};
const struct record_type child_attach_type = RECORD_TYPE("child attach", child_attach, child_attach_fields);

static const struct field child_pause_fields[] = {
	FIELD(STR, child_pause, reason, "reason", OPTIONAL),
};
const struct record_type child_pause_type = RECORD_TYPE("child pause", child_pause, child_pause_fields);

static const struct field child_resume_fields[] = {
	FIELD(OPT_BOOL, child_resume, accept_target, "accept_target", 0),
};
const struct record_type child_resume_type = RECORD_TYPE("child resume", child_resume, child_resume_fields);

static const struct field child_skip_fields[] = {
	FIELD(OPT_I64, child_skip, partition, "partition", REQUIRED),
	FIELD(OPT_I64, child_skip, offset, "offset", REQUIRED),
};
const struct record_type child_skip_type = RECORD_TYPE("child skip", child_skip, child_skip_fields);

static const struct field user_create_fields[] = {
	FIELD(STR, user_create, username, "username", REQUIRED),
	FIELD(STR, user_create, password, "password", REQUIRED | SECRET),
	FIELD_SUB(RECORD_LIST, user_create, grants, "grants", OPTIONAL | NULLABLE, grant),
};
const struct record_type user_create_type = RECORD_TYPE("user create", user_create, user_create_fields);

static const struct field user_grants_fields[] = {
	FIELD_SUB(RECORD_LIST, user_grants, grants, "grants", REQUIRED | NULLABLE, grant),
};
const struct record_type user_grants_type = RECORD_TYPE("user grants", user_grants, user_grants_fields);

static const struct field user_password_fields[] = {
	FIELD(STR, user_password, new_password, "new_password", REQUIRED | SECRET),
	FIELD(STR, user_password, current_password, "current_password", OPTIONAL | SECRET),
};
const struct record_type user_password_type = RECORD_TYPE("user password", user_password, user_password_fields);

static const struct field remote_create_fields[] = {
	FIELD(STR, remote_create, name, "name", REQUIRED),
	FIELD(STR, remote_create, url, "url", REQUIRED),
	FIELD(STR, remote_create, username, "username", REQUIRED),
	FIELD(STR, remote_create, password, "password", REQUIRED | SECRET),
	FIELD(STR, remote_create, ca_pem, "ca_pem", OPTIONAL),
	FIELD_SUB(RECORD_PTR, remote_create, limits, "limits", NULLABLE, remote_limits_patch),
};
const struct record_type remote_create_type = RECORD_TYPE("remote create", remote_create, remote_create_fields);

static const struct field remote_patch_fields[] = {
	FIELD(STR, remote_patch, url, "url", OPTIONAL | NULLABLE),
	FIELD(STR, remote_patch, username, "username", OPTIONAL | NULLABLE),
	FIELD(STR, remote_patch, password, "password", OPTIONAL | NULLABLE | SECRET),
	FIELD(STR, remote_patch, ca_pem, "ca_pem", OPTIONAL | NULLABLE),
	FIELD_SUB(RECORD_PTR, remote_patch, limits, "limits", NULLABLE, remote_limits_patch),
};
const struct record_type remote_patch_type = RECORD_TYPE("remote patch", remote_patch, remote_patch_fields);

static const struct field member_register_fields[] = {
	FIELD(STR, member_register, id, "id", REQUIRED),
	FIELD(STR, member_register, addr, "addr", REQUIRED),
	FIELD(STR_MAP, member_register, tags, "tags", OPTIONAL),
	FIELD(STR, member_register, store_id, "store_id", OPTIONAL),
	FIELD(OPT_BOOL, member_register, fresh, "fresh", 0),
	FIELD(OPT_BOOL, member_register, accept_data_loss, "accept_data_loss", 0),
};
const struct record_type member_register_type = RECORD_TYPE("member register", member_register, member_register_fields);

static const struct field member_patch_fields[] = {
	FIELD(OPT_BOOL, member_patch, placeable, "placeable", 0),
	FIELD(STR_MAP, member_patch, labels, "labels", OPTIONAL | FIELD_NULL_VALUES),
};
const struct record_type member_patch_type = RECORD_TYPE("member patch", member_patch, member_patch_fields);

static const struct field member_leave_fields[] = {
	FIELD(STR, member_leave, mode, "mode", REQUIRED),
};
const struct record_type member_leave_type = RECORD_TYPE("member leave", member_leave, member_leave_fields);

static const struct field member_lost_fields[] = {
	FIELD(OPT_BOOL, member_lost, accept_data_loss, "accept_data_loss", 0),
	FIELD(STR, member_lost, reason, "reason", OPTIONAL),
};
const struct record_type member_lost_type = RECORD_TYPE("member lost", member_lost, member_lost_fields);

static const struct field move_set_fields[] = {
	FIELD(STR, move_set, target, "target", REQUIRED),
	FIELD(STR, move_set, topic_id, "topic_id", OPTIONAL),
	FIELD(STR, move_set, expected_target, "expected_target", OPTIONAL),
	FIELD(OPT_BOOL, move_set, pin, "pin", 0),
};
const struct record_type move_set_type = RECORD_TYPE("move", move_set, move_set_fields);

static const struct field move_complete_fields[] = {
	FIELD(STR, move_complete, topic_id, "topic_id", REQUIRED),
	FIELD(OPT_U64, move_complete, move_id, "move_id", REQUIRED),
	FIELD(STR, move_complete, expected_owner, "expected_owner", REQUIRED),
	FIELD(STR, move_complete, target, "target", REQUIRED),
	FIELD(OPT_BOOL, move_complete, force, "force", 0),
};
const struct record_type move_complete_type = RECORD_TYPE("move complete", move_complete, move_complete_fields);

static const struct field move_progress_fields[] = {
	FIELD(STR, move_progress, topic_id, "topic_id", REQUIRED),
	FIELD(OPT_U64, move_progress, move_id, "move_id", REQUIRED),
	FIELD(STR, move_progress, phase, "phase", REQUIRED),
	FIELD(OPT_U64, move_progress, copied_bytes, "copied_bytes", 0),
	FIELD(OPT_U64, move_progress, total_bytes, "total_bytes", 0),
};
const struct record_type move_progress_type = RECORD_TYPE("move progress", move_progress, move_progress_fields);

static const struct field leader_set_fields[] = {
	FIELD(STR, leader_set, leader, "leader", REQUIRED),
	FIELD(STR, leader_set, topic_id, "topic_id", REQUIRED),
	FIELD(OPT_U64, leader_set, expected_epoch, "expected_epoch", REQUIRED),
	FIELD(OPT_BOOL, leader_set, unclean, "unclean", 0),
};
const struct record_type leader_set_type = RECORD_TYPE("leader", leader_set, leader_set_fields);

static const struct field replicas_set_fields[] = {
	FIELD(STR, replicas_set, topic_id, "topic_id", REQUIRED),
	FIELD(STR, replicas_set, add, "add", OPTIONAL),
	FIELD(STR, replicas_set, remove, "remove", OPTIONAL),
};
const struct record_type replicas_set_type = RECORD_TYPE("replicas", replicas_set, replicas_set_fields);

static const struct field server_set_fields[] = {
	FIELD(STR, server_set, id, "id", REQUIRED),
	FIELD(STR, server_set, cluster_addr, "cluster_addr", OPTIONAL),
	FIELD(OPT_BOOL, server_set, voter, "voter", 0),
};
const struct record_type server_set_type = RECORD_TYPE("server", server_set, server_set_fields);

static const struct field settings_patch_fields[] = {
	FIELD(OPT_I64, settings_patch, max_moves, "max_moves", FIELD_NULLABLE),
	FIELD(OPT_I64, settings_patch, dead_after_s, "dead_after_s", FIELD_NULLABLE),
	FIELD(OPT_I64, settings_patch, failover_after_s, "failover_after_s", FIELD_NULLABLE),
	FIELD(OPT_I64, settings_patch, member_heartbeat_ms, "member_heartbeat_ms", FIELD_NULLABLE),
	FIELD(OPT_I64, settings_patch, min_voters, "min_voters", FIELD_NULLABLE),
	FIELD(OPT_I64, settings_patch, replica_lag, "replica_lag", FIELD_NULLABLE),
};
const struct record_type settings_patch_type = RECORD_TYPE("settings", settings_patch, settings_patch_fields);

static const struct field leader_transfer_fields[] = {
	FIELD(STR, leader_transfer, to, "to", OPTIONAL),
};
const struct record_type leader_transfer_type = RECORD_TYPE("leader transfer", leader_transfer, leader_transfer_fields);
