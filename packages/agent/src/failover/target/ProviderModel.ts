/**
 * The seam: what a target must be able to do.
 *
 * A `ProviderModel` is the two hooks of effect/ai's `LanguageModel.make`, with the key and the output limit
 * as explicit fields of the request and failures typed as `ProviderFailure`. It does one attempt: it never
 * retries, it aborts its request when it is interrupted, and a stream of its that ends without a complete
 * `finish` part fails. A defect of it is a bug and no failure of the provider: it ends the call, and no other target is
 * asked. Everything else, retries, cooldowns, time limits, belongs to the owner of the call. Only of
 * the connection it knows more than its owner: that limit it keeps itself.
 */
import type { Duration, Effect, Redacted, Scope, Stream } from "effect"
import type { IdGenerator, LanguageModel, Response } from "effect/ai"
import type { ProviderFailure } from "../../failure/reasons/ProviderFailure.ts"
import type { KeySource } from "./KeySource.ts"
import type { ModelInfo } from "../../conversation/ModelInfo.ts"

/** One attempt. */
export interface ProviderRequest extends LanguageModel.ProviderOptions {
  /** The credential of this attempt; `undefined` for a target without one. */
  readonly key: Redacted.Redacted | undefined
  /** The most tokens that the answer may have; `undefined` leaves it to the provider's default. */
  readonly maxOutputTokens: number | undefined
  /** Default: none. */
  readonly limits?: RequestLimits | undefined
  /**
   * Gets the headers of the response, good or bad, when they are there, in whatever form the client keeps them.
   * Default: nobody reads them.
   */
  readonly heard?: ((headers: unknown) => void) | undefined
}

/** What only the model can keep. */
export interface RequestLimits {
  /** How long the request may wait for its connection: a `Timeout` in phase `connect` then. */
  readonly connect: Duration.Duration
}

export interface ProviderModel {
  readonly info: ModelInfo
  /** Hands the headers of every response to `heard` when they come: without them, nothing has come. Default false. */
  readonly reportsHeaders?: boolean | undefined
  readonly generateText: (
    request: ProviderRequest
  ) => Effect.Effect<Array<Response.PartEncoded>, ProviderFailure, IdGenerator.IdGenerator>
  readonly streamText: (
    request: ProviderRequest
  ) => Stream.Stream<Response.StreamPartEncoded, ProviderFailure, IdGenerator.IdGenerator>
}

/**
 * An entry of a chain: one model at one endpoint with its keys. It stands for one target per key; these
 * targets are equivalent.
 *
 * `E` is what can go wrong while the model is built: the entry's targets are then out, the others work on.
 */
export interface TargetSpec<out E = never, out R = never> {
  readonly provider: string
  readonly model: string
  /** The base URL, without query and trailing slash; empty for a model without network. */
  readonly endpoint: string
  /** In the order of their use. Empty for a model that needs no key. */
  readonly keys: ReadonlyArray<KeySource>
  readonly build: Effect.Effect<ProviderModel, E, R | Scope.Scope>
}
