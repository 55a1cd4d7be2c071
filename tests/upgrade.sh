#!/bin/bash
# Runs this version beside an older one on one queue: tests/upgrade.sh BUILD OLD [option of chaos ...]
# OLD is a commit or a tag of this repository, or a gpuimgd_*.deb, with its gpuimgctl_*.deb beside it.
# It is built, or unpacked, once into build/old. Prints TAP lines.
#
# With an OLD from before 0.2.0, which no promise covers: --plain, if it has no priorities.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. tests/world.sh
build=$1 what=${2:-}
shift 2 || { echo "usage: make check-upgrade OLD=<commit, tag or gpuimgd_*.deb>" >&2; exit 64; }

# ---- the older programs ---------------------------------------------------------------------------

build_old() { # commit; sets $old_daemon and $old_ctl
    local commit folder
    commit=$(git rev-parse --verify --quiet "$1^{commit}") || {
        echo "$1 is no commit of this clone; a shallow one gets more by git fetch --unshallow" >&2
        exit 1
    }
    folder=build/old/${commit:0:12}
    old_daemon=$folder/build/release/gpuimgd old_ctl=$folder/build/release/gpuimgctl
    [ ! -x "$old_ctl" ] || return 0
    mkdir -p "$folder" && git archive "$commit" | tar -x -C "$folder" || exit 1
    echo "# building $1 in $folder"
    env -u MAKEFLAGS make -C "$folder" -j"$(nproc)" VARIANT=release all >"$folder/log" 2>&1 ||
        { tail "$folder/log" >&2; exit 1; }
}
unpack_old() { # gpuimgd_*.deb
    local folder ctl
    folder=build/old/$(basename "$1" .deb) ctl=$(dirname "$1")/gpuimgctl_${1##*/gpuimgd_}
    old_daemon=$folder/usr/sbin/gpuimgd old_ctl=$folder/usr/bin/gpuimgctl
    rm -rf "$folder" && mkdir -p "$folder" && dpkg-deb -x "$1" "$folder" &&
        dpkg-deb -x "$ctl" "$folder" || exit 1
}
case $what in
    *.deb) unpack_old "$what" ;;
    *) build_old "$what" ;;
esac
new_daemon=$build/gpuimgd new_ctl=$build/gpuimgctl
make_world upgrade
echo "# $("$old_daemon" -V | head -1) ($what) and $("$new_daemon" -V | head -1)"

# ---- configurations -------------------------------------------------------------------------------

# The older file must be accepted, because apt keeps a file that was changed.
old_configuration() { # prints the older sample with every option set
    "$old_daemon" --sample | sed -n 's/^#\{0,1\}\([a-z_]* =.*\)/\1/p' >"$dir/old.conf"
    [ "$(wc -l <"$dir/old.conf")" -ge 20 ] || { echo "the older sample has too few options"; return 1; }
    "$new_daemon" -c "$dir/old.conf" -t --input_root="$dir" --output_root="$dir"
}
check "this version takes each option of the older one" old_configuration

# ---- clients --------------------------------------------------------------------------------------

mkdir -p "$dir/in" "$dir/out"
base64 -d >"$dir/in/a.png" <<'PNG'
iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAFElEQVR42mNgkLOJqpi25RIDZQwAihUaQZwDEoIAAAAASUVORK5CYII=
PNG
at=("--redis=unix:$dir/redis.sock" "--input_root=$dir/in" "--output_root=$dir/out")
ctl() { "$client" "$1" "${at[@]}" "${@:2}"; }
waits() { ctl status --json | grep -q '"delayed":1[,}]'; }
cancels() {
    ctl submit "$dir/in/a.png" -o later.png --id later --set 'not_before="+3600"' && within 10 waits &&
        ctl cancel later && ctl result later --wait --timeout=20
    has "$(ctl result later --json)" '"status":"cancelled"'
}
retries() {
    ctl dead list && ctl dead retry --all && equal "$(ask_redis LLEN gpuimgd:dead)" 0
}
client_works() { # daemon client
    local name=$3
    client=$2
    start_redis "$dir" --port
    run_daemon "$1" -c /dev/null "${at[@]}" --engine=cpu --workers=2
    check "$name: a job through files" ctl submit "$dir/in/a.png" -o b.png --wait --timeout=30
    check "$name: a job through keys" ctl submit --keys "$dir/in/a.png" -o "$dir/k.png" --force
    check "$name: status names the daemon" within 10 eval 'ctl status | grep ":$daemon "'
    check "$name: a cancel of a waiting job" cancels
    check "$name: pause" ctl pause
    check "$name: drain" ctl drain
    check "$name: resume" ctl resume
    ask_redis LPUSH gpuimgd:dead '{"id":"d","input":"a.png","output":"d.png"}' >/dev/null
    check "$name: a dead job is retried" retries
    check "$name: and ends" within 20 test -e "$dir/out/d.png"
    stop_daemon
    check "$name: the daemon drains" equal "$exit_status" 0
    check "$name: Redis answers" equal "$(ask_redis PING)" PONG
    check "$name: no job is left" equal "$(ask_redis KEYS 'gpuimgd:job:*')" ""
    rm -f "$dir"/out/*.png "$dir/k.png"
    kill "$redis" && wait "$redis"
}
client_works "$new_daemon" "$old_ctl" "older client, this daemon"
client_works "$old_daemon" "$new_ctl" "this client, older daemon"

# ---- daemons --------------------------------------------------------------------------------------

"$build/tests/tools/chaos" --daemon "$new_daemon" --old "$old_daemon" --jobs 4000 --kills 60 \
    --daemons 3 "$@" >"$dir/chaos" 2>&1
status=$?
sed 's/^/# /' "$dir/chaos"
check "each job has one result, with daemons of both versions killed, drained and started" \
    equal $status 0
echo "# $failures failures"
[ "$failures" = 0 ]
