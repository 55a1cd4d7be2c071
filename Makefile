# gpuimgd - builds, tests and installs the daemon. `make help` lists the targets.

# ---- jobs and goals ------------------------------------------------------------------------------
# Builds on all cores, unless MAKEFLAGS has -j. While GNU Make 4.3 reads this file, its variable
# MAKEFLAGS lacks -j, so the environment is searched. A -j on the command line replaces this one.
ifeq ($(filter -j% --jobs%,$(MAKEFLAGS))$(shell \
    printf '%s' "$$MAKEFLAGS $$GNUMAKEFLAGS" | sed 's/ -- .*//' | \
    grep -oE '(^| )-?[A-Za-z]*j|--jobs' | tr -d '\n'),)
  MAKEFLAGS += -j$(shell nproc)
endif

# Several goals are made one after the other, as in `make clean check`.
ifneq ($(word 2,$(MAKECMDGOALS)),)
.NOTPARALLEL:
.PHONY: $(MAKECMDGOALS)
$(MAKECMDGOALS):
	@$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) $@
else

# ---- variables for users ------------------------------------------------------------------------
CUDA    ?= auto
HTTP    ?= auto
CURL    ?= auto
LCMS    ?= auto
WEBP    ?= auto
AVIF    ?= auto
TLS     ?= auto
VARIANT ?= release
WERROR  ?= no
prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
libexecdir ?= $(prefix)/libexec
sysconfdir ?= /etc
docdir  ?= $(prefix)/share/doc/gpuimgd
completionsdir ?= $(prefix)/share/bash-completion/completions
mandir  ?= $(prefix)/share/man
unitdir ?= /usr/lib/systemd/system
sysusersdir ?= /usr/lib/sysusers.d
tmpfilesdir ?= /usr/lib/tmpfiles.d
DESTDIR ?=
PKG_CONFIG ?= pkg-config
NVCC    ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
CFLAGS  ?= -O2 -g
NVCCFLAGS ?= -O3
# The GPUs with machine code in the binary: native (those of this host), all, or a list such as
# "80 90" (gpu/cuda/targets.sh). By default `make` builds for native, and `make install` for all.
CUDA_ARCHS ?=

VERSION = 0.2.0
LIBS    = libuv hiredis libjpeg libpng zlib libcjson libsystemd

# V=1 prints the commands.
V ?= 0

# ---- derived variables ---------------------------------------------------------------------------
# On a fresh machine there is no pkg-config until `make deps` has installed it.
HAVE_PKG_CONFIG := $(shell command -v $(PKG_CONFIG) 2>/dev/null)
has_library = $(if $(HAVE_PKG_CONFIG),$(shell $(PKG_CONFIG) --exists '$(1)' && echo yes))
# $(call once,NAME,VALUE): expands VALUE at the first use of the variable NAME only.
once = $(eval $(1) := $(2))$($(1))

O = build/$(VARIANT)
say = $(if $(filter 0,$(V)),@echo "  $(1)	$(patsubst $(O)/%,%,$@)";)

ifeq ($(VARIANT),asan)
  CUDA_WANTED = no
  SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(VARIANT),tsan)
  CUDA_WANTED = no
  SANITIZE = -fsanitize=thread -fno-omit-frame-pointer
else ifeq ($(VARIANT),coverage)
  # Counts the runs of every line except in tests, also in processes that end with _exit.
  CUDA_WANTED = no
  SANITIZE =
  COUNT_ALL = --coverage -fprofile-update=atomic -include tests/coverage/exit.h
  COUNT = $(COUNT_ALL)
else ifeq ($(VARIANT),fuzz)
  # Every object has libFuzzer's counters. Only fuzz_* links libFuzzer and its main.
  CUDA_WANTED = no
  CC = clang
  SANITIZE = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
             -fno-omit-frame-pointer
else
  CUDA_WANTED = $(CUDA)
  SANITIZE =
endif

ifeq ($(CUDA_WANTED),auto)
  HAVE_CUDA := $(if $(NVCC),yes,no)
else
  HAVE_CUDA := $(CUDA_WANTED)
endif
ifeq ($(HAVE_CUDA),yes)
  ifeq ($(NVCC),)
    $(error CUDA is yes, but nvcc is not in PATH or /usr/local/cuda/bin; set NVCC=)
  endif
endif

ifeq ($(HTTP),auto)
  HAVE_HTTP := $(or $(call has_library,libmicrohttpd),no)
else
  HAVE_HTTP := $(HTTP)
endif
ifeq ($(HAVE_HTTP),yes)
  LIBS += libmicrohttpd
endif
ifeq ($(WEBP),auto)
  HAVE_WEBP := $(or $(call has_library,libwebp),no)
else
  HAVE_WEBP := $(WEBP)
endif
ifeq ($(HAVE_WEBP),yes)
  LIBS += libwebp
endif
ifeq ($(AVIF),auto)
  HAVE_AVIF := $(or $(call has_library,libavif),no)
else
  HAVE_AVIF := $(AVIF)
endif
# Only gpuimgd-codec is linked with libavif, and tests that compare with it.
ifeq ($(HAVE_AVIF),yes)
  AVIF_CFLAGS := $(shell $(PKG_CONFIG) --cflags libavif)
  AVIF_LIBS   := $(shell $(PKG_CONFIG) --libs libavif)
endif

ifeq ($(TLS),auto)
  HAVE_TLS := $(or $(call has_library,openssl),no)
else
  HAVE_TLS := $(TLS)
endif
ifeq ($(HAVE_TLS),yes)
  LIBS += openssl
endif

ifeq ($(CURL),auto)
  HAVE_CURL := $(or $(call has_library,libcurl >= 7.88),no)
else
  HAVE_CURL := $(CURL)
endif
ifeq ($(HAVE_CURL),yes)
  LIBS += libcurl
endif

ifeq ($(LCMS),auto)
  HAVE_LCMS := $(or $(call has_library,lcms2),no)
else
  HAVE_LCMS := $(LCMS)
endif
ifeq ($(HAVE_LCMS),yes)
  LIBS += lcms2
endif

WARNINGS = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
           -Wno-format-nonliteral
# This warning is clang's alone. The code uses & between conditions to allow vectorization.
ifeq ($(VARIANT),fuzz)
  WARNINGS += -Wno-bitwise-instead-of-logical
endif
ifeq ($(WERROR),yes)
  WARNINGS += -Werror
  NVCC_WERROR = -Werror all-warnings -Xcompiler -Werror
endif

