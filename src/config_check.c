/* Rules over several settings. The first one that is broken is reported, worst first: what would let strangers in, then
 * what would make the cluster talk to the wrong addresses, then the rest. */
#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/mem.h"
#include "model/json.h"
#include "model/rules.h"
#include "net/addr.h"

/* Addresses were checked one by one when they were set. */
static struct net_addr addr_of(const char *text)
{
	struct net_addr a;
	const int rc = net_addr_parse(text, &a, NULL);
	assert(rc == 0);
	return a;
}

static bool is_loopback(const char *text)
{
	const struct net_addr a = addr_of(text);
	return net_addr_is_loopback(&a);
}

static bool is_wildcard(const char *text)
{
	const struct net_addr a = addr_of(text);
	return net_addr_is_wildcard(&a);
}

static bool is_same(const char *a, const char *b)
{
	const struct net_addr x = addr_of(a), y = addr_of(b);
	return net_addr_equal(&x, &y);
}

/* ---- --dev ---- */

static int check_dev(struct config *c, struct err *e)
{
	static const char *const others[] = { "peers", "initial-members", "join", "learner" };
	if (!c->dev)
		return 0;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (config_is_set(c, others[i]))
			return err_set(e, ERR_INVALID, "--dev is one node by itself; --%s does not go with it",
			               others[i]);
	}
	if (config_is_set(c, "auth") && c->auth)
		return err_set(e, ERR_INVALID, "--dev is without auth; --auth on does not go with it");
	if (!is_loopback(c->http) || !is_loopback(c->cluster))
		return err_set(e, ERR_INVALID, "--dev is for loopback only, and %s is not",
		               is_loopback(c->http) ? c->cluster : c->http);
	c->auth = false;
	c->bootstrap = true;
	if (!c->id)
		c->id = "n1";
	if (!c->data)
		c->data = "./veena-data";
	return 0;
}

/* ---- the list of peers ---- */

static int read_peers(struct config *c, struct err *e)
{
	const size_t n = c->peer_texts.count;
	if (n > RAFT_SERVERS_MAX)
		return err_set(e, ERR_INVALID, "--peers: %zu nodes, a cluster has at most %d", n, RAFT_SERVERS_MAX);
	c->peers = n ? arena_zalloc(&c->arena, n * sizeof(*c->peers)) : NULL;
	for (size_t i = 0; i < n; i++) {
		struct node_peer_addr *p = &c->peers[i];
		const char *text = c->peer_texts.items[i], *at = strchr(text, '@');
		const struct net_addr addr = addr_of(at + 1);
		(void)snprintf(p->name, sizeof(p->name), "%.*s", (int)(at - text), text); /* rule_member_id bounds it */
		net_addr_format(&addr, p->addr);
		if (net_addr_is_wildcard(&addr))
			return err_set(
			    e, ERR_INVALID,
			    "--peers: %s is the address of every machine and of none; write the one where others "
			    "reach %s",
			    p->addr, p->name);
		for (size_t j = 0; j < i; j++) {
			if (strcmp(c->peers[j].name, p->name) == 0)
				return err_set(e, ERR_INVALID, "--peers names the id %s twice; ids are unique",
				               p->name);
			if (strcmp(c->peers[j].addr, p->addr) == 0)
				return err_set(e, ERR_INVALID, "--peers gives %s and %s the same address %s",
				               c->peers[j].name, p->name, p->addr);
		}
	}
	c->peer_count = n;
	return 0;
}

static const struct node_peer_addr *find_peer(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->peer_count; i++) {
		if (strcmp(c->peers[i].name, name) == 0)
			return &c->peers[i];
	}
	return NULL;
}

static bool is_initial_member(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->initial_members.count; i++) {
		if (strcmp(c->initial_members.items[i], name) == 0)
			return true;
	}
	return c->initial_members.count == 0 && find_peer(c, name) != NULL;
}

static int check_members(const struct config *c, struct err *e)
{
	if (c->peer_count > 0 && !find_peer(c, c->id))
		return err_set(e, ERR_INVALID, "--peers does not hold this node's own id %s; add %s@HOST:PORT", c->id,
		               c->id);
	for (size_t i = 0; i < c->initial_members.count; i++) {
		const char *name = c->initial_members.items[i];
		if (!find_peer(c, name))
			return err_set(e, ERR_INVALID, "--initial-members: %s is not in --peers", name);
		for (size_t j = 0; j < i; j++) {
			if (strcmp(c->initial_members.items[j], name) == 0)
				return err_set(e, ERR_INVALID, "--initial-members names %s twice", name);
		}
	}
	if (c->peer_count == 0 && c->join.count == 0 && !c->bootstrap)
		return err_set(e, ERR_INVALID,
		               "which cluster? give --peers with all its nodes, --join with addresses of a "
		               "running one, --bootstrap for a new one, or --dev to try veena out");
	if (c->bootstrap && c->join.count > 0)
		return err_set(e, ERR_INVALID,
		               "--bootstrap forms a new cluster and --join enters a running one; give one");
	if (c->learner && (c->bootstrap || is_initial_member(c, c->id)))
		return err_set(e, ERR_INVALID,
		               "--learner has no vote, so it cannot form a cluster: give --join, or leave %s "
		               "out of --initial-members",
		               c->id);
	return 0;
}

