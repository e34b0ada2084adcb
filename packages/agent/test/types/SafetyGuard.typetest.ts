/** Checked by `tsc -b`; never run. */
import type { Stream } from "effect"
import { Effect, Layer, Schema } from "effect"
import type { LanguageModel } from "effect/ai"
import { Tool, Toolkit } from "effect/ai"
import { Agent, SafetyGuard } from "@outlast/agent"
import type { AgentFailed, Outcome } from "@outlast/agent"

const Kit = Toolkit.make(Tool.make("look", { success: Schema.String }))
type Needs = LanguageModel.LanguageModel | Tool.HandlersFor<typeof Kit.tools>

// The stop is an error at the boundary, besides those of the program.
export const guarded: Effect.Effect<
  Outcome.Outcome,
  AgentFailed.AgentFailed | SafetyGuard.SafetyStop,
  Needs
> = SafetyGuard.run({ toolCalls: 10 })(Agent.run({ prompt: "x", toolkit: Kit }))
export const streamed: Stream.Stream<Agent.Part, AgentFailed.AgentFailed | SafetyGuard.SafetyStop, Needs> =
  SafetyGuard.runStream()(Agent.stream({ prompt: "x", toolkit: Kit }))

// The stop must be handled there.
// @ts-expect-error: the stop is not handled
export const unhandled: Effect.Effect<Outcome.Outcome, AgentFailed.AgentFailed, Needs> = Effect.map(
  guarded,
  (outcome) => outcome
)

// Inside of the guard the stop is in no error channel, so there is nothing to catch.
export const inside: Effect.Effect<Outcome.Outcome, AgentFailed.AgentFailed, Needs> = Agent.run({
  prompt: "x",
  toolkit: Kit
})
inside.pipe(
  // @ts-expect-error: an agent never fails with it
  Effect.catchTag("SafetyStop", () => Effect.void)
)

// A program that requires a guard does not run without one.
export const wants: Effect.Effect<number, never, SafetyGuard.SafetyGuard> = Effect.map(
  Effect.flatMap(SafetyGuard.SafetyGuard, ({ report }) => report),
  ({ counts }) => counts.toolCalls
)
export const given: Effect.Effect<number, SafetyGuard.SafetyStop> = SafetyGuard.run()(wants)
// @ts-expect-error: the guard is required
export const without: Effect.Effect<number> = Effect.map(wants, (calls) => calls)

// A guarded model and guarded handlers can be made only inside of `run`.
declare const Foreign: Layer.Layer<LanguageModel.LanguageModel>
const Guarded = SafetyGuard.layerModel.pipe(Layer.provide(Foreign))
export const model: Layer.Layer<LanguageModel.LanguageModel, never, SafetyGuard.SafetyGuard> = Guarded
// @ts-expect-error: the guard is required
export const loose: Layer.Layer<LanguageModel.LanguageModel> = Guarded
export const kit: Effect.Effect<
  Toolkit.WithHandler<typeof Kit.tools>,
  never,
  Tool.HandlersFor<typeof Kit.tools> | SafetyGuard.SafetyGuard
> = SafetyGuard.toolkit(Kit)

// A program can read its guard, but not change it.
export const report = Effect.gen(function* () {
  const guard = yield* SafetyGuard.SafetyGuard
  // @ts-expect-error: only the host can extend
  yield* guard.extend({ toolCalls: 100 })
})
// @ts-expect-error: no such limit
SafetyGuard.run({ toolcalls: 10 })
