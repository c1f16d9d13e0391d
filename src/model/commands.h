/* model/commands.h - what an entry can say: numbers, names and payloads.
 *
 * Types 1 to 37 are Narad's, with their numbers, names and payload fields; veena's begin at 64. A type's payload never
 * changes, since it stands in logs: a new field is a new type, and a number is never used again. The payload is the
 * record's msgpack array in table order (field.h).
 *
 * Thread: any; tables are constant.
 */
#ifndef MODEL_COMMANDS_H
#define MODEL_COMMANDS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/field.h"
#include "model/records.h"

#define COMMAND_LEGACY_MAX 22 /* what a member that reports no entry types is taken to know */

/* X(name, number, log name, payload struct, record type) */
#define COMMAND_MAP(X)                                                                                                 \
	X(TOPIC_CREATE, 1, "create topic", topic, topic_type)                                                          \
	X(TOPIC_UPDATE, 2, "update topic", topic, topic_type)                                                          \
	X(TOPIC_DELETE, 3, "delete topic", cmd_name, cmd_topic_name_type)                                              \
	X(SCHEMA_PUT, 4, "put schema", cmd_schema_put, cmd_schema_put_type)                                            \
	X(PARTITION_ASSIGN, 5, "assign partition", assignment, assignment_type)                                        \
	X(MEMBER_JOIN, 6, "member join", member, member_type)                                                          \
	X(MEMBER_HEARTBEAT, 7, "member heartbeat", cmd_member_at, cmd_member_at_type)                                  \
	X(MEMBER_DEAD, 8, "member dead", cmd_name, cmd_member_name_type)                                               \
	X(USER_CREATE, 9, "create user", user, user_type)                                                              \
	X(USER_UPDATE, 10, "update user", user, user_type)                                                             \
	X(USER_DELETE, 11, "delete user", cmd_name, cmd_user_name_type)                                                \
	X(USER_SEED_ROOT, 12, "seed root user", user, user_type)                                                       \
	X(CHILD_ATTACH, 13, "attach child", cmd_child_attach, cmd_child_attach_type)                                   \
	X(CHILD_DETACH, 14, "detach child", cmd_child_detach, cmd_child_detach_type)                                   \
	X(MOVE_TARGET, 15, "set move target", cmd_move_target, cmd_move_target_type)                                   \
	X(MOVE_COMPLETE, 16, "complete move", cmd_move_complete, cmd_move_complete_type)                               \
	X(MOVE_ABORT, 17, "abort move", cmd_move_target, cmd_move_target_type)                                         \
	X(MEMBER_DRAINING, 18, "set draining", cmd_member_draining, cmd_member_draining_type)                          \
	X(MEMBER_REMOVE, 19, "remove member", cmd_member_at, cmd_member_at_type)                                       \
	X(MEMBER_READMIT, 20, "readmit member", cmd_member_at, cmd_member_at_type)                                     \
	X(USER_PASSWORD, 21, "set user password", cmd_user_password, cmd_user_password_type)                           \
	X(USER_GRANTS, 22, "set user grants", cmd_user_grants, cmd_user_grants_type)                                   \
	X(TOPIC_CREATE_WITH, 23, "create topic with schema and link", cmd_topic_create_with,                           \
	  cmd_topic_create_with_type)                                                                                  \
	X(TOPIC_UPDATE_IF, 24, "compare-and-set topic update", cmd_topic_update_if, cmd_topic_update_if_type)          \
	X(TOPIC_DELETE_IF, 25, "compare-and-set topic delete", cmd_topic_delete_if, cmd_topic_delete_if_type)          \
	X(SCHEMA_PUT_IF, 26, "compare-and-set schema version", cmd_schema_put_if, cmd_schema_put_if_type)              \
	X(CHILD_ATTACH_IF, 27, "compare-and-set fan-out attach", cmd_child_attach_if, cmd_child_attach_if_type)        \
	X(CHILD_DETACH_IF, 28, "compare-and-set fan-out detach", cmd_child_detach_if, cmd_child_detach_if_type)        \
	X(PARTITION_PLACE, 29, "insert-only partition placement", cmd_partition_place, cmd_partition_place_type)       \
	X(PARTITION_PRUNE, 30, "orphan assignment prune", cmd_partition_prune, cmd_partition_prune_type)               \
	X(MEMBER_DEAD_IF, 31, "dead mark from an observed heartbeat", cmd_member_dead_if, cmd_member_dead_if_type)     \
	X(USER_DELETE_RELEASE, 32, "user delete that releases its topics", cmd_name, cmd_user_release_type)            \
	X(REMOTE_CHILD_ATTACH, 33, "remote child attach", cmd_remote_child_attach, cmd_remote_child_attach_type)       \
	X(REMOTE_CHILD_STATE, 34, "remote child state change", cmd_remote_child_state, cmd_remote_child_state_type)    \
	X(REMOTE_CREATE, 35, "remote create", cmd_remote_create, cmd_remote_create_type)                               \
	X(REMOTE_CHANGE, 36, "remote change", cmd_remote_change, cmd_remote_change_type)                               \
	X(REMOTE_DELETE, 37, "remote delete", cmd_remote_delete, cmd_remote_delete_type)                               \
	X(MEMBER_EXTRA, 64, "member extra", member_extra, member_extra_type)                                           \
	X(TOPIC_LABELS, 65, "topic labels", cmd_topic_labels, cmd_topic_labels_type)                                   \
	X(MEMBER_CORDON, 66, "member cordon", cmd_member_cordon, cmd_member_cordon_type)                               \
	X(MEMBER_REGISTER, 67, "member registration", cmd_member_register, cmd_member_register_type)                   \
	X(MEMBER_LABELS, 68, "member labels", cmd_member_labels, cmd_member_labels_type)                               \
	X(MEMBER_SESSION, 69, "member session", cmd_member_session, cmd_member_session_type)                           \
	X(MEMBER_LOST, 70, "member lost", cmd_member_lost, cmd_member_lost_type)                                       \
	X(MOVE_SET_IF, 72, "compare-and-set move", cmd_move_set_if, cmd_move_set_if_type)                              \
	X(MOVE_COMPLETE_IF, 73, "compare-and-set move completion", cmd_move_complete_if, cmd_move_complete_if_type)    \
	X(MOVE_ABORT_IF, 74, "compare-and-set move abort", cmd_move_abort_if, cmd_move_abort_if_type)                  \
	X(PARTITION_PIN, 75, "partition pin", cmd_partition_pin, cmd_partition_pin_type)                               \
	X(SETTING, 76, "setting", cmd_setting, cmd_setting_type)                                                       \
	X(TOPIC_REPLICAS, 80, "set replication", cmd_topic_replicas, cmd_topic_replicas_type)                          \
	X(REPLICAS_PLACE, 81, "place replicas", cmd_replicas_place, cmd_replicas_place_type)                           \
	X(LEADER_CHANGE, 82, "leader change", cmd_leader_change, cmd_leader_change_type)                               \
	X(IN_SYNC_CHANGE, 83, "in-sync change", cmd_in_sync_change, cmd_in_sync_change_type)                           \
	X(REPLICAS_CHANGE, 84, "replica set change", cmd_replicas_change, cmd_replicas_change_type)                    \
	X(MEMBER_REMOVE_IF, 85, "drained member removal", cmd_member_at, cmd_member_at_type)

