/**
 * The definition of a reason besides its fields: the words for users, the remedies, and comparisons.
 *
 * Each reason is one file with its class and its definition. `FailoverReason` has the closed union and the record of
 * the definitions, exhaustive by type. `DefaultRows` decides what a policy does about a reason.
 */
import type { Duration } from "effect"
import type { AiError } from "effect/ai"

/** The parts of a failure that the words of its reason use. */
export interface Seen<R> {
  readonly reason: R
  /** The id of the rule that matched. */
  readonly rule: string
  /** Status in brackets, for example ` (HTTP 529)`; empty without a status. */
  readonly status: string
  /** Value that the rule matched, for example ` (ECONNRESET)`; empty when the rule names none. */
  readonly matched: string
  /** The words `the key`, or the key's name. */
  readonly key: string
  /** The words `the name of the model`, or `the name m1`. */
  readonly model: string
  /** The words `the endpoint`, or its base URL. */
  readonly endpoint: string
}

/** The parts of a failure that an error of effect/ai needs. */
interface Told<R> {
  readonly reason: R
  /** The message of the failure. */
  readonly description: string
  readonly retryAfter: Duration.Duration | undefined
  /** Base URL of the endpoint, or empty. */
  readonly url: string
}

/**
 * Remedies for a failure, independent of any policy: the same target again, another key, another target, a smaller
 * request, or ending the call.
 */
type Remedy = "repeat" | "key" | "target" | "compact" | "stop"

export interface ReasonDefinition<R extends { readonly _tag: string }> {
  /** Tag in snake_case, used in a labelled corpus and by `outlast classify`. */
  readonly label: Label<R["_tag"]>
  /** One failure of each kind, for checks that cover all reasons. */
  readonly samples: ReadonlyArray<R>
  /** Kinds that the label covers. Default: `samples`. */
  readonly labelled?: ReadonlyArray<R>
  /** Describes the failure in one clause of plain words. */
  readonly happened: (seen: Seen<R>) => string
  /** Gives advice in one sentence. */
  readonly advice: (seen: Seen<R>) => string
  /** Explains why another model answers. Follows the name of the model: `is overloaded`. */
  readonly notice: (seen: Seen<R>) => string
  /** Returns the nearest reason of effect/ai. */
  readonly nearest: (told: Told<R>) => AiError.AiErrorReason
  /** True when the failure is transient and worth repeating without a chain. */
  readonly isTransient: (reason: R) => boolean
  /** True when only a person can bring the target back. */
  readonly needsPerson: boolean
  /**
   * True when the failure counts against its provider. A cancel does not count, nor does a request that fails
   * everywhere.
   */
  readonly isItsFault: (reason: R) => boolean
  /**
   * Meaning of a wait that the answer names:
   *
   * - `reset`: the failure ends when a limit is reset, so headers about limits count
   * - `any`: a wait in a field or in prose counts
   * - `field`: waiting does not help, so a wait in prose is only a quotation
   */
  readonly wait: "reset" | "any" | "field"
  /** Remedies that may help. The score of a decision uses them. */
  readonly remedies: ReadonlyArray<Remedy>
}

/** Converts a tag to its label: `RateLimit` to `rate_limit`. */
export type Label<Tag extends string> = Tag extends `${infer First}${infer Rest}`
  ? `${Lowercase<First>}${Tail<Rest>}`
  : ""

type Tail<Text extends string> = Text extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Tail<Rest>}`
  : ""

/** Returns the id of a reason's class. Encoded failures contain it, so it never changes. */
export const id = <const Tag extends string>(tag: Tag) => `@outlast/agent/failure/${tag}` as const

/** True for a base URL without a version in its path, such as `/v1` or `/v1beta`. Most providers need one. */
export const lacksVersion = (endpoint: string): boolean =>
  /^https?:/.test(endpoint) && !/\/v\d\w*(?=\/|$)/.test(endpoint)

export const always = (): boolean => true
export const never = (): boolean => false
