/**
 * A tool call under a guard: admitted, counted, run, and reported.
 *
 * Two forms: {@link run} for a call as an Effect, used by `Agent`, and {@link toolkit} for the handlers of a toolkit,
 * whose results are streams.
 *
 * Order of the checks: loops, if the host has a permission hook; then the hook, which may take its time; then loops,
 * limits and counting in one synchronous step; then the tool runs. A refused or blocked call has a result that says
 * so. A call that trips the guard has no result.
 */
import { Cause, Context, Effect, Exit, Predicate, Stream } from "effect"
import type { Scope } from "effect"
import { Tool } from "effect/ai"
import type { Toolkit } from "effect/ai"
import { ResilienceEvents, Warnings } from "@outlast/resilience"
import { whilePulled } from "../conversation/ActiveTime.ts"
import type { Activity } from "../conversation/ActiveTime.ts"
import type { Admission, AnyFiber, Branch, Refusal, Warning } from "./Branch.ts"
import { branchOf, place } from "./Branch.ts"
import { kindOf } from "./Guard.ts"
import type { Permission } from "./Guard.ts"
import type { Call, Result } from "./GuardedConversation.ts"
import type { GuardBlocked, GuardNudged } from "./GuardEvent.ts"
import { blockedText } from "./GuardEvent.ts"
import { held } from "./Held.ts"
import type { Hints } from "./LoopDetector.ts"

/** How to run a call, and how to represent a refused one. */
export interface Handling<A, E, R> {
  readonly run: Effect.Effect<A, E, R>
  readonly refused: (message: string) => A
  /** Called once for each call that does not run. */
  readonly blocked: (refusal: Refusal) => void
  readonly resultOf: (value: A) => Result
}

/** Runs a call if the guards admit it. Outside of a guard it always runs. */
export const run = <A, E, R>(call: Call, handling: Handling<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const branch = branchOf(fiber)
    if (branch === undefined) return handling.run
    const denied: Denied = (message) => handling.resultOf(handling.refused(message))
    const notRun = (refusal: Refusal) => {
      handling.blocked(refusal)
      return handling.refused(refusal.message)
    }
    const permitted = Effect.uninterruptibleMask((restore) => {
      const begun = begin(branch, call, fiber, denied)
      if (begun._tag === "Held") return held(branch, fiber, restore, begun.tripped)
      if (begun._tag === "Blocked") return Effect.as(begun.told, notRun(begun.refusal))
      return Effect.onExit(
        restore(Effect.andThen(begun.told, Effect.provideContext(handling.run, begun.context))),
        (exit) =>
          Effect.sync(() =>
            begun.ended(Exit.isSuccess(exit) ? handling.resultOf(exit.value) : resultOf(exit))
          )
      )
    })
    if (!asks(branch)) return permitted
    return Effect.flatMap(permission(branch, call, denied), (answer) => {
      if (answer._tag === "Permitted") return permitted
      return answer._tag === "Refused"
        ? Effect.sync(() => notRun(answer.refusal))
        : Effect.uninterruptibleMask((restore) => held(branch, fiber, restore, answer.tripped))
    })
  })

/** Guards the handlers of a toolkit, by the branch that `branchOf` finds for the calling fiber. */
export const toolkit = <Tools extends Record<string, Tool.Any>>(
  kit: Toolkit.WithHandler<Tools>,
  branchOf: (fiber: AnyFiber) => Branch | undefined
): Toolkit.WithHandler<Tools> => {
  if (guarded.has(kit)) return kit
  // Name and params come from the model, and `handle` checks both.
  const unchecked = kit.handle as unknown as AnyHandle
  const handle = (name: string, params: unknown, id = "", ...rest: ReadonlyArray<unknown>) => {
    const plain = Stream.unwrap(unchecked(name, params, id, ...rest))
    return Effect.succeed(handled({ id, name, params, hints: hintsOf(kit.tools[name]) }, plain, branchOf))
  }
  // The results are those of the handlers, or refusals, which every tool may return.
  const wrapped = { tools: kit.tools, handle: handle as unknown as Toolkit.WithHandler<Tools>["handle"] }
  guarded.add(wrapped)
  return wrapped
}

const guarded = new WeakSet<object>()

/** The hints that a tool was annotated with. Defaults are left out, because they carry no information. */
export const hintsOf = (tool: Tool.Any | undefined): Hints | undefined => {
  if (tool === undefined || tool.annotations.mapUnsafe.size === 0) return undefined
  const given = ({ annotations }: Tool.Any, hint: Context.Reference<boolean>): boolean | undefined =>
    annotations.mapUnsafe.has(hint.key) ? Context.get(annotations, hint) : undefined
  return {
    readOnlyHint: given(tool, Tool.Readonly),
    idempotentHint: given(tool, Tool.Idempotent),
    destructiveHint: given(tool, Tool.Destructive)
  }
}

