/** The printed timeline: actions of the agent's side on the left, requests at the servers on the right. */
import { Clock, Console, Effect, Ref } from "effect"
import { EventLine } from "@outlast/agent"
import type { FailoverEvent } from "@outlast/agent"
import type { FakeProvider } from "@outlast/testing"

/** ANSI colours, or none. */
export interface Paint {
  readonly dim: (text: string) => string
  readonly good: (text: string) => string
  readonly bad: (text: string) => string
  readonly strong: (text: string) => string
}

const code = (n: number) => (text: string) => `\u001b[${n}m${text}\u001b[0m`
const plain = (text: string): string => text

export const coloured: Paint = { dim: code(2), good: code(32), bad: code(31), strong: code(1) }
export const uncoloured: Paint = { dim: plain, good: plain, bad: plain, strong: plain }

export interface Timeline {
  readonly paint: Paint
  /** Prints a line of the agent's side. */
  readonly agent: (line: string, paint?: (text: string) => string) => Effect.Effect<void>
  /** Prints a request that a server got. */
  readonly server: (request: FakeProvider.RecordedRequest) => Effect.Effect<void>
  readonly event: (event: FailoverEvent.FailoverEvent) => Effect.Effect<void>
}

const leftWidth = 74

/** Creates a timeline that starts now. */
export const make = (paint: Paint): Effect.Effect<Timeline> =>
  Effect.gen(function* () {
    const startedAt = yield* Ref.make(yield* Clock.currentTimeMillis)
    const print = (left: string, right: string, colour: (text: string) => string) =>
      Effect.gen(function* () {
        const seconds = ((yield* Clock.currentTimeMillis) - (yield* Ref.get(startedAt))) / 1_000
        const time = paint.dim(`${seconds.toFixed(2).padStart(6)}s`)
        yield* Console.log(
          `${time}  ${colour(right === "" ? left : left.padEnd(leftWidth))}${paint.dim(right)}`.trimEnd()
        )
      })
    const agent = (line: string, colour = plain) => print(line, "", colour)
    return {
      paint,
      agent,
      server: (request) => print("", `│ ${requestLine(request)}`, plain),
      event: (event) => {
        const line = EventLine.of(event)
        if (line === undefined) return Effect.void
        // The definition of an event marks its line.
        const colour = line.text.startsWith("✗") ? paint.bad : line.text.startsWith("✓") ? paint.good : plain
        return agent(line.text, colour)
      }
    }
  })

const requestLine = ({ provider, key, outcome }: FakeProvider.RecordedRequest): string =>
  `${provider.padEnd(9)} ${key.padEnd(6)} ${outcomeOf(outcome)}`

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
          return fault.after === undefined ? "connection reset" : "200, reset in mid-stream"
        case "cut":
          return "200, closed in mid-stream"
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
