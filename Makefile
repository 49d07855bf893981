# Tutti. Sources are globbed: a new file needs no edit here.
#
#   make SAN=1 ...      the same targets under ASan and UBSan, in build/san
#   make SAN=thread ... under TSan, in build/tsan; see `make tsan`
#   make CC=clang ...   the same targets with clang, in build/clang; for its
#                       warnings: it links libomp where oneDNN brings libgomp,
#                       and two thread pools in one process are slow
#   make CROSS=1 ...    for aarch64, in build/aarch64, with Debian's cross compiler; see
#                       `make cross`
#   make WERROR=1 ...   warnings are errors (always so when CI=true)

VERSION := 0.1.0
SOMAJOR := 0
PREFIX  ?= /usr/local
DESTDIR ?=

ifeq ($(origin CC),default)
CC := gcc
endif
IS_CLANG := $(findstring clang,$(CC))

MACHINE := $(shell uname -m)
ifdef CROSS
MACHINE := aarch64
CC := aarch64-linux-gnu-gcc --sysroot=$(CURDIR)/build/cross/root
B := build/aarch64
else ifeq ($(SAN),thread)
B := build/tsan
else ifdef SAN
B := build/san
else ifneq ($(IS_CLANG),)
B := build/clang
else
B := build
endif

, := ,
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:

# ---- what is compiled ----------------------------------------------------

SRCS      := $(sort $(shell find src -name '*.c' 2>/dev/null))
SIMD_SRCS := $(filter src/backend/cpu/simd/%,$(SRCS))
CLI_SRCS  := $(filter src/cli/%,$(SRCS))
MPI_SRC   := src/comm/transport/mpi_plugin.c
LIB_SRCS  := $(filter-out $(SIMD_SRCS) $(CLI_SRCS) $(MPI_SRC),$(SRCS))
TEST_SRCS := $(sort $(shell find tests -name '*.c' 2>/dev/null))
HEADER    := include/tutti/tutti.h

# Files in simd/ are compiled once per instruction set, with TT_ISA naming it,
# and chosen at run time. All else is for the plainest CPU of its kind, so that
# the program starts anywhere.
ifeq ($(MACHINE),x86_64)
ISAS       := base v3 v4 v4b
ISA_base   :=
ISA_v3     := -march=x86-64-v3
ISA_v4     := -march=x86-64-v4 -mprefer-vector-width=512
ISA_v4b    := $(ISA_v4) -mavx512bf16
else
ISAS       := base
ISA_base   :=
ISA_ONLY   := -DTT_ISA_BASE_ONLY
endif

