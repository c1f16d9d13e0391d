#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "config_internal.h"
#include "control/settings_file.h"
#include "model/commands.h"

#define CONFIG_FILE_MAX ((size_t)1 << 20) /* bytes of a --config file */
#define ENV_PREFIX "VEENA_"

/* Flags are read before anything else, since they may name the file, and assigned last, since they win. */
struct flags {
	struct config_value *items;
	size_t count;
};

static int read_flags(struct config *c, int argc, char *const *argv, struct flags *out, struct err *e)
{
	out->items = arena_alloc(&c->arena, ((size_t)argc + 1) * sizeof(*out->items));
	out->count = 0;
	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];
		char shown[128];
		log_quote(shown, sizeof(shown), word, strlen(word));
		if (strncmp(word, "--", 2) != 0 || !word[2])
			return err_set(e, ERR_INVALID,
			               "\"%s\" is no flag; veenad takes flags only, veenad --help lists them", shown);
		const size_t n = strcspn(word + 2, "=");
		const struct setting *s = config_find((struct str){ word + 2, n });
		if (!s)
			return err_set(e, ERR_INVALID, "%s is no flag of veenad; veenad --help lists them", shown);
		struct config_value *a = &out->items[out->count++];
		*a = (struct config_value){ .s = s,
			                    .layer = CONFIG_FLAG,
			                    .name = arena_printf(&c->arena, "--%s", s->name) };
		if (word[2 + n] == '=') {
			a->value = word + 2 + n + 1;
		} else if (s->kind == KIND_SWITCH) {
			a->value = "on";
		} else if (i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0) {
			a->value = argv[++i];
		} else {
			char allowed[256];
			config_describe(s, allowed, sizeof(allowed));
			return err_set(e, ERR_INVALID, "%s needs a value; allowed: %s", a->name, allowed);
		}
	}
	return 0;
}

/* The setting behind a name with '_' for '-', in any case; NULL: none that may stand outside the flags. */
static const struct setting *find_underscored(struct config *c, struct str name)
{
	char *text = arena_strndup(&c->arena, name.p, name.len);
	for (char *p = text; *p; p++) {
		if (*p == '-')
			return NULL;
		*p = *p == '_' ? '-' : *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
	}
	const struct setting *s = config_find(str_of(text));
	return s && !s->flag_only ? s : NULL;
}

static bool has_lower(struct str s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] >= 'a' && s.p[i] <= 'z')
			return true;
	}
	return false;
}

static int assign_environment(struct config *c, char *const *env, bool config_only, struct err *e)
{
	static const char *const others[] = { "URL", "USER", "PASSWORD" }; /* of the command veena */
	for (; *env; env++) {
		if (strncmp(*env, ENV_PREFIX, strlen(ENV_PREFIX)) != 0)
			continue;
		const char *key = *env + strlen(ENV_PREFIX);
		const struct str name = { key, strcspn(key, "=") };
		bool is_other = false;
		for (size_t i = 0; i < ARRAY_LEN(others); i++)
			is_other = is_other || str_is(name, others[i]);
		if (is_other)
			continue;
		const struct setting *s = has_lower(name) ? NULL : find_underscored(c, name);
		if (!s) {
			char shown[128];
			return err_set(e, ERR_INVALID,
			               "the environment variable " ENV_PREFIX "%s is no setting of veenad; unset it",
			               log_quote(shown, sizeof(shown), name.p, name.len));
		}
		if (config_only != config_is_file_setting(s))
			continue;
		const struct config_value a = {
			.s = s,
			.layer = CONFIG_ENVIRONMENT,
			.name = arena_printf(&c->arena, ENV_PREFIX STR_FMT, STR_ARG(name)),
			.value = key[name.len] ? key + name.len + 1 : "",
		};
		const int rc = config_assign(c, &a, e);
		if (rc)
			return rc;
	}
	return 0;
}

