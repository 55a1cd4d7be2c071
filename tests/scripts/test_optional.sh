#!/bin/bash
# Tests that the programs build without any optional library. Only the sources that name one are
# compiled again; the other objects are those of the build. Prints TAP.
# tests/scripts/test_optional.sh [BUILD]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
build=${1:-build/release}
dir=$(mktemp -d /tmp/gpuimgd-optional.XXXXXX) || exit 1
trap 'rm -rf "$dir"' EXIT
readonly build dir
# The test itself may run below make.
unset MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKELEVEL VARIANT CFLAGS

mapfile -t names < <(sed -nE 's/^\$\(eval \$\(call optional,([A-Z]+),.*/\1/p' Makefile)
cuda=yes
compgen -G "$build/gpu/ops/*.cu.o" >"$dir/kernels" || cuda=no
without=("${names[@]/%/=no}" "CUDA=$cuda" "O=$dir/build" WERROR=yes CFLAGS=-O0)
sources=$(grep -rlE "GPUIMGD_($(IFS='|'; echo "${names[*]}"))\>" --include='*.c' conf queue codecs gpu daemon)

copy_objects() {
    mkdir "$dir/build"
    tar -C "$build" -cf - conf queue codecs gpu daemon | tar -C "$dir/build" -xf - || return 1
    local source
    for source in $sources; do
        rm "$dir/build/${source%.c}.o" || return 1
    done
}
# Flags that are older than an object do not make it old.
keep_others() {
    local files=("$dir/build/flags")
    [ $cuda = no ] || files+=("$dir/build/nvcc-flags")
    make "${without[@]}" "${files[@]}" && touch -d 2000-01-01 "${files[@]}"
}
links() { make -j2 "${without[@]}" "$dir/build/gpuimgd" "$dir/build/gpuimgd-codec" "$dir/build/gpuimgctl"; }

check "the Makefile has optional libraries" [ ${#names[@]} -ge 12 ]
check "sources name them" [ "$(wc -w <<<"$sources")" -ge 30 ]
check "the objects of the build can be copied" copy_objects
check "the flags change" keep_others
check "all programs link without optional libraries" links
exit $((failures > 0))
