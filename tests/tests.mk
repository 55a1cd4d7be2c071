# tests.mk - builds and runs the tests, the fuzz targets, the tools and the benchmarks. The Makefile
# includes it. A line `## TARGET: TEXT` describes a target.

TEST_LIB = $(patsubst %.c,$(O)/%.o,$(wildcard tests/fixtures/*.c tests/fixtures/*/*.c))
# Archives of objects: a program of tests is linked with those that it uses. To link all objects takes
# ten times as long. environment.o is always linked, for its constructors.
FIXTURES    = $(O)/tests/fixtures/environment.o $(O)/tests/fixtures.a
KIT         = $(FIXTURES) $(O)/tests/library.a
KIT_STANDIN = $(FIXTURES) $(O)/tests/standin.a
TESTS    = $(patsubst %.c,$(O)/%,$(sort $(wildcard tests/unit/*/test_*.c tests/e2e/test_*.c \
             tests/scale/test_*.c)))
FUZZ_LIB = $(patsubst %.c,$(O)/%.o,$(filter-out $(wildcard tests/fuzz/fuzz_*.c) tests/fuzz/replay.c,\
             $(wildcard tests/fuzz/*.c)))
REPLAYS  = $(patsubst tests/fuzz/fuzz_%.c,$(O)/tests/fuzz/replay_%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZERS  = $(patsubst %.c,$(O)/%,$(wildcard tests/fuzz/fuzz_*.c))
FAULTS   = $(patsubst %.c,$(O)/%.o,$(filter-out tests/faults/%hook.c tests/faults/shim_%.c,\
             $(wildcard tests/faults/*.c)))
SHIMS    = $(patsubst %.c,$(O)/%.so,$(wildcard tests/faults/shim_*.c))
BENCHES  = $(patsubst %.c,$(O)/%,$(wildcard tests/bench/bench_*.c))
TOOLS    = $(patsubst %_main.c,$(O)/%,$(filter-out tests/tools/%_device_main.c,$(wildcard tests/tools/*_main.c)))

$(O)/tests/%.o $(O)/tests/%.so: private COUNT =
# cmocka passes each test a state that most do not use.
$(O)/tests/%.o: private WARNINGS += -Wno-unused-parameter

define archive
@mkdir -p $(@D)
$(call say,AR)rm -f $@; $(AR) rcsT $@ $^
endef
$(O)/tests/fixtures.a: $(filter-out %/environment.o,$(TEST_LIB))
	$(archive)
$(O)/tests/library.a: $(LIBRARY)
	$(archive)

# There are many programs of tests, and gold needs a third of ld's time, but does not find the
# libraries of every compiler. lld would search the archives again, and find calls of the system in
# fixtures that no test has asked for. As with ld, constants are in a segment of their own.
GOLD = -fuse-ld=gold -Wl,--rosegment
TEST_LINKER := $(shell echo 'int main(void) { return 0; }' | \
                 $(CC) $(LDFLAGS) $(GOLD) -x c - -o /dev/null -lstdc++ 2>/dev/null && echo $(GOLD))
link_test = $(call link,$(TEST_LINKER) $(LDLIBS_CMOCKA) $(LDLIBS_ALL))
$(O)/tests/%: $(O)/tests/%.o $(KIT)
	$(link_test)
$(O)/tests/tools/%: $(O)/tests/tools/%_main.o $(KIT)
	$(link_test)

# The references of tests, and the sources of their files.
CODEC_TESTS = $(addprefix $(O)/tests/unit/codecs/test_,gif heic jxl jxl_damage jxl_encoder strip tiff tiff_files avif avif_header avif_metadata avif_movie avif_own metadata) \
              $(O)/tests/unit/gpu/test_avif_encoder $(addprefix $(O)/tests/e2e/test_,explain frames) \
              $(foreach name,avif gif jxl tiff,$(O)/tests/fuzz/fuzz_$(name) $(O)/tests/fuzz/replay_$(name))
$(CODEC_TESTS): LDLIBS_ALL += $(CODEC_LIBS)
$(O)/tests/%.o: private CFLAGS_ALL += $(CODEC_CFLAGS)
# The references of the WebP tests.
$(addprefix $(O)/tests/unit/codecs/test_,webp webp_pages metadata): LDLIBS_ALL += \
    $(if $(call have,WEBP),$(shell $(PKG_CONFIG) --libs libwebpdemux libwebpmux))

# ---- faults --------------------------------------------------------------------------------------
# A daemon with fault hooks, which can die at any stage. Only one object differs.
HOOKED = spine
FAULTY = $(O)/tests/faults/gpuimgd
$(O)/tests/faults/$(HOOKED).o: private COUNT = $(COUNT_ALL)
$(O)/tests/faults/$(HOOKED).o: daemon/pipeline/$(HOOKED).c $(O)/flags
	$(call compile,-DGPUIMGD_FAULT_HOOKS)
$(FAULTY): $(filter-out $(O)/daemon/pipeline/$(HOOKED).o,$(OBJECTS)) $(O)/tests/faults/$(HOOKED).o $(O)/tests/faults/hook.o \
           $(if $(call have,CUDA),$(O)/tests/faults/wild.cu.o)
	$(call link,$(LDLIBS_ALL))
$(O)/tests/faults/hook.o: private CPPFLAGS_ALL += -DGPUIMGD_FAULT_HOOKS
# A codec process that fails at a given stage.
FAULTY_CODEC = $(O)/tests/faults/gpuimgd-codec
$(O)/tests/faults/faulty_codec.o: codecs/confined/codec_main.c $(O)/flags
	$(call compile,-DGPUIMGD_FAULT_HOOKS)
$(O)/tests/faults/gpuimgd-codec: $(filter-out $(O)/codecs/confined/codec_main.o,$(CONFINED)) \
                                 $(O)/tests/faults/faulty_codec.o $(O)/tests/faults/codec_hook.o
	$(call link,$(LDFLAGS_ALL) $(LDFLAGS_CODEC) $(CODEC_LIBS) -lm -pthread)
# A daemon that knows a later protocol, and works beside no older one.
LATER = $(O)/tests/faults/gpuimgd-later
$(O)/tests/faults/later/queue/scripts.inc: $(O)/queue/scripts.inc
	@mkdir -p $(@D)
	sed 's/\(PROTOCOL, PROTOCOL_LEAST = \)[0-9]*, [0-9]*/\1999, 999/' $< > $@
$(O)/tests/faults/later/script.o: queue/redis/script.c $(O)/tests/faults/later/queue/scripts.inc $(O)/flags
	$(call say,CC)$(CC) -I$(@D) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(LATER): $(filter-out $(O)/queue/redis/script.o,$(OBJECTS)) $(O)/tests/faults/later/script.o
	$(call link,$(LDLIBS_ALL))
# Preloaded into a daemon, before its sanitizer, so built without one.
$(O)/tests/faults/%.so: tests/faults/%.c $(O)/flags
	@mkdir -p $(@D)
	$(call say,CC)$(CC) $(CPPFLAGS_ALL) $(filter-out $(SANITIZE),$(CFLAGS_ALL)) -fPIC -shared -MMD -MP -o $@ $< -ldl
$(O)/tests/unit/queue/test_clock: | $(O)/tests/faults/shim_clock.so
$(O)/tests/faults/faults: $(FAULTS) $(KIT) | $(SHIMS)
	$(link_test)

# ---- the CUDA engine without a device ------------------------------------------------------------
# The sources of gpu/ that depend on CUDA, compiled for it against the stand-in runtime of the tests
# (tests/cuda/cuda_runtime.h), without the kernels of gpu/ops. The kernels of the codecs are compiled
# as C and run on the host (tests/cuda/simt.c).
STANDIN_AGAIN := $(basename $(wildcard gpu/cuda/*.c) gpu/engine/engine.c $(shell grep -l '^pass_cuda' gpu/ops/*.c))
STANDIN        = $(patsubst %,$(O)/tests/cuda/%.o,runtime launchers simt $(STANDIN_AGAIN) \
                   $(wildcard $(foreach c,jpeg png webp avif/device,gpu/$(c)/*.cu)))
STANDIN_LIB    = $(STANDIN) $(filter-out %.cu.o $(STANDIN_AGAIN:%=$(O)/%.o),$(LIBRARY))
STANDIN_DAEMON = $(O)/tests/faults/gpuimgd-cuda
STANDIN_OWN    = $(patsubst %.c,$(O)/%,$(wildcard tests/cuda/test_*.c))
STANDIN_UNIT   = $(O)/tests/cuda/test_engine $(O)/tests/cuda/test_share
STANDIN_TESTS  = $(STANDIN_UNIT) $(STANDIN_OWN)
STANDIN_CC     = $(CC) $(filter-out -DGPUIMGD_CUDA,$(CPPFLAGS_ALL)) -DGPUIMGD_CUDA -Itests/cuda \
                 $(CFLAGS_ALL) -MMD -MP
define compile_standin
@mkdir -p $(@D)
$(call say,CC)$(STANDIN_CC) $(1) -c -o $@ $<
endef

$(O)/tests/cuda/launchers.inc: $(wildcard gpu/ops/*.c)
	@mkdir -p $(@D)
	sed -n 's/^pass_cuda \(.*\);/\1/p' $^ | tr -d ' ' | tr ',' '\n' | sed 's/.*/LAUNCHER(&)/' > $@
	sed -n 's/^pass_cuda_many \(.*\);/LAUNCHER_OF_MANY(\1)/p' $^ >> $@
$(O)/tests/cuda/launchers.o $(O)/tests/cuda/test_test_image.o: $(O)/tests/cuda/launchers.inc
$(O)/tests/cuda/%.o: tests/cuda/%.c $(O)/flags
	$(call compile_standin)
$(O)/tests/cuda/gpu/%.o: gpu/%.c $(O)/flags
	$(call compile_standin)
$(O)/tests/cuda/gpu/%.cu.o: gpu/%.cu $(O)/flags
	$(call compile_standin,-O2 -x c)
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
# until it overflows; and with AddressSanitizer, kernels would take half as long again.
SWITCHES = $(if $(filter tsan,$(VARIANT)),-fno-sanitize=thread,$(if $(filter asan,$(VARIANT)),-fno-sanitize=all -O2 -DSIMT_ASAN))
$(O)/tests/cuda/simt.o: private CFLAGS_ALL += $(SWITCHES)
$(STANDIN_DAEMON): $(STANDIN_LIB) $(O)/daemon/main.o
	$(call link,$(LDLIBS_ALL))
$(O)/tests/standin.a: $(STANDIN_LIB)
	$(archive)
$(STANDIN_UNIT): $(O)/tests/cuda/%: $(O)/tests/unit/gpu/%.o $(KIT_STANDIN)
	$(link_test)
$(O)/tests/cuda/test_passes: $(O)/tests/cuda/test_passes.o $(O)/tests/cuda/pass_rig.o $(HOST_KERNELS) $(KIT_STANDIN)
	$(link_test)
$(filter-out %/test_passes,$(STANDIN_OWN)): $(O)/tests/cuda/%: $(O)/tests/cuda/%.o $(O)/tests/cuda/jobs.o $(KIT_STANDIN)
	$(link_test)

# The tests of kernels, which call the CUDA runtime themselves, also run on a device.
DEVICE_TESTS = $(if $(call have,CUDA),$(patsubst tests/cuda/%.c,$(O)/tests/device/%,\
                 $(wildcard $(foreach c,jpeg png webp avif,tests/cuda/test_$(c)*.c)) tests/cuda/test_passes.c))
$(O)/tests/device/test_passes: $(O)/tests/device/pass_rig.o
$(O)/tests/device/%.o: tests/cuda/%.c $(O)/flags
	$(call compile,-I$(CUDA_HOME)/include)
$(DEVICE_TESTS): $(O)/tests/device/%: $(O)/tests/device/%.o $(KIT)
	$(link_test)

# ---- tools ---------------------------------------------------------------------------------------
$(O)/tests/tools/fleet: $(O)/tests/tools/fleet_rig.o
$(O)/tests/tools/chaos: $(patsubst %,$(O)/tests/tools/chaos_%.o,jobs kills results)
# The system calls of systemd's @system-service without @privileged that this architecture has.
$(O)/tests/tools/system_service.inc: tests/tools/system_service.calls
	@mkdir -p $(@D)
	@sed 's/.*/#ifdef __NR_&\n__NR_&,\n#endif/' $< > $@
$(O)/tests/tools/confine_main.o: | $(O)/tests/tools/system_service.inc
# Tools that call the CUDA runtime. Without CUDA, they run the kernels on the host.
DEVICE_TOOLS = $(patsubst tests/tools/%_main.c,$(O)/tests/tools/%,$(wildcard tests/tools/*_device_main.c))
$(DEVICE_TOOLS:%=%_main.o): $(O)/%.o: %.c $(O)/flags
	$(if $(call have,CUDA),$(call compile,-I$(CUDA_HOME)/include),$(call compile_standin))
$(DEVICE_TOOLS): $(O)/tests/tools/%: $(O)/tests/tools/%_main.o $(if $(call have,CUDA),$(KIT),$(KIT_STANDIN))
	$(link_test)

# ---- benchmarks ----------------------------------------------------------------------------------
$(patsubst %,$(O)/tests/bench/bench_%,daemon small floor): $(O)/tests/bench/floor.o
$(O)/tests/bench/bench_tile: $(O)/tests/bench/jpeg_photos.o
$(O)/tests/bench/bench_formats: $(O)/tests/bench/luma.o
# Profilers show the lines of these kernels.
$(O)/tests/bench/%.cu.o: private NVCCFLAGS_ALL += -lineinfo

$(O)/tests/bench/bench_gpu: $(O)/tests/bench/resizes.o
# bench_gpu also times single copies and kernels.
ifeq ($(HAVE_CUDA),yes)
$(O)/tests/bench/bench_gpu: $(patsubst %.cu,$(O)/%.cu.o,$(wildcard tests/bench/*.cu))
JPEG_BENCH = $(patsubst %,$(O)/tests/bench/jpeg_%.o,photos flow)
$(JPEG_BENCH): private CPPFLAGS_ALL += -I$(CUDA_HOME)/include
$(O)/tests/bench/bench_jpeg: $(JPEG_BENCH)
endif

# Without CUDA, bench_images measures the host's part of the CUDA engine.
IDLE_LIB = $(patsubst %/runtime.o,%/idle_runtime.o,$(STANDIN_LIB))
$(O)/tests/idle.a: $(IDLE_LIB)
	$(archive)
ifneq ($(HAVE_CUDA),yes)
$(O)/tests/bench/bench_images: $(O)/tests/bench/bench_images.o $(FIXTURES) $(O)/tests/idle.a
	$(link_test)
endif

# bench_png compares with those PNG libraries that are installed.
PNG_PEERS  := $(foreach l,spng libdeflate,$(if $(call has_library,$(l)),$(l)))
$(O)/tests/bench/png_peers: FORCE
	$(call keep,$(PNG_PEERS))
PNG_BENCH  := $(patsubst %.c,$(O)/%.o,$(wildcard tests/bench/png_*.c))
$(PNG_BENCH) $(O)/tests/bench/bench_png.o: $(O)/tests/bench/png_peers
$(PNG_BENCH) $(O)/tests/bench/bench_png.o: private CFLAGS_ALL += \
    $(if $(filter spng,$(PNG_PEERS)),-DHAVE_SPNG) $(if $(filter libdeflate,$(PNG_PEERS)),-DHAVE_LIBDEFLATE)
$(O)/tests/bench/png_device.o: private CPPFLAGS_ALL += $(if $(call have,CUDA),-I$(CUDA_HOME)/include)
# Without CUDA, these two only say that they need it. They time each launch of a kernel.
ifeq ($(HAVE_CUDA),yes)
$(O)/tests/bench/batches.o: private CPPFLAGS_ALL += -I$(CUDA_HOME)/include
BATCH_BENCHES = $(patsubst %,$(O)/tests/bench/bench_%,avif webp)
$(BATCH_BENCHES): $(O)/tests/bench/batches.o
$(BATCH_BENCHES): LDLIBS_ALL += -Wl,--wrap=cudaLaunchKernelExC
endif
$(O)/tests/bench/bench_png: $(PNG_BENCH)
$(O)/tests/bench/bench_png: LDLIBS_ALL += $(shell $(PKG_CONFIG) --libs zlib $(PNG_PEERS))

# ---- fuzzing -------------------------------------------------------------------------------------
# Each fuzz target is built twice: with libFuzzer, and as a test that replays its seeds and corpus.
FUZZ_SECONDS ?= 60
$(FUZZERS): $(O)/tests/fuzz/%: $(O)/tests/fuzz/%.o $(FUZZ_LIB) $(KIT)
	$(call link,-fsanitize=fuzzer $(LDLIBS_CMOCKA) $(LDLIBS_ALL))
$(REPLAYS): $(O)/tests/fuzz/replay_%: $(O)/tests/fuzz/fuzz_%.o $(O)/tests/fuzz/replay.o \
                                      $(FUZZ_LIB) $(KIT)
	$(link_test)

# ---- targets: the tests --------------------------------------------------------------------------
.PHONY: demo build-tests build-fuzz run-check check check-quick check-asan check-tsan check-valgrind \
        test coverage fuzz soak check-fresh check-deb check-container
build-fuzz: $(CODEC) $(FUZZERS) $(REPLAYS)
DAEMONS = $(FAULTY) $(FAULTY_CODEC) $(LATER) $(STANDIN_DAEMON)
# What tests/run.sh needs only without GPUIMGD_TEST_AGAIN.
ONCE = $(TOOLS) $(DEVICE_TOOLS) $(O)/tests/faults/faults $(FAULTY_CODEC) $(addprefix $(O)/tests/e2e/test_,device_% ctl%)
build-tests: all $(filter-out $(if $(filter 1,$(GPUIMGD_TEST_AGAIN)),$(ONCE)),\
             $(TESTS) $(REPLAYS) $(if $(filter asan tsan,$(VARIANT)),,$(BENCHES)) $(TOOLS) $(DAEMONS) \
             $(O)/tests/faults/faults $(STANDIN_TESTS) $(DEVICE_TESTS) $(DEVICE_TOOLS))
run-check: build-tests
	@tests/run.sh $(O)

## demo: install dependencies, build, run jobs on a private Redis and show the results
demo:
	@CUDA=$(HAVE_CUDA) tests/deps.sh demo
	@$(MAKE) --no-print-directory all
	@tests/demo.sh $(O)/gpuimgd
## check: install dependencies, build, run all tests (GPUIMGD_REQUIRE_CUDA=1: a skipped CUDA test fails)
check: deps
	@$(MAKE) --no-print-directory run-check
## check-quick: build and run the unit tests, and check the form of the sources, in less than a minute after the build
UNIT_TESTS = $(filter $(O)/tests/unit/%,$(TESTS))
check-quick: deps
	@$(MAKE) --no-print-directory all $(UNIT_TESTS)
	@GPUIMGD_TEST_QUICK=1 GPUIMGD_TEST_JOBS=$${GPUIMGD_TEST_JOBS:-$$((3 * $$(nproc)))} tests/run.sh $(O) tests/unit/ test_tidy.sh test_formatted.sh
## test: build and run the tests named in T: make test T=test_op_point; or all whose names contain a word: T="op_ jpeg"
# CHOSEN: as tests/run.sh chooses. Scripts and fault cases use many programs. Other tests need the
# other daemons if they name them.
NAMES  = $(patsubst $(O)/%,%,$(TESTS) $(STANDIN_TESTS) $(DEVICE_TESTS) $(FUZZERS)) tests/faults \
         $(wildcard tests/scripts/test_*.sh)
CHOSEN = $(sort $(foreach t,$(T:%.sh=%),$(or $(filter %/$(t) %/$(t).sh,$(NAMES)),\
           $(foreach name,$(NAMES),$(if $(findstring $(t),$(name)),$(name))))))
NEEDED = $(if $(filter-out tests/faults %.sh,$(CHOSEN)),$(if $(filter tests/faults %.sh,$(CHOSEN)),build-tests,\
           all $(patsubst %,$(O)/%,$(CHOSEN:tests/fuzz/fuzz_%=tests/fuzz/replay_%)) \
           $(if $(shell grep -lE 'GPUIMGD_(FAULTY|LATER|STANDIN)' /dev/null $(wildcard $(CHOSEN:=.c))),$(DAEMONS))),build-tests)
test:
	@test -n "$(T)" || { echo 'make test T=NAME: names or parts of names of tests, such as test_op_point' >&2; exit 2; }
	@$(MAKE) --no-print-directory $(NEEDED)
	@tests/run.sh $(O) $(T)
## check-asan: run the tests under AddressSanitizer and UndefinedBehaviorSanitizer, CPU engine
check-asan: deps
	@$(MAKE) --no-print-directory VARIANT=asan CFLAGS="-O1 -g1" run-check
## check-tsan: run the tests under ThreadSanitizer, CPU engine
check-tsan: deps
	@$(MAKE) --no-print-directory VARIANT=tsan CFLAGS="-O1 -g1" run-check
## check-valgrind: run the end-to-end tests with the daemon under valgrind memcheck, CPU engine
check-valgrind: deps
	@tests/deps.sh valgrind
	@$(MAKE) --no-print-directory CUDA=no O=build/cpu build-tests
	@tests/valgrind/check.sh build/cpu
## coverage: print the line coverage of all tests, and the reasons for uncovered lines
coverage: deps
	@$(MAKE) --no-print-directory VARIANT=coverage CFLAGS="-O0 -g" build-tests
	@tests/coverage/report.sh build/coverage
## fuzz: run libFuzzer (clang) on every parser: FUZZ_SECONDS=600: per target; FUZZ="job png": only these
fuzz:
	@tests/deps.sh
	@tests/deps.sh fuzz
	@$(MAKE) --no-print-directory VARIANT=fuzz CFLAGS="-O1 -g" build-fuzz
	@tests/fuzz/run.sh build/fuzz $(FUZZ_SECONDS) $(FUZZ)
## check-fresh: run make demo, check and deb in fresh trees of Debian 12 and 13, without and with nvcc (root; FRESH="13 check nvcc": only these)
check-fresh:
	@tests/service/fresh.sh $(FRESH)
## check-deb: test the Debian packages in a booted Debian tree: lintian, install, upgrade under load, remove, purge (root)
check-deb: deb
	@tests/service/package.sh
## check-container: test the image of conf/deploy/Containerfile with podman: read-only, not root; probes, drain, restart (root)
check-container: deb
	@tests/service/container.sh
## soak: run chaos with 50,000 jobs, three daemons, 1,000 kills -9
soak: deps
	@$(MAKE) --no-print-directory chaos CHAOS="--jobs 50000 --kills 1000 --daemons 3 $(CHAOS)"

# ---- targets of one form -------------------------------------------------------------------------
# Each installs the packages of the build and its own (arguments of tests/deps.sh), builds its
# programs, and runs its commands.
packages :=
programs :=
FORMED := $(shell sed -n 's/^\([a-z-]*\): commands = .*/\1/p' tests/tests.mk)
.PHONY: $(FORMED)
$(FORMED): deps
	@$(if $(packages),tests/deps.sh $(packages))
	@$(if $(programs),$(MAKE) --no-print-directory $(programs))
	@$(commands)
bench-%: programs = $(bench)
bench  = $(O)/tests/bench/$(subst -,_,$@)
tools  = $(O)/tests/tools
folder = $(if $(FOLDER),--folder "$(FOLDER)")
# $(call venv,FOLDER,PROGRAM,PACKAGES): a command that installs packages of PyPI into $(O)/FOLDER,
# unless it has the program. If that fails, the tests that need it are skipped.
venv   = { test -x $(O)/$(1)/bin/$(2) || { /usr/bin/python3 -m venv $(O)/$(1) && \
           $(O)/$(1)/bin/pip install -q $(3); } || true; }

## check-faults: run every fault case: failures of daemons, Redis, connections, disks and GPUs (FAULT="--only decoding": a part)
check-faults: programs = build-tests
check-faults: commands = $(O)/tests/faults/faults --build $(O) $(FAULT)
## chaos: run 10,000 jobs with two daemons and 20 kills -9: every job has exactly one result (CHAOS="--shards 4 --master-kills 10": a Cluster)
chaos: programs = build-tests
chaos: commands = $(tools)/chaos --daemon $(O)/gpuimgd $(CHAOS)
## compare: run 10,000 jobs of all kinds with CUDA and on the CPU engine: all outputs have the same bytes (FOLDER= your images)
compare: programs = build-tests
compare: commands = $(tools)/compare --daemon $(O)/gpuimgd --jobs 10000 $(folder) $(COMPARE)
## check-scale: run Sentinels and a Cluster under load in full: masters killed, a slot moved, three daemons
check-scale: programs = build-tests
check-scale: commands = GPUIMGD_SCALE=full tests/run.sh $(O) tests/scale/
## check-fleet: measure the cost of 100 daemons for one Redis, with limits: idle, woken, loaded, cut off (FLEET=)
check-fleet: programs = all $(tools)/fleet
check-fleet: commands = $(tools)/fleet --daemon $(O)/gpuimgd $(FLEET)
## check-upgrade: run this version beside an older one on one queue: OLD= a commit, tag or gpuimgd_*.deb
check-upgrade: programs = all $(tools)/chaos
check-upgrade: commands = tests/upgrade.sh $(O) $(OLD) $(CHAOS)
## check-service: test the service in a real systemd: a Debian tree booted by systemd-nspawn (root)
check-service: programs = all
check-service: commands = tests/service/check.sh
## check-manifests: validate conf/deploy/kubernetes by the schemas of Kubernetes and custom resources (kubernetes-validate, from PyPI)
check-manifests: packages = manifests
check-manifests: commands = $(call venv,kubernetes,kubernetes-validate,kubernetes-validate python-hcl2); \
  tests/service/manifests.sh $(O)
## check-tls: test Redis over TLS with the stunnel recipe of gpuimgd.conf(5)
check-tls: packages = tls
check-tls: programs = all
check-tls: commands = tests/service/tls.sh $(O)/gpuimgd
## check-urls: test images by URL with nginx (TLS, HTTP/2) and an S3 server that checks signatures (moto, from PyPI)
check-urls: packages = urls
check-urls: programs = all
check-urls: commands = $(call venv,moto,moto_server,'moto[server]'); \
  tests/scripts/test_urls.sh $(O) && tests/scripts/test_photo_site.sh $(O)
## check-metrics: check /metrics, the alert rules and the dashboard with Prometheus's promtool
check-metrics: packages = promtool $(O)/promtool
check-metrics: programs = all
check-metrics: commands = PROMTOOL=$(CURDIR)/$(O)/promtool/promtool tests/scripts/test_metrics.sh $(O)
## check-clients: kill consumers of a stream, and of a list, 20 times while 4,000 jobs run: each result takes effect once; read shards with WebDataset (from PyPI)
check-clients: programs = all
check-clients: commands = $(call venv,webdataset,f2py,webdataset); tests/scripts/test_clients.sh $(O) 20 4000 && \
  tests/scripts/test_recipe_webdataset.sh $(O)
## check-page: test the status and fleet pages in headless Chromium: values, charts, schemes, widths, policy (screenshots: build/release/page)
check-page: packages = page
check-page: programs = all
check-page: commands = /usr/bin/python3 -B tests/page/check_page.py $(O)
## check-peers: compare the operations and PNGs with OpenCV and Pillow byte for byte (Debian's, and Pillow 12.3 from PyPI)
check-peers: packages = peers
check-peers: programs = all $(tools)/apply $(tools)/png_corpus
check-peers: commands = { test -x $(O)/pillow/bin/pip || /usr/bin/python3 -m venv --system-site-packages $(O)/pillow; } && \
  { $(O)/pillow/bin/pip install -q 'pillow==12.3.*' || rm -rf $(O)/pillow; } && tests/run.sh $(O) peers

## bench: compare the daemon with the time of its codecs alone: FOLDER=/some/photographs
bench: programs = build-tests
bench: commands = $(O)/tests/bench/bench_daemon --daemon $(O)/gpuimgd $(folder) $(BENCH)
## bench-host: compare the daemon, Redis to files, on GPUs and CPUs with its codecs and libvips: FOLDER=; BENCH="--only proxy,uploads": realistic mixes
bench-host: packages = bench-host
bench-host: programs = all $(O)/tests/bench/bench_floor $(O)/tests/bench/bench_tile
bench-host: commands = tests/bench/host.py --build $(O) --folder "$(FOLDER)" --json $(O)/bench-host.json $(BENCH)
## bench-sets: compare jobs with many images (lists, shards) with single jobs, with bounds and with other libraries: FOLDER=, BENCH=--quick
bench-sets: packages = bench-sets
bench-sets: programs = all $(O)/tests/bench/bench_floor
bench-sets: commands = tests/bench/sets.py --build $(O) --folder "$(FOLDER)" --json $(O)/bench-sets.json $(BENCH)
## bench-small: compare the daemon on images of 64 to 512 pixels per side with its codecs and the queue alone
bench-small: programs = all $(bench)
bench-small: commands = $(bench) --daemon $(O)/gpuimgd $(BENCH)
## bench-outputs: compare ways to write small files that appear whole: BENCH="--folder /dev/shm --threads 16"
bench-outputs: programs = $(bench)
bench-outputs: commands = $(bench) $(BENCH)
## bench-queue: measure the queue without image work: 1 and 4 daemons on one Redis
bench-queue: programs = all $(bench)
bench-queue: commands = $(bench) --daemon $(O)/gpuimgd $(BENCH)
## bench-fleet: predict the load of 1 to 10,000 daemons with the simulator of fleets; BENCH="--one --count 50": one fleet
bench-fleet: commands = $(bench) $(BENCH)
## bench-gpu: measure the engine and its kernels with pixels from memory, against the copy bandwidth
bench-gpu: programs = build-tests
bench-gpu: commands = $(bench) $(BENCH)
## bench-images: measure how many small JPEGs an engine takes per second: BENCH="--work tensor --width 500 --height 375 --bytes 110000"
bench-images: commands = $(bench) $(BENCH)
## bench-cpu: measure the CPU engine's passes with pixels from memory, one thread
bench-cpu: programs = $(O)/tests/bench/bench_gpu
bench-cpu: commands = $(O)/tests/bench/bench_gpu cpu
## bench-jpeg: compare the JPEG codec of a GPU with libjpeg-turbo: FOLDER=, BENCH="decode encode edges similar devices small large progressive"
bench-jpeg: commands = $(bench) --folder "$(FOLDER)" $(BENCH)
## bench-png: compare PNG with libpng, libspng, zlib and libdeflate: FOLDER=; BENCH=read: ms per megapixel of reading; BENCH=device: the codec of a GPU; BENCH=curve: every level, filter and strategy
bench-png: packages = png
bench-png: commands = $(bench) $(folder) $(BENCH)
## bench-webp: compare the WebP encoder of a GPU with libwebp: FOLDER=, BENCH="--quality 95"
bench-webp: commands = $(bench) $(folder) $(BENCH)
## bench-avif-device: compare the AV1 encoder of a GPU with the cores: FOLDER=, BENCH="--kernels --batch 300": also the time of each kernel
bench-avif-device: programs = $(O)/tests/bench/bench_avif
bench-avif-device: commands = $(programs) $(folder) $(BENCH)
## bench-formats: compare WebP, AVIF and JPEG XL at every effort, and the tools of their libraries, libvips and Pillow: FOLDER=
bench-formats: packages = bench-formats
bench-formats: programs = all $(bench)
bench-formats: commands = tests/bench/formats.py --build $(O) --folder "$(FOLDER)" $(BENCH)
## bench-avif: draw the sizes and qualities of AVIF at every effort, and of WebP, and compare them by their BD rates: FOLDER=, BENCH="--photos 4 --widths 640"
bench-avif: packages = bench-avif
bench-avif: programs = all $(O)/tests/bench/bench_formats
bench-avif: commands = $(call venv,ssimulacra2,f2py,ssimulacra2); \
  tests/bench/avif.py --build $(O) --folder "$(FOLDER)" --json $(O)/bench-avif.json --svg $(O)/bench-avif.svg $(BENCH)
