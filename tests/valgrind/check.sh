#!/bin/bash
# The end-to-end tests with the daemon under valgrind's memcheck: tests/valgrind/check.sh BUILD [NAME...]
# (make check-valgrind)
#
# Every daemon that a test starts is watched; what memcheck finds in one makes it exit with 99, which
# fails its test, and is printed. A daemon that a test kills says what it found until then, but nothing
# of leaks. test_hostile is left out: it measures the daemon's own memory and the time of each attack
# (AddressSanitizer sees it in make check-asan).
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
readonly build=${1:?usage: tests/valgrind/check.sh BUILD [NAME...]}
readonly daemons_min=${2:+1} # of all tests together, far more
shift
[ $# -gt 0 ] || set -- jobs bad redis signals siblings values resize explain

scratch=$(mktemp -d /tmp/gpuimgd-valgrind.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/logs"
# The tests execute this instead of the daemon. Its threads take turns in memcheck, which must be
# fair, or one that computes keeps the loop waiting for seconds; a large picture takes some thirty
# times as long as otherwise, so that the daemon's limits, unless a test gives its own, are wider.
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

# "==" begins a finding; "--" what valgrind says of itself, such as that it does not know openat2
# (the daemon then walks the path itself).
find "$scratch/logs" -type f -exec grep -h '^==' {} + >"$scratch/findings"
head -200 "$scratch/findings" | sed 's/^/    ! /'
daemons=$(find "$scratch/logs" -type f | wc -l)
echo "$daemons daemons ran under memcheck, which has $(wc -l <"$scratch/findings") lines to say"
[ "$daemons" -ge "${daemons_min:-50}" ] || { echo "so few daemons prove nothing"; status=1; }
[ ! -s "$scratch/findings" ] || status=1
exit $status
