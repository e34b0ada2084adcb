/**
 * A table of rules with an index: which rules can match at all, by the words and codes of an error.
 */
import type { ErrorFacts } from "./ErrorFacts.ts"
import type { Rule } from "./Rule.ts"

export interface RuleTable {
  /** 1 for each rule that is worth trying, in the order of the table. */
  readonly candidates: (chain: ReadonlyArray<ErrorFacts>) => Uint8Array
}

const tables = new WeakMap<ReadonlyArray<Rule>, RuleTable>()

/** The index of a table, made once. */
export const tableOf = (rules: ReadonlyArray<Rule>): RuleTable => {
  const known = tables.get(rules)
  if (known !== undefined) return known
  const table = make(rules)
  tables.set(rules, table)
  return table
}

const make = (rules: ReadonlyArray<Rule>): RuleTable => {
  const always = new Uint8Array(rules.length)
  const byAnchor = new Map<string, Array<number>>()
  rules.forEach(({ anchors }, i) => {
    if (anchors === undefined) always[i] = 1
    for (const anchor of anchors ?? []) {
      const at = byAnchor.get(anchor)
      if (at === undefined) byAnchor.set(anchor, [i])
      else at.push(i)
    }
  })
  const candidates = (chain: ReadonlyArray<ErrorFacts>): Uint8Array => {
    const found = always.slice()
    const mark = (key: string): void => {
      const at = byAnchor.get(key)
      if (at !== undefined) for (const i of at) found[i] = 1
    }
    for (const { codes, words } of chain) {
      codes.forEach(mark)
      words.forEach(mark)
    }
    return found
  }
  return { candidates }
}
