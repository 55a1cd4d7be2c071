# Made by queue/clients/generate.py (`make documents`); do not edit.
"""Error codes, limits, and the script that cancels jobs."""
from __future__ import annotations

import enum
from typing import Dict, Literal

VERSION = "0.2.0"
JOB_BYTES_MAX = 65536
DEPTH_MAX = 16
NUMBER_BYTES_MAX = 63
ID_BYTES_MAX = 128
PRIORITIES_MAX = 10
OPS_MAX = 32
OUTPUTS_MAX = 16
INPUTS_MAX = 1024
FOLDER_FILES_MAX = 65536
PAGE_MAX = 65535
STRIP_MAX = 64
PATTERNS_MAX = 8
PATTERN_BYTES_MAX = 128
PATH_BYTES_MAX = 2048
KEY_BYTES_MAX = 512
URL_BYTES_MAX = 4096
TAG_BYTES_MAX = 64
TRACEPARENT_BYTES_MAX = 128
TRACESTATE_BYTES_MAX = 512
HEADER_BYTES_MAX = 1024
HEADER_NAME_BYTES_MAX = 64
METADATA_NAMES_MAX = 32
SHARDS_MAX = 64

OperationName = Literal["grayscale", "sobel", "canny", "resize", "pad", "rotate", "flip",
    "transpose", "invert", "levels", "threshold", "to_srgb", "gaussian", "unsharp", "median",
    "equalize", "otsu", "histogram", "stats", "palette", "phash", "blurhash", "thumbhash"]


class ErrorCode(str, enum.Enum):
    """Why a job or an output failed."""

    # the job is not valid JSON within the size and depth limits
    BAD_JSON = "bad_json"
    # a key of the job is missing, unknown or has a wrong value
    BAD_JOB = "bad_job"
    # no operation has this name
    UNKNOWN_OP = "unknown_op"
    # a parameter of an operation is unknown, missing or out of range
    BAD_OP = "bad_op"
    # a path, key or URL is outside what the configuration allows, or a server denies it
    PATH_REFUSED = "path_refused"
    # the input file, key or URL does not exist
    INPUT_MISSING = "input_missing"
    # the input exists but reading it failed
    INPUT_UNREADABLE = "input_unreadable"
    # the input has more bytes than the limit
    INPUT_TOO_LARGE = "input_too_large"
    # an image has more pixels or a longer side than allowed
    IMAGE_TOO_LARGE = "image_too_large"
    # gpuimgd cannot read the input's format
    UNSUPPORTED_FORMAT = "unsupported_format"
    # the image is truncated or corrupt
    DECODE_FAILED = "decode_failed"
    # decoding exceeds a limit on scans, chunks, time or memory
    DECODE_LIMIT = "decode_limit"
    # the archive is broken, encrypted, of another kind, or beyond a limit
    BAD_ARCHIVE = "bad_archive"
    # the result cannot be encoded
    ENCODE_FAILED = "encode_failed"
    # this output could not be written, but other outputs can be
    WRITE_FAILED = "write_failed"
    # the job needs more memory than a whole pool has, or too many tables for its operations
    OVER_BUDGET = "over_budget"
    # memory ran out while the job ran
    OUT_OF_MEMORY = "out_of_memory"
    # the GPU reported an error while the job was on it
    GPU_FAILED = "gpu_failed"
    # the job did not end within its time limit
    TIMEOUT = "timeout"
    # the job was not started before its expiry time
    EXPIRED = "expired"
    # a client cancelled the job
    CANCELLED = "cancelled"
    # in the last attempt, the daemon that ran the job crashed or was lost
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    # a fault of gpuimgd itself
    INTERNAL = "internal"

    @property
    def retryable(self) -> bool:
        """Whether the daemon repeats a job that failed with this code."""
        return _RETRYABLE[self.value]

    def __str__(self) -> str:
        return self.value


_RETRYABLE: Dict[str, bool] = {
    "bad_json": False,
    "bad_job": False,
    "unknown_op": False,
    "bad_op": False,
    "path_refused": False,
    "input_missing": False,
    "input_unreadable": True,
    "input_too_large": False,
    "image_too_large": False,
    "unsupported_format": False,
    "decode_failed": False,
    "decode_limit": False,
    "bad_archive": False,
    "encode_failed": False,
    "write_failed": True,
    "over_budget": False,
    "out_of_memory": True,
    "gpu_failed": True,
    "timeout": False,
    "expired": False,
    "cancelled": False,
    "attempts_exhausted": False,
    "internal": True,
}

