/** Whether ports are free, by listening on each for a moment. No connection is accepted. */
import { Effect, Predicate } from "effect"
import { createServer } from "node:net"
import type { Check } from "./Checks.ts"
import * as Checks from "./Checks.ts"
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

/** A port, and the address of this machine at which it is opened; `undefined`: all addresses. */
export interface Port {
  readonly host: string | undefined
  readonly port: number
}

/** Reads `8080`, `127.0.0.1:8080` and `[::1]:8080`; `undefined` for anything else. */
export const parse = (text: string): Port | undefined => {
  const [, six, four, digits = ""] = /^(?:\[([\da-fA-F:.]+)\]:|([^\s:[\]]+):)?(\d{1,5})$/.exec(text) ?? []
  const port = Number(digits)
  return digits === "" || port < 1 || port > 65_535 ? undefined : { host: six ?? four, port }
}

export const examine = (given: Port): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.map(listening(given), (code) =>
    Checks.of("ports", code === undefined ? [] : [problem(given, code)], `Port ${nameOf(given)} is free.`)
  )

const nameOf = ({ host, port }: Port): string =>
  host === undefined ? String(port) : host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`

const problem = (given: Port, code: string): Problem => {
  const name = nameOf(given)
  switch (code) {
    case "EADDRINUSE":
      return Problems.error(
        null,
        `Port ${name} is in use. End the program that has it, or choose another port.`
      )
    case "EACCES":
      return Problems.error(null, `Port ${name} needs privileges. Choose a port from 1024.`)
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return Problems.error(null, `This machine has no address ${given.host}. Name one of its own.`)
    default:
      return Problems.error(null, `Port ${name} cannot be opened (${code}).`)
  }
}

/** The code of the error; `undefined` for a port that could be opened. */
const listening = ({ host, port }: Port): Effect.Effect<string | undefined> =>
  Effect.callback((resume) => {
    const server = createServer((socket) => socket.destroy())
    server.once("error", (error) => {
      resume(
        Effect.succeed(
          Predicate.hasProperty(error, "code") && typeof error.code === "string" ? error.code : "error"
        )
      )
    })
    server.listen({ port, host, exclusive: true }, () => {
      server.close(() => resume(Effect.undefined))
    })
    return Effect.sync(() => void server.close())
  })
