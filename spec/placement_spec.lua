-- The shipped placement policy, on the daemon's own view and sandbox.

local veena = require "veena.spec"

local policy = veena.policy("policies/placement.lua")

local function owners(cluster, topic, partitions)
  return (policy.place(cluster, topic, partitions))
end

describe("placement", function()
  it("goes round robin over the members in order of their ids", function()
    local c = veena.cluster{ members = { "b", "a", "c" }, topics = { { name = "orders", partitions = 7 } } }
    assert.same({ [0] = "a", [1] = "b", [2] = "c", [3] = "a", [4] = "b", [5] = "c", [6] = "a" },
      owners(c, "orders", { 0, 1, 2, 3, 4, 5, 6 }))
  end)

  it("answers only what it was asked for", function()
    local c = veena.cluster{ members = { "a", "b" }, topics = { { name = "orders", partitions = 6 } } }
    assert.same({ [3] = "b", [4] = "a" }, owners(c, "orders", { 3, 4 }))
  end)

  it("leaves out members that are dead, draining or not placeable", function()
    local c = veena.cluster{
      members = {
        { id = "a", status = "dead" }, { id = "b", draining = true }, { id = "c", placeable = false },
        { id = "d", kind = "broker", tags = { rack = "r1" } },
      },
      topics = { "orders" },
    }
    assert.same({ [0] = "d", [1] = "d", [2] = "d" }, owners(c, "orders", { 0, 1, 2 }))
  end)

  it("places nothing and says why when nobody can take a partition", function()
    local c = veena.cluster{ members = { { id = "a", status = "dead" } }, topics = { "orders" } }
    local placed, reason = policy.place(c, "orders", { 0, 1, 2 })
    assert.same({}, placed)
    assert.matches("no member", reason)
  end)

  it("spreads 108 partitions within one over any number of members", function()
    for n = 1, 12 do
      local members = {}
      for i = 1, n do
        members[i] = ("m%02d"):format(i)
      end
      local partitions = {}
      for p = 0, 107 do
        partitions[#partitions + 1] = p
      end
      local c = veena.cluster{ members = members, topics = { { name = "t", partitions = 108 } } }
      local count = {}
      for _, id in pairs(owners(c, "t", partitions)) do
        count[id] = (count[id] or 0) + 1
      end
      for _, id in ipairs(members) do
        assert.is_true(count[id] == 108 // n or count[id] == 108 // n + 1)
      end
    end
  end)

  describe("of a child topic", function()
    local topics = {
      { name = "orders", partitions = 4 },
      { name = "copy", partitions = 4, parent = "orders", role = "child" },
    }
    local rows = {
      { topic = "orders", partition = 0, owner_id = "a" }, { topic = "orders", partition = 1, owner_id = "b" },
      { topic = "orders", partition = 2, owner_id = "b" },
    }

    it("keeps away from the owner of the parent's partition", function()
      local c = veena.cluster{ members = { "a", "b" }, topics = topics, assignments = rows }
      assert.same({ [0] = "b", [1] = "a", [2] = "a" }, owners(c, "copy", { 0, 1, 2 }))
    end)

    it("waits while the parent's partition has no owner", function()
      local c = veena.cluster{ members = { "a", "b" }, topics = topics, assignments = rows }
      assert.same({}, owners(c, "copy", { 3 }))
    end)

    it("shares the only member", function()
      local c = veena.cluster{ members = { "a" }, topics = topics, assignments = rows }
      assert.same({ [0] = "a" }, owners(c, "copy", { 0 }))
    end)
  end)

  describe("of a topic with copies", function()
    local function rack(id, name)
      return { id = id, tags = { rack = name } }
    end

    it("spreads leaders and copies evenly, ties by the smallest id", function()
      local c = veena.cluster{ members = { "a", "b", "c" }, topics = { "t" } }
      local placed = policy.place(c, { name = "t", replicas = 2 }, { 0, 1, 2 })
      assert.same({ [0] = { "a", "b" }, [1] = { "b", "c" }, [2] = { "c", "a" } }, placed)
    end)

    it("takes another rack for each copy while there is one", function()
      local c = veena.cluster{ members = { rack("a", "r1"), rack("b", "r1"), rack("c", "r2") }, topics = { "t" } }
      for _, copies in pairs((policy.place(c, { name = "t", replicas = 2 }, { 0, 1, 2, 3 }))) do
        assert.is_true(copies[1] == "c" or copies[2] == "c", table.concat(copies, " "))
      end
    end)

    it("makes do with the members there are", function()
      local c = veena.cluster{ members = { "a", { id = "b", draining = true } }, topics = { "t" } }
      assert.same({ [0] = { "a" } }, (policy.place(c, { name = "t", replicas = 3 }, { 0 })))
    end)

    it("leads away from the owner of the parent's partition", function()
      local c = veena.cluster{ members = { "a", "b" }, topics = { { name = "p", partitions = 3 }, "t" },
        assignments = { { topic = "p", partition = 0, owner_id = "a" } } }
      assert.same({ [0] = { "b", "a" } }, (policy.place(c, { name = "t", parent = "p", replicas = 2 }, { 0 })))
    end)
  end)

  it("passes the core's rules in a try", function()
    local c = veena.cluster{ members = { "a", "b" }, topics = { "orders" } }
    local r = veena.try(policy, c, { topic = "orders" })
    assert.same({}, r.refused)
    assert.equal(3, #r.intents)
    assert.equal("a", r.intents[1].to)
    assert.matches("round robin", r.reason)
  end)
end)
