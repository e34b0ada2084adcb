/** Supervised processes and JSON-RPC with real processes. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import type { Scope } from "effect"
import { existsSync, readFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { fileURLToPath } from "node:url"
import { vi } from "vitest"
import { StdioRpc, Supervised } from "@outlast/node/process"
import { Backoff, Warnings } from "@outlast/resilience"
import * as Child from "../support/Child.ts"

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const server = fileURLToPath(new URL("../support/stdioServer.mjs", import.meta.url))

const start = (
  kind: string,
  options: Partial<Supervised.SupervisedOptions<StdioRpc.StdioRpc, never>> = {},
  rpc?: StdioRpc.Options
) =>
  Supervised.make({
    name: "server",
    command: process.execPath,
    args: [server, kind],
    handshake: (io) => Effect.tap(StdioRpc.make(io, rpc), ({ request }) => request("ping")),
    respawn: { backoff: Backoff.constant("10 millis") },
    handshakeLimit: "30 seconds",
    patience: "30 seconds",
    ...options
  })

/** True while the process runs. A zombie does not. */
const isAlive = (pid: number): boolean =>
  existsSync(`/proc/${pid}/stat`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))

const gone = (pid: number) =>
  Effect.repeat(
    Effect.sync(() => isAlive(pid)),
    { while: (isAlive) => isAlive, schedule: Schedule.spaced("20 millis") }
  ).pipe(Effect.andThen(Effect.sync(() => assert.isFalse(isAlive(pid)))))

const childOf = (one: Supervised.Supervised<unknown>) =>
  Effect.map(one.stderr, (text) => Number(/child (\d+)/.exec(text)?.[1]))

const pidOf = (one: Supervised.Supervised<unknown>) => Effect.map(one.status, ({ pid }) => pid ?? Number.NaN)

const test = <E>(
  title: string,
  effect: () => Effect.Effect<void, E, NodeServices.NodeServices | Scope.Scope>
) => it.live(title, () => Effect.provide(effect(), Layer.merge(NodeServices.layer, Warnings.layerOff)))

describe("a process", () => {
  test("answers requests, with its own environment and folder", () =>
    Effect.gen(function* () {
      const one = yield* start("plain", { env: { OWN: "1" }, cwd: tmpdir() })
      assert.deepStrictEqual(yield* one.use((rpc) => rpc.request("echo", { text: "é\n😀" })), {
        text: "é\n😀"
      })
      const environment = yield* one.use((rpc) => rpc.request("environment"))
      assert.deepInclude(environment as object, { own: "1", path: true })
      const bare = yield* start("plain", { name: "bare", env: {}, extendEnv: false })
      assert.deepInclude((yield* bare.use((rpc) => rpc.request("environment"))) as object, { path: false })
    }))

  test("that dies of itself or of a signal is started again, and its request fails", () =>
    Effect.gen(function* () {
      const one = yield* start("plain")
      for (const [method, death] of [
        ["exit", "exit code 3"],
        ["die", "SIGKILL"]
      ] as const) {
        const before = yield* Effect.andThen(one.use(Effect.succeed), pidOf(one))
        const error = yield* Effect.flip(one.use((rpc) => rpc.request(method)))
        assert.strictEqual(error.reason, "gone")
        yield* one.use((rpc) => rpc.request("ping"))
        assert.strictEqual((yield* one.status).death, death)
        assert.notStrictEqual(yield* pidOf(one), before)
      }
    }))

  test("that dies at its handshake opens the circuit", () =>
    Effect.gen(function* () {
      const one = yield* start("dies")
      const error = yield* Effect.flip(one.use((rpc) => rpc.request("ping")))
      assert.deepInclude(error, { _tag: "ProcessUnavailable", reason: "open" })
      assert.strictEqual((yield* one.status).death, "exit code 9")
    }))

  test("is killed with its children, also when it ignores SIGTERM", () =>
    Effect.gen(function* () {
      const family = yield* start("family")
      yield* family.use((rpc) => rpc.request("ping"))
      const [parent, child] = [yield* pidOf(family), yield* childOf(family)]
      assert.isTrue(isAlive(child))
      yield* family.stop
      yield* gone(parent)
      yield* gone(child)
      const stubborn = yield* start("stubborn", { stopLimit: "100 millis" })
      yield* stubborn.use((rpc) => rpc.request("ping"))
      const pid = yield* pidOf(stubborn)
      yield* stubborn.stop
      assert.isFalse(isAlive(pid))
    }))

  test("leaves no children when its leader is killed", () =>
    Effect.gen(function* () {
      const family = yield* start("family")
      yield* family.use((rpc) => rpc.request("ping"))
      const child = yield* childOf(family)
      yield* Effect.flip(family.use((rpc) => rpc.request("die")))
      yield* gone(child)
    }))

  // Only Linux shows the environment of other processes.
  if (existsSync("/proc/self/environ")) {
    const leftOf = (one: Supervised.Supervised<unknown>) =>
      Effect.map(one.stderr, (text) => /left ([\d ]+)/.exec(text)?.[1]?.split(" ").map(Number) ?? [])
    /** The processes, and their children. */
    const familyOf = (pids: ReadonlyArray<number>) =>
      pids.flatMap((pid) => [
        pid,
        ...readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").map(Number)
      ])
    for (const end of ["exit", "die", "stop", "restart"] as const) {
      test(`leaves no descendants with sessions of their own (${end})`, () =>
        Effect.gen(function* () {
          const one = yield* start("left")
          const other = yield* start("left")
          yield* one.use((rpc) => rpc.request("ping"))
          yield* other.use((rpc) => rpc.request("ping"))
          const family = yield* Effect.repeat(Effect.map(leftOf(one), familyOf), {
            while: (pids) => pids.length < 4 || pids.includes(0),
            schedule: Schedule.spaced("20 millis")
          })
          const others = yield* leftOf(other)
          assert.isTrue([...family, ...others].every(isAlive))
          yield* end === "stop" || end === "restart"
            ? one[end]
            : Effect.flip(one.use((rpc) => rpc.request(end)))
          yield* Effect.forEach(family, gone)
          assert.isTrue(others.every(isAlive))
        }))
    }
  }

  for (const end of ["exit", "throw", "exit while it stops"]) {
    test(`dies with a parent that ends without its finalizers (${end})`, () =>
      Effect.gen(function* () {
        const parent = yield* Child.start(new URL("../support/parent.ts", import.meta.url), [server])
        const pids = (yield* parent.line("pids")).split(" ").map(Number)
        assert.isTrue(pids.every(isAlive))
        yield* parent.send(end)
        yield* parent.ended
        yield* Effect.forEach(pids, gone)
      }))
  }
})

