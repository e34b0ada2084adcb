/**
 * The model test of circuits: random commands, run against an implementation and against a small model.
 *
 * The model is written from the documentation, in another style than the code. Circuits are mutable objects, permits
 * remember the period they were given in, and the whole history of a period decides whether to trip.
 *
 * The implementation is a {@link Real}: the pure machine, or a `CircuitBreaker` over any store ({@link serviceOver}).
 */
import { assert } from "@effect/vitest"
import { Clock, Context, Data, Deferred, Duration, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { Backoff, CircuitBreaker } from "@outlast/resilience"
import * as CircuitPolicy from "#resilience/breaker/CircuitPolicy"
import * as CircuitState from "#resilience/breaker/CircuitState"
import type { CircuitRefused } from "#resilience/breaker/CircuitRefused"
import * as Refusal from "#resilience/Refusal"

// -----------------------------------------------------------------------------
// Implementations
// -----------------------------------------------------------------------------

type Ending = "success" | "failure" | "defect" | "refusal" | "interruption"
type Via = "execute" | "acquire" | "stream"

interface RefusedWith {
  readonly circuit: string
  readonly reason: string
  readonly retryAfter: number | undefined
}

interface View {
  readonly phase: string
  readonly generation: number
  readonly retryAfter: number | undefined
  readonly openings: number
}

/** An implementation as the commands use it. Permits are numbered by the commands. Times are milliseconds. */
interface Real {
  readonly start: (
    permit: number,
    names: ReadonlyArray<string>,
    call: string | undefined,
    via: Via,
    request: CircuitState.Request
  ) => Promise<RefusedWith | undefined>
  readonly end: (permit: number, ending: Ending, retryAfter: number | undefined) => Promise<void>
  readonly advance: (millis: number) => Promise<void>
  readonly trip: (name: string, length: number | undefined) => Promise<void>
  readonly reset: (name: string) => Promise<void>
  readonly isolate: (hold: number, name: string) => Promise<void>
  readonly release: (hold: number) => Promise<void>
  readonly view: (name: string) => Promise<View>
  readonly available: (names: ReadonlyArray<string>) => Promise<boolean>
  /** Transitions since the start: `name:from>to`. */
  readonly transitions: () => Promise<ReadonlyArray<string>>
  readonly close: () => Promise<void>
}

/** Creates an implementation for one run of commands. */
export type MakeReal = (options: CircuitBreaker.Options) => Promise<Real>

/** The pure machine, without a service. */
export const pureMachine: MakeReal = async (options) => {
  const policy = CircuitPolicy.make(options)
  const states = new Map<string, CircuitState.CircuitState>()
  const running = new Map<string, number>()
  const permits = new Map<
    number,
    {
      readonly started: number
      readonly call: string | undefined
      readonly grants: ReadonlyArray<readonly [string, CircuitState.Grant]>
    }
  >()
  const holds = new Map<number, string>()
  const transitions: Array<string> = []
  let now = 0

  const of = (name: string) => states.get(name) ?? CircuitState.initial
  const move = (name: string, after: CircuitState.CircuitState): void => {
    const before = of(name)
    states.set(name, after)
    const again = after.phase === "open" && after.generation !== before.generation
    if (after.phase !== before.phase || again) transitions.push(`${name}:${before.phase}>${after.phase}`)
  }
  return {
    start: async (permit, names, call, _via, request) => {
      for (const name of names) {
        const [admission] = CircuitState.admit(policy, of(name), "nobody", now, request)
        if (!admission.granted) return { circuit: name, ...admission.refusal }
      }
      const grants = names.map((name) => {
        const [admission, after] = CircuitState.admit(policy, of(name), `permit ${permit}`, now, request)
        if (!admission.granted) throw new Error("refused after all")
        running.set(name, (running.get(name) ?? 0) + 1)
        move(name, after)
        return [name, admission.grant] as const
      })
      permits.set(permit, { started: now, call, grants })
      return undefined
    },
    end: async (permit, ending, retryAfter) => {
      const known = permits.get(permit)
      if (known === undefined) throw new Error(`no permit ${permit}`)
      for (const [name, grant] of known.grants) {
        const count = running.get(name) ?? 0
        running.set(name, count - 1)
        const ended: CircuitState.Ended =
          ending === "refusal" || ending === "interruption"
            ? { outcome: "ignored" }
            : {
                outcome: ending === "success" ? "success" : "failure",
                retryAfter: ending === "failure" ? retryAfter : undefined,
                took: now - known.started,
                call: known.call,
                inFlight: count - 1
              }
        move(name, CircuitState.settle(policy, of(name), grant, ended, now, 0.5))
      }
    },
    advance: async (millis) => {
      now += millis
    },
    trip: async (name, length) => move(name, CircuitState.trip(policy, of(name), now, 0.5, length)),
    reset: async (name) => move(name, CircuitState.reset(of(name), now)),
    isolate: async (hold, name) => {
      holds.set(hold, name)
      move(name, CircuitState.isolate(of(name), `hold ${hold}`, now))
    },
    release: async (hold) => {
      const name = holds.get(hold) ?? ""
      move(name, CircuitState.release(of(name), `hold ${hold}`, now))
    },
    view: async (name) => {
      const state = of(name)
      const phase = CircuitState.phaseAt(state, now)
      return {
        phase,
        generation: state.generation,
        retryAfter: state.phase === "open" && phase === "open" ? state.until - now : undefined,
        openings: state.openings
      }
    },
    available: async (names) => names.every((name) => CircuitState.available(policy, of(name), now)),
    transitions: async () => transitions,
    close: async () => undefined
  }
}

class Failed extends Data.TaggedError("Failed")<{
  readonly retryAfter: Duration.Duration | undefined
}> {}

class Full extends Data.TaggedError("Full")<{}> {
  readonly [Refusal.mark] = true
}

/** A store under test. */
export interface StoreUnderTest {
  /** A breaker over a new store, built in virtual time. */
  readonly layer: (options: CircuitBreaker.Options) => Layer.Layer<CircuitBreaker.CircuitBreaker>
  /** Completes when store and breaker have each other's changes. Default: completes at once. */
  readonly quiet?: Effect.Effect<void> | undefined
}

/** The service in virtual time, with its circuits in `store`. */
export const serviceOver =
  ({ layer, quiet = Effect.void }: StoreUnderTest): MakeReal =>
  async (options) => {
    const scope = Effect.runSync(Scope.make())
    const built = Layer.provideMerge(layer(options), TestClock.layer())
    const context = await Effect.runPromise(Layer.buildWithScope(built, scope))
    const breaker = Context.get(context, CircuitBreaker.CircuitBreaker)
    const clock = Context.get(context, Clock.Clock)
    const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> =>
      Effect.runPromise(
        Effect.andThen(effect, (value) => Effect.as(quiet, value)).pipe(
          Effect.provideService(Clock.Clock, clock)
        )
      )
    const transitions: Array<string> = []
    await run(
      breaker.transitions.pipe(
        Stream.runForEach(({ circuit, from, to }) =>
          Effect.sync(() => void transitions.push(`${circuit}:${from}>${to}`))
        ),
        Effect.forkIn(scope, { startImmediately: true }),
        Effect.andThen(Effect.repeat(Effect.yieldNow, { times: 3 }))
      )
    )
    const permits = new Map<number, (ending: Ending, retryAfter: number | undefined) => Effect.Effect<void>>()
    const holds = new Map<number, Scope.Closeable>()

    const refusedWith = ({ circuit, reason, retryAfter }: CircuitRefused): RefusedWith => ({
      circuit,
      reason,
      retryAfter: retryAfter === undefined ? undefined : Duration.toMillis(retryAfter)
    })

    /** A call that ends on command. */
    const underWay = (
      permit: number,
      guarded: (
        body: Effect.Effect<void, Failed | Full>
      ) => Effect.Effect<unknown, Failed | Full | CircuitRefused>
    ) =>
      Effect.gen(function* () {
        const begun = yield* Deferred.make<void>()
        const ending = yield* Deferred.make<void, Failed | Full>()
        const body = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(ending))
        const fiber = yield* Effect.forkIn(guarded(body), scope)
        const exit = yield* Effect.raceFirst(Deferred.await(begun), Fiber.await(fiber))
        if (exit !== undefined) {
          const error = yield* Effect.flip(exit)
          if (error._tag !== "CircuitRefused") throw new Error(`ended with ${error._tag}`)
          return refusedWith(error)
        }
        permits.set(permit, (how, retryAfter) => {
          if (how === "interruption") return Fiber.interrupt(fiber)
          return Effect.andThen(
            Deferred.done(ending, exitOf(how, retryAfter)),
            Effect.asVoid(Fiber.await(fiber))
          )
        })
        return undefined
      })

    const exitOf = (how: Exclude<Ending, "interruption">, retryAfter: number | undefined) =>
      how === "success"
        ? Exit.void
        : how === "failure"
          ? Exit.fail(
              new Failed({ retryAfter: retryAfter === undefined ? undefined : Duration.millis(retryAfter) })
            )
          : how === "defect"
            ? Exit.die("a defect")
            : Exit.fail(new Full())

    const acquired = (
      permit: number,
      names: CircuitBreaker.Names,
      options: { readonly call: unknown } & CircuitState.Request
    ) =>
      Effect.gen(function* () {
        const scope = yield* Scope.make()
        const got = yield* Effect.exit(Scope.provide(breaker.acquire(names, options), scope))
        if (Exit.isFailure(got)) return refusedWith(yield* Effect.flip(got))
        const { succeed, fail, ignore } = got.value
        permits.set(permit, (how, retryAfter) =>
          Effect.andThen(
            how === "success"
              ? succeed
              : how === "failure"
                ? fail({ retryAfter })
                : how === "defect"
                  ? fail()
                  : how === "refusal"
                    ? ignore
                    : Effect.void,
            Scope.close(scope, Exit.void)
          )
        )
        return undefined
      })

    return {
      start: (permit, names, call, via, request) => {
        const [only] = names
        const options = { call, ...request }
        const asked = names.length === 1 && only !== undefined ? only : names
        switch (via) {
          case "execute":
            return run(underWay(permit, breaker.execute(asked, options)))
          case "stream":
            return run(
              underWay(permit, (body) =>
                Stream.runDrain(breaker.executeStream(asked, options)(Stream.fromEffect(body)))
              )
            )
          case "acquire":
            return run(acquired(permit, asked, options))
        }
      },
      end: (permit, ending, retryAfter) => run(permits.get(permit)?.(ending, retryAfter) ?? Effect.void),
      advance: (millis) => run(TestClock.adjust(Duration.millis(millis))),
      trip: (name, length) => run(breaker.trip(name, length)),
      reset: (name) => run(breaker.reset(name)),
      isolate: async (hold, name) => {
        const held = await run(Scope.make())
        holds.set(hold, held)
        await run(Scope.provide(breaker.isolate(name), held))
      },
      release: (hold) => {
        const held = holds.get(hold)
        return run(held === undefined ? Effect.void : Scope.close(held, Exit.void))
      },
      view: async (name) => {
        const { phase, generation, retryAfter, openings } = await run(breaker.state(name))
        return {
          phase,
          generation,
          retryAfter: retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
          openings
        }
      },
      available: (names) => run(breaker.available(names)),
      transitions: async () => {
        await run(Effect.repeat(Effect.yieldNow, { times: 20 }))
        return transitions
      },
      close: () => Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }

// -----------------------------------------------------------------------------
// The model
// -----------------------------------------------------------------------------

interface Ended {
  readonly at: number
  readonly failed: boolean
  readonly took: number
  /** Identifies the call. Attempts without one are separate calls. */
  readonly call: unknown
  readonly amongOthers: boolean
}

/** The time from one change of phase to the next. */
type Period =
  | {
      readonly kind: "closed"
      readonly since: number
      readonly history: Array<Ended>
      /**
       * After probes closed the circuit: the permits of waiting calls that passed, and how many more their successes pay
       * for.
       */
      readonly recovery?: { readonly passed: Set<number>; paid: number }
    }
  | {
      readonly kind: "open"
      readonly until: number
      readonly slow: boolean
      /** The last resorts in their order, and their outcomes in that order. */
      readonly resorts: Array<Probe & { readonly at: number }>
      readonly outcomes: Array<boolean>
    }
  | {
      readonly kind: "half-open"
      readonly probes: Array<Probe>
      readonly slow: boolean
      lastResortAt: number
    }
  | { readonly kind: "isolated"; readonly holds: Set<number> }

interface Probe {
  readonly permit: number
  readonly lapses: number
  verdict: "in flight" | "won" | "lost" | "void"
}

/** One circuit, following the documentation. */
class ModelCircuit {
  period: Period = { kind: "closed", since: 0, history: [] }
  /** Number of changes of the period. */
  changes = 0
  readonly underWay = new Set<number>()
  openings = 0
  lastOpening = 0
  serverSays = -Infinity
  readonly name: string
  readonly rules: Rules
  readonly log: Array<string>

  constructor(name: string, rules: Rules, log: Array<string>) {
    this.name = name
    this.rules = rules
    this.log = log
  }

  become(period: Period): void {
    const from = this.period.kind
    this.period = period
    this.changes++
    if (from !== period.kind || period.kind === "open") this.log.push(`${this.name}:${from}>${period.kind}`)
  }

  /** True during the recovery time after probes closed the circuit. */
  isRecovering(now: number): boolean {
    const { period } = this
    return period.kind === "closed" && period.recovery !== undefined && now < period.since + 600_000
  }

  refuses(
    now: number,
    { lastResort = false, waited = false }: CircuitState.Request = {}
  ): RefusedWith | undefined {
    const { period, rules, name: circuit } = this
    if (period.kind === "isolated") return { circuit, reason: "isolated", retryAfter: undefined }
    if (period.kind === "open" && now < period.until) {
      const next = lastResort ? (period.resorts.at(-1)?.at ?? -Infinity) + 1_000 : Infinity
      if (now >= next) return undefined
      return { circuit, reason: "open", retryAfter: Math.min(period.until, next) - now }
    }
    if (period.kind === "closed") {
      const { passed, paid = 0 } = period.recovery ?? {}
      const allowed = 3 + paid + Math.floor((now - period.since) / 5_000)
      const waits = waited && this.isRecovering(now) && (passed?.size ?? 0) >= allowed
      return waits ? { circuit, reason: "recovering", retryAfter: undefined } : undefined
    }
    if (period.kind !== "half-open") return undefined
    const probing = period.probes.filter(({ verdict, lapses }) => verdict === "in flight" && now < lapses)
    const decided = period.probes.filter(({ verdict }) => verdict === "won" || verdict === "lost")
    const isFull = probing.length >= rules.permits || probing.length + decided.length >= rules.outOf
    if (!isFull) return undefined
    if (!lastResort) return { circuit, reason: "half-open", retryAfter: undefined }
    const next = period.lastResortAt + 1_000
    return now >= next ? undefined : { circuit, reason: "half-open", retryAfter: next - now }
  }

  enter(permit: number, now: number, { waited = false }: CircuitState.Request): Period {
    const isLast = this.refuses(now) !== undefined
    this.underWay.add(permit)
    const probe: Probe = { permit, lapses: now + this.rules.probeLimit, verdict: "in flight" }
    if (this.period.kind === "open") {
      if (isLast) {
        this.period.resorts.push({ ...probe, at: now })
        return this.period
      }
      this.become({ kind: "half-open", probes: [], slow: this.period.slow, lastResortAt: -Infinity })
    }
    if (this.period.kind === "half-open") {
      this.period.probes.push(probe)
      if (isLast) this.period.lastResortAt = now
    }
    if (this.period.kind === "closed" && this.period.recovery !== undefined && waited)
      this.period.recovery.passed.add(permit)
    return this.period
  }

  /** Closes the circuit after probes: waiting calls are let through gradually. */
  recover(now: number): void {
    this.become({ kind: "closed", since: now, history: [], recovery: { passed: new Set(), paid: 0 } })
  }

  leave(permit: ModelPermit, ending: Ending, retryAfter: number | undefined, now: number): void {
    this.underWay.delete(permit.id)
    const amongOthers = this.underWay.size > 0
    const period = this.period
    if (permit.periods.get(this.name) !== period) return
    const failed = ending === "failure" || ending === "defect"
    const counts = failed || ending === "success"
    const hear = (): void => {
      if (ending !== "failure" || retryAfter === undefined) return
      this.serverSays = Math.max(this.serverSays, now + Math.min(retryAfter, this.rules.maxRetryAfter))
    }
    const tooSlow =
      "slow" in period && period.slow && now - permit.started > (this.rules.rate?.slowerThan ?? Infinity)
    if (period.kind === "open") {
      const resort = period.resorts.find((resort) => resort.permit === permit.id)
      if (resort === undefined || now >= resort.lapses || !counts) return
      hear()
      period.outcomes.push(!failed && !tooSlow)
      if (period.outcomes.slice(-3).filter(Boolean).length === 2) this.recover(now)
    } else if (period.kind === "half-open") {
      const probe = period.probes.find((probe) => probe.permit === permit.id)
      if (probe === undefined || now >= probe.lapses) return
      probe.verdict = counts ? (failed || tooSlow ? "lost" : "won") : "void"
      hear()
      const won = period.probes.filter(({ verdict }) => verdict === "won").length
      const lost = period.probes.filter(({ verdict }) => verdict === "lost").length
      if (won === this.rules.successes) this.recover(now)
      else if (this.rules.outOf - lost < this.rules.successes) this.open(now, period.slow)
    } else if (period.kind === "closed" && counts) {
      hear()
      const hadWaited = period.recovery?.passed.has(permit.id) === true
      if (period.recovery !== undefined && hadWaited && this.isRecovering(now) && !failed)
        period.recovery.paid += period.history.some(({ failed }) => failed) ? 1 : 2
      const call = permit.call ?? permit
      period.history.push({ at: now, failed, took: now - permit.started, call, amongOthers })
      const why = this.mustOpen(period.history, now)
      if (why !== undefined) this.open(now, why === "slow")
    }
  }

  /** Returns the reason to open. Calls in flight count as neither failed nor slow. */
  mustOpen(history: ReadonlyArray<Ended>, now: number): "failures" | "slow" | undefined {
    const { consecutive, rate } = this.rules
    if (consecutive !== undefined) {
      const row = history.slice(history.findLastIndex(({ failed }) => !failed) + 1)
      const fresh = row.filter(({ at }) => now - at < consecutive.within)
      const last = fresh.slice(-consecutive.failures)
      const cameBack = last.some(({ call }, index) => {
        const later = last.slice(index + 1)
        const other = later.findIndex((ended) => ended.call !== call)
        return other >= 0 && later.slice(other).some((ended) => ended.call === call)
      })
      const isShared = cameBack || last.some(({ amongOthers }) => amongOthers)
      const calls = new Set(fresh.map(({ call }) => call)).size
      const isEnough = !isShared || calls >= Math.min(3, consecutive.failures)
      if (last.length === consecutive.failures && isEnough) return "failures"
    }
    if (rate !== undefined) {
      const slice = rate.window / 10
      const recent = history.filter(({ at }) => Math.floor(at / slice) * slice > now - rate.window)
      const all = recent.length + this.underWay.size
      const share = (count: number) => all >= rate.minimumCalls && count / all
      const failures = share(recent.filter(({ failed }) => failed).length)
      const slow = share(recent.filter(({ took }) => took > rate.slowerThan).length)
      if (failures !== false && failures >= rate.failures) return "failures"
      if (slow !== false && slow >= rate.slow) return "slow"
    }
    return undefined
  }

  open(now: number, slow: boolean, length?: number): void {
    const { period, rules } = this
    const isFirst = period.kind === "closed" && now - period.since >= this.lastOpening
    this.openings = isFirst ? 1 : this.openings + 1
    const wait = Math.min(rules.cap, rules.initial * 2 ** (this.openings - 1))
    const until = length === undefined ? Math.max(now + wait, this.serverSays) : now + length
    this.lastOpening = until - now
    this.become({ kind: "open", until, slow, resorts: [], outcomes: [] })
  }

  forget(now: number): void {
    this.openings = 0
    this.lastOpening = 0
    this.serverSays = -Infinity
    const { period } = this
    this.become(
      period.kind === "isolated"
        ? { kind: "isolated", holds: period.holds }
        : { kind: "closed", since: now, history: [] }
    )
  }

  hold(hold: number): void {
    if (this.period.kind === "isolated") this.period.holds.add(hold)
    else this.become({ kind: "isolated", holds: new Set([hold]) })
  }

  release(hold: number, now: number): void {
    if (this.period.kind !== "isolated") return
    this.period.holds.delete(hold)
    if (this.period.holds.size === 0) this.become({ kind: "closed", since: now, history: [] })
  }

  phase(now: number): string {
    return this.period.kind === "open" && now >= this.period.until ? "half-open" : this.period.kind
  }

  /** Times at which something ends without a command. */
  ends(): ReadonlyArray<number> {
    const { period } = this
    return period.kind === "open"
      ? [period.until, ...period.resorts.flatMap(({ at, lapses }) => [at + 1_000, lapses])]
      : period.kind === "half-open"
        ? period.probes.map(({ lapses }) => lapses)
        : period.kind === "closed"
          ? [period.since + this.lastOpening]
          : []
  }
}

interface ModelPermit {
  readonly id: number
  readonly call: string | undefined
  readonly started: number
  readonly names: ReadonlyArray<string>
  readonly periods: ReadonlyMap<string, Period>
}

export interface Rules {
  readonly consecutive: { readonly failures: number; readonly within: number } | undefined
  readonly rate:
    | {
        readonly window: number
        readonly minimumCalls: number
        readonly failures: number
        readonly slow: number
        readonly slowerThan: number
      }
    | undefined
  readonly permits: number
  readonly successes: number
  readonly outOf: number
  readonly probeLimit: number
  readonly initial: number
  readonly cap: number
  readonly maxRetryAfter: number
  /** True when calls have names. The two are not mixed: a call without a name leaves no trace in a closed circuit. */
  readonly named: boolean
}

class Model {
  commands = 0
  now = 0
  permits = 0
  holds = 0
  readonly running: Array<ModelPermit> = []
  readonly held: Array<readonly [number, string]> = []
  readonly log: Array<string> = []
  readonly circuits: Readonly<Record<string, ModelCircuit>>
  readonly rules: Rules
  /** Generations seen so far, for the periods of each circuit. */
  readonly generations = new Map<string, number>()

  constructor(rules: Rules) {
    this.rules = rules
    this.circuits = Object.fromEntries(names.map((name) => [name, new ModelCircuit(name, rules, this.log)]))
  }

  of(name: string): ModelCircuit {
    const circuit = this.circuits[name]
    if (circuit === undefined) throw new Error(`no circuit ${name}`)
    return circuit
  }
}

// -----------------------------------------------------------------------------
// Rules
// -----------------------------------------------------------------------------

const names = ["a", "b"]
const small = (max: number) => fc.integer({ min: 1, max })

const consecutive = fc.record({ failures: small(4), within: fc.constantFrom(Infinity, Infinity, 50) })
const rate = fc
  .record({
    window: fc.constantFrom(50, 100),
    minimumCalls: small(5),
    failures: fc.constantFrom(0.25, 0.5, 1, Infinity),
    slow: fc.constantFrom(0.5, 1, Infinity),
    slowerThan: fc.constantFrom(0, 10)
  })
  .filter(({ failures, slow }) => failures !== Infinity || slow !== Infinity)

/** Rules with short times, so that short runs reach all of them. */
export const anyRules: fc.Arbitrary<Rules> = fc
  .record({
    trip: fc.oneof(
      { weight: 4, arbitrary: fc.record({ consecutive, rate: fc.constant(undefined) }) },
      { weight: 1, arbitrary: fc.record({ consecutive: fc.constant(undefined), rate }) },
      { weight: 1, arbitrary: fc.record({ consecutive, rate }) }
    ),
    permits: small(3),
    successes: small(3),
    spare: fc.integer({ min: 0, max: 2 }),
    probeLimit: fc.constantFrom(15, 40),
    cap: fc.constantFrom(20, 80),
    maxRetryAfter: fc.constantFrom(30, 200),
    named: fc.boolean()
  })
  .map(({ trip, spare, ...rest }) => ({
    ...trip,
    ...rest,
    initial: 20,
    outOf: rest.successes + spare
  }))

export const optionsOf = (rules: Rules): CircuitBreaker.Options => ({
  trip: {
    consecutive:
      rules.consecutive === undefined
        ? false
        : {
            failures: rules.consecutive.failures,
            within: rules.consecutive.within === Infinity ? undefined : rules.consecutive.within
          },
    rate:
      rules.rate === undefined
        ? undefined
        : {
            window: rules.rate.window,
            minimumCalls: rules.rate.minimumCalls,
            failures: rules.rate.failures === Infinity ? false : rules.rate.failures,
            ...(rules.rate.slow === Infinity
              ? {}
              : { slow: rules.rate.slow, slowerThan: rules.rate.slowerThan })
          }
  },
  halfOpen: {
    permits: rules.permits,
    successes: rules.successes,
    outOf: rules.outOf,
    probeLimit: rules.probeLimit
  },
  open: Backoff.exponential({ initial: rules.initial, factor: 2, cap: rules.cap, jitter: 0 }),
  maxRetryAfter: rules.maxRetryAfter
})

// -----------------------------------------------------------------------------
// Commands
// -----------------------------------------------------------------------------

type Command = fc.AsyncCommand<Model, Real>

const command = (
  title: string,
  run: (model: Model, real: Real) => Promise<void>,
  check: (model: Model) => boolean = () => true
): Command => ({
  check,
  run: async (model, real) => {
    model.commands++
    await run(model, real)
    await agree(model, real)
  },
  toString: () => title
})

/** Compares everything that can be read. */
const agree = async (model: Model, real: Real): Promise<void> => {
  for (const name of names) {
    const circuit = model.of(name)
    const { generation, ...view } = await real.view(name)
    const refusal = circuit.refuses(model.now)
    assert.deepStrictEqual(view, {
      phase: circuit.phase(model.now),
      retryAfter: refusal?.retryAfter,
      openings: circuit.openings
    })
    const key = `${name}${circuit.changes}`
    const before = model.generations.get(`${name}${circuit.changes - 1}`)
    if (before !== undefined) assert.isAbove(generation, before, "a new period has a new generation")
    assert.strictEqual(model.generations.get(key) ?? generation, generation, "one period, one generation")
    model.generations.set(key, generation)
    assert.strictEqual(await real.available([name]), refusal === undefined)
  }
  assert.strictEqual(
    await real.available(names),
    names.every((name) => model.of(name).refuses(model.now) === undefined)
  )
}

const start = (asked: ReadonlyArray<string>, who: string, via: Via, request: CircuitState.Request): Command =>
  command(`start(${asked.join("+")}, ${who}, ${via}, ${JSON.stringify(request)})`, async (model, real) => {
    const id = ++model.permits
    const call = model.rules.named ? who : undefined
    const expected = asked
      .map((name) => model.of(name).refuses(model.now, request))
      .find((refusal) => refusal !== undefined)
    assert.deepStrictEqual(await real.start(id, asked, call, via, request), expected)
    if (expected !== undefined) return
    const periods = new Map(asked.map((name) => [name, model.of(name).enter(id, model.now, request)]))
    model.running.push({ id, call, started: model.now, names: asked, periods })
  })

const end = (which: number, ending: Ending, retryAfter: number | undefined): Command =>
  command(
    `end(${which}, ${ending}${retryAfter === undefined ? "" : `, ${retryAfter}`})`,
    async (model, real) => {
      const [permit] = model.running.splice(which % model.running.length, 1)
      if (permit === undefined) return
      await real.end(permit.id, ending, retryAfter)
      for (const name of permit.names) model.of(name).leave(permit, ending, retryAfter, model.now)
    },
    ({ running }) => running.length > 0
  )

const advance = (millis: number): Command =>
  command(`advance(${millis})`, async (model, real) => {
    await real.advance(millis)
    model.now += millis
  })

/** Moves time to the next end without a command, or a millisecond before. */
const toTheEnd = (which: number, before: number): Command =>
  command(`toTheEnd(${which}, ${before})`, async (model, real) => {
    const ends = names.flatMap((name) => model.of(name).ends()).filter((at) => at - before > model.now)
    const at = ends[which % Math.max(1, ends.length)]
    const millis = at === undefined ? 1 : at - before - model.now
    await real.advance(millis)
    model.now += millis
  })

const trip = (name: string, length: number | undefined): Command =>
  command(`trip(${name}, ${length})`, async (model, real) => {
    await real.trip(name, length)
    const circuit = model.of(name)
    if (circuit.period.kind !== "isolated") circuit.open(model.now, false, length)
  })

/** Runs last resorts at an open circuit, one a second. Random commands seldom get this far. */
const resorts = (name: string, endings: ReadonlyArray<Ending>): Command =>
  command(`resorts(${name}, ${endings.join(", ")})`, async (model, real) => {
    await trip(name, 10_000).run(model, real)
    for (const ending of endings) {
      await start([name], "x", "acquire", { lastResort: true }).run(model, real)
      if (model.running.length > 0) await end(model.running.length - 1, ending, undefined).run(model, real)
      await advance(1_000).run(model, real)
    }
  })

const reset = (name: string): Command =>
  command(`reset(${name})`, async (model, real) => {
    await real.reset(name)
    model.of(name).forget(model.now)
  })

const isolate = (name: string): Command =>
  command(`isolate(${name})`, async (model, real) => {
    const hold = ++model.holds
    await real.isolate(hold, name)
    model.of(name).hold(hold)
    model.held.push([hold, name])
  })

const release = (which: number): Command =>
  command(
    `release(${which})`,
    async (model, real) => {
      const [held] = model.held.splice(which % model.held.length, 1)
      if (held === undefined) return
      const [hold, name] = held
      await real.release(hold)
      model.of(name).release(hold, model.now)
    },
    ({ held }) => held.length > 0
  )

/** Commands about the policy come often, commands by hand seldom. */
const anyCommands = (maxCommands: number, requests: boolean): fc.Arbitrary<Iterable<Command>> => {
  const name = fc.constantFrom(...names)
  const which = fc.nat(5)
  const started = fc
    .tuple(
      fc.constantFrom(["a"], ["a"], ["a"], ["b"], ["a", "b"]),
      fc.constantFrom("x", "y", "z"),
      fc.constantFrom<Via>("execute", "execute", "acquire", "stream"),
      requests ? fc.record({ lastResort: fc.boolean(), waited: fc.boolean() }) : fc.constant({})
    )
    .map(([asked, who, via, request]) => start(asked, who, via, request))
  const ended = fc
    .tuple(
      which,
      fc.constantFrom<Ending>(
        "success",
        "success",
        "failure",
        "failure",
        "failure",
        "defect",
        "refusal",
        "interruption"
      ),
      fc.constantFrom(undefined, undefined, undefined, 0, 25, 100)
    )
    .map(([which, ending, retryAfter]) => end(which, ending, retryAfter))
  const moved = fc.oneof(
    fc.constantFrom(1, 5, 10, 50, 100, ...(requests ? [1_000] : [])).map(advance),
    fc.tuple(which, fc.constantFrom(0, 0, 1)).map(([which, before]) => toTheEnd(which, before))
  )
  const byHand = fc.oneof(
    fc
      .tuple(name, fc.constantFrom(undefined, 0, 7, 500, ...(requests ? [10_000, 10_000] : [])))
      .map(([name, length]) => trip(name, length)),
    name.map(reset),
    name.map(isolate),
    which.map(release),
    which.map(release)
  )
  const resorted = fc
    .tuple(
      name,
      fc.array(fc.constantFrom<Ending>("success", "failure", "refusal"), { minLength: 2, maxLength: 5 })
    )
    .map(([name, endings]) => resorts(name, endings))
  // Weighted by repetition, because fc.commands draws evenly from its list.
  const usual = [started, started, started, ended, ended, ended, ended, moved, moved, byHand]
  return fc.commands(requests ? [...usual, resorted] : usual, {
    maxCommands,
    size: "max"
  })
}

// -----------------------------------------------------------------------------
// Runs
// -----------------------------------------------------------------------------

/** A summary of a run: the number of commands, and of each change of phase. */
export interface Tally {
  readonly commands: number
  readonly transitions: ReadonlyMap<string, number>
}

/**
 * Runs random commands until `commands` of them ran. Throws the shortest run that shows a difference, with the seed
 * that repeats it. Each run has a new seed, unless one is given.
 */
export const runModel = async (
  make: MakeReal,
  options: {
    readonly commands: number
    readonly seed?: number | undefined
    /** True when calls may be waiting or have no alternative. Default: false. */
    readonly requests?: boolean | undefined
  }
): Promise<Tally> => {
  const transitions = new Map<string, number>()
  let commands = 0
  const property = fc.asyncProperty(
    anyRules,
    anyCommands(60, options.requests === true),
    async (rules, commandsOfRun) => {
      const real = await make(optionsOf(rules))
      const model = new Model(rules)
      try {
        await fc.asyncModelRun(() => ({ model, real }), commandsOfRun)
        assert.deepStrictEqual(await real.transitions(), model.log)
      } finally {
        await real.close()
      }
      commands += model.commands
      for (const line of model.log) {
        const change = line.slice(line.indexOf(":") + 1)
        transitions.set(change, (transitions.get(change) ?? 0) + 1)
      }
    }
  )
  for (let round = 0; commands < options.commands; round++) {
    await fc.assert(property, {
      numRuns: 50,
      ...(options.seed === undefined ? {} : { seed: options.seed + round })
    })
  }
  return { commands, transitions }
}
