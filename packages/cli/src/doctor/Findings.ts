/**
 * Finds the tools and extensions in a file of the user, with their requirements. Pure, except that exports of a module
 * may have getters.
 *
 * | an export that is | is taken as |
 * |---|---|
 * | a `Toolkit`, or anything with such `tools` | its tools |
 * | a `Tool` | a tool; without `Requirements` it needs nothing |
 * | an object with a `name` and `requires` | an extension |
 * | a list or a record | the exports above inside it |
 *
 * Everything else is ignored. Duplicates count once.
 *
 * Exports are recognised by shape, not by class, because the module may have loaded its own copy of `effect`.
 */
import { Context, Effect, Option, Predicate, Result } from "effect"
import { Tool } from "effect/ai"
import { Requirements } from "@outlast/agent/guard"

/** A tool or an extension. */
export interface Subject {
  readonly name: string
  readonly requires: Requirements.Requirements
}

export interface Findings {
  readonly subjects: ReadonlyArray<Subject>
  /** Parts that could not be read, as sentences. */
  readonly mistakes: ReadonlyArray<string>
}

const wrong = (...mistakes: ReadonlyArray<string>): Findings => ({ subjects: [], mistakes })

// -----------------------------------------------------------------------------
// Modules
// -----------------------------------------------------------------------------

export const ofModule = (exports: Readonly<Record<string, unknown>>): Findings => {
  const subjects: Array<Subject> = []
  const mistakes: Array<string> = []
  const seen = new Set<object>()
  for (const key of Object.keys(exports)) {
    try {
      for (const item of itemsOf(exports[key])) {
        if (seen.has(item.source)) continue
        seen.add(item.source)
        const needs = needsOf(item.requires)
        if (Result.isSuccess(needs)) subjects.push({ name: item.name, requires: needs.success })
        else mistakes.push(`${quoted(item.name)} has wrong requirements: ${needs.failure}`)
      }
    } catch {
      mistakes.push(`Its export ${quoted(key)} throws when it is read. Export the tools themselves.`)
    }
  }
  return subjects.length + mistakes.length > 0
    ? { subjects, mistakes }
    : wrong(
        "It exports nothing to check. Export a Toolkit, a Tool, an extension { name, requires }, or a list or record of those."
      )
}

/** A possible tool or extension, with its requirements as written. */
interface Item {
  readonly source: object
  readonly name: string
  readonly requires: unknown
}

const itemsOf = (value: unknown): ReadonlyArray<Item> => {
  const items = itemOrToolkit(value)
  if (items.length > 0) return items
  if (Array.isArray(value)) return value.flatMap(itemOrToolkit)
  return isRecord(value) ? Object.values(value).flatMap(itemOrToolkit) : []
}

const itemOrToolkit = (value: unknown): ReadonlyArray<Item> => {
  if (isTool(value)) return [itemOf(value)]
  if (hasTools(value)) return Object.values(value.tools).map(itemOf)
  return isExtension(value) ? [{ source: value, name: value.name, requires: value.requires }] : []
}

const itemOf = (tool: Tool.Any): Item => ({
  source: tool,
  name: tool.name,
  requires: Option.getOrElse(Context.getOption(tool.annotations, Requirements.Requires), () => ({}))
})

const isTool = (value: unknown): value is Tool.Any => Predicate.hasProperty(value, Tool.TypeId)

const hasTools = (value: unknown): value is { readonly tools: Readonly<Record<string, Tool.Any>> } =>
  Predicate.hasProperty(value, "tools") && isRecord(value.tools) && Object.values(value.tools).every(isTool)

const isExtension = (value: unknown): value is { readonly name: string; readonly requires: unknown } =>
  Predicate.isObject(value) &&
  "requires" in value &&
  "name" in value &&
  typeof value.name === "string" &&
  value.name.trim() !== ""

/** True for a plain object or the namespace of a module. */
const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => {
  if (!Predicate.isObject(value) || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || prototype === Object.prototype
}

// -----------------------------------------------------------------------------
// Manifests
// -----------------------------------------------------------------------------

const manifest = '{ "name": "…", "requires": { "env": ["…"] } }'

export const ofManifest = (text: string): Findings => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return wrong(`It is not JSON. Expected ${manifest}, or a list of those.`)
  }
  if (!Array.isArray(json)) return merge([ofEntry(json, "It")])
  return json.length === 0
    ? wrong(`It is an empty list. Expected some of ${manifest}.`)
    : merge(json.map((entry, index) => ofEntry(entry, `Its entry ${index}`)))
}

const ofEntry = (entry: unknown, what: string): Findings => {
  if (!isRecord(entry)) return wrong(`${what} is not an object. Expected ${manifest}.`)
  const { name, requires }: { name?: unknown; requires?: unknown } = entry
  if (typeof name !== "string" || name.trim() === "") {
    return wrong(`${what} has no "name". Expected ${manifest}.`)
  }
  if (requires === undefined) return wrong(`${what} has no "requires". Expected ${manifest}.`)
  if (Predicate.hasProperty(requires, "check")) {
    return wrong(`${what} has a "check", which only a module can have. Name the module instead.`)
  }
  const needs = needsOf(requires)
  return Result.isSuccess(needs)
    ? { subjects: [{ name, requires: needs.success }], mistakes: [] }
    : wrong(`${what} has wrong requirements: ${needs.failure}`)
}

const merge = (all: ReadonlyArray<Findings>): Findings => ({
  subjects: all.flatMap(({ subjects }) => subjects),
  mistakes: all.flatMap(({ mistakes }) => mistakes)
})

// -----------------------------------------------------------------------------
// Requirements
// -----------------------------------------------------------------------------

/** Validates requirements. An unknown field is a mistake, because it would never be checked. */
const needsOf = (requires: unknown): Result.Result<Requirements.Requirements, string> => {
  if (!Predicate.isObject(requires) || Array.isArray(requires)) {
    return Result.fail('"requires" must be an object with "env" or "check".')
  }
  const unknown = Object.keys(requires).find((key) => key !== "env" && key !== "check")
  if (unknown !== undefined) {
    return Result.fail(`unknown field ${quoted(unknown)}. Known fields: "env" and "check".`)
  }
  const { env, check }: { env?: unknown; check?: unknown } = requires
  if (env !== undefined && !(Array.isArray(env) && env.every(isVariable))) {
    return Result.fail('"env" must be a list of names of variables, without their values.')
  }
  if (check !== undefined && !Effect.isEffect(check)) return Result.fail('"check" must be an Effect.')
  return Result.succeed({
    env,
    // Its result is checked, and missing services are reported, when it runs.
    check: check as Requirements.Requirements["check"]
  })
}

/** True for the name of a variable. `NAME=value` is rejected, because it would be printed as a name. */
const isVariable = (name: unknown): name is string => typeof name === "string" && /^[\w.-]+$/.test(name)

const quoted = (name: string): string => JSON.stringify(name)
