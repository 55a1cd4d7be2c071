#!/bin/bash
# Compares the manual pages with the sources: each option, key, flag and operation is in its page,
# and no page has others. Prints TAP. tests/scripts/test_pages.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/service/tap.sh
build=${1:-build/release}
readonly build man=conf/man job=conf/man/gpuimgd-job.5 daemon=conf/man/gpuimgd.8
readonly ctl=conf/man/gpuimgctl.1
names=$("$build/tests/tools/names") || exit 1

# items PAGE SECTION MACRO [OUTER]: the names of a section's list items, as in `.It Va a , b`. With
# OUTER, for lists within a list, each after the name of the last item of that macro.
items() {
    awk -v section="$2" -v macro="$3" -v outer="${4:-}" '
        $1 == ".Sh" { here = substr($0, 5) == section }
        !here || $1 != ".It" { next }
        outer && $2 == outer { last = $3 " "; next }
        $2 == macro { for (i = 3; i == 3 || $(i - 1) == ","; i += 2) print last $i }' "$1"
}
# between FILE START END WORDS: matches of WORDS from a line with START to one with END
between() {
    awk -v start="$2" -v end="$3" 'index($0, start) { on = 1 }
        on { print }
        on && index($0, end) { exit }' "$1" | grep -oE "$4"
}

# same THINGS PAGE: the two lists are equal in any order, and not empty
same() {
    local difference
    [ -n "$1" ] || { echo "there is nothing to compare"; return 1; }
    difference=$(diff <(sort -u <<<"$1") <(sort -u <<<"$2")) && return 0
    sed -n 's/^</missing in the page:/p; s/^>/there is no:/p' <<<"$difference"
    return 1
}

lint() { # page; pages of other programs need not be installed here
    local said
    said=$(mandoc -Tlint -W all "$1" 2>/dev/null | grep -v 'referenced manual not found')
    equal "$said" ""
}
# If a macro lacks its punctuation as an argument, the page has a blank before it.
rendered() { # page
    local torn
    torn=$(mandoc -Tascii "$1" | col -b | grep -nE '[^ .] [,;:)]|[^ .,] \.( |$)')
    equal "$torn" ""
}
references() { # page
    local name section
    grep -oE '^\.Xr (gpuimg[a-z.-]+) [0-9]' "$1" | while read -r _ name section; do
        [ -e "$man/$name.$section" ] || { echo "there is no $name.$section"; false; } || return 1
    done
}

flags() { # of the command line, without the options of the configuration
    "$build/gpuimgd" -h | sed '/^Options/,$d' | grep -oE '^  --?[a-zA-Z]+' | tr -d ' '
}
page_flags() {
    items "$daemon" DESCRIPTION Fl | grep -vE '^-(name|help|version)$' | sed 's/^/-/'
}
options() { sed -n '/^\.\\" The list begins here/,/^\.\\" The list ends here/p' $man/gpuimgd.conf.5 | sed '1d;$d'; }
result_keys() {
    grep -oE '(add_[a-z]+\(root|put_[a-z]+\(writer|writer_[a-z]+\(&?writer), "[a-z0-9_]+"' queue/job/result.c |
        sed 's/.*"\(.*\)"/\1/'
}
# Result keys are in the items and, for members of objects, in the text.
page_result_keys() {
    sed -n '/^\.Sh RESULT KEYS/,/^\.Sh ERROR/p' "$job" | sed -nE 's/^\.(It |Pq .*)?Va //p' |
        tr -d ',;.' | tr ' ' '\n' | grep -E '^[a-z0-9_]+$'
}

# Reads a help text and prints the names below a title: commands, or options line by line.
help_names() {
    sed -n "/^$1:\$/,/^\$/p" | sed -nE 's/^  ([^ ].*)/\1/p' | sed -E 's/(=.*|  .*)//; s/, /\n/'
}
ctl_options() { # options of a command follow its name
    local command
    "$build/gpuimgctl" -h | help_names 'Options of every command'
    "$build/gpuimgctl" -h | help_names Commands | while read -r command; do
        "$build/gpuimgctl" "$command" -h | help_names Options | sed "s/^/$command /"
    done
}
page_ctl_options() {
    { items $ctl DESCRIPTION Fl; items $ctl COMMANDS Fl Ic; } | sed -E 's/[^ ]+$/-&/'
}

