"""aws_server.py - an S3 server that checks signatures, and the servers that give keys of roles.

tests/scripts/aws_server.py PORT

It follows AWS's documents, not the daemon: instance metadata (version 2), STS and container
credentials give keys, and S3 accepts only signatures with keys that were given and have not ended.

    /latest/...        instance metadata
    /sts               STS: AssumeRoleWithWebIdentity
    /container/PATH    credentials of a container
    /BUCKET/KEY        GET and PUT of an object
    /control           PUT: JSON that changes `state`
    /count/NAME        GET: how often it has been counted
    /image             GET: the image that is also the object /photos/in/p.png
    /headers/BUCKET/K  GET: the headers of the upload of an object, as JSON
"""
import calendar
import email.utils
import hashlib
import hmac
import http.server
import json
import secrets
import struct
import sys
import threading
import time
import urllib.parse
import zlib

STAMP = "%Y%m%dT%H%M%SZ"
SHOWN_HEADERS = ("content-type", "cache-control", "content-disposition")
state = {
    "mode": "ok",  # of all servers that give keys, or an object: {"instance": "slow"}
    "status": 500,  # of mode "status"
    "lifetime": 3600,  # seconds of given keys
    "clock_offset": 0,  # of the servers that give keys
    "no_role": False,  # the instance has no role
    "web_token": "",  # what STS accepts
    "container_token": "",  # what the container endpoint accepts
}
static_keys = {"AKSTATIC": ("secret/of+static", "", float("inf"))}
given = dict(static_keys)  # id: (secret, session token, end)
metadata_tokens, objects, counts = set(), {}, {}
lock = threading.RLock()


def png(width, height):
    def chunk(kind, data):
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check
    rows = (b"\0" + bytes(range(3 * width))) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def count(name):
    with lock:
        counts[name] = counts.get(name, 0) + 1


def mode_of(role):
    return state["mode"] if isinstance(state["mode"], str) else state["mode"].get(role, "ok")


def give_keys(role):
    """Keys of a role that S3 accepts until their end."""
    with lock:
        count("keys")
        key_id = "ASIA%016d" % counts["keys"]
        lifetimes = {"ended": -60, "ending": 2}
        end = time.time() + lifetimes.get(mode_of(role), state["lifetime"])
        given[key_id] = (secrets.token_urlsafe(30), secrets.token_urlsafe(900) + "/+==", end)
        shown = time.gmtime(end + state["clock_offset"])
        return (key_id, *given[key_id][:2], time.strftime("%Y-%m-%dT%H:%M:%SZ", shown))


# ---- signatures, after "Authenticating Requests: Using the Authorization Header" -----------------


def sign(secret, scope, stamp, canonical):
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def canonical_request(handler, names):
    path, _, query = handler.path.partition("?")
    pairs = sorted((p.partition("=")[0], p.partition("=")[2]) for p in query.split("&") if p)
    values = [[" ".join(v.split()) for v in handler.headers.get_all(name)] for name in names]
    lines = ["%s:%s\n" % (name, ",".join(value)) for name, value in zip(names, values)]
    return "\n".join([handler.command, path, "&".join("%s=%s" % pair for pair in pairs),
                      "".join(lines), ";".join(names), handler.headers["x-amz-content-sha256"]])


def signature_fault(handler, body):
    """None, or (status, code) of S3."""
    words = handler.headers.get("Authorization", "").replace(",", " ").split()
    if not words or words[0] != "AWS4-HMAC-SHA256":
        return 403, "AccessDenied"
    fields = dict(word.split("=", 1) for word in words[1:])
    key_id, scope = fields["Credential"].split("/", 1)
    names, stamp = fields["SignedHeaders"].split(";"), handler.headers["x-amz-date"]
    if key_id not in given:
        return 403, "InvalidAccessKeyId"
    secret, token, end = given[key_id]
    if handler.headers.get("x-amz-security-token", "") != token:
        return 400, "InvalidToken"
    if time.time() >= end:
        return 400, "ExpiredToken"
    must = {name.lower() for name in handler.headers.keys()}
    must = {name for name in must if name.startswith("x-amz-")
            or name in ("host", *SHOWN_HEADERS)}
    if names != sorted(names) or not must <= set(names):
        return 403, "AccessDenied"
    if abs(calendar.timegm(time.strptime(stamp, STAMP)) - time.time()) > 900:
        return 403, "RequestTimeTooSkewed"
    if scope.split("/") != [stamp[:8], "eu-west-1", "s3", "aws4_request"]:
        return 400, "AuthorizationHeaderMalformed"
    payload = handler.headers["x-amz-content-sha256"]
    if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(body).hexdigest()):
        return 400, "XAmzContentSHA256Mismatch"
    if sign(secret, scope, stamp, canonical_request(handler, names)) != fields["Signature"]:
        return 403, "SignatureDoesNotMatch"
    return None


