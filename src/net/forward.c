#include "net/forward.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "base/mem.h"
#include "net/dial.h"

#define ID_SIZE 8
#define MISFIT_EVERY_MS 60000

struct net_forward {
	struct net_forward_hooks hooks;
	struct net_dialler *dialler;
	struct net_dial *dial; /* NULL: no target */
	struct log_limit misfit;
};

static void on_dial_up(void *arg, struct net_dial *d, const struct net_hello *hello)
{
	struct net_forward *f = arg;
	log_debug("forward.up", "peer=%s addr=%s", hello->name, net_dial_addr(d));
	f->hooks.on_up(f->hooks.arg);
}

static void on_dial_failed(void *arg, struct net_dial *d, bool is_news, bool refused, const struct err *why)
{
	struct net_forward *f = arg;
	if (net_is_misfit(why) && log_allow(&f->misfit, MISFIT_EVERY_MS))
		log_warn("forward.refused", "addr=%s reason=\"%s\"", net_dial_addr(d), why->msg);
	if (!is_news)
		return;
	log_debug("forward.down", "addr=%s refused=%d reason=\"%s\"", net_dial_addr(d), refused, why->msg);
	f->hooks.on_down(f->hooks.arg, refused);
}

static void on_dial_frame(void *arg, struct net_dial *d, uint16_t type, struct slab *slab, const uint8_t *body,
                          size_t len)
{
	struct net_forward *f = arg;
	uint64_t id;
	const uint8_t *rest;
	size_t rest_len;
	if (type == NET_FORWARD_ANSWER && net_forward_parse(body, len, &id, &rest, &rest_len))
		f->hooks.on_answer(f->hooks.arg, id, slab, rest, rest_len);
	else
		log_debug("forward.unasked", "addr=%s type=%u bytes=%zu", net_dial_addr(d), type, len);
}

static bool send_with_id(struct net_link *l, enum net_forward_type type, uint64_t id, const struct net_piece *pieces,
                         size_t count)
{
	assert(count <= NET_FORWARD_PIECES_MAX);
	uint8_t head[ID_SIZE];
	put_le64(head, id);
	struct net_piece all[NET_FORWARD_PIECES_MAX + 1] = { { .p = head, .len = sizeof(head) } };
	for (size_t i = 0; i < count; i++)
		all[i + 1] = pieces[i];
	return net_link_send(l, (uint16_t)type, all, count + 1);
}

struct net_forward *net_forward_new(const struct net_forward_options *o)
{
	struct net_forward *f = mem_zalloc(sizeof(*f));
	f->hooks = o->hooks;
	const struct net_identity id = { .self = o->self, .secrets = o->secrets, .tls = o->tls };
	f->dialler = net_dialler_new(o->loop, o->pool, &id);
	return f;
}

void net_forward_free(struct net_forward *f)
{
	if (!f)
		return;
	net_dial_free(f->dial);
	net_dialler_free(f->dialler);
	mem_free(f);
}

void net_forward_set_self(struct net_forward *f, const struct net_hello *self)
{
	net_dialler_set_self(f->dialler, self);
}

void net_forward_target(struct net_forward *f, const char *addr)
{
	if (strcmp(f->dial ? net_dial_addr(f->dial) : "", addr) == 0)
		return;
	net_dial_free(f->dial);
	f->dial = NULL;
	if (!addr[0])
		return;
	const struct net_dial_hooks hooks = {
		.arg = f,
		.on_up = on_dial_up,
		.on_failed = on_dial_failed,
		.on_frame = on_dial_frame,
	};
	struct err e;
	if (net_dial_new(f->dialler, addr, NET_PURPOSE_FORWARD, &hooks, &f->dial, &e))
		log_error("forward.address", "reason=\"%s\"", e.msg);
}

bool net_forward_is_up(const struct net_forward *f)
{
	return f->dial && net_dial_link(f->dial);
}

bool net_forward_send(struct net_forward *f, uint64_t id, const struct net_piece *pieces, size_t count)
{
	return net_forward_is_up(f) && send_with_id(net_dial_link(f->dial), NET_FORWARD_REQUEST, id, pieces, count);
}

bool net_forward_parse(const uint8_t *body, size_t len, uint64_t *id, const uint8_t **rest, size_t *rest_len)
{
	if (len < ID_SIZE)
		return false;
	*id = get_le64(body);
	*rest = body + ID_SIZE;
	*rest_len = len - ID_SIZE;
	return true;
}

bool net_forward_answer(struct net_link *l, uint64_t id, const struct net_piece *pieces, size_t count)
{
	return send_with_id(l, NET_FORWARD_ANSWER, id, pieces, count);
}
