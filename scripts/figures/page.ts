/** The sections of `docs/internals/figures.md`: a command each, and the figures that the page says it prints. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

export interface Figure {
  readonly what: string
  /** As the page says it, e.g. `0.6 to 0.9 ×`. */
  readonly says: string
  /** Where it stands in the output: the name of a row in JSON, or parts of a line, joined by " … ". */
  readonly row: string
}

export interface Section {
  readonly name: string
  /** The date of the measurement, its machine, and the time that the command takes. */
  readonly measured: string
  /** Minutes that the command takes. */
  readonly minutes: number
  /** The arguments of `npm`. */
  readonly command: ReadonlyArray<string>
  readonly figures: ReadonlyArray<Figure>
}

export const page = "docs/internals/figures.md"

const cellsOf = (line: string): ReadonlyArray<string> =>
  line
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.replaceAll("\\|", "|").trim())

export const sections = (): ReadonlyArray<Section> =>
  readFileSync(join(import.meta.dirname, "..", "..", page), "utf8")
    .split(/^## /m)
    .slice(1)
    .flatMap((text) => {
      const name = text.slice(0, text.indexOf("\n"))
      const command = /^npm (run .+)$/m.exec(text)?.[1]
      if (command === undefined) return []
      const measured = /^Measured .+$/m.exec(text)?.[0] ?? ""
      const minutes = Number(/; takes (\d+) min/.exec(measured)?.[1])
      const figures = text
        .split("\n")
        .filter((line) => line.startsWith("| ") && line.includes("`"))
        .map(cellsOf)
        .map(([what = "", says = "", row = ""]) => ({ what, says, row: row.replaceAll("`", "") }))
      return [{ name, measured, minutes, command: command.split(" "), figures }]
    })
