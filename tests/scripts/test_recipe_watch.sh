#!/bin/bash
# Runs queue/clients/recipes/watch.sh with files that are there before, that are still written, and
# with odd names, and kills it, Redis and the daemon: tests/scripts/test_recipe_watch.sh BUILD
# Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
need_tools inotifywait
begin watch
folder=$dir/in/scans
readonly folder

# start_watch: a process group of its own, which dies as a systemd service does. The configuration is
# among its options, not among those that the function gpuimgctl adds.
start_watch() {
    env -C "$dir" -u 'BASH_FUNC_gpuimgctl%%' "PATH=$build:$PATH" QUIET_S=2 setsid bash "$recipes/watch.sh" in/scans \
        --ops flip,invert -c gpuimgd.conf --out 'turned/%n.jpg' >>"$dir/results" 2>>"$dir/watch.log" &
    watch=$!
}
stop_watch() { # SIGNAL
    kill "-$1" -- -"$watch" 2>/dev/null
    wait "$watch" 2>/dev/null
}
trap 'kill -KILL -- -"${watch:-0}" 2>/dev/null; leave_world' EXIT

in_folder() { find "$folder/$1" -type f -printf '%f\n' | sed 's/\.[0-9]\{15,\}-[0-9]*\(\.json\)\?$/\1/' | sort; }
is_done_soon() { within 30 in_done "$1" && are_blocks "$dir/out/turned/$1.jpg" turned; }
in_done() { in_folder "done" | grep -qxF -- "$1"; }
in_failed() { in_folder failed | grep -qxF -- "$1"; }
is_empty() { equal "$(find "$folder/$1" -type f)" ""; }
runs_of() { grep -cF "/$1." "$dir/results"; } # NAME: its results
# Prints the ids of the results, each with the number of the job that has run: its own, or same_as.
runs() {
    sed -nE 's/.*"id":"([^"]+)".*"job":([0-9]+).*/\1 \2 &/p' "$dir/results" |
        sed -E 's/^([^ ]+) [0-9]+ .*"same_as":([0-9]+).*/\1 \2/' | cut -d' ' -f1,2 | sort -u
}

slow_file() {
    { head -c 300 "$dir/blocks.jpg"; sleep 5; tail -c +301 "$dir/blocks.jpg"; } >"$folder/inbox/slow.jpg"
}
test_files() {
    mkdir -p "$folder/inbox"
    write_blocks "$dir/blocks.jpg"
    cp "$dir/blocks.jpg" "$folder/inbox/before.jpg"
    start_daemon
    start_watch
    check "a file that was there before" is_done_soon before.jpg
    cp "$dir/blocks.jpg" "$folder/inbox/copied.jpg"
    check "a copied file" is_done_soon copied.jpg
    cp "$dir/blocks.jpg" "$folder/moved.jpg" && mv "$folder/moved.jpg" "$folder/inbox/"
    check "a moved file" is_done_soon moved.jpg
    cp "$dir/blocks.jpg" "$folder/inbox/.hidden.jpg"
    cp "$dir/blocks.jpg" "$folder/inbox/upload.jpg.part"
    slow_file &
    check "a file that is written slowly" is_done_soon slow.jpg
    check "it has one result" equal "$(runs_of slow.jpg)" 1
    ln "$dir/blocks.jpg" "$folder/inbox/.link"
    check "partial files stay" equal "$(in_folder inbox | xargs)" ".hidden.jpg .link upload.jpg.part"
    mv "$folder/inbox/upload.jpg.part" "$folder/inbox/upload.jpg"
    check "until they are renamed" is_done_soon upload.jpg
    rm "$folder"/inbox/.*[a-z]
}
test_names() {
    local name long
    long=$(printf 'x%.0s' {1..240}).jpg
    for name in 'a b.jpg' "it's \"ü\" \\.jpg" '-rf.jpg' '%n%e.jpg' '$(touch run).jpg' 'a[$(touch run)].jpg' '*.jpg' '@' ']x.jpg' 'no suffix' 'a.png.jpg'; do
        cp -- "$dir/blocks.jpg" "$folder/inbox/$name"
        check "the name $name" is_done_soon "$name"
    done
    cp "$dir/blocks.jpg" "$folder/inbox/"$'line\nbreak.jpg'
    cp "$dir/blocks.jpg" "$folder/inbox/"$'\xe9t\xe9.jpg'
    cp "$dir/blocks.jpg" "$folder/inbox/$long"
    mkdir "$folder/inbox/folder"
    ln -s "$dir/blocks.jpg" "$folder/inbox/link.jpg"
    check "no name is run" not test -e "$folder/run"
    check "names that no job can have leave the inbox" within 30 is_empty inbox
    check "and are in failed, with the reasons" within 10 three_reasons
    check "they were not sent" is_empty work
}
three_reasons() { equal "$(grep -l 'a name must be' "$folder"/failed/*.txt | wc -l)" 3; }
test_failures() {
    echo 'not an image' >"$folder/inbox/bad.jpg"
    : >"$folder/inbox/empty.jpg"
    check "a file that is no image is in failed" within 30 in_failed bad.jpg
    check "its error is beside it" grep -q '"code":"unsupported_format"' "$folder"/failed/bad.jpg.*.json
    check "so is an empty file" within 30 in_failed empty.jpg
    chmod 500 "$dir/out/turned"
    if [ "$(id -u)" = 0 ]; then
        mv "$dir/out/turned" "$dir/out/aside" && : >"$dir/out/turned" # root may write anywhere
    fi
    cp "$dir/blocks.jpg" "$folder/inbox/dead.jpg"
    check "a file whose job is dead is in failed" within 60 in_failed dead.jpg
    check "with the error" grep -q '"status":"\(dead\|failed\)"' "$folder"/failed/dead.jpg.*.json
    check "the list of dead jobs is empty" equal "$(ask_redis LLEN gpuimgd:dead)" 0
    if [ -f "$dir/out/turned" ]; then rm "$dir/out/turned" && mv "$dir/out/aside" "$dir/out/turned"; fi
    chmod 700 "$dir/out/turned"
    touch "$folder"/failed/dead.jpg.*[0-9]
    mv "$folder"/failed/dead.jpg.*[0-9] "$folder/inbox/dead.jpg"
    check "it is done when it is tried again" is_done_soon dead.jpg
    cp "$dir/blocks.jpg" "$folder/inbox/dead.jpg"
    check "so is a new file with the name of another one" within 30 equal_runs dead.jpg 3
}
equal_runs() { equal "$(runs_of "$1")" "$2"; }

