/* The other servers of the configuration in force, and on a leader how far each one is.
 *
 * What must hold: r->peers are the servers of conf_in_force without this node, in its order; match < next; in STREAM
 * the window holds exactly the appends with entries above match that are out.
 */
#include "raft/raft_internal.h"

struct peer *peer_find(const struct raft *r, node_id id)
{
	for (size_t i = 0; i < r->peer_count; i++) {
		if (r->peers[i]->id == id)
			return r->peers[i];
	}
	return NULL;
}

static void peer_free(struct peer *p)
{
	peer_end(p);
	fetch_fini(&p->fetch);
	mem_free(p);
}

void peer_free_all(struct raft *r)
{
	for (size_t i = 0; i < r->peer_count; i++)
		peer_free(r->peers[i]);
	r->peer_count = 0;
}

/* Takes the peer of that id out of the old list, or makes one. */
static struct peer *adopt(struct raft *r, struct peer **old, size_t old_count, node_id id)
{
	for (size_t i = 0; i < old_count; i++) {
		struct peer *p = old[i];
		if (p && p->id == id) {
			old[i] = NULL;
			return p;
		}
	}
	struct peer *p = mem_zalloc(sizeof(*p));
	p->id = id;
	if (r->role == RAFT_LEADER)
		peer_begin(r, p);
	return p;
}

void peer_rebuild(struct raft *r)
{
	struct peer *old[RAFT_SERVERS_MAX];
	const size_t old_count = r->peer_count;
	memcpy(old, r->peers, sizeof(old));
	r->peer_count = 0;
	r->self_voter = false;

	const struct conf_at *now = conf_in_force(r);
	for (uint32_t i = 0; now && i < now->conf.count; i++) {
		const struct raft_server *s = &now->conf.servers[i];
		if (s->id == r->p.self) {
			r->self_voter = s->voter;
			continue;
		}
		struct peer *p = adopt(r, old, old_count, s->id);
		if (s->voter && !p->voter)
			p->since_ms = r->now_ms; /* a new voter is not held against us for silence of before */
		p->voter = s->voter;
		r->peers[r->peer_count++] = p;
	}
	for (size_t i = 0; i < old_count; i++) {
		if (old[i])
			peer_free(old[i]);
	}
}

void peer_probe(struct peer *p, raft_index next)
{
	assert(next > p->match);
	p->state = PEER_PROBE;
	p->next = next;
	p->awaiting = false;
	p->window_head = p->window_count = p->window_bytes = 0;
	fetch_drop(&p->fetch);
}

void peer_begin(struct raft *r, struct peer *p)
{
	p->match = 0;
	p->contact_ms = 0;
	p->since_ms = r->now_ms;
	p->round = 0;
	p->beat = false;
	p->commit_sent = 0;
	p->hold = 0;
	peer_probe(p, r->log.last + 1);
}

void peer_end(struct peer *p)
{
	fetch_drop(&p->fetch);
	mem_free(p->image.conf);
	p->image = (struct image){ 0 };
	p->hold = 0;
	p->state = PEER_PROBE;
	p->window_head = p->window_count = p->window_bytes = 0;
}

void peer_window_push(struct peer *p, raft_index last, size_t bytes)
{
	assert(p->window_count < RAFT_WINDOW_MAX);
	p->window[(p->window_head + p->window_count) % RAFT_WINDOW_MAX] =
	    (struct inflight){ .last = last, .bytes = bytes };
	p->window_count++;
	p->window_bytes += bytes;
}

void peer_window_ack(struct peer *p, raft_index match)
{
	while (p->window_count > 0 && p->window[p->window_head].last <= match) {
		p->window_bytes -= p->window[p->window_head].bytes;
		p->window_head = (p->window_head + 1) % RAFT_WINDOW_MAX;
		p->window_count--;
	}
}

bool peer_is_active(const struct raft *r, const struct peer *p)
{
	return p->contact_ms > 0 && r->now_ms - p->contact_ms <= r->p.election_ms;
}
