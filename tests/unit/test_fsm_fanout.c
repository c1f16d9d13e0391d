/* Parents, children and schema histories: types 4, 13, 14, 26, 27, 28, the link of 23, and what updates and deletes ask
 * of partners. */
#include "fsm_harness.h"

#include "fsm/fsm_internal.h"
#include "model/rules.h"

#define ID1 "1111111111111111"
#define ID2 "2222222222222222"
#define EPOCH "eeeeeeeeeeeeeeee"

static int do_attach(struct rig *r, const char *parent, const char *child, int64_t delay_ms)
{
	const struct cmd_child_attach c = { str_of(parent), str_of(child), S(EPOCH), delay_ms, { 0 } };
	return rig_do(r, CMD_CHILD_ATTACH, &c);
}

static int do_attach_if(struct rig *r, const char *parent, const char *parent_id, const char *child,
                        const char *child_id)
{
	const struct cmd_child_attach_if c = { { str_of(parent), str_of(child), S(EPOCH), 0, { 0 } },
		                               str_of(parent_id),
		                               str_of(child_id) };
	return rig_do(r, CMD_CHILD_ATTACH_IF, &c);
}

static int do_detach(struct rig *r, const char *parent, const char *child)
{
	const struct cmd_child_detach c = { str_of(parent), str_of(child) };
	return rig_do(r, CMD_CHILD_DETACH, &c);
}

static int do_detach_if(struct rig *r, const char *parent, const char *pid, const char *child, const char *cid)
{
	const struct cmd_child_detach_if c = { str_of(parent), str_of(child), str_of(pid), str_of(cid) };
	return rig_do(r, CMD_CHILD_DETACH_IF, &c);
}

static int do_schema(struct rig *r, const char *topic, int64_t version, const char *doc)
{
	const struct cmd_schema_put c = { str_of(topic), version, str_of(doc) };
	return rig_do(r, CMD_SCHEMA_PUT, &c);
}

static int do_schema_if(struct rig *r, const char *topic, int64_t version, struct str doc, const char *id)
{
	const struct cmd_schema_put_if c = { str_of(topic), version, doc, str_of(id) };
	return rig_do(r, CMD_SCHEMA_PUT_IF, &c);
}

static int do_retention(struct rig *r, const char *name, const char *id, int64_t retention_ms)
{
	struct cmd_topic_update_if c = { topic_of(name, id, 3), str_of(id) };
	c.topic.retention_ms = retention_ms;
	return rig_do(r, CMD_TOPIC_UPDATE_IF, &c);
}

/* A stub can come in by type 1, which stores what it is given. */
static void make_stub(struct rig *r, const char *name, const char *parent)
{
	const struct remote_link link = { .name = S("eu"), .topic = S("orders"), .from = S("attach"), .lanes = 1 };
	struct topic t = topic_of(name, ID2, 0);
	t.role = S("child");
	t.parent = str_of(parent);
	t.attach_epoch = S(EPOCH);
	t.remote = &link;
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), 0);
}

static void make_parent_of_stub(struct rig *r, const char *name, const char *stub, int64_t retention_ms)
{
	const struct str children[] = { str_of(stub) };
	struct topic t = topic_of(name, ID1, 3);
	t.role = S("parent");
	t.children = (struct str_list){ children, 1 };
	t.retention_ms = retention_ms;
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), 0);
}

