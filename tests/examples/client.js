#!/usr/bin/env node
// Runs one job on an image below gpuimgd's input_root and waits for the result, without packages:
// REDIS=host:port client.js SECONDS INPUT OUTPUT OPERATION...
// PRIORITY=0 to 9 selects the list of that priority, ID is the job's id. SHARDS is the daemons'
// option; REDIS may then name several servers, with spaces. Prints the output's path. Exit status:
// 0 done, 1 the job failed, 2 no result in time, 3 Redis, 64 usage.
"use strict";
const { connect } = require("node:net"), { randomInt, randomUUID } = require("node:crypto");
const crc32 = text => ~Buffer.from(text).reduce((crc, byte) => { // as zlib's
    for (let i = (crc ^= byte, 0); i < 8; i++) crc = crc >>> 1 ^ (crc & 1 && 0xEDB88320);
    return crc;
}, -1) >>> 0;

// Reads Redis's replies: a line, or `length` bytes and a line end.
function reader(socket) {
    const chunks = socket[Symbol.asyncIterator]();
    let buffer = Buffer.alloc(0);
    return async function take(length) {
        const end = length ?? buffer.indexOf("\r\n");
        if (end >= 0 && buffer.length >= end + 2) {
            const text = buffer.toString("utf8", 0, end);
            buffer = buffer.subarray(end + 2);
            return text;
        }
        const { value } = await chunks.next();
        if (!value) throw new Error("the connection was closed");
        buffer = Buffer.concat([buffer, value]);
        return take(length);
    };
}
async function reply(take) {
    const line = await take(), kind = line[0], rest = line.slice(1), items = [];
    if (kind === "-") throw new Error(rest);
    if (rest === "-1" && (kind === "$" || kind === "*")) return null;
    if (kind !== "*") return kind === "$" ? take(Number(rest)) : rest;
    while (items.length < Number(rest)) items.push(await reply(take));
    return items;
}
async function main([seconds, input, output, ...ops]) {
    const { REDIS, PRIORITY: urgency, ID: id, SHARDS: shards = 1 } = process.env;
    const shard = (id ? crc32(id) : randomInt(2 ** 32)) % shards;
    const servers = (REDIS || "127.0.0.1:6379").split(" ");
    const [, host, port] = /^(.*):(\d+)$/.exec(servers[shard % servers.length]);
    const ns = shards > 1 ? `{gpuimgd:${shard}}` : "gpuimgd";
    const socket = connect(port, host), take = reader(socket);
    socket.setTimeout((Number(seconds) + 5) * 1000, () => socket.destroy(new Error("no answer")));
    const call = (...words) => {
        const bulks = words.map(word => `\r\n$${Buffer.byteLength(word)}\r\n${word}`);
        socket.write(`*${words.length}${bulks.join("")}\r\n`);
        return reply(take);
    };
    const reply_to = `${ns}:reply:${randomUUID()}`; // a private list
    const job = { input, output, ops, reply_to, id, priority: urgency && Number(urgency), pushed: Date.now() / 1000 };
    await call("LPUSH", `${ns}:jobs${urgency ? `:${urgency}` : ""}`, JSON.stringify(job));
    const popped = await call("BRPOP", reply_to, seconds); // the list's name and the result
    if (!popped) return [2, `no result within ${seconds} s`];
    const { status, error, outputs } = JSON.parse(popped[1]);
    return status === "done" ? [0, outputs[0].path] : [1, `${error.code}: ${error.message}`];
}

const args = process.argv.slice(2), usage = "usage: client.js SECONDS INPUT OUTPUT OPERATION...";
(args.length < 4 || !/^\d+$/.test(args[0]) ? Promise.resolve([64, usage]) : main(args))
    .catch(error => [3, `Redis: ${error.message || error.code}`])
    .then(([status, text]) => { (status ? console.error : console.log)(text); process.exit(status); });
