/* The tables of payloads and of entry types. A table here is frozen once a release wrote it into a log. */
#include "model/commands.h"

#include <assert.h>

#include "base/mem.h"

#define OMIT FIELD_OMITEMPTY
#define SECRET FIELD_SECRET

/* ---- one name ---- */

static const struct field topic_name_fields[] = { FIELD(STR, cmd_name, name, "name", 0) };
const struct record_type cmd_topic_name_type = RECORD_TYPE("topic name", cmd_name, topic_name_fields);

static const struct field member_name_fields[] = { FIELD(STR, cmd_name, name, "id", 0) };
const struct record_type cmd_member_name_type = RECORD_TYPE("member id", cmd_name, member_name_fields);

static const struct field user_name_fields[] = { FIELD(STR, cmd_name, name, "username", 0) };
const struct record_type cmd_user_name_type = RECORD_TYPE("username", cmd_name, user_name_fields);

static const struct field user_release_fields[] = { FIELD(STR, cmd_name, name, "u", 0) };
const struct record_type cmd_user_release_type = RECORD_TYPE("user release", cmd_name, user_release_fields);

/* ---- topics and schemas ---- */

static const struct field schema_put_fields[] = {
	FIELD(STR, cmd_schema_put, topic, "t", 0),
	FIELD(I64, cmd_schema_put, version, "v", 0),
	FIELD(BYTES, cmd_schema_put, schema, "s", 0),
};
const struct record_type cmd_schema_put_type = RECORD_TYPE("schema put", cmd_schema_put, schema_put_fields);

static const struct field create_link_fields[] = {
	FIELD(STR, cmd_create_link, parent, "p", 0),          FIELD(STR, cmd_create_link, parent_id, "pi", 0),
	FIELD(STR, cmd_create_link, epoch, "e", OMIT),        FIELD(I64, cmd_create_link, delay_ms, "d", OMIT),
	FIELD(I64_LIST, cmd_create_link, offsets, "o", OMIT),
};
const struct record_type cmd_create_link_type = RECORD_TYPE("create link", cmd_create_link, create_link_fields);

static const struct field topic_create_with_fields[] = {
	FIELD_SUB(RECORD, cmd_topic_create_with, topic, "t", 0, topic),
	FIELD(BYTES, cmd_topic_create_with, schema, "s", OMIT),
	FIELD_SUB(RECORD_PTR, cmd_topic_create_with, link, "l", OMIT, cmd_create_link),
};
const struct record_type cmd_topic_create_with_type =
    RECORD_TYPE("topic create with", cmd_topic_create_with, topic_create_with_fields);

static const struct field topic_update_if_fields[] = {
	FIELD_SUB(RECORD, cmd_topic_update_if, topic, "t", 0, topic),
	FIELD(STR, cmd_topic_update_if, expect_id, "x", 0),
};
const struct record_type cmd_topic_update_if_type =
    RECORD_TYPE("topic update if", cmd_topic_update_if, topic_update_if_fields);

static const struct field topic_delete_if_fields[] = {
	FIELD(STR, cmd_topic_delete_if, name, "n", 0),
	FIELD(STR, cmd_topic_delete_if, expect_id, "x", 0),
};
const struct record_type cmd_topic_delete_if_type =
    RECORD_TYPE("topic delete if", cmd_topic_delete_if, topic_delete_if_fields);

static const struct field schema_put_if_fields[] = {
	FIELD(STR, cmd_schema_put_if, topic, "t", 0),
	FIELD(I64, cmd_schema_put_if, version, "v", 0),
	FIELD(BYTES, cmd_schema_put_if, schema, "s", 0),
	FIELD(STR, cmd_schema_put_if, expect_id, "x", 0),
};
const struct record_type cmd_schema_put_if_type = RECORD_TYPE("schema put if", cmd_schema_put_if, schema_put_if_fields);

/* ---- children ---- */

static const struct field child_attach_fields[] = {
	FIELD(STR, cmd_child_attach, parent, "p", 0),          FIELD(STR, cmd_child_attach, child, "c", 0),
	FIELD(STR, cmd_child_attach, epoch, "e", OMIT),        FIELD(I64, cmd_child_attach, delay_ms, "d", OMIT),
	FIELD(I64_LIST, cmd_child_attach, offsets, "o", OMIT),
};
const struct record_type cmd_child_attach_type = RECORD_TYPE("child attach", cmd_child_attach, child_attach_fields);

