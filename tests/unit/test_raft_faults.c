/* The deliberate faults of src/raft: each one, switched on, is found from outside; switched off, the same search finds
 * nothing (test_raft_random). A check that no broken rule can fail does not count.
 *
 * The core is compiled into this program once more, with its faults. Each seed runs in a process of its own, since a
 * broken core may also fall over its own assertions.
 */
#define VEENA_SIM
// NOLINTBEGIN(bugprone-suspicious-include)
#include "raft/advance.c"
#include "raft/cache.c"
#include "raft/check.c"
#include "raft/compact.c"
#include "raft/conf.c"
#include "raft/conf_change.c"
#include "raft/confs.c"
#include "raft/disk.c"
#include "raft/election.c"
#include "raft/fetch.c"
#include "raft/follow.c"
#include "raft/lead.c"
#include "raft/out.c"
#include "raft/peer.c"
#include "raft/quorum.c"
#include "raft/raft.c"
#include "raft/read.c"
#include "raft/ready.c"
#include "raft/replicate.c"
#include "raft/rlog.c"
#include "raft/role.c"
#include "raft/snapshot_install.c"
#include "raft/snapshot_send.c"
#include "raft/terms.c"
#include "raft/transfer.c"
// NOLINTEND(bugprone-suspicious-include)

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raft_chaos.h"

#define SEEDS_MAX 400

static const char *switched_on = "";

bool sim_fault(const char *name)
{
	return strcmp(name, switched_on) == 0;
}

/* ---- where chance would take too long: scripts ---- */

static struct rc *settled(void)
{
	struct rc *c = rc_new(5, 3);
	c->params.append_bytes_max = 1; /* entry by entry */
	c->trace = 0;
	rc_bootstrap(c, 5);
	rc_run(c, 100);
	return c;
}

static void propose(struct rc *c, size_t node, size_t count)
{
	if (rc_propose(c, node, count) != 0)
		rc_violate(c, "n%zu does not take a proposal", node + 1);
}

/* Figure 8 to its end: an entry of term 2 comes to a majority under the leader of term 4, who dies; the leader of term
 * 5, who never had it, replaces it. */
static struct rc *figure_8(uint64_t seed)
{
	(void)seed;
	struct rc *c = settled();
	for (size_t i = 2; i < 5; i++)
		c->cut[0][i] = true;
	propose(c, 0, 1);
	rc_run(c, 3);
	rc_crash(c, 0, true);
	rc_heal(c);
	rc_cut_off(c, 1, true);
	rc_let_win(c, 4);
	for (size_t i = 0; i < 4; i++)
		c->cut[4][i] = true;
	propose(c, 4, 1);
	rc_run(c, 3);
	rc_crash(c, 4, true);
	rc_heal(c);
	rc_start(c, 0);
	rc_cut_off(c, 3, true);
	rc_let_win(c, 0);
	for (int i = 0; i < 50 && !rc_disk_holds(&c->nodes[2].disk, 3, 2); i++)
		rc_step(c);
	c->cut[0][2] = true; /* n3 does not get the no-op */
	rc_run(c, 20);
	rc_crash(c, 0, true);
	rc_heal(c);
	rc_start(c, 4);
	rc_let_win(c, 4);
	rc_run(c, 100);
	return c;
}

/* A leader that reaches nobody, for ten election timeouts. */
static struct rc *deposed_leader(uint64_t seed)
{
	(void)seed;
	struct rc *c = settled();
	rc_cut_off(c, 0, true);
	rc_run(c, 5000);
	if (rc_view(c, 0).role == RAFT_LEADER)
		rc_violate(c, "a leader that reaches nobody stays");
	return c;
}

/* n2 has entries of term 2 with its disk when the leader of term 3 replaces them; then the first writes return. */
static struct rc *late_completion(uint64_t seed)
{
	(void)seed;
	struct rc *c = settled();
	for (size_t i = 2; i < 5; i++)
		c->cut[0][i] = true;
	c->nodes[1].disk_held = true;
	propose(c, 0, 1);
	rc_run(c, 3);
	rc_crash(c, 0, true);
	raft_peer_lost(c->nodes[1].raft, 1, false); /* so it listens to n3, and the term comes to the disk by itself */
	rc_let_win(c, 2);
	rc_run(c, 20);
	for (int i = 0; i < 5; i++) {
		rc_return_writes(c, 1, 1);
		rc_run(c, 10);
	}
	return c;
}

static struct rc *search(uint64_t seed)
{
	struct rc *c = chaos_new(seed);
	chaos_run(c, 2000);
	chaos_converge(c);
	return c;
}

/* ---- one fault, one seed, one process ---- */

struct fault {
	const char *name;
	struct rc *(*run)(uint64_t seed);
	uint64_t seed;    /* known to catch it; if the core moved on, others are tried */
	const char *says; /* part of what is found */
};

static const struct fault faults[] = {
	{ "commit-older-term", figure_8, 1, "leads without committed entry 3" },
	{ "no-log-matching", search, 35, "" },
	{ "no-up-to-date-check", search, 1, "leads without committed entry" },
	{ "no-check-quorum", deposed_leader, 1, "stays" },
	{ "stale-completion-taken", late_completion, 1, "before it was durable" },
	{ "apply-beyond-durable", search, 1, "applied before it was durable" },
	{ "conf-only-from-commit", search, 1, "" },
	{ "truncated-conf-kept", search, 4, "configuration" },
	{ "prevote-counted-as-vote", search, 120, "two leaders in term" },
	{ "read-before-noop", search, 1, "a read at" },
	{ "vote-before-durable", search, 1, "a vote of term" },
	{ "ack-before-durable", search, 1, "before it was durable" },
	{ "wiped-voter-counted", search, 86, "leads without committed entry" },
};

static char *found; /* shared with the children; what a seed found */

/* Empty: every promise was kept. */
static void run_seed(const struct fault *f, const char *switched, uint64_t seed)
{
	found[0] = '\0';
	fflush(NULL);
	const pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		/* A broken core may abort, or break the harness: that is no promise found broken. */
		const int null = open("/dev/null", O_WRONLY);
		dup2(null, STDERR_FILENO);
		switched_on = switched;
		const struct rc *c = f->run(seed);
		memcpy(found, c->violation, sizeof(c->violation));
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	if (switched[0] == '\0' && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		fail_msg("seed %" PRIu64 " of %s, without the fault: the core fell over", seed, f->name);
}

static bool is_caught(const struct fault *f, uint64_t seed)
{
	run_seed(f, f->name, seed);
	return found[0] != '\0' && strstr(found, f->says);
}

static void test_each_fault_is_caught(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
		const struct fault *f = &faults[i];
		uint64_t seed = f->seed;
		bool caught = is_caught(f, seed);
		for (uint64_t other = 1; !caught && other <= SEEDS_MAX; other++) {
			seed = other;
			caught = is_caught(f, other);
		}
		if (!caught)
			fail_msg("%s is not caught by %d seeds", f->name, SEEDS_MAX);
		printf("%-24s seed %3" PRIu64 ": %s\n", f->name, seed, found);
		run_seed(f, "", seed);
		if (found[0])
			fail_msg("seed %" PRIu64 " of %s finds without the fault: %s", seed, f->name, found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_fault_is_caught),
	};
	found = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(found != MAP_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
