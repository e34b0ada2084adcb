/** Real processes under `Host.runMain`, with real signals. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { vi } from "vitest"
import { Host } from "@outlast/node/host"
import * as Child from "../support/Child.ts"
import * as Folder from "../support/Folder.ts"

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000 })

const program = new URL("../support/hostedProgram.ts", import.meta.url)

const start = (kind: string, options: Host.RunMainOptions = {}) =>
  Effect.tap(Child.start(program, [kind, JSON.stringify({ wait: 0, ...options })]), (child) =>
    child.line("up")
  )

describe("a signal", () => {
  it.live("runs the phases in order, then releases the program, and exits with 0", () =>
    Effect.gen(function* () {
      const child = yield* start("orderly")
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      const lines = output.split("\n").filter((line) => /^(step|released)/.test(line))
      assert.deepStrictEqual(lines, [...Host.phases.map((phase) => `step ${phase}`), "released"])
      assert.strictEqual(code, 0)
    })
  )

  it.live("waits before the first phase, and not on a terminal", () =>
    Effect.gen(function* () {
      const waiting = yield* start("orderly", { wait: "10 minutes", total: "20 minutes" })
      yield* waiting.signal("SIGINT")
      yield* waiting.line("")
      yield* waiting.signal("SIGTERM")
      const { code, output } = yield* waiting.end
      assert.notInclude(output, "step intake")
      assert.strictEqual(code, 143)
      const person = yield* Child.start(program, ["orderly", JSON.stringify({ isTerminal: true })])
      yield* person.line("up")
      yield* person.signal("SIGINT")
      yield* person.line("step intake")
      assert.strictEqual((yield* person.end).code, 0)
    })
  )

  it.live("runs what was registered for a second signal, in a limited time", () =>
    Effect.gen(function* () {
      const child = yield* start("aborts", { wait: "10 minutes", total: "20 minutes" })
      yield* child.signal("SIGTERM")
      yield* child.line("")
      yield* child.signal("SIGINT")
      const { code, output } = yield* child.end
      assert.include(output, "aborted")
      assert.notInclude(output, "step")
      assert.strictEqual(code, 130)
    })
  )

  it.live("ends a phase that never completes at its limit, names it, and exits with 70", () =>
    Effect.gen(function* () {
      const child = yield* start("stuck", { limits: { runs: "200 millis" } })
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      assert.match(
        output,
        /Shutdown: step `stuck` of phase `runs` had not ended after \d+\.\d s and was left behind/
      )
      assert.include(output, "step outbox")
      assert.strictEqual(code, 70)
    })
  )

  it.live("ends a main program whose finalizer never completes, and names it", () =>
    Effect.gen(function* () {
      const child = yield* start("stuck main", { total: "1 second" })
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      assert.match(output, /Shutdown: the main program had not ended after \d+\.\d s and was left behind/)
      assert.strictEqual(code, 70)
    })
  )

  it.live("kills a process whose thread is blocked, and names the phase", () =>
    Effect.gen(function* () {
      const child = yield* start("spins", { total: "2 seconds" })
      yield* child.signal("SIGTERM")
      const { code, output, signal } = yield* child.end
      assert.include(output, "Shutdown: the thread has been blocked in `runs`. The process is killed.")
      assert.deepStrictEqual([code, signal], [null, "SIGKILL"])
    })
  )

  it.live("runs all phases where no worker thread is allowed", () =>
    Effect.gen(function* () {
      const flags = ["--permission", "--allow-fs-read=*"]
      const child = yield* Child.start(program, ["orderly", JSON.stringify({ wait: 0 })], { flags })
      yield* child.line("up")
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      assert.include(output, "step last")
      assert.strictEqual(code, 0)
    })
  )

  it.live("runs all phases when the reader of its log has ended", () =>
    Effect.gen(function* () {
      const file = join(yield* Folder.make, "file")
      const child = yield* Child.start(program, ["logs", JSON.stringify({ wait: 0 }), file])
      yield* child.line("up")
      yield* child.close
      yield* child.signal("SIGTERM")
      const { code } = yield* child.end
      assert.deepStrictEqual([code, existsSync(file)], [0, true])
    })
  )

  it.live("ends a step that waits for the shutdown that it is part of", () =>
    Effect.gen(function* () {
      const child = yield* start("asks itself", { limits: { runs: "200 millis" } })
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      assert.include(output, "step `asks itself` of phase `runs` had not ended")
      assert.strictEqual(code, 70)
    })
  )

  it.live("goes on after a step that throws", () =>
    Effect.gen(function* () {
      const child = yield* start("throws")
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      assert.include(output, "step last")
      assert.include(output, "thrown")
      assert.strictEqual(code, 70)
    })
  )

  it.live("starts one shutdown when npm forwards what the terminal sends anyway", () =>
    Effect.gen(function* () {
      const child = yield* start("orderly")
      yield* child.signal("SIGINT")
      yield* child.signal("SIGINT")
      const { code, output } = yield* child.end
      assert.include(output, "step last")
      assert.strictEqual(code, 0)
    })
  )
})

describe("a program", () => {
  it.live("that ends by itself exits with 0, one that fails with 1", () =>
    Effect.gen(function* () {
      const ends = yield* start("ends")
      const ended = yield* ends.end
      assert.strictEqual(ended.code, 0)
      assert.include(ended.output, "released")
      const fails = yield* start("fails")
      const failed = yield* fails.end
      assert.strictEqual(failed.code, 1)
      assert.include(failed.output, "it failed")
    })
  )

  it.live("can ask for its own shutdown", () =>
    Effect.gen(function* () {
      const { code, output } = yield* (yield* start("asks")).end
      assert.include(output, "Shutdown started: the lock was lost.")
      assert.include(output, "released")
      assert.strictEqual(code, 0)
    })
  )

  it.live("whose thread is blocked in a shutdown of its own is killed, too", () =>
    Effect.gen(function* () {
      const child = yield* Child.start(program, [
        "spins itself",
        JSON.stringify({ wait: 0, total: "1 second" })
      ])
      const { output, signal } = yield* child.end
      assert.include(output, "Shutdown: the thread has been blocked in `runs`. The process is killed.")
      assert.strictEqual(signal, "SIGKILL")
    })
  )

  it("throws for invalid options", () => {
    assert.throws(() => Host.runMain(Effect.void, { signals: ["SIGKILL"] }), /signals\[0\] must be a signal/)
    assert.throws(() => Host.runMain((() => 1) as unknown as Effect.Effect<void>), /main must be an Effect/)
    assert.throws(() => Host.runMain(Effect.void, { total: -1 }), /total must be/)
  })
})

describe("runMainConfig", () => {
  it.live("takes its settings from the environment", () =>
    Effect.gen(function* () {
      const child = yield* Child.start(program, ["configured", "0 seconds"])
      yield* child.line("up")
      yield* child.signal("SIGTERM")
      const { code, output } = yield* child.end
      assert.strictEqual(code, 0)
      assert.include(output, "released")
    })
  )

  it.live("says what is wrong with a setting, and ends with 1", () =>
    Effect.gen(function* () {
      const child = yield* Child.start(program, ["configured", "soon"])
      const { code, output } = yield* child.end
      assert.strictEqual(code, 1)
      assert.match(output, /The settings of the host are wrong\. [^]*SHUTDOWN_WAIT/)
      assert.notInclude(output, "up")
    })
  )
})
