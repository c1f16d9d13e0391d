/* Predicates about one value. */
#include "model/rules.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Only letters, digits and the characters of `more`. memchr, not strchr: a NUL must not match the terminator. */
static bool only(struct str s, const char *more)
{
	const size_t n = strlen(more);
	for (size_t i = 0; i < s.len; i++) {
		if (!is_alnum(s.p[i]) && !memchr(more, s.p[i], n))
			return false;
	}
	return true;
}

/* A name that is also safe as a path component and before a ':' in a key. */
static bool is_name(struct str s, size_t max)
{
	return s.len >= 1 && s.len <= max && only(s, "._-") && !str_is(s, ".") && !str_is(s, "..");
}

bool rule_topic_name(struct str s)
{
	return is_name(s, TOPIC_NAME_MAX);
}

bool rule_stored_topic_name(struct str s)
{
	return is_name(s, TOPIC_STORED_NAME_MAX);
}

bool rule_partitions(int64_t n, bool replicas_given)
{
	return n >= (replicas_given ? TOPIC_PARTITIONS_MIN_REPLICATED : TOPIC_PARTITIONS_MIN) &&
	       n <= TOPIC_PARTITIONS_MAX;
}

bool rule_retention_ms(int64_t ms)
{
	return ms == 0 || ms >= TOPIC_RETENTION_MIN_MS;
}

bool rule_incarnation(struct str s)
{
	uint64_t ignored;
	return hex64_parse(s, &ignored);
}

bool rule_member_id(struct str s)
{
	return is_name(s, MEMBER_ID_MAX);
}

bool rule_user_name(struct str s)
{
	return is_name(s, USER_NAME_MAX);
}

bool rule_password(struct str s)
{
	return s.len >= 1 && s.len <= PASSWORD_MAX;
}

bool rule_grant_action(struct str s)
{
	static const char *const actions[] = { "produce", "consume", "create", "admin", "member", "observe" };
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		if (str_is(s, actions[i]))
			return true;
	}
	return false;
}

bool rule_grant_pattern(struct str s)
{
	if (s.len == 0)
		return false;
	if (s.p[s.len - 1] == '*')
		s.len--;
	return s.len <= GRANT_STEM_MAX && only(s, "._-");
}

bool rule_label_key(struct str s)
{
	return s.len >= 1 && s.len <= LABEL_KEY_MAX && only(s, "._/-");
}

bool rule_label_value(struct str s)
{
	return s.len == 0 || (s.len <= LABEL_VALUE_MAX && utf8_valid(s.p, s.len) && !memchr(s.p, 0, s.len));
}

bool rule_remote_name(struct str s)
{
	if (s.len < 1 || s.len > REMOTE_NAME_MAX || s.p[0] < 'a' || s.p[0] > 'z')
		return false;
	for (size_t i = 1; i < s.len; i++) {
		const char c = s.p[i];
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
			return false;
	}
	return true;
}

bool rule_remote_from(struct str s)
{
	return s.len == 0 || str_is(s, "attach") || str_is(s, "unconsumed") || str_is(s, "earliest");
}

/* C0, DEL and C1 are control characters, and U+2028 and U+2029 end lines in some readers of logs. */
bool rule_pause_reason(struct str s)
{
	if (s.len == 0)
		return true;
	if (s.len > REMOTE_REASON_MAX || !utf8_valid(s.p, s.len))
		return false;
	const uint8_t *p = (const uint8_t *)s.p;
	for (size_t i = 0; i < s.len; i++) {
		if (p[i] < 0x20 || p[i] == 0x7f)
			return false;
		if (p[i] == 0xc2 && p[i + 1] < 0xa0)
			return false;
		if (p[i] == 0xe2 && p[i + 1] == 0x80 && (p[i + 2] & 0xfe) == 0xa8)
			return false;
	}
	return true;
}

bool rule_idem_key(struct str s)
{
	if (s.len < 1 || s.len > IDEM_KEY_MAX)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	}
	return true;
}

/* ---- addresses ---- */

/* As text with a NUL for inet_pton; false: does not fit, or holds one already. */
static bool to_cstr(char *out, size_t cap, struct str s)
{
	if (s.len >= cap || (s.len && memchr(s.p, 0, s.len)))
		return false;
	if (s.len)
		memcpy(out, s.p, s.len);
	out[s.len] = '\0';
	return true;
}

static bool is_v6(struct str s, struct in6_addr *out)
{
	char text[INET6_ADDRSTRLEN];
	return to_cstr(text, sizeof(text), s) && inet_pton(AF_INET6, text, out) == 1;
}

static bool is_v4(struct str s, struct in_addr *out)
{
	char text[INET_ADDRSTRLEN];
	return to_cstr(text, sizeof(text), s) && inet_pton(AF_INET, text, out) == 1;
}

/* Digits and dots alone are an IPv4 address or nothing; a name has no empty part between its dots. */
static bool is_host(struct str s)
{
	if (s.len < 1 || s.len > 253 || !only(s, "._-"))
		return false;
	bool numeric = true;
	for (size_t i = 0; i < s.len; i++) {
		const bool dot = s.p[i] == '.';
		if (dot && (i == 0 || i + 1 == s.len || s.p[i - 1] == '.'))
			return false;
		numeric = numeric && (dot || (s.p[i] >= '0' && s.p[i] <= '9'));
	}
	struct in_addr ignored;
	return !numeric || is_v4(s, &ignored);
}

bool host_port_parse(struct str s, struct host_port *out)
{
	const char *colon = s.len ? memrchr(s.p, ':', s.len) : NULL;
	if (!colon)
		return false;
	struct host_port hp = { .host = { s.p, (size_t)(colon - s.p) } };
	uint64_t port;
	if (!u64_parse((struct str){ colon + 1, s.len - hp.host.len - 1 }, &port) || port < 1 || port > 65535)
		return false;
	hp.port = (uint16_t)port;
	if (hp.host.len >= 2 && hp.host.p[0] == '[' && hp.host.p[hp.host.len - 1] == ']') {
		struct in6_addr ignored;
		hp.host = (struct str){ hp.host.p + 1, hp.host.len - 2 };
		hp.is_v6 = true;
		if (!is_v6(hp.host, &ignored))
			return false;
	} else if (!is_host(hp.host)) {
		return false;
	}
	*out = hp;
	return true;
}

bool rule_host_port(struct str s)
{
	struct host_port ignored;
	return host_port_parse(s, &ignored);
}

bool host_port_is_loopback(const struct host_port *hp)
{
	struct in6_addr v6;
	if (hp->is_v6)
		return is_v6(hp->host, &v6) &&
		       (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127));
	struct in_addr v4;
	if (is_v4(hp->host, &v4))
		return ntohl(v4.s_addr) >> 24 == 127;
	return str_is(hp->host, "localhost");
}
