"use strict";
// Drives npm `redlock` 5, which never left beta.

const path = require("node:path");
const { default: Redlock, ExecutionError } = require("redlock");
const drive = require("./redlock5.js");

// Its exports do not let its package.json be required by name.
const { version } = require(path.join(__dirname, "node_modules", "redlock", "package.json"));

drive({ lib: "redlock", version, Redlock, ExecutionError });
