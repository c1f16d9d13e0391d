#include "net/stream.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD_MAX ((size_t)16 << 10) /* bytes of one TLS record: small pieces share one */

int net_stream_open(struct net_tls *tls, int fd, bool is_client, struct net_stream *out, struct err *e)
{
	struct net_stream s = net_stream_plain(fd);
	if (tls) {
		s.tls = net_tls_session_new(tls, fd, is_client);
		if (!s.tls) {
			close(fd);
			return err_set(e, ERR_NOMEM, "no memory for a connection's TLS");
		}
	}
	*out = s;
	return 0;
}

void net_stream_close(struct net_stream *s)
{
	net_tls_session_free(s->tls);
	s->tls = NULL;
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* ---- reading ---- */

static ssize_t plain_result(ssize_t n, bool is_read)
{
	if (n > 0)
		return n;
	if (n == 0)
		return is_read ? -ENODATA : 0;
	return errno == EAGAIN ? 0 : -errno;
}

ssize_t net_stream_recv(struct net_stream *s, void *p, size_t n)
{
	ssize_t got;
	if (s->tls)
		return net_tls_session_recv(s->tls, p, n);
	do {
		got = recv(s->fd, p, n, 0);
	} while (got < 0 && errno == EINTR);
	return plain_result(got, true);
}

/* A record at a time, until there is no room or nothing more: what is full says that there may be more, as with a plain
 * one. An error behind bytes waits for the next call. */
static ssize_t tls_recvv(struct net_stream *s, const struct iovec *iov, size_t count)
{
	size_t total = 0;
	for (size_t i = 0; i < count; i++) {
		for (size_t at = 0; at < iov[i].iov_len;) {
			const ssize_t n =
			    net_tls_session_recv(s->tls, (char *)iov[i].iov_base + at, iov[i].iov_len - at);
			if (n <= 0)
				return total > 0 ? (ssize_t)total : n;
			at += (size_t)n;
			total += (size_t)n;
		}
	}
	return (ssize_t)total;
}

ssize_t net_stream_recvv(struct net_stream *s, const struct iovec *iov, size_t count)
{
	ssize_t n;
	if (s->tls)
		return tls_recvv(s, iov, count);
	do {
		n = readv(s->fd, iov, (int)count);
	} while (n < 0 && errno == EINTR);
	return plain_result(n, true);
}

/* ---- writing ---- */

ssize_t net_stream_send(struct net_stream *s, const void *p, size_t n)
{
	ssize_t sent;
	if (s->tls)
		return net_tls_session_send(s->tls, p, n);
	do {
		sent = send(s->fd, p, n, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return plain_result(sent, false);
}

static ssize_t tls_sendv(struct net_stream *s, const struct iovec *iov, size_t count)
{
	uint8_t record[RECORD_MAX];
	size_t len = 0;
	if (count > 0 && iov[0].iov_len >= RECORD_MAX)
		return net_tls_session_send(s->tls, iov[0].iov_base, iov[0].iov_len);
	for (size_t i = 0; i < count && len < RECORD_MAX; i++) {
		const size_t left = RECORD_MAX - len, n = iov[i].iov_len < left ? iov[i].iov_len : left;
		memcpy(record + len, iov[i].iov_base, n);
		len += n;
	}
	return net_tls_session_send(s->tls, record, len);
}

ssize_t net_stream_sendv(struct net_stream *s, const struct iovec *iov, size_t count)
{
	/* sendmsg does not write through it */
	const struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = count };
	ssize_t n;
	if (s->tls)
		return tls_sendv(s, iov, count);
	do {
		n = sendmsg(s->fd, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return plain_result(n, false);
}

bool net_stream_shutdown(struct net_stream *s)
{
	if (s->tls)
		net_tls_session_end(s->tls);
	return shutdown(s->fd, SHUT_WR) == 0;
}

/* ---- what a loop asks ---- */

int net_stream_waits(const struct net_stream *s, bool reads, bool writes)
{
	if (!s->tls)
		return (reads ? NET_READ : 0) | (writes ? NET_WRITE : 0);
	return (reads ? (int)net_tls_session_read_wants(s->tls) : 0) |
	       (writes ? (int)net_tls_session_write_wants(s->tls) : 0);
}

int net_stream_ready(const struct net_stream *s, int events)
{
	if (!s->tls)
		return events;
	return (events & (int)net_tls_session_read_wants(s->tls) ? NET_READ : 0) |
	       (events & (int)net_tls_session_write_wants(s->tls) ? NET_WRITE : 0);
}

bool net_stream_has_more(const struct net_stream *s)
{
	return s->tls && net_tls_session_has_more(s->tls);
}

const char *net_stream_why(const struct net_stream *s)
{
	return s->tls ? net_tls_session_why(s->tls) : "";
}

bool net_stream_fall_back(struct net_stream *s)
{
	if (!s->tls || !net_tls_session_is_http(s->tls))
		return false;
	net_tls_session_free(s->tls);
	s->tls = NULL;
	return true;
}
