/** Finds the name that a mistyped one probably means. Pure. */

/** Number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
export const distance = (from: string, to: string): number => {
  let before: ReadonlyArray<number> = []
  let row: ReadonlyArray<number> = Array.from({ length: to.length + 1 }, (_, i) => i)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1]
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (isSame ? 0 : 1),
          isSwap ? (before[j - 2] ?? 0) + 1 : Infinity
        )
      )
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}

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
    .map((name) => ({ name, away: distance(asked, name.toLowerCase()) }))
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
