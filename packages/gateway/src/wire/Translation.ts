/**
 * What a request says, in the terms that a target of any format takes: tools, settings, and what is left out. Pure.
 *
 * - A setting that a target cannot express, and that changes little, is dropped by name. The answer names it in a header.
 * - A field without which the answer would be another one is {@link Untranslatable}.
 */
import { count, isFields, text } from "../json/Json.ts"
import type { Fields } from "../json/Json.ts"
import type { CallOptions, Namespaced } from "./Conversation.ts"
import { cached } from "./Conversation.ts"

export type Settings = Omit<CallOptions, "prompt">
type Tools = NonNullable<CallOptions["tools"]>
export type FunctionTool = Extract<Tools[number], { readonly type: "function" }>
type Reasoning = NonNullable<CallOptions["reasoning"]>

export interface Translation {
  readonly options: CallOptions
  /** Fields that are left out, by name, with the namespaces of the targets that take them nevertheless. */
  readonly dropped: ReadonlyMap<string, ReadonlyArray<string>>
  /** Names that settings of a client have in the wire, where they are others. */
  readonly names: Readonly<Record<string, string>>
  /** Fields that calls of a tool have in this wire, where the tool is no plain function: by the name that targets see. */
  readonly calls: ReadonlyMap<string, Fields>
}

/** A field of a request has no counterpart in the format of a target, and the answer would be another one without it. */
export class Untranslatable extends Error {
  override readonly name = "Untranslatable"
  constructor(field: string, why = "has no counterpart in other formats") {
    super(`The field ${field} ${why}.`)
  }
}

/** A part of the conversation of a kind that other formats do not have. */
export const unknownKind = (at: string, kind: unknown): Untranslatable =>
  new Untranslatable(at, `is of the kind "${text(kind).slice(0, 60)}", which other formats do not have`)

/** A link of a request. Anything else would be taken for bytes in base64. */
export const linkAt = (at: string, link: unknown): string => {
  const given = text(link)
  if (given.startsWith("data:") || (/^https?:/i.test(given) && URL.canParse(given))) return given
  throw new Untranslatable(at, "is neither a URL of http(s) nor a data URL")
}

/** Collects what is left out while a request is read. */
export class Dropped {
  readonly all = new Map<string, ReadonlyArray<string>>()

  add(field: string, ...unlessFor: ReadonlyArray<string>): void {
    this.all.set(field, unlessFor)
  }

  /** Fields with a value that the decoder has not understood: `undefined` in `read`. */
  misread(given: Fields, read: Fields, prefix = ""): void {
    for (const [name, value] of Object.entries(read)) {
      if (value === undefined && given[name] !== undefined && given[name] !== null) this.add(prefix + name)
    }
  }

  /** Fields of the request that no decoder reads. */
  unread(body: Fields, read: ReadonlySet<string>): void {
    for (const [name, value] of Object.entries(body)) {
      if (!read.has(name) && value !== null) this.add(name)
    }
  }
}

/** The fields that have a value. */
export const given = <A extends object>(some: { readonly [K in keyof A]: A[K] | undefined }): Partial<A> =>
  // Only `undefined` is taken out.
  Object.fromEntries(Object.entries(some).filter(([, value]) => value !== undefined)) as Partial<A>

export const functionTool = (name: string, own: Fields, schema: unknown): FunctionTool => ({
  type: "function",
  name,
  // A function without parameters has no schema.
  inputSchema: isFields(schema) ? schema : { type: "object", properties: {} },
  ...given<Pick<FunctionTool, "description" | "strict">>({
    description: text(own["description"]) || undefined,
    strict: own["strict"] === true ? true : undefined
  }),
  ...cached(own)
})

/**
 * What becomes of tools that a vendor defines or runs itself. Beside functions they are left out. A request that has no
 * other tool, or demands one of them, would get another answer without them.
 */
