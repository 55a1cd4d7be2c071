#!/bin/bash
# Tests the Debian packages: tests/service/package.sh (make check-deb, as root)
#
# Checks the packages with lintian, and copies them with their dependencies into a copy of a small
# Debian tree. There packaged.sh installs, upgrades, removes and purges them. The upgrade uses the
# same packages with a higher version. KEEP=1 keeps the copy.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/service/tree.sh
. tests/service/boot.sh

readonly debs=build/deb higher=+check1

# repack DEB FOLDER: writes the package with a higher version
repack() {
    local unpacked
    unpacked=$(mktemp -d "$work/repack.XXXXXX")
    dpkg-deb -R "$1" "$unpacked"
    sed -i "s/^Version: .*/&$higher/" "$unpacked/DEBIAN/control"
    dpkg-deb -b "$unpacked" "$2" >/dev/null
    rm -rf "$unpacked"
}

prepare() {
    local deb packages
    mapfile -t packages < <(find "$debs" -name '*.deb' ! -name '*-dbgsym_*' | sort)
    [ ${#packages[@]} -gt 0 ] || die "no package in $debs; make check-deb builds them"
    make_base "$work/package-base" "$(host_codename)" systemd-sysv dbus ca-certificates
    copy=$(mktemp -d "$work/package.XXXXXX")
    copy_base "$work/package-base/." "$copy"
    give_apt "$copy" "$(host_codename)"
    put_check tests/service/packaged.sh
    mkdir "$copy/root/check/new" "$copy/root/check/newer"
    for deb in "${packages[@]}"; do
        cp "$deb" "$copy/root/check/new/"
        repack "$deb" "$copy/root/check/newer/"
    done
    # The booted copy has no network, so apt's cache must have all dependencies.
    say "fetching what the packages depend on"
    in_tree "$copy" /root/check/new sh -c \
        'apt-get update -q && apt-get install -q -y --download-only ./*.deb' \
        >"$copy/root/check/apt.log" 2>&1 || { tail -15 "$copy/root/check/apt.log" >&2; die "apt failed"; }
}

lintian_is_content() { # --allow-root: this runs as root
    local said
    said=$(lintian --allow-root --fail-on error,warning --display-level '>=warning' \
        "$debs"/*.changes 2>&1) && equal "$said" "" || { echo "$said"; false; }
}

# With machine code for all supported GPUs, if it was built with nvcc.
daemon_is_small() {
    local unpacked bytes
    unpacked=$(mktemp -d "$work/unpacked.XXXXXX")
    dpkg-deb -x "$debs"/gpuimgd_*.deb "$unpacked"
    bytes=$(stat -c %s "$unpacked/usr/sbin/gpuimgd")
    rm -rf "$unpacked"
    less "$bytes" 40000000
}

main() {
    local status=0
    need_root
    need_tools
    only_one
    prepare
    boot || status=$?
    outside "the daemon has less than 40 MB" daemon_is_small
    outside "lintian finds no error and nothing to warn of" lintian_is_content
    report $status
}
main
