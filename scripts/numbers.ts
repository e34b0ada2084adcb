/**
 * Holds that the call machine has no number of its own: each duration and count stands in the policy, with its name,
 * default, unit and reason, and so does each duration in words. 0, 1 and 2 are free, and so are factors of units (1,000 and 1,000,000) and HTTP statuses in a
 * list.
 */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseAst } from "rolldown/parseAst"

const failover = join(import.meta.dirname, "..", "packages/agent/src/failover")

/** Files that are data: bounds, policies, orders, metrics, and a hash. */
const data: ReadonlySet<string> = new Set([
  "Bounds.ts",
  "DefaultRows.ts",
  "RecoveryPolicy.ts",
  "Order.ts",
  "OrderFacts.ts",
  "CallEvent.ts",
  "ConversationKey.ts"
])

type Node = Readonly<Record<string, unknown>>

const isFree = (value: number, parent: Node): boolean =>
  [0, 1, 2].includes(value) ||
  (parent["type"] === "BinaryExpression" && (value === 1_000 || value === 1_000_000)) ||
  (parent["type"] === "ArrayExpression" && value >= 400 && value < 600)

/** A duration in words, or a bigint of more than one digit. */
const duration = /^[\d_.]+ (?:nano|micro|milli|second|minute|hour|day|week)s?$|^\d{2,}n?$/

/** Offsets of the numbers that are not free. */
const numbersIn = (value: unknown, parent: Node): ReadonlyArray<number> => {
  if (Array.isArray(value)) return value.flatMap((each) => numbersIn(each, parent))
  if (typeof value !== "object" || value === null) return []
  // A node of the syntax tree, whose fields are looked at one by one.
  const node = value as Node
  if (node["type"] === "Literal") {
    const { value, start } = node
    const isOwn = typeof value === "number" ? !isFree(value, parent) : duration.test(String(value))
    return isOwn ? [Number(start)] : []
  }
  return Object.values(node).flatMap((child) => numbersIn(child, node))
}

const wrong = ["call", "decide"].flatMap((folder) =>
  readdirSync(join(failover, folder))
    .filter((name) => name.endsWith(".ts") && !data.has(name))
    .flatMap((name) => {
      const source = readFileSync(join(failover, folder, name), "utf8")
      const tree = parseAst(source, { lang: "ts", astType: "ts" })
      return numbersIn(tree, {}).map((at) => {
        const line = source.slice(0, at).split("\n").length
        return `failover/${folder}/${name}:${line}: a number belongs into the policy, or into failover/decide/Bounds.ts.`
      })
    })
)

for (const problem of wrong) console.error(problem)
process.exitCode = wrong.length === 0 ? 0 : 1
