# gpuimgd - builds and installs the daemon. tests/tests.mk has the tests; `make help` lists the
# targets. A line `## TARGET: TEXT` describes a target, here and in tests/tests.mk: `make help` and
# the table in tests/TESTS.md are made of these lines.

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
VARIANT ?= release
WERROR  ?= no
prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
sbindir ?= $(prefix)/sbin
libexecdir ?= $(prefix)/libexec
sysconfdir ?= /etc
docdir  ?= $(prefix)/share/doc/gpuimgd
datadir ?= $(prefix)/share/gpuimgd
completionsdir ?= $(prefix)/share/bash-completion/completions
# The folder of the Python package, such as /usr/lib/python3/dist-packages. By default, make install
# leaves it to pip (queue/clients/python/README.md).
pythondir ?=
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
have = $(filter yes,$(HAVE_$(1)))
# $(call once,NAME,VALUE): expands VALUE at the first use of the variable NAME only.
once = $(eval $(1) := $(2))$($(1))

O = build/$(VARIANT)
say = $(if $(filter 0,$(V)),@echo "  $(1)	$(patsubst $(O)/%,%,$@)";)

CUDA_WANTED = $(if $(filter asan tsan coverage fuzz,$(VARIANT)),no,$(CUDA))
SANITIZE =
ifeq ($(VARIANT),asan)
  SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
else ifeq ($(VARIANT),tsan)
  SANITIZE = -fsanitize=thread -fno-omit-frame-pointer
else ifeq ($(VARIANT),coverage)
  # Counts the runs of every line except in tests, also in processes that end with _exit.
  COUNT_ALL = --coverage -fprofile-update=atomic -include tests/coverage/exit.h
  COUNT = $(COUNT_ALL)
else ifeq ($(VARIANT),fuzz)
  # Every object has libFuzzer's counters. Only fuzz_* links libFuzzer and its main.
  CC = clang
  SANITIZE = -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
             -fno-omit-frame-pointer
endif

HAVE_CUDA := $(if $(filter auto,$(CUDA_WANTED)),$(if $(NVCC),yes,no),$(CUDA_WANTED))
ifeq ($(HAVE_CUDA)$(NVCC),yes)
  $(error CUDA is yes, but nvcc is not in PATH or /usr/local/cuda/bin; set NVCC=)
endif

# Optional libraries: NAME=yes|no|auto. $(call optional,NAME,its title,its name and version for
# pkg-config,what is missing,what the daemon lacks without it,_CODEC if only gpuimgd-codec is linked
# with it)
LIBS_CODEC =
define optional
  $(1) ?= auto
  HAVE_$(1) := $$(if $$(filter auto,$$($(1))),$$(or $$(call has_library,$(3)),no),$$($(1)))
  OPTIONAL += $(1)
  ifeq ($$(HAVE_$(1)),yes)
    LIBS$(6) += $(firstword $(3))
  else
    SAY_MISSING += echo "$(2): no ($$(if $$(filter auto,$$($(1))),no $(4) found,$(1)=$$($(1)))): $(5)";
  endif
