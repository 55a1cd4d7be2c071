#!/bin/sh
# Lists the targets of make with their descriptions, which are the lines `## TARGET: TEXT` of the
# makefiles. tests/targets.sh help: for a terminal; table: as the table of tests/TESTS.md.
set -eu
cd "$(dirname "$0")/.."
rows() { sed -n 's/^## \([a-z-]*\): /\1\t/p' Makefile tests/tests.mk; }
if [ "$1" = help ]; then
    rows | sed 's/^/make /' | expand -t 24
else
    printf '| `make …` | what it does |\n| --- | --- |\n'
    rows | sed 's/|/\\|/g; s/\t/` | /; s/^/| `/; s/$/ |/'
fi
