#!/bin/bash
# Tests S3 with a server that checks signatures by AWS's rules, and keys of roles:
# tests/scripts/test_aws.sh BUILD
#
# tests/scripts/aws_server.py is that server. It also plays the instance metadata, STS and a
# container's endpoint. Much of the test waits for keys to end, so its parts run at the same time,
# each with a server, a namespace of Redis and daemons of its own. Prints TAP.
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

# ---- parts --------------------------------------------------------------------------------------

readonly arn=arn:aws:iam::123456789012:role/photos
readonly static=(AWS_ACCESS_KEY_ID=AKSTATIC AWS_SECRET_ACCESS_KEY=secret/of+static)
readonly good='{"mode":"ok","lifetime":3600,"clock_offset":0,"no_role":false,"status":500,
    "web_token":"web+token/1=","container_token":"Bearer.1"}'

free_port() {
    python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
# part NAME FUNCTION...: runs the functions in the background; show_parts prints their checks.
parts=() part_jobs=()
part() {
    run_part "$@" >"$dir/$1.tap" 2>&1 &
    parts+=("$1") part_jobs+=($!)
}
run_part() {
    trap 'mapfile -t running < <(jobs -pr); kill "${running[@]}" 2>/dev/null; wait' EXIT
    trap 'exit 130' INT TERM
    part=$1
    shift
    log=$dir/$part.log
    local port function
    port=$(free_port)
    at=http://127.0.0.1:$port signed=http://127.0.0.1:$port/photos/
    instance=(AWS_EC2_METADATA_SERVICE_ENDPOINT="$at/")
    web_identity=(AWS_ENDPOINT_URL_STS="$at/sts" "AWS_ROLE_ARN=$arn"
        AWS_WEB_IDENTITY_TOKEN_FILE="$dir/$part.web-token")
    # As on ECS, the path is a secret.
    container=(AWS_CONTAINER_CREDENTIALS_FULL_URI="$at/container/5f1c3b1e-PATH"
        AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$dir/$part.container-token")
    printf 'web+token/1=\n' >"$dir/$part.web-token"
    printf 'Bearer.1' >"$dir/$part.container-token"
    python3 -B tests/scripts/aws_server.py "$port" >"$dir/$part.server.log" 2>&1 &
    check "the server of the part $part starts" within 20 curl -sf -o "$dir/$part.png" "$at/image"
    mv "$dir/$part.png" "$dir/in/"
    for function; do
        control "$good"
        $function
    done
    echo $failures >"$dir/$part.failures"
}
show_parts() {
    local part
    wait "${part_jobs[@]}"
    for part in "${parts[@]}"; do
        cat "$dir/$part.tap"
        failures=$((failures + $(cat "$dir/$part.failures" || echo 1)))
    done
}

control() { curl -sS -X PUT -d "$1" -o "$dir/null" "$at/control"; }
count() { curl -sS "$at/count/$1"; } # NAME: how often the server has seen it

# start_daemon PREFIX_OPTIONS [VARIABLE=VALUE|--OPTION...]
start_daemon() {
    local prefixes=$1 variables=() options=() word
    shift
    for word; do
        case $word in --*) options+=("$word") ;; *) variables+=("$word") ;; esac
    done
    printf 'url_prefixes = %s\n' "$prefixes" >"$dir/$part.conf"
    run_daemon env "${variables[@]}" "$program" -c "$dir/$part.conf" "--namespace=$part" \
        "--redis=unix:$dir/redis.sock" "--input_root=$dir/in" "--output_root=$dir/out" \
        --engine=cpu --workers=2 --attempts=1 --url_networks=127.0.0.0/8 "${options[@]}"
    within 20 says 'connected'
}
stop() {
    stop_daemon
    check "the daemon stops with status 0" equal "$exit_status" 0
}
reload() {
    local before
    before=$(grep -c 'configuration reloaded' "$log")
    kill -HUP "$daemon"
    within 10 reloaded_after "$before"
}
# limit_patience [SECONDS]: sets how long jobs wait for keys, and reloads; without SECONDS: 30
limit_patience() {
    sed -i '/url_timeout_s/d' "$dir/$part.conf"
    [ $# = 0 ] || echo "url_timeout_s = $1" >>"$dir/$part.conf"
    reload
}
reloaded_after() { [ "$(grep -c 'configuration reloaded' "$log")" -gt "$1" ]; }

send_job() { ask_redis LPUSH "$part:jobs" "$@" >"$dir/null"; }
next_result() { ask_redis BRPOP "$part:results" "${1:-60}" | tail -n +2; }
run_job() { send_job "$1" && next_result; } # JSON: prints the result
job_is() { has "$(run_job "$2")" "$1"; }    # "what the result has" JSON
job() { # INPUT OUTPUT [MORE]
    echo "{\"input\":{\"url\":\"$at$1\"},\"output\":{\"url\":\"$at$2\"${3:-}},\"ops\":[\"invert\"]}"
}
files_job() { echo "{\"input\":\"$part.png\",\"output\":\"$part.o.png\"}"; }
job_is_done() { job_is '"status":"done"' "$(job /photos/in/p.png /photos/o.png)"; }
keys_given() { [ "$(count keys)" -ge "$1" ]; }
asked_after() { [ "$(count role)" -gt "$1" ]; }
says() { grep -qF -- "$1" "$log"; }

# ---- headers of uploads -------------------------------------------------------------------------

headers_are() { # OBJECT JSON
    curl -sS "$at/headers$1" | python3 -c '
import json, sys
got, wanted = json.load(sys.stdin), json.loads(sys.argv[1])
sys.exit(0 if got == wanted else "got %s" % got)' "$2"
}
test_headers() {
    chapter "headers of uploads"
    start_daemon "$signed aws:eu-west-1 $at/elsewhere/ aws:us-east-1" "${static[@]}"
    check "an upload without headers" \
        job_is '"status":"done"' "$(job /photos/in/p.png /photos/a.png)"
    check "it has its type alone" headers_are /photos/a.png '{"content-type":"image/png"}'
    local name="attachment; filename=\\\"a b.png\\\"; filename*=UTF-8''na%C3%AFve.png"
    check "an upload with headers" job_is '"status":"done"' "$(job /photos/in/p.png /photos/b.png \
        ",\"headers\":{\"cache_control\":\"public,  max-age=31536000, immutable\",
        \"content_disposition\":\"$name\",
        \"metadata\":{\"user\":\"7\",\"source_url\":\"https://h/a?b=c\",\"z.1\":\"a: b; c\"}}")"
    check "the server has them, and all are signed" headers_are /photos/b.png \
        "{\"content-type\":\"image/png\",\"cache-control\":\"public,  max-age=31536000, immutable\",
        \"content-disposition\":\"$name\",\"x-amz-meta-user\":\"7\",
        \"x-amz-meta-source_url\":\"https://h/a?b=c\",\"x-amz-meta-z.1\":\"a: b; c\"}"
    check "names that begin alike are signed, or refused by an old libcurl" \
        alike '"metadata":{"a":"1","a-b":"2"}'
    check "the largest headers fit" job_is '"status":"done"' "$(largest_headers)"
    check "a line break is refused" job_is '"code":"bad_job"' "$(job /photos/in/p.png \
        /photos/d.png ',"headers":{"cache_control":"a\r\nx-amz-meta-evil: 1"}')"
    check "headers of a file are refused" job_is 'output.headers is for an output with a url' \
        '{"input":"p.png","output":{"path":"o.png","headers":{"cache_control":"a"}}}'
    check "an error of S3 has its code" job_is '(AuthorizationHeaderMalformed)' \
        "$(job /elsewhere/in/p.png /photos/e.png)"
    check "no signature was wrong" equal "$(count s3%20SignatureDoesNotMatch)" 0
    stop
}
largest_headers() {
    python3 -c 'import json, sys
metadata = {"%064d" % i: "v" for i in range(31)}
metadata["z"] = "v" * (2048 - 31 * 65 - 1)
print(json.dumps({"input": {"url": sys.argv[1] + "in/p.png"}, "output": {
    "url": sys.argv[1] + "largest.png", "headers": {
        "cache_control": "c" * 1024, "content_disposition": "d" * 1024, "metadata": metadata}}}))' \
        "$signed"
}
alike() {
    local result
    result=$(run_job "$(job /photos/in/p.png /photos/c.png ",\"headers\":{$1}")")
    grep -qE '"status":"done"|cannot sign the metadata' <<<"$result" || has "$result" "a signature"
}

