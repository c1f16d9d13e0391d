-- Which partitions move, so that every member has its share and a draining one has none.
--
-- Every member that can take partitions has the same share, give or take one; who has more than the share gives, who
-- has less receives. Only what is needed moves: a balanced cluster moves nothing, and a move counts at its destination
-- from the moment it is planned. Members that are dead are left alone (they may come back with the data), and so are
-- partitions that are pinned or on their way already. What `allowed` of the placement policy forbids is not planned; a
-- child topic's partition keeps away from the owner of its parent's partition where that is possible.
--
-- Moves that cannot come to an end are taken back: those to a member that is gone, draining, or dead for long.

local rebalance = {}

local DEAD_TARGET_S = 120 -- a target may restart; after this it is given up
local TRIES = 1000        -- partitions looked at that nobody may take, before the plan is left as it is

-- Why a move under way will not come to its end, or nil.
local function hopeless(cluster, move)
  local target = cluster:member(move.target_id)
  if not target then
    return move.target_id .. " is no member any more"
  elseif target.draining then
    return move.target_id .. " is draining"
  elseif target.status == "dead" and target.silent_s >= DEAD_TARGET_S then
    return string.format("%s is dead for %d s", move.target_id, target.silent_s // 1)
  end
end

-- Members that can take partitions; those that must give all they have; and what each holds or is about to.
local function standing(cluster)
  local receivers, leaving, load = {}, {}, {}
  for _, m in ipairs(cluster:members{ status = "alive" }) do
    if m.draining then
      leaving[#leaving + 1] = m.id
      load[m.id] = cluster:load(m.id)
    elseif m.placeable then
      receivers[#receivers + 1] = m.id
      load[m.id] = cluster:load(m.id)
    end
  end
  return receivers, leaving, load
end

-- How many partitions each receiver shall have. Where the total does not divide, those that have most keep one more.
local function shares(receivers, load)
  local total = 0
  for _, held in pairs(load) do
    total = total + held
  end
  local order = { table.unpack(receivers) }
  table.sort(order, function(a, b)
    if load[a] ~= load[b] then
      return load[a] > load[b]
    end
    return a < b
  end)
  local share = {}
  for i, id in ipairs(order) do
    share[id] = total // #order + (i <= total % #order and 1 or 0)
  end
  return share
end

-- The owner of the parent's partition, which a child's keeps away from.
local function beside(cluster, a)
  local topic = cluster:topic(a.topic)
  local parent = topic and topic.parent and cluster:assignment(topic.parent, a.partition)
  return parent and parent.owner_id
end

-- Who of the receivers lacks most; those that stand beside the parent's only when nobody else lacks any.
local function choose(cluster, a, plan)
  local avoided = beside(cluster, a)
  local best, best_lack, best_apart
  for _, id in ipairs(plan.receivers) do
    local lack = plan.share[id] - plan.load[id]
    local apart = id ~= avoided
    if lack > 0 and id ~= a.owner_id and (not best or (apart and not best_apart) or
      (apart == best_apart and lack > best_lack)) and cluster:allowed(a.topic, a.partition, id) then
      best, best_lack, best_apart = id, lack, apart
    end
  end
  return best
end

-- Plans moves away from one member until it has its share, or as many moves are under way as may be.
local function shed(cluster, id, plan)
  local share = plan.share[id] or 0
  if plan.load[id] <= share then
    return
  end
  local reason = plan.share[id] and string.format("%s has %d, its share is %d", id, plan.load[id], share)
    or id .. " is draining"
  for a in cluster:owned(id) do
    if plan.load[id] <= share or plan.budget <= 0 or plan.tries <= 0 then
      return
    end
    local to = not a.target_id and not a.pinned and not a.replicas and choose(cluster, a, plan)
    if to then
      plan.intents[#plan.intents + 1] = { topic = a.topic, partition = a.partition, to = to, reason = reason }
      plan.load[id], plan.load[to] = plan.load[id] - 1, plan.load[to] + 1
      plan.budget = plan.budget - 1
    else
      plan.tries = plan.tries - 1
    end
  end
end

-- Returns a list of {topic=, partition=, to=} and {topic=, partition=, abort=true}, and the reason.
function rebalance.plan(cluster)
  local intents = {}
  local moves = cluster:moves()
  for _, move in ipairs(moves) do
    local why = hopeless(cluster, move)
    if why then
      intents[#intents + 1] = { topic = move.topic, partition = move.partition, abort = true, reason = why }
    end
  end
  local budget = cluster:setting("max_moves") - #moves + #intents
  if budget <= 0 then
    return intents, string.format("%d moves are under way", #moves)
  end
  local receivers, leaving, load = standing(cluster)
  if #receivers == 0 then
    return intents, "no member can take partitions"
  end
  local plan = { intents = intents, receivers = receivers, load = load, share = shares(receivers, load),
    budget = budget, tries = TRIES }
  for _, givers in ipairs{ leaving, receivers } do
    for _, id in ipairs(givers) do
      shed(cluster, id, plan)
    end
  end
  if #intents == 0 then
    return intents, "balanced"
  end
  return intents, string.format("%d moves towards equal shares of %d members", #intents, #receivers)
end

return rebalance
