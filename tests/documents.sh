#!/bin/sh
# Writes the documents that repeat the tables of options, formats and metrics: conf/gpuimgd.conf, the
# options in gpuimgd.conf(5), the formats in gpuimgd-job(5), and METRICS.md. tests/documents.sh BUILD
set -eu
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

put() { cmp -s "$1" "$2" || cat "$1" >"$2"; }

"$1/gpuimgd" --sample >"$folder/sample"
"$1/gpuimgd" --mdoc >"$folder/mdoc"
sed -e '/The list begins here/r '"$folder/mdoc" \
    -e '/The list begins here/,/The list ends here/ { /The list/!d }' conf/man/gpuimgd.conf.5 >"$folder/page"
"$1/tests/tools/formats" >"$folder/formats"
sed -e '/The formats begin here/r '"$folder/formats" \
    -e '/The formats begin here/,/The formats end here/ { /The formats/!d }' conf/man/gpuimgd-job.5 \
    >"$folder/job"
daemon/telemetry/metrics_table.sh >"$folder/metrics"
put "$folder/sample" conf/gpuimgd.conf
put "$folder/page" conf/man/gpuimgd.conf.5
put "$folder/metrics" daemon/METRICS.md
put "$folder/job" conf/man/gpuimgd-job.5
