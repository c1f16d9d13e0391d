# veena's only entry point. `make help` lists the targets; the words after `##` at each one are its help.
#
# One non-recursive Makefile. Every variant has a folder of its own under build/, every folder of src/ is one static
# archive there, sources are found by wildcard: nobody edits a list. A folder without sources is an empty archive and
# breaks nothing. `make -j2` is fine everywhere; V=1 shows whole commands.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/sh

# ---- what a caller may set ----

VARIANT ?= release
PREFIX ?= /usr/local
DESTDIR ?=
# Seconds for each fuzz target of `make fuzz`.
T ?= 30
# Where everything goes; set it to build apart from another make in the same tree.
B ?= build
# Programs built or run at once by check and faults.
JOBS ?= $(shell nproc)
# What --version says; git must not take its index lock for a question.
VERSION ?= $(or $(shell GIT_OPTIONAL_LOCKS=0 git describe --always --dirty --tags 2>/dev/null),unknown)
CC := gcc
LUA := lua5.4
# Debian's /usr/bin/busted runs under whatever `lua` is the default, often 5.1.
BUSTED := $(LUA) /usr/bin/busted
V ?=
Q := $(if $(V),,@)
say = $(if $(V),@:,@echo)

# ---- folders, lowest first: a folder is linked with itself and those it names here ----

# `daemon` is src/*.c: veenad.c, threads.c and what stands beside them. `gen` is what the build itself writes: the
# Lua files the programs carry, and the version.
FOLDERS := base model raft wal store bbolt fsm net node service http control cli daemon gen
VARIANTS := release asan tsan sim

below_model := base
below_raft := base
below_wal := base
below_store := model base
below_bbolt := model base
below_fsm := raft wal store model base
below_net := raft wal store model base
below_node := net $(below_fsm) fsm
below_service := node $(below_node)
below_http := service $(below_service)
below_control := service $(below_service) gen
below_cli := bbolt control http $(below_control)
below_daemon := control http $(below_control)

