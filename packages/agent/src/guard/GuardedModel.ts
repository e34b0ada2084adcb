/**
 * A `LanguageModel` under a guard: each call is admitted and counted, its answer is counted, and the tools that it
 * resolves are guarded.
 *
 * Models of `Failover` and `Direct` are guarded automatically: they look up the guard of the calling fiber. Without a
 * guard this costs nothing. `SafetyGuard.run` guards the model that surrounds it; `SafetyGuard.layerModel` guards a
 * model that is provided inside.
 *
 * Nudges of the loop detector are added to the next call as a user message that is not kept in the conversation.
 */
import { Context, Effect, Option, Stream } from "effect"
import type { Scope } from "effect"
import { LanguageModel, Prompt } from "effect/ai"
import type { Response, Tool, Toolkit } from "effect/ai"
import * as Surface from "../failover/call/Surface.ts"
import { bareOf } from "../failover/CallGuard.ts"
import { ActiveTime, Activity, whilePulled } from "../conversation/ActiveTime.ts"
import type { AnyFiber, Branch } from "./Branch.ts"
import { branchOf, placed } from "./Branch.ts"
import { toolkit } from "./GuardedTool.ts"
import { held } from "./Held.ts"

type Service = Context.Service.Shape<typeof LanguageModel.LanguageModel>

/** Options common to the three methods. Their types belong to the caller; a guarded call changes none of them. */
interface Options {
  readonly prompt: Prompt.RawInput
  readonly toolkit?: unknown
  readonly disableToolCallResolution?: boolean | undefined
}
type Whole = (
  options: Options
) => Effect.Effect<{ readonly content: ReadonlyArray<Response.AnyPart> }, unknown>
type Streaming = (options: Options) => Stream.Stream<Response.AnyPart, unknown>
type BranchOf = (fiber: AnyFiber) => Branch | undefined

/** The original model of each guarded one. */
const plain = new WeakMap<object, Service>()

/** Guarded models by original model; each uses the guard of the calling fiber. */
const guarded = new WeakMap<object, Service>()

const unguarded = (model: Service): Service => bareOf(plain.get(model) ?? model)

/**
 * Guards a model with the guard of the calling fiber. Without a guard, calls go to the model itself. A model is
 * wrapped only once.
 */
export const ambient = (model: Service): Service => {
  if (plain.has(model)) return model
  const own = unguarded(model)
  const known = guarded.get(own)
  if (known !== undefined) return known
  const made = wrap(own, (fiber) => branchOf(fiber))
  guarded.set(own, made)
  return made
}

/**
 * Binds a model to the guards of `branch`. Calls from other fibers count there, too. A fiber deeper in the tree uses
 * its own branch.
 */
export const bound = (model: Service, branch: Branch): Service => {
  const service = wrap(unguarded(model), (fiber) => {
    const current = branchOf(fiber)
    return current !== undefined && branch.guards.every((guard) => current.guards.includes(guard))
      ? current
      : branch
  })
  boundTo.set(service, branch)
  return service
}

/**
 * The branch that the model in the fiber's context is bound to. Finds the guards of a fiber that has left the tree
 * but kept the model.
 */
export const branchOfModel = (fiber: AnyFiber): Branch | undefined => {
  const model = Context.getOption(fiber.context, LanguageModel.LanguageModel)
  return Option.isNone(model) ? undefined : boundTo.get(model.value)
}

const boundTo = new WeakMap<object, Branch>()

const wrap = (model: Service, branchOf: BranchOf): Service => {
  const service = {
    [LanguageModel.TypeId]: LanguageModel.TypeId,
    generateText: whole(model.generateText as Whole, branchOf),
    generateObject: whole(model.generateObject as unknown as Whole, branchOf),
    streamText: streaming(model.streamText as Streaming, branchOf)
    // The methods forward arguments and results unchanged, so the cast is safe.
  } as unknown as Service
  plain.set(service, model)
  return service
}