static const struct field child_detach_fields[] = {
	FIELD(STR, cmd_child_detach, parent, "p", 0),
	FIELD(STR, cmd_child_detach, child, "c", 0),
};
const struct record_type cmd_child_detach_type = RECORD_TYPE("child detach", cmd_child_detach, child_detach_fields);

static const struct field child_attach_if_fields[] = {
	FIELD_SUB(RECORD, cmd_child_attach_if, link, "l", 0, cmd_child_attach),
	FIELD(STR, cmd_child_attach_if, parent_id, "pi", 0),
	FIELD(STR, cmd_child_attach_if, child_id, "ci", 0),
};
const struct record_type cmd_child_attach_if_type =
    RECORD_TYPE("child attach if", cmd_child_attach_if, child_attach_if_fields);

static const struct field child_detach_if_fields[] = {
	FIELD(STR, cmd_child_detach_if, parent, "p", 0),
	FIELD(STR, cmd_child_detach_if, child, "c", 0),
	FIELD(STR, cmd_child_detach_if, parent_id, "pi", 0),
	FIELD(STR, cmd_child_detach_if, child_id, "ci", 0),
};
const struct record_type cmd_child_detach_if_type =
    RECORD_TYPE("child detach if", cmd_child_detach_if, child_detach_if_fields);

/* ---- assignments ---- */

static const struct field move_target_fields[] = {
	FIELD(STR, cmd_move_target, topic, "t", 0),
	FIELD(I64, cmd_move_target, partition, "p", 0),
	FIELD(STR, cmd_move_target, target, "g", 0),
};
const struct record_type cmd_move_target_type = RECORD_TYPE("move target", cmd_move_target, move_target_fields);

static const struct field move_complete_fields[] = {
	FIELD(STR, cmd_move_complete, topic, "t", 0),
	FIELD(I64, cmd_move_complete, partition, "p", 0),
	FIELD(STR, cmd_move_complete, expected_owner, "e", 0),
	FIELD(STR, cmd_move_complete, target, "g", 0),
};
const struct record_type cmd_move_complete_type = RECORD_TYPE("move complete", cmd_move_complete, move_complete_fields);

static const struct field partition_place_fields[] = {
	FIELD(STR, cmd_partition_place, topic, "t", 0),
	FIELD(I64, cmd_partition_place, partition, "p", 0),
	FIELD(STR, cmd_partition_place, owner_id, "o", 0),
	FIELD(STR, cmd_partition_place, expect_id, "x", 0),
};
const struct record_type cmd_partition_place_type =
    RECORD_TYPE("partition place", cmd_partition_place, partition_place_fields);

static const struct field partition_prune_fields[] = {
	FIELD(STR, cmd_partition_prune, topic, "t", 0),
	FIELD(I64, cmd_partition_prune, partition, "p", 0),
};
const struct record_type cmd_partition_prune_type =
    RECORD_TYPE("partition prune", cmd_partition_prune, partition_prune_fields);

/* ---- members ---- */

static const struct field member_at_fields[] = {
	FIELD(STR, cmd_member_at, id, "id", 0),
	FIELD(I64, cmd_member_at, at, "at", 0),
};
const struct record_type cmd_member_at_type = RECORD_TYPE("member at", cmd_member_at, member_at_fields);

static const struct field member_draining_fields[] = {
	FIELD(STR, cmd_member_draining, id, "id", 0),
	FIELD(BOOL, cmd_member_draining, draining, "draining", 0),
};
const struct record_type cmd_member_draining_type =
    RECORD_TYPE("member draining", cmd_member_draining, member_draining_fields);

static const struct field member_dead_if_fields[] = {
	FIELD(STR, cmd_member_dead_if, id, "id", 0),
	FIELD(I64, cmd_member_dead_if, observed, "h", 0),
};
const struct record_type cmd_member_dead_if_type =
    RECORD_TYPE("member dead if", cmd_member_dead_if, member_dead_if_fields);

/* ---- users ---- */

static const struct field user_password_fields[] = {
	FIELD(STR, cmd_user_password, username, "u", 0),
	FIELD(BYTES, cmd_user_password, password_hash, "h", SECRET),
	FIELD(I64, cmd_user_password, updated_at_ms, "t", 0),
};
const struct record_type cmd_user_password_type = RECORD_TYPE("user password", cmd_user_password, user_password_fields);