/* Attaching sets both records, adopts the parent's history under its numbers, and detaching keeps data and schemas. */
static void test_attach_links_and_adopts(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	struct str doc;
	assert_int_equal(do_create_with(r, topic_of("p", ID1, 3), "{\"v\":1}", NULL), 0);
	assert_int_equal(do_schema(r, "p", 2, "{\"v\":2}"), 0);
	assert_int_equal(do_create(r, "c", ID2, 3), 0);
	assert_int_equal(do_attach(r, "p", "c", 1000), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "p"), "\"role\":\"parent\",\"children\":[\"c\"]}"));
	assert_non_null(strstr(stored(r, STORE_TOPICS, "c"),
	                       "\"role\":\"child\",\"parent\":\"p\",\"attach_epoch\":\"" EPOCH
	                       "\",\"fanout_delay_ms\":1000}"));
	assert_true(topic_there(r, "c", &t));
	assert_int_equal(t.schema_version, 2);
	assert_true(str_is(t.tail, ",\"replicas\":1,\"unclean\":false,\"labels\":{}"));
	assert_int_equal(fsm_get_schema(rig_read(r), S("c"), 2, &doc), 0);
	assert_true(str_is(doc, "{\"v\":2}"));
	assert_string_equal(changes_since(r, r->index - 1), "topics:p+ topics:c+ schemas:c/1+ schemas:c/2+");
	assert_int_equal(do_detach(r, "p", "c"), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "p"), "\"role\":\"standalone\"}"));
	assert_non_null(strstr(stored(r, STORE_TOPICS, "c"), "\"role\":\"standalone\"}"));
	assert_int_equal(rows(r, STORE_SCHEMAS), 4);
}

/* Every rule of an attach, in the order of the table. */
static void test_attach_refuses_in_order(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_attach(r, "p", "p", -1), FSM_ROLE_CONFLICT);
	assert_int_equal(do_attach(r, "p", "c", -1), FSM_PARENT_NOT_FOUND);
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	assert_int_equal(do_attach(r, "p", "c", -1), FSM_CHILD_NOT_FOUND);
	assert_int_equal(do_create(r, "c", ID2, 3), 0);
	assert_int_equal(do_create(r, "q", ID2, 3), 0);
	assert_int_equal(do_create(r, "d", ID2, 3), 0);
	assert_int_equal(do_attach(r, "p", "c", 0), 0);
	assert_int_equal(do_attach(r, "c", "d", 0), FSM_ROLE_CONFLICT);
	assert_int_equal(do_attach(r, "q", "p", 0), FSM_ROLE_CONFLICT);
	assert_int_equal(do_attach(r, "p", "c", -1), FSM_ALREADY_ATTACHED);
	assert_int_equal(do_attach(r, "q", "c", -1), FSM_ROLE_CONFLICT);
	assert_int_equal(do_attach(r, "p", "d", -1), FSM_ROLE_CONFLICT);
	assert_int_equal(do_attach(r, "p", "d", TOPIC_DELAY_MAX_MS + 1), FSM_DELAY_TOO_LONG);
	assert_int_equal(do_attach(r, "p", "d", 604800000 - 3600000 + 1), FSM_DELAY_TOO_LONG);
	assert_int_equal(do_schema(r, "d", 1, "{}"), 0);
	assert_int_equal(do_attach(r, "p", "d", 604800000 - 3600000), FSM_SCHEMA_MISMATCH);
	assert_int_equal(do_detach(r, "p", "d"), FSM_NOT_LINKED);
	assert_int_equal(do_detach(r, "none", "d"), FSM_PARENT_NOT_FOUND);
	assert_int_equal(do_detach(r, "p", "none"), FSM_CHILD_NOT_FOUND);
}

/* The 109th child is refused. */
static void test_attach_counts_children(void **state)
{
	struct rig *r = *state;
	char name[16];
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	for (int i = 0; i <= TOPIC_CHILDREN_MAX; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(do_create(r, name, ID2, 1), 0);
		assert_int_equal(do_attach(r, "p", name, 0), i < TOPIC_CHILDREN_MAX ? 0 : FSM_CHILD_LIMIT);
	}
}

/* Types 27 and 28 look at both incarnations first, the parent's before the child's. */
static void test_links_are_compared_and_set(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID2), FSM_PARENT_NOT_FOUND);
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	assert_int_equal(do_attach_if(r, "p", ID2, "c", ID2), FSM_PARENT_CHANGED);
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID2), FSM_CHILD_NOT_FOUND);
	assert_int_equal(do_create(r, "c", ID2, 3), 0);
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID1), FSM_CHILD_CHANGED);
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID2), 0);
	assert_int_equal(do_detach_if(r, "p", ID2, "c", ID2), FSM_PARENT_CHANGED);
	assert_int_equal(do_detach_if(r, "p", ID1, "c", ID1), FSM_CHILD_CHANGED);
	assert_int_equal(do_detach_if(r, "p", ID1, "c", ID2), 0);
	assert_int_equal(do_detach_if(r, "p", ID1, "c", ID2), FSM_NOT_LINKED);
}