/* ---- who may reach what ---- */

static bool has_company(const struct config *c)
{
	return c->peer_count > 1 || c->join.count > 0;
}

/* Some address of another node, which is not on this machine; NULL: there is none. */
static const char *remote_peer(const struct config *c)
{
	for (size_t i = 0; i < c->peer_count; i++) {
		if (strcmp(c->peers[i].name, c->id) != 0 && !is_loopback(c->peers[i].addr))
			return c->peers[i].addr;
	}
	for (size_t i = 0; i < c->join.count; i++) {
		if (!is_loopback(c->join.items[i]))
			return c->join.items[i];
	}
	return NULL;
}

static int check_exposure(const struct config *c, struct err *e)
{
	const char *open = !is_loopback(c->http) ? "http" : !is_loopback(c->cluster) ? "cluster" : NULL;
	if (open && !c->auth && !c->allow_insecure)
		return err_set(
		    e, ERR_INVALID,
		    "--%s %s with --auth off: whoever reaches it may change everything; bind 127.0.0.1, or add "
		    "--allow-insecure if only friends reach it",
		    open, strcmp(open, "http") == 0 ? c->http : c->cluster);
	/* Without TLS company beyond loopback is open to listeners. */
	if (!c->cluster_tls && has_company(c) && (remote_peer(c) || !is_loopback(c->cluster)) && !c->allow_insecure)
		return err_set(e, ERR_INVALID,
		               "--cluster %s: several nodes without TLS between them; give --cluster-tls-cert, "
		               "--cluster-tls-key and --cluster-tls-ca, keep them on loopback, or add "
		               "--allow-insecure if only friends reach that network",
		               c->cluster);
	return 0;
}

/* One file of a secret, without its line end. `flag` names it. */
static int read_secret_file(const char *flag, const char *path, uint8_t out[CONFIG_SECRET_MAX], size_t *out_len,
                            struct err *e)
{
	struct err why;
	size_t len;
	if (config_read_file(path, out, CONFIG_SECRET_MAX, &len, &why))
		return err_set(e, ERR_INVALID, "--%s: %s", flag, why.msg);
	if (len > 0 && out[len - 1] == '\n') /* as echo and editors leave it */
		len--;
	if (len < CONFIG_SECRET_MIN)
		return err_set(e, ERR_INVALID, "--%s: %s holds %zu bytes; a secret has %d to %d", flag, path, len,
		               CONFIG_SECRET_MIN, CONFIG_SECRET_MAX);
	*out_len = len;
	return 0;
}

static int read_secrets(struct config *c, struct err *e)
{
	if (c->cluster_secret_previous_file && !c->cluster_secret_file)
		return err_set(e, ERR_INVALID,
		               "--cluster-secret-previous-file is for a rotation: give the new secret by "
		               "--cluster-secret-file");
	if (!c->cluster_secret_file) {
		/* Who may speak to the cluster port may do everything, so with auth on it is guarded as the other is;
		 * by certificates, if not by a secret. */
		const bool is_guarded = c->auth && !is_loopback(c->cluster);
		if (!c->cluster_tls &&
		    (is_guarded || (has_company(c) && (c->auth || remote_peer(c) || !is_loopback(c->cluster)))))
			return err_set(e, ERR_INVALID,
			               "--cluster-secret-file is missing: nodes beyond loopback prove to each "
			               "other that they belong together; give all of them the same file");
		return 0;
	}
	int rc = read_secret_file("cluster-secret-file", c->cluster_secret_file, c->secret, &c->secret_len, e);
	if (!rc && c->cluster_secret_previous_file)
		rc = read_secret_file("cluster-secret-previous-file", c->cluster_secret_previous_file,
		                      c->secret_previous, &c->secret_previous_len, e);
	return rc;
}

struct net_secrets config_secrets(const struct config *c)
{
	return (struct net_secrets){
		.current = c->secret_len ? c->secret : NULL,
		.current_len = c->secret_len,
		.previous = c->secret_previous_len ? c->secret_previous : NULL,
		.previous_len = c->secret_previous_len,
	};
}

bool config_is_exposed(const char *addr)
{
	return !is_loopback(addr);
}

/* ---- certificates ---- */

