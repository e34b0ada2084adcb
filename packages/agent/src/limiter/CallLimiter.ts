/**
 * Keeps calls from running into limits that are already known: calls that run at the same time, and calls and tokens
 * of a minute, per key and model.
 *
 * Limits come from two places: the user sets them ({@link Options.limits}), and providers name theirs in the headers
 * of every answer (`learn`). A call asks for a permit before it is sent. If there is one it goes on at once; if there
 * will be one soon it waits, interactive calls before background ones (`LimitState` says how exactly); if it would have
 * to wait for longer than it wants to it is refused at once with {@link LimitTooFar}, so that it can go elsewhere. Where
 * nothing is set and nothing was learned a permit costs nothing.
 *
 * Limits are kept in this process, or together with others over a `LimitStore`.
 *
 * **Why not effect's `RateLimiter` alone.** It knows neither concurrency nor priorities, takes no estimate back, and
 * lets twice the limit pass around the edge of a window. It is what processes share the limits over.
 *
 * **What it does not do.** It does not count tokens, and it retries nothing. A 429 that comes all the same is a matter
 * of cooldowns.
 *
 * **Example** (A key that allows 50 calls and 40,000 tokens a minute)
 *
 * ```ts
 * const Limiter = CallLimiter.layer({
 *   limits: { "anthropic/claude-sonnet-4-5": { requestsPerMinute: 50, tokensPerMinute: 40_000 } }
 * })
 * const call = CallLimiter.withPermit({ target, tokens: 1_200, maxWait: "5 seconds" }, (permit) =>
 *   Effect.tap(send, ({ usage }) => permit.settle(usage))
 * )
 * ```
 */
