#!/bin/bash
# Tests the container image: tests/service/container.sh (make check-container, as root)
#
# Builds conf/deploy/Containerfile from the packages in build/deb, with podman. Its base is a Debian
# tree made by debootstrap, so that no registry is needed. The container runs like in production: not
# root, on a read-only file system, without capabilities and without a network. Its Redis is a real
# one with a password, on a unix socket. Images and containers are kept in build/service/containers
# and removed at the end.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/service/tree.sh
. tests/service/tap.sh
. tests/service/pictures.sh
. tests/redis.sh

readonly debs=build/deb work=$PWD/build/service load=120
readonly image=localhost/gpuimgd-check name=gpuimgd-check-$$
readonly password="open sesame"
# Like terminationGracePeriodSeconds: more than drain_timeout_s.
readonly grace_s=35
dir=$(mktemp -d /tmp/gpuimgd-container.XXXXXX)
in=$dir/in out=$dir/out redis=""
. tests/service/service.sh
export REDISCLI_AUTH=$password

cleanup() {
    if [ ${#engine[@]} -gt 0 ]; then
        "${engine[@]}" rm -f -a -t 0 >/dev/null 2>&1 || true
        "${engine[@]}" rmi -f -a >/dev/null 2>&1 || true
        rm -rf --one-file-system "$work/containers"
    fi
    [ -z "$redis" ] || { kill "$redis"; wait "$redis"; } 2>/dev/null || true
    rm -rf "$dir"
}
engine=()
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

redis-cli() { command redis-cli -s "$dir/redis/redis.sock" "$@"; }

# ---- the image -----------------------------------------------------------------------------------

# podman's defaults are above the hard limits of a test that runs in a container itself.
limits=(--ulimit nofile=4096:4096 --ulimit nproc=4096:4096)

# Sets `engine`: podman with the first storage driver and OCI runtime that can run a program here.
# crun refuses hybrid control groups; overlay needs a file system that supports it.
choose_engine() {
    local driver runtime tried=()
    for driver in overlay vfs; do
        rm -rf --one-file-system "$work/containers"
        engine=(podman --root "$work/containers/root" --runroot "$work/containers/run"
            --storage-driver "$driver")
        tar -C "$work/container-base" -c . | "${engine[@]}" import -q - "$image:base" \
            >"$dir/import.log" 2>&1 || { tried+=("$driver: $(tail -1 "$dir/import.log")"); continue; }
        for runtime in crun runc; do
            command -v $runtime >/dev/null || continue
            if "${engine[@]}" --runtime $runtime run --rm --network=none "${limits[@]}" \
                "$image:base" true >"$dir/run.log" 2>&1; then
                engine+=(--runtime "$runtime")
                say "podman uses $driver and $runtime"
                return 0
            fi
            tried+=("$driver, $runtime: $(tail -1 "$dir/run.log")")
        done
    done
    printf '%s\n' "${tried[@]}" >&2
    skip "podman cannot run containers here"
}

build_image() {
    say "building the image"
    "${engine[@]}" build --format docker --network host "${limits[@]}" --no-cache \
        --build-arg "BASE=$image:base" -f conf/deploy/Containerfile -t "$image" "$debs" \
        >"$dir/build.log" 2>&1 || { tail -20 "$dir/build.log" >&2; die "the image cannot be built"; }
}

image_says() { "${engine[@]}" image inspect --format "{{$1}}" "$image"; }

check_image() {
    chapter "image"
    check "the user is a number, not root" equal "$(image_says .Config.User)" 10001:10001
    check "SIGTERM stops it" equal "$(image_says .Config.StopSignal)" SIGTERM
    check "no package of the build is left" equal \
        "$(in_image sh -c 'ls /tmp; ls -A /var/lib/apt/lists')" ""
    check "the programs are those of the packages" has "$(in_image gpuimgd -V)" \
        "gpuimgd $(sed -n 's/^VERSION = //p' Makefile)"
    check "gpuimgctl is there, for kubectl exec" in_image gpuimgctl -V
    echo "    $(($(image_says .Size) / 1048576)) MiB; the base: $(du -sm "$work/container-base" | cut -f1) MiB"
}
in_image() {
    "${engine[@]}" run --rm --network=none --no-healthcheck "${limits[@]}" \
        --entrypoint "$1" "$image" "${@:2}"
}

# ---- the container -------------------------------------------------------------------------------

# The user of the image needs the folders and the password.
prepare() {
    mkdir "$in" "$out" "$dir/redis" "$dir/conf.d" "$dir/secret"
    chmod 0755 "$dir" "$in" "$dir/conf.d"
    make_pictures "$in"
    chown 10001:10001 "$out"
    (umask 077 && echo "$password" >"$dir/secret/redis-password")
    chown -R 10001:10001 "$dir/secret"
    start_redis "$dir/redis" --port --requirepass "$password" --unixsocketperm 777
    chmod 0755 "$dir/redis"
    # Few workers leave jobs when the daemon is stopped. The short lease is for the kill below.
    cat >"$dir/conf.d/10-check.conf" <<END
redis = unix:/run/redis/redis.sock
redis_password_file = /run/secrets/redis-password
workers = 2
inflight = 8
lease_s = 3
renew_s = 0.5
reap_s = 1
stats_interval_s = 1
END
}
# run_container [PODMAN OPTION]...
run_container() {
    "${engine[@]}" run --detach --name "$name" "${limits[@]}" \
        --read-only --read-only-tmpfs=false --cap-drop=ALL --security-opt=no-new-privileges \
        --network=none --volume "$dir/redis:/run/redis" \
        --volume "$dir/secret/redis-password:/run/secrets/redis-password:ro" \
        --volume "$dir/conf.d:/etc/gpuimgd/conf.d:ro" --volume "$in:/var/lib/gpuimgd/in:ro" \
        "$@" "$image"
}
inside() { "${engine[@]}" exec "$name" "$@"; }
state() { "${engine[@]}" inspect --format "{{.State.$1}}" "$name"; }
is_in_state() { equal "$(state Status)" "$1"; }
log() { "${engine[@]}" logs "$name" 2>&1; }
logged() { log | grep -E -- "$1" >/dev/null || { log | tail -12; false; }; }
# The answer of a probe: the status line and the body.
get() { # path
    inside bash -c "exec 3<>/dev/tcp/127.0.0.1/9464; printf 'GET $1 HTTP/1.0\r\n\r\n' >&3; cat <&3" |
        tr -d '\r'
}
answers() { has "$(get "$1" | head -1)" " $2 "; }
queued() { redis-cli LLEN gpuimgd:jobs; }

start() {
    chapter "start: read-only, not root, no capability"
    check "it starts" run_container --volume "$out:/var/lib/gpuimgd/out"
    check "it is ready: /readyz" within 60 answers /readyz 200
    check "it is healthy: /healthz" answers /healthz 200
    check "HEALTHCHECK succeeds" "${engine[@]}" healthcheck run "$name"
    check "/metrics has the metrics" has "$(get /metrics)" gpuimgd_queue_jobs
    check "the daemon is process 1" equal "$(inside cat /proc/1/comm)" gpuimgd
    check "it runs as 10001" equal "$(inside stat -c %u:%g /proc/1)" 10001:10001
    check "no capability, no new privileges, system calls filtered" equal \
        "$(inside grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/1/status | tr -d '\t\n')" \
        "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2"
    check "only out can be written" equal "$(writable)" /var/lib/gpuimgd/out
    check "gpuimgctl status shows this daemon" has "$(inside gpuimgctl status)" "$(inside cat /proc/sys/kernel/hostname):1"
}
# Folders of the file system where the daemon's user can create a file.
writable() {
    inside bash -c 'for folder in / /etc /etc/gpuimgd /run /tmp /var/tmp /var/cache/gpuimgd \
        /var/lib/gpuimgd /var/lib/gpuimgd/in /var/lib/gpuimgd/out /var/log; do
        (: >"$folder/probe") 2>/dev/null && rm "$folder/probe" && echo "$folder"; done; true'
}

jobs_run() { # id
    local answer
    push '{"id":"'"$1"'","input":"small.jpg","output":"'"$1"'.png","ops":["grayscale","sobel"]}'
    answer=$(result)
    echo "    $answer"
    check "a job is done" has "$answer" '"status":"done"'
    check "its output is a PNG of the image's user" begins_with 89504e470d0a1a0a "$out/$1.png"
    check "its owner is the image's user" equal "$(stat -c %u:%g "$out/$1.png")" 10001:10001
}

readiness() {
    chapter "readiness"
    redis-cli SET gpuimgd:paused 1 >/dev/null
    check "a paused daemon is not ready" within 20 answers /readyz 503
    check "a paused daemon is healthy, so it is not restarted" answers /healthz 200
    redis-cli DEL gpuimgd:paused >/dev/null
    check "it is ready again" within 20 answers /readyz 200
}

stop_under_load() {
    local start took answered
    chapter "SIGTERM under load"
    push_many stopped $load
    check "work has begun" within 30 results_at_least 3
    start=$(seconds)
    check "podman stop" "${engine[@]}" stop -t $grace_s "$name"
    took=$(since "$start")
    answered=$(redis-cli LLEN gpuimgd:results)
    echo "    after $took s $answered jobs are done, $(queued) wait"
    check "it takes less than drain_timeout_s" less "$took" 25
    check "the exit status is 0" equal "$(state ExitCode)" 0
    check "the daemon drained with jobs in flight" logged 'SIGTERM: draining, [1-9][0-9]* jobs? in flight'
    check "all running jobs ended: none was given back" not logged 'giving back'
    check "no lease is left" equal "$(redis-cli ZCARD gpuimgd:lease)" 0
    check "the other jobs still wait" equal $((answered + $(queued))) $load
    check "some wait, so it was under load" test "$(queued)" -gt 0
    check "no temporary file is left" equal "$(find "$out" -name '*.tmp' | wc -l)" 0
}

restart() {
    local all
    chapter "restart"
    check "the same container starts again" "${engine[@]}" start "$name"
    check "all jobs end" within 120 results_at_least $load
    all=$(redis-cli --raw LRANGE gpuimgd:results 0 -1)
    check "no job was started twice" equal "$(grep -c '"attempt":1,' <<<"$all")" $load
    check "each with one result, status done, and its output" results_complete stopped $load
    check "no queued job, no lease and no temporary file is left" within 10 no_leftovers
    jobs_run restarted
}

# A new container has a new process namespace, so it cannot see that the old daemon is dead. It waits
# for the leases.
killed() {
    chapter "kill -9 under load, and a new container"
    push_many killed $load
    check "work has begun" within 30 results_at_least 3
    check "podman kill" "${engine[@]}" kill --signal KILL "$name"
    check "work was left" test "$(redis-cli LLEN gpuimgd:results)" -lt $load
    "${engine[@]}" rm -f "$name" >/dev/null 2>&1
    check "another container starts" run_container --volume "$out:/var/lib/gpuimgd/out"
    check "all jobs end" within 120 results_at_least $load
    sleep 0.5
    check "each with one result, status done, and its output" results_complete killed $load
    check "no queued job, no lease and no temporary file is left" within 40 no_leftovers
}

# Without the volume, outputs would be lost with the container, so the start must fail.
no_volume() {
    chapter "no volume for outputs"
    "${engine[@]}" rm -f -t $grace_s "$name" >/dev/null 2>&1
    check "podman run" run_container
    check "the container ends" within 30 is_in_state exited
    check "the exit status is 78" equal "$("${engine[@]}" wait "$name")" 78
    check "the log names the folder" logged 'output_root.*Read-only'
    log | tail -2 | sed 's/^/    /'
}

# Checked by the daemon of the image, which also warns of folders that do not exist.
kubernetes_config() {
    local said
    chapter "the ConfigMap of Kubernetes"
    if ! /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
        echo "ok - the image accepts it # SKIP there is no python3-yaml here"
        return
    fi
    mkdir "$dir/etc"
    /usr/bin/python3 -B tests/scripts/deploy.py config >"$dir/etc/gpuimgd.conf"
    said=$("${engine[@]}" run --rm --network=none --no-healthcheck "${limits[@]}" --read-only \
        --volume "$dir/etc:/etc/gpuimgd:ro" --volume "$out:/var/lib/gpuimgd/out" "$image" -t \
        --redis_password_file= 2>&1) || true
    check "the image accepts it" has "$said" "the configuration is good"
    check "its folders exist" not has "$said" warning
}

main() {
    need_root
    need_tools debootstrap debootstrap podman podman runc runc redis-server redis-server \
        cjpeg libjpeg-turbo-progs
    [ -n "$(find $debs -name 'gpuimgd_*.deb' 2>/dev/null)" ] ||
        die "no package in $debs; make check-container builds them"
    mkdir -p "$work"
    exec 9>"$work/container.lock"
    flock -n 9 || die "another test of the container is running here"
    make_base "$work/container-base" "$(host_codename)"
    give_apt "$work/container-base" "$(host_codename)"
    choose_engine
    build_image
    prepare
    {
        check_image
        start
        jobs_run first
        readiness
        stop_under_load
        restart
        killed
        no_volume
        kubernetes_config
    } > >(tee "$dir/transcript")
    wait $!
    echo
    echo "$(grep -c '^ok' "$dir/transcript") passed, $failures failed, 0 skipped"
    [ "$failures" -eq 0 ]
}
main
