-- Where new partitions go.
--
-- Round robin over the members that can take partitions, by id: partition p goes to member p mod n. A topic therefore
-- spreads evenly, and the same cluster always gives the same answer. Partitions that have an owner are never touched
-- here; moving them is the work of the rebalance policy.
--
-- A topic with replicas gets copies of each partition: the leader on the member that leads and owns the fewest (ties:
-- the smallest id), the others on members that hold the fewest copies, in racks (tag "rack") that have none yet where
-- there are any. With too few members there are fewer copies; more are added when members come.
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

-- What each member holds now, with what this call adds to it.
local function holdings(cluster, members)
  local held = {}
  for i, m in ipairs(members) do
    local load, counts = cluster:load(m.id), cluster:counts(m.id)
    held[i] = { id = m.id, rack = m.tags.rack, leads = load, copies = load + counts.replicas - counts.leads }
  end
  return held
end

-- The first of `held` that is `better` than those before it, among those that may be taken.
local function best(held, taken, better)
  local found
  for _, h in ipairs(held) do
    if not taken[h.id] and (not found or better(h, found)) then
      found = h
    end
  end
  return found
end

local function take(h, copies, taken, racks)
  copies[#copies + 1] = h.id
  taken[h.id] = true
  h.copies = h.copies + 1
  if h.rack then
    racks[h.rack] = true
  end
end

-- One partition: its leader and the other copies. `beside` owns the parent's partition and leads only if it must.
local function copies_of(held, count, beside)
  local copies, taken, racks = {}, {}, {}
  local function leads_less(a, b)
    if (a.id == beside) ~= (b.id == beside) then
      return b.id == beside
    end
    return a.leads < b.leads
  end
  local function follows_less(a, b)
    local a_near, b_near = racks[a.rack or false] or false, racks[b.rack or false] or false
    if a_near ~= b_near then
      return b_near
    end
    return a.copies < b.copies
  end
  local leader = best(held, taken, leads_less)
  leader.leads = leader.leads + 1
  take(leader, copies, taken, racks)
  while #copies < count and #copies < #held do
    take(best(held, taken, follows_less), copies, taken, racks)
  end
  return copies
end

local function place_copies(cluster, topic, partitions, members)
  local held, owners = holdings(cluster, members), {}
  for _, p in ipairs(partitions) do
    local beside = topic.parent and cluster:assignment(topic.parent, p)
    owners[p] = copies_of(held, topic.replicas, beside and beside.owner_id)
  end
  return owners, string.format("%d of %d copies, leaders on the least loaded of %d members",
    math.min(topic.replicas, #members), topic.replicas, #members)
end

-- Returns {[partition] = member id, or {leader, replica, ...} for a topic with replicas} and the reason.
-- A partition left out waits for a later pass.
function placement.place(cluster, topic, partitions)
  local members = cluster:members{ status = "alive", draining = false, placeable = true }
  if #members == 0 then
    return {}, "no member is alive, placeable and not draining"
  end
  if (topic.replicas or 1) > 1 then
    return place_copies(cluster, topic, partitions, members)
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
