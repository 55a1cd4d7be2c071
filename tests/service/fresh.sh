#!/bin/bash
# Tests that a fresh machine needs only make: tests/service/fresh.sh [12|13|TRY|plain|nvcc ...] (make
# check-fresh, as root)
#
# Each try gets a fresh Debian tree with make, apt and the committed files:
#   demo    make demo
#   check   make check
#   deb     make deb
#   away    make check without a network, with only the build dependencies installed
# All run in a plain tree. If this machine has nvcc, all but `away` also run in a tree that sees its
# CUDA toolkit. Arguments select releases, tries and kinds of trees; by default all run. A try needs
# the network, minutes and 2 GB. build/service keeps the trees, the packages that apt downloaded, and
# a log per try. KEEP=1 keeps the copies of the trees, too.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/service/tree.sh

readonly work=$PWD/build/service
readonly folder=/root/gpuimgd
declare -rA codenames=([12]=bookworm [13]=trixie)
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
toolkit=$(realpath -m "$nvcc") toolkit=${toolkit%/bin/nvcc}
readonly nvcc toolkit
copy="" passed=0 failed=0 settings=()
TIMEFORMAT='%0lR, %U s of CPU in programs, %S s in the kernel'
for name in GPUIMGD_TEST_JOBS GPUIMGD_TEST_SLOW GPUIMGD_TEST_TIMEOUT; do
    [ -z "${!name:-}" ] || settings+=(--setenv="$name=${!name}")
done

cleanup() {
    if [ -n "$copy" ] && [ "${KEEP:-0}" != 1 ]; then rm -rf --one-file-system "$copy"; fi
    copy=""
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

run_demo() { in_tree "$copy" $folder make demo; }
run_check() { in_tree "$copy" $folder make check; }
run_deb() {
    in_tree "$copy" $folder make deb && say "the packages:" && (cd "$copy$folder/build/deb" && ls -s --block-size=1K ./*.deb)
}
run_away() {
    in_tree "$copy" $folder tests/deps.sh build || return
    tree_options=(--private-network "${settings[@]}") # without the downloaded packages
    in_tree "$copy" $folder sh -c 'make check && ! command -v redis-server'
}
say_row() { printf 'Debian %s %-38s %s\n' "$1" "$2" "$3"; }

try() { # release demo|check|deb|away plain|nvcc
    local codename=${codenames[$1]} log=$work/fresh-$1-$2-$3.log status=0 end took
    local name="make $2"
    [ "$2" != away ] || name="make check without a registry"
    [ "$3" = plain ] || name+=" with nvcc"
    make_base "$work/fresh-$1" "$codename" make
    copy=$(mktemp -d "$work/fresh-$1.XXXXXX")
    copy_base "$work/fresh-$1/." "$copy"
    give_apt "$copy" "$codename"
    mkdir "$copy$folder"
    git archive HEAD | tar -x -C "$copy$folder"
    mkdir -p "$work/fresh-$1.debs/partial"
    tree_options=(--bind="$work/fresh-$1.debs:/var/cache/apt/archives" "${settings[@]}")
    [ "$3" = plain ] || tree_options+=(--bind-ro="$toolkit:/usr/local/cuda")
    took=$({ time "run_$2" >"$log" 2>&1; } 2>&1) || status=$?
    # make demo and make deb have no such line
    end=$(grep -aE '^[0-9]+ passed, ' "$log" | tail -1) || true
    if grep -aqE "^((/bin/)?sh: [0-9]+|make(\[[0-9]+\])?): .*(not found|No such file)" "$log"; then
        status=1 end="a command of make was not found"
    fi
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
        say_row "$1" "$name" "ok${end:+: $end} ($took)"
    else
        failed=$((failed + 1))
        say_row "$1" "$name" "FAILED: exit status $status${end:+, $end} ($took)"
        tail -n 40 "$log" | sed 's/^/    | /'
        echo "    the whole log is $log"
    fi
    cleanup
}

main() {
    local release word kind releases=() tries=() kinds=()
    for word in "$@"; do
        case $word in
        12 | 13) releases+=("$word") ;;
        demo | check | deb | away) tries+=("$word") ;;
        plain | nvcc) kinds+=("$word") ;;
        *) die "there is no $word here; there are 12, 13, demo, check, deb, away, plain and nvcc" ;;
        esac
    done
    need_root
    need_tools
    [ "$(. /etc/os-release && echo "$ID")" = debian ] ||
        skip "needs a Debian machine, whose apt names the archives"
    mkdir -p "$work"
    exec 9>"$work/fresh.lock"
    flock -n 9 || die "another check of fresh trees is running here"
    [ -z "$(git status --porcelain)" ] || say "note: only what is committed is tried"
    [ ${#releases[@]} -gt 0 ] || releases=(12 13)
    [ ${#tries[@]} -gt 0 ] || tries=(demo check deb away)
    [ ${#kinds[@]} -gt 0 ] || kinds=(plain nvcc)
    for release in "${releases[@]}"; do
        for word in "${tries[@]}"; do
            for kind in "${kinds[@]}"; do
                if [ "$kind" = nvcc ] && { [ "$word" = away ] || [ ! -x "$nvcc" ]; }; then continue; fi
                try "$release" "$word" "$kind"
            done
        done
    done
    echo "$passed passed, $failed failed, 0 skipped"
    [ $failed -eq 0 ]
}
main "$@"
