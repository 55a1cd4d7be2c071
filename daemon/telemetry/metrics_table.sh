#!/bin/sh
# Prints METRICS.md with the table of metrics generated from metrics.def. `make documents` stores
# the output as METRICS.md.
set -eu
cd "$(dirname "$0")/../.."

# Prints "L|set|labels" or "M|name|type|set|help" per row. sed joins adjacent string literals.
rows() {
    ${CC:-cc} -E -P -I. -x c - <<'END' | sed 's/" *"//g; s/"//g'
#define LABELS(set, samples, document, ...) L|set|document
#define METRIC(name, type, labels, source, help) M|name|type|labels|help
#include "daemon/telemetry/metrics.def"
END
}
rows | awk -F '|' '
    FNR == NR { if ($1 == "L") labels[$2] = $3
                else { sub(/^ +/, "", $5)
                       table = table "| `" $2 "` | " tolower($3) " | " labels[$4] " | " $5 " |\n" }
                next }
    /^\| `/ && below { if (!done) printf "%s", table; done = 1; next }
    { below = below || /^\| metric \|/ }
    /^$/ && done { below = 0 }
    { print }' - daemon/METRICS.md
