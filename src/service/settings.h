/* service/settings.h - the cluster's settings as they count on this node. Thread: any. */
#ifndef SERVICE_SETTINGS_H
#define SERVICE_SETTINGS_H

#include "fsm/settings.h"
#include "service/service_internal.h"

/* Patched, else this node's flag. */
int64_t svc_setting(const struct svc_shared *sh, enum fsm_setting s);

#endif /* SERVICE_SETTINGS_H */
