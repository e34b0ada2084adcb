/**
 * The cost of `Failover.layer` when nothing fails, without I/O: the same model raw and behind the failover. The model
 * answers one turn of the event loop later, which is the harder path: time limits are armed, and fibers wait.
 * `http.ts` measures the same over sockets.
 *
 * The raw model runs twice in each table. The distance between its two figures is noise.
 */
import { Deferred, Effect, Stream } from "effect"
import type { LanguageModel } from "effect/ai"
import { Classifier, Failover, RecoveryPolicy } from "@outlast/agent"
import type { Contender, Report } from "./measure.ts"
import { measure, median } from "./measure.ts"
import type { Call, Hooks, Model } from "./models.ts"
import * as Models from "./models.ts"

/** Limits, as ratios to the raw model. */
const targets = { text: 1.25, tools: 1.5, parts: 1.5, history: 1.3, many: 1.25 }
const rounds = 15

interface Comparison {
  readonly title: string
  readonly hooks: Hooks
  /** Made once for each contender. */
  readonly call: () => Call
  readonly calls: number
  readonly unitsPerCall?: number
  readonly target: number
}

const repeated = (call: Call, times: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < times; i++) yield* call
  })

const run = async (
  report: Report,
  { title, call, target, ...options }: Omit<Comparison, "hooks">,
  models: ReadonlyArray<readonly [string, Model]>
): Promise<void> => {
  const runtimes = models.map(([name, layer]) => [name, Models.runtimeOf(layer)] as const)
  const [first, ...others] = runtimes.map(([name, runtime]): Contender => {
    const own = call()
    return { name, run: (calls) => runtime.runPromise(repeated(own, calls)) }
  })
  if (first !== undefined)
    report.table(title, await measure([first, ...others], { rounds, ...options }), target)
  await Promise.all(runtimes.map(([, runtime]) => runtime.dispose()))
}

const compare = (report: Report, { hooks, ...options }: Comparison): Promise<void> =>
  run(report, options, Models.contendersOf(hooks))

/** All contenders give the same answer, whole and streamed. */
const check = async (): Promise<void> => {
  const parts = Effect.map(Stream.runCollect(Models.stream), (all) => all.map(({ type }) => type).join())
  const both = Effect.all([Effect.map(Models.text, ({ text }) => text), parts])
  const answers = await Promise.all(
    Models.contendersOf(Models.later()).map(async ([, layer]) => {
      const runtime = Models.runtimeOf(layer)
      const answer = await runtime.runPromise(both)
      await runtime.dispose()
      return answer.join()
    })
  )
  if (new Set(answers).size !== 1) throw new Error(`The answers differ: ${answers.join(", ")}`)
}

const histories = async (report: Report): Promise<void> => {
  for (const [length, calls] of [
    [1_000, 200],
    [10_000, 40]
  ] as const) {
    await compare(report, {
      title: `generateText, conversation of ${length} messages that goes on, µs per call`,
      hooks: Models.later(),
      call: () => Models.conversation(length),
      calls,
      target: targets.history
    })
  }
}

// -----------------------------------------------------------------------------
// Many targets that are out
// -----------------------------------------------------------------------------

/** Milliseconds of a call with 5,000 targets that are out, at most. */
const coolingMillis = 2

const limited = () =>
  Effect.flatMap(
    Classifier.failure(
      { statusCode: 429, message: "Rate limit exceeded", responseHeaders: { "retry-after": "3600" } },
      { provider: "bench" }
    ),
    Effect.fail
  )

/** A chain of `count` rate-limited targets before one that answers. */
const cooling = (count: number): Model => {
  const out = { ...Models.later(), generateText: limited }
  const specs = Array.from({ length: count }, (_, i) => Models.specOf(out, `m${i}`))
  const policy = { ...RecoveryPolicy.interactive, maxAttempts: count + 1, retryBudget: false } as const
  const last = Models.specOf(Models.later(), "last")
  const [first = last, ...others] = specs
  return Failover.layer([first, ...others, last], { policy })
}

const coolingTargets = async (report: Report): Promise<void> => {
  const counts = [500, 5_000] as const
  const runtimes = counts.map((count) => Models.runtimeOf(cooling(count)))
  // The first calls find out which targets are out.
  for (const runtime of runtimes) await runtime.runPromise(Effect.retry(Models.text, { times: 10_000 }))
  const [few, many] = counts.map((count, i): Contender => ({
    name: `${count} targets cooling`,
    run: async (calls) => {
      await runtimes[i]?.runPromise(repeated(Models.text, calls))
    }
  }))
  if (few === undefined || many === undefined) return
  const figures = await measure([few, many], { rounds, calls: 100 })
  report.table("generateText, all targets but the last cooling, µs per call", figures, 10 * targets.many)
  const millis = (figures[1]?.median ?? NaN) / 1_000
  report.say(
    `  ${millis.toFixed(2)} ms with 5000 (at most ${coolingMillis}: ${millis <= coolingMillis ? "met" : "missed"})`
  )
  await Promise.all(runtimes.map((runtime) => runtime.dispose()))
}

