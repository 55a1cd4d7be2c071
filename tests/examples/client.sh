#!/bin/bash
# Runs one job on an image below gpuimgd's input_root and waits for the result (redis-cli 7):
# REDIS=host:port client.sh SECONDS INPUT OUTPUT OPERATION...
#
# Prints the output's path, or to standard error the result of a job that failed, as JSON. Exit
# status: 0 done, 1 the job failed, 2 no result in time, 3 Redis, 64 usage. PRIORITY=0 to 9 selects
# the list of that priority, ID is the job's id. SHARDS is the daemons' option; REDIS may then name
# several servers, with spaces. Set a password for Redis in REDISCLI_AUTH.
set -uo pipefail

usage() {
    echo "usage: REDIS=host:port $0 SECONDS INPUT OUTPUT OPERATION..." >&2
    exit 64
}
[ $# -ge 4 ] || usage
readonly seconds=$1 input=$2 output=$3 shards=${SHARDS:-1} number=$RANDOM$RANDOM
shift 3

# Names that need JSON escapes are not supported here; the other clients support them.
case ${ID:-}$input$output$* in *[\"\\[:cntrl:]]*) usage ;; esac
case $seconds in '' | *[!0-9]*) usage ;; esac
case ${PRIORITY:-} in '' | [0-9]) ;; *) usage ;; esac
ops=$(printf '"%s",' "$@")
read -ra servers <<<"${REDIS:-127.0.0.1:6379}"

# The shard of an id is its CRC-32, which gzip writes after the data. Without an id, any shard.
crc=$([ -z "${ID:-}" ] || printf %s "$ID" | gzip -c | tail -c 8 | od -An -N4 -tu4 --endian=little)
readonly shard=$((${crc:-10#$number} % shards))
readonly redis=${servers[shard % ${#servers[@]}]}
if [ "$shards" -gt 1 ]; then ns={gpuimgd:$shard}; else ns=gpuimgd; fi
readonly reply_to=$ns:reply:$HOSTNAME-$$-$number # a private list

# -e gives an error reply an exit status; timeout ends redis-cli if Redis does not answer.
redis() { timeout $((seconds + 5)) redis-cli -e -h "${redis%:*}" -p "${redis##*:}" --raw "$@"; }

redis LPUSH "$ns:jobs${PRIORITY:+:$PRIORITY}" "{\"input\":\"$input\",\"output\":\"$output\",
    ${ID:+\"id\":\"$ID\",}${PRIORITY:+\"priority\":$PRIORITY,}
    \"ops\":[${ops%,}],\"pushed\":$(date +%s),\"reply_to\":\"$reply_to\"}" >/dev/null || exit 3

# BRPOP prints the list's name, then the result in one line, or nothing after its timeout.
result=$(redis BRPOP "$reply_to" "$seconds") || exit 3
result=${result#*$'\n'}
case $result in
'')
    echo "no result within $seconds s" >&2
    exit 2 ;;
*'"status":"done"'*) # inside a string the quotes would have backslashes
    echo "$output" ;;
*) # failed, or dead after several attempts
    printf '%s\n' "$result" >&2
    exit 1 ;;
esac
