/**
 * A value inside of a body, and where it stands: reads fields, and says where one is not what it should be. Pure.
 */
import { Data, Predicate } from "effect"
import type { JsonObject } from "./Json.ts"

/**
 * The body is not what its format says. A shape is read in many small steps: each throws it, and whoever reads a whole
 * body catches it.
 */
export class Broken extends Data.TaggedError("Broken")<{
  /** For example `messages[17].content[2].tool_use_id`; empty for the body itself. */
  readonly path: string
  /** What is wrong there. Quotes no content. */
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

export class Place {
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

  get items(): ReadonlyArray<Place> {
    return Array.isArray(this.value)
      ? this.value.map((item: unknown, i) => new Place(item, `${this.path}[${i}]`))
      : this.#expected("a list")
  }

  get text(): string {
    return typeof this.value === "string" ? this.value : this.#expected("a string")
  }

  /** One of these words. */
  oneOf<const W extends string>(words: ReadonlyArray<W>): W {
    const found = words.find((word) => word === this.value)
    return found ?? this.#expected(words.map((word) => `"${word}"`).join(" or "))
  }

  field(name: string): Place {
    const object = this.object
    const value = Object.hasOwn(object, name) ? object[name] : undefined
    return new Place(value, this.path === "" ? name : `${this.path}.${name}`)
  }

  /** The field, unless it is absent or null. */
  maybe(name: string): Place | undefined {
    const place = this.field(name)
    return place.value === undefined || place.value === null ? undefined : place
  }
}
