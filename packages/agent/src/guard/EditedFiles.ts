/**
 * Finds the files that a call writes to, from its arguments: a path next to new content, a list of these, or a patch.
 * Pure.
 *
 * **What it does not do.** It reads no file, and does not see the edits of a shell command.
 */
import { Predicate } from "effect"
import { normalised } from "./Path.ts"

const names = (list: string): ReadonlySet<string> => new Set(list.split(" "))

const paths = names(
  "path file filename filepath targetfile relativepath relativeworkspacepath uri notebookpath docid documentid pageid"
)
/** Fields with text to write: a replacement or a whole content. */
const contents = names(
  "content contents filetext text newcontent code body data patch diff input newsource codeedit snippet " +
    "new newstr newstring newtext replace replacement replacementcontent after updated newcode with"
)

/** Headers of the files that a patch adds or changes. */
const heads = /^(?:\*\*\* (?:Update|Add) File: |--- .*\r?\n\+\+\+ (?:b\/)?)([^\t\r\n]+)/gm

/** Path in a diff whose file is deleted. */
const nowhere = "/dev/null"

/** Maximum number of fields that are read. */
const maxFields = 100

/** The files that the arguments of a call write to. May contain duplicates. */
export const of = (args: unknown): ReadonlyArray<string> => {
  if (typeof args === "string") return ofPatch(args)
  if (!Predicate.isObject(args)) return []
  const listed = Object.values(args)
    .slice(0, maxFields)
    .flatMap((value) => (Array.isArray(value) ? value.filter(Predicate.isObject).flatMap(ofFields) : []))
  return [...listed, ...ofFields(args)].map(normalised)
}

const ofFields = (fields: object): ReadonlyArray<string> => {
  let path: unknown
  let content: unknown
  for (const [name, value] of Object.entries(fields).slice(0, maxFields)) {
    const role = name.toLowerCase().replaceAll(/[_-]/g, "")
    if (paths.has(role)) path ??= value
    else if (contents.has(role)) content ??= value
  }
  if (typeof path === "string") return content === undefined || content === null ? [] : [path]
  return typeof content === "string" ? ofPatch(content) : []
}

const ofPatch = (text: string): ReadonlyArray<string> =>
  Array.from(text.matchAll(heads), ([, path = ""]) => path).filter((path) => path !== nowhere)
