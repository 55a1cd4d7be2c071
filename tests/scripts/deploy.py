#!/usr/bin/python3
"""deploy.py - checks conf/deploy: that its files agree with each other and with the daemon.

    deploy.py check            prints TAP
    deploy.py config           prints the configuration in the ConfigMap
    deploy.py custom FILE...   checks the documents whose schemas Kubernetes itself does not have
"""
import json
import re
import sys
from pathlib import Path

import yaml

DEPLOY = Path("conf/deploy")
MANIFESTS = DEPLOY / "kubernetes"
OPTIONS = Path("conf/options.def")
MIB = 1 << 20
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DRAIN_MARGIN_S = 5  # for acknowledgements after the drain
CUDA_BYTES = 1 << 30  # CUDA's own memory on the host, about
AUTO_MOST = {"pinned_bytes": 4 << 30, "host_bytes": 2 << 30}  # `auto`: an eighth, but at most this


def load():
    """All documents by (kind, name)."""
    found = {}
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            key = document["kind"], document["metadata"]["name"]
            assert document["apiVersion"] and key not in found, f"{path}: {key}"
            found[key] = document
    return found


def configuration(documents):
    text = documents["ConfigMap", "gpuimgd"]["data"]["gpuimgd.conf"]
    pairs = re.findall(r"^([a-z_]+) = *(.*)$", text, re.M)
    assert pairs, "the ConfigMap sets no option"
    return dict(pairs)


def default(option):
    row = re.search(rf'^OPTION\([A-Z]+, {option}, "([^"]*)"', OPTIONS.read_text(), re.M)
    assert row, f"{OPTIONS} has no option {option}"
    return row.group(1)


def value(documents, option):
    return configuration(documents).get(option, default(option))


def size(text):
    """Bytes of an option (64M) or of a quantity of Kubernetes (8Gi)."""
    number, unit = re.fullmatch(r"([0-9]+)([KMGT]?)i?", str(text)).groups()
    return int(number) * UNITS.get(unit, 1)


