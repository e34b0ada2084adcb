/**
 * Extracts the JSON of a streamed object answer, without the Markdown fence that some models add. Keeps its own
 * state; push every piece of text in order.
 *
 * - A text that begins with `{` or `[` passes unchanged.
 * - Of a text that begins with a fence, the content of the fence passes. A line that begins with three backticks
 *   closes it; inside a JSON string a line break is escaped.
 * - Any other text is held until its end. When it has exactly one fence with JSON in it, that JSON is the text.
 *   Otherwise the text stays unchanged.
 *
 * **What it does not do.** It repairs no JSON. It does not search for braces in prose, because choosing one would be
 * a guess.
 */

/** Extracts the JSON of a complete text. */
export const of = (text: string): string => {
  const object = new ObjectText()
  return object.push(text) + object.end()
}

export class ObjectText {
  #state: "start" | "plain" | "fenced" | "prose" | "over" = "start"
  /** Text that is still undecided. */
  #held = ""

  /** Adds text, and returns the part that certainly belongs to the object. */
  push(text: string): string {
    if (this.#state === "plain") return text
    if (this.#state === "over") return ""
    this.#held += text
    const state = this.#state === "start" ? this.#begin() : this.#state
    this.#state = state
    if (state === "plain") return this.#release()
    return state === "fenced" ? this.#fenced() : ""
  }

  /** Returns the rest at the end of the answer. */
  end(): string {
    const rest = this.#release()
    switch (this.#state) {
      case "fenced":
        return rest.replace(/\s*`{3,}\s*$/, "")
      case "prose":
        return onlyFence(rest) ?? rest
      default:
        return rest
    }
  }

  #begin(): "start" | "plain" | "fenced" | "prose" {
    const text = this.#held.trimStart()
    const fence = /^```[\w+-]*[ \t]*(?:\r?\n\s*|(?=[{[]))/.exec(text)
    if (fence !== null) {
      this.#held = text.slice(fence[0].length)
      return "fenced"
    }
    if (/^[{[]/.test(text)) return "plain"
    // Wait while the text may still become a fence.
    return /^(?:`{0,2}|```[\w+-]*[ \t]*\r?)$/.test(text) ? "start" : "prose"
  }

  #fenced(): string {
    const close = /\r?\n[ \t]*```/.exec(this.#held)
    if (close !== null) {
      this.#state = "over"
      return this.#release().slice(0, close.index)
    }
    // White space and backticks at the end may belong to the closing fence.
    const tail = /\s*`*\s*$/.exec(this.#held)?.index ?? this.#held.length
    const sure = this.#held.slice(0, tail)
    this.#held = this.#held.slice(tail)
    return sure
  }

  #release(): string {
    const text = this.#held
    this.#held = ""
    return text
  }
}

/** The JSON inside the only fence of a text. */
const onlyFence = (text: string): string | undefined => {
  const [first, second] = text.matchAll(/^[ \t]*```[\w+-]*[ \t]*\r?\n([\s\S]*?)\r?\n[ \t]*```/gm)
  const content = second === undefined ? first?.[1] : undefined
  if (content === undefined) return undefined
  try {
    JSON.parse(content)
    return content
  } catch {
    return undefined
  }
}
