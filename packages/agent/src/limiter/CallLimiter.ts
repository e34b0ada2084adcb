/**
 * Keeps calls below known limits: concurrency, calls per minute and tokens per minute, by key and model.
 *
 * Limits come from two sources: the user sets them ({@link Options.limits}), and providers name theirs in the headers
 * of every answer (`learn`). A call acquires a permit before it is sent. An available permit is granted at once. A
 * permit that is available soon is awaited, interactive calls before background ones (`LimitState` defines the
 * order). When the wait would exceed the call's maximum, the call is rejected at once with {@link LimitTooFar}, so
 * that it can use another target. Without any limit a permit costs nothing.
 *
 * Limits are kept in this process, or shared with other processes over a `LimitStore`.
 *
 * **Why not only effect's `RateLimiter`.** It has no concurrency and no priorities, cannot correct an estimate, and
 * lets twice the limit pass around the edge of a window. It is used to share limits between processes.
 *
 * **What it does not do.** It neither counts tokens nor retries. A 429 in spite of the limits is handled by
 * cooldowns.
 *
 * **Example** (A key with 50 calls and 40,000 tokens per minute)
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
import { Clock, Config, Context, Data, Deferred, Duration, Effect, Exit, Layer } from "effect"
import { MissingService, Options as Check } from "@outlast/resilience"
import type { TargetRef } from "../conversation/TargetRef.ts"
import { waitInWords } from "../failure/reasons/ProviderFailure.ts"
import * as Kind from "../options/Kind.ts"
import type { Asking, Grant, Limits, LimitState, Rule, Step, Verdict } from "./LimitState.ts"
import * as Known from "./KnownLimits.ts"
import * as Limit from "./LimitState.ts"
import type { LimitStore } from "./LimitStore.ts"
import { Priority } from "./Priority.ts"

// -----------------------------------------------------------------------------
// Errors
// -----------------------------------------------------------------------------

/** A permit would be available too late. The call was not sent. */
export class LimitTooFar extends Data.TaggedError("LimitTooFar")<{
  /** Id of the target. */
  readonly target: string
  /** Earliest time of a permit, in monotonic milliseconds. */
  readonly until: number
  /** Milliseconds until then. At least 1 second when it depends on the end of other calls, which is unknown. */
  readonly wait: number
}> {
  override get message(): string {
    const wait = waitInWords(Duration.millis(this.wait))
    return `${this.target}: known limits allow no call for another ${wait}. Wait, raise the limits, or add another target.`
  }
  /** Nothing was sent: the call can be repeated later, or sent to another target at once. */
  readonly isRetryable = true
  get retryAfter(): Duration.Duration {
    return Duration.millis(this.wait)
  }
}

// -----------------------------------------------------------------------------
// Service
// -----------------------------------------------------------------------------

/** A call that is about to be sent. */
export interface Request {
  readonly target: TargetRef
  /** Estimated tokens of the call, input and output together. */
  readonly tokens: number
  /** Estimated output tokens, part of `tokens`. Default 0. */
  readonly outputTokens?: number | undefined
  /** Default: the {@link Priority} of the context. */
  readonly priority?: Priority | undefined
  /** Maximum wait for a permit. 0 means no wait. */
  readonly maxWait: Duration.Input
  /** Runs once before the call starts to wait. */
  readonly onWait?: ((waiting: Waiting) => Effect.Effect<void>) | undefined
}

/** Describes the wait of a call. */
export interface Waiting {
  /** The limit that takes longest. */
  readonly limit: Limit.LimitStatus["kind"]
  /** Minimum wait in milliseconds; `undefined` when it depends on the end of other calls. */
  readonly delay: number | undefined
}

/** One limit of a key and model. Durations are relative to now. */
export interface LimitStatus extends Pick<Limit.LimitStatus, "kind" | "source" | "limit" | "remaining"> {
  /**
   * Time until the limit is fully available again without further use; `undefined` when it depends on the end of
   * calls.
   */
  readonly resetsIn: Duration.Duration | undefined
  /** Time that a call would wait for it now; `undefined` for no wait, infinite when another call must end first. */
  readonly wait: Duration.Duration | undefined
}

/** The permission to make one call. */
export interface Permit {
  /** Replaces the estimate with the real usage. Can be called again when more is known. */
  readonly settle: (usage: {
    readonly inputTokens?: number | undefined
    readonly outputTokens?: number | undefined
  }) => Effect.Effect<void>
  /** Ends the call. Run it exactly once; further runs have no effect. */
  readonly release: Effect.Effect<void>
}

