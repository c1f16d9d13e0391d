-- What the API promises of members, as requests and what must come back, in order: contract.lua plays the list.
--
--   row(METHOD, target below /v1/cluster/members, body, status, code or nil, { texts of the answer }, session's id)

local rows = {}

local function row(method, target, body, status, code, holds, session)
	rows[#rows + 1] = { method = method, target = "/v1/cluster/members" .. target, body = body, status = status,
		code = code, holds = holds or {}, session = session }
end

local function register(body, status, code, holds)
	row("POST", "", body, status, code, holds)
end

local function beat(id, session, status, code, holds)
	row("POST", "/" .. id .. "/heartbeat", nil, status, code, holds, session)
end

local function patch(id, body, status, code, holds)
	row("PATCH", "/" .. id, body, status, code, holds)
end

local function leave(id, body, session, status, code, holds)
	row("POST", "/" .. id .. "/leave", body, status, code, holds, session)
end

local function lost(id, body, status, code, holds)
	row("POST", "/" .. id .. "/lost", body, status, code, holds)
end

local MANY = {}
for i = 1, 33 do MANY[i] = ('"k%d":"v"'):format(i) end
MANY = table.concat(MANY, ",")

-- ---- what no registration can say ----

for _, bad in ipairs {
	{ '', "bad_json" }, { '[]', "bad_json" }, { '{}', "bad_field" }, { '{"id":"@b1"}', "bad_field" },
	{ '{"addr":"h:1"}', "bad_field" }, { '{"id":"@b1","addr":"nowhere"}', "bad_field" },
	{ '{"id":"@b1","addr":"h:0"}', "bad_field" }, { '{"id":"@b1","addr":"h:65536"}', "bad_field" },
	{ '{"id":"a b","addr":"h:1"}', "bad_field" }, { '{"id":"..","addr":"h:1"}', "bad_field" },
	{ '{"id":7,"addr":"h:1"}', "bad_field" }, { '{"id":"@b1","addr":"h:1","kind":"broker"}', "unknown_field" },
	{ '{"id":"@b1","id":"@b1","addr":"h:1"}' }, { '{"id":"@b1","addr":"h:1","tags":[]}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","tags":{"a b":"1"}}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","tags":{"a":1}}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","tags":{"a":null}}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","tags":{' .. MANY .. '}}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","store_id":""}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","store_id":"a b\\n"}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","fresh":1}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1","accept_data_loss":"yes"}', "bad_field" },
	{ '{"id":"@b1","addr":"h:1"} x', "bad_json" },
} do
	register(bad[1], 400, bad[2])
end
row("GET", "/@b1", nil, 404, "member_not_found")

-- ---- a broker ----

register('{"id":"n1","addr":"h:1"}', 409, "member_is_server")
register('{"id":"@b1","addr":"h:1","tags":{"rack":"@r"},"store_id":"d1"}', 201, nil, {
	'{"member":{"id":"@b1","addr":"h:1","status":"alive","draining":false,"owned_partitions":0,"outbound_moves":0,'
	.. '"voter":false,"leader":false,"heartbeat_age_seconds":',
	'"kind":"broker","placeable":true,"tags":{"rack":"@r"},"labels":{},"store_id":"d1"},"session":"',
	'"cluster_id":"', '"heartbeat_ms":5000,"dead_after_ms":30000,"index":' })
row("GET", "/@b1", nil, 200, nil, { '{"id":"@b1",', '"kind":"broker"' })
row("GET", "?tag=rack=@r", nil, 200, nil, { '{"members":[{"id":"@b1",' })
row("GET", "?tag=rack=none", nil, 200, nil, { '{"members":[]}' })
row("GET", "?tag=rack", nil, 400, "bad_parameter")
row("GET", "?detail=maybe", nil, 400, "bad_parameter")
row("GET", "?detail=true", nil, 200, nil, { '"kind":"server"' })
row("GET", "?limit=1", nil, 400, "bad_parameter")
row("GET", "/a%20b", nil, 404, "member_not_found")
row("PUT", "/@b1", '{}', 405, "method_not_allowed")
row("DELETE", "", nil, 405, "method_not_allowed")

-- ---- heartbeats ----

beat("@b1", "@b1", 200, nil, { '{"status":"alive","draining":false,"placeable":true,"session":"' })
beat("@b1", nil, 400, "bad_parameter", { "X-Veena-Session" })
beat("@b1", "@b1:", 400, "bad_parameter")
beat("@b1", ":x", 400, "bad_parameter")
beat("@b1", "@b2:0123456789abcdef", 400, "bad_parameter")
beat("@b1", "@b1:0123456789abcdef0", 400, "bad_parameter")
beat("@b1", "@b1:0123456789abcdef", 409, "session_replaced")
beat("@none", "@none:0123456789abcdef", 404, "member_not_found")
beat("n1", "n1:0123456789abcdef", 409, "member_is_server")
row("GET", "/@b1/heartbeat", nil, 405, "method_not_allowed")

-- ---- operators' words ----

for _, bad in ipairs {
	{ '{}', "bad_field" }, { '{"placeable":"no"}', "bad_field" }, { '{"status":"dead"}', "unknown_field" },
	{ '{"labels":{"a b":"1"}}', "bad_field" }, { '{"labels":{' .. MANY .. '}}', "bad_field" },
	{ '{"labels":[]}', "bad_field" }, { '', "bad_json" },
} do
	patch("@b1", bad[1], 400, bad[2])
end
patch("@none", '{"placeable":false}', 404, "member_not_found")
patch("@b1", '{"placeable":false,"labels":{"a":"1","b":"2"}}', 200, nil, {
	'"placeable":false', '"labels":{"a":"1","b":"2"}' })
patch("@b1", '{"labels":{"a":null,"c":"3"}}', 200, nil, { '"placeable":false', '"labels":{"b":"2","c":"3"}' })
patch("@b1", '{"labels":{}}', 200, nil, { '"labels":{"b":"2","c":"3"}' })
beat("@b1", "@b1", 200, nil, { '"placeable":false' })
register('{"id":"@b1","addr":"h:2","store_id":"d1"}', 201, nil, {
	'"addr":"h:2"', '"placeable":false,"tags":{},"labels":{"b":"2","c":"3"},"store_id":"d1"' })
patch("@b1", '{"placeable":true,"labels":{"b":null,"c":null}}', 200, nil, { '"placeable":true', '"labels":{}' })

-- ---- decommission ----

row("POST", "/@b1/decommission?dry_run=true", nil, 200, nil, {
	'{"dry_run":true,"would":true,"intents":[{"op":"drain","id":"@b1"}],"member":"@b1","would_decommission":true,'
	.. '"reasons":[],"voter":false,"owned_partitions":0,"inbound_moves":0}' })
row("POST", "/@b1/decommission?dry_run=1", nil, 400, "bad_parameter")
row("POST", "/@none/decommission", nil, 404, "member_not_found")
row("POST", "/n1/decommission", nil, 409, "below_min_voters", {
	'"reasons":[{"code":"below_min_voters","message":"2 voters' })
row("POST", "/n1/decommission?dry_run=true", nil, 200, nil, { '"would":false', '"voter":true' })
row("DELETE", "/@none/decommission", nil, 404, "member_not_found")
row("DELETE", "/@b1/decommission?dry_run=true", nil, 400, "bad_parameter")
row("DELETE", "/@b1/decommission", nil, 204) -- nothing to take back is no fault
row("POST", "/@none/forget", nil, 404, "member_not_found")
row("POST", "/@b1/forget", nil, 404, "member_not_found")
row("POST", "/a%20b/forget", nil, 404, "member_not_found")
row("POST", "/@none/forget?dry_run=true", nil, 200, nil, { '"would":false', '"code":"member_not_found"' })

-- ---- leaving, and being lost ----

leave("@b1", '{"mode":"away"}', "@b1", 400, "bad_field")
leave("@b1", '{}', "@b1", 400, "bad_field")
leave("@b1", '{"mode":"restart"}', nil, 400, "bad_parameter")
leave("@none", '{"mode":"restart"}', "@none", 404, "member_not_found")
lost("@b1", '{"accept_data_loss":true}', 409, "member_alive")
leave("@b1", '{"mode":"restart"}', "@b1", 200, nil, { '{"status":"dead"' })
beat("@b1", "@b1", 200, nil, { '{"status":"alive"' })
leave("@b1", '{"mode":"restart"}', "@b1", 200, nil, { '{"status":"dead"' })
lost("@none", '{"accept_data_loss":true}', 404, "member_not_found")
lost("@b1", '{"accept_data_loss":1}', 400, "bad_field")
lost("@b1", '{"reason":"a\\u0001b"}', 400)
lost("@b1", nil, 409, "data_loss", { '"unplaced":0,"moves_ended":0,"leaders_lost":0,"replicas_dropped":0' })
row("POST", "/@b1/lost?dry_run=true", '{"accept_data_loss":true}', 200, nil, {
	'{"dry_run":true,"would":true,"intents":[{"op":"lost","id":"@b1","unplaced":0' })
row("POST", "/@b1/lost?dry_run=true", nil, 200, nil, { '"would":false', '"code":"data_loss"' })
lost("@b1", '{"accept_data_loss":true,"reason":"fire"}', 200, nil, { '{"id":"@b1","unplaced":0,"moves_ended":0' })
lost("@b1", '{"accept_data_loss":true}', 404, "member_not_found")
beat("@b1", "@b1", 404, "member_not_found")
register('{"id":"@b1","addr":"h:1"}', 409, "member_removed")
register('{"id":"@b1","addr":"h:1","fresh":true,"store_id":"d2"}', 201, nil, { '"labels":{},"store_id":"d2"' })
register('{"id":"@b1","addr":"h:1","store_id":"d3"}', 201, nil, { '"store_id":"d3"' }) -- nothing was on the other disk
leave("@b1", '{"mode":"restart"}', "@b1", 200)
lost("@b1", '{"accept_data_loss":true}', 200)

return rows
