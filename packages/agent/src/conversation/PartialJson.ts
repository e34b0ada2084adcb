/**
 * The value of a JSON text that has not ended: what has come of it, with its open strings, lists and objects closed.
 *
 * A string is shown as far as it came. A key without its value, a number and a word are left out until something stands
 * behind them: `12` may become `120`. Reads each character once; giving the value costs a parse of the text.
 *
 * **Example** (Half an object)
 *
 * ```ts
 * new PartialJson().push('{"city":"Os') // => { city: "Os" }
 * ```
 */
export class PartialJson {
  #text = ""
  /** Characters that are read. */
  #read = 0
  readonly #open: Array<"}" | "]"> = []
  #expects: "key" | "value" | "other" = "value"
  /** Inside of a key, a string that is a value, a number or a word. */
  #inside: "key" | "string" | "literal" | undefined
  /** Where the escape sequence under way began. */
  #escape: number | undefined
  /** The text can be cut here and closed so. */
  #cut: { readonly at: number; readonly closing: string } | undefined
  #shown: string | undefined

  /** The value with one more piece of text, or `undefined` where nothing of it is new. */
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
      // It is no JSON: whoever reads the end of the answer says so.
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
