/* Remotes: URLs, limits, certificate bundles, bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/remotes.h"

#define PASSWORD "correct horse battery staple"
/* "certificate one" and "certificate two" are content enough here: what a certificate is, is not the model's. */
#define ONE "-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGUgb25l\n-----END CERTIFICATE-----\n"
#define TWO "-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGUgdHdv\n-----END CERTIFICATE-----\n"

/* What is stored of a URL; "-" when it is refused. */
static const char *stored_url(const char *text)
{
	static char out[4096];
	struct remote_url u;
	struct buf b = { 0 };
	if (!remote_url_parse(str_of(text), &u))
		return "-";
	remote_url_put(&u, &b);
	snprintf(out, sizeof(out), "%s", buf_cstr(&b));
	buf_fini(&b);
	return out;
}

/* One place has one spelling: case, the usual port and slashes at the end make no other URL. */
static void test_url_stored_form(void **state)
{
	static const char *const rows[][2] = {
		{ "https://eu.example.com", "https://eu.example.com" },
		{ "HTTPS://EU.Example.com:443/", "https://eu.example.com" },
		{ "https://eu.example.com:8443//", "https://eu.example.com:8443" },
		{ "https://10.0.0.1/veena/", "https://10.0.0.1/veena" },
		{ "https://[2001:DB8::1]/A/b", "https://[2001:db8::1]/A/b" },
		{ "https://[::1]:8443", "https://[::1]:8443" },
		{ "https://h:65535/%41~x", "https://h:65535/%41~x" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(stored_url(rows[i][0]), rows[i][1]);
}

static void test_url_refused(void **state)
{
	static const char *const rows[] = {
		"",
		"https://",
		"http://eu.example.com",
		"https:/eu.example.com",
		"eu.example.com",
		"https://user@eu.example.com",
		"https://user:pass@eu.example.com",
		"https://eu.example.com?x=1",
		"https://eu.example.com/?x=1",
		"https://eu.example.com/#top",
		"https://eu.example.com:0",
		"https://eu.example.com:65536",
		"https://eu.example.com:",
		"https://eu..example.com",
		"https://[::1",
		"https://[1.2.3.4]",
		"https://eu.example.com/a b",
		"https://eu.example.com/\"",
		"https://999.1.1.1",
	};
	char longest[REMOTE_URL_MAX + 2];
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(stored_url(rows[i]), "-") != 0)
			fail_msg("%s was taken", rows[i]);
	memset(longest, 'p', sizeof(longest));
	memcpy(longest, "https://h/", 10);
	longest[REMOTE_URL_MAX] = '\0';
	assert_string_equal(stored_url(longest), longest);
	longest[REMOTE_URL_MAX] = 'p';
	longest[REMOTE_URL_MAX + 1] = '\0';
	assert_string_equal(stored_url(longest), "-");
}

static bool same_place(const char *a, const char *b)
{
	struct remote_url x, y;
	assert_true(remote_url_parse(str_of(a), &x) && remote_url_parse(str_of(b), &y));
	return remote_url_same_place(&x, &y);
}

/* The place is host and port; what the path says makes no other cluster of it. */
static void test_url_same_place(void **state)
{
	(void)state;
	assert_true(same_place("https://eu.example.com", "https://EU.example.com:443/x"));
	assert_true(same_place("https://[2001:db8::1]", "https://[2001:DB8::1]"));
	assert_false(same_place("https://eu.example.com", "https://eu.example.com:8443"));
	assert_false(same_place("https://eu.example.com", "https://us.example.com"));
}

/* Each limit, at its bounds and one beyond; 0 and "" name nothing. */
static void test_limits_bounds(void **state)
{
	static const struct {
		const char *field;
		size_t at;
		int64_t least, most;
	} rows[] = {
		{ "limits.max_in_flight", offsetof(struct remote_limits_patch, max_in_flight), 1, 256 },
		{ "limits.request_timeout_ms", offsetof(struct remote_limits_patch, request_timeout_ms), 5000, 120000 },
		{ "limits.idle_conn_timeout_ms", offsetof(struct remote_limits_patch, idle_conn_timeout_ms), 1000,
		  300000 },
		{ "limits.conn_max_age_ms", offsetof(struct remote_limits_patch, conn_max_age_ms), 10000, 3600000 },
		{ "limits.check_interval_ms", offsetof(struct remote_limits_patch, check_interval_ms), 10000, 3600000 },
	};
	struct record_fault f;
	struct err e;
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const int64_t tries[] = { 0, rows[i].least - 1, rows[i].most + 1, -1, rows[i].least, rows[i].most };
		for (size_t k = 0; k < 6; k++) {
			struct remote_limits_patch p = { .max_in_flight = { 0 } };
			struct opt_i64 *v = (struct opt_i64 *)((char *)&p + rows[i].at);
			*v = (struct opt_i64){ .value = tries[k], .set = true };
			const int rc = rules_check_remote_limits(&p, &f, &e);
			assert_int_equal(rc, k < 4 ? ERR_INVALID : 0);
			if (rc)
				assert_string_equal(f.field, rows[i].field);
		}
	}
	assert_int_equal(
	    rules_check_remote_limits(&(struct remote_limits_patch){ .compression = STR_LIT("zstd") }, &f, &e), 0);
	assert_int_equal(rules_check_remote_limits(&(struct remote_limits_patch){ .compression = STR_LIT("") }, &f, &e),
	                 ERR_INVALID);
	assert_int_equal(rules_check_remote_limits(NULL, &f, &e), 0);
}

