# shellcheck shell=bash
# service.sh - functions for the service, its jobs and its results in the booted tree; sourced by
# the scripts that run there, after tap.sh. container.sh uses only those for jobs and results, with
# its own $in and $out.

readonly unit=gpuimgd.service
readonly in=${in:-/var/lib/gpuimgd/in} out=${out:-/var/lib/gpuimgd/out} conf_d=/etc/gpuimgd/conf.d
cursor=

# ---- the service in systemd ----------------------------------------------------------------------

property() { systemctl show --property="$1" --value "$unit"; }
main_pid() { property MainPID; }
is_active() { equal "$(property ActiveState)" active; }
# restarted PID: the service is active in another process
restarted() { is_active && not equal "$(main_pid)" "$1"; }

# The journal of the service since the last mark.
mark() {
    journalctl --sync
    cursor=$(journalctl -q -n 1 --show-cursor | sed -n 's/^-- cursor: //p')
}
journal() {
    journalctl --sync
    journalctl -q -u "$unit" -o cat --no-pager --after-cursor="$cursor"
}
# Reads all lines first, because grep -q would close the pipe early.
logged() { journal | grep -E -- "$1" >/dev/null || { journal | tail -12; false; }; }

# ---- jobs and results ----------------------------------------------------------------------------

push() { redis-cli LPUSH gpuimgd:jobs "$1" >/dev/null; }
# The JSON of one result.
result() { redis-cli --raw BRPOP gpuimgd:results 20 | tail -n +2; }
# begins_with HEX FILE
begins_with() { equal "$(head -c $((${#1} / 2)) "$2" | od -An -tx1 | tr -d ' \n')" "$1"; }

# push_many PREFIX COUNT [INPUT]: pushes jobs with ids PREFIX-1 ... that take a while each
push_many() {
    local i jobs=()
    for ((i = 1; i <= $2; i++)); do
        jobs+=("{\"id\":\"$1-$i\",\"input\":\"${3:-large.jpg}\",
                 \"output\":\"$1/$i.png\",\"ops\":[\"sobel\"]}")
    done
    redis-cli LPUSH gpuimgd:jobs "${jobs[@]}" >/dev/null
}
results_at_least() { [ "$(redis-cli LLEN gpuimgd:results)" -ge "$1" ]; }

# results_complete PREFIX COUNT: each id has exactly one result, all are done, and all files exist
results_complete() {
    local all
    all=$(redis-cli --raw LRANGE gpuimgd:results 0 -1)
    redis-cli DEL gpuimgd:results >/dev/null
    equal "$(grep -c "\"id\":\"$1-" <<<"$all")" "$2" &&
        equal "$(grep -o "\"id\":\"$1-[0-9]*\"" <<<"$all" | sort -u | wc -l)" "$2" &&
        equal "$(grep -c '"status":"done"' <<<"$all")" "$2" &&
        equal "$(find "$out/$1" -name '*.png' -size +0 | wc -l)" "$2"
}
no_leftovers() {
    equal "$(redis-cli ZCARD gpuimgd:lease)" 0 && equal "$(redis-cli LLEN gpuimgd:jobs)" 0 &&
        equal "$(find "$out" -name '*.tmp' | wc -l)" 0
}
