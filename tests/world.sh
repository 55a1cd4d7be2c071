# shellcheck shell=bash
# world.sh - sourced from the root by scripts that test the daemon: a temporary folder, a private
# Redis (redis.sh), the daemon, and TAP lines (service/tap.sh).
. tests/redis.sh
. tests/service/tap.sh
# The daemons of a test must not report to the service that runs the test.
unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID JOURNAL_STREAM

# need_tools COMMAND...: skips the whole script if a command is missing.
need_tools() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null && continue
        echo "ok - ${0##*/} # SKIP there is no $tool here"
        exit 77
    done
}

# make_world NAME: sets $dir, a new folder, and $log, a file in it. At any exit of the script its
# processes are killed and the folder is removed.
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

# ask_redis WORD...: a command to the Redis of start_redis "$dir"
ask_redis() { redis-cli -s "$dir/redis.sock" --raw "$@"; }

# run_daemon COMMAND...: starts the daemon or its wrapper; sets $daemon, and $log is its log.
run_daemon() {
    : >"$log"
    "$@" >"$log" 2>&1 &
    daemon=$!
}
# Waits until the daemon has drained. Sets $exit_status.
stop_daemon() {
    exit_status=0
    kill -TERM "$daemon" 2>/dev/null
    wait "$daemon" || exit_status=$?
}