CANCEL_SCRIPT = r"""
local jobs, cancel, woken, waits = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id = ARGV[1]

local ID_BYTES_MAX = 128

local function wrong_type(key, kind)
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
        return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
    end
end
local function is_mistyped(reply)
    if type(reply) ~= 'table' or not reply.err then return false end
    if not reply.err:find('WRONGTYPE', 1, true) then error(reply.err, 0) end
    return true
end
local PROTOCOL, PROTOCOL_LEAST = 1, 1
local function protocol_refusal(ns, joins)
    local key = ns .. ':protocol'
    local found = redis.pcall('GET', key)
    if type(found) == 'table' then return wrong_type(key, 'string') or found end
    local least = tonumber(found or 1)
    if not least or least > PROTOCOL then
        return redis.error_reply('PROTOCOL ' .. key .. ' is ' .. found .. ', but this program knows '
            .. 'only protocol ' .. PROTOCOL .. '; upgrade this program')
    end
    if least >= PROTOCOL_LEAST then return end
    if not joins then
        return redis.error_reply('PROTOCOL this program needs ' .. key .. ' ' .. PROTOCOL_LEAST
            .. ', but it is ' .. least .. '; upgrade the daemons first')
    end
    local alive = redis.call('ZCOUNT', ns .. ':inst', redis.call('TIME')[1] * 1000, '+inf')
    local leased = redis.call('ZCARD', ns .. ':lease')
    if alive + leased > 0 then
        return redis.error_reply('PROTOCOL this program cannot work beside the ' .. alive
            .. ' daemons of an older protocol in ' .. ns .. ', which have ' .. leased
            .. ' jobs; it waits until they have ended')
    end
    redis.call('DEL', key)
    redis.call('SET', key, PROTOCOL_LEAST)
end
local unsuited = protocol_refusal(jobs:sub(1, -6), false)
if unsuited then return unsuited end
local wrong = wrong_type(jobs, 'list') or wrong_type(cancel, 'zset') or wrong_type(woken, 'list')
if wrong then return wrong end
if #id < 1 or #id > ID_BYTES_MAX then
    return redis.error_reply('ERR the id has ' .. #id .. ' bytes, must have 1 to ' .. ID_BYTES_MAX)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local FENCED = 4e15
local function horizon(cancel)
    local highest = redis.pcall('ZREVRANGE', cancel, 0, 0, 'WITHSCORES')
    if highest.err then return nil, wrong_type(cancel, 'zset') or highest end
    return tonumber(highest[2] or -1)
end
local KEPT, FORGET_MOST = 20000, 64
local function forget_cancels(cancel, added)
    local over = redis.call('ZCOUNT', cancel, '-inf', '(' .. FENCED) + added - KEPT
    if over > 0 then
        redis.call('ZREMRANGEBYRANK', cancel, 0, math.min(over, FORGET_MOST) - 1)
    end
end
local function priority_lists()
    local name = jobs .. ':'
    return {name .. '9', name .. '8', name .. '7', name .. '6', name .. '5', name .. '4',
            name .. '3', name .. '2', name .. '1', name .. '0'}
end
local function existing(...)
    local count = redis.pcall('EXISTS', ...)
    return type(count) == 'number' and count or 1
end
local function wake(waits, list, push, name)
    if redis.call('TYPE', waits).ok ~= 'set' then return end
    redis.call(push, list, name)
    redis.call('RENAME', waits, list .. ':' .. name)
end
forget_cancels(cancel, 1)
redis.call('ZREM', cancel, '')

local last = tonumber(redis.call('ZSCORE', cancel, id) or 0)
local serial = string.format('%.0f', math.max(FENCED + now, last + 1))
local numbered = redis.pcall('GET', jobs:sub(1, -5) .. 'seq')
numbered = not is_mistyped(numbered) and tonumber(numbered or 0) or 0
redis.call('LPUSH', jobs, '@cancel:' .. serial .. ':' .. id)
local limits = {serial, id, numbered, id .. '\n'}
local lists = priority_lists()
if existing(unpack(lists)) > 0 then
    for _, key in ipairs(lists) do
        if type(redis.pcall('LPUSHX', key, '@cancel:' .. serial .. ':' .. id)) ~= 'table' and
            redis.call('EXISTS', key) == 1 then
            limits[#limits + 1], limits[#limits + 2] = serial, id .. '\n' .. key:sub(-1)
        end
    end
end
redis.call('ZADD', cancel, unpack(limits))
wake(waits, woken, 'LPUSH', 'cancel:' .. serial .. ':' .. id)

local kept = redis.pcall('GET', KEYS[5])
return {type(kept) == 'string' and kept or false}
"""
