/**
 * The cost of a circuit breaker for a successful call: Outlast's, Effect's own, cockatiel and opossum, side by side.
 *
 * An effect costs more than a promise even without a breaker, so each is compared with the same call without
 * a breaker, of its own kind, round by round. Each figure is the difference. All use their defaults, except
 * opossum's time limit, which the others lack. "Made per call" is the form of most programs: a function that
 * guards a given request.
 */
import { CircuitBreaker, Retry, RetryBudget } from "@outlast/resilience"
import * as cockatiel from "cockatiel"
import { Effect, Logger } from "effect"
import { CircuitBreaker as EffectBreaker } from "effect/persistence"
import Opossum from "opossum"
import type { Contender, Figure, Report } from "./measure.ts"
import { measure, median } from "./measure.ts"

/** Limits for Outlast: ratios to the cost of cockatiel's and Effect's breaker, and microseconds for `Retry`. */
const targets = { cockatiel: 1.15, cockatielMade: 1.8, effect: 0.1, retry: 1 }
const rounds = 9
/** Calls per round, multiplied by `times` of the contender, because the clock may tick in steps of 4 ms. */
const calls = 10_000
const fibers = 1_000
const circuit = "https://api.example.com"
const hour = 3_600_000

type Call = Effect.Effect<unknown, unknown, CircuitBreaker.CircuitBreaker | RetryBudget.RetryBudget>
type Run = (effect: Call) => Promise<unknown>

const oneByOne = (make: () => Call) => (calls: number) =>
  Effect.gen(function* () {
    for (let i = 0; i < calls; i++) yield* make()
  })

const atOnce = (make: () => Call) => (calls: number) => {
  const one = oneByOne(make)(calls / fibers)
  return Effect.forEach(Array.from({ length: fibers }), () => one, {
    concurrency: "unbounded",
    discard: true
  })
}

const oneByOneAsync = (call: () => Promise<unknown>) => async (calls: number) => {
  for (let i = 0; i < calls; i++) await call()
}

const atOnceAsync = (call: () => Promise<unknown>) => async (calls: number) => {
  const one = oneByOneAsync(call)
  await Promise.all(Array.from({ length: fibers }, () => one(calls / fibers)))
}

/** The concurrency of the calls: one after the other, or many at once. */
interface Way {
  readonly title: string
  readonly times: number
  readonly call: Effect.Effect<unknown>
  readonly promise: () => Promise<unknown>
  readonly effects: (make: () => Call) => (calls: number) => Call
  readonly promises: (call: () => Promise<unknown>) => (calls: number) => Promise<void>
}

let count = 0
const sync = Effect.sync(() => ++count)

const ways: ReadonlyArray<Way> = [
  {
    title: "one fiber",
    times: 40,
    call: sync,
    promise: () => Promise.resolve(++count),
    effects: oneByOne,
    promises: oneByOneAsync
  },
  {
    // Each call yields, so that all are in flight together.
    title: "1,000 at once",
    times: 20,
    call: Effect.andThen(Effect.yieldNow, sync),
    promise: async () => {
      await undefined
      return ++count
    },
    effects: atOnce,
    promises: atOnceAsync
  }
]

/** The cost of a row above the raw one, round by round. */
const added = (figures: ReadonlyArray<Figure>, name: string, raw: string): Figure => {
  const of = (name: string) => figures.find((figure) => figure.name === name)?.rounds ?? []
  const base = of(raw)
  const own = of(name).map((value, round) => value - (base[round] ?? NaN))
  return { name, median: median(own), min: Math.min(...own), max: Math.max(...own), ratio: NaN }
}

/** The figures with their ratios to the one of that name. */
const relativeTo = (name: string, figures: ReadonlyArray<Figure>): ReadonlyArray<Figure> => {
  const base = medianOf(figures, name)
  return figures.map((figure) => ({ ...figure, ratio: figure.median / base }))
}

const medianOf = (figures: ReadonlyArray<Figure>, name: string): number =>
  figures.find((figure) => figure.name === name)?.median ?? NaN

