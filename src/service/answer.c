/* Errors as bodies: one writer, one table from the state machine's refusals to what a client sees. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "service/codes.h"
#include "service/service_internal.h"

static void put_error(struct svc_answer *a, const char *text, const char *field, const char *outcome, raft_index index)
{
	struct json_writer w = { .out = &a->body };

	if (!svc_code_find(a->status, a->code))
		log_error("svc.code", "status=%d code=%s error=\"an answer has a code that is not in the table\"",
		          a->status, a->code);
	buf_clear(&a->body);
	json_begin_object(&w);
	json_field_cstr(&w, "error", text);
	json_field_cstr(&w, "code", a->code);
	if (field)
		json_field_cstr(&w, "field", field);
	if (outcome)
		json_field_cstr(&w, "outcome", outcome);
	if (index)
		json_field_u64(&w, "index", index);
	json_end_object(&w);
	buf_putc(&a->body, '\n');
	a->content_type = "application/json";
}

void svc_fail(struct svc_answer *a, int status, const char *code, const char *field, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	a->status = status;
	a->code = code;
	if (status == 503)
		a->retry_after_s = 1; /* of what changes nothing: it may be asked again */
	put_error(a, text, field, NULL, 0);
}

bool svc_bad_field(struct svc_answer *a, const char *field, const char *text)
{
	svc_fail(a, 400, "bad_field", field, "%s", text);
	return false;
}

void svc_fail_write(struct svc_answer *a, int status, const char *code, const char *outcome, raft_index index,
                    const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	a->status = status;
	a->code = code;
	a->index = index;
	if (status == 503 && strcmp(outcome, "none") == 0)
		a->retry_after_s = 1; /* nothing happened, and it is a matter of time */
	put_error(a, text, NULL, status >= 500 ? outcome : NULL, index);
}

void svc_fail_open(struct svc_answer *a, struct json_writer *w)
{
	a->body.len -= 2; /* the brace and the newline of put_error */
	*w = (struct json_writer){ .out = &a->body, .comma = true };
}

void svc_fail_close(struct svc_answer *a, struct json_writer *w)
{
	json_end_object(w);
	buf_putc(&a->body, '\n');
}

void svc_fail_not_leader(struct svc_answer *a)
{
	svc_fail_write(a, 503, "no_leader", "none", 0,
	               "this node is not the leader and no other one is known; nothing was done, try again");
	a->not_leader = true;
}

void svc_dry_run_begin(struct json_writer *w, bool would)
{
	json_begin_object(w);
	json_field_bool(w, "dry_run", true);
	json_field_bool(w, "would", would);
	json_key(w, "intents");
	json_begin_array(w);
}

void svc_dry_run_end(struct json_writer *w, const char *code, const char *text)
{
	json_end_array(w);
	json_key(w, "reasons");
	json_begin_array(w);
	if (code) {
		json_begin_object(w);
		json_field_cstr(w, "code", code);
		json_field_cstr(w, "message", text);
		json_end_object(w);
	}
	json_end_array(w);
	json_end_object(w);
}

/* The sentence of an error, as put_error wrote it. */
static struct str error_text(struct str body, struct arena *arena)
{
	struct json_reader r;

	json_reader_init(&r, body, 0);

	const enum json_event object = json_next(&r);
	const enum json_event key = json_next(&r);
	const enum json_event text = json_next(&r);

	if (object == JSON_OBJECT && key == JSON_KEY && text == JSON_STRING)
		return json_token_str(&r, arena);
	return (struct str){ "", 0 };
}

void svc_dry_run_refused(struct svc_answer *a, struct arena *arena)
{
	const char *code = a->code;
	struct str text = error_text((struct str){ (const char *)a->body.data, a->body.len }, arena);
	char copy[512];
	struct json_writer w = { .out = &a->body };

	snprintf(copy, sizeof(copy), STR_FMT, STR_ARG(text));
	buf_clear(&a->body);
	svc_dry_run_begin(&w, false);
	svc_dry_run_end(&w, code, copy);
	svc_answer_json(a, 200);
}