SIMD_OBJS := $(foreach i,$(ISAS),$(SIMD_SRCS:%.c=$(B)/obj/%.$i.o))
LIB_OBJS  := $(LIB_SRCS:%.c=$(B)/obj/%.o) $(SIMD_OBJS) $(B)/obj/systems.o
SYSTEMS   := $(sort $(wildcard systems/*.yaml))
CLI_OBJS  := $(CLI_SRCS:%.c=$(B)/obj/%.o)
TEST_OBJS := $(TEST_SRCS:%.c=$(B)/obj/%.o)

# ---- how -----------------------------------------------------------------

# Option tables leave trailing fields out, which C sets to zero.
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion \
	-Wdouble-promotion -Wundef -Wvla -Wformat=2 -Wcast-qual \
	-Wwrite-strings -Wpointer-arith -Wstrict-prototypes \
	-Wmissing-prototypes -Wimplicit-fallthrough \
	-Wno-missing-field-initializers
# Instrumented code raises false alarms of these two; the plain build decides.
ifdef SAN
WARN += -Wno-format-truncation -Wno-maybe-uninitialized
else ifneq ($(filter true,$(CI))$(WERROR),)
WARN += -Werror
endif

SANITIZE := $(if $(SAN),-fsanitize=$(if $(filter thread,$(SAN)),thread,$(strip \
	address$(,)undefined)))
ifdef SAN
OPT := -O1 -g -fno-omit-frame-pointer $(SANITIZE) -fno-sanitize-recover=all
else
OPT := -O3 -g
endif

# Fused multiply-add only where the kernels ask for it: everything else gives
# the same bits with every compiler. NaN and infinity survive everywhere.
FP_PLAIN := -ffp-contract=off
FP_SIMD  := -ffp-contract=fast -fno-math-errno -fno-trapping-math \
	-fno-signed-zeros
FP_CODE  := $(FP_PLAIN) -fno-math-errno -fno-trapping-math

ALL_CPPFLAGS := -Isrc -Iinclude -DTT_VERSION='"$(VERSION)"' -D_GNU_SOURCE \
	$(ISA_ONLY) $(CPPFLAGS)
ALL_CFLAGS := -std=gnu17 $(OPT) $(WARN) -fPIC -fopenmp \
	-ffile-prefix-map=$(CURDIR)=. $(CFLAGS)
# The clang build is not the one that runs: that it vectorises fewer of the
# loops marked `omp simd` is no fault of theirs.
ALL_CFLAGS += $(if $(IS_CLANG),-Wno-pass-failed,-fno-semantic-interposition)
ALL_LDFLAGS := -fopenmp $(SANITIZE) $(LDFLAGS)
LIBS := -Wl,--as-needed -ldnnl -lyaml -lpcre2-8 -ljpeg -lpng16 -lz \
	-lxxhash -lsqlite3 -lm -lpthread

CCACHE := $(shell command -v ccache 2>/dev/null)
COMPILE = $(CCACHE) $(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# A changed flag or a removed file rebuilds what depends on it: the stamps
# change only when their text does.
stamp = $(shell mkdir -p $(B); printf '%s\n' '$(subst ','\'',$2)' >$1.new; \
	cmp -s $1.new $1 && rm $1.new || mv $1.new $1)
ifeq ($(filter clean help format setup%,$(MAKECMDGOALS)),)
$(call stamp,$(B)/flags,$(CC) $(ALL_CPPFLAGS) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(LIBS))
$(call stamp,$(B)/files,$(SRCS) $(TEST_SRCS))
$(call stamp,$(B)/system-files,$(SYSTEMS))
endif
$(B)/flags $(B)/files $(B)/system-files: # after `make clean all`
	@mkdir -p $(B)
	@touch $@

# ---- CUDA ----------------------------------------------------------------

# What runs on a GPU is a plug-in of its own, which takes longer to build than all the
# rest. It is built where there is a GPU, nvcc and the headers of its libraries; CUDA=1
# (`make cuda`) insists, also without a GPU, CUDA=0 leaves it out. CUDA_ARCHS=90 80 ...
# builds for other devices.
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) \
	$(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME := $(if $(NVCC),$(patsubst %/bin/nvcc,%,$(realpath $(NVCC))))
CUDA_MISSING := $(strip $(if $(NVCC),$(foreach h,cublasLt.h cudnn_graph.h,\
	$(if $(wildcard $(CUDA_HOME)/include/$h /usr/include/$h \
	/usr/include/$(shell uname -m)-linux-gnu/$h),,$h)),nvcc))
GPU_HERE := $(wildcard /dev/nvidiactl /dev/nvidia0 /proc/driver/nvidia/version)
CUDA ?= $(if $(CUDA_MISSING)$(SAN)$(IS_CLANG)$(CROSS),0,$(if $(GPU_HERE),1,0))
CUDA_ARCHS ?= 90
DEV_FILES   := $(sort $(shell find src/backend/cuda/dev -name '*.cu' -o -name '*.cuh'))
DEV_SRCS    := $(filter %.cu,$(DEV_FILES))
HOPPER_SRCS := $(foreach f,$(DEV_SRCS),$(if $(findstring hopper,$(notdir $f)),$f))
ifeq ($(CUDA),1)
ifneq ($(CUDA_MISSING),)
$(error CUDA=1 needs $(CUDA_MISSING): install the CUDA toolkit with cuDNN, or \
	leave CUDA=1 out)
endif
# Files with hopper in their name use what compute capability 9.0 alone has.
HOPPER := $(filter 90,$(CUDA_ARCHS))
CUDA_SRCS := $(filter-out $(if $(HOPPER),,$(HOPPER_SRCS)),$(DEV_SRCS))
CUDA_OBJS := $(CUDA_SRCS:%.cu=$(B)/obj/%.o)
NVCC_FLAGS := -std=c++17 -O3 -lineinfo -Isrc -DTT_VERSION='"$(VERSION)"' \
	-Xcompiler -fPIC,-Wall,-Wextra,-Wno-missing-field-initializers \
	-Xcompiler -fvisibility=hidden $(if $(HOPPER),-DTT_CUDA_HOPPER)
NVCC_ARCHS = \
	$(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$a$(,)code=sm_$a) \
	-gencode arch=compute_$(lastword $(CUDA_ARCHS))$(,)code=compute_$(lastword $(CUDA_ARCHS))
CUDA_PLUGIN := $(B)/libtutti-cuda.so

$(HOPPER_SRCS:%.cu=$(B)/obj/%.o): \
	NVCC_ARCHS = -gencode arch=compute_90a$(,)code=sm_90a

$(call stamp,$(B)/nvcc-flags,$(NVCC) $(NVCC_FLAGS) $(NVCC_ARCHS))
$(B)/nvcc-flags: # after `make clean all`
	@touch $@

$(B)/obj/%.o: %.cu $(B)/nvcc-flags
	@mkdir -p $(@D)
	@echo "  nvcc  $<"
	@$(NVCC) $(NVCC_FLAGS) $(NVCC_ARCHS) -MD -MP -c -o $@ $<

$(B)/libtutti-cuda.so: $(CUDA_OBJS)
	@echo "  ld    $@"
	@$(NVCC) -shared -cudart static -o $@ $(CUDA_OBJS) \
		-L$(CUDA_HOME)/lib64 -lcublasLt -ldl -Xlinker -z,defs \
		-Xlinker -rpath=$(CUDA_HOME)/lib64
endif

# The same files for a device that is emulated on the host, for tests on machines
# without a GPU; of cuDNN there are convolutions.
EMU_SRCS := $(filter-out %/sdpa.cu %/dnn_conv.cu $(HOPPER_SRCS),$(DEV_SRCS))
EMU_HEADERS := $(foreach f,$(filter-out %/dnn.cuh,$(filter %.cuh,$(DEV_FILES))),$(if \
	$(findstring hopper,$(notdir $f)),,$(B)/emulated/obj/$f))
EMU_OWN  := $(sort $(wildcard tests/gpu/emulate/*.cpp))
EMU_OBJS := $(EMU_SRCS:%.cu=$(B)/emulated/obj/%.o) \
	$(EMU_OWN:%.cpp=$(B)/emulated/obj/%.o)
EMU_FLAGS := -std=c++17 -O2 -DTT_CUDA_LEAST_TUNED=1 -fPIC -Wall -Wextra -Wno-unknown-pragmas \
	-Wno-missing-field-initializers -Wno-maybe-uninitialized -Itests/gpu/emulate \
	-I$(B)/emulated/obj/src -Isrc -DTT_VERSION='"$(VERSION)"' -fvisibility=hidden -MD -MP
EMULATED := $(B)/emulated/libtutti-cuda.so $(B)/emulated/libnccl.so.2 $(B)/emulated/tutti

$(B)/emulated/obj/%.cpp: %.cu tests/gpu/emulate/translate.py
	@mkdir -p $(@D)
	@python3 tests/gpu/emulate/translate.py $< >$@

$(B)/emulated/obj/%.cuh: %.cuh tests/gpu/emulate/translate.py
	@mkdir -p $(@D)
	@python3 tests/gpu/emulate/translate.py $< >$@

$(B)/emulated/obj/%.o: $(B)/emulated/obj/%.cpp | $(EMU_HEADERS)
	@echo "  c++   $< (emulated)"
	@$(CCACHE) $(CXX) $(EMU_FLAGS) -c -o $@ $<

$(B)/emulated/obj/tests/%.o: tests/%.cpp | $(EMU_HEADERS)
	@mkdir -p $(@D)
	@echo "  c++   $<"
	@$(CCACHE) $(CXX) $(EMU_FLAGS) -c -o $@ $<

$(B)/emulated/libtutti-cuda.so: $(EMU_OBJS)
	@echo "  ld    $@"
	@$(CXX) -shared -Wl,-z,defs -o $@ $(EMU_OBJS)

# The emulated NCCL works on emulated streams, so it is the same library.
$(B)/emulated/libnccl.so.2: $(B)/emulated/libtutti-cuda.so
	@ln -f $< $@

# The plug-in is looked for beside the program, links followed.
$(B)/emulated/tutti: $(B)/tutti
	@mkdir -p $(@D)
	@ln -f $< $@

# ---- products ------------------------------------------------------------

# One plug-in per MPI library whose compiler is there; MPICC_mpich=... names another.
MPIS := openmpi mpich
MPICC_openmpi ?= $(shell command -v mpicc.openmpi)
MPICC_mpich   ?= $(shell command -v mpicc.mpich)
MPIS_HERE := $(foreach m,$(MPIS),$(if $(MPICC_$m),$m))
PLUGINS   := $(MPIS_HERE:%=$(B)/libtutti-mpi-%.so) $(CUDA_PLUGIN)

PRODUCTS := $(B)/libtutti.a $(B)/libtutti.so $(if $(CLI_SRCS),$(B)/tutti) \
	$(PLUGINS)

.PHONY: all
all: $(PRODUCTS) ## build the library, the program (build/tutti) and its plug-ins
	@$(if $(filter-out $(MPIS_HERE),$(MPIS)),echo "no plug-in for \
		$(filter-out $(MPIS_HERE),$(MPIS)): there is no \
		$(patsubst %,mpicc.%,$(filter-out $(MPIS_HERE),$(MPIS)))",:)
	@$(if $(CUDA_MISSING),echo "no plug-in for CUDA: there is no $(CUDA_MISSING)",$(if \
		$(GPU_HERE)$(filter 1,$(CUDA)),:,echo "no plug-in for CUDA: there is no GPU; \
		make cuda builds it all the same"))

.PHONY: cuda
cuda: ## build the plug-in for NVIDIA GPUs too, also where there is none
	+@$(SUBMAKE) CUDA=1 all

.PHONY: objects
objects: $(LIB_OBJS) $(CLI_OBJS) $(TEST_OBJS) \
	$(MPIS_HERE:%=$(B)/obj/$(MPI_SRC:.c=).%.o)

$(B)/obj/%.o: FP := $(FP_PLAIN)
$(SIMD_OBJS): FP := $(FP_SIMD)
# Codes have the same bits on every machine.
$(filter $(B)/obj/src/backend/cpu/simd/code/%,$(SIMD_OBJS)): FP := $(FP_CODE)

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(COMPILE) $(FP)

# Files of systems are part of the program.
$(B)/systems.c: $(SYSTEMS) $(B)/system-files tools/embed
	@tools/embed $(SYSTEMS) >$@
$(B)/obj/systems.o: $(B)/systems.c $(B)/flags
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(COMPILE) $(FP)

define simd_rule
$(B)/obj/%.$1.o: %.c $(B)/flags
	@mkdir -p $$(@D)
	@echo "  cc    $$< ($1)"
	@$$(COMPILE) $$(FP) $(ISA_$1) -DTT_ISA=$1
endef
$(foreach i,$(ISAS),$(eval $(call simd_rule,$i)))

$(B)/libtutti.a: $(LIB_OBJS) $(B)/files
	@echo "  ar    $@"
	@rm -f $@
	@ar rcs $@ $(LIB_OBJS)

# Only what the public header declares is exported.
$(B)/libtutti.map: $(wildcard $(HEADER)) tools/exports
	@tools/exports $(wildcard $(HEADER)) >$@

$(B)/libtutti.so.$(SOMAJOR): $(LIB_OBJS) $(B)/libtutti.map $(B)/files
	@echo "  ld    $@"
	@$(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,libtutti.so.$(SOMAJOR) \
		-Wl,--version-script=$(B)/libtutti.map -o $@ $(LIB_OBJS) $(LIBS)

$(B)/libtutti.so: $(B)/libtutti.so.$(SOMAJOR)
	@ln -sf $(<F) $@

$(B)/tutti: $(CLI_OBJS) $(B)/libtutti.a $(B)/files
	@echo "  ld    $@"
	@$(CC) $(ALL_LDFLAGS) -o $@ $(CLI_OBJS) $(B)/libtutti.a $(LIBS)

# The wrappers know where their headers and libraries are.
$(B)/libtutti-mpi-%.so: $(B)/obj/$(MPI_SRC:.c=).%.o
	@echo "  ld    $@"
	@OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC_$*) -shared $(ALL_LDFLAGS) -o $@ $<
$(B)/obj/$(MPI_SRC:.c=).%.o: $(MPI_SRC) $(B)/flags
	@mkdir -p $(@D)
	@echo "  cc    $< ($*)"
	@OMPI_CC="$(CC)" MPICH_CC="$(CC)" $(MPICC_$*) $(ALL_CPPFLAGS) $(ALL_CFLAGS) \
		-fvisibility=hidden -MMD -MP -c -o $@ $<

$(B)/test-runner: $(TEST_OBJS) $(B)/libtutti.a $(B)/files
	@echo "  ld    $@"
	@$(CC) $(ALL_LDFLAGS) -o $@ $(TEST_OBJS) $(B)/libtutti.a $(LIBS)

$(TEST_OBJS): ALL_CPPFLAGS += -Itests

-include $(shell find build/fuzz/obj -name '*.d' 2>/dev/null)
-include $(shell find $(B)/obj $(B)/emulated -name '*.d' 2>/dev/null)

# Make called from here uses every core unless the user said how many.
SUBMAKE = $(MAKE) -s --no-print-directory \
	$(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

# ---- test, check, bench --------------------------------------------------

# Two tests run at a time, so threads that wait must not spin. Runs of tests stay
# out of the user's history.
RUN_TESTS = OMP_WAIT_POLICY=passive TUTTI=$(B)/tutti TUTTI_BUILD=$(B) \
	XDG_STATE_HOME=$(CURDIR)/$(B)/state \
	UBSAN_OPTIONS=print_stacktrace=1 \
	LSAN_OPTIONS=suppressions=$(CURDIR)/tests/leaks.txt:print_suppressions=0 \
	$(B)/test-runner --scripts tests/e2e $(T)

.PHONY: setup setup-check
setup:
	@tools/setup build
setup-check:
	@tools/setup check

.PHONY: test-build
test-build: setup
	+@$(SUBMAKE) all $(B)/test-runner $(if $(SAN)$(IS_CLANG),,$(EMULATED))

.PHONY: test
test: test-build ## run the tests; T='words' picks some, SAN=1 adds sanitizers
	@$(RUN_TESTS)

.PHONY: test-gpu
test-gpu: test-build ## run the laws and tests that need an NVIDIA GPU
	@tests/gpu/run $(B)

# A machine without the packages for it says so; the last line is as that of tests.
.PHONY: cross
cross: ## build for aarch64 with Debian's cross compiler and run short laws in qemu
	+@tools/cross || { [ $$? -eq 77 ] && exit 0; exit 1; }; \
	[ ! -e build/cross/root/done ] || { $(SUBMAKE) CROSS=1 CUDA=0 MPICC_openmpi= \
		MPICC_mpich= build/aarch64/tutti && tools/cross_laws; }

.PHONY: test-all
test-all: test-build ## run the slow tests too, and see that they notice faults
	@KILLS=200 FAULTS=100 LAYOUTS=150 SYSTEMS=all COMPAT=60 $(RUN_TESTS) --all
	+$(if $(T)$(SAN),,@$(SUBMAKE) cross)
	+$(if $(T)$(SAN),,@$(SUBMAKE) tsan)
	$(if $(T)$(SAN),,@tools/mutate)

# Ranks as threads, under ThreadSanitizer, which sees no thread pool of libgomp's: one
# thread per rank has none.
TSAN_TESTS := tests/comm/test_shm tests/comm/test_wrap tests/comm/test_calibrate \
	tests/comm/test_clock rank_0_learns ranks_as_threads law_coll law_wire \
	law_transport
.PHONY: tsan
tsan: setup ## run the tests whose ranks are threads under ThreadSanitizer
	+@$(SUBMAKE) SAN=thread build/tsan/test-runner
	@OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/tools/tsan.supp \
		build/tsan/test-runner $(if $(T),$(T),$(TSAN_TESTS))

# A fuzzer is one file of tests/fuzz, the folders that read files or codes and libFuzzer,
# all under clang's sanitizers. FUZZ_SECONDS=600 make fuzz-run runs each for that long.
FUZZ_SRCS := $(wildcard tests/fuzz/fuzz_*.c)
FUZZERS   := $(FUZZ_SRCS:tests/fuzz/fuzz_%.c=build/fuzz/%)
FUZZ_FLAGS := -std=gnu17 -O1 -g -DTT_FUZZ -DTT_ISA_BASE_ONLY \
	-fsanitize=address,undefined \
	-fno-sanitize-recover=all -fsanitize=fuzzer-no-link -fopenmp=libgomp
FUZZ_OBJS := $(patsubst %.c,build/fuzz/obj/%.o,$(filter src/base/% src/data/% \
	src/store/% src/pipe/% src/graph/% src/ops/% src/backend/sites.c \
	src/backend/ref/code/% src/backend/cpu/code/% src/backend/cpu/simd% \
	src/backend/cpu/isa.c src/backend/cpu/wrap.c,$(SRCS)))
FUZZ_SECONDS ?= 60

.PHONY: fuzz fuzz-run
fuzz: setup-check ## build the fuzzers (build/fuzz/*)
	+@$(SUBMAKE) $(FUZZERS)
fuzz-run: fuzz ## run each for FUZZ_SECONDS (60), keeping what it finds
	@tools/fuzz $(FUZZ_SECONDS) $(FUZZERS)

build/fuzz/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  fuzz  $<"
	@$(CCACHE) clang $(ALL_CPPFLAGS) $(FUZZ_FLAGS) -Itests -MMD -MP -c -o $@ $<
build/fuzz/libtutti.a: $(FUZZ_OBJS)
	@ar rcs $@ $^
build/fuzz/%: build/fuzz/obj/tests/fuzz/fuzz_%.o \
		build/fuzz/obj/tests/fuzz/file.o build/fuzz/libtutti.a
	@echo "  ld    $@"
	@clang -fsanitize=fuzzer,address,undefined -o $@ $^ $(LIBS) -lgomp
.SECONDARY:

.PHONY: demo
demo: ## install and build, then train two small models and use them
	@tools/setup demo
	+@$(SUBMAKE) all
	@tools/demo

.PHONY: docs
docs: all ## write docs/settings.md from the program's tables
	@python3 tools/settings_page.py $(B)/tutti >$(B)/settings.md
	@cp $(B)/settings.md docs/settings.md

.PHONY: compat
compat: all ## write docs/compatibility.md by verifying pairs of settings (minutes)
	@TUTTI=$(B)/tutti tools/compat >$(B)/compatibility.md
	@cp $(B)/compatibility.md docs/compatibility.md

.PHONY: bench
bench: all ## measure against the machine's limits and against PyTorch
	@bench/run

C_DIRS  := $(wildcard src include tests examples)
C_FILES := $(if $(C_DIRS),$(sort $(shell find $(C_DIRS) \( -name '*.[ch]' \
	-o -name '*.cu' -o -name '*.cuh' \) ! -name list.h)))
CHECKS  := format layers lists size banned names docs headers clang cppcheck tidy

.PHONY: check $(CHECKS:%=check-%)
check: setup-check ## formatting, static analysis and the project's own rules
	@tools/check $(CHECKS)

check-format:
	@printf '%s\n' $(C_FILES) | xargs -P 2 -n 40 clang-format --dry-run 2>&1 | \
		sed -n 's/^\([^:]*\):.*clang-format-violations.*/\1/p' | sort -u | \
		{ ! grep .; } || { echo 'not formatted; run make format'; exit 1; }
check-layers check-lists check-size check-banned check-names check-docs: check-%:
	@python3 tools/check_$*.py
check-headers:
	@tools/check_headers
check-clang:
	+@$(SUBMAKE) -k CC=clang SAN= WERROR=1 objects
check-cppcheck:
	@tools/check_cppcheck
check-tidy: # F=ops/split reads only files with that in their path
	@python3 tools/check_tidy.py "$(F)" $(ALL_CPPFLAGS)

.PHONY: format
format: ## reformat every C file in place
	@clang-format -i $(C_FILES)

# ---- install -------------------------------------------------------------

comma := ,

LIBDIR := $(DESTDIR)$(PREFIX)/lib
INCDIR := $(DESTDIR)$(PREFIX)/include/tutti
BINDIR := $(DESTDIR)$(PREFIX)/bin
MANDIR := $(DESTDIR)$(PREFIX)/share/man/man1
BASHDIR := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
SYSDIR := $(DESTDIR)$(PREFIX)/share/tutti/systems
ZSHDIR := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
FISHDIR := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
SONAME := libtutti.so.$(SOMAJOR)

$(B)/%.1: docs/%.1.scd
	@scdoc <$< >$@

.PHONY: install uninstall
install: all $(B)/tutti.1 ## install under PREFIX (/usr/local), below DESTDIR
	install -d $(LIBDIR)/pkgconfig $(INCDIR) $(BINDIR) $(MANDIR) \
		$(BASHDIR) $(ZSHDIR) $(FISHDIR) $(SYSDIR)
	install -m 644 $(B)/libtutti.a $(LIBDIR)/
	install -m 755 $(B)/$(SONAME) $(LIBDIR)/libtutti.so.$(VERSION)
	ln -sf libtutti.so.$(VERSION) $(LIBDIR)/$(SONAME)
	ln -sf $(SONAME) $(LIBDIR)/libtutti.so
	install -m 644 $(HEADER) $(INCDIR)/
	install -m 755 $(B)/tutti $(BINDIR)/
	$(if $(PLUGINS),install -m 755 $(PLUGINS) $(LIBDIR)/)
	install -m 644 $(B)/tutti.1 $(MANDIR)/
	install -m 644 $(SYSTEMS) $(SYSDIR)/
	$(B)/tutti completion bash >$(BASHDIR)/tutti
	$(B)/tutti completion zsh >$(ZSHDIR)/_tutti
	$(B)/tutti completion fish >$(FISHDIR)/tutti.fish
	chmod 644 $(BASHDIR)/tutti $(ZSHDIR)/_tutti $(FISHDIR)/tutti.fish
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@RPATH@|$(if $(filter /usr /usr/local,$(PREFIX)),,-Wl$(comma)-rpath$(comma)$${libdir} )|' \
		tools/tutti.pc.in >$(LIBDIR)/pkgconfig/tutti.pc
	chmod 644 $(LIBDIR)/pkgconfig/tutti.pc

uninstall: ## remove what install wrote
	rm -f $(LIBDIR)/libtutti.a $(LIBDIR)/libtutti.so.$(VERSION) \
		$(LIBDIR)/$(SONAME) $(LIBDIR)/libtutti.so \
		$(LIBDIR)/pkgconfig/tutti.pc $(BINDIR)/tutti $(MANDIR)/tutti.1 \
		$(INCDIR)/tutti.h $(MPIS:%=$(LIBDIR)/libtutti-mpi-%.so) \
		$(LIBDIR)/libtutti-cuda.so \
		$(BASHDIR)/tutti $(ZSHDIR)/_tutti $(FISHDIR)/tutti.fish
	rm -f $(patsubst systems/%,$(SYSDIR)/%,$(SYSTEMS))
	rmdir $(INCDIR) $(SYSDIR) $(DESTDIR)$(PREFIX)/share/tutti 2>/dev/null || true

.PHONY: clean help
clean: ## remove build/
	rm -rf build

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | \
		expand -t 20
