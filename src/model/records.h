/* model/records.h - the records of the eight buckets, and the bodies of requests.
 *
 * Stored records carry Narad's fields under Narad's names in Narad's order, so that a bucket can be carried over and
 * back byte for byte. What veena adds stands in databases and records of its own. Request bodies are read strictly; a
 * field that no release of this daemon acts upon is not in their tables, so it is refused instead of ignored.
 *
 * Integers that are `int` in Narad are int64_t here. Lists of sub-records name their struct in the comment.
 * Thread: any.
 */
#ifndef MODEL_RECORDS_H
#define MODEL_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/field.h"

/* ---- bucket "topics": key = name ---- */

/* What makes a child topic a stub: its records go to a topic of another cluster. */
struct remote_link {
	struct str name;      /* of the remote */
	struct str topic;     /* on the remote */
	struct str target_id; /* its incarnation; "" = not served */
	struct str from;      /* "attach", "unconsumed" or "earliest" */
	int64_t lanes;        /* 1..8 */
	bool paused;
	struct str pause_reason;
	struct str paused_by; /* shown to admins only */
	int64_t paused_at_ms;
	struct offsets_map skip; /* offsets given up, ascending */
	struct str created_by;   /* shown to admins only */
};

struct topic {
	struct str name;
	struct str id;        /* incarnation: 16 hex; "" on topics of old releases */
	int64_t partitions;   /* 0 only on a stub */
	int64_t retention_ms; /* 0 = for ever */
	int64_t visibility_timeout_ms;
	int64_t max_in_flight_per_partition;
	int64_t max_acked_ahead_per_partition;
	int64_t created_at;       /* Unix seconds */
	struct str owner;         /* user */
	struct str role;          /* "standalone", "parent" or "child"; "" reads as standalone */
	struct str_list children; /* in the order they were attached */
	struct str parent;
	struct str attach_epoch; /* 16 hex */
	int64_t fanout_delay_ms;
	struct i64_list attach_offsets;   /* the parent's high watermark per partition at the attach */
	const struct remote_link *remote; /* NULL unless a stub */
};

#define TOPIC_ROLE_STANDALONE "standalone"
#define TOPIC_ROLE_PARENT "parent"
#define TOPIC_ROLE_CHILD "child"

static inline bool topic_is_child(const struct topic *t)
{
	return str_is(t->role, TOPIC_ROLE_CHILD);
}
static inline bool topic_is_parent(const struct topic *t)
{
	return str_is(t->role, TOPIC_ROLE_PARENT);
}
static inline bool topic_is_stub(const struct topic *t)
{
	return t->remote && topic_is_child(t);
}

/* ---- bucket "assignments": key = <topic>:<partition> ---- */

struct assignment {
	struct str topic;
	int64_t partition;    /* 0-based */
	struct str owner_id;  /* member */
	struct str target_id; /* member a move goes to; "" = none */
};

/* ---- bucket "members": key = id ---- */

struct member {
	struct str id;
	struct str addr;         /* host:port, HTTP */
	struct str cluster_addr; /* host:port, between servers; "" = a broker */
	struct str status;       /* "alive" or "dead" */
	int64_t last_heartbeat;  /* Unix seconds, of the leader's clock */
	bool draining;
	struct str build;
	uint32_t entry_types; /* newest entry type it applies; 0 reads as COMMAND_LEGACY_MAX */
};

#define MEMBER_ALIVE "alive"
#define MEMBER_DEAD "dead"

/* ---- bucket "removed_members": key = id ---- */

struct removed_member {
	int64_t removed_at; /* Unix seconds */
};

/* ---- bucket "users": key = username ---- */

struct grant {
	struct str action;
	struct str_list patterns;
};

struct user {
	struct str username;
	struct str password_hash;  /* secret: the bcrypt text's bytes */
	struct record_list grants; /* struct grant */
	bool root;
	int64_t created_at_ms;
	int64_t updated_at_ms;
};

/* ---- bucket "remotes": key = name, and the reserved REMOTE_KEYS_KEY ---- */

