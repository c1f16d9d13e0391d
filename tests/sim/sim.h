/* tests/sim/sim.h - node-years from a seed: real raft, wal, fsm on LMDB and node driver, over a faked clock, network
 * and disk.
 *
 * One thread, one process per seed. The world holds the nodes and a queue of events in virtual time; each event runs
 * one turn of one node's thread, delivers one frame, lets a client act or a fault strike. The seed decides the order,
 * the delays and the faults, so the same seed gives the same trace. A safety phase comes first, then the network heals,
 * all nodes are started, and everything must converge within a bound.
 *
 *   disk.c   the disk that forgets            net.c     links, delay, loss, partitions (links instead of src/net)
 *   clock.c  virtual time (instead of base/clock.c, rand_secure.c, store/bootid.c)
 *   world.c  events, the plan of a run        life.c    a node's start, turns and end
 *   strike.c what befalls the cluster         client.c  who writes and reads
 *   noise.c  random commands of all kinds   api.c  service, control plane and their clients
 *   check.c  the rules                        promises.c  what nodes told each other and must keep
 *   main.c   seeds, faults, what is printed
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/entry.h"
#include "base/err.h"
#include "base/rand.h"
#include "disk.h"
#include "node/node.h"

#define SIM_NODES_MAX DISK_NODES_MAX
#define SIM_TURNS 6 /* consensus, log, apply; service and the two lanes where there is a control plane */
/* Of members, in seeds with a control plane: short ones, so that its patience ends within a run. */
#define SIM_MEMBER_HEARTBEAT_MS 500
#define SIM_DEAD_AFTER_S 2

/* What the seed drew for this run. */
struct sim_plan {
	uint64_t seed;
	int initial;             /* servers that form the cluster: 3 or 5 */
	int nodes;               /* with those that join later: 3..7 */
	uint64_t safety_ms;      /* virtual length of the first phase */
	uint32_t loss_per_mille; /* frames lost */
	uint32_t dup_per_mille;  /* frames doubled */
	uint64_t delay_max_us;   /* each frame's own: later ones may overtake */
	uint64_t disk_max_us;    /* how long the log thread takes for a turn */
	uint64_t apply_max_us;
	int slow_node; /* whose threads take ten times as long; -1 = none */
	/* Mean times between strikes of a kind; 0 = none. */
	uint64_t crash_every_ms;
	uint64_t split_every_ms;
	uint64_t pause_every_ms;
	uint64_t restart_every_ms;  /* in good order */
	uint64_t break_every_ms;    /* a disk is full, or its writes or syncs fail */
	uint64_t hang_every_ms;     /* a call of a log thread does not come back for seconds */
	uint64_t transfer_every_ms; /* of leadership */
	uint64_t change_every_ms;   /* of the configuration */
	uint64_t wipe_every_ms;     /* a server comes back with an empty disk */
	uint64_t rot_every_ms;      /* bytes of a log change while its node is down */
	uint32_t power_per_cent;    /* of crashes: power cuts */
	uint64_t write_every_us;    /* mean time between writes of a client */
	uint32_t append_bytes;      /* small ones split what would travel together; 0 = the default */
	uint64_t snapshot_entries;  /* each server takes a snapshot after so many; 0 = it never does */
	uint32_t chunk_bytes;       /* of a snapshot in one frame; 0 = the default */
	uint32_t segment_bytes;     /* of the log */
	size_t log_slots;           /* few ones complete one by one what would be synced together; 0 = the default */
	bool hunt_leaders;          /* strike at whoever was just elected */
	bool stall_leaders;         /* cut it off with a write that hangs, and do nothing else */
};

struct sim_node {
	int number;   /* 0.. */
	char name[8]; /* "n1" */
	char addr[32];
	char dir[300];
	struct node *node; /* NULL while down */
	struct net_peers *net;
	struct pool *pool;
	uint64_t boots;                 /* starts after a power cut: what the boot id is made of */
	uint64_t run;                   /* starts: old events of an earlier run are stale */
	uint64_t turn_at_us[SIM_TURNS]; /* when a turn is scheduled; 0 = not */
	uint64_t paused_until_us;
	uint64_t hung_until_us; /* its log thread */
	bool in_sync;           /* its log thread is inside a call */
	bool leaving;           /* was asked to end */
	bool ending;            /* and will */
	bool wipe;              /* its disk is replaced before it starts again */
	bool rot;               /* bytes of its log change before it starts again */
	char declared_file[32]; /* newest segment at its last start ... */
	size_t declared_bytes;  /* ... and how much of it the log knows to be durable */
	uint64_t leads_since_us;
	int64_t wall_skew_ms;
};

