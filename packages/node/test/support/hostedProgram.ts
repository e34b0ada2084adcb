/**
 * A program under `Host.runMain`: `hostedProgram.ts <kind> <options as JSON>`. Prints `up` when it runs, and what its
 * steps do.
 */
import { Effect } from "effect"
import { Host } from "@outlast/node/host"

const [kind = "", options = "{}"] = process.argv.slice(2)

const say = (line: string) => Effect.sync(() => console.log(line))

/** Blocks the thread. */
const spin = Effect.sync(() => {
  for (;;);
})

const steps: Readonly<Record<string, ReadonlyArray<readonly [Host.Phase, Effect.Effect<unknown, unknown>]>>> =
  {
    orderly: Host.phases.map((phase) => [phase, say(`step ${phase}`)] as const),
    stuck: [
      ["runs", Effect.uninterruptible(Effect.never)],
      ["outbox", say("step outbox")]
    ],
    throws: [
      ["intake", Effect.die(new Error("thrown"))],
      ["last", say("step last")]
    ],
    spins: [["runs", spin]]
  }

const main = Effect.gen(function* () {
  for (const [phase, run] of steps[kind] ?? []) yield* Host.onShutdown(phase, { name: kind, run })
  yield* Effect.addFinalizer(() => (kind === "stuck main" ? Effect.never : say("released")))
  console.log("up")
  if (kind === "fails") return yield* Effect.fail(new Error("it failed"))
  if (kind === "ends") return
  if (kind === "asks") yield* Host.shutdown("the lock was lost")
  return yield* Effect.never
}).pipe(Effect.scoped)

Host.runMain(main, JSON.parse(options))
