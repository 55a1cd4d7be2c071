#!/bin/bash
# Makes images of the files that appear in a folder: watch.sh FOLDER SUBMIT-OPTION...
#
#     watch.sh /var/lib/gpuimgd/in/scanner --ops resize:width=1200 --out 'scanner/%n.webp'
#
# FOLDER is below the daemon's input_root. Files are put into FOLDER/inbox. While a file has a job,
# it is in FOLDER/work, as NAME.STAMP; then in FOLDER/done or FOLDER/failed, where NAME.STAMP.json
# is the result. It prints each result. %n in --out is the whole name (photo.jpg). To try a failed
# file again, touch it and move it to the inbox. Needs inotifywait (Debian: inotify-tools).
set -uo pipefail
export LC_ALL=C.UTF-8
[ $# -ge 2 ] || { echo "usage: $0 FOLDER SUBMIT-OPTION..." >&2; exit 64; }
# Files that were not seen being closed must be this old; if they were seen being created, 600 s.
readonly folder=$1 quiet_s=${QUIET_S:-10} start=$PWD
declare -A open_since # "x$name": when the file was created
shift
said='' connection=() # those of the options that say which Redis, for gpuimgctl status and dead
for ((i = 1; i <= $#; i++)); do
    case ${!i} in
    -c | --config | --redis | --redis_* | --namespace | --shards)
        connection+=("${!i}")
        [[ ${!i} != *=* ]] && ((++i <= $#)) && connection+=("${!i}") ;;
    -c* | --config=* | --redis=* | --namespace=* | --shards=*) connection+=("${!i}") ;;
    esac
done
readonly connection
cd "$folder" && mkdir -p inbox work done failed && exec 9>.lock || exit 66
flock -n 9 || { echo "another $0 watches $folder" >&2; exit 75; }

ctl() { (cd "$start" && gpuimgctl "$@"); } # its options may have relative paths
# Moves a complete file to work. Its stamp is the same after a restart, and new if its content is.
claim() { # NAME
    local name=$1 stamp
    unset 'open_since[x$name]'
    case $name in '' | .* | *.part | *.tmp) return ;; esac # still being written
    [ -f "inbox/$name" ] && [ ! -L "inbox/$name" ] || return
    stamp=$(date -r "inbox/$name" +%s%N)-$(stat -c %i -- "inbox/$name") || return
    if [[ ! $name =~ ^[^[:cntrl:]]+$ ]] ||
        ! mv -fT -- "inbox/$name" "work/$name.$stamp" 2>/dev/null; then
        mv -fT -- "inbox/$name" "failed/$stamp" &&
            printf '%q: a name must be UTF-8, short, and without control characters\n' "$name" |
            tee "failed/$stamp.txt" >&2
    fi
}
# EVENT NAME, as inotifywait prints them
handle() {
    case $1 in
    CREATE\ *) open_since["x${1#* }"]=$SECONDS ;;
    CLOSE_WRITE* | MOVED_TO\ *) claim "${1#* }" ;;
    esac
}
# Files that were there before, or whose event was lost, or that another host writes. Claims 1000,
# and returns 1 if there are more.
claim_old() {
    local name count=0
    while IFS= read -r -d '' name; do
        ((SECONDS - ${open_since["x$name"]:--600} >= 600)) || continue
        ((++count <= 1000)) || return 1
        claim "$name"
    done < <(find inbox -maxdepth 1 -type f ! -newermt "-$quiet_s seconds" ! -name '.*' \
        ! -name '*.part' ! -name '*.tmp' -printf '%f\0')
}
settle() { # RESULT
    local file id
    [[ $1 =~ \"id\":\"(watch-([0-9-]+))\" ]] || return # the last line has only numbers
    id=${BASH_REMATCH[1]}
    file=$(find work -name "*.${BASH_REMATCH[2]}" -printf '%f/') file=${file%/}
    [ -n "$file" ] || return
    printf '%s\n' "$1"
    case $1 in
    *'"status":"done"'*) mv -fT -- "work/$file" "done/$file" ;;
    *)
        printf '%s\n' "$1" >failed/.result && mv -fT failed/.result "failed/$file.json" &&
            mv -fT -- "work/$file" "failed/$file" ;;
    esac
    # The file in failed is what is tried again, not the daemons' list of dead jobs.
    case $1 in *'"status":"dead"'*) ctl dead drop "$id" "${connection[@]}" >/dev/null </dev/null ;; esac
}
# Sends all files in work, also those of an earlier run: the daemons run each id once. After a
# minute they are sent again, in case Redis has lost them; but not while no daemon takes them.
send() {
    [ -n "$(find work -type f -print -quit)" ] || return
    state=$(ctl status --json "${connection[@]}" 2>&1)
    if [[ $state != *'"daemons":[{'* ]]; then
        [[ $state != \{* ]] || state="no daemon runs"
        [ "$state" = "$said" ] || printf '%s\n' "$state" >&2
        said=$state
        sleep 1
        return
    fi
    said=''
    {
        find "$PWD/work" -type f -print0 |
            ctl submit -0 - --wait --json --timeout 60 --id watch-%e --set unique=true "$@" |
            while IFS= read -r line; do settle "$line"; done
    } 9>&- || sleep 1
}

exec 3< <(exec inotifywait -mq -e create -e close_write -e moved_to --format '%e %f%0' \
    --no-newline inbox 9>&-)
watcher=$!
trap 'kill "$watcher" 2>/dev/null' EXIT
trap 'exit 130' INT TERM
next=0
while :; do
    IFS= read -r -d '' -t 1 event <&3 || [ $? -gt 128 ] || { echo "inotifywait ended" >&2; exit 1; }
    handle "$event"
    for ((i = 0; i < 1000; i++)); do
        IFS= read -r -d '' -t 0.05 event <&3 && handle "$event" || break
    done
    if ((i < 1000 && SECONDS >= next)); then claim_old && next=$((SECONDS + quiet_s)); fi
    send "$@"
done
