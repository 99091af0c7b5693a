# SPDX-License-Identifier: Apache-2.0
# fp8conv.  The targets that a user types are listed by `make help`.
VERSION := 0.1.0
PREFIX  ?= /usr/local
BUILD   ?= build
CFLAGS  ?= -O2 -g
WERROR  ?=
SANITIZE ?=

WARN    := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wconversion \
	   -Wno-sign-conversion $(if $(WERROR),-Werror)
# The bytes are promised: no contraction and no fast math, ever.
FP      := -ffp-contract=off -fno-fast-math
HARDEN  := -fstack-protector-strong -fPIE $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
SAN     := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CPPFLAGS += -Isrc -Icli/.. -D_GNU_SOURCE -DFP8CONV_VERSION='"$(VERSION)"' -MMD -MP
C       = $(CC) -std=gnu11 $(CPPFLAGS) $(WARN) $(FP) $(HARDEN) $(SAN) $(CFLAGS) -pthread
LINK    = $(CC) -pie -Wl,-z,relro,-z,now $(SAN) $(LDFLAGS) -pthread
LIBS    := -ljansson -lpcre2-8 -lcrypto -lisal -lz -lm

# Instruction sets: one file each, with its own flags, chosen at run time.
FLAGS_kernels/cpu/avx2   := -mavx2 -mf16c
FLAGS_kernels/cpu/avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq

LIB_SRC := $(wildcard src/*/*.c kernels/*.c kernels/cpu/*.c)
CLI_SRC := $(wildcard cli/*.c)
GEN     := $(addprefix $(BUILD)/gen/,recipes.c formats.c)
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(GEN:.c=.o)
CLI_OBJ := $(CLI_SRC:%.c=$(BUILD)/%.o) $(BUILD)/gen/commands.o
UNIT    := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(wildcard tests/unit/test_*.c))

.PHONY: all
all: $(BUILD)/fp8conv

$(BUILD)/fp8conv: $(CLI_OBJ) $(BUILD)/libfp8conv.a
	$(LINK) -o $@ $^ $(LIBS)

$(BUILD)/libfp8conv.a: $(LIB_OBJ)
	rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(C) $(FLAGS_$*) -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(C) -I. -c -o $@ $<

# A row is added by adding its file.
$(BUILD)/gen/recipes.c: src/registry.sh $(wildcard src/recipe/recipe_*.c)
$(BUILD)/gen/formats.c: src/registry.sh $(wildcard src/format/format_*.c)
$(BUILD)/gen/commands.c: src/registry.sh $(wildcard cli/cmd_*.c)
$(BUILD)/gen/%s.c:
	@mkdir -p $(@D)
	sh src/registry.sh $* $(filter %.c,$^) > $@.tmp && mv $@.tmp $@

$(BUILD)/unit/%: tests/unit/%.c $(BUILD)/libfp8conv.a
	@mkdir -p $(@D)
	$(C) -o $@ $< $(BUILD)/libfp8conv.a $(LDFLAGS) -lcmocka $(LIBS)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
