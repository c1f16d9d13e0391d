/* fsm/topics.h - topics as readers want them: the stored record and the packed owners, found by one look-up each.
 *
 * A GET is: record minus its last brace, then tail, then what the caller formats from the owners and the member table,
 * then a brace. Nothing is parsed. The layout of x_topic is drawn in fsm/README.md.
 * Ownership: everything is borrowed from the transaction.   Thread: any, each with its own transaction.
 */
#ifndef FSM_TOPICS_H
#define FSM_TOPICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "model/json.h"
#include "model/records.h"
#include "store/store.h"

/* Most partitions a topic may have in the log: what a packed list can hold. The API's own limit (108) is lower. */
#define FSM_PARTITIONS_MAX 4096

struct fsm_topic {
	struct str name;   /* as asked for, or from the list */
	struct str record; /* Narad's JSON, "{...}" */
	struct str tail;   /* what veena adds, as `,"field":value...` without braces: role where the record has none,
	                    * replicas, unclean, labels. Made when the topic was written */
	raft_index changed_index; /* last change of the record or of what veena adds to it */
	raft_index owners_index;  /* last change of any partition's owner or target */
	uint32_t schema_version;  /* latest; 0 = none */
	uint32_t partition_count; /* partitions 0..n-1 */
	bool replicated;          /* its partitions have copies (fsm_get_replicas) */
	struct str packed;        /* the whole x_topic value; for fsm_topic_owner */
};

/* Record and tail as one object, in the arena: the topic as answers and policies have it. */
struct str fsm_topic_json(const struct fsm_topic *t, struct arena *arena);

/* A topic's id as its stored record says, or ""; borrowed as the record is. Without reading all of it. */
struct str fsm_topic_id(struct str record);

/* ERR_NOTFOUND, ERR_CORRUPT, ERR_IO. */
MUST_CHECK int fsm_get_topic(struct store_txn *txn, struct str name, struct fsm_topic *out);

/* One partition. Rows of `assignments` and this say the same; a partition without a row is here with owner "". */
struct fsm_owner {
	struct str owner;   /* "" = unplaced */
	struct str target;  /* "" = no move */
	raft_index version; /* log index of its last change: a fencing token */
	raft_index move_id; /* log index that set the target; 0 = no move */
	bool leaderless;    /* there are copies, and nobody leads them: not unplaced, for they hold data */
	bool pinned;        /* the rebalance leaves it alone */
};
/* p < partition_count. Constant time. */
void fsm_topic_owner(const struct fsm_topic *t, uint32_t p, struct fsm_owner *out);

/* Keys of caches by a topic's name: as long as one stands, what was read under it is what is stored. No value ever goes
 * back, not when the topic is deleted or made again; a refused entry and a heartbeat move none. Where there is no topic
 * both are the last change that may have been its end. A schema's is the topic's own. */
struct fsm_topic_versions {
	raft_index topic;       /* of the record, what veena adds to it, and its schema */
	raft_index assignments; /* of owners and targets */
};
MUST_CHECK int fsm_get_topic_versions(struct store_txn *txn, struct str name, struct fsm_topic_versions *out);

/* Topics in byte order of name, those that begin with `prefix`, behind `after` (empty: from the first). */
struct fsm_topic_iter {
	struct store_cursor *cursor;
	struct store_txn *txn;
	struct str prefix, after; /* borrowed until closed */
	bool started;
};
MUST_CHECK int fsm_topic_iter_open(struct fsm_topic_iter *it, struct store_txn *txn, struct str prefix,
                                   struct str after);
MUST_CHECK int fsm_topic_iter_next(struct fsm_topic_iter *it, struct fsm_topic *out); /* ERR_NOTFOUND: the end */
void fsm_topic_iter_close(struct fsm_topic_iter *it); /* accepts a zeroed one; before the transaction ends */

MUST_CHECK int fsm_count_topics(struct store_txn *txn, uint64_t *out); /* constant time */

/* A name that differs from `name` only in ASCII case. ERR_NOTFOUND: none. */
MUST_CHECK int fsm_find_twin(struct store_txn *txn, struct str name, struct str *twin);

/* Topics with a partition that has no owner and no copies, and their partitions without one: a walk over the former. */
MUST_CHECK int fsm_count_unplaced(struct store_txn *txn, uint64_t *topics, uint64_t *partitions);
/* Topics that have at least one partition without an owner, in byte order of name, behind `after`. ERR_NOTFOUND: the
 * end. */
MUST_CHECK int fsm_next_unplaced(struct store_txn *txn, struct str after, struct str *name);

/* Topics owned by a user, in byte order of name, behind `after`. ERR_NOTFOUND: the end. */
MUST_CHECK int fsm_next_of_user(struct store_txn *txn, struct str user, struct str after, struct str *name);

/* What the topic has beyond Narad's record, in the arena; nothing when it has no row. Never ERR_NOTFOUND. */
MUST_CHECK int fsm_get_topic_extra(struct store_txn *txn, struct str name, struct arena *arena,
                                   struct topic_extra *out);
/* What veena adds to a topic's answer, as struct fsm_topic's tail; appended. */
void fsm_put_topic_tail(const struct topic *t, const struct topic_extra *x, struct buf *out);
/* `old` with the named labels set and those of null value removed; both sorted by key, as is the result. */
struct str_map fsm_merge_labels(const struct str_map *old, const struct str_map *change, struct arena *arena);

/* The document stored as version `version` of the topic's schema. ERR_NOTFOUND. */
MUST_CHECK int fsm_get_schema(struct store_txn *txn, struct str topic, uint32_t version, struct str *document);

/* One version of a schema as answers and watchers have it. */
void fsm_write_schema(struct json_writer *w, struct str topic, uint32_t version, struct str document);

struct fsm_schema {
	uint32_t version;
	struct str document;
};
/* All versions in order, the list in the arena; none is an empty one. ERR_CORRUPT. */
MUST_CHECK int fsm_get_schemas(struct store_txn *txn, struct str topic, struct arena *arena, struct fsm_schema **items,
                               size_t *count);

#endif /* FSM_TOPICS_H */