const whole =
  (ask: Whole, branchOf: BranchOf): Whole =>
  (options) =>
    Effect.withFiber((fiber) => {
      const branch = branchOf(fiber)
      if (branch === undefined) return ask(options)
      return Effect.uninterruptibleMask((restore) => {
        const wasOpen = branch.isOpen
        const prompt = Prompt.make(options.prompt)
        if (!branch.ask(prompt)) return held(branch, fiber, restore, wasOpen)
        const { context, end } = begin(branch, fiber)
        const asked = ask(guardedOptions(branch, options, prompt))
        return Effect.flatMap(
          Effect.onExit(restore(Effect.updateContext(asked, merging(context))), () => end),
          (response) =>
            branch.said(response.content) ? Effect.succeed(response) : held(branch, fiber, restore, true)
        )
      })
    })

const streaming =
  (ask: Streaming, branchOf: BranchOf): Streaming =>
  (options) =>
    Stream.unwrap(
      Effect.withFiber(
        (fiber): Effect.Effect<Stream.Stream<Response.AnyPart, unknown>, never, Scope.Scope> => {
          const branch = branchOf(fiber)
          if (branch === undefined) return Effect.succeed(ask(options))
          return Effect.uninterruptibleMask((restore) => {
            const wasOpen = branch.isOpen
            const prompt = Prompt.make(options.prompt)
            if (!branch.ask(prompt)) return held(branch, fiber, restore, wasOpen)
            const { activity, context, end } = begin(branch, fiber)
            const watched = ask(guardedOptions(branch, options, prompt)).pipe(
              Stream.mapArrayEffect((parts) =>
                Effect.withFiber((fiber) => {
                  const wasOpen = branch.isOpen
                  return said(branch, parts)
                    ? Effect.succeed(parts)
                    : held(branch, fiber, (self) => self, wasOpen)
                })
              ),
              Stream.updateContext(merging(context)),
              whilePulled(activity)
            )
            return Effect.as(
              Effect.addFinalizer(() => end),
              watched
            )
          })
        }
      )
    )

/** Passes the parts on to the branch. Parts that carry a rewind have no content of their own. */
const said = (branch: Branch, parts: ReadonlyArray<Response.AnyPart>): boolean => {
  if (!parts.some((part) => Surface.carriedBy(part)?.type === "rewind")) return branch.said(parts)
  for (const part of parts) {
    if (Surface.carriedBy(part)?.type === "rewind") branch.unsaid()
    else if (!branch.said([part])) return false
  }
  return true
}

const begin = (branch: Branch, fiber: AnyFiber) => {
  const activity = new Activity([fiber.getRef(ActiveTime) ?? branch.activity])
  const leave = branch.enter(fiber)
  return {
    activity,
    context: placed(branch, activity),
    end: Effect.sync(() => {
      activity.end()
      leave()
    })
  }
}

const merging = (context: Context.Context<never>) => (around: Context.Context<never>) =>
  Context.merge(around, context)

const guardedOptions = (branch: Branch, options: Options, prompt: Prompt.Prompt): Options => {
  const nudges = branch.takeNudges()
  const told =
    nudges.length === 0
      ? prompt
      : Prompt.concat(prompt, [
          { role: "user", content: nudges.map((text) => ({ type: "text" as const, text })) }
        ])
  // Unresolved calls run no handler.
  if (options.toolkit === undefined || options.disableToolCallResolution === true) {
    return { ...options, prompt: told }
  }
  return { ...options, prompt: told, toolkit: guardedKit(branch, options.toolkit) }
}

type Kit = Toolkit.WithHandler<Record<string, Tool.Any>>

/** effect/ai accepts handlers, or an Effect that returns them. */
const guardedKit = (branch: Branch, given: unknown): unknown =>
  Effect.isEffect(given)
    ? Effect.map(given as Effect.Effect<Kit>, (kit) => toolkit(kit, inside(branch)))
    : toolkit(given as Kit, inside(branch))

/**
 * The branch of the fiber that calls a handler. A fiber that has left the tree stays under the guards of `branch`.
 */
const inside =
  (branch: Branch): BranchOf =>
  (fiber) =>
    branchOf(fiber) ?? branch
