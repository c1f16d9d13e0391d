-- What the API promises of topics, children, schemas and labels, as requests and what must come back: one list, in
-- order, since later rows stand on earlier ones. topics_spec.lua plays it against the leader and against a follower.
--
--   row(METHOD, target, body, status, code or nil, { texts the answer must hold })
--
-- In targets, bodies and texts "@" is a letter that differs between the two runs, so that both live in one cluster.

local rows = {}

local function row(method, target, body, status, code, holds)
	rows[#rows + 1] = { method = method, target = target, body = body, status = status, code = code, holds = holds or {} }
end

local function create(body, status, code, holds)
	row("POST", "/v1/topics", body, status, code, holds)
end

local function patch(topic, body, status, code, holds)
	row("PATCH", "/v1/topics/" .. topic, body, status, code, holds)
end

local function get(target, status, code, holds)
	row("GET", target, nil, status, code, holds)
end

local function delete(target, status, code)
	row("DELETE", target, nil, status, code)
end

local function attach(parent, body, status, code, holds)
	local name, query = parent:match("^([^?]*)(.*)$")
	row("POST", "/v1/topics/" .. name .. "/children" .. query, body, status, code, holds)
end

local LONGEST = ("n"):rep(199)

-- ---- create: fields, defaults, bounds ----

create('{"name":"@orders"}', 201, nil, {
	'"name":"@orders","id":"', '"partitions":3,"retention_ms":604800000,"visibility_timeout_ms":30000,',
	'"max_in_flight_per_partition":1024,"max_acked_ahead_per_partition":1024,"created_at":',
	'"role":"standalone","replicas":1,"unclean":false,"labels":{}}' })
create('{"name":"@all","partitions":108,"retention_ms":3600000,"visibility_timeout_ms":1,'
	.. '"max_in_flight_per_partition":2,"max_acked_ahead_per_partition":3,"owner":"somebody"}', 201, nil, {
	'"partitions":108,"retention_ms":3600000,"visibility_timeout_ms":1,"max_in_flight_per_partition":2,'
	.. '"max_acked_ahead_per_partition":3,' })
create('{"name":"@zeros","partitions":0,"retention_ms":0,"visibility_timeout_ms":0,"max_in_flight_per_partition":0,'
	.. '"max_acked_ahead_per_partition":0}', 201, nil, {
	'"partitions":3,"retention_ms":0,"visibility_timeout_ms":30000,"max_in_flight_per_partition":1024,'
	.. '"max_acked_ahead_per_partition":1024' })
create('{"name":"@null","retention_ms":null}', 201, nil, { '"retention_ms":604800000' })
create('{"name":"@' .. LONGEST .. '"}', 201)
create('{"name":"@.-_9"}', 201)
create('{"name":"@n' .. LONGEST .. '"}', 400, "bad_field", { '"field":"name"' })
for _, name in ipairs { "", ".", "..", "a b", "a/b", "a:b", "a\\u0000", "\195\164" } do
	create('{"name":"' .. name .. '"}', 400)
end
for _, body in ipairs {
	'{}', '{"partitions":3}', '{"name":7}', '{"name":null}',
	'{"name":"@x","partitions":2}', '{"name":"@x","partitions":1}',
	'{"name":"@x","partitions":-1}', '{"name":"@x","partitions":109}', '{"name":"@x","partitions":3.0}',
	'{"name":"@x","partitions":"3"}', '{"name":"@x","partitions":null}', '{"name":"@x","retention_ms":-1}',
	'{"name":"@x","retention_ms":3599999}', '{"name":"@x","visibility_timeout_ms":-1}',
	'{"name":"@x","max_in_flight_per_partition":-1}', '{"name":"@x","max_acked_ahead_per_partition":-1}',
	'{"name":"@x","fanout_delay_ms":1}', '{"name":"@x","parent":"@orders","fanout_delay_ms":-1}',
	'{"name":"@x","parent":"@orders","fanout_delay_ms":31536000001}', '{"name":"@x","parent":"@x"}',
	'{"name":"@x","parent":"a b"}', '{"name":"@x","schema":null}', '{"name":"@x","schema":false}',
	'{"name":"@x","schema":[]}', '{"name":"@x","schema":"{}"}', '{"name":"@x","schema":1}',
	'{"name":"@x","schema":{"type":"no such type"}}', '{"name":"@x","schema":{"$ref":"http://elsewhere/"}}',
	'{"name":"@x","schema":{"$schema":"http://json-schema.org/draft-03/schema#"}}',
	'{"name":"@x","schema":{"maximum":1e1001}}', '{"name":"@x","schema":{"pattern":"("}}',
	'{"name":"@x","labels":{"a":null}}', '{"name":"@x","labels":{"a":1}}', '{"name":"@x","labels":[]}',
	'{"name":"@x","labels":{"a b":""}}', '{"name":"@x","labels":{"":""}}',
	'{"name":"@x","labels":{"' .. ("k"):rep(64) .. '":""}}', '{"name":"@x","labels":{"a":"' .. ("v"):rep(257) .. '"}}',
} do
	create(body, 400, "bad_field")
end
create('{"name":"@x","colour":1}', 400, "unknown_field", { '"field":"colour"' })
create('{"name":"@x","role":"parent"}', 400, "unknown_field")
create('{"name":"@x","name":"@y"}', 400)
create('{"name":"@x","labels":{"a":"1","a":"2"}}', 400)
create('{"name":"@x","schema":{"a":1,"a":2}}', 400)
create('{"name":"@x"} {}', 400, "bad_json")
create('{"name":"@x"', 400, "bad_json")
create('[]', 400)
create('', 400, "bad_json")
create('{"name":"@x","schema":{"$comment":"' .. ("x"):rep(262144) .. '"}}', 400, "bad_field")
create('{"name":"' .. ("x"):rep(1048576) .. '"}', 413)
get("/v1/topics/@x", 404, "topic_not_found")
create('{"name":"@orders"}', 409, "topic_exists", { "topic already exists" })
create('{"name":"@ORDERS"}', 409, "topic_exists", { "@orders" })
create('{"name":"@labels","labels":{"' .. ("k"):rep(63) .. '":"' .. ("v"):rep(256) .. '","a/b.c-d_e":""}}', 201)

-- ---- reads ----

get("/v1/topics/@orders", 200, nil, {
	'"role":"standalone"',
	'"schema_version":0,"partition_stats":[{"index":0,"owner_node":"n1","owner_liveness":"alive"},' })
get("/v1/topics/@orders?partition=2", 200, nil, { '"partition_stats":[{"index":2,' })
for _, partition in ipairs { "3", "-1", "x", "", "1.0" } do
	get("/v1/topics/@orders?partition=" .. partition, 400, "bad_parameter", { '"field":"partition"' })
end
get("/v1/topics/@none", 404, "topic_not_found", { '"error":"topic not found"' })
get("/v1/topics?limit=0", 400, "bad_parameter", { "positive integer" })
get("/v1/topics?limit=x", 400, "bad_parameter")
get("/v1/topics?prefix=@&limit=100000", 200)
get("/v1/topics?prefix=@n&limit=1", 200, nil, { '"name":"@' .. LONGEST, '"next_page_token":"@' .. LONGEST .. '"' })
get("/v1/topics?prefix=@n&limit=1&page_token=@" .. LONGEST, 200, nil, { '"name":"@null"', '"next_page_token":""' })
get("/v1/topics?prefix=@n&page_token=@nz", 200, nil, { '{"topics":[],"next_page_token":""}' })
get("/v1/topics?prefix=@&role=parent", 200, nil, { '"topics":[]' })
get("/v1/topics?role=boss", 400, "bad_parameter")
get("/v1/topics?prefix=@&owner=nobody", 200, nil, { '"topics":[]' })
get("/v1/topics?prefix=@&label=a/b.c-d_e=", 200, nil, { '"topics":[{"name":"@labels"' })
get("/v1/topics?prefix=@&label=a/b.c-d_e=1", 200, nil, { '"topics":[]' })
get("/v1/topics?label=a", 400, "bad_parameter")
get("/v1/topics?label==a", 400, "bad_parameter")
get("/v1/topics?colour=red", 400, "bad_parameter")

-- ---- alter: never shrinks, keeps who it is ----

patch("@orders", '{"retention_ms":0}', 200, nil, { '"retention_ms":0' })
patch("@orders", '{"partitions":5,"max_in_flight_per_partition":7}', 200, nil, {
	'"partitions":5', '"max_in_flight_per_partition":7' })
patch("@orders", '{"max_in_flight_per_partition":0,"max_acked_ahead_per_partition":9}', 200, nil, {
	'"max_in_flight_per_partition":1024,"max_acked_ahead_per_partition":9' })
patch("@orders", '{"partitions":0,"retention_ms":3600000}', 200, nil, { '"partitions":5', '"retention_ms":3600000' })
for _, body in ipairs {
	'{}', '{"partitions":0}', '{"partitions":5}', '{"partitions":4}', '{"partitions":-1}', '{"partitions":109}',
	'{"retention_ms":1}', '{"retention_ms":-1}', '{"max_in_flight_per_partition":-1}',
	'{"max_acked_ahead_per_partition":-1}',
	'{"schema_base_version":0}', '{"schema":null}', '{"labels":{"a b":"c"}}', '{"labels":{"a":["b"]}}',
} do
	patch("@orders", body, 400, "bad_field")
end
patch("@orders", '{"visibility_timeout_ms":1}', 400, "unknown_field", { '"field":"visibility_timeout_ms"' })
patch("@orders", '{"name":"@other"}', 400, "unknown_field")
patch("@orders", '{"partitions":', 400, "bad_json")
patch("@none", '{"retention_ms":0}', 404, "topic_not_found")
patch("@none", '{"partitions":2}', 404, "topic_not_found")
patch("@orders?id=0000000000000000", '{"retention_ms":0}', 409, "topic_changed")
patch("@orders?force=true", '{"retention_ms":0}', 400, "bad_parameter")
get("/v1/topics/@orders", 200, nil, { '"partitions":5', '"retention_ms":3600000', '{"index":4,"owner_node":"' })

-- ---- labels ----

patch("@orders", '{"labels":{"env":"prod","team":"a"}}', 200, nil, { '"labels":{"env":"prod","team":"a"}}' })
patch("@orders", '{"labels":{"env":null,"zone":"<z>"},"retention_ms":0}', 200, nil, {
	'"retention_ms":0', '"labels":{"team":"a","zone":"\\u003cz\\u003e"}}' })
patch("@orders", '{"labels":{"never":null}}', 200, nil, { '"labels":{"team":"a","zone":"\\u003cz\\u003e"}}' })
patch("@orders", '{"labels":{}}', 200, nil, { '"labels":{"team":"a"' })
get("/v1/topics?prefix=@&label=team=a", 200, nil, { '{"topics":[{"name":"@orders"', '"next_page_token":""' })
do
	local many = {}
	for i = 1, 31 do many[i] = ('"k%d":"v"'):format(i) end
	patch("@orders", '{"labels":{' .. table.concat(many, ",") .. "}}", 400, "bad_field", { '"field":"labels"' })
	many[31] = nil
	patch("@orders", '{"labels":{' .. table.concat(many, ",") .. "}}", 200)
	patch("@orders", '{"labels":{"one-more":"v"}}', 400, "bad_field")
end

-- ---- schemas ----

local INTEGER = '{"type":"object","properties":{"a":{"type":"integer"}}}'
local NUMBER = '{"type":"object","properties":{"a":{"type":"number"}}}'
local ANY = '{"type":"object","properties":{"a":true}}'

get("/v1/topics/@orders/schema", 200, nil, { '{"topic":"@orders","version":0,"versions":[]}' })
get("/v1/topics/@none/schema", 404, "topic_not_found")
get("/v1/topics/@orders/schema/1", 404, "schema_not_found")
create('{"name":"@s", "schema": { "minimum" : 1.50e1 , "$comment" : "<&" } }', 201)
get("/v1/topics/@s/schema", 200, nil, {
	'{"topic":"@s","version":1,"versions":[{"version":1,"schema":{"minimum":1.50e1,"$comment":"\\u003c\\u0026"}}]}' })
get("/v1/topics/@s", 200, nil, { '"schema_version":1,"schema":{"minimum":1.50e1,' })
create('{"name":"@true","schema":true}', 201)
patch("@orders", '{"schema":' .. INTEGER .. ',"schema_base_version":1}', 409, "schema_conflict", {
	"schema version conflict" })
patch("@orders", '{"schema":' .. INTEGER .. ',"schema_base_version":0}', 200)
patch("@orders", '{"schema":{"properties" : {"a" : {"type":"integer"}}, "type":"object"}}', 200)
get("/v1/topics/@orders/schema", 200, nil, { '"version":1,' })
patch("@orders", '{"schema":{"type":"object","title":"t","properties":{"a":{"type":"integer"}}}}', 200)
get("/v1/topics/@orders/schema", 200, nil, { '"version":1,' })
patch("@orders", '{"schema":{"type":"object","properties":{"a":{"type":"string"}}}}', 400, "bad_field", {
	'"field":"schema"', "/properties/a", "type" })
patch("@orders", '{"schema":{"type":"object","properties":{}}}', 400, "bad_field")
patch("@orders", '{"schema":{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}}', 400,
	"bad_field", { "required" })
patch("@orders", '{"retention_ms":3600000,"schema":{"type":"string"}}', 400, "bad_field")
get("/v1/topics/@orders", 200, nil, { '"retention_ms":0' })
patch("@orders", '{"schema":' .. NUMBER .. ',"schema_base_version":1,"labels":{"k1":"two"}}', 200)
get("/v1/topics/@orders/schema", 200, nil, {
	'"version":2,"versions":[{"version":1,"schema":' .. INTEGER .. '},{"version":2,"schema":' .. NUMBER .. "}]" })
get("/v1/topics/@orders/schema/2", 200, nil, { '{"topic":"@orders","version":2,"schema":' .. NUMBER .. "}" })
get("/v1/topics/@orders/schema/3", 404, "schema_not_found")
for _, version in ipairs { "0", "-1", "x", "1.0", "99999999999" } do
	get("/v1/topics/@orders/schema/" .. version, 400, "bad_parameter")
end
row("PUT", "/v1/topics/@orders/schema/4", "{}", 409, "schema_conflict")
row("PUT", "/v1/topics/@orders/schema/2", "{}", 409, "schema_conflict")
row("PUT", "/v1/topics/@orders/schema/2", NUMBER, 200, nil, { '"version":2,' })
row("PUT", "/v1/topics/@orders/schema/3", NUMBER, 409, "schema_conflict")
row("PUT", "/v1/topics/@orders/schema/3", '{"type":"string"}', 400, "bad_field")
row("PUT", "/v1/topics/@orders/schema/3", "null", 400, "bad_field")
row("PUT", "/v1/topics/@orders/schema/3", "{", 400, "bad_json")
row("PUT", "/v1/topics/@orders/schema/3", '{"type":"object"}', 400, "bad_field")
row("PUT", "/v1/topics/@orders/schema/3", "true", 400, "bad_field")
row("PUT", "/v1/topics/@orders/schema/3", ANY, 200, nil, { '{"topic":"@orders","version":3,"schema":' .. ANY .. "}" })
row("PUT", "/v1/topics/@none/schema/1", "true", 404, "topic_not_found")
row("PUT", "/v1/topics/@orders/schema/4?id=0000000000000000", "{}", 409, "topic_changed")

-- ---- children ----

create('{"name":"@child","parent":"@orders","fanout_delay_ms":31536000000}', 201, nil, {
	'"partitions":5', '"role":"child","parent":"@orders","attach_epoch":"', '"fanout_delay_ms":31536000000,' })
get("/v1/topics/@child/schema", 200, nil, {
	'"topic":"@child","version":3,', '{"version":3,"schema":' .. ANY .. "}]" })
get("/v1/topics/@orders", 200, nil, { '"role":"parent","children":["@child"]' })
create('{"name":"@grandchild","parent":"@child"}', 409, "role_conflict")
create('{"name":"@x","parent":"@none"}', 404, "topic_not_found")
create('{"name":"@x","parent":"@orders","schema":{}}', 409, "schema_mismatch")
get("/v1/topics/@x", 404, "topic_not_found")
patch("@child", '{"schema":{}}', 409, "schema_managed")
row("PUT", "/v1/topics/@child/schema/4", "{}", 409, "schema_managed")
patch("@orders", '{"retention_ms":3600000}', 409, "delay_too_long", { "@child" })
patch("@child", '{"retention_ms":3600000}', 200, nil, { '"parent":"@orders"' })
create('{"name":"@c2"}', 201)
create('{"name":"@c3","schema":{}}', 201)
for _, body in ipairs {
	'{}', '{"child":"@orders"}', '{"child":"a b"}', '{"child":"@c2","delay_ms":-1}',
	'{"child":"@c2","delay_ms":31536000001}',
	'{"child":"@c2","delay_ms":"1"}', '{"child":"@c2","remote_topic":"t"}', '{"child":"@c2","from":"attach"}',
	'{"child":"@c2","lanes":1}', '{"child":"@c2","dry_run":true}',
} do
	attach("@orders", body, 400, "bad_field")
end
attach("@orders", '{"child":"@c2","colour":1}', 400, "unknown_field")
attach("@orders", "", 400, "bad_json")
attach("@none", '{"child":"@c2"}', 404, "topic_not_found")
attach("@orders", '{"child":"@none"}', 404, "child_not_found")
attach("@orders", '{"child":"@child"}', 409, "already_attached")
attach("@c2", '{"child":"@child"}', 409, "role_conflict")
attach("@child", '{"child":"@c2"}', 409, "role_conflict")
attach("@c2", '{"child":"@orders"}', 409, "role_conflict")
attach("@orders", '{"child":"@c3"}', 409, "schema_mismatch")
attach("@c2", '{"child":"@c3"}', 409, "schema_mismatch")
attach("@all", '{"child":"@c2","delay_ms":1}', 409, "delay_too_long")
attach("@orders?id=0000000000000000", '{"child":"@c2"}', 409, "topic_changed")
attach("@orders?child_id=0000000000000000", '{"child":"@c2"}', 409, "topic_changed")
attach("@orders", '{"child":"@c2","delay_ms":5}', 200, nil, { '"name":"@orders"', '"children":["@child","@c2"]' })
get("/v1/topics/@orders/children", 200, nil, {
	'{"parent":"@orders","parent_id":"', '"children":[{"name":"@child",',
	'"delay_ms":31536000000,"lag_messages":0,"lag_complete":false},{"name":"@c2"', '"delay_ms":5,' })
get("/v1/topics/@orders/children?partitions=true", 200)
get("/v1/topics/@orders/children?partitions=1", 400, "bad_parameter")
get("/v1/topics/@c3/children", 200, nil, { '"children":[]' })
get("/v1/topics/@none/children", 404, "topic_not_found")
get("/v1/topics?prefix=@&role=parent", 200, nil, { '{"topics":[{"name":"@orders"' })
get("/v1/topics?prefix=@&role=child", 200, nil, { '{"topics":[{"name":"@c2"', '{"name":"@child"' })
-- Only what the same value says: numbers by their exact decimals, keys in any order. A parent's version reaches all.
create('{"name":"@v1","schema":{"minimum":10,"maximum":20}}', 201)
create('{"name":"@v2","schema":{"maximum":2.0e1,"minimum":1e1}}', 201)
create('{"name":"@v3","schema":{"minimum":10.000000000000000001,"maximum":20}}', 201)
attach("@v1", '{"child":"@v3"}', 409, "schema_mismatch")
attach("@v1", '{"child":"@v2"}', 200)
patch("@v1", '{"schema":{"minimum":9.50,"maximum":20}}', 200)
get("/v1/topics/@v2/schema", 200, nil, { '{"version":1,"schema":{"maximum":2.0e1,"minimum":1e1}},'
	.. '{"version":2,"schema":{"minimum":9.50,"maximum":20}}' })
delete("/v1/topics/@none/children/@c2", 404, "topic_not_found")
delete("/v1/topics/@orders/children/@none", 404, "child_not_found")
delete("/v1/topics/@orders/children/@c3", 404, "child_not_found")
delete("/v1/topics/@orders/children/@c2?id=0000000000000000", 409, "topic_changed")
delete("/v1/topics/@orders/children/@c2?child_id=0000000000000000", 409, "topic_changed")
delete("/v1/topics/@orders/children/@c2?force=maybe", 400, "bad_parameter")
delete("/v1/topics/@orders/children/@c2?force=true", 204)
delete("/v1/topics/@orders/children/@c2", 404, "child_not_found")
get("/v1/topics/@c2/schema", 200, nil, { '"version":3,' })
patch("@c2", '{"schema":' .. ANY .. "}", 200)
attach("@orders", '{"child":"@c2"}', 200)

-- ---- delete: links dissolve, rows go along ----

delete("/v1/topics/@none", 404, "topic_not_found")
delete("/v1/topics/@orders?id=0000000000000000", 409, "topic_changed")
delete("/v1/topics/@orders?force=1", 400, "bad_parameter")
delete("/v1/topics/@child", 204)
get("/v1/topics/@orders", 200, nil, { '"role":"parent","children":["@c2"]' })
delete("/v1/topics/@orders", 204)
delete("/v1/topics/@orders", 404, "topic_not_found")
get("/v1/topics/@orders/schema", 404, "topic_not_found")
get("/v1/topics/@orders/assignments", 404, "topic_not_found")
get("/v1/assignments?prefix=@orders", 200, nil, { '"assignments":[]' })
get("/v1/topics/@c2", 200, nil, { '"role":"standalone","replicas"', '"schema_version":3' })
create('{"name":"@orders"}', 201)
get("/v1/topics/@orders", 200, nil, { '"role":"standalone"', '"labels":{}', '"schema_version":0,"partition_stats"' })
create('{"name":"@ORDERS"}', 409, "topic_exists")
delete("/v1/topics/@v2", 204)
get("/v1/topics/@v1", 200, nil, { '"role":"standalone","replicas"' })

return rows
