-- The `veena` command: reads the options, runs a verb, returns the exit code.
-- 0 done, 1 refused or failed, 2 usage, 3 no node reachable, 4 the outcome of a write is unknown.

local client = require "veena.client"
local help = require "veena.help"
local options = require "veena.options"
local repl = require "veena.repl"
local term = require "veena.term"
local verbs = require "veena.verbs"
local version = require "veena.version"

local EXIT_USAGE = 2

local function complain(message)
  io.stderr:write("veena: ", message, "\n")
end

-- The verb is the longest run of leading words that names one: `topics create`, `status`. An alias is a group's name:
-- a word behind it that takes no option's form was meant to be one of the group.
local function find_verb(words)
  for n = math.min(#words, 2), 1, -1 do
    local name = table.concat(words, " ", 1, n)
    local verb = verbs.find(name)
    if verb then
      local is_slip = verb.alias == name and words[n + 1] and words[n + 1]:sub(1, 1) ~= "-"
      return not is_slip and verb or nil, n
    end
  end
end

local function run(args)
  local global, rest, problem = options.read_global(args)
  if not global then
    complain(problem)
    return EXIT_USAGE
  end
  if global.version then
    print("veena " .. version)
    return 0
  end
  if rest[1] == "-e" then
    if #rest ~= 2 then
      complain("-e takes one chunk of Lua")
      return EXIT_USAGE
    end
    return repl.evaluate(global, rest[2])
  end
  if rest[1] == "repl" or (#rest == 0 and not global.help and term.is_terminal("stdin")) then
    return repl.start(global)
  end
  if global.help or #rest == 0 then
    help.print(global.help and rest or {})
    return #rest == 0 and not global.help and EXIT_USAGE or 0
  end
  if rest[1] == "help" then
    return help.print({ table.unpack(rest, 2) }) and 0 or EXIT_USAGE
  end
  local verb, words = find_verb(rest)
  if verb and verb.raw then
    return verb.raw(global, { table.unpack(rest, words + 1) })
  end
  if not verb then
    complain(help.unknown(rest))
    return EXIT_USAGE
  end
  local call, wrong = options.read_verb(verb, { table.unpack(rest, words + 1) })
  if not call then
    complain(verb.name .. ": " .. wrong .. "\nusage: veena " .. help.usage(verb))
    return EXIT_USAGE
  end
  call.global = global
  local ok, code = pcall(verb.run, client.new(global), call)
  if ok then
    return code or 0
  end
  if type(code) == "table" and code.exit then
    if global.json and code.answer then
      io.write(code.answer.body)
    end
    if code.message then
      complain(code.message)
    end
    return code.exit
  end
  error(code, 0)
end

return run(...)