sources_of = $(sort $(if $(filter daemon,$1),$(wildcard src/*.c),$(wildcard src/$1/*.c)))
objects_of = $(if $(filter gen,$2),$(GEN:%=$(B)/$1/gen/%.o),$(patsubst src/%.c,$(B)/$1/obj/%.o,$(call sources_of,$2)))
archives_of = $(foreach f,$2 $(below_$2),$(B)/$1/lib$f.a)

# ---- flags ----

PKGS := lua5.4 lmdb msgpack openssl libcrypt libcurl libedit libxxhash
PKG_INCLUDES := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I $(PKGS) 2>/dev/null))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Werror
INCLUDES := -Isrc $(PKG_INCLUDES)
# -fPIC everywhere, so that the same archives make the programs and the Lua module of the specs; in a program the
# linker relaxes what that costs. NDEBUG is never defined: assert stays on.
CFLAGS_common := -std=c11 -D_GNU_SOURCE $(WARNINGS) -fno-omit-frame-pointer -fPIC -fno-semantic-interposition \
	-pthread -g $(INCLUDES)
# What runs in production: checked copies, guarded frames, nothing at a known or writable place.
CFLAGS_release := -O2 -D_FORTIFY_SOURCE=2 -fstack-protector-strong
CFLAGS_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_tsan := -O1 -fsanitize=thread
CFLAGS_sim := -O2 -DVEENA_SIM
LDFLAGS_release := -Wl,-z,relro,-z,now,-z,noexecstack
PIE_release := -pie
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread

LIBS_model := -lmsgpackc
LIBS_store := -llmdb
LIBS_fsm := -lxxhash
LIBS_net := -lev -lssl -lcrypto -lmsgpackc
LIBS_service := -lcrypt -lcrypto
LIBS_http := -lhttp_parser -lev
LIBS_control := -llua5.4
LIBS_cli := -lcurl -ledit -llua5.4
LIBS_daemon := -lev -llua5.4
libs_of = $(sort $(foreach f,$1 $(below_$1),$(LIBS_$f))) -lm -pthread
group = -Wl,--start-group $1 -Wl,--end-group

# ---- the machine ----

BUILD_DEBS := curl gcc libc6-dev pkg-config lua5.4 liblua5.4-dev libev-dev liblmdb-dev libmsgpack-dev \
	libhttp-parser-dev libssl-dev libcrypt-dev libcurl4-openssl-dev libedit-dev libxxhash-dev
TEST_DEBS := libcmocka-dev tmux lua-busted lua-check lua-socket lua-dkjson clang-format clang-tidy cppcheck
FUZZ_DEBS := clang
# Half a gigabyte of Go, for `make interop` alone.
INTEROP_DEBS := golang-go golang-github-coreos-bbolt-dev etcd-server curl

# Does nothing when all is there. Only root may install, so others go through sudo.
install_debs = @missing=; for p in $1; do \
		dpkg-query -W -f '$${db:Status-Status}\n' $$p 2>/dev/null | grep -qx installed || missing="$$missing $$p"; done; \
	test -n "$$missing" || exit 0; \
	echo "installing:$$missing"; sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	$$sudo apt-get update -q && $$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -q -y --no-install-recommends $$missing

.PHONY: deps deps-build deps-fuzz
deps: ## installs the Debian packages that are missing
	$(call install_debs,$(BUILD_DEBS) $(TEST_DEBS))
deps-build:
	$(call install_debs,$(BUILD_DEBS))
deps-fuzz:
	$(call install_debs,$(BUILD_DEBS) $(FUZZ_DEBS))

# ---- the programs ----

HAVE_SPEC := $(wildcard src/control/spec.c)

.PHONY: all
all: $(B)/veenad $(B)/veena $(if $(HAVE_SPEC),$(B)/lib/veena/spec.so) ## builds the daemon and the command

# Copies, not links: a running program must not change under the next build.
$(B)/veenad $(B)/veena: $(B)/%: $(B)/release/%
	$(Q)cp $< $@.tmp && mv $@.tmp $@
$(B)/lib/%.so: $(B)/release/lib/%.so
	@mkdir -p $(@D)
	$(Q)cp $< $@.tmp && mv $@.tmp $@

.PHONY: run
run: deps-build ## sets up, builds, starts one node on this machine and says what to try
	@$(MAKE) --no-print-directory all
	@echo
	@echo "veena runs on http://127.0.0.1:7942 until Ctrl-C; its data is in ./veena-data. In another terminal try:"
	@echo
	@echo "  build/veena status"
	@echo "  build/veena topics create orders --partitions 3"
	@echo "  build/veena assignments"
	@echo "  curl -s http://127.0.0.1:7942/v1/topics/orders"
	@echo
	@exec $(B)/veenad --dev

.PHONY: install
install: all ## installs into PREFIX (DESTDIR= for packages)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/veena/policies $(DESTDIR)$(PREFIX)/share/doc/veena
	install -m 755 $(B)/veenad $(B)/veena $(DESTDIR)$(PREFIX)/bin
	install -m 644 $(wildcard policies/*) $(DESTDIR)$(PREFIX)/share/veena/policies
	install -m 644 README.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/veena

# ---- what the build writes: the version and the Lua the programs carry ----

GEN := embed version
EMBEDDED := $(sort $(wildcard lua/*.lua lua/*/*.lua policies/*.lua policies/*/*.lua))

# A removed Lua file must leave embed.c too, hence the list.
$(B)/gen/embed.c: src/base/embed.lua $(EMBEDDED) $(B)/gen/embed.list
	$(Q)$(LUA) src/base/embed.lua $(EMBEDDED) >$@
$(B)/gen/version.c: $(B)/gen/version.list
	$(Q)printf '#include "base/embed.h"\n\nconst char embedded_version[] = "%s";\n' '$(VERSION)' >$@

# $1 file, $2 text: written only when it differs, so that what depends on it is not rebuilt for nothing.
keep = @mkdir -p $(dir $1); echo '$2' | cmp -s - $1 || echo '$2' >$1
$(B)/gen/embed.list: .FORCE
	$(call keep,$@,$(EMBEDDED))
$(B)/gen/version.list: .FORCE
	$(call keep,$@,$(VERSION))

.PHONY: .FORCE
.FORCE:

# ---- objects, archives, programs: one set of rules for each variant ----

define variant_rules
$(B)/$1/obj/%.o: src/%.c $(B)/$1/flags
	@mkdir -p $$(@D)
	$$(say) "CC $1 $$<"
	$$(Q)$$(CC) $$(CFLAGS_common) $$(CFLAGS_$1) -MMD -MP -c -o $$@ $$<

# Tests put functions of their own in the place of the C library's, which checked copies would go round.
$(B)/$1/tests/%.o: tests/%.c $(B)/$1/flags
	@mkdir -p $$(@D)
	$$(say) "CC $1 $$<"
	$$(Q)$$(CC) $$(CFLAGS_common) $$(CFLAGS_$1) -U_FORTIFY_SOURCE -I. -MMD -MP -c -o $$@ $$<

$(B)/$1/gen/%.o: $(B)/gen/%.c $(B)/$1/flags
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CFLAGS_common) $$(CFLAGS_$1) -MMD -MP -c -o $$@ $$<