/* Type 13 compares histories byte for byte, types 23 and 27 as JSON values. */
static void test_histories_are_compared_by_value(void **state)
{
	struct rig *r = *state;
	assert_int_equal(do_create_with(r, topic_of("p", ID1, 3), "{\"a\":10,\"b\":[1,2]}", NULL), 0);
	assert_int_equal(do_create_with(r, topic_of("c", ID2, 3), "{ \"b\":[1.0,2], \"a\":1e1 }", NULL), 0);
	assert_int_equal(do_attach(r, "p", "c", 0), FSM_SCHEMA_MISMATCH);
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID2), 0);
	const struct cmd_create_link link = { S("p"), S(ID1), S(EPOCH), 0, { 0 } };
	assert_int_equal(do_create_with(r, topic_of("d", ID2, 3), "{\"a\":11,\"b\":[1,2]}", &link),
	                 FSM_SCHEMA_MISMATCH);
	assert_int_equal(do_create_with(r, topic_of("d", ID2, 3), "{\"b\":[1,2],\"a\":10}", &link), 0);
}

/* A create with schema and link is all or nothing, and looks at the parent before anything of the link. */
static void test_create_with_link_is_all_or_nothing(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	struct cmd_create_link link = { S("p"), S(ID2), S(EPOCH), 0, { 0 } };
	assert_int_equal(do_create_with(r, topic_of("c", ID2, 3), NULL, &link), FSM_PARENT_NOT_FOUND);
	assert_int_equal(do_create_with(r, topic_of("p", ID1, 3), "{\"v\":1}", NULL), 0);
	assert_int_equal(do_create_with(r, topic_of("c", ID2, 3), NULL, &link), FSM_PARENT_CHANGED);
	link.parent_id = S(ID1);
	link.delay_ms = -1;
	assert_int_equal(do_create_with(r, topic_of("c", ID2, 3), NULL, &link), FSM_ROLE_CONFLICT);
	link.delay_ms = 0;
	assert_int_equal(do_create_with(r, topic_of("c", ID2, 3), "{\"v\":2}", &link), FSM_SCHEMA_MISMATCH);
	assert_false(topic_there(r, "c", &t));
	assert_int_equal(do_create_with(r, topic_of("c", ID2, 3), NULL, &link), 0);
	assert_true(topic_there(r, "c", &t));
	assert_int_equal(t.schema_version, 1);
	link.parent = S("c");
	link.parent_id = S(ID2);
	assert_int_equal(do_create_with(r, topic_of("e", ID2, 3), NULL, &link), FSM_ROLE_CONFLICT);
	link.parent = S("e");
	assert_int_equal(do_create_with(r, topic_of("e", ID2, 3), NULL, &link), FSM_PARENT_NOT_FOUND);
}

/* Versions go up by one, past 9 too; a child's schema is its parent's business; a parent's goes to its local children.
 */
static void test_schema_versions_are_appended(void **state)
{
	struct rig *r = *state;
	char doc[32];
	struct fsm_topic t;
	assert_int_equal(do_schema(r, "p", 1, "{}"), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_schema_if(r, "p", 1, S("{}"), ID1), FSM_TOPIC_NOT_FOUND);
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	assert_int_equal(do_create(r, "c", ID2, 3), 0);
	assert_int_equal(do_attach(r, "p", "c", 0), 0);
	assert_int_equal(do_schema_if(r, "p", 1, S("{}"), ID2), FSM_TOPIC_CHANGED);
	assert_int_equal(do_schema(r, "c", 1, "{}"), FSM_SCHEMA_MANAGED);
	assert_int_equal(do_schema(r, "p", 0, "{}"), FSM_SCHEMA_EXISTS);
	assert_int_equal(do_schema(r, "p", 2, "{}"), FSM_SCHEMA_GAP);
	for (int v = 1; v <= 12; v++) {
		snprintf(doc, sizeof(doc), "{\"v\":%d}", v);
		assert_int_equal(v % 2 ? do_schema(r, "p", v, doc) : do_schema_if(r, "p", v, str_of(doc), ID1), 0);
	}
	assert_int_equal(do_schema(r, "p", 12, "{}"), FSM_SCHEMA_EXISTS);
	assert_int_equal(do_schema(r, "p", 14, "{}"), FSM_SCHEMA_GAP);
	assert_true(topic_there(r, "c", &t));
	assert_int_equal(t.schema_version, 12);
	assert_int_equal(rows(r, STORE_SCHEMAS), 24);
	assert_int_equal(do_detach(r, "p", "c"), 0);
	assert_int_equal(do_schema(r, "p", 13, "{}"), 0);
	assert_int_equal(do_attach(r, "p", "c", 0), FSM_SCHEMA_MISMATCH);
}

