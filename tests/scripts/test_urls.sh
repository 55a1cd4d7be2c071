#!/bin/bash
# Tests URLs against real servers: nginx with TLS and HTTP/2, and an S3 server that checks
# signatures (moto, from PyPI). tests/scripts/test_urls.sh BUILD
#
# `make check-urls` installs both and runs this script; a part whose server is missing is skipped.
# Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
. tests/world.sh
. tests/scripts/s3.sh
build=${1:?usage: tests/scripts/test_urls.sh BUILD, such as build/release}
need_tools redis-server redis-cli python3
program=$PWD/$build/gpuimgd
if ! ldd "$program" 2>/dev/null | grep libcurl >/dev/null; then
    echo "ok - ${0##*/} # SKIP this build has no libcurl"
    exit 77
fi
make_world urls
start_redis "$dir" --port || exit 1
mkdir -p "$dir/in" "$dir/out" "$dir/www/a"
# Keys of the user who runs the test must not take part.
unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_PROFILE

# A PNG of noise, which no encoder makes small.
python3 - "$dir/in/p.png" <<'END'
import random, struct, sys, zlib
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
random.seed(1)
rows = b"".join(b"\0" + random.randbytes(3 * 300) for _ in range(200))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", struct.pack(">IIBBBBB", 300, 200, 8, 2, 0, 0, 0))
    + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
END
# start_daemon OPTION...
start_daemon() {
    run_daemon "$program" -c /dev/null "--redis=unix:$dir/redis.sock" "--input_root=$dir/in" \
        "--output_root=$dir/out" --engine=cpu --workers=2 --attempts=1 \
        --url_networks=127.0.0.0/8 "$@"
    within 20 grep -q 'connected' "$log"
}
# run_job JSON: prints the result
run_job() {
    ask_redis LPUSH gpuimgd:jobs "$1" >/dev/null
    ask_redis BRPOP gpuimgd:results 30 | tail -n +2
}
job_is() { # "what the result has" JSON
    has "$(run_job "$2")" "$1"
}
stop() {
    stop_daemon
    check "the daemon stops with status 0" equal "$exit_status" 0
}

# The same job with files: its output is the reference.
start_daemon
check "a job with files is done" job_is '"status":"done"' \
    '{"input":"p.png","output":"e.png","ops":["sobel"]}'
stop

# ---- nginx --------------------------------------------------------------------------------------

certificate() { # NAME SUBJECT-ALT-NAME: $dir/NAME.pem and .key, signed by $dir/ca.pem
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$1" -keyout "$dir/$1.key" -out "$dir/$1.csr" \
        2>>"$dir/openssl.log" &&
        openssl x509 -req -in "$dir/$1.csr" -CA "$dir/ca.pem" -CAkey "$dir/ca.key" -days 2 \
            -CAcreateserial -extfile <(echo "subjectAltName=$2") -out "$dir/$1.pem" \
            2>>"$dir/openssl.log"
}

