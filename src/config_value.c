/* The table of settings, and what one value of one of them may be. */
#include "config_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "model/commands.h"
#include "model/rules.h"
#include "net/addr.h"

static const char *const sync_words[] = { "log", "fsm", NULL };
static const char *const level_words[] = { "error", "warn", "info", "debug", NULL };
static const char *const format_words[] = { "text", "json", NULL };

#define AT(field) .offset = offsetof(struct config, field)

static const struct setting settings[] = {
	{ "dev", KIND_SWITCH, AT(dev),
	  .help = "one node on loopback, data in ./veena-data, no auth: the quickest start" },
	{ "id", KIND_ID, AT(id), .value = "NAME", .help = "this node's name, the same at every start" },
	{ "data", KIND_PATH, AT(data), .value = "DIR", .help = "this node's directory; made if absent" },
	{ "http", KIND_ADDRESS, AT(http), .value = "HOST:PORT", .help = "where clients are served" },
	{ "cluster", KIND_ADDRESS, AT(cluster), .value = "HOST:PORT", .help = "where the other nodes connect" },
	{ "advertise-http", KIND_ADDRESS, AT(advertise_http), .value = "HOST:PORT",
	  .help = "announce this address to clients instead of the bound one" },
	{ "advertise-cluster", KIND_ADDRESS, AT(advertise_cluster), .value = "HOST:PORT",
	  .help = "announce this address to the other nodes" },
	{ "peers", KIND_PEERS, AT(peer_texts), .value = "ID@HOST:PORT,...",
	  .help = "the cluster that is to be: id and cluster address of each node, this one too" },
	{ "initial-members", KIND_IDS, AT(initial_members), .value = "ID,...",
	  .help = "those of --peers that may form a new cluster; others join it (default: all)" },
	{ "join", KIND_ADDRESSES, AT(join), .value = "HOST:PORT,...",
	  .help = "join a running cluster that listens at these cluster addresses" },
	{ "learner", KIND_SWITCH, AT(learner), .help = "join without a vote, and never be promoted" },
	{ "bootstrap", KIND_SWITCH, AT(bootstrap), .help = "form a new cluster of this one node; others join it" },
	{ "own-partitions", KIND_ON_OFF, AT(own_partitions), .value = "on|off",
	  .help = "may partitions be placed on this server" },
	{ "tag", KIND_TAGS, AT(tags), .value = "KEY=VALUE", .help = "a tag of this server's member record; repeat it" },
	{ "auth", KIND_ON_OFF, AT(auth), .value = "on|off", .help = "must clients say who they are" },
	{ "admin-password-file", KIND_PATH, AT(admin_password_file), .value = "FILE",
	  .help = "password of the user admin, whom the first leader makes; without it one is made and logged once" },
	{ "cluster-secret-file", KIND_PATH, AT(cluster_secret_file), .value = "FILE",
	  .help = "what the nodes prove to each other that they belong together" },
	{ "cluster-secret-previous-file", KIND_PATH, AT(cluster_secret_previous_file), .value = "FILE",
	  .help = "the secret before a rotation: nodes that still use it are let in, what it sealed is opened" },
	{ "allow-insecure", KIND_SWITCH, AT(allow_insecure),
	  .help = "start although anyone in reach of an address could change everything" },
	{ "tls-cert", KIND_PATH, AT(tls_cert), .value = "FILE",
	  .help = "serve HTTPS by this certificate (PEM, with its chain); read again at SIGHUP" },
	{ "tls-key", KIND_PATH, AT(tls_key), .value = "FILE", .help = "its key" },
	{ "cluster-tls-cert", KIND_PATH, AT(cluster_tls_cert), .value = "FILE",
	  .help = "TLS between nodes: this one's certificate, which names its id or its address" },
	{ "cluster-tls-key", KIND_PATH, AT(cluster_tls_key), .value = "FILE", .help = "its key" },
	{ "cluster-tls-ca", KIND_PATH, AT(cluster_tls_ca), .value = "FILE",
	  .help = "who signs the nodes' certificates, and nobody else's" },
	{ "policy-dir", KIND_PATH, AT(policy_dir), .value = "DIR", .help = "policies here replace the shipped ones" },
	{ "max-entry-type", KIND_NUMBER, AT(max_entry_type), 1, COMMAND_MAX, .value = "N",
	  .help = "behave as a release that knows entry types up to N" },
	{ "http-threads", KIND_NUMBER, AT(http_threads), 1, 64, .value = "N", .help = "threads that serve clients" },
	{ "http-connections", KIND_NUMBER, AT(http_connections), 8, 1000000, .value = "N",
	  .help = "clients at once, over all threads (default: what the limit of open files leaves, at most 16384)" },
	{ "http-request-mib", KIND_NUMBER, AT(http_request_mib), 2, 65536, .value = "N",
	  .help = "memory of all requests in hand; beyond it 503 overloaded" },
	{ "http-request-ms", KIND_NUMBER, AT(http_request_ms), 100, 600000, .value = "N",
	  .help = "from a request's first byte to its last, handshake included; then 408" },
	{ "http-answer-ms", KIND_NUMBER, AT(http_answer_ms), 100, 600000, .value = "N",
	  .help = "until a client has taken its answer; then the connection is closed" },
	{ "http-idle-ms", KIND_NUMBER, AT(http_idle_ms), 100, 3600000, .value = "N",
	  .help = "a connection without a request is kept for so long" },
	{ "heartbeat-ms", KIND_NUMBER, AT(heartbeat_ms), 10, 10000, .value = "N", .help = "leader to followers" },
	{ "election-ms", KIND_NUMBER, AT(election_ms), 50, 60000, .value = "N",
	  .help = "silence of a leader, at least, before others stand for election" },
	{ "snapshot-entries", KIND_NUMBER, AT(snapshot_entries), 10, 1000000000, .value = "N",
	  .help = "take a snapshot after so many log entries" },
	{ "snapshot-interval-s", KIND_NUMBER, AT(snapshot_interval_s), 1, 86400, .value = "N",
	  .help = "look that often whether one is due" },
	{ "snapshots-kept", KIND_NUMBER, AT(snapshots_kept), 2, 64, .value = "N", .help = "how many are kept" },
	{ "member-heartbeat-ms", KIND_NUMBER, AT(member_heartbeat_ms), 50, 60000, .value = "N",
	  .help = "how often a member says that it is alive" },
	{ "dead-after-s", KIND_NUMBER, AT(dead_after_s), 1, 86400, .value = "N",
	  .help = "silence after which a member counts as dead" },
	{ "max-moves", KIND_NUMBER, AT(max_moves), 0, 1000, .value = "N", .help = "partitions moved at a time" },
	{ "min-voters", KIND_NUMBER, AT(min_voters), 1, RAFT_SERVERS_MAX, .value = "N",
	  .help = "no removal takes the voters below this" },
	{ "map-gib", KIND_NUMBER, AT(map_gib), 1, 65536, .value = "N",
	  .help = "address space for the database, in GiB; halved until the machine grants it" },
	{ "sync", KIND_WORD, AT(sync), .words = sync_words, .value = "log|fsm",
	  .help = "log: only the log is synced at each write; fsm: the database too" },
	{ "log-level", KIND_WORD, AT(log_level), .words = level_words, .value = "error|warn|info|debug",
	  .help = "what is logged" },
	{ "log-format", KIND_WORD, AT(log_format), .words = format_words, .value = "text|json", .help = "how" },
	{ "config", KIND_PATH, AT(config_file), .value = "FILE",
	  .help = "a Lua file that returns a table of these settings, - written as _" },
	{ "check-config", KIND_SWITCH, AT(check_only), .help = "say what the settings come to, and end",
	  .flag_only = true },
	{ "version", KIND_SWITCH, AT(version), .help = "say the version, and end", .flag_only = true },
	{ "help", KIND_SWITCH, AT(help), .help = "say this, and end", .flag_only = true },
};

