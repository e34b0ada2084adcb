/**
 * Runs agents over real HTTP in one process, with random faults, and prints what is left behind as JSON:
 * `node --expose-gc --conditions=@outlast/source test/chaos/endurance.ts [RUNS] [SEED]`.
 *
 * Each run has its own servers, clients and virtual clock. A run that leaves a fiber or a sleep behind is a defect of
 * `VirtualTime`. Timers, sockets and the heap are compared after a fifth of the runs and at the end, because caches,
 * compiled code and the keep-alive pool of the HTTP client only settle in the first runs.
 */
import { Arbitrary, Effect } from "effect"
import type { Outcome } from "@outlast/agent"
import { Agent, RecoveryPolicy } from "@outlast/agent"
import { overHttp, place } from "../scenarios/Scenario.ts"
import * as Worlds from "./World.ts"

const [runs = "500", seed = "1"] = process.argv.slice(2)
const total = Number(runs)

const policy = {
  ...RecoveryPolicy.withoutJitter(RecoveryPolicy.interactive),
  maxAttempts: 4
} satisfies RecoveryPolicy.RecoveryPolicy

const agent = (world: Worlds.World): Effect.Effect<string> =>
  Effect.gen(function* () {
    const { paid, layer } = Worlds.paying()
    const options: Agent.Options<typeof Worlds.Kit.tools> = {
      prompt: "Pay the bills of this month.",
      toolkit: Worlds.Kit,
      maxTurns: world.maxTurns
    }
    const story = yield* overHttp({
      chain: [place("anthropic", "A"), place("responses", "B"), place("google", "C")],
      plan: { faults: Worlds.faultsOf(world), answers: Worlds.answers(world) },
      policy,
      program: (world.streams ? Worlds.streamed(options) : Agent.run(options)).pipe(
        Effect.map((outcome: Outcome.Outcome) => outcome.status),
        Effect.provide(layer)
      )
    })
    if (new Set(paid).size !== paid.length) return yield* Effect.die(`paid twice: ${paid.join()}`)
    return typeof story.result === "string" ? story.result : "failed"
  })

const collect = (globalThis as { readonly gc?: () => void }).gc
if (collect === undefined) throw new Error("Run with --expose-gc.")

/** What the process holds once pending closes have happened. */
const held = Effect.promise(async () => {
  for (let i = 0; i < 20; i++) await new Promise<void>((resolve) => setImmediate(resolve))
  for (let i = 0; i < 3; i++) collect()
  const resources = process.getActiveResourcesInfo()
  const count = (...names: ReadonlyArray<string>) => resources.filter((name) => names.includes(name)).length
  return {
    heap: process.memoryUsage().heapUsed,
    timers: count("Timeout", "Immediate"),
    sockets: count("TCPSocketWrap", "TCPServerWrap", "TCPConnectWrap")
  }
})

await Effect.runPromise(
  Effect.gen(function* () {
    const worlds = yield* Arbitrary.sampleEffect(Arbitrary.schema(Worlds.World), {
      count: total,
      seed: Number(seed)
    })
    const ends: Record<string, number> = {}
    let early = yield* held
    for (const [i, world] of worlds.entries()) {
      if (i === Math.floor(total / 5)) early = yield* held
      const end = yield* agent(world)
      ends[end] = (ends[end] ?? 0) + 1
    }
    console.log(JSON.stringify({ runs: total, ends, early, late: yield* held }))
  })
)
