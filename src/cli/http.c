/* veena.http: one exchange per call over a kept connection.
 *
 *   http.request{ method=, url=, headers={"Name: value"}, body=, user=, password=, cacert=, timeout_ms=, on_body= }
 *     -> { status=, headers={[lower name]=value}, body= }
 *     -> nil, "unreachable" or "broken", message
 *
 * "unreachable": no byte of the request can have reached a server, so another may be asked. "broken": it may have. */
#include <curl/curl.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "control/lua_value.h"

#define HANDLE_TYPE "veena.http.handle"
#define TIMEOUT_MS 60000
#define CONNECT_TIMEOUT_MS 3000
#define ANSWER_MAX (256u << 20) /* bytes of one answer held in memory */

struct exchange {
	struct buf body;
	struct buf headers; /* raw lines of the last answer */
	struct curl_slist *request_headers;
	lua_State *L; /* of a stream: on_body stands at stack index `on_body` */
	CURL *handle;
	int on_body; /* 0: the body is kept */
	bool failed; /* what on_body raised is on the stack's top */
	char error[CURL_ERROR_SIZE];
};

static int handle_gc(lua_State *L)
{
	CURL **box = luaL_checkudata(L, 1, HANDLE_TYPE);
	if (*box)
		curl_easy_cleanup(*box);
	*box = NULL;
	return 0;
}

/* One handle for the process: it keeps connections open between calls. */
static CURL *the_handle(lua_State *L)
{
	if (lua_getfield(L, LUA_REGISTRYINDEX, HANDLE_TYPE ".one") == LUA_TUSERDATA) {
		CURL **box = lua_touserdata(L, -1);
		lua_pop(L, 1);
		return *box;
	}
	lua_pop(L, 1);
	CURL **box = lua_newuserdatauv(L, sizeof(*box), 0); /* NOLINT(bugprone-sizeof-expression) */
	*box = NULL;
	if (luaL_newmetatable(L, HANDLE_TYPE)) {
		lua_pushcfunction(L, handle_gc);
		lua_setfield(L, -2, "__gc");
	}
	lua_setmetatable(L, -2);
	lua_setfield(L, LUA_REGISTRYINDEX, HANDLE_TYPE ".one");
	*box = curl_easy_init();
	if (!*box)
		luaL_error(L, "libcurl does not start");
	return *box;
}

/* Bytes of a stream, as they come; false from the function ends it. Only of a 200: another answer is read whole. */
static size_t give_bytes(struct exchange *x, const char *bytes, size_t len)
{
	lua_pushvalue(x->L, x->on_body);
	lua_pushlstring(x->L, bytes, len);
	x->failed = lua_pcall(x->L, 1, 1, 0) != LUA_OK;
	if (x->failed)
		return 0;
	const bool goes_on = lua_isnil(x->L, -1) || lua_toboolean(x->L, -1);
	lua_pop(x->L, 1);
	return goes_on ? len : 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	long status = 0;
	if (x->on_body) {
		curl_easy_getinfo(x->handle, CURLINFO_RESPONSE_CODE, &status);
		if (status == 200)
			return give_bytes(x, bytes, size * n);
	}
	if (x->body.len + size * n > ANSWER_MAX)
		return 0;
	buf_put(&x->body, bytes, size * n);
	return size * n;
}

/* Ctrl-C of a session ends the call; a command without one ends by the signal itself. */
static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
	(void)arg;
	(void)total;
	(void)now;
	(void)up_total;
	(void)up_now;
	return cli_is_interrupted();
}

static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	const size_t len = size * n;
	if (len >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
		buf_clear(&x->headers); /* an interim answer came before */
	else if (x->headers.len + len <= 65536)
		buf_put(&x->headers, bytes, len);
	return len;
}

static const char *option(lua_State *L, const char *name)
{
	lua_getfield(L, 1, name);
	const char *s = lua_tostring(L, -1);
	lua_pop(L, 1); /* the table keeps it */
	return s;
}

