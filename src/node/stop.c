/* An orderly stop.
 *
 * A leader that is asked to stop hands over first, so that the cluster misses it for one round trip instead of an
 * election timeout. It tries for a few election timeouts and then goes all the same. */
#include "node/node_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RETRY_MS 50
#define GIVE_UP_ELECTIONS 6 /* longest election timeouts are two of these */

static bool has_other_voter(const struct node *n)
{
	for (uint32_t i = 0; i < n->conf.count; i++) {
		if (n->conf.servers[i].voter && n->conf.servers[i].id != n->self.incarnation)
			return true;
	}
	return false;
}

static void drained(struct node *n, const char *how)
{
	log_info("node.drained", "how=\"%s\" ms=%" PRIu64, how, n->now - n->stop.begun_ms);
	atomic_store_explicit(&n->stop.drained, true, memory_order_release);
}

uint64_t node_stop_turn(struct node *n)
{
	struct node_stop *s = &n->stop;
	if (!atomic_load_explicit(&s->asked, memory_order_acquire) ||
	    atomic_load_explicit(&s->drained, memory_order_relaxed))
		return UINT64_MAX;
	if (s->give_up_ms == 0) {
		s->begun_ms = n->now;
		s->give_up_ms = n->now + (uint64_t)GIVE_UP_ELECTIONS * n->o.election_ms;
		s->next_try_ms = n->now;
	}
	if (n->stopped[0] != '\0' || n->view.role != RAFT_LEADER) {
		drained(n, "does not lead");
		return UINT64_MAX;
	}
	if (!has_other_voter(n) && n->pending.count == 0) {
		drained(n, "nobody to hand over to");
		return UINT64_MAX;
	}
	if (n->now >= s->give_up_ms) {
		log_warn("node.not_handed_over", "ms=%" PRIu64, n->now - s->begun_ms);
		drained(n, "gave up");
		return UINT64_MAX;
	}
	if (n->now >= s->next_try_ms && has_other_voter(n)) {
		struct err e = { 0 };
		s->next_try_ms = n->now + RETRY_MS;
		if (raft_transfer(n->raft, 0, &e) != 0)
			log_debug("node.hand_over_later", "reason=\"%s\"", e.msg);
	}
	return node_sooner(s->next_try_ms > n->now ? s->next_try_ms : UINT64_MAX, s->give_up_ms);
}

/* ---- any thread ---- */

void node_begin_stop(struct node *n)
{
	atomic_store_explicit(&n->stop.asked, true, memory_order_release);
	wake_signal(&n->wake);
}

bool node_is_drained(const struct node *n)
{
	return atomic_load_explicit(&n->stop.drained, memory_order_acquire);
}
