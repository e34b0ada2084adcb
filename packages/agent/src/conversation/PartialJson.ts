/**
 * The value of an incomplete JSON text: everything received so far, with open strings, lists and objects closed.
 *
 * A string is shown as far as it was received. A key without a value, a number and a word are left out until another
 * character follows: `12` may become `120`. Each character is read once; returning the value costs one parse of the
 * text.
 *
 * **Example** (Half an object)
 *
 * ```ts
 * new PartialJson().push('{"city":"Os') // => { city: "Os" }
 * ```
 */
export class PartialJson {
  #text = ""
  /** Number of characters read. */
  #read = 0
  readonly #open: Array<"}" | "]"> = []
  #expects: "key" | "value" | "other" = "value"
  /** The token that is being read. */
  #inside: "key" | "string" | "literal" | undefined
  /** Start of the current escape sequence. */
  #escape: number | undefined
  /** A position where the text can be cut, and the characters that close it there. */
  #cut: { readonly at: number; readonly closing: string } | undefined
  #shown: string | undefined

  /** Adds a piece of text. Returns the new value, or `undefined` when it has not changed. */
  push(piece: string): unknown {
    this.#text += piece
    for (; this.#read < this.#text.length; this.#read++) this.#take(this.#text.charAt(this.#read))
    const whole = this.#closed()
    if (whole === undefined || whole === this.#shown) return undefined
    try {
      const value: unknown = JSON.parse(whole)
      this.#shown = whole
      return value
    } catch {
      // Invalid JSON. The reader of the complete answer reports it.
      return undefined
    }
  }

  #closed(): string | undefined {
    if (this.#inside === "string") {
      return `${this.#text.slice(0, this.#escape ?? this.#read)}"${this.#closing()}`
    }
    return this.#cut === undefined ? undefined : this.#text.slice(0, this.#cut.at) + this.#cut.closing
  }

  #closing(): string {
    return this.#open.toReversed().join("")
  }

  #complete(at: number): void {
    this.#cut = { at, closing: this.#closing() }
    this.#expects = "other"
  }

  #take(char: string): void {
    if (this.#inside === "key" || this.#inside === "string") return this.#inString(char, this.#inside)
    if (this.#inside === "literal") {
      if (/[\w.+-]/.test(char)) return
      this.#inside = undefined
      this.#complete(this.#read)
    }
    switch (char) {
      case "{":
      case "[": {
        this.#open.push(char === "{" ? "}" : "]")
        this.#complete(this.#read + 1)
        this.#expects = char === "{" ? "key" : "value"
        return
      }
      case "}":
      case "]": {
        this.#open.pop()
        this.#complete(this.#read + 1)
        return
      }
      case ",": {
        this.#expects = this.#open.at(-1) === "}" ? "key" : "value"
        return
      }
      case ":": {
        this.#expects = "value"
        return
      }
      case '"': {
        this.#inside = this.#expects === "key" ? "key" : "string"
        return
      }
      default:
        if (/[\w.+-]/.test(char)) this.#inside = "literal"
    }
  }

  #inString(char: string, inside: "key" | "string"): void {
    if (this.#escape !== undefined) {
      const isLong = this.#text.charAt(this.#escape + 1) === "u"
      if (this.#read === this.#escape + (isLong ? 5 : 1)) this.#escape = undefined
    } else if (char === "\\") this.#escape = this.#read
    else if (char === '"') {
      this.#inside = undefined
      if (inside === "string") this.#complete(this.#read + 1)
    }
  }
}
