/* Topics: path and query of /v1/topics and what lies below. */
#include "http/call.h"

static bool read_partition(struct str v, const char *where, struct http_call *c, struct svc_answer *a)
{
	uint64_t n;

	/* Narad's word for it; whether the topic has such a partition is known only where the topic is. */
	if (!u64_parse(v, &n) || n > INT32_MAX)
		return http_call_bad_param(a, where, "invalid partition");
	c->rq.partition = (int64_t)n;
	return true;
}

bool http_read_topic(struct http_call *c, struct svc_answer *a)
{
	struct str partition = http_call_param(c, "partition");

	return http_call_arg(c, 0, &c->rq.topic, a) && (!partition.p || read_partition(partition, "partition", c, a));
}

bool http_read_topic_partition(struct http_call *c, struct svc_answer *a)
{
	struct str partition;

	return http_call_arg(c, 0, &c->rq.topic, a) && http_call_arg(c, 1, &partition, a) &&
	       read_partition(partition, "partition", c, a);
}

bool http_read_topic_list(struct http_call *c, struct svc_answer *a)
{
	c->rq.prefix = http_call_param(c, "prefix");
	c->rq.owner = http_call_param(c, "owner");
	c->rq.role = http_call_param(c, "role");
	if (c->rq.role.p && !str_is(c->rq.role, "standalone") && !str_is(c->rq.role, "parent") &&
	    !str_is(c->rq.role, "child"))
		return http_call_bad_param(a, "role", "role is standalone, parent or child");
	return http_call_paging(c, a);
}