describe("output", () => {
  test("without an end on standard error is read, and its end is kept", () =>
    Effect.gen(function* () {
      const one = yield* start("noisy", { output: { tail: 100 } })
      yield* one.use((rpc) => rpc.request("ping"))
      yield* Effect.repeat(one.stderr, {
        while: (text) => text.length < 100,
        schedule: Schedule.spaced("10 millis")
      })
      assert.strictEqual(yield* one.stderr, "x".repeat(100))
    }))

  test("of many lines that are no messages delays the answer, and loses none", () =>
    Effect.gen(function* () {
      const one = yield* start("plain", { output: { lines: 2 } })
      assert.strictEqual(yield* one.use((rpc) => rpc.request("flood")), "flooded")
    }))

  test("of a line that is too long ends the process", () =>
    Effect.gen(function* () {
      const one = yield* start("plain", { output: { line: 5_000 } })
      yield* Effect.flip(one.use((rpc) => rpc.request("long line")))
      yield* one.use((rpc) => rpc.request("ping"))
      assert.strictEqual((yield* one.status).death, "a line longer than 5000 characters")
    }))

  test("that is closed ends the process, and so do health checks where standard input is", () =>
    Effect.gen(function* () {
      const one = yield* start("plain", {
        health: { check: (rpc) => rpc.request("ping"), every: "50 millis", failures: 1 }
      })
      yield* Effect.flip(one.use((rpc) => rpc.request("mute")))
      assert.strictEqual(yield* one.use((rpc) => rpc.request("deaf")), "deaf")
      // More than the pipe and the buffers take.
      const error = yield* Effect.flip(
        one.use((rpc) => Effect.forever(rpc.notify("x", { text: "x".repeat(100_000) })))
      )
      assert.strictEqual(error.reason, "gone")
      yield* Effect.repeat(one.status, {
        while: ({ deaths }) => deaths < 2,
        schedule: Schedule.spaced("20 millis")
      })
      assert.deepStrictEqual(yield* one.use((rpc) => rpc.request("ping")), {})
    }))

  test("that is malformed, or asks for something, disturbs nothing", () =>
    Effect.gen(function* () {
      const one = yield* start("plain")
      assert.strictEqual(yield* one.use((rpc) => rpc.request("confuse")), "not confused")
      assert.strictEqual(yield* one.use((rpc) => rpc.request("ask back")), "asked")
      assert.deepStrictEqual(yield* one.use((rpc) => rpc.request("ping")), {})
    }))
})

describe("a request", () => {
  test("that is refused has the server's code and message", () =>
    Effect.gen(function* () {
      const one = yield* start("plain")
      const error = yield* Effect.flip(one.use((rpc) => rpc.request("unknown/method")))
      assert.deepInclude(error, {
        _tag: "RpcFailed",
        reason: "error",
        code: -32_601,
        detail: "no unknown/method"
      })
      assert.strictEqual(
        error.message,
        "Request `unknown/method` was refused by the process: no unknown/method (-32601)."
      )
    }))

  test("is answered where the server sends `null` as its error", () =>
    Effect.gen(function* () {
      const one = yield* start("plain")
      assert.strictEqual(yield* one.use((rpc) => rpc.request("null error")), "answered")
    }))

  test("whose parameters are no JSON is a defect, and leaves its place to others", () =>
    Effect.gen(function* () {
      const one = yield* start("plain", {}, { concurrency: 1 })
      const circle: { self?: object } = {}
      circle.self = circle
      const exit = yield* Effect.exit(one.use((rpc) => rpc.request("echo", circle)))
      assert.include(String(exit), "circular")
      assert.deepStrictEqual(yield* one.use((rpc) => rpc.request("ping")), {})
    }))

  test("has a time limit, and the number of those that wait is bounded", () =>
    Effect.gen(function* () {
      const one = yield* start("plain", {}, { concurrency: 1 })
      const late = yield* Effect.flip(one.use((rpc) => rpc.request("never", {}, { limit: "20 millis" })))
      assert.deepInclude(late, { _tag: "RpcFailed", reason: "timeout" })
      const busy = yield* one.use((rpc) =>
        Effect.raceFirst(
          Effect.as(rpc.request("never"), undefined),
          Effect.flip(Effect.andThen(Effect.yieldNow, rpc.request("ping")))
        )
      )
      assert.deepInclude(busy ?? {}, { reason: "busy", isRetryable: true })
      assert.deepStrictEqual(yield* one.use((rpc) => rpc.request("ping")), {})
    }))
})