/* A half-given set would serve in plain what was meant to be guarded. */
static int check_together(const char *const flags[], const char *const files[], size_t count, struct err *e)
{
	const char *given = NULL, *missing = NULL;
	for (size_t i = 0; i < count; i++) {
		if (files[i])
			given = flags[i];
		else if (!missing)
			missing = flags[i];
	}
	if (!given || !missing)
		return 0;
	return err_set(e, ERR_INVALID, "--%s is missing: --%s was given, and they go together", missing, given);
}

static int load_certificates(struct config *c, struct err *e)
{
	static const char *const own[] = { "tls-cert", "tls-key" };
	static const char *const cluster[] = { "cluster-tls-cert", "cluster-tls-key", "cluster-tls-ca" };
	const char *const own_files[] = { c->tls_cert, c->tls_key };
	const char *const cluster_files[] = { c->cluster_tls_cert, c->cluster_tls_key, c->cluster_tls_ca };
	struct err why;
	int rc = check_together(own, own_files, ARRAY_LEN(own), e);
	if (!rc)
		rc = check_together(cluster, cluster_files, ARRAY_LEN(cluster), e);
	if (rc)
		return rc;
	const struct net_tls_files http = { .cert = c->tls_cert, .key = c->tls_key };
	if (c->tls_cert && net_tls_new(&http, &c->tls, &why))
		return err_set(e, ERR_INVALID, "--tls-cert, --tls-key: %s", why.msg);
	const struct net_tls_files links = { .cert = c->cluster_tls_cert,
		                             .key = c->cluster_tls_key,
		                             .ca = c->cluster_tls_ca };
	if (c->cluster_tls_cert && net_tls_new(&links, &c->cluster_tls, &why))
		return err_set(e, ERR_INVALID, "--cluster-tls-cert, -key, -ca: %s", why.msg);
	return 0;
}

/* Without its line end, whatever it holds: a password of a file may be anything but empty. */
static int read_admin_password(struct config *c, struct err *e)
{
	struct err why;
	size_t len;
	if (!c->admin_password_file)
		return 0;
	if (config_read_file(c->admin_password_file, c->admin_password, sizeof(c->admin_password) - 1, &len, &why))
		return err_set(e, ERR_INVALID, "--admin-password-file: %s", why.msg);
	if (len > 0 && c->admin_password[len - 1] == '\n')
		len--;
	c->admin_password[len] = '\0';
	if (!rule_password((struct str){ c->admin_password, len }) || strlen(c->admin_password) != len)
		return err_set(e, ERR_INVALID,
		               "--admin-password-file: %s holds %zu bytes; a password has 1 to %d, none of them NUL",
		               c->admin_password_file, len, PASSWORD_MAX);
	return 0;
}

/* ---- what others are told ---- */

/* `bound` is the address of --`flag`, `addr` what is announced for it: the same unless --advertise-`flag` says another,
 * and then that flag is the one to correct. */
static int check_announced(const struct config *c, const char *flag, const char *bound, const char *addr, struct err *e)
{
	const bool is_bound = strcmp(bound, addr) == 0;
	const char *prefix = is_bound ? "" : "advertise-";
	const char *verb = is_bound ? "add" : "correct";
	if (is_wildcard(addr))
		return err_set(e, ERR_INVALID,
		               "--%s%s %s stands for every address of this machine, which is none that others "
		               "could use; %s --advertise-%s HOST:PORT",
		               prefix, flag, addr, verb, flag);
	const char *remote = remote_peer(c);
	if (remote && is_loopback(addr))
		return err_set(e, ERR_INVALID,
		               "--%s%s %s is loopback, and the node at %s would find itself there; bind an "
		               "address it can reach, or %s --advertise-%s HOST:PORT",
		               prefix, flag, addr, remote, verb, flag);
	return 0;
}

/* The own entry of --peers is where the others dial. Behind another port, or at another numeric host, they would find
 * somebody else or nobody; a name may well be the number that is bound. */
static int check_own_entry(const struct config *c, const struct node_peer_addr *self, struct err *e)
{
	const bool told = config_is_set(c, "advertise-cluster");
	const char *text = told ? c->advertise_cluster : c->cluster;
	const struct net_addr own = addr_of(text), listed = addr_of(self->addr);
	const bool comparable =
	    net_addr_is_numeric(&own) && net_addr_is_numeric(&listed) && !net_addr_is_wildcard(&own);
	if (own.port == listed.port && (!comparable || net_addr_equal(&own, &listed)))
		return 0;
	return err_set(e, ERR_INVALID,
	               "--peers says that others reach %s at %s, but --%scluster is %s; make them the same%s", c->id,
	               self->addr, told ? "advertise-" : "", text,
	               told ? "" : ", or add --advertise-cluster if the address is translated on the way");
}