def share(documents, option, limit):
    """Bytes of an option that may be auto, in a container with this memory limit."""
    text = value(documents, option)
    return min(limit // 8, AUTO_MOST[option]) if text == "auto" else size(text)


def same(got, wanted):
    assert got == wanted, f"got {got!r}, not {wanted!r}"


def deployment(documents):
    return documents["Deployment", "gpuimgd"]["spec"]


def pod(documents):
    return deployment(documents)["template"]["spec"]


def container(documents):
    (one,) = pod(documents)["containers"]
    return one


def containerfile(pattern):
    found = re.search(pattern, (DEPLOY / "Containerfile").read_text(), re.M)
    assert found, f"the Containerfile has no {pattern}"
    return found.group(1)


def http_port():
    return int(containerfile(r"^ENTRYPOINT .*--metrics_listen=0\.0\.0\.0:([0-9]+)"))


# ---- the checks: each a sentence and a function -------------------------------------------------

def drain(documents):
    grace = pod(documents)["terminationGracePeriodSeconds"]
    drain_s = float(value(documents, "drain_timeout_s"))
    assert grace >= drain_s + DRAIN_MARGIN_S, f"{grace} s for a drain of {drain_s:g} s"


def ports(documents):
    port = http_port()
    same(container(documents)["ports"], [{"name": "http", "containerPort": port}])
    same(documents["Service", "gpuimgd"]["spec"]["ports"],
         [{"name": "http", "port": port, "targetPort": "http"}])
    same(documents["ServiceMonitor", "gpuimgd"]["spec"]["endpoints"][0]["port"], "http")
    same(documents["NetworkPolicy", "gpuimgd"]["spec"]["ingress"][0]["ports"], [{"port": "http"}])
    same(int(containerfile(r"/dev/tcp/127\.0\.0\.1/([0-9]+)")), port)
    same(int(containerfile(r"^EXPOSE ([0-9]+)")), port)


def paths(documents):
    served = set(re.findall(r'^    \{"(/[^"]*)"', Path("daemon/http/http_server.c").read_text(), re.M))
    one = container(documents)
    asked = [one[probe]["httpGet"]["path"] for probe in
             ("startupProbe", "livenessProbe", "readinessProbe")]
    asked.append(documents["ServiceMonitor", "gpuimgd"]["spec"]["endpoints"][0]["path"])
    same(asked, ["/healthz", "/healthz", "/readyz", "/metrics"])
    assert set(asked) <= served, f"the daemon serves {sorted(served)}"
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        same(one[probe]["httpGet"]["port"], "http")


def user(documents):
    number = int(containerfile(r"^ARG ID=([0-9]+)"))
    context = pod(documents)["securityContext"]
    same([context[name] for name in ("runAsUser", "runAsGroup", "fsGroup")], [number] * 3)
    same(context["runAsNonRoot"], True)


def confinement(documents):
    context = container(documents)["securityContext"]
    same(context, {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                   "capabilities": {"drop": ["ALL"]}})
    same(pod(documents)["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})


def folders(documents):
    one, volumes = container(documents), {v["name"]: v for v in pod(documents)["volumes"]}
    mounts = {m["mountPath"]: m for m in one["volumeMounts"]}
    same(sorted(volumes), sorted(m["name"] for m in mounts.values()))
    cache = containerfile(r"CUDA_CACHE_PATH=(\S+)")
    writable = sorted(path for path, m in mounts.items() if not m.get("readOnly"))
    same(writable, sorted([value(documents, "output_root"), cache]))
    folder, key = value(documents, "redis_password_file").rsplit("/", 1)
    secret = volumes[mounts[folder]["name"]]["secret"]["secretName"]
    assert key in documents["Secret", secret]["stringData"], f"the Secret has no {key}"
    same(volumes[mounts["/etc/gpuimgd"]["name"]]["configMap"]["name"], "gpuimgd")


def redis(documents):
    address = value(documents, "redis")
    scaled = documents["ScaledObject", "gpuimgd"]["spec"]
    first = scaled["triggers"][0]
    same(first["metadata"]["address"], address)
    same(first["metadata"]["listName"], value(documents, "namespace") + ":jobs")
    egress = documents["NetworkPolicy", "gpuimgd"]["spec"]["egress"]
    same(egress[0]["ports"], [{"port": int(address.rsplit(":", 1)[1])}])
    secret = documents["TriggerAuthentication", first["authenticationRef"]["name"]]
    target = secret["spec"]["secretTargetRef"][0]
    assert target["key"] in documents["Secret", target["name"]]["stringData"], target


def last_pod(documents):
    """Jobs in NS:delayed are in no list: a pod stays for them."""
    scaled = documents["ScaledObject", "gpuimgd"]["spec"]
    assert scaled["minReplicaCount"] >= 1, "delayed jobs wait without a pod"
    queries = [t["metadata"]["query"] for t in scaled["triggers"] if t["type"] == "prometheus"]
    same(["gpuimgd_queue_delayed_jobs" in query for query in queries], [True])


def labels(documents):
    wanted = {"app.kubernetes.io/name": "gpuimgd"}
    same(deployment(documents)["template"]["metadata"]["labels"], wanted)
    for kind, path in {"Deployment": ("selector", "matchLabels"), "Service": ("selector",),
                       "PodDisruptionBudget": ("selector", "matchLabels"),
                       "NetworkPolicy": ("podSelector", "matchLabels"),
                       "ServiceMonitor": ("selector", "matchLabels")}.items():
        at = documents[kind, "gpuimgd"]["spec"]
        for step in path:
            at = at[step]
        same((kind, at), (kind, wanted))
    same(documents["Service", "gpuimgd"]["metadata"]["labels"], wanted)
    same(documents["ScaledObject", "gpuimgd"]["spec"]["scaleTargetRef"], {"name": "gpuimgd"})


def memory(documents):
    """The formulas of gpuimgd.conf(5), for one GPU with 8 streams and all of its jobs."""
    limits = Path("conf/limits.h").read_text()

    def limit(name):
        return int(re.search(rf"^#define {name} ([0-9]+)", limits, re.M).group(1))
    workers = int(value(documents, "workers"))
    inflight = 2 * workers + 8 + limit("INFLIGHT_AHEAD_MAX") + limit("INFLIGHT_DEVICE_MAX")
    input_max = size(value(documents, "input_bytes_max"))
    resources = container(documents)["resources"]
    has = size(resources["limits"]["memory"])
    need = share(documents, "pinned_bytes", has) + share(documents, "host_bytes", has) + \
        (160 + (36 + 77) * workers) * MIB + inflight * 40 * 1024 + 2 * input_max + \
        size(value(documents, "url_bytes")) + input_max + \
        int(value(documents, "url_connections")) * 256 * 1024 + (4 * 8 + 7) * MIB + CUDA_BYTES
    assert need <= has, f"{need / MIB:.0f} MiB are needed, and the limit is {has / MIB:.0f}"
    same(resources["requests"]["memory"], resources["limits"]["memory"])
    same(int(resources["requests"]["cpu"]), workers)
    same(resources["limits"]["nvidia.com/gpu"], 1)


def images(documents):
    version = re.search(r"^VERSION = (.*)", Path("Makefile").read_text(), re.M).group(1)
    same(container(documents)["image"], f"gpuimgd:{version}")
    base = containerfile(r"^ARG BASE=(.*)")
    assert re.fullmatch(r"[a-z]+:[a-z0-9.-]+", base), f"{base} names a registry"


def links(_documents):
    page = DEPLOY / "README.md"
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert (DEPLOY / target).exists(), f"{page} has a link to {target}"


CHECKS = [
    ("terminationGracePeriodSeconds is longer than the drain", drain),
    ("the ports are that of the image's metrics_listen", ports),
    ("the probes ask for paths that the daemon serves", paths),
    ("the user is that of the image", user),
    ("the container has no privileges", confinement),
    ("the writable folders are volumes, and the password is mounted", folders),
    ("Redis is the same for the daemon, KEDA and the network policy", redis),
    ("KEDA keeps a pod for delayed jobs", last_pod),
    ("the selectors find the pods", labels),
    ("the memory limit covers the options, and the CPUs the workers", memory),
    ("the image has this version, and no name has a registry", images),
    ("the links of the page lead somewhere", links),
]


def check():
    failed = 0
    documents = load()
    for sentence, function in CHECKS:
        try:
            function(documents)
            print(f"ok - {sentence}")
        except (AssertionError, KeyError, AttributeError, ValueError) as error:
            failed += 1
            print(f"not ok - {sentence}\n    {type(error).__name__}: {error}")
    return failed > 0


def custom(schemas, paths_):
    """Prints the custom resources that their schema refuses."""
    import jsonschema
    failed = False
    known = json.loads(Path(schemas).read_text())
    for path in paths_:
        for document in yaml.safe_load_all(Path(path).read_text()):
            schema = known.get(f"{document['apiVersion']} {document['kind']}")
            if schema is None:
                continue
            print(f"{path}: {document['kind']}")
            for error in jsonschema.Draft7Validator(schema).iter_errors(document):
                failed = True
                print(f"{path}: {document['kind']}: {error.json_path}: {error.message}")
    return failed


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.exit(check())
    elif sys.argv[1] == "config":
        print(load()["ConfigMap", "gpuimgd"]["data"]["gpuimgd.conf"], end="")
    else:
        sys.exit(custom(sys.argv[2], sys.argv[3:]))
