"use strict";
// Drives a library that has the options and leases of npm redlock on ioredis, as its README says. Options, the
// library's own and the client's: see below.
//
// `Refusal` is the error that says no, `failures` the event by which the library reports a node's error, and
// `acquire` and `release` are its calls, which have changed names between versions. With the option `using` a lease is
// a routine under the library's `using`, which renews it, and aborts a signal when that fails.

const { Redis } = require("ioredis");
const { serve, say, connect, Leases, Refused, CLIENT_OPTIONS } = require("./wire.js");

const left = (lock) => lock.expiration - Date.now();

module.exports = function drive({ lib, version, Redlock, Refusal, failures, acquire, release, using }) {
  const leases = new Leases();
  let redlock;

  // It says that after all tries no majority agreed; version 5 also throws it for a lease that is over.
  const refuse = (error) => {
    throw error instanceof Refusal ? new Refused(error) : error;
  };

  let inRoutines = false;
  const own = ["drift_factor", "retry_count", "retry_delay_ms", "retry_jitter_ms", ...(using ? ["using"] : [])];

  // The lease of a routine that has begun: `end` lets it return, and `ended` is settled when the library is done.
  const begin = (key, ttl_ms) =>
    new Promise((resolve, reject) => {
      let lease;
      const ended = using(
        redlock,
        key,
        ttl_ms,
        (signal) =>
          new Promise((end) => {
            lease = leases.add({ end, ended: () => ended });
            signal.addEventListener("abort", () => say({ event: "lost", lease }));
            resolve({ lease, token: null, claimed_ms: null, fence: null });
          }),
      );
      ended.catch(reject); // before the routine, or unheard if it has begun: `release` hears of it then
    });

  serve({
    lib,
    version,
    options: [...own, ...CLIENT_OPTIONS],
    caps: ({ retry_count, using: renews }) =>
      renews ? ["renews", "lost"] : ["extend", "validity", "held", ...(retry_count === 0 ? ["single-attempt"] : [])],
    operations: {
      async open({ nodes, options }) {
        inRoutines = options.using ?? false;
        redlock = new Redlock(await connect(Redis, nodes, options), {
          driftFactor: options.drift_factor,
          retryCount: options.retry_count,
          retryDelay: options.retry_delay_ms,
          retryJitter: options.retry_jitter_ms,
        });
        redlock.on(failures, (error) => process.stderr.write(`${failures}: ${error.message}\n`));
      },
      async acquire({ key, ttl_ms }) {
        if (inRoutines) return begin(key, ttl_ms).catch(refuse);
        const lock = await acquire(redlock, key, ttl_ms).catch(refuse);
        return { lease: leases.add(lock), token: lock.value, claimed_ms: left(lock), fence: null };
      },
      async extend({ lease, ttl_ms }) {
        const extended = await leases.get(lease).extend(ttl_ms).catch(refuse);
        leases.set(lease, extended);
        return { claimed_ms: left(extended) };
      },
      async release({ lease }) {
        if (inRoutines) {
          const { end, ended } = leases.get(lease);
          end();
          await ended().catch(refuse);
          return;
        }
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
