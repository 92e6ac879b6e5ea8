"use strict";
// Drives a library that has the options and leases of npm redlock on ioredis, as its README says. Options, the
// library's own and the client's: see below.
//
// `Refusal` is the error that says no, `failures` the event by which the library reports a node's error, and
// `acquire` and `release` are its calls, which have changed names between versions.

const { Redis } = require("ioredis");
const { serve, connect, Leases, Refused, CLIENT_OPTIONS } = require("./wire.js");

const left = (lock) => lock.expiration - Date.now();

module.exports = function drive({ lib, version, Redlock, Refusal, failures, acquire, release }) {
  const leases = new Leases();
  let redlock;

  // It says that after all tries no majority agreed; version 5 also throws it for a lease that is over.
  const refuse = (error) => {
    throw error instanceof Refusal ? new Refused(error) : error;
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
        redlock.on(failures, (error) => process.stderr.write(`${failures}: ${error.message}\n`));
      },
      async acquire({ key, ttl_ms }) {
        const lock = await acquire(redlock, key, ttl_ms).catch(refuse);
        return { lease: leases.add(lock), token: lock.value, claimed_ms: left(lock), fence: null };
      },
      async extend({ lease, ttl_ms }) {
        const extended = await leases.get(lease).extend(ttl_ms).catch(refuse);
        leases.set(lease, extended);
        return { claimed_ms: left(extended) };
      },
      async release({ lease }) {
        await release(leases.get(lease)).catch(refuse);
      },
      // What the library shows its user is `expiration`.
      held({ lease }) {
        const claimed_ms = left(leases.get(lease));
        return { held: claimed_ms > 0, claimed_ms };
      },
    },
  });
};
