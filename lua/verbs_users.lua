-- The verbs about users: who there is, what they may do, their passwords. verbs.lua hands in how verbs are made.
--
-- A password is never a word of the command line, where others on the machine could read it: it is asked for on the
-- terminal, or comes from a file or from standard input.

local client = require "veena.client"
local http = require "veena.http"
local json = require "veena.json"
local output = require "veena.output"
local term = require "veena.term"

local EXIT_FAILED, EXIT_USAGE = 1, 2

local PASSWORD_OPTIONS = {
  { name = "user-password-file", kind = "text", help = "the user's password is this file's first line" },
  { name = "user-password-stdin", kind = "flag", help = "it is the first line of standard input" },
}
local GRANT_OPTION = {
  name = "grant", kind = "list", help = "ACTION, or ACTION:PATTERN[,PATTERN...]; repeat it for more",
}

local function user_path(name, what)
  return "/v1/users/" .. http.escape(name) .. (what and "/" .. what or "")
end

-- ---- grants ----

-- "create:a*,b" -> { action = "create", patterns = { "a*", "b" } }; what is allowed is the node's to say.
local function read_grants(texts)
  local grants = json.array{}
  for i, text in ipairs(texts or {}) do
    local action, list = text:match("^([^:]+):?(.*)$")
    if not action then
      client.fail(EXIT_USAGE, ("--grant is %q, ACTION or ACTION:PATTERN[,PATTERN...] is expected"):format(text))
    end
    local patterns = {}
    for pattern in list:gmatch("[^,]+") do
      patterns[#patterns + 1] = pattern
    end
    grants[i] = { action = action, patterns = #patterns > 0 and patterns or nil }
  end
  return grants
end

local function show_grants(user)
  local texts = {}
  for i, grant in ipairs(user.grants or {}) do
    local patterns = table.concat(grant.patterns or {}, ",")
    texts[i] = patterns == "" and grant.action or grant.action .. ":" .. patterns
  end
  if user.root then
    table.insert(texts, 1, "root")
  end
  return #texts > 0 and table.concat(texts, " ") or nil
end

local function time_of(ms)
  return ms and ms > 0 and os.date("!%Y-%m-%d %H:%M:%S UTC", ms // 1000) or nil
end

-- ---- passwords ----

local function first_line(file)
  return file:read("l") or ""
end

local function ask_twice(name)
  local one, why = term.secret(("new password of %s: "):format(name))
  if not one then
    client.fail(EXIT_USAGE, (why or "no password was given")
      .. "; give --user-password-file or --user-password-stdin")
  end
  if one ~= term.secret("once more: ") then
    client.fail(EXIT_FAILED, "the two passwords differ; nothing was done")
  end
  return one
end

-- One's own comes first, if it must be asked for: in the order in which people think of them.
local function read_password(c, call, name)
  c:password()
  local path = call.options["user-password-file"]
  if path and call.options["user-password-stdin"] then
    client.fail(EXIT_USAGE, "give --user-password-file or --user-password-stdin, not both")
  end
  if call.options["user-password-stdin"] and call.global["password-stdin"] then
    client.fail(EXIT_USAGE, "standard input holds one password: --password-stdin or --user-password-stdin")
  end
  if path then
    local file, why = io.open(path, "r")
    if not file then
      client.fail(EXIT_USAGE, ("--user-password-file: %s"):format(why))
    end
    local line = first_line(file)
    file:close()
    return line
  end
  return call.options["user-password-stdin"] and first_line(io.stdin) or ask_twice(name)
end

-- ---- the verbs ----

return function(verb, kit)
  verb{
    name = "users list",
    alias = "users",
    about = "who there is and what they may do",
    example = "veena users",
    run = function(c, call)
      local users, answer = c:call("GET", "/v1/users")
      kit.answer_with(call, users, answer, function()
        local rows = {}
        for i, u in ipairs(users) do
          rows[i] = { u.username, show_grants(u), time_of(u.created_at_ms) }
        end
        output.table({ "NAME", "GRANTS", "CREATED" }, rows)
      end)
    end,
  }

  verb{
    name = "users get",
    args = { "NAME" },
    about = "one user",
    example = "veena users get ann",
    run = function(c, call)
      local user, answer = c:call("GET", user_path(call.args[1]))
      kit.answer_with(call, user, answer, function(u)
        output.facts{
          { "name", u.username }, { "grants", show_grants(u) }, { "created", time_of(u.created_at_ms) },
          { "changed", time_of(u.updated_at_ms) },
        }
      end)
    end,
  }

  verb{
    name = "users create",
    args = { "NAME" },
    options = { GRANT_OPTION, table.unpack(PASSWORD_OPTIONS) },
    about = "makes a user; asks for its password",
    example = "veena users create ann --grant 'create:orders*' --grant observe",
    run = function(c, call)
      local name = call.args[1]
      local grants = read_grants(call.options.grant)
      local body = { username = name, password = read_password(c, call, name), grants = grants }
      local user, answer = c:call("POST", "/v1/users", body)
      kit.answer_with(call, user, answer, function(u)
        print(("created %s: %s"):format(u.username, show_grants(u) or "no grants"))
      end)
    end,
  }

  verb{
    name = "users grant",
    args = { "NAME" },
    options = { GRANT_OPTION, { name = "none", kind = "flag", help = "take all grants away" } },
    about = "replaces what a user may do",
    example = "veena users grant ann --grant 'produce:orders' --grant 'consume:*'",
    run = function(c, call)
      local given = call.options.grant
      if (given == nil) == (call.options.none == nil) then
        client.fail(EXIT_USAGE, "users grant: give all grants that the user shall have with --grant, or --none")
      end
      local user, answer = c:call("PUT", user_path(call.args[1], "grants"), { grants = read_grants(given) })
      kit.answer_with(call, user, answer, function(u)
        print(("%s now has: %s"):format(u.username, show_grants(u) or "no grants"))
      end)
    end,
  }

  verb{
    name = "users passwd",
    args = { "NAME" },
    options = PASSWORD_OPTIONS,
    about = "changes a password; asks for the new one",
    example = "veena --user ann users passwd ann",
    run = function(c, call)
      local name = call.args[1]
      -- Of oneself the old one is needed; it is the one that the command was given, or asks for now.
      local current = call.global.user == name and c:password() or nil
      local body = { new_password = read_password(c, call, name), current_password = current }
      c:call("PUT", user_path(name, "password"), body)
      if not call.global.json then
        print("changed the password of " .. name)
      end
    end,
  }

  verb{
    name = "users delete",
    args = { "NAME" },
    about = "removes a user; its topics fall to the admins",
    example = "veena users delete ann",
    run = function(c, call)
      local name = call.args[1]
      kit.confirm(call, ("delete user %q?"):format(name))
      c:call("DELETE", user_path(name))
      if not call.global.json then
        print("deleted " .. name)
      end
    end,
  }
end
