-- The cluster's view as policies get it: what it holds, that it is read-only, and what happens to bad policies.

local veena = require "veena.spec"

local function try(source, cluster, topic, partitions)
  return veena.policy{ source = source, name = "p.lua" }.place(cluster, topic or { name = "t" }, partitions or {})
end

-- What an iterator or a list over `source` gives of `field`, in order.
local function gather(source, field)
  return ("(function() local o = {} for x in %s do o[#o + 1] = x.%s end return o end)()"):format(source, field)
end

local function each(list)
  return ("(function() local i, l = 0, %s return function() i = i + 1 return l[i] end end)()"):format(list)
end

-- Runs an expression over `c` inside the sandbox and returns what it gave.
local function eval(cluster, expression)
  return (try("return { place = function(c) return " .. expression .. " end }", cluster))
end

local function fault_of(source, cluster)
  local ok, e = pcall(try, source, cluster)
  assert.is_false(ok)
  return e
end

local cluster = veena.cluster{
  now = 1000.5, index = 77, leader = "n1", leader_for_s = 12, term = 3,
  servers = { { id = "n1", leader = true }, { id = "n2", voter = false, alive = false } },
  members = {
    "a", { id = "b", status = "dead", build = "1.0", tags = { rack = "r1" } }, { id = "d", draining = true },
  },
  topics = { { name = "orders", partitions = 4, retention_ms = 0, labels = { env = "prod" } }, "audit" },
  assignments = {
    { topic = "orders", partition = 0, owner_id = "a" },
    { topic = "orders", partition = 1, owner_id = "a", target_id = "d" },
    { topic = "orders", partition = 2, owner_id = "b" },
  },
  settings = { max_moves = 3 },
}

describe("the view", function()
  it("says where and when it is", function()
    assert.same({ 77, 1000.5, "n1", 3, 12 }, eval(cluster, "{c.index, c.now, c.leader, c.term, c.leader_for_s}"))
  end)

  it("lists and finds members, and filters them", function()
    assert.same({ "a", "b", "d" }, eval(cluster, gather(each("c:members()"), "id")))
    assert.equal(1, eval(cluster, "#c:members{ status = 'dead' }"))
    assert.equal(2, eval(cluster, "#c:members{ draining = false }"))
    local b = eval(cluster, "c:member('b')")
    assert.equal("dead", b.status)
    assert.same({ rack = "r1" }, b.tags)
    assert.same({}, b.labels)
    assert.equal("server", b.kind)
    assert.is_nil(eval(cluster, "c:member('zzz')"))
  end)

  it("counts what members hold", function()
    assert.same({ owned = 2, coming = 0, leaving = 1, leads = 0, replicas = 0 }, eval(cluster, "c:counts('a')"))
    assert.equal(1, eval(cluster, "c:load('a')"))
    assert.equal(1, eval(cluster, "c:load('d')"))
    assert.equal(0, eval(cluster, "c:load('zzz')"))
  end)

  -- As assignments by HTTP and watch do: what needs a person comes first, and target_id shows the move anyway.
  it("says owner_dead of a move whose owner is dead", function()
    local c = veena.cluster{
      members = { "a", { id = "b", status = "dead" } }, topics = { { name = "t", partitions = 1 } },
      assignments = { { topic = "t", partition = 0, owner_id = "b", target_id = "a" } },
    }
    local row = eval(c, "c:assignment('t', 0)")
    assert.same({ "owner_dead", "a" }, { row.state, row.target_id })
  end)

  it("gives topics and assignments", function()
    assert.equal(0, eval(cluster, "c:topic('orders')").retention_ms)
    assert.same({ env = "prod" }, eval(cluster, "c:topic('orders')").labels)
    assert.same({}, eval(cluster, "c:topic('audit')").labels)
    assert.is_nil(eval(cluster, "c:topic('nope')"))
    local rows = eval(cluster, "c:assignments('orders')")
    local states = {}
    for i, row in ipairs(rows) do
      states[i] = row.state
    end
    assert.same({ "placed", "moving", "owner_dead", "unplaced" }, states)
    assert.equal("d", rows[2].target_id)
    assert.equal("", rows[4].owner_id)
    assert.equal("a", eval(cluster, "c:assignment('orders', 0)").owner_id)
    assert.is_nil(eval(cluster, "c:assignment('orders', 4)"))
    assert.equal(1, eval(cluster, "#c:moves()"))
    assert.same({ "audit", "orders" }, eval(cluster, gather("c:topics()", "name")))
    assert.same({ "orders" }, eval(cluster, gather("c:topics('or')", "name")))
    assert.same({ 0, 1 }, eval(cluster, gather("c:owned('a')", "partition")))
  end)

  it("gives servers, settings and dice", function()
    assert.same({
      { id = "n1", voter = true, leader = true, alive = true },
      { id = "n2", voter = false, leader = false, alive = false },
    }, eval(cluster, "c:servers()"))
    assert.equal(3, eval(cluster, "c:setting('max_moves')"))
    assert.equal(30, eval(cluster, "c:setting('dead_after_s')"))
    local once = eval(cluster, "{c:random(1000), c:random(1000), c:random(1000)}")
    assert.same(once, eval(cluster, "{c:random(1000), c:random(1000), c:random(1000)}"))
  end)

  it("is the same object in a spec's own hands", function()
    assert.equal(77, cluster.index)
    assert.equal(1, cluster:load("a"))
    assert.equal("a", cluster:assignment("orders", 0).owner_id)
  end)

  it("is read-only, and its records are copies", function()
    assert.matches("read%-only", fault_of("return { place = function(c) c.index = 1 end }", cluster).message)
    local changed = "(function() local m = c:member('a') m.id = 'x' return c:member('a').id end)()"
    assert.equal("a", eval(cluster, changed))
    assert.matches("colon", fault_of("return { place = function(c) c.load('a') end }", cluster).message)
    assert.matches("no 'nothing'", fault_of("return { place = function(c) return c.nothing end }", cluster).message)
    assert.matches("no setting", fault_of("return { place = function(c) return c:setting('x') end }", cluster).message)
  end)
end)

