/**
 * Hashes the value that a host's `identity` returns for a call: exactly, including times and ids. The order of fields
 * is ignored. Pure.
 *
 * **What it does not do.** It does not guess. A value without a JSON form (a promise, a map, an instance of a class)
 * would equal every other value of its type, so it is rejected.
 */
import { Options } from "@outlast/resilience"
import * as Hash from "./Hash.ts"

/** Maximum number of values. A value that occurs twice counts twice. */
const maxValues = 100_000
/** Maximum nesting depth. Also ends on circular values. */
const maxDepth = 100

/**
 * Hash of the value that a tool's `identity` returned. Throws an `InvalidOption` with the name of the tool for
 * non-JSON.
 */
export const of = (tool: string, value: unknown): number => {
  const refuse = (got: string): never => {
    const allowed = "a function that returns JSON: texts, numbers, lists and plain objects of them"
    throw new Options.InvalidOption("LoopDetector", `tools.${tool}.identity`, got, allowed)
  }
  let values = 0
  const json = (value: unknown, depth: number): string => {
    if (++values > maxValues || depth > maxDepth) return refuse("something too large, or without an end")
    if (typeof value === "string") return JSON.stringify(value)
    if (typeof value === "bigint") return `${value}n`
    if (typeof value === "function" || typeof value === "symbol") return refuse(`a ${typeof value}`)
    if (typeof value !== "object" || value === null) return String(value)
    if ("toJSON" in value && typeof value.toJSON === "function") return json(value.toJSON(), depth + 1)
    if (Array.isArray(value)) return `[${value.map((part) => json(part, depth + 1)).join()}]`
    if (!isPlain(value)) return refuse(`an instance of ${nameOf(value)}`)
    const fields = Object.entries(value).filter(([, part]) => part !== undefined)
    const byName = fields.sort(([a], [b]) => (a < b ? -1 : 1))
    return `{${byName.map(([name, part]) => `${JSON.stringify(name)}:${json(part, depth + 1)}`).join()}}`
  }
  return Hash.ofText(json(value, 0))
}

/** True for a plain object, from any realm. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

const nameOf = ({ constructor }: object): string =>
  typeof constructor === "function" && constructor.name !== "" ? constructor.name : "a class"
