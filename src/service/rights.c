#include "service/rights.h"

#include "fsm/changes.h"

const struct rights rights_of_all = { .user.root = true, .is_admin = true, .reads_all = true };

bool grant_pattern_matches(struct str pattern, struct str name)
{
	if (pattern.len > 0 && pattern.p[pattern.len - 1] == '*')
		return str_starts(name, (struct str){ pattern.p, pattern.len - 1 });
	return str_eq(pattern, name);
}

static bool has_action(const struct rights *r, const char *action)
{
	const struct grant *g = r->user.grants.items;

	for (size_t i = 0; i < r->user.grants.count; i++) {
		if (str_is(g[i].action, action))
			return true;
	}
	return false;
}

int rights_read(struct rights *r, struct str record, struct err *e)
{
	*r = (struct rights){ 0 };
	r->record = arena_str(&r->arena, record);
	if (record_read_json(&user_type, r->record, &r->arena, &r->user, NULL, e) != 0) {
		rights_fini(r);
		return ERR_CORRUPT;
	}
	r->credential = fsm_hash(r->user.password_hash);
	r->is_admin = r->user.root || has_action(r, "admin");
	r->reads_all = r->is_admin || has_action(r, "observe") || has_action(r, "member");
	return 0;
}

void rights_fini(struct rights *r)
{
	arena_fini(&r->arena);
	*r = (struct rights){ 0 };
}

static bool matches_any(const struct str_list *patterns, struct str name)
{
	for (size_t i = 0; i < patterns->count; i++) {
		if (grant_pattern_matches(patterns->items[i], name))
			return true;
	}
	return false;
}

bool rights_may(const struct rights *r, const char *action, struct str name)
{
	const struct grant *g = r->user.grants.items;

	if (r->is_admin)
		return true;
	for (size_t i = 0; i < r->user.grants.count; i++) {
		if (str_is(g[i].action, action) && matches_any(&g[i].patterns, name))
			return true;
	}
	return false;
}

bool rights_may_any(const struct rights *r, struct str topic)
{
	return r->reads_all || rights_may(r, "produce", topic) || rights_may(r, "consume", topic) ||
	       rights_may(r, "create", topic);
}

bool rights_may_manage(const struct rights *r, struct str owner)
{
	return r->is_admin || (owner.len > 0 && str_eq(owner, r->user.username));
}
