/** A simpler rule for sorting errors, with its own vocabulary, to compare with the classifier. */
import type { FailoverReason } from "@outlast/agent"
import type { Case } from "../cases/ErrorCase.ts"

/** Input of such a rule. */
export interface Seen {
  readonly status: number | undefined
  readonly headers: Readonly<Record<string, string>>
  /**
   * The error's text. If the text lacks the HTTP status, the status is put in front, as the providers' clients print
   * it. Rules that read only text are therefore not at a disadvantage.
   */
  readonly text: string
  /** The error's name, if the case has one. */
  readonly name: string
  /** Texts of the causes. */
  readonly causes: ReadonlyArray<string>
}

export interface SimplerRule {
  readonly name: string
  /** The classes that the rule distinguishes. */
  readonly vocabulary: string
  readonly sort: (seen: Seen) => string
  /** Returns the expected class for a reason. */
  readonly classOf: (reason: FailoverReason.FailoverReason) => string
}

/** Erases the class type of a rule, so that rules can be put in one list. */
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

/** Returns the class of the first list with a pattern that matches the text. */
export const firstOf = <Class extends string>(
  lists: ReadonlyArray<readonly [Class, ReadonlyArray<RegExp>]>,
  text: string
): Class | undefined => lists.find(([, patterns]) => patterns.some((pattern) => pattern.test(text)))?.[0]
