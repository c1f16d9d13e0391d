-- What verbs share that change something: a partition's name, the dry run, and how either is shown.

local client = require "veena.client"

local change = {}

change.DRY_RUN = { name = "dry-run", kind = "flag", help = "only say what would be done" }

-- "orders/3" as topic and partition; the partition is nil for a topic alone.
function change.split_partition(text)
  local topic, partition = text:match("^(.+)/(%d+)$")
  return topic or text, partition
end

function change.show_would(body, what)
  for _, reason in ipairs(body.reasons) do
    print(("%s would be refused: %s (%s)"):format(what, reason.message, reason.code))
  end
  if body.would then
    print(what .. " would be carried out")
  end
end

-- A function that asks for a change: its answer is shown as JSON, by `show`, or (a dry run) by `show_would`.
function change.asker(show_would)
  return function(c, call, method, path, body, what, show)
    local dry = call.options["dry-run"]
    local answer_body, answer = c:call(method, client.path(path, { dry_run = dry and "true" or nil }), body)
    if call.global.json then
      io.write(answer.body)
    elseif dry then
      show_would(answer_body, what)
    else
      show(answer_body, answer)
    end
  end
end

return change
