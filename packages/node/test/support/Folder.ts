/** A temporary folder, which is removed with its scope. */
import { Effect } from "effect"
import type { Scope } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export const make: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "outlast-node-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)
