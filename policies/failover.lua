-- Who leads a replicated partition next, when its leader is gone or leaves.
--
-- A leader gets failover_after_s to come back. Then the in-sync copy on the living member that leads least takes over
-- (ties: the lower id), one that is draining only when there is no other. Without a living copy in sync the partition
-- waits, unless its topic is `unclean`: then a copy that may lack the newest records is better than none.
--
-- A leader that drains still does its work: it hands over at once, but only to a copy in sync on a member that stays.

local failover = {}

-- The best copy on a member that lives and was heard, among those that `fits` takes, or nil.
local function best(cluster, assignment, fits)
  local chosen
  for _, replica in ipairs(assignment.replicas or {}) do
    local m = replica.id ~= assignment.owner_id and fits(replica) and cluster:member(replica.id)
    if m and m.status == "alive" and m.silent_s < cluster:setting("failover_after_s") then
      local candidate = { id = m.id, draining = m.draining and 1 or 0, leads = cluster:counts(m.id).leads }
      if not chosen or candidate.draining < chosen.draining or (candidate.draining == chosen.draining and
        (candidate.leads < chosen.leads or (candidate.leads == chosen.leads and candidate.id < chosen.id))) then
        chosen = candidate
      end
    end
  end
  return chosen and chosen.id
end

-- A leader that is alive and was heard: it stays, or drains.
local function while_it_serves(cluster, assignment, leader)
  if not leader.draining then
    return nil, leader.id .. " is alive"
  end
  local next_leader = best(cluster, assignment, function(r)
    local m = cluster:member(r.id)
    return r.in_sync and m and not m.draining
  end)
  return next_leader, next_leader and leader.id .. " drains" or "no copy in sync is on a member that stays"
end

-- Returns the id of the next leader, or nil to wait; and the reason.
function failover.elect(cluster, assignment)
  local leader = cluster:member(assignment.owner_id)
  local wait = cluster:setting("failover_after_s")
  if leader and leader.silent_s < wait then
    if leader.status == "alive" then
      return while_it_serves(cluster, assignment, leader)
    end
    return nil, string.format("%s may come back within %d s", leader.id, wait)
  end
  local next_leader = best(cluster, assignment, function(r) return r.in_sync end)
  if next_leader then
    return next_leader, "in sync, and leads least"
  end
  local topic = cluster:topic(assignment.topic)
  if topic and topic.unclean then
    next_leader = best(cluster, assignment, function() return true end)
    if next_leader then
      return next_leader, "not in sync: the topic is unclean"
    end
  end
  return nil, "no living copy is in sync"
end

return failover
