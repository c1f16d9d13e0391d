-- What people read: aligned tables that fit the terminal, times and durations in words.

local term = require "veena.term"

local output = {}

local ELLIPSIS = "~"

-- Cells of the longest columns give way until the row fits; a column keeps at least the width of its title.
local function fit(widths, titles, room) -- false: they cannot give way so far
  local total = 2 * (#widths - 1)
  for _, width in ipairs(widths) do
    total = total + width
  end
  while total > room do
    local widest
    for i, width in ipairs(widths) do
      if width > math.max(#titles[i], 8) and (not widest or width > widths[widest]) then
        widest = i
      end
    end
    if not widest then
      return false
    end
    widths[widest] = widths[widest] - 1
    total = total - 1
  end
  return true
end

-- Where even that is too wide, the last columns are left out: a broken line is read by nobody.
local function fit_columns(widths, titles, room)
  for count = #widths, 1, -1 do
    local some = table.move(widths, 1, count, 1, {})
    if fit(some, titles, room) or count == 1 then
      return some
    end
  end
end

local function length(text)
  return utf8.len(text) or #text
end

local function cell(text, width, is_last)
  local n = length(text)
  if n > width then
    local cut = utf8.offset(text, width) or width
    return text:sub(1, cut - 1) .. ELLIPSIS
  end
  return is_last and text or text .. (" "):rep(width - n)
end

-- Control bytes of a name or an address must not steer the terminal.
local function clean(value)
  return (tostring(value):gsub("%c", function(c)
    return ("\\x%02x"):format(c:byte())
  end))
end

output.clean = clean

-- Rows are lists of values in the order of `titles`; nil shows as "-".
function output.table(titles, rows)
  local widths, cells = {}, {}
  for i, title in ipairs(titles) do
    widths[i] = #title
  end
  for r, row in ipairs(rows) do
    cells[r] = {}
    for i = 1, #titles do
      local value = row[i]
      cells[r][i] = (value == nil or value == "") and "-" or clean(value)
      widths[i] = math.max(widths[i], length(cells[r][i]))
    end
  end
  local room = term.width()
  if room then
    widths = fit_columns(widths, titles, room)
  end
  table.insert(cells, 1, titles)
  for _, row in ipairs(cells) do
    local line = {}
    for i, width in ipairs(widths) do
      line[i] = cell(row[i], width, i == #widths)
    end
    print((table.concat(line, "  "):gsub("%s+$", "")))
  end
  if #widths < #titles then
    print(("(%d columns more: --json, or wider)"):format(#titles - #widths))
  end
end

-- Pairs of name and value, one a line.
function output.facts(pairs_list)
  local width = 0
  for _, fact in ipairs(pairs_list) do
    width = math.max(width, #fact[1])
  end
  for _, fact in ipairs(pairs_list) do
    local value = fact[2]
    print(fact[1] .. (" "):rep(width - #fact[1] + 2) .. ((value == nil or value == "") and "-" or clean(value)))
  end
end

local UNITS = { { 86400000, "d" }, { 3600000, "h" }, { 60000, "m" }, { 1000, "s" }, { 1, "ms" } }

-- 604800000 -> "7d", 5400000 -> "90m": the largest unit that says it exactly.
function output.duration_ms(ms)
  for _, unit in ipairs(UNITS) do
    if ms ~= 0 and ms % unit[1] == 0 then
      return ("%d%s"):format(ms // unit[1], unit[2])
    end
  end
  return "0"
end

-- 7322 -> "2h 2m": how long ago something began, to two units.
function output.age_s(s)
  local parts = {}
  for _, unit in ipairs{ { 86400, "d" }, { 3600, "h" }, { 60, "m" }, { 1, "s" } } do
    if s >= unit[1] and #parts < 2 then
      parts[#parts + 1] = ("%d%s"):format(s // unit[1], unit[2])
      s = s % unit[1]
    end
  end
  return #parts > 0 and table.concat(parts, " ") or "0s"
end

function output.yes_no(value)
  if value == nil then
    return nil
  end
  return value and "yes" or "no"
end

return output