/* A version that fills the topic's bytes exactly passes, one byte more does not; type 4 knows no budget. */
static void test_schema_budget_counts_bytes(void **state)
{
	struct rig *r = *state;
	const size_t chunk = SCHEMA_TOPIC_BYTES_MAX / 4;
	char *doc = mem_alloc(chunk);
	memset(doc, ' ', chunk);
	doc[0] = '1';
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	for (int v = 1; v <= 3; v++)
		assert_int_equal(do_schema_if(r, "p", v, (struct str){ doc, chunk }, ID1), 0);
	assert_int_equal(do_schema_if(r, "p", 4, (struct str){ doc, chunk - 10 }, ID1), 0);
	assert_int_equal(do_schema_if(r, "p", 5, (struct str){ doc, 11 }, ID1), FSM_SCHEMA_FULL);
	assert_int_equal(do_schema_if(r, "p", 5, (struct str){ doc, 10 }, ID1), 0);
	assert_int_equal(do_schema_if(r, "p", 6, (struct str){ doc, 1 }, ID1), FSM_SCHEMA_FULL);
	const struct cmd_schema_put old = { S("p"), 6, { doc, 1 } };
	assert_int_equal(rig_do(r, CMD_SCHEMA_PUT, &old), 0);
	/* over its budget, the history keeps working but is adopted by no new child */
	assert_int_equal(do_create(r, "c", ID2, 3), 0);
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID2), FSM_SCHEMA_FULL);
	assert_int_equal(do_attach(r, "p", "c", 0), 0);
	assert_int_equal(do_delete(r, "p", ID1), 0);
	mem_free(doc);
}

/* As if other topics had documents of so many bytes: leader and apply both read the kept sum. */
static void pretend_schema_bytes(struct rig *r, int64_t more)
{
	r->f->state.schema_bytes += (uint64_t)more;
	rig_noop(r);
}

/* All topics together fill the cluster's bytes exactly, one byte more does not, a child's copy counts, a delete gives
 * its bytes back. */
static void test_schema_budget_of_the_cluster(void **state)
{
	struct rig *r = *state;
	const int64_t others = SCHEMA_CLUSTER_BYTES_MAX - 30;
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	pretend_schema_bytes(r, others);
	assert_int_equal(do_schema_if(r, "p", 1, S("[1,2,3,4,5]"), ID1), 0); /* 11 of 30 */
	assert_int_equal(do_create_with(r, topic_of("q", ID2, 3), "[1,2,3,4,5,6,7,8,9,0]", NULL), FSM_SCHEMA_FULL);
	assert_int_equal(do_create_with(r, topic_of("q", ID2, 3), "[1,2,3]", NULL), 0); /* 18 */
	assert_int_equal(do_create(r, "c", ID2, 3), 0);
	assert_int_equal(do_attach_if(r, "p", ID1, "c", ID2), 0);                /* its copy: 29 */
	assert_int_equal(do_schema_if(r, "p", 2, S("1"), ID1), FSM_SCHEMA_FULL); /* twice one byte */
	assert_int_equal(do_schema_if(r, "q", 2, S("1"), ID2), 0);
	assert_int_equal(do_schema_if(r, "q", 3, S("1"), ID2), FSM_SCHEMA_FULL);
	assert_int_equal(do_delete(r, "q", ID2), 0);
	assert_int_equal(do_schema_if(r, "p", 2, S("[2]"), ID1), 0);
	pretend_schema_bytes(r, -others);
}

