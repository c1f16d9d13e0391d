#include "control/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/log.h"
#include "base/mem.h"

#define REFRESH_EVERY_MS 1000

struct version {
	bool present;
	bool benched;
	struct buf text;       /* owned copy */
	char chunk[64];        /* "placement.lua" */
	struct timespec mtime; /* of the file this was read from */
	off_t size;
	bool unreadable; /* and said so */
};

struct policy_set {
	char *dir;
	uint64_t looked_at_ms;
	struct version versions[POLICY_KIND_COUNT][POLICY_SOURCE_COUNT];
	struct policy_stats stats[POLICY_KIND_COUNT];
	size_t peak; /* bytes */
};

/* Faults are rare and read by status only: a lock is no burden here. */
static struct {
	pthread_mutex_t lock;
	struct policy_fault_record records[POLICY_KIND_COUNT][POLICY_SOURCE_COUNT]; /* count 0 = none */
} faults = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *policy_kind_name(enum policy_kind k)
{
	static const char *const names[] = {
		[POLICY_PLACEMENT] = "placement", [POLICY_REBALANCE] = "rebalance", [POLICY_LIVENESS] = "liveness",
		[POLICY_DRAIN] = "drain",         [POLICY_FAILOVER] = "failover",   [POLICY_SCHEMA] = "schema",
	};
	return names[k];
}

const char *policy_source_name(enum policy_source s)
{
	static const char *const names[] = { [POLICY_FILE] = "file", [POLICY_SHIPPED] = "shipped" };
	return names[s];
}

/* ---- faults ---- */

static void forget_fault(enum policy_kind k, enum policy_source s)
{
	pthread_mutex_lock(&faults.lock);
	faults.records[k][s].count = 0;
	pthread_mutex_unlock(&faults.lock);
}

/* True when this is worth a line in the log: a fault that was not the last one seen there. */
static bool note_fault(enum policy_kind k, enum policy_source s, const struct sandbox_fault *f, bool benched)
{
	pthread_mutex_lock(&faults.lock);
	struct policy_fault_record *r = &faults.records[k][s];
	const bool is_new = r->count == 0 || r->fault.line != f->line || strcmp(r->fault.message, f->message) != 0;
	r->kind = k;
	r->source = s;
	r->fault = *f;
	r->at_ms = clock_wall_ms();
	if (r->count == 0)
		r->since_ms = r->at_ms;
	r->count++;
	r->benched = benched;
	pthread_mutex_unlock(&faults.lock);
	return is_new;
}

size_t policy_faults_copy(struct policy_fault_record out[POLICY_FAULTS_MAX])
{
	size_t n = 0;
	pthread_mutex_lock(&faults.lock);
	for (int k = 0; k < POLICY_KIND_COUNT; k++) {
		for (int s = 0; s < POLICY_SOURCE_COUNT; s++) {
			if (faults.records[k][s].count)
				out[n++] = faults.records[k][s];
		}
	}
	pthread_mutex_unlock(&faults.lock);
	return n;
}

/* ---- where the texts come from ---- */

static const struct embedded_file *find_shipped(const char *name)
{
	for (size_t i = 0; i < embedded_file_count; i++) {
		if (strcmp(embedded_files[i].name, name) == 0)
			return &embedded_files[i];
	}
	return NULL;
}

static void load_shipped(struct policy_set *ps, enum policy_kind k)
{
	struct version *v = &ps->versions[k][POLICY_SHIPPED];
	char name[64];
	snprintf(name, sizeof(name), "policies/%s.lua", policy_kind_name(k));
	const struct embedded_file *f = find_shipped(name);
	if (!f)
		return;
	buf_put(&v->text, f->data, f->len);
	v->present = true;
}

static bool find_module(void *arg, struct str name, struct str *source)
{
	static const struct str prefix = { "lib.", 4 };
	(void)arg;
	if (!str_starts(name, prefix) || name.len > 64)
		return false;
	char path[96];
	snprintf(path, sizeof(path), "policies/lib/%.*s.lua", (int)(name.len - prefix.len), name.p + prefix.len);
	const struct embedded_file *f = find_shipped(path);
	if (f)
		*source = (struct str){ f->data, f->len };
	return f != NULL;
}

const struct sandbox_modules policy_modules = { .find = find_module };