CFLAGS_LIBS = $(call once,CFLAGS_LIBS,$(shell $(PKG_CONFIG) --cflags $(LIBS)))
LDLIBS_LIBS = $(call once,LDLIBS_LIBS,$(shell $(PKG_CONFIG) --libs $(LIBS)))
LDLIBS_CMOCKA = $(call once,LDLIBS_CMOCKA,$(shell $(PKG_CONFIG) --libs cmocka))
CPPFLAGS_ALL = -I. -I$(O) -D_GNU_SOURCE -DGPUIMGD_VERSION='"$(VERSION)"' \
               $(if $(filter yes,$(HAVE_CUDA)),-DGPUIMGD_CUDA) \
               $(if $(filter yes,$(HAVE_HTTP)),-DGPUIMGD_HTTP) \
               $(if $(filter yes,$(HAVE_CURL)),-DGPUIMGD_CURL) \
               $(if $(filter yes,$(HAVE_LCMS)),-DGPUIMGD_LCMS) \
               $(if $(filter yes,$(HAVE_WEBP)),-DGPUIMGD_WEBP) \
               $(if $(filter yes,$(HAVE_AVIF)),-DGPUIMGD_AVIF) \
               $(if $(filter yes,$(HAVE_TLS)),-DGPUIMGD_TLS) $(CPPFLAGS)
# -ffp-contract=off: float arithmetic must give the same bits on every engine and machine.
CFLAGS_ALL = -std=c11 $(CFLAGS) -ffp-contract=off -fno-strict-aliasing $(WARNINGS) $(SANITIZE) \
             $(COUNT) $(CFLAGS_LIBS) -pthread
LDLIBS_ALL = $(SANITIZE) $(if $(COUNT_ALL),--coverage) $(LDFLAGS) $(LDLIBS_LIBS) -lm -pthread $(LDLIBS)

LDLIBS_CTL = $(SANITIZE) $(if $(COUNT_ALL),--coverage) $(LDFLAGS) \
             $(shell $(PKG_CONFIG) --libs libuv hiredis libcjson $(filter openssl,$(LIBS))) -lm -pthread $(LDLIBS)

ifeq ($(HAVE_CUDA),yes)
  CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
  # What kernels are compiled to, such as `sm_90 compute_90`: for this host, and for installation.
  codes_of = $(shell gpu/cuda/targets.sh $(NVCC) $(1))$(if $(filter 0,$(.SHELLSTATUS)),,\
               $(error gpu/cuda/targets.sh failed))
  CUDA_CODES     = $(call once,CUDA_CODES,$(call codes_of,$(or $(CUDA_ARCHS),native)))
  CUDA_CODES_ALL = $(call once,CUDA_CODES_ALL,$(call codes_of,$(or $(CUDA_ARCHS),all)))
  gencode = $(foreach code,$(1),-gencode arch=compute_$(lastword $(subst _, ,$(code))),code=$(code))
  NVCCFLAGS_ALL = $(NVCCFLAGS) -g -std=c++17 -fmad=false --threads 0 -Xfatbin -compress-all -I. -I$(O) \
                  -D_GNU_SOURCE -DGPUIMGD_CUDA -Xcompiler -Wall,-Wextra,-fno-strict-aliasing,-ffp-contract=off \
                  -Wno-deprecated-gpu-targets $(NVCC_WERROR)
  # The runtime is linked statically, so that the same binary starts with and without a driver.
  LDLIBS_ALL += -L$(CUDA_HOME)/lib64 -lcudart_static -lstdc++ -ldl -lrt
endif

# The folders of the daemon's source files. gpu/cuda/ calls the CUDA runtime.
ROOMS    = conf codecs codecs/jpeg codecs/process queue/redis queue/lease queue/job gpu/colour gpu/plan gpu/engine \
           $(if $(filter yes,$(HAVE_CUDA)),gpu/cuda) gpu/ops gpu/jpeg daemon daemon/files daemon/pipeline \
           daemon/telemetry daemon/http daemon/selfcheck daemon/web daemon/workers
SOURCES  = $(wildcard $(ROOMS:%=%/*.c))
# The daemon that `make install` installs. It shares all objects but those of the kernels with
# $(O)/gpuimgd, unless that one has the same architectures.
INSTALLED = $(O)/$(if $(filter yes,$(HAVE_CUDA)),$(if $(CUDA_ARCHS),,all-gpus/))gpuimgd
KERNELS  = $(if $(filter yes,$(HAVE_CUDA)),$(wildcard $(ROOMS:%=%/*.cu)))
OBJECTS  = $(SOURCES:%.c=$(O)/%.o) $(KERNELS:%.cu=$(O)/%.cu.o)
LIBRARY  = $(filter-out $(O)/daemon/main.o,$(OBJECTS))
# The process that runs libavif.
CODEC    = $(if $(filter yes,$(HAVE_AVIF)),$(O)/gpuimgd-codec)
CONFINED = $(patsubst %.c,$(O)/%.o,$(wildcard codecs/confined/*.c))
# The command-line client consists of conf/, queue/ and its own folder.
CTL      = $(patsubst %.c,$(O)/%.o,$(filter conf/% queue/%,$(SOURCES)) \
             $(wildcard queue/ctl/*.c queue/ctl/*/*.c))
