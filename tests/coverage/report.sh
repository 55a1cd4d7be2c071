#!/bin/bash
# Which lines the whole suite runs: tests/coverage/report.sh build/coverage  (make coverage)
#
# Runs unit tests, end-to-end tests, fuzz replays and quick fault cases with the CPU engine, and
# prints a table by folder and file and the lines that do not run, with their reasons: marks in the
# source name one of tests/coverage/reasons.txt each (report.awk). Fails if a test fails or if a
# folder but gpu/ has less than 90%. GPUIMGD_COVERAGE_KEEP=1: counts the run before once more.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
readonly build=${1:?usage: tests/coverage/report.sh build/coverage}
readonly percent_min=90

status=0
if [ "${GPUIMGD_COVERAGE_KEEP:-0}" != 1 ]; then
    find "$build" -name '*.gcda' -delete
    # Counting costs time, though less than a sanitizer does.
    GPUIMGD_TEST_SLOW=${GPUIMGD_TEST_SLOW:-3} tests/run.sh "$build" || status=1
    echo
fi

# Every object's lines; the tests' own daemon has some of a file's once more (tests/faults), and a
# header's stand in many. A line is run where one of them is.
find "$build" -name '*.gcno' -path '*/*' | grep -E "^$build/(conf|queue|codecs|gpu|daemon|tests/faults/stages)" |
    xargs -r gcov --stdout 2>/dev/null |
    awk -v percent_min="$percent_min" -v reasons=tests/coverage/reasons.txt -f tests/coverage/report.awk ||
    status=1
exit $status
