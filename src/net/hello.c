#include "net/hello.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/bytes.h"
#include "base/rand.h"
#include "net/addr.h"

/* A hello, little-endian. The first eight bytes keep their place in every version:
 *
 *   0 u32 magic | 4 u16 version | 6 u8 purpose | 7 u8 flags | 8 u64 cluster id | 16 u64 incarnation | 24 nonce
 *   56 u32 newest entry type | 60 u8 length, name | u16 length, advertised cluster address
 */
#define MAGIC 0x636e6576u /* "venc" */
#define FLAG_EMPTY 1
#define FLAG_SECRET 2
#define FLAG_LEARNER 4
#define FIXED_SIZE (24 + NET_HELLO_NONCE + 4)
#define LABEL "veena hello 1"
#define REFUSED_SIZE 12

static_assert(FIXED_SIZE + 1 + NET_NAME_MAX + 2 + NET_ADDR_MAX <= NET_HELLO_FRAME_MAX, "a hello fits its frame");
static_assert(NET_HELLO_PROOF == 32, "HMAC-SHA256");

struct hello_extra {
	uint8_t purpose, flags;
};

static int refuse(struct net_exchange *x, enum net_refusal why, int code, struct err *e)
{
	static const char *const texts[] = {
#define NET_REFUSAL_TEXT(name, value, text) [value] = (text),
		NET_REFUSAL_MAP(NET_REFUSAL_TEXT)
#undef NET_REFUSAL_TEXT
	};
	x->refusal = why;
	x->expected = 0;
	return err_set(e, code, "%s", texts[why]);
}

/* Names both, so that whoever reads the line knows which of the two went astray. */
static int refuse_cluster(struct net_exchange *x, uint64_t theirs, struct err *e)
{
	x->refusal = NET_REFUSED_CLUSTER;
	x->expected = 0;
	return err_set(e, ERR_IDENTITY,
	               "it belongs to cluster %016" PRIx64 " and this node to cluster %016" PRIx64
	               "; correct --peers or --join, or give the node that is wrong here an empty data directory",
	               theirs, x->self.cluster_id);
}

/* ---- the bytes ---- */

static size_t write_hello(const struct net_exchange *x, uint8_t *p)
{
	const struct net_hello *h = &x->self;
	const size_t name_len = strlen(h->name), addr_len = strlen(h->addr);
	put_le32(p, MAGIC);
	put_le16(p + 4, NET_PROTOCOL);
	p[6] = (uint8_t)x->purpose;
	p[7] = (uint8_t)((h->empty ? FLAG_EMPTY : 0) | (x->secrets.current ? FLAG_SECRET : 0) |
	                 (h->learner ? FLAG_LEARNER : 0));
	put_le64(p + 8, h->cluster_id);
	put_le64(p + 16, h->incarnation);
	rand_secure(p + 24, NET_HELLO_NONCE);
	put_le32(p + 24 + NET_HELLO_NONCE, h->entry_types);
	uint8_t *q = p + FIXED_SIZE;
	*q++ = (uint8_t)name_len;
	memcpy(q, h->name, name_len);
	q += name_len;
	put_le16(q, (uint16_t)addr_len);
	memcpy(q + 2, h->addr, addr_len);
	return (size_t)(q + 2 + addr_len - p);
}

/* Copies a text of printable ASCII without blanks: it goes into log lines and records. */
static bool read_text(const uint8_t *p, size_t len, char *out, size_t max)
{
	if (len == 0 || len > max)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (p[i] <= ' ' || p[i] > '~')
			return false;
		out[i] = (char)p[i];
	}
	out[len] = '\0';
	return true;
}

/* All behind the version. False: malformed. */
static bool read_hello(const uint8_t *p, size_t len, struct net_hello *out, struct hello_extra *extra)
{
	if (len < FIXED_SIZE + 1)
		return false;
	extra->purpose = p[6];
	extra->flags = p[7];
	*out = (struct net_hello){
		.cluster_id = get_le64(p + 8),
		.incarnation = get_le64(p + 16),
		.empty = (p[7] & FLAG_EMPTY) != 0,
		.learner = (p[7] & FLAG_LEARNER) != 0,
		.entry_types = get_le32(p + 24 + NET_HELLO_NONCE),
	};
	const size_t name_len = p[FIXED_SIZE];
	size_t at = FIXED_SIZE + 1;
	if (len - at < name_len + 2 || !read_text(p + at, name_len, out->name, NET_NAME_MAX))
		return false;
	at += name_len;
	const size_t addr_len = get_le16(p + at);
	at += 2;
	return len - at == addr_len && read_text(p + at, addr_len, out->addr, NET_ADDR_MAX) && out->incarnation != 0;
}

