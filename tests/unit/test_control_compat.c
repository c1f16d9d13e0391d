/* Asking the schema policy: what C judges before it, what its answers mean, faults and who answers then, and what a
 * large document costs. The rules themselves are shown in spec/schema_spec.lua. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "control/compat.h"

#define TOPIC "{\"name\":\"orders\",\"partitions\":3,\"labels\":{\"team\":\"a\"}}"

/* A policy directory with one schema.lua, or none. */
struct world {
	char dir[64];
	struct policy_set *policies;
	struct arena arena;
	struct compat_answer answer;
	struct sandbox_fault fault;
};

static void world_open(struct world *w, const char *policy)
{
	*w = (struct world){ .dir = "/tmp/veena-compat-XXXXXX" };
	assert_non_null(mkdtemp(w->dir));
	if (policy) {
		char path[96];
		snprintf(path, sizeof(path), "%s/schema.lua", w->dir);
		FILE *f = fopen(path, "w");
		assert_non_null(f);
		assert_true(fputs(policy, f) >= 0);
		assert_int_equal(fclose(f), 0);
	}
	w->policies = policy_set_new(w->dir);
	policy_set_refresh(w->policies, 1);
}

static void world_close(struct world *w)
{
	char path[96];
	snprintf(path, sizeof(path), "%s/schema.lua", w->dir);
	(void)unlink(path); /* not in every world */
	assert_int_equal(rmdir(w->dir), 0);
	policy_set_free(w->policies);
	arena_fini(&w->arena);
}

static int ask_texts(struct world *w, struct str old, struct str new)
{
	arena_reset(&w->arena);
	const struct compat_question q = { .topic_json = STR_LIT(TOPIC), .old_json = old, .new_json = new };
	return compat_ask(w->policies, &sandbox_budget_request, &q, &w->arena, &w->answer, &w->fault);
}

static int ask(struct world *w, const char *old, const char *new)
{
	return ask_texts(w, str_of(old), str_of(new));
}

static void accepts(struct world *w, const char *old, const char *new)
{
	if (ask(w, old, new) != 0)
		fail_msg("%s -> %s: fault %s", old ? old : "nothing", new, w->fault.message);
	if (!w->answer.compatible)
		fail_msg("%s -> %s: refused, %s", old ? old : "nothing", new, w->answer.reason);
}

static void refuses(struct world *w, const char *old, const char *new, const char *part)
{
	if (ask(w, old, new) != 0)
		fail_msg("%s -> %s: fault %s", old ? old : "nothing", new, w->fault.message);
	if (w->answer.compatible || !strstr(w->answer.reason, part))
		fail_msg("%s -> %s: %s '%s'", old ? old : "nothing", new, w->answer.compatible ? "accepted" : "refused",
		         w->answer.reason);
}

/* The shipped policy answers from C. */
static void test_shipped_policy_answers(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, NULL);
	accepts(&w, NULL, "true");
	accepts(&w, NULL, "{\"type\":\"object\",\"required\":[]}");
	accepts(&w, "{\"type\":\"string\"}", "{\"type\":[\"string\",\"null\"]}");
	assert_false(w.answer.unchanged);
	assert_string_equal(w.answer.reason, "");
	assert_true(w.answer.instructions > 0 && w.answer.bytes > 0);
	refuses(&w, NULL, "false", "at the root");
	refuses(&w, NULL, "null", "at the root");
	refuses(&w, "{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"properties\":{\"a\":{\"type\":\"null\"}}}",
	        "at /properties/a: type");
	world_close(&w);
}

/* Annotations alone make no new version. */
static void test_annotations_are_told_apart(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, NULL);
	accepts(&w, "{\"type\":\"string\"}", "{\"type\":\"string\",\"title\":\"x\"}");
	assert_true(w.answer.unchanged);
	accepts(&w, "{\"type\":\"string\"}", "{\"type\":\"string\",\"x-owner\":\"x\"}");
	assert_false(w.answer.unchanged);
	world_close(&w);
}

