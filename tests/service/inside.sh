#!/bin/bash
# Runs inside the booted tree: what an operator does with the service, and what may happen to it.
# Prints one TAP line a fact; check.sh counts them.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. ./tap.sh
. ./service.sh

readonly load=120 # jobs, a few seconds for two workers
readonly dropins=/run/systemd/system/gpuimgd.service.d

# ---- chapters ------------------------------------------------------------------------------------

installation() {
    chapter "installation"
    check "systemd-analyze verify finds nothing to say about the unit" verify_quietly
    check "the user and group gpuimgd exist" getent passwd gpuimgd
    check "in belongs to root and group gpuimgd, which may write to it" \
        equal "$(stat -c '%U:%G %a' $in)" "root:gpuimgd 2775"
    check "out belongs to gpuimgd" equal "$(stat -c '%U:%G %a' $out)" "gpuimgd:gpuimgd 755"
    check "the service can be enabled" systemctl enable --quiet "$unit"
    check "and is" equal "$(systemctl is-enabled "$unit")" enabled
}
verify_quietly() {
    local output
    output=$(systemd-analyze verify --man=no "$unit" 2>&1) || { echo "$output"; return 1; }
    equal "$output" ""
}

first_start() {
    chapter "start"
    # Redis by name, so that the name is looked up under the unit's restrictions. Few workers, so
    # that work is left when the daemon is interrupted, also on a fast machine.
    printf 'redis = localhost:6379\nworkers = 2\ninflight = 8\n' >$conf_d/10-check.conf
    echo 'metrics_listen = 9464' >$conf_d/30-metrics.conf
    mark
    check "systemctl start returns when the daemon is READY" \
        systemctl start redis-server.service "$unit"
    check "the service is active" is_active
    check "systemctl status shows a line of the daemon's own" test -n "$(property StatusText)"
    echo "    StatusText=$(property StatusText)"
    check "it answers over HTTP on the loopback" has "$(http_get 127.0.0.1 9464 /healthz)" " 200 OK"
    check "it runs as gpuimgd" equal "$(stat -c %U "/proc/$(main_pid)")" gpuimgd
}
http_get() { # address port path
    exec 4<>"/dev/tcp/$1/$2" && printf 'GET %s HTTP/1.0\r\n\r\n' "$3" >&4 && cat <&4
    exec 4>&-
}

