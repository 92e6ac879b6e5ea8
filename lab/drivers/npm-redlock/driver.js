"use strict";
// Drives npm `redlock` 4.

const Redlock = require("redlock");
const drive = require("./redlock.js");

drive({
  lib: "redlock",
  version: require("redlock/package.json").version,
  Redlock,
  Refusal: Redlock.LockError,
  failures: "clientError",
  acquire: (redlock, key, ttl_ms) => redlock.lock(key, ttl_ms),
  release: (lock) => lock.unlock(),
});
