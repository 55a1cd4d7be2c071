#!/bin/bash
# Tests the choices of the Makefile with `make -n`: how many jobs run, what kernels are compiled to,
# what is installed, and what a fresh machine prints. nvcc and nvidia-smi are scripts here, so no
# CUDA toolkit is needed. Prints TAP. tests/scripts/test_make.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
dir=$(mktemp -d /tmp/gpuimgd-make.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT
readonly dir all="sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 compute_120"
# The test itself may run below make.
unset MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKELEVEL VARIANT WERROR CFLAGS CUDA CUDA_ARCHS NVCC NVCCFLAGS

mkdir -p "$dir/toolkit/bin" "$dir/bin"
cat >"$dir/toolkit/bin/nvcc" <<'END'
#!/bin/sh
[ "$1" = --list-gpu-arch ] && for arch in 75 80 86 87 89 90 100 120; do echo compute_$arch; done
END
chmod +x "$dir/toolkit/bin/nvcc"
# nvidia_smi TEXT [STATUS]: what nvidia-smi prints on this host
nvidia_smi() {
    printf '#!/bin/sh\ncat <<END\n%s\nEND\nexit %d\n' "$1" "${2:-0}" >"$dir/bin/nvidia-smi"
    chmod +x "$dir/bin/nvidia-smi"
    rm -f "$dir/planned"
}
# plan ARGUMENT...: the commands of a build that has no objects yet; the last plan is kept
plan() {
    if [ "$*" != "$(cat "$dir/planned" 2>/dev/null)" ]; then
        PATH=$dir/bin:$PATH make -n CUDA=yes "NVCC=$dir/toolkit/bin/nvcc" "O=$dir/build" "$@" \
            >"$dir/plan" 2>&1 || { cat "$dir/plan"; return 1; }
        echo "$*" >"$dir/planned"
    fi
    cat "$dir/plan"
}

# The jobs that make allows. Its data base shows -j, also where it cannot be read in a recipe.
jobs() { make -pq "$@" help 2>/dev/null | grep -m1 '^MAKEFLAGS = ' | grep -oE ' -j[0-9]+' | tr -d ' j-'; }
jobs_are() { # N ARGUMENT...
    local expected=$1
    shift
    equal "$(jobs "$@")" "$expected"
}
jobs_of_environment() { MAKEFLAGS=$2 jobs_are "$1"; }

# codes OBJECT ARGUMENT...: what nvcc compiles this kernel to
codes() {
    local object=$1
    shift
    plan "$@" | grep -F -- "-o $dir/build/$object" | grep -oE 'code=[a-z]+_[0-9]+' | sed 's/code=//' | xargs
}
codes_are() { # CODES OBJECT ARGUMENT...
    local expected=$1
    shift
    equal "$(codes "$@")" "$expected"
}
# host_is CODES: for this host
host_is() { codes_are "$1" gpu/ops/pad.cu.o all; }
compiles_once() { # FOLDER ARGUMENT...: kernels are compiled in this folder only
    local folder=$1
    shift
    equal "$(plan "$@" | grep -oE -- "-o [^ ]*/gpu/[^ ]*\.cu\.o" | grep -vc -- "-o $dir/build/$folder")" 0
}
refuses_unknown() {
    local said
    said=$(plan CUDA_ARCHS="90 95" all) && { echo "it succeeds"; return 1; }
    has "$said" "CUDA_ARCHS has 95; it must be native, all or some of 75 80"
}
# kernels_with OPTION: how many of the kernels of `make all-gpus` are compiled with it
kernels_with() { plan all-gpus | grep 'bin/nvcc .* -c -o ' | grep -c -- " $1 "; }
only_benchmarks_have_lines() {
    equal "$(kernels_with -lineinfo)" 0 && has "$(plan "$dir/build/tests/bench/bench_device.cu.o")" ' -lineinfo '
}
installed_is() { # PROGRAM ARGUMENT...
    local program=$1
    shift
    plan "$@" install | grep -F "install -D -m 0755 $dir/build/$program " || { echo "it installs another"; false; }
}
packages_get() { # CODES-VARIABLE ARGUMENT...
    local expected=$1
    shift
    has "$(plan "$@" deb)" "CUDA_ARCHS=\"$expected\""
}
says_nothing_missing() { # TARGET
    local said
    said=$(make -n PKG_CONFIG=no-such-pkg-config CUDA=no "$1" 2>&1 >/dev/null)
    equal "$said" ""
}
# The targets with a description are those with a rule, but for those that other targets make.
described_are_made() {
    equal "$(sed -n 's/^## \([a-z-]*\): .*/\1/p' Makefile tests/tests.mk | sort | xargs)" \
        "$(grep -ohE '^[a-z -]+:( |$)' Makefile tests/tests.mk | tr -d ':' | tr ' ' '\n' |
            grep -vE '^(|say-.*|build-.*|run-check)$' | sort -u | xargs)"
}
# needs TARGET PATTERN: a target of one form installs packages, builds and runs
needs() {
    local said part
    said=$(plan "$1" FOLDER=/photos)
    shift
    for part; do has "$said" "$part" || return; done
}
of_one_form() {
    equal "$(make -n no-such-target CUDA=no 2>&1 | grep -c 'No rule to make target')" 1 &&
        needs bench-png "tests/deps.sh png" " $dir/build/tests/bench/bench_png " \
            "$dir/build/tests/bench/bench_png --folder \"/photos\"" &&
        needs check-fleet "tests/deps.sh" "$dir/build/gpuimgd" "$dir/build/tests/tools/fleet --daemon"
}
# flags_of OBJECT: the flags on which all objects depend, when make builds this one
flags_of() { plan CUDA=no "$dir/build/$1" | grep -F "cmp -s - $dir/build/flags" | head -1; }
same_flags() {
    local of_all object
    of_all=$(flags_of conf/text.o)
    has "$of_all" " -std=c11 " || return
    for object in tests/unit/codecs/test_avif.o gpu/ops/pad.o codecs/process/spawn.o tests/faults/hook.o \
        tests/bench/bench_png.o tests/cuda/simt.o codecs/confined/codec_main.o; do
        equal "$(flags_of $object)" "$of_all" || return
    done
}
# builds_only T PROGRAMS: of all test programs, make test builds only these
builds_only() {
    equal "$(plan CUDA=no test "T=$1" | grep -oE -- "-o $dir/build/tests/[a-z/]*/test_[a-z_]+ " |
        sed 's|.*build/tests/||' | sort -u | xargs)" "$2"
}
one_goal_after_the_other() {
    local said
    said=$(plan clean all | grep -nE '^rm -rf build$|-o .*/daemon/main\.o' | cut -d: -f2 | cut -c1-6 | xargs)
    [[ $said == "rm -rf "* ]] || { echo "the order is $said"; false; }
}