static const struct field user_grants_fields[] = {
	FIELD(STR, cmd_user_grants, username, "u", 0),
	FIELD_SUB(RECORD_LIST, cmd_user_grants, grants, "g", 0, grant),
	FIELD(I64, cmd_user_grants, updated_at_ms, "t", 0),
};
const struct record_type cmd_user_grants_type = RECORD_TYPE("user grants", cmd_user_grants, user_grants_fields);

/* ---- remote children ---- */

static const struct field remote_child_attach_fields[] = {
	FIELD(STR, cmd_remote_child_attach, parent, "parent", 0),
	FIELD(STR, cmd_remote_child_attach, parent_id, "parent_id", OMIT),
	FIELD(STR, cmd_remote_child_attach, stub, "stub", 0),
	FIELD(STR, cmd_remote_child_attach, stub_id, "stub_id", 0),
	FIELD(STR, cmd_remote_child_attach, epoch, "epoch", 0),
	FIELD(I64, cmd_remote_child_attach, delay_ms, "delay_ms", OMIT),
	FIELD(I64_LIST, cmd_remote_child_attach, offsets, "offsets", OMIT),
	FIELD_SUB(RECORD, cmd_remote_child_attach, remote, "remote", 0, remote_link),
	FIELD(I64, cmd_remote_child_attach, created_at, "created_at", 0),
	FIELD(STR, cmd_remote_child_attach, actor, "actor", OMIT),
	FIELD(STR, cmd_remote_child_attach, request_id, "request_id", OMIT),
};
const struct record_type cmd_remote_child_attach_type =
    RECORD_TYPE("remote child attach", cmd_remote_child_attach, remote_child_attach_fields);

static const struct field remote_pause_fields[] = {
	FIELD(BOOL, cmd_remote_pause, paused, "paused", 0),
	FIELD(STR, cmd_remote_pause, reason, "reason", OMIT),
	FIELD(STR, cmd_remote_pause, by, "by", OMIT),
	FIELD(I64, cmd_remote_pause, at_ms, "at_ms", OMIT),
};
const struct record_type cmd_remote_pause_type = RECORD_TYPE("remote pause", cmd_remote_pause, remote_pause_fields);

static const struct field remote_skip_fields[] = {
	FIELD(I64, cmd_remote_skip, partition, "partition", 0),
	FIELD(I64, cmd_remote_skip, offset, "offset", 0),
};
const struct record_type cmd_remote_skip_type = RECORD_TYPE("remote skip", cmd_remote_skip, remote_skip_fields);

static const struct field remote_child_state_fields[] = {
	FIELD(STR, cmd_remote_child_state, parent, "parent", 0),
	FIELD(STR, cmd_remote_child_state, stub, "stub", 0),
	FIELD(STR, cmd_remote_child_state, epoch, "epoch", 0),
	FIELD_SUB(RECORD_PTR, cmd_remote_child_state, pause, "pause", OMIT, cmd_remote_pause),
	FIELD(STR, cmd_remote_child_state, target_id, "target_id", FIELD_OPTIONAL),
	FIELD(OPT_I64, cmd_remote_child_state, lanes, "lanes", OMIT),
	FIELD_SUB(RECORD_PTR, cmd_remote_child_state, skip, "skip", OMIT, cmd_remote_skip),
	FIELD(STR, cmd_remote_child_state, actor, "actor", OMIT),
	FIELD(STR, cmd_remote_child_state, request_id, "request_id", OMIT),
};
const struct record_type cmd_remote_child_state_type =
    RECORD_TYPE("remote child state", cmd_remote_child_state, remote_child_state_fields);

/* ---- remotes ---- */

static const struct field remote_create_fields[] = {
	FIELD_SUB(RECORD, cmd_remote_create, record, "record", 0, remote),
	FIELD(BYTES, cmd_remote_create, salt, "salt", OMIT | SECRET),
	FIELD(I64, cmd_remote_create, sealed_at_ms, "sealed_at_ms", 0),
	FIELD(STR, cmd_remote_create, actor, "actor", 0),
	FIELD(STR, cmd_remote_create, request_id, "request_id", 0),
};
const struct record_type cmd_remote_create_type = RECORD_TYPE("remote create", cmd_remote_create, remote_create_fields);

