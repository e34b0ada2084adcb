/**
 * The place for a guard around every call of the models of this package.
 *
 * A guard puts itself into {@link CallGuard}; the models of `Failover` and `Direct` look for it in the fiber that calls.
 * It covers the whole call and the tools that the model resolves. Without a guard a call costs one look at the fiber.
 */
import { Context, Effect, Stream } from "effect"
import type { Fiber } from "effect"
import type { LanguageModel } from "effect/ai"

export type Model = Context.Service.Shape<typeof LanguageModel.LanguageModel>

/** Gives the model that guards each of its calls. It is asked for every call and should remember its answers. */
export type Around = (model: Model) => Model

/** Default: no guard. */
export const CallGuard: Context.Reference<Around | undefined> = Context.Reference<Around | undefined>(
  "@outlast/agent/failover/CallGuard",
  { defaultValue: () => undefined }
)

/** Fibers that are guarded whatever their context says: a program can take out of its context what a guard put in. */
const held = new WeakMap<Fiber.Fiber<unknown, unknown>, Around>()

/** Guards a fiber, whatever its context says. Returns what puts it back to how it was. */
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

/** The models behind {@link guardable} ones. */
const bare = new WeakMap<object, Model>()

type Whole = (options: unknown) => Effect.Effect<unknown, unknown>
type Streaming = (options: unknown) => Stream.Stream<unknown, unknown>

/** The model under the guard of the fiber that calls. Once is enough. */
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
  // The methods pass on what they are given and give what they get.
  const own = {
    ...model,
    generateText: whole("generateText"),
    generateObject: whole("generateObject"),
    streamText
  } as unknown as Model
  bare.set(own, model)
  return own
}

/** The model without its guard; any other model as it is. */
export const bareOf = (model: Model): Model => bare.get(model) ?? model
