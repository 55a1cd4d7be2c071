#!/bin/bash
# Writes images with a given similarity, and measures it with Pillow and NumPy:
# tests/scripts/test_ssim.sh BUILD
#
# tests/scripts/ssim.py makes the jobs and checks the outputs. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:?usage: tests/scripts/test_ssim.sh BUILD, such as build/release}
need_tools redis-server redis-cli /usr/bin/python3
if ! /usr/bin/python3 -c 'import numpy, PIL' 2>/dev/null; then
    echo "ok - test_ssim.sh # SKIP there is no python3-numpy or python3-pil here"
    exit 77
fi
make_world ssim
ssim() { /usr/bin/python3 -B tests/scripts/ssim.py "$@"; }

# run_jobs NAME: runs the jobs of a part of the script, and appends their results to $dir/results
run_jobs() {
    local jobs taken=0 deadline=$((SECONDS + 100))
    mapfile -t jobs < <(ssim jobs "$dir" "$1")
    ask_redis LPUSH gpuimgd:jobs "${jobs[@]}" >"$dir/null"
    : >"$dir/part"
    while [ "$taken" -lt "${#jobs[@]}" ] && [ "$SECONDS" -lt "$deadline" ]; do
        ask_redis RPOP gpuimgd:results 1000 | grep . >>"$dir/part" || sleep 0.1
        taken=$(wc -l <"$dir/part")
    done
    cat "$dir/part" >>"$dir/results"
    equal "$taken" "${#jobs[@]}"
}

start_redis "$dir" --port || exit 1
mkdir "$dir/in" "$dir/out"
: >"$dir/results"
check "the images are made" ssim make "$dir"
run_daemon "$build/gpuimgd" -c /dev/null "--redis=unix:$dir/redis.sock" "--input_root=$dir" \
    "--output_root=$dir/out" --engine=cpu --workers=2 --attempts=1 --sync_outputs=no
check "the daemon starts" within 20 grep -q 'connected' "$log"
check "it answers jobs with a similarity" run_jobs wanted
check "it answers jobs with the qualities that it found, and lower ones" run_jobs fixed
check "it converts the files for Pillow" run_jobs converted
stop_daemon
check "it stops with status 0" equal "$exit_status" 0
check "similarities, qualities and errors are those expected" ssim check "$dir"
exit $((failures > 0))
