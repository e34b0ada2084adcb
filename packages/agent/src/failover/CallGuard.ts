/**
 * Where a guard stands around the calls of this package's models.
 *
 * A guard provides {@link CallGuard} to what it runs, and holds the fibers that carry it out ({@link hold}). The models of
 * `Failover` and `Direct` read it from the fiber that calls ({@link guardable}). The guard covers the whole call and the
 * tools that the model resolves. Without one a call costs a look at its fiber.
 *
 * **What it does not do.** It knows nothing of limits, and does not follow a fiber that a program forks with a context of
 * its own making.
 */
import { Context, Effect, Stream } from "effect"
import type { Fiber } from "effect"
import type { LanguageModel } from "effect/ai"

export type Model = Context.Service.Shape<typeof LanguageModel.LanguageModel>

/** Returns the model under guard. The function runs for every call, so it should remember its results. */
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

/** A model as it is called here. The methods pass on what they are given and return what they get: no types are needed. */
interface Methods {
  readonly generateText: Whole
  readonly generateObject: Whole
  readonly streamText: (options: unknown) => Stream.Stream<unknown, unknown>
}
type Whole = (options: unknown) => Effect.Effect<unknown, unknown>

const guarded = (fiber: Fiber.Fiber<unknown, unknown>, model: Model): Methods => {
  const guard = held.get(fiber) ?? fiber.getRef(CallGuard)
  // The same methods, with the types left out.
  return (guard === undefined ? model : guard(model)) as unknown as Methods
}

/** The models behind {@link guardable} ones. */
const bare = new WeakMap<object, Model>()

/** The model under the guard of the fiber that calls. Applying it twice is the same as once. */
export const guardable = (model: Model): Model => {
  if (bare.has(model)) return model
  const methods: Methods = {
    generateText: (options) => Effect.withFiber((fiber) => guarded(fiber, model).generateText(options)),
    generateObject: (options) => Effect.withFiber((fiber) => guarded(fiber, model).generateObject(options)),
    streamText: (options) =>
      Stream.unwrap(Effect.withFiber((fiber) => Effect.succeed(guarded(fiber, model).streamText(options))))
  }
  // The methods of the model itself, with their types.
  const own = { ...model, ...methods } as unknown as Model
  bare.set(own, model)
  return own
}

/** The model without its guard; any other model as it is. */
export const bareOf = (model: Model): Model => bare.get(model) ?? model