$(B)/$1/flags: .FORCE
	$$(call keep,$$@,$$(CC) $$(CFLAGS_common) $$(CFLAGS_$1))

$(B)/$1/veenad: $$(call archives_of,$1,daemon)
	$$(say) "LD $1 $$@"
	$$(Q)$$(CC) $$(PIE_$1) $$(LDFLAGS_$1) -o $$@ $$(call group,$$^) $$(call libs_of,daemon)

$(B)/$1/veena: $$(call archives_of,$1,cli)
	$$(say) "LD $1 $$@"
	$$(Q)$$(CC) $$(PIE_$1) $$(LDFLAGS_$1) -o $$@ $$(call group,$$^) $$(call libs_of,cli)

# The daemon's own view of a cluster as a module for busted. Lua's symbols come from the interpreter; only the
# module's opener is visible, so that nothing in it can bind to another library's functions. nodelete: what its static
# pools hold stays reachable at exit, and a leak report has names.
$(B)/$1/lib/veena/spec.so: $$(call archives_of,$1,control)
	@mkdir -p $$(@D)
	$$(say) "LD $1 $$@"
	$$(Q)echo '{ global: luaopen_*; local: *; };' >$$@.map
	$$(Q)$$(CC) $$(LDFLAGS_$1) -shared -Wl,-z,nodelete -Wl,--version-script=$$@.map \
		-Wl,--undefined=luaopen_veena_spec -o $$@ $$(call group,$$^) $$(filter-out -llua5.4,$$(call libs_of,control))
endef
$(foreach v,$(VARIANTS),$(eval $(call variant_rules,$v)))

# $1 variant, $2 folder. The list of objects is a prerequisite too, so that a removed source leaves the archive.
define archive_rules
$(B)/$1/lib$2.a: $(call objects_of,$1,$2) $(B)/$1/$2.list
	$$(Q)rm -f $$@.tmp && ar rcs $$@.tmp $(call objects_of,$1,$2) && mv $$@.tmp $$@
$(B)/$1/$2.list: .FORCE
	$$(call keep,$$@,$(call objects_of,$1,$2))
-include $(patsubst %.o,%.d,$(call objects_of,$1,$2))
endef
$(foreach v,$(VARIANTS),$(foreach f,$(FOLDERS),$(eval $(call archive_rules,$v,$f))))

# ---- unit tests: tests/unit/test_<folder>_<file>.c, each a program of its own ----

