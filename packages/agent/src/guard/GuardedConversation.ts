/**
 * The conversation of one agent as far as it is known, for the time when it is stopped.
 *
 * It holds the prompt of the last call, what was answered, and the results that tools have brought since. `transcript`
 * makes a legal prompt of it: a call that has no result gets one that says so, and calls of the last answer that had one
 * id get others.
 *
 * **What it does not do.** A model that answers as a whole and resolves its own tools shows its answer only after they
 * have run: stopped before, its transcript has the calls, and not the text before them.
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
    const said = own.filter(isLocalCall)
    const made = [...this.#calls]
    // What the prompt asks for already is run first: it was approved.
    const open = unanswered(this.#prompt)
    const approved = open.flatMap(
      (id) => taken(made, (one) => one.id === id && !said.some((call) => call.id === id)) ?? []
    )
    // Ids may be equal: then those belong together that have the same arguments, or that come first.
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
    // What is left are calls that the model has not shown yet.
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
    // Of calls of the prompt, if of any.
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

  /** A call that its provider runs and has not ended. */
  #isHalf(part: Response.AnyPart): boolean {
    return (
      part.type === "tool-call" &&
      part.providerExecuted === true &&
      !this.#parts.some((other) => other.type === "tool-result" && !other.preliminary && other.id === part.id)
    )
  }
}

/** Ids of the calls of a prompt that have no result in it. */
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

/** The first that fits, taken out of the list. */
const taken = <A>(from: Array<A>, fits: (one: A) => boolean): A | undefined => {
  const at = from.findIndex(fits)
  return at < 0 ? undefined : from.splice(at, 1)[0]
}

const toolMessage = (content: ReadonlyArray<Prompt.ToolResultPart>): ReadonlyArray<Prompt.Message> =>
  content.length === 0 ? [] : [Prompt.makeMessage("tool", { content })]

const resultOf = ({ id, name }: Named, result: unknown, isFailure: boolean): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", { id, name, result, isFailure, providerExecuted: false })

/** No target in particular: ids and names stay as they are, only pairs are made whole. */
const anywhere = {
  ref: { id: "", provider: "", model: "", endpoint: "", key: "" },
  dialect: { ...Dialect.defaults, callId: /(?:)/, uniqueCallIds: false, toolName: /(?:)/ },
  names: undefined
}

/** Calls of one answer have different ids, and none is without one. */
const toldApart: Dialect.Dialect = { ...anywhere.dialect, callId: /./, uniqueCallIds: true }
