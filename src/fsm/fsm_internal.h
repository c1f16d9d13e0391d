/* fsm/fsm_internal.h - what the files of fsm/ share: the state in memory, the context a command runs in, the calls that
 * write. Nothing above this folder includes it.
 */
#ifndef FSM_FSM_INTERNAL_H
#define FSM_FSM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "fsm/assignments.h"
#include "fsm/changes.h"
#include "fsm/fsm.h"
#include "fsm/idem.h"
#include "fsm/members.h"
#include "fsm/reader.h"
#include "fsm/settings.h"
#include "fsm/topics.h"
#include "fsm/users.h"
#include "model/commands.h"
#include "model/entry.h"
#include "model/records.h"
#include "raft/raft.h"
#include "store/store.h"

/* ---- where a store stands: written to fsm_meta and x_meta with every batch ---- */

struct fsm_state {
	raft_index applied;
	raft_term term;
	uint32_t max_entry_type;
	uint64_t digest[STORE_DB_COUNT];     /* x_meta and fsm_meta stay 0: see digest.c */
	raft_index domain[FSM_DOMAIN_COUNT]; /* last changed */
	uint64_t schema_bytes;               /* of all documents of all topics */
	int64_t settings[FSM_SETTING_COUNT]; /* as their rows say */
};

/* state.c */
MUST_CHECK int fsm_state_load(struct store_txn *txn, struct fsm_state *out);
MUST_CHECK int fsm_state_save(struct store_txn *txn, const struct fsm_state *s);
MUST_CHECK int fsm_save_conf(struct store_txn *txn, raft_index index, const void *bytes, size_t len);
/* Fills `e` with the sentence kept in the transaction and returns `rc`. */
int fsm_txn_err(struct store_txn *txn, int rc, struct err *e);

/* ---- what a command runs in ---- */

/* Effects of a batch that has not committed. NULL while judging. */
struct fsm_work {
	struct fsm_state state;
	struct buf notes;  /* changes noted so far, in changes.c's encoding */
	struct buf sealed; /* scratch of notes.c */
};

/* A ciphertext that an entry carries: it stands in the log, so it counts against its key even when the entry is
 * refused.
 */
struct seal {
	struct seal *next; /* of the same entry, in its order */
	struct str kv;
	int64_t at_ms;
};

struct apply {
	struct store_txn *txn;
	struct arena *arena; /* of the entry; what is read is copied into it, since a write moves what is borrowed */
	raft_index index;    /* of the entry; 0 while judging */
	uint64_t time_ms;    /* the leader's, from the entry: the only clock here */
	struct fsm_hint *hint;
	struct fsm_work *work;
	struct seal *seals;    /* of the entry so far, in its arena */
	struct buf value, key; /* scratch of the put calls; owned */
	struct err err;        /* sentence of a failure that is not the store's */
};

/* Every check of a command stands before its first write; there it asks this and, when only judged, is done. */
static inline bool is_judging(const struct apply *a)
{
	return !a->work;
}

void fsm_apply_fini(struct apply *a);

/* Runs one decoded command: 0, an enum fsm_refusal, or ERR_*. apply.c */
MUST_CHECK int fsm_run_command(struct apply *a, unsigned type, const void *command);

/* A command's function: checks in the facts' order, then is_judging, then effects. types.c has the table. */
typedef int fsm_command_fn(struct apply *a, const void *command);
fsm_command_fn *fsm_command_of(unsigned type); /* NULL: known, not carried out by this release */

