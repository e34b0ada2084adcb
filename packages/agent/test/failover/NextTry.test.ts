/** `nextTryIn` of the operator's view is the time at which a call really asks the target. Time is virtual. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Duration, Effect } from "effect"
import { LanguageModel } from "effect/ai"
import { TestClock } from "effect/testing"
import { Activity, CallLimiter, Failover, RecoveryPolicy, Targets } from "@outlast/agent"
import { CircuitBreaker, ResilienceEvents } from "@outlast/resilience"
import {
  answer,
  failure,
  limited,
  played,
  policy,
  provenByOneCall,
  serverError,
  timesOf
} from "../support.ts"
import * as FailoverReason from "#agent/failure/reasons/FailoverReason"

const proven = provenByOneCall(policy)
const once = { ...proven.rows.ServerError, attempts: 1 }
/** One failure takes the target out. */
const impatient: RecoveryPolicy.RecoveryPolicy = {
  ...proven,
  shortWait: Duration.zero,
  rows: { ...proven.rows, ServerError: once }
}
const ask = LanguageModel.generateText({ prompt: "What is the plan?" })

const fails = (first: typeof serverError) => [Effect.fail(first), answer("back")]

const cases: ReadonlyArray<{
  readonly name: string
  readonly answers: Parameters<typeof played>[0]["answers"]
  readonly policy?: RecoveryPolicy.RecoveryPolicy
  readonly limits?: CallLimiter.Options["limits"]
  /** Opens the circuit of the target by hand. */
  readonly trips?: Duration.Input
  readonly seconds: number
}> = [
  { name: "the wait that the server named", answers: fails(limited(600)), seconds: 600 },
  { name: "the next look at a target that another one serves", answers: fails(serverError), seconds: 10 },
  {
    name: "the first moment of a probe",
    answers: fails(serverError),
    policy: {
      ...impatient,
      rows: {
        ...impatient.rows,
        ServerError: { ...once, cooldown: RecoveryPolicy.steady("endpoint", "60 seconds") }
      }
    },
    seconds: 45
  },
  { name: "the probe of its circuit", answers: [answer("fine")], trips: "20 seconds", seconds: 20 },
  {
    name: "the end of a cooldown that is longer than its circuit is open",
    answers: fails(limited(90)),
    trips: "20 seconds",
    seconds: 90
  },
  {
    name: "a place within its known limits",
    answers: [answer("fine")],
    limits: { "vendor/m": { requestsPerMinute: 1 } },
    seconds: 61
  }
]

describe("the next try of a target", () => {
  for (const { name, answers = [], limits, seconds, trips, ...rest } of cases) {
    it.effect(`is ${name}`, () =>
      Effect.gen(function* () {
        const first = { ...played({ answers }), endpoint: "https://first" }
        const other = { ...played({ model: "other", answers: [answer("hello")] }), endpoint: "https://other" }
        const breaker = yield* CircuitBreaker.make()
        const limiter = yield* CallLimiter.make(limits === undefined ? {} : { limits })
        yield* Effect.gen(function* () {
          yield* ask
          if (trips !== undefined) yield* breaker.trip("https://first", trips)
          const [status] = yield* (yield* Targets.Targets).list
          const next = status?.nextTryIn ?? assert.fail("no time")
          assert.strictEqual(Duration.toSeconds(next), seconds)
          const { length } = first.requests
          yield* TestClock.adjust(Duration.toMillis(next) - 1)
          yield* ask
          assert.lengthOf(first.requests, length)
          yield* TestClock.adjust(1)
          yield* ask
          assert.strictEqual(timesOf(first).at(-1), yield* Clock.currentTimeMillis)
        }).pipe(
          Effect.provide(
            Failover.layer([first, other], { policy: rest.policy ?? impatient, breaker, limiter })
          )
        )
      })
    )
  }

  it.effect("is now for a target that is ready, and unknown where only a person can tell", () =>
    Effect.gen(function* () {
      const refused = failure(new FailoverReason.Auth({ permanent: true }))
      const first = { ...played({ answers: [Effect.fail(refused)] }), endpoint: "https://first" }
      const other = { ...played({ model: "other", answers: [answer("hello")] }), endpoint: "https://other" }
      yield* Effect.gen(function* () {
        yield* ask
        const list = yield* (yield* Targets.Targets).list
        assert.deepStrictEqual(
          list.map(({ nextTryIn }) => nextTryIn && Duration.toMillis(nextTryIn)),
          [undefined, 0]
        )
        const chain = yield* Activity.chain
        assert.deepStrictEqual(
          Array.isArray(chain) && chain.map((one: { readonly nextTry: number | null }) => one.nextTry),
          [null, 0]
        )
      }).pipe(Effect.provide(Failover.layer([first, other], { policy: impatient })))
    }).pipe(Effect.provide(ResilienceEvents.layer()))
  )
})
