/**
 * The interface that every target implements.
 *
 * A `ProviderModel` is the two hooks of effect/ai's `LanguageModel.make`. Key and output limit are explicit fields of
 * the request, and failures are typed as `ProviderFailure`. A model makes one attempt: it never retries, and it
 * aborts its request when it is interrupted. A stream fails when it ends without a complete `finish` part. A defect
 * is a bug and not a failure of the provider: it ends the call without asking another target. Retries, cooldowns and
 * time limits belong to the owner of the call. The model keeps only one limit itself, the one for connecting, because
 * only the model sees the connection.
 */
import type { Duration, Effect, Redacted, Scope, Stream } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { KeySource } from "./KeySource.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"
import type { TargetRef } from "../../conversation/TargetRef.ts"

/** Request of one attempt. */
export interface ProviderRequest extends LanguageModel.ProviderOptions {
  /** Who is asked: the entry's model with one of its keys. */
  readonly target: TargetRef
  /** The last failure of the call, by the tag of its reason. `undefined`: nothing has failed yet. */
  readonly failed?: string | undefined
  /** Credential of this attempt; `undefined` for a target without a key. */
  readonly key: Redacted.Redacted | undefined
  /** Maximum output tokens; `undefined` leaves it to the provider's default. */
  readonly maxOutputTokens: number | undefined
  /** Time limits that the model keeps. Default: none. */
  readonly limits?: RequestLimits | undefined
  /**
   * Receives the headers of the response when they arrive, for good and bad responses, in the client's own form.
   * Default: headers are ignored.
   */
  readonly heard?: ((headers: unknown) => void) | undefined
  /**
   * Called when the model sends the request again within this attempt, because the server had closed an idle connection
   * without a byte of an answer. Default: repeats are not reported.
   */
  readonly repeated?: (() => void) | undefined
  /**
   * The answer so far, when the request asks to continue it. The end of `prompt` has the same, as messages. A model that
   * sends a request of its own, and not the prompt, adds both itself. Default: the request begins an answer.
   */
  readonly continues?: Continuation | undefined
  /** Called for each part of the answer that was read otherwise than it is written. Default: repairs are not reported. */
  readonly repaired?: ((repair: Repair) => void) | undefined
}

/**
 * Names what was unusual in an answer whose meaning is clear:
 *
 * - `usage`: counts that are no counts
 * - `call`: a tool call in another form
 * - `duplicate`: an item or a call that came twice
 * - `finish`: a second status, which is more precise than the finish reason
 * - `item`: an item of another vendor, completed or left out
 */
export type Repair = "usage" | "call" | "duplicate" | "finish" | "item"

/** A cut answer that the request asks to continue. */
export interface Continuation {
  /** Text that the consumer has seen. Empty when it has seen none. */
  readonly partial: string
  /** Message of the user behind it. */
  readonly nudge: string
}

/** Time limits that only the model can keep. */
export interface RequestLimits {
  /** Maximum time to connect. The attempt then fails with a `Timeout` in phase `connect`. */
  readonly connect: Duration.Duration
}

export interface ProviderModel {
  readonly info: ModelInfo
  /**
   * True when the model passes the headers of every response to `heard` as they arrive. A call without headers then
   * counts as silent. Default false.
   */
  readonly reportsHeaders?: boolean | undefined
  readonly generateText: (
    request: ProviderRequest
  ) => Effect.Effect<Array<Response.PartEncoded>, ProviderFailure, IdGenerator.IdGenerator>
  readonly streamText: (
    request: ProviderRequest
  ) => Stream.Stream<Response.StreamPartEncoded, ProviderFailure, IdGenerator.IdGenerator>
}

/**
 * An entry of a chain: one model at one endpoint with its keys. An entry makes one target per key; these targets are
 * equivalent.
 *
 * `E` is the error of building the model. The entry's targets are then dead, and the others keep working.
 */
export interface TargetSpec<out E = never, out R = never> {
  readonly provider: string
  readonly model: string
  /** Base URL without query and trailing slash; empty for a model without network. */
  readonly endpoint: string
  /** Keys in the order of their use. Empty for a model that needs no key. */
  readonly keys: ReadonlyArray<KeySource>
  readonly build: Effect.Effect<ProviderModel, E, R | Scope.Scope>
}
