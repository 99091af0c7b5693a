# SPDX-License-Identifier: Apache-2.0
# fp8conv: `make help` lists what a user types.  tests/tests.mk has the tests,
# packaging/packaging.mk what is installed and packed.
VERSION  := 0.1.0
BUILD    ?= build
CFLAGS   ?= -O2 $(if $(SANITIZE),-g1,-g)
WERROR   ?=
SANITIZE ?=
V        ?=
Q        := $(if $(V),,@)

WARN   := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes -Wstrict-prototypes -Wconversion \
	  -Wno-sign-conversion $(if $(WERROR),-Werror)
# The bytes are promised: no contraction and no fast math, ever.
FP     := -ffp-contract=off -fno-fast-math
HARDEN := -fstack-protector-strong -fPIC $(if $(SANITIZE),,-D_FORTIFY_SOURCE=2)
SAN    := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
CPPFLAGS += -Iinclude -Isrc -I. -D_GNU_SOURCE -DFP8CONV_VERSION='"$(VERSION)"' -MMD -MP
C      = $(CC) -std=gnu11 $(CPPFLAGS) $(WARN) $(FP) $(HARDEN) $(HIDDEN) $(SAN) $(CFLAGS) -pthread
LINK   = $(CC) -Wl,-z,relro,-z,now,-z,noexecstack,--build-id=none $(SAN) $(LDFLAGS) -pthread
LIBS   = $(CUDA_LIBS) $(MPI_LIBS) -ljansson -lpcre2-8 -lunistring -lcrypto -lisal -lz -lzstd -lm -ldl

# Instruction sets of the machine that CC compiles for: files of their own with flags of their own,
# chosen at run time.
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine)))
ISAS    := $(if $(filter x86_64,$(MACHINE)),avx2 avx512) $(if $(filter aarch64,$(MACHINE)),neon)
ISA = $(if $(findstring cpu/avx2/,$*),-mavx2 -mf16c) $(if $(findstring cpu/avx2/forward,$*),-mfma) \
      $(if $(findstring cpu/avx512/,$*),-mavx512f -mavx512bw -mavx512vl -mavx512dq) \
      $(if $(findstring cpu/avx512/attention,$*),-mavx512bf16) \
      $(if $(filter %/forward/ops,$*)$(findstring kernels/cpu/avx,$*),-Wno-psabi)

# Kernels for the GPU, where the toolkit is: CUDA=1 fails without it, CUDA=0 does not look.
GPU_SRC   := $(wildcard kernels/gpu/*.cu kernels/gpu/*/*.cu)
CUDA      ?= auto
NVCC      ?= $(or $(shell command -v nvcc),$(wildcard /usr/local/cuda/bin/nvcc))
WITH_CUDA := $(if $(SANITIZE),,$(if $(filter-out 0,$(CUDA)),$(NVCC)))
ifeq ($(CUDA)$(WITH_CUDA),1)
$(error CUDA=1 needs nvcc: install the CUDA toolkit, or give its path in NVCC=)
endif
# Of these, the ones that this nvcc knows.  A GPU of another architecture runs the PTX.
SM        := 80 89 90a 100 120
PTX       := 80 90
ifneq ($(WITH_CUDA),)
NVCC_KNOWS := $(shell $(WITH_CUDA) --list-gpu-arch)
known     = $(strip $(foreach sm,$1,$(if $(filter compute_$(sm:a=),$(NVCC_KNOWS)),$(sm))))
override SM  := $(call known,$(SM))
override PTX := $(call known,$(PTX))
ifeq ($(SM)$(PTX),)
$(error $(WITH_CUDA) lists none of the GPU architectures wanted: install CUDA 12.0 or newer)
endif
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(WITH_CUDA)))
CUDA_OBJ  := $(patsubst %,$(BUILD)/%.o,$(GPU_SRC))
CUDA_LIBS := -L$(CUDA_HOME)/lib64 -lcudart_static -lrt -lpthread -lstdc++
endif
NVCC_LANG  := -std=c++20 -O3 --fmad=false -Iinclude -Isrc -I. -Ikernels/gpu/cuda -MMD -MP
NVCC_FLAGS = $(NVCC_LANG) --threads 2 \
	     $(foreach sm,$(SM),-gencode arch=compute_$(sm),code=sm_$(sm)) \
	     $(foreach sm,$(PTX),-gencode arch=compute_$(sm),code=compute_$(sm)) \
	     $(if $(WERROR),--Werror all-warnings) \
	     -Xcompiler "$(FP) $(HARDEN) -Wall -fno-exceptions"

# Ranks by Open MPI, only if asked for: MPI=1.
MPI ?= 0
ifeq ($(MPI),1)
MPI_LIBS := $(shell pkg-config --libs ompi-c)
$(if $(MPI_LIBS),,$(error MPI=1 needs Open MPI: install libopenmpi-dev and pkg-config))
$(BUILD)/src/ranks/group_mpi.o: CPPFLAGS += -DFP8CONV_MPI $(shell pkg-config --cflags ompi-c)
endif

# These read at the speed of memory: gcc keeps the lanes of a loop in registers at -O3 alone.
$(BUILD)/src/verify/values/scan.o $(BUILD)/src/diff/values.o $(BUILD)/src/execute/pipeline_check.o: CFLAGS += -O3

LIB_SRC := $(wildcard src/*/*.c src/*/*/*.c kernels/*.c $(patsubst %,kernels/cpu/%/*.c,cast forward $(ISAS)))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o) $(CUDA_OBJ) \
	   $(BUILD)/gen/recipes.o $(BUILD)/gen/formats.o $(BUILD)/gen/archs.o
CLI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c cli/*/*.c)) $(BUILD)/gen/commands.o \
	   $(BUILD)/gen/page_html.o