confinement() {
    local pid
    chapter "confinement"
    pid=$(main_pid)
    check "no capability, no new privileges, system calls filtered" confined "$pid"
    check "the daemon sees its input folder read-only" \
        not nsenter --target "$pid" --mount touch $in/written
    check "and its output folder writable" \
        nsenter --target "$pid" --mount rmdir "$(mktemp -d $out/check.XXXXXX)"
    check "the NVIDIA devices are allowed" has "$(property DeviceAllow)" "char-nvidia* rw"
}
confined() {
    local facts
    facts=$(grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$1/status" | tr -d '\t\n')
    equal "$facts" "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2"
}

jobs() {
    local answer
    chapter "jobs"
    # As a member of the group would, with a strict umask.
    (umask 027 && cp small.jpg large.jpg $in/)

    push '{"id":"edges","input":"small.jpg","output":"edges.png","ops":["grayscale","sobel"]}'
    answer=$(result)
    echo "    $answer"
    check "a job is done" has "$answer" '"status":"done"'
    # Without jobs, all that follows would only wait for its time limits.
    [ -n "$answer" ] || { journal; exit 1; }
    check "its result names the job" has "$answer" '"id":"edges"'
    check "and the engine" grep -E '"engine":"(cpu|cuda:[0-9]+)"' <<<"$answer"
    check "the output is there, gpuimgd's own and readable for all" \
        equal "$(stat -c '%U:%G %a' $out/edges.png)" "gpuimgd:gpuimgd 644"
    check "and is a PNG" begins_with 89504e470d0a1a0a $out/edges.png

    cp $out/edges.png $in/
    push '{"id":"back","input":"edges.png","output":"deep/er/back.jpg","ops":[]}'
    check "a result serves as the next input, new folders are made" \
        has "$(result)" '"path":"deep/er/back.jpg"'
    check "and is a JPEG" begins_with ffd8ff $out/deep/er/back.jpg

    push '{"id":"typo","input":"small.jpg","output":"x.png","ops":["sobell"]}'
    answer=$(result)
    echo "    $answer"
    check "a job with a typing mistake fails with unknown_op" has "$answer" '"code":"unknown_op"'
    push '{"id":"away","input":"../../../etc/passwd","output":"x.png","ops":[]}'
    check "a path out of the input folder fails with path_refused" \
        has "$(result)" '"code":"path_refused"'
    push '{"id":"none","input":"none.jpg","output":"x.png","ops":[]}'
    check "a missing input fails with input_missing" has "$(result)" '"code":"input_missing"'
}

# An idle daemon writes no stats lines.
busy_and_logged() { # pattern
    push '{"input":"none.jpg","output":"x.png"}'
    result >/dev/null
    logged "$1"
}

signals() {
    local pid answer
    chapter "reload and signals"
    pid=$(main_pid)

    mark
    check "systemctl kill -s USR1 is accepted" systemctl kill -s USR1 "$unit"
    check "and brings a stats line at once" within 3 logged '^stats interval_s='

    mark
    echo "stats_interval_s = 0.5" >$conf_d/20-check.conf
    check "systemctl reload accepts a good file" systemctl reload "$unit"
    check "the new stats interval is in force" within 5 busy_and_logged '^stats interval_s=0\.5'

    mark
    echo "stats_interval_s = soon" >$conf_d/20-check.conf
    check "systemctl reload refuses a broken file" not systemctl reload "$unit"
    check "and says which value" within 5 logged 'stats_interval_s.*soon|soon.*stats_interval_s'
    mark
    check "the daemon itself, sent SIGHUP, refuses it too" systemctl kill -s HUP "$unit"
    check "says which value" within 5 logged 'stats_interval_s.*soon|soon.*stats_interval_s'
    mark
    check "and runs on as before" within 5 busy_and_logged '^stats interval_s=0\.5'
    check "in the same process" equal "$(main_pid)" "$pid"
    push '{"id":"still","input":"small.jpg","output":"still.png","ops":["sobel"]}'
    check "which still does jobs" has "$(result)" '"status":"done"'

    echo "stats_interval_s = 5" >$conf_d/20-check.conf
    check "systemctl reload accepts the mended file" systemctl reload "$unit"
    check "through all of it the process stays" equal "$(main_pid)" "$pid"
    check "and systemd has not restarted it" equal "$(property NRestarts)" 0
}

restart() {
    local pid
    chapter "restart"
    pid=$(main_pid)
    echo 'metrics_listen = unix:/run/gpuimgd/http' >$conf_d/30-metrics.conf
    check "systemctl restart works" systemctl restart "$unit"
    check "HTTP is on a socket now, for the group" \
        equal "$(stat -c '%U:%G %a %F' /run/gpuimgd/http)" "gpuimgd:gpuimgd 660 socket"
    check "another process runs" not equal "$(main_pid)" "$pid"
    check "the service is active" is_active
}

killed() {
    local pid start
    chapter "kill -9 under load"
    pid=$(main_pid)
    redis-cli DEL gpuimgd:results >/dev/null
    push_many killed $load
    check "work has begun" within 20 results_at_least 3
    check "work is left" test "$(redis-cli LLEN gpuimgd:results)" -lt $load
    mark
    kill -KILL "$pid"
    start=$(seconds)
    check "systemd restarts the daemon" within 20 restarted "$pid"
    echo "    after $(since "$start") s"
    check "the new one takes the jobs of the old one back at once" \
        within 5 logged '[1-9][0-9]* jobs? .*went back to the queue'
    check "all jobs end" within 120 results_at_least $load
    echo "    $(since "$start") s after the kill"
    sleep 0.5
    check "each with one result, status done, and its output" results_complete killed $load
    check "nothing is left in the queue, no lease, no temporary file" within 10 no_leftovers
}

stop_under_load() {
    local start took answered
    chapter "stop under load"
    redis-cli DEL gpuimgd:results >/dev/null
    push_many stopped $load
    check "work has begun" within 20 results_at_least 3
    mark
    start=$(seconds)
    check "systemctl stop succeeds" systemctl stop "$unit"
    took=$(since "$start")
    answered=$(redis-cli LLEN gpuimgd:results)
    echo "    it took $took s; $answered jobs are answered, $(redis-cli LLEN gpuimgd:jobs) wait"
    check "within drain_timeout_s" less "$took" 25
    check "the daemon was at work and says that it drains" \
        logged 'draining, [1-9][0-9]* jobs? in flight'
    check "its exit status is 0" equal "$(property ExecMainCode)/$(property ExecMainStatus)" 1/0
    check "systemd calls that a success" equal "$(property Result)" success
    check "no lease is left" equal "$(redis-cli ZCARD gpuimgd:lease)" 0
    check "what was not answered still waits" \
        equal $((answered + $(redis-cli LLEN gpuimgd:jobs))) $load
    check "no temporary file is left" equal "$(find $out -name '*.tmp' | wc -l)" 0
    check "the next start works" systemctl start "$unit"
    check "and all jobs end" within 120 results_at_least $load
    sleep 0.5
    check "each with one result, status done, and its output" results_complete stopped $load
}

broken_configuration() {
    chapter "start with a broken configuration"
    systemctl stop "$unit"
    start_is_refused "workers = many" 'workers.*many|many.*workers'
    start_is_refused "redis = rediss://redis.example.com:6380" 'rediss://.*TLS.*stunnel'
    start_is_refused "input_root = $in/missing" 'input_root.*missing'
}
start_is_refused() { # line of the configuration, what the journal shall say
    echo "$1" >$conf_d/20-check.conf
    mark
    check "with $1, systemctl start fails" not systemctl start "$unit"
    check "with exit status 78" equal "$(property ExecMainStatus)" 78
    check "the journal says why" logged "$2"
    check "systemctl status, too" grep -E "$2" <<<"$(property StatusText)"
    sleep 3
    check "and systemd does not try again" equal "$(property ActiveState)" failed
    rm $conf_d/20-check.conf
    systemctl reset-failed "$unit"
}

watchdog() {
    local pid
    chapter "watchdog"
    mkdir -p $dropins
    printf '[Service]\nWatchdogSec=2\nTimeoutAbortSec=1\n' >$dropins/watchdog.conf
    systemctl daemon-reload
    check "the daemon starts with a watchdog of 2 s" systemctl start "$unit"
    pid=$(main_pid)
    mark
    sleep 5
    check "and feeds it" equal "$(main_pid)" "$pid"
    push_many frozen $load
    check "work has begun" within 20 results_at_least 3
    check "work is left" test "$(redis-cli LLEN gpuimgd:results)" -lt $load
    kill -STOP "$pid"
    check "frozen, it is replaced" within 20 restarted "$pid"
    check "because of the watchdog" logged "Watchdog timeout"
    check "its jobs end" within 120 results_at_least $load
    check "each with one result" results_complete frozen $load
    systemctl stop "$unit"
    rm $dropins/watchdog.conf
    systemctl daemon-reload
}

password() {
    chapter "a Redis password as a systemd credential"
    redis-cli CONFIG SET requirepass "open sesame" >/dev/null
    export REDISCLI_AUTH="open sesame"
    (umask 077 && echo "open barley" >/etc/gpuimgd/redis-password)
    printf '%s\n' "redis_password_file = /run/credentials/$unit/redis-password" \
        "auth_retry_s = 0.5" >$conf_d/20-check.conf
    mkdir -p $dropins
    printf '[Service]\nLoadCredential=redis-password:/etc/gpuimgd/redis-password\n' \
        >$dropins/password.conf
    systemctl daemon-reload
    push '{"id":"secret","input":"small.jpg","output":"secret.png","ops":["sobel"]}'

    mark
    check "with a wrong one the service starts, to wait for a better one" systemctl start "$unit"
    check "and says what is wrong" within 10 logged 'WRONGPASS.*password'
    check "in systemctl status, too" within 10 status_says WRONGPASS
    check "but not the password" not logged 'barley'
    sleep 2
    check "the job waits" equal "$(redis-cli LLEN gpuimgd:jobs)" 1

    (umask 077 && echo "open sesame" >/etc/gpuimgd/redis-password)
    mark
    check "with the right one the service starts" systemctl restart "$unit"
    check "and does the job" has "$(result)" '"status":"done"'
    check "which nobody else can read" \
        equal "$(stat -c '%U %a' "/run/credentials/$unit/redis-password")" "gpuimgd 400"
    check "it stops" systemctl stop "$unit"
    check "with success" equal "$(property Result)" success
    rm $conf_d/20-check.conf $dropins/password.conf
    systemctl daemon-reload
    redis-cli CONFIG SET requirepass "" >/dev/null
    unset REDISCLI_AUTH
}
status_says() { has "$(property StatusText)" "$1"; }

# The list that tests/tools/confine is made of, where systemd is the one that it was made from.
list_of_calls() {
    chapter "the system calls that the unit allows"
    if [ "$(systemctl --version | awk 'NR == 1 { print $2 }')" != 252 ]; then
        echo "ok - the tests' list is systemd's # SKIP it was made from systemd 252"
        return
    fi
    check "the tests' list is systemd's @system-service without @privileged" \
        diff <(calls_of @system-service | grep -vxFf <(calls_of @privileged)) system_service.calls
}
calls_of() { # set: its calls, those of the sets in it among them
    systemd-analyze syscall-filter "$1" | sed -n 's/^    //p' | while read -r word; do
        case $word in
        '#'*) ;;
        @*) calls_of "$word" ;;
        *) echo "$word" ;;
        esac
    done | LC_ALL=C sort -u
}

main() {
    mark
    installation
    first_start
    confinement
    jobs
    signals
    restart
    killed
    stop_under_load
    broken_configuration
    watchdog
    password
    list_of_calls
    chapter "systemd-analyze security"
    systemd-analyze security --no-pager "$unit" | tail -1
    echo "end of the transcript"
}

trap 'journalctl --sync; journalctl -u "$unit" -o short-iso --no-pager >journal' EXIT
main