/* The thousand-and-first version is refused by either type. */
static void test_schema_versions_are_counted(void **state)
{
	struct rig *r = *state;
	struct entry_builder b;
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	entry_builder_init(&b);
	for (int v = 1; v <= SCHEMA_VERSIONS_MAX; v++) {
		const struct cmd_schema_put c = { S("p"), v, S("{}") };
		entry_builder_add(&b, CMD_SCHEMA_PUT, &c);
	}
	assert_int_equal(rig_run(r, &b).refusal, 0);
	assert_int_equal(do_schema(r, "p", SCHEMA_VERSIONS_MAX + 1, "{}"), FSM_SCHEMA_FULL);
	assert_int_equal(do_schema_if(r, "p", SCHEMA_VERSIONS_MAX + 1, S("{}"), ID1), FSM_SCHEMA_FULL);
}

/* A parent's retention must hold each child's delay, and names the first child that it would not. */
static void test_retention_holds_delays(void **state)
{
	struct rig *r = *state;
	struct fsm_hint hint;
	struct arena a = { 0 };
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	assert_int_equal(do_create(r, "b", ID2, 3), 0);
	assert_int_equal(do_create(r, "a", ID2, 3), 0);
	assert_int_equal(do_attach(r, "p", "b", 7200000), 0);
	assert_int_equal(do_attach(r, "p", "a", 7200000), 0);
	assert_int_equal(do_retention(r, "p", ID1, 10799999), FSM_DELAY_TOO_LONG);
	struct cmd_topic_update_if c = { topic_of("p", ID1, 3), S(ID1) };
	c.topic.retention_ms = 3600000;
	assert_int_equal(fsm_judge(rig_read(r), CMD_TOPIC_UPDATE_IF, &c, 0, &a, &hint, NULL), FSM_DELAY_TOO_LONG);
	assert_string_equal(hint.name, "b");
	arena_fini(&a);
	assert_int_equal(do_retention(r, "p", ID1, 10800000), 0);
	assert_int_equal(do_retention(r, "p", ID1, 0), 0);
}

/* With a remote child retention may not shrink below a day; from below it may grow, and 0 is for ever. */
static void test_retention_floor_of_remote_children(void **state)
{
	struct rig *r = *state;
	make_stub(r, "stub", "p");
	make_parent_of_stub(r, "p", "stub", 172800000);
	assert_int_equal(do_retention(r, "p", ID1, 86399999), FSM_RETENTION_FLOOR);
	assert_int_equal(do_retention(r, "p", ID1, 86400000), 0);
	assert_int_equal(do_retention(r, "p", ID1, 0), 0);
	assert_int_equal(do_retention(r, "p", ID1, 3600000), FSM_RETENTION_FLOOR);
	make_stub(r, "stub2", "q");
	make_parent_of_stub(r, "q", "stub2", 3600000);
	assert_int_equal(do_retention(r, "q", ID1, 7200000), 0);
}

/* A stub is changed by no update; one that changes nothing passes. */
static void test_stub_is_immutable(void **state)
{
	struct rig *r = *state;
	make_stub(r, "stub", "p");
	make_parent_of_stub(r, "p", "stub", 0);
	struct cmd_topic_update_if c = { topic_of("stub", ID2, 0), S(ID2) };
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE_IF, &c), 0);
	c.topic.max_in_flight_per_partition = 7;
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE_IF, &c), FSM_STUB_IMMUTABLE);
	assert_int_equal(rig_do(r, CMD_TOPIC_UPDATE, &c.topic), FSM_STUB_IMMUTABLE);
	assert_int_equal(do_schema(r, "p", 1, "{}"), 0);
	assert_int_equal(rows(r, STORE_SCHEMAS), 1);
}

