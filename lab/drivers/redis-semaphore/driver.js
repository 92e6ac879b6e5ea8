"use strict";
// Drives `RedlockMutex` of npm `redis-semaphore` 5 on ioredis, or with the word "sentinel" its `Mutex` on the master
// that Sentinels name, as its README says: the library refreshes a lock by itself, each 0.8 of its time-out, and calls
// `onLockLost` when it could not. Options, the library's own and the client's: see below; with
// `refresh_interval_ms: 0` it does not refresh.

const { Redis } = require("ioredis");
const { Mutex, RedlockMutex, TimeoutError } = require("redis-semaphore");
const { serve, say, connect, connectMaster, Leases, Refused, CLIENT_OPTIONS } = require("./wire.js");

const onMaster = process.argv[2] === "sentinel";
const leases = new Leases((mutex) => mutex?.stopRefresh());
let make;
let settings;

serve({
  lib: "redis-semaphore",
  version: require("redis-semaphore/package.json").version,
  nodeKey: "mutex:{key}",
  options: [
    "acquire_timeout_ms",
    "acquire_attempts",
    "retry_interval_ms",
    "refresh_interval_ms",
    ...CLIENT_OPTIONS,
  ],
  caps: ({ acquire_attempts, refresh_interval_ms }) => [
    "held",
    "lost",
    ...(refresh_interval_ms === 0 ? [] : ["renews"]),
    ...(acquire_attempts === 1 ? ["single-attempt"] : []),
  ],
  operations: {
    async open({ nodes, sentinels, service, options }) {
      if (onMaster) {
        const master = await connectMaster(Redis, sentinels, service, options);
        make = (...how) => new Mutex(master, ...how);
      } else {
        const clients = await connect(Redis, nodes, options);
        make = (...how) => new RedlockMutex(clients, ...how);
      }
      settings = {
        acquireTimeout: options.acquire_timeout_ms,
        acquireAttemptsLimit: options.acquire_attempts,
        retryInterval: options.retry_interval_ms,
        refreshInterval: options.refresh_interval_ms,
      };
    },
    async acquire({ key, ttl_ms }) {
      const lease = leases.add(null);
      const onLockLost = (error) => {
        process.stderr.write(`onLockLost: ${error.message}\n`);
        say({ event: "lost", lease });
      };
      const mutex = make(key, { ...settings, lockTimeout: ttl_ms, onLockLost });
      leases.set(lease, mutex);
      await mutex.acquire().catch((error) => {
        throw error instanceof TimeoutError ? new Refused(error) : error;
      });
      // It names no time: it holds the lock until it says that it lost it.
      return { lease, token: mutex.identifier, claimed_ms: null, fence: null };
    },
    async release({ lease }) {
      await leases.get(lease).release();
    },
    held: ({ lease }) => ({ held: leases.get(lease).isAcquired, claimed_ms: null }),
  },
});
