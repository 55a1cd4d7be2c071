#!/bin/bash
# Runs the end-to-end tests with the daemon under valgrind's memcheck: tests/valgrind/check.sh BUILD
# [NAME...] (make check-valgrind)
#
# If memcheck finds an error in a daemon, the daemon exits with 99, its test fails, and the error is
# printed. A daemon that a test kills reports its errors so far, but no leaks. test_hostile is left
# out, because it measures memory and time of each attack; make check-asan runs it.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
readonly build=${1:?usage: tests/valgrind/check.sh BUILD [NAME...]}
readonly daemons_min=${2:+1} # all tests together have far more
shift
[ $# -gt 0 ] || set -- jobs bad redis signals siblings values resize explain

scratch=$(mktemp -d /tmp/gpuimgd-valgrind.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/logs"
# The tests run this wrapper instead of the daemon. Memcheck runs one thread at a time; without fair
# scheduling a computing thread blocks the loop for seconds. Large images take about thirty times as
# long, so the daemon's time limits are raised, unless a test sets its own.
cat >"$scratch/gpuimgd" <<END
#!/bin/sh
exec valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \\
    --errors-for-leak-kinds=definite --num-callers=30 --fair-sched=yes \\
    --suppressions=$PWD/tests/valgrind/memcheck.supp --log-file=$scratch/logs/%p \\
    $PWD/$build/gpuimgd --decode_timeout_s=600 --job_timeout_s=600 \\
    --drain_timeout_s=600 "\$@"
END
chmod +x "$scratch/gpuimgd"

status=0
GPUIMGD_INSTEAD=$scratch/gpuimgd GPUIMGD_TEST_SLOW=${GPUIMGD_TEST_SLOW:-20} \
    GPUIMGD_TEST_TIMEOUT=${GPUIMGD_TEST_TIMEOUT:-1800} \
    tests/run.sh "$build" "${@/#/tests/e2e/test_}" || status=1

# Lines with "==" are errors. Lines with "--" are valgrind's own messages, for example that it does
# not know openat2 (then the daemon walks paths itself).
find "$scratch/logs" -type f -exec grep -h '^==' {} + >"$scratch/findings"
head -200 "$scratch/findings" | sed 's/^/    ! /'
daemons=$(find "$scratch/logs" -type f | wc -l)
echo "$daemons daemons ran under memcheck, which printed $(wc -l <"$scratch/findings") lines"
[ "$daemons" -ge "${daemons_min:-50}" ] || { echo "too few daemons ran under memcheck"; status=1; }
[ ! -s "$scratch/findings" ] || status=1
exit $status
