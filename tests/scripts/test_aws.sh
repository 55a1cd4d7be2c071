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
s3=$(python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
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
    start_daemon "$at/photos/ aws:eu-west-1 $at/elsewhere/ aws:us-east-1" "${static[@]}"
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
    check "an error of S3 has its code" job_is '(AuthorizationHeaderMalformed)' \
        "$(job /elsewhere/in/p.png /photos/e.png)"
    check "no signature was wrong" equal "$(count 's3 SignatureDoesNotMatch')" 0
    stop
}

# ---- keys of roles ------------------------------------------------------------------------------

readonly signed=$at/photos/ arn=arn:aws:iam::123456789012:role/photos
readonly instance=(AWS_EC2_METADATA_SERVICE_ENDPOINT="$at/")
readonly web_identity=(AWS_ENDPOINT_URL_STS="$at/sts" "AWS_ROLE_ARN=$arn"
    AWS_WEB_IDENTITY_TOKEN_FILE="$dir/web-token")
readonly container=(AWS_CONTAINER_CREDENTIALS_FULL_URI="$at/container"
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$dir/container-token")
good='{"mode":"ok","lifetime":3600,"clock_offset":0,"no_role":false,"status":500,
    "web_token":"web+token/1=","container_token":"Bearer.1"}'
printf 'web+token/1=\n' >"$dir/web-token"
printf 'Bearer.1' >"$dir/container-token"
job_is_done() { job_is '"status":"done"' "$(job /photos/in/p.png /photos/o.png)"; }
keys_given() { [ "$(count keys)" -ge "$1" ]; }
says() { grep -qF -- "$1" "$log"; }
secrets_are_hidden() { # in the log: neither keys nor tokens
    not grep -qE 'ASIA|web.token|Bearer\.|/\+==' "$log"
}

test_role() { # ROLE VARIABLE...
    local role=$1 before
    shift
    chapter "the role $role"
    control "$good"
    before=$(count keys)
    start_daemon "$signed aws:eu-west-1:@$role" "$@"
    check "jobs are signed with its keys" job_is_done
    check "and again" job_is_done
    check "one answer is enough" equal "$(count keys)" $((before + 1))
    check "the log says so" says "the role $role has keys for 3"
    check "the log has no secrets" secrets_are_hidden
    stop
}

# The keys end after 10 s, and the daemon asks again after 5. While the server fails, the old keys
# count until 2 s before their end.
test_refresh() { # ROLE VARIABLE...
    local role=$1 before result
    shift
    chapter "new keys of $role, and a server that fails"
    control "$good"
    control '{"lifetime":10}'
    before=$(count keys)
    start_daemon "$signed aws:eu-west-1:@$role" "$@"
    check "a job" job_is_done
    check "new keys come before the end" within 12 keys_given $((before + 2))
    check "a job after that" job_is_done
    control '{"mode":"status","status":503}'
    check "the failure is logged" within 12 says "status 503, AccessDenied; the old keys end in"
    check "the old keys are still used" job_is_done
    check "their end is logged" within 12 says "until it gets some, jobs with URLs like $signed fail"
    result=$(run_job "$(job /photos/in/p.png /photos/o.png)")
    check "then jobs fail and can be retried" \
        has "$result" '"error":{"code":"input_unreadable"'
    check "the message names the server" has "$result" "the role $role gets no keys: $at"
    result=$(run_job "{\"input\":\"p.png\",\"output\":{\"url\":\"$signed/o.png\"},\"ops\":[\"invert\"]}")
    check "uploads, too" has "$result" '"code":"write_failed"'
    check "jobs with files go on" job_is '"status":"done"' '{"input":"p.png","output":"o.png"}'
    control "$good"
    check "jobs run again when the server answers" within 20 job_is_done
    check "no key was used after its end" equal "$(count 's3 ExpiredToken')" 0
    stop
}

