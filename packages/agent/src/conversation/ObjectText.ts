/**
 * The JSON in an answer that was to be an object, as it comes: without the Markdown fence that some models put around
 * it. Pure but for its own state; array-wise callers push every piece of text in its order.
 *
 * - A text that begins with `{` or `[` passes as it is.
 * - Of a text that begins with a fence the content of that fence passes. A line that begins with three backticks ends
 *   it: inside of a JSON string a line break is escaped.
 * - Any other text is held to its end. If it has one fence, and JSON in it, that JSON is the text; otherwise the text
 *   stays as it was.
 *
 * **What it does not do.** It repairs no JSON, and does not look for braces in prose: which of them was meant is a guess.
 */

/** The text of a whole answer. */
export const of = (text: string): string => {
  const object = new ObjectText()
  return object.push(text) + object.end()
}

export class ObjectText {
  #state: "start" | "plain" | "fenced" | "prose" | "over" = "start"
  /** What is not decided yet. */
  #held = ""

  /** What of the text is known to belong to the object now. */
  push(text: string): string {
    if (this.#state === "plain") return text
    if (this.#state === "over") return ""
    this.#held += text
    const state = this.#state === "start" ? this.#begin() : this.#state
    this.#state = state
    if (state === "plain") return this.#release()
    return state === "fenced" ? this.#fenced() : ""
  }

  /** The rest, when the answer has ended. */
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
    // Anything that may still become a fence waits.
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

/** The JSON in the only fence of a text. */
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
