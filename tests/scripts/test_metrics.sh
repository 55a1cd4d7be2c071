#!/bin/bash
# The table of metrics, its document, the dashboard and the alert rules name the same things. Prints
# TAP: tests/scripts/test_metrics.sh [BUILD]; $PROMTOOL, where set, looks at the rules and, with a
# daemon of BUILD, at what it exposes.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
readonly table=daemon/metrics.def document=daemon/METRICS.md

# Rows of the table as "name|type|help".
rows() {
    tr '\n' ' ' <"$table" | grep -oE 'METRIC\("[^"]+", [A-Z]+, [A-Z]+, [a-z_]+, +"[^"]*"\)' |
        sed -E 's/METRIC\("([^"]+)", ([A-Z]+), [A-Z]+, [a-z_]+, +"([^"]*)"\)/\1|\L\2\E|\3/'
}
# The document's, in the same form.
documented() {
    sed -nE 's/^\| `([a-z_]+_[a-z_]+)` \| (counter|gauge|histogram) \| .* ?\| (.*) \|$/\1|\2|\3/p' "$document"
}
all_rows() { [ "$(rows | wc -l)" = "$(grep -c '^METRIC(' "$table")" ] && [ "$(rows | wc -l)" -gt 40 ]; }
same_rows() { diff <(rows) <(documented); }

# Names in the files given that no row has.
unknown_names() {
    local name base
    grep -ohE '\b(gpuimgd|process)_[a-z_]*[a-z]\b' "$@" | sort -u | while read -r name; do
        base=$(sed -E 's/_(bucket|sum|count)$//' <<<"$name")
        rows | grep -qE "^($name|$base)\|" || echo "$name"
    done
}
known_names() {
    local names
    names=$(unknown_names "$@")
    [ -z "$names" ] || { echo "no such metrics: $names"; return 1; }
}

main() {
    check "every row of $table can be read" all_rows
    check "$document has the same metrics, types and meanings" same_rows
    [ "$failures" -eq 0 ]
}
main
