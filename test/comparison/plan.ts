/** Several providers, and retries: `Failover` and `Retry` beside `ExecutionPlan` and `Effect.retry`. */
import { Clock, Context, Effect, ExecutionPlan, Fiber, Layer, Schedule, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { CircuitBreaker as EffectBreaker } from "effect/persistence"
import { TestClock } from "effect/testing"
import { Failover } from "@outlast/agent"
import { Retry, RetryBudget } from "@outlast/resilience"
import { FaultPlan, ScriptedModel } from "@outlast/testing"
import type { Row } from "./Row.ts"
import { cell } from "./Row.ts"

/** Runs it while virtual time goes on for a minute. */
const within = <A, E, R>(time: "3 seconds" | "1 minute", effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect)
    yield* TestClock.adjust(time)
    return yield* Fiber.join(fiber)
  })

const inAMinute = <A, E, R>(effect: Effect.Effect<A, E, R>) => within("1 minute", effect)

// -----------------------------------------------------------------------------
// Theirs
// -----------------------------------------------------------------------------

class Provider extends Context.Service<Provider, { readonly ask: Effect.Effect<string, string> }>()(
  "test/comparison/Provider"
) {}

/** A provider that writes down when it was asked, and how often it was built. */
const provider = (
  answer: Effect.Effect<string, string>,
  guard: (call: Effect.Effect<string, string>) => Effect.Effect<string, string> = (call) => call
) => {
  const asked: Array<number> = []
  const built = { times: 0 }
  const ask = guard(
    Effect.andThen(
      Effect.map(Clock.currentTimeMillis, (now) => asked.push(now)),
      answer
    )
  )
  const layer = Layer.sync(Provider, () => {
    built.times++
    return { ask }
  })
  return { asked, built, layer }
}

const ask = Effect.flatMap(Provider, ({ ask }) => ask)
const failing: Effect.Effect<string, string> = Effect.fail("down")
const down = () => provider(failing)
const up = () => provider(Effect.succeed("second"))

// -----------------------------------------------------------------------------
// Ours
// -----------------------------------------------------------------------------

const answer = "one two three four"
type Fault = FaultPlan.Fault

/** Two models of different providers; the first always fails in this way. */
const models = (fault: Fault, times: "always" | 1 = "always") =>
  Effect.gen(function* () {
    const faults = [{ when: { provider: "anthropic" }, times, fault }]
    const plan = yield* FaultPlan.start({ faults, answers: [{ text: answer }] })
    const first = yield* ScriptedModel.make({ provider: "anthropic", model: "m", plan })
    const second = yield* ScriptedModel.make({ provider: "openai", model: "m", plan })
    const asked = ({ requests }: ScriptedModel.ScriptedModel) =>
      Effect.map(requests, (all) => all.map(({ time }) => time))
    return { first, second, asked: { first: asked(first), second: asked(second) } }
  })

const text = Effect.map(LanguageModel.generateText({ prompt: "Count." }), ({ text }) => text)
const overloaded: Fault = { type: "status", status: 529 }

