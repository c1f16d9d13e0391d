-- Policies that mean harm, or are careless: each ends within its budget, says so, and leaves nothing behind. Rows F39
-- to F42 of the fault catalogue; what a daemon does meanwhile is shown by tests/cluster/control_spec.lua.

local veena = require "veena.spec"

local cluster = veena.cluster{
  members = { "a", "b" }, topics = { "t" }, assignments = { { topic = "t", partition = 0, owner_id = "a" } },
}
local placement = veena.policy("policies/placement.lua")
local WALL_S = 2 -- of a run in specs

-- The fault of a policy whose `place` (or `fn`) has this body.
local function fault_of(body, fn)
  local source = ("return { %s = function(c) %s end }"):format(fn or "place", body)
  local p = veena.policy{ source = source, name = "hostile.lua" }
  local began = os.clock()
  local ok, e = pcall(function() return veena.try(p, cluster, { topic = "t", partitions = { 1 }, member = "a" }) end)
  local took = os.clock() - began
  assert(took < 2 * WALL_S, ("took %.1f s: %s"):format(took, body))
  assert(not ok, "was taken: " .. body)
  return e
end

-- What came before left nothing: the shipped policy places, and another run sees its libraries whole.
local function is_unharmed()
  local r = veena.try(placement, cluster, { topic = "t", partitions = { 1 } })
  assert.equal("b", r.intents[1].to)
  local p = veena.policy{ source = [[return { plan = function()
    assert(("x"):upper() == "X" and #table.concat({ 1, 2 }) == 2 and math.max(1, 2) == 2 and type(pairs) == "function")
    return {} end }]] }
  assert.same({}, veena.try(p, cluster).intents)
end

local function each(kinds, cases, fn)
  for name, body in pairs(cases) do
    it(name, function()
      local e = fault_of(body, fn)
      local kind = type(e) == "table" and e.kind or tostring(e)
      assert(kinds[kind], ("%s: %s"):format(kind, type(e) == "table" and e.message or ""))
      is_unharmed()
    end)
  end
end

local BUDGET = { budget = true }
local EITHER = { budget = true, runtime = true }
local REFUSED = { runtime = true, load = true }

describe("endless work (F39) ends by its budget:", function()
  each(BUDGET, {
    ["a loop"] = "while true do end",
    ["a loop over the view"] = "while true do c:members() end",
    ["iterators that never end"] = "while true do for a in c:owned('a') do c:topic(a.topic) end end",
    ["a loop of logging"] = "while true do c:log(('x'):rep(60000)) end",
    ["a loop of dice"] = "while true do c:random(10) end",
    ["two functions that call each other in tail position"] =
      "local f, g function f() return g() end function g() return f() end f()",
    ["many long searches"] = "local s = ('a'):rep(65000) while true do string.find(s, 'b') end",
    ["many globs"] = "local s = ('a'):rep(60000) while true do string.match(s, ('*a'):rep(20) .. 'b') end",
    ["many sorts"] = "local t = {} for i = 1, 20000 do t[i] = i end while true do table.sort(t) end",
    ["insertions at the front"] = "local t = {} while true do table.insert(t, 1, 1) end",
    ["removals from the front"] =
      "while true do local t = {} for i = 1, 50000 do t[i] = i end while #t > 0 do table.remove(t, 1) end end",
    ["repeated unpacking"] =
      "local t = {} for i = 1, 200 do t[i] = i end while true do select('#', table.unpack(t)) end",
    ["comparisons of long texts"] = "local a, b = ('x'):rep(65000) .. 'a', ('x'):rep(65000) .. 'b' while a < b do end",
  })
end)

describe("bombs (F39, F42) do not go off:", function()
  each(EITHER, {
    ["a pattern with nested repeats"] = "return string.find(('a'):rep(30000), ('.-'):rep(12) .. 'b')",
    ["a huge repeat"] = "return ('x'):rep(1e9)",
    ["a concat of much"] =
      "local s, t = ('x'):rep(60000), {} for i = 1, 1000000 do t[i] = s end return table.concat(t)",
    ["a sort that contradicts itself"] =
      "local t = {} for i = 1, 100000 do t[i] = i % 7 end while true do table.sort(t, function() return true end) end",
    ["a wide format"] = "return string.format('%99999d', 1)",
    ["table.move"] = "return table.move({ 1 }, 1, 1e9, 2)",
    ["unpacking of much"] = "return select('#', table.unpack({}, 1, 1e7))",
    ["one text, doubled"] = "local s = 'x' while true do s = s .. s end",
    ["growing tables"] = "local t = {} while true do t = { t, {}, {}, {} } for i = 1, 100 do t[i + 4] = { i } end end",
    ["growing texts"] = "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(60000) .. i end",
    ["a million closures"] = "local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
    ["deep recursion"] = "local function f(n) return 1 + f(n + 1) end return f(0)",
    ["deep recursion through pcall"] =
      "local function f() local ok, e = pcall(f) return ok, e end while true do f() end",
    ["deep recursion through sort"] =
      "local function f() table.sort({ 1, 2, 3 }, function() f() return false end) end while true do f() end",
    ["utf8 and pack"] = "return utf8.char(1) .. string.pack('s', 'x')",
  })
end)

describe("escapes (F40, F41) lead nowhere:", function()
  each(BUDGET, {
    ["a pcall around the loop"] = "while true do pcall(function() while true do end end) end",
    ["a pcall that swallows the memory fault"] =
      "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
  })
  each(EITHER, {
    ["a looping __tostring"] = "error(setmetatable({}, { __tostring = function() while true do end end }))",
    ["an error object that is a table"] = "error({ message = 1 })",
    ["an error without a value"] = "error(nil)",
    ["xpcall with a looping handler"] = "xpcall(error, function() while true do end end)",
    ["finalizers"] = "setmetatable({}, { __gc = function() while true do end end })",
    ["coroutines"] = "coroutine.wrap(function() while true do end end)()",
    ["bytecode"] = "return load('\\27Lua')",
    ["text to load"] = "return load('while true do end')()",
    ["string.dump"] = "return string.dump(function() end)",
    ["the debug library"] = "return debug.getregistry()",
    ["os"] = "return require('os')", ["io"] = "return io.open('/etc/passwd')",
    ["files by require"] = "return require('lib.../../etc/passwd')",
    ["_G"] = "return _G.os", ["_ENV"] = "_ENV.x = 1", ["package"] = "return package.loaded",
    ["the collector"] = "collectgarbage('stop')", ["rawset"] = "rawset(c, 'index', 1)",
    ["the metatable of texts"] = "getmetatable('').__index = nil",
    ["a new global"] = "x = 1", ["a changed library"] = "string.upper = nil error('done')",
    ["a changed cluster"] = "c.index = 7", ["a method of the view without its object"] = "c.members({})",
  })
end)

describe("bytecode as a policy (F41)", function()
  it("does not load", function()
    local bytes = string.dump(load("return { plan = function() return {} end }"))
    local ok, e = pcall(veena.try, veena.policy{ source = bytes }, cluster)
    assert.is_false(ok)
    assert.equal("load", e.kind)
    is_unharmed()
  end)
end)

describe("what is no answer is a fault:", function()
  each(REFUSED, {
    ["a number"] = "return 7", ["nothing"] = "return", ["a text"] = "return 'x'",
    ["a record"] = "return { topic = 't' }", ["a list of numbers"] = "return { 1, 2 }",
    ["a partition that is NaN"] = "return { { topic = 't', partition = 0 / 0, to = 'b' } }",
    ["a partition with a fraction"] = "return { { topic = 't', partition = 0.5, to = 'b' } }",
    ["a partition as text"] = "return { { topic = 't', partition = '0', to = 'b' } }",
    ["a partition without end"] = "return { { topic = 't', partition = 1 / 0, to = 'b' } }",
    ["a target that is a table"] = "return { { topic = 't', partition = 0, to = {} } }",
    ["a field nobody knows"] = "return { { topic = 't', partition = 0, to = 'b', quick = true } }",
    ["more intents than are taken"] =
      "local o = {} for i = 1, 20000 do o[i] = { topic = 't', partition = 0, to = 'b' } end return o",
  }, "plan")

  it("an answer about a member that is not a word", function()
    for _, body in ipairs{ "return 1", "return 'alive'", "return {}", "return true" } do
      assert.has_error(function()
        veena.try(veena.policy{ source = ("return { judge = function() %s end }"):format(body) }, cluster,
          { member = "a" })
      end)
    end
  end)

  it("an unknown member is refused, not a fault", function()
    local p = veena.policy{ source = [[return { plan = function()
      return { { topic = "t", partition = 0, to = "zz" } } end }]] }
    assert.equal("member_not_found", veena.try(p, cluster).refused[1].code)
    p = veena.policy{ source = "return { place = function() return { [1] = 'zz' } end }" }
    assert.equal("member_not_found", veena.try(p, cluster, { topic = "t", partitions = { 1 } }).refused[1].code)
    p = veena.policy{ source = ("return { plan = function() return { { topic = 't', partition = 0, to = %q } } end }")
      :format(("z"):rep(5000)) }
    assert.equal("member_not_found", veena.try(p, cluster).refused[1].code)
  end)

  it("a reason that is too long is cut", function()
    local p = veena.policy{ source = [[return { plan = function()
      return { { topic = "t", partition = 0, to = "b", reason = ("r"):rep(60000) } }, ("s"):rep(60000) end }]] }
    local r = veena.try(p, cluster)
    assert.equal(256, #r.intents[1].reason)
  end)
end)

describe("memory (F42)", function()
  it("stays within the budget, and is given back", function()
    local function resident_kb()
      local file = assert(io.open("/proc/self/status"))
      local kb = tonumber(file:read("a"):match("VmRSS:%s+(%d+)"))
      file:close()
      return kb
    end
    collectgarbage()
    local before = resident_kb()
    for i = 1, 20 do
      fault_of(("local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t .. %d end"):format(i))
    end
    for i = 1, 300 do -- texts that differ leave nothing either
      local p = veena.policy{
        source = ("return { plan = function() return {}, '%d' end } -- %s"):format(i, ("x"):rep(3000)),
      }
      veena.try(p, cluster)
    end
    collectgarbage()
    -- The address sanitizer keeps freed memory back, 256 MiB of it, and what it knows of it besides.
    local kept_kb = (os.getenv("LD_PRELOAD") or ""):find("asan", 1, true) and 384 * 1024 or 0
    assert(resident_kb() - before < 70 * 1024 * 1.1 + kept_kb, "grew by " .. resident_kb() - before .. " KiB")
  end)
end)
