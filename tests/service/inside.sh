#!/bin/bash
# Runs inside the booted tree: an operator's actions on the service, and failures. Prints one TAP
# line per check; check.sh counts them.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
. ./tap.sh
. ./service.sh

readonly load=120 # jobs, a few seconds for two workers
readonly dropins=/run/systemd/system/gpuimgd.service.d

# ---- chapters ------------------------------------------------------------------------------------

installation() {
    chapter "installation"
    check "systemd-analyze verify accepts the unit" verify_quietly
    check "the user and group gpuimgd exist" getent passwd gpuimgd
    check "in belongs to root and group gpuimgd, which may write to it" \
        equal "$(stat -c '%U:%G %a' $in)" "root:gpuimgd 2775"
    check "out belongs to gpuimgd" equal "$(stat -c '%U:%G %a' $out)" "gpuimgd:gpuimgd 755"
    check "the service can be enabled" systemctl enable --quiet "$unit"
    check "the service is enabled" equal "$(systemctl is-enabled "$unit")" enabled
}
verify_quietly() {
    local output
    output=$(systemd-analyze verify --man=no "$unit" 2>&1) || { echo "$output"; return 1; }
    equal "$output" ""
}

first_start() {
    chapter "start"
    # Redis by name, so that the name is resolved under the unit's restrictions. Few workers, so
    # that jobs are left when the daemon is interrupted, also on a fast machine.
    printf 'redis = localhost:6379\nworkers = 2\ninflight = 8\n' >$conf_d/10-check.conf
    echo 'metrics_listen = 9464' >$conf_d/30-metrics.conf
    mark
    check "systemctl start returns when the daemon is ready" \
        systemctl start redis-server.service "$unit"
    check "the service is active" is_active
    check "systemctl status shows the daemon's status text" test -n "$(property StatusText)"
    echo "    StatusText=$(property StatusText)"
    check "the daemon serves HTTP on the loopback" has "$(http_get 127.0.0.1 9464 /healthz)" " 200 OK"
    check "the daemon runs as gpuimgd" equal "$(stat -c %U "/proc/$(main_pid)")" gpuimgd
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
    check "the output folder is writable" \
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
    # Pushes like a member of the group with a strict umask.
    (umask 027 && cp small.jpg large.jpg $in/)

    push '{"id":"edges","input":"small.jpg","output":"edges.png","ops":["grayscale","sobel"]}'
    answer=$(result)
    echo "    $answer"
    check "a job is done" has "$answer" '"status":"done"'
    # Without a result the checks below would only wait for their time limits.
    [ -n "$answer" ] || { journal; exit 1; }
    check "its result names the job" has "$answer" '"id":"edges"'
    check "its result names the engine" grep -E '"engine":"(cpu|cuda:[0-9]+)"' <<<"$answer"
    check "the output belongs to gpuimgd and is readable for all" \
        equal "$(stat -c '%U:%G %a' $out/edges.png)" "gpuimgd:gpuimgd 644"
    check "the output is a PNG" begins_with 89504e470d0a1a0a $out/edges.png

    cp $out/edges.png $in/
    push '{"id":"back","input":"edges.png","output":"deep/er/back.jpg","ops":[]}'
    check "an output is the next input, and new folders are created" \
        has "$(result)" '"path":"deep/er/back.jpg"'
    check "the second output is a JPEG" begins_with ffd8ff $out/deep/er/back.jpg

    if [ -x /usr/libexec/gpuimgd/gpuimgd-codec ]; then
        push '{"id":"write","input":"small.jpg","output":"small.avif","ops":[]}'
        check "the codec process writes an AVIF" has "$(result)" '"status":"done"'
        cp $out/small.avif $in/
        push '{"id":"read","input":"small.avif","output":"avif.png","ops":[]}'
        check "the codec process reads an AVIF" has "$(result)" '"status":"done"'
    fi

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

# An idle daemon logs no stats lines.
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
    check "SIGUSR1 logs a stats line immediately" within 3 logged '^stats interval_s='

    mark
    echo "stats_interval_s = 0.5" >$conf_d/20-check.conf
    check "systemctl reload accepts a valid file" systemctl reload "$unit"
    check "the new stats interval is active" within 5 busy_and_logged '^stats interval_s=0\.5'

    mark
    echo "stats_interval_s = soon" >$conf_d/20-check.conf
    check "systemctl reload refuses an invalid file" not systemctl reload "$unit"
    check "the log names the value" within 5 logged 'stats_interval_s.*soon|soon.*stats_interval_s'
    mark
    check "SIGHUP is accepted" systemctl kill -s HUP "$unit"
    check "the daemon refuses the file, too, and logs the value" within 5 logged 'stats_interval_s.*soon|soon.*stats_interval_s'
    mark
    check "the daemon continues with the old interval" within 5 busy_and_logged '^stats interval_s=0\.5'
    check "the process is the same" equal "$(main_pid)" "$pid"
    push '{"id":"still","input":"small.jpg","output":"still.png","ops":["sobel"]}'
    check "the process still runs jobs" has "$(result)" '"status":"done"'

    echo "stats_interval_s = 5" >$conf_d/20-check.conf
    check "systemctl reload accepts the corrected file" systemctl reload "$unit"
    check "the process is still the same" equal "$(main_pid)" "$pid"
    check "systemd has not restarted it" equal "$(property NRestarts)" 0
}

