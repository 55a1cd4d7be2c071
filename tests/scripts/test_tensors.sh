#!/bin/bash
# Writes images as tensors, and compares them with Pillow and NumPy: tests/scripts/test_tensors.sh
# BUILD
#
# The daemon runs with the CPU engine, and where the tests have built it, with the CUDA engine on the
# stand-in runtime. tests/scripts/tensors.py makes the jobs and checks the outputs. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:?usage: tests/scripts/test_tensors.sh BUILD, such as build/release}
need_tools redis-server redis-cli /usr/bin/python3
if ! /usr/bin/python3 -c 'import numpy, PIL' 2>/dev/null; then
    echo "ok - test_tensors.sh # SKIP there is no python3-numpy or python3-pil here"
    exit 77
fi
make_world tensors
tensors() { /usr/bin/python3 -B tests/scripts/tensors.py "$@"; }

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

# start_daemon NAME PROGRAM OPTION...: with outputs in a folder of this name
start_daemon() {
    local name=$1
    shift
    mkdir -p "$dir/$name/out"
    ln -s ../in "$dir/$name/in"
    run_daemon "$@" -c /dev/null "--redis=unix:$dir/redis.sock" "--input_root=$dir/in" \
        "--output_root=$dir/$name/out" --workers=2 --attempts=1 --sync_outputs=no
    check "the daemon starts" within 20 grep -q 'connected' "$log"
}

run_jobs() { # the arguments are those of start_daemon
    local name=$1 jobs
    mapfile -t jobs < <(tensors jobs)
    start_daemon "$@"
    ask_redis LPUSH gpuimgd:jobs "${jobs[@]}" >"$dir/null"
    check "it answers all jobs" take_results "${#jobs[@]}" "$dir/$name/results"
    stop_daemon
    check "it stops with status 0" equal "$exit_status" 0
    check "tensors and errors are those expected" tensors check "$dir/$name" "$dir/$name/results"
}

# ---- the example of OPERATIONS.md ---------------------------------------------------------------

section() { sed -n '/^## Tensors/,/^## Gray/p' gpu/OPERATIONS.md | sed -n 's/^    //p'; }
run_example() {
    chapter "the example of OPERATIONS.md"
    if ! tensors resizes; then
        echo "ok - its program writes the same bytes # SKIP this is Pillow 13 or later"
        return
    fi
    cp "$dir/in/wide.jpg" "$dir/in/cat.jpg"
    cp "$dir/in/wide.jpg" "$dir/cat.jpg"
    start_daemon example "$build/gpuimgd" --engine=cpu
    ask_redis LPUSH gpuimgd:jobs "$(section | sed -n '/^{"input"/,/]}$/p')" >"$dir/null"
    check "its job is done" take_results 1 "$dir/results"
    stop_daemon
    {
        printf 'import numpy\nfrom PIL import Image\n'
        section | sed -n '/^image = /,/^numpy.save/p'
    } >"$dir/program.py"
    check "its program runs" eval 'cd "$dir" && /usr/bin/python3 program.py'
    check "its program writes the same bytes" cmp "$dir/example/out/cat.npy" "$dir/cat.npy"
}

start_redis "$dir" --port || exit 1
mkdir "$dir/in"
check "the images are made" tensors make "$dir/in"
chapter "the CPU engine"
run_jobs cpu "$build/gpuimgd" --engine=cpu
if [ -x "$build/tests/faults/gpuimgd-cuda" ]; then
    chapter "the CUDA engine"
    run_jobs cuda "$build/tests/faults/gpuimgd-cuda" --engine=cuda
    check "both engines write the same bytes" tensors equal "$dir/cpu" "$dir/cuda"
fi
run_example
exit $((failures > 0))
