/* The daemon's settings: which layer wins, what is refused and in which words, and which combinations do harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

#define WORDS_MAX 32

/* Splits at blanks: no value in these tests holds one. */
static size_t split(char *text, char **out)
{
	size_t n = 0;
	char *save = NULL;
	for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
		assert_true(n + 1 < WORDS_MAX);
		out[n++] = w;
	}
	out[n] = NULL;
	return n;
}

static int load(struct config *c, const char *flags, const char *env, struct err *e)
{
	char flag_text[1024], env_text[1024];
	char *argv[WORDS_MAX + 1] = { (char[]){ "veenad" } }, *envp[WORDS_MAX];
	(void)snprintf(flag_text, sizeof(flag_text), "%s", flags);
	(void)snprintf(env_text, sizeof(env_text), "%s", env ? env : "");
	const size_t n = split(flag_text, argv + 1);
	(void)split(env_text, envp);
	memset(c, 0, sizeof(*c));
	return config_load(c, (int)n + 1, argv, envp, e);
}

/* A file with this text; its path lives until the next call. */
static const char *file_with(const void *text, size_t len)
{
	static char path[64];
	(void)snprintf(path, sizeof(path), "/tmp/veena-config-XXXXXX");
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
	return path;
}

#define GOOD "--id n1 --data d --auth off "
#define THREE "--peers n1@127.0.0.1:7943,n2@127.0.0.1:7945,n3@127.0.0.1:7947 "
#define FAR "--peers n1@10.0.0.1:7943,n2@10.0.0.2:7943,n3@10.0.0.3:7943 "
#define FAR_SELF "--http 10.0.0.1:7942 --cluster 10.0.0.1:7943 "

