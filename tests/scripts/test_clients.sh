#!/bin/bash
# Runs the examples of queue/CLIENTS.md as they are written, against a real Redis and a real daemon.
# Then kills consumers at random moments while jobs run, and compares what they have recorded with
# the jobs. tests/scripts/test_clients.sh BUILD [KILLS [JOBS]]. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=$(realpath "${1:-build/release}")
readonly build root=$PWD kills=${2:-3} jobs=${3:-90}
need_tools redis-server redis-cli cjpeg
make_world clients
declare -A consumers # the process of each name

# section HEADING [NUMBER]: the indented lines of that section of CLIENTS.md; of one block, if there
# are several
section() {
    awk -v heading="## $1" -v wanted="${2:-0}" '
        /^#/ { here = $0 == heading; next }
        here && /^    / { if (!inside) block++; inside = 1; if (!wanted || block == wanted) print substr($0, 5) }
        here && /^[^ ]/ { inside = 0 }' "$root/queue/CLIENTS.md"
}
redis-cli() { command redis-cli -p "$port" "$@"; }
gpuimgctl() { "$build/gpuimgctl" "$@" -c "$dir/gpuimgd.conf"; }
export -f redis-cli gpuimgctl

# as_written COMMANDS: all commands must succeed, in $dir/home.
as_written() {
    [ -n "$1" ] || { echo "there is no command"; return 1; }
    (cd "$dir/home" && bash -e -o pipefail -c "$1" </dev/null)
}
# start_daemon PLACE: where results go
start_daemon() {
    cat >"$dir/gpuimgd.conf" <<END
redis = 127.0.0.1:$port
input_root = $dir/in
output_root = $dir/out
engine = cpu
workers = 1
results = $1
lease_s = 3
renew_s = 0.3
END
    run_daemon "$build/gpuimgd" -c "$dir/gpuimgd.conf"
}
# until_zero COMMAND...: the number that Redis answers
until_zero() {
    local i count
    for ((i = 0; i < 1200; i++)); do
        count=$(ask_redis "$@")
        [ "$count" = 0 ] && return 0
        sleep 0.1
    done
    echo "$*: $count"
    return 1
}
no_job_is_left() { until_zero LLEN gpuimgd:jobs && until_zero ZCARD gpuimgd:lease; }
images() { # NAME... in output_root
    no_job_is_left || return 1
    local name
    for name in "$@"; do [ -s "$dir/out/$name" ] || { echo "no $name"; return 1; }; done
}

# ---- the examples ------------------------------------------------------------------------------------
own_replies_are_handled() {
    local n
    images seven-1.png seven-2.png seven-3.png || return 1
    for n in 1 2 3; do
        equal "$(grep -c '"meta":{"n":'"$n"'}' "$dir/home/answers")" 1 || return 1
    done
    equal "$(ask_redis EXISTS gpuimgd:reply:producer-7:taken)" 0
}
# An earlier run took a result and did not finish it.
own_replies_of_a_crash() {
    ask_redis LPUSH gpuimgd:reply:producer-7:taken taken-before >/dev/null
    as_written "$(section "Many producers, each with its own replies")" &&
        equal "$(sed -n 4p "$dir/home/answers")" taken-before
}
# Redis refuses writes for a while.
bulk_without_memory() {
    ask_redis CONFIG SET maxmemory 1 >/dev/null
    { sleep 1; ask_redis CONFIG SET maxmemory 0; } >/dev/null &
    as_written "$(section Bulk)" 2>/dev/null
    local status=$?
    wait $!
    return $status
}
bulk_is_done() {
    local n
    no_job_is_left || return 1
    for n in {1..40}; do [ -s "$dir/out/bulk-$n.png" ] || { echo "no bulk-$n.png"; return 1; }; done
}
# Waits longer than redis-py 8 does by default.
waits_in_python() { # PYTHON
    { sleep 6 && ask_redis LPUSH gpuimgd:reply:me result; } >/dev/null &
    section "From Python" | sed "s/127.0.0.1:6379/127.0.0.1:$port/" >"$dir/home/wait.py"
    echo 'print(popped[1].decode())' >>"$dir/home/wait.py"
    equal "$("$1" "$dir/home/wait.py")" result
}
from_python() {
    local python
    for python in python3 /usr/bin/python3; do
        "$python" -c 'import redis' 2>/dev/null || continue
        check "from Python: BRPOP waits long enough" waits_in_python "$python"
        return
    done
    echo "ok - from Python: BRPOP waits long enough # SKIP there is no python3-redis here"
}
examples() {
    local result
    from_python
    check "fire and forget" as_written "$(section "Fire and forget")"
    check "the image is there" images thumb-17.png
    result=$(as_written "$(section "Wait for mine")")
    check "wait for mine: the result" has "$result" '"status":"done"'
    check "many producers" as_written "$(section "Many producers, each with its own replies")"
    check "each reply is handled once" own_replies_are_handled
    check "a reply that a crash interrupted is handled first" own_replies_of_a_crash
    check "bulk, while Redis is out of memory" bulk_without_memory
    check "all images are there" bulk_is_done
    check "a consumer with gpuimgctl" \
        as_written "$(section "A consumer of all results that may crash" 1)"
    check "it has written three results" equal "$(grep -c '"job":' "$dir/home/audit.jsonl")" 3
    ask_redis DEL gpuimgd:results:stream >/dev/null
    # Takes over after 1 s, not after a minute.
    section "A consumer of all results that may crash" 2 | sed 's/ 60000 / 1000 /; s/SECONDS + 20/SECONDS + 1/' \
        >"$dir/home/consumer.sh"
    check "the script takes over after 1 s" grep -qE '"\$name" 1000 .*|SECONDS \+ 1\)' "$dir/home/consumer.sh"
}

