/** The programs of the pages: README.md, `docs`, and the READMEs of packages. */
import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..", "..")

/** Pages whose blocks are not all programs yet. A page that passes must leave the list. */
export const notYet: ReadonlyArray<string> = []

export interface Program {
  readonly page: string
  /** Line of its first fence. */
  readonly line: number
  /** Each line of code stands where it stands in the page. The other lines are empty. */
  readonly code: string
  readonly isRun: boolean
}

export const pages: ReadonlyArray<string> = globSync(["README.md", "docs/**/*.md", "packages/*/README.md"], {
  cwd: root
}).toSorted()

/** A comment right before the fence marks a block: `continues`, or `not run: the reason`. */
const fence = /^(?:<!-- (continues|not run: .+?) -->\n+)?```ts\n([\s\S]*?)^```$/gm

export const programsOf = (page: string): ReadonlyArray<Program> => {
  const text = readFileSync(join(root, page), "utf8")
  const programs: Array<Program> = []
  for (const { index, 0: all, 1: mark, 2: code = "" } of text.matchAll(fence)) {
    const line = text.slice(0, index + all.indexOf("```ts")).split("\n").length
    const above = mark === "continues" ? programs.pop() : undefined
    if (mark === "continues" && above === undefined) throw new Error(`${page}:${line} continues no block.`)
    const before = above?.code ?? ""
    const padding = "\n".repeat(line + 1 - before.split("\n").length)
    programs.push({
      page,
      line: above?.line ?? line,
      code: before + padding + code,
      isRun: above?.isRun ?? mark === undefined
    })
  }
  return programs
}
