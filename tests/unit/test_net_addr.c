/* Addresses: what is one, what it stands for, and what a taken or foreign one answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/addr.h"
#include "net_harness.h"

/* Every accepted spelling gives host and port, and comes out again in the one form others compare. */
static void test_addr_reads_what_is_one(void **state)
{
	(void)state;
	static const struct {
		const char *text, *host, *formatted;
		unsigned port;
	} cases[] = {
		{ "node1:7943", "node1", "node1:7943", 7943 },
		{ "Node1.Example:1", "node1.example", "node1.example:1", 1 },
		{ "10.0.0.1:65535", "10.0.0.1", "10.0.0.1:65535", 65535 },
		{ "[::1]:7943", "::1", "[::1]:7943", 7943 },
		{ "[FE80::1]:80", "fe80::1", "[fe80::1]:80", 80 },
		{ "my_host-2:80", "my_host-2", "my_host-2:80", 80 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_addr a;
		char text[NET_ADDR_MAX + 1];
		assert_int_equal(net_addr_parse(cases[i].text, &a, NULL), 0);
		assert_string_equal(a.host, cases[i].host);
		assert_int_equal(a.port, cases[i].port);
		net_addr_format(&a, text);
		assert_string_equal(text, cases[i].formatted);
	}
}

/* What is no address is refused, says why, and leaves the output alone; port 0 is never an address (F50). */
static void test_addr_refuses_what_is_none(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "", "host:port" },
		{ "node1", "host:port" },
		{ "::1:7943", "host:port" },
		{ "[::1]7943", "host:port" },
		{ "[::1:7943", "host:port" },
		{ "http://a:1", "host:port" },
		{ ":7943", "host is missing" },
		{ "[]:7943", "IPv6" },
		{ "[::g]:1", "IPv6" },
		{ "[127.0.0.1]:1", "IPv6" },
		{ "node1:", "1 to 65535" },
		{ "node1:0", "port 0" },
		{ "node1:65536", "1 to 65535" },
		{ "node1:+1", "1 to 65535" },
		{ "node1:1x", "1 to 65535" },
		{ "no de:1", "letters" },
		{ "n\n:1", "letters" },
		{ "a/b:1", "letters" },
		{ "1.2.3:1", "IPv4" },
		{ "a..b:1", "name" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_addr a = { .port = 4711 };
		struct err e;
		assert_int_equal(net_addr_parse(cases[i].text, &a, &e), ERR_INVALID);
		assert_non_null(strstr(e.msg, cases[i].says));
		assert_int_equal(a.port, 4711);
	}
	char longest[300];
	memset(longest, 'a', sizeof(longest));
	memcpy(longest + NET_HOST_MAX, ":65535", 7);
	struct net_addr a;
	assert_int_equal(net_addr_parse(longest, &a, NULL), 0);
	memcpy(longest + NET_HOST_MAX, "a:65535", 8);
	assert_int_equal(net_addr_parse(longest, &a, NULL), ERR_INVALID);
}

/* Loopback and wildcard are known in every spelling the resolver takes for them (F50). */
static void test_addr_knows_its_kind(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool loopback, wildcard, numeric;
	} cases[] = {
		{ "127.0.0.1:1", true, false, true },
		{ "127.9.9.9:1", true, false, true },
		{ "[::1]:1", true, false, true },
		{ "[::ffff:127.0.0.1]:1", true, false, true },
		{ "localhost:1", true, false, false },
		{ "LOCALHOST:1", true, false, false },
		{ "0.0.0.0:1", false, true, true },
		{ "0x0:1", false, true, true },
		{ "[::]:1", false, true, true },
		{ "[0:0::0]:1", false, true, true },
		{ "[::ffff:0.0.0.0]:1", false, true, true },
		{ "10.0.0.1:1", false, false, true },
		{ "[fe80::1]:1", false, false, true },
		{ "example:1", false, false, false },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct net_addr a;
		assert_int_equal(net_addr_parse(cases[i].text, &a, NULL), 0);
		assert_int_equal(net_addr_is_loopback(&a), cases[i].loopback);
		assert_int_equal(net_addr_is_wildcard(&a), cases[i].wildcard);
		assert_int_equal(net_addr_is_numeric(&a), cases[i].numeric);
	}
}

/* A taken port, an address of another machine and a name nobody knows are told apart; a free one listens. */
static void test_listen_says_why_not(void **state)
{
	(void)state;
	char addr[NET_ADDR_MAX + 1];
	struct err e;
	int fd = -1;
	const int taken = listen_anywhere(addr);
	assert_int_equal(net_listen(addr, &fd, &e), ERR_BUSY);
	assert_non_null(strstr(e.msg, addr));
	close(taken);
	assert_int_equal(net_listen(addr, &fd, &e), 0);
	const int client = connect_to(addr);
	close(client);
	close(fd);
	assert_int_equal(net_listen("192.0.2.1:7943", &fd, &e), ERR_INVALID);
	assert_int_equal(net_listen("no-such-host.invalid:7943", &fd, &e), ERR_NOTFOUND);
	assert_int_equal(net_listen("7943", &fd, &e), ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_addr_reads_what_is_one),
		cmocka_unit_test(test_addr_refuses_what_is_none),
		cmocka_unit_test(test_addr_knows_its_kind),
		cmocka_unit_test(test_listen_says_why_not),
	};
	return cmocka_run_group_tests_name("net_addr", tests, NULL, NULL);
}