struct sim_world {
	struct sim_plan plan;
	struct rand rand;
	uint64_t now_us;
	struct sim_node nodes[SIM_NODES_MAX];
	int current;                            /* whose code runs; -1 = the world's own */
	bool healing;                           /* second phase: no more faults */
	bool resting;                           /* its end: clients ask for nothing new */
	bool cut[SIM_NODES_MAX][SIM_NODES_MAX]; /* frames from row to column are lost */
	uint64_t removal_term;                  /* in which a voter was last to go */
	uint64_t trace_hash;                    /* over everything that happened, in order */
	bool verbose;                           /* print the trace */
	bool failed;
	char failure[512];
};

extern struct sim_world w;

/* ---- world.c ---- */

void world_run(uint64_t seed, bool verbose);
/* One line of the trace: hashed always, printed when verbose. */
void world_trace(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* A rule is broken: the run ends with this sentence. Does not return to the event. */
_Noreturn void world_fail(const char *fmt, ...) PRINTF_LIKE(1, 2);
uint64_t world_draw(uint64_t n); /* uniform in 0..n-1 */
void world_pass(uint64_t us);    /* everything goes on for so long, from inside an event */
struct sim_node *world_find(const char *name);

/* Events: `run` is called at now + delay_us with these arguments. */
typedef void (*world_event)(uint64_t a, uint64_t b, void *p);
void world_at(uint64_t delay_us, world_event run, uint64_t a, uint64_t b, void *p);

/* ---- life.c ---- */

bool world_is_up(int node);
void life_start_later(int node, uint64_t delay_us);
void life_end(int node); /* asks it to end in good order; it starts again later */
void life_bury_dead(void);
void life_schedule_woken(void);

/* ---- strike.c ---- */

void strike_start(void);
void strike_heal(void);
void strike_on_leader(int node); /* a new leader was seen */

/* ---- net.c ---- */

void net_reset(void);
void net_node_up(int node);
void net_node_down(int node); /* its links break; peers hear of it */
void net_breathe(void);       /* after a change of cuts or lives: dials that can succeed are tried */

/* ---- client.c ---- */

void client_start(void);
void client_node_down(int node); /* what it had in hand is unknown now */
void client_poll(int node);      /* completions after a turn of that node */
uint64_t client_acked(void);     /* writes, so far */
void client_check_end(void);     /* every acknowledged write is on every node; nothing refused is anywhere */

/* ---- noise.c ---- */

void noise_start(uint64_t seed);
void noise_node_down(int node);
void noise_poll(int node);
void noise_check_end(void); /* what is derived fits the records, on every node */

/* ---- api.c ---- */

struct fsm_result; /* fsm/fsm.h */
void api_start(uint64_t seed);
bool api_is_on(void);
void api_node_up(int node);
void api_node_down(int node); /* before node_close */
/* Turns behind the first three. */
struct wake *api_wake(int node, int which);
uint64_t api_turn(int node, int which); /* next deadline, monotonic ms */
void api_log(const char *line);
/* Entries that nobody applied before, just applied there. */
void api_check_applied(int node, const struct entry *entries, const struct fsm_result *results, size_t n);
uint64_t api_healed_creates(void); /* since healing began */
bool api_check_converged(char *why, size_t cap);
void api_check_end(void);

/* ---- check.c ---- */

void check_started(int node);
void check_applied(int node, const struct entry *entries, size_t n);
void check_node(int node);   /* after each turn of its consensus thread */
void check_digest(int node); /* after each turn of its apply thread */
/* One leader, every server of its configuration up and all committed applied there. */
bool check_converged(char *why, size_t cap);
bool check_is_member(int node);            /* of the leader's configuration, in the end */
raft_term check_term_of(raft_index index); /* of an entry that somebody applied; 0 = nobody */
raft_index check_committed(void);          /* highest index that anybody applied */

/* ---- promises.c ---- */

void promise_frame(int node, uint16_t type, struct slab *slab); /* a frame that leaves */
void promise_look(int node);                                    /* after each turn of its consensus thread */
void promise_check_leader(int node, raft_term term, const struct raft_conf *conf); /* first seen in this term */
void promise_started(int node);

/* ---- main.c ---- */

void sim_root(uint64_t seed, char *out, size_t cap); /* where the files of this seed's nodes go */
extern const char *sim_active_fault;                 /* name of the deliberate fault in this run; NULL = none */

#endif /* SIM_SIM_H */
