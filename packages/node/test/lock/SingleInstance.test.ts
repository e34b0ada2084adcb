/** One instance among real processes, which the tests start and kill. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { execFileSync, spawn } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { vi } from "vitest"
import { SingleInstance, StoreLock } from "@outlast/node/lock"
import * as PidFile from "#node/lock/PidFile"
import * as Identity from "#node/lock/ProcessIdentity"
import * as Child from "../support/Child.ts"
import * as Folder from "../support/Folder.ts"
import * as Mount from "../../../../test/services/Mount.ts"

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const program = new URL("../support/instance.ts", import.meta.url)
const newPath = Effect.map(Folder.make, (folder) => join(folder, "agent.lock"))

const start = (path: string, options: SingleInstance.Options = {}, more: ReadonlyArray<string> = []) =>
  Child.start(program, [path, JSON.stringify(options), ...more])

const takeOver = SingleInstance.takeOver

/** A process that has nothing to do with the lock. */
const bystander = Effect.acquireRelease(
  Effect.sync(() => spawn("sleep", ["600"], { stdio: "ignore" })),
  (child) => Effect.sync(() => void child.kill("SIGKILL"))
)

const holderOf = (pid: number, more: Partial<PidFile.Holder> = {}): PidFile.Holder => ({
  ...Identity.own(),
  host: "here",
  since: "2026-01-01T00:00:00.000Z",
  pid,
  ...more
})

describe("refuse", () => {
  it.live("fails with the holder and the next action, and exits with 75", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const first = yield* start(path)
      const pid = yield* first.line("held")
      const error = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(path)))
      assert.deepInclude(error, { _tag: "AlreadyRunning", reason: "held", path, isRetryable: true })
      assert.match(
        error.message,
        new RegExp(
          `^Another instance is running: process ${pid} on \\S+ holds it since \\S+ \\(lock ${path}\\)\\. End it first`
        )
      )
      const second = yield* start(path)
      const { code, output } = yield* second.end
      assert.strictEqual(code, 75)
      assert.include(output, "refused Another instance is running")
    })
  )

  it.effect("names the process on the first line of the pid file, and removes only its own", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* SingleInstance.acquire(path)
          assert.strictEqual(readFileSync(`${path}.pid`, "utf8").split("\n")[0], String(process.pid))
          assert.strictEqual(Identity.compare(PidFile.read(path) ?? holderOf(1)), "running")
        })
      )
      assert.isFalse(existsSync(`${path}.pid`))
      yield* Effect.scoped(
        Effect.andThen(
          SingleInstance.acquire(path),
          Effect.sync(() => PidFile.write(path, holderOf(process.pid, { start: "1" })))
        )
      )
      assert.strictEqual(PidFile.read(path)?.start, "1")
      assert.deepStrictEqual(readdirSync(join(path, "..")).toSorted(), ["agent.lock", "agent.lock.pid"])
    })
  )

  it.effect("is a layer, held while the layer is", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const error = yield* Effect.flip(Effect.scoped(StoreLock.acquire(path))).pipe(
        Effect.provide(SingleInstance.layer(path))
      )
      assert.strictEqual(error.reason, "locked")
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(Effect.scoped(StoreLock.acquire(path)))))
    })
  )
})

describe("wait", () => {
  it.effect("waits for the given time", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* StoreLock.acquire(path)
      const waiting = yield* Effect.forkChild(
        Effect.flip(
          Effect.scoped(SingleInstance.acquire(path, { whenHeld: SingleInstance.wait("30 seconds") }))
        )
      )
      yield* TestClock.adjust("29 seconds")
      assert.isUndefined(waiting.pollUnsafe())
      yield* TestClock.adjust("2 seconds")
      const error = yield* Fiber.join(waiting)
      assert.deepInclude(error, { _tag: "AlreadyRunning", reason: "timeout" })
    })
  )

  it.live("starts when the old process has ended", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const old = yield* start(path)
      yield* old.line("held")
      const fresh = yield* start(path, { whenHeld: { wait: 60_000 } })
      yield* fresh.line("asking")
      yield* old.signal("SIGTERM")
      yield* fresh.line("held")
      assert.strictEqual((yield* old.end).code, 0)
    })
  )
})

