/**
 * The conversation of one agent, recorded for the transcript of a stop.
 *
 * The record holds the prompt of the last call, the answer, and the tool results since then. `transcript` turns them
 * into a legal prompt. A call without a result gets a result that says so. Calls of the last answer with the same id
 * get different ids.
 *
 * **What it does not do.** A model that resolves its own tools without streaming returns its answer only after the
 * tools have run. When the run stops before that, the transcript has the calls but not the text before them.
 */
import { Equal } from "effect"
import { Prompt } from "effect/ai"
import type { Response } from "effect/ai"
import * as Dialect from "../conversation/Dialect.ts"
import * as Pairs from "../conversation/Pairs.ts"
import * as Wording from "../conversation/Wording.ts"
import { Transcript } from "../conversation/Transcript.ts"
import type { Hints } from "./LoopDetector.ts"

/** A tool call that was admitted. */
export interface Call {
  readonly id: string
  readonly name: string
  readonly params: unknown
  /** The annotations of the tool. */
  readonly hints?: Hints | undefined
}

export interface Result {
  /** The result as the model receives it. */
  readonly encoded: unknown
  readonly isFailure: boolean
}

interface Made extends Call {
  result: Result | undefined
}

/** Maximum number of recorded calls between two model calls. A program may call handlers without end. */
const maxCalls = 2_000

export class GuardedConversation {
  #prompt: Prompt.Prompt = Prompt.empty
  #parts: Array<Response.AnyPart> = []
  #calls: Array<Made> = []

  /** Records the prompt of a model call. */
  asked(prompt: Prompt.Prompt): void {
    this.#prompt = prompt
    this.#parts = []
    this.#calls = []
  }

  /** Records parts of the answer. */
  said(parts: ReadonlyArray<Response.AnyPart>): void {
    for (const part of parts) this.#parts.push(part)
  }

  /** Discards the answer of this turn. */
  unsaid(): void {
    this.#parts = []
  }

  /** Records a tool call that begins. Pass the result to the returned function. */
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
    const said = own.filter(isLocalCall)
    const made = [...this.#calls]
    // Open calls of the prompt ran first: they were waiting for approval.
    const open = unanswered(this.#prompt)
    const approved = open.flatMap(
      (id) => taken(made, (one) => one.id === id && !said.some((call) => call.id === id)) ?? []
    )
    // Ids may repeat: match calls with the same arguments first, then in their order.
    const same = said.map((call) => taken(made, (one) => isSame(one, call)))
    const ran = said.map((call, i) => same[i] ?? taken(made, ({ id }) => id === call.id))
    const results = this.#parts.filter(isLocalResult).filter(({ preliminary }) => !preliminary)
    for (const { id, result } of this.#calls) {
      if (result !== undefined)
        taken(results, (part) => part.id === id && Equal.equals(part.encodedResult, result.encoded))
    }
    const resultFor = (call: Named, one: Made | undefined): Prompt.ToolResultPart => {
      if (one?.result !== undefined) return resultOf(call, one.result.encoded, one.result.isFailure)
      const part = taken(results, ({ id }) => id === call.id)
      return part === undefined
        ? resultOf(call, one === undefined ? texts.notRun : texts.interrupted, true)
        : resultOf(part, part.encodedResult, part.isFailure)
    }

    const last = Prompt.fromResponseParts(own).content.at(-1)
    // The remaining calls are not yet in the answer of the model.
    const calls = made.map(({ id, name, params }) =>
      Prompt.makePart("tool-call", { id, name, params, providerExecuted: false })
    )
    const content = [...(last?.role === "assistant" ? last.content : []), ...calls]
    const answer: ReadonlyArray<Prompt.Message> = [
      ...(content.length === 0
        ? []
        : [
            Prompt.makeMessage("assistant", {
              content: content.filter((part) => part.type !== "tool-approval-request")
            })
          ]),
      ...toolMessage([
        ...said.map((call, i) => resultFor(call, ran[i])),
        ...made.map((one) => resultFor(one, one))
      ])
    ]
    // Results of calls in the prompt.
    const others = [
      ...approved.map((one) => resultFor(one, one)),
      ...results.map((part) => resultOf(part, part.encodedResult, part.isFailure))
    ]
    const wording = { ...Wording.defaults, unanswered: texts.notRun }
    const messages = [
      ...this.#prompt.content,
      ...Pairs.fit(answer, { ...anywhere, dialect: toldApart, wording }),
      ...toolMessage(others)
    ]
    return new Transcript(Prompt.fromMessages(Pairs.fit(messages, { ...anywhere, wording })))
  }

  /** True for a call that the provider runs and that has not ended. */
  #isHalf(part: Response.AnyPart): boolean {
    return (
      part.type === "tool-call" &&
      part.providerExecuted === true &&
      !this.#parts.some((other) => other.type === "tool-result" && !other.preliminary && other.id === part.id)
    )
  }
}

/** Ids of the calls in a prompt that have no result there. */
const unanswered = ({ content }: Prompt.Prompt): ReadonlyArray<string> => {
  const open = new Set<string>()
  for (const message of content) {
    if (message.role !== "assistant" && message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type === "tool-call" && !part.providerExecuted) open.add(part.id)
      else if (part.type === "tool-result") open.delete(part.id)
    }
  }
  return [...open]
}

type LocalResult = Extract<Response.AnyPart, { readonly type: "tool-result" }>

const isLocalResult = (part: Response.AnyPart): part is LocalResult =>
  part.type === "tool-result" && part.providerExecuted !== true

type LocalCall = Extract<Response.AnyPart, { readonly type: "tool-call" }>
type Named = Pick<Call, "id" | "name">

const isLocalCall = (part: Response.AnyPart): part is LocalCall =>
  part.type === "tool-call" && part.providerExecuted !== true

const isSame = (one: Call, other: Call): boolean =>
  one.id === other.id && one.name === other.name && Equal.equals(one.params, other.params)

/** Removes the first match from the list and returns it. */
const taken = <A>(from: Array<A>, fits: (one: A) => boolean): A | undefined => {
  const at = from.findIndex(fits)
  return at < 0 ? undefined : from.splice(at, 1)[0]
}

const toolMessage = (content: ReadonlyArray<Prompt.ToolResultPart>): ReadonlyArray<Prompt.Message> =>
  content.length === 0 ? [] : [Prompt.makeMessage("tool", { content })]

const resultOf = ({ id, name }: Named, result: unknown, isFailure: boolean): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", { id, name, result, isFailure, providerExecuted: false })

/** A neutral destination: ids and names stay as they are, only pairs are completed. */
const anywhere = {
  ref: { id: "", provider: "", model: "", endpoint: "", key: "" },
  dialect: { ...Dialect.defaults, callId: /(?:)/, uniqueCallIds: false, toolName: /(?:)/ },
  names: undefined
}

/** Like `anywhere`, but each call of an answer must have its own, non-empty id. */
const toldApart: Dialect.Dialect = { ...anywhere.dialect, callId: /./, uniqueCallIds: true }
