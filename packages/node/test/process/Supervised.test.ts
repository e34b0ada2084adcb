/** Supervised processes in virtual time, with processes that the test controls. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Logger, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { vi } from "vitest"
import type { ChildProcessSpawner } from "effect/process"
import { Supervised } from "@outlast/node/process"
import { ResilienceEvents } from "@outlast/resilience"
import * as FakeProcess from "../support/FakeProcess.ts"

interface Setting extends FakeProcess.Spawner {
  readonly events: Array<ResilienceEvents.ResilienceEvent>
  readonly lines: Array<string>
}

const withSpawner = <A, E>(
  effect: (setting: Setting) => Effect.Effect<A, E, ChildProcessSpawner.ChildProcessSpawner | Scope.Scope>
) =>
  Effect.suspend(() => {
    const setting: Setting = { ...FakeProcess.make(), events: [], lines: [] }
    const log = Logger.layer([Logger.make(({ message }) => setting.lines.push(String(message)))])
    const events = ResilienceEvents.layerHandler((event) => Effect.sync(() => setting.events.push(event)))
    return effect(setting).pipe(Effect.scoped, Effect.provide(Layer.mergeAll(setting.layer, log, events)))
  })

const options = {
  name: "files",
  command: "files",
  args: ["--token", "secret"],
  handshake: (io: Supervised.ProcessIo) => Effect.succeed({ pid: io.pid })
}

const pidOf = <C extends { readonly pid: number }>(one: Supervised.Supervised<C>) =>
  one.use(({ pid }) => Effect.succeed(pid))

const settle = TestClock.adjust(0)

describe("the end of this program without its finalizers", () => {
  it.effect("kills the group of a process that runs, and none whose leader has ended", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        const killed: Array<number> = []
        const kill = vi.spyOn(process, "kill").mockImplementation((pid) => {
          killed.push(pid)
          return true
        })
        yield* Effect.addFinalizer(() => Effect.sync(() => kill.mockRestore()))
        const atExit = Effect.sync(() => {
          killed.length = 0
          for (const listener of process.listeners("exit")) if (listener.name === "killAll") listener(1)
          return [...killed]
        })
        const before = yield* atExit
        yield* Supervised.make(options)
        yield* settle
        assert.lengthOf(yield* atExit, before.length + 1)
        yield* lives[0]?.exit(3) ?? Effect.die("no life")
        yield* settle
        // The system may have given the number to another process.
        assert.deepStrictEqual(yield* atExit, before)
      })
    )
  )
})

describe("a restart by hand", () => {
  it.effect("forgets earlier deaths, and is none itself", () =>
    withSpawner(({ events, lives }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make(options)
        yield* settle
        yield* lives[0]?.exit(3) ?? Effect.die("no life")
        yield* TestClock.adjust("1 second")
        assert.deepInclude(yield* files.status, { state: "running", deaths: 1 })
        yield* files.restart
        yield* settle
        assert.deepInclude(yield* files.status, { state: "running", deaths: 0 })
        assert.lengthOf(lives, 3)
        assert.lengthOf(
          events.filter(({ _tag }) => _tag === "ProcessDied"),
          1
        )
      })
    )
  )
})

describe("a process that dies", () => {
  it.effect("is started again after 1, 2, 4, 8 and 16 s, and then the circuit opens for 5 minutes", () =>
    withSpawner(({ events, lines, lives }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make(options)
        yield* settle
        for (const [i, seconds] of [1, 2, 4, 8, 16].entries()) {
          assert.deepInclude(yield* files.status, { state: "running", deaths: i })
          yield* lives[i]?.exit(3) ?? Effect.die("no life")
          yield* TestClock.adjust(`${seconds * 1_000 - 1} millis`)
          assert.deepInclude(yield* files.status, { state: "waiting", death: "exit code 3", pid: undefined })
          assert.strictEqual(lives.length, i + 1)
          yield* TestClock.adjust("1 millis")
        }
        yield* lives[5]?.exit(3) ?? Effect.die("no life")
        yield* settle
        assert.deepInclude(yield* files.status, { state: "open", deaths: 6 })
        const error = yield* Effect.flip(pidOf(files))
        assert.deepInclude(error, {
          _tag: "ProcessUnavailable",
          reason: "open",
          retryAfter: 300_000,
          name: "files"
        })
        assert.strictEqual(
          error.message,
          "Process `files` keeps dying, so it is not started for a while. Its last end: exit code 3. Next start in 300.0 s."
        )
        yield* TestClock.adjust("5 minutes")
        assert.strictEqual(lives.length, 7)
        assert.isAbove(yield* pidOf(files), 0)
        assert.deepStrictEqual(
          events.map(({ _tag }) => _tag),
          [
            ...[1, 2, 3, 4, 5].flatMap(() => ["ProcessReady", "ProcessDied"]),
            "ProcessReady",
            "ProcessCircuitOpened",
            "ProcessReady"
          ]
        )
        assert.include(lines, "Process files died: exit code 3. It is started again in 1.0 s.")
        assert.include(lines, "Process files keeps dying: exit code 3. It is not started for 300.0 s.")
        assert.notInclude(JSON.stringify([events, lines]), "secret")
      })
    )
  )

  it.effect("at its handshake, or that answers too late, or cannot be started, counts as a death", () =>
    withSpawner(({ lives, missing }) =>
      Effect.gen(function* () {
        let life = 0
        const files = yield* Supervised.make({
          ...options,
          handshake: () => {
            life++
            if (life === 1) throw new Error("the key sk-secret is wrong")
            if (life === 2) return Effect.never
            return Effect.succeed("client")
          }
        })
        const death = Effect.map(files.status, ({ death }) => death)
        yield* TestClock.adjust("500 millis")
        assert.strictEqual(yield* death, "its handshake failed (Error)")
        assert.isTrue(lives[0]?.isKilled())
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("10500 millis")
        assert.strictEqual(yield* death, "no handshake within 10s")
        assert.isTrue(lives[1]?.isKilled())
        missing(true)
        yield* TestClock.adjust("2 seconds")
        assert.strictEqual(yield* death, "it cannot be started (NotFound)")
        missing(false)
        yield* TestClock.adjust("4 seconds")
        assert.strictEqual(yield* files.use(Effect.succeed), "client")
      })
    )
  )

  it.effect("that hangs is killed after three failed health checks", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        let isHealthy = true
        const files = yield* Supervised.make({
          ...options,
          health: {
            check: () => (isHealthy ? Effect.void : Effect.never),
            every: "30 seconds",
            limit: "5 seconds"
          }
        })
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(lives.length, 1)
        isHealthy = false
        yield* TestClock.adjust("104 seconds")
        assert.isFalse(lives[0]?.isKilled())
        yield* TestClock.adjust("1 second")
        assert.isTrue(lives[0]?.isKilled())
        assert.strictEqual((yield* files.status).death, "its health check failed 3 times")
      })
    )
  )

  it.effect("survives single failed health checks, also one that throws", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        let checks = 0
        yield* Supervised.make({
          ...options,
          health: {
            check: () => {
              if (++checks % 3 !== 0) throw new Error("no")
              return Effect.void
            }
          }
        })
        yield* TestClock.adjust("10 minutes")
        assert.isAbove(checks, 10)
        assert.isFalse(lives[0]?.isKilled())
      })
    )
  )
})

describe("use", () => {
  it.effect("waits for a process that starts, at most its patience", () =>
    withSpawner(() =>
      Effect.gen(function* () {
        const files = yield* Supervised.make({
          ...options,
          handshake: () => Effect.as(Effect.sleep("8 seconds"), 1),
          patience: "5 seconds"
        })
        const impatient = yield* Effect.forkChild(Effect.flip(files.use(Effect.succeed)))
        yield* TestClock.adjust("5 seconds")
        assert.deepInclude(yield* Fiber.join(impatient), { reason: "starting" })
        const patient = yield* Effect.forkChild(files.use(Effect.succeed))
        yield* TestClock.adjust("3 seconds")
        assert.strictEqual(yield* Fiber.join(patient), 1)
      })
    )
  )

  it.effect("fails when the process ends meanwhile, and is not repeated", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make(options)
        let calls = 0
        const using = yield* Effect.forkChild(
          Effect.flip(
            files.use(() =>
              Effect.andThen(
                Effect.sync(() => calls++),
                Effect.never
              )
            )
          )
        )
        yield* settle
        yield* lives[0]?.exit(1) ?? Effect.void
        yield* settle
        const error = yield* Fiber.join(using)
        assert.deepInclude(error, { _tag: "ProcessUnavailable", reason: "gone" })
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(calls, 1)
      })
    )
  )

  it.effect("says that the process is about to be started again", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make({ ...options, patience: 0 })
        yield* settle
        yield* lives[0]?.exit(1) ?? Effect.void
        yield* settle
        const asked = yield* Effect.forkChild(Effect.flip(pidOf(files)))
        yield* settle
        assert.deepInclude(yield* Fiber.join(asked), { reason: "restarting", retryAfter: 1_000 })
      })
    )
  )
})

describe("control", () => {
  it.effect("stop ends the process, once and for all", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make(options)
        yield* settle
        yield* files.stop
        assert.isTrue(lives[0]?.isKilled())
        yield* files.stop
        yield* files.restart
        yield* TestClock.adjust("1 hour")
        assert.strictEqual(lives.length, 1)
        assert.deepInclude(yield* files.status, { state: "stopped", deaths: 0 })
        const error = yield* Effect.flip(pidOf(files))
        assert.deepInclude(error, { reason: "stopped", isRetryable: false })
      })
    )
  )

  it.effect("restart starts another life at once, also while the circuit is open", () =>
    withSpawner(({ lives, missing }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make(options)
        yield* settle
        yield* files.restart
        yield* settle
        assert.isTrue(lives[0]?.isKilled())
        assert.strictEqual(lives.length, 2)
        missing(true)
        yield* lives[1]?.exit(0) ?? Effect.void
        yield* TestClock.adjust("1 minute")
        assert.deepInclude(yield* files.status, { state: "open" })
        missing(false)
        yield* files.restart
        yield* settle
        assert.deepInclude(yield* files.status, { state: "running", deaths: 0 })
      })
    )
  )

  it.effect("ends with its scope", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        yield* Effect.scoped(Effect.andThen(Supervised.make(options), settle))
        assert.isTrue(lives[0]?.isKilled())
      })
    )
  )

  it.effect("fails `use` at once after its scope has closed, also while it waits for a restart", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const files = yield* Scope.provide(Supervised.make(options), scope)
        yield* settle
        yield* lives[0]?.exit(3) ?? Effect.die("no life")
        yield* settle
        const waiting = yield* Effect.forkChild(Effect.flip(pidOf(files)))
        yield* settle
        yield* Scope.close(scope, Exit.void)
        assert.deepInclude(yield* Fiber.join(waiting), { reason: "stopped" })
        assert.deepInclude(yield* Effect.flip(pidOf(files)), { reason: "stopped" })
        assert.deepInclude(yield* files.status, { state: "stopped" })
      })
    )
  )
})

describe("output", () => {
  it.effect("waits when its buffer has the characters of the longest line, and loses nothing", () =>
    withSpawner(({ lives }) =>
      Effect.gen(function* () {
        const files = yield* Supervised.make({
          ...options,
          output: { line: 100 },
          handshake: (io) => Effect.succeed(io.lines)
        })
        yield* settle
        const [life] = lives
        if (life === undefined) return assert.fail("no life")
        const texts = ["a", "b", "c", "d", "e"].map((text) => text.repeat(40))
        for (const text of texts) {
          yield* life.print(text)
          yield* settle
        }
        // Two lines have room, and the third one waits.
        assert.strictEqual(life.unread(), 2)
        const read = yield* files.use((lines) => Stream.runCollect(Stream.take(lines, 5)))
        assert.deepStrictEqual(read, texts)
        assert.strictEqual(life.unread(), 0)
      })
    )
  )
})

describe("options", () => {
  it.effect("of invalid values are a defect that says what is allowed, and shows no secret", () =>
    withSpawner(() =>
      Effect.gen(function* () {
        const messageOf = (odd: unknown) =>
          Effect.map(Effect.exit(Supervised.make({ ...options, ...(odd as object) })), (exit) =>
            Exit.isFailure(exit) ? String(exit.cause) : "accepted"
          )
        assert.include(yield* messageOf({ command: "" }), "Supervised: command must be")
        assert.include(yield* messageOf({ args: "a b" }), "Supervised: args must be a list of texts")
        assert.include(yield* messageOf({ respawn: { restarts: -1 } }), "respawn.restarts must be")
        assert.include(yield* messageOf({ respawn: { backoff: {} } }), "backoff")
        assert.include(yield* messageOf({ output: { line: 0 } }), "output.line must be")
        assert.include(yield* messageOf({ health: {} }), "health.check is missing")
        assert.include(yield* messageOf({ stop: 1 }), '"stop" is not an option')
        const secret = yield* messageOf({ env: { KEY: 12_345_678 } })
        assert.include(secret, "env")
        assert.notInclude(secret, "12345678")
      })
    )
  )
})
