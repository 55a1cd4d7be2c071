#!/usr/bin/env python3
"""Writes the generated files of the Python package and the JSON Schemas of jobs and results from the
declarations of the sources: queue/clients/generate.py BUILD [--check]. `make documents` runs it.
BUILD/tests/tools/declarations prints the declarations. --check compares the files instead.

The keys of a job and of an output have no declaration with their values in the sources. They are in
the tables JOB_KEYS and OUTPUT_KEYS, and the script fails if the sources have others."""
import json
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent
PACKAGE = ROOT / "python/src/gpuimgd"
HEAD = "# Made by queue/clients/generate.py (`make documents`); do not edit.\n"

# ---- texts of regular expressions, for ECMAScript and Python ---------------------------------------
END = r"(?![\s\S])"  # $ of Python also matches before a last line feed
PLAIN = r"[^\u0000-\u001f\u007f-\u009f]"  # not a control character
PATH = (r"^(?![A-Za-z0-9][A-Za-z0-9+.-]*://)(?![\s\S]*(^|/)\.{0,2}(/|" + END + "))" + PLAIN + "+" + END)
# "." is input_root, and a slash may follow.
FOLDER = (r"^(\./?|(?![A-Za-z0-9][A-Za-z0-9+.-]*://)(?!/)(?![\s\S]*//)(?![\s\S]*(^|/)\.{1,2}(/|" + END + "))"
          + PLAIN + "+)" + END)
OUTPUT_PATH = r"^(?!\.gpuimgd(/|" + END + "))" + PATH[1:]
TAR = r"\.[Tt][Aa][Rr]" + END
TEMPLATE = "^([^%]|%%)*%[pn]([^%]|%[pn%])*" + END
URL = "^[Hh][Tt][Tt][Pp][Ss]?://" + PLAIN + "*" + END
IDS = "-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
TRACEPARENT = f"^(00{IDS}|(?!00|ff)[0-9a-f]{{2}}{IDS}(-[\\s\\S]*)?){END}"
DELAY = r"^\+[0-9]+(\.[0-9]+)?" + END


def any_case(word):
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word)


def key_pattern(kind):
    return f"^{PLAIN}+:{kind}:{PLAIN}+{END}"


class Declarations:
    def __init__(self, build):
        tool = pathlib.Path(build) / "tests/tools/declarations"
        self.all = json.loads(subprocess.run([str(tool)], check=True, stdout=subprocess.PIPE).stdout)
        self.limits = self.all["limits"]
        self.operations = self.all["operations"]
        self.formats = [f for f in self.all["formats"] if f["written"]]
        self.encoder = {row["name"]: row for row in self.all["encoder_parameters"]}
        self.codes = self.all["codes"]