export const withoutVendorTools = (
  functions: ReadonlyArray<FunctionTool>,
  vendors: ReadonlyArray<string>,
  dropped: Dropped
): void => {
  const [first] = vendors
  if (first === undefined) return
  if (functions.length === 0) throw new Untranslatable("tools", `has only ${first}, which its vendor defines`)
  for (const name of vendors) dropped.add(`tools.${name}`)
}

export const chosen = (name: string, functions: ReadonlyArray<FunctionTool>): CallOptions["toolChoice"] => {
  if (functions.some((tool) => tool.name === name)) return { type: "tool", toolName: name }
  throw new Untranslatable("tool_choice", "names a tool that is no function of the request")
}

const efforts: ReadonlyMap<string, Reasoning> = new Map([
  ["none", "none"],
  ["minimal", "minimal"],
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["xhigh", "xhigh"],
  ["max", "max"]
])

/** The formats of an answer; a text is none that must be asked for. */
export const isKnownFormat = (type: unknown): true | undefined =>
  type === "text" || type === "json_object" || type === "json_schema" || undefined

export const effortOf = (effort: unknown): Reasoning | undefined => efforts.get(text(effort))

/** The shape of `json_schema` and `json_object` in both formats of OpenAI; `own` has the schema. */
export const formatOf = (type: string, own: Fields): CallOptions["responseFormat"] => {
  if (type === "json_object") return { type: "json" }
  if (type !== "json_schema") return undefined
  return {
    type: "json",
    ...given<{ name: string; description: string; schema: object }>({
      name: text(own["name"]) || undefined,
      description: text(own["description"]) || undefined,
      schema: isFields(own["schema"]) ? own["schema"] : undefined
    })
  }
}

/** Refuses an output limit that no vendor takes: without it the answer would have no limit. */
export const checkLimit = (body: Fields, ...names: ReadonlyArray<string>): void => {
  for (const name of names) {
    const limit = body[name]
    if (limit === undefined || limit === null || count(limit) !== undefined) continue
    throw new Untranslatable(name, "is not a whole number of tokens above 0")
  }
}

/** OpenAI refuses a request whose `user` has more characters. Claude Code names its users with more. */
const longestUser = 64

const isLong = (user: string): boolean => user.length > longestUser

/** Namespaces of the targets that are told this user. */
export const userTakers = (user: string): ReadonlyArray<string> =>
  isLong(user) ? ["anthropic"] : ["openai", "openaiCompatible", "anthropic"]

/** Provider options that mean the same everywhere where they exist. */
export const shared = (of: {
  readonly user?: unknown
  readonly parallel?: unknown
  readonly cacheKey?: unknown
  readonly verbosity?: unknown
  /** OpenAI shows a summary of its thinking. Its client would ask for one with every effort. */
  readonly showsThinking: boolean
}): Namespaced => {
  const user = text(of.user) || undefined
  const short = user === undefined || isLong(user) ? undefined : user
  const parallel = typeof of.parallel === "boolean" ? of.parallel : undefined
  const all = {
    openai: given({
      user: short,
      parallelToolCalls: parallel,
      promptCacheKey: text(of.cacheKey) || undefined,
      textVerbosity: text(of.verbosity) || undefined,
      reasoningSummary: of.showsThinking ? "auto" : null
    }),
    openaiCompatible: given({ user: short, parallel_tool_calls: parallel }),
    anthropic: given({
      metadata: user === undefined ? undefined : { userId: user },
      disableParallelToolUse: parallel === false ? true : undefined
    })
  }
  return Object.fromEntries(Object.entries(all).filter(([, options]) => Object.keys(options).length > 0))
}

/** Names the fields of {@link shared} for targets that have no such option. */
export const sharedDrops = (body: Fields, dropped: Dropped): void => {
  const isSaid = (name: string) => body[name] !== undefined && body[name] !== null
  if (isSaid("user")) dropped.add("user", ...userTakers(text(body["user"])))
  if (body["parallel_tool_calls"] === false) {
    dropped.add("parallel_tool_calls", "openai", "openaiCompatible", "anthropic")
  }
  if (isSaid("prompt_cache_key")) dropped.add("prompt_cache_key", "openai")
}
