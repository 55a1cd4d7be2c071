#!/bin/bash
# Tests the service in a real systemd: installs into a copy of a small Debian tree, boots it with
# systemd-nspawn, and runs inside.sh there (as root).
#
# build/service keeps the tree without gpuimgd; the copy is removed, unless KEEP=1. This machine's
# systemd, Redis and network are not changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/service/tree.sh
. tests/service/boot.sh

readonly variant=${VARIANT:-release}
readonly daemon=build/$variant/gpuimgd
readonly codec=build/$variant/gpuimgd-codec # if AVIF was built in

# Prints the packages of the libraries that the programs are linked with, so that no list of names
# and versions is needed here.
runtime_packages() {
    local library programs=("$daemon")
    [ ! -x "$codec" ] || programs+=("$codec")
    ldd "${programs[@]}" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
        dpkg -S "$library" 2>/dev/null || dpkg -S "$(realpath "$library")" 2>/dev/null ||
            dpkg -S "/usr$library" 2>/dev/null || die "no package owns $library"
    done | sed 's/:.*//' | sort -u
}

prepare() {
    local packages
    mapfile -t packages < <(runtime_packages)
    [ ${#packages[@]} -gt 0 ] || die "cannot tell the packages of $daemon's libraries"
    make_base "$work/base" "$(host_codename)" systemd-sysv dbus redis-server redis-tools "${packages[@]}"
    copy=$(mktemp -d "$work/run.XXXXXX")
    copy_base "$work/base/." "$copy"
    make -s --no-print-directory install CUDA_ARCHS="${CUDA_ARCHS:-native}" DESTDIR="$copy" prefix=/usr
    put_check tests/service/inside.sh tests/tools/system_service.calls
    # inside.sh starts these itself.
    rm -f "$copy"/etc/systemd/system/*.wants/{redis-server,gpuimgd}.service \
        "$copy/etc/systemd/system/redis.service"
}

# Analysed by the systemd of this machine.
exposure_is_low() {
    systemd-analyze security --offline=true --threshold=15 --no-pager \
        --root="$copy" gpuimgd.service 2>/dev/null | tail -1
    systemd-analyze security --offline=true --threshold=15 --no-pager \
        --root="$copy" gpuimgd.service >/dev/null 2>&1
}

main() {
    local status=0
    need_root
    need_tools
    [ -x "$daemon" ] || die "no $daemon here; run make first (make check-service does)"
    only_one
    prepare
    boot || status=$?
    outside "exposure by systemd-analyze security is at most 1.5" exposure_is_low
    report $status
}
main
