#!/bin/bash
# Tests missing tools: tests/deps.sh stops only if a dependency of the build is missing, and
# tests/run.sh skips a test by name if its tool is missing. Prints TAP. tests/scripts/test_deps.sh
# BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:-build/release}
readonly build path=$PATH
pkg_config=pkg-config
make_world deps

# without COMMAND...: fills $bin with all programs of $PATH except these. Its apt-get writes its
# arguments to $dir/asked and fails.
without() {
    local folder
    bin=$dir/bin
    rm -rf "$bin" "$dir/asked"
    mkdir "$bin"
    : >"$dir/asked"
    while read -r -d : folder; do
        [ ! -d "$folder" ] || find -L "$folder" -maxdepth 1 -type f -exec ln -s -t "$bin" {} + 2>/dev/null
    done <<<"$path:"
    (cd "$bin" && rm -f apt-get sudo "$@")
    printf '#!/bin/sh\necho "$*" >>%s\nexit 100\n' "$dir/asked" >"$bin/apt-get"
    # Without root the real sudo would ask for a password.
    printf '#!/bin/sh\nexec "$@"\n' >"$bin/sudo"
    chmod +x "$bin/apt-get" "$bin/sudo"
}
deps() { PATH=$bin PKG_CONFIG=$pkg_config tests/deps.sh "$@" 2>&1; }
# stops WORDS [TARGET]: deps.sh must fail with these words
stops() {
    local said line=$1
    shift
    said=$(deps "$@") && { echo "it succeeds: $said"; return 1; }
    has "$said" "$line"
}
# goes_on PACKAGE...: deps.sh must succeed without these packages; more may be missing here
goes_on() {
    local said package
    said=$(deps) || { echo "it fails: $said"; return 1; }
    said=$(grep 'going on without' <<<"$said")
    for package in "$@"; do has "$said" " $package " || return; done
}
stops_with_cuda() { CUDA=yes stops "$@"; }
asks_for_no_compiler() {
    CUDA=no deps build
    not asked_for g++
}
asked_for() { grep -wF -- "$1" "$dir/asked"; }

# pkg-config then finds every library except these.
hide_libraries() { # name...
    pkg_config=$dir/hiding
    printf '#!/bin/sh\nfor word; do case " %s " in *" $word "*) exit 1 ;; esac; done\nexec pkg-config "$@"\n' "$*" \
        >"$pkg_config"
    chmod +x "$pkg_config"
}
skips_by_name() { # TEST TOOL
    local said
    said=$(PATH=$bin GPUIMGD_TEST_JOBS=1 tests/run.sh "$build" "$1" tests/unit/conf/test_text 2>&1) ||
        { echo "it fails: $said"; return 1; }
    has "$said" "skipped: $1: there is no $2 here"
}

main() {
    without mandoc redis-server djpeg
    check "without tools that only tests use, deps succeeds and names them" \
        goes_on libjpeg-turbo-progs mandoc redis-server
    check "deps has tried to install them" asked_for mandoc
    check "a C test is skipped by name" skips_by_name tests/unit/queue/test_queue redis-server
    check "the fault cases are skipped by name" skips_by_name tests/faults redis-server
    check "a script is skipped by name" skips_by_name tests/scripts/test_readme.sh redis-server
    check "make demo stops without Redis" stops "please install" demo
    without g++
    check "without nvcc, a build does not need g++" asks_for_no_compiler
    check "with nvcc, which calls g++, it does" stops_with_cuda g++ build
    without dpkg-query
    check "make deb needs build-essential, which dpkg-buildpackage requires by name" stops build-essential deb
    without
    hide_libraries libuv
    check "without a library of the build, deps stops and names it" stops libuv1-dev
    hide_libraries libmicrohttpd libcurl lcms2 libwebp libarchive
    check "without libraries that are optional, deps succeeds and names them" \
        goes_on libmicrohttpd-dev libcurl4-openssl-dev liblcms2-dev libwebp-dev libarchive-dev
    [ "$failures" -eq 0 ]
}
main
