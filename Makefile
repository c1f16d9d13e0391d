# veena's only entry point. `make help` lists the targets; the line after `##` at each one is its help.
#
# One non-recursive Makefile: every variant's objects lie in build/<variant>/, every folder of src/ is one static
# archive there, sources are found by wildcard. A folder without sources is an empty archive and breaks nothing.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
SHELL := /bin/sh

# What a caller may set.
VARIANT ?= release
PREFIX ?= /usr/local
DESTDIR ?=
# Where everything goes; set it to build apart from another make in the same tree.
B ?= build
T ?= 30
VERSION ?= $(shell git describe --always --dirty --tags 2>/dev/null || echo unknown)
CC := gcc
# Set to empty to see whole commands.
V ?=
Q := $(if $(V),,@)

# ---- folders, lowest first: a folder is linked with itself and those named before it ----

FOLDERS := base model raft wal store bbolt fsm net node service control http cli daemon
VARIANTS := release asan tsan sim

# The archives a folder's tests need. `daemon` is src/*.c: veenad.c, threads.c and what stands beside them.
below_base :=
below_model := base
below_raft := base
below_wal := base
below_store := model base
below_bbolt := model base
below_fsm := raft wal store model base
below_net := raft wal store model base
below_node := net fsm $(below_fsm)
below_service := node $(below_node)
below_http := service $(below_service)
below_control := service $(below_service)
below_cli := bbolt control http $(below_http)
below_daemon := control http $(below_http)