export interface Service {
  /**
   * Acquires a permit, at once or after a wait. Run it uninterruptibly until the release is in place
   * ({@link withPermit} does). The wait itself can be interrupted anyway.
   */
  readonly acquire: (request: Request) => Effect.Effect<Permit, LimitTooFar>
  /** True when no limit of the target is known. `acquire` then grants its permit at once, without cost. */
  readonly isFreeUnsafe: (target: TargetRef) => boolean
  /** Reads limits from the headers of an answer (a record, `Headers`, `Map` or list of pairs). */
  readonly learn: (target: TargetRef, headers: unknown) => Effect.Effect<void>
  /** Like {@link learn}, without an Effect. */
  readonly learnUnsafe: (target: TargetRef, headers: unknown) => void
  /** The current limits of the target, set by the user or named by its provider. */
  readonly limits: (target: TargetRef) => Effect.Effect<ReadonlyArray<LimitStatus>>
  /** Forgets the limits that providers named for the target's key and model. Returns true when there were any. */
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
   * Limits by `provider/model`, separately for every key; or a function, called once per target. Default: only
   * learned limits.
   */
  readonly limits?: Readonly<Record<string, Limits>> | ((target: TargetRef) => Limits | undefined) | undefined
  /** Shares per-minute limits between processes. Default: each process keeps its own. */
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

/** Maximum number of keys and models with stored limits. Beyond it, unused ones are forgotten. */
export const maxLanes = 1_000

/** A call that waits for a verdict. */
interface Waiter {
  verdict: Verdict | undefined
  /** Set when the verdict did not come at once. */
  tell: ((verdict: Verdict) => void) | undefined
}

/** State of one key and model with limits. */
interface Lane {
  /** Contains the name of the credential, never its value. */
  readonly name: string
  readonly rule: Rule
  state: LimitState
  readonly waiters: Map<number, Waiter>
  timer: Fiber.Fiber<void> | undefined
  wakeAt: number | undefined
}

/**
 * Creates a limiter. Waiting calls are rejected when its scope ends.
 *
 * Throws an `InvalidOption` (a `RangeError`) for an unknown or invalid option or limit. An invalid limit from a
 * function, or an invalid {@link Request}, is a defect of the call.
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

    /** The only place where a lane changes. Synchronous, so that no other call interferes. */
    const apply = (lane: Lane, [verdicts, state]: Step): void => {
      lane.state = state
      const told = verdicts.flatMap((verdict) => {
        const waiter = lane.waiters.get(verdict.id)
        lane.waiters.delete(verdict.id)
        if (waiter === undefined) return []
        waiter.verdict = verdict
        return [{ waiter, verdict }]
      })
      // Notify only after all verdicts are set: a notified call continues at once, and may interrupt others.
      for (const { waiter, verdict } of told) waiter.tell?.(verdict)
      const wakeAt = Limit.wakeAt(lane.rule, lane.state, now())
      if (wakeAt === lane.wakeAt) return
      lane.timer?.interruptUnsafe()
      lane.wakeAt = wakeAt
      lane.timer = wakeAt === undefined ? undefined : Effect.runForkWith(context)(wake(lane, wakeAt))
    }

    const wake = (lane: Lane, at: number): Effect.Effect<void> =>
      Effect.andThen(
        // A timer that fires early finds nothing to do, and is set again.
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

    /** Acquires a grant within this process. */
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
        // The wait was interrupted, or `onWait` died.
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

    /** Reserves the grant in the shared store. */
    const reserved = (
      store: LimitStore,
      lane: Lane,
      { target, onWait }: Request,
      grant: Grant,
      deadline: number
    ): Effect.Effect<void, LimitTooFar> => {
      const giveBack = Effect.uninterruptible(takeOf(store, lane, -1, -grant.tokens))
      // Only the sleep can be interrupted. The store answers within its time limit. An answer that nothing waits for
      // could never be returned.
      return Effect.flatMap(takeOf(store, lane, 1, grant.tokens), (delay) => {
        if (delay === 0) return Effect.void
        const until = now() + delay
        if (until > deadline) return Effect.andThen(giveBack, tooFar(target, until))
        // Hold back all calls of this process until then: a later reservation would get a later place, and here calls
        // can still be ordered by priority.
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

    /** True when the target has no limit and has named none: it has no lane. */
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

/**
 * {@link layer} with settings from `effect/Config`, such as environment variables. A field that is not named keeps its
 * default.
 *
 * **Example**
 *
 * ```ts
 * const limits = Config.map(Config.Int("REQUESTS_PER_MINUTE"), (requestsPerMinute) => ({
 *   "anthropic/claude-sonnet-4-5": { requestsPerMinute }
 * }))
 * CallLimiter.layerConfig({ limits })
 * ```
 */
export const layerConfig = (options: Config.Wrap<Options>): Layer.Layer<CallLimiter, Config.ConfigError> =>
  Layer.unwrap(
    Effect.gen(function* () {
      return layer(yield* Config.unwrap<Options>(options))
    })
  )

// -----------------------------------------------------------------------------
// Combinators
// -----------------------------------------------------------------------------

/** Runs a call with a permit, and always releases it. */
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

/** Rounds up to a whole number of tokens, at least 0. */
const counted = (tokens: number): number => (Number.isFinite(tokens) ? Math.max(0, Math.ceil(tokens)) : 0)

/** Reserves in the shared store. Returns the milliseconds until the reservation may be used. */
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

/** Drops lanes whose state is empty. When there are too few of these, drops the oldest unused ones. */
const forget = (lanes: Map<string, Lane>, now: number): void => {
  for (const [name, { state }] of lanes) if (Limit.isIdle(state, now)) lanes.delete(name)
  for (const [name, { state }] of lanes) {
    if (lanes.size < maxLanes) return
    if (Limit.isUnused(state)) lanes.delete(name)
  }
}
