"use strict";
// Drives a library that has the calls of npm redlock 5 on ioredis, as its README says. Options, the library's own
// and the client's: see below.

const { Redis } = require("ioredis");
const { serve, connect, Leases, Refused, CLIENT_OPTIONS } = require("./wire.js");

const left = (lock) => lock.expiration - Date.now();

module.exports = function drive({ lib, version, Redlock, ExecutionError }) {
  const leases = new Leases();
  let redlock;

  // An ExecutionError says that after all tries no majority agreed; one is also thrown for a lease that is over.
  const refuse = (error) => {
    throw error instanceof ExecutionError ? new Refused(error) : error;
  };

  serve({
    lib,
    version,
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
        redlock.on("error", (error) => process.stderr.write(`error: ${error.message}\n`));
      },
      async acquire({ key, ttl_ms }) {
        const lock = await redlock.acquire([key], ttl_ms).catch(refuse);
        return { lease: leases.add(lock), token: lock.value, claimed_ms: left(lock), fence: null };
      },
      async extend({ lease, ttl_ms }) {
        const extended = await leases.get(lease).extend(ttl_ms).catch(refuse);
        leases.set(lease, extended);
        return { claimed_ms: left(extended) };
      },
      async release({ lease }) {
        await leases.get(lease).release().catch(refuse);
      },
      // What the library shows its user is `expiration`.
      held({ lease }) {
        const claimed_ms = left(leases.get(lease));
        return { held: claimed_ms > 0, claimed_ms };
      },
    },
  });
};