count_in() { [ "$(find "$folder/$1" -type f | wc -l)" -ge "$2" ]; } # FOLDER COUNT
test_restarts() {
    local n
    rm -rf "$folder/done"/* "$folder/failed"/*
    gpuimgctl pause >"$dir/null"
    : >"$dir/results"
    for n in {1..40}; do cp "$dir/blocks.jpg" "$folder/inbox/n-$n.jpg"; done
    check "files wait for their jobs" within 20 count_in work 1
    check "the jobs are in the queue" within 20 queue_has 1
    stop_watch KILL
    start_watch
    check "after a crash, they are sent again" within 20 queue_has 41
    gpuimgctl resume >"$dir/null"
    check "all are done" within 60 count_in "done" 40
    check "each job ran once" equal "$(runs | wc -l) $(runs | cut -d' ' -f1 | uniq | wc -l)" "40 40"
    stop_watch TERM
    start_watch
    sleep 3
    check "after another start, nothing runs again" equal "$(runs | wc -l)" 40
    check "nothing is left" is_empty work
}
queue_has() { [ "$(ask_redis LLEN gpuimgd:jobs)" -ge "$1" ]; }
test_outages() {
    stop_daemon
    cp "$dir/blocks.jpg" "$folder/inbox/no-daemon.jpg"
    sleep 1
    start_daemon
    check "a file that came while no daemon ran" is_done_soon no-daemon.jpg
    check "what it waited for is printed once" equal "$(grep -c '^no daemon runs$' "$dir/watch.log")" 1
    kill -KILL "$daemon"
    wait "$daemon" 2>"$dir/null"
    cp "$dir/blocks.jpg" "$folder/inbox/killed.jpg"
    sleep 1
    start_daemon
    check "a file that came when the daemon was killed" is_done_soon killed.jpg
    kill "$redis"
    wait "$redis"
    cp "$dir/blocks.jpg" "$folder/inbox/no-redis.jpg"
    check "that Redis is away is printed" within 30 grep -q "^gpuimgctl: .*127.0.0.1:$port" "$dir/watch.log"
    restart_redis
    check "a file that came while Redis was away" within 90 in_done no-redis.jpg
    stop_watch TERM
    check "no message is unexpected" not grep -qE '^[^g].*(command not found|syntax|unbound|cannot)' "$dir/watch.log"
}

test_files
test_names
test_failures
test_restarts
test_outages
exit $((failures > 0))
