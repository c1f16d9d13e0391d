/* fsm/members.h - members as readers want them: one stored record, an ordered list, a small parsed table, counts.
 *
 * A server's row needs nothing but Narad's record; what veena adds (kind, placeable, tags, labels, a broker's session
 * and store) and the counts of partitions stand in x_member. No row there = a server, placeable, without tags, holding
 * nothing.
 *
 * Ownership: strings are borrowed from the transaction; rows of a struct fsm_members from the table, which is counted.
 * Thread: any, each with its own transaction.
 */
#ifndef FSM_MEMBERS_H
#define FSM_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/entry.h"
#include "base/err.h"
#include "model/json.h"
#include "store/store.h"

enum fsm_member_kind {
	FSM_KIND_SERVER = 0, /* a veenad, in the Raft configuration */
	FSM_KIND_BROKER = 1,
};
const char *fsm_member_kind_name(enum fsm_member_kind k); /* "server" */

/* Partitions that name a member, counted over all rows of `assignments`, kept up with each change. */
struct fsm_member_counts {
	uint32_t owned;   /* rows whose owner it is */
	uint32_t coming;  /* rows whose target it is */
	uint32_t leaving; /* owned rows that have a target */
	uint32_t leads;   /* owned rows of replicated partitions */
	uint32_t follows; /* copies of replicated partitions that others lead, or nobody */
};
/* Settled partitions plus moves coming to it; one on its way away does not count. */
static inline uint32_t fsm_member_load(const struct fsm_member_counts *c)
{
	return c->owned - c->leaving + c->coming;
}

/* One member, joined from its record and x_member. */
struct fsm_member {
	struct str id;
	struct str addr;         /* HTTP, host:port */
	struct str cluster_addr; /* Raft; "" for brokers */
	struct str build;
	uint32_t entry_types; /* newest it reports; 0 = none reported (reads as 22) */
	enum fsm_member_kind kind;
	bool alive; /* status alive */
	bool draining;
	bool placeable;    /* it takes partitions and no operator cordoned it */
	bool offers;       /* the first half: its own report */
	struct str tags;   /* a JSON object; "{}" = none */
	struct str labels; /* the same, operators' */
};

/* All members, by id in byte order. Immutable and counted. No time and no counts in it: those move without an event. */
struct fsm_members {
	raft_index version; /* last index at which a member changed: FSM_DOMAIN_MEMBERS of the transaction */
	size_t count;
	const struct fsm_member *rows;
};
const struct fsm_member *fsm_members_find(const struct fsm_members *m, struct str id); /* NULL: no such member */
/* Why no partition may be given to it: 0, or FSM_MEMBER_NOT_FOUND, FSM_TARGET_NOT_ALIVE, FSM_TARGET_DRAINING,
 * FSM_TARGET_NOT_PLACEABLE of fsm/fsm.h. The one rule for requests, policies and the log. */
int fsm_members_receiver(const struct fsm_members *m, struct str id);
int fsm_receiver_refusal(bool alive, bool draining, bool placeable);
/* For those without a struct fsm_reader (which shares and keeps them): parses every row. One count is the caller's. */
MUST_CHECK int fsm_members_load(struct store_txn *txn, const struct fsm_members **out);
void fsm_members_unref(const struct fsm_members *m); /* accepts NULL */

/* The record as stored. ERR_NOTFOUND. */
MUST_CHECK int fsm_get_member_record(struct store_txn *txn, struct str id, struct str *record);
/* What veena keeps beside it; the defaults when there is no row. Never ERR_NOTFOUND. */
struct fsm_member_extra {
	enum fsm_member_kind kind;
	bool placeable;      /* offers and not cordoned */
	bool offers;         /* by its own report */
	bool cordoned;       /* by an operator's word */
	struct str tags;     /* a JSON object, at least "{}" */
	struct str labels;   /* the same: operators' */
	struct str session;  /* of a broker's newest registration; "" = none */
	struct str store_id; /* of a broker's disk; "" = not said */
	struct fsm_member_counts counts;
};
MUST_CHECK int fsm_get_member_extra(struct store_txn *txn, struct str id, struct fsm_member_extra *out);

/* What answers and watchers show of it, inside an object the caller opened. */
void fsm_write_member_extra(struct json_writer *w, const struct fsm_member_extra *x);

/* Records in order of id. Starts behind `after` (empty: at the first). */
struct fsm_member_iter {
	struct store_cursor *cursor;
	struct store_txn *txn;
	bool started;
	struct str after;
};
MUST_CHECK int fsm_member_iter_open(struct fsm_member_iter *it, struct store_txn *txn, struct str after);
/* ERR_NOTFOUND: the end. */
MUST_CHECK int fsm_member_iter_next(struct fsm_member_iter *it, struct str *id, struct str *record);
void fsm_member_iter_close(struct fsm_member_iter *it); /* accepts a zeroed one; before the transaction ends */

/* Is there a tombstone for this id? `removed_at_s` (may be NULL) in Unix seconds. 0, ERR_NOTFOUND. */
MUST_CHECK int fsm_get_tombstone(struct store_txn *txn, struct str id, int64_t *removed_at_s);

#endif /* FSM_MEMBERS_H */
