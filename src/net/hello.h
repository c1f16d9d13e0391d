/* net/hello.h - the first frames of every link: who are you, and can you prove it.
 *
 *   dialler                                   acceptor
 *   HELLO {version, purpose, who, nonce}  ->  checks it
 *                   checks it            <-   HELLO {version, who, nonce}
 *   PROOF {hmac}                          ->  checks it
 *                   checks it, up        <-   WELCOME {hmac}, up       or at any point REFUSED {why}, close
 *
 * hmac = HMAC-SHA256(cluster secret, label, side, both whole hellos), so it covers versions, purposes, identities and
 * both nonces and can be neither replayed nor reflected; the dialler proves first, so that whoever merely connects
 * learns nothing to test guesses on. Without a secret the proofs are empty. A side with a secret never talks to one
 * without. While a secret is being replaced, an acceptor that was given the previous one too takes a proof by it, and
 * answers by it; a dialler takes either, and proves itself by the one its owner chooses. Nothing is allocated here;
 * each check of version and size comes before what it guards. Thread: any; a struct belongs to its link.
 */
#ifndef NET_HELLO_H
#define NET_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/peers.h"
#include "net/stream.h"

enum net_purpose {
	NET_PURPOSE_PEER = 1,    /* frames between the nodes' consensus threads, from the dialler only */
	NET_PURPOSE_FORWARD = 2, /* forwarded requests and their answers, net/forward.h */
};

enum net_hello_frame {
	NET_FRAME_HELLO = 0xff01,       /* from the dialler */
	NET_FRAME_HELLO_REPLY = 0xff02, /* a type of its own, so that a socket connected to itself is noticed */
	NET_FRAME_HELLO_PROOF = 0xff03,
	NET_FRAME_HELLO_WELCOME = 0xff04,
	NET_FRAME_HELLO_REFUSED = 0xff05, /* u16 why, u16 the refuser's version, u64 its cluster id */
};

#define NET_HELLO_FRAME_MAX 512 /* bytes of a body; before the hello is done a link takes no more */
#define NET_HELLO_NONCE 32
#define NET_HELLO_PROOF 32

/* One list: enum and the sentence about the other side. */
#define NET_REFUSAL_MAP(X)                                                                                             \
	X(NONE, 0, "not refused")                                                                                      \
	X(FORMAT, 1, "it does not speak this protocol; is this the cluster port of a veenad?")                         \
	X(VERSION, 2, "it speaks another version of the protocol between nodes; upgrade the older node")               \
	X(CLUSTER, 3, "it belongs to another cluster")                                                                 \
	X(SELF, 4, "it has this node's own id; ids are unique, and no peer's address may lead back here")              \
	X(PURPOSE, 5, "it asks for something this release does not know")                                              \
	X(NO_SECRET, 6,                                                                                                \
	  "it has no cluster secret and this node has one; give all nodes the same --cluster-secret-file")             \
	X(SECRET, 7, "it has a cluster secret and this node has none; give all nodes the same --cluster-secret-file")  \
	X(PROOF, 8, "its cluster secret is another one; give all nodes the same --cluster-secret-file")                \
	X(NAME, 9,                                                                                                     \
	  "its certificate names neither its id nor its address; give each node a --cluster-tls-cert of its own")

enum net_refusal {
#define NET_REFUSAL_ENUM(name, value, text) NET_REFUSED_##name = (value),
	NET_REFUSAL_MAP(NET_REFUSAL_ENUM)
#undef NET_REFUSAL_ENUM
};

/* What this process says of itself and by what it proves it. */
struct net_identity {
	struct net_hello self;
	struct net_secrets secrets; /* what they point at is borrowed */
	struct net_tls *tls;        /* links are under it; borrowed; NULL = plain */
};

struct net_exchange {
	bool dialler;
	enum net_purpose purpose; /* the acceptor learns it from the hello */
	struct net_secrets secrets;
	/* Proofs are by the previous secret. A dialler's owner sets it behind the start when the current one was
	 * refused; an acceptor learns it from the proof, and answers by the same. */
	bool previous;
	uint16_t expected;        /* type of the frame to come; 0 = done or refused */
	enum net_refusal refusal; /* why the other side was refused, or refused us */
	struct net_hello self, peer;
	const struct net_tls_session *tls; /* NULL = plain */
	const char *host;                  /* dialled; NULL: the acceptor goes by what the hello says */
	/* The two hellos as they went over the wire; [0] is the dialler's. */
	size_t hello_len[2];
	uint8_t hello[2][NET_HELLO_FRAME_MAX];
};

/* A frame to send; type 0 = none. */
struct net_hello_out {
	uint16_t type;
	size_t len;
	uint8_t body[NET_HELLO_FRAME_MAX];
};

/* The identity is copied but for the secrets. The dialler's first frame is in `out`, none for an acceptor. */
void net_exchange_start(struct net_exchange *x, bool dialler, enum net_purpose purpose, const struct net_identity *id,
                        struct net_hello_out *out);
/* The link's TLS, borrowed: from here on the other side's certificate has to name the id of its hello, or `host` (the
 * one dialled; NULL: the one it announces). Before the first step. */
void net_exchange_set_tls(struct net_exchange *x, const struct net_tls_session *tls, const char *host);
/* Takes in one frame and says what to send. ERR_VERSION, ERR_IDENTITY, ERR_CORRUPT with a sentence about the other
 * side: close, after sending `out` if it holds a frame. */
MUST_CHECK int net_exchange_step(struct net_exchange *x, uint16_t type, const uint8_t *body, size_t len,
                                 struct net_hello_out *out, struct err *e);
bool net_exchange_is_done(const struct net_exchange *x); /* both sides agreed; peer and purpose are valid */

#endif /* NET_HELLO_H */
