/* The cluster: paths below /v1/cluster/servers, the query of /v1/log. */
#include "http/call.h"
#include "model/rules.h"

bool http_read_server(struct http_call *c, struct svc_answer *a)
{
	return http_call_arg(c, 0, &c->rq.server, a);
}

/* `nodes` asks for what members hold of a remote; none of them says so here. */
bool http_read_remotes(struct http_call *c, struct svc_answer *a)
{
	return http_call_flag(c, "nodes", a);
}

bool http_read_remote(struct http_call *c, struct svc_answer *a)
{
	c->rq.force = str_is(http_call_param(c, "force"), "true");
	return http_call_arg(c, 0, &c->rq.remote, a) && http_call_flag(c, "nodes", a) && http_call_flag(c, "force", a);
}

bool http_read_log(struct http_call *c, struct svc_answer *a)
{
	struct str since = http_call_param(c, "since");

	c->rq.topic = http_call_param(c, "topic");
	if (c->rq.topic.p && !rule_stored_topic_name(c->rq.topic))
		return http_call_bad_param(a, "topic", "topic is a topic's name: 1 to 255 of A-Z a-z 0-9 . _ -");
	if (since.p && !u64_parse(since, &c->rq.since))
		return http_call_bad_param(a, "since", "since is a log index, a number without sign");
	c->rq.has_since = since.p != NULL;
	return http_call_paging(c, a);
}