fsm_command_fn fsm_topic_create, fsm_topic_update, fsm_topic_delete;
fsm_command_fn fsm_topic_create_with, fsm_topic_update_if, fsm_topic_delete_if, fsm_topic_labels;
fsm_command_fn fsm_schema_put, fsm_schema_put_if;
fsm_command_fn fsm_child_attach, fsm_child_detach, fsm_child_attach_if, fsm_child_detach_if;
fsm_command_fn fsm_user_create, fsm_user_seed_root, fsm_user_update, fsm_user_set_password, fsm_user_set_grants;
fsm_command_fn fsm_user_delete, fsm_user_delete_release, fsm_setting_set;
fsm_command_fn fsm_partition_assign, fsm_partition_place, fsm_partition_prune;
fsm_command_fn fsm_topic_replicas, fsm_replicas_place, fsm_leader_change, fsm_in_sync_change, fsm_replicas_change;
fsm_command_fn fsm_move_target, fsm_move_complete, fsm_move_abort;
fsm_command_fn fsm_move_set_if, fsm_move_complete_if, fsm_move_abort_if, fsm_partition_pin;
fsm_command_fn fsm_member_join, fsm_member_heartbeat, fsm_member_dead, fsm_member_dead_if, fsm_member_draining;
fsm_command_fn fsm_member_remove_if;
fsm_command_fn fsm_member_remove, fsm_member_readmit, fsm_member_set_extra, fsm_member_cordon, fsm_member_labels;
fsm_command_fn fsm_member_register, fsm_member_session, fsm_member_lost;
fsm_command_fn fsm_remote_child_attach, fsm_remote_child_state;
fsm_command_fn fsm_remote_create, fsm_remote_change, fsm_remote_delete;

/* ---- put.c: the one way to write ---- */

enum put_flag {
	PUT_QUIET = 1, /* no note: a heartbeat that changes only its time */
};

MUST_CHECK int fsm_put(struct apply *a, enum store_db db, struct str key, struct str value, unsigned flags);
MUST_CHECK int fsm_put_record(struct apply *a, enum store_db db, struct str key, const struct record_type *t,
                              const void *rec, unsigned flags);
MUST_CHECK int fsm_del(struct apply *a, enum store_db db, struct str key); /* nothing there: 0, no note */
/* What no single put says: a change of `domain` under `key`. */
void fsm_note(struct apply *a, enum fsm_domain domain, struct str key, enum fsm_op op);
/* Moves a domain's version without a note. */
void fsm_touch(struct apply *a, enum fsm_domain domain);

/* Reads into the arena. ERR_NOTFOUND. */
MUST_CHECK int fsm_get_copy(struct apply *a, enum store_db db, struct str key, struct str *value);
/* Same, decoded; ERR_CORRUPT (with a sentence) when the stored bytes are no such record. */
MUST_CHECK int fsm_get_record(struct apply *a, enum store_db db, struct str key, const struct record_type *t,
                              void *out);
/* Who the refusal is about; cut if long. */
void fsm_set_hint(struct apply *a, struct str name);
int fsm_corrupt(struct apply *a, enum store_db db, struct str key, const char *what);

/* ---- keys; each writes into `out` of STORE_KEY_MAX bytes and returns a str over it ---- */

#define PARTITION_MAX 65535u /* what a key can hold */

/* first \0 second */
struct str key_pair(uint8_t *out, struct str first, struct str second);
/* topic \0 u16be */
struct str key_place(uint8_t *out, struct str topic, uint32_t partition);
/* member \0 topic \0 u16be */
struct str key_held(uint8_t *out, struct str member, struct str topic, uint32_t partition);
/* lower(name) \0 name */
struct str key_fold(uint8_t *out, struct str name);
/* Splits topic \0 u16be. */
bool key_place_parse(struct str key, struct str *topic, uint32_t *partition);

/* ---- x_topic: packed owners ---- */

struct slot {
	struct str owner;  /* "" = unplaced */
	struct str target; /* "" = no move */
	raft_index version;
	raft_index move_id;
	bool leaderless; /* no owner, but copies */
	bool pinned;     /* the rebalance leaves it alone; its row does not say so, and goes without asking */
};

struct packed {
	bool replicated;
	raft_index changed_index;
	raft_index owners_index;
	uint32_t schema_version;
	uint32_t count;
	struct slot *slots; /* arena */
	struct str tail;
};

