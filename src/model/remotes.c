#include "model/remotes.h"

#include <inttypes.h>
#include <string.h>

#include "model/base64.h"

/* ---- URLs ---- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_folded(struct str a, struct str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return false;
	return true;
}

/* Printable ASCII that RFC 3986 lets stand in a path; '%' is taken as it comes. */
static bool is_path(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || strchr("\"<>\\^`{|}?#", s.p[i]))
			return false;
	return true;
}

/* A host with or without a port. */
static bool parse_authority(struct str s, struct host_port *out)
{
	char with_port[REMOTE_URL_MAX + 8];
	const char *bracket = s.len ? memrchr(s.p, ']', s.len) : NULL;
	const char *from = bracket ? bracket : s.p;
	if (s.len && memchr(from, ':', (size_t)(s.p + s.len - from)))
		return host_port_parse(s, out);
	/* Judged as one with a port would be; what is kept points into the text. */
	memcpy(with_port, s.p, s.len);
	memcpy(with_port + s.len, ":443", 4);
	if (!host_port_parse((struct str){ with_port, s.len + 4 }, out))
		return false;
	out->host.p = s.p + (out->is_v6 ? 1 : 0);
	return true;
}

bool remote_url_parse(struct str text, struct remote_url *out)
{
	static const struct str scheme = { "https://", 8 };
	struct remote_url u;
	if (text.len <= scheme.len || text.len > REMOTE_URL_MAX ||
	    !same_folded((struct str){ text.p, scheme.len }, scheme))
		return false;
	struct str rest = { text.p + scheme.len, text.len - scheme.len };
	const char *slash = memchr(rest.p, '/', rest.len);
	const struct str authority = { rest.p, slash ? (size_t)(slash - rest.p) : rest.len };
	u.path = (struct str){ rest.p + authority.len, rest.len - authority.len };
	while (u.path.len && u.path.p[u.path.len - 1] == '/')
		u.path.len--;
	if (!is_path(u.path) || !parse_authority(authority, &u.at))
		return false;
	*out = u;
	return true;
}

void remote_url_put(const struct remote_url *u, struct buf *out)
{
	buf_puts(out, u->at.is_v6 ? "https://[" : "https://");
	for (size_t i = 0; i < u->at.host.len; i++)
		buf_putc(out, lower(u->at.host.p[i]));
	buf_puts(out, u->at.is_v6 ? "]" : "");
	if (u->at.port != REMOTE_PORT_DEFAULT)
		buf_printf(out, ":%u", (unsigned)u->at.port);
	buf_put(out, u->path.p, u->path.len);
}

bool remote_url_same_place(const struct remote_url *a, const struct remote_url *b)
{
	return a->at.port == b->at.port && same_folded(a->at.host, b->at.host);
}

/* ---- limits ---- */

/* name, default, least, most */
#define LIMITS_MAP(X)                                                                                                  \
	X(max_in_flight, 16, 1, 256)                                                                                   \
	X(request_timeout_ms, 30000, 5000, 120000)                                                                     \
	X(idle_conn_timeout_ms, 30000, 1000, 300000)                                                                   \
	X(conn_max_age_ms, 300000, 10000, 3600000)                                                                     \
	X(check_interval_ms, 60000, 10000, 3600000)

const struct remote_limits remote_limits_default = {
#define LIMIT_DEFAULT(name, standard, least, most) .name = (standard),
	LIMITS_MAP(LIMIT_DEFAULT)
#undef LIMIT_DEFAULT
	    .compression = { "none", 4 },
};

struct remote_limits remote_limits_filled(const struct remote_limits *l)
{
	struct remote_limits out = *l;
#define LIMIT_FILL(name, standard, least, most)                                                                        \
	if (out.name == 0)                                                                                             \
		out.name = (standard);
	LIMITS_MAP(LIMIT_FILL)
#undef LIMIT_FILL
	if (out.compression.len == 0)
		out.compression = remote_limits_default.compression;
	return out;
}

struct remote_limits remote_limits_patched(const struct remote_limits *l, const struct remote_limits_patch *p)
{
	struct remote_limits out = remote_limits_filled(l);
#define LIMIT_PATCH(name, standard, least, most)                                                                       \
	if (p->name.set)                                                                                               \
		out.name = p->name.value;
	LIMITS_MAP(LIMIT_PATCH)
#undef LIMIT_PATCH
	if (p->compression.p)
		out.compression = p->compression;
	return out;
}

