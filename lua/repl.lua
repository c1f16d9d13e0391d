-- The REPL: the command's verbs as Lua functions, a terminal that helps, one session that outlives its calls.

local client = require "veena.client"
local edit = require "veena.edit"
local http = require "veena.http"
local json = require "veena.json"
local options = require "veena.options"
local output = require "veena.output"
local term = require "veena.term"
local verbs = require "veena.verbs"
local version = require "veena.version"

local repl = {}

local HISTORY = ".veena_history"
local PLURAL_LIMIT = 1000 -- records of a list that are shown

-- ---- verbs as functions ----

-- `f("a", "b", { option = value })` as the call that options.read_verb makes of words.
local function read_call(verb, global, ...)
  local words = {}
  for _, value in ipairs{ ... } do
    if type(value) == "table" then
      for name, v in pairs(value) do
        if type(name) == "number" then
          words[#words + 1] = tostring(v)
        elseif v == true then
          words[#words + 1] = "--" .. name:gsub("_", "-")
        elseif v ~= false then
          local text = type(v) == "table" and json.encode(v) or tostring(v)
          words[#words + 1] = ("--%s=%s"):format((name:gsub("_", "-")), text)
        end
      end
    else
      words[#words + 1] = tostring(value)
    end
  end
  local call, wrong = options.read_verb(verb, words)
  if not call then
    client.fail(2, ("%s: %s; help%q says how"):format(verb.name, wrong, verb.name))
  end
  call.global = global
  return call
end

local Verb = {}
Verb.__call = function(self, ...)
  self.run(...)
end
Verb.__tostring = function(self)
  return ("%s: %s; help(%s) says more"):format(self.shown, self.about, self.shown)
end

local function verb_function(session, verb)
  local shown = verb.name:gsub(" ", "."):gsub("-", "_")
  return setmetatable({
    verb = verb, shown = shown, about = verb.about,
    run = function(...)
      if verb.raw then
        client.fail(2, ("%s: only as a command, `veena %s`"):format(verb.name, verb.name))
      end
      verb.run(session.client, read_call(verb, session.global, ...))
    end,
  }, Verb)
end

-- `topics create` is topics.create; what a group does alone is its alias: topics() is `topics list`.
local function add_verbs(session, env)
  for _, verb in ipairs(verbs.all()) do
    local f = verb_function(session, verb)
    local group, word = verb.name:match("^(%S+) (.+)$")
    if group then
      group, word = group:gsub("-", "_"), word:gsub("[- ]", "_")
      env[group] = getmetatable(env[group]) == Verb and env[group] or setmetatable({ shown = group, about = "" }, Verb)
      rawset(env[group], word, f)
      if verb.alias == verb.name:match("^%S+") or not env[group].run then
        env[group].run, env[group].verb, env[group].about = f.run, verb, verb.about
      end
    else
      local name = verb.name:gsub("-", "_")
      env[name] = env[name] and setmetatable({ run = f.run, verb = verb, shown = name, about = verb.about },
        Verb) or f
    end
  end
end

-- ---- records and lists ----

local Record, List = {}, {}

-- Fields of the record win over methods of the same name; call reaches those.
Record.__index = function(self, key)
  local value = rawget(self, "record")[key]
  if value ~= nil then
    return value
  end
  return rawget(self, "methods")[key]
end

local function scalar(value)
  if type(value) ~= "table" then
    return value == json.null and "-" or tostring(value)
  end
  return json.encode(value)
end

function Record.__repl(self)
  local facts = {}
  for name, value in pairs(self.record) do
    facts[#facts + 1] = { name, scalar(value) }
  end
  table.sort(facts, function(a, b) return a[1] < b[1] end)
  output.facts(facts)
end
Record.__name = "record"

local function record_new(record, methods)
  local self = setmetatable({ record = record, methods = methods }, Record)
  methods.call = function(r, name, ...)
    local f = methods[name]
    if not f then
      client.fail(2, ("no method %q"):format(tostring(name)))
    end
    return f(r, ...)
  end
  return self
end

-- Pages are fetched as they are read: `for i, t in ipairs(topics())`, `#topics()`, `topics()[3]`.
local function fetch(self, want)
  while not self.done and (not want or #self.items < want) do
    local page = self.session.client:call("GET", client.path(self.path, self.query))
    for _, record in ipairs(page[self.plural]) do
      self.items[#self.items + 1] = self.make(record)
    end
    self.query.page_token = page.next_page_token
    self.done = not page.next_page_token or page.next_page_token == ""
  end
end
List.__index = function(self, key)
  if math.type(key) == "integer" then
    fetch(self, key)
    return self.items[key]
  end
end
List.__len = function(self)
  fetch(self)
  return #self.items
end
List.__name = "list"
function List.__repl(self)
  fetch(self, PLURAL_LIMIT)
  local rows = {}
  for i = 1, math.min(#self.items, PLURAL_LIMIT) do
    local row = {}
    for k, field in ipairs(self.fields) do
      local value = self.items[i].record[field]
      row[k] = value ~= nil and scalar(value) or nil
    end
    rows[i] = row
  end
  local titles = {}
  for k, field in ipairs(self.fields) do
    titles[k] = field:upper()
  end
  output.table(titles, rows)
  if not self.done then
    print("and more: read on by index, as topics()[" .. #self.items + 1 .. "]")
  end
end

local function list_new(session, path, query, plural, fields, make)
  return setmetatable({ session = session, path = path, query = query or {}, plural = plural, fields = fields,
    make = make, items = {} }, List)
end

local function topic_methods(session, name)
  local c = session.client
  local path = "/v1/topics/" .. http.escape(name)
  return {
    alter = function(_, change)
      return session.topic((c:call("PATCH", path, change)).name)
    end,
    delete = function(_)
      verbs.find("topics delete").run(c, { args = { name }, options = {}, global = session.global })
    end,
    assignments = function(_)
      return list_new(session, path .. "/assignments", {}, "assignments",
        { "partition", "state", "owner_id", "target_id", "version" }, function(r) return record_new(r, {}) end)
    end,
  }
end

local function add_records(session, env)
  function session.topic(name)
    local record = session.client:call("GET", "/v1/topics/" .. http.escape(name))
    return record_new(record, topic_methods(session, name))
  end
  env.topic = session.topic
  function env.member(id)
    for _, m in ipairs(session.client:call("GET", "/v1/cluster/members").members) do
      if m.id == id then
        return record_new(m, {})
      end
    end
    client.fail(1, ("no member %q; members() lists them"):format(tostring(id)))
  end
  env.topics.run = function(query)
    return list_new(session, "/v1/topics", type(query) == "table" and query or {}, "topics",
      { "name", "partitions", "retention_ms", "role", "labels" }, function(t)
        return record_new(t, topic_methods(session, t.name))
      end)
  end
  env.members.run = function(query)
    return list_new(session, "/v1/cluster/members", type(query) == "table" and query or {}, "members",
      { "id", "kind", "status", "placeable", "draining", "owned_partitions", "addr" },
      function(m) return record_new(m, {}) end)
  end
  Verb.__call = function(self, ...)
    return self.run(...)
  end
end

-- ---- help ----

local INTRO = [[
Every command is a function: topics(), topics.create("orders", { partitions = 3 }),
why"orders/3", watch{ initial = true }. A record has fields and methods:
t = topic"orders"  t.retention_ms  t:alter{ retention_ms = 0 }  t:delete()
TAB completes, an unfinished line goes on, Ctrl-C stops a call, Ctrl-D leaves.
]]

local function help_of(what)
  local verb = type(what) == "table" and what.verb or type(what) == "string" and verbs.find((what:gsub("%.", " ")))
  if getmetatable(what) == Verb and not verb then
    for name in pairs(what) do
      if type(what[name]) == "table" then
        print(tostring(what[name]))
      end
    end
    return
  end
  require("veena.help").print(verb and { table.unpack((function()
    local words = {}
    for word in verb.name:gmatch("%S+") do
      words[#words + 1] = word
    end
    return words
  end)()) } or { tostring(what) })
  if verb and not verb.raw then
    local shown = verb.name:gsub(" ", "."):gsub("-", "_")
    local arg = verb.args and verb.args[1] and ("%q"):format((verb.args[1]:gsub("[%[%]]", ""))) or ""
    print(("here:    %s(%s)"):format(shown, arg))
  end
end

local function add_help(env)
  env.help = setmetatable({ shown = "help", about = "this, or of one function",
    run = function(what)
      if what ~= nil then
        return setmetatable({ __what = what }, { __repl = function() help_of(what) end, __name = "help" })
      end
      return setmetatable({}, { __name = "help", __repl = function()
      print((INTRO:gsub("\n$", "")))
      local rows = {}
      for _, verb in ipairs(verbs.all()) do
        rows[#rows + 1] = { (verb.name:gsub(" ", "."):gsub("-", "_")), verb.about, (verb.example:gsub("^veena ", "")) }
      end
      output.table({ "FUNCTION", "WHAT", "EXAMPLE OF THE COMMAND" }, rows)
      end })
    end }, Verb)
end

-- ---- completion ----

local function names_of(session, path, plural, field, prefix)
  local ok, page = pcall(session.client.call, session.client, "GET",
    client.path(path, plural == "topics" and { prefix = prefix ~= "" and prefix or nil, limit = 50 } or {}))
  local out = {}
  for _, record in ipairs(ok and page[plural] or {}) do
    if record[field]:sub(1, #prefix) == prefix then
      out[#out + 1] = record[field]
    end
  end
  return out
end

local MEMBERS_OF = { member = true, members = true, decommission = true, forget = true, servers = true }

-- A name inside quotes is the cluster's; any other is a field or a function.
local function candidates(session, env, text)
  local before, quoted = text:match("([%w_.]*)[%s(]*[\"']([^\"']*)$")
  if quoted then
    if MEMBERS_OF[before:match("^[%w_]*")] then
      return names_of(session, "/v1/cluster/members", "members", "id", quoted), quoted
    end
    return names_of(session, "/v1/topics", "topics", "name", quoted), quoted
  end
  local path, sep, last = text:match("([%a_][%w_.]*)([.:])([%w_]*)$")
  local scope = env
  if path then
    for name in path:gmatch("[^.]+") do
      scope = type(scope) == "table" and scope[name] or nil
    end
  else
    last = text:match("([%a_][%w_]*)$") or ""
  end
  if type(scope) ~= "table" then
    return {}, last
  end
  local out, seen = {}, {}
  local function add(t)
    for name, value in pairs(t) do
      local fits = sep ~= ":" or type(value) == "function"
      if type(name) == "string" and name:sub(1, #last) == last and not seen[name] and fits
        and not name:find("^_") then
        seen[name] = true
        out[#out + 1] = name
      end
    end
  end
  if getmetatable(scope) == Record then
    if sep ~= ":" then add(scope.record) end
    add(rawget(scope, "methods"))
  elseif getmetatable(scope) == Verb then
    for name, value in pairs(scope) do
      if getmetatable(value) == Verb and name:sub(1, #last) == last then
        out[#out + 1] = name
      end
    end
  else
    add(scope)
    if scope == env and last ~= "" then
      add(_G)
    end
  end
  table.sort(out)
  return out, last
end

local function common_prefix(list)
  local prefix = list[1] or ""
  for _, text in ipairs(list) do
    while text:sub(1, #prefix) ~= prefix do
      prefix = prefix:sub(1, -2)
    end
  end
  return prefix
end

local function completer(session, env)
  return function(text)
    local list, typed = candidates(session, env, text)
    return common_prefix(list):sub(#typed + 1), list
  end
end

-- ---- reading, running, printing ----

-- What does not fit the screen goes through a pager; Ctrl-C ends that, too.
local function paged(f, ...)
  local height = term.height()
  if not (height and term.is_terminal("stdin")) then
    return f(...)
  end
  local lines, plain = {}, print
  _G.print = function(...) -- luacheck: ignore 122
    local parts = table.pack(...)
    for i = 1, parts.n do
      parts[i] = tostring(parts[i])
    end
    lines[#lines + 1] = table.concat(parts, "\t")
  end
  local ok, e = pcall(f, ...)
  _G.print = plain -- luacheck: ignore 122
  if not ok then
    error(e, 0)
  end
  local text = table.concat(lines, "\n")
  local _, breaks = text:gsub("\n", "")
  local pager = breaks + 2 > height and io.popen(os.getenv("PAGER") or "less -FRX", "w")
  if pager then
    pager:write(text, "\n")
    pager:close()
  elseif #lines > 0 then
    print(text)
  end
end

local function show(value)
  local mt = type(value) == "table" and getmetatable(value)
  if mt and mt.__repl then
    mt.__repl(value)
  elseif type(value) == "table" and not (mt and mt.__tostring) then
    local ok, text = pcall(json.encode, value)
    print(ok and text or tostring(value))
  else
    print(output.clean(value))
  end
end

-- One line with what to do; nothing of Lua's own stack.
local function complain(e)
  if type(e) == "table" and e.interrupted then
    io.stderr:write("stopped\n")
  elseif type(e) == "table" and e.message then
    io.stderr:write(e.message, "\n")
  else
    io.stderr:write((tostring(e):gsub("^%[string \"[^\n]-\"%]:", "line "):gsub("\n.*", "")), "\n")
  end
end

-- An expression's value is printed, so it is tried first. nil and true: the text is not whole yet.
local function compile(text, env)
  local chunk = load("return " .. text, "=input", "t", env)
  if chunk then
    return chunk
  end
  local why
  chunk, why = load(text, "=input", "t", env)
  return chunk, why, why and why:find("<eof>", 1, true) ~= nil
end

local function run(chunk)
  local results = table.pack(edit.call(chunk))
  if not results[1] then
    complain(results[2])
    return type(results[2]) == "table" and results[2].exit or 1
  end
  for i = 2, results.n do
    local shown = table.pack(edit.call(paged, show, results[i]))
    if not shown[1] then
      complain(shown[2])
      return 1
    end
  end
  return 0
end

local function environment(global)
  local session = { client = client.new(global), global = global }
  local env = setmetatable({}, { __index = _G })
  env.CLIENT = session.client
  add_verbs(session, env)
  add_records(session, env)
  add_help(env)
  return env, session
end

local function from_terminal(env, session)
  local home = os.getenv("HOME")
  edit.open(home and home .. "/" .. HISTORY or nil)
  print(("veena %s at %s; help() helps, Ctrl-D leaves"):format(version, session.client.urls[1]))
  local complete = completer(session, env)
  local pending = ""
  while true do
    local line, why = edit.read(pending == "" and "> " or ">> ", complete)
    if line then
      local text = pending == "" and line or pending .. "\n" .. line
      local chunk, wrong, is_unfinished = compile(text, env)
      if is_unfinished then
        pending = text
      else
        pending = ""
        if text:find("%S") then
          edit.remember((text:gsub("\n", " ")))
        end
        if chunk then
          run(chunk)
        else
          complain(wrong)
        end
      end
    elseif why == "interrupted" then
      pending = ""
    else
      print()
      return 0
    end
  end
end

-- Standard input as a script, statement by statement as they become whole; the first failure ends it.
local function from_pipe(env)
  local pending = ""
  for line in io.lines() do
    pending = pending == "" and line or pending .. "\n" .. line
    local chunk, wrong, is_unfinished = compile(pending, env)
    if not is_unfinished then
      pending = ""
      if not chunk then
        complain(wrong)
        return 1
      end
      local code = run(chunk)
      if code ~= 0 then
        return code
      end
    end
  end
  if pending:find("%S") then
    complain("the last statement is not finished")
    return 1
  end
  return 0
end

function repl.start(global)
  local env, session = environment(global)
  if term.is_terminal("stdin") and term.is_terminal("stdout") then
    return from_terminal(env, session)
  end
  return from_pipe(env)
end

-- `veena -e 'CHUNK'`: prints what it returns.
function repl.evaluate(global, text)
  local env = environment(global)
  local chunk, wrong = compile(text, env)
  if not chunk then
    complain(wrong)
    return 2
  end
  return run(chunk)
end

return repl