enum command_type {
#define COMMAND_ENUM(name, number, text, tag, type) CMD_##name = (number),
	COMMAND_MAP(COMMAND_ENUM)
#undef COMMAND_ENUM
};

#define COMMAND_NARAD_MAX 37
#define COMMAND_MAX 85 /* newest type this release applies: what a server reports as entry_types */

struct command_info {
	unsigned type;                     /* enum command_type */
	const char *name;                  /* as logs show it */
	const struct record_type *payload; /* of the struct named in COMMAND_MAP */
};

const struct command_info *command_info(unsigned type); /* NULL: unknown to this release */

/* Every payload struct has at most this size: room for any decoded command. */
#define COMMAND_PAYLOAD_SIZE 512

/* ---- payloads; where none is named below, the record itself is the payload ---- */

/* 3 topic name, 8 member id, 11 and 32 username */
struct cmd_name {
	struct str name;
};

/* 4 */
struct cmd_schema_put {
	struct str topic;
	int64_t version;
	struct str schema; /* the document's bytes */
};

/* 7, 19, 20 (at = 0), 85 (refused unless the member drains and nothing names it) */
struct cmd_member_at {
	struct str id;
	int64_t at; /* Unix seconds */
};

/* 13, and inside 27 */
struct cmd_child_attach {
	struct str parent;
	struct str child;
	struct str epoch; /* 16 hex, made by the proposer */
	int64_t delay_ms;
	struct i64_list offsets; /* start per parent partition */
};

/* 14 */
struct cmd_child_detach {
	struct str parent;
	struct str child;
};

/* 15 (target "" clears), 17 (the expected target) */
struct cmd_move_target {
	struct str topic;
	int64_t partition;
	struct str target;
};

/* 16 */
struct cmd_move_complete {
	struct str topic;
	int64_t partition;
	struct str expected_owner;
	struct str target;
};

/* 18 */
struct cmd_member_draining {
	struct str id;
	bool draining;
};

/* 21 */
struct cmd_user_password {
	struct str username;
	struct str password_hash; /* secret: bcrypt text's bytes */
	int64_t updated_at_ms;
};