sources_of = $(sort $(if $(filter daemon,$1),$(wildcard src/*.c),$(wildcard src/$1/*.c)))
objects_of = $(patsubst src/%.c,$(B)/$1/obj/%.o,$(call sources_of,$2))
archives_of = $(foreach f,$2 $(below_$2),$(B)/$1/lib$f.a)

# ---- flags ----

PKGS := lua5.4 lmdb msgpack openssl libcrypt libcurl libedit libxxhash
PKG_INCLUDES := $(patsubst -I%,-isystem %,$(shell pkg-config --cflags-only-I $(PKGS) 2>/dev/null))

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wundef -Wvla -Werror
# -fPIC everywhere, so that the same archives make the programs and the Lua module of the specs; linked statically
# the linker relaxes what that costs. NDEBUG is never defined: assert stays on.
CFLAGS_common := -std=c11 -D_GNU_SOURCE $(WARNINGS) -fno-omit-frame-pointer -fPIC -fno-semantic-interposition \
	-pthread -g -Isrc -DVEENA_BUILD='"$(VERSION)"' $(PKG_INCLUDES)
CFLAGS_release := -O2
CFLAGS_asan := -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
CFLAGS_tsan := -O1 -fsanitize=thread
CFLAGS_sim := -O2 -DVEENA_SIM
LDFLAGS_asan := -fsanitize=address,undefined
LDFLAGS_tsan := -fsanitize=thread

LIBS_store := -llmdb
LIBS_model := -lmsgpackc
LIBS_fsm := -lxxhash
LIBS_net := -lev -lssl -lcrypto -lmsgpackc
LIBS_service := -lcrypt -lcrypto
LIBS_http := -lhttp_parser -lev
LIBS_control := -llua5.4
LIBS_cli := -lcurl -ledit -llua5.4
LIBS_daemon := -lev -llua5.4
libs_of = $(sort $(foreach f,$1 $(below_$1),$(LIBS_$f))) -lm -pthread
group = -Wl,--start-group $1 -Wl,--end-group

# ---- all ----

.PHONY: all
all: $(B)/veenad $(B)/veena ## builds the daemon and the command
ifneq ($(wildcard src/veenad.c),)
$(B)/veenad: $(B)/release/veenad
	$(Q)ln -f $< $@
else
.PHONY: $(B)/veenad
$(B)/veenad:
	@echo "src/veenad.c is missing"
endif
ifneq ($(wildcard src/cli/*.c),)
$(B)/veena: $(B)/release/veena
	$(Q)ln -f $< $@
else
.PHONY: $(B)/veena
$(B)/veena:
	@echo "src/cli is empty"
endif

# ---- objects and archives, for each variant ----

define variant_rules
$(B)/$1/obj/%.o: src/%.c $(B)/$1/flags
	@mkdir -p $$(@D)
	@echo "CC $1 $$<"
	$$(Q)$$(CC) $$(CFLAGS_common) $$(CFLAGS_$1) -MMD -MP -c -o $$@ $$<

$(B)/$1/tests/%.o: tests/%.c $(B)/$1/flags
	@mkdir -p $$(@D)
	@echo "CC $1 $$<"
	$$(Q)$$(CC) $$(CFLAGS_common) $$(CFLAGS_$1) -Itests -MMD -MP -c -o $$@ $$<

$(B)/$1/flags: .FORCE
	@mkdir -p $$(@D)
	@echo '$$(CC) $$(subst ',,$$(filter-out -DVEENA_BUILD%,$$(CFLAGS_common)) $$(CFLAGS_$1))' | cmp -s - $$@ || \
		echo '$$(CC) $$(subst ',,$$(filter-out -DVEENA_BUILD%,$$(CFLAGS_common)) $$(CFLAGS_$1))' >$$@

$(B)/$1/veenad: $$(call archives_of,$1,daemon)
	@echo "LD $1 $$@"
	$$(Q)$$(CC) $$(LDFLAGS_$1) -o $$@ $$(call group,$$^) $$(call libs_of,daemon)

$(B)/$1/veena: $$(call archives_of,$1,cli)
	@echo "LD $1 $$@"
	$$(Q)$$(CC) $$(LDFLAGS_$1) -o $$@ $$(call group,$$^) $$(call libs_of,cli)
endef
$(foreach v,$(VARIANTS),$(eval $(call variant_rules,$v)))

# $1 variant, $2 folder. The list of objects is a prerequisite too, so that a removed source leaves the archive.
define archive_rules
$(B)/$1/lib$2.a: $(call objects_of,$1,$2) $(B)/$1/$2.list
	$$(Q)rm -f $$@.tmp && ar rcs $$@.tmp $(call objects_of,$1,$2) && mv $$@.tmp $$@
$(B)/$1/$2.list: .FORCE
	@mkdir -p $$(@D)
	@echo '$(call objects_of,$1,$2)' | cmp -s - $$@ || echo '$(call objects_of,$1,$2)' >$$@
-include $(patsubst %.o,%.d,$(call objects_of,$1,$2))
endef
$(foreach v,$(VARIANTS),$(foreach f,$(FOLDERS),$(eval $(call archive_rules,$v,$f))))

.PHONY: .FORCE
.FORCE:

# ---- unit tests ----

unit_sources_of = $(sort $(wildcard tests/unit/test_$1_*.c))
unit_programs_of = $(patsubst tests/unit/%.c,$(B)/$1/unit/%,$(call unit_sources_of,$2))

# $1 variant, $2 folder
define unit_rules
$(call unit_programs_of,$1,$2): $(B)/$1/unit/%: $(B)/$1/tests/unit/%.o $(call archives_of,$1,$2)
	@mkdir -p $$(@D)
	@echo "LD $1 $$@"
	$$(Q)$$(CC) $$(LDFLAGS_$1) -o $$@ $$< $$(call group,$$(filter %.a,$$^)) -lcmocka $$(call libs_of,$2)
-include $(patsubst tests/%.c,$(B)/$1/tests/%.d,$(call unit_sources_of,$2))
endef
$(foreach v,$(VARIANTS),$(foreach f,$(FOLDERS),$(eval $(call unit_rules,$v,$f))))

# Sanitizers: cmocka catches SIGSEGV before ASan sees it, unless ASan insists.
SANITIZE_ENV := ASAN_OPTIONS=handle_segv=2:detect_leaks=1:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1:allocator_may_return_null=1

# unit-<folder> builds and runs the tests of one folder, for VARIANT.
define unit_target
.PHONY: unit-$1
unit-$1: $(call unit_programs_of,$(VARIANT),$1)
	@status=0; for t in $$^; do $(SANITIZE_ENV) $$$$t || { echo "$$$$t: failed" >&2; status=1; }; done; exit $$$$status
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_target,$f)))

.PHONY: unit
unit: $(addprefix unit-,$(FOLDERS)) ## builds and runs all unit tests (VARIANT=asan or tsan: under sanitizers)

# ---- the rest ----

.PHONY: help
help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: clean
clean: ## removes what was built
	rm -rf $(B)