/* What Lua cannot see is judged before it: size, depth, repeated keys, exponents. */
static void test_documents_are_checked_first(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, NULL);
	refuses(&w, NULL, "{\"type\":", "not sound at byte 8");
	refuses(&w, NULL, "{\"type\":\"string\",\"type\":\"null\"}", "occurs twice");
	refuses(&w, NULL, "{\"title\":\"\\u0000\"}", "not sound");
	refuses(&w, NULL, "{\"maximum\":1e1001}", "exponent beyond 1000");
	refuses(&w, NULL, "{\"maximum\":1E-01001}", "exponent beyond 1000");
	refuses(&w, NULL, "{\"const\":1e99999999999999999999}", "exponent beyond 1000");
	accepts(&w, NULL, "{\"const\":1e1000}");
	accepts(&w, NULL, "{\"const\":1e-1000}");
	refuses(&w, "{\"maximum\":1", "{\"maximum\":1}", "current version: not JSON");

	struct buf b = { 0 };
	for (int depth = 64; depth <= 65; depth++) {
		buf_clear(&b);
		buf_puts(&b, "{\"const\":");
		for (int i = 1; i < depth; i++)
			buf_putc(&b, '[');
		for (int i = 1; i < depth; i++)
			buf_putc(&b, ']');
		buf_putc(&b, '}');
		if (depth == 64)
			accepts(&w, NULL, buf_cstr(&b));
		else
			refuses(&w, NULL, buf_cstr(&b), "nested too deeply");
	}
	for (size_t size = COMPAT_BYTES_MAX; size <= COMPAT_BYTES_MAX + 1; size++) {
		buf_clear(&b);
		buf_puts(&b, "{\"title\":\"");
		while (b.len < size - 2)
			buf_putc(&b, 'x');
		buf_puts(&b, "\"}");
		if (size == COMPAT_BYTES_MAX)
			accepts(&w, NULL, buf_cstr(&b));
		else
			refuses(&w, NULL, buf_cstr(&b), "262145 bytes, allowed are 262144");
	}
	buf_fini(&b);
	world_close(&w);
}

/* Numbers that Lua would take for one another, or in the wrong order, end the judgement; exact ones never do. */
static void test_numbers_stay_apart(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, NULL);
	accepts(&w, "{\"maximum\":18446744073709551615}", "{\"maximum\":18446744073709551615,\"title\":\"u64\"}");
	accepts(&w, "{\"maximum\":18446744073709551615}", "{\"maximum\":18446744073709555000}");
	accepts(&w, "{\"maximum\":9223372036854775806}", "{\"maximum\":9223372036854775807}");
	accepts(&w, "{\"minimum\":0.30000000000000004}", "{\"minimum\":0.3}");
	accepts(&w, "{\"maximum\":1.0}", "{\"maximum\":1}");
	accepts(&w, "{\"maximum\":10000000000000000000000}", "{\"maximum\":1e22,\"minLength\":0}");
	refuses(&w, "{\"maximum\":9223372036854775807}", "{\"maximum\":9223372036854775806}",
	        "maximum: may only be raised");
	refuses(&w, "{\"maximum\":0.30000000000000004}", "{\"maximum\":0.3}", "maximum: may only be raised");
	refuses(&w, "{\"maximum\":18446744073709551615}", "{\"maximum\":18446744073709551614}", "too close");
	refuses(&w, "{\"maximum\":0.1}", "{\"maximum\":0.10000000000000000001}", "too close");
	refuses(&w, NULL, "{\"enum\":[9007199254740992,9007199254740993.0]}", "too close");
	/* Rounded past an integer in between: 2^60 + 200.5 becomes 2^60 + 256. */
	refuses(&w, NULL, "{\"enum\":[1152921504606847176.5,1152921504606847196]}", "too close");
	refuses(&w, NULL, "{\"enum\":[123456789012345000e0,123456789012344996]}", "too close");
	refuses(&w, NULL, "{\"enum\":[1e-400,0]}", "too close");
	refuses(&w, NULL, "{\"enum\":[1e400,1e401]}", "too close");
	world_close(&w);
}

/* A policy of the operator's own comes first; it gets both documents and the topic, and its words reach the client
 * whole or cut between two characters. */
