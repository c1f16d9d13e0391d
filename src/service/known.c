/* The users that one thread knows: rights, and which password was verified. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "fsm/changes.h"
#include "fsm/users.h"
#include "service/auth_internal.h"

struct auth_known *auth_known_new(struct auth *au)
{
	struct auth_known *k = mem_zalloc(sizeof(*k));

	k->auth = au;
	k->mac = auth_mac_new(au);
	return k;
}

static void forget(struct auth_user **place)
{
	struct auth_user *u = *place;

	if (!u)
		return;
	rights_fini(&u->rights);
	explicit_bzero(u->mac, sizeof(u->mac));
	mem_free(u);
	*place = NULL;
}

void auth_known_free(struct auth_known *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < AUTH_KNOWN_SETS; i++) {
		for (size_t w = 0; w < AUTH_WAYS; w++)
			forget(&k->sets[i][w]);
	}
	auth_mac_free(k->mac);
	mem_free(k);
}

/* Where the user stands, or would: an empty place, else the one used longest ago. */
static struct auth_user **place_of(struct auth_known *k, struct str name)
{
	struct auth_user **set = k->sets[fsm_hash(name) & (AUTH_KNOWN_SETS - 1)], **oldest = &set[0];

	for (size_t w = 0; w < AUTH_WAYS; w++) {
		if (set[w] && str_is(name, set[w]->name))
			return &set[w];
		if (*oldest && (!set[w] || set[w]->used < (*oldest)->used))
			oldest = &set[w];
	}
	return oldest;
}

static int read_user(struct auth_user *u, struct store_txn *txn, struct str name)
{
	struct rights now;
	struct str record;
	int rc = fsm_get_domain_version(txn, FSM_DOMAIN_USERS, &u->version);

	if (rc == 0)
		rc = fsm_get_user(txn, name, &record);
	if (rc != 0 || str_eq(record, u->rights.record))
		return rc;
	rc = rights_read(&now, record, NULL);
	if (rc != 0)
		return rc;
	rights_fini(&u->rights);
	u->rights = now;
	return 0;
}

int auth_get_user(struct svc *s, struct store_txn *txn, struct str name, struct auth_user **out)
{
	struct auth_known *k = s->known;
	struct auth_user **place, *u;
	int rc = 0;

	if (!rule_user_name(name))
		return ERR_NOTFOUND;
	place = place_of(k, name);
	if (*place && !str_is(name, (*place)->name))
		forget(place);
	if (!*place) {
		*place = mem_zalloc(sizeof(**place));
		memcpy((*place)->name, name.p, name.len);
	}
	u = *place;
	u->used = ++k->clock;
	/* The published version may be ahead of the transaction for a moment; then the record is read once more. */
	if (u->version == 0 || u->version != fsm_domain_version(s->shared->fsm, FSM_DOMAIN_USERS))
		rc = read_user(u, txn, name);
	if (rc != 0) {
		forget(place);
		return rc;
	}
	*out = u;
	return 0;
}
