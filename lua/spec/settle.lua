-- veena.settle: pass after pass as the leader runs them, each on what the one before did, until nothing changes.
--
--   local view, passes, moves = veena.settle({ placement = p1, rebalance = p2 }, cluster, { passes = 50 })
--
-- In each pass partitions without an owner are placed, moves are planned, and those under way come to their end.
-- `moves` lists every move in the order in which it was set. Without a fixpoint within `passes` that is an error.

local function place_all(try, policies, c, settled)
  for topic in c:topics() do
    local waiting = false
    for _, a in ipairs(c:assignments(topic.name)) do
      waiting = waiting or a.state == "unplaced"
    end
    local r = waiting and try(policies.placement, c, { topic = topic.name })
    if r and #r.intents > 0 then
      c, settled = c:apply(r.intents), false
    end
  end
  return c, settled
end

local function rebalance(try, policies, c, moves, settled)
  local r = try(policies.rebalance, c, { placement = policies.placement })
  if #r.intents == 0 then
    return c, settled
  end
  for _, intent in ipairs(r.intents) do
    if intent.to then
      local a = c:assignment(intent.topic, intent.partition)
      moves[#moves + 1] = { topic = intent.topic, partition = intent.partition, from = a.owner_id, to = intent.to,
        reason = intent.reason }
    end
  end
  return c:apply(r.intents), false
end

return function(try, policies, c, options)
  local limit = options and options.passes or 50
  local moves = {}
  for pass = 1, limit do
    local settled = true
    if policies.placement then
      c, settled = place_all(try, policies, c, settled)
    end
    if policies.rebalance then
      c, settled = rebalance(try, policies, c, moves, settled)
    end
    if settled then
      return c, pass - 1, moves
    end
    c = c:after{ complete = true }
  end
  error(("not settled after %d passes and %d moves"):format(limit, #moves), 0)
end