# The shared library is made of the same objects as the program.  Only what lib/ marks is visible.
SO     := libfp8conv.so.1
SO_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard lib/*.c))
$(LIB_OBJ) $(CLI_OBJ) $(SO_OBJ): HIDDEN := -fvisibility=hidden

.PHONY: all
all: $(BUILD)/fp8conv $(BUILD)/$(SO)

$(BUILD)/fp8conv: $(CLI_OBJ) $(BUILD)/libfp8conv.a
	@echo "  LINK $@"
	$(Q)$(LINK) -pie -o $@ $^ $(LIBS)

$(BUILD)/$(SO): lib/fp8conv.map $(SO_OBJ) $(filter-out %/main.o,$(CLI_OBJ)) $(BUILD)/libfp8conv.a
	@echo "  LINK $@"
	$(Q)$(LINK) -shared -Wl,-soname,$(SO) -Wl,--version-script=$< -o $@ $(filter-out $<,$^) \
		$(LIBS)

$(BUILD)/libfp8conv.a: $(LIB_OBJ)
	@echo "  AR   $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D); echo "  CC   $<"
	$(Q)$(C) $(ISA) -c -o $@ $<

$(BUILD)/gen/%.o: $(BUILD)/gen/%.c
	$(Q)$(C) -c -o $@ $<

# A row is added by adding its file.
$(BUILD)/gen/recipes.c: src/registry.sh src/recipe/rows.c
$(BUILD)/gen/formats.c: src/registry.sh $(wildcard src/format/format_*.c)
$(BUILD)/gen/archs.c: src/registry.sh $(wildcard src/arch/arch_*.c)
$(BUILD)/gen/commands.c: src/registry.sh $(wildcard cli/cmd_*.c)
$(BUILD)/gen/%s.c:
	@mkdir -p $(@D)
	$(Q)sh src/registry.sh $* $(filter %.c,$^) > $@.tmp && mv $@.tmp $@

# A page as a text of C.
$(BUILD)/gen/page_html.c: cli/report/page.html
	@mkdir -p $(@D)
	$(Q)(echo 'const char page_html[] ='; sed 's/[\\"]/\\&/g; s/^/"/; s/$$/\\n"/' $<; echo ';') > $@

# Rebuilt when the version changes.
VERSION_BUILT := $(BUILD)/gen/version-$(VERSION)
$(VERSION_BUILT):
	@mkdir -p $(@D); rm -f $(@D)/version-*; touch $@
$(patsubst %.c,$(BUILD)/%.o,$(shell grep -rl --include='*.c' FP8CONV_VERSION src cli lib)): $(VERSION_BUILT)

# Rebuilt when MPI comes or goes.
MPI_BUILT := $(BUILD)/gen/mpi-$(if $(filter 1,$(MPI)),1,0)
$(MPI_BUILT):
	@mkdir -p $(@D); rm -f $(@D)/mpi-*; touch $@
$(BUILD)/src/ranks/group_mpi.o: $(MPI_BUILT)

# Rebuilt when the list of architectures changes.
BUILT_FOR := $(BUILD)/gen/cuda-$(subst $() ,-,$(if $(WITH_CUDA),$(SM) ptx $(PTX),none))
$(BUILT_FOR):
	@mkdir -p $(@D); rm -f $(@D)/cuda-*; touch $@
$(BUILD)/kernels/backends.o: CPPFLAGS += $(if $(WITH_CUDA),-DFP8CONV_CUDA)
$(BUILD)/kernels/backends.o $(CUDA_OBJ): $(BUILT_FOR)
$(BUILD)/%.cu.o: %.cu
	@mkdir -p $(@D); echo "  NVCC $<"
	$(Q)$(WITH_CUDA) $(NVCC_FLAGS) -c -o $@ $<

.PHONY: help
help:
	@sed -n 's/^## //p' Makefile tests/tests.mk packaging/packaging.mk | fold -s -w 80 | \
		sed '/^make /!s/^/                  /'

## make              build build/fp8conv, for every kind of GPU (-j8: by 8 processors; MPI=1: with Open MPI)
## make demo         install what is missing, build for the GPU that is here, convert and measure a small model
## make check        the same set-up, then the tests (SANITIZED=DIRECTORY: with a build for sanitizers that `make tests` made)
## make deps         install what building and testing need (Debian, Ubuntu), or name it (elsewhere)
## make clean        remove build/
.PHONY: deps demo check clean
deps:
	@CC="$(CC)" sh deps.sh $(EXTRA)

# GPU code for the GPUs that are here: of a compute capability that is not in SM, for the first one of its generation.
GPUS_HERE = $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed 's/\.//; /89/!s/.$$/0/')
SM_HERE   = $(filter $(GPUS_HERE) $(GPUS_HERE:%=%a),$(SM))
demo: deps
	@FP8CONV=$(BUILD)/fp8conv sh tests/demo.sh -j$(shell nproc) BUILD=$(BUILD) \
		$(if $(filter command,$(firstword $(origin CUDA))),,$(if $(SM_HERE),SM="$(SM_HERE)" PTX=,CUDA=0))

check: deps
	@$(MAKE) --no-print-directory tests
	@BUILD=$(BUILD) SANITIZE=$(SANITIZE) SANITIZED=$(SANITIZED) sh tests/run.sh

clean:
	rm -rf $(BUILD)

include tests/tests.mk packaging/packaging.mk
-include $(shell find $(BUILD) -name '*.d' -type f 2>/dev/null)
