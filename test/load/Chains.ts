/** Chains by name, or spelled out: `main*3, other` is a vendor of three keys before another vendor of one. */

/** A vendor in a chain. */
export interface Entry {
  /** The server of the world that answers. Each entry has its own server. */
  readonly role: "main" | "other"
  readonly keys: number
}

export type Chain = readonly [Entry, ...Array<Entry>]

const main: Entry = { role: "main", keys: 1 }
const other: Entry = { role: "other", keys: 1 }

/** `count` vendors: all are `main` except the last, which is `other`. */
const lastOf = (count: number): Chain => [main, ...Array.from({ length: count - 2 }, () => main), other]

export const chains = {
  "one-target": [main],
  "two-keys": [{ role: "main", keys: 2 }],
  "three-keys": [{ role: "main", keys: 3 }],
  "both-bad": [main, main],
  "one-bad": [main, other],
  "two-keys-and-other": [{ role: "main", keys: 2 }, other],
  "last-of-5": lastOf(5),
  "last-of-31": lastOf(31),
  "last-of-41": lastOf(41),
  "last-of-101": lastOf(101)
} satisfies Readonly<Record<string, Chain>>

export type ChainName = keyof typeof chains

/** The chain of a name or of a list of entries; `undefined` for anything else. */
export const parse = (text: string): Chain | undefined => {
  if (Object.hasOwn(chains, text)) return chains[text as ChainName]
  const entries: Array<Entry> = []
  for (const part of text.split(",")) {
    const [, role, keys = "1"] = /^\s*(main|other)(?:\s*\*\s*([1-9]\d{0,2}))?\s*$/.exec(part) ?? []
    if (role !== "main" && role !== "other") return undefined
    entries.push({ role, keys: Number(keys) })
  }
  const [first, ...rest] = entries
  return first === undefined ? undefined : [first, ...rest]
}
