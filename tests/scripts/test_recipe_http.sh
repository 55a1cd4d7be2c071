#!/bin/bash
# Runs queue/clients/recipes/images_http.py: signatures, caching, load and outages. Prints TAP.
# tests/scripts/test_recipe_http.sh BUILD
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
need_tools curl
choose_python aiohttp redis
begin http

# start_server [NAME=VALUE...]: on a free port; sets $server and $at
start_server() {
    http=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    at=http://127.0.0.1:$http
    env IMAGES_KEYS="$keys" "$@" "$python" "$recipes/images_http.py" "$http" >>"$dir/http.log" 2>&1 &
    server=$!
    within 20 curl -s -o "$dir/null" "$at/"
}
stop_server() {
    kill "$server"
    wait "$server" 2>"$dir/null"
}
sign() { IMAGES_KEYS=${key:-$keys} "$python" "$recipes/images_http.py" sign "$@"; }
# get PRESET PATH [CURL-OPTION...]: prints the status; the image is in $dir/body, the header in $dir/head
get() {
    local url
    url=$at$(sign "$1" "$2")
    shift 2
    ask "$url" "$@"
}
ask() { curl -s -m 30 -o "$dir/body" -D "$dir/head" -w '%{http_code}' --path-as-is "$@"; } # URL [CURL-OPTION...]
header() { sed -n "s/^$1: //Ip" "$dir/head" | tr -d '\r'; }
is_status() { # STATUS COMMAND...
    local status=$1
    shift
    equal "$("$@")" "$status"
}
# Left half 60, right half 200: 800 x 400; `square` cuts out the middle and makes 320 x 320.
halves() {
    awk 'BEGIN { printf "P2\n800 400\n255\n"; for (i = 0; i < 320000; i++) print i % 800 < 400 ? 60 : 200 }' |
        cjpeg -quality 95 -outfile "$1"
}
square_is_right() {
    local size
    djpeg -grayscale -pnm -outfile "$dir/square.pgm" "$1" || return
    size=$(head -c 15 "$dir/square.pgm" | tr '\n' ' ')
    equal "${size:0:14}" "P5 320 320 255" &&
        tail -c 102400 "$dir/square.pgm" | od -An -v -tu1 -w320 | awk '
            { for (x = 1; x <= 320; x++) { want = x < 158 ? 60 : 200
                  if ((x < 150 || x > 170) && ($x < want - 2 || $x > want + 2)) bad++ } }
            END { print bad + 0, "wrong pixels"; exit bad > 0 }'
}