/* 22 */
struct cmd_user_grants {
	struct str username;
	struct record_list grants; /* struct grant */
	int64_t updated_at_ms;
};

/* inside 23 */
struct cmd_create_link {
	struct str parent;
	struct str parent_id; /* expected incarnation */
	struct str epoch;
	int64_t delay_ms;
	struct i64_list offsets;
};

/* 23 */
struct cmd_topic_create_with {
	struct topic topic;
	struct str schema;                  /* the first version's bytes; absent = none */
	const struct cmd_create_link *link; /* NULL = none */
};

/* 24 */
struct cmd_topic_update_if {
	struct topic topic;
	struct str expect_id;
};

/* 25 */
struct cmd_topic_delete_if {
	struct str name;
	struct str expect_id;
};

/* 26 */
struct cmd_schema_put_if {
	struct str topic;
	int64_t version;
	struct str schema;
	struct str expect_id;
};

/* 27 */
struct cmd_child_attach_if {
	struct cmd_child_attach link;
	struct str parent_id;
	struct str child_id;
};

/* 28 */
struct cmd_child_detach_if {
	struct str parent;
	struct str child;
	struct str parent_id;
	struct str child_id;
};

/* 29 */
struct cmd_partition_place {
	struct str topic;
	int64_t partition;
	struct str owner_id;
	struct str expect_id;
};

/* 30 */
struct cmd_partition_prune {
	struct str topic;
	int64_t partition;
};

/* 31 */
struct cmd_member_dead_if {
	struct str id;
	int64_t observed; /* last_heartbeat the decision was made from, Unix seconds */
};

/* 33 */
struct cmd_remote_child_attach {
	struct str parent;
	struct str parent_id;
	struct str stub;
	struct str stub_id;
	struct str epoch;
	int64_t delay_ms;
	struct i64_list offsets;
	struct remote_link remote;
	int64_t created_at; /* Unix seconds */
	struct str actor;
	struct str request_id;
};

/* inside 34 */
struct cmd_remote_pause {
	bool paused;
	struct str reason;
	struct str by;
	int64_t at_ms;
};

/* inside 34 */
struct cmd_remote_skip {
	int64_t partition;
	int64_t offset;
};

/* 34: what is absent is left alone */
struct cmd_remote_child_state {
	struct str parent;
	struct str stub;
	struct str epoch;
	const struct cmd_remote_pause *pause;
	struct str target_id; /* absent, or the new value, which may be "" */
	struct opt_i64 lanes;
	const struct cmd_remote_skip *skip;
	struct str actor;
	struct str request_id;
};

/* 35 */
struct cmd_remote_create {
	struct remote record;
	struct str salt; /* secret; absent = none */
	int64_t sealed_at_ms;
	struct str actor;
	struct str request_id;
};

/* inside 36: what is absent is kept */
struct cmd_remote_fields {
	struct str url;
	struct str username;
	struct str ca_pem; /* "" removes it */
	const struct remote_limits_patch *limits;
};

/* inside 36: what the password was sealed against */
struct cmd_sealed_tuple {
	struct str name;
	struct str id;
	struct str url;
	struct str username;
	struct str trust_anchor;
};

/* 36 */
struct cmd_remote_change {
	struct str name;
	struct cmd_remote_fields fields;
	const struct sealed *credential; /* secret */
	struct str fingerprint;
	const struct cmd_sealed_tuple *sealed_against;
	uint64_t read_revision;
	struct opt_u64 expect_credential_version;
	bool reseal;
	int64_t sealed_at_ms;
	struct str actor;
	struct str request_id;
};

/* 37 */
struct cmd_remote_delete {
	struct str name;
	bool force;
	struct str actor;
	struct str request_id;
};

/* 65: labels that are named are set, with a null value removed; the others stay */
struct cmd_topic_labels {
	struct str topic;
	struct str expect_id;
	struct str_map labels;
};

/* 66: an operator's word; what the member reports of itself (64) does not touch it */
struct cmd_member_cordon {
	struct str id;
	bool cordoned;
};

/* 67: a broker registers. Its member record, what veena keeps beside it, and its session, which ends the one before. */
struct cmd_member_register {
	struct str id;
	struct str addr; /* host:port, HTTP */
	struct str_map tags;
	struct str store_id;   /* of its disk; "" = it does not say: what is known stays */
	struct str session;    /* 16 hex, made by the proposer */
	int64_t at;            /* Unix seconds */
	bool fresh;            /* takes a tombstone away */
	bool accept_data_loss; /* with another store than before: its single copies are gone */
};

/* 68: labels that are named are set, with a null value removed; the others stay */
struct cmd_member_labels {
	struct str id;
	struct str_map labels;
};

/* 69: refuses the whole entry unless this is the member's session; changes nothing. Stands before what a broker asks.
 */
