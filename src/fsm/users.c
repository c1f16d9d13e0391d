/* Users: types 9, 10, 11, 12, 21, 22, 32. */
#include "fsm/fsm_internal.h"
#include "model/rules.h"

static int load(struct apply *a, struct str name, struct user *out)
{
	int rc = fsm_get_record(a, STORE_USERS, name, &user_type, out);
	return rc == ERR_NOTFOUND ? FSM_USER_NOT_FOUND : rc;
}

static int store(struct apply *a, const struct user *now)
{
	return is_judging(a) ? 0 : fsm_put_record(a, STORE_USERS, now->username, &user_type, now, 0);
}

static int insert(struct apply *a, const struct user *u, bool root)
{
	struct user now = *u;
	struct str v;
	int rc = store_get(a->txn, STORE_USERS, u->username, &v);
	if (rc != ERR_NOTFOUND)
		return rc ? rc : FSM_USER_EXISTS;
	/* Beyond the facts: another name would not fit the index of its topics. */
	if (!rule_user_name(u->username))
		return FSM_INVALID;
	now.root = root;
	return store(a, &now);
}

int fsm_user_create(struct apply *a, const void *command)
{
	return insert(a, command, false);
}

int fsm_user_seed_root(struct apply *a, const void *command)
{
	return insert(a, command, true);
}

/* Of old logs: the whole record is replaced, but nobody becomes root or ceases to be, and root's grants stay. */
int fsm_user_update(struct apply *a, const void *command)
{
	struct user now = *(const struct user *)command;
	struct user old;
	int rc = load(a, now.username, &old);
	if (rc)
		return rc;
	now.root = old.root;
	if (old.root)
		now.grants = old.grants;
	return store(a, &now);
}

int fsm_user_set_password(struct apply *a, const void *command)
{
	const struct cmd_user_password *c = command;
	struct user u;
	int rc = load(a, c->username, &u);
	if (rc)
		return rc;
	u.password_hash = c->password_hash;
	u.updated_at_ms = c->updated_at_ms;
	return store(a, &u);
}

int fsm_user_set_grants(struct apply *a, const void *command)
{
	const struct cmd_user_grants *c = command;
	struct user u;
	int rc = load(a, c->username, &u);
	if (rc)
		return rc;
	if (u.root)
		return FSM_ROOT_PROTECTED;
	u.grants = c->grants;
	u.updated_at_ms = c->updated_at_ms;
	return store(a, &u);
}

/* ---- delete ---- */

static int judge_delete(struct apply *a, struct str name)
{
	struct user u;
	int rc = load(a, name, &u);
	return rc ? rc : u.root ? FSM_ROOT_PROTECTED : 0;
}

/* Its topics go on naming it: whoever gets that name later owns them. Type 32 exists for that. */
int fsm_user_delete(struct apply *a, const void *command)
{
	const struct cmd_name *c = command;
	int rc = judge_delete(a, c->name);
	if (rc || is_judging(a))
		return rc;
	return fsm_del(a, STORE_USERS, c->name);
}

static int release_topic(struct apply *a, struct str name)
{
	struct topic_state t;
	int rc = topic_state_load(a, name, &t);
	if (rc)
		return rc == ERR_NOTFOUND ? fsm_corrupt(a, STORE_X_BY_USER, name, "names a topic that is not there")
		                          : rc;
	const struct topic old = t.rec;
	t.rec.owner = (struct str){ "", 0 };
	return topic_state_rewrite(a, &old, &t);
}

/* A rewrite takes the topic out of the user's index, so the first one is always the next: in order of name. */
int fsm_user_delete_release(struct apply *a, const void *command)
{
	const struct cmd_name *c = command;
	char name[TOPIC_STORED_NAME_MAX];
	struct str owned;
	int rc = judge_delete(a, c->name);
	if (rc || is_judging(a))
		return rc;
	rc = fsm_del(a, STORE_USERS, c->name);
	while (rc == 0 && (rc = fsm_next_of_user(a->txn, c->name, (struct str){ "", 0 }, &owned)) == 0) {
		if (owned.len > sizeof(name))
			return fsm_corrupt(a, STORE_X_BY_USER, owned, "not a topic's name");
		memcpy(name, owned.p, owned.len); /* what is borrowed moves with the write */
		rc = release_topic(a, (struct str){ name, owned.len });
	}
	return rc == ERR_NOTFOUND ? 0 : rc;
}
