std = "lua54"
max_line_length = 120
cache = false
exclude_files = { "build/", "veena-data/" }

files["spec/"] = { std = "lua54+busted" }
files["tests/"] = { std = "lua54+busted" }
files["policies/"] = { std = "lua54", read_globals = { "veena" } }