static void make_proof(const struct net_exchange *x, bool by_dialler, bool previous, uint8_t out[NET_HELLO_PROOF])
{
	const uint8_t *secret = previous ? x->secrets.previous : x->secrets.current;
	const size_t secret_len = previous ? x->secrets.previous_len : x->secrets.current_len;

	uint8_t m[sizeof(LABEL) + 1 + 2 * (2 + NET_HELLO_FRAME_MAX)];
	size_t n = sizeof(LABEL);
	memcpy(m, LABEL, n);
	m[n++] = by_dialler ? 'D' : 'A';
	for (int i = 0; i < 2; i++) {
		put_le16(m + n, (uint16_t)x->hello_len[i]);
		memcpy(m + n + 2, x->hello[i], x->hello_len[i]);
		n += 2 + x->hello_len[i];
	}
	unsigned out_len = 0;
	const unsigned char *done = HMAC(EVP_sha256(), secret, (int)secret_len, m, n, out, &out_len);
	assert(done && out_len == NET_HELLO_PROOF); /* fails only without SHA-256 or memory */
}

static void put_proof(const struct net_exchange *x, struct net_hello_out *out)
{
	out->type = x->dialler ? NET_FRAME_HELLO_PROOF : NET_FRAME_HELLO_WELCOME;
	out->len = x->secrets.current ? NET_HELLO_PROOF : 0;
	if (x->secrets.current)
		make_proof(x, x->dialler, x->previous, out->body);
}

static bool is_proof_by(const struct net_exchange *x, bool previous, const uint8_t body[NET_HELLO_PROOF])
{
	uint8_t want[NET_HELLO_PROOF];
	make_proof(x, !x->dialler, previous, want);
	return CRYPTO_memcmp(want, body, sizeof(want)) == 0;
}

/* An acceptor remembers by which secret, since the dialler may know only that one. */
static bool is_proof_right(struct net_exchange *x, const uint8_t *body, size_t len)
{
	if (!x->secrets.current)
		return len == 0;
	if (len != NET_HELLO_PROOF)
		return false;
	if (is_proof_by(x, false, body))
		return true;
	x->previous = x->secrets.previous && is_proof_by(x, true, body);
	return x->previous;
}

/* Under TLS the authority's signature was checked in the handshake; here, for whom it signed. */
static bool is_name_right(const struct net_exchange *x)
{
	struct net_addr addr;
	if (!x->tls)
		return true;
	if (x->host)
		return net_tls_session_names(x->tls, x->peer.name, x->host);
	const bool has_host = net_addr_parse(x->peer.addr, &addr, NULL) == 0;
	return net_tls_session_names(x->tls, x->peer.name, has_host ? addr.host : NULL);
}

/* ---- the steps ---- */

static int check_hello(struct net_exchange *x, const uint8_t *body, size_t len, struct err *e)
{
	if (len < 8 || get_le32(body) != MAGIC)
		return refuse(x, NET_REFUSED_FORMAT, ERR_CORRUPT, e);
	if (get_le16(body + 4) != NET_PROTOCOL)
		return refuse(x, NET_REFUSED_VERSION, ERR_VERSION, e);
	struct hello_extra extra;
	struct net_hello h;
	if (!read_hello(body, len, &h, &extra))
		return refuse(x, NET_REFUSED_FORMAT, ERR_CORRUPT, e);
	x->peer = h; /* from here on a refusal can say whom it is about */
	if (!is_name_right(x))
		return refuse(x, NET_REFUSED_NAME, ERR_IDENTITY, e);
	if (strcmp(h.name, x->self.name) == 0)
		return refuse(x, NET_REFUSED_SELF, ERR_IDENTITY, e);
	if (h.cluster_id != 0 && x->self.cluster_id != 0 && h.cluster_id != x->self.cluster_id)
		return refuse_cluster(x, h.cluster_id, e);
	if (x->dialler ? extra.purpose != x->purpose
	               : extra.purpose != NET_PURPOSE_PEER && extra.purpose != NET_PURPOSE_FORWARD)
		return refuse(x, NET_REFUSED_PURPOSE, ERR_VERSION, e);
	const bool has_secret = (extra.flags & FLAG_SECRET) != 0;
	if (has_secret != (x->secrets.current != NULL))
		return refuse(x, has_secret ? NET_REFUSED_SECRET : NET_REFUSED_NO_SECRET, ERR_IDENTITY, e);
	x->purpose = (enum net_purpose)extra.purpose;
	return 0;
}

static void keep_hello(struct net_exchange *x, bool of_dialler, const uint8_t *body, size_t len)
{
	assert(len <= NET_HELLO_FRAME_MAX);
	const int i = of_dialler ? 0 : 1;
	memcpy(x->hello[i], body, len);
	x->hello_len[i] = len;
}

