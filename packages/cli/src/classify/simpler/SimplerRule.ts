/**
 * A simpler way to sort errors, in a vocabulary of its own, to stand beside the classifier.
 */
import type { FailoverReason } from "@outlast/agent"
import type { Case } from "../Case.ts"

/** What such a rule reads. */
export interface Seen {
  readonly status: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /**
   * The error's text. Rules that read nothing else are not made to fail by that: where the text lacks the HTTP
   * status, it stands in front, as the providers' own clients print it.
   */
  readonly text: string
  /** The error's name, where the case shows one. */
  readonly name: string
  /** The texts of its causes. */
  readonly causes: ReadonlyArray<string>
}

export interface SimplerRule {
  readonly name: string
  /** What it tells apart. */
  readonly vocabulary: string
  readonly sort: (seen: Seen) => string
  /** The same vocabulary for a reason: what the rule should have said. */
  readonly classOf: (reason: FailoverReason.FailoverReason) => string
}

/** A rule whose answers are of one type, as one of many. */
export const make = <Class extends string>(rule: {
  readonly name: string
  readonly vocabulary: string
  readonly sort: (seen: Seen) => Class
  readonly classOf: (reason: FailoverReason.FailoverReason) => Class
}): SimplerRule => rule

export const seenOf = ({ status, headers, message = "", causes }: Case): Seen => ({
  status,
  headers,
  text: status === undefined || message.includes(String(status)) ? message : `${status} ${message}`,
  name: causes[0]?.name ?? "",
  causes: causes.map(({ name = "", message = "", code = "" }) => `${name}: ${message} ${code}`)
})

/** The class of the first list that has a pattern for the text. */
export const firstOf = <Class extends string>(
  lists: ReadonlyArray<readonly [Class, ReadonlyArray<RegExp>]>,
  text: string
): Class | undefined => lists.find(([, patterns]) => patterns.some((pattern) => pattern.test(text)))?.[0]