/* Each refused start is ERR_INVALID, and its sentence holds the name, the value and what to do. */
static void test_wrong_settings_are_refused_by_name(void **state)
{
	(void)state;
	static const struct {
		const char *flags, *env, *says[3];
	} cases[] = {
		/* flags that are none */
		{ GOOD "--nosuch 1", NULL, { "--nosuch", "--help" } },
		{ GOOD "start", NULL, { "start", "flags only" } },
		{ GOOD "-x", NULL, { "-x" } },
		{ GOOD "--", NULL, { "--" } },
		{ GOOD "--bootstrap --heartbeat-ms", NULL, { "--heartbeat-ms", "needs a value", "10 to 10000" } },
		{ GOOD "--policy-dir --bootstrap", NULL, { "--policy-dir", "needs a value" } },
		/* values of each kind */
		{ GOOD "--heartbeat-ms soon", NULL, { "--heartbeat-ms", "soon", "10 to 10000" } },
		{ GOOD "--heartbeat-ms=5", NULL, { "--heartbeat-ms", "\"5\"", "10 to 10000" } },
		{ GOOD "--heartbeat-ms 99999999999999999999", NULL, { "--heartbeat-ms", "9999" } },
		{ GOOD "--max-moves -3", NULL, { "--max-moves", "-3" } },
		{ GOOD "--sync never", NULL, { "--sync", "never", "log, fsm" } },
		{ GOOD "--log-level loud", NULL, { "--log-level", "loud", "debug" } },
		{ GOOD "--own-partitions maybe", NULL, { "--own-partitions", "maybe", "on or off" } },
		{ GOOD "--dev=perhaps", NULL, { "--dev", "perhaps", "on or off" } },
		{ GOOD "--id=", NULL, { "--id", "empty" } },
		{ GOOD "--id a/b", NULL, { "--id", "a/b", "letters" } },
		{ GOOD "--http 127.0.0.1", NULL, { "--http", "127.0.0.1", "host:port" } },
		{ GOOD "--http 127.0.0.1:70000", NULL, { "--http", "70000" } },
		{ GOOD "--cluster 127.0.0.1:0", NULL, { "--cluster", "port 0" } },
		{ GOOD "--advertise-http h:0", NULL, { "--advertise-http", "port 0" } },
		{ GOOD "--peers n1", NULL, { "--peers", "n1", "id@host:port" } },
		{ GOOD "--peers n1@h:1,,n2@h:2", NULL, { "--peers", "id@host:port" } },
		{ GOOD "--peers n1@h:0", NULL, { "--peers", "port 0" } },
		{ GOOD "--join h", NULL, { "--join", "host:port" } },
		{ GOOD "--tag zone", NULL, { "--tag", "zone", "key=value" } },
		{ GOOD "--tag z!=1", NULL, { "--tag", "z!=1" } },
		{ GOOD "--bootstrap --tag zone=a --tag zone=b", NULL, { "--tag", "zone", "twice" } },
		{ GOOD "--http-request-ms 10", NULL, { "--http-request-ms", "10", "100 to 600000" } },
		{ GOOD "--http-connections 0", NULL, { "--http-connections", "8 to 1000000" } },
		{ GOOD "--max-entry-type 1000", NULL, { "--max-entry-type", "1000" } },
		/* TLS: whole sets, of files that can be read */
		{ GOOD "--bootstrap --tls-cert f", NULL, { "--tls-key", "missing", "--tls-cert" } },
		{ GOOD "--bootstrap --tls-key f", NULL, { "--tls-cert", "missing" } },
		{ GOOD "--bootstrap --cluster-tls-ca f", NULL, { "--cluster-tls-cert", "missing" } },
		{ GOOD "--bootstrap --cluster-tls-cert f --cluster-tls-key f",
		  NULL,
		  { "--cluster-tls-ca", "missing" } },
		{ GOOD "--bootstrap --tls-cert /nonexistent/c --tls-key k", NULL, { "--tls-cert", "/nonexistent/c" } },
		{ GOOD "--bootstrap --cluster-secret-previous-file f",
		  NULL,
		  { "--cluster-secret-previous-file", "--cluster-secret-file" } },
		/* the environment */
		{ GOOD, "VEENA_NOSUCH=1", { "VEENA_NOSUCH", "unset" } },
		{ GOOD, "VEENA_id=n2", { "VEENA_id" } },
		{ GOOD, "VEENA_HEARTBEAT_MS=soon", { "VEENA_HEARTBEAT_MS", "soon", "10 to 10000" } },
		{ GOOD, "VEENA_VERSION=1", { "VEENA_VERSION" } },
		{ GOOD "--bootstrap", "VEENA_TLS_CERT=f", { "--tls-key", "missing" } },
		{ GOOD, "VEENA_CONFIG=/nonexistent.lua", { "/nonexistent.lua" } },
		/* what is missing */
		{ "--data d --auth off", NULL, { "--id is missing" } },
		{ "--id n1 --auth off", NULL, { "--data is missing" } },
		{ GOOD, NULL, { "--peers", "--join", "--bootstrap" } },
		/* lists of peers */
		{ GOOD "--peers n2@127.0.0.1:1,n3@127.0.0.1:2", NULL, { "--peers", "own id n1" } },
		{ GOOD "--peers n1@127.0.0.1:1,n2@127.0.0.1:2,n2@127.0.0.1:3", NULL, { "--peers", "n2", "twice" } },
		{ GOOD "--peers n1@127.0.0.1:1,n2@127.0.0.1:2,n3@127.0.0.1:2",
		  NULL,
		  { "--peers", "n3", "127.0.0.1:2" } },
		{ GOOD "--peers n1@127.0.0.1:1,n2@LOCALHOST:2,n3@localhost:2", NULL, { "--peers", "localhost:2" } },
		{ GOOD "--peers n1@127.0.0.1:7943,n2@0.0.0.0:2", NULL, { "--peers", "0.0.0.0:2", "n2" } },
		{ GOOD "--peers n1@127.0.0.1:7943,n2@[::]:2", NULL, { "--peers", "[::]:2", "n2" } },
		{ GOOD "--peers n1@127.0.0.1:1,n2@127.0.0.1:7943", NULL, { "--peers", "n2", "this node's own" } },
		/* the own entry is where others dial: another port leads them astray */
		{ GOOD "--peers n1@127.0.0.1:7944,n2@127.0.0.1:2",
		  NULL,
		  { "--peers", "127.0.0.1:7944", "--cluster is 127.0.0.1:7943" } },
		{ GOOD "--peers n1@localhost:7944,n2@127.0.0.1:2",
		  NULL,
		  { "--peers", "localhost:7944", "--cluster is 127.0.0.1:7943" } },
		{ GOOD "--peers n1@127.0.0.2:7943,n2@127.0.0.1:2",
		  NULL,
		  { "--peers", "127.0.0.2:7943", "--cluster is 127.0.0.1:7943" } },
		{ GOOD "--peers n1@127.0.0.1:7943,n2@127.0.0.1:2 --advertise-cluster 127.0.0.1:9000",
		  NULL,
		  { "--peers", "127.0.0.1:7943", "--advertise-cluster is 127.0.0.1:9000" } },
		{ GOOD THREE "--initial-members n1,n9", NULL, { "--initial-members", "n9" } },
		{ GOOD THREE "--initial-members n1,n2,n1", NULL, { "--initial-members", "n1", "twice" } },
		{ GOOD "--bootstrap --initial-members n1", NULL, { "--initial-members", "n1", "--peers" } },
		/* roles that exclude each other */
		{ GOOD "--bootstrap --join 127.0.0.1:9", NULL, { "--bootstrap", "--join" } },
		{ GOOD "--bootstrap --learner", NULL, { "--learner", "--join" } },
		{ GOOD THREE "--learner", NULL, { "--learner", "n1" } },
		{ "--dev " THREE, NULL, { "--dev", "--peers" } },
		{ "--dev --auth on", NULL, { "--dev", "--auth" } },
		{ "--dev --http 10.0.0.1:80", NULL, { "--dev", "10.0.0.1:80" } },
		{ "--dev --cluster 0.0.0.0:80", NULL, { "--dev", "0.0.0.0:80" } },
		{ GOOD "--join 127.0.0.1:7943", NULL, { "--join", "127.0.0.1:7943", "back to this node" } },
		{ GOOD "--bootstrap --http 127.0.0.1:7943", NULL, { "--http", "--cluster", "7943" } },
		/* who may reach what */
		{ GOOD "--bootstrap --http 0.0.0.0:7942",
		  NULL,
		  { "--http 0.0.0.0:7942", "--auth off", "--allow-insecure" } },
		{ GOOD "--bootstrap --http host:7942", NULL, { "--http host:7942", "--allow-insecure" } },
		{ GOOD "--bootstrap --cluster [::]:7943", NULL, { "--cluster [::]:7943", "--allow-insecure" } },
		{ GOOD FAR, NULL, { "--cluster", "TLS", "--allow-insecure" } },
		{ GOOD FAR FAR_SELF "--allow-insecure", NULL, { "--cluster-secret-file", "missing" } },
		{ GOOD "--join 10.0.0.2:7943 --allow-insecure", NULL, { "--cluster-secret-file", "missing" } },
		{ "--id n1 --data d " THREE, NULL, { "--cluster-secret-file", "missing" } },
		{ "--id n1 --data d --bootstrap --cluster 10.0.0.1:7943",
		  NULL,
		  { "--cluster-secret-file", "missing" } },
		{ "--id n1 --data d --bootstrap --admin-password-file /nonexistent",
		  NULL,
		  { "--admin-password-file", "/nonexistent" } },
		{ GOOD THREE "--cluster-secret-file /nonexistent", NULL, { "--cluster-secret-file", "/nonexistent" } },
		/* what others are told (F50) */
		{ GOOD "--bootstrap --allow-insecure --http 0.0.0.0:7942",
		  NULL,
		  { "--http 0.0.0.0:7942", "--advertise-http" } },
		{ GOOD "--bootstrap --allow-insecure --http [::]:7942", NULL, { "--http", "--advertise-http" } },
		{ GOOD "--bootstrap --allow-insecure --cluster 0.0.0.0:1",
		  NULL,
		  { "--cluster", "--advertise-cluster" } },
		{ GOOD "--bootstrap --advertise-http 0.0.0.0:1",
		  NULL,
		  { "--advertise-http 0.0.0.0:1", "correct --advertise-http" } },
		/* numbers that do not go together */
		{ GOOD "--bootstrap --election-ms 150", NULL, { "--election-ms 150", "--heartbeat-ms 100" } },
		{ GOOD "--bootstrap --dead-after-s 9", NULL, { "--dead-after-s 9", "--member-heartbeat-ms 5000" } },
		{ GOOD "--bootstrap --policy-dir /nonexistent", NULL, { "--policy-dir", "/nonexistent" } },
		{ GOOD "--bootstrap --policy-dir /etc/passwd", NULL, { "--policy-dir", "/etc/passwd" } },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config c;
		struct err e = { 0 };
		const int rc = load(&c, cases[i].flags, cases[i].env, &e);
		if (rc != ERR_INVALID && rc != ERR_IO)
			fail_msg("not refused: %s %s", cases[i].flags, cases[i].env ? cases[i].env : "");
		for (size_t j = 0; j < 3 && cases[i].says[j]; j++) {
			if (!strstr(e.msg, cases[i].says[j]))
				fail_msg("\"%s\" is not in: %s", cases[i].says[j], e.msg);
		}
		assert_null(strchr(e.msg, '\n'));
		config_fini(&c);
	}
}

