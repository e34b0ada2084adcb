/**
 * What a file of the user says of tools and extensions: their names and what they need. Pure, except that it reads the
 * exports of a module, which may have getters.
 *
 * | an export that is | is taken as |
 * |---|---|
 * | a `Toolkit`, or anything with such `tools` | its tools |
 * | a `Tool` | a tool; without `Requirements` it needs nothing |
 * | an object with a `name` and `requires` | an extension |
 * | a list or a record | what stands in it of the above |
 *
 * Everything else is passed over. What is exported twice is taken once.
 *
 * They are told by their shape, not by their class: the module may have loaded a copy of `effect` of its own.
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
  /** What could not be understood, in sentences. */
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

/** Something that may be offered; what it needs is as it was written. */
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

/** A plain object, or the namespace of a module. */
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
  if (!isRecord(entry)) return wrong(`${what} is no object. Expected ${manifest}.`)
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

/** Requirements as anybody may have written them: a field with another name would never be looked at. */
const needsOf = (requires: unknown): Result.Result<Requirements.Requirements, string> => {
  if (!Predicate.isObject(requires) || Array.isArray(requires)) {
    return Result.fail('"requires" must be an object with "env" or "check".')
  }
  const unknown = Object.keys(requires).find((key) => key !== "env" && key !== "check")
  if (unknown !== undefined) {
    return Result.fail(`nothing reads its ${quoted(unknown)}. There are "env" and "check".`)
  }
  const { env, check }: { env?: unknown; check?: unknown } = requires
  if (env !== undefined && !(Array.isArray(env) && env.every(isVariable))) {
    return Result.fail('"env" must be a list of names of variables, without their values.')
  }
  if (check !== undefined && !Effect.isEffect(check)) return Result.fail('"check" must be an Effect.')
  return Result.succeed({
    env,
    // What it gives is looked at, and a service that it may ask for is missed, when it runs.
    check: check as Requirements.Requirements["check"]
  })
}

/** Not `NAME=value`, which would be repeated as a name. */
const isVariable = (name: unknown): name is string => typeof name === "string" && /^[\w.-]+$/.test(name)

const quoted = (name: string): string => JSON.stringify(name)
