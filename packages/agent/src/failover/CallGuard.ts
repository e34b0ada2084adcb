/**
 * Lets a guard wrap every call of the models of this package.
 *
 * A guard provides {@link CallGuard} to its program and holds the fibers that run it ({@link hold}). The models of
 * `Failover` and `Direct` read it from the calling fiber ({@link guardable}). The guard covers the whole call and the
 * tools that the model resolves. Without a guard a call costs one look-up in the fiber.
 *
 * **Limits.** This module checks no limits itself. A fiber that a program forks with its own context is not guarded.
 */
import { Context, Effect, Stream } from "effect"
import type { Fiber } from "effect"
import type { LanguageModel } from "effect/ai"

export type Model = Context.Service.Shape<typeof LanguageModel.LanguageModel>

/** Returns the guarded model. The function runs for every call and should cache its results. */
export type Around = (model: Model) => Model

/** The guard around calls. Default: none. */
export const CallGuard: Context.Reference<Around | undefined> = Context.Reference<Around | undefined>(
  "@outlast/agent/failover/CallGuard",
  { defaultValue: () => undefined }
)

/** The guards of held fibers. A program can remove a guard from its context, but not from here. */
const held = new WeakMap<Fiber.Fiber<unknown, unknown>, Around>()

/** Guards the calls of a fiber, whatever its context says. Returns the release; holds are released in reverse order. */
export const hold = (fiber: Fiber.Fiber<unknown, unknown>, around: Around | undefined): (() => void) => {
  const before = held.get(fiber)
  if (around !== undefined) held.set(fiber, around)
  return () => {
    if (before === undefined) held.delete(fiber)
    else held.set(fiber, before)
  }
}

/** Methods of a model without their types. They pass arguments and results through unchanged. */
interface Methods {
  readonly generateText: Whole
  readonly generateObject: Whole
  readonly streamText: (options: unknown) => Stream.Stream<unknown, unknown>
}
type Whole = (options: unknown) => Effect.Effect<unknown, unknown>

/** The guard around the calls of a fiber. */
export const guardOf = (fiber: Fiber.Fiber<unknown, unknown>): Around | undefined =>
  held.get(fiber) ?? fiber.getRef(CallGuard)

const guarded = (fiber: Fiber.Fiber<unknown, unknown>, model: Model): Methods => {
  const guard = guardOf(fiber)
  // The same methods without their types.
  return (guard === undefined ? model : guard(model)) as unknown as Methods
}

/** The unguarded models by their {@link guardable} versions. */
const bare = new WeakMap<object, Model>()

/** Returns the model with the guard of the calling fiber around each call. Wrapping twice has no further effect. */
export const guardable = (model: Model): Model => {
  if (bare.has(model)) return model
  const methods: Methods = {
    generateText: (options) => Effect.withFiber((fiber) => guarded(fiber, model).generateText(options)),
    generateObject: (options) => Effect.withFiber((fiber) => guarded(fiber, model).generateObject(options)),
    streamText: (options) =>
      Stream.unwrap(Effect.withFiber((fiber) => Effect.succeed(guarded(fiber, model).streamText(options))))
  }
  // The methods have the model's own types.
  const own = { ...model, ...methods } as unknown as Model
  bare.set(own, model)
  return own
}

/** Returns the model without its guard, and any other model as it is. */
export const bareOf = (model: Model): Model => bare.get(model) ?? model