/* The acceptor refused us: what it found is said from its side, so the sentence is turned round. */
static int read_refusal(struct net_exchange *x, const uint8_t *body, size_t len, struct err *e)
{
	static const char *const texts[] = {
		[NET_REFUSED_FORMAT] = "it does not understand this node's hello",
		[NET_REFUSED_VERSION] =
		    "it speaks another version of the protocol between nodes; upgrade the older node",
		[NET_REFUSED_CLUSTER] =
		    "it belongs to another cluster; correct --peers or --join, or give this node an "
		    "empty data directory",
		[NET_REFUSED_SELF] =
		    "it has this node's own id; ids are unique, and no peer's address may lead back here",
		[NET_REFUSED_PURPOSE] = "its release does not know what this node asks for; upgrade it",
		[NET_REFUSED_NO_SECRET] = "it has a cluster secret and this node has none; give all nodes the same "
					  "--cluster-secret-file",
		[NET_REFUSED_SECRET] = "it has no cluster secret and this node has one; give all nodes the same "
				       "--cluster-secret-file",
		[NET_REFUSED_PROOF] =
		    "its cluster secret is another one; give all nodes the same --cluster-secret-file",
		[NET_REFUSED_NAME] = "it finds neither this node's id nor its address in this node's "
				     "--cluster-tls-cert",
	};
	const size_t why = len >= REFUSED_SIZE ? get_le16(body) : 0;
	if (why == 0 || why >= sizeof(texts) / sizeof(texts[0]))
		return refuse(x, NET_REFUSED_FORMAT, ERR_CORRUPT, e);
	if (why == NET_REFUSED_CLUSTER)
		return refuse_cluster(x, get_le64(body + 4), e);
	x->refusal = (enum net_refusal)why;
	x->expected = 0;
	return err_set(e, ERR_IDENTITY, "%s", texts[why]);
}

static int accept_step(struct net_exchange *x, const uint8_t *body, size_t len, struct net_hello_out *out,
                       struct err *e)
{
	if (x->expected == NET_FRAME_HELLO) {
		const int rc = check_hello(x, body, len, e);
		if (rc)
			return rc;
		keep_hello(x, true, body, len);
		out->type = NET_FRAME_HELLO_REPLY;
		out->len = write_hello(x, out->body);
		keep_hello(x, false, out->body, out->len);
		x->expected = NET_FRAME_HELLO_PROOF;
		return 0;
	}
	if (!is_proof_right(x, body, len))
		return refuse(x, NET_REFUSED_PROOF, ERR_IDENTITY, e);
	put_proof(x, out);
	x->expected = 0;
	return 0;
}

static int dial_step(struct net_exchange *x, const uint8_t *body, size_t len, struct net_hello_out *out, struct err *e)
{
	if (x->expected == NET_FRAME_HELLO_REPLY) {
		const int rc = check_hello(x, body, len, e);
		if (rc)
			return rc;
		keep_hello(x, false, body, len);
		put_proof(x, out);
		x->expected = NET_FRAME_HELLO_WELCOME;
		return 0;
	}
	if (!is_proof_right(x, body, len))
		return refuse(x, NET_REFUSED_PROOF, ERR_IDENTITY, e);
	x->expected = 0;
	return 0;
}

void net_exchange_start(struct net_exchange *x, bool dialler, enum net_purpose purpose, const struct net_identity *id,
                        struct net_hello_out *out)
{
	assert(id->self.name[0] && id->self.addr[0] && id->self.incarnation != 0);
	*x = (struct net_exchange){
		.dialler = dialler,
		.purpose = purpose,
		.secrets = id->secrets,
		.self = id->self,
		.expected = dialler ? NET_FRAME_HELLO_REPLY : NET_FRAME_HELLO,
	};
	out->type = 0;
	if (!dialler)
		return;
	out->type = NET_FRAME_HELLO;
	out->len = write_hello(x, out->body);
	keep_hello(x, true, out->body, out->len);
}

void net_exchange_set_tls(struct net_exchange *x, const struct net_tls_session *tls, const char *host)
{
	x->tls = tls;
	x->host = host;
}

int net_exchange_step(struct net_exchange *x, uint16_t type, const uint8_t *body, size_t len, struct net_hello_out *out,
                      struct err *e)
{
	assert(x->expected != 0 && len <= NET_HELLO_FRAME_MAX);
	out->type = 0;
	int rc;
	if (x->dialler && type == NET_FRAME_HELLO_REFUSED)
		return read_refusal(x, body, len, e);
	if (x->dialler && type == NET_FRAME_HELLO)
		rc = refuse(x, NET_REFUSED_SELF, ERR_IDENTITY, e); /* our own words come back */
	else if (type != x->expected)
		rc = refuse(x, NET_REFUSED_FORMAT, ERR_CORRUPT, e);
	else
		rc = x->dialler ? dial_step(x, body, len, out, e) : accept_step(x, body, len, out, e);
	if (rc && !x->dialler) {
		out->type = NET_FRAME_HELLO_REFUSED;
		out->len = REFUSED_SIZE;
		put_le16(out->body, (uint16_t)x->refusal);
		put_le16(out->body + 2, NET_PROTOCOL);
		put_le64(out->body + 4, x->self.cluster_id);
	}
	return rc;
}

bool net_exchange_is_done(const struct net_exchange *x)
{
	return x->expected == 0 && x->refusal == NET_REFUSED_NONE;
}
