-- Other clusters and children on them: every row of the contract on the leader and on a follower, what is never shown,
-- and a rotation of the cluster's secret.

local harness = require "cluster.harness"

local ADMIN = "s3cret of the test"
local SECURE = { nodes = 3, auth = ADMIN }
local OPEN = { nodes = 1, alone = true }
local PASSWORD = "correct horse battery staple"

local function remote(name, more)
	local body = { name = name, url = "https://" .. name .. ".example.com", username = "repl", password = PASSWORD }
	for key, value in pairs(more or {}) do body[key] = value end
	return body
end

local function without(name, field)
	local body = remote(name)
	body[field] = nil
	return body
end

-- method, path, body, status, code, texts the answer holds. `@` is the round's letter.
local ROWS = {
	-- registering: each field and bound
	{ "GET", "/v1/remotes", nil, 200 },
	{ "GET", "/v1/remotes/@a", nil, 404, "remote_not_found" },
	{ "GET", "/v1/remotes/Upper", nil, 400, "bad_parameter" },
	{ "GET", "/v1/remotes?nodes=maybe", nil, 400, "bad_parameter" },
	{ "POST", "/v1/remotes", remote("Upper"), 400, "bad_field", { '"field":"name"' } },
	{ "POST", "/v1/remotes", remote("_keys"), 400, "bad_field", { '"field":"name"' } },
	{ "POST", "/v1/remotes", remote("a" .. ("x"):rep(63)), 400, "bad_field" },
	{ "POST", "/v1/remotes", without("@a", "name"), 400, "bad_field", { '"field":"name"' } },
	{ "POST", "/v1/remotes", without("@a", "url"), 400, "bad_field", { '"field":"url"' } },
	{ "POST", "/v1/remotes", without("@a", "username"), 400, "bad_field", { '"field":"username"' } },
	{ "POST", "/v1/remotes", without("@a", "password"), 400, "bad_field", { '"field":"password"' } },
	{ "POST", "/v1/remotes", remote("@a", { url = "http://eu.example.com" }), 400, "bad_field", { '"field":"url"' } },
	{ "POST", "/v1/remotes", remote("@a", { url = "https://u:p@eu.example.com" }), 400, "bad_field" },
	{ "POST", "/v1/remotes", remote("@a", { url = "https://eu.example.com/?q" }), 400, "bad_field" },
	{ "POST", "/v1/remotes", remote("@a", { username = "a b" }), 400, "bad_field", { '"field":"username"' } },
	{ "POST", "/v1/remotes", remote("@a", { password = ("p"):rep(23) }), 400, "bad_field" },
	{ "POST", "/v1/remotes", remote("@a", { password = ("p"):rep(73) }), 400, "bad_field" },
	{ "POST", "/v1/remotes", remote("@a", { ca_pem = "nothing" }), 400, "bad_field", { '"field":"ca_pem"' } },
	{ "POST", "/v1/remotes", remote("@a", { ca_pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" }),
		400, "bad_field", { "no certificate" } },
	{ "POST", "/v1/remotes", remote("@a", { limits = { max_in_flight = 0 } }), 400, "bad_field",
		{ '"field":"limits.max_in_flight"' } },
	{ "POST", "/v1/remotes", remote("@a", { limits = { compression = "gzip" } }), 400, "bad_field" },
	{ "POST", "/v1/remotes", remote("@a", { colour = "red" }), 400, "unknown_field" },
	{ "POST", "/v1/remotes", remote("@a", { ca_pem = ("x"):rep(131072) }), 413, "too_large" },
	{ "POST", "/v1/remotes", remote("@a"), 201, nil, { '"url":"https://@a.example.com"', '"credential_version":1,',
		'"limits":{"max_in_flight":16,"request_timeout_ms":30000,', '"revision":1,', '"created_by":"admin"' } },
	{ "POST", "/v1/remotes", remote("@a"), 409, "remote_exists" },
	{ "POST", "/v1/remotes", remote("@b", { url = "HTTPS://@A.Example.com:443/", limits = { max_in_flight = 256 } }),
		201, nil,
		{ '"url":"https://@a.example.com"', '"max_in_flight":256,' } },
	{ "GET", "/v1/remotes/@a", nil, 200, nil, { '"links":[]' } },
	{ "GET", "/v1/remotes?nodes=false", nil, 200, nil, { '"allowlist":"none"', '"key":{"key_version":"', '"name":"@a"' } },
	-- changing
	{ "PATCH", "/v1/remotes/@none", { limits = { max_in_flight = 2 } }, 404, "remote_not_found" },
	{ "PATCH", "/v1/remotes/@a", "{}", 400, "bad_field" },
	{ "PATCH", "/v1/remotes/@a", { url = "https://new.example.com" }, 400, "bad_field", { '"field":"password"' } },
	{ "PATCH", "/v1/remotes/@a", { username = "other" }, 400, "bad_field", { '"field":"password"' } },
	{ "PATCH", "/v1/remotes/@a", { ca_pem = "" }, 400, "bad_field", { '"field":"password"' } },
	{ "PATCH", "/v1/remotes/@a", { limits = { conn_max_age_ms = 0 } }, 400, "bad_field" },
	{ "PATCH", "/v1/remotes/@a", { name = "x" }, 400, "unknown_field" },
	{ "PATCH", "/v1/remotes/@a", { limits = { max_in_flight = 32, compression = "zstd" } }, 200, nil,
		{ '"max_in_flight":32,"request_timeout_ms":30000,', '"compression":"zstd"',
			'"credential_version":1,', '"revision":2,' } },
	{ "PATCH", "/v1/remotes/@a", { password = PASSWORD .. "2", url = "https://@moved.example.com/x/" }, 200, nil,
		{ '"url":"https://@moved.example.com/x"', '"credential_version":2,', '"revision":3,' } },
	-- children on them
	{ "POST", "/v1/topics", { name = "@p" }, 201 },
	{ "POST", "/v1/topics", { name = "@short", retention_ms = 3600000 }, 201 },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "Upper" }, 400, "bad_field", { '"field":"remote"' } },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@a", lanes = 9 }, 400, "bad_field",
		{ '"field":"lanes"' } },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@a", lanes = 0 }, 400, "bad_field" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@a", from = "latest" }, 400, "bad_field" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@a", remote_topic = "no/name" }, 400, "bad_field" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", lanes = 2 }, 400, "bad_field", { '"field":"remote"' } },
	{ "POST", "/v1/topics/@none/children", { child = "@s", remote = "@a" }, 404, "topic_not_found" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@none" }, 409, "remote_not_found" },
	{ "POST", "/v1/topics/@p/children", { child = "@p", remote = "@a" }, 409, "role_conflict" },
	{ "POST", "/v1/topics/@p/children", { child = "@short", remote = "@a" }, 409, "topic_exists" },
	{ "POST", "/v1/topics/@p/children", { child = "@SHORT", remote = "@a" }, 409, "topic_exists" },
	{ "POST", "/v1/topics/@short/children", { child = "@s", remote = "@a" }, 409, "delay_too_long" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@a", delay_ms = 604800000 }, 409, "delay_too_long" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@a", dry_run = true }, 200, nil,
		{ '"dry_run":true', '"warnings":[]' } },
	{ "GET", "/v1/topics/@s", nil, 404, "topic_not_found" },
	{ "POST", "/v1/topics/@p/children", { child = "@s", remote = "@b", remote_topic = "there", lanes = 2 }, 201, nil,
		{ '"partitions":0', '"role":"child"', '"parent":"@p"',
		  '"remote":{"name":"@b","topic":"there","from":"attach","lanes":2,"created_by":"admin"}' } },
	{ "POST", "/v1/topics/@p/children", { child = "@s2", remote = "@b", remote_topic = "there" }, 409, "target_linked",
		{ "@s" } },
	{ "GET", "/v1/topics/@p/children", nil, 200, nil, { '"remote":"@b"', '"paused":false' } },
	{ "GET", "/v1/remotes/@b", nil, 200, nil, { '"links":["@p/@s"]' } },
	{ "PATCH", "/v1/topics/@s", { retention_ms = 3600000 }, 409, "role_conflict" },
	{ "PATCH", "/v1/topics/@p", { retention_ms = 86399999 }, 409, "delay_too_long" },
	-- a second name for the same place: here @a is moved onto @b's
	{ "PATCH", "/v1/remotes/@a", { password = PASSWORD, url = "https://@a.example.com/other" }, 200 },
	{ "POST", "/v1/topics/@short/children", { child = "@s3", remote = "@a", remote_topic = "there" }, 409 },
	{ "POST", "/v1/topics", { name = "@q" }, 201 },
	{ "POST", "/v1/topics/@q/children", { child = "@s3", remote = "@a", remote_topic = "there" }, 409, "target_linked",
		{ "@s" } },
	-- pause, resume, skip
	{ "POST", "/v1/topics/@p/children/@none/pause", "{}", 404, "child_not_found" },
	{ "POST", "/v1/topics/@q/children/@s/pause", "{}", 404, "child_not_found" },
	{ "POST", "/v1/topics/@p/children/@s/pause", { reason = ("r"):rep(257) }, 400, "bad_field" },
	{ "POST", "/v1/topics/@p/children/@s/pause", { reason = "two\nlines" }, 400, "bad_field" },
	{ "POST", "/v1/topics/@p/children/@s/pause", { why = "x" }, 400, "unknown_field" },
	{ "POST", "/v1/topics/@p/children/@s/pause", { reason = "maintenance" }, 200, nil,
		{ '"paused":true,"pause_reason":"maintenance","paused_by":"admin","paused_at_ms":' } },
	{ "GET", "/v1/topics/@p/children", nil, 200, nil, { '"paused":true' } },
	{ "POST", "/v1/topics/@p/children/@s/resume", nil, 200, nil, { '"lanes":2,"created_by":"admin"}' } },
	{ "POST", "/v1/topics/@p/children/@s/resume", { accept_target = true }, 200 },
	{ "POST", "/v1/topics/@p/children/@s/skip", { partition = 0 }, 400, "bad_field", { '"field":"offset"' } },
	{ "POST", "/v1/topics/@p/children/@s/skip", { offset = 0 }, 400, "bad_field", { '"field":"partition"' } },
	{ "POST", "/v1/topics/@p/children/@s/skip", { partition = -1, offset = 1 }, 400, "bad_field" },
	{ "POST", "/v1/topics/@p/children/@s/skip", { partition = 3, offset = 1 }, 404, "partition_not_found" },
	{ "POST", "/v1/topics/@p/children/@s/skip", { partition = 2, offset = 7 }, 200, nil, { '"skip":{"2":[7]}' } },
	{ "POST", "/v1/topics/@p/children/@s/skip", { partition = 2, offset = 3 }, 200, nil, { '"skip":{"2":[3,7]}' } },
	-- asked of others
	{ "POST", "/v1/remotes/@none/test", { topic = "t" }, 404, "remote_not_found" },
	{ "POST", "/v1/remotes/@a/test", { topic = "t" }, 501, "not_supported" },
	-- deleting
	{ "DELETE", "/v1/remotes/@none", nil, 404, "remote_not_found" },
	{ "DELETE", "/v1/remotes/Upper", nil, 400, "bad_parameter" },
	{ "DELETE", "/v1/remotes/@b", nil, 409, "remote_in_use", { '"links":["@p/@s"]' } },
	{ "DELETE", "/v1/remotes/@b?force=maybe", nil, 400, "bad_parameter" },
	{ "DELETE", "/v1/remotes/@b?force=true", nil, 204 },
	{ "DELETE", "/v1/topics/@p/children/@s", nil, 204 },
	{ "GET", "/v1/topics/@s", nil, 404, "topic_not_found" },
	{ "DELETE", "/v1/remotes/@a", nil, 204 },
	{ "POST", "/v1/cluster/reencrypt-remotes", { x = 1 }, 400, "bad_json" },
	{ "POST", "/v1/cluster/reencrypt-remotes", nil, 200, nil, { '"reencrypted":[],"already_current":[],"failed":[]' } },
}