static void test_file_policy_answers_first(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, "return { compatible = function(old, new, topic)\n"
	               "  if old == nil then return false, topic.name .. topic.labels.team end\n"
	               "  return new.maxLength == 5 and old.maxLength == 4, string.rep('\xc3\xa9', 200)\n"
	               "end }");
	refuses(&w, NULL, "{}", "ordersa");
	refuses(&w, "{\"maxLength\":3}", "{\"maxLength\":5}", "\xc3\xa9");
	assert_int_equal(strlen(w.answer.reason), COMPAT_REASON_MAX);
	accepts(&w, "{\"maxLength\":4}", "{\"maxLength\":5}");
	world_close(&w);

	world_open(&w, "return { compatible = function() return false end }");
	refuses(&w, NULL, "{}", "gives no reason");
	world_close(&w);
}

/* A policy of the operator's own may build on the shipped modules, and finds no others. */
static void test_shipped_modules_are_found(void **state)
{
	(void)state;
	struct world w;
	world_open(
	    &w, "local base = require 'lib.schema_base'\n"
		"return { compatible = function(old, new) return base.is_object(new), base.cut('abcdefgh', 5) end }");
	accepts(&w, NULL, "{}");
	assert_string_equal(w.answer.reason, "ab...");
	refuses(&w, NULL, "true", "ab...");
	world_close(&w);

	static const char *const names[] = {
		"lib.nothing",
		"lib.",
		"schema",
		"lib.../schema",
		"lib.schema_base.lua",
		"lib.a_name_that_is_far_longer_than_any_module_of_this_tree_has_ever_been"
	};
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char source[256];
		snprintf(source, sizeof(source),
		         "return { compatible = function() return false, tostring(pcall(require, '%s')) end }",
		         names[i]);
		world_open(&w, source);
		refuses(&w, NULL, "{}", "false");
		world_close(&w);
	}
}

static size_t faults_of(enum policy_source source, struct policy_fault_record *out)
{
	struct policy_fault_record all[POLICY_FAULTS_MAX];
	const size_t n = policy_faults_copy(all);
	for (size_t i = 0; i < n; i++) {
		if (all[i].kind == POLICY_SCHEMA && all[i].source == source) {
			*out = all[i];
			return 1;
		}
	}
	return 0;
}

/* Whatever a policy does wrong, the shipped one answers and the fault is kept; what cannot get better is benched. */
static void test_faults_fall_back(void **state)
{
	(void)state;
	static const struct {
		const char *policy;
		enum sandbox_fault_kind kind;
		bool benched;
		const char *part;
	} cases[] = {
		{ "return {", SANDBOX_FAULT_LOAD, true, "schema.lua:1:" },
		{ "return 1", SANDBOX_FAULT_LOAD, true, "returns a number" },
		{ "return { place = print }", SANDBOX_FAULT_LOAD, true, "no global 'print'" },
		{ "return {}", SANDBOX_FAULT_LOAD, true, "no function 'compatible'" },
		{ "local x = require 'lib.none'", SANDBOX_FAULT_LOAD, true, "no module 'lib.none'" },
		{ "return { compatible = function(o) return o.x.y end }", SANDBOX_FAULT_RUNTIME, false, "index" },
		{ "return { compatible = function() end }", SANDBOX_FAULT_RUNTIME, false, "returns a nil" },
		{ "return { compatible = function() return 'yes' end }", SANDBOX_FAULT_RUNTIME, false,
		  "returns a string" },
		{ "return { compatible = function() return false, {} end }", SANDBOX_FAULT_RUNTIME, false,
		  "reason is a table" },
		{ "return { compatible = function() while true do end end }", SANDBOX_FAULT_BUDGET, true,
		  "instructions" },
		{ "return { compatible = function() local t = {} while true do t[#t+1] = {} end end }",
		  SANDBOX_FAULT_BUDGET, true, "spent" },
		{ "return { compatible = function() while true do pcall(function() while true do end end) end end }",
		  SANDBOX_FAULT_BUDGET, true, "spent" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct world w;
		world_open(&w, cases[i].policy);
		refuses(&w, "{\"type\":\"string\"}", "{\"type\":\"null\"}", "no longer allowed");
		accepts(&w, "{\"type\":\"string\"}", "{}");
		struct policy_fault_record r;
		assert_int_equal(faults_of(POLICY_FILE, &r), 1);
		if (r.fault.kind != cases[i].kind || r.benched != cases[i].benched ||
		    !strstr(r.fault.message, cases[i].part))
			fail_msg("%s: %s, %s", cases[i].policy, sandbox_fault_name(r.fault.kind), r.fault.message);
		assert_int_equal(r.count, cases[i].benched ? 1 : 2); /* a benched one is not asked again */
		assert_int_equal(faults_of(POLICY_SHIPPED, &r), 0);
		assert_true(r.since_ms > 0 && r.since_ms <= r.at_ms);
		const struct policy_stats *stats = policy_set_stats(w.policies, POLICY_SCHEMA);
		struct buf text = { 0 };
		char want[32];
		assert_int_equal(stats->faults, r.count);
		prom_put_histogram(&text, "t", "", &stats->runs);
		snprintf(want, sizeof(want), "t_count{} %d\n", (int)r.count + 2); /* each try, and the shipped one's */
		assert_non_null(strstr(buf_cstr(&text), want));
		buf_fini(&text);
		world_close(&w);
	}
}

/* With no answer from anybody nothing is decided, and the shipped policy is asked again next time: one client's
 * documents must not close the door for all. */
static void test_no_policy_answers(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, NULL);
	const struct sandbox_budget tiny = { .instructions = 1000, .memory = 32u << 20, .wall_ms = 250 };
	const struct compat_question q = { .topic_json = STR_LIT(TOPIC), .new_json = STR_LIT("{}") };
	assert_int_equal(compat_ask(w.policies, &tiny, &q, &w.arena, &w.answer, &w.fault), ERR_INVALID);
	assert_int_equal(w.fault.kind, SANDBOX_FAULT_BUDGET);
	assert_false(w.answer.compatible);
	struct policy_fault_record r;
	assert_int_equal(faults_of(POLICY_SHIPPED, &r), 1);
	assert_false(r.benched);
	accepts(&w, NULL, "{}");
	world_close(&w);
}

