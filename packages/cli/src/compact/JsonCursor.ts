/** A JSON value with its path in the body. Reads fields, and reports the path of an unexpected value. Pure. */
import { Data, Predicate } from "effect"
import type { JsonObject } from "./Json.ts"

/** The body does not follow its format. Thrown by each reading step, and caught once for the whole body. */
export class Broken extends Data.TaggedError("Broken")<{
  /** Path of the value, e.g. `messages[17].content[2].tool_use_id`. Empty for the body itself. */
  readonly path: string
  /** Description of the problem, without quoting content. */
  readonly problem: string
}> {
  override get message(): string {
    return this.path === "" ? this.problem : `${this.path}: ${this.problem}`
  }
}

const article = (value: unknown): string => {
  if (value === undefined) return "nothing"
  if (value === null) return "null"
  if (Array.isArray(value)) return "a list"
  return typeof value === "object" ? "an object" : `a ${typeof value}`
}

export class JsonCursor {
  readonly path: string
  readonly value: unknown

  constructor(value: unknown, path = "") {
    this.value = value
    this.path = path
  }

  broken(problem: string): never {
    throw new Broken({ path: this.path, problem })
  }

  #expected(what: string): never {
    return this.broken(`expected ${what}, got ${article(this.value)}`)
  }

  get object(): JsonObject {
    // A list is an object too.
    return Predicate.isObject(this.value) && !Array.isArray(this.value)
      ? (this.value as JsonObject)
      : this.#expected("an object")
  }

  get items(): ReadonlyArray<JsonCursor> {
    return Array.isArray(this.value)
      ? this.value.map((item: unknown, i) => new JsonCursor(item, `${this.path}[${i}]`))
      : this.#expected("a list")
  }

  get text(): string {
    return typeof this.value === "string" ? this.value : this.#expected("a string")
  }

  /** Returns the value if it is one of these words. */
  oneOf<const W extends string>(words: ReadonlyArray<W>): W {
    const found = words.find((word) => word === this.value)
    return found ?? this.#expected(words.map((word) => `"${word}"`).join(" or "))
  }

  field(name: string): JsonCursor {
    const object = this.object
    const value = Object.hasOwn(object, name) ? object[name] : undefined
    return new JsonCursor(value, this.path === "" ? name : `${this.path}.${name}`)
  }

  /** Returns the field, unless it is absent or null. */
  maybe(name: string): JsonCursor | undefined {
    const place = this.field(name)
    return place.value === undefined || place.value === null ? undefined : place
  }
}