import type { Fiber, Scope } from "effect"
import { Clock, Context, Data, Deferred, Duration, Effect, Exit, Layer } from "effect"
import { MissingService, Options as Check } from "@outlast/resilience"
import type { TargetRef } from "../conversation/TargetRef.ts"
import * as Kind from "../options/Kind.ts"
import type { Asking, Grant, Limits, LimitState, Rule, Step, Verdict } from "./LimitState.ts"
import * as Known from "./KnownLimits.ts"
import * as Limit from "./LimitState.ts"
import type { LimitStore } from "./LimitStore.ts"
import { Priority } from "./Priority.ts"

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** A permit would come too late. The call was not made. */
export class LimitTooFar extends Data.TaggedError("LimitTooFar")<{
  /** The id of the target. */
  readonly target: string
  /** The earliest time for it, in monotonic milliseconds. */
  readonly until: number
  /** Milliseconds until then; at least 1 second where it depends on other calls, for nobody knows that. */
  readonly wait: number
}> {
  override get message(): string {
    const wait = Duration.format(Duration.millis(Math.ceil(this.wait)))
    return `${this.target}: known limits allow no call before ${wait}. Wait, raise the limits, or add another target.`
  }
  /** Nothing was sent: the same call may be made again later, or elsewhere at once. */
  readonly isRetryable = true
  get retryAfter(): Duration.Duration {
    return Duration.millis(this.wait)
  }
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** A call that is about to be made. */
export interface Request {
  readonly target: TargetRef
  /** Tokens that it will take, estimated, input and output together. */
  readonly tokens: number
  /** How many of them are output. Default 0. */
  readonly outputTokens?: number | undefined
  /** Default: what the {@link Priority} of the context says. */
  readonly priority?: Priority | undefined
  /** How long it may wait for a permit. 0: not at all. */
  readonly maxWait: Duration.Input
  /** Run when the call has to wait, before it does. */
  readonly onWait?: ((waiting: Waiting) => Effect.Effect<void>) | undefined
}

/** The wait of a call. */
export interface Waiting {
  /** The limit that takes longest. */
  readonly limit: Limit.LimitStatus["kind"]
  /** Milliseconds at least, as far as that is known: not where it depends on other calls. */
  readonly delay: number | undefined
}

/** One limit of a key and model. Durations are from now. */
export interface LimitStatus extends Pick<Limit.LimitStatus, "kind" | "source" | "limit" | "remaining"> {
  /** Until all of it is there again, if nothing else is used; `undefined`: when calls have ended. */
  readonly resetsIn: Duration.Duration | undefined
  /** How long a call would wait for it now; `undefined`: not at all; infinite: until another call has ended. */
  readonly wait: Duration.Duration | undefined
}

/** The right to make one call. */
export interface Permit {
  /** What the call has used instead of what was estimated. May be told again when more is known. */
  readonly settle: (usage: {
    readonly inputTokens?: number | undefined
    readonly outputTokens?: number | undefined
  }) => Effect.Effect<void>
  /** The call is done. To be run once in any case; more often changes nothing. */
  readonly release: Effect.Effect<void>
}

export interface Service {
  /**
   * A permit at once, or after a wait. Run it where it cannot be interrupted before the release is in place
   * ({@link withPermit} does): the wait itself can be interrupted everywhere.
   */
  readonly acquire: (request: Request) => Effect.Effect<Permit, LimitTooFar>
  /** Whether nothing is known that could limit the target: `acquire` would give its permit at once, and for nothing. */
  readonly isFreeUnsafe: (target: TargetRef) => boolean
  /** Reads the limits that an answer names in its headers (a record, `Headers`, `Map` or list of pairs). */
  readonly learn: (target: TargetRef, headers: unknown) => Effect.Effect<void>
  /** {@link learn} without an Effect. */
  readonly learnUnsafe: (target: TargetRef, headers: unknown) => void
  /** The limits that hold for the target now: set by the user, or named by its provider. */
  readonly limits: (target: TargetRef) => Effect.Effect<ReadonlyArray<LimitStatus>>
  /** Forgets what providers have said of the target's key and model. Gives whether there was something. */
  readonly forget: (target: TargetRef) => Effect.Effect<boolean>
}

export class CallLimiter extends Context.Service<CallLimiter, Service>()(
  "@outlast/agent/limiter/CallLimiter"
) {}

// -----------------------------------------------------------------------------
// Constructors
// -----------------------------------------------------------------------------

export interface Options {
  /**
   * Limits by `provider/model`, each for every key of its own; or a function. Read once for a target.
   * Default: none but what is learned.
   */
  readonly limits?: Readonly<Record<string, Limits>> | ((target: TargetRef) => Limits | undefined) | undefined
  /** Where several processes keep limits of a minute together. Default: each keeps them for itself. */
  readonly store?: LimitStore | undefined
}

const { is } = Check

const limits = Kind.object("limits of a provider/model, for example { requestsPerMinute: 50 }", Limit.checks)

const checks: Check.Checks<Options> = {
  limits: (module, field, value) => {
    if (typeof value !== "function")
      is.record(limits, "limits by provider/model, or a function")(module, field, value)
  },
  store: Kind.having("a LimitStore, as LimitStore.make gives it", "take")
}

const tokens = Kind.where((value) => typeof value === "number", "a number of tokens")

const requestChecks: Check.Checks<Request> = {
  target: is.required(Kind.having("the TargetRef of a target", "id", "provider", "model", "endpoint", "key")),
  tokens: is.required(tokens),
  outputTokens: tokens,
  priority: is.oneOf("interactive", "background"),
  maxWait: is.required(Kind.duration()),
  onWait: is.fn("(waiting) => Effect<void>")
}

/** Keys and models whose limits are kept at the same time; beyond that those that nobody uses are forgotten. */
export const maxLanes = 1_000

/** Somebody who has asked. */
interface Waiter {
  verdict: Verdict | undefined
  /** Where the verdict did not come at once. */
  tell: ((verdict: Verdict) => void) | undefined
}

/** One key and model, of a target that has limits. */
interface Lane {
  /** Names the credential, never its value. */
  readonly name: string
  readonly rule: Rule
  state: LimitState
  readonly waiters: Map<number, Waiter>
  timer: Fiber.Fiber<void> | undefined
  wakeAt: number | undefined
}

/**
 * A limiter of its own. When its scope ends, those who wait are refused.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an option or a limit that is unknown or not allowed; the limits of a
 * function, and a wrong {@link Request}, are a defect of the call.
 */
export const make = (options: Options = {}): Effect.Effect<Service, never, Scope.Scope> => {
  Check.fields("CallLimiter", options, checks)
  const { limits, store } = options
  const ruleOf = ruleBy(limits)
  return Effect.gen(function* () {
    const context = yield* Effect.context<never>()
    const clock = yield* Clock.Clock
    const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
    const lanes = new Map<string, Lane>()
    const known = new WeakMap<TargetRef, { readonly name: string; readonly rule: Rule }>()
    let ids = 0

    const describe = (target: TargetRef) => {
      const found = known.get(target)
      if (found !== undefined) return found
      const { provider, model, endpoint, key } = target
      const made = { name: JSON.stringify([provider, endpoint, model, key]), rule: ruleOf(target) }
      known.set(target, made)
      return made
    }

    const laneAt = (name: string, rule: Rule): Lane => {
      const found = lanes.get(name)
      if (found !== undefined) return found
      if (lanes.size >= maxLanes) forget(lanes, now())
      const state = Limit.initial
      const lane = { name, rule, state, waiters: new Map(), timer: undefined, wakeAt: undefined }
      lanes.set(name, lane)
      return lane
    }

    /** The one place where a lane changes. Synchronous, so that no other call comes between. */
    const apply = (lane: Lane, [verdicts, state]: Step): void => {
      lane.state = state
      const told = verdicts.flatMap((verdict) => {
        const waiter = lane.waiters.get(verdict.id)
        lane.waiters.delete(verdict.id)
        if (waiter === undefined) return []
        waiter.verdict = verdict
        return [{ waiter, verdict }]
      })
      // Not before all have theirs: who hears goes on at once, and may interrupt the others.
      for (const { waiter, verdict } of told) waiter.tell?.(verdict)
      const wakeAt = Limit.wakeAt(lane.rule, lane.state, now())
      if (wakeAt === lane.wakeAt) return
      lane.timer?.interruptUnsafe()
      lane.wakeAt = wakeAt
      lane.timer = wakeAt === undefined ? undefined : Effect.runForkWith(context)(wake(lane, wakeAt))
    }

    const wake = (lane: Lane, at: number): Effect.Effect<void> =>
      Effect.andThen(
        // A timer that rounds down only finds nothing to do, and is set again.
        Effect.sleep(Math.max(0, at - now())),
        Effect.sync(() => {
          lane.timer = undefined
          lane.wakeAt = undefined
          apply(lane, Limit.tick(lane.rule, lane.state, now()))
        })
      )

    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        for (const lane of lanes.values()) {
          const refusals = Array.from(lane.waiters.keys(), (id): Verdict => ({
            _tag: "Refused",
            id,
            until: now()
          }))
          apply(lane, [refusals, { ...lane.state, interactive: [], background: [] }])
        }
      })
    )

    /** The grant of this process. */
    const granted = (
      lane: Lane,
      { target, onWait }: Request,
      asking: Asking
    ): Effect.Effect<Grant, LimitTooFar> => {
      const own: Waiter = { verdict: undefined, tell: undefined }
      lane.waiters.set(asking.id, own)
      apply(lane, Limit.ask(lane.rule, lane.state, asking, now()))
      if (own.verdict !== undefined) return grantOf(own.verdict, target)
      const told = Deferred.makeUnsafe<Verdict>()
      own.tell = (verdict) => Deferred.doneUnsafe(told, Exit.succeed(verdict))
      const wait = Effect.interruptible(Deferred.await(told))
      return (onWait === undefined ? wait : Effect.andThen(onWait(waitingOf(lane, asking)), wait)).pipe(
        // Interrupted, or `onWait` died.
        Effect.onError(() =>
          Effect.sync(() => {
            lane.waiters.delete(asking.id)
            if (own.verdict === undefined) {
              apply(lane, Limit.leave(lane.rule, lane.state, asking.id, now()))
            } else if (own.verdict._tag === "Granted") {
              apply(lane, Limit.undo(lane.rule, lane.state, own.verdict.grant, now()))
            }
          })
        ),
        Effect.flatMap((verdict) => grantOf(verdict, target))
      )
    }

    const waitingOf = ({ rule, state }: Lane, asking: Asking): Waiting => {
      const at = now()
      const { kind, until } = Limit.waitOf(rule, state, asking, at)
      return { limit: kind, delay: until === undefined ? undefined : Math.max(0, until - at) }
    }

    const grantOf = (verdict: Verdict, target: TargetRef): Effect.Effect<Grant, LimitTooFar> =>
      verdict._tag === "Granted" ? Effect.succeed(verdict.grant) : tooFar(target, verdict.until)

    const tooFar = ({ id }: TargetRef, until: number) =>
      Effect.suspend(() =>
        Effect.fail(new LimitTooFar({ target: id, until, wait: Math.max(0, until - now()) }))
      )

    /** The same grant, of all processes together. */
    const reserved = (
      store: LimitStore,
      lane: Lane,
      { target, onWait }: Request,
      grant: Grant,
      deadline: number
    ): Effect.Effect<void, LimitTooFar> => {
      const giveBack = Effect.uninterruptible(takeOf(store, lane, -1, -grant.tokens))
      // Uninterruptible but for the sleep. The store answers within its time limit; what it has given to a call that did
      // not wait for the answer could never be given back.
      return Effect.flatMap(takeOf(store, lane, 1, grant.tokens), (delay) => {
        if (delay === 0) return Effect.void
        const until = now() + delay
        if (until > deadline) return Effect.andThen(giveBack, tooFar(target, until))
        // Whoever comes later would get a later place: here it can still be ordered by priority.
        apply(lane, [[], Limit.hold(lane.state, until)])
        const told = onWait?.({ limit: "shared", delay }) ?? Effect.void
        return Effect.onError(Effect.andThen(told, Effect.interruptible(Effect.sleep(delay))), () => giveBack)
      }).pipe(
        Effect.onExit((exit) =>
          Effect.sync(() => {
            if (Exit.isFailure(exit)) apply(lane, Limit.undo(lane.rule, lane.state, grant, now()))
          })
        )
      )
    }

    const permitOf = (lane: Lane, first: Grant): Permit => {
      let grant = first
      let released = false
      return {
        settle: ({ inputTokens, outputTokens }) =>
          Effect.suspend(() => {
            if (inputTokens === undefined && outputTokens === undefined) return Effect.void
            const more = counted((inputTokens ?? 0) + (outputTokens ?? 0)) - grant.tokens
            const [settled, step] = Limit.settle(lane.rule, lane.state, grant, grant.tokens + more, now())
            grant = settled
            apply(lane, step)
            return store === undefined || more === 0 ? Effect.void : takeOf(store, lane, 0, more)
          }),
        release: Effect.sync(() => {
          if (released) return
          released = true
          apply(lane, Limit.release(lane.rule, lane.state, now()))
        })
      }
    }

    /** What has no limit and has said nothing has no lane. */
    const isFree = (target: TargetRef): boolean => {
      const { name, rule } = describe(target)
      return isUnlimited(rule) && !lanes.has(name)
    }

    const learn = (target: TargetRef, headers: unknown): void => {
      const { name, rule } = describe(target)
      const lane = lanes.get(name)
      const step = Limit.learn(rule, lane?.state ?? Limit.initial, headers, now())
      if (lane !== undefined || step[1] !== Limit.initial) apply(lane ?? laneAt(name, rule), step)
    }

    return {
      acquire: (request) =>
        Effect.withFiber((fiber) => {
          Check.fields("CallLimiter", request, requestChecks)
          const { target, tokens, outputTokens = 0 } = request
          if (isFree(target)) return Effect.succeed(free)
          const { name, rule } = describe(target)
          const lane = laneAt(name, rule)
          const output = Math.min(counted(outputTokens), counted(tokens))
          const asking: Asking = {
            id: ++ids,
            priority: request.priority ?? priorityOf(fiber),
            input: counted(tokens) - output,
            output,
            deadline: now() + Duration.toMillis(Duration.fromInputUnsafe(request.maxWait))
          }
          return Effect.uninterruptible(
            Effect.flatMap(granted(lane, request, asking), (grant) =>
              store === undefined
                ? Effect.succeed(permitOf(lane, grant))
                : Effect.as(reserved(store, lane, request, grant, asking.deadline), permitOf(lane, grant))
            )
          )
        }),
      isFreeUnsafe: isFree,
      learn: (target, headers) => Effect.sync(() => learn(target, headers)),
      learnUnsafe: learn,
      limits: (target) =>
        Effect.sync(() => {
          const { name, rule } = describe(target)
          const at = now()
          const from = (time: number) => Duration.millis(time - at)
          return Limit.limitsAt(rule, lanes.get(name)?.state ?? Limit.initial, at).map(
            ({ kind, source, limit, remaining, resetsAt, freeAt }) => ({
              kind,
              source,
              limit,
              remaining,
              resetsIn: resetsAt === undefined ? undefined : from(resetsAt),
              wait: freeAt > at ? from(freeAt) : undefined
            })
          )
        }),
      forget: (target) =>
        Effect.sync(() => {
          const { name, rule } = describe(target)
          const lane = lanes.get(name)
          if (lane === undefined) return false
          const wasKnown = !Known.isOver(lane.state.known, now())
          apply(lane, Limit.forget(rule, lane.state, now()))
          return wasKnown
        })
    }
  })
}

