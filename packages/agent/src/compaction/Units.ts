/**
 * A conversation in pieces that stay together: a message, or a message with tool calls and the results behind it.
 *
 * Whoever keeps or drops whole units keeps every call with its result, both ways. A conversation that comes with broken
 * pairs is mended as `Pairs` mends it for a provider. Only calls of the last unit may be open: their tools have yet to
 * run, or somebody has yet to approve of them.
 */
import type { Prompt } from "effect/ai"
import * as Dialects from "../conversation/Dialect.ts"
import * as Pairs from "../conversation/Pairs.ts"
import type { Destination } from "../conversation/Parts.ts"
import { isLocalCall } from "../conversation/Parts.ts"
import * as Wordings from "../conversation/Wording.ts"

export interface Unit {
  /** The place of its first message in the conversation. */
  readonly at: number
  /** At least one. */
  readonly messages: ReadonlyArray<Prompt.Message>
}

type Messages = ReadonlyArray<Prompt.Message>

/** The units of a conversation, and the conversation that they make up: mended, if it was broken. */
export const of = (messages: Messages): ReadonlyArray<Unit> => {
  const units = split(messages)
  const last = units.at(-1)
  if (last === undefined || units.every((unit) => isWhole(unit, unit === last))) return units
  // The last unit is mended only where open calls are not all that it lacks.
  return isWhole(last, true)
    ? split([...Pairs.fit(messages.slice(0, last.at), anywhere), ...last.messages])
    : split(Pairs.fit(messages, anywhere))
}

const split = (messages: Messages): ReadonlyArray<Unit> => {
  const units: Array<Unit> = []
  for (let at = 0; at < messages.length;) {
    let end = at + 1
    if (messages[at]?.role === "assistant") while (messages[end]?.role === "tool") end++
    units.push({ at, messages: messages.slice(at, end) })
    at = end
  }
  return units
}

/** Whether its results have calls and its calls, unless they may be open, results. */
const isWhole = ({ messages }: Unit, mayBeOpen: boolean): boolean => {
  const [first] = messages
  if (first?.role === "system" || first?.role === "user") return true
  const open = first?.role === "assistant" ? first.content.filter(isLocalCall).map(({ id }) => id) : []
  for (const message of messages) {
    if (message.role !== "tool") continue
    for (const part of message.content) {
      if (part.type !== "tool-result") continue
      const call = open.indexOf(part.id)
      if (call < 0) return false
      open.splice(call, 1)
    }
  }
  return mayBeOpen || open.length === 0
}

/** Takes every id and name: pairs are all that is to be mended here. */
const anywhere: Destination = {
  ref: { id: "", provider: "", model: "", endpoint: "", key: "" },
  dialect: { ...Dialects.defaults, callId: /^/, toolName: /^/, uniqueCallIds: false },
  wording: Wordings.defaults,
  names: undefined
}
