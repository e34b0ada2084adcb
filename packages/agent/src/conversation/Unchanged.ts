/**
 * Mapping that keeps the same array when nothing changes.
 */

/** Replaces each item with one item, several or none. Returns the same array when every item stays the same. */
export const mapped = <A>(
  items: ReadonlyArray<A>,
  become: (item: A, index: number) => ReadonlyArray<A>
): ReadonlyArray<A> => {
  let out: Array<A> | undefined
  let i = 0
  for (const item of items) {
    const made = become(item, i)
    if (out === undefined && (made.length !== 1 || made[0] !== item)) out = items.slice(0, i)
    out?.push(...made)
    i++
  }
  return out ?? items
}

/** True when both arrays have the same items. */
export const same = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>): boolean =>
  a.length === b.length && a.every((item, i) => item === b[i])
