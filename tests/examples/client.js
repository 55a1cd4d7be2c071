#!/usr/bin/env node
// Runs one job on an image below gpuimgd's input_root and waits for the result, without packages:
// REDIS=host:port client.js SECONDS INPUT OUTPUT OPERATION...
//
// PRIORITY=0 to 9 selects the list of that priority. Prints the output's path. Exit status: 0 done,
// 1 the job failed, 2 no result in time, 3 Redis, 64 usage.
"use strict";
const { connect } = require("node:net"), { randomUUID } = require("node:crypto");

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
        const { value, done } = await chunks.next();
        if (done) throw new Error("the connection was closed");
        buffer = Buffer.concat([buffer, value]);
        return take(length);
    };
}
async function reply(take) {
    const line = await take(), kind = line[0], rest = line.slice(1), items = [];
    if (kind === "-") throw new Error(rest);
    if (rest === "-1" && (kind === "$" || kind === "*")) return null;
    if (kind === "$") return take(Number(rest));
    if (kind !== "*") return rest;
    while (items.length < Number(rest)) items.push(await reply(take));
    return items;
}

async function main([seconds, input, output, ...ops]) {
    const [, host, port] = /^(.*):(\d+)$/.exec(process.env.REDIS || "127.0.0.1:6379");
    const socket = connect(port, host), take = reader(socket);
    socket.setTimeout((Number(seconds) + 5) * 1000, () => socket.destroy(new Error("no answer")));
    const call = (...words) => {
        const bulks = words.map(word => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
        socket.write(`*${words.length}\r\n${bulks.join("")}`);
        return reply(take);
    };
    const reply_to = `gpuimgd:reply:${randomUUID()}`; // a private list
    const job = { input, output, ops, reply_to }, urgency = process.env.PRIORITY; // a digit
    if (urgency) job.priority = Number(urgency);
    await call("LPUSH", urgency ? `gpuimgd:jobs:${urgency}` : "gpuimgd:jobs", JSON.stringify(job));
    const popped = await call("BRPOP", reply_to, seconds); // the list's name and the result
    if (!popped) return [2, `no result within ${seconds} s`];
    const { status, error, outputs } = JSON.parse(popped[1]);
    // Otherwise failed, or dead after several attempts.
    return status === "done" ? [0, outputs[0].path] : [1, `${error.code}: ${error.message}`];
}

const args = process.argv.slice(2), usage = "usage: client.js SECONDS INPUT OUTPUT OPERATION...";
(args.length < 4 || !/^\d+$/.test(args[0]) ? Promise.resolve([64, usage]) : main(args))
    .catch(error => [3, `Redis: ${error.message || error.code}`])
    .then(([status, text]) => { (status ? console.error : console.log)(text); process.exit(status); });
