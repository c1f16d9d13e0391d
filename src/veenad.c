/* veenad - one node of a veena cluster.
 *
 * Boot is a checklist; each step says why it stands where it stands. Whatever refuses ends in one line at error and the
 * exit status of the contract: 1 failed, 2 wrong settings, 3 refused to protect data, 4 stopped applying.
 */
#include <ev.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/embed.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/slab.h"
#include "config.h"
#include "control/control.h"
#include "fsm/settings.h"
#include "http/server.h"
#include "net/addr.h"
#include "net/peers.h"
#include "node/node.h"
#include "threads.h"

#define LOOK_MS 100           /* how often the main thread looks whether the node still applies */
#define DRAIN_LOOK_MS 10      /* likewise, whether leadership is handed over */
#define STOPPED_GRACE_MS 5000 /* a node that stopped applying says why in /v1/status for so long before it ends */

enum exit_status { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_SETTINGS = 2, EXIT_DATA = 3, EXIT_STOPPED = 4 };

struct daemon {
	struct config config;
	sigset_t signals; /* TERM, INT, HUP: taken by the main thread alone */
	int http_fd, cluster_fd;
	struct pool *pool;
	struct node *node;
	struct ev_loop *loop; /* of the consensus thread */
	struct net_peers *net;
	struct http_server *http;
	struct control *control;
	struct threads *threads;
};

/* ---- ending badly ---- */

static enum exit_status refuse(enum exit_status status, const struct err *e)
{
	char quoted[700];
	log_error("start.refused", "exit=%d reason=\"%s\"", (int)status,
	          log_quote(quoted, sizeof(quoted), e->msg, strlen(e->msg)));
	return status;
}

static enum exit_status status_of_port(int code)
{
	return code == ERR_INVALID ? EXIT_SETTINGS : EXIT_FAILED;
}

static enum exit_status status_of_open(int code)
{
	switch (code) {
	case ERR_INVALID: return EXIT_SETTINGS;
	case ERR_BUSY:
	case ERR_IDENTITY:
	case ERR_CORRUPT:
	case ERR_VERSION: return EXIT_DATA;
	default: return EXIT_FAILED;
	}
}

/* ---- the steps ---- */

/* Signals are blocked before the first thread is made, so that all inherit it and only the main thread takes them. */
static void take_signals(struct daemon *d)
{
	sigemptyset(&d->signals);
	sigaddset(&d->signals, SIGTERM);
	sigaddset(&d->signals, SIGINT);
	sigaddset(&d->signals, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &d->signals, NULL); /* fails only on a wrong first argument */
	(void)signal(SIGPIPE, SIG_IGN);                      /* a closed socket is an error of its write */
}

/* Clients get what is left after the links, the log and the database; so it should be much. */
static void raise_limits(void)
{
	struct rlimit lim;
	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return;
	const rlim_t had = lim.rlim_cur;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &lim) < 0)
		lim.rlim_cur = had;
	log_debug("start.limits", "open_files=%" PRIu64 " http_connections=%zu", (uint64_t)lim.rlim_cur,
	          http_default_connections());
}

static int open_node(struct daemon *d, struct err *e)
{
	const struct config *c = &d->config;
	const struct node_options o = {
		.id = c->id,
		.data_dir = c->data,
		.http_addr = c->advertise_http,
		.cluster_addr = c->advertise_cluster,
		.peers = c->peers,
		.peer_count = c->peer_count,
		.initial_members = c->initial_members.items,
		.initial_member_count = c->initial_members.count,
		.join = c->join.items,
		.join_count = c->join.count,
		.learner = c->learner,
		.bootstrap = c->bootstrap,
		.own_partitions = c->own_partitions,
		.tags_json = c->tags_json,
		.build = embedded_version,
		.max_entry_type = (uint32_t)c->max_entry_type,
		.heartbeat_ms = (uint32_t)c->heartbeat_ms,
		.election_ms = (uint32_t)c->election_ms,
		.member_heartbeat_ms = (uint32_t)c->member_heartbeat_ms,
		.snapshot_entries = c->snapshot_entries,
		.snapshot_interval_s = (uint32_t)c->snapshot_interval_s,
		.snapshots_kept = (uint32_t)c->snapshots_kept,
		.map_gib = (uint32_t)c->map_gib,
		.sync_fsm = c->sync == 1,
		.room_reserve = NODE_ROOM_RESERVE,
		.scrub = true,
		.pool = d->pool,
	};
	return node_open(&o, &d->node, e);
}

static void on_forward(void *arg, const struct net_hello *from, struct net_stream stream)
{
	http_server_give_link(arg, from, stream);
}