/* Reads the whole file of `size` bytes; one that shrinks or grows meanwhile is read again at the next look. */
static bool read_file(int fd, off_t size, struct buf *out)
{
	buf_clear(out);
	while (out->len < (size_t)size) {
		const ssize_t n = read(fd, buf_reserve(out, (size_t)size - out->len), (size_t)size - out->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		buf_advance(out, (size_t)n);
	}
	return true;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static void drop_file(struct version *v, enum policy_kind k)
{
	if (v->present)
		log_info("policy.file_gone", "kind=%s", policy_kind_name(k));
	v->present = false;
	v->size = -1;
	forget_fault(k, POLICY_FILE);
}

static void load_file(struct policy_set *ps, enum policy_kind k)
{
	struct version *v = &ps->versions[k][POLICY_FILE];
	struct buf path = { 0 };
	buf_printf(&path, "%s/%s.lua", ps->dir, policy_kind_name(k));
	const int fd = open(buf_cstr(&path), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st = { 0 };
	const char *fault = NULL;
	if (fd < 0 || fstat(fd, &st) != 0)
		fault = strerror(errno);
	else if (!S_ISREG(st.st_mode))
		fault = "not a file";
	if (fault) {
		const bool absent = fd < 0 && errno == ENOENT;
		if (!absent && !v->unreadable)
			log_error("policy.file_unreadable",
			          "path=%s error=\"%s\"; the %s policy in force stays the one behind it",
			          buf_cstr(&path), fault, policy_kind_name(k));
		v->unreadable = !absent;
		drop_file(v, k);
		goto out;
	}
	v->unreadable = false;
	if (v->size == st.st_size && same_time(&v->mtime, &st.st_mtim))
		goto out;
	v->size = st.st_size;
	v->mtime = st.st_mtim;
	if (st.st_size > (off_t)SANDBOX_SOURCE_MAX) {
		log_error("policy.file_too_long", "path=%s bytes=%lld allowed=%u", buf_cstr(&path),
		          (long long)st.st_size, SANDBOX_SOURCE_MAX);
		v->present = false;
		goto out;
	}
	v->present = read_file(fd, st.st_size, &v->text);
	v->benched = false;
	forget_fault(k, POLICY_FILE);
	if (v->present)
		log_info("policy.loaded", "kind=%s source=file path=%s bytes=%zu", policy_kind_name(k), buf_cstr(&path),
		         v->text.len);
	else
		v->size = -1;
out:
	if (fd >= 0)
		close(fd);
	buf_fini(&path);
}

void policy_set_refresh(struct policy_set *ps, uint64_t now_ms)
{
	if (!ps->dir || (ps->looked_at_ms && now_ms < ps->looked_at_ms + REFRESH_EVERY_MS))
		return;
	ps->looked_at_ms = now_ms;
	for (int k = 0; k < POLICY_KIND_COUNT; k++)
		load_file(ps, (enum policy_kind)k);
}

struct policy_set *policy_set_new(const char *dir)
{
	struct policy_set *ps = mem_zalloc(sizeof(*ps));
	if (dir)
		ps->dir = mem_strdup(dir);
	for (int k = 0; k < POLICY_KIND_COUNT; k++) {
		for (int s = 0; s < POLICY_SOURCE_COUNT; s++)
			snprintf(ps->versions[k][s].chunk, sizeof(ps->versions[k][s].chunk), "%s.lua",
			         policy_kind_name((enum policy_kind)k));
		load_shipped(ps, (enum policy_kind)k);
	}
	return ps;
}

void policy_set_free(struct policy_set *ps)
{
	if (!ps)
		return;
	for (int k = 0; k < POLICY_KIND_COUNT; k++) {
		for (int s = 0; s < POLICY_SOURCE_COUNT; s++)
			buf_fini(&ps->versions[k][s].text);
	}
	mem_free(ps->dir);
	mem_free(ps);
}

const struct policy_stats *policy_set_stats(const struct policy_set *ps, enum policy_kind k)
{
	return &ps->stats[k];
}

size_t policy_set_peak(const struct policy_set *ps)
{
	return ps->peak;
}

/* ---- running ---- */

struct attempt {
	const struct version *version;
	const char *kind;
	const struct policy_call *call;
	bool loading; /* a fault now is one of loading */
};

static const char attempt_key;

bool policy_push_optional(lua_State *L, const char *function)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &attempt_key);
	struct attempt *at = lua_touserdata(L, -1);
	lua_pop(L, 1);
	at->loading = true;
	sandbox_push_chunk(L, at->version->chunk,
	                   (struct str){ (const char *)at->version->text.data, at->version->text.len });
	if (!lua_istable(L, -1))
		luaL_error(L, "%s: returns a %s, a policy returns a table of functions", at->version->chunk,
		           luaL_typename(L, -1));
	lua_pushstring(L, function);
	const bool found = lua_rawget(L, -2) == LUA_TFUNCTION;
	lua_remove(L, -2);
	if (!found)
		lua_pop(L, 1);
	at->loading = false;
	return found;
}

void policy_push_function(lua_State *L, const char *function)
{
	if (policy_push_optional(L, function))
		return;
	lua_rawgetp(L, LUA_REGISTRYINDEX, &attempt_key);
	struct attempt *at = lua_touserdata(L, -1);
	at->loading = true;
	luaL_error(L, "%s: the table it returns has no function '%s'", at->version->chunk, function);
}

struct view_placement policy_placement(const struct policy_set *ps)
{
	for (int s = 0; s < POLICY_SOURCE_COUNT; s++) {
		const struct version *v = &ps->versions[POLICY_PLACEMENT][s];
		if (v->present && !v->benched)
			return (struct view_placement){ v->chunk, { (const char *)v->text.data, v->text.len } };
	}
	return (struct view_placement){ NULL, { NULL, 0 } };
}

static LUA_JUMPS int run_attempt(lua_State *L)
{
	struct attempt *at = lua_touserdata(L, 1);
	lua_pushlightuserdata(L, at);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &attempt_key);
	lua_pushcfunction(L, at->call->run);
	lua_pushlightuserdata(L, at->call->arg);
	lua_call(L, 1, 0);
	return 0;
}

