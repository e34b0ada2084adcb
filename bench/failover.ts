/**
 * The cost of `Failover.layer` when nothing fails: the same model without I/O, raw and behind the failover. Also checks
 * that a call costs the same, in time and in memory, when a thousand are in flight.
 */
import { Deferred, Effect, Layer, Logger, ManagedRuntime, Redacted, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import type { Response } from "effect/ai"
import { Failover, KeySource } from "@outlast/agent"
import type { Chain, ProviderModel } from "@outlast/agent"
import { ResilienceEvents } from "@outlast/resilience"
import type { Contender, Report } from "./measure.ts"
import { measure, median } from "./measure.ts"

/** Limit for the failover, as a ratio to the raw model. */
const target = 1.25
const rounds = 15

/** A model that answers at once. */
interface Hooks {
  readonly generateText: () => Effect.Effect<Array<Response.PartEncoded>>
  readonly streamText: () => Stream.Stream<Response.StreamPartEncoded>
}

const finish: Response.FinishPartEncoded = {
  type: "finish",
  reason: "stop",
  usage: {
    inputTokens: { uncached: 12, total: 12, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 200, text: 200, reasoning: 0 }
  }
}

const streamed: ReadonlyArray<Response.StreamPartEncoded> = [
  { type: "text-start", id: "1" },
  ...Array.from({ length: 200 }, () => ({ type: "text-delta", id: "1", delta: "word " }) as const),
  { type: "text-end", id: "1" },
  finish
]

/** The hooks of a model that sends `partsPerArray` parts at a time. */
const hooksOf = (partsPerArray: number): Hooks => {
  const arrays = Array.from({ length: Math.ceil(streamed.length / partsPerArray) }, (_, i) =>
    streamed.slice(i * partsPerArray, (i + 1) * partsPerArray)
  )
  return {
    generateText: () => Effect.succeed([{ type: "text", text: "An answer of a few words." }, finish]),
    streamText: () => Stream.fromArrays(...arrays)
  }
}

const specOf = (hooks: Hooks, model: string, keys: ReadonlyArray<string>): ProviderModel.TargetSpec => ({
  provider: "bench",
  model,
  endpoint: "",
  keys: keys.map((name) => KeySource.value(name, Redacted.make("secret"))),
  build: Effect.succeed({ info: {}, ...hooks })
})

const call = LanguageModel.generateText({ prompt: "What is the plan?" })
const stream = LanguageModel.streamText({ prompt: "What is the plan?" })

type Model = Layer.Layer<LanguageModel.LanguageModel, Chain.ChainError>

/** A runtime without loggers: each table builds its chains anew, and the third build would be reported. */
const runtimeOf = <E>(model: Layer.Layer<LanguageModel.LanguageModel, E>) =>
  ManagedRuntime.make(Layer.provide(model, Logger.layer([])))

const contendersOf = (hooks: Hooks) => {
  const raw: Model = Layer.effect(LanguageModel.LanguageModel, LanguageModel.make(hooks))
  const single: Model = Failover.layer([specOf(hooks, "a", [])])
  const keys = ["KEY_1", "KEY_2"]
  const chain: Model = Failover.layer([
    specOf(hooks, "a", keys),
    specOf(hooks, "b", keys),
    specOf(hooks, "c", keys)
  ])
  return [
    ["raw LanguageModel", raw],
    ["Failover, 1 target", single],
    ["Failover, 3 models × 2 keys", chain],
    ["Failover, 1 target, events", Layer.mergeAll(single, ResilienceEvents.layer())]
  ] as const
}

/** Runs `effect` over each model, after checking that all give the same result. */
const compare = async <A>(
  report: Report,
  title: string,
  hooks: Hooks,
  effect: Effect.Effect<unknown, unknown, LanguageModel.LanguageModel>,
  check: Effect.Effect<A, unknown, LanguageModel.LanguageModel>,
  options: { readonly calls: number; readonly unitsPerCall: number }
): Promise<void> => {
  const runtimes = contendersOf(hooks).map(([name, layer]) => [name, runtimeOf(layer)] as const)
  const answers = await Promise.all(runtimes.map(([, runtime]) => runtime.runPromise(check)))
  if (new Set(answers).size !== 1) throw new Error(`The answers differ: ${answers.join(", ")}`)
  const contenders = runtimes.map(([name, runtime]): Contender => ({
    name,
    run: (calls) =>
      runtime.runPromise(
        Effect.gen(function* () {
          for (let i = 0; i < calls; i++) yield* effect
        })
      )
  }))
  const [raw, ...others] = contenders
  if (raw !== undefined) {
    report.table(title, await measure([raw, ...others], { rounds, ...options }), target)
  }
  await Promise.all(runtimes.map(([, runtime]) => runtime.dispose()))
}

// -----------------------------------------------------------------------------
// Many calls at once
// -----------------------------------------------------------------------------

/** A chain of ten targets over a model that answers after `reply`. */
const tenTargets = (
  reply: Effect.Effect<void>
): ManagedRuntime.ManagedRuntime<LanguageModel.LanguageModel, Chain.ChainError> => {
  const hooks: Hooks = { ...hooksOf(1), generateText: () => Effect.andThen(reply, hooksOf(1).generateText()) }
  const keys = ["KEY_1", "KEY_2"]
  const specs = ["b", "c", "d", "e"].map((model) => specOf(hooks, model, keys))
  return runtimeOf(Failover.layer([specOf(hooks, "a", keys), ...specs]))
}

const atOnce = (count: number): Effect.Effect<void, unknown, LanguageModel.LanguageModel> =>
  Effect.all(
    Array.from({ length: count }, () => call),
    { concurrency: "unbounded", discard: true }
  )

/** Numbers of concurrent calls. */
const few = 10
const many = 1_000

const timeOfMany = async (report: Report): Promise<void> => {
  // Every call begins before the first one is answered.
  const runtime = tenTargets(Effect.yieldNow)
  const contender = (count: number): Contender => ({
    name: `${count} calls at once`,
    run: (calls) =>
      runtime.runPromise(
        Effect.gen(function* () {
          for (let i = 0; i < calls; i += count) yield* atOnce(count)
        })
      )
  })
  const figures = await measure([contender(few), contender(many)], { rounds, calls: 2 * many })
  report.table("generateText over 10 targets, µs per call", figures, target)
  await runtime.dispose()
}

/** Bytes of heap that a call in flight holds, per round. Needs `--expose-gc`. */
const heapOf = async (count: number, rounds: number): Promise<ReadonlyArray<number>> => {
  const gate: { current: Deferred.Deferred<void> } = { current: Deferred.makeUnsafe() }
  const runtime = tenTargets(Effect.suspend(() => Deferred.await(gate.current)))
  const heap = (): number => {
    globalThis.gc?.()
    return process.memoryUsage().heapUsed
  }
  const held: Array<number> = []
  for (let round = -1; round < rounds; round++) {
    gate.current = Deferred.makeUnsafe()
    const before = heap()
    const calls = runtime.runPromise(atOnce(count))
    await new Promise((resume) => setTimeout(resume, 100))
    // The first round includes one-time allocations.
    if (round >= 0) held.push((heap() - before) / count)
    Deferred.doneUnsafe(gate.current, Effect.void)
    await calls
  }
  await runtime.dispose()
  return held
}

const heapOfMany = async (report: Report): Promise<void> => {
  if (globalThis.gc === undefined) return
  const [ofFew, ofMany] = [median(await heapOf(few, rounds)), median(await heapOf(many, rounds))]
  const shown = (bytes: number): string => `${(bytes / 1_024).toFixed(1)} KB`
  report.say(
    `\nHeap of a call under way over 10 targets: ${shown(ofFew)} with ${few} at once, ` +
      `${shown(ofMany)} with ${many} at once, ratio ${(ofMany / ofFew).toFixed(2)}`
  )
}

export const failover = async (report: Report): Promise<void> => {
  report.say(
    `Failover against the raw model, target ratio ${target}, ${rounds} rounds, Node ${process.version}`
  )
  await compare(
    report,
    "generateText, µs per call",
    hooksOf(1),
    call,
    Effect.map(call, ({ text }) => text),
    {
      calls: 2_000,
      unitsPerCall: 1
    }
  )
  const parts = Effect.map(Stream.runCollect(stream), (all) => all.map(({ type }) => type).join())
  for (const size of [1, 8]) {
    await compare(
      report,
      `streamText, µs per part, ${size === 1 ? "one part" : `${size} parts`} per array`,
      hooksOf(size),
      Stream.runDrain(stream),
      parts,
      { calls: 150, unitsPerCall: streamed.length }
    )
  }
  await timeOfMany(report)
  await heapOfMany(report)
}
