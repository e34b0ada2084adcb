/**
 * Hashes what a host's `identity` gives for a call: exactly, times and ids too, but for the order of fields. Pure.
 *
 * **What it does not do.** It guesses nothing: a value without a JSON form (a promise, a map, an instance of a class)
 * would equal any other of its kind, and is refused.
 */
import { Options } from "@outlast/resilience"
import * as Hash from "./Hash.ts"

/** Values in one, at most: a list in two places is read twice. */
const maxValues = 100_000
/** Lists and objects within one another, at most: one that is within itself has no end. */
const maxDepth = 100

/** Hash of what the `identity` of a tool gave. Throws an `InvalidOption` that names the tool if it is no JSON. */
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

/** Of no class, in whatever realm it was made. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

const nameOf = ({ constructor }: object): string =>
  typeof constructor === "function" && constructor.name !== "" ? constructor.name : "a class"