static const struct field remote_fields_fields[] = {
	FIELD(STR, cmd_remote_fields, url, "url", FIELD_OPTIONAL),
	FIELD(STR, cmd_remote_fields, username, "username", FIELD_OPTIONAL),
	FIELD(STR, cmd_remote_fields, ca_pem, "ca_pem", FIELD_OPTIONAL),
	FIELD_SUB(RECORD_PTR, cmd_remote_fields, limits, "limits", OMIT, remote_limits_patch),
};
const struct record_type cmd_remote_fields_type = RECORD_TYPE("remote fields", cmd_remote_fields, remote_fields_fields);

static const struct field sealed_tuple_fields[] = {
	FIELD(STR, cmd_sealed_tuple, name, "name", 0),
	FIELD(STR, cmd_sealed_tuple, id, "id", 0),
	FIELD(STR, cmd_sealed_tuple, url, "url", 0),
	FIELD(STR, cmd_sealed_tuple, username, "username", 0),
	FIELD(STR, cmd_sealed_tuple, trust_anchor, "trust_anchor", 0),
};
const struct record_type cmd_sealed_tuple_type = RECORD_TYPE("sealed tuple", cmd_sealed_tuple, sealed_tuple_fields);

static const struct field remote_change_fields[] = {
	FIELD(STR, cmd_remote_change, name, "name", 0),
	FIELD_SUB(RECORD, cmd_remote_change, fields, "fields", 0, cmd_remote_fields),
	FIELD_SUB(RECORD_PTR, cmd_remote_change, credential, "credential", OMIT | SECRET, sealed),
	FIELD(STR, cmd_remote_change, fingerprint, "fingerprint", OMIT),
	FIELD_SUB(RECORD_PTR, cmd_remote_change, sealed_against, "sealed_against", OMIT, cmd_sealed_tuple),
	FIELD(U64, cmd_remote_change, read_revision, "read_revision", 0),
	FIELD(OPT_U64, cmd_remote_change, expect_credential_version, "expect_credential_version", OMIT),
	FIELD(BOOL, cmd_remote_change, reseal, "reseal", OMIT),
	FIELD(I64, cmd_remote_change, sealed_at_ms, "sealed_at_ms", 0),
	FIELD(STR, cmd_remote_change, actor, "actor", 0),
	FIELD(STR, cmd_remote_change, request_id, "request_id", 0),
};
const struct record_type cmd_remote_change_type = RECORD_TYPE("remote change", cmd_remote_change, remote_change_fields);

static const struct field remote_delete_fields[] = {
	FIELD(STR, cmd_remote_delete, name, "name", 0),
	FIELD(BOOL, cmd_remote_delete, force, "force", 0),
	FIELD(STR, cmd_remote_delete, actor, "actor", 0),
	FIELD(STR, cmd_remote_delete, request_id, "request_id", 0),
};
const struct record_type cmd_remote_delete_type = RECORD_TYPE("remote delete", cmd_remote_delete, remote_delete_fields);

static const struct field topic_labels_fields[] = {
	FIELD(STR, cmd_topic_labels, topic, "topic", 0),
	FIELD(STR, cmd_topic_labels, expect_id, "expect_id", FIELD_OMITEMPTY),
	FIELD(STR_MAP, cmd_topic_labels, labels, "labels", FIELD_NULL_VALUES),
};
const struct record_type cmd_topic_labels_type = RECORD_TYPE("topic labels", cmd_topic_labels, topic_labels_fields);

static const struct field member_cordon_fields[] = {
	FIELD(STR, cmd_member_cordon, id, "id", 0),
	FIELD(BOOL, cmd_member_cordon, cordoned, "cordoned", 0),
};
const struct record_type cmd_member_cordon_type = RECORD_TYPE("member cordon", cmd_member_cordon, member_cordon_fields);

static const struct field member_register_fields[] = {
	FIELD(STR, cmd_member_register, id, "id", 0),
	FIELD(STR, cmd_member_register, addr, "addr", 0),
	FIELD(STR_MAP, cmd_member_register, tags, "tags", OMIT),
	FIELD(STR, cmd_member_register, store_id, "store_id", OMIT),
	FIELD(STR, cmd_member_register, session, "session", SECRET),
	FIELD(I64, cmd_member_register, at, "at", 0),
	FIELD(BOOL, cmd_member_register, fresh, "fresh", OMIT),
	FIELD(BOOL, cmd_member_register, accept_data_loss, "accept_data_loss", OMIT),
};
const struct record_type cmd_member_register_type =
    RECORD_TYPE("member registration", cmd_member_register, member_register_fields);