# ---- keys of a job: their schema, their type in Python, and their text -----------------------------
def job_keys(d):
    time = {"anyOf": [{"type": "number", "minimum": 978307200, "maximum": 1e11},
                      {"type": "string", "pattern": DELAY}]}
    return {
        "input": ({"$ref": "#/$defs/input"}, "Optional[InputPlace]",
                  "The image: a path below input_root, a Key, a Url, or an Upload with its bytes."),
        "output": ({"$ref": "#/$defs/output"}, "Optional[Union[OutputPlace, Output]]",
                   "Where the result goes: a path below output_root, a Key, a Url, a Download, or one "
                   "of these with the settings of an encoder (gpuimgd.out)."),
        "ops": ({"$ref": "#/$defs/ops"}, "Sequence[Step]",
                f"At most {d.limits['ops']} operations in their order (gpuimgd.ops, or names)."),
        "outputs": ({"type": "array", "minItems": 1, "maxItems": d.limits["outputs"],
                     "items": {"$ref": "#/$defs/variant"}}, "Optional[Sequence[Variant]]",
                    f"Instead of output and ops: 1 to {d.limits['outputs']} outputs, each with its "
                    "own operations. The input is decoded once."),
        "inputs": ({"anyOf": [{"type": "array", "minItems": 1, "maxItems": d.limits["inputs"],
                               "items": {"$ref": "#/$defs/input"}}, {"$ref": "#/$defs/inputs"}]},
                   "Optional[Union[Sequence[InputPlace], Folder, Archive]]",
                   f"Instead of input: a list of 1 to {d.limits['inputs']} images, or those of a "
                   "Folder or of an Archive. The path, key or URL of an output then has %p or %n, "
                   "unless all images share it: a path that ends in .tar, or one with pack."),
        "on_error": ({"enum": ["skip", "fail"]}, "Optional[Literal[\"skip\", \"fail\"]]",
                     "With inputs: whether an image that fails is left out, which is the default, "
                     "or the job fails."),
        "id": ({"type": "string", "minLength": 1, "maxLength": d.limits["id_bytes"],
                "pattern": f"^{PLAIN}+{END}"}, "Optional[str]",
               f"1 to {d.limits['id_bytes']} bytes without control characters. The result repeats it."),
        "timeout_s": ({"type": "number", "exclusiveMinimum": 0}, "Optional[float]",
                      "Seconds of work for one attempt, above 0 and at most job_timeout_s."),
        "background": ({"type": "array", "minItems": 3, "maxItems": 3,
                        "items": {"type": "integer", "minimum": 0, "maximum": 255}},
                       "Optional[Sequence[int]]",
                       "[red, green, blue], 0 to 255: the colour under transparent pixels. Default: "
                       "white."),
        "orient": ({"type": "boolean"}, "Optional[bool]",
                   "Whether the EXIF orientation is applied first. Default: true."),
        "trim": ({"$ref": "#/$defs/trim"}, "Optional[Trim]",
                 "Removes the borders of one colour around the input, before all operations."),
        "page": ({"type": "integer", "minimum": 0, "maximum": d.limits["page"]}, "Optional[int]",
                 "The frame of an animation, or the page, that is read. Default: 0, the first."),
        "frames": ({"anyOf": [{"enum": ["first", "refuse", "all"]}, {"$ref": "#/$defs/strip"}]},
                   "Optional[Union[Literal[\"first\", \"refuse\", \"all\"], Strip]]",
                   "What becomes of an input with several frames: one is read, which is the default; "
                   "the input fails; a Strip of them is one image; or all are read, as the images of a job with inputs. An output "
                   "whose path ends in .webp or .avif is then an animation."),
        "meta": (True, "Any", "Any JSON value. The result repeats it."),
        "reply_to": ({"type": "string", "maxLength": d.limits["key_bytes"],
                      "pattern": key_pattern("reply")}, "Optional[str]",
                     "The list for the result, NS:reply:..."),
        "pushed": ({"type": "number", "minimum": 0}, "Optional[float]",
                   "The time of the push in Unix seconds."),
        "unique": ({"type": "boolean"}, "Optional[bool]",
                   "Whether one job with this id at a time runs, and others get its result."),
        "not_before": (time, "Optional[Time]", "The job does not start before this time."),
        "expires": (time, "Optional[Time]", "The job does not start after this time."),
        "priority": ({"type": "integer", "minimum": 0, "maximum": d.limits["priorities"] - 1},
                     "Optional[int]", f"0 to {d.limits['priorities'] - 1}, the most urgent."),
        "tag": ({"type": "string", "maxLength": d.limits["tag_bytes"],
                 "pattern": f"^[A-Za-z0-9._:/@-]+{END}"}, "Optional[str]",
                f"The client or the kind of work, for metrics: 1 to {d.limits['tag_bytes']} letters, "
                "digits and characters of ._:/@-."),
        "traceparent": ({"type": "string", "maxLength": d.limits["traceparent_bytes"],
                         "pattern": TRACEPARENT}, "Optional[str]",
                        "The job's place in a trace of the client (W3C Trace Context)."),
        "tracestate": ({"type": "string", "minLength": 3, "maxLength": d.limits["tracestate_bytes"]},
                       "Optional[str]", "More of W3C Trace Context; requires traceparent."),
    }


# Keys of a job that the client sets. A caller cannot.
CLIENT_KEYS = ("reply_to", "pushed")
# Keys with which a Job begins; they may be positional arguments.
FIRST_KEYS = ("input", "output", "ops", "outputs")


def format_names(f):
    """In jobs, a suffix names a format, too. Results have its name."""
    return list(dict.fromkeys([f["name"], *f["suffixes"]]))


def names(formats):
    return [name for f in formats for name in format_names(f)]


def lossy(d):
    return [f for f in d.formats if "quality" in f["parameters"]]


def output_keys(d):
    words = d.all["metadata"]
    return {
        "format": ({"anyOf": [{"enum": [*names(d.formats), "auto"]},
                              {"type": "array", "minItems": 1, "items": {"enum": names(lossy(d))}}]}, None,
                   "By default that of the suffix of the path or URL, or else that of the input, if it is "
                   "written. With a quality that names a similarity, also a list of formats, of which the "
                   "smallest file is written, or \"auto\": jpeg, webp and avif."),
        "normalize": ({"$ref": "#/$defs/normalize"}, "Optional[Normalize]",
                      "Makes (v / 255 - mean) / std of a value v. Requires type f16 or f32."),
        "metadata": ({"anyOf": [{"const": "none"}, {"type": "array", "items": {"enum": words}}]},
                     "Optional[Union[Literal[\"none\"], Sequence[Metadata]]]",
                     "What the output keeps of the input's metadata: a list of "
                     + ", ".join(words) + ", or \"none\". Default: [\"icc\"]."),
        "ttl_s": ({"type": "integer", "minimum": 0, "maximum": 4294967295}, "Optional[int]",
                  "Seconds until an output with a key expires; 0 (the default): it does not."),
        "headers": ({"$ref": "#/$defs/headers"}, "Optional[Headers]",
                    "Headers of the upload to a Url."),
        "pack": ({"enum": ["tar", "array"]}, "Optional[Literal[\"tar\", \"array\"]]",
                 "With inputs: writes all images to the path, as one tar, or as one array of npy or "
                 "raw."),
    }