static_assert(ARRAY_LEN(settings) <= CONFIG_SETTINGS_MAX, "struct config counts layers for every setting");

static void *field_of(struct config *c, const struct setting *s)
{
	return (char *)c + s->offset;
}

static size_t index_of(const struct setting *s)
{
	return (size_t)(s - settings);
}

const struct setting *config_find(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		if (str_is(name, settings[i].name))
			return &settings[i];
	}
	return NULL;
}

bool config_is_file_setting(const struct setting *s)
{
	return s->kind == KIND_PATH && s->offset == offsetof(struct config, config_file);
}

bool config_takes_many(const struct setting *s)
{
	return s->kind == KIND_IDS || s->kind == KIND_PEERS || s->kind == KIND_ADDRESSES || s->kind == KIND_TAGS;
}

bool config_is_set(const struct config *c, const char *name)
{
	const struct setting *s = config_find(str_of(name));
	assert(s);
	return c->layer[index_of(s)] != CONFIG_DEFAULT;
}

/* ---- one value ---- */

void config_describe(const struct setting *s, char *out, size_t cap)
{
	int n = 0;
	switch (s->kind) {
	case KIND_SWITCH:
	case KIND_ON_OFF: (void)snprintf(out, cap, "on or off"); break;
	case KIND_NUMBER: (void)snprintf(out, cap, "a number from %" PRIu64 " to %" PRIu64, s->min, s->max); break;
	case KIND_WORD:
		for (size_t i = 0; s->words[i] && (size_t)n < cap; i++)
			n += snprintf(out + n, cap - (size_t)n, "%s%s", i ? ", " : "one of ", s->words[i]);
		break;
	case KIND_ID:
	case KIND_IDS: (void)snprintf(out, cap, "1 to %d letters, digits, '.', '_' or '-'", MEMBER_ID_MAX); break;
	case KIND_ADDRESS:
	case KIND_ADDRESSES: (void)snprintf(out, cap, "host:port"); break;
	case KIND_PATH: (void)snprintf(out, cap, "a path"); break;
	case KIND_PEERS: (void)snprintf(out, cap, "id@host:port"); break;
	case KIND_TAGS:
		(void)snprintf(out, cap,
		               "key=value, key at most %d bytes of letters, digits, '.', '_', '/' and '-', value "
		               "at most %d bytes",
		               LABEL_KEY_MAX, LABEL_VALUE_MAX);
		break;
	}
}

