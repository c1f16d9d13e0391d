-- The HTTP client: several URLs, one after the other when a node does not answer; errors as tables with an exit code.
--
-- A write whose bytes may have reached a node is not sent again: its outcome is unknown. A read, or a write that
-- certainly reached nobody, goes to the next URL.

local http = require "veena.http"
local json = require "veena.json"
local term = require "veena.term"

local client = {}
client.__index = client

local EXIT_FAILED, EXIT_UNREACHABLE, EXIT_UNKNOWN = 1, 3, 4
local RETRY_FOR_S = 10 -- how long 503 "none" and 429 are tried again

function client.new(global)
  local urls = {}
  for url in global.url:gmatch("[^,%s]+") do
    url = url:gsub("/+$", "")
    urls[#urls + 1] = url:match("^%a+://") and url or "http://" .. url
  end
  return setmetatable({ urls = urls, at = 1, global = global }, client)
end

-- `answer` is the HTTP answer that says the same, if there is one: --json prints it.
local function fail(exit, message, answer)
  error({ exit = exit, message = message, answer = answer }, 0)
end
client.fail = fail

-- "/v1/topics" and { prefix = "a" } -> "/v1/topics?prefix=a"; nil values are left out, keys go in order.
function client.path(path, query)
  local keys = {}
  for key in pairs(query or {}) do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  for i, key in ipairs(keys) do
    path = ("%s%s%s=%s"):format(path, i == 1 and "?" or "&", http.escape(key), http.escape(tostring(query[key])))
  end
  return path
end

-- That of --user. Where none was given and there is somebody to ask, it is asked for once, when it is first needed.
function client:password()
  local global = self.global
  if global.user and not global.password and term.is_terminal("stdin") and term.is_terminal("stderr") then
    global.password = term.secret(("password of %s: "):format(global.user))
  end
  return global.password
end

-- `headers` of a client, if set, is a list of further lines that go with each request.
function client:exchange(method, path, body)
  local headers = { "X-Veena-Client: veena", table.unpack(self.headers or {}) }
  if body then
    headers[#headers + 1] = "Content-Type: application/json"
  end
  return http.request{
    method = method,
    url = self.urls[self.at] .. path,
    body = body,
    headers = headers,
    user = self.global.user,
    password = self:password(),
    cacert = self.global.cacert,
  }
end

-- A stream: `on_body` gets the bytes as they come and ends it by false. Nothing is tried again.
function client:stream(path, on_body)
  return http.request{
    method = "GET", url = self.urls[self.at] .. path, headers = { "X-Veena-Client: veena" }, on_body = on_body,
    user = self.global.user, password = self:password(), cacert = self.global.cacert, timeout_ms = 0,
  }
end

function client:next_node()
  term.sleep(0.2)
  self.at = self.at % #self.urls + 1
end

local function explain(answer)
  local body = json.decode(answer.body)
  if type(body) ~= "table" or type(body.error) ~= "string" then
    return ("answer %d without an explanation"):format(answer.status), {}
  end
  return body.error, body
end

-- Seconds until the same request may be sent again, unchanged; nil: not in this call. Only when the node said that
-- nothing happened, and never sooner than it asks who tried too often.
local function wait_of(answer, is_read)
  if answer.status == 429 then
    return tonumber(answer.headers["retry-after"]) or 1
  elseif answer.status == 503 then
    local _, body = explain(answer)
    return (is_read and body.code == "not_ready" or body.outcome == "none") and 0.2 or nil
  end
end

-- One request. Returns the answer; every refusal and failure is an error with an exit code.
function client:send(method, path, body)
  local is_read = method == "GET" or method == "HEAD"
  local tried, until_time = 0, os.time() + RETRY_FOR_S
  while true do
    local answer, kind, message = self:exchange(method, path, body)
    local wait_s = answer and wait_of(answer, is_read)
    if answer and not (wait_s and os.time() + wait_s < until_time) then
      return answer
    elseif answer then
      term.sleep(wait_s)
      self.at = self.at % #self.urls + 1
    else
      if kind == "broken" and not is_read then
        fail(EXIT_UNKNOWN, ("%s: %s; the write may or may not have happened, look before you try again")
          :format(self.urls[self.at], message))
      end
      tried = tried + 1
      if tried >= #self.urls then
        fail(EXIT_UNREACHABLE, ("no node answers at %s: %s; give another with --url or VEENA_URL")
          :format(table.concat(self.urls, ", "), message))
      end
      self.at = self.at % #self.urls + 1
    end
  end
end

local function fail_refused(c, answer)
  local message, body = explain(answer)
  if answer.status == 401 and not c.global.user then
    message = message .. "; say who you are with --user NAME"
  elseif answer.status == 429 and answer.headers["retry-after"] then
    message = ("%s; try again in %s s"):format(message, answer.headers["retry-after"])
  end
  local exit = body.outcome == "unknown" and EXIT_UNKNOWN or EXIT_FAILED
  fail(exit, body.code and ("%s (%s)"):format(message, body.code) or message, answer)
end

-- Fails with what an answer says, unless another node may do better.
function client:refuse(answer, goes_on)
  if not goes_on or #self.urls == 1 then
    fail_refused(self, answer)
  end
end

-- The decoded body of a 2xx answer (nil for none), and the answer. A text is a body already.
function client:call(method, path, value)
  local answer = self:send(method, path, type(value) == "table" and json.encode(value) or value)
  -- Whatever else listens there may answer too; what it says is not read as if a node had said it.
  if not answer.headers["x-veena-node"] then
    fail(EXIT_FAILED, ("%s answers, but is no veena node; give another with --url or VEENA_URL")
      :format(self.urls[self.at]))
  end
  if answer.status >= 200 and answer.status < 300 then
    if answer.body == "" then
      return nil, answer
    end
    local body, problem = json.decode(answer.body)
    if type(body) ~= "table" then
      fail(EXIT_FAILED, ("%s: the answer cannot be read: %s")
        :format(self.urls[self.at], problem or "no object"), answer)
    end
    return body, answer
  end
  fail_refused(self, answer)
end

-- All pages of a list: the records of field `plural`, and the raw text of each page.
function client:pages(path, query, plural)
  local records, raw = {}, {}
  query = query or {}
  query.limit = query.limit or 1000
  while true do
    local page, answer = self:call("GET", client.path(path, query))
    raw[#raw + 1] = answer.body
    for _, record in ipairs(page[plural]) do
      records[#records + 1] = record
    end
    if not page.next_page_token or page.next_page_token == "" then
      return records, raw
    end
    query.page_token = page.next_page_token
  end
end

return client