SCRIPTS  = $(sort $(wildcard queue/scripts/*.lua))

TEST_LIB = $(patsubst %.c,$(O)/%.o,$(wildcard tests/fixtures/*.c tests/fixtures/*/*.c))
TESTS    = $(patsubst %.c,$(O)/%,$(sort $(wildcard tests/unit/*/test_*.c tests/e2e/test_*.c \
             tests/scale/test_*.c)))
FUZZ_LIB = $(patsubst %.c,$(O)/%.o,$(filter-out $(wildcard tests/fuzz/fuzz_*.c) tests/fuzz/replay.c,\
             $(wildcard tests/fuzz/*.c)))
REPLAYS  = $(patsubst tests/fuzz/fuzz_%.c,$(O)/tests/fuzz/replay_%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZERS  = $(patsubst %.c,$(O)/%,$(wildcard tests/fuzz/fuzz_*.c))
# A daemon with fault hooks, which can die at any stage. Only one object differs.
FAULTY   = $(O)/tests/faults/gpuimgd
SHIMS    = $(patsubst %.c,$(O)/%.so,$(wildcard tests/faults/shim_*.c))
FAULTS   = $(patsubst %.c,$(O)/%.o,$(filter-out tests/faults/hook.c tests/faults/codec_hook.c tests/faults/shim_%.c,$(wildcard tests/faults/*.c)))
BENCHES  = $(patsubst %.c,$(O)/%,$(wildcard tests/bench/bench_*.c)) \
           $(patsubst %_main.c,$(O)/%,$(filter-out tests/tools/jpeg_device_main.c,$(wildcard tests/tools/*_main.c)))

.PHONY: all all-gpus help deps demo check check-asan check-tsan check-valgrind check-service check-deb check-container check-manifests check-fresh check-tls check-urls check-metrics check-clients check-page \
        check-peers check-faults coverage documents \
        check-scale check-fleet check-upgrade chaos compare soak fuzz bench bench-peers bench-formats bench-linear bench-alone bench-host bench-gpu bench-cpu bench-queue bench-fleet bench-png bench-jpeg bench-progressive bench-encode bench-small contact-sheet install uninstall \
        deb clean build-tests build-fuzz run-check say-gpus say-all-gpus say-libraries
.PHONY: FORCE # .SECONDARY below would keep a missing file from forcing anything
.DELETE_ON_ERROR:
.SECONDARY:

all: say-gpus say-libraries $(O)/gpuimgd $(CODEC) $(O)/gpuimgctl $(O)/queue/ctl/gpuimgctl.bash
all-gpus: say-all-gpus say-libraries $(INSTALLED) $(CODEC) $(O)/gpuimgctl $(O)/queue/ctl/gpuimgctl.bash

help:
	@sed -n 's/^## //p' $(firstword $(MAKEFILE_LIST))

## make               build the daemon (CUDA=yes|no|auto, also HTTP=, CURL=, LCMS=, WEBP=, AVIF= and TLS=; WERROR=yes, VARIANT=release|asan|tsan|coverage)
## make all-gpus      build the daemon that make install installs, with machine code for all GPUs (CUDA_ARCHS=native: for this host's)
## make deps          install missing packages of the build and the tests (apt-get)
## make demo          install dependencies, build, run jobs on a private Redis and show the results
## make check         install dependencies, build, run all tests (GPUIMGD_REQUIRE_CUDA=1: a skipped CUDA test fails)
## make check-asan    run the tests under AddressSanitizer and UndefinedBehaviorSanitizer, CPU engine
## make check-tsan    run the tests under ThreadSanitizer, CPU engine
## make check-valgrind run the end-to-end tests with the daemon under valgrind memcheck, CPU engine
## make coverage      print the line coverage of all tests, and the reasons for uncovered lines
## make check-service test the service in a real systemd: a Debian tree booted by systemd-nspawn (root)
## make check-deb     test the Debian packages: lintian, install, upgrade, purge in a booted Debian tree (root)
## make check-container test the container image with podman: probes, drain on SIGTERM, restart (root)
## make check-manifests validate the Kubernetes manifests with kubernetes-validate from PyPI, which it installs into build/
## make check-fresh   run make demo, make check and make deb in fresh trees of Debian 12 and 13 (root; FRESH="13 check nvcc")
## make check-tls     test Redis over TLS, by itself and with the stunnel recipe of gpuimgd.conf(5)
## make check-urls    test URLs with nginx and with an S3 server from PyPI, which it installs into build/
## make check-metrics check /metrics, the alert rules and the dashboard with promtool
## make check-clients kill consumers of a stream, and of a list, 20 times while 4,000 jobs run
## make check-page    test the status page in headless Chromium: values, charts, schemes, widths, policy
## make check-faults  run every fault case: failures of daemons, Redis, connections, disks and GPUs
## make compare       run 10,000 jobs of all kinds with CUDA and on the CPU: all results must be equal (FOLDER= your images)
## make soak          run chaos with 50,000 jobs, three daemons, 1,000 kills -9
## make check-scale   run Sentinel and Cluster failovers, moving slots and many daemons, in full
## make check-fleet   measure the cost of 100 daemons for one Redis: idle, woken, loaded, cut off (FLEET=)
## make chaos         run 10,000 jobs with two daemons and 20 kills -9: every job has exactly one result
## make check-upgrade run this version beside an older one on one queue: OLD= a commit, tag or gpuimgd_*.deb
## make fuzz          run libFuzzer (clang) on every parser: make fuzz FUZZ_SECONDS=600 [FUZZ="job png"]
## make bench         compare the daemon with its own codec floor: make bench FOLDER=/some/photographs
## make bench-gpu     measure the engine and its kernels with pixels from memory
## make bench-cpu     measure the CPU engine's passes with pixels from memory, one thread
## make bench-queue   measure the queue alone: 1 and 4 daemons on one Redis; a shard on each of 1, 2 and 4
## make bench-fleet   compare the simulator of the fleet with 1 to 100 real daemons; BENCH=--table: 1 to 10,000
## make bench-png     compare PNG with libpng, libspng, zlib and libdeflate; BENCH=curve: cost of levels and filters
## make bench-jpeg    compare the JPEG codec of a GPU with nvJPEG and libjpeg-turbo: FOLDER=, BENCH="decode encode edges …"
## make bench-progressive compare the decoder of progressive JPEGs on a core with libjpeg-turbo: FOLDER=
## make bench-encode  compare the cost and the size of JPEGs with other parameters on a core: FOLDER=
## make bench-small   compare the daemon on small images with the codec floor and the queue alone
## make bench-peers   compare with OpenCV, libvips, ImageMagick and Pillow on your photographs: FOLDER=
## make bench-formats compare WebP and AVIF with the tools of their libraries, libvips and Pillow: FOLDER=
## make bench-linear  measure the cost of a job with 1,000 to 1,000,000 jobs queued, and with 0.1 to 50 MP
## make bench-host    compare the daemon on GPUs and CPUs with the codec floor, OpenCV and torchvision: FOLDER=
## make bench-alone   compare the job of one 50 MP image on a GPU with its decode and its encode
## make check-peers   compare the operations with OpenCV and Pillow, which it installs: Debian's, and 12.3 from PyPI
## make contact-sheet draw every operation on one image: make contact-sheet PHOTO=cat.jpg OUT=sheet.png
## make documents     generate the parts of documents that repeat a table: sample file, manual, METRICS.md, OPERATIONS.md
## make install       install into $(DESTDIR)$(prefix); make uninstall removes it
## make deb           build Debian packages in build/deb (DEB_SUFFIX=+site1 sets your own version)
## make clean         remove build/

ifeq ($(HAVE_CUDA),yes)
say_codes = @echo "CUDA: $(NVCC): $(if $(filter sm_%,$(1)),machine code for $(filter sm_%,$(1)) and PTX of $(filter \
  compute_%,$(1)) for later GPUs,PTX of $(1) alone because there is no GPU here; a driver compiles it at the first start)"
say-gpus:
	$(call say_codes,$(CUDA_CODES))
say-all-gpus:
	$(call say_codes,$(CUDA_CODES_ALL))
else
say-gpus say-all-gpus:
	@echo "CUDA: no ($(if $(filter auto,$(CUDA_WANTED)),no nvcc found,CUDA=$(CUDA_WANTED))): building the CPU engine only"
endif
say-libraries:
	@:
ifneq ($(HAVE_HTTP),yes)
	@echo "HTTP: no ($(if $(filter auto,$(HTTP)),no libmicrohttpd found,HTTP=$(HTTP))): metrics_listen will be refused"
endif
ifneq ($(HAVE_CURL),yes)
	@echo "CURL: no ($(if $(filter auto,$(CURL)),no libcurl of 7.88 or later found,CURL=$(CURL))): url_prefixes will be refused"
endif
ifneq ($(HAVE_LCMS),yes)
	@echo "LCMS: no ($(if $(filter auto,$(LCMS)),no lcms2 found,LCMS=$(LCMS))): to_srgb will refuse profiles with tables"
endif
ifneq ($(HAVE_WEBP),yes)
	@echo "WebP: no ($(if $(filter auto,$(WEBP)),no libwebp found,WEBP=$(WEBP))): jobs with WebP files will fail"
endif
ifneq ($(HAVE_AVIF),yes)
	@echo "AVIF: no ($(if $(filter auto,$(AVIF)),no libavif found,AVIF=$(AVIF))): jobs with AVIF files will fail"
endif
ifneq ($(HAVE_TLS),yes)
	@echo "TLS: no ($(if $(filter auto,$(TLS)),no OpenSSL found,TLS=$(TLS))): rediss:// will be refused"
endif

deps:
	@CUDA=$(HAVE_CUDA) tests/deps.sh

$(O)/gpuimgd: $(OBJECTS)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_ALL)

$(O)/all-gpus/gpuimgd: $(filter-out %.cu.o,$(OBJECTS)) $(KERNELS:%.cu=$(O)/all-gpus/%.cu.o)
	@mkdir -p $(@D)
	$(if $(CODEC),@ln -sfn ../gpuimgd-codec $(@D)/gpuimgd-codec)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_ALL)

$(O)/gpuimgd-codec: $(CONFINED)
	$(call say,LD)$(CC) -o $@ $^ $(SANITIZE) $(if $(COUNT_ALL),--coverage) $(LDFLAGS) $(AVIF_LIBS) -pthread
$(O)/codecs/confined/%.o: CFLAGS_ALL += $(AVIF_CFLAGS)
$(O)/codecs/process/start.o: CPPFLAGS_ALL += -DGPUIMGD_LIBEXECDIR='"$(libexecdir)/gpuimgd"'

$(O)/gpuimgctl: $(CTL)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CTL)

$(O)/%.o: %.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

$(O)/gpu/cuda/%.o: CPPFLAGS_ALL += -I$(CUDA_HOME)/include
# The loops of the CPU engine are written for vectorization.
$(O)/gpu/ops/%.o: CFLAGS_ALL += -O3 -fno-math-errno \
                            $(if $(COUNT),-fprofile-update=single)

$(O)/tests/%.o $(O)/tests/%.so: private COUNT =
# cmocka passes each test a state that most do not use.
$(O)/tests/%.o: private WARNINGS += -Wno-unused-parameter

$(O)/%.cu.o: %.cu $(O)/nvcc-flags
	@mkdir -p $(@D)
	$(call say,NVCC)$(NVCC) $(NVCCFLAGS_ALL) $(call gencode,$(CUDA_CODES)) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(O)/all-gpus/%.cu.o: %.cu $(O)/all-gpus/nvcc-flags
	@mkdir -p $(@D)
	$(call say,NVCC)$(NVCC) $(NVCCFLAGS_ALL) $(call gencode,$(CUDA_CODES_ALL)) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
# Profilers show the lines of these kernels.
$(O)/tests/bench/%.cu.o: NVCCFLAGS_ALL += -lineinfo

# All objects depend on these files, which change with CUDA=, WERROR=, the compilers and the GPUs.
keep = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
$(O)/flags: FORCE
	$(call keep,$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(NVCC) )
$(O)/nvcc-flags: FORCE
	$(call keep,$(NVCC) $(NVCCFLAGS_ALL) $(CUDA_CODES))
$(O)/all-gpus/nvcc-flags: FORCE
	$(call keep,$(NVCC) $(NVCCFLAGS_ALL) $(CUDA_CODES_ALL))

# The Lua scripts as C strings.
$(O)/queue/scripts.inc: $(SCRIPTS) $(wildcard queue/scripts/parts/*.lua) queue/scripts/embed.sh
	@mkdir -p $(@D)
	queue/scripts/embed.sh $(SCRIPTS) > $@
$(O)/queue/redis/script.o: | $(O)/queue/scripts.inc

# The shell completion, with the names of formats and operations.
$(O)/queue/ctl/gpuimgctl.bash: queue/ctl/gpuimgctl.bash conf/formats.def queue/ctl/operations.inc
	@mkdir -p $(@D)
	sed "s/@formats@/$$(sed -n 's/^FORMAT(\([a-z0-9]*\),.*/\1/p' conf/formats.def | xargs)/; \
	  s/@operations@/$$(sed -n 's/^X(\([a-z0-9_]*\),.*/\1/p' queue/ctl/operations.inc | xargs)/" $< > $@

# The status page as a C string, with its Content-Security-Policy.
$(O)/daemon/http/status_page.inc: daemon/http/status.html daemon/http/embed.sh
	@mkdir -p $(@D)
	daemon/http/embed.sh daemon/http/status.html > $@
$(O)/daemon/http/server.o: $(O)/daemon/http/status_page.inc

# ---- tests ---------------------------------------------------------------------------------------
$(O)/tests/%: $(O)/tests/%.o $(TEST_LIB) $(LIBRARY)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)
$(O)/tests/tools/%: $(O)/tests/tools/%_main.o $(TEST_LIB) $(LIBRARY)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)
$(O)/tests/tools/fleet: $(O)/tests/tools/fleet_rig.o
$(O)/tests/tools/chaos: $(patsubst %,$(O)/tests/tools/chaos_%.o,jobs kills results)
$(O)/tests/bench/bench_queue: $(patsubst %,$(O)/tests/bench/queue_%.o,clerk servers costs)
$(O)/tests/bench/bench_fleet: $(O)/tests/bench/queue_costs.o

$(O)/tests/faults/stage.o: private COUNT = $(COUNT_ALL)
$(O)/tests/faults/stage.o: daemon/pipeline/stage.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) -DGPUIMGD_FAULT_HOOKS $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(FAULTY): $(filter-out $(O)/daemon/pipeline/stage.o,$(OBJECTS)) $(O)/tests/faults/stage.o $(O)/tests/faults/hook.o \
           $(if $(filter yes,$(HAVE_CUDA)),$(O)/tests/faults/wild.cu.o)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_ALL)