main() {
    local cores
    cores=$(nproc)
    check "make uses all cores" jobs_are "$cores"
    check "make -j1 uses one" jobs_are 1 -j1
    check "make -j7 uses seven" jobs_are 7 -j7
    check "MAKEFLAGS=-j7 uses seven" jobs_of_environment 7 -j7
    check "MAKEFLAGS=sj7 uses seven" jobs_of_environment 7 sj7
    check "MAKEFLAGS with other options uses all cores" jobs_of_environment "$cores" "s CFLAGS=-Oj"
    check "several goals are made one after the other" one_goal_after_the_other

    nvidia_smi $'9.0\n9.0'
    check "on a host with GPUs: machine code for them alone" host_is "sm_90 compute_90"
    nvidia_smi $'12.0\n8.6'
    check "with two kinds of GPUs: for both" host_is "sm_86 sm_120 compute_120"
    nvidia_smi 13.5
    check "a GPU that nvcc does not know: PTX of the newest" host_is compute_120
    nvidia_smi 6.1
    check "a GPU that is too old: PTX of the oldest" host_is compute_75
    nvidia_smi "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver." 9
    check "without a GPU: PTX of the oldest alone" host_is compute_75
    nvidia_smi "[N/A]"
    check "a GPU without a number is none" host_is compute_75

    check "make all-gpus: machine code for all" codes_are "$all" all-gpus/gpu/ops/pad.cu.o all-gpus
    check "all kernels are compressed" equal "$(kernels_with '-Xfatbin -compress-all')" \
        "$(find gpu -name '*.cu' | wc -l)"
    check "only kernels of benchmarks have line numbers" only_benchmarks_have_lines
    check "make install: the same" codes_are "$all" all-gpus/gpu/ops/pad.cu.o install
    check "make install compiles kernels once" compiles_once all-gpus/ install
    check "make installs the daemon with all of them" installed_is all-gpus/gpuimgd
    check "CUDA_ARCHS=native: it installs that of make" installed_is gpuimgd CUDA_ARCHS=native
    check "CUDA_ARCHS of the user: it installs these" codes_are "sm_90 sm_80 compute_90" \
        gpu/ops/pad.cu.o "CUDA_ARCHS=90 80" install
    check "CUDA=no: it installs that of make" installed_is gpuimgd CUDA=no
    check "packages have machine code for all" packages_get all
    check "packages have that of the user" packages_get "80 90" "CUDA_ARCHS=80 90"
    check "an architecture that nvcc does not know is an error" refuses_unknown

    check "make help and TESTS.md describe every target" described_are_made
    check "targets of one form install packages, build, and run" of_one_form
    check "single objects with flags of their own do not rebuild all" same_flags
    check "make test T=test_png builds one test" builds_only test_png unit/codecs/test_png
    check "make test with a part of names builds all of them" builds_only "op_pa test_url" \
        "unit/daemon/test_url unit/gpu/test_op_pad unit/gpu/test_op_palette"

    for target in deps deb help; do
        check "make $target says nothing without pkg-config" says_nothing_missing $target
    done
    [ "$failures" -eq 0 ]
}
main
