/**
 * One pass over a value of JSON, text by text: what {@link ArgumentScan} and {@link ResultScan} have in common.
 *
 * The order of an object's fields does not count. Costs time by size, and no memory but for what is new. Pure, but for
 * what it keeps of names that recur.
 */
import { Predicate } from "effect"
import type { Field } from "./Field.ts"
import * as Fields from "./Field.ts"
import { begin, mixed, step } from "./Hash.ts"

/** What is nested more deeply, or is more than this, is not looked at. */
const maxDepth = 32
const maxValues = 100_000
/** Words of arguments that are kept, and new words, new lines and numbers of results. */
export const maxWords = 512

/**
 * To go through the fields of an object with `for in`, without a list of their names. What it inherits is gone through,
 * too, and left out.
 */
export const isOwn = Object.prototype.hasOwnProperty

/** The fields of an object. */
export type Values = Readonly<Record<string, unknown>>

const nothing: ReadonlyArray<never> = []

/** So many of the first items. */
export const first = (items: Int32Array, count: number): ReadonlyArray<number> => {
  if (count === 0) return nothing
  const some = new Array<number>(count)
  for (let i = 0; i < count; i++) some[i] = items[i] ?? 0
  return some
}

/** All bytes are one word. */
const wordOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): number => {
  const bytes = new Uint8Array(buffer, byteOffset, byteLength)
  let word = begin()
  for (let i = 0; i < byteLength; i++) word = step(word, bytes[i] ?? 0)
  return word
}

export abstract class Scan {
  /** Of all that is not volatile. */
  hash = begin()
  values = 0
  /** There is a list of nothing. */
  hasEmptyList = false
  /** There is one of things that one looks for. */
  hasNoThings = false
  /** Values that are something: neither empty nor 0, and `true`. */
  substance = 0
  /** It is inside of so many lists of records, and of so many lists in all. */
  listed = 0
  lists = 0

  begin(): void {
    this.hash = begin()
    this.values = this.substance = this.listed = this.lists = 0
    this.hasEmptyList = this.hasNoThings = false
  }

  /** A text, or a number as one; `isNil`: it is 0. */
  abstract text(text: string, key: Field, isNil: boolean): void
  /** What is so or not so: a word with the name of its field. */
  abstract flag(word: number): void
  /** Whether a field that may say nothing beside others does so. */
  abstract skips(key: Field, record: Values, names: ReadonlyArray<string>): boolean
  abstract fieldBegins(key: Field, name: string, value: unknown, record: Values): void
  abstract fieldEnds(key: Field): void

  value(value: unknown, key: Field, depth: number): void {
    if (depth > maxDepth || ++this.values > maxValues) return
    if (typeof value === "string") return this.text(value, key, false)
    if (typeof value === "number" || typeof value === "bigint") {
      return this.text(String(value), key, Number(value) === 0)
    }
    if (typeof value === "boolean") {
      if (value) this.substance++
      return this.mark(key, value ? 0x7472 : 0x6661)
    }
    if (typeof value !== "object" || value === null) return this.mark(key, 0x6e75)
    if (ArrayBuffer.isView(value)) {
      if (value.byteLength > 0) this.substance++
      return this.mark(key, wordOf(value))
    }
    if (Array.isArray(value)) return this.list(value, key, depth)
    // As JSON says it: a date, a URL.
    const { toJSON }: { readonly toJSON?: unknown } = value
    if (typeof toJSON === "function") return this.value(Reflect.apply(toJSON, value, []), key, depth + 1)
    // Of an error JSON says nothing.
    if (value instanceof Error) this.text(String(value), key, false)
    if (Predicate.isObject(value)) this.fields(value, depth)
  }

  list(items: ReadonlyArray<unknown>, key: Field, depth: number): void {
    // No errors are no list of nothing.
    if (items.length === 0 && !key.isTrouble) {
      this.hasEmptyList = true
      if (!key.isComplaint) this.hasNoThings = true
    }
    this.mix(0x5b)
    // Of several things some may have failed: that is what is told of them.
    const many = items.length > 1 && typeof items[0] === "object"
    if (many) this.listed++
    this.lists++
    for (const item of items) {
      if (this.values > maxValues) break
      this.value(item, key, depth + 1)
    }
    if (many) this.listed--
    this.lists--
    this.mix(0x5d)
  }

  /** Each field is hashed for itself, and the sum taken: their order does not count. */
  fields(record: Values, depth: number): void {
    const { hash } = this
    let sum = 0x7b
    let names: ReadonlyArray<string> | undefined
    for (const name in record) {
      if (!isOwn.call(record, name)) continue
      if (this.values > maxValues) break
      const value = record[name]
      if (value === undefined) continue
      const key = Fields.of(name)
      if (key.mayBeSkipped) {
        names ??= Object.keys(record)
        if (this.skips(key, record, names)) continue
      }
      this.hash = key.hash
      this.fieldBegins(key, name, value, record)
      this.value(value, key, depth + 1)
      this.fieldEnds(key)
      sum = (sum + mixed(this.hash)) | 0
    }
    this.hash = step(hash, sum)
  }

  mix(code: number): void {
    this.hash = step(this.hash, code)
  }

  mark(key: Field, code: number): void {
    this.mix(code)
    this.flag(mixed(key.hash ^ code))
  }
}