-- Ids, times, indexes and what is random in a seal differ between two answers to the same request; so does the letter.
local function plain(body, letter)
	return (body:gsub('"id":"%x+"', '"id":"-"'):gsub('"attach_epoch":"%x+"', '"attach_epoch":"-"')
		:gsub('"parent_id":"%x+"', '"parent_id":"-"'):gsub('"index":%d+}', '"index":0}'):gsub('"index":%d+,', '"index":0,')
		:gsub('"fingerprint":"%x+"', '"fingerprint":"-"'):gsub('"%w+_at":"[^"]*"', '"at":"-"')
		:gsub('"created_at":%d+', '"created_at":0'):gsub('"paused_at_ms":%d+', '"paused_at_ms":0')
		:gsub('"age_seconds":%d+', '"age_seconds":0'):gsub('"key":%b{},', ""):gsub(letter, "@"))
end

local function lettered(value, letter)
	if type(value) == "string" then return (value:gsub("@(%a)", letter .. "%1")) end
	if type(value) ~= "table" then return value end
	local copy = {}
	for key, v in pairs(value) do copy[key] = key == "password" and v or lettered(v, letter) end
	return copy
end

local function play(node, letter)
	local answers = {}
	for i, row in ipairs(ROWS) do
		local method, path, body, status, code, holds = table.unpack(row, 1, 6)
		local target, sent = lettered(path, letter), body and lettered(body, letter)
		local r = (method == "GET" or method == "DELETE") and node[method:lower()](node, target)
			or node[method:lower()](node, target, sent, nil, { ["X-Narad-Client"] = "spec" })
		local what = ("row %d: %s %s"):format(i, method, path)
		assert(r.status == status, ("%s: %d instead of %d: %s"):format(what, r.status, status, r.body))
		assert(not code or r.json.code == code, ("%s: code %s instead of %s"):format(what, r.json and r.json.code, code))
		for _, text in ipairs(holds or {}) do
			assert(r.body:find(lettered(text, letter), 1, true), ("%s: no %s in %s"):format(what, text, r.body))
		end
		assert(not r.body:find(PASSWORD, 1, true), what .. ": the password is shown")
		answers[i] = plain(r.body, letter)
	end
	return answers
