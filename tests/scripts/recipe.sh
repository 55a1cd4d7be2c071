# shellcheck shell=bash
# recipe.sh - for the tests of queue/clients/recipes; sourced from the root after build is set. They
# run a recipe against a real Redis and a real daemon.
. tests/world.sh
. tests/scripts/blocks.sh
readonly recipes=$PWD/queue/clients/recipes
export recipes

# begin NAME: a world with folders and a Redis; REDIS_URL is its address
begin() {
    need_tools redis-server redis-cli cjpeg djpeg
    make_world "recipe-$1"
    mkdir "$dir/in" "$dir/out"
    start_redis "$dir" --port || exit 1
    export REDIS_URL=redis://127.0.0.1:$port dir build
}
# choose_python MODULE...: sets $python to the first one that has these modules, or skips the test
choose_python() {
    for python in python3 /usr/bin/python3; do
        "$python" -c "import $(IFS=,; echo "$*")" 2>/dev/null && return
    done
    echo "ok - ${0##*/} # SKIP there is no Python with $* here (python3-redis, python3-aiohttp)"
    exit 77
}
# The same Redis again, without its jobs.
restart_redis() {
    kill "$redis" 2>/dev/null
    wait "$redis" 2>/dev/null
    redis-server --bind 127.0.0.1 --port "$port" --unixsocket "$dir/redis.sock" --dir "$dir" --save '' \
        --appendonly no >>"$dir/redis.log" 2>&1 &
    redis=$!
    within 20 ask_redis PING
}
# start_daemon [OPTION...]: with short leases
start_daemon() {
    printf '%s\n' "redis = 127.0.0.1:$port" "input_root = $dir/in" "output_root = $dir/out" 'engine = cpu' \
        'workers = 1' 'lease_s = 3' 'renew_s = 0.5' 'reap_s = 0.5' 'retry_delay_s = 0.1' >"$dir/gpuimgd.conf"
    run_daemon "$build/gpuimgd" -c "$dir/gpuimgd.conf" "$@"
}
gpuimgctl() { "$build/gpuimgctl" "$@" -c "$dir/gpuimgd.conf"; }
export -f gpuimgctl