# ---- keys of roles ------------------------------------------------------------------------------

test_role() { # ROLE VARIABLE...
    local role=$1 before
    shift
    chapter "the role $role"
    before=$(count keys)
    start_daemon "$signed aws:eu-west-1:@$role" "$@"
    check "jobs are signed with its keys" job_is_done
    check "and again" job_is_done
    check "the token does not fit beside the largest headers" \
        job_is 'status 400 (RequestHeaderSectionTooLarge)' "$(largest_headers)"
    check "one answer is enough" equal "$(count keys)" $((before + 1))
    check "the log says so" says "the role $role has keys for 3"
    stop
}
test_roles() {
    test_role instance "${instance[@]}"
    test_role web-identity "${web_identity[@]}"
    test_role container "${container[@]}"
}

# The keys end after 10 s, and the daemon asks again after 5. While the server fails, the old keys
# count until 2 s before their end. Then jobs wait.
test_end_of_keys() {
    chapter "keys that end while the server fails"
    local result i
    control '{"lifetime":10}'
    start_daemon "$signed aws:eu-west-1:@instance $at/image" "${instance[@]}" --hang_grace_s=0.1 \
        --metrics_listen="unix:$dir/$part.http"
    check "a job" job_is_done
    control '{"mode":"status","status":503}'
    check "the failure is logged" within 12 says "status 503, AccessDenied; the old keys end in"
    check "the old keys are still used" job_is_done
    check "their end is logged" within 12 says "until it gets some, jobs with URLs like $signed"
    limit_patience 0.2
    result=$(run_job "$(job /photos/in/p.png /photos/o.png)")
    check "then jobs fail and can be retried" has "$result" '"error":{"code":"input_unreadable"'
    check "the message names the server" has "$result" "the role instance gets no keys: $at"
    check "uploads, too" job_is '"code":"write_failed"' \
        "$(upload_job)"
    limit_patience
    ask_redis -x SET "$part:img:logo" <"$dir/in/$part.png" >"$dir/null"
    send_job "$(upload_job)" "$(job /photos/in/p.png /photos/o.png)" "$(overlay_job)"
    sleep 3
    check "but at first they wait: jobs with files overtake them" \
        job_is "\"path\":\"$part.o.png\"" "$(files_job)"
    check "and so do those with other URLs" \
        job_is "\"path\":\"$part.i.png\"" "{\"input\":{\"url\":\"$at/image\"},\"output\":\"$part.i.png\"}"
    check "the daemon says so" shows metrics 'reason="keys"} 1'
    check "with the reason" shows status.json 'jobs wait for keys: the role instance gets no keys'
    check "and is healthy" shows healthz running
    control "$good"
    reload
    check "they run when the server answers" \
        equal "$(for i in 1 2 3; do next_result; done | grep -c '"status":"done"')" 3
    check "and so do others" job_is_done
    check "then nothing blocks" within 5 shows metrics 'reason="keys"} 0'
    check "no key was used after its end" equal "$(count s3%20ExpiredToken)" 0
    stop
}

