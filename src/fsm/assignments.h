/* fsm/assignments.h - partitions by place: one row, those of a member, moves under way, orphans.
 *
 * Every list is an index walk from a key, never a scan: what it costs is what it returns.
 * Ownership: everything is borrowed from the transaction.   Thread: any, each with its own transaction.
 */
#ifndef FSM_ASSIGNMENTS_H
#define FSM_ASSIGNMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "fsm/topics.h"
#include "model/rules.h"
#include "store/store.h"

/* Narad's row as stored, orphans too. ERR_NOTFOUND: unplaced, or no such topic or partition. */
MUST_CHECK int fsm_get_assignment_record(struct store_txn *txn, struct str topic, uint32_t partition,
                                         struct str *record);

/* What a row says to the API. `moving` and `owner_dead` may both be true: what needs a person comes first, and
 * target_id shows the move anyway. */
const char *fsm_assignment_state(const struct fsm_owner *o, bool owner_alive);
enum fsm_role {
	FSM_ROLE_OWNER = 1,
	FSM_ROLE_TARGET = 2,
	FSM_ROLE_REPLICA = 4, /* it has a copy of a replicated partition; its leader too, beside FSM_ROLE_OWNER */
};

/* A partition and what it is to somebody. */
struct fsm_place {
	struct str topic;
	uint32_t partition;
	uint32_t roles; /* of enum fsm_role; of moves FSM_ROLE_TARGET, of orphans 0 */
};

struct fsm_place_iter {
	struct store_cursor *cursor;
	bool started;
	uint16_t prefix_len; /* bytes of `key` that every key of the walk begins with: the member and a NUL, or 0 */
	uint16_t key_len;
	uint8_t key[STORE_KEY_MAX + 1]; /* where the walk begins */
};
/* Partitions that name `member`, by topic and partition, behind `after` (NULL: from the first). */
MUST_CHECK int fsm_held_open(struct fsm_place_iter *it, struct store_txn *txn, struct str member,
                             const struct fsm_place *after);
/* Moves under way (rows with a target), all topics, by topic and partition. */
MUST_CHECK int fsm_moves_open(struct fsm_place_iter *it, struct store_txn *txn, const struct fsm_place *after);
/* Rows of topics that are gone or of partitions past the topic's count: what type 30 prunes. */
MUST_CHECK int fsm_orphans_open(struct fsm_place_iter *it, struct store_txn *txn, const struct fsm_place *after);
/* Partitions that have copies and no leader. */
MUST_CHECK int fsm_leaderless_open(struct fsm_place_iter *it, struct store_txn *txn);
MUST_CHECK int fsm_place_next(struct fsm_place_iter *it, struct fsm_place *out); /* ERR_NOTFOUND: the end */
void fsm_place_close(struct fsm_place_iter *it); /* accepts a zeroed one; before the transaction ends */

MUST_CHECK int fsm_count_moves(struct store_txn *txn, uint64_t *out);       /* constant time */
MUST_CHECK int fsm_count_assignments(struct store_txn *txn, uint64_t *out); /* constant time; rows, orphans too */
MUST_CHECK int fsm_count_orphans(struct store_txn *txn, uint64_t *out);     /* constant time; rows of no partition */

/* ---- copies ---- */

#define FSM_REPLICAS_MAX TOPIC_REPLICAS_MAX

struct fsm_replica {
	struct str id;
	bool in_sync;
	struct str replaces; /* member whose copy goes as soon as this one is in sync; "" = none */
};
/* Of a replicated partition. The leader comes first; without one, the others in the order they came. */
struct fsm_replicas {
	uint64_t epoch; /* of its leader, from 1; never goes back */
	size_t count;   /* 0 = the partition is not replicated */
	struct fsm_replica items[FSM_REPLICAS_MAX];
};
/* Never ERR_NOTFOUND: `count` 0 says that there are none. ERR_CORRUPT, ERR_IO. */
MUST_CHECK int fsm_get_replicas(struct store_txn *txn, struct str topic, uint32_t partition, struct fsm_replicas *out);
/* One partition as answers and watchers have it. */
void fsm_write_assignment(struct json_writer *w, struct str topic, struct str id, uint32_t p, const struct fsm_owner *o,
                          const char *state, const struct fsm_replicas *set);
/* NULL: it has no copy. */
const struct fsm_replica *fsm_replicas_find(const struct fsm_replicas *r, struct str id);

#endif /* FSM_ASSIGNMENTS_H */
