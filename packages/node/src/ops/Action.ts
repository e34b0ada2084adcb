/**
 * Actions of operators: what a program lets its operators change while it runs.
 *
 * **Example** (Opening a circuit by hand)
 *
 * ```ts
 * const trip = Effect.map(CircuitBreaker.CircuitBreaker, (breaker) =>
 *   Ops.action({
 *     doc: "Opens a circuit.",
 *     params: Schema.Struct({ circuit: Schema.String }),
 *     subject: ({ circuit }) => circuit,
 *     run: ({ circuit }) => Effect.as(breaker.trip(circuit), null)
 *   })
 * )
 * ```
 */
import { Effect, Schema } from "effect"
import type { Json } from "../host/HostService.ts"

/** The action was not carried out. The message is shown to the operator, so it must hold no secrets. */
export class ActionFailed extends Schema.TaggedError<ActionFailed>("@outlast/node/ops/ActionFailed")(
  "ActionFailed",
  {
    /** `params`: the parameters are wrong. `failed`: it could not be carried out. */
    reason: Schema.Literals(["params", "failed"]),
    message: Schema.String
  }
) {}

/** Characters of a subject in the audit event. */
const maxSubject = 200

export interface Done {
  readonly subject: string | undefined
  readonly result: Json
}

export interface Action {
  readonly doc: string
  /** Fails for wrong parameters, before anything is done. */
  readonly run: (params: unknown) => Effect.Effect<Done, ActionFailed>
}

export interface ActionOptions<A, E> {
  /** Description of the action, in one sentence. */
  readonly doc: string
  readonly params: Schema.Decoder<A>
  /** Subject of the action for the audit event: a name, never a secret. */
  readonly subject?: ((params: A) => string) | undefined
  readonly run: (params: A) => Effect.Effect<Json, E>
}

/** An action with parameters that are checked. An error with a `message` is shown to the operator. */
export const action = <A, E extends { readonly message: string }>(options: ActionOptions<A, E>): Action => {
  const decode = Schema.decodeUnknownEffect(options.params, { onExcessProperty: "error" })
  return {
    doc: options.doc,
    run: (params) =>
      Effect.gen(function* () {
        // The message of a schema would repeat the value.
        const decoded = yield* Effect.mapError(
          decode(params),
          () => new ActionFailed({ reason: "params", message: `Wrong parameters. ${options.doc}` })
        )
        const subject = options.subject?.(decoded).replaceAll(/\s+/g, " ").slice(0, maxSubject)
        const result = yield* Effect.mapError(
          options.run(decoded),
          ({ message }) => new ActionFailed({ reason: "failed", message })
        )
        return { subject, result }
      })
  }
}
