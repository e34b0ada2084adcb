/**
 * Adapts tool names to the format of a target.
 *
 * A name that the target would reject is replaced by `tool_`, the legal characters of the name, and a hash of the
 * whole name. Different tools keep different names. The same tools get the same names in every attempt and every
 * later call, so prompt caches stay valid. The replacements are offered to the target and translated back in its
 * calls, so the program never sees them.
 *
 * Tools that run at a provider keep their names, which the provider defines.
 *
 * **Example** (A name with a dot)
 *
 * ```ts
 * ToolNames.of([Tool.make("weather.get")], Dialect.defaults)?.there.get("weather.get") // => /^tool_weatherget_/
 * ```
 */
import { Hash } from "effect"
import type { Response } from "effect/ai"
import { Tool } from "effect/ai"
import type { LanguageModel } from "effect/ai"
import type { Dialect } from "./Dialect.ts"

export interface ToolNames {
  /** Names of the target, by names of the program. */
  readonly there: ReadonlyMap<string, string>
  /** Names of the program, by names of the target. */
  readonly back: ReadonlyMap<string, string>
}

type Tools = LanguageModel.ProviderOptions["tools"]
type ToolChoice = LanguageModel.ProviderOptions["toolChoice"]

/** The necessary replacements for these tools; `undefined` when the target accepts all names. */
export const of = (tools: Tools, { toolName }: Dialect): ToolNames | undefined => {
  const refused = tools.filter((tool) => !Tool.isProviderDefined(tool) && !toolName.test(tool.name))
  if (refused.length === 0) return undefined
  const there = new Map<string, string>()
  const back = new Map<string, string>()
  const taken = new Set(tools.map(({ name }) => name))
  // Sort, so that the replacements do not depend on the order of the tools.
  for (const name of refused.map(({ name }) => name).toSorted()) {
    let fit = replacement(name)
    for (let n = 2; taken.has(fit); n++) fit = replacement(name, n)
    taken.add(fit)
    there.set(name, fit)
    back.set(fit, name)
  }
  return { there, back }
}

/** The name of a tool in a conversation, whether the tool is still offered or not. */
export const nameOf = (name: string, { toolName }: Dialect, names: ToolNames | undefined): string =>
  names?.there.get(name) ?? (toolName.test(name) ? name : replacement(name))

const replacement = (name: string, n = 1): string => `tool_${shortened(name, 50, n)}`

/** At most `length` characters of `[a-zA-Z0-9_-]`, and a hash of the whole value. */
export const shortened = (value: string, length: number, n = 1): string => {
  const hash = (Hash.string(`${n}:${value}`) >>> 0).toString(36)
  return `${value.replace(/[^a-zA-Z0-9_-]/g, "").slice(0, length)}_${hash}`
}

// -----------------------------------------------------------------------------
// Requests
// -----------------------------------------------------------------------------

/** The tools with the target's names. */
export const offered = (tools: Tools, { there }: ToolNames): Tools =>
  tools.map((tool) => {
    const name = there.get(tool.name)
    return name === undefined ? tool : renamed(tool, name)
  })

/** The tool choice with the target's names. */
export const chosen = (choice: ToolChoice, { there }: ToolNames): ToolChoice => {
  if (typeof choice === "string") return choice
  const named = (name: string): string => there.get(name) ?? name
  return "tool" in choice
    ? { ...choice, tool: named(choice.tool) }
    : { ...choice, oneOf: choice.oneOf.map(named) }
}

/** Cached, because models cache data by the identity of a tool. */
const known = new WeakMap<Tool.Any, Tool.Any>()

const renamed = (tool: Tool.Any, name: string): Tool.Any => {
  const kept = known.get(tool)
  if (kept?.name === name) return kept
  // Copies like Tool's own setters: the prototype is the kind of tool, the fields hold the rest.
  const copy: Tool.Any = Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { name })
  known.set(tool, copy)
  return copy
}

// -----------------------------------------------------------------------------
// Answers
// -----------------------------------------------------------------------------

/** Returns the part with the program's name. */
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