# `-o all-gpus`: installs the existing build, which `make` made.
installed() {
    local folder status=0
    folder=$(mktemp -d /tmp/gpuimgd-pages.XXXXXX) || return 1
    make -s -o all-gpus install CUDA_ARCHS=native "O=$build" "DESTDIR=$folder" prefix=/usr &&
        same "$(basename -a $man/*.[0-9])" "$(find "$folder/usr/share/man" -type f -printf '%f\n')" &&
        make -s uninstall "O=$build" "DESTDIR=$folder" prefix=/usr &&
        equal "$(find "$folder" -type f)" "$folder/etc/gpuimgd/gpuimgd.conf" || status=1
    rm -rf "$folder"
    return $status
}

main() {
    local page
    for page in "$man"/*.[0-9]; do
        if command -v mandoc >/dev/null; then
            check "mandoc accepts ${page##*/}" lint "$page"
            check "no blank before punctuation in ${page##*/}" rendered "$page"
        else
            echo "ok - mandoc accepts ${page##*/} # SKIP there is no mandoc here"
        fi
        check "pages that ${page##*/} refers to exist" references "$page"
    done
    check "the options are those of the table (gpuimgd --mdoc)" \
        diff <("$build/gpuimgd" --mdoc) <(options)
    check "formats and encoder parameters are those of the table (tests/tools/formats)" \
        diff <("$build/tests/tools/formats") \
        <(sed -n '/^\.\\" The formats begin here/,/^\.\\" The formats end here/p' "$job" | sed '1d;$d')
    check "the operations and the targets are those of their tables, in every document" \
        tests/operations.sh "$build" --check
    check "error codes, and the retried ones" same "$(sed -n 's/^code //p' <<<"$names")" \
        "$(sed -n '/^\.Sh ERROR CODES/,/^\.Sh EX/s/^\.It Ic //p' "$job" | sed 's/ Pq//')"
    check "keys of a job" same "$(between queue/job/check.c 'job_keys[] =' ';' '[a-z_]+"' | tr -d '"')" \
        "$(items "$job" 'JOB KEYS' Va)"
    check "keys of an output" \
        same "$(between queue/job/check.c 'output_keys[] =' ';' '"[a-z_]+"' | tr -d '"'
            sed -n 's/^PARAMETER(\([a-z_]*\),.*/\1/p' conf/formats.def)" \
        "$(items "$job" 'OUTPUT KEYS' Va)"
    check "keys of headers" \
        same "$(between queue/job/headers.c 'headers_keys[] =' ';' '"[a-z_]+"' | tr -d '"')" \
        "$(sed -n '/^\.It Va headers/,/^\.El/s/^\.It Li //p' "$job")"
    check "keys of a result" same "$(result_keys)" "$(page_result_keys)"
    check "statuses of a result" \
        same "$(grep -ohE '"(done|failed|dead|cancelled)"' daemon/pipeline/ack.c queue/lease/reap.c | sort -u | tr -d '"')" \
        "$(items "$job" 'RESULT KEYS' Li)"
    check "exit statuses, and 1 of --explain" \
        same "$(between daemon/daemon.h 'enum exit_status' '}' '[0-9]+'; echo 1)" \
        "$(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EX/s/^\.It //p' $daemon)"
    check "signals" same "$(between daemon/daemon.c 'int signals[] =' ';' 'SIG[A-Z0-9]+')" \
        "$(items $daemon SIGNALS Dv)"
    check "flags of the command line" same "$(flags)" "$(page_flags)"
    check "paths that HTTP serves" \
        same "$(grep -oE '^    \{"/[^"]*"' daemon/http/http_server.c | cut -d'"' -f2)" "$(items $daemon HTTP Pa)"
    check "keys of the stats line" \
        same "$(between daemon/telemetry/stats_line.c '"stats interval_s=' ';' '[a-z_0-9]+=' | tr -d '=')" \
        "$(items $daemon DIAGNOSTICS Va)"
    check "commands of gpuimgctl" \
        same "$("$build/gpuimgctl" -h | help_names Commands)" "$(items $ctl COMMANDS Ic)"
    check "options of gpuimgctl's commands" same "$(ctl_options)" "$(page_ctl_options)"
    check "exit statuses of gpuimgctl" \
        same "$(between queue/ctl/ctl.h 'enum ctl_exit' '}' '= [0-9]+' | tr -d '= ')" \
        "$(sed -n '/^\.Sh EXIT STATUS/,/^\.Sh EX/s/^\.It //p' $ctl)"
    check "make install installs all pages, and make uninstall keeps the configuration" installed
    [ "$failures" -eq 0 ]
}
main