# Keys of an output that only tensors have, and that they do not have.
TENSOR_KEYS, IMAGE_KEYS = ("normalize",), ("metadata",)


def normalize_schema(d):
    most = d.all["normalize"]["max"]
    return {"type": "object", "additionalProperties": False, "properties": {
        name: {"type": "array", "minItems": 1, "maxItems": 4, "items": spread(low, most)}
        for name, low in (("mean", -most), ("std", d.all["normalize"]["std_min"]))}}


def headers_schema(d):
    value = {"type": "string", "maxLength": d.limits["header_bytes"],
             "pattern": f"^[!-~]([ -~]*[!-~])?{END}"}
    return {"type": "object", "minProperties": 1, "additionalProperties": False, "properties": {
        "cache_control": value, "content_disposition": value, "metadata": {
            "type": "object", "minProperties": 1, "maxProperties": d.limits["metadata_names"],
            "propertyNames": {"maxLength": d.limits["header_name_bytes"],
                              "pattern": f"^[a-z0-9._-]+{END}"},
            "additionalProperties": value}}}


def check_keys(what, ours, theirs):
    if set(ours) != set(theirs):
        sys.exit(f"generate.py: the sources and the table of keys of {what} differ in "
                 f"{', '.join(sorted(set(ours) ^ set(theirs)))}")


# ---- operations ------------------------------------------------------------------------------------
def number(value):
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:g}".replace("e+0", "e").replace("e-0", "e-")


def exact(value):
    return int(value) if value == int(value) else value


def spread(low, high, kind="number"):
    return {"type": kind, "minimum": exact(low), "maximum": exact(high)}


def odd_lengths(longest):
    return {"anyOf": [{"minItems": n, "maxItems": n} for n in range(1, longest + 1, 2)]}


def param_schema(p):
    low, high, n = p["min"], p["max"], p["columns"]
    kind = p["kind"]
    if kind == "odd":
        if high == low + 2:
            return {"enum": [exact(low), exact(high)]}
        return {**spread(low, high, "integer"), "not": {"multipleOf": 2}}
    if kind == "word":
        return {"enum": p["words"]}
    if kind in ("integers", "numbers"):
        return {"type": "array", "minItems": n, "maxItems": n,
                "items": spread(low, high, kind[:-1])}
    if kind == "matrix":
        last = p["last_max"]
        return {"type": "array", "minItems": p["rows"], "maxItems": p["rows"],
                "items": {"type": "array", "minItems": n, "maxItems": n,
                          "prefixItems": [spread(low, high)] * (n - 1) + [spread(-last, last)]}}
    if kind == "odd_matrix":
        return {"type": "array", **odd_lengths(p["rows"]),
                "items": {"type": "array", **odd_lengths(n), "items": spread(low, high)}}
    if kind == "boolean":
        return {"type": "boolean"}
    if kind == "text":
        return {"type": "string", "minLength": 1, "maxLength": exact(high)}
    if kind in ("color", "place"):
        return {"$ref": "#/$defs/" + {"color": "color", "place": "overlay"}[kind]}
    return spread(low, high, kind)


def param_type(p):
    return {"integer": "int", "odd": "int", "number": "float", "boolean": "bool",
            "integers": "Sequence[int]", "numbers": "Sequence[float]",
            "matrix": "Sequence[Sequence[float]]", "odd_matrix": "Sequence[Sequence[float]]",
            "color": "Color", "place": "OverlayPlace", "text": "str",
            "word": literal(p.get("words", ()))}[p["kind"]]


def param_text(p):
    low, high, n = number(p["min"]), number(p["max"]), p["columns"]
    text = {
        "integer": f"an integer of {low} to {high}", "number": f"{low} to {high}",
        "odd": f"{low} or {high}" if p["max"] == p["min"] + 2 else
               f"an odd integer of {low} to {high}",
        "boolean": "True or False", "word": ", ".join(p.get("words", ())),
        "integers": f"{n} integers of {low} to {high}",
        "numbers": f"{n} numbers of {low} to {high}",
        "matrix": f"{p['rows']} rows of {n} numbers from {low} to {high}; the last of a row from "
                  f"-{number(p['last_max'])} to {number(p['last_max'])}",
        "odd_matrix": f"rows of numbers from {low} to {high}; odd numbers of rows and columns, at "
                      f"most {n}",
        "color": "[red, green, blue] or [red, green, blue, alpha] of 0 to 255, or \"transparent\"",
        "place": "a path, a Key, or an Upload",
        "text": f"{low} to {high} bytes of UTF-8",
    }[p["kind"]]
    if p["required"]:
        text += "; required"
    elif "default" in p:
        standard = p["default"]
        text += f"; default: {standard if isinstance(standard, (bool, str, list)) else number(standard)}"
    return text + "." + (" " + p["help"] + "." if p["help"] else "")


