"use strict";
// Drives a library that has the calls of npm redlock 5.

const drive = require("./redlock.js");

module.exports = ({ lib, version, Redlock, ExecutionError }) =>
  drive({
    lib,
    version,
    Redlock,
    Refusal: ExecutionError,
    failures: "error",
    acquire: (redlock, key, ttl_ms) => redlock.acquire([key], ttl_ms),
    release: (lock) => lock.release(),
    using: (redlock, key, ttl_ms, routine) => redlock.using([key], ttl_ms, routine),
  });