static const struct field member_labels_fields[] = {
	FIELD(STR, cmd_member_labels, id, "id", 0),
	FIELD(STR_MAP, cmd_member_labels, labels, "labels", FIELD_NULL_VALUES),
};
const struct record_type cmd_member_labels_type = RECORD_TYPE("member labels", cmd_member_labels, member_labels_fields);

static const struct field member_session_fields[] = {
	FIELD(STR, cmd_member_session, id, "id", 0),
	FIELD(STR, cmd_member_session, session, "session", SECRET),
};
const struct record_type cmd_member_session_type =
    RECORD_TYPE("member session", cmd_member_session, member_session_fields);

static const struct field member_lost_fields[] = {
	FIELD(STR, cmd_member_lost, id, "id", 0),
	FIELD(I64, cmd_member_lost, at, "at", 0),
	FIELD(STR, cmd_member_lost, reason, "reason", OMIT),
};
const struct record_type cmd_member_lost_type = RECORD_TYPE("member lost", cmd_member_lost, member_lost_fields);

/* ---- copies of partitions ---- */

static const struct field topic_replicas_fields[] = {
	FIELD(STR, cmd_topic_replicas, topic, "topic", 0),
	FIELD(STR, cmd_topic_replicas, expect_id, "expect_id", OMIT),
	FIELD(OPT_I64, cmd_topic_replicas, replicas, "replicas", OMIT),
	FIELD(OPT_BOOL, cmd_topic_replicas, unclean, "unclean", OMIT),
	FIELD(OPT_I64, cmd_topic_replicas, replica_lag, "replica_lag", OMIT),
};
const struct record_type cmd_topic_replicas_type =
    RECORD_TYPE("topic replicas", cmd_topic_replicas, topic_replicas_fields);

static const struct field replicas_place_fields[] = {
	FIELD(STR, cmd_replicas_place, topic, "topic", 0),
	FIELD(STR, cmd_replicas_place, expect_id, "expect_id", OMIT),
	FIELD(I64, cmd_replicas_place, partition, "partition", 0),
	FIELD(STR_LIST, cmd_replicas_place, replicas, "replicas", 0),
};
const struct record_type cmd_replicas_place_type =
    RECORD_TYPE("replicas place", cmd_replicas_place, replicas_place_fields);

static const struct field leader_change_fields[] = {
	FIELD(STR, cmd_leader_change, topic, "topic", 0),
	FIELD(STR, cmd_leader_change, expect_id, "expect_id", OMIT),
	FIELD(I64, cmd_leader_change, partition, "partition", 0),
	FIELD(U64, cmd_leader_change, expect_epoch, "expect_epoch", 0),
	FIELD(STR, cmd_leader_change, leader, "leader", OMIT),
	FIELD(BOOL, cmd_leader_change, unclean, "unclean", OMIT),
	FIELD(STR, cmd_leader_change, reason, "reason", OMIT),
};
const struct record_type cmd_leader_change_type = RECORD_TYPE("leader change", cmd_leader_change, leader_change_fields);

static const struct field in_sync_change_fields[] = {
	FIELD(STR, cmd_in_sync_change, topic, "topic", 0),
	FIELD(STR, cmd_in_sync_change, expect_id, "expect_id", OMIT),
	FIELD(I64, cmd_in_sync_change, partition, "partition", 0),
	FIELD(U64, cmd_in_sync_change, epoch, "epoch", 0),
	FIELD(STR, cmd_in_sync_change, replica, "replica", 0),
	FIELD(BOOL, cmd_in_sync_change, in_sync, "in_sync", 0),
};
const struct record_type cmd_in_sync_change_type =
    RECORD_TYPE("in-sync change", cmd_in_sync_change, in_sync_change_fields);