// -----------------------------------------------------------------------------
// Layers
// -----------------------------------------------------------------------------

/** One limiter for everything that is built with this layer. See {@link make}. */
export const layer = (options: Options = {}): Layer.Layer<CallLimiter> =>
  Layer.effect(CallLimiter, make(options))

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/** Makes a call with a permit, which is released however the call ends. */
export const withPermit = <A, E, R>(
  request: Request,
  call: (permit: Permit) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | LimitTooFar, R | CallLimiter> =>
  Effect.flatMap(MissingService.get(CallLimiter, "CallLimiter", "CallLimiter.layer()"), ({ acquire }) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(acquire(request), (permit) =>
        Effect.ensuring(restore(Effect.suspend(() => call(permit))), permit.release)
      )
    )
  )

// -----------------------------------------------------------------------------
// Internal
// -----------------------------------------------------------------------------

const free: Permit = { settle: () => Effect.void, release: Effect.void }

const priorityOf = (fiber: Fiber.Fiber<unknown, unknown>): Priority =>
  Check.oneOf("CallLimiter", "priority", fiber.getRef(Priority), ["interactive", "background"])

const unlimited = Limit.rule()

const isUnlimited = ({ concurrency, requests, tokens }: Rule): boolean =>
  concurrency === Infinity && requests === Infinity && tokens === Infinity

