#!/usr/bin/env node
/**
 * Starts the command line with the compile cache of Node (in the temporary folder, or in `NODE_COMPILE_CACHE`). From
 * the second start on, the modules are not compiled again. `NODE_DISABLE_COMPILE_CACHE=1` turns the cache off.
 *
 * A Node that is too old for the program gets one sentence. This file runs on it, so it imports only what old versions
 * have.
 */
import module from "node:module"

const { node } = process.versions
const [major = 0, minor = 0] = node.split(".").map(Number)

if (major < 22 || (major === 22 && minor < 16)) {
  process.stderr.write(
    `outlast needs Node 22.16 or newer, and this is Node ${node}. Install a newer one: https://nodejs.org\n`
  )
  process.exitCode = 1
} else {
  // Bun and Deno may lack it.
  module.enableCompileCache?.()
  await import("./program.ts")
}
