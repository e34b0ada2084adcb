/**
 * Prints an error once: its message and the first lines of its stack, without its other properties.
 *
 * Node prints every property of an error, and the stack of every nested error. An error that carries the failures of
 * several targets, or a conversation, fills a screen. Call {@link printedOnce} for a class whose message already says
 * all of that. The properties stay readable.
 *
 * **Example** (A custom error class)
 *
 * ```ts
 * class Failed extends Data.TaggedError("Failed")<{ readonly failures: ReadonlyArray<Error> }> {}
 * ErrorText.printedOnce(Failed)
 * ```
 */

/** Number of stack lines that are printed. */
export const frames = 4

/** The symbol that `console.error` and Node's report of an uncaught error look for. */
const inspect = Symbol.for("nodejs.util.inspect.custom")

export interface Options {
  /**
   * Also prints the first line of the error's `cause`, for a class whose message does not include it. Default: false.
   */
  readonly withCause?: boolean | undefined
}

/** Makes Node print the errors of a class with {@link of}. */
export const printedOnce = (Class: { readonly prototype: Error }, options?: Options): void => {
  Object.defineProperty(Class.prototype, inspect, {
    configurable: true,
    writable: true,
    value: function (this: Error): string {
      return of(this, options)
    }
  })
}

/** Returns the name, the message and the first lines of the stack. */
export const of = (error: Error, { withCause = false }: Options = {}): string => {
  const cause = withCause && error.cause instanceof Error ? [`  [cause]: ${headerOf(error.cause)}`] : []
  return [headerOf(error), ...framesOf(error), ...cause].join("\n")
}

/** Names of schema errors are paths (`@outlast/…/Unhealthy`). The last part is the class. */
const headerOf = ({ name, message }: Error): string => `${name.slice(name.lastIndexOf("/") + 1)}: ${message}`

/**
 * Shortens the report of an uncaught error, for which Node calls no hook of the class.
 *
 * The stack becomes as short as in {@link of}. The properties named in `hidden` are no longer enumerable, but stay
 * readable.
 */
export const brief = <E extends Error>(error: E, ...hidden: ReadonlyArray<PropertyKey>): E =>
  withFrames(error, framesOf(error), hidden)

/** Hides everything but the message, for an error that only appears inside another one. */
export const inner = <E extends Error>(error: E): E => withFrames(error, [], Object.keys(error))

const withFrames = <E extends Error>(
  error: E,
  lines: ReadonlyArray<string>,
  hidden: ReadonlyArray<PropertyKey>
): E => {
  const stack = [`${error.name}: ${error.message}`, ...lines].join("\n")
  Object.defineProperty(error, "stack", { configurable: true, writable: true, value: stack })
  for (const name of hidden) {
    if (Object.hasOwn(error, name)) Object.defineProperty(error, name, { enumerable: false })
  }
  return error
}

/**
 * Creates an error without a stack, for an expected outcome that comes often, such as the refusal of an open circuit.
 *
 * A stack takes about ten times as long as the rest of such an error, and shows where the library found out, not the
 * reason. In an environment with frozen intrinsics the error has its stack.
 */
export const withoutStack = <E extends Error>(make: () => E): E => {
  // `Reflect` writes nothing where the property is frozen; an assignment would throw.
  const limit: unknown = Reflect.get(Error, stackTraceLimit)
  Reflect.set(Error, stackTraceLimit, 0)
  try {
    return make()
  } finally {
    Reflect.set(Error, stackTraceLimit, limit)
  }
}

const stackTraceLimit = "stackTraceLimit"

/**
 * The first stack frames of the program. Frames of Effect, Node and built-in functions are left out. Frames of Outlast
 * are kept only where no others exist.
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

/** Matches files of these packages, installed or in their repository. */
const outlast =
  /[\\/](?:@outlast|packages)[\\/](?:resilience|agent|providers|testing|node|delivery)[\\/](?:src|dist)[\\/]/
