-- What `veena help` says, made from the verbs.

local output = require "veena.output"
local verbs = require "veena.verbs"

local help = {}

-- No line is longer than a terminal of 80 columns is wide.
local GLOBAL = [[
  --url URL[,URL...]    nodes to ask, the next one when one does not answer
                        (VEENA_URL; http://127.0.0.1:7942)
  --user NAME           with --password-file F, --password-stdin or
                        VEENA_PASSWORD (VEENA_USER)
  --cacert F            certificates to trust for https
  --json                the HTTP answer instead of tables
  --yes                 do not ask before what destroys

exit: 0 done, 1 refused or failed, 2 usage, 3 no node reachable,
      4 outcome unknown]]

local WIDTH = 80

-- `left`, then the words of `text` in what room is left beside it, line under line.
local function print_beside(left, text)
  local line, fresh = left, true
  for word in text:gmatch("%S+") do
    if not fresh and #line + 1 + #word > WIDTH then
      print(line)
      line, fresh = (" "):rep(#left), true
    end
    line, fresh = line .. (fresh and "" or " ") .. word, false
  end
  print(line)
end

local function with_args(verb)
  return table.concat({ verb.name, table.unpack(verb.args or {}) }, " ")
end

function help.usage(verb)
  return with_args(verb) .. (verb.options and " [options]" or "")
end

local function print_verb(verb)
  print("veena " .. help.usage(verb))
  print_beside("  ", verb.about)
  local width = 0
  for _, option in ipairs(verb.options or {}) do
    width = math.max(width, #option.name + (option.kind == "flag" and 0 or 2))
  end
  if width > 0 then
    print()
  end
  for _, option in ipairs(verb.options or {}) do
    local name = option.name .. (option.kind == "flag" and "" or option.kind == "integer" and " N" or " V")
    print_beside(("  --%s%s  "):format(name, (" "):rep(width - #name)), option.help)
  end
  print()
  print_beside("example: ", verb.example)
end

local function print_all()
  print("usage: veena [options] COMMAND\n")
  local width = 0
  for _, verb in ipairs(verbs.all()) do
    width = math.max(width, #with_args(verb))
  end
  for _, verb in ipairs(verbs.all()) do
    local usage = with_args(verb)
    print_beside(("  %s%s  "):format(usage, (" "):rep(width - #usage)), verb.about)
  end
  local gap = (" "):rep(math.max(width - #"help [COMMAND]", 0))
  print("  help [COMMAND]" .. gap .. "  this, one command, or `help codes`: error codes\n")
  print(GLOBAL)
end

-- The words that an answer's "code" may have, as the daemon has them.
local function print_codes()
  local rows = {}
  for i, c in ipairs(require "veena.codes") do
    rows[i] = { c.status, c.code, c.meaning }
  end
  output.table({ "STATUS", "CODE", "MEANING" }, rows)
end

-- Prints help for the words of a command, or for all. False: no such command.
function help.print(words)
  if #words == 0 then
    print_all()
    return true
  end
  if #words == 1 and words[1] == "codes" then
    print_codes()
    return true
  end
  local name = table.concat(words, " ")
  local found = verbs.find(name)
  if found and found.name == name then
    print_verb(found)
    return true
  end
  local any = false -- a group's name, `topics`, stands for all of it, though it is an alias too
  for _, verb in ipairs(verbs.all()) do
    if verb.name:sub(1, #name + 1) == name .. " " then
      if any then
        print()
      end
      print_verb(verb)
      any = true
    end
  end
  if not any then
    io.stderr:write("veena: ", help.unknown(words), "\n")
  end
  return any
end

-- A sentence about words that name no verb, with the nearest that do.
function help.unknown(words)
  local near = {}
  for _, verb in ipairs(verbs.all()) do
    if verb.name:match("^%S+") == words[1] or verb.name:sub(1, 1) == words[1]:sub(1, 1) then
      near[#near + 1] = verb.name
    end
  end
  local hint = #near > 0 and ("; did you mean %s?"):format(table.concat(near, ", ")) or "; `veena help` lists them"
  return ("no command %q%s"):format(table.concat(words, " "), hint)
end

return help