unit_sources_of = $(sort $(wildcard tests/unit/test_$1_*.c))
unit_programs_of = $(patsubst tests/unit/%.c,$(B)/$1/unit/%,$(call unit_sources_of,$2))
all_units_of = $(foreach f,$(FOLDERS),$(call unit_programs_of,$1,$f))
# Only what crosses threads gains anything under TSan.
TSAN_UNITS := $(patsubst tests/unit/%.c,$(B)/tsan/unit/%,$(shell grep -ls pthread_create tests/unit/test_*.c))

# $1 variant, $2 folder
define unit_rules
$(call unit_programs_of,$1,$2): $(B)/$1/unit/%: $(B)/$1/tests/unit/%.o $(call archives_of,$1,$2)
	@mkdir -p $$(@D)
	$$(say) "LD $1 $$@"
	$$(Q)$$(CC) $$(LDFLAGS_$1) -o $$@ $$< $$(call group,$$(filter %.a,$$^)) -lcmocka $$(call libs_of,$2)
-include $(patsubst tests/%.c,$(B)/$1/tests/%.d,$(call unit_sources_of,$2))
endef
$(foreach v,$(VARIANTS),$(foreach f,$(FOLDERS),$(eval $(call unit_rules,$v,$f))))

# cmocka catches SIGSEGV before ASan sees it, unless ASan insists. Sizes from outside go through mem_try_alloc, and its
# refusal is what the tests want to see.
export ASAN_OPTIONS := handle_segv=2:detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS := print_stacktrace=1
export TSAN_OPTIONS := halt_on_error=1:allocator_may_return_null=1
# gcc's TSan cannot live with the widest address randomisation; where setarch is not allowed it is not needed.
NO_ASLR := $(if $(filter ok,$(shell setarch -R echo ok 2>/dev/null)),setarch -R)
runner_tsan := $(NO_ASLR)

# unit-<folder> builds and runs the tests of one folder, for VARIANT.
define unit_target
.PHONY: unit-$1
unit-$1: $(call unit_programs_of,$(VARIANT),$1)
	@status=0; for t in $$^; do \
		$(runner_$(VARIANT)) $$$$t || { echo "$$$$t: failed" >&2; status=1; }; \
	done; exit $$$$status
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_target,$f)))

.PHONY: unit
unit: $(addprefix unit-,$(FOLDERS)) ## builds and runs all unit tests (VARIANT=asan or tsan: sanitized)

# ---- fuzzing: tests/fuzz/fuzz_<name>.c, corpus in tests/fuzz/corpus/<name>/ ----

FUZZERS := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
REPLAYS := $(FUZZERS:%=$(B)/asan/fuzz/%)
# The folder a fuzzer is linked with: its namesake, or model for the codecs that live there.
fuzz_folder = $(or $(filter $(FOLDERS),$(1:fuzz_%=%)),model)

# For check: each corpus file once, through gcc's ASan objects and a small main.
define replay_rules
$(B)/asan/fuzz/$1: $(B)/asan/tests/fuzz/$1.o $(B)/asan/tests/fuzz/replay.o \
		$(call archives_of,asan,$(call fuzz_folder,$1))
	@mkdir -p $$(@D)
	$$(say) "LD asan $$@"
	$$(Q)$$(CC) $$(LDFLAGS_asan) -o $$@ $$(filter %.o,$$^) $$(call group,$$(filter %.a,$$^)) \
		$$(call libs_of,$(call fuzz_folder,$1))
-include $(B)/asan/tests/fuzz/$1.d $(B)/asan/tests/fuzz/replay.d
endef
$(foreach f,$(FUZZERS),$(eval $(call replay_rules,$f)))

# For `make fuzz`: libFuzzer is clang's, so everything is compiled once more, in one go for each fuzzer.
fuzz_sources = tests/fuzz/$1.c $(foreach f,$(call fuzz_folder,$1) $(below_$(call fuzz_folder,$1)),\
	$(if $(filter gen,$f),$(GEN:%=$(B)/gen/%.c),$(call sources_of,$f)))