upload_job() {
    echo "{\"input\":\"$part.png\",\"output\":{\"url\":\"${signed}o.png\"},\"ops\":[\"invert\"]}"
}
# It holds the overlay while it waits for keys.
overlay_job() {
    job /photos/in/p.png /photos/c.png |
        sed "s/\"ops\":.*/\"ops\":[{\"op\":\"composite\",\"input\":{\"key\":\"$part:img:logo\"}}]}/"
}
shows() { # PATH TEXT: the daemon's HTTP server has TEXT there
    has "$(curl -sS --unix-socket "$dir/$part.http" "http://localhost/$1")" "$2"
}

# Starts a daemon with three roles. The bucket of a job chooses its role.
start_roles() {
    start_daemon "$signed aws:eu-west-1:@instance $at/other/ aws:eu-west-1:@container \
$at/third/ aws:eu-west-1:@web-identity" --inflight=40 "${instance[@]}" "${container[@]}" \
        "${web_identity[@]}"
}
failing() { # WHAT TEXT BUCKET...: jobs of these buckets fail, and the message has TEXT
    local what=$1 text=$2 bucket result
    shift 2
    for bucket; do
        result=$(run_job "$(job "/$bucket/in/p.png" "/$bucket/o.png")")
        echo "$result" >>"$dir/$part.results"
        check "$what: jobs fail and can be retried" has "$result" '"retryable":true'
        check "with the reason" says "$text"
    done
}
refused() { # WHAT STATE TEXT BUCKET...
    control "$2"
    reload
    failing "$1" "${@:3}"
}
test_refusals() {
    chapter "answers that are not keys"
    control '{"mode":"garbage"}'
    start_roles
    limit_patience 0.2
    failing garbage 'is neither JSON nor XML' other third
    failing "no token" 'the answer is no token' photos
    refused "no role" '{"mode":"ok","no_role":true,"container_token":"B","web_token":"C"}' \
        'status 404; the instance has no role' photos
    failing "another token" 'status 403, InvalidAuthorizationToken; check the role of the task' other
    failing "another token" 'status 400, InvalidIdentityToken; check AWS_ROLE_ARN' third
    refused "status 404" '{"mode":"status","status":404}' \
        'instance metadata version 2 must be enabled' photos
    refused "status 403" '{"mode":"status","status":403}' 'status 403, AccessDenied' other third
    refused "a redirect" '{"mode":"redirect"}' 'status 302' photos other third
    refused "huge answers" '{"mode":"huge"}' 'the answer is too long' other
    refused "headers without an end" '{"mode":"headers"}' 'the answer is too long' third
    control "$good"
    refused "a header in the token" \
        '{"mode":{"instance":"injection","container":"ended","web-identity":"ending"}}' \
        'the answer has no Token' photos
    failing "keys that have ended" 'its keys ended 6' other
    failing "keys that are about to end" 'its keys end in ' third
    check "no request of these jobs came to S3" equal "$(count s3%20AccessDenied)" 0
    control "$good"
    limit_patience
    check "then keys are taken" job_is_done
    stop
}

