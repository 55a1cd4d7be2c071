#!/bin/bash
# Runs the daemon under the restrictions of the unit without systemd: tests/scripts/test_confined.sh
# BUILD. tests/tools/confine applies the restrictions of systemd/gpuimgd.service that it supports.
# The daemon runs jobs with the CPU engine and, if there is a GPU, with CUDA, from native code and
# from PTX that the driver compiles. All results must have the same bytes. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:-build/release}
readonly build jobs=24
readonly nobody=65534
need_tools redis-server redis-cli cjpeg
make_world confined
user=() listen=""

prepare() {
    mkdir "$dir/in"
    awk 'BEGIN { printf "P3\n800 600\n255\n"
        for (y = 0; y < 600; y++) for (x = 0; x < 800; x++)
            printf "%d %d %d\n", x * 255 / 800, (x * y) % 256, (x % 17) * (y % 13) }' |
        cjpeg -quality 90 -outfile "$dir/in/a.jpg"
    # If the daemon does not run as root, it still needs access to its program.
    cp "$build/gpuimgd" "$build/tests/tools/confine" "$dir/"
    [ ! -e "$build/gpuimgd-codec" ] || cp "$build/gpuimgd-codec" "$dir/"
    chmod 755 "$dir" "$dir/in" "$dir/gpuimgd"* "$dir/confine"
    [ "$(id -u)" != 0 ] || user=(--user=$nobody)
}

# start_daemon NAME ENGINE [WRAPPER...]: the outputs are in $dir/NAME
start_daemon() {
    local out=$dir/$1 engine=$2
    shift 2
    CUDA_CACHE_PATH=$out.cache run_daemon "$@" "$dir/gpuimgd" -c /dev/null \
        "--redis=127.0.0.1:$port" "--input_root=$dir/in" "--output_root=$out" "--engine=$engine" \
        --workers=2 ${listen:+"--metrics_listen=$listen"}
}
make_folders() { # NAME
    mkdir "$dir/$1" "$dir/$1.cache"
    [ "$(id -u)" != 0 ] || chown $nobody:$nobody "$dir/$1" "$dir/$1.cache"
}
ready() { grep -F 'jobs from 127.0.0.1' "$log" || { tail -12 "$log"; false; }; }

push_jobs() {
    local i operations=('"sobel"' '"grayscale",{"op":"resize","width":333}' '"equalize"'
        '{"op":"gaussian","ksize":9}' '{"op":"rotate","angle":90},"invert"' '"canny"')
    for ((i = 0; i < jobs; i++)); do
        ask_redis LPUSH gpuimgd:jobs "{\"id\":\"$i\",\"input\":\"a.jpg\",\"output\":\"$i.png\",
            \"ops\":[${operations[i % ${#operations[@]}]}]}"
    done
}
# Gets the status over the port that the daemon chose.
serves() {
    local where answer
    where=$(sed -nE 's|.*metrics and status on [a-z]+://([0-9.]+):([0-9]+)/.*|/dev/tcp/\1/\2|p' "$log")
    exec 3<>"$where" && printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3 && answer=$(cat <&3)
    exec 3>&-
    has "$answer" " 200 OK"
}
all_done() { # engine
    local i result
    for ((i = 0; i < jobs; i++)); do
        result=$(ask_redis BRPOP gpuimgd:results 60 | tail -n +2)
        has "$result" '"status":"done"' && has "$result" "\"engine\":\"$1" || return 1
    done
}

confined() {
    local facts
    facts=$(grep -E '^(CapEff|NoNewPrivs|Seccomp):' "/proc/$daemon/status" | tr -d '\t\n')
    equal "$facts" "CapEff:0000000000000000NoNewPrivs:1Seccomp:2"
}
# Its process filters its own system calls, below those of the service.
avif_done() { # engine
    local result
    ask_redis LPUSH gpuimgd:jobs '{"id":"avif","input":"a.jpg","output":"a.avif"}' >/dev/null
    result=$(ask_redis BRPOP gpuimgd:results 60 | tail -n +2)
    has "$result" '"status":"done"'
}
# A process that draws texts filters the calls of all of its threads, with another system call.
text_done() {
    local result
    ask_redis LPUSH gpuimgd:jobs \
        '{"id":"text","input":"a.jpg","output":"text.png","ops":[{"op":"text","text":"a"}]}' >/dev/null
    result=$(ask_redis BRPOP gpuimgd:results 60 | tail -n +2)
    has "$result" '"status":"done"' || has "$result" "without Pango" || has "$result" "no font is installed"
}
ended() { ! kill -0 "$daemon" 2>/dev/null; }
ready_or_ended() { ready || ended; }

# try NAME ENGINE LABEL: runs jobs under the restrictions
try() {
    make_folders "$1"
    start_daemon "$1" "$2" "$dir/confine" "${user[@]}" "--write=$dir/$1" "--write=$dir/$1.cache"
    within 180 ready_or_ended
    check "$1: the daemon starts" ready
    grep '^confine: ' "$log" | sed 's/^/# /'
    if ! ended; then
        check "$1: without capabilities or new privileges, calls filtered" confined
        push_jobs >/dev/null
        check "$1: $jobs jobs are done" all_done "$3"
        [ ! -e "$dir/gpuimgd-codec" ] || check "$1: an AVIF is written" avif_done
        [ ! -e "$dir/gpuimgd-codec" ] || check "$1: a text is drawn" text_done
        [ -z "$listen" ] || check "$1: it answers over HTTP" serves
    fi
    stop_daemon
    check "$1: it stops with status 0" equal $exit_status 0
}

# Whether the daemon can use a CUDA device, without restrictions.
has_cuda() {
    local found=1
    make_folders plain
    start_daemon plain cuda env
    within 180 ready_or_ended
    ready >/dev/null && found=0
    stop_daemon
    return $found
}

same_results() { # name name
    local i
    for ((i = 0; i < jobs; i++)); do cmp "$dir/$1/$i.png" "$dir/$2/$i.png" || return 1; done
}

main() {
    local name
    case $(ldd "$build/gpuimgd") in
    *libasan* | *libtsan*)
        echo "ok - the daemon under restrictions # SKIP sanitizers need calls that they refuse"
        return 0
        ;;
    esac
    prepare
    has "$(ldd "$build/gpuimgd")" libmicrohttpd >/dev/null && listen=0
    start_redis "$dir" --port || return 1
    try cpu cpu cpu
    if has_cuda; then
        try cuda cuda cuda:
        export CUDA_FORCE_PTX_JIT=1 # GPUs newer than this nvcc run the PTX
        try ptx cuda cuda:
        for name in cuda ptx; do
            check "$name: the same bytes as cpu" same_results cpu "$name"
        done
    else
        echo "ok - native code and PTX # SKIP no CUDA: $(grep -m1 -i error "$log")"
    fi
    [ "$failures" -eq 0 ]
}
main
