#!/bin/bash
# Runs every fuzz target for some seconds and prints a table:
#
#     tests/fuzz/run.sh BUILD SECONDS [TARGET...]
#
# BUILD has fuzz_NAME (libFuzzer) and replay_NAME in tests/fuzz. libFuzzer's corpus is kept in
# BUILD/corpus/NAME for the next run. Failing inputs are in BUILD/findings/NAME; add them to
# tests/fuzz/corpus/NAME under a name that describes the error. The exit status is 1 if there are
# findings.
set -u
build=$1 seconds=$2
shift 2
here=$(dirname "$0")
options=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1:quarantine_size_mb=64}
# AddressSanitizer ignores the mallopt with which codecs/confined/heif/heic.c clears new blocks.
more_options() { # target
    case $1 in heic) echo :max_malloc_fill_size=1073741824:malloc_fill_byte=0 ;; esac
}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
length_max=16384
# libFuzzer's limit for the whole process in MB. Files of 40,000 pixels need at most 64 MB, and
# AddressSanitizer keeps freed memory.
rss_max() { # target
    case $1 in webp) echo 512 ;; *) echo 2048 ;; esac
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# One dictionary per target. The probe reads every format; a job has the names of formats and of
# their encoder parameters.
dictionary() { # target
    local table=$here/../../conf/formats.def
    case $1 in
    probe) cat "$here/exif.dict" $(sed -n "s|^FORMAT(\([a-z0-9]*\),.*|$here/\1.dict|p" "$table") ;;
    job)
        cat "$here/job.dict"
        sed -n 's/^FORMAT(\([a-z0-9]*\),.*/"\\"format\\":\\"\1\\""/p
            s/^PARAMETER(\([a-z_]*\),.*/"\\"\1\\":"/p' "$table" ;;
    png_writer) echo '# pixels' ;;
    *) cat "$here/$1.dict" ;;
    esac
}

stat() { # name log
    sed -n "s/^stat::$1: *//p" "$2" | tail -1
}

row() { printf '%-8s %8s %12s %10s %12s %9s\n' "$@"; }
found=0
row target seconds executions exec/s "new inputs" findings
[ $# -gt 0 ] || set -- $(cd "$here" && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//')
for target; do
    corpus=$build/corpus/$target findings=$build/findings/$target log=$build/$target.log
    mkdir -p "$corpus" "$findings" "$scratch/$target"
    "$build/tests/fuzz/replay_$target" --write "$scratch/$target" || exit 1
    dictionary "$target" >"$scratch/dict"
    export ASAN_OPTIONS=$options$(more_options "$target")
    before=$(find "$corpus" -type f | wc -l)
    start=$SECONDS
    # Earlier findings run again; fixed ones are normal inputs.
    places=("$corpus" "$scratch/$target" "$findings")
    [ -d "$here/corpus/$target" ] && places+=("$here/corpus/$target")
    "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len=$length_max -timeout=10 \
        -rss_limit_mb="$(rss_max "$target")" -dict="$scratch/dict" -artifact_prefix="$findings/" \
        -print_final_stats=1 "${places[@]}" >"$log" 2>&1
    status=$?
    count=$(find "$findings" -type f -newer "$scratch/dict" | wc -l)
    row "$target" $((SECONDS - start)) "$(stat number_of_executed_units "$log")" \
        "$(stat average_exec_per_sec "$log")" $(($(find "$corpus" -type f | wc -l) - before)) \
        "$count"
    if [ $status -ne 0 ] || [ "$count" -gt 0 ]; then
        found=1
        echo "  exit status $status; inputs in $findings; the end of $log:"
        tail -30 "$log" | sed 's/^/  | /'
    fi
done
exit $found