static int check_limit(const struct opt_i64 *v, const char *field, int64_t least, int64_t most, struct record_fault *f,
                       struct err *e)
{
	if (!v->set || (v->value >= least && v->value <= most))
		return 0;
	return rules_refuse(f, e, field, "must be %" PRId64 " to %" PRId64, least, most);
}

int rules_check_remote_limits(const struct remote_limits_patch *p, struct record_fault *f, struct err *e)
{
	int rc = 0;
	if (!p)
		return 0;
#define LIMIT_CHECK(name, standard, least, most)                                                                       \
	if (rc == 0)                                                                                                   \
		rc = check_limit(&p->name, "limits." #name, (least), (most), f, e);
	LIMITS_MAP(LIMIT_CHECK)
#undef LIMIT_CHECK
	if (rc == 0 && p->compression.p && !str_is(p->compression, "none") && !str_is(p->compression, "zstd"))
		rc = rules_refuse(f, e, "limits.compression", "must be none or zstd");
	return rc;
}

/* ---- certificates ---- */

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END "-----END CERTIFICATE-----"
#define PEM_LINE 64 /* characters of base64 in a line */

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Where a line of `text` begins with `what`; NULL: nowhere. */
static const char *find_line(struct str text, struct str what)
{
	const char *at = text.p, *end = text.p + text.len;
	while (at && (size_t)(end - at) >= what.len) {
		if (memcmp(at, what.p, what.len) == 0)
			return at;
		at = memchr(at, '\n', (size_t)(end - at));
		at = at ? at + 1 : NULL;
	}
	return NULL;
}

static bool decode_body(struct str body, struct buf *der)
{
	struct buf text = { 0 };
	size_t n = 0;
	for (size_t i = 0; i < body.len; i++)
		if (!is_space(body.p[i]))
			buf_putc(&text, body.p[i]);
	buf_clear(der);
	const bool ok = text.len && base64_decode(buf_reserve(der, text.len / 4 * 3 + 3), &n,
	                                          (struct str){ (const char *)text.data, text.len });
	der->len = ok ? n : 0;
	buf_fini(&text);
	return ok && n > 0;
}

bool pem_next_certificate(struct str *text, struct buf *der)
{
	const char *end = text->p + text->len;
	const char *begin = find_line(*text, STR_LIT("-----BEGIN "));
	if (!begin || !str_starts((struct str){ begin, (size_t)(end - begin) }, STR_LIT(PEM_BEGIN)))
		return false;
	const char *body = begin + sizeof(PEM_BEGIN) - 1;
	const struct str rest = { body, (size_t)(end - body) };
	const char *stop = find_line(rest, STR_LIT(PEM_END));
	if (!stop || !decode_body((struct str){ body, (size_t)(stop - body) }, der))
		return false;
	stop += sizeof(PEM_END) - 1;
	*text = (struct str){ stop, (size_t)(end - stop) };
	return true;
}

static void add_certificate(struct sha512 *h, const struct buf *der)
{
	struct buf text = { 0 };
	base64_encode((char *)buf_reserve(&text, base64_size(der->len)),
	              (struct str){ (const char *)der->data, der->len });
	const size_t len = base64_size(der->len);
	sha512_add(h, PEM_BEGIN "\n", sizeof(PEM_BEGIN));
	for (size_t i = 0; i < len; i += PEM_LINE) {
		sha512_add(h, text.data + i, len - i < PEM_LINE ? len - i : PEM_LINE);
		sha512_add(h, "\n", 1);
	}
	sha512_add(h, PEM_END "\n", sizeof(PEM_END));
	buf_fini(&text);
}

bool remote_trust_anchor(struct str ca_pem, char out[REMOTE_ANCHOR_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t digest[SHA512_SIZE];
	struct buf der = { 0 };
	struct sha512 h;
	size_t n = 0;
	if (ca_pem.len == 0) {
		memcpy(out, REMOTE_ANCHOR_SYSTEM, sizeof(REMOTE_ANCHOR_SYSTEM));
		return true;
	}
	sha512_init(&h);
	for (; pem_next_certificate(&ca_pem, &der); n++)
		add_certificate(&h, &der);
	buf_fini(&der);
	while (ca_pem.len && is_space(*ca_pem.p))
		ca_pem = (struct str){ ca_pem.p + 1, ca_pem.len - 1 };
	if (n == 0 || ca_pem.len)
		return false;
	sha512_end(&h, digest);
	for (size_t i = 0; i < SHA512_SIZE; i++) {
		out[2 * i] = digits[digest[i] >> 4];
		out[2 * i + 1] = digits[digest[i] & 15];
	}
	out[2 * SHA512_SIZE] = '\0';
	return true;
}

/* ---- credentials ---- */

bool sealed_is_formed(const struct sealed *c)
{
	return c->v == SEALED_VERSION && c->kv.len == SEALED_KV_LEN && c->ct.len > 0;
}

/* ---- bodies ---- */

static int check_url(struct str url, struct record_fault *f, struct err *e)
{
	struct remote_url u;
	if (remote_url_parse(url, &u))
		return 0;
	return rules_refuse(f, e, "url",
	                    "must be https://host[:port][/path], at most %d bytes, without user, query or fragment",
	                    REMOTE_URL_MAX);
}

static int check_username(struct str name, struct record_fault *f, struct err *e)
{
	if (rule_user_name(name))
		return 0;
	return rules_refuse(f, e, "username", "must be 1 to %d of letters, digits, '.', '_' and '-'", USER_NAME_MAX);
}

static int check_password(struct str password, struct record_fault *f, struct err *e)
{
	if (password.len >= REMOTE_PASSWORD_MIN && password.len <= PASSWORD_MAX)
		return 0;
	return rules_refuse(f, e, "password", "must be %d to %d bytes", REMOTE_PASSWORD_MIN, PASSWORD_MAX);
}

static int check_ca(struct str pem, struct record_fault *f, struct err *e)
{
	char anchor[REMOTE_ANCHOR_SIZE];
	struct buf der = { 0 };
	struct str rest = pem;
	size_t n = 0;
	if (pem.len > REMOTE_CA_MAX)
		return rules_refuse(f, e, "ca_pem", "at most %d bytes are allowed", REMOTE_CA_MAX);
	while (n <= REMOTE_CERTS_MAX && pem_next_certificate(&rest, &der))
		n++;
	buf_fini(&der);
	if (n <= REMOTE_CERTS_MAX && remote_trust_anchor(pem, anchor))
		return 0;
	return rules_refuse(f, e, "ca_pem", "must be 1 to %d PEM certificates and nothing else", REMOTE_CERTS_MAX);
}

int rules_check_remote_create(const struct remote_create *b, struct record_fault *f, struct err *e)
{
	int rc;
	if (!rule_remote_name(b->name))
		return rules_refuse(f, e, "name", "a remote's name is a to z, then up to %d of a-z, 0-9 and '-'",
		                    REMOTE_NAME_MAX - 1);
	if ((rc = check_url(b->url, f, e)) || (rc = check_username(b->username, f, e)) ||
	    (rc = check_password(b->password, f, e)) || (rc = check_ca(b->ca_pem, f, e)))
		return rc;
	return rules_check_remote_limits(b->limits, f, e);
}

int rules_check_remote_patch(const struct remote_patch *b, struct record_fault *f, struct err *e)
{
	int rc = 0;
	if (!b->url.p && !b->username.p && !b->password.p && !b->ca_pem.p && !b->limits)
		return rules_refuse(f, e, "", "nothing to change: give url, username, password, ca_pem or limits");
	if ((b->url.p && (rc = check_url(b->url, f, e))) ||
	    (b->username.p && (rc = check_username(b->username, f, e))) ||
	    (b->password.p && (rc = check_password(b->password, f, e))) ||
	    (b->ca_pem.p && (rc = check_ca(b->ca_pem, f, e))))
		return rc;
	if (!b->password.p && (b->url.p || b->username.p || b->ca_pem.p))
		return rules_refuse(f, e, "password",
		                    "a new url, username or ca_pem needs the password in the same request");
	return rules_check_remote_limits(b->limits, f, e);
}