$(O)/tests/faults/hook.o: CPPFLAGS_ALL += -DGPUIMGD_FAULT_HOOKS
# A codec process that fails at a given stage.
FAULTY_CODEC = $(if $(CODEC),$(O)/tests/faults/gpuimgd-codec)
$(O)/tests/faults/codec_main.o: codecs/confined/main.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) -DGPUIMGD_FAULT_HOOKS $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(O)/tests/faults/gpuimgd-codec: $(filter-out $(O)/codecs/confined/main.o,$(CONFINED)) $(O)/tests/faults/codec_main.o $(O)/tests/faults/codec_hook.o
	$(call say,LD)$(CC) -o $@ $^ $(SANITIZE) $(if $(COUNT_ALL),--coverage) $(LDFLAGS) $(AVIF_LIBS) -pthread
# A daemon that knows a later protocol, and works beside no older one.
LATER = $(O)/tests/faults/gpuimgd-later
$(O)/tests/faults/later/queue/scripts.inc: $(O)/queue/scripts.inc
	@mkdir -p $(@D)
	sed 's/\(PROTOCOL, PROTOCOL_LEAST = \)[0-9]*, [0-9]*/\1999, 999/' $< > $@
$(O)/tests/faults/later/script.o: queue/redis/script.c $(O)/tests/faults/later/queue/scripts.inc $(O)/flags
	$(call say,CC)$(CC) -I$(@D) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(LATER): $(filter-out $(O)/queue/redis/script.o,$(OBJECTS)) $(O)/tests/faults/later/script.o
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_ALL)
# Preloaded into a daemon, before its sanitizer, so built without one.
$(O)/tests/faults/%.so: tests/faults/%.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) $(filter-out $(SANITIZE),$(CFLAGS_ALL)) -fPIC -shared -MMD -MP -o $@ $< -ldl
$(O)/tests/unit/queue/test_clock: | $(O)/tests/faults/shim_clock.so
$(O)/tests/faults/faults: $(FAULTS) $(TEST_LIB) $(LIBRARY) | $(SHIMS)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)