# ---- the servers ---------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        offset = 0 if self.is_s3() else state["clock_offset"]
        return email.utils.formatdate((timestamp or time.time()) + offset, usegmt=True)

    def is_s3(self):
        return not self.path.startswith(("/latest/", "/sts", "/container"))

    def answer(self, status, body=b"", kind="text/plain", **headers):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path == "/control":
            return self.control(body)
        if path.startswith("/count/"):
            return self.answer(200, "%d" % counts.get(urllib.parse.unquote(path[7:]), 0))
        if path == "/image":
            return self.answer(200, objects["/photos/in/p.png"][0])
        if path.startswith("/headers/"):
            return self.answer(200, json.dumps(objects[path[len("/headers"):]][1]))
        if path.startswith("/latest/"):
            return self.fault("instance") or self.metadata(path[len("/latest/"):])
        if path == "/sts":
            return self.fault("web-identity") or self.sts(body)
        if path.startswith("/container/"):
            return self.fault("container") or self.container()
        return self.s3(path, body)

    do_GET = do_PUT = do_POST = do_any

    def control(self, body):
        with lock:
            state.update(json.loads(body))
        self.answer(200)

    def fault(self, role):
        """Answers as state["mode"] says, and returns whether it has."""
        count("role")
        mode = mode_of(role)
        if mode == "slow":
            time.sleep(20)
            self.close_connection = True
        elif mode == "late":
            time.sleep(0.7)
            return False
        elif mode == "status":
            self.answer(state["status"], "<ErrorResponse><Error><Code>AccessDenied</Code><Message>"
                        "no &amp; no\r\n\x1b[1m</Message></Error></ErrorResponse>")
        elif mode == "garbage":
            self.answer(200, b"{\"AccessKeyId\": \"\xff\x00[[[")
        elif mode == "huge":
            self.answer(200, b"[" * 2000000)
        elif mode == "headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X-Flood: %s\r\n" % (b"x" * 1000) * 100000)
        elif mode == "drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            for _ in range(100):
                self.wfile.write(b"{")
                self.wfile.flush()
                time.sleep(0.2)
        elif mode == "redirect":
            self.answer(302, Location="/photos/in/p.png")
        else:
            assert mode in ("ok", "ended", "ending", "injection"), mode
            return False
        return True

    def metadata(self, path):
        token = self.headers.get("X-aws-ec2-metadata-token")
        if path == "api/token":
            ttl = int(self.headers.get("X-aws-ec2-metadata-token-ttl-seconds", 0))
            if self.command != "PUT" or not 1 <= ttl <= 21600 or "X-Forwarded-For" in self.headers:
                return self.answer(403)
            metadata_tokens.add(token := secrets.token_urlsafe(40) + "==")
            return self.answer(200, token)
        if token not in metadata_tokens or self.command != "GET":
            return self.answer(401)
        if path == "meta-data/iam/security-credentials/":
            return self.answer(404) if state["no_role"] else self.answer(200, "photos+role")
        if path != "meta-data/iam/security-credentials/photos+role":
            return self.answer(404)
        key_id, secret, session, end = give_keys("instance")
        if mode_of("instance") == "injection":
            session = "token\r\nX-Evil: 1"
        return self.answer(200, json.dumps(
            {"Code": "Success", "LastUpdated": end, "Type": "AWS-HMAC", "AccessKeyId": key_id,
             "SecretAccessKey": secret, "Token": session, "Expiration": end}, indent=2))

    def sts(self, body):
        form = dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
        wanted = {"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15",
                  "RoleArn": "arn:aws:iam::123456789012:role/photos"}
        if self.command != "POST" or any(form.get(k) != v for k, v in wanted.items()):
            return self.answer(400, "<Code>ValidationError</Code>")
        if form.get("WebIdentityToken") != state["web_token"]:
            return self.answer(400, "<ErrorResponse><Error><Type>Sender</Type><Code>"
                                    "InvalidIdentityToken</Code><Message>wrong</Message></Error>"
                                    "</ErrorResponse>")
        key_id, secret, session, end = give_keys("web-identity")
        return self.answer(200, """<AssumeRoleWithWebIdentityResponse
 xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:a:b</SubjectFromWebIdentityToken>
    <AssumedRoleUser><AssumedRoleId>AROA:%s</AssumedRoleId></AssumedRoleUser>
    <Credentials>
      <SessionToken>%s</SessionToken>
      <SecretAccessKey>%s</SecretAccessKey>
      <Expiration>%s</Expiration>
      <AccessKeyId>%s</AccessKeyId>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>""" % (form["RoleSessionName"], session, secret, end, key_id),
                           "text/xml")

    def container(self):
        if self.headers.get("Authorization", "") != state["container_token"]:
            return self.answer(403, "{\"code\":\"InvalidAuthorizationToken\"}")
        key_id, secret, session, end = give_keys("container")
        return self.answer(200, json.dumps({"RoleArn": "any", "AccessKeyId": key_id,
                                            "SecretAccessKey": secret, "Token": session,
                                            "Expiration": end}))

    def s3(self, path, body):
        length = sum(len(name) + len(value) + 4 for name, value in self.headers.items())
        fault = ((400, "RequestHeaderSectionTooLarge") if length > 8192
                 else signature_fault(self, body))
        count("s3 " + (fault[1] if fault else self.command))
        if fault:
            return self.answer(fault[0], "<Error><Code>%s</Code></Error>" % fault[1])
        if self.command == "PUT":
            kept = {k.lower(): v for k, v in self.headers.items()}
            objects[path] = (body, {k: v for k, v in kept.items()
                                    if k.startswith("x-amz-meta-") or k in SHOWN_HEADERS})
            return self.answer(200)
        if path not in objects:
            return self.answer(404)
        return self.answer(200, objects[path][0])


if __name__ == "__main__":
    for bucket in "photos", "other", "third":
        objects["/%s/in/p.png" % bucket] = (png(4, 3), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    server.serve_forever()
