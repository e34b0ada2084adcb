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
import { Schema } from "effect"
import { InvalidOption } from "@outlast/resilience"
import { Options } from "@outlast/resilience"
import * as Kind from "../../options/Kind.ts"
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import type { FailoverReason } from "../reasons/FailoverReason.ts"
import { reasonTags } from "../reasons/FailoverReason.ts"
import { hasWord, isEmpty, oneOf, phrase, wordsOf } from "../facts/Phrase.ts"
import type { Evidence } from "../reasons/ProviderFailure.ts"

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
  readonly match: Matcher
  /**
   * For the index of a table: what the rule consists of, so that only those parts are tried of which the facts
   * have an anchor. `match` is then the first part that matches. Absent: `match` is always tried.
   */
  readonly parts?: ReadonlyArray<Part> | undefined
}

export type Matcher = (facts: ErrorFacts, provider: string) => Match | undefined

/** One of several ways for a rule to match. */
export interface Part {
  readonly match: Matcher
  /**
   * Lower-cased codes, words, tags and statuses, without one of which it cannot match. Absent: always tried.
   */
  readonly anchors: ReadonlyArray<string> | undefined
  /** The phrase, where it is one. */
  readonly phrase?: string | undefined
}

/**
 * What all builders take. They throw an `InvalidOption` (a `RangeError`) that names the rule and the field for an option
 * that cannot be meant: of another kind or unknown, an id or a list without anything in it, a code that is empty, a
 * phrase that every text has.
 */
export interface Common {
  readonly id: string
  readonly why: string
  /** The reason, or how to read it off the facts. */
  readonly reason: FailoverReason | ((facts: ErrorFacts) => FailoverReason)
  /** Only errors of providers whose name has one of these in it; the case of letters does not matter. */
  readonly providers?: ReadonlyArray<string> | undefined
  /** A further condition. */
  readonly when?: ((facts: ErrorFacts, provider: string) => boolean) | undefined
}

const { is } = Options

/** A class is a function, too, and gives no reason when it is called. */
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

/** A rule on the HTTP status: what a body inside says counts more than what is around it. */
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
  /** Such a code is found as a word in a sentence, too. For codes that are no word of any language. */
  readonly inText?: boolean | undefined
  /** The signal that the evidence names. Default `code`. */
  readonly signal?: Evidence["signal"] | undefined
}

/** A rule on codes and types of bodies, errno and names of errors; the case of letters does not matter. */
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
      // Some codes are several words for the index, for example `Throttling.RateQuota`.
      anchors: [...wordsOf(word)].toSorted((a, b) => b.length - a.length).slice(0, 1)
    }))
  ])
}

type TextOptions = Common & {
  /** One of these must be there. */
  readonly phrases: ReadonlyArray<string>
  /** And one of these. */
  readonly also?: ReadonlyArray<string> | undefined
  /** And none of these. */
  readonly unless?: ReadonlyArray<string> | undefined
}

/** A rule on the words of a message; see `Phrase` for how phrases are written. */
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

/** A rule that can never match, or always does, is a mistake: better told where it is written. */
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
  new InvalidOption("Rule", field, value, "one that can match, and does not match everything", message)

/** A rule of any other kind: `find` gives the value that decided. */
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
    // Read when a table makes its index.
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