MUST_CHECK bool packed_decode(struct str bytes, struct arena *a, struct packed *out);
/* Canonical: equal contents, equal bytes. */
void packed_encode(const struct packed *p, struct buf *out);
uint32_t packed_unplaced(const struct packed *p); /* how many slots have neither owner nor copies */
/* What a reader wants of it; name and record are the caller's to fill. */
MUST_CHECK bool packed_read_topic(struct str bytes, struct fsm_topic *out);

/* ---- topic_store.c: a topic as apply handles it, record and packed list together ---- */

struct topic_state {
	struct topic rec;
	struct packed packed;
};
/* The record alone, if it is the incarnation that is meant; else FSM_TOPIC_NOT_FOUND, FSM_TOPIC_CHANGED. */
MUST_CHECK int topic_record_load(struct apply *a, struct str name, struct str expect_id, struct topic *out);
MUST_CHECK int topic_state_load(struct apply *a, struct str name, struct topic_state *out); /* ERR_NOTFOUND */
MUST_CHECK int topic_state_insert(struct apply *a, const struct topic *rec, struct topic_state *out);
/* Writes what changed in out->rec, whose stored form is `old`; keeps slots and indexes in step with its partitions. */
MUST_CHECK int topic_state_rewrite(struct apply *a, const struct topic *old, struct topic_state *t);
/* Only what veena adds to the record changed. */
MUST_CHECK int topic_state_retail(struct apply *a, struct topic_state *t);
/* Record, rows and indexes; partners are the caller's business. */
MUST_CHECK int topic_state_erase(struct apply *a, const struct topic *rec);
/* Rows a former topic of this name left behind. */
MUST_CHECK int topic_state_clear_rows(struct apply *a, struct str name);
MUST_CHECK int packed_store(struct apply *a, struct str name, const struct packed *before, const struct packed *now);
MUST_CHECK int packed_load(struct apply *a, struct str name, struct packed *out); /* ERR_NOTFOUND */

/* ---- labels.c ---- */

MUST_CHECK int topic_extra_load(struct apply *a, struct str name, struct topic_extra *out); /* defaults when absent */
bool topic_extra_is_default(const struct topic_extra *x);
/* How a command on them begins and ends: the topic, if it is the incarnation that is meant; stored, told and shown. */
MUST_CHECK int topic_extra_begin(struct apply *a, struct str name, struct str expect_id, struct topic_state *t,
                                 struct topic_extra *x);
MUST_CHECK int topic_extra_end(struct apply *a, struct topic_state *t, const struct topic_extra *x);

/* ---- fanout.c ---- */

MUST_CHECK int fanout_check_config(struct apply *a, const struct topic *old, const struct topic *now);
MUST_CHECK int fanout_release(struct apply *a, const struct topic *gone); /* partners of a topic that is deleted */

struct fanout_link {
	struct str parent, child, epoch;
	int64_t delay_ms;
	struct i64_list offsets;
	bool by_value; /* compare schema histories as JSON values and hold adoption to the budgets */
};
/* Every rule of an attach, in order. `child` is read from the store, or (create with link) given with its first schema.
 */
MUST_CHECK int fanout_judge(struct apply *a, const struct fanout_link *l, const struct topic *new_child,
                            struct str new_schema);
MUST_CHECK int fanout_attach(struct apply *a, const struct fanout_link *l);

/* The parent lists one more child. */
MUST_CHECK int fanout_list_child(struct apply *a, struct str parent, struct str child);
bool fanout_delay_fits(int64_t retention_ms, int64_t delay_ms);

/* ---- remotes.c ---- */

/* Counts the seals of an entry that was refused, which left nothing else. */
MUST_CHECK int remote_count_refused(struct apply *a);
/* Nothing to the index by remotes unless the topic is a stub: `was` and `is` say what stood and what shall stand. */
MUST_CHECK int remote_index_stub(struct apply *a, struct str name, const struct remote_link *was,
                                 const struct remote_link *is);

/* ---- schemas.c ---- */

