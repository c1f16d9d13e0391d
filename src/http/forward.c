#include "http/forward.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "http/thread.h"
#include "http/wire.h"
#include "net/forward.h"

#define OLD_LINK_MS 5000  /* how long a former leader may still answer what it has */
#define LEADER_POLL_MS 20 /* how often the leader is looked for while a call waits for one */

/* One link and what was sent over it, in order of sending. */
struct http_uplink {
	struct http_thread *thread;
	struct net_forward *link;
	char addr[NET_ADDR_MAX + 1];
	struct http_call *first, *last;
	struct http_uplink *next; /* in the thread's list of old ones */
	uint64_t retire_ms;       /* old: monotonic */
};

/* ---- lists ---- */

static void unlink_sent(struct http_call *c)
{
	struct http_uplink *u = c->fwd.link;

	*(c->fwd.prev ? &c->fwd.prev->fwd.next : &u->first) = c->fwd.next;
	*(c->fwd.next ? &c->fwd.next->fwd.prev : &u->last) = c->fwd.prev;
	c->fwd.prev = c->fwd.next = NULL;
	c->fwd.link = NULL;
	c->fwd.state = HTTP_FORWARD_NONE;
}

static void append_sent(struct http_uplink *u, struct http_call *c)
{
	c->fwd.next = NULL;
	c->fwd.prev = u->last;
	*(u->last ? &u->last->fwd.next : &u->first) = c;
	u->last = c;
	c->fwd.link = u;
	c->fwd.state = HTTP_FORWARD_SENT;
}

static void add_waiting(struct http_call *c)
{
	struct http_thread *t = c->thread;
	struct http_call **at = &t->fwd.waiting;

	/* In order of arrival: what came first is sent first. */
	while (*at)
		at = &(*at)->fwd.next;
	c->fwd.next = NULL;
	c->fwd.state = HTTP_FORWARD_WAITING;
	*at = c;
}

/* ---- ends ---- */

static void fail(struct http_call *c, const char *code, const char *outcome, const char *text)
{
	struct svc_answer a = { 0 };

	if (c->match.route->flags & HTTP_LEADER)
		svc_fail_not_confirmed(&a, "no leader could be asked");
	else
		svc_fail_write(&a, 503, code, outcome, 0, "%s", text);
	if (c->match.route->flags & HTTP_WRITE && strcmp(outcome, "none") != 0)
		svc_audit_lost(&c->rq, &a);
	c->fwd.state = HTTP_FORWARD_NONE;
	http_call_finish(c, &a);
	buf_fini(&a.body);
}

static void fail_unknown(struct http_call *c)
{
	unlink_sent(c);
	fail(c, "outcome_unknown", "unknown",
	     "the leader did not answer, and the request may have been carried out; look before you repeat it");
}

static void fail_no_leader(struct http_call *c)
{
	fail(c, "no_leader", "none", "no leader can be reached at the moment; nothing was done, try again");
}

static void on_caught_up(void *arg, bool reached)
{
	struct http_call *c = arg;
	struct svc_answer a = c->fwd.answer;

	svc_note_stage(c->thread->svc, SVC_STAGE_CATCHUP, clock_mono_ns() - c->fwd.since_ns);
	c->fwd.answer = (struct svc_answer){ 0 };
	c->fwd.state = HTTP_FORWARD_NONE;
	if (!reached && a.status < 300)
		a.not_applied = true;
	http_call_finish(c, &a);
	buf_fini(&a.body);
}

/* ---- links ---- */

static void fail_all(struct http_uplink *u)
{
	while (u->first)
		fail_unknown(u->first);
}

static void uplink_free(struct http_uplink *u)
{
	if (!u)
		return;
	assert(!u->first);
	net_forward_free(u->link);
	mem_free(u);
}

static struct http_call *find_sent(const struct http_uplink *u, uint64_t id)
{
	struct http_call *c = u->first;

	while (c && c->fwd.id != id)
		c = c->fwd.next;
	return c;
}

