# SPDX-License-Identifier: Apache-2.0
# fp8conv: `make help` lists what a user types.
VERSION  := 0.1.0
PREFIX   ?= /usr/local
BUILD    ?= build
CFLAGS   ?= -O2 -g
WERROR   ?=
SANITIZE ?=
V        ?=
Q        := $(if $(V),,@)

WARN   := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wconversion \
	  -Wno-sign-conversion $(if $(WERROR),-Werror)
# The bytes are promised: no contraction and no fast math, ever.
FP     := -ffp-contract=off -fno-fast-math
HARDEN := -fstack-protector-strong -fPIE $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
SAN    := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CPPFLAGS += -Isrc -I. -D_GNU_SOURCE -DFP8CONV_VERSION='"$(VERSION)"' -MMD -MP
C      = $(CC) -std=gnu11 $(CPPFLAGS) $(WARN) $(FP) $(HARDEN) $(SAN) $(CFLAGS) -pthread
LINK   = $(CC) -pie -Wl,-z,relro,-z,now,-z,noexecstack $(SAN) $(LDFLAGS) -pthread
LIBS    = $(CUDA_LIBS) -ljansson -lpcre2-8 -lunistring -lcrypto -lisal -lz -lm -ldl
DEPS   := gcc g++ make libc6-dev libjansson-dev libpcre2-dev libunistring-dev libssl-dev libisal-dev zlib1g-dev \
	  libcmocka-dev libdnnl-dev mandoc groff python3 python3-venv $(EXTRA)

# Instruction sets: files of their own with flags of their own, chosen at run time.
ISA = $(if $(findstring cpu/avx2/,$*),-mavx2 -mf16c) $(if $(findstring cpu/avx2/forward,$*),-mfma) \
      $(if $(findstring cpu/avx512/,$*),-mavx512f -mavx512bw -mavx512vl -mavx512dq) \
      $(if $(filter %/avx2/forward %/avx512/forward %/forward/ops,$*),-Wno-psabi)

# Kernels for the GPU, where the toolkit is: CUDA=1 fails without it, CUDA=0 does not look.
CUDA      ?= auto
NVCC      ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
WITH_CUDA := $(if $(SANITIZE),,$(if $(filter-out 0,$(CUDA)),$(NVCC)))
ifeq ($(CUDA)$(WITH_CUDA),1)
$(error CUDA=1, and there is no nvcc: install the CUDA toolkit, or name it by NVCC=)
endif
SM        := 80 89 90a 100 120
ifneq ($(WITH_CUDA),)
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(WITH_CUDA)))
CUDA_OBJ  := $(patsubst %,$(BUILD)/%.o,$(wildcard kernels/gpu/*.cu kernels/gpu/*/*.cu))
CUDA_LIBS := -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lpthread -lstdc++
endif
NVCC_FLAGS = -std=c++20 -O3 --fmad=false -Isrc -I. -Ikernels/gpu/cuda -MMD -MP --threads 2 \
	     $(foreach sm,$(SM),-gencode arch=compute_$(sm),code=sm_$(sm)) -gencode arch=compute_80,code=compute_80 \
	     $(if $(WERROR),--Werror all-warnings) -Xcompiler "$(FP) $(HARDEN) -Wall -fno-exceptions"