static const struct field replicas_change_fields[] = {
	FIELD(STR, cmd_replicas_change, topic, "topic", 0),
	FIELD(STR, cmd_replicas_change, expect_id, "expect_id", OMIT),
	FIELD(I64, cmd_replicas_change, partition, "partition", 0),
	FIELD(U64, cmd_replicas_change, expect_epoch, "expect_epoch", 0),
	FIELD(STR, cmd_replicas_change, add, "add", OMIT),
	FIELD(STR, cmd_replicas_change, remove, "remove", OMIT),
	FIELD(STR, cmd_replicas_change, reason, "reason", OMIT),
};
const struct record_type cmd_replicas_change_type =
    RECORD_TYPE("replicas change", cmd_replicas_change, replicas_change_fields);

/* ---- moves ---- */

static const struct field move_set_if_fields[] = {
	FIELD(STR, cmd_move_set_if, topic, "topic", 0),
	FIELD(I64, cmd_move_set_if, partition, "partition", 0),
	FIELD(STR, cmd_move_set_if, expect_id, "expect_id", OMIT),
	FIELD(STR, cmd_move_set_if, expected_owner, "expected_owner", 0),
	FIELD(STR, cmd_move_set_if, expected_target, "expected_target", OMIT),
	FIELD(STR, cmd_move_set_if, target, "target", 0),
	FIELD(I64, cmd_move_set_if, max_moves, "max_moves", OMIT),
};
const struct record_type cmd_move_set_if_type = RECORD_TYPE("move", cmd_move_set_if, move_set_if_fields);

static const struct field move_complete_if_fields[] = {
	FIELD(STR, cmd_move_complete_if, topic, "topic", 0),
	FIELD(I64, cmd_move_complete_if, partition, "partition", 0),
	FIELD(STR, cmd_move_complete_if, expect_id, "expect_id", OMIT),
	FIELD(U64, cmd_move_complete_if, move_id, "move_id", 0),
	FIELD(STR, cmd_move_complete_if, expected_owner, "expected_owner", 0),
	FIELD(STR, cmd_move_complete_if, target, "target", 0),
};
const struct record_type cmd_move_complete_if_type =
    RECORD_TYPE("move completion", cmd_move_complete_if, move_complete_if_fields);

static const struct field move_abort_if_fields[] = {
	FIELD(STR, cmd_move_abort_if, topic, "topic", 0),
	FIELD(I64, cmd_move_abort_if, partition, "partition", 0),
	FIELD(STR, cmd_move_abort_if, expect_id, "expect_id", OMIT),
	FIELD(U64, cmd_move_abort_if, move_id, "move_id", 0),
};
const struct record_type cmd_move_abort_if_type = RECORD_TYPE("move abort", cmd_move_abort_if, move_abort_if_fields);

static const struct field partition_pin_fields[] = {
	FIELD(STR, cmd_partition_pin, topic, "topic", 0),
	FIELD(I64, cmd_partition_pin, partition, "partition", 0),
	FIELD(STR, cmd_partition_pin, expect_id, "expect_id", OMIT),
	FIELD(BOOL, cmd_partition_pin, pinned, "pinned", 0),
};
const struct record_type cmd_partition_pin_type = RECORD_TYPE("partition pin", cmd_partition_pin, partition_pin_fields);

static const struct field setting_fields[] = {
	FIELD(STR, cmd_setting, name, "name", 0),
	FIELD(OPT_I64, cmd_setting, value, "value", OMIT),
};
const struct record_type cmd_setting_type = RECORD_TYPE("setting", cmd_setting, setting_fields);

/* ---- entry types ---- */

#define COMMAND_SIZE(name, number, text, tag, type)                                                                    \
	static_assert(sizeof(struct tag) <= COMMAND_PAYLOAD_SIZE, "COMMAND_PAYLOAD_SIZE holds any payload");           \
	static_assert((number) <= COMMAND_MAX && (number) < 256, "an entry type is one byte");
COMMAND_MAP(COMMAND_SIZE)
#undef COMMAND_SIZE

static const struct command_info infos[COMMAND_MAX + 1] = {
#define COMMAND_INFO(name_, number, text, tag, type_)                                                                  \
	[number] = { .type = (number), .name = (text), .payload = &(type_) },
	COMMAND_MAP(COMMAND_INFO)
#undef COMMAND_INFO
};

const struct command_info *command_info(unsigned type)
{
	return type < ARRAY_LEN(infos) && infos[type].name ? &infos[type] : NULL;
}