$(B)/fuzz/fuzz_%: .FORCE
	@mkdir -p $(@D)
	$(say) "LD fuzz $@"
	$(Q)clang -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
		-pthread $(INCLUDES) -I. -o $@ $(call fuzz_sources,fuzz_$*) $(call libs_of,$(call fuzz_folder,fuzz_$*))

.PHONY: fuzz
fuzz: deps-fuzz ## fuzzes each decoder for T seconds (T=30), starting from the corpus
	@$(MAKE) --no-print-directory $(FUZZERS:%=$(B)/fuzz/%)
	@mkdir -p $(foreach f,$(FUZZERS),$(B)/fuzz/corpus/$(f:fuzz_%=%) tests/fuzz/corpus/$(f:fuzz_%=%))
	@set -e; for f in $(FUZZERS:fuzz_%=%); do echo "fuzz_$$f: $(T) s"; \
		$(B)/fuzz/fuzz_$$f -max_total_time=$(T) -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
			-artifact_prefix=$(B)/fuzz/$$f- $(B)/fuzz/corpus/$$f tests/fuzz/corpus/$$f \
			>$(B)/fuzz/$$f.log 2>&1 || { tail -n 60 $(B)/fuzz/$$f.log; exit 1; }; \
		grep -a number_of_executed_units $(B)/fuzz/$$f.log; done

# ---- interop: the real bbolt, in Go ----

$(B)/interop/bolt: tests/interop/bolt.go
	@mkdir -p $(@D)
	$(Q)GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$(abspath $(B))/interop/cache go build -o $@ $<
$(B)/interop/mirror: $(B)/release/tests/interop/mirror.o $(call archives_of,release,bbolt)
	@mkdir -p $(@D)
	$(Q)$(CC) -o $@ $< $(call group,$(filter %.a,$^)) $(call libs_of,bbolt)

TREES ?= 100
TOPICS ?= 100000
PARTS ?= 10
.PHONY: interop deps-interop
deps-interop:
	$(call install_debs,$(BUILD_DEBS) $(INTEROP_DEBS))
interop: deps-interop ## bbolt files to and from Debian's bbolt and etcd (TREES=100 TOPICS=100000 PARTS=10)
	@$(MAKE) --no-print-directory $(B)/interop/bolt $(B)/interop/mirror $(B)/veena
	@mkdir -p $(B)/interop/files
	@DIR=$(B)/interop/files BOLT=$(B)/interop/bolt MIRROR=$(B)/interop/mirror VEENA=$(B)/veena \
		$(LUA) tests/interop/interop.lua
export TREES TOPICS PARTS

# ---- simulator: the daemon's objects with its own clock, network and disk ----

