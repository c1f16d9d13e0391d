#include "http/routes.h"

#include <stdio.h>
#include <string.h>

#include "http/call.h"

/* Reads have HTTP_READ, writes HTTP_WRITE; what a parameter means stands in the file of its resource. Those that every
 * read takes (min_index, consistency, max_age_ms) are call.c's. */
const struct http_route http_routes[] = {
	{ HTTP_VERB_GET, "/v1/topics/{topic}", SVC_TOPIC_GET, SVC_GRANT_READ, HTTP_READ, "partition", http_read_topic },
	{ HTTP_VERB_PATCH, "/v1/topics/{topic}", SVC_TOPIC_ALTER, SVC_GRANT_MANAGE, HTTP_WRITE | HTTP_IF_MATCH, "id",
	  http_read_topic },
	{ HTTP_VERB_DELETE, "/v1/topics/{topic}", SVC_TOPIC_DELETE, SVC_GRANT_MANAGE, HTTP_WRITE | HTTP_IF_MATCH,
	  "id force", http_read_topic },
	{ HTTP_VERB_GET, "/v1/topics", SVC_TOPIC_LIST, SVC_GRANT_ANY, HTTP_READ,
	  "limit page_token prefix owner role label", http_read_topic_list },
	{ HTTP_VERB_POST, "/v1/topics", SVC_TOPIC_CREATE, SVC_GRANT_CREATE, HTTP_WRITE, "", NULL },
	{ HTTP_VERB_GET, "/v1/topics/{topic}/children", SVC_CHILD_LIST, SVC_GRANT_READ, HTTP_READ, "partitions",
	  http_read_topic },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/children", SVC_CHILD_ATTACH, SVC_GRANT_MANAGE, HTTP_WRITE, "id child_id",
	  http_read_topic },
	{ HTTP_VERB_DELETE, "/v1/topics/{topic}/children/{child}", SVC_CHILD_DETACH, SVC_GRANT_MANAGE, HTTP_WRITE,
	  "id child_id force", http_read_child },
	{ HTTP_VERB_GET, "/v1/topics/{topic}/schema", SVC_SCHEMA_LIST, SVC_GRANT_READ, HTTP_READ, "", http_read_topic },
	{ HTTP_VERB_GET, "/v1/topics/{topic}/schema/{version}", SVC_SCHEMA_GET, SVC_GRANT_READ, HTTP_READ, "",
	  http_read_schema_version },
	{ HTTP_VERB_PUT, "/v1/topics/{topic}/schema/{version}", SVC_SCHEMA_PUT, SVC_GRANT_MANAGE,
	  HTTP_WRITE | HTTP_IF_MATCH, "id", http_read_schema_version },
	{ HTTP_VERB_GET, "/v1/topics/{topic}/assignments", SVC_TOPIC_ASSIGNMENTS, SVC_GRANT_READ, HTTP_READ, "",
	  http_read_topic },
	{ HTTP_VERB_GET, "/v1/topics/{topic}/partitions/{partition}", SVC_TOPIC_ASSIGNMENT, SVC_GRANT_READ, HTTP_READ,
	  "", http_read_topic_partition },
	{ HTTP_VERB_GET, "/v1/assignments", SVC_ASSIGNMENT_LIST, SVC_GRANT_OBSERVE, HTTP_READ,
	  "limit page_token owner target replica member state prefix", http_read_assignment_list },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/partitions/{partition}/move", SVC_MOVE_SET, SVC_GRANT_ADMIN, HTTP_WRITE,
	  "dry_run", http_read_topic_partition },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/partitions/{partition}/move/progress", SVC_MOVE_PROGRESS,
	  SVC_GRANT_MEMBER, HTTP_WRITE, "", http_read_topic_partition },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/partitions/{partition}/move/complete", SVC_MOVE_COMPLETE,
	  SVC_GRANT_MEMBER, HTTP_WRITE, "", http_read_topic_partition },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/partitions/{partition}/leader", SVC_LEADER_SET, SVC_GRANT_ADMIN,
	  HTTP_WRITE, "dry_run", http_read_topic_partition },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/partitions/{partition}/replicas", SVC_REPLICAS_SET, SVC_GRANT_ADMIN,
	  HTTP_WRITE, "dry_run", http_read_topic_partition },
	{ HTTP_VERB_GET, "/v1/cluster/moves", SVC_MOVE_LIST, SVC_GRANT_OBSERVE, HTTP_READ, "detail", http_read_moves },
	{ HTTP_VERB_POST, "/v1/cluster/moves/abort", SVC_MOVE_ABORT_ALL, SVC_GRANT_ADMIN, HTTP_WRITE, "dry_run", NULL },
	{ HTTP_VERB_POST, "/v1/cluster/moves/{topic}/{partition}/abort", SVC_MOVE_ABORT, SVC_GRANT_ADMIN, HTTP_WRITE,
	  "target dry_run", http_read_move_abort },
	{ HTTP_VERB_GET, "/v1/confirm/topics/{topic}", SVC_CONFIRM_TOPIC, SVC_GRANT_OBSERVE, HTTP_LEADER,
	  "id attach_epoch", http_read_confirm },
	{ HTTP_VERB_GET, "/v1/confirm/topics/{topic}/partitions/{partition}", SVC_CONFIRM_PARTITION, SVC_GRANT_OBSERVE,
	  HTTP_LEADER, "id member", http_read_confirm_partition },
	{ HTTP_VERB_GET, "/v1/cluster/members", SVC_MEMBER_LIST, SVC_GRANT_OBSERVE, HTTP_READ, "tag detail",
	  http_read_member_list },
	{ HTTP_VERB_POST, "/v1/cluster/members", SVC_MEMBER_REGISTER, SVC_GRANT_MEMBER, HTTP_WRITE, "", NULL },
	{ HTTP_VERB_GET, "/v1/cluster/members/{id}", SVC_MEMBER_GET, SVC_GRANT_OBSERVE, HTTP_READ, "",
	  http_read_member },
	{ HTTP_VERB_PATCH, "/v1/cluster/members/{id}", SVC_MEMBER_PATCH, SVC_GRANT_ADMIN, HTTP_WRITE, "",
	  http_read_member },
	{ HTTP_VERB_POST, "/v1/cluster/members/{id}/heartbeat", SVC_MEMBER_HEARTBEAT, SVC_GRANT_MEMBER, HTTP_WRITE, "",
	  http_read_member },
	{ HTTP_VERB_POST, "/v1/cluster/members/{id}/leave", SVC_MEMBER_LEAVE, SVC_GRANT_MEMBER, HTTP_WRITE, "",
	  http_read_member },
	{ HTTP_VERB_POST, "/v1/cluster/members/{id}/lost", SVC_MEMBER_LOST, SVC_GRANT_ADMIN, HTTP_WRITE, "dry_run",
	  http_read_member },
	{ HTTP_VERB_POST, "/v1/cluster/members/{id}/decommission", SVC_MEMBER_DECOMMISSION, SVC_GRANT_ADMIN, HTTP_WRITE,
	  "dry_run", http_read_member },
	{ HTTP_VERB_DELETE, "/v1/cluster/members/{id}/decommission", SVC_MEMBER_RECOMMISSION, SVC_GRANT_ADMIN,
	  HTTP_WRITE, "", http_read_member },
	{ HTTP_VERB_POST, "/v1/cluster/members/{id}/forget", SVC_MEMBER_FORGET, SVC_GRANT_ADMIN, HTTP_WRITE, "dry_run",
	  http_read_member },
	{ HTTP_VERB_GET, "/v1/cluster/servers", SVC_SERVER_LIST, SVC_GRANT_OBSERVE, HTTP_READ, "", NULL },
	{ HTTP_VERB_POST, "/v1/cluster/servers", SVC_SERVER_SET, SVC_GRANT_ADMIN, HTTP_WRITE, "dry_run", NULL },
	{ HTTP_VERB_DELETE, "/v1/cluster/servers/{id}", SVC_SERVER_REMOVE, SVC_GRANT_ADMIN, HTTP_WRITE, "dry_run",
	  http_read_server },
	{ HTTP_VERB_POST, "/v1/cluster/leader", SVC_LEADER_TRANSFER, SVC_GRANT_ADMIN, HTTP_WRITE, "dry_run", NULL },
	{ HTTP_VERB_POST, "/v1/cluster/snapshot", SVC_SNAPSHOT, SVC_GRANT_ADMIN, HTTP_PLAIN, "", NULL },
	{ HTTP_VERB_GET, "/v1/log", SVC_LOG, SVC_GRANT_ADMIN, HTTP_READ, "topic since limit", http_read_log },
	{ HTTP_VERB_GET, "/v1/settings", SVC_SETTINGS_GET, SVC_GRANT_OBSERVE, HTTP_LEADER, "", NULL },
	{ HTTP_VERB_PATCH, "/v1/settings", SVC_SETTINGS_SET, SVC_GRANT_ADMIN, HTTP_WRITE, "", NULL },
	{ HTTP_VERB_GET, "/v1/watch", SVC_WATCH, SVC_GRANT_OBSERVE, HTTP_PLAIN,
	  "since initial domains prefix member cluster", http_read_watch },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/children/{child}/pause", SVC_CHILD_PAUSE, SVC_GRANT_ADMIN, HTTP_WRITE, "",
	  http_read_child },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/children/{child}/resume", SVC_CHILD_RESUME, SVC_GRANT_ADMIN, HTTP_WRITE,
	  "", http_read_child },
	{ HTTP_VERB_POST, "/v1/topics/{topic}/children/{child}/skip", SVC_CHILD_SKIP, SVC_GRANT_ADMIN, HTTP_WRITE, "",
	  http_read_child },
	{ HTTP_VERB_GET, "/v1/remotes", SVC_REMOTE_LIST, SVC_GRANT_ADMIN, HTTP_READ, "nodes", http_read_remotes },
	{ HTTP_VERB_POST, "/v1/remotes", SVC_REMOTE_CREATE, SVC_GRANT_ADMIN, HTTP_WRITE, "", NULL },
	{ HTTP_VERB_GET, "/v1/remotes/{name}", SVC_REMOTE_GET, SVC_GRANT_ADMIN, HTTP_READ, "nodes", http_read_remote },
	{ HTTP_VERB_PATCH, "/v1/remotes/{name}", SVC_REMOTE_ALTER, SVC_GRANT_ADMIN, HTTP_WRITE, "", http_read_remote },
	{ HTTP_VERB_DELETE, "/v1/remotes/{name}", SVC_REMOTE_DELETE, SVC_GRANT_ADMIN, HTTP_WRITE, "force",
	  http_read_remote },
	{ HTTP_VERB_POST, "/v1/remotes/{name}/test", SVC_REMOTE_TEST, SVC_GRANT_ADMIN, HTTP_PLAIN, "",
	  http_read_remote },
	{ HTTP_VERB_POST, "/v1/cluster/reencrypt-remotes", SVC_REMOTE_REENCRYPT, SVC_GRANT_ADMIN, HTTP_WRITE, "",
	  NULL },
	{ HTTP_VERB_GET, "/v1/users", SVC_USER_LIST, SVC_GRANT_ADMIN, HTTP_READ, "", NULL },
	{ HTTP_VERB_POST, "/v1/users", SVC_USER_CREATE, SVC_GRANT_ADMIN, HTTP_WRITE, "", NULL },
	{ HTTP_VERB_GET, "/v1/users/{username}", SVC_USER_GET, SVC_GRANT_ADMIN, HTTP_READ, "", http_read_user },
	{ HTTP_VERB_DELETE, "/v1/users/{username}", SVC_USER_DELETE, SVC_GRANT_ADMIN, HTTP_WRITE, "", http_read_user },
	{ HTTP_VERB_PUT, "/v1/users/{username}/grants", SVC_USER_GRANTS, SVC_GRANT_ADMIN, HTTP_WRITE, "",
	  http_read_user },
	{ HTTP_VERB_PUT, "/v1/users/{username}/password", SVC_USER_PASSWORD, SVC_GRANT_ANY, HTTP_WRITE, "",
	  http_read_user },
	{ HTTP_VERB_GET, "/v1/status", SVC_STATUS, SVC_GRANT_OBSERVE, HTTP_PLAIN, "", NULL },
	{ HTTP_VERB_POST, "/v1/barrier", SVC_BARRIER, SVC_GRANT_ANY, HTTP_PLAIN, "", NULL },
	{ HTTP_VERB_GET, "/healthz", SVC_HEALTHZ, SVC_GRANT_NONE, HTTP_PLAIN, "", NULL },
	{ HTTP_VERB_GET, "/readyz", SVC_READYZ, SVC_GRANT_NONE, HTTP_PLAIN, "", NULL },
	{ HTTP_VERB_GET, "/metrics", SVC_METRICS, SVC_GRANT_NONE, HTTP_PLAIN, "", NULL },
};
const size_t http_route_count = sizeof(http_routes) / sizeof(http_routes[0]);
_Static_assert(sizeof(http_routes) / sizeof(http_routes[0]) <= HTTP_ROUTES_MAX, "statistics have a row per route");