# Each answer that is not keys: the daemon starts, says why, and its jobs fail with the reason.
refused() { # WHAT STATE TEXT ROLE VARIABLE...
    local what=$1 change=$2 text=$3 role=$4 start
    shift 4
    control "$good"
    control "$change"
    start_daemon "$signed aws:eu-west-1:@$role" "$@"
    start=$(seconds)
    check "$role, $what: the job fails and can be retried" \
        job_is '"retryable":true' "$(job /photos/in/p.png /photos/o.png)"
    check "it waits 7 s at most" less "$(since "$start")" 7
    check "the reason is logged" says "$text"
    control "$good"
    kill -HUP "$daemon"
    check "after a reload, the next keys are taken" within 10 job_is_done
    stop_daemon
}
test_refusals() {
    chapter "answers that are not keys"
    refused "no role" '{"no_role":true}' 'status 404; the instance has no role' instance \
        "${instance[@]}"
    refused "version 1 alone" '{"mode":"status","status":404}' \
        'instance metadata version 2 must be enabled' instance "${instance[@]}"
    refused "a slow server" '{"mode":"slow"}' 'hop limit must be 2' instance "${instance[@]}"
    refused "a header in the token" '{"mode":"injection"}' 'the answer has no Token' instance \
        "${instance[@]}"
    refused "garbage" '{"mode":"garbage"}' 'the answer is' instance "${instance[@]}"
    refused "a redirect" '{"mode":"redirect"}' 'status 302' container "${container[@]}"
    refused "garbage" '{"mode":"garbage"}' 'is neither JSON nor XML' container "${container[@]}"
    refused "a huge answer" '{"mode":"huge"}' 'the answer is too long' container "${container[@]}"
    refused "headers without an end" '{"mode":"headers"}' 'the answer is too long' container \
        "${container[@]}"
    refused "a byte from time to time" '{"mode":"drip"}' 'gets no keys' container "${container[@]}"
    refused "another token" '{"container_token":"B"}' \
        'status 403, InvalidAuthorizationToken; check the role of the task' container "${container[@]}"
    refused "keys that have ended" '{"mode":"ended"}' 'its keys ended 6' web-identity \
        "${web_identity[@]}"
    refused "a token that does not count" '{"web_token":"other"}' \
        'status 400, InvalidIdentityToken; check AWS_ROLE_ARN' web-identity "${web_identity[@]}"
    refused "a refusal" '{"mode":"status","status":403}' 'status 403, AccessDenied' web-identity \
        "${web_identity[@]}"
    refused "garbage" '{"mode":"garbage"}' 'is neither JSON nor XML' web-identity \
        "${web_identity[@]}"
    check "the requests of jobs were never unsigned" equal "$(count 's3 AccessDenied')" 0
}

# A server that answers late delays only the jobs that need the first keys.
test_late_answers() {
    chapter "late answers"
    local i start done=0
    control "$good"
    control '{"mode":"late"}'
    start_daemon "$signed aws:eu-west-1:@instance" "${instance[@]}" --inflight=40
    for i in $(seq 20); do
        ask_redis LPUSH gpuimgd:jobs "$(job /photos/in/p.png "/photos/$i.png")" >"$dir/null"
    done
    check "a job with files does not wait" \
        has "$(ask_redis LPUSH gpuimgd:jobs '{"input":"p.png","output":"o.png"}' >"$dir/null"
            ask_redis BRPOP gpuimgd:results 10)" '"path":"o.png"'
    for i in $(seq 20); do
        has "$(ask_redis BRPOP gpuimgd:results 20)" '"status":"done"' && done=$((done + 1))
    done
    check "20 jobs wait for the keys" equal "$done" 20
    control '{"mode":"slow"}'
    i=$(count role)
    kill -HUP "$daemon"
    within 10 eval '[ "$(count role)" -gt "$i" ]'
    start=$(seconds)
    for i in 1 2 3; do check "jobs go on with the old keys" job_is_done; done
    check "without waiting" less "$(since "$start")" 3
    stop
}

test_token_files() {
    chapter "files with tokens are read each time"
    control "$good"
    control '{"lifetime":6}'
    start_daemon "$signed aws:eu-west-1:@web-identity $at/other/ aws:eu-west-1:@container" \
        "${web_identity[@]}" "${container[@]}"
    check "a job" job_is_done
    local before
    before=$(count keys)
    control '{"web_token":"second.token","container_token":"second"}'
    printf 'second.token' >"$dir/web-token"
    printf 'second\n' >"$dir/container-token"
    check "both roles get new keys" within 10 keys_given $((before + 2))
    rm "$dir/web-token"
    check "a missing file is logged" within 10 says 'the role web-identity needs the file of AWS_WEB'
    stop
    printf 'web+token/1=\n' >"$dir/web-token"
    printf 'Bearer.1' >"$dir/container-token"
}

test_clock() {
    chapter "the server's clock is two hours behind"
    control "$good"
    control '{"clock_offset":-7200}'
    start_daemon "$signed aws:eu-west-1:@instance" "${instance[@]}"
    check "its keys are used" job_is_done
    check "the log says so" says 'ahead of that of'
    stop
}

