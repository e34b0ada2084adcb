/**
 * One run: the real `Failover` with a real policy over fake models that follow a world, in virtual time.
 *
 * All randomness comes from the seed. The outcome of an attempt depends on its call, its target and its number there
 * (`Draw`), the jitter of the policy on a seeded `Random`.
 */
import { Cause, Clock, Context, Effect, Exit, Fiber, Random, Redacted, Scope, Stream } from "effect"
import { Prompt } from "effect/ai"
import type { Response } from "effect/ai"
import { Classifier, Failover, KeySource } from "@outlast/agent"
import type { ProviderFailure, ProviderModel } from "@outlast/agent"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import type { Arrivals } from "./Arrivals.ts"
import { times } from "./Arrivals.ts"
import type { Chain, Entry } from "./Chains.ts"
import type { DrawKey } from "./Draw.ts"
import type { Options } from "./Policies.ts"
import type { CallLog, Log, Report } from "./Report.ts"
import { report } from "./Report.ts"
import type { Fate } from "./Server.ts"
import { Server } from "./Server.ts"
import * as VirtualTime from "./VirtualTime.ts"
import type { Failing, World } from "./World.ts"
import { serverOf } from "./World.ts"

export interface Simulation {
  readonly world: World
  readonly chain: Chain
  readonly arrivals: Arrivals
  readonly policy: Options
  readonly seed: number
  /** Default `whole`: `generateText`. */
  readonly answers?: "whole" | "stream" | undefined
}

/** Receives each outcome, for tests. */
export type Observer = (drawn: DrawKey, fate: Fate) => void

/** Time after which an unfinished run counts as hanging: a day. */
const until = 86_400_000

/** Runs a simulation. Throws for an invalid policy. */
export const simulate = (simulation: Simulation, observer?: Observer): Report =>
  report(logOf(simulation, observer), disturbanceEnd(simulation))

/** The end of the last outage, or of the last phase with more calls than the next; `undefined` without either. */
export const disturbanceEnd = ({
  world,
  arrivals
}: Pick<Simulation, "world" | "arrivals">): number | undefined => {
  const ends = (world.main.outages ?? []).flatMap(({ to }) => (to === undefined ? [] : [to]))
  const phases = arrivals._tag === "Rate" ? arrivals.phases : []
  let end = 0
  for (const [i, { perSecond, seconds }] of phases.entries()) {
    end += seconds * 1_000
    const next = phases[i + 1]
    if (next !== undefined && next.perSecond < perSecond) ends.push(end)
  }
  return ends.length === 0 ? undefined : Math.max(...ends)
}

/** The log of a run, call by call. */
export const logOf = (simulation: Simulation, observer: Observer = () => {}): Log => {
  const { answers = "whole", arrivals, chain, policy, seed, world } = simulation
  const calls: Array<CallLog> = []
  const requests: Array<number> = []
  const byVendor = chain.map((): Array<number> => [])
  const circuits: Array<Log["circuits"][number]> = []
  let failures = 0
  let target = 0
  const shared: Shared = {
    seed,
    asked: (call, at, vendor) => {
      call.requests++
      requests.push(at)
      byVendor[vendor]?.push(at)
    },
    observer: (drawn, fate) => {
      if (fate._tag === "Failure") failures++
      observer(drawn, fate)
    }
  }
  const [first, ...rest] = chain.map((entry, i) => {
    const spec = specOf(entry, i, target, new Server(serverOf(world, entry.role)), shared)
    target += entry.keys
    return spec
  })
  if (first === undefined) throw new Error("A chain has at least one entry.")

  const program = Effect.gen(function* () {
    // Never closed, so that hanging calls keep hanging.
    const scope = yield* Scope.make()
    const isHealthy = world.healthCheckHangs === true ? () => Effect.never : policy.isHealthy
    const making = Failover.make([first, ...rest], { ...policy, isHealthy })
    const model = yield* Effect.provideService(making, Scope.Scope, scope)
    const prompt = Prompt.make("What is the plan?")
    const asked =
      answers === "whole"
        ? model.generateText({ prompt })
        : Stream.runForEach(model.streamText({ prompt }), seen)
    const call = Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const start = clock.currentTimeMillisUnsafe()
      const log: CallLog = {
        number: calls.length,
        start,
        end: undefined,
        answered: false,
        requests: 0,
        last: 0,
        firstToken: undefined,
        vendor: undefined
      }
      calls.push(log)
      const underWay: UnderWay = { log, attempts: new Map() }
      const exit = yield* Effect.exit(Effect.provideService(asked, CurrentCall, underWay))
      log.end = clock.currentTimeMillisUnsafe()
      log.answered = Exit.isSuccess(exit)
    })
    yield* arriving(arrivals, call)
  })
  const events: ResilienceEvents.Service = {
    ...ResilienceEvents.nowhere,
    publish: (event) =>
      Effect.sync(() => {
        if (event._tag === "CircuitTransition" && "to" in event && "circuit" in event)
          circuits.push({ at: event.at, circuit: String(event.circuit), to: String(event.to), failures })
      })
  }
  const observed = program.pipe(
    Effect.provideService(ResilienceEvents.ResilienceEvents, events),
    Effect.provideService(Warnings.Warnings, false)
  )
  const exit = VirtualTime.run(Random.withSeed(observed, `load-${seed}`), { until })
  if (exit !== undefined && Exit.isFailure(exit)) throw Cause.squash(exit.cause)
  return { calls, requests, byVendor, circuits }
}

