/**
 * All that is known of a reason beside its fields: its words for users, what may help, and how it compares.
 *
 * Each reason is one file: its class and its definition. `FailoverReason` has the closed union and the record of the
 * definitions, exhaustive by type. What a policy does about a reason stands in `DefaultRows`.
 */
import type { Duration } from "effect"
import type { AiError } from "effect/ai"

/** A failure, as the words of its reason may read it. */
export interface Seen<R> {
  readonly reason: R
  /** The id of the rule that matched. */
  readonly rule: string
  /** ` (HTTP 529)`, or empty where no status was seen. */
  readonly status: string
  /** ` (ECONNRESET)`: what the rule matched; empty where it names nothing. */
  readonly matched: string
  /** `the key`, or its name. */
  readonly key: string
  /** `the name of the model`, or `the name m1`. */
  readonly model: string
  /** `the endpoint`, or its base URL. */
  readonly endpoint: string
}

/** A failure, as an error of effect/ai tells of it. */
interface Told<R> {
  readonly reason: R
  /** The message of the failure. */
  readonly description: string
  readonly retryAfter: Duration.Duration | undefined
  /** The base URL, or empty. */
  readonly url: string
}

/** What may help against a failure, whatever a policy does: the same target again, another key, another target, a smaller request, or nothing. */
type Remedy = "repeat" | "key" | "target" | "compact" | "stop"

export interface ReasonDefinition<R extends { readonly _tag: string }> {
  /** Its name in a labelled corpus, and in what `outlast classify` prints: the tag in snake_case. */
  readonly label: Label<R["_tag"]>
  /** One of each kind, for checks that go over all reasons. */
  readonly samples: ReadonlyArray<R>
  /** The kinds that the label stands for. Default: `samples`. */
  readonly labelled?: ReadonlyArray<R>
  /** What happened: one clause in plain words. */
  readonly happened: (seen: Seen<R>) => string
  /** What to do: one sentence of advice. */
  readonly advice: (seen: Seen<R>) => string
  /** Why another model answers, behind the name of the model: `is overloaded`. */
  readonly notice: string
  /** The nearest reason of effect/ai. */
  readonly nearest: (told: Told<R>) => AiError.AiErrorReason
  /** True when it passes by itself: repeated where there is no chain. */
  readonly isTransient: (reason: R) => boolean
  /** True when only a person can bring the target back. */
  readonly needsPerson: boolean
  /** True when it says something about its provider: not a cancel, nor a request that fails everywhere. */
  readonly isItsFault: (reason: R) => boolean
  /**
   * What a wait that the answer names is worth:
   * - `reset`: it is over when a limit is reset, so headers about limits count
   * - `any`: a wait in a field or in prose counts
   * - `field`: waiting does not help, so a wait in prose is a quotation
   */
  readonly wait: "reset" | "any" | "field"
  /** What may help. A decision is scored against it. */
  readonly remedies: ReadonlyArray<Remedy>
}

/** `RateLimit` is `rate_limit`. */
export type Label<Tag extends string> = Tag extends `${infer First}${infer Rest}`
  ? `${Lowercase<First>}${Tail<Rest>}`
  : ""

type Tail<Text extends string> = Text extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Tail<Rest>}`
  : ""

/** The id of a reason's class. It is part of encoded failures: it never changes. */
export const id = <const Tag extends string>(tag: Tag) => `@outlast/agent/failure/${tag}` as const

export const always = (): boolean => true
export const never = (): boolean => false