describe("takeOver", () => {
  it.live("ends the old process by SIGTERM", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const old = yield* start(path)
      yield* old.line("held")
      const fresh = yield* start(path, { whenHeld: takeOver({ grace: 30_000 }) })
      const pid = yield* fresh.line("held")
      assert.strictEqual((yield* old.end).code, 0)
      assert.strictEqual(PidFile.read(path)?.pid, Number(pid))
    })
  )

  it.live("kills a process that ignores SIGTERM", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const old = yield* start(path, {}, ["stubborn"])
      yield* old.line("held")
      const fresh = yield* start(path, { whenHeld: takeOver({ grace: 500 }) })
      yield* old.line("ignored")
      yield* fresh.line("held")
      assert.strictEqual((yield* old.end).signal, "SIGKILL")
    })
  )

  it.effect("waits 5 s between SIGTERM and SIGKILL, and asks for the lock every 100 ms", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const clock = yield* Clock.Clock
      const signals: Array<readonly [unknown, number]> = []
      const { kill } = process
      const spy = vi.spyOn(process, "kill").mockImplementation((pid, signal) => {
        signals.push([signal, clock.currentTimeMillisUnsafe()])
        return kill.call(process, pid, signal)
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => spy.mockRestore()))
      /** A takeover that has sent SIGTERM to a process which ignores it. */
      const begun = Effect.gen(function* () {
        const old = yield* start(path, {}, ["stubborn"])
        yield* old.line("held")
        const acquired = Effect.scoped(SingleInstance.acquire(path, { whenHeld: takeOver() }))
        const taking = yield* Effect.forkChild(acquired, { startImmediately: true })
        yield* old.line("ignored")
        return { old, taking }
      })
      const first = yield* begun
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual((yield* first.old.end).signal, "SIGKILL")
      yield* TestClock.adjust("100 millis")
      yield* Fiber.join(first.taking)
      assert.deepStrictEqual(signals, [
        ["SIGTERM", 0],
        ["SIGKILL", 5_000]
      ])
      const second = yield* begun
      yield* TestClock.adjust("3 seconds")
      yield* second.old.signal("SIGKILL")
      yield* second.old.ended
      assert.isUndefined(second.taking.pollUnsafe())
      yield* TestClock.adjust("100 millis")
      yield* Fiber.join(second.taking)
      assert.deepStrictEqual(signals.slice(2), [["SIGTERM", 5_100]])
    })
  )

  it.live("leaves one of several that start at once", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const old = yield* start(path)
      yield* old.line("held")
      const racers = yield* Effect.forEach([1, 2, 3], () => start(path, { whenHeld: takeOver() }), {
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
      // A racer that came late ends the winner: then it holds the lock in its place.
      assert.include(results, "held")
      const running = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(path)))
      assert.strictEqual(running._tag, "AlreadyRunning")
      yield* old.ended
    })
  )

  it.live("never signals a process that got the id of an earlier holder", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const innocent = yield* bystander
      // A lock that is held, and a pid file that names a reused id.
      yield* StoreLock.acquire(path)
      PidFile.write(path, holderOf(innocent.pid ?? 0, { start: "1" }))
      const error = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(path, { whenHeld: takeOver() })))
      assert.deepInclude(error, { _tag: "AlreadyRunning", reason: "unidentified" })
      assert.strictEqual(innocent.exitCode ?? innocent.signalCode, null)
    })
  )

  it.live("starts over a pid file that a killed process left, also when its id was reused", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const old = yield* start(path)
      yield* old.line("held")
      yield* old.signal("SIGKILL")
      yield* old.ended
      const innocent = yield* bystander
      PidFile.write(path, holderOf(innocent.pid ?? 0, { start: "1" }))
      yield* SingleInstance.acquire(path, { whenHeld: takeOver() })
      assert.strictEqual(PidFile.read(path)?.pid, process.pid)
      assert.strictEqual(innocent.exitCode ?? innocent.signalCode, null)
    })
  )

  it.live("refuses this process, another PID namespace, another boot and a file that is no pid file", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* StoreLock.acquire(path)
      const refusal = Effect.map(
        Effect.flip(Effect.scoped(SingleInstance.acquire(path, { whenHeld: takeOver() }))),
        ({ reason }) => reason
      )
      assert.strictEqual(yield* refusal, "self")
      const innocent = yield* bystander
      const pid = innocent.pid ?? 0
      PidFile.write(path, holderOf(pid, { namespace: "pid:[1]" }))
      assert.strictEqual(yield* refusal, "elsewhere")
      PidFile.write(path, holderOf(pid, { boot: "another boot" }))
      assert.strictEqual(yield* refusal, "unidentified")
      PidFile.write(path, { pid, host: "mac", since: "now" })
      assert.strictEqual(yield* refusal, "noProc")
      for (const content of [
        "",
        `${pid}\n`,
        `-1\n{"host":"a","since":"b"}\n`,
        `${pid}\n${"x".repeat(1_000_000)}`
      ]) {
        writeFileSync(`${path}.pid`, content)
        assert.strictEqual(yield* refusal, "unidentified")
      }
      assert.strictEqual(innocent.exitCode ?? innocent.signalCode, null)
    })
  )

  it.live("refuses a holder inside a PID namespace, and starts when that has ended", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const namespaces = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
      const inside = yield* Child.start(program, [path, "{}"], { within: namespaces })
      assert.isBelow(Number(yield* inside.line("held")), 20)
      const error = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(path, { whenHeld: takeOver() })))
      assert.deepInclude(error, { _tag: "AlreadyRunning", reason: "elsewhere" })
      yield* inside.signal("SIGKILL")
      yield* inside.ended
      yield* SingleInstance.acquire(path, { whenHeld: takeOver() })
    })
  )
})