# A server that answers late, or not at all, delays only the jobs that need the first keys.
test_slow_servers() {
    chapter "slow servers"
    local i start results sent=()
    control '{"mode":{"instance":"late","web-identity":"slow","container":"drip"}}'
    start_roles
    limit_patience 3
    for i in other third; do sent+=("$(job "/$i/in/p.png" "/$i/o.png")"); done
    for i in $(seq 20); do sent+=("$(job /photos/in/p.png "/photos/$i.png")"); done
    start=$(seconds)
    send_job "${sent[@]}" "$(files_job)"
    results=$(for i in $(seq 23); do next_result; done)
    check "the jobs with files and with late keys wait for no other role" \
        equal "$(head -21 <<<"$results" | grep -c '"status":"done"')" 21
    check "silence ends, and so does a byte from time to time" \
        equal "$(tail -2 <<<"$results" | grep -c 'Operation timed out')" 2
    check "after about 5 s" less "$(since "$start")" 12
    control '{"mode":"slow"}'
    i=$(count role)
    reload
    within 10 asked_after "$i"
    start=$(seconds)
    for i in 1 2 3; do check "jobs go on with the old keys" job_is_done; done
    check "without waiting" less "$(since "$start")" 3
    stop
}

test_token_files() {
    chapter "files with tokens are read each time"
    control '{"lifetime":6}'
    start_roles
    check "a job" job_is_done
    local before
    before=$(count keys)
    control '{"web_token":"second.token","container_token":"second"}'
    printf 'second.token' >"$dir/$part.web-token"
    printf 'second\n' >"$dir/$part.container-token"
    check "all roles get new keys" within 10 keys_given $((before + 3))
    check "and sign with them" \
        job_is '"status":"done"' "$(job /third/in/p.png /other/o.png)"
    rm "$dir/$part.web-token"
    check "a missing file is logged" within 10 says 'the role web-identity needs the file of AWS_'
    stop
    printf 'web+token/1=\n' >"$dir/$part.web-token"
    printf 'Bearer.1' >"$dir/$part.container-token"
}

test_clock() {
    chapter "the server's clock is two hours slow"
    control '{"clock_offset":-7200}'
    start_daemon "$signed aws:eu-west-1:@instance" "${instance[@]}"
    check "its keys are used" job_is_done
    check "the log says so" says 's later than that of'
    stop
}

