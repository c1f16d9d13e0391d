#include "net/addr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "model/rules.h"

/* Why the text is no address, in words; only for texts that host_port_parse refused. */
static const char *explain(const char *text)
{
	const char *colon = strrchr(text, ':');
	const bool bracketed = text[0] == '[';
	if (!colon || (!bracketed && strchr(text, ':') != colon) || (bracketed && !(colon > text && colon[-1] == ']')))
		return "write host:port, an IPv6 address in brackets";
	uint64_t port;
	if (!u64_parse(str_of(colon + 1), &port) || port > 65535)
		return "the port must be a number from 1 to 65535";
	if (port == 0)
		return "port 0 is no address others could use, give a fixed port from 1 to 65535";
	if (colon == text)
		return "the host is missing, 0.0.0.0 stands for every address of this machine";
	if (bracketed)
		return "what stands in brackets is no IPv6 address";
	if (colon - text > NET_HOST_MAX)
		return "a host has at most 253 bytes";
	return "a host is an IPv4 address or a name of letters, digits, '.', '-' and '_'";
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

int net_addr_parse(const char *text, struct net_addr *out, struct err *e)
{
	struct host_port hp;
	if (!host_port_parse(str_of(text), &hp)) {
		char shown[128];
		return err_set(e, ERR_INVALID, "\"%s\" is no address: %s",
		               log_quote(shown, sizeof(shown), text, strlen(text)), explain(text));
	}
	assert(hp.host.len <= NET_HOST_MAX);
	struct net_addr a = { .port = hp.port };
	for (size_t i = 0; i < hp.host.len; i++)
		a.host[i] = lower(hp.host.p[i]);
	*out = a;
	return 0;
}

void net_addr_format(const struct net_addr *a, char out[NET_ADDR_MAX + 1])
{
	const bool v6 = strchr(a->host, ':') != NULL;
	const int n = snprintf(out, NET_ADDR_MAX + 1, "%s%s%s:%u", v6 ? "[" : "", a->host, v6 ? "]" : "", a->port);
	assert(n > 0 && n <= NET_ADDR_MAX);
}

/* Reads the host as an IP address the way connect would: "0", "127.1" and the like are addresses too. */
static bool numeric(const struct net_addr *a, struct sockaddr_storage *out)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                        .ai_socktype = SOCK_STREAM,
		                        .ai_flags = AI_NUMERICHOST };
	struct addrinfo *found = NULL;
	if (getaddrinfo(a->host, NULL, &hints, &found) != 0)
		return false;
	assert(found->ai_addrlen <= sizeof(*out));
	memset(out, 0, sizeof(*out));
	memcpy(out, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

/* The IPv4 address in host byte order, also of ::ffff:a.b.c.d. */
static bool as_ipv4(const struct sockaddr_storage *s, uint32_t *out)
{
	if (s->ss_family == AF_INET) {
		*out = ntohl(((const struct sockaddr_in *)(const void *)s)->sin_addr.s_addr);
		return true;
	}
	const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)s)->sin6_addr;
	if (!IN6_IS_ADDR_V4MAPPED(in6))
		return false;
	uint32_t be;
	memcpy(&be, in6->s6_addr + 12, sizeof(be));
	*out = ntohl(be);
	return true;
}

bool net_addr_is_numeric(const struct net_addr *a)
{
	struct sockaddr_storage s;
	return numeric(a, &s);
}

bool net_addr_is_loopback(const struct net_addr *a)
{
	struct sockaddr_storage s;
	if (!numeric(a, &s))
		return strcmp(a->host, "localhost") == 0;
	uint32_t v4;
	if (as_ipv4(&s, &v4))
		return v4 >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)&s)->sin6_addr);
}

bool net_addr_is_wildcard(const struct net_addr *a)
{
	struct sockaddr_storage s;
	if (!numeric(a, &s))
		return false;
	uint32_t v4;
	if (as_ipv4(&s, &v4))
		return v4 == 0;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)&s)->sin6_addr);
}

bool net_addr_equal(const struct net_addr *a, const struct net_addr *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

int net_resolve(const struct net_addr *a, struct net_resolved *out, struct err *e)
{
	char service[8];
	(void)snprintf(service, sizeof(service), "%u", a->port); /* at most 5 digits */
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                        .ai_socktype = SOCK_STREAM,
		                        .ai_flags = AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	const int rc = getaddrinfo(a->host, service, &hints, &found);
	if (rc == EAI_SYSTEM)
		return err_set_errno(e, ERR_NOTFOUND, errno, "cannot look up the host %s", a->host);
	if (rc != 0)
		return err_set(e, ERR_NOTFOUND, "cannot look up the host %s: %s", a->host, gai_strerror(rc));
	struct net_resolved r = { 0 };
	for (const struct addrinfo *i = found; i && r.count < NET_RESOLVED_MAX; i = i->ai_next) {
		if (i->ai_family != AF_INET && i->ai_family != AF_INET6)
			continue;
		memcpy(&r.items[r.count].addr, i->ai_addr, i->ai_addrlen);
		r.items[r.count].len = i->ai_addrlen;
		r.count++;
	}
	freeaddrinfo(found);
	if (r.count == 0)
		return err_set(e, ERR_NOTFOUND, "the host %s has no IPv4 or IPv6 address", a->host);
	*out = r;
	return 0;
}

static int listen_on(const struct sockaddr_storage *addr, socklen_t len, int *out)
{
	const int one = 1;
	const int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	int errnum = 0;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (const struct sockaddr *)addr, len) < 0 || listen(fd, SOMAXCONN) < 0)
		errnum = errno;
	if (errnum)
		close(fd);
	else
		*out = fd;
	return errnum;
}

int net_listen(const char *addr, int *out, struct err *e)
{
	struct net_addr a;
	struct net_resolved r;
	int rc = net_addr_parse(addr, &a, e);
	if (!rc)
		rc = net_resolve(&a, &r, e);
	if (rc)
		return rc;
	int errnum = 0;
	for (size_t i = 0; i < r.count; i++) {
		errnum = listen_on(&r.items[i].addr, r.items[i].len, out);
		if (errnum == 0)
			return 0;
		/* A host name may stand for an IPv6 address too on a machine that has none; everything else counts. */
		if (errnum != EADDRNOTAVAIL && errnum != EAFNOSUPPORT)
			break;
	}
	if (errnum == EADDRINUSE)
		return err_set(e, ERR_BUSY, "%s is taken by another process; stop that one or choose another port",
		               addr);
	if (errnum == EADDRNOTAVAIL || errnum == EAFNOSUPPORT)
		return err_set(e, ERR_INVALID, "%s is no address of this machine", addr);
	return err_set_errno(e, ERR_SYSTEM, errnum, "cannot listen on %s", addr);
}

void net_peer_text(int fd, char out[NET_ADDR_MAX + 1])
{
	struct sockaddr_storage s;
	socklen_t len = sizeof(s);
	char host[NI_MAXHOST], port[NI_MAXSERV];
	(void)snprintf(out, NET_ADDR_MAX + 1, "?");
	if (getpeername(fd, (struct sockaddr *)&s, &len) < 0 || (s.ss_family != AF_INET && s.ss_family != AF_INET6))
		return;
	if (getnameinfo((struct sockaddr *)&s, len, host, sizeof(host), port, sizeof(port),
	                NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	/* A numeric host is far shorter than NET_HOST_MAX. */
	(void)snprintf(out, NET_ADDR_MAX + 1, s.ss_family == AF_INET6 ? "[%.64s]:%.5s" : "%.64s:%.5s", host, port);
}