/* ---- what documents cost ---- */

/* A document of `count` properties and about `size` bytes; `room` is their maxLength. */
static void put_wide(struct buf *out, int count, size_t size, int room)
{
	buf_clear(out);
	buf_puts(out, "{\"type\":\"object\",\"required\":[\"field_0001\"],\"properties\":{");
	for (int i = 0; i < count; i++) {
		const size_t until = size * (size_t)(i + 1) / (size_t)count - 24;
		buf_printf(
		    out, "%s\"field_%04d\":{\"type\":[\"string\",\"null\"],\"maxLength\":%d,\"pattern\":\"^[a-z]%d\",",
		    i ? "," : "", i, room, i);
		buf_puts(out, "\"description\":\"");
		while (out->len < until)
			buf_putc(out, 'd');
		buf_puts(out, "\"}");
	}
	buf_puts(out, "}}");
}

static void put_repeated(struct buf *out, const char *head, const char *unit, const char *tail, size_t size)
{
	buf_clear(out);
	buf_puts(out, head);
	for (int i = 0; out->len + strlen(unit) + 16 < size; i++) {
		if (i)
			buf_putc(out, ',');
		for (const char *p = unit; *p; p++) {
			if (*p == '#')
				buf_printf(out, "%d", i);
			else
				buf_putc(out, *p);
		}
	}
	buf_puts(out, tail);
}

static void print_cost(const struct world *w, const char *what)
{
	print_message("%-44s %7.2f M instructions, %5.1f MiB: %s %s\n", what, (double)w->answer.instructions / 1e6,
	              (double)w->answer.bytes / 1048576.0, w->answer.compatible ? "yes" : "no", w->answer.reason);
}

/* 256 KiB with 2,000 properties, each of which changed, are judged within two thirds of a request's budget. */
static void test_wide_document_fits_the_budget(void **state)
{
	(void)state;
	struct world w;
	world_open(&w, NULL);
	struct buf old = { 0 };
	struct buf new = { 0 };
	put_wide(&old, 2000, COMPAT_BYTES_MAX, 10);
	put_wide(&new, 2000, COMPAT_BYTES_MAX, 12);
	assert_true(new.len > COMPAT_BYTES_MAX - 2000 && new.len <= COMPAT_BYTES_MAX);
	accepts(&w, NULL, buf_cstr(&new));
	print_cost(&w, "2,000 properties, first version");
	accepts(&w, buf_cstr(&old), buf_cstr(&new));
	print_cost(&w, "2,000 properties, all widened");
	assert_true(w.answer.instructions < sandbox_budget_request.instructions / 3 * 2);
	assert_true(w.answer.bytes < sandbox_budget_request.memory / 3);
	refuses(&w, buf_cstr(&new), buf_cstr(&old), "at /properties/field_0000: maxLength");
	buf_fini(&old);
	buf_fini(&new);
	world_close(&w);
}

