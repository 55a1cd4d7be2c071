#!/bin/bash
# Proves the service in a real systemd: installs into a copy of a small Debian tree, boots it with
# systemd-nspawn, and lets inside.sh put the service through its life (as root).
#
# The tree without gpuimgd is kept in build/service, the copy is thrown away. Nothing of this
# machine's own systemd, Redis or network is touched. KEEP=1 keeps the copy, to look around in it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/service/tree.sh

readonly work=$PWD/build/service
readonly boot_seconds_max=${SERVICE_SECONDS_MAX:-420}
readonly variant=${VARIANT:-release}
readonly daemon=build/$variant/gpuimgd
copy="" nspawn=""

cleanup() {
    if [ -n "$nspawn" ] && kill -0 "$nspawn" 2>/dev/null; then
        # timeout hands this on, and kills what does not end within 10 s. The container's init dies
        # with nspawn, and everything in it with its init.
        kill -TERM "$nspawn" 2>/dev/null || true
        wait "$nspawn" 2>/dev/null || true
    fi
    if [ "${KEEP:-0}" = 1 ] && [ -n "$copy" ]; then
        say "kept: $copy"
    elif [ -n "$copy" ]; then
        rm -rf --one-file-system "$copy"
    fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The packages that own the libraries which the daemon is linked with, so that no list of names and
# versions must be kept here.
runtime_packages() {
    local library
    ldd "$daemon" | awk '$3 ~ /^\// { print $3 }' | while read -r library; do
        dpkg -S "$library" 2>/dev/null || dpkg -S "$(realpath "$library")" 2>/dev/null ||
            dpkg -S "/usr$library" 2>/dev/null || die "no package owns $library"
    done | sed 's/:.*//' | sort -u
}

# A picture with enough detail that a codec has work to do: picture WIDTH HEIGHT (PPM on stdout)
picture() {
    awk -v w="$1" -v h="$2" 'BEGIN {
        printf "P3\n%d %d\n255\n", w, h
        for (y = 0; y < h; y++) {
            for (x = 0; x < w; x++)
                printf "%d %d %d ", x * 255 / w, y * 255 / h,
                    (x * y / 7 + (x % 13) * (y % 11)) % 256
            print "" } }'
}

make_pictures() { # folder
    picture 320 240 | cjpeg -quality 90 -outfile "$1/small.jpg"
    picture 1200 900 | cjpeg -quality 90 -outfile "$1/large.jpg"
}

prepare() {
    local packages
    mapfile -t packages < <(runtime_packages)
    [ ${#packages[@]} -gt 0 ] || die "cannot tell the packages of $daemon's libraries"
    mkdir -p "$work"
    make_base "$work/base" systemd-sysv dbus redis-server redis-tools "${packages[@]}"
    copy=$(mktemp -d "$work/run.XXXXXX")
    copy_base "$work/base/." "$copy"
    make -s --no-print-directory install DESTDIR="$copy" prefix=/usr
    install -D -m 0755 tests/service/inside.sh "$copy/root/check/inside.sh"
    install -m 0644 tests/service/tap.sh tests/tools/system_service.calls "$copy/root/check/"
    install -m 0644 tests/service/gpuimgd-check.service "$copy/etc/systemd/system/"
    mkdir -p "$copy/etc/systemd/system/multi-user.target.wants"
    ln -s ../gpuimgd-check.service "$copy/etc/systemd/system/multi-user.target.wants/"
    # inside.sh starts these itself, in its own time.
    rm -f "$copy"/etc/systemd/system/*.wants/{redis-server,gpuimgd}.service \
        "$copy/etc/systemd/system/redis.service"
    [ -e "$copy/etc/hosts" ] || echo "127.0.0.1 localhost" >"$copy/etc/hosts"
    make_pictures "$copy/root/check"
    : >"$copy/root/check/transcript"
}

boot() {
    local status=0 tail
    # A network of its own: loopback only, so that a Redis on this machine is not in the way.
    timeout --kill-after=10 "$boot_seconds_max" \
        systemd-nspawn --boot --quiet --register=no --keep-unit --private-network \
        --machine="gpuimgd-check-$$" --directory="$copy" \
        </dev/null >"$copy/root/check/console" 2>&1 &
    nspawn=$!
    tail --lines=+1 --follow --sleep-interval=0.2 --pid="$nspawn" "$copy/root/check/transcript" &
    tail=$!
    wait "$nspawn" || status=$?
    nspawn=""
    wait "$tail"
    [ $status -ne 124 ] || say "the system was not done within $boot_seconds_max s"
    return $status
}

# As seen from outside, and by the systemd of this machine.
exposure_is_low() {
    systemd-analyze security --offline=true --threshold=15 --no-pager \
        --root="$copy" gpuimgd.service 2>/dev/null | tail -1
    systemd-analyze security --offline=true --threshold=15 --no-pager \
        --root="$copy" gpuimgd.service >/dev/null 2>&1
}

report() { # boot status
    local transcript=$copy/root/check/transcript passed failed skipped
    passed=$(grep -cE '^ok\b' "$transcript" || true)
    skipped=$(grep -cE '^ok\b.*# SKIP' "$transcript" || true)
    failed=$(grep -cE '^not ok\b' "$transcript" || true)
    passed=$((passed - skipped))

    printf '\n---- journalctl -u gpuimgd ----\n'
    cat "$copy/root/check/journal" 2>/dev/null || echo "(none was written)"
    printf -- '---- end of the journal ----\n\n'

    if exposure_is_low; then
        echo "ok - exposure by systemd-analyze security is at most 1.5"
        passed=$((passed + 1))
    else
        echo "not ok - exposure by systemd-analyze security is at most 1.5"
        failed=$((failed + 1))
    fi
    # A transcript that stops early is no success, however many lines of it say ok.
    if [ "$1" = 0 ] && grep -qxF "end of the transcript" "$transcript"; then
        echo "ok - the system ran to the end and powered itself off"
        passed=$((passed + 1))
    else
        echo "not ok - the system ran to the end and powered itself off (status $1)"
        failed=$((failed + 1))
        tail -25 "$copy/root/check/console" | sed 's/^/    console: /'
    fi
    grep -E '^not ok\b' "$transcript" | sed 's/^not ok/FAILED:/' || true
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}

main() {
    local status=0
    need_root
    need_tools
    [ -x "$daemon" ] || die "no $daemon here; run make first (make check-service does)"
    mkdir -p "$work"
    # Two of these would share a control group.
    exec 9>"$work/lock"
    flock -n 9 || die "another check-service is running here"
    prepare
    boot || status=$?
    report "$status"
}
main
