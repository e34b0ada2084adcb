/**
 * Removes the C++ headers that the package `node` brings: 68 MB, which only native addons need. Runs after `npm ci`,
 * perhaps in the older Node of npm itself, and is therefore no TypeScript.
 */
import { existsSync, readdirSync, rmSync } from "node:fs"

const packages = new URL("../node_modules/node/node_modules/", import.meta.url)
const names = existsSync(packages) ? readdirSync(packages) : []
for (const name of names) rmSync(new URL(`${name}/include/`, packages), { recursive: true, force: true })