const arriving = (arrivals: Arrivals, call: Effect.Effect<void>): Effect.Effect<void> => {
  switch (arrivals._tag) {
    case "AtOnce":
      return Effect.all(
        Array.from({ length: arrivals.calls }, () => call),
        {
          concurrency: "unbounded",
          discard: true
        }
      )
    case "Together":
      return Effect.all(
        Array.from({ length: arrivals.calls }, () => call),
        {
          concurrency: arrivals.together,
          discard: true
        }
      )
    case "Rate":
      return Effect.gen(function* () {
        const fibers: Array<Fiber.Fiber<void>> = []
        for (const at of times(arrivals.phases)) {
          const now = yield* Clock.currentTimeMillis
          if (at > now) yield* Effect.sleep(at - now)
          fibers.push(yield* Effect.forkChild(call))
        }
        yield* Fiber.awaitAll(fibers)
      })
  }
}

// -----------------------------------------------------------------------------
// The fake model
// -----------------------------------------------------------------------------

interface UnderWay {
  readonly log: CallLog
  /** Attempts so far, by target. */
  readonly attempts: Map<number, number>
}

/** Notes the first token of a call. */
const seen = ({ type }: Response.AnyPart): Effect.Effect<void> =>
  type === "text-delta"
    ? Effect.withFiber((fiber) => {
        const log = fiber.getRef(CurrentCall)?.log
        if (log !== undefined)
          log.firstToken ??= fiber.getRef(Clock.Clock).currentTimeMillisUnsafe() - log.start
        return Effect.void
      })
    : Effect.void

const CurrentCall = Context.Reference<UnderWay | undefined>("test/load/CurrentCall", {
  defaultValue: () => undefined
})

interface Shared {
  readonly seed: number
  readonly asked: (call: CallLog, at: number, vendor: number) => void
  readonly observer: Observer
}

const keyName = (n: number): string => `KEY_${n}`

