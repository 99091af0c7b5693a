# SPDX-License-Identifier: Apache-2.0
# Tests, proofs and benchmarks.
comma     := ,
UNIT      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/test_*.c))
FUZZ      := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

# What unit tests share, built once.
SUPPORT   := $(BUILD)/tests/unit/libsupport.a
$(SUPPORT): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/unit/support/*.c))
	@echo "  AR   $@"
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# These call the shared library, as a user's program does.
$(filter %/test_library %/test_library_device %/test_library_state %/test_library_run %/test_library_plan,$(UNIT)) \
	$(BUILD)/bench/library: $(BUILD)/$(SO)
# A test, proof or benchmark is one file and the library; a unit test has the support too.
$(UNIT): $(SUPPORT)
$(BUILD)/%: %.c $(BUILD)/libfp8conv.a
	@mkdir -p $(@D); echo "  CC   $@"
	$(Q)$(C) -fPIE -pie -o $@ $< $(filter $(SUPPORT) %.so.1,$^) $(BUILD)/libfp8conv.a $(LDFLAGS) \
		$(if $(filter %.so.1,$^),-Wl$(comma)-rpath$(comma)$(abspath $(BUILD))) \
		-lcmocka $(LIBS)

GPU_BENCH := $(BUILD)/bench/gpu $(BUILD)/bench/gpu_gemm
$(BUILD)/bench/gpu: $(BUILD)/bench/gpu_bf16.cu.o $(BUILD)/$(SO)
$(GPU_BENCH:=.cu.o) $(BUILD)/bench/gpu_bf16.cu.o: $(BUILT_FOR)
$(GPU_BENCH): %: %.cu.o $(BUILD)/libfp8conv.a
	@echo "  LINK $@"
	$(Q)$(LINK) -pie -o $@ $(filter %.o %.so.1,$^) $(BUILD)/libfp8conv.a \
		$(if $(filter %.so.1,$^),-Wl$(comma)-rpath$(comma)$(abspath $(BUILD))) $(LIBS)

# The GPU's kernels on the CPU: tests/simt defines CUDA's words, and each thread is a fiber.
CXX_FLAGS = -std=gnu++20 $(CPPFLAGS) -Wall -Wextra $(if $(WERROR),-Werror) \
	    -fno-exceptions -fno-rtti $(FP) $(HARDEN) $(SAN) $(CFLAGS) -pthread
SIMT_SRC  := $(filter-out %/cuda/device.cu %/cuda/devices.cu %/cublaslt_check.cu,$(GPU_SRC)) $(wildcard tests/simt/*.cc)
SIMT_OBJ  := $(SIMT_SRC:%=$(BUILD)/simt/%.o) $(BUILD)/simt/kernels/backends.c.o
# The tests that hold a GPU against the reference; tests/gpu.sh runs them on one.
PARITY    := test_kernels test_cast_transpose test_golden \
	     test_executor test_executor_rows test_executor_attention \
	     test_executor_attention_f16 test_executor_keys test_executor_products \
	     test_executor_gram test_executor_delta test_executor_scan \
	     test_executor_streams test_executor_observed test_executor_experts \
	     test_executor_segments test_executor_fp8 test_library_device
# test_counts takes the place of ThreadSanitizer's library, and takes minutes with another one.
SIMT      := $(patsubst %,$(BUILD)/simt/%,fp8conv $(filter-out $(if $(SANITIZE),test_counts),\
	     $(basename $(notdir $(wildcard tests/simt/test_*.c)))) $(PARITY))
.PHONY: print-parity
print-parity:
	@echo $(PARITY)

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
# What tests/simt/counts.cc counts: the accesses of these kernels, by calls as for ThreadSanitizer.
SIMT_COUNTED := $(patsubst %,$(BUILD)/simt/counted/%.o,$(wildcard kernels/gpu/forward/*.cu))
$(BUILD)/simt/counted/%.cu.o: %.cu
	@mkdir -p $(@D); echo "  SIMT $< (counted)"
	$(Q)$(CXX) -x c++ $(filter-out $(SAN),$(CXX_FLAGS)) -fsanitize=thread -Itests/simt -c -o $@ $<
$(BUILD)/simt/test_counts: test_counts.c tests/simt/accesses.c $(SUPPORT) $(SIMT_COUNTED) $(SIMT_OBJ) $(BUILD)/libfp8conv.a
	@echo "  SIMT $@"
	$(Q)$(C) -fPIE -pie -rdynamic -o $@ $(filter-out $(BUILD)/simt/kernels/gpu/forward/%.o,\
		$(filter %.c %.o %.a,$^)) $(LDFLAGS) -lcmocka -lstdc++ $(LIBS)
# This calls the library, whose objects it is linked with.
$(BUILD)/simt/test_library_device: $(SO_OBJ) $(filter-out %/main.o,$(CLI_OBJ))
$(BUILD)/simt/test_%: test_%.c $(SUPPORT) $(SIMT_OBJ) $(BUILD)/libfp8conv.a
	@echo "  SIMT $@"
	$(Q)$(C) -fPIE -pie -rdynamic -o $@ $(filter %.c %.o,$^) $(filter %.a,$^) $(LDFLAGS) \
		-lcmocka -lstdc++ $(LIBS)
$(BUILD)/simt/fp8conv: $(CLI_OBJ) $(SIMT_OBJ) $(BUILD)/libfp8conv.a
	@echo "  SIMT $@"
	$(Q)$(LINK) -pie -rdynamic -o $@ $^ -lstdc++ $(LIBS)

# A fuzz target has its main() from libFuzzer, or else from replay.c.
FUZZ_OBJ  := $(patsubst %,$(BUILD)/tests/fuzz/%.o,support checkpoint \
	     $(if $(findstring fuzzer,$(SANITIZE)),,replay))
FUZZ_MAIN := $(if $(findstring fuzzer,$(SANITIZE)),-fsanitize=fuzzer)
$(BUILD)/tests/fuzz/fuzz_config: $(BUILD)/tests/unit/support/memory_checkpoint.o
$(BUILD)/tests/fuzz/fuzz_plan: $(SO_OBJ) $(filter-out %/main.o,$(CLI_OBJ))
$(FUZZ): $(BUILD)/tests/fuzz/%: tests/fuzz/%.c $(FUZZ_OBJ) $(BUILD)/libfp8conv.a
	@mkdir -p $(@D); echo "  CC   $@"
	$(Q)$(C) -fPIE -pie $(FUZZ_MAIN) -o $@ $(filter %.c %.o,$^) $(filter %.a,$^) $(LDFLAGS) $(LIBS)

# What tests/run.sh runs; beside a build with sanitizers, what it runs without them.
.PHONY: tests
tests: all $(if $(SANITIZED),$(BUILD)/tests/unit/test_page_heap $(BUILD)/simt/fp8conv $(BUILD)/simt/test_counts,\
	$(UNIT) $(SIMT) $(FUZZ) $(BUILD)/tests/fault/inject) $(if $(WITH_CUDA),$(BUILD)/bench/model)

## make lint         cppcheck, clang-tidy and gcc -fanalyzer (make deps EXTRA="clang-tidy cppcheck")
.PHONY: lint
lint:
	@sh tests/lint.sh

## make format       lay out all C and CUDA sources (clang-format 14, as in Debian 12)
.PHONY: format
format:
	clang-format -i $$(sh tests/files.sh '*.c' '*.h' '*.cu' '*.cc')

## make prove        the exhaustive proofs: every float, format, instruction set (minutes)
.PHONY: prove
prove: deps
	@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) CC="$(CC)" sh tests/prove/run.sh

## make fault        every I/O call fails once, 200 kills, signals, limits, full disks (minutes)
.PHONY: fault
fault: deps
	@$(MAKE) --no-print-directory all $(BUILD)/tests/fault/inject
	@FP8CONV=$(abspath $(BUILD)/fp8conv) BUILD=$(BUILD) sh tests/fault/run.sh long

## make conformance  other people's packages read what fp8conv wrote (some GB of Python)
.PHONY: conformance
conformance: deps
	@$(MAKE) --no-print-directory all $(patsubst %,$(BUILD)/tests/conformance/%,tokenize forward compensate keys)
	@venv=$$(sh tests/conformance/venv.sh) && \
		FP8CONV=$(abspath $(BUILD)/fp8conv) $$venv/bin/python tests/conformance/run.py

## make engines-load the loaders of vLLM, SGLang and transformers judge what fp8conv wrote
.PHONY: engines-load
engines-load: deps
	@$(MAKE) --no-print-directory all
	@FP8CONV=$(abspath $(BUILD)/fp8conv) sh tests/engines_load/run.sh $(ENGINES_LOAD)

## make engines      conversions by tasks of Slurm, Open MPI, torchrun and Kubernetes (root)
ENGINES_DEPS := iproute2 libopenmpi-dev openmpi-bin pkg-config munge slurm-client slurmctld slurmd
.PHONY: engines
engines:
	@$(MAKE) --no-print-directory deps EXTRA="$(ENGINES_DEPS)"
	@$(MAKE) --no-print-directory $(BUILD)/fp8conv MPI=1 # one object is another
	@cp $(BUILD)/fp8conv $(BUILD)/fp8conv-mpi
	@$(MAKE) --no-print-directory all $(BUILD)/bench/model
	@venv=$$(sh tests/conformance/venv.sh) && FP8CONV=$(abspath $(BUILD)/fp8conv) \
		FP8CONV_MPI=$(abspath $(BUILD)/fp8conv-mpi) \
		MODEL_MAKER=$(abspath $(BUILD)/bench/model) PYTHON=$$venv/bin/python \
		sh tests/engines/run.sh $(ENGINES)

## make fuzz         SECONDS=60 of libFuzzer for each parser and for a whole conversion (clang)
SECONDS ?= 60
.PHONY: fuzz fuzz-targets
fuzz-targets: $(FUZZ)
fuzz: deps
	@$(MAKE) --no-print-directory fuzz-targets CC=clang BUILD=build/fuzz \
		SANITIZE=fuzzer-no-link,address,undefined
	@BUILD=build/fuzz SECONDS=$(SECONDS) MERGE=$(MERGE) sh tests/fuzz/run.sh $(TARGETS)

## make bench        the figures of bench/README.md, as ratios to limits measured in the same run
.PHONY: bench
bench: deps
	@$(MAKE) --no-print-directory all $(patsubst %.c,$(BUILD)/%,$(wildcard bench/*.c)) \
		$(if $(WITH_CUDA),$(GPU_BENCH))
	@python3 bench/run.py --build $(BUILD) $(BENCH)

## make gpu          on an NVIDIA GPU: parity, compute-sanitizer, files and speed (8 minutes)
.PHONY: gpu gpu-targets
gpu-targets: all $(patsubst %,$(BUILD)/tests/unit/%,$(PARITY)) \
	     $(patsubst %,$(BUILD)/bench/%,model products copy_half) $(if $(WITH_CUDA),$(GPU_BENCH))
gpu: deps
	@sh tests/gpu.sh

## make sass         what the GPU kernels cost by their machine code (nvcc; no GPU)
SASS_SRC   := $(wildcard kernels/gpu/cast/*.cu tests/sass/*.cu) \
	      $(patsubst %,kernels/gpu/forward/%.cu,attention attention_halves choose_keys delta elementwise rms_norm round_fp8 rows)
SASS_OBJ   := $(SASS_SRC:%=$(BUILD)/%.o)
.PHONY: sass
ifeq ($(and $(WITH_CUDA),$(filter 90a,$(SM))),)
sass:
	@echo "SKIPPED sass: no nvcc that knows compute capability 9.0"
else
sass: $(SASS_OBJ)
	@NVCC=$(WITH_CUDA) BUILD=$(BUILD) sh tests/sass/run.sh
endif