struct cmd_member_session {
	struct str id;
	struct str session;
};

/* 70: a dead member will not come back. Partitions that it alone held have no owner any more, moves to it end, and a
 * tombstone stands in its place. */
struct cmd_member_lost {
	struct str id;
	int64_t at; /* Unix seconds */
	struct str reason;
};

/* 80: how many copies the partitions of a topic shall have; what is not set stays */
struct cmd_topic_replicas {
	struct str topic;
	struct str expect_id;
	struct opt_i64 replicas;
	struct opt_bool unclean;
	struct opt_i64 replica_lag;
};

/* 81: insert-only placement with copies: the first leads, at epoch 1, and all are in sync */
struct cmd_replicas_place {
	struct str topic;
	struct str expect_id;
	int64_t partition;
	struct str_list replicas; /* member ids */
};

/* 82: the next epoch begins with this leader; leader "" = nobody leads until the next, in the same epoch */
struct cmd_leader_change {
	struct str topic;
	struct str expect_id;
	int64_t partition;
	uint64_t expect_epoch;
	struct str leader;
	bool unclean; /* a copy that is not in sync may lead: what the others acknowledged beyond it is given up */
	struct str reason;
};

/* 83: what a leader reports of one copy, in its epoch; a member that is no replica yet becomes one */
struct cmd_in_sync_change {
	struct str topic;
	struct str expect_id;
	int64_t partition;
	uint64_t epoch;
	struct str replica;
	bool in_sync;
};

/* 84: another copy, one less, or (both) one in place of another as soon as it is in sync */
struct cmd_replicas_change {
	struct str topic;
	struct str expect_id;
	int64_t partition;
	uint64_t expect_epoch;
	struct str add, remove; /* member ids; "" = none */
	struct str reason;
};

/* 72: a partition gets a target, if it is as it was read. The target must be a member that may be given partitions. */
struct cmd_move_set_if {
	struct str topic;
	int64_t partition;
	struct str expect_id; /* incarnation of the topic */
	struct str expected_owner;
	struct str expected_target; /* "" = not moving */
	struct str target;
	int64_t max_moves; /* refused when so many are under way and this one is not among them; 0 = no bound */
};

/* 73 */
struct cmd_move_complete_if {
	struct str topic;
	int64_t partition;
	struct str expect_id;
	uint64_t move_id; /* log index that set the target */
	struct str expected_owner;
	struct str target;
};

/* 74 */
struct cmd_move_abort_if {
	struct str topic;
	int64_t partition;
	struct str expect_id;
	uint64_t move_id;
};

/* 75: the rebalance leaves a pinned partition alone */
struct cmd_partition_pin {
	struct str topic;
	int64_t partition;
	struct str expect_id;
	bool pinned;
};

extern const struct record_type cmd_move_set_if_type, cmd_move_complete_if_type, cmd_move_abort_if_type;
/* 76: a setting of the cluster; without a value it is as the servers' flags have it */
struct cmd_setting {
	struct str name;
	struct opt_i64 value;
};

extern const struct record_type cmd_partition_pin_type, cmd_setting_type;
extern const struct record_type cmd_topic_labels_type, cmd_member_cordon_type;
extern const struct record_type cmd_topic_replicas_type, cmd_replicas_place_type, cmd_leader_change_type;
extern const struct record_type cmd_in_sync_change_type, cmd_replicas_change_type;
extern const struct record_type cmd_member_register_type, cmd_member_labels_type, cmd_member_session_type;
extern const struct record_type cmd_member_lost_type;
extern const struct record_type cmd_topic_name_type, cmd_schema_put_type, cmd_member_at_type, cmd_member_name_type;
extern const struct record_type cmd_user_name_type, cmd_user_release_type, cmd_child_attach_type, cmd_child_detach_type;
extern const struct record_type cmd_move_target_type, cmd_move_complete_type, cmd_member_draining_type;
extern const struct record_type cmd_user_password_type, cmd_user_grants_type, cmd_create_link_type;
extern const struct record_type cmd_topic_create_with_type, cmd_topic_update_if_type, cmd_topic_delete_if_type;
extern const struct record_type cmd_schema_put_if_type, cmd_child_attach_if_type, cmd_child_detach_if_type;
extern const struct record_type cmd_partition_place_type, cmd_partition_prune_type, cmd_member_dead_if_type;
extern const struct record_type cmd_remote_child_attach_type, cmd_remote_pause_type, cmd_remote_skip_type;
extern const struct record_type cmd_remote_child_state_type, cmd_remote_create_type, cmd_remote_fields_type;
extern const struct record_type cmd_sealed_tuple_type, cmd_remote_change_type, cmd_remote_delete_type;

#endif /* MODEL_COMMANDS_H */
