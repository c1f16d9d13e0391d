/* Handing leadership over because somebody asked for it, and telling them what came of it.
 *
 * Raft gives a transfer one election timeout. Whoever asked is answered when it is over: gone (and who leads now, once
 * that is known), or given up, and this node leads on. One at a time: raft refuses a second. */
#include "node/node_internal.h"

#include <assert.h>
#include <stdio.h>

static enum raft_heir judge(const struct node *n, const char *name, node_id *to, uint64_t *lag)
{
	const bool leads = n->view.role == RAFT_LEADER;
	*lag = 0;
	*to = name[0] != '\0' ? node_links_id(n, name) : 0;
	return leads && name[0] != '\0' && *to == 0 ? RAFT_HEIR_UNKNOWN : raft_judge_heir(n->raft, to, lag);
}

static void begin(struct node *n, const struct node_ask *ask)
{
	node_id to;
	uint64_t lag;
	struct err e = { 0 };
	const enum raft_heir refused = judge(n, ask->to, &to, &lag);
	if (n->stopped[0] != '\0') {
		node_answer(&ask->reply, ERR_STOPPED, 0, 0);
	} else if (refused != RAFT_HEIR_FIT || ask->dry_run) {
		node_answer(&ask->reply, (int)refused, 0, refused == RAFT_HEIR_FIT ? to : lag);
	} else {
		const int rc = raft_transfer(n->raft, to, &e);
		assert(rc == 0); /* judged a line ago */
		n->transfer.reply = ask->reply;
		n->transfer.open = true;
		n->transfer.term = n->view.term;
		/* Whoever leads next is heard of within an election. */
		n->transfer.deadline_ms = n->now + 4ull * n->o.election_ms;
	}
}

static void end(struct node *n, int code, node_id leader)
{
	n->transfer.open = false;
	node_answer(&n->transfer.reply, code, 0, leader);
}

/* By what raft said at the turn's beginning: a transfer begun in this turn is looked at in the next. */
static void watch(struct node *n)
{
	const bool leads = n->view.role == RAFT_LEADER;
	if (!n->transfer.open)
		return;
	if (n->stopped[0] != '\0')
		end(n, ERR_STOPPED, 0);
	else if (leads && n->view.term == n->transfer.term && n->view.transferring)
		return;
	else if (leads && n->view.term == n->transfer.term)
		end(n, ERR_TIMEOUT, 0);
	else if (n->view.leader != 0 || n->now >= n->transfer.deadline_ms)
		end(n, 0, n->view.leader);
}

uint64_t node_transfer_turn(struct node *n)
{
	struct node_ask ask;
	watch(n);
	while (queue_take(n->asks, &ask))
		begin(n, &ask);
	return n->transfer.open ? n->transfer.deadline_ms : UINT64_MAX;
}

/* ---- any thread ---- */

bool node_ask_transfer(struct node *n, const char *to, bool dry_run, struct node_reply_to reply)
{
	struct node_ask ask = { .reply = reply, .dry_run = dry_run };
	snprintf(ask.to, sizeof(ask.to), "%s", to);
	return queue_put(n->asks, &ask);
}
