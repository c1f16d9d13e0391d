-- Topics, children, schemas and labels over HTTP: every row of the contract on the leader and on a follower, entity
-- tags, what a topic that was made again is spared, limits, and where a child's partitions go.

local contract = require "cluster.contract"
local harness = require "cluster.harness"
local http = harness.http
local ROWS = require "cluster.topics_rows"

local THREE = { nodes = 3 }

local client_of = contract.client_of

local function expect(ask, method, target, body, status, headers)
	local r = ask(method, target, body, headers)
	assert(r.status == status, ("%s %s %s: %d instead of %d: %s"):format(method, target, body, r.status, status, r.body))
	return r
end

describe("topics", function()
	harness.case(("answer %d requests alike on leader and follower"):format(#ROWS), THREE, function(c)
		contract.check(c, ROWS)
	end)

	harness.case("need a content type or a client's header", THREE, function(c)
		for _, node in ipairs { c:leader(), c:follower() } do
			local r = assert(http.request(node.http_port, "POST", "/v1/topics"))
			assert.equal(415, r.status)
			assert.equal("content_type", r.json.code)
			r = assert(http.request(node.http_port, "DELETE", "/v1/topics/none"))
			assert.equal(404, r.status)
		end
	end)

	-- F33: a tag names one state on all nodes; it moves with the record, with what is joined to it, and with nothing else.
	harness.case("have entity tags that are the same on every node", THREE, function(c)
		local ask = client_of(c:follower())
		expect(ask, "POST", "/v1/topics", '{"name":"t"}', 201)
		expect(ask, "POST", "/v1/topics", '{"name":"c","parent":"t"}', 201)
		c:settle()
		local tags = {}
		for _, target in ipairs { "/v1/topics/t", "/v1/topics", "/v1/topics/t/children", "/v1/topics/t/schema",
			"/v1/topics/t/assignments", "/v1/topics/t/partitions/0", "/v1/assignments", "/v1/cluster/members" } do
			for _, node in ipairs(c.nodes) do
				local r = node:get(target, 200)
				tags[target] = tags[target] or r.headers.etag
				assert(r.headers.etag and r.headers.etag == tags[target], target .. " on " .. node.id)
				r = node:get(target, 304, { ["If-None-Match"] = tags[target] })
				assert.equal("", r.body)
				assert.equal(tags[target], r.headers.etag)
				assert(tonumber(r.headers["x-veena-index"]) > 0)
				node:get(target, 200, { ["If-None-Match"] = '"other"' })
				node:get(target, 400, { ["If-None-Match"] = "other" })
			end
		end
		local altered = expect(ask, "PATCH", "/v1/topics/t", '{"retention_ms":0}', 200,
			{ ["If-Match"] = tags["/v1/topics/t"] })
		assert.equal(altered.headers.etag, expect(ask, "GET", "/v1/topics/t", nil, 200).headers.etag)
		local r = expect(ask, "PATCH", "/v1/topics/t", '{"retention_ms":0}', 412, { ["If-Match"] = tags["/v1/topics/t"] })
		assert.equal("changed", r.json.code)
		expect(ask, "DELETE", "/v1/topics/t", nil, 412, { ["If-Match"] = tags["/v1/topics/t"] })
		expect(ask, "PUT", "/v1/topics/t/schema/1", "{}", 412, { ["If-Match"] = tags["/v1/topics/t"] })
		expect(ask, "DELETE", "/v1/topics/none", nil, 404, { ["If-Match"] = "*" })
		expect(ask, "GET", "/v1/topics", nil, 200, { ["If-None-Match"] = tags["/v1/topics"] })
		expect(ask, "PATCH", "/v1/topics/t", '{"schema":{}}', 200, { ["If-Match"] = altered.headers.etag })
		-- The schema is joined: the record's half still stands.
		expect(ask, "DELETE", "/v1/topics/t", nil, 204, { ["If-Match"] = altered.headers.etag })
	end)

	-- F38: made again between reading and writing, a topic is spared what was meant for the one before it.
	harness.case("made again are spared what was meant for the first of the name", THREE, function(c)
		for _, node in ipairs { c:leader(), c:follower() } do
			local ask = client_of(node)
			local name = "again-" .. node.id
			local path = "/v1/topics/" .. name
			expect(ask, "POST", "/v1/topics", ('{"name":"other-%s"}'):format(node.id), 201)
			local other = "/v1/topics/other-" .. node.id
			local first = expect(ask, "POST", "/v1/topics", ('{"name":"%s","schema":true,"labels":{"a":"b"}}'):format(name), 201)
			local tag = expect(ask, "GET", path, nil, 200).headers.etag
			expect(ask, "POST", path .. "/children", ('{"child":"other-%s"}'):format(node.id), 200)
			expect(ask, "DELETE", path, nil, 204)
			local gone = expect(ask, "GET", other, nil, 200).json
			assert.equal("standalone", gone.role)
			local second = expect(ask, "POST", "/v1/topics", ('{"name":"%s"}'):format(name), 201).json
			local old = "id=" .. first.json.id
			assert.not_equal(first.json.id, second.id)
			local now = expect(ask, "GET", path, nil, 200)
			assert.same({}, now.json.labels)
			assert.equal(0, now.json.schema_version)
			for _, case in ipairs {
				{ "PATCH", path .. "?" .. old, '{"retention_ms":0}' }, { "PATCH", path .. "?" .. old, '{"labels":{"a":"c"}}' },
				{ "PATCH", path .. "?" .. old, '{"schema":{}}' }, { "PUT", path .. "/schema/1?" .. old, "{}" },
				{ "POST", path .. "/children?" .. old, ('{"child":"other-%s"}'):format(node.id) },
				{ "POST", other .. "/children?child_" .. old, ('{"child":"%s"}'):format(name) },
				{ "DELETE", path .. "?" .. old },
			} do
				local r = expect(ask, case[1], case[2], case[3], 409)
				assert.equal("topic_changed", r.json.code)
			end
			for _, case in ipairs { { "PATCH", '{"retention_ms":0}' }, { "DELETE" } } do
				expect(ask, case[1], path, case[2], 412, { ["If-Match"] = tag })
			end
			assert.equal(now.body, expect(ask, "GET", path, nil, 200).body)
			expect(ask, "DELETE", path .. "?id=" .. second.id, nil, 204)
		end
	end)

	-- Record, schema, link, owners and labels are one entry: whoever leads next has all of it or nothing.
	harness.case("are made whole, whoever leads next", THREE, function(c)
		local body = '{"name":"%s","parent":"p","schema":{"type":"object"},"labels":{"a":"b"}}'
		expect(client_of(c:leader()), "POST", "/v1/topics", '{"name":"p","schema":{"type":"object"}}', 201)
		for round = 1, harness.scaled(3, 30) do
			local leader, follower = c:leader(), c:follower()
			local name = "t" .. round
			expect(client_of(follower), "POST", "/v1/topics", body:format(name), 201)
			leader:post("/v1/cluster/leader", { to = follower.id }, 200)
			harness.eventually(5000, "a new leader", function() return c:leader() ~= leader end)
			local again = expect(client_of(leader), "POST", "/v1/topics", body:format(name), 409)
			assert.equal("topic_exists", again.json.code)
			c:settle()
			for _, node in ipairs(c.nodes) do
				local t = node:get("/v1/topics/" .. name, 200).json
				assert.equal(1, t.schema_version)
				assert.equal("p", t.parent)
				assert.same({ a = "b" }, t.labels)
				assert.equal(round, #node:get("/v1/topics/p", 200).json.children)
			end
		end
	end)

	-- A copy that stood on the disk of its original would go with it.
	harness.case("place a child apart from its parent", THREE, function(c)
		local ask = client_of(c:follower())
		expect(ask, "POST", "/v1/topics", '{"name":"parent","partitions":12}', 201)
		expect(ask, "POST", "/v1/topics", '{"name":"child","parent":"parent"}', 201)
		local function owners(name)
			local out = {}
			for _, a in ipairs(expect(ask, "GET", "/v1/topics/" .. name .. "/assignments", nil, 200).json.assignments) do
				out[a.partition] = a.owner_id
			end
			return out
		end
		local of_parent, of_child = owners("parent"), owners("child")
		for p = 0, 11 do
			assert(of_parent[p] ~= "" and of_child[p] ~= "", "a partition has no owner")
			assert.not_equal(of_parent[p], of_child[p])
		end
	end)

	harness.case("have at most 108 children and 4 MiB of schemas", THREE, function(c)
		local ask = client_of(c:follower())
		expect(ask, "POST", "/v1/topics", '{"name":"p"}', 201)
		for i = 1, 108 do
			expect(ask, "POST", "/v1/topics", ('{"name":"c%03d","parent":"p"}'):format(i), 201)
		end
		local r = expect(ask, "POST", "/v1/topics", '{"name":"c109","parent":"p"}', 409)
		assert.equal("child_limit", r.json.code)
		expect(ask, "POST", "/v1/topics", '{"name":"c109"}', 201)
		r = expect(ask, "POST", "/v1/topics/p/children", '{"child":"c109"}', 409)
		assert.equal("child_limit", r.json.code)

		-- Sixteen documents of the largest size fill the budget to the byte.
		local function document(version, size)
			local text = ('{"maxLength":%d,"$comment":"'):format(100 + version)
			return text .. ("x"):rep(size - #text - 2) .. '"}'
		end
		expect(ask, "POST", "/v1/topics", '{"name":"full"}', 201)
		for version = 1, 16 do
			expect(ask, "PUT", "/v1/topics/full/schema/" .. version, document(version, 262144), 200)
		end
		r = expect(ask, "PUT", "/v1/topics/full/schema/17", "{}", 409)
		assert.equal("schema_full", r.json.code)
		r = expect(ask, "GET", "/v1/topics/full/schema", nil, 200)
		assert.equal(16, #r.json.versions)
		-- Its copy would be too much nowhere: it is the child's own budget. One byte more in the parent is not.
		expect(ask, "POST", "/v1/topics", '{"name":"copy","parent":"full"}', 201)
		assert.equal(16, expect(ask, "GET", "/v1/topics/copy", nil, 200).json.schema_version)
		c:settle()
	end)
end)
