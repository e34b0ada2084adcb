/** Finds the name that a mistyped one probably means. Pure. */

import { Options } from "@outlast/resilience"

/** Longest name that is compared. A longer one is no typing mistake. */
const maxLength = 60

/**
 * Returns the nearest name: one that begins or ends with the given text, or differs in at most a third of its
 * characters.
 */
export const nearest = (given: string, names: ReadonlyArray<string>): string | undefined => {
  const asked = given.toLowerCase()
  if (asked === "" || asked.length > maxLength) return undefined
  const part = names.find((name) => asked.length > 1 && (name.startsWith(asked) || name.endsWith(asked)))
  if (part !== undefined) return part
  const [best] = names
    .map((name) => ({ name, away: Options.typingErrors(asked, name.toLowerCase()) }))
    .filter(({ name, away }) => away <= Math.max(1, Math.floor(name.length / 3)))
    .toSorted((a, b) => a.away - b.away)
  return best?.name
}

/** Says that a name does not exist, which one is near, and which ones exist. */
export const unknown = (
  what: string,
  given: string,
  names: ReadonlyArray<string>,
  plural: string
): string => {
  const near = nearest(given, names)
  const shown = given.length > maxLength ? `${given.slice(0, maxLength)}…` : given
  const guess = near === undefined ? "" : ` Did you mean ${near}?`
  return `"${shown}" is not ${what}.${guess} ${plural}: ${names.join(", ")}.`
}