#define REMOTE_KEYS_KEY "_keys"

struct sealed {
	int64_t v;     /* format, 1 */
	struct str kv; /* key version, 16 hex */
	struct str ct; /* nonce, ciphertext, tag */
};

struct remote_limits {
	int64_t max_in_flight;
	int64_t request_timeout_ms;
	int64_t idle_conn_timeout_ms;
	int64_t conn_max_age_ms;
	int64_t check_interval_ms;
	struct str compression; /* "none" or "zstd" */
};

/* The limits a change names; the others keep their value. */
struct remote_limits_patch {
	struct opt_i64 max_in_flight;
	struct opt_i64 request_timeout_ms;
	struct opt_i64 idle_conn_timeout_ms;
	struct opt_i64 conn_max_age_ms;
	struct opt_i64 check_interval_ms;
	struct str compression;
};

struct remote {
	struct str name;
	struct str id; /* 16 hex */
	struct str url;
	struct str username;
	struct sealed credential; /* secret */
	uint64_t credential_version;
	struct str fingerprint;
	int64_t password_set_at_ms;
	struct str password_set_by;
	struct str ca_pem;
	struct remote_limits limits;
	uint64_t revision;
	int64_t created_at_ms;
	struct str created_by;
};

struct key_version {
	struct str key; /* the key version, 16 hex: the key of the JSON object */
	uint64_t seals;
	int64_t first_sealed_at_ms;
};

struct remote_keys {
	struct str salt;             /* secret: 32 bytes; absent until the first remote */
	struct record_list versions; /* struct key_version, sorted by key */
};

/* ---- veena's own ---- */

#define MEMBER_KIND_SERVER "server"
#define MEMBER_KIND_BROKER "broker"

/* What a member has beyond Narad's record (command 64). */
struct member_extra {
	struct str id;
	struct str kind; /* "server" or "broker" */
	bool placeable;  /* the member itself takes partitions; an operator's cordon is another thing (command 66) */
	struct str_map tags;
};

/* What a topic has beyond Narad's record. */
struct topic_extra {
	int64_t replicas;    /* copies each partition shall have; 1 = one owner, who is never replaced by itself */
	bool unclean;        /* a copy that is not in sync may lead when no other can */
	int64_t replica_lag; /* entries a copy may lack and be in sync; 0 = the cluster's setting */
	struct str_map labels;
};
#define TOPIC_EXTRA_DEFAULT ((struct topic_extra){ .replicas = 1 })

extern const struct record_type topic_extra_type;
extern const struct record_type remote_link_type, topic_type, assignment_type, member_type, removed_member_type;
extern const struct record_type grant_type, user_type, sealed_type, remote_limits_type, remote_limits_patch_type;
extern const struct record_type remote_type, key_version_type, remote_keys_type, member_extra_type;

/* ---- keys of rows that belong to a topic: <topic>:<decimal number> ---- */

#define ROW_KEY_MAX (255 + 1 + 20) /* longest topic name of any release, ':', digits */

/* Of an assignment (number = partition) or a schema version. Writes at most ROW_KEY_MAX bytes, no NUL; returns how
 * many, 0 if the name is longer than 255 bytes or the number is negative. */
size_t row_key(char out[ROW_KEY_MAX], struct str topic, int64_t number);
/* Splits at the last ':'. False: no ':' or no plain decimal number behind it. `topic` points into `key`. */
bool row_key_parse(struct str key, struct str *topic, int64_t *number);

/* ---- request bodies ---- */

struct topic_create {
	struct str name;
	struct opt_i64 partitions;
	struct opt_i64 retention_ms;
	struct opt_i64 visibility_timeout_ms;
	struct opt_i64 max_in_flight_per_partition;
	struct opt_i64 max_acked_ahead_per_partition;
	struct str schema; /* a JSON document */
	struct str parent;
	struct opt_i64 fanout_delay_ms;
	struct str owner; /* accepted and not used: the caller is the owner */
	struct opt_i64 replicas;
	struct opt_bool unclean;
	struct opt_i64 replica_lag;
	struct str_map labels;
};

