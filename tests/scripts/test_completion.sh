#!/bin/bash
# Checks that the completion of gpuimgctl knows every command, option and operation of the program.
# Prints TAP. tests/scripts/test_completion.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit 1
ctl=$1/gpuimgctl
count=0 failures=0
ok() { # status name
    count=$((count + 1))
    [ "$1" = 0 ] || failures=$((failures + 1))
    [ "$1" = 0 ] || printf 'not '
    echo "ok $count - $2"
}

compopt() { :; } # no completion is running here
. "$1/queue/ctl/gpuimgctl.bash"

# Prints the completions of these words; the last word may be incomplete.
offered() {
    COMP_WORDS=(gpuimgctl "$@")
    COMP_CWORD=$#
    COMPREPLY=()
    _gpuimgctl
    printf '%s\n' "${COMPREPLY[@]}"
}
# Prints the words of standard input that are not offered.
missing() {
    local known word
    known=$(offered "$@")
    while read -r word; do grep -qxF -- "$word" <<<"$known" || echo "# not offered: $word"; done
}
told() { # both forms of the options in -h
    sed -nE 's/^ +(-(.), )?--([a-z-]+).*/\2 --\3/p' | grep -v -- '--name$' |
        while read -r letter long; do
            [ -n "$long" ] && echo "-$letter" || long=$letter
            echo "$long"
        done
}

commands=$("$ctl" -h | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ "$(wc -l <<<"$commands")" -ge 6 ]
ok $? "gpuimgctl -h lists its commands"
lacks=$(missing "" <<<"$commands")
[ -z "$lacks" ]
ok $? "every command is offered"
[ -z "$lacks" ] || echo "$lacks"
for command in $commands; do
    options=$("$ctl" "$command" -h | told)
    lacks=$(missing "$command" - <<<"$options")
    [ -z "$lacks" ] && [ "$(wc -l <<<"$options")" -ge 9 ]
    ok $? "every option of $command is offered"
    [ -z "$lacks" ] || echo "$lacks"
done
operations=$("$1/tests/tools/operations" names)
lacks=$(missing submit --ops "" <<<"$operations")
[ -z "$lacks" ] && [ "$(wc -l <<<"$operations")" -ge 20 ]
ok $? "every operation is offered after --ops"
[ -z "$lacks" ] || echo "$lacks"
offered submit --ops = grayscale,so | grep -qx grayscale,sobel
ok $? "the second of two operations is completed"
# Of rows with .becomes, jobs write no files.
formats=$(sed -n '/^FORMAT(/{:row; /)$/!{N; b row}; /\.becomes/!s/^FORMAT(\([a-z0-9]*\),.*/\1/p}' conf/formats.def)
[ -n "$formats" ] && [ "$(offered submit --format = "" | sort)" = "$(sort <<<"$formats")" ]
ok $? "formats are completed"
[ "$(offered submit --on-error "" | xargs)/$(offered submit --pack = "" | xargs)" = "skip fail/tar array" ]
ok $? "the values of --on-error and --pack are completed"
[ "$(offered submit --frames "" | xargs)" = "first all refuse strip:" ]
ok $? "the values of --frames are completed"
offered dead re | grep -qx retry
ok $? "the subcommands of dead are completed"
folder=$(mktemp -d)
touch "$folder/cat.jpg"
offered submit "$folder/c" | grep -qx "$folder/cat.jpg"
ok $? "file names are completed"
offered submit --shards "$folder/c" | grep -qx "$folder/cat.jpg"
ok $? "archives are completed after --shards"
rm -rf "$folder"
echo "1..$count"
exit $((failures > 0))
