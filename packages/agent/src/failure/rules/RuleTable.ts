/**
 * An index over a table of rules. Of all rules and phrases it tries only the few whose word, code,
 * status or tag occurs in the error. The result is the same as trying every rule in order.
 *
 * The parts of all rules are numbered in the order of the table. For each link of a chain the index returns the set
 * of parts to try as bits, so that iterating over the bits follows the table. Words are looked up by hash
 * (`Phrase.keyOf`). After a collision a part is tried in vain.
 */
import type { ErrorFacts } from "../facts/ErrorFacts.ts"
import { keyOf, keysOf } from "../facts/Phrase.ts"
import type { Match, Part, Rule } from "./Rule.ts"

/** The rule that matched, its result, and the link of the chain. */
interface Found {
  readonly rule: Rule
  readonly match: Match
  readonly facts: ErrorFacts
}

export interface RuleTable {
  /** Returns the first rule, in the order of the table, that matches a link. Tries the deepest link first. */
  readonly first: (chain: ReadonlyArray<ErrorFacts>, provider: string) => Found | undefined
}

const tables = new WeakMap<ReadonlyArray<Rule>, RuleTable>()

/** Returns the index of a table. Each table is indexed once. */
export const tableOf = (rules: ReadonlyArray<Rule>): RuleTable => {
  const known = tables.get(rules)
  if (known !== undefined) return known
  const table = make(rules)
  tables.set(rules, table)
  return table
}

/** A set of part numbers, 32 of them in each integer, the lowest bit first. */
type Bits = ReadonlyArray<number>

const has = (bits: Bits, n: number): boolean => ((bits[n >> 5] ?? 0) & (1 << (n & 31))) !== 0

/** A rule and the range of its part numbers: `start` inclusive, `end` exclusive. */
interface Row {
  readonly rule: Rule
  readonly parts: ReadonlyArray<Part>
  readonly start: number
  readonly end: number
}

const make = (rules: ReadonlyArray<Rule>): RuleTable => {
  const rows: Array<Row> = []
  for (const rule of rules) {
    const parts = rule.parts ?? [{ match: rule.match, anchors: undefined }]
    const start = rows.at(-1)?.end ?? 0
    rows.push({ rule, parts, start, end: start + parts.length })
  }
  const rowOf = rows.flatMap((row) => row.parts.map(() => row))
  const always: Array<number> = Array.from({ length: (rowOf.length >> 5) + 1 }, () => 0)
  const byKey = new Map<number, Array<number>>()
  rows
    .flatMap((row) => row.parts)
    .forEach(({ anchors }, n) => {
      if (anchors === undefined) add(always, n)
      for (const key of new Set(anchors?.map(keyOf))) {
        const numbers = byKey.get(key)
        if (numbers === undefined) byKey.set(key, [n])
        else numbers.push(n)
      }
    })

  const worthTrying = (facts: ErrorFacts): Bits => {
    const found = always.slice()
    const lookUp = (key: number): void => {
      const numbers = byKey.get(key)
      if (numbers !== undefined) for (let i = 0; i < numbers.length; i++) add(found, numbers[i] ?? 0)
    }
    const { codes, said, status, tag, networkReason } = facts
    for (let i = 0; i < codes.length; i++) lookUp(keyOf(codes[i] ?? ""))
    const decisive = said ?? status
    if (decisive !== undefined) lookUp(keyOf(String(decisive)))
    if (tag !== undefined) lookUp(keyOf(tag.toLowerCase()))
    if (networkReason !== undefined) lookUp(keyOf(networkReason.toLowerCase()))
    const keys = keysOf(facts.text)
    for (let i = 0; i < keys.length; i++) lookUp(keys[i] ?? 0)
    return found
  }

  const first: RuleTable["first"] = (chain, provider) => {
    const worth = chain.map(worthTrying)
    let tried: Row | undefined
    for (let block = 0; block < always.length; block++) {
      let left = 0
      for (const bits of worth) left |= bits[block] ?? 0
      for (; left !== 0; left &= left - 1) {
        const row = rowOf[block * 32 + 31 - Math.clz32(left & -left)]
        if (row === undefined || row === tried) continue
        tried = row
        const found = tryRow(row, chain, worth, provider)
        if (found !== undefined) return found
      }
    }
    return undefined
  }
  return { first }
}

const add = (bits: Array<number>, n: number): void => {
  bits[n >> 5] = (bits[n >> 5] ?? 0) | (1 << (n & 31))
}

/** Tries one rule on all links, the deepest first. */
const tryRow = (
  { rule, parts, start, end }: Row,
  chain: ReadonlyArray<ErrorFacts>,
  worth: ReadonlyArray<Bits>,
  provider: string
): Found | undefined => {
  for (let link = chain.length - 1; link >= 0; link--) {
    const facts = chain[link]
    const bits = worth[link]
    if (facts === undefined || bits === undefined) continue
    for (let n = start; n < end; n++) {
      if (!has(bits, n)) continue
      const match = safely(parts[n - start], facts, provider)
      if (match !== undefined) return { rule, match, facts }
    }
  }
  return undefined
}

/** Runs a part. A part that throws does not match. */
const safely = (part: Part | undefined, facts: ErrorFacts, provider: string): Match | undefined => {
  try {
    return part?.match(facts, provider)
  } catch {
    return undefined
  }
}