export const rows: ReadonlyArray<Row> = [
  {
    behaviour: "The first provider is down: requests to it by three calls, one after the other",
    ours: cell(
      [2, 2, 0],
      Effect.gen(function* () {
        const { first, second, asked } = yield* models(overloaded)
        const requests = Effect.gen(function* () {
          const before = (yield* asked.first).length
          // The third call begins within the first cooldown, which is ten seconds long.
          yield* within("3 seconds", text)
          return (yield* asked.first).length - before
        })
        return yield* Effect.all([requests, requests, requests]).pipe(
          Effect.provide(Failover.layer([first, second]))
        )
      }),
      (seen) => `${seen.join(", ")} (\`Failover\`)`
    ),
    theirs: cell(
      [
        [2, 2, 2],
        [2, 0, 0]
      ],
      Effect.gen(function* () {
        const breaker = yield* EffectBreaker.make({
          tripPolicy: EffectBreaker.consecutive(2),
          openDuration: "1 minute"
        }).pipe(Effect.provide(EffectBreaker.layerStoreMemory()))
        const guarded = (call: Effect.Effect<string, string>) =>
          Effect.mapError(breaker.execute(call, { key: "first" }), String)
        return yield* Effect.forEach([(call: typeof failing) => call, guarded], (guard) =>
          Effect.gen(function* () {
            const [first, second] = [provider(failing, guard), up()]
            const plan = ExecutionPlan.make({ provide: first.layer, attempts: 2 }, { provide: second.layer })
            const call = Effect.withExecutionPlan(ask, plan)
            const requests = Effect.gen(function* () {
              const before = first.asked.length
              yield* call
              return first.asked.length - before
            })
            return yield* Effect.all([requests, requests, requests])
          })
        )
      }),
      ([plain, guarded]) =>
        `${plain?.join(", ")} (\`ExecutionPlan\`); ${guarded?.join(", ")} with a breaker in the step`
    )
  },
  {
    behaviour: "The second provider waits between retries: how long is its first request kept waiting",
    ours: cell(
      0,
      Effect.gen(function* () {
        const { first, second, asked } = yield* models({ type: "status", status: 401 })
        yield* inAMinute(Effect.provide(text, Failover.layer([first, second])))
        return (yield* asked.second)[0]
      }),
      (seen) => `${seen} s`
    ),
    theirs: cell(
      10_000,
      Effect.gen(function* () {
        const [first, second] = [down(), up()]
        const plan = ExecutionPlan.make(
          { provide: first.layer },
          { provide: second.layer, attempts: 3, schedule: Schedule.spaced("10 seconds") }
        )
        yield* inAMinute(Effect.withExecutionPlan(ask, plan))
        return second.asked[0]
      }),
      (seen) => `${Number(seen) / 1_000} s, with \`spaced("10 seconds")\``
    )
  },
  {
    behaviour: "The request itself is wrong: requests to the second provider",
    ours: cell(
      1,
      Effect.gen(function* () {
        const body = {
          type: "error",
          error: { type: "invalid_request_error", message: "messages: unexpected role" }
        }
        const { first, second, asked } = yield* models({ type: "status", status: 400, body })
        yield* inAMinute(Effect.exit(Effect.provide(text, Failover.layer([first, second]))))
        return (yield* asked.second).length
      }),
      (seen) => `${seen}: another wire format may take it; targets of the same one are skipped`
    ),
    theirs: cell(
      1,
      Effect.gen(function* () {
        const [first, second] = [down(), up()]
        const plan = ExecutionPlan.make(
          { provide: first.layer, attempts: 3, while: () => false },
          { provide: second.layer }
        )
        yield* Effect.withExecutionPlan(ask, plan)
        return second.asked.length
      }),
      (seen) => `${seen}: \`while\` ends the step, not the plan`
    )
  },
  {
    behaviour: "A stream breaks after its first words: the consumer gets",
    ours: cell(
      answer,
      Effect.gen(function* () {
        const { first, second } = yield* models({ type: "reset", after: 2 }, 1)
        const words = LanguageModel.streamText({ prompt: "Count." }).pipe(
          Stream.filter((part) => part.type === "text-delta"),
          Stream.runFold(
            () => "",
            (words, { delta }) => words + delta
          )
        )
        return yield* inAMinute(Effect.provide(words, Failover.layer([first, second])))
      }),
      (seen) => `"${seen}": the next attempt goes on from there`
    ),
    theirs: cell(
      ["one two one two three four", "reset"],
      Effect.gen(function* () {
        const streams = () => {
          const parts = [
            Stream.concat(Stream.make("one", "two"), Stream.fail("reset")),
            Stream.make("one", "two", "three", "four")
          ]
          return Stream.suspend(() => parts.shift() ?? Stream.empty)
        }
        const plan = ExecutionPlan.make({ provide: Context.empty() }, { provide: Context.empty() })
        const words = yield* Stream.runCollect(Stream.withExecutionPlan(streams(), plan))
        const prevented = Stream.withExecutionPlan(streams(), plan, { preventFallbackOnPartialStream: true })
        return [words.join(" "), yield* Effect.flip(Stream.runCollect(prevented))]
      }),
      ([words, error]) => `"${words}", or the error ("${error}") with \`preventFallbackOnPartialStream\``
    )
  },
  {
    behaviour: "How often the layer of a provider is built for 2 attempts",
    ours: cell(
      [2, 1],
      Effect.gen(function* () {
        const { first, second, asked } = yield* models(overloaded)
        let built = 0
        const build = Effect.tap(first.build, () => Effect.sync(() => built++))
        yield* inAMinute(Effect.provide(text, Failover.layer([{ ...first, build }, second])))
        return [(yield* asked.first).length, built]
      }),
      ([, built]) => `${built}`
    ),
    theirs: cell(
      [2, 2],
      Effect.gen(function* () {
        const [first, second] = [down(), up()]
        const plan = ExecutionPlan.make({ provide: first.layer, attempts: 2 }, { provide: second.layer })
        yield* Effect.withExecutionPlan(ask, plan)
        return [first.asked.length, first.built.times]
      }),
      ([, built]) => `${built}`
    )
  },
  {
    behaviour: "100 calls at once, all fail, up to 4 attempts each: attempts",
    ours: cell(
      130,
      Effect.gen(function* () {
        let attempts = 0
        const call = Effect.andThen(
          Effect.sync(() => attempts++),
          Effect.fail("down")
        ).pipe(Retry.with({ classify: () => Retry.again(), attempts: 4, budget: true }))
        const calls = Effect.forEach(Array.from({ length: 100 }), () => Effect.exit(call), {
          concurrency: "unbounded"
        })
        yield* inAMinute(Effect.provide(calls, RetryBudget.layer()))
        return attempts
      }),
      (seen) => `${seen} (\`Retry\` with \`RetryBudget\`)`
    ),
    theirs: cell(
      400,
      Effect.gen(function* () {
        let attempts = 0
        const call = Effect.andThen(
          Effect.sync(() => attempts++),
          Effect.fail("down")
        ).pipe(Effect.retry({ times: 3, schedule: Schedule.exponential("1 second") }))
        const calls = Effect.forEach(Array.from({ length: 100 }), () => Effect.exit(call), {
          concurrency: "unbounded"
        })
        yield* inAMinute(calls)
        return attempts
      }),
      (seen) => `${seen} (\`Effect.retry\`)`
    )
  }
]