restart() {
    local pid
    chapter "restart"
    pid=$(main_pid)
    echo 'metrics_listen = unix:/run/gpuimgd/http' >$conf_d/30-metrics.conf
    check "systemctl restart works" systemctl restart "$unit"
    check "HTTP is on a unix socket for the group" \
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
    check "the new daemon takes over the old one's leases immediately" \
        within 5 logged '[1-9][0-9]* jobs? .*went back to the queue'
    check "all jobs end" within 120 results_at_least $load
    echo "    $(since "$start") s after the kill"
    sleep 0.5
    check "each with one result, status done, and its output" results_complete killed $load
    check "no queued job, no lease and no temporary file is left" within 10 no_leftovers
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
    echo "    after $took s $answered jobs are done, $(redis-cli LLEN gpuimgd:jobs) wait"
    check "it takes less than drain_timeout_s" less "$took" 25
    check "the daemon logs the drain with jobs in flight" \
        logged 'draining, [1-9][0-9]* jobs? in flight'
    check "its exit status is 0" equal "$(property ExecMainCode)/$(property ExecMainStatus)" 1/0
    check "systemd's result is success" equal "$(property Result)" success
    check "no lease is left" equal "$(redis-cli ZCARD gpuimgd:lease)" 0
    check "the other jobs still wait" \
        equal $((answered + $(redis-cli LLEN gpuimgd:jobs))) $load
    check "no temporary file is left" equal "$(find $out -name '*.tmp' | wc -l)" 0
    check "the next start works" systemctl start "$unit"
    check "all jobs end" within 120 results_at_least $load
    sleep 0.5
    check "each with one result, status done, and its output" results_complete stopped $load
}

broken_configuration() {
    chapter "start with a broken configuration"
    systemctl stop "$unit"
    start_is_refused "workers = many" 'workers.*many|many.*workers'
    start_is_refused "redis = http://redis.example.com:6380" 'is another URL; write.*rediss://'
    start_is_refused "input_root = $in/missing" 'input_root.*missing'
}
start_is_refused() { # line of the configuration, expected text in the journal
    echo "$1" >$conf_d/20-check.conf
    mark
    check "with $1, systemctl start fails" not systemctl start "$unit"
    check "the exit status is 78" equal "$(property ExecMainStatus)" 78
    check "the journal has the reason" logged "$2"
    check "systemctl status has the reason" grep -E "$2" <<<"$(property StatusText)"
    sleep 3
    check "systemd does not restart it" equal "$(property ActiveState)" failed
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
    check "the daemon notifies the watchdog" equal "$(main_pid)" "$pid"
    push_many frozen $load
    check "work has begun" within 20 results_at_least 3
    check "work is left" test "$(redis-cli LLEN gpuimgd:results)" -lt $load
    kill -STOP "$pid"
    check "a stopped daemon is replaced" within 20 restarted "$pid"
    check "the journal names the watchdog" logged "Watchdog timeout"
    check "all jobs end" within 120 results_at_least $load
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
    check "with a wrong password the service starts, and waits" systemctl start "$unit"
    check "the log has the error" within 10 logged 'WRONGPASS.*password'
    check "systemctl status has the error" within 10 status_says WRONGPASS
    check "the log does not have the password" not logged 'barley'
    sleep 2
    check "the job waits" equal "$(redis-cli LLEN gpuimgd:jobs)" 1

    (umask 077 && echo "open sesame" >/etc/gpuimgd/redis-password)
    mark
    check "with the right password the service starts" systemctl restart "$unit"
    check "the job is done" has "$(result)" '"status":"done"'
    check "only the service can read the password" \
        equal "$(stat -c '%U %a' "/run/credentials/$unit/redis-password")" "gpuimgd 400"
    check "the service stops" systemctl stop "$unit"
    check "its result is success" equal "$(property Result)" success
    rm $conf_d/20-check.conf $dropins/password.conf
    systemctl daemon-reload
    redis-cli CONFIG SET requirepass "" >/dev/null
    unset REDISCLI_AUTH
}
status_says() { has "$(property StatusText)" "$1"; }

