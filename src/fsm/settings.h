/* fsm/settings.h - what the whole cluster is set to, replicated.
 *
 * A setting that was patched counts everywhere; else that of the leader's flags, which the caller knows, or the
 * default. Thread: any.
 */
#ifndef FSM_SETTINGS_H
#define FSM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/store.h"

struct fsm;

/* Name in the API, least, most, default. New ones go at the end. */
#define FSM_SETTING_MAP(X)                                                                                             \
	X(MAX_MOVES, "max_moves", 0, 1000, 8)                          /* partitions moved at a time */                \
	X(DEAD_AFTER_S, "dead_after_s", 1, 86400, 30)                  /* silence after which a member is dead */      \
	X(FAILOVER_AFTER_S, "failover_after_s", 1, 3600, 10)           /* and after which its copies stop leading */   \
	X(MEMBER_HEARTBEAT_MS, "member_heartbeat_ms", 50, 60000, 5000) /* how often members say that they live */      \
	X(MIN_VOTERS, "min_voters", 1, 64, 3)                          /* no removal takes the voters below this */    \
	X(REPLICA_LAG, "replica_lag", 0, 1000000000, 4096)             /* entries a copy may lack and be in sync */

enum fsm_setting {
#define FSM_SETTING_ENUM(id, word, least, most, value) FSM_SETTING_##id,
	FSM_SETTING_MAP(FSM_SETTING_ENUM)
#undef FSM_SETTING_ENUM
	    FSM_SETTING_COUNT
};

struct fsm_setting_info {
	const char *name;
	int64_t least, most, value; /* bounds and default */
};
extern const struct fsm_setting_info fsm_settings[FSM_SETTING_COUNT];

bool fsm_setting_find(struct str name, enum fsm_setting *out);
/* As patched, as published; else `otherwise`. One atomic load. */
int64_t fsm_setting_value(const struct fsm *f, enum fsm_setting s, int64_t otherwise);
/* As patched in the state that a transaction sees. ERR_NOTFOUND: it is not. */
MUST_CHECK int fsm_get_setting(struct store_txn *txn, enum fsm_setting s, int64_t *out);

#endif /* FSM_SETTINGS_H */