const specOf = (
  { keys }: Entry,
  place: number,
  firstTarget: number,
  server: Server,
  { seed, asked, observer }: Shared
): ProviderModel.TargetSpec => {
  const vendor = `vendor-${place + 1}`

  /** The outcome of one attempt, decided when it is sent. */
  const fateOf = (request: ProviderModel.ProviderRequest): Effect.Effect<Fate> =>
    Effect.withFiber((fiber) => {
      const call = fiber.getRef(CurrentCall)
      if (call === undefined) return Effect.die(new Error("An attempt outside of a call."))
      const key = request.key === undefined ? 1 : Number(Redacted.value(request.key).slice("KEY_".length))
      const target = firstTarget + key - 1
      const attempt = (call.attempts.get(target) ?? 0) + 1
      call.attempts.set(target, attempt)
      const now = fiber.getRef(Clock.Clock).currentTimeMillisUnsafe()
      asked(call.log, now, place)
      const drawn: DrawKey = { seed, call: call.log.number, target, attempt }
      const fate = server.request(drawn, key, now)
      observer(drawn, fate)
      call.log.last = fate._tag === "Hang" ? 0 : Math.ceil(fate.after)
      return Effect.succeed(fate)
    })

  const answered = Effect.withFiber((fiber) => {
    const call = fiber.getRef(CurrentCall)
    if (call !== undefined) call.log.vendor = place
    return Effect.void
  })

  const failing = (
    as: Failing,
    after: number,
    request: ProviderModel.ProviderRequest
  ): Effect.Effect<never, ProviderFailure.ProviderFailure> =>
    Effect.flatMap(Effect.sleep(after), () => {
      if (as.status !== "reset") request.heard?.(headersOf(as))
      return Effect.fail(failureOf(as))
    })

  return {
    provider: vendor,
    model: "model",
    endpoint: `https://${vendor}.test`,
    keys: Array.from({ length: keys }, (_, i) =>
      KeySource.value(keyName(i + 1), Redacted.make(keyName(i + 1)))
    ),
    build: Effect.succeed<ProviderModel.ProviderModel>({
      // As in the constructors of the vendors.
      info: { wholeAnswers: "stream" },
      generateText: (request) =>
        Effect.flatMap(fateOf(request), (fate) => {
          if (fate._tag === "Hang") return Effect.never
          if (fate._tag === "Failure") return failing(fate.as, fate.after, request)
          return Effect.as(Effect.andThen(Effect.sleep(fate.after), answered), [text, finish])
        }),
      streamText: (request) =>
        Stream.unwrap(
          Effect.map(fateOf(request), (fate) => {
            if (fate._tag === "Hang") return Stream.never
            if (fate._tag === "Failure") return Stream.fromEffect(failing(fate.as, fate.after, request))
            const begun = Effect.as(Effect.sleep(fate.firstToken), streamed.slice(0, 2))
            const rest = Effect.andThen(Effect.sleep(fate.after - fate.firstToken), answered)
            const ended = Effect.as(rest, streamed.slice(2))
            return Stream.flattenIterable(Stream.concat(Stream.fromEffect(begun), Stream.fromEffect(ended)))
          })
        )
    })
  }
}

const finish: Response.FinishPartEncoded = {
  type: "finish",
  reason: "stop",
  usage: {
    inputTokens: { uncached: 12, total: 12, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 8, text: 8, reasoning: 0 }
  },
  response: undefined
}
const text: Response.TextPartEncoded = { type: "text", text: "First look, then leap." }
const streamed: ReadonlyArray<Response.StreamPartEncoded> = [
  { type: "text-start", id: "1" },
  { type: "text-delta", id: "1", delta: "First look, " },
  { type: "text-delta", id: "1", delta: "then leap." },
  { type: "text-end", id: "1" },
  finish
]

const headersOf = ({ retryAfter }: Failing): Readonly<Record<string, string>> =>
  retryAfter === undefined ? {} : { "retry-after": String(retryAfter / 1_000) }

/** Cache of classified failures: a world has few kinds of failure, and a run has many failures. */
const failures = new Map<string, ProviderFailure.ProviderFailure>()

const failureOf = (as: Failing): ProviderFailure.ProviderFailure => {
  const name = `${as.status} ${as.retryAfter ?? ""}`
  const known = failures.get(name)
  if (known !== undefined) return known
  const error =
    as.status === "reset"
      ? { message: "terminated", cause: { code: "UND_ERR_SOCKET", message: "other side closed" } }
      : {
          message: `HTTP ${as.status}`,
          statusCode: as.status,
          responseHeaders: headersOf(as),
          responseBody: ""
        }
  const failure = Effect.runSync(Classifier.failure(error, { provider: "vendor", secrets: { values: [] } }))
  failures.set(name, failure)
  return failure
}
