# shellcheck shell=bash
# redis.sh - a private Redis for scripts; sourced.

# start_redis FOLDER OPTION [ARGUMENT ...]: starts a redis-server on a free port of 127.0.0.1, given
# by OPTION (--port, --tls-port), and on FOLDER/redis.sock, and waits until it answers. Sets $redis
# to its process and $port. Returns 1 if it does not start; see FOLDER/redis.log. Tries random ports
# until redis-server can bind one.
start_redis() {
    local folder=$1 option=$2 try i
    shift 2
    for try in 1 2 3 4 5 6 7 8 9 10; do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        redis-server --bind 127.0.0.1 "$option" "$port" --unixsocket "$folder/redis.sock" \
            --dir "$folder" --save '' --appendonly no "$@" >"$folder/redis.log" 2>&1 &
        redis=$!
        for ((i = 0; i < 100; i++)); do
            kill -0 "$redis" 2>/dev/null || break
            redis-cli -s "$folder/redis.sock" INFO server 2>/dev/null |
                grep -q "^process_id:$redis" && return 0
            sleep 0.1
        done
        kill "$redis" 2>/dev/null || true
        wait "$redis" 2>/dev/null || true
        redis=""
    done
    echo "redis-server did not start in $try tries; see $folder/redis.log" >&2
    return 1
}
