#!/bin/bash
# Tests tests/coverage/report.awk: which uncovered lines a mark in the source excuses. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh

# Prints gcov's text of one file: a count and a line per argument; line numbers begin at 1.
gcov() { # FILE "COUNT:TEXT"...
    local line number=0
    echo "        -:    0:Source:$1"
    shift
    for line; do echo "${line%%:*}:$((number += 1)):${line#*:}"; done
}
# report REGULAR-EXPRESSION < gcov: the lines of the report that match it
report() {
    awk -v percent_min=0 -v reasons=<(printf '# keys\nmoment Moments.\nmemory No memory.\n') \
        -f tests/coverage/report.awk | grep -oE "$1"
}
places() { report '^  [a-zA-Z].*\([0-9]+\)$|^ +conf/a.c:[0-9]+|all of it runs' | tr -s ' \n' ' '; }

on_condition() {
    equal "$(gcov conf/a.c '1:if (x) /* uncovered: moment */' '#####:a();' '1:b();' | places)" \
        " Moments. (1) conf/a.c:2 "
}
within_region() {
    equal "$(gcov conf/a.c '1:if (x) {' '#####:a();' '#####:b(); /* uncovered: memory */' '-:}' \
        '1:c();' | places)" " No memory. (2) conf/a.c:2 conf/a.c:3 "
}
above_region() {
    equal "$(gcov conf/a.c '1:else' '-:/* uncovered: moment */' '#####:a();' | places)" \
        " Moments. (1) conf/a.c:3 "
}
status_marks() {
    equal "$(gcov conf/a.c '1:if (x)' '#####:return STATUS_OUT_OF_MEMORY;' | places)" \
        " No memory. (1) conf/a.c:2 "
}
next_region() {
    equal "$(gcov conf/a.c '1:if (x) /* uncovered: moment */' '#####:a();' '1:if (y)' '#####:b();' |
        places)" " Moments. (1) conf/a.c:2 not explained (1) conf/a.c:4 "
}
whole_file() {
    equal "$(gcov conf/a.c '-:/* uncovered file: moment */' '1:a();' '#####:b();' '1:c();' \
        '=====:d();' | places)" " Moments. (2) conf/a.c:3 conf/a.c:5 "
}
unknown_key() {
    equal "$(gcov conf/a.c '1:if (x) /* uncovered: whim */' '#####:a();' | places)" \
        " not explained (1) conf/a.c:2 "
}
stale() {
    equal "$(gcov conf/a.c '1:if (x) /* uncovered: memory */' '1:a();' | report '.*all of it runs')" \
        "conf/a.c:1: uncovered: memory: all of it runs"
}
not_stale() { # moments come or do not
    equal "$(gcov conf/a.c '1:if (x) /* uncovered: moment */' '1:a();' | report '.*all of it runs')" ""
}

check "a mark on the condition excuses its branch" on_condition
check "a mark on one line of a region excuses all of it" within_region
check "a mark on a separate line excuses the region below" above_region
check "STATUS_OUT_OF_MEMORY is a mark" status_marks
check "a mark does not excuse the next region" next_region
check "a mark of a file excuses every region" whole_file
check "a mark without a reason excuses nothing" unknown_key
check "a mark whose lines run is reported" stale
check "a mark of a moment whose lines run is not" not_stale
[ "$failures" -eq 0 ]