const char *const http_verb_names[HTTP_VERB_END] = { "GET", "POST", "PUT", "PATCH", "DELETE", "OTHER" };

/* Cuts the next segment off a path that stands on a slash. */
static bool next_segment(const char **p, const char *end, struct str *out)
{
	if (*p == end || **p != '/')
		return false;
	const char *from = *p + 1;
	const char *slash = from < end ? memchr(from, '/', (size_t)(end - from)) : NULL;

	*p = slash ? slash : end;
	*out = (struct str){ from, (size_t)(*p - from) };
	return true;
}

/* A brace takes one segment that is not empty; everything else must be equal byte by byte. */
static bool matches(const char *pattern, struct str path, struct http_match *m)
{
	const char *pat = pattern, *pat_end = pattern + strlen(pattern);
	const char *p = path.p, *end = path.p + path.len;
	struct str want, have;

	m->arg_count = 0;
	while (next_segment(&pat, pat_end, &want)) {
		if (!next_segment(&p, end, &have))
			return false;
		if (want.len > 0 && want.p[0] == '{') {
			if (have.len == 0 || m->arg_count == HTTP_ARGS_MAX)
				return false;
			m->args[m->arg_count++] = have;
		} else if (!str_eq(want, have)) {
			return false;
		}
	}
	return p == end;
}

void http_route_find(enum http_verb verb, struct str path, struct http_match *out)
{
	struct http_match m;

	memset(out, 0, sizeof(*out));
	memset(&m, 0, sizeof(m));
	for (size_t i = 0; i < http_route_count; i++) {
		if (!matches(http_routes[i].path, path, &m))
			continue;
		out->path_known = true;
		out->allowed |= 1u << http_routes[i].verb;
		if (http_routes[i].verb == verb) {
			m.route = &http_routes[i];
			m.path_known = true;
			m.allowed = out->allowed;
			*out = m;
			return;
		}
	}
}

const char *http_allow_text(unsigned allowed, char *out, size_t cap)
{
	size_t n = 0;

	out[0] = '\0';
	for (int v = 0; v < HTTP_VERB_OTHER; v++) {
		if (!(allowed & 1u << v))
			continue;
		int add = snprintf(out + n, cap - n, "%s%s%s", n ? ", " : "", http_verb_names[v],
		                   v == HTTP_VERB_GET ? ", HEAD" : "");

		n += (size_t)add < cap - n ? (size_t)add : cap - n - 1;
	}
	return out;
}
