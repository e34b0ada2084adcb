/**
 * The names of tools as a target takes them.
 *
 * A name that the target would refuse is replaced by one that it takes: `tool_`, what of the name may stay, and a hash
 * of all of it. Different tools keep different names, and the same tools get the same names in every attempt and every
 * later call, so that prompt caches stay good. The target is offered the replacements; its calls are named back, so
 * that the program never sees them.
 *
 * Tools that run at a provider keep their names: these are the provider's.
 *
 * **Example** (A name with a dot)
 *
 * ```ts
 * ToolNames.of([Tool.make("weather.get")], Dialect.defaults)?.there.get("weather.get") // tool_weatherget_…
 * ```
 */
import { Hash } from "effect"
import type { Response } from "effect/ai"
import { Tool } from "effect/ai"
import type { LanguageModel } from "effect/ai"
import type { Dialect } from "./Dialect.ts"

export interface ToolNames {
  /** By the program's name, the target's. */
  readonly there: ReadonlyMap<string, string>
  /** By the target's name, the program's. */
  readonly back: ReadonlyMap<string, string>
}

type Tools = LanguageModel.ProviderOptions["tools"]
type ToolChoice = LanguageModel.ProviderOptions["toolChoice"]

/** What must be renamed of these tools; `undefined` where the target takes all names. */
export const of = (tools: Tools, { toolName }: Dialect): ToolNames | undefined => {
  const refused = tools.filter((tool) => !Tool.isProviderDefined(tool) && !toolName.test(tool.name))
  if (refused.length === 0) return undefined
  const there = new Map<string, string>()
  const back = new Map<string, string>()
  const taken = new Set(tools.map(({ name }) => name))
  // Sorted: what a name becomes does not depend on the order of the tools.
  for (const name of refused.map(({ name }) => name).toSorted()) {
    let fit = replacement(name)
    for (let n = 2; taken.has(fit); n++) fit = replacement(name, n)
    taken.add(fit)
    there.set(name, fit)
    back.set(fit, name)
  }
  return { there, back }
}

/** The name in a conversation: of a tool that is offered, or of one that no longer is. */
export const nameOf = (name: string, { toolName }: Dialect, names: ToolNames | undefined): string =>
  names?.there.get(name) ?? (toolName.test(name) ? name : replacement(name))

const replacement = (name: string, n = 1): string => `tool_${shortened(name, 50, n)}`

/** At most `length` characters of `[a-zA-Z0-9_-]` and a hash of the whole. */
export const shortened = (value: string, length: number, n = 1): string => {
  const hash = (Hash.string(`${n}:${value}`) >>> 0).toString(36)
  return `${value.replace(/[^a-zA-Z0-9_-]/g, "").slice(0, length)}_${hash}`
}

// -----------------------------------------------------------------------------
// What is offered
// -----------------------------------------------------------------------------

/** The tools under the target's names. */
export const offered = (tools: Tools, { there }: ToolNames): Tools =>
  tools.map((tool) => {
    const name = there.get(tool.name)
    return name === undefined ? tool : renamed(tool, name)
  })

/** The choice under the target's names. */
export const chosen = (choice: ToolChoice, { there }: ToolNames): ToolChoice => {
  if (typeof choice === "string") return choice
  const named = (name: string): string => there.get(name) ?? name
  return "tool" in choice
    ? { ...choice, tool: named(choice.tool) }
    : { ...choice, oneOf: choice.oneOf.map(named) }
}

/** Kept, because models keep what they make of a tool. */
const known = new WeakMap<Tool.Any, Tool.Any>()

const renamed = (tool: Tool.Any, name: string): Tool.Any => {
  const kept = known.get(tool)
  if (kept?.name === name) return kept
  // As Tool's own setters copy: what kind of tool it is stands in its prototype, the rest in its fields.
  const copy: Tool.Any = Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { name })
  known.set(tool, copy)
  return copy
}

// -----------------------------------------------------------------------------
// What is answered
// -----------------------------------------------------------------------------

/** The part of an answer under the program's name. */
export const namedBack = <P extends Response.AllPartsEncoded>(part: P, { back }: ToolNames): P => {
  switch (part.type) {
    case "tool-params-start":
    case "tool-call":
    case "tool-result": {
      const name = back.get(part.name)
      return name === undefined ? part : { ...part, name }
    }
    default:
      return part
  }
}
