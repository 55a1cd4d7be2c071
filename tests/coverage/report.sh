#!/bin/bash
# Prints which lines the whole suite runs: tests/coverage/report.sh build/coverage (make coverage)
#
# Runs unit tests, end-to-end tests, fuzz replays and quick fault cases with the CPU engine. Prints
# a table by folder and file, and the lines that do not run. Marks in the source give the reasons,
# by the keys of tests/coverage/reasons.txt (report.awk). Fails if a test fails or if a folder
# except gpu/ has less than 90%. GPUIMGD_COVERAGE_KEEP=1 uses the counts of the previous run.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
readonly build=${1:?usage: tests/coverage/report.sh build/coverage}
readonly percent_min=90

status=0
if [ "${GPUIMGD_COVERAGE_KEEP:-0}" != 1 ]; then
    find "$build" -name '*.gcda' -delete
    # Coverage counters slow the tests down, but less than a sanitizer.
    GPUIMGD_TEST_SLOW=${GPUIMGD_TEST_SLOW:-3} tests/run.sh "$build" || status=1
    echo
fi

# The lines of all objects. The lines of a header, and some of the tests' own daemon (tests/faults),
# are in several objects: a line counts as run if one object ran it.
find "$build" -name '*.gcno' -path '*/*' | grep -E "^$build/(conf|queue|codecs|gpu|daemon|tests/faults/stage)" |
    xargs -r gcov --stdout 2>/dev/null |
    awk -v percent_min="$percent_min" -v reasons=tests/coverage/reasons.txt -f tests/coverage/report.awk ||
    status=1
exit $status
