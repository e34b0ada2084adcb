/**
 * The behaviour that docs/understand/breaker.md shows, and the tables of the comparison with Effect's own breaker.
 * `UPDATE_DOCS=1 npx vitest run test/comparison` writes the tables.
 */
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { assert, describe, it } from "@effect/vitest"
import { Console, Duration, Effect, Exit, Fiber, Layer, Ref, Stream } from "effect"
import { Redis } from "effect/persistence"
import { TestClock } from "effect/testing"
import { Backoff, CircuitBreaker, Metrics, ResilienceEvents } from "@outlast/resilience"
import { CircuitPolicy, CircuitState } from "@outlast/resilience"
import { RedisCircuitStore } from "@outlast/resilience/redis"
import { tables } from "./tables.ts"

class NotFound {
  readonly _tag = "NotFound"
}
class Busy {
  readonly _tag = "Busy"
  readonly retryAfter = Duration.seconds(40)
}

const answers = { text: "answer" }
const fetchAnswer: Effect.Effect<typeof answers, NotFound | Busy> = Effect.succeed(answers)
const streamAnswer = Stream.make("an", "swer")
const socket = { onMessage: (done: () => void) => done(), onError: (_failed: () => void) => undefined }

/** A Redis that cannot be reached. */
const RedisLive: Layer.Layer<Redis.Redis, string> = Layer.effect(Redis.Redis, Effect.fail("no connection"))

const running = <A, E>(
  effect: Effect.Effect<A, E, CircuitBreaker.CircuitBreaker>,
  layer: Layer.Layer<CircuitBreaker.CircuitBreaker> = CircuitBreaker.layer()
) => Effect.provide(effect, layer)