end

describe("remotes", function()
	harness.case(("answer %d requests alike on leader and follower"):format(#ROWS), SECURE, function(c)
		local direct = play(c:leader(), "qx")
		local forwarded = play(c:follower(), "qz")
		for i, row in ipairs(ROWS) do
			assert(direct[i] == forwarded[i], ("row %d: %s %s\nleader:   %s\nfollower: %s")
				:format(i, row[1], row[2], direct[i], forwarded[i]))
		end
		c:settle()
		for _, node in ipairs(c.nodes) do assert.is_nil(node:log():find(PASSWORD, 1, true)) end
	end)

	harness.case("need security, and an admin", OPEN, function(c)
		local node = c.nodes[1]
		assert.equal("forbidden", node:get("/v1/remotes", 403).json.code)
		assert.matches("remotes require security", node:post("/v1/remotes", remote("eu"), 403).json.error)
		node:post("/v1/topics", { name = "p" }, 201)
		node:post("/v1/topics/p/children", { child = "s", remote = "eu" }, 403)
	end)

	-- The secret is another one from the next start on: what was sealed before opens by the previous one, and is sealed
	-- anew; then the previous one is not needed any more.
	harness.case("are sealed anew after a rotation", { nodes = 1, alone = true, auth = ADMIN }, function(c)
		local node = c.nodes[1]
		node:post("/v1/users", { username = "bob", password = "bob's own" }, 201)
		for _, path in ipairs { "/v1/remotes", "/v1/remotes/eu" } do node:get(path, 403, harness.as("bob:bob's own")) end
		local made = node:post("/v1/remotes", remote("eu"), 201).json
		local function restart(...)
			node:stop()
			node:start { ... }
			c:leader()
		end
		local fresh = c.dir .. "/fresh-secret"
		assert(assert(io.open(fresh, "wb")):write("another one that only the nodes know\n")):close()
		restart("--cluster-secret-file", fresh)
		local r = node:post("/v1/cluster/reencrypt-remotes", "{}", 200).json
		assert.same({ { name = "eu", reason = "key_unknown" } }, r.failed)
		restart("--cluster-secret-file", fresh, "--cluster-secret-previous-file", c.dir .. "/secret")
		r = node:post("/v1/cluster/reencrypt-remotes", "{}", 200).json
		assert.same({ "eu" }, r.reencrypted)
		restart("--cluster-secret-file", fresh)
		r = node:post("/v1/cluster/reencrypt-remotes", "{}", 200).json
		assert.same({ "eu" }, r.already_current)
		local now = node:get("/v1/remotes/eu", 200).json
		assert.equal(2, now.credential_version)
		assert.equal(made.password.set_at, now.password.set_at)
		assert.not_equal(made.password.key_version, now.password.key_version)
		assert.equal(r.key_version, now.password.key_version)
	end)
end)
