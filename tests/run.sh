#!/bin/bash
# Runs every test of a build folder and counts: tests/run.sh build/release [name-part ...]
# `tests/run.sh build/release peers` runs the comparisons with other libraries, and nothing else.
# GPUIMGD_SCALE=full in the environment: tests/scale runs in full, not only its quick part.
#
# C tests print TAP (cmocka); script tests print TAP too. The last lines name what failed and what
# was skipped, with the reason, and end in "N passed, N failed, N skipped".
set -u
build=$1
shift
export CMOCKA_MESSAGE_OUTPUT=TAP
export GPUIMGD=${GPUIMGD_INSTEAD:-$PWD/$build/gpuimgd} # a wrapper of it
export GPUIMGCTL=$PWD/$build/gpuimgctl
# The CUDA engine on a runtime of the tests' own.
export GPUIMGD_STANDIN=$PWD/$build/tests/faults/gpuimgd-cuda
# Sanitized builds: the first report ends the process.
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0:detect_leaks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:suppressions=$PWD/tests/tools/tsan.supp}

passed=0 failed=0 skipped=0
failures=() skips=()
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

run_one() { # name command...
    local name=$1 log=$scratch/log start=$SECONDS status ok not_ok skip
    shift
    timeout "${GPUIMGD_TEST_TIMEOUT:-300}" "$@" >"$log" 2>"$scratch/err" </dev/null
    status=$?
    skip=$(grep -cE '^(not )?ok\b.*# SKIP' "$log")
    not_ok=$(grep -E '^not ok\b' "$log" | grep -vc '# SKIP')
    ok=$(grep -E '^ok\b' "$log" | grep -vc '# SKIP')
    if [ "${GPUIMGD_REQUIRE_CUDA:-0}" = 1 ]; then
        local cuda
        cuda=$(grep -E '# SKIP' "$log" | grep -ci cuda)
        if [ "$cuda" -gt 0 ]; then
            not_ok=$((not_ok + cuda)) skip=$((skip - cuda))
            failures+=("$name: $cuda CUDA test(s) skipped, but GPUIMGD_REQUIRE_CUDA=1")
        fi
    fi
    if [ $status -ne 0 ] && [ "$not_ok" -eq 0 ]; then
        not_ok=1
        failures+=("$name: exit status $status")
    fi
    passed=$((passed + ok)) failed=$((failed + not_ok)) skipped=$((skipped + skip))
    while read -r line; do failures+=("$name: $line"); done < <(grep -E '^not ok\b' "$log" | grep -v '# SKIP')
    while read -r line; do skips+=("$name: ${line#*SKIP }"); done < <(grep -E '# SKIP' "$log")
    printf '%-44s %4d ok' "$name" "$ok"
    [ "$not_ok" -gt 0 ] && printf ', %d FAILED' "$not_ok"
    [ "$skip" -gt 0 ] && printf ', %d skipped' "$skip"
    printf '  (%d s)\n' $((SECONDS - start))
    if [ "$not_ok" -gt 0 ]; then
        sed 's/^/    | /' "$log" | tail -60
        sed 's/^/    ! /' "$scratch/err" | tail -60
    fi
}

wanted() { # name
    [ ${#parts[@]} -eq 0 ] && return 0
    local part
    for part in "${parts[@]}"; do case $1 in *$part*) return 0 ;; esac done
    return 1
}
parts=("$@")

for source in tests/unit/test_*.c tests/e2e/test_*.c tests/scale/test_*.c; do
    name=${source%.c}
    wanted "$name" && run_one "$name" "$build/$name"
done
for source in tests/fuzz/fuzz_*.c; do
    name=${source%.c} target=${source#tests/fuzz/fuzz_}
    target=${target%.c}
    wanted "$name" && run_one "$name" "$build/tests/fuzz/replay_$target" "tests/fuzz/corpus/$target"
done
# The CUDA engine on the tests' own runtime.
wanted tests/cuda/test_engine && GPUIMGD_TEST_QUICK=1 run_one tests/cuda/test_engine "$build/tests/cuda/test_engine"
for source in tests/cuda/test_*.c; do
    name=${source%.c}
    wanted "$name" && run_one "$name" "$build/$name"
done
# The fault cases that take no long time; `make check-faults` runs them all.
wanted tests/faults && run_one tests/faults "$build/tests/faults/faults" --build "$build" --quick --tap
for script in tests/scripts/test_*.sh; do
    [ -e "$script" ] && wanted "$script" && run_one "$script" "$script" "$build"
done
# Against other libraries, which not every machine has: only when asked for by this name.
if [ "${parts[*]}" = peers ]; then
    for script in tests/peers/check_*.py; do
        run_one "$script" /usr/bin/python3 -B "$script" "$build/tests/tools/apply"
    done
fi

echo
for line in "${skips[@]+"${skips[@]}"}"; do echo "skipped: $line"; done
for line in "${failures[@]+"${failures[@]}"}"; do echo "FAILED: $line"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