static int try_version(struct policy_set *ps, const struct version *v, const struct policy_call *call,
                       struct sandbox_fault *fault)
{
	struct attempt at = { .version = v, .kind = policy_kind_name(call->kind), .call = call };
	struct sandbox *sb = sandbox_new(call->budget, &policy_modules);
	if (call->before)
		call->before(call->arg, sb);
	const int rc = sandbox_host_call(sb, run_attempt, &at, 0, fault);
	if (rc != 0 && at.loading)
		sandbox_fault_in_load(fault);
	if (call->after)
		call->after(call->arg, sb);
	if (sandbox_peak_bytes(sb) > ps->peak)
		ps->peak = sandbox_peak_bytes(sb);
	sandbox_free(sb);
	return rc;
}

void policy_view_begin(void *arg, struct sandbox *sb)
{
	struct cluster_view **view = arg;
	(*view)->sb = sb;
}

void policy_view_end(void *arg, struct sandbox *sb)
{
	(void)sb;
	policy_view_begin(arg, NULL);
}

int policy_run(struct policy_set *ps, const struct policy_call *call, struct sandbox_fault *fault)
{
	*fault = (struct sandbox_fault){ .kind = SANDBOX_FAULT_LOAD };
	snprintf(fault->message, sizeof(fault->message), "no %s policy is in force", policy_kind_name(call->kind));
	for (int s = 0; s < POLICY_SOURCE_COUNT; s++) {
		struct version *v = &ps->versions[call->kind][s];
		if (!v->present || v->benched)
			continue;
		const uint64_t began_ns = clock_mono_ns();
		const int rc = try_version(ps, v, call, fault);
		prom_observe(&ps->stats[call->kind].runs, clock_mono_ns() - began_ns);
		if (rc == 0)
			return 0;
		prom_count(&ps->stats[call->kind].faults, 1);
		v->benched =
		    fault->kind == SANDBOX_FAULT_LOAD || (fault->kind == SANDBOX_FAULT_BUDGET && s != POLICY_SHIPPED);
		if (note_fault(call->kind, (enum policy_source)s, fault, v->benched))
			log_error("policy.fault", "kind=%s source=%s fault=%s line=%d benched=%s message=\"%s\"",
			          policy_kind_name(call->kind), policy_source_name((enum policy_source)s),
			          sandbox_fault_name(fault->kind), fault->line, v->benched ? "yes" : "no",
			          fault->message);
	}
	return ERR_INVALID;
}
