#!/bin/bash
# Runs the commands of README.md and of the manual's EXAMPLES against a real Redis and a real
# daemon: tests/scripts/test_readme.sh BUILD. Commands that would change this machine (installation,
# systemd) are replaced, and so are the folders and the Redis. test_photo_site.sh runs the job of the
# section "A job". Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=$(realpath "${1:-build/release}")
readonly build root=$PWD
need_tools redis-server redis-cli cjpeg
make_world readme

prepare() {
    mkdir "$dir/in" "$dir/out" "$dir/home" "$dir/home/holiday"
    awk 'BEGIN { printf "P3\n640 480\n255\n"
        for (i = 0; i < 640 * 480; i++) print i % 256, int(i / 640) % 256, i % 89 }' |
        cjpeg -quality 90 -outfile "$dir/home/cat.jpg"
    cp "$dir/home/cat.jpg" "$dir/home/holiday/beach.jpg"
    mkdir -p "$dir/in/a" "$dir/in/photos/2026" "$dir/in/train"
    cp "$dir/home/cat.jpg" "$dir/in/a/1.jpg"
    cp "$dir/home/cat.jpg" "$dir/in/photos/2026/sea.jpg"
    tar -C "$dir/in" -cf "$dir/in/train/0001.tar" a/1.jpg
    cat >"$dir/gpuimgd.conf" <<END
redis = 127.0.0.1:$port
input_root = $dir/in
output_root = $dir/out
engine = cpu
workers = 1
END
    run_daemon "$build/gpuimgd" -c "$dir/gpuimgd.conf"
}

# section FILE HEADING: the indented lines of that section
section() {
    awk -v heading="$2" '/^#/ { here = $0 == heading; next } here && /^    / { print substr($0, 5) }' \
        "$root/$1"
}
readme() { section README.md "$1"; }
# manual PAGE: the displays of its EXAMPLES
manual() {
    awk '$1 == ".Sh" { here = $2 == "EXAMPLES" } $1 == ".Ed" { on = 0 }
        here && on { gsub(/\\e/, "\\"); gsub(/\\-/, "-"); print } here && $1 == ".Bd" { on = 1 }' \
        "$root/conf/man/$1"
}
# Jobs and results begin with a brace; indented lines continue them.
shell_lines() { awk '/^[^ ]/ { json = /^\{/ } !json'; }
job_lines() { awk '/^[^ ]/ { json = /^\{/; if (json && NR > 1) print "" } json { printf "%s", $0 } END { print "" }'; }

# as_written COMMANDS: all commands must succeed. They run in their own shell, because -e has no
# effect inside the condition where check calls this.
as_written() {
    [ -n "$1" ] || { echo "there is no command"; return 1; }
    {
        cat <<END
sudo() { "\$@"; }
make() { :; }
systemctl() { :; }
systemd-sysusers() { :; }
systemd-tmpfiles() { :; }
journalctl() { :; }
gpuimgd() { $build/gpuimgd -c $dir/gpuimgd.conf "\$@"; }
gpuimgctl() { PATH=$build:\$PATH $build/gpuimgctl "\$@" -c $dir/gpuimgd.conf; }
redis-cli() { command redis-cli -e -p $port "\$@"; }
END
        printf '%s\n' "${1//\/var\/lib\/gpuimgd/$dir}"
    } >"$dir/commands"
    (cd "$dir/home" && bash -e -o pipefail ../commands </dev/null)
}
# The daemon accepts each job in the text.
jobs_are_good() { # text
    local job count=0
    while read -r job; do
        [ -n "$job" ] || continue
        count=$((count + 1))
        "$build/gpuimgd" -c "$dir/gpuimgd.conf" --explain - <<<"$job" || { echo "$job"; return 1; }
    done <<<"$1"
    [ $count -gt 0 ]
}
# The text shows the output of --explain, except for the size of the image file.
explanation_is_right() {
    local shown
    shown=$(section gpu/OPERATIONS.md "## How operations are combined" | awk '/^"/ { on = 0 } /^\$ / { on = 1 } on')
    diff <(tail -n +2 <<<"$shown" | sed 's/[0-9]* bytes$/N bytes/') \
        <(as_written "$(head -1 <<<"$shown" | cut -c3-)" | sed 's/[0-9]* bytes$/N bytes/')
}
targets_exist() { # every `make TARGET` in the documents
    local target
    grep -hoE '(^ +|`)make [a-z-]+' README.md gpu/OPERATIONS.md tests/*.md tests/bench/FIGURES.md | sed 's/.* //' |
        sort -u | while read -r target; do
        grep -qE "^## $target: " Makefile tests/tests.mk || { echo "no make $target"; false; } || return 1
    done
}

# A new operation adds a line to a table that is generated.
written_lines() { sed '/^<!-- .*made by/,/^<!-- end of/d' "$root/README.md" | wc -l; }

main() {
    start_redis "$dir" --port || return 1
    prepare
    check "README: Run it" as_written "$(readme "## Run it" | shell_lines)"
    check "README: Run it writes its image" test -s "$dir/out/cat-edges.png"
    check "README: From the shell" as_written "$(readme "### From the shell")"
    check "README: From the shell writes its images" test -s "$dir/out/small/cat.png" -a \
        -s "$dir/home/edges/beach.jpg"
    ask_redis FLUSHALL >/dev/null
    check "OPERATIONS.md: the output of --explain" explanation_is_right
    check "README: Many hosts" as_written "$(readme "## Many hosts")"
    check "make has the targets of the documents" targets_exist
    check "README: at most 160 lines, without generated tables" test "$(written_lines)" -le 160
    check "gpuimgctl(1): examples" as_written "$(manual gpuimgctl.1)"
    check "gpuimgd(8): examples" as_written "$(manual gpuimgd.8)"
    check "gpuimgd-job(5): examples" as_written "$(manual gpuimgd-job.5 | shell_lines)"
    check "gpuimgd-job(5): the jobs are valid" jobs_are_good "$(manual gpuimgd-job.5 | job_lines)"
    [ "$failures" -eq 0 ]
}
main
