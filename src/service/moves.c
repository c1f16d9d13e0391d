/* Moves under way: the list, and how far their targets are.
 *
 * Progress is nobody's state: targets report it, the leader remembers the newest of each move, and a new leader begins
 * with none. A follower shows the moves without it. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "fsm/assignments.h"
#include "service/moves.h"

/* ---- progress ---- */

#define PROGRESS_MAX 1024 /* the oldest report gives way */

struct report {
	raft_index move_id; /* 0: free */
	uint32_t partition;
	uint64_t
	    topic; /* hash of its name: a move's id and partition tell moves of one entry apart but for the topic */
	struct svc_progress_report said;
};

/* Reports are rare beside everything else, and moves few: one lock and a walk. */
struct svc_progress {
	pthread_mutex_t lock;
	struct report reports[PROGRESS_MAX];
};

struct svc_progress *svc_progress_new(void)
{
	struct svc_progress *p = mem_zalloc(sizeof(*p));

	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void svc_progress_free(struct svc_progress *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	mem_free(p);
}

static struct report *find_report(struct svc_progress *p, const struct svc_move *m)
{
	const uint64_t topic = fsm_hash(m->topic);

	for (size_t i = 0; i < PROGRESS_MAX; i++) {
		struct report *r = &p->reports[i];

		if (r->move_id == m->move_id && r->partition == m->partition && r->topic == topic)
			return r;
	}
	return NULL;
}

void svc_progress_note(struct svc_progress *p, const struct svc_move *m, const struct svc_progress_report *said)
{
	pthread_mutex_lock(&p->lock);
	struct report *r = find_report(p, m);

	if (!r) {
		r = &p->reports[0];
		/* A free one says 0, which is older than any. */
		for (size_t i = 1; i < PROGRESS_MAX; i++) {
			if (p->reports[i].said.at_ms < r->said.at_ms)
				r = &p->reports[i];
		}
	}
	*r = (struct report){ m->move_id, m->partition, fsm_hash(m->topic), *said };
	pthread_mutex_unlock(&p->lock);
}

static bool copy_report(struct svc_progress *p, const struct svc_move *m, struct svc_progress_report *out)
{
	pthread_mutex_lock(&p->lock);
	const struct report *r = find_report(p, m);

	if (r)
		*out = r->said;
	pthread_mutex_unlock(&p->lock);
	return r != NULL;
}

/* ---- one move ---- */

static const char *status_of(const struct fsm_members *members, struct str id)
{
	const struct fsm_member *m = fsm_members_find(members, id);

	if (!m)
		return "not_a_member";
	if (!m->alive)
		return "dead";
	return m->draining ? "draining" : "alive";
}

struct block {
	const char *code, *way_out;
};

static const struct block *blocked_by(const char *from, const char *to)
{
	static const struct block target_gone = { "target_not_member",
		                                  "the target is no member any more: the rebalance takes the move "
		                                  "back, or abort it" };
	static const struct block target_dead = { "target_dead",
		                                  "start the target again, or abort the move; the rebalance "
		                                  "takes it back once the target was dead for 120 s" };
	static const struct block source_dead = { "source_dead",
		                                  "start the source again, or abort the move; a target with "
		                                  "a whole copy may complete it with force after 120 s" };

	if (strcmp(to, "not_a_member") == 0)
		return &target_gone;
	if (strcmp(to, "dead") == 0)
		return &target_dead;
	return strcmp(from, "dead") == 0 || strcmp(from, "not_a_member") == 0 ? &source_dead : NULL;
}

static void put_progress(struct json_writer *w, struct svc *s, const struct svc_move *m)
{
	struct svc_progress_report r;

	if (!copy_report(s->shared->progress, m, &r))
		return;
	json_key(w, "progress");
	json_begin_object(w);
	json_field_cstr(w, "phase", r.frozen ? "frozen" : "copying");
	json_field_u64(w, "copied_bytes", r.copied_bytes);
	json_field_u64(w, "total_bytes", r.total_bytes);
	json_field_u64(w, "at", r.at_ms / 1000);
	json_end_object(w);
}

void svc_put_move(struct json_writer *w, struct svc *s, const struct svc_move *m, const struct fsm_members *members,
                  bool detail)
{
	const char *from = status_of(members, m->owner), *to = status_of(members, m->target);
	const struct block *b = blocked_by(from, to);

	json_begin_object(w);
	json_field_str(w, "topic", m->topic);
	json_field_u64(w, "partition", m->partition);
	json_field_str(w, "from", m->owner);
	json_field_str(w, "to", m->target);
	json_field_cstr(w, "from_status", from);
	json_field_cstr(w, "to_status", to);
	if (b)
		json_field_cstr(w, "blocked", b->code);
	if (b && detail)
		json_field_cstr(w, "way_out", b->way_out);
	json_field_str(w, "topic_id", m->topic_id);
	json_field_u64(w, "move_id", m->move_id);
	if (m->pinned)
		json_field_bool(w, "pinned", true);
	put_progress(w, s, m);
	json_end_object(w);
}

/* ---- the list ---- */

/* False: the row is an orphan's, or the move has ended. */
static int read_move(struct store_txn *txn, const struct fsm_place *at, struct arena *arena, struct svc_move *out,
                     bool *found)
{
	struct fsm_topic t;
	struct fsm_owner o;
	struct topic record;
	int rc = fsm_get_topic(txn, at->topic, &t);

	*found = false;
	if (rc == ERR_NOTFOUND || (rc == 0 && at->partition >= t.partition_count))
		return 0;
	if (rc == 0)
		rc = record_read_json(&topic_type, t.record, arena, &record, NULL, NULL);
	if (rc != 0)
		return rc;
	fsm_topic_owner(&t, at->partition, &o);
	*out = (struct svc_move){
		.topic = arena_str(arena, t.name),
		.topic_id = record.id.p ? arena_str(arena, record.id) : STR_LIT(""),
		.owner = arena_str(arena, o.owner),
		.target = arena_str(arena, o.target),
		.partition = at->partition,
		.move_id = o.move_id,
		.pinned = o.pinned,
	};
	*found = o.target.len > 0;
	return 0;
}

int svc_moves_read(struct store_txn *txn, struct arena *arena, size_t max, struct svc_move **out, size_t *count,
                   bool *more)
{
	struct fsm_place_iter it = { 0 };
	struct fsm_place at;
	uint64_t n;
	int rc = fsm_count_moves(txn, &n);

	*count = 0;
	*more = false;
	if (rc != 0)
		return rc;
	*out = arena_zalloc(arena, ((n < max ? (size_t)n : max) + 1) * sizeof(**out));
	rc = fsm_moves_open(&it, txn, NULL);
	while (rc == 0 && (rc = fsm_place_next(&it, &at)) == 0) {
		bool found;

		if (*count == max) {
			*more = true;
			break;
		}
		rc = read_move(txn, &at, arena, &(*out)[*count], &found);
		if (rc == 0 && found)
			(*count)++;
	}
	fsm_place_close(&it);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

int svc_move_list(struct svc *s, struct store_txn *txn, const struct svc_request *rq, struct svc_answer *a)
{
	const struct fsm_members *members;
	struct json_writer w = { .out = &a->body };
	struct svc_move *moves;
	size_t count;
	bool more;
	struct err e;
	int rc = svc_moves_read(txn, &s->arena, SVC_MOVES_SHOWN, &moves, &count, &more);

	if (rc == 0)
		rc = fsm_reader_members(&s->reader, &members, &e);
	if (rc != 0)
		return rc;
	json_begin_object(&w);
	json_key(&w, "moves");
	json_begin_array(&w);
	for (size_t i = 0; i < count; i++)
		svc_put_move(&w, s, &moves[i], members, rq->detail);
	json_end_array(&w);
	if (more)
		json_field_bool(&w, "more", true);
	json_end_object(&w);
	svc_answer_json(a, 200);
	return 0;
}
