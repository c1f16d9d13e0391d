-- Who is dead.
--
-- A member is dead when this leader has heard nothing of it for longer than dead_after_s. `silent_s` counts only what
-- this leader has watched itself, by a clock that does not jump: a leader that is new, or whose wall clock was set,
-- calls nobody dead for what it has not seen. What a dead member owns stays its own; it may come back.

local liveness = {}

-- Returns "dead" and the reason, or nil.
function liveness.judge(cluster, member)
  local limit = cluster:setting("dead_after_s")
  if member.silent_s > limit then
    return "dead", string.format("not heard of for %d s, %d are allowed", member.silent_s // 1, limit)
  end
end

return liveness