SIM_SOURCES := $(sort $(wildcard tests/sim/*.c))
HAVE_SIM := $(SIM_SOURCES)
# Every application passes the check of the committed prefix; a sync takes its time; several control planes register.
$(B)/sim/simulator: $(SIM_SOURCES:%.c=$(B)/sim/%.o) $(call archives_of,sim,daemon)
	$(say) "LD sim $@"
	$(Q)$(CC) -o $@ -Wl,--wrap=fsm_apply,--wrap=wal_sync,--wrap=svc_set_placer,--wrap=svc_set_control \
		$(filter %.o,$^) $(call group,$(filter-out %/libdaemon.a,$(filter %.a,$^))) $(call libs_of,daemon) -ldl
-include $(SIM_SOURCES:%.c=$(B)/sim/%.d)

.PHONY: sim sim-seed sim-faults
sim: $(B)/sim/simulator ## simulates SEEDS clusters from FIRST on; a failing seed is printed
	$(B)/sim/simulator run
sim-seed: $(B)/sim/simulator ## replays one SEED with its trace; FAULT=NAME switches a deliberate fault on
	$(B)/sim/simulator seed $(SEED)
sim-faults: $(B)/sim/simulator ## searches a catching seed for each deliberate fault
	$(B)/sim/simulator faults
export FIRST SEEDS FAULT

# ---- specs and cluster tests ----

LUA_PATHS = LUA_PATH='lua/?.lua;tests/?.lua;;' LUA_CPATH='$(B)/$1/lib/?.so;$(B)/release/lib/?.so;;'
SPECS := $(wildcard spec/*_spec.lua)
CLUSTER_SPECS := $(sort $(wildcard tests/cluster/*_spec.lua))
# What the tree is checked with is tested too.
TOOL_SPECS := $(sort $(wildcard tests/*_spec.lua tests/lint/*_spec.lua))

# Spawning, signals, waiting, ports and clocks for the cluster tests: Debian has no lua-posix for 5.4.
$(B)/release/lib/proc.so: $(B)/release/tests/cluster/proc.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -o $@ $<
# Preloaded into a veenad: a cut network, a hanging or failing disk.
$(B)/release/lib/faults.so: $(B)/release/tests/cluster/faults.o
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -o $@ $< -ldl
CLUSTER_HELPERS := $(B)/release/lib/proc.so $(B)/release/lib/faults.so
-include $(CLUSTER_HELPERS:$(B)/release/lib/%.so=$(B)/release/tests/cluster/%.d)

.PHONY: spec cluster
spec: $(if $(HAVE_SPEC),$(B)/release/lib/veena/spec.so) ## runs the specs of the policies and of lua/
	$(call LUA_PATHS,release) $(BUSTED) --output=TAP spec
cluster: all $(CLUSTER_HELPERS) ## runs the cluster tests, real processes (SCALE=full, SPEC=file, FILTER=words)
	$(call LUA_PATHS,release) VEENAD=$(B)/veenad VEENA=$(B)/veena $(BUSTED) --output=TAP \
		$(if $(FILTER),--filter='$(FILTER)') $(or $(SPEC),tests/cluster)

.PHONY: chaos
chaos: all $(CLUSTER_HELPERS) ## kills, freezes, cuts and slows a cluster under all kinds of clients for T seconds
	CHAOS_S=$(T) $(call LUA_PATHS,release) VEENAD=$(B)/veenad VEENA=$(B)/veena $(BUSTED) --output=TAP tests/cluster/chaos_spec.lua

.PHONY: soak
soak: all $(CLUSTER_HELPERS) ## half of what three nodes can do for T seconds: prints what grows, and fails if anything does
	$(call LUA_PATHS,release) VEENAD=$(B)/veenad $(LUA) tests/cluster/soak.lua $(T)

# ---- bench ----

BENCH_PROGRAMS := $(patsubst tests/bench/%.c,$(B)/release/bench/%,$(sort $(wildcard tests/bench/*.c)))
$(BENCH_PROGRAMS): $(B)/release/bench/%: $(B)/release/tests/bench/%.o $(call archives_of,release,control)
	@mkdir -p $(@D)
	$(say) "LD release $@"
	$(Q)$(CC) -o $@ $< $(call group,$(filter %.a,$^)) $(sort -lev -llmdb $(call libs_of,control))
-include $(patsubst tests/bench/%.c,$(B)/release/tests/bench/%.d,$(wildcard tests/bench/*.c))

.PHONY: bench
bench: all $(BENCH_PROGRAMS) $(B)/release/lib/proc.so ## measures reads and durable writes against bare bounds
	@$(call LUA_PATHS,release) VEENAD=$(B)/veenad BENCH=$(B)/release/bench $(LUA) tests/bench/bench.lua

# ---- lint ----

C_FILES := $(sort $(wildcard src/*.[ch] src/*/*.[ch] tests/*/*.[ch]))
LUA_FILES = $(sort $(wildcard lua/*.lua lua/*/*.lua policies/*.lua policies/*/*.lua spec/*.lua spec/*/*.lua \
	src/*/*.lua tests/*.lua tests/*/*.lua contrib/*.lua contrib/*/*.lua))
