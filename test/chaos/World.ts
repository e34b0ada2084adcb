/**
 * Random worlds for an agent: its conversation, the faults of its three providers, its policy and its limits.
 *
 * {@link World} is a Schema for `it.effect.prop`. {@link answers} plays the conversation: each answer asks for the tools
 * of the next step. The steps are counted in the conversation itself (`step-3`), so a compacted conversation goes on
 * where it was, and a payment that runs twice is always a fault of the agent.
 */
import { Effect, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import type { Outcome } from "@outlast/agent"
import { Agent } from "@outlast/agent"
import { Arbitraries } from "@outlast/testing"
import type { FaultPlan } from "@outlast/testing"

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

// -----------------------------------------------------------------------------
// Faults
// -----------------------------------------------------------------------------

/** Faults of a conversation, besides those of `Arbitraries.Fault`. */
const OfConversation = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("finish"),
    reason: Schema.Literals(["length", "content-filter"]),
    after: Schema.optionalKey(between(0, 6))
  }),
  Schema.Struct({
    type: Schema.Literal("garbage"),
    body: Schema.Struct({ unexpected: Schema.Literal(true) })
  }),
  Schema.Struct({ type: Schema.Literal("status"), status: Schema.Literal(413) }),
  Schema.Struct({ type: Schema.Literal("stall"), after: between(0, 6), keepAlive: Schema.Literal(5_000) }),
  Schema.Struct({ type: Schema.Literal("repeat"), characters: between(0, 20) })
])

const Step = Schema.Struct({
  /** Absent: the requests to every provider. */
  at: Schema.optionalKey(Schema.Literals(["anthropic", "openai", "google"])),
  skip: Schema.optionalKey(between(0, 4)),
  times: Schema.Literals([1, 2, 4, "always"]),
  fault: Schema.Union([Arbitraries.Fault, Arbitraries.Fault, OfConversation])
})

// -----------------------------------------------------------------------------
// World
// -----------------------------------------------------------------------------

/** `pay` has an effect, `look` returns a long page, `slow` exceeds its time limit, `absent` is not in the toolkit. */
const Use = Schema.Literals(["look", "look", "pay", "pay", "slow", "absent"])

export const World = Schema.Struct({
  /** Tools of each turn; a text ends the conversation behind them. */
  turns: Schema.Array(Schema.Array(Use).check(Schema.isMinLength(1), Schema.isMaxLength(3))).check(
    Schema.isMaxLength(5)
  ),
  faults: Schema.Array(Step).check(Schema.isMaxLength(5)),
  keys: between(1, 2),
  streams: Schema.Boolean,
  maxTurns: between(1, 8),
  /** Limit of tool calls; absent: the run has no guard. */
  toolCalls: Schema.optionalKey(between(1, 8)),
  /** Tokens; absent: the run has no compaction. */
  window: Schema.optionalKey(Schema.Literals([3_000, 6_000])),
  /** Seconds after which the run is cancelled. */
  cancelled: Schema.optionalKey(between(0, 60))
})
export type World = typeof World.Type

/** The faults of a world as steps of a plan. */
export const faultsOf = ({ faults }: World): ReadonlyArray<FaultPlan.Step> =>
  faults.map(({ at, ...step }) => (at === undefined ? step : { ...step, when: { provider: at } }))

// -----------------------------------------------------------------------------
// Conversation
// -----------------------------------------------------------------------------

const word = /step-(\d+)/g

/** The last step that a conversation mentions, from 1; 0 for a new conversation. */
const reached = (messages: ReadonlyArray<FaultPlan.Message>): number =>
  Math.max(0, ...Array.from(JSON.stringify(messages).matchAll(word), ([, step]) => Number(step)))

/** The answers of a world's conversation, and of its summaries, whose requests alone have a system message. */
export const answers =
  ({ turns }: World): FaultPlan.FaultPlan["answers"] =>
  ({ messages }) => {
    const step = reached(messages)
    if (messages[0]?.role === "system") return { text: `## Goal\nPay the bills. Done up to step-${step}.` }
    const uses = turns[step]
    if (uses === undefined) return { text: "All the bills are paid now." }
    return {
      text: "I go on with the next bills.",
      toolCalls: uses.map((use, i) => ({ name: use, params: { id: `step-${step + 1}.${i}` } }))
    }
  }

const parameters = Schema.Struct({ id: Schema.String })
export const Kit = Toolkit.make(
  Tool.make("look", { parameters, success: Schema.String }),
  Tool.make("pay", { parameters, success: Schema.String }),
  Tool.make("slow", { parameters, success: Schema.String })
)

/** Handlers that record the payments that began. A payment takes a second. */
export const paying = () => {
  const paid: Array<string> = []
  const layer = Kit.toLayer({
    look: ({ id }) => Effect.succeed(`Page ${id}. ${"The bill of the roofers is still open. ".repeat(60)}`),
    pay: ({ id }) =>
      Effect.sync(() => void paid.push(id)).pipe(
        Effect.andThen(Effect.sleep("1 second")),
        Effect.as(`paid ${id}`)
      ),
    slow: ({ id }) => Effect.as(Effect.sleep("1 hour"), id)
  })
  return { paid, layer }
}

/** `Agent.stream`, read to its outcome. */
export const streamed = (options: Agent.Options<typeof Kit.tools>) =>
  Agent.stream(options).pipe(
    Stream.runFold(
      (): Outcome.Outcome | undefined => undefined,
      (last, part) => (part.type === "outcome" ? part.outcome : last)
    ),
    Effect.flatMap((outcome) =>
      outcome === undefined ? Effect.die("The stream ended without an outcome.") : Effect.succeed(outcome)
    )
  )