/* Documents made to cost much end in an answer and not in the sandbox's budget. */
static void test_hostile_documents_get_an_answer(void **state)
{
	(void)state;
	static const struct {
		const char *what;
		const char *head, *unit, *tail;
	} cases[] = {
		{ "very many properties", "{\"properties\":{", "\"#\":{}", "}}" },
		{ "very many open properties", "{\"properties\":{", "\"#\":true", "}}" },
		{ "very many keywords that are none", "{", "\"#\":0", "}" },
		{ "a wide enum", "{\"enum\":[", "#", "]}" },
		{ "an enum of objects", "{\"enum\":[", "{\"#\":{}}", "]}" },
		{ "an enum of empty lists", "{\"enum\":[", "[]", "]}" },
		{ "a long required", "{\"required\":[", "\"#\"", "]}" },
		{ "a wide anyOf", "{\"anyOf\":[", "{\"const\":#}", "]}" },
		{ "a wide anyOf of anyOfs", "{\"anyOf\":[", "{\"anyOf\":[{\"const\":#},{\"const\":\"#\"}]}", "]}" },
		{ "a wide allOf", "{\"allOf\":[", "{\"maxLength\":#}", "]}" },
		{ "long patterns", "{\"allOf\":[",
		  "{\"pattern\":\"^abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz#\"}", "]}" },
		{ "patterns of properties", "{\"patternProperties\":{", "\"^#\":{}", "}}" },
		{ "a chain of references", "{\"$defs\":{\"x\":{},",
		  "\"#\":{\"allOf\":[{\"$ref\":\"~/$defs/x\"},{\"$ref\":\"~/$defs/x\"}]}", "}}" },
		{ "references to one", "{\"$defs\":{\"x\":{\"type\":\"null\"}},\"properties\":{",
		  "\"#\":{\"$ref\":\"~/$defs/x\"}", "}}" },
		{ "references to the root", "{\"properties\":{", "\"#\":{\"$ref\":\"~\"}", "}}" },
		{ "references to one union",
		  "{\"$defs\":{\"x\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"string\"},"
		  "{\"type\":\"boolean\"},{\"type\":\"number\"}]}},\"properties\":{",
		  "\"#\":{\"allOf\":[{\"$ref\":\"~/$defs/x\"}]}", "}}" },
		{ "nested lists", "{\"default\":[", "[[[[]]]]", "]}" },
	};
	struct world w;
	world_open(&w, NULL);
	struct buf old = { 0 };
	struct buf new = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		put_repeated(&new, cases[i].head, cases[i].unit, cases[i].tail, COMPAT_BYTES_MAX);
		for (size_t k = 0; k < new.len; k++) {
			if (new.data[k] == '~')
				new.data[k] = '#';
		}
		/* The same in the opposite place: one more keyword in front, so that nothing is decided at a glance. */
		buf_clear(&old);
		buf_puts(&old, "{\"minLength\":7,");
		buf_put(&old, new.data + 1, new.len - 1);
		for (int first = 0; first < 2; first++) {
			const struct str before = { first ? NULL : (const char *)old.data, first ? 0 : old.len };
			const int rc = ask_texts(&w, before, (struct str){ (const char *)new.data, new.len });
			print_cost(&w, cases[i].what);
			if (rc != 0)
				fail_msg("%s: %s", cases[i].what, w.fault.message);
		}
	}
	buf_fini(&old);
	buf_fini(&new);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shipped_policy_answers),
		cmocka_unit_test(test_annotations_are_told_apart),
		cmocka_unit_test(test_documents_are_checked_first),
		cmocka_unit_test(test_numbers_stay_apart),
		cmocka_unit_test(test_file_policy_answers_first),
		cmocka_unit_test(test_shipped_modules_are_found),
		cmocka_unit_test(test_faults_fall_back),
		cmocka_unit_test(test_no_policy_answers),
		cmocka_unit_test(test_wide_document_fits_the_budget),
		cmocka_unit_test(test_hostile_documents_get_an_answer),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