static int refuse_value(const struct config_value *v, const char *value, const char *why, struct err *e)
{
	char allowed[256], shown[128];
	config_describe(v->s, allowed, sizeof(allowed));
	return err_set(e, ERR_INVALID, "%s: \"%s\" %s; allowed: %s", v->name,
	               log_quote(shown, sizeof(shown), value, strlen(value)), why, allowed);
}

static int set_bool(const struct config_value *v, bool *out, struct err *e)
{
	static const char *const yes[] = { "on", "true", "1" }, *const no[] = { "off", "false", "0" };
	for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
		if (strcmp(v->value, yes[i]) == 0 || strcmp(v->value, no[i]) == 0) {
			*out = strcmp(v->value, yes[i]) == 0;
			return 0;
		}
	}
	return refuse_value(v, v->value, "is not allowed", e);
}

static int set_number(const struct config_value *v, uint64_t *out, struct err *e)
{
	uint64_t n;
	if (!u64_parse(str_of(v->value), &n))
		return refuse_value(v, v->value, "is no number", e);
	if (n < v->s->min || n > v->s->max)
		return refuse_value(v, v->value, "is out of range", e);
	*out = n;
	return 0;
}

static int set_word(const struct config_value *v, uint64_t *out, struct err *e)
{
	for (size_t i = 0; v->s->words[i]; i++) {
		if (strcmp(v->value, v->s->words[i]) == 0) {
			*out = i;
			return 0;
		}
	}
	return refuse_value(v, v->value, "is not allowed", e);
}

static int check_address(const struct config_value *v, const char *text, struct err *e)
{
	struct net_addr addr;
	struct err why;
	if (net_addr_parse(text, &addr, &why))
		return err_set(e, ERR_INVALID, "%s: %s", v->name, why.msg);
	return 0;
}

static bool is_tag(const char *text)
{
	const char *eq = strchr(text, '=');
	return eq && rule_label_key((struct str){ text, (size_t)(eq - text) }) && rule_label_value(str_of(eq + 1));
}

/* One element of a list. */
static int check_item(const struct config_value *v, const char *text, struct err *e)
{
	const char *at;
	switch (v->s->kind) {
	case KIND_IDS: return rule_member_id(str_of(text)) ? 0 : refuse_value(v, text, "is no id", e);
	case KIND_ADDRESSES: return check_address(v, text, e);
	case KIND_PEERS:
		at = strchr(text, '@');
		if (!at || !rule_member_id((struct str){ text, (size_t)(at - text) }))
			return refuse_value(v, text, "is no peer", e);
		return check_address(v, at + 1, e);
	case KIND_TAGS: return is_tag(text) ? 0 : refuse_value(v, text, "is no tag", e);
	default: assert(false); return 0;
	}
}

static void list_add(struct arena *a, struct config_list *l, const char *text)
{
	const char **items = arena_alloc(a, (l->count + 1) * sizeof(*items));
	if (l->count)
		memcpy(items, l->items, l->count * sizeof(*items)); /* NOLINT(bugprone-sizeof-expression) */
	items[l->count] = text;
	l->items = items;
	l->count++;
}

