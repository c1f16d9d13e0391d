/* Type 65: labels of a topic, set and removed one by one, shown in the tail, gone with the topic. */
#include "fsm_harness.h"

#include "model/rules.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"

/* {"a=1", "b"}: sets a, removes b. Keys in order. */
static int do_labels(struct rig *r, const char *topic, const char *id, const char *const *pairs, size_t n)
{
	struct str_pair items[LABELS_MAX + 2];
	for (size_t i = 0; i < n; i++) {
		const char *eq = strchr(pairs[i], '=');
		items[i].key = (struct str){ pairs[i], eq ? (size_t)(eq - pairs[i]) : strlen(pairs[i]) };
		items[i].value = eq ? str_of(eq + 1) : NONE;
	}
	const struct cmd_topic_labels c = { str_of(topic), str_of(id), { items, n } };
	return rig_do(r, CMD_TOPIC_LABELS, &c);
}
#define LABELS(r, topic, id, ...)                                                                                      \
	do_labels(r, topic, id, (const char *const[]){ __VA_ARGS__ },                                                  \
	          sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void assert_tail(struct rig *r, const char *topic, const char *labels)
{
	struct fsm_topic t;
	char want[512];
	snprintf(want, sizeof(want), ",\"role\":\"standalone\",\"replicas\":1,\"unclean\":false,\"labels\":%s", labels);
	assert_true(topic_there(r, topic, &t));
	if (!str_is(t.tail, want))
		fail_msg(STR_FMT " instead of %s", STR_ARG(t.tail), want);
}

/* A change names labels; those it does not name stay, a null removes, the last one gone leaves no row. */
static void test_labels_change_one_by_one(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(LABELS(r, "orders", ID1, "env=prod", "team=a"), 0);
	assert_tail(r, "orders", "{\"env\":\"prod\",\"team\":\"a\"}");
	assert_string_equal(stored(r, STORE_X_LABELS, "orders"),
	                    "{\"replicas\":1,\"unclean\":false,\"labels\":{\"env\":\"prod\",\"team\":\"a\"}}");
	assert_true(topic_there(r, "orders", &t));
	assert_int_equal(t.changed_index, r->index);
	assert_string_equal(changes_since(r, r->index - 1), "topics:orders+");
	assert_int_equal(LABELS(r, "orders", ID1, "a=", "env", "nothing", "team=<b>", "z=1"), 0);
	assert_tail(r, "orders", "{\"a\":\"\",\"team\":\"\\u003cb\\u003e\",\"z\":\"1\"}");
	assert_int_equal(LABELS(r, "orders", ID1, "a", "team", "z"), 0);
	assert_tail(r, "orders", "{}");
	assert_int_equal(rows(r, STORE_X_LABELS), 0);
}

/* What changes nothing leaves no note and moves no version. */
static void test_same_labels_are_no_change(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(LABELS(r, "orders", ID1, "a=1"), 0);
	const raft_index before = r->index;
	assert_int_equal(LABELS(r, "orders", ID1, "a=1", "b"), 0);
	assert_string_equal(changes_since(r, before), "");
	assert_true(topic_there(r, "orders", &t));
	assert_int_equal(t.changed_index, before);
}

/* In this order: not found, another incarnation, what no label may be; refusals leave nothing. */
static void test_labels_are_refused_in_order(void **state)
{
	struct rig *r = *state;
	char keys[LABELS_MAX + 1][16];
	const char *many[LABELS_MAX + 1];
	assert_int_equal(LABELS(r, "orders", "", "a b=1"), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(LABELS(r, "orders", ID2, "a b=1"), FSM_TOPIC_CHANGED);
	assert_int_equal(LABELS(r, "orders", "", "a=1"), FSM_TOPIC_CHANGED);
	assert_int_equal(LABELS(r, "orders", ID1, "a b=1"), FSM_INVALID);
	assert_int_equal(LABELS(r, "orders", ID1, "=1"), FSM_INVALID);
	for (int i = 0; i <= LABELS_MAX; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%02d=v", i);
		many[i] = keys[i];
	}
	assert_int_equal(do_labels(r, "orders", ID1, many, LABELS_MAX + 1), FSM_INVALID);
	assert_int_equal(rows(r, STORE_X_LABELS), 0);
	assert_int_equal(do_labels(r, "orders", ID1, many, LABELS_MAX), 0);
	assert_int_equal(LABELS(r, "orders", ID1, "one-more=v"), FSM_INVALID);
	assert_int_equal(LABELS(r, "orders", ID1, "k00", "one-more=v"), 0);
}

/* F38: labels end with their topic, and the next one of the name has none; changes to the record leave them alone. */
static void test_labels_live_with_their_topic(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_create(r, "orders", ID1, 3), 0);
	assert_int_equal(LABELS(r, "orders", ID1, "a=1"), 0);
	struct topic t = topic_of("orders", ID1, 5);
	const struct cmd_topic_update_if wider = { t, S(ID1) };
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE_IF, &wider), 0);
	assert_tail(r, "orders", "{\"a\":\"1\"}");
	const struct cmd_topic_delete_if gone = { S("orders"), S(ID1) };
	assert_int_equal(rig_do(r, CMD_TOPIC_DELETE_IF, &gone), 0);
	assert_int_equal(rows(r, STORE_X_LABELS), 0);
	assert_int_equal(do_create(r, "orders", ID2, 3), 0);
	assert_tail(r, "orders", "{}");
	assert_int_equal(LABELS(r, "orders", ID1, "a=1"), FSM_TOPIC_CHANGED);
}

/* Merging goes by keys in order, whatever side ends first. */
static void test_merge_keeps_order(void **state)
{
	const struct str_pair old[] = { { S("b"), S("1") }, { S("d"), S("1") } };
	const struct str_pair change[] = { { S("a"), S("2") }, { S("b"), NONE }, { S("c"), S("2") }, { S("e"), NONE } };
	const struct str_map was = { old, 2 }, by = { change, 4 }, none = { 0 };
	struct arena a = { 0 };
	(void)state;
	struct str_map m = fsm_merge_labels(&was, &by, &a);
	assert_int_equal(m.count, 3);
	assert_true(str_is(m.items[0].key, "a") && str_is(m.items[1].key, "c") && str_is(m.items[2].key, "d"));
	assert_int_equal(fsm_merge_labels(&none, &by, &a).count, 2);
	assert_int_equal(fsm_merge_labels(&was, &none, &a).count, 2);
	assert_int_equal(fsm_merge_labels(&none, &none, &a).count, 0);
	arena_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_labels_change_one_by_one),      CASE(test_same_labels_are_no_change),
		CASE(test_labels_are_refused_in_order),   CASE(test_labels_live_with_their_topic),
		cmocka_unit_test(test_merge_keeps_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
