-- Where new partitions go.
--
-- Round robin over the members that can take partitions, by id: partition p goes to member p mod n. A topic therefore
-- spreads evenly, and the same cluster always gives the same answer. Partitions that have an owner are never touched
-- here; moving them is the work of the rebalance policy.
--
-- A child topic is a copy of its parent, made to survive the loss of a disk: its partition p keeps away from the owner
-- of the parent's partition p, unless there is only one member.

local placement = {}

-- The first member, going round from `start`, that is not `avoided`.
local function next_apart(members, start, avoided)
  for i = 0, #members - 1 do
    local id = members[(start + i) % #members + 1].id
    if id ~= avoided then
      return id
    end
  end
  return members[start % #members + 1].id
end

-- Returns {[partition] = member id} and the reason. A partition left out waits for a later pass.
function placement.place(cluster, topic, partitions)
  local members = cluster:members{ status = "alive", draining = false, placeable = true }
  if #members == 0 then
    return {}, "no member is alive, placeable and not draining"
  end
  local owners = {}
  for _, p in ipairs(partitions) do
    local beside = topic.parent and cluster:assignment(topic.parent, p)
    if not beside then
      owners[p] = members[p % #members + 1].id
    elseif beside.owner_id ~= "" then
      owners[p] = next_apart(members, p, beside.owner_id)
    end -- else: the parent's partition has no owner yet, so there is nobody to keep away from
  end
  local reason = string.format("round robin over %d members", #members)
  if topic.parent then
    reason = reason .. ", apart from the owners of " .. topic.parent
  end
  return owners, reason
end

return placement
