#!/bin/bash
# Runs queue/clients/recipes/s3_events.py with events from a list, a hook and lines, against a server
# that stores objects: tests/scripts/test_recipe_s3.sh BUILD. Prints TAP.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build/release}")
. tests/scripts/recipe.sh
need_tools curl
choose_python redis
if ! ldd "$build/gpuimgd" 2>/dev/null | grep libcurl >/dev/null; then
    echo "ok - ${0##*/} # SKIP this build has no libcurl"
    exit 77
fi
begin s3

# Serves GET and PUT of files below a folder, and counts each PUT in a file. Prints its port.
cat >"$dir/store.py" <<'END'
import http.server, os, sys, urllib.parse
root = sys.argv[1]
class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def path_of(self):
        return root + urllib.parse.unquote(self.path)
    def do_GET(self):
        try:
            self.answer(200, open(self.path_of(), "rb").read())
        except OSError:
            self.answer(404)
    def do_PUT(self):
        os.makedirs(os.path.dirname(self.path_of()), exist_ok=True)
        with open(self.path_of(), "wb") as file:
            file.write(self.rfile.read(int(self.headers["Content-Length"])))
        with open(root + "/puts", "a") as file:
            file.write(urllib.parse.unquote(self.path) + "\n")
        self.answer(200)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store)
print(server.server_port, flush=True)
server.serve_forever()
END
start_store() {
    mkdir -p "$dir/s3/photos/in"
    : >"$dir/s3/puts"
    write_blocks "$dir/s3/photos/in/cat.jpg"
    "$python" "$dir/store.py" "$dir/s3" >"$dir/store.port" &
    within 20 test -s "$dir/store.port"
    export ENDPOINT=http://127.0.0.1:$(cat "$dir/store.port")
    export TARGET='{endpoint}/{bucket}-small/{key}.jpg' TOKEN=secret
}
put_object() { cp "$dir/s3/photos/in/cat.jpg" "$dir/s3/photos/in/$1"; }
# event KEY [NAME [SEQUENCER]]: the JSON that S3 sends, with the key as it is in events
event() {
    printf '{"Records":[{"eventVersion":"2.1","eventSource":"aws:s3","eventName":"%s","s3":{"s3SchemaVersion":"1.0",
        "bucket":{"name":"photos"},"object":{"key":"in/%s","size":1,"eTag":"e","sequencer":"%s"}}}]}' \
        "${2:-ObjectCreated:Put}" "$1" "${3:-1}" | tr -d '\n'
}
# Starts the recipe; sets the variable NAME to its process.
start_recipe() { # NAME MODE ARGUMENT...
    local name=$1
    shift
    "$python" "$recipes/s3_events.py" "$@" >>"$dir/$name.out" 2>>"$dir/$name.err" &
    printf -v "$name" %s $!
}
is_made() { within 30 test -s "$dir/s3/photos-small/in/$1.jpg" && are_blocks "$dir/s3/photos-small/in/$1.jpg"; }
puts_of() { grep -cxF "/photos-small/in/$1.jpg" "$dir/s3/puts"; }
push_event() { ask_redis RPUSH events "$1" >"$dir/null"; }
none_is_left() { equal "$(ask_redis LLEN events)$(ask_redis LLEN events:taken)" 00; }
no_job_is_left() { equal "$(ask_redis LLEN gpuimgd:jobs)$(ask_redis ZCARD gpuimgd:lease)" 00; }

