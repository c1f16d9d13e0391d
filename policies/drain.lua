-- When a draining member may go.
--
-- It may go when nothing names it any more: no partition, no move towards it, no copy. The core sees to the rest: that
-- enough voters are left, and that a leader hands over first.

local drain = {}

-- Returns true, or false and what it waits for.
function drain.finished(cluster, member)
  local n = cluster:counts(member.id)
  if n.owned > 0 then
    return false, string.format("it owns %d partitions", n.owned)
  elseif n.coming > 0 then
    return false, string.format("%d moves come to it", n.coming)
  elseif n.replicas > 0 then
    return false, string.format("it holds %d copies", n.replicas)
  end
  return true, "nothing names it any more"
end

return drain
