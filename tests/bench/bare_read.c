/* tests/bench/bare_read.c - the bound of local reads: libev, LMDB, and nothing else.
 *
 *   bare_read PORT DIR COUNT VALUE_FILE
 *
 * Serves GET /v1/topics/bench-<0..COUNT-1> from an LMDB file in DIR, where each name holds the bytes of VALUE_FILE.
 * One thread, one read transaction for each turn of the loop: what is left of veenad's hot read path when parsing,
 * checking, joining and routing are taken away.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include <ev.h>
#include <lmdb.h>

#include "base/mem.h"
#include "tests/bench/bare.h"

#define PATH_PREFIX "/v1/topics/"

struct responder {
	MDB_env *env;
	MDB_dbi dbi;
	MDB_txn *txn; /* reset before the loop blocks, renewed at a turn's first read */
	bool reading;
	struct ev_loop *loop;
};

struct conn {
	ev_io io; /* first: what libev hands back is the connection */
	struct responder *r;
	struct buf in, out;
};

static void check(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, mdb_strerror(rc));
	exit(1);
}

static void fill(struct responder *r, const char *dir, unsigned count, const struct buf *value)
{
	MDB_val v = { value->len, value->data };
	MDB_txn *txn;

	check(mdb_env_create(&r->env), "mdb_env_create");
	check(mdb_env_set_mapsize(r->env, (size_t)1 << 30), "mdb_env_set_mapsize");
	check(mdb_env_open(r->env, dir, MDB_NOSYNC | MDB_NOTLS, 0600), dir);
	check(mdb_txn_begin(r->env, NULL, 0, &txn), "mdb_txn_begin");
	check(mdb_dbi_open(txn, NULL, 0, &r->dbi), "mdb_dbi_open");
	for (unsigned i = 0; i < count; i++) {
		char name[32];
		MDB_val k = { 0, name };

		k.mv_size = (size_t)snprintf(name, sizeof(name), "bench-%u", i);
		check(mdb_put(txn, r->dbi, &k, &v, 0), "mdb_put");
	}
	check(mdb_txn_commit(txn), "mdb_txn_commit");
	check(mdb_txn_begin(r->env, NULL, MDB_RDONLY, &r->txn), "mdb_txn_begin");
	mdb_txn_reset(r->txn);
}

static struct str look_up(struct responder *r, struct str target)
{
	MDB_val k, v;

	if (target.len <= sizeof(PATH_PREFIX) - 1)
		return STR_LIT("{}");
	if (!r->reading)
		check(mdb_txn_renew(r->txn), "mdb_txn_renew");
	r->reading = true;
	k.mv_data = (void *)(uintptr_t)(target.p + sizeof(PATH_PREFIX) - 1);
	k.mv_size = target.len - (sizeof(PATH_PREFIX) - 1);
	if (mdb_get(r->txn, r->dbi, &k, &v) != 0)
		return STR_LIT("{}");
	return (struct str){ v.mv_data, v.mv_size };
}

static void close_conn(struct conn *c)
{
	ev_io_stop(c->r->loop, &c->io);
	close(c->io.fd);
	buf_fini(&c->in);
	buf_fini(&c->out);
	mem_free(c);
}

/* Waits for what is missing: room in the socket while something is unsent, else the next request. */
static void watch(struct conn *c, int events)
{
	if (c->io.events == events)
		return;
	ev_io_stop(c->r->loop, &c->io);
	ev_io_set(&c->io, c->io.fd, events);
	ev_io_start(c->r->loop, &c->io);
}

static bool flush(struct conn *c)
{
	const ssize_t n = write(c->io.fd, c->out.data, c->out.len);

	if (n < 0 && errno != EAGAIN)
		return false;
	if (n > 0)
		buf_consume(&c->out, (size_t)n);
	watch(c, c->out.len > 0 ? EV_WRITE : EV_READ);
	return true;
}

static void on_conn(struct ev_loop *loop, ev_io *w, int events)
{
	struct conn *c = (struct conn *)w;
	size_t used = 0, len;
	struct str target;
	ssize_t n;

	(void)loop;
	if (events & EV_READ) {
		n = read(w->fd, buf_reserve(&c->in, 4096), 4096);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			close_conn(c);
			return;
		}
		if (n > 0)
			buf_advance(&c->in, (size_t)n);
		while ((len = bare_request(c->in.data + used, c->in.len - used, &target)) > 0) {
			bare_answer(&c->out, look_up(c->r, target));
			used += len;
		}
		buf_consume(&c->in, used);
	}
	if (c->out.len > 0 && !flush(c))
		close_conn(c);
}

static void on_accept(struct ev_loop *loop, ev_io *w, int events)
{
	const int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct conn *c;

	(void)events;
	if (fd < 0)
		return;
	bare_no_delay(fd);
	c = mem_zalloc(sizeof(*c));
	c->r = w->data;
	ev_io_init(&c->io, on_conn, fd, EV_READ);
	ev_io_start(loop, &c->io);
}

static void on_prepare(struct ev_loop *loop, ev_prepare *w, int events)
{
	struct responder *r = w->data;

	(void)loop;
	(void)events;
	if (r->reading)
		mdb_txn_reset(r->txn);
	r->reading = false;
}

int main(int argc, char **argv)
{
	struct responder r = { 0 };
	ev_prepare prepare;
	ev_io listener;
	struct buf value;

	if (argc != 5) {
		fprintf(stderr, "usage: bare_read PORT DIR COUNT VALUE_FILE\n");
		return 2;
	}
	alarm(BARE_LIFETIME_S);
	value = bare_read_file(argv[4]);
	fill(&r, argv[2], (unsigned)strtoul(argv[3], NULL, 10), &value);
	buf_fini(&value);

	r.loop = ev_default_loop(0);
	ev_prepare_init(&prepare, on_prepare);
	prepare.data = &r;
	ev_prepare_start(r.loop, &prepare);
	ev_io_init(&listener, on_accept, bare_listen(argv[1]), EV_READ);
	listener.data = &r;
	ev_io_start(r.loop, &listener);
	ev_run(r.loop, 0);
	return 0;
}
