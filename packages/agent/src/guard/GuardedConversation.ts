/**
 * The conversation of one agent as far as it is known, for the time when it is stopped.
 *
 * It holds the prompt of the last call, what was answered, and the results that tools have brought since. `transcript`
 * makes a legal prompt of it: a call that has no result gets one that says so.
 *
 * **What it does not do.** A model that answers as a whole and resolves its own tools shows its answer only after they
 * have run: stopped before, its transcript has the calls, and not the text before them.
 */
import { Prompt } from "effect/ai"
import type { Response } from "effect/ai"
import * as Dialect from "../conversation/Dialect.ts"
import * as Pairs from "../conversation/Pairs.ts"
import * as Wording from "../conversation/Wording.ts"
import { Transcript } from "../loop/Transcript.ts"

/** A tool call that was admitted. */
export interface Call {
  readonly id: string
  readonly name: string
  readonly params: unknown
}

export interface Result {
  /** As the model gets it. */
  readonly encoded: unknown
  readonly isFailure: boolean
}

interface Made extends Call {
  result: Result | undefined
}

/** Calls that are kept without a call of the model between them: a program may call handlers for ever. */
const maxCalls = 2_000

export class GuardedConversation {
  #prompt: Prompt.Prompt = Prompt.empty
  #parts: Array<Response.AnyPart> = []
  #calls: Array<Made> = []

  /** The model is asked with this. */
  asked(prompt: Prompt.Prompt): void {
    this.#prompt = prompt
    this.#parts = []
    this.#calls = []
  }

  /** The model has said more. */
  said(parts: ReadonlyArray<Response.AnyPart>): void {
    for (const part of parts) this.#parts.push(part)
  }

  /** What the model has said in this turn is void. */
  unsaid(): void {
    this.#parts = []
  }

  /** A tool begins to run; call what it gives with the result. */
  called(call: Call): (result: Result) => void {
    const made: Made = { ...call, result: undefined }
    this.#calls.push(made)
    if (this.#calls.length > maxCalls) this.#calls.splice(0, maxCalls / 2)
    return (result) => {
      made.result = result
    }
  }

  transcript(texts: { readonly interrupted: string; readonly notRun: string }): Transcript {
    const own = this.#parts.filter((part) => !isLocalResult(part) && !this.#isHalf(part))
    const said = new Set(own.flatMap((part) => (part.type === "tool-call" ? [part.id] : [])))
    const shown = this.#calls.filter(({ id }) => !said.has(id))
    const results = new Map<string, Prompt.ToolResultPart>()
    for (const part of this.#parts) {
      if (isLocalResult(part) && !part.preliminary)
        results.set(part.id, resultOf(part, part.encodedResult, part.isFailure))
    }
    for (const call of this.#calls) {
      const { encoded, isFailure } = call.result ?? { encoded: texts.interrupted, isFailure: true }
      if (!results.has(call.id)) results.set(call.id, resultOf(call, encoded, isFailure))
    }
    const answer = Prompt.fromResponseParts(own).content
    const last = answer.at(-1)
    const calls = shown.map(({ id, name, params }) =>
      Prompt.makePart("tool-call", { id, name, params, providerExecuted: false })
    )
    const content = [...(last?.role === "assistant" ? last.content : []), ...calls]
    const messages = [
      ...this.#prompt.content,
      ...(content.length === 0
        ? []
        : [
            Prompt.makeMessage("assistant", {
              content: content.filter((part) => part.type !== "tool-approval-request")
            })
          ]),
      ...(results.size === 0 ? [] : [Prompt.makeMessage("tool", { content: [...results.values()] })])
    ]
    return new Transcript(
      Prompt.fromMessages(
        Pairs.fit(messages, { ...anywhere, wording: { ...Wording.defaults, unanswered: texts.notRun } })
      )
    )
  }

  /** A call that its provider runs and has not ended. */
  #isHalf(part: Response.AnyPart): boolean {
    return (
      part.type === "tool-call" &&
      part.providerExecuted === true &&
      !this.#parts.some((other) => other.type === "tool-result" && other.id === part.id)
    )
  }
}

type LocalResult = Extract<Response.AnyPart, { readonly type: "tool-result" }>

const isLocalResult = (part: Response.AnyPart): part is LocalResult =>
  part.type === "tool-result" && part.providerExecuted !== true

const resultOf = (
  { id, name }: { readonly id: string; readonly name: string },
  result: unknown,
  isFailure: boolean
): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", { id, name, result, isFailure, providerExecuted: false })

/** No target in particular: ids and names stay as they are, only pairs are made whole. */
const anywhere = {
  ref: { id: "", provider: "", model: "", endpoint: "", key: "" },
  dialect: { ...Dialect.defaults, callId: /(?:)/, uniqueCallIds: false, toolName: /(?:)/ },
  names: undefined
}
