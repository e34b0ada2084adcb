/**
 * What a tool call does to a file, read from its arguments: the many tools that edit name the same few things.
 *
 * A **replacement** has the text before and after, or several of them; a **patch** has both in its lines; a **rewrite**
 * has the whole content. A host that knows the content says so with hashes, which is surer. Pure.
 *
 * **What it does not do.** It reads no file, and sees no edit that a shell command makes.
 */
import { Predicate } from "effect"
import type { Role } from "./Field.ts"
import * as Fields from "./Field.ts"
import * as Fingerprint from "./Fingerprint.ts"
import { isOwn } from "./Scan.ts"
import * as Nature from "./ToolNature.ts"
import { normalised } from "../Path.ts"

/** What a host knows of an edit. Any hash will do, as long as equal content has equal ones. */
export interface KnownEdit {
  readonly path: string
  /** Hash of the content before; absent when there was no file. */
  readonly before?: string | undefined
  readonly after?: string | undefined
}

export interface FileEdit {
  readonly path: string
  /** Of the text that was replaced, or of the place where one was; `undefined` for a rewrite. */
  readonly before: number | undefined
  /** Of the text that is there now; `undefined` when it is not known. */
  readonly after: number | undefined
  /** What was replaced is still there: more was put beside it. */
  readonly adds: boolean
}

/** What is added to a file replaces nothing. */
const adding = /^(?:append|insert|prepend|add)(?:$|[_-](?!or))/i

const patched = /^(?:\*\*\* (?:Update|Add) File: |\+\+\+ (?:b\/)?)(.+)$/m

const hunk = /^@@(?: |$)/m

/** Of a call; `undefined` when it edits no file that it names. */
export const of = (tool: string, args: unknown): FileEdit | undefined => {
  if (Nature.adds(tool)) return undefined
  if (typeof args === "string") return ofPatch(args)
  if (!Predicate.isObject(args) || Nature.isRequest(tool, args)) return undefined
  const { path, before, after: brought, part, spot, place, mode, content = part } = partsOf(args)
  if (typeof path !== "string") return typeof content === "string" ? ofPatch(content) : undefined
  if (typeof brought === "string") return ofTexts(path, before, brought)
  if (typeof mode === "string" && adding.test(mode))
    return { path, before: undefined, after: hashOf(content), adds: true }
  if (Array.isArray(content)) return ofSeveral(path, content)
  if (typeof content === "string" && (hunk.test(content) || isDiff(args, content)))
    return changed(path, content)
  const whole = hashOf(content)
  if (whole === undefined) return undefined
  if (spot !== undefined && spot !== null)
    return { path, before: undefined, after: Fingerprint.both(whole, hashOf(spot) ?? 0), adds: true }
  // What stands at a place is replaced there, and not where the same is written elsewhere.
  const range = place === undefined || place === null ? undefined : hashOf(place)
  const after = range === undefined ? whole : Fingerprint.both(whole, range)
  return { path, before: range, after, adds: part !== undefined }
}

/** Lines that are taken away, brought, or stay, without a head. */
const isDiff = (args: object, content: string): boolean => {
  const { diff, patch }: { readonly diff?: unknown; readonly patch?: unknown } = args
  return (patch ?? diff) === content && /^[+-]/m.test(content) && !/^[^+\- \\\t\r\n]/m.test(content)
}

/** Several replacements in one file are one. */
const ofSeveral = (path: string, edits: ReadonlyArray<unknown>): FileEdit | undefined => {
  const parts = edits.filter(Predicate.isObject).map(partsOf)
  return replacing(path, textsOf(parts.map((part) => part.before)), textsOf(parts.map((part) => part.after)))
}

const textsOf = (texts: ReadonlyArray<unknown>): string =>
  texts.filter((text) => typeof text === "string").join("\n")

/** A number for a file, however its path is written. Most are written in one way. */
export const idOf = (path: string): number => Fingerprint.ofText(varied.test(path) ? normalised(path) : path)

const varied = /\\|\.\/|\/\//

/** The file that a call names, without a look at what it writes. */
export const pathOf = (args: unknown): string | undefined => {
  if (typeof args === "string") return patched.exec(args)?.[1]
  if (!Predicate.isObject(args)) return undefined
  const { path, content } = partsOf(args)
  if (typeof path === "string") return path
  return typeof content === "string" ? patched.exec(content)?.[1] : undefined
}

/** Of a patch, each file that it brings something to. */
const heads = /^(?:\*\*\* (?:Update|Add) File: |--- .*\r?\n\+\+\+ (?:b\/)?)([^\t\r\n]+)/gm

