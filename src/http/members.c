/* Members: the query of /v1/cluster/members. */
#include <string.h>

#include "http/call.h"

bool http_read_member_list(struct http_call *c, struct svc_answer *a)
{
	struct str tag = http_call_param(c, "tag");
	const char *eq;

	if (!tag.p)
		return true;
	eq = tag.len ? memchr(tag.p, '=', tag.len) : NULL;
	if (!eq || eq == tag.p)
		return http_call_bad_param(a, "tag", "tag is KEY=VALUE");
	c->rq.tag_key = (struct str){ tag.p, (size_t)(eq - tag.p) };
	c->rq.tag_value = (struct str){ eq + 1, tag.len - c->rq.tag_key.len - 1 };
	return true;
}
