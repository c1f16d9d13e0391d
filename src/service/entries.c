/* Which entries a planned change becomes.
 *
 * The newer types carry what the change was checked against, and the state machine refuses them when that is past.
 * While a server does not know them, the older ones are proposed that every release applies: then the checks on the
 * leader are all the protection there is, and an entry of several commands still happens whole or not at all. */
#include "service/write.h"

void svc_add_topic_create(struct svc_task *t, struct entry_builder *b, const struct cmd_topic_create_with *c)
{
	if (svc_write_may_use(t, CMD_TOPIC_CREATE_WITH)) {
		entry_builder_add(b, CMD_TOPIC_CREATE_WITH, c);
		return;
	}
	const struct cmd_schema_put schema = { .topic = c->topic.name, .version = 1, .schema = c->schema };

	entry_builder_add(b, CMD_TOPIC_CREATE, &c->topic);
	if (c->schema.p)
		entry_builder_add(b, CMD_SCHEMA_PUT, &schema);
	if (c->link) {
		const struct cmd_child_attach link = { .parent = c->link->parent,
			                               .child = c->topic.name,
			                               .epoch = c->link->epoch,
			                               .delay_ms = c->link->delay_ms,
			                               .offsets = c->link->offsets };
		entry_builder_add(b, CMD_CHILD_ATTACH, &link);
	}
}

void svc_add_topic_update(struct svc_task *t, struct entry_builder *b, const struct cmd_topic_update_if *c)
{
	if (svc_write_may_use(t, CMD_TOPIC_UPDATE_IF))
		entry_builder_add(b, CMD_TOPIC_UPDATE_IF, c);
	else
		entry_builder_add(b, CMD_TOPIC_UPDATE, &c->topic);
}

void svc_add_topic_delete(struct svc_task *t, struct entry_builder *b, const struct cmd_topic_delete_if *c)
{
	const struct cmd_name older = { c->name };

	if (svc_write_may_use(t, CMD_TOPIC_DELETE_IF))
		entry_builder_add(b, CMD_TOPIC_DELETE_IF, c);
	else
		entry_builder_add(b, CMD_TOPIC_DELETE, &older);
}

void svc_add_schema(struct svc_task *t, struct entry_builder *b, const struct cmd_schema_put_if *c)
{
	const struct cmd_schema_put older = { c->topic, c->version, c->schema };

	if (svc_write_may_use(t, CMD_SCHEMA_PUT_IF))
		entry_builder_add(b, CMD_SCHEMA_PUT_IF, c);
	else
		entry_builder_add(b, CMD_SCHEMA_PUT, &older);
}

void svc_add_attach(struct svc_task *t, struct entry_builder *b, const struct cmd_child_attach_if *c)
{
	if (svc_write_may_use(t, CMD_CHILD_ATTACH_IF))
		entry_builder_add(b, CMD_CHILD_ATTACH_IF, c);
	else
		entry_builder_add(b, CMD_CHILD_ATTACH, &c->link);
}

void svc_add_detach(struct svc_task *t, struct entry_builder *b, const struct cmd_child_detach_if *c)
{
	const struct cmd_child_detach older = { c->parent, c->child };

	if (svc_write_may_use(t, CMD_CHILD_DETACH_IF))
		entry_builder_add(b, CMD_CHILD_DETACH_IF, c);
	else
		entry_builder_add(b, CMD_CHILD_DETACH, &older);
}
