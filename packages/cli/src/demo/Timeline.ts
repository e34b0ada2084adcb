/**
 * The printed timeline: actions of the agent's side on the left, requests at the servers on the right. It fits a
 * terminal of 80 columns.
 */
import { Clock, Effect } from "effect"
import { EventLine } from "@outlast/agent"
import type { FailoverEvent } from "@outlast/agent"
import type { FakeProvider } from "@outlast/testing"
import { plain } from "./Paint.ts"
import type { Paint } from "./Paint.ts"

export interface Timeline {
  readonly paint: Paint
  /** Prints the labels of the columns. */
  readonly heading: Effect.Effect<void>
  /** Prints a line of the agent's side. */
  readonly agent: (line: string, paint?: (text: string) => string) => Effect.Effect<void>
  /** Prints a request that a server got. */
  readonly server: (request: FakeProvider.RecordedRequest) => Effect.Effect<void>
  readonly event: (event: FailoverEvent.FailoverEvent) => Effect.Effect<void>
}

/** Columns of a terminal that the timeline needs. */
const width = 80
/** Columns of the time and the space after it. */
const timeWidth = 9
/** Column of the server's side, counted after the time. */
const serverAt = 31

/** The labels above the two columns. */
const heading = `${"".padEnd(timeWidth)}${"the agent".padEnd(serverAt)}│ the servers: provider, key, answer`

/** Breaks a text into lines of at most `columns`, at spaces where there are some. */
const wrapped = (text: string, columns: number): ReadonlyArray<string> => {
  const lines: Array<string> = []
  let rest = text
  // Lines that continue are indented by two.
  for (let room = columns; rest.length > room; room = columns - 2) {
    const at = rest.lastIndexOf(" ", room)
    const end = at > room / 2 ? at : room
    lines.push(rest.slice(0, end).trimEnd())
    rest = rest.slice(end).trimStart()
  }
  return [...lines, rest].map((line, i) => (i === 0 ? line : `  ${line}`))
}

/** Creates a timeline that starts now. `write` prints a line. */
export const make = (paint: Paint, write: (line: string) => Effect.Effect<void>): Effect.Effect<Timeline> =>
  Effect.gen(function* () {
    const startedAt = yield* Clock.currentTimeMillis
    const print = (text: string, colour: (text: string) => string, from = 0) =>
      Effect.gen(function* () {
        const seconds = ((yield* Clock.currentTimeMillis) - startedAt) / 1_000
        const time = `${seconds.toFixed(2).padStart(6)}s  `
        for (const [i, line] of wrapped(text, width - timeWidth - from).entries()) {
          const before = i === 0 ? paint.dim(time) : "".padEnd(timeWidth)
          yield* write(`${before}${"".padEnd(from)}${colour(line)}`)
        }
      })
    return {
      paint,
      heading: write(paint.dim(heading)),
      agent: (line, colour = plain) => print(line, colour),
      server: (request) => print(`│ ${requestLine(request)}`, paint.dim, serverAt),
      event: (event) => {
        const line = EventLine.of(event)
        if (line === undefined) return Effect.void
        // The definition of an event marks its line.
        const colour = line.text.startsWith("✗") ? paint.bad : line.text.startsWith("✓") ? paint.good : plain
        return print(line.text, colour)
      }
    }
  })

const requestLine = ({ provider, key, outcome }: FakeProvider.RecordedRequest): string =>
  `${provider.padEnd(9)} ${key.padEnd(5)} ${outcomeOf(outcome)}`

const outcomeOf = (outcome: FakeProvider.Outcome): string => {
  switch (outcome.type) {
    case "answer":
      return "200"
    case "fault": {
      const { fault } = outcome
      switch (fault.type) {
        case "status": {
          const wait = fault.headers?.["retry-after"]
          return `${fault.status}${wait === undefined ? "" : ` retry-after: ${wait}`}`
        }
        case "reset":
          return fault.after === undefined ? "connection reset" : "200, reset mid-stream"
        case "cut":
          return "200, closed mid-stream"
        case "stream-error":
          return `200, then error: ${fault.error.type}`
        default:
          return fault.type
      }
    }
    case "no-answer":
      return "400, the plan has no answer"
    case "refused":
      return `${outcome.status} ${outcome.message}`
  }
}