struct schema_history {
	struct fsm_schema *items; /* by version */
	size_t count;
	uint64_t bytes;
};
/* Into the arena; `documents` false leaves their bytes out and keeps their lengths. */
MUST_CHECK int schema_load(struct apply *a, struct str topic, bool documents, struct schema_history *out);
MUST_CHECK int schema_append(struct apply *a, struct str topic, uint32_t version, struct str document);
/* Do the budgets allow `document` as the first version of a new topic? */
MUST_CHECK int schema_judge_first(struct apply *a, struct str topic, struct str document);
MUST_CHECK int schema_cluster_bytes(struct apply *a, uint64_t *out);

/* ---- places.c: one row of `assignments` with everything derived from it ---- */

struct place {
	struct str topic;
	uint32_t partition;
	struct str owner, target; /* owner "": no row */
	struct fsm_replicas set;  /* copies; the owner leads them */
};
MUST_CHECK int place_load(struct apply *a, struct str topic, int64_t partition, struct place *out); /* ERR_NOTFOUND */
uint8_t place_roles(const struct place *p, struct str member); /* bits of enum fsm_role */
/* Pins a partition of a live topic, or lets it go. */
MUST_CHECK int place_pin(struct apply *a, struct str topic, uint32_t partition, bool pinned);
/* The row becomes `now` (owner "": goes, and its pin with it). */
MUST_CHECK int place_store(struct apply *a, const struct place *before, const struct place *now);

/* May a partition be given to this member? assignments.c */
MUST_CHECK int judge_placeable_owner(struct apply *a, struct str owner);

/* ---- replicas.c ---- */

/* Into the arena. */
MUST_CHECK int replicas_load(struct apply *a, struct str topic, uint32_t partition, struct fsm_replicas *out);
MUST_CHECK int replicas_save(struct apply *a, const struct place *before, const struct place *now);
bool replicas_equal(const struct fsm_replicas *x, const struct fsm_replicas *y);
void replicas_drop(struct fsm_replicas *r, struct str id); /* its copy leaves the set */
/* Copies that nobody leads have no row in `assignments`: theirs go here. */
MUST_CHECK int replicas_clear_topic(struct apply *a, struct str topic);

/* ---- x_member ---- */

struct member_row {
	enum fsm_member_kind kind;
	bool offers;         /* takes partitions, by its own report */
	bool cordoned;       /* shall get none, by an operator's word */
	struct str tags;     /* JSON object or "" for none: its own report */
	struct str labels;   /* the same: operators' */
	struct str session;  /* of its newest registration; "" = a server, or none yet */
	struct str store_id; /* of its disk; "" = not said */
	struct fsm_member_counts counts;
};
extern const struct member_row member_row_default; /* of a member without a row; its counts are 0 */
bool member_row_is_default(const struct member_row *row);
MUST_CHECK bool member_row_decode(struct str bytes, struct member_row *out);
MUST_CHECK int member_row_load(struct apply *a, struct str id, struct member_row *out); /* defaults when absent */
MUST_CHECK int member_row_store(struct apply *a, struct str id, const struct member_row *row);

/* ---- members.c, for brokers.c ---- */

MUST_CHECK int member_load(struct apply *a, struct str id, struct member *out); /* FSM_MEMBER_NOT_FOUND */
/* The same, and what veena keeps beside it. */
MUST_CHECK int member_load_whole(struct apply *a, struct str id, struct member *m, struct member_row *row);
/* `old` NULL: a new member. Judges only while judging. */
MUST_CHECK int member_store(struct apply *a, const struct member *old, const struct member *now);
/* Record and what veena keeps go, a tombstone comes; partitions that name it go on counting. */
MUST_CHECK int member_erase(struct apply *a, struct str id, int64_t at);
bool are_tags(const struct str_map *tags);
struct str tags_json(struct apply *a, const struct str_map *tags); /* "" for none; in the arena */

/* ---- digest.c ---- */

