/* Users: the paths of /v1/users. */
#include "http/call.h"

bool http_read_user(struct http_call *c, struct svc_answer *a)
{
	return http_call_arg(c, 0, &c->rq.user, a);
}
