# s3.sh - an S3 server with checked signatures (moto, which make check-urls installs), for tests that
# have sourced tests/world.sh and made a world.

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# The calls of fill_s3; moto checks the signatures of all later ones.
readonly s3_setup_calls=5
# Makes a user who may do ACTION, the bucket "photos", and the object OBJECT from FILE. The user's
# keys go to $dir/credentials/photos.
fill_s3() { # PYTHON REGION ACTION OBJECT FILE
    local python=$1
    shift
    AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any \
        "$python" - "http://127.0.0.1:$s3" "$dir/credentials/photos" "$@" <<'END'
import boto3, json, sys
url, keys, region, action, name, path = sys.argv[1:]
def client(kind):
    return boto3.client(kind, endpoint_url=url, region_name=region)
iam, s3 = client("iam"), client("s3")
iam.create_user(UserName="gpuimgd")
key = iam.create_access_key(UserName="gpuimgd")["AccessKey"]
iam.put_user_policy(UserName="gpuimgd", PolicyName="s3", PolicyDocument=json.dumps(
    {"Version": "2012-10-17",
     "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}]}))
where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
s3.create_bucket(Bucket="photos", **({} if region == "us-east-1" else where))
s3.put_object(Bucket="photos", Key=name, Body=open(path, "rb").read())
with open(keys, "w") as file:
    file.write("aws_access_key_id = %s\naws_secret_access_key = %s\n"
               % (key["AccessKeyId"], key["SecretAccessKey"]))
END
}

# Sets $s3, its port, and $s3_python, which has boto3.
start_s3() { # MOTO_SERVER REGION ACTION OBJECT FILE
    local server=$1
    shift
    s3=$(free_port)
    s3_python=$(sed -n '1s/^#!//p' "$server")
    mkdir -p "$dir/credentials"
    INITIAL_NO_AUTH_ACTION_COUNT=$s3_setup_calls "$server" -H 127.0.0.1 -p "$s3" >"$dir/moto.log" 2>&1 &
    check "the S3 server starts" within 60 curl -sf -o "$dir/null" "http://127.0.0.1:$s3/moto-api/"
    check "a user, a bucket and an object" fill_s3 "$s3_python" "$@"
}