describe("the folder", () => {
  it.effect("gives a clear error when it is read-only, missing, or no folder", () =>
    Effect.gen(function* () {
      const folder = yield* Mount.tmpfs("1m")
      yield* Mount.readOnly(folder)
      const readOnly = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(join(folder, "a.lock"))))
      assert.deepInclude(readOnly, { _tag: "StoreError", reason: "readOnly" })
      assert.include(readOnly.message, "Check the permissions of the file and its folder")
      const other = yield* Folder.make
      const missing = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(join(other, "no", "a.lock"))))
      assert.deepInclude(missing, { _tag: "StoreError", reason: "unavailable" })
      mkdirSync(join(other, "folder.lock"))
      const folderItself = yield* Effect.flip(
        Effect.scoped(SingleInstance.acquire(join(other, "folder.lock")))
      )
      assert.deepInclude(folderItself, { _tag: "StoreError", reason: "unavailable" })
    })
  )

  it.effect("may have anything in place of the pid file", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      const pid = `${path}.pid`
      const odd = [
        () => execFileSync("mkfifo", [pid]),
        () => mkdirSync(pid),
        () => symlinkSync("/etc/hostname", pid),
        () => symlinkSync("/etc/hostname", `${pid}.new`)
      ]
      const before = readFileSync("/etc/hostname", "utf8")
      for (const make of odd) {
        yield* Effect.scoped(
          Effect.gen(function* () {
            make()
            const lock = yield* SingleInstance.acquire(path)
            assert.isTrue(yield* lock.isHeld)
            yield* Effect.flip(Effect.scoped(SingleInstance.acquire(path)))
          })
        )
        rmSync(pid, { recursive: true, force: true })
      }
      // A pipe that comes later is not read, which would never end.
      yield* SingleInstance.acquire(path)
      rmSync(pid)
      execFileSync("mkfifo", [pid])
      const error = yield* Effect.flip(Effect.scoped(SingleInstance.acquire(path)))
      assert.include(error.message, "another process holds it")
      assert.strictEqual(readFileSync("/etc/hostname", "utf8"), before)
      assert.deepStrictEqual(readdirSync(join(path, "..")).toSorted(), ["agent.lock", "agent.lock.pid"])
    })
  )

  it.effect("may become read-only while the lock is held", () =>
    Effect.gen(function* () {
      const path = yield* newPath
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* SingleInstance.acquire(path)
          chmodSync(join(path, ".."), 0o500)
        })
      )
      chmodSync(join(path, ".."), 0o700)
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(Effect.scoped(SingleInstance.acquire(path)))))
    })
  )
})

describe("without /proc, as on macOS", () => {
  it("knows the process id only, and identifies no process", () => {
    assert.deepStrictEqual(Identity.own("/no/proc"), { pid: process.pid })
    assert.strictEqual(Identity.compare(Identity.own(), "/no/proc"), "unknown")
    assert.strictEqual(Identity.compare({ pid: process.pid }), "unknown")
  })

  it("identifies this process with it", () => {
    assert.strictEqual(Identity.compare(Identity.own()), "running")
    assert.strictEqual(Identity.compare({ ...Identity.own(), start: "1" }), "ended")
    assert.strictEqual(Identity.compare({ ...Identity.own(), pid: 2 ** 31 }), "ended")
  })
})

describe("options", () => {
  it.effect("of invalid values throw, and say what is allowed", () =>
    Effect.sync(() => {
      const odd = (options: unknown) => () => SingleInstance.acquire("a", options as SingleInstance.Options)
      assert.throws(
        odd({ whenHeld: "kill" }),
        /SingleInstance: whenHeld must be "refuse", \{ wait \} or \{ takeOver \}/
      )
      assert.throws(odd({ whenHeld: { wait: "soon" } }), /whenHeld\.wait must be/)
      assert.throws(odd({ whenHeld: { takeOver: { grace: -1 } } }), /whenHeld\.takeOver\.grace must be/)
      assert.throws(odd({ whenHeld: {} }), /whenHeld/)
      assert.throws(odd({ when: 1 }), /"when" is not an option/)
      assert.throws(() => SingleInstance.acquire(""), /path must be/)
      assert.isTrue(Layer.isLayer(SingleInstance.layer("a")))
    })
  )
})
