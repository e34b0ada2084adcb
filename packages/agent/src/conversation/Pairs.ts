/**
 * Pairs tool calls with their results. Afterwards every call has one result, directly after its message and in the
 * order of the calls. Every result has its call. Ids and names match the format of the target.
 *
 * Results without a call are dropped; calls without a result get one that says so. An id or name that the target
 * would reject is rewritten in both call and result. The new value depends only on the messages before it. It is the
 * same in every attempt and every later call, so prompt caches stay valid.
 */
import { Prompt } from "effect/ai"
import { Ids } from "./CallIds.ts"
import { isLocalCall } from "./Parts.ts"
import type { Destination } from "./Parts.ts"
import { nameOf } from "./ToolNames.ts"
import { mapped, same } from "./Unchanged.ts"

type Messages = ReadonlyArray<Prompt.Message>

/**
 * Returns the messages with complete pairs; the same array when nothing changes. `ids` has those of the messages before;
 * default: none.
 */
export const fit = (messages: Messages, to: Destination, ids: Ids = idsFor(to)): Messages =>
  messages.some(({ role, content }) => role === "tool" || (role === "assistant" && content.some(isLocalCall)))
    ? rewritten(paired(messages, to), to, ids)
    : messages

/** Ids of a conversation that begins. */
export const idsFor = ({ dialect }: Destination): Ids => new Ids(dialect.callId, dialect.uniqueCallIds)

const paired = (messages: Messages, { wording }: Destination): Messages => {
  const results = resultsOf(messages)
  let calls = 0
  const out: Array<Prompt.Message> = []
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]
    if (message === undefined) break
    if (message.role === "tool") out.push(...approvalsOf(message))
    else out.push(message)
    if (message.role !== "assistant") continue
    const own = message.content
      .filter(isLocalCall)
      .map((call) => results[calls++] ?? unanswered(call, wording.unanswered))
    if (own.length === 0) continue
    const run = toolMessagesAt(messages, i + 1)
    if (
      same(
        run.flatMap(({ content }) => content.filter(isResult)),
        own
      )
    )
      out.push(...run)
    else {
      out.push(Prompt.makeMessage("tool", { content: own, options: run[0]?.options }))
      out.push(...run.flatMap(approvalsOf))
    }
    i += run.length
  }
  return same(out, messages) ? messages : out
}

/** The result of each call, by number of the call in the conversation. */
const resultsOf = (messages: Messages): ReadonlyArray<Prompt.ToolResultPart | undefined> => {
  const results: Array<Prompt.ToolResultPart | undefined> = []
  // Open calls by id. Some servers restart their ids in each answer, so the latest call with an id counts.
  const open = new Map<string, Array<number>>()
  for (const message of messages) {
    if (message.role === "assistant") {
      const calls = message.content.filter(isLocalCall)
      for (const { id } of calls) open.set(id, [])
      for (const { id } of calls) open.get(id)?.push(results.push(undefined) - 1)
    } else if (message.role === "tool") {
      for (const part of message.content.filter(isResult)) {
        const call = open.get(part.id)?.shift()
        if (call !== undefined) results[call] = part
      }
    }
  }
  return results
}

const isResult = (part: Prompt.ToolMessagePart): part is Prompt.ToolResultPart => part.type === "tool-result"

const toolMessagesAt = (messages: Messages, start: number): ReadonlyArray<Prompt.ToolMessage> => {
  const run: Array<Prompt.ToolMessage> = []
  for (let message = messages[start]; message?.role === "tool"; message = messages[start + run.length]) {
    run.push(message)
  }
  return run
}

/** Approval responses belong to no local call, so they stay in place. */
const approvalsOf = (message: Prompt.ToolMessage): ReadonlyArray<Prompt.ToolMessage> => {
  const content = message.content.filter((part) => part.type === "tool-approval-response")
  if (content.length === 0) return []
  return [content.length === message.content.length ? message : { ...message, content }]
}

const unanswered = ({ id, name }: Prompt.ToolCallPart, result: string): Prompt.ToolResultPart =>
  Prompt.makePart("tool-result", { id, name, isFailure: true, result, providerExecuted: false })

// -----------------------------------------------------------------------------
// Ids and names
// -----------------------------------------------------------------------------

/** Rewrites ids and names. Results must already be in the order of their calls. */
const rewritten = (messages: Messages, { dialect, names: offered }: Destination, ids: Ids): Messages => {
  let names: ReadonlyArray<Named> = []
  let next = 0
  const renamed = <P extends Prompt.ToolCallPart | Prompt.ToolResultPart>(
    part: P,
    to: Named | undefined
  ): P => (to === undefined || (part.id === to.id && part.name === to.name) ? part : { ...part, ...to })
  return mapped(messages, (message): Messages => {
    if (message.role === "assistant") {
      names = message.content
        .filter(isLocalCall)
        .map(({ id, name }) => ({ id: ids.of(id), name: nameOf(name, dialect, offered) }))
      next = 0
      let call = 0
      const content = mapped(message.content, (part) => [
        isLocalCall(part) ? renamed(part, names[call++]) : part
      ])
      return [content === message.content ? message : { ...message, content }]
    }
    if (message.role === "tool") {
      const content = mapped(message.content, (part) => [
        isResult(part) ? renamed(part, names[next++]) : part
      ])
      return [content === message.content ? message : { ...message, content }]
    }
    return [message]
  })
}

interface Named {
  readonly id: string
  readonly name: string
}
