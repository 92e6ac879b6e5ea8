"use strict";
// Drives npm `redlock` 4 on ioredis, as its README says. Options, the library's own and the client's: see below.

const Redis = require("ioredis");
const Redlock = require("redlock");
const { serve, connect, Leases, Refused, CLIENT_OPTIONS } = require("./wire.js");

const leases = new Leases();
let redlock;

// A LockError says that no majority gave the lock, and that what was set has been deleted as far as possible.
const refuse = (error) => {
  throw error instanceof Redlock.LockError ? new Refused(error) : error;
};

const left = (lock) => lock.expiration - Date.now();

serve({
  lib: "redlock",
  version: require("redlock/package.json").version,
  options: ["drift_factor", "retry_count", "retry_delay_ms", "retry_jitter_ms", ...CLIENT_OPTIONS],
  caps: ({ retry_count }) => ["extend", "validity", "held", ...(retry_count === 0 ? ["single-attempt"] : [])],
  operations: {
    async open({ nodes, options }) {
      redlock = new Redlock(await connect(Redis, nodes, options), {
        driftFactor: options.drift_factor,
        retryCount: options.retry_count,
        retryDelay: options.retry_delay_ms,
        retryJitter: options.retry_jitter_ms,
      });
      redlock.on("clientError", (error) => process.stderr.write(`clientError: ${error.message}\n`));
    },
    async acquire({ key, ttl_ms }) {
      const lock = await redlock.lock(key, ttl_ms).catch(refuse);
      return { lease: leases.add(lock), token: lock.value, claimed_ms: left(lock), fence: null };
    },
    async extend({ lease, ttl_ms }) {
      return { claimed_ms: left(await leases.get(lease).extend(ttl_ms).catch(refuse)) };
    },
    async release({ lease }) {
      await leases.get(lease).unlock().catch(refuse);
    },
    // What the library shows its user is `expiration`.
    held({ lease }) {
      const claimed_ms = left(leases.get(lease));
      return { held: claimed_ms > 0, claimed_ms };
    },
  },
});