/* A deleted parent frees its local children and takes its stubs with it; a deleted child leaves its parent's list. */
static void test_delete_settles_partners(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	make_stub(r, "stub", "p");
	make_parent_of_stub(r, "p", "stub", 0);
	assert_int_equal(do_create(r, "a", ID2, 3), 0);
	assert_int_equal(do_create(r, "b", ID2, 3), 0);
	assert_int_equal(do_attach(r, "p", "a", 1000), 0);
	assert_int_equal(do_attach(r, "p", "b", 0), 0);
	assert_int_equal(do_delete(r, "a", ID2), 0);
	assert_non_null(strstr(stored(r, STORE_TOPICS, "p"), "\"children\":[\"stub\",\"b\"]"));
	const raft_index before = r->index;
	assert_int_equal(do_delete(r, "p", ID1), 0);
	assert_string_equal(changes_since(r, before),
	                    "topics:stub- topics:b+ assignments:p/0- assignments:p/1- assignments:p/2- topics:p-");
	assert_false(topic_there(r, "stub", &t));
	assert_non_null(strstr(stored(r, STORE_TOPICS, "b"), "\"role\":\"standalone\"}"));
}

/* Deleting the only child, and detaching a stub, leave a standalone parent without a list. */
static void test_last_child_leaves_a_standalone(void **state)
{
	struct rig *r = *state;
	struct fsm_topic t;
	assert_int_equal(do_create(r, "p", ID1, 3), 0);
	assert_int_equal(do_create(r, "a", ID2, 3), 0);
	assert_int_equal(do_attach(r, "p", "a", 0), 0);
	assert_int_equal(do_delete(r, "a", ID2), 0);
	assert_null(strstr(stored(r, STORE_TOPICS, "p"), "children"));
	assert_non_null(strstr(stored(r, STORE_TOPICS, "p"), "\"role\":\"standalone\""));
	make_stub(r, "stub", "q");
	make_parent_of_stub(r, "q", "stub", 0);
	assert_int_equal(do_detach(r, "q", "stub"), 0);
	assert_false(topic_there(r, "stub", &t));
	assert_non_null(strstr(stored(r, STORE_TOPICS, "q"), "\"role\":\"standalone\"}"));
}

/* Partners that are not there, or are the topic itself, are passed over. */
static void test_delete_survives_odd_partners(void **state)
{
	struct rig *r = *state;
	const struct str children[] = { S("ghost"), S("self"), S("self") };
	const struct remote_link link = { .name = S("eu"), .topic = S("t"), .from = S("attach"), .lanes = 1 };
	struct topic t = topic_of("self", ID1, 3);
	t.role = S("parent");
	t.children = (struct str_list){ children, 3 };
	t.remote = &link;
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), 0);
	assert_int_equal(do_schema(r, "self", 1, "{}"), 0);
	assert_int_equal(do_delete(r, "self", ID1), 0);
	t = topic_of("own", ID1, 3);
	t.role = S("child");
	t.parent = S("own");
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), 0);
	assert_int_equal(do_detach(r, "own", "own"), 0);
	assert_int_equal(do_delete(r, "own", ID1), 0);
	t = topic_of("orphan", ID1, 3);
	t.role = S("child");
	t.parent = S("nobody");
	assert_int_equal(rig_do(r, CMD_TOPIC_CREATE, &t), 0);
	assert_int_equal(do_delete(r, "orphan", ID1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_attach_links_and_adopts),
		CASE(test_attach_refuses_in_order),
		CASE(test_attach_counts_children),
		CASE(test_links_are_compared_and_set),
		CASE(test_histories_are_compared_by_value),
		CASE(test_create_with_link_is_all_or_nothing),
		CASE(test_schema_versions_are_appended),
		CASE(test_schema_budget_counts_bytes),
		CASE(test_schema_budget_of_the_cluster),
		CASE(test_schema_versions_are_counted),
		CASE(test_retention_holds_delays),
		CASE(test_retention_floor_of_remote_children),
		CASE(test_stub_is_immutable),
		CASE(test_delete_settles_partners),
		CASE(test_last_child_leaves_a_standalone),
		CASE(test_delete_survives_odd_partners),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
