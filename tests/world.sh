# shellcheck shell=bash
# world.sh - what a script that tests the daemon needs: a folder of its own, a private Redis
# (redis.sh), the daemon, and facts as TAP lines (service/tap.sh); sourced from the root.
. tests/redis.sh
. tests/service/tap.sh
# The daemons of a test do not report to the service that the test runs in.
unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID JOURNAL_STREAM

# need_tools COMMAND...: the whole script is skipped if one is missing.
need_tools() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null && continue
        echo "ok - ${0##*/} # SKIP there is no $tool here"
        exit 77
    done
}

# make_world NAME: sets $dir, a new folder, and $log, a file in it. When the script ends, however it
# does, the processes that it has started end with it, and the folder is removed.
make_world() {
    dir=$(mktemp -d "/tmp/gpuimgd-$1.XXXXXX") || exit 1
    log=$dir/log
    trap leave_world EXIT
    trap 'exit 130' INT TERM
}
leave_world() {
    local running
    mapfile -t running < <(jobs -pr)
    kill "${running[@]}" 2>/dev/null || true
    wait
    rm -rf "$dir"
}

# ask_redis WORD...: of the Redis that start_redis "$dir" has started
ask_redis() { redis-cli -s "$dir/redis.sock" --raw "$@"; }

# run_daemon COMMAND...: it is the daemon, or becomes it; sets $daemon, and $log is its log.
run_daemon() {
    : >"$log"
    "$@" >"$log" 2>&1 &
    daemon=$!
}
# Lets it finish; sets $exit_status.
stop_daemon() {
    exit_status=0
    kill -TERM "$daemon" 2>/dev/null
    wait "$daemon" || exit_status=$?
}
