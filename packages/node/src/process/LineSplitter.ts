/** Splits bytes into lines, with a bound on the length of a line. */

export interface LineSplitter {
  /** The lines that this chunk completes; `undefined` when a line is longer than allowed. */
  readonly push: (chunk: Uint8Array) => ReadonlyArray<string> | undefined
}

/** Lines end with `\n` or `\r\n`. `longest` is in characters. Invalid UTF-8 becomes U+FFFD. */
export const make = (longest: number): LineSplitter => {
  const decoder = new TextDecoder()
  let parts: Array<string> = []
  let length = 0
  return {
    push: (chunk) => {
      const [head = "", ...rest] = decoder.decode(chunk, { stream: true }).split("\n")
      parts.push(head)
      length += head.length
      if (length > longest) return undefined
      const lines: Array<string> = []
      for (const part of rest) {
        lines.push(parts.join("").replace(/\r$/, ""))
        parts = [part]
        length = part.length
        if (length > longest) return undefined
      }
      return lines
    }
  }
}

/** The last characters of an endless text. */
export interface Tail {
  readonly push: (chunk: Uint8Array) => void
  readonly text: () => string
}

export const makeTail = (longest: number): Tail => {
  const decoder = new TextDecoder()
  let text = ""
  return {
    push: (chunk) => {
      text += decoder.decode(chunk, { stream: true })
      // Cut at twice the length only: each cut copies the text.
      if (text.length > 2 * longest) text = text.slice(-longest)
    },
    text: () => text.slice(-longest)
  }
}