const names = {
  effect: "the effect alone",
  promise: "the promise alone",
  ours: "ours",
  made: "ours, made per call",
  environment: "ours, breaker from the environment",
  rate: "ours, rate policy",
  acquire: "ours, acquire and succeed",
  retry: "Retry.with",
  retryMade: "Retry.with, made per call",
  both: "Retry.with and ours",
  bothMade: "Retry.with and ours, made per call",
  all: "Retry.with, ours, deadline, budget",
  allMade: "all of these, made per call",
  theirs: "Effect's own",
  cockatiel: "cockatiel 4",
  opossum: "opossum 10"
} as const

/** A second contender without a breaker. Its distance from the first is the noise of the run. */
const control = "the effect alone, again"

const effectBreaker = EffectBreaker.make({
  tripPolicy: EffectBreaker.consecutive(5),
  openDuration: "1 hour"
}).pipe(Effect.provide(EffectBreaker.layerStoreMemory()))

const cockatielBreaker = () =>
  cockatiel.circuitBreaker(cockatiel.handleAll, {
    halfOpenAfter: hour,
    breaker: new cockatiel.ConsecutiveBreaker(5)
  })

const success = ({ say, table }: Report, way: Way) =>
  Effect.gen(function* () {
    const { call, promise, times, title } = way
    const own = yield* CircuitBreaker.make()
    const rated = yield* CircuitBreaker.make({ trip: { rate: {} } })
    const theirs = yield* effectBreaker
    const policy = cockatielBreaker()
    const opossum = new Opossum(promise, { timeout: false })

    const budget = yield* RetryBudget.make()

    const run: Run = (effect) =>
      effect.pipe(
        Effect.provideService(CircuitBreaker.CircuitBreaker, own),
        Effect.provideService(RetryBudget.RetryBudget, budget),
        Effect.orDie,
        Effect.runPromise
      )
    /** `slower` ones make fewer calls. */
    const effect = (name: string, guarded: Call, slower = 1): Contender => makes(name, () => guarded, slower)
    const makes = (name: string, make: () => Call, slower = 1): Contender => ({
      name,
      times: times / slower,
      run: async (calls) => {
        await run(way.effects(make)(calls))
      }
    })
    const async = (name: string, call: () => Promise<unknown>, slower = 1): Contender => ({
      name,
      times: times / slower,
      run: way.promises(call)
    })

    const guard = own.execute(circuit)
    const acquired = Effect.flatMap(own.acquire(circuit), (permit) => Effect.andThen(call, permit.succeed))
    const never = { classify: () => Retry.stop }
    // Options that are made per call, too.
    const retry = () => Retry.with({ classify: () => Retry.stop })(call)
    const both = () => Retry.with({ ...never, breaker: { circuit } })(call)
    // As in docs/understand/composition.md, without the time limit inside, which is Effect's.
    const all = () => Retry.with({ ...never, deadline: "1 minute", budget: true, breaker: { circuit } })(call)
    // Each round runs in this order. A single contender follows one of its own kind, which warms it up.
    const contenders: readonly [Contender, ...Array<Contender>] = [
      async(names.opossum, () => opossum.fire(), 2),
      async(names.promise, promise),
      async(names.cockatiel, () => policy.execute(promise)),
      effect(names.theirs, theirs.execute(call, { key: circuit }), 20),
      effect(names.acquire, Effect.scoped(acquired), 20),
      effect(names.all, all(), 10),
      makes(names.allMade, all, 10),
      effect(names.both, both(), 10),
      makes(names.bothMade, both, 10),
      effect(names.rate, rated.execute(circuit)(call), 5),
      makes(names.retryMade, retry),
      effect(names.retry, retry()),
      effect(names.effect, call),
      effect(names.ours, guard(call)),
      makes(names.made, () => guard(call)),
      effect(names.environment, CircuitBreaker.execute(circuit)(call)),
      effect(control, call)
    ]
    const measured = yield* Effect.promise(() => measure(contenders, { rounds, calls }))
    const figures = Object.values(names).flatMap((name) => measured.filter((figure) => figure.name === name))
    opossum.shutdown()

    table(
      `The whole call, ${title}, µs per call (ratio: to the effect alone)`,
      relativeTo(names.effect, figures)
    )
    const { effect: rawEffect, promise: rawPromise, cockatiel, opossum: opossumName, ...effects } = names
    const rows = [
      ...Object.values(effects).map((name) => added(figures, name, rawEffect)),
      ...[cockatiel, opossumName].map((name) => added(figures, name, rawPromise))
    ]
    table(`Added to the call, ${title}, µs per call (ratio: to cockatiel)`, relativeTo(cockatiel, rows))
    const verdict = (what: string, value: number, most: number) =>
      say(`  ${what.padEnd(42)}${value.toFixed(2)} (at most ${most}: ${value <= most ? "met" : "missed"})`)
    const noise = added(measured, control, rawEffect).median
    say(`\n  noise: ${control}, adds ${noise.toFixed(3)} µs`)
    const limits = [
      [names.ours, targets.cockatiel],
      [names.made, targets.cockatielMade]
    ] as const
    for (const [name, limit] of limits) {
      const own = medianOf(rows, name)
      verdict(`${name}, to cockatiel:`, own / medianOf(rows, cockatiel), limit)
      verdict(`${name}, to Effect's own:`, own / medianOf(rows, names.theirs), targets.effect)
    }
    for (const name of [names.retry, names.retryMade]) {
      verdict(`${name}, µs:`, medianOf(rows, name), targets.retry)
    }
  }).pipe(Effect.scoped)

