/* Watches: the query of /v1/watch. */
#include "http/call.h"
#include "service/watch.h"

static bool read_domain(struct http_call *c, struct str word, struct svc_answer *a)
{
	for (unsigned d = 0; d < FSM_DOMAIN_COUNT; d++) {
		if (SVC_WATCH_DOMAINS & 1u << d && str_is(word, fsm_domain_word((enum fsm_domain)d))) {
			c->rq.domains |= 1u << d;
			return true;
		}
	}
	return http_call_bad_param(a, "domains",
	                           "domains is a list with commas of: topics, schemas, assignments, members, servers, "
	                           "remotes, policies, control, settings, users");
}

static bool read_domains(struct http_call *c, struct svc_answer *a)
{
	struct str rest = http_call_param(c, "domains");

	while (rest.p) {
		const char *comma = rest.len ? memchr(rest.p, ',', rest.len) : NULL;
		const struct str word = { rest.p, comma ? (size_t)(comma - rest.p) : rest.len };

		if (!read_domain(c, word, a))
			return false;
		rest = comma ? (struct str){ comma + 1, rest.len - word.len - 1 } : (struct str){ NULL, 0 };
	}
	return true;
}

/* A browser that lost its stream asks for the same URL again and says in a header where it was. */
static bool read_since(struct http_call *c, struct svc_answer *a)
{
	struct str since = http_call_param(c, "since");

	if (since.p && c->rq.initial)
		return http_call_bad_param(a, "since", "since and initial exclude each other");
	if (c->fields[HTTP_FIELD_LAST_EVENT_ID].len > 0) {
		since = c->fields[HTTP_FIELD_LAST_EVENT_ID];
		c->rq.initial = false;
	}
	if (since.p && !u64_parse(since, &c->rq.since))
		return http_call_bad_param(a, "since", "since is a log index, a number without sign");
	c->rq.has_since = since.p != NULL;
	c->rq.min_index = c->rq.has_since ? c->rq.since : 0;
	return true;
}

bool http_read_watch(struct http_call *c, struct svc_answer *a)
{
	struct str initial = http_call_param(c, "initial");

	if (!http_call_flag(c, "initial", a))
		return false;
	c->rq.initial = initial.p && str_is(initial, "true");
	c->rq.prefix = http_call_param(c, "prefix");
	c->rq.member = http_call_param(c, "member");
	c->rq.cluster = http_call_param(c, "cluster");
	if (c->rq.prefix.len > FSM_CHANGE_KEY_MAX)
		return http_call_bad_param(a, "prefix", "longer than any key");
	if (c->rq.member.len > RAFT_NAME_MAX)
		return http_call_bad_param(a, "member", "longer than any member's id");
	return read_domains(c, a) && read_since(c, a);
}
