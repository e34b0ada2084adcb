/**
 * One row of the classifier's table, and builders for custom rows.
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
import { Schema } from "effect"
import { InvalidOption } from "@outlast/resilience"
import { Options } from "@outlast/resilience"
import * as Kind from "../../options/Kind.ts"
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import type { FailoverReason } from "../reasons/FailoverReason.ts"
import { reasonTags } from "../reasons/FailoverReason.ts"
import { hasWord, isEmpty, oneOf, phrase, wordsOf } from "../facts/Phrase.ts"
import type { Evidence } from "../reasons/ProviderFailure.ts"

/** Result of a rule that matches. */
export interface Match {
  readonly reason: FailoverReason
  readonly signal: Evidence["signal"]
  /** The value that matched, short and without content of the conversation. */
  readonly matched: string
}

export interface Rule {
  /** Unique id, `group/name`, which the evidence shows. */
  readonly id: string
  /** Reason why this signal means this failure, in one line. */
  readonly why: string
  /** Pure. Must not throw. `provider` is the lower-cased name of the provider, or empty. */
  readonly match: Matcher
  /**
   * Parts of the rule, for the index of a table, which tries only parts with an anchor in the facts. `match` is
   * then the first part that matches. Absent: `match` is always tried.
   */
  readonly parts?: ReadonlyArray<Part> | undefined
}

export type Matcher = (facts: ErrorFacts, provider: string) => Match | undefined

/** One of several alternatives of a rule. */
export interface Part {
  readonly match: Matcher
  /**
   * Lower-cased codes, words, tags and statuses. The part can match only if the facts have one of them. Absent:
   * always tried.
   */
  readonly anchors: ReadonlyArray<string> | undefined
  /** The phrase, for a part that matches text. */
  readonly phrase?: string | undefined
}

/**
 * Options of all builders. A builder throws an `InvalidOption` (a `RangeError`) with the rule and the field for an
 * unknown option or one of the wrong kind, an empty id or list, an empty code, or a phrase that matches every text.
 */
export interface Common {
  readonly id: string
  readonly why: string
  /** The reason, or a function that derives it from the facts. */
  readonly reason: FailoverReason | ((facts: ErrorFacts) => FailoverReason)
  /** Restricts the rule to providers whose name contains one of these. Case does not matter. */
  readonly providers?: ReadonlyArray<string> | undefined
  /** Additional condition. */
  readonly when?: ((facts: ErrorFacts, provider: string) => boolean) | undefined
}

const { is } = Options

/** A class is a function, too, but does not return a reason when it is called. */
const isReason = (value: unknown): boolean =>
  (typeof value === "function" && !Schema.isSchema(value)) ||
  (Kind.isObject(value) && reasonTags.some((tag) => tag === value["_tag"]))

const texts = Kind.where((value) => typeof value === "string", "a text")

const statuses: Options.Check = (module, field, value) => {
  if (typeof value !== "function") {
    is.list(is.integer({ min: 100, max: 599 }), "a list of HTTP statuses, or a function")(
      module,
      field,
      value
    )
  }
}

const common: Options.Checks<Common> = {
  id: is.required(Kind.where((value) => typeof value === "string", "a text, group/name")),
  why: is.required(Kind.where((value) => typeof value === "string", "a text")),
  reason: is.required(
    Kind.where(
      isReason,
      "a FailoverReason, for example new FailoverReason.Overloaded(), or a function (facts) => reason"
    )
  ),
  providers: is.list(texts),
  when: is.fn("(facts, provider) => boolean")
}

const statusChecks: Options.Checks<StatusOptions> = {
  ...common,
  statuses: is.required(statuses)
}

const codeChecks: Options.Checks<CodeOptions> = {
  ...common,
  codes: is.required(Kind.list(texts, "a list of codes")),
  inText: is.flag,
  signal: Kind.name
}

const textChecks: Options.Checks<TextOptions> = {
  ...common,
  phrases: is.required(Kind.list(texts, "a list of phrases")),
  also: is.list(texts, "a list of phrases"),
  unless: is.list(texts, "a list of phrases")
}

type StatusOptions = Common & { readonly statuses: ReadonlyArray<number> | ((status: number) => boolean) }

/** A rule on the HTTP status. A status in the body takes precedence over that of the response. */
export const status = (options: StatusOptions): Rule => {
  Options.fields("Rule", options, statusChecks)
  const { statuses } = options
  const known = typeof statuses === "function" ? allStatuses.filter(statuses) : statuses
  check(options.id, "statuses", known)
  const find = ({ said, status }: ErrorFacts): string | undefined => {
    const decisive = said ?? status
    return decisive !== undefined && known.includes(decisive) ? String(decisive) : undefined
  }
  return ofParts(options, "status", [{ find, anchors: known.map(String) }])
}

const allStatuses = Array.from({ length: 500 }, (_, i) => 100 + i)

type CodeOptions = Common & {
  readonly codes: ReadonlyArray<string>
  /** Also searches the codes as words of a sentence. Only for codes that are not words of any language. */
  readonly inText?: boolean | undefined
  /** Kind of signal in the evidence. Default `code`. */
  readonly signal?: Evidence["signal"] | undefined
}

