/**
 * Lets a guard wrap every call of the models of this package.
 *
 * A guard provides itself as {@link CallGuard}. The models of `Failover` and `Direct` look for it in the calling
 * fiber. A guard covers the whole call and the tools that the model resolves. Without a guard a call costs one
 * look-up in the fiber.
 */
import { Context, Effect, Stream } from "effect"
import type { Fiber } from "effect"
import type { LanguageModel } from "effect/ai"

export type Model = Context.Service.Shape<typeof LanguageModel.LanguageModel>

/** Returns the guarded model. The function runs for every call and should cache its results. */
export type Around = (model: Model) => Model

/** Default: no guard. */
export const CallGuard: Context.Reference<Around | undefined> = Context.Reference<Around | undefined>(
  "@outlast/agent/failover/CallGuard",
  { defaultValue: () => undefined }
)

/**
 * Guards of fibers that apply regardless of the fiber's context, because a program can remove a guard from the
 * context.
 */
const held = new WeakMap<Fiber.Fiber<unknown, unknown>, Around>()

/** Guards a fiber regardless of its context. Returns a function that restores the previous state. */
export const hold = (fiber: Fiber.Fiber<unknown, unknown>, around: Around | undefined): (() => void) => {
  const before = held.get(fiber)
  if (around !== undefined) held.set(fiber, around)
  return () => {
    if (before === undefined) held.delete(fiber)
    else held.set(fiber, before)
  }
}

const around = (fiber: Fiber.Fiber<unknown, unknown>, model: Model): Model => {
  const guard = held.get(fiber) ?? fiber.getRef(CallGuard)
  return guard === undefined ? model : guard(model)
}

/** The unguarded models by their {@link guardable} versions. */
const bare = new WeakMap<object, Model>()

type Whole = (options: unknown) => Effect.Effect<unknown, unknown>
type Streaming = (options: unknown) => Stream.Stream<unknown, unknown>

/** Returns the model with the guard of the calling fiber around each call. Wrapping twice has no further effect. */
export const guardable = (model: Model): Model => {
  if (bare.has(model)) return model
  const whole =
    (method: "generateText" | "generateObject"): Whole =>
    (options) =>
      Effect.withFiber((fiber) => (around(fiber, model)[method] as Whole)(options))
  const streamText: Streaming = (options) =>
    Stream.unwrap(
      Effect.withFiber((fiber) => Effect.succeed((around(fiber, model).streamText as Streaming)(options)))
    )
  // The methods pass arguments and results through unchanged.
  const own = {
    ...model,
    generateText: whole("generateText"),
    generateObject: whole("generateObject"),
    streamText
  } as unknown as Model
  bare.set(own, model)
  return own
}

/** Returns the model without its guard, and any other model as it is. */
export const bareOf = (model: Model): Model => bare.get(model) ?? model