/* Everything that may raise is read before anything is allocated: curl copies what it is given. */
static int prepare(lua_State *L)
{
	struct exchange *x = lua_touserdata(L, 2);
	CURL *h = the_handle(L);
	curl_easy_reset(h);
	const char *method = option(L, "method");
	curl_easy_setopt(h, CURLOPT_URL, option(L, "url"));
	curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(h, CURLOPT_NOBODY, (long)(strcmp(method, "HEAD") == 0));
	lua_getfield(L, 1, "body");
	if (lua_type(L, -1) == LUA_TSTRING) {
		size_t len;
		const char *body = lua_tolstring(L, -1, &len);
		curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
		curl_easy_setopt(h, CURLOPT_COPYPOSTFIELDS, body);
	}
	lua_pop(L, 1);
	if (lua_getfield(L, 1, "headers") == LUA_TTABLE) {
		for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
			x->request_headers = curl_slist_append(x->request_headers, lua_tostring(L, -1));
			lua_pop(L, 1);
		}
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	x->request_headers = curl_slist_append(x->request_headers, "Expect:"); /* no wait for 100-continue */
	curl_easy_setopt(h, CURLOPT_HTTPHEADER, x->request_headers);
	if (option(L, "user")) {
		curl_easy_setopt(h, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		curl_easy_setopt(h, CURLOPT_USERNAME, option(L, "user"));
		curl_easy_setopt(h, CURLOPT_PASSWORD, option(L, "password") ? option(L, "password") : "");
	}
	if (option(L, "cacert"))
		curl_easy_setopt(h, CURLOPT_CAINFO, option(L, "cacert"));
	lua_getfield(L, 1, "timeout_ms");
	curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)luaL_optinteger(L, -1, TIMEOUT_MS));
	curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
	curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->error);
	curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(h, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(h, CURLOPT_USERAGENT, "veena");
	curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress);
	lua_pushlightuserdata(L, h);
	return 1;
}

static bool is_unreachable(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL: return true;
	default: return false;
	}
}

static void push_headers(lua_State *L, const struct buf *raw)
{
	lua_newtable(L);
	const char *p = (const char *)raw->data;
	const char *end = p + raw->len;
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		const char *stop = eol ? eol : end;
		const char *colon = memchr(p, ':', (size_t)(stop - p));
		if (colon) {
			const char *value = colon + 1;
			while (value < stop && (*value == ' ' || *value == '\t'))
				value++;
			const char *last = stop;
			while (last > value && (last[-1] == '\r' || last[-1] == ' '))
				last--;
			luaL_Buffer name;
			luaL_buffinit(L, &name);
			for (const char *c = p; c < colon; c++)
				luaL_addchar(&name, (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c));
			luaL_pushresult(&name);
			lua_pushlstring(L, value, (size_t)(last - value));
			lua_rawset(L, -3);
		}
		p = stop + 1;
	}
}

static int push_answer(lua_State *L)
{
	const struct exchange *x = lua_touserdata(L, 1);
	const long status = (long)lua_tointeger(L, 2);
	lua_createtable(L, 0, 3);
	lua_set_integer(L, "status", status);
	lua_set_str(L, "body", (struct str){ (const char *)x->body.data, x->body.len });
	push_headers(L, &x->headers);
	lua_setfield(L, -2, "headers");
	return 1;
}

static void end_exchange(struct exchange *x)
{
	buf_fini(&x->body);
	buf_fini(&x->headers);
	curl_slist_free_all(x->request_headers);
}

static int http_request(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	if (!option(L, "url") || !option(L, "method"))
		return luaL_error(L, "http.request needs url and method");
	struct exchange x = { 0 };
	lua_pushcfunction(L, prepare);
	lua_pushvalue(L, 1);
	lua_pushlightuserdata(L, &x);
	if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
		end_exchange(&x);
		return lua_error(L);
	}
	CURL *h = lua_touserdata(L, -1);
	x.handle = h;
	x.L = L;
	if (lua_getfield(L, 1, "on_body") == LUA_TFUNCTION)
		x.on_body = lua_gettop(L);
	const CURLcode code = curl_easy_perform(h);
	if (x.failed) {
		end_exchange(&x);
		return lua_error(L);
	}
	if (code == CURLE_ABORTED_BY_CALLBACK && cli_is_interrupted()) {
		end_exchange(&x);
		return cli_raise_if_interrupted(L);
	}
	if (code != CURLE_OK) {
		lua_pushnil(L);
		lua_pushstring(L, is_unreachable(code) ? "unreachable" : "broken");
		lua_pushstring(L, x.error[0] ? x.error : curl_easy_strerror(code));
		end_exchange(&x);
		return 3;
	}
	long status = 0;
	curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
	lua_pushcfunction(L, push_answer);
	lua_pushlightuserdata(L, &x);
	lua_pushinteger(L, status);
	const int pushed = lua_pcall(L, 2, 1, 0);
	end_exchange(&x);
	return pushed == LUA_OK ? 1 : lua_error(L);
}

/* Percent-encodes a path segment or a query value. */
static int http_escape(lua_State *L)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t len;
	const char *s = luaL_checklstring(L, 1, &len);
	luaL_Buffer b;
	luaL_buffinit(L, &b);
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)s[i];
		const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		                   (c && strchr("-._~", c));
		if (plain) {
			luaL_addchar(&b, (char)c);
		} else {
			luaL_addchar(&b, '%');
			luaL_addchar(&b, digits[c >> 4]);
			luaL_addchar(&b, digits[c & 15]);
		}
	}
	luaL_pushresult(&b);
	return 1;
}

int cli_open_http(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "request", http_request },
		{ "escape", http_escape },
		{ NULL, NULL },
	};
	curl_global_init(CURL_GLOBAL_DEFAULT);
	luaL_newlib(L, functions);
	return 1;
}
