#!/bin/bash
# Builds the Debian packages: systemd/debian/build.sh [SUFFIX]   (make deb)
#
# Builds in a copy of the tree, build/deb/gpuimgd-VERSION, with this folder as its debian/. Afterwards
# build/deb has only the packages of this run. SUFFIX is added to the version: +site1 gives
# 0.1.0+site1. CUDA, CUDA_ARCHS and CC have the same meaning as for make.
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(dpkg-parsechangelog -l systemd/debian/changelog -S Version)
[ "$version" = "$(sed -n 's/^VERSION = //p' Makefile)" ] || {
    echo "$0: systemd/debian/changelog has version $version; it must be the Makefile's VERSION" >&2
    exit 1
}
readonly copy=build/deb/gpuimgd-$version
rm -rf build/deb
mkdir -p "$copy"
tar -c --exclude=./build --exclude=./.git . | tar -x -C "$copy"
cp -a systemd/debian "$copy/debian"
cd "$copy"
if [ -n "${1:-}" ]; then
    {
        printf 'gpuimgd (%s%s) unstable; urgency=medium\n\n  * Built as %s.\n\n' \
            "$version" "$1" "$version$1"
        sed -n '/^ -- /{p;q}' systemd/debian/changelog
        echo
        cat systemd/debian/changelog
    } >debian/changelog
fi
# The arguments of the outer make must not reach dpkg-buildpackage.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes --jobs="$(nproc)"
rm -rf "$PWD"
