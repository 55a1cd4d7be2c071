# shellcheck shell=bash
# boot.sh - boots a copy of a tree with a test in it, and prints the report; sourced by check.sh and
# package.sh after tree.sh.
. tests/service/tap.sh
. tests/service/pictures.sh

readonly work=$PWD/build/service
readonly boot_seconds_max=${SERVICE_SECONDS_MAX:-420}
copy="" nspawn="" groups=()

cleanup() {
    if [ -n "$nspawn" ] && kill -0 "$nspawn" 2>/dev/null; then
        # timeout forwards the signal, and after 10 s it kills nspawn. The container's init and all
        # its processes end with nspawn.
        kill -TERM "$nspawn" 2>/dev/null || true
        wait "$nspawn" 2>/dev/null || true
    fi
    leave_groups
    if [ "${KEEP:-0}" = 1 ] && [ -n "$copy" ]; then
        say "kept: $copy"
    elif [ -n "$copy" ]; then
        rm -rf --one-file-system "$copy"
    fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# systemd-nspawn puts the container into its own control group, always under the same name. Two
# containers in one group would see each other's processes there as number 0, and systemd's `kill`
# fails on those. So each boot gets its own group in the hierarchies of systemd. If none can be
# created, it uses the current group.
make_groups() {
    local place path group
    while IFS=: read -r _ place path; do
        case $place in
        name=systemd) group=/sys/fs/cgroup/systemd ;;
        "") group=/sys/fs/cgroup/unified; [ -d $group ] || group=/sys/fs/cgroup ;;
        *) continue ;;
        esac
        group=$group${path%/}/gpuimgd-check-$$
        mkdir "$group" 2>/dev/null && groups+=("$group")
    done </proc/self/cgroup
}
enter_groups() { # as $BASHPID
    local group
    for group in "${groups[@]}"; do
        echo "$BASHPID" >"$group/cgroup.procs" || true
    done
}
leave_groups() {
    local group
    for group in "${groups[@]}"; do
        [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    groups=()
}

# Two tests at the same time would create the same tree.
only_one() {
    mkdir -p "$work"
    exec 9>"$work/lock"
    flock -n 9 || die "another test of the service is running here"
}

# put_check SCRIPT FILE... : installs the script that the copy runs after the boot, and its files
put_check() {
    mkdir -p "$copy/root/check" "$copy/etc/systemd/system/multi-user.target.wants"
    install -m 0755 "$1" "$copy/root/check/inside.sh"
    shift
    install -m 0644 tests/service/tap.sh tests/service/service.sh "$@" "$copy/root/check/"
    install -m 0644 tests/service/gpuimgd-check.service "$copy/etc/systemd/system/"
    ln -s ../gpuimgd-check.service "$copy/etc/systemd/system/multi-user.target.wants/"
    [ -e "$copy/etc/hosts" ] || echo "127.0.0.1 localhost" >"$copy/etc/hosts"
    make_pictures "$copy/root/check"
    : >"$copy/root/check/transcript"
}

boot() {
    local status=0 tail
    # A private network with only loopback, so that a Redis on this machine does not interfere.
    make_groups
    (
        enter_groups
        exec timeout --kill-after=10 "$boot_seconds_max" \
            systemd-nspawn --boot --quiet --register=no --keep-unit --private-network \
            --machine="gpuimgd-check-$$" --directory="$copy" \
            </dev/null >"$copy/root/check/console" 2>&1
    ) &
    nspawn=$!
    tail --lines=+1 --follow --sleep-interval=0.2 --pid="$nspawn" "$copy/root/check/transcript" &
    tail=$!
    wait "$nspawn" || status=$?
    nspawn=""
    wait "$tail"
    [ $status -ne 124 ] || say "the system was not done within $boot_seconds_max s"
    return $status
}

# outside "what must be true" command... : a check that runs outside the copy
outside() { check "$@" | tee -a "$copy/root/check/transcript"; }

# A transcript that stops early is a failure, even if all its lines are ok.
ran_to_the_end() { # boot status
    equal "$1" 0 && grep -qxF "end of the transcript" "$copy/root/check/transcript" ||
        { tail -25 "$copy/root/check/console"; false; }
}

# report BOOT_STATUS: prints the failures and the totals. Returns 1 if a check failed.
report() {
    local transcript=$copy/root/check/transcript passed failed skipped
    printf '\n---- journalctl -u gpuimgd ----\n'
    cat "$copy/root/check/journal" 2>/dev/null || echo "(none was written)"
    printf -- '---- end of the journal ----\n\n'
    outside "the system ran to the end and powered itself off" ran_to_the_end "$1"
    passed=$(grep -cE '^ok\b' "$transcript" || true)
    skipped=$(grep -cE '^ok\b.*# SKIP' "$transcript" || true)
    failed=$(grep -cE '^not ok\b' "$transcript" || true)
    grep -E '^not ok\b' "$transcript" | sed 's/^not ok/FAILED:/' || true
    echo "$((passed - skipped)) passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