static void on_answer(void *arg, uint64_t id, struct slab *slab, const uint8_t *body, size_t len)
{
	struct http_uplink *u = arg;
	struct http_thread *t = u->thread;
	struct http_call *c = find_sent(u, id);
	struct svc_answer a;
	struct str bytes;
	struct err e = { 0 };

	(void)slab;
	if (!c) /* its time was over */
		return;
	svc_note_stage(t->svc, SVC_STAGE_FORWARD, clock_mono_ns() - c->fwd.since_ns);
	if (http_wire_get_answer(body, len, &a, &bytes, &e) != 0) {
		log_error("http.forward", "peer=%s error=\"%s\"", u->addr, e.msg);
		fail_unknown(c);
		return;
	}
	unlink_sent(c);
	if (a.not_leader && http_forward_may_wait(c)) {
		http_forward_again(c);
		return;
	}
	buf_put(&a.body, bytes.p, bytes.len);
	c->fwd.answer = a;
	c->fwd.state = HTTP_FORWARD_CATCHUP;
	c->fwd.since_ns = clock_mono_ns();
	/* What the leader confirmed says nothing of this replica: there is nothing to wait for. */
	if (c->match.route->flags & HTTP_LEADER)
		on_caught_up(c, true);
	else
		svc_wait_index(t->svc, a.index, HTTP_CATCHUP_MS, on_caught_up, c);
}

static bool send_call(struct http_uplink *u, struct http_call *c)
{
	struct http_thread *t = u->thread;
	struct buf head = { 0 };
	uint64_t id = ++t->fwd.next_id;

	http_thread_take_buf(t, &head);
	http_wire_put_request(&head, c);
	struct net_piece pieces[2] = {
		{ .p = head.data, .len = head.len },
		{ .p = c->rq.body.p, .len = c->rq.body.len },
	};
	bool sent = net_forward_send(u->link, id, pieces, c->rq.body.len > 0 ? 2 : 1);

	http_thread_give_buf(t, &head);
	if (!sent)
		return false;
	c->fwd.id = id;
	c->fwd.since_ns = clock_mono_ns();
	c->fwd.deadline_ms = clock_mono_ms() + t->server->o.forward_ms;
	append_sent(u, c);
	prom_count(&t->stats.forwarded_out, 1);
	return true;
}

/* Here if this node leads now, else over the link if it is up; false: wait on. */
static bool try_waiting(struct http_thread *t, struct http_call *c)
{
	struct http_uplink *u = t->fwd.current;

	if (node_is_leader(t->server->node)) {
		c->fwd.state = HTTP_FORWARD_NONE;
		http_call_run(c);
		return true;
	}
	return u && net_forward_is_up(u->link) && send_call(u, c);
}

/* A call that ends may bring the next request of its connection, so the list is taken off whole first. */
static void carry_on_waiting(struct http_thread *t, uint64_t now_ms)
{
	struct http_call *list = t->fwd.waiting;

	t->fwd.waiting = NULL;
	while (list) {
		struct http_call *c = list;

		list = c->fwd.next;
		c->fwd.next = NULL;
		if (now_ms >= c->fwd.not_before_ms && try_waiting(t, c))
			continue;
		if (now_ms >= c->fwd.deadline_ms)
			fail_no_leader(c);
		else
			add_waiting(c);
	}
}

/* The turn's end, which comes before the loop blocks, sends what waits. */
static void on_up(void *arg)
{
	(void)arg;
}

static void on_down(void *arg, bool refused)
{
	(void)refused;
	fail_all(arg);
}

static struct http_uplink *uplink_new(struct http_thread *t, const char *addr)
{
	struct http_uplink *u = mem_zalloc(sizeof(*u));
	struct net_forward_options o = {
		.loop = t->loop,
		.pool = t->server->o.pool,
		.secrets = t->server->o.secrets,
		.tls = t->server->o.link_tls,
		.hooks = { .arg = u, .on_up = on_up, .on_answer = on_answer, .on_down = on_down },
	};

	u->thread = t;
	snprintf(u->addr, sizeof(u->addr), "%s", addr);
	node_self_hello(t->server->node, &o.self);
	u->link = net_forward_new(&o);
	net_forward_target(u->link, addr);
	return u;
}

static void retire_current(struct http_thread *t, uint64_t now_ms)
{
	struct http_uplink *u = t->fwd.current;

	t->fwd.current = NULL;
	if (!u)
		return;
	if (!u->first) {
		uplink_free(u);
		return;
	}
	u->retire_ms = now_ms + OLD_LINK_MS;
	u->next = t->fwd.old;
	t->fwd.old = u;
}