/** A rule on codes and types of bodies, errno and error names. Case does not matter. */
export const code = (options: CodeOptions): Rule => {
  Options.fields("Rule", options, codeChecks)
  check(options.id, "codes", options.codes, (code) => (code.trim() === "" ? "is empty" : undefined))
  const known = new Map(options.codes.map((code) => [code.toLowerCase(), code]))
  const inCodes = (facts: ErrorFacts): string | undefined => {
    for (const code of facts.codes) {
      const matched = known.get(code)
      if (matched !== undefined) return matched
    }
    return undefined
  }
  const words = options.inText === true ? [...known] : []
  return ofParts(options, options.signal ?? "code", [
    { find: inCodes, anchors: [...known.keys()] },
    ...words.map(([word, matched]) => ({
      find: ({ text }: ErrorFacts) => (hasWord(text, word) ? matched : undefined),
      // The index splits some codes into several words, for example `Throttling.RateQuota`.
      anchors: [...wordsOf(word)].toSorted((a, b) => b.length - a.length).slice(0, 1)
    }))
  ])
}

type TextOptions = Common & {
  /** The text must have one of these. */
  readonly phrases: ReadonlyArray<string>
  /** The text must also have one of these. */
  readonly also?: ReadonlyArray<string> | undefined
  /** The text must not have any of these. */
  readonly unless?: ReadonlyArray<string> | undefined
}

/** A rule on the words of a message. See `Phrase` for the syntax of phrases. */
export const text = (options: TextOptions): Rule => {
  Options.fields("Rule", options, textChecks)
  for (const field of ["phrases", "also", "unless"] as const) {
    check(options.id, field, options[field], wrongWith)
  }
  const also = options.also === undefined ? undefined : oneOf(options.also)
  const unless = options.unless === undefined ? undefined : oneOf(options.unless)
  return ofParts(
    options,
    "text",
    options.phrases.map((source) => {
      const words = phrase(source)
      return {
        find: ({ text }: ErrorFacts) => {
          const matched = words.find(text)
          if (matched === undefined || also?.(text) === false || unless?.(text) === true) return undefined
          return matched
        },
        get anchors() {
          return words.anchors
        },
        phrase: source
      }
    })
  )
}

const wrongWith = (source: string): string | undefined => {
  if (/\([^()]*\(/.test(source)) return "has a group inside a group"
  return isEmpty(source) ? "is found in every text" : undefined
}

/** Throws for a list with an empty or invalid item: such a rule would never match, or always. */
const check = <A>(
  id: string,
  field: string,
  list: ReadonlyArray<A> | undefined,
  wrong?: (item: A) => string | undefined
): void => {
  if (list === undefined) return
  if (list.length === 0) throw invalid(field, list, `Rule "${id}": ${field} is an empty list`)
  list.forEach((item, i) => {
    const problem = wrong?.(item)
    if (problem !== undefined) {
      throw invalid(
        `${field}[${i}]`,
        item,
        `Rule "${id}": ${field}[${i}] (${JSON.stringify(item)}) ${problem}`
      )
    }
  })
}

const invalid = (field: string, value: unknown, message: string): InvalidOption =>
  new InvalidOption("Rule", field, value, "one that matches some errors, but not all", message)

/** A rule of any other kind. `find` returns the value that matched. */
export const rule = (
  options: Common,
  signal: Evidence["signal"],
  find: Finding["find"],
  anchors?: Finding["anchors"]
): Rule => {
  Options.fields("Rule", options, common)
  is.fn("(facts) => the value that decided")("Rule", "find", find)
  return ofParts(options, signal, [{ find, anchors }])
}

interface Finding {
  readonly find: (facts: ErrorFacts) => string | undefined
  readonly anchors: Part["anchors"]
  readonly phrase?: Part["phrase"]
}

const ofParts = (
  { id, why, reason, providers, when }: Common,
  signal: Evidence["signal"],
  findings: ReadonlyArray<Finding>
): Rule => {
  if (id.trim() === "") throw invalid("id", id, `Rule: id is empty (why: "${why}")`)
  check(id, "providers", providers, (name) => (name.trim() === "" ? "is empty" : undefined))
  const names = providers?.map((name) => name.toLowerCase())
  const parts = findings.map((finding): Part => ({
    // Computed when a table builds its index.
    get anchors() {
      return finding.anchors
    },
    phrase: finding.phrase,
    match: (facts, provider) => {
      if (names !== undefined && !names.some((name) => provider.includes(name))) return undefined
      const matched = finding.find(facts)
      if (matched === undefined || when?.(facts, provider) === false) return undefined
      return { reason: typeof reason === "function" ? reason(facts) : reason, signal, matched }
    }
  }))
  const match: Matcher = (facts, provider) => {
    for (const part of parts) {
      const found = part.match(facts, provider)
      if (found !== undefined) return found
    }
    return undefined
  }
  return { id, why, match, parts }
}
