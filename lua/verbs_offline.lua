-- The verbs that work on files of a node that does not run: from Narad's bbolt file, and back to it.

local client = require "veena.client"
local json = require "veena.json"
local offline = require "veena.offline"
local output = require "veena.output"

local EXIT_FAILED, EXIT_USAGE = 1, 2

local function need_data(call)
  local dir = call.options.data
  if not dir or dir == "" then
    client.fail(EXIT_USAGE, "--data names the data directory; it is missing")
  end
  return (dir:gsub("(.)/+$", "%1"))
end

-- The report as it came for --json, else what `show` makes of it; then the failure, if it was one.
local function finish(call, report, problem, show)
  if call.global.json then
    io.write(report, "\n")
  elseif not problem or report ~= "{}" then
    show(json.decode(report))
  end
  if problem then
    client.fail(EXIT_FAILED, problem)
  end
end

local function lines(text, ...)
  print(text:format(...))
end

-- ---- import ----

local function show_import(r)
  if not r.pages then
    return
  end
  lines("%s: %d pages of %d bytes, transaction %d", r.file, r.pages, r.page_size, r.transaction)
  if r.damaged_meta then
    lines("meta page %d does not count (%s); the other one does, as for bbolt", r.damaged_meta, r.damaged_meta_why)
  end
  if (r.lost_pages or 0) > 0 then
    lines("%d pages are neither used nor free: lost room, no lost records", r.lost_pages)
  end
  if not r.buckets then
    return
  end
  local rows = {}
  for i, b in ipairs(r.buckets) do
    rows[i] = { b.bucket, b.records, b.refused, b.rewritten, b.renamed, b.dropped }
  end
  for _, a in ipairs(r.aside) do
    rows[#rows + 1] = { a.bucket, a.records, "kept aside" }
  end
  output.table({ "BUCKET", "RECORDS", "REFUSED", "REWRITTEN", "RENAMED", "DROPPED" }, rows)
  for _, refusal in ipairs(r.refusals) do
    lines("refused: %s %q: %s", refusal.bucket, refusal.key, refusal.why)
  end
  if r.refused > #r.refusals then
    lines("refused: and %d more", r.refused - #r.refusals)
  end
  for _, member in ipairs(r.old_reports) do
    lines("old report: member %s applies entry types up to %d; as a server it would hold newer ones back",
      member.id, member.entry_types)
  end
  for _, b in ipairs(r.buckets) do
    if b.names_dropped > 0 then
      lines("%d assignments name a dropped member; they stay", b.names_dropped)
    end
  end
  lines("index %d (%s), term %d", r.index, r.index_trusted and "as Narad would trust it" or "not vouched for",
    r.term)
end

local function read_map(call)
  local from, to = {}, {}
  for i, pair in ipairs(call.options.map or {}) do
    from[i], to[i] = pair:match("^([^=]+)=([^=]+)$")
    if not from[i] then
      client.fail(EXIT_USAGE, ("--map is %q, OLD=NEW is expected"):format(pair))
    end
  end
  return from, to
end

-- ---- export ----

local LOSSES = { "replicas", "labels", "tags", "cordons", "settings", "grants" }

local function show_export(r)
  for _, what in ipairs(LOSSES) do
    if r.losses and r.losses[what] > 0 then
      lines("no place in Narad: %s, %d records", what, r.losses[what])
    end
  end
  if not r.buckets then
    return
  end
  local rows = {}
  for i, b in ipairs(r.buckets) do
    rows[i] = { b.bucket, b.records }
  end
  output.table({ "BUCKET", "RECORDS" }, rows)
  if r.clamped_reports > 0 then
    lines("%d members report more entry types than Narad has; they are written as reporting 37", r.clamped_reports)
  end
  lines("index %d, term %d, from %s", r.index, r.term, r.source)
  lines("%s, %d bytes, becomes metastore/fsm.db", r.file, r.bytes)
  lines("%s becomes metastore/snapshots; Narad sets a database without Raft state aside", r.snapshots)
end

return function(verb)
  verb{
    name = "import",
    args = { "FILE" },
    options = {
      { name = "data", kind = "text", help = "the data directory to make; there must be none" },
      { name = "map", kind = "list", help = "OLD=NEW: a member gets another id; repeat it for more" },
      { name = "drop-member", kind = "list", help = "leave this member's record out; repeat it for more" },
      { name = "skip-refused", kind = "flag", help = "go on without records that are refused" },
      { name = "dry-run", kind = "flag", help = "read and report, write nothing" },
    },
    about = "makes a data directory of Narad's bbolt file",
    example = "veena import metastore/fsm.db --data veena-data",
    run = function(_, call)
      local from, to = read_map(call)
      local report, problem = offline.import{
        file = call.args[1], data = need_data(call), map_from = from, map_to = to,
        drop_member = call.options["drop-member"], dry_run = call.options["dry-run"],
        skip_refused = call.options["skip-refused"],
      }
      finish(call, report, problem, function(r)
        show_import(r)
        if r.written then
          lines("%s is made; start veenad on it with --bootstrap once", call.options.data)
        end
      end)
    end,
  }

  verb{
    name = "export",
    args = { "FILE" },
    options = {
      { name = "data", kind = "text", help = "the data directory of a node that does not run" },
      { name = "drop", kind = "flag", help = "leave out what Narad has no place for" },
    },
    about = "writes Narad's bbolt file and Raft snapshot",
    example = "veena export --data veena-data fsm.db",
    run = function(_, call)
      local report, problem = offline.export{
        file = call.args[1], data = need_data(call), drop = call.options.drop,
      }
      finish(call, report, problem, show_export)
    end,
  }
end
