/* Any bytes as committed entries. Whatever they hold: each entry is applied, refused or stops the node as unknown;
 * judging says beforehand what applying does; and at the end everything derived fits the records.
 *
 * An input is a list of steps: u8 kind, u16 length (little-endian), bytes.
 *   kind & 3 = 0  the bytes are one command: u8 type, payload
 *              1  one more command, joined to the step before
 *              2  the bytes are a whole payload of an entry
 *              3  a no-op, and what is pending is applied as a batch
 *   kind & 4      wait for the next step and be applied together with it
 */
#include <assert.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "fsm/fsm.h"
#include "fsm/reader.h"
#include "model/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PENDING_MAX 8

struct run {
	struct fsm *f;
	struct fsm_reader reader;
	struct buf envelopes[PENDING_MAX];
	struct entry pending[PENDING_MAX];
	size_t count;
	raft_index index;
	bool stopped; /* by an entry that this build does not know */
};

static void begin_envelope(struct buf *b)
{
	static const uint8_t header[14] = { ENTRY_VERSION, 0, 14, 0 };
	buf_clear(b);
	buf_put(b, header, sizeof(header));
}

static void add_command(struct buf *b, const uint8_t *data, size_t len)
{
	uint8_t head[ENTRY_COMMAND_OVERHEAD];
	head[0] = len ? data[0] : 0;
	put_le32(head + 1, (uint32_t)(len ? len - 1 : 0));
	buf_put(b, head, sizeof(head));
	if (len > 1)
		buf_put(b, data + 1, len - 1);
}

/* Only a single command in the state it will meet can be judged beforehand. -1: not one. */
static int judge(struct run *r, const struct entry *e)
{
	alignas(16) uint8_t command[COMMAND_PAYLOAD_SIZE];
	const uint8_t *at = NULL;
	struct entry_command c;
	struct entry_view v;
	struct arena a = { 0 };
	struct store_txn *txn;
	struct fsm_hint hint;
	struct err err;
	int rc = -1;
	if (entry_decode(e->data, e->len, &v, NULL) == 0 && v.count == 1 && entry_next(&v, &at, &c) &&
	    entry_command_read(&c, &a, command, NULL) == 0) {
		int ok = fsm_read(&r->reader, &txn, &err);
		assert(ok == 0);
		rc = fsm_judge(txn, c.type, command, v.header.time_ms, &a, &hint, &err);
		assert(rc >= 0);
		fsm_read_end(&r->reader);
	}
	arena_fini(&a);
	return rc;
}

static void apply_pending(struct run *r)
{
	struct fsm_result results[PENDING_MAX];
	struct err e;
	if (r->count == 0)
		return;
	const int judged = r->count == 1 && r->pending[0].kind == ENTRY_COMMAND ? judge(r, &r->pending[0]) : -1;
	const int rc = fsm_apply(r->f, r->pending, r->count, results, &e);
	if (rc) {
		assert(rc == ERR_VERSION && e.code == rc);
		assert(fsm_applied_index(r->f) < r->pending[r->count - 1].index);
		r->stopped = true;
	} else {
		assert(fsm_applied_index(r->f) == r->pending[r->count - 1].index);
		assert(judged < 0 || judged == results[0].refusal);
	}
	r->count = 0;
}

static void add_entry(struct run *r, uint8_t kind)
{
	struct buf *b = &r->envelopes[r->count];
	r->pending[r->count++] = (struct entry){
		.index = ++r->index,
		.term = 1,
		.kind = kind,
		.len = kind == ENTRY_COMMAND ? (uint32_t)b->len : 0,
		.data = kind == ENTRY_COMMAND ? b->data : NULL,
	};
}

static void step(struct run *r, uint8_t kind, const uint8_t *data, size_t len)
{
	if (kind % 4 == 1 && r->count > 0 && r->pending[r->count - 1].kind == ENTRY_COMMAND) {
		struct buf *b = &r->envelopes[r->count - 1];
		add_command(b, data, len);
		r->pending[r->count - 1].data = b->data;
		r->pending[r->count - 1].len = (uint32_t)b->len;
		return;
	}
	/* a single entry is applied by itself unless told to wait, so that it can be judged first */
	if (r->count == PENDING_MAX || !(kind & 4))
		apply_pending(r);
	if (r->stopped)
		return;
	struct buf *b = &r->envelopes[r->count];
	switch (kind % 4) {
	case 0:
	case 1:
		begin_envelope(b);
		add_command(b, data, len);
		add_entry(r, ENTRY_COMMAND);
		return;
	case 2:
		buf_clear(b);
		buf_put(b, data, len);
		add_entry(r, ENTRY_COMMAND);
		return;
	default: add_entry(r, ENTRY_NOOP); apply_pending(r);
	}
}

static void open_run(struct run *r)
{
	char path[64];
	const char *dir = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(path, sizeof(path), "%s/veena-fuzz-fsm-%ld", dir, (long)getpid());
	struct fsm_options o = { .store = { .scratch = path, .map_bytes = 1u << 28 }, .changes_bytes = 1 };
	struct err e;
	int rc = fsm_open(&o, &r->f, &e);
	if (rc) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	fsm_reader_init(&r->reader, r->f);
}

static void check_and_close(struct run *r)
{
	struct store_txn *txn;
	struct err e;
	int rc = fsm_read(&r->reader, &txn, &e);
	assert(rc == 0);
	rc = fsm_check(txn, &e);
	if (rc) {
		fprintf(stderr, "%s\n", e.msg);
		abort();
	}
	fsm_reader_fini(&r->reader);
	rc = fsm_close(r->f, false, &e);
	assert(rc == 0);
	for (size_t i = 0; i < PENDING_MAX; i++)
		buf_fini(&r->envelopes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct run r = { 0 };
	open_run(&r);
	while (size >= 3 && !r.stopped) {
		size_t len = get_le16(data + 1);
		if (len > size - 3)
			len = size - 3;
		step(&r, data[0], data + 3, len);
		data += 3 + len;
		size -= 3 + len;
	}
	if (!r.stopped)
		apply_pending(&r);
	check_and_close(&r);
	return 0;
}
