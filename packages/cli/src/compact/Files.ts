/**
 * Files in a body, and tool results that contain files. A result is cut around its files, which are written back
 * unchanged. Pure.
 */
import type { Prompt } from "effect/ai"
import type { JsonCursor } from "./JsonCursor.ts"

/** Base64 data, or the address of a file. */
export type FileData = Prompt.FilePart["data"]

/** Reads a `data:` URL as type and base64, and any other URL as an address. */
export const fileAt = (
  url: string,
  otherwise: string
): { readonly mediaType: string; readonly data: FileData } => {
  const inline = /^data:([^;,]*)[^,]*,/.exec(url.slice(0, 256))
  if (inline !== null) return { mediaType: inline[1] || otherwise, data: url.slice(inline[0].length) }
  return { mediaType: otherwise, data: addressed(url) }
}

/** Returns a URL for an address of unknown size. */
export const addressed = (address: string): URL =>
  URL.parse(address) ?? new URL(`file-id:${encodeURIComponent(address)}`)

type Output = Prompt.TextPart | Prompt.FilePart

export class ResultFiles {
  readonly #written = new Map<Prompt.FilePart, unknown>()

  /** Reads the output of a result in these parts. */
  read(
    parts: ReadonlyArray<JsonCursor>,
    partOf: (part: JsonCursor) => Output
  ): Pick<Prompt.ToolResultPart, "result" | "modelOutput"> {
    const modelOutput = this.add(parts, partOf)
    const result = modelOutput.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")
    return modelOutput.some(({ type }) => type === "file") ? { result, modelOutput } : { result }
  }

  /** Converts parts, and remembers the files among them. */
  add(parts: ReadonlyArray<JsonCursor>, partOf: (part: JsonCursor) => Output): ReadonlyArray<Output> {
    return parts.map((part) => {
      const made = partOf(part)
      if (made.type === "file") this.#written.set(made, part.value)
      return made
    })
  }

  /** Returns a cut result as content: a text, or a list with its remaining files. */
  content(part: Prompt.ToolResultPart): unknown {
    return (
      part.modelOutput?.map((said) =>
        said.type === "text" ? { type: "text", text: said.text } : this.#written.get(said)
      ) ?? textOf(part)
    )
  }

  /** Returns the remaining files. */
  kept({ modelOutput = [] }: Prompt.ToolResultPart): ReadonlyArray<unknown> {
    return modelOutput.flatMap((said) => (said.type === "file" ? [this.#written.get(said)] : []))
  }
}

/** Returns the text of a cut result, which is always a string. */
export const textOf = ({ result }: Prompt.ToolResultPart): string =>
  typeof result === "string" ? result : (JSON.stringify(result) ?? "")