/* Loopback addresses of this node, far peers: others would find themselves there (F50). */
static void test_loopback_is_not_announced_to_far_peers(void **state)
{
	(void)state;
	const char *secret = file_with("0123456789abcdef0123\n", 21);
	const struct {
		const char *own, *says;
	} cases[] = {
		{ "--cluster 10.0.0.1:7943", "--advertise-http" },
		{ "--http 10.0.0.1:7942", "--advertise-cluster" },
		{ "--http localhost:7942 --cluster 10.0.0.1:7943", "--advertise-http" },
		{ "--advertise-http 127.0.0.1:1 --http 10.0.0.1:1 --cluster 10.0.0.1:7943",
		  "--advertise-http 127.0.0.1:1 is" },
		{ "--http 10.0.0.1:7942 --cluster 10.0.0.1:7943", NULL },
		{ "--advertise-http 10.0.0.1:7942 --cluster 0.0.0.0:7943", NULL },
		{ "--advertise-http 10.0.0.1:7942 --cluster 0.0.0.0:7999", "--cluster is 0.0.0.0:7999" },
		{ "--advertise-http 10.0.0.1:7942 --cluster 0.0.0.0:7999 --advertise-cluster 10.0.0.1:7943", NULL },
		{ "--advertise-http n1.example:7942 --advertise-cluster n1.example:7943", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char flags[512];
		(void)snprintf(flags, sizeof(flags), GOOD FAR "--allow-insecure --cluster-secret-file %s %s", secret,
		               cases[i].own);
		struct config c;
		struct err e = { 0 };
		const int rc = load(&c, flags, NULL, &e);
		if (cases[i].says) {
			assert_int_equal(rc, ERR_INVALID);
			assert_non_null(strstr(e.msg, cases[i].says));
		} else if (rc) {
			fail_msg("refused: %s: %s", cases[i].own, e.msg);
		} else {
			assert_int_equal(c.secret_len, 20); /* the line's end is not part of it */
			assert_memory_equal(c.secret, "0123456789abcdef0123", 20);
			assert_true(strncmp(c.advertise_cluster, "127", 3) != 0);
		}
		config_fini(&c);
	}
	unlink(secret);
}

/* A secret is neither too short to be one nor longer than what is compared. */
static void test_secret_has_bounds(void **state)
{
	(void)state;
	char bytes[CONFIG_SECRET_MAX + 1];
	memset(bytes, 'x', sizeof(bytes));
	const struct {
		size_t len;
		bool good;
	} cases[] = { { 0, false },
		      { CONFIG_SECRET_MIN - 1, false },
		      { CONFIG_SECRET_MIN, true },
		      { CONFIG_SECRET_MAX, true },
		      { CONFIG_SECRET_MAX + 1, false } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *path = file_with(bytes, cases[i].len);
		char flags[256];
		(void)snprintf(flags, sizeof(flags), GOOD THREE "--cluster-secret-file %s", path);
		struct config c;
		struct err e = { 0 };
		assert_int_equal(load(&c, flags, NULL, &e), cases[i].good ? 0 : ERR_INVALID);
		if (!cases[i].good)
			assert_non_null(strstr(e.msg, path));
		config_fini(&c);
		unlink(path);
	}
}

/* A password is what bcrypt can tell apart: 1 to 72 bytes without NUL; the line end of its file is none of them. */
static void test_admin_password_has_bounds(void **state)
{
	(void)state;
	char bytes[PASSWORD_MAX + 2];
	memset(bytes, 'x', sizeof(bytes));
	const struct {
		const char *bytes;
		size_t len, want; /* 0: refused */
	} cases[] = { { "", 0, 0 },
		      { "\n", 1, 0 },
		      { "a\0b", 3, 0 },
		      { "geheim", 6, 6 },
		      { "geheim\n", 7, 6 },
		      { bytes, PASSWORD_MAX, PASSWORD_MAX },
		      { bytes, PASSWORD_MAX + 1, 0 },
		      { bytes, PASSWORD_MAX + 2, 0 } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *path = file_with(cases[i].bytes, cases[i].len);
		char flags[256];
		(void)snprintf(flags, sizeof(flags), "--id n1 --data d --bootstrap --admin-password-file %s", path);
		struct config c;
		struct err e = { 0 };
		assert_int_equal(load(&c, flags, NULL, &e), cases[i].want ? 0 : ERR_INVALID);
		if (cases[i].want) {
			assert_true(c.auth);
			assert_int_equal(strlen(c.admin_password), cases[i].want);
		} else {
			assert_non_null(strstr(e.msg, path));
		}
		config_fini(&c);
		unlink(path);
	}
}

/* An open address needs a password or consent, not both. */
static void test_auth_opens_the_http_address(void **state)
{
	(void)state;
	struct config c;
	struct err e;
	assert_int_equal(
	    load(&c, "--id n1 --data d --bootstrap --http 0.0.0.0:7942 --advertise-http 10.0.0.1:7942", NULL, &e), 0);
	config_fini(&c);
}

/* The quickest start needs nothing, and is a cluster of one on loopback. */
static void test_dev_needs_nothing(void **state)
{
	(void)state;
	struct config c;
	struct err e;
	assert_int_equal(load(&c, "--dev", NULL, &e), 0);
	assert_string_equal(c.id, "n1");
	assert_string_equal(c.data, "./veena-data");
	assert_string_equal(c.http, "127.0.0.1:7942");
	assert_string_equal(c.advertise_cluster, "127.0.0.1:7943");
	assert_true(c.bootstrap);
	assert_false(c.auth);
	assert_true(c.own_partitions);
	assert_in_range(c.http_threads, 1, 4);
	assert_string_equal(c.tags_json, "{}");
	config_fini(&c);
	assert_int_equal(load(&c, "--dev --id x --data y --http 127.0.0.1:1", NULL, &e), 0);
	assert_string_equal(c.id, "x");
	assert_string_equal(c.data, "y");
	assert_string_equal(c.advertise_http, "127.0.0.1:1");
	config_fini(&c);
}

/* File, environment, flag: the later one wins, a list as a whole; names of the command's variables are not ours. */
static void test_later_layers_win(void **state)
{
	(void)state;
	static const char text[] = "local base = 7000\n"
				   "return { id = 'n1', data = 'from-file', auth = false, bootstrap = true,\n"
				   "  heartbeat_ms = 40, election_ms = base, http = '127.0.0.1:' .. base,\n"
				   "  tag = { zone = 'a', rack = 'r1' }, log_level = 'warn', snapshots_kept = 3 }\n";
	const char *path = file_with(text, sizeof(text) - 1);
	char flags[256], env[512];
	struct config c;
	struct err e;
	(void)snprintf(flags, sizeof(flags), "--config %s", path);
	assert_int_equal(load(&c, flags, NULL, &e), 0);
	assert_string_equal(c.data, "from-file");
	assert_int_equal(c.heartbeat_ms, 40);
	assert_int_equal(c.election_ms, 7000);
	assert_string_equal(c.http, "127.0.0.1:7000");
	assert_string_equal(c.tags_json, "{\"rack\":\"r1\",\"zone\":\"a\"}");
	assert_int_equal(c.log_level, LOG_LEVEL_WARN);
	assert_true(config_is_set(&c, "snapshots-kept"));
	assert_false(config_is_set(&c, "cluster"));
	config_fini(&c);

	(void)snprintf(env, sizeof(env),
	               "VEENA_CONFIG=%s VEENA_DATA=from-env VEENA_HEARTBEAT_MS=50 VEENA_TAG=x=1,y=2 VEENA_URL=u "
	               "VEENA_USER=u VEENA_PASSWORD=p VEENAD=x PATH=/bin VEENA=y",
	               path);
	assert_int_equal(load(&c, "--heartbeat-ms 60 --snapshots-kept=4", env, &e), 0);
	assert_string_equal(c.data, "from-env");
	assert_int_equal(c.heartbeat_ms, 60);
	assert_int_equal(c.snapshots_kept, 4);
	assert_int_equal(c.election_ms, 7000);
	assert_string_equal(c.tags_json, "{\"x\":\"1\",\"y\":\"2\"}");
	config_fini(&c);
	assert_int_equal(load(&c, "--tag z=1,2 --tag w=<", env, &e), 0);
	assert_string_equal(c.tags_json, "{\"z\":\"1,2\",\"w\":\"\\u003c\"}");
	config_fini(&c);
	unlink(path);
}

/* Peers come as id and address, in the list's order. */
static void test_peers_are_taken_apart(void **state)
{
	(void)state;
	struct config c;
	struct err e;
	assert_int_equal(load(&c, GOOD THREE "--initial-members n1,n2", NULL, &e), 0);
	assert_int_equal(c.peer_count, 3);
	assert_string_equal(c.peers[1].name, "n2");
	assert_string_equal(c.peers[1].addr, "127.0.0.1:7945");
	assert_int_equal(c.initial_members.count, 2);
	assert_string_equal(c.initial_members.items[1], "n2");
	assert_int_equal(c.secret_len, 0);
	config_fini(&c);
	/* A node moved to another port with its disk says so in its own entry too, and announces where it is. */
	assert_int_equal(
	    load(&c, GOOD "--peers n1@localhost:9999,n2@127.0.0.1:7945 --cluster 127.0.0.1:9999", NULL, &e), 0);
	assert_string_equal(c.advertise_cluster, "127.0.0.1:9999");
	config_fini(&c);
}

/* A file that does not run, or says what no setting is, is refused with its name and the place. */
static void test_bad_files_are_refused(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "return {", "expected" },
		{ "x = = 1", "1" },
		{ "", "table" },
		{ "return 5", "table" },
		{ "return { nosuch = 1 }", "nosuch" },
		{ "return { ['heartbeat-ms'] = 100 }", "heartbeat-ms" },
		{ "return { ID = 'n1' }", "ID" },
		{ "return { config = 'x' }", "config" },
		{ "return { version = true }", "version" },
		{ "return { heartbeat_ms = 'soon' }", "heartbeat_ms in" },
		{ "return { heartbeat_ms = 1.5 }", "whole" },
		{ "return { heartbeat_ms = { 1, 2 } }", "one value" },
		{ "return { id = {} }", "empty" },
		{ "return { peers = { 'a', x = 'b' } }", "not both" },
		{ "return { peers = { { 'a' } } }", "table" },
		{ "return { id = function() end }", "function" },
		{ "return { [1] = 'x' }", "names" },
		{ "return { id = 'a\\0b' }", "NUL" },
		{ "return { tls_keys = 'f' }", "tls_keys" },
		{ "while true do end", "budget" },
		{ "return os.getenv('HOME')", "os" },
		{ "\x1bLua", "binary" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *path = file_with(cases[i].text, strlen(cases[i].text));
		char flags[256];
		(void)snprintf(flags, sizeof(flags), GOOD "--bootstrap --config %s", path);
		struct config c;
		struct err e = { 0 };
		assert_int_equal(load(&c, flags, NULL, &e), ERR_INVALID);
		if (!strstr(e.msg, cases[i].says) || !strstr(e.msg, path))
			fail_msg("\"%s\" and %s are not in: %s", cases[i].says, path, e.msg);
		config_fini(&c);
		unlink(path);
	}
}

