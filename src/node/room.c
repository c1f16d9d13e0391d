/* Room on the disk, met before there is none.
 *
 * The pool looks once a second. Room is what the file system has free, and for what is written into fsm.mdb also its
 * own pages that hold nothing: deletes free those, not the disk. Below the reserve (one segment of the log and one
 * commit) the node is low: the service refuses what adds (storage_full) and lets pass what deletes, for which the
 * reserve is there; the office is handed to somebody who may have room, once a minute at most. Near the end of the
 * reserve a follower no longer takes entries from its leader, as if they were lost on the way: it falls behind, says
 * so, and goes on by itself when there is room; a log write that fails would end it. Each look judges anew, so that
 * nothing has to be cleared by hand. */
#include "node/node_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/mem.h"

#define LOOK_MS 1000
#define HAND_OVER_MS 60000

static void run_room_job(struct job *j)
{
	struct node_room_side *r = CONTAINER_OF(j, struct node_room_side, job);
	struct node *n = r->node;
	struct statvfs st;
	struct store_space space;
	r->status = statvfs(n->o.data_dir, &st) == 0 ? 0 : errno;
	if (r->status == 0) {
		store_get_space(fsm_store(n->fsm), &space);
		r->found.free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
		r->found.reusable_bytes = space.file_bytes > space.used_bytes ? space.file_bytes - space.used_bytes : 0;
	}
	atomic_store_explicit(&r->busy, false, memory_order_release);
	wake_signal(&n->wake);
}

static void say(const struct node *n, const struct node_room *now, const char *how)
{
	if (now->low)
		log_warn("disk.low",
		         "dir=%s free=%" PRIu64 " reusable=%" PRIu64 " reserve=%" PRIu64
		         " note=\"%s\" remedy=\"make room, or delete topics\"",
		         n->o.data_dir, now->free_bytes, now->reusable_bytes, now->reserve_bytes, how);
	else
		log_info("disk.room", "dir=%s free=%" PRIu64 " reusable=%" PRIu64, n->o.data_dir, now->free_bytes,
		         now->reusable_bytes);
}

static void judge(struct node *n)
{
	struct node_room_side *r = &n->room;
	struct node_room now = r->found;
	r->pending = false;
	if (r->status != 0) {
		/* Nothing is known, so nothing is refused: whoever writes will meet what there is. */
		if (log_allow(&r->unread, NODE_QUIET_MS))
			log_warn("disk.unread", "dir=%s error=\"%s\"", n->o.data_dir, strerror(r->status));
		now = (struct node_room){ .free_bytes = UINT64_MAX };
	}
	now.reserve_bytes = n->o.room_reserve;
	now.low = now.free_bytes < now.reserve_bytes && now.reusable_bytes < now.reserve_bytes - now.free_bytes;
	now.out = now.free_bytes < now.reserve_bytes / NODE_ROOM_LAST;
	if (now.low != r->shown.low)
		say(n, &now, "creates are refused, deletes pass");
	r->shown = now;
}

static void hand_over(struct node *n)
{
	struct node_room_side *r = &n->room;
	struct err e = { 0 };
	node_id to = 0;
	uint64_t lag;
	if (!r->shown.low || n->view.role != RAFT_LEADER || n->view.transferring ||
	    (r->handed_over_ms != 0 && n->now < r->handed_over_ms + HAND_OVER_MS))
		return;
	r->handed_over_ms = n->now;
	if (raft_judge_heir(n->raft, &to, &lag) != RAFT_HEIR_FIT)
		return;
	if (raft_transfer(n->raft, to, &e) == 0)
		log_info("disk.hand_over", "to=%s reason=\"the disk of this node is nearly full\"",
		         node_links_name(n, to) ? node_links_name(n, to) : "?");
}

uint64_t node_room_turn(struct node *n)
{
	struct node_room_side *r = &n->room;
	if (n->o.room_reserve == 0)
		return UINT64_MAX;
	if (atomic_load_explicit(&r->busy, memory_order_acquire))
		return UINT64_MAX; /* its end wakes us */
	if (r->pending)
		judge(n);
	hand_over(n);
	if (n->now < r->next_ms)
		return r->next_ms;
	r->next_ms = n->now + LOOK_MS;
	r->node = n;
	r->job.run = run_room_job;
	r->pending = true;
	atomic_store_explicit(&r->busy, true, memory_order_relaxed);
	pool_submit(n->pool, &r->job);
	return UINT64_MAX;
}

bool node_room_drops(const struct node *n, const struct raft_msg *m)
{
	return n->room.shown.out && m->type == RAFT_MSG_APPEND && m->entry_count > 0;
}
