/* Members: the paths and the query of /v1/cluster/members. */
#include "http/call.h"

bool http_read_member_list(struct http_call *c, struct svc_answer *a)
{
	return http_call_flag(c, "detail", a) && http_call_pair(c, "tag", &c->rq.tag_key, &c->rq.tag_value, a);
}

bool http_read_member(struct http_call *c, struct svc_answer *a)
{
	return http_call_arg(c, 0, &c->rq.member_id, a);
}
