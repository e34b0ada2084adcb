/**
 * What a host says makes two calls of a tool the same: exactly that. Nothing in it is volatile, a point in time least of
 * all, and the order of an object's fields does not count. Pure.
 *
 * **What it does not do.** It guesses nothing: what says nothing as JSON (a promise, a map, an instance of a class) would
 * be the same as any other of its kind, and is refused.
 */
import { InvalidOption } from "@outlast/resilience/Options"
import * as Hash from "./Hash.ts"

/** Of one call. */
export class Identity {
  /** What else is to be known of the call is read here. */
  readonly value: unknown
  readonly hash: number

  constructor(value: unknown, hash: number) {
    this.value = value
    this.hash = hash
  }
}

/** Values in one, at most: a list in two places is read twice. */
const maxValues = 100_000
/** Lists and objects within one another, at most: one that is within itself has no end. */
const maxDepth = 100

/** What the `identity` of this tool gave. Throws an `InvalidOption` that names the tool if it is no JSON. */
export const of = (tool: string, value: unknown): Identity => {
  const refuse = (got: string): never => {
    const allowed = "a function that returns JSON: texts, numbers, lists and plain objects of them"
    throw new InvalidOption("LoopDetector", `tools.${tool}.identity`, got, allowed)
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
  return new Identity(value, Hash.exactly(json(value, 0)))
}

/** Of no class, in whatever realm it was made. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

const nameOf = ({ constructor }: object): string =>
  typeof constructor === "function" && constructor.name !== "" ? constructor.name : "a class"