test_reload() {
    chapter "a reload"
    control "$good"
    printf 'url_prefixes = %s aws:eu-west-1:@instance\n' "$signed" >"$dir/gpuimgd.conf"
    local before after
    run_daemon env "${instance[@]}" "${web_identity[@]}" "$program" -c "$dir/gpuimgd.conf" \
        "--redis=unix:$dir/redis.sock" "--input_root=$dir/in" "--output_root=$dir/out" \
        --engine=cpu --workers=2 --attempts=1 --url_networks=127.0.0.0/8
    within 20 says connected
    check "a job" job_is_done
    before=$(count keys)
    kill -HUP "$daemon"
    check "it asks for new keys" within 10 keys_given $((before + 1))
    printf 'url_prefixes = %s aws:eu-west-1:@container\n' "$signed" >"$dir/gpuimgd.conf"
    kill -HUP "$daemon"
    check "a role without its environment is refused" \
        within 10 says 'needs AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or'
    check "the old prefixes stay" job_is_done
    # The first answer never comes; the reload takes the prefix away while a job waits for keys.
    control '{"mode":"slow"}'
    printf 'url_prefixes = %s aws:eu-west-1:@web-identity\n' "$signed" >"$dir/gpuimgd.conf"
    kill -HUP "$daemon"
    within 10 eval '[ "$(grep -c "configuration reloaded" "$log")" -ge 3 ]'
    ask_redis LPUSH gpuimgd:jobs "$(job /photos/in/p.png /photos/o.png)" >"$dir/null"
    sleep 0.5
    printf 'url_prefixes = https://other.example/\n' >"$dir/gpuimgd.conf"
    kill -HUP "$daemon"
    check "a job that waits for keys ends" has "$(ask_redis BRPOP gpuimgd:results 3)" path_refused
    control "$good"
    after=$(count role)
    sleep 1.5
    check "a role that is no longer named is not asked" equal "$(count role)" "$after"
    stop
}

# A URL of a job never leads to a server of roles, even over a connection that the daemon has open.
test_urls_of_roles() {
    chapter "URLs of jobs do not lead to roles"
    control "$good"
    start_daemon "$signed aws:eu-west-1:@instance" "${instance[@]}"
    check "the role has keys" within 10 says 'has keys'
    check "not by a URL" job_is '"code":"path_refused"' \
        "$(job /latest/meta-data/iam/security-credentials/photos+role /photos/o.png)"
    stop
    start_daemon "$at/ aws:eu-west-1:@instance http://169.254.169.254/" "${instance[@]}" \
        --url_networks=192.0.2.0/24
    check "the role has keys" within 10 says 'has keys'
    check "not over the role's connection" job_is '(loopback); the option url_networks' \
        "$(job /latest/meta-data/iam/security-credentials/photos+role /photos/o.png)"
    check "not to the metadata server" job_is '169.254.169.254 (link-local)' \
        '{"input":{"url":"http://169.254.169.254/latest/meta-data/"},"output":"o.png"}'
    stop
    local before
    before=$(count role)
    start_daemon "$signed aws:eu-west-1" "${static[@]}" "${instance[@]}" "${web_identity[@]}" \
        "${container[@]}"
    check "a job with other keys" job_is_done
    check "asks no role" equal "$(count role)" "$before"
    stop
}

# ---- gpuimgd -t ---------------------------------------------------------------------------------

tested() { # TEXT PREFIXES [VARIABLE=VALUE...]: -t says TEXT
    local text=$1 prefixes=$2
    shift 2
    has "$(env "$@" "$program" -t -c /dev/null "--input_root=$dir/in" "--output_root=$dir/out" \
        "--url_prefixes=$prefixes" 2>&1)" "$text"
}
test_configuration() {
    chapter "gpuimgd -t names what is missing"
    local two="https://a/ aws:eu https://b/x aws:us:@container"
    check "a key of the first prefix" \
        tested 'aws:eu of https://a/ needs AWS_SECRET_ACCESS_KEY, which is not set' "$two" \
        AWS_ACCESS_KEY_ID=A
    check "and the address of the second" tested \
        'aws:us:@container of https://b/x needs AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or' "$two"
    check "a role's name" \
        tested 'aws:eu:@web-identity of https://a/ needs AWS_ROLE_ARN, which is not set' \
        "https://a/ aws:eu:@web-identity"
    check "a token file" tested 'needs the file of AWS_WEB_IDENTITY_TOKEN_FILE: cannot open' \
        "https://a/ aws:eu:@web-identity" "AWS_ROLE_ARN=$arn" AWS_WEB_IDENTITY_TOKEN_FILE=/none
    check "an address of another host without TLS" tested 'needs https, or an address of this host' \
        "https://a/ aws:eu:@container" AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/
    check "a wrong role" tested '"aws:eu:@instanc", which must be' "https://a/ aws:eu:@instanc"
    control '{"no_role":true}'
    check "an instance without a role" tested \
        'the instance has no role; attach an instance profile; until it gets some, jobs with URLs like https://a/ fail' \
        "https://a/ aws:eu:@instance" "${instance[@]}"
    control "$good"
    check "a role that gives keys" tested 'the role instance has keys for' \
        "https://a/ aws:eu:@instance" "${instance[@]}"
}

curl -sS "$at/image" -o "$dir/in/p.png"
test_headers
test_role instance "${instance[@]}"
test_role web-identity "${web_identity[@]}"
test_role container "${container[@]}"
test_refresh instance "${instance[@]}"
test_refusals
test_late_answers
test_token_files
test_clock
test_reload
test_urls_of_roles
test_configuration
exit $((failures > 0))
