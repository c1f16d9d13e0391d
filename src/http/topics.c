/* Topics: path and query of /v1/topics and what lies below: children, schemas, partitions. */
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

/* Which incarnations the client means. `force` is for topics linked to other clusters; of the rest it changes nothing.
 */
static bool read_ids(struct http_call *c, struct svc_answer *a)
{
	c->rq.id = http_call_param(c, "id");
	c->rq.child_id = http_call_param(c, "child_id");
	return http_call_flag(c, "force", a);
}

/* `partitions` asks for figures of children on other clusters; there are none of others. */
bool http_read_topic(struct http_call *c, struct svc_answer *a)
{
	struct str partition = http_call_param(c, "partition");

	return http_call_arg(c, 0, &c->rq.topic, a) && (!partition.p || read_partition(partition, "partition", c, a)) &&
	       http_call_flag(c, "partitions", a) && read_ids(c, a);
}

bool http_read_child(struct http_call *c, struct svc_answer *a)
{
	return http_call_arg(c, 0, &c->rq.topic, a) && http_call_arg(c, 1, &c->rq.child, a) && read_ids(c, a);
}

bool http_read_schema_version(struct http_call *c, struct svc_answer *a)
{
	struct str version;
	uint64_t n;

	if (!http_call_arg(c, 0, &c->rq.topic, a) || !http_call_arg(c, 1, &version, a) || !read_ids(c, a))
		return false;
	if (!u64_parse(version, &n) || n == 0 || n > INT32_MAX)
		return http_call_bad_param(a, "version", "a version is a number from 1 on");
	c->rq.version = (int64_t)n;
	return true;
}

bool http_read_topic_partition(struct http_call *c, struct svc_answer *a)
{
	struct str partition;

	return http_call_arg(c, 0, &c->rq.topic, a) && http_call_arg(c, 1, &partition, a) &&
	       read_partition(partition, "partition", c, a);
}

bool http_read_confirm(struct http_call *c, struct svc_answer *a)
{
	c->rq.id = http_call_param(c, "id");
	c->rq.attach_epoch = http_call_param(c, "attach_epoch");
	return http_call_arg(c, 0, &c->rq.topic, a);
}

bool http_read_confirm_partition(struct http_call *c, struct svc_answer *a)
{
	c->rq.id = http_call_param(c, "id");
	c->rq.member = http_call_param(c, "member");
	return http_read_topic_partition(c, a);
}

bool http_read_topic_list(struct http_call *c, struct svc_answer *a)
{
	c->rq.prefix = http_call_param(c, "prefix");
	c->rq.owner = http_call_param(c, "owner");
	c->rq.role = http_call_param(c, "role");
	if (c->rq.role.p && !str_is(c->rq.role, "standalone") && !str_is(c->rq.role, "parent") &&
	    !str_is(c->rq.role, "child"))
		return http_call_bad_param(a, "role", "role is standalone, parent or child");
	return http_call_pair(c, "label", &c->rq.label_key, &c->rq.label_value, a) && http_call_paging(c, a);
}
