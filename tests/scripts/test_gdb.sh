#!/bin/bash
# Tests the gdb commands of tests/tools/gdb.py on a daemon with a job that hangs in its decode and one
# that waits. Skipped if gdb cannot attach here. Prints TAP. tests/scripts/test_gdb.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
readonly build=${1:-build/release}
need_tools gdb redis-server redis-cli cjpeg
make_world gdb

# ask COMMAND: what it prints, without the messages of gdb
ask() {
    timeout 60 gdb -p "$daemon" -batch -nx -iex 'set debuginfod enabled off' -x tests/tools/gdb.py -ex "$1" 2>&1
}
jobs_are() { # REGULAR-EXPRESSION...: each matches a line of `jobs`
    local said expected
    said=$(ask jobs)
    for expected; do
        grep -qE "$expected" <<<"$said" || { printf 'no %s in:\n%s\n' "$expected" "$said"; return 1; }
    done
}
prints_members() { # REGULAR-EXPRESSION: matches what `job 1` prints
    ask "job 1" | grep -E "$1"
}
leased() { equal "$(ask_redis ZCARD gpuimgd:lease)" "$1"; }
refuses() { has "$(ask "job 3")" "job 3: it must be a line of \`jobs\`, 1 to 2"; }

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
    if ask jobs | grep -qiE 'ptrace|could not attach|python scripting is not'; then
        echo "ok - gdb # SKIP gdb cannot attach to a daemon here"
        return 77
    fi
    within 20 jobs_are '^2 jobs in flight, '
    check "jobs prints each job in flight, with its stage, owner and input" jobs_are \
        '^[12] +(read>)?decode +worker +open .* stuck +a\.jpg$' \
        '^[12] +read +worker +open .* next +a\.jpg$' '^2 jobs in flight, [0-9]+ free slots$'
    check "job N prints its members" prints_members '^ +stage = STAGE_'
    check "another line is refused" refuses
    [ "$failures" -eq 0 ]
}
main
