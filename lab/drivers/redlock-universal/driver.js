"use strict";
// Drives npm `redlock-universal` on ioredis, as its README says: a lock object for each lease, and its own adapters.
// Options, the library's own: retry_count, retry_delay_ms, drift_factor, timeout_ms (of an adapter, for each command),
// and the client's. With the option `using` a lease is a routine under `using()`, which renews it.

const path = require("node:path");
const { Redis } = require("ioredis");
const { createRedlock, IoredisAdapter, LockAcquisitionError } = require("redlock-universal");
const { serve, say, connect, Leases, Refused, CLIENT_OPTIONS } = require("./wire.js");

// Its exports do not let its package.json be required by name.
const { version } = require(path.join(__dirname, "node_modules", "redlock-universal", "package.json"));

const leases = new Leases();
let adapters, settings, inRoutines;

const make = (key, ttl) => createRedlock({ adapters, key, ttl, ...settings });

// That no majority agreed in any try; `extend` and `release` say it by false.
const refuse = (error) => {
  throw error instanceof LockAcquisitionError ? new Refused(error) : error;
};
const unlessFalse = (call) => (said) => {
  if (!said) throw new Refused(new Error(`${call} returned ${said}`));
};

// The lease of a routine that has begun: `end` lets it return, and `ended` is settled when the library is done.
const begin = (key, ttl_ms) =>
  new Promise((resolve, reject) => {
    const ended = make(key, ttl_ms).using(
      (signal) =>
        new Promise((end) => {
          const lease = leases.add({ end, ended: () => ended });
          signal.addEventListener("abort", () => say({ event: "lost", lease }));
          resolve({ lease, token: null, claimed_ms: null, fence: null });
        }),
    );
    ended.catch(reject); // before the routine, or unheard if it has begun: `release` hears of it then
  });

serve({
  lib: "redlock-universal",
  version,
  options: ["using", "retry_count", "retry_delay_ms", "drift_factor", "timeout_ms", ...CLIENT_OPTIONS],
  caps: ({ using }) => (using ? ["renews", "lost"] : ["extend"]),
  operations: {
    async open({ nodes, options }) {
      inRoutines = options.using ?? false;
      const own = { retryAttempts: "retry_count", retryDelay: "retry_delay_ms", clockDriftFactor: "drift_factor" };
      settings = Object.fromEntries(
        Object.entries(own).flatMap(([name, ours]) => (ours in options ? [[name, options[ours]]] : [])),
      );
      const how = "timeout_ms" in options ? { timeout: options.timeout_ms } : {};
      adapters = (await connect(Redis, nodes, options)).map((client) => new IoredisAdapter(client, how));
    },
    async acquire({ key, ttl_ms }) {
      if (inRoutines) return begin(key, ttl_ms).catch(refuse);
      const lock = make(key, ttl_ms);
      const handle = await lock.acquire().catch(refuse);
      return { lease: leases.add({ lock, handle }), token: handle.value, claimed_ms: null, fence: null };
    },
    async extend({ lease, ttl_ms }) {
      const { lock, handle } = leases.get(lease);
      await lock.extend(handle, ttl_ms).then(unlessFalse("extend()"));
      return { claimed_ms: null };
    },
    async release({ lease }) {
      if (inRoutines) {
        const { end, ended } = leases.get(lease);
        end();
        await ended().catch(refuse);
        return;
      }
      const { lock, handle } = leases.get(lease);
      await lock.release(handle).then(unlessFalse("release()"));
    },
  },
});
