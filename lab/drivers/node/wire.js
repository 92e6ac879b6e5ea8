"use strict";
// The driver protocol (PROTOCOL.md) for drivers in JavaScript. A driver hands in its library's name and version,
// the options it takes, what it can do with them, and one function for each operation; each may be asynchronous.
//
// An operation that throws a `Refused` is a clean no. Whatever else it throws is an error: nobody knows what
// happened on the nodes. Commands are taken while others are pending; the end of the input ends the driver.

const crypto = require("node:crypto");
const fs = require("node:fs");
const readline = require("node:readline");

class Refused extends Error {
  constructor(cause) {
    super(cause.message);
    this.name = cause.constructor.name;
  }
}

class Named extends Error {
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

function say(message) {
  process.stdout.write(JSON.stringify(message) + "\n");
}

function serve({ lib, version, nodeKey, key, options: known, caps, operations }) {
  const commands = {
    hello({ options = {} }) {
      const strange = Object.keys(options).filter((name) => !known.includes(name));
      if (strange.length) throw new Named("BadOption", `${strange} is none of ${known.join(", ")}`);
      const names = { node_key: nodeKey ?? "{key}", key: key ?? "{}" };
      return { lib, version, caps: [...caps(options), "clock", "tasks"], ...names };
    },
    clock: () => ({ wall_ms: Date.now() }),
    // ioredis never settles what waits for a connection that it would have made anew.
    close() {
      for (const redis of connected.splice(0)) redis.disconnect();
      for (const leases of kept) leases.clear();
      for (const end of pending.splice(0)) end(new Named("Closed", "the driver was closed meanwhile"));
    },
    ...operations,
    open(command) {
      if (process.env.LOCK_LAB_VTIME) drawAnew();
      return operations.open(command);
    },
  };
  const pending = [];
  // What an operation comes to, or the error by which `close` ends it.
  const result = (op, fields) =>
    new Promise((resolve, reject) => {
      const done = Promise.resolve(commands[op](fields));
      if (op !== "close") pending.push(reject);
      done.then(resolve, reject).finally(() => {
        if (pending.includes(reject)) pending.splice(pending.indexOf(reject), 1);
      });
    });
  const answer = async ({ id, op, ...rest }) => {
    try {
      if (!Object.hasOwn(commands, op)) throw new Named("UnknownOp", `there is no operation ${op}`);
      say({ id, ok: true, ...(await result(op, rest)) });
    } catch (error) {
      const kind = error instanceof Refused ? "refused" : "error";
      say({ id, ok: false, kind, error: error.name ?? "Error", message: String(error.message ?? error) });
    }
  };
  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", (line) => answer(JSON.parse(line)));
  lines.on("close", () => process.exit(0));
}

// In virtual time a driver that is opened again draws what one would draw that was started anew: V8 and OpenSSL
// draw their seeds when a process begins, and keep them.
let device;
function drawAnew() {
  device ??= fs.openSync("/dev/urandom");
  const drawn = (size) => {
    const bytes = Buffer.alloc(size);
    fs.readSync(device, bytes);
    return bytes;
  };
  Math.random = generator(new Uint32Array(new Uint8Array(drawn(16)).buffer));
  crypto.randomBytes = (size, then) => (then ? process.nextTick(then, null, drawn(size)) : drawn(size));
}

// Chris Doty-Humphrey's sfc32, two words for each number. A new context of V8's, with a generator of its own, takes
// two milliseconds.
function generator([a, b, c, count]) {
  const word = () => {
    const sum = (a + b + count) | 0;
    count = (count + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  for (let round = 0; round < 12; round++) word();
  return () => ((word() >>> 5) * 2 ** 26 + (word() >>> 6)) / 2 ** 53;
}

// What was granted, by the names that leases are given here. `close` lets each of them go by `letGo`: of a lock that
// renews itself it ends the timer, and releases nothing.
class Leases {
  #granted = new Map();
  #letGo;

  constructor(letGo = () => {}) {
    this.#letGo = letGo;
    kept.push(this);
  }

  clear() {
    for (const lock of this.#granted.values()) this.#letGo(lock);
    this.#granted.clear();
  }

  add(lock) {
    const name = `h${this.#granted.size + 1}`;
    this.#granted.set(name, lock);
    return name;
  }

  get(name) {
    if (!this.#granted.has(name)) throw new Named("UnknownLease", `no lease is called ${name}`);
    return this.#granted.get(name);
  }

  set(name, lock) {
    this.#granted.set(name, lock);
  }
}

const CLIENT_OPTIONS = ["connect_timeout_ms", "command_timeout_ms", "max_retries_per_request", "offline_queue"];

// What `close` disconnects, and empties.
const connected = [];
const kept = [];

// One ioredis connection to each node. What the options do not name is as ioredis comes.
function connect(Redis, nodes, options) {
  const given = ofClient(options);
  return Promise.all(nodes.map((node) => ready(node, new Redis({ ...address(node), ...given }))));
}

// One to the master that Sentinels name.
function connectMaster(Redis, sentinels, name, options) {
  return ready(name, new Redis({ sentinels: sentinels.map(address), name, ...ofClient(options) }));
}

function address(text) {
  const [host, port] = text.split(":");
  return { host, port: Number(port) };
}

function ofClient(options) {
  const settings = {
    connectTimeout: options.connect_timeout_ms,
    commandTimeout: options.command_timeout_ms,
    maxRetriesPerRequest: options.max_retries_per_request,
    enableOfflineQueue: options.offline_queue,
  };
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function ready(name, redis) {
  connected.push(redis);
  redis.on("error", (error) => process.stderr.write(`${name}: ${error.message}\n`));
  return new Promise((resolve) => {
    const late = setTimeout(() => resolve(redis), OPEN_MS).unref();
    const go = () => (clearTimeout(late), resolve(redis));
    redis.once("ready", go);
    redis.once("error", go); // it goes on trying by itself
  });
}

// How long opening waits for a node that does not answer.
const OPEN_MS = 5000;

module.exports = { serve, say, connect, connectMaster, Leases, Refused, CLIENT_OPTIONS };