LIB_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/*/*.c kernels/*.c kernels/cpu/*/*.c)) \
	   $(BUILD)/gen/recipes.o $(BUILD)/gen/formats.o $(BUILD)/gen/archs.o $(CUDA_OBJ)
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c cli/*/*.c)) $(BUILD)/gen/commands.o
UNIT    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
FUZZ    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

# The same kernels on the CPU: CUDA's words are those of tests/simt, and each thread is a fiber.
CXX_FLAGS = -std=gnu++20 $(CPPFLAGS) -Wall -Wextra $(if $(WERROR),-Werror) -fno-exceptions -fno-rtti $(FP) $(HARDEN) \
	    $(SAN) $(CFLAGS) -pthread
SIMT_OBJ  := $(patsubst %,$(BUILD)/simt/%.o,$(filter-out %/cuda/device.cu %/cublaslt_check.cu,$(wildcard kernels/gpu/*.cu kernels/gpu/*/*.cu)) \
	     $(wildcard tests/simt/*.cc) kernels/backends.c)
PARITY    := test_kernels test_kernels_values test_cast_transpose test_golden test_delayed \
	     test_executor test_executor_rows test_executor_attention test_executor_products
SIMT      := $(patsubst %,$(BUILD)/simt/%,$(basename $(notdir $(wildcard tests/simt/test_*.c))) $(PARITY))

.PHONY: all
all: $(BUILD)/fp8conv

$(BUILD)/fp8conv: $(CLI_OBJ) $(BUILD)/libfp8conv.a
	@echo "  LINK $@"
	$(Q)$(LINK) -o $@ $^ $(LIBS)

$(BUILD)/libfp8conv.a: $(LIB_OBJ)
	@echo "  AR   $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(C) $(ISA) -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(Q)$(C) -c -o $@ $<

# A row is added by adding its file.
$(BUILD)/gen/recipes.c: src/registry.sh $(wildcard src/recipe/recipe_*.c)
$(BUILD)/gen/formats.c: src/registry.sh $(wildcard src/format/format_*.c)
$(BUILD)/gen/archs.c: src/registry.sh $(wildcard src/model/arch_*.c)
$(BUILD)/gen/commands.c: src/registry.sh $(wildcard cli/cmd_*.c)
$(BUILD)/gen/%s.c:
	@mkdir -p $(@D)
	$(Q)sh src/registry.sh $* $(filter %.c,$^) > $@.tmp && mv $@.tmp $@

# A test, proof or benchmark is one file and the library.
ONE_FILE := $(patsubst %.c,$(BUILD)/%,$(filter-out tests/fuzz/% tests/simt/%,$(wildcard tests/*/*.c bench/*.c)))
$(ONE_FILE): $(BUILD)/%: %.c $(BUILD)/libfp8conv.a
	@mkdir -p $(@D); echo "  CC   $@"
	$(Q)$(C) -fPIE -pie -o $@ $< $(BUILD)/libfp8conv.a $(LDFLAGS) -lcmocka $(LIBS)

$(BUILD)/%.cu.o: %.cu
	@mkdir -p $(@D); echo "  NVCC $<"
	$(Q)$(WITH_CUDA) $(NVCC_FLAGS) -c -o $@ $<
GPU_BENCH := $(BUILD)/bench/gpu $(BUILD)/bench/gpu_gemm
$(BUILD)/bench/gpu: $(BUILD)/bench/gpu_bf16.cu.o
$(GPU_BENCH): %: %.cu.o $(BUILD)/libfp8conv.a
	@echo "  LINK $@"
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(BUILD)/libfp8conv.a $(LIBS)
$(BUILD)/kernels/backends.o: CPPFLAGS += $(if $(WITH_CUDA),-DFP8CONV_CUDA)
# Made anew where a build with CUDA follows one without it, or the other way round.
BUILT_FOR := $(BUILD)/gen/$(if $(WITH_CUDA),with,without)-cuda
$(BUILD)/kernels/backends.o: $(BUILT_FOR)
$(BUILT_FOR):
	@mkdir -p $(@D); rm -f $(@D)/*-cuda; touch $@

$(BUILD)/simt/%.cu.o: %.cu
	@mkdir -p $(@D); echo "  SIMT $<"
	$(Q)$(CXX) -x c++ $(CXX_FLAGS) -Itests/simt -c -o $@ $<
$(BUILD)/simt/%.cc.o: %.cc
	@mkdir -p $(@D); echo "  SIMT $<"
	$(Q)$(CXX) $(CXX_FLAGS) -Itests/simt -c -o $@ $<
$(BUILD)/simt/%.c.o: %.c
	@mkdir -p $(@D); echo "  SIMT $<"
	$(Q)$(C) -DFP8CONV_CUDA -c -o $@ $<
vpath test_%.c tests/simt tests/unit
$(BUILD)/simt/test_%: test_%.c $(SIMT_OBJ) $(BUILD)/libfp8conv.a
	@echo "  SIMT $@"
	$(Q)$(C) -fPIE -pie -rdynamic -o $@ $< $(SIMT_OBJ) $(BUILD)/libfp8conv.a $(LDFLAGS) -lcmocka -lstdc++ $(LIBS)
$(BUILD)/simt/fp8conv: $(CLI_OBJ) $(SIMT_OBJ) $(BUILD)/libfp8conv.a
	@echo "  SIMT $@"
	$(Q)$(LINK) -rdynamic -o $@ $^ -lstdc++ $(LIBS)

# A fuzz target has its main() from libFuzzer, or else from replay.c.
FUZZ_OBJ  := $(patsubst %,$(BUILD)/tests/fuzz/%.o,support checkpoint $(if $(findstring fuzzer,$(SANITIZE)),,replay))
FUZZ_MAIN := $(if $(findstring fuzzer,$(SANITIZE)),-fsanitize=fuzzer)
$(FUZZ): $(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJ) $(BUILD)/libfp8conv.a
	@mkdir -p $(@D); echo "  CC   $@"
	$(Q)$(C) -fPIE -pie $(FUZZ_MAIN) -o $@ $< $(FUZZ_OBJ) $(BUILD)/libfp8conv.a $(LDFLAGS) $(LIBS)

.PHONY: help
help:
	@sed -n 's/^## //p' Makefile

## make              build build/fp8conv
## make demo         install what is missing, build, quantize a small model and show the result
## make check        the same set-up, then the tests
## make deps         install the Debian packages that building and testing need
.PHONY: deps
deps:
	@missing=; for p in $(DEPS); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
		echo "make deps: installing$$missing"; \
		sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
		$$sudo apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive $$sudo apt-get install -q -y --no-install-recommends $$missing; \
	fi

.PHONY: demo
demo: deps
	@$(MAKE) --no-print-directory all
	@FP8CONV=$(BUILD)/fp8conv sh tests/demo.sh

.PHONY: check
check: deps
	@$(MAKE) --no-print-directory all $(UNIT) $(SIMT) $(BUILD)/simt/fp8conv $(FUZZ) $(BUILD)/tests/fault/inject \
		$(if $(WITH_CUDA),$(BUILD)/bench/model)
	@FP8CONV=$(abspath $(BUILD)/fp8conv) BUILD=$(BUILD) sh tests/run.sh

## make lint         cppcheck, clang-tidy and gcc -fanalyzer (make deps EXTRA="clang-tidy cppcheck")
.PHONY: lint
lint:
	@sh tests/lint.sh

## make format       lay out all C and CUDA sources (clang-format 14, as in Debian 12); tests/style.sh checks
.PHONY: format
format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cc')

## make prove        the exhaustive proofs: every float, every format, every instruction set (minutes)
.PHONY: prove
prove: deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) CC="$(CC)" sh tests/prove/run.sh

## make fault        every I/O call fails once, 200 kills, signals, limits, full disks (make check takes a sample; minutes)
.PHONY: fault
fault: deps
	@$(MAKE) --no-print-directory all $(BUILD)/tests/fault/inject
	@FP8CONV=$(abspath $(BUILD)/fp8conv) BUILD=$(BUILD) sh tests/fault/run.sh long

## make conformance  other people's packages read what fp8conv wrote (a Python environment of some GB)
.PHONY: conformance
conformance: deps
	@$(MAKE) --no-print-directory all $(BUILD)/tests/conformance/tokenize $(BUILD)/tests/conformance/forward
	@FP8CONV=$(abspath $(BUILD)/fp8conv) sh tests/conformance/run.sh

## make fuzz         SECONDS=60 of libFuzzer for each parser and for the whole path of a conversion (clang)
SECONDS ?= 60
.PHONY: fuzz fuzz-targets
fuzz-targets: $(FUZZ)
fuzz: deps
	@$(MAKE) --no-print-directory fuzz-targets CC=clang BUILD=build/fuzz SANITIZE=fuzzer-no-link,address,undefined
	@BUILD=build/fuzz SECONDS=$(SECONDS) MERGE=$(MERGE) sh tests/fuzz/run.sh $(TARGETS)

## make bench        every figure of the README, as a ratio to a limit measured in the same run
.PHONY: bench
bench: deps
	@$(MAKE) --no-print-directory all $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c)) \
		$(if $(WITH_CUDA),$(GPU_BENCH))
	@python3 bench/run.py --build $(BUILD) $(BENCH)

## make gpu          on an NVIDIA GPU: parity, compute-sanitizer, files and speed, in 8 minutes (tests/gpu.sh)
.PHONY: gpu gpu-targets
gpu-targets: all $(patsubst %,$(BUILD)/tests/unit/%,$(PARITY)) $(patsubst %,$(BUILD)/bench/%,model products copy_half) \
	     $(GPU_BENCH)
gpu: deps
	@sh tests/gpu.sh

## make install      to $(PREFIX) below $(DESTDIR); make uninstall takes it away; make deb makes a Debian package
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/fp8conv \
	$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_fp8conv \
	$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/fp8conv.fish
MAN_DIR = $(DESTDIR)$(PREFIX)/share/man

.PHONY: install uninstall deb clean
install: all
	install -D -m 755 $(BUILD)/fp8conv $(DESTDIR)$(PREFIX)/bin/fp8conv
	set -e; for page in man/*.[157]; do install -D -m 644 $$page $(MAN_DIR)/man$${page##*.}/$${page##*/}; done
	set -e; set -- bash zsh fish; for file in $(COMPLETIONS); do mkdir -p $$(dirname $$file); \
		$(BUILD)/fp8conv completion $$1 > $$file; shift; done

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/fp8conv $(COMPLETIONS)
	for page in man/*.[157]; do rm -f $(MAN_DIR)/man$${page##*.}/$${page##*/}; done

deb: all
	rm -rf $(BUILD)/deb
	@$(MAKE) --no-print-directory install DESTDIR=$(BUILD)/deb PREFIX=/usr
	strip $(BUILD)/deb/usr/bin/fp8conv
	install -D -m 644 LICENSE $(BUILD)/deb/usr/share/doc/fp8conv/copyright
	mkdir -p $(BUILD)/deb/DEBIAN
	printf '%s\n' 'Package: fp8conv' 'Version: $(VERSION)' "Architecture: $$(dpkg --print-architecture)" \
		'Maintainer: the fp8conv authors <fp8conv@localhost>' 'Section: science' 'Priority: optional' \
		'Depends: libc6, libjansson4, libpcre2-8-0, libunistring2, libssl3, libisal2, zlib1g' \
		'Description: turns LLM checkpoints into FP8 ones that inference engines load' > $(BUILD)/deb/DEBIAN/control
	dpkg-deb --root-owner-group --build $(BUILD)/deb $(BUILD)

## make clean        remove build/
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
