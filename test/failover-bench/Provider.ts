/**
 * The provider of the crash test: one server that speaks the formats of `Format` and serves two models. `primary` fails as the
 * situation says, `fb-ok` is well unless the situation says otherwise.
 *
 * The answer has 60 words. Asked with a part of it in the last message of the assistant, a model sends the rest.
 */
import { Clock, Effect, FiberSet } from "effect"
import type { Scope } from "effect"
import type { ServerResponse } from "node:http"
import type { Hit } from "../hostile/RawServer.ts"
import * as RawServer from "../hostile/RawServer.ts"
import { isStream } from "../hostile/Replies.ts"
import { formatOf } from "./Format.ts"

export const answer =
  "Rivers rarely run straight because water erodes the outer bank of every bend while slower currents drop sand " +
  "along the inner side, so loops widen over decades until a flood cuts through the narrow neck and leaves behind " +
  "one curved lake, which fills with reeds, then mud, and finally grass where cattle graze above an old and forgotten " +
  "channel today."

const words = answer.match(/\s*\S+/g) ?? []

type Model = "primary" | "fb-ok"

/** One request and its open response. */
export interface Exchange {
  readonly model: Model
  /** Number of the request among those to this model, from 0. */
  readonly n: number
  readonly hit: Hit
  readonly response: ServerResponse
}

export type Behaviour = (exchange: Exchange) => Effect.Effect<void>

export interface Request {
  readonly model: Model
  /** Milliseconds since the provider began. */
  readonly at: number
}

interface Provider {
  readonly url: string
  readonly requests: ReadonlyArray<Request>
  /** Milliseconds since the provider began. */
  readonly now: () => number
}

/** `primary` learns how many milliseconds ago the provider began. The provider ends with the scope. */
export const start = (
  primary: (exchange: Exchange, at: number) => Effect.Effect<void>,
  fallback: Behaviour
): Effect.Effect<Provider, never, Scope.Scope> =>
  Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const millis = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
    const begun = millis()
    const now = () => millis() - begun
    const run = yield* FiberSet.makeRuntime<never>()
    const requests: Array<Request> = []
    const { url } = yield* RawServer.start((response, hit) => {
      const model: Model = hit.body.model === "fb-ok" ? "fb-ok" : "primary"
      const n = requests.filter((request) => request.model === model).length
      const at = now()
      requests.push({ model, at })
      const exchange = { model, n, hit, response }
      const fiber = run(model === "primary" ? primary(exchange, at) : fallback(exchange))
      response.once("close", () => fiber.interruptUnsafe())
    })
    return { url, requests, now }
  })

// -----------------------------------------------------------------------------
// Pieces of a behaviour
// -----------------------------------------------------------------------------

export const refuse =
  (status: number, error: object, headers: Readonly<Record<string, string>> = {}): Behaviour =>
  ({ hit, response }) =>
    Effect.sync(() => {
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
      RawServer.json(response, status, formatOf(hit).error(status, error))
    })

/** Closes the connection without a word. */
export const reset: Behaviour = ({ hit }) => Effect.sync(() => void hit.socket.resetAndDestroy())

export const cut: Behaviour = ({ hit }) => Effect.sync(() => void hit.socket.destroy())

/** Milliseconds from one word to the next. */
const perWord = 20

/** Words that leave together. */
const together = 10

/** The number of words that the request already has. */
const shownIn = (hit: Hit): number => {
  const last = formatOf(hit).shown(hit.body)
  const shown = typeof last === "string" ? last.trim() : ""
  return answer.startsWith(shown) ? (shown.match(/\S+/g)?.length ?? 0) : 0
}

const write = ({ response }: Exchange, ...events: ReadonlyArray<object | string>): void => {
  response.write(events.map((each) => RawServer.event(each)).join(""))
}

/** The head of the stream, and the words that the request does not have, up to the word `to`. */
export const say =
  (to: number = words.length, from: number = 0): Behaviour =>
  (exchange) =>
    Effect.gen(function* () {
      const { hit, model, response } = exchange
      const format = formatOf(hit)
      if (!response.headersSent) {
        RawServer.head(response)
        write(exchange, ...format.head(model))
      }
      for (let at = Math.max(from, shownIn(hit)); at < to; at += together) {
        yield* Effect.sleep(together * perWord)
        const piece = words.slice(at, Math.min(at + together, to))
        write(exchange, ...piece.map((word) => format.word(word, model)))
      }
    })

/** The finish reason and the usage, without the event that ends the stream. */
export const finish: Behaviour = (exchange) =>
  Effect.sync(() => {
    const said = words.slice(shownIn(exchange.hit)).join("")
    write(exchange, ...formatOf(exchange.hit).finish(said, exchange.model, words.length))
  })

/** One event whose data is `text`. */
export const event =
  (text: string): Behaviour =>
  (exchange) =>
    Effect.sync(() => write(exchange, text))

export const done: Behaviour = (exchange) =>
  Effect.sync(() => {
    const end = formatOf(exchange.hit).done
    if (end !== undefined) write(exchange, end)
    exchange.response.end()
  })

export const inOrder =
  (...behaviours: ReadonlyArray<Behaviour>): Behaviour =>
  (exchange) =>
    Effect.forEach(behaviours, (each) => each(exchange), { discard: true })

export const pause =
  (millis: number): Behaviour =>
  () =>
    Effect.sleep(millis)

const whole: Behaviour = ({ hit, model, response }) =>
  Effect.gen(function* () {
    const rest = words.slice(shownIn(hit))
    yield* Effect.sleep(rest.length * perWord)
    RawServer.json(response, 200, formatOf(hit).whole(rest.join(""), model, words.length))
  })

/** Answers as the request asks: a stream, or a whole answer. */
export const well: Behaviour = (exchange) =>
  isStream(exchange.hit) ? inOrder(say(), finish, done)(exchange) : whole(exchange)