describe("docs/understand/breaker.md", () => {
  it.effect("quick start", () =>
    Effect.gen(function* () {
      const program = fetchAnswer.pipe(
        Effect.timeout("10 seconds"),
        CircuitBreaker.execute("https://api.example.com"),
        Effect.catchTag("CircuitRefused", ({ message }) => Console.warn(message))
      )

      const main = program.pipe(Effect.provide(CircuitBreaker.layer()))
      assert.strictEqual(yield* main, answers)
    })
  )

  it.effect("what counts", () =>
    Effect.gen(function* () {
      const classify: CircuitBreaker.Classify = (exit) => {
        const failure = Exit.findErrorOption(exit)
        return failure._tag === "Some" && failure.value instanceof NotFound
          ? { counts: "success" } // It answered.
          : CircuitBreaker.classify(exit)
      }

      const program = fetchAnswer.pipe(CircuitBreaker.execute("https://api.example.com", { classify }))
      assert.strictEqual(yield* running(program), answers)
      assert.deepStrictEqual(classify(Exit.fail(new NotFound())), { counts: "success" })
      assert.deepStrictEqual(classify(Exit.fail(new Busy())), {
        counts: "failure",
        retryAfter: Duration.seconds(40)
      })
    })
  )

  it.effect("options", () =>
    Effect.gen(function* () {
      const Breaker = CircuitBreaker.layer({
        trip: {
          consecutive: { failures: 10, within: "1 minute" },
          rate: { window: "1 minute", failures: 0.5, slow: 0.8, slowerThan: "20 seconds" }
        },
        halfOpen: { permits: 3, successes: 3, outOf: 5 },
        open: Backoff.exponential({ initial: "5 seconds", cap: "1 minute" })
      })
      assert.strictEqual(yield* running(CircuitBreaker.execute("a")(fetchAnswer), Breaker), answers)
    })
  )

  it.effect("several names", () =>
    Effect.gen(function* () {
      const program = fetchAnswer.pipe(CircuitBreaker.execute(["https://api.example.com", "model-a"]))
      assert.strictEqual(yield* running(program), answers)
    })
  )

  it.effect("streams", () =>
    Effect.gen(function* () {
      const program = streamAnswer.pipe(CircuitBreaker.executeStream("https://api.example.com"))
      assert.deepStrictEqual(yield* running(Stream.runCollect(program)), ["an", "swer"])
    })
  )

  it.effect("acquire", () =>
    Effect.gen(function* () {
      const program = Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        const permit = yield* breaker.acquire("wss://api.example.com")
        socket.onMessage(() => Effect.runFork(permit.succeed))
        socket.onError(() => Effect.runFork(permit.fail({ retryAfter: "30 seconds" })))
        yield* Effect.sleep("1 minute")
      }).pipe(Effect.scoped)
      const list = Effect.flatMap(CircuitBreaker.CircuitBreaker, (breaker) => breaker.list)
      const fiber = yield* Effect.forkChild(running(Effect.andThen(program, list)))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(
        (yield* Fiber.join(fiber)).map(({ circuit, phase }) => [circuit, phase]),
        [["wss://api.example.com", "closed"]]
      )
    })
  )

  it.effect("by hand", () =>
    Effect.gen(function* () {
      const maintenance = Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        yield* breaker.isolate("https://api.example.com") // Until the scope ends.
        yield* breaker.trip("model-a", "10 minutes")
        yield* breaker.reset("model-b")
        return yield* breaker.list
      }).pipe(Effect.scoped)
      const list = yield* running(maintenance)
      assert.deepStrictEqual(
        list.map(({ circuit, phase }) => [circuit, phase]),
        [
          ["https://api.example.com", "isolated"],
          ["model-a", "open"],
          ["model-b", "closed"]
        ]
      )
    })
  )

  it.effect("Redis", () =>
    Effect.gen(function* () {
      const Breaker = CircuitBreaker.layer({
        store: RedisCircuitStore.make({ redis: RedisLive, onStoreError: "allow" })
      })
      assert.strictEqual(yield* running(CircuitBreaker.execute("a")(fetchAnswer), Breaker), answers)
    })
  )

  it.effect("events and metrics", () =>
    Effect.gen(function* () {
      const Telemetry = Metrics.layer().pipe(Layer.provideMerge(ResilienceEvents.layer()))

      const watch = Effect.gen(function* () {
        const breaker = yield* CircuitBreaker.CircuitBreaker
        yield* breaker.transitions.pipe(
          Stream.runForEach(({ circuit, from, to }) => Console.log(`${circuit}: ${from} to ${to}`)),
          Effect.forkScoped
        )
      })
      const exit = yield* running(Effect.scoped(watch)).pipe(Effect.provide(Telemetry), Effect.exit)
      assert.isTrue(Exit.isSuccess(exit))
    })
  )

  it.effect("keeps the pure machine in a Ref", () =>
    Effect.gen(function* () {
      const policy = CircuitPolicy.make()
      const admit = (state: Ref.Ref<CircuitState.CircuitState>, call: string, now: number) =>
        Ref.modify(state, (current) => CircuitState.admit(policy, current, call, now))
      const state = yield* Ref.make<CircuitState.CircuitState>(CircuitState.initial)
      const admission = yield* admit(state, "call 1", 0)
      assert.isTrue(admission.granted)
    })
  )

  const page = fileURLToPath(new URL("../../docs/understand/breaker.md", import.meta.url))
  const decision = fileURLToPath(new URL("../../docs/internals/decisions/own-breaker.md", import.meta.url))

  it("has the defaults of the code", () => {
    const { consecutive, rate, halfOpen, open, restart, maxRetryAfter, maxCircuits, idleAfter } =
      CircuitBreaker.defaults
    const format = (time: Duration.Duration) => Duration.format(time)
    const rows: ReadonlyArray<readonly [string, string | number, string]> = [
      ["trip.consecutive.failures", consecutive.failures, "consecutive failures before the circuit opens"],
      [
        "trip.consecutive.distinctCalls",
        CircuitPolicy.defaults.consecutive.distinctCalls,
        "calls that must contribute to them if several calls share the circuit"
      ],
      ["trip.consecutive.within", "no limit", "older failures do not count"],
      ["trip.rate", "off", "opens on the share of failed or slow calls; set it, even to `{}`, to turn it on"],
      ["trip.rate.window", rate.window, "older calls do not count"],
      [
        "trip.rate.minimumCalls",
        rate.minimumCalls,
        "calls in the window, including those in flight, before a share can open the circuit"
      ],
      [
        "trip.rate.failures",
        rate.failures,
        "the circuit opens at this share of failures or above; `false`: off"
      ],
      ["trip.rate.slow", "off", "the circuit opens at this share of slow calls or above"],
      ["trip.rate.slowerThan", "none", "a call that takes longer is slow, even if it succeeds"],
      ["halfOpen.permits", halfOpen.permits, "probes at a time"],
      ["halfOpen.successes", halfOpen.successes, "probes that must succeed"],
      [
        "halfOpen.outOf",
        "`successes`, or `permits` if more",
        "out of this many probes; the circuit reopens as soon as that is impossible"
      ],
      [
        "halfOpen.probeLimit",
        halfOpen.probeLimit,
        "a probe that takes longer loses its permit and does not count"
      ],
      [
        "open",
        `${format(open.initial)} ×${open.factor}, cap ${format(open.cap)}, ±${Number(open.jitter) * 100} %`,
        "time open, by consecutive openings; any `Backoff`"
      ],
      ["restart", restart, "`closed`: the first opening behind a closing is always the shortest"],
      ["maxRetryAfter", maxRetryAfter, "longest wait of a server that keeps a circuit open"],
      [
        "maxCircuits",
        maxCircuits.toLocaleString("en"),
        "number of circuits above which idle ones are dropped"
      ],
      ["idleAfter", idleAfter, "a circuit is idle after this time without a call"]
    ]
    says(
      page,
      "options",
      ["option", "default", "meaning"],
      rows.map(([option, ...rest]) => [`\`${option}\``, ...rest])
    )
  })

  for (const [name, { heads, rows }] of Object.entries(tables)) {
    it(`has the comparison "${name}"`, () => {
      const cells = rows.map(({ behaviour, ours, theirs }) => [behaviour, ours.text, theirs.text])
      const cost = ["What it adds to a call", "[measured](#cost)", "[measured](#cost)"]
      says(decision, name, ["", ...heads], name === "breaker" ? [...cells, cost] : cells)
    })
  }

  /** Asserts that the document has this table at its mark. With `UPDATE_DOCS=1`, writes the table instead. */
  const says = (
    file: string,
    name: string,
    heads: ReadonlyArray<string>,
    rows: ReadonlyArray<ReadonlyArray<string | number>>
  ) => {
    const text = readFileSync(file, "utf8")
    const line = (cells: ReadonlyArray<string | number>) => `| ${cells.join(" | ")} |`
    const table = [heads, heads.map(() => "---"), ...rows].map(line).join("\n")
    const place = new RegExp(`<!-- ${name} -->[\\s\\S]*<!-- /${name} -->`)
    assert.match(text, place)
    const wanted = text.replace(place, () => `<!-- ${name} -->\n\n${table}\n\n<!-- /${name} -->`)
    if (process.env["UPDATE_DOCS"] === "1") writeFileSync(file, wanted)
    else assert.strictEqual(plain(text), plain(wanted))
  }
})

/** Removes the padding that the formatter adds to tables. */
function plain(markdown: string): string {
  return markdown.replace(/ +/g, " ").replace(/-{2,}/g, "-")
}
