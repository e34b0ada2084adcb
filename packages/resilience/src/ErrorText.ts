/**
 * Prints an error once: its message, a few lines of its own stack, and nothing of what it carries.
 *
 * Node prints every property of an error, and the stack of every error in them. An error that carries failures of
 * several targets, or a conversation, fills a screen with it. {@link printedOnce} stands under a class whose message
 * says all of that; the properties stay as they are for code that reads them.
 *
 * **Example** (An error of one's own)
 *
 * ```ts
 * class Failed extends Data.TaggedError("Failed")<{ readonly failures: ReadonlyArray<Error> }> {}
 * ErrorText.printedOnce(Failed)
 * ```
 */

/** Lines of a stack that are printed. */
export const frames = 4

/** The hook of `console.error` and of Node's message about an uncaught error. */
const inspect = Symbol.for("nodejs.util.inspect.custom")

export interface Options {
  /** Prints the header of the error's `cause`, too: for a message that does not say it. Default: false. */
  readonly withCause?: boolean | undefined
}

/** Prints the errors of a class by {@link of}. */
export const printedOnce = (Class: { readonly prototype: Error }, options?: Options): void => {
  Object.defineProperty(Class.prototype, inspect, {
    configurable: true,
    writable: true,
    value: function (this: Error): string {
      return of(this, options)
    }
  })
}

/** The name, the message and the first lines of the stack. */
export const of = (error: Error, { withCause = false }: Options = {}): string => {
  const cause = withCause && error.cause instanceof Error ? [`  [cause]: ${headerOf(error.cause)}`] : []
  return [headerOf(error), ...framesOf(error), ...cause].join("\n")
}

/** Names of schema errors are paths: the last part says what it is. */
const headerOf = ({ name, message }: Error): string => `${name.slice(name.lastIndexOf("/") + 1)}: ${message}`

/**
 * Shortens what Node prints of an error that is never caught, where it asks no class: the stack gets as short as in
 * {@link of}, and the named properties are not enumerable any more. Reading them stays as it is.
 */
export const brief = <E extends Error>(error: E, ...hidden: ReadonlyArray<PropertyKey>): E => {
  const stack = [`${error.name}: ${error.message}`, ...framesOf(error)].join("\n")
  Object.defineProperty(error, "stack", { configurable: true, writable: true, value: stack })
  for (const name of hidden) {
    if (Object.hasOwn(error, name)) Object.defineProperty(error, name, { enumerable: false })
  }
  return error
}

/** Hides all of an error but its message: for one that only stands inside of another one. */
export const inner = <E extends Error>(error: E): E => {
  brief(error, ...Object.keys(error))
  Object.defineProperty(error, "stack", {
    configurable: true,
    writable: true,
    value: `${error.name}: ${error.message}`
  })
  return error
}

/**
 * The first frames of the program. Frames of Effect, Node and built-in functions say nothing about it; those of Outlast
 * stand only where there are no others.
 */
const framesOf = ({ stack }: Error): ReadonlyArray<string> => {
  const known = (stack ?? "")
    .split("\n")
    .filter(
      (line) => /^\s+at /.test(line) && !/node:|<anonymous>|\/effect\/(?:dist|src)\/|~effect\//.test(line)
    )
  const outside = known.filter((line) => !outlast.test(line))
  return (outside.length > 0 ? outside : known).slice(0, frames)
}

/** Files of these packages, installed or in their repository. */
const outlast =
  /[\\/](?:@outlast|packages)[\\/](?:resilience|agent|providers|testing|node|delivery)[\\/](?:src|dist)[\\/]/