/* A patch goes over what is there, and what is there as 0 counts as the default. */
static void test_limits_merge(void **state)
{
	const struct remote_limits old = { .max_in_flight = 32 };
	const struct remote_limits_patch p = { .check_interval_ms = { .value = 10000, .set = true },
		                               .compression = STR_LIT("zstd") };
	const struct remote_limits now = remote_limits_patched(&old, &p);
	(void)state;
	assert_int_equal(now.max_in_flight, 32);
	assert_int_equal(now.request_timeout_ms, 30000);
	assert_int_equal(now.idle_conn_timeout_ms, 30000);
	assert_int_equal(now.conn_max_age_ms, 300000);
	assert_int_equal(now.check_interval_ms, 10000);
	assert_true(str_is(now.compression, "zstd"));
	assert_true(str_is(remote_limits_filled(&old).compression, "none"));
}

static const char *anchor_of(const char *pem)
{
	static char out[2][REMOTE_ANCHOR_SIZE];
	static int turn;
	char *to = out[turn ^= 1];
	return remote_trust_anchor(str_of(pem), to) ? to : "-";
}

/* The digest is of the certificates and their order, not of how they are written down. */
static void test_trust_anchor(void **state)
{
	(void)state;
	assert_string_equal(anchor_of(""), "system-roots");
	assert_string_equal(anchor_of(ONE), "dc50ba3e5e0ebb6c1d6c21c29aaaa083e69dc6c881b63357537377346d93fe08"
	                                    "0dc3727352fee1ddd8acd107a90c1af18ef8eb3bd1714bb16b5a4d5c98fd7c24");
	assert_string_equal(anchor_of(ONE TWO), "99c627be75cf9fb7116d4a0fb78a733eec4be2e67be3dae3da38f455519e4f52"
	                                        "82af3f2d5279c9c2a0ac95421abcf1421f86e6c1370aad2f26c028131f123e49");
	assert_string_not_equal(anchor_of(ONE TWO), anchor_of(TWO ONE));
	assert_string_equal(anchor_of(ONE), anchor_of("the first\n" ONE "\n \t\n"));
	assert_string_equal(
	    anchor_of(ONE),
	    anchor_of("-----BEGIN CERTIFICATE-----\r\nY2VydGlm\r\naWNhdGUgb25l\r\n-----END CERTIFICATE-----"));
	/* more than one line of 64 characters */
	assert_string_equal(
	    anchor_of(
		"-----BEGIN "
		"CERTIFICATE-----\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+"
		"P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV5fYGFiYw==\n-----END CERTIFICATE-----\n"),
	    "a5c74514e3266ab8cfae3f38b04cae8f100de4742197ebe395121dcdddef4ad2"
	    "1e2e2b27f7cbfdc97c3d1026346c6db5a4d4efedf80a69e36620b82bd296c8ce");
}

static void test_trust_anchor_refused(void **state)
{
	static const char *const rows[] = {
		"no certificate",
		" ",
		ONE "trailing",
		ONE "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n" ONE,
		"-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGUgb25l\n",
		"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nY2Vyd!lm\n-----END CERTIFICATE-----\n",
		"x-----BEGIN CERTIFICATE-----\nY2VydGlmaWNhdGUgb25l\n-----END CERTIFICATE-----\n",
	};
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(anchor_of(rows[i]), "-") != 0)
			fail_msg("row %zu was taken", i);
}

