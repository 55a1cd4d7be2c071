#!/bin/bash
# Tests S3 with a server that checks signatures by AWS's rules, and keys of roles:
# tests/scripts/test_aws.sh BUILD
#
# tests/scripts/aws_server.py is that server. It also plays the instance metadata, STS and a
# container's endpoint. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
build=${1:?usage: tests/scripts/test_aws.sh BUILD, such as build/release}
need_tools redis-server redis-cli python3 curl
program=$PWD/$build/gpuimgd
if ! ldd "$program" 2>/dev/null | grep libcurl >/dev/null; then
    echo "ok - ${0##*/} # SKIP this build has no libcurl"
    exit 77
fi
make_world aws
# Keys of the user who runs the test must not take part.
for name in $(compgen -e AWS_); do unset "$name"; done
start_redis "$dir" --port || exit 1
mkdir -p "$dir/in" "$dir/out"
s3=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
readonly at=http://127.0.0.1:$s3
python3 -B tests/scripts/aws_server.py "$s3" >"$dir/server.log" 2>&1 &
control() { curl -sS -X PUT -d "$1" -o "$dir/null" "$at/control"; }
count() { # NAME: how often the server has seen it
    curl -sS "$at/control" | python3 -c 'import json, sys
print(json.load(sys.stdin)["counts"].get(sys.argv[1], 0))' "$1"
}
check "the server starts" within 20 curl -sf -o "$dir/null" "$at/control"

# start_daemon PREFIX_OPTIONS [VARIABLE=VALUE|--OPTION...]
start_daemon() {
    local prefixes=$1 variables=() options=() word
    shift
    for word; do
        case $word in --*) options+=("$word") ;; *) variables+=("$word") ;; esac
    done
    run_daemon env "${variables[@]}" "$program" -c /dev/null "--redis=unix:$dir/redis.sock" \
        "--input_root=$dir/in" "--output_root=$dir/out" --engine=cpu --workers=2 --attempts=1 \
        --url_networks=127.0.0.0/8 "--url_prefixes=$prefixes" "${options[@]}"
    within 20 grep -q 'connected' "$log"
}
run_job() { # JSON: prints the result
    ask_redis LPUSH gpuimgd:jobs "$1" >"$dir/null"
    ask_redis BRPOP gpuimgd:results 60 | tail -n +2
}
job_is() { has "$(run_job "$2")" "$1"; } # "what the result has" JSON
stop() {
    stop_daemon
    check "the daemon stops with status 0" equal "$exit_status" 0
}
job() { # INPUT OUTPUT [MORE]
    echo "{\"input\":{\"url\":\"$at$1\"},\"output\":{\"url\":\"$at$2\"${3:-}},\"ops\":[\"invert\"]}"
}
readonly static=(AWS_ACCESS_KEY_ID=AKSTATIC AWS_SECRET_ACCESS_KEY=secret/of+static)

# ---- headers of uploads -------------------------------------------------------------------------

headers_are() { # OBJECT JSON
    curl -sS "$at/headers$1" | python3 -c '
import json, sys
got, wanted = json.load(sys.stdin), json.loads(sys.argv[1])
sys.exit(0 if got == wanted else "got %s" % got)' "$2"
}
test_headers() {
    chapter "headers of uploads"
    start_daemon "$at/photos/ aws:eu-west-1" "${static[@]}"
    check "an upload without headers" job_is '"status":"done"' "$(job /photos/in/p.png /photos/a.png)"
    check "it has its type alone" headers_are /photos/a.png '{"content-type":"image/png"}'
    check "an upload with headers" job_is '"status":"done"' "$(job /photos/in/p.png /photos/b.png \
        ',"headers":{"cache_control":"public,  max-age=31536000, immutable",
        "content_disposition":"attachment; filename=\"a b.png\"; filename*=UTF-8'"''"'na%C3%AFve.png",
        "metadata":{"user":"7","source_url":"https://h/a?b=c","z.1":"a: b; c"}}')"
    check "the server has them, and all are signed" headers_are /photos/b.png \
        '{"content-type":"image/png","cache-control":"public,  max-age=31536000, immutable",
        "content-disposition":"attachment; filename=\"a b.png\"; filename*=UTF-8'"''"'na%C3%AFve.png",
        "x-amz-meta-user":"7","x-amz-meta-source_url":"https://h/a?b=c","x-amz-meta-z.1":"a: b; c"}'
    local result
    result=$(run_job "$(job /photos/in/p.png /photos/c.png ',"headers":{"metadata":{"a":"1","a-b":"2"}}')")
    check "names that begin alike are signed, or refused by an old libcurl" \
        grep -qE '"status":"done"|cannot sign the metadata' <<<"$result"
    check "a line break is refused" job_is '"code":"bad_job"' "$(job /photos/in/p.png /photos/d.png \
        ',"headers":{"cache_control":"a\r\nx-amz-meta-evil: 1"}')"
    check "headers of a file are refused" job_is 'output.headers is for an output with a url' \
        '{"input":"p.png","output":{"path":"o.png","headers":{"cache_control":"a"}}}'
    check "no signature was wrong" equal "$(count 's3 SignatureDoesNotMatch')" 0
    stop
}

test_headers
exit $((failures > 0))
