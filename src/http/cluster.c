/* The cluster's servers: paths below /v1/cluster/servers. */
#include "http/call.h"

bool http_read_server(struct http_call *c, struct svc_answer *a)
{
	return http_call_arg(c, 0, &c->rq.server, a);
}