type HandlerResult = Pick<Tool.HandlerResult<Tool.Any>, "encodedResult" | "isFailure" | "preliminary">
type AnyHandle = (
  name: string,
  params: unknown,
  id: string,
  ...rest: ReadonlyArray<unknown>
) => Effect.Effect<Stream.Stream<HandlerResult, unknown>, unknown>

const handled = (
  call: Call,
  plain: Stream.Stream<HandlerResult, unknown>,
  branchOf: (fiber: AnyFiber) => Branch | undefined
): Stream.Stream<HandlerResult, unknown> =>
  Stream.unwrap(
    Effect.withFiber((fiber): Effect.Effect<Stream.Stream<HandlerResult, unknown>, never, Scope.Scope> => {
      const branch = branchOf(fiber)
      if (branch === undefined) return Effect.succeed(plain)
      return Effect.flatMap(permission(branch, call, denied), (answer) =>
        answer._tag === "Refused"
          ? Effect.succeed(Stream.succeed(denial(answer.refusal.message)))
          : Effect.uninterruptibleMask((restore) => {
              if (answer._tag === "Held") return held(branch, fiber, restore, answer.tripped)
              const begun = begin(branch, call, fiber, denied)
              if (begun._tag === "Held") return held(branch, fiber, restore, begun.tripped)
              if (begun._tag === "Blocked")
                return Effect.as(begun.told, Stream.succeed(denial(begun.refusal.message)))
              let last: Result | undefined
              const watched = plain.pipe(
                Stream.tap((result) =>
                  Effect.sync(() => {
                    if (!result.preliminary) last = toResult(result)
                  })
                ),
                Stream.updateContext((context: Context.Context<never>) =>
                  Context.merge(context, begun.context)
                ),
                // The time between two pulls does not count: the handler usually just waits to emit more.
                whilePulled(begun.activity)
              )
              return Effect.addFinalizer((exit) =>
                Effect.sync(() => begun.ended(last ?? (Exit.isFailure(exit) ? resultOf(exit) : undefined)))
              ).pipe(Effect.andThen(begun.told), Effect.as(watched))
            })
      )
    })
  )

const toResult = ({ encodedResult, isFailure }: HandlerResult): Result => ({
  encoded: encodedResult,
  isFailure
})

/** Creates the result of a call that does not run, from the reason. */
type Denied = (message: string) => Result

const denied: Denied = (message) => toResult(denial(message))

/** The result of effect/ai for a call that was not executed. Tools of both failure modes accept it. */
const denial = (reason: string): HandlerResult & { readonly result: unknown } => {
  const result = { type: "execution-denied", reason }
  return { result, encodedResult: result, isFailure: true, preliminary: false }
}

/** The result of a failed call; `undefined` when it was interrupted. */
const resultOf = ({ cause }: Exit.Failure<unknown, unknown>): Result | undefined =>
  Cause.hasInterruptsOnly(cause) ? undefined : { encoded: String(Cause.squash(cause)), isFailure: true }

// -----------------------------------------------------------------------------
// Before and after
// -----------------------------------------------------------------------------

const asks = (branch: Branch): boolean => branch.guards.some(({ settings }) => settings.permit !== undefined)

/** The call never resumes. `tripped` is true when this call stopped the guard. */
interface Held {
  readonly _tag: "Held"
  readonly tripped: boolean
}

type Answer = { readonly _tag: "Permitted" } | { readonly _tag: "Refused"; readonly refusal: Refusal } | Held

const allowed: Answer = { _tag: "Permitted" }

