#!/bin/bash
# Tests a Redis that only accepts TLS through the stunnel recipe of gpuimgd.conf(5):
# tests/service/tls.sh DAEMON (make check-tls). tests/e2e/test_tls.c tests the daemon's own TLS.
#
# The script creates the certificates. It reads the recipe from the page, and replaces only its
# addresses and the file of the authority's certificate. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
program=${1:?usage: tests/service/tls.sh DAEMON, such as build/release/gpuimgd}
make_world tls
readonly program tunnel=$dir/tunnel.sock
export REDISCLI_AUTH="behind TLS"

# ---- certificates --------------------------------------------------------------------------------

authority() { # name
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$dir/$1.key" \
        -out "$dir/$1.pem" 2>>"$dir/openssl.log"
}
certificate() { # authority, host name: $dir/HOST.pem and .key
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$2" -keyout "$dir/$2.key" \
        -out "$dir/$2.csr" 2>>"$dir/openssl.log" &&
        openssl x509 -req -in "$dir/$2.csr" -CA "$dir/$1.pem" -CAkey "$dir/$1.key" -days 2 \
            -CAcreateserial -extfile <(echo "subjectAltName=DNS:$2") -out "$dir/$2.pem" \
            2>>"$dir/openssl.log"
}

# ---- the tunnel ----------------------------------------------------------------------------------

recipe() { sed -n '/^foreground = yes$/,/^\.Ed$/p' conf/man/gpuimgd.conf.5 | sed '$d'; }

# start_tunnel AUTHORITY HOST: runs the recipe, trusting this authority for this host
start_tunnel() {
    recipe | sed -e "s|127.0.0.1:6380|$tunnel|; s|redis.example.com:6379|127.0.0.1:$port|" \
        -e "s|/etc/stunnel/redis-ca.pem|$dir/$1.pem|; s|^checkHost = .*|checkHost = $2|" \
        >"$dir/stunnel.conf"
    : >"$dir/stunnel.log"
    rm -f "$tunnel"
    stunnel "$dir/stunnel.conf" >"$dir/stunnel.log" 2>&1 &
    stunnel=$!
    within 10 test -S "$tunnel"
}
stop_tunnel() {
    kill "$stunnel"
    wait "$stunnel"
}

# ---- the daemon ----------------------------------------------------------------------------------

start_daemon() { # address of Redis, options
    echo "$REDISCLI_AUTH" >"$dir/password"
    run_daemon "$program" -c /dev/null "--redis=$1" "--redis_password_file=$dir/password" \
        "--input_root=$dir/in" "--output_root=$dir/out" --engine=cpu --workers=1 "${@:2}"
}
logged() { tail -n "+$mark" "$log" | grep -E "$1" || { tail -n 12 "$log" "$dir/stunnel.log" 2>/dev/null; false; }; }
set_mark() { mark=$(($(wc -l <"$log") + 1)); }
push() { ask_redis LPUSH gpuimgd:jobs "{\"id\":\"$1\",\"input\":\"a.jpg\",\"output\":\"$1.png\"}"; }
answered() { # id
    local result
    result=$(ask_redis BRPOP gpuimgd:results 20)
    has "$result" "\"id\":\"$1\"" && has "$result" '"status":"done"' && [ -s "$dir/out/$1.png" ]
}
waits() { # a job is not fetched for two seconds
    sleep 2
    equal "$(ask_redis LLEN gpuimgd:jobs)" 1
}
refused() { # authority, host, stunnel's message: the waiting job is not fetched
    start_tunnel "$1" "$2"
    check "trusting $1 for $2: stunnel refuses the server" \
        within 20 grep -E "$3" "$dir/stunnel.log"
    check "the job waits" waits
    stop_tunnel
}

main() {
    mark=1
    mkdir "$dir/in" "$dir/out"
    printf 'P3 2 2 255 9 8 7 6 5 4 3 2 1 0 9 8\n' | cjpeg -outfile "$dir/in/a.jpg"
    authority ours && authority theirs && certificate ours redis.example.com ||
        { cat "$dir/openssl.log"; exit 1; }
    chapter "a Redis with TLS alone"
    check "gpuimgd.conf(5) has a recipe" has "$(recipe)" "verifyChain = yes"
    start_redis "$dir" --tls-port --port 0 --requirepass "$REDISCLI_AUTH" \
        --tls-cert-file "$dir/redis.example.com.pem" --tls-key-file "$dir/redis.example.com.key" \
        --tls-ca-cert-file "$dir/ours.pem" --tls-auth-clients no || exit 1
    check "it does not answer without TLS" not timeout 5 redis-cli -p "$port" PING

    chapter "stunnel"
    start_tunnel ours redis.example.com
    start_daemon "unix:$tunnel"
    push first >/dev/null
    check "through stunnel, with a password, the daemon runs jobs" answered first

    set_mark
    stop_tunnel
    check "without stunnel the daemon logs that Redis is away" within 10 logged 'Redis|redis'
    push second >/dev/null
    check "the job waits" waits
    refused theirs redis.example.com 'CERT: Pre-verification error'
    refused ours other.example.com 'CERT: Subject checks failed'
    start_tunnel ours redis.example.com
    check "with the right authority and host the same daemon continues" answered second
    stop_daemon
    check "the daemon exits with status 0" equal "$exit_status" 0
    echo
    [ "$failures" -eq 0 ]
}
main
