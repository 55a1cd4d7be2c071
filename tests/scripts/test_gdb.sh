#!/bin/bash
# Tests the gdb commands of tests/tools/gdb.py on a daemon with a job that hangs in its decode and one
# that waits. Skipped if gdb cannot attach here. Prints TAP. tests/scripts/test_gdb.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
readonly build=${1:-build/release}
need_tools gdb redis-server redis-cli cjpeg
make_world gdb
said=""

# Asks gdb, which takes seconds to start, all questions at once. Sets `said`.
ask() {
    said=$(timeout 60 gdb -p "$daemon" -batch -nx -iex 'set debuginfod enabled off' -x tests/tools/gdb.py \
        -ex jobs -ex "job 1" -ex "job 3" 2>&1)
    grep -q '^2 jobs in flight, ' <<<"$said" || cannot_attach
}
cannot_attach() { grep -qiE 'ptrace|could not attach|python scripting is not' <<<"$said"; }
says() { # REGULAR-EXPRESSION...: each matches a line
    local expected
    for expected; do
        grep -qE "$expected" <<<"$said" || { printf 'no %s in:\n%s\n' "$expected" "$said"; return 1; }
    done
}
leased() { equal "$(ask_redis ZCARD gpuimgd:lease)" "$1"; }

main() {
    case $(ldd "$build/gpuimgd") in
    *libasan* | *libtsan*)
        echo "ok - gdb # SKIP builds with sanitizers keep the variable of the daemon in no place"
        return 77
        ;;
    esac
    mkdir "$dir/in" "$dir/out"
    awk 'BEGIN { printf "P2\n16 16\n255\n"; for (i = 0; i < 256; i++) print i }' |
        cjpeg -outfile "$dir/in/a.jpg"
    start_redis "$dir" --port || return 1
    export GPUIMGD_FAULT="run=decode,action=hang,match=stuck"
    run_daemon "$build/tests/faults/gpuimgd" -c /dev/null "--redis=127.0.0.1:$port" --engine=cpu \
        --workers=1 "--input_root=$dir/in" "--output_root=$dir/out"
    ask_redis LPUSH gpuimgd:jobs '{"id":"stuck","input":"a.jpg","output":"a.png","ops":["sobel"]}' \
        '{"id":"next","input":"a.jpg","output":"b.png","ops":["sobel"]}' >/dev/null
    within 20 leased 2
    within 20 ask
    if cannot_attach; then
        echo "ok - gdb # SKIP gdb cannot attach to a daemon here"
        return 77
    fi
    check "jobs prints each job in flight, with its stage, owner and input" says \
        '^[12] +(read>)?decode +worker +open .* stuck +a\.jpg$' \
        '^[12] +read +worker +open .* next +a\.jpg$' '^2 jobs in flight, [0-9]+ free slots$'
    check "job N prints its members" says '^ +stage = STAGE_'
    check "another line is refused" says 'job 3: it must be a line of `jobs`, 1 to 2'
    kill -KILL "$daemon" # it would wait for the job that hangs
    [ "$failures" -eq 0 ]
}
main
