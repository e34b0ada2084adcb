/**
 * A circuit without a service: the pure state machine in a `Ref` of one's own.
 *
 *     npm run circuit-ref -w examples
 *
 * `CircuitState.admit` and `CircuitState.settle` are functions from a state to a state. `Ref.modify` makes each step
 * atomic. Of a hundred concurrent calls after the open time, exactly one is the probe.
 */
import { Clock, Console, Data, Effect, Random, Ref } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitPolicy, CircuitState } from "@outlast/resilience"

const policy = CircuitPolicy.make({
  trip: { consecutive: { failures: 3 } },
  halfOpen: { successes: 1 },
  open: Backoff.constant("10 seconds")
})

class Refused extends Data.TaggedError("Refused")<{}> {}

/** Runs a call through the circuit in `state`. */
const guarded =
  (state: Ref.Ref<CircuitState.CircuitState>, holder: string) =>
  <A, E>(call: Effect.Effect<A, E>): Effect.Effect<A, E | Refused> =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const admission = yield* Ref.modify(state, (current) =>
        CircuitState.admit(policy, current, holder, now)
      )
      if (!admission.granted) return yield* new Refused()
      return yield* Effect.onExit(call, ({ _tag }) =>
        Effect.gen(function* () {
          const outcome = _tag === "Success" ? "success" : "failure"
          const [end, draw] = [yield* Clock.currentTimeMillis, yield* Random.next]
          yield* Ref.update(state, (current) =>
            CircuitState.settle(policy, current, admission.grant, { outcome }, end, draw)
          )
        })
      )
    })

const main = Effect.gen(function* () {
  const state = yield* Ref.make<CircuitState.CircuitState>(CircuitState.initial)
  const phase = Effect.gen(function* () {
    return CircuitState.phaseAt(yield* Ref.get(state), yield* Clock.currentTimeMillis)
  })
  for (let i = 1; i <= 4; i++) {
    const error = yield* Effect.flip(guarded(state, `call ${i}`)(Effect.fail("down" as const)))
    yield* Console.log(`call ${i}: ${typeof error === "string" ? error : error._tag}, ${yield* phase}`)
  }
  yield* TestClock.adjust("10 seconds")
  const race = yield* Effect.forEach(
    Array.from({ length: 100 }, (_, i) => `racer ${i}`),
    (name) => Effect.option(guarded(state, name)(Effect.as(Effect.yieldNow, name))),
    { concurrency: 100 }
  )
  yield* Console.log(
    `${race.filter(({ _tag }) => _tag === "Some").length} of 100 was the probe, ${yield* phase}`
  )
})

await Effect.runPromise(main.pipe(Effect.provide(TestClock.layer())))