def simple_names(d):
    """Operations whose name alone is an operation: those without required parameters."""
    return [o["name"] for o in d.operations if not any(p["required"] for p in o["parameters"])]


# ---- Python ----------------------------------------------------------------------------------------
def literal(words):
    return "Literal[" + ", ".join(json.dumps(word) for word in words) + "]"


def wrap(text, indent, hanging=None):
    blank = " " * indent
    return textwrap.fill(" ".join(text.split()), 100, initial_indent=blank, break_on_hyphens=False,
                         subsequent_indent=blank if hanging is None else " " * hanging,
                         break_long_words=False)


def function(name, arguments, result, body, help_text, rows):
    """arguments: texts like `width: Optional[int] = None`; rows: name and text of each."""
    lines = [f"def {name}("] + [wrap(f"{a},", 4, 8) for a in arguments] + [f") -> {result}:"]
    doc = wrap(f'"""{help_text}', 4)
    if rows:
        doc += "\n\n" + "\n".join(wrap(f"{n}: {text}", 4, 8) for n, text in rows) + "\n    "
    return "\n".join(lines) + "\n" + doc.replace("\\", "\\\\") + '"""\n' + body + "\n"


def ops_module(d):
    text = HEAD + '"""The operations of jobs. gpu/OPERATIONS.md defines each to the bit."""\n'
    text += ("from __future__ import annotations\n\nfrom typing import Literal, Optional, Sequence\n\n"
             "from .places import Color, OverlayPlace\nfrom .steps import Operation\n\n")
    names = [op["name"] for op in d.operations]
    text += "__all__ = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"
    for op in d.operations:
        needed = [p for p in op["parameters"] if p["required"]]
        others = [p for p in op["parameters"] if not p["required"]]
        arguments = [f"{p['name']}: {param_type(p)}" for p in needed]
        arguments = (["*"] + arguments if op["parameters"] else []) + [
            f"{p['name']}: Optional[{param_type(p)}] = None" for p in others]
        pairs = "".join(f'        {p["name"]}={p["name"]},\n' for p in op["parameters"])
        body = f'    return Operation(\n        "{op["name"]}",\n{pairs}    )'
        text += "\n\n" + function(op["name"], arguments, "Operation", body, op["help"] + ".",
                                  [(p["name"], param_text(p)) for p in op["parameters"]])
    return text


def mdoc_free(text):
    """The text of a manual page without its macros."""
    lines = []
    for line in text.split("\n"):
        words = line.split()
        lines.append(" ".join(words[1:]).replace(" .", ".").replace(" ,", ",")
                     if line.startswith(".") else line)
    return " ".join(" ".join(lines).split())


def encoder_type(row):
    return {"integer": "int", "quality": "Union[int, Quality]", "boolean": "bool",
            "either": literal((row["min"], row["max"])),
            "word": literal(row.get("words", ()))}[row["kind"]]


def encoder_text(row, standard):
    text = (f"{row['min']} to {row['max']}" if row["kind"] in ("integer", "quality") else
            f"{row['min']} or {row['max']}" if row["kind"] == "either" else
            "True or False" if row["kind"] == "boolean" else ", ".join(row["words"]))
    text += f"; default: {'none' if standard is None else standard}." if standard != "" else "."
    return text + (" " + mdoc_free(row["help"]) if row["help"] else "")


def out_function(name, help_text, rows, fixed, more):
    arguments = ["place: OutputPlace", "*"] + [
        f"{row['name']}: Optional[{encoder_type(row)}] = None" for row, _ in rows]
    docs = [(row["name"], encoder_text(row, standard)) for row, standard in rows]
    for key, (_, hint, text) in more.items():
        arguments.append(f"{key}: {hint} = None")
        docs.append((key, text))
    names = ([f'format="{fixed}"'] if fixed else ["format=format"]) + [
        f"{name}={name}" for name in [row["name"] for row, _ in rows] + list(more) if name != "format"]
    body = "    return Output(\n        place,\n" + "".join(f"        {n},\n" for n in names) + "    )"
    return "\n\n" + function(name, arguments, "Output", body, help_text, docs)


def out_module(d):
    keys = output_keys(d)
    more = {key: row for key, row in keys.items() if key != "format"}
    text = HEAD + '"""The settings of outputs: one function per format."""\n'
    text += ("from __future__ import annotations\n\nfrom typing import Literal, Optional, Sequence, Union\n\n"
             "from .places import OutputPlace\nfrom .steps import Headers, Normalize, Output, Quality\n\n"
             f"Format = {literal([f['name'] for f in d.formats])}\n"
             f"Metadata = {literal(d.all['metadata'])}\n\n")
    text += "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(
        ["Format", "Metadata", "image"] + [f["name"] for f in d.formats])) + "]\n"
    for f in d.formats:
        rows = [(d.encoder[name], standard) for name, standard in f["parameters"].items()]
        own = {k: v for k, v in more.items() if k not in (IMAGE_KEYS if f["tensor"] else TENSOR_KEYS)}
        text += out_function(f["name"], f"Writes {f['noun']}.", rows, f["name"], own)
    rows = [(row, "") for row in d.encoder.values()]
    every = {"format": (None, "Optional[Union[Format, Literal[\"auto\"], Sequence[Format]]]", keys["format"][2]),
             **more}
    return text + out_function("image", "Writes the format of the suffix, or else that of the input. "
                               "An encoder's key for another format is an error of the job.",
                               rows, None, every)