write_nginx_conf() {
    [ "$(id -u)" != 0 ] || echo "user root;"
    cat <<END
daemon off; worker_processes 1; pid $dir/nginx.pid; error_log $dir/nginx.err;
events {}
http {
    client_body_temp_path $dir/tmp; proxy_temp_path $dir/tmp; fastcgi_temp_path $dir/tmp;
    uwsgi_temp_path $dir/tmp; scgi_temp_path $dir/tmp;
    log_format line '\$request_method \$uri \$server_protocol \$status \$content_type \$connection';
    access_log $dir/access.log line;
    client_max_body_size 100m;
    server {
        listen 127.0.0.1:$https ssl http2;
        ssl_certificate $dir/server.pem; ssl_certificate_key $dir/server.key;
        root $dir/www;
        location /a/ { dav_methods PUT; }
        location /down { return 302 http://localhost:$https/a/p.png; }
        location /moved { return 308 /a/moved.png; }
    }
}
END
}

test_nginx() {
    chapter "nginx with TLS"
    https=$(free_port)
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout "$dir/ca.key" \
        -out "$dir/ca.pem" 2>>"$dir/openssl.log"
    certificate server DNS:localhost
    mkdir -p "$dir/tmp"
    write_nginx_conf >"$dir/nginx.conf"
    nginx -c "$dir/nginx.conf" 2>>"$dir/nginx.err" &
    cp "$dir/in/p.png" "$dir/www/a/"
    check "nginx starts" within 10 test -s "$dir/nginx.pid"
    local at=https://localhost:$https prefixes
    prefixes="$at/ http://localhost:$https/ https://127.0.0.1:$https/"

    start_daemon "--url_prefixes=$prefixes" "--url_ca_file=$dir/ca.pem"
    check "from URL to URL over TLS" job_is '"status":"done"' \
        "{\"input\":{\"url\":\"$at/a/p.png\"},\"output\":{\"url\":\"$at/a/e.png\"},\"ops\":[\"sobel\"]}"
    check "the uploaded image has the bytes of the file" cmp "$dir/www/a/e.png" "$dir/out/e.png"
    check "an upload that is redirected with 308" job_is '"status":"done"' \
        "{\"input\":\"p.png\",\"output\":{\"url\":\"$at/moved\",\"format\":\"png\"},\"ops\":[\"sobel\"]}"
    check "it has the bytes of the file, too" cmp "$dir/www/a/moved.png" "$dir/out/e.png"
    check "20 more jobs" twenty_jobs "$at"
    check "HTTP/2 is used" grep -q '^GET /a/p.png HTTP/2.0 200' "$dir/access.log"
    check "uploads have their type" grep -q '^PUT /a/e.png HTTP/2.0 201 image/png' "$dir/access.log"
    check "connections are used again" connections_at_most 8
    check "a missing file" job_is '"code":"input_missing"' \
        "{\"input\":{\"url\":\"$at/a/none.png\"},\"output\":\"n.png\"}"
    check "a folder without PUT" job_is '"code":"path_refused"' \
        "{\"input\":\"p.png\",\"output\":{\"url\":\"$at/b.png\"}}"
    check "a redirect from https to http is refused" job_is 'redirected from https to http' \
        "{\"input\":{\"url\":\"$at/down\"},\"output\":\"n.png\"}"
    check "a certificate for another host is refused" job_is '"code":"input_unreadable"' \
        "{\"input\":{\"url\":\"https://127.0.0.1:$https/a/p.png\"},\"output\":\"n.png\"}"
    stop

    start_daemon "--url_prefixes=$prefixes"
    check "a certificate of an unknown authority is refused" job_is 'certificate' \
        "{\"input\":{\"url\":\"$at/a/p.png\"},\"output\":\"n.png\"}"
    stop
    kill "$(cat "$dir/nginx.pid")"
}
twenty_jobs() { # ORIGIN
    local i
    for i in $(seq 20); do
        ask_redis LPUSH gpuimgd:jobs "{\"input\":{\"url\":\"$1/a/p.png\"},\"output\":{\"url\":\"$1/a/$i.png\"},\"ops\":[\"sobel\"]}" >/dev/null
    done
    for i in $(seq 20); do
        has "$(ask_redis BRPOP gpuimgd:results 30)" '"status":"done"' || return 1
    done
    for i in $(seq 20); do cmp "$dir/www/a/$i.png" "$dir/out/e.png" || return 1; done
}
connections_at_most() { less "$(awk '{ print $NF }' "$dir/access.log" | sort -u | wc -l)" "$1"; }

# ---- S3 -----------------------------------------------------------------------------------------

presign() { # PYTHON METHOD KEY
    "$1" - "http://127.0.0.1:$s3" "$dir/credentials/photos" "$2" "$3" <<'END'
import boto3, sys
keys = dict(line.split(" = ") for line in open(sys.argv[2]).read().splitlines())
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", **keys,
                  config=boto3.session.Config(signature_version="s3v4"))
print(s3.generate_presigned_url(sys.argv[3], Params={"Bucket": "photos", "Key": sys.argv[4]}))
END
}
fetch_object() { # PYTHON KEY FILE
    "$1" - "http://127.0.0.1:$s3" "$dir/credentials/photos" "$2" "$3" <<'END'
import boto3, sys
keys = dict(line.split(" = ") for line in open(sys.argv[2]).read().splitlines())
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", **keys)
answer = s3.get_object(Bucket="photos", Key=sys.argv[3])
open(sys.argv[4], "wb").write(answer["Body"].read())
print(answer["ContentType"])
END
}
uploaded() { # PYTHON KEY
    equal "$(fetch_object "$1" "$2" "$dir/object")" image/png && cmp "$dir/object" "$dir/out/e.png"
}

test_s3() { # MOTO_SERVER
    chapter "S3, with checked signatures"
    start_s3 "$1" us-east-1 's3:*' 'in/a b+c=1,(ü).png' "$dir/in/p.png"
    local python=$s3_python at=http://127.0.0.1:$s3/photos
    local signed='in/a%20b%2Bc%3D1,(%C3%BC).png'

    export CREDENTIALS_DIRECTORY=$dir/credentials
    start_daemon "--url_prefixes=$at/ aws:us-east-1:photos"
    check "from object to object" job_is '"status":"done"' \
        "{\"input\":{\"url\":\"$at/$signed\"},\"output\":{\"url\":\"$at/out/e%20(1).png\"},\"ops\":[\"sobel\"]}"
    check "the object has the bytes of the file, and its type" uploaded "$python" 'out/e (1).png'
    check "a missing object" job_is '"code":"input_missing"' \
        "{\"input\":{\"url\":\"$at/none.png\"},\"output\":\"n.png\"}"
    stop

    sed 's/^\(aws_secret_access_key = \).*/\1wrong/' "$dir/credentials/photos" >"$dir/credentials/wrong"
    start_daemon "--url_prefixes=$at/ aws:us-east-1:wrong"
    check "a wrong key is refused" job_is '"code":"path_refused"' \
        "{\"input\":{\"url\":\"$at/$signed\"},\"output\":\"n.png\"}"
    stop

    start_daemon "--url_prefixes=$at/"
    check "a request without a signature is refused" job_is '"code":"path_refused"' \
        "{\"input\":{\"url\":\"$at/$signed\"},\"output\":\"n.png\"}"
    # moto cannot check the signatures of presigned URLs.
    curl -sf -o "$dir/null" -H 'Content-Type: text/plain' -d 1000 "http://127.0.0.1:$s3/moto-api/reset-auth"
    check "presigned URLs" job_is '"status":"done"' \
        "{\"input\":{\"url\":\"$(presign "$python" get_object 'in/a b+c=1,(ü).png')\"},\"output\":{\"url\":\"$(presign "$python" put_object presigned.png)\"},\"ops\":[\"sobel\"]}"
    check "that object has the bytes of the file" uploaded "$python" presigned.png
    check "no signature is in the log" not grep -q Signature "$log"
    stop
}

if command -v nginx >/dev/null && command -v openssl >/dev/null; then
    test_nginx
else
    echo "ok - nginx # SKIP there is no nginx or no openssl here"
fi
moto=$build/moto/bin/moto_server
if [ -x "$moto" ] && command -v curl >/dev/null; then
    test_s3 "$moto"
else
    echo "ok - S3 # SKIP make check-urls installs the S3 server"
fi
exit $((failures > 0))
