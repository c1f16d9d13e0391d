-- The verbs about other clusters, and what is done to children on them. verbs.lua hands in how verbs are made.
--
-- The password of a remote is never a word of the command line: it comes from a file or from standard input.

local client = require "veena.client"
local http = require "veena.http"
local output = require "veena.output"

local EXIT_FAILED, EXIT_USAGE = 1, 2

local LIMITS = {
  { name = "max-in-flight", kind = "integer", help = "requests to it at once, on each node" },
  { name = "request-timeout-ms", kind = "integer", help = "how long one request may take" },
  { name = "idle-conn-timeout-ms", kind = "integer", help = "how long an idle connection is kept" },
  { name = "conn-max-age-ms", kind = "integer", help = "how old a connection may get" },
  { name = "check-interval-ms", kind = "integer", help = "how often each target is looked at" },
  { name = "compression", kind = "text", help = "none or zstd" },
}
local FIELDS = {
  { name = "url", kind = "text", help = "https://HOST[:PORT][/PATH]" },
  { name = "username", kind = "text", help = "who this cluster is there" },
  { name = "remote-password-file", kind = "text", help = "its password there is this file's first line" },
  { name = "remote-password-stdin", kind = "flag", help = "it is the first line of standard input" },
  { name = "ca-file", kind = "text", help = "certificates (PEM) that alone vouch for it" },
}