test_reload() {
    chapter "a reload"
    local before asked
    start_daemon "$signed aws:eu-west-1:@instance" "${instance[@]}" "${web_identity[@]}"
    check "a job" job_is_done
    before=$(count keys)
    reload
    check "it asks for new keys" within 10 keys_given $((before + 1))
    printf 'url_prefixes = %s aws:eu-west-1:@container\n' "$signed" >"$dir/$part.conf"
    reload
    check "a role without its environment is refused" \
        within 10 says 'needs AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or'
    check "the old prefixes stay" job_is_done
    # The first answer never comes; the reload takes the prefix away while a job waits for keys.
    control '{"mode":"slow"}'
    printf 'url_prefixes = %s aws:eu-west-1:@web-identity\n' "$signed" >"$dir/$part.conf"
    reload
    send_job "$(job /photos/in/p.png /photos/o.png)"
    sleep 0.3
    printf 'url_prefixes = https://other.example/\n' >"$dir/$part.conf"
    reload
    check "a job that waits for keys ends" has "$(next_result 3)" path_refused
    control "$good"
    asked=$(count role)
    sleep 1.2
    check "a role that is no longer named is not asked" equal "$(count role)" "$asked"
    stop
}

# A URL of a job never leads to a server of roles, even over a connection that the daemon has open.
test_urls_of_roles() {
    chapter "URLs of jobs do not lead to roles"
    local secret=/latest/meta-data/iam/security-credentials/photos+role before
    start_daemon "$signed aws:eu-west-1:@instance" "${instance[@]}"
    check "the role has keys" within 10 says 'has keys'
    check "not by a URL" job_is '"code":"path_refused"' "$(job $secret /photos/o.png)"
    stop
    start_daemon "$at/ aws:eu-west-1:@instance http://169.254.169.254/" "${instance[@]}" \
        --url_networks=192.0.2.0/24
    check "the role has keys" within 10 says 'has keys'
    check "not over the role's connection" job_is '(loopback); the option url_networks' \
        "$(job $secret /photos/o.png)"
    check "not to the metadata server" job_is '169.254.169.254 (link-local)' \
        '{"input":{"url":"http://169.254.169.254/latest/meta-data/"},"output":"o.png"}'
    stop
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
    check "an address without TLS" tested 'needs https, or an address of this host' \
        "https://a/ aws:eu:@container" AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/
    printf token >"$dir/$part.web-token"
    check "a token that goes to another host without TLS" tested \
        'sends its token to http://0.0.0.0:1 without TLS' "https://a/ aws:eu:@web-identity" \
        "AWS_ROLE_ARN=$arn" "AWS_WEB_IDENTITY_TOKEN_FILE=$dir/$part.web-token" \
        AWS_ENDPOINT_URL_STS=http://0.0.0.0:1/path
    check "a wrong role" tested '"aws:eu:@instanc", which must be' "https://a/ aws:eu:@instanc"
    control '{"no_role":true}'
    check "an instance without a role" tested \
        'attach an instance profile; until it gets some, jobs with URLs like https://a/ wait' \
        "https://a/ aws:eu:@instance" "${instance[@]}"
    control '{"mode":"slow"}'
    local asked start reload
    asked=$(count role)
    read -ra reload < <(sed -n 's|^ExecReload=@sbindir@/gpuimgd -c [^ ]* ||p' \
        systemd/gpuimgd.service.in)
    start=$(seconds)
    check "the check of systemctl reload" env "${instance[@]}" "$program" -c /dev/null \
        "${reload[@]}" "--input_root=$dir/in" "--output_root=$dir/out" \
        "--url_prefixes=https://a/ aws:eu:@instance"
    check "waits for no role" less "$(since "$start")" 4
    check "and asks none" equal "$(count role)" "$asked"
    check "--offline is for -t" has "$("$program" --offline -c /dev/null 2>&1)" 'requires -t'
    control "$good"
    check "a role that gives keys" tested 'the role instance has keys for' \
        "https://a/ aws:eu:@instance" "${instance[@]}"
}

part end test_end_of_keys
part slow test_slow_servers
part tokens test_token_files
part refusals test_refusals
part reload test_reload test_urls_of_roles
part roles test_headers test_roles test_clock test_configuration
show_parts
check "results have texts of roles" grep -q 'the role container gets no keys' "$dir"/*.results
check "neither logs nor results have keys, tokens or the path of a container" \
    not grep -hE 'ASIA|web[+]token|second.token|Bearer\.|/\+==|5f1c3b1e-PATH' "$dir"/*.log "$dir"/*.results
exit $((failures > 0))
