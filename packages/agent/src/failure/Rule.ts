/**
 * One row of the classifier's table, and builders for rows of your own.
 *
 * **Example** (A gateway that says "no seats" when it is full)
 *
 * ```ts
 * const seats = Rule.text({
 *   id: "gateway/seats",
 *   why: "Our gateway has a fixed number of seats.",
 *   phrases: ["no (free |)seats"],
 *   reason: new FailoverReason.Overloaded()
 * })
 * Effect.provide(program, Classifier.layerWith([seats]))
 * ```
 */
import type { ErrorFacts } from "./ErrorFacts.ts"
import type { FailoverReason } from "./FailoverReason.ts"
import { finder } from "./Phrase.ts"
import type { Evidence } from "./ProviderFailure.ts"

/** What a rule says when it matches. */
export interface Match {
  readonly reason: FailoverReason
  readonly signal: Evidence["signal"]
  /** The value that decided, short and free of content. */
  readonly matched: string
}

export interface Rule {
  /** `group/name`, unique; it stands in the evidence. */
  readonly id: string
  /** Why this signal means this reason, in one line. */
  readonly why: string
  /** Pure and total. `provider` is the lower-cased name of who answered, or empty. */
  readonly match: (facts: ErrorFacts, provider: string) => Match | undefined
  /** Lower-cased codes and words; without one of them in the facts it cannot match. Absent: always tried. */
  readonly anchors?: ReadonlyArray<string> | undefined
}

/** What all builders take. */
export interface Common {
  readonly id: string
  readonly why: string
  /** The reason, or how to read it off the facts. */
  readonly reason: FailoverReason | ((facts: ErrorFacts) => FailoverReason)
  /** Only errors of providers whose name has one of these in it. */
  readonly providers?: ReadonlyArray<string> | undefined
  /** A further condition. */
  readonly when?: ((facts: ErrorFacts, provider: string) => boolean) | undefined
}

/** A rule on the HTTP status: what a body inside says counts more than what is around it. */
export const status = (
  options: Common & { readonly statuses: ReadonlyArray<number> | ((status: number) => boolean) }
): Rule => {
  const { statuses } = options
  const has = typeof statuses === "function" ? statuses : (status: number) => statuses.includes(status)
  return rule(options, "status", ({ said, status }) => {
    const decisive = said ?? status
    return decisive !== undefined && has(decisive) ? String(decisive) : undefined
  })
}

/** A rule on codes and types of bodies, errno and names of errors; the case of letters does not matter. */
export const code = (
  options: Common & {
    readonly codes: ReadonlyArray<string>
    /** Such a code is found as a word in a sentence, too. For codes that are no word of any language. */
    readonly inText?: boolean | undefined
    /** The signal that the evidence names. Default `code`. */
    readonly signal?: Evidence["signal"] | undefined
  }
): Rule => {
  const known = new Map(options.codes.map((code) => [code.toLowerCase(), code]))
  const texts = options.inText === true ? [...known] : []
  return rule(
    options,
    options.signal ?? "code",
    (facts) => {
      for (const code of facts.codes) {
        const matched = known.get(code)
        if (matched !== undefined) return matched
      }
      for (const [word, matched] of texts) if (facts.words.has(word)) return matched
      return undefined
    },
    [...known.keys()]
  )
}

/** A rule on the words of a message; see `Phrase` for how phrases are written. */
export const text = (
  options: Common & {
    /** One of these must be there. */
    readonly phrases: ReadonlyArray<string>
    /** And one of these. */
    readonly also?: ReadonlyArray<string> | undefined
    /** And none of these. */
    readonly unless?: ReadonlyArray<string> | undefined
  }
): Rule => {
  const find = finder(options.phrases)
  const also = options.also === undefined ? undefined : finder(options.also)
  const unless = options.unless === undefined ? undefined : finder(options.unless)
  return rule(
    options,
    "text",
    (facts) => {
      const matched = find(facts)
      if (matched === undefined) return undefined
      if (also !== undefined && also(facts) === undefined) return undefined
      return unless?.(facts) === undefined ? matched : undefined
    },
    find.anchors
  )
}

/** A rule of any other kind: `find` gives the value that decided. */
export const rule = (
  { id, why, reason, providers, when }: Common,
  signal: Evidence["signal"],
  find: (facts: ErrorFacts) => string | undefined,
  anchors?: ReadonlyArray<string>
): Rule => ({
  id,
  why,
  anchors,
  match: (facts, provider) => {
    if (providers !== undefined && !providers.some((name) => provider.includes(name))) return undefined
    const matched = find(facts)
    if (matched === undefined || when?.(facts, provider) === false) return undefined
    return { reason: typeof reason === "function" ? reason(facts) : reason, signal, matched }
  }
})
