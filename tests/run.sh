#!/bin/bash
# Runs the tests of a build folder: tests/run.sh build/release [NAME ...]
# A NAME such as test_png or tests/unit/codecs/test_png chooses this test. A NAME that no test has
# chooses all tests whose paths contain it.
# `tests/run.sh build/release peers` runs only the comparisons with other libraries.
# Environment:
#   GPUIMGD_TEST_JOBS=N      programs that run at the same time; default: one per processor and two
#                            more, because tests wait more than they compute
#   GPUIMGD_SCALE=full       tests/scale in full, not only its quick part
#   GPUIMGD_REQUIRE_CUDA=1   a skipped test of the CUDA engine counts as failed
#   GPUIMGD_TEST_AGAIN=1     leave out the scripts, the fault cases, gpuimgctl, and the kernels on the
#                            stand-in runtime in jobs: the tests of another variant have run them
#
# All tests print TAP. The last lines name the skipped and the failed tests with the reasons, and end
# with "N passed, N failed, N skipped". Tests that need a missing tool are skipped. The skipped tests
# of CUDA have one line.
set -u
build=$1
shift
parts=("$@")
at_once=${GPUIMGD_TEST_JOBS:-$(($(nproc) + 2))}
export CMOCKA_MESSAGE_OUTPUT=TAP
export GPUIMGD=${GPUIMGD_INSTEAD:-$PWD/$build/gpuimgd} # or a wrapper
export GPUIMGCTL=$PWD/$build/gpuimgctl
# The daemon with the stand-in CUDA runtime.
export GPUIMGD_STANDIN=$PWD/$build/tests/faults/gpuimgd-cuda
# The daemon with fault hooks, and the one of a later protocol.
export GPUIMGD_FAULTY=$PWD/$build/tests/faults/gpuimgd
export GPUIMGD_LATER=$PWD/$build/tests/faults/gpuimgd-later
# Sanitizers end the process at the first report.
export ASAN_OPTIONS=${ASAN_OPTIONS:-abort_on_error=0:detect_leaks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:suppressions=$PWD/tests/tools/tsan.supp}
# Tests must not depend on a service that runs them, so they always get an invalid service
# environment. tests/fixtures/environment.c and tests/world.sh remove these variables.
export NOTIFY_SOCKET=/nonexistent/notify WATCHDOG_USEC=1 WATCHDOG_PID=1 JOURNAL_STREAM=0:0

scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; wait; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# Runs one test and prints its report. Writes N.counts, N.skips and N.failures.
run_one() { # N name command...
    local name=$2 at=$scratch/$1 start=$SECONDS child status ok not_ok skip cuda=0 cpu
    shift 2
    timeout "${GPUIMGD_TEST_TIMEOUT:-300}" "$@" >"$at.log" 2>"$at.err" </dev/null &
    child=$!
    trap 'kill $child' TERM
    wait $child
    status=$?
    # Seconds of CPU of the program, and of those processes that it waited for.
    times >"$at.times"
    cpu=$(awk -F'[ms ]+' 'NR == 2 { printf "%.1f", $1 * 60 + $2 + $3 * 60 + $4 }' "$at.times")
    ok=$(grep -E '^ok\b' "$at.log" | grep -vc '# SKIP')
    not_ok=$(grep -E '^not ok\b' "$at.log" | grep -vc '# SKIP')
    skip=$(grep -cE '^(not )?ok\b.*# SKIP' "$at.log")
    sed -n "s|.*# SKIP |$name: |p" "$at.log" >"$at.skips"
    # Each failed line of TAP, with the lines after it that give the reason.
    awk -v name="$name" '/^(not )?ok / { why = /^not/ && !/# SKIP/ ? 6 : 0 }
        why-- > 0 { print (/^not/ ? name ": " $0 : "    | " $0) }' "$at.log" >"$at.failures"
    if [ "${GPUIMGD_REQUIRE_CUDA:-0}" = 1 ]; then
        cuda=$(grep -ci cuda "$at.skips")
        not_ok=$((not_ok + cuda)) skip=$((skip - cuda))
        [ "$cuda" -eq 0 ] || echo "$name: $cuda skipped, but GPUIMGD_REQUIRE_CUDA=1" >>"$at.failures"
    fi
    # 77: a tool of the whole test is missing, and its skip names the tool.
    if [ $status -ne 0 ] && [ "$not_ok" -eq 0 ] && { [ $status -ne 77 ] || [ "$skip" -eq 0 ]; }; then
        not_ok=1
        echo "$name: exit status $status" >>"$at.failures"
    fi
    [ "$not_ok" -eq 0 ] || tail -n 12 "$at.err" | sed 's/^/    ! /' >>"$at.failures"
    echo "$ok $not_ok $skip" >"$at.counts"
    {
        printf '%-44s %4d ok' "$name" "$ok"
        [ "$not_ok" -gt 0 ] && printf ', %d FAILED' "$not_ok"
        [ "$skip" -gt 0 ] && printf ', %d skipped' "$skip"
        printf '  (%d s, CPU %s s)\n' $((SECONDS - start)) "$cpu"
        if [ "$not_ok" -gt 0 ]; then
            sed 's/^/    | /' "$at.log" | tail -60
            sed 's/^/    ! /' "$at.err" | tail -60
        fi
    } >"$at.report"
    cat "$at.report"
}

