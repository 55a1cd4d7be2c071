#!/bin/bash
# Proves that a fresh machine needs nothing but make: tests/service/fresh.sh [target ...]
#
# For each target (demo and check, unless told otherwise) a fresh Debian tree with make and apt gets
# a fresh clone of what is committed here, and `make TARGET` runs in it. By hand, as root; it takes
# the network, a few minutes, and 2 GB a target. KEEP=1 keeps the trees in build/service.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/service/tree.sh

readonly work=$PWD/build/service
copy="" passed=0 failed=0

cleanup() {
    if [ -n "$copy" ] && [ "${KEEP:-0}" != 1 ]; then rm -rf --one-file-system "$copy"; fi
    copy=""
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

try() { # target
    local start=$SECONDS status=0
    copy=$(mktemp -d "$work/fresh.XXXXXX")
    copy_base "$work/fresh-base/." "$copy"
    give_apt "$copy"
    git clone -q --no-local . "$copy/root/gpuimgd"
    printf '\n---- make %s ----\n' "$1"
    in_tree "$copy" /root/gpuimgd make "$1" || status=$?
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok - make $1 on a fresh tree ($((SECONDS - start)) s)"
    else
        failed=$((failed + 1))
        echo "not ok - make $1 on a fresh tree: exit status $status ($((SECONDS - start)) s)"
    fi
    cleanup
}

main() {
    local target
    need_root
    need_tools
    mkdir -p "$work"
    [ -z "$(git status --porcelain)" ] || say "note: only what is committed is tried"
    make_base "$work/fresh-base" make
    [ $# -gt 0 ] || set -- demo check
    for target in "$@"; do try "$target"; done
    echo
    echo "$passed passed, $failed failed, 0 skipped"
    [ $failed -eq 0 ]
}
main "$@"