def job_module(d):
    keys = {k: v for k, v in job_keys(d).items() if k not in CLIENT_KEYS}
    rest = [k for k in keys if k not in FIRST_KEYS]
    text = HEAD + '"""A job."""\nfrom __future__ import annotations\n\n'
    text += ("from dataclasses import dataclass\n"
             "from typing import Any, Literal, Optional, Sequence, Union\n\n"
             "from .places import Archive, Folder, InputPlace, OutputPlace\n"
             "from .steps import UNSET, Output, Step, Strip, Time, Trim, Variant\n\n\n"
             "@dataclass(frozen=True)\nclass Job:\n")
    text += wrap('"""A job. It has either input or inputs, and either output and ops, or outputs. The client sets reply_to and '
                 "pushed, and an id if there is none; then the job is also unique, unless this says "
                 "otherwise.", 4) + "\n\n"
    text += "\n".join(wrap(f"{k}: {keys[k][2]}", 4, 8) for k in list(FIRST_KEYS) + rest) + '\n    """\n\n'
    for key in list(FIRST_KEYS) + rest:
        standard = {"ops": " = ()", "meta": " = UNSET"}.get(key, " = None")
        text += f"    {key}: {keys[key][1]}{standard}\n"
    return text + (
        "\n    def __post_init__(self) -> None:\n"
        "        if (self.input is None) == (self.inputs is None):\n"
        '            raise TypeError("a job has either input or inputs")\n')


def declared_module(d):
    text = HEAD + '"""Error codes, limits, and the script that cancels jobs."""\n'
    text += "from __future__ import annotations\n\nimport enum\nfrom typing import Dict, Literal\n\n"
    text += f'VERSION = "{d.all["version"]}"\n'
    text += "".join(f"{name.upper()}_MAX = {value}\n" for name, value in d.limits.items())
    text += "\n" + wrap("OperationName = " + literal(simple_names(d)), 0, 4) + "\n"
    text += '\n\nclass ErrorCode(str, enum.Enum):\n    """Why a job or an output failed."""\n\n'
    for code in d.codes:
        text += wrap(f"# {code['meaning']}", 4).replace("\n    ", "\n    # ") + "\n"
        text += f'    {code["name"].upper()} = "{code["name"]}"\n'
    text += ('\n    @property\n    def retryable(self) -> bool:\n        """Whether the daemon '
             'repeats a job that failed with this code."""\n        return _RETRYABLE[self.value]\n\n'
             '    def __str__(self) -> str:\n        return self.value\n\n\n')
    text += "_RETRYABLE: Dict[str, bool] = {\n" + "".join(
        f'    "{code["name"]}": {code["retryable"]},\n' for code in d.codes) + "}\n"
    script = d.all["cancel_script"]
    assert '"""' not in script and "\\n" in script
    return text + f'\nCANCEL_SCRIPT = r"""\n{script}"""\n'


# ---- JSON Schema -----------------------------------------------------------------------------------
def place_object(keys, more):
    return {"type": "object", "properties": {**keys, **more}, "additionalProperties": False,
            "oneOf": [{"required": [key]} for key in keys]}


def encoder_schema(row):
    if row["kind"] == "quality":
        return {"anyOf": [spread(row["min"], row["max"], "integer"), {"$ref": "#/$defs/quality"}]}
    if row["kind"] == "either":
        return {"enum": [row["min"], row["max"]]}
    return ({"type": "boolean"} if row["kind"] == "boolean" else {"enum": row["words"]}
            if row["kind"] == "word" else spread(row["min"], row["max"], "integer"))


def quality_schema(d):
    row = d.encoder["quality"]
    one = spread(row["min"], row["max"], "integer")
    return {"type": "object", "additionalProperties": False, "required": ["ssim"],
            "properties": {"ssim": spread(0.000001, 0.999999), "min": one, "max": one}}