test_list() {
    start_recipe list list events
    start_recipe results results
    put_object 'a b+c=1,(ü).jpg'
    push_event "$(event 'a+b%2Bc%3D1%2C%28%C3%BC%29.jpg')"
    check "an event of a list makes an image, with an awkward key" is_made 'a b+c=1,(ü).jpg'
    put_object minio.jpg
    push_event "[{\"Event\":[$(event minio.jpg s3:ObjectCreated:Put | sed 's/^{"Records":\[//; s/\]}$//')],\"EventTime\":\"t\"}]"
    check "the form of MinIO" is_made minio.jpg
    push_event "$(event minio.jpg s3:ObjectCreated:Put)"
    push_event "$(event minio.jpg)"
    push_event "$(event cat.jpg ObjectRemoved:Delete)"
    push_event "$(event notes.txt)"
    push_event '{"Service":"Amazon S3","Event":"s3:TestEvent"}'
    push_event 'no JSON'
    push_event '{"Records":[{"s3":{}}]}'
    push_event "$(event '%ED%A0%80.jpg')"
    push_event "$(event '\ud800.jpg')"
    push_event "$(event '..%2F..%2Fcat.jpg')"
    push_event "$(printf '[%.0s' {1..20000})"
    push_event '{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"photos-small"},"object":{"key":"in/minio.jpg.jpg"}}}]}'
    put_object last.jpg
    push_event "$(event last.jpg)"
    check "events that are none are reported and left out" is_made last.jpg
    check "each is removed" within 10 none_is_left
    check "an event that comes twice runs once" equal "$(puts_of minio.jpg)" 1
    check "an output is no input" not test -e "$dir/s3/photos-small-small"
    push_event "$(event missing.jpg)"
    check "a failed job is reported, with its key" within 20 grep -qF \
        '{"bucket": "photos", "key": "in/missing.jpg", "status": "failed", "code": "input_missing"' "$dir/results.out"
    ask_redis LPUSH gpuimgd:reply:s3-events garbage '[1]' null '{}' '{"status":"failed","meta":1}' >"$dir/null"
    push_event "$(event gone.jpg)"
    check "what is no result is left out" within 20 grep -qF '"key": "in/gone.jpg"' "$dir/results.out"
    check "a done one is not" not grep -q last.jpg "$dir/results.out"
}
# hook BODY [CURL-OPTION...]: prints the status; `token` replaces the right one
hook() {
    local body=$1
    shift
    curl -s -m 20 -o "$dir/null" -w '%{http_code}' -H "Authorization: Bearer ${token:-secret}" "$@" --data-binary "$body" \
        "http://127.0.0.1:$hook_port/"
}
# Prints how often each status came.
burst() {
    curl -s -m 20 -Z --parallel-max 200 --parallel-immediate -o "$dir/null" -w '%{http_code}\n' \
        -H 'Authorization: Bearer secret' --data-binary @"$dir/none" "http://127.0.0.1:$hook_port/[1-200]" |
        sort | uniq -c | xargs
}
test_hook() {
    hook_port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    start_recipe hook http "127.0.0.1:$hook_port"
    check "the hook answers" within 20 curl -s "http://127.0.0.1:$hook_port/"
    put_object hook.jpg
    check "200 for an event" equal "$(hook "$(event hook.jpg)")" 200
    check "its image is made" is_made hook.jpg
    put_object sns.jpg
    check "200 for a message of SNS" equal \
        "$(hook "{\"Type\":\"Notification\",\"Message\":\"$(event sns.jpg | sed 's/"/\\"/g')\"}")" 200
    check "its image is made, too" is_made sns.jpg
    check "400 for another text" equal "$(hook 'no JSON')" 400
    check "400 for a key with a zero byte" equal "$(hook "$(event 'a%00.jpg')")" 400
    event none.jpg >"$dir/none"
    check "200 for 200 events at once" equal "$(burst)" "200 200"
    check "401 for a wrong token" equal "$(token=secreT hook "$(event hook.jpg)")" 401
    check "413 for a large body" equal "$(head -c 1100000 /dev/zero >"$dir/large"; hook @"$dir/large")" 413
    check "411 without a length" equal "$(hook x -H 'Transfer-Encoding: chunked' -H 'Content-Length:')" 411
}
test_lines() {
    local key
    for key in one two; do put_object $key.jpg; event $key.jpg; printf '\n\n\xff\n'; done >"$dir/events"
    check "events from lines" "$python" "$recipes/s3_events.py" stdin <"$dir/events"
    check "make images" is_made one.jpg
    check "all of them" is_made two.jpg
}
test_outages() {
    put_object crash.jpg
    kill -KILL "$list"
    wait "$list" 2>"$dir/null"
    ask_redis LPUSH events:taken "$(event crash.jpg)" >"$dir/null" # what it had taken
    start_recipe list list events
    check "an event that a crash interrupted" is_made crash.jpg
    kill "$redis"
    wait "$redis"
    check "503 while Redis is away" equal "$(hook "$(event cat.jpg)")" 503
    restart_redis
    put_object again.jpg
    push_event "$(event again.jpg)"
    check "events after Redis is back" is_made again.jpg
    check "200 again" equal "$(hook "$(event cat.jpg)")" 200
    check "and the image" is_made cat.jpg
    stop_daemon
    put_object late.jpg
    push_event "$(event late.jpg)"
    check "an event while no daemon runs becomes a job" within 20 not no_job_is_left
    start_daemon --url_prefixes="$ENDPOINT/" --url_networks=127.0.0.0/8
    check "whose image comes later" is_made late.jpg
    check "nothing unexpected was said" not grep -q Traceback "$dir"/{list,hook,results}.err
}

start_store
start_daemon --url_prefixes="$ENDPOINT/" --url_networks=127.0.0.0/8
test_list
test_hook
test_lines
test_outages
exit $((failures > 0))
