-- Moves by HTTP: set, progress, complete, abort, pin, and what each refuses.

local harness = require "cluster.harness"

local MOVE = "/v1/topics/orders/partitions/%d/move"

describe("moves", function()
	-- F36 names: complete through a follower and again, and with a changed target.
	harness.case("go step by step, on any node (F36)", { flags = { "--max-moves", "0" } }, function(c)
		local leader, follower = c:leader(), c:follower()
		harness.eventually(10000, "three members", function()
			return #leader:get("/v1/cluster/members", 200).json.members == 3
		end)
		local topic = leader:post("/v1/topics", { name = "orders", partitions = 3 }, 201).json
		local function at(p) return leader:get("/v1/topics/orders/partitions/" .. p, 200).json end
		local from = at(0).owner_id
		local to = from == "n1" and "n2" or "n1"
		local third = ({ n1n2 = "n3", n2n1 = "n3", n3n1 = "n2" })[from .. to]
		local path = MOVE:format(0)
		local function refuse(answer, status, code)
			assert.are.equal(status, answer.status, answer.body)
			assert.are.equal(code, answer.json.code)
		end

		refuse(leader:post(path, { pin = true }), 400, "bad_field")
		refuse(leader:post(path, { target = "zz" }), 404, "member_not_found")
		refuse(leader:post(path, { target = from }), 409, "already_owner")
		refuse(leader:post(path, { target = to, topic_id = "0123456789abcdef" }), 409, "topic_changed")
		refuse(leader:post(path, { target = to, expected_target = third }), 409, "move_changed")
		refuse(leader:post(MOVE:format(7), { target = to }), 404, "partition_not_found")
		refuse(leader:post("/v1/topics/none/partitions/0/move", { target = to }), 404, "topic_not_found")
		refuse(leader:post("/v1/cluster/moves/orders/0/abort", {}), 404, "no_move")

		local dry = follower:post(path .. "?dry_run=true", { target = to }, 200).json
		assert.is_true(dry.dry_run and dry.would)
		assert.are.equal(to, dry.intents[1].to)
		dry = leader:post(path .. "?dry_run=true", { target = from }, 200).json
		assert.is_false(dry.would)
		assert.are.equal("already_owner", dry.reasons[1].code)
		assert.are.equal("placed", at(0).state)

		local moving = follower:post(path, { target = to, topic_id = topic.id }, 202).json
		assert.are.equal("moving", moving.state)
		assert.are.equal(to, moving.target_id)
		assert.are.equal(moving.version, moving.move_id)
		assert.are.equal(moving.move_id, leader:post(path, { target = to }, 202).json.move_id)
		refuse(leader:post(path, { target = third }), 409, "move_in_flight")
		refuse(leader:post(path, { target = third, expected_target = third }), 409, "move_changed")

		local said = { topic_id = topic.id, move_id = moving.move_id, phase = "copying", copied_bytes = 5,
			total_bytes = 9 }
		follower:post(path .. "/progress", said, 200)
		local list = leader:get("/v1/cluster/moves?detail", 200).json.moves
		assert.are.equal(1, #list)
		assert.are.same({ from, to, "alive", "alive", moving.move_id },
			{ list[1].from, list[1].to, list[1].from_status, list[1].to_status, list[1].move_id })
		assert.are.same({ "copying", 5, 9 },
			{ list[1].progress.phase, list[1].progress.copied_bytes, list[1].progress.total_bytes })
		said.move_id = moving.move_id + 1
		refuse(leader:post(path .. "/progress", said), 409, "move_changed")
		said.phase = "done"
		refuse(leader:post(path .. "/progress", said), 400, "bad_field")

		local done = { topic_id = topic.id, move_id = moving.move_id, expected_owner = from, target = to }
		refuse(leader:post(path .. "/complete", { topic_id = topic.id, move_id = moving.move_id + 1,
			expected_owner = from, target = to }), 409, "move_changed")
		refuse(leader:post(path .. "/complete", { topic_id = topic.id, move_id = moving.move_id,
			expected_owner = from, target = third }), 409, "move_changed")
		refuse(leader:post(path .. "/complete", { topic_id = "0123456789abcdef", move_id = moving.move_id,
			expected_owner = from, target = to }), 409, "topic_changed")
		local flipped = follower:post(path .. "/complete", done, 200).json
		assert.are.equal(to, flipped.owner_id)
		assert.are.equal(flipped.version, leader:post(path .. "/complete", done, 200).json.version)
		assert.are.equal(0, #leader:get("/v1/cluster/moves", 200).json.moves)

		-- Aborted: one, and all. A pin alone, and with a move.
		leader:post(path, { target = from }, 202)
		refuse(leader:post("/v1/cluster/moves/orders/0/abort?target=" .. third, {}), 409, "move_changed")
		local aborted = follower:post("/v1/cluster/moves/orders/0/abort?target=" .. from, {}, 202).json
		assert.are.equal(from, aborted.move.to)
		assert.are.equal("string", type(aborted.note))
		for p = 0, 2 do
			local row = at(p)
			leader:post(MOVE:format(p), { target = row.owner_id == "n1" and "n2" or "n1", pin = p == 1 }, 202)
		end
		assert.is_true(at(1).pinned)
		assert.are.equal(3, #leader:post("/v1/cluster/moves/abort?dry_run=true", {}, 200).json.intents)
		assert.are.equal(3, #leader:post("/v1/cluster/moves/abort", {}, 202).json.moves)
		assert.are.equal(0, #leader:post("/v1/cluster/moves/abort", {}, 200).json.moves)
		assert.is_nil(leader:post(MOVE:format(1), { target = at(1).owner_id, pin = false }, 202).json.pinned)
		c:settle()
	end)
end)