static int open_http(struct daemon *d, struct err *e)
{
	const struct config *c = &d->config;
	const int64_t flags[FSM_SETTING_COUNT] = {
		[FSM_SETTING_MAX_MOVES] = (int64_t)c->max_moves,
		[FSM_SETTING_DEAD_AFTER_S] = (int64_t)c->dead_after_s,
		[FSM_SETTING_FAILOVER_AFTER_S] = fsm_settings[FSM_SETTING_FAILOVER_AFTER_S].value,
		[FSM_SETTING_MEMBER_HEARTBEAT_MS] = (int64_t)c->member_heartbeat_ms,
		[FSM_SETTING_MIN_VOTERS] = (int64_t)c->min_voters,
		[FSM_SETTING_REPLICA_LAG] = fsm_settings[FSM_SETTING_REPLICA_LAG].value,
	};
	const struct http_options o = {
		.listen_fd = d->http_fd,
		.node = d->node,
		.pool = d->pool,
		.node_id = c->id,
		.data_dir = c->data,
		.build = embedded_version,
		.max_entry_type = (uint32_t)c->max_entry_type,
		.flags = flags,
		.auth = c->auth,
		.admin_password = c->admin_password[0] ? c->admin_password : NULL,
		.secrets = config_secrets(c),
		.link_tls = c->cluster_tls,
		.tls = c->tls,
		.thread_count = c->http_threads,
		.connections_max = c->http_connections,
		.request_bytes_max = (size_t)c->http_request_mib << 20,
		.request_ms = (uint32_t)c->http_request_ms,
		.write_ms = (uint32_t)c->http_answer_ms,
		.idle_ms = (uint32_t)c->http_idle_ms,
	};
	return http_server_new(&o, &d->http, e);
}

static void open_control(struct daemon *d)
{
	const struct config *c = &d->config;
	const struct control_options o = {
		.node = d->node,
		.policy_dir = c->policy_dir,
		.max_moves = (uint32_t)c->max_moves,
		.dead_after_s = (uint32_t)c->dead_after_s,
		.member_heartbeat_ms = (uint32_t)c->member_heartbeat_ms,
		.min_voters = (uint32_t)c->min_voters,
	};
	d->control = control_new(&o);
}

static void open_net(struct daemon *d)
{
	struct net_options o = {
		.loop = d->loop,
		.pool = d->pool,
		.listen_fd = d->cluster_fd,
		.secrets = config_secrets(&d->config),
		.tls = d->config.cluster_tls,
		.hooks = node_net_hooks(d->node),
	};
	o.hooks.on_forward = on_forward;
	o.hooks.forward_arg = d->http;
	node_self_hello(d->node, &o.self);
	d->net = net_peers_new(&o);
	d->cluster_fd = -1; /* taken */
	node_attach_net(d->node, d->net);
}

/* What works and will surprise later. */
static void tell_trust(const struct config *c)
{
	struct net_addr own;
	if (c->auth && !c->tls && config_is_exposed(c->http))
		log_warn("start.plain",
		         "http=%s note=\"passwords cross the network unencrypted; give --tls-cert and "
		         "--tls-key, or put TLS in front\"",
		         c->http);
	if (c->cluster_tls && net_addr_parse(c->advertise_cluster, &own, NULL) == 0 &&
	    !net_tls_names_self(c->cluster_tls, c->id, own.host))
		log_warn("start.certificate",
		         "file=%s note=\"it names neither %s nor %s, and other nodes will refuse it\"",
		         c->cluster_tls_cert, c->id, own.host);
}

static enum exit_status start(struct daemon *d)
{
	const struct config *c = &d->config;
	struct err e;
	int rc;

	/* Signals first: no thread may exist that would take one. Then the log's thread, so that nothing below ever
	 * waits for stderr. */
	take_signals(d);
	log_set_node(c->id);
	log_start();
	if (c->dev)
		log_info("start.dev", "id=%s data=%s http=%s note=\"one node, no auth, loopback only\"", c->id, c->data,
		         c->http);
	/* Before anything counts descriptors. */
	raise_limits();
	/* Whatever this process makes is its owner's alone. */
	(void)umask(077);

	/* Both ports before the data directory is touched: a start that fails on one leaves every file as it was. From
	 * here on clients and peers wait in the backlog instead of being refused. */
	rc = net_listen(c->http, &d->http_fd, &e);
	if (!rc)
		rc = net_listen(c->cluster, &d->cluster_fd, &e);
	if (rc)
		return refuse(status_of_port(rc), &e);

	/* The lock, whose directory this is, the log and the database. The node decides here whether and how it may
	 * start; afterwards files have changed. */
	d->pool = pool_new();
	rc = open_node(d, &e);
	if (rc)
		return refuse(status_of_open(rc), &e);