/** Asks the permission hooks of the host. Waiting for them is not active time. */
const permission = (branch: Branch, call: Call, denied: Denied): Effect.Effect<Answer> => {
  const guards = branch.guards.filter((guard) => guard.settings.permit !== undefined)
  if (guards.length === 0 || !branch.isOpen) return Effect.succeed(allowed)
  return Effect.gen(function* () {
    // Check for loops first, so that a person is not asked again and again for a call that would be blocked anyway.
    let wasOpen = branch.isOpen
    const stopped = (): Answer => ({ _tag: "Held", tripped: wasOpen })
    const judged = branch.judge(call)
    if (judged._tag === "Stopped") return stopped()
    if (judged._tag === "Block") {
      const refusal = refusalOf(judged)
      if (!branch.deny(call, refusal, denied(refusal.message))) return stopped()
      yield* blocked(call, refusal)
      return { _tag: "Refused", refusal }
    }
    for (const guard of guards) {
      const { permit, texts } = guard.settings
      if (permit === undefined) continue
      const asked = Effect.suspend(() => {
        const hook = permit({ tool: call.name, arguments: call.params })
        if (!Effect.isEffect(hook)) throw new TypeError(`it gave ${kindOf(hook)}, not an Effect`)
        return hook
      })
      const exit = yield* Effect.exit(apart(branch, asked))
      // An interruption from outside ends here. A hook that interrupts itself has given no answer.
      if (Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
        yield* Effect.interruptible(Effect.void)
      wasOpen = branch.isOpen
      if (Exit.isFailure(exit)) {
        guard.failed("The permission hook", Cause.squash(exit.cause))
        return stopped()
      }
      const answer = guard.asking("The permission hook", () => answered(exit.value))
      if (answer === undefined) return stopped()
      if (answer.value === "allow") continue
      const message = texts.refused({ tool: call.name, why: answer.value.refuse })
      const refusal: Refusal = { pattern: "permission", message }
      if (!branch.deny(call, refusal, denied(message))) return stopped()
      branch.observe(call, { encoded: message, isFailure: true })
      yield* blocked(call, { ...refusal, message: `${call.name} was not permitted.` })
      return { _tag: "Refused", refusal }
    }
    return allowed
  })
}

/** Untyped programs may return any value. Anything but the two allowed answers throws. */
const answered = (value: unknown): Permission => {
  if (value === "allow") return value
  if (Predicate.isObject(value) && typeof value["refuse"] === "string") return { refuse: value["refuse"] }
  throw new TypeError(`it gave ${kindOf(value)}, not "allow" or { refuse: "why" }`)
}

/** Runs a hook apart from the running calls and the conversation. A hook that is left behind ends with the run. */
const apart = <A>(branch: Branch, hook: Effect.Effect<A>): Effect.Effect<A> =>
  Effect.withFiber((fiber) =>
    Effect.uninterruptibleMask((restore) => {
      const own = branch.apart(fiber)
      const leave = branch.enter(fiber)
      return Effect.onExit(restore(Effect.provideContext(hook, own.context)), () =>
        Effect.sync(() => {
          own.end()
          leave()
        })
      )
    })
  )

type Begun =
  | Held
  | { readonly _tag: "Blocked"; readonly refusal: Refusal; readonly told: Effect.Effect<void> }
  | {
      readonly _tag: "Running"
      readonly activity: Activity
      readonly context: Context.Context<never>
      readonly told: Effect.Effect<void>
      /** Call it once. Without a result the call was interrupted. */
      readonly ended: (result: Result | undefined) => void
    }

const begin = (branch: Branch, call: Call, fiber: AnyFiber, denied: Denied): Begun => {
  const wasOpen = branch.isOpen
  const admission = branch.admit(call)
  if (admission._tag === "Stopped") return { _tag: "Held", tripped: wasOpen }
  if (admission._tag === "Block") {
    const refusal = refusalOf(admission)
    return branch.deny(call, refusal, denied(refusal.message))
      ? { _tag: "Blocked", refusal, told: blocked(call, refusal) }
      : { _tag: "Held", tripped: wasOpen }
  }
  const inner = branch.tool(fiber)
  const leave = branch.enter(fiber)
  const unplace = place(fiber, branch)
  const finished = branch.called(call)
  return {
    _tag: "Running",
    activity: inner.activity,
    context: inner.context,
    told: admission.warning === undefined ? Effect.void : nudged(admission.warning),
    ended: (result) => {
      inner.end()
      leave()
      unplace()
      if (result === undefined) return
      finished(result)
      branch.observe(call, result)
    }
  }
}

const blocked = (call: Call, refusal: Refusal): Effect.Effect<void> => {
  const event = { tool: call.name, ...refusal }
  return Effect.andThen(
    Warnings.write({ level: "Warn", text: `Guard: ${blockedText(event)}. The model is told why.` }),
    ResilienceEvents.publishNow<GuardBlocked>({ _tag: "GuardBlocked", ...event })
  )
}

const refusalOf = ({ warning }: Extract<Admission, { readonly _tag: "Block" }>): Refusal => ({
  pattern: warning.evidence.pattern,
  message: warning.message
})

const nudged = ({ evidence: { tool, pattern, count } }: Warning): Effect.Effect<void> =>
  ResilienceEvents.publishNow<GuardNudged>({ _tag: "GuardNudged", tool, pattern, count })
