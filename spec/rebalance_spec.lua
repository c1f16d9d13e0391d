-- The shipped rebalance policy: who gives, who receives, what is left alone, and that it comes to rest.

local veena = require "veena.spec"

local placement = veena.policy("policies/placement.lua")
local rebalance = veena.policy("policies/rebalance.lua")

-- { a = 3, b = 0 } -> a cluster in which a owns three partitions of a topic, and b none.
local function holding(owners, more)
  local members, assignments, ids, n = {}, {}, {}, 0
  for id in pairs(owners) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  for _, id in ipairs(ids) do
    members[#members + 1] = { id = id }
    for _ = 1, owners[id] do
      assignments[#assignments + 1] = { topic = "t", partition = n, owner_id = id }
      n = n + 1
    end
  end
  local d = { members = members, topics = { { name = "t", partitions = n } }, assignments = assignments }
  for key, value in pairs(more or {}) do
    d[key] = value
  end
  return veena.cluster(d)
end

local function plan(c, args)
  local r = veena.try(rebalance, c, args)
  assert.same({}, r.refused)
  return r.intents, r.reason
end

local function loads(c, ids)
  local out = {}
  for i, id in ipairs(ids) do
    out[i] = c:load(id)
  end
  return out
end

describe("the rebalance", function()
  it("moves nothing where all have their share", function()
    local intents, reason = plan(holding{ a = 3, b = 2, c = 3 })
    assert.same({}, intents)
    assert.equal("balanced", reason)
  end)

  it("moves only what is needed, lowest partitions first, and says why", function()
    local intents = plan(holding{ a = 4, b = 4, c = 0 })
    assert.equal(2, #intents)
    assert.same({ topic = "t", partition = 0, to = "c", reason = "a has 4, its share is 3" }, intents[1])
    assert.same({ topic = "t", partition = 4, to = "c", reason = "b has 4, its share is 3" }, intents[2])
  end)

  it("counts moves at their destination and plans none twice", function()
    local c = holding({ a = 6, b = 0 }, { settings = { max_moves = 2 } })
    local first = plan(c)
    assert.equal(2, #first)
    c = c:apply(first)
    assert.same({ 4, 2 }, loads(c, { "a", "b" }))
    assert.same({}, plan(c))
    c = c:after{ complete = true }
    assert.equal(1, #plan(c))
  end)

  it("takes as few moves at a time as max_moves says", function()
    assert.equal(8, #plan(holding{ a = 60, b = 0 }))
    assert.equal(3, #plan(holding({ a = 60, b = 0 }, { settings = { max_moves = 3 } })))
    assert.same({}, plan(holding({ a = 60, b = 0 }, { settings = { max_moves = 0 } })))
  end)

  it("empties a draining member and gives it nothing", function()
    local c = holding({ a = 3, b = 3 }, { members = { "a", { id = "b", draining = true } } })
    local view, _, moves = veena.settle({ rebalance = rebalance }, c)
    assert.equal(3, #moves)
    assert.equal(0, view:load("b"))
    assert.equal(6, view:load("a"))
    assert.matches("draining", moves[1].reason)
  end)

  it("leaves a draining member what it has when nobody can take it", function()
    local c = holding({ a = 3 }, { members = { { id = "a", draining = true } } })
    assert.same({}, (plan(c)))
  end)

  it("leaves dead owners, cordoned members and pinned partitions alone", function()
    local dead = holding({ a = 6, b = 0 }, { members = { { id = "a", status = "dead" }, "b" } })
    assert.same({}, (plan(dead)))
    local cordoned = holding({ a = 6, b = 0, c = 0 }, { members = { "a", { id = "b", placeable = false }, "c" } })
    for _, intent in ipairs(plan(cordoned)) do
      assert.equal("c", intent.to)
    end
    local pinned = holding({ a = 3, b = 0 }, { assignments = {
      { topic = "t", partition = 0, owner_id = "a", pinned = true },
      { topic = "t", partition = 1, owner_id = "a" }, { topic = "t", partition = 2, owner_id = "a" },
    } })
    local intents = plan(pinned)
    assert.equal(1, #intents)
    assert.equal(1, intents[1].partition)
  end)

  it("asks `allowed` of the placement policy, and so does the core", function()
    local fussy = veena.policy{ source = [[
      return {
        place = function() return {} end,
        allowed = function(cluster, topic, partition, member)
          return not (topic.name == "t" and member.id == "b" and partition < 2), "not here"
        end,
      }]] }
    local c = holding{ a = 4, b = 0 }
    local intents = plan(c, { placement = fussy })
    assert.equal(2, #intents)
    assert.equal(2, intents[1].partition)
    local rude = veena.policy{ source = [[
      return { plan = function() return { { topic = "t", partition = 0, to = "b" } } end }]] }
    local r = veena.try(rude, c, { placement = fussy })
    assert.same({}, r.intents)
    assert.equal("not_allowed", r.refused[1].code)
  end)

  it("keeps a child's partition away from its parent's, where that is possible", function()
    local function child_to(members)
      local c = veena.cluster{
        members = members, topics = { { name = "p", partitions = 3 }, { name = "k", partitions = 3, parent = "p" } },
        assignments = {
          { topic = "p", partition = 0, owner_id = "b" }, { topic = "p", partition = 1, owner_id = "b" },
          { topic = "p", partition = 2, owner_id = "b" },
          { topic = "k", partition = 0, owner_id = "a" }, { topic = "k", partition = 1, owner_id = "a" },
          { topic = "k", partition = 2, owner_id = "a" },
        },
      }
      return veena.try(rebalance, c).intents
    end
    for _, intent in ipairs(child_to{ { id = "a", draining = true }, "b", "c" }) do
      assert.equal("c", intent.to)
    end
    assert.equal("b", child_to{ { id = "a", draining = true }, "b" }[1].to)
  end)

  -- F36: what cannot come to an end is taken back, what may is not.
  it("takes hopeless moves back (F36)", function()
    local function after(target)
      local c = holding({ a = 3 }, { members = { "a", target }, assignments = {
        { topic = "t", partition = 0, owner_id = "a", target_id = "b" }, { topic = "t", partition = 1, owner_id = "a" },
        { topic = "t", partition = 2, owner_id = "a" },
      } })
      return veena.try(rebalance, c).intents[1]
    end
    local function is_abort(intent)
      return intent ~= nil and intent.abort == true and intent.partition == 0
    end
    assert.is_false(is_abort(after("b")))
    assert.is_true(is_abort(after{ id = "b", draining = true }))
    assert.is_true(is_abort(after("c")))
    assert.is_true(is_abort(after{ id = "b", status = "dead" }))
    assert.is_false(is_abort(after{ id = "b", status = "dead", last_heartbeat = 1700000000 - 60 }))
  end)
end)

-- F35: plans on half-done moves, in any order, come to rest; nothing goes back where it came from.
describe("the rebalance (F35)", function()
  local function random_cluster(draw)
    local members, assignments, topics = {}, {}, {}
    local n = draw(2, 7)
    for i = 1, n do
      members[i] = { id = "m" .. i, draining = draw(1, 6) == 1, placeable = draw(1, 8) > 1 }
      if draw(1, 8) == 1 then
        members[i].status = "dead"
      end
    end
    for t = 1, draw(1, 4) do
      topics[t] = { name = "t" .. t, partitions = draw(3, 12) }
      for p = 0, topics[t].partitions - 1 do
        if draw(1, 10) > 1 then
          assignments[#assignments + 1] = { topic = "t" .. t, partition = p, owner_id = "m" .. draw(1, n) }
        end
      end
    end
    return veena.cluster{ members = members, topics = topics, assignments = assignments }
  end

  it("comes to rest in few passes, without going back", function()
    local clusters = tonumber(os.getenv("SPEC_CLUSTERS")) or 60
    for seed = 1, clusters do
      math.randomseed(seed)
      local c = random_cluster(math.random)
      local view, passes, moves = veena.settle({ placement = placement, rebalance = rebalance }, c, { passes = 30 })
      assert(passes <= 30, seed)
      local seen = {}
      for _, m in ipairs(moves) do
        local key = m.topic .. "/" .. m.partition
        assert(not seen[key], ("seed %d: %s moves twice"):format(seed, key))
        seen[key] = true
      end
      for _ = 1, 3 do
        assert.same({}, veena.try(rebalance, view, {}).intents)
      end
      -- Whoever can take partitions has as many as the others, give or take one.
      local least, most
      for _, m in ipairs(view:members{ status = "alive", draining = false, placeable = true }) do
        local load = view:load(m.id)
        least, most = math.min(least or load, load), math.max(most or load, load)
      end
      assert(not least or most - least <= 1, ("seed %d: %s..%s"):format(seed, least, most))
    end
  end)
end)

describe("the core", function()
  it("lets no plan through that is unsafe", function()
    local c = holding({ a = 3, b = 3 }, { members = { "a", "b", { id = "d", status = "dead" },
      { id = "e", draining = true }, { id = "f", placeable = false } } })
    local function code(intent)
      local p = veena.policy{ source = ("return { plan = function() return { %s } end }"):format(intent) }
      local r = veena.try(p, c)
      return #r.intents == 0 and r.refused[#r.refused].code or nil
    end
    assert.equal("topic_not_found", code'{ topic = "x", partition = 0, to = "b" }')
    assert.equal("partition_not_found", code'{ topic = "t", partition = 9, to = "b" }')
    assert.equal("partition_not_found", code'{ topic = "t", partition = -1, to = "b" }')
    assert.equal("already_owner", code'{ topic = "t", partition = 0, to = "a" }')
    assert.equal("member_not_found", code'{ topic = "t", partition = 0, to = "z" }')
    assert.equal("target_not_alive", code'{ topic = "t", partition = 0, to = "d" }')
    assert.equal("target_draining", code'{ topic = "t", partition = 0, to = "e" }')
    assert.equal("target_not_placeable", code'{ topic = "t", partition = 0, to = "f" }')
    assert.equal("no_move", code'{ topic = "t", partition = 0, abort = true }')
    assert.equal("not_replicated", code'{ topic = "t", partition = 0, leader = "b" }')
    local twice = veena.policy{ source = [[return { plan = function()
      return { { topic = "t", partition = 0, to = "b" }, { topic = "t", partition = 0, to = "b" } } end }]] }
    local r = veena.try(twice, c)
    assert.equal(1, #r.intents)
    assert.equal("move_in_flight", r.refused[1].code)
    local all = veena.policy{ source = [[return { plan = function(c) local o = {}
      for a in c:owned("a") do o[#o + 1] = { topic = a.topic, partition = a.partition, to = "b" } end return o end }]] }
    r = veena.try(all, holding({ a = 12, b = 0 }, {}))
    assert.equal(8, #r.intents)
    assert.equal("move_budget_full", r.refused[1].code)
  end)

  it("calls what is no plan a fault", function()
    local c = holding{ a = 3 }
    for _, source in ipairs{ "1", "{ 1 }", "{ x = 1 }", "{ { topic = 't' } }", "{ { topic = 't', partition = 0 } }",
      "{ { topic = 't', partition = 0.5, to = 'b' } }", "{ { topic = 't', partition = 0/0, to = 'b' } }",
      "{ { topic = 't', partition = 0, to = 1 } }", "{ { topic = 't', partition = 0, to = 'a', abort = true } }",
      "{ { topic = 't', partition = 0, go = 'a' } }", "nil" } do
      local p = veena.policy{ source = "return { plan = function() return " .. source .. " end }" }
      assert.has_error(function() veena.try(p, c) end)
    end
  end)
end)
