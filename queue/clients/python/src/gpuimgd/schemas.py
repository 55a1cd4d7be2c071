"""The JSON Schemas (2020-12) of jobs and results, for a validator such as jsonschema."""
from __future__ import annotations

import json
import pathlib
from typing import Any, Dict


def job_schema() -> Dict[str, Any]:
    """The schema of a job, as clients push it."""
    return _read("job")


def result_schema() -> Dict[str, Any]:
    """The schema of a result."""
    return _read("result")


def _read(name: str) -> Dict[str, Any]:
    file = pathlib.Path(__file__).with_name("schema") / f"{name}.schema.json"
    schema: Dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema
