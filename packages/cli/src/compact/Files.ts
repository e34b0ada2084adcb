/**
 * Files in a body, and the results of tools that have some: a result is cut around its files, which are written back as
 * they were. Pure.
 */
import type { Prompt } from "effect/ai"
import type { Place } from "./Place.ts"

/** Base64, or where it lies. */
export type FileData = Prompt.FilePart["data"]

/** A `data:` URL as its type and base64, any other as an address. */
export const fileAt = (
  url: string,
  otherwise: string
): { readonly mediaType: string; readonly data: FileData } => {
  const inline = /^data:([^;,]*)[^,]*,/.exec(url.slice(0, 256))
  if (inline !== null) return { mediaType: inline[1] || otherwise, data: url.slice(inline[0].length) }
  return { mediaType: otherwise, data: addressed(url) }
}

/** Only that it is an address matters: its size is not known. */
export const addressed = (address: string): URL =>
  URL.parse(address) ?? new URL(`file-id:${encodeURIComponent(address)}`)

type Output = Prompt.TextPart | Prompt.FilePart

export class ResultFiles {
  readonly #written = new Map<Prompt.FilePart, unknown>()

  /** What a result says in these parts. */
  read(
    parts: ReadonlyArray<Place>,
    partOf: (part: Place) => Output
  ): Pick<Prompt.ToolResultPart, "result" | "modelOutput"> {
    const modelOutput = this.add(parts, partOf)
    const result = modelOutput.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
    return modelOutput.some(({ type }) => type === "file") ? { result, modelOutput } : { result }
  }

  /** The parts, of which files are remembered. */
  add(parts: ReadonlyArray<Place>, partOf: (part: Place) => Output): ReadonlyArray<Output> {
    return parts.map((part) => {
      const made = partOf(part)
      if (made.type === "file") this.#written.set(made, part.value)
      return made
    })
  }

  /** A cut result as content: a text, or a list with the files that have stayed. */
  content(part: Prompt.ToolResultPart): unknown {
    return (
      part.modelOutput?.map((said) =>
        said.type === "text" ? { type: "text", text: said.text } : this.#written.get(said)
      ) ?? textOf(part)
    )
  }

  /** The files that have stayed. */
  kept({ modelOutput = [] }: Prompt.ToolResultPart): ReadonlyArray<unknown> {
    return modelOutput.flatMap((said) => (said.type === "file" ? [this.#written.get(said)] : []))
  }
}

/** What a cut result says: always a text. */
export const textOf = ({ result }: Prompt.ToolResultPart): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "")