struct topic_alter {
	struct opt_i64 partitions;
	struct opt_i64 retention_ms;
	struct opt_i64 max_in_flight_per_partition;
	struct opt_i64 max_acked_ahead_per_partition;
	struct str schema;
	struct opt_i64 schema_base_version;
	struct opt_i64 replicas;
	struct opt_bool unclean;
	struct opt_i64 replica_lag; /* null: the cluster's setting */
	struct str_map labels;      /* those named change; a null value removes */
};

struct child_attach {
	struct str child;
	struct opt_i64 delay_ms;
	struct str remote; /* this and what follows: a child on another cluster */
	struct str remote_topic;
	struct str from;
	struct opt_i64 lanes;
	struct opt_bool dry_run;
};

struct child_pause {
	struct str reason;
};

struct child_resume {
	struct opt_bool accept_target;
};

struct child_skip {
	struct opt_i64 partition; /* required */
	struct opt_i64 offset;    /* required */
};

struct user_create {
	struct str username;
	struct str password;       /* secret */
	struct record_list grants; /* struct grant */
};

struct user_grants {
	struct record_list grants; /* struct grant; required, may be empty */
};

struct user_password {
	struct str new_password;     /* secret */
	struct str current_password; /* secret */
};

struct remote_create {
	struct str name;
	struct str url;
	struct str username;
	struct str password; /* secret */
	struct str ca_pem;
	const struct remote_limits_patch *limits;
};

struct remote_patch {
	struct str url;
	struct str username;
	struct str password; /* secret */
	struct str ca_pem;   /* "" = the system's roots */
	const struct remote_limits_patch *limits;
};

/* A broker registers itself. */
struct member_register {
	struct str id;
	struct str addr;
	struct str_map tags;
	struct str store_id;
	struct opt_bool fresh;
	struct opt_bool accept_data_loss;
};

/* An operator's word about a member; what is absent stays. */
struct member_patch {
	struct opt_bool placeable;
	struct str_map labels; /* those named change; a null value removes */
};

struct member_leave {
	struct str mode; /* MEMBER_LEAVE_* */
};
#define MEMBER_LEAVE_RESTART "restart"
#define MEMBER_LEAVE_REMOVE "remove"

struct member_lost {
	struct opt_bool accept_data_loss;
	struct str reason;
};

struct move_set {
	struct str target;
	struct str topic_id;
	struct str expected_target;
	struct opt_bool pin;
};

struct move_complete {
	struct str topic_id;
	struct opt_u64 move_id;
	struct str expected_owner;
	struct str target;
	struct opt_bool force;
};

struct move_progress {
	struct str topic_id;
	struct opt_u64 move_id; /* required, as is phase */
	struct str phase;       /* copying, frozen */
	struct opt_u64 copied_bytes, total_bytes;
};

/* What a server is to be in the Raft configuration. */
struct leader_set {
	struct str leader;
	struct str topic_id;
	struct opt_u64 expected_epoch;
	struct opt_bool unclean;
};

struct replicas_set {
	struct str topic_id;
	struct str add, remove;
};

struct server_set {
	struct str id;
	struct str cluster_addr; /* absent: as it is */
	struct opt_bool voter;   /* default true */
};

/* Those named change; null removes. */
struct settings_patch {
	struct opt_i64 max_moves, dead_after_s, failover_after_s, member_heartbeat_ms, min_voters, replica_lag;
};

struct leader_transfer {
	struct str to; /* absent: any */
};

extern const struct record_type topic_create_type, topic_alter_type, child_attach_type, child_pause_type;
extern const struct record_type child_resume_type, child_skip_type, user_create_type, user_grants_type;
extern const struct record_type user_password_type, remote_create_type, remote_patch_type, member_register_type;
extern const struct record_type move_progress_type;
extern const struct record_type settings_patch_type;
extern const struct record_type move_set_type, move_complete_type, leader_transfer_type;
extern const struct record_type server_set_type, leader_set_type, replicas_set_type, member_patch_type,
    member_leave_type, member_lost_type;

#endif /* MODEL_RECORDS_H */