/* Questions are answered whatever else is wrong with the settings; --help names each setting that can be given. */
static void test_help_and_version_need_no_settings(void **state)
{
	(void)state;
	struct config c;
	struct err e;
	assert_int_equal(load(&c, "--version", NULL, &e), 0);
	assert_true(c.version);
	config_fini(&c);
	assert_int_equal(load(&c, "--help", NULL, &e), 0);
	assert_true(c.help);
	config_fini(&c);

	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	config_print_help(f);
	assert_int_equal(fclose(f), 0);
	assert_non_null(strstr(text, "--heartbeat-ms N"));
	assert_non_null(strstr(text, "10 to 10000"));
	assert_non_null(strstr(text, "--tls-cert FILE"));
	free(text);

	assert_int_equal(load(&c, GOOD THREE "--check-config --sync fsm", "VEENA_LOG_FORMAT=json", &e), 0);
	assert_true(c.check_only);
	f = open_memstream(&text, &len);
	config_print(&c, f);
	assert_int_equal(fclose(f), 0);
	assert_non_null(strstr(text, "fsm  (flag)"));
	assert_non_null(strstr(text, "json  (environment)"));
	assert_non_null(strstr(text, "8192  (default)"));
	assert_non_null(strstr(text, "n3@127.0.0.1:7947"));
	free(text);
	config_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrong_settings_are_refused_by_name),
		cmocka_unit_test(test_loopback_is_not_announced_to_far_peers),
		cmocka_unit_test(test_secret_has_bounds),
		cmocka_unit_test(test_admin_password_has_bounds),
		cmocka_unit_test(test_auth_opens_the_http_address),
		cmocka_unit_test(test_dev_needs_nothing),
		cmocka_unit_test(test_later_layers_win),
		cmocka_unit_test(test_peers_are_taken_apart),
		cmocka_unit_test(test_bad_files_are_refused),
		cmocka_unit_test(test_help_and_version_need_no_settings),
	};
	return cmocka_run_group_tests_name("daemon_config", tests, NULL, NULL);
}