describe("a description", function()
  it("refuses fields it does not know", function()
    assert.has_error(function() veena.cluster{ topcis = {} } end)
    assert.has_error(function() veena.cluster{ members = { { id = "a", statsu = "dead" } } } end)
    assert.has_error(function() veena.cluster{ topics = { { name = "t", partition = 3 } } } end)
    assert.has_error(function() veena.cluster{ settings = { x = 1 } } end)
  end)

  it("refuses what the state machine refuses", function()
    assert.has_error(function() veena.cluster{ topics = { "t", "t" } } end)
  end)
end)

describe("a bad policy", function()
  it("says what did not load, and where", function()
    local e = fault_of("return {\n place = function( end }", cluster)
    assert.equal("load", e.kind)
    assert.equal(2, e.line)
    assert.equal("load", fault_of("return 1", cluster).kind)
    assert.matches("no function 'place'", fault_of("return {}", cluster).message)
  end)

  it("says what failed, and where", function()
    local e = fault_of("return {\n place = function(c)\n return c.x.y end }", cluster)
    assert.equal("runtime", e.kind)
    assert.equal(3, e.line)
  end)

  it("is stopped by its budget", function()
    assert.equal("budget", fault_of("return { place = function() while true do end end }", cluster).kind)
    assert.equal("budget", fault_of("return { place = function(c) while true do c:members() end end }", cluster).kind)
  end)

  it("has its owners judged by the core", function()
    local p = veena.policy{
      source = "return { place = function() return { [0] = 'a', [1] = 'b', [2] = 'd', [3] = 'zz' } end }",
    }
    local r = veena.try(p, cluster, { topic = "orders", partitions = { 0, 1, 2, 3 } })
    assert.equal(1, #r.intents)
    local codes = {}
    for _, refused in ipairs(r.refused) do
      codes[refused.intent.to] = refused.code
    end
    assert.same({ b = "target_not_alive", d = "target_draining", zz = "member_not_found" }, codes)
  end)
end)