# ---- killed consumers --------------------------------------------------------------------------------
start_consumer() { # NAME
    case $1 in
    shop*) (cd "$dir/home" && exec bash consumer.sh "$1") >/dev/null 2>"$dir/errors-$1" & ;;
    log*)
        "$build/gpuimgctl" results -c "$dir/gpuimgd.conf" --follow --json "--consumer=$1" --group=log --idle=1 \
            >>"$dir/$1.jsonl" 2>"$dir/errors-$1" & ;;
    list*)
        "$build/gpuimgctl" results -c "$dir/gpuimgd.conf" --follow --json "--consumer=$1" \
            >>"$dir/$1.jsonl" 2>"$dir/errors-$1" & ;;
    esac
    consumers[$1]=$!
}
kill_consumer() { # NAME
    kill -KILL "${consumers[$1]}"
    wait "${consumers[$1]}" 2>/dev/null
    unset "consumers[$1]"
}
nap() { sleep "0.$((RANDOM % 3))$((RANDOM % 10))"; } # up to 0.3 s
push() { # PREFIX FIRST LAST
    local n batch=()
    for ((n = $2; n <= $3; n++)); do
        batch+=("{\"id\":\"$1-$n\",\"input\":\"dot.jpg\",\"outputs\":[{\"ops\":[\"stats\"]}]}")
    done
    ask_redis LPUSH gpuimgd:jobs "${batch[@]}" >/dev/null
}
# kill_while_jobs_run PREFIX NAME...: these consumers share the jobs; one after the other is killed
# and started again.
kill_while_jobs_run() {
    local prefix=$1 name round
    shift
    for name in "$@"; do start_consumer "$name"; done
    for ((round = 0; round < kills; round++)); do
        push "$prefix" $((jobs * round / kills + 1)) $((jobs * (round + 1) / kills))
        nap
        name=${*:1+RANDOM%$#:1}
        kill_consumer "$name"
        nap
        start_consumer "$name"
    done
}
ids_of() { grep -ohE '"id":"[^"]*"' "$@" | cut -d'"' -f4 | sort; }
pushed() { local n; for ((n = 1; n <= jobs; n++)); do echo "$1-$n"; done | sort; }
# Each result is in exactly one file, whose name is its job's id.
effects_are_right() {
    diff <(pushed s) <(ids_of "$dir"/home/done/*.json) &&
        diff <(pushed s) <(cd "$dir/home/done" && printf '%s\n' *.json | sed 's/\.json$//' | sort)
}
# lines_are_right PREFIX FILE...: each result is there; lines may be double, and the last line before
# a kill may be cut off.
lines_are_right() {
    local prefix=$1 lines
    shift
    diff <(pushed "$prefix") <(grep -hE '^\{.*\}$' "$@" | grep -oE '"id":"[^"]*"' | cut -d'"' -f4 | sort -u) || return 1
    lines=$(grep -hcE '^\{.*\}$' "$@" | awk '{ sum += $1 } END { print sum }')
    echo "# $((lines - jobs)) of $jobs results came twice after $kills kills" >&3
    equal "$(grep -hE '^\{.*\}$' "$@" | sort -u | wc -l)" "$jobs"
}
killed_consumers_of_a_stream() {
    ask_redis XGROUP CREATE gpuimgd:results:stream shop 0 MKSTREAM >/dev/null
    ask_redis XGROUP CREATE gpuimgd:results:stream log 0 >/dev/null
    kill_while_jobs_run s shop-a shop-b log-a log-b
    kill_consumer log-a # the others take over what they have
    kill_consumer shop-a
    check "all jobs ran" no_job_is_left
    check "both groups have acknowledged each result, and it left the stream" \
        until_zero XLEN gpuimgd:results:stream
    check "each result took effect once ($kills kills, $jobs jobs)" effects_are_right
    check "gpuimgctl has written each result" lines_are_right s "$dir"/log-*.jsonl
    for name in "${!consumers[@]}"; do kill_consumer "$name"; done
}
killed_consumers_of_a_list() {
    kill_while_jobs_run l list-a list-b
    check "all jobs ran" no_job_is_left
    check "no result is left in the list" until_zero LLEN gpuimgd:results
    check "and none that was taken" until_zero EXISTS gpuimgd:results:taken:list-a gpuimgd:results:taken:list-b
    check "gpuimgctl has written each result of the list" lines_are_right l "$dir"/list-*.jsonl
    for name in "${!consumers[@]}"; do kill_consumer "$name"; done
}

main() {
    local name
    exec 3>&1
    mkdir "$dir/in" "$dir/out" "$dir/home"
    printf 'P2\n64 48\n255\n%s\n' "$(seq -s ' ' 3072 | sed 's/[0-9]*\([0-9][0-9]\)/\1/g')" | cjpeg -outfile "$dir/in/cat.jpg"
    printf 'P2\n2 1\n255\n0 255\n' | cjpeg -outfile "$dir/in/dot.jpg"
    start_redis "$dir" --port || return 1
    export port build dir
    start_daemon stream
    examples
    killed_consumers_of_a_stream
    stop_daemon
    start_daemon list
    killed_consumers_of_a_list
    stop_daemon
    [ "$failures" -eq 0 ]
}
main
