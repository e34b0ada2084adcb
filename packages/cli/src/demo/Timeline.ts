/**
 * The printed timeline: actions of the agent's side on the left, requests at the servers on the right. Where 80
 * columns do not fit, both sides are one column, and a bar marks the requests.
 */
import { Clock, Effect } from "effect"
import { EventLine } from "@outlast/agent"
import type { FailoverEvent } from "@outlast/agent"
import type { FakeProvider } from "@outlast/testing"
import * as Screen from "./Screen.ts"

export interface Timeline {
  readonly screen: Screen.Screen
  /** Prints the labels of the columns. */
  readonly heading: Effect.Effect<unknown>
  /** Prints a line of the agent's side. */
  readonly agent: (line: string, colour?: (text: string) => string) => Effect.Effect<void>
  /** Prints a request that a server got. */
  readonly server: (request: FakeProvider.RecordedRequest) => Effect.Effect<void>
  readonly event: (event: FailoverEvent.FailoverEvent) => Effect.Effect<void>
}

/** Columns of the time and the space after it. */
const timeWidth = 9
/** Column of the server's side, counted after the time. */
const serverAt = 31
/** The label above the server's side. */
const servers = "│ the servers: provider, key, answer"

/** Creates a timeline that starts now. `write` prints a line. */
export const make = (
  screen: Screen.Screen,
  write: (line: string) => Effect.Effect<void>
): Effect.Effect<Timeline> =>
  Effect.gen(function* () {
    const startedAt = yield* Clock.currentTimeMillis
    const print = (text: string, colour: (text: string) => string, from = 0) =>
      Effect.gen(function* () {
        const seconds = ((yield* Clock.currentTimeMillis) - startedAt) / 1_000
        const time = `${seconds.toFixed(2).padStart(6)}s  `
        for (const [i, line] of Screen.wrapped(text, screen.columns - timeWidth - from).entries()) {
          const before = i === 0 ? screen.dim(time) : "".padEnd(timeWidth)
          yield* write(`${before}${"".padEnd(from)}${colour(line)}`)
        }
      })
    const isNarrow = screen.columns < Screen.widest
    const left = isNarrow ? 0 : serverAt
    const labels = isNarrow ? ["the agent", servers] : [`${"the agent".padEnd(left)}${servers}`]
    return {
      screen,
      heading: Effect.forEach(labels, (label) => write(screen.dim(`${"".padEnd(timeWidth)}${label}`))),
      agent: (line, colour = Screen.plain) => print(line, colour),
      server: (request) => print(`│ ${requestLine(request)}`, screen.dim, left),
      event: (event) => {
        const line = EventLine.of(event)
        if (line === undefined) return Effect.void
        // The definition of an event marks its line.
        const colour = line.text.startsWith("✗")
          ? screen.bad
          : line.text.startsWith("✓")
            ? screen.good
            : Screen.plain
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
