/* tests/cluster/proc.c - the Lua module `proc`: what the cluster tests need of the system and Lua lacks.
 *
 *   pid = proc.spawn{ "build/veenad", "--dev", out = "log", env = { "A=b" } }
 *   proc.kill(pid, proc.SIGKILL)          code, signal = proc.wait(pid, 5000)      nil after the time
 *   ports = proc.free_ports(6)            ms = proc.now_ms()      proc.sleep_ms(5)      dir =
 * proc.mkdtemp("/tmp/veena-")
 *
 * A child dies with its parent (PR_SET_PDEATHSIG): a test that is killed leaves no process behind. Failures of the
 * system come back as nil and a text; wrong arguments raise.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>

#define ARGS_MAX 128
/* Below what the kernel gives to outgoing connections, so that none of them takes a port we found free. */
#define PORT_LOW 12000
#define PORT_COUNT 18000

int luaopen_proc(lua_State *L);

static int fail_errno(lua_State *L, const char *what)
{
	lua_pushnil(L);
	lua_pushfstring(L, "%s: %s", what, strerror(errno));
	return 2;
}

/* Collects the strings of the table at `index` into `out`, NULL at the end; they live as long as the table. */
static void collect_strings(lua_State *L, int index, char **out)
{
	const lua_Unsigned n = lua_rawlen(L, index);

	luaL_argcheck(L, n < ARGS_MAX, index, "too many strings");
	for (lua_Unsigned i = 0; i < n; i++) {
		lua_rawgeti(L, index, (lua_Integer)i + 1);
		luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, index, "strings only");
		out[i] = (char *)(uintptr_t)lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	out[n] = NULL;
}

/* In the child: never returns. A failure before exec is one byte of errno down the pipe. */
static void run_child(char **argv, char **env, const char *out_path, int report_fd)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	uint8_t code;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (char **e = env; *e; e++)
		putenv(*e);
	if (fd < 0 || dup2(fd, 0) < 0)
		goto failed;
	fd = open(out_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
		goto failed;
	execvp(argv[0], argv);
failed:
	code = (uint8_t)errno;
	(void)!write(report_fd, &code, 1);
	_exit(127);
}

static int proc_spawn(lua_State *L)
{
	char *argv[ARGS_MAX], *env[ARGS_MAX] = { NULL };
	const char *out_path;
	int report[2];
	uint8_t code;
	pid_t pid;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	collect_strings(L, 1, argv);
	luaL_argcheck(L, argv[0] != NULL, 1, "no program");
	lua_getfield(L, 1, "out");
	out_path = luaL_optstring(L, 2, "/dev/null");
	if (lua_getfield(L, 1, "env") == LUA_TTABLE)
		collect_strings(L, 3, env);

	if (pipe2(report, O_CLOEXEC) != 0)
		return fail_errno(L, "pipe2");
	pid = fork();
	if (pid == 0)
		run_child(argv, env, out_path, report[1]);
	close(report[1]);
	if (pid < 0) {
		close(report[0]);
		return fail_errno(L, "fork");
	}
	if (read(report[0], &code, 1) == 1) {
		close(report[0]);
		waitpid(pid, NULL, 0);
		errno = code;
		return fail_errno(L, argv[0]);
	}
	close(report[0]);
	lua_pushinteger(L, pid);
	return 1;
}

static int proc_kill(lua_State *L)
{
	const pid_t pid = (pid_t)luaL_checkinteger(L, 1);

	/* 0 and negative numbers mean groups of processes: never ours to end. */
	luaL_argcheck(L, pid > 1, 1, "not a process id");
	if (kill(pid, (int)luaL_checkinteger(L, 2)) != 0)
		return fail_errno(L, "kill");
	lua_pushboolean(L, true);
	return 1;
}

/* Exit code or nil, signal or nil; nothing but nil while the child still runs after `ms`. */
static int proc_wait(lua_State *L)
{
	const pid_t pid = (pid_t)luaL_checkinteger(L, 1);
	const int ms = (int)luaL_optinteger(L, 2, -1);
	struct pollfd p = { .events = POLLIN };
	int status, n;

	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0)
		return fail_errno(L, "pidfd_open");
	do
		n = poll(&p, 1, ms);
	while (n < 0 && errno == EINTR);
	close(p.fd);
	if (n == 0) {
		lua_pushnil(L);
		return 1;
	}
	if (n < 0 || waitpid(pid, &status, 0) < 0)
		return fail_errno(L, "wait");
	if (WIFEXITED(status)) {
		lua_pushinteger(L, WEXITSTATUS(status));
		return 1;
	}
	lua_pushnil(L);
	lua_pushinteger(L, WTERMSIG(status));
	return 2;
}

static bool port_is_free(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_free;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	is_free = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
	if (fd >= 0)
		close(fd);
	return is_free;
}

/* `n` ports of 127.0.0.1 that nobody listens on. Starts at a random one, so that parallel tests hardly ever meet. */
static int proc_free_ports(lua_State *L)
{
	const lua_Integer n = luaL_checkinteger(L, 1);
	lua_Integer found = 0;
	uint32_t start;

	if (getrandom(&start, sizeof(start), 0) != sizeof(start))
		return fail_errno(L, "getrandom");
	lua_createtable(L, (int)n, 0);
	for (uint32_t i = 0; i < PORT_COUNT && found < n; i++) {
		const uint16_t port = (uint16_t)(PORT_LOW + (start + i) % PORT_COUNT);

		if (port_is_free(port)) {
			lua_pushinteger(L, port);
			lua_rawseti(L, -2, ++found);
		}
	}
	if (found < n)
		return luaL_error(L, "no free ports");
	return 1;
}

static int proc_now_ms(lua_State *L)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	lua_pushnumber(L, (lua_Number)t.tv_sec * 1e3 + (lua_Number)t.tv_nsec / 1e6);
	return 1;
}

static int proc_sleep_ms(lua_State *L)
{
	const double ms = luaL_checknumber(L, 1);
	struct timespec t = { .tv_sec = (time_t)(ms / 1e3) };

	t.tv_nsec = (long)((ms - (double)t.tv_sec * 1e3) * 1e6);
	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
	return 0;
}

static int proc_mkdtemp(lua_State *L)
{
	char path[512];
	const char *prefix = luaL_checkstring(L, 1);

	luaL_argcheck(L, strlen(prefix) + 7 < sizeof(path), 1, "too long");
	stpcpy(stpcpy(path, prefix), "XXXXXX");
	if (!mkdtemp(path))
		return fail_errno(L, prefix);
	lua_pushstring(L, path);
	return 1;
}

int luaopen_proc(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "spawn", proc_spawn },     { "kill", proc_kill },
		{ "wait", proc_wait },       { "free_ports", proc_free_ports },
		{ "now_ms", proc_now_ms },   { "sleep_ms", proc_sleep_ms },
		{ "mkdtemp", proc_mkdtemp }, { NULL, NULL },
	};
	static const struct {
		const char *name;
		int number;
	} signals[] = {
		{ "SIGHUP", SIGHUP },   { "SIGINT", SIGINT },   { "SIGKILL", SIGKILL },
		{ "SIGTERM", SIGTERM }, { "SIGSTOP", SIGSTOP }, { "SIGCONT", SIGCONT },
	};

	luaL_newlib(L, functions);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		lua_pushinteger(L, signals[i].number);
		lua_setfield(L, -2, signals[i].name);
	}
	return 1;
}
