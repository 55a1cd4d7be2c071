#!/bin/bash
# tests/operations.sh BUILD writes the table of operations into all documents that repeat it, and the
# targets of make into TESTS.md; with --check it prints the differences. Run `make documents` after a
# change.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly tool=$1/tests/tools/operations mode=${2:-}
[ -x "$tool" ] || { echo "$tool is missing; run make documents" >&2; exit 1; }

form() { "$tool" "$1"; }
# Wraps lines. No line starts with an operator, which would be a list in Markdown.
wrap() { sed -E 's/ ([-+<>=*\/]+) /\x01\1 /g' | fold -s -w "$1" | sed 's/ *$//; s/\x01/ /g'; }
# mdoc needs each sentence on its own line; names have no backticks there.
mdoc() { form mdoc | sed 's/`//g; s/\. \([A-Z]\)/.\n\1/g' | wrap 78; }
readme() {
    printf '| operation | what it does |\n| --- | --- |\n'
    form readme
}

# put FILE [BEGIN END]: replaces the lines of the file between these two texts, or the whole file,
# by standard input.
put() {
    local file=$1 begin=${2:-} end=${3:-} whole
    whole=$(
        [ -z "$begin" ] || sed "/$begin/q" "$file"
        cat
        [ -z "$end" ] || sed -n "/$end/,\$p" "$file"
    )
    if [ "$mode" = --check ]; then
        diff "$file" - <<<"$whole" >&2 || { echo "# $file is out of date; run make documents" >&2; return 1; }
    else
        printf '%s\n' "$whole" >"$file"
    fi
}

status=0
form list | put queue/ctl/operations.inc || status=1
mdoc | put conf/man/gpuimgd-job.5 'The operations begin here' 'The operations end here' || status=1
readme | put README.md '^<!-- operations:' '^<!-- end of the operations' || status=1
form markdown | wrap 120 | put gpu/OPERATIONS.md '^<!-- Generated' || status=1
form words | awk '!seen[$0]++' | put tests/fuzz/job.dict '^# Operations' || status=1
tests/targets.sh table | put tests/TESTS.md '^<!-- targets:' '^<!-- end of the targets' || status=1
exit $status
