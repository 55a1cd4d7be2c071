#!/bin/bash
# Keeps 16 bits per sample, and compares the pixels with NumPy and Pillow:
# tests/scripts/test_depth.sh BUILD
#
# The daemon runs with the CPU engine, and where the tests have built it, with the CUDA engine on the
# stand-in runtime. tests/scripts/depth.py makes the jobs and checks the outputs. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:?usage: tests/scripts/test_depth.sh BUILD, such as build/release}
need_tools redis-server redis-cli /usr/bin/python3
if ! /usr/bin/python3 -c 'import numpy, PIL' 2>/dev/null; then
    echo "ok - test_depth.sh # SKIP there is no python3-numpy or python3-pil here"
    exit 77
fi
make_world depth
depth() { /usr/bin/python3 -B tests/scripts/depth.py "$@"; }

# take_results COUNT FILE: false if they do not come
take_results() {
    local taken=0 deadline=$((SECONDS + 60))
    : >"$2"
    while [ "$taken" -lt "$1" ] && [ "$SECONDS" -lt "$deadline" ]; do
        ask_redis RPOP gpuimgd:results 1000 | grep . >>"$2" || sleep 0.1
        taken=$(wc -l <"$2")
    done
    equal "$taken" "$1"
}

run_jobs() { # NAME PROGRAM OPTION...: with outputs in a folder of this name
    local name=$1 jobs
    shift
    mapfile -t jobs <"$dir/in.jobs"
    mkdir -p "$dir/$name/out"
    run_daemon "$@" -c /dev/null "--redis=unix:$dir/redis.sock" "--input_root=$dir/in" \
        "--output_root=$dir/$name/out" --workers=2 --attempts=1 --sync_outputs=no
    check "the daemon starts" within 20 grep -q 'connected' "$log"
    ask_redis LPUSH gpuimgd:jobs "${jobs[@]}" >"$dir/null"
    check "it answers all jobs" take_results "${#jobs[@]}" "$dir/$name/results"
    stop_daemon
    check "it stops with status 0" equal "$exit_status" 0
}

start_redis "$dir" --port || exit 1
mkdir "$dir/in"
"$build/gpuimgd" --version | grep -q '^no TIFF' && export DEPTH_TIFF=no
check "the images are made" depth make "$dir/in"
chapter "the CPU engine"
run_jobs cpu "$build/gpuimgd" --engine=cpu
check "pixels and errors are those expected" depth check "$dir/cpu" "$dir/cpu/results"
if [ -x "$build/tests/faults/gpuimgd-cuda" ]; then
    chapter "the CUDA engine"
    run_jobs cuda "$build/tests/faults/gpuimgd-cuda" --engine=cuda --jpeg=cpu --png=cpu --webp=cpu --avif=cpu
    check "both engines write the same bytes" diff -r -x .gpuimgd "$dir/cpu/out" "$dir/cuda/out"
fi
exit $((failures > 0))
