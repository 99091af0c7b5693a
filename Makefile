# SPDX-License-Identifier: Apache-2.0
# fp8conv: `make help` lists the targets.
VERSION := 0.1.0
PREFIX  ?= /usr/local
BUILD   ?= build
CC      ?= cc
CFLAGS  ?= -O2 -g
WARN    := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wconversion -Wno-sign-conversion $(if $(WERROR),-Werror)
# Bits are promised: no contraction, no fast math, ever.
FPFLAGS := -ffp-contract=off -fno-fast-math -frounding-math
HARDEN  := -fstack-protector-strong -fPIE $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
ALL_CFLAGS = -std=gnu11 -Isrc -I$(BUILD)/gen -DFP8CONV_VERSION='"$(VERSION)"' $(WARN) $(FPFLAGS) $(HARDEN) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all) $(CFLAGS) -pthread -MMD -MP
ALL_LDFLAGS = -pie -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS) -pthread
LIBS    := -ljansson -lpcre2-8 -lcrypto -lm
