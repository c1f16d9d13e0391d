/* The table of entry types. A domain is one file and its rows here.
 *
 * A known type without a function is refused as "unsupported": this release carries it in its model, and nothing in it
 * proposes it. A row, once there, never changes its meaning: the log holds it. */
#include "fsm/fsm_internal.h"

static fsm_command_fn *const commands[COMMAND_MAX + 1] = {
	[CMD_TOPIC_CREATE] = fsm_topic_create,
	[CMD_TOPIC_UPDATE] = fsm_topic_update,
	[CMD_TOPIC_DELETE] = fsm_topic_delete,
	[CMD_SCHEMA_PUT] = fsm_schema_put,
	[CMD_PARTITION_ASSIGN] = fsm_partition_assign,
	[CMD_MEMBER_JOIN] = fsm_member_join,
	[CMD_MEMBER_HEARTBEAT] = fsm_member_heartbeat,
	[CMD_MEMBER_DEAD] = fsm_member_dead,
	[CMD_USER_CREATE] = fsm_user_create,
	[CMD_USER_UPDATE] = fsm_user_update,
	[CMD_USER_DELETE] = fsm_user_delete,
	[CMD_USER_SEED_ROOT] = fsm_user_seed_root,
	[CMD_CHILD_ATTACH] = fsm_child_attach,
	[CMD_CHILD_DETACH] = fsm_child_detach,
	[CMD_MOVE_TARGET] = fsm_move_target,
	[CMD_MOVE_COMPLETE] = fsm_move_complete,
	[CMD_MOVE_ABORT] = fsm_move_abort,
	[CMD_MEMBER_DRAINING] = fsm_member_draining,
	[CMD_MEMBER_REMOVE] = fsm_member_remove,
	[CMD_MEMBER_READMIT] = fsm_member_readmit,
	[CMD_USER_PASSWORD] = fsm_user_set_password,
	[CMD_USER_GRANTS] = fsm_user_set_grants,
	[CMD_TOPIC_CREATE_WITH] = fsm_topic_create_with,
	[CMD_TOPIC_UPDATE_IF] = fsm_topic_update_if,
	[CMD_TOPIC_DELETE_IF] = fsm_topic_delete_if,
	[CMD_SCHEMA_PUT_IF] = fsm_schema_put_if,
	[CMD_CHILD_ATTACH_IF] = fsm_child_attach_if,
	[CMD_CHILD_DETACH_IF] = fsm_child_detach_if,
	[CMD_PARTITION_PLACE] = fsm_partition_place,
	[CMD_PARTITION_PRUNE] = fsm_partition_prune,
	[CMD_MEMBER_DEAD_IF] = fsm_member_dead_if,
	[CMD_USER_DELETE_RELEASE] = fsm_user_delete_release,
	[CMD_REMOTE_CHILD_ATTACH] = fsm_remote_child_attach,
	[CMD_REMOTE_CHILD_STATE] = fsm_remote_child_state,
	[CMD_REMOTE_CREATE] = fsm_remote_create,
	[CMD_REMOTE_CHANGE] = fsm_remote_change,
	[CMD_REMOTE_DELETE] = fsm_remote_delete,
	[CMD_MEMBER_EXTRA] = fsm_member_set_extra,
	[CMD_TOPIC_LABELS] = fsm_topic_labels,
	[CMD_MEMBER_CORDON] = fsm_member_cordon,
	[CMD_MEMBER_REGISTER] = fsm_member_register,
	[CMD_MEMBER_LABELS] = fsm_member_labels,
	[CMD_MEMBER_SESSION] = fsm_member_session,
	[CMD_MEMBER_LOST] = fsm_member_lost,
	[CMD_TOPIC_REPLICAS] = fsm_topic_replicas,
	[CMD_REPLICAS_PLACE] = fsm_replicas_place,
	[CMD_LEADER_CHANGE] = fsm_leader_change,
	[CMD_IN_SYNC_CHANGE] = fsm_in_sync_change,
	[CMD_REPLICAS_CHANGE] = fsm_replicas_change,
	[CMD_MEMBER_REMOVE_IF] = fsm_member_remove_if,
	[CMD_MOVE_SET_IF] = fsm_move_set_if,
	[CMD_MOVE_COMPLETE_IF] = fsm_move_complete_if,
	[CMD_MOVE_ABORT_IF] = fsm_move_abort_if,
	[CMD_PARTITION_PIN] = fsm_partition_pin,
	[CMD_SETTING] = fsm_setting_set,
};

fsm_command_fn *fsm_command_of(unsigned type)
{
	return type <= COMMAND_MAX ? commands[type] : NULL;
}

uint32_t fsm_max_known_type(void)
{
	return COMMAND_MAX;
}