/* A list is written with commas; but a flag --tag holds one tag, whose value may have some. */
static int set_list(struct config *c, const struct config_value *v, struct err *e)
{
	struct config_list *list = field_of(c, v->s);
	if (c->layer[index_of(v->s)] != v->layer)
		*list = (struct config_list){ 0 };
	const bool whole = v->s->kind == KIND_TAGS && v->layer != CONFIG_ENVIRONMENT;
	const char *p = v->value;
	for (;;) {
		const size_t n = whole ? strlen(p) : strcspn(p, ",");
		const char *item = arena_strndup(&c->arena, p, n);
		const int rc = check_item(v, item, e);
		if (rc)
			return rc;
		list_add(&c->arena, list, item);
		p += n;
		if (!*p)
			return 0;
		p++;
	}
}

static int set_text(struct config *c, const struct config_value *v, struct err *e)
{
	if (!v->value[0])
		return refuse_value(v, v->value, "is empty", e);
	if (v->s->kind == KIND_ID && !rule_member_id(str_of(v->value)))
		return refuse_value(v, v->value, "is no id", e);
	if (v->s->kind == KIND_ADDRESS) {
		const int rc = check_address(v, v->value, e);
		if (rc)
			return rc;
	}
	*(const char **)field_of(c, v->s) = arena_strdup(&c->arena, v->value);
	return 0;
}

int config_assign(struct config *c, const struct config_value *v, struct err *e)
{
	int rc = 0;
	switch (v->s->kind) {
	case KIND_SWITCH:
	case KIND_ON_OFF: rc = set_bool(v, field_of(c, v->s), e); break;
	case KIND_NUMBER: rc = set_number(v, field_of(c, v->s), e); break;
	case KIND_WORD: rc = set_word(v, field_of(c, v->s), e); break;
	case KIND_ID:
	case KIND_ADDRESS:
	case KIND_PATH: rc = set_text(c, v, e); break;
	case KIND_IDS:
	case KIND_PEERS:
	case KIND_ADDRESSES:
	case KIND_TAGS: rc = set_list(c, v, e); break;
	}
	if (!rc)
		c->layer[index_of(v->s)] = (uint8_t)v->layer;
	return rc;
}

/* ---- for people ---- */

static void print_value(const struct config *c, const struct setting *s, FILE *out)
{
	const void *at = (const char *)c + s->offset;
	const struct config_list *list = at;
	switch (s->kind) {
	case KIND_SWITCH:
	case KIND_ON_OFF: (void)fputs(*(const bool *)at ? "on" : "off", out); break;
	case KIND_NUMBER: (void)fprintf(out, "%" PRIu64, *(const uint64_t *)at); break;
	case KIND_WORD: (void)fputs(s->words[*(const uint64_t *)at], out); break;
	case KIND_ID:
	case KIND_ADDRESS:
	case KIND_PATH: (void)fputs(*(const char *const *)at ? *(const char *const *)at : "-", out); break;
	case KIND_IDS:
	case KIND_PEERS:
	case KIND_ADDRESSES:
	case KIND_TAGS:
		(void)fputs(list->count ? "" : "-", out);
		for (size_t i = 0; i < list->count; i++)
			(void)fprintf(out, "%s%s", i ? "," : "", list->items[i]);
		break;
	}
}

void config_print(const struct config *c, FILE *out)
{
	static const char *const layers[] = {
		[CONFIG_DEFAULT] = "default",
		[CONFIG_FILE] = "config file",
		[CONFIG_ENVIRONMENT] = "environment",
		[CONFIG_FLAG] = "flag",
	};
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];
		if (s->flag_only)
			continue;
		(void)fprintf(out, "%-20s ", s->name);
		print_value(c, s, out);
		(void)fprintf(out, "  (%s)\n", layers[c->layer[i]]);
	}
	(void)fputs("the settings are fine\n", out);
}

void config_print_help(FILE *out)
{
	(void)fputs("veenad: one node of a veena cluster\n\n"
	            "  veenad --dev\n"
	            "  veenad --id n1 --data DIR --peers n1@H:P,n2@H:P,n3@H:P --auth off\n\n",
	            out);
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct setting *s = &settings[i];
		char flag[64], allowed[256] = "";
		if (s->kind == KIND_NUMBER)
			config_describe(s, allowed, sizeof(allowed));
		(void)snprintf(flag, sizeof(flag), "--%s %s", s->name, s->value ? s->value : "");
		(void)fprintf(out, "  %-36s %s%s%s%s\n", flag, s->help, allowed[0] ? " (" : "", allowed,
		              allowed[0] ? ")" : "");
	}
	(void)fputs("\nEach may also stand in the environment (VEENA_HEARTBEAT_MS=200) or in the file of --config\n"
	            "(heartbeat_ms = 200). Flags win over the environment, the environment over the file.\n\n"
	            "Exit status: 0 stopped as asked, 1 failed, 2 wrong settings, 3 refused to protect data, 4 stopped "
	            "applying.\n",
	            out);
}
