#include "service/hooks.h"

#include "model/commands.h"

static struct svc_control_hooks control; /* set before the http threads start */

void svc_set_control(const struct svc_control_hooks *hooks)
{
	control = hooks ? *hooks : (struct svc_control_hooks){ 0 };
}

size_t svc_control_faults(struct svc_policy_fault out[SVC_POLICY_FAULTS_MAX])
{
	return control.faults ? control.faults(control.arg, out) : 0;
}

void svc_control_put_metrics(struct buf *out)
{
	if (control.put_metrics)
		control.put_metrics(control.arg, out);
}

void svc_control_placed(enum svc_intent_outcome outcome, size_t count)
{
	if (control.placed && count > 0)
		control.placed(control.arg, outcome, count);
}

void svc_place_add(struct entry_builder *b, unsigned type, const struct topic *t, uint32_t partition,
                   const struct str_list *owners)
{
	const struct cmd_replicas_place copies = { t->name, t->id, partition, *owners };
	const struct cmd_partition_place single = { t->name, partition, owners->items[0], t->id };
	const struct assignment older = { t->name, partition, owners->items[0], { "", 0 } };
	const void *command = &single;

	if (type == CMD_REPLICAS_PLACE)
		command = &copies;
	else if (type == CMD_PARTITION_ASSIGN)
		command = &older;
	entry_builder_add(b, type, command);
}
