-- tests/cluster/contract.lua - plays a list of requests, and what must come back, against the leader and then against a
-- follower of the same cluster: both must answer as the row says, and both alike.
--
-- A row: { method, target, body, status, code (nil: none), holds = texts of the answer, session = id }. In targets,
-- bodies and texts "@" is a letter that differs between the two runs, so that both live in one cluster. `session` sends
-- the session that the last registration of this id gave; with a colon in it, just that.

local http = require "cluster.http"

local contract = {}

-- A kept connection to one node: ask(method, target, body, headers) -> answer.
function contract.client_of(node)
	local conn = assert(http.connect(node.http_port))
	return function(method, target, body, headers)
		headers = headers or {}
		headers["X-Veena-Client"] = "spec"
		local r, err = conn:request(method, target, body, headers)
		if not r then error(("%s: %s %s: %s"):format(node.id, method, target, err), 2) end
		return r
	end
end

local function with_letter(text, letter)
	return text and (text:gsub("@", letter))
end

-- What may differ between two answers to the same request: ids, indexes, times, and our letter, a capital one, which
-- no other word begins with.
local function plain(body, letter)
	return (body:gsub('"id":"%x+"', '"id":"-"'):gsub('"attach_epoch":"%x+"', '"attach_epoch":"-"')
		:gsub('"parent_id":"%x+"', '"parent_id":"-"'):gsub('"index":%d+}', '"index":0}')
		:gsub('"created_at":%d+', '"created_at":0'):gsub('"version":%d+,"leader_epoch', '"version":0,"leader_epoch')
		:gsub('"session":"%x+"', '"session":"-"'):gsub('"heartbeat_age_seconds":%d+', '"heartbeat_age_seconds":0')
		:gsub('"index":%d+,', '"index":0,')
		:gsub('"' .. letter, '"@'):gsub(" " .. letter, " @"):gsub("/" .. letter, "/@"))
end

local function session_header(row, sessions, letter)
	local id = with_letter(row.session, letter)
	if not id then return nil end
	return { ["X-Veena-Session"] = id:find(":", 1, true) and id or id .. ":" .. (sessions[id] or "0123456789abcdef") }
end

local function play(node, ROWS, letter)
	local ask = contract.client_of(node)
	local answers, sessions = {}, {}
	for i, row in ipairs(ROWS) do
		local r = ask(row.method, with_letter(row.target, letter), with_letter(row.body, letter),
			session_header(row, sessions, letter))
		local what = ("row %d: %s %s %s"):format(i, row.method, row.target, (row.body or ""):sub(1, 200))
		assert(r.status == row.status, ("%s: %d instead of %d: %s"):format(what, r.status, row.status, r.body))
		assert(r.status < 400 or r.json.code == row.code or not row.code,
			("%s: code %s instead of %s"):format(what, r.json and r.json.code, row.code))
		for _, text in ipairs(row.holds) do
			text = with_letter(text, letter)
			assert(r.body:find(text, 1, true), ("%s: no %s in %s"):format(what, text, r.body))
		end
		answers[i] = plain(r.body, letter)
		if r.status == 201 and r.json.session then sessions[r.json.member.id] = r.json.session end
		-- A connection that was too much for the server is closed.
		if r.status == 413 then ask = contract.client_of(node) end
	end
	return answers
end

function contract.check(c, ROWS)
	local leader, follower = c:leader(), c:follower()
	local direct = play(leader, ROWS, "Q")
	local forwarded = play(follower, ROWS, "Z")
	for i, row in ipairs(ROWS) do
		assert(direct[i] == forwarded[i], ("row %d: %s %s\nleader:   %s\nfollower: %s")
			:format(i, row.method, row.target, direct[i], forwarded[i]))
	end
	c:settle()
end

return contract