// -----------------------------------------------------------------------------
// Memory
// -----------------------------------------------------------------------------

const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}

const longStream = async (report: Report): Promise<void> => {
  if (globalThis.gc === undefined) return
  const total = 1_000_000
  const parts = Models.partsOf(total)
  const hooks: Hooks = { ...Models.later(), streamText: () => Models.streamOf(parts, 8) }
  const failing = { ...RecoveryPolicy.interactive, midStream: "fail" } as const
  const models: ReadonlyArray<readonly [string, Model]> = [
    ["raw LanguageModel", Models.rawOf(hooks)],
    ["Failover", Failover.layer([Models.specOf(hooks, "a")])],
    ['Failover, midStream "fail"', Failover.layer([Models.specOf(hooks, "a")], { policy: failing })]
  ]
  report.say(`\nHeap that a stream of ${total} parts holds at its end, above the one at a tenth`)
  for (const [name, model] of models) {
    const runtime = Models.runtimeOf(model)
    let [seen, early, late] = [0, 0, 0]
    await runtime.runPromise(
      Stream.runForEach(Models.stream, () =>
        Effect.sync(() => {
          seen++
          if (seen === total / 10) early = heap()
          if (seen === total) late = heap()
        })
      )
    )
    report.say(`  ${name.padEnd(28)}${((late - early) / 2 ** 20).toFixed(1).padStart(7)} MB`)
    await runtime.dispose()
  }
}

/** A chain of ten targets over a model that answers after `reply`. */
const tenTargets = (reply: Effect.Effect<void>) => {
  const { generateText } = Models.atOnce
  const hooks: Hooks = { ...Models.atOnce, generateText: () => Effect.andThen(reply, generateText()) }
  const keys = ["KEY_1", "KEY_2"]
  const specs = ["b", "c", "d", "e"].map((model) => Models.specOf(hooks, model, keys))
  return Models.runtimeOf(Failover.layer([Models.specOf(hooks, "a", keys), ...specs]))
}

const together = (count: number): Effect.Effect<void, unknown, LanguageModel.LanguageModel> =>
  Effect.all(
    Array.from({ length: count }, () => Models.text),
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
    run: (calls) => runtime.runPromise(repeated(together(count), calls / count))
  })
  const figures = await measure([contender(few), contender(many)], { rounds, calls: 2 * many })
  report.table("generateText over 10 targets, µs per call", figures, targets.many)
  await runtime.dispose()
}

/** Bytes of heap that a call in flight holds, per round. Needs `--expose-gc`. */
const heapOf = async (count: number): Promise<ReadonlyArray<number>> => {
  const gate: { current: Deferred.Deferred<void> } = { current: Deferred.makeUnsafe() }
  const runtime = tenTargets(Effect.suspend(() => Deferred.await(gate.current)))
  const held: Array<number> = []
  for (let round = -1; round < rounds; round++) {
    gate.current = Deferred.makeUnsafe()
    const before = heap()
    const calls = runtime.runPromise(together(count))
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
  const [ofFew, ofMany] = [median(await heapOf(few)), median(await heapOf(many))]
  const shown = (bytes: number): string => `${(bytes / 1_024).toFixed(1)} KB`
  report.say(
    `\nHeap of a call under way over 10 targets: ${shown(ofFew)} with ${few} at once, ` +
      `${shown(ofMany)} with ${many} at once, ratio ${(ofMany / ofFew).toFixed(2)}`
  )
}

export const failover = async (report: Report): Promise<void> => {
  report.say(`Failover against the raw model, ${rounds} rounds, Node ${process.version}`)
  await check()
  const text = {
    title: "generateText, µs per call",
    call: () => Models.text,
    calls: 2_000,
    target: targets.text
  }
  await compare(report, { ...text, hooks: Models.later() })
  await compare(report, {
    ...text,
    title: "generateText, five tools, µs per call",
    hooks: Models.later(),
    call: () => Models.withTools,
    target: targets.tools
  })
  await compare(report, {
    ...text,
    title: "generateText, the answer is there already, µs per call",
    hooks: Models.atOnce
  })
  for (const size of [1, 8]) {
    await compare(report, {
      title: `streamText, ${size === 1 ? "one part" : `${size} parts`} per array, µs per part`,
      hooks: Models.later(size),
      call: () => Stream.runDrain(Models.stream),
      calls: 100,
      unitsPerCall: Models.partsPerStream,
      target: targets.parts
    })
  }
  await histories(report)
  await coolingTargets(report)
  await timeOfMany(report)
  await longStream(report)
  await heapOfMany(report)
}