test_signatures() {
    local url other
    check "200 for a signed URL" is_status 200 get square 'a b/ü%.jpg'
    check "its image is right" square_is_right "$dir/body"
    check "its type" equal "$(header Content-Type)" image/jpeg
    check "its Cache-Control" equal "$(header Cache-Control)" "public, max-age=3600"
    url=$(sign square cat.jpg)
    check "403 for another path" is_status 403 ask "$at${url/cat/dog}"
    check "403 for another preset" is_status 403 ask "$at${url/square/large}"
    other=$(key=another sign square cat.jpg)
    check "403 for another key" is_status 403 ask "$at$other"
    check "403 without a signature" is_status 403 ask "$at/x/square/cat.jpg"
    check "403 for a signature that is not ASCII" is_status 403 ask "$at/%C3%BC/square/cat.jpg"
    check "200 for the older key" is_status 200 ask "$at$(key=older sign square cat.jpg)"
    check "404 for an unknown preset" is_status 404 get huge cat.jpg
    check "404 for a missing image" is_status 404 get square none.jpg
    check "which a proxy may keep for a minute" equal "$(header Cache-Control)" "public, max-age=60"
    check "404 for a path that leads out" is_status 404 get square ../../etc/passwd
    check "422 for what is no image" is_status 422 get square text.jpg
    check "405 for a POST" is_status 405 get square cat.jpg -X POST
    check "200 for HEAD" is_status 200 get square cat.jpg -I
}
test_caching() {
    local tag
    get square cat.jpg >"$dir/null"
    tag=$(header ETag)
    check "an image has an ETag" has "$tag" '"'
    check "304 if the client has it" is_status 304 get square cat.jpg -H "If-None-Match: \"x\", $tag"
    check "with the same ETag" equal "$(header ETag)" "$tag"
    check "and Cache-Control" equal "$(header Cache-Control)" "public, max-age=3600"
    check "200 if the client has another one" is_status 200 get square cat.jpg -H 'If-None-Match: "x"'
    stop_daemon
    check "a cached image needs no daemon" is_status 200 get square cat.jpg
    start_daemon
    check "its key expires" less 0 "$(ask_redis TTL "$(ask_redis KEYS 'gpuimgd:img:http:*' | head -1)")"
    ask_redis FLUSHALL >"$dir/null"
    check "200 after the key is gone" is_status 200 get square cat.jpg
}
# Prints how often each status came for 300 requests at the same time.
burst() {
    curl -s -m 30 -Z --parallel-max 300 --parallel-immediate -o "$dir/null" -w '%{http_code}\n' "$1?[1-300]" |
        sort | uniq -c | xargs
}
test_connections() {
    local url
    url=$at$(sign square cat.jpg)
    check "300 requests at once" equal "$(burst "$url")" "300 200"
    ask_redis CLIENT KILL TYPE normal >"$dir/null"
    check "after Redis has closed all connections, too" equal "$(burst "$url")" "300 200"
}
# Many clients ask at the same time: one job, pushed while the queue is paused so that all wait.
test_same_request() {
    local n url
    url=$at$(sign square same.jpg)
    gpuimgctl pause >"$dir/null"
    for n in {1..12}; do curl -s -m 30 -o "$dir/same-$n" -w '%{http_code}\n' "$url" >"$dir/status-$n" & done
    check "12 equal requests push one job" within 5 jobs_wait 1
    sleep 1
    curl -s -m 0.3 -o "$dir/null" "$url" # a client that goes away
    check "no other job follows" jobs_wait 1
    ask_redis LPUSH "$(ask_redis LINDEX gpuimgd:jobs:9 0 | sed 's/.*"reply_to": "\([^"]*\)".*/\1/')" \
        garbage '[1]' null '{"id":[]}' '{"id":"x"}' >"$dir/null" # a list of this server is not only a daemon's
    gpuimgctl resume >"$dir/null"
    check "all 12 are answered" within 20 all_are_answered
    for n in {2..12}; do cmp -s "$dir/same-1" "$dir/same-$n" || check "answer $n is the same" false; done
    check "with the image" square_is_right "$dir/same-1"
}
all_are_answered() { equal "$(cat "$dir"/status-* | sort | uniq -c | xargs)" "12 200"; }

test_load() {
    local n url=()
    for n in 1 2 3 4; do url[n]=$(sign square "w$n.jpg"); done
    stop_server
    start_server JOBS_MAX=3 CLIENT_MAX=2 CLIENT_HEADER=X-Client TIMEOUT_S=6
    gpuimgctl pause >"$dir/null"
    for n in 1 2; do wait_for "${url[n]}" $n one; done
    check "two requests wait" within 5 jobs_wait 2
    check "429 if a client asks for too much" is_status 429 ask "$at${url[3]}" -H 'X-Client: one'
    check "with Retry-After" equal "$(header Retry-After)" 1
    wait_for "${url[3]}" 3 two
    check "three requests wait" within 5 jobs_wait 3
    check "503 if too many images are made" is_status 503 ask "$at${url[4]}" -H 'X-Client: three'
    check "with Retry-After, too" equal "$(header Retry-After)" 1
    check "nothing may keep it" equal "$(header Cache-Control)" no-store
    check "an equal request is not refused" is_status 504 ask "$at${url[1]}" -H 'X-Client: three'
    check "504 if no image comes in time" within 10 all_are_late
    gpuimgctl resume >"$dir/null"
    check "jobs that came too late do not run" within 20 no_late_jobs
    check "200 after that" is_status 200 ask "$at${url[1]}" -H 'X-Client: one'
}
wait_for() { # URL NUMBER CLIENT
    curl -s -m 30 -o "$dir/body-$2" -w '%{http_code}\n' -H "X-Client: $3" "$at$1" >"$dir/wait-$2" &
}
jobs_wait() { equal "$(ask_redis LLEN gpuimgd:jobs:9)" "$1"; }
all_are_late() { equal "$(cat "$dir"/wait-* | sort | uniq -c | xargs)" "3 504"; }
no_late_jobs() { jobs_wait 0 && equal "$(ask_redis EXISTS gpuimgd:lease gpuimgd:delayed)" 0; }

test_outages() {
    stop_server
    start_server TIMEOUT_S=5
    kill "$redis"
    wait "$redis"
    check "503 while Redis is away" is_status 503 get square cat.jpg
    check "with Retry-After" equal "$(header Retry-After)" 5
    restart_redis
    check "200 after it is back" within 30 is_status 200 get square cat.jpg
    kill -KILL "$daemon"
    wait "$daemon" 2>"$dir/null"
    check "504 while no daemon runs" is_status 504 get square dog.jpg
    start_daemon
    check "200 after one has started" within 30 is_status 200 get square dog.jpg
    stop_server
    check "the server wrote no traceback" not grep -q Traceback "$dir/http.log"
}

keys="newest older"
mkdir -p "$dir/in/a b"
halves "$dir/in/cat.jpg"
for name in 'a b/ü%' same dog w1 w2 w3 w4; do cp "$dir/in/cat.jpg" "$dir/in/$name.jpg"; done
echo text >"$dir/in/text.jpg"
start_daemon
start_server
test_signatures
test_caching
test_connections
test_same_request
test_load
test_outages
exit $((failures > 0))
