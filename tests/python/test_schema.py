"""The JSON Schemas against the daemon: examples of the manuals, random jobs, and real results."""
import json
import os
import pathlib
import random
import re

import jsonschema
import redis
import rig
from gpuimgd import job_schema, result_schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = job_schema()
JOBS = jsonschema.Draft202012Validator(SCHEMA)
VALIDATION = {"bad_json", "bad_job", "unknown_op", "bad_op", "path_refused"}
# Errors before the daemon knows the format of an image.
UNCHECKED = {"input_missing", "expired", "bad_archive", "unsupported_format"}
# What the daemon refuses, and a schema cannot express, or can only for a given configuration.
BEYOND = [
    r"must begin with \"gpuimgd:(img|reply):\"", r"url_prefixes", r"timeout_s is [\d.]+;",
    r"is longer than", r"id has \d+ bytes",
    r"looks like milliseconds|relative time", r"must be later than not_before", r"two outputs are",
    r"is not a folder below the root", r"an earlier image has the output",
    r"both keys are", r"are both", r"which is not an output format", r"but the suffix of",
    r'is a key of .*, but "(gpuimgd:img:|https?:|[^".]*"|\.\.\.")',  # written as the input's format
    r"tracestate .*(must have|has a member|has no member|has a key twice)",
    r"numbers?, but the tensor has", r"frames?; page must be",
    # rules between parameters, and those that depend on the image
    r"is no key of the formats of", r"but the job has many images", r"low must not be above high", r"it must be at most max", r"recompress makes a JPEG XL", r"at this operation", r"has focus and gravity",
    r"needs fit cover|needs fit contain|needs both width and height|needs width",
    r"weights sum to", r"works with 8 bits|with a depth of 16|which a depth of 16 excludes", r"must be below in_white", r"its absolute value must be at least",
    r"the absolute values of kernel", r"has [xy] without [xy]", r"has x, y and gravity",
    r"has \w+ and \w+; give the size", r"must be an array of \d+ numbers",
    r"no operation that gives values", r"to be \w+ \w+, but",
]


def strict(schema):
    """The schema of results without room for keys that later daemons add."""
    schema = json.loads(json.dumps(schema))

    def close(node):
        if isinstance(node, dict):
            if node.get("type") == "object" and "properties" in node:
                node["additionalProperties"] = False
            for child in node.values():
                close(child)
        elif isinstance(node, list):
            for child in node:
                close(child)
    close(schema)
    return jsonschema.Draft202012Validator(schema)


def without_formats(schema):
    """The schema of jobs without the rules of the formats of outputs."""
    schema = json.loads(json.dumps(schema))
    del schema["$defs"]["output"]["anyOf"][1]["allOf"]
    return jsonschema.Draft202012Validator(schema)


RESULTS = strict(result_schema())
LOOSE = without_formats(SCHEMA)


# ---- the documents -----------------------------------------------------------------------------
def objects_in(text):
    """The JSON objects in a document."""
    decoder, at = json.JSONDecoder(strict=False), 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, end = decoder.raw_decode(text[at:])
        except ValueError:
            at += 1
            continue
        yield found
        at += end


def test_documents():
    """jobs and results in the manual, README.md, CLIENTS.md and OPERATIONS.md are valid"""
    jobs = results = 0
    for name in ("README.md", "conf/man/gpuimgd-job.5", "conf/man/gpuimgctl.1", "queue/CLIENTS.md",
                 "gpu/OPERATIONS.md", "conf/deploy/README.md"):
        text = re.sub(r"'\$list'", "gpuimgd:reply:1", (ROOT / name).read_text().replace("\\e", "\\"))
        text = re.sub(r"'\$\w+'|\$\w+", "1", re.sub(r"\n +", "", text) if name.endswith(".md") else text)
        for found in objects_in(text):
            if "status" in found and "job" in found:
                RESULTS.validate(found)
                results += 1
            elif "input" in found or "inputs" in found:
                JOBS.validate(found)
                jobs += 1
    assert jobs >= 8 and results >= 1, (jobs, results)


def test_package():
    """the schemas are schemas, and the keys of Job are those of the schema"""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator.check_schema(result_schema())
    from gpuimgd import Job
    rig.equal(set(Job.__dataclass_fields__), set(SCHEMA["properties"]) - {"reply_to", "pushed"})


# ---- random jobs -------------------------------------------------------------------------------
ODD = [None, True, False, 0, 1, -1, 2.5, 1e300, -1e9, "", "x", "ü\u0085", [], [1], {}, {"a": 1}, "+1",
       255, 256, 3, 4, "none", "transparent", [0, 0, 0], [1, 2, 3, 4], [[1]], [[1, 2], [3]]]