# Two daemons of the template on this host: they share the queue and the folders of images.
instances() {
    local name one other
    chapter "two instances: gpuimgd@gpu0 and gpuimgd@gpu1"
    systemctl stop "$unit"
    rm -f $conf_d/30-metrics.conf
    for name in gpu0 gpu1; do
        printf '%s\n' "engine = cpu" "metrics_listen = unix:/run/gpuimgd-$name/http" \
            "stats_log = /var/log/gpuimgd/$name/stats" >/etc/gpuimgd/gpuimgd-$name.conf
    done
    check "systemd-analyze verify accepts an instance" equal "$(systemd-analyze verify --man=no gpuimgd@gpu0.service 2>&1)" ""
    check "both start" systemctl start gpuimgd@gpu0 gpuimgd@gpu1
    one=$(instance_pid gpu0) other=$(instance_pid gpu1)
    check "they are two processes" test "$one" -gt 0 -a "$other" -gt 0 -a "$one" != "$other"
    check "each has its own socket" test -S /run/gpuimgd-gpu0/http -a -S /run/gpuimgd-gpu1/http
    redis-cli DEL gpuimgd:results >/dev/null
    push_many instances $load
    check "work has begun" within 20 results_at_least 20
    check "each has its own stats log" within 20 test -s /var/log/gpuimgd/gpu0/stats -a -s /var/log/gpuimgd/gpu1/stats
    check "both work" within 20 equal_daemons 2
    kill -KILL "$one"
    check "systemd restarts the killed one" within 20 instance_restarted gpu0 "$one"
    check "all jobs end" within 120 results_at_least $load
    sleep 0.5
    check "each with one result, status done, and its output" results_complete instances $load
    check "no queued job, no lease and no temporary file is left" within 10 no_leftovers
    check "the other is the same process" equal "$(instance_pid gpu1)" "$other"
    check "one stops" systemctl stop gpuimgd@gpu0
    check "the other keeps its folders" test -S /run/gpuimgd-gpu1/http -a -d /var/log/gpuimgd/gpu0
    push '{"id":"alone","input":"small.jpg","output":"alone.png","ops":["sobel"]}'
    check "the other runs jobs" has "$(result)" '"status":"done"'
    instances_collide
    check "all stop by their pattern" systemctl stop 'gpuimgd@*'
    check "none is left" equal "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -cx gpuimgd)" 0
    rm /etc/gpuimgd/gpuimgd-gpu?.conf
    systemctl reset-failed
}
instance_show() { systemctl show --property="$2" --value "gpuimgd@$1"; }
instance_pid() { instance_show "$1" MainPID; }
instance_restarted() { # name, pid of the killed process
    equal "$(instance_show "$1" ActiveState)" active && not equal "$(instance_pid "$1")" "$2"
}
# Results are of so many daemons.
equal_daemons() {
    equal "$(redis-cli --raw LRANGE gpuimgd:results 0 -1 | grep -o '"daemon":"[^"]*"' | sort -u | wc -l)" "$1"
}
# What both cannot have is refused, and the log says why.
instances_collide() {
    sed -i 's|^metrics_listen.*|metrics_listen = 9464|' /etc/gpuimgd/gpuimgd-gpu?.conf
    check "one listens on a port" systemctl restart gpuimgd@gpu1
    instance_is_refused gpu0 'metrics_listen.*9464.*Address already in use'
    instance_is_refused none 'gpuimgd-none.conf'
}
instance_is_refused() { # name, expected text in the journal
    check "gpuimgd@$1 does not start" not systemctl start "gpuimgd@$1"
    check "its exit status is 78" equal "$(instance_show "$1" ExecMainStatus)" 78
    check "its journal has the reason" instance_logged "$1" "$2"
}
instance_logged() {
    journalctl --sync
    journalctl -q -u "gpuimgd@$1" -o cat --no-pager | grep -E -- "$2" >/dev/null ||
        { journalctl -q -u "gpuimgd@$1" -o cat --no-pager | tail -12; false; }
}

# Compares the list of tests/tools/confine with systemd's, if that is the list's version.
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
    instances
    list_of_calls
    chapter "systemd-analyze security"
    systemd-analyze security --no-pager "$unit" | tail -1
    echo "end of the transcript"
}

trap 'journalctl --sync; journalctl -u "$unit" -o short-iso --no-pager >journal' EXIT
main