	/* Everything that wants to be told by the node before its first turn: forwarded links need the server, so it
	 * comes before the net. */
	rc = open_http(d, &e);
	if (rc)
		return refuse(EXIT_FAILED, &e);
	open_control(d);
	d->loop = ev_loop_new(EVBACKEND_POLL | EVFLAG_NOENV); /* as net/accept.h asks */
	if (!d->loop) {
		err_set(&e, ERR_SYSTEM, "cannot make an event loop");
		return refuse(EXIT_FAILED, &e);
	}
	open_net(d);

	/* Last, the threads: all they touch is there. */
	const struct threads_options o = {
		.consensus_loop = d->loop,
		.node = d->node,
		.pool = d->pool,
		.http = d->http,
		.http_count = c->http_threads,
		.control = d->control,
	};
	d->threads = threads_new(&o);
	rc = threads_start(d->threads, &e);
	if (rc)
		return refuse(EXIT_FAILED, &e);
	log_info("start.running", "build=%s http=%s cluster=%s data=%s", embedded_version, c->http, c->cluster,
	         c->data);
	tell_trust(c);
	return EXIT_OK;
}

/* ---- running ---- */

/* The next signal, or 0 after `ms`. */
static int wait_signal(const struct daemon *d, uint64_t ms)
{
	const struct timespec limit = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };
	const int sig = sigtimedwait(&d->signals, NULL, &limit);
	return sig < 0 ? 0 : sig;
}

static bool has_stopped(const struct daemon *d, uint64_t *seen)
{
	const uint64_t version = node_status_version(d->node);
	if (version == *seen)
		return false;
	*seen = version;
	struct node_status s;
	node_get_status(d->node, &s);
	return s.stopped[0] != '\0';
}

/* Connections keep what they began with; what cannot be read leaves everything as it was. */
static void reload_certificates(const char *what, struct net_tls *tls)
{
	struct err e;
	if (!tls)
		return;
	if (net_tls_reload(tls, &e))
		log_error("reload.certificate", "of=%s error=\"%s\" note=\"the one loaded before stays\"", what, e.msg);
	else
		log_info("reload.certificate", "of=%s", what);
}

/* Until somebody asks for an end, or the node cannot go on. */
static enum exit_status run(const struct daemon *d)
{
	uint64_t seen = UINT64_MAX, stopped_ms = 0;
	for (;;) {
		const int sig = wait_signal(d, LOOK_MS);
		if (sig == SIGHUP) {
			/* Policy files are looked at every second by whoever runs them; now is sooner. */
			log_info("reload", "signal=HUP");
			wake_signal(control_wake(d->control, CONTROL_PASSES));
			wake_signal(control_wake(d->control, CONTROL_REQUESTS));
			reload_certificates("http", d->config.tls);
			reload_certificates("cluster", d->config.cluster_tls);
		} else if (sig) {
			log_info("stop.begin", "signal=%s", sig == SIGTERM ? "TERM" : "INT");
			return stopped_ms ? EXIT_STOPPED : EXIT_OK;
		}
		if (stopped_ms == 0 && has_stopped(d, &seen))
			stopped_ms = clock_mono_ms();
		if (stopped_ms && clock_mono_ms() - stopped_ms >= STOPPED_GRACE_MS)
			return EXIT_STOPPED;
	}
}

/* Leadership first, while everything still runs; the node gives up by itself after a while, and a second signal does
 * not wait for that. */
static void drain(const struct daemon *d)
{
	node_begin_stop(d->node);
	while (!node_is_drained(d->node)) {
		if (wait_signal(d, DRAIN_LOOK_MS))
			return;
	}
}

/* What start made, last first. Also after a start that broke off. */
static void stop(struct daemon *d)
{
	if (d->threads)
		threads_stop(d->threads);
	threads_free(d->threads);
	http_server_free(d->http);
	control_free(d->control);
	node_close(d->node); /* readers of its database are gone */
	net_peers_free(d->net);
	if (d->loop)
		ev_loop_destroy(d->loop);
	pool_free(d->pool);
	if (d->http_fd >= 0)
		close(d->http_fd);
	if (d->cluster_fd >= 0)
		close(d->cluster_fd);
}

int main(int argc, char **argv)
{
	struct daemon d = { .http_fd = -1, .cluster_fd = -1 };
	enum exit_status status = EXIT_OK;
	struct err e;
	if (config_load(&d.config, argc, argv, environ, &e)) {
		status = refuse(EXIT_SETTINGS, &e);
	} else if (d.config.help) {
		config_print_help(stdout);
	} else if (d.config.version) {
		(void)printf("veenad %s\n", embedded_version);
	} else if (d.config.check_only) {
		config_print(&d.config, stdout);
	} else {
		status = start(&d);
		const bool is_running = status == EXIT_OK;
		if (is_running) {
			status = run(&d);
			drain(&d);
		}
		stop(&d);
		if (is_running)
			log_info("stop.done", "exit=%d", (int)status);
	}
	log_stop();
	slab_drain_pool();
	config_fini(&d.config);
	return (int)status;
}