static void follow_leader(struct http_thread *t, uint64_t now_ms)
{
	uint64_t version;
	const struct node_status *st;

	if (t->fwd.version == node_status_version(t->server->node) + 1)
		return;
	st = svc_node_status(t->svc, &version);
	t->fwd.version = version + 1;

	bool elsewhere = st->role != RAFT_LEADER && st->leader[0] != '\0' && strcmp(st->leader, st->id) != 0;
	const char *want = elsewhere ? st->leader_addr : "";

	if (t->fwd.current && strcmp(t->fwd.current->addr, want) == 0)
		return;
	retire_current(t, now_ms);
	if (want[0] != '\0')
		t->fwd.current = uplink_new(t, want);
}

static void sweep_old(struct http_thread *t, uint64_t now_ms)
{
	struct http_uplink **at = &t->fwd.old;

	while (*at) {
		struct http_uplink *u = *at;

		if (now_ms >= u->retire_ms)
			fail_all(u);
		if (u->first) {
			at = &u->next;
			continue;
		}
		*at = u->next;
		uplink_free(u);
	}
}

/* All calls of a link have the same time, so the first sent is the first to run out. */
static void expire_sent(struct http_uplink *u, uint64_t now_ms)
{
	while (u && u->first && now_ms >= u->first->fwd.deadline_ms)
		fail_unknown(u->first);
}

static uint64_t next_deadline(const struct http_thread *t, uint64_t now_ms)
{
	uint64_t next = t->fwd.waiting ? now_ms + LEADER_POLL_MS : UINT64_MAX;
	const struct http_uplink *u = t->fwd.current;

	if (u && u->first && u->first->fwd.deadline_ms < next)
		next = u->first->fwd.deadline_ms;
	for (u = t->fwd.old; u; u = u->next) {
		if (u->retire_ms < next)
			next = u->retire_ms;
	}
	return next;
}

/* ---- the face ---- */

bool http_forward_may_wait(const struct http_call *c)
{
	uint64_t waited_ns = clock_mono_ns() - c->started_ns;

	return waited_ns < (uint64_t)c->thread->server->o.leader_wait_ms * 1000000;
}

static void wait_for_leader(struct http_call *c, uint32_t pause_ms)
{
	uint64_t now_ms = clock_mono_ms();
	uint64_t waited_ms = (clock_mono_ns() - c->started_ns) / 1000000;
	uint64_t budget_ms = c->thread->server->o.leader_wait_ms;

	c->fwd.not_before_ms = now_ms + pause_ms;
	c->fwd.deadline_ms = now_ms + (waited_ms < budget_ms ? budget_ms - waited_ms : 0);
	add_waiting(c);
}

/* Not at once: links are made and freed in the turn's end only, never inside one of their callbacks. */
void http_forward_start(struct http_call *c)
{
	wait_for_leader(c, 0);
	c->thread->fwd.fresh = true;
}

/* Asked at once again, a node that gives up leadership would only say the same. */
void http_forward_again(struct http_call *c)
{
	wait_for_leader(c, LEADER_POLL_MS);
}

uint64_t http_forward_turn(struct http_thread *t, uint64_t now_ms)
{
	follow_leader(t, now_ms);
	t->fwd.fresh = false;
	carry_on_waiting(t, now_ms);
	expire_sent(t->fwd.current, now_ms);
	sweep_old(t, now_ms);
	return t->fwd.fresh ? now_ms : next_deadline(t, now_ms);
}

void http_forward_init(struct http_thread *t)
{
	memset(&t->fwd, 0, sizeof(t->fwd));
}

/* The calls that wait belong to connections that are freed next; nobody is answered any more. */
static void drop_calls(struct http_call *c)
{
	for (; c; c = c->fwd.next)
		c->fwd.state = HTTP_FORWARD_NONE;
}

void http_forward_fini(struct http_thread *t)
{
	drop_calls(t->fwd.waiting);
	t->fwd.waiting = NULL;
	while (t->fwd.current || t->fwd.old) {
		struct http_uplink *u = t->fwd.current ? t->fwd.current : t->fwd.old;

		if (t->fwd.current)
			t->fwd.current = NULL;
		else
			t->fwd.old = u->next;
		drop_calls(u->first);
		u->first = u->last = NULL;
		uplink_free(u);
	}
}