/** The cost of a refusal by an open circuit. */
const refusal = ({ table }: Report) =>
  Effect.gen(function* () {
    const own = yield* CircuitBreaker.make()
    yield* own.trip(circuit, "1 hour")
    const theirs = yield* effectBreaker
    const fail = Effect.fail("down")
    yield* Effect.ignore(theirs.execute(fail, { key: circuit })).pipe(Effect.repeat({ times: 4 }))
    const policy = cockatielBreaker()
    const opossum = new Opossum(() => Promise.resolve(), { timeout: false, resetTimeout: hour })
    opossum.open()
    const reject = () => Promise.reject(new Error("down"))
    for (let i = 0; i < 5; i++) yield* Effect.ignore(Effect.tryPromise(() => policy.execute(reject)))

    let ran = 0
    const call = Effect.sync(() => ++ran)
    const effect = (name: string, guarded: Effect.Effect<unknown, unknown>): Contender => {
      const refused = Effect.ignore(guarded)
      const run = (calls: number) =>
        Effect.runPromise(
          Effect.gen(function* () {
            for (let i = 0; i < calls; i++) yield* refused
          })
        )
      return { name, times: 2, run }
    }
    const async = (name: string, call: () => Promise<unknown>): Contender => {
      const refused = () => call().catch(() => {})
      return { name, times: 2, run: oneByOneAsync(refused) }
    }
    const counted = () => Promise.resolve(++ran)
    const figures = yield* Effect.promise(() =>
      measure(
        [
          effect(names.ours, own.execute(circuit)(call)),
          effect(names.theirs, theirs.execute(call, { key: circuit })),
          async(names.cockatiel, () => policy.execute(counted)),
          async(names.opossum, () => opossum.fire())
        ],
        { rounds, calls }
      )
    )
    opossum.shutdown()
    if (ran > 0) throw new Error("A circuit that was to be open let calls through.")
    table("Refused by an open circuit, one fiber, µs per call (ratio: to ours)", figures)
  }).pipe(Effect.scoped)

export const breaker = async (report: Report): Promise<void> => {
  report.say(`Circuit breakers, calls that succeed at once, ${rounds} rounds, Node ${process.version}`)
  for (const way of ways) await Effect.runPromise(success(report, way))
  // The circuits are tripped, which is logged: a line that is not JSON.
  await Effect.runPromise(refusal(report).pipe(Effect.provide(Logger.layer([]))))
}