/** All files that a call writes to and names: those of a patch, of a list of edits or of files, or the one of the call. */
export const pathsOf = (args: unknown): ReadonlyArray<string> => {
  if (typeof args === "string") return pathsOfPatch(args)
  if (!Predicate.isObject(args)) return []
  const listed = partsIn(args).flatMap((parts) => writtenBy(parts))
  const parts = partsOf(args)
  const { path, content } = parts
  if (typeof path === "string") return [...listed, ...writtenBy(parts)]
  return typeof content === "string" ? [...listed, ...pathsOfPatch(content)] : listed
}

const pathsOfPatch = (text: string): ReadonlyArray<string> => {
  const paths = Array.from(text.matchAll(heads), ([, path = ""]) => path)
  const first = patched.exec(text)?.[1]
  return (paths.length > 0 || first === undefined ? paths : [first]).filter((path) => path !== nowhere)
}

/** What a diff says of a file that is deleted. */
const nowhere = "/dev/null"

const writtenBy = ({ path, after, part, content = part }: Parts): ReadonlyArray<string> =>
  typeof path === "string" && (typeof after === "string" || (content ?? undefined) !== undefined)
    ? [path]
    : []

/** The parts of what stands in lists. */
const partsIn = (args: Readonly<Record<PropertyKey, unknown>>): ReadonlyArray<Parts> => {
  const found: Array<Parts> = []
  let looked = 0
  for (const name in args) {
    if (!isOwn.call(args, name)) continue
    if (++looked > maxNames) break
    const list = args[name]
    if (Array.isArray(list)) for (const part of list) if (Predicate.isObject(part)) found.push(partsOf(part))
  }
  return found
}

type Parts = Record<Role, unknown>

/** Fields of a call that are looked at: what edits a file has few. */
const maxNames = 100

/** The first field of each role. */
const partsOf = (args: Readonly<Record<PropertyKey, unknown>>): Parts => {
  const found: Parts = {
    path: undefined,
    before: undefined,
    after: undefined,
    content: undefined,
    part: undefined,
    spot: undefined,
    place: undefined,
    mode: undefined
  }
  let looked = 0
  for (const name in args) {
    if (!isOwn.call(args, name)) continue
    if (++looked > maxNames) break
    const { role } = Fields.of(name)
    if (role === "path") found.path ??= args[name]
    else if (role === "before") found.before ??= args[name]
    else if (role === "after") found.after ??= args[name]
    else if (role === "content") found.content ??= args[name]
    else if (role === "part") found.part ??= args[name]
    else if (role === "spot") found.spot ??= args[name]
    else if (role === "place") found.place ??= args[name]
    else if (role === "mode") found.mode ??= args[name]
  }
  return found
}

export const ofKnown = ({ path, before, after }: KnownEdit): FileEdit => ({
  path,
  before: hashOf(before),
  after: hashOf(after),
  adds: false
})

const ofPatch = (text: string): FileEdit | undefined => {
  const path = patched.exec(text)?.[1]
  return path === undefined ? undefined : changed(path, text)
}

/** Of a patch the lines that it takes away, and those that it brings. */
const changed = (path: string, patch: string): FileEdit | undefined => {
  // Its head names the file.
  const from = Math.max(0, patch.search(hunk))
  const lines = patch.slice(from).split("\n")
  const marked = (mark: string): string =>
    lines
      .filter((line) => line.startsWith(mark))
      .map((line) => line.slice(1))
      .join("\n")
  const [before, after] = [marked("-"), marked("+")]
  // What is moved is another text, and which is not told.
  return before === after ? undefined : replacing(path, before, after)
}

/** What only adds replaces nothing. */
const replacing = (path: string, before: string, after: string): FileEdit | undefined =>
  before.trim() === "" ? undefined : ofTexts(path, before, after)

const ofTexts = (path: string, before: unknown, after: string): FileEdit => ({
  path,
  before: hashOf(before),
  after: hashOf(after),
  adds: typeof before === "string" && isBeside(before, after)
})

/** Whether a text begins or ends with the lines of another, and has more. */
const isBeside = (lines: string, text: string): boolean => {
  const more = text.length - lines.length
  return (
    more > 0 &&
    ((text.charCodeAt(lines.length) === newLine && text.startsWith(lines)) ||
      (text.charCodeAt(more - 1) === newLine && text.endsWith(lines)))
  )
}

const newLine = 10

const hashOf = (text: unknown): number | undefined =>
  text === undefined || text === null
    ? undefined
    : typeof text === "string"
      ? Fingerprint.exactly(text)
      : Fingerprint.ofArguments(text).hash