def format_rules(d):
    """Per format, chosen by the key or by the suffix of the path: the suffix and the keys fit."""
    def suffix_of(f):
        return r"\.(" + "|".join(any_case(s) for s in f["suffixes"]) + ")" + END
    is_tar = {"properties": {"pack": {"const": "tar"}}, "required": ["pack"]}
    rules = [{"if": {"properties": {"lossless": {"const": True}}, "required": ["lossless"]},
              "then": {"properties": {"max_bytes": {"maximum": 0},
                                      "quality": {"type": "integer"}}}},
             {"if": {"properties": {"depth": {"const": 16}}, "required": ["depth"]},
              "then": {"properties": {"colors": False}}},
             {"if": {"required": ["normalize"]},
              "then": {"required": ["type"], "properties": {"type": {"enum": ["f16", "f32"]}}}}]
    rules.append({
        "if": {"properties": {"format": {"anyOf": [{"const": "auto"}, {"type": "array"}]}}, "required": ["format"]},
        "then": {"required": ["quality"], "properties": {
            "quality": {"type": "object"}, "max_bytes": {"maximum": 0}, "pack": False, "normalize": False,
            "path": {"not": {"pattern": "|".join(suffix_of(f) for f in d.formats)}}}}})
    for f in d.formats:
        others = {name: False for name in d.encoder if name not in f["parameters"]}
        if f["tensor"]:
            others["metadata"] = {"anyOf": [{"const": "none"},
                                            {"type": "array", "items": {"const": "icc"}}]}
        else:
            others.update({name: False for name in TENSOR_KEYS})
        other_suffixes = "|".join(suffix_of(o) for o in d.formats if o is not f)
        given = {"properties": {"format": {"enum": format_names(f)}}, "required": ["format"]}
        rules.append({"if": given, "then": {"properties": others, "anyOf": [
            is_tar, {"properties": {"path": {"not": {"pattern": other_suffixes}}}}]}})
        rules.append({
            "if": {"properties": {"path": {"pattern": suffix_of(f)}}, "required": ["path"],
                   "not": {"anyOf": [{"required": ["format"]}, is_tar]}},
            "then": {"properties": others}})
    return rules


def set_output(d):
    """The output of a job with inputs: names each image, or holds all of them."""
    tensors = [f for f in d.formats if f["tensor"]]
    suffix = r"\.(" + "|".join(any_case(s) for f in tensors for s in f["suffixes"]) + ")" + END
    named = [{"required": [n], "properties": {n: {"pattern": TEMPLATE}}} for n in ("path", "key", "url")]
    return {"anyOf": [
        {"type": "string", "anyOf": [{"pattern": TAR}, {"pattern": TEMPLATE}]},
        {"type": "object", "required": ["pack", "path"], "properties": {"pack": {"const": "tar"}}},
        {"type": "object", "required": ["pack", "path"], "properties": {"pack": {"const": "array"}},
         "anyOf": [{"required": ["format"], "properties": {
                       "format": {"enum": [name for f in tensors for name in format_names(f)]}}},
                   {"not": {"required": ["format"]}, "properties": {"path": {"pattern": suffix}}}]},
        {"type": "object", "properties": {"pack": False}, "anyOf": [
            {"required": ["path"], "properties": {"path": {"pattern": TAR}}}, *named]}]}


def frames_output(d):
    """The output of a job with all frames of its input: also an animation."""
    movies = [f for f in d.formats if f["movies"]]
    suffix = r"\.(" + "|".join(any_case(s) for f in movies for s in f["suffixes"]) + ")" + END
    return {"anyOf": [
        {"$ref": "#/$defs/set_output"}, {"type": "string", "pattern": suffix},
        {"type": "object", "required": ["path"], "properties": {"pack": False}, "anyOf": [
            {"required": ["format"], "properties": {
                "format": {"enum": [name for f in movies for name in format_names(f)]}}},
            {"not": {"required": ["format"]}, "properties": {"path": {"pattern": suffix}}}]}]}


def of_outputs(schema):
    """A rule for the output of a job and for each of its outputs."""
    return {"output": schema, "outputs": {"items": {"properties": {"output": schema}}}}


def operation_schema(op):
    properties = {"op": {"const": op["name"]}}
    for p in op["parameters"]:
        schema = {"description": p["help"] + ".", **param_schema(p)} if p["help"] else param_schema(p)
        if "default" in p:
            schema["default"] = (exact(p["default"]) if isinstance(p["default"], float)
                                 else p["default"])
        properties[p["name"]] = schema
    needed = ["op"] + [p["name"] for p in op["parameters"] if p["required"]]
    return {"type": "object", "description": op["help"] + ".", "properties": properties,
            "required": needed, "additionalProperties": False}