started=0
test_at() { # name command...
    local part chosen=$((${#parts[@]} == 0))
    for part in "${parts[@]+"${parts[@]}"}"; do case /${1%.sh} in $part) chosen=1 ;; esac done
    [ "$chosen" = 1 ] || return 0
    case ${GPUIMGD_TEST_AGAIN:-0}$1 in
    1tests/faults | 1*/e2e/test_device_* | 1*/e2e/test_ctl* | 1*.sh) return 0 ;;
    esac
    [ "$(jobs -rp | wc -l)" -lt "$at_once" ] || wait -n
    started=$((started + 1))
    run_one $started "$@" &
}
names=
name_at() { names+=/${1%.sh}$'\n'; }

# all_tests COMMAND: calls it with the name and the command of each test.
all_tests() {
    local source target test script
    # What takes longest starts first, so that nothing runs alone at the end: the short fault cases,
    # of which `make check-faults` runs all, every kernel at every width, and the recipes.
    "$1" tests/faults "$build/tests/faults/faults" --build "$build" --quick --tap
    "$1" tests/cuda/test_passes "$build/tests/cuda/test_passes"
    for script in tests/scripts/test_recipe_*.sh tests/scripts/test_python.sh; do
        "$1" "$script" "$script" "$build"
    done
    # Tests that mostly wait.
    for source in tests/e2e/test_*.c tests/scale/test_*.c tests/unit/*/test_*.c; do
        "$1" "${source%.c}" "$build/${source%.c}"
    done
    for source in tests/fuzz/fuzz_*.c; do
        target=${source#tests/fuzz/fuzz_} target=${target%.c}
        "$1" "${source%.c}" "$build/tests/fuzz/replay_$target" "tests/fuzz/corpus/$target"
    done
    # The CUDA engine on the stand-in runtime.
    "$1" tests/cuda/test_engine env GPUIMGD_TEST_QUICK=1 "$build/tests/cuda/test_engine"
    "$1" tests/cuda/test_share "$build/tests/cuda/test_share"
    for source in tests/cuda/test_*.c; do
        [ "$source" = tests/cuda/test_passes.c ] || "$1" "${source%.c}" "$build/${source%.c}"
    done
    # The JPEG kernels on a device.
    for test in "$build"/tests/device/test_*[a-z]; do
        [ ! -x "$test" ] || "$1" "${test#"$build"/}" "$test"
    done
    for script in tests/scripts/test_*.sh; do
        case $script in */test_recipe_* | */test_python.sh) continue ;; esac
        "$1" "$script" "$script" "$build"
    done
    # Comparisons with other libraries, which may be missing, run only by this name.
    if [ "${parts[*]}" = "*peers*" ]; then
        for script in tests/peers/check_*.py; do
            "$1" "$script" /usr/bin/python3 -B "$script" "$build/tests/tools/apply"
            # With Pillow 12.3 from PyPI.
            [ ! -x "$build/pillow/bin/python3" ] ||
                "$1" "$script, Pillow 12.3" "$build/pillow/bin/python3" -B "$script" "$build/tests/tools/apply"
        done
    fi
}
all_tests name_at
# The parts become patterns: of the end of a test's path, or of any part of it.
for i in "${!parts[@]}"; do
    part=${parts[$i]%.sh}
    if [[ $names == *"/$part"$'\n'* ]]; then parts[i]="*/$part"; else parts[i]="*$part*"; fi
done
all_tests test_at
wait

of_all() { # suffix
    local n
    for ((n = 1; n <= started; n++)); do cat "$scratch/$n.$1"; done
}
echo
# Without a device, most programs skip tests, so these have one line.
of_all skips | awk '{ name = $1; sub(/^[^ ]* /, "") }
    tolower($0) ~ /cuda/ { cuda++; if (!seen[name]++) programs++; next }
    { print "skipped: " name " " $0 }
    END { if (cuda) printf "skipped: %d of CUDA in %d program%s: there is no CUDA device here, or the build has no CUDA\n",
                          cuda, programs, (programs > 1 ? "s" : "") }'
of_all failures | sed '/^    /!s/^/FAILED: /'
# A test without counts was killed, and counts as failed.
read -r passed failed skipped < <(of_all counts | awk -v started=$started '
    { ok += $1; not_ok += $2; skip += $3 } END { print ok + 0, not_ok + started - NR, skip + 0 }')
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
