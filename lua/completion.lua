-- Shell completion, from the verbs: words of commands, options, and names asked of the cluster by the command itself.

local verbs = require "veena.verbs"

local completion = {}

local GLOBAL = "--url --user --cacert --password-file --password-stdin --json --yes --help --version"

-- First words, second words by first, options by command: as shell text.
local function words()
  local firsts, seconds, flags, order = {}, {}, {}, {}
  for _, verb in ipairs(verbs.all()) do
    local first, second = verb.name:match("^(%S+)%s*(.*)$")
    if not seconds[first] then
      seconds[first] = {}
      order[#order + 1] = first
      firsts[#firsts + 1] = first
    end
    if second ~= "" then
      table.insert(seconds[first], second)
    end
    local names = {}
    for i, option in ipairs(verb.options or {}) do
      names[i] = "--" .. option.name
    end
    flags[#flags + 1] = { verb.name, table.concat(names, " ") }
  end
  firsts[#firsts + 1] = "help"
  return firsts, seconds, flags, order
end

local BASH = [[
# bash completion of veena: source <(veena completion bash)
_veena() {
  local cur=${COMP_WORDS[COMP_CWORD]} first=${COMP_WORDS[1]} both="${COMP_WORDS[1]} ${COMP_WORDS[2]}" words=
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="@FIRSTS@ @GLOBAL@"
  else
    case $first in
@SECONDS@    esac
    [ "$COMP_CWORD" -gt 2 ] && words=
    case $both in
@FLAGS@    esac
    case $first in
@FLAGS1@    esac
    case $cur in
      -*) words="$words @GLOBAL@" ;;
      *) case $both in
           "topics get"|"topics alter"|"topics delete"|why*|confirm*|assignments*|moves*|children*|schemas*)
             words="$words $(veena -e 'for _, t in ipairs(topics()) do print(t.name) end' 2>/dev/null)" ;;
           members*|decommission*|forget*)
             words="$words $(veena -e 'for _, m in ipairs(members()) do print(m.id) end' 2>/dev/null)" ;;
         esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _veena veena
]]

local function fill(text)
  local firsts, seconds, flags, order = words()
  local cases, both, one = {}, {}, {}
  for _, first in ipairs(order) do
    if #seconds[first] > 0 then
      cases[#cases + 1] = ("      %s) words=%q ;;\n"):format(first, table.concat(seconds[first], " "))
    end
  end
  for _, flag in ipairs(flags) do
    if flag[2] ~= "" then
      local into = flag[1]:find(" ") and both or one
      into[#into + 1] = ("      %q) words=\"$words %s\" ;;\n"):format(flag[1], flag[2])
    end
  end
  local values = { FIRSTS = table.concat(firsts, " "), GLOBAL = GLOBAL, SECONDS = table.concat(cases),
    FLAGS = table.concat(both), FLAGS1 = table.concat(one) }
  return (text:gsub("@(%u+1?)@", values))
end

-- zsh runs bash's functions.
local ZSH = "#compdef veena\nautoload -U +X bashcompinit && bashcompinit\n"

function completion.run(_, call)
  local shell = call.args[1]
  if shell ~= "bash" and shell ~= "zsh" then
    require("veena.client").fail(2, ("completion: for bash or zsh, not %q"):format(shell))
  end
  io.write(shell == "zsh" and ZSH or "", fill(BASH))
end

return completion