def job_schema(d):
    keys, out_keys = job_keys(d), output_keys(d)
    path = {"type": "string", "pattern": PATH, "maxLength": d.limits["path_bytes"]}
    key = {"type": "string", "pattern": key_pattern("img"), "maxLength": d.limits["key_bytes"]}
    url = {"type": "string", "pattern": URL, "maxLength": d.limits["url_bytes"]}
    out_path = {**path, "pattern": OUTPUT_PATH}
    encoder = {name: encoder_schema(row) for name, row in d.encoder.items()}
    giving = {"enum": [o["name"] for o in d.operations if o["values"]]}
    byte = {"type": "integer", "minimum": 0, "maximum": 255}
    either = [{"required": ["output"]},
              {"required": ["ops"], "properties": {"ops": {"contains": {"anyOf": [
                  giving, {"type": "object", "properties": {"op": giving}, "required": ["op"]}]}}}}]
    definitions = {
        "path": path, "key": key, "url": url,
        "input": {"anyOf": [{"$ref": "#/$defs/path"},
                            place_object({n: {"$ref": f"#/$defs/{n}"} for n in ("path", "key", "url")}, {})]},
        "inputs": {**place_object({"folder": {**path, "pattern": FOLDER}, "archive": {"$ref": "#/$defs/input"}},
                                  {"pattern": {"anyOf": [{"$ref": "#/$defs/pattern"}, {
                                      "type": "array", "minItems": 1, "maxItems": d.limits["patterns"],
                                      "items": {"$ref": "#/$defs/pattern"}}]}})},
        "pattern": {"type": "string", "minLength": 1, "maxLength": d.limits["pattern_bytes"]},
        "set_output": set_output(d),
        "overlay": {"anyOf": [{"$ref": "#/$defs/path"},
                              place_object({n: {"$ref": f"#/$defs/{n}"} for n in ("path", "key")}, {})]},
        "output": {"anyOf": [
            out_path,
            {**place_object({"path": out_path, "key": {"$ref": "#/$defs/key"},
                             "url": {"$ref": "#/$defs/url"}},
                            {**{n: v[0] for n, v in out_keys.items()}, **encoder}),
             "dependentRequired": {"ttl_s": ["key"], "headers": ["url"]}, "allOf": format_rules(d)}]},
        "headers": headers_schema(d), "quality": quality_schema(d), "normalize": normalize_schema(d),
        "trim": {"type": "object", "additionalProperties": False, "properties": {
            "color": {"type": "array", "minItems": 3, "maxItems": 3, "items": byte},
            "threshold": byte}},
        "strip": {"type": "object", "additionalProperties": False, "required": ["strip"],
                  "properties": {"strip": {"type": "integer", "minimum": 2,
                                           "maximum": d.limits["strip"]}}},
        "ops": {"type": "array", "maxItems": d.limits["ops"], "items": {"$ref": "#/$defs/operation"}},
        "operation": {"oneOf": [{"enum": simple_names(d)}] + [
            {"$ref": f"#/$defs/op_{o['name']}"} for o in d.operations]},
        "color": {"anyOf": [{"const": "transparent"},
                            {"type": "array", "minItems": 3, "maxItems": 4, "items": byte}]},
        "variant": {"type": "object", "additionalProperties": False, "anyOf": either,
                    "properties": {"output": {"$ref": "#/$defs/output"}, "ops": {"$ref": "#/$defs/ops"}}},
        **{f"op_{o['name']}": operation_schema(o) for o in d.operations},
    }
    properties = {name: {"description": text, **(schema if schema is not True else {})}
                  for name, (schema, _, text) in keys.items()}
    all_frames = {"required": ["frames"], "properties": {"frames": {"const": "all"}}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A job of gpuimgd",
            "description": "gpuimgd-job(5) describes the keys. The daemon checks more: the namespace of "
                           "keys, lengths in bytes, and rules between parameters.",
            "type": "object", "properties": properties,
            "oneOf": [{"required": ["input"]}, {"required": ["inputs"]}],
            "additionalProperties": False, "dependentRequired": {"tracestate": ["traceparent"]},
            "allOf": [{"if": {"required": ["outputs"]},
                       "then": {"properties": {"output": False, "ops": False}}, "else": {"anyOf": either}},
                      {"if": {"properties": {"unique": {"const": True}}, "required": ["unique"]},
                       "then": {"required": ["id"]}},
                      {"if": {"required": ["inputs"]},
                       "then": {"properties": {"frames": {"not": {"const": "all"}},
                                               **of_outputs({"$ref": "#/$defs/set_output"})}},
                       "else": {"properties": {"on_error": False}}},
                      {"if": {"required": ["input"], "not": all_frames},
                       "then": {"properties": of_outputs({"properties": {"pack": False}})}},
                      {"if": {"required": ["frames"], "properties": {"frames": {"type": "object"}}},
                       "then": {"properties": {"page": False}}},
                      {"if": all_frames,
                       "then": {"properties": {"page": False, "trim": False,
                                                   **of_outputs(frames_output(d))}}}],
            "$defs": definitions}


