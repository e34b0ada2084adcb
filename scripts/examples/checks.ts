/** What the modules of `scripts/examples.ts` call where an example states a result. */
import { deepStrictEqual, match, partialDeepStrictEqual, strictEqual } from "node:assert/strict"
import { Effect } from "effect"

const more = Symbol("further fields")

/** Stands for `...` in a stated value. */
export const rest: ReadonlyArray<unknown> & { readonly [more]: true } = Object.assign([], {
  [more]: true
} as const)

const withoutMark = (value: unknown): unknown =>
  typeof value !== "object" || value === null
    ? value
    : Array.isArray(value)
      ? value.map(withoutMark)
      : Object.fromEntries(Object.entries(value).map(([key, field]) => [key, withoutMark(field)]))

const hasMark = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  (more in value || Object.values(value).some((field) => hasMark(field)))

/** Fails unless a value is as stated. */
export const equal = (actual: unknown, stated: unknown): void => {
  if (stated instanceof RegExp) match(String(actual), stated)
  else if (hasMark(stated)) partialDeepStrictEqual(actual, withoutMark(stated))
  else deepStrictEqual(actual, stated)
}

/** Fails unless the function throws, or its effect fails, with the stated name and message. */
export const throws = (run: () => unknown, stated: string): void => {
  let text = "nothing"
  try {
    const value = run()
    // The environment is empty on purpose: an example states the error of a missing service.
    if (Effect.isEffect(value)) Effect.runSync(value as Effect.Effect<unknown, unknown>)
  } catch (error) {
    text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
  }
  strictEqual(text, stated)
}
