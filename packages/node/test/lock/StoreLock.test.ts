/** The lock between real processes, which the tests start and kill. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Exit, Fiber, Scope } from "effect"
import { TestClock } from "effect/testing"
import { spawnSync } from "node:child_process"
import {
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { hostname } from "node:os"
import { join } from "node:path"
import { vi } from "vitest"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { StoreLock } from "@outlast/node/lock"
import * as Child from "../support/Child.ts"
import * as Folder from "../support/Folder.ts"
import * as Mount from "../../../../test/services/Mount.ts"

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const program = new URL("../support/lockHolder.ts", import.meta.url)
const newPath = Effect.map(Folder.make, (folder) => join(folder, "tasks.lock"))

/** Takes the lock and releases it at once. */
const tryIt = (path: string) => Effect.scoped(StoreLock.acquire(path))

describe("within a process", () => {
  it.effect("rejects a second holder and names the first, until its scope closes", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const scope = yield* Scope.make()
      const lock = yield* Scope.provide(StoreLock.acquire(path), scope)
      assert.isTrue(yield* lock.isHeld)
      const error = yield* Effect.flip(tryIt(path))
      assert.deepInclude(error, { _tag: "StoreError", reason: "locked", file: path })
      assert.strictEqual(
        error.message,
        `Store \`lock\` (${path}) is locked: process ${process.pid} on ${hostname()} holds it since 1970-01-01T00:00:00.000Z. Try again later, or end the other process.`
      )
      yield* Scope.close(scope, Exit.void)
      yield* tryIt(path)
    })
  )

  it.effect("leaves an empty file that only its owner can read", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* StoreLock.acquire(path)
          assert.deepStrictEqual(readdirSync(join(path, "..")), ["tasks.lock", "tasks.lock.pid"])
          assert.strictEqual(statSync(`${path}.pid`).mode & 0o777, 0o600)
        })
      )
      assert.deepStrictEqual(readdirSync(join(path, "..")), ["tasks.lock"])
      const { mode, size } = statSync(path)
      assert.strictEqual(mode & 0o777, 0o600)
      assert.strictEqual(size, 0)
    })
  )

  it.effect.skipIf(process.platform !== "linux")("leaves no file open after attempts that failed", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* StoreLock.acquire(path)
          for (let attempt = 0; attempt < 3; attempt++) yield* Effect.flip(tryIt(path))
        })
      )
      const open = readdirSync("/proc/self/fd").filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`) === path
        } catch {
          return false
        }
      })
      assert.lengthOf(open, 0)
    })
  )

  it.effect("waits for the given time, and can be interrupted meanwhile", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const scope = yield* Scope.make()
      yield* Scope.provide(StoreLock.acquire(path), scope)
      const waiting = Effect.scoped(StoreLock.acquire(path, { wait: "1 minute" }))
      const impatient = yield* Effect.forkChild(Effect.exit(waiting))
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(impatient.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      assert.isTrue(Exit.isFailure(yield* Fiber.join(impatient)))

      const interrupted = yield* Effect.forkChild(waiting)
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(interrupted)

      const patient = yield* Effect.forkChild(waiting)
      yield* TestClock.adjust("1 second")
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust(StoreLock.pause)
      yield* Fiber.join(patient)
    })
  )

  it.effect("does not wait where no wait would help", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      writeFileSync(path, "content")
      const error = yield* Effect.flip(Effect.scoped(StoreLock.acquire(path, { wait: "1 minute" })))
      assert.strictEqual(error.reason, "corrupt")
    })
  )

  it.effect("reports that its file was deleted, which lets another process in", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const lock = yield* StoreLock.acquire(path)
      rmSync(path)
      assert.isFalse(yield* lock.isHeld)
      const second = yield* StoreLock.acquire(path)
      assert.isTrue(yield* second.isHeld)
      assert.isFalse(yield* lock.isHeld)
    }).pipe(Effect.scoped)
  )

  it.effect("leaves the name of the next holder when its own file was deleted", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const scope = yield* Scope.make()
      yield* Scope.provide(StoreLock.acquire(path), scope)
      rmSync(path)
      yield* StoreLock.acquire(path)
      yield* Scope.close(scope, Exit.void)
      const error = yield* Effect.flip(tryIt(path))
      assert.include(error.message, `is locked: process ${process.pid} on`)
    }).pipe(Effect.scoped)
  )

  it.effect("is lost and released where its file cannot be reached, e.g. in a loop of links", () =>
    Effect.gen(function* () {
      const outer = yield* Folder.make
      const folder = join(outer, "folder")
      mkdirSync(folder)
      const scope = yield* Scope.make()
      const lock = yield* Scope.provide(StoreLock.acquire(join(folder, "tasks.lock")), scope)
      renameSync(folder, join(outer, "moved"))
      symlinkSync(folder, folder)
      assert.isFalse(yield* lock.isHeld)
      yield* Scope.close(scope, Exit.void)
      yield* tryIt(join(outer, "moved", "tasks.lock"))
    })
  )

  it.effect("keeps the lock when nothing refers to its scope any more", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* Effect.flatMap(Scope.make(), (scope) => Scope.provide(StoreLock.acquire(path), scope))
      setFlagsFromString("--expose-gc")
      const gc: unknown = runInNewContext("gc")
      assert.isFunction(gc)
      for (let round = 0; round < 3; round++) {
        if (typeof gc === "function") gc()
        yield* Effect.promise(() => new Promise(setImmediate))
      }
      assert.strictEqual((yield* Effect.flip(tryIt(path))).reason, "locked")
    })
  )

  it.effect("rejects a file with content, and a folder that is missing or read-only", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      writeFileSync(path, "a database, perhaps")
      const content = yield* Effect.flip(tryIt(path))
      assert.strictEqual(content.reason, "corrupt")
      assert.include(content.message, "a lock needs an empty file of its own")
      const missing = yield* Effect.flip(tryIt(join(path, "..", "no", "tasks.lock")))
      assert.strictEqual(missing.reason, "unavailable")
    })
  )

  it.effect.skipIf(Mount.missing !== undefined)("rejects a read-only folder", () =>
    Effect.gen(function* () {
      const folder = yield* Mount.tmpfs("1m")
      yield* Mount.readOnly(folder)
      const error = yield* Effect.flip(tryIt(join(folder, "tasks.lock")))
      assert.strictEqual(error.reason, "readOnly")
    })
  )

  it("throws for an invalid path and invalid options", () => {
    assert.throws(() => StoreLock.acquire(""), /StoreLock: path must be the path of a file, got ""/)
    assert.throws(() => StoreLock.acquire("a", { wait: -1 }), /StoreLock: wait must be/)
    const odd = { waits: 1 } as StoreLock.Options
    assert.throws(() => StoreLock.acquire("a", odd), /"waits" is not an option/)
  })

  it("does not wait by default", () => {
    assert.isTrue(Duration.isZero(StoreLock.defaults.wait))
  })
})

describe("between processes", () => {
  it.live("excludes another process, which can wait for the lock", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const first = yield* Child.start(program, [path])
      const pid = yield* first.line("held")
      const refused = yield* Effect.flip(tryIt(path))
      assert.include(refused.message, `process ${pid} on ${hostname()} holds it since `)
      const second = yield* Child.start(program, [path])
      assert.include(yield* second.line("refused"), `process ${pid} `)
      const third = yield* Child.start(program, [path, "60000"])
      yield* third.line("asking")
      yield* first.send("release")
      yield* third.line("held")
      yield* Effect.flip(tryIt(path))
    })
  )

  it.live("is released after SIGKILL", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const holder = yield* Child.start(program, [path])
      yield* holder.line("held")
      yield* holder.signal("SIGKILL")
      yield* holder.ended
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(tryIt(path))))
    })
  )

  it.live("stays locked while the holder is stopped by SIGSTOP, and after it continues", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const holder = yield* Child.start(program, [path])
      yield* holder.line("held")
      yield* holder.signal("SIGSTOP")
      assert.strictEqual((yield* Effect.flip(tryIt(path))).reason, "locked")
      yield* holder.signal("SIGCONT")
      yield* holder.send("ping")
      yield* holder.line("pong")
      assert.strictEqual((yield* Effect.flip(tryIt(path))).reason, "locked")
      yield* holder.send("release")
      yield* holder.line("released")
      yield* tryIt(path)
    })
  )

  it.live("has one winner when several processes race for it", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const racers = yield* Effect.forEach([1, 2, 3, 4], () => Child.start(program, [path]), {
        concurrency: "unbounded"
      })
      const results = yield* Effect.forEach(
        racers,
        (racer) =>
          Effect.raceFirst(
            Effect.as(racer.line("held"), "held"),
            Effect.as(racer.line("refused"), "refused")
          ),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(results.toSorted(), ["held", "refused", "refused", "refused"])
    })
  )

  const namespaces = ["unshare", "--pid", "--fork", "--kill-child"]
  const hasNamespaces = spawnSync(namespaces[0] ?? "", [...namespaces.slice(1), "true"]).status === 0
  if (!hasNamespaces) console.log("Skipped: no new PID namespace can be made here.")

  it.live.skipIf(!hasNamespaces)("excludes a process of another PID namespace", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const holder = yield* Child.start(program, [path], { within: namespaces })
      // The process id inside the namespace differs from the one here.
      assert.isBelow(Number(yield* holder.line("held")), 20)
      assert.strictEqual((yield* Effect.flip(tryIt(path))).reason, "locked")
      yield* holder.signal("SIGKILL")
      yield* holder.ended
      yield* tryIt(path)
      const scope = yield* Scope.make()
      yield* Scope.provide(StoreLock.acquire(path), scope)
      // Closing any handle of the file ends a lock. A failed attempt in this process must not do that.
      yield* Effect.flip(tryIt(path))
      const other = yield* Child.start(program, [path], { within: namespaces })
      assert.include(yield* other.line("refused"), `process ${process.pid} `)
      yield* Scope.close(scope, Exit.void)
    })
  )
})