uint64_t digest_of(struct str key, struct str value, struct buf *scratch);
bool digest_leaves_out(enum store_db db, struct str key);

struct place;

/* ---- notes.c: what watchers are told of an entry ---- */

/* A delete of `key`, whose last record is `record` (empty: nothing to show); `members`: see struct fsm_change. */
void notes_gone(struct apply *a, enum fsm_domain domain, struct str key, struct str record, struct str members);
/* Who holds a partition before and after a change of its row. */
void notes_holders(struct apply *a, const struct place *before, const struct place *now);
/* The servers that differ between two configurations. */
void notes_servers(struct apply *a, const struct raft_conf *before, const struct raft_conf *now);
void notes_put_server(const struct raft_server *s, struct buf *out);
/* The partitions of a topic that differ between the two lists. */
MUST_CHECK int notes_partitions(struct apply *a, struct str topic, struct str id, const struct packed *before,
                                const struct packed *now);
/* A topic and the number behind it, of "orders/3". */
bool notes_split_row(struct str key, struct str *topic, uint32_t *number);
/* The record under `key` of a domain, as the transaction has it now, appended; ERR_NOTFOUND: nothing to show. */
MUST_CHECK int notes_render(struct store_txn *txn, struct arena *arena, enum fsm_domain domain, struct str key,
                            struct buf *out);
/* Ends an entry: of the notes from offset `from` on, one for each key, with the records as they are now. */
MUST_CHECK int notes_seal(struct apply *a, size_t from);

/* ---- idem.c ---- */

/* FSM_IDEMPOTENT: an answer is kept under this entry's key already. */
MUST_CHECK int idem_judge(struct apply *a, const struct entry_header *h);
MUST_CHECK int idem_keep(struct apply *a, const struct entry_header *h); /* the entry's commands were applied */

/* ---- settings.c ---- */

#define SETTING_UNSET INT64_MIN
MUST_CHECK int settings_load(struct store_txn *txn, int64_t *out);
void settings_write(struct json_writer *w, struct str name, int64_t value);

/* ---- changes.c ---- */

struct changes; /* the list */
struct change_note {
	raft_index index;
	enum fsm_domain domain;
	enum fsm_op op;
	struct str key, record, members;
};
/* `bytes`: more than this is kept only for the newest entries' sake; 0 = default. */
struct changes *changes_new(size_t bytes, raft_index floor);
void changes_free(struct changes *c); /* no place may be left; accepts NULL */
void changes_encode(struct buf *notes, const struct change_note *n);
/* Walks encoded notes; the first time *at is 0. False: the end. The strings point into `notes`. */
bool changes_decode(const struct buf *notes, size_t *at, struct change_note *out);
void changes_publish(struct changes *c, const struct buf *notes);
void changes_restart(struct changes *c, raft_index floor);

/* ---- struct fsm ---- */

struct fsm {
	struct store *store;
	uint32_t max_entry_type;

	/* apply thread */
	struct fsm_state state; /* as committed */
	struct fsm_work work;
	struct arena arena;

	/* published */
	_Atomic raft_index applied;
	_Atomic raft_term term;
	_Atomic raft_index domain[FSM_DOMAIN_COUNT];
	struct changes *changes;
	_Atomic int64_t settings[FSM_SETTING_COUNT];

	/* readers */
	pthread_mutex_t readers_lock; /* the list; not taken by a read */
	struct fsm_reader *readers;
	_Atomic uint64_t generation;
	_Atomic int closed; /* 0, or ERR_CLOSED: no file is open */

	/* the newest two tables of members, shared by the readers */
	pthread_mutex_t members_lock;
	const struct fsm_members *members[2];
	uint64_t members_generation[2];
};

/* reader.c */
MUST_CHECK int readers_take_all(struct fsm *f, struct err *e);
void readers_give_back(struct fsm *f);
/* members_read.c */
void members_cache_clear(struct fsm *f);
const struct fsm_members *members_ref(const struct fsm_members *m);

#endif /* FSM_FSM_INTERNAL_H */