# Templates of outputs of many images, made from a name; some are wrong.
NAMES = ["{}", "{}%p", "%p/{}", "%n-{}", "%%{}", "%%%p{}", "%{}", "{}%", "{}.tar", "%d{}.TAR", "{}.tar.gz", "%p{}"]


class Random:
    """Makes values after the schema, and spoils some."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, values):
        return self.random.choice(list(values))

    def number(self, schema):
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        high = schema.get("maximum", low + 100)
        kind = self.random.random()
        if kind < 0.2:
            return low
        if kind < 0.4:
            return high
        if kind < 0.42:
            return low - 1
        if kind < 0.44:
            return high + 1
        if schema.get("type") == "integer":
            return self.random.randint(int(low), int(min(high, low + 40)))
        return round(self.random.uniform(low, min(high, low + 50)), 3)

    def text(self, schema, name):
        usual = {"key": ["gpuimgd:img:a", "gpuimgd:img:b"], "id": ["a", "ü" * 64, "x" * 128],
                 "reply_to": ["gpuimgd:reply:all"], "tag": ["web"], "tracestate": ["a=b"],
                 "traceparent": ["00-" + "1" * 32 + "-" + "2" * 16 + "-01"], "url": ["https://host/a.png"]}
        if self.random.random() < 0.8:
            is_path = "(^|/)" in schema.get("pattern", "")
            if is_path or name in usual:
                return self.pick(["a.png", "b.jpg", "c.webp", "d.avif", "e.npy", "noformat", "g/h.png"] if is_path
                                 else usual[name])
        if name == "url":
            return self.pick(["https://host/a.png", "ftp://host/a", "http://h/a.jpg?q=1"])
        if name == "tag":
            return self.pick(["web", "a b", "x" * 64, "x" * 65, "", "a:b/c@d-e_f.9", "ü"])
        if name == "traceparent":
            return self.pick(["00-" + "1" * 32 + "-" + "2" * 16 + "-01" + end for end in ("", "-x", "0")]
                             + ["01-" + "1" * 32 + "-" + "2" * 16 + "-01" + end for end in ("", "-x", "0")]
                             + ["ff-" + "1" * 32 + "-" + "2" * 16 + "-01", "00-" + "0" * 32 + "-" + "2" * 16
                                + "-01", "00-" + "1" * 32 + "-" + "0" * 16 + "-01", "x"])
        if name == "tracestate":
            return self.pick(["a=b", "a=b,c=d", "a=", "=", "a=b" + " " * 3, ",,,", "x" * 513])
        if "[!-~]" in schema.get("pattern", ""):
            return self.pick(["public", "a b", " a", "a ", "ü", "x" * 1025, "", "x" * 1024])
        if name == "key":
            return self.pick(["gpuimgd:img:a", "gpuimgd:img:b", "gpuimgd:img:", "other:img:a", "x"])
        if name == "reply_to":
            return "gpuimgd:reply:all"
        if name == "id":
            return self.pick(["a", "ü" * 64, "x" * 128, "x" * 129, "tab\t", ""])
        if "+" in schema.get("pattern", "")[:4]:
            return self.pick(["+0.01", "+5", "5", "+", "+1.", "-1"])
        return self.pick(["a.png", "a.png", "a.png", "b.jpg", "c.JPEG", "d.webp", "e.avif", "noformat", "f.png",
                          "g/h.png", "/a.png", "a//b.png", "../a.png", "a/./b", "a/", ".gpuimgd/x",
                          ".gpuimgd", "...", "x.gif", "https://h/a", "a\nb", "ü.png"])

    def value(self, schema, name=""):
        if self.random.random() < 0.01:
            return self.pick(ODD)
        if schema is True or not schema:
            return self.pick(ODD)
        if "$ref" in schema:
            target = schema["$ref"].split("/")[-1]
            return self.value(SCHEMA["$defs"][target], target)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.pick(schema["enum"])
        kind = schema.get("type")
        if kind == "object":
            return self.object(schema)
        if kind == "array":
            return self.array(schema)
        for way in ("anyOf", "oneOf"):
            if way in schema:
                return self.value(self.pick(schema[way]), name)
        if kind == "boolean":
            return self.pick([True, False])
        return self.text(schema, name) if kind == "string" else self.number(schema)

    def array(self, schema):
        low, high = schema.get("minItems", 0), schema.get("maxItems", 3)
        if "anyOf" in schema:
            low = high = self.pick(schema["anyOf"])["minItems"]
        count = self.random.randint(low, min(high, low + 3))
        if self.random.random() < 0.02:
            count = max(0, count + self.pick([-1, 1, 40]))
        first = schema.get("prefixItems", [])
        return [self.value(first[i] if i < len(first) else schema.get("items", True)) for i in range(count)]

    def object(self, schema):
        if "propertyNames" in schema:
            return {self.pick(["user", "a-b", "A", "", "x" * 64, "x" * 65, "ü", "a.b"]):
                    self.value(schema["additionalProperties"]) for _ in range(self.random.randint(0, 3))}
        some = schema["properties"]
        keys = [k for k in some if self.random.random() < 2 / len(some)]
        keys += schema.get("required", [])
        if "oneOf" in schema:
            choices = [way["required"][0] for way in schema["oneOf"]]
            keys = [k for k in keys if k not in choices] + [self.pick(choices)]
        if self.random.random() < 0.02:
            keys.append("unknown")
        return {k: self.value(some.get(k, True), k) for k in keys if some.get(k, True) is not False}

    def job(self):
        job = self.object(SCHEMA)
        waits = job.get("not_before")
        if isinstance(waits, str) or isinstance(waits, (int, float)) and waits > 1.7e9:
            job["not_before"] = self.pick([1e9, "+0.001", 5, "later"])
        if "outputs" not in job and self.random.random() < 0.8:
            job.setdefault("output", self.value({"$ref": "#/$defs/output"}))
        if "input" in job and self.random.random() < 0.9:
            job["input"] = "a.png"
        if "inputs" in job and self.random.random() < 0.8:
            self.name_images(job)
        if self.random.random() < 0.01:
            job.update({"input": "a.png", "inputs": ["a.png"]})
        return job

    def name_images(self, job):
        """Gives most outputs of a job with inputs a template, or the suffix of a tar."""
        outputs = job.get("outputs")
        for holder in [job, *(outputs if isinstance(outputs, list) else [])]:
            output = holder.get("output") if isinstance(holder, dict) else None
            for place in [output] if isinstance(output, dict) else [holder]:
                for name in ("path", "key", "url") if place is output else ("output",):
                    if isinstance(place, dict) and isinstance(place.get(name), str):
                        place[name] = self.pick(NAMES).format(place[name])


def verdicts(link, jobs):
    """Pushes the jobs and returns their results in the same order."""
    for number, job in enumerate(jobs):
        job["meta"] = number
    texts = [json.dumps(job) for job in jobs]
    for i in range(0, len(texts), 200):
        link.lpush("gpuimgd:jobs", *texts[i:i + 200])
    found = {}
    while len(found) < len(jobs):
        popped = (link.brpop(["gpuimgd:results", "gpuimgd:reply:all"], 3))
        assert popped, f"{len(jobs) - len(found)} of {len(jobs)} jobs have no result"
        result = json.loads(popped[1])
        found[result["meta"]] = result
    return [found[number] for number in range(len(jobs))]


def errors_of(result):
    return [e for e in [result.get("error"), *[o.get("error") for o in result.get("outputs", [])]] if e]


def test_random_jobs():
    """random jobs: the schema accepts what the daemon accepts, and refuses what it refuses"""
    seed = int(os.environ.get("SEED", 1))
    made = Random(seed)
    jobs = [made.job() for _ in range(int(os.environ.get("JOBS", 1000)))]
    jobs += [{"input": "a.png", "output": {"path": "x", "format": name}, "ops": ["invert"]}
             for name in ("jpg", "jpeg", "JPG", "gif")]
    with rig.World() as world:
        link = redis.Redis(port=world.redis.port)
        link.set("gpuimgd:img:a", rig.png())
        world.start_daemon("--pixels_max=20000", "--side_max=2000", "--attempts=1")
        results = verdicts(link, jobs)
    accepted = refused = beyond = 0
    differ = []
    for job, result in zip(jobs, results):
        RESULTS.validate(result)
        wrong = next(JOBS.iter_errors(job), None)
        if "same_as" in result:
            continue  # of another unique job
        invalid = [e for e in errors_of(result) if e["code"] in VALIDATION]
        if wrong and result.get("error", {}).get("code") in UNCHECKED and (
                "input" in job or LOOSE.is_valid(job)):
            continue  # some checks need the input's format
        if wrong and not invalid:
            differ.append(f"the daemon accepts {json.dumps(job)}, the schema does not: {wrong.message}")
        elif wrong:
            refused += 1
        elif not invalid:
            accepted += 1
        elif any(re.search("|".join(BEYOND), e["message"]) for e in invalid):
            beyond += 1
        else:
            differ.append(f"the schema accepts {json.dumps(job)}, the daemon does not: "
                          + invalid[0]["message"])
    print(f"# seed {seed}: {accepted} accepted, {refused} refused, {beyond} refused by the daemon alone")
    assert not differ, "\n".join([f"{len(differ)} differ"] + differ[:8])
    assert min(accepted, refused) > len(jobs) / 20


rig.run(globals())
