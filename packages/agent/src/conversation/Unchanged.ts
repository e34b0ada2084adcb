/**
 * Arrays that are mapped seldom: what needs no change stays the same object.
 */

/** Each item as what it becomes, one item, several or none; the same array when each became itself. */
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

/** Whether both have the same items. */
export const same = (a: ReadonlyArray<unknown>, b: ReadonlyArray<unknown>): boolean =>
  a.length === b.length && a.every((item, i) => item === b[i])