static int announce(struct config *c, struct err *e)
{
	/* An own entry in --peers says where others dial; it stands in only where the bound address says nothing. */
	const struct node_peer_addr *self = find_peer(c, c->id);
	if (!c->advertise_http)
		c->advertise_http = c->http;
	if (!c->advertise_cluster)
		c->advertise_cluster = self && is_wildcard(c->cluster) ? self->addr : c->cluster;
	int rc = check_announced(c, "http", c->http, c->advertise_http, e);
	if (!rc)
		rc = check_announced(c, "cluster", c->cluster, c->advertise_cluster, e);
	if (rc)
		return rc;
	if (is_same(c->http, c->cluster))
		return err_set(e, ERR_INVALID, "--http and --cluster are both %s; give them two ports", c->http);
	for (size_t i = 0; i < c->join.count; i++) {
		if (is_wildcard(c->join.items[i]) || is_same(c->join.items[i], c->advertise_cluster))
			return err_set(e, ERR_INVALID,
			               "--join %s leads back to this node; name a node of the running cluster",
			               c->join.items[i]);
	}
	for (size_t i = 0; i < c->peer_count; i++) {
		if (strcmp(c->peers[i].name, c->id) != 0 && is_same(c->peers[i].addr, c->advertise_cluster))
			return err_set(e, ERR_INVALID, "--peers gives %s the address %s, which is this node's own",
			               c->peers[i].name, c->peers[i].addr);
	}
	return self ? check_own_entry(c, self, e) : 0;
}

/* ---- the rest ---- */

static int make_tags(struct config *c, struct err *e)
{
	struct buf b = { 0 };
	struct json_writer w = { .out = &b };
	int rc = 0;
	if (c->tags.count > LABELS_MAX)
		return err_set(e, ERR_INVALID, "--tag: %zu tags, at most %d are allowed", c->tags.count, LABELS_MAX);
	json_begin_object(&w);
	for (size_t i = 0; !rc && i < c->tags.count; i++) {
		const char *text = c->tags.items[i];
		const struct str key = { text, strcspn(text, "=") };
		for (size_t j = 0; !rc && j < i; j++) {
			if (str_eq(key, (struct str){ c->tags.items[j], strcspn(c->tags.items[j], "=") }))
				rc = err_set(e, ERR_INVALID, "--tag gives " STR_FMT " twice", STR_ARG(key));
		}
		json_key_str(&w, key);
		json_put_cstr(&w, text + key.len + 1);
	}
	json_end_object(&w);
	c->tags_json = arena_strdup(&c->arena, buf_cstr(&b));
	buf_fini(&b);
	return rc;
}

static int check_numbers(const struct config *c, struct err *e)
{
	if (c->election_ms < 2 * c->heartbeat_ms)
		return err_set(e, ERR_INVALID,
		               "--election-ms %" PRIu64 " is less than twice --heartbeat-ms %" PRIu64
		               ", so that one lost heartbeat would cost an election",
		               c->election_ms, c->heartbeat_ms);
	if (c->dead_after_s * 1000 < 2 * c->member_heartbeat_ms)
		return err_set(e, ERR_INVALID,
		               "--dead-after-s %" PRIu64 " is less than twice --member-heartbeat-ms %" PRIu64
		               ", so that one lost heartbeat would make a member dead",
		               c->dead_after_s, c->member_heartbeat_ms);
	return 0;
}

static int check_policy_dir(const struct config *c, struct err *e)
{
	struct stat st;
	if (c->policy_dir && (stat(c->policy_dir, &st) < 0 || !S_ISDIR(st.st_mode)))
		return err_set(e, ERR_INVALID, "--policy-dir: %s is no directory that can be read", c->policy_dir);
	return 0;
}

static int check_required(const struct config *c, struct err *e)
{
	if (!c->id)
		return err_set(e, ERR_INVALID, "--id is missing: this node's name, the same at every start");
	if (!c->data)
		return err_set(e, ERR_INVALID, "--data is missing: the directory that holds this node's state");
	return 0;
}

int config_check(struct config *c, struct err *e)
{
	int rc = check_dev(c, e);
	if (!rc)
		rc = check_required(c, e);
	if (!rc)
		rc = read_peers(c, e);
	if (!rc)
		rc = check_members(c, e);
	if (!rc)
		rc = load_certificates(c, e);
	if (!rc)
		rc = check_exposure(c, e);
	if (!rc)
		rc = read_secrets(c, e);
	if (!rc)
		rc = read_admin_password(c, e);
	if (!rc)
		rc = announce(c, e);
	if (!rc)
		rc = make_tags(c, e);
	if (!rc)
		rc = check_numbers(c, e);
	if (!rc)
		rc = check_policy_dir(c, e);
	return rc;
}
