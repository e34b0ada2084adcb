/**
 * Says what the tools of a durable task do outside, and gives their handlers a key that stays the same.
 *
 * A tool whose effect may happen `once` is never started twice. The journal writes an intent before its handler runs; the
 * stored reply is the outcome. After a crash between the two, the effect is in doubt: `reconcile` asks the other side,
 * otherwise the task waits for a person (`Tasks.decide`).
 *
 * **Kinds.** `Journal.effects` decides. Without it: `none` for `Tool.Readonly`, `idempotent` for `Tool.Idempotent` (the
 * hints of MCP servers count), and `once` for every other tool.
 *
 * **Limits.** Records are fenced, not the world. A handler of a paused worker goes on when the worker wakes.
 * `reconcile` is exact only if its answer is final: nothing that was sent earlier can still arrive.
 *
 * **Example** (A payment that happens once)
 *
 * ```ts
 * const Pay = Journal.effects("once")(
 *   Tool.make("pay", { parameters: Schema.Struct({ cents: Schema.Int }), success: Schema.String })
 * )
 * ```
 */
import { Context, Effect, Option } from "effect"
import { Tool } from "effect/ai"
import type { EffectRecord } from "../state/TaskState.ts"
import type { Effects } from "./JournalState.ts"

export type { Effects } from "./JournalState.ts"

/** Answer of the other side about an effect that is in doubt. */
export type Reconciled<Result> =
  | { readonly _tag: "Happened"; readonly result: Result }
  /** Final: nothing that was sent earlier can still arrive. */
  | { readonly _tag: "DidNot" }
  | { readonly _tag: "Unknown" }

type Ask = (record: EffectRecord) => Effect.Effect<Reconciled<unknown>>

const Kind = Context.Reference<Effects | undefined>("@outlast/tasks/journal/Kind", {
  defaultValue: () => undefined
})
const Reconciles = Context.Reference<Ask | undefined>("@outlast/tasks/journal/Reconciles", {
  defaultValue: () => undefined
})

/** Declares the kind of a tool's effect. */
export const effects =
  (kind: Effects) =>
  <T extends Tool.Any>(tool: T): T =>
    // An annotated tool has the type of the tool.
    tool.annotate(Kind, kind) as T

/**
 * Asks the other side whether an effect in doubt has happened. A result is encoded as the handler's would be. An `ask`
 * that dies answers `Unknown`.
 */
export const reconcile = <T extends Tool.Any>(
  tool: T,
  ask: (record: EffectRecord) => Effect.Effect<Reconciled<Tool.SuccessEncoded<T>>>
): T =>
  // An annotated tool has the type of the tool.
  tool.annotate(Reconciles, ask) as T

/** The kind of a tool's effect. A tool that the toolkit does not have cannot run. */
export const kindOf = (tool: Tool.Any | undefined): Effects => {
  if (tool === undefined) return "none"
  const { annotations } = tool
  const declared = Context.get(annotations, Kind)
  if (declared !== undefined) return declared
  if (Context.get(annotations, Tool.Readonly)) return "none"
  return Context.get(annotations, Tool.Idempotent) ? "idempotent" : "once"
}

/** How to ask about a tool's effects; `undefined` if only a person can tell. */
export const askOf = (tool: Tool.Any | undefined): Ask | undefined =>
  tool === undefined ? undefined : Context.get(tool.annotations, Reconciles)

/** An effect that a handler carries out. */
export interface Current {
  /** The idempotency key to send to the other side: the same each time that this call runs. */
  readonly key: string
}

/** The effect of the handler that runs. */
export const CurrentEffect: Context.Reference<Current | undefined> = Context.Reference<Current | undefined>(
  "@outlast/tasks/journal/CurrentEffect",
  { defaultValue: () => undefined }
)

/** The effect of the handler that runs; `none` outside of a task, and for a tool without effects. */
export const current: Effect.Effect<Option.Option<Current>> = Effect.map(
  CurrentEffect,
  Option.fromUndefinedOr
)