endef
$(eval $(call optional,HTTP,HTTP,libmicrohttpd,libmicrohttpd,metrics_listen will be refused))
$(eval $(call optional,CURL,CURL,libcurl >= 7.88,libcurl of 7.88 or later,url_prefixes will be refused))
$(eval $(call optional,LCMS,LCMS,lcms2,lcms2,to_srgb will refuse profiles with tables))
$(eval $(call optional,WEBP,WebP,libwebp,libwebp,jobs with WebP files will fail))
$(eval $(call optional,AVIF,AVIF,libavif,libavif,jobs with AVIF inputs will fail,_CODEC))
$(eval $(call optional,JXL,JPEG XL,libjxl >= 0.7,libjxl of 0.7 or later,jobs with JPEG XL files will fail,_CODEC))
$(eval $(call optional,HEIF,HEIC,libheif >= 1.12,libheif of 1.12 or later,jobs with HEIC files will fail,_CODEC))
$(eval $(call optional,GIF,GIF,libgif,giflib,jobs with GIF files will fail,_CODEC))
$(eval $(call optional,TIFF,TIFF,libtiff-4 >= 4.2,libtiff of 4.2 or later,jobs with TIFF files will fail,_CODEC))
$(eval $(call optional,TEXT,text,pangocairo >= 1.50,Pango of 1.50 or later,jobs with the operation text will fail,_CODEC))
LIBS_CODEC += $(and $(call have,TEXT),fontconfig pangoft2)
$(eval $(call optional,ARCHIVE,archives,libarchive,libarchive,jobs with archives will fail))
$(eval $(call optional,TLS,TLS,openssl,OpenSSL,rediss:// will be refused))
# Only gpuimgd-codec is linked with LIBS_CODEC, and tests that compare with these libraries.
ifneq ($(LIBS_CODEC),)
  CODEC_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(LIBS_CODEC))
  CODEC_LIBS   := $(shell $(PKG_CONFIG) --libs $(LIBS_CODEC))
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
               $(foreach name,CUDA $(OPTIONAL),$(if $(call have,$(name)),-DGPUIMGD_$(name))) $(CPPFLAGS)
# -ffp-contract=off: float arithmetic must give the same bits on every engine and machine.
CFLAGS_ALL = -std=c11 $(CFLAGS) -ffp-contract=off -fno-strict-aliasing $(WARNINGS) $(SANITIZE) \
             $(COUNT) $(CFLAGS_LIBS) -pthread
LDFLAGS_ALL = $(SANITIZE) $(if $(COUNT_ALL),--coverage) $(LDFLAGS)
LDLIBS_ALL = $(LDFLAGS_ALL) $(LDLIBS_LIBS) -lm -pthread $(LDLIBS)
LDLIBS_CTL = $(LDFLAGS_ALL) $(shell $(PKG_CONFIG) --libs libuv hiredis libcjson $(filter openssl,$(LIBS))) \
             -lm -pthread $(LDLIBS)

# $(call compile,FLAGS) and $(call link,LIBRARIES): recipes of an object and of a program. Objects come
# before the archives that have what they need.
define compile
@mkdir -p $(@D)
$(call say,CC)$(CC) $(CPPFLAGS_ALL) $(1) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
endef
define link
@mkdir -p $(@D)
$(call say,LD)$(CC) -o $@ $(filter-out %.a,$^) $(filter %.a,$^) $(1)
endef

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

# The folders of the AV1 encoder, the lower ones first.
AVIF_ROOMS = frame predict transform kernels decide entropy device

comma := ,
# Functions that gpuimgd-codec defines in the place of libraries, which may be loaded as plugins.
LDFLAGS_CODEC = $(addprefix -Wl$(comma)--export-dynamic-symbol=,$(and $(call have,HEIF),de265_start_worker_threads) \
                  $(and $(call have,TEXT),access open open64 fstat fstat64))

# The folders of the daemon's source files. gpu/cuda/ calls the CUDA runtime.
ROOMS    = conf codecs codecs/avif codecs/jpeg codecs/png codecs/webp codecs/process codecs/archive queue/redis queue/lease queue/job gpu/colour gpu/plan gpu/engine \
           $(if $(call have,CUDA),gpu/cuda) gpu/ops gpu/jpeg gpu/png gpu/webp $(AVIF_ROOMS:%=gpu/avif/%) gpu/avif daemon daemon/files daemon/overlays daemon/sets \
           daemon/pipeline daemon/telemetry daemon/http daemon/selfcheck daemon/web daemon/workers
SOURCES  = $(wildcard $(ROOMS:%=%/*.c))
# The daemon that `make install` installs. It shares all objects but those of the kernels with
# $(O)/gpuimgd, unless that one has the same architectures.
INSTALLED = $(O)/$(if $(call have,CUDA),$(if $(CUDA_ARCHS),,all-gpus/))gpuimgd
KERNELS  = $(if $(call have,CUDA),$(wildcard $(ROOMS:%=%/*.cu)))
OBJECTS  = $(SOURCES:%.c=$(O)/%.o) $(KERNELS:%.cu=$(O)/%.cu.o)
LIBRARY  = $(filter-out $(O)/daemon/main.o,$(OBJECTS))
# The process that reads BMPs, and runs the libraries of LIBS_CODEC.
CODEC    = $(O)/gpuimgd-codec
CONFINED = $(patsubst %.c,$(O)/%.o,$(wildcard codecs/confined/*.c codecs/confined/*/*.c))
# The command-line client consists of conf/, queue/ and its own folder.
CTL      = $(patsubst %.c,$(O)/%.o,$(filter conf/% queue/%,$(SOURCES)) \
             $(wildcard queue/ctl/*.c queue/ctl/*/*.c))
SCRIPTS  = $(sort $(wildcard queue/scripts/*.lua))

.PHONY: all all-gpus help deps documents format install uninstall deb clean say-gpus \
        say-all-gpus say-libraries
.PHONY: FORCE # .SECONDARY below would keep a missing file from forcing anything
.DELETE_ON_ERROR:
.SECONDARY:

## all: build the daemon and gpuimgctl, the default (CUDA=yes|no|auto, also HTTP=, CURL=, LCMS=, WEBP=, AVIF=, JXL=, HEIF=, GIF=, TIFF=, TEXT=, ARCHIVE= and TLS=; WERROR=yes, VARIANT=release|asan|tsan|coverage)
all: say-gpus say-libraries $(O)/gpuimgd $(CODEC) $(O)/gpuimgctl $(O)/queue/ctl/gpuimgctl.bash
## all-gpus: build the daemon that make install installs, with machine code for all GPUs (CUDA_ARCHS=native: for this host's)
all-gpus: say-all-gpus say-libraries $(INSTALLED) $(CODEC) $(O)/gpuimgctl $(O)/queue/ctl/gpuimgctl.bash

## help: list the targets
help:
	@tests/targets.sh help

## deps: install missing packages of the build and the tests (apt-get)
deps:
	@CUDA=$(HAVE_CUDA) tests/deps.sh

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
	@$(SAY_MISSING) :

$(O)/gpuimgd: $(OBJECTS)
	$(call link,$(LDLIBS_ALL))

$(O)/all-gpus/gpuimgd: $(filter-out %.cu.o,$(OBJECTS)) $(KERNELS:%.cu=$(O)/all-gpus/%.cu.o)
	$(call link,$(LDLIBS_ALL))
	@ln -sfn ../gpuimgd-codec $(@D)/gpuimgd-codec

$(O)/gpuimgd-codec: $(CONFINED)
	$(call link,$(LDFLAGS_ALL) $(LDFLAGS_CODEC) $(CODEC_LIBS) -lm -pthread)
$(O)/codecs/confined/%.o: private CFLAGS_ALL += $(CODEC_CFLAGS)
$(O)/codecs/process/spawn.o: private CPPFLAGS_ALL += -DGPUIMGD_LIBEXECDIR='"$(libexecdir)/gpuimgd"'

$(O)/gpuimgctl: $(CTL)
	$(call link,$(LDLIBS_CTL))

$(O)/%.o: %.c $(O)/flags
	$(call compile)

$(O)/gpu/cuda/%.o: private CPPFLAGS_ALL += -I$(CUDA_HOME)/include
# The loops of the CPU engine, of the AV1 encoder, of the PNG writer and of similarities are written for
# vectorization. With AddressSanitizer, the kernels of the encoder would compile for half a minute.
$(O)/codecs/png/png_kernels.o: private CFLAGS_ALL += -O3
$(O)/codecs/ssim_compare.o: private CFLAGS_ALL += -O3
$(O)/gpu/avif/%.o: private CFLAGS_ALL += $(if $(filter asan,$(VARIANT)),,-O3)
$(O)/gpu/ops/%.o: private CFLAGS_ALL += -O3 -fno-math-errno \
                            $(if $(COUNT),-fprofile-update=single)

define compile_kernel
@mkdir -p $(@D)
$(call say,NVCC)$(NVCC) $(NVCCFLAGS_ALL) $(call gencode,$(1)) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
endef
$(O)/%.cu.o: %.cu $(O)/nvcc-flags
	$(call compile_kernel,$(CUDA_CODES))
$(O)/all-gpus/%.cu.o: %.cu $(O)/all-gpus/nvcc-flags
	$(call compile_kernel,$(CUDA_CODES_ALL))

# All objects depend on these files, which change with CUDA=, WERROR=, the compilers and the GPUs.
# Flags of single objects are private, so that these files do not inherit them.
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

# The shell completion, with the names of formats that are written, and of operations.
written_formats = $$(tr '\n' ' ' < conf/formats.def | sed 's/FORMAT(/\n&/g' | \
                    sed -n '/\.becomes/!s/^FORMAT(\([a-z0-9]*\), \.noun = .*/\1/p' | xargs)
$(O)/queue/ctl/gpuimgctl.bash: queue/ctl/gpuimgctl.bash conf/formats.def queue/ctl/operations.inc
	@mkdir -p $(@D)
	sed "s/@formats@/$(written_formats)/; \
	  s/@operations@/$$(sed -n 's/^X(\([a-z0-9_]*\),.*/\1/p' queue/ctl/operations.inc | xargs)/" $< > $@

# The pages of the HTTP server as C strings, each with its Content-Security-Policy.
$(O)/daemon/http/pages.inc: $(wildcard daemon/http/*.html daemon/http/page.*) daemon/http/embed.sh
	@mkdir -p $(@D)
	daemon/http/embed.sh daemon/http/status.html daemon/http/fleet.html > $@
$(O)/daemon/http/http_server.o: $(O)/daemon/http/pages.inc

include tests/tests.mk

## documents: write what repeats a table: sample file, manual, METRICS.md, OPERATIONS.md, TESTS.md, Python package, JSON Schemas
documents: all $(O)/tests/tools/operations $(O)/tests/tools/formats $(O)/tests/tools/declarations
	@tests/documents.sh $(O)
	@tests/operations.sh $(O)
	@if command -v python3 >/dev/null; then queue/clients/generate.py $(O); else \
	  echo "there is no python3 here: the Python package and the JSON Schemas are not written"; fi

## format: format the changed lines of C and CUDA files with clang-format (BASE= a commit: since then)
format:
	@tests/format.sh $(BASE)

# ---- install -------------------------------------------------------------------------------------
PYTHON = queue/clients/python/src/gpuimgd
PYTHON_INFO = $(pythondir)/gpuimgd-$(VERSION).dist-info
define install_python
install -d $(DESTDIR)$(pythondir)/gpuimgd/schema $(DESTDIR)$(PYTHON_INFO)
	install -m 0644 $(PYTHON)/*.py $(PYTHON)/py.typed $(DESTDIR)$(pythondir)/gpuimgd/
	install -m 0644 $(PYTHON)/schema/*.json $(DESTDIR)$(pythondir)/gpuimgd/schema/
	printf '%s\n' 'Metadata-Version: 2.1' 'Name: gpuimgd' 'Version: $(VERSION)' 'Requires-Python: >=3.9' \
	  'Requires-Dist: redis>=4.3' > $(DESTDIR)$(PYTHON_INFO)/METADATA
endef
PAGES = $(notdir $(wildcard conf/man/*.[1-8]))
# gpuimgd.service and the template gpuimgd@.service are made from one file. They differ in the files
# and folders that each daemon has alone.
UNIT_PLACES = s|@sbindir@|$(sbindir)|g; s|@sysconfdir@|$(sysconfdir)|g

## install: install into $(DESTDIR)$(prefix)
install: all-gpus
	install -D -m 0755 $(INSTALLED) $(DESTDIR)$(sbindir)/gpuimgd
	install -D -m 0755 $(O)/gpuimgd-codec $(DESTDIR)$(libexecdir)/gpuimgd/gpuimgd-codec
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
	install -D -m 0644 queue/clients/python/README.md $(DESTDIR)$(docdir)/clients/python/README.md
	install -d $(DESTDIR)$(docdir)/examples
	install -m 0644 tests/examples/*.c $(DESTDIR)$(docdir)/examples/
	install -m 0755 $(filter-out %.c,$(wildcard tests/examples/*)) $(DESTDIR)$(docdir)/examples/
	install -d $(DESTDIR)$(datadir)
	install -m 0644 $(PYTHON)/schema/*.json $(DESTDIR)$(datadir)/
	$(if $(pythondir),$(install_python))
	install -d $(addprefix $(DESTDIR)$(docdir)/clients/recipes/,interactive webdataset)
	install -m 0755 $(addprefix queue/clients/recipes/,watch.sh s3_events.py images_http.py dedup.py) $(DESTDIR)$(docdir)/clients/recipes/
	install -m 0644 $(addprefix queue/clients/recipes/,README.md scans.json sidekiq.rb celery_tasks.py) $(DESTDIR)$(docdir)/clients/recipes/
	install -m 0644 queue/clients/recipes/interactive/* $(DESTDIR)$(docdir)/clients/recipes/interactive/
	install -m 0755 queue/clients/recipes/webdataset/*.py $(DESTDIR)$(docdir)/clients/recipes/webdataset/
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

## uninstall: remove what make install installs, but keep the configuration and the data
uninstall:
	rm -f $(DESTDIR)$(sbindir)/gpuimgd $(DESTDIR)$(bindir)/gpuimgctl \
	  $(DESTDIR)$(completionsdir)/gpuimgctl \
	  $(DESTDIR)$(unitdir)/gpuimgd.service $(DESTDIR)$(unitdir)/gpuimgd@.service \
	  $(DESTDIR)$(sysusersdir)/gpuimgd.conf $(DESTDIR)$(tmpfilesdir)/gpuimgd.conf
	for page in $(PAGES); do rm -f $(DESTDIR)$(mandir)/man$${page##*.}/$$page; done
	rm -rf $(DESTDIR)$(docdir) $(DESTDIR)$(libexecdir)/gpuimgd $(DESTDIR)$(datadir)
	test -z "$(pythondir)" || rm -rf $(DESTDIR)$(pythondir)/gpuimgd $(DESTDIR)$(PYTHON_INFO)
	@test -n "$(DESTDIR)" || echo "If it still runs: systemctl stop gpuimgd." \
	  "$(sysconfdir)/gpuimgd, /var/lib/gpuimgd and the user gpuimgd stay."

## deb: build Debian packages in build/deb (DEB_SUFFIX=+site1 sets your own version)
deb: deps
	@tests/deps.sh deb
	@CUDA="$(CUDA)" CUDA_ARCHS="$(or $(CUDA_ARCHS),all)" NVCC="$(NVCC)" CC="$(CC)" systemd/debian/build.sh $(DEB_SUFFIX)

## clean: remove build/
clean:
	rm -rf build

# Compilers write these files. Without this rule, make searches for a way to make each of them.
$(O)/%.d: ;
-include $(shell find $(O) -name '*.d' 2>/dev/null)
endif # one goal