static struct remote_create good_create(void)
{
	return (struct remote_create){ .name = STR_LIT("eu"),
		                       .url = STR_LIT("https://eu.example.com"),
		                       .username = STR_LIT("repl"),
		                       .password = STR_LIT(PASSWORD) };
}

/* One field wrong at a time; the fault names it and the sentence never holds the password. */
static void test_create_body(void **state)
{
	char password[PASSWORD_MAX + 2], many[(REMOTE_CERTS_MAX + 1) * sizeof(ONE)], big[REMOTE_CA_MAX + 2];
	struct remote_create rows[10];
	static const char *const fields[] = { "name",     "name",     "url",    "username", "username",
		                              "password", "password", "ca_pem", "ca_pem",   "ca_pem" };
	struct record_fault f;
	struct err e;
	(void)state;
	for (size_t i = 0; i < 10; i++)
		rows[i] = good_create();
	assert_int_equal(rules_check_remote_create(&rows[0], &f, &e), 0);
	memset(password, 'p', sizeof(password));
	memset(big, ' ', sizeof(big));
	memcpy(big, ONE, sizeof(ONE) - 1);
	for (size_t i = 0; i <= REMOTE_CERTS_MAX; i++)
		memcpy(many + i * (sizeof(ONE) - 1), ONE, sizeof(ONE));
	rows[0].name = STR_LIT("Eu");
	rows[1].name = STR_LIT("_keys");
	rows[2].url = STR_LIT("http://eu.example.com");
	rows[3].username = STR_LIT("");
	rows[4].username = STR_LIT("a b");
	rows[5].password.len = REMOTE_PASSWORD_MIN - 1;
	rows[6].password = (struct str){ password, PASSWORD_MAX + 1 };
	rows[7].ca_pem = STR_LIT("nothing");
	rows[8].ca_pem = str_of(many);
	rows[9].ca_pem = (struct str){ big, REMOTE_CA_MAX + 1 };
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(rules_check_remote_create(&rows[i], &f, &e), ERR_INVALID);
		assert_string_equal(f.field, fields[i]);
		assert_null(strstr(e.msg, PASSWORD));
	}
	struct remote_create b = good_create();
	b.password = (struct str){ password, PASSWORD_MAX };
	b.ca_pem = (struct str){ many, strlen(many) - strlen(ONE) };
	assert_int_equal(rules_check_remote_create(&b, &f, &e), 0);
	b.ca_pem = (struct str){ big, REMOTE_CA_MAX };
	assert_int_equal(rules_check_remote_create(&b, &f, &e), 0);
}

/* A stored password goes nowhere new: whatever moves it needs it again. */
static void test_patch_body(void **state)
{
	const struct remote_limits_patch limits = { .max_in_flight = { .value = 2, .set = true } };
	const struct remote_patch alone[] = { { .url = STR_LIT("https://us.example.com") },
		                              { .username = STR_LIT("other") },
		                              { .ca_pem = STR_LIT("") } };
	struct record_fault f;
	struct err e;
	(void)state;
	assert_int_equal(rules_check_remote_patch(&(struct remote_patch){ .limits = &limits }, &f, &e), 0);
	assert_int_equal(rules_check_remote_patch(&(struct remote_patch){ .password = STR_LIT(PASSWORD) }, &f, &e), 0);
	assert_int_equal(rules_check_remote_patch(&(struct remote_patch){ .limits = NULL }, &f, &e), ERR_INVALID);
	for (size_t i = 0; i < 3; i++) {
		struct remote_patch p = alone[i];
		assert_int_equal(rules_check_remote_patch(&p, &f, &e), ERR_INVALID);
		assert_string_equal(f.field, "password");
		p.password = STR_LIT(PASSWORD);
		assert_int_equal(rules_check_remote_patch(&p, &f, &e), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_url_stored_form),      cmocka_unit_test(test_url_refused),
		cmocka_unit_test(test_url_same_place),       cmocka_unit_test(test_limits_bounds),
		cmocka_unit_test(test_limits_merge),         cmocka_unit_test(test_trust_anchor),
		cmocka_unit_test(test_trust_anchor_refused), cmocka_unit_test(test_create_body),
		cmocka_unit_test(test_patch_body),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
