#!/usr/bin/env node
/**
 * Starts the command line with the compile cache of Node (in the temporary folder, or in `NODE_COMPILE_CACHE`). From
 * the second start on, the modules are not compiled again. `NODE_DISABLE_COMPILE_CACHE=1` turns the cache off.
 */
import { enableCompileCache } from "node:module"

enableCompileCache()
await import("./program.ts")
