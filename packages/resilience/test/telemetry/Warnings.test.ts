import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Logger } from "effect"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, ResilienceEvents, Warnings } from "@outlast/resilience"

const recording = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => lines.push(`${logLevel}: ${String(message)}`))
  return { lines, layer: Logger.layer([logger]) }
}

const options: CircuitBreaker.Options = {
  trip: { consecutive: { failures: 1 } },
  halfOpen: { successes: 1 },
  open: Backoff.exponential({ initial: "10 seconds", jitter: 0 })
}

/** Opens the circuit and probes it. Returns how the calls ended. */
const opened = (calls: number) =>
  Effect.gen(function* () {
    const breaker = yield* CircuitBreaker.CircuitBreaker
    const failing = Effect.exit(breaker.execute("https://api.example.com")(Effect.fail("down")))
    const exits: Array<Effect.Success<typeof failing>> = []
    for (let call = 0; call < calls; call++) exits.push(yield* failing)
    yield* TestClock.adjust("11 seconds")
    exits.push(yield* failing)
    yield* Effect.yieldNow
    return exits
  })

describe("warnings of circuits", () => {
  it.effect("an opening circuit writes one line to the log without any layer", () =>
    Effect.gen(function* () {
      const log = recording()
      yield* opened(5).pipe(Effect.provide(CircuitBreaker.layer(options)), Effect.provide(log.layer))
      assert.lengthOf(log.lines, 1)
      assert.match(
        log.lines[0] ?? "",
        /^Warn: Circuit "https:\/\/api\.example\.com" opened because consecutive calls failed\. Its calls are refused for 10\.0 s/
      )
    })
  )

  it.effect("the line also appears where events are published", () =>
    Effect.gen(function* () {
      const log = recording()
      yield* opened(1).pipe(
        Effect.provide(CircuitBreaker.layer(options).pipe(Layer.provideMerge(ResilienceEvents.layer()))),
        Effect.provide(log.layer)
      )
      assert.lengthOf(log.lines, 1)
    })
  )

  it.effect("a line goes to the loggers of the call that opened the circuit, not to those of the layer", () =>
    Effect.gen(function* () {
      const [ofLayer, ofCall] = [recording(), recording()]
      const breaker = yield* CircuitBreaker.make(options).pipe(Effect.provide(ofLayer.layer))
      yield* opened(1).pipe(
        Effect.provideService(CircuitBreaker.CircuitBreaker, breaker),
        Effect.provide(ofCall.layer)
      )
      assert.deepStrictEqual([ofLayer.lines.length, ofCall.lines.length], [0, 1])
    })
  )

  it.effect("Warnings.layerOff silences them", () =>
    Effect.gen(function* () {
      const log = recording()
      yield* opened(1).pipe(
        Effect.provide(CircuitBreaker.layer(options)),
        Effect.provide([log.layer, Warnings.layerOff])
      )
      assert.deepStrictEqual(log.lines, [])
    })
  )

  it.effect("a logger that throws does not change the result of the call", () =>
    Effect.gen(function* () {
      const broken = Logger.layer([
        Logger.make(() => {
          throw new Error("broken logger")
        })
      ])
      const exits = yield* opened(1).pipe(
        Effect.provide(CircuitBreaker.layer(options)),
        Effect.provide(broken)
      )
      assert.deepStrictEqual(exits, [Exit.fail("down"), Exit.fail("down")])
    })
  )
})
