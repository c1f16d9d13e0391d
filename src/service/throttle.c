#include "service/throttle.h"

#include <string.h>

#include "fsm/changes.h"

static uint64_t key_of(char kind, struct str a, struct str b)
{
	char text[160];
	size_t n = 0;

	text[n++] = kind;
	memcpy(text + n, a.p, a.len);
	n += a.len;
	text[n++] = '\0';
	memcpy(text + n, b.p, b.len);
	n += b.len;
	return fsm_hash((struct str){ text, n }) | 1;
}

void throttle_claim_init(struct throttle_claim *c, const char *peer, struct str name)
{
	const char *colon = strrchr(peer, ':');
	struct str address = { peer, colon ? (size_t)(colon - peer) : strlen(peer) };
	const struct str nothing = { "", 0 };

	if (address.len > 64)
		address.len = 64;
	if (name.len > 64)
		name.len = 64;
	*c = (struct throttle_claim){
		.pair = key_of('p', address, name),
		.address = key_of('a', address, nothing),
		.name = key_of('n', name, nothing),
	};
}

/* Of the four places of its set its own, else the one that is missed least. */
static struct throttle_bucket *bucket_of(struct throttle *t, uint64_t key)
{
	struct throttle_bucket *set = t->table[key >> 8 & (THROTTLE_SETS - 1)], *least = &set[0];

	for (int i = 0; i < THROTTLE_WAYS; i++) {
		if (set[i].key == key)
			return &set[i];
		if (set[i].full_ms < least->full_ms)
			least = &set[i];
	}
	*least = (struct throttle_bucket){ .key = key };
	return least;
}

static uint64_t wait_ms(const struct throttle_bucket *b, uint64_t burst, uint64_t each_ms, uint64_t now_ms)
{
	const uint64_t taken_ms = b->full_ms > now_ms ? b->full_ms - now_ms : 0;
	const uint64_t room_ms = (burst - 1) * each_ms;

	return taken_ms > room_ms ? taken_ms - room_ms : 0;
}

static void take(struct throttle_bucket *b, uint64_t each_ms, uint64_t now_ms)
{
	b->full_ms = (b->full_ms > now_ms ? b->full_ms : now_ms) + each_ms;
}

static void give(struct throttle_bucket *b, uint64_t each_ms, uint64_t now_ms)
{
	if (b->full_ms > now_ms)
		b->full_ms -= each_ms;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

uint32_t throttle_take(struct throttle *t, struct throttle_claim *c, uint64_t now_ms)
{
	c->took_node = bucket_of(t, c->name)->full_ms > now_ms;
	uint64_t wait = wait_ms(bucket_of(t, c->pair), THROTTLE_PAIR_BURST, THROTTLE_PAIR_MS, now_ms);

	wait = max_of(wait, wait_ms(bucket_of(t, c->address), THROTTLE_ADDRESS_BURST, THROTTLE_ADDRESS_MS, now_ms));
	if (c->took_node)
		wait = max_of(wait, wait_ms(&t->node, THROTTLE_NODE_BURST, THROTTLE_NODE_MS, now_ms));
	if (wait > 0)
		return (uint32_t)((wait + 999) / 1000);
	take(bucket_of(t, c->pair), THROTTLE_PAIR_MS, now_ms);
	take(bucket_of(t, c->address), THROTTLE_ADDRESS_MS, now_ms);
	if (c->took_node)
		take(&t->node, THROTTLE_NODE_MS, now_ms);
	return 0;
}

void throttle_give_back(struct throttle *t, const struct throttle_claim *c, uint64_t now_ms)
{
	give(bucket_of(t, c->pair), THROTTLE_PAIR_MS, now_ms);
	give(bucket_of(t, c->address), THROTTLE_ADDRESS_MS, now_ms);
	if (c->took_node)
		give(&t->node, THROTTLE_NODE_MS, now_ms);
}

void throttle_failed(struct throttle *t, const struct throttle_claim *c, uint64_t now_ms)
{
	bucket_of(t, c->name)->full_ms = now_ms + THROTTLE_RECENT_MS;
}