local function with(...)
  local all = {}
  for _, list in ipairs{ ... } do
    table.move(list, 1, #list, #all + 1, all)
  end
  return all
end

local function remote_path(name, what)
  return "/v1/remotes/" .. http.escape(name) .. (what or "")
end

local function child_path(call, what)
  return ("/v1/topics/%s/children/%s/%s"):format(http.escape(call.args[1]), http.escape(call.args[2]), what)
end

local function read_file(option, path, how)
  local file, why = io.open(path, "rb")
  if not file then
    client.fail(EXIT_USAGE, ("--%s: %s"):format(option, why))
  end
  local text = file:read(how) or ""
  file:close()
  return text
end

local function read_password(call)
  local path, stdin = call.options["remote-password-file"], call.options["remote-password-stdin"]
  if path and stdin then
    client.fail(EXIT_USAGE, "give --remote-password-file or --remote-password-stdin, not both")
  end
  if stdin and call.global["password-stdin"] then
    client.fail(EXIT_USAGE, "standard input holds one password: --password-stdin or --remote-password-stdin")
  end
  if path then
    return read_file("remote-password-file", path, "l")
  end
  return stdin and (io.read("l") or "") or nil
end

-- What the options say, as the body of a request.
local function read_fields(c, call)
  c:password() -- first: both may come from standard input, and this one is asked for
  local o = call.options
  local body = { url = o.url, username = o.username, password = read_password(call) }
  if o["ca-file"] then
    body.ca_pem = read_file("ca-file", o["ca-file"], "a")
  elseif o["no-ca"] then
    body.ca_pem = ""
  end
  for _, limit in ipairs(LIMITS) do
    if o[limit.name] ~= nil then
      body.limits = body.limits or {}
      body.limits[limit.name:gsub("-", "_")] = o[limit.name]
    end
  end
  return body
end

local function show_one(remote)
  local rows = {
    { "name", remote.name }, { "url", remote.url }, { "username", remote.username },
    { "password", ("%s set by %s at %s"):format(remote.password.fingerprint, remote.password.set_by,
      remote.password.set_at) },
    { "key version", remote.password.key_version }, { "revision", remote.revision },
    { "links", remote.links and #remote.links > 0 and table.concat(remote.links, " ") or nil },
  }
  output.table({ "FIELD", "VALUE" }, rows)
end

local function list(c, call, answer_with)
  local body, answer = c:call("GET", "/v1/remotes")
  answer_with(call, body, answer, function()
    local rows = {}
    for i, r in ipairs(body.remotes) do
      rows[i] = { r.name, r.url, r.username, r.revision, #r.links }
    end
    output.table({ "NAME", "URL", "USER", "REVISION", "LINKS" }, rows)
  end)
end

local function get(c, call, answer_with)
  local body, answer = c:call("GET", remote_path(call.args[1]))
  answer_with(call, body, answer, function()
    show_one(body)
  end)
end

local function create(c, call, answer_with)
  local fields = read_fields(c, call)
  fields.name = call.args[1]
  if not fields.password then
    client.fail(EXIT_USAGE, "a remote needs a password; give --remote-password-file or --remote-password-stdin")
  end
  local body, answer = c:call("POST", "/v1/remotes", fields)
  answer_with(call, body, answer, function()
    print(("created remote %s"):format(body.name))
  end)
end

local function alter(c, call, answer_with)
  local fields = read_fields(c, call)
  if not next(fields) then
    client.fail(EXIT_USAGE, "nothing to change; `veena help remotes alter` lists what there is")
  end
  local body, answer = c:call("PATCH", remote_path(call.args[1]), fields)
  answer_with(call, body, answer, function()
    print(("altered remote %s, revision %d"):format(body.name, body.revision))
  end)
end

local function reencrypt(c, call, answer_with)
  local body, answer = c:call("POST", "/v1/cluster/reencrypt-remotes")
  answer_with(call, body, answer, function()
    print(("%d sealed anew, %d were current, %d failed"):format(#body.reencrypted, #body.already_current, #body.failed))
    for _, f in ipairs(body.failed) do
      print(("  %s: %s"):format(f.name, f.reason))
    end
  end)
  if #body.failed > 0 then
    client.fail(EXIT_FAILED, "some passwords could not be sealed anew")
  end
end

local function change_child(what, done, body_of)
  return function(c, call, answer_with)
    local body, answer = c:call("POST", child_path(call, what), body_of(call.options))
    answer_with(call, body, answer, function()
      print(("%s %s of %s"):format(done, call.args[2], call.args[1]))
    end)
  end
end

return function(verb, shared)
  local function add(name, args, about, example, run, options)
    verb{
      name = name, args = args, options = options, about = about, example = example,
      run = function(c, call)
        run(c, call, shared.answer_with)
      end,
    }
  end
  add("children pause", { "PARENT", "CHILD" }, "stops sending to a child on another cluster",
    "veena children pause orders orders-eu --reason maintenance",
    change_child("pause", "paused", function(o)
      return { reason = o.reason or "" }
    end),
    { { name = "reason", kind = "text", help = "shown with the child" } })
  add("children resume", { "PARENT", "CHILD" }, "goes on sending to a paused child",
    "veena children resume orders orders-eu",
    change_child("resume", "resumed", function(o)
      return { accept_target = o["accept-target"] or false }
    end),
    { { name = "accept-target", kind = "flag", help = "also when its topic there was made anew" } })
  add("children skip", { "PARENT", "CHILD" }, "gives up the one record that a child is stuck on",
    "veena children skip orders orders-eu --partition 2 --offset 7041",
    change_child("skip", "noted the skip for", function(o)
      if not o.partition or not o.offset then
        client.fail(EXIT_USAGE, "both --partition and --offset are needed")
      end
      return { partition = o.partition, offset = o.offset }
    end),
    {
      { name = "partition", kind = "integer", help = "of the parent" },
      { name = "offset", kind = "integer", help = "of the record" },
    })
  add("remotes list", {}, "clusters that children may be on", "veena remotes list", list)
  add("remotes get", { "NAME" }, "one of them", "veena remotes get eu", get)
  add("remotes create", { "NAME" }, "lets children be on another cluster",
    "veena remotes create eu --url https://eu.example.com --username repl --remote-password-file eu.password", create,
    with(FIELDS, LIMITS))
  add("remotes alter", { "NAME" }, "changes a remote; another url, username or CA needs its password",
    "veena remotes alter eu --max-in-flight 32", alter,
    with(FIELDS, { { name = "no-ca", kind = "flag", help = "the system's certificates vouch for it" } }, LIMITS))
  add("remotes delete", { "NAME" }, "forgets a remote and its password", "veena remotes delete eu",
    function(c, call)
      local name = call.args[1]
      shared.confirm(call, ("delete remote %q and its password?"):format(name))
      c:call("DELETE", remote_path(name, call.options.force and "?force=true"))
      if not call.global.json then
        print(("deleted remote %s"):format(name))
      end
    end,
    { { name = "force", kind = "flag", help = "also while children are on it: they hold" } })
  add("remotes reencrypt", {}, "seals all passwords with the new cluster secret", "veena remotes reencrypt", reencrypt)
end
