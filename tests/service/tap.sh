# shellcheck shell=bash
# tap.sh - prints checks as TAP lines; sourced by test scripts.

chapter() { printf '\n# %s\n' "$*"; }

failures=0
# check "what must be true" command...
check() {
    local what=$1 output status=0
    shift
    output=$("$@" 2>&1) || status=$?
    if [ $status -eq 0 ]; then
        echo "ok - $what"
    else
        failures=$((failures + 1))
        echo "not ok - $what"
        printf '    %s\n' "command: $*" "status:  $status"
        [ -z "$output" ] || head -40 <<<"$output" | sed 's/^/    | /'
    fi
}

not() { ! "$@"; }
equal() { [ "$1" = "$2" ] || { echo "got '$1', not '$2'"; false; }; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { print a, "<", b; exit !(a < b) }'; }
has() { grep -F -- "$2" >/dev/null <<<"$1" || { echo "no $2 in: $1"; false; }; }
seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN { printf "%.1f", b - a }'; }

# within SECONDS command... : repeats the command until it succeeds
within() {
    local limit=$1 start=$SECONDS
    shift
    until "$@" >/dev/null 2>&1; do
        [ $((SECONDS - start)) -lt "$limit" ] || { echo "not within $limit s"; "$@"; return 1; }
        sleep 0.1
    done
}