TIDY_FLAGS = -std=c11 -D_GNU_SOURCE $(INCLUDES) -I.
TIDIED := $(patsubst %.c,$(B)/lint/%.tidy,$(filter %.c,$(C_FILES)))

# A file is looked at again when it or a header changed.
$(B)/lint/%.tidy: %.c .clang-tidy tests/.clang-tidy $(filter %.h,$(C_FILES))
	@mkdir -p $(@D)
	$(Q)clang-tidy --quiet $< -- $(TIDY_FLAGS) $(if $(filter tests/sim/%,$<),-DVEENA_SIM) >$@.log 2>&1 && mv $@.log $@ || \
		{ cat $@.log; exit 1; }

# It cannot follow a variable that a called function fills: gcc, clang and ASan do that better.
CPPCHECK_NOT := --suppress=uninitvar --suppress=legacyUninitvar --suppress=ctuuninitvar --suppress=arrayIndexThenCheck

.PHONY: lint lint-arrows lint-format lint-tidy lint-cppcheck lint-lua
lint: lint-arrows lint-format lint-tidy lint-cppcheck lint-lua ## include arrows, rooms, bans, format, tidy, cppcheck
lint-arrows:
	$(Q)$(LUA) tests/lint/lint.lua .
	$(Q)$(LUA) tests/lint/faults.lua .
lint-format:
	$(Q)clang-format --dry-run -Werror $(C_FILES)
lint-tidy: $(TIDIED)
lint-cppcheck:
	@mkdir -p $(B)/lint/cppcheck
	$(Q)cppcheck -q -j$(JOBS) --cppcheck-build-dir=$(B)/lint/cppcheck --std=c11 --enable=warning,performance,portability \
		--inline-suppr $(CPPCHECK_NOT) --error-exitcode=1 -D_GNU_SOURCE -Isrc -I. \
		$(filter %.c,$(C_FILES))
lint-lua:
	$(Q)luacheck -q --no-color $(LUA_FILES)

# The slow analyzers, clang's and gcc's. Both follow a path through one file and guess what lies beyond; the findings
# that were looked at and are none stand with their reasons in tests/lint/analyze_known.lua.
ANALYZED := $(patsubst %.c,$(B)/analyze/%.log,$(filter src/%.c,$(C_FILES)))
ANALYZER_CHECKS := -*,clang-analyzer-*,-clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling
$(B)/analyze/%.log: %.c $(filter src/%.h,$(C_FILES))
	@mkdir -p $(@D)
	$(say) "ANALYZE $<"
	$(Q)clang-tidy --quiet --config="{Checks: '$(ANALYZER_CHECKS)'}" $< -- $(TIDY_FLAGS) >$@.tmp 2>&1 && \
		$(CC) $(filter-out -Werror,$(CFLAGS_common)) -O1 -fanalyzer -c -o /dev/null $< >>$@.tmp 2>&1 && \
		mv $@.tmp $@ || { cat $@.tmp; exit 1; }

.PHONY: analyze
analyze: $(ANALYZED) ## the slow analyzers: clang's, and gcc's -fanalyzer
	$(Q)$(LUA) tests/lint/analyze.lua $(ANALYZED)

.PHONY: fault-table
fault-table: ## writes the table of known faults and their tests into tests/README.md
	$(Q)$(LUA) tests/lint/faults.lua . --write

.PHONY: fmt
fmt: ## formats the C sources in place
	$(Q)clang-format -i $(C_FILES)

# ---- check and faults: everything, and one line of counts ----

