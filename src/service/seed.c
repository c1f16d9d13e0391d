/* The first user. A cluster whose clients must say who they are and that knows nobody gets its root user from its
 * leader: with the password of --admin-password-file, else with one that is made here and logged once. There is no
 * default. */
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "fsm/changes.h"
#include "model/base64.h"
#include "service/write.h"

#define LOOK_MS 250     /* while there are no users */
#define RANDOM_BYTES 24 /* of a password made here: 32 characters */

static bool has_users(const struct svc *s)
{
	return fsm_domain_version(s->shared->fsm, FSM_DOMAIN_USERS) > 0;
}

static bool is_seeder(const struct svc *s)
{
	return s->shared->auth && s->number == 0;
}

/* The same at each attempt: one whose outcome is unknown may have been carried out. */
static const char *password_of(struct svc *s)
{
	uint8_t bytes[RANDOM_BYTES];

	if (s->shared->admin_password)
		return s->shared->admin_password;
	if (s->seed.password[0] != '\0')
		return s->seed.password;
	rand_secure(bytes, sizeof(bytes));
	base64_encode(s->seed.password, (struct str){ (const char *)bytes, sizeof(bytes) });
	explicit_bzero(bytes, sizeof(bytes));
	/* No sign that a shell or a URL reads as something else. */
	for (char *p = s->seed.password; *p; p++)
		*p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
	return s->seed.password;
}

static void say_done(struct svc *s)
{
	if (s->shared->admin_password) {
		log_info("auth.admin_made", "user=" ROOT_USER " password=\"as in --admin-password-file\"");
		return;
	}
	log_warn("auth.admin_made",
	         "user=" ROOT_USER " password=%s note=\"made for this cluster and shown this once: change it\"",
	         s->seed.password);
	explicit_bzero(s->seed.password, sizeof(s->seed.password));
}

static void on_seeded(void *arg, struct svc_answer *a)
{
	struct svc *s = arg;

	s->seed.busy = false;
	if (a->status == 201)
		say_done(s);
	else if (a->code && strcmp(a->code, "outcome_unknown") == 0 && !s->shared->admin_password)
		log_warn("auth.admin_unknown",
		         "user=" ROOT_USER " password=%s note=\"leadership was lost meanwhile: this password is in "
		         "force unless another leader made the user\"",
		         s->seed.password);
	else if (!a->not_leader && !has_users(s))
		log_warn("auth.admin_failed", "user=" ROOT_USER " status=%d code=%s", a->status,
		         a->code ? a->code : "");
}

void svc_seed_turn(struct svc *s, uint64_t now_ms)
{
	struct svc_request rq = { .op = SVC_USER_SEED, .grant = SVC_GRANT_NONE };

	if (!is_seeder(s) || has_users(s) || s->seed.busy || now_ms < s->seed.again_ms)
		return;
	s->seed.again_ms = now_ms + LOOK_MS;
	if (!node_is_leader(s->shared->node))
		return;
	snprintf(rq.principal.name, sizeof(rq.principal.name), "veena");
	snprintf(rq.origin, sizeof(rq.origin), "%s", svc_node_status(s, NULL)->id);
	rq.body = str_of(password_of(s));
	s->seed.busy = true;
	if (!svc_write_run(s, &rq, on_seeded, s))
		s->seed.busy = false;
}

void svc_seed_deadline(const struct svc *s, uint64_t *next_ms)
{
	if (is_seeder(s) && !has_users(s) && !s->seed.busy && s->seed.again_ms < *next_ms)
		*next_ms = s->seed.again_ms;
}
