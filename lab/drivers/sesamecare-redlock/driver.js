"use strict";
// Drives `@sesamecare-oss/redlock` 1, a fork of npm redlock 5.

const { Redlock, ExecutionError } = require("@sesamecare-oss/redlock");
const drive = require("./redlock5.js");

drive({
  lib: "@sesamecare-oss/redlock",
  version: require("@sesamecare-oss/redlock/package.json").version,
  Redlock,
  ExecutionError,
});
