-- Options: the global ones before the verb, and each verb's own behind it. A wrong one is named, with what is allowed.

local options = {}

local GLOBAL = {
  url = "text", user = "text", cacert = "text", ["password-file"] = "text",
  ["password-stdin"] = "flag", json = "flag", yes = "flag", help = "flag", version = "flag",
}
local ALIAS = { ["-h"] = "--help", ["-V"] = "--version", ["-y"] = "--yes" }

-- Splits `--name=value`, `--name value` and `--flag`. Returns name, value and the index of the next word.
local function read_option(args, i, kinds)
  local word = ALIAS[args[i]] or args[i]
  local name, value = word:match("^%-%-([%w-]+)=(.*)$")
  name = name or word:match("^%-%-([%w-]+)$")
  local kind = name and kinds[name]
  if not kind then
    return nil, ("unknown option %s"):format(args[i])
  end
  if kind == "flag" then
    if value then
      return nil, ("option --%s takes no value"):format(name)
    end
    return name, true, i + 1
  end
  if value == nil then
    value = args[i + 1]
    if value == nil then
      return nil, ("option --%s needs a value"):format(name)
    end
    i = i + 1
  end
  if kind == "integer" then
    local number = math.tointeger(tonumber(value))
    if not number or not value:match("^%-?%d+$") then
      return nil, ("option --%s is %q, a whole number is expected"):format(name, value)
    end
    value = number
  elseif kind == "boolean" then
    if value ~= "true" and value ~= "false" then
      return nil, ("option --%s is %q, true or false is expected"):format(name, value)
    end
    value = value == "true"
  end
  return name, value, i + 1
end

local function read_password(global)
  if global["password-file"] then
    local file, why = io.open(global["password-file"], "r")
    if not file then
      return nil, ("--password-file: %s"):format(why)
    end
    local line = file:read("l") or ""
    file:close()
    return line
  end
  if global["password-stdin"] then
    return io.read("l") or ""
  end
  return os.getenv("VEENA_PASSWORD")
end

-- Global options may stand before the verb or behind it; returns them and the other words in order.
function options.read_global(args)
  local global, rest = {}, {}
  local i = 1
  while i <= #args do
    local word = ALIAS[args[i]] or args[i]
    local name = word:match("^%-%-([%w-]+)")
    if name and GLOBAL[name] then
      local key, value, after = read_option(args, i, GLOBAL)
      if not key then
        return nil, nil, value
      end
      global[key] = value
      i = after
    elseif word:sub(1, 1) == "-" and #rest == 0 and word ~= "-e" then
      return nil, nil, ("unknown option %s; `veena help` lists them"):format(args[i])
    else
      rest[#rest + 1] = args[i]
      i = i + 1
    end
  end
  local password, problem = read_password(global)
  if problem then
    return nil, nil, problem
  end
  global.password = password
  global.user = global.user or os.getenv("VEENA_USER")
  global.url = global.url or os.getenv("VEENA_URL") or "http://127.0.0.1:7942"
  if not global.url:find("[^,%s]") then
    return nil, nil, "--url (or VEENA_URL) names no node; write http://HOST:PORT"
  end
  return global, rest
end

-- A verb's own words and options: { args = {...}, options = {...} }, or nil and what is wrong.
function options.read_verb(verb, words)
  local kinds = {}
  for _, option in ipairs(verb.options or {}) do
    kinds[option.name] = option.kind
  end
  local call = { args = {}, options = {} }
  local i = 1
  while i <= #words do
    if words[i]:sub(1, 2) == "--" then
      local name, value, after = read_option(words, i, kinds)
      if not name then
        return nil, value
      end
      if kinds[name] == "list" then
        value = table.move({ value }, 1, 1, #(call.options[name] or {}) + 1, call.options[name] or {})
      end
      call.options[name] = value
      i = after
    else
      call.args[#call.args + 1] = words[i]
      i = i + 1
    end
  end
  local least, most = verb.args and #verb.args or 0, verb.args and #verb.args or 0
  for _, arg in ipairs(verb.args or {}) do
    if arg:sub(1, 1) == "[" then
      least = least - 1
    end
  end
  -- "X..." stands for one word or more, "[X...]" for any number.
  local final = verb.args and verb.args[#verb.args] or ""
  if final:find("...", 1, true) then
    most = math.huge
  end
  if #call.args < least then
    return nil, ("%s is missing"):format(verb.args[#call.args + 1])
  elseif #call.args > most then
    return nil, ("%q is one word too many"):format(call.args[most + 1])
  end
  return call
end

return options