# One line for each program: kind, seconds it may take, name, command. tests/tally.lua runs them and counts.
# Kinds: `cmocka`, `busted` and `counts` must say what they did, `exit` counts as one; `!` behind a kind runs it alone.
T_ASAN = LD_PRELOAD=$$(gcc -print-file-name=libasan.so)
define plan_lines
exit 10 build test -f $(B)/check/built
exit 60 lint-arrows $(MAKE) B=$(B) lint-arrows
exit 60 lint-format $(MAKE) B=$(B) lint-format
exit! 240 lint-tidy $(MAKE) B=$(B) -k -j$(JOBS) lint-tidy
exit! 120 lint-cppcheck $(MAKE) B=$(B) lint-cppcheck
exit 60 lint-lua $(MAKE) B=$(B) lint-lua
exit 10 hardened $(LUA) tests/lint/hardened.lua $(B)/veenad $(B)/veena
$(if $(TOOL_SPECS),busted 60 tools $(call LUA_PATHS,release) $(BUSTED) $(TOOL_SPECS))
$(foreach p,$(call all_units_of,release),cmocka 120 $p $p$(newline))
$(foreach p,$(call all_units_of,asan),cmocka 240 $p $p$(newline))
$(foreach p,$(TSAN_UNITS),cmocka 240 $p $(NO_ASLR) $p$(newline))
$(foreach f,$(FUZZERS),counts 120 replay-$f $(B)/asan/fuzz/$f tests/fuzz/corpus/$(f:fuzz_%=%)$(newline))
$(if $(SPECS),busted 120 spec $(call LUA_PATHS,release) $(BUSTED) spec)
$(if $(SPECS),busted 240 spec-asan $(T_ASAN) $(call LUA_PATHS,asan) $(BUSTED) spec)
endef
define newline


endef
cluster_lines = $(foreach f,$(CLUSTER_SPECS),busted! $1 $(basename $(notdir $f)) \
	$(call LUA_PATHS,release) VEENAD=$(B)/veenad VEENA=$(B)/veena SCALE=$2 $(BUSTED) $f$(newline))

CHECK_PROGRAMS = $(call all_units_of,release) $(call all_units_of,asan) $(TSAN_UNITS) $(REPLAYS) \
	$(B)/veenad $(B)/veena $(CLUSTER_HELPERS) $(if $(HAVE_SIM),$(B)/sim/simulator) \
	$(if $(HAVE_SPEC),$(B)/lib/veena/spec.so $(B)/asan/lib/veena/spec.so)

.PHONY: check check-run check-build faults faults-run
check: deps ## everything once, short: builds, lint, units, fuzz corpora, specs, simulator, clusters
	@$(MAKE) --no-print-directory check-run
faults: deps ## the same at full length, with the slow analyzers
	@$(MAKE) --no-print-directory faults-run

check-build: $(CHECK_PROGRAMS)

# What does not build is not there to be run, and so counts as failed; -k builds the rest.
build_all = @rm -f $(B)/check/built; \
	if $(MAKE) --no-print-directory -k -j$(JOBS) check-build; then touch $(B)/check/built; fi

$(B)/check/log:
	@mkdir -p $@

check-run: $(B)/check/log
	$(build_all)
	$(file >$(B)/check/plan,$(plan_lines))
	$(if $(HAVE_SIM),$(file >>$(B)/check/plan,counts! 480 sim $(B)/sim/simulator check))
	$(file >>$(B)/check/plan,$(call cluster_lines,300,short))
	@MAKEFLAGS= $(LUA) tests/tally.lua -j $(JOBS) -o $(B)/check/log $(B)/check/plan

faults-run: $(B)/check/log
	$(build_all)
	$(file >$(B)/check/plan,$(plan_lines))
	$(file >>$(B)/check/plan,exit! 3600 analyze $(MAKE) -k -j$(JOBS) --no-print-directory analyze B=$(B))
	$(if $(HAVE_SIM),$(file >>$(B)/check/plan,counts! 7200 sim env SEEDS=3000 $(B)/sim/simulator check))
	$(file >>$(B)/check/plan,$(call cluster_lines,3600,full))
	@MAKEFLAGS= $(LUA) tests/tally.lua -j $(JOBS) -o $(B)/check/log $(B)/check/plan

# ---- the rest ----

.PHONY: help
help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: clean
clean: ## removes what was built
	rm -rf $(B)