def result_schema(d):
    def numbers(names, least=0):
        return {name: {"type": "integer", "minimum": least} for name in names}

    def texts(names):
        return {name: {"type": "string"} for name in names}
    engine = {"type": "string", "pattern": f"^(cpu|cuda:[0-9]+){END}"}
    row = {"type": "array", "items": {"type": "number"}}
    values = {"otsu": {"type": "integer", "minimum": 0, "maximum": 255},
              "histogram": {"type": "array", "items": row},
              "stats": {"type": "object", "properties": {"mean": row, "min": row, "max": row}},
              "palette": {"type": "array", "maxItems": 16, "items": {
                  "type": "object", "required": ["color", "share"], "properties": {
                      "color": {"type": "array", "minItems": 3, "maxItems": 3, "items": {
                          "type": "integer", "minimum": 0, "maximum": 255}},
                      "share": {"type": "number"}}}},
              "phash": {"type": "string", "pattern": f"^[0-9a-f]{{16}}{END}"},
              "blurhash": {"type": "string"}, "thumbhash": {"type": "string"},
              "attention": {"type": "array", "minItems": 4, "maxItems": 4, "items": {"type": "integer"}}}
    giving = {o["name"] for o in d.operations if o["values"]} - {"resize"}
    check_keys("values", values, giving | {"attention"})
    image = {**texts(["path", "key", "url"]), "format": {"enum": [f["name"] for f in d.all["formats"]]},
             **numbers(["width", "height", "bytes"], 1)}
    error = {"$ref": "#/$defs/error"}
    archive = {"enum": [*image["format"]["enum"], "tar", "zip"]}
    shape = {"type": "array", "minItems": 3, "maxItems": 4, "items": {"type": "integer", "minimum": 1}}
    given = {"type": "object", "patternProperties": {
        f"^{name}(_[0-9]+)?{END}": schema for name, schema in values.items()}}
    output = {**image, **numbers(["quality"], 1),
              "ssim": {"type": "number", "minimum": 0, "maximum": 1}, "encoder": engine, "error": error,
              "dtype": {"enum": ["uint8", "float16", "float32"]}, "shape": shape,
              **numbers(["images"]), "values": given}
    images = {**numbers(["count", "done", "failed", "copied", "pixels"]),
              **numbers(["skipped", "errors_omitted", "values_omitted"], 1), **texts(["warning"]),
              "errors": {"type": "array", "minItems": 1, "items": {
                  "type": "object", "required": ["image", "error"],
                  "properties": {**numbers(["image"]), **texts(["name"]), "error": error}}},
              "values": {"type": "array", "minItems": 1, "items": {
                  "type": "object", "required": ["image", "output", "values"],
                  "properties": {**numbers(["image", "output"]), "values": given}}}}
    trimmed = {"type": "object", "properties": {
        **numbers(["x", "y"]), **numbers(["width", "height"], 1)}}
    times = ["queue", "download", "read", "admit", "decode", "h2d", "kernel", "d2h", "encode",
             "upload", "total"]
    properties = {
        "id": {"type": "string"}, **numbers(["job"], 1), **numbers(["shard"]), **numbers(["same_as"], 1),
        "status": {"enum": ["done", "failed", "dead", "cancelled"]}, "error": error, "meta": True,
        "priority": job_keys(d)["priority"][0],
        **texts(["tag", "traceparent", "tracestate"]),
        "input": {"type": "object", "properties": {**image, "format": archive, **texts(["folder"]),
                                                   **numbers(["frames"], 2), "gain_map": {"const": True},
                                                   "trim": trimmed}},
        "text": {"type": "string"}, "images": {"type": "object", "properties": images, "required": [
            "count", "done", "failed", "copied", "pixels"]},
        "outputs": {"type": "array", "maxItems": d.limits["outputs"],
                    "items": {"type": "object", "properties": output}},
        **numbers(["attempt"]), "engine": engine, "decoder": engine, "daemon": {"type": "string"},
        "ms": {"type": "object", "properties": {n: {"type": "number", "minimum": 0} for n in times}}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A result of gpuimgd",
            "description": "gpuimgd-job(5) describes the keys. A daemon of a later version may add some.",
            "type": "object", "properties": properties, "required": ["job", "status"],
            "if": {"properties": {"status": {"const": "done"}}},
            "then": {"properties": {"error": False}}, "else": {"required": ["error"]},
            "$defs": {"error": {
                "type": "object", "required": ["code", "message", "retryable"],
                "properties": {"code": {"enum": [c["name"] for c in d.codes]},
                               "message": {"type": "string"}, "retryable": {"type": "boolean"}}}}}


# ---- files -----------------------------------------------------------------------------------------
def files(d):
    check_keys("a job", job_keys(d), d.all["keys"]["job"])
    check_keys("an output", ["path", "key", "url", *output_keys(d), *d.encoder], d.all["keys"]["output"])
    check_keys("an entry of outputs", ["output", "ops"], d.all["keys"]["variant"])
    check_keys("inputs", ["folder", "archive", "pattern"], d.all["keys"]["inputs"])
    check_keys("an input", ["path", "key", "url"], d.all["keys"]["input"])
    return {"ops.py": ops_module(d), "out.py": out_module(d), "job.py": job_module(d),
            "declared.py": declared_module(d),
            "schema/job.schema.json": json.dumps(job_schema(d), indent=1) + "\n",
            "schema/result.schema.json": json.dumps(result_schema(d), indent=1) + "\n"}


def main(build, mode=None):
    stale = 0
    for name, text in files(Declarations(build)).items():
        place = PACKAGE / name
        if place.exists() and place.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if mode == "--check":
            print(f"# {place} is out of date; run make documents", file=sys.stderr)
        else:
            place.write_text(text, encoding="utf-8")
    return 1 if stale and mode == "--check" else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: generate.py BUILD [--check]")
    sys.exit(main(*sys.argv[1:]))
