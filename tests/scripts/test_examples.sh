#!/bin/bash
# Runs the example clients against a real Redis and a real daemon, and compiles the one in C with
# the command in its comment: tests/scripts/test_examples.sh BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
. tests/scripts/blocks.sh
build=${1:-build/release}
readonly build clients=(sh py js c) awkward='a "b" \ ü.jpg'
need_tools redis-server redis-cli cjpeg djpeg
make_world examples

prepare() {
    mkdir "$dir/in" "$dir/out"
    write_blocks "$dir/in/a.jpg"
    cp "$dir/in/a.jpg" "$dir/in/$awkward"
}
start_daemon() { # OPTION...
    run_daemon "$build/gpuimgd" -c /dev/null "--redis=127.0.0.1:$port" "--input_root=$dir/in" \
        "--output_root=$dir/out" --engine=cpu --workers=1 "$@"
}

client() { # sh|py|js|c ARGUMENT...
    local which=$1
    shift
    case $which in
    c) REDIS=${at:-127.0.0.1:$port} "$dir/client" "$@" ;;
    *) REDIS=${at:-127.0.0.1:$port} "tests/examples/client.$which" "$@" ;;
    esac
}
# Prints why this client cannot run here, or nothing.
missing() {
    case $1 in
    py) command -v python3 >/dev/null || echo "no python3 here" ;;
    js) command -v node >/dev/null || echo "no node here" ;;
    c) command=$(sed -n 's/^ \* cc \(.*\)$/\1/p' tests/examples/client.c)
       (cd tests/examples && eval "${CC:-cc} -Wall -Wextra -Werror ${command/-o client/-o $dir/client}") 2>&1 ;;
    esac
}

# ends STATUS WORDS client...: checks the exit status, and for these words in the output or error
ends() {
    local status=$1 words=$2 output got=0
    shift 2
    output=$(client "$@" 2>&1) || got=$?
    equal "$got" "$status" && has "$output" "$words" || { echo "$output"; false; }
}
# Each client must get its own result.
several_at_once() { # client
    local i processes=()
    for i in 1 2 3; do
        ends 0 "$1-$i.png" "$1" 60 a.jpg "$1-$i.png" sobel &
        processes+=($!)
    done
    for i in "${processes[@]}"; do wait "$i" || return 1; done
}

in_list_of_nine() { # client
    ends 2 "no result" "$1" 1 a.jpg "nine-$1.png" sobel &&
        has "$(ask_redis LPOP gpuimgd:jobs:9)" '"priority"'
}
without_daemon() { # client
    check "$1: 64 without arguments" ends 64 usage "$1"
    check "$1: 2 if no result comes in time" ends 2 "no result" "$1" 1 a.jpg "late-$1.png" sobel
    PRIORITY=9 check "$1: the job is in the list of its priority" in_list_of_nine "$1"
    at=127.0.0.1:1 check "$1: 3 without Redis" ends 3 Redis "$1" 1 a.jpg x.png sobel
}
with_daemon() { # client
    check "$1: 0 if the job is done, and the path" ends 0 "turned-$1.jpg" "$1" 60 a.jpg "turned-$1.jpg" flip invert
    check "$1: the image is correct" are_blocks "$dir/out/turned-$1.jpg" turned
    check "$1: 1 if the job failed, and the error's code" ends 1 unknown_op "$1" 60 a.jpg x.png sobell
    check "$1: and its message" ends 1 "sobell" "$1" 60 a.jpg x.png sobell
    [ "$1" != sh ] || check "$1: the result is printed unchanged" prints_json
    [ "$1" != py ] || with_parameters
    if [ "$1" = sh ]; then
        check "$1: 64 for names that need JSON" ends 64 usage "$1" 60 "$awkward" x.png sobel
    else
        check "$1: names that JSON escapes" ends 0 "$1 $awkward" "$1" 60 "$awkward" "$1 $awkward" invert
    fi
    check "$1: several clients in parallel" several_at_once "$1"
    PRIORITY=9 check "$1: a job with a priority" ends 0 "urgent-$1.png" "$1" 60 a.jpg "urgent-$1.png" sobel
}
# An error in JSON has quotes with backslashes; it must be as the daemon wrote it.
prints_json() {
    local output
    output=$(client sh 60 none.jpg x.png sobel 2>&1)
    [[ $output == '{"job":'*'"error":{"code":"input_missing","message":"'*'}' ]] && equal "$(wc -l <<<"$output")" 1 &&
        if command -v python3 >/dev/null; then python3 -c 'import json, sys; json.load(sys.stdin)' <<<"$output"; fi
}
with_parameters() {
    check "py: an operation with parameters" ends 0 small.jpg py 60 a.jpg small.jpg \
        '{"op":"resize","width":16}' '{"op":"pad","width":20,"height":20}' invert
    check "py: they apply" equal "$(djpeg -pnm "$dir/out/small.jpg" | head -c 8 | xargs)" "P5 20 20"
    check "py: 64 for wrong JSON" ends 64 JSON py 60 a.jpg x.jpg '{"op":'
    check "py: a wrong parameter" ends 1 bad_op py 60 a.jpg x.jpg '{"op":"resize","widht":16}'
}
# The daemon serves shard 1 alone. zlib's crc32 of "dog" is 1 mod 4 and mod 2, that of "cat" is 0.
with_shards() { # client
    ID=dog SHARDS=4 check "$1: the shard of an id" ends 0 "dog-$1.png" "$1" 60 a.jpg "dog-$1.png" sobel
    check "$1: the result has the id" has "$(ask_redis GET '{gpuimgd:1}:result:dog')" "dog-$1.png"
    at="127.0.0.1:1 127.0.0.1:$port" ID=dog SHARDS=2 check "$1: the server of a shard" \
        ends 0 "two-$1.png" "$1" 60 a.jpg "two-$1.png" sobel
    at="127.0.0.1:1 127.0.0.1:$port" ID=cat SHARDS=2 check "$1: the server of another shard" \
        ends 3 Redis "$1" 60 a.jpg x.png sobel
}

main() {
    local which reason usable=()
    prepare
    start_redis "$dir" --port || return 1
    for which in "${clients[@]}"; do
        reason=$(missing "$which")
        case $which:$reason in
        *:) usable+=("$which") ;;
        c:*) check "the example in C compiles without warnings" equal "$reason" "" ;;
        *) echo "ok - tests/examples/client.$which # SKIP $reason" ;;
        esac
        check "client.$which: at most 64 lines" [ "$(wc -l <"tests/examples/client.$which")" -le 64 ]
    done
    ask_redis SET gpuimgd:jobs "not a list" >/dev/null
    for which in "${usable[@]}"; do
        check "$which: 3 if Redis returns an error" ends 3 "" "$which" 1 a.jpg x.png sobel
    done
    ask_redis DEL gpuimgd:jobs >/dev/null
    for which in "${usable[@]}"; do without_daemon "$which"; done
    start_daemon
    for which in "${usable[@]}"; do with_daemon "$which"; done
    stop_daemon
    start_daemon '--namespace={gpuimgd:1}'
    for which in "${usable[@]}"; do with_shards "$which"; done
    [ "$failures" -eq 0 ]
}
main
