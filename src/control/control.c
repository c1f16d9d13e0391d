#include "control/control.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "control/control_internal.h"
#include "fsm/fsm.h"
#include "fsm/settings.h"

/* ---- what both lanes do ---- */

void lane_init(struct lane *l, struct control *c, const char *policy_dir)
{
	l->control = c;
	wake_init(&l->wake);
	l->watcher.wake = &l->wake;
	node_add_watcher(c->node, &l->watcher);
	fsm_reader_init(&l->reader, node_fsm(c->node));
	l->policies = policy_set_new(policy_dir);
}

void lane_fini(struct lane *l)
{
	fsm_reader_fini(&l->reader);
	policy_set_free(l->policies);
	arena_fini(&l->lv.scratch);
	arena_fini(&l->lv.arena);
	buf_fini(&l->lv.log);
	wake_fini(&l->wake);
}

void lane_watch_applied(struct lane *l)
{
	atomic_store(&l->watcher.want, fsm_applied_index(node_fsm(l->control->node)) + 1);
}

static const struct fsm_member *member_of(const struct lane *l, const struct raft_server *s)
{
	return fsm_members_find(l->lv.view.members, str_of(s->name));
}

static void list_servers(struct lane *l)
{
	struct lane_view *lv = &l->lv;
	const struct raft_conf *conf = &lv->status.conf;
	struct view_server *servers = arena_zalloc(&lv->arena, (conf->count + 1) * sizeof(*servers));
	for (uint32_t i = 0; i < conf->count; i++) {
		const struct fsm_member *m = member_of(l, &conf->servers[i]);
		servers[i] = (struct view_server){
			.id = str_of(conf->servers[i].name),
			.voter = conf->servers[i].voter,
			.leader = strcmp(conf->servers[i].name, lv->status.leader) == 0,
			.alive = m && m->alive,
		};
	}
	lv->view.servers = servers;
	lv->view.server_count = conf->count;
}

bool lane_open_view(struct lane *l, uint64_t now_ms)
{
	struct control *c = l->control;
	struct lane_view *lv = &l->lv;
	node_get_status(c->node, &lv->status);
	const raft_term term = atomic_load(&c->leading);
	/* The term's first entry applied here proves that everything committed before is applied too. */
	if (!node_holds_office(&lv->status, fsm_applied_index(node_fsm(c->node)), term))
		return false;
	struct store_txn *txn;
	const struct fsm_members *members;
	struct err e;
	if (fsm_read(&l->reader, &txn, &e) != 0 || fsm_reader_members(&l->reader, &members, &e) != 0) {
		fsm_read_end(&l->reader);
		return false;
	}
	arena_reset(&lv->arena);
	buf_clear(&lv->log);
	const uint64_t since = atomic_load(&c->leading_since_ms);
	for (size_t i = 0; i < SETTING_COUNT; i++)
		lv->settings[i] = (struct view_setting){ c->settings[i].name, control_setting(c, c->settings[i].name) };
	lv->view = (struct cluster_view){
		.txn = txn,
		.members = members,
		.index = fsm_reader_index(&l->reader),
		.now_s = (double)clock_wall_ms() / 1000.0,
		.leader = str_of(lv->status.leader),
		.term = term,
		.leader_for_s = now_ms > since ? (double)(now_ms - since) / 1000.0 : 0,
		.settings = lv->settings,
		.setting_count = SETTING_COUNT,
		.scratch = &lv->scratch,
		.log = &lv->log,
	};
	list_servers(l);
	return true;
}

void lane_close_view(struct lane *l)
{
	fsm_read_end(&l->reader);
	l->lv.view.txn = NULL;
	l->lv.view.members = NULL;
}

bool lane_voters_alive(const struct lane *l)
{
	size_t voters = 0;
	for (size_t i = 0; i < l->lv.view.server_count; i++) {
		const struct view_server *s = &l->lv.view.servers[i];
		if (s->voter && !s->alive)
			return false;
		voters += s->voter;
	}
	return voters > 0;
}

bool lane_is_forming(const struct lane *l)
{
	bool with_row = false;
	bool without_row = false;
	const struct raft_conf *conf = &l->lv.status.conf;
	for (uint32_t i = 0; i < conf->count; i++) {
		if (!conf->servers[i].voter)
			continue;
		if (member_of(l, &conf->servers[i]))
			with_row = true;
		else
			without_row = true;
	}
	return with_row && without_row;
}

int64_t control_setting(const struct control *c, const char *name)
{
	enum fsm_setting s;
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		if (strcmp(c->settings[i].name, name) == 0)
			return fsm_setting_find(str_of(name), &s)
			           ? fsm_setting_value(node_fsm(c->node), s, c->settings[i].value)
			           : c->settings[i].value;
	}
	return 0;
}

/* ---- the whole ---- */

/* Consensus thread. */
static void on_leadership(void *arg, raft_term term)
{
	struct control *c = arg;
	atomic_store(&c->leading_since_ms, clock_mono_ms());
	atomic_store(&c->leading, term);
	wake_signal(&c->requests.lane.wake);
	wake_signal(&c->passes.lane.wake);
}

struct control *control_new(const struct control_options *o)
{
	struct control *c = mem_zalloc(sizeof(*c));
	c->node = o->node;
	c->settings[0] = (struct view_setting){ "max_moves", o->max_moves };
	c->settings[1] = (struct view_setting){ "dead_after_s", o->dead_after_s };
	c->settings[2] = (struct view_setting){ "member_heartbeat_ms", o->member_heartbeat_ms };
	c->settings[3] = (struct view_setting){ "min_voters", o->min_voters };
	c->settings[4] = (struct view_setting){ "failover_after_s", 10 };
	c->settings[5] = (struct view_setting){ "replica_lag", 4096 };
	plans_init(&c->plans);
	requests_init(&c->requests, c, o->policy_dir);
	passes_init(&c->passes, c, o->policy_dir);
	node_on_leadership(o->node, on_leadership, c);
	svc_set_placer(requests_place, &c->requests);
	svc_set_schema_judge(judge_schema, &c->requests);
	report_register(c);
	return c;
}

void control_free(struct control *c)
{
	if (!c)
		return;
	svc_set_placer(NULL, NULL);
	svc_set_schema_judge(NULL, NULL);
	svc_set_control(NULL);
	requests_fini(&c->requests);
	passes_fini(&c->passes);
	plans_fini(&c->plans);
	mem_free(c);
}

uint64_t control_turn(struct control *c, enum control_lane lane, uint64_t now_ms)
{
	return lane == CONTROL_REQUESTS ? requests_turn(&c->requests, now_ms) : passes_turn(&c->passes, now_ms);
}

struct wake *control_wake(struct control *c, enum control_lane lane)
{
	return lane == CONTROL_REQUESTS ? &c->requests.lane.wake : &c->passes.lane.wake;
}