# The system calls of systemd's @system-service without @privileged that this architecture has.
$(O)/tests/tools/system_service.inc: tests/tools/system_service.calls
	@mkdir -p $(@D)
	@sed 's/.*/#ifdef __NR_&\n__NR_&,\n#endif/' $< > $@
$(O)/tests/tools/confine_main.o: | $(O)/tests/tools/system_service.inc

# The references of the AVIF tests, and the sources of their files.
AVIF_TESTS = $(O)/tests/unit/codecs/test_avif $(O)/tests/unit/codecs/test_metadata $(O)/tests/fuzz/fuzz_avif \
             $(O)/tests/fuzz/replay_avif
$(AVIF_TESTS): LDLIBS_ALL += $(AVIF_LIBS)
$(O)/tests/%.o: CFLAGS_ALL += $(AVIF_CFLAGS)
# The references of the WebP tests.
$(addprefix $(O)/tests/unit/codecs/test_,webp metadata): LDLIBS_ALL += $(if $(filter yes,$(HAVE_WEBP)),$(shell $(PKG_CONFIG) --libs libwebpdemux libwebpmux))

# The CUDA engine without a device: gpu/ compiled for CUDA, without kernels, against the stand-in
# runtime of the tests (tests/cuda/cuda_runtime.h).
# The kernels of gpu/jpeg/ are compiled as C and run on the host (tests/cuda/simt.c).
STANDIN     = $(patsubst %,$(O)/tests/cuda/%.o,runtime launchers simt $(wildcard gpu/jpeg/*.cu) \
                $(basename $(sort $(filter gpu/%,$(SOURCES)) $(wildcard gpu/cuda/*.c))))
STANDIN_LIB = $(STANDIN) $(filter-out $(O)/gpu/%,$(LIBRARY))
STANDIN_DAEMON = $(O)/tests/faults/gpuimgd-cuda
STANDIN_OWN    = $(patsubst %.c,$(O)/%,$(wildcard tests/cuda/test_*.c))
STANDIN_TESTS  = $(O)/tests/cuda/test_engine $(STANDIN_OWN)
STANDIN_CC  = $(CC) $(filter-out -DGPUIMGD_CUDA,$(CPPFLAGS_ALL)) -DGPUIMGD_CUDA -Itests/cuda \
              $(CFLAGS_ALL) -MMD -MP

$(O)/tests/cuda/launchers.inc: $(wildcard gpu/ops/*.c)
	@mkdir -p $(@D)
	sed -n 's/^pass_cuda \(.*\);/\1/p' $^ | tr -d ' ' | tr ',' '\n' | sed 's/.*/LAUNCHER(&)/' > $@
	sed -n 's/^pass_cuda_many \(.*\);/LAUNCHER_OF_MANY(\1)/p' $^ >> $@
$(O)/tests/cuda/launchers.o $(O)/tests/cuda/test_test_image.o: $(O)/tests/cuda/launchers.inc
$(O)/tests/cuda/%.o: tests/cuda/%.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(STANDIN_CC) -c -o $@ $<
$(O)/tests/cuda/gpu/%.o: gpu/%.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(STANDIN_CC) -c -o $@ $<
$(O)/tests/cuda/gpu/%.cu.o: gpu/%.cu $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(STANDIN_CC) -O2 -x c -c -o $@ $<
# Kernels of gpu/ops on the host, for test_passes, which is skipped without a C++ compiler. With
# more checks than those of the memory of the passes, they would compile for minutes.
HOST_SANITIZE = $(if $(filter asan,$(VARIANT)),-fsanitize=address --param asan-stack=0 -fno-sanitize-address-use-after-scope)
HOST_KERNELS := $(if $(shell command -v $(CXX)),$(patsubst %,$(O)/tests/cuda/%.o,$(wildcard gpu/ops/*.cu)))
$(O)/tests/cuda/gpu/ops/%.cu.o: gpu/ops/%.cu $(O)/flags
	@mkdir -p $(@D)
	$(call say,CXX)$(CXX) -std=c++17 $(if $(filter asan,$(VARIANT)),-O0,-O1) -D__CUDACC__ -D__CUDA_ARCH_LIST__=0 -DGPUIMGD_CUDA -I. -I$(O) -Itests/cuda \
	  -include cuda_runtime.h -D_GNU_SOURCE $(filter-out -O% -std=%,$(CFLAGS)) -ffp-contract=off -fno-strict-aliasing \
	  -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wall -Wextra -Wno-unknown-pragmas $(HOST_SANITIZE) -MMD -MP -x c++ -c -o $@ $<
# Instrumented, the functions that switch coroutines would leave frames on ThreadSanitizer's stack,
# until it overflows.
$(O)/tests/cuda/simt.o: CFLAGS_ALL += $(if $(filter tsan,$(VARIANT)),-fno-sanitize=thread)
$(STANDIN_DAEMON): $(STANDIN_LIB) $(O)/daemon/main.o
	@mkdir -p $(@D)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_ALL)
$(O)/tests/cuda/test_engine: $(O)/tests/unit/gpu/test_engine.o $(TEST_LIB) $(STANDIN_LIB)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)
$(O)/tests/cuda/test_passes: $(O)/tests/cuda/test_passes.o $(O)/tests/cuda/pass_rig.o $(TEST_LIB) $(HOST_KERNELS) \
                             $(if $(HOST_KERNELS),$(filter-out %/launchers.o,$(STANDIN_LIB)),$(STANDIN_LIB))
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)
$(filter-out %/test_passes,$(STANDIN_OWN)): $(O)/tests/cuda/%: $(O)/tests/cuda/%.o $(O)/tests/cuda/jobs.o $(TEST_LIB) $(STANDIN_LIB)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)
# The tests of kernels, which call the CUDA runtime themselves, also run on a device.
DEVICE_TESTS = $(if $(filter yes,$(HAVE_CUDA)),$(patsubst tests/cuda/%.c,$(O)/tests/device/%,\
                 $(wildcard tests/cuda/test_jpeg*.c) tests/cuda/test_passes.c))
$(O)/tests/device/test_passes: $(O)/tests/device/pass_rig.o
$(O)/tests/device/%.o: tests/cuda/%.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) -I$(CUDA_HOME)/include $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(DEVICE_TESTS): $(O)/tests/device/%: $(O)/tests/device/%.o $(TEST_LIB) $(LIBRARY)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)

# A tool that calls the CUDA runtime. Without CUDA, it runs the kernels on the host.
JPEG_DEVICE = $(O)/tests/tools/jpeg_device
$(O)/tests/tools/jpeg_device_main.o: tests/tools/jpeg_device_main.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(if $(filter yes,$(HAVE_CUDA)),$(CC) $(CPPFLAGS_ALL) -I$(CUDA_HOME)/include $(CFLAGS_ALL) -MMD -MP,$(STANDIN_CC)) -c -o $@ $<
$(JPEG_DEVICE): $(O)/tests/tools/jpeg_device_main.o $(TEST_LIB) $(if $(filter yes,$(HAVE_CUDA)),$(LIBRARY),$(STANDIN_LIB))
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)

# bench_gpu also times single copies and kernels, and NPP, if the toolkit has it.
ifneq ($(and $(filter yes,$(HAVE_CUDA)),$(wildcard $(CUDA_HOME)/include/nppi.h)),)
$(O)/tests/bench/bench_npp.cu.o: NVCCFLAGS_ALL += -DGPUIMGD_NPP
$(O)/tests/bench/bench_gpu: LDLIBS_ALL += $(foreach l,if ig icc ist ial itc idei c,-lnpp$(l)) \
                                          -Wl,-rpath,$(CUDA_HOME)/lib64
endif
$(O)/tests/bench/bench_gpu: $(patsubst %.cu,$(O)/%.cu.o,$(if $(filter yes,$(HAVE_CUDA)),$(wildcard tests/bench/*.cu)))

$(patsubst %,$(O)/tests/bench/bench_%,daemon small floor): $(O)/tests/bench/floor.o
$(O)/tests/bench/bench_tile: $(O)/tests/bench/jpeg_photos.o

# bench_jpeg compares with nvJPEG, if the toolkit has it.
ifeq ($(HAVE_CUDA),yes)
JPEG_BENCH = $(patsubst %,$(O)/tests/bench/jpeg_%.o,photos flow queue nvjpeg)
$(JPEG_BENCH): CPPFLAGS_ALL += -I$(CUDA_HOME)/include
$(O)/tests/bench/bench_jpeg: $(JPEG_BENCH)
ifneq ($(wildcard $(CUDA_HOME)/include/nvjpeg.h),)
$(O)/tests/bench/jpeg_nvjpeg.o: CPPFLAGS_ALL += -DGPUIMGD_NVJPEG
$(O)/tests/bench/bench_jpeg: LDLIBS_ALL += -lnvjpeg -Wl,-rpath,$(CUDA_HOME)/lib64
endif
endif

# bench_png compares with those PNG libraries that are installed.
PNG_PEERS  := $(foreach l,spng libdeflate,$(if $(call has_library,$(l)),$(l)))
$(O)/tests/bench/png_peers: FORCE
	@mkdir -p $(@D)
	@echo '$(PNG_PEERS)' | cmp -s - $@ || echo '$(PNG_PEERS)' > $@
PNG_BENCH  := $(patsubst %.c,$(O)/%.o,$(wildcard tests/bench/png_*.c))
$(PNG_BENCH) $(O)/tests/bench/bench_png.o: $(O)/tests/bench/png_peers
$(PNG_BENCH) $(O)/tests/bench/bench_png.o: CFLAGS_ALL += \
    $(if $(filter spng,$(PNG_PEERS)),-DHAVE_SPNG) $(if $(filter libdeflate,$(PNG_PEERS)),-DHAVE_LIBDEFLATE)
$(O)/tests/bench/bench_png: $(PNG_BENCH)
$(O)/tests/bench/bench_png: LDLIBS_ALL += $(shell $(PKG_CONFIG) --libs zlib $(PNG_PEERS))

# Each fuzz target is built twice: with libFuzzer, and as a test that replays its seeds and corpus.
FUZZ_SECONDS ?= 60
$(FUZZERS): $(O)/tests/fuzz/%: $(O)/tests/fuzz/%.o $(FUZZ_LIB) $(TEST_LIB) $(LIBRARY)
	$(call say,LD)$(CC) -fsanitize=fuzzer -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)
$(REPLAYS): $(O)/tests/fuzz/replay_%: $(O)/tests/fuzz/fuzz_%.o $(O)/tests/fuzz/replay.o \
                                      $(FUZZ_LIB) $(TEST_LIB) $(LIBRARY)
	$(call say,LD)$(CC) -o $@ $^ $(LDLIBS_CMOCKA) $(LDLIBS_ALL)

build-fuzz: $(CODEC) $(FUZZERS) $(REPLAYS)
build-tests: all $(TESTS) $(REPLAYS) $(BENCHES) $(FAULTY) $(FAULTY_CODEC) $(LATER) $(O)/tests/faults/faults $(STANDIN_DAEMON) \
             $(STANDIN_TESTS) $(DEVICE_TESTS) $(JPEG_DEVICE)

run-check: build-tests
	@tests/run.sh $(O)

check: deps
	@$(MAKE) --no-print-directory run-check
check-asan: deps
	@$(MAKE) --no-print-directory VARIANT=asan CFLAGS="-O1 -g" run-check
check-tsan: deps
	@$(MAKE) --no-print-directory VARIANT=tsan CFLAGS="-O1 -g" run-check
check-valgrind: deps
	@tests/deps.sh valgrind
	@$(MAKE) --no-print-directory CUDA=no O=build/cpu build-tests
	@tests/valgrind/check.sh build/cpu
coverage: deps
	@$(MAKE) --no-print-directory VARIANT=coverage CFLAGS="-O0 -g" build-tests
	@tests/coverage/report.sh build/coverage
check-metrics: deps
	@tests/deps.sh promtool $(O)/promtool
	@$(MAKE) --no-print-directory all
	@PROMTOOL=$(CURDIR)/$(O)/promtool/promtool tests/scripts/test_metrics.sh $(O)
check-clients: deps
	@$(MAKE) --no-print-directory all
	@tests/scripts/test_clients.sh $(O) 20 4000
check-page: deps
	@tests/deps.sh page
	@$(MAKE) --no-print-directory all
	@/usr/bin/python3 -B tests/page/check_page.py $(O)
check-urls: deps
	@tests/deps.sh urls
	@$(MAKE) --no-print-directory all
	@test -x $(O)/moto/bin/moto_server || { python3 -m venv $(O)/moto && $(O)/moto/bin/pip install -q 'moto[server]'; } || true
	@tests/scripts/test_urls.sh $(O)
	@tests/scripts/test_photo_site.sh $(O)
check-tls: deps
	@tests/deps.sh tls
	@$(MAKE) --no-print-directory all
	@tests/service/tls.sh $(O)/gpuimgd
check-service: deps
	@$(MAKE) --no-print-directory all
	@tests/service/check.sh
check-fresh:
	@tests/service/fresh.sh $(FRESH)
check-deb: deb
	@tests/service/package.sh
check-container: deb
	@tests/service/container.sh
check-manifests: deps
	@tests/deps.sh manifests
	@test -x $(O)/kubernetes/bin/kubernetes-validate || { /usr/bin/python3 -m venv $(O)/kubernetes && \
	  $(O)/kubernetes/bin/pip install -q kubernetes-validate python-hcl2; } || true
	@tests/service/manifests.sh $(O)
check-faults: deps
	@$(MAKE) --no-print-directory build-tests
	@$(O)/tests/faults/faults --build $(O) $(FAULT)
soak: deps
	@$(MAKE) --no-print-directory chaos CHAOS="--jobs 50000 --kills 1000 --daemons 3 $(CHAOS)"
check-scale: deps
	@$(MAKE) --no-print-directory build-tests
	@GPUIMGD_SCALE=full tests/run.sh $(O) tests/scale/
check-fleet: deps
	@$(MAKE) --no-print-directory all $(O)/tests/tools/fleet
	@$(O)/tests/tools/fleet --daemon $(O)/gpuimgd $(FLEET)
chaos: deps
	@$(MAKE) --no-print-directory build-tests
	@$(O)/tests/tools/chaos --daemon $(O)/gpuimgd $(CHAOS)
check-upgrade: deps
	@$(MAKE) --no-print-directory all $(O)/tests/tools/chaos
	@tests/upgrade.sh $(O) $(OLD) $(CHAOS)
compare: deps
	@$(MAKE) --no-print-directory build-tests
	@$(O)/tests/tools/compare --daemon $(O)/gpuimgd --jobs 10000 $(if $(FOLDER),--folder "$(FOLDER)") $(COMPARE)
fuzz:
	@tests/deps.sh
	@tests/deps.sh fuzz
	@$(MAKE) --no-print-directory VARIANT=fuzz CFLAGS="-O1 -g" build-fuzz
	@tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(FUZZ)
demo:
	@CUDA=$(HAVE_CUDA) tests/deps.sh demo
	@$(MAKE) --no-print-directory all
	@tests/demo.sh $(O)/gpuimgd
bench: deps
	@$(MAKE) --no-print-directory build-tests
	@$(O)/tests/bench/bench_daemon --daemon $(O)/gpuimgd $(if $(FOLDER),--folder "$(FOLDER)") $(BENCH)
bench-gpu: deps
	@$(MAKE) --no-print-directory build-tests
	@$(O)/tests/bench/bench_gpu $(BENCH)
bench-cpu: deps
	@$(MAKE) --no-print-directory $(O)/tests/bench/bench_gpu
	@$(O)/tests/bench/bench_gpu cpu
bench-queue: deps
	@$(MAKE) --no-print-directory all $(O)/tests/bench/bench_queue
	@$(O)/tests/bench/bench_queue --daemon $(O)/gpuimgd $(BENCH)
bench-fleet: deps
	@$(MAKE) --no-print-directory all $(O)/tests/bench/bench_fleet
	@$(O)/tests/bench/bench_fleet $(if $(BENCH),$(BENCH),--daemon $(O)/gpuimgd)
bench-png: deps
	@tests/deps.sh png
	@$(MAKE) --no-print-directory $(O)/tests/bench/bench_png
	@$(O)/tests/bench/bench_png $(if $(FOLDER),--folder "$(FOLDER)") $(BENCH)
bench-jpeg: deps
	@$(MAKE) --no-print-directory $(O)/tests/bench/bench_jpeg
	@$(O)/tests/bench/bench_jpeg --folder "$(FOLDER)" $(BENCH)
bench-progressive: deps
	@$(MAKE) --no-print-directory $(O)/tests/bench/bench_progressive
	@find "$(FOLDER)" -iname '*.jp*g' -exec $(O)/tests/bench/bench_progressive $(BENCH) {} +
bench-encode: deps
	@$(MAKE) --no-print-directory $(O)/tests/bench/bench_encode
	@find "$(FOLDER)" -iname '*.jp*g' -exec $(O)/tests/bench/bench_encode $(BENCH) {} +
bench-small: deps
	@$(MAKE) --no-print-directory all $(O)/tests/bench/bench_small
	@$(O)/tests/bench/bench_small --daemon $(O)/gpuimgd $(BENCH)
bench-peers: deps
	@tests/deps.sh bench-peers
	@$(MAKE) --no-print-directory all $(O)/tests/bench/bench_floor
	@tests/bench/peers.py --build $(O) --folder "$(FOLDER)" --svg tests/bench/peers.svg $(BENCH)
bench-formats: deps
	@tests/deps.sh bench-formats
	@$(MAKE) --no-print-directory all $(O)/tests/bench/bench_formats
	@tests/bench/formats.py --build $(O) --folder "$(FOLDER)" $(BENCH)
bench-linear: deps
	@tests/deps.sh bench-linear
	@$(MAKE) --no-print-directory all
	@tests/bench/linear.py --build $(O) --svg tests/bench/linear.svg $(BENCH)
bench-alone: deps
	@tests/deps.sh bench-alone
	@$(MAKE) --no-print-directory all
	@tests/bench/alone.py --build $(O) $(BENCH)
bench-host: deps
	@tests/deps.sh bench-host
	@$(MAKE) --no-print-directory all $(O)/tests/bench/bench_floor $(O)/tests/bench/bench_tile
	@tests/bench/host.py --build $(O) --folder "$(FOLDER)" --json $(O)/bench-host.json $(BENCH)
check-peers: deps
	@tests/deps.sh peers
	@$(MAKE) --no-print-directory $(O)/tests/tools/apply
	@test -x $(O)/pillow/bin/pip || /usr/bin/python3 -m venv --system-site-packages $(O)/pillow
	@$(O)/pillow/bin/pip install -q 'pillow==12.3.*' || rm -rf $(O)/pillow
	@tests/run.sh $(O) peers
contact-sheet: deps
	@tests/deps.sh contact-sheet
	@$(MAKE) --no-print-directory $(O)/tests/tools/apply $(O)/tests/tools/operations
	@tests/tools/contact_sheet.py $(O) "$(or $(OUT),$(O)/sheet.png)" $(if $(PHOTO),"$(PHOTO)")

documents: all $(O)/tests/tools/operations $(O)/tests/tools/formats
	@tests/documents.sh $(O)
	@tests/operations.sh $(O)

# ---- install -------------------------------------------------------------------------------------
PAGES = $(notdir $(wildcard conf/man/*.[1-8]))
# gpuimgd.service and the template gpuimgd@.service are made from one file. They differ in the files
# and folders that each daemon has alone.
UNIT_PLACES = s|@sbindir@|$(sbindir)|g; s|@sysconfdir@|$(sysconfdir)|g

install: all-gpus
	install -D -m 0755 $(INSTALLED) $(DESTDIR)$(sbindir)/gpuimgd
	test -z "$(CODEC)" || install -D -m 0755 $(O)/gpuimgd-codec $(DESTDIR)$(libexecdir)/gpuimgd/gpuimgd-codec
	install -D -m 0755 $(O)/gpuimgctl $(DESTDIR)$(bindir)/gpuimgctl
	install -D -m 0644 $(O)/queue/ctl/gpuimgctl.bash $(DESTDIR)$(completionsdir)/gpuimgctl
	install -d $(DESTDIR)$(sysconfdir)/gpuimgd/conf.d
	test -e $(DESTDIR)$(sysconfdir)/gpuimgd/gpuimgd.conf || \
	  install -m 0644 conf/gpuimgd.conf $(DESTDIR)$(sysconfdir)/gpuimgd/gpuimgd.conf
	install -D -m 0644 conf/gpuimgd.conf $(DESTDIR)$(docdir)/gpuimgd.conf
	install -m 0644 queue/PROTOCOL.md queue/CLIENTS.md daemon/METRICS.md gpu/OPERATIONS.md conf/grafana.json conf/alerts.yml \
	  $(DESTDIR)$(docdir)/
	sed -f conf/installed.sed README.md > $(DESTDIR)$(docdir)/README.md
	chmod 0644 $(DESTDIR)$(docdir)/README.md
	install -d $(DESTDIR)$(docdir)/deploy/kubernetes
	install -m 0644 conf/deploy/README.md conf/deploy/Containerfile $(DESTDIR)$(docdir)/deploy/
	install -m 0644 conf/deploy/kubernetes/* $(DESTDIR)$(docdir)/deploy/kubernetes/
	install -d $(DESTDIR)$(docdir)/examples
	install -m 0644 tests/examples/*.c $(DESTDIR)$(docdir)/examples/
	install -m 0755 $(filter-out %.c,$(wildcard tests/examples/*)) $(DESTDIR)$(docdir)/examples/
	for page in $(PAGES); do \
	  install -D -m 0644 conf/man/$$page $(DESTDIR)$(mandir)/man$${page##*.}/$$page || exit; done
	install -d $(DESTDIR)$(unitdir) $(DESTDIR)$(sysusersdir) $(DESTDIR)$(tmpfilesdir)
	sed '$(UNIT_PLACES); s|@name@||g; s|@-i@||g; s|@/i@||g' systemd/gpuimgd.service.in \
	  > $(DESTDIR)$(unitdir)/gpuimgd.service
	sed '$(UNIT_PLACES); s|@name@|@NAME|g; s|@-i@|-%i|g; s|@/i@|/%i|g; s|^Description=.*|& (%i)|' \
	  systemd/gpuimgd.service.in > $(DESTDIR)$(unitdir)/gpuimgd@.service
	chmod 0644 $(DESTDIR)$(unitdir)/gpuimgd.service $(DESTDIR)$(unitdir)/gpuimgd@.service
	install -m 0644 systemd/gpuimgd.sysusers $(DESTDIR)$(sysusersdir)/gpuimgd.conf
	install -m 0644 systemd/gpuimgd.tmpfiles $(DESTDIR)$(tmpfilesdir)/gpuimgd.conf
	@test -n "$(DESTDIR)" || echo "To start it: systemd-sysusers && systemd-tmpfiles --create &&" \
	  "systemctl daemon-reload && systemctl enable --now gpuimgd; after an upgrade" \
	  "systemctl daemon-reload && systemctl restart gpuimgd"

# Keeps the configuration in sysconfdir and the data.
uninstall:
	rm -f $(DESTDIR)$(sbindir)/gpuimgd $(DESTDIR)$(bindir)/gpuimgctl \
	  $(DESTDIR)$(completionsdir)/gpuimgctl \
	  $(DESTDIR)$(unitdir)/gpuimgd.service $(DESTDIR)$(unitdir)/gpuimgd@.service \
	  $(DESTDIR)$(sysusersdir)/gpuimgd.conf $(DESTDIR)$(tmpfilesdir)/gpuimgd.conf
	for page in $(PAGES); do rm -f $(DESTDIR)$(mandir)/man$${page##*.}/$$page; done
	rm -rf $(DESTDIR)$(docdir) $(DESTDIR)$(libexecdir)/gpuimgd
	@test -n "$(DESTDIR)" || echo "If it still runs: systemctl stop gpuimgd." \
	  "$(sysconfdir)/gpuimgd, /var/lib/gpuimgd and the user gpuimgd stay."

deb: deps
	@tests/deps.sh deb
	@CUDA="$(CUDA)" CUDA_ARCHS="$(or $(CUDA_ARCHS),all)" NVCC="$(NVCC)" CC="$(CC)" systemd/debian/build.sh $(DEB_SUFFIX)

clean:
	rm -rf build

# Compilers write these files. Without this rule, make searches for a way to make each of them.
$(O)/%.d: ;
-include $(patsubst %.o,%.d,$(OBJECTS) $(KERNELS:%.cu=$(O)/all-gpus/%.cu.o) $(CONFINED) $(CTL) $(TEST_LIB) $(FAULTS)) $(TESTS:%=%.d) $(BENCHES:%=%.d) \
         $(FUZZ_LIB:.o=.d) $(FUZZERS:%=%.d) $(O)/tests/fuzz/replay.d \
         $(O)/tests/faults/codec_main.d $(O)/tests/faults/codec_hook.d $(O)/tests/faults/hook.d $(O)/tests/faults/stage.d $(SHIMS:.so=.d) \
         $(STANDIN:.o=.d) $(STANDIN_TESTS:%=%.d) $(HOST_KERNELS:.o=.d) $(O)/tests/cuda/pass_rig.d $(DEVICE_TESTS:%=%.d) $(O)/tests/cuda/jobs.d $(O)/tests/bench/floor.d $(PNG_BENCH:.o=.d) $(wildcard $(O)/tests/bench/queue_*.d) \
         $(patsubst %.c,$(O)/%.d,$(wildcard tests/tools/*.c))
endif # one goal
