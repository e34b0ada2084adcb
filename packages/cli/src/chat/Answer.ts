/**
 * One message of the user: a run of the agent under the guard of the preset, shown while it arrives.
 *
 * A message that fails, or that the user cancels, is not added to the conversation.
 */
import { Effect, Ref, Stream } from "effect"
import { Prompt } from "effect/ai"
import { Agent, SafetyGuard } from "@outlast/agent"
import type { AgentFailed, Outcome } from "@outlast/agent"
import * as Journal from "./Journal.ts"
import type { State } from "./State.ts"
import * as Workspace from "./Workspace.ts"

type Failure = AgentFailed.AgentFailed | SafetyGuard.SafetyStop

/** The failure and what to do about it. */
const failed = (failure: Failure): ReadonlyArray<string> => [
  `✗ ${failure._tag === "AgentFailed" ? failure.reason.message : failure.message}`,
  "The message was not added to the conversation: send it again later. /cooldowns and /circuits show what is out, /reset all brings it back."
]

/** What the user is told about the end of a run; empty for an answer that is complete. */
const ending = ({ status, finishReason, stop }: Outcome.Outcome): ReadonlyArray<string> => {
  switch (status) {
    case "completed":
      return []
    case "cancelled":
      return ["Cancelled. The message was not added to the conversation."]
    case "cut":
      return [`The answer is incomplete (${finishReason}). Ask the model to go on.`]
    default:
      return [`✗ The run ended early: ${stop?.message ?? status.replaceAll("_", " ")}`]
  }
}

/** Answers a message. False when it failed. */
export const answer = (state: State, text: string) =>
  Effect.gen(function* () {
    const { terminal, conversation } = state
    const model = yield* Ref.get(state.model)
    const host = yield* SafetyGuard.make(model.guard)
    let outcome: Outcome.Outcome | undefined
    const parts = Agent.stream({
      prompt: Prompt.concat(yield* Ref.get(conversation), text),
      toolkit: Workspace.kit,
      maxTurns: model.maxTurns,
      cancel: terminal.interrupted
    })
    const said = yield* host.runStream(parts).pipe(
      Stream.runForEach((part) => {
        if (part.type === "text-delta") return terminal.text(part.delta)
        if (part.type === "rewind") return terminal.aside("  the answer begins again")
        if (part.type === "finish") return terminal.settle
        if (part.type === "outcome") outcome = part.outcome
        return Effect.void
      }),
      Effect.provideContext(model.context),
      Effect.matchEffect({
        onFailure: (failure) => Effect.succeed(failed(failure)),
        onSuccess: () => Effect.succeed(outcome === undefined ? [] : ending(outcome))
      })
    )
    const report = yield* host.report
    yield* Ref.set(state.report, report)
    yield* Ref.update(state.journal, (journal) => Journal.ended(journal, report.blocked.length))
    if (outcome !== undefined && outcome.status !== "cancelled") {
      yield* Ref.set(conversation, outcome.transcript.prompt)
    }
    yield* terminal.lines(said)
    return outcome !== undefined
  })
