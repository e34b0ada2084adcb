/**
 * A program under `Host.runMain`: `hostedProgram.ts <kind> <options as JSON> <file>`. Prints `up` when it runs, and what its
 * steps do.
 */
import { Config, Effect } from "effect"
import { writeFileSync } from "node:fs"
import { Host } from "@outlast/node/host"

const [kind = "", options = "{}", file = ""] = process.argv.slice(2)

const say = (line: string) => Effect.sync(() => console.log(line))

/** Blocks the thread. */
const block = Effect.sync(() => {
  // Blocks the thread without using the processor.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
})

const steps: Readonly<
  Record<string, ReadonlyArray<readonly [Host.Phase, Effect.Effect<unknown, unknown, Host.Host>]>>
> = {
  orderly: Host.phases.map((phase) => [phase, say(`step ${phase}`)] as const),
  stuck: [
    ["runs", Effect.uninterruptible(Effect.never)],
    ["outbox", say("step outbox")]
  ],
  throws: [
    ["intake", Effect.die(new Error("thrown"))],
    ["last", say("step last")]
  ],
  spins: [["runs", block]],
  "spins itself": [["runs", block]],
  logs: [
    [
      "runs",
      Effect.gen(function* () {
        for (let i = 0; i < 100; i++) yield* Effect.logInfo("x".repeat(1_000))
        yield* Effect.sleep("100 millis")
      })
    ],
    ["last", Effect.sync(() => writeFileSync(file, "done"))]
  ],
  "asks itself": [["runs", Host.shutdown("once more")]]
}

const main = Effect.gen(function* () {
  for (const [phase, run] of steps[kind] ?? []) yield* Host.onShutdown(phase, { name: kind, run })
  if (kind === "aborts") {
    yield* Host.onAbort("says", say("aborted"))
    yield* Host.onAbort("fails", Effect.die(new Error("thrown")))
    yield* Host.onAbort("never ends", Effect.never)
  }
  yield* Effect.addFinalizer(() => (kind === "stuck main" ? Effect.never : say("released")))
  console.log("up")
  if (kind === "fails") return yield* Effect.fail(new Error("it failed"))
  if (kind === "ends") return
  if (kind === "spins itself") yield* Host.shutdown("by itself")
  if (kind === "asks") yield* Host.shutdown("the lock was lost")
  return yield* Effect.never
}).pipe(Effect.scoped)

if (kind === "configured") {
  process.env["SHUTDOWN_WAIT"] = options
  Host.runMainConfig(main, { wait: Config.Duration("SHUTDOWN_WAIT"), signals: Config.succeed(["SIGTERM"]) })
} else {
  Host.runMain(main, JSON.parse(options))
}
