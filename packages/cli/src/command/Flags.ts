/** Flags and arguments that several commands share. */
import { Argument, Flag } from "effect/cli"

// A shell expands an unset variable to an empty text.
const isGiven = (text: string): boolean => text !== ""
const empty = () => "Expected a text that is not empty"
/** A flag whose text is not empty. */
export const text = (name: string) => Flag.String(name).pipe(Flag.filter(isGiven, empty))
/** An argument that is not empty. */
export const argument = (name: string) => Argument.String(name).pipe(Argument.filter(isGiven, empty))
/** A path; - is standard input where a command reads it. */
export const file = argument("file")

/** What is common to commands over a store. `what` begins the description of `--store`. */
export const storeFlags = (what: string) => ({
  store: text("store").pipe(
    Flag.withDescription(
      `${what}: a SQLite file, or a postgres:// address. Default: OUTLAST_STORE in the environment`
    ),
    Flag.optional
  ),
  prefix: text("prefix").pipe(
    Flag.withDescription("First part of the names of its tables"),
    Flag.withDefault("outlast")
  ),
  json: Flag.Boolean("json").pipe(
    Flag.withDescription("Print JSON: one object a line, or one for the whole"),
    Flag.withDefault(false)
  )
})

const anyPort = (name: string) =>
  Flag.Int(name).pipe(
    Flag.filter(
      (port) => port >= 0 && port <= 65_535,
      () => "Expected a port from 0 to 65535; 0 is any free one"
    )
  )

/** The port of a server. */
export const port = (name: string, usual: number, what: string) =>
  anyPort(name).pipe(Flag.withDescription(`${what}. Default: ${usual}`), Flag.withDefault(usual))

/** The port of a server that a command may do without, or choose itself. */
export const optionalPort = (name: string, what: string) =>
  anyPort(name).pipe(Flag.withDescription(what), Flag.optional)
