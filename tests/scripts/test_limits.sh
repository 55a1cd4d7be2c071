#!/bin/bash
# Runs the daemon in a real cgroup with a memory limit and a CPU quota: `auto` follows them, and jobs
# stay below the limit. Skipped if no cgroup can be made here. tests/scripts/test_limits.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
readonly build=${1:-build/release} jobs=12 gib=$((1 << 30))
need_tools redis-server redis-cli cjpeg
make_world limits
groups=()

# Makes a group below FOLDER. Sets $group.
make_group() {
    group=$1/gpuimgd-limits-$$
    [ -d "$1" ] && mkdir "$group" && groups+=("$group")
}
# The folder of this process's group in v1.
own_group() { # CONTROLLER
    sed -nE "s|^[0-9]+:([^:]*,)?$1(,[^:]*)?:/?|/sys/fs/cgroup/$1/|p" /proc/self/cgroup
}
set_limits() { # BYTES: of memory; and 1.5 CPUs
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        make_group /sys/fs/cgroup && echo "$1" >"$group/memory.max" &&
            echo "150000 100000" >"$group/cpu.max"
    else
        make_group "$(own_group memory)" && echo "$1" >"$group/memory.limit_in_bytes" &&
            make_group "$(own_group cpu)" && echo 100000 >"$group/cpu.cfs_period_us" &&
            echo 150000 >"$group/cpu.cfs_quota_us"
    fi
} 2>/dev/null
remove_groups() {
    local one
    for one in "${groups[@]}"; do
        within 10 rmdir "$one"
    done
    groups=()
}
leave_limits() {
    leave_world
    remove_groups
}

start_daemon() {
    # shellcheck disable=SC2016 # the shell in the group expands it
    run_daemon bash -c 'for group in $1; do echo $$ >"$group/cgroup.procs" || exit; done; shift; exec "$@"' \
        - "${groups[*]}" "$build/gpuimgd" -c /dev/null "--redis=127.0.0.1:$port" --engine=cpu \
        "--input_root=$dir/in" "--output_root=$dir/out" "$@"
}
says() { grep -F -- "$1" "$log" || { cat "$log"; false; }; }
push_jobs() {
    local i
    for ((i = 0; i < jobs; i++)); do
        ask_redis LPUSH gpuimgd:jobs "{\"id\":\"$i\",\"input\":\"a.jpg\",\"output\":\"$i.png\",\"ops\":[\"sobel\"]}"
    done
}
all_done() { equal "$(ask_redis LLEN gpuimgd:results)" $jobs && not grep -q '"failed"\|"dead"' <(ask_redis LRANGE gpuimgd:results 0 -1); }
below() { # BYTES: the most that the daemon had resident
    less "$(awk '/^VmHWM/ { print $2 * 1024 }' "/proc/$daemon/status")" "$1"
}

limits_1g() {
    start_daemon
    check "the daemon starts below 1 GiB" within 60 says "jobs from"
    check "the log names the memory limit" says " limits memory to 1024M: pinned_bytes = 128M, host_bytes = 128M, workers = 1"
    check "the log names the quota of 1.5 CPUs" says " limits CPUs to 1: workers = 1"
    check "1 GiB is enough" not says "raise the memory limit"
    check "jobs are pushed" push_jobs
    check "they are done" within 120 all_done
    check "the daemon stays below the limit" below $gib
    stop_daemon
    check "it drains" equal "$exit_status" 0
}
limits_256m() {
    start_daemon --pinned_bytes=64M
    check "the daemon starts below 256 MiB" within 60 says "jobs from"
    check "a warning says what to do" says "the daemon may use 256M of memory, but 1 workers, pinned_bytes = 64M, host_bytes = 128M"
    stop_daemon
}

main() {
    trap leave_limits EXIT
    if ! set_limits $gib; then
        echo "ok - auto follows the limits of a cgroup # SKIP no cgroup with limits can be made here"
        return 0
    fi
    mkdir "$dir/in" "$dir/out"
    awk 'BEGIN { printf "P3\n900 700\n255\n"
        for (i = 0; i < 900 * 700; i++) printf "%d %d %d\n", i % 256, i % 199, i % 101 }' |
        cjpeg -quality 90 -outfile "$dir/in/a.jpg"
    start_redis "$dir" --port || return 1
    limits_1g
    remove_groups
    set_limits $((gib / 4))
    limits_256m
    [ "$failures" -eq 0 ]
}
main