const ruleBy = (limits: Options["limits"]): ((target: TargetRef) => Rule) => {
  if (limits === undefined) return () => unlimited
  if (typeof limits === "function") return (target) => Limit.rule(limits(target))
  const rules = new Map(Object.entries(limits).map(([name, of]) => [name, Limit.rule(of)]))
  return ({ provider, model }) => rules.get(`${provider}/${model}`) ?? unlimited
}

/** A number of tokens: whole, and never below 0. */
const counted = (tokens: number): number => (Number.isFinite(tokens) ? Math.max(0, Math.ceil(tokens)) : 0)

/** Takes from the limits that a lane has; in how many milliseconds that may be used. */
const takeOf = (
  store: LimitStore,
  { name, rule }: Lane,
  requests: number,
  tokens: number
): Effect.Effect<number> =>
  Effect.zipWith(
    requests === 0 || rule.requests === Infinity
      ? Effect.succeed(0)
      : store.take(`${name}:requests`, rule.requests, requests),
    tokens === 0 || rule.tokens === Infinity
      ? Effect.succeed(0)
      : store.take(`${name}:tokens`, rule.tokens, tokens),
    Math.max
  )

/** Those whose state is worth nothing; if there are none, the oldest that nobody uses. */
const forget = (lanes: Map<string, Lane>, now: number): void => {
  for (const [name, { state }] of lanes) if (Limit.isIdle(state, now)) lanes.delete(name)
  for (const [name, { state }] of lanes) {
    if (lanes.size < maxLanes) return
    if (Limit.isUnused(state)) lanes.delete(name)
  }
}
