/* Runs seeds, each in a process of its own: a crash or a hang of one is one failed seed.
 *
 *   simulator run            seeds FIRST.. (environment, default 1), SEEDS of them (default 100)
 *   simulator seed N         one seed, with its trace; FAULT=NAME switches a deliberate fault on
 *   simulator faults         searches a catching seed for each deliberate fault, at most SEEDS (default 1000)
 *   simulator check          the short form: same seed same trace, SEEDS seeds, each fault from its recorded seed
 */
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "sim.h"

#define SEED_WALL_S 120 /* real seconds: a seed that takes longer hangs */
#define WORKERS_MAX 16

const char *sim_active_fault;

bool sim_fault(const char *name)
{
	return sim_active_fault && strcmp(sim_active_fault, name) == 0;
}

static pid_t run_id; /* of the process that hands out seeds: lives longer than all their directories */

void sim_root(uint64_t seed, char *out, size_t cap)
{
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(out, cap, "%s/veena-sim-%d-%" PRIu64, tmp, (int)run_id, seed);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

static void remove_tree(uint64_t seed)
{
	char root[256];
	sim_root(seed, root, sizeof(root));
	if (nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT)
		fprintf(stderr, "sim: could not remove %s: %s\n", root, strerror(errno));
}

/* What a child tells its parent through a pipe. */
struct verdict {
	bool failed;
	uint64_t hash;
	char why[512];
};

static int run_child(uint64_t seed, const char *fault, int out)
{
	alarm(SEED_WALL_S);
	remove_tree(seed); /* of an earlier run of this number */
	sim_active_fault = fault;
	world_run(seed, false);
	struct verdict v = { .failed = w.failed, .hash = w.trace_hash };
	snprintf(v.why, sizeof(v.why), "%s", w.failure);
	const ssize_t n = write(out, &v, sizeof(v));
	_exit(n == (ssize_t)sizeof(v) ? 0 : 1);
}

struct worker {
	pid_t pid;
	uint64_t seed;
	int in;
};

static void spawn(struct worker *k, uint64_t seed, const char *fault)
{
	int ends[2];
	if (pipe(ends) != 0) {
		perror("sim: pipe");
		exit(1);
	}
	fflush(stdout);
	k->seed = seed;
	k->in = ends[0];
	k->pid = fork();
	if (k->pid == 0) {
		if (fault && !freopen("/dev/null", "w", stderr)) /* a fault may end in an assertion: expected noise */
			_exit(1);
		run_child(seed, fault, ends[1]);
	}
	close(ends[1]);
}

static struct verdict collect(struct worker *k)
{
	struct verdict v = { .failed = true };
	const ssize_t n = read(k->in, &v, sizeof(v));
	int status = 0;
	while (waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
		;
	close(k->in);
	if (n != (ssize_t)sizeof(v)) {
		v.failed = true;
		if (WIFSIGNALED(status))
			snprintf(v.why, sizeof(v.why), "died of signal %d (%s)", WTERMSIG(status),
			         strsignal(WTERMSIG(status)));
		else
			snprintf(v.why, sizeof(v.why), "ended with status %d", WEXITSTATUS(status));
	}
	remove_tree(k->seed);
	k->pid = 0;
	return v;
}

/* One that has something to say; NULL when none is at work. */
static struct worker *wait_any(struct worker *workers, size_t count)
{
	struct pollfd fds[WORKERS_MAX];
	size_t busy = 0;
	for (size_t i = 0; i < count; i++) {
		fds[i] = (struct pollfd){ .fd = workers[i].pid ? workers[i].in : -1, .events = POLLIN };
		busy += workers[i].pid != 0;
	}
	while (busy && poll(fds, count, -1) < 0 && errno == EINTR)
		;
	for (size_t i = 0; busy && i < count; i++) {
		if (fds[i].revents)
			return &workers[i];
	}
	return NULL;
}

static size_t worker_count(void)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	return cores < 1 ? 1 : cores > WORKERS_MAX ? WORKERS_MAX : (size_t)cores;
}

/* Runs seeds first..first+count-1; stops at the first failure if told to. Returns failures; *failing gets a seed. */
static uint64_t run_seeds(uint64_t first, uint64_t count, const char *fault, bool stop, uint64_t *ran,
                          uint64_t *failing, struct verdict *why)
{
	struct worker workers[WORKERS_MAX] = { 0 };
	const size_t worker_max = worker_count();
	uint64_t next = first;
	uint64_t failures = 0;
	*ran = 0;
	for (;;) {
		for (size_t i = 0; i < worker_max; i++) {
			if (!workers[i].pid && next < first + count && !(stop && failures))
				spawn(&workers[i], next++, fault);
		}
		struct worker *k = wait_any(workers, worker_max);
		if (!k)
			return failures;
		const uint64_t seed = k->seed;
		const struct verdict v = collect(k);
		++*ran;
		if (!v.failed)
			continue;
		if (failures++ == 0) {
			*failing = seed;
			*why = v;
		}
		if (!stop)
			printf("seed %" PRIu64 ": %s\n  replay: make sim-seed SEED=%" PRIu64 "\n", seed, v.why, seed);
	}
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static const char *fault_from_env(void)
{
	const char *text = getenv("FAULT");
	return text && *text ? text : NULL;
}

/* What all parts of a run passed and failed. */
struct tally {
	uint64_t passed;
	uint64_t failed;
};

static void run_range(uint64_t first, uint64_t count, struct tally *t)
{
	uint64_t ran;
	uint64_t failing;
	struct verdict why;
	printf("sim: seeds %" PRIu64 "..%" PRIu64 "\n", first, first + count - 1);
	const uint64_t failures = run_seeds(first, count, NULL, false, &ran, &failing, &why);
	t->passed += ran - failures;
	t->failed += failures;
}

static int close_tally(const struct tally *t)
{
	printf("%" PRIu64 " passed, %" PRIu64 " failed\n", t->passed, t->failed);
	return t->failed || !t->passed ? 1 : 0;
}

static int run_one(uint64_t seed, const char *fault, bool verbose)
{
	remove_tree(seed);
	sim_active_fault = fault;
	world_run(seed, verbose);
	if (verbose && w.failed)
		printf("FAILED: %s\n", w.failure);
	printf("seed %" PRIu64 " %s hash %016" PRIx64 "\n", seed, w.failed ? "failed" : "passed", w.trace_hash);
	remove_tree(seed);
	return w.failed ? 1 : 0;
}

/* Searches a seed that catches the fault, the recorded one first. */
static bool catch_fault(const char *fault, uint64_t recorded, uint64_t limit)
{
	uint64_t ran = 0;
	uint64_t seed = 0;
	struct verdict why = { 0 };
	uint64_t caught = recorded ? run_seeds(recorded, 1, fault, true, &ran, &seed, &why) : 0;
	if (!caught)
		caught = run_seeds(1, limit, fault, true, &ran, &seed, &why);
	if (caught)
		printf("caught %s seed %" PRIu64 " after %" PRIu64 " seeds: %s\n", fault, seed, ran, why.why);
	else
		printf("SURVIVED %s: %" PRIu64 " seeds did not catch it\n", fault, ran);
	fflush(stdout);
	return caught > 0;
}

/* The deliberate faults, each with a seed that caught it when this was written. A change of the code under test moves
 * traces; then the search finds another. */
static const struct {
	const char *name;
	uint64_t seed;
} faults[] = {
	{ "vote-not-persisted", 2 },
	{ "term-and-vote-in-two-writes", 2 },
	{ "commit-older-term", 1 },
	{ "no-log-matching", 6 },
	{ "no-up-to-date-check", 8 },
	{ "apply-beyond-durable", 21 },
	{ "applied-ahead-of-effects", 6 },
	{ "ack-before-sync", 2 },
	{ "ack-before-durable", 1 },
	{ "no-check-quorum", 4 },
	{ "conf-only-from-commit", 1 },
	{ "truncated-conf-kept", 16 },
	{ "torn-tail-accepted", 44 },
	{ "damage-cut-off", 328 },
	{ "refusal-leaves-effects", 1 },
	{ "prevote-counted-as-vote", 1 },
	{ "read-before-noop", 52 },
	{ "read-without-round", 1 },
	{ "wiped-voter-counted", 11 },
	{ "vote-before-durable", 14 },
	{ "append-under-old-term", 1 },
	{ "snapshot-wrong-index", 208 },
	{ "snapshot-renamed-before-sync", 13 },
};

static void run_faults(bool anew, struct tally *t)
{
	const uint64_t limit = anew ? number_from("SEEDS", 1000) : 1000;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (catch_fault(faults[i].name, anew ? 0 : faults[i].seed, limit))
			t->passed++;
		else
			t->failed++;
	}
}

/* The same seed twice, in two processes, gives the same trace. */
static void run_twice(uint64_t seed, struct tally *t)
{
	struct worker k = { 0 };
	spawn(&k, seed, NULL);
	const struct verdict a = collect(&k);
	spawn(&k, seed, NULL);
	const struct verdict b = collect(&k);
	const bool same = a.hash == b.hash && a.hash != 0;
	printf("sim: seed %" PRIu64 " twice: %016" PRIx64 " %016" PRIx64 " %s\n", seed, a.hash, b.hash,
	       same ? "same" : "DIFFERENT");
	t->passed += same;
	t->failed += !same;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "run";
	struct tally t = { 0 };
	run_id = getpid();
	/* The 16 MiB of a list of changes come zeroed as they are touched; LMDB's 2 MiB for each entry stay in the
	 * heap. */
	mallopt(M_MMAP_THRESHOLD, 4 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	if (strcmp(verb, "seed") == 0 && argc > 2)
		return run_one(strtoull(argv[2], NULL, 10), fault_from_env(), true);
	if (strcmp(verb, "run") == 0) {
		run_range(number_from("FIRST", 1), number_from("SEEDS", 100), &t);
		return close_tally(&t);
	}
	if (strcmp(verb, "faults") == 0) {
		run_faults(true, &t);
		return close_tally(&t);
	}
	if (strcmp(verb, "check") == 0) {
		for (uint64_t seed = 1; seed <= 5; seed++)
			run_twice(seed, &t);
		run_range(number_from("FIRST", 1), number_from("SEEDS", 1000), &t);
		run_faults(false, &t);
		return close_tally(&t);
	}
	fprintf(stderr, "usage: simulator run | seed N | faults | check\n");
	return 2;
}
