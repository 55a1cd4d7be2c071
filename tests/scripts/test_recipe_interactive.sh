#!/bin/bash
# Runs two daemons with the configuration of queue/clients/recipes/interactive, one of them with much
# work: tests/scripts/test_recipe_interactive.sh BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
begin interactive
readonly files=$recipes/interactive

etc() { # the files where their comments and the README put them
    mkdir -p "$dir/etc/conf.d"
    cp "$files"/gpuimgd-*.conf "$dir/etc/"
    printf '%s\n' "redis = 127.0.0.1:$port" "input_root = $dir/in" "output_root = $dir/out" 'engine = cpu' \
        >"$dir/etc/conf.d/shared.conf"
}
start() { # NAME OPTION...
    local name=$1
    shift
    "$build/gpuimgd" -c "$dir/etc/gpuimgd-$name.conf" "$@" >"$dir/$name.log" 2>&1 &
    printf -v "$name" %s $!
    within 20 grep -q connected "$dir/$name.log"
}
# answer NAMESPACE LIST: pushes a job and waits for its result
answer() {
    local reply=$1:reply:me
    ask_redis LPUSH "$1:$2" '{"input":"cat.jpg","output":"'"$1-${2##*:}"'.jpg","ops":["flip","invert"],"reply_to":"'"$reply"'"}' \
        >"$dir/null"
    ask_redis BRPOP "$reply" 30 | tail -n +2
}
bulk_waits() { less 20 "$(ask_redis LLEN gpuimgd:jobs)"; }
bulk_work() { # jobs of about half a second each
    local n batch=()
    awk 'BEGIN { srand(1); printf "P2\n1000 700\n255\n"; for (i = 0; i < 700000; i++) print int(rand() * 256) }' |
        cjpeg -outfile "$dir/in/noise.jpg"
    for ((n = 0; n < 300; n++)); do
        batch+=('{"input":"noise.jpg","output":{"path":"bulk-'$n'.png","compression":9},"ops":["invert"]}')
    done
    ask_redis LPUSH gpuimgd:jobs "${batch[@]}" >"$dir/null"
}
# The drop-in is read, and systemd knows all of its lines.
drop_in_is_valid() {
    mkdir -p "$dir/units/gpuimgd@bulk.service.d"
    printf '[Service]\nExecStart=/bin/true\n' >"$dir/units/gpuimgd@.service"
    cp "$files/bulk.service.conf" "$dir/units/gpuimgd@bulk.service.d/bulk.conf"
    local said
    said=$(SYSTEMD_UNIT_PATH=$dir/units: systemd-analyze verify gpuimgd@bulk.service 2>&1 | grep 'bulk\.conf')
    equal "$said" ""
}

write_blocks "$dir/in/cat.jpg"
etc
for name in interactive bulk; do
    check "gpuimgd -t accepts gpuimgd-$name.conf" "$build/gpuimgd" -c "$dir/etc/gpuimgd-$name.conf" -t
done
start bulk --workers=1
start interactive
bulk_work
check "bulk work waits" within 10 bulk_waits
result=$(answer interactive jobs)
check "a job of the second namespace is done" has "$result" '"status":"done"'
check "while bulk work waits" bulk_waits
check "its image is right" are_blocks "$dir/out/interactive-jobs.jpg" turned
result=$(answer gpuimgd jobs:9)
check "a job of the highest priority is done" has "$result" '"status":"done"'
check "while bulk work waits, too" bulk_waits
check "results = none keeps no result" equal "$(ask_redis EXISTS interactive:results interactive:results:stream)" 0
kill -KILL "$bulk"
result=$(answer interactive jobs)
check "without the bulk daemon, answers come" has "$result" '"status":"done"'
{ printf 'P5\n5100 5000\n255\n' && head -c 25500000 /dev/zero; } | cjpeg -outfile "$dir/in/large.jpg"
mv "$dir/in/large.jpg" "$dir/in/cat.jpg"
check "a large image is refused" has "$(answer interactive jobs)" '"code":"image_too_large"'
if command -v systemd-analyze >/dev/null; then
    check "systemd accepts the drop-in" drop_in_is_valid
else
    echo "ok - systemd accepts the drop-in # SKIP there is no systemd-analyze here"
fi
exit $((failures > 0))
