/* Assignments: the query of /v1/assignments. Its filters are ANDed by the service. */
#include "http/call.h"

bool http_read_assignment_list(struct http_call *c, struct svc_answer *a)
{
	static const char *const states[] = { "placed", "unplaced", "moving", "leaderless", "owner_dead" };

	c->rq.owner = http_call_param(c, "owner");
	c->rq.target = http_call_param(c, "target");
	c->rq.replica = http_call_param(c, "replica");
	c->rq.member = http_call_param(c, "member");
	c->rq.prefix = http_call_param(c, "prefix");
	c->rq.state = http_call_param(c, "state");
	if (c->rq.state.p) {
		bool known = false;

		for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
			known = known || str_is(c->rq.state, states[i]);
		if (!known)
			return http_call_bad_param(a, "state",
			                           "state is placed, unplaced, moving, leaderless or owner_dead");
	}
	return http_call_paging(c, a);
}

/* `detail` adds the way out of what blocks a move; Narad's clients ask for it. */
bool http_read_moves(struct http_call *c, struct svc_answer *a)
{
	struct str detail = http_call_param(c, "detail");

	c->rq.detail = detail.p && !str_is(detail, "false");
	return (detail.p && detail.len == 0) || http_call_flag(c, "detail", a);
}

bool http_read_move_abort(struct http_call *c, struct svc_answer *a)
{
	c->rq.target = http_call_param(c, "target");
	return http_read_topic_partition(c, a);
}
