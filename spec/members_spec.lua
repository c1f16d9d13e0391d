-- The shipped liveness, drain and failover policies.

local veena = require "veena.spec"

local liveness = veena.policy("policies/liveness.lua")
local drain = veena.policy("policies/drain.lua")
local failover = veena.policy("policies/failover.lua")
local NOW = 1700000000

local function cluster(more)
  local d = {
    now = NOW, leader = "n1", leader_for_s = 3600,
    servers = { { id = "n1", leader = true }, { id = "n2" }, { id = "n3" } },
    members = { "n1", { id = "n2", last_heartbeat = NOW - 31 }, { id = "n3", last_heartbeat = NOW - 30 },
      { id = "b1", kind = "broker", last_heartbeat = NOW - 3600 } },
  }
  for key, value in pairs(more or {}) do
    d[key] = value
  end
  return veena.cluster(d)
end

describe("liveness", function()
  it("calls dead who was silent for longer than dead_after_s, and says why", function()
    local c = cluster()
    local verdict, reason = liveness.judge(c, c:member("n2"))
    assert.equal("dead", verdict)
    assert.equal("not heard of for 31 s, 30 are allowed", reason)
    assert.is_nil(liveness.judge(c, c:member("n3")))
    assert.is_nil(liveness.judge(c, c:member("n1")))
    assert.is_nil(liveness.judge(cluster{ settings = { dead_after_s = 60 } }, c:member("n2")))
  end)

  -- F34: a leader that has not watched for long, and a clock that jumps.
  it("kills nobody for what this leader has not watched (F34)", function()
    local young = cluster{ leader_for_s = 20 }
    assert.is_nil(liveness.judge(young, young:member("b1")))
    local back = cluster{ now = NOW - 3600 }
    assert.is_nil(liveness.judge(back, back:member("n2")))
    local rude = veena.policy{ source = "return { judge = function() return 'dead' end }" }
    local r = veena.try(rude, young, { member = "b1" })
    assert.same({}, r.intents)
    assert.equal("not_watched", r.refused[1].code)
  end)

  it("leaves a quorum of voters alive (F34)", function()
    local c = cluster()
    assert.equal(1, #veena.try(liveness, c, { member = "n2" }).intents)
    local r = veena.try(liveness, c:after{ dead = { "n3" } }, { member = "n2" })
    assert.equal(0, #r.intents)
    c = cluster{ members = { "n1", { id = "n2", last_heartbeat = NOW - 99 }, { id = "n3", status = "dead" },
      { id = "b1", last_heartbeat = NOW - 99 } }, servers = { { id = "n1", leader = true }, { id = "n2" },
      { id = "n3", alive = false } } }
    r = veena.try(liveness, c, { member = "n2" })
    assert.equal("no_healthy_majority", r.refused[1].code)
    assert.equal(1, #veena.try(liveness, c, { member = "b1" }).intents)
  end)

  it("takes effect in the cluster that follows", function()
    local c = cluster()
    c = c:apply(veena.try(liveness, c, { member = "n2" }).intents)
    assert.equal("dead", c:member("n2").status)
    c = c:after{ seconds = 5, alive = { "n2" } }
    assert.equal("alive", c:member("n2").status)
    assert.equal(NOW + 5, c:member("n2").last_heartbeat)
  end)
end)

describe("drain", function()
  local function holding(assignments, more)
    local d = { members = { "a", { id = "b", draining = true } }, topics = { "t" }, assignments = assignments }
    for key, value in pairs(more or {}) do
      d[key] = value
    end
    return veena.cluster(d)
  end

  it("waits for partitions and moves", function()
    local c = holding{ { topic = "t", partition = 0, owner_id = "b" } }
    local done, reason = drain.finished(c, c:member("b"))
    assert.is_false(done)
    assert.equal("it owns 1 partitions", reason)
    c = holding{ { topic = "t", partition = 0, owner_id = "a", target_id = "b" } }
    done, reason = drain.finished(c, c:member("b"))
    assert.is_false(done)
    assert.equal("1 moves come to it", reason)
  end)

  it("lets go of who holds nothing, behind the minimum of voters", function()
    local c = holding{ { topic = "t", partition = 0, owner_id = "a" } }
    local r = veena.try(drain, c, { member = "b" })
    assert.same({ { member = "b", remove = true, reason = "nothing names it any more" } }, r.intents)
    assert.is_nil(c:apply(r.intents):member("b"))
    c = holding({}, { servers = { { id = "a" }, { id = "b" }, { id = "c" } } })
    assert.equal("below_min_voters", veena.try(drain, c, { member = "b" }).refused[1].code)
    local rude = veena.policy{ source = "return { finished = function() return true end }" }
    c = holding{ { topic = "t", partition = 0, owner_id = "b" } }
    assert.equal("member_holds", veena.try(rude, c, { member = "b" }).refused[1].code)
  end)
end)

describe("failover", function()
  local function elect(members, replicas)
    local c = veena.cluster{ members = members, topics = { "t" } }
    return failover.elect(c, { topic = "t", partition = 0, owner_id = "a", replicas = replicas })
  end
  local gone = { id = "a", status = "dead", last_heartbeat = NOW - 60 }

  it("waits for a leader that lives or may come back", function()
    assert.is_nil(elect({ "a", "b" }, { { id = "a", in_sync = true }, { id = "b", in_sync = true } }))
    local _, reason = elect({ { id = "a", status = "dead", last_heartbeat = NOW - 5 }, "b" },
      { { id = "b", in_sync = true } })
    assert.equal("a may come back within 10 s", reason)
  end)

  it("takes a living copy in sync, one that drains last", function()
    local replicas = { { id = "a", in_sync = true }, { id = "b", in_sync = true }, { id = "c", in_sync = true },
      { id = "d", in_sync = false } }
    assert.equal("b", (elect({ gone, "b", "c", "d" }, replicas)))
    assert.equal("c", (elect({ gone, { id = "b", draining = true }, "c", "d" }, replicas)))
    assert.equal("b", (elect({ gone, { id = "b", draining = true }, { id = "c", status = "dead" }, "d" }, replicas)))
    local leader, reason = elect({ gone, { id = "b", status = "dead" }, { id = "c", status = "dead" }, "d" }, replicas)
    assert.is_nil(leader)
    assert.equal("no living copy is in sync", reason)
  end)

  it("takes over from a leader that drains only where a copy in sync stays", function()
    local leaves = { id = "a", draining = true }
    local replicas = { { id = "a", in_sync = true }, { id = "b", in_sync = true }, { id = "c", in_sync = false } }
    assert.equal("b", (elect({ leaves, "b", "c" }, replicas)))
    assert.is_nil(elect({ leaves, { id = "b", draining = true }, "c" }, replicas))
    local c = veena.cluster{ members = { leaves, "c" }, topics = { "t" } }
    assert.is_nil(failover.elect(c, { topic = "t", partition = 0, owner_id = "a", replicas = replicas }))
  end)

  it("refuses a copy that is not in sync or not alive", function()
    local c = veena.cluster{ members = { gone, "b", { id = "c", status = "dead" } }, topics = { "t" } }
    local a = { topic = "t", partition = 0, owner_id = "a", replicas = { { id = "b", in_sync = false },
      { id = "c", in_sync = true } } }
    local function code(id)
      local p = veena.policy{ source = ("return { elect = function() return %q end }"):format(id) }
      local r = veena.try(p, c, { assignment = a })
      assert.same({}, r.intents)
      return r.refused[1].code
    end
    assert.equal("not_in_sync", code("b"))
    assert.equal("target_not_alive", code("c"))
    assert.equal("member_not_found", code("z"))
  end)
end)