void svc_answer_json(struct svc_answer *a, int status)
{
	buf_putc(&a->body, '\n');
	a->status = status;
	a->code = NULL;
	a->content_type = "application/json";
}

/* `text` may hold one %s for the hint. */
static const struct refusal_row {
	int refusal;
	int status;
	const char *code;
	const char *text;
} refusal_rows[] = {
	{ FSM_UNSUPPORTED, 400, "bad_field", "this release does not carry this out yet" },
	{ FSM_INVALID, 400, "bad_field", "invalid argument" },
	{ FSM_TOPIC_NOT_FOUND, 404, "topic_not_found", "topic not found" },
	{ FSM_TOPIC_EXISTS, 409, "topic_exists", "topic already exists" },
	{ FSM_TOPIC_TWIN, 409, "topic_exists", "topic already exists: its name differs from %s only in case" },
	{ FSM_TOPIC_CHANGED, 409, "topic_changed", "topic changed since it was read; read it and try again" },
	{ FSM_PARENT_NOT_FOUND, 404, "topic_not_found", "the parent topic was not found" },
	{ FSM_PARENT_CHANGED, 409, "topic_changed", "the parent topic changed since it was read" },
	{ FSM_CHILD_NOT_FOUND, 404, "child_not_found", "the child topic was not found" },
	{ FSM_CHILD_CHANGED, 409, "topic_changed", "the child topic changed since it was read" },
	{ FSM_NOT_LINKED, 404, "child_not_found", "the topic is no child of this parent" },
	{ FSM_ROLE_CONFLICT, 409, "role_conflict", "the topics' roles do not allow this link" },
	{ FSM_ALREADY_ATTACHED, 409, "already_attached", "the child is attached already" },
	{ FSM_CHILD_LIMIT, 409, "child_limit", "the parent has as many children as a topic may have" },
	{ FSM_DELAY_TOO_LONG, 409, "delay_too_long", "retention_ms does not hold the delay of child %s and one hour" },
	{ FSM_RETENTION_FLOOR, 409, "delay_too_long",
	  "retention_ms of a topic with children on other clusters is 0 or at least 86400000" },
	{ FSM_STUB_IMMUTABLE, 409, "role_conflict",
	  "this topic stands for one on another cluster and cannot be altered" },
	{ FSM_SCHEMA_MISMATCH, 409, "schema_mismatch", "the topics' schemas differ" },
	{ FSM_SCHEMA_MANAGED, 409, "schema_managed", "the schema of a child is its parent's" },
	{ FSM_SCHEMA_EXISTS, 409, "schema_conflict", "the schema has this version already" },
	{ FSM_SCHEMA_GAP, 409, "schema_conflict", "the schema's versions follow each other" },
	{ FSM_SCHEMA_FULL, 409, "schema_full", "there is no room for another schema version" },
	{ FSM_ASSIGNMENT_NOT_FOUND, 404, "partition_not_found", "the partition has no owner" },
	{ FSM_PARTITION_RANGE, 404, "partition_not_found", "the topic has no such partition" },
	{ FSM_PARTITION_ASSIGNED, 409, "already_owner", "the partition has an owner already" },
	{ FSM_MOVE_CHANGED, 409, "move_changed", "the move changed since it was read" },
	{ FSM_MOVE_IN_FLIGHT, 409, "move_in_flight",
	  "the partition is moving already; say expected_target to send it elsewhere, or abort the move" },
	{ FSM_ALREADY_OWNER, 409, "already_owner", "the target owns the partition already" },
	{ FSM_REPLICATED, 409, "replicated", "the topic has copies of each partition: change its replicas instead" },
	{ FSM_NO_MOVE, 404, "no_move", "the partition is not moving" },
	{ FSM_MOVE_LIMIT, 409, "move_in_flight", "as many moves are under way as max_moves allows" },
	{ FSM_TARGET_NOT_ALIVE, 409, "target_not_alive", "%s is not alive; start it, or choose another target" },
	{ FSM_TARGET_DRAINING, 409, "target_draining", "%s is draining; choose another target" },
	{ FSM_TARGET_NOT_PLACEABLE, 409, "target_not_placeable", "%s takes no partitions; choose another target" },
	{ FSM_STALE_EPOCH, 409, "stale_epoch", "the partition has another leader epoch than this one" },
	{ FSM_NOT_REPLICATED, 409, "not_replicated", "the partition has one owner and no copies" },
	{ FSM_NOT_IN_SYNC, 409, "not_in_sync", "the member has no copy that is in sync" },
	{ FSM_LAST_IN_SYNC, 409, "not_in_sync", "the copy is the leader's, or the last that is in sync: it stays" },
	{ FSM_MEMBER_NOT_FOUND, 404, "member_not_found", "member not found" },
	{ FSM_MEMBER_REMOVED, 409, "member_removed",
	  "the member was removed; register it with fresh if it comes back empty" },
	{ FSM_MEMBER_IS_SERVER, 409, "member_is_server", "this id is a server's; a broker registers under another" },
	{ FSM_MEMBER_ALIVE, 409, "member_alive",
	  "the member is alive; only one that is dead can be given up: drain it (decommission), or wait" },
	{ FSM_STORE_CHANGED, 409, "store_changed",
	  "the member came back with another store while partitions are assigned to it; bring the old disk back, or "
	  "register with accept_data_loss: its single copies are then placed anew, empty" },
	{ FSM_SESSION_REPLACED, 409, "session_replaced",
	  "a newer process registered under this id; stop serving, this one's session is over" },
	{ FSM_USER_NOT_FOUND, 404, "user_not_found", "user not found" },
	{ FSM_USER_EXISTS, 409, "user_exists", "user already exists" },
	{ FSM_REMOTE_NOT_FOUND, 404, "remote_not_found", "remote not found" },
	{ FSM_REMOTE_EXISTS, 409, "remote_exists", "a remote of this name exists" },
	{ FSM_REMOTE_LIMIT, 409, "remote_limit", "there are 64 remotes, as many as there may be" },
	{ FSM_REMOTE_SALT_RACE, 409, "remote_changed", "two first remotes were created at once; try again" },
	{ FSM_REMOTE_KEY_EXHAUSTED, 412, "key_exhausted",
	  "as many passwords were sealed under this cluster secret as may be; rotate it" },
	{ FSM_REMOTE_CHANGED, 409, "remote_changed", "the remote changed since it was read (revision %s); try again" },
	{ FSM_REMOTE_IN_USE, 409, "remote_in_use", "child %s and maybe others use the remote; detach them, or force" },
	{ FSM_REMOTE_GONE, 409, "remote_not_found", "the remote does not exist" },
	{ FSM_REMOTE_CHILD_STALE, 409, "topic_changed", "the child was attached anew since it was read; try again" },
	{ FSM_REMOTE_CHILD_LIMIT, 409, "child_limit",
	  "the parent has 16 children on other clusters, the most there may be" },
	{ FSM_REMOTE_TARGET_LINKED, 409, "target_linked", "child %s goes to that topic of that cluster already" },
	{ FSM_ROOT_PROTECTED, 403, "root_protected", "the root user cannot be changed this way" },
};

void svc_fail_refusal(struct svc_answer *a, int refusal, const char *hint, raft_index index)
{
	for (size_t i = 0; i < sizeof(refusal_rows) / sizeof(refusal_rows[0]); i++) {
		const struct refusal_row *r = &refusal_rows[i];
		const char *mark = strstr(r->text, "%s");

		if (r->refusal != refusal)
			continue;
		if (mark)
			svc_fail_write(a, r->status, r->code, "none", index, "%.*s%s%s", (int)(mark - r->text), r->text,
			               hint && hint[0] ? hint : "another", mark + 2);
		else
			svc_fail_write(a, r->status, r->code, "none", index, "%s", r->text);
		return;
	}
	svc_fail_write(a, 500, "refused", "none", index, "the state machine refused the entry: %s",
	               fsm_refusal_word(refusal));
}