static int assign_file(struct config *c, struct err *e)
{
	struct settings_item *items = NULL;
	size_t count = 0, len;
	char *text = mem_alloc(CONFIG_FILE_MAX);
	int rc = config_read_file(c->config_file, text, CONFIG_FILE_MAX, &len, e);
	if (!rc)
		rc = settings_file_parse(c->config_file, (struct str){ text, len }, &c->arena, &items, &count, e);
	mem_free(text);
	for (size_t i = 0; !rc && i < count; i++) {
		const struct settings_item *item = &items[i];
		const struct setting *s =
		    has_lower(str_of(item->name)) ? find_underscored(c, str_of(item->name)) : NULL;
		if (!s || config_is_file_setting(s)) {
			char shown[128];
			return err_set(e, ERR_INVALID,
			               "%s: \"%s\" is no setting; veenad --help lists them, with _ for -",
			               c->config_file, log_quote(shown, sizeof(shown), item->name, strlen(item->name)));
		}
		if (item->count > 1 && !config_takes_many(s))
			return err_set(e, ERR_INVALID, "%s: %s takes one value, not %zu", c->config_file, item->name,
			               item->count);
		for (size_t j = 0; !rc && j < item->count; j++) {
			const struct config_value a = {
				.s = s,
				.layer = CONFIG_FILE,
				.name = arena_printf(&c->arena, "%s in %s", item->name, c->config_file),
				.value = item->values[j],
			};
			rc = config_assign(c, &a, e);
		}
	}
	return rc;
}

static void set_defaults(struct config *c)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	c->http = "127.0.0.1:7942";
	c->cluster = "127.0.0.1:7943";
	c->own_partitions = true;
	c->auth = true;
	c->log_level = LOG_LEVEL_INFO;
	c->max_entry_type = COMMAND_MAX;
	c->http_threads = cores < 2 ? 1 : cores > 5 ? 4 : (uint64_t)cores - 1;
	c->map_gib = 1024;
	c->http_request_mib = 64;
	c->http_request_ms = 10000;
	c->http_answer_ms = 30000;
	c->http_idle_ms = 60000;
	c->heartbeat_ms = 100;
	c->election_ms = 500;
	c->snapshot_entries = 8192;
	c->snapshot_interval_s = 120;
	c->snapshots_kept = 2;
	c->member_heartbeat_ms = 5000;
	c->dead_after_s = 30;
	c->max_moves = 8;
	c->min_voters = 3;
}

/* Where --config stands decides nothing, so it is looked for before the layers are laid. */
static int find_config_file(struct config *c, const struct flags *flags, char *const *env, struct err *e)
{
	int rc = assign_environment(c, env, true, e);
	for (size_t i = 0; !rc && i < flags->count; i++) {
		if (config_is_file_setting(flags->items[i].s))
			rc = config_assign(c, &flags->items[i], e);
	}
	return rc;
}

int config_load(struct config *c, int argc, char *const *argv, char *const *env, struct err *e)
{
	set_defaults(c);
	struct flags flags;
	int rc = read_flags(c, argc, argv, &flags, e);
	if (!rc)
		rc = find_config_file(c, &flags, env, e);
	if (!rc && c->config_file)
		rc = assign_file(c, e);
	if (!rc)
		rc = assign_environment(c, env, false, e);
	for (size_t i = 0; !rc && i < flags.count; i++)
		rc = config_assign(c, &flags.items[i], e);
	log_configure((enum log_level)c->log_level, (enum log_format)c->log_format);
	if (rc || c->help || c->version)
		return rc;
	return config_check(c, e);
}

void config_fini(struct config *c)
{
	explicit_bzero(c->secret, sizeof(c->secret));
	explicit_bzero(c->secret_previous, sizeof(c->secret_previous));
	explicit_bzero(c->admin_password, sizeof(c->admin_password));
	net_tls_free(c->tls);
	net_tls_free(c->cluster_tls);
	arena_fini(&c->arena);
}

int config_read_file(const char *path, void *out, size_t max, size_t *len, struct err *e)
{
	FILE *f = fopen(path, "re");
	if (!f)
		return err_set_errno(e, ERR_IO, errno, "cannot read %s", path);
	(void)setvbuf(f, NULL, _IONBF, 0); /* no copy of a secret stays behind */
	const size_t n = fread(out, 1, max, f);
	const int errnum = ferror(f) ? errno : 0;
	const bool is_longer = !errnum && n == max && fgetc(f) != EOF;
	(void)fclose(f); /* only read from */
	if (errnum)
		return err_set_errno(e, ERR_IO, errnum, "cannot read %s", path);
	if (is_longer)
		return err_set(e, ERR_TOO_LARGE, "%s is longer than the %zu bytes that are allowed", path, max);
	*len = n;
	return 0;
}
