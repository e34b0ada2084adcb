/** The lock on file systems that cannot be mounted in a test, with `statfs` replaced. */
import { afterAll, assert, beforeAll, beforeEach, it } from "@effect/vitest"
import { Effect, Logger } from "effect"
import fs from "node:fs"
import { syncBuiltinESMExports } from "node:module"
import { join } from "node:path"
import { StoreLock } from "@outlast/node/lock"
import * as Folder from "../support/Folder.ts"

const statfs = { type: 0 }
const original = fs.statfsSync

// Not `vi.mock`: the files of a worker share their modules.
beforeAll(() => {
  Object.assign(fs, { statfsSync: () => statfs })
  syncBuiltinESMExports()
})
afterAll(() => {
  Object.assign(fs, { statfsSync: original })
  syncBuiltinESMExports()
})

const lines: Array<string> = []
const Log = Logger.layer([
  Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
])
const take = (options?: StoreLock.Options) =>
  Effect.flatMap(Folder.make, (folder) => StoreLock.acquire(join(folder, "a.lock"), options)).pipe(
    Effect.scoped,
    Effect.provide(Log)
  )

beforeEach(() => {
  lines.length = 0
})

it.effect("rejects a file on NFS, unless `networkFileSystem` allows it", () =>
  Effect.gen(function* () {
    statfs.type = 0x6969
    const error = yield* Effect.flip(take())
    assert.strictEqual(error.reason, "unavailable")
    assert.include(error.message, "it is on NFS, where locks do not work")
    assert.isEmpty(lines)
    yield* take({ networkFileSystem: "allow" })
    assert.match(
      lines.join(),
      /^Warn: The lock .*a\.lock is on NFS, where locks between machines may not work/
    )
  })
)

it.effect("warns about a file on FUSE", () =>
  Effect.gen(function* () {
    statfs.type = 0x65735546
    yield* take()
    assert.match(lines.join(), /^Warn: The lock .*a\.lock is on FUSE, /)
  })
)
